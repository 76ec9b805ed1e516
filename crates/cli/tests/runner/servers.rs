//! `mcpjoin servers`: what the configuration holds, from which line, and the same in another dialect.

use super::config::Folder;

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
    let folder_shown = folder.path().display().to_string();
    let text = ran.stdout.replace(&folder_shown, "HOME");
    assert_eq!(
        text,
        "\
.mcp.json mcp-servers
  files line 2, stdio
    command        npx line 3
    args           -y pkg --token=*** line 4
    env            API_KEY, ZONE line 5
    unusable       .mcp.json:5:50: the variable MCPJOIN_NOT_SET is not set
  bad line 7, unusable
    unusable       .mcp.json:7:22: command must be a string, and is a number; its arguments stand in args
  web line 8, http, disabled in line 8
    url            https://host/mcp line 8
    headers        Authorization line 8

HOME/.codex/config.toml codex
  web line 2, http, not used: .mcp.json:8:3 comes first
    url            https://other/mcp line 3
  own line 4, stdio
    command        y line 5
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
        r#"{"mcpServers": {"a": {"command": "x", "args": ["${V}"], "description": "Files"}}}"#,
    );
    let ran = folder.run(&["servers", "convert", "--to", "codex"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stdout, "[mcp_servers.a]\ncommand = \"x\"\nargs = [\"${V}\"]\n");
    assert!(
        ran.stderr.contains(".mcp.json:1:17: the description of a has no place in codex"),
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
}
