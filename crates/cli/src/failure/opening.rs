//! The connection was closed, or its session was never opened.

use mcpjoin::proto::scan::Encoding;
use mcpjoin::proto::session::{CloseCause, NegotiationFailure, foreign_protocol};
use mcpjoin::proto::{DecodeErrorKind, ErrorObject, Method, Version};

use super::hints::{RAISE_LIMIT, SEE_STDERR, TELL, TRY_AGAIN};
use super::{Failure, Phase};
use crate::exit::Exit;

const STDOUT_IS_FOR_MESSAGES: &str =
    "a server may write only messages to its standard output: check the output of this command";

impl Failure {
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
}

/// The hint for a server that supports these versions, and not the one that was requested.
fn version_advice(supported: &[Version]) -> String {
    if supported.iter().any(|version| version.era().is_some()) {
        return "leave out --protocol-version and --era, or use what the server supports".to_owned();
    }
    let ours: Vec<&str> = Version::ALL.iter().map(Version::as_str).collect();
    format!("update the server, or report this to its authors (mcpjoin speaks {})", ours.join(", "))
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
