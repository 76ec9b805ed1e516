//! Object keys, read and written, and the writer of single strings.
//!
//! Integer and boolean keys are converted to strings and back.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use serde::de::{self, Deserializer, IntoDeserializer, Visitor};
use serde::ser::{Impossible, Serialize, Serializer};

use super::write::push_display;
use super::{ReadError, WriteError, append_string};
use crate::Raw;

/// A key to deserialize.
pub(super) struct KeyReader<'de>(pub(super) Cow<'de, str>);

/// Parses integers and booleans; the visitor checks the range.
macro_rules! parsed {
    ($($method:ident = $type:ident, $visit:ident;)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            match self.0.parse::<$type>() {
                Ok(value) => visitor.$visit(value),
                Err(_) => Err(de::Error::invalid_type(de::Unexpected::Str(&self.0), &visitor)),
            }
        }
    )* };
}

impl<'de> Deserializer<'de> for KeyReader<'de> {
    type Error = ReadError;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0 {
            Cow::Borrowed(key) => visitor.visit_borrowed_str(key),
            Cow::Owned(key) => visitor.visit_string(key),
        }
    }

    /// The name of a member: no visitor of names keeps the text.
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_str(&self.0)
    }

    parsed! {
        deserialize_bool = bool, visit_bool;
        deserialize_i8 = i64, visit_i64;
        deserialize_i16 = i64, visit_i64;
        deserialize_i32 = i64, visit_i64;
        deserialize_i64 = i64, visit_i64;
        deserialize_i128 = i128, visit_i128;
        deserialize_u8 = u64, visit_u64;
        deserialize_u16 = u64, visit_u64;
        deserialize_u32 = u64, visit_u64;
        deserialize_u64 = u64, visit_u64;
        deserialize_u128 = u128, visit_u128;
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_enum(self.0.into_deserializer())
    }

    serde::forward_to_deserialize_any! {
        f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        ignored_any
    }
}

/// The spare capacity behind a large text, in bytes: enough for the envelope that the session adds to a request.
const SPARE_BYTES: usize = 1024;

/// Writes one string: the key of an object, or the text of a [`Raw`] without any change.
pub(super) struct TextWriter<'a> {
    out: &'a mut Vec<u8>,
    verbatim: bool,
}

impl<'a> TextWriter<'a> {
    pub(super) const fn key(out: &'a mut Vec<u8>) -> Self {
        Self { out, verbatim: false }
    }

    /// Writes a JSON text unchanged. Claims not to be human-readable, so that a [`Raw`] gives its text.
    pub(super) const fn verbatim(out: &'a mut Vec<u8>) -> Self {
        Self { out, verbatim: true }
    }

    #[cold]
    fn refuse(&self) -> WriteError {
        let what = if self.verbatim {
            "something that is not JSON text under the name of one"
        } else {
            "a key must be a string, an integer or a boolean"
        };
        WriteError(what.into())
    }
}

/// Values that are quoted without escapes.
macro_rules! quoted {
    ($($method:ident($type:ident))*) => { $(
        fn $method(self, value: $type) -> Result<(), WriteError> {
            if self.verbatim {
                return Err(self.refuse());
            }
            self.out.push(b'"');
            push_display(value, self.out);
            self.out.push(b'"');
            Ok(())
        }
    )* };
}

/// Values that are not strings.
macro_rules! refused {
    ($($method:ident($($argument:ty),*) -> $result:ty;)*) => { $(
        fn $method(self, $(_: $argument),*) -> Result<$result, WriteError> {
            Err(self.refuse())
        }
    )* };
}

type No = Impossible<(), WriteError>;

impl Serializer for TextWriter<'_> {
    type Ok = ();
    type Error = WriteError;
    type SerializeSeq = No;
    type SerializeTuple = No;
    type SerializeTupleStruct = No;
    type SerializeTupleVariant = No;
    type SerializeMap = No;
    type SerializeStruct = No;
    type SerializeStructVariant = No;

    fn is_human_readable(&self) -> bool {
        !self.verbatim
    }

    #[inline]
    fn serialize_str(self, value: &str) -> Result<(), WriteError> {
        if !self.verbatim {
            append_string(value, self.out);
            return Ok(());
        }
        if value.len() >= Raw::SHARED_FROM && value.len() >= self.out.len() {
            // Brackets and an envelope follow. Doubling the capacity for them would cost as much as the text itself.
            self.out.reserve_exact(value.len() + SPARE_BYTES);
        }
        self.out.extend_from_slice(value.as_bytes());
        Ok(())
    }

    quoted! {
        serialize_bool(bool) serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64)
        serialize_i128(i128) serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64)
        serialize_u128(u128)
    }

    fn serialize_char(self, value: char) -> Result<(), WriteError> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), WriteError> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), WriteError> {
        value.serialize(self)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), WriteError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), WriteError> {
        Err(self.refuse())
    }

    refused! {
        serialize_f32(f32) -> ();
        serialize_f64(f64) -> ();
        serialize_bytes(&[u8]) -> ();
        serialize_none() -> ();
        serialize_unit() -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_seq(Option<usize>) -> No;
        serialize_tuple(usize) -> No;
        serialize_tuple_struct(&'static str, usize) -> No;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> No;
        serialize_map(Option<usize>) -> No;
        serialize_struct(&'static str, usize) -> No;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> No;
    }
}
