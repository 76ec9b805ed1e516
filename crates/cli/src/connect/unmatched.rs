//! What the server sends in place of an answer: a text that is no message, or a response with the id of no request.
//!
//! Added to the client by `connect::plan`, and asked by `Endpoint` about a request without an answer. A server answers each request
//! once: when as many responses without a known id have come as requests wait, none of these gets another one. They fail at once, and
//! not at their timeouts. A second response to an earlier request proves nothing, because some servers repeat theirs. It is named
//! where a request waits a while after it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin::client::ClientBuilder;
use mcpjoin::proto::decode::Shape;
use mcpjoin::proto::session::{CallError, Violation};
use mcpjoin::proto::text::Line;
use mcpjoin::proto::{DecodeError, DecodeErrorKind, Method, RequestId};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::ui::Ui;

/// How long a request waits for its own answer after a response that belongs to no request, or to another one.
const GRACE: Duration = Duration::from_secs(2);
/// The longest id that is shown.
const MAX_ID_CHARS: usize = 80;

/// What has come that belongs to no request. Clones know the same.
#[derive(Clone, Default)]
pub(super) struct Unmatched(Arc<watch::Sender<Seen>>);

#[derive(Default)]
struct Seen {
    /// The last thing that was no answer, for the failure of a request that waits for one.
    last: Option<String>,
    /// The requests that wait.
    waiting: usize,
    /// The responses to no request since requests wait, and what is wrong with the last one.
    unknown: usize,
    problem: String,
    /// The request that has been answered twice, since requests wait.
    repeated: Option<RequestId>,
}

impl Seen {
    /// Whether each request that waits has been answered with something that belongs to none.
    const fn is_misdirected(&self) -> bool {
        self.waiting > 0 && self.unknown >= self.waiting
    }

    fn note(&mut self, violation: &Violation) {
        match violation {
            Violation::Malformed { error, .. } => {
                self.last = Some(format!("a text that is not a message: {error}"));
                if is_response(error) {
                    self.misdirected(error.to_string());
                }
            }
            Violation::UnknownResponse { id: Some(id) } => {
                let id = shown(id);
                self.last = Some(format!("a response with the id {id}, which no request has"));
                self.misdirected(format!("it has the id {id}, which no request has"));
            }
            // It may be for a notification, so the request goes on waiting.
            Violation::UnknownResponse { id: None } if self.waiting > 0 => {
                self.last = Some(violation.to_string());
            }
            Violation::LateResponse { id } => {
                self.last = Some(format!("a second response to the request {}", shown(id)));
                if self.waiting > 0 {
                    self.repeated = Some(id.clone());
                }
            }
            _ => {}
        }
    }

    /// A response to no request has come.
    fn misdirected(&mut self, problem: String) {
        if self.waiting > 0 {
            self.unknown += 1;
            self.problem = problem;
        }
    }
}

/// Whether a text that is no message is a response to a request that it does not name. One without an id may be for a notification:
/// some servers answer those.
fn is_response(error: &DecodeError) -> bool {
    let is_id = match &error.kind {
        DecodeErrorKind::DuplicateMember { member } => &**member == "id",
        kind => matches!(kind, DecodeErrorKind::IdType | DecodeErrorKind::IdTooLong { .. }),
    };
    is_id && error.shape == Shape::Response && error.id.is_none()
}

/// A request that waits for its answer.
struct Waiting<'a> {
    seen: &'a watch::Sender<Seen>,
    answered: bool,
}

impl<'a> Waiting<'a> {
    fn new(seen: &'a watch::Sender<Seen>) -> Self {
        seen.send_modify(|seen| seen.waiting += 1);
        Self { seen, answered: false }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.seen.send_modify(|seen| {
            seen.waiting -= 1;
            // Its response may have been one of those.
            seen.unknown -= usize::from(!self.answered && seen.unknown > 0);
            if seen.waiting == 0 {
                (seen.unknown, seen.repeated) = (0, None);
            }
        });
    }
}

impl Unmatched {
    /// The same client, whose requests fail when their answers have unknown ids.
    pub(super) fn of(&self, ui: &Ui, client: ClientBuilder) -> ClientBuilder {
        let known = self.clone();
        let client = client.also_on_violation(move |violation| {
            known.0.send_if_modified(|seen| {
                seen.note(violation);
                seen.waiting > 0
            });
        });
        let (known, ui) = (self.clone(), ui.clone());
        client.layer(move |call, next| {
            let (known, ui) = (known.clone(), ui.clone());
            async move {
                let method = call.method.clone();
                // The stream of a subscription waits for no answer.
                if method == Method::Listen {
                    return next.run(call).await;
                }
                let mut waiting = Waiting::new(&known.0);
                tokio::select! {
                    biased;
                    outcome = next.run(call) => {
                        waiting.answered = true;
                        outcome
                    }
                    problem = known.misdirected(&ui, &method) => {
                        Err(CallError::InvalidResponse { method, problem: problem.into() })
                    }
                }
            }
        })
    }

    /// Waits until the request will probably get no answer. Returns why. Tells the user of a call, and does not return.
    async fn misdirected(&self, ui: &Ui, method: &Method) -> String {
        let waits = Line::of(method.as_str());
        let repeated = async {
            // The sender is alive as long as this is.
            let mut seen = self.0.subscribe();
            let repeated = seen.wait_for(|seen| seen.repeated.is_some()).await;
            let id = repeated.ok().and_then(|seen| seen.repeated.clone());
            sleep(GRACE).await;
            if let Some(id) = id {
                let id = shown(&id);
                ui.warning_once(&format!(
                    "the server has answered the request {id} twice, and {waits} not yet"
                ));
            }
            std::future::pending::<Infallible>().await
        };
        let unknown = async {
            let mut seen = self.0.subscribe();
            loop {
                let _ = seen.wait_for(Seen::is_misdirected).await;
                sleep(GRACE).await;
                let problem = {
                    let seen = seen.borrow();
                    seen.is_misdirected().then(|| seen.problem.clone())
                };
                match problem {
                    Some(problem) if *method != Method::CallTool => break problem,
                    Some(problem) => {
                        ui.warning_once(&format!(
                            "the server has sent a response while {waits} waits: {problem}; Ctrl-C cancels the call"
                        ));
                        std::future::pending::<Infallible>().await;
                    }
                    None => {}
                }
            }
        };
        tokio::select! {
            problem = unknown => problem,
            never = repeated => match never {},
        }
    }

    /// What has come last that was no answer.
    pub(super) fn last(&self) -> Option<String> {
        self.0.borrow().last.clone()
    }
}

/// An id as in JSON.
fn shown(id: &RequestId) -> String {
    let id = id.to_string();
    Line::of(&id).truncated(MAX_ID_CHARS).to_string()
}

#[cfg(test)]
mod tests {
    use mcpjoin::proto::RequestId;
    use mcpjoin::proto::session::Violation;

    use super::{Unmatched, Waiting};

    fn unknown(id: i64) -> Violation {
        Violation::UnknownResponse { id: Some(RequestId::from(id)) }
    }

    #[test]
    fn requests_are_unanswered_when_as_many_responses_have_unknown_ids() {
        let unmatched = Unmatched::default();
        let note = |violation: &Violation| unmatched.0.send_modify(|seen| seen.note(violation));
        let is_misdirected = || unmatched.0.borrow().is_misdirected();
        // Nothing waits for this one.
        note(&unknown(7));
        let mut first = Waiting::new(&unmatched.0);
        let second = Waiting::new(&unmatched.0);
        assert!(!is_misdirected());
        note(&unknown(8));
        assert!(!is_misdirected());
        first.answered = true;
        drop(first);
        assert!(is_misdirected());
        // It was the answer to the second one.
        drop(second);
        let third = Waiting::new(&unmatched.0);
        // An answer to a notification has no id, and one that comes again may be an extra one.
        note(&Violation::UnknownResponse { id: None });
        note(&Violation::LateResponse { id: RequestId::from(1) });
        assert!(!is_misdirected());
        assert_eq!(unmatched.last().as_deref(), Some("a second response to the request 1"));
        drop(third);
    }
}
