//! Tests of the trust question about files in the working directory: what it shows, what an answer allows, and what is stored.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::config::Folder;
use super::support::{Ran, program, start};
use super::terminal;

/// `mcpServers` with these entries.
pub(super) fn file(folder: &Folder, entries: &Value) {
    folder.file(".mcp.json", json!({ "mcpServers": entries }).to_string());
}

/// A program that appends its name to the file `ran` and exits.
pub(super) fn script(name: &str) -> Value {
    json!({ "command": "sh", "args": ["-c", format!("echo {name} >> ran; exit 3")] })
}

/// The programs that ran since the last call.
pub(super) fn ran(folder: &Folder) -> Vec<String> {
    let path = folder.path().join("here/ran");
    let text = fs::read_to_string(&path).unwrap_or_default();
    let _ = fs::remove_file(path);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

fn list(folder: &Folder) -> PathBuf {
    folder.path().join("config/mcpjoin/trusted.json")
}

fn kept(folder: &Folder) -> Value {
    serde_json::from_str(&fs::read_to_string(list(folder)).unwrap()).unwrap()
}

/// Types an answer to the question. Returns the terminal output and the exit code.
#[track_caller]
pub(super) fn answered(folder: &Folder, answer: &str, words: &[&str]) -> (String, i64) {
    let mut terminal = terminal::typed("[N]o ", answer, words);
    folder.place(&mut terminal);
    let told = start(terminal).finish().exits(0).json();
    (told["shown"].as_str().unwrap().to_owned(), told["exit"].as_i64().unwrap())
}

/// The part of the question about an entry: the lines from its name to the next entry's name.
pub(super) fn of_entry(ran: &Ran, name: &str) -> String {
    let begins = format!("  {name} of .mcp.json:");
    let mut lines = ran.stderr.lines().skip_while(|line| !line.starts_with(&begins));
    let first = lines.next().unwrap_or_else(|| panic!("{name} is missing in {}", ran.stderr));
    let rest = lines.take_while(|line| line.starts_with("    "));
    std::iter::once(first).chain(rest).collect::<Vec<_>>().join("\n")
}

/// CVE-2025-54133: an approval dialog did not show the arguments. Each place is shown in full, even if another place of the
/// file holds the same text, as a secret or not.
#[test]
fn cve_2025_54133_no_place_of_an_entry_hides_another() {
    const TEXT: &str = "evil.example";
    let folder = Folder::untrusted("trust-places");
    folder.file("secret.env", format!("SECRET={TEXT}\n"));
    // Each place that is shown, and the text that shows it; `@` is a placeholder for the value.
    let places: [(&str, Value, &str); 14] = [
        ("program", json!({ "command": "@", "args": ["x"] }), ": @ x"),
        ("path", json!({ "command": "./@/x.sh" }), ": ./@/x.sh"),
        ("argument", json!({ "command": "node", "args": ["-e", "@"] }), ": node -e @"),
        ("option", json!({ "command": "node", "args": ["--token", "@", "--key=@"] }), "--token @ --key=@"),
        ("user", json!({ "command": "sh", "args": ["-c", "a://;touch${/}@;@h"] }), "'a://;touch${/}@;@h'"),
        ("cwd", json!({ "command": "x", "cwd": "/" , "env": {"A": "@"} }), "env A=@"),
        ("envname", json!({ "command": "x", "env": { "@": "1" } }), "env @=1"),
        (
            "envvalue",
            json!({ "command": "x", "env": { "NODE_OPTIONS": "--require @" } }),
            "NODE_OPTIONS='--require @'",
        ),
        ("envfile", json!({ "command": "x", "envFile": "./secret.env", "args": ["@"] }), ": x @\n"),
        ("host", json!({ "url": "https://@/mcp" }), ": https://@/mcp"),
        ("urlpath", json!({ "url": "https://h/@" }), ": https://h/@"),
        ("query", json!({ "url": "https://h/?token=@" }), ": 'https://h/?token=@'"),
        (
            "header",
            json!({ "url": "https://h/", "headers": { "X-A": "Bearer @" } }),
            "header X-A: 'Bearer @'",
        ),
        ("headername", json!({ "url": "https://h/", "headers": { "@": "1" } }), "header @: 1"),
    ];
    // Each place whose value is a secret.
    let secrets: [(&str, Value); 8] = [
        ("none", json!({})),
        ("env", json!({ "env": { "REGION": TEXT } })),
        ("envfile", json!({ "envFile": "./secret.env" })),
        ("variable", json!({ "env": { "OURS": "${PLANTED}" } })),
        ("option", json!({ "args": ["--api-key", TEXT] })),
        ("assigned", json!({ "args": [format!("--token={TEXT}")] })),
        ("header", json!({ "headers": { "X-Region": TEXT } })),
        ("oauth", json!({ "oauth": { "clientId": "a", "clientSecret": TEXT } })),
    ];
    let mut entries = serde_json::Map::new();
    let mut expected = Vec::new();
    for (place, entry, shown) in &places {
        for (secret, more) in &secrets {
            let text = entry.to_string().replace('@', TEXT);
            let mut entry: Value = serde_json::from_str(&text.replace("evil.exampleh", "@h")).unwrap();
            let is_remote = entry.get("url").is_some();
            for (member, value) in more.as_object().unwrap() {
                if is_remote == ["headers", "oauth"].contains(&member.as_str()) {
                    match (entry.get_mut(member), value) {
                        (Some(Value::Array(words)), Value::Array(more)) => words.extend(more.clone()),
                        (Some(Value::Object(members)), Value::Object(more)) => members.extend(more.clone()),
                        _ => entry[member] = value.clone(),
                    }
                }
            }
            let name = format!("{place}-{secret}");
            entries.insert(name.clone(), entry);
            expected.push((name, shown.replace('@', TEXT).replace("evil.exampleh", "@h")));
        }
    }
    assert_eq!(expected.len(), 112);
    file(&folder, &entries.into());
    let mut command = folder.command(&["list"]);
    command.env("PLANTED", TEXT);
    let ran = start(command).finish().exits(2);
    for (name, shown) in expected {
        let of = of_entry(&ran, &name) + "\n";
        let is_whole = of.contains(&shown) || shown.ends_with('\n') && of.contains(shown.trim_end());
        assert!(is_whole, "{name} shows {of:?}, and not {shown:?}");
        assert!(!of.contains("***"), "{of}");
    }
    // The reference is shown, not the value that it expands to.
    assert!(of_entry(&ran, "path-variable").ends_with("\n    env OURS='${PLANTED}'"), "{}", ran.stderr);
    assert_eq!(of_entry(&ran, "path-variable").matches(TEXT).count(), 1);
    // The same holds for commands that only show the entry, and for failures.
    let servers = folder.run(&["servers"]);
    assert_eq!(servers.stdout.matches(&format!("./{TEXT}/x.sh\n")).count(), 8, "{}", servers.stdout);
    assert!(servers.stdout.contains(&format!("https://{TEXT}/mcp\n")), "{}", servers.stdout);
    let json = folder.run(&["servers", "--json", "program-env"]).json();
    assert_eq!(json["files"][0]["servers"][0]["values"][0]["text"], TEXT);
    let failed = folder.run(&["list", "-v", "--config", ".mcp.json", "path-env"]).exits(4);
    assert!(failed.stderr.contains(&format!("command  ./{TEXT}/x.sh")), "{}", failed.stderr);
    assert!(failed.stderr.contains(&format!("cannot start ./{TEXT}/x.sh")), "{}", failed.stderr);
}

/// The secrets of a trusted entry replace no text in the question about another entry.
#[test]
fn a_trusted_entry_hides_nothing_of_the_question_about_another() {
    let folder = Folder::untrusted("trust-other");
    let one = json!({ "command": "sh", "args": ["-c", "exit 3"], "env": { "REGION": "@evil/pkg" } });
    file(&folder, &json!({ "one": one }));
    folder.run(&["servers", "trust"]).exits(0);
    file(&folder, &json!({ "one": one, "two": { "command": "npx", "args": ["-y", "@evil/pkg"] } }));
    // The entry runs, and exits.
    let ran = folder.run(&["list"]).exits(4);
    assert!(of_entry(&ran, "two").ends_with(": npx -y @evil/pkg"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("\n  one of"), "{}", ran.stderr);
}

#[test]
fn variables_that_change_what_runs_are_pointed_at_and_those_of_a_file_are_named() {
    let folder = Folder::untrusted("trust-variables");
    let names: String = (0..25).map(|number| format!("NAME_{number}=hunter2\n")).collect();
    folder.file("many.env", format!("LD_PRELOAD=./x.so\n{names}"));
    file(
        &folder,
        &json!({ "a": {
            "command": "node",
            "env": { "NODE_OPTIONS": "--require ./x.js", "REGION": "eu\u{1b}[2J\u{202e}" },
            "envFile": "many.env"
        } }),
    );
    let ran = folder.run(&["list"]).exits(2);
    let of = of_entry(&ran, "a");
    for line in [
        "    env NODE_OPTIONS='--require ./x.js' (this variable can change which code runs)",
        "    env REGION='eu\\u{1b}[2J\\u{202e}'",
        "    envFile many.env",
        "    envFile sets LD_PRELOAD (this variable can change which code runs)",
        "NAME_18, NAME_19, NAME_20, NAME_21, NAME_22, NAME_23, NAME_24",
    ] {
        assert!(of.contains(line), "{line:?} is not in {of}");
    }
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
}

/// CVE-2025-54136 (MCPoison): an approval was bound to the name of an entry, and its command could be changed afterwards.
#[test]
fn cve_2025_54136_a_definition_that_has_changed_is_asked_about_again() {
    let folder = Folder::untrusted("trust-changed");
    folder.file("some.env", "A=hunter2\n");
    // Writes the entry with changed members. A null member is removed.
    let entry = |changes: Value| {
        let mut entry = script("a");
        entry["env"] = json!({ "REGION": "eu", "API_KEY": "hunter3" });
        entry["envFile"] = "some.env".into();
        let members = entry.as_object_mut().unwrap();
        members.extend(changes.as_object().unwrap().clone());
        members.retain(|_, value| !value.is_null());
        file(&folder, &json!({ "a": entry }));
    };
    entry(json!({}));
    let (shown, exit) = answered(&folder, "a\n", &["list", "a"]);
    for part in
        ["sh -c 'echo a >> ran; exit 3'", "env API_KEY=hunter3", "Run it? [y]es, [a]lways, until it changes"]
    {
        assert!(shown.contains(part), "{part:?} is not in {shown:?}");
    }
    assert_eq!((exit, ran(&folder)), (4, vec!["a".to_owned()]));
    let unchanged = || {
        folder.run(&["list", "a"]).exits(4);
        assert_eq!(ran(&folder), ["a"]);
    };
    unchanged();
    // A change without effect on what runs does not revoke the trust.
    entry(json!({ "description": "Files" }));
    unchanged();
    let env = |region: &str| json!({ "REGION": region, "API_KEY": "hunter3" });
    let mut more = env("eu");
    more["NODE_OPTIONS"] = "-r x".into();
    folder.file("../.env", "");
    for (changes, shown) in [
        (json!({ "command": "dash" }), &["command was sh", "command is  dash"][..]),
        (
            json!({ "args": ["-c", "echo b >> ran"] }),
            &["args was -c 'echo a >> ran; exit 3'", "args is  -c 'echo b >> ran'"],
        ),
        (json!({ "cwd": "/" }), &["cwd is new: /"]),
        (json!({ "env": env("us") }), &["env REGION had another value, is us"]),
        (
            json!({ "env": more }),
            &[
                "env NODE_OPTIONS is new: '-r x'",
                "env NODE_OPTIONS='-r x' (this variable can change which code runs)",
            ],
        ),
        (json!({ "env": { "REGION": "eu" } }), &["env API_KEY was removed"]),
        (
            json!({ "envFile": "../.env" }),
            &["envFile was some.env", "envFile is  ../.env", "variable A was removed"],
        ),
        (json!({ "disabled_tools": ["x"] }), &["disabled_tools is new: x"]),
        (
            json!({ "command": null, "url": "https://h/", "args": null, "env": null, "envFile": null }),
            &["url is new: https://h/", "command was removed", "env REGION was removed"],
        ),
    ] {
        entry(changes);
        let refused = folder
            .run(&["list", "a"])
            .exits(2)
            .says(&["it differs from the definition that you trusted:", "(E_NOT_TRUSTED)"]);
        refused.says(shown);
        assert!(ran(&folder).is_empty());
        let servers = folder.run(&["servers"]).stdout;
        assert!(servers.contains("changed since it was trusted"), "{servers}");
    }
    // The values in the named file are part of the definition, and are not shown.
    entry(json!({}));
    unchanged();
    folder.file("some.env", "A=hunter4\nLD_PRELOAD=x\n");
    let refused = folder.run(&["list", "a"]).exits(2);
    let refused = refused.says(&["variable A has a different value", "variable LD_PRELOAD is new"]);
    assert!(!refused.stderr.contains("hunter2") && !refused.stderr.contains("hunter4"), "{}", refused.stderr);
    // The question shows only a new entry, not the trusted one beside it.
    folder.file("some.env", "A=hunter2\n");
    let mut a = script("a");
    a["env"] = json!({ "REGION": "eu", "API_KEY": "hunter3" });
    a["envFile"] = "some.env".into();
    file(&folder, &json!({ "a": a, "b": script("b") }));
    let refused = folder.run(&["list"]).exits(4);
    assert!(
        refused.stderr.contains("\n  b of ") && !refused.stderr.contains("\n  a of "),
        "{}",
        refused.stderr
    );
    assert_eq!(ran(&folder), ["a"]);
    // Only a digest of a secret is stored.
    let list = fs::read_to_string(list(&folder)).unwrap();
    assert!(!list.contains("hunter") && list.contains("API_KEY"), "{list}");
    let json = folder.run(&["servers", "--json"]).json();
    assert_eq!(json["files"][0]["trusted"], false);
    assert_eq!(json["files"][0]["servers"][0]["trusted"], true);
    assert_eq!(json["files"][0]["servers"][1]["trusted"], false);
}

/// The default of an input, and the text of a referenced file, are part of the definition.
#[test]
fn cve_2025_54136_what_a_reference_stands_for_in_the_folder_is_part_of_the_definition() {
    let folder = Folder::untrusted("trust-references");
    let write = |default: &str, text: &str| {
        let input = json!({ "id": "program", "type": "promptString", "default": default });
        let server = json!({ "command": "${input:program}", "args": ["-c", "echo a >> ran; exit 3"] });
        folder.file(".vscode/mcp.json", json!({ "inputs": [input], "servers": { "a": server } }).to_string());
        let server = json!({ "type": "local", "command": ["sh", "-c", "{file:./line}"] });
        folder.file("opencode.json", json!({ "mcp": { "b": server } }).to_string());
        folder.file("line", text);
    };
    write("sh", "echo b >> ran; exit 3");
    folder.run(&["list", "a"]).exits(2).says(&["${input:program}", "input program is sh unless you set it"]);
    folder.run(&["servers", "trust"]).exits(0);
    folder.run(&["list"]).exits(4);
    assert_eq!(ran(&folder), ["a", "b"]);
    write("dash", "echo c >> ran; exit 3");
    folder.run(&["list", "a"]).exits(2).says(&["inputs program was sh", "inputs program is  dash"]);
    folder.run(&["list", "b"]).exits(2).says(&["file ./line has a different value"]);
    assert!(ran(&folder).is_empty());
}

/// Keys that were pressed before the question, or text pasted from a page, do not answer it.
#[test]
fn what_was_typed_before_the_question_is_no_answer_to_it() {
    let folder = Folder::untrusted("trust-early");
    file(&folder, &json!({ "a": script("a") }));
    for early in ["y\n", "a\ny\ny\n", "y"] {
        let mut terminal = terminal::typed("[N]o ", "\n", &["list", "a"]);
        folder.place(&mut terminal);
        let told = start({
            terminal.env("TYPED_BEFORE", early);
            terminal
        })
        .finish()
        .exits(0)
        .json();
        assert_eq!((&told["exit"], ran(&folder)), (&2.into(), Vec::new()), "{early:?}: {told}");
        assert!(!list(&folder).exists(), "{early:?}");
    }
}

#[test]
fn trust_is_for_one_folder_and_one_file_and_a_named_file_needs_none() {
    let folder = Folder::untrusted("trust-folder");
    file(&folder, &json!({ "a": script("a") }));
    folder.run(&["servers", "trust"]).exits(0);
    let text = fs::read_to_string(folder.path().join("here/.mcp.json")).unwrap();
    // The same definition in a subfolder, and in another file.
    folder.file("below/.mcp.json", &text);
    folder.file("other/.cursor/mcp.json", &text);
    for below in ["below", "other"] {
        let mut command = folder.command(&["list", "a"]);
        command.current_dir(folder.path().join("here").join(below));
        start(command).finish().exits(2).says(&["(E_NOT_TRUSTED)"]);
    }
    assert!(ran(&folder).is_empty());
    file(&folder, &json!({ "a": script("b") }));
    for words in [&["list", "--config", ".mcp.json", "a"][..], &["list", ".mcp.json#a"]] {
        folder.run(words).exits(4);
        assert_eq!(ran(&folder), ["b"]);
    }
    let mut command = folder.command(&["list", "a"]);
    command.env("MCP_CONFIG_PATH", ".mcp.json");
    start(command).finish().exits(4);
    assert_eq!(ran(&folder), ["b"]);
    // Files in the user's home folder need no trust.
    folder.file("../.mcp.json", &text);
    let mut command = folder.command(&["list", "a"]);
    command.current_dir(folder.path());
    start(command).finish().exits(4);
    assert_eq!(fs::read_to_string(folder.path().join("ran")).unwrap().lines().next(), Some("a"));
}

#[test]
fn what_is_trusted_is_shown_and_taken_back() {
    let folder = Folder::untrusted("trust-back");
    let here = folder.path().join("here").canonicalize().unwrap();
    let here = here.to_str().unwrap();
    let mut c = script("c");
    c["args"].as_array_mut().unwrap().extend(["--api-key".into(), "hunter2".into()]);
    file(&folder, &json!({ "a": script("a"), "b": { "command": 7 }, "c": c }));
    let none = folder.run(&["servers", "trusted"]).exits(0);
    assert_eq!(none.stdout, "nothing is trusted\n");
    folder.run(&["servers", "trust", ".", "nobody"]).exits(2).says(&["there is no entry nobody"]);
    let trusted =
        folder.run(&["servers", "trust"]).exits(0).says(&["b is left out: command must be a string"]);
    assert!(
        trusted.stdout.starts_with("trusted: ~/here, in ~/config/mcpjoin/trusted.json\n"),
        "{}",
        trusted.stdout
    );
    assert!(trusted.stdout.contains(": sh -c 'echo a >> ran; exit 3'\n"), "{}", trusted.stdout);
    assert!(trusted.stdout.contains("--api-key hunter2"), "what is trusted is shown: {}", trusted.stdout);
    assert_eq!(fs::metadata(list(&folder)).unwrap().permissions().mode() & 0o777, 0o600);
    let shown = folder.run(&["servers", "trusted"]).exits(0).stdout;
    assert!(shown.starts_with("2 definitions are trusted\n") && shown.contains("--api-key ***"), "{shown}");
    let json = folder.run(&["servers", "trusted", "--json"]).exits(0).json();
    let names: Vec<_> = json["trusted"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["a", "c"]);
    assert_eq!(json["trusted"][0]["folder"], here);
    assert_eq!(json["trusted"][0]["file"], ".mcp.json");
    assert_eq!(json["trusted"][0]["digest"].as_str().unwrap().len(), 64);

    let gone = folder.run(&["servers", "untrust", ".", "a"]).exits(0);
    assert!(gone.stdout.starts_with("no longer trusted: 1 in ~/here\n"), "{}", gone.stdout);
    folder.run(&["list", "a"]).exits(2).says(&["(E_NOT_TRUSTED)"]);
    folder.run(&["servers", "untrust", ".", "a"]).exits(2).says(&["no entry in"]);
    // Removes the trust of a folder that no longer exists, and of all folders.
    fs::remove_dir_all(folder.path().join("here")).unwrap();
    fs::create_dir_all(folder.path().join("here")).unwrap();
    let gone = folder.run(&["servers", "untrust", "--json", "/"]).exits(0).json();
    assert_eq!(gone["untrusted"][0]["name"], "c");
    assert_eq!(kept(&folder)["trusted"], json!([]));
    folder.run(&["servers", "trust"]).exits(2).says(&["contains no entries to trust"]);
}

#[test]
fn two_who_trust_at_once_both_stand_in_the_list() {
    let folder = Folder::untrusted("trust-at-once");
    let folders: Vec<String> = (0..12).map(|number| format!("f{number}")).collect();
    for name in &folders {
        folder.file(&format!("{name}/.mcp.json"), json!({ "mcpServers": { "a": script("a") } }).to_string());
    }
    let running: Vec<_> =
        folders.iter().map(|name| start(folder.command(&["servers", "trust", name]))).collect();
    for running in running {
        running.finish().exits(0);
    }
    assert_eq!(kept(&folder)["trusted"].as_array().unwrap().len(), 12);
    let left: Vec<_> = fs::read_dir(folder.path().join("config/mcpjoin")).unwrap().collect();
    assert_eq!(left.len(), 2, "the list and its lock: {left:?}");
}

#[test]
fn a_list_that_cannot_be_used_trusts_nothing_and_is_not_written_over() {
    let folder = Folder::untrusted("trust-corrupt");
    file(&folder, &json!({ "a": script("a") }));
    folder.run(&["servers", "trust"]).exits(0);
    let good = fs::read_to_string(list(&folder)).unwrap();
    let large = format!("{good}{}", " ".repeat(1 << 20));
    for (text, mode, why) in [
        (&good[..good.len() / 2], 0o600, "cannot be used: line "),
        ("", 0o600, "cannot be used: line "),
        ("{\"format\":2,\"trusted\":[]}", 0o600, "its format is 2"),
        (&good, 0o622, "other users can write to it (chmod 600)"),
        (&large, 0o600, "larger than the limit of 1 MiB"),
    ] {
        fs::write(list(&folder), text).unwrap();
        fs::set_permissions(list(&folder), fs::Permissions::from_mode(mode)).unwrap();
        folder.run(&["list", "a"]).exits(2).says(&["(E_NOT_TRUSTED)", why]);
        assert!(ran(&folder).is_empty(), "{why}");
        let servers = folder.run(&["servers"]).stdout;
        assert!(servers.contains(why), "{servers}");
        folder.run(&["servers", "trust"]).exits(2).says(&[why]);
        folder.run(&["servers", "trusted"]).exits(2).says(&[why]);
        assert_eq!(fs::read_to_string(list(&folder)).unwrap(), text);
    }
    fs::write(list(&folder), &good).unwrap();
    fs::set_permissions(list(&folder), fs::Permissions::from_mode(0o600)).unwrap();
    folder.run(&["list", "a"]).exits(4);
}

#[test]
fn a_list_that_has_no_place_is_reported_with_the_folder_that_is_missing() {
    let folder = Folder::untrusted("trust-nowhere");
    file(&folder, &json!({ "a": script("a") }));
    let trust = |home: Option<PathBuf>| {
        let mut command = folder.command(&["servers", "trust"]);
        command.env_remove("XDG_CONFIG_HOME").env_remove("HOME");
        command.envs(home.map(|home| ("HOME", home)));
        start(command).finish().exits(2)
    };
    let hint = "try      set HOME or XDG_CONFIG_HOME to a folder that you can write to";
    trust(None).says(&["HOME is not set", hint]);
    let file = folder.path().join("here/.mcp.json");
    trust(Some(file)).says(&["the folder ~/.config/mcpjoin cannot be created: Not a directory", hint]);
}

/// A user with write access to the folder can replace the list.
#[test]
fn a_list_in_a_folder_that_others_may_write_to_trusts_nothing_and_is_not_written_over() {
    use std::os::unix::fs::{MetadataExt as _, chown};
    let folder = Folder::untrusted("trust-folder-of-others");
    file(&folder, &json!({ "a": script("a") }));
    folder.run(&["servers", "trust"]).exits(0);
    let place = folder.path().join("config/mcpjoin");
    let owner = fs::metadata(&place).unwrap().uid();
    let good = fs::read_to_string(list(&folder)).unwrap();
    let refused = |why: &[&str]| {
        folder.run(&["list", "a"]).exits(2).says(&["(E_NOT_TRUSTED)"]).says(why);
        assert!(ran(&folder).is_empty(), "{why:?}");
        let servers = folder.run(&["servers"]).stdout;
        assert!(servers.contains(why[0]), "{servers}");
        let before = fs::read_dir(&place).unwrap().count();
        folder.run(&["servers", "trust"]).exits(2).says(why);
        folder.run(&["servers", "trusted"]).exits(2).says(why);
        assert_eq!(fs::read_to_string(list(&folder)).unwrap(), good);
        assert_eq!(fs::read_dir(&place).unwrap().count(), before);
    };
    let owned = format!("which belongs to {owner} ");
    for mode in [0o777, 0o1777, 0o770, 0o702] {
        fs::set_permissions(&place, fs::Permissions::from_mode(mode)).unwrap();
        refused(&["other users can write to its folder, ", "config/mcpjoin", &owned, "(chmod go-w)"]);
    }
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
    if owner == 0 {
        chown(&place, Some(65_534), None).unwrap();
        refused(&[
            "its folder, ",
            "config/mcpjoin",
            "belongs to the user 65534",
            "(chown it, or set XDG_CONFIG_HOME)",
        ]);
        chown(&place, Some(0), None).unwrap();
    }
    folder.run(&["list", "a"]).exits(4);
    assert_eq!(ran(&folder), ["a"]);
    // The folder is created with access for its user only, independent of the umask.
    fs::remove_dir_all(folder.path().join("config")).unwrap();
    let mut shell =
        program("sh", ["-c", "umask 0; exec \"$0\" servers trust", env!("CARGO_BIN_EXE_mcpjoin")]);
    folder.place(&mut shell);
    start(shell).finish().exits(0);
    assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o700);
    folder.run(&["list", "a"]).exits(4);
}

#[test]
fn the_list_has_a_limit() {
    let folder = Folder::untrusted("trust-limit");
    // Entries of 3 KiB each.
    let entries: serde_json::Map<String, Value> = (0..400)
        .map(|n| (format!("n{n}"), json!({ "command": "x", "args": ["y".repeat(3 << 10)] })))
        .collect();
    file(&folder, &entries.into());
    folder.run(&["servers", "trust"]).exits(2).says(&["exceed the limit of 1 MiB"]);
    assert!(!list(&folder).exists());
}

#[test]
fn folders_that_an_earlier_version_trusted_count_no_more_and_are_reported() {
    let folder = Folder::untrusted("trust-outdated");
    file(&folder, &json!({ "a": script("a") }));
    let real = folder.path().canonicalize().unwrap();
    fs::write(folder.path().join("config/mcpjoin/trusted"), format!("{}\n", real.display())).unwrap();
    folder.run(&["list", "a"]).exits(2).says(&["(E_NOT_TRUSTED)", "config/mcpjoin/trusted no longer count"]);
    assert!(ran(&folder).is_empty());
    answered(&folder, "a\n", &["list", "a"]);
    let again = folder.run(&["list", "a"]).exits(4);
    assert!(!again.stderr.contains("no longer count"), "{}", again.stderr);
    // Named pipes in place of the lists do not block the command.
    for name in ["trusted", "trusted.json"] {
        let path = folder.path().join("config/mcpjoin").join(name);
        fs::remove_file(&path).unwrap();
        start(program("mkfifo", [&path])).finish().exits(0);
    }
    folder
        .run(&["list", "a"])
        .exits(2)
        .says(&["(E_NOT_TRUSTED)", "cannot be used: this is not a regular file"]);
}

#[test]
fn a_pipe_that_an_entry_names_for_its_connection_is_not_waited_for() {
    let folder = Folder::untrusted("trust-pipe");
    let pipe = folder.path().join("here/pipe");
    start(program("mkfifo", [&pipe])).finish().exits(0);
    let pipe = pipe.to_str().unwrap();
    file(
        &folder,
        &json!({
            "http": { "url": "https://127.0.0.1:9/mcp", "ca": pipe },
            "quic": { "url": "quic://127.0.0.1:9", "ca": pipe },
            "key": { "url": "quic://127.0.0.1:9", "ca": "/dev/null", "cert": pipe, "key": pipe },
        }),
    );
    for name in ["http", "quic", "key"] {
        folder.run(&["list", name]).exits(2).says(&["cannot be read: this is not a regular file"]);
    }
}
