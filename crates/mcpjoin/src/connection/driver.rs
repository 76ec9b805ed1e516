//! Moves messages between transport and session, runs handlers and sets timers.
//!
//! One task per connection runs it. A turn reads what is available, handles it, polls handlers in place, and sends
//! everything that is ready in one go. After a limited amount of work it yields to other tasks.

mod closing;

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::{Duration, Instant};

use mcpjoin_proto::decode::DecodeErrorKind;
use mcpjoin_proto::session::{CloseCause, Event, Inbound, Reply, State, TransportEnd, Violation};
use mcpjoin_proto::{Notification, Request, RequestId, Time};
use tokio::time::Sleep;

use super::context::Context;
use super::core::{Core, Inner, TaskWaker};
use super::handler_tasks::{
    HandlerResponse, HandlerTasks, LargeResult, ResponseBody, Responses, Work, WorkFuture, panicked,
    poll_answer, poll_notification,
};
use super::{NotificationObserver, OnViolation};
use crate::handler::ErasedHandler;
use crate::transport::Transport;

/// Messages handled in one turn before everything is sent and the task yields. 64 was measured: 0.75 to 1.02 of the
/// rate of a server without any protocol, at 256 requests in flight.
const TURN_MESSAGES: usize = 64;

/// Messages read before their handlers run and their responses are collected. Few, so that the data of a request is
/// still in the processor's caches.
const READ_MESSAGES: usize = 32;

/// Bytes of payload handled in one turn, so that 64 large messages do not add up.
const TURN_BYTES: usize = 256 * 1024;

/// How long the queued messages may take to leave when the connection closes.
const CLOSE_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a connection until it has ended. Dropping it ends the connection and everything that its transport has started.
#[must_use = "a connection does nothing unless its driver is run"]
pub struct Driver {
    core: Arc<Core>,
    io: Box<dyn Transport>,
    handler: Box<dyn ErasedHandler>,
    on_violation: Option<OnViolation>,
    notification_observer: Option<NotificationObserver>,
    /// When this turn began.
    now: Time,
    /// Created for the first handler that is not ready immediately.
    running: Option<Box<HandlerTasks>>,
    timer: Option<Pin<Box<Sleep>>>,
    timer_at: Time,
    /// The waker that the timer wakes.
    timer_waker: Waker,
    /// The next deadline of the session or of the queue of calls.
    due: Option<Time>,
    /// Nothing was read, because too many replies are queued.
    held_back: bool,
    /// The session may be waiting until the transport has written, or be about to end.
    watches_link: bool,
    stage: Stage,
    /// Writing has failed. What the peer may still have sent is read until this time.
    write_failure: Option<Box<(TransportEnd, Time)>>,
    /// There may be thousands of such connections, most of them idle: between turns it keeps buffers for one item each.
    shrinks_when_idle: bool,
    /// Buffers that are reused in every turn.
    inbound: VecDeque<Inbound>,
    events: VecDeque<Event>,
    responses: Responses,
    /// Results that are too large to get their envelope here.
    large: Vec<LargeResult>,
    /// How many dropped log messages were reported.
    dropped_logs: u64,
    /// Handlers started in this turn.
    begun: usize,
    wake: Vec<Waker>,
}

enum Stage {
    Starting,
    Running,
    Reopening,
    /// The session is over. Its queued messages may leave until this time.
    Flushing(Box<CloseCause>, Time),
    Closing(Box<CloseCause>),
    Gone,
}

impl Driver {
    pub(super) fn new(
        core: Arc<Core>,
        io: Box<dyn Transport>,
        handler: Box<dyn ErasedHandler>,
        (on_violation, notification_observer): (Option<OnViolation>, Option<NotificationObserver>),
    ) -> Self {
        core.offload.allow(io.caps().exchanges);
        Self {
            core,
            shrinks_when_idle: io.caps().exchanges,
            io,
            handler,
            on_violation,
            notification_observer,
            now: Time::ZERO,
            running: None,
            timer: None,
            timer_at: Time::FAR,
            timer_waker: Waker::noop().clone(),
            due: None,
            held_back: false,
            watches_link: false,
            stage: Stage::Starting,
            write_failure: None,
            inbound: VecDeque::new(),
            events: VecDeque::new(),
            responses: Responses::default(),
            large: Vec::new(),
            dropped_logs: 0,
            begun: 0,
            wake: Vec::new(),
        }
    }

    fn turn(&mut self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let core = self.core.clone();
        let now = core.now();
        self.now = now;
        self.begun = 0;
        if matches!(self.stage, Stage::Starting) {
            core.lock().session.open(now);
            self.stage = Stage::Running;
        }
        let mut busy = self.read(cx, &core, now);
        busy |= self.poll_handlers(cx);
        busy |= self.send(cx, &core, now) | self.running.as_ref().is_some_and(|running| running.has_new());
        // Nothing polled the transport, so nothing will wake this task for what it has received.
        busy |= mem::take(&mut self.held_back) && core.lock().session.wants_input();
        // A session that has timed out also has messages to send. They are sent in the next turn.
        let leaving = matches!(self.stage, Stage::Flushing(..) | Stage::Closing(_));
        self.handle_timers(cx, &core, now);
        match self.stage {
            Stage::Reopening => busy |= self.reopen(cx, &core),
            _ if leaving => self.close_link(cx, &core, now),
            _ => {}
        }
        for waker in self.wake.drain(..) {
            waker.wake();
        }
        if matches!(self.stage, Stage::Gone) {
            return Poll::Ready(());
        }
        if busy {
            cx.waker().wake_by_ref();
        } else if self.shrinks_when_idle {
            self.shrink_buffers(&core);
        }
        Poll::Pending
    }

    /// Frees the buffers that the turn has used, apart from what a single request needs.
    fn shrink_buffers(&mut self, core: &Core) {
        if self.inbound.is_empty() {
            self.inbound = VecDeque::new();
        }
        self.responses.shrink();
        if self.events.is_empty() && self.events.capacity() > 1 {
            self.events = VecDeque::new();
        }
        self.wake = Vec::new();
        self.running.take_if(|running| running.len() == 0);
        core.lock().session.shrink();
    }

    /// Reads what is available, up to the limits of a turn, and handles it batch by batch. Returns whether there may be
    /// more.
    fn read(&mut self, cx: &mut TaskContext<'_>, core: &Arc<Core>, now: Time) -> bool {
        let mut waker = TaskWaker::new(cx);
        let mut wants_input = {
            let mut state = core.lock();
            // First of all: from here on every change wakes this task.
            state.set_driver(&mut waker);
            state.session.wants_input()
        };
        drop(waker);
        let (mut count, mut bytes) = (0, 0);
        loop {
            if !matches!(self.stage, Stage::Running) {
                return false;
            }
            self.held_back = !wants_input;
            let mut ended = false;
            // What is left of the previous batch comes first.
            let reads = wants_input && self.inbound.is_empty();
            // Connections that receive one message at a time need no queue.
            let mut first = None;
            let mut read = 0;
            while reads && !ended && read < READ_MESSAGES && bytes < TURN_BYTES {
                let Poll::Ready(inbound) = self.io.poll_inbound(cx) else { break };
                bytes += inbound.payload_len();
                ended = matches!(inbound, Inbound::Closed { .. });
                read += 1;
                match first {
                    None => first = Some(inbound),
                    Some(_) => self.inbound.push_back(inbound),
                }
            }
            count += read.max(self.inbound.len());
            let more = read == READ_MESSAGES || !reads;
            if !wants_input || first.is_none() && self.inbound.is_empty() {
                return false;
            }
            let mut state = core.lock();
            self.gather(&mut state);
            // One message at a time: each may be the last one that fits.
            while wants_input && let Some(inbound) = first.take().or_else(|| self.inbound.pop_front()) {
                state.session.handle(now, inbound);
                wants_input = state.session.wants_input();
            }
            self.take_events(&mut state);
            drop(state);
            self.run_events(cx, core);
            if count >= TURN_MESSAGES || bytes >= TURN_BYTES {
                return true;
            }
            if !more || ended {
                self.held_back = !wants_input;
                return false;
            }
        }
    }

    /// Passes responses to the session, and messages from the session to the transport while the transport has room.
    /// Returns whether anything was pushed, and whether that was all.
    fn gather(&mut self, state: &mut Inner) -> (bool, bool) {
        self.respond(state);
        let mut pushed = false;
        while self.io.has_room() {
            let Some(outbound) = state.session.poll_transmit() else {
                self.report_dropped_logs(state.session.dropped_logs());
                return (pushed, true);
            };
            self.io.push(outbound);
            pushed = true;
        }
        (pushed, false)
    }

    /// Logs the dropped log messages once the queue is empty: once for all that were dropped until then.
    fn report_dropped_logs(&mut self, dropped: u64) {
        let count = dropped - self.dropped_logs;
        if count > 0 {
            self.dropped_logs = dropped;
            tracing::warn!(target: "mcpjoin", count, "log messages were dropped: the peer reads too slowly");
        }
    }

    /// Updates the next deadline.
    fn update_due(&mut self, state: &Inner) {
        self.due = [state.session.poll_timeout(), state.call_queue.due()].into_iter().flatten().min();
    }

    /// Passes the collected responses to the session. Returns whether the session accepts more.
    fn respond(&mut self, state: &mut Inner) -> bool {
        for HandlerResponse { id, number, answer } in self.responses.list.drain(..) {
            if !state.session.is_handling(&id, number) {
                continue;
            }
            match answer {
                ResponseBody::Plain(Ok(Reply::Complete(result))) => {
                    if self.core.offload.takes(result.len())
                        && let Some(enclosure) = state.session.result_envelope(&id)
                    {
                        self.large.push(LargeResult { id, number, enclosure, result });
                        continue;
                    }
                    state.session.respond(&id, Ok(Reply::Complete(result)));
                }
                ResponseBody::Plain(answer) => state.session.respond(&id, answer),
                ResponseBody::WrappedResult(result) => state.session.respond_wrapped(&id, result),
            }
            state.request_ended(&id, &mut self.wake);
        }
        let room = state.session.has_reply_capacity();
        if room {
            self.responses.bytes = 0;
        }
        room
    }

    /// Takes the events of the session, and puts those of pending calls into their slots.
    fn take_events(&mut self, state: &mut Inner) {
        let known = self.events.len();
        state.session.take_events(&mut self.events);
        // An event that was handled here is replaced by `Opened`, which needs no action.
        let mut left = known > 0;
        for event in self.events.range_mut(known..) {
            match event {
                Event::Outcome { id, .. } => {
                    let slot = state.slot(id);
                    if let (Some(slot), Event::Outcome { outcome, .. }) =
                        (slot, mem::replace(event, Event::Opened))
                    {
                        slot.outcome = Some(outcome);
                        slot.arrived = self.now;
                        self.wake.extend(slot.waker.take());
                    }
                }
                Event::Progress { id, .. } => {
                    let slot = state.slot(id);
                    if let (Some(slot), Event::Progress { progress, .. }) =
                        (slot, mem::replace(event, Event::Opened))
                    {
                        slot.events().progress = Some(progress);
                        self.wake.extend(slot.waker.take());
                    }
                }
                Event::Notification { call, notification } => {
                    if let Some(notification_observer) = &self.notification_observer {
                        notification_observer(notification, &mut self.wake);
                    }
                    let Some(slot) = call.as_ref().and_then(|id| state.slot(id)) else {
                        left = true;
                        continue;
                    };
                    if let Event::Notification { notification, .. } = mem::replace(event, Event::Opened) {
                        slot.events().notifications.push(notification);
                        self.wake.extend(slot.waker.take());
                    }
                }
                Event::Opened => {
                    if self.shrinks_when_idle
                        && let Some(known) =
                            state.session.peer().and_then(|peer| self.handler.known_peer(peer))
                    {
                        state.session.share_peer(&known);
                    }
                    state.opened = true;
                    self.wake.extend(state.take_watchers());
                }
                Event::Closed(cause) => {
                    state.closed = Some(Arc::new(cause.clone()));
                    self.wake.extend(state.take_watchers());
                    state.all_requests_ended(&mut self.wake);
                    left = true;
                }
                Event::Cancelled { id, .. } => {
                    state.request_ended(id, &mut self.wake);
                    left = true;
                }
                _ => left = true,
            }
        }
        if !left {
            self.events.clear();
        }
        if !state.call_queue.is_empty() {
            state.grant_calls(self.core.now(), &mut self.wake);
        }
    }

    /// Handles the events that need no lock. Returns whether it handled any.
    fn run_events(&mut self, cx: &TaskContext<'_>, core: &Arc<Core>) -> bool {
        self.enclose_large();
        let waiting = self.events.len();
        // When the previous handler returned. The next one starts at that time, so the clock is read once for both.
        let mut clock = None;
        while let Some(event) = self.events.pop_front() {
            let since = clock.take();
            match event {
                Event::Request { .. } if self.turn_is_full() => {
                    // The rest starts in the next turn, so that other tasks run.
                    self.events.push_front(event);
                    break;
                }
                Event::Request { .. } if !core.offload.poll_capacity(cx.waker()) => {
                    // The driver is woken when one of the large results is done.
                    self.events.push_front(event);
                    break;
                }
                Event::Request { .. }
                    if self.responses.bytes >= TURN_BYTES && !self.submit_responses(core) =>
                {
                    // The peer reads too slowly. The rest waits until it has read more.
                    self.events.push_front(event);
                    break;
                }
                Event::Request { request, context } => {
                    self.begun += 1;
                    let number = context.number;
                    let context = Context::of_request(core.clone(), request.id.clone(), context);
                    let began = since.unwrap_or_else(Instant::now);
                    clock = self.begin_request(request, number, context, began);
                }
                Event::Notification { notification, .. } => {
                    self.begin_notification(notification, Context::of_notification(core.clone()));
                }
                Event::Cancelled { id, reason } => self.cancel(&id, reason),
                Event::Violation(violation) => {
                    report_violation(&violation);
                    if let Some(on_violation) = &self.on_violation {
                        on_violation(&violation);
                    }
                }
                Event::Reopen => self.stage = Stage::Reopening,
                Event::Closed(cause) => {
                    self.running = None;
                    self.stage = Stage::Flushing(Box::new(cause), core.now() + CLOSE_FLUSH_TIMEOUT);
                }
                _ => {}
            }
        }
        self.events.len() < waiting
    }

    /// Whether enough handlers were started in this turn: as many as messages are read. Requests that waited for
    /// capacity come in addition, possibly tens of thousands of them.
    const fn turn_is_full(&self) -> bool {
        self.begun >= TURN_MESSAGES
    }

    /// Passes the collected responses to the session. Returns whether the session accepts more. This limits what is
    /// queued for a peer that reads nothing, however many small requests with large responses it has sent.
    fn submit_responses(&mut self, core: &Core) -> bool {
        let mut state = core.lock();
        let over = state.closed.is_some();
        if over {
            self.responses.bytes = 0;
        }
        let room = self.respond(&mut state);
        drop(state);
        self.enclose_large();
        room || over
    }

    /// Puts the envelopes around large results on other threads.
    fn enclose_large(&mut self) {
        for large in self.large.drain(..) {
            let place = self.core.offload.permit(large.result.len());
            self.running.get_or_insert_with(|| Box::new(HandlerTasks::new())).enclose(large, place);
        }
    }

    /// Polls a new handler once. Returns when it returned, unless it panicked before its first poll.
    fn begin_request(
        &mut self,
        request: Request,
        number: u64,
        context: Context,
        mut clock: Instant,
    ) -> Option<Instant> {
        let id = request.id.clone();
        let method = request.method.clone();
        let called = catch_unwind(AssertUnwindSafe(|| self.handler.request(request, context)));
        let mut future = match called {
            Ok(future) => future,
            Err(panic) => {
                let answer = ResponseBody::Plain(Err(panicked(&method, &*panic)));
                self.responses.push(HandlerResponse { id, number, answer });
                return None;
            }
        };
        let mut cx = TaskContext::from_waker(Waker::noop());
        match poll_answer(&mut future, &method, &mut cx, &mut clock) {
            Poll::Ready(answer) => {
                self.responses.push(HandlerResponse { id, number, answer: ResponseBody::Plain(answer) });
            }
            Poll::Pending => {
                self.keep_running(Work { method, future: WorkFuture::Request { id, number, future } });
            }
        }
        Some(clock)
    }

    fn begin_notification(&mut self, notification: Notification, context: Context) {
        let method = notification.method.clone();
        match catch_unwind(AssertUnwindSafe(|| self.handler.notification(notification, context))) {
            Ok(mut future) => {
                let mut cx = TaskContext::from_waker(Waker::noop());
                if poll_notification(&mut future, &method, &mut cx, &mut Instant::now()).is_pending() {
                    self.keep_running(Work { method, future: WorkFuture::Notification(future) });
                }
            }
            Err(panic) => drop(panicked(&method, &*panic)),
        }
    }

    /// Keeps a handler that was not ready immediately.
    fn keep_running(&mut self, work: Work) {
        self.running.get_or_insert_with(|| Box::new(HandlerTasks::new())).push(work);
    }

    /// The request was cancelled: drops the handler's future.
    fn cancel(&mut self, id: &RequestId, reason: Option<String>) {
        let told = reason.is_some();
        if told {
            self.core.lock().cancel_reason = reason;
        }
        if let Some(running) = &mut self.running {
            running.cancel(id);
        }
        if told {
            self.core.lock().cancel_reason = None;
        }
        self.responses.list.retain(|answered| answered.id != *id);
    }

    /// Polls the handlers that were woken. Returns whether more were woken than one turn handles.
    fn poll_handlers(&mut self, cx: &TaskContext<'_>) -> bool {
        let Self { running: Some(running), responses, .. } = self else { return false };
        running.poll(cx, TURN_MESSAGES, |answered| responses.push(answered))
    }

    /// Passes responses to the session and sends what is ready. Returns whether there is more to do immediately.
    fn send(&mut self, cx: &mut TaskContext<'_>, core: &Arc<Core>, now: Time) -> bool {
        if matches!(self.stage, Stage::Reopening | Stage::Closing(_)) {
            self.update_due(&core.lock());
            return false;
        }
        let mut busy = false;
        loop {
            let mut state = core.lock();
            let (pushed, all) = self.gather(&mut state);
            self.take_events(&mut state);
            self.update_due(&state);
            let draining = state.session.state() == State::ShuttingDown;
            drop(state);
            self.run_events(cx, core);
            if !self.responses.list.is_empty() {
                continue;
            }
            let flushed = self.io.poll_flush(cx);
            let waiting = flushed.is_pending();
            if let Poll::Ready(Err(end)) = flushed {
                tracing::debug!(target: "mcpjoin", %end, "sending has failed");
                self.write_failure.get_or_insert_with(|| Box::new((end, now + CLOSE_FLUSH_TIMEOUT)));
            }
            let mut acted = false;
            if waiting || self.watches_link || draining {
                self.watches_link = waiting;
                let mut state = core.lock();
                state.session.report_sent(now, self.io.sent(), waiting);
                self.take_events(&mut state);
                self.update_due(&state);
                drop(state);
                acted = self.run_events(cx, core);
            }
            busy |= acted;
            if self.turn_is_full() && !self.events.is_empty() {
                return true;
            }
            // What did not fit before may fit now, even if nothing fitted, and what has just ended may have messages to
            // send.
            let nothing_to_begin = self.events.is_empty() || !core.offload.has_capacity();
            let quiet = all && nothing_to_begin && self.responses.list.is_empty();
            let stuck = !pushed && !self.io.has_room();
            if waiting || !acted && (quiet || stuck) {
                return busy;
            }
        }
    }

    /// Handles what is due, and sets the timer to the next deadline.
    fn handle_timers(&mut self, cx: &mut TaskContext<'_>, core: &Arc<Core>, now: Time) {
        let failure = self.write_failure.take_if(|failure| failure.1 <= now);
        if failure.is_some() || self.due.is_some_and(|due| due <= now) {
            let mut state = core.lock();
            if let Some((cause, _)) = failure.map(|failure| *failure) {
                state.session.handle(now, Inbound::Closed { cause });
            }
            state.session.handle_timeout(now);
            self.take_events(&mut state);
            state.call_queue.expire(now, &mut self.wake);
            self.update_due(&state);
            drop(state);
            self.run_events(cx, core);
            // This may have left something to send, such as a cancellation, and sending comes earlier in a turn.
            cx.waker().wake_by_ref();
        }
        let flush_until = match &self.stage {
            Stage::Flushing(_, until) => Some(*until),
            _ => None,
        };
        let failure = self.write_failure.as_ref().map(|failure| failure.1);
        if let Some(at) = [self.due, flush_until, failure].into_iter().flatten().min() {
            self.set_timer(cx, core, now, at);
        }
    }

    /// Wakes the task at that time or earlier. A timer that fires early costs less than one that is reset for each request.
    fn set_timer(&mut self, cx: &mut TaskContext<'_>, core: &Arc<Core>, now: Time, at: Time) {
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(core.instant(at))));
        if at < self.timer_at || self.timer_at <= now {
            timer.as_mut().reset(core.instant(at));
            self.timer_at = at;
        } else if self.timer_waker.will_wake(cx.waker()) {
            // The timer wakes the right task already.
            return;
        }
        if timer.as_mut().poll(cx).is_ready() {
            self.timer_at = Time::ZERO;
            cx.waker().wake_by_ref();
        }
        self.timer_waker.clone_from(cx.waker());
    }
}

/// Logs a violation by the peer. A message that is too large is reported as a warning: our limit may be too low.
fn report_violation(violation: &Violation) {
    if let Violation::Malformed { error, .. } = violation
        && let DecodeErrorKind::TooLarge { .. } = error.kind
    {
        tracing::warn!(target: "mcpjoin", limit = "message", "a message was refused: {}", error.kind);
    } else {
        tracing::debug!(target: "mcpjoin", %violation, "the peer broke a rule");
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        self.get_mut().turn(cx)
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("running", &self.running.as_ref().map_or(0, |running| running.len()))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
