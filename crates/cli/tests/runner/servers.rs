//! Tests of `mcpjoin servers`: the configured servers with their files and lines, and the conversion to another dialect.

use super::config::Folder;
use super::support::start;
use super::terminal;

const MCP: &str = r#"{"mcpServers": {
  "files": {
    "command": "npx",
    "args": ["-y", "pkg", "--token=hunter2hunter2"],
    "env": {"API_KEY": "hunter3hunter3", "ZONE": "${MCPJOIN_NOT_SET}"}
  },
  "bad": {"command": 7},
  "web": {"url": "https://host/mcp", "headers": {"Authorization": "Bearer hunter4hunter4"}, "disabled": true}
}}"#;

const CODEX: &str =
    "model = \"x\"\n[mcp_servers.web]\nurl = \"https://other/mcp\"\n[mcp_servers.own]\ncommand = \"y\"\n";

#[test]
fn r85_every_file_and_every_value_has_its_line_and_no_secret_is_shown() {
    let folder = Folder::new("servers");
    folder.file(".mcp.json", MCP);
    folder.file("../.codex/config.toml", CODEX);
    folder.file("../.claude.json", "{\"numStartups\": 3}");
    let ran = folder.run(&["servers"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert_eq!(
        ran.stdout,
        "\
.mcp.json mcp-servers
  files (line 2), stdio
    command        npx (line 3)
    args           -y pkg --token=*** (line 4)
    env            API_KEY, ZONE (line 5)
    unusable       .mcp.json:5:50: the variable MCPJOIN_NOT_SET is not set
  bad (line 7), unusable
    unusable       .mcp.json:7:22: command must be a string, but is a number; its arguments belong in args
  web (line 8), http, disabled in line 8
    url            https://host/mcp
    headers        Authorization

~/.codex/config.toml codex
  web (line 2), http, not used: .mcp.json:8:3 comes first
    url            https://other/mcp (line 3)
  own (line 4), stdio
    command        y (line 5)
"
    );
    let ran = folder.run(&["servers", "--json", "own", "files"]);
    assert!(!ran.stdout.contains("hunter"), "{}", ran.stdout);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["files"][1]["servers"][0]["name"], "own");
    assert_eq!(json["files"][1]["servers"].as_array().unwrap().len(), 1);
    assert_eq!(json["files"][0]["servers"][0]["values"][1]["text"], "-y");
    let ran = folder.run(&["servers", "nobody"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("there is no entry nobody"), "{}", ran.stderr);
}

#[test]
fn r85_entries_are_written_in_another_dialect() {
    let folder = Folder::new("servers-convert");
    folder.file(
        ".mcp.json",
        r#"{"mcpServers": {"a": {"command": "x", "args": ["v"], "description": "Files"}}}"#,
    );
    let ran = folder.run(&["servers", "convert", "--to", "codex"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stdout, "[mcp_servers.a]\ncommand = \"x\"\nargs = [\"v\"]\n");
    assert!(
        ran.stderr.contains(".mcp.json:1:17: the description of a has no equivalent in codex"),
        "{}",
        ran.stderr
    );
    let ran = folder.run(&["servers", "convert", "--to", "vscode", "a"]);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["servers"]["a"]["type"], "stdio");
    let ran = folder.run(&["servers", "convert", "--to", "carrier-pigeon"]);
    assert_eq!(ran.code, Some(2));
}

#[test]
fn r85_a_configuration_can_be_typed_and_entries_of_other_programs_are_used() {
    let folder = Folder::new("servers-typed");
    let binary = env!("CARGO_BIN_EXE_mcpjoin");
    let typed =
        format!(r#"{{"mcpServers": {{"mine": {{"command": "{binary}", "args": ["serve", "demo"]}}}}}}"#);
    let ran = folder.run(&["call", "--mcp-config", &typed, "mine/add", "a=2", "b=40"]);
    assert_eq!((ran.code, ran.stdout.trim()), (Some(0), "{\"sum\":42.0}"), "{}", ran.stderr);
    folder.file(
        "../.codex/config.toml",
        format!("[mcp_servers.theirs]\ncommand = \"{binary}\"\nargs = [\"serve\", \"demo\"]\n"),
    );
    folder.file(
        ".vscode/mcp.json",
        format!(r#"{{"servers": {{"here": {{"command": "{binary}", "args": ["serve", "demo"]}}}}}}"#),
    );
    for name in ["theirs", "here"] {
        let ran = folder.run(&["call", &format!("{name}/add"), "a=2", "b=40"]);
        assert_eq!((ran.code, ran.stdout.trim()), (Some(0), "{\"sum\":42.0}"), "{}", ran.stderr);
    }
    let ran = folder.run(&["call", "--mcp-config", "{\"mcpServers\": {", "mine/add"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("--mcp-config:1:"), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("try      correct it at this place\n"), "{}", ran.stderr);
}

#[test]
fn r85_an_entry_of_a_folder_that_is_not_trusted_is_not_run_before_the_user_agrees() {
    let folder = Folder::untrusted("servers-trust");
    folder.file(
        ".mcp.json",
        r#"{"mcpServers": {"a": {"command": "sh", "args": ["-c", "echo was-run >> ran; exit 3"]}}}"#,
    );
    let ran = |words: &[&str]| (folder.run(words), folder.path().join("here/ran").exists());
    let here = "~/here";
    let (refused, run) = ran(&["list", "a"]);
    assert!(refused.code == Some(2) && !run, "{}", refused.stderr);
    for part in [
        "a of .mcp.json:1:17: sh -c 'echo was-run >> ran; exit 3'",
        &format!("{here} and is not trusted, and there is no terminal for the question (E_NOT_TRUSTED)"),
        &format!("mcpjoin servers trust {here}"),
    ] {
        assert!(refused.stderr.contains(part), "{part} is not in {}", refused.stderr);
    }
    let (shown, _) = ran(&["servers"]);
    assert!(shown.stdout.contains(&format!("not trusted: mcpjoin servers trust {here}")), "{}", shown.stdout);

    // On a terminal, the user is asked.
    let asked = |answer: &str| {
        let mut terminal = terminal::typed("[N]o ", answer, &["list", "a"]);
        folder.place(&mut terminal);
        let told = start(terminal).finish().exits(0).json();
        (told["exit"].as_i64(), folder.path().join("here/ran").exists())
    };
    assert_eq!(asked("\n"), (Some(2), false));
    assert_eq!(asked("n\n"), (Some(2), false));
    assert_eq!(asked("y\n"), (Some(4), true));
    std::fs::remove_file(folder.path().join("here/ran")).unwrap();

    // A named file and a trusted folder cause no question.
    let (named, run) = ran(&["list", "--config", ".mcp.json", "a"]);
    assert!(named.code == Some(4) && run, "{}", named.stderr);
    std::fs::remove_file(folder.path().join("here/ran")).unwrap();
    let (trusted, _) = ran(&["servers", "trust"]);
    assert_eq!(trusted.code, Some(0), "{}", trusted.stderr);
    assert!(trusted.stdout.starts_with(&format!("trusted: {here}, in ")), "{}", trusted.stdout);
    let (used, run) = ran(&["list", "a"]);
    assert!(used.code == Some(4) && run, "{}", used.stderr);
    let (again, _) = ran(&["servers", "trust", "."]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    let list = folder.run(&["servers", "trusted", "--json"]).exits(0).json();
    assert_eq!(list["trusted"].as_array().unwrap().len(), 1, "trusting twice is trusting once");
}

#[test]
fn r85_what_is_not_trusted_is_reported_and_asked_about_once_for_a_folder() {
    let folder = Folder::untrusted("servers-trust-once");
    let entry = |name: &str| {
        format!(r#""{name}": {{"command": "sh", "args": ["-c", "echo {name} >> ran; exit 3"]}}"#)
    };
    let entries = ["a", "b", "c"].map(entry).join(",\n");
    // Arguments and values are shown unchanged, even if they share text.
    let entries = entries.replacen("exit 3\"]", "exit 3\", \"/srv/data\"]", 1).replacen(
        "exit 3\"]}",
        "exit 3\"], \"env\": {\"KEEP\": \"/srv/data/file.json\"}}",
        1,
    );
    folder.file(".mcp.json", format!("{{\"mcpServers\": {{\n{entries}}}}}"));
    let ran = folder.run(&["list"]).exits(2).says(&["exit 3' /srv/data\n", "env KEEP=/srv/data/file.json\n"]);
    let count = |text: &str, what: &str| text.matches(what).count();
    for once in ["a folder you have not trusted", "(E_NOT_TRUSTED)", "error: a, b, c: the entry is in"] {
        assert_eq!(count(&ran.stderr, once), 1, "{once}: {}", ran.stderr);
    }
    // Each entry is shown before the user answers.
    for name in ["a", "b", "c"] {
        let shown = format!(
            "{name} of .mcp.json:{}:1: sh -c 'echo {name}",
            2 + usize::from(name.as_bytes()[0] - b'a')
        );
        assert_eq!(count(&ran.stderr, &shown), 1, "{shown}: {}", ran.stderr);
    }
    assert!(!folder.path().join("here/ran").exists());
    let mut terminal = terminal::typed("[N]o ", "y\n", &["list"]);
    folder.place(&mut terminal);
    let told = start(terminal).finish().exits(0).json();
    assert_eq!(told["exit"], 4, "{told}");
    let ran = std::fs::read_to_string(folder.path().join("here/ran")).unwrap();
    let mut ran: Vec<&str> = ran.lines().collect();
    ran.dedup();
    ran.sort_unstable();
    ran.dedup();
    assert_eq!(ran, ["a", "b", "c"]);
}

#[test]
fn f30_what_is_wrong_with_a_file_is_reported_once_however_many_entries_are_used() {
    let folder = Folder::new("servers-once");
    let entries = ["a", "b"]
        .map(|name| format!("[[servers]]\nname = \"{name}\"\ntransport = {{ command = \"false\" }}\n"));
    folder.file("mcp_servers.toml", format!("retry_max = \"x\"\n{}", entries.concat()));
    folder.file("opencode.json", "{");
    let ran = folder.run(&["list"]).exits(4);
    for once in ["warning: mcp_servers.toml:1:13: retry_max", "warning: opencode.json:1:"] {
        assert_eq!(ran.stderr.matches(once).count(), 1, "{once}: {}", ran.stderr);
    }
}

#[test]
fn r85_an_entry_that_cannot_be_converted_is_there_and_says_why() {
    let folder = Folder::new("servers-unconverted");
    folder.file(
        ".mcp.json",
        "{\"mcpServers\": {\n\"bad\": {\"command\": 7},\n\"two\": {\"command\": \"a\"},\n\"two\": {\"command\": \"b\"},\n\
         \"ok\": {\"command\": \"c\"}}}",
    );
    let convert = |to: &str, more: &[&str]| folder.run(&[&["servers", "convert", "--to", to], more].concat());
    convert("codex", &["bad"])
        .exits(2)
        .says(&[".mcp.json:2:20: bad cannot be converted: command must be a string", "(E_CONFIG)"]);
    convert("codex", &["ok", "two"]).exits(2).says(&[
        ".mcp.json:4:1: two cannot be converted: 2 entries are called two, in lines 3, 4",
        "try      keep one of them",
    ]);
    convert("codex", &["nobody"]).exits(2).says(&["there is no entry nobody to convert"]);
    let ran = convert("codex", &[]).exits(0).says(&["bad is left out: ", "two is left out: "]);
    assert_eq!(ran.stdout, "[mcp_servers.ok]\ncommand = \"c\"\n");
    // `--json` is refused for a dialect that is not JSON.
    for to in ["codex", "servers-toml"] {
        let ran = convert(to, &["--json", "ok"]).exits(2);
        assert_eq!((ran.stdout.as_str(), &ran.failure()["id"]), ("", &"E_USAGE".into()), "{to}");
    }
    for to in ["mcp-servers", "vscode", "opencode"] {
        assert!(convert(to, &["--json", "ok"]).exits(0).json().is_object(), "{to}");
    }
}

#[test]
fn servers_and_doctor_agree_on_what_is_a_fault() {
    let folder = Folder::new("servers-agree");
    for (entry, is_faulty) in [
        (r#""x": {"command": "true", "comand": 1}"#, false),
        (r#""x": {"url": "tcp://h"}"#, true),
        (r#""x": {"command": "true", "disabled": true, "cwd": "/no/such"}"#, false),
    ] {
        folder.file(".mcp.json", format!("{{\"mcpServers\": {{{entry}}}}}"));
        folder.run(&["servers"]).exits(if is_faulty { 2 } else { 0 });
        let found = folder.run(&["doctor", "--json"]).json()["configuration"]["findings"].clone();
        assert_eq!(!found.as_array().unwrap().is_empty(), is_faulty, "{entry}: {found}");
    }
}

/// The name of a variable is not a secret: a missing variable must be named, in whatever syntax it was written.
#[test]
fn a_missing_variable_is_named_in_the_spelling_of_opencode_too() {
    let folder = Folder::new("servers-braces");
    let text = r#"{"mcp": {"one": {"type": "local", "command": ["x"], "environment": {"K": "{env:MCPJOIN_NOT_SET}"}}}}"#;
    folder.file("opencode.json", text);
    let ran = folder.run(&["servers"]);
    assert!(
        ran.stdout.contains("opencode.json:1:74: the variable MCPJOIN_NOT_SET is not set"),
        "{}",
        ran.stdout
    );
}

#[test]
fn lines_are_shown_from_the_first_to_the_last() {
    let folder = Folder::new("servers-lines");
    let text = "[mcp_servers.a]\nurl = \"https://h/mcp\"\nbearer_token_env_var = \"HOME\"\n\
                http_headers = { X-A = \"1\" }\nenv_http_headers = { X-B = \"HOME\" }\n";
    folder.file(".codex/config.toml", text);
    let ran = folder.run(&["servers"]);
    assert!(ran.stdout.contains("X-A, X-B, Authorization (line 3 to 5)"), "{}", ran.stdout);
}

/// The files where each program keeps its servers, for a project and for its user.
#[test]
fn the_files_of_more_programs_are_found() {
    let folder = Folder::new("servers-places");
    let servers = |name: &str| format!("{{\"mcpServers\": {{\"{name}\": {{\"command\": \"x\"}}}}}}");
    for (file, name) in [
        (".gemini/settings.json", "gemini"),
        (".roo/mcp.json", "roo"),
        ("config/mcporter.json", "mcporter"),
        ("../.mcporter/mcporter.json", "own-mcporter"),
        ("../.copilot/mcp-config.json", "copilot"),
        ("../.mcp-inspector/mcp.json", "inspector"),
    ] {
        folder.file(file, servers(name));
    }
    folder.file(".zed/settings.json", "{\"context_servers\": {\"zed\": {\"command\": \"x\"}}}");
    folder.file("opencode.jsonc", "{\"mcp\": {\"open\": {\"type\": \"local\", \"command\": [\"x\"]}}}");
    let ran = folder.run(&["servers", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let names: Vec<_> = json["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["servers"][0]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["open", "gemini", "roo", "zed", "mcporter", "copilot", "inspector", "own-mcporter"]);
}

/// Users often type the file in the place of the server first.
#[test]
fn a_configuration_is_no_program() {
    let folder = Folder::new("servers-typed");
    folder.file("x.json", MCP);
    folder.run(&["list", "./x.json"]).exits(4).says(&["(E_SPAWN_NOT_EXECUTABLE)", "--config FILE"]);
}

#[test]
fn a_name_and_its_value_typed_apart_are_answered_with_their_spelling() {
    let folder = Folder::new("servers-complete");
    folder.run(&["complete", "demo:", "prompt:x", "arg1", "Pa"]).exits(2).says(&["write arg1=Pa"]);
    folder
        .run(&["complete", "demo:", "prompt:x", "arg1=a", "b"])
        .exits(2)
        .says(&["--context ARGUMENT=VALUE"]);
}
