//! Types whose fields are texts: the arguments of a prompt and the variables of a resource template.
//!
//! Both arrive as texts by name. `prompts` and `resources` decode them into the type of the handler: a number or a boolean
//! is parsed from its text, an enum without values from the name of its variant.

use std::collections::{BTreeMap, btree_map};

use schemars::JsonSchema;
use serde::de::value::{Error, MapAccessDeserializer, StringDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Value;

use super::schema;

/// A field, as the schema of its type describes it.
pub(super) struct Field {
    pub(super) name: String,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) is_required: bool,
}

/// Returns the fields of a type, first the required ones in their order. `None` if the type is no struct.
pub(super) fn fields<T: JsonSchema>() -> Option<Vec<Field>> {
    let schema = schema::object_of::<T>()?;
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let Some(properties) = schema.get("properties") else {
        // The fields of an enum, or of an `Option` of a struct, are those of one alternative.
        let has_alternatives = ["anyOf", "oneOf"].iter().any(|keyword| schema.contains_key(*keyword));
        return (!has_alternatives).then(Vec::new);
    };
    let field = |(name, property): (&String, &Value)| {
        let text = |key: &str| property.get(key).and_then(Value::as_str).map(ToOwned::to_owned);
        let is_required = required.contains(&name.as_str());
        Field { name: name.clone(), title: text("title"), description: text("description"), is_required }
    };
    let mut fields: Vec<Field> = properties.as_object()?.iter().map(field).collect();
    // A stable sort: the optional ones stay sorted by name.
    let place = |field: &Field| required.iter().position(|name| *name == field.name);
    fields.sort_by_key(|field| place(field).unwrap_or(usize::MAX));
    Some(fields)
}

/// Decodes texts by name. The error names the field.
pub(super) fn decode<T: DeserializeOwned>(texts: BTreeMap<String, String>) -> Result<T, String> {
    let texts = Texts { rest: texts.into_iter(), value: None };
    T::deserialize(MapAccessDeserializer::new(texts)).map_err(|error| error.to_string())
}

struct Texts {
    rest: btree_map::IntoIter<String, String>,
    value: Option<(String, String)>,
}

impl<'de> MapAccess<'de> for Texts {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((name, value)) = self.rest.next() else { return Ok(None) };
        let key = seed.deserialize(name.as_str().into_deserializer());
        self.value = Some((name, value));
        key.map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let (name, value) =
            self.value.take().ok_or_else(|| Error::custom("a value is read before its key"))?;
        seed.deserialize(Text(value)).map_err(|error| Error::custom(format_args!("`{name}`: {error}")))
    }
}

/// One value.
struct Text(String);

/// Parses the text. A text that is no such value stays a text, and the visitor says what it expected.
macro_rules! parsed {
    ($($deserialize:ident $visit:ident)*) => {
        $(fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.0.parse() {
                Ok(value) => visitor.$visit(value),
                Err(_) => visitor.visit_string(self.0),
            }
        })*
    };
}

impl<'de> Deserializer<'de> for Text {
    type Error = Error;

    parsed! {
        deserialize_bool visit_bool
        deserialize_i8 visit_i8
        deserialize_i16 visit_i16
        deserialize_i32 visit_i32
        deserialize_i64 visit_i64
        deserialize_i128 visit_i128
        deserialize_u8 visit_u8
        deserialize_u16 visit_u16
        deserialize_u32 visit_u32
        deserialize_u64 visit_u64
        deserialize_u128 visit_u128
        deserialize_f32 visit_f32
        deserialize_f64 visit_f64
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        StringDeserializer::<Error>::new(self.0).deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize, JsonSchema, Debug, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Tone {
        Kind,
    }

    #[derive(Deserialize, JsonSchema, Debug, PartialEq)]
    struct Id(u64);

    /// The name of this type is no argument.
    #[derive(Deserialize, JsonSchema, Debug, PartialEq)]
    struct Wanted {
        /// What to read.
        text: String,
        #[serde(default)]
        brief: bool,
        id: Id,
        most: Option<f64>,
        tone: Option<Tone>,
    }

    #[derive(JsonSchema)]
    #[serde(tag = "kind")]
    #[expect(dead_code, reason = "only its schema is used")]
    enum Either {
        One { text: String },
        Other { id: Id },
    }

    fn decoded(texts: &[(&str, &str)]) -> Result<Wanted, String> {
        decode(texts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn values_are_parsed_as_their_fields_want_them() {
        let expected =
            Wanted { text: "7".into(), most: Some(1.5), id: Id(7), brief: true, tone: Some(Tone::Kind) };
        let texts = [("text", "7"), ("most", "1.5"), ("id", "7"), ("brief", "true"), ("tone", "kind")];
        assert_eq!(decoded(&texts), Ok(expected));
        let expected = Wanted { text: String::new(), most: None, id: Id(0), brief: false, tone: None };
        assert_eq!(decoded(&[("text", ""), ("id", "0"), ("other", "x")]), Ok(expected));
    }

    #[test]
    fn errors_name_the_field() {
        for (texts, said) in [
            (&[("text", "x"), ("id", "-1")] as &[_], "`id`: invalid type: string \"-1\", expected u64"),
            (
                &[("text", "x"), ("id", "1"), ("brief", "yes")],
                "`brief`: invalid type: string \"yes\", expected a boolean",
            ),
            (
                &[("text", "x"), ("id", "1"), ("tone", "rude")],
                "`tone`: unknown variant `rude`, expected `kind`",
            ),
            (&[("id", "1")], "missing field `text`"),
        ] {
            assert_eq!(decoded(texts), Err(said.to_owned()));
        }
    }

    #[test]
    fn required_fields_stand_first_and_in_their_order() {
        let wanted = fields::<Wanted>().expect("a struct");
        let shown: Vec<_> = wanted
            .iter()
            .map(|field| (field.name.as_str(), field.is_required, field.description.as_deref()))
            .collect();
        assert_eq!(
            shown,
            [
                ("text", true, Some("What to read.")),
                ("id", true, None),
                ("brief", false, None),
                ("most", false, None),
                ("tone", false, None),
            ]
        );
        assert!(fields::<Id>().is_none(), "a number has no fields");
        assert!(fields::<Either>().is_none(), "an enum has those of one alternative");
        assert!(fields::<Option<Wanted>>().is_none());
        assert_eq!(fields::<super::super::NoArguments>().map(|fields| fields.len()), Some(0));
    }
}
