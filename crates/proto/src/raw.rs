//! A JSON text that was validated and not decoded.
//!
//! Params, results, schemas and all other data that is forwarded unchanged is a [`Raw`]. Only the scanner makes one
//! from the bytes of a peer, so a `Raw` is always valid JSON in UTF-8.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use bytes::Bytes;
use serde::de::{self, DeserializeOwned};
use serde::ser::{Serialize, Serializer};

use crate::json;
use crate::scan::{self, ScanError};

/// A valid JSON text without surrounding white space. Cheap to clone.
///
/// The text was scanned once for UTF-8, escapes, depth, and for repeated keys at the levels where they matter. From 4
/// KiB on it is a slice of the message in which it was received, if it is at least half of it; otherwise it is copied, so that it
/// does not keep the message alive.
///
/// With serde it is the JSON value itself, in any format: this crate's reader and writer pass the text through, others
/// transcribe it. Two are equal when their texts are equal.
#[derive(Clone, Eq)]
pub struct Raw(Bytes);

/// The number of comparisons, for tests that count the cost of a lookup.
#[cfg(test)]
pub(crate) static COMPARISONS: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        #[cfg(test)]
        COMPARISONS.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        self.0 == other.0
    }
}

/// The kind of a JSON value, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `{ ... }`
    Object,
    /// `[ ... ]`
    Array,
    /// `" ... "`
    String,
    /// Digits.
    Number,
    /// `true` or `false`
    Bool,
    /// `null`
    Null,
}

impl Kind {
    pub(crate) fn of(text: &[u8]) -> Self {
        match text.first() {
            Some(b'{') => Self::Object,
            Some(b'[') => Self::Array,
            Some(b'"') => Self::String,
            Some(b't' | b'f') => Self::Bool,
            Some(b'n') | None => Self::Null,
            Some(_) => Self::Number,
        }
    }
}

impl Raw {
    /// The size from which a text may share the buffer in which it was received, in bytes.
    pub const SHARED_FROM: usize = 4096;

    /// Validates a text. Surrounding white space is dropped.
    ///
    /// # Errors
    /// What is wrong, and at which byte.
    pub fn parse(text: impl Into<Bytes>) -> Result<Self, ScanError> {
        let text = text.into();
        let range = scan::value(&text)?;
        Ok(Self::trusted(text).slice(range))
    }

    /// Serializes a value.
    ///
    /// # Errors
    /// When the value's own `Serialize` fails, a key of a map is not a string, or a number is not finite.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, json::WriteError> {
        json::to_raw(value)
    }

    /// Deserializes the text.
    ///
    /// # Errors
    /// When the text does not match `T`; the error says where.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, json::ReadError> {
        json::from_raw(self)
    }

    /// The text `null`.
    #[must_use]
    pub const fn null() -> Self {
        Self(Bytes::from_static(b"null"))
    }

    /// The empty object.
    #[must_use]
    pub const fn empty_object() -> Self {
        Self(Bytes::from_static(b"{}"))
    }

    /// A JSON string with this value.
    #[must_use]
    pub fn string(value: &str) -> Self {
        let mut text = Vec::new();
        json::append_string(value, &mut text);
        Self(Bytes::from(text))
    }

    /// The text as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text.
    #[must_use]
    #[allow(
        unsafe_code,
        reason = "the one line of unsafe outside `process/`: checking UTF-8 again costs a pass"
    )]
    pub fn as_str(&self) -> &str {
        // SAFETY: only the scanner and this crate's own writer make a `Raw` (the constructors are private),
        // the scanner refuses invalid UTF-8, and `slice` cuts at the boundaries of JSON values, which are ASCII.
        unsafe { core::str::from_utf8_unchecked(&self.0) }
    }

    /// The length of the text in bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a JSON text is never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The kind of the value.
    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind::of(&self.0)
    }

    /// The value of a JSON string; `None` for any other kind.
    #[must_use]
    pub fn to_string_value(&self) -> Option<alloc::borrow::Cow<'_, str>> {
        json::string_value(self.as_str())
    }

    /// The bytes, shared.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// A text that this crate has validated or written.
    pub(crate) const fn trusted(text: Bytes) -> Self {
        Self(text)
    }

    /// A value within a scanned text. A small part of a large text is copied: a slice would keep all of it, and counts only as
    /// what it is.
    pub(crate) fn cut(text: &Bytes, range: Range<usize>) -> Self {
        if range.len() >= Self::SHARED_FROM.max(text.len() / 2) {
            Self(text.slice(range))
        } else {
            Self(Bytes::copy_from_slice(&text[range]))
        }
    }

    /// A value within this text, at a range from the scanner.
    pub(crate) fn slice(&self, range: Range<usize>) -> Self {
        if range.len() == self.0.len() {
            return self.clone();
        }
        Self::cut(&self.0, range)
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json::serialize_raw(self, serializer)
    }
}

impl<'de> de::Deserialize<'de> for Raw {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        json::deserialize_raw(deserializer)
    }
}
