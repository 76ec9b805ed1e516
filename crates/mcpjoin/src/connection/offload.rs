//! Large results that are encoded on blocking threads, so that they do not delay the responses on other streams. Where
//! all responses share one stream, small ones wait for large ones anyway, and nothing is offloaded.
//!
//! Used by the driver, and by the code that turns the output of a handler into a response.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;

use crate::sync::Mutex;

/// Results from this size on are offloaded: encoding them takes a millisecond.
const LARGE_RESULT_BYTES: usize = 512 * 1024;
/// Bytes of offloaded results beyond which no more requests are started. A single result may be larger.
const MAX_OFFLOADED_BYTES: usize = 1024 * 1024;

/// The offloaded results of one connection.
#[derive(Default)]
pub(crate) struct Offload {
    allowed: AtomicBool,
    count: AtomicUsize,
    bytes: AtomicUsize,
    /// The driver's waker, while it waits for capacity.
    waiting: Mutex<Option<Waker>>,
}

/// Counts one offloaded result until it is dropped. It moves with the work, which continues when its caller is gone.
pub(crate) struct Permit {
    offload: Arc<Offload>,
    bytes: usize,
}

impl Offload {
    /// Allows offloading: each response has its own stream.
    pub(super) fn allow(&self, allowed: bool) {
        self.allowed.store(allowed, Ordering::Relaxed);
    }

    /// Whether a result of this size is offloaded.
    pub(super) fn takes(&self, bytes: usize) -> bool {
        bytes >= LARGE_RESULT_BYTES && self.allowed.load(Ordering::Relaxed)
    }

    /// Returns a permit for a result of this size, or `None` if it is encoded in place.
    pub(crate) fn permit(self: &Arc<Self>, bytes: usize) -> Option<Permit> {
        if !self.takes(bytes) {
            return None;
        }
        self.count.fetch_add(1, Ordering::SeqCst);
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
        Some(Permit { offload: self.clone(), bytes })
    }

    /// Whether more requests may be started, whose results may be large, too.
    pub(super) fn has_capacity(&self) -> bool {
        self.count.load(Ordering::SeqCst) <= 1 || self.bytes.load(Ordering::SeqCst) <= MAX_OFFLOADED_BYTES
    }

    /// As [`has_capacity`](Self::has_capacity); if there is none, wakes `waker` when there may be some.
    pub(super) fn poll_capacity(&self, waker: &Waker) -> bool {
        if self.has_capacity() {
            return true;
        }
        // A waker is cloned before the lock is taken, and dropped after it is released.
        let waker = waker.clone();
        let replaced = self.waiting.lock().replace(waker);
        drop(replaced);
        // A result that was finished since the check has woken nothing.
        self.has_capacity()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.offload.count.fetch_sub(1, Ordering::SeqCst);
        self.offload.bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        let waiting = self.offload.waiting.lock().take();
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_any_size_may_be_aside_and_of_several_a_megabyte() {
        let offload = Arc::new(Offload::default());
        assert!(offload.permit(1 << 30).is_none(), "not where all answers go on one stream");
        offload.allow(true);
        assert!(offload.permit(LARGE_RESULT_BYTES - 1).is_none());
        let first = offload.permit(1 << 30);
        assert!(first.is_some() && offload.has_capacity());
        let second = offload.permit(LARGE_RESULT_BYTES);
        assert!(!offload.has_capacity());
        drop(first);
        assert!(offload.has_capacity());
        let third = offload.permit(LARGE_RESULT_BYTES + 1);
        assert!(!offload.has_capacity());
        drop((second, third));
        assert!(offload.has_capacity());
    }

    #[test]
    fn a_caller_that_waits_for_room_is_woken_when_room_is_made() {
        struct Woken(AtomicBool);
        impl std::task::Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let offload = Arc::new(Offload::default());
        offload.allow(true);
        let (first, second) = (offload.permit(1 << 30), offload.permit(1 << 30));
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        assert!(!offload.poll_capacity(&Waker::from(woken.clone())));
        std::thread::spawn(move || drop(first)).join().unwrap();
        assert!(woken.0.load(Ordering::SeqCst));
        assert!(offload.poll_capacity(&Waker::from(woken)));
        drop(second);
    }
}
