//! One request to a place that a server has named: bounded in every way, and to no address that the server has no business
//! to name.
//!
//! Called by discovery, registration and everything that talks to a token endpoint. It has a client of its own, apart from
//! the link's: no header, no cookie and no credential of the link ever comes along. It follows redirects of a GET without
//! credentials alone, within one origin, and reads no more than [`MOST_BYTES`]. Names are resolved by its own resolver,
//! which lets through only what [`address`](super::address) allows, at the moment of connecting: what a name says later
//! (DNS rebinding) counts for nothing. Where a proxy stands between, the proxy resolves.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations>

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use mcpjoin_proto::Raw;
use mcpjoin_proto::http::origin::{Origin, OriginError, resolve_same_origin};
use mcpjoin_proto::session::LinkErrorKind;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Response, Url};

use super::address::{AddressClass, class};
use super::metadata::object;
use crate::link::{HttpSetupError, Proxy, describe, find, readable, shown, tls_config};

/// So much of a body is read, in bytes. Metadata and tokens are a few KiB.
pub(crate) const MOST_BYTES: usize = 1024 * 1024;
/// How long one request may take altogether, redirects and body included.
const WHOLE: Duration = Duration::from_secs(30);
/// How long connecting may take: as for the link.
const CONNECT: Duration = Duration::from_secs(10);
/// How many redirects are followed.
const REDIRECTS: usize = 3;
/// So much of a foreign text is shown, in characters.
const SHOWN: usize = 200;

/// Told of requests.
pub(crate) type OnExchange = Arc<dyn Fn(&Exchange) + Send + Sync>;

/// What a [`Fetcher`] is made with.
#[derive(Clone)]
pub(crate) struct FetchOptions {
    /// Certificates to trust beside those of the system, each PEM.
    pub(crate) extra_ca: Vec<Vec<u8>>,
    /// How long connecting may take.
    pub(crate) connect_timeout: Duration,
    /// Told of every request that was made, and of those that were refused here.
    pub(crate) on_exchange: Option<OnExchange>,
    /// How long one request may take altogether.
    pub(super) whole: Duration,
    /// Who resolves names in place of the system, and of proxies.
    pub(super) lookup: Option<Arc<dyn Lookup>>,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self { extra_ca: Vec::new(), connect_timeout: CONNECT, on_exchange: None, whole: WHOLE, lookup: None }
    }
}

/// One request, for whoever watches. No query and no secret is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The method of HTTP.
    pub method: String,
    /// Where it went, without its query.
    pub url: String,
    /// The status of the answer, or why there is none.
    pub outcome: Result<u16, FetchError>,
}

/// Why nothing came back that can be used. Neither a query nor a secret is in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{method} {url}: {what}")]
#[non_exhaustive]
pub struct FetchError {
    /// The method of HTTP.
    pub method: String,
    /// Where it was to go, without its query.
    pub url: String,
    /// In which way it failed.
    pub kind: FetchErrorKind,
    /// What happened, in words.
    pub what: String,
}

/// In which way a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FetchErrorKind {
    /// The URL is none that is asked: nothing was sent.
    Url,
    /// It leads to an address that the server has no business to name: nothing was sent.
    Address,
    /// The answer leads elsewhere, and was not followed.
    Redirect,
    /// More came than is read.
    TooLarge,
    /// It took too long.
    TimedOut,
    /// No connection came about.
    Unreached,
    /// TLS found nobody whom it trusts.
    Untrusted,
    /// The connection broke.
    Broken,
}

impl FetchErrorKind {
    /// What it is to a link, where the network is why: the same may succeed later, or from elsewhere. `None`: somebody has answered,
    /// or nobody was asked.
    pub(super) const fn of_network(self) -> Option<LinkErrorKind> {
        match self {
            Self::TimedOut | Self::Unreached | Self::Broken => Some(LinkErrorKind::Unreached),
            Self::Untrusted => Some(LinkErrorKind::Untrusted),
            Self::Url | Self::Address | Self::Redirect | Self::TooLarge => None,
        }
    }
}

/// An answer, whatever its status.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// At most [`MOST_BYTES`]; empty where nobody wants it.
    pub(crate) body: Bytes,
    /// Where it came from, after all redirects.
    pub(crate) url: Url,
}

impl Fetched {
    /// The body as the JSON object that it has to be, in which no member stands twice. The error is for a person, and shows
    /// nothing of the body: it may be an answer with a token in it.
    pub(crate) fn json(&self) -> Result<Raw, String> {
        object(self.body.clone())
    }

    /// What the body is said to be, cut and made readable.
    pub(crate) fn content_type(&self) -> Option<String> {
        let value = self.headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes)?;
        Some(readable(&value[..value.len().min(80)]))
    }
}

/// A text that came from elsewhere, cut and on one line.
pub(crate) fn cut(text: &str) -> String {
    let text = readable(text.as_bytes());
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Resolves names. Tests have their own.
pub(crate) trait Lookup: Send + Sync {
    /// The addresses of a name.
    fn lookup(&self, name: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;
}

struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, name: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// A name leads to an address that is not allowed.
#[derive(Debug, thiserror::Error)]
#[error("{host} is {class}, and that is not where the server itself is: nothing was sent")]
struct Refused {
    host: String,
    class: AddressClass,
}

/// Where the server is that the user has named, and so what may be asked on its behalf.
struct Neighbourhood {
    /// The host of the server, as `Url` writes it.
    home: String,
    /// The address that the host is, where it is one.
    literal: Option<IpAddr>,
    /// The classes of its addresses, as they were found first. What they become later counts for nothing.
    classes: OnceLock<Vec<AddressClass>>,
    lookup: Arc<dyn Lookup>,
}

impl Neighbourhood {
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

    /// Whether an address may be asked, given the classes that the server's own addresses have.
    fn allows(&self, address: IpAddr, classes: &[AddressClass]) -> bool {
        match class(address) {
            AddressClass::Public => true,
            of @ (AddressClass::Private | AddressClass::Loopback) => classes.contains(&of),
            // Nobody is led there; the user may have meant it.
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
            // Not known: then nothing but public addresses.
            Err(_) => &[],
        }
    }

    /// The server's addresses have been looked up. Only the first answer that there is counts.
    fn found_home(&self, found: &[IpAddr]) -> &[AddressClass] {
        if found.is_empty() {
            return self.classes.get().map_or(&[], Vec::as_slice);
        }
        self.classes.get_or_init(|| {
            let classes: Vec<AddressClass> = found.iter().map(|address| class(*address)).collect();
            // Who is on the internet, too, does not become a neighbour by naming an address beside it.
            if classes.contains(&AddressClass::Public) { vec![AddressClass::Public] } else { classes }
        })
    }

    /// The addresses of a name that may be asked; an error when it has others alone.
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
                Err(Box::new(Refused { host: format!("{name} ({address})"), class: class(address) }))
            }
            _ => Ok(found),
        }
    }
}

/// The form in which the client asks for addresses.
struct Resolver(Arc<Neighbourhood>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (here, name) = (Arc::clone(&self.0), name.as_str().to_owned());
        Box::pin(async move {
            let found = here.resolve(name).await?;
            let addresses: Addrs = Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

/// The address that the host of a URL is.
fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Names that lead nowhere but here (RFC 6761, 6.3).
fn is_localhost(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost")
}

/// Asks what a server has named, on its behalf. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Fetcher(Arc<Inner>);

struct Inner {
    /// For what is reached without a proxy: names are resolved and judged here.
    direct: reqwest::Client,
    /// For what is reached through one, which resolves the names.
    proxied: reqwest::Client,
    neighbourhood: Arc<Neighbourhood>,
    options: FetchOptions,
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").field("home", &self.0.neighbourhood.home).finish_non_exhaustive()
    }
}

/// A request to make.
struct Asking {
    method: Method,
    headers: HeaderMap,
    body: Option<Bytes>,
    /// Whether the body of the answer is wanted.
    reads: bool,
}

impl Fetcher {
    /// For what the server at that URL names. Nothing is connected.
    ///
    /// # Errors
    /// When the URL or a certificate cannot be used.
    pub(crate) fn new(home: &str, options: FetchOptions) -> Result<Self, HttpSetupError> {
        let home = url_of(home).map_err(|problem| HttpSetupError::Url(problem.to_string()))?;
        let tls = tls_config(&options.extra_ca)?;
        let lookup = options.lookup.clone().unwrap_or_else(|| Arc::new(SystemLookup));
        let neighbourhood = Arc::new(Neighbourhood::new(&home, lookup));
        let client = || {
            reqwest::Client::builder()
                .tls_backend_preconfigured(tls.clone())
                .redirect(reqwest::redirect::Policy::none())
                .referer(false)
                .connect_timeout(options.connect_timeout)
        };
        let failed = |error: reqwest::Error| HttpSetupError::Client(crate::link::root(&error));
        let direct = client().no_proxy().dns_resolver(Arc::new(Resolver(Arc::clone(&neighbourhood))));
        let direct = direct.build().map_err(failed)?;
        let proxied = client().build().map_err(failed)?;
        Ok(Self(Arc::new(Inner { direct, proxied, neighbourhood, options })))
    }

    /// The same for what another server names, which the user has named as well.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn of(&self, home: &str) -> Result<Self, HttpSetupError> {
        Self::new(home, self.0.options.clone())
    }

    /// Whether a URL may be asked, as far as that can be said without asking: scheme, host, and the address that the host
    /// is. Nothing is sent to it.
    ///
    /// # Errors
    /// Says what is wrong with it, of kind [`Url`](FetchErrorKind::Url) or [`Address`](FetchErrorKind::Address).
    pub(crate) async fn check(&self, url: &str) -> Result<Url, FetchError> {
        self.admit(&Method::GET, url).await
    }

    /// A GET. Redirects are followed within the origin, three of them, and none where a credential is in the headers.
    ///
    /// # Errors
    /// When there is no answer, or none that can be read within the bounds.
    pub(crate) async fn get(&self, url: &str, headers: HeaderMap) -> Result<Fetched, FetchError> {
        self.told(url, Asking { method: Method::GET, headers, body: None, reads: true }).await
    }

    /// A POST. No redirect is followed: what is sent may be secret.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub(crate) async fn post(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Fetched, FetchError> {
        self.told(url, Asking { method: Method::POST, headers, body: Some(body), reads: true }).await
    }

    /// A POST of which nobody reads the answer's body: it may be a stream that does not end.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub(crate) async fn head_of_post(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Fetched, FetchError> {
        self.told(url, Asking { method: Method::POST, headers, body: Some(body), reads: false }).await
    }

    /// Makes a request within its time, and tells of it.
    async fn told(&self, url: &str, asking: Asking) -> Result<Fetched, FetchError> {
        let whole = self.0.options.whole;
        let outcome = match tokio::time::timeout(whole, self.ask(url, &asking)).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let what = format!("no whole answer within {} ms", whole.as_millis());
                Err(failed(&asking.method, url, FetchErrorKind::TimedOut, what))
            }
        };
        if let Some(told) = &self.0.options.on_exchange {
            let (url, outcome) = match &outcome {
                Ok(fetched) => (shown(&fetched.url), Ok(fetched.status.as_u16())),
                Err(error) => (error.url.clone(), Err(error.clone())),
            };
            told(&Exchange { method: asking.method.to_string(), url, outcome });
        }
        outcome
    }

    async fn ask(&self, url: &str, asking: &Asking) -> Result<Fetched, FetchError> {
        let mut url = self.admit(&asking.method, url).await?;
        for _ in 0..=REDIRECTS {
            let response = self.once(&url, asking).await?;
            if !is_redirect(response.status()) {
                return self.read(url, response, asking).await;
            }
            let to = target(&url, asking, &response)
                .map_err(|what| failed(&asking.method, url.as_str(), FetchErrorKind::Redirect, what))?;
            url = self.admit(&asking.method, &to).await?;
        }
        let what = format!("more than {REDIRECTS} redirects");
        Err(failed(&asking.method, url.as_str(), FetchErrorKind::Redirect, what))
    }

    async fn once(&self, url: &Url, asking: &Asking) -> Result<Response, FetchError> {
        let proxy = if self.0.options.lookup.is_some() { None } else { Proxy::to(url) };
        let client = if proxy.is_some() { &self.0.proxied } else { &self.0.direct };
        let mut request = client.request(asking.method.clone(), url.clone()).headers(asking.headers.clone());
        if let Some(body) = &asking.body {
            request = request.body(body.clone());
        }
        request.send().await.map_err(|error| self.described(&error, url, asking, proxy.as_ref()))
    }

    async fn read(&self, url: Url, mut response: Response, asking: &Asking) -> Result<Fetched, FetchError> {
        let (status, headers) = (response.status(), response.headers().clone());
        let too_large = || {
            let what = format!("more than {MOST_BYTES} bytes came: cut there");
            failed(&asking.method, url.as_str(), FetchErrorKind::TooLarge, what)
        };
        let mut body = Vec::new();
        if asking.reads {
            if response.content_length().is_some_and(|length| length > MOST_BYTES as u64) {
                return Err(too_large());
            }
            loop {
                let chunk = response.chunk().await;
                let chunk = chunk.map_err(|error| self.described(&error, &url, asking, None))?;
                let Some(chunk) = chunk else { break };
                if body.len() + chunk.len() > MOST_BYTES {
                    return Err(too_large());
                }
                body.extend_from_slice(&chunk);
            }
        }
        Ok(Fetched { status, headers, body: body.into(), url })
    }

    /// The URL, where it may be asked.
    async fn admit(&self, method: &Method, url: &str) -> Result<Url, FetchError> {
        let refused = |kind, what| failed(method, url, kind, what);
        let parsed = url_of(url).map_err(|problem| refused(FetchErrorKind::Url, problem.to_string()))?;
        let is_plain = parsed.scheme() == "http";
        if is_plain && !Origin::of(parsed.as_str()).is_ok_and(|origin| origin.is_loopback()) {
            let what = "it is http, and only this machine is asked without TLS: nothing was sent".to_owned();
            return Err(refused(FetchErrorKind::Url, what));
        }
        let here = &self.0.neighbourhood;
        // Where a proxy resolves names, nobody else would look at this one.
        let host = parsed.host_str().unwrap_or_default();
        let here_named = is_localhost(host).then_some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let Some(address) = literal(&parsed).or(here_named) else { return Ok(parsed) };
        let is_public = class(address) == AddressClass::Public;
        if is_public || here.allows(address, here.classes().await) {
            return Ok(parsed);
        }
        let what = Refused { host: host.to_owned(), class: class(address) }.to_string();
        Err(refused(FetchErrorKind::Address, what))
    }

    fn described(
        &self,
        error: &reqwest::Error,
        url: &Url,
        asking: &Asking,
        proxy: Option<&Proxy>,
    ) -> FetchError {
        if let Some(refused) = find::<Refused>(error) {
            return failed(&asking.method, url.as_str(), FetchErrorKind::Address, refused.to_string());
        }
        let (kind, mut what, _) = describe(error, url, self.0.options.connect_timeout, proxy.is_some());
        if let Some(proxy) = proxy {
            what = format!("{what} ({proxy})");
        }
        let kind = match kind {
            LinkErrorKind::Unreached => FetchErrorKind::Unreached,
            LinkErrorKind::Untrusted => FetchErrorKind::Untrusted,
            _ => FetchErrorKind::Broken,
        };
        failed(&asking.method, url.as_str(), kind, what)
    }
}

fn failed(method: &Method, url: &str, kind: FetchErrorKind, what: String) -> FetchError {
    FetchError { method: method.to_string(), url: shown_text(url), kind, what }
}

/// A URL for people, also where it is none: letter by letter as it was written, but without its query and without a
/// password.
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

/// A URL that has one meaning alone.
fn url_of(text: &str) -> Result<Url, Unusable> {
    let origin = Origin::of(text).map_err(Unusable::Origin)?;
    let mut url = Url::parse(text).map_err(|_| Unusable::Ambiguous)?;
    url.set_fragment(None);
    // Two readers of one URL must agree on where it leads.
    if Origin::of(url.as_str()).as_ref() != Ok(&origin) {
        return Err(Unusable::Ambiguous);
    }
    Ok(url)
}

#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("it is no URL that is asked: {0}")]
    Origin(OriginError),
    #[error("it is no URL that is asked: it could be read in two ways")]
    Ambiguous,
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Where a redirect leads, when it is followed.
fn target(url: &Url, asking: &Asking, response: &Response) -> Result<String, String> {
    let status = response.status();
    let location = response.headers().get(header::LOCATION).and_then(|location| location.to_str().ok());
    let Some(location) = location else {
        return Err(format!("{status} without a Location that can be read"));
    };
    if asking.method != Method::GET || asking.headers.contains_key(header::AUTHORIZATION) {
        return Err(format!("{status}: what may hold a secret is not sent on"));
    }
    resolve_same_origin(url.as_str(), location).map_err(|error| match error {
        OriginError::OtherOrigin => {
            format!("{status} leads to {}, which is another origin: not followed", shown_text(location))
        }
        error => format!("{status} leads to a URL that is not followed: {error}"),
    })
}

#[cfg(test)]
mod tests;
