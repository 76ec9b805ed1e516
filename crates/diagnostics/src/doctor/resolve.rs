//! Which file a command means, and what runs it: looked up in the surroundings that the child will have.
//!
//! A script's first line is read as the system reads it (execve(2), "Interpreter scripts"), and `env` in it as env(1)
//! reads its words. Nothing but `--version` of a well-known runtime is ever run.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcpjoin_proto::session::{Inbound, Limits};
use tokio::time::timeout;

use super::diagnosis;
use super::report::{Finding, Phase};
use mcpjoin::link::{ChildCommand, Crossed, Way};

/// How much of a script's first line the system looks at (Linux since 5.1).
const FIRST_LINE: u64 = 256;
/// How long a runtime may take to say its version.
const VERSION: Duration = Duration::from_secs(5);
/// The longest version line that is shown.
const LONGEST: usize = 80;

/// Runtimes that say with `--version` which they are, and do nothing else then.
const RUNTIMES: [&str; 9] = ["node", "nodejs", "bun", "deno", "ruby", "php", "uv", "uvx", "pipx"];
/// Folders of shims and of what stands behind them, and whose they are.
const MANAGERS: [(&str, &str); 7] = [
    ("/.nvm/", "nvm"),
    ("/.asdf/", "asdf"),
    ("/.volta/", "volta"),
    ("/.pyenv/", "pyenv"),
    ("/fnm_multishells/", "fnm"),
    ("/mise/", "mise"),
    ("/.rbenv/", "rbenv"),
];

/// What a command turns out to be.
pub(super) struct Resolved {
    /// The file.
    pub(super) file: PathBuf,
    /// The interpreter in its first line, as it stands there.
    pub(super) interpreter: Option<PathBuf>,
    /// What runs it, where that is another file.
    pub(super) runtime: Option<PathBuf>,
    /// What the runtime says of its version.
    pub(super) version: Option<String>,
}

impl Resolved {
    /// The file, what it really is, and what runs it, in one line.
    pub(super) fn detail(&self) -> String {
        let mut detail = self.file.display().to_string();
        if let Some(real) = self.file.canonicalize().ok().filter(|real| *real != self.file) {
            detail += &format!(" -> {}", real.display());
        }
        let runtime = self.runtime.as_deref();
        if let Some(manager) = manager(&self.file).or_else(|| runtime.and_then(manager)) {
            detail += &format!(" ({manager})");
        }
        if let Some(runtime) = runtime.or(self.interpreter.as_deref()) {
            detail += &format!(", run by {}", runtime.display());
        }
        if let Some(version) = &self.version {
            detail += &format!(" ({version})");
        }
        detail
    }
}

fn manager(path: &Path) -> Option<&'static str> {
    let path = path.to_str()?;
    MANAGERS.iter().find(|(folder, _)| path.contains(folder)).map(|(_, manager)| *manager)
}

/// Looks the command up.
pub(super) async fn resolve(command: &ChildCommand) -> Result<Resolved, Box<Finding>> {
    let spec = command.spec();
    let file =
        spec.resolve().map_err(|kind| diagnosis::unstarted(Phase::Resolve, &spec.error(kind), None))?;
    let mut resolved = Resolved { file, interpreter: None, runtime: None, version: None };
    if let Some(line) = first_line(&resolved.file) {
        follow(command, &line, &mut resolved)?;
    }
    let runtime = match (&resolved.runtime, &resolved.interpreter) {
        (Some(runtime), _) => Some(runtime),
        (None, None) => Some(&resolved.file),
        (None, Some(interpreter)) => Some(interpreter).filter(|interpreter| interpreter.exists()),
    };
    if let Some(runtime) = runtime.filter(|runtime| says_its_version(runtime)) {
        resolved.version = version(command, runtime).await;
    }
    Ok(resolved)
}

/// What runs a script, by its first line.
fn follow(command: &ChildCommand, line: &[u8], resolved: &mut Resolved) -> Result<(), Box<Finding>> {
    let spec = command.spec();
    let windows = line.ends_with(b"\r");
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    let Some(interpreter) = words.next().map(|word| PathBuf::from(OsStr::from_bytes(word))) else {
        return Ok(());
    };
    let rest: Vec<&[u8]> = words.collect();
    let is_env = interpreter.file_name() == Some(OsStr::new("env"));
    let name = rest.iter().find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    if windows && (rest.is_empty() || is_env) {
        return Err(diagnosis::windows_line_ends(&resolved.file));
    }
    resolved.interpreter = Some(interpreter);
    if let Some(name) = name.filter(|_| is_env) {
        let runtime = command.beside(OsStr::from_bytes(name), "--version");
        let found = runtime.spec().resolve();
        resolved.runtime = Some(found.map_err(|kind| {
            diagnosis::runtime_missing(&resolved.file, &spec.error(kind).kind, &String::from_utf8_lossy(name))
        })?);
    }
    Ok(())
}

/// What follows `#!` on the first line of a script; `None` for anything else.
fn first_line(file: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(file).ok()?.take(FIRST_LINE).read_to_end(&mut bytes).ok()?;
    let line = bytes.strip_prefix(b"#!")?;
    let end = memchr::memchr(b'\n', line).unwrap_or(line.len());
    Some(line[..end].to_vec())
}

fn says_its_version(runtime: &Path) -> bool {
    let name = runtime.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let python = name.strip_prefix("python");
    RUNTIMES.contains(&name)
        || python.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

/// The first line that a runtime says when it is asked for its version.
async fn version(command: &ChildCommand, runtime: &Path) -> Option<String> {
    let first = Arc::new(Mutex::new(None));
    let noted = first.clone();
    // A relative path counts from the child's working directory, as it did when it was found.
    let runtime = std::path::absolute(runtime).ok()?;
    let asking = async {
        let link = command.beside(runtime, "--version").start().await.ok()?;
        let link = link.tapped(move |way, crossed| {
            if let (Way::In, Crossed::Line(line)) = (way, crossed) {
                let text: String = String::from_utf8_lossy(line).trim().chars().take(LONGEST).collect();
                noted.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(text);
            }
        });
        let mut link = link.bare(&Limits::default());
        while !matches!(link.recv().await, Inbound::Closed { .. }) {}
        link.close().await;
        Some(())
    };
    timeout(VERSION, asking).await.ok()??;
    let first = first.lock().unwrap_or_else(PoisonError::into_inner).take();
    first.filter(|text| !text.is_empty())
}

/// What is odd about where programs are looked for.
pub(super) fn notes(command: &ChildCommand) -> Vec<String> {
    let spec = command.spec();
    let mut notes = Vec::new();
    if spec.program.as_bytes().contains(&b'/') {
        return notes;
    }
    match spec.variable("PATH") {
        None => notes.push("the server gets no PATH: programs are looked for in /bin and /usr/bin".into()),
        Some(path) => {
            let path = path.into_vec();
            let empty = path.split(|byte| *byte == b':').any(<[u8]>::is_empty);
            if empty {
                notes.push(
                    "PATH has an empty entry, which means the working directory to other programs; here it is \
                     skipped"
                        .into(),
                );
            }
            if path.split(|byte| *byte == b':').any(|entry| !entry.is_empty() && entry[0] != b'/') {
                notes.push(
                    "PATH has a relative entry: what is found there depends on the working directory".into(),
                );
            }
        }
    }
    notes
}
