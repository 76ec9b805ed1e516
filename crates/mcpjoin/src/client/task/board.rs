//! What a client knows of tasks beside those that it follows: who waits for news of which, and which tools can be one.
//!
//! Told by `input`, which hears every notification, and asked by `task`'s other parts. Bounded by what the client itself
//! follows and by what [`KnownTools`] remembers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcpjoin_proto::types::{ExtensionTask, TaskSupport};
use mcpjoin_proto::{Method, Notification};
use tokio::sync::Notify;

use super::super::Client;
use super::dialect::Dialect;
use crate::known_tools::KnownTools;

/// So many of the latest news are kept that nobody waited for yet: a server may tell of a task in the same breath in which it
/// begins it.
const EARLY: usize = 16;

/// None of them is longer than this, in bytes of its JSON: a longer one is seen at the next look. Ours have some hundred.
const EARLY_BYTES: usize = 16 * 1024;

/// The news of one task: the newest, and whether to look at once.
#[derive(Default)]
pub(super) struct News {
    latest: Mutex<Option<ExtensionTask>>,
    told: Notify,
    hurry: Notify,
}

impl News {
    /// What was told of the task, when that can be read.
    pub(super) fn tell(&self, task: Option<ExtensionTask>, id: &str) {
        match task {
            Some(task) if task.task_id == id => {
                *lock(&self.latest) = Some(task);
                self.told.notify_one();
            }
            Some(_) => {}
            None => self.hurry(),
        }
    }

    /// The next look at the task is due now.
    pub(super) fn hurry(&self) {
        self.hurry.notify_one();
    }

    /// Waits until a look is due before its time. Cancel-safe.
    pub(super) async fn hurried(&self) {
        self.hurry.notified().await;
    }

    /// The newest. Cancel-safe.
    pub(super) async fn next(&self) -> ExtensionTask {
        loop {
            if let Some(task) = lock(&self.latest).take() {
                return task;
            }
            self.told.notified().await;
        }
    }
}

/// See the module.
#[derive(Default)]
pub(in super::super) struct Board {
    heard: Mutex<Heard>,
    tools: Mutex<Tools>,
}

#[derive(Default)]
struct Heard {
    waiting: Vec<(String, Arc<News>)>,
    early: VecDeque<ExtensionTask>,
}

#[derive(Default)]
struct Tools {
    /// Counts the changes that were told.
    changes: u64,
    /// Those that can be a task, when all are known. Where there are too many, they are listed again with each call.
    known: Option<KnownTools<TaskSupport>>,
}

impl Board {
    /// Puts a notification where it is waited for.
    pub(in super::super) fn notice(&self, notification: &Notification) {
        match notification.method {
            Method::ToolListChanged => {
                let mut tools = lock(&self.tools);
                tools.changes += 1;
                tools.known = None;
            }
            Method::TaskStatus => {
                let Some(params) = &notification.params else { return };
                let Ok(task) = Dialect::Core.read(&Method::TaskStatus, params.raw()) else { return };
                let mut heard = lock(&self.heard);
                let mut early = true;
                for (id, news) in heard.waiting.iter().filter(|(id, _)| *id == task.task_id) {
                    news.tell(Some(task.clone()), id);
                    early = false;
                }
                if early && params.raw().len() <= EARLY_BYTES {
                    heard.early.truncate(EARLY - 1);
                    heard.early.push_front(task);
                }
            }
            _ => {}
        }
    }

    /// Has the news of a task told there until what is given back is dropped.
    pub(super) fn hear<'a>(&'a self, id: &str, news: &'a Arc<News>) -> Hearing<'a> {
        let mut heard = lock(&self.heard);
        if let Some(place) = heard.early.iter().position(|task| task.task_id == id) {
            news.tell(heard.early.remove(place), id);
        }
        heard.waiting.push((id.to_owned(), news.clone()));
        Hearing { board: self, news }
    }

    /// Whether a tool can be a task, as the server's list says; `None` when that is not known. Lists the tools where that
    /// was not done before or has changed since.
    pub(super) async fn support(&self, client: &Client, tool: &str) -> Option<TaskSupport> {
        let changes = {
            let tools = lock(&self.tools);
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
        let mut tools = lock(&self.tools);
        if tools.changes == changes && all {
            tools.known = Some(known);
        }
        found
    }
}

/// See [`Board::hear`].
pub(super) struct Hearing<'a> {
    board: &'a Board,
    news: &'a Arc<News>,
}

impl Drop for Hearing<'_> {
    fn drop(&mut self) {
        lock(&self.board.heard).waiting.retain(|(_, news)| !Arc::ptr_eq(news, self.news));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn early(board: &Board) -> Vec<String> {
        lock(&board.heard).early.iter().map(|task| task.task_id.clone()).collect()
    }

    #[test]
    fn what_came_too_early_is_kept_only_when_it_is_short() {
        let board = Board::default();
        board.notice(&told("short", "at work"));
        board.notice(&told("long", &"x".repeat(1 << 20)));
        assert_eq!(early(&board), ["short"]);
    }

    #[test]
    fn the_newest_of_what_came_too_early_are_kept() {
        let board = Board::default();
        (0..=EARLY).for_each(|id| board.notice(&told(&id.to_string(), "")));
        assert_eq!(early(&board), (1..=EARLY).rev().map(|id| id.to_string()).collect::<Vec<_>>());
    }
}
