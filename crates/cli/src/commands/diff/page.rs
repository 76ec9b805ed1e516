//! Changes for a person: a line for each, details below it, and a summary.
//!
//! Used by `diff`. `sentences` escapes all texts of a server.

use std::fmt::Write;

use mcpjoin::proto::Raw;
use mcpjoin_rules::{ChangeClass, ChangeOf};

use super::Comparison;
use super::sentences::{Detail, details, sentence};
use super::side::Snapshot;
use crate::object::Object;
use crate::ui::{BAD, FAINT, HEADING, NAME};
use crate::visible;

/// The longest name on a page. The document has all of it.
const MAX_NAME_COLUMNS: usize = 120;

/// A side in one line.
pub(super) fn header(which: &str, snapshot: &Snapshot) -> String {
    let text = |raw: Option<&Raw>| raw.and_then(Raw::to_string_value).map(|text| text.into_owned());
    let info = snapshot.offer.server_info.as_ref().and_then(Object::of);
    let of = |name: &str| info.as_ref().and_then(|info| info.text(name)).unwrap_or_default();
    let server = match of("name") {
        name if name.is_empty() => "an unnamed server".to_owned(),
        name => format!("{} {}", cut(&name), cut(&of("version"))),
    };
    let version = text(snapshot.offer.protocol_version.as_ref()).unwrap_or_default();
    let source = cut(&snapshot.source);
    format!("{HEADING}{which}{HEADING:#} {source}, {}, protocol {}", server.trim_end(), cut(&version))
}

fn cut(text: &str) -> String {
    visible::cut(&visible::line(text), MAX_NAME_COLUMNS).into_owned()
}

/// All changes and the summary.
pub(super) fn page(found: &Comparison) -> String {
    let mut out = String::new();
    for of in ChangeOf::ALL {
        let changes: Vec<_> =
            found.changes.iter().filter(|change| change.of == of && found.is_shown(change.class)).collect();
        if changes.is_empty() {
            continue;
        }
        let heading = match of {
            ChangeOf::Server => "Server",
            ChangeOf::Tool => "Tools",
            ChangeOf::Resource => "Resources",
            ChangeOf::ResourceTemplate => "Resource templates",
            ChangeOf::Prompt => "Prompts",
        };
        let _ = writeln!(out, "{HEADING}{heading}{HEADING:#}");
        for change in changes {
            let class = change.class.as_str();
            let gap = " ".repeat(8_usize.saturating_sub(class.len()));
            let class = match change.class {
                ChangeClass::Breaks => format!("{BAD}{class}{BAD:#}"),
                ChangeClass::Noted => format!("{FAINT}{class}{FAINT:#}"),
                ChangeClass::Reads | ChangeClass::Adds => class.to_owned(),
            };
            let name = match &change.name {
                Some(name) => format!("{NAME}{}{NAME:#}: ", cut(name)),
                None if of == ChangeOf::Server => String::new(),
                None => "(unnamed): ".into(),
            };
            let _ = writeln!(out, "  {class}{gap}{name}{}", sentence(change));
            for line in details(change) {
                let _ = match line {
                    Detail::Removed(text) => writeln!(out, "          {FAINT}- {text}{FAINT:#}"),
                    Detail::Added(text) => writeln!(out, "{}", format!("          + {text}").trim_end()),
                    Detail::Note(text) => writeln!(out, "          {FAINT}{text}{FAINT:#}"),
                };
            }
        }
        out.push('\n');
    }
    let _ = writeln!(out, "{}", summary(found));
    out
}

fn summary(found: &Comparison) -> String {
    let counted = [ChangeClass::Breaks, ChangeClass::Reads, ChangeClass::Adds];
    let counts: Vec<(ChangeClass, usize)> = counted
        .into_iter()
        .filter(|class| found.is_shown(*class))
        .map(|class| (class, found.count(class)))
        .collect();
    let count: usize = counts.iter().map(|(_, count)| count).sum();
    let parts: Vec<String> = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(class, count)| format!("{count} {}", class.as_str()))
        .collect();
    let mut line = match count {
        0 if found.only.is_empty() => "no changes".to_owned(),
        0 => format!(
            "no change that {}",
            found.only.iter().map(|only| only.class().as_str()).collect::<Vec<_>>().join(" or ")
        ),
        1 => format!("1 change: {}", parts.join(", ")),
        _ => format!("{count} changes: {}", parts.join(", ")),
    };
    let noted = found.count(ChangeClass::Noted);
    if found.only.is_empty() && noted > 0 {
        let _ = write!(line, "; {noted} noted");
    }
    let others = found.changes.len() - noted - count;
    if others > 0 {
        let _ = write!(line, "; {others} of other classes");
    }
    line
}
