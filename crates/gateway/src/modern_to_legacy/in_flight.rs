//! The requests in flight on one run of a legacy server, and the call that owns the server.
//!
//! A legacy server sends questions (`elicitation/create`, `sampling/createMessage`, `roots/list`) and log messages
//! without naming the request they are about. A modern client receives both only as part of a request of its own. So
//! each of them is assigned to a request by these rules:
//!
//! - If the client can be asked something, at most one call is in flight here ([`InFlight::claim`]). It owns the server.
//!   The pool gives the next call another server, or lets it wait.
//! - A question belongs to that call. It is refused if there is no such call. Where several clients share the server, it
//!   is also refused while another request is in flight beside the call, or after a request ended before the server
//!   answered it: the question may be about that request.
//! - A log message belongs to the oldest request that wants its level. Where several clients share the server, it is
//!   delivered only to a request that has been the only one since it began.
//!
//! A question is assigned when it arrives and never moves to another request.
//!
//! Used by `rounds` for calls and by `mod` for messages of the server. `C` is the handle through which a client is
//! notified.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcpjoin_proto::types::{InputRequest, InputRequests, InputResponses, LoggingLevel};
use mcpjoin_proto::{ErrorObject, Notification, Raw};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::errors::failure;

/// Log messages, in number and in bytes, that are stored for a call whose client is away. Beyond either limit the
/// oldest are dropped.
const MAX_STORED_LOGS: usize = 64;
const MAX_STORED_LOG_BYTES: usize = 64 * 1024;

type Answer = Result<Raw, ErrorObject>;

/// The requests in flight on one run of a server.
pub(super) struct InFlight<C> {
    /// The requests are those of several clients.
    shared: bool,
    /// At most one call is in flight, because the server may ask its client something.
    exclusive: bool,
    /// Called when a request ends.
    on_end: Box<dyn Fn() + Send + Sync>,
    state: Mutex<State<C>>,
    /// Notified when the owner is asked something.
    question: Notify,
}

struct State<C> {
    last_number: u64,
    /// By number, so the oldest comes first.
    requests: BTreeMap<u64, Request<C>>,
    /// The call that owns the server.
    owner: Option<Owner>,
    /// A request of a shared server ended before the server answered it. The server may still send messages about it.
    left_unanswered: bool,
    /// When the last request ended.
    last_end: Instant,
}

struct Request<C> {
    /// No other request was in flight since this one began.
    alone: bool,
    /// The server has received it and has not answered it.
    at_server: bool,
    /// The lowest level of log messages that its client wants.
    log_level: Option<LoggingLevel>,
    /// Its client. `None` while the client is away with questions, and for requests of the gateway.
    client: Option<C>,
}

/// The call that the server's questions are about.
struct Owner {
    number: u64,
    /// Whether the call is at the server. `false`: the server refused it, and it is repeated when its client returns.
    accepts_questions: bool,
    questions: Vec<Question>,
    /// How many questions it has received in total.
    asked: u64,
    /// Log messages for its client, which is away.
    logs: VecDeque<Notification>,
    log_bytes: usize,
}

struct Question {
    number: u64,
    /// Its key in `inputRequests`.
    key: String,
    request: InputRequest,
    bytes: usize,
    answer: oneshot::Sender<Answer>,
}

/// A request in flight. Dropping it ends the request, and refuses the questions that it has not answered.
pub(super) struct RequestGuard<C> {
    in_flight: Arc<InFlight<C>>,
    number: u64,
}

/// A question that waits for its answer. Dropping it withdraws the question.
pub(super) struct PendingQuestion<C> {
    in_flight: Arc<InFlight<C>>,
    number: u64,
    answer: oneshot::Receiver<Answer>,
}

/// The client of a request, and the lowest level of log messages that the request asks for.
pub(super) struct Requester<C> {
    pub(super) client: C,
    pub(super) log_level: Option<LoggingLevel>,
}

impl<C> InFlight<C> {
    /// Since when no request is in flight; `None` if one is.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        state.requests.is_empty().then_some(state.last_end)
    }

    /// Whether a request ended before the server answered it, so that no call that can be asked may begin here.
    pub(super) fn is_left_unanswered(&self) -> bool {
        self.exclusive && self.state.lock().left_unanswered
    }
}

impl<C: Clone> InFlight<C> {
    /// `shared`: the requests are those of several clients. `can_be_asked`: the server may ask these clients something.
    /// `on_end` is called without a lock each time a request ends, and must not block.
    pub(super) fn new(shared: bool, can_be_asked: bool, on_end: impl Fn() + Send + Sync + 'static) -> Self {
        let state = State {
            last_number: 0,
            requests: BTreeMap::new(),
            owner: None,
            left_unanswered: false,
            last_end: Instant::now(),
        };
        Self {
            shared,
            exclusive: can_be_asked,
            on_end: Box::new(on_end),
            state: Mutex::new(state),
            question: Notify::new(),
        }
    }

    /// Begins a request during which its client cannot be asked anything. `None`: the gateway makes it for no client.
    pub(super) fn begin(self: &Arc<Self>, requester: Option<Requester<C>>) -> RequestGuard<C> {
        self.insert(&mut self.state.lock(), requester)
    }

    /// Begins a call during which the client can be asked for input, and makes it the owner of the server. `None` if
    /// another call owns the server, or if a request was left unanswered.
    pub(super) fn claim(self: &Arc<Self>, requester: Requester<C>) -> Option<RequestGuard<C>> {
        let mut state = self.state.lock();
        if self.exclusive && (state.left_unanswered || state.owner.is_some()) {
            return None;
        }
        let guard = self.insert(&mut state, Some(requester));
        state.owner = self.exclusive.then(|| Owner {
            number: guard.number,
            accepts_questions: true,
            questions: Vec::new(),
            asked: 0,
            logs: VecDeque::new(),
            log_bytes: 0,
        });
        Some(guard)
    }

    fn insert(self: &Arc<Self>, state: &mut State<C>, requester: Option<Requester<C>>) -> RequestGuard<C> {
        let alone = state.requests.is_empty() && !state.left_unanswered;
        for other in state.requests.values_mut() {
            other.alone = false;
        }
        let number = state.next_number();
        let log_level = requester.as_ref().and_then(|requester| requester.log_level);
        let client = requester.map(|requester| requester.client);
        state.requests.insert(number, Request { alone, at_server: false, log_level, client });
        RequestGuard { in_flight: self.clone(), number }
    }

    /// Assigns a question of the server to the call that owns it. `bytes`: the size of the question.
    ///
    /// # Errors
    /// The refusal to answer the server with, if there is no such call or the question may be about another request.
    pub(super) fn ask(
        self: &Arc<Self>,
        request: InputRequest,
        bytes: usize,
    ) -> Result<PendingQuestion<C>, ErrorObject> {
        let mut state = self.state.lock();
        let number = state.next_number();
        let State { requests, owner, left_unanswered, .. } = &mut *state;
        let owner = owner.as_mut().filter(|owner| owner.accepts_questions).ok_or_else(no_call)?;
        let is_other = |(number, other): (&u64, &Request<C>)| *number != owner.number && other.at_server;
        if self.shared && (*left_unanswered || requests.iter().any(is_other)) {
            return Err(several_requests());
        }
        owner.asked += 1;
        let key = format!("ask-{}", owner.asked);
        let (sender, answer) = oneshot::channel();
        owner.questions.push(Question { number, key, request, bytes, answer: sender });
        drop(state);
        self.question.notify_one();
        Ok(PendingQuestion { in_flight: self.clone(), number, answer })
    }

    /// The client that receives a log message of this level, or `None`. A message for a client that is away is stored
    /// until it returns.
    pub(super) fn log_recipient(&self, level: LoggingLevel, log: &Notification) -> Option<C> {
        let mut state = self.state.lock();
        let State { requests, owner, .. } = &mut *state;
        let wants = |request: &Request<C>| {
            (request.alone || !self.shared) && request.log_level.is_some_and(|lowest| level >= lowest)
        };
        let wanting = || requests.iter().filter(|(_, request)| wants(request));
        let recipient = wanting().find_map(|(_, request)| request.client.clone());
        if recipient.is_none()
            && let Some((number, _)) = wanting().next()
            && let Some(owner) = owner.as_mut().filter(|owner| owner.number == *number)
        {
            owner.store_log(log.clone());
        }
        recipient
    }

    /// The client of the oldest request, if all requests are those of one client.
    pub(super) fn only_client(&self) -> Option<C> {
        let state = self.state.lock();
        state.requests.values().filter(|_| !self.shared).find_map(|request| request.client.clone())
    }

    /// The lowest level of log messages that a request in flight asks for.
    pub(super) fn lowest_log_level(&self) -> Option<LoggingLevel> {
        self.state.lock().requests.values().filter_map(|request| request.log_level).min()
    }
}

impl<C> State<C> {
    const fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

impl Owner {
    fn store_log(&mut self, log: Notification) {
        self.log_bytes += log.payload_len();
        self.logs.push_back(log);
        while self.logs.len() > MAX_STORED_LOGS || self.log_bytes > MAX_STORED_LOG_BYTES {
            let Some(oldest) = self.logs.pop_front() else { return };
            self.log_bytes -= oldest.payload_len();
        }
    }
}

/// The refusal of a question that may be about the request of another client.
fn several_requests() -> ErrorObject {
    failure(
        "severalClients",
        "the client cannot be asked: the question may belong to a request of another client, or to a \
         request that was cancelled",
        &[],
    )
}

/// The refusal of a question that belongs to no call.
fn no_call() -> ErrorObject {
    failure(
        "nobodyToAsk",
        "the client cannot be asked: in its protocol version a server sends requests only during \
         tools/call, prompts/get or resources/read, and none of them is in flight",
        &[],
    )
}

impl<C: Clone> RequestGuard<C> {
    /// Acts on the request, and on its part as the owner if it is the owner.
    fn with<R: Default>(&self, act: impl FnOnce(&mut Request<C>, Option<&mut Owner>) -> R) -> R {
        let mut state = self.in_flight.state.lock();
        let State { requests, owner, .. } = &mut *state;
        let Some(request) = requests.get_mut(&self.number) else { return R::default() };
        act(request, owner.as_mut().filter(|owner| owner.number == self.number))
    }

    /// Waits until the server asks something. Cancel-safe.
    pub(super) async fn asked(&self) {
        while !self.is_asked() {
            self.in_flight.question.notified().await;
        }
    }

    /// Whether the server waits for an answer.
    pub(super) fn is_asked(&self) -> bool {
        self.with(|_, owner| owner.is_some_and(|owner| !owner.questions.is_empty()))
    }

    /// The client leaves to answer the open questions. Returns them and their size in bytes.
    pub(super) fn suspend(&self) -> (InputRequests, usize) {
        self.with(|request, owner| {
            request.client = None;
            let questions: &[Question] = owner.map_or(&[], |owner| &owner.questions);
            let bytes = questions.iter().map(|question| question.bytes).sum();
            let requests = questions.iter().map(|question| (question.key.clone(), question.request.clone()));
            (requests.collect(), bytes)
        })
    }

    /// The client returns with answers. A question without an answer stays open, and an answer to an unknown question
    /// is ignored. Returns the log messages that were stored for the client.
    pub(super) fn resume(
        &self,
        requester: Requester<C>,
        responses: &InputResponses,
    ) -> VecDeque<Notification> {
        self.with(|request, owner| {
            request.set_requester(Some(requester));
            let Some(owner) = owner else { return VecDeque::new() };
            for question in owner.questions.extract_if(.., |question| responses.contains_key(&question.key)) {
                if let Some(response) = responses.get(&question.key) {
                    // The server may have withdrawn the question.
                    let _ = question.answer.send(Ok(response.raw().clone()));
                }
            }
            owner.log_bytes = 0;
            std::mem::take(&mut owner.logs)
        })
    }

    /// The server receives the request from now on.
    pub(super) fn sent(&self) {
        self.with(|request, _| request.at_server = true);
    }

    /// The server has answered the request.
    pub(super) fn answered(&self) {
        self.with(|request, _| request.at_server = false);
    }

    /// Sets the client when the call is made, for the first time or again. `None`: the server refused the call, and it
    /// is repeated when its client returns. Until then the call still owns the server, and its client cannot be asked.
    pub(super) fn set_requester(&self, requester: Option<Requester<C>>) {
        self.with(|request, owner| {
            if let Some(owner) = owner {
                owner.accepts_questions = requester.is_some();
            }
            request.set_requester(requester);
        });
    }

    /// Answers all open questions with an error.
    pub(super) fn fail(&self, error: &ErrorObject) {
        let questions =
            self.with(|_, owner| owner.map(|owner| std::mem::take(&mut owner.questions)).unwrap_or_default());
        for question in questions {
            let _ = question.answer.send(Err(error.clone()));
        }
    }
}

impl<C> Request<C> {
    fn set_requester(&mut self, requester: Option<Requester<C>>) {
        self.log_level = requester.as_ref().and_then(|requester| requester.log_level);
        self.client = requester.map(|requester| requester.client);
    }
}

impl<C> Drop for RequestGuard<C> {
    fn drop(&mut self) {
        let mut state = self.in_flight.state.lock();
        let Some(request) = state.requests.remove(&self.number) else { return };
        state.last_end = Instant::now();
        state.left_unanswered |= request.at_server && self.in_flight.shared;
        let owner = state.owner.take_if(|owner| owner.number == self.number);
        drop(state);
        for question in owner.into_iter().flat_map(|owner| owner.questions) {
            let _ = question.answer.send(Err(no_call()));
        }
        (self.in_flight.on_end)();
    }
}

impl<C> PendingQuestion<C> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// The error to answer the server with.
    pub(super) async fn answer(mut self) -> Answer {
        (&mut self.answer).await.unwrap_or_else(|_| Err(ErrorObject::internal("the client got no response")))
    }
}

impl<C> Drop for PendingQuestion<C> {
    fn drop(&mut self) {
        if let Some(owner) = &mut self.in_flight.state.lock().owner {
            owner.questions.retain(|question| question.number != self.number);
        }
    }
}

/// The level of log messages that was set at one run of a server.
///
/// In the modern era each request has its own level, in the legacy era the session has one. The server is told the
/// lowest level that a request in flight asks for. A request that asks for none changes nothing.
/// <https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging#setting-log-level>
#[derive(Default)]
pub(super) struct SessionLogLevel {
    current: tokio::sync::Mutex<Option<LoggingLevel>>,
    /// The server rejected `logging/setLevel`.
    rejected: AtomicBool,
}

impl SessionLogLevel {
    /// Sends the level to the server if it differs from the last one. `lowest` is read when no other request is setting
    /// the level; `send` returns whether the server accepted it.
    pub(super) async fn update<F: Future<Output = bool>>(
        &self,
        lowest: impl Fn() -> Option<LoggingLevel>,
        send: impl FnOnce(LoggingLevel) -> F,
    ) {
        if self.rejected.load(Ordering::Relaxed) {
            return;
        }
        let mut current = self.current.lock().await;
        let Some(wanted) = lowest() else { return };
        if *current == Some(wanted) || self.rejected.load(Ordering::Relaxed) {
            return;
        }
        // If this future is dropped while it sends, the level of the server is unknown.
        *current = None;
        if send(wanted).await {
            *current = Some(wanted);
        } else {
            // Trying again would cost each request a round trip.
            self.rejected.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
