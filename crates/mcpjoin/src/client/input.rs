//! Handles the requests of servers for input: a message from a model, input from the user, the roots.
//!
//! The handlers are registered once, in the [`ClientBuilder`](super::ClientBuilder), and used in both eras. A legacy
//! server sends requests of its own, which arrive at [`ClientHandler`]. A modern server asks for input in place of a
//! result, which `round_trip` handles. <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

use crate::sync::Mutex;
use futures_util::FutureExt as _;
use futures_util::future::try_join_all;
use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult,
    ElicitationCapability, InputRequest, InputRequests, InputResponse, InputResponses, ListRootsResult,
    Members, Meta, ProtocolType, Root, RootsCapability, SamplingCapability, meta::key, task,
};
use mcpjoin_proto::{ErrorObject, Method, Notification, Payload, Raw, Request};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::ClientError;
use super::task::TaskRegistry;
use crate::connection::{Context, panicked};
use crate::handler::Handler;

/// Maximum number of requests for input in one round: as many as a legacy server may have at once
/// ([`Limits::handling`](mcpjoin_proto::session::Limits)). An answer may be a thousand times as long as its request.
const MAX_QUESTIONS: usize = 1024;

type Answer<T> = Pin<Box<dyn Future<Output = Result<T, ErrorObject>> + Send>>;
pub(super) type InputHandler<P, R> = Box<dyn Fn(P) -> Answer<R> + Send + Sync>;

/// Wraps a handler so that each call runs in a task of its own. In the legacy era it is called in the task that drives
/// the connection, in the modern era in that of the caller; it must neither block nor unwind them.
pub(super) fn input_handler<P, R, F, A>(method: Method, answer: F) -> InputHandler<P, R>
where
    P: Send + 'static,
    R: Send + 'static,
    F: Fn(P) -> A + Send + Sync + 'static,
    A: Future<Output = Result<R, ErrorObject>> + Send + 'static,
{
    let answer = Arc::new(answer);
    Box::new(move |params| {
        let (answer, method) = (answer.clone(), method.clone());
        Box::pin(run_contained(method, async move { answer(params).await }))
    })
}

/// Runs a future in a task of its own, if there is a runtime. A panic becomes an internal error. Dropping this future
/// drops the inner one.
async fn run_contained<R: Send + 'static>(
    method: Method,
    answer: impl Future<Output = Result<R, ErrorObject>> + Send + 'static,
) -> Result<R, ErrorObject> {
    let outcome = if Handle::try_current().is_ok() {
        let mut tasks = JoinSet::new();
        tasks.spawn(answer.in_current_span());
        match tasks.join_next().await {
            Some(Ok(answer)) => return answer,
            Some(Err(error)) if error.is_panic() => Err(error.into_panic()),
            _ => return Err(ErrorObject::internal("the client's runtime is shutting down")),
        }
    } else {
        AssertUnwindSafe(answer).catch_unwind().await
    };
    outcome.unwrap_or_else(|panic| Err(panicked(&method, &*panic)))
}

/// Calls a function of the user. A panic is logged.
pub(super) fn contain_panic(what: &impl fmt::Display, call: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(call)) {
        drop(panicked(what, &*panic));
    }
}

/// Receives the notifications of a server.
pub(super) type OnNotification = Arc<dyn Fn(Notification) + Send + Sync>;

/// The registered handlers. What is not here is not declared.
#[derive(Default)]
pub(super) struct InputHandlers {
    roots: Option<Mutex<Vec<Root>>>,
    pub(super) sampling: Option<InputHandler<CreateMessageParams, CreateMessageResult>>,
    pub(super) elicitation: Option<InputHandler<ElicitParams, ElicitResult>>,
    pub(super) sampling_tools: bool,
    pub(super) sampling_context: bool,
    pub(super) elicitation_url: bool,
    /// Accepts tasks: declared as an extension. At 2025-11-25 a client only declares tasks of its own.
    pub(super) takes_tasks: bool,
    /// Further declared extensions, by name, with their settings.
    pub(super) extensions: Members<Raw>,
}

/// Why a request for input has no response.
enum Unanswered {
    /// This client has not declared it.
    Undeclared,
    Failed(ErrorObject),
}

impl From<ErrorObject> for Unanswered {
    fn from(error: ErrorObject) -> Self {
        Self::Failed(error)
    }
}

impl InputHandlers {
    pub(super) fn declare_roots(&mut self, roots: Vec<Root>) {
        self.roots = Some(Mutex::new(roots));
    }

    /// Replaces the roots. Returns whether roots were declared at all.
    pub(super) fn replace_roots(&self, roots: Vec<Root>) -> bool {
        let Some(known) = &self.roots else { return false };
        *known.lock() = roots;
        true
    }

    /// Returns the capabilities of exactly what was registered.
    pub(super) fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::default();
        if self.roots.is_some() {
            capabilities = capabilities.with_roots(RootsCapability::default().with_list_changed(true));
        }
        if self.sampling.is_some() {
            let mut sampling = SamplingCapability::default();
            sampling.tools = self.sampling_tools.then(Raw::empty_object);
            sampling.context = self.sampling_context.then(Raw::empty_object);
            capabilities = capabilities.with_sampling(sampling);
        }
        if self.elicitation.is_some() {
            let mut elicitation = ElicitationCapability::default().with_form(Raw::empty_object());
            elicitation.url = self.elicitation_url.then(Raw::empty_object);
            capabilities = capabilities.with_elicitation(elicitation);
        }
        let mut extensions = self.extensions.clone();
        if self.takes_tasks {
            extensions.insert(task::EXTENSION.to_owned(), Raw::empty_object());
        }
        if !extensions.is_empty() {
            capabilities = capabilities.with_extensions(extensions);
        }
        capabilities
    }

    async fn answer(&self, question: InputRequest) -> Result<InputResponse, Unanswered> {
        let unwritable = |error: mcpjoin_proto::json::WriteError| {
            Unanswered::Failed(ErrorObject::internal(error.to_string()))
        };
        match (question, &self.sampling, &self.elicitation, &self.roots) {
            (InputRequest::CreateMessage(params), Some(input_handler), ..) => {
                if (params.tools.is_some() || params.tool_choice.is_some()) && !self.sampling_tools {
                    return Err(Unanswered::Undeclared);
                }
                let result = input_handler(*params).await?;
                InputResponse::from_create_message(&result).map_err(unwritable)
            }
            (InputRequest::Elicit(params), _, Some(input_handler), _) => {
                let declared = match &params {
                    ElicitParams::Form(_) => true,
                    ElicitParams::Url(_) => self.elicitation_url,
                    _ => false,
                };
                if !declared {
                    return Err(Unanswered::Undeclared);
                }
                let result = input_handler(params).await?;
                InputResponse::from_elicit(&result).map_err(unwritable)
            }
            (InputRequest::ListRoots(_), _, _, Some(roots)) => {
                let roots = roots.lock().clone();
                InputResponse::from_list_roots(&ListRootsResult::new(roots)).map_err(unwritable)
            }
            _ => Err(Unanswered::Undeclared),
        }
    }

    /// Handles all requests for input concurrently, by name. The first failure drops the others.
    pub(super) async fn answer_all(
        self: Arc<Self>,
        method: Method,
        questions: InputRequests,
    ) -> Result<InputResponses, ClientError> {
        if questions.len() > MAX_QUESTIONS {
            let what =
                format!("it asks for more inputs at once than the limit `questions` of {MAX_QUESTIONS}");
            return Err(ClientError::BadResult { method, what });
        }
        let answers = questions.into_iter().map(|(key, question)| {
            let (answers, method) = (&self, &method);
            async move {
                let asked = Method::parse(question.method());
                match answers.answer(question).await {
                    Ok(answer) => Ok((key, answer)),
                    Err(Unanswered::Undeclared) => {
                        Err(ClientError::UndeclaredInput { method: method.clone(), key, asked })
                    }
                    Err(Unanswered::Failed(error)) => {
                        let error = Box::new(error);
                        Err(ClientError::InputFailed { method: method.clone(), key, asked, error })
                    }
                }
            }
        });
        Ok(try_join_all(answers).await?.into_iter().collect())
    }
}

impl fmt::Debug for InputHandlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InputHandlers").field("declared", &self.capabilities()).finish_non_exhaustive()
    }
}

/// Answers the requests of a legacy server, and forwards notifications.
pub(super) struct ClientHandler {
    pub(super) answers: Arc<InputHandlers>,
    pub(super) on_notification: Option<OnNotification>,
    pub(super) tasks: Arc<TaskRegistry>,
}

impl Handler for ClientHandler {
    async fn request(&self, request: Request, _: Context) -> Result<Reply, ErrorObject> {
        if !matches!(request.method, Method::CreateMessage | Method::Elicit | Method::ListRoots) {
            return Err(ErrorObject::method_not_found(request.method.as_str()));
        }
        let params = request.params.map(Payload::into_raw);
        let task = params.as_ref().and_then(|params| params.member("_meta")?.member(key::RELATED_TASK));
        let question = InputRequest::from_parts(request.method.as_str(), params)
            .map_err(|error| ErrorObject::invalid_params(error.to_string()))?;
        match self.answers.answer(question).await {
            Ok(answer) => Ok(Reply::Complete(related(answer.into_raw(), task)?)),
            Err(Unanswered::Failed(error)) => Err(error),
            Err(Unanswered::Undeclared) => Err(ErrorObject::invalid_params(format!(
                "{} uses a mode that this client has not declared",
                request.method
            ))),
        }
    }

    async fn notification(&self, notification: Notification, _: Context) {
        self.tasks.handle_notification(&notification);
        if let Some(on_notification) = &self.on_notification {
            on_notification(notification);
        }
    }
}

/// Adds the id of the task that the request belongs to, as 2025-11-25 requires for each message of a task.
fn related(answer: Raw, task: Option<Raw>) -> Result<Raw, ErrorObject> {
    let Some(task) = task else { return Ok(answer) };
    let unwritable = |error: &dyn fmt::Display| ErrorObject::internal(error.to_string());
    let mut members = Members::read(&answer).map_err(|error| unwritable(&error))?;
    let meta = members.get("_meta").and_then(|meta| Meta::read(meta).ok()).unwrap_or_default();
    let meta = meta.with(key::RELATED_TASK, task).to_raw().map_err(|error| unwritable(&error))?;
    members.insert("_meta", meta);
    members.to_raw().map_err(|error| unwritable(&error))
}
