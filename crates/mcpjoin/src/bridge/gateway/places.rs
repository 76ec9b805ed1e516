//! The servers that there are now: their number is bounded, and all can be ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::end::Refusal;

/// Places for servers.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    state: Mutex<State>,
    left: Notify,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    /// What ends each of them.
    taken: BTreeMap<u64, watch::Sender<bool>>,
    closed: bool,
}

/// The place of one server, held until nothing of it is left.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    /// They count up from 1.
    pub(super) number: u64,
    /// Ends the server.
    pub(super) ending: watch::Sender<bool>,
}

impl Places {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, state: Mutex::default(), left: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take(self: &Arc<Self>) -> Result<Place, Refusal> {
        let mut state = self.lock();
        if state.closed {
            return Err(Refusal::Closed);
        }
        if state.taken.len() >= self.most {
            return Err(Refusal::TooMany { limit: self.most });
        }
        state.last += 1;
        let (number, ending) = (state.last, watch::channel(false).0);
        state.taken.insert(number, ending.clone());
        Ok(Place { places: self.clone(), number, ending })
    }

    /// The same, and waits for a place so long.
    pub(super) async fn take_within(self: &Arc<Self>, patience: Duration) -> Result<Place, Refusal> {
        let waiting = async {
            loop {
                let left = self.left.notified();
                match self.take() {
                    Err(Refusal::TooMany { .. }) => left.await,
                    taken => return taken,
                }
            }
        };
        timeout(patience, waiting).await.unwrap_or(Err(Refusal::TooMany { limit: self.most }))
    }

    /// Whether some were ended, of which something is left: they will give their places.
    pub(super) fn are_leaving(&self) -> bool {
        self.lock().taken.values().any(|ending| *ending.borrow())
    }

    /// Waits until something has happened, from now on, by which there may be a place, or one that is used no more.
    pub(super) fn stirred(&self) -> impl Future<Output = ()> {
        self.left.notified()
    }

    /// Ends all of them, and waits until nothing of them is left. There will be no others.
    pub(super) async fn close(&self) {
        {
            let mut state = self.lock();
            state.closed = true;
            for ending in state.taken.values() {
                ending.send_replace(true);
            }
        }
        loop {
            let left = self.left.notified();
            if self.lock().taken.is_empty() {
                return;
            }
            left.await;
        }
    }
}

impl Place {
    /// To be called when a server may be in use no more.
    pub(super) fn stirs(&self) -> impl Fn() + Send + Sync + 'static {
        let places = self.places.clone();
        move || places.left.notify_waiters()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().taken.remove(&self.number);
        self.places.left.notify_waiters();
    }
}
