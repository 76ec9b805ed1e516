//! The exchanges and streams in flight: futures that the transport polls itself, and can abort one by one.
//!
//! Dropping [`InFlight`] aborts them all. It knows what each is for, and nothing of what it does.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{AbortHandle, Abortable};
use futures_util::stream::FuturesUnordered;
use mcpjoin_proto::RequestId;
use tokio::sync::watch;
use tokio::time::Instant;

/// Requests in flight at once. Each has a connection of its own on HTTP/1.1. Streams that a client listens on are not
/// counted, and are never queued.
pub(super) const MAX_REQUESTS_IN_FLIGHT: usize = 256;

/// What a future in flight is for.
pub(super) enum Task {
    /// The exchange of a request. `counted`: against [`MAX_REQUESTS_IN_FLIGHT`]. `opens`: it opens a session since this time,
    /// and closing waits for it, so that it can end that session.
    Request { id: RequestId, counted: bool, opens: Option<Instant> },
    /// A message without a response.
    OneWay,
    /// `initialized`: the gate opens when it is finished.
    Initialized,
    /// A cancellation: when it has arrived, the exchange of the request is aborted.
    Cancel(RequestId),
    /// A session is being opened again. Closing waits for it, so that it can end that session.
    ReopenSession,
    /// A stream.
    Background,
}

/// Names a future in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TaskId(u64);

struct Entry {
    abort: AbortHandle,
    task: Task,
    /// When the body of the request was taken for sending.
    taken: Option<watch::Receiver<Option<Instant>>>,
}

type Boxed = Pin<Box<dyn Future<Output = TaskId> + Send>>;

/// All futures in flight.
#[derive(Default)]
pub(super) struct InFlight {
    futures: FuturesUnordered<Boxed>,
    entries: BTreeMap<TaskId, Entry>,
    by_id: BTreeMap<RequestId, TaskId>,
    requests: usize,
    next: u64,
}

impl InFlight {
    /// Adds a future. [`InFlight::poll_finished`] polls it.
    pub(super) fn start(&mut self, task: Task, future: impl Future<Output = ()> + Send + 'static) -> TaskId {
        let task_id = TaskId(self.next);
        self.next += 1;
        let (abort, registration) = AbortHandle::new_pair();
        let future = Abortable::new(future, registration);
        if let Task::Request { id, counted, .. } = &task {
            self.by_id.insert(id.clone(), task_id);
            self.requests += usize::from(*counted);
        }
        self.entries.insert(task_id, Entry { abort, task, taken: None });
        self.futures.push(Box::pin(async move {
            let _ = future.await;
            task_id
        }));
        task_id
    }

    /// Polls all futures. Returns what is finished, one at a time.
    pub(super) fn poll_finished(&mut self, cx: &mut Context<'_>) -> Poll<Task> {
        loop {
            let Poll::Ready(Some(task_id)) = self.futures.poll_next_unpin(cx) else { return Poll::Pending };
            let Some(entry) = self.entries.remove(&task_id) else { continue };
            if let Task::Request { id, counted, .. } = &entry.task {
                self.requests -= usize::from(*counted);
                if self.by_id.get(id) == Some(&task_id) {
                    self.by_id.remove(id);
                }
            }
            return Poll::Ready(entry.task);
        }
    }

    /// Whether one more request may start.
    pub(super) const fn has_capacity(&self) -> bool {
        self.requests < MAX_REQUESTS_IN_FLIGHT
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Aborts a future. It is finished with the next poll.
    pub(super) fn abort(&self, id: TaskId) {
        if let Some(entry) = self.entries.get(&id) {
            entry.abort.abort();
        }
    }

    /// Sets what says when the body of a request is taken for sending.
    pub(super) fn reports(&mut self, id: TaskId, taken: watch::Receiver<Option<Instant>>) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.taken = Some(taken);
        }
    }

    /// When the body of a request in flight was taken for sending: `Some(None)` if it was not yet. `None` if that is not known.
    pub(super) fn taken(&self, id: &RequestId) -> Option<Option<Instant>> {
        let taken = self.entries.get(self.by_id.get(id)?)?.taken.as_ref()?;
        Some(*taken.borrow())
    }

    /// Aborts the exchange of a request.
    pub(super) fn abort_request(&self, id: &RequestId) {
        if let Some(id) = self.by_id.get(id) {
            self.abort(*id);
        }
    }

    /// Aborts requests and streams. Messages without a response go on. So does a session that is being opened, unless the server
    /// was silent for longer than closing waits for it.
    pub(super) fn abort_requests_and_streams(&self, wait: Duration) {
        for entry in self.entries.values() {
            let goes_on = match &entry.task {
                Task::Request { opens, .. } => opens.is_some_and(|since| since.elapsed() < wait),
                Task::Background => false,
                Task::OneWay | Task::Initialized | Task::Cancel(_) | Task::ReopenSession => true,
            };
            if !goes_on {
                entry.abort.abort();
            }
        }
    }

    /// Aborts everything.
    pub(super) fn clear(&mut self) {
        *self = Self { next: self.next, ..Self::default() };
    }
}
