//! One request to a URL that a server has named: bounded, and to no address that the server must not name.
//!
//! Called by discovery, registration and everything that uses a token endpoint. It has a client of its own, so no header and
//! no credential of the transport is sent. It follows redirects only for a GET without credentials and only within one
//! origin, and reads at most [`MAX_BODY_BYTES`]. Its client resolves names with a hook that returns only what
//! [`address`](super::address) allows, at the moment of connecting, so a later answer for the name (DNS rebinding) has no
//! effect. Through a proxy, the proxy resolves names.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations>

use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use mcpjoin_proto::Raw;
use mcpjoin_proto::http::origin::{Origin, OriginError, resolve_same_origin};
use mcpjoin_proto::session::TransportErrorKind;
use url::Url;

use super::address::{AddressClass, class};
use super::metadata::object;
use mcpjoin::internal::http::{
    Client, ClientOptions, Error as ExchangeError, HttpSetupError, Proxies, Proxy, ResolveHook, Resolving,
    Response, describe, find, shown, tls_config,
};
use mcpjoin::internal::readable;

/// How much of a body is read. Metadata and tokens have a few KiB.
pub(crate) const MAX_BODY_BYTES: usize = 1024 * 1024;
/// How long one request may take altogether, redirects and body included.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);
/// How long connecting may take: as for the transport.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How many redirects of one request are followed.
const MAX_REDIRECTS: usize = 3;
/// How much of a foreign text is shown.
const MAX_SHOWN_CHARS: usize = 200;

/// Called for each request.
pub(crate) type OnExchange = Arc<dyn Fn(&Exchange) + Send + Sync>;

/// The options of a [`Fetcher`].
#[derive(Clone)]
#[allow(
    missing_debug_implementations,
    reason = "it holds a function, and only the crates of this repository see it"
)]
pub struct FetchOptions {
    /// Certificates that are trusted beside those of the system, each PEM.
    pub extra_ca: Vec<Vec<u8>>,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// Called for every request, also for one that is refused here.
    pub(crate) on_exchange: Option<OnExchange>,
    /// How long one request may take altogether.
    pub(super) timeout: Duration,
    /// Resolves names in place of the system and of proxies.
    pub(super) lookup: Option<Arc<dyn Lookup>>,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self {
            extra_ca: Vec::new(),
            connect_timeout: CONNECT_TIMEOUT,
            on_exchange: None,
            timeout: FETCH_TIMEOUT,
            lookup: None,
        }
    }
}

/// One request, as it is logged. It contains no query and no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The method of HTTP.
    pub method: String,
    /// The URL without its query.
    pub url: String,
    /// The status of the response, or why there is none.
    pub outcome: Result<u16, FetchError>,
}

/// Why there is no response that can be used. It contains neither a query nor a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{method} {url}: {what}")]
#[non_exhaustive]
pub struct FetchError {
    /// The method of HTTP.
    pub method: String,
    /// The URL without its query.
    pub url: String,
    /// The kind of failure.
    pub kind: FetchErrorKind,
    /// What happened, for people.
    pub what: String,
}

/// The kind of failure of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FetchErrorKind {
    /// The URL cannot be used: nothing was sent.
    Url,
    /// The URL leads to an address that the server must not name: nothing was sent.
    Address,
    /// The response is a redirect that is not followed.
    Redirect,
    /// The body is longer than what is read.
    TooLarge,
    /// It took too long.
    TimedOut,
    /// No connection was made.
    Unreached,
    /// TLS does not trust the server.
    Untrusted,
    /// The connection broke.
    Broken,
}

impl FetchErrorKind {
    /// The kind of error of a link if the network is the cause, so that the same may succeed later. `None`: a server has
    /// responded, or nothing was sent.
    pub(super) const fn of_network(self) -> Option<TransportErrorKind> {
        match self {
            Self::TimedOut | Self::Unreached | Self::Broken => Some(TransportErrorKind::Unreachable),
            Self::Untrusted => Some(TransportErrorKind::Untrusted),
            Self::Url | Self::Address | Self::Redirect | Self::TooLarge => None,
        }
    }
}

/// A response, whatever its status.
#[derive(Debug)]
pub struct Fetched {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// At most [`MAX_BODY_BYTES`]; empty if it was not read.
    pub body: Bytes,
    /// The URL after all redirects.
    pub url: Url,
}

impl Fetched {
    /// The body as a JSON object without duplicate members. The error is for people and shows nothing of the body, which may
    /// contain a token.
    pub(crate) fn json(&self) -> Result<Raw, String> {
        object(self.body.clone())
    }

    /// The content type, truncated and escaped.
    pub(crate) fn content_type(&self) -> Option<String> {
        let value = self.headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes)?;
        Some(readable(&value[..value.len().min(80)]))
    }
}

/// A foreign text, truncated and escaped, on one line.
pub(crate) fn cut(text: &str) -> String {
    let text = readable(text.as_bytes());
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Resolves names. Tests have their own.
pub(crate) trait Lookup: Send + Sync {
    /// The addresses of a name.
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// A host has an address that is not allowed.
#[derive(Debug, thiserror::Error)]
#[error("{host} is {class}, unlike the server itself: nothing was sent")]
struct AddressRefused {
    host: String,
    class: AddressClass,
}

/// Which addresses may be connected to for a server: public ones, and those of the kind that the server itself has.
struct AddressFilter {
    /// The host of the server, as `Url` writes it.
    home: String,
    /// The address in the URL, if its host is one.
    literal: Option<IpAddr>,
    /// The classes of its addresses, as they were resolved first. Later answers do not change them.
    classes: OnceLock<Vec<AddressClass>>,
    lookup: Arc<dyn Lookup>,
}

impl AddressFilter {
    fn new(home: &Url, lookup: Arc<dyn Lookup>) -> Self {
        let literal = literal(home);
        let classes = OnceLock::new();
        let host = home.host_str().unwrap_or_default().to_owned();
        let known = match literal {
            Some(address) => Some(class(address)),
            None if is_localhost(&host) => Some(AddressClass::Loopback),
            None => None,
        };
        if let Some(known) = known {
            let _ = classes.set(vec![known]);
        }
        Self { home: host, literal, classes, lookup }
    }

    /// Whether an address may be connected to, given the classes of the server's own addresses.
    fn allows(&self, address: IpAddr, classes: &[AddressClass]) -> bool {
        match class(address) {
            AddressClass::Public => true,
            of @ (AddressClass::Private | AddressClass::Loopback) => classes.contains(&of),
            // Only if the user has named that address.
            AddressClass::LinkLocal | AddressClass::Never => self.literal == Some(address),
        }
    }

    /// The classes of the server's own addresses.
    async fn classes(&self) -> &[AddressClass] {
        if let Some(classes) = self.classes.get() {
            return classes;
        }
        match self.lookup.lookup(self.home.clone()).await {
            Ok(found) => self.found_home(&found),
            // Unknown: only public addresses are allowed.
            Err(_) => &[],
        }
    }

    /// Records the resolved addresses of the server. Only the first answer counts.
    fn found_home(&self, found: &[IpAddr]) -> &[AddressClass] {
        if found.is_empty() {
            return self.classes.get().map_or(&[], Vec::as_slice);
        }
        self.classes.get_or_init(|| {
            let classes: Vec<AddressClass> = found.iter().map(|address| class(*address)).collect();
            // A server that also has a public address gets no access by naming a private one beside it.
            if classes.contains(&AddressClass::Public) { vec![AddressClass::Public] } else { classes }
        })
    }

    /// The addresses of a name that may be connected to.
    ///
    /// # Errors
    /// When the name is not resolved, or none of its addresses is allowed.
    async fn resolve(&self, name: String) -> Result<Vec<IpAddr>, Box<dyn Error + Send + Sync>> {
        let mut found = self.lookup.lookup(name.clone()).await?;
        let classes = if name.eq_ignore_ascii_case(&self.home) {
            self.found_home(&found)
        } else if found.iter().all(|address| class(*address) == AddressClass::Public) {
            &[]
        } else {
            self.classes().await
        };
        let refused = found.iter().find(|address| !self.allows(**address, classes)).copied();
        found.retain(|address| self.allows(*address, classes));
        match (found.is_empty(), refused) {
            (true, Some(address)) => {
                Err(Box::new(AddressRefused { host: format!("{name} ({address})"), class: class(address) }))
            }
            _ => Ok(found),
        }
    }
}

/// The address in a URL, if its host is one.
fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Whether a name is one of this machine ([RFC 6761, 6.3](https://www.rfc-editor.org/rfc/rfc6761#section-6.3)).
fn is_localhost(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost")
}

/// Fetches what a server has named. Cheap to clone.
#[derive(Clone)]
pub struct Fetcher(Arc<Inner>);

struct Inner {
    /// Resolves names with the filter, unless a proxy resolves them.
    client: Client,
    filter: Arc<AddressFilter>,
    options: FetchOptions,
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").field("home", &self.0.filter.home).finish_non_exhaustive()
    }
}

/// A request to send.
struct FetchRequest {
    method: Method,
    headers: HeaderMap,
    body: Option<Bytes>,
    /// Whether the body of the response is read.
    reads_body: bool,
}

impl Fetcher {
    /// A fetcher for what the server at `home` names. Nothing is connected.
    ///
    /// # Errors
    /// When the URL or a certificate cannot be used.
    #[doc(hidden)]
    pub fn new(home: &str, options: FetchOptions) -> Result<Self, HttpSetupError> {
        let home = url_of(home).map_err(HttpSetupError::Url)?;
        let tls = tls_config(&options.extra_ca)?;
        let lookup = options.lookup.clone().unwrap_or_else(|| Arc::new(SystemLookup));
        let filter = Arc::new(AddressFilter::new(&home, lookup));
        let resolver = Arc::clone(&filter);
        let resolve: ResolveHook = Arc::new(move |name| -> Resolving {
            let filter = Arc::clone(&resolver);
            Box::pin(async move { filter.resolve(name).await })
        });
        let client = Client::new(ClientOptions {
            proxies: options.lookup.is_none().then(Proxies::from_system),
            resolve: Some(resolve),
            ..ClientOptions::new(tls, options.connect_timeout)
        });
        Ok(Self(Arc::new(Inner { client, filter, options })))
    }

    /// A fetcher with the same options for what another server names, which the user has named as well.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn of(&self, home: &str) -> Result<Self, HttpSetupError> {
        Self::new(home, self.0.options.clone())
    }

    /// Checks whether a URL may be fetched, as far as that is known without connecting: scheme, host, and the address in the
    /// URL. Nothing is sent.
    ///
    /// # Errors
    /// What is wrong with it, of kind [`Url`](FetchErrorKind::Url) or [`Address`](FetchErrorKind::Address).
    pub(crate) async fn check(&self, url: &str) -> Result<Url, FetchError> {
        self.checked_url(&Method::GET, url).await
    }

    /// A GET. Follows three redirects within the origin, and none if the headers contain a credential.
    ///
    /// # Errors
    /// When there is no response, or none within the limits.
    #[doc(hidden)]
    pub async fn get(&self, url: &str, headers: HeaderMap) -> Result<Fetched, FetchError> {
        let request = FetchRequest { method: Method::GET, headers, body: None, reads_body: true };
        self.fetch_logged(url, request).await
    }

    /// A POST. Follows no redirect, because what is sent may be secret.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub(crate) async fn post(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Fetched, FetchError> {
        let request = FetchRequest { method: Method::POST, headers, body: Some(body), reads_body: true };
        self.fetch_logged(url, request).await
    }

    /// A POST whose response body is not read: it may be a stream that does not end.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub(crate) async fn head_of_post(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Fetched, FetchError> {
        let request = FetchRequest { method: Method::POST, headers, body: Some(body), reads_body: false };
        self.fetch_logged(url, request).await
    }

    /// Sends a request within its timeout, and logs it.
    async fn fetch_logged(&self, url: &str, request: FetchRequest) -> Result<Fetched, FetchError> {
        let limit = self.0.options.timeout;
        let outcome = match tokio::time::timeout(limit, self.fetch(url, &request)).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let what = format!("no complete response within {} ms", limit.as_millis());
                Err(failed(&request.method, url, FetchErrorKind::TimedOut, what))
            }
        };
        if let Some(log) = &self.0.options.on_exchange {
            let (url, outcome) = match &outcome {
                Ok(fetched) => (shown(&fetched.url), Ok(fetched.status.as_u16())),
                Err(error) => (error.url.clone(), Err(error.clone())),
            };
            log(&Exchange { method: request.method.to_string(), url, outcome });
        }
        outcome
    }

    async fn fetch(&self, url: &str, request: &FetchRequest) -> Result<Fetched, FetchError> {
        let mut url = self.checked_url(&request.method, url).await?;
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send_once(&url, request).await?;
            if !is_redirect(response.status()) {
                return self.read(url, response, request).await;
            }
            let to = target(&url, request, &response)
                .map_err(|what| failed(&request.method, url.as_str(), FetchErrorKind::Redirect, what))?;
            url = self.checked_url(&request.method, &to).await?;
        }
        let what = format!("more than {MAX_REDIRECTS} redirects");
        Err(failed(&request.method, url.as_str(), FetchErrorKind::Redirect, what))
    }

    async fn send_once(&self, url: &Url, request: &FetchRequest) -> Result<Response, FetchError> {
        let proxy = if self.0.options.lookup.is_some() { None } else { Proxy::to(url) };
        let sent =
            self.0.client.send(request.method.clone(), url, request.headers.clone(), request.body.clone());
        sent.await.map_err(|error| self.described(&error, url, request, proxy.as_ref()))
    }

    async fn read(
        &self,
        url: Url,
        mut response: Response,
        request: &FetchRequest,
    ) -> Result<Fetched, FetchError> {
        let (status, headers) = (response.status(), response.headers().clone());
        let too_large = || {
            let what = format!("the response exceeds {MAX_BODY_BYTES} bytes and was truncated");
            failed(&request.method, url.as_str(), FetchErrorKind::TooLarge, what)
        };
        let mut body = Vec::new();
        if request.reads_body {
            if response.content_length().is_some_and(|length| length > MAX_BODY_BYTES as u64) {
                return Err(too_large());
            }
            loop {
                let chunk = response.chunk().await;
                let chunk = chunk.map_err(|error| self.described(&error, &url, request, None))?;
                let Some(chunk) = chunk else { break };
                if body.len() + chunk.len() > MAX_BODY_BYTES {
                    return Err(too_large());
                }
                body.extend_from_slice(&chunk);
            }
        }
        Ok(Fetched { status, headers, body: body.into(), url })
    }

    /// The URL, if it may be fetched.
    async fn checked_url(&self, method: &Method, url: &str) -> Result<Url, FetchError> {
        let refused = |kind, what| failed(method, url, kind, what);
        let parsed = url_of(url).map_err(|problem| refused(FetchErrorKind::Url, problem))?;
        let is_plain = parsed.scheme() == "http";
        if is_plain && !Origin::of(parsed.as_str()).is_ok_and(|origin| origin.is_loopback()) {
            let what = "it is http, which is allowed only on this machine: nothing was sent".to_owned();
            return Err(refused(FetchErrorKind::Url, what));
        }
        let filter = &self.0.filter;
        // A proxy would resolve this name without the filter.
        let host = parsed.host_str().unwrap_or_default();
        let this_machine = is_localhost(host).then_some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let Some(address) = literal(&parsed).or(this_machine) else { return Ok(parsed) };
        let is_public = class(address) == AddressClass::Public;
        if is_public || filter.allows(address, filter.classes().await) {
            return Ok(parsed);
        }
        let what = AddressRefused { host: host.to_owned(), class: class(address) }.to_string();
        Err(refused(FetchErrorKind::Address, what))
    }

    fn described(
        &self,
        error: &ExchangeError,
        url: &Url,
        request: &FetchRequest,
        proxy: Option<&Proxy>,
    ) -> FetchError {
        if let Some(refused) = find::<AddressRefused>(error) {
            return failed(&request.method, url.as_str(), FetchErrorKind::Address, refused.to_string());
        }
        let described = describe(error, url, self.0.options.connect_timeout, proxy.is_some());
        let mut what = described.message;
        if let Some(proxy) = proxy {
            what = format!("{what} ({proxy})");
        }
        let kind = match described.kind {
            TransportErrorKind::Unreachable => FetchErrorKind::Unreached,
            TransportErrorKind::Untrusted => FetchErrorKind::Untrusted,
            _ => FetchErrorKind::Broken,
        };
        failed(&request.method, url.as_str(), kind, what)
    }
}

fn failed(method: &Method, url: &str, kind: FetchErrorKind, what: String) -> FetchError {
    FetchError { method: method.to_string(), url: shown_text(url), kind, what }
}

/// A text that may be a URL, for people: as it was written, but without its query and without a password.
pub(super) fn shown_text(url: &str) -> String {
    let (base, rest) = url.split_at(url.find(['?', '#']).unwrap_or(url.len()));
    let authority =
        base.split_once("://").map_or(base, |(_, rest)| rest.split('/').next().unwrap_or_default());
    if authority.contains('@') {
        return "(a URL with a user name in it)".into();
    }
    let more = match rest.chars().next() {
        Some(mark) => format!("{mark}..."),
        None => String::new(),
    };
    format!("{}{more}", cut(base))
}

/// Parses a URL whose origin both parsers of URLs read in the same way. The error is for people.
fn url_of(text: &str) -> Result<Url, String> {
    let origin = Origin::of(text).map_err(|error| format!("invalid URL: {error}"))?;
    let url = Url::parse(text).ok().filter(|url| Origin::of(url.as_str()).as_ref() == Ok(&origin));
    let mut url = url.ok_or("invalid URL: it can be parsed in two ways")?;
    url.set_fragment(None);
    Ok(url)
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// The target of a redirect, or the reason why it is not followed.
fn target(url: &Url, request: &FetchRequest, response: &Response) -> Result<String, String> {
    let status = response.status();
    let location = response.headers().get(header::LOCATION).and_then(|location| location.to_str().ok());
    let Some(location) = location else {
        return Err(format!("{status} without a valid Location"));
    };
    if request.method != Method::GET || request.headers.contains_key(header::AUTHORIZATION) {
        return Err(format!("{status}: a request that may contain a secret is not redirected"));
    }
    resolve_same_origin(url.as_str(), location).map_err(|error| match error {
        OriginError::OtherOrigin => {
            format!("{status} redirects to {}, another origin: not followed", shown_text(location))
        }
        error => format!("{status} redirects to a URL that is not followed: {error}"),
    })
}

#[cfg(test)]
mod tests;
