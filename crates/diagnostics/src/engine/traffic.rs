//! The limits of one recording.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Messages that are recorded; then nothing more is sent.
pub(super) const MAX_MESSAGES: usize = 20_000;
/// Bytes that are recorded.
pub(super) const MAX_BYTES: usize = 64 * 1024 * 1024;

/// How much was recorded. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    messages: AtomicUsize,
    bytes: AtomicUsize,
}

impl Traffic {
    /// Counts messages and bytes. The bytes were really received, so that their sum does not overflow.
    pub(crate) fn add(&self, messages: usize, bytes: usize) {
        self.0.messages.fetch_add(messages, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn messages(&self) -> usize {
        self.0.messages.load(Ordering::Relaxed)
    }

    /// Whether a limit is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full_without(0)
    }

    /// Whether a limit is reached when `bytes` of the counted bytes are left out.
    pub(crate) fn is_full_without(&self, bytes: usize) -> bool {
        self.messages() >= MAX_MESSAGES
            || self.0.bytes.load(Ordering::Relaxed).saturating_sub(bytes) >= MAX_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_body_brings_ends_the_others_and_not_itself() {
        let traffic = Traffic::default();
        traffic.add(0, MAX_BYTES);
        assert!(traffic.is_full() && !traffic.is_full_without(MAX_BYTES));
        let traffic = Traffic::default();
        (1..MAX_MESSAGES).for_each(|_| traffic.add(1, 0));
        assert!(!traffic.is_full());
        traffic.add(1, 0);
        assert!(traffic.is_full());
    }
}
