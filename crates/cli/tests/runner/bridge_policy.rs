//! Tests of `bridge --policy`: the file is checked, applied, and read again without ending a session.

use std::fs;
use std::io::{BufRead as _, BufReader};

use serde_json::{Value, json};

use super::bridge_relay::Talk;
use super::config::Folder;
use super::support::{Ran, run};

const DOCUMENTED: &str = include_str!("../../../../docs/policy.md");

fn check(folder: &Folder, file: &str) -> Ran {
    folder.run(&["bridge", "--policy", file, "--check-config"])
}

/// The output that the page shows below a command.
fn shown(command: &str) -> &'static str {
    let rest = DOCUMENTED.split(&format!("$ {command}\n")).nth(1).expect("the page has it");
    rest.split("```").next().unwrap()
}

#[test]
fn a_policy_is_checked_as_its_page_says() {
    let folder = Folder::new("policy-checked");
    let example = DOCUMENTED.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    folder.file("policy.toml", example);
    folder.file("wrong.toml", "[target.server]\nalow = [\"read_*\"]\n");
    let valid = check(&folder, "policy.toml").exits(0);
    assert_eq!(
        (&*valid.stdout, &*valid.stderr),
        (shown("mcpjoin bridge --policy policy.toml --check-config"), "")
    );
    let wrong = check(&folder, "wrong.toml").exits(2);
    assert_eq!(
        (&*wrong.stdout, &*wrong.stderr),
        ("", shown("mcpjoin bridge --policy wrong.toml --check-config"))
    );
    let missing = check(&folder, "missing.toml").exits(2).stderr;
    assert!(missing.contains("missing.toml: cannot be read: "), "{missing}");
    let alone = run(["bridge", "--check-config", "demo:"]).exits(2).stderr;
    assert!(alone.contains("--policy <FILE>") && alone.contains("--key-file <FILE>"), "{alone}");
}

#[test]
fn rules_for_a_target_that_the_bridge_does_not_have_are_a_fault() {
    let folder = Folder::new("policy-unknown");
    let file = folder.file("policy.toml", "[target.files]\ndeny = [\"*\"]\n");
    let ran = run(["bridge", "--policy", file.to_str().unwrap(), "demo:"]).exits(2).stderr;
    assert!(
        ran.contains(
            r#"it has rules for the target "files", but the only target of this bridge is "server""#
        ),
        "{ran}"
    );
}

fn names(talk: &mut Talk) -> Vec<String> {
    let list = talk.ask("tools/list", json!({}));
    let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("no list: {list}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// A bridge with a policy, the lines of its standard error, and the file.
fn bridge(folder: &Folder, policy: &str) -> (Talk, impl FnMut(&str) -> String, impl Fn(&str)) {
    let file = folder.file("policy.toml", policy);
    let mut talk = Talk::open(&["bridge", "--policy", file.to_str().unwrap(), "demo:full"]);
    let mut stderr = BufReader::new(talk.running.child.stderr.take().unwrap());
    let says = move |word: &str| loop {
        let mut said = String::new();
        assert_ne!(stderr.read_line(&mut said).unwrap(), 0, "it has ended");
        if said.contains(word) {
            return said;
        }
    };
    // Renamed into its place, so that no half of a file is read.
    let write = move |text: &str| {
        let new = file.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, &file).unwrap();
    };
    (talk, says, write)
}

fn changed(message: &Value) -> bool {
    message["method"] == "notifications/tools/list_changed"
}

#[test]
fn a_policy_is_read_again_when_its_file_changes_and_a_fault_changes_nothing() {
    let folder = Folder::new("policy-changes");
    let (mut talk, mut says, write) = bridge(&folder, "[target.server]\nallow = [\"echo\"]\n");
    assert_eq!(names(&mut talk), ["echo"]);

    write("[target.server]\nallow = [\"echo\"]\nrename = { echo = \"say\" }\n");
    assert!(changed(&talk.next()));
    assert_eq!(names(&mut talk), ["say"]);
    let said = talk.ask("tools/call", json!({ "name": "say", "arguments": { "message": "hi" } }));
    assert_eq!(said["result"]["content"][0]["text"], "hi", "{said}");

    write("[target.server]\nallow = 7\n");
    let refused = says("invalid type").replace(folder.path().to_str().unwrap(), "HERE");
    assert_eq!(
        refused,
        "warning: HERE/here/policy.toml:2:9: invalid type: integer `7`, expected an array; the policy stays as it was\n"
    );
    assert_eq!(names(&mut talk), ["say"]);
    talk.finish().exits(0);
}

#[test]
fn a_hangup_reads_the_policy_again_and_ends_neither_the_bridge_nor_a_call() {
    let folder = Folder::new("policy-hangup");
    let (mut talk, mut says, _) =
        bridge(&folder, "[target.server]\nallow = [\"echo\", \"test_elicitation\"]\n");
    let id =
        talk.begin("tools/call", json!({ "name": "test_elicitation", "arguments": { "message": "Who?" } }));
    let question = talk.next();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    for _ in 0..3 {
        talk.running.signal("HUP");
        says("the policy was read again");
    }
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } });
    talk.say(&answer);
    let (answer, _) = talk.answer(id);
    assert!(answer["result"]["content"].is_array(), "{answer}");
    assert_eq!(names(&mut talk).len(), 2);
    talk.finish().exits(0);
}

#[test]
fn a_tool_that_is_not_as_it_was_pinned_is_withheld_with_its_difference() {
    let folder = Folder::new("policy-pinned");
    let list = run(["list", "--json", "demo:"]).exits(0).stdout;
    folder.file("pinned.json", list.replace("Returns the message", "Gives the message back"));
    let (mut talk, mut says, _) = bridge(&folder, "[target.server]\npin = \"pinned.json\"\n");
    let shown = names(&mut talk);
    assert!(shown.contains(&"add".to_owned()) && !shown.contains(&"echo".to_owned()), "{shown:?}");
    assert_eq!(
        says("echo"),
        "warning: the tool echo of server is hidden from clients, because it differs from the pinned one\n"
    );
    assert_eq!(says("reads"), "warning:   reads description changed\n");
    talk.finish().exits(0);
}
