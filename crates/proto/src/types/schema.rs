//! The schema of a form that a user is asked to fill in: a flat object of primitive values.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#requested-schema>. A small part of
//! JSON Schema; a field that is none of the known kinds is kept as it was written, for whoever shows the form
//! to refuse or to make something of.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, de};

use super::members::Members;
use super::number;
use crate::{Kind, Raw};

record! {
    /// The schema of a form.
    #[serde(tag = "type", rename = "object")]
    ElicitationSchema {
        /// The fields in the order in which they are to be shown.
        properties: Members<PrimitiveSchema>,
        ---
        /// The dialect of JSON Schema; since 2025-11-25.
        #[serde(rename = "$schema")]
        schema: String => with_schema,
        /// The fields that must be filled in.
        required: Vec<String> => with_required,
    }
}

/// A field of a form.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PrimitiveSchema {
    /// A line of text.
    String(StringSchema),
    /// A number.
    Number(NumberSchema),
    /// Yes or no.
    Boolean(BooleanSchema),
    /// One of several values.
    UntitledSingleSelect(UntitledSingleSelectEnumSchema),
    /// One of several values that have names for people; since 2025-11-25.
    TitledSingleSelect(TitledSingleSelectEnumSchema),
    /// Some of several values; since 2025-11-25.
    UntitledMultiSelect(UntitledMultiSelectEnumSchema),
    /// Some of several values that have names for people; since 2025-11-25.
    TitledMultiSelect(TitledMultiSelectEnumSchema),
    /// One of several values, the names for people beside them: the form of 2025-06-18.
    LegacyTitled(LegacyTitledEnumSchema),
    /// None of these, as it was written.
    Other(Raw),
}

variants! {
    PrimitiveSchema {
        String(StringSchema),
        Number(NumberSchema),
        Boolean(BooleanSchema),
        UntitledSingleSelect(UntitledSingleSelectEnumSchema),
        TitledSingleSelect(TitledSingleSelectEnumSchema),
        UntitledMultiSelect(UntitledMultiSelectEnumSchema),
        TitledMultiSelect(TitledMultiSelectEnumSchema),
        LegacyTitled(LegacyTitledEnumSchema),
    }
}

impl PrimitiveSchema {
    /// Which kind it is shows in `type` and in the members that only one kind has.
    fn of(raw: Raw) -> Result<Self, crate::json::ReadError> {
        let kind = raw.member("type");
        let kind = kind.as_ref().and_then(Raw::to_string_value);
        let has = |name: &str| raw.member(name).is_some();
        Ok(match kind.as_deref() {
            Some("string") if has("oneOf") => Self::TitledSingleSelect(raw.decode()?),
            Some("string") if has("enum") && has("enumNames") => Self::LegacyTitled(raw.decode()?),
            Some("string") if has("enum") => Self::UntitledSingleSelect(raw.decode()?),
            Some("string") => Self::String(raw.decode()?),
            Some("number" | "integer") => Self::Number(raw.decode()?),
            Some("boolean") => Self::Boolean(raw.decode()?),
            Some("array") => match raw.member("items") {
                Some(items) if items.member("anyOf").is_some() => Self::TitledMultiSelect(raw.decode()?),
                Some(items) if items.member("enum").is_some() => Self::UntitledMultiSelect(raw.decode()?),
                _ => Self::Other(raw),
            },
            _ => Self::Other(raw),
        })
    }
}

impl<'de> Deserialize<'de> for PrimitiveSchema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Raw::deserialize(deserializer)?;
        if raw.kind() != Kind::Object {
            return Err(de::Error::custom("the schema of a field is an object"));
        }
        Self::of(raw).map_err(de::Error::custom)
    }
}

record! {
    /// A line of text.
    #[derive(Default)]
    #[serde(tag = "type", rename = "string")]
    StringSchema [field] {
        ---
        /// The shortest that it may be, in characters.
        min_length: i64 => with_min_length,
        /// The longest that it may be, in characters.
        max_length: i64 => with_max_length,
        /// What it must be.
        format: StringFormat => with_format,
        /// What stands there before anything is typed; since 2025-11-25.
        default: String => with_default,
    }
}

open! {
    /// What a line of text must be.
    StringFormat {
        /// An address for mail.
        Email = "email",
        /// A URI.
        Uri = "uri",
        /// A day.
        Date = "date",
        /// A moment.
        DateTime = "date-time",
    }
}

record! {
    /// A number.
    NumberSchema [field] {
        /// Which numbers are meant.
        #[serde(rename = "type")]
        kind: NumberType,
        ---
        /// The smallest that it may be.
        #[serde(serialize_with = "number::write_option")]
        minimum: f64 => with_minimum,
        /// The largest that it may be.
        #[serde(serialize_with = "number::write_option")]
        maximum: f64 => with_maximum,
        /// What stands there before anything is typed; since 2025-11-25.
        #[serde(serialize_with = "number::write_option")]
        default: f64 => with_default,
    }
}

open! {
    /// Which numbers are meant.
    NumberType {
        /// All.
        Number = "number",
        /// Those without a fraction.
        Integer = "integer",
    }
}

record! {
    /// Yes or no.
    #[derive(Default)]
    #[serde(tag = "type", rename = "boolean")]
    BooleanSchema [field] {
        ---
        /// What stands there before anything is chosen.
        default: bool => with_default,
    }
}

record! {
    /// One of several values.
    #[serde(tag = "type", rename = "string")]
    UntitledSingleSelectEnumSchema [field] {
        /// The values.
        #[serde(rename = "enum")]
        values: Vec<String>,
        ---
        /// What stands there before anything is chosen.
        default: String => with_default,
    }
}

record! {
    /// One of several values that have names for people.
    #[serde(tag = "type", rename = "string")]
    TitledSingleSelectEnumSchema [field] {
        /// The values with their names.
        one_of: Vec<EnumOption>,
        ---
        /// What stands there before anything is chosen.
        default: String => with_default,
    }
}

record! {
    /// A value with its name.
    EnumOption {
        /// The value.
        #[serde(rename = "const")]
        value: String as impl Into<String>,
        /// Its name, for people.
        title: String as impl Into<String>,
        ---
    }
}

record! {
    /// One of several values, the names for people beside them.
    #[serde(tag = "type", rename = "string")]
    LegacyTitledEnumSchema {
        /// The values.
        #[serde(rename = "enum")]
        values: Vec<String>,
        ---
        /// The names for people, in the order of the values.
        enum_names: Vec<String> => with_enum_names,
        /// Its name, for people.
        title: String => with_title,
        /// What belongs there.
        description: String => with_description,
        /// What stands there before anything is chosen.
        default: String => with_default,
    }
}

record! {
    /// Some of several values.
    #[serde(tag = "type", rename = "array")]
    UntitledMultiSelectEnumSchema [field] {
        /// The values.
        items: UntitledItems,
        ---
        /// How many must be chosen.
        min_items: i64 => with_min_items,
        /// How many may be chosen.
        max_items: i64 => with_max_items,
        /// What is chosen before the user chooses.
        default: Vec<String> => with_default,
    }
}

record! {
    /// The values of which some are chosen.
    #[serde(tag = "type", rename = "string")]
    UntitledItems {
        /// The values.
        #[serde(rename = "enum")]
        values: Vec<String>,
        ---
    }
}

record! {
    /// Some of several values that have names for people.
    #[serde(tag = "type", rename = "array")]
    TitledMultiSelectEnumSchema [field] {
        /// The values with their names.
        items: TitledItems,
        ---
        /// How many must be chosen.
        min_items: i64 => with_min_items,
        /// How many may be chosen.
        max_items: i64 => with_max_items,
        /// What is chosen before the user chooses.
        default: Vec<String> => with_default,
    }
}

record! {
    /// The values with their names, of which some are chosen.
    TitledItems {
        /// The values with their names.
        any_of: Vec<EnumOption>,
        ---
    }
}
