//! JSON Schemas of types, and their replacements for older revisions.
//!
//! The dialect is 2020-12, the default of the specification:
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic#json-schema-usage>.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::Arc;

use mcpjoin_proto::Raw;
use mcpjoin_proto::scan::MAX_DEPTH;
use mcpjoin_proto::types::Members;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::NoArguments;

/// The schema of arguments, derived from their type. It is encoded when it is first needed.
#[derive(Clone)]
pub(super) struct Input(Arc<Value>);

impl Input {
    pub(super) fn write(&self) -> Raw {
        Raw::from_value(&*self.0).expect("JSON that is not deep has a text")
    }
}

/// The schemas of arguments by type. Each is derived once: many tools take no arguments.
pub(super) struct Inputs(HashMap<TypeId, Option<Input>>);

impl Default for Inputs {
    fn default() -> Self {
        // A derived one has the name and the documentation of a type of Rust, which would tell a model nothing.
        let none = Input(Arc::new(json!({ "type": "object", "properties": {} })));
        Self(HashMap::from([(TypeId::of::<NoArguments>(), Some(none))]))
    }
}

impl Inputs {
    /// Returns the schema of arguments. `None` if the type does not describe an object, or describes one that is too
    /// deep.
    pub(super) fn of<T: JsonSchema + 'static>(&mut self) -> Option<Input> {
        self.of_type(TypeId::of::<T>(), || input(root_of::<T>(settings())))
    }

    // Not generic, like all that needs no type here: what is generic is compiled in the crate that calls it, for each type
    // and as that crate is optimised.
    fn of_type(&mut self, id: TypeId, derived: fn() -> Option<Input>) -> Option<Input> {
        self.0.entry(id).or_insert_with(derived).clone()
    }
}

/// The settings of all schemas.
pub(super) fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12()
        .with_transform(RecursiveTransform(without_widths))
        .with_transform(RecursiveTransform(describe_properties))
}

/// Writes the schema of a property that may have any value as an object. The legacy revisions require one, and clients that check
/// it refuse the whole list of tools.
/// <https://github.com/modelcontextprotocol/modelcontextprotocol/blob/main/schema/2025-11-25/schema.json>
fn describe_properties(schema: &mut Schema) {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(Map::values_mut) {
        if let Ok(property) = <&mut Schema>::try_from(property) {
            property.ensure_object();
        }
    }
}

/// Removes the names of Rust's integer types from `format`. Validators of other languages do not know them, and warn of
/// each (ajv, in every TypeScript client) or refuse the schema. Values that do not fit the type are refused when they
/// are decoded.
fn without_widths(schema: &mut Schema) {
    const WIDTHS: [&str; 10] =
        ["int", "int8", "int16", "int128", "uint", "uint8", "uint16", "uint32", "uint64", "uint128"];
    if schema.get("format").and_then(Value::as_str).is_some_and(|format| WIDTHS.contains(&format)) {
        schema.remove("format");
    }
}

/// Returns the schema of a type that describes an object.
pub(super) fn object_of<T: JsonSchema>() -> Option<Map<String, Value>> {
    typed_object(root_of::<T>(settings()))
}

fn root_of<T: JsonSchema>(settings: SchemaSettings) -> Schema {
    settings.into_generator().into_root_schema_for::<T>()
}

fn typed_object(schema: Schema) -> Option<Map<String, Value>> {
    let mut object = object(schema)?;
    match object.get("type") {
        Some(kind) if kind == "object" => {}
        Some(_) => return None,
        // The schema of an enum of objects has the type in each alternative. The specification requires it at the root.
        None => {
            object.insert("type".into(), json!("object"));
        }
    }
    Some(object)
}

fn input(schema: Schema) -> Option<Input> {
    let mut object = typed_object(schema)?;
    // The schema is valid without it, but some APIs of models refuse the tool then ("object schema missing properties").
    object.entry("properties").or_insert_with(|| json!({}));
    let schema = Value::Object(object);
    // This makes sure that it can be encoded, and that every client can decode it.
    is_shallow(&schema, MAX_DEPTH / 2).then(|| Input(Arc::new(schema)))
}

/// Whether arrays and objects are nested at most `depth` deep.
pub(super) fn is_shallow(value: &Value, depth: usize) -> bool {
    let inner = |value: &Value| depth.checked_sub(1).is_some_and(|depth| is_shallow(value, depth));
    match value {
        Value::Object(object) => object.values().all(inner),
        Value::Array(array) => array.iter().all(inner),
        _ => true,
    }
}

/// Returns the schema of a structured result.
pub(super) fn of_output<T: JsonSchema>() -> Option<Raw> {
    encoded(&root_of::<T>(settings().for_serialize()))
}

fn encoded(schema: &Schema) -> Option<Raw> {
    Raw::from_value(schema.as_value()).ok()
}

fn object(schema: Schema) -> Option<Map<String, Value>> {
    match schema.to_value() {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// Returns whether a schema describes objects.
pub fn is_of_object(schema: &Raw) -> bool {
    schema.member("type").is_some_and(|kind| kind.to_string_value().as_deref() == Some("object"))
}

/// Returns the schema of an object with a value of `schema` as its member `result`. `None` if the schema refers to its
/// own root, which would be another one inside the object.
pub fn wrapped(schema: &Raw) -> Option<Raw> {
    let mut inner: Value = schema.decode().ok()?;
    if refers_to_root(&inner) {
        return None;
    }
    let definitions = inner.as_object_mut().and_then(|inner| {
        inner.remove("$schema");
        inner.remove("$defs")
    });
    let mut outer = json!({ "type": "object", "properties": { "result": inner }, "required": ["result"] });
    if let (Some(definitions), Some(outer)) = (definitions, outer.as_object_mut()) {
        outer.insert("$defs".into(), definitions);
    }
    Raw::from_value(&outer).ok()
}

/// Returns an object with the value as its member `result`.
pub fn wrap(value: &Raw) -> Option<Raw> {
    Raw::from_value(&Members::new().with("result", value.clone())).ok()
}

/// Whether a reference points outside of `$defs`.
fn refers_to_root(schema: &Value) -> bool {
    match schema {
        Value::Object(object) => object.iter().any(|(key, value)| match (key.as_str(), value) {
            ("$ref" | "$dynamicRef", Value::String(target)) => {
                target.starts_with('#') && !target.starts_with("#/$defs/")
            }
            _ => refers_to_root(value),
        }),
        Value::Array(array) => array.iter().any(refers_to_root),
        _ => false,
    }
}
