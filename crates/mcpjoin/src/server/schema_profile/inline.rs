//! Replaces the references of a schema by what they refer to. Used by `schema_profile`.
//!
//! Only references within the document are followed. A definition that refers to itself, directly or through others, stays. The
//! size and the depth of the result are limited, because references may expand a schema exponentially.

use std::collections::{HashMap, HashSet};

use mcpjoin_proto::scan::MAX_DEPTH;
use schemars::Schema;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::{Map, Value, json};

use super::super::schema::is_shallow;
use super::super::template::decoded;
use super::{ANNOTATIONS, add_missing};

/// The maximum size of a schema without references, in bytes of its text.
const MAX_INLINED_BYTES: usize = 256 * 1024;

/// The maximum number of places that the references of a schema lead to.
const MAX_TARGETS: usize = 256;

/// How deep subschemas may be within each other. Each level of schemas is one or two levels of JSON.
const MAX_SUBSCHEMA_DEPTH: usize = MAX_DEPTH / 2;

/// Keywords by which a reference means something else than its place in the document.
const IDENTIFIERS: [&str; 6] =
    ["$anchor", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor", "$recursiveRef"];

/// The keyword of an argument that clients repeat in a header. It has its meaning in one place only.
const HEADER_MARK: &str = "x-mcp-header";

/// The members of a schema with its definitions.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// Returns the schema without the references that can be replaced. `None` if it has to keep all of them.
pub(super) fn inlined(root: &Value) -> Option<Value> {
    let members = root.as_object()?;
    if members.iter().any(|(name, member)| name.starts_with("$dynamic") || has_identifiers(member)) {
        return None;
    }
    let dialect = members.get("$schema").and_then(Value::as_str).unwrap_or_default();
    // Its `id` is a common name of a property in the others.
    if dialect.contains("draft-04") {
        return None;
    }
    let recursive = recursive_targets(root)?;
    let mut inliner = Inliner {
        root,
        recursive,
        // Up to draft 7 everything beside a reference is ignored.
        ignores_siblings: ["draft-06", "draft-07"].iter().any(|draft| dialect.contains(draft)),
        bytes: MAX_INLINED_BYTES,
        depth: 0,
        is_complete: true,
    };
    let without_definitions = members.iter().filter(|(name, _)| !DEFINITIONS.contains(&name.as_str()));
    let mut result =
        Value::Object(without_definitions.map(|(name, value)| (name.clone(), value.clone())).collect());
    inliner.inline(&mut result)?;
    inliner.keep_definitions(&mut result)?;
    is_shallow(&result, MAX_DEPTH / 2).then_some(result)
}

/// Whether a part of a schema has an identifier of its own. A property of such a name has a schema, and no text.
fn has_identifiers(part: &Value) -> bool {
    match part {
        Value::Object(members) => members.iter().any(|(name, member)| {
            IDENTIFIERS.contains(&name.as_str()) && !member.is_object() || has_identifiers(member)
        }),
        Value::Array(items) => items.iter().any(has_identifiers),
        _ => false,
    }
}

/// Returns the target of a reference within the document.
fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = decoded(reference.strip_prefix('#')?)?;
    root.pointer(&pointer).filter(|target| target.is_object() || target.is_boolean())
}

/// Returns the references whose targets refer to themselves. `None` if there are too many references.
fn recursive_targets(root: &Value) -> Option<HashSet<String>> {
    let mut graph: HashMap<String, HashSet<String>> = HashMap::new();
    let mut open: Vec<String> = references(root).into_iter().collect();
    while let Some(reference) = open.pop() {
        if graph.contains_key(&reference) {
            continue;
        }
        if graph.len() == MAX_TARGETS {
            return None;
        }
        let inner = target(root, &reference).map(references).unwrap_or_default();
        open.extend(inner.iter().cloned());
        graph.insert(reference, inner);
    }
    Some(graph.keys().filter(|reference| reaches_itself(&graph, reference)).cloned().collect())
}

fn reaches_itself(graph: &HashMap<String, HashSet<String>>, reference: &str) -> bool {
    let mut seen = HashSet::new();
    let mut open = vec![reference];
    while let Some(next) = open.pop() {
        for inner in graph.get(next).into_iter().flatten() {
            if inner == reference {
                return true;
            }
            if seen.insert(inner.as_str()) {
                open.push(inner);
            }
        }
    }
    false
}

/// Returns all references in a part of a schema. One that stands in data is harmless: it is not replaced.
fn references(part: &Value) -> HashSet<String> {
    let mut found = HashSet::new();
    collect_references(part, &mut found);
    found
}

fn collect_references(part: &Value, found: &mut HashSet<String>) {
    match part {
        Value::Object(members) => {
            for (name, member) in members {
                match (name.as_str(), member) {
                    ("$ref", Value::String(reference)) => {
                        if !found.contains(reference) {
                            found.insert(reference.clone());
                        }
                    }
                    _ => collect_references(member, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, found)),
        _ => {}
    }
}

/// Replaces references in a schema and its subschemas.
struct Inliner<'a> {
    root: &'a Value,
    recursive: HashSet<String>,
    ignores_siblings: bool,
    /// The bytes that copies may still take.
    bytes: usize,
    depth: usize,
    /// No limit was reached.
    is_complete: bool,
}

impl Inliner<'_> {
    /// `None`: a limit was reached.
    fn inline(&mut self, schema: &mut Value) -> Option<()> {
        if let Ok(schema) = <&mut Schema>::try_from(schema) {
            self.transform(schema);
        }
        self.is_complete.then_some(())
    }

    /// Adds the definitions that the remaining references need.
    fn keep_definitions(&mut self, schema: &mut Value) -> Option<()> {
        let mut open: Vec<String> = references(schema).into_iter().collect();
        while let Some(reference) = open.pop() {
            let Some(pointer) = reference.strip_prefix('#').and_then(decoded) else { continue };
            let mut segments = pointer.split('/').skip(1);
            let (Some(section), Some(name)) = (segments.next(), segments.next()) else { continue };
            let name = name.replace("~1", "/").replace("~0", "~");
            if !DEFINITIONS.contains(&section)
                || schema.get(section).is_some_and(|kept| kept.get(&name).is_some())
            {
                continue;
            }
            let Some(definition) = self.root.get(section).and_then(|section| section.get(&name)) else {
                continue;
            };
            self.spend(definition)?;
            let mut definition = definition.clone();
            self.inline(&mut definition)?;
            open.extend(references(&definition));
            let kept = schema.as_object_mut()?.entry(section).or_insert_with(|| json!({}));
            kept.as_object_mut()?.insert(name, definition);
        }
        Some(())
    }

    /// Counts a copy. `None` if it is too much.
    fn spend(&mut self, copy: &Value) -> Option<()> {
        self.bytes = self.bytes.checked_sub(bytes_of(copy))?;
        Some(())
    }

    /// Replaces the reference of a schema, if it has one that can be replaced. Returns whether it did.
    fn replace_reference(&mut self, schema: &mut Schema) -> bool {
        let Some(keywords) = schema.as_object_mut() else { return false };
        let Some(Value::String(reference)) = keywords.get("$ref") else { return false };
        if self.recursive.contains(reference) {
            return false;
        }
        let Some(found) = target(self.root, reference) else { return false };
        if self.spend(found).is_none() {
            self.is_complete = false;
            return false;
        }
        let mut copy = found.clone();
        remove_marks(&mut copy);
        keywords.remove("$ref");
        if self.ignores_siblings {
            keywords.retain(|name, _| ANNOTATIONS.contains(&name.as_str()));
        }
        let only_described = keywords.keys().all(|name| ANNOTATIONS.contains(&name.as_str()));
        match copy {
            Value::Object(copy) if only_described => add_missing(keywords, copy),
            // It demands nothing.
            Value::Bool(true) => {}
            copy => add_to_all_of(keywords, copy),
        }
        true
    }
}

impl Transform for Inliner<'_> {
    fn transform(&mut self, schema: &mut Schema) {
        self.depth += 1;
        if self.depth > MAX_SUBSCHEMA_DEPTH {
            self.is_complete = false;
        }
        // A target may be a reference itself. None of them leads back.
        while self.is_complete && self.replace_reference(schema) {}
        if self.is_complete {
            transform_subschemas(self, schema);
        }
        self.depth -= 1;
    }
}

fn add_to_all_of(keywords: &mut Map<String, Value>, schema: Value) {
    match keywords.entry("allOf").or_insert_with(|| json!([])) {
        Value::Array(all) => all.push(schema),
        // No valid schema has anything else there.
        other => *other = json!([schema]),
    }
}

/// Removes the marks of headers from a copy: a client refuses a tool that has one in two places.
fn remove_marks(copy: &mut Value) {
    match copy {
        Value::Object(members) => {
            members.retain(|name, member| name != HEADER_MARK || !member.is_string());
            members.values_mut().for_each(remove_marks);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_marks),
        _ => {}
    }
}

/// About as many bytes as the text of a value has.
fn bytes_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 3,
        Value::Array(items) => 2 + items.iter().map(bytes_of).sum::<usize>(),
        Value::Object(members) => {
            2 + members.iter().map(|(name, member)| name.len() + 4 + bytes_of(member)).sum::<usize>()
        }
        _ => 8,
    }
}
