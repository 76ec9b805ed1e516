//! What `mcpjoin servers` prints.

use serde_json::json;

use crate::config::{File, Found, Member, Trusted, called};
use crate::target::{exact, shown};
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
        if let Some(untrusted) = file.entries.iter().find_map(|entry| entry.untrusted.as_ref()) {
            let folder = shown(untrusted.folder.as_os_str());
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
    match &entry.untrusted {
        Some(untrusted) if untrusted.changes.is_some() => about.push_str(", changed since it was trusted"),
        Some(_) => about.push_str(", not trusted"),
        None => {}
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
        // Secrets in it are masked where they stand.
        let word = |text: &str| if bare { called(text) } else { exact(text) };
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
            let trusted = file.entries.iter().all(|entry| entry.untrusted.is_none());
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
        "trusted": entry.untrusted.is_none(),
        "values": values,
        "problems": entry.problems,
        "warnings": entry.warnings,
    });
    put(&mut object, "transport", entry.transport);
    put(&mut object, "description", entry.description.as_deref());
    put(&mut object, "disabled", entry.disabled);
    put(&mut object, "shadowedBy", entry.shadowed.as_deref());
    let changes = entry.untrusted.as_ref().and_then(|untrusted| untrusted.changes.clone());
    put(&mut object, "changes", changes);
    object
}

fn put(object: &mut serde_json::Value, name: &str, value: Option<impl Into<serde_json::Value>>) {
    if let Some(value) = value {
        object[name] = value.into();
    }
}

/// What `servers trust` has done, or `servers untrust`: for a person, with each definition in full where it is there.
pub(super) fn definitions(said: &str, definitions: &[(String, Vec<String>)]) -> String {
    let mut out = vec![said.to_owned()];
    for (name, lines) in definitions {
        let (first, rest) = lines.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
        out.push(format!("  {NAME}{name}{NAME:#}: {first}"));
        out.extend(rest.iter().map(|line| format!("    {line}")));
    }
    out.join("\n")
}

/// One line of [`definitions`] for each member that was kept.
pub(super) fn kept(trusted: &Trusted) -> Vec<String> {
    let (run, rest): (Vec<_>, Vec<_>) =
        trusted.members.iter().partition(|member| ["command", "args", "url"].contains(&member.what.as_str()));
    let words = |member: &Member| member.words.iter().map(|word| exact(word)).collect::<Vec<_>>().join(" ");
    let mut lines = vec![run.into_iter().map(words).collect::<Vec<_>>().join(" ")];
    lines.extend(rest.into_iter().map(|member| {
        let name = if member.name.is_empty() { String::new() } else { format!(" {}", exact(&member.name)) };
        let words = if member.words.is_empty() { "***".to_owned() } else { words(member) };
        format!("{}{name} {words}", exact(&member.what))
    }));
    lines
}

/// Definitions for a program.
pub(super) fn of_trusted(trusted: &Trusted) -> serde_json::Value {
    let Trusted { folder, file, entry, digest, members } = trusted;
    json!({ "folder": folder, "file": file, "name": entry, "digest": digest, "members": members })
}
