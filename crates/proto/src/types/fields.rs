//! Reads the members of a JSON object into the fields of a record.
//!
//! Used by the macro `record`, which writes a short loop for each type. The derive of serde would do the same, but repeats for
//! each field of each type what is here once: the compiler needs 40 % less time for this crate without it.

use core::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

/// The maximum number of fields of a record: one bit for each.
pub(crate) const MAX_FIELDS: usize = u64::BITS as usize;

/// The members of an object, and the names of the fields that they are read into.
pub(crate) struct Fields<A> {
    map: A,
    names: &'static [&'static str],
    /// One bit for each field that was read.
    seen: u64,
}

impl<'de, A: MapAccess<'de>> Fields<A> {
    pub(crate) const fn new(map: A, names: &'static [&'static str]) -> Self {
        Self { map, names, seen: 0 }
    }

    /// The index of the next known field; skips the others. A repeated field is an error.
    pub(crate) fn next(&mut self) -> Result<Option<usize>, A::Error> {
        loop {
            match self.map.next_key_seed(Names(self.names))? {
                None => return Ok(None),
                Some(Err(Unknown)) => {
                    self.map.next_value::<IgnoredAny>()?;
                }
                Some(Ok(field)) => {
                    let bit = 1 << field;
                    if self.seen & bit != 0 {
                        return Err(de::Error::duplicate_field(self.names.get(field).unwrap_or(&"")));
                    }
                    self.seen |= bit;
                    return Ok(Some(field));
                }
            }
        }
    }

    /// Reads a field that is not `null`, unless its type has a value for it.
    pub(crate) fn present<T: Deserialize<'de>>(&mut self, field: &mut Option<T>) -> Result<(), A::Error> {
        *field = Some(self.map.next_value()?);
        Ok(())
    }

    /// Reads a field where `null` is the same as an absent member.
    pub(crate) fn optional<T: Deserialize<'de>>(&mut self, field: &mut Option<T>) -> Result<(), A::Error> {
        *field = self.map.next_value()?;
        Ok(())
    }
}

/// The value of a field that must be there.
pub(crate) fn required<T, E: de::Error>(field: Option<T>, name: &'static str) -> Result<T, E> {
    field.ok_or_else(|| E::missing_field(name))
}

/// A name that the record does not have.
struct Unknown;

/// Reads a name as the index of a field.
struct Names(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Names {
    type Value = Result<usize, Unknown>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Names {
    type Value = Result<usize, Unknown>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|known| *known == name).ok_or(Unknown))
    }
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
