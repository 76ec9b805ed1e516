//! Tests of the conversion from every dialect into every other one and back: what both support is unchanged.

use std::ffi::OsString;

use super::super::dialect::Dialect;
use super::super::entry::Definition;
use super::super::files::Configuration;
use super::super::places::Origin;
use super::super::source::Source;
use super::{Converted, convert};
use crate::args::Configured;

/// Everything that all dialects support.
const COMMON: &str = r#"{"mcpServers": {
  "files": {"command": "npx", "args": ["-y", "pkg", "é \"quoted\" \\ \u007f\n"],
    "env": {"API_KEY": "y", "A.B": "x"}, "cwd": "/srv/a b"},
  "the web/7": {"url": "https://host/mcp?key=1", "headers": {"Authorization": "Bearer z"}}
}}"#;

fn typed(text: &str) -> Configured {
    Configured { mcp_config: vec![OsString::from(text)], ..Configured::default() }
}

fn configuration(dialect: Dialect, text: &str) -> Configuration {
    let name = match dialect {
        Dialect::ServersToml | Dialect::CodexToml => "a.toml",
        Dialect::CursorJson => ".cursor/mcp.json",
        Dialect::GeminiJson => ".gemini/settings.json",
        Dialect::WindsurfJson => "windsurf/mcp_config.json",
        _ => "a.json",
    };
    let source = Source::new(name.as_ref(), text.to_owned());
    Configuration::of(source, Origin::Chosen)
        .unwrap_or_else(|unread| panic!("{}\n{text}", unread.failure.message))
}

/// The definitions of the entries, without their positions.
fn said(configuration: &Configuration) -> Vec<(String, String)> {
    let definition = |node| Definition::read(configuration.dialect, node).unwrap();
    let entries = configuration.parsed.entries.iter();
    let text = |definition: Definition| {
        let text = format!(
            "{:?}",
            (definition.transport, definition.settings, definition.description, definition.timeout)
        );
        let mut places = text.split("at: ");
        let first = places.next().unwrap_or_default().to_owned();
        places.fold(first, |before, place| before + place.trim_start_matches(|c: char| c.is_ascii_digit()))
    };
    entries.map(|entry| (entry.name.clone(), text(definition(&entry.node)))).collect()
}

#[test]
fn every_dialect_says_the_same_in_every_other_one() {
    let first = configuration(Dialect::McpServersJson, COMMON);
    for (name, one) in Dialect::NAMES {
        let Converted { text, left, entries, .. } = convert(&typed(COMMON), &[], one, true).unwrap();
        assert_eq!((left, entries), (Vec::new(), 2), "{name}");
        let there = configuration(one, &text);
        assert_eq!(there.dialect, one, "{text}");
        assert_eq!(said(&there), said(&first), "{name}: {text}");
    }
}

#[test]
fn what_binds_an_entry_goes_with_it_or_is_reported() {
    let text = r#"{"mcpServers": {"a": {"command": "x", "description": "Files", "timeoutMs": 1500,
        "allowedTools": ["read_*"], "disabledTools": ["read_secret"], "disabled": true}}}"#;
    for (dialect, lost) in [
        (Dialect::McpServersJson, &[][..]),
        (Dialect::ServersToml, &[]),
        (Dialect::CodexToml, &["the description"]),
        (Dialect::OpencodeJson, &["the tool filter", "the description", "the request timeout"]),
        (
            Dialect::VsCodeJson,
            &["the tool filter", "the description", "the request timeout", "the state disabled"],
        ),
        (Dialect::GeminiJson, &["the state disabled"]),
        (Dialect::WindsurfJson, &["the tool filter", "the description", "the request timeout"]),
    ] {
        let converted = convert(&typed(text), &[], dialect, true).unwrap();
        let told: Vec<String> = lost
            .iter()
            .map(|lost| format!("--mcp-config:1:17: {lost} of a has no equivalent in {}", dialect.name()))
            .collect();
        assert_eq!(converted.left, told);
        let there = configuration(dialect, &converted.text);
        let definition = Definition::read(dialect, &there.parsed.entries[0].node).unwrap();
        assert_eq!(definition.tools.allows("write"), lost.contains(&"the tool filter"), "{}", converted.text);
        assert_eq!(
            definition.disabled.is_some(),
            !lost.contains(&"the state disabled"),
            "{}",
            converted.text
        );
        assert_eq!(definition.warnings, [], "{}", converted.text);
    }
}

#[test]
fn one_bad_entry_is_reported_and_the_others_are_written() {
    let text = r#"{"mcpServers": {"bad": {"command": 1}, "good": {"command": "x"}}}"#;
    let converted = convert(&typed(text), &[], Dialect::CodexToml, true).unwrap();
    assert_eq!(converted.text, "[mcp_servers.good]\ncommand = \"x\"\n");
    assert_eq!(converted.entries, 1);
    assert!(
        converted.left[0].starts_with("bad is left out: --mcp-config:1:36: command must be a string"),
        "{:?}",
        converted.left
    );
    let missing = convert(&typed(text), &["bad".into()], Dialect::CodexToml, true).map(|_| ()).unwrap_err();
    let told = "--mcp-config:1:36: bad cannot be converted: command must be a string";
    assert!(missing.message.starts_with(told), "{}", missing.message);
    let missing = convert(&typed(text), &["no".into()], Dialect::CodexToml, true).map(|_| ()).unwrap_err();
    assert!(missing.message.contains("there is no entry no to convert"), "{}", missing.message);
}

#[test]
fn variables_are_spelled_as_the_other_program_reads_them_or_reported() {
    let text = r#"{"mcpServers": {
"a": {"command": "x", "args": ["${V}", "${V:-w}", "$${V}"], "env": {"V": "${V}", "W": "${V}"}},
"b": {"url": "https://h/mcp", "headers": {"Authorization": "Bearer ${V}", "X": "${V}", "Y": "y ${V}"}}}}"#;
    let written = |to| {
        let Converted { text, left, .. } = convert(&typed(text), &[], to, true).unwrap();
        let left: Vec<String> = left
            .iter()
            .map(|told| told.trim_start_matches("--mcp-config:").split_once(' ').unwrap().1.to_owned())
            .collect();
        (text, left)
    };
    let (text, left) = written(Dialect::VsCodeJson);
    assert!(
        text.contains(r#""args": ["${env:V}", "w", "${V}"]"#) && text.contains("Bearer ${env:V}"),
        "{text}"
    );
    assert_eq!(left, ["the variable V with a default of a has no equivalent in vscode"]);
    let (text, _) = written(Dialect::OpencodeJson);
    assert!(text.contains(r#"["x", "{env:V}", "w", "${V}"]"#), "{text}");
    let (text, left) = written(Dialect::ServersToml);
    assert!(text.contains(r#"args = ["${V}", "${V:-w}", "$${V}"]"#) && left.is_empty(), "{text}");
    let (text, left) = written(Dialect::CodexToml);
    for part in [
        "env_vars = [\"V\"]\n",
        "env = { W = \"${V}\" }\n",
        "bearer_token_env_var = \"V\"\n",
        "env_http_headers = { X = \"V\" }\n",
        "http_headers = { Y = \"y ${V}\" }\n",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let lost = |name: &str| format!("the variable V of {name} has no equivalent in codex");
    let with = "the variable V with a default of a has no equivalent in codex".to_owned();
    assert_eq!(left, [lost("a"), with, lost("a"), lost("b")]);
    let text = r#"{"mcp": {"a": {"type": "local", "command": ["x", "{file:~/key}"]}}}"#;
    let converted = convert(&typed(text), &[], Dialect::McpServersJson, true).unwrap();
    assert!(
        converted.left[0].ends_with("the text of the file '~/key' of a has no equivalent in mcp-servers"),
        "{:?}",
        converted.left
    );
}

#[test]
fn what_only_some_dialects_have_goes_with_an_entry_or_is_reported() {
    let text = r#"{"mcpServers": {
"a": {"command": "x", "envFile": "${V}/.env"},
"b": {"url": "https://h/mcp", "ca": "c.pem"},
"c": {"url": "quic://h:1", "pin": "sha256:p", "cert": "c", "key": "k"},
"d": {"url": "tcp://h:1"}}}"#;
    let first = configuration(Dialect::McpServersJson, text);
    for dialect in [Dialect::McpServersJson, Dialect::ServersToml] {
        let Converted { text, left, .. } = convert(&typed(text), &[], dialect, true).unwrap();
        assert_eq!(left, [""; 0]);
        assert_eq!(said(&configuration(dialect, &text)), said(&first), "{text}");
    }
    let left = |to| convert(&typed(text), &[], to, true).unwrap().left;
    let left_out = |name: &str| {
        [
            format!("c is left out: --mcp-config:4:14: {name} does not support servers over quic"),
            format!("d is left out: --mcp-config:5:14: {name} does not support servers over tcp"),
        ]
    };
    let place = "has no equivalent in";
    let ca = |name: &str| format!("--mcp-config:3:1: the list of trusted authorities of b {place} {name}");
    let file = |name: &str| format!("--mcp-config:2:1: the file of variables of a {place} {name}");
    assert_eq!(left(Dialect::VsCodeJson), [&[ca("vscode")][..], &left_out("vscode")].concat());
    for (dialect, name) in [(Dialect::OpencodeJson, "opencode"), (Dialect::CodexToml, "codex")] {
        let left = left(dialect);
        assert!(left.contains(&file(name)) && left.contains(&ca(name)), "{left:?}");
        assert_eq!(left[left.len() - 2..], left_out(name));
    }
    // A variable that Codex inherits becomes a reference to itself in other dialects, and the reverse.
    let codex = "[mcp_servers.a]\ncommand = \"x\"\nenv_vars = [\"V\", \"W\"]\n";
    let file = std::env::temp_dir().join(format!("mcpjoin-convert-{}.toml", std::process::id()));
    std::fs::write(&file, codex).unwrap();
    let named = Configured { mcp_config: vec![file.clone().into()], ..Configured::default() };
    let json = convert(&named, &[], Dialect::McpServersJson, true).unwrap().text;
    std::fs::remove_file(file).unwrap();
    assert!(json.contains(r#""V": "${V}""#) && json.contains(r#""W": "${W}""#), "{json}");
    assert_eq!(convert(&typed(&json), &[], Dialect::CodexToml, true).unwrap().text, codex);
}

#[test]
fn i166_values_are_written_as_references_unless_they_are_asked_for() {
    let text = r#"{"mcpServers": {
"files": {"command": "x", "args": ["--api-key=hunter2a", "--token", "hunter2b", "hunter2b", "plain", "${V}"],
  "env": {"API_KEY": "hunter2c", "A.B": "hunter2d", "OWN": "${V}", "OR": "a${V:-hunter2e}", "EMPTY": ""}},
"7 web": {"url": "https://h/mcp?token=hunter2f&b=1",
  "headers": {"Authorization": "Bearer hunter2g", "X-Team": "hunter2h", "X-Own": "Bearer ${V}"}}}}"#;
    let written = |to, values| convert(&typed(text), &[], to, values).unwrap();
    for (name, dialect) in Dialect::NAMES {
        let converted = written(dialect, false);
        let all = format!("{}{:?}{:?}", converted.text, converted.left, converted.to_set);
        assert!(!all.contains("hunter2"), "{name}: {all}");
        assert_eq!(written(dialect, true).text.matches("hunter2g").count(), 1, "{name}");
        // The output can be read again, and its values are valid references.
        let there = configuration(dialect, &converted.text);
        assert_eq!(there.parsed.entries.len(), 2);
        assert!(written(dialect, true).to_set.is_empty());
    }
    let converted = written(Dialect::McpServersJson, false);
    assert_eq!(
        converted.to_set,
        [
            "API_KEY",
            "FILES_A_B",
            "FILES_SECRET",
            "FILES_SECRET_2",
            "V",
            "_7_WEB_AUTHORIZATION",
            "_7_WEB_SECRET",
            "_7_WEB_X_TEAM"
        ]
    );
    for part in [
        r#"["--api-key=${FILES_SECRET}", "--token", "${FILES_SECRET_2}", "${FILES_SECRET_2}", "plain", "${V}"]"#,
        r#""API_KEY": "${API_KEY}""#,
        r#""A.B": "${FILES_A_B}""#,
        r#""OWN": "${V}""#,
        r#""OR": "a${V}""#,
        r#""EMPTY": """#,
        r#""https://h/mcp?token=${_7_WEB_SECRET}&b=1""#,
        r#""Authorization": "Bearer ${_7_WEB_AUTHORIZATION}""#,
        r#""X-Team": "${_7_WEB_X_TEAM}""#,
        r#""X-Own": "Bearer ${V}""#,
    ] {
        assert!(converted.text.contains(part), "{part} is not in {}", converted.text);
    }
}
