//! The schema of an elicitation form: a flat object of primitive values.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#requested-schema>. A small subset of
//! JSON Schema. A field of an unknown kind is kept unchanged, so that the client decides what to do with it.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, de};

use super::members::Members;
use crate::{Kind, Raw};

record! {
    /// The schema of a form.
    ElicitationSchema "type": "object" {
        /// The fields in display order.
        properties: Members<PrimitiveSchema>,
        ---
        /// The JSON Schema dialect; since 2025-11-25.
        schema "$schema": String => with_schema,
        /// The required fields.
        required: Vec<String> => with_required,
    }
}

/// A field of a form.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PrimitiveSchema {
    /// A text.
    String(StringSchema),
    /// A number.
    Number(NumberSchema),
    /// A boolean.
    Boolean(BooleanSchema),
    /// A choice of one value.
    UntitledSingleSelect(UntitledSingleSelectEnumSchema),
    /// A choice of one value with display names; since 2025-11-25.
    TitledSingleSelect(TitledSingleSelectEnumSchema),
    /// A choice of several values; since 2025-11-25.
    UntitledMultiSelect(UntitledMultiSelectEnumSchema),
    /// A choice of several values with display names; since 2025-11-25.
    TitledMultiSelect(TitledMultiSelectEnumSchema),
    /// A choice of one value with display names in a second list, as in 2025-06-18.
    LegacyTitled(LegacyTitledEnumSchema),
    /// An unknown kind, unchanged.
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
    /// Selects the kind by `type` and by the members that only one kind has.
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
    /// A text field.
    #[derive(Default)]
    StringSchema "type": "string" [field] {
        ---
        /// The minimum length, in characters.
        min_length: i64 => with_min_length,
        /// The maximum length, in characters.
        max_length: i64 => with_max_length,
        /// The format of the text.
        format: StringFormat => with_format,
        /// The initial value; since 2025-11-25.
        default: String => with_default,
    }
}

open! {
    /// The format of a text.
    StringFormat {
        /// An email address.
        Email = "email",
        /// A URI.
        Uri = "uri",
        /// A date.
        Date = "date",
        /// A date with a time.
        DateTime = "date-time",
    }
}

record! {
    /// A number field.
    NumberSchema [field] {
        /// The kind of number.
        kind "type": NumberType,
        ---
        /// The minimum.
        minimum: f64 | number => with_minimum,
        /// The maximum.
        maximum: f64 | number => with_maximum,
        /// The initial value; since 2025-11-25.
        default: f64 | number => with_default,
    }
}

open! {
    /// The kind of a number.
    NumberType {
        /// Any number.
        Number = "number",
        /// An integer.
        Integer = "integer",
    }
}

record! {
    /// A boolean field.
    #[derive(Default)]
    BooleanSchema "type": "boolean" [field] {
        ---
        /// The initial value.
        default: bool => with_default,
    }
}

record! {
    /// A choice of one value.
    UntitledSingleSelectEnumSchema "type": "string" [field] {
        /// The values.
        values "enum": Vec<String>,
        ---
        /// The initial value.
        default: String => with_default,
    }
}

record! {
    /// A choice of one value with display names.
    TitledSingleSelectEnumSchema "type": "string" [field] {
        /// The values with their display names.
        one_of: Vec<EnumOption>,
        ---
        /// The initial value.
        default: String => with_default,
    }
}

record! {
    /// A value with its display name.
    EnumOption {
        /// The value.
        value "const": String as impl Into<String>,
        /// The display name.
        title: String as impl Into<String>,
        ---
    }
}

record! {
    /// A choice of one value, with the display names in a second list.
    LegacyTitledEnumSchema "type": "string" {
        /// The values.
        values "enum": Vec<String>,
        ---
        /// The display names in the order of the values.
        enum_names: Vec<String> => with_enum_names,
        /// The display name.
        title: String => with_title,
        /// The description of the expected value.
        description: String => with_description,
        /// The initial value.
        default: String => with_default,
    }
}

record! {
    /// A choice of several values.
    UntitledMultiSelectEnumSchema "type": "array" [field] {
        /// The values.
        items: UntitledItems,
        ---
        /// The minimum number of values.
        min_items: i64 => with_min_items,
        /// The maximum number of values.
        max_items: i64 => with_max_items,
        /// The initial values.
        default: Vec<String> => with_default,
    }
}

record! {
    /// The values of a choice.
    UntitledItems "type": "string" {
        /// The values.
        values "enum": Vec<String>,
        ---
    }
}

record! {
    /// A choice of several values with display names.
    TitledMultiSelectEnumSchema "type": "array" [field] {
        /// The values with their display names.
        items: TitledItems,
        ---
        /// The minimum number of values.
        min_items: i64 => with_min_items,
        /// The maximum number of values.
        max_items: i64 => with_max_items,
        /// The initial values.
        default: Vec<String> => with_default,
    }
}

record! {
    /// The values of a choice, with their display names.
    TitledItems {
        /// The values with their display names.
        any_of: Vec<EnumOption>,
        ---
    }
}
