//! Runs the binary, and looks for what it left behind.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Every process that a test starts inherits this variable, with a value of its own for each run. Its name is one that
/// servers of listeners and of found configurations get, too.
const MARK: &str = "XDG_MCPJOIN_CLI_TEST";

/// No run takes longer, on the busiest machine: then everything that it has started is killed, and the test that waits for it
/// fails. (Listing a hundred thousand tools takes 4 s on a machine of one's own, and took 70 s where others built meanwhile.)
const LONGEST: Duration = Duration::from_secs(150);

/// What one run came to.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    /// As text, with a sign of its own for each byte that is none.
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

    /// The one JSON document on standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }

    /// The failure that `--json` puts on standard error.
    #[track_caller]
    pub(crate) fn failure(&self) -> serde_json::Value {
        let document: serde_json::Value =
            serde_json::from_str(&self.stderr).unwrap_or_else(|error| panic!("{error}: {}", self.stderr));
        document["error"].clone()
    }

    /// Both outputs have everything of that.
    #[track_caller]
    pub(crate) fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} is missing in: {}", self.stderr);
        }
        self
    }
}

/// A run of the binary that can be looked at while it runs.
pub(crate) struct Running {
    pub(crate) child: Child,
    /// Everything that it starts carries this.
    pub(crate) mark: Mark,
}

/// What marks the processes of one run. Dropped, also by a test that fails, it kills what is left of them.
pub(crate) struct Mark {
    variable: String,
    /// Closed with the run.
    _over: mpsc::Sender<()>,
}

/// The binary, with nothing on its standard input and nothing of the test's own: no settings of its terminal, no
/// configuration, and no memory of earlier runs.
pub(crate) fn command(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    program(env!("CARGO_BIN_EXE_mcpjoin"), words)
}

/// Another program in the same surroundings: one that runs the binary.
pub(crate) fn program(name: &str, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(name);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "TERM"] {
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

/// Starts a command of [`command`].
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
    /// Waits for the end and for everything that is still to be read. Then nothing that was started may be there.
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

/// Holds that something takes less than `bound`: in one of its runs, because the machine may be busy in some of them, while a
/// fault that makes it slow does so in each. `once` says how long it took.
#[track_caller]
pub(crate) fn takes_less_than(bound: Duration, mut once: impl FnMut() -> Duration) {
    let mut took = Vec::new();
    while took.last().is_none_or(|took| *took >= bound) {
        assert!(took.len() < 5, "never below {bound:?}: {took:?}");
        took.push(once());
    }
}

/// Runs the binary to its end.
#[track_caller]
pub(crate) fn run(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Ran {
    start(command(words)).finish()
}

/// Runs a line of words, split at spaces.
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

/// What a run has started and what is there: the process ids, and the words that each was started with.
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
        // A process that has just ended cannot be read and is not there.
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

/// A server of the legacy era in shell: it answers `initialize`, and then `body` runs. To be asked with `--era legacy`,
/// so that its first request has the id 1, and what comes after `notifications/initialized` the id 2.
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

/// What such a server does that answers its first request after the opening with this result.
pub(crate) fn answering(result: &str) -> String {
    format!(
        "read -r line; printf '%s\\n' '{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{result}}}'; cat >/dev/null"
    )
}

/// Runs a verb with one such server that has resources, prompts and completions, whatever it is asked.
#[track_caller]
pub(crate) fn ask_legacy(words: &[&str], body: &str) -> Ran {
    let script = legacy_with(r#""resources":{},"prompts":{},"completions":{}"#, body);
    let (verb, operands) = words.split_first().unwrap();
    let mut all = vec![*verb, "--era", "legacy"];
    all.extend(operands);
    all.extend(["--", "sh", "-c", &script]);
    run(all)
}

/// A file of this test run alone, which is not there yet.
pub(crate) fn scratch(name: &str) -> std::path::PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

/// Calls the tool `x` without arguments on such a server.
#[track_caller]
pub(crate) fn call_legacy(options: &[&str], body: &str) -> Ran {
    let script = legacy(body);
    let mut words = vec!["call", "--era", "legacy"];
    words.extend(options);
    words.extend(["x", "--", "sh", "-c", &script]);
    run(words)
}
