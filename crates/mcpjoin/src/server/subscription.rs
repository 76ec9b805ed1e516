//! Tells the clients that something has changed.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>. What a client wants to
//! hear the session knows. Changes are gathered here, beside each connection, and told when it has room: of ten
//! thousand changes of a list that a client does not keep up with, it is told once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcpjoin_proto::types::ResourceUpdatedParams;
use mcpjoin_proto::{Method, Notification, Payload, Raw};
use tokio::sync::Notify;

use crate::connection::Connection;

/// What a connection has to be told.
#[derive(Default)]
pub(super) struct Outbox {
    changes: Mutex<Changes>,
    changed: Notify,
}

/// Each change once.
#[derive(Default)]
struct Changes {
    lists: BTreeSet<ChangedList>,
    resources: BTreeSet<String>,
    /// How far each task is.
    progress: BTreeMap<String, Raw>,
    /// The newest word about each task, and by which method it is said.
    tasks: BTreeMap<String, (Method, Raw)>,
    dropped: u64,
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
    fn lock(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn list_changed(&self, list: ChangedList) {
        self.lock().lists.insert(list);
        self.changed.notify_one();
    }

    /// `limit`: how many resources may wait to be told of.
    pub(super) fn resource_updated(&self, uri: &str, limit: usize) {
        let mut changes = self.lock();
        if changes.resources.len() >= limit && !changes.resources.contains(uri) {
            changes.dropped += 1;
            let dropped = changes.dropped;
            tracing::warn!(target: "mcpjoin", dropped, "too many updated resources: one is not told of");
            return;
        }
        changes.resources.insert(uri.to_owned());
        drop(changes);
        self.changed.notify_one();
    }

    /// `limit`: how many tasks may wait to be told of. What is not told, a client learns when it asks.
    pub(super) fn task_changed(&self, id: &str, method: Method, task: Raw, limit: usize) {
        let mut changes = self.lock();
        if changes.tasks.len() < limit || changes.tasks.contains_key(id) {
            changes.tasks.insert(id.to_owned(), (method, task));
            drop(changes);
            self.changed.notify_one();
        }
    }

    /// The same of how far a task is: the newest alone.
    pub(super) fn task_progress(&self, id: &str, progress: Raw, limit: usize) {
        let mut changes = self.lock();
        if changes.progress.len() < limit || changes.progress.contains_key(id) {
            changes.progress.insert(id.to_owned(), progress);
            drop(changes);
            self.changed.notify_one();
        }
    }

    /// Tells the peer of every change. Ends only by being dropped.
    pub(super) async fn run(&self, connection: &Connection) {
        loop {
            self.changed.notified().await;
            while let Some(notification) = self.next() {
                connection.room().await;
                let method = notification.method.clone();
                if let Err(refused) = connection.notify(notification) {
                    tracing::debug!(target: "mcpjoin", %method, %refused, "a change was not told");
                }
            }
        }
    }

    fn next(&self) -> Option<Notification> {
        let mut changes = self.lock();
        if let Some(list) = changes.lists.pop_first() {
            return Some(Notification { method: list.method(), params: None });
        }
        if let Some(uri) = changes.resources.pop_first() {
            let params = Payload::from_value(&ResourceUpdatedParams::new(uri)).ok()?;
            return Some(Notification { method: Method::ResourceUpdated, params: Some(params) });
        }
        // How far a task is before how it ended: behind the end it would be wrong.
        let (method, params) = match changes.progress.pop_first() {
            Some((_, progress)) => (Method::Progress, progress),
            None => changes.tasks.pop_first()?.1,
        };
        Some(Notification { method, params: Some(Payload::from_raw(params)) })
    }
}
