//! Failures: what the command was doing, with which server, for how long, how it ended, and a hint. As text for a person and as one
//! JSON object for a program.
//!
//! Made from the library's errors by the files beside this one, one for each kind, and by the commands. `ui` prints them.

mod address;
mod hints;
mod opening;
mod remote_server;
mod request;
mod start;
mod transport;

use std::fmt::Write;
use std::time::Duration;

use mcpjoin::proto::session::{ProcessExit, TransportErrorReason};
use mcpjoin::proto::{ErrorObject, Raw};
use serde_json::{Value, json};

pub(crate) use self::request::SEE_TOOLS;

use crate::exit::Exit;
use crate::visible::{self, BAD, FAINT, cut_chars};

/// The last lines of a server's standard error that are shown.
const MAX_STDERR_LINES: usize = 12;
/// The length at which a line is truncated.
const MAX_LINE_CHARS: usize = 400;

/// The hint for a program that exited early and did not get all of our variables.
pub(crate) const WITHHELD: &str =
    "the program did not get all of your variables: -e NAME passes one on, --inherit-env all of them";

/// What the command was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Parsing the command line.
    Usage,
    /// Starting the server.
    Spawn,
    /// Connecting to the server.
    Connect,
    /// Probing the era of the server.
    Probe,
    /// Negotiating the version.
    Initialize,
    /// Reading lists.
    List,
    /// Calling a tool.
    Call,
    /// Reading a resource.
    Read,
    /// Getting a prompt.
    Prompt,
    /// Completing an argument.
    Complete,
    /// Sending a ping.
    Ping,
    /// Serving.
    Serve,
    /// Getting an authorization.
    Authorize,
    /// Writing the result.
    Output,
}

impl Phase {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Spawn => "spawn",
            Self::Connect => "connect",
            Self::Probe => "probe",
            Self::Initialize => "initialize",
            Self::List => "list",
            Self::Call => "call",
            Self::Read => "read",
            Self::Prompt => "prompt",
            Self::Complete => "complete",
            Self::Ping => "ping",
            Self::Serve => "serve",
            Self::Authorize => "authorize",
            Self::Output => "output",
        }
    }
}

/// Why a command failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// Stable: scripts may compare it.
    pub(crate) id: &'static str,
    pub(crate) exit: Exit,
    pub(crate) phase: Phase,
    /// One sentence.
    pub(crate) message: String,
    /// What the user can try. A second command has a row of its own ([`or`](Self::or)).
    pub(crate) hint: String,
    pub(crate) seen: Box<Seen>,
}

/// The circumstances of a failure.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// What the user can try in the place of the hint.
    pub(crate) alternative: Option<String>,
    /// The server's command or address, as the user would type it.
    pub(crate) server: Option<String>,
    /// The server is no child of ours.
    pub(crate) listening: bool,
    pub(crate) took: Option<Duration>,
    /// The files in which an entry was searched in vain, then the folders of `PATH` for a program. For a person with `-v` alone.
    pub(crate) searched: Vec<String>,
    /// The exit status of the server.
    pub(crate) status: Option<ProcessExit>,
    /// The last lines of its standard error.
    pub(crate) stderr: Vec<String>,
    /// The first bytes that were no message.
    pub(crate) garbage: Option<String>,
    /// What exactly has failed in the transport.
    pub(crate) reason: Option<TransportErrorReason>,
    /// The status of the response over HTTP that is the failure.
    pub(crate) http_status: Option<u16>,
    /// The response is no message of JSON-RPC.
    pub(crate) is_no_message: bool,
    /// The challenge of the server: the values of `WWW-Authenticate`.
    pub(crate) challenge: Option<String>,
    /// The error with which the server responded.
    pub(crate) remote: Option<ErrorObject>,
}

impl Failure {
    pub(crate) fn new(id: &'static str, exit: Exit, phase: Phase, message: impl Into<String>) -> Self {
        Self { id, exit, phase, message: message.into(), hint: String::new(), seen: Box::default() }
    }

    /// The command line cannot be used.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new("E_USAGE", Exit::Usage, Phase::Usage, message).hint(hint)
    }

    /// The system refuses a resource to this program.
    pub(crate) fn system(phase: Phase, error: &std::io::Error) -> Self {
        Self::new("E_SYSTEM", Exit::Connection, phase, format!("the system refuses: {error}"))
            .hint("check its limits (ulimit -a)")
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Adds what the user can try in the place of the hint.
    #[must_use]
    pub(crate) fn or(mut self, alternative: impl Into<String>) -> Self {
        self.seen.alternative = Some(alternative.into());
        self
    }

    /// Whether it concerns one request alone, so that others can follow.
    pub(crate) fn is_of_one_request(&self) -> bool {
        self.exit == Exit::ServerError || self.id == "E_TOO_LARGE"
    }

    /// Adds the server and the elapsed time.
    #[must_use]
    pub(crate) fn with(mut self, server: &str, took: Duration) -> Self {
        self.seen.server = Some(server.to_owned());
        self.took(took)
    }

    /// Adds how long it took, where that is not known yet.
    #[must_use]
    pub(crate) fn took(mut self, took: Duration) -> Self {
        self.seen.took.get_or_insert(took);
        self
    }

    /// Adds the server's standard error to a failure of the connection, where it has none yet.
    #[must_use]
    pub(crate) fn stderr(mut self, bytes: &[u8]) -> Self {
        if self.seen.stderr.is_empty() && self.exit == Exit::Connection {
            self.keep_stderr(bytes);
        }
        self
    }

    /// Adds that the child has written a text without a line feed at its end, which is no message, where that explains the failure.
    #[must_use]
    pub(crate) fn and_unfinished(mut self, text: &[u8]) -> Self {
        if text.is_empty() || self.seen.garbage.is_some() {
            return self;
        }
        match self.id {
            "E_SILENT" | "E_TIMEOUT" => {
                self.message.push_str("; the server has written a text without a newline at its end");
                self.hint = "let the server end each message with a newline, and flush its output".into();
            }
            "E_SERVER_EXITED" => {
                self.message.push_str("; its last message had no newline at its end");
            }
            _ => return self,
        }
        self.garbage(text)
    }

    /// Adds to the failure of a request without an answer what has come last that was no answer: that may have been it.
    #[must_use]
    pub(crate) fn and_unmatched(mut self, last: Option<String>) -> Self {
        if self.id == "E_TIMEOUT"
            && self.seen.garbage.is_none()
            && let Some(last) = last
            // A list has added it to the failure that it reports.
            && !self.message.contains(&last)
        {
            self.message.push_str("; the server has sent ");
            self.message.push_str(&last);
            self.hint = "that may have been the answer: report it to the server's authors".into();
        }
        self
    }

    /// Adds to the failure of a server that exited before its session opened that it did not get all of our variables.
    #[must_use]
    pub(crate) fn and_withheld(mut self) -> Self {
        let opening = matches!(self.phase, Phase::Spawn | Phase::Probe | Phase::Initialize);
        if opening && self.seen.status.is_some() {
            let between = if self.hint.is_empty() { "" } else { "; " };
            self.hint.push_str(between);
            self.hint.push_str(WITHHELD);
        }
        self
    }

    /// The labels of the server and of its first bytes.
    const fn names(&self) -> (&'static str, &'static str) {
        if self.seen.listening { ("url", "received") } else { ("command", "stdout") }
    }

    /// Stores the last lines of a server's standard error.
    fn keep_stderr(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let lines: Vec<&str> =
            text.lines().map(str::trim_end).filter(|line| !line.trim_start().is_empty()).collect();
        let from = lines.len().saturating_sub(MAX_STDERR_LINES);
        self.seen.stderr = lines[from..].iter().map(|line| cut_chars(line, MAX_LINE_CHARS)).collect();
    }

    /// For a person: the message on one line, and the circumstances below it. `verbose`: with those that are long.
    pub(crate) fn block(&self, verbose: bool) -> String {
        let mut out =
            format!("{BAD}error:{BAD:#} {} {FAINT}({}){FAINT:#}", visible::line(&self.message), self.id);
        let mut row = |label: &str, text: &str| {
            let _ = write!(out, "\n  {FAINT}{label:<8}{FAINT:#} {}", visible::line(text));
        };
        if self.phase != Phase::Usage {
            row("doing", self.phase.as_str());
        }
        if let Some(server) = &self.seen.server {
            row(self.names().0, &cut_chars(server, MAX_LINE_CHARS));
        }
        if let Some(took) = self.seen.took {
            row("after", &seconds(took));
        }
        if let Some(status) = self.seen.status {
            row("ended", &status.to_string());
        }
        for (place, searched) in self.seen.searched.iter().enumerate().filter(|_| verbose) {
            row(if place == 0 { "searched" } else { "" }, searched);
        }
        for (place, line) in self.seen.stderr.iter().enumerate() {
            row(if place == 0 { "stderr" } else { "" }, line);
        }
        if let Some(garbage) = &self.seen.garbage {
            row(self.names().1, garbage);
        }
        if let Some(data) = self.seen.remote.as_ref().and_then(|error| error.data.as_ref()) {
            row("data", &cut_chars(data.as_str(), MAX_LINE_CHARS));
        }
        if let Some(challenge) = &self.seen.challenge {
            row("asked", challenge);
        }
        if !self.hint.is_empty() {
            row("try", &self.hint);
        }
        if let Some(alternative) = &self.seen.alternative {
            row("or", alternative);
        }
        out
    }

    /// For a program: `{"error": {...}}`. Unknown members are absent.
    pub(crate) fn json(&self) -> Value {
        let (server, first_bytes) = self.names();
        let status = self.seen.status.map(|status| match status {
            ProcessExit::Code(code) => json!({ "code": code }),
            ProcessExit::Signal(signal) => json!({ "signal": signal }),
        });
        let remote = self.seen.remote.as_ref().map(|remote| {
            // Data that serde_json refuses is shown as text.
            let parsed =
                |data: &Raw| serde_json::from_str(data.as_str()).unwrap_or_else(|_| json!(data.as_str()));
            let mut answer = json!({ "code": remote.code, "message": remote.message });
            if let Some(data) = &remote.data {
                answer["data"] = parsed(data);
            }
            answer
        });
        let hints: Vec<&str> =
            [&self.hint].into_iter().chain(&self.seen.alternative).map(String::as_str).collect();
        let took = self.seen.took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        let mut error = json!({
            "id": self.id,
            "message": self.message,
            "exitCode": self.exit.code(),
            "phase": self.phase.as_str(),
            server: self.seen.server,
            "elapsedMs": took,
            "searched": Some(&self.seen.searched).filter(|searched| !searched.is_empty()),
            "status": status,
            "stderr": Some(&self.seen.stderr).filter(|lines| !lines.is_empty()),
            first_bytes: self.seen.garbage,
            "challenge": self.seen.challenge,
            "jsonrpc": remote,
            "hint": Some(hints.join(", or ")).filter(|hint| !hint.is_empty()),
        });
        if let Value::Object(members) = &mut error {
            members.retain(|_, value| !value.is_null());
        }
        json!({ "error": error })
    }
}

/// A duration for a person.
pub(crate) fn seconds(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{} ms", time.as_millis())
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests;
