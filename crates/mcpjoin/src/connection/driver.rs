//! Moves messages between the link and the session, runs handlers, and keeps the time.
//!
//! One task per connection runs it. A turn reads what is there, handles it, runs handlers where they are,
//! and sends everything that is ready in one go; after a bounded amount it lets others have the thread.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use mcpjoin_proto::session::{CloseCause, Event, Inbound, LinkEnd, Reply};
use mcpjoin_proto::{ErrorObject, Message, Notification, Request, RequestId, Time};
use tokio::time::Sleep;

use super::OnViolation;
use super::context::Context;
use super::core::{Core, Inner};
use crate::handler::{Answer, ErasedHandler};
use crate::link::Io;

/// Messages handled in one turn before everything is sent and others get the thread (64, as measured in the
/// plan: 0.75 to 1.02 of the floor's rate at depth 256).
const TURN: usize = 64;

/// Bytes of payload handled in one turn, so that 64 large messages do not gather.
const TURN_BYTES: usize = 256 * 1024;

/// A handler that keeps the thread for longer than this at a time is reported.
const LONG_POLL: Duration = Duration::from_millis(50);

/// How long what is left in the queue may take to leave when the connection closes.
const FAREWELL: Duration = Duration::from_secs(1);

/// Runs a connection until it is over. Dropping it ends the connection and everything its link has started.
#[must_use = "a connection does nothing unless its driver is run"]
pub struct Driver {
    core: Arc<Core>,
    io: Box<dyn Io>,
    handler: Arc<dyn ErasedHandler>,
    on_violation: Option<OnViolation>,
    running: FuturesUnordered<Running>,
    /// The contexts of the requests that handlers still work on, to tell them of a cancellation.
    contexts: Vec<(RequestId, Context)>,
    timer: Option<Pin<Box<Sleep>>>,
    timer_at: Time,
    stage: Stage,
    /// Room that is used again in every turn.
    inbound: Vec<Inbound>,
    events: VecDeque<Event>,
    answers: Vec<(RequestId, Result<Reply, ErrorObject>)>,
    wake: Vec<Waker>,
}

enum Stage {
    Starting,
    Running,
    Reopening,
    /// The session is over; what it still has to say may leave until then.
    Farewell(CloseCause, Time),
    Closing(CloseCause),
    Gone,
}

/// A handler that was not ready at once.
struct Running {
    id: Option<RequestId>,
    method: Box<str>,
    context: Context,
    future: RunningFuture,
}

enum RunningFuture {
    Request(Answer),
    Notification(Pin<Box<dyn Future<Output = ()> + Send>>),
}

/// What became of a handler.
enum Finished {
    Answered(RequestId, Result<Reply, ErrorObject>),
    Told,
    Cancelled,
}

impl Driver {
    pub(super) fn new(
        core: Arc<Core>,
        io: Box<dyn Io>,
        handler: Arc<dyn ErasedHandler>,
        on_violation: Option<OnViolation>,
    ) -> Self {
        Self {
            core,
            io,
            handler,
            on_violation,
            running: FuturesUnordered::new(),
            contexts: Vec::new(),
            timer: None,
            timer_at: Time::FAR,
            stage: Stage::Starting,
            inbound: Vec::new(),
            events: VecDeque::new(),
            answers: Vec::new(),
            wake: Vec::new(),
        }
    }

    fn turn(&mut self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let core = self.core.clone();
        let now = core.now();
        if matches!(self.stage, Stage::Starting) {
            core.lock().session.open(now);
            self.stage = Stage::Running;
        }
        let mut busy = self.read(cx, &core, now);
        busy |= self.settle_running(cx);
        busy |= self.send(cx, &core, now);
        self.keep_time(cx, &core, now);
        for waker in self.wake.drain(..) {
            waker.wake();
        }
        match self.stage {
            Stage::Running | Stage::Starting => {}
            Stage::Reopening => busy |= self.reopen(cx, &core),
            Stage::Farewell(..) | Stage::Closing(_) => busy |= self.say_farewell(cx, &core, now),
            Stage::Gone => return Poll::Ready(()),
        }
        if busy {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Reads what is there, up to a bound, and handles it. Says whether more may be there.
    fn read(&mut self, cx: &mut TaskContext<'_>, core: &Arc<Core>, now: Time) -> bool {
        if !matches!(self.stage, Stage::Running) {
            return false;
        }
        let wants_input = {
            let mut state = core.lock();
            state.set_driver(cx.waker());
            state.session.wants_input()
        };
        let mut bytes = 0;
        while wants_input && self.inbound.len() < TURN && bytes < TURN_BYTES {
            let Poll::Ready(inbound) = self.io.poll_inbound(cx) else { break };
            bytes += payload(&inbound);
            let closed = matches!(inbound, Inbound::Closed { .. });
            self.inbound.push(inbound);
            if closed {
                break;
            }
        }
        let more = self.inbound.len() == TURN || bytes >= TURN_BYTES;
        let mut state = core.lock();
        for inbound in self.inbound.drain(..) {
            state.session.handle(now, inbound);
        }
        self.take_events(&mut state);
        drop(state);
        self.run_events(core);
        more
    }

    /// Takes the events out of the session; what is for a call goes into its slot.
    fn take_events(&mut self, state: &mut Inner) {
        while let Some(event) = state.session.poll_event() {
            match event {
                Event::Outcome { id, outcome } => {
                    if let Some(slot) = id.as_i64().and_then(|id| state.slots.get_mut(&id)) {
                        slot.outcome = Some(outcome);
                        self.wake.extend(slot.waker.take());
                    }
                }
                Event::Progress { id, progress } => {
                    if let Some(slot) = id.as_i64().and_then(|id| state.slots.get_mut(&id)) {
                        slot.progress = Some(progress);
                        self.wake.extend(slot.waker.take());
                    }
                }
                Event::Notification { notification, call: Some(id) }
                    if id.as_i64().is_some_and(|id| state.slots.contains_key(&id)) =>
                {
                    if let Some(slot) = id.as_i64().and_then(|id| state.slots.get_mut(&id)) {
                        slot.push(notification);
                        self.wake.extend(slot.waker.take());
                    }
                }
                Event::Opened => {
                    state.opened = true;
                    self.wake.append(&mut state.take_watchers());
                }
                Event::Closed(cause) => {
                    state.closed = Some(cause.clone());
                    self.wake.append(&mut state.take_watchers());
                    self.events.push_back(Event::Closed(cause));
                }
                other => self.events.push_back(other),
            }
        }
        state.take_room(&mut self.wake);
    }

    /// Does what the events ask for that needs no lock.
    fn run_events(&mut self, core: &Arc<Core>) {
        while let Some(event) = self.events.pop_front() {
            match event {
                Event::Request { request, context } => {
                    let context = Context::of_request(core.clone(), request.id.clone(), context);
                    self.begin_request(request, context);
                }
                Event::Notification { notification, .. } => {
                    self.begin_notification(notification, Context::of_notification(core.clone()));
                }
                Event::Cancelled { id, .. } => self.cancel(&id),
                Event::Violation(violation) => {
                    tracing::debug!(target: "mcpjoin", %violation, "the peer broke a rule");
                    if let Some(on_violation) = &self.on_violation {
                        on_violation(&violation);
                    }
                }
                Event::Reopen => self.stage = Stage::Reopening,
                Event::Closed(cause) => {
                    self.running.clear();
                    for (_, context) in self.contexts.drain(..) {
                        context.cancel();
                    }
                    self.stage = Stage::Farewell(cause, core.now() + FAREWELL);
                }
                _ => {}
            }
        }
    }

    fn begin_request(&mut self, request: Request, context: Context) {
        let id = request.id.clone();
        let method = request.method.clone();
        let handler = self.handler.clone();
        let called = catch_unwind(AssertUnwindSafe(|| handler.request(request, context.clone())));
        let mut future = match called {
            Ok(future) => future,
            Err(panic) => {
                self.answers.push((id, Err(panicked(method.as_str(), &*panic))));
                return;
            }
        };
        match poll_answer(&mut future, method.as_str(), &mut TaskContext::from_waker(Waker::noop())) {
            Poll::Ready(answer) => self.answers.push((id, answer)),
            Poll::Pending => {
                self.contexts.push((id.clone(), context.clone()));
                let method = method.as_str().into();
                let future = RunningFuture::Request(future);
                self.running.push(Running { id: Some(id), method, context, future });
            }
        }
    }

    fn begin_notification(&mut self, notification: Notification, context: Context) {
        let method: Box<str> = notification.method.as_str().into();
        let handler = self.handler.clone();
        let called = catch_unwind(AssertUnwindSafe(|| handler.notification(notification, context.clone())));
        match called {
            Ok(future) => {
                let mut running =
                    Running { id: None, method, context, future: RunningFuture::Notification(future) };
                let mut cx = TaskContext::from_waker(Waker::noop());
                if Pin::new(&mut running).poll(&mut cx).is_pending() {
                    self.running.push(running);
                }
            }
            Err(panic) => drop(panicked(&method, &*panic)),
        }
    }

    /// Nobody waits for the answer any more: the handler's future is dropped at its next poll, which is now.
    fn cancel(&mut self, id: &RequestId) {
        if let Some(place) = self.contexts.iter().position(|(running, _)| running == id) {
            let (_, context) = self.contexts.swap_remove(place);
            context.cancel();
        }
        self.answers.retain(|(answered, _)| answered != id);
    }

    /// Polls the handlers that were woken. Says whether more were woken than one turn takes.
    fn settle_running(&mut self, cx: &mut TaskContext<'_>) -> bool {
        for _ in 0..TURN {
            match self.running.poll_next_unpin(cx) {
                Poll::Ready(Some(Finished::Answered(id, answer))) => {
                    if let Some(place) = self.contexts.iter().position(|(running, _)| *running == id) {
                        self.contexts.swap_remove(place);
                    }
                    self.answers.push((id, answer));
                }
                Poll::Ready(Some(Finished::Told | Finished::Cancelled)) => {}
                Poll::Ready(None) | Poll::Pending => return false,
            }
        }
        true
    }

    /// Gives the answers to the session and sends what is ready. Says whether there is more to do at once.
    fn send(&mut self, cx: &mut TaskContext<'_>, core: &Arc<Core>, now: Time) -> bool {
        let mut busy = false;
        loop {
            let mut state = core.lock();
            for (id, answer) in self.answers.drain(..) {
                state.session.respond(&id, answer);
            }
            let mut pushed = false;
            while self.io.has_room() {
                let Some(outbound) = state.session.poll_transmit() else { break };
                self.io.push(outbound);
                pushed = true;
            }
            self.take_events(&mut state);
            drop(state);
            if !self.events.is_empty() {
                self.run_events(core);
            }
            if !self.answers.is_empty() {
                continue;
            }
            let flushed = self.io.poll_flush(cx);
            let waiting = flushed.is_pending();
            let mut state = core.lock();
            if let Poll::Ready(Err(end)) = flushed {
                // Nothing can be sent any more. What can still be read is read: there the end is told.
                tracing::debug!(target: "mcpjoin", %end, "sending has failed");
            }
            state.session.link_sent(now, self.io.sent(), waiting);
            self.take_events(&mut state);
            drop(state);
            if !self.events.is_empty() {
                self.run_events(core);
                busy = true;
            }
            // What did not fit before may fit now.
            if !pushed || waiting {
                return busy;
            }
        }
    }

    /// Sets the timer to what is due next, and does what is due.
    fn keep_time(&mut self, cx: &mut TaskContext<'_>, core: &Arc<Core>, now: Time) {
        let farewell = match &self.stage {
            Stage::Farewell(_, until) => Some(*until),
            _ => None,
        };
        let mut due = {
            let state = core.lock();
            state.session.poll_timeout().into_iter().chain(farewell).min()
        };
        loop {
            let Some(at) = due else { return };
            if at <= now && farewell.is_none() {
                let mut state = core.lock();
                state.session.handle_timeout(now);
                self.take_events(&mut state);
                due = state.session.poll_timeout().filter(|next| *next > now);
                drop(state);
                self.run_events(core);
                cx.waker().wake_by_ref();
                continue;
            }
            // A timer that rings early is cheaper than one that is set anew for every request.
            let timer =
                self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(core.instant(at))));
            if at < self.timer_at || self.timer_at <= now {
                timer.as_mut().reset(core.instant(at));
                self.timer_at = at;
            }
            if timer.as_mut().poll(cx).is_ready() {
                self.timer_at = Time::ZERO;
                cx.waker().wake_by_ref();
            }
            return;
        }
    }

    fn reopen(&mut self, cx: &mut TaskContext<'_>, core: &Arc<Core>) -> bool {
        let Poll::Ready(outcome) = self.io.poll_reopen(cx) else { return false };
        let mut state = core.lock();
        match outcome {
            Ok(()) => {
                state.session.reopened(core.now());
                self.stage = Stage::Running;
            }
            Err(cause) => {
                self.stage = Stage::Running;
                state.session.handle(core.now(), Inbound::Closed { cause });
                self.take_events(&mut state);
            }
        }
        drop(state);
        self.run_events(core);
        true
    }

    /// Lets the last messages leave, then closes the link.
    fn say_farewell(&mut self, cx: &mut TaskContext<'_>, core: &Arc<Core>, now: Time) -> bool {
        if let Stage::Farewell(cause, until) = &self.stage {
            let flushed = self.io.poll_flush(cx);
            if flushed.is_pending() && now < *until {
                return false;
            }
            self.stage = Stage::Closing(cause.clone());
        }
        let Stage::Closing(cause) = &self.stage else { return false };
        let Poll::Ready(end) = self.io.poll_close(cx) else { return false };
        let cause = with_exit(cause.clone(), end);
        let mut state = core.lock();
        state.closed = Some(cause);
        state.gone = true;
        let watchers = state.take_watchers();
        state.take_room(&mut self.wake);
        drop(state);
        self.wake.extend(watchers);
        self.stage = Stage::Gone;
        true
    }
}

/// The cause with what is known only after the link has ended: the exit status of a child.
fn with_exit(cause: CloseCause, end: LinkEnd) -> CloseCause {
    match cause {
        CloseCause::Link(first) if first.exit.is_none() && end.exit.is_some() => {
            CloseCause::Link(LinkEnd { kind: first.kind, ..end })
        }
        cause => cause,
    }
}

/// Polls a handler where it is. A panic ends its request alone, and a poll that takes long is reported.
fn poll_answer(
    future: &mut Answer,
    method: &str,
    cx: &mut TaskContext<'_>,
) -> Poll<Result<Reply, ErrorObject>> {
    let started = Instant::now();
    let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
    report_long_poll(method, started);
    match polled {
        Ok(poll) => poll,
        Err(panic) => Poll::Ready(Err(panicked(method, &*panic))),
    }
}

fn report_long_poll(method: &str, started: Instant) {
    let took = started.elapsed();
    if took > LONG_POLL {
        tracing::warn!(
            target: "mcpjoin",
            method,
            ?took,
            "a handler kept the connection's thread; computing and blocking work belongs in `blocking(..)`"
        );
    }
}

/// The answer to a request whose handler has panicked. What the panic said stays on this side: it may hold
/// secrets.
fn panicked(method: &str, panic: &(dyn Any + Send)) -> ErrorObject {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("something that is no text");
    tracing::error!(target: "mcpjoin", method, panic = said, "a handler panicked");
    ErrorObject::internal("the handler of this request failed")
}

fn payload(inbound: &Inbound) -> usize {
    let size = |message: &Message| match message {
        Message::Request(request) => request.params.as_ref().map_or(0, |params| params.raw().len()),
        Message::Notification(notification) => {
            notification.params.as_ref().map_or(0, |params| params.raw().len())
        }
        Message::Response(response) => response.outcome.as_ref().map_or(0, |result| result.raw().len()),
    };
    match inbound {
        Inbound::Message { message, .. } => size(message),
        Inbound::Batch { parts, .. } => parts.iter().flatten().map(size).sum(),
        _ => 0,
    }
}

impl Future for Running {
    type Output = Finished;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Finished> {
        let this = &mut *self;
        if this.context.is_cancelled() {
            return Poll::Ready(Finished::Cancelled);
        }
        match &mut this.future {
            RunningFuture::Request(future) => match (poll_answer(future, &this.method, cx), this.id.take()) {
                (Poll::Ready(answer), Some(id)) => Poll::Ready(Finished::Answered(id, answer)),
                (Poll::Ready(_), None) => Poll::Ready(Finished::Cancelled),
                (Poll::Pending, id) => {
                    this.id = id;
                    Poll::Pending
                }
            },
            RunningFuture::Notification(future) => {
                let started = Instant::now();
                let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
                report_long_poll(&this.method, started);
                match polled {
                    Ok(Poll::Pending) => Poll::Pending,
                    Ok(Poll::Ready(())) => Poll::Ready(Finished::Told),
                    Err(panic) => {
                        drop(panicked(&this.method, &*panic));
                        Poll::Ready(Finished::Told)
                    }
                }
            }
        }
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        self.get_mut().turn(cx)
    }
}

/// Whoever still waits is told: the driver was dropped before the connection was over.
impl Drop for Driver {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Gone) {
            return;
        }
        let mut wake = std::mem::take(&mut self.wake);
        let mut state = self.core.lock();
        state.session.close();
        while let Some(event) = state.session.poll_event() {
            match event {
                Event::Outcome { id, outcome } => {
                    if let Some(slot) = id.as_i64().and_then(|id| state.slots.get_mut(&id)) {
                        slot.outcome = Some(outcome);
                        wake.extend(slot.waker.take());
                    }
                }
                Event::Closed(cause) => state.closed = Some(cause),
                _ => {}
            }
        }
        state.closed.get_or_insert(CloseCause::Local);
        state.gone = true;
        wake.append(&mut state.take_watchers());
        wake.extend(std::mem::take(&mut state.room).into_values());
        drop(state);
        for (_, context) in self.contexts.drain(..) {
            context.cancel();
        }
        for waker in wake {
            waker.wake();
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("running", &self.running.len()).finish_non_exhaustive()
    }
}
