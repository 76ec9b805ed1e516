//! A serde `Serializer` that writes JSON on one line.
//!
//! A [`Raw`](crate::Raw) is copied unchanged. Values without a JSON form (a number that is not finite, a key that is
//! not a string) are errors. The output is bytes, which are faster to append to; only `str`s and ASCII are appended, so
//! it is UTF-8.

use alloc::vec::Vec;
use core::fmt::{self, Write as _};

use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use super::key::TextWriter;
use super::raw::{SERDE_JSON_NUMBER, TOKEN, push_number};
use super::{MAX_DEPTH, WriteError, append_string};

type Written = Result<(), WriteError>;

/// Appends values to a text.
pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    depth: usize,
}

impl<'a> Writer<'a> {
    pub(super) const fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, depth: 0 }
    }

    fn open(&mut self, brackets: &str) -> Written {
        if self.depth == MAX_DEPTH {
            return Err(WriteError("nested too deeply".into()));
        }
        self.depth += 1;
        self.out.extend_from_slice(brackets.as_bytes());
        Ok(())
    }

    fn variant(&mut self, variant: &str) -> Written {
        self.open("{")?;
        append_string(variant, self.out);
        self.out.push(b':');
        Ok(())
    }

    fn close(&mut self, brackets: &str) {
        self.depth -= 1;
        self.out.extend_from_slice(brackets.as_bytes());
    }
}

/// Appends a value that needs no escape.
pub(super) fn push_display(value: impl fmt::Display, out: &mut Vec<u8>) {
    // Appending cannot fail.
    let _ = write!(Appended(out), "{value}");
}

/// A text to append to.
struct Appended<'a>(&'a mut Vec<u8>);

impl fmt::Write for Appended<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Appends a float in the shortest form that reads back as the same value. The `Debug` form of a finite float has this
/// property and is valid JSON.
pub(super) fn push_float(
    value: impl Into<f64> + Copy + fmt::Debug,
    out: &mut Vec<u8>,
) -> Result<(), &'static str> {
    if !value.into().is_finite() {
        return Err("JSON has no such number: not finite");
    }
    let _ = write!(Appended(out), "{value:?}");
    Ok(())
}

fn push_integer(magnitude: u64, negative: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(integer_text(magnitude, negative, &mut [0; INTEGER_BYTES]));
}

/// The maximum length of a 64-bit integer, in bytes.
pub(crate) const INTEGER_BYTES: usize = 21;

/// Writes an integer to the end of the buffer.
pub(crate) fn integer_text(magnitude: u64, negative: bool, digits: &mut [u8; INTEGER_BYTES]) -> &[u8] {
    let mut at = digits.len();
    let mut rest = magnitude;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if negative {
        at -= 1;
        digits[at] = b'-';
    }
    &digits[at..]
}

macro_rules! integers {
    ($($signed:ident($signed_type:ident) $unsigned:ident($unsigned_type:ident))*) => { $(
        #[inline]
        fn $signed(self, value: $signed_type) -> Written {
            let value = i64::from(value);
            push_integer(value.unsigned_abs(), value < 0, self.out);
            Ok(())
        }

        #[inline]
        fn $unsigned(self, value: $unsigned_type) -> Written {
            push_integer(u64::from(value), false, self.out);
            Ok(())
        }
    )* };
}

impl<'b, 'a> Serializer for &'b mut Writer<'a> {
    type Ok = ();
    type Error = WriteError;
    type SerializeSeq = Parts<'b, 'a>;
    type SerializeTuple = Parts<'b, 'a>;
    type SerializeTupleStruct = Parts<'b, 'a>;
    type SerializeTupleVariant = Parts<'b, 'a>;
    type SerializeMap = Parts<'b, 'a>;
    type SerializeStruct = Struct<'b, 'a>;
    type SerializeStructVariant = Parts<'b, 'a>;

    fn serialize_bool(self, value: bool) -> Written {
        self.out.extend_from_slice(if value { &b"true"[..] } else { b"false" });
        Ok(())
    }

    integers! {
        serialize_i8(i8) serialize_u8(u8)
        serialize_i16(i16) serialize_u16(u16)
        serialize_i32(i32) serialize_u32(u32)
        serialize_i64(i64) serialize_u64(u64)
    }

    fn serialize_i128(self, value: i128) -> Written {
        push_display(value, self.out);
        Ok(())
    }

    fn serialize_u128(self, value: u128) -> Written {
        push_display(value, self.out);
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Written {
        push_float(value, self.out).map_err(|what| WriteError(what.into()))
    }

    fn serialize_f64(self, value: f64) -> Written {
        push_float(value, self.out).map_err(|what| WriteError(what.into()))
    }

    fn serialize_char(self, value: char) -> Written {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    #[inline]
    fn serialize_str(self, value: &str) -> Written {
        append_string(value, self.out);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Written {
        let mut parts = self.serialize_seq(Some(value.len()))?;
        for byte in value {
            SerializeSeq::serialize_element(&mut parts, byte)?;
        }
        SerializeSeq::end(parts)
    }

    fn serialize_none(self) -> Written {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Written {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Written {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Written {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _name: &'static str, _index: u32, variant: &'static str) -> Written {
        self.serialize_str(variant)
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, value: &T) -> Written {
        if name == TOKEN { value.serialize(TextWriter::verbatim(self.out)) } else { value.serialize(self) }
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Written {
        self.variant(variant)?;
        value.serialize(&mut *self)?;
        self.close("}");
        Ok(())
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<Parts<'b, 'a>, WriteError> {
        self.open("[")?;
        Ok(Parts { writer: self, first: true, closing: "]" })
    }

    fn serialize_tuple(self, length: usize) -> Result<Parts<'b, 'a>, WriteError> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_struct(self, _name: &'static str, length: usize) -> Result<Parts<'b, 'a>, WriteError> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<Parts<'b, 'a>, WriteError> {
        self.variant(variant)?;
        self.out.push(b'[');
        Ok(Parts { writer: self, first: true, closing: "]}" })
    }

    fn serialize_map(self, _length: Option<usize>) -> Result<Parts<'b, 'a>, WriteError> {
        self.open("{")?;
        Ok(Parts { writer: self, first: true, closing: "}" })
    }

    #[inline]
    fn serialize_struct(self, name: &'static str, length: usize) -> Result<Struct<'b, 'a>, WriteError> {
        if name == SERDE_JSON_NUMBER {
            return Ok(Struct::Number(self));
        }
        self.serialize_map(Some(length)).map(Struct::Fields)
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<Parts<'b, 'a>, WriteError> {
        self.variant(variant)?;
        self.out.push(b'{');
        Ok(Parts { writer: self, first: true, closing: "}}" })
    }
}

/// The content of an array or object.
pub(super) struct Parts<'b, 'a> {
    writer: &'b mut Writer<'a>,
    first: bool,
    closing: &'static str,
}

impl Parts<'_, '_> {
    #[inline]
    fn comma(&mut self) {
        if !self.first {
            self.writer.out.push(b',');
        }
        self.first = false;
    }

    #[inline]
    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        self.comma();
        value.serialize(&mut *self.writer)
    }

    /// Not generic: `field` is compiled once for each type of a value.
    fn key(&mut self, key: &'static str) {
        self.comma();
        append_string(key, self.writer.out);
        self.writer.out.push(b':');
    }

    #[inline]
    fn field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Written {
        self.key(key);
        value.serialize(&mut *self.writer)
    }

    #[inline]
    fn finish(self) -> Written {
        self.writer.close(self.closing);
        Ok(())
    }
}

macro_rules! elements {
    ($($of:ident::$method:ident)*) => { $(
        impl $of for Parts<'_, '_> {
            type Ok = ();
            type Error = WriteError;

            #[inline]
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
                self.element(value)
            }

            #[inline]
            fn end(self) -> Written {
                self.finish()
            }
        }
    )* };
}

elements! {
    SerializeSeq::serialize_element
    SerializeTuple::serialize_element
    SerializeTupleStruct::serialize_field
    SerializeTupleVariant::serialize_field
}

impl SerializeStructVariant for Parts<'_, '_> {
    type Ok = ();
    type Error = WriteError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Written {
        self.field(key, value)
    }

    fn end(self) -> Written {
        self.finish()
    }
}

impl SerializeMap for Parts<'_, '_> {
    type Ok = ();
    type Error = WriteError;

    #[inline]
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Written {
        self.comma();
        key.serialize(TextWriter::key(self.writer.out))
    }

    #[inline]
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        self.writer.out.push(b':');
        value.serialize(&mut *self.writer)
    }

    #[inline]
    fn end(self) -> Written {
        self.finish()
    }
}

/// The content of a struct, or of a serde_json number, which is serialized as a struct with one string.
pub(super) enum Struct<'b, 'a> {
    Fields(Parts<'b, 'a>),
    Number(&'b mut Writer<'a>),
}

impl<'a> Struct<'_, 'a> {
    /// Begins a field; returns the writer of its value and where that value begins.
    fn begin(&mut self, key: &'static str) -> (&mut Writer<'a>, usize) {
        let writer = match self {
            Self::Fields(parts) => {
                parts.key(key);
                &mut *parts.writer
            }
            Self::Number(writer) => writer,
        };
        let start = writer.out.len();
        (writer, start)
    }

    /// Replaces the string of a number, which begins at `start`, with the number.
    fn end_value(&mut self, start: usize) -> Written {
        let Self::Number(writer) = self else { return Ok(()) };
        let string = writer.out.split_off(start);
        let number = core::str::from_utf8(&string).unwrap_or_default().trim_matches('"');
        push_number(number, writer.out).map_err(|what| WriteError(what.into()))
    }
}

impl SerializeStruct for Struct<'_, '_> {
    type Ok = ();
    type Error = WriteError;

    #[inline]
    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Written {
        let (writer, start) = self.begin(key);
        value.serialize(writer)?;
        self.end_value(start)
    }

    #[inline]
    fn end(self) -> Written {
        match self {
            Self::Fields(parts) => parts.finish(),
            Self::Number(_) => Ok(()),
        }
    }
}
