//! From the library's errors to failures: the stable id, the exit code, and what to try.

use std::net::Ipv4Addr;

use mcpjoin::client::ClientError;
use mcpjoin::proto::scan::Encoding;
use mcpjoin::proto::session::{
    CallError, CallRefused, CloseCause, NegotiationFailure, ProcessExit, ResponseProblem, TransportEnd,
    TransportEndKind, TransportError, TransportErrorKind, TransportErrorReason as Reason, foreign_protocol,
};
use mcpjoin::proto::{DecodeErrorKind, ErrorObject, Method, Version, code};
use mcpjoin::server::BuildError;
use mcpjoin::transport::{HttpListenError, SocketError, SocketErrorKind, SpawnError, SpawnErrorKind};
use mcpjoin_diagnostics::doctor::{KnownFault, listening_url};
use mcpjoin_orchestra::client::{SetupError, Unreached};
use mcpjoin_quic::endpoint::{QuicError, QuicErrorKind};

use super::{Failure, Phase};
use crate::config::NoEntry;
use crate::exit::Exit;
use crate::target::{path_shown, shown};

const SEE_STDERR: &str = "run the command by itself in a terminal; -v shows its standard error";
const STDERR_SAYS: &str = "its standard error says why; mcpjoin doctor with the same command shows more";
const INSTALL: &str = "install the program, add its folder to PATH, or use its path";
/// The end of hints about a child, whose standard error we have.
const SHOWS_STDERR: &str = "-v shows the server's standard error";
const MAYBE_DONE: &str = "the request may have been executed: check before you try again";
const TRY_AGAIN: &str = "try again; -v shows the server's standard error";
const TELL: &str = "this is a bug in the server: report it to its authors";
const RAISE_LIMIT: &str = "raise the limit with --max-message-size";
const CHECK_HOST: &str = "check the host name";
const MEND_FILE: &str = "fix the file, or use another one";
const CONFIGURATION: &str = "for a configuration use --config FILE, for one of its entries FILE#NAME";
const NOT_STARTED: &str = "start the server, or check the host and the port";
const NOT_LISTENING: &str = "check that a server listens there, and that you can reach it";
const ADDRESS_TAKEN: &str = "check that the address is free and permitted; port 0 uses any free port";
const TCP_FORM: &str = "tcp://host:port, with an IPv6 address in brackets";
const QUIC_FORM: &str = "quic://host:port, with an IPv6 address in brackets";
const WEB_SERVER: &str = "this is a web server: use http:// instead of tcp://";
const STDOUT_IS_FOR_MESSAGES: &str =
    "a server may write only messages to its standard output: check the output of this command";
/// The hint for a call that the server does not accept, where no better command line is known.
pub(crate) const SEE_TOOLS: &str = "mcpjoin list shows the tools, and mcpjoin tool NAME their parameters";

impl Failure {
    /// The program of the server could not be started.
    pub(crate) fn spawn(error: &SpawnError) -> Self {
        let (id, hint) = match &error.kind {
            SpawnErrorKind::NotFound { .. } if is_configuration(&error.command) => {
                ("E_SPAWN_NOT_FOUND", CONFIGURATION)
            }
            SpawnErrorKind::NotFound { .. } if is_address(&error.command) => {
                ("E_SPAWN_NOT_FOUND", "for an address, write https://, http:// or tcp:// before it")
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
        if let (SpawnErrorKind::NotFound { .. }, Some(url)) = (&error.kind, url_meant(&error.command)) {
            failure.hint = format!("for an address write {url}");
        }
        if let SpawnErrorKind::NotFound { searched } = &error.kind
            && !searched.is_empty()
        {
            failure.message =
                format!("cannot start {}: no such program on PATH", shown(error.command.as_ref()));
            for folder in searched.iter().map(|folder| path_shown(folder)) {
                if !failure.seen.searched.contains(&folder) {
                    failure.seen.searched.push(folder);
                }
            }
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

    /// The connection to a socket failed.
    pub(crate) fn connect(error: &SocketError) -> Self {
        let (id, hint) = match &error.kind {
            SocketErrorKind::Address(_) => ("E_USAGE", TCP_FORM),
            SocketErrorKind::Resolve(_) => ("E_RESOLVE", CHECK_HOST),
            SocketErrorKind::TimedOut { .. } | SocketErrorKind::NotAccepted { .. } => (
                "E_CONNECT",
                "check that the server is not busy, and that no firewall blocks it; --connect-timeout 30s \
                 waits longer",
            ),
            _ if error.target.starts_with("unix:") => {
                ("E_CONNECT", "start the server, which creates the socket, or check the path")
            }
            _ => ("E_CONNECT", NOT_STARTED),
        };
        Self::to_connect(id, error.to_string()).hint(hint)
    }

    /// The connection over QUIC failed, or one side did not accept the certificate of the other.
    pub(crate) fn quic(error: &QuicError) -> Self {
        let (id, hint) = match &error.kind {
            QuicErrorKind::Address => ("E_USAGE", QUIC_FORM),
            QuicErrorKind::Resolve(_) => ("E_RESOLVE", CHECK_HOST),
            QuicErrorKind::Certificate(_) => ("E_USAGE", MEND_FILE),
            QuicErrorKind::TimedOut { .. } => (
                "E_CONNECT",
                "check that a server listens there, and that no firewall blocks UDP; --connect-timeout 30s \
                 waits longer",
            ),
            QuicErrorKind::Protocol { .. } => {
                ("E_NO_ENDPOINT", "check that an MCP server over QUIC listens there")
            }
            QuicErrorKind::Refused(_) => (
                "E_TLS",
                "use --pin sha256:HEX with the server's key, from its output, or --ca FILE with the \
                 authority that signed its certificate",
            ),
            QuicErrorKind::RefusedByPeer { .. } => (
                "E_AUTH",
                "use --cert FILE --key FILE, with a certificate signed by an authority that the server \
                 trusts",
            ),
            QuicErrorKind::Unreached(_) => ("E_CONNECT", NOT_LISTENING),
            _ => ("E_LINK", "try again; see the server's own log"),
        };
        Self::to_connect(id, error.to_string()).hint(hint)
    }

    /// The bridge to an orchestrator could not be set up, or one of the two sides rejects the other: a retry would not help.
    pub(crate) fn orchestra(error: &SetupError) -> Self {
        let message = error.to_string();
        match error {
            SetupError::Address(_) => Self::usage(message, "--orchestrator-addr localhost:50100"),
            SetupError::Certificate(_) => Self::new("E_CERTIFICATE", Exit::Usage, Phase::Connect, message)
                .hint("--certs-dir DIR names another folder of certificates"),
            _ => Self::new("E_CERTIFICATE", Exit::Usage, Phase::Connect, message).hint(
                "both ends need certificates of one authority (--certs-dir), and the name in the other's \
                 (--server-name orchestrator); an orchestrator knows them as they are when it is started again",
            ),
        }
    }

    /// The server of the bridge to an orchestrator could not be built.
    pub(crate) fn orchestra_bridge(error: &BuildError) -> Self {
        Self::new("E_BRIDGE", Exit::Usage, Phase::Serve, error.to_string())
            .hint("report it to the authors of mcpjoin")
    }

    fn to_connect(id: &'static str, message: String) -> Self {
        let exit = match id {
            "E_USAGE" => Exit::Usage,
            "E_AUTH" => Exit::Authorization,
            _ => Exit::Connection,
        };
        Self::new(id, exit, Phase::Connect, message)
    }

    /// The address over QUIC cannot be listened on.
    pub(crate) fn listen_quic(error: &QuicError) -> Self {
        let (id, hint) = match &error.kind {
            QuicErrorKind::Address => ("E_USAGE", QUIC_FORM),
            QuicErrorKind::Certificate(_) => ("E_USAGE", MEND_FILE),
            _ => ("E_LISTEN", ADDRESS_TAKEN),
        };
        Self::new(id, Exit::Usage, Phase::Serve, error.to_string()).hint(hint)
    }

    /// The socket cannot be listened on.
    pub(crate) fn listen(error: &SocketError) -> Self {
        let is_a_file = error.target.starts_with("unix:");
        let (id, hint) = match &error.kind {
            SocketErrorKind::Address(_) => ("E_USAGE", TCP_FORM),
            SocketErrorKind::NotASocket => ("E_LISTEN", "use another file"),
            SocketErrorKind::InUse if is_a_file => ("E_LISTEN", "stop that server, or use another file"),
            _ if is_a_file => (
                "E_LISTEN",
                "check that the folder exists and is writable, and that the path is short \
                    enough",
            ),
            _ => ("E_LISTEN", ADDRESS_TAKEN),
        };
        Self::new(id, Exit::Usage, Phase::Serve, error.to_string()).hint(hint)
    }

    /// The address over HTTP cannot be listened on.
    pub(crate) fn listen_http(error: &HttpListenError) -> Self {
        let (id, hint) = match error {
            HttpListenError::Url { .. } => {
                ("E_USAGE", "http://host:port/path, with an IPv6 address in brackets")
            }
            _ => ("E_LISTEN", ADDRESS_TAKEN),
        };
        Self::new(id, Exit::Usage, Phase::Serve, error.to_string()).hint(hint)
    }

    /// Adds what the transport knows of it.
    fn because(mut self, error: &TransportError) -> Self {
        (self.seen.reason, self.seen.http_status) = (error.reason(), error.http_status());
        self
    }

    /// Adds what is wrong with the response of the server.
    fn invalid(mut self, problem: &ResponseProblem) -> Self {
        self.seen.is_no_message = matches!(
            problem.decode_error(),
            Some(
                DecodeErrorKind::Json(_)
                    | DecodeErrorKind::NotAnObject
                    | DecodeErrorKind::JsonRpcVersion
                    | DecodeErrorKind::BatchEmpty
            )
        );
        self
    }

    /// Fits the failure to a server that is reached over HTTP. `url`: its address.
    #[must_use]
    pub(crate) fn over_http(mut self, url: &str) -> Self {
        self.seen.listening = true;
        // A server that speaks TLS alone closes the connection on an unencrypted request.
        if self.phase != Phase::Call
            && url.starts_with("http://")
            && matches!(self.seen.reason, Some(Reason::ConnectionLost | Reason::NoHttp))
        {
            self.hint =
                "use https:// instead of http:// if the port is for HTTPS; otherwise see the server's own log"
                    .into();
        }
        let is_of_the_link = matches!(self.id, "E_AUTH" | "E_CONNECT" | "E_LINK" | "E_NO_ENDPOINT" | "E_TLS");
        if is_of_the_link && matches!(self.phase, Phase::Probe | Phase::Initialize) {
            // The message names the request. Its purpose does not matter any more.
            self.phase = Phase::Connect;
        }
        if self.id == "E_BAD_REPLY" && self.seen.is_no_message {
            self.hint =
                "check the path: another API may be there; if it is right, report it to the server's authors"
                    .into();
        }
        if matches!(self.id, "E_NOT_MCP" | "E_SILENT") {
            return self
                .hint("check that an MCP server listens there; for a slow start use --connect-timeout 2m");
        }
        self.over_a_socket()
    }

    /// Adds the command that examines the server, where it may find more than the failure says. `line`: that command.
    #[must_use]
    pub(crate) fn and_doctor(mut self, line: &str) -> Self {
        let is_opening = matches!(self.phase, Phase::Connect | Phase::Probe | Phase::Initialize);
        let is_unclear = match self.id {
            "E_NO_ENDPOINT" | "E_LINK" | "E_BAD_REPLY" => true,
            // A proxy or a firewall answers like that, too, and then no token helps.
            "E_AUTH" => self.seen.http_status == Some(403),
            _ => false,
        };
        if self.id == "E_TLS" {
            self.hint = self.hint.replace("mcpjoin doctor shows", &format!("{line} shows"));
        }
        if is_opening && is_unclear {
            let between = if self.hint.is_empty() { "" } else { "; " };
            self.hint.push_str(between);
            self.hint.push_str(line);
            self.hint.push_str(" shows more");
        }
        self
    }

    /// Fits the failure to a server that is no child of ours, of which less is known.
    #[must_use]
    pub(crate) fn over_a_socket(mut self) -> Self {
        self.seen.listening = true;
        if let Some(before) = self.hint.strip_suffix(SHOWS_STDERR) {
            self.hint = before.trim_end_matches("; ").to_owned();
        }
        let hint = match self.id {
            "E_SERVER_EXITED" => {
                (self.id, self.message) = ("E_CLOSED", "the server closed the connection".into());
                if self.seen.garbage.as_deref().is_some_and(is_of_the_web) {
                    WEB_SERVER
                } else {
                    "see the server's own log; check that an MCP server without TLS or HTTP listens there"
                }
            }
            "E_NOT_MCP" | "E_SILENT" => match self.foreign() {
                Some("HTTP") => WEB_SERVER,
                Some("TLS") => "that port expects TLS: for HTTPS use https:// instead of tcp://",
                Some("SSH") => "check the port; a server behind SSH is a command: -- ssh host command",
                Some(_) => "check the host and the port",
                None => "check that an MCP server without TLS or HTTP listens there",
            },
            "E_STALLED" => "the server has stopped reading: see its own log",
            _ => return self,
        };
        self.hint(hint)
    }

    /// The protocol of another kind of server, by the first bytes that it sent.
    fn foreign(&mut self) -> Option<&'static str> {
        let protocol = foreign_protocol(self.seen.garbage.as_deref()?.as_bytes())?;
        self.message = format!("the server speaks {protocol}, and not MCP");
        Some(protocol)
    }

    /// The connection was closed, or was never opened.
    pub(crate) fn closed(cause: &CloseCause, phase: Phase) -> Self {
        match cause {
            CloseCause::Opening(failure) => Self::opening(failure, phase),
            CloseCause::Link(end) => Self::link(end, phase),
            CloseCause::Stalled { .. } => Self::new("E_STALLED", Exit::Connection, phase, cause.to_string())
                .hint("the server has stopped reading its standard input; -v shows its standard error"),
            _ => Self::new("E_CLOSED", Exit::Connection, phase, cause.to_string()).hint(TRY_AGAIN),
        }
    }

    fn opening(failure: &NegotiationFailure, phase: Phase) -> Self {
        let garbage = match failure {
            NegotiationFailure::TimedOut { garbage, .. } | NegotiationFailure::Ended { garbage, .. } => {
                garbage.as_ref()
            }
            NegotiationFailure::Garbage { first, .. } => Some(first),
            _ => None,
        };
        let mut known = Self::not_opened(failure, phase);
        // The beginning of other protocols may look like text of another encoding.
        let garbage = garbage.filter(|first| foreign_protocol(first).is_none());
        if let Some(encoding) = garbage.and_then(|first| Encoding::of(first)) {
            known.message = format!("the output of the server is {encoding}, but messages must be UTF-8");
            known.id = "E_ENCODING";
            return known.hint("let the server write UTF-8, without a byte order mark");
        }
        known
    }

    fn not_opened(failure: &NegotiationFailure, phase: Phase) -> Self {
        let of = |method: &Method| {
            if *method == Method::Initialize { Phase::Initialize } else { Phase::Probe }
        };
        let new =
            |id, phase, hint: &str| Self::new(id, Exit::Connection, phase, failure.to_string()).hint(hint);
        match failure {
            NegotiationFailure::Unsent { method, .. } => {
                Self::new("E_TOO_LARGE", Exit::Usage, of(method), failure.to_string())
                    .hint("raise --max-message-size")
            }
            NegotiationFailure::UnsupportedVersion { answered, .. } => {
                let hint = version_advice(std::slice::from_ref(answered));
                new("E_VERSION", Phase::Initialize, &hint)
            }
            NegotiationFailure::NoCommonVersion { supported } => {
                new("E_VERSION", Phase::Probe, &version_advice(supported))
            }
            NegotiationFailure::Echo { method } => new(
                "E_NOT_MCP",
                of(method),
                "check that this command is an MCP server over stdio: run it by itself in a terminal",
            ),
            NegotiationFailure::UnknownResponse { method, .. } => new("E_BAD_REPLY", of(method), TELL),
            NegotiationFailure::Refused { method, error } => {
                new("E_REFUSED", of(method), advice(error)).remote_error(error)
            }
            // The same id as for every other response above the limit.
            NegotiationFailure::InvalidResponse { method, problem }
                if matches!(problem.decode_error(), Some(DecodeErrorKind::TooLarge { .. })) =>
            {
                new("E_TOO_LARGE", of(method), RAISE_LIMIT)
            }
            NegotiationFailure::InvalidResponse { method, problem } => {
                new("E_BAD_REPLY", of(method), TELL).invalid(problem)
            }
            NegotiationFailure::TimedOut { method, garbage: None, .. } => new(
                "E_SILENT",
                of(method),
                "check that this command is an MCP server over stdio; for a slow start use \
                 --connect-timeout 2m",
            ),
            NegotiationFailure::TimedOut { method, after, garbage: Some(garbage) } => {
                let mut failure = new("E_NOT_MCP", of(method), STDOUT_IS_FOR_MESSAGES).garbage(garbage);
                // The garbage has its own row.
                let bare =
                    NegotiationFailure::TimedOut { method: method.clone(), after: *after, garbage: None };
                failure.message = format!("{bare}, but received lines that are not messages");
                failure
            }
            NegotiationFailure::Garbage { lines, first } => {
                let mut failure = new("E_NOT_MCP", phase, STDOUT_IS_FOR_MESSAGES).garbage(first);
                failure.message = match lines {
                    1 => "received a line that is not a message".to_owned(),
                    lines => format!("received {lines} lines that are not messages"),
                };
                failure
            }
            NegotiationFailure::Ended { last, probe, garbage } => {
                let mut failure = Self::link(last, if probe.is_some() { Phase::Initialize } else { phase });
                if failure.seen.stderr.is_empty()
                    && let Some(probe) = probe
                {
                    failure.keep_stderr(&probe.stderr);
                }
                match garbage {
                    Some(garbage) => failure.garbage(garbage),
                    None => failure,
                }
            }
            _ => new("E_OPENING", phase, SEE_STDERR),
        }
    }

    /// Adds the first bytes that were no message.
    pub(super) fn garbage(mut self, bytes: &[u8]) -> Self {
        self.seen.garbage = Some(String::from_utf8_lossy(bytes).into_owned());
        self
    }

    /// Adds the error with which the server responded.
    fn remote_error(mut self, error: &ErrorObject) -> Self {
        self.seen.remote = Some(error.clone());
        self
    }

    fn link(end: &TransportEnd, phase: Phase) -> Self {
        let mut failure = match &end.kind {
            TransportEndKind::Failed(error) => Self::broken(error, phase),
            kind => Self::ended(kind, end.exit, phase),
        };
        failure.seen.status = end.exit;
        failure.keep_stderr(&end.stderr);
        failure
    }

    /// Adds what a child has said of the fault, where its words are known: its runtime or a package manager has named it, or it
    /// listens elsewhere. `stderr`: all that is kept of its standard error.
    #[must_use]
    pub(crate) fn and_said(mut self, stderr: &[u8]) -> Self {
        let opening = matches!(self.phase, Phase::Spawn | Phase::Probe | Phase::Initialize);
        match self.id {
            "E_SERVER_EXITED" if opening && !self.seen.stderr.is_empty() => {
                if let Some(known) = KnownFault::of_stderr(&String::from_utf8_lossy(stderr)) {
                    self.message = format!("{}; {}", known.seen, self.message);
                    self.hint = known.advice;
                } else if self.hint == SEE_STDERR {
                    self.hint = STDERR_SAYS.into();
                }
            }
            "E_NOT_MCP" | "E_SILENT" => {
                let printed = self.seen.garbage.iter().flat_map(|text| text.lines()).map(str::to_owned);
                let said: Vec<String> = self.seen.stderr.iter().cloned().chain(printed).collect();
                if let Some(url) = listening_url(&said) {
                    self.message = format!("the program serves HTTP at {url}, and not MCP over stdio");
                    self.hint = format!(
                        "start it in another terminal, and use {url} in place of the command; or use its option \
                         for MCP over stdio"
                    );
                }
            }
            _ => {}
        }
        self
    }

    /// The connection ended without an error.
    fn ended(kind: &TransportEndKind, exit: Option<ProcessExit>, phase: Phase) -> Self {
        if let TransportEndKind::CutOff { received } = kind {
            let ended = if exit.is_some() { "ended" } else { "closed the connection" };
            let message =
                format!("the reply was cut off: the server {ended} after {received} bytes of a message");
            return Self::new("E_CUT_OFF", Exit::Connection, phase, message).hint(again(phase));
        }
        let (message, hint) = match (kind, exit) {
            (_, Some(ProcessExit::Code(126 | 127))) => (
                "the server exited at once",
                "exit codes 126 and 127 mean that a command in this one was not found or may not be run: \
                 check the command and PATH",
            ),
            (_, Some(ProcessExit::Signal(9))) => (
                "the server was killed",
                "signal 9 usually means that the system ran out of memory: see the system's log",
            ),
            (TransportEndKind::EndOfStream, None) => (
                "the server closed its standard output",
                "a server must keep it open until it exits; -v shows its standard error",
            ),
            (_, exit) if matches!(phase, Phase::Probe | Phase::Initialize | Phase::Spawn) => (
                "the server exited before the session was open",
                match exit {
                    Some(ProcessExit::Code(0)) => {
                        "it ended without an error and did not serve: check the arguments (some servers need one, \
                         such as stdio), and run it by itself in a terminal"
                    }
                    _ => SEE_STDERR,
                },
            ),
            (_, Some(ProcessExit::Code(0))) => (
                "the server exited with success before it responded",
                "its main function may return too early, or a function exits with 0; -v shows its standard \
                 error",
            ),
            _ => ("the server exited during the session", SEE_STDERR),
        };
        Self::new("E_SERVER_EXITED", Exit::Connection, phase, message).hint(hint)
    }

    /// The transport has failed, for the connection or for one request.
    pub(crate) fn broken(error: &TransportError, phase: Phase) -> Self {
        let (reason, status) = (error.reason(), error.http_status());
        let (id, exit, what, hint) = match error.kind {
            TransportErrorKind::Unreachable => {
                let hint = match reason {
                    Some(
                        Reason::ProxyUnreached
                        | Reason::ProxyRefused
                        | Reason::ProxyAuthorization
                        | Reason::ProxyScheme,
                    ) => {
                        "check that this is the right proxy; NO_PROXY lists the hosts that are reached without \
                         one"
                    }
                    Some(Reason::NoTls) => {
                        "use http:// instead of https:// for a server without TLS, or the port for HTTPS"
                    }
                    Some(Reason::NameNotResolved) => CHECK_HOST,
                    Some(Reason::ConnectionRefused) => NOT_STARTED,
                    _ => NOT_LISTENING,
                };
                ("E_CONNECT", Exit::Connection, "no connection", hint)
            }
            TransportErrorKind::Untrusted => (
                "E_TLS",
                Exit::Connection,
                "no trusted connection",
                match reason {
                    Some(Reason::SelfSigned) => {
                        "--ca FILE with exactly this certificate trusts it, after you have checked that it \
                         belongs to the server; mcpjoin doctor shows more"
                    }
                    Some(Reason::UnknownIssuer) => {
                        "--ca FILE trusts another authority, for example of your company"
                    }
                    _ => {
                        "the server needs another certificate, or the URL another name: mcpjoin doctor shows \
                         which"
                    }
                },
            ),
            TransportErrorKind::Unauthorized => (
                "E_AUTH",
                Exit::Authorization,
                if status == Some(403) { "access denied" } else { "authorization required" },
                "send a token with --header 'Authorization: Bearer ...' or --header @FILE; if you did, the \
                 server rejects it",
            ),
            TransportErrorKind::Foreign => (
                "E_NO_ENDPOINT",
                Exit::Connection,
                "the URL answers, but not as an MCP server",
                "check the path: usually /mcp, or /sse for the HTTP+SSE of 2024-11-05",
            ),
            _ => {
                let what = match status {
                    Some(300..=399) => "the URL redirects",
                    Some(429) => "the server limits requests",
                    Some(502 | 504) => "a proxy does not reach the server",
                    Some(503) => "the server is not available",
                    Some(500..=599) => "the server failed",
                    _ => "the connection failed",
                };
                let hint = match (status, reason) {
                    _ if phase == Phase::Call => MAYBE_DONE,
                    (_, Some(Reason::RedirectToOtherOrigin)) => {
                        "use the address to which it redirects, if that is the server; a page for logins there may \
                         mean that the server requires a token (--header)"
                    }
                    (_, Some(Reason::RedirectLoop)) => {
                        "try https:// instead of http://, and the path with and without a / at its end; \
                         then check the rules of the proxy"
                    }
                    (Some(429), _) => "wait, then try again",
                    (Some(502 | 504), _) => "check that the server behind the proxy runs, then try again",
                    (Some(500..=599), _) => "see the server's own log, or try again later",
                    _ if error.retryable => TRY_AGAIN,
                    _ => "a retry will fail, too: check the address, and see the server's own log",
                };
                ("E_LINK", Exit::Connection, what, hint)
            }
        };
        Self::new(id, exit, phase, format!("{what}: {error}")).hint(hint).because(error)
    }

    /// A request of the client failed.
    pub(crate) fn client(error: &ClientError, phase: Phase) -> Self {
        let new = |id, exit, hint: &str| Self::new(id, exit, phase, error.to_string()).hint(hint);
        match error {
            ClientError::Call(error) => Self::call(error, phase),
            ClientError::BadParams { .. } => new("E_USAGE", Exit::Usage, "check the arguments"),
            ClientError::UndeclaredInput { asked, .. } => {
                new("E_NEEDS_INPUT", Exit::ServerError, answered_by(asked.as_str()))
            }
            ClientError::InputFailed { asked, .. } => new(
                "E_NEEDS_INPUT",
                Exit::ServerError,
                match asked {
                    Method::CreateMessage => "run the command of --sampler by itself: it reads the request \
                        from standard input",
                    _ => "change the answers of --answer, or leave it out and answer on the terminal",
                },
            ),
            ClientError::UnknownTask { error: remote, .. } => new(
                "E_UNKNOWN_TASK",
                Exit::ServerError,
                "is it the id that was printed, and the same server? it may be kept no longer: begin it again",
            )
            .remote_error(remote),
            ClientError::TaskCancelled { .. } => new(
                "E_TASK_CANCELLED",
                Exit::ServerError,
                "start it again; -v shows the server's standard error",
            ),
            ClientError::TaskTimedOut { .. } => {
                new("E_TIMEOUT", Exit::Connection, "request less: the server keeps the task only for this \
                    time")
            }
            _ => Self::bad_reply(error.to_string(), phase),
        }
    }

    /// The response of the server is invalid.
    pub(crate) fn bad_reply(message: impl Into<String>, phase: Phase) -> Self {
        Self::new("E_BAD_REPLY", Exit::ServerError, phase, message).hint(TELL)
    }

    /// A request failed.
    pub(crate) fn call(error: &CallError, phase: Phase) -> Self {
        let new = |id, exit, hint: &str| Self::new(id, exit, phase, error.to_string()).hint(hint);
        match error {
            CallError::Remote(object) => Self::remote(object, phase),
            CallError::TimedOut { total, .. } => {
                let hint = if *total {
                    "request less: this is the time limit of a call"
                } else {
                    "allow more time with --timeout 5m; -v shows the server's standard error"
                };
                new("E_TIMEOUT", Exit::Connection, hint)
            }
            CallError::Closed(cause) => Self::closed(cause, phase),
            // After a connection was made, the address is right.
            CallError::Lost(error)
                if !matches!(error.kind, TransportErrorKind::Broken | TransportErrorKind::Foreign) =>
            {
                Self::broken(error, phase)
            }
            CallError::Lost(error) => {
                let hint = if error.reason() == Some(Reason::NoReply) { TELL } else { again(phase) };
                Self::new("E_LOST", Exit::Connection, phase, format!("no response: {error}")).hint(hint)
            }
            // The limit is ours, and no fault of the server.
            CallError::ResponseTooLarge { .. } => new("E_TOO_LARGE", Exit::Connection, RAISE_LIMIT),
            CallError::InvalidResponse { problem, .. } => {
                new("E_BAD_REPLY", Exit::ServerError, TELL).invalid(problem)
            }
            CallError::Refused(CallRefused::TooLarge { .. }) => new("E_TOO_LARGE", Exit::Usage, RAISE_LIMIT),
            CallError::Refused(CallRefused::Undeclared { .. } | CallRefused::NotInVersion { .. }) => new(
                "E_NOT_OFFERED",
                Exit::ServerError,
                "mcpjoin list shows the server's tools, resources \
                    and prompts",
            ),
            CallError::Refused(CallRefused::Closed | CallRefused::NotOpen) => {
                new("E_CLOSED", Exit::Connection, TRY_AGAIN)
            }
            _ => new("E_CALL", Exit::Connection, "try again"),
        }
    }

    /// The server responded with an error.
    pub(crate) fn remote(error: &ErrorObject, phase: Phase) -> Self {
        // An error of our own bridge.
        if let Some(Unreached { orchestrator, why, .. }) = Unreached::of(error) {
            let hint =
                format!("check that an orchestrator listens there: mcpjoin doctor orchestra://{orchestrator}");
            return Self::new("E_CONNECT", Exit::Connection, phase, why).hint(hint);
        }
        let hint = match (error.code, phase) {
            (code::INVALID_PARAMS, Phase::Call) => SEE_TOOLS,
            (code::INVALID_PARAMS | code::RESOURCE_NOT_FOUND, Phase::Read) => {
                "mcpjoin list shows the resources and the URI templates"
            }
            (code::INVALID_PARAMS, Phase::Prompt | Phase::Complete) => {
                "mcpjoin list --json shows the prompts with their arguments, and the resource templates"
            }
            (code::METHOD_NOT_FOUND, _) => "mcpjoin list shows the server's tools, resources and prompts",
            (code::MISSING_REQUIRED_CLIENT_CAPABILITY, _) => {
                let required = error.data.as_ref().and_then(|data| data.member("requiredCapabilities"));
                let needs =
                    |name: &str| required.as_ref().is_some_and(|required| required.member(name).is_some());
                let asked = [
                    ("elicitation", "elicitation/create"),
                    ("sampling", "sampling/createMessage"),
                    ("roots", "roots/list"),
                ]
                .into_iter()
                .find(|(capability, _)| needs(capability));
                answered_by(asked.map_or("", |(_, method)| method))
            }
            _ => SHOWS_STDERR,
        };
        Self::new("E_SERVER_ERROR", Exit::ServerError, phase, error.to_string())
            .hint(hint)
            .remote_error(error)
    }
}

/// The hint for a request of the server that nothing answers here.
fn answered_by(method: &str) -> &'static str {
    match method {
        "elicitation/create" => {
            "the server asks the user something: answer on a terminal, or with --answer FILE (--no-input declines)"
        }
        "sampling/createMessage" => "the server asks a language model: --sampler COMMAND answers",
        "roots/list" => "the server asks for the folders that it may use: --root DIR names one",
        _ => "the server sends a request that mcpjoin does not support",
    }
}

/// The hint for a server that supports these versions, and not the one that was requested.
fn version_advice(supported: &[Version]) -> String {
    if supported.iter().any(|version| version.era().is_some()) {
        return "leave out --protocol-version and --era, or use what the server supports".to_owned();
    }
    let ours: Vec<&str> = Version::ALL.iter().map(Version::as_str).collect();
    format!("update the server, or report this to its authors: mcpjoin speaks {}", ours.join(", "))
}

/// The hint after a lost response: a call may have had its effect.
fn again(phase: Phase) -> &'static str {
    if phase == Phase::Call { MAYBE_DONE } else { TRY_AGAIN }
}

/// The hint for an error of the first request. A bridge says in `data` that the error is its own: then another era does not help.
fn advice(error: &ErrorObject) -> &'static str {
    let kind = error.data.as_ref().and_then(|data| data.member("gateway"));
    match kind.as_ref().and_then(|kind| kind.to_string_value()).as_deref() {
        None => "try another --era or --protocol-version",
        Some("tooManyServers") => {
            "try again when another client has disconnected, or raise the limit of that bridge with \
             --max-sessions"
        }
        Some("tooManyStarts") => {
            "try again in some seconds: that bridge limits the servers that it starts per second for one \
             client"
        }
        Some("tooManyRequests") => {
            "try again in some seconds: the policy of that bridge limits the requests of its clients"
        }
        Some("closed") => "try again when that bridge runs again",
        Some(_) => "check the server behind that bridge: the bridge reports the fault on its standard error",
    }
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

/// The URL that a word may mean which is a part of an address: a host or a port alone.
fn url_meant(word: &str) -> Option<String> {
    let port = word.strip_prefix(':').unwrap_or(word);
    if port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Some(format!("http://localhost:{port}/mcp"));
    }
    let is_host = word.eq_ignore_ascii_case("localhost") || word.parse::<Ipv4Addr>().is_ok();
    is_host.then(|| format!("http://{word}:PORT/mcp"))
}

/// Whether a word is the name of a configuration file.
fn is_configuration(word: &str) -> bool {
    let extension = word.rsplit_once('.').map_or("", |(_, extension)| extension);
    ["json", "jsonc", "toml"].contains(&extension)
}

/// Whether the first bytes are those of an HTTP response or a page.
fn is_of_the_web(text: &str) -> bool {
    let text = text.trim_start().to_ascii_lowercase();
    ["http/", "<!doctype", "<html"].iter().any(|start| text.starts_with(start))
}
