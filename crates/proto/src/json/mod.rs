//! serde over [`Raw`]: typed values from a text that has been checked, and texts from typed values.
//!
//! Called by [`Raw`] alone; others use its methods. The reader checks shapes and never syntax, the writer writes
//! one line and never a text that the scanner would refuse for its syntax. JSON is
//! [RFC 8259](https://www.rfc-editor.org/rfc/rfc8259), enums have serde's externally tagged form.

mod escape;
mod key;
mod raw;
mod read;
mod write;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::de::DeserializeOwned;
use serde::{Serialize, de, ser};

use crate::text::{Line, prefix};
use crate::{Kind, Raw, scan};

pub(crate) use escape::{append_string, enclose_string, push_string, write_string};
pub(crate) use raw::{deserialize_raw, deserialize_text, serialize_raw};
pub(crate) use write::{INTEGER_BYTES, integer_text};

/// How deep arrays and objects may lie in each other while they are read or written with serde, which needs
/// the stack for each. Twice the scanner's limit: a text may be put together from texts.
const MAX_DEPTH: usize = 2 * scan::MAX_DEPTH;

/// The longest description that an error keeps, in bytes. serde quotes what it did not expect, and that may be
/// as long as a message.
const MAX_DESCRIPTION: usize = 512;

/// Why a value could not be written as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteError(Box<str>);

/// Why a text could not be read as the type that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// From the outermost value to the one that did not fit, as in `tools[3].name`.
    path: String,
    what: Box<str>,
}

impl ReadError {
    fn new(what: impl Into<Box<str>>) -> Self {
        Self { path: String::new(), what: what.into() }
    }

    /// Where it is, as in `tools[3].name`; empty for the whole text.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The same error seen from the object around it.
    #[cold]
    fn in_member(mut self, key: &str) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{}{dot}{}", prefix(key, 64), self.path);
        self
    }

    /// The same error seen from the array around it.
    #[cold]
    fn in_element(mut self, index: usize) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("[{index}]{dot}{}", self.path);
        self
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.what)
        } else {
            write!(f, "{}: {}", Line::of(&self.path), self.what)
        }
    }
}

impl core::error::Error for ReadError {}

impl de::Error for ReadError {
    #[cold]
    fn custom<T: fmt::Display>(what: T) -> Self {
        Self::new(prefix(&what.to_string(), MAX_DESCRIPTION))
    }

    /// In JSON's own words: serde calls `null` a unit value, and an array a sequence.
    #[cold]
    fn invalid_type(given: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let given: &dyn fmt::Display = match &given {
            de::Unexpected::Unit | de::Unexpected::Option => &"null",
            de::Unexpected::Seq => &"an array",
            de::Unexpected::Map => &"an object",
            given => given,
        };
        Self::custom(format_args!("invalid type: {given}, expected {expected}"))
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for WriteError {}

impl ser::Error for WriteError {
    #[cold]
    fn custom<T: fmt::Display>(what: T) -> Self {
        Self(prefix(&what.to_string(), MAX_DESCRIPTION).into())
    }
}

/// Writes a value as JSON, on one line.
pub(crate) fn to_raw<T: Serialize + ?Sized>(value: &T) -> Result<Raw, WriteError> {
    let mut out = Vec::with_capacity(128);
    value.serialize(&mut write::Writer::new(&mut out))?;
    Ok(Raw::trusted(out.into()))
}

/// Reads a text as a `T`.
pub(crate) fn from_raw<T: DeserializeOwned>(raw: &Raw) -> Result<T, ReadError> {
    from_text(raw.as_str())
}

/// Reads a part of a [`Raw`] that is a JSON value as a `T`.
pub(crate) fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, ReadError> {
    T::deserialize(&mut read::Reader::new(text))
}

/// The value of a JSON string, the text being one that the scanner has passed; `None` for any other text.
pub(crate) fn string_value(text: &str) -> Option<Cow<'_, str>> {
    if Kind::of(text.as_bytes()) != Kind::String {
        return None;
    }
    let (end, escaped) = scan::string_end(text.as_bytes(), 1);
    Some(scan::unescape(text.get(1..end)?, escaped))
}

/// A copy of a text that [`deserialize_text`] has given.
pub(crate) fn kept(text: &str) -> Raw {
    Raw::trusted(bytes::Bytes::copy_from_slice(text.as_bytes()))
}

/// The value of a string member of an object; as [`Raw::member`], the last of several.
pub(crate) fn string_member<'a>(object: &'a str, key: &str) -> Option<Cow<'a, str>> {
    let range = scan::members_of(object).filter(|(name, _)| name == key).last()?.1;
    string_value(object.get(range)?)
}

#[cfg(test)]
mod tests;
