//! A bounded queue in memory with a sending and a receiving end: one direction of a transport.
//!
//! Used by `memory` and `pair`. It moves values and never reads them; the caller states their size.
//!
//! Three buffers hold values, so that each side locks once per batch and not once per value: values that were pushed and not
//! yet flushed (at the sender), flushed values (behind the lock), and the batch that the receiver has taken (at the
//! receiver). Together they hold at most 1,024 values and 1 MiB. A value is accepted while there is any room, so one that is
//! larger than a limit passes alone.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use crate::sync::{Mutex, MutexGuard};

/// Values that may be pushed without a flush.
const MAX_PUSHED_VALUES: usize = 256;
/// Their bytes: the limit of the transport's own buffer.
const MAX_PUSHED_BYTES: usize = 256 * 1024;
/// Values that may wait behind the lock. The batch of the receiver may have as many again.
const MAX_QUEUED_VALUES: usize = 384;
/// Their bytes.
const MAX_QUEUED_BYTES: usize = 384 * 1024;

struct Entry<T> {
    value: T,
    size: usize,
}

struct State<T> {
    values: VecDeque<Entry<T>>,
    bytes: usize,
    sender_gone: bool,
    receiver_gone: bool,
    sender: Option<Waker>,
    receiver: Option<Waker>,
}

impl<T> State<T> {
    fn has_room(&self) -> bool {
        self.values.len() < MAX_QUEUED_VALUES && self.bytes < MAX_QUEUED_BYTES
    }
}

/// The state that both ends share.
struct Queue<T> {
    state: Mutex<State<T>>,
    /// How many values the receiver has taken since the queue was made. Read in every turn of a connection, so it needs no
    /// lock. It orders nothing.
    taken: AtomicU64,
}

/// Locks the state. The lock is held for a few moves and never while foreign code runs, so a poisoned lock protects a valid
/// state. Wakers are foreign code: they are cloned before locking, and woken and dropped after unlocking.
fn lock<T>(queue: &Queue<T>) -> MutexGuard<'_, State<T>> {
    queue.state.lock()
}

/// The sending end. Dropping it ends the queue after its values.
pub(super) struct Sender<T> {
    queue: Arc<Queue<T>>,
    pushed: VecDeque<Entry<T>>,
    bytes: usize,
}

/// The receiving end. Dropping it makes every send fail.
pub(super) struct Receiver<T> {
    queue: Arc<Queue<T>>,
    taken: VecDeque<Entry<T>>,
}

/// The receiving end was dropped.
#[derive(Debug)]
pub(super) struct Gone;

/// A new queue.
pub(super) fn queue<T>() -> (Sender<T>, Receiver<T>) {
    let state = State {
        values: VecDeque::new(),
        bytes: 0,
        sender_gone: false,
        receiver_gone: false,
        sender: None,
        receiver: None,
    };
    let queue = Arc::new(Queue { state: Mutex::new(state), taken: AtomicU64::new(0) });
    (
        Sender { queue: Arc::clone(&queue), pushed: VecDeque::new(), bytes: 0 },
        Receiver { queue, taken: VecDeque::new() },
    )
}

impl<T> Sender<T> {
    pub(super) fn has_room(&self) -> bool {
        self.pushed.len() < MAX_PUSHED_VALUES && self.bytes < MAX_PUSHED_BYTES
    }

    /// Adds a value, which the next flush sends.
    pub(super) fn push(&mut self, value: T, size: usize) {
        self.bytes = self.bytes.saturating_add(size);
        self.pushed.push_back(Entry { value, size });
    }

    /// Moves pushed values to the receiver, as many as it has room for. Ready when none is left.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        if self.pushed.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let own = cx.waker().clone();
        let mut replaced = None;
        let mut state = lock(&self.queue);
        if state.receiver_gone {
            drop(state);
            self.pushed.clear();
            self.bytes = 0;
            return Poll::Ready(Err(Gone));
        }
        let mut moved = false;
        while state.has_room() {
            let Some(entry) = self.pushed.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(entry.size);
            state.bytes = state.bytes.saturating_add(entry.size);
            state.values.push_back(entry);
            moved = true;
        }
        let left = !self.pushed.is_empty();
        if left {
            replaced = state.sender.replace(own);
        }
        let waker = if moved { state.receiver.take() } else { None };
        drop(state);
        drop(replaced);
        if let Some(waker) = waker {
            waker.wake();
        }
        if left { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    /// Ready when the receiver has room for one more value, or was dropped.
    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        let own = cx.waker().clone();
        let mut state = lock(&self.queue);
        if state.receiver_gone {
            return Poll::Ready(Err(Gone));
        }
        if state.has_room() {
            return Poll::Ready(Ok(()));
        }
        let replaced = state.sender.replace(own);
        drop(state);
        drop(replaced);
        Poll::Pending
    }

    /// Flushes one value that was pushed after [`Sender::poll_room`] was ready.
    pub(super) fn flush_now(&mut self) -> Result<(), Gone> {
        match self.poll_flush(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => outcome,
            // There is no other sender, so the room is still there.
            Poll::Pending => Ok(()),
        }
    }

    /// How many values the receiver has taken since the queue was made.
    pub(super) fn taken(&self) -> u64 {
        self.queue.taken.load(Ordering::Relaxed)
    }

    /// Ends the queue: the receiver gets the pushed values (which are bounded), then the end.
    pub(super) fn finish(&mut self) {
        let mut state = lock(&self.queue);
        if !state.receiver_gone {
            state.bytes = state.bytes.saturating_add(self.bytes);
            state.values.append(&mut self.pushed);
        }
        self.bytes = 0;
        state.sender_gone = true;
        let waker = state.receiver.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Drop for Sender<T> {
    /// Values that were pushed and not flushed are lost, as with a socket.
    fn drop(&mut self) {
        self.pushed.clear();
        self.finish();
    }
}

impl<T> Receiver<T> {
    /// Polls the next value; `None` when the sending end was dropped and all values were taken.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(entry) = self.taken.pop_front() {
            return Poll::Ready(Some(entry.value));
        }
        let own = cx.waker().clone();
        let mut state = lock(&self.queue);
        if state.values.is_empty() {
            if state.sender_gone {
                return Poll::Ready(None);
            }
            let replaced = state.receiver.replace(own);
            drop(state);
            drop(replaced);
            return Poll::Pending;
        }
        mem::swap(&mut state.values, &mut self.taken);
        state.bytes = 0;
        self.queue.taken.fetch_add(self.taken.len() as u64, Ordering::Relaxed);
        let waker = state.sender.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        Poll::Ready(self.taken.pop_front().map(|entry| entry.value))
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.queue);
        state.receiver_gone = true;
        let values = mem::take(&mut state.values);
        let waker = state.sender.take();
        drop(state);
        // Dropping a value may run foreign code (the owner of a buffer): not under the lock.
        drop(values);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn pushed(sender: &mut Sender<usize>, size: usize) -> usize {
        let mut cx = Context::from_waker(Waker::noop());
        let mut count = 0;
        loop {
            while sender.has_room() {
                sender.push(count, size);
                count += 1;
            }
            if sender.poll_flush(&mut cx).is_pending() && !sender.has_room() {
                return count;
            }
        }
    }

    #[test]
    fn at_most_1024_values_wait() {
        let (mut sender, mut receiver) = queue();
        let mut count = pushed(&mut sender, 1);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(receiver.poll_next(&mut cx), Poll::Ready(Some(0))));
        count += pushed(&mut sender, 1);
        assert_eq!(count, MAX_PUSHED_VALUES + 2 * MAX_QUEUED_VALUES);
        assert_eq!(count, 1024);
        assert_eq!(sender.taken(), MAX_QUEUED_VALUES as u64);
    }

    #[test]
    fn a_value_larger_than_every_bound_passes_alone() {
        let (mut sender, mut receiver) = queue();
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(pushed(&mut sender, 64 * 1024 * 1024), 2);
        assert!(matches!(receiver.poll_next(&mut cx), Poll::Ready(Some(0))));
        assert!(matches!(sender.poll_flush(&mut cx), Poll::Ready(Ok(()))));
        assert!(matches!(receiver.poll_next(&mut cx), Poll::Ready(Some(1))));
        assert!(receiver.poll_next(&mut cx).is_pending());
    }

    #[test]
    fn the_end_comes_after_what_was_sent() {
        let (mut sender, mut receiver) = queue();
        let mut cx = Context::from_waker(Waker::noop());
        sender.push(7, 1);
        sender.finish();
        drop(sender);
        assert!(matches!(receiver.poll_next(&mut cx), Poll::Ready(Some(7))));
        assert!(matches!(receiver.poll_next(&mut cx), Poll::Ready(None)));
    }

    #[test]
    fn sending_without_a_receiver_fails() {
        let (mut sender, receiver) = queue();
        let mut cx = Context::from_waker(Waker::noop());
        drop(receiver);
        sender.push(7, 1);
        assert!(matches!(sender.poll_flush(&mut cx), Poll::Ready(Err(Gone))));
        assert!(sender.has_room());
    }
}
