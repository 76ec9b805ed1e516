//! serde for [`Raw`]: reads values from validated text, and writes values as text.
//!
//! Used through the methods of [`Raw`]. The reader does not check syntax. The writer writes one line of valid JSON. The
//! format is [RFC 8259](https://www.rfc-editor.org/rfc/rfc8259); enums are externally tagged, as in serde.

mod escape;
mod key;
mod raw;
mod read;
mod tagged;
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

pub(crate) use escape::{append_string, push_string, raw_with_string, write_string};
pub(crate) use raw::{deserialize_raw, deserialize_text, serialize_raw};
pub(crate) use tagged::{Tagged, deserialize_tagged};
pub(crate) use write::{INTEGER_BYTES, integer_text};

/// The maximum depth of arrays and objects while reading or writing with serde, which recurses. Twice the scanner's
/// limit, because a text may be composed of texts.
const MAX_DEPTH: usize = 2 * scan::MAX_DEPTH;

/// The maximum length of an error description, in bytes. serde quotes unexpected values, which may be as long as a
/// message.
const MAX_DESCRIPTION_BYTES: usize = 512;

/// Why a value could not be serialized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteError(Box<str>);

/// Why a text could not be deserialized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError(
    /// One pointer, because every function that reads returns it or a value.
    Box<Fault>,
);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    /// The path to the invalid value, as in `tools[3].name`.
    path: String,
    what: Box<str>,
}

impl ReadError {
    #[cold]
    fn new(what: impl Into<Box<str>>) -> Self {
        Self(Box::new(Fault { path: String::new(), what: what.into() }))
    }

    /// The path to the invalid value, as in `tools[3].name`; empty for the whole text.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Prepends the key of the object around the value.
    #[cold]
    fn in_member(mut self, key: &str) -> Self {
        let dot = if self.0.path.is_empty() || self.0.path.starts_with('[') { "" } else { "." };
        self.0.path = format!("{}{dot}{}", prefix(key, 64), self.0.path);
        self
    }

    /// Prepends the index in the array around the value.
    #[cold]
    fn in_element(mut self, index: usize) -> Self {
        let dot = if self.0.path.is_empty() || self.0.path.starts_with('[') { "" } else { "." };
        self.0.path = format!("[{index}]{dot}{}", self.0.path);
        self
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.path.is_empty() {
            f.write_str(&self.0.what)
        } else {
            write!(f, "{}: {}", Line::of(&self.0.path), self.0.what)
        }
    }
}

impl core::error::Error for ReadError {}

impl de::Error for ReadError {
    #[cold]
    fn custom<T: fmt::Display>(what: T) -> Self {
        Self::new(prefix(&what.to_string(), MAX_DESCRIPTION_BYTES))
    }

    /// Uses the terms of JSON: serde calls `null` a unit value, and an array a sequence.
    #[cold]
    fn invalid_type(given: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let given: &dyn fmt::Display = match &given {
            de::Unexpected::Unit | de::Unexpected::Option => &"null",
            de::Unexpected::Seq => &"an array",
            de::Unexpected::Map => &"an object",
            given => given,
        };
        let expected = in_terms_of_json(expected);
        Self::custom(format_args!("invalid type: {given}, expected {expected}"))
    }

    #[cold]
    fn invalid_value(given: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let expected = in_terms_of_json(expected);
        Self::custom(format_args!("invalid value: {given}, expected {expected}"))
    }

    #[cold]
    fn missing_field(name: &'static str) -> Self {
        Self::custom(format_args!("`{name}` is missing"))
    }
}

/// What serde expected. It names types of Rust, which mean nothing to the sender of the value.
fn in_terms_of_json(expected: &dyn de::Expected) -> Cow<'static, str> {
    let expected = expected.to_string();
    let kind = expected.strip_prefix("a nonzero ").unwrap_or(&expected);
    let largest = match kind {
        "u8" => u64::from(u8::MAX),
        "u16" => u64::from(u16::MAX),
        "u32" => u64::from(u32::MAX),
        "u64" | "usize" => u64::MAX,
        "i8" | "i16" | "i32" | "i64" | "isize" => return Cow::Borrowed("a whole number"),
        "f32" | "f64" => return Cow::Borrowed("a number"),
        "a map" => return Cow::Borrowed("an object"),
        "a sequence" => return Cow::Borrowed("an array"),
        _ if kind.starts_with("struct ") => return Cow::Borrowed("an object"),
        _ if kind.starts_with("tuple ") || kind.starts_with("a tuple of ") => {
            return Cow::Borrowed("an array");
        }
        _ => return Cow::Owned(expected),
    };
    let smallest = u8::from(kind.len() < expected.len());
    Cow::Owned(format!("a whole number from {smallest} to {largest}"))
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
        Self(prefix(&what.to_string(), MAX_DESCRIPTION_BYTES).into())
    }
}

/// Serializes a value as one line.
pub(crate) fn to_raw<T: Serialize + ?Sized>(value: &T) -> Result<Raw, WriteError> {
    let mut out = Vec::with_capacity(128);
    let written = value.serialize(&mut write::Writer::new(&mut out));
    finished(out, written)
}

/// Not generic, so that it is compiled once.
fn finished(out: Vec<u8>, written: Result<(), WriteError>) -> Result<Raw, WriteError> {
    written.map(|()| Raw::trusted(out.into()))
}

/// Deserializes a text.
pub(crate) fn from_raw<T: DeserializeOwned>(raw: &Raw) -> Result<T, ReadError> {
    from_text(raw.as_str())
}

/// Deserializes a JSON value within a [`Raw`].
pub(crate) fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, ReadError> {
    T::deserialize(&mut read::Reader::new(text))
}

/// The value of a JSON string in validated text; `None` for any other kind.
pub(crate) fn string_value(text: &str) -> Option<Cow<'_, str>> {
    if Kind::of(text.as_bytes()) != Kind::String {
        return None;
    }
    let (end, escaped) = scan::string_end(text.as_bytes(), 1);
    Some(scan::unescape(text.get(1..end)?, escaped))
}

/// The text of a member of an object; of the last one if it is repeated, as in [`Raw::member`].
pub(crate) fn member<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    object.get(scan::members_of(object).filter(|(name, _)| name == key).last()?.1)
}

/// The value of a string member of an object.
pub(crate) fn string_member<'a>(object: &'a str, key: &str) -> Option<Cow<'a, str>> {
    string_value(member(object, key)?)
}

#[cfg(test)]
mod tests;
