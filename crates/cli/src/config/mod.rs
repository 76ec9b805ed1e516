//! Configuration files: from the name of an entry to the program that is started or the address that is reached.
//!
//! The steps: `places` (which files), `files` (each is read once), `tree` (values with their places), `parsed_file` (entries by
//! name), `entry` with the tables of `dialect` (one definition for all dialects), `launch` (variables expanded).
//!
//! Called by `connect`. It writes no configuration and starts nothing. A message names file, line and column, and quotes no value
//! of the file, which may be a secret. A fault in an entry that is not used has no effect.

mod convert;
mod dialect;
mod dotenv;
mod entry;
mod files;
mod filter;
pub mod fuzzing;
mod launch;
mod members;
mod parsed_file;
mod places;
mod question;
mod source;
mod strict;
mod survey;
mod tree;
mod trust;
mod variables;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use mcpjoin::transport::ChildCommand;

use crate::args::{Configured, Connect};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::target::{Named, Target, shown, words_shown};
use crate::ui::Ui;
use crate::visible;

pub(crate) use convert::convert;
pub(crate) use dialect::Dialect;
use entry::Definition;
pub(crate) use files::Readings;
use files::{Broken, Configuration, Files};
pub(crate) use filter::ToolFilter;
pub(crate) use launch::{Destination, Launch, Oauth, Place, Program, Remote, Secured};
pub(crate) use members::Member;
use parsed_file::Entry;
use places::Origin;
pub(crate) use question::{TOO_LONG, Trustable, Untrusted, in_folder, page};
use source::Problem;
pub(crate) use survey::{File, Found, survey};
pub(crate) use tree::similar;
pub(crate) use trust::{Trusted, trust, trusted, untrust};
pub(crate) use variables::INPUT_PREFIX;

/// The names of entries, or lines of a file, in a message.
const MAX_NAMES: usize = 10;
/// The longest name in a message.
const MAX_NAME_CHARS: usize = 100;

/// A name in a message. A longer one is truncated, with its length behind it.
pub(crate) fn called(name: &str) -> String {
    match name.char_indices().nth(MAX_NAME_CHARS) {
        None => shown(name.as_ref()),
        Some((end, _)) => format!("{}… ({} characters)", shown(name[..end].as_ref()), name.chars().count()),
    }
}

/// What a target is, according to the configurations.
pub(crate) enum Resolved {
    /// An entry.
    Entry(Box<Launch>),
    /// A command or an address. `no_entry` says that it is no entry, where it could have been one.
    AsTyped { no_entry: Option<String> },
}

/// Finds the entry that the target names, and how its server is started or reached.
pub(crate) fn launch(ui: &Ui, target: &Target, connect: &Connect) -> Result<Resolved, Failure> {
    let Target::Entry(named) = target else {
        if let Some(failure) = followed(target, &connect.configured) {
            return Err(failure);
        }
        return match (&connect.configured.config, connect.configured.mcp_config.is_empty()) {
            (None, true) => Ok(Resolved::AsTyped { no_entry: None }),
            (Some(file), _) => Err(Failure::usage(
                format!("--config {} is for an entry, and none is named", shown(file.as_os_str())),
                "name an entry, or leave out --config",
            )),
            (None, false) => Err(Failure::usage(
                "--mcp-config is for an entry, and none is named",
                "name an entry, or leave out --mcp-config",
            )),
        };
    };
    let files = read(ui, named.file.as_deref(), &connect.configured)?;
    let mut found = files.configurations().filter_map(|configuration| {
        let entry = configuration.parsed.entries.iter().find(|entry| entry.name == named.name)?;
        Some((configuration, entry))
    });
    let Some((configuration, entry)) = found.next() else {
        return absent(ui, named, &files).map(|no_entry| Resolved::AsTyped { no_entry: Some(no_entry) });
    };
    for (shadowed, entry) in found {
        ui.detail(&format!("{} is not used", shadowed.source.place(entry.at)));
    }
    configuration.warn(ui);
    if let Some(problem) = configuration.twice(&entry.name) {
        return Err(configuration.source.failure(&problem));
    }
    let launch = configuration.launch(ui, entry, connect)?;
    if named.or_program && is_program(&named.name) {
        ui.note(&format!(
            "{} is an entry of {} and a program, too: the entry is used (-- {0} is the program)",
            called(&named.name),
            configuration.source.name(),
        ));
    }
    Ok(Resolved::Entry(Box::new(launch)))
}

/// The failure of words behind the name of an entry. A name with arguments is a program. Where there is no such program, the user
/// meant the entry, which takes no arguments.
fn followed(target: &Target, configured: &Configured) -> Option<Failure> {
    let Target::Command { program, args } = target else { return None };
    let name = program.to_str().filter(|name| !name.is_empty() && !name.contains('/'))?;
    if args.is_empty() || is_program(name) {
        return None;
    }
    let places = places::all(None, configured).ok()?;
    let configurations = places.iter().filter_map(|place| Configuration::at(place).ok());
    let file = configurations
        .filter(|configuration| configuration.parsed.entries.iter().any(|entry| entry.name == name))
        .map(|configuration| configuration.source.name())
        .next()?;
    let words = words_shown(args);
    let name = called(name);
    let options = args.first().is_some_and(|word| word.as_encoded_bytes().starts_with(b"-"));
    let (problem, hint) = if options {
        (format!("options stand before {name}, which is an entry of {file}"), format!("{words} {name}"))
    } else {
        let problem = format!("{name} is an entry of {file}, and no program with arguments");
        (problem, format!("leave out {words}"))
    };
    Some(Failure::usage(problem, hint))
}

/// Reads every file in which entries are searched, and warns of those that cannot be used.
fn read(ui: &Ui, file: Option<&OsStr>, configured: &Configured) -> Result<Arc<Files>, Failure> {
    configured.readings.of(file, || {
        let files = files::read(file, configured)?;
        files.broken().for_each(|broken| ui.warning(&broken.failure.message));
        Ok(files)
    })
}

/// What is said where there is no such entry, and the word may be a program. Otherwise the failure, which names the entries.
fn absent(ui: &Ui, named: &Named, files: &Files) -> Result<String, Failure> {
    let name = called(&named.name);
    let names = || {
        let entries = files.configurations().flat_map(|configuration| &configuration.parsed.entries);
        entries.map(|entry| entry.name.as_str())
    };
    let broken: Option<&Broken> = files.broken().last();
    let chosen = files.configurations().filter(|configuration| configuration.origin == Origin::Chosen);
    let files: Vec<String> =
        files.configurations().map(|configuration| configuration.source.name()).collect();
    let meant = similar(&named.name, names());
    let is_program = named.or_program && is_program(&named.name);
    if is_program || named.or_program && meant.is_none() && broken.is_none() {
        // Where there is no such program either, the failure says both.
        for configuration in chosen.filter(|_| is_program) {
            let file = configuration.source.name();
            ui.note(&format!("{name} is no entry of {file}: it is taken for a program"));
        }
        return Ok(match files.as_slice() {
            [] => format!("{name} is no entry, since there is no configuration"),
            files => format!("{name} is no entry of {}", files.join(" or ")),
        });
    }
    if let Some(broken) = broken.filter(|_| meant.is_none()) {
        return Err(broken.failure.clone());
    }
    let message = match (files.is_empty(), named.or_program) {
        (true, _) => {
            format!("{name} is no target, and there is no configuration in which to look for an entry")
        }
        (false, true) => format!("{name} is no entry of {} and no program on PATH", files.join(" or ")),
        (false, false) => format!("there is no entry {name} in {}", files.join(" or ")),
    };
    let hint = match meant {
        Some(meant) => format!("did you mean {}?", called(meant)),
        None if !named.instead.is_empty() && files.is_empty() => named.instead.clone(),
        None => {
            let known: Vec<String> = names().take(MAX_NAMES + 1).map(called).collect();
            match known.len() {
                0 => named.instead.clone(),
                1..=MAX_NAMES => format!("the entries are {}", known.join(", ")),
                _ => format!("the entries are {} and others", known[..MAX_NAMES].join(", ")),
            }
        }
    };
    let mut failure = source::failure(message, hint);
    failure.id = "E_NO_ENTRY";
    if named.or_program {
        // The exit code of every program that is not found.
        failure.exit = Exit::Connection;
    }
    Err(failure)
}

/// Every entry of the files in which entries are searched, in their order. A disabled entry is left out with a note. A fault in an
/// entry is reported when it is used.
pub(crate) fn all(ui: &Ui, configured: &Configured) -> Result<Vec<Target>, Failure> {
    let files = read(ui, None, configured)?;
    let mut names = BTreeSet::new();
    let mut targets = Vec::new();
    for configuration in files.configurations() {
        for entry in &configuration.parsed.entries {
            // The message about the first entry of a name concerns the others, too.
            if !names.insert(entry.name.clone()) {
                continue;
            }
            let definition = Definition::read(configuration.dialect, &entry.node);
            if let Some(at) = definition.ok().and_then(|definition| definition.disabled) {
                let place = configuration.source.place(at);
                ui.note(&format!("{place}: {} is disabled, and left out", called(&entry.name)));
                continue;
            }
            targets.push(Target::Entry(Named {
                file: None,
                name: entry.name.clone(),
                or_program: false,
                instead: String::new(),
            }));
        }
    }
    let files: Vec<String> = files.configurations().map(|one| one.source.name()).collect();
    if files.is_empty() {
        let problem = "no server is named, and there is no configuration";
        return Err(Failure::usage(problem, "name a server, or a configuration: --config FILE"));
    }
    if targets.is_empty() {
        let problem = format!("there is no entry in {} that could be used", files.join(" or "));
        return Err(source::failure(problem, "name another file with --config FILE"));
    }
    Ok(targets)
}

impl Configuration {
    /// How the server of the entry is started or reached. The options win over the entry.
    fn launch(&self, ui: &Ui, entry: &Entry, connect: &Connect) -> Result<Launch, Failure> {
        let name = called(&entry.name);
        let fail = |problem: Problem| {
            let text = format!("server {name}: {}", problem.text);
            self.source.failure(&Problem { text, ..problem })
        };
        let definition = Definition::read(self.dialect, &entry.node).map_err(fail)?;
        self.print(ui, &definition.warnings);
        if let Some(at) = definition.disabled {
            ui.note(&format!("{}: {name} is disabled, and used because it is named", self.source.place(at)));
        }
        let names = self.names_of_process();
        let mut launch = launch::launch(&definition, &names).map_err(fail)?;
        let directory = launch::without_directory(&definition, &launch).filter(|_| connect.cwd.is_none());
        let says_whom = connect.pin.is_some() || connect.ca.is_some();
        let trust = launch::without_trust(&definition).filter(|_| !says_whom);
        if let Some(problem) = directory.or(trust) {
            return Err(fail(problem));
        }
        let line = self.source.line(entry.at);
        launch.place = Some(Place { file: self.source.path().to_owned(), line });
        launch.untrusted = self.untrusted(entry, &definition, &names);
        launch.timeout = definition.timeout.or(self.parsed.timeout);
        launch.opening = definition.opening;
        launch.tools = definition.tools;
        launch.unasked = self.origin == Origin::Here;
        launch.found = self.origin != Origin::Chosen;
        launch.say = format!("{name} of {}: {}", self.source.place(entry.at), launch.say);
        if let Some(description) = definition.description.filter(|text| !text.trim().is_empty()) {
            launch.say.push_str(&format!(" ({})", visible::first_line(&description)));
        }
        Ok(launch)
    }
}

/// Whether a word is a program: a name that our `PATH` has, or a file that can be executed.
pub(crate) fn is_program(word: impl Into<OsString>) -> bool {
    ChildCommand::new(word).resolve().is_ok()
}

#[cfg(test)]
mod tests;
