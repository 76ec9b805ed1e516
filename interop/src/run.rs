//! One run of the binary on a server, and its result.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what is not as it should be fails the test that asked for it"
)]

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::{MARK, running, server};

/// The newest version of the legacy era.
pub const LEGACY: &str = "2025-11-25";
/// The version of the modern era.
pub const MODERN: &str = "2026-07-28";

/// A server's command.
#[derive(Clone, Debug)]
pub struct Peer {
    program: PathBuf,
    args: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
}

impl Peer {
    /// The installed server at that path below `interop/`.
    ///
    /// # Panics
    ///
    /// When it is not installed.
    #[must_use]
    pub fn installed(path: &str) -> Self {
        Self { program: server(path).unwrap(), args: Vec::new(), environment: Vec::new() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Runs `mcpjoin WORDS -- SERVER`. After its end, no process that it started may run.
    ///
    /// # Panics
    ///
    /// When the binary cannot be started, or a process is left.
    #[must_use]
    pub fn run(&self, words: &[&str]) -> Ran {
        let mut command = mcpjoin();
        command
            .args(words)
            .arg("--")
            .arg(&self.program)
            .args(&self.args)
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        ran(command)
    }

    /// The command that starts the server.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The result of `list --json`: the protocol version, and the names of the tools.
    ///
    /// # Panics
    ///
    /// When listing fails.
    #[must_use]
    pub fn list(&self, options: &[&str]) -> (String, BTreeSet<String>) {
        self.run(&[&["list", "--json"], options].concat()).listed()
    }
}

/// The command of the binary, without stored state of an earlier run, and without storing any for a later one.
pub(crate) fn mcpjoin() -> Command {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    let mut command = Command::new(BINARY.get_or_init(|| crate::mcpjoin().unwrap()));
    command.env("XDG_CACHE_HOME", "/dev/null");
    command
}

/// Runs the command. After its end, no process that it started may run.
pub(crate) fn ran(mut command: Command) -> Ran {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let mark = format!("{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
    let output = command.env(MARK, &mark).stdin(Stdio::null()).output().unwrap();
    let left = running(&mark).unwrap();
    assert!(left.is_empty(), "{command:?} left {left:?}");
    Ran::of(output)
}

/// The result of one run of the binary.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; `None` when a signal has ended the process.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The one JSON document on the stdout of a successful run.
    ///
    /// # Panics
    ///
    /// When the run failed, or printed something else.
    #[must_use]
    pub fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("not one JSON document ({error}): {}", self.stdout))
    }

    /// The result of `list --json`: the protocol version, and the names of the tools.
    ///
    /// # Panics
    ///
    /// When listing has failed.
    #[must_use]
    pub fn listed(&self) -> (String, BTreeSet<String>) {
        let list = self.json();
        let tools = list["tools"].as_array().unwrap_or_else(|| panic!("no tools in {list}"));
        let names = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
        (list["protocolVersion"].as_str().unwrap().to_owned(), names)
    }

    /// The plain text output of a successful run.
    ///
    /// # Panics
    ///
    /// When the run failed.
    #[must_use]
    pub fn text(&self) -> &str {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        &self.stdout
    }

    /// Checks that the server has responded with an error (exit code 5), and that the message contains `what`.
    ///
    /// # Panics
    ///
    /// When that is not so.
    pub fn refused_with(&self, what: &str) {
        assert_eq!(self.code, Some(5), "{}{}", self.stdout, self.stderr);
        let said = format!("{}{}", self.stdout, self.stderr);
        assert!(said.contains(what), "`{what}` is not in {said}");
    }
}

/// A folder of a test. It is removed when this value is dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Creates an empty folder; `name` distinguishes it from others of this process.
    ///
    /// # Panics
    ///
    /// When it cannot be created.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mcpjoin-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        // Servers compare paths after they have resolved links.
        Self(path.canonicalize().unwrap())
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The text of the first content of `call --json`.
///
/// # Panics
///
/// When there is none.
#[must_use]
pub fn first_text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}"))
}
