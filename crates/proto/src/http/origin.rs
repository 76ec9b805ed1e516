//! Who may talk to us and whom we may follow: `Host` and `Origin` of a request, the types of its body and its
//! reply, and whether two URLs have one origin.
//!
//! Called by the HTTP server's link before it reads a body (a web page that the user visits must not reach a
//! server on the user's machine, not even by renaming itself: DNS rebinding), and by the HTTP client's link for
//! redirects and for the `endpoint` event of 2024-11-05. It reads no more of a URL than scheme, host and port,
//! refuses what readers of URLs disagree about, and looks up no names.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#security-warning>

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::headers::{Headers, name, trim};

/// Why a URL, an origin or a host is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OriginError {
    /// The scheme is neither `http` nor `https`.
    #[error("the scheme is neither http nor https")]
    Scheme,
    /// There is a user name or a password in it.
    #[error("a URL with a user name or password is refused")]
    UserInfo,
    /// The host is empty, or is written in a way that readers understand differently.
    #[error("the host is not a plain name, an IPv4 address or an IPv6 address in brackets")]
    Host,
    /// The port is no number from 1 to 65535.
    #[error("the port is not a number from 1 to 65535")]
    Port,
    /// There is a backslash, a space or a control character in it.
    #[error("a backslash, a space or a control character is refused")]
    Character,
    /// An origin ends after its port; this one goes on.
    #[error("an origin has no path")]
    Path,
    /// It names another origin.
    #[error("another origin is refused")]
    OtherOrigin,
}

/// A host as it is compared: names in lower case, addresses as numbers.
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
        // Browsers read a name whose last label is a number as an address (`0x7f.1`, `2130706433`, `127.1`).
        let last = text.strip_suffix('.').unwrap_or(text).rsplit('.').next().unwrap_or_default();
        let number = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
        let numeric = match number {
            Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
            None => last.bytes().all(|byte| byte.is_ascii_digit()),
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        if numeric || !text.bytes().all(plain) || text.starts_with('.') || text.contains("..") {
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

/// Splits `host`, `host:port`, `[v6]` or `[v6]:port`.
fn authority(text: &str) -> Result<(Host, Option<u16>), OriginError> {
    if text.contains('@') {
        return Err(OriginError::UserInfo);
    }
    // The colons of an address in brackets are not that of a port.
    let bracket = match text.rfind(']') {
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
    /// The origin of an `http` or `https` URL, whatever its path.
    ///
    /// # Errors
    /// When the URL is of another scheme, names a user, or could be read in two ways.
    pub fn of(url: &str) -> Result<Self, OriginError> {
        Self::split(url).map(|(origin, _)| origin)
    }

    /// An origin as it stands in the `Origin` header: nothing follows the port.
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

    /// The port, that of the scheme where none is written.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The origin, and what follows it.
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

/// Readers of URLs drop or rewrite these, so that what is checked is not what is fetched.
fn check_characters(url: &str) -> Result<(), OriginError> {
    let bad = |character: char| character == '\\' || character.is_whitespace() || character.is_control();
    if url.contains(bad) { Err(OriginError::Character) } else { Ok(()) }
}

/// Whether two URLs have one origin. Two that cannot be read have none.
#[must_use]
pub fn same_origin(one: &str, other: &str) -> bool {
    matches!((Origin::of(one), Origin::of(other)), (Ok(one), Ok(other)) if one == other)
}

/// Where a redirect, or the `endpoint` event of 2024-11-05, leads: `reference` resolved against the URL that it
/// came from. Dot segments are left in the path.
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
/// When it leads to another origin, also from `https` to `http` of one host, or cannot be read in one way only.
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

/// Whether a reference begins with a scheme (RFC 3986, 3.1).
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

/// Which hosts a request may name and which web pages may make it.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    hosts: Vec<(Host, Option<u16>)>,
    origins: Vec<Origin>,
    loopback: bool,
}

/// Why a request is refused with 403.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// `Host` is absent, repeated, unreadable or not allowed.
    #[error("the Host header is missing or not allowed")]
    Host,
    /// `Origin` is repeated, unreadable, `null` or not allowed.
    #[error("the Origin header is not allowed")]
    Origin,
}

impl Guard {
    /// Lets nothing through but what is allowed afterwards; requests without an `Origin` come from no web page.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The default for a server on the user's machine: hosts `localhost`, `127.0.0.1` and `[::1]` on any port,
    /// and pages of these.
    #[must_use]
    pub fn loopback() -> Self {
        Self { loopback: true, ..Self::default() }
    }

    /// Allows a host, on one port or, when none is given, on every port.
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

    /// Checks the headers of a request. A host in the request line of HTTP/2 (`:authority`) is to be given as `host`.
    ///
    /// # Errors
    /// When the request is to be refused with status 403.
    pub fn check(&self, headers: &(impl Headers + ?Sized)) -> Result<(), Denied> {
        let host = only(headers, name::HOST).ok().flatten().ok_or(Denied::Host)?;
        let (host, port) = text(host).and_then(|host| authority(host).ok()).ok_or(Denied::Host)?;
        let listed = |(allowed, on): &(Host, Option<u16>)| *allowed == host && (on.is_none() || *on == port);
        let allowed = (self.loopback && is_local(&host)) || self.hosts.iter().any(listed);
        if !allowed {
            return Err(Denied::Host);
        }
        let Some(origin) = only(headers, name::ORIGIN).map_err(|()| Denied::Origin)? else { return Ok(()) };
        let origin = text(origin).and_then(|origin| Origin::parse(origin).ok()).ok_or(Denied::Origin)?;
        if (self.loopback && is_local(&origin.host)) || self.origins.contains(&origin) {
            Ok(())
        } else {
            Err(Denied::Origin)
        }
    }
}

/// The names under which a server on this machine is reached without being told of another.
fn is_local(host: &Host) -> bool {
    match host {
        Host::Name(name) => name == "localhost",
        Host::V4(address) => *address == Ipv4Addr::LOCALHOST,
        Host::V6(address) => *address == Ipv6Addr::LOCALHOST,
    }
}

/// The only value under a name.
fn only<'a>(headers: &'a (impl Headers + ?Sized), name: &str) -> Result<Option<&'a [u8]>, ()> {
    if headers.is_repeated(name) { Err(()) } else { Ok(headers.value(name)) }
}

fn text(value: &[u8]) -> Option<&str> {
    core::str::from_utf8(trim(value)).ok()
}

/// What a body is, by its `Content-Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    /// `application/json`
    Json,
    /// `text/event-stream`
    EventStream,
    /// Anything else, or not said.
    Other,
}

impl MediaType {
    /// Reads a `Content-Type`. Parameters, such as a charset, are dropped: JSON is UTF-8 anyway.
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

/// Whether a POST says that its body is JSON; if not, the answer is 415. It is a check against web pages too: a
/// page may send `text/plain` anywhere without asking, and `application/json` nowhere.
#[must_use]
pub fn has_json_body(headers: &(impl Headers + ?Sized)) -> bool {
    matches!(only(headers, name::CONTENT_TYPE), Ok(value) if MediaType::of(value) == MediaType::Json)
}

/// Whether the client takes replies of all these kinds; if not, the answer is 406. POST needs both, GET the event
/// stream. An absent `Accept` takes none: the specification requires the header.
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

/// `q=0`, `q=0.0` and so on: not this kind.
fn is_zero_quality(parameter: &[u8]) -> bool {
    let value = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="));
    value.is_some_and(|value| !value.is_empty() && value.iter().all(|byte| matches!(byte, b'0' | b'.')))
}
