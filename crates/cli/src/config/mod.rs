//! Configuration files: from the name of an entry to what is started or reached. One model for every dialect, and every value
//! keeps its place, so that what is wrong is told with file, line and column.
//!
//! Called by `connect` once the words are understood. It reads files and never writes one, starts nothing, and puts no
//! value of a file into a message: it may be a secret. An entry that is not used cannot get into the way.

mod all;
mod entry;
mod filter;
mod launch;
mod mcp_servers_json;
mod servers_toml;
mod source;
mod tree;
mod variables;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::args::Connect;
use crate::failure::Failure;
use crate::folders;
use crate::target::{Named, Target, shown};
use crate::ui::Ui;
use crate::visible;

pub(crate) use all::all;
use entry::Definition;
pub(crate) use filter::ToolFilter;
pub(crate) use launch::{Launch, Place, Program, Remote, To};
use source::{Problem, Source};
use tree::{Contents, Entry, similar};

/// Names a file in place of `--config`.
const VARIABLE: &str = "MCP_CONFIG_PATH";
/// Of many names so many are shown.
const SHOWN: usize = 10;
/// Of many things that are not understood so many are told.
const WARNINGS: usize = 10;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    McpServersJson,
    ServersToml,
}

/// How a file came to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// Somebody named it.
    Chosen,
    /// It lies in the working directory, which somebody else may have filled.
    Here,
    /// It lies where the user keeps such files.
    User,
}

/// A file that has been understood as far as the names of its entries.
struct Configuration {
    source: Source,
    dialect: Dialect,
    origin: Origin,
    contents: Contents,
}

/// How the entry that is meant is started or reached; `None` when no entry is meant, and the words are a command.
pub(crate) fn launch(ui: &Ui, target: &Target, connect: &Connect) -> Result<Option<Launch>, Failure> {
    let Target::Entry(named) = target else {
        return match &connect.config {
            None => Ok(None),
            Some(file) => Err(Failure::usage(
                format!("--config {} is for an entry, and none is named", shown(file.as_os_str())),
                "name an entry, or leave out --config",
            )),
        };
    };
    let files = files(named, connect)?;
    let mut broken = None;
    let mut configurations = Vec::new();
    for (path, origin) in files {
        match Configuration::read(&path, origin) {
            Ok(configuration) => configurations.push(configuration),
            Err(failure) if origin == Origin::Chosen => return Err(failure),
            // What nobody chose cannot keep the user's other files from being read.
            Err(failure) => {
                ui.warning(&failure.message);
                broken = Some(failure);
            }
        }
    }
    let mut found = configurations.iter().filter_map(|configuration| {
        let mut entries = configuration.contents.entries.iter().filter(|entry| entry.name == named.name);
        entries.next().map(|first| (configuration, first, entries.next()))
    });
    let Some((configuration, entry, second)) = found.next() else {
        return absent(ui, named, &configurations, broken);
    };
    for (shadowed, entry, _) in found {
        ui.detail(&format!("{} is not used", shadowed.source.place(entry.at)));
    }
    configuration.warn(ui);
    if let Some(second) = second {
        let text = format!(
            "there are several entries {}; the first is in line {}",
            shown(entry.name.as_ref()),
            configuration.source.line(entry.at)
        );
        return Err(configuration.source.failure(&Problem::new(second.at, text)));
    }
    let launch = configuration.launch(ui, entry)?;
    if named.or_program && on_path(&named.name) {
        ui.note(&format!(
            "{} is an entry of {} and a program, too: the entry is used (-- {0} is the program)",
            shown(named.name.as_ref()),
            configuration.source.name(),
        ));
    }
    Ok(Some(launch))
}

/// Where to look, in order: a file that was named excludes all others.
fn files(named: &Named, connect: &Connect) -> Result<Vec<(PathBuf, Origin)>, Failure> {
    let chosen = |path: &OsStr| Ok(vec![(PathBuf::from(path), Origin::Chosen)]);
    match (&named.file, &connect.config) {
        (Some(_), Some(_)) => {
            return Err(Failure::usage("the file is named twice", "leave out --config, or FILE#"));
        }
        (Some(file), None) => return chosen(file),
        (None, Some(file)) => return chosen(file.as_os_str()),
        (None, None) => {}
    }
    if let Some(file) = std::env::var_os(VARIABLE).filter(|file| !file.is_empty()) {
        return chosen(&file);
    }
    let here = [".mcp.json", "mcp_servers.toml"].map(|name| (Some(PathBuf::from(name)), Origin::Here));
    let user = [
        folders::config().map(|folder| folder.join("mcp/mcp_servers.toml")),
        folders::home().map(|home| home.join("mcp_servers.toml")),
    ];
    let all = here.into_iter().chain(user.map(|path| (path, Origin::User)));
    let there = |path: &PathBuf| match path.symlink_metadata() {
        Ok(_) => true,
        // What is there and cannot be looked at is told when it is read.
        Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
    };
    Ok(all.filter_map(|(path, origin)| Some((path.filter(there)?, origin))).collect())
}

/// There is no such entry: a program, where that can be meant, or a failure that says what there is.
fn absent(
    ui: &Ui,
    named: &Named,
    configurations: &[Configuration],
    broken: Option<Failure>,
) -> Result<Option<Launch>, Failure> {
    let names = || {
        let entries = configurations.iter().flat_map(|configuration| &configuration.contents.entries);
        entries.map(|entry| entry.name.as_str())
    };
    let meant = similar(&named.name, names());
    if named.or_program && (meant.is_none() && broken.is_none() || on_path(&named.name)) {
        let chosen = configurations.iter().filter(|configuration| configuration.origin == Origin::Chosen);
        for configuration in chosen {
            let name = shown(named.name.as_ref());
            ui.note(&format!(
                "{name} is no entry of {}: it is taken for a program",
                configuration.source.name()
            ));
        }
        return Ok(None);
    }
    if let Some(broken) = broken.filter(|_| meant.is_none()) {
        return Err(broken);
    }
    let name = shown(named.name.as_ref());
    let files: Vec<String> = configurations.iter().map(|configuration| configuration.source.name()).collect();
    let message = match (files.is_empty(), named.or_program) {
        (true, _) => {
            format!("{name} is no target, and there is no configuration in which to look for an entry")
        }
        (false, true) => format!("{name} is no entry of {} and no program on PATH", files.join(" or ")),
        (false, false) => format!("there is no entry {name} in {}", files.join(" or ")),
    };
    let hint = match meant {
        Some(meant) => format!("did you mean {}?", shown(meant.as_ref())),
        None if !named.instead.is_empty() && files.is_empty() => named.instead.clone(),
        None => {
            let known: Vec<String> = names().take(SHOWN + 1).map(|name| shown(name.as_ref())).collect();
            match known.len() {
                0 => named.instead.clone(),
                1..=SHOWN => format!("the entries are {}", known.join(", ")),
                _ => format!("the entries are {} and others", known[..SHOWN].join(", ")),
            }
        }
    };
    let mut failure = source::failure(message, hint);
    failure.id = "E_NO_ENTRY";
    Err(failure)
}

impl Configuration {
    fn read(path: &Path, origin: Origin) -> Result<Self, Failure> {
        Self::of(Source::read(path, origin == Origin::Chosen)?, origin)
    }

    fn of(source: Source, origin: Origin) -> Result<Self, Failure> {
        let dialect = Dialect::of(&source);
        let contents = match dialect {
            Dialect::McpServersJson => mcp_servers_json::read(&source),
            Dialect::ServersToml => servers_toml::read(&source),
        };
        let contents = contents.map_err(|problem| source.failure(&problem))?;
        Ok(Self { source, dialect, origin, contents })
    }

    /// Says what is not as it should be with the file as a whole.
    fn warn(&self, ui: &Ui) {
        #[cfg(unix)]
        if self.source.writable_by_all() {
            ui.warning(&format!("anybody may write to {}: chmod o-w it", self.source.name()));
        }
        self.tell(ui, &self.contents.warnings);
    }

    fn tell(&self, ui: &Ui, warnings: &[Problem]) {
        for problem in warnings.iter().take(WARNINGS) {
            ui.note(&format!("warning: {}", self.source.say(problem)));
        }
        if let Some(more) = warnings.len().checked_sub(WARNINGS + 1) {
            ui.note(&format!("warning: {} more of {}", more + 1, self.source.name()));
        }
    }

    fn launch(&self, ui: &Ui, entry: &Entry) -> Result<Launch, Failure> {
        let name = shown(entry.name.as_ref());
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
        let mut launch = launch::launch(&definition.way, &lookup).map_err(fail)?;
        let line = self.source.line(entry.at);
        launch.place = Some(Place { file: self.source.path().to_owned(), line });
        launch.timeout = definition.timeout.or(self.contents.timeout);
        launch.tools = definition.tools;
        launch.unasked = self.origin == Origin::Here;
        launch.say = format!("{name} of {}: {}", self.source.place(entry.at), launch.say);
        if let Some(description) = definition.description.filter(|text| !text.trim().is_empty()) {
            launch.say.push_str(&format!(" ({})", visible::first_line(&description)));
        }
        Ok(launch)
    }
}

impl Dialect {
    /// By the name of the file, and where that says nothing, by its first character.
    fn of(source: &Source) -> Self {
        let extension = source.path().extension().and_then(OsStr::to_str).unwrap_or_default();
        match extension.to_ascii_lowercase().as_str() {
            "toml" => Self::ServersToml,
            "json" | "jsonc" | "json5" => Self::McpServersJson,
            _ if source.text().trim_start().starts_with(['{', '/']) => Self::McpServersJson,
            _ => Self::ServersToml,
        }
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

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file() || path.with_extension("exe").is_file()
}

#[cfg(test)]
mod tests;
