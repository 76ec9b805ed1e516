//! The program of a server could not be started.

use mcpjoin::transport::{SpawnError, SpawnErrorKind};

use super::{Failure, Phase};
use crate::config::NoEntry;
use crate::exit::Exit;
use crate::target::{path_shown, shown, stands_alone, url_meant};

const INSTALL: &str = "install the program, add its folder to PATH, or use its path";
const CONFIGURATION: &str = "for a configuration use --config FILE, for one of its entries FILE#NAME";

impl Failure {
    /// The program of the server could not be started.
    pub(crate) fn spawn(error: &SpawnError) -> Self {
        let (id, hint) = match &error.kind {
            SpawnErrorKind::NotFound { .. } if is_configuration(&error.command) => {
                ("E_SPAWN_NOT_FOUND", CONFIGURATION)
            }
            SpawnErrorKind::NotFound { searched } if searched.is_empty() => (
                "E_SPAWN_NOT_FOUND",
                "check the path; relative paths start at the server's working \
                    directory (--cwd)",
            ),
            SpawnErrorKind::NotFound { .. } if error.command.contains(' ') => (
                "E_SPAWN_NOT_FOUND",
                "the name of the program contains its arguments: in an entry, move all words but the first to \
                 \"args\"",
            ),
            SpawnErrorKind::NotFound { .. } => ("E_SPAWN_NOT_FOUND", INSTALL),
            SpawnErrorKind::NotExecutable { .. } if is_configuration(&error.command) => {
                ("E_SPAWN_NOT_EXECUTABLE", CONFIGURATION)
            }
            SpawnErrorKind::NotExecutable { .. } => {
                ("E_SPAWN_NOT_EXECUTABLE", "chmod +x the file, or put its interpreter before it")
            }
            SpawnErrorKind::NoInterpreter { .. } => (
                "E_SPAWN_NO_INTERPRETER",
                "install the interpreter of the file's first line, or put another one before the file",
            ),
            SpawnErrorKind::IsDirectory { .. } => ("E_SPAWN_DIRECTORY", "use a program in this directory"),
            SpawnErrorKind::WorkingDirectory { .. } => {
                ("E_SPAWN_CWD", "use --cwd with a directory that exists and can be entered")
            }
            _ => ("E_SPAWN", "check the limits of this system (ulimit -a) and the command's arguments"),
        };
        let mut failure = Self::new(id, Exit::Connection, Phase::Spawn, error.to_string()).hint(hint);
        if let SpawnErrorKind::NotFound { .. } = &error.kind {
            if let Some(url) = url_meant(&error.command) {
                failure.hint = format!("for an address write {url}");
            } else if stands_alone(error.command.as_ref()) {
                failure.hint =
                    "this is an address, and not a program: write it without the -- before it; in an \
                                entry, use \"url\" instead of \"command\""
                        .into();
            }
        }
        if let SpawnErrorKind::NotFound { searched } = &error.kind
            && !searched.is_empty()
        {
            failure.message =
                format!("cannot start {}: no such program on PATH", shown(error.command.as_ref()));
            failure.seen.searched.extend(searched.iter().map(|folder| path_shown(folder)));
        }
        failure
    }

    /// Adds to [`spawn`](Self::spawn) that the word is no entry of a configuration either, as `no_entry` says.
    #[must_use]
    pub(crate) fn and_no_entry(mut self, no_entry: Option<&NoEntry>) -> Self {
        let is_added = |no_entry: &NoEntry| self.message.starts_with(&no_entry.said);
        if let Some(no_entry) = no_entry.filter(|it| self.id == "E_SPAWN_NOT_FOUND" && !is_added(it)) {
            self.message = format!("{}, and no program on PATH", no_entry.said);
            self.seen.searched.splice(0..0, no_entry.searched.iter().cloned());
            if self.hint == INSTALL {
                self.hint = format!("use an entry (mcpjoin servers lists them), {INSTALL}");
            }
        }
        self
    }
}

/// Whether a word is the name of a configuration file.
fn is_configuration(word: &str) -> bool {
    let extension = word.rsplit_once('.').map_or("", |(_, extension)| extension);
    ["json", "jsonc", "toml"].contains(&extension)
}
