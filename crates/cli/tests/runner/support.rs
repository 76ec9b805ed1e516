//! Runs the binary, and checks for processes that it left behind. All tests of this folder use it.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Every process that a test starts inherits this variable, with a distinct value for each run. Variables with this name are
/// also passed to servers of listeners and of discovered configurations.
const MARK: &str = "XDG_MCPJOIN_CLI_TEST";

/// The timeout of a run, for the busiest machine. After it, all processes of the run are killed, and the test that waits for
/// the run fails. (Listing a hundred thousand tools takes 4 s on an idle machine, and took 70 s during other builds.)
const LONGEST: Duration = Duration::from_secs(150);

/// The result of one run.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    /// As text, with a replacement character for each invalid byte.
    pub(crate) stdout: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ran {
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// The JSON document on standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }

    /// The failure that `--json` writes to standard error.
    #[track_caller]
    pub(crate) fn failure(&self) -> serde_json::Value {
        let document: serde_json::Value =
            serde_json::from_str(&self.stderr).unwrap_or_else(|error| panic!("{error}: {}", self.stderr));
        document["error"].clone()
    }

    /// Asserts that standard error contains each of these texts.
    #[track_caller]
    pub(crate) fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} is missing in: {}", self.stderr);
        }
        self
    }
}

/// A process of the binary that can be inspected while it runs.
pub(crate) struct Running {
    pub(crate) child: Child,
    /// All of its child processes carry this mark.
    pub(crate) mark: Mark,
}

/// Marks the processes of one run. When this is dropped, also in a failed test, the remaining processes are killed.
pub(crate) struct Mark {
    variable: String,
    /// Closed when the run ends.
    _over: mpsc::Sender<()>,
}

/// A command of the binary with empty standard input and an environment without traces of the test's user: no terminal
/// settings, no configuration, and no caches of earlier runs.
pub(crate) fn command(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    program(env!("CARGO_BIN_EXE_mcpjoin"), words)
}

/// Another program in the same environment: one that runs the binary.
pub(crate) fn program(name: &str, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(name);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "TERM"] {
        command.env_remove(variable);
    }
    // A developer's own traces.
    for (variable, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("OTEL_")) {
        command.env_remove(variable);
    }
    command
        .env_remove("MCP_CONFIG_PATH")
        .env_remove("MCPJOIN_AUTH_DIR")
        .env_remove("MCPJOIN_CLIENT_SECRET")
        .env("XDG_STATE_HOME", "/nowhere/state")
        .env("XDG_CONFIG_HOME", "/nowhere")
        .env("XDG_CACHE_HOME", "/nowhere/cache");
    command
}

/// Starts a command made by [`command`].
pub(crate) fn start(mut command: Command) -> Running {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let value = format!("{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
    let variable = format!("{MARK}={value}");
    let (over, running) = mpsc::channel::<()>();
    let marked = variable.clone();
    std::thread::spawn(move || {
        if running.recv_timeout(LONGEST) == Err(RecvTimeoutError::Timeout) {
            kill(&marked);
        }
    });
    let child = command.env(MARK, &value).spawn().unwrap();
    Running { child, mark: Mark { variable, _over: over } }
}

impl Running {
    /// Waits for the exit and reads the remaining output. Asserts that no process of the run is left.
    #[track_caller]
    pub(crate) fn finish(self) -> Ran {
        let Self { child, mark } = self;
        let output = child.wait_with_output().unwrap();
        nothing_left(&mark);
        ran(output.status, output.stdout, output.stderr)
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }
}

/// Asserts that something takes less than `bound` in at least one of several runs. The machine may be busy in some of them,
/// while a fault slows down all of them. `once` returns how long one run took.
#[track_caller]
pub(crate) fn takes_less_than(bound: Duration, mut once: impl FnMut() -> Duration) {
    let mut took = Vec::new();
    while took.last().is_none_or(|took| *took >= bound) {
        assert!(took.len() < 5, "never below {bound:?}: {took:?}");
        took.push(once());
    }
}

/// Runs the binary until it exits.
#[track_caller]
pub(crate) fn run(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Ran {
    start(command(words)).finish()
}

/// Runs a command line, split at spaces.
#[track_caller]
pub(crate) fn line(words: &str) -> Ran {
    run(words.split(' '))
}

fn ran(status: ExitStatus, stdout: Vec<u8>, stderr: Vec<u8>) -> Ran {
    Ran {
        code: status.code(),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        bytes: stdout,
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

#[track_caller]
fn nothing_left(mark: &Mark) {
    let left: Vec<String> = marked(mark).into_iter().map(|(_, words)| words).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// The processes of a run that exist: the process ids and command lines.
pub(crate) fn marked(mark: &Mark) -> Vec<(u32, String)> {
    holding(&mark.variable)
}

/// The processes that have this variable, each with its command line.
fn holding(variable: &str) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        let Some(pid) = path.file_name().and_then(|name| name.to_str()?.parse().ok()) else { continue };
        let own = |name: &str| std::fs::read(Path::new(&path).join(name)).unwrap_or_default();
        // The files of a process that has just ended cannot be read.
        if own("environ").split(|byte| *byte == 0).any(|known| known == variable.as_bytes()) {
            found.push((pid, String::from_utf8_lossy(&own("cmdline")).replace('\0', " ")));
        }
    }
    found
}

fn kill(variable: &str) {
    for (pid, _) in holding(variable) {
        let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        kill(&self.variable);
    }
}

/// A server of the legacy era in shell: it answers `initialize`, and then runs `body`. Use it with `--era legacy`, so that
/// its first request has the id 1, and the request after `notifications/initialized` the id 2.
pub(crate) fn legacy(body: &str) -> String {
    legacy_with(r#""tools":{},"logging":{}"#, body)
}

/// The same with these capabilities.
pub(crate) fn legacy_with(capabilities: &str, body: &str) -> String {
    format!(
        r#"read -r line
printf '%s\n' '{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"2025-11-25","capabilities":{{{capabilities}}},"serverInfo":{{"name":"shell","version":"1"}}}}}}'
read -r line
{body}"#
    )
}

/// The body of such a server that answers its first request after `initialize` with this result.
pub(crate) fn answering(result: &str) -> String {
    format!(
        "read -r line; printf '%s\\n' '{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{result}}}'; cat >/dev/null"
    )
}

/// Runs a verb with one such server that declares resources, prompts and completions.
#[track_caller]
pub(crate) fn ask_legacy(words: &[&str], body: &str) -> Ran {
    let script = legacy_with(r#""resources":{},"prompts":{},"completions":{}"#, body);
    let (verb, operands) = words.split_first().unwrap();
    let mut all = vec![*verb, "--era", "legacy"];
    all.extend(operands);
    all.extend(["--", "sh", "-c", &script]);
    run(all)
}

/// The path of a file that only this test run uses, and that does not exist yet.
pub(crate) fn scratch(name: &str) -> std::path::PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

/// Calls the tool `x` without arguments on such a server.
#[track_caller]
pub(crate) fn call_legacy(options: &[&str], body: &str) -> Ran {
    let script = legacy(body);
    // The script answers the call: nothing is asked before it.
    let mut words = vec!["call", "--era", "legacy", "--force"];
    words.extend(options);
    words.extend(["x", "--", "sh", "-c", &script]);
    run(words)
}

/// Reads one HTTP request: its head and its body, as far as they come.
pub(super) fn read_request(stream: &TcpStream) -> (String, Vec<u8>) {
    let mut head = String::new();
    let mut lines = BufReader::new(stream);
    while lines.read_line(&mut head).is_ok_and(|count| count > 2) {}
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    let _ = lines.read_exact(&mut body);
    (head, body)
}
