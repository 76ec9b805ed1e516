//! The transport has failed, or has ended: a child that exited, a connection, an exchange over HTTP.

use mcpjoin::proto::session::{
    ProcessExit, TransportEnd, TransportEndKind, TransportError, TransportErrorKind,
    TransportErrorReason as Reason,
};
use mcpjoin_diagnostics::doctor::{KnownFault, listening_url};

use super::hints::{
    CHECK_HOST, MAYBE_DONE, NO_ENCODING, NOT_LISTENING, NOT_STARTED, SEE_STDERR, TELL, TRY_AGAIN, again,
    of_status,
};
use super::{Failure, Phase};
use crate::exit::Exit;

const STDERR_SAYS: &str = "its standard error says why; mcpjoin doctor with the same command shows more";

impl Failure {
    pub(super) fn link(end: &TransportEnd, phase: Phase) -> Self {
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
                    Some(Reason::ConnectionLost) => {
                        "use http:// instead of https:// for a server without TLS; otherwise see the server's own \
                         log"
                    }
                    Some(Reason::NameNotResolved) => CHECK_HOST,
                    Some(Reason::ConnectionRefused) => NOT_STARTED,
                    _ => NOT_LISTENING,
                };
                // The handshake of TLS was not completed.
                let is_lost = reason == Some(Reason::ConnectionLost);
                let what = if is_lost { "the connection was lost" } else { "no connection" };
                ("E_CONNECT", Exit::Connection, what, hint)
            }
            TransportErrorKind::Untrusted => (
                "E_TLS",
                Exit::Connection,
                "no trusted connection",
                match reason {
                    Some(Reason::SelfSigned) => {
                        "--ca FILE with exactly this certificate trusts it, after you have checked that it \
                         belongs to the server"
                    }
                    Some(Reason::UnknownIssuer) => {
                        "--ca FILE trusts another authority, for example of your company"
                    }
                    _ => "the server needs another certificate, or the URL another name",
                },
            ),
            TransportErrorKind::Unauthorized => (
                "E_AUTH",
                Exit::Authorization,
                if status == Some(403) { "access denied" } else { "authorization required" },
                "send a token with --header 'Authorization: Bearer ...' or --header @FILE; if you did, the \
                 server rejects it",
            ),
            // The message is there, and a client may not read it.
            TransportErrorKind::Foreign if reason == Some(Reason::WrongContentType) => (
                "E_NO_ENDPOINT",
                Exit::Connection,
                "the server sends a message with a content type that is neither application/json nor text/event-stream",
                TELL,
            ),
            TransportErrorKind::Foreign if reason == Some(Reason::ContentEncoding) => {
                ("E_NO_ENDPOINT", Exit::Connection, "the response cannot be read", NO_ENCODING)
            }
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
                let hint = match (of_status(status, phase), reason) {
                    (Some(hint), _) => hint,
                    _ if phase == Phase::Call => MAYBE_DONE,
                    (_, Some(Reason::RedirectToOtherOrigin)) => {
                        "use the address to which it redirects, if that is the server; a page for logins there may \
                         mean that the server requires a token (--header)"
                    }
                    (_, Some(Reason::RedirectLoop)) => {
                        "try https:// instead of http://, and the path with and without a / at its end; \
                         then check the rules of the proxy"
                    }
                    (_, Some(Reason::NoEvents | Reason::NoReply | Reason::SessionIdInvalid)) => TELL,
                    (_, Some(Reason::ContentEncoding)) => NO_ENCODING,
                    _ if error.retryable => TRY_AGAIN,
                    _ => "a retry will fail, too: check the address, and see the server's own log",
                };
                ("E_LINK", Exit::Connection, what, hint)
            }
        };
        Self::new(id, exit, phase, format!("{what}: {error}")).hint(hint).because(error)
    }

    /// Adds what the transport knows of it.
    fn because(mut self, error: &TransportError) -> Self {
        (self.seen.reason, self.seen.http_status) = (error.reason(), error.http_status());
        self
    }
}
