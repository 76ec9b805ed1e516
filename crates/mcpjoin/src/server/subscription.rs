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

/// The bytes of the states of tasks that a connection has to send: as many as a session queues of its own messages. One state may be
/// larger. A state has the result of its task, which the server may have removed meanwhile.
const MAX_TASK_BYTES: usize = 8 << 20;

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

    /// `limit`: the maximum number of tasks in the outbox, which have at most [`MAX_TASK_BYTES`]. A client that misses a notification
    /// sees the state at its next poll.
    pub(super) fn task_changed(&self, id: &str, change: TaskChange, limit: usize) {
        self.change(|changes| {
            let others = changes.tasks.iter().filter(|(other, _)| *other != id);
            let bytes: usize = others.map(|(_, other)| other.task.len()).sum();
            let fits = changes.tasks.len() < limit || changes.tasks.contains(id);
            let fits = fits && (bytes == 0 || bytes + change.task.len() <= MAX_TASK_BYTES);
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

#[cfg(test)]
mod tests {
    use mcpjoin_proto::Era;
    use mcpjoin_proto::session::EraChoice;

    use super::super::{NoArguments, Server, tool};
    use super::*;
    use crate::{Client, Link};

    #[tokio::test(start_paused = true)]
    async fn the_state_of_a_task_waits_for_no_client_that_does_not_listen_to_it() {
        let server =
            Server::builder("s", "1").tool(tool("t").as_task(), |_: NoArguments, _| async { "done" });
        let server = server.build().expect("a server");
        let (ours, theirs) = Link::memory();
        server.connect(theirs);
        let builder = Client::builder("c", "1").era(EraChoice::Only(Era::Modern)).tasks(true);
        let client = builder.connect(ours).await.expect("a connection");
        // Nothing is sent on the connection of another client, which reads nothing.
        let (_link, theirs) = Link::memory();
        let (_connection, serving) = server.open(theirs, true);
        client.call_tool("t", ()).await.expect("a result");
        let waiting = serving.outbox.0.lock();
        assert!(waiting.changes.as_ref().is_none_or(|changes| changes.tasks.is_empty()));
    }

    #[test]
    fn the_states_of_tasks_that_wait_for_a_client_have_a_total_in_bytes() {
        let outbox = Outbox::default();
        let changed = |id: &str, bytes: usize| {
            let task = Raw::string(&"x".repeat(bytes - 2));
            let change = TaskChange { method: Method::Tasks, task, principal: None };
            outbox.task_changed(id, change, 3);
        };
        changed("a", 2 * MAX_TASK_BYTES);
        changed("b", 2);
        changed("a", MAX_TASK_BYTES - 4);
        changed("b", 2);
        changed("c", 3);
        changed("d", 2);
        changed("e", 2);
        let sent: Vec<usize> = std::iter::from_fn(|| outbox.next())
            .map(|(notification, _)| notification.params.map_or(0, |params| params.raw().len()))
            .collect();
        assert_eq!(sent, [MAX_TASK_BYTES - 4, 2, 2]);
    }
}
