//! `mcpjoin servers add` and `mcpjoin servers remove`: an entry more or less in a configuration file. The change is shown first, and
//! the user is asked.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

use serde_json::json;

use crate::args::{Add, Remove};
use crate::commands::diff::{Line, line_diff};
use crate::commands::{print_now, with_known};
use crate::config::{self, Change, Owner, Typed, TypedServer, called};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::target::{self, Target, path_shown, shown};
use crate::ui::Ui;

/// Adds an entry.
pub(super) fn add(ui: &Ui, args: Add) -> Result<Exit, Failure> {
    let program = args.to.as_deref().and_then(Owner::named);
    let typed = typed(ui, &args)?;
    let file = config::file_of(args.config.clone(), program, args.user)?;
    let change = config::added(file, &args.name, typed, args.values)?;
    apply(ui, &change, &args.name, args.yes, "added")
}

/// Removes entries.
pub(super) fn remove(ui: &Ui, args: &Remove) -> Result<Exit, Failure> {
    let program = args.from.as_deref().and_then(Owner::named);
    let named = match (&args.config, program) {
        (None, None) => None,
        (config, program) => Some(config::file_of(config.clone(), program, args.user)?),
    };
    let change = config::removed(named, &args.name)?;
    apply(ui, &change, &args.name, args.yes, "removed")
}

/// The server of the words.
fn typed(ui: &Ui, args: &Add) -> Result<Typed, Failure> {
    let verb = format!("servers add {}", called(&args.name));
    let (words, escaped) = match (&args.target, args.command.is_empty()) {
        (Some(target), true) => (vec![target.clone()], false),
        (None, false) => (args.command.clone(), true),
        (Some(target), false) => {
            let problem = format!("{} and the command after -- are two servers", shown(target));
            return Err(Failure::usage(problem, format!("mcpjoin {verb} -- COMMAND [ARG]...")));
        }
        (None, true) => {
            return Err(Failure::usage("no server is named", format!("mcpjoin {verb} URL"))
                .or(format!("mcpjoin {verb} -- COMMAND [ARG]...")));
        }
    };
    // An entry cannot be another one.
    let invocation = with_known(ui, &config::none(), |known| {
        target::without_operands(&verb, None, words, escaped, known)
    })?;
    let text = |word: OsString| {
        word.into_string().map_err(|word| {
            Failure::usage(format!("{} is not Unicode", shown(&word)), "mcpjoin help servers add")
        })
    };
    let command = |program: OsString, args: Vec<OsString>| {
        // A client may start it in any folder.
        let is_path = program.to_string_lossy().starts_with('.');
        let program =
            if is_path { std::path::absolute(&program).map_or(program, Into::into) } else { program };
        let args = args.into_iter().map(text).collect::<Result<_, _>>()?;
        Ok::<_, Failure>(TypedServer::Command { program: text(program)?, args })
    };
    let shown_as = invocation.target.label();
    let server = match invocation.target {
        Target::Command { program, args } => command(program, args)?,
        Target::Demo(demo) => command("mcpjoin".into(), demo.arguments())?,
        Target::Entry(named) => command(named.name.into(), Vec::new())?,
        Target::Http(address) if address.sse => TypedServer::Sse(address.url),
        Target::Http(address) => TypedServer::Url(address.url),
        Target::Socket(address) => TypedServer::Url(address.to_string()),
        Target::Quic(address) => TypedServer::Url(address.to_string()),
        Target::Orchestrator(address) => {
            let args = ["bridge", "--orchestrator-addr", &address.0].map(OsString::from);
            command("mcpjoin".into(), args.to_vec())?
        }
    };
    refuse_useless(args, &server, &shown_as)?;
    let env = args.env.iter().map(|word| variable(word)).collect::<Result<_, _>>()?;
    let headers = args.header.iter().map(|word| header(word)).collect::<Result<_, _>>()?;
    let cwd = args.cwd.as_ref().map(|cwd| text(cwd.clone().into_os_string())).transpose()?;
    Ok(Typed { server, env, headers, cwd })
}

/// Refuses options that have no effect for this server, whose name is `shown`.
fn refuse_useless(args: &Add, server: &TypedServer, shown: &str) -> Result<(), Failure> {
    let is_http = |url: &str| url.starts_with("http://") || url.starts_with("https://");
    let (is, is_http) = match server {
        TypedServer::Command { .. } => ("is run as a child", false),
        TypedServer::Url(url) if !is_http(url) => ("is a server on a socket", false),
        TypedServer::Url(_) | TypedServer::Sse(_) => ("speaks over HTTP", true),
    };
    let is_child = matches!(server, TypedServer::Command { .. });
    let (header, env, cwd) = (!args.header.is_empty(), !args.env.is_empty(), args.cwd.is_some());
    let useless = [
        (header && is_child, "--header", "over HTTP", "; -e NAME=VALUE sets a variable"),
        (header && !is_http, "--header", "over HTTP", ""),
        (env && is_http, "-e", "run as a child", "; --header 'Name: value' sends a header"),
        (env && !is_child, "-e", "run as a child", ""),
        (cwd && !is_child, "--cwd", "run as a child", ""),
    ];
    let Some((_, option, kind, instead)) = useless.into_iter().find(|(is_useless, ..)| *is_useless) else {
        return Ok(());
    };
    let problem = format!("{option} is for a server {kind}, and {shown} {is}");
    Err(Failure::usage(problem, format!("leave out {option}{instead}")))
}

fn variable(word: &OsStr) -> Result<(String, Option<String>), Failure> {
    let wrong = || Failure::usage("-e takes NAME=VALUE or NAME, in Unicode", "-e NAME=VALUE, or -e NAME");
    let word = word.to_str().ok_or_else(wrong)?;
    let (name, value) =
        word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value.to_owned())));
    if name.is_empty() { Err(wrong()) } else { Ok((name.to_owned(), value)) }
}

fn header(word: &str) -> Result<(String, String), Failure> {
    let wrong =
        || Failure::usage("--header takes 'Name: value'", "--header 'Authorization: Bearer ${TOKEN}'");
    let (name, value) = word.split_once(':').ok_or_else(wrong)?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() || value.is_empty() { Err(wrong()) } else { Ok((name.into(), value.into())) }
}

/// Shows the change, asks, and writes the file. `done`: what has happened to the entry then.
fn apply(ui: &Ui, change: &Change, name: &str, yes: bool, done: &str) -> Result<Exit, Failure> {
    let file = change.file();
    let (old, new) = change.texts();
    let mut lines = vec![format!("{file}:")];
    lines.extend(changed(old, new).iter().map(|line| change.secrets.hide(line).into_owned()));
    ui.say(&lines.join("\n"));
    for left in &change.left {
        ui.warning(left);
    }
    if !yes {
        match ui.ask(&format!("Write {file}? [y]es, [N]o ")) {
            Some(answer) if answer.eq_ignore_ascii_case("y") || answer.eq_ignore_ascii_case("yes") => {}
            Some(_) => return Err(Failure::usage("nothing was written", "answer y to write the file")),
            None => {
                let problem = "nothing was written: there is no terminal for the question";
                return Err(Failure::usage(problem, "--yes writes the file without a question"));
            }
        }
    }
    let backup = change.write().map_err(|error| {
        let problem = format!("{file} was not written: {error}");
        Failure::usage(problem, "make the file and its folder writable, and try again")
    })?;
    if !change.plain.is_empty() {
        ui.note(&format!("written as typed: the values of {}", change.plain.join(", ")));
    }
    if !change.to_set.is_empty() {
        let names = change.to_set.join(", ");
        // The values are nowhere now.
        ui.warning(&format!(
            "values that may be secrets were replaced by variables: set {names}, or write the values with --values"
        ));
    }
    let text = if ui.json {
        let backup = backup.as_ref().map(|backup| backup.to_string_lossy());
        let mut document =
            json!({ "file": change.path().to_string_lossy(), "entry": name, "variables": change.to_set });
        if let Some(backup) = backup {
            document["backup"] = json!(backup);
        }
        document.to_string()
    } else {
        let kept = backup.map(|backup| format!(" (backup: {})", path_shown(&backup))).unwrap_or_default();
        format!("{done}: {} in {file}{kept}", called(name))
    };
    Ok(print_now(ui, &text))
}

/// The removed and the added lines. The lines around them, and lines that only get or lose a comma, may contain secrets.
fn changed(old: &str, new: &str) -> Vec<String> {
    let lines = line_diff(old, new);
    let without_comma = |line: &str| line.trim_end().trim_end_matches(',').to_owned();
    let (mut gone, mut here) = (BTreeSet::new(), BTreeSet::new());
    for line in &lines {
        match line {
            Line::Removed(line) => _ = gone.insert(without_comma(line)),
            Line::Added(line) => _ = here.insert(without_comma(line)),
            Line::Same(_) => {}
        }
    }
    let shown = lines.into_iter().filter_map(|line| match line {
        Line::Removed(line) if !here.contains(&without_comma(line)) => Some(format!("- {line}")),
        Line::Added(line) if !gone.contains(&without_comma(line)) => Some(format!("+ {line}")),
        _ => None,
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::changed;

    #[test]
    fn lines_that_only_get_a_comma_are_not_shown() {
        let (old, new) = ("{\n  \"token\": \"x\"\n}", "{\n  \"token\": \"x\",\n  \"b\": 1\n}");
        assert_eq!(changed(old, new), ["+   \"b\": 1"]);
        assert_eq!(changed(new, old), ["-   \"b\": 1"]);
    }
}
