//! Reads the official schemas and examples in `tests/official`, for the schema tests.

use std::fs;
use std::path::PathBuf;

use jsonschema::{Draft, Validator};
use serde_json::{Map, Value, json};

/// Each revision, and the number of definitions in its schema.
pub(crate) const REVISIONS: [(&str, usize); 5] =
    [("2024-11-05", 79), ("2025-03-26", 83), ("2025-06-18", 91), ("2025-11-25", 145), ("2026-07-28", 155)];

/// The revision with examples.
pub(crate) const MODERN: &str = "2026-07-28";

/// The schema of one revision.
pub(crate) struct Schema {
    /// The name of the revision, for example `2025-11-25`.
    pub(crate) revision: &'static str,
    draft: Draft,
    /// `definitions` up to 2025-06-18, `$defs` since.
    keyword: &'static str,
    pub(crate) definitions: Map<String, Value>,
}

impl Schema {
    pub(crate) fn read(revision: &'static str) -> Self {
        let text = fs::read_to_string(folder().join(revision).join("schema.json")).unwrap();
        let mut whole: Value = serde_json::from_str(&text).unwrap();
        let draft = match whole["$schema"].as_str().unwrap() {
            "http://json-schema.org/draft-07/schema#" => Draft::Draft7,
            "https://json-schema.org/draft/2020-12/schema" => Draft::Draft202012,
            other => panic!("{revision} is written in {other}"),
        };
        let keyword = if draft == Draft::Draft7 { "definitions" } else { "$defs" };
        let Value::Object(definitions) = whole[keyword].take() else {
            panic!("{revision} has no {keyword}");
        };
        Self { revision, draft, keyword, definitions }
    }

    /// A validator for instances of one definition.
    pub(crate) fn validator(&self, name: &str) -> Validator {
        // It contains only the definitions that this one needs: the others would be compiled too, each time.
        let mut needed = Map::new();
        self.collect(name, &mut needed);
        let whole = json!({ "$ref": format!("#/{}/{name}", self.keyword), self.keyword: needed });
        jsonschema::options().with_draft(self.draft).build(&whole).unwrap()
    }

    /// Collects a definition and every definition that it refers to.
    fn collect(&self, name: &str, needed: &mut Map<String, Value>) {
        if needed.contains_key(name) {
            return;
        }
        let Some(definition) = self.definitions.get(name) else { panic!("{} has no {name}", self.revision) };
        needed.insert(name.to_owned(), definition.clone());
        let mut within = vec![definition];
        while let Some(value) = within.pop() {
            match value {
                Value::Object(members) => {
                    if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
                        self.collect(self.name_of(reference), needed);
                    }
                    within.extend(members.values());
                }
                Value::Array(items) => within.extend(items),
                _ => {}
            }
        }
    }

    /// The members that a definition itself names.
    pub(crate) fn members(&self, name: &str) -> impl Iterator<Item = &String> {
        let members = self.definitions[name].get("properties").and_then(Value::as_object);
        members.into_iter().flat_map(Map::keys)
    }

    /// The alternatives of a definition that is a choice.
    pub(crate) fn branches(&self, name: &str) -> Vec<&str> {
        let branches = self.definitions[name]["anyOf"].as_array().unwrap();
        branches.iter().map(|branch| self.name_of(branch["$ref"].as_str().unwrap())).collect()
    }

    /// The definition behind a reference.
    pub(crate) fn name_of<'a>(&self, reference: &'a str) -> &'a str {
        let name = reference.strip_prefix("#/").and_then(|rest| rest.strip_prefix(self.keyword));
        name.and_then(|rest| rest.strip_prefix('/')).unwrap()
    }
}

/// One official example.
pub(crate) struct Example {
    /// The definition of the example.
    pub(crate) definition: String,
    pub(crate) file: String,
    pub(crate) text: String,
}

/// All examples, in the order of their names.
pub(crate) fn examples() -> Vec<Example> {
    let mut examples = Vec::new();
    for definition in fs::read_dir(folder().join(MODERN).join("examples")).unwrap() {
        let definition = definition.unwrap();
        for file in fs::read_dir(definition.path()).unwrap() {
            let file = file.unwrap();
            examples.push(Example {
                definition: definition.file_name().into_string().unwrap(),
                file: file.file_name().into_string().unwrap(),
                text: fs::read_to_string(file.path()).unwrap(),
            });
        }
    }
    examples.sort_by(|a, b| (&a.definition, &a.file).cmp(&(&b.definition, &b.file)));
    examples
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/official")
}
