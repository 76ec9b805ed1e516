//! Asking the client while a request is handled.
//!
//! Two ways. [`Context::elicit`] and its kind read like a call: where the era has none, the handler ends with the
//! question and runs again from its start when the answer is there (`input`). By hand, a handler answers with an
//! `InputRequired` of its own, with names and a state of its choice, and looks at what came back; where the client
//! makes no second request, it is emulated_rounds here (`emulated_rounds`). One handler uses one of the two.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

use std::sync::PoisonError;

use futures_util::future::try_join_all;
use mcpjoin_proto::session::{Call, CallError, CallRefused, Reply};
use mcpjoin_proto::types::{
    CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, InputRequest, InputRequests,
    InputResponse, InputResponses, ListRootsParams, ListRootsResult,
};
use mcpjoin_proto::{ErrorObject, Kind, Method, Raw};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::input::{self, Age, InputError, InputState};
use super::{Context, capability, seal, task};

impl Context {
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

    // ---- by hand ----

    /// Whether the client has declared that it answers such a question. Another one must not be asked.
    #[must_use]
    pub fn may_ask(&self, question: &InputRequest) -> bool {
        self.asker().is_some_and(|asker| capability::undeclared(question, &asker.capabilities).is_none())
    }

    /// The answers that this request brings to questions which a former answer asked by hand
    /// ([`InputRequired`](mcpjoin_proto::types::InputRequired)); `None` when it brings none. They may be any: also
    /// to what was never asked.
    ///
    /// # Errors
    /// When what it brings cannot be read as answers; pass it on with `?`.
    pub fn input_responses(&self) -> Result<Option<InputResponses>, InputError> {
        if self.emulates_rounds() {
            return Ok(self.0.answered.as_ref().map(|answered| answered.responses.clone()));
        }
        input::responses(self.params()).map_err(InputError::Refused)
    }

    /// The answer of that name; `None` when there is none, and the question is to be asked again.
    ///
    /// ```
    /// use mcpjoin::proto::types::{
    ///     ElicitFormParams, ElicitResult, ElicitationSchema, InputRequests, InputRequired, Members,
    /// };
    /// use mcpjoin::server::{Context, HandlerError, NoArguments, Server, tool};
    ///
    /// async fn delete(_: NoArguments, cx: Context) -> Result<&'static str, HandlerError> {
    ///     if let Some(answer) = cx.input_response::<ElicitResult>("sure")? {
    ///         return Ok(if answer.action.as_str() == "accept" { "deleted" } else { "kept" });
    ///     }
    ///     let question = ElicitFormParams::new("Are you sure?", ElicitationSchema::new(Members::new()));
    ///     let questions = InputRequests::new().with("sure", question.into());
    ///     Err(HandlerError::need_input(InputRequired::default().with_input_requests(questions)))
    /// }
    ///
    /// let server = Server::builder("files", "1.0.0").tool(tool("delete"), delete).build()?;
    /// # Ok::<(), mcpjoin::server::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// When what the request brings cannot be read as such an answer; pass it on with `?`.
    pub fn input_response<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, InputError> {
        let responses = self.input_responses()?;
        let Some(response) = responses.as_ref().and_then(|responses| responses.get(name)) else {
            return Ok(None);
        };
        response.raw().decode().map(Some).map_err(|error| {
            InputError::Refused(ErrorObject::invalid_params(format!("`inputResponses`: {name}: {error}")))
        })
    }

    /// The state that a former answer gave along by hand. The client may have changed it, unless it is sealed
    /// ([`Context::open_request_state`]).
    #[must_use]
    pub fn request_state(&self) -> Option<String> {
        if self.emulates_rounds() {
            return self.0.answered.as_ref()?.state.clone();
        }
        Some(self.params()?.raw().member("requestState")?.to_string_value()?.into_owned())
    }

    /// A state to give along with a question by hand
    /// ([`InputRequired::with_request_state`](mcpjoin_proto::types::InputRequired::with_request_state)), encrypted under
    /// the server's key ([`ServerBuilder::state_key`](super::ServerBuilder::state_key)): the client can neither read nor
    /// change it, and sees its length. It is accepted for ten minutes, and only with this method, this tool, prompt or
    /// resource, these arguments and this principal, where one is proved. A client may give it back more than once in that
    /// time: what must happen once needs a record of the server's own.
    ///
    /// # Errors
    /// When the value cannot be written as JSON, or the system gives no random numbers; pass it on with `?`.
    pub fn seal_request_state<T: Serialize>(&self, state: &T) -> Result<String, InputError> {
        let server = &self.0.server;
        Raw::from_value(state)
            .map_err(|error| ErrorObject::internal(error.to_string()))
            .and_then(|state| {
                let (method, principal) = (self.0.method.as_str(), self.principal());
                input::seal(&server.keys, method, self.params(), principal, &state)
            })
            .map_err(InputError::Refused)
    }

    /// What was sealed into the state that this request brings; `None` when it brings none.
    ///
    /// # Errors
    /// When the state was not sealed for this request under one of the server's keys, or is too old: the error -32602.
    /// Pass it on with `?`.
    pub fn open_request_state<T: DeserializeOwned>(&self) -> Result<Option<T>, InputError> {
        let server = &self.0.server;
        // Where the rounds are emulated_rounds here the state has never left the process.
        let age = if self.emulates_rounds() { Age::DoesNotCount } else { Age::Counts };
        let Some(state) = self.request_state() else {
            return if self.brings("requestState") {
                Err(InputError::Refused(ErrorObject::invalid_params("`requestState` is not a string")))
            } else {
                Ok(None)
            };
        };
        input::open(&server.keys, self.0.method.as_str(), self.params(), self.principal(), &state, age)
            .map(Some)
            .map_err(InputError::Refused)
    }

    fn brings(&self, member: &str) -> bool {
        let member = self.params().and_then(|params| params.raw().member(member));
        !self.emulates_rounds() && member.is_some_and(|member| member.kind() != Kind::Null)
    }

    /// Whether questions by hand are asked here, because the client does not make its request again.
    pub(super) fn emulates_rounds(&self) -> bool {
        self.0.task.is_some() || self.0.profile.server_requests
    }

    /// The same for a handler that is called for the first time, and not by what plays the rounds.
    pub(super) fn starts_emulated_rounds(&self) -> bool {
        self.0.answered.is_none() && self.emulates_rounds()
    }

    /// Asks all of them at once. The first that has no answer ends the others.
    pub(super) async fn ask_all(&self, questions: InputRequests) -> Result<InputResponses, InputError> {
        let asked = questions.into_iter().map(async |(name, question)| {
            let answer = InputResponse::from_raw(self.ask(question).await?);
            let answer = answer.ok_or_else(|| {
                InputError::Refused(ErrorObject::invalid_params("the answer to a question is not an object"))
            })?;
            Ok((name, answer))
        });
        Ok(try_join_all(asked).await?.into_iter().collect())
    }

    // ---- one question ----

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
            return match capabilities.and_then(|capabilities| capability::undeclared(&question, capabilities))
            {
                Some(capability) => Err(InputError::Undeclared(capability)),
                None => task.ask(question).await,
            };
        }
        if self.0.profile.server_requests {
            return self.ask_now(question, None).await;
        }
        let server = &self.0.server;
        let mut rounds = self.0.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        let rounds = match &mut *rounds {
            Some(rounds) => rounds,
            none => {
                let (method, params) = (self.0.method.as_str(), self.0.params.as_ref());
                let read = InputState::of(&server.keys, method, params, self.principal());
                none.insert(read.map_err(InputError::Refused)?)
            }
        };
        rounds.ask(&server.keys, question)
    }

    /// The question as a request of our own, perhaps of a task: the legacy era.
    pub(super) async fn ask_now(
        &self,
        mut question: InputRequest,
        of: Option<&str>,
    ) -> Result<Raw, InputError> {
        if let InputRequest::Elicit(params) = &mut question {
            self.in_legacy_words(params)?;
        }
        let mut call = Call::new(Method::parse(question.method()));
        let params = question
            .params()
            .map_err(|error| InputError::Refused(ErrorObject::internal(error.to_string())))?;
        let params = match of {
            Some(task) => Some(task::related(params.unwrap_or_else(Raw::empty_object), task)),
            None => params,
        };
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
                let id = seal::random_name().map_err(InputError::Refused)?;
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
