//! Generates instances of a definition from its schema.
//!
//! For an object: the required members only; all members; and for each member each of its own instances together with
//! the required ones. For a choice: the instances of each branch. For an array: no item, each instance of its items
//! alone, and two items. The numbers of instances add up and do not multiply. A definition inside itself has only its
//! smallest instance, so the recursion ends.

use serde_json::{Map, Value, json};

use crate::official::Schema;

/// The depth of definitions to which members are varied one by one. Deeper definitions have only the smallest and the
/// largest instance, of each branch of a choice: every definition has all its instances under its own name.
const VARIED: usize = 4;

/// Params and results have `_meta`, and the data of an error has `elicitations`. The old schemas permit any other member
/// in many of these objects. Our types ignore members that no schema names.
const CLOSED: [&str; 2] = ["_meta", "elicitations"];

pub(crate) struct Generator<'a> {
    schema: &'a Schema,
    /// Whether objects with one of the members [`CLOSED`] get additional members that no schema names.
    open: bool,
}

/// Instances of one schema, in the order of their generation; never empty.
type Instances = Vec<Value>;

impl<'a> Generator<'a> {
    pub(crate) fn new(schema: &'a Schema, open: bool) -> Self {
        Self { schema, open }
    }

    /// The distinct instances of a definition.
    pub(crate) fn instances(&self, name: &'a str) -> Instances {
        distinct(self.definition(name, &mut Vec::new()))
    }

    fn definition(&self, name: &'a str, inside: &mut Vec<&'a str>) -> Instances {
        let schema = &self.schema.definitions[name];
        if inside.contains(&name) {
            return vec![self.smallest(schema)];
        }
        inside.push(name);
        let mut instances = self.any(schema, inside);
        if inside.len() > VARIED && branches(schema).is_none() && schema.get("enum").is_none() {
            // The first is the smallest, the second the largest.
            instances.truncate(2);
        }
        inside.pop();
        instances
    }

    fn any(&self, schema: &'a Value, inside: &mut Vec<&'a str>) -> Instances {
        if let Some(reference) = schema.get("$ref") {
            return self.definition(self.schema.name_of(reference.as_str().unwrap()), inside);
        }
        if let Some(value) = schema.get("const") {
            return vec![value.clone()];
        }
        if let Some(values) = schema.get("enum") {
            return values.as_array().unwrap().clone();
        }
        if let Some(branches) = branches(schema) {
            return branches.iter().flat_map(|branch| self.any(branch, inside)).collect();
        }
        if schema.get("allOf").is_some() {
            return self.object(&self.members(schema), inside);
        }
        types(schema).into_iter().flat_map(|name| self.of_type(name, schema, inside)).collect()
    }

    fn of_type(&self, name: &str, schema: &'a Value, inside: &mut Vec<&'a str>) -> Instances {
        match name {
            "object" => self.object(&self.members(schema), inside),
            "array" => self.array(schema, inside),
            "string" => strings(schema),
            "integer" => within(schema, integers(schema)),
            "number" => within(schema, numbers()),
            "boolean" => vec![json!(true), json!(false)],
            "null" => vec![Value::Null],
            "any" => anything(),
            other => panic!("no instances of type {other}"),
        }
    }

    fn object(&self, members: &Members<'a>, inside: &mut Vec<&'a str>) -> Instances {
        let asks_for_input = members.named.iter().any(|(name, _)| *name == "inputRequests");
        let named: Vec<(&str, bool, Instances)> = members
            .named
            .iter()
            .map(|(name, schema)| {
                let instances = match *name {
                    // The schema permits any string, but the string decides the type of the other members.
                    "resultType" if asks_for_input => vec![json!("input_required")],
                    "resultType" => vec![json!("complete")],
                    _ => self.any(schema, inside),
                };
                (*name, members.required.contains(name), instances)
            })
            .collect();
        let smallest: Map<String, Value> = named
            .iter()
            .filter(|(_, required, _)| *required)
            .map(|(name, _, instances)| ((*name).to_owned(), instances[0].clone()))
            .collect();
        let mut largest: Map<String, Value> = named
            .iter()
            .map(|(name, _, instances)| ((*name).to_owned(), largest(instances).clone()))
            .collect();
        let others = match members.others {
            Some(schema) => self.any(schema, inside),
            None => Vec::new(),
        };
        if let Some(other) = others.last() {
            largest.insert("example.com/one".to_owned(), others[0].clone());
            largest.insert("two".to_owned(), other.clone());
        }
        let mut instances = vec![Value::Object(smallest.clone()), Value::Object(largest)];
        let one_more = |name: &str, value: &Value| {
            let mut object = smallest.clone();
            object.insert(name.to_owned(), value.clone());
            Value::Object(object)
        };
        for (name, _, values) in &named {
            instances.extend(values.iter().map(|value| one_more(name, value)));
        }
        instances.extend(others.iter().map(|value| one_more("example.com/other", value)));
        instances
    }

    fn array(&self, schema: &'a Value, inside: &mut Vec<&'a str>) -> Instances {
        let items = match schema.get("items") {
            Some(items) => self.any(items, inside),
            None => anything(),
        };
        let two = Value::Array(vec![largest(&items).clone(), items[0].clone()]);
        let mut instances = vec![json!([]), two];
        instances.extend(items.into_iter().map(|item| Value::Array(vec![item])));
        instances
    }

    /// The members of an object, including those of its parts.
    fn members(&self, schema: &'a Value) -> Members<'a> {
        let mut members = Members::default();
        self.collect(schema, &mut members);
        if !self.open && members.named.iter().any(|(name, _)| CLOSED.contains(name)) {
            members.others = None;
        }
        members
    }

    fn collect(&self, schema: &'a Value, members: &mut Members<'a>) {
        if let Some(reference) = schema.get("$ref") {
            let name = self.schema.name_of(reference.as_str().unwrap());
            return self.collect(&self.schema.definitions[name], members);
        }
        if let Some(parts) = schema.get("allOf") {
            return parts.as_array().unwrap().iter().for_each(|part| self.collect(part, members));
        }
        let named = schema.get("properties").and_then(Value::as_object);
        for (name, schema) in named.into_iter().flatten() {
            // A later definition is narrower: {Error, {code: const}}.
            members.named.retain(|(other, _)| other != name);
            members.named.push((name, schema));
        }
        let required = schema.get("required").and_then(Value::as_array);
        members.required.extend(required.into_iter().flatten().filter_map(Value::as_str));
        match schema.get("additionalProperties") {
            Some(Value::Bool(false)) => {}
            Some(Value::Bool(true)) => members.others = Some(&ANYTHING),
            Some(schema) => members.others = Some(schema),
            // An object without a description is a map: `_meta`, settings of a capability.
            None if named.is_none_or(Map::is_empty) => members.others = Some(&ANYTHING),
            None => {}
        }
    }

    /// The instance with the fewest members.
    fn smallest(&self, schema: &'a Value) -> Value {
        if let Some(reference) = schema.get("$ref") {
            let name = self.schema.name_of(reference.as_str().unwrap());
            return self.smallest(&self.schema.definitions[name]);
        }
        if let Some(branches) = branches(schema) {
            return self.smallest(&branches[0]);
        }
        if schema.get("allOf").is_some() || types(schema)[0] == "object" {
            let members = self.members(schema);
            let required = members.named.iter().filter(|(name, _)| members.required.contains(name));
            return required.map(|(name, schema)| ((*name).to_owned(), self.smallest(schema))).collect();
        }
        match types(schema)[0] {
            "array" => json!([]),
            _ => self.any(schema, &mut Vec::new()).swap_remove(0),
        }
    }
}

#[derive(Default)]
struct Members<'a> {
    named: Vec<(&'a str, &'a Value)>,
    required: Vec<&'a str>,
    /// The schema of members without a name in the schema, if there may be any.
    others: Option<&'a Value>,
}

static ANYTHING: Value = Value::Bool(true);

fn branches(schema: &Value) -> Option<&Vec<Value>> {
    schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array)
}

fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(name) => vec![name.as_str().unwrap()],
        None => vec!["any"],
    }
}

fn strings(schema: &Value) -> Instances {
    match schema.get("format").and_then(Value::as_str) {
        None => vec![json!("text"), json!(""), json!("\"é\\\u{1F600}\u{2028}\n\u{0}")],
        Some("uri") => vec![json!("file:///a%20b"), json!("https://example.com/?q=1#f")],
        Some("uri-template") => vec![json!("file:///{path}{?query*}"), json!("file:///plain")],
        Some("byte") => vec![json!("AAECAw=="), json!("")],
        Some(other) => panic!("no strings of format {other}"),
    }
}

fn integers(schema: &Value) -> Instances {
    let mut integers = vec![json!(3), json!(0), json!(-1), json!(4_294_967_296_u64)];
    // JSON Schema calls 7.0 an integer. A value that may be a string too is an id, which is returned as it was written.
    if schema["type"] == "integer" {
        integers.push(serde_json::from_str("7.0").unwrap());
    }
    integers
}

fn numbers() -> Instances {
    let written =
        ["0.25", "1", "50.0", "50.5", "-2", "0", "1e300", "1E-7", "9007199254740991", "18446744073709551616"];
    written.iter().map(|number| serde_json::from_str(number).unwrap()).collect()
}

/// The numbers between the schema's bounds.
fn within(schema: &Value, numbers: Instances) -> Instances {
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    let (least, most) = (bound("minimum"), bound("maximum"));
    let fits = |number: &Value| {
        number.as_f64().is_some_and(|number| {
            least.is_none_or(|least| least <= number) && most.is_none_or(|most| number <= most)
        })
    };
    numbers.into_iter().filter(fits).collect()
}

/// One instance of each type, for a member of any type.
fn anything() -> Instances {
    vec![
        json!({ "b": [{}, { "a": null }], "a": 1.5 }),
        json!(null),
        json!(true),
        json!(-12),
        json!("text"),
        json!([]),
        serde_json::from_str("123456789012345678901234567890").unwrap(),
    ]
}

/// The instance with the most members: the second one, if it is an object or an array.
fn largest(instances: &Instances) -> &Value {
    match instances.get(1) {
        Some(second @ (Value::Object(_) | Value::Array(_))) => second,
        _ => &instances[0],
    }
}

fn distinct(instances: Instances) -> Instances {
    let mut seen = std::collections::HashSet::new();
    instances.into_iter().filter(|instance| seen.insert(instance.to_string())).collect()
}
