//! Reads the members of a JSON object into the fields of a record, and writes them.
//!
//! Used by the macro `record`, which makes a short loop and a list of calls for each type. The derive of serde would do the
//! same, but repeats for each field of each type what is here once.

use alloc::string::String;
use core::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::members::Members;
use crate::Raw;

/// The maximum number of fields of a record: one bit for each.
pub(crate) const MAX_FIELDS: usize = u64::BITS as usize;

/// The members of an object, and the fields that they are read into.
pub(crate) struct Fields<'de, A: MapAccess<'de>> {
    map: A,
    names: &'static [&'static str],
    index: fn(&str) -> Option<usize>,
    /// One bit for each field that was read.
    seen: u64,
    /// The first error, which ends the reading. Kept here, so that the code of each field has no branch for it.
    error: Option<A::Error>,
}

impl<'de, A: MapAccess<'de>> Fields<'de, A> {
    /// `index` finds a name among `names`.
    pub(crate) const fn new(
        map: A,
        names: &'static [&'static str],
        index: fn(&str) -> Option<usize>,
    ) -> Self {
        Self { map, names, index, seen: 0, error: None }
    }

    /// The index of the next known field; skips the others. `None` at the end, and after an error.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "a call costs 50 instructions for each member of each message")]
    pub(crate) fn next(&mut self) -> Option<usize> {
        while self.error.is_none() {
            match self.map.next_key_seed(Index(self.index)) {
                Ok(None) => break,
                Ok(Some(None)) => self.error = self.map.next_value::<IgnoredAny>().err(),
                Ok(Some(Some(field))) => {
                    if self.is_first(field) {
                        return Some(field);
                    }
                }
                Err(error) => self.error = Some(error),
            }
        }
        None
    }

    /// The index of the next known field; adds the others to `other`. `None` at the end, and after an error.
    pub(crate) fn next_or_other(&mut self, other: &mut Members<Raw>) -> Option<usize> {
        while self.error.is_none() {
            match self.map.next_key_seed(IndexOrName(self.index)) {
                Ok(None) => break,
                Ok(Some(Err(name))) => match self.map.next_value() {
                    Ok(value) => other.push(name, value),
                    Err(error) => self.error = Some(error),
                },
                Ok(Some(Ok(field))) => {
                    if self.is_first(field) {
                        return Some(field);
                    }
                }
                Err(error) => self.error = Some(error),
            }
        }
        None
    }

    /// Whether a field is read for the first time; if not, that is an error.
    #[inline]
    fn is_first(&mut self, field: usize) -> bool {
        let bit = 1 << field;
        let is_first = self.seen & bit == 0;
        if is_first {
            self.seen |= bit;
        } else {
            self.error = self.names.get(field).map(|name| de::Error::duplicate_field(name));
        }
        is_first
    }

    /// Reads a field that is not `null`, unless its type has a value for it.
    pub(crate) fn present<T: Deserialize<'de>>(&mut self, field: &mut Option<T>) {
        match self.map.next_value() {
            Ok(value) => *field = Some(value),
            Err(error) => self.fail(error),
        }
    }

    /// Reads a field where `null` is the same as an absent member.
    pub(crate) fn optional<T: Deserialize<'de>>(&mut self, field: &mut Option<T>) {
        match self.map.next_value() {
            Ok(value) => *field = value,
            Err(error) => self.fail(error),
        }
    }

    #[cold]
    fn fail(&mut self, error: A::Error) {
        self.error = Some(error);
    }

    /// The error that has ended the reading, if there was one.
    pub(crate) fn end(self) -> Result<(), A::Error> {
        self.error.map_or(Ok(()), Err)
    }
}

/// The value of a field that must be there.
pub(crate) fn required<T, E: de::Error>(field: Option<T>, name: &'static str) -> Result<T, E> {
    field.ok_or_else(|| E::missing_field(name))
}

/// Reads a name as the index of a field, if there is one.
struct Index(fn(&str) -> Option<usize>);

impl<'de> DeserializeSeed<'de> for Index {
    type Value = Option<usize>;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Index {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    #[inline]
    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0(name))
    }
}

/// Reads a name as the index of a field or, if there is none, as a text.
struct IndexOrName(fn(&str) -> Option<usize>);

impl<'de> DeserializeSeed<'de> for IndexOrName {
    type Value = Result<usize, String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for IndexOrName {
    type Value = Result<usize, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0(name).ok_or_else(|| name.into()))
    }
}

/// An object that the fields are written to.
pub(crate) struct Writing<S: SerializeStruct> {
    object: S,
    /// The first error, which ends the writing. Kept here, so that the code of each field has no branch for it.
    error: Option<S::Error>,
}

impl<S: SerializeStruct> Writing<S> {
    pub(crate) const fn new(object: S) -> Self {
        Self { object, error: None }
    }

    /// Writes a field.
    pub(crate) fn required<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) {
        if self.error.is_none()
            && let Err(error) = self.object.serialize_field(name, value)
        {
            self.fail(error);
        }
    }

    #[cold]
    fn fail(&mut self, error: S::Error) {
        self.error = Some(error);
    }

    /// Writes a field if it is there.
    pub(crate) fn optional<T: Serialize>(&mut self, name: &'static str, value: &Option<T>) {
        match value {
            Some(value) => self.required(name, value),
            None => self.skip(name),
        }
    }

    fn skip(&mut self, name: &'static str) {
        if self.error.is_none() {
            self.error = self.object.skip_field(name).err();
        }
    }

    /// The end of the object, or the error that has ended the writing.
    pub(crate) fn end(self) -> Result<S::Ok, S::Error> {
        match self.error {
            None => self.object.end(),
            Some(error) => Err(error),
        }
    }
}

/// A number that is written as an integer if it is whole: `50`, not `50.0`. They are the same JSON number, and every reader
/// accepts `50`.
pub(crate) struct Number(pub(crate) f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match whole(self.0) {
            Some(whole) => serializer.serialize_i64(whole),
            None => serializer.serialize_f64(self.0),
        }
    }
}

/// Above 2^53 an `f64` does not represent every integer ([RFC 8259, section
/// 6](https://www.rfc-editor.org/rfc/rfc8259#section-6)).
const MAX_EXACT_INTEGER: i64 = 1 << 53;

/// The integer that equals the number, if there is one.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "compared after the fact")]
fn whole(value: f64) -> Option<i64> {
    let whole = value as i64;
    (whole.abs() <= MAX_EXACT_INTEGER && whole as f64 == value).then_some(whole)
}

/// The name of a field in camelCase, made while compiling.
pub(crate) struct CamelCase<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> CamelCase<N> {
    pub(crate) const fn of(snake_case: &str) -> Self {
        let mut bytes = [0; N];
        let (mut from, mut length) = (0, 0);
        while from < N {
            bytes[length] = match snake_case.as_bytes()[from] {
                b'_' => {
                    from += 1;
                    snake_case.as_bytes()[from].to_ascii_uppercase()
                }
                byte => byte,
            };
            from += 1;
            length += 1;
        }
        Self { bytes, length }
    }

    pub(crate) const fn as_str(&self) -> &str {
        match core::str::from_utf8(self.bytes.split_at(self.length).0) {
            Ok(name) => name,
            Err(_) => "",
        }
    }
}
