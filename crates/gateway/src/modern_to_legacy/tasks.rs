//! Tools that a server of 2025-11-25 runs in no other way than as a task.
//!
//! The modern era has tasks as an extension, which is another thing, so a modern client cannot ask for one of these. It
//! calls the tool, the call is made as a task here, and its result is waited for: for the client it simply takes longer.
//! Which tools these are is in the server's list, which is looked at before the first call where the server declares
//! tasks at all: what a server does that is called otherwise differs too much to be relied on. Called by `rounds`.
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>
//!
//! Progress of a task after its beginning is not handed on: it belongs to no request that is open.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcpjoin_proto::session::{Call, Reply};
use mcpjoin_proto::types::{TaskParams, meta::key};
use mcpjoin_proto::{Kind, Method, Payload, Raw};
use tokio::runtime::Handle;

use mcpjoin::connection::{Calling, Connection};
use mcpjoin::internal::KnownTools;

/// How long the server is asked to keep the task, and how long its end is waited for: an hour, as our client asks.
pub(super) const KEPT: Duration = Duration::from_secs(60 * 60);

/// Pages of the list of tools that are looked at: what our client looks at of a list.
const PAGES: usize = 1_000;

/// The tools of one run of a server that are run as tasks alone.
#[derive(Default)]
pub(super) struct Required {
    known: Mutex<Known>,
    /// Held by whoever looks at the list: once for all who want to know.
    looking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    tools: Option<KnownTools<()>>,
    /// Counts how often the list has changed.
    changes: u64,
    /// Counts how often it was looked at in vain.
    in_vain: u64,
}

/// A task that runs at the server. Dropped before its result is there, it is called off.
pub(super) struct Running {
    connection: Connection,
    id: Option<String>,
}

impl Required {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server's list has changed.
    pub(super) fn forget(&self) {
        let mut known = self.lock();
        known.tools = None;
        known.changes += 1;
    }

    /// Whether this tool is run as a task alone.
    pub(super) async fn has(&self, connection: &Connection, tool: &str) -> bool {
        let peer = connection.peer();
        let server = peer.as_ref().and_then(|peer| peer.server_capabilities());
        let tasks = server.and_then(|server| server.tasks.as_ref());
        if !tasks.is_some_and(|tasks| tasks.covers(&Method::CallTool)) {
            return false;
        }
        if let Some(known) = self.knows(tool) {
            return known;
        }
        let in_vain = self.lock().in_vain;
        let _looking = self.looking.lock().await;
        if let Some(known) = self.knows(tool) {
            return known;
        }
        let changes = {
            let known = self.lock();
            // Whoever has waited for a look that came to nothing does not wait for another one.
            if known.in_vain != in_vain {
                return false;
            }
            known.changes
        };
        // A list that cannot be had says nothing, and is looked at again with the next call.
        let Some(tools) = required(connection).await else {
            self.lock().in_vain += 1;
            return false;
        };
        let has = tools.get(tool).is_some();
        let mut known = self.lock();
        if known.changes == changes {
            known.tools = Some(tools);
        }
        has
    }

    fn knows(&self, tool: &str) -> Option<bool> {
        self.lock().tools.as_ref().map(|tools| tools.get(tool).is_some())
    }
}

/// Looks through the list of tools.
async fn required(connection: &Connection) -> Option<KnownTools<()>> {
    let (mut found, mut cursor) = (KnownTools::default(), None);
    for _ in 0..PAGES {
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

/// The parameters of a call that asks for a task.
pub(super) fn asking(params: Option<Payload>) -> Payload {
    let ttl = format!("{{\"ttl\":{}}}", KEPT.as_millis());
    let ttl = Raw::parse(ttl).unwrap_or_else(|_| Raw::empty_object());
    params.unwrap_or_else(|| Payload::from_raw(Raw::empty_object())).with_member("task", &ttl)
}

/// The task that a call has become, and the call that waits for its result; `None`: it was answered at once.
pub(super) fn begun(connection: &Connection, result: &Payload) -> Option<(Running, Calling)> {
    if result.raw().member("content").is_some() {
        return None;
    }
    let id = result.raw().member("task")?.member("taskId")?.to_string_value()?.into_owned();
    let mut call = asked(Method::GetTaskResult, &id)?;
    call.timeout = Some(Duration::MAX);
    call.total = Some(Duration::MAX);
    let calling = connection.call(call);
    Some((Running { connection: connection.clone(), id: Some(id) }, calling))
}

/// The result of a task as the call would have had it.
pub(super) fn result(result: &Payload) -> Payload {
    result.without_meta_members(|name| name == key::RELATED_TASK)
}

fn asked(method: Method, id: &str) -> Option<Call> {
    Some(Call::new(method).with_params(Raw::from_value(&TaskParams::new(id)).ok()?))
}

impl Running {
    /// Its result is there.
    pub(super) fn end(&mut self) {
        self.id = None;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(call) = self.id.take().and_then(|id| asked(Method::CancelTask, &id)) else { return };
        let (calling, Ok(runtime)) = (self.connection.call(call), Handle::try_current()) else { return };
        // Whether it was in time, nobody waits to hear.
        runtime.spawn(async move { drop(calling.await) });
    }
}
