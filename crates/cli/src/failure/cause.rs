//! From the library's errors to failures: the stable id, the exit code, and what to try.

use mcpjoin::client::ClientError;
use mcpjoin::link::{HttpListenError, SocketError, SocketErrorKind, SpawnError, SpawnErrorKind};
use mcpjoin::proto::scan::Encoding;
use mcpjoin::proto::session::{
    CallError, CallRefused, CloseCause, LinkEnd, LinkEndKind, LinkError, LinkErrorKind, OpeningFailure,
    ProcessExit, foreign_protocol,
};
use mcpjoin::proto::{ErrorObject, Method, code};
use mcpjoin_quic::endpoint::{QuicError, QuicErrorKind};

use super::{Failure, Phase};
use crate::exit::Exit;

const SEE_STDERR: &str =
    "run the command by itself in a terminal; -v shows everything that it writes to standard error";
const INSTALL: &str = "install the program, add its folder to PATH, or give its path";
const MAYBE_DONE: &str = "the server may have done it or not: look before you try again";
/// What our bridge says where no orchestrator was reached; what stands before it is which one, and what after it is why.
const NO_ORCHESTRATOR: &str = ": the orchestrator was not reached within ";
const TELL: &str = "this is a fault of the server: tell its authors";

impl Failure {
    /// The server's program could not be started.
    pub(crate) fn spawn(error: &SpawnError) -> Self {
        let (id, hint) = match &error.kind {
            SpawnErrorKind::NotFound { .. } if is_address(&error.command) => (
                "E_SPAWN_NOT_FOUND",
                "where an address is meant, write https://, http:// or tcp:// before it",
            ),
            SpawnErrorKind::NotFound { searched } if searched.is_empty() => {
                ("E_SPAWN_NOT_FOUND", "check the path; it counts from the server's working directory (--cwd)")
            }
            SpawnErrorKind::NotFound { .. } => ("E_SPAWN_NOT_FOUND", INSTALL),
            SpawnErrorKind::NotExecutable { .. } if is_configuration(&error.command) => (
                "E_SPAWN_NOT_EXECUTABLE",
                "a configuration is named with --config FILE, and an entry of it with FILE#NAME",
            ),
            SpawnErrorKind::NotExecutable { .. } => {
                ("E_SPAWN_NOT_EXECUTABLE", "chmod +x the file, or name its interpreter first")
            }
            SpawnErrorKind::NoInterpreter { .. } => (
                "E_SPAWN_NO_INTERPRETER",
                "install the interpreter in the file's first line, or name another one first",
            ),
            SpawnErrorKind::IsDirectory { .. } => ("E_SPAWN_DIRECTORY", "name a program inside it"),
            SpawnErrorKind::WorkingDirectory { .. } => {
                ("E_SPAWN_CWD", "give --cwd a directory that exists and may be entered")
            }
            _ => ("E_SPAWN", "look at the limits of this system (ulimit -a) and at the command's arguments"),
        };
        Self::new(id, Exit::Connection, Phase::Spawn, error.to_string()).hint(hint)
    }

    /// The same where the one word that is no program could have been an entry: `no_entry` says that it is none.
    #[must_use]
    pub(crate) fn and_no_entry(mut self, no_entry: Option<&str>) -> Self {
        let is_told = |no_entry: &str| self.message.starts_with(no_entry);
        if let Some(no_entry) = no_entry.filter(|it| self.id == "E_SPAWN_NOT_FOUND" && !is_told(it)) {
            self.message = format!("{no_entry}; {}", self.message);
            if self.hint == INSTALL {
                self.hint = format!("name an entry (mcpjoin servers shows them), {INSTALL}");
            }
        }
        self
    }

    /// Nobody could be reached at the address.
    pub(crate) fn connect(error: &SocketError) -> Self {
        let (id, exit, hint) = match &error.kind {
            SocketErrorKind::Address(_) => {
                ("E_USAGE", Exit::Usage, "tcp://host:port, with an IPv6 address in brackets")
            }
            SocketErrorKind::Resolve(_) => ("E_RESOLVE", Exit::Connection, "check the name of the host"),
            SocketErrorKind::TimedOut { .. } | SocketErrorKind::NotAccepted { .. } => (
                "E_CONNECT",
                Exit::Connection,
                "is the server busy, or a firewall in between? --connect-timeout 30s waits longer",
            ),
            _ => ("E_CONNECT", Exit::Connection, "does a server listen there, and may you reach it?"),
        };
        Self::new(id, exit, Phase::Connect, error.to_string()).hint(hint)
    }

    /// Nobody could be reached at the address over QUIC, or the two sides do not take each other for who they should be.
    pub(crate) fn quic(error: &QuicError) -> Self {
        let (id, exit, hint) = match &error.kind {
            QuicErrorKind::Address => {
                ("E_USAGE", Exit::Usage, "quic://host:port, with an IPv6 address in brackets")
            }
            QuicErrorKind::Resolve(_) => ("E_RESOLVE", Exit::Connection, "check the name of the host"),
            QuicErrorKind::Certificate(_) => ("E_USAGE", Exit::Usage, "mend the file, or name another one"),
            QuicErrorKind::TimedOut { .. } => (
                "E_CONNECT",
                Exit::Connection,
                "does a server listen there, or is a firewall in between? QUIC goes over UDP; --connect-timeout 30s waits longer",
            ),
            QuicErrorKind::Protocol { .. } => {
                ("E_NO_ENDPOINT", Exit::Connection, "is it an MCP server over QUIC that listens there?")
            }
            QuicErrorKind::Refused(_) => (
                "E_TLS",
                Exit::Connection,
                "--pin sha256:HEX names the server's key, which it prints; --ca FILE the authority that has signed its certificate",
            ),
            QuicErrorKind::RefusedByPeer { .. } => (
                "E_AUTH",
                Exit::Authorization,
                "say who you are with --cert FILE --key FILE: a certificate that an authority of the server has signed",
            ),
            QuicErrorKind::Unreached(_) => {
                ("E_CONNECT", Exit::Connection, "does a server listen there, and may you reach it?")
            }
            _ => ("E_LINK", Exit::Connection, "try again; see what the server itself says about it"),
        };
        Self::new(id, exit, Phase::Connect, error.to_string()).hint(hint)
    }

    /// Nobody can be waited for at the address over QUIC.
    pub(crate) fn listen_quic(error: &QuicError) -> Self {
        let (id, hint) = match &error.kind {
            QuicErrorKind::Address => ("E_USAGE", "quic://host:port, with an IPv6 address in brackets"),
            QuicErrorKind::Certificate(_) => ("E_USAGE", "mend the file, or name another one"),
            _ => ("E_LISTEN", "is the address free, and may you use it? port 0 takes any that is free"),
        };
        Self::new(id, Exit::Usage, Phase::Serve, error.to_string()).hint(hint)
    }

    /// Nobody can be waited for at the address.
    pub(crate) fn listen(error: &SocketError) -> Self {
        let is_a_file = error.target.starts_with("unix:");
        let (id, hint) = match &error.kind {
            SocketErrorKind::Address(_) => ("E_USAGE", "tcp://host:port, with an IPv6 address in brackets"),
            SocketErrorKind::NotASocket => ("E_LISTEN", "name another file"),
            SocketErrorKind::InUse if is_a_file => ("E_LISTEN", "end that server, or name another file"),
            _ if is_a_file => {
                ("E_LISTEN", "is the folder there, may you write to it, and is the path short enough?")
            }
            _ => ("E_LISTEN", "is the address free, and may you use it? port 0 takes any that is free"),
        };
        Self::new(id, Exit::Usage, Phase::Serve, error.to_string()).hint(hint)
    }

    /// The same over HTTP.
    pub(crate) fn listen_http(error: &HttpListenError) -> Self {
        let (id, hint) = match error {
            HttpListenError::Url { .. } => {
                ("E_USAGE", "http://host:port/path, with an IPv6 address in brackets")
            }
            _ => ("E_LISTEN", "is the address free, and may you use it? port 0 takes any that is free"),
        };
        Self::new(id, Exit::Usage, Phase::Serve, error.to_string()).hint(hint)
    }

    /// The same where the server is reached over HTTP.
    #[must_use]
    pub(crate) fn over_http(mut self) -> Self {
        self.seen.listening = true;
        if matches!(self.phase, Phase::Probe | Phase::Initialize) && is_of_a_link(self.id) {
            // Its message names the request; what was to be found out by it matters no more.
            self.phase = Phase::Connect;
        }
        if matches!(self.id, "E_NOT_MCP" | "E_SILENT") {
            return self
                .hint("is it an MCP server that listens there? a slow start takes --connect-timeout 2m");
        }
        self.over_a_socket()
    }

    /// The same where the server is none of our children: what is known of it and what can be tried is less.
    #[must_use]
    pub(crate) fn over_a_socket(mut self) -> Self {
        self.seen.listening = true;
        let hint = match self.id {
            "E_SERVER_EXITED" => {
                (self.id, self.message) = ("E_CLOSED", "the server closed the connection".into());
                if self.seen.garbage.as_deref().is_some_and(is_of_the_web) {
                    "that is a web server: write http:// in place of tcp://"
                } else {
                    "see what the server itself says about it; is it an MCP server, without TLS or HTTP, that listens there?"
                }
            }
            "E_NOT_MCP" | "E_SILENT" => match self.foreign() {
                Some("HTTP") => "that is a web server: write http:// in place of tcp://",
                Some("TLS") => "that port is for TLS: write https:// in place of tcp://, if it is for HTTPS",
                Some("SSH") => "check the port; a server behind SSH is a command: -- ssh host command",
                Some(_) => "check the host and the port",
                None => "is it an MCP server, without TLS or HTTP, that listens there?",
            },
            "E_STALLED" => "the server has stopped reading: see what it waits for",
            _ => return self,
        };
        self.hint(hint)
    }

    /// Names the protocol of another kind of server by what it has said, where that is known.
    fn foreign(&mut self) -> Option<&'static str> {
        let protocol = foreign_protocol(self.seen.garbage.as_deref()?.as_bytes())?;
        self.message = format!("what listens there speaks {protocol}, and is no MCP server");
        Some(protocol)
    }

    /// The connection ended, or never began. `phase` says what was being done.
    pub(crate) fn closed(cause: &CloseCause, phase: Phase) -> Self {
        match cause {
            CloseCause::Opening(failure) => Self::opening(failure, phase),
            CloseCause::Link(end) => Self::link(end, phase),
            CloseCause::Stalled { .. } => Self::new("E_STALLED", Exit::Connection, phase, cause.to_string())
                .hint("the server has stopped reading its standard input: see what it waits for"),
            _ => Self::new("E_CLOSED", Exit::Connection, phase, cause.to_string())
                .hint("try again; -v shows what the server says"),
        }
    }

    fn opening(failure: &OpeningFailure, phase: Phase) -> Self {
        let came = match failure {
            OpeningFailure::TimedOut { garbage, .. } | OpeningFailure::Ended { garbage, .. } => {
                garbage.as_ref()
            }
            OpeningFailure::Garbage { first, .. } => Some(first),
            _ => None,
        };
        let known = Self::not_opened(failure, phase);
        // The beginning of other protocols may look like a text.
        match came.filter(|first| foreign_protocol(first).is_none()).and_then(|first| Encoding::of(first)) {
            Some(encoding) => known.in_encoding(encoding),
            None => known,
        }
    }

    /// The server writes a text of that encoding where messages are to come.
    fn in_encoding(mut self, encoding: Encoding) -> Self {
        self.message = format!("what the server writes is {encoding}, and messages are plain UTF-8");
        self.id = "E_ENCODING";
        self.hint("have the server write UTF-8, without a byte order mark")
    }

    fn not_opened(failure: &OpeningFailure, phase: Phase) -> Self {
        let asked = |method: &Method| {
            if *method == Method::Initialize { Phase::Initialize } else { Phase::Probe }
        };
        let new =
            |id, phase, hint: &str| Self::new(id, Exit::Connection, phase, failure.to_string()).hint(hint);
        match failure {
            OpeningFailure::Unsent { method, .. } => {
                Self::new("E_TOO_LARGE", Exit::Usage, asked(method), failure.to_string())
                    .hint("raise --max-message-size")
            }
            OpeningFailure::UnsupportedVersion { .. } => new(
                "E_VERSION",
                Phase::Initialize,
                "leave out --protocol-version, or ask for one that the server speaks",
            ),
            OpeningFailure::NoCommonVersion { .. } => {
                new("E_VERSION", Phase::Probe, "leave out --protocol-version and --era, or update the server")
            }
            OpeningFailure::Echo { method } => new(
                "E_NOT_MCP",
                asked(method),
                "is this command an MCP server on standard input and output? run it by itself in a terminal, and see what it prints",
            ),
            OpeningFailure::UnknownReply { method, .. } => new("E_BAD_REPLY", asked(method), TELL),
            OpeningFailure::Refused { method, error } => {
                let mut failure = new("E_REFUSED", asked(method), advice(error));
                failure.seen.remote = Some(error.clone());
                failure
            }
            // As of every other answer that is longer than was let in.
            OpeningFailure::BadReply { method, problem }
                if problem.starts_with("longer than the limit of ") =>
            {
                new("E_TOO_LARGE", asked(method), "raise the limit with --max-message-size")
            }
            OpeningFailure::BadReply { method, .. } => new("E_BAD_REPLY", asked(method), TELL),
            OpeningFailure::TimedOut { method, after, garbage } => {
                let mut failure = match garbage {
                    Some(_) => new(
                        "E_NOT_MCP",
                        asked(method),
                        "a server may write nothing but messages to its standard output: see what this command prints",
                    ),
                    None => new(
                        "E_SILENT",
                        asked(method),
                        "is this command an MCP server on standard input and output? a slow start takes --connect-timeout 2m",
                    ),
                };
                if garbage.is_some() {
                    // What came has a row of its own.
                    let bare =
                        OpeningFailure::TimedOut { method: method.clone(), after: *after, garbage: None };
                    failure.message = format!("{bare}, but lines that are no messages");
                }
                failure.seen.garbage = garbage.as_deref().map(excerpt);
                failure
            }
            OpeningFailure::Garbage { lines, first } => {
                let mut failure = new(
                    "E_NOT_MCP",
                    phase,
                    "a server may write nothing but messages to its standard output: see what this command prints",
                );
                failure.message = match lines {
                    1 => "a line came that is no message".to_owned(),
                    lines => format!("{lines} lines came that are no messages"),
                };
                failure.seen.garbage = Some(excerpt(first));
                failure
            }
            OpeningFailure::Ended { last, probe, garbage } => {
                let mut failure = Self::link(last, if probe.is_some() { Phase::Initialize } else { phase });
                failure.seen.garbage = garbage.as_deref().map(excerpt);
                if failure.seen.stderr.is_empty()
                    && let Some(probe) = probe
                {
                    failure.keep_stderr(&probe.stderr);
                }
                failure
            }
            _ => new("E_OPENING", phase, SEE_STDERR),
        }
    }

    fn link(end: &LinkEnd, phase: Phase) -> Self {
        let mut failure = match &end.kind {
            LinkEndKind::Failed(error) => Self::broken(error, phase),
            kind => Self::ended(kind, end.exit, phase),
        };
        failure.seen.status = end.exit;
        failure.keep_stderr(&end.stderr);
        failure
    }

    /// The server is gone, and no error came before.
    fn ended(kind: &LinkEndKind, exit: Option<ProcessExit>, phase: Phase) -> Self {
        let early = matches!(phase, Phase::Probe | Phase::Initialize | Phase::Spawn);
        if let LinkEndKind::CutOff { received } = kind {
            let ended = if exit.is_some() { "ended" } else { "closed the connection" };
            let message =
                format!("the reply was cut off: the server {ended} after {received} bytes of a message");
            let hint =
                if phase == Phase::Call { MAYBE_DONE } else { "try again; -v shows what the server says" };
            return Self::new("E_CUT_OFF", Exit::Connection, phase, message).hint(hint);
        }
        let (id, message, hint) = match (kind, exit) {
            (_, Some(ProcessExit::Code(126 | 127))) => (
                "E_SERVER_EXITED",
                "the server ended at once",
                "exit codes 126 and 127 mean that a command inside this one was not found or may not be run: check its words and PATH",
            ),
            (_, Some(ProcessExit::Signal(9))) => (
                "E_SERVER_EXITED",
                "the server was killed",
                "signal 9 without anybody's doing means that memory ran out: look at the system's log",
            ),
            (LinkEndKind::EndOfStream, None) => (
                "E_SERVER_EXITED",
                "the server closed its standard output",
                "a server must keep it open for as long as it is one; -v shows what it writes to standard error",
            ),
            _ if early => ("E_SERVER_EXITED", "the server ended before it could be talked to", SEE_STDERR),
            (_, Some(ProcessExit::Code(0))) => (
                "E_SERVER_EXITED",
                "the server ended by itself, as if all were done, before it had answered",
                "its main function may return too soon, or something that it calls exits with 0; -v shows what it writes to standard error",
            ),
            _ => ("E_SERVER_EXITED", "the server ended in the middle of the conversation", SEE_STDERR),
        };
        Self::new(id, Exit::Connection, phase, message).hint(hint)
    }

    /// A link has failed, as a whole or for one request.
    fn broken(error: &LinkError, phase: Phase) -> Self {
        let (id, exit, what, hint) = match error.kind {
            LinkErrorKind::Unreached => (
                "E_CONNECT",
                Exit::Connection,
                "no connection",
                // Where there is one, every error of the link names it.
                if error.message.contains("through the proxy ") {
                    "is that the proxy to use? NO_PROXY names the hosts that are reached without one"
                } else if error.message.contains("does not speak TLS on that port") {
                    "write http:// in place of https://, if the server encrypts nothing; or name the port for HTTPS"
                } else {
                    "does a server listen there, and may you reach it?"
                },
            ),
            LinkErrorKind::Untrusted => (
                "E_TLS",
                Exit::Connection,
                "no trusted connection",
                "--ca FILE trusts one more authority, for servers inside a company for example",
            ),
            LinkErrorKind::Unauthorized => (
                "E_AUTH",
                Exit::Authorization,
                "the server does not let us in",
                "say who you are: --header 'Authorization: Bearer ...', or --header @FILE; if you did, it is not accepted",
            ),
            LinkErrorKind::Foreign => (
                "E_NO_ENDPOINT",
                Exit::Connection,
                "what answers there is no MCP server",
                "is the path right? It is often /mcp, or /sse for the HTTP+SSE of 2024-11-05",
            ),
            _ => {
                let unencrypted = error.message.contains(" http://");
                let hint = match phase {
                    Phase::Call => MAYBE_DONE,
                    _ if error.message.contains("go round in a circle") => {
                        "try https:// in place of http://, and the path with and without a / at its end; then look at the rules of the proxy before the server"
                    }
                    // What speaks TLS alone hangs up on a request that is none of it.
                    _ if unencrypted && error.message.contains("broke before a response came") => {
                        "write https:// in place of http://, if that port is for HTTPS; otherwise see what the server itself says about it"
                    }
                    _ if error.retryable => "try again; -v shows what the server says",
                    _ => {
                        "the same will fail again: check the address, and see what the server itself says about it"
                    }
                };
                ("E_LINK", Exit::Connection, "the connection failed", hint)
            }
        };
        Self::new(id, exit, phase, format!("{what}: {error}")).hint(hint)
    }

    /// A request brought no result, as the client sees it.
    pub(crate) fn client(error: &ClientError, phase: Phase) -> Self {
        match error {
            ClientError::Call(error) => Self::call(error, phase),
            ClientError::BadParams { .. } => {
                Self::new("E_USAGE", Exit::Usage, phase, error.to_string()).hint("check the arguments")
            }
            ClientError::UndeclaredInput { .. } | ClientError::InputFailed { .. } => {
                Self::needs_input(error.to_string(), phase)
            }
            ClientError::UnknownTask { error: remote, .. } => {
                let mut failure = Self::new("E_UNKNOWN_TASK", Exit::ServerError, phase, error.to_string())
                    .hint("is it the id that was printed, and the same server? it may be kept no longer: begin it again");
                failure.seen.remote = Some((**remote).clone());
                failure
            }
            ClientError::TaskCancelled { .. } => {
                Self::new("E_TASK_CANCELLED", Exit::ServerError, phase, error.to_string())
                    .hint("begin it again; -v shows what the server says about it")
            }
            ClientError::TaskTimedOut { .. } => {
                Self::new("E_TIMEOUT", Exit::Connection, phase, error.to_string())
                    .hint("ask for less: the server keeps the task no longer")
            }
            _ => Self::bad_reply(error.to_string(), phase),
        }
    }

    /// The server answered with something that is no answer.
    pub(crate) fn bad_reply(message: impl Into<String>, phase: Phase) -> Self {
        Self::new("E_BAD_REPLY", Exit::ServerError, phase, message).hint(TELL)
    }

    /// The server asked for what this program does not give.
    pub(crate) fn needs_input(message: impl Into<String>, phase: Phase) -> Self {
        Self::new("E_NEEDS_INPUT", Exit::ServerError, phase, message)
            .hint("this needs a client that can answer questions; mcpjoin asks nobody")
    }

    /// A request brought no result.
    pub(crate) fn call(error: &CallError, phase: Phase) -> Self {
        let new = |id, exit, hint: &str| Self::new(id, exit, phase, error.to_string()).hint(hint);
        match error {
            CallError::Remote(object) => Self::remote(object, phase),
            CallError::TimedOut { total, .. } => {
                let hint = if *total {
                    "ask for less: no call may take longer in all"
                } else {
                    "give it more time with --timeout 5m; -v shows what the server says meanwhile"
                };
                new("E_TIMEOUT", Exit::Connection, hint)
            }
            CallError::Closed(cause) => Self::closed(cause, phase),
            // Once there was a connection it is no matter of the address.
            CallError::Lost(error)
                if !matches!(error.kind, LinkErrorKind::Broken | LinkErrorKind::Foreign) =>
            {
                Self::broken(error, phase)
            }
            CallError::Lost(error) => {
                let hint = if phase == Phase::Call {
                    MAYBE_DONE
                } else {
                    "try again; -v shows what the server says"
                };
                Self::new("E_LOST", Exit::Connection, phase, format!("no answer came: {error}")).hint(hint)
            }
            // The limit is ours: the server has done nothing wrong.
            CallError::ReplyTooLarge { .. } => {
                new("E_TOO_LARGE", Exit::Connection, "raise the limit with --max-message-size")
            }
            CallError::BadReply { .. } => new("E_BAD_REPLY", Exit::ServerError, TELL),
            CallError::Refused(CallRefused::TooLarge { .. }) => {
                new("E_TOO_LARGE", Exit::Usage, "raise the limit with --max-message-size")
            }
            CallError::Refused(CallRefused::Undeclared { .. } | CallRefused::NotInVersion { .. }) => {
                new("E_NOT_OFFERED", Exit::ServerError, "mcpjoin list shows what this server offers")
            }
            CallError::Refused(CallRefused::Closed | CallRefused::NotOpen) => {
                new("E_CLOSED", Exit::Connection, "try again; -v shows what the server says")
            }
            _ => new("E_CALL", Exit::Connection, "try again"),
        }
    }

    /// The server answered with an error.
    pub(crate) fn remote(error: &ErrorObject, phase: Phase) -> Self {
        // Nobody has answered but our own bridge.
        if error.code == code::INTERNAL_ERROR
            && error.message.starts_with("orchestrator ")
            && let Some((_, why)) = error.message.split_once(" failed: ")
            && why.contains(NO_ORCHESTRATOR)
        {
            return Self::new("E_CONNECT", Exit::Connection, phase, why.to_owned())
                .hint("does an orchestrator listen there? mcpjoin doctor orchestra://HOST:PORT finds out");
        }
        let hint = match (error.code, phase) {
            (code::INVALID_PARAMS, Phase::Call) => {
                "mcpjoin list shows the tools; list --json shows what each takes"
            }
            (code::INVALID_PARAMS | code::RESOURCE_NOT_FOUND, Phase::Read) => {
                "mcpjoin list shows the resources and the templates that URIs are made from"
            }
            (code::INVALID_PARAMS, Phase::Prompt | Phase::Complete) => {
                "mcpjoin list --json shows the prompts, what each takes, and the resource templates"
            }
            (code::METHOD_NOT_FOUND, _) => "mcpjoin list shows what this server offers",
            (code::MISSING_REQUIRED_CLIENT_CAPABILITY, _) => {
                "this asks its client for something that this command does not do"
            }
            _ => "-v shows what the server says about it",
        };
        let mut failure = Self::new("E_SERVER_ERROR", Exit::ServerError, phase, error.to_string()).hint(hint);
        failure.seen.remote = Some(error.clone());
        failure
    }
}

/// What to do about the error with which a connection was not opened. A bridge says in `data` that the error is its own:
/// then the era is not at fault.
fn advice(error: &ErrorObject) -> &'static str {
    let kind = error.data.as_ref().and_then(|data| data.member("gateway"));
    match kind.as_ref().and_then(|kind| kind.to_string_value()).as_deref() {
        None => "try another --era or --protocol-version",
        Some("tooManyServers") => {
            "come again when another client has left, or raise the limit of that bridge with --max-sessions"
        }
        Some("tooManyStarts") => {
            "come again in some seconds: that bridge starts only so many servers a second for one client"
        }
        Some("closed") => "come again when that bridge runs again",
        Some(_) => {
            "look at the server behind that bridge: the bridge itself says on its standard error what is wrong with it"
        }
    }
}

/// Whether it is said by a link of itself.
fn is_of_a_link(id: &str) -> bool {
    matches!(id, "E_AUTH" | "E_CONNECT" | "E_LINK" | "E_NO_ENDPOINT" | "E_TLS")
}

/// Whether a word without a scheme looks like the address of a server: `localhost:8080`, `127.0.0.1:8080/mcp`,
/// `example.com/mcp`.
fn is_address(word: &str) -> bool {
    let Some((host, rest)) = word.split_once(':') else {
        let name = word.split_once('/').map_or("", |(name, _)| name);
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
        return plain && name.trim_start_matches('.').contains('.') && !name.starts_with('.');
    };
    let port = rest.split('/').next().unwrap_or_default();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(port) && !host.is_empty() && !host.contains('/')
}

/// Whether a word is the name of a configuration.
fn is_configuration(word: &str) -> bool {
    let extension = word.rsplit_once('.').map_or("", |(_, extension)| extension);
    ["json", "jsonc", "toml"].contains(&extension)
}

/// Whether what came is what servers of the web send.
fn is_of_the_web(text: &str) -> bool {
    let text = text.trim_start().to_ascii_lowercase();
    ["http/", "<!doctype", "<html"].iter().any(|start| text.starts_with(start))
}

/// The first bytes of what was no message.
fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
