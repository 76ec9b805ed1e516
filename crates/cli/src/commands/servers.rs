//! `mcpjoin servers`: what the configuration holds, and the same in another dialect.

mod page;

use std::path::Path;

use serde_json::json;

use super::written;
use crate::args::{Servers, Shown, What, WrittenAs};
use crate::config::{self, Dialect, Found};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::target::shown as quoted;
use crate::ui::{Secrets, Ui};

/// Shows the entries, or writes them.
pub(crate) fn run(ui: &Ui, args: Servers) -> Result<Exit, Failure> {
    match args.what {
        None => show(ui, &args.shown),
        Some(What::Convert { to, values, shown }) => convert(ui, to, values, &shown),
        Some(What::Trust { folder, .. }) => trust(ui, folder.as_deref().unwrap_or_else(|| Path::new("."))),
    }
}

fn trust(ui: &Ui, folder: &Path) -> Result<Exit, Failure> {
    let (folder, list) = config::trust(folder).map_err(|error| {
        let problem = format!("{} cannot be trusted: {error}", quoted(folder.as_os_str()));
        Failure::usage(problem, "name a folder, and see that your folder of configurations can be written to")
    })?;
    let text = if ui.json {
        json!({ "trusted": folder.to_string_lossy(), "list": list.to_string_lossy() }).to_string()
    } else {
        format!("trusted: {}, in {}", quoted(folder.as_os_str()), quoted(list.as_os_str()))
    };
    Ok(written(ui, ui.result(&text)))
}

fn show(ui: &Ui, shown: &Shown) -> Result<Exit, Failure> {
    let mut files = config::survey(&shown.configured)?;
    for entry in files.iter().flat_map(|file| &file.entries) {
        ui.hide(Secrets::new(&entry.secrets));
    }
    if !shown.names.is_empty() {
        let there =
            |name: &String| files.iter().flat_map(|file| &file.entries).any(|entry| entry.name == *name);
        if let Some(name) = shown.names.iter().find(|name| !there(name)) {
            let problem = format!("there is no entry {}", config::called(name));
            return Err(Failure::usage(problem, "mcpjoin servers shows the entries that there are"));
        }
        for file in &mut files {
            file.entries.retain(|entry| shown.names.contains(&entry.name));
        }
        files.retain(|file| !file.entries.is_empty());
    }
    let text = if ui.json { page::json(&files) } else { page::text(&files) };
    let exit = written(ui, ui.page(&ui.hidden(&text)));
    // As for `doctor`, what nobody would use is no fault.
    let is_faulty =
        |entry: &Found| !entry.problems.is_empty() && entry.disabled.is_none() && entry.shadowed.is_none();
    let unusable = files.iter().any(|file| file.problem.is_some() || file.entries.iter().any(is_faulty));
    Ok(if exit == Exit::Done && unusable { Exit::Usage } else { exit })
}

fn convert(ui: &Ui, to: WrittenAs, values: bool, shown: &Shown) -> Result<Exit, Failure> {
    if ui.json && matches!(to, WrittenAs::ServersToml | WrittenAs::Codex) {
        let problem = "--json is one JSON document, and this dialect is TOML";
        return Err(Failure::usage(problem, "leave out --json, or write mcp-servers, vscode or opencode"));
    }
    let to = match to {
        WrittenAs::McpServers => Dialect::McpServersJson,
        WrittenAs::Vscode => Dialect::VsCodeJson,
        WrittenAs::Opencode => Dialect::OpencodeJson,
        WrittenAs::ServersToml => Dialect::ServersToml,
        WrittenAs::Codex => Dialect::CodexToml,
    };
    let converted = config::convert(&shown.configured, &shown.names, to, values)?;
    for line in &converted.left {
        ui.note(&format!("warning: {line}"));
    }
    if !converted.to_set.is_empty() {
        let names = converted.to_set.join(", ");
        ui.note(&format!(
            "variables stand in the place of values: set {names}, or write the values with --values"
        ));
    }
    if converted.entries == 0 {
        let problem = "there is no entry that could be written";
        return Err(Failure::usage(problem, "mcpjoin servers shows the entries that there are"));
    }
    Ok(written(ui, ui.data(converted.text.trim_end())))
}
