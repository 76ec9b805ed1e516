//! A connection that runs without a task of its own.
//!
//! The caller that delivers a message polls the connection in place, so a handler that is ready at once costs no task and no
//! context switch. When the connection is woken later, a task is spawned that polls it and ends. An idle connection consists
//! of its entry alone.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};

use crate::sync::Mutex;
use mcpjoin_proto::http::params::HeaderMark;
use mcpjoin_proto::session::Origin;
use mcpjoin_proto::{Raw, Version};
use tokio::runtime::Handle;

use super::wire::Wire;
use crate::transport::Link;

/// Opens connections, and answers what HTTP must know about the server.
pub trait Serves: Send + Sync {
    /// Opens a connection over a link. Returns its handle and the future that runs it.
    fn open(&self, link: Link) -> (Box<dyn Served>, Serving);

    /// Opens a connection that goes on with a session which another connection has opened, maybe in another process.
    /// `state` is what [`Served::state`] has returned there. The client's `initialize` follows, once more.
    fn reopen(&self, link: Link, state: &Raw) -> (Box<dyn Served>, Serving) {
        let _ = state;
        self.open(link)
    }

    /// The arguments of a tool that this client repeats in headers; `None` when there are none.
    fn header_marks(&self, tool: &str, client: &Origin) -> Option<Arc<[HeaderMark]>>;

    /// Whether the state of one client may become visible to another client that uses the same connection after it.
    fn remembers_clients(&self) -> bool {
        false
    }
}

/// The handle of a connection for its transport.
pub trait Served: Send + Sync {
    /// The revision that the peers have negotiated, once they have.
    fn version(&self) -> Option<Version>;

    /// Whether the connection is idle: no request is in progress.
    fn is_quiet(&self) -> bool;

    /// Shuts it down gracefully: what is in progress is finished first.
    fn drain(&self);

    /// Returns what another connection needs to go on with the session. Asked once, after `initialize`. `None`: no other
    /// connection can. By default it needs nothing but the client's `initialize`.
    fn state(&self) -> Option<Raw> {
        Some(Raw::empty_object())
    }

    /// Whether the session was stored. If it was, connections of other processes may go on with it at the same time from now on,
    /// and its end here is not the end of the session. Called once where there is a session store: after `initialize`, or before the
    /// first message of a session of 2024-11-05, which is never stored.
    fn stored(&self, stored: bool) {
        let _ = stored;
    }

    /// The client has opened or closed its stream for messages that belong to no request. Called for stored sessions only.
    fn listens(&self, listens: bool) {
        let _ = listens;
    }

    /// The client has ended the session, everywhere. The connection is stopped after this call.
    fn ended(&self) {}
}

/// Runs a connection to its end. Dropping it closes the connection at once.
pub type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How often a connection that always has more to do is polled in a row. A handler that is not ready at once needs two
/// polls; a connection with thousands of calls may not delay others for longer.
const MAX_POLLS: usize = 2;

const IDLE_TIMEOUT: u8 = 0;
/// A task that will poll it was spawned.
const SCHEDULED: u8 = 1;
const RUNNING: u8 = 2;
/// It was woken while it was polled.
const AGAIN: u8 = 3;
const OVER: u8 = 4;

/// A connection that is polled by its callers.
pub(super) struct Entry {
    pub(super) wire: Arc<Wire>,
    served: Box<dyn Served>,
    serving: Mutex<Option<Serving>>,
    rouse: Arc<EntryWaker>,
    waker: Waker,
    /// Called when the connection has ended.
    on_end: Box<dyn Fn() + Send + Sync>,
}

/// The waker of an entry. It does not keep the entry alive.
struct EntryWaker {
    entry: Weak<Entry>,
    runtime: Handle,
    state: AtomicU8,
}

impl Wake for EntryWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let next = |state| match state {
            IDLE_TIMEOUT => Some(SCHEDULED),
            RUNNING => Some(AGAIN),
            _ => None,
        };
        let before = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        if before == Ok(IDLE_TIMEOUT) {
            self.schedule();
        }
    }
}

impl EntryWaker {
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
            let rouse =
                Arc::new(EntryWaker { entry: entry.clone(), runtime, state: AtomicU8::new(IDLE_TIMEOUT) });
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

    /// Polls the connection. If another caller polls it, that one polls it once more.
    pub(super) fn run(&self) {
        let state = &self.rouse.state;
        let claim = |state| match state {
            IDLE_TIMEOUT | SCHEDULED => Some(RUNNING),
            RUNNING => Some(AGAIN),
            _ => None,
        };
        match state.fetch_update(Ordering::AcqRel, Ordering::Acquire, claim) {
            Ok(IDLE_TIMEOUT | SCHEDULED) => {}
            _ => return,
        }
        for _ in 0..MAX_POLLS {
            let mut serving = self.serving.lock();
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
            if state.compare_exchange(RUNNING, IDLE_TIMEOUT, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return;
            }
            let more = state.compare_exchange(AGAIN, RUNNING, Ordering::AcqRel, Ordering::Acquire);
            if more.is_err() {
                // Stopped meanwhile.
                let ended = self.serving.lock().take();
                self.ended(ended);
                return;
            }
        }
        let later = |state| (state != OVER).then_some(SCHEDULED);
        if state.fetch_update(Ordering::AcqRel, Ordering::Acquire, later).is_ok() {
            self.rouse.schedule();
        } else {
            let ended = self.serving.lock().take();
            self.ended(ended);
        }
    }

    /// Closes the connection at once, with everything that is in progress on it.
    pub(super) fn stop(&self) {
        let before = self.rouse.state.swap(OVER, Ordering::AcqRel);
        self.wire.close();
        // A caller that polls it right now finds that it was stopped, and drops it.
        if !matches!(before, RUNNING | AGAIN) {
            let serving = self.serving.lock().take();
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
        let serving = self.serving.lock().take();
        self.ended(serving);
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").finish_non_exhaustive()
    }
}
