//! Which request belongs to which stream.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32};

use mcpjoin_proto::RequestId;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;

use super::shared::Line;

/// The stream for what belongs to no request: the first that the client opens.
pub(super) const SESSION: u64 = 0;

/// Whether a call has got its stream: who changes it first has decided.
pub(super) mod claim {
    /// It waits for a stream.
    pub(in super::super) const WAITING: u8 = 0;
    /// It has one.
    pub(in super::super) const OPEN: u8 = 1;
    /// It was given up before it had one: nothing of it leaves.
    pub(in super::super) const WITHDRAWN: u8 = 2;
    /// It was given up, and the peer is told so on its stream: nothing is waited for.
    pub(in super::super) const GIVEN_UP: u8 = 3;
    /// Its stream is reset: a task that is running while it is aborted must not finish the stream in order.
    pub(in super::super) const CUT: u8 = 4;
}

/// A stream that is not over.
pub(super) struct Entry {
    /// `None` when we say nothing more on it.
    pub(super) out: Option<UnboundedSender<Line>>,
    pub(super) task: AbortHandle,
    pub(super) claim: Arc<AtomicU8>,
    pub(super) code: Arc<AtomicU32>,
    /// Requests of ours on it without an answer.
    pub(super) ours: Vec<RequestId>,
    /// Requests of the peer on it without an answer.
    pub(super) theirs: Vec<RequestId>,
    /// Something has come on it that was, or could have been, its request.
    pub(super) begun: bool,
}

/// All streams of a connection.
#[derive(Default)]
pub(super) struct Table {
    pub(super) entries: HashMap<u64, Entry>,
    ours: HashMap<RequestId, u64>,
    theirs: HashMap<RequestId, u64>,
    /// Streams on which something came that is no message and names no request, but wants an answer.
    unreadable: VecDeque<u64>,
}

impl Table {
    /// A request of ours goes out on that stream.
    pub(super) fn ask(&mut self, id: RequestId, key: u64) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.ours.push(id.clone());
        }
        self.ours.insert(id, key);
    }

    /// A request of the peer has come on that stream. False when one with that id has no answer yet.
    pub(super) fn asked(&mut self, id: &RequestId, key: u64) -> bool {
        if self.theirs.contains_key(id) {
            return false;
        }
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.theirs.push(id.clone());
            self.theirs.insert(id.clone(), key);
        }
        true
    }

    pub(super) fn unreadable(&mut self, key: u64) {
        if self.entries.contains_key(&key) {
            self.unreadable.push_back(key);
        }
    }

    /// The stream of the oldest thing that could not be read.
    pub(super) fn answer_unreadable(&mut self) -> Option<u64> {
        self.unreadable.pop_front()
    }

    /// An array on that stream was answered, and not refused as a whole.
    pub(super) fn array_answered(&mut self, key: u64) {
        if let Some(place) = self.unreadable.iter().position(|other| *other == key) {
            self.unreadable.remove(place);
        }
    }

    /// On which stream a request of ours is; it is forgotten.
    pub(super) fn take_ours(&mut self, id: &RequestId) -> Option<u64> {
        let key = self.ours.remove(id)?;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.ours.retain(|other| other != id);
        }
        Some(key)
    }

    /// On which stream a request of the peer is.
    pub(super) fn stream_of(&self, id: &RequestId) -> Option<u64> {
        self.theirs.get(id).copied()
    }

    /// The same; it is forgotten.
    pub(super) fn take_theirs(&mut self, id: &RequestId) -> Option<u64> {
        let key = self.theirs.remove(id)?;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.theirs.retain(|other| other != id);
        }
        Some(key)
    }

    /// A stream is over. Its requests are forgotten, too.
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

    /// Sends on a stream, if it is there.
    pub(super) fn send(&self, key: u64, line: Line) {
        if let Some(out) = self.entries.get(&key).and_then(|entry| entry.out.as_ref()) {
            // A task that has ended has said so, or will.
            let _ = out.send(line);
        }
    }
}
