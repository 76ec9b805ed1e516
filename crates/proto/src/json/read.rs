//! A serde `Deserializer` for validated text.
//!
//! Strings without escapes are borrowed, numbers are read exactly or rejected, and a [`Raw`](crate::Raw) gets its text
//! unchanged. Ignored values are skipped.

use alloc::borrow::Cow;

use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};

use super::key::KeyReader;
use super::raw::{TOKEN, Verbatim};
use super::tagged::{self, TAG};
use super::{MAX_DEPTH, ReadError};
use crate::scan;

type Read<T> = Result<T, ReadError>;

/// A position in a text: the first byte of a value, or white space before it.
pub(super) struct Reader<'de> {
    text: &'de str,
    at: usize,
    depth: usize,
    /// The next object is a record of a union, and has one tag.
    tagged: bool,
}

impl<'de> Reader<'de> {
    pub(super) const fn new(text: &'de str) -> Self {
        Self { text, at: 0, depth: 0, tagged: false }
    }

    /// A reader of a record of a union.
    pub(super) const fn of_tagged(text: &'de str) -> Self {
        Self { text, at: 0, depth: 0, tagged: true }
    }

    /// The tag of the object at this position, if it is the first member and has no escapes.
    fn first_tag(&self) -> Option<&'de str> {
        let mut ahead = Self { at: self.at + 1, ..Self::new(self.text) };
        ahead.space();
        if self.peek() != Some(b'{') || ahead.peek() != Some(b'"') || ahead.string() != TAG {
            return None;
        }
        ahead.colon();
        match ahead.peek() {
            Some(b'"') => match ahead.string() {
                Cow::Borrowed(tag) => Some(tag),
                Cow::Owned(_) => None,
            },
            _ => None,
        }
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline]
    fn space(&mut self) {
        self.at = scan::skip_space(self.text.as_bytes(), self.at);
    }

    /// Reads a string.
    #[inline]
    fn string(&mut self) -> Cow<'de, str> {
        let (value, end) = scan::string(self.text, self.at + 1);
        self.at = end + 1;
        value
    }

    /// Skips a value and returns its text.
    #[inline]
    fn verbatim(&mut self) -> &'de str {
        self.tagged = false;
        let start = self.at;
        self.at = scan::skip_value(self.text.as_bytes(), start);
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Enters an array or object.
    #[inline]
    fn enter(&mut self) -> Read<()> {
        if self.depth == MAX_DEPTH {
            return Err(ReadError::new("nested too deeply"));
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    /// Leaves an array or object.
    #[inline]
    fn leave(&mut self) {
        self.depth -= 1;
        self.at += 1;
    }

    fn visit_string<V: Visitor<'de>>(&mut self, visitor: V) -> Read<V::Value> {
        match self.string() {
            Cow::Borrowed(value) => visitor.visit_borrowed_str(value),
            Cow::Owned(value) => visitor.visit_string(value),
        }
    }

    fn visit_array<V: Visitor<'de>>(&mut self, visitor: V) -> Read<V::Value> {
        self.enter()?;
        let mut elements = Elements { reader: self, count: 0, ended: false };
        let value = visitor.visit_seq(&mut elements)?;
        elements.leave()?;
        Ok(value)
    }

    fn visit_object<V: Visitor<'de>>(&mut self, visitor: V) -> Read<V::Value> {
        let mut members = Members::enter(self, &visitor)?;
        let value = visitor.visit_map(&mut members)?;
        members.leave()?;
        Ok(value)
    }

    /// A number for a visitor of any number.
    fn visit_number<V: Visitor<'de>>(&mut self, visitor: V) -> Read<V::Value> {
        number(self.verbatim())?.visit(visitor)
    }

    /// A number for a visitor of an integer. `5.0` and `5e0` are 5, as in JSON Schema.
    fn visit_integer<V: Visitor<'de>>(&mut self, visitor: V) -> Read<V::Value> {
        integer(self.verbatim())?.visit(visitor)
    }

    /// Moves to the next element or member; returns false at the closing bracket. Not generic, as everything here that can
    /// be: code that is generic is compiled once for each type that is read.
    fn advance(&mut self, first: bool) -> bool {
        self.space();
        if !first && self.peek() == Some(b',') {
            self.at += 1;
            self.space();
        }
        !matches!(self.peek(), Some(b']' | b'}') | None)
    }

    /// Moves from behind a key to its value.
    fn colon(&mut self) {
        self.space();
        self.at += 1;
        self.space();
    }

    /// The error for a value of another kind.
    #[cold]
    fn wrong_kind(&mut self, expected: &dyn de::Expected) -> ReadError {
        let unexpected = match self.peek() {
            Some(b'{') => Unexpected::Map,
            Some(b'[') => Unexpected::Seq,
            Some(b'"') => {
                let value = self.string();
                return de::Error::invalid_type(Unexpected::Str(&value), expected);
            }
            Some(b't') => Unexpected::Bool(true),
            Some(b'f') => Unexpected::Bool(false),
            Some(b'n') => Unexpected::Unit,
            Some(_) => match self.verbatim() {
                number if scan::is_integer(number) => match number.parse() {
                    Ok(value) => Unexpected::Signed(value),
                    Err(_) => Unexpected::Other("number"),
                },
                number => Unexpected::Float(number.parse().unwrap_or(f64::NAN)),
            },
            None => Unexpected::Other("nothing"),
        };
        de::Error::invalid_type(unexpected, expected)
    }
}

/// A number in the smallest type that has it.
enum Number {
    U64(u64),
    I64(i64),
    U128(u128),
    I128(i128),
    F64(f64),
}

impl Number {
    fn visit<'de, V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        match self {
            Self::U64(value) => visitor.visit_u64(value),
            Self::I64(value) => visitor.visit_i64(value),
            Self::U128(value) => visitor.visit_u128(value),
            Self::I128(value) => visitor.visit_i128(value),
            Self::F64(value) => visitor.visit_f64(value),
        }
    }
}

/// An integer beyond 128 bits is an error and not rounded.
fn number(number: &str) -> Read<Number> {
    if !scan::is_integer(number) || number == "-0" {
        return float(number).map(Number::F64);
    }
    let small = number.parse().map(Number::U64).or_else(|_| number.parse().map(Number::I64));
    let large = |_| number.parse().map(Number::U128).or_else(|_| number.parse().map(Number::I128));
    small.or_else(large).map_err(|_| too_large(number))
}

/// The same for a visitor of an integer.
fn integer(text: &str) -> Read<Number> {
    whole(text).map_or_else(|| number(text), |value| Ok(Number::I64(value)))
}

#[cold]
fn too_large(number: &str) -> ReadError {
    ReadError::new(alloc::format!("the number {} does not fit", crate::text::prefix(number, 40)))
}

/// The nearest `f64`; an error when the number is out of range.
pub(super) fn float(number: &str) -> Read<f64> {
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(too_large(number)),
    }
}

/// The integer that equals a number with a fraction or exponent, if `f64` represents it exactly.
fn whole(number: &str) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if scan::is_integer(number) {
        return None;
    }
    let value = number.parse::<f64>().ok()?;
    // Within ±2^53 both conversions are exact.
    (value > -EXACT && value < EXACT && (value as i64) as f64 == value && is_exact(number))
        .then_some(value as i64)
}

/// Whether `f64` represents every digit of a number: at most 15 significant digits. A longer number may have been
/// rounded to an integer.
fn is_exact(number: &str) -> bool {
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    mantissa.bytes().filter(u8::is_ascii_digit).count() <= 15
}

macro_rules! integers {
    ($($method:ident)*) => { $(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
            match self.peek() {
                Some(b'-' | b'0'..=b'9') => self.visit_integer(visitor),
                _ => Err(self.wrong_kind(&visitor)),
            }
        }
    )* };
}

macro_rules! floats {
    ($($method:ident)*) => { $(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
            match self.peek() {
                Some(b'-' | b'0'..=b'9') => visitor.visit_f64(float(self.verbatim())?),
                _ => Err(self.wrong_kind(&visitor)),
            }
        }
    )* };
}

macro_rules! strings {
    ($($method:ident)*) => { $(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
            match self.peek() {
                Some(b'"') => self.visit_string(visitor),
                _ => Err(self.wrong_kind(&visitor)),
            }
        }
    )* };
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        match self.peek() {
            Some(b'"') => self.visit_string(visitor),
            Some(b'{') => self.visit_object(visitor),
            Some(b'[') => self.visit_array(visitor),
            Some(b't' | b'f') => self.deserialize_bool(visitor),
            Some(b'n') => self.deserialize_unit(visitor),
            Some(b'-' | b'0'..=b'9') => self.visit_number(visitor),
            _ => Err(self.wrong_kind(&visitor)),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        match self.peek() {
            Some(first @ (b't' | b'f')) => {
                self.verbatim();
                visitor.visit_bool(first == b't')
            }
            _ => Err(self.wrong_kind(&visitor)),
        }
    }

    integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    }

    floats! { deserialize_f32 deserialize_f64 }

    strings! { deserialize_char deserialize_str deserialize_string deserialize_identifier }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        match self.peek() {
            Some(b'"') => self.visit_string(visitor),
            Some(b'[') => self.visit_array(visitor),
            _ => Err(self.wrong_kind(&visitor)),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        if self.peek() == Some(b'n') {
            self.verbatim();
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        if self.peek() == Some(b'n') {
            self.verbatim();
            visitor.visit_unit()
        } else {
            Err(self.wrong_kind(&visitor))
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Read<V::Value> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Read<V::Value> {
        if name == TOKEN {
            visitor.visit_newtype_struct(Verbatim(self.verbatim()))
        } else if name == tagged::TOKEN
            && let Some(tag) = self.first_tag()
        {
            visitor.visit_enum(TaggedRecord { reader: self, tag })
        } else {
            visitor.visit_newtype_struct(self)
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        match self.peek() {
            Some(b'[') => self.visit_array(visitor),
            _ => Err(self.wrong_kind(&visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Read<V::Value> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _length: usize,
        visitor: V,
    ) -> Read<V::Value> {
        self.deserialize_seq(visitor)
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        self.visit_object(visitor)
    }

    /// An object. Other readers also accept an array of the fields in order, which the protocol does not have.
    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Read<V::Value> {
        self.visit_object(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Read<V::Value> {
        match self.peek() {
            Some(b'"') => visitor.visit_enum(self.string().into_deserializer()),
            Some(b'{') => {
                self.enter()?;
                self.space();
                if self.peek() != Some(b'"') {
                    return Err(ReadError::new("an empty object where a variant is due"));
                }
                let value = visitor.visit_enum(Variant { reader: self })?;
                self.space();
                if self.peek() != Some(b'}') {
                    return Err(ReadError::new("more than one member where a variant is due"));
                }
                self.leave();
                Ok(value)
            }
            _ => Err(self.wrong_kind(&visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        self.verbatim();
        visitor.visit_unit()
    }
}

/// The elements of the current array.
struct Elements<'a, 'de> {
    reader: &'a mut Reader<'de>,
    count: usize,
    ended: bool,
}

impl Elements<'_, '_> {
    /// Moves to the next element; returns false if there is none.
    fn advance(&mut self) -> bool {
        self.ended = self.ended || !self.reader.advance(self.count == 0);
        !self.ended
    }

    /// Leaves the array, which must have no further element.
    fn leave(mut self) -> Read<()> {
        if self.advance() {
            return Err(ReadError::new("the array is longer than expected"));
        }
        self.reader.leave();
        Ok(())
    }
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de> {
    type Error = ReadError;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Read<Option<T::Value>> {
        if !self.advance() {
            return Ok(None);
        }
        let value = seed.deserialize(&mut *self.reader).map_err(|error| error.in_element(self.count))?;
        self.count += 1;
        Ok(Some(value))
    }
}

/// The members of the current object.
struct Members<'a, 'de> {
    reader: &'a mut Reader<'de>,
    /// The position of the last key, for the path of an error.
    key: (usize, usize),
    first: bool,
    ended: bool,
    /// The number of tags, where there must be one.
    tags: Option<usize>,
}

impl<'a, 'de> Members<'a, 'de> {
    /// Enters the object at this position. Not generic, as `leave`.
    fn enter(reader: &'a mut Reader<'de>, expected: &dyn de::Expected) -> Read<Self> {
        if reader.peek() != Some(b'{') {
            return Err(reader.wrong_kind(expected));
        }
        reader.enter()?;
        let tags = core::mem::take(&mut reader.tagged).then_some(0);
        Ok(Self { reader, key: (0, 0), first: true, ended: false, tags })
    }

    /// Leaves the object behind the members that the visitor has not asked for.
    fn leave(&mut self) -> Read<()> {
        self.skip_rest();
        if self.tags > Some(1) {
            return Err(ReadError::new(alloc::format!("the member `{TAG}` is repeated")));
        }
        self.reader.leave();
        Ok(())
    }

    /// The next key, if there is one.
    fn next_key(&mut self) -> Option<Cow<'de, str>> {
        self.ended = self.ended || !self.reader.advance(self.first);
        if self.ended {
            return None;
        }
        self.first = false;
        let start = self.reader.at + 1;
        let key = self.reader.string();
        self.key = (start, self.reader.at - 1);
        if let Some(tags) = &mut self.tags
            && key == TAG
        {
            *tags += 1;
        }
        Some(key)
    }

    /// Skips the members that the visitor has not asked for.
    fn skip_rest(&mut self) {
        while self.next_key().is_some() {
            self.reader.colon();
            self.reader.verbatim();
        }
    }

    #[cold]
    fn in_member(&self, error: ReadError) -> ReadError {
        error.in_member(self.reader.text.get(self.key.0..self.key.1).unwrap_or_default())
    }
}

impl<'de> MapAccess<'de> for Members<'_, 'de> {
    type Error = ReadError;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Read<Option<K::Value>> {
        self.next_key().map(|key| seed.deserialize(KeyReader(key))).transpose()
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Read<V::Value> {
        self.reader.colon();
        seed.deserialize(&mut *self.reader).map_err(|error| self.in_member(error))
    }
}

/// A record of a union, at its brace, and its kind.
struct TaggedRecord<'a, 'de> {
    reader: &'a mut Reader<'de>,
    tag: &'de str,
}

impl<'a, 'de> EnumAccess<'de> for TaggedRecord<'a, 'de> {
    type Error = ReadError;
    type Variant = Variant<'a, 'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Read<(V::Value, Self::Variant)> {
        let kind = seed.deserialize(KeyReader(Cow::Borrowed(self.tag)))?;
        self.reader.tagged = true;
        Ok((kind, Variant { reader: self.reader }))
    }
}

/// The only member of an object: the name and the value of a variant.
struct Variant<'a, 'de> {
    reader: &'a mut Reader<'de>,
}

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = ReadError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Read<(V::Value, Self)> {
        let name = seed.deserialize(KeyReader(self.reader.string()))?;
        self.reader.colon();
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = ReadError;

    fn unit_variant(self) -> Read<()> {
        de::Deserialize::deserialize(self.reader)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Read<T::Value> {
        seed.deserialize(self.reader)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Read<V::Value> {
        self.reader.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _fields: &'static [&'static str], visitor: V) -> Read<V::Value> {
        self.reader.deserialize_map(visitor)
    }
}
