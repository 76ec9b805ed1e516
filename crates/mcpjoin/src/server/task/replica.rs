//! Tasks that another replica of the server keeps.
//!
//! The id of a task contains the name of the replica that keeps it, under the MAC of the server's key, so a client cannot
//! choose the name. [`extension`](super::extension) passes a request about such a task to the function of
//! [`ServerBuilder::replica`](crate::server::ServerBuilder::replica), before it looks for a task of its own. This never
//! connects to another replica itself, and never forwards a request that names this replica.
//! <https://modelcontextprotocol.io/seps/2663-tasks-extension>

use std::pin::Pin;

use mcpjoin_proto::{ErrorObject, Raw, Request};

use super::super::{BuildError, Context, Shared};

/// Maximum bytes of the name of a replica: that of a host name's label and one more. An id then has at most 192 characters.
const MAX_NAME_BYTES: usize = 64;

type Forwarded = Pin<Box<dyn Future<Output = Result<Raw, ErrorObject>> + Send>>;
type Forward = dyn Fn(String, Request, Context) -> Forwarded + Send + Sync;

/// The name of this replica, and how it passes a request to another one.
pub(in super::super) struct Replica {
    pub(super) name: Box<str>,
    forward: Box<Forward>,
}

impl Replica {
    pub(in super::super) fn new<F, Fut>(name: String, forward: F) -> Self
    where
        F: Fn(String, Request, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Raw, ErrorObject>> + Send + 'static,
    {
        let forward = move |owner, request, cx| -> Forwarded { Box::pin(forward(owner, request, cx)) };
        Self { name: name.into(), forward: Box::new(forward) }
    }

    /// Checks the name, and that other replicas can check its ids.
    pub(in super::super) fn check(&self, has_key: bool) -> Result<(), BuildError> {
        let problem = match self.name.len() {
            0 => "its name is empty",
            1..=MAX_NAME_BYTES if has_key => return Ok(()),
            1..=MAX_NAME_BYTES => "replicas need a common key: `state_key`",
            _ => "its name has more than 64 bytes",
        };
        Err(BuildError::Replica { name: self.name.to_string(), problem })
    }
}

/// Returns the other replica that keeps the task with this id, as one of our keys says, and how to reach it.
pub(super) fn owner<'a>(server: &'a Shared, id: &str) -> Option<(&'a Replica, String)> {
    // What a store keeps is asked there.
    let replica = server.replica.as_ref().filter(|_| server.shared_tasks.is_none())?;
    let owner = server.keys.task_owner(id)?;
    (!owner.is_empty() && *owner != *replica.name).then_some((replica, owner))
}

/// Passes a request to the replica that keeps its task; `None` if that is this one, or if the id is not one of ours.
pub(super) fn forward(server: &Shared, cx: &Context) -> Option<Forwarded> {
    let id = cx.params()?.raw().member("taskId")?;
    let (replica, owner) = owner(server, &id.to_string_value()?)?;
    let request =
        Request { id: cx.request_id()?.clone(), method: cx.0.method.clone(), params: cx.params().cloned() };
    Some((replica.forward)(owner, request, cx.clone()))
}
