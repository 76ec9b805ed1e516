//! The head of a request: what it says, and whether it may say so.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, HOST, ORIGIN,
    TRANSFER_ENCODING, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response};
use mcpjoin_proto::http::classify::HttpMethod;
use mcpjoin_proto::http::headers::{Headers, name};
use mcpjoin_proto::http::origin::{MediaType, accepts, has_json_body};

use super::body::HttpBody;
use super::reply;

/// How many headers a request may have.
pub(super) const HEADERS: usize = 100;

/// How many bytes they may have.
pub(super) const HEADER_BYTES: usize = 64 * 1024;

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Streamable HTTP.
    Endpoint,
    /// The stream of 2024-11-05.
    Stream,
    /// Where its messages go.
    Messages,
}

/// The head of a request.
#[derive(Clone, Copy)]
pub(super) struct RequestHead<'a> {
    parts: &'a Parts,
    /// The host of HTTP/2, which has no header for it.
    authority: Option<&'a str>,
}

impl<'a> RequestHead<'a> {
    pub(super) fn new(parts: &'a Parts) -> Self {
        let authority = parts.uri.authority().filter(|_| !parts.headers.contains_key(HOST));
        Self { parts, authority: authority.map(http::uri::Authority::as_str) }
    }

    pub(super) fn path(&self) -> &'a str {
        self.parts.uri.path()
    }

    fn headers(&self) -> &'a HeaderMap {
        &self.parts.headers
    }

    pub(super) fn check_size(&self) -> Result<(), Response<HttpBody>> {
        let headers = self.headers();
        let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        let uri = self.parts.uri.path_and_query().map_or(0, |path| path.as_str().len());
        if headers.len() > HEADERS || bytes + uri > HEADER_BYTES {
            let text = format!("the head of the request is above {HEADERS} headers or {HEADER_BYTES} bytes");
            return Err(reply::refuse(431, &text));
        }
        // Two lengths: who stands between may have believed the other one.
        if headers.contains_key(TRANSFER_ENCODING) && headers.contains_key(CONTENT_LENGTH) {
            let mut refused = reply::refuse(400, "Content-Length and Transfer-Encoding exclude each other");
            refused.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            return Err(refused);
        }
        Ok(())
    }

    /// The types of the body and of the reply.
    pub(super) fn check_types(&self, method: HttpMethod) -> Result<(), Response<HttpBody>> {
        match method {
            HttpMethod::Post => {
                self.check_body()?;
                self.check_accept(&[MediaType::Json, MediaType::EventStream])
            }
            HttpMethod::Get => self.check_accept(&[MediaType::EventStream]),
            HttpMethod::Delete | HttpMethod::Other => Ok(()),
        }
    }

    pub(super) fn check_body(&self) -> Result<(), Response<HttpBody>> {
        if !has_json_body(self) {
            return Err(reply::refuse(415, "Content-Type must be application/json"));
        }
        let plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
        if !self.headers().get_all(CONTENT_ENCODING).iter().all(plain) {
            return Err(reply::refuse(415, "Content-Encoding is not supported"));
        }
        Ok(())
    }

    pub(super) fn check_accept(&self, kinds: &[MediaType]) -> Result<(), Response<HttpBody>> {
        if accepts(self, kinds) {
            return Ok(());
        }
        let text = match kinds {
            [_] => "Accept must name text/event-stream",
            _ => "Accept must name application/json and text/event-stream",
        };
        Err(reply::refuse(406, text))
    }

    pub(super) fn session_id(&self) -> Option<&'a [u8]> {
        let mut values = self.headers().get_all(name::SESSION_ID).iter();
        let value = values.next()?.as_bytes();
        // Two are as good as none that is known.
        Some(if values.next().is_some() { b"" } else { value })
    }

    pub(super) fn last_event_id(&self) -> Option<&'a [u8]> {
        self.headers().get(name::LAST_EVENT_ID).map(HeaderValue::as_bytes)
    }

    /// The answer to a browser that asks before it sends a request, if this is one.
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

    /// Lets the page that has asked read the response. The guard has let it in.
    pub(super) fn expose(&self, response: &mut Response<HttpBody>) {
        let Some(origin) = self.headers().get(ORIGIN) else { return };
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("Mcp-Session-Id"));
        headers.insert(VARY, HeaderValue::from_static("Origin"));
    }
}

impl Headers for RequestHead<'_> {
    fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let authority = self.authority.filter(|_| name == "host");
        self.headers()
            .get_all(name)
            .iter()
            .map(HeaderValue::as_bytes)
            .chain(authority.into_iter().map(str::as_bytes))
    }
}
