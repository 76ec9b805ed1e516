//! An item of a list for a person: what it is called and what is said of it, in a row or in full; and rows in two columns.
//!
//! Called by `list` and by what shows rows like its own. Everything from a server is
//! made visible here.

use std::fmt::Write;

use mcpjoin::proto::Raw;
use unicode_width::UnicodeWidthStr;

use super::reading::{Section, TOOLS};
use crate::commands::tool;
use crate::object::Object;
use crate::ui::NAME;
use crate::visible;

/// Names are aligned up to this width; longer ones push their description away.
pub(crate) const NAMES: usize = 56;
/// Below this width descriptions stand under their names.
const NARROW: usize = 50;
/// The longest first line of a description, in characters.
const LONGEST: usize = 4096;

/// By what it is called, and the first line of what is said about it.
pub(crate) fn row(section: &Section, item: &Raw) -> (String, String) {
    let Some(item) = Object::of(item) else {
        return ("(not an object)".into(), String::new());
    };
    (name(section, &item), said(section, &item).map_or_else(String::new, |said| beginning(&said)))
}

/// The first line of a text, as far as anybody reads it: a document has all of it.
fn beginning(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", visible::line(&line[..end])),
        None => visible::first_line(line).into_owned(),
    }
}

fn name(section: &Section, item: &Object) -> String {
    let name = item.text(section.name).filter(|text| !text.trim().is_empty());
    name.map_or_else(|| "(without a name)".into(), |name| visible::line(&name).into_owned())
}

fn said(section: &Section, item: &Object) -> Option<String> {
    let text = |member: &str| item.text(member).filter(|text| !text.trim().is_empty());
    text("description").or_else(|| text("title")).or_else(|| {
        // A resource is called by its address, and its name says what it is.
        if section.name == "name" { None } else { text("name") }
    })
}

/// All that is said of an item: of a tool its parameters, too.
pub(super) fn described(out: &mut String, section: &Section, item: &Raw) {
    let mut text = String::new();
    match Object::of(item) {
        Some(_) if section.member == TOOLS.member => text.push_str(&tool::page(item)),
        Some(item) => {
            let _ = writeln!(text, "{NAME}{}{NAME:#}", name(section, &item));
            let said = said(section, &item).unwrap_or_default();
            for line in said.lines() {
                let _ = writeln!(text, "  {}", visible::line(line));
            }
            for argument in item.items("arguments").unwrap_or_default().iter().filter_map(Object::of) {
                let must = argument.value("required").is_some_and(|value| value.as_str() == "true");
                let must = if must { "  required" } else { "" };
                let named = argument.text("name").unwrap_or_default();
                let _ = writeln!(text, "  {NAME}{}{NAME:#}{must}", visible::line(&named));
                for line in argument.text("description").unwrap_or_default().lines() {
                    let _ = writeln!(text, "      {}", visible::line(line));
                }
            }
        }
        None => text.push_str("(not an object)\n"),
    }
    for (place, line) in text.lines().enumerate() {
        let indent = if place == 0 { "  " } else { "    " };
        let _ = writeln!(out, "{indent}{line}");
    }
}

/// Two columns, or one below the other where there is little room. `indent`: how far from the left; `names`: the width of
/// the first.
pub(crate) fn table(
    out: &mut String,
    rows: &[(String, String)],
    indent: usize,
    names: usize,
    width: Option<usize>,
) {
    let left = " ".repeat(indent);
    for (name, said) in rows {
        // A name that does not fit on its line would be wrapped by the terminal, and take the others out of line.
        let shown = width
            .map_or_else(|| name.into(), |width| visible::cut(name, width.saturating_sub(indent).max(1)));
        let _ = write!(out, "{left}{NAME}{shown}{NAME:#}");
        if !said.is_empty() {
            let used = match width {
                Some(width) if width < NARROW || shown.width() + indent + 4 > width => {
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
                Some(width) => out.push_str(&visible::cut(said, width.saturating_sub(used).max(1))),
                None => out.push_str(said),
            }
        }
        out.push('\n');
    }
}
