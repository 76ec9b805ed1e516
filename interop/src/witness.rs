//! A witness between a foreign client and `mcpjoin serve demo --full`: it forwards stdin and stdout, and records every line, and
//! how each server was started and how it ended. This confirms the report of the client's script with an observation from
//! outside.
//!
//! Used by [`crate::client`]. It checks the record; it starts no process and sends no message itself.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what is not as it should be fails the test that asked for it"
)]

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::endpoint::Endpoint;
use crate::{Folder, LEGACY, MARK, MODERN, marked, running};

/// The time in which a server must end after its client. A client that does not wait for it has no fault.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// `$1` is the folder for the record, and the remaining arguments are the server. If the client kills the server, the
/// record ends: the client knows only the process id of the outer shell.
const SCRIPT: &str = r#"
folder=$1; shift
echo "started $$" >>"$folder/ends"
tee "$folder/asked.$$" | {
    "$@" 2>>"$folder/stderr"
    echo "ended $$ $?" >>"$folder/ends"
} | tee "$folder/answered.$$"
echo "waited $$" >>"$folder/ends"
"#;

/// The record of one script's servers.
pub(crate) struct Witness(Folder);

/// The messages to and from one server, or of one HTTP session.
pub(crate) struct Wire {
    pub(crate) asked: Vec<Value>,
    pub(crate) answered: Vec<Value>,
}

/// The processes with this mark that still run after the time in which they must end.
pub(crate) fn left(mark: &str) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let left = running(mark).unwrap();
        if left.is_empty() || begun.elapsed() > GRACE {
            return left;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Kills every process with this mark, so that a failed test leaves no process.
pub(crate) fn kill(mark: &str) {
    for folder in marked(mark).unwrap() {
        let _ = Command::new("kill").arg("-KILL").arg(folder.file_name().unwrap()).status();
    }
}

/// A server's stderr, without messages about slow operations, because on a busy machine every operation is slow, and without
/// the report of a joined server that is connected.
pub(crate) fn complaints(stderr: &str) -> String {
    let slow = "warning: a handler kept the connection's thread";
    let is_complaint =
        |line: &&str| !line.starts_with(slow) && !line.contains(": connected; its tools and prompts ");
    stderr.lines().filter(is_complaint).collect::<Vec<_>>().join("\n")
}

impl Witness {
    pub(crate) fn new(name: &str) -> Self {
        Self(Folder::new(name))
    }

    /// An empty folder, used as the script's home.
    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn mark(&self) -> &str {
        self.folder().to_str().unwrap()
    }

    /// The command line that starts a server with this witness.
    pub(crate) fn words(&self, binary: &OsStr, endpoint: Endpoint) -> Vec<OsString> {
        // Several clients give a server a reduced environment, so the mark is also passed on the command line.
        let mark = format!("{MARK}={}", self.mark());
        let words = ["env", &mark, "sh", "-c", SCRIPT, "witness", self.mark()];
        words
            .into_iter()
            .map(OsString::from)
            .chain([binary.to_owned()])
            .chain(endpoint.words(binary, self.folder()))
            .collect()
    }

    /// Whether the record confirms that this check was right.
    pub(crate) fn bears_out(&self, check: &str, era: &str) -> Result<(), String> {
        match check {
            "open" => self.wires().iter().try_for_each(|wire| wire.speaks(era)),
            "cancel" => {
                match self
                    .wires()
                    .iter()
                    .filter_map(|wire| wire.cancelled(false))
                    .collect::<Result<Vec<_>, _>>()?
                {
                    none if none.is_empty() => Err("no call was ever cancelled".to_owned()),
                    _ => Ok(()),
                }
            }
            "end" => self.ended(),
            _ => Ok(()),
        }
    }

    /// Checks that every started server has ended by itself with success.
    fn ended(&self) -> Result<(), String> {
        let left = running(self.mark()).unwrap();
        if !left.is_empty() {
            return Err(format!("left running: {left:?}"));
        }
        let ends = self.text("ends");
        let line = |wanted: String| ends.lines().any(|line| line == wanted);
        let mut faults = Vec::new();
        for id in ends.lines().filter_map(|line| line.strip_prefix("started ")) {
            if !line(format!("waited {id}")) {
                let asked = Wire::of(self, id).methods().join(", ");
                faults.push(format!("a server was killed instead of left to end, after {asked}"));
            } else if !line(format!("ended {id} 0")) {
                faults.push("a server ended with another exit code than 0".to_owned());
            }
        }
        let stderr = complaints(&self.text("stderr"));
        if !stderr.is_empty() {
            faults.push(format!("a server wrote to stderr: {stderr}"));
        }
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    }

    /// The recorded text with this name.
    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder().join(name)).unwrap_or_default()
    }

    fn wires(&self) -> Vec<Wire> {
        let ends = self.text("ends");
        let ids = ends.lines().filter_map(|line| line.strip_prefix("started "));
        let wires: Vec<_> = ids.map(|id| Wire::of(self, id)).collect();
        assert!(!wires.is_empty(), "no server was ever started");
        wires
    }
}

impl Wire {
    fn of(witness: &Witness, id: &str) -> Self {
        let lines = |name: String| {
            witness.text(&name).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
        };
        Self { asked: lines(format!("asked.{id}")), answered: lines(format!("answered.{id}")) }
    }

    /// The methods of all requests, each once.
    pub(crate) fn methods(&self) -> Vec<&str> {
        let mut methods = Vec::new();
        for method in self.asked.iter().filter_map(|message| message["method"].as_str()) {
            if !methods.contains(&method) {
                methods.push(method);
            }
        }
        methods
    }

    /// Checks that all requests used this era.
    pub(crate) fn speaks(&self, era: &str) -> Result<(), String> {
        let said = |request: &&Value| {
            !request["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_null()
        };
        let mut requests =
            self.asked.iter().filter(|message| !message["id"].is_null() && !message["method"].is_null());
        match era {
            "modern" => requests.try_for_each(|request| {
                let version = &request["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
                if version == MODERN { Ok(()) } else { Err(format!("not of {MODERN}: {request}")) }
            }),
            "legacy" => {
                let opening = requests.next().unwrap_or(&Value::Null);
                if opening["method"] != "initialize" {
                    return Err(format!("opened with {opening}"));
                }
                let version = self
                    .answer(&opening["id"])
                    .map_or(&Value::Null, |answer| &answer["result"]["protocolVersion"]);
                if version != LEGACY {
                    return Err(format!("agreed on {version}"));
                }
                requests.find(said).map_or(Ok(()), |request| Err(format!("of the other era: {request}")))
            }
            era => Err(format!("there is no era {era}")),
        }
    }

    fn answer(&self, id: &Value) -> Option<&Value> {
        self.answered.iter().find(|message| message["id"] == *id && message["method"].is_null())
    }

    /// If a call was cancelled here: checks that it got no response, and that later calls of the session got one. `may_fail`: an error
    /// is none.
    pub(crate) fn cancelled(&self, may_fail: bool) -> Option<Result<(), String>> {
        let calls = |message: &&Value| message["method"] == "tools/call";
        let cancelled = self.asked.iter().position(|message| {
            message["method"] == "notifications/cancelled"
                && self.asked.iter().filter(calls).any(|call| call["id"] == message["params"]["requestId"])
        })?;
        let id = &self.asked[cancelled]["params"]["requestId"];
        let mut later = self.asked[cancelled..].iter().filter(calls);
        Some(match self.answer(id).filter(|answer| !may_fail || answer["error"].is_null()) {
            Some(answer) => Err(format!("a cancelled call was answered: {answer}")),
            None if later.any(|call| self.answer(&call["id"]).is_some()) => Ok(()),
            None => Err("the session did not go on after the cancelled call".to_owned()),
        })
    }
}
