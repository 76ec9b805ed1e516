//! Hints that failures of several kinds have.
//!
//! Used by the files beside this one.

use super::Phase;

pub(super) const SEE_STDERR: &str = "run the command by itself in a terminal; -v shows its standard error";
/// The end of hints about a child, whose standard error we have.
pub(super) const SHOWS_STDERR: &str = "-v shows the server's standard error";
pub(super) const MAYBE_DONE: &str = "the request may have been executed: check before you try again";
pub(super) const TRY_AGAIN: &str = "try again; -v shows the server's standard error";
pub(super) const TELL: &str = "this is a bug in the server: report it to its authors";
pub(super) const NO_ENCODING: &str =
    "let the server, or the proxy before it, send its responses without Content-Encoding";
pub(super) const SHARE_SESSIONS: &str = "several processes behind one address must share their sessions, or the balancer must send each client to one of them";
pub(super) const RAISE_LIMIT: &str = "raise the limit with --max-message-size";
pub(super) const CHECK_HOST: &str = "check the host name";
pub(super) const NOT_STARTED: &str = "start the server, or check the host and the port";
pub(super) const NOT_LISTENING: &str = "check that a server listens there, and that you can reach it";

/// The hint after a response over HTTP with a status that limits requests, or is a fault of the server or of a proxy.
pub(super) fn of_status(status: Option<u16>, phase: Phase) -> Option<&'static str> {
    let is_call = phase == Phase::Call;
    Some(match status? {
        429 => "wait, then try again",
        // The proxy may have passed the call on.
        502 | 504 if is_call => MAYBE_DONE,
        502 | 504 => "check that the server behind the proxy runs, then try again",
        503 => "see the server's own log, or try again later",
        500..=599 if is_call => {
            "see the server's own log; the request may have been executed: check before you try again"
        }
        500..=599 => {
            "see the server's own log: the fault is in the server, and a retry alone will not mend it"
        }
        _ => return None,
    })
}

/// The hint after a lost response: a call may have had its effect.
pub(super) fn again(phase: Phase) -> &'static str {
    if phase == Phase::Call { MAYBE_DONE } else { TRY_AGAIN }
}
