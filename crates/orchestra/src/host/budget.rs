//! The bytes that clients may make a host hold, in requests or in responses that they have not taken.
//!
//! One connection may have half of them, and all connections of one subscriber's addresses three quarters. So a client that only
//! announces requests, or takes no response, delays no other one. Used by `exchange`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use mcpjoin::internal::subscriber;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::wire::MAX_FRAME;

/// The unit of a budget, in bytes.
pub(super) const UNIT_BYTES: usize = 4096;

/// The budget in units. It has room for the largest frame at least.
pub(super) fn units(bytes: usize) -> usize {
    bytes.max(MAX_FRAME).div_ceil(UNIT_BYTES)
}

/// A budget.
pub(super) struct Budget {
    bytes: usize,
    all: Arc<Semaphore>,
    /// The shares of the subscribers that are connected.
    subscribers: Mutex<HashMap<IpAddr, Weak<Semaphore>>>,
}

/// What one connection may take of a budget. Cheap to clone.
#[derive(Clone)]
pub(super) struct Share([Arc<Semaphore>; 3]);

/// Bytes that were taken, until this is dropped.
pub(super) struct Room {
    _taken: [OwnedSemaphorePermit; 3],
}

impl Budget {
    pub(super) fn new(bytes: usize) -> Self {
        Self { bytes, all: semaphore(bytes), subscribers: Mutex::default() }
    }

    /// The share of one more connection from this address.
    pub(super) fn share(&self, client: IpAddr) -> Share {
        let mut subscribers = self.subscribers.lock();
        subscribers.retain(|_, share| share.strong_count() > 0);
        let subscriber = subscriber(client);
        let of_subscriber = subscribers.get(&subscriber).and_then(Weak::upgrade).unwrap_or_else(|| {
            let share = semaphore(self.bytes / 4 * 3);
            subscribers.insert(subscriber, Arc::downgrade(&share));
            share
        });
        Share([semaphore(self.bytes / 2), of_subscriber, self.all.clone()])
    }

    #[cfg(test)]
    pub(super) fn free_units(&self) -> usize {
        self.all.available_permits()
    }
}

impl Share {
    /// Waits for room, at most that of the largest frame. Who waits for what others share holds only what is its own.
    pub(super) async fn take(&self, bytes: usize) -> Option<Room> {
        let units = u32::try_from(bytes.min(MAX_FRAME).div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        let [connection, subscriber, all] = self.0.clone();
        // The semaphores are never closed.
        Some(Room {
            _taken: [
                connection.acquire_many_owned(units).await.ok()?,
                subscriber.acquire_many_owned(units).await.ok()?,
                all.acquire_many_owned(units).await.ok()?,
            ],
        })
    }
}

fn semaphore(bytes: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(units(bytes)))
}
