//! What to start, how the program is found, and the errors of starting it.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// The folders to search when `PATH` is not set: the default of the C library.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A program to start. No shell interprets it.
#[derive(Clone, Debug)]
pub struct Spec {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// Variables to set; `None` removes a variable.
    pub env: BTreeMap<OsString, Option<OsString>>,
    pub env_clear: bool,
    pub current_dir: Option<PathBuf>,
    /// Starts a session of its own, without a controlling terminal.
    pub new_session: bool,
}

/// A child could not be started. The attempt leaves no process behind.
#[derive(Debug, thiserror::Error)]
#[error("cannot start {command}: {kind}")]
pub struct SpawnError {
    /// The program, as it was given. Arguments are not included: they may contain secrets.
    pub command: String,
    /// The reason.
    #[source]
    pub kind: SpawnErrorKind,
}

/// The reasons why a child cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnErrorKind {
    /// There is no such program. A name with a path separator is never searched for, so that a mistyped path
    /// starts nothing else.
    #[error("no such program{}", searched_in(.searched))]
    NotFound {
        /// The folders of `PATH`, each once, in their order; empty for a name with a path separator.
        searched: Vec<PathBuf>,
    },
    /// The file exists but may not be executed.
    #[error("{} is not executable", .path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// The file exists and is executable, but the interpreter of its `#!` line, or its loader, is missing.
    #[error("{} exists, but its interpreter does not", .path.display())]
    NoInterpreter {
        /// The file.
        path: PathBuf,
    },
    /// The path is a directory.
    #[error("{} is a directory", .path.display())]
    IsDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// The working directory cannot be entered.
    #[error("the working directory {} cannot be entered: {source}", .path.display())]
    WorkingDirectory {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The system refused: too many open files, no memory, an argument with a NUL byte ...
    #[error("{0}")]
    System(#[source] io::Error),
}

fn searched_in(searched: &[PathBuf]) -> String {
    if searched.is_empty() {
        return String::new();
    }
    let folders: Vec<_> = searched.iter().map(|folder| folder.display().to_string()).collect();
    format!("; searched in {}", folders.join(", "))
}

impl Spec {
    #[doc(hidden)]
    pub fn error(&self, kind: SpawnErrorKind) -> SpawnError {
        SpawnError { command: self.program.to_string_lossy().into_owned(), kind }
    }

    /// The value that a variable will have in the child.
    #[doc(hidden)]
    pub fn variable(&self, name: &str) -> Option<OsString> {
        match self.env.get(OsStr::new(name)) {
            Some(value) => value.clone(),
            None if self.env_clear => None,
            None => std::env::var_os(name),
        }
    }

    /// Finds the file to execute. A name with a path separator is that file, relative to the child's working directory; any
    /// other name is searched for in the `PATH` that the child gets.
    #[doc(hidden)]
    pub fn resolve(&self) -> Result<PathBuf, SpawnErrorKind> {
        let here = self.current_dir.as_deref().unwrap_or_else(|| Path::new(""));
        if let Some(path) = &self.current_dir {
            // Entering a directory needs the right to search it, which X_OK checks.
            let entered = access(path, Access::EXEC_OK)
                .map_err(io::Error::from)
                .and_then(|()| if path.is_dir() { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) });
            if let Err(source) = entered {
                return Err(SpawnErrorKind::WorkingDirectory { path: path.clone(), source });
            }
        }
        // `.` would be found in every folder of PATH.
        if self.program.as_bytes().contains(&b'/') || matches!(self.program.as_bytes(), b"." | b"..") {
            let path = here.join(&self.program);
            return check(&path)
                .unwrap_or(Err(SpawnErrorKind::NotFound { searched: Vec::new() }))
                .map(|()| path);
        }
        let list = self.variable("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
        // An empty entry means the working directory, which few people know, so it is skipped.
        let mut known = HashSet::new();
        let searched: Vec<PathBuf> = std::env::split_paths(&list)
            .filter(|folder| !folder.as_os_str().is_empty() && known.insert(folder.clone()))
            .collect();
        let mut refused = None;
        if !self.program.is_empty() {
            for folder in &searched {
                let path = here.join(folder).join(&self.program);
                match check(&path) {
                    Some(Ok(())) => return Ok(path),
                    Some(Err(kind)) => refused = refused.or(Some(kind)),
                    None => {}
                }
            }
        }
        Err(refused.unwrap_or(SpawnErrorKind::NotFound { searched }))
    }
}

/// Whether a file can be executed; `None` when there is none.
fn check(path: &Path) -> Option<Result<(), SpawnErrorKind>> {
    let facts = match std::fs::metadata(path) {
        Ok(facts) => facts,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Some(Err(SpawnErrorKind::NotExecutable { path: path.into() }));
        }
        Err(_) => return None,
    };
    if facts.is_dir() {
        return Some(Err(SpawnErrorKind::IsDirectory { path: path.into() }));
    }
    // The mode bits as well as the right: the superuser has the right without any bit.
    if facts.permissions().mode() & 0o111 == 0 || access(path, Access::EXEC_OK).is_err() {
        return Some(Err(SpawnErrorKind::NotExecutable { path: path.into() }));
    }
    Some(Ok(()))
}
