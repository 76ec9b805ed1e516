//! Notifies clients of changes.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>. The session knows what a
//! client listens for. Changes are collected here for each connection, and sent when the connection has capacity: a
//! client that reads slowly gets one notification for ten thousand changes of a list.

use std::mem;
use std::task::{Context, Waker};

use crate::sync::Mutex;
use mcpjoin_proto::sorted_map::{SortedMap, SortedSet};
use mcpjoin_proto::types::{ProtocolType, ResourceUpdatedParams};
use mcpjoin_proto::{Method, Notification, Payload, Raw};

use crate::connection::Connection;

/// The changes that a connection has to send.
#[derive(Default)]
pub(super) struct Outbox(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// Allocated for the first change.
    changes: Option<Box<Changes>>,
    /// The task that sends them.
    sender: Option<Waker>,
}

/// Each change once.
#[derive(Default)]
struct Changes {
    lists: SortedSet<ChangedList>,
    resources: SortedSet<String>,
    /// The newest progress of each task.
    progress: SortedMap<String, Raw>,
    /// The newest state of each task.
    tasks: SortedMap<String, TaskChange>,
    dropped: u64,
}

/// The state of a task.
pub(super) struct TaskChange {
    /// The method of its notification.
    pub(super) method: Method,
    pub(super) task: Raw,
    /// The verified principal of the task. No other client is notified.
    pub(super) principal: Option<Box<str>>,
}

/// The lists of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ChangedList {
    Tools,
    Resources,
    Prompts,
}

impl ChangedList {
    fn method(self) -> Method {
        match self {
            Self::Tools => Method::ToolListChanged,
            Self::Resources => Method::ResourceListChanged,
            Self::Prompts => Method::PromptListChanged,
        }
    }
}

impl Outbox {
    /// Records a change. `change` returns whether there is something new to send.
    fn change(&self, change: impl FnOnce(&mut Changes) -> bool) {
        let mut waiting = self.0.lock();
        let new = change(waiting.changes.get_or_insert_default());
        let sender = waiting.sender.take_if(|_| new);
        drop(waiting);
        if let Some(sender) = sender {
            sender.wake();
        }
    }

    pub(super) fn list_changed(&self, list: ChangedList) {
        self.change(|changes| changes.lists.add(list));
    }

    /// `limit`: the maximum number of resources in the outbox.
    pub(super) fn resource_updated(&self, uri: &str, limit: usize) {
        self.change(|changes| {
            if changes.resources.len() >= limit && !changes.resources.contains(uri) {
                changes.dropped += 1;
                let dropped = changes.dropped;
                tracing::warn!(target: "mcpjoin", dropped, "too many updated resources: the client is not notified of one");
                return false;
            }
            changes.resources.add(uri.to_owned())
        });
    }

    /// `limit`: the maximum number of tasks in the outbox. A client that misses a notification sees the state at its
    /// next poll.
    pub(super) fn task_changed(&self, id: &str, change: TaskChange, limit: usize) {
        self.change(|changes| {
            let fits = changes.tasks.len() < limit || changes.tasks.contains(id);
            if fits {
                changes.tasks.insert(id.to_owned(), change);
            }
            fits
        });
    }

    /// Records the newest progress of a task.
    pub(super) fn task_progress(&self, id: &str, progress: Raw, limit: usize) {
        self.change(|changes| {
            let fits = changes.progress.len() < limit || changes.progress.contains(id);
            if fits {
                changes.progress.insert(id.to_owned(), progress);
            }
            fits
        });
    }

    /// Sends all changes for which there is capacity. `place` is the place in the queue of calls. The caller is woken
    /// when there is more to send.
    pub(super) fn send(&self, connection: &Connection, place: &mut Option<u64>, cx: &mut Context<'_>) {
        while self.has_changes(cx) {
            if connection.poll_call_queue(place, cx).is_pending() {
                return;
            }
            let Some((notification, principal)) = self.next() else { continue };
            let method = notification.method.clone();
            let told = match principal {
                Some(principal) => connection.notify_principal(notification, &principal),
                None => connection.notify(notification),
            };
            if let Err(refused) = told {
                tracing::debug!(target: "mcpjoin", %method, %refused, "the client was not notified of a change");
            }
        }
    }

    /// Whether there is something to send. Otherwise the caller is woken when there is.
    fn has_changes(&self, cx: &Context<'_>) -> bool {
        // A waker is cloned before the lock is taken, and dropped after it is released.
        let mut sender = Some(cx.waker().clone());
        let mut waiting = self.0.lock();
        let known = waiting.changes.as_ref().is_some_and(|changes| !changes.is_empty());
        if !known {
            waiting.changes = None;
            mem::swap(&mut waiting.sender, &mut sender);
        }
        drop(waiting);
        known
    }

    /// Returns the next notification, and the only principal that may see it.
    fn next(&self) -> Option<(Notification, Option<Box<str>>)> {
        let mut waiting = self.0.lock();
        let changes = waiting.changes.as_mut()?;
        if let Some((list, ())) = changes.lists.pop_first() {
            return Some((Notification { method: list.method(), params: None }, None));
        }
        let (method, params, principal) = if let Some((uri, ())) = changes.resources.pop_first() {
            (Method::ResourceUpdated, Payload::from_raw(ResourceUpdatedParams::new(uri).to_raw().ok()?), None)
        } else if let Some((_, progress)) = changes.progress.pop_first() {
            // Progress is sent before the final state, as it is not allowed after that.
            (Method::Progress, Payload::from_raw(progress), None)
        } else {
            let (_, TaskChange { method, task, principal }) = changes.tasks.pop_first()?;
            (method, Payload::from_raw(task), principal)
        };
        Some((Notification { method, params: Some(params) }, principal))
    }
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.lists.is_empty()
            && self.resources.is_empty()
            && self.progress.is_empty()
            && self.tasks.is_empty()
    }
}
