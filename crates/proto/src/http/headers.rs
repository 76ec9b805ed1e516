//! The MCP headers: names, encoding of values, and comparison with the body.
//!
//! Used by [`classify`](super::classify) and by the HTTP links.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#http-headers>

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::text::Line;
use crate::{ErrorObject, Method, code};

/// Header names in lower case, as in HTTP/2. Comparison ignores case.
pub mod name {
    /// The media types that the client accepts.
    pub const ACCEPT: &str = "accept";
    /// The media type of the body.
    pub const CONTENT_TYPE: &str = "content-type";
    /// The host that the client addresses.
    pub const HOST: &str = "host";
    /// The origin of the web page that sent the request.
    pub const ORIGIN: &str = "origin";
    /// The id of a legacy session.
    pub const SESSION_ID: &str = "mcp-session-id";
    /// The revision: on every request of 2026-07-28, and after `initialize` since 2025-06-18.
    pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
    /// The method of the request in the body: 2026-07-28.
    pub const METHOD: &str = "mcp-method";
    /// The tool, prompt, resource or task of the request: 2026-07-28.
    pub const NAME: &str = "mcp-name";
    /// The prefix of the headers for tool arguments: 2026-07-28.
    pub const PARAM_PREFIX: &str = "mcp-param-";
    /// The last received event, for resuming a legacy stream.
    pub const LAST_EVENT_ID: &str = "last-event-id";
    /// Tells proxies not to buffer an event stream.
    pub const ACCEL_BUFFERING: &str = "x-accel-buffering";
    /// When to retry.
    pub const RETRY_AFTER: &str = "retry-after";
    /// The authentication challenge.
    pub const WWW_AUTHENTICATE: &str = "www-authenticate";
}

/// The headers of a request or response, for any HTTP library.
pub trait Headers {
    /// The values of a header in order. `name` is in lower case; comparison ignores case.
    fn values(&self, name: &str) -> impl Iterator<Item = &[u8]>;

    /// The first value of a header.
    fn value(&self, name: &str) -> Option<&[u8]> {
        self.values(name).next()
    }

    /// Whether a header has more than one value.
    fn is_repeated(&self, name: &str) -> bool {
        self.values(name).nth(1).is_some()
    }
}

/// A list of names and values, for tests and links without an HTTP library.
impl<N: AsRef<str>, V: AsRef<[u8]>> Headers for [(N, V)] {
    fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.iter()
            .filter(move |(key, _)| key.as_ref().eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_ref())
    }
}

const BASE64_START: &str = "=?base64?";
const BASE64_END: &str = "?=";

/// Why a header value cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderValueError {
    /// A byte other than space to `~` and tab.
    #[error("a character that is not visible ASCII, space or tab")]
    Character,
    /// The text between `=?base64?` and `?=` is not padded standard Base64.
    #[error("invalid Base64")]
    Base64,
    /// The decoded Base64 is not UTF-8.
    #[error("Base64 of something that is not UTF-8")]
    Utf8,
}

/// Encodes a value for a header: unchanged if possible, and as `=?base64?...?=` if it has other characters, white space
/// at an end, or the form of an encoded value.
///
/// ```
/// use mcpjoin_proto::http::headers::{decode_value, encode_value};
///
/// assert_eq!(encode_value("us west"), "us west");
/// assert_eq!(encode_value("Hello, 世界"), "=?base64?SGVsbG8sIOS4lueVjA==?=");
/// assert_eq!(decode_value(b"=?base64?SGVsbG8sIOS4lueVjA==?=").as_deref(), Ok("Hello, 世界"));
/// ```
#[must_use]
pub fn encode_value(value: &str) -> Cow<'_, str> {
    let bytes = value.as_bytes();
    let padded = trim(bytes).len() != bytes.len();
    // `=?base64?=`, where both markers overlap, is not an encoded value, but some readers accept it as one.
    let looks_encoded = value.starts_with(BASE64_START) && value.ends_with(BASE64_END);
    if bytes.iter().all(is_plain) && !padded && !looks_encoded {
        Cow::Borrowed(value)
    } else {
        Cow::Owned(format!("{BASE64_START}{}{BASE64_END}", STANDARD.encode(bytes)))
    }
}

/// Decodes a value of [`encode_value`]. Surrounding white space is dropped.
///
/// # Errors
/// When a byte is not allowed in a header, or the Base64 is not exactly the encoding of a UTF-8 text.
pub fn decode_value(value: &[u8]) -> Result<Cow<'_, str>, HeaderValueError> {
    let value = plain(value)?;
    match value.strip_prefix(BASE64_START).and_then(|rest| rest.strip_suffix(BASE64_END)) {
        Some(encoded) => {
            let bytes = STANDARD.decode(encoded).map_err(|_| HeaderValueError::Base64)?;
            String::from_utf8(bytes).map(Cow::Owned).map_err(|_| HeaderValueError::Utf8)
        }
        None => Ok(Cow::Borrowed(value)),
    }
}

/// An unencoded value without surrounding white space.
fn plain(value: &[u8]) -> Result<&str, HeaderValueError> {
    let value = trim(value);
    if !value.iter().all(is_plain) {
        return Err(HeaderValueError::Character);
    }
    core::str::from_utf8(value).map_err(|_| HeaderValueError::Character)
}

/// Removes optional white space (RFC 9110, 5.6.3).
pub(super) fn trim(value: &[u8]) -> &[u8] {
    let optional = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = value.iter().position(|byte| !optional(byte)).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !optional(byte)).map_or(start, |last| last + 1);
    &value[start..end]
}

const fn is_plain(byte: &u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\t')
}

/// A header does not match the body: [`code::HEADER_MISMATCH`], with status 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Header mismatch: {header} header {problem}")]
pub struct HeaderMismatch {
    /// The name of the header, as the specification writes it.
    pub header: String,
    /// What is wrong.
    pub problem: HeaderProblem,
}

/// What is wrong with a header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderProblem {
    /// The body has a value, and the header is absent.
    #[error("is missing, the body value is '{}'", Line::of(.body).truncated(MAX_SHOWN_CHARS))]
    Missing {
        /// The value in the body.
        body: String,
    },
    /// The header and the value in the body are absent.
    #[error("is missing")]
    Absent,
    /// The header is repeated, and readers may disagree about which one counts.
    #[error("is repeated")]
    Repeated,
    /// The value cannot be decoded.
    #[error("value is invalid: {0}")]
    Invalid(HeaderValueError),
    /// The values differ.
    #[error("value '{}' does not match body value '{}'", Line::of(.header).truncated(MAX_SHOWN_CHARS), Line::of(.body).truncated(MAX_SHOWN_CHARS))]
    Differs {
        /// The decoded value of the header.
        header: String,
        /// The value in the body.
        body: String,
    },
    /// The header has a value, and the body has none.
    #[error("value '{}' has no counterpart in the body", Line::of(.header).truncated(MAX_SHOWN_CHARS))]
    Unexpected {
        /// The decoded value of the header.
        header: String,
    },
}

impl HeaderMismatch {
    pub(super) fn new(header: impl Into<String>, problem: HeaderProblem) -> Self {
        Self { header: header.into(), problem }
    }

    /// The error for the peer, with status 400.
    #[must_use]
    pub fn to_error_object(&self) -> ErrorObject {
        ErrorObject::new(code::HEADER_MISMATCH, self.to_string())
    }
}

/// The maximum number of characters of a value in an error.
const MAX_SHOWN_CHARS: usize = 80;

/// The only value of a header; `None` when it is absent.
///
/// # Errors
/// When the header is repeated.
pub(super) fn single<'a>(
    headers: &'a (impl Headers + ?Sized),
    name: &str,
    written: &str,
) -> Result<Option<&'a [u8]>, HeaderMismatch> {
    let first = headers.value(name);
    if headers.is_repeated(name) {
        return Err(HeaderMismatch::new(written, HeaderProblem::Repeated));
    }
    Ok(first)
}

/// The value of `MCP-Protocol-Version`; `None` when it is absent.
///
/// # Errors
/// When it is repeated, empty or invalid.
pub fn protocol_version(headers: &(impl Headers + ?Sized)) -> Result<Option<&str>, HeaderMismatch> {
    let Some(value) = single(headers, name::PROTOCOL_VERSION, "MCP-Protocol-Version")? else {
        return Ok(None);
    };
    plain(value)
        .map(Some)
        .map_err(|error| HeaderMismatch::new("MCP-Protocol-Version", HeaderProblem::Invalid(error)))
}

/// The member of the params that `Mcp-Name` repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedBy {
    /// The member.
    pub member: &'static str,
    /// The header is required, as for the methods of the specification itself. For those of the tasks extension it is
    /// optional and checked if present.
    pub required: bool,
}

/// The member that `Mcp-Name` repeats for a method; `None` when the method has no such header.
#[must_use]
pub const fn named_by(method: &Method) -> Option<NamedBy> {
    match method {
        Method::CallTool | Method::GetPrompt => Some(NamedBy { member: "name", required: true }),
        Method::ReadResource => Some(NamedBy { member: "uri", required: true }),
        Method::GetTask | Method::UpdateTask | Method::CancelTask => {
            Some(NamedBy { member: "taskId", required: false })
        }
        _ => None,
    }
}

/// Compares the headers that every request of 2026-07-28 carries with its body. `name` is the value of the member
/// [`named_by`]; if the body lacks it, the header is not checked.
///
/// # Errors
/// The first header that is missing, invalid or different.
pub fn check_request_headers(
    headers: &(impl Headers + ?Sized),
    version: &str,
    method: &Method,
    name: Option<&str>,
) -> Result<(), HeaderMismatch> {
    check_protocol_version(headers, version)?;
    check_method(headers, method)?;
    let (Some(named_by), Some(expected)) = (named_by(method), name) else { return Ok(()) };
    let invalid = |error| HeaderMismatch::new("Mcp-Name", HeaderProblem::Invalid(error));
    match single(headers, name::NAME, "Mcp-Name")? {
        Some(value) => {
            let found = decode_value(value).map_err(invalid)?;
            compare("Mcp-Name", &found, expected)
        }
        None if named_by.required => Err(missing("Mcp-Name", expected)),
        None => Ok(()),
    }
}

/// Compares `MCP-Protocol-Version` with the version in the body.
///
/// # Errors
/// When it is missing, invalid or different.
pub fn check_protocol_version(
    headers: &(impl Headers + ?Sized),
    version: &str,
) -> Result<(), HeaderMismatch> {
    match protocol_version(headers)? {
        Some(found) => compare("MCP-Protocol-Version", found, version),
        None => Err(missing("MCP-Protocol-Version", version)),
    }
}

pub(super) fn check_method(headers: &(impl Headers + ?Sized), method: &Method) -> Result<(), HeaderMismatch> {
    let invalid = |error| HeaderMismatch::new("Mcp-Method", HeaderProblem::Invalid(error));
    match single(headers, name::METHOD, "Mcp-Method")? {
        Some(value) => compare("Mcp-Method", plain(value).map_err(invalid)?, method.as_str()),
        None => Err(missing("Mcp-Method", method.as_str())),
    }
}

/// Compares bytes: case matters.
pub(super) fn compare(written: &str, header: &str, body: &str) -> Result<(), HeaderMismatch> {
    if header == body {
        return Ok(());
    }
    let problem = HeaderProblem::Differs { header: header.to_string(), body: body.to_string() };
    Err(HeaderMismatch::new(written, problem))
}

pub(super) fn missing(written: &str, body: &str) -> HeaderMismatch {
    HeaderMismatch::new(written, HeaderProblem::Missing { body: body.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overlapping_marker_is_plain_when_read_and_encoded_when_written() {
        assert_eq!(decode_value(b"=?base64?=").as_deref(), Ok("=?base64?="));
        assert_eq!(encode_value("=?base64?="), "=?base64?PT9iYXNlNjQ/PQ==?=");
    }

    #[test]
    fn an_error_shows_the_beginning_of_a_long_value() {
        let long = "x".repeat(1 << 20);
        let error = compare("Mcp-Name", &long, "a\u{1b}b").expect_err("different");
        let message = error.to_error_object().message;
        assert!(message.len() < 200, "{message}");
        assert!(message.ends_with(r"does not match body value 'a\u{1b}b'"), "{message}");
    }
}
