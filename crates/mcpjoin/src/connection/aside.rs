//! Large results that are written, and get their envelope, on threads for blocking work: so that they keep nobody waiting
//! whose answers go on other streams. Where all answers go on one stream, small ones wait for large ones in any case, and
//! nothing is done aside.
//!
//! Asked by the driver and by whoever turns what a handler gave into an answer.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

/// Results from this size on are large, in bytes: it takes a millisecond.
const LARGE: usize = 512 * 1024;
/// Bytes of results that are aside at once before no more requests are begun. One of any size does not count.
const AT_ONCE: usize = 1024 * 1024;

/// What is aside, of one connection.
#[derive(Default)]
pub(crate) struct Aside {
    allowed: AtomicBool,
    count: AtomicUsize,
    bytes: AtomicUsize,
    /// The driver that waits for room.
    waiting: Mutex<Option<Waker>>,
}

/// A result that is aside. It is not any more when this is dropped: it goes with the work, which goes on when nobody waits
/// for it any longer.
pub(crate) struct Place {
    aside: Arc<Aside>,
    bytes: usize,
}

impl Aside {
    /// Each answer has a stream of its own.
    pub(super) fn allow(&self, allowed: bool) {
        self.allowed.store(allowed, Ordering::Relaxed);
    }

    /// Whether a result of so many bytes is done aside.
    pub(super) fn takes(&self, bytes: usize) -> bool {
        bytes >= LARGE && self.allowed.load(Ordering::Relaxed)
    }

    /// A place for a result of so many bytes; `None` for one that is done where it is.
    pub(crate) fn place(self: &Arc<Self>, bytes: usize) -> Option<Place> {
        if !self.takes(bytes) {
            return None;
        }
        self.count.fetch_add(1, Ordering::SeqCst);
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
        Some(Place { aside: self.clone(), bytes })
    }

    /// Whether more requests may be begun, whose results may be large, too.
    pub(super) fn has_room(&self) -> bool {
        self.count.load(Ordering::SeqCst) <= 1 || self.bytes.load(Ordering::SeqCst) <= AT_ONCE
    }

    /// The same; when there is none, this is woken as soon as there may be some.
    pub(super) fn poll_room(&self, waker: &Waker) -> bool {
        if self.has_room() {
            return true;
        }
        // A waker is cloned before the lock is taken, and dropped after it is released.
        let waker = waker.clone();
        let replaced = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).replace(waker);
        drop(replaced);
        // What was done in between has woken nobody.
        self.has_room()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.aside.count.fetch_sub(1, Ordering::SeqCst);
        self.aside.bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        let waiting = self.aside.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
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
        let aside = Arc::new(Aside::default());
        assert!(aside.place(1 << 30).is_none(), "not where all answers go on one stream");
        aside.allow(true);
        assert!(aside.place(LARGE - 1).is_none());
        let first = aside.place(1 << 30);
        assert!(first.is_some() && aside.has_room());
        let second = aside.place(LARGE);
        assert!(!aside.has_room());
        drop(first);
        assert!(aside.has_room());
        let third = aside.place(LARGE + 1);
        assert!(!aside.has_room());
        drop((second, third));
        assert!(aside.has_room());
    }

    #[test]
    fn who_waits_for_room_is_woken_by_whoever_makes_some() {
        struct Heard(AtomicBool);
        impl std::task::Wake for Heard {
            fn wake(self: Arc<Self>) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let aside = Arc::new(Aside::default());
        aside.allow(true);
        let (first, second) = (aside.place(1 << 30), aside.place(1 << 30));
        let heard = Arc::new(Heard(AtomicBool::new(false)));
        assert!(!aside.poll_room(&Waker::from(heard.clone())));
        std::thread::spawn(move || drop(first)).join().unwrap();
        assert!(heard.0.load(Ordering::SeqCst));
        assert!(aside.poll_room(&Waker::from(heard)));
        drop(second);
    }
}
