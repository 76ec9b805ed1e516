//! Task notifications for the tasks that are followed, and which tools support tasks.
//!
//! `input` passes every notification to it, and the other parts of `task` read it. It is limited by the number of
//! followed tasks and by [`KnownTools`].

use std::collections::VecDeque;
use std::sync::Arc;

use crate::sync::Mutex;
use mcpjoin_proto::types::{ExtensionTask, TaskSupport};
use mcpjoin_proto::{Method, Notification};
use tokio::sync::Notify;

use super::super::Client;
use super::dialect::Dialect;
use crate::known_tools::KnownTools;

/// Maximum number of updates that are kept before anything follows their task. A server may send the first one together
/// with the response that starts the task.
const MAX_EARLY_UPDATES: usize = 16;

/// Maximum bytes of such an update. A longer one is seen at the next poll. Ours have a few hundred.
const MAX_EARLY_UPDATE_BYTES: usize = 16 * 1024;

/// The updates of one task: the newest state, and whether to poll immediately.
#[derive(Default)]
pub(super) struct TaskUpdates {
    latest: Mutex<Option<ExtensionTask>>,
    published: Notify,
    poll: Notify,
}

impl TaskUpdates {
    /// Publishes an update. If it cannot be read, the task is polled immediately.
    pub(super) fn publish(&self, task: Option<ExtensionTask>, id: &str) {
        match task {
            Some(task) if task.task_id == id => {
                *self.latest.lock() = Some(task);
                self.published.notify_one();
            }
            Some(_) => {}
            None => self.poll_now(),
        }
    }

    /// Makes the next poll due now.
    pub(super) fn poll_now(&self) {
        self.poll.notify_one();
    }

    /// Waits until a poll was requested. Cancel-safe.
    pub(super) async fn poll_requested(&self) {
        self.poll.notified().await;
    }

    /// Returns the newest state. Cancel-safe.
    pub(super) async fn next(&self) -> ExtensionTask {
        loop {
            if let Some(task) = self.latest.lock().take() {
                return task;
            }
            self.published.notified().await;
        }
    }
}

/// The task notifications and the task support of one connection.
#[derive(Default)]
pub(in super::super) struct TaskRegistry {
    subscribers: Mutex<Subscribers>,
    tools: Mutex<ToolSupport>,
}

#[derive(Default)]
struct Subscribers {
    waiting: Vec<(String, Arc<TaskUpdates>)>,
    early: VecDeque<ExtensionTask>,
}

#[derive(Default)]
struct ToolSupport {
    /// The number of change notifications so far.
    changes: u64,
    /// The tools that support tasks, if they are known completely. If there are too many, they are listed for each
    /// call.
    known: Option<KnownTools<TaskSupport>>,
}

impl TaskRegistry {
    /// Passes a notification to the followed tasks.
    pub(in super::super) fn handle_notification(&self, notification: &Notification) {
        match notification.method {
            Method::ToolListChanged => {
                let mut tools = self.tools.lock();
                tools.changes += 1;
                tools.known = None;
            }
            Method::TaskStatus => {
                let Some(params) = &notification.params else { return };
                let Ok(task) = Dialect::Core.read(&Method::TaskStatus, params.raw()) else { return };
                let mut subscribers = self.subscribers.lock();
                let mut early = true;
                for (id, updates) in subscribers.waiting.iter().filter(|(id, _)| *id == task.task_id) {
                    updates.publish(Some(task.clone()), id);
                    early = false;
                }
                if early && params.raw().len() <= MAX_EARLY_UPDATE_BYTES {
                    subscribers.early.truncate(MAX_EARLY_UPDATES - 1);
                    subscribers.early.push_front(task);
                }
            }
            _ => {}
        }
    }

    /// Passes the updates of a task to `updates` until the returned guard is dropped.
    pub(super) fn watch<'a>(&'a self, id: &str, updates: &'a Arc<TaskUpdates>) -> Watch<'a> {
        let mut subscribers = self.subscribers.lock();
        if let Some(place) = subscribers.early.iter().position(|task| task.task_id == id) {
            updates.publish(subscribers.early.remove(place), id);
        }
        subscribers.waiting.push((id.to_owned(), updates.clone()));
        Watch { registry: self, updates }
    }

    /// Returns whether a tool supports tasks, as the server's list says; `None` if that is not known. Lists the tools
    /// if it was not done before or if they have changed since.
    pub(super) async fn support(&self, client: &Client, tool: &str) -> Option<TaskSupport> {
        let changes = {
            let tools = self.tools.lock();
            if let Some(known) = &tools.known {
                return known.get(tool).cloned();
            }
            tools.changes
        };
        let (mut known, mut all) = (KnownTools::default(), true);
        let (mut pages, mut found) = (client.list_tools(), None);
        while let Some(listed) = pages.next().await {
            let listed = match listed {
                Ok(listed) => listed,
                Err(error) => {
                    tracing::debug!(target: "mcpjoin", %error, "which tools can be tasks is not known");
                    return found;
                }
            };
            let Some(support) = listed.execution.and_then(|execution| execution.task_support) else {
                continue;
            };
            if listed.name == tool {
                found = Some(support.clone());
            }
            let bytes = support.as_str().len();
            all &= known.insert(&listed.name, support, bytes);
        }
        let mut tools = self.tools.lock();
        if tools.changes == changes && all {
            tools.known = Some(known);
        }
        found
    }
}

/// Guard of [`TaskRegistry::watch`].
pub(super) struct Watch<'a> {
    registry: &'a TaskRegistry,
    updates: &'a Arc<TaskUpdates>,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.registry.subscribers.lock().waiting.retain(|(_, updates)| !Arc::ptr_eq(updates, self.updates));
    }
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::{Payload, Raw};

    use super::*;

    fn told(id: &str, message: &str) -> Notification {
        let task = format!(
            r#"{{"taskId":"{id}","status":"working","statusMessage":"{message}","createdAt":"2026-07-28T00:00:00Z","lastUpdatedAt":"2026-07-28T00:00:00Z","ttl":null}}"#
        );
        let params = Some(Payload::from_raw(Raw::parse(task).expect("an object")));
        Notification { method: Method::TaskStatus, params }
    }

    fn early(registry: &TaskRegistry) -> Vec<String> {
        registry.subscribers.lock().early.iter().map(|task| task.task_id.clone()).collect()
    }

    #[test]
    fn what_came_too_early_is_kept_only_when_it_is_short() {
        let registry = TaskRegistry::default();
        registry.handle_notification(&told("short", "at work"));
        registry.handle_notification(&told("long", &"x".repeat(1 << 20)));
        assert_eq!(early(&registry), ["short"]);
    }

    #[test]
    fn the_newest_of_what_came_too_early_are_kept() {
        let registry = TaskRegistry::default();
        (0..=MAX_EARLY_UPDATES).for_each(|id| registry.handle_notification(&told(&id.to_string(), "")));
        assert_eq!(
            early(&registry),
            (1..=MAX_EARLY_UPDATES).rev().map(|id| id.to_string()).collect::<Vec<_>>()
        );
    }
}
