//! Checks of `Host` and `Origin`, of media types, and of URLs that must have the same origin.
//!
//! Used by the HTTP server's link before it reads a body: a web page in the user's browser must not reach a server on
//! the user's machine, not even by DNS rebinding. Used by the HTTP client's link for redirects and for the `endpoint`
//! event of 2024-11-05. Only scheme, host and port of a URL are parsed. URLs that parsers interpret differently are
//! rejected, and no name is resolved.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#security-warning>

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::headers::{Headers, name, trim};

/// Why a URL, an origin or a host is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OriginError {
    /// The scheme is neither `http` nor `https`.
    #[error("the scheme is neither http nor https")]
    Scheme,
    /// It contains a user name or a password.
    #[error("a URL with a user name or password is refused")]
    UserInfo,
    /// The host is empty, or parsers interpret it differently.
    #[error("the host is not a plain name, an IPv4 address or an IPv6 address in brackets")]
    Host,
    /// The port is not a number from 1 to 65535.
    #[error("the port is not a number from 1 to 65535")]
    Port,
    /// It contains a backslash, a space or a control character.
    #[error("a backslash, a space or a control character is refused")]
    Character,
    /// Text follows the port of an origin.
    #[error("an origin has no path")]
    Path,
    /// It has another origin.
    #[error("another origin is refused")]
    OtherOrigin,
}

/// A host for comparison: a name in lower case, or an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Host {
    Name(String),
    V4(Ipv4Addr),
    V6(Ipv6Addr),
}

impl Host {
    fn parse(text: &str) -> Result<Self, OriginError> {
        if let Some(address) = text.strip_prefix('[') {
            let address = address.strip_suffix(']').ok_or(OriginError::Host)?;
            return address.parse().map(Self::V6).map_err(|_| OriginError::Host);
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::V4(address));
        }
        // Browsers parse a name with a number as the last label as an address (`0x7f.1`, `2130706433`, `127.1`).
        let last = text.strip_suffix('.').unwrap_or(text).rsplit('.').next().unwrap_or_default();
        let number = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
        let numeric = match number {
            Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
            None => last.bytes().all(|byte| byte.is_ascii_digit()),
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        // Two bytes at a time, because every request is checked and a searcher costs more than the host.
        let empty_label = text.starts_with('.') || text.as_bytes().windows(2).any(|pair| pair == b"..");
        if numeric || !text.bytes().all(plain) || empty_label {
            return Err(OriginError::Host);
        }
        Ok(Self::Name(text.to_ascii_lowercase()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::V4(address) => address.fmt(f),
            Self::V6(address) => write!(f, "[{address}]"),
        }
    }
}

/// Parses `host`, `host:port`, `[v6]` or `[v6]:port`.
fn authority(text: &str) -> Result<(Host, Option<u16>), OriginError> {
    if text.contains('@') {
        return Err(OriginError::UserInfo);
    }
    // The colons of an address in brackets do not separate a port.
    let bracket = match text.bytes().rposition(|byte| byte == b']') {
        Some(bracket) => bracket + 1,
        None if text.starts_with('[') => return Err(OriginError::Host),
        None => 0,
    };
    let colon = text[bracket..].find(':').map(|colon| bracket + colon);
    let (host, port) = match colon {
        Some(colon) => (&text[..colon], Some(port(&text[colon + 1..])?)),
        None => (text, None),
    };
    Ok((Host::parse(host)?, port))
}

fn port(digits: &str) -> Result<u16, OriginError> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(OriginError::Port);
    }
    digits.parse().ok().filter(|port| *port != 0).ok_or(OriginError::Port)
}

/// Scheme, host and port of a URL ([RFC 6454](https://www.rfc-editor.org/rfc/rfc6454)).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    secure: bool,
    host: Host,
    port: u16,
}

impl Origin {
    /// The origin of an `http` or `https` URL with any path.
    ///
    /// # Errors
    /// When the URL has another scheme or a user name, or is ambiguous.
    pub fn of(url: &str) -> Result<Self, OriginError> {
        Self::split(url).map(|(origin, _)| origin)
    }

    /// Parses the value of an `Origin` header, which ends behind the port.
    ///
    /// # Errors
    /// As [`Origin::of`], and when there is a path.
    pub fn parse(text: &str) -> Result<Self, OriginError> {
        match Self::split(text)? {
            (origin, "") => Ok(origin),
            _ => Err(OriginError::Path),
        }
    }

    /// Whether the scheme is `https`.
    #[must_use]
    pub const fn is_secure(&self) -> bool {
        self.secure
    }

    /// Whether the host is `localhost` or a loopback address.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.host)
    }

    /// The host in lower case, an IPv6 address in brackets.
    #[must_use]
    pub fn host(&self) -> String {
        self.host.to_string()
    }

    /// The port, or the default port of the scheme.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The origin, and the rest of the URL.
    fn split(url: &str) -> Result<(Self, &str), OriginError> {
        check_characters(url)?;
        let (scheme, rest) = url.split_once("://").ok_or(OriginError::Scheme)?;
        let secure = match scheme {
            _ if scheme.eq_ignore_ascii_case("https") => true,
            _ if scheme.eq_ignore_ascii_case("http") => false,
            _ => return Err(OriginError::Scheme),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (host, port) = authority(&rest[..end])?;
        let port = port.unwrap_or(if secure { 443 } else { 80 });
        Ok((Self { secure, host, port }, &rest[end..]))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.host)?;
        if self.port == if self.secure { 443 } else { 80 } { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

/// Parsers drop or rewrite these characters, so the checked URL would not be the fetched one.
fn check_characters(url: &str) -> Result<(), OriginError> {
    let bad = |character: char| character == '\\' || character.is_whitespace() || character.is_control();
    if url.contains(bad) { Err(OriginError::Character) } else { Ok(()) }
}

/// Whether two URLs have the same origin. Invalid URLs have none.
#[must_use]
pub fn same_origin(one: &str, other: &str) -> bool {
    matches!((Origin::of(one), Origin::of(other)), (Ok(one), Ok(other)) if one == other)
}

/// Resolves a redirect, or the `endpoint` event of 2024-11-05, against the URL that it came from. Dot segments are kept
/// in the path.
///
/// ```
/// use mcpjoin_proto::http::origin::{OriginError, resolve_same_origin};
///
/// let base = "https://example.com/mcp/sse?x=1";
/// assert_eq!(resolve_same_origin(base, "/messages?id=1").as_deref(), Ok("https://example.com/messages?id=1"));
/// assert_eq!(resolve_same_origin(base, "messages").as_deref(), Ok("https://example.com/mcp/messages"));
/// assert_eq!(resolve_same_origin(base, "//evil.example/m"), Err(OriginError::OtherOrigin));
/// ```
///
/// # Errors
/// When the result has another origin, also from `https` to `http` of one host, or is ambiguous.
pub fn resolve_same_origin(base: &str, reference: &str) -> Result<String, OriginError> {
    let (origin, base_rest) = Origin::split(base)?;
    check_characters(reference)?;
    let same = |url: String| match Origin::of(&url)? {
        found if found == origin => Ok(url),
        _ => Err(OriginError::OtherOrigin),
    };
    if has_scheme(reference) {
        return same(reference.to_owned());
    }
    if reference.starts_with("//") {
        let scheme = if origin.secure { "https" } else { "http" };
        return same(format!("{scheme}:{reference}"));
    }
    if reference.starts_with('/') {
        return Ok(format!("{origin}{reference}"));
    }
    let path = &base_rest[..base_rest.find(['?', '#']).unwrap_or(base_rest.len())];
    let kept = match reference.chars().next() {
        None | Some('#') => &base_rest[..base_rest.find('#').unwrap_or(base_rest.len())],
        Some('?') => path,
        Some(_) => &path[..path.rfind('/').map_or(0, |slash| slash + 1)],
    };
    let root = if kept.starts_with('/') { "" } else { "/" };
    Ok(format!("{origin}{root}{kept}{reference}"))
}

/// Whether a reference starts with a scheme (RFC 3986, 3.1).
fn has_scheme(reference: &str) -> bool {
    let end = reference
        .find(|character: char| !(character.is_ascii_alphanumeric() || matches!(character, '+' | '-' | '.')));
    end.is_some_and(|end| end > 0 && reference[end..].starts_with(':'))
}

fn is_loopback(host: &Host) -> bool {
    match host {
        Host::Name(name) => name == "localhost",
        Host::V4(address) => address.is_loopback(),
        Host::V6(address) => address.is_loopback(),
    }
}

/// The hosts that a request may address, and the origins of web pages that may send it.
#[derive(Clone, Debug, Default)]
pub struct OriginPolicy {
    hosts: Vec<(Host, Option<u16>)>,
    origins: Vec<Origin>,
    loopback: bool,
}

/// Why a request is rejected with 403.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OriginDenied {
    /// `Host` is absent, repeated, invalid or not allowed.
    #[error("the Host header is missing or not allowed")]
    Host,
    /// `Origin` is repeated, invalid, `null` or not allowed.
    #[error("the Origin header is not allowed")]
    Origin,
}

impl OriginPolicy {
    /// Allows no host and no origin. A request without `Origin` is not from a web page and passes the second check.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The default for a server on the user's machine: hosts `localhost`, `127.0.0.1` and `[::1]` on any port, and
    /// pages of these.
    #[must_use]
    pub fn loopback() -> Self {
        Self { loopback: true, ..Self::default() }
    }

    /// Allows a host on one port or, without a port, on every port.
    ///
    /// # Errors
    /// When it is not `host` or `host:port`.
    pub fn allow_host(&mut self, host: &str) -> Result<(), OriginError> {
        self.hosts.push(authority(host)?);
        Ok(())
    }

    /// Allows the pages of an origin.
    ///
    /// # Errors
    /// When it is not `scheme://host` or `scheme://host:port`.
    pub fn allow_origin(&mut self, origin: &str) -> Result<(), OriginError> {
        self.origins.push(Origin::parse(origin)?);
        Ok(())
    }

    /// Checks the headers of a request. Pass the `:authority` of HTTP/2 as `host`.
    ///
    /// # Errors
    /// When the request must be rejected with status 403.
    pub fn check(&self, headers: &(impl Headers + ?Sized)) -> Result<(), OriginDenied> {
        let host = only(headers, name::HOST).ok().flatten().ok_or(OriginDenied::Host)?;
        let (host, port) = text(host).and_then(|host| authority(host).ok()).ok_or(OriginDenied::Host)?;
        let listed = |(allowed, on): &(Host, Option<u16>)| *allowed == host && (on.is_none() || *on == port);
        let allowed = (self.loopback && is_local(&host)) || self.hosts.iter().any(listed);
        if !allowed {
            return Err(OriginDenied::Host);
        }
        let Some(origin) = only(headers, name::ORIGIN).map_err(|()| OriginDenied::Origin)? else {
            return Ok(());
        };
        let origin =
            text(origin).and_then(|origin| Origin::parse(origin).ok()).ok_or(OriginDenied::Origin)?;
        if (self.loopback && is_local(&origin.host)) || self.origins.contains(&origin) {
            Ok(())
        } else {
            Err(OriginDenied::Origin)
        }
    }
}

/// Whether a host is a default name of this machine.
fn is_local(host: &Host) -> bool {
    match host {
        Host::Name(name) => name == "localhost",
        Host::V4(address) => *address == Ipv4Addr::LOCALHOST,
        Host::V6(address) => *address == Ipv6Addr::LOCALHOST,
    }
}

/// The only value of a header.
fn only<'a>(headers: &'a (impl Headers + ?Sized), name: &str) -> Result<Option<&'a [u8]>, ()> {
    if headers.is_repeated(name) { Err(()) } else { Ok(headers.value(name)) }
}

fn text(value: &[u8]) -> Option<&str> {
    core::str::from_utf8(trim(value)).ok()
}

/// The kind of a body, by its `Content-Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    /// `application/json`
    Json,
    /// `text/event-stream`
    EventStream,
    /// Any other, or none.
    Other,
}

impl MediaType {
    /// Parses a `Content-Type`. Parameters such as a charset are ignored: JSON is UTF-8.
    #[must_use]
    pub fn of(content_type: Option<&[u8]>) -> Self {
        let essence = content_type.and_then(|value| value.split(|byte| *byte == b';').next()).map(trim);
        match essence {
            Some(essence) if essence.eq_ignore_ascii_case(b"application/json") => Self::Json,
            Some(essence) if essence.eq_ignore_ascii_case(b"text/event-stream") => Self::EventStream,
            _ => Self::Other,
        }
    }
}

/// Whether a POST has a JSON body; otherwise the status is 415. Also a check against web pages, which may send
/// `text/plain` to any origin without a preflight, but not `application/json`.
#[must_use]
pub fn has_json_body(headers: &(impl Headers + ?Sized)) -> bool {
    matches!(only(headers, name::CONTENT_TYPE), Ok(value) if MediaType::of(value) == MediaType::Json)
}

/// Whether the client accepts all these kinds; otherwise the status is 406. POST needs both, GET the event stream. An
/// absent `Accept` accepts none: the specification requires the header.
#[must_use]
pub fn accepts(headers: &(impl Headers + ?Sized), kinds: &[MediaType]) -> bool {
    kinds.iter().all(|kind| {
        let (whole, range): (&[u8], &[u8]) = match kind {
            MediaType::Json => (b"application/json", b"application/*"),
            MediaType::EventStream => (b"text/event-stream", b"text/*"),
            MediaType::Other => (b"*/*", b"*/*"),
        };
        headers.values(name::ACCEPT).flat_map(|value| value.split(|byte| *byte == b',')).any(|entry| {
            let mut parts = entry.split(|byte| *byte == b';').map(trim);
            let essence = parts.next().unwrap_or_default();
            let meant = [whole, range, b"*/*"].iter().any(|meant| essence.eq_ignore_ascii_case(meant));
            meant && !parts.any(is_zero_quality)
        })
    })
}

/// Whether a parameter is `q=0`, `q=0.0` and so on, which excludes a kind.
fn is_zero_quality(parameter: &[u8]) -> bool {
    let value = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="));
    value.is_some_and(|value| !value.is_empty() && value.iter().all(|byte| matches!(byte, b'0' | b'.')))
}
