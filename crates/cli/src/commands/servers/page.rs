//! What `mcpjoin servers` prints.

use serde_json::json;

use crate::config::{File, Found, called};
use crate::target::shown;
use crate::ui::{BAD, FAINT, HEADING, NAME};
use crate::visible;

/// For a person: each file, each entry, a line for each kind of value.
pub(super) fn text(files: &[File]) -> String {
    if files.is_empty() {
        return "no configuration: `mcpjoin help servers` says where they are looked for".into();
    }
    let mut out = Vec::new();
    for file in files {
        if !out.is_empty() {
            out.push(String::new());
        }
        let dialect = file.dialect.map(|dialect| format!(" {FAINT}{dialect}{FAINT:#}")).unwrap_or_default();
        out.push(format!("{HEADING}{}{HEADING:#}{dialect}", visible::line(&file.name)));
        if let Some(problem) = &file.problem {
            out.push(format!("  {BAD}unusable{BAD:#} {}", visible::line(problem)));
        }
        if let Some(folder) = &file.untrusted {
            let folder = visible::line(&shown(folder.as_os_str())).into_owned();
            out.push(format!("  not trusted: mcpjoin servers trust {folder}"));
        }
        for warning in &file.warnings {
            out.push(format!("  warning  {}", visible::line(warning)));
        }
        for entry in &file.entries {
            of_entry(entry, &mut out);
        }
        if file.problem.is_none() && file.entries.is_empty() {
            out.push("  no entries".into());
        }
    }
    out.join("\n")
}

fn of_entry(entry: &Found, out: &mut Vec<String>) {
    let name = called(&entry.name);
    let mut about = entry.transport.unwrap_or("unusable").to_owned();
    if let Some(line) = entry.disabled {
        about.push_str(&format!(", disabled in line {line}"));
    }
    // Of two with one name in one file neither is used.
    if let Some(place) = entry.shadowed.as_ref().filter(|_| entry.problems.is_empty()) {
        about.push_str(&format!(", not used: {place} comes first"));
    }
    out.push(format!("  {NAME}{name}{NAME:#} line {}, {}", entry.line, visible::line(&about)));
    if let Some(text) = &entry.description {
        out.push(format!("    {}", visible::first_line(text)));
    }
    let mut parts = entry.parts.iter().peekable();
    while let Some(part) = parts.next() {
        let bare = matches!(part.what, "env" | "env_vars" | "headers");
        let word = |text: &str| if bare { called(text) } else { shown(text.as_ref()) };
        let mut words = vec![word(&part.text)];
        let (mut first, mut last) = (part.line, part.line);
        while let Some(next) = parts.next_if(|next| next.what == part.what && next.file == part.file) {
            words.push(word(&next.text));
            (first, last) = (first.min(next.line), last.max(next.line));
        }
        let separator = if bare { ", " } else { " " };
        let lines = if last == first { first.to_string() } else { format!("{first} to {last}") };
        let lines = match &part.file {
            Some(file) => format!("{lines} of {}", visible::line(file)),
            None => lines,
        };
        out.push(format!("    {:<14} {} {FAINT}line {lines}{FAINT:#}", part.what, words.join(separator)));
    }
    for problem in &entry.problems {
        out.push(format!("    {BAD}unusable{BAD:#}       {}", visible::line(problem)));
    }
    for warning in &entry.warnings {
        out.push(format!("    warning        {}", visible::line(warning)));
    }
}

/// For a program.
pub(super) fn json(files: &[File]) -> String {
    let files: Vec<_> = files
        .iter()
        .map(|file| {
            let servers: Vec<_> = file.entries.iter().map(of).collect();
            let trusted = file.untrusted.is_none();
            let mut object =
                json!({ "file": file.name, "trusted": trusted, "warnings": file.warnings, "servers": servers });
            put(&mut object, "dialect", file.dialect);
            put(&mut object, "problem", file.problem.as_deref());
            object
        })
        .collect();
    visible::json(&json!({ "files": files }).to_string())
}

fn of(entry: &Found) -> serde_json::Value {
    let values: Vec<_> = entry
        .parts
        .iter()
        .map(|part| {
            let mut value = json!({ "what": part.what, "text": part.text, "line": part.line });
            put(&mut value, "file", part.file.as_deref());
            value
        })
        .collect();
    let mut object = json!({
        "name": entry.name,
        "line": entry.line,
        "values": values,
        "problems": entry.problems,
        "warnings": entry.warnings,
    });
    put(&mut object, "transport", entry.transport);
    put(&mut object, "description", entry.description.as_deref());
    put(&mut object, "disabled", entry.disabled);
    put(&mut object, "shadowedBy", entry.shadowed.as_deref());
    object
}

fn put(object: &mut serde_json::Value, name: &str, value: Option<impl Into<serde_json::Value>>) {
    if let Some(value) = value {
        object[name] = value.into();
    }
}
