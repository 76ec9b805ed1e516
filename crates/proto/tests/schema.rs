//! Tests of every type with the official schemas: all examples, and instances of every definition of every revision, are
//! decoded and encoded, and must keep their meaning. `official/ORIGIN.md` names the sources.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "schema/generate.rs"]
mod generate;
#[path = "schema/kept.rs"]
mod kept;
#[path = "schema/message.rs"]
mod message;
#[path = "schema/official.rs"]
mod official;
#[path = "schema/rows.rs"]
mod rows;
#[path = "schema/same.rs"]
mod same;

use std::fmt::Write as _;

use jsonschema::Validator;
use mcpjoin_proto::Raw;
use serde_json::{Value, json};

use generate::Generator;
use official::{MODERN, REVISIONS, Schema};
use rows::{Row, row};
use same::difference;

/// Decodes and encodes one instance.
fn round_trip(row: &Row, instance: &Value, text: &str) -> Result<Value, String> {
    let raw = |text: &str| Raw::parse(text.to_owned()).map_err(|error| error.to_string());
    let value = |raw: &Raw| serde_json::from_str::<Value>(raw.as_str()).map_err(|error| error.to_string());
    match row {
        Row::Type(round_trip) | Row::Open(round_trip) => value(&round_trip(&raw(text)?)?),
        Row::Part(round_trip, beside) => {
            let beside = beside.as_object().unwrap();
            let mut whole = instance.as_object().unwrap().clone();
            whole.extend(beside.clone());
            let mut after = value(&round_trip(&raw(&Value::Object(whole).to_string())?)?)?;
            let members = after.as_object_mut().unwrap();
            members.retain(|name, _| !beside.contains_key(name));
            Ok(after)
        }
        Row::Message(payloads) => message::round_trip(instance, *payloads),
        Row::AnyMessage => {
            message::round_trip(instance, message::Payloads { params: |_| None, result: None, error: None })
        }
        Row::Branches => unreachable!("each branch has a row"),
    }
}

/// The permitted difference that `kept::empty_params_of_a_question_may_go` describes.
fn is_empty_params_of_roots(found: &str, text: &str) -> bool {
    found.ends_with("/params is gone: {}") && text.contains(r#"{"method":"roots/list","params":{}}"#)
}

/// Decodes and encodes one instance and returns the fault.
fn check(row: &Row, validator: &Validator, instance: &Value, text: &str) -> Result<(), String> {
    if let Err(error) = validator.validate(instance) {
        return Err(format!("is not valid to begin with: {error}"));
    }
    if matches!(row, Row::AnyMessage) && *instance == json!([]) {
        // The schema allows it, and JSON-RPC 2.0 does not ("an Array with at least one value").
        return match round_trip(row, instance, text) {
            Err(error) if error.starts_with("the batch is empty") => Ok(()),
            other => Err(format!("is an empty batch and gives {other:?}")),
        };
    }
    let after = round_trip(row, instance, text)?;
    if after == *instance {
        return Ok(());
    }
    if let Some(found) = difference(instance, &after)
        && !is_empty_params_of_roots(&found, text)
    {
        return Err(format!("is another one afterwards: {found}"));
    }
    validator.validate(&after).map_err(|error| format!("is not valid afterwards: {error}"))
}

/// Reports all faults in one message, because the first one is rarely the cause.
fn report(faults: &[String]) {
    let mut text = String::new();
    for fault in faults.iter().take(200) {
        let _ = writeln!(text, "{fault}");
    }
    assert!(faults.is_empty(), "{} faults\n{text}", faults.len());
}

#[test]
fn every_official_example_is_the_same_afterwards() {
    let schema = Schema::read(MODERN);
    let examples = official::examples();
    let mut faults = Vec::new();
    for example in &examples {
        let place = format!("{}/{}", example.definition, example.file);
        let instance: Value = serde_json::from_str(&example.text).unwrap();
        let row = row(MODERN, &example.definition).unwrap_or_else(|| panic!("{place} has no row"));
        if let Err(fault) = check(&row, &schema.validator(&example.definition), &instance, &example.text) {
            faults.push(format!("{place} {fault}"));
        }
    }
    report(&faults);
    assert_eq!(examples.len(), 129);
}

/// Checks all definitions of a revision and returns the number of instances.
fn check_revision(revision: &'static str, count: usize) -> usize {
    let schema = Schema::read(revision);
    assert_eq!(schema.definitions.len(), count, "definitions of {revision}");
    let mut faults = Vec::new();
    let mut total = 0;
    for name in schema.definitions.keys() {
        let Some(found) = row(revision, name) else {
            faults.push(format!("{revision} {name} has no row"));
            continue;
        };
        let branches = match found {
            Row::Branches => schema.branches(name),
            _ => vec![name.as_str()],
        };
        let validator = schema.validator(name);
        for branch in branches {
            let Some(row) = row(revision, branch) else { continue };
            let open = matches!(row, Row::Open(_) | Row::AnyMessage);
            let instances = Generator::new(&schema, open).instances(branch);
            assert!(instances.len() > 1, "{revision} {branch} has {instances:?} alone");
            for member in schema.members(branch) {
                let is_there = instances.iter().any(|instance| instance.get(member).is_some());
                assert!(is_there, "no instance of {revision} {branch} has {member}");
            }
            total += instances.len();
            for instance in instances {
                let text = instance.to_string();
                if let Err(fault) = check(&row, &validator, &instance, &text) {
                    faults.push(format!("{revision} {name}: {text} {fault}"));
                }
            }
        }
    }
    report(&faults);
    total
}

macro_rules! revisions {
    ($($test:ident: $revision:literal, $definitions:literal definitions, at least $least:literal instances;)*) => {
        $(
            #[test]
            fn $test() {
                let instances = check_revision($revision, $definitions);
                println!("{}: {} definitions, {instances} instances", $revision, $definitions);
                assert!(instances >= $least, "only {instances} instances of {}", $revision);
            }
        )*

        #[test]
        fn every_revision_has_its_test() {
            assert_eq!(REVISIONS.as_slice(), [$(($revision, $definitions)),*]);
        }
    };
}

revisions! {
    every_definition_of_2024_11_05: "2024-11-05", 79 definitions, at least 2200 instances;
    every_definition_of_2025_03_26: "2025-03-26", 83 definitions, at least 2600 instances;
    every_definition_of_2025_06_18: "2025-06-18", 91 definitions, at least 4000 instances;
    every_definition_of_2025_11_25: "2025-11-25", 145 definitions, at least 9000 instances;
    every_definition_of_2026_07_28: "2026-07-28", 155 definitions, at least 11000 instances;
}

/// A test of the validator: an instance without a required member is rejected, in each definition that has one.
#[test]
fn what_lacks_a_required_member_is_refused() {
    for (revision, _) in REVISIONS {
        let schema = Schema::read(revision);
        let mut refused = 0;
        for (name, definition) in &schema.definitions {
            let Some(required) = definition["required"].as_array() else { continue };
            let validator = schema.validator(name);
            let smallest = Generator::new(&schema, false).instances(name).swap_remove(0);
            for member in required {
                let mut lacking = smallest.as_object().unwrap().clone();
                lacking.remove(member.as_str().unwrap()).unwrap();
                assert!(!validator.is_valid(&Value::Object(lacking)), "{revision} {name} without {member}");
                refused += 1;
            }
        }
        assert!(refused > 90, "{revision} has only {refused} required members");
    }
}
