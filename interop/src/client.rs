//! Runs the script of a foreign client in `interop/clients/` against `mcpjoin serve demo --full`, over pipes or over HTTP, or
//! through `mcpjoin bridge`, alone or joined with another server; reads the outcome of each check, and compares the outcomes with `interop/clients/table.md`.
//!
//! Used only by the tests of clients. A script is started as `SCRIPT ERA -- SERVER WORDS...`, and may start the server
//! several times with exactly these words; or as `SCRIPT ERA URL`, for a listening server, where `sse+http://` is HTTP+SSE,
//! the transport of 2024-11-05, and `http://` is Streamable HTTP. It runs every check of [`CHECKS`], each with a time limit,
//! and prints one JSON object in each line: first `{"version": ".."}`, the installed version of the client, and then for
//! each check `{"check": "open", "outcome": "right"}`, or `"fault"` or `"cannot"` with `"why"`. It takes the expected
//! values from `interop/clients/demo.json`, which describes the demonstration server, or from the file in the variable
//! `MCPJOIN_INTEROP_DEMO`.
//!
//! An outcome `right` counts only if the observation from outside confirms it:
//!
//! - `open`: all messages were of that era.
//! - `cancel`: a call was cancelled, by a notification or, over HTTP in the modern era, by closing the connection of its
//!   response; the call never got a response; and the session continued. (The tool `running_computations` shows that the
//!   handler has stopped.)
//! - `end`: every server has ended by itself, with exit code 0 and nothing on stderr, and no process remains. Over HTTP,
//!   every session was ended and is gone, and the server ends with the right exit code on SIGTERM.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what is not as it should be fails the test that asked for it"
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::endpoint::Endpoint;
use crate::overheard::Overheard;
use crate::table::{CHECKS, Outcome, Row};
use crate::witness::{Witness, kill, left};
use crate::{MARK, running, server};

/// The time limit of a script: far more than the slowest one takes on a busy machine (more than 170 s while eight others
/// were building), and less than the limit that ends the test from outside.
const LIMIT: Duration = Duration::from_secs(600);

/// The environment variable with the file that a script reads instead of `demo.json`.
const DESCRIPTION: &str = "MCPJOIN_INTEROP_DEMO";

/// The transport between the client and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The client starts the server, and both use pipes.
    Stdio,
    /// Over Streamable HTTP.
    Http,
    /// Over HTTP+SSE, the transport of 2024-11-05.
    Sse,
}

impl Way {
    /// Its name in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "HTTP",
            Self::Sse => "HTTP+SSE",
        }
    }
}

/// The observer of a script.
enum Outside {
    Pipes(Witness),
    Http(Box<Overheard>),
}

impl Outside {
    fn new(name: &str, binary: &Path, way: Way, endpoint: Endpoint) -> Self {
        match way {
            Way::Stdio => Self::Pipes(Witness::new(name)),
            Way::Http | Way::Sse => {
                Self::Http(Box::new(Overheard::new(name, binary.as_os_str(), way, endpoint)))
            }
        }
    }

    /// An empty folder, used as the script's home.
    fn folder(&self) -> &Path {
        match self {
            Self::Pipes(witness) => witness.folder(),
            Self::Http(overheard) => overheard.folder(),
        }
    }

    /// The mark of the script's processes.
    fn mark(&self) -> String {
        self.folder().to_str().unwrap().to_owned()
    }

    /// The arguments that name the server for the script.
    fn words(&self, binary: &Path, endpoint: Endpoint) -> Vec<OsString> {
        match self {
            Self::Pipes(witness) => {
                iter::once("--".into()).chain(witness.words(binary.as_os_str(), endpoint)).collect()
            }
            Self::Http(overheard) => overheard.words(),
        }
    }

    /// Ends the observed processes after the script, and returns those that still run.
    fn finish(&mut self) -> Vec<String> {
        let mark = self.mark();
        match self {
            Self::Pipes(_) => left(&mark),
            Self::Http(overheard) => overheard.finish(&mark),
        }
    }

    fn bears_out(&self, check: &str, era: &str) -> Result<(), String> {
        match self {
            Self::Pipes(witness) => witness.bears_out(check, era),
            Self::Http(overheard) => overheard.bears_out(check, era),
        }
    }
}

/// A client and how its script is started.
#[derive(Clone, Debug)]
pub struct Client {
    name: String,
    program: PathBuf,
    args: Vec<OsString>,
    way: Way,
    endpoint: Endpoint,
}

impl Client {
    /// The client with this name in the table, and the installed program, by its path below `interop/`, that runs the
    /// script.
    ///
    /// # Panics
    ///
    /// When the program is not installed.
    #[must_use]
    pub fn installed(name: &str, path: &str) -> Self {
        Self::new(name, server(path).unwrap())
    }

    /// The client with this name in the table, and the program that runs the script.
    #[must_use]
    pub fn new(name: &str, program: impl Into<PathBuf>) -> Self {
        Self {
            name: name.to_owned(),
            program: program.into(),
            args: Vec::new(),
            way: Way::Stdio,
            endpoint: Endpoint::Server,
        }
    }

    /// Uses this transport instead of stdio.
    #[must_use]
    pub fn by(mut self, way: Way) -> Self {
        self.way = way;
        self
    }

    /// Connects through `mcpjoin bridge`, which must make no difference.
    #[must_use]
    pub fn bridged(mut self) -> Self {
        self.endpoint = Endpoint::Bridge;
        self
    }

    /// Connects through `mcpjoin bridge` that joins the server with another one, which must make no difference.
    #[must_use]
    pub fn joined(mut self) -> Self {
        self.endpoint = Endpoint::Joined;
        self
    }

    /// Connects over HTTP to two `mcpjoin bridge` with one key, each request to the next one. This makes no difference, but that a call
    /// which was cancelled at the other bridge may end with an error, which the client ignores (`docs/replicas.md`).
    #[must_use]
    pub fn at_two_bridges(mut self) -> Self {
        (self.way, self.endpoint) = (Way::Http, Endpoint::Replicas);
        self
    }

    /// As [`Client::at_two_bridges`], with one Redis, and each bridge starts the server itself.
    #[must_use]
    pub fn at_two_bridges_of_a_program(mut self) -> Self {
        (self.way, self.endpoint) = (Way::Http, Endpoint::ReplicasOfProgram);
        self
    }

    /// Adds an argument of the program, before the era: for an interpreter, the script in `interop/clients/`.
    #[must_use]
    pub fn script(mut self, name: &str) -> Self {
        self.args.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(name).into());
        self
    }

    /// Runs every check in that era, and checks that the table's row agrees with the observed outcomes.
    ///
    /// # Panics
    ///
    /// When the table disagrees, when the script does not run every check once in its time, or when it fails.
    pub fn is_as_the_table_says(&self, era: &str) {
        let row = Row::of(&self.name, era, self.way.name());
        let (version, seen) = self.run(era);
        assert_eq!(row.version, version, "the version of {} in the table and as it is installed", self.name);
        let mut wrong = String::new();
        for (check, (cell, outcome)) in CHECKS.iter().zip(row.cells.iter().zip(&seen)) {
            if let Err(why) = cell.says(outcome) {
                writeln!(wrong, "  {check}: {why}").unwrap();
            }
        }
        assert!(
            wrong.is_empty(),
            "the row of {}, {era}, {}, and what was seen:\n{wrong}",
            self.name,
            self.way.name()
        );
    }

    /// The command that starts the script in its own folder, without the era; its output is stored in that folder.
    pub(crate) fn command(&self, folder: &Path, mark: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env(MARK, mark)
            // The servers are local, so no proxy is used.
            .env("NO_PROXY", "127.0.0.1")
            .env("no_proxy", "127.0.0.1")
            .env("HOME", folder)
            .env("NO_COLOR", "1")
            .current_dir(folder)
            .stdin(Stdio::null())
            // Files, because a process that the script leaves behind could keep a pipe open.
            .stdout(File::create(folder.join("said")).unwrap())
            .stderr(File::create(folder.join("complained")).unwrap());
        command
    }

    /// The client's version, and the outcomes of the checks, in their order.
    fn run(&self, era: &str) -> (String, Vec<Outcome>) {
        static BINARY: OnceLock<PathBuf> = OnceLock::new();
        let binary = BINARY.get_or_init(|| crate::mcpjoin().unwrap());
        let name: String = format!("{}-{era}-{}-{:?}", self.name, self.way.name(), self.endpoint)
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
            .collect();
        let mut outside = Outside::new(&name, binary, self.way, self.endpoint);
        let mark = outside.mark();
        let mut command = self.command(outside.folder(), &mark);
        if let Some(description) = self.endpoint.description(outside.folder(), era) {
            command.env(DESCRIPTION, description);
        }
        let child = command.arg(era).args(outside.words(binary, self.endpoint)).spawn().unwrap();
        let success = wait(child, &mark);
        let left = outside.finish();
        let (stdout, said) = said(outside.folder());
        let seen = read(&stdout).map(|(version, seen)| {
            let seen = CHECKS.iter().zip(seen).map(|(check, outcome)| match outside.bears_out(check, era) {
                Err(why) if outcome == Outcome::Right => Outcome::FaultSeen(why),
                _ => outcome,
            });
            (version, seen.collect())
        });
        if !left.is_empty() {
            kill(&mark);
        }
        assert!(success, "the script of {} has failed; {said}", self.name);
        seen.unwrap_or_else(|why| panic!("{why}; {said}"))
    }
}

/// The output of a script: stdout alone, and stdout with stderr.
pub(crate) fn said(folder: &Path) -> (String, String) {
    let text = |name: &str| String::from_utf8_lossy(&std::fs::read(folder.join(name)).unwrap()).into_owned();
    let stdout = text("said");
    let both = format!("it wrote:\n{stdout}\nand to stderr:\n{}", text("complained"));
    (stdout, both)
}

/// Waits for the script's end, and returns whether it succeeded; after the time limit all its processes are killed.
pub(crate) fn wait(mut child: Child, mark: &str) -> bool {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let _ = sender.send(child.wait().unwrap().success());
    });
    receiver.recv_timeout(LIMIT).unwrap_or_else(|_| {
        let left = running(mark).unwrap();
        kill(mark);
        panic!("the script has not ended in {LIMIT:?}; running: {left:?}");
    })
}

/// Parses the version and the outcomes in the output of a script.
fn read(stdout: &str) -> Result<(String, Vec<Outcome>), String> {
    let mut lines = stdout.lines().map(|line| {
        serde_json::from_str::<Value>(line).map_err(|error| format!("not JSON ({error}): {line}"))
    });
    let first = lines.next().ok_or("the script has printed nothing")??;
    let version = first["version"].as_str().ok_or("the first line names no version")?.to_owned();
    let mut seen = BTreeMap::new();
    for line in lines {
        let line = line?;
        let why = || line["why"].as_str().filter(|why| !why.is_empty()).map(str::to_owned);
        let outcome = match (line["outcome"].as_str(), why()) {
            (Some("right"), None) => Outcome::Right,
            (Some("fault"), Some(why)) => Outcome::Fault(why),
            (Some("cannot"), Some(why)) => Outcome::Cannot(why),
            _ => return Err(format!("no outcome: {line}")),
        };
        let check = line["check"].as_str().filter(|name| CHECKS.contains(name));
        let check = check.ok_or_else(|| format!("no check: {line}"))?;
        if seen.insert(check.to_owned(), outcome).is_some() {
            return Err(format!("{check} is there twice"));
        }
    }
    let seen = CHECKS.iter().map(|check| seen.remove(*check).ok_or_else(|| format!("{check} is missing")));
    Ok((version, seen.collect::<Result<_, _>>()?))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// A script that opens the server in the legacy era by hand, and keeps it open: `$1` is the rest of its actions.
    const OPENS: &str = r#"
rest=$1; shift 3
mkfifo in out
"$@" <in >out &
server=$!
exec 3>in 4<out
echo '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}' >&3
read -r answer <&4
echo '{"version":"1"}'
for check in open list content progress cancel sampling elicitation roots resources prompts completion fifty end; do
    echo "{\"check\":\"$check\",\"outcome\":\"right\"}"
done
eval "$rest"
"#;

    /// The observed outcomes of a client that reports `right` for every check, whatever it does.
    fn seen(name: &str, era: &str, rest: &str) -> BTreeMap<&'static str, Outcome> {
        let mut client = Client::new(name, "sh");
        client.args = ["-c", OPENS, "client", rest].map(OsString::from).to_vec();
        let (version, seen) = client.run(era);
        assert_eq!(version, "1");
        CHECKS.into_iter().zip(seen).collect()
    }

    fn fault(outcome: &Outcome) -> &str {
        let Outcome::FaultSeen(why) = outcome else { panic!("{outcome:?}") };
        why
    }

    #[test]
    fn a_client_that_lets_its_server_end_is_recognized() {
        let seen = seen("ends", "legacy", "exec 3>&-; wait");
        assert_eq!(seen["open"], Outcome::Right);
        assert_eq!(seen["end"], Outcome::Right);
        assert_eq!(fault(&seen["cancel"]), "no call was ever cancelled");
    }

    #[test]
    fn a_client_that_speaks_the_other_era_is_found_out() {
        let seen = seen("era", "modern", "exec 3>&-; wait");
        assert!(fault(&seen["open"]).contains("initialize"), "{seen:?}");
    }

    #[test]
    fn a_client_that_kills_its_server_is_found_out() {
        let seen = seen("kills", "legacy", "kill -TERM $server; wait $server; exec 3>&-");
        assert_eq!(fault(&seen["end"]), "a server was killed instead of left to end, after initialize");
    }

    #[test]
    fn a_client_that_leaves_its_server_is_found_out() {
        // The background process keeps the pipe to the server open.
        let seen = seen("leaves", "legacy", "sleep 600 &");
        assert!(fault(&seen["end"]).starts_with("left running"), "{seen:?}");
    }

    #[test]
    fn a_call_that_is_answered_was_not_cancelled() {
        let call = r#"
echo '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"message":"x"}}}' >&3
read -r answer <&4
echo '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}' >&3
exec 3>&-; wait"#;
        assert!(fault(&seen("late", "legacy", call)["cancel"]).contains("was answered"));
    }
}
