//! Configuration files: from the name of an entry to what is started or reached. One model for every dialect, and every value
//! keeps its place, so that what is wrong is told with file, line and column.
//!
//! Called by `connect` once the words are understood. It reads files and never writes one, starts nothing, and puts no
//! value of a file into a message: it may be a secret. An entry that is not used cannot get into the way.

mod all;
mod convert;
mod dotenv;
mod entry;
mod filter;
pub mod fuzzing;
mod in_json;
mod in_toml;
mod influence;
mod launch;
mod members;
mod places;
mod question;
mod readings;
mod rendering;
mod source;
mod survey;
mod tree;
mod trust;
mod variables;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::args::{Configured, Connect};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::target::{Named, Target, shown, words_shown};
use crate::ui::Ui;
use crate::visible;

pub(crate) use all::all;
pub(crate) use convert::convert;
use entry::Definition;
pub(crate) use filter::ToolFilter;
pub(crate) use launch::{Launch, Oauth, Place, Program, Remote, Secured, To};
pub(crate) use members::Member;
use places::{Candidate, Origin};
pub(crate) use question::{TOO_LONG, Trustable, Untrusted, in_folder, page};
pub(crate) use readings::Readings;
use readings::{Broken, Files};
use source::{Problem, Source};
pub(crate) use survey::{File, Found, survey};
pub(crate) use tree::similar;
use tree::{Contents, Entry};
pub(crate) use trust::{Trusted, trust, trusted, untrust};
pub(crate) use variables::INPUTS;
use variables::{Names, Texts};

/// Of many names so many are shown.
const SHOWN: usize = 10;
/// Of many things that are not understood so many are told.
const WARNINGS: usize = 10;

/// A name has so many characters where it is told; nobody gives a longer one.
const NAME: usize = 100;

/// A name in a sentence: one that is longer than anybody reads is cut, and its length told.
pub(crate) fn called(name: &str) -> String {
    match name.char_indices().nth(NAME) {
        None => shown(name.as_ref()),
        Some((end, _)) => format!("{}… ({} characters)", shown(name[..end].as_ref()), name.chars().count()),
    }
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `mcpServers`: of most programs.
    McpServersJson,
    /// `servers` and `inputs`: of VS Code.
    VsCodeJson,
    /// `mcp`: of opencode.
    OpencodeJson,
    /// `[[servers]]`: of mcp_servers.toml.
    ServersToml,
    /// `[mcp_servers.NAME]`: of Codex.
    CodexToml,
}

impl Dialect {
    /// Every dialect, and what it is called on the command line.
    pub(crate) const NAMES: [(&str, Self); 5] = [
        ("mcp-servers", Self::McpServersJson),
        ("vscode", Self::VsCodeJson),
        ("opencode", Self::OpencodeJson),
        ("servers-toml", Self::ServersToml),
        ("codex", Self::CodexToml),
    ];

    /// What it is called on the command line.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, dialect)| *dialect == self).map_or("", |(name, _)| name)
    }
}

/// A file that has been understood as far as the names of its entries.
#[derive(Debug)]
struct Configuration {
    source: Source,
    dialect: Dialect,
    origin: Origin,
    /// Of [`Origin::Here`]: the real path of the folder, and the file from there on.
    here: Option<(PathBuf, &'static str)>,
    contents: Contents,
    /// What is wrong with the file as a whole has been told.
    told: AtomicBool,
}

/// A file that cannot be used.
struct Unread {
    failure: Failure,
    /// It is well-formed, and has nothing of ours.
    empty: bool,
}

/// What a target means where configurations are.
pub(crate) enum Meant {
    /// An entry: how it is started or reached.
    Entry(Box<Launch>),
    /// What its words say. `no_entry`: that it is no entry either, where it could have been one.
    Words { no_entry: Option<String> },
}

/// Whether an entry is meant, and how it is started or reached.
pub(crate) fn launch(ui: &Ui, target: &Target, connect: &Connect) -> Result<Meant, Failure> {
    let Target::Entry(named) = target else {
        if let Some(failure) = followed(target, &connect.configured) {
            return Err(failure);
        }
        return match (&connect.configured.config, connect.configured.mcp_config.is_empty()) {
            (None, true) => Ok(Meant::Words { no_entry: None }),
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
    let configurations = &files.configurations;
    let mut found = configurations.iter().filter_map(|configuration| {
        let entry = configuration.contents.entries.iter().find(|entry| entry.name == named.name)?;
        Some((configuration, entry))
    });
    let Some((configuration, entry)) = found.next() else {
        return absent(ui, named, &files).map(|no_entry| Meant::Words { no_entry: Some(no_entry) });
    };
    for (shadowed, entry) in found {
        ui.detail(&format!("{} is not used", shadowed.source.place(entry.at)));
    }
    configuration.warn(ui);
    if let Some(problem) = configuration.twice(&entry.name) {
        return Err(configuration.source.failure(&problem));
    }
    let launch = configuration.launch(ui, entry, connect)?;
    if named.or_program && on_path(&named.name) {
        ui.note(&format!(
            "{} is an entry of {} and a program, too: the entry is used (-- {0} is the program)",
            called(&named.name),
            configuration.source.name(),
        ));
    }
    Ok(Meant::Entry(Box::new(launch)))
}

/// What is typed behind the name of an entry. With more words behind it, it is a program; where there is no such program,
/// the entry was meant, and nothing may follow it.
fn followed(target: &Target, configured: &Configured) -> Option<Failure> {
    let Target::Command { program, args } = target else { return None };
    let name = program.to_str().filter(|name| !name.is_empty() && !name.contains('/'))?;
    if args.is_empty() || on_path(name) {
        return None;
    }
    let places = places::all(None, configured).ok()?;
    let configurations = places.iter().filter_map(|place| Configuration::at(place).ok());
    let file = configurations
        .filter(|configuration| configuration.contents.entries.iter().any(|entry| entry.name == name))
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

/// Every file that is to be looked at, understood as far as its entries. What cannot be is told.
fn read(ui: &Ui, file: Option<&OsStr>, configured: &Configured) -> Result<Arc<Files>, Failure> {
    configured.readings.of(file, || {
        let files = files(file, configured)?;
        files.broken.iter().for_each(|broken| ui.warning(&broken.failure.message));
        Ok(files)
    })
}

/// The same, and nothing is told.
fn files(file: Option<&OsStr>, configured: &Configured) -> Result<Files, Failure> {
    let (mut configurations, mut broken) = (Vec::new(), Vec::new());
    for place in places::all(file, configured)? {
        match Configuration::at(&place) {
            Ok(configuration) => configurations.push(configuration),
            Err(Unread { failure, .. }) if place.origin == Origin::Chosen => return Err(failure),
            Err(Unread { empty: true, .. }) if place.shared => {}
            // What nobody chose cannot keep the user's other files from being read.
            Err(Unread { failure, .. }) => {
                broken.push(Broken { path: place.path, failure, before: configurations.len() });
            }
        }
    }
    Ok(Files { configurations, broken })
}

/// There is no such entry: that is said of what may be a program, and otherwise a failure that says what there is.
fn absent(ui: &Ui, named: &Named, files: &Files) -> Result<String, Failure> {
    let Files { configurations, broken } = files;
    let name = called(&named.name);
    let names = || {
        let entries = configurations.iter().flat_map(|configuration| &configuration.contents.entries);
        entries.map(|entry| entry.name.as_str())
    };
    let files: Vec<String> = configurations.iter().map(|configuration| configuration.source.name()).collect();
    let meant = similar(&named.name, names());
    let is_program = named.or_program && on_path(&named.name);
    if is_program || named.or_program && meant.is_none() && broken.is_empty() {
        let chosen = configurations.iter().filter(|configuration| configuration.origin == Origin::Chosen);
        // Where there is no such program either, both are said at once.
        for configuration in chosen.filter(|_| is_program) {
            ui.note(&format!(
                "{name} is no entry of {}: it is taken for a program",
                configuration.source.name()
            ));
        }
        return Ok(match files.as_slice() {
            [] => format!("{name} is no entry, since there is no configuration"),
            files => format!("{name} is no entry of {}", files.join(" or ")),
        });
    }
    if let Some(broken) = broken.last().filter(|_| meant.is_none()) {
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
            let known: Vec<String> = names().take(SHOWN + 1).map(called).collect();
            match known.len() {
                0 => named.instead.clone(),
                1..=SHOWN => format!("the entries are {}", known.join(", ")),
                _ => format!("the entries are {} and others", known[..SHOWN].join(", ")),
            }
        }
    };
    let mut failure = source::failure(message, hint);
    failure.id = "E_NO_ENTRY";
    if named.or_program {
        // As of every program that is not there, whatever entries are called.
        failure.exit = Exit::Connection;
    }
    Err(failure)
}

impl Configuration {
    fn at(place: &Candidate) -> Result<Self, Unread> {
        let source = match &place.text {
            Some(text) => Source::new(&place.path, text.clone()),
            None => Source::read(&place.path, place.origin == Origin::Chosen)
                .map_err(|failure| Unread { failure, empty: false })?,
        };
        let configuration = Self::of(source, place.origin)?;
        Ok(Self { here: place.here.clone(), ..configuration })
    }

    fn of(source: Source, origin: Origin) -> Result<Self, Unread> {
        let here = std::env::current_dir().ok();
        let read = match written_in(&source) {
            Written::Json => in_json::read(&source, here.as_deref()),
            Written::Toml => in_toml::read(&source),
            Written::Yaml => Err(Problem::new(0, "this is YAML, which is not read: JSON and TOML are")
                .hint("write the entry as JSON, or type the server's command or address")),
        };
        match read {
            Ok((dialect, contents)) => {
                let told = AtomicBool::new(false);
                Ok(Self { source, dialect, origin, here: None, contents, told })
            }
            Err(problem) => Err(Unread { failure: source.failure(&problem), empty: problem.empty }),
        }
    }

    /// What is wrong where several entries of the file have that name: which of them is meant, nobody knows.
    fn twice(&self, name: &str) -> Option<Problem> {
        let same: Vec<_> = self.contents.entries.iter().filter(|entry| entry.name == name).collect();
        let second = same.get(1)?;
        let lines: Vec<String> =
            same.iter().take(SHOWN).map(|entry| self.source.line(entry.at).to_string()).collect();
        let (count, name, lines) = (same.len(), called(name), lines.join(", "));
        let text =
            format!("{count} entries are called {name}, in lines {lines}: which one is meant is not clear");
        Some(Problem::new(second.at, text).hint("leave one of them, or give each a name of its own"))
    }

    /// Says what is not as it should be with the file as a whole, once.
    fn warn(&self, ui: &Ui) {
        if self.told.swap(true, Ordering::Relaxed) {
            return;
        }
        if self.writable_by_all() {
            ui.warning(&format!("anybody may write to {}: chmod o-w it", self.source.name()));
        }
        if let Some(problem) = trust::problem().filter(|_| self.asks()) {
            ui.warning(problem);
        }
        self.tell(ui, &self.contents.warnings);
    }

    /// Whether anybody on this machine could have written it.
    #[cfg(unix)]
    fn writable_by_all(&self) -> bool {
        self.source.writable_by_all()
    }

    #[cfg(not(unix))]
    const fn writable_by_all(&self) -> bool {
        false
    }

    fn tell(&self, ui: &Ui, warnings: &[Problem]) {
        for problem in warnings.iter().take(WARNINGS) {
            ui.note(&format!("warning: {}", self.source.say(problem)));
        }
        if let Some(more) = warnings.len().checked_sub(WARNINGS + 1) {
            ui.note(&format!("warning: {} more of {}", more + 1, self.source.name()));
        }
    }

    /// What its entries may name.
    fn names<'a>(
        &'a self,
        lookup: &'a dyn Fn(&str) -> Option<OsString>,
        workspace: &'a PathBuf,
        texts: &'a Texts,
    ) -> Names<'a> {
        let files = self.dialect == Dialect::OpencodeJson;
        Names { lookup, workspace, inputs: &self.contents.inputs, files, texts }
    }

    /// `connect`: what was typed takes the place of what the entry says, or lacks.
    fn launch(&self, ui: &Ui, entry: &Entry, connect: &Connect) -> Result<Launch, Failure> {
        let name = called(&entry.name);
        let fail = |problem: Problem| {
            let text = format!("server {name}: {}", problem.text);
            self.source.failure(&Problem { text, ..problem })
        };
        let definition = Definition::read(self.dialect, &entry.node).map_err(fail)?;
        self.tell(ui, &definition.warnings);
        if let Some(at) = definition.disabled {
            ui.note(&format!("{}: {name} is disabled, and used because it is named", self.source.place(at)));
        }
        let lookup = |name: &str| std::env::var_os(name);
        let workspace = places::workspace(self.source.path());
        let texts = Texts::default();
        let names = self.names(&lookup, &workspace, &texts);
        let mut launch = launch::launch(&definition.way, names).map_err(fail)?;
        let nowhere = launch::without_directory(&definition.way, &launch).filter(|_| connect.cwd.is_none());
        let trusts_somebody = connect.pin.is_some() || connect.ca.is_some();
        let nobody = launch::without_trust(&definition.way).filter(|_| !trusts_somebody);
        if let Some(problem) = nowhere.or(nobody) {
            return Err(fail(problem));
        }
        let line = self.source.line(entry.at);
        launch.place = Some(Place { file: self.source.path().to_owned(), line });
        launch.untrusted = self.untrusted(entry, &definition, names);
        launch.timeout = definition.timeout.or(self.contents.timeout);
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

/// The syntax of a file.
enum Written {
    Json,
    Toml,
    Yaml,
}

/// By its name, and where that says nothing, by its first character.
fn written_in(source: &Source) -> Written {
    let extension = source.path().extension().and_then(OsStr::to_str).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "toml" => Written::Toml,
        "json" | "jsonc" | "json5" => Written::Json,
        "yaml" | "yml" => Written::Yaml,
        _ if source.text().trim_start().starts_with(['{', '/']) => Written::Json,
        _ => Written::Toml,
    }
}

/// Whether there is a program of that name on our `PATH`.
fn on_path(name: &str) -> bool {
    let Some(path) = std::env::var_os("PATH") else {
        return false;
    };
    std::env::split_paths(&path)
        .filter(|folder| !folder.as_os_str().is_empty())
        .any(|folder| is_program(&folder.join(name)))
}

/// Whether it is a file that can be run.
#[cfg(unix)]
pub(crate) fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Whether it is a file that can be run.
#[cfg(not(unix))]
pub(crate) fn is_program(path: &Path) -> bool {
    path.is_file() || path.with_extension("exe").is_file()
}

#[cfg(test)]
mod tests;
