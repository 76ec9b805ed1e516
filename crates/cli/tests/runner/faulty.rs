//! Tests of configurations with faults. `servers` and each verb that uses the entry report the file, the line and the cause,
//! and the entries without faults work.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::Value;

use super::config::Folder;

const BINARY: &str = env!("CARGO_BIN_EXE_mcpjoin");

/// The body of an entry of `mcpServers`, and its message: the column, then the cause.
const REFUSED: &[(&str, &str)] = &[
    (r#"7"#, "8: an entry must be an object, but is a number"),
    (r#"null"#, "8: an entry must be an object, but is null"),
    (r#"{}"#, "8: needs either \"command\" or \"url\""),
    (r#"{"command": "a", "url": "http://h"}"#, "25: both command and url are set: leave out one of them"),
    (r#"{"command": ""}"#, "20: command is empty"),
    (r#"{"command": 1}"#, "20: command must be a string, but is a number; its arguments belong in args"),
    (r#"{"command": "a", "command": "b"}"#, "25: command is given twice"),
    (r#"{"command": "a", "args": "b"}"#, "33: args must be a list of strings, but is a string"),
    (r#"{"command": "a", "args": ["b", {}]}"#, "39: each of args must be a string, but is an object"),
    (r#"{"command": "a", "env": {"PORT": 8080}}"#, "41: env.PORT must be a string, but is a number"),
    (r#"{"command": "a", "env": ["A=b"]}"#, "32: env must be an object, but is a list"),
    (r#"{"command": "a", "env": {"A": "b", "A": "c"}}"#, "43: A is given twice"),
    (r#"{"command": "a", "env": {"A=B": "c"}}"#, "33: env has an invalid name"),
    (r#"{"command": "a", "cwd": true}"#, "32: cwd must be a string, but is true or false"),
    (r#"{"command": "sh", "cwd": "no/such/folder"}"#, "33: cwd is not a directory: no/such/folder"),
    (
        r#"{"command": "sh", "env": {"A": "${MCPJOIN_NOT_SET}"}}"#,
        "39: the variable MCPJOIN_NOT_SET is not set",
    ),
    (r#"{"command": "sh", "args": ["${A B}"]}"#, "35: this is not a variable: use ${NAME}"),
    (r#"{"command": "sh", "args": ["${"]}"#, "35: a } is missing after ${"),
    (r#"{"command": "sh", "envFile": 1}"#, "37: envFile must be a string, but is a number"),
    (r#"{"command": "sh", "envFile": "no.env"}"#, "37: the file of variables cannot be used: "),
    (r#"{"command": "sh", "envFile": "bad.env"}"#, "37: the file of variables cannot be used: "),
    (r#"{"command": "a", "timeoutMs": "1s"}"#, "38: timeoutMs must be a number, but is a string"),
    (r#"{"command": "a", "timeoutMs": 0}"#, "38: timeoutMs must be at least 1 and at most one day"),
    (r#"{"command": "a", "disabled": "no"}"#, "37: disabled must be true or false, but is a string"),
    (r#"{"command": "a", "description": []}"#, "40: description must be a string, but is a list"),
    (
        r#"{"command": "a", "allowed_tools": "x"}"#,
        "42: allowed_tools must be a list of strings, but is a string",
    ),
    (r#"{"command": "a", "allowed_tools": ["["]}"#, "43: this tool pattern is invalid: "),
    (r#"{"command": "a", "disabled_tools": ["{a,b}"]}"#, "44: this tool pattern is invalid: braces"),
    (r#"{"command": "a", "disabledTools": [""]}"#, "43: this tool pattern is invalid: it is empty"),
    (r#"{"type": "pigeon", "command": "a"}"#, "17: type must be stdio, http, sse, quic, tcp or unix"),
    (r#"{"type": 1, "command": "a"}"#, "17: type must be a string, but is a number"),
    (r#"{"type": "stdio", "transport": "stdio"}"#, "26: type and transport are the same"),
    (r#"{"type": "http", "command": "a"}"#, "8: needs \"url\""),
    (r#"{"type": "stdio", "url": "http://h"}"#, "8: needs \"command\""),
    (r#"{"url": "ftp://h"}"#, "16: url must begin with http://, https://, quic://, tcp:// or unix:"),
    (r#"{"url": "http://"}"#, "16: url is invalid: "),
    (r#"{"url": "http://me:hunter2@h/"}"#, "16: url is invalid: leave out the user and the password"),
    (r#"{"url": "http://h", "headers": {"A B": "c"}}"#, "40: headers has an invalid name"),
    (r#"{"url": "http://h", "headers": {"A": 1}}"#, "45: headers.A must be a string, but is a number"),
    (r#"{"url": "http://h", "headers": {"a": "", "A": ""}}"#, "49: A is given twice"),
    (r#"{"url": "quic://h:1", "pin": "sha256:x", "ca": "y"}"#, "49: both pin and ca are set"),
    (r#"{"url": "quic://h:1", "ca": "y", "key": "z"}"#, "41: cert and key belong together"),
    (r#"{"url": "quic://h:1", "pin": "md5:x"}"#, "37: pin: write sha256: and 64 hexadecimal digits"),
    (r#"{"url": "quic://h:1/path", "ca": "y"}"#, "16: url is invalid: write quic://host:port"),
    (r#"{"url": "quic://h:1"}"#, "16: the server's identity is unknown: pin or ca is missing"),
    (r#"{"url": "quic://h", "ca": "y"}"#, "16: url is invalid: write quic://host:port"),
    (r#"{"url": "tcp://h"}"#, "16: url is invalid: write tcp://host:port"),
    (r#"{"url": "tcp:h:1"}"#, "16: url is invalid: write tcp://host:port"),
    (r#"{"type": "unix", "url": "tcp://h:1"}"#, "32: url must begin with unix:"),
];

/// The same in the other dialects: the file, the line and column, the cause.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    (".vscode/mcp.json", "unknown", "5:38: the file has no such input"),
    (".vscode/mcp.json", "unset", "6:38: the input key has no value"),
    ("mcp_servers.toml", "no transport", "2:1: transport is missing"),
    ("mcp_servers.toml", "date", "7:25: command must be a string, but is a date"),
    ("mcp_servers.toml", "pattern", "11:18: this tool pattern is invalid: "),
    ("opencode.json", "kind", "2:18: type must be local or remote"),
    ("opencode.json", "words", "3:39: command must be a list of strings, but is a string"),
    (".codex/config.toml", "both", "4:1: both command and url are set"),
    (".codex/config.toml", "bearer", "7:24: this is not a valid name of a variable"),
    (".codex/config.toml", "named", "10:13: env_vars must be a list, but is a string"),
];

/// Entries that work with a warning.
const WARNED: &[(&str, &str)] = &[
    (r#""comand": 1"#, "comand is unknown and not used; did you mean command?"),
    (r#""headers": {"A": "b"}"#, "headers is not used: the server is started as a program"),
    (r#""timeout": 3"#, "timeout is not used, because its unit differs"),
];

/// Every entry in the output of `servers`, by its name.
fn shown(json: &Value) -> BTreeMap<String, Value> {
    let files = json["files"].as_array().unwrap();
    let entries = files.iter().flat_map(|file| file["servers"].as_array().unwrap());
    entries.map(|entry| (entry["name"].as_str().unwrap().to_owned(), entry.clone())).collect()
}

#[test]
fn f30_every_fault_of_an_entry_is_reported_with_its_place_and_hides_no_other() {
    let folder = Folder::new("faulty-entries");
    let good = format!(r#""command": "{BINARY}", "args": ["serve", "demo", "--full"]"#);
    let mut lines: Vec<String> =
        REFUSED.iter().enumerate().map(|(place, (entry, _))| format!(r#""r{place:02}": {entry}"#)).collect();
    lines.extend(
        WARNED.iter().enumerate().map(|(place, (more, _))| format!(r#""w{place}": {{{good}, {more}}}"#)),
    );
    lines.push(format!(r#""twice": {{{good}}}"#));
    lines.push(r#""twice": {"command": "a"}"#.into());
    lines.push(format!(r#""good": {{{good}}}"#));
    folder.file(".mcp.json", format!("{{\"mcpServers\": {{\n{}\n}}}}", lines.join(",\n")));
    folder.file("bad.env", "A=1\nhunter2\n");
    folder.file(
        ".vscode/mcp.json",
        format!(
            "{{\"inputs\": [{{\"id\": \"key\"}},\n7, {{\"id\": 1}}],\n\"servers\": {{\n\"fine\": {{{good}}},\n\
             \"unknown\": {{\"command\": \"a\", \"args\": [\"${{input:no}}\"]}},\n\
             \"unset\": {{\"command\": \"a\", \"args\":   [\"${{input:key}}\"]}}}}}}"
        ),
    );
    folder.file(
        "mcp_servers.toml",
        format!(
            "retry_max = \"x\"\n[[servers]]\nname = \"no transport\"\nenabled = true\n[[servers]]\nname = \"date\"\n\
             transport = {{ command = 2020-01-01 }}\n[[servers]]\nname = \"pattern\"\n\
             transport = {{ command = \"a\" }}\nallowed_tools = [\"[\"]\n[[servers]]\nname = \"toml\"\n\
             transport = {{ command = \"{BINARY}\", args = [\"serve\", \"demo\"] }}\n[[servers]]\n"
        ),
    );
    folder.file(
        "opencode.json",
        "{\"mcp\": {\n\"kind\": {\"type\": \"stdio\", \"command\": [\"a\"]},\n\
         \"words\": {\"type\": \"local\", \"command\": \"a b\"}}}",
    );
    folder.file(
        ".codex/config.toml",
        "model = \"x\"\n[mcp_servers.both]\ncommand = \"a\"\nurl = \"http://h\"\n[mcp_servers.bearer]\n\
         url = \"http://h\"\nbearer_token_env_var = \"a b\"\n[mcp_servers.named]\ncommand = \"a\"\n\
         env_vars =  \"A\"\n",
    );

    let mut expected: Vec<(String, String)> = Vec::new();
    for (place, (_, told)) in REFUSED.iter().enumerate() {
        expected.push((format!("r{place:02}"), format!(".mcp.json:{}:{told}", place + 2)));
    }
    for (file, name, told) in ELSEWHERE {
        expected.push(((*name).to_owned(), format!("{file}:{told}")));
    }
    let twice = REFUSED.len() + WARNED.len() + 2;
    let second = format!(
        ".mcp.json:{0}:1: 2 entries are called twice, in lines {twice}, {0}: the name is ambiguous",
        twice + 1
    );
    expected.push(("twice".into(), second));

    let survey = folder.run(&["servers", "--json"]).exits(2);
    assert!(!survey.stdout.contains("hunter2"), "{}", survey.stdout);
    let json = survey.json();
    let entries = shown(&json);
    let other: Vec<String> = expected
        .iter()
        .map(|(name, told)| (entries[name]["problems"][0].as_str().unwrap_or_default().to_owned(), told))
        .filter(|(said, told)| !said.starts_with(told.as_str()))
        .map(|(said, told)| format!("{said} is not {told}"))
        .collect();
    assert_eq!(other, [""; 0]);
    for (place, (_, told)) in WARNED.iter().enumerate() {
        let entry = &entries[&format!("w{place}")];
        let line = REFUSED.len() + 2 + place;
        let said = entry["warnings"][0].as_str().unwrap();
        assert!(
            said.starts_with(&format!(".mcp.json:{line}:")) && said.contains(told),
            "{said} is not {told}"
        );
        assert!(entry["problems"].as_array().unwrap().is_empty(), "{entry}");
    }
    let of_files: Vec<&str> = json["files"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|file| file["warnings"].as_array().unwrap())
        .map(|warning| warning.as_str().unwrap())
        .collect();
    assert_eq!(
        of_files,
        [
            "mcp_servers.toml:1:13: retry_max must be a number, but is a string",
            "mcp_servers.toml:15:1: an entry has no name",
            ".vscode/mcp.json:2:1: an input must be an object, but is a number",
            ".vscode/mcp.json:2:11: id must be a string, but is a number",
        ]
    );

    let ran = folder.run(&["list", "--json"]);
    assert!(!ran.stderr.contains("hunter2") && !ran.stdout.contains("hunter2"), "{}", ran.stderr);
    let json = ran.json();
    let listed: BTreeMap<&str, &Value> = json["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| (server["name"].as_str().unwrap(), server))
        .collect();
    for (name, told) in &expected {
        let error = &listed[name.as_str()]["error"];
        assert_eq!(
            (error["id"].as_str(), &error["exitCode"]),
            (Some("E_CONFIG"), &2.into()),
            "{name}: {error}"
        );
        let (place, cause) = told.split_once(": ").unwrap();
        let said = error["message"].as_str().unwrap();
        assert!(said.starts_with(&format!("{place}: ")) && said.contains(cause), "{said} is not {told}");
    }
    for name in ["good", "fine", "toml", "w0", "w1", "w2"] {
        assert_eq!(listed[name]["server"]["serverInfo"]["name"], "mcpjoin-demo", "{name}");
    }
    assert_eq!(listed.len(), expected.len() + 6, "{:?}", listed.keys());
    for (_, told) in WARNED {
        assert!(ran.stderr.contains(told), "{told} is not in {}", ran.stderr);
    }
}

/// Files that are unusable as a whole: the path, the content, and the message.
const FILES: &[(&str, &[u8], &str)] = &[
    ("mcp_servers.json", b"{\n  \"mcpServers\": {\n    \"a\": }}", "3:10: invalid JSON: "),
    (".cursor/mcp.json", b"{\"mcpServers\": {}}\n}", "2:1: invalid JSON: "),
    (".vscode/mcp.json", b"{\"servers\": {}, \"x\": \"hunter2\n", "1:22: invalid JSON: "),
    ("opencode.json", b"{\"mcp\": {\"a\": {\"b\" \"hunter2\"}}}", "1:20: invalid JSON: "),
    ("mcp_servers.toml", b"\n[[servers]\nname = \"hunter2\"\n", "2:11: invalid TOML: "),
    (
        ".codex/config.toml",
        b"[mcp_servers.a]\ncommand = \"a\"\ncommand = \"hunter2\"\n",
        "3:1: invalid TOML: ",
    ),
    ("../config/mcp/mcp_servers.toml", b"servers = 1", "1:1: servers must be an array of tables"),
    ("../config/mcp/mcp_servers.json", b"{\"mcpServers\":\n[]}", "2:1: mcpServers must be an object"),
    (
        "../config/Claude/claude_desktop_config.json",
        b"{\"mcpServers\": {}, \"mcpServers\": {}}",
        "1:20: mcpServers is given twice",
    ),
    ("../config/Code/User/mcp.json", b"\xff\xfe{\0}\0", "1:1: this is UTF-16"),
    ("../config/zed/settings.json", b"{\n\"a\": \"hunter2\xff\"}", "2:14: this is not UTF-8"),
    ("../mcp_servers.toml", b"mcp_servers = 1", "1:15: mcp_servers must be an object"),
    (
        "../.cursor/mcp.json",
        b"{\"mcpservers\": {}}",
        "1:2: no \"mcpServers\" key; did you mean \"mcpServers\" instead of \"mcpservers\"?",
    ),
    ("../.lmstudio/mcp.json", b"", "1:1: this must be an object with mcpServers"),
];

#[test]
fn f30_i172_a_file_that_cannot_be_used_is_reported_and_the_others_are_used() {
    let folder = Folder::new("faulty-files");
    let good = format!(r#"{{"command": "{BINARY}", "args": ["serve", "demo", "--full"]}}"#);
    folder.file(".mcp.json", format!("\u{feff}{{\"mcpServers\": {{\"good\": {good}}}}}"));
    folder
        .file("../.gemini/settings.json", format!("{{\"theme\": 1, \"mcpServers\": {{\"also\": {good}}}}}"));
    // A file that has only other settings is not a fault.
    folder.file("../.claude.json", "{\"numStartups\": 3}");
    let home = folder.path().canonicalize().unwrap();
    let mut told: Vec<String> = Vec::new();
    let mut tell = |path: &str, what: &str| {
        let path = path.strip_prefix("../").map_or_else(|| path.to_owned(), |rest| format!("~/{rest}"));
        told.push(format!("{path}:{what}"));
    };
    for (path, text, what) in FILES {
        folder.file(path, text);
        tell(path, what);
    }
    // A directory and a symbolic link loop at the path of a file.
    folder.file("../.codeium/windsurf/mcp_config.json/x", "");
    tell("../.codeium/windsurf/mcp_config.json", " this is a directory");
    let here = folder.path().join("here");
    symlink("mcp_servers.json", here.join("../.mcp_servers.json")).unwrap();
    tell("../.mcp_servers.json", " Too many levels of symbolic links");
    std::fs::remove_file(here.join("../.mcp_servers.json")).unwrap();
    symlink(".mcp_servers.json", here.join("../.mcp_servers.json")).unwrap();
    std::fs::create_dir_all(here.join("../config/opencode")).unwrap();
    let pipe = here.join("../config/opencode/opencode.json");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    tell("../config/opencode/opencode.json", " this is not a regular file");
    // A regular file that cannot be read to its end: for root the read blocks, and other users may not open it.
    std::fs::create_dir_all(here.join("../.copilot")).unwrap();
    symlink("/proc/kmsg", here.join("../.copilot/mcp-config.json")).unwrap();
    tell("../.copilot/mcp-config.json", " ");
    let large = format!("{{\"mcpServers\": {{}}}}{}", " ".repeat(11 << 20));
    folder.file("../.codex/config.toml", large);
    tell("../.codex/config.toml", " larger than the limit of 10 MiB");

    let mut command = folder.command(&["servers", "--json"]);
    command.env("HOME", &home).env("XDG_CONFIG_HOME", home.join("config"));
    let survey = super::support::start(command).finish().exits(2);
    let json = survey.json();
    let files = json["files"].as_array().unwrap();
    for told in &told {
        let found =
            files.iter().any(|file| file["problem"].as_str().is_some_and(|it| it.starts_with(told.as_str())));
        assert!(found, "{told} is not in {}", survey.stdout);
    }
    assert_eq!(files.iter().filter(|file| file["problem"].is_string()).count(), told.len());
    assert_eq!(shown(&json).keys().collect::<Vec<_>>(), ["also", "good"]);

    let mut command = folder.command(&["list", "--json"]);
    command.env("HOME", &home).env("XDG_CONFIG_HOME", home.join("config"));
    let ran = super::support::start(command).finish().exits(0);
    for told in &told {
        assert!(ran.stderr.contains(&format!("warning: {told}")), "{told} is not in {}", ran.stderr);
    }
    let json = ran.json();
    for place in 0..2 {
        assert_eq!(json["servers"][place]["server"]["serverInfo"]["name"], "mcpjoin-demo");
    }
    for text in [survey.stdout, survey.stderr, ran.stdout, ran.stderr] {
        assert!(!text.contains("hunter2"), "{text}");
    }
}
