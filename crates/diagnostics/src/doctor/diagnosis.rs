//! Findings about what all transports share: an opening that fails, text that is no message, a list that cannot be read, a
//! server that ends early.
//!
//! Used by `examination` and by the transports. The kinds of findings are in `findings`; this decides which of them it is.

use mcpjoin_proto::scan::Encoding;
use mcpjoin_proto::session::{
    CallError, CloseCause, NegotiationFailure, ProcessExit, TransportEnd, TransportEndKind,
    TransportErrorReason, foreign_protocol,
};
use mcpjoin_proto::{Method, Version};

use super::findings::*;
use super::observer::Observed;
use super::report::{Check, Evidence, Finding, Phase, Transport};
use super::stderr_patterns::{crash, last_lines, listening_url, recognize, reports_failure};
use mcpjoin::client::ClientError;

/// The session of a child process did not open. `stderr`: its standard error.
pub(super) fn child_not_opened(
    phase: Phase,
    cause: &CloseCause,
    observed: &Observed,
    stderr: &[u8],
) -> Finding {
    let mut finding = match cause {
        CloseCause::Opening(NegotiationFailure::Ended { last, .. }) | CloseCause::Link(last) => {
            ended(Transport::Child, phase, last)
        }
        CloseCause::Opening(failure) => opening_failure(phase, failure, observed),
        other => NOT_OPENED.at(phase, other.to_string()),
    };
    let of_probe = match cause {
        CloseCause::Opening(NegotiationFailure::Ended { probe: Some(probe), .. }) => &probe.stderr[..],
        _ => &[],
    };
    let lines = &mut finding.evidence.stderr;
    for bytes in [of_probe, stderr] {
        if lines.is_empty() {
            *lines = last_lines(bytes);
        }
    }
    finding.evidence.stdout = observed.noise_texts();
    let is_alive = matches!(finding.id, "silent" | "not-mcp");
    if observed.frames_with_headers() && (is_alive || finding.id == "died") {
        "the program frames its messages with Content-Length".clone_into(&mut finding.seen);
        finding.becomes(&LSP_FRAMING, &[]);
        return finding;
    }
    if !is_alive {
        return finding;
    }
    let Evidence { stderr, stdout, .. } = &finding.evidence;
    let said: Vec<String> = stderr.iter().chain(stdout).cloned().collect();
    if let Some(url) = listening_url(&said) {
        finding.seen = format!("the program serves HTTP at {url}, and not MCP over stdio");
        finding.becomes(&LISTENS_ELSEWHERE, &[("url", &url)]);
    }
    finding
}

/// The session with a remote server did not open.
pub(super) fn remote_not_opened(phase: Phase, cause: &CloseCause, observed: &Observed) -> Finding {
    let only_noise = observed.noise_lines > 0 && observed.first.is_none();
    let no_messages = || {
        let first = observed.first_noise().map(AsRef::as_ref).unwrap_or_default();
        let seen = "a server answers, but not with JSON-RPC messages";
        other_protocol(phase, first).unwrap_or_else(|| NO_MESSAGES.at(phase, seen))
    };
    let mut finding = match cause {
        CloseCause::Opening(NegotiationFailure::Garbage { .. } | NegotiationFailure::TimedOut { .. })
            if only_noise =>
        {
            encoding_fault(phase, observed).unwrap_or_else(no_messages)
        }
        CloseCause::Opening(NegotiationFailure::Ended { .. }) | CloseCause::Link(_) if only_noise => {
            no_messages()
        }
        CloseCause::Opening(NegotiationFailure::Ended { last, .. }) | CloseCause::Link(last) => {
            disconnected(phase, last)
        }
        CloseCause::Opening(failure @ NegotiationFailure::TimedOut { .. }) => {
            SILENT.at(phase, failure.to_string())
        }
        CloseCause::Opening(failure) => opening_failure(phase, failure, observed),
        other => NO_AGREEMENT.at(phase, other.to_string()),
    };
    finding.evidence.received = observed.noise_texts();
    finding
}

/// The peer speaks another protocol, which is known by its first bytes.
pub(super) fn other_protocol(phase: Phase, first: &[u8]) -> Option<Finding> {
    let (kind, seen) = match foreign_protocol(first)? {
        "HTTP" => (SPEAKS_HTTP, "the server speaks HTTP".to_owned()),
        "TLS" => (SPEAKS_TLS, "the server speaks TLS".to_owned()),
        "SSH" => (SPEAKS_SSH, "the server is an SSH server".to_owned()),
        other => (SPEAKS_OTHER, format!("the server speaks {other}")),
    };
    Some(kind.at(phase, seen))
}

/// Client and server do not agree. The same for every transport where the text names no program.
pub(super) fn opening_failure(phase: Phase, failure: &NegotiationFailure, observed: &Observed) -> Finding {
    if matches!(failure, NegotiationFailure::TimedOut { .. } | NegotiationFailure::Garbage { .. })
        && let Some(finding) = encoding_fault(phase, observed)
    {
        return finding;
    }
    let kind = match failure {
        NegotiationFailure::TimedOut { .. } if observed.noise_lines > 0 => STDOUT_TEXT,
        NegotiationFailure::Garbage { .. } => STDOUT_LOG,
        NegotiationFailure::TimedOut { .. } => PROGRAM_SILENT,
        NegotiationFailure::UnsupportedVersion { .. } | NegotiationFailure::NoCommonVersion { .. } => VERSION,
        NegotiationFailure::UnknownResponse { asked, given, .. } => match given.as_str() {
            Some(given) if given == asked.to_string() => ID_AS_STRING,
            _ => OTHER_ID,
        },
        NegotiationFailure::Echo { .. } => ECHO,
        NegotiationFailure::Refused { .. } => REFUSED,
        NegotiationFailure::InvalidResponse { .. } => BAD_REPLY,
        NegotiationFailure::Unsent { .. } => NOT_SENT,
        _ => NOT_OPENED,
    };
    let mut finding = kind.at(phase, failure.to_string());
    let spoken = match failure {
        NegotiationFailure::UnsupportedVersion { answered, .. } => std::slice::from_ref(answered),
        NegotiationFailure::NoCommonVersion { supported } => supported,
        _ => &[],
    };
    // A version that this program knows was left out by an option.
    if let Some(version) = spoken.iter().find(|version| version.era().is_some()) {
        finding.becomes(&VERSION_OF_OPTION, &[("version", version.as_str())]);
    } else if finding.id == VERSION.id {
        let ours: Vec<&str> = Version::ALL.iter().map(Version::as_str).collect();
        finding.becomes(&VERSION, &[("versions", &ours.join(", "))]);
    }
    if let NegotiationFailure::Refused { error, .. } = failure {
        finding.evidence.error = Some(error.clone());
    }
    finding
}

/// Messages arrived that are unreadable because of their encoding, a byte order mark or line feeds.
pub(super) fn encoding_fault(phase: Phase, observed: &Observed) -> Option<Finding> {
    if observed.late_marks > 0 {
        let (lines, begin) = if observed.late_marks == 1 { ("line", "begins") } else { ("lines", "begin") };
        return Some(LATE_BYTE_ORDER_MARK.at(
            phase,
            format!("{} {lines} after the first {begin} with a byte order mark", observed.late_marks),
        ));
    }
    // The first bytes of another protocol may look like an encoding.
    let first = observed.first_noise().filter(|first| foreign_protocol(first).is_none());
    if let Some(encoding) = first.and_then(|first| Encoding::of(first)) {
        return Some(ENCODING.at(phase, format!("the output of the server is {encoding}")));
    }
    observed.is_spread().then(|| SEVERAL_LINES.at(phase, "a message is spread over several lines"))
}

/// The server wrote text that is no message.
pub(super) fn noise(transport: Transport, phase: Phase, observed: &Observed) -> Finding {
    let count = observed.noise_lines;
    let (plural, are) = if count == 1 { ("", "is") } else { ("s", "are") };
    if transport.is_remote() {
        NOISE.at(phase, format!("{count} text{plural} between the messages that {are} not JSON-RPC"))
    } else {
        STDOUT_NOISE.at(phase, format!("{count} line{plural} on standard output that {are} not a message"))
    }
}

/// The server ended before the client ended the session.
pub(super) fn ended(transport: Transport, phase: Phase, end: &TransportEnd) -> Finding {
    if transport.is_remote() {
        return disconnected(phase, end);
    }
    let how =
        end.exit.map_or_else(|| "closed its standard output".to_owned(), |exit| format!("ended: {exit}"));
    let is_open = is_open(phase);
    let when = if is_open { "during the session" } else { "before the session was open" };
    let none = || ("", String::new());
    let (kind, (name, value)) = match (&end.kind, end.exit) {
        (TransportEndKind::Failed(error), None) => (CONNECTION_FAILED, ("error", error.to_string())),
        (TransportEndKind::CutOff { received }, _) => (CUT_OFF, ("received", received.to_string())),
        (_, Some(ProcessExit::Code(126 | 127))) => (COMMAND_INSIDE_MISSING, none()),
        (_, Some(ProcessExit::Signal(9))) => (KILLED, none()),
        (_, Some(ProcessExit::Signal(signal))) => match crash(signal) {
            Some(meaning) => (CRASHED, ("signal", meaning.to_owned())),
            None => (ENDED_BY_SIGNAL, none()),
        },
        (_, Some(ProcessExit::Code(0))) if is_open => (RETURNED_EARLY, none()),
        (_, Some(ProcessExit::Code(0))) => (NO_SERVER, none()),
        (_, Some(ProcessExit::Code(_))) => (GAVE_UP, none()),
        (_, None) => (CLOSED_STDOUT, none()),
    };
    let mut finding = kind.with(phase, format!("the server {how}, {when}"), &[(name, &value)]);
    finding.evidence.exit = end.exit;
    finding.evidence.stderr = last_lines(&end.stderr);
    let may_say_why = match end.exit {
        Some(ProcessExit::Code(0)) => !is_open,
        Some(ProcessExit::Code(_)) => true,
        Some(ProcessExit::Signal(signal)) => crash(signal).is_some(),
        None => false,
    };
    if !may_say_why || recognize(&mut finding, &end.stderr) {
        return finding;
    }
    let stderr = &finding.evidence.stderr;
    match end.exit {
        Some(ProcessExit::Code(0)) if reports_failure(stderr) => finding.becomes(&EXITED_AFTER_ERROR, &[]),
        Some(ProcessExit::Code(1..=125)) if stderr.is_empty() => finding.becomes(&GAVE_UP_SILENTLY, &[]),
        _ => {}
    }
    finding
}

/// Whether the session is open in this phase.
const fn is_open(phase: Phase) -> bool {
    matches!(phase, Phase::Health | Phase::List | Phase::ShutDown)
}

/// A remote server closed the connection, or the connection broke.
fn disconnected(phase: Phase, end: &TransportEnd) -> Finding {
    let (kind, seen) = match &end.kind {
        TransportEndKind::EndOfStream => {
            let when = if is_open(phase) { "during the session" } else { "before the first message" };
            (CLOSED, format!("the server closed the connection {when}"))
        }
        TransportEndKind::CutOff { .. } => (CLOSED_WHILE_WRITING, end.to_string()),
        TransportEndKind::Failed(error) => (CONNECTION_BROKEN, error.message.clone()),
        _ => (CONNECTION_BROKEN, end.to_string()),
    };
    kind.at(phase, seen)
}

/// A list could not be read.
pub(super) fn list_error(transport: Transport, method: &Method, error: &ClientError) -> Finding {
    if let Some(CloseCause::Link(end)) = error.close_cause() {
        return ended(transport, Phase::List, end);
    }
    let kind: Kind<Check> = match error {
        ClientError::Call(CallError::TimedOut { .. }) => LIST_TIMED_OUT,
        ClientError::Call(CallError::Remote(_)) => LIST_REFUSED,
        ClientError::Call(CallError::InvalidResponse { .. })
        | ClientError::BadResult { .. }
        | ClientError::RepeatedCursor { .. }
        | ClientError::TooManyPages { .. }
        | ClientError::ListTooLarge { .. } => LIST_INVALID,
        ClientError::Call(CallError::ResponseTooLarge { .. }) => LIST_TOO_LARGE,
        ClientError::Call(CallError::Lost(lost))
            if lost.reason() == Some(TransportErrorReason::BodyCutOff) =>
        {
            LIST_CUT_OFF
        }
        // The server has responded, and the answer is not in its response.
        ClientError::Call(CallError::Lost(lost)) if lost.reason() == Some(TransportErrorReason::NoReply) => {
            LIST_NO_REPLY
        }
        _ if transport.is_remote() => LIST_FAILED,
        _ => PROGRAM_LIST_FAILED,
    };
    let what = error.to_string();
    let seen = if what.contains(method.as_str()) { what } else { format!("{}: {what}", method.as_str()) };
    let mut finding = kind.at(Phase::List, seen);
    finding.evidence.error = error.remote().cloned();
    if let ClientError::Call(CallError::Lost(lost)) = error {
        finding.lost = Some(Box::new(lost.clone()));
    }
    finding
}
