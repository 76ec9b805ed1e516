//! Large results that are written, and get their envelope, on threads for blocking work: so that they keep nobody waiting
//! whose answers go on other streams. Where all answers go on one stream, small ones wait for large ones in any case, and
//! nothing is done aside.
//!
//! Asked by the driver and by whoever turns what a handler gave into an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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
}

/// A result that is aside. It is not any more when this is dropped.
pub(crate) struct Place {
    aside: Arc<Aside>,
    bytes: usize,
}

impl Aside {
    /// Each answer has a stream of its own.
    pub(super) fn allow(&self, allowed: bool) {
        self.allowed.store(allowed, Ordering::Relaxed);
    }

    /// A place for a result of so many bytes; `None` for one that is done where it is.
    pub(crate) fn place(self: &Arc<Self>, bytes: usize) -> Option<Place> {
        if bytes < LARGE || !self.allowed.load(Ordering::Relaxed) {
            return None;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Some(Place { aside: self.clone(), bytes })
    }

    /// Whether more requests may be begun, whose results may be large, too.
    pub(super) fn has_room(&self) -> bool {
        self.count.load(Ordering::Relaxed) <= 1 || self.bytes.load(Ordering::Relaxed) <= AT_ONCE
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.aside.count.fetch_sub(1, Ordering::Relaxed);
        self.aside.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
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
}
