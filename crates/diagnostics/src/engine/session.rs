//! A session with a server: what every transport sends, awaits and records in the same way.
//!
//! Implemented for lines and for HTTP, and used by `validate`. Its limits on messages and bytes are those of one run.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use mcpjoin_proto::session::NegotiationFailure;
use mcpjoin_proto::{
    DecodeError, ErrorObject, Message, Method, Payload, Raw, Request, RequestId, Response, Version, code,
};
use mcpjoin_rules::{CallWarning, Line, Probe, Run, What};
use tokio::time::Instant;

use super::message::{self, Manner, Question};

/// Requests without a response in time, until nothing more is sent.
const MAX_TIMEOUTS: usize = 2;
/// Messages that are recorded; then nothing more is sent.
pub(super) const MAX_MESSAGES: usize = 20_000;
/// Bytes that are recorded.
pub(super) const MAX_BYTES: usize = 64 * 1024 * 1024;

/// What is being done.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// The number of the run, counted from 1.
    pub number: usize,
    /// The purpose of the run.
    pub run: &'a str,
    /// What is sent.
    pub probe: Probe,
}

/// Called before each message that is sent.
pub(crate) type ProgressFn = Box<dyn FnMut(Progress<'_>) + Send>;

/// Reports the progress of one run.
#[derive(Clone)]
pub(crate) struct Reporter {
    pub(crate) number: usize,
    pub(crate) progress: Arc<Mutex<ProgressFn>>,
}

/// How much was recorded. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    messages: AtomicUsize,
    bytes: AtomicUsize,
}

impl Traffic {
    /// Counts messages and bytes. The bytes were really received, so that their sum does not overflow.
    pub(crate) fn add(&self, messages: usize, bytes: usize) {
        self.0.messages.fetch_add(messages, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn messages(&self) -> usize {
        self.0.messages.load(Ordering::Relaxed)
    }

    /// Whether a limit is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full_without(0)
    }

    /// Whether a limit is reached when `bytes` of the counted bytes are left out.
    pub(crate) fn is_full_without(&self, bytes: usize) -> bool {
        self.messages() >= MAX_MESSAGES
            || self.0.bytes.load(Ordering::Relaxed).saturating_sub(bytes) >= MAX_BYTES
    }
}

/// What every session has.
pub(crate) struct RunState {
    pub(crate) run: Run,
    pub(crate) manner: Manner,
    /// When the process was about to be started, or the connection to be made.
    pub(crate) started: Instant,
    pub(crate) response_timeout: Duration,
    /// Problems with the calls that the user has asked for.
    pub(crate) notes: Vec<CallWarning>,
    pub(crate) traffic: Traffic,
    /// Requests without a response in time.
    pub(crate) timeouts: usize,
    reporter: Reporter,
    last_id: i64,
}

/// The outcome of a request.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Result(Payload),
    Error(ErrorObject),
    /// The response is not a valid message.
    Broken(DecodeError),
    /// The server sent a request that only clients send: it sends back what it receives.
    Echo,
    /// A response with this id, which no request has.
    Other(RequestId),
    /// No response in time.
    Nothing,
}

/// Finds out whether only clients send requests of this method.
pub(super) const fn is_of_clients(method: &Method) -> bool {
    matches!(method, Method::Initialize | Method::Discover)
}

impl RunState {
    /// The state of a run that starts now. `response_timeout`: how long a response may take.
    pub(crate) fn new(run: Run, manner: Manner, response_timeout: Duration, reporter: Reporter) -> Self {
        Self {
            run,
            manner,
            started: Instant::now(),
            response_timeout,
            notes: Vec::new(),
            traffic: Traffic::default(),
            timeouts: 0,
            reporter,
            last_id: 0,
        }
    }

    /// The state of another connection of the same session, whose events become part of this run later.
    pub(super) fn fork(&self) -> Self {
        Self {
            run: Run::new(&self.run.name, self.run.version.clone()).over(self.run.channel),
            manner: self.manner.clone(),
            notes: Vec::new(),
            // All connections together receive no more than one may.
            traffic: self.traffic.clone(),
            timeouts: 0,
            reporter: self.reporter.clone(),
            ..*self
        }
    }

    /// Records an event without an exchange.
    pub(super) fn note(&mut self, what: What) {
        self.run.note(self.started.elapsed(), what);
    }

    /// Whether a request has had this id, among those that are counted.
    pub(super) fn has_counted(&self, id: &RequestId) -> bool {
        id.as_i64().is_some_and(|id| (1..=self.last_id).contains(&id))
    }

    /// Counts a request without a response. Returns whether there are too many of them.
    pub(super) fn timed_out(&mut self) -> bool {
        self.timeouts += 1;
        self.has_given_up()
    }

    pub(super) const fn has_given_up(&self) -> bool {
        self.timeouts >= MAX_TIMEOUTS
    }
}

/// A conversation with a server, over one transport.
pub(crate) trait Session: Send {
    fn state(&self) -> &RunState;

    fn state_mut(&mut self) -> &mut RunState;

    /// Whether nothing more is sent: the server has ended, does not respond, or has sent too much.
    fn is_over(&self) -> bool;

    /// Sends a request and waits for its response, at most for `within`. `headers`: further ones, over HTTP.
    async fn request_with(
        &mut self,
        probe: Probe,
        line: String,
        headers: &[(String, String)],
        within: Duration,
    ) -> Outcome;

    /// Sends independent requests and waits for all responses: at once, where the transport carries several in a row.
    async fn requests(&mut self, probe: Probe, lines: Vec<String>);

    /// Sends a message that has no response.
    async fn notify(&mut self, probe: Probe, line: &str);

    /// Sends a request, cancels it, and records what follows. Does nothing where closing the exchange cancels it.
    async fn cancel(&mut self, question: Question<'_>);

    /// Lists the tools over another connection, where a session can have several.
    async fn list_elsewhere(&mut self);

    /// Opens a subscription, waits for its first message and ends it.
    async fn subscribe(&mut self, line: String);

    /// Whether a notification cancels a request.
    fn has_cancel(&self) -> bool;

    /// Takes over the version on which `initialize` has agreed.
    fn agree(&mut self, version: Version);

    /// A request id, as JSON, that this run has not used.
    fn next_id(&mut self) -> String {
        let state = self.state_mut();
        state.last_id += 1;
        state.last_id.to_string()
    }

    /// The request id that was used last.
    fn last_id(&self) -> String {
        self.state().last_id.to_string()
    }

    /// Reports what is sent next.
    fn announce(&mut self, probe: Probe) {
        let state = self.state();
        let mut progress = state.reporter.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress(Progress { number: state.reporter.number, run: &state.run.name, probe });
    }

    /// The text of a request without parameters, with a new id.
    fn line(&mut self, method: &str) -> String {
        let id = self.next_id();
        message::request(&self.state().manner, &id, method)
    }

    /// The method that every server of this era responds to.
    fn control(&self) -> &'static str {
        self.state().manner.control()
    }

    /// Sends a request without parameters.
    async fn ask(&mut self, probe: Probe, method: &str) -> Outcome {
        let within = self.state().response_timeout;
        self.ask_within(probe, method, within).await
    }

    async fn ask_within(&mut self, probe: Probe, method: &str, within: Duration) -> Outcome {
        let line = self.line(method);
        self.ask_line(probe, line, within).await
    }

    async fn ask_line(&mut self, probe: Probe, line: String, within: Duration) -> Outcome {
        self.announce(probe);
        self.request_with(probe, line, &[], within).await
    }

    /// Sends a request with parameters. Returns its result or error; `None` when there is no response.
    async fn question(&mut self, question: Question<'_>) -> Option<Result<Payload, ErrorObject>> {
        self.announce(question.probe);
        let id = self.next_id();
        let line = question.line(&self.state().manner, &id);
        let within = self.state().response_timeout;
        self.request_with(question.probe, line, &question.headers, within).await.response()
    }

    /// Sends the request that every server of this era responds to.
    async fn ask_control(&mut self, probe: Probe) -> Outcome {
        self.ask(probe, self.control()).await
    }

    /// Sends `initialize`.
    async fn initialize(&mut self, probe: Probe, version: &Version, within: Duration) -> Outcome {
        let line = message::initialize(&self.next_id(), version.as_str());
        self.ask_line(probe, line, within).await
    }

    async fn initialized(&mut self) {
        self.notify(Probe::Initialized, &message::initialized()).await;
    }
}

/// The one request in a line.
pub(crate) fn only_request(line: &Line) -> Option<&Request> {
    let mut parts = line.parts();
    match (parts.next(), parts.next()) {
        (Some(Ok(Message::Request(request))), None) if !line.is_array() => Some(request),
        _ => None,
    }
}

/// The first request in the text of a message.
pub(crate) fn request_in(line: &str) -> Option<Request> {
    Line::new(line.to_owned()).parts().find_map(|part| match part {
        Ok(Message::Request(request)) => Some(request.clone()),
        _ => None,
    })
}

/// The ids of the requests in a line; with `malformed`, also of what is no valid request but has an id.
pub(super) fn request_ids(line: &Line, malformed: bool) -> Vec<RequestId> {
    let ids = line.parts().filter_map(|part| match part {
        Ok(Message::Request(request)) => Some(request.id.clone()),
        Ok(_) => None,
        Err(error) => error.id.clone().filter(|_| malformed),
    });
    ids.collect()
}

/// The response to a request of the server: to `ping` an empty result, to everything else an error.
pub(super) fn response_to(id: RequestId, method: &Method) -> String {
    let outcome = match method {
        Method::Ping => Ok(Payload::from_raw(Raw::empty_object())),
        other => Err(ErrorObject::method_not_found(other.as_str())),
    };
    let mut line = BytesMut::new();
    mcpjoin_proto::encode::message(&Message::from(Response { id: Some(id), outcome }), &mut line);
    String::from_utf8_lossy(&line).into_owned()
}

impl Outcome {
    pub(super) fn of(outcome: &Result<Payload, ErrorObject>) -> Self {
        match outcome {
            Ok(result) => Self::Result(result.clone()),
            Err(error) => Self::Error(error.clone()),
        }
    }

    /// The content of the response, if it is one to the request.
    pub(super) fn response(self) -> Option<Result<Payload, ErrorObject>> {
        match self {
            Self::Result(result) => Some(Ok(result)),
            Self::Error(error) => Some(Err(error)),
            Self::Broken(_) | Self::Echo | Self::Other(_) | Self::Nothing => None,
        }
    }

    /// Whether the server refuses the version of the request.
    pub(crate) fn is_unsupported_version(&self) -> bool {
        matches!(self, Self::Error(error) if error.code == code::UNSUPPORTED_PROTOCOL_VERSION)
    }

    /// Why a request with this outcome has opened no session; `None` when there was no response. `asked`: its id.
    pub(crate) fn opening_failure(
        self,
        method: Method,
        asked: Option<RequestId>,
    ) -> Option<NegotiationFailure> {
        Some(match self {
            Self::Error(ErrorObject {
                code: code::UNSUPPORTED_PROTOCOL_VERSION, data: Some(data), ..
            }) => {
                let supported = data.member("supported").and_then(|list| list.decode().ok());
                NegotiationFailure::NoCommonVersion { supported: supported.unwrap_or_default() }
            }
            Self::Error(error) => NegotiationFailure::Refused { method, error },
            Self::Result(_) => NegotiationFailure::InvalidResponse {
                method,
                problem: "it is not a valid response to this request".to_owned().into(),
            },
            Self::Broken(error) => NegotiationFailure::InvalidResponse { method, problem: error.into() },
            Self::Echo => NegotiationFailure::Echo { method },
            Self::Other(given) => {
                let asked = asked.unwrap_or_else(|| given.clone());
                NegotiationFailure::UnknownResponse { method, asked, given }
            }
            Self::Nothing => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_body_brings_ends_the_others_and_not_itself() {
        let traffic = Traffic::default();
        traffic.add(0, MAX_BYTES);
        assert!(traffic.is_full() && !traffic.is_full_without(MAX_BYTES));
        let traffic = Traffic::default();
        (1..MAX_MESSAGES).for_each(|_| traffic.add(1, 0));
        assert!(!traffic.is_full());
        traffic.add(1, 0);
        assert!(traffic.is_full());
    }
}
