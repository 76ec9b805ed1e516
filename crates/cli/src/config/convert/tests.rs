//! Every dialect into every other one and back: what both have words for comes back as it was.

use std::ffi::OsString;

use super::super::entry::Definition;
use super::super::places::Origin;
use super::super::source::Source;
use super::super::{Configuration, Dialect};
use super::{Converted, convert};
use crate::args::Configured;

/// Everything that every dialect has words for.
const COMMON: &str = r#"{"mcpServers": {
  "files": {"command": "npx", "args": ["-y", "pkg", "--token=${SET}", "é \"quoted\" \\ \u007f\n"],
    "env": {"API_KEY": "${KEY}", "A.B": "x"}, "cwd": "/srv/a b"},
  "the web/7": {"url": "https://host/mcp?key=${SET}", "headers": {"Authorization": "Bearer ${SET}"}}
}}"#;

fn typed(text: &str) -> Configured {
    Configured { config: None, mcp_config: vec![OsString::from(text)] }
}

fn configuration(dialect: Dialect, text: &str) -> Configuration {
    let name = match dialect {
        Dialect::ServersToml | Dialect::CodexToml => "a.toml",
        _ => "a.json",
    };
    let source = Source::new(name.as_ref(), text.to_owned());
    Configuration::of(source, Origin::Chosen)
        .unwrap_or_else(|unread| panic!("{}\n{text}", unread.failure.message))
}

/// What an entry says, without its places.
fn said(configuration: &Configuration) -> Vec<(String, String)> {
    let definition = |node| Definition::read(configuration.dialect, node).unwrap();
    let entries = configuration.contents.entries.iter();
    let text = |definition: Definition| {
        let text = format!(
            "{:?}",
            (definition.way, definition.patterns, definition.description, definition.timeout)
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
        let Converted { text, left, entries } = convert(&typed(COMMON), &[], one).unwrap();
        assert_eq!((left, entries), (Vec::new(), 2), "{name}");
        let there = configuration(one, &text);
        assert_eq!(there.dialect, one, "{text}");
        assert_eq!(said(&there), said(&first), "{name}: {text}");
    }
}

#[test]
fn what_binds_an_entry_goes_with_it_or_is_told() {
    let text = r#"{"mcpServers": {"a": {"command": "x", "description": "Files", "timeoutMs": 1500,
        "allowedTools": ["read_*"], "disabledTools": ["read_secret"], "disabled": true}}}"#;
    for (dialect, lost) in [
        (Dialect::McpServersJson, &[][..]),
        (Dialect::ServersToml, &[]),
        (Dialect::CodexToml, &["the description"]),
        (Dialect::OpencodeJson, &["what binds its tools", "the description", "the time limit of a request"]),
        (
            Dialect::VsCodeJson,
            &[
                "what binds its tools",
                "the description",
                "the time limit of a request",
                "that it is disabled",
            ],
        ),
    ] {
        let converted = convert(&typed(text), &[], dialect).unwrap();
        let told: Vec<String> = lost
            .iter()
            .map(|lost| format!("--mcp-config:1:17: {lost} of a has no place in {}", dialect.name()))
            .collect();
        assert_eq!(converted.left, told);
        let there = configuration(dialect, &converted.text);
        let definition = Definition::read(dialect, &there.contents.entries[0].node).unwrap();
        assert_eq!(
            definition.tools.allows("write"),
            lost.contains(&"what binds its tools"),
            "{}",
            converted.text
        );
        assert_eq!(
            definition.disabled.is_some(),
            !lost.contains(&"that it is disabled"),
            "{}",
            converted.text
        );
        assert_eq!(definition.warnings, [], "{}", converted.text);
    }
}

#[test]
fn one_bad_entry_is_told_and_the_others_are_written() {
    let text = r#"{"mcpServers": {"bad": {"command": 1}, "good": {"command": "x"}}}"#;
    let converted = convert(&typed(text), &[], Dialect::CodexToml).unwrap();
    assert_eq!(converted.text, "[mcp_servers.good]\ncommand = \"x\"\n");
    assert_eq!(converted.entries, 1);
    assert!(
        converted.left[0].starts_with("--mcp-config:1:36: command must be a string"),
        "{:?}",
        converted.left
    );
    let missing = convert(&typed(text), &["bad".into()], Dialect::CodexToml).map(|_| ()).unwrap_err();
    assert!(missing.message.contains("there is no entry bad to convert"), "{}", missing.message);
}
