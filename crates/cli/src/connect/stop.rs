//! What tells work under way that a signal has come: whoever prints while it works ends properly what it has begun.
//!
//! Raised by `connect`; heard by the commands that stream a document.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::exit::Signal;

/// How long the end of what is printed may take. Who does not read it does not keep us.
pub(super) const PRINTED: Duration = Duration::from_millis(500);

/// Whether a signal has come. All clones are one.
#[derive(Clone, Default)]
pub(crate) struct Stop(Rc<State>);

#[derive(Default)]
struct State {
    signal: Cell<Option<Signal>>,
    /// Somebody listens, and is given the time to end by itself.
    is_heard: Cell<bool>,
    raised: Notify,
}

impl Stop {
    /// The signal, once it has come. Cancel-safe.
    pub(crate) async fn raised(&self) -> Signal {
        self.0.is_heard.set(true);
        loop {
            let raised = self.0.raised.notified();
            if let Some(signal) = self.0.signal.get() {
                return signal;
            }
            raised.await;
        }
    }

    pub(super) fn raise(&self, signal: Signal) {
        self.0.signal.set(Some(signal));
        self.0.raised.notify_waiters();
    }

    /// Whether anybody has waited for it.
    pub(super) fn is_heard(&self) -> bool {
        self.0.is_heard.get()
    }
}
