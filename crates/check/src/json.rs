//! A JSON value that can be compared and looked into: schemas, and what is judged by them.
//!
//! Numbers keep their digits, so that none is rounded before it is compared.

use mcpjoin_proto::types::Members;
use mcpjoin_proto::{Kind, Raw, Walk};

/// So many pairs of values and of names are compared for one judgement: at 20 ns each they take a fifth of a second.
pub(crate) const MOST_COMPARED: usize = 10_000_000;
/// Looking through so many bytes of a text takes as long as a step of a walk.
pub(crate) const STRIDE: usize = 256;

/// Above so many bytes a value is not looked into: reading it costs its size for each level.
const LARGEST: usize = 1 << 18;

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// Its digits, as they were written.
    Number(Box<str>),
    String(String),
    Array(Vec<Self>),
    /// The members in their order, each name once.
    Object(Vec<(String, Self)>),
}

impl Json {
    /// Reads a value; `None` for one that is too large, or in which a name stands twice.
    pub(crate) fn of(raw: &Raw) -> Option<Self> {
        if raw.len() > LARGEST {
            return None;
        }
        Self::read(raw)
    }

    fn read(raw: &Raw) -> Option<Self> {
        Some(match raw.kind() {
            Kind::Null => Self::Null,
            Kind::Bool => Self::Bool(raw.as_str() == "true"),
            Kind::Number => Self::Number(raw.as_str().into()),
            Kind::String => Self::String(raw.to_string_value()?.into_owned()),
            Kind::Array => {
                let items: Vec<Raw> = raw.decode().ok()?;
                Self::Array(items.iter().map(Self::read).collect::<Option<_>>()?)
            }
            Kind::Object => {
                let members: Members<Raw> = raw.decode().ok()?;
                let read = members.iter().map(|(name, value)| Some((name.to_owned(), Self::read(value)?)));
                Self::Object(read.collect::<Option<_>>()?)
            }
        })
    }

    /// A member of an object.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => {
                members.iter().find_map(|(known, value)| (known == name).then_some(value))
            }
            _ => None,
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    pub(crate) fn as_object(&self) -> Option<&[(String, Self)]> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    /// The number nearest to it.
    pub(crate) fn as_number(&self) -> Option<f64> {
        match self {
            Self::Number(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    /// Whether it is a number without a fraction: 1.0 is one.
    pub(crate) fn is_integer(&self) -> bool {
        match self {
            Self::Number(digits) => {
                digits.parse::<i128>().is_ok()
                    || digits.parse::<f64>().is_ok_and(|number| number.fract() == 0.0)
            }
            _ => false,
        }
    }

    /// What kind of value it is, in the words of JSON Schema.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) if self.is_integer() => "integer",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }

    /// Whether both mean the same: numbers by their value, members in any order. Takes a step for each pair that is
    /// compared; `None` when there are too few.
    pub(crate) fn equals(&self, other: &Self, walk: &mut Walk) -> Option<bool> {
        if !walk.step() {
            return None;
        }
        Some(match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::Number(one), Self::Number(other)) => match (one.parse::<i128>(), other.parse::<i128>()) {
                (Ok(one), Ok(other)) => one == other,
                _ => one == other || self.as_number() == other_number(other),
            },
            (Self::String(one), Self::String(other)) => {
                if !walk.steps(one.len().min(other.len()) / STRIDE) {
                    return None;
                }
                one == other
            }
            (Self::Array(one), Self::Array(other)) => {
                if one.len() != other.len() {
                    return Some(false);
                }
                for (one, other) in one.iter().zip(other) {
                    if !one.equals(other, walk)? {
                        return Some(false);
                    }
                }
                true
            }
            (Self::Object(one), Self::Object(members)) => {
                if one.len() != members.len() {
                    return Some(false);
                }
                for (place, (name, value)) in one.iter().enumerate() {
                    // Most values come in one order.
                    let found = match members.get(place).filter(|(known, _)| known == name) {
                        Some((_, found)) => Some(found),
                        None if !walk.steps(members.len()) => return None,
                        None => other.get(name),
                    };
                    match found {
                        Some(found) if value.equals(found, walk)? => {}
                        _ => return Some(false),
                    }
                }
                true
            }
            _ => false,
        })
    }
}

fn other_number(digits: &str) -> Option<f64> {
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::{Raw, Walk};

    use super::Json;

    fn json(text: &str) -> Json {
        Json::of(&Raw::parse(text.to_owned()).expect("JSON")).expect("small enough")
    }

    #[test]
    fn a_value_of_256_kib_is_looked_into_and_a_larger_one_is_not() {
        let text = |bytes: usize| Raw::parse(format!("\"{}\"", "x".repeat(bytes - 2))).expect("JSON");
        assert!(Json::of(&text(262_144)).is_some());
        assert!(Json::of(&text(262_145)).is_none());
    }

    #[test]
    fn values_are_equal_by_what_they_mean() {
        let equals = |one, other| json(one).equals(&json(other), &mut Walk::new(100));
        assert_eq!(equals(r#"{"a":1.0,"b":[null,"\u00e4"]}"#, r#"{"b":[null,"ä"],"a":1}"#), Some(true));
        assert_eq!(equals("9007199254740993", "9007199254740992"), Some(false));
        assert_eq!(equals("[1]", "[true]"), Some(false));
        let long = format!("[{}1]", "1,".repeat(100));
        assert_eq!(equals(&long, &long), None, "more pairs than steps");
        assert!(json("1.0").is_integer() && !json("1.5").is_integer());
    }
}
