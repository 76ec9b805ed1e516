//! Tools that a server of 2025-11-25 runs only as a task.
//!
//! The tasks of the modern era are an extension with other messages, so a modern client cannot create such a task. Here
//! its call creates the task and then waits for the result: to the client the call just takes longer. The server's list
//! says which tools these are. If the server declares tasks, the list is read before the first call, because servers
//! react differently to a call without a task. Used by `rounds`.
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>
//!
//! Progress of a task is not forwarded after the task was created: it belongs to no open request.

use std::time::Duration;

use mcpjoin_proto::session::{Call, Reply};
use mcpjoin_proto::types::{TaskParams, meta::key};
use mcpjoin_proto::{Kind, Method, Payload, Raw};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use mcpjoin::connection::{Calling, Connection};
use mcpjoin::internal::KnownTools;

/// How long the server is asked to keep the task, and how long its result is waited for: an hour, as in this library's
/// client.
pub(super) const TASK_TTL: Duration = Duration::from_secs(60 * 60);

/// Pages of the list of tools that are read, as in this library's client.
const MAX_PAGES: usize = 1_000;

/// The tools that one run of a server runs only as tasks.
#[derive(Default)]
pub(super) struct TaskTools {
    known: Mutex<Known>,
    /// Held while the list is read, so that calls at the same time read it once.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    tools: Option<KnownTools<()>>,
    /// How often the list has changed.
    changes: u64,
    /// How often reading the list failed.
    failures: u64,
}

/// A task that runs at the server. Dropping it cancels the task, unless [`RunningTask::finished`] was called.
pub(super) struct RunningTask {
    connection: Connection,
    id: Option<String>,
}

impl TaskTools {
    /// The server's list has changed.
    pub(super) fn forget(&self) {
        let mut known = self.known.lock();
        known.tools = None;
        known.changes += 1;
    }

    /// Whether this tool runs only as a task. Reads the list of tools `within` this time if it is not known. `false` if
    /// it cannot be read.
    pub(super) async fn contains(&self, connection: &Connection, tool: &str, within: Duration) -> bool {
        let peer = connection.peer();
        let server = peer.as_ref().and_then(|peer| peer.server_capabilities());
        let tasks = server.and_then(|server| server.tasks.as_ref());
        if !tasks.is_some_and(|tasks| tasks.covers(&Method::CallTool)) {
            return false;
        }
        if let Some(known) = self.known(tool) {
            return known;
        }
        let (failures, began) = (self.known.lock().failures, Instant::now());
        let Ok(_reading) = timeout(within, self.reading.lock()).await else { return false };
        if let Some(known) = self.known(tool) {
            return known;
        }
        let changes = {
            let known = self.known.lock();
            // The read that this call waited for failed, and it does not wait for another one.
            if known.failures != failures {
                return false;
            }
            known.changes
        };
        // After a failure the next call reads the list again.
        let reading = timeout(within.saturating_sub(began.elapsed()), read_tools(connection));
        let Ok(Some(tools)) = reading.await else {
            self.known.lock().failures += 1;
            return false;
        };
        let contains = tools.get(tool).is_some();
        let mut known = self.known.lock();
        if known.changes == changes {
            known.tools = Some(tools);
        }
        contains
    }

    fn known(&self, tool: &str) -> Option<bool> {
        self.known.lock().tools.as_ref().map(|tools| tools.get(tool).is_some())
    }
}

/// Reads the list of tools, and gives those that run only as tasks.
async fn read_tools(connection: &Connection) -> Option<KnownTools<()>> {
    let (mut found, mut cursor) = (KnownTools::default(), None);
    for _ in 0..MAX_PAGES {
        let mut params = Payload::from_raw(Raw::empty_object());
        if let Some(cursor) = &cursor {
            params = params.with_member("cursor", cursor);
        }
        let call = Call::new(Method::ListTools).with_params(params.into_raw());
        let Ok(Reply::Verbatim(page)) = connection.call(call).await else { return None };
        let tools: Vec<Raw> = page.raw().member("tools")?.decode().ok()?;
        for tool in tools {
            let support = tool.member("execution").and_then(|execution| execution.member("taskSupport"));
            let is_required =
                support.is_some_and(|support| support.to_string_value().as_deref() == Some("required"));
            let name = tool.member("name").filter(|_| is_required);
            if let Some(name) = name.as_ref().and_then(Raw::to_string_value) {
                found.insert(&name, (), 0);
            }
        }
        cursor = page.raw().member("nextCursor").filter(|cursor| cursor.kind() == Kind::String);
        if cursor.is_none() {
            break;
        }
    }
    Some(found)
}

/// The parameters of a call that creates a task.
pub(super) fn with_task(params: Option<Payload>) -> Payload {
    let ttl = format!("{{\"ttl\":{}}}", TASK_TTL.as_millis());
    let ttl = Raw::parse(ttl).unwrap_or_else(|_| Raw::empty_object());
    params.unwrap_or_else(|| Payload::from_raw(Raw::empty_object())).with_member("task", &ttl)
}

/// The task that a call has created, and the call that waits for its result. `None`: the result is that of the tool.
pub(super) fn created(connection: &Connection, result: &Payload) -> Option<(RunningTask, Calling)> {
    if result.raw().member("content").is_some() {
        return None;
    }
    let id = result.raw().member("task")?.member("taskId")?.to_string_value()?.into_owned();
    let mut call = task_call(Method::GetTaskResult, &id)?;
    call.timeout = Some(Duration::MAX);
    call.total = Some(Duration::MAX);
    let calling = connection.call(call);
    Some((RunningTask { connection: connection.clone(), id: Some(id) }, calling))
}

/// The result of a task as a result of the tool.
pub(super) fn result(result: &Payload) -> Payload {
    result.without_meta_members(|name| name == key::RELATED_TASK)
}

fn task_call(method: Method, id: &str) -> Option<Call> {
    Some(Call::new(method).with_params(Raw::from_value(&TaskParams::new(id)).ok()?))
}

impl RunningTask {
    /// The result of the task was received.
    pub(super) fn finished(&mut self) {
        self.id = None;
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        let Some(call) = self.id.take().and_then(|id| task_call(Method::CancelTask, &id)) else { return };
        let (calling, Ok(runtime)) = (self.connection.call(call), Handle::try_current()) else { return };
        // The outcome of the cancellation is not needed.
        runtime.spawn(async move { drop(calling.await) });
    }
}
