//! A connection that is served without a task of its own.
//!
//! Whoever brings a message polls it where they are, so that a handler that is ready at once costs no task and no
//! hop. When it is woken later, a task is made that polls it and ends. At rest there is nothing but the entry.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Wake, Waker};

use mcpjoin_proto::Version;
use mcpjoin_proto::http::params::HeaderMark;
use tokio::runtime::Handle;

use super::wire::Wire;
use crate::link::Link;

/// What is served: it opens connections, and is asked what HTTP has to know of it.
pub trait Serves: Send + Sync {
    /// Opens a connection over a link: gives what it is acted on by, and what runs it.
    fn open(&self, link: Link) -> (Box<dyn Served>, Serving);

    /// The arguments of a tool that are repeated in headers; `None` when none are.
    fn header_marks(&self, tool: &str) -> Option<Arc<[HeaderMark]>>;

    /// Whether what one client has asked for may show to another one that uses the same connection after it.
    fn remembers_clients(&self) -> bool {
        false
    }
}

/// A connection, as far as the link's side may act on it.
pub trait Served: Send + Sync {
    /// The revision that the peers have agreed on, once they have.
    fn version(&self) -> Option<Version>;

    /// Nothing is under way on it.
    fn is_quiet(&self) -> bool;

    /// Ends it in order: what is in progress is finished first.
    fn drain(&self);
}

/// What runs a connection until it is over. Dropping it ends the connection at once.
pub type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How often a connection that always has more to do is polled in one go. Twice is what a handler takes that is not
/// ready at once; whoever has thousands of calls under way is not to keep others waiting for more than that.
const TURNS: usize = 2;

const IDLE: u8 = 0;
/// A task is on its way that polls it.
const SCHEDULED: u8 = 1;
const RUNNING: u8 = 2;
/// It was woken while it was polled.
const AGAIN: u8 = 3;
const OVER: u8 = 4;

/// A connection at rest, until somebody polls it.
pub(super) struct Entry {
    pub(super) wire: Arc<Wire>,
    served: Box<dyn Served>,
    serving: Mutex<Option<Serving>>,
    rouse: Arc<Rouse>,
    waker: Waker,
    /// Told when the connection is over.
    on_end: Box<dyn Fn() + Send + Sync>,
}

/// What wakes an entry, which it does not keep alive.
struct Rouse {
    entry: Weak<Entry>,
    runtime: Handle,
    state: AtomicU8,
}

impl Wake for Rouse {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let next = |state| match state {
            IDLE => Some(SCHEDULED),
            RUNNING => Some(AGAIN),
            _ => None,
        };
        let before = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        if before == Ok(IDLE) {
            self.schedule();
        }
    }
}

impl Rouse {
    fn schedule(&self) {
        let Some(entry) = self.entry.upgrade() else { return };
        self.runtime.spawn(async move { entry.run() });
    }
}

impl Entry {
    pub(super) fn new(
        wire: Arc<Wire>,
        served: Box<dyn Served>,
        serving: Serving,
        runtime: Handle,
        on_end: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new_cyclic(|entry| {
            let rouse = Arc::new(Rouse { entry: entry.clone(), runtime, state: AtomicU8::new(IDLE) });
            Self {
                wire,
                served,
                serving: Mutex::new(Some(serving)),
                waker: Waker::from(rouse.clone()),
                rouse,
                on_end: Box::new(on_end),
            }
        })
    }

    pub(super) fn served(&self) -> &dyn Served {
        &*self.served
    }

    fn lock(&self) -> MutexGuard<'_, Option<Serving>> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Polls the connection, unless somebody else does: then it is polled once more.
    pub(super) fn run(&self) {
        let state = &self.rouse.state;
        let claim = |state| match state {
            IDLE | SCHEDULED => Some(RUNNING),
            RUNNING => Some(AGAIN),
            _ => None,
        };
        match state.fetch_update(Ordering::AcqRel, Ordering::Acquire, claim) {
            Ok(IDLE | SCHEDULED) => {}
            _ => return,
        }
        for _ in 0..TURNS {
            let mut serving = self.lock();
            let over = match serving.as_mut() {
                Some(future) => future.as_mut().poll(&mut Context::from_waker(&self.waker)).is_ready(),
                None => true,
            };
            if over {
                let ended = serving.take();
                drop(serving);
                self.ended(ended);
                return;
            }
            drop(serving);
            if state.compare_exchange(RUNNING, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return;
            }
            let more = state.compare_exchange(AGAIN, RUNNING, Ordering::AcqRel, Ordering::Acquire);
            if more.is_err() {
                // Stopped meanwhile.
                let ended = self.lock().take();
                self.ended(ended);
                return;
            }
        }
        let later = |state| (state != OVER).then_some(SCHEDULED);
        if state.fetch_update(Ordering::AcqRel, Ordering::Acquire, later).is_ok() {
            self.rouse.schedule();
        } else {
            let ended = self.lock().take();
            self.ended(ended);
        }
    }

    /// Ends the connection at once, with everything that is under way on it.
    pub(super) fn stop(&self) {
        let before = self.rouse.state.swap(OVER, Ordering::AcqRel);
        self.wire.close();
        // Whoever polls it just now sees that it was stopped, and ends it.
        if !matches!(before, RUNNING | AGAIN) {
            let serving = self.lock().take();
            self.ended(serving);
        }
    }

    fn ended(&self, serving: Option<Serving>) {
        self.rouse.state.store(OVER, Ordering::Release);
        let was_there = serving.is_some();
        drop(serving);
        self.wire.close();
        if was_there {
            (self.on_end)();
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let serving = self.lock().take();
        self.ended(serving);
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").finish_non_exhaustive()
    }
}
