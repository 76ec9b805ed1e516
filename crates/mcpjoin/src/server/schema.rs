//! JSON Schemas of types, and what older revisions are told in their place.
//!
//! 2020-12 is the dialect that the specification assumes:
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic#json-schema-usage>.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::Arc;

use mcpjoin_proto::Raw;
use mcpjoin_proto::scan::MAX_DEPTH;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

/// The schema of arguments as it was made from their type. It becomes a text when somebody asks for it.
#[derive(Clone)]
pub(super) struct Input(Arc<Value>);

impl Input {
    pub(super) fn write(&self) -> Raw {
        Raw::from_value(&*self.0).expect("JSON that is not deep has a text")
    }
}

/// The schemas of arguments, each of which is made once: many a tool takes no arguments at all.
#[derive(Default)]
pub(super) struct Inputs(BTreeMap<TypeId, Option<Input>>);

impl Inputs {
    /// The schema of arguments. `None` when the type does not describe an object, or one too deep to be read.
    pub(super) fn of<T: JsonSchema + 'static>(&mut self) -> Option<Input> {
        self.0.entry(TypeId::of::<T>()).or_insert_with(of_input::<T>).clone()
    }
}

/// What both kinds of schema are made with.
fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with_transform(RecursiveTransform(without_widths))
}

/// Leaves out the names of Rust's integer types as formats. Validators of other languages do not know them, and warn of
/// each (ajv, in every TypeScript client) or refuse the schema. What a type does not hold is refused when it is read.
fn without_widths(schema: &mut Schema) {
    const WIDTHS: [&str; 10] =
        ["int", "int8", "int16", "int128", "uint", "uint8", "uint16", "uint32", "uint64", "uint128"];
    if schema.get("format").and_then(Value::as_str).is_some_and(|format| WIDTHS.contains(&format)) {
        schema.remove("format");
    }
}

fn of_input<T: JsonSchema>() -> Option<Input> {
    let schema = settings().into_generator().into_root_schema_for::<T>();
    let mut object = object(schema)?;
    match object.get("type") {
        Some(kind) if kind == "object" => {}
        Some(_) => return None,
        // An enum of objects says so in each alternative; the specification wants it at the root.
        None => {
            object.insert("type".into(), json!("object"));
        }
    }
    let schema = Value::Object(object);
    // Then it has a text, and one that everybody reads.
    is_shallow(&schema, MAX_DEPTH / 2).then(|| Input(Arc::new(schema)))
}

/// Whether arrays and objects lie no deeper in each other than that.
fn is_shallow(value: &Value, depth: usize) -> bool {
    let inner = |value: &Value| depth.checked_sub(1).is_some_and(|depth| is_shallow(value, depth));
    match value {
        Value::Object(object) => object.values().all(inner),
        Value::Array(array) => array.iter().all(inner),
        _ => true,
    }
}

/// The schema of a structured result.
pub(super) fn of_output<T: JsonSchema>() -> Option<Raw> {
    let schema = settings().for_serialize().into_generator().into_root_schema_for::<T>();
    Raw::from_value(schema.as_value()).ok()
}

fn object(schema: Schema) -> Option<Map<String, Value>> {
    match schema.to_value() {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// Whether a schema says that its values are objects.
pub fn is_of_object(schema: &Raw) -> bool {
    schema.member("type").is_some_and(|kind| kind.to_string_value().as_deref() == Some("object"))
}

/// The schema of an object that holds a value of `schema` as its member `result`. `None` when the schema speaks of
/// itself as a whole: inside another one it would speak of that.
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

/// An object with that value as its member `result`.
pub fn wrap(value: &Raw) -> Option<Raw> {
    Raw::from_value(&BTreeMap::from([("result", value)])).ok()
}

/// Whether a reference leads anywhere but into `$defs`.
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
