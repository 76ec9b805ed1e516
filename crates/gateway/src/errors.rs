//! The errors that the gateway itself answers with.
//!
//! The end of a server may carry its standard error, and that may contain secrets. So each text passes
//! [`GatewayBuilder::words`](super::GatewayBuilder::words), and a client that came over a listener or over HTTP
//! receives nothing from standard error. Used wherever the gateway answers with an error of its own; an error of a
//! server never passes through here.

use std::borrow::Cow;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcpjoin_proto::session::{
    CallError, CallRefused, CloseCause, NegotiationFailure, ProcessExit, TransportEnd, TransportErrorKind,
};
use mcpjoin_proto::{ErrorObject, Payload, Raw};
use tokio::time::timeout;

use super::end::Refusal;
use super::settings::Settings;
use super::target_health::CoolingDown;
use super::warnings::Problem;
use mcpjoin::client::{RestartError, RunExit};
use mcpjoin::connection::Connection;

/// The kinds of errors that refuse a request because of a limit or a rule.
const REFUSALS: [&str; 6] =
    ["tooManyServers", "tooManyStarts", "tooManyRequests", "tooManyWait", "noTurn", "questionRefused"];

tokio::task_local! {
    /// Whether this gateway has refused the request that is being answered. Its error does not say so: a server can write the same.
    static IS_REFUSED: Cell<bool>;
}

/// How long an error waits for the exit status of the server.
const EXIT_STATUS_TIMEOUT: Duration = Duration::from_millis(500);

/// Writes the errors for one client. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct ErrorTexts {
    /// The settings of the target. `None` if the peer is the client.
    settings: Option<Arc<Settings>>,
    remote: bool,
}

impl ErrorTexts {
    /// `remote`: the client came over a listener or over HTTP, so it may be anyone.
    pub(super) fn new(settings: &Arc<Settings>, remote: bool) -> Self {
        Self { settings: Some(settings.clone()), remote }
    }

    /// An error of the gateway, with its text as this client may see it.
    pub(super) fn failure(&self, kind: &str, message: &str, facts: &[(&str, String)]) -> ErrorObject {
        let redact = self.settings.as_ref().and_then(|settings| settings.redact.as_ref());
        let message = redact.map_or(Cow::Borrowed(message), |redact| redact(message).into());
        let Some(target) = self.target() else { return failure(kind, &message, facts) };
        let mut facts = facts.to_vec();
        facts.push(("target", Raw::string(target).to_string()));
        failure(kind, &format!("{target}: {message}"), &facts)
    }

    /// Returns the name of the target in a joined gateway.
    pub(super) fn target(&self) -> Option<&str> {
        self.settings.as_ref().filter(|settings| settings.is_named).map(|settings| &*settings.name)
    }

    /// The error for a request to a target of which no server runs.
    pub(super) fn not_available(&self, why: Option<CoolingDown>) -> ErrorObject {
        let Some(CoolingDown { last, next_attempt }) = why else {
            return self.failure("notAvailable", "the server is starting; try again in a moment", &[]);
        };
        let cause = last.map_or_else(String::new, |last| format!(": {}", self.run_end(&last)));
        let next = match next_attempt.as_secs_f64().ceil() {
            0.0 => "it is being started again".to_owned(),
            seconds => format!("the next start is in {seconds} s"),
        };
        let text = format!("no server is running{cause}; {next}");
        self.failure("notAvailable", &text, &[("nextAttemptMs", millis(next_attempt))])
    }

    /// The error for a name of a target that has not sent its list in time.
    pub(super) fn late(&self) -> ErrorObject {
        self.failure("notAvailable", "the server has not sent its list in time; try again in a moment", &[])
    }

    /// The end of a connection as this client may see it.
    fn cause(&self, cause: &CloseCause) -> CloseCause {
        let mut cause = cause.clone();
        match &mut cause {
            _ if !self.remote => {}
            CloseCause::Link(end) => end.stderr = Bytes::new(),
            CloseCause::Opening(NegotiationFailure::Ended { last, probe, garbage }) => {
                last.stderr = Bytes::new();
                (*probe, *garbage) = (None, None);
            }
            CloseCause::Opening(NegotiationFailure::TimedOut { garbage, .. }) => *garbage = None,
            _ => {}
        }
        cause
    }

    /// The end of a run as this client may see it.
    fn run_end(&self, end: &RunExit) -> RunExit {
        match end {
            RunExit::NotOpened(error) => {
                let mut error = error.clone();
                error.cause = self.cause(&error.cause);
                RunExit::NotOpened(error)
            }
            RunExit::Ended(cause) => RunExit::Ended(self.cause(cause)),
            _ => end.clone(),
        }
    }

    /// The error for a client without a server. If the server refused to open, this is the server's own error.
    pub(super) fn refusal(&self, refusal: &Refusal) -> ErrorObject {
        let end = match refusal {
            Refusal::NotStarted(end) => Some(&**end),
            Refusal::Gone(why) => match &**why {
                RestartError::GivenUp { last, .. } | RestartError::TimedOut { last, .. } => Some(last),
                _ => None,
            },
            Refusal::TooMany { .. }
            | Refusal::TooManyStarts { .. }
            | Refusal::NotReady { .. }
            | Refusal::Closed => None,
        };
        if let (Refusal::NotStarted(_), Some(RunExit::NotOpened(error))) = (refusal, end)
            && let CloseCause::Opening(NegotiationFailure::Refused { error, .. }) = &error.cause
        {
            return error.clone();
        }
        let mut facts = exit_of(end.and_then(RunExit::link_end));
        let (kind, text) = match refusal {
            Refusal::NotStarted(end) => {
                ("notStarted", format!("the server was not started: {}", self.run_end(end)))
            }
            Refusal::Gone(why) => {
                let starts = match &**why {
                    RestartError::GivenUp { starts, .. } => Some(("starts", starts.to_string())),
                    _ => None,
                };
                let kind = if starts.is_some() { "givenUp" } else { "notThere" };
                facts.extend(starts);
                let mut why = why.clone();
                if let RestartError::GivenUp { last, .. } | RestartError::TimedOut { last, .. } = &mut *why {
                    *last = self.run_end(last);
                }
                (kind, why.to_string())
            }
            Refusal::TooMany { limit } => {
                facts.push(("limit", limit.to_string()));
                ("tooManyServers", refusal.to_string())
            }
            Refusal::TooManyStarts { limit, burst, retry_after } => {
                facts.push(("limit", limit.to_string()));
                facts.push(("burst", burst.to_string()));
                facts.push(("retryAfterMs", millis(*retry_after)));
                ("tooManyStarts", refusal.to_string())
            }
            Refusal::NotReady { .. } => ("notReady", refusal.to_string()),
            Refusal::Closed => ("closed", refusal.to_string()),
        };
        self.failure(kind, &text, &facts)
    }

    /// The error for a client whose server is gone.
    pub(super) fn gone(&self, why: RestartError) -> ErrorObject {
        self.refusal(&Refusal::Gone(Box::new(why)))
    }

    /// The error for a call without a result: the error of `peer` if it sent one, else one that says why there is no
    /// result.
    pub(super) async fn call_error(&self, error: CallError, peer: &Connection) -> ErrorObject {
        let text = error.to_string();
        match error {
            CallError::Remote(error) => without_session_end(error),
            CallError::Closed(known) => {
                // The exit status is known only after the process has ended.
                let cause = timeout(EXIT_STATUS_TIMEOUT, peer.closed()).await;
                self.server_ended(cause.as_ref().unwrap_or(&known))
            }
            CallError::Refused(CallRefused::Closed) => {
                let cause = timeout(EXIT_STATUS_TIMEOUT, peer.closed()).await;
                self.server_ended(cause.as_ref().unwrap_or(&CloseCause::Local))
            }
            CallError::TimedOut { after, .. } => {
                if let Some(settings) = &self.settings {
                    settings.warn(Problem::Unanswered, format_args!("a call was not answered: {text}"));
                }
                self.failure("timeout", &text, &[("afterMs", millis(after))])
            }
            CallError::Refused(CallRefused::TooLarge { limit, .. })
            | CallError::ResponseTooLarge { limit, .. } => {
                self.failure("tooLarge", &text, &[("limit", limit.to_string())])
            }
            CallError::Lost(lost) if lost.kind == TransportErrorKind::SessionEnded => {
                self.session_lost(&lost.message)
            }
            CallError::Lost(_) => self.failure("lost", &text, &[]),
            _ => self.failure("refused", &text, &[]),
        }
    }

    /// The error for a client whose session has ended, because the target has lost its part of it. Over HTTP its status is 404.
    pub(super) fn session_lost(&self, why: &str) -> ErrorObject {
        self.failure("sessionEnded", &format!("{why}; initialize again"), &[])
    }

    fn server_ended(&self, cause: &CloseCause) -> ErrorObject {
        let end: Option<&TransportEnd> = match cause {
            CloseCause::Link(end) | CloseCause::Opening(NegotiationFailure::Ended { last: end, .. }) => {
                Some(end)
            }
            _ => None,
        };
        self.failure("serverEnded", &self.cause(cause).to_string(), &exit_of(end))
    }
}

/// The exit status of a process, as members of `data`.
fn exit_of(end: Option<&TransportEnd>) -> Vec<(&'static str, String)> {
    match end.and_then(|end| end.exit) {
        Some(ProcessExit::Code(code)) => vec![("exitCode", code.to_string())],
        Some(ProcessExit::Signal(signal)) => vec![("signal", signal.to_string())],
        None => Vec::new(),
    }
}

pub(super) fn millis(duration: Duration) -> String {
    duration.as_millis().to_string()
}

/// Answers a request, and says whether this gateway has refused it because of a limit or a rule.
pub(super) async fn noting_refusal<T>(answer: impl Future<Output = T>) -> (T, bool) {
    let (mut answer, mut is_refused) = (pin!(answer), false);
    let answer = poll_fn(|task| {
        IS_REFUSED.sync_scope(Cell::new(is_refused), || {
            let polled = answer.as_mut().poll(task);
            is_refused = IS_REFUSED.with(Cell::get);
            polled
        })
    });
    (answer.await, is_refused)
}

/// Notes that this gateway refuses the request that is being answered.
pub(super) fn note_refusal() {
    // Without records nobody asks.
    let _ = IS_REFUSED.try_with(|is_refused| is_refused.set(true));
}

/// An error of the gateway whose text contains nothing secret. Its `data` has the kind of failure as `gateway`, and the
/// facts, which are JSON values, beside it.
pub(super) fn failure(kind: &str, message: &str, facts: &[(&str, String)]) -> ErrorObject {
    if REFUSALS.contains(&kind) {
        note_refusal();
    }
    let mut data = format!("{{\"gateway\":\"{kind}\"");
    for (name, value) in facts {
        data.push_str(&format!(",\"{name}\":{value}"));
    }
    data.push('}');
    let error = ErrorObject::internal(message);
    match Raw::parse(data) {
        Ok(data) => error.with_data(data),
        Err(_) => error,
    }
}

/// The error for a client whose session cannot be opened from its id. Over HTTP its status is 404.
pub(super) fn session_ended() -> ErrorObject {
    failure("sessionEnded", "no such session; initialize again", &[])
}

/// The error of a server, which cannot say that the session of its client has ended: the session may be with other servers as well,
/// and over HTTP that error has the status 404.
pub(super) fn without_session_end(mut error: ErrorObject) -> ErrorObject {
    let kind = error.data.as_ref().and_then(|data| data.member("gateway"));
    if kind.as_ref().and_then(Raw::to_string_value).as_deref() == Some("sessionEnded") {
        let without = |data| Payload::from_raw(data).without_members(|name| name == "gateway").into_raw();
        error.data = error.data.map(without);
    }
    error
}

/// Whether an error is the gateway's own, and not a server's.
pub(super) fn is_of_gateway(error: &ErrorObject) -> bool {
    error.data.as_ref().is_some_and(|data| data.member("gateway").is_some())
}

/// The error for a server that asks a client which has left.
pub(super) fn client_gone() -> ErrorObject {
    failure("clientGone", "the client has left", &[])
}
