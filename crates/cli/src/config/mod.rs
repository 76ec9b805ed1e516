//! Configuration files: from the name of an entry to the program that is started or the address that is reached.
//!
//! The steps: `places` (which files), `files` (each is read once), `tree` (values with their places), `parsed_file` (entries by
//! name), `entry` with the tables of `dialect` (one definition for all dialects), `launch` (variables expanded).
//!
//! Called by `connect`. It starts nothing, and writes no configuration but in `convert::edit`. A message names file, line and
//! column, and quotes no value of the file, which may be a secret. A fault in an entry that is not used has no effect.

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
mod programs;
mod question;
mod source;
mod strict;
mod survey;
mod tree;
mod trust;
mod variables;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcpjoin::transport::ChildCommand;

use crate::args::{Configured, Connect};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::target::{Named, Target, dotted, path_shown, shown, words_shown};
use crate::ui::Ui;
use crate::visible;

pub(crate) use convert::{Change, Typed, TypedServer, added, convert, file_of, removed};
pub(crate) use dialect::Dialect;
use entry::Definition;
pub(crate) use files::Readings;
use files::{Configuration, Files};
pub(crate) use filter::ToolFilter;
pub(crate) use launch::{Destination, Launch, Oauth, Place, Program, Remote, Secured};
pub(crate) use members::Member;
use parsed_file::Entry;
use places::Origin;
pub(crate) use programs::{Owner, PROGRAM_NAMES};
pub(crate) use question::{TOO_LONG, Trustable, Untrusted, in_folder, page};
use source::Problem;
pub(crate) use survey::{File, Found, Missing, survey};
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

/// The message for a name that no entry has, and the hint. `file`: the only one that was searched.
pub(crate) fn no_such_entry(name: &str, file: Option<&Path>) -> (String, String) {
    let name = called(name);
    match file.map(path_shown) {
        Some(file) => (
            format!("{file} contains no entry {name}"),
            format!("mcpjoin servers --config {file} lists its entries"),
        ),
        None => (format!("there is no entry {name}"), "mcpjoin servers lists the entries".to_owned()),
    }
}

/// What a target is, according to the configurations.
pub(crate) enum Resolved {
    /// An entry.
    Entry(Box<Launch>),
    /// A command or an address. `no_entry`: where it could have been an entry.
    AsTyped { no_entry: Option<NoEntry> },
}

/// A word that is no entry, although it could have been one.
#[derive(Clone, Debug)]
pub(crate) struct NoEntry {
    /// That there is no such entry.
    pub(crate) said: String,
    /// The files that were searched.
    pub(crate) searched: Vec<String>,
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
                format!("--config {} is for an entry, but no entry is named", shown(file.as_os_str())),
                "name an entry, or leave out --config",
            )),
            (None, false) => Err(Failure::usage(
                "--mcp-config is for an entry, but no entry is named",
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
            "{} is both an entry of {} and a program: the entry is used (-- {0} is the program)",
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
    let file = file_of_entry(name, configured)?;
    let problem = format!("{} is an entry of {file}, and takes no arguments", called(name));
    Some(Failure::usage(problem, format!("leave out {}", words_shown(args))))
}

/// A configuration without entries, for words that cannot name any.
pub(crate) fn none() -> Configured {
    Configured { mcp_config: vec![r#"{"mcpServers":{}}"#.into()], ..Configured::default() }
}

/// Whether a name is an entry of the configuration. It prints nothing: what is wrong with a file is reported when an entry is used.
pub(crate) fn is_entry(name: &str, configured: &Configured) -> bool {
    file_of_entry(name, configured).is_some()
}

/// The names of all entries of the configuration, each with its first file. It prints nothing.
pub(crate) fn entry_names(configured: &Configured) -> Vec<(String, String)> {
    let places = places::all(None, configured).unwrap_or_default();
    let configurations = places.iter().filter_map(|place| Configuration::at(place).ok());
    let mut names: Vec<(String, String)> = Vec::new();
    let mut known = BTreeSet::new();
    for configuration in configurations {
        for entry in &configuration.parsed.entries {
            if known.insert(entry.name.clone()) {
                names.push((entry.name.clone(), configuration.source.name()));
            }
        }
    }
    names
}

/// The first file that has an entry of that name.
fn file_of_entry(name: &str, configured: &Configured) -> Option<String> {
    configuration_of(None, name, configured).map(|configuration| configuration.source.name())
}

/// The path of the file that has an entry. `file`: the only file to search, of `FILE#NAME`. It prints nothing.
pub(crate) fn path_of_entry(file: Option<&OsStr>, name: &str, configured: &Configured) -> Option<PathBuf> {
    configuration_of(file, name, configured).map(|configuration| configuration.source.path().to_owned())
}

/// The first configuration that has an entry of that name.
fn configuration_of(file: Option<&OsStr>, name: &str, configured: &Configured) -> Option<Configuration> {
    let places = places::all(file, configured).ok()?;
    let mut configurations = places.iter().filter_map(|place| Configuration::at(place).ok());
    configurations.find(|configuration| configuration.parsed.entries.iter().any(|entry| entry.name == name))
}

/// Whether a name is an entry of the configuration. The files are read once for the run, with warnings of those that cannot be used.
///
/// # Errors
/// When a file that the user has named cannot be used.
pub(crate) fn has_entry(ui: &Ui, configured: &Configured, name: &str) -> Result<bool, Failure> {
    let files = read(ui, None, configured)?;
    let mut entries = files.configurations().flat_map(|configuration| &configuration.parsed.entries);
    Ok(entries.any(|entry| entry.name == name))
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
fn absent(ui: &Ui, named: &Named, files: &Files) -> Result<NoEntry, Failure> {
    let name = called(&named.name);
    let names = || {
        let entries = files.configurations().flat_map(|configuration| &configuration.parsed.entries);
        entries.map(|entry| entry.name.as_str())
    };
    let chosen = files.configurations().any(|configuration| configuration.origin == Origin::Chosen);
    let meant = similar(&named.name, names());
    let is_program = named.or_program && is_program(&named.name);
    let no_entry = format!("{name}: {}", searched(files));
    if is_program || named.or_program && meant.is_none() {
        // Where there is no such program either, the failure says both.
        if chosen && is_program {
            ui.note(&format!("{no_entry}: it is used as a program"));
        }
        return Ok(NoEntry { said: no_entry, searched: files.names() });
    }
    let message = if named.or_program { format!("{no_entry}, and no program on PATH") } else { no_entry };
    let is_entry = |name: &str| Ok(names().any(|known| known == name));
    let hint = match (meant, dotted(&named.name, is_entry)?, &named.file) {
        (_, Some((name, tool)), Some(file)) => {
            format!("did you mean {}#{}/{}?", shown(file), called(name), called(tool))
        }
        (Some(meant), ..) => format!("did you mean {}?", called(meant)),
        _ if !named.instead.is_empty() && names().next().is_none() => named.instead.clone(),
        _ => {
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
    failure.seen.searched = files.names();
    if named.or_program {
        // The exit code of every program that is not found.
        failure.exit = Exit::Connection;
    }
    Err(failure)
}

/// Where an entry was searched in vain.
fn searched(files: &Files) -> String {
    let (read, broken) = (files.configurations().count(), files.broken().count());
    let several = |count: usize| match count {
        1 => "1 configuration file".to_owned(),
        count => format!("{count} configuration files"),
    };
    match (read, broken) {
        (0, 0) => "no configuration contains an entry of that name".into(),
        (1, 0) => {
            let file = files.configurations().next().map(|one| one.source.name()).unwrap_or_default();
            format!("no entry of that name in {file}")
        }
        (read, 0) => format!("no entry of that name in {}", several(read)),
        (0, broken) => format!("no entry of that name: {} cannot be read", several(broken)),
        (read, broken) => {
            format!("no entry of that name in {}, and {broken} more cannot be read", several(read))
        }
    }
}

/// Every entry of the files in which entries are searched, in their order. A disabled entry is left out with a note. A fault in an
/// entry is reported when it is used. `takes_server`: the command is also for one server that is named.
pub(crate) fn all(ui: &Ui, configured: &Configured, takes_server: bool) -> Result<Vec<Target>, Failure> {
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
                ui.note(&format!("{place}: {} is disabled and skipped", called(&entry.name)));
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
        let (problem, hint) = match takes_server {
            true => {
                ("no server is named, and there is no configuration", "name a server, or a configuration")
            }
            false => ("there is no configuration", "name one"),
        };
        return Err(Failure::usage(problem, format!("{hint}: --config FILE")));
    }
    if targets.is_empty() {
        let problem = format!("{} contains no usable entry", files.join(" or "));
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
            ui.note(&format!("{}: {name} is disabled, but used because it is named", self.source.place(at)));
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
