//! Configuration files: each is read once in a run, and parsed up to the names of its entries.
//!
//! Used by everything in `config`. A file that the user has not named cannot prevent the others from being read.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::dialect::Dialect;
use super::entry::Definition;
use super::parsed_file::{self, Entry, ParsedFile};
use super::places::{self, Candidate, Origin};
use super::source::{Problem, ProblemKind, Source};
use super::variables::{Names, Texts};
use super::{MAX_NAMES, called, strict, trust};
use crate::args::Configured;
use crate::failure::Failure;
use crate::target::path_shown;
use crate::ui::Ui;

/// The warnings about one file, or one entry, that are printed.
const MAX_WARNINGS: usize = 10;

/// A file, parsed up to the names of its entries.
#[derive(Debug)]
pub(super) struct Configuration {
    pub(super) source: Source,
    pub(super) dialect: Dialect,
    pub(super) origin: Origin,
    /// For [`Origin::Here`]: the real path of the folder, and the file below it.
    pub(super) here: Option<(PathBuf, &'static str)>,
    pub(super) parsed: ParsedFile,
    /// The warnings about the file as a whole have been printed.
    warned: AtomicBool,
}

/// A file that cannot be used.
pub(super) struct Unread {
    pub(super) failure: Failure,
    /// It is well-formed, and has no entries.
    pub(super) empty: bool,
}

/// The files in which an entry is searched, in their order.
#[derive(Debug)]
pub(super) struct Files(pub(super) Vec<Result<Configuration, Broken>>);

/// A file that the user has not named, and that cannot be used.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) path: PathBuf,
    pub(super) failure: Failure,
}

impl Files {
    pub(super) fn configurations(&self) -> impl Iterator<Item = &Configuration> {
        self.0.iter().flatten()
    }

    /// All of them, as the user would type them.
    pub(super) fn names(&self) -> Vec<String> {
        let name = |file: &Result<Configuration, Broken>| match file {
            Ok(configuration) => configuration.source.name(),
            Err(broken) => path_shown(&broken.path),
        };
        self.0.iter().map(name).collect()
    }

    pub(super) fn broken(&self) -> impl Iterator<Item = &Broken> {
        self.0.iter().filter_map(|file| file.as_ref().err())
    }
}

/// The files that were read in this run, shared by all clones. Each file is read once, however many of its entries are used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readings(Arc<Mutex<Vec<Reading>>>);

#[derive(Debug)]
struct Reading {
    /// The file of `FILE#NAME`.
    file: Option<OsString>,
    files: Result<Arc<Files>, Failure>,
}

impl Readings {
    /// The files in which an entry is searched that is named with `file`. `read` reads them the first time.
    pub(super) fn of(
        &self,
        file: Option<&OsStr>,
        read: impl FnOnce() -> Result<Files, Failure>,
    ) -> Result<Arc<Files>, Failure> {
        let known = self.lock().iter().find(|known| known.file.as_deref() == file).map(|it| it.files.clone());
        known.unwrap_or_else(|| {
            let files = read().map(Arc::new);
            self.lock().push(Reading { file: file.map(OsStr::to_owned), files: files.clone() });
            files
        })
    }

    /// The limit of servers that run at once, from the first file that sets it.
    pub(crate) fn at_once(&self) -> Option<usize> {
        let readings = self.lock();
        let files = readings.iter().filter_map(|reading| reading.files.as_ref().ok());
        files.flat_map(|files| files.configurations()).find_map(|found| found.parsed.at_once)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Reading>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads every file in which entries are searched. `file`: the file of `FILE#NAME`.
///
/// # Errors
/// When a file that the user has named cannot be used.
pub(super) fn read(file: Option<&OsStr>, configured: &Configured) -> Result<Files, Failure> {
    let mut files = Vec::new();
    for place in places::all(file, configured)? {
        match Configuration::at(&place) {
            Ok(configuration) => files.push(Ok(configuration)),
            Err(Unread { failure, .. }) if place.origin == Origin::Chosen => return Err(failure),
            Err(Unread { empty: true, .. }) if place.shared => {}
            Err(Unread { failure, .. }) => files.push(Err(Broken { path: place.path, failure })),
        }
    }
    Ok(Files(files))
}

impl Configuration {
    pub(super) fn at(place: &Candidate) -> Result<Self, Unread> {
        let source = match &place.text {
            Some(text) => Source::new(&place.path, text.clone()),
            None => Source::read(&place.path, place.origin == Origin::Chosen)
                .map_err(|failure| Unread { failure, empty: false })?,
        };
        let configuration = Self::of(source, place.origin)?;
        Ok(Self { here: place.here.clone(), ..configuration })
    }

    pub(super) fn of(source: Source, origin: Origin) -> Result<Self, Unread> {
        let here = std::env::current_dir().ok();
        let read = match syntax(&source) {
            Syntax::Json => parsed_file::of_json(&source, here.as_deref()),
            Syntax::Toml => parsed_file::of_toml(&source),
            Syntax::Yaml => Err(Problem::new(0, "YAML is not supported: use JSON or TOML")
                .hint("write the entry as JSON, or type the server's command or address")),
        };
        match read {
            Ok((dialect, parsed)) => {
                let warned = AtomicBool::new(false);
                Ok(Self { source, dialect, origin, here: None, parsed, warned })
            }
            Err(problem) => {
                Err(Unread { failure: source.failure(&problem), empty: problem.kind == ProblemKind::Empty })
            }
        }
    }

    /// The problem of several entries with that name.
    pub(super) fn twice(&self, name: &str) -> Option<Problem> {
        let same: Vec<_> = self.parsed.entries.iter().filter(|entry| entry.name == name).collect();
        let second = same.get(1)?;
        let lines: Vec<String> =
            same.iter().take(MAX_NAMES).map(|entry| self.source.line(entry.at).to_string()).collect();
        let (count, name, lines) = (same.len(), called(name), lines.join(", "));
        let text = format!("{count} entries are called {name}, in lines {lines}: the name is ambiguous");
        Some(Problem::new(second.at, text).hint("keep one of them, or give each its own name"))
    }

    /// The definition of an entry, whose name no other entry has.
    pub(super) fn definition(&self, entry: &Entry) -> Result<Definition, Problem> {
        self.twice(&entry.name).map_or_else(|| Definition::read(self.dialect, &entry.node), Err)
    }

    /// Prints the warnings about the file as a whole, once.
    pub(super) fn warn(&self, ui: &Ui) {
        if self.warned.swap(true, Ordering::Relaxed) {
            return;
        }
        if self.source.writable_by_all() {
            ui.warning(&format!("all users can write to {}: chmod o-w it", self.source.name()));
        }
        if let Some(problem) = trust::problem().filter(|_| self.asks()) {
            ui.warning(problem);
        }
        self.print(ui, strict::problem(&self.source).as_slice());
        self.print(ui, &self.parsed.warnings);
    }

    /// Prints warnings about the file.
    pub(super) fn print(&self, ui: &Ui, warnings: &[Problem]) {
        for problem in warnings.iter().take(MAX_WARNINGS) {
            ui.note(&format!("warning: {}", self.source.say(problem)));
        }
        if let Some(more) = warnings.len().checked_sub(MAX_WARNINGS + 1) {
            ui.note(&format!("warning: {} more of {}", more + 1, self.source.name()));
        }
    }

    /// The names for references in its entries. `lookup` returns our variables.
    pub(super) fn names(&self, lookup: fn(&str) -> Option<OsString>, workspace: PathBuf) -> Names<'_> {
        let files = self.dialect == Dialect::OpencodeJson;
        Names { lookup, workspace, inputs: &self.parsed.inputs, files, texts: Texts::default() }
    }

    /// [`names`](Self::names) with the variables of this process.
    pub(super) fn names_of_process(&self) -> Names<'_> {
        self.names(|name| std::env::var_os(name), places::workspace(self.source.path()))
    }
}

enum Syntax {
    Json,
    Toml,
    Yaml,
}

/// The syntax of a file, by its name or else by its first character.
fn syntax(source: &Source) -> Syntax {
    let extension = source.path().extension().and_then(OsStr::to_str).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "toml" => Syntax::Toml,
        "json" | "jsonc" | "json5" => Syntax::Json,
        "yaml" | "yml" => Syntax::Yaml,
        _ if source.text().trim_start().starts_with(['{', '/']) => Syntax::Json,
        _ => Syntax::Toml,
    }
}
