//! Asks for a type: its schema becomes the form that the client shows its user.
//!
//! Used by handlers through [`Context::elicit_as`]. A form is a flat object of primitive values, so of the schema that
//! `schemars` derives only the part remains that a form has.
//! <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#requested-schema>

use mcpjoin_proto::types::{
    ElicitAction, ElicitFormParams, ElicitationSchema, PrimitiveSchema, ProtocolType,
};
use mcpjoin_proto::{ErrorObject, Raw};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Context, InputError, encode, schema};

/// The formats of a text in a form.
const FORMATS: [&str; 4] = ["email", "uri", "date", "date-time"];

impl Context {
    /// Asks the client's user to fill in a form with the fields of `T`, and returns the values. `None` if the user declines
    /// or cancels; [`elicit`](Self::elicit) tells the two apart.
    ///
    /// The fields of `T` are texts, numbers, booleans, enums without data, `Option`s of these, and lists of such enums (since
    /// 2025-11-25). Doc comments describe the fields. They are sent in alphabetical order, or in that of the type if
    /// `serde_json` has its feature `preserve_order`. Works in both eras as [`elicit`](Self::elicit) does: in the modern era
    /// the handler runs again from its start when the client has sent the input.
    ///
    /// ```
    /// use mcpjoin::server::{Context, HandlerError, NoArguments, Server, tool};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Person {
    ///     /// Your name
    ///     name: String,
    ///     age: Option<u8>,
    /// }
    ///
    /// async fn greet(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    ///     Ok(match cx.elicit_as::<Person>("Who are you?").await? {
    ///         Some(person) => format!("Hello {}, {:?}", person.name, person.age),
    ///         None => "Hello".into(),
    ///     })
    /// }
    ///
    /// let server = Server::builder("greeter", "1.0.0").tool(tool("greet"), greet).build()?;
    /// # Ok::<(), mcpjoin::server::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// [`InputError`], also if `T` has a field that no form has, and if the values do not fit `T`. Pass it on with `?`.
    pub async fn elicit_as<T: JsonSchema + DeserializeOwned>(
        &self,
        message: impl Into<String>,
    ) -> Result<Option<T>, InputError> {
        let form = form::<T>().map_err(|problem| InputError::Refused(ErrorObject::internal(problem)))?;
        let result = self.elicit(ElicitFormParams::new(message, form)).await?;
        if result.action != ElicitAction::Accept {
            return Ok(None);
        }
        let values = encode(&result.content.unwrap_or_default()).map_err(InputError::Refused)?;
        values.decode().map(Some).map_err(|error| {
            InputError::Refused(ErrorObject::invalid_params(format!("the answer to the form: {error}")))
        })
    }
}

/// Returns the form of a type, or what is wrong with the type.
fn form<T: JsonSchema>() -> Result<ElicitationSchema, String> {
    let settings = schema::settings().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("$schema");
    let name = T::schema_name();
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(format!("`{name}` is not a form: it is not an object"));
    }
    if let Some(Value::Object(fields)) = schema.get_mut("properties") {
        for (field, schema) in fields {
            if let Value::Object(schema) = schema {
                simplify(schema);
            }
            let read = Raw::from_value(schema).map(|schema| schema.decode());
            if !matches!(read, Ok(Ok(kind)) if !matches!(kind, PrimitiveSchema::Other(_))) {
                return Err(format!("`{name}` is not a form: its field `{field}` has no primitive value"));
            }
        }
    } else {
        schema.insert("properties".into(), Map::new().into());
    }
    let form = Raw::from_value(schema.as_value()).map_err(|error| error.to_string())?;
    ElicitationSchema::read(&form).map_err(|error| format!("`{name}` is not a form: {error}"))
}

/// Removes `null`, which a form says with `required`, writes the choices of an enum as one list, and removes formats that a
/// form does not have.
fn simplify(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(alternatives)) = schema.get_mut("anyOf") {
        alternatives.retain(|schema| schema["type"] != "null");
        if let [Value::Object(only)] = alternatives.as_mut_slice() {
            let only = std::mem::take(only);
            schema.remove("anyOf");
            for (keyword, value) in only {
                schema.entry(keyword).or_insert(value);
            }
        }
    }
    if let Some(choices) = schema.get("oneOf").and_then(choices) {
        schema.remove("oneOf");
        schema.insert("type".into(), "string".into());
        schema.insert("enum".into(), choices);
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(kinds)) = schema.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_mut_slice() {
            let only = only.take();
            schema.insert("type".into(), only);
        }
    }
    if schema.get("format").and_then(Value::as_str).is_some_and(|format| !FORMATS.contains(&format)) {
        schema.remove("format");
    }
    if let Some(Value::Object(items)) = schema.get_mut("items") {
        simplify(items);
    }
}

/// Returns the values of an enum of which each value has a description. `None` if it is something else.
fn choices(alternatives: &Value) -> Option<Value> {
    let mut values = Vec::new();
    for alternative in alternatives.as_array()? {
        match (&alternative["const"], &alternative["enum"]) {
            (Value::String(value), _) => values.push(Value::from(value.as_str())),
            (_, Value::Array(several)) => values.extend(several.iter().cloned()),
            _ => return None,
        }
    }
    Some(values.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(JsonSchema)]
    #[schemars(rename_all = "lowercase")]
    #[expect(dead_code, reason = "only its schema is used")]
    enum Size {
        Small,
        Large,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    enum Colour {
        /// As the sky
        Blue,
        Red,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Order {
        /// What it is for
        name: String,
        note: Option<String>,
        count: u8,
        weight: Option<f64>,
        gift: bool,
        size: Size,
        other_size: Option<Size>,
        colour: Option<Colour>,
        sizes: Vec<Size>,
    }

    #[test]
    fn a_form_has_the_fields_of_its_type_and_only_what_forms_have() {
        let form = Raw::from_value(&form::<Order>().unwrap()).unwrap().decode::<Value>().unwrap();
        assert_eq!(form["type"], "object");
        assert_eq!(form["required"], json!(["name", "count", "gift", "size", "sizes"]));
        let sizes = json!(["small", "large"]);
        let fields = [
            ("name", json!({ "type": "string", "description": "What it is for" })),
            ("note", json!({ "type": "string" })),
            ("count", json!({ "type": "integer", "minimum": 0, "maximum": 255 })),
            ("weight", json!({ "type": "number" })),
            ("gift", json!({ "type": "boolean" })),
            ("size", json!({ "type": "string", "enum": sizes })),
            ("other_size", json!({ "type": "string", "enum": sizes })),
            ("colour", json!({ "type": "string", "enum": ["Red", "Blue"] })),
            ("sizes", json!({ "type": "array", "items": { "type": "string", "enum": sizes } })),
        ];
        for (name, field) in fields {
            assert_eq!(form["properties"][name], field, "{name}");
        }
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Nested {
        order: Order,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Texts {
        texts: Vec<String>,
    }

    #[test]
    fn a_type_that_is_no_form_is_refused_with_the_name_of_the_field() {
        let nested = form::<Nested>().unwrap_err();
        assert_eq!(nested, "`Nested` is not a form: its field `order` has no primitive value");
        assert!(form::<Texts>().unwrap_err().contains("its field `texts`"));
        assert_eq!(form::<Vec<u8>>().unwrap_err(), "`Array_of_uint8` is not a form: it is not an object");
    }
}
