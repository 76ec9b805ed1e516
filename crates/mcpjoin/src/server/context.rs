//! What a handler of a server knows about its request, and what it can do meanwhile.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;

use crate::sync::Mutex;
use mcpjoin_proto::types::{ClientCapabilities, InputResponses, LoggingLevel};
use mcpjoin_proto::{Method, Payload, Profile, Raw, Request};
use serde::Serialize;

use super::input::InputState;
use super::task::{self, Task};
use super::{HandlerError, ServerHandle, Shared, ToolOutput, ToolReply, capability, tools};
use crate::connection;

/// The request that a handler of a server works on, and what it can do meanwhile: report progress, log, ask the client for
/// input, continue as a task, change what the server offers.
///
/// Cheap to clone. It dereferences to [`connection::Context`], the context of every [`Handler`](crate::Handler), and has
/// all its methods. Those that it replaces ([`progress`](Self::progress), [`log`](Self::log) and their siblings) also work
/// in a task, and report failures to the log instead of the handler.
///
/// ```
/// use mcpjoin::proto::types::LoggingLevel;
/// use mcpjoin::server::{Context, NoArguments, Server, tool};
///
/// async fn count(_: NoArguments, cx: Context) -> &'static str {
///     for step in 1..=3 {
///         cx.progress(f64::from(step), Some(3.0), Some("counting"));
///         cx.log(LoggingLevel::Info, step);
///     }
///     "counted"
/// }
///
/// let server = Server::builder("counter", "1.0.0").logging().tool(tool("count"), count).build()?;
/// # Ok::<(), mcpjoin::server::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Context(pub(super) Arc<Inner>);

pub(super) struct Inner {
    connection: connection::Context,
    /// The number of the connection, if everything on it comes from one client.
    pub(super) session: Option<u64>,
    pub(super) server: Arc<Shared>,
    pub(super) profile: &'static Profile,
    pub(super) method: Method,
    pub(super) params: Option<Payload>,
    /// The input of this request in the modern era, from the first request for input on.
    pub(super) input: Mutex<Option<InputState>>,
    pub(super) task: Option<Arc<Task>>,
    /// The input of the previous round, if rounds are emulated.
    pub(super) emulated: Option<EmulatedInput>,
}

/// What a client that repeats its request would have sent with it.
pub(super) struct EmulatedInput {
    pub(super) responses: InputResponses,
    pub(super) state: Option<String>,
}

impl Deref for Context {
    type Target = connection::Context;

    fn deref(&self) -> &connection::Context {
        &self.0.connection
    }
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
            input: Mutex::default(),
            task: None,
            emulated: None,
        }))
    }

    /// Returns a context for the same request that continues as a task.
    pub(super) fn in_task(&self, task: Arc<Task>) -> Self {
        self.with(Some(task), None)
    }

    /// Returns a context for the next emulated round of the same request.
    pub(super) fn in_round(&self, responses: InputResponses, state: Option<String>) -> Self {
        self.with(self.0.task.clone(), Some(EmulatedInput { responses, state }))
    }

    fn with(&self, task: Option<Arc<Task>>, emulated: Option<EmulatedInput>) -> Self {
        let inner = &*self.0;
        Self(Arc::new(Inner {
            connection: inner.connection.clone(),
            session: inner.session,
            server: inner.server.clone(),
            profile: inner.profile,
            method: inner.method.clone(),
            params: inner.params.clone(),
            input: Mutex::default(),
            task,
            emulated,
        }))
    }

    /// Returns the facts of the protocol revision that the request uses.
    #[must_use]
    pub fn profile(&self) -> &'static Profile {
        self.0.profile
    }

    /// Returns the verified identity of the request's sender, where there is one
    /// ([`Origin::principal`](mcpjoin_proto::session::Origin::principal)).
    #[must_use]
    pub fn principal(&self) -> Option<&str> {
        self.origin()?.principal.as_deref()
    }

    /// Returns whether the credentials of the request have this scope, or one that implies it
    /// ([`Origin::scopes`](mcpjoin_proto::session::Origin::scopes)). `false` if no credentials were required.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        let scopes = self.origin().and_then(|origin| origin.scopes.as_deref());
        scopes.is_some_and(|scopes| scopes.iter().any(|one| **one == *scope))
    }

    /// Returns the parameters of the request, unchanged.
    #[must_use]
    pub fn params(&self) -> Option<&Payload> {
        self.0.params.as_ref()
    }

    /// Checks that the client has declared the capabilities that the handler needs.
    ///
    /// # Errors
    /// [`HandlerError`] if it has not. Pass it on with `?`. In the modern era this is the error -32021 with the required
    /// capabilities in its data; the legacy era has no such code, and the handler fails with a message.
    pub fn require(&self, needed: &ClientCapabilities) -> Result<(), HandlerError> {
        let nothing = ClientCapabilities::default();
        let declared = self.client().map_or(&nothing, |client| &client.capabilities);
        let Some(path) = capability::missing(needed, declared) else { return Ok(()) };
        let message = format!("the client does not declare the capability `{path}`");
        Err(if self.0.profile.server_requests {
            HandlerError::new(message)
        } else {
            HandlerError::protocol(capability::error(needed, &message))
        })
    }

    /// Returns a handle that changes what the server offers, and notifies clients.
    #[must_use]
    pub fn server(&self) -> ServerHandle {
        ServerHandle::new(self.0.server.clone())
    }

    /// Reports the progress of the request to the client.
    ///
    /// Nothing is sent if the client did not ask for progress. A report that has not been sent yet is replaced by a newer
    /// one. `progress` must increase; it has the same unit as `total`. The tasks extension has no progress, so a task of it
    /// sends none.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        if let Some(task) = &self.0.task {
            task.progress(self, progress, total, message);
            return;
        }
        if let Err(refused) = self.0.connection.progress(progress, total, message) {
            tracing::debug!(target: "mcpjoin", %refused, "progress was not sent");
        }
    }

    /// Sends a log message that belongs to the request.
    ///
    /// Nothing is sent if the client does not want messages of this level, if the server does not declare logging
    /// ([`ServerBuilder::logging`](super::ServerBuilder::logging)), or in a task of the extension, which has no log messages.
    pub fn log(&self, level: LoggingLevel, data: impl Serialize) {
        self.log_as(None, level, data);
    }

    /// As [`log`](Self::log), with the name of a logger.
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

    /// Closes the event stream of the request, so that no HTTP connection stays open during long work.
    ///
    /// The work continues. What belongs to the request from here on, above all its result, is stored until the client
    /// resumes the stream with `Last-Event-ID`, after the time that `HttpOptions::retry` states (1 s). May be called again
    /// whenever the client is back.
    ///
    /// Does nothing if the client could not resume or if something would be lost: on transports other than Streamable HTTP,
    /// in revisions other than 2025-11-25, without sessions or an event store, with responses in plain JSON, in a task, and
    /// if the client has disconnected already.
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server>
    pub fn close_sse_stream(&self) {
        if self.0.task.is_some() {
            return;
        }
        if let Err(refused) = self.0.connection.close_sse_stream() {
            tracing::debug!(target: "mcpjoin", %refused, "no stream was closed");
        }
    }

    /// Returns whether the response is not needed any more: the request or task was cancelled, or has ended.
    ///
    /// A handler's own future is dropped when its request is cancelled. This is for work that runs elsewhere.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        match &self.0.task {
            Some(task) => task.is_over(),
            None => self.0.connection.is_cancelled(),
        }
    }

    /// Waits until the response is not needed any more, as [`is_cancelled`](Self::is_cancelled) says. Cancel-safe.
    pub async fn cancelled(&self) {
        match &self.0.task {
            Some(task) => task.ended().await,
            None => self.0.connection.cancelled().await,
        }
    }

    /// Continues as a task: the client receives the task in place of the result, and fetches the result later.
    ///
    /// If the client does not declare the extension `io.modelcontextprotocol/tasks`, or if the server does not declare it
    /// ([`ServerBuilder::tasks`](super::ServerBuilder::tasks)), the client waits for the result instead. At 2025-11-25 a
    /// client asks for a task with its call; then the whole call is a task, and `work` runs within it.
    ///
    /// Use this context to ask the client for input before the task starts, and the context that `work` is given afterwards.
    ///
    /// ```
    /// use mcpjoin::server::{Context, HandlerError, NoArguments, Server, ToolReply, tool};
    ///
    /// async fn build(_: NoArguments, cx: Context) -> Result<ToolReply, HandlerError> {
    ///     cx.start_task(|cx| async move {
    ///         cx.progress(1.0, Some(1.0), Some("built"));
    ///         "built"
    ///     })
    ///     .await
    /// }
    ///
    /// let server = Server::builder("builder", "1.0.0").tasks().tool(tool("build"), build).build()?;
    /// # Ok::<(), mcpjoin::server::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// [`HandlerError`] if there are too many tasks, if the task store does not take it, or if the client has waited for the work
    /// and the work has failed.
    pub async fn start_task<F, Fut>(&self, work: F) -> Result<ToolReply, HandlerError>
    where
        F: FnOnce(Self) -> Fut,
        Fut: Future<Output: ToolOutput> + Send + 'static,
    {
        let server = &self.0.server;
        let is_given_tasks = self.0.task.is_none() && server.may_return_task(self.0.profile, self.client());
        if !is_given_tasks {
            return work(self.clone()).await.into_tool_reply();
        }
        task::start_from_handler(server, self, |cx| {
            let work = work(cx);
            async move { tools::written(work.await.into_tool_reply()) }
        })
        .await
        .map(ToolReply::Reply)
        .map_err(HandlerError::protocol)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.connection.fmt(f)
    }
}
