//! The head of a request: reads it and checks that it is valid and allowed.

use std::sync::OnceLock;

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, CONNECTION, CONTENT_LENGTH, ORIGIN, VARY,
};
use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderValue, Method, Response, Version};
use mcpjoin_proto::http::classify::HttpMethod;
use mcpjoin_proto::http::headers::{Headers, name};
use mcpjoin_proto::http::origin::{MediaType, accepts, has_json_body, same_origin};

use super::body::HttpBody;
use super::reply;

/// A response that is made before a message is delivered.
pub(super) type Refusal = Box<Response<HttpBody>>;

/// The response to a request: `Err` if the request was refused.
pub(super) type Answer = Result<Response<HttpBody>, Refusal>;

/// The largest number of headers of a request.
pub(super) const MAX_HEADERS: usize = 100;

/// The largest total size of the headers in bytes.
pub(super) const MAX_HEADER_BYTES: usize = 64 * 1024;

/// Refuses a request that gives two lengths: a proxy may have used the other one.
pub(super) fn two_lengths() -> Response<HttpBody> {
    let mut refused = reply::refuse(400, "Content-Length and Transfer-Encoding exclude each other");
    refused.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    refused
}

/// The head of a request as handlers see it ([`Context::http`](crate::connection::Context::http)).
pub(crate) struct RequestParts {
    pub(crate) parts: Parts,
    /// What the admission has added.
    admitted: OnceLock<Extensions>,
}

impl RequestParts {
    pub(super) fn new(mut parts: Parts) -> Self {
        for (name, value) in &mut parts.headers {
            // Not shown when a program logs the head.
            if matches!(name.as_str(), "authorization" | "cookie" | "proxy-authorization") {
                value.set_sensitive(true);
            }
        }
        Self { parts, admitted: OnceLock::new() }
    }

    /// Adds what the admission knows about the client. A request is admitted once.
    pub(super) fn admit(&self, extensions: Extensions) {
        if !extensions.is_empty() {
            self.admitted.get_or_init(|| extensions);
        }
    }

    /// The size of the URI and of all headers, in bytes: what keeping the head costs. Extensions are those of the program.
    pub(crate) fn bytes(&self) -> usize {
        let uri = &self.parts.uri;
        let target = uri.authority().map_or(0, |authority| authority.as_str().len())
            + uri.path_and_query().map_or(0, |target| target.as_str().len());
        let headers = self.parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
        target + headers.sum::<usize>()
    }

    pub(crate) fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.admitted.get().and_then(Extensions::get::<T>).or_else(|| self.parts.extensions.get())
    }
}

/// The resource at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Streamable HTTP.
    Endpoint,
    /// The event stream of 2024-11-05.
    Stream,
    /// The path for messages of 2024-11-05.
    Messages,
}

/// The head of a request.
#[derive(Clone, Copy)]
pub(crate) struct RequestHead<'a> {
    parts: &'a Parts,
    /// The headers that are read for every request, found in one pass: looking up one by its name costs as much as the pass.
    known: [Known<'a>; NAMES.len()],
    /// The host in the target of the request: `:authority` of HTTP/2, which needs no `Host` header.
    authority: Option<&'a str>,
    /// The total size of the headers in bytes.
    bytes: usize,
}

/// The headers of one name.
#[derive(Clone, Copy, Default)]
enum Known<'a> {
    #[default]
    Absent,
    One(&'a HeaderValue),
    Several,
}

/// The names of the headers that are read.
const NAMES: [&str; 12] = [
    name::HOST,
    name::ORIGIN,
    name::CONTENT_TYPE,
    name::ACCEPT,
    name::SESSION_ID,
    name::PROTOCOL_VERSION,
    name::METHOD,
    name::NAME,
    name::LAST_EVENT_ID,
    "content-encoding",
    "content-length",
    "transfer-encoding",
];

/// The index of a name in `NAMES`.
fn known(name: &str) -> Option<usize> {
    Some(match name {
        "host" => 0,
        "origin" => 1,
        "content-type" => 2,
        "accept" => 3,
        "mcp-session-id" => 4,
        "mcp-protocol-version" => 5,
        "mcp-method" => 6,
        "mcp-name" => 7,
        "last-event-id" => 8,
        "content-encoding" => 9,
        "content-length" => 10,
        "transfer-encoding" => 11,
        _ => return None,
    })
}

/// The `Accept` header that most clients send.
const COMMON_ACCEPT: &[u8] = b"application/json, text/event-stream";

impl<'a> RequestHead<'a> {
    pub(crate) fn new(parts: &'a Parts) -> Self {
        let authority = parts.uri.authority().map(http::uri::Authority::as_str);
        let mut head = Self { parts, known: [Known::Absent; NAMES.len()], authority, bytes: 0 };
        for (name, value) in &parts.headers {
            head.bytes += name.as_str().len() + value.len() + 4;
            if let Some(known) = known(name.as_str()) {
                head.known[known] = match head.known[known] {
                    Known::Absent => Known::One(value),
                    _ => Known::Several,
                };
            }
        }
        head
    }

    fn known(&self, name: &str) -> Known<'a> {
        known(name).map_or(Known::Absent, |known| self.known[known])
    }

    pub(super) const fn parts(&self) -> &'a Parts {
        self.parts
    }

    pub(super) fn path(&self) -> &'a str {
        self.parts.uri.path()
    }

    fn headers(&self) -> &'a HeaderMap {
        &self.parts.headers
    }

    pub(super) fn check_size(&self) -> Result<(), Refusal> {
        let uri = self.parts.uri.path_and_query().map_or(0, |path| path.as_str().len());
        if self.headers().len() > MAX_HEADERS || self.bytes + uri > MAX_HEADER_BYTES {
            let text =
                format!("the head of the request is above {MAX_HEADERS} headers or {MAX_HEADER_BYTES} bytes");
            return Err(Box::new(reply::refuse(431, &text)));
        }
        // hyper never passes on both: `framing` detects that.
        let lengths = [self.known("content-length"), self.known("transfer-encoding")];
        if !lengths.iter().any(|length| matches!(length, Known::Absent)) {
            return Err(Box::new(two_lengths()));
        }
        Ok(())
    }

    /// Refuses a request that names no host or two: `Host` is missing or repeated
    /// (<https://www.rfc-editor.org/rfc/rfc9112#section-3.2>), or differs from the target or from `:authority`, and a proxy may
    /// have used either (<https://www.rfc-editor.org/rfc/rfc9112#section-3.2.2>,
    /// <https://www.rfc-editor.org/rfc/rfc9113#section-8.3.1>). A host that both name is checked once.
    pub(super) fn check_host(&self) -> Result<(), Refusal> {
        let (authority, host) = match (self.authority, self.known(name::HOST)) {
            (_, Known::Several) => {
                return Err(Box::new(reply::refuse(400, "the request has more than one Host header")));
            }
            // From HTTP/2 on `:authority` replaces it.
            (Some(_), Known::Absent) if !matches!(self.parts.version, Version::HTTP_11) => return Ok(()),
            (_, Known::Absent) => return Err(Box::new(reply::refuse(400, "the request has no Host header"))),
            (None, Known::One(_)) => return Ok(()),
            (Some(authority), Known::One(host)) => (authority, host),
        };
        let scheme = self.parts.uri.scheme_str().unwrap_or("http");
        let origin = |host: &str| format!("{scheme}://{host}");
        let same = host.as_bytes() == authority.as_bytes()
            || host.to_str().is_ok_and(|host| same_origin(&origin(host), &origin(authority)));
        match same {
            true => Ok(()),
            false => Err(Box::new(reply::refuse(400, "the Host header names another host than the target"))),
        }
    }

    /// Checks the media types of the body and of the response.
    pub(super) fn check_types(&self, method: HttpMethod) -> Result<(), Refusal> {
        match method {
            HttpMethod::Post => {
                self.check_body()?;
                self.check_accept(&[MediaType::Json, MediaType::EventStream])
            }
            HttpMethod::Get => self.check_accept(&[MediaType::EventStream]),
            HttpMethod::Delete | HttpMethod::Other => Ok(()),
        }
    }

    pub(super) fn check_body(&self) -> Result<(), Refusal> {
        if !has_json_body(self) {
            return Err(Box::new(reply::refuse(415, "Content-Type must be application/json")));
        }
        let encoded = !matches!(self.known("content-encoding"), Known::Absent);
        if encoded
            && !self.values("content-encoding").all(|encoding| encoding.eq_ignore_ascii_case(b"identity"))
        {
            return Err(Box::new(reply::refuse(415, "Content-Encoding is not supported")));
        }
        Ok(())
    }

    pub(super) fn check_accept(&self, kinds: &[MediaType]) -> Result<(), Refusal> {
        let usual =
            matches!(self.known(name::ACCEPT), Known::One(accept) if accept.as_bytes() == COMMON_ACCEPT);
        if usual || accepts(self, kinds) {
            return Ok(());
        }
        let text = match kinds {
            [_] => "Accept must name text/event-stream",
            _ => "Accept must name application/json and text/event-stream",
        };
        Err(Box::new(reply::refuse(406, text)))
    }

    pub(super) fn session_id(&self) -> Option<&'a [u8]> {
        match self.known(name::SESSION_ID) {
            Known::Absent => None,
            Known::One(value) => Some(value.as_bytes()),
            // A repeated header counts as an unknown one.
            Known::Several => Some(b""),
        }
    }

    pub(super) fn last_event_id(&self) -> Option<&'a [u8]> {
        match self.known(name::LAST_EVENT_ID) {
            Known::Absent => None,
            Known::One(value) => Some(value.as_bytes()),
            Known::Several => Some(b""),
        }
    }

    /// The response to a CORS preflight request, if this is one.
    pub(super) fn preflight(&self) -> Option<Response<HttpBody>> {
        let asks = self.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        if self.parts.method != Method::OPTIONS || !asks {
            return None;
        }
        let mut response = reply::bare(204);
        self.expose(&mut response);
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
        if let Some(asked) = self.headers().get(ACCESS_CONTROL_REQUEST_HEADERS) {
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
        }
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        Some(response)
    }

    /// A JSON document that every client may read, and every allowed web page.
    pub(super) fn document(&self, document: Bytes) -> Response<HttpBody> {
        let mut response = match self.parts.method {
            Method::GET => reply::json(200, document),
            Method::HEAD => {
                let mut response = reply::json(200, Bytes::new());
                response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(document.len()));
                response
            }
            Method::OPTIONS => {
                let mut response = reply::bare(204);
                let headers = response.headers_mut();
                headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD"));
                // A client may send its revision here.
                headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*"));
                headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
                response
            }
            _ => reply::not_allowed("GET, HEAD, OPTIONS"),
        };
        response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        response
    }

    /// Allows the requesting page to read the response. The guard has allowed its origin.
    pub(super) fn expose(&self, response: &mut Response<HttpBody>) {
        let Some(origin) = self.headers().get(ORIGIN) else { return };
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(
            ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("Mcp-Session-Id, WWW-Authenticate"),
        );
        headers.insert(VARY, HeaderValue::from_static("Origin"));
    }
}

impl Headers for RequestHead<'_> {
    fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let (one, all) = match known(name).map(|known| self.known[known]) {
            Some(Known::Absent) if name == name::HOST => (self.authority.map(str::as_bytes), None),
            Some(Known::Absent) => (None, None),
            Some(Known::One(value)) => (Some(value.as_bytes()), None),
            Some(Known::Several) | None => (None, Some(self.headers().get_all(name))),
        };
        let all = all.into_iter().flat_map(|all| all.into_iter().map(HeaderValue::as_bytes));
        one.into_iter().chain(all)
    }

    fn value(&self, name: &str) -> Option<&[u8]> {
        match self.known(name) {
            Known::One(value) => Some(value.as_bytes()),
            _ => self.values(name).next(),
        }
    }

    fn is_repeated(&self, name: &str) -> bool {
        match known(name).map(|known| self.known[known]) {
            Some(Known::Absent | Known::One(_)) => false,
            Some(Known::Several) | None => self.values(name).nth(1).is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{NAMES, known};

    #[test]
    fn each_name_has_its_place() {
        for (place, name) in NAMES.iter().enumerate() {
            assert_eq!(known(name), Some(place), "{name}");
        }
    }
}
