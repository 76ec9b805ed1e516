//! serde for [`Raw`].
//!
//! A [`Raw`] is serialized as a newtype with a unique name. This crate's reader and writer recognize the name and pass
//! the text through, with a serializer and a deserializer that are "not human-readable": for such formats a `Raw` is
//! its text, as a string. For every other human-readable format the value is transcribed member by member. Numbers are
//! then `i64`, `u64` or `f64`, the first that fits; further digits are rounded, which is a limit of that format.

use alloc::borrow::{Cow, ToOwned};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{self, Serialize, SerializeMap, SerializeSeq, Serializer};

use super::{MAX_DEPTH, append_string};
use crate::scan;
use crate::{Kind, Raw};

/// The newtype name of a [`Raw`].
pub(super) const TOKEN: &str = "$mcpjoin::Raw";

/// The struct name of a serde_json number that keeps its digits (feature `arbitrary_precision`).
pub(super) const SERDE_JSON_NUMBER: &str = "$serde_json::private::Number";

pub(crate) fn serialize_raw<S: Serializer>(raw: &Raw, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_struct(TOKEN, &Transcribed { text: raw.as_str(), depth: 0 })
}

/// Serializes the value of a text.
struct Transcribed<'a> {
    text: &'a str,
    depth: usize,
}

impl Transcribed<'_> {
    fn inside(&self, range: core::ops::Range<usize>) -> Transcribed<'_> {
        Transcribed { text: self.text.get(range).unwrap_or("null"), depth: self.depth + 1 }
    }
}

impl Serialize for Transcribed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.depth == 0 && !serializer.is_human_readable() {
            return serializer.serialize_str(self.text);
        }
        if self.depth > MAX_DEPTH {
            return Err(ser::Error::custom("nested too deeply"));
        }
        // A part of a text; only its first byte is checked.
        let text = self.text;
        match Kind::of(text.as_bytes()) {
            Kind::Object => {
                let mut map = serializer.serialize_map(None)?;
                for (key, range) in scan::members_of(text) {
                    map.serialize_entry(&*key, &self.inside(range))?;
                }
                map.end()
            }
            Kind::Array => {
                let mut seq = serializer.serialize_seq(None)?;
                for range in scan::elements(text) {
                    seq.serialize_element(&self.inside(range))?;
                }
                seq.end()
            }
            Kind::String => {
                let (end, escaped) = scan::string_end(text.as_bytes(), 1);
                serializer.serialize_str(&scan::unescape(text.get(1..end).unwrap_or_default(), escaped))
            }
            Kind::Number => {
                if let Ok(value) = text.parse::<u64>() {
                    serializer.serialize_u64(value)
                } else if let (Ok(value), false) = (text.parse::<i64>(), text == "-0") {
                    serializer.serialize_i64(value)
                } else {
                    match text.parse::<f64>() {
                        Ok(value) if value.is_finite() => serializer.serialize_f64(value),
                        _ => Err(ser::Error::custom("a number that no f64 holds")),
                    }
                }
            }
            Kind::Bool => serializer.serialize_bool(text == "true"),
            Kind::Null => serializer.serialize_unit(),
        }
    }
}

pub(crate) fn deserialize_raw<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Raw, D::Error> {
    Ok(Raw::trusted(match deserialize_text(deserializer)? {
        Cow::Borrowed(text) => Bytes::copy_from_slice(text.as_bytes()),
        Cow::Owned(text) => Bytes::from(text),
    }))
}

/// The text of a [`Raw`] without a copy, where this crate's reader can borrow it.
pub(crate) fn deserialize_text<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Cow<'de, str>, D::Error> {
    deserializer.deserialize_newtype_struct(TOKEN, RawVisitor)
}

/// Step 1: distinguishes human-readable formats.
struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        if deserializer.is_human_readable() {
            let mut text = Vec::new();
            Transcriber { out: &mut text, depth: 0 }.deserialize(deserializer)?;
            String::from_utf8(text).map(Cow::Owned).map_err(de::Error::custom)
        } else {
            deserializer.deserialize_newtype_struct(TOKEN, TextVisitor)
        }
    }
}

/// Step 2, for formats that are not human-readable: this crate's reader returns the text at once; another format passes
/// the newtype again, and its text must be validated.
struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON text")
    }

    /// Only [`Verbatim`] returns a string for a newtype; other formats call `visit_newtype_struct`. If another format
    /// did so, its text would still be UTF-8, which is all that safety requires.
    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let text = String::deserialize(deserializer)?;
        let range = scan::value(text.as_bytes()).map_err(de::Error::custom)?;
        Ok(Cow::Owned(text.get(range).unwrap_or_default().to_owned()))
    }
}

/// This crate's reader at a [`Raw`]: passes the text to [`TextVisitor`].
pub(super) struct Verbatim<'de>(pub(super) &'de str);

impl<'de> Deserializer<'de> for Verbatim<'de> {
    type Error = super::ReadError;

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_borrowed_str(self.0)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// Writes the value of another format as JSON.
struct Transcriber<'a> {
    out: &'a mut Vec<u8>,
    depth: usize,
}

impl Transcriber<'_> {
    fn inside(&mut self) -> Transcriber<'_> {
        Transcriber { out: self.out, depth: self.depth + 1 }
    }

    fn display(self, value: impl fmt::Display) {
        super::write::push_display(value, self.out);
    }
}

impl<'de> DeserializeSeed<'de> for Transcriber<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.depth > scan::MAX_DEPTH {
            return Err(de::Error::custom("nested too deeply"));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Transcriber<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON can express")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        self.display(value);
        Ok(())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        self.display(value);
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        self.display(value);
        Ok(())
    }

    fn visit_i128<E: de::Error>(self, value: i128) -> Result<(), E> {
        self.display(value);
        Ok(())
    }

    fn visit_u128<E: de::Error>(self, value: u128) -> Result<(), E> {
        self.display(value);
        Ok(())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        super::write::push_float(value, self.out).map_err(E::custom)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<(), E> {
        append_string(value, self.out);
        Ok(())
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn visit_none<E: de::Error>(self) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        self.out.push(b'[');
        let mut first = true;
        loop {
            let before = self.out.len();
            if !first {
                self.out.push(b',');
            }
            if seq.next_element_seed(self.inside())?.is_none() {
                self.out.truncate(before);
                break;
            }
            first = false;
        }
        self.out.push(b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut next = map.next_key::<String>()?;
        if next.as_deref() == Some(SERDE_JSON_NUMBER) {
            let number = map.next_value::<String>()?;
            push_number(&number, self.out).map_err(de::Error::custom)?;
            return Ok(());
        }
        self.out.push(b'{');
        let mut first = true;
        while let Some(key) = next {
            if !first {
                self.out.push(b',');
            }
            first = false;
            append_string(&key, self.out);
            self.out.push(b':');
            map.next_value_seed(self.inside())?;
            next = map.next_key()?;
        }
        self.out.push(b'}');
        Ok(())
    }
}

/// Appends a number, if it is valid.
pub(super) fn push_number(number: &str, out: &mut Vec<u8>) -> Result<(), &'static str> {
    if Kind::of(number.as_bytes()) != Kind::Number || scan::value(number.as_bytes()) != Ok(0..number.len()) {
        return Err("no JSON number");
    }
    out.extend_from_slice(number.as_bytes());
    Ok(())
}
