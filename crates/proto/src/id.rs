//! Names that a peer gives to its requests and to its progress: an integer or a string.
//!
//! The specification ([requests](https://modelcontextprotocol.io/specification/2025-11-25/basic#requests))
//! allows both and never null. A peer gets back what it sent: `1` and `"1"` are different names, and an
//! integer that no machine word holds is kept as the digits it was written with, never rounded. To JSON Schema, in which
//! the specification is written, `1.0` is an integer too; it comes back as `1.0`.

use alloc::boxed::Box;
use alloc::string::ToString;
use core::fmt;

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

/// What both names are made of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Name {
    Integer(i64),
    /// An integer outside `i64`, or one written in a way that `i64` would not give back (`-0`, `1.0`): its digits.
    Digits(Box<str>),
    String(Box<str>),
}

impl Name {
    /// Reads an integer from the digits it was written with, as [`is_integer`] has checked.
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

/// Whether the text of a number is that of an integer which names something: `-?[0-9]+(\.0+)?`.
pub(crate) fn is_integer(number: &str) -> bool {
    let whole = number.trim_end_matches('0').strip_suffix('.');
    crate::scan::is_integer(whole.unwrap_or(number))
}

/// Both names have the same shape and the same rules; only what they name differs.
macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Name);

        impl $type {
            /// The value as an integer, when it is one that fits.
            #[must_use]
            pub fn as_i64(&self) -> Option<i64> {
                match &self.0 {
                    Name::Integer(value) => Some(*value),
                    _ => None,
                }
            }

            /// The value as a string, when it was sent as a string.
            #[must_use]
            pub fn as_str(&self) -> Option<&str> {
                match &self.0 {
                    Name::String(string) => Some(string),
                    _ => None,
                }
            }

            /// From the digits of a JSON integer. The digits are kept exactly when they do not fit an `i64`.
            /// The caller has checked them with [`is_integer`].
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
                let raw = crate::Raw::deserialize(deserializer)?;
                if let Some(string) = raw.to_string_value() {
                    return Ok(Self::from(&*string));
                }
                if raw.kind() == crate::Kind::Number && is_integer(raw.as_str()) {
                    return Ok(Self::from_digits(raw.as_str()));
                }
                Err(de::Error::custom("expected an integer or a string"))
            }
        }
    };
}

name! {
    /// The name of a request, chosen by its sender: an integer or a string, given back digit for digit.
    RequestId
}

name! {
    /// The name under which a request's progress is reported: an integer or a string chosen by its sender.
    ProgressToken
}

impl RequestId {
    /// How many bytes of memory its peer has chosen: none for an integer that a machine word holds.
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
