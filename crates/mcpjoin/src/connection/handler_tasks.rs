//! The handlers that are running. They are polled in the driver's task; panics are caught, and long polls are reported.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use crate::sync::Mutex;
use mcpjoin_proto::session::{Reply, ResultEnvelope, WrappedResult};
use mcpjoin_proto::sorted_map::SortedMap;
use mcpjoin_proto::{ErrorObject, Method, Raw, RequestId};
use tokio::task::{JoinHandle, spawn_blocking};

use super::offload;
use crate::handler::ResponseFuture;

/// A handler that occupies the thread for longer than this in one poll is reported. Time during which the thread waited
/// for a processor does not count.
const LONG_POLL: Duration = Duration::from_millis(50);
/// Slots that are kept when no handler runs any more.
const MAX_IDLE_SLOTS: usize = 64;

/// A handler that was not ready immediately.
pub(super) struct Work {
    pub(super) method: Method,
    pub(super) future: WorkFuture,
}

pub(super) enum WorkFuture {
    Request {
        id: RequestId,
        number: u64,
        future: ResponseFuture,
    },
    /// A large result that gets its envelope on another thread.
    Enclosing {
        id: RequestId,
        number: u64,
        task: JoinHandle<Result<WrappedResult, ErrorObject>>,
    },
    Notification(Pin<Box<dyn Future<Output = ()> + Send>>),
}

/// A large result that needs its envelope.
pub(super) struct LargeResult {
    pub(super) id: RequestId,
    pub(super) number: u64,
    pub(super) enclosure: ResultEnvelope,
    pub(super) result: Raw,
}

/// The response of a handler to a request.
pub(super) struct HandlerResponse {
    pub(super) id: RequestId,
    /// Tells the request from a later one with the same id.
    pub(super) number: u64,
    pub(super) answer: ResponseBody,
}

pub(super) enum ResponseBody {
    /// As the handler returned it.
    Plain(Result<Reply, ErrorObject>),
    /// With its envelope.
    WrappedResult(Result<WrappedResult, ErrorObject>),
}

/// Responses that the session does not have yet, and the bytes of all that it has not accepted yet.
#[derive(Default)]
pub(super) struct Responses {
    pub(super) list: Vec<HandlerResponse>,
    pub(super) bytes: usize,
}

impl Responses {
    pub(super) fn push(&mut self, answered: HandlerResponse) {
        match &answered.answer {
            ResponseBody::Plain(Ok(Reply::Complete(result) | Reply::Task(result))) => {
                self.bytes += result.len();
            }
            ResponseBody::Plain(Ok(Reply::Verbatim(result))) => self.bytes += result.raw().len(),
            _ => {}
        }
        if self.list.capacity() == 0 {
            self.list.reserve_exact(1);
        }
        self.list.push(answered);
    }

    /// Frees the memory for more than one.
    pub(super) fn shrink(&mut self) {
        if self.list.is_empty() && self.list.capacity() > 1 {
            self.list = Vec::new();
        }
    }
}

/// The running handlers. One that was woken is polled once in the next turn, in the order of the wakes.
///
/// A slot and its waker are reused, so a waiting handler needs no memory of its own. A late wake polls the current
/// owner of the slot, which does no harm.
pub(super) struct HandlerTasks {
    slots: Vec<HandlerSlot>,
    free: Vec<usize>,
    /// The slot of each request.
    requests: SortedMap<RequestId, usize>,
    wake_list: Arc<Mutex<WakeList>>,
    /// The slots to be polled in this round, and how many of them were polled.
    due: Vec<usize>,
    polled: usize,
    has_new: bool,
}

struct HandlerSlot {
    work: Option<Work>,
    waker_state: Arc<HandlerWaker>,
    waker: Waker,
}

/// Wakes the handler in one slot.
struct HandlerWaker {
    slot: usize,
    is_woken: AtomicBool,
    wake_list: Arc<Mutex<WakeList>>,
}

#[derive(Default)]
struct WakeList {
    slots: Vec<usize>,
    driver: Option<Waker>,
}

impl Wake for HandlerWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_woken.swap(true, Ordering::AcqRel) {
            return;
        }
        let driver = {
            let mut woken = self.wake_list.lock();
            woken.slots.push(self.slot);
            woken.driver.take()
        };
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

impl HandlerTasks {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            requests: SortedMap::new(),
            wake_list: Arc::default(),
            due: Vec::new(),
            polled: 0,
            has_new: false,
        }
    }

    /// Puts the envelope around a large result on a blocking thread.
    pub(super) fn enclose(&mut self, large: LargeResult, slot: Option<offload::Permit>) {
        let LargeResult { id, number, enclosure, result } = large;
        let method = enclosure.method().clone();
        let task = spawn_blocking(move || {
            let enclosed = enclosure.around(result);
            drop(slot);
            enclosed
        });
        self.push(Work { method, future: WorkFuture::Enclosing { id, number, task } });
    }

    /// Whether there is a handler that has never been polled here, so that nothing would wake the driver for it.
    pub(super) const fn has_new(&self) -> bool {
        self.has_new
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Takes a handler that is to be polled soon.
    pub(super) fn push(&mut self, work: Work) {
        let slot = self.free.pop().unwrap_or_else(|| {
            let slot = self.slots.len();
            let waker_state = Arc::new(HandlerWaker {
                slot,
                is_woken: AtomicBool::new(false),
                wake_list: self.wake_list.clone(),
            });
            self.slots.push(HandlerSlot { work: None, waker: Waker::from(waker_state.clone()), waker_state });
            slot
        });
        if let WorkFuture::Request { id, .. } | WorkFuture::Enclosing { id, .. } = &work.future {
            self.requests.insert(id.clone(), slot);
        }
        let entry = &mut self.slots[slot];
        entry.work = Some(work);
        self.has_new = true;
        entry.waker_state.wake_by_ref();
    }

    /// Drops the handler of that request.
    pub(super) fn cancel(&mut self, id: &RequestId) {
        let work = self.requests.remove(id).and_then(|slot| self.leave(slot));
        work.into_iter().for_each(discard);
    }

    fn leave(&mut self, slot: usize) -> Option<Work> {
        let work = self.slots.get_mut(slot)?.work.take()?;
        self.free.push(slot);
        Some(work)
    }

    /// Polls up to `count` handlers that were woken, and calls `done` with each response. Returns whether there are
    /// more.
    pub(super) fn poll(
        &mut self,
        cx: &TaskContext<'_>,
        mut count: usize,
        mut done: impl FnMut(HandlerResponse),
    ) -> bool {
        self.has_new = false;
        if self.len() == 0 {
            if self.slots.len() > MAX_IDLE_SLOTS {
                *self = Self::new();
            }
            return false;
        }
        loop {
            if self.polled == self.due.len() {
                self.due.clear();
                self.polled = 0;
                // A waker is cloned before the lock is taken, and dropped after it is released.
                let driver = cx.waker().clone();
                let replaced = {
                    let mut woken = self.wake_list.lock();
                    mem::swap(&mut self.due, &mut woken.slots);
                    woken.driver.replace(driver)
                };
                drop(replaced);
                if self.due.is_empty() {
                    return false;
                }
            }
            while let Some(slot) = self.due.get(self.polled).copied() {
                if count == 0 {
                    return true;
                }
                count -= 1;
                self.polled += 1;
                self.poll_slot(slot, &mut done);
            }
        }
    }

    fn poll_slot(&mut self, slot: usize, done: &mut impl FnMut(HandlerResponse)) {
        let Some(entry) = self.slots.get_mut(slot) else { return };
        // Reset before the poll: a wake during the poll counts for the next one.
        entry.waker_state.is_woken.store(false, Ordering::Release);
        let Some(work) = &mut entry.work else { return };
        let mut cx = TaskContext::from_waker(&entry.waker);
        let mut clock = Instant::now();
        let answer = match &mut work.future {
            WorkFuture::Request { future, .. } => {
                match poll_answer(future, &work.method, &mut cx, &mut clock) {
                    Poll::Ready(answer) => Some(ResponseBody::Plain(answer)),
                    Poll::Pending => return,
                }
            }
            WorkFuture::Enclosing { task, .. } => match Pin::new(task).poll(&mut cx) {
                Poll::Ready(Ok(enclosed)) => Some(ResponseBody::WrappedResult(enclosed)),
                // It does not panic. It does not run if the runtime shuts down.
                Poll::Ready(Err(error)) => Some(ResponseBody::Plain(Err(ErrorObject::internal(format!(
                    "the result was lost: {error}"
                ))))),
                Poll::Pending => return,
            },
            WorkFuture::Notification(future) => {
                if poll_notification(future, &work.method, &mut cx, &mut clock).is_pending() {
                    return;
                }
                None
            }
        };
        let Some(work) = self.leave(slot) else { return };
        if let (
            WorkFuture::Request { id, number, .. } | WorkFuture::Enclosing { id, number, .. },
            Some(answer),
        ) = (&work.future, answer)
        {
            self.requests.remove(id);
            done(HandlerResponse { id: id.clone(), number: *number, answer });
        }
        discard(work);
    }
}

impl Drop for HandlerTasks {
    fn drop(&mut self) {
        self.slots.drain(..).filter_map(|slot| slot.work).for_each(discard);
    }
}

/// Drops a handler. A panic in its drop ends nothing else.
fn discard(work: Work) {
    let Work { method, future } = work;
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(future))) {
        drop(panicked(&method, &*panic));
    }
}

/// Polls a notification handler, as [`poll_answer`] does.
pub(super) fn poll_notification(
    future: &mut Pin<Box<dyn Future<Output = ()> + Send>>,
    method: &Method,
    cx: &mut TaskContext<'_>,
    clock: &mut Instant,
) -> Poll<()> {
    begin_poll(*clock);
    let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
    *clock = report_long_poll(method, *clock);
    polled.unwrap_or_else(|panic| {
        drop(panicked(method, &*panic));
        Poll::Ready(())
    })
}

/// Polls a handler. A panic only fails its request, and a long poll is reported. `clock` is when the poll starts; it is
/// set to when the poll ended, which is when the next poll may start.
pub(super) fn poll_answer(
    future: &mut ResponseFuture,
    method: &Method,
    cx: &mut TaskContext<'_>,
    clock: &mut Instant,
) -> Poll<Result<Reply, ErrorObject>> {
    begin_poll(*clock);
    let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
    *clock = report_long_poll(method, *clock);
    match polled {
        Ok(poll) => poll,
        Err(panic) => Poll::Ready(Err(panicked(method, &*panic))),
    }
}

/// The response of a handler that runs in a task of its own. Panics and long polls are handled as in the task of the
/// connection.
pub(crate) struct WatchedResponse {
    method: Method,
    response: ResponseFuture,
}

impl WatchedResponse {
    pub(crate) const fn new(method: Method, response: ResponseFuture) -> Self {
        Self { method, response }
    }
}

impl Future for WatchedResponse {
    type Output = Result<Reply, ErrorObject>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let Self { method, response } = &mut *self;
        poll_answer(response, method, cx, &mut Instant::now())
    }
}

/// How old the sample of the run-queue wait may be when a poll starts. A sample takes some microseconds, so there is
/// none for each poll; a poll may be credited with this much too much.
const MAX_SAMPLE_AGE: Duration = Duration::from_millis(10);

/// How long this thread has waited for a processor, which is not the handlers' time.
#[derive(Clone, Copy, Default)]
struct RunQueueClock {
    /// When it was sampled, and how long the thread had waited until then.
    read: Option<(Instant, Duration)>,
}

impl RunQueueClock {
    /// A poll starts.
    fn begin(&mut self, now: Instant, waited: impl FnOnce() -> Duration) {
        if self.read.is_none_or(|(read, _)| now.saturating_duration_since(read) > MAX_SAMPLE_AGE) {
            self.read = Some((now, waited()));
        }
    }

    /// A poll that started at `began` has ended. Returns how long it took, if it was long without the time that the
    /// thread waited for a processor.
    fn end(&mut self, began: Instant, now: Instant, waited: impl FnOnce() -> Duration) -> Option<Duration> {
        let took = now.saturating_duration_since(began);
        if took <= LONG_POLL {
            return None;
        }
        let waited = waited();
        let before = self.read.replace((now, waited)).map_or(waited, |(_, before)| before);
        let own = took.saturating_sub(waited.saturating_sub(before));
        (own > LONG_POLL).then_some(took)
    }
}

thread_local! {
    static RUN_QUEUE_CLOCK: Cell<RunQueueClock> = const { Cell::new(RunQueueClock { read: None }) };
}

/// How long this thread has waited for a processor since it started. Known on Linux only.
fn waited() -> Duration {
    let stated = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = stated.and_then(|stated| stated.split_whitespace().nth(1)?.parse().ok());
    nanos.map_or(Duration::ZERO, Duration::from_nanos)
}

/// A poll starts at this time.
fn begin_poll(now: Instant) {
    let mut clock = RUN_QUEUE_CLOCK.get();
    clock.begin(now, waited);
    RUN_QUEUE_CLOCK.set(clock);
}

/// Reports a long poll. Returns the current time.
fn report_long_poll(method: &Method, began: Instant) -> Instant {
    let now = Instant::now();
    let mut clock = RUN_QUEUE_CLOCK.get();
    let long = clock.end(began, now, waited);
    RUN_QUEUE_CLOCK.set(clock);
    if let Some(took) = long {
        // For the author of the handler. A program's user can do nothing about it; programs recognise it by this
        // target.
        tracing::warn!(
            target: "mcpjoin::handlers",
            %method,
            ?took,
            "a handler kept the connection's thread; computing and blocking work belongs in `blocking(..)`"
        );
    }
    now
}

/// Returns the error for a request whose handler has panicked. The panic's message is not sent to the peer: it may hold
/// secrets.
pub(crate) fn panicked(method: &impl fmt::Display, panic: &(dyn Any + Send)) -> ErrorObject {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("something that is not text");
    tracing::error!(target: "mcpjoin", %method, panic = said, "a handler panicked");
    ErrorObject::internal("the handler of this request failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn only_what_the_thread_waited_during_a_poll_is_taken_off() {
        let began = Instant::now();
        let poll =
            |clock: &mut RunQueueClock, began: Instant, took: Duration, before: Duration, after: Duration| {
                clock.begin(began, || before);
                clock.end(began, began + took, || after)
            };
        // The thread has waited an hour before this poll, which does not count.
        let life = Duration::from_secs(3600);
        let mut clock = RunQueueClock::default();
        assert_eq!(poll(&mut clock, began, millis(60), life, life + millis(1)), Some(millis(60)));
        // A long poll that has mostly waited for a processor.
        let later = began + Duration::from_secs(1);
        let waited = life + millis(500);
        assert_eq!(poll(&mut clock, later, millis(600), waited, waited + millis(560)), None);
        // The thread has waited again between two polls, which does not count.
        let later = began + Duration::from_secs(9);
        let waited = life + Duration::from_secs(5);
        assert_eq!(poll(&mut clock, later, millis(51), waited, waited), Some(millis(51)));
        assert_eq!(poll(&mut clock, later + millis(60), millis(50), waited, waited), None, "not long");
        let (later, before) = (later + Duration::from_secs(1), waited);
        assert_eq!(
            poll(&mut clock, later, millis(60), before, before + millis(10)),
            None,
            "50 ms of its own"
        );
    }

    #[test]
    fn the_account_is_read_a_hundred_times_a_second_at_most() {
        let began = Instant::now();
        let mut clock = RunQueueClock::default();
        let reads = Cell::new(0);
        let read = || {
            reads.set(reads.get() + 1);
            Duration::ZERO
        };
        for micros in (0..1_000_000).step_by(100) {
            let now = began + Duration::from_micros(micros);
            clock.begin(now, read);
            assert_eq!(clock.end(now, now + Duration::from_micros(50), read), None);
        }
        assert!((90..=100).contains(&reads.get()), "{} times", reads.get());
    }

    #[test]
    fn places_are_used_again_and_those_of_a_crowd_are_given_back() {
        let mut running = HandlerTasks::new();
        let cx = TaskContext::from_waker(Waker::noop());
        for (crowd, kept) in [(2, 2), (MAX_IDLE_SLOTS, MAX_IDLE_SLOTS), (MAX_IDLE_SLOTS + 1, 0)] {
            for _ in 0..crowd {
                let future = Box::pin(std::future::ready(()));
                running.push(Work { method: Method::Ping, future: WorkFuture::Notification(future) });
            }
            assert!(!running.poll(&cx, usize::MAX, |_| {}));
            assert_eq!((running.len(), running.slots.len()), (0, crowd));
            assert!(!running.poll(&cx, usize::MAX, |_| {}));
            assert_eq!(running.slots.len(), kept, "{crowd}");
        }
    }

    #[test]
    fn the_bytes_of_every_kind_of_result_are_counted() {
        let raw = || Raw::parse("{\"x\":1}").expect("JSON");
        let mut answers = Responses::default();
        for (reply, bytes) in
            [(Reply::Complete(raw()), 7), (Reply::Verbatim(mcpjoin_proto::Payload::from_raw(raw())), 14)]
        {
            answers.push(HandlerResponse {
                id: RequestId::from(1),
                number: 1,
                answer: ResponseBody::Plain(Ok(reply)),
            });
            assert_eq!(answers.bytes, bytes);
        }
    }

    #[test]
    fn a_handler_that_panics_when_the_connection_ends_harms_nothing_else() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("on purpose");
            }
        }
        let mut running = HandlerTasks::new();
        let bomb = Bomb;
        let future = Box::pin(async move { drop(bomb) });
        running.push(Work { method: Method::Ping, future: WorkFuture::Notification(future) });
        assert!(catch_unwind(AssertUnwindSafe(|| drop(running))).is_ok());
    }
}
