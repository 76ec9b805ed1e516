//! `mcpjoin servers`: shows the configuration, converts it to another dialect, and manages which of it the user trusts.

mod change;
mod output;

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{print_now, written};
use crate::args::{Servers, Shown, What, WrittenAs};
use crate::config::{self, Dialect, Found, Trustable, Trusted};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::target::path_shown;
use crate::ui::Ui;
use crate::visible;

/// Runs the verb.
pub(crate) fn run(ui: &Ui, args: Servers) -> Result<Exit, Failure> {
    match args.what {
        None => show(ui, &args.shown),
        Some(What::Convert { to, values, shown }) => convert(ui, to, values, &shown),
        Some(What::Trust { folder, names, .. }) => trust(ui, folder.as_deref(), &names),
        Some(What::Untrust { folder, names, .. }) => untrust(ui, folder.as_deref(), &names),
        Some(What::Trusted { .. }) => trusted(ui),
        Some(What::Add(args)) => change::add(ui, *args),
        Some(What::Remove(args)) => change::remove(ui, &args),
    }
}

/// Trusts the entries in a folder, or those of these names, and shows them.
fn trust(ui: &Ui, folder: Option<&Path>, names: &[String]) -> Result<Exit, Failure> {
    let folder = real(folder)?;
    let (entries, mut left) = config::in_folder(&folder);
    known(names, entries.iter().map(|entry| entry.name.as_str()), None)?;
    let (mut trusted, mut lines) = (Vec::new(), Vec::new());
    for Trustable { place, name, definition } in entries {
        if !names.is_empty() && !names.contains(&name) {
            continue;
        }
        match definition {
            Ok((shown, definition)) => {
                lines.push((format!("{} of {place}", config::called(&name)), shown));
                trusted.push(definition);
            }
            Err(why) => left.push(format!("{place}: {} is left out: {why}", config::called(&name))),
        }
    }
    left.iter().for_each(|line| ui.warning(&visible::line(line)));
    let name = path_shown(&folder);
    if trusted.is_empty() {
        let problem = format!("{name} contains no entries to trust");
        return Err(Failure::usage(problem, "mcpjoin help servers trust lists the files that are read"));
    }
    let list = config::trust(&trusted).map_err(|error| {
        let problem = format!("the entries in {name} cannot be trusted: {error}");
        Failure::usage(problem, "set HOME or XDG_CONFIG_HOME to a folder that you can write to")
    })?;
    let text = if ui.json {
        let (folder, list) = (folder.to_string_lossy(), list.to_string_lossy());
        json!({ "trusted": folder, "list": list, "definitions": output::trusted_document(&trusted) })
            .to_string()
    } else {
        output::definitions(&format!("trusted: {name}, in {}", path_shown(&list)), &lines)
    };
    Ok(print_now(ui, &text))
}

/// Removes trust in the entries in a folder and below it, or in those of these names.
fn untrust(ui: &Ui, folder: Option<&Path>, names: &[String]) -> Result<Exit, Failure> {
    // The folder may have been deleted.
    let folder = real(folder)
        .or_else(|failure| folder.and_then(|folder| std::path::absolute(folder).ok()).ok_or(failure))?;
    let below = |trusted: &Trusted| Path::new(&trusted.folder).starts_with(&folder);
    let gone =
        config::untrust(|trusted| below(trusted) && (names.is_empty() || names.contains(&trusted.entry)));
    let gone = gone.map_err(|error| {
        Failure::usage(format!("trust cannot be withdrawn: {error}"), "fix the list, or delete it")
    })?;
    let name = path_shown(&folder);
    if gone.is_empty() {
        let problem = format!("no entry in {name} is trusted");
        return Err(Failure::usage(problem, "mcpjoin servers trusted lists the trusted entries"));
    }
    let said = format!("no longer trusted: {} in {name}", gone.len());
    Ok(print_now(ui, &listed(ui, "untrusted", &said, &gone)))
}

/// Shows the trusted entries.
fn trusted(ui: &Ui) -> Result<Exit, Failure> {
    let trusted =
        config::trusted().map_err(|problem| Failure::usage(problem, "fix the list, or delete it"))?;
    let said = match trusted.len() {
        0 => "nothing is trusted".to_owned(),
        1 => "1 definition is trusted".to_owned(),
        count => format!("{count} definitions are trusted"),
    };
    Ok(print_now(ui, &listed(ui, "trusted", &said, &trusted)))
}

fn listed(ui: &Ui, member: &str, said: &str, trusted: &[Trusted]) -> String {
    if ui.json {
        return json!({ member: output::trusted_document(trusted) }).to_string();
    }
    let named = |one: &Trusted| {
        let file = Path::new(&one.folder).join(&one.file);
        (format!("{} of {}", config::called(&one.entry), path_shown(&file)), output::definition(one))
    };
    output::definitions(said, &trusted.iter().map(named).collect::<Vec<_>>())
}

/// The real path of a folder; without a folder, of the working directory.
fn real(folder: Option<&Path>) -> Result<PathBuf, Failure> {
    let folder = folder.unwrap_or_else(|| Path::new("."));
    let unusable = |why: String| {
        let problem = format!("{}: {why}", path_shown(folder));
        Failure::usage(problem, "use a folder")
    };
    let real = folder.canonicalize().map_err(|error| unusable(error.to_string()))?;
    if real.is_dir() { Ok(real) } else { Err(unusable("this is not a directory".into())) }
}

/// Refuses names that no entry has. `file`: the only one that was searched.
fn known<'a>(
    names: &[String],
    there: impl Iterator<Item = &'a str> + Clone,
    file: Option<&Path>,
) -> Result<(), Failure> {
    let Some(name) = names.iter().find(|name| !there.clone().any(|there| there == *name)) else {
        return Ok(());
    };
    let (problem, hint) = config::no_such_entry(name, file);
    // The name of a program means its files.
    let files = config::Owner::named(name).map(config::Owner::files).unwrap_or_default();
    let hint = match files.first() {
        Some(file) => format!("mcpjoin servers --config {}", path_shown(file)),
        None => hint,
    };
    Err(Failure::usage(problem, hint))
}

fn show(ui: &Ui, shown: &Shown) -> Result<Exit, Failure> {
    let mut files = config::survey(&shown.configured)?;
    if !shown.names.is_empty() {
        let entries = files.iter().flat_map(|file| &file.entries);
        let words_of_others = ["list", "ls", "show", "get"];
        if let Some(word) = words_of_others.into_iter().find(|word| *word == shown.names[0])
            && !entries.clone().any(|entry| entry.name == word)
        {
            let names: Vec<String> =
                shown.names[1..].iter().map(|name| format!(" {}", config::called(name))).collect();
            let problem = format!("{word} is not a command of mcpjoin servers, and there is no entry {word}");
            return Err(Failure::usage(problem, format!("mcpjoin servers{}", names.concat())));
        }
        known(&shown.names, entries.map(|entry| entry.name.as_str()), shown.configured.config.as_deref())?;
        for file in &mut files {
            file.entries.retain(|entry| shown.names.contains(&entry.name));
        }
        files.retain(|file| !file.entries.is_empty());
    }
    let text = if ui.json { output::json(&files) } else { output::text(&files) };
    // Secrets are hidden by position: an entry does not change how another one is shown.
    let exit = written(ui, ui.page(&text));
    // As in `doctor`, an entry that is not used is no fault.
    let is_faulty =
        |entry: &Found| !entry.problems.is_empty() && entry.disabled.is_none() && entry.shadowed.is_none();
    let unusable = files.iter().any(|file| file.problem.is_some() || file.entries.iter().any(is_faulty));
    Ok(if exit == Exit::Done && unusable { Exit::Usage } else { exit })
}

fn convert(ui: &Ui, to: WrittenAs, values: bool, shown: &Shown) -> Result<Exit, Failure> {
    if ui.json && matches!(to, WrittenAs::ServersToml | WrittenAs::Codex) {
        let problem = "--json is one JSON document, but this dialect is TOML";
        return Err(Failure::usage(
            problem,
            "leave out --json, or use mcp-servers, vscode or another dialect in JSON",
        ));
    }
    let to = match to {
        WrittenAs::McpServers | WrittenAs::Claude | WrittenAs::Mcporter => Dialect::McpServersJson,
        WrittenAs::Vscode => Dialect::VsCodeJson,
        WrittenAs::Opencode => Dialect::OpencodeJson,
        WrittenAs::ServersToml => Dialect::ServersToml,
        WrittenAs::Codex => Dialect::CodexToml,
        WrittenAs::Cursor => Dialect::CursorJson,
        WrittenAs::Gemini => Dialect::GeminiJson,
        WrittenAs::Zed => Dialect::ZedJson,
        WrittenAs::Windsurf => Dialect::WindsurfJson,
    };
    let converted = config::convert(&shown.configured, &shown.names, to, values)?;
    for line in &converted.left {
        ui.note(&format!("warning: {line}"));
    }
    if !converted.to_set.is_empty() {
        let names = converted.to_set.join(", ");
        ui.note(&format!(
            "values were replaced by variables: set {names}, or write the values with --values"
        ));
    }
    if converted.entries == 0 {
        let problem = "there is no entry to write";
        return Err(Failure::usage(problem, "mcpjoin servers lists the entries"));
    }
    Ok(written(ui, ui.data(converted.text.trim_end())))
}
