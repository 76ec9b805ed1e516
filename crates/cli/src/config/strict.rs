//! Whether the program that owns a file can read it: mcpjoin reads JSON with comments, trailing commas and more, and some
//! owners read strict JSON and ignore the whole file where it is none.
//!
//! Used by `survey` and `files`. It refuses nothing: the file is used all the same. The problem quotes nothing of the text, which may hold a
//! secret. <https://www.rfc-editor.org/rfc/rfc8259>

use std::path::Path;

use serde::de::IgnoredAny;

use super::source::{Problem, Source};

/// The names of files that are read as strict JSON, and their owners.
const OWNERS: [(&str, &str); 3] = [
    ("claude_desktop_config.json", "Claude Desktop"),
    (".mcp.json", "Claude Code"),
    (".claude.json", "Claude Code"),
];

/// The program that reads this file as strict JSON.
fn owner(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?;
    OWNERS.iter().find_map(|(known, owner)| (*known == name).then_some(*owner))
}

/// The first place at which the owner of the file stops.
pub(super) fn problem(source: &Source) -> Option<Problem> {
    let owner = owner(source.path())?;
    let text = source.text();
    let error = serde_json::from_str::<IgnoredAny>(text).err()?;
    let before: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let at = (before + error.column().saturating_sub(1)).min(text.len());
    let said = error.to_string();
    let said = said.split(" at line ").next().unwrap_or_default();
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    // The position is that of the bracket behind it.
    let comma = text
        .get(..at)
        .map(str::trim_end)
        .filter(|before| before.ends_with(','))
        .map(|before| before.len() - 1);
    let (at, what) = match said {
        _ if rest.starts_with(b"}") || rest.starts_with(b"]") => {
            comma.map_or((at, said), |comma| (comma, "a trailing comma"))
        }
        _ if rest.starts_with(b"/") => (at, "a comment"),
        _ if rest.starts_with(b"'") => (at, "single quotes"),
        "key must be a string" => (at, "a name without quotes"),
        other => (at, other),
    };
    let text = format!("{what}: {owner} reads strict JSON, and ignores the whole file");
    Some(Problem::new(at, text))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Source, problem};

    #[test]
    fn what_the_owner_of_a_file_cannot_read_is_named_with_its_place() {
        let said = |name: &str, text: &str| {
            let source = Source::new(Path::new(name), text.to_owned());
            problem(&source).map(|problem| source.say(&problem))
        };
        let strict = "reads strict JSON, and ignores the whole file";
        for (name, text, expected) in [
            (
                "/a/claude_desktop_config.json",
                r#"{"a": {"b": "x",}}"#,
                "1:16: a trailing comma: Claude Desktop",
            ),
            (".mcp.json", "{\"a\": [1,\n  2,\n]}", "2:4: a trailing comma: Claude Code"),
            (".mcp.json", "{'a': 1}", "1:2: single quotes: Claude Code"),
            (".mcp.json", "{a: 1}", "1:2: a name without quotes: Claude Code"),
            (".claude.json", "{\n  // why\n  \"a\": 1}", "2:3: a comment: Claude Code"),
            (".mcp.json", "/* why */ {}", "1:1: a comment: Claude Code"),
        ] {
            let found = said(name, text).unwrap_or_else(|| unreachable!("{text}"));
            assert_eq!(found, format!("{name}:{expected} {strict}"));
        }
        assert_eq!(said(".mcp.json", r#"{"a": {"b": "x"}}"#), None);
        // Its owner reads comments.
        assert_eq!(said("/a/.vscode/mcp.json", r#"{"a": 1,}"#), None);
    }
}
