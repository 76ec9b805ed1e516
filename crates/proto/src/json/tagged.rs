//! Unions of records that say their kind in the member `type`.
//!
//! Used by the types of the protocol. Where the member comes first, as nearly everybody writes it, the value is read in
//! one pass, which counts for long texts; elsewhere it is searched first. A record with two such members is an error,
//! because another reader may take the other one.

use alloc::borrow::Cow;
use core::fmt;
use core::marker::PhantomData;

use serde::de::{self, DeserializeSeed, Deserializer, EnumAccess, VariantAccess, Visitor};

use super::raw::deserialize_text;
use super::read::Reader;
use super::string_member;

/// The newtype name of a union, which this crate's reader recognizes.
pub(super) const TOKEN: &str = "$mcpjoin::Tagged";

/// The member with the kind.
pub(super) const TAG: &str = "type";

/// A union.
pub(crate) trait Tagged: Sized {
    /// Reads the record of this kind.
    fn read<'de, D: Deserializer<'de>>(kind: &str, deserializer: D) -> Result<Self, D::Error>;
}

pub(crate) fn deserialize_tagged<'de, T: Tagged, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    deserializer.deserialize_newtype_struct(TOKEN, TaggedVisitor(PhantomData))
}

struct TaggedVisitor<T>(PhantomData<T>);

impl<'de, T: Tagged> Visitor<'de> for TaggedVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with the member `{TAG}`")
    }

    /// This crate's reader, which has found the kind.
    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<T, A::Error> {
        let (kind, record) = access.variant::<&'de str>()?;
        record.newtype_variant_seed(Record { kind, union: self.0 })
    }

    /// Any other reader, and objects that begin with another member.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        let text: Cow<'de, str> = deserialize_text(deserializer)?;
        let kind = string_member(&text, TAG)
            .ok_or_else(|| de::Error::custom(format_args!("the member `{TAG}` is missing or no string")))?;
        T::read(&kind, &mut Reader::of_tagged(&text)).map_err(de::Error::custom)
    }
}

/// The record of a kind.
struct Record<'a, T> {
    kind: &'a str,
    union: PhantomData<T>,
}

impl<'de, T: Tagged> DeserializeSeed<'de> for Record<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::read(self.kind, deserializer)
    }
}
