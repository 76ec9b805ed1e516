//! The output of `mcpjoin servers`.

use serde_json::{Value, json};

use crate::commands::{document_of, present};
use crate::config::{File, Found, Member, Trusted, called};
use crate::target::{exact, path_shown};
use crate::ui::{BAD, FAINT, HEADING, NAME};
use crate::visible;

/// For a person: each file, its entries, and a line for each kind of value.
pub(super) fn text(files: &[File]) -> String {
    if files.is_empty() {
        return "no configuration: `mcpjoin help servers` lists its places".into();
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
            let folder = path_shown(&untrusted.folder);
            out.push(format!("  not trusted: mcpjoin servers trust {folder}"));
        }
        for warning in file.strict.iter().chain(&file.warnings) {
            out.push(format!("  warning  {}", visible::line(warning)));
        }
        for entry in &file.entries {
            entry_lines(entry, &mut out);
        }
        if file.problem.is_none() && file.entries.is_empty() {
            out.push("  no entries".into());
        }
    }
    out.join("\n")
}

fn entry_lines(entry: &Found, out: &mut Vec<String>) {
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
    // If two entries in one file have the same name, neither is used.
    if let Some(place) = entry.shadowed.as_ref().filter(|_| entry.problems.is_empty()) {
        about.push_str(&format!(", not used: {place} comes first"));
    }
    out.push(format!("  {NAME}{name}{NAME:#} (line {}), {}", entry.line, visible::line(&about)));
    if let Some(text) = &entry.description {
        out.push(format!("    {}", visible::first_line(text)));
    }
    let mut parts = entry.parts.iter().peekable();
    while let Some(part) = parts.next() {
        let bare = matches!(part.what, "env" | "env_vars" | "headers");
        // The words of a command have been masked.
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
        // The line of the entry is known.
        let is_known = part.file.is_none() && (first, last) == (entry.line, entry.line);
        let place = if is_known { String::new() } else { format!(" {FAINT}(line {lines}){FAINT:#}") };
        out.push(format!("    {:<14} {}{place}", part.what, words.join(separator)));
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
    let files = files.iter().map(|file| {
        present(json!({
            "file": file.path,
            "dialect": file.dialect,
            "problem": file.problem,
            // No entry needs trust first.
            "trusted": file.entries.iter().all(|entry| entry.untrusted.is_none()),
            "warnings": file.strict.iter().chain(&file.warnings).cloned().collect::<Value>(),
            "servers": file.entries.iter().map(document).collect::<Value>(),
        }))
    });
    document_of(&json!({ "files": files.collect::<Value>() }))
}

fn document(entry: &Found) -> Value {
    present(json!({
        "name": entry.name,
        "line": entry.line,
        "transport": entry.transport,
        "description": entry.description,
        // The line that disables it.
        "disabled": entry.disabled,
        "shadowedBy": entry.shadowed,
        // It may be used without a question.
        "trusted": entry.untrusted.is_none(),
        // The changes since it was trusted.
        "changes": entry.untrusted.as_ref().and_then(|untrusted| untrusted.changes.as_deref()),
        "values": entry.parts,
        "problems": entry.problems,
        "warnings": entry.warnings,
    }))
}

/// The outcome of `servers trust` or `servers untrust` for a person, with each definition.
pub(super) fn definitions(said: &str, definitions: &[(String, Vec<String>)]) -> String {
    let mut out = vec![said.to_owned()];
    for (name, lines) in definitions {
        let (first, rest) = lines.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
        out.push(format!("  {NAME}{name}{NAME:#}: {first}"));
        out.extend(rest.iter().map(|line| format!("    {line}")));
    }
    out.join("\n")
}

/// The lines of [`definitions`] for a trusted definition.
pub(super) fn definition(trusted: &Trusted) -> Vec<String> {
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

/// Trusted definitions for a program, as a member of a document.
pub(super) fn trusted_document(trusted: &[Trusted]) -> Value {
    let of = |trusted: &Trusted| {
        let Trusted { folder, file, entry, digest, members } = trusted;
        json!({ "folder": folder, "file": file, "name": entry, "digest": digest, "members": members })
    };
    trusted.iter().map(of).collect()
}
