//! The scanner: one pass over a text that decides whether it is JSON, and says where everything lies.
//!
//! Called by [`decode`](mod@crate::decode) for what comes from a peer and by [`Raw::parse`] for what comes from
//! elsewhere. It builds no values and copies nothing. The grammar is that of
//! [RFC 8259](https://www.rfc-editor.org/rfc/rfc8259), with what RFC 8259 leaves open decided for safety: lone
//! surrogates are refused, nesting is bounded, and a repeated key is refused where a key decides what
//! happens (the members of a message, and the members of its params, result and error).

pub(crate) mod block;
mod keys;
mod text;
mod walk;

use core::fmt;
use core::ops::Range;

use crate::Raw;

pub(crate) use text::{Duplicate, Scanner};
pub(crate) use walk::{elements, is_integer, members_of, skip_space, skip_value, string_end, unescape};
pub use walk::{members, string};

/// The nesting of arrays and objects that is accepted; one more is refused.
pub const MAX_DEPTH: usize = 128;

/// The length that a text may have, in bytes: 2 GiB less one byte, so that every place in it, and in what has
/// been unescaped from it, fits 32 bits.
pub const MAX_LENGTH: usize = i32::MAX as usize;

/// Why a text is not JSON, or not JSON that we take, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanError {
    /// What is wrong.
    pub kind: ScanErrorKind,
    /// At which byte of the text, counted from 0.
    pub at: usize,
}

/// What is wrong with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScanErrorKind {
    /// Nothing but white space.
    Empty,
    /// The text ends before its value does.
    Truncated,
    /// A byte that cannot stand there.
    Unexpected(u8),
    /// Bytes that are not UTF-8.
    Utf8,
    /// A backslash with something behind it that JSON does not know.
    Escape,
    /// Half a surrogate pair (`\ud800`), which names no character.
    Surrogate,
    /// A control character that is not escaped, inside a string.
    Control(u8),
    /// A number that JSON does not write that way.
    Number,
    /// Arrays and objects nested deeper than the limit.
    Depth(usize),
    /// Something behind the value.
    Trailing,
    /// A key that the same object has already had; keys are compared after unescaping.
    DuplicateKey,
    /// Text in another encoding than UTF-8.
    Encoding(Encoding),
    /// Longer than [`MAX_LENGTH`].
    TooLong,
}

/// An encoding that JSON between programs must not use: <https://www.rfc-editor.org/rfc/rfc8259#section-8.1>.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encoding {
    /// UTF-8 with a byte order mark in front.
    Utf8WithMark,
    /// UTF-16, little end first.
    Utf16Le,
    /// UTF-16, big end first.
    Utf16Be,
    /// UTF-32, little end first.
    Utf32Le,
    /// UTF-32, big end first.
    Utf32Be,
}

impl Encoding {
    /// The encoding of a text that is not plain UTF-8, by its byte order mark or by its first two characters: JSON and
    /// most other text begin with ASCII, so UTF-16 and UTF-32 show NUL bytes there. `None` for everything else.
    #[must_use]
    pub const fn of(text: &[u8]) -> Option<Self> {
        match text {
            [0xef, 0xbb, 0xbf, ..] => Some(Self::Utf8WithMark),
            // The mark of UTF-16 is a prefix of the one of UTF-32.
            [0xff, 0xfe, 0, 0, ..] => Some(Self::Utf32Le),
            [0, 0, 0xfe, 0xff, ..] => Some(Self::Utf32Be),
            [0xff, 0xfe, ..] => Some(Self::Utf16Le),
            [0xfe, 0xff, ..] => Some(Self::Utf16Be),
            [b' '..=b'~', 0, 0, 0, ..] => Some(Self::Utf32Le),
            [0, 0, 0, b' '..=b'~', ..] => Some(Self::Utf32Be),
            [b' '..=b'~', 0, b' '..=b'~', 0, ..] => Some(Self::Utf16Le),
            [0, b' '..=b'~', 0, b' '..=b'~', ..] => Some(Self::Utf16Be),
            _ => None,
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Utf8WithMark => "UTF-8 with a byte order mark",
            Self::Utf16Le => "UTF-16LE",
            Self::Utf16Be => "UTF-16BE",
            Self::Utf32Le => "UTF-32LE",
            Self::Utf32Be => "UTF-32BE",
        })
    }
}

impl fmt::Display for ScanErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there is no JSON value"),
            Self::Truncated => f.write_str("the text ends before its JSON value does"),
            Self::Unexpected(byte) => {
                write!(f, "unexpected byte 0x{byte:02x}")?;
                if byte.is_ascii_graphic() { write!(f, " ({})", char::from(*byte)) } else { Ok(()) }
            }
            Self::Utf8 => f.write_str("the bytes are not UTF-8"),
            Self::Escape => f.write_str("JSON has no such escape"),
            Self::Surrogate => f.write_str("half a surrogate pair"),
            Self::Control(byte) => write!(f, "control character 0x{byte:02x} inside a string"),
            Self::Number => f.write_str("JSON has no such number"),
            Self::Depth(limit) => write!(f, "nested deeper than {limit} arrays and objects"),
            Self::Trailing => f.write_str("something follows the JSON value"),
            Self::DuplicateKey => f.write_str("a key that the object has already had"),
            Self::Encoding(encoding) => write!(f, "the text is {encoding}, and JSON is UTF-8"),
            Self::TooLong => write!(f, "longer than {MAX_LENGTH} bytes"),
        }
    }
}

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.kind, self.at)
    }
}

impl core::error::Error for ScanError {}

/// Checks that a text is exactly one JSON value with white space around it, and gives where it lies.
///
/// When the value is an object, its own keys must differ: it may be used as params or as a result.
///
/// # Errors
/// Says what is wrong and at which byte.
pub fn value(text: &[u8]) -> Result<Range<usize>, ScanError> {
    let mut scanner = Scanner::new(text, MAX_DEPTH)?;
    scanner.space();
    let start = scanner.at();
    match scanner.peek() {
        Some(b'{') => scanner.object(1, |_| None::<u8>, |scanner, _| scanner.value(1))?,
        Some(_) => scanner.value(0)?,
        None => return Err(ScanError { kind: ScanErrorKind::Empty, at: start }),
    }
    let end = scanner.at();
    scanner.end()?;
    if let Some(duplicate) = scanner.take_duplicate() {
        return Err(ScanError { kind: ScanErrorKind::DuplicateKey, at: duplicate.key.at() });
    }
    Ok(start..end)
}

impl Raw {
    /// The value of the member of that name, when the text is an object that has one. Of several members of
    /// one name (possible below the levels in which the scanner refuses them) it is the last, which is what
    /// nearly every JSON reader takes.
    #[must_use]
    pub fn member(&self, key: &str) -> Option<Self> {
        let range = members(self).filter(|(name, _)| name == key).last()?.1;
        Some(self.slice(range))
    }
}

#[cfg(test)]
mod tests;
