//! A JSON value that can be compared and looked into: schemas, and what is judged by them.
//!
//! Numbers keep their digits, so that none is rounded before it is compared.

use mcpjoin_proto::types::Members;
use mcpjoin_proto::{Kind, Raw};

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

    /// Whether both mean the same: numbers by their value, members in any order.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::Number(one), Self::Number(other)) => match (one.parse::<i128>(), other.parse::<i128>()) {
                (Ok(one), Ok(other)) => one == other,
                _ => one == other || self.as_number() == other_number(other),
            },
            (Self::String(one), Self::String(other)) => one == other,
            (Self::Array(one), Self::Array(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.equals(other))
            }
            (Self::Object(one), Self::Object(members)) => {
                one.len() == members.len()
                    && one
                        .iter()
                        .all(|(name, value)| other.get(name).is_some_and(|found| value.equals(found)))
            }
            _ => false,
        }
    }
}

fn other_number(digits: &str) -> Option<f64> {
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::Raw;

    use super::Json;

    fn json(text: &str) -> Json {
        Json::of(&Raw::parse(text.to_owned()).expect("JSON")).expect("small enough")
    }

    #[test]
    fn values_are_equal_by_what_they_mean() {
        assert!(json(r#"{"a":1.0,"b":[null,"\u00e4"]}"#).equals(&json(r#"{"b":[null,"ä"],"a":1}"#)));
        assert!(!json("9007199254740993").equals(&json("9007199254740992")));
        assert!(!json("[1]").equals(&json("[true]")));
        assert!(json("1.0").is_integer() && !json("1.5").is_integer());
    }
}
