//! Request ids and progress tokens: an integer or a string, chosen by a peer.
//!
//! The specification ([requests](https://modelcontextprotocol.io/specification/2025-11-25/basic#requests)) allows both
//! and never null. A peer gets its id back unchanged: `1` and `"1"` differ, and an integer outside of `i64` is kept as
//! digits and never rounded. JSON Schema, which the specification uses, treats `1.0` as an integer too; it is sent back
//! as `1.0`.

use alloc::boxed::Box;
use alloc::string::ToString;
use core::fmt;

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

/// The value of an id or a token.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Name {
    Integer(i64),
    /// The digits of an integer outside of `i64`, or of one that `i64` would write differently (`-0`, `1.0`).
    Digits(Box<str>),
    String(Box<str>),
}

impl Name {
    /// Parses the digits of an integer that [`is_integer`] has checked.
    fn from_digits(digits: &str) -> Self {
        match digits.parse::<i64>() {
            Ok(value) if digits != "-0" => Self::Integer(value),
            _ => Self::Digits(digits.into()),
        }
    }

    fn write(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(out, "{value}"),
            Self::Digits(digits) => out.write_str(digits),
            Self::String(string) => crate::json::write_string(string, out),
        }
    }
}

/// Whether a number is an integer that may be an id: `-?[0-9]+(\.0+)?`.
pub(crate) fn is_integer(number: &str) -> bool {
    let whole = number.trim_end_matches('0').strip_suffix('.');
    crate::scan::is_integer(whole.unwrap_or(number))
}

/// Declares a type for an id or a token.
macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Name);

        impl $type {
            /// The value as an integer, if it fits.
            #[must_use]
            pub fn as_i64(&self) -> Option<i64> {
                match &self.0 {
                    Name::Integer(value) => Some(*value),
                    _ => None,
                }
            }

            /// The value as a string, if it is one.
            #[must_use]
            pub fn as_str(&self) -> Option<&str> {
                match &self.0 {
                    Name::String(string) => Some(string),
                    _ => None,
                }
            }

            /// From the digits of a JSON integer, checked with [`is_integer`]. They are kept exactly when they do not
            /// fit an `i64`.
            pub(crate) fn from_digits(digits: &str) -> Self {
                Self(Name::from_digits(digits))
            }
        }

        impl From<i64> for $type {
            fn from(value: i64) -> Self {
                Self(Name::Integer(value))
            }
        }

        impl From<&str> for $type {
            fn from(value: &str) -> Self {
                Self(Name::String(value.into()))
            }
        }

        /// As JSON: digits, or a quoted string.
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write(f)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write(f)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match &self.0 {
                    Name::Integer(value) => serializer.serialize_i64(*value),
                    Name::Digits(_) => crate::Raw::trusted(self.to_string().into()).serialize(serializer),
                    Name::String(string) => serializer.serialize_str(string),
                }
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = crate::json::deserialize_text(deserializer)?;
                if let Some(string) = crate::json::string_value(&text) {
                    return Ok(Self::from(&*string));
                }
                if crate::Kind::of(text.as_bytes()) == crate::Kind::Number && is_integer(&text) {
                    return Ok(Self::from_digits(&text));
                }
                Err(de::Error::custom("expected an integer or a string"))
            }
        }
    };
}

name! {
    /// The id of a request, chosen by its sender: an integer or a string, kept digit for digit.
    RequestId
}

name! {
    /// The token for progress notifications of a request, chosen by its sender: an integer or a string.
    ProgressToken
}

impl RequestId {
    /// The bytes of memory that the peer controls: none for an integer within `i64`.
    pub(crate) fn held(&self) -> usize {
        match &self.0 {
            Name::Integer(_) => 0,
            Name::Digits(text) | Name::String(text) => text.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_and_its_string_are_different_names() {
        assert_ne!(RequestId::from(1), RequestId::from("1"));
    }

    #[test]
    fn digits_that_no_word_holds_are_given_back() {
        for digits in ["18446744073709551616", "-0", "123456789012345678901234567890"] {
            assert_eq!(RequestId::from_digits(digits).to_string(), digits);
            assert_eq!(RequestId::from_digits(digits).as_i64(), None);
        }
        assert_eq!(RequestId::from_digits("9007199254740993").as_i64(), Some(9_007_199_254_740_993));
    }
}
