//! The scanner: validates JSON text in one pass and locates its parts.
//!
//! Used by [`decode`](mod@crate::decode) for messages of a peer and by [`Raw::parse`] for other text. It builds no
//! values and copies nothing. The grammar is [RFC 8259](https://www.rfc-editor.org/rfc/rfc8259), with safe choices
//! where the RFC leaves one: lone surrogates are rejected, nesting is limited, and a repeated key is rejected where
//! keys control behaviour (in a message, and in its params, result and error).

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

/// The maximum nesting of arrays and objects.
pub const MAX_DEPTH: usize = 128;

/// The maximum length of a text, in bytes: 2 GiB less one byte, so that every position in it, and in its unescaped
/// form, fits 32 bits.
pub const MAX_LENGTH: usize = i32::MAX as usize;

/// Why and where a text is not valid JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanError {
    /// What is wrong.
    pub kind: ScanErrorKind,
    /// The byte of the text, counted from 0.
    pub at: usize,
}

/// What is wrong with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScanErrorKind {
    /// Nothing but white space.
    Empty,
    /// The text ends within its value.
    Truncated,
    /// A byte that is not allowed here.
    Unexpected(u8),
    /// Bytes that are not UTF-8.
    Utf8,
    /// An invalid escape.
    Escape,
    /// Half of a surrogate pair (`\ud800`), which is not a character.
    Surrogate,
    /// An unescaped control character within a string.
    Control(u8),
    /// An invalid number.
    Number,
    /// Arrays and objects nested deeper than the limit.
    Depth(usize),
    /// Text behind the value.
    Trailing,
    /// A repeated key of one object; keys are compared after unescaping.
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
    /// UTF-8 with a byte order mark.
    Utf8WithMark,
    /// UTF-16, little-endian.
    Utf16Le,
    /// UTF-16, big-endian.
    Utf16Be,
    /// UTF-32, little-endian.
    Utf32Le,
    /// UTF-32, big-endian.
    Utf32Be,
}

impl Encoding {
    /// The encoding of a text other than plain UTF-8, by its byte order mark or its first two characters: JSON and most
    /// other text start with ASCII, which has NUL bytes in UTF-16 and UTF-32. `None` for everything else.
    #[must_use]
    pub const fn of(text: &[u8]) -> Option<Self> {
        match text {
            [0xef, 0xbb, 0xbf, ..] => Some(Self::Utf8WithMark),
            // The mark of UTF-16 is a prefix of the mark of UTF-32.
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

/// Validates that a text is one JSON value with optional white space around it, and returns its position.
///
/// The keys of an outermost object must be unique, because it may be params or a result.
///
/// # Errors
/// What is wrong, and at which byte.
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
    /// The value of a member, if the text is an object that has it. Of repeated members (possible below the levels that
    /// the scanner checks) the last one, as in most JSON readers.
    #[must_use]
    pub fn member(&self, key: &str) -> Option<Self> {
        let range = members(self).filter(|(name, _)| name == key).last()?.1;
        Some(self.slice(range))
    }
}

#[cfg(test)]
mod tests;
