//! What a handler knows about the request it answers, and what it may do meanwhile.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use mcpjoin_proto::session::{Asker, Call, CallError, CallRefused, Origin, Reply};
use mcpjoin_proto::types::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, InputRequest,
    InputResponses, ListRootsParams, ListRootsResult, LoggingLevel,
};
use mcpjoin_proto::{ErrorObject, Method, Payload, Profile, Raw, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::input::{InputError, Rounds};
use super::task::Task;
use super::{ServerHandle, Shared};
use crate::connection;

/// What a handler knows about the request it answers, and what it may do meanwhile. Cheap to clone.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    connection: connection::Context,
    server: Arc<Shared>,
    profile: &'static Profile,
    method: Method,
    params: Option<Payload>,
    /// The questions of this request in the modern era, from the first one on.
    rounds: Mutex<Option<Rounds>>,
    task: Option<Arc<Task>>,
}

impl Context {
    pub(super) fn new(
        server: Arc<Shared>,
        connection: connection::Context,
        profile: &'static Profile,
        request: Request,
    ) -> Self {
        Self(Arc::new(Inner {
            connection,
            server,
            profile,
            method: request.method,
            params: request.params,
            rounds: Mutex::default(),
            task: None,
        }))
    }

    /// The same for work that goes on as a task.
    pub(super) fn in_task(&self, task: Arc<Task>) -> Self {
        Self(Arc::new(Inner {
            connection: self.0.connection.clone(),
            server: self.0.server.clone(),
            profile: self.0.profile,
            method: self.0.method.clone(),
            params: self.0.params.clone(),
            rounds: Mutex::default(),
            task: Some(task),
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

    /// The parameters of the request as they came.
    #[must_use]
    pub fn params(&self) -> Option<&Payload> {
        self.0.params.as_ref()
    }

    /// To change what the server offers, and to tell of it.
    #[must_use]
    pub fn server(&self) -> ServerHandle {
        ServerHandle::new(self.0.server.clone())
    }

    /// Tells the client how far the request is. Does nothing when it did not ask; what it has not read yet is
    /// replaced by what is newer. `progress` must grow, in whatever unit `total` has too.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        if self.0.task.is_some() {
            return;
        }
        if let Err(refused) = self.0.connection.progress(progress, total, message) {
            tracing::debug!(target: "mcpjoin", %refused, "progress was not sent");
        }
    }

    /// Sends a log message that belongs to the request. Does nothing when the client does not want messages of that
    /// level, or when the server does not declare logging ([`ServerBuilder::logging`](super::ServerBuilder::logging)).
    pub fn log(&self, level: LoggingLevel, data: impl Serialize) {
        self.log_as(None, level, data);
    }

    /// The same in the name of a part of the server.
    pub fn log_as(&self, logger: Option<&str>, level: LoggingLevel, data: impl Serialize) {
        if self.0.task.is_some() {
            return;
        }
        let problem = match Raw::from_value(&data) {
            Ok(data) => self.0.connection.log(level, logger, data).err().map(|refused| refused.to_string()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(problem) = problem {
            tracing::debug!(target: "mcpjoin", problem, "a log message was not sent");
        }
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
            Some(task) => task.over().await,
            None => self.0.connection.cancelled().await,
        }
    }

    // ---- asking the client ----

    /// Asks the client's user, with a form or with a page in a browser.
    ///
    /// # Errors
    /// See [`InputError`]; pass it on with `?`.
    pub async fn elicit(&self, params: impl Into<ElicitParams>) -> Result<ElicitResult, InputError> {
        self.ask_for(InputRequest::Elicit(params.into())).await
    }

    /// Asks the client's model.
    ///
    /// # Errors
    /// See [`InputError`]; pass it on with `?`.
    pub async fn sample(&self, params: CreateMessageParams) -> Result<CreateMessageResult, InputError> {
        self.ask_for(params.into()).await
    }

    /// Asks for the places that the client lets the server work in.
    ///
    /// # Errors
    /// See [`InputError`]; pass it on with `?`.
    pub async fn list_roots(&self) -> Result<ListRootsResult, InputError> {
        self.ask_for(ListRootsParams::default().into()).await
    }

    /// The answers that this request brings to questions which a former answer asked by hand
    /// ([`InputRequired`](mcpjoin_proto::types::InputRequired)); `None` when it brings none that can be read.
    #[must_use]
    pub fn input_responses(&self) -> Option<InputResponses> {
        self.params()?.raw().member("inputResponses")?.decode().ok()
    }

    /// The state that a former answer gave along by hand. The client may have changed it.
    #[must_use]
    pub fn request_state(&self) -> Option<String> {
        Some(self.params()?.raw().member("requestState")?.to_string_value()?.into_owned())
    }

    async fn ask_for<T: DeserializeOwned>(&self, question: InputRequest) -> Result<T, InputError> {
        let method = question.method().to_owned();
        let answer = self.ask(question).await?;
        answer.decode().map_err(|error| {
            InputError::Refused(ErrorObject::invalid_params(format!("the answer to {method}: {error}")))
        })
    }

    async fn ask(&self, question: InputRequest) -> Result<Raw, InputError> {
        if let Some(task) = &self.0.task {
            // What a request may not ask for, the session refuses; here nobody else looks.
            let capabilities = self.asker().map(|asker| &asker.capabilities);
            return match capabilities.and_then(|capabilities| undeclared(&question, capabilities)) {
                Some(capability) => Err(InputError::Undeclared(capability)),
                None => Ok(task.ask(question).await),
            };
        }
        if self.0.profile.server_requests {
            return self.ask_now(question).await;
        }
        let server = &self.0.server;
        let mut rounds = self.0.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        let rounds = match &mut *rounds {
            Some(rounds) => rounds,
            none => {
                let read =
                    Rounds::of(&server.key, server.now(), self.0.method.as_str(), self.0.params.as_ref());
                none.insert(read.map_err(InputError::Refused)?)
            }
        };
        rounds.ask(&server.key, server.now(), question)
    }

    /// The question as a request of our own: the legacy era.
    async fn ask_now(&self, mut question: InputRequest) -> Result<Raw, InputError> {
        if let InputRequest::Elicit(params) = &mut question {
            self.in_legacy_words(params)?;
        }
        let mut call = Call::new(Method::parse(question.method()));
        let params = question
            .params()
            .map_err(|error| InputError::Refused(ErrorObject::internal(error.to_string())))?;
        if let Some(params) = params {
            call = call.with_params(params);
        }
        // A person may take as long as a call may take at all.
        call = call.with_timeout(self.0.server.limits.request_total);
        match self.0.connection.call(call).await {
            Ok(Reply::Complete(answer)) => Ok(answer),
            Ok(_) => Err(InputError::Refused(ErrorObject::internal("the answer to a question is no answer"))),
            Err(CallError::Refused(CallRefused::Undeclared { capability, .. })) => {
                Err(InputError::Undeclared(capability))
            }
            Err(error) => Err(InputError::Failed(error)),
        }
    }

    fn in_legacy_words(&self, params: &mut ElicitParams) -> Result<(), InputError> {
        let declared = self.asker().and_then(|asker| asker.capabilities.elicitation.as_ref());
        match params {
            ElicitParams::Url(_) if declared.is_none_or(|elicitation| elicitation.url.is_none()) => {
                Err(InputError::Undeclared("elicitation.url"))
            }
            ElicitParams::Url(params) if params.elicitation_id.is_none() => {
                let id = super::task::random_id().map_err(InputError::Refused)?;
                params.elicitation_id = Some(id);
                Ok(())
            }
            // The oldest revision with elicitation knows forms alone, and no word for them.
            ElicitParams::Form(params) if !self.0.profile.elicitation_url => {
                params.mode = None;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// The capability that a client lacks for this question.
fn undeclared(question: &InputRequest, capabilities: &ClientCapabilities) -> Option<&'static str> {
    let elicitation = capabilities.elicitation.as_ref();
    let (declared, capability) = match question {
        InputRequest::CreateMessage(_) => (capabilities.sampling.is_some(), "sampling"),
        InputRequest::ListRoots(_) => (capabilities.roots.is_some(), "roots"),
        InputRequest::Elicit(params) if params.is_url() => {
            (elicitation.is_some_and(|elicitation| elicitation.url.is_some()), "elicitation.url")
        }
        // A client that declares nothing in particular means forms.
        _ => (
            elicitation.is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none()),
            "elicitation",
        ),
    };
    (!declared).then_some(capability)
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.connection.fmt(f)
    }
}
