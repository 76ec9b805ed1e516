//! What a handler knows about the request it answers, and what it may do meanwhile.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};

use mcpjoin_proto::session::{Asker, Origin};
use mcpjoin_proto::types::{ClientCapabilities, InputResponses, LoggingLevel};
use mcpjoin_proto::{Method, Payload, Profile, Raw, Request};
use serde::Serialize;

use super::input::InputState;
use super::task::{self, Task};
use super::{HandlerError, ServerHandle, Shared, ToolOutput, ToolReply, capability, tools};
use crate::connection;

/// What a handler knows about the request it answers, and what it may do meanwhile. Cheap to clone.
#[derive(Clone)]
pub struct Context(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) connection: connection::Context,
    /// The number of the connection, where it is one client's.
    pub(super) session: Option<u64>,
    pub(super) server: Arc<Shared>,
    pub(super) profile: &'static Profile,
    pub(super) method: Method,
    pub(super) params: Option<Payload>,
    /// The questions of this request in the modern era, from the first one on.
    pub(super) rounds: Mutex<Option<InputState>>,
    pub(super) task: Option<Arc<Task>>,
    /// What the round before has brought, where the rounds are emulated_rounds here.
    pub(super) answered: Option<Answered>,
}

/// What a client that makes its request again would have brought with it.
pub(super) struct Answered {
    pub(super) responses: InputResponses,
    pub(super) state: Option<String>,
}

impl Context {
    pub(super) fn new(
        server: Arc<Shared>,
        connection: connection::Context,
        profile: &'static Profile,
        request: Request,
        session: Option<u64>,
    ) -> Self {
        Self(Arc::new(Inner {
            connection,
            session,
            server,
            profile,
            method: request.method,
            params: request.params,
            rounds: Mutex::default(),
            task: None,
            answered: None,
        }))
    }

    /// The same for work that goes on as a task.
    pub(super) fn in_task(&self, task: Arc<Task>) -> Self {
        self.again(Some(task), None)
    }

    /// The same for the next round, when the rounds are emulated_rounds here.
    pub(super) fn answered(&self, responses: InputResponses, state: Option<String>) -> Self {
        self.again(self.0.task.clone(), Some(Answered { responses, state }))
    }

    fn again(&self, task: Option<Arc<Task>>, answered: Option<Answered>) -> Self {
        Self(Arc::new(Inner {
            connection: self.0.connection.clone(),
            session: self.0.session,
            server: self.0.server.clone(),
            profile: self.0.profile,
            method: self.0.method.clone(),
            params: self.0.params.clone(),
            rounds: Mutex::default(),
            task,
            answered,
        }))
    }

    /// The facts of the protocol revision that the request is made in.
    #[must_use]
    pub fn profile(&self) -> &'static Profile {
        self.0.profile
    }

    /// The client that asks, as it describes itself. Nothing of it is proved.
    #[must_use]
    pub fn asker(&self) -> Option<&Arc<Asker>> {
        self.0.connection.asker()
    }

    /// Over which link the request came.
    #[must_use]
    pub fn origin(&self) -> Option<&Arc<Origin>> {
        self.0.connection.origin()
    }

    /// In scope name it came, where that is proved ([`Origin::principal`]).
    #[must_use]
    pub fn principal(&self) -> Option<&str> {
        self.origin()?.principal.as_deref()
    }

    /// Whether the credentials of the request have that scope, or one that implies it ([`Origin::scopes`]). `false` where
    /// nobody has asked for credentials.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        let scopes = self.origin().and_then(|origin| origin.scopes.as_deref());
        scopes.is_some_and(|scopes| scopes.iter().any(|one| **one == *scope))
    }

    /// The parameters of the request as they came.
    #[must_use]
    pub fn params(&self) -> Option<&Payload> {
        self.0.params.as_ref()
    }

    /// Makes sure that the client has declared what the handler goes on to rely on.
    ///
    /// # Errors
    /// When it has not; pass it on with `?`. In the modern era that is the error -32021, scope data say what is
    /// required; the legacy era has no code for it, and the handler fails with a sentence about it.
    pub fn require(&self, needed: &ClientCapabilities) -> Result<(), HandlerError> {
        let nothing = ClientCapabilities::default();
        let declared = self.asker().map_or(&nothing, |asker| &asker.capabilities);
        let Some(path) = capability::missing(needed, declared) else { return Ok(()) };
        let message = format!("the client does not declare the capability `{path}`");
        Err(if self.0.profile.server_requests {
            HandlerError::new(message)
        } else {
            HandlerError::protocol(capability::error(needed, &message))
        })
    }

    /// To change what the server offers, and to tell of it.
    #[must_use]
    pub fn server(&self) -> ServerHandle {
        ServerHandle::new(self.0.server.clone())
    }

    /// Tells the client how far the request is. Does nothing when it did not ask; what it has not read yet is
    /// replaced by what is newer. `progress` must grow, in whatever unit `total` has too. The extension for tasks has no
    /// progress: a task of it tells nobody.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        if let Some(task) = &self.0.task {
            task.progress(self, progress, total, message);
            return;
        }
        if let Err(refused) = self.0.connection.progress(progress, total, message) {
            tracing::debug!(target: "mcpjoin", %refused, "progress was not sent");
        }
    }

    /// Sends a log message that belongs to the request. Does nothing when the client does not want messages of that
    /// level, when the server does not declare logging ([`ServerBuilder::logging`](super::ServerBuilder::logging)), or in
    /// a task of the extension, which has none.
    pub fn log(&self, level: LoggingLevel, data: impl Serialize) {
        self.log_as(None, level, data);
    }

    /// The same in the name of a part of the server.
    pub fn log_as(&self, logger: Option<&str>, level: LoggingLevel, data: impl Serialize) {
        let problem = match Raw::from_value(&data) {
            Ok(data) => match &self.0.task {
                Some(task) => task.log(self, level, logger, data),
                None => self.0.connection.log(level, logger, data),
            }
            .err()
            .map(|refused| refused.to_string()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(problem) = problem {
            tracing::debug!(target: "mcpjoin", problem, "a log message was not sent");
        }
    }

    /// Lets the client hang up and come back for the answer: the event stream of its request is closed, the work goes
    /// on, and what belongs to the request from here on, its result above all, is kept until the client asks for it
    /// with `Last-Event-ID`. That is after the time that `HttpOptions::retry` tells it (1 s). For work that takes
    /// long, so that no connection is held open all the while; it may be called again whenever the client is back.
    ///
    /// Does nothing where the client would not come back, or something would be lost: over other links than
    /// Streamable HTTP, in other revisions than 2025-11-25, at a server that keeps no sessions or no events or answers
    /// with plain JSON alone, in a task, and when the client has left already.
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server>
    pub fn close_sse_stream(&self) {
        if self.0.task.is_some() {
            return;
        }
        if let Err(refused) = self.0.connection.close_sse_stream() {
            tracing::debug!(target: "mcpjoin", %refused, "no stream was closed");
        }
    }

    /// A place aside for a result of so many bytes; `None` for one that is written where it is.
    pub(super) fn offload_permit(&self, bytes: usize) -> Option<connection::OffloadPermit> {
        self.0.connection.offload_permit(bytes)
    }

    /// Whether nobody waits for the answer any more. A handler's own future is dropped then; this is for work
    /// that it has given to somebody else.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        match &self.0.task {
            Some(task) => task.is_over(),
            None => self.0.connection.is_cancelled(),
        }
    }

    /// Waits until nobody waits for the answer any more.
    pub async fn cancelled(&self) {
        match &self.0.task {
            Some(task) => task.ended().await,
            None => self.0.connection.cancelled().await,
        }
    }

    /// Goes on as a task: the client is given the task in place of the result, which it fetches later. A client that
    /// does not speak the extension `io.modelcontextprotocol/tasks`, and a server that does not declare it
    /// ([`ServerBuilder::tasks`](super::ServerBuilder::tasks)), wait for the result instead. At 2025-11-25 the whole
    /// call is a task when its client has asked for one, and this goes on within it.
    ///
    /// What the handler asks its client before this is asked as in any call; the work asks through its own context.
    ///
    /// # Errors
    /// When there are too many tasks, or when the work has been waited for and has failed.
    pub async fn start_task<F, Fut>(&self, work: F) -> Result<ToolReply, HandlerError>
    where
        F: FnOnce(Self) -> Fut,
        Fut: Future<Output: ToolOutput> + Send + 'static,
    {
        let server = &self.0.server;
        let is_given_tasks = self.0.task.is_none() && server.may_return_task(self.0.profile, self.asker());
        if !is_given_tasks {
            return work(self.clone()).await.into_tool_reply();
        }
        task::start_from_handler(server, self, |cx| {
            let work = work(cx);
            async move { tools::written(work.await.into_tool_reply()) }
        })
        .map(ToolReply::Reply)
        .map_err(HandlerError::protocol)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.connection.fmt(f)
    }
}
