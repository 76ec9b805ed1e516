//! Tests of the maximum length of the trust question about files in the working directory.

use serde_json::{Value, json};

use super::config::Folder;
use super::trust::{answered, file, of_entry, ran, script};

/// An entry that sets this number of variables, named `name` plus a number.
fn entry(name: &str, variables: usize) -> Value {
    let variables: serde_json::Map<String, Value> =
        (0..variables).map(|number| (format!("{name}{number}"), "1".into())).collect();
    json!({ "command": "sh", "args": ["-c", "echo a >> ran"], "env": variables })
}

#[test]
fn a_definition_that_is_too_long_to_be_read_is_not_asked_about() {
    let folder = Folder::untrusted("trust-long");
    file(&folder, &json!({ "a": entry("VARIABLE_", 400) }));
    let refused = folder.run(&["list", "a"]).exits(2);
    let refused = refused.says(&["too long to be shown in full (4 KiB or 50 lines)", "(E_NOT_TRUSTED)"]);
    assert!(refused.stderr.len() < 2000, "{}", refused.stderr.len());
    folder.run(&["servers", "trust"]).exits(2).says(&["a is left out: it is too long to be shown in full"]);
    assert!(ran(&folder).is_empty());
}

/// A thousand one-letter variables have few bytes, but they would scroll the command out of sight.
#[test]
fn a_question_has_fifty_lines_for_an_entry_and_400_for_all() {
    let folder = Folder::untrusted("trust-lines");
    // 49 variables and the line of the command.
    file(&folder, &json!({ "a": entry("V", 49) }));
    let shown = of_entry(&folder.run(&["list", "a"]).exits(2), "a");
    assert_eq!(shown.matches("\n    env V").count(), 49, "{shown}");
    file(&folder, &json!({ "a": entry("V", 50) }));
    let refused = folder.run(&["list", "a"]).exits(2);
    let refused = refused.says(&["too long to be shown in full (4 KiB or 50 lines)", "(E_NOT_TRUSTED)"]);
    assert!(!refused.stderr.contains("V48"), "{}", refused.stderr);

    let entries = |last: usize| -> Value {
        (0..8)
            .map(|n| (format!("n{n}"), entry("V", if n == 7 { last } else { 49 })))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    file(&folder, &entries(49));
    of_entry(&folder.run(&["list"]).exits(2), "n7");
    let mut nine = entries(49);
    nine["n8"] = json!({ "command": "sh" });
    file(&folder, &nine);
    let refused = folder.run(&["list"]).exits(2);
    let refused = refused
        .says(&["9 entries are too long to be shown together (32 KiB or 400 lines)", "(E_NOT_TRUSTED)"]);
    assert!(refused.stderr.len() < 2000, "{}", refused.stderr.len());

    // The lines for changes of a trusted entry count too.
    let names: String = (0..400).map(|number| format!("W{number}=1\n")).collect();
    folder.file("many.env", names);
    file(&folder, &json!({ "a": { "command": "sh", "envFile": "many.env" } }));
    folder.run(&["servers", "trust"]).exits(0);
    file(&folder, &json!({ "a": { "command": "sh" } }));
    let refused = folder.run(&["list", "a"]).exits(2);
    let refused = refused.says(&["its changes are too long to be shown (32 KiB or 400 lines)"]);
    assert!(refused.stderr.len() < 2000, "{}", refused.stderr.len());
    assert!(ran(&folder).is_empty());
}

#[test]
fn entries_that_are_too_long_to_be_read_together_are_not_asked_about() {
    let folder = Folder::untrusted("trust-many");
    let entries: serde_json::Map<String, Value> = (0..12)
        .map(|number| (format!("n{number}"), json!({ "command": "sh", "args": ["y".repeat(3 << 10)] })))
        .collect();
    file(&folder, &entries.into());
    let refused = folder.run(&["list"]).exits(2);
    let refused = refused
        .says(&["12 entries are too long to be shown together (32 KiB or 400 lines)", "(E_NOT_TRUSTED)"]);
    assert!(refused.stderr.len() < 2000, "{}", refused.stderr.len());
    // A single entry is short enough.
    let one = folder.run(&["list", "n1"]).exits(2);
    assert!(one.stderr.contains(&"y".repeat(3 << 10)), "{}", one.stderr);
}

#[test]
fn a_question_that_is_longer_than_a_terminal_says_how_long_it_is() {
    let folder = Folder::untrusted("trust-scrolled");
    file(&folder, &json!({ "a": entry("V", 30) }));
    let (shown, _) = answered(&folder, "n\n", &["list", "a"]);
    assert!(shown.contains("Read all 31 lines above. Run it?"), "{shown}");
    file(&folder, &json!({ "a": script("a") }));
    let (shown, _) = answered(&folder, "n\n", &["list", "a"]);
    assert!(!shown.contains("lines above"), "{shown}");
    assert!(ran(&folder).is_empty());
}
