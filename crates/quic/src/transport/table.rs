//! Maps requests to their streams. Used by `incoming` and `outgoing`; it sends and reads nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use mcpjoin_proto::decode::Shape;
use mcpjoin_proto::{DecodeError, Message, Request, RequestId, Response};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;

use super::code;
use super::write_buffer::Line;

/// The key of the session stream, which is the first stream that a client opens.
pub(super) const SESSION: u64 = 0;

/// The state of a call, changed atomically by the link and the stream's task.
pub(super) mod claim {
    /// The call waits for a free stream.
    pub(in super::super) const WAITING: u8 = 0;
    /// The call has a stream.
    pub(in super::super) const OPEN: u8 = 1;
    /// The call was cancelled before it had a stream: nothing is sent.
    pub(in super::super) const WITHDRAWN: u8 = 2;
    /// The call was cancelled and its cancellation is sent on its stream: no response is expected.
    pub(in super::super) const CANCELLED: u8 = 3;
    /// The stream is reset. A task that is still running must not finish it normally.
    pub(in super::super) const CUT: u8 = 4;
}

/// State that the link shares with the task of a stream.
pub(super) struct StreamState {
    code: AtomicU32,
    claim: AtomicU8,
}

impl StreamState {
    pub(super) fn new(claim: u8) -> Arc<Self> {
        Arc::new(Self { code: AtomicU32::new(code::CANCELLED), claim: AtomicU8::new(claim) })
    }

    /// Error code for the reset when the task is dropped.
    pub(super) fn code(&self) -> u32 {
        self.code.load(Ordering::Relaxed)
    }

    pub(super) fn set_code(&self, code: u32) {
        self.code.store(code, Ordering::Relaxed);
    }

    pub(super) fn is(&self, claim: u8) -> bool {
        self.claim.load(Ordering::Acquire) == claim
    }

    pub(super) fn set(&self, claim: u8) {
        self.claim.store(claim, Ordering::Release);
    }

    /// Changes the state of a call that waits for a stream. Returns false if it no longer waits.
    pub(super) fn decide(&self, claim: u8) -> bool {
        let decided = self.claim.compare_exchange(claim::WAITING, claim, Ordering::AcqRel, Ordering::Acquire);
        decided.is_ok()
    }
}

/// An open stream.
pub(super) struct Entry {
    /// `None` when this side sends nothing more on it.
    pub(super) out: Option<UnboundedSender<Line>>,
    pub(super) task: AbortHandle,
    pub(super) state: Arc<StreamState>,
    /// Pending requests of ours on this stream.
    pub(super) ours: Vec<RequestId>,
    /// Pending requests of the peer on this stream.
    pub(super) theirs: Vec<RequestId>,
    /// Whether a message arrived that was its request or could have been.
    pub(super) started: bool,
}

/// All streams of a connection.
#[derive(Default)]
pub(super) struct Table {
    pub(super) entries: HashMap<u64, Entry>,
    ours: HashMap<RequestId, u64>,
    theirs: HashMap<RequestId, u64>,
    /// Streams with an unreadable message that has no id but needs a response, oldest first.
    unreadable: VecDeque<u64>,
}

impl Table {
    /// Records a request of ours on this stream.
    pub(super) fn add_ours(&mut self, id: RequestId, key: u64) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.ours.push(id.clone());
        }
        self.ours.insert(id, key);
    }

    /// Records a request of the peer on this stream. Returns false if its id is already pending.
    pub(super) fn add_theirs(&mut self, id: &RequestId, key: u64) -> bool {
        if self.theirs.contains_key(id) {
            return false;
        }
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.theirs.push(id.clone());
            self.theirs.insert(id.clone(), key);
        }
        true
    }

    /// Records a message of the peer on this stream. Returns whether it needs a response.
    pub(super) fn record(&mut self, message: Result<&Message, &DecodeError>, key: u64) -> bool {
        match message {
            Ok(Message::Request(Request { id, .. }))
            | Err(DecodeError { id: Some(id), shape: Shape::Request | Shape::Unknown, .. }) => {
                self.add_theirs(id, key);
                true
            }
            Ok(Message::Response(Response { id: Some(id), .. })) | Err(DecodeError { id: Some(id), .. }) => {
                self.take_ours(id);
                false
            }
            Ok(_) => false,
            Err(error) => matches!(error.shape, Shape::Request | Shape::Unknown),
        }
    }

    pub(super) fn unreadable(&mut self, key: u64) {
        if self.entries.contains_key(&key) {
            self.unreadable.push_back(key);
        }
    }

    /// Returns and removes the stream of the oldest unreadable message.
    pub(super) fn take_unreadable(&mut self) -> Option<u64> {
        self.unreadable.pop_front()
    }

    /// Removes a request of ours and returns its stream.
    pub(super) fn take_ours(&mut self, id: &RequestId) -> Option<u64> {
        let key = self.ours.remove(id)?;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.ours.retain(|other| other != id);
        }
        Some(key)
    }

    /// The stream of a pending request of the peer.
    pub(super) fn stream_of(&self, id: &RequestId) -> Option<u64> {
        self.theirs.get(id).copied()
    }

    /// Removes a request of the peer and returns its stream.
    pub(super) fn take_theirs(&mut self, id: &RequestId) -> Option<u64> {
        let key = self.theirs.remove(id)?;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.theirs.retain(|other| other != id);
        }
        Some(key)
    }

    /// Removes a stream and its requests.
    pub(super) fn remove(&mut self, key: u64) -> Option<Entry> {
        let entry = self.entries.remove(&key)?;
        for id in &entry.ours {
            self.ours.remove(id);
        }
        for id in &entry.theirs {
            self.theirs.remove(id);
        }
        self.unreadable.retain(|other| *other != key);
        Some(entry)
    }

    /// Queues a line on a stream; does nothing if the stream has ended.
    pub(super) fn send(&self, key: u64, line: Line) {
        if let Some(out) = self.entries.get(&key).and_then(|entry| entry.out.as_ref()) {
            // If the task has ended, it has reported that or will.
            let _ = out.send(line);
        }
    }
}
