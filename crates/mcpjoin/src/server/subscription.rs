//! Tells the clients that something has changed.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>. What a client wants to
//! hear the session knows. Changes are gathered here, beside each connection, and told when it has room: of ten
//! thousand changes of a list that a client does not keep up with, it is told once.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use mcpjoin_proto::types::ResourceUpdatedParams;
use mcpjoin_proto::{Method, Notification, Payload, Raw};

use crate::connection::Connection;

/// What a connection has to be told.
#[derive(Default)]
pub(super) struct Outbox(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// Made for the first of them.
    changes: Option<Box<Changes>>,
    /// Whoever tells them.
    sender: Option<Waker>,
}

/// Each change once.
#[derive(Default)]
struct Changes {
    lists: BTreeSet<ChangedList>,
    resources: BTreeSet<String>,
    /// How far each task is.
    progress: BTreeMap<String, Raw>,
    /// The newest word about each task.
    tasks: BTreeMap<String, TaskChange>,
    dropped: u64,
}

/// How a task stands.
pub(super) struct TaskChange {
    /// By which method it is said.
    pub(super) method: Method,
    pub(super) task: Raw,
    /// In scope name it was begun, where that is proved: nobody else is told.
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
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a change known. It says whether there is something new to tell.
    fn change(&self, change: impl FnOnce(&mut Changes) -> bool) {
        let mut waiting = self.lock();
        let new = change(waiting.changes.get_or_insert_default());
        let sender = waiting.sender.take_if(|_| new);
        drop(waiting);
        if let Some(sender) = sender {
            sender.wake();
        }
    }

    pub(super) fn list_changed(&self, list: ChangedList) {
        self.change(|changes| changes.lists.insert(list));
    }

    /// `limit`: how many resources may wait to be told of.
    pub(super) fn resource_updated(&self, uri: &str, limit: usize) {
        self.change(|changes| {
            if changes.resources.len() >= limit && !changes.resources.contains(uri) {
                changes.dropped += 1;
                let dropped = changes.dropped;
                tracing::warn!(target: "mcpjoin", dropped, "too many updated resources: one is not told of");
                return false;
            }
            changes.resources.insert(uri.to_owned())
        });
    }

    /// `limit`: how many tasks may wait to be told of. What is not told, a client learns when it asks.
    pub(super) fn task_changed(&self, id: &str, change: TaskChange, limit: usize) {
        self.change(|changes| {
            let fits = changes.tasks.len() < limit || changes.tasks.contains_key(id);
            if fits {
                changes.tasks.insert(id.to_owned(), change);
            }
            fits
        });
    }

    /// The same of how far a task is: the newest alone.
    pub(super) fn task_progress(&self, id: &str, progress: Raw, limit: usize) {
        self.change(|changes| {
            let fits = changes.progress.len() < limit || changes.progress.contains_key(id);
            if fits {
                changes.progress.insert(id.to_owned(), progress);
            }
            fits
        });
    }

    /// Tells the peer of every change that there is, as far as there is room. `place` is that among those who wait for
    /// room. Whoever calls this is woken when there is more to tell.
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
                tracing::debug!(target: "mcpjoin", %method, %refused, "a change was not told");
            }
        }
    }

    /// Whether there is something to tell. If not, whoever asks is woken when there is.
    fn has_changes(&self, cx: &Context<'_>) -> bool {
        // A waker is cloned before the lock is taken, and dropped after it is released.
        let mut sender = Some(cx.waker().clone());
        let mut waiting = self.lock();
        let known = waiting.changes.as_ref().is_some_and(|changes| !changes.is_empty());
        if !known {
            waiting.changes = None;
            mem::swap(&mut waiting.sender, &mut sender);
        }
        drop(waiting);
        known
    }

    /// What to tell next, and to whom alone.
    fn next(&self) -> Option<(Notification, Option<Box<str>>)> {
        let mut waiting = self.lock();
        let changes = waiting.changes.as_mut()?;
        if let Some(list) = changes.lists.pop_first() {
            return Some((Notification { method: list.method(), params: None }, None));
        }
        let (method, params, principal) = if let Some(uri) = changes.resources.pop_first() {
            (Method::ResourceUpdated, Payload::from_value(&ResourceUpdatedParams::new(uri)).ok()?, None)
        } else if let Some((_, progress)) = changes.progress.pop_first() {
            // How far a task is before how it ended: behind the end it would be wrong.
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
