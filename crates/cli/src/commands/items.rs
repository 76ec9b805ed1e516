//! An item of a list for a person: in a row, as a signature, or in full. Escapes all texts of a server.
//!
//! Used by `list`, `search` and `tool`.

use std::fmt::Write;

use mcpjoin::proto::Raw;
use unicode_width::UnicodeWidthStr;

use super::lists::{Section, TOOLS};
use crate::object::Object;
use crate::schema::Schema;
use crate::ui::{HEADING, NAME};
use crate::visible;

/// A name that is this much wider than three quarters of the others is not aligned: it moves its own description to the right.
const MAX_LONGER_COLUMNS: usize = 12;
/// A description is below its name where less room is left for it.
const MIN_DESCRIPTION_COLUMNS: usize = 20;
/// In a narrower terminal descriptions are below their names.
const MIN_TABLE_COLUMNS: usize = 50;
/// The longest first line of a description.
const MAX_LINE_CHARS: usize = 4096;

/// The name of an item, and the first line of its description.
pub(super) fn row(section: &Section, item: &Raw) -> (String, String) {
    let Some(object) = Object::of(item) else {
        return (format!("({})", Object::refused(item)), String::new());
    };
    let description = description(section, &object);
    (name(section, &object), description.map_or_else(String::new, |text| first_line(&text)))
}

/// The first line of a text, truncated: a document has all of it.
fn first_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}…", visible::line(&line[..end])),
        None => visible::first_line(line).into_owned(),
    }
}

/// A member that is a text and not blank.
fn text(item: &Object, member: &str) -> Option<String> {
    item.text(member).filter(|text| !text.trim().is_empty())
}

fn name(section: &Section, item: &Object) -> String {
    let name = text(item, section.name);
    name.map_or_else(|| "(without a name)".into(), |name| visible::line(&name).into_owned())
}

fn description(section: &Section, item: &Object) -> Option<String> {
    text(item, "description").or_else(|| text(item, "title")).or_else(|| {
        // A resource is identified by its address, and its name describes it.
        if section.name == "name" { None } else { text(item, "name") }
    })
}

/// Writes all that is known of an item: also the parameters of a tool, and the arguments of a prompt.
pub(super) fn described(out: &mut String, section: &Section, item: &Raw) {
    let mut text = String::new();
    match Object::of(item) {
        Some(_) if section.member == TOOLS.member => text.push_str(&tool(item)),
        Some(item) => {
            let _ = writeln!(text, "{NAME}{}{NAME:#}", name(section, &item));
            lines(&mut text, "  ", &description(section, &item).unwrap_or_default());
            for argument in item.items("arguments").unwrap_or_default().iter().filter_map(Object::of) {
                let must = argument.value("required").is_some_and(|value| value.as_str() == "true");
                let must = if must { "  required" } else { "" };
                let named = argument.text("name").unwrap_or_default();
                let _ = writeln!(text, "  {NAME}{}{NAME:#}{must}", visible::line(&named));
                lines(&mut text, "      ", &argument.text("description").unwrap_or_default());
            }
        }
        None => {
            let _ = writeln!(text, "({})", Object::refused(item));
        }
    }
    for (place, line) in text.lines().enumerate() {
        let indent = if place == 0 { "  " } else { "    " };
        let _ = writeln!(out, "{indent}{line}");
    }
}

/// Writes each line of a text behind an indent.
fn lines(out: &mut String, indent: &str, text: &str) {
    for line in text.lines() {
        let _ = writeln!(out, "{indent}{}", visible::line(line));
    }
}

/// A tool: its name and its description, then its parameters as a tree.
pub(super) fn tool(tool: &Raw) -> String {
    let Some(tool) = Object::of(tool) else { return String::new() };
    let mut out = format!("{HEADING}{}{HEADING:#}", visible::line(&text(&tool, "name").unwrap_or_default()));
    if let Some(title) = text(&tool, "title") {
        let _ = write!(out, "  {}", visible::line(&title));
    }
    out.push('\n');
    lines(&mut out, "  ", &text(&tool, "description").unwrap_or_default());
    for (heading, member, none) in [("Parameters", "inputSchema", "  none\n"), ("Result", "outputSchema", "")]
    {
        if let Some(schema) = tool.value(member) {
            properties(&mut out, heading, schema, none);
        }
    }
    if let Some(annotations) = tool.value("annotations").and_then(Object::of) {
        let hints: Vec<String> = annotations
            .into_iter()
            .filter(|(_, value)| value.as_str() == "true")
            .map(|(name, _)| visible::line(&name).into_owned())
            .collect();
        if !hints.is_empty() {
            let _ = writeln!(out, "{HEADING}Hints{HEADING:#}\n  {}", hints.join(", "));
        }
    }
    out
}

/// Writes the properties of a schema as a tree.
fn properties(out: &mut String, heading: &str, raw: &Raw, none: &str) {
    let tree = match Schema::read(raw) {
        Some(schema) => schema.tree(2),
        None => "  (the schema is too large to be shown: --json shows it)\n".into(),
    };
    let tree = if tree.is_empty() { none } else { &tree };
    if !tree.is_empty() {
        let _ = write!(out, "{HEADING}{heading}{HEADING:#}\n{tree}");
    }
}

/// A tool as one line: its name with the types of its parameters.
pub(super) fn signature(tool: &Raw) -> String {
    let Some(object) = Object::of(tool) else { return format!("({})", Object::refused(tool)) };
    let schema = object.value("inputSchema").map(Schema::read);
    let parameters = match schema {
        Some(Some(schema)) => schema.signature(),
        Some(None) => "…".into(),
        None => String::new(),
    };
    format!("{NAME}{}{NAME:#}({parameters})", name(&TOOLS, &object))
}

/// The width of the widest name that is aligned. `indent` and `width`: as for [`table`].
pub(super) fn name_columns(rows: &[(String, String)], indent: usize, width: Option<usize>) -> usize {
    let mut widths: Vec<usize> = rows.iter().map(|(name, _)| name.width()).collect();
    widths.sort_unstable();
    let most = widths.get(widths.len().saturating_sub(1) * 3 / 4).copied().unwrap_or_default();
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(indent + 2 + MIN_DESCRIPTION_COLUMNS));
    let limit = room.min(most + MAX_LONGER_COLUMNS);
    widths.into_iter().rfind(|width| *width <= limit).unwrap_or_default()
}

/// Writes rows in two columns, or with the second below the first where the terminal is narrow. `names`: the width of the
/// first column; `width`: of the terminal.
pub(super) fn table(
    out: &mut String,
    rows: &[(String, String)],
    indent: usize,
    names: usize,
    width: Option<usize>,
) {
    let left = " ".repeat(indent);
    for (name, description) in rows {
        // The terminal would wrap a name that does not fit on its line, and the columns would no longer be aligned.
        let shown = width
            .map_or_else(|| name.into(), |width| visible::cut(name, width.saturating_sub(indent).max(1)));
        let _ = write!(out, "{left}{NAME}{shown}{NAME:#}");
        if !description.is_empty() {
            let used = match width {
                Some(width)
                    if width < MIN_TABLE_COLUMNS
                        || indent + shown.width() + 2 + MIN_DESCRIPTION_COLUMNS > width =>
                {
                    let _ = write!(out, "\n{left}  ");
                    indent + 2
                }
                _ => {
                    let gap = names.saturating_sub(shown.width()) + 2;
                    out.push_str(&" ".repeat(gap));
                    indent + shown.width() + gap
                }
            };
            match width {
                Some(width) => out.push_str(&visible::cut(description, width.saturating_sub(used).max(1))),
                None => out.push_str(description),
            }
        }
        out.push('\n');
    }
}
