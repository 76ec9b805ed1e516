//! Requests for input from the client while a request is handled.
//!
//! There are two ways, and a handler uses one of them. [`Context::elicit`] and its siblings read like a call. With
//! [`HandlerError::need_input`] a handler returns an [`InputRequired`] with names and a state of its own, and reads the
//! input in its next call. <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>
//!
//! In the legacy era the server sends a request of its own. In the modern era it can only respond: the first request
//! without input ends the handler ([`InputError::Needed`], passed on with `?`), the client repeats its request with the
//! input, and the handler runs again from its start. So everything before its last request for input may run several
//! times.
//!
//! The input so far travels with the client (`requestState`), encrypted under the server's key (`seal`) and bound to
//! the method, the tool, prompt or resource, the arguments, the verified principal and ten minutes. Input counts only
//! together with the state that asked for it, so it cannot be used for another call.
//!
//! Where the client does not repeat its request, rounds are emulated ([`emulate_rounds`]).

use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures_util::future::try_join_all;
use mcpjoin_proto::session::{Call, CallError, CallRefused, Reply};
use mcpjoin_proto::types::{
    CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitParams, ElicitResult,
    ElicitationSchema, InputRequest, InputRequests, InputRequired, InputResponse, InputResponses,
    ListRootsParams, ListRootsResult, Members, ProtocolType,
};
use mcpjoin_proto::{ErrorObject, Kind, Method, Payload, Raw};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use tokio::time::sleep;

use super::{Context, HandlerError, capability, encode_value, task};
use crate::connection::rounds::{FIRST_PAUSE, MAX_PAUSE, MAX_ROUNDS};
use crate::seal::{self, Keys, OpenError, Purpose};

/// Why a request for input has no response.
#[derive(Debug)]
#[non_exhaustive]
pub enum InputError {
    /// The handler must end with this error, so that the client is asked: pass it on with `?`.
    Needed(PendingInput),
    /// The client has not declared this capability. In the modern era the session sends it the error -32021.
    Undeclared(&'static str),
    /// The request was sent, and has failed.
    Failed(CallError),
    /// The client's input, or the state that it returned, is not valid. Contains the error to respond with.
    Refused(ErrorObject),
}

/// The requests for input with which a handler ends, and the state that the client returns.
#[derive(Debug)]
pub struct PendingInput(Box<InputRequired>);

impl PendingInput {
    pub(super) fn into_input(self) -> Box<InputRequired> {
        self.0
    }
}

// Not a `std::error::Error`: `HandlerError` must tell it from those that `?` converts.
impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Needed(_) => f.write_str("this needs input from the client first"),
            Self::Undeclared(capability) => {
                write!(f, "the client does not declare the capability `{capability}`")
            }
            Self::Failed(error) => error.fmt(f),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl Context {
    /// Asks the client's user for input, with a form or with a page in the browser.
    ///
    /// In the modern era the handler ends here with [`InputError::Needed`] and runs again from its start when the
    /// client has sent the input. So everything before the last question may run several times: do not charge a card
    /// before it.
    ///
    /// ```
    /// use mcpjoin::proto::types::{ElicitFormParams, ElicitationSchema, Members, StringSchema};
    /// use mcpjoin::server::{Context, HandlerError, NoArguments, Server, tool};
    ///
    /// async fn greet(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    ///     let fields = Members::new().with("name", StringSchema::default().with_title("Your name").into());
    ///     let answer = cx.elicit(ElicitFormParams::new("Who are you?", ElicitationSchema::new(fields))).await?;
    ///     Ok(format!("the user chose to {}", answer.action.as_str()))
    /// }
    ///
    /// let server = Server::builder("greeter", "1.0.0").tool(tool("greet"), greet).build()?;
    /// # Ok::<(), mcpjoin::server::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// [`InputError`]. Pass it on with `?`.
    pub async fn elicit(&self, params: impl Into<ElicitParams>) -> Result<ElicitResult, InputError> {
        self.ask_for(InputRequest::Elicit(params.into())).await
    }

    /// Asks the client's user whether to go on, with a form that has no fields: `true` if the user accepts, `false` if the
    /// user declines or cancels. Works in both eras as [`elicit`](Self::elicit) does.
    ///
    /// ```
    /// use mcpjoin::server::{Context, NoArguments, Result, Server, tool};
    ///
    /// async fn clear(_: NoArguments, cx: Context) -> Result<&'static str> {
    ///     if !cx.confirm("Delete all notes?").await? {
    ///         return Ok("kept");
    ///     }
    ///     Ok("deleted")
    /// }
    ///
    /// let server = Server::builder("notes", "1.0.0").tool(tool("clear"), clear).build()?;
    /// # Ok::<(), mcpjoin::server::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// [`InputError`]. Pass it on with `?`.
    pub async fn confirm(&self, message: impl Into<String>) -> Result<bool, InputError> {
        let form = ElicitFormParams::new(message, ElicitationSchema::new(Members::new()));
        Ok(self.elicit(form).await?.action == ElicitAction::Accept)
    }

    /// Asks the client's model for a message.
    ///
    /// # Errors
    /// [`InputError`]. Pass it on with `?`.
    pub async fn sample(&self, params: CreateMessageParams) -> Result<CreateMessageResult, InputError> {
        self.ask_for(params.into()).await
    }

    /// Asks the client's model to answer one text, with at most `max_tokens` tokens, and returns the text of its answer.
    ///
    /// ```
    /// use mcpjoin::server::{Context, NoArguments, Result, Server, tool};
    ///
    /// async fn colour(_: NoArguments, cx: Context) -> Result<String> {
    ///     Ok(cx.sample_text("Name a colour.", 20).await?)
    /// }
    ///
    /// let server = Server::builder("colours", "1.0.0").tool(tool("colour"), colour).build()?;
    /// # Ok::<(), mcpjoin::server::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// [`InputError`]. Pass it on with `?`.
    pub async fn sample_text(
        &self,
        prompt: impl Into<String>,
        max_tokens: i64,
    ) -> Result<String, InputError> {
        Ok(self.sample(CreateMessageParams::text(prompt, max_tokens)).await?.to_text())
    }

    /// Asks for the directories that the client lets the server work in.
    ///
    /// # Errors
    /// [`InputError`]. Pass it on with `?`.
    pub async fn list_roots(&self) -> Result<ListRootsResult, InputError> {
        self.ask_for(ListRootsParams::default().into()).await
    }

    /// Returns whether the client has declared the capability for this request for input. Other clients must not be
    /// asked.
    #[must_use]
    pub fn may_ask(&self, question: &InputRequest) -> bool {
        self.client().is_some_and(|client| capability::undeclared(question, &client.capabilities).is_none())
    }

    /// Returns the input that this request brings for an [`InputRequired`](mcpjoin_proto::types::InputRequired) that
    /// the handler returned before. `None` if it brings none.
    ///
    /// The client may send anything, even for input that was never requested.
    ///
    /// # Errors
    /// [`InputError`] if the input cannot be decoded. Pass it on with `?`.
    pub fn input_responses(&self) -> Result<Option<InputResponses>, InputError> {
        if self.emulates_rounds() {
            return Ok(self.0.emulated.as_ref().map(|input| input.responses.clone()));
        }
        responses(self.params()).map_err(InputError::Refused)
    }

    /// Returns the input with this name. `None` if there is none, and the handler has to request it.
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
    /// [`InputError`] if the input cannot be decoded as a `T`. Pass it on with `?`.
    pub fn input_response<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, InputError> {
        let responses = self.input_responses()?;
        let Some(response) = responses.as_ref().and_then(|responses| responses.get(name)) else {
            return Ok(None);
        };
        response.raw().decode().map(Some).map_err(|error| {
            InputError::Refused(ErrorObject::invalid_params(format!("`inputResponses`: {name}: {error}")))
        })
    }

    /// Returns the state that the handler sent with an earlier [`InputRequired`](mcpjoin_proto::types::InputRequired).
    /// The client may have changed it, unless it is sealed ([`Context::open_request_state`]).
    #[must_use]
    pub fn request_state(&self) -> Option<String> {
        if self.emulates_rounds() {
            return self.0.emulated.as_ref()?.state.clone();
        }
        Some(self.params()?.raw().member("requestState")?.to_string_value()?.into_owned())
    }

    /// Encrypts a state to send with an [`InputRequired`](mcpjoin_proto::types::InputRequired::with_request_state),
    /// under the server's key ([`ServerBuilder::state_key`](super::ServerBuilder::state_key)).
    ///
    /// The client sees its length and can neither read nor change it. The state is accepted for ten minutes, and only
    /// with the same method, tool, prompt or resource, arguments, and verified principal. A client may send it more
    /// than once in that time: what must happen only once needs a record at the server.
    ///
    /// # Errors
    /// [`InputError`] if the value cannot be encoded as JSON, or if the system provides no random numbers. Pass it on
    /// with `?`.
    pub fn seal_request_state<T: Serialize>(&self, state: &T) -> Result<String, InputError> {
        encode_value(state)
            .and_then(|state| {
                let now = seal::unix_time();
                self.0.server.keys.seal(Purpose::ByHand, &self.digest(), state.as_str(), now)
            })
            .map_err(InputError::Refused)
    }

    /// Decrypts the state that this request brings. `None` if it brings none.
    ///
    /// # Errors
    /// [`InputError`] with the error -32602 if the state was not sealed for this request under one of the server's
    /// keys, or if it has expired. Pass it on with `?`.
    pub fn open_request_state<T: DeserializeOwned>(&self) -> Result<Option<T>, InputError> {
        let Some(state) = self.request_state() else {
            return if self.brings("requestState") {
                Err(InputError::Refused(ErrorObject::invalid_params("`requestState` is not a string")))
            } else {
                Ok(None)
            };
        };
        // With emulated rounds the state has never left the process, so it does not expire.
        let now = (!self.emulates_rounds()).then(seal::unix_time);
        opened(&self.0.server.keys, Purpose::ByHand, &self.digest(), &state, now)
            .map(Some)
            .map_err(InputError::Refused)
    }

    /// Returns the digest that states are bound to.
    fn digest(&self) -> [u8; 32] {
        request_digest(self.0.method.as_str(), self.params(), self.principal())
    }

    fn brings(&self, member: &str) -> bool {
        let member = self.params().and_then(|params| params.raw().member(member));
        !self.emulates_rounds() && member.is_some_and(|member| member.kind() != Kind::Null)
    }

    /// Whether the server sends the requests for input itself, because the client does not repeat its request.
    pub(super) fn emulates_rounds(&self) -> bool {
        self.0.task.is_some() || self.0.profile.server_requests
    }

    /// Whether rounds are to be emulated, and this is the first call of the handler and not one of the emulation.
    pub(super) fn starts_emulated_rounds(&self) -> bool {
        self.0.emulated.is_none() && self.emulates_rounds()
    }

    /// Requests all inputs concurrently. The first failure drops the others.
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

    async fn ask_for<T: ProtocolType>(&self, question: InputRequest) -> Result<T, InputError> {
        let method = question.method().to_owned();
        let answer = self.ask(question).await?;
        T::read(&answer).map_err(|error| {
            InputError::Refused(ErrorObject::invalid_params(format!("the answer to {method}: {error}")))
        })
    }

    async fn ask(&self, question: InputRequest) -> Result<Raw, InputError> {
        if let Some(task) = &self.0.task {
            // The session refuses undeclared requests, but these do not pass through it.
            let capabilities = self.client().map(|client| &client.capabilities);
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
        let mut input = self.0.input.lock();
        let input = match &mut *input {
            Some(input) => input,
            none => {
                let read = InputState::of(&server.keys, self.digest(), self.params());
                none.insert(read.map_err(InputError::Refused)?)
            }
        };
        input.ask(&server.keys, question)
    }

    /// Sends a request for input, possibly for a task: in the legacy era.
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
        // A person may take as long as any request may take.
        call = call.with_timeout(self.0.server.limits.request_total);
        match self.call(call).await {
            Ok(Reply::Complete(answer)) => Ok(answer),
            Ok(_) => Err(InputError::Refused(ErrorObject::internal("the input response has the wrong type"))),
            Err(CallError::Refused(CallRefused::Undeclared { capability, .. })) => {
                Err(InputError::Undeclared(capability))
            }
            Err(error) => Err(InputError::Failed(error)),
        }
    }

    fn in_legacy_words(&self, params: &mut ElicitParams) -> Result<(), InputError> {
        let declared = self.client().and_then(|client| client.capabilities.elicitation.as_ref());
        match params {
            ElicitParams::Url(_) if declared.is_none_or(|elicitation| elicitation.url.is_none()) => {
                Err(InputError::Undeclared("elicitation.url"))
            }
            ElicitParams::Url(params) if params.elicitation_id.is_none() => {
                let id = seal::random_name().map_err(InputError::Refused)?;
                params.elicitation_id = Some(id);
                Ok(())
            }
            // The oldest revision with elicitation has only forms, and no `mode`.
            ElicitParams::Form(params) if !self.0.profile.elicitation_url => {
                params.mode = None;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Calls a handler, and emulates rounds if it requests input and the client does not repeat its request.
pub(super) async fn run_in_rounds<F, Fut>(cx: Context, handle: F) -> Result<Reply, ErrorObject>
where
    F: Fn(Context) -> Fut,
    Fut: Future<Output = Result<Reply, ErrorObject>>,
{
    match handle(cx.clone()).await {
        Ok(Reply::NeedInput(input)) if cx.emulates_rounds() => {
            emulate_rounds(cx, *input, handle).await.or_else(HandlerError::into_reply)
        }
        outcome => outcome,
    }
}

/// Emulates rounds for clients that do not repeat their request, until the handler returns a result.
///
/// A handler that returns an [`InputRequired`] is written for the modern era, where the client sends the input with its
/// next request. In the legacy era the server sends the requests for input itself, and in a task they wait for
/// `tasks/update`. The handler is then called again with the input.
pub(super) async fn emulate_rounds<F, Fut>(
    cx: Context,
    first: InputRequired,
    handle: F,
) -> Result<Reply, HandlerError>
where
    F: Fn(Context) -> Fut,
    Fut: Future<Output = Result<Reply, ErrorObject>>,
{
    let (mut input, mut pause) = (first, FIRST_PAUSE);
    for _ in 0..MAX_ROUNDS {
        let questions = input.input_requests.unwrap_or_default();
        if questions.is_empty() {
            sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
        let responses = cx.ask_all(questions).await?;
        match handle(cx.in_round(responses, input.request_state)).await {
            Ok(Reply::NeedInput(next)) => input = *next,
            Ok(reply) => return Ok(reply),
            Err(error) => return Err(HandlerError::protocol(error)),
        }
    }
    Err(HandlerError::new(format!("asked for input {MAX_ROUNDS} times and needs more")))
}

/// The input of one request, in the order in which it was requested.
pub(super) struct InputState {
    /// The digest of method, target, arguments and principal that the state is bound to.
    request: [u8; 32],
    answers: Vec<Raw>,
    /// The input for the one request that was open.
    fresh: Option<Raw>,
    asked: usize,
}

impl InputState {
    /// Reads the input that a request brings.
    fn of(keys: &Keys, request: [u8; 32], params: Option<&Payload>) -> Result<Self, ErrorObject> {
        let mut input = Self { request, answers: Vec::new(), fresh: None, asked: 0 };
        let state = params.and_then(|params| params.raw().member("requestState"));
        let Some(state) = state.filter(|state| state.kind() != Kind::Null) else { return Ok(input) };
        let state = state.to_string_value().ok_or_else(|| refused("is not a string"))?;
        input.answers = opened(keys, Purpose::Answers, &request, &state, Some(seal::unix_time()))?;
        if let Some(responses) = responses(params)? {
            let name = name(input.answers.len());
            input.fresh = responses.get(&name).map(|response| response.raw().clone());
        }
        Ok(input)
    }

    /// Returns the input for the next request, or the error that ends this round.
    fn ask(&mut self, keys: &Keys, question: InputRequest) -> Result<Raw, InputError> {
        let number = self.asked;
        self.asked += 1;
        if let Some(answer) = self.answers.get(number) {
            return Ok(answer.clone());
        }
        if number == self.answers.len()
            && let Some(answer) = self.fresh.take()
        {
            self.answers.push(answer.clone());
            return Ok(answer);
        }
        let state = self.seal(keys).map_err(InputError::Refused)?;
        // The number of the first open request, whatever was requested concurrently.
        let mut questions = InputRequests::new();
        questions.insert(name(self.answers.len()), question);
        let input = InputRequired::default().with_input_requests(questions).with_request_state(state);
        Err(InputError::Needed(PendingInput(Box::new(input))))
    }

    fn seal(&self, keys: &Keys) -> Result<String, ErrorObject> {
        let answers = encode_value(&self.answers)?;
        keys.seal(Purpose::Answers, &self.request, answers.as_str(), seal::unix_time())
    }
}

/// Decodes the input that a request brings; `null` is none.
fn responses(params: Option<&Payload>) -> Result<Option<InputResponses>, ErrorObject> {
    let responses = params.and_then(|params| params.raw().member("inputResponses"));
    let Some(responses) = responses.filter(|responses| responses.kind() != Kind::Null) else {
        return Ok(None);
    };
    InputResponses::read(&responses)
        .map(Some)
        .map_err(|error| ErrorObject::invalid_params(format!("`inputResponses`: {error}")))
}

/// The name of a request for input.
fn name(number: usize) -> String {
    format!("ask-{}", number + 1)
}

fn refused(why: &str) -> ErrorObject {
    ErrorObject::invalid_params(format!("`requestState` {why}"))
}

fn opened<T: DeserializeOwned>(
    keys: &Keys,
    purpose: Purpose,
    request: &[u8; 32],
    state: &str,
    now: Option<Duration>,
) -> Result<T, ErrorObject> {
    let foreign = || refused("is not what this server has given for this request");
    let content = keys.open(purpose, request, state, now).map_err(|why| match why {
        OpenError::Foreign => foreign(),
        OpenError::Expired => refused("has expired: make the request again without it"),
    })?;
    Raw::parse(content).ok().and_then(|content| content.decode().ok()).ok_or_else(foreign)
}

/// Returns a digest of what a request asks for, and of its principal.
fn request_digest(method: &str, params: Option<&Payload>, principal: Option<&str>) -> [u8; 32] {
    let request = digest(method, params);
    let Some(principal) = principal else { return request };
    let mut digest = Sha256::new();
    digest.update(request);
    text(&mut digest, b'p', principal);
    digest.finalize().into()
}

/// Returns a digest of what a request asks for. It does not depend on the order of the members of its arguments.
pub fn digest(method: &str, params: Option<&Payload>) -> [u8; 32] {
    let mut digest = Sha256::new();
    text(&mut digest, b'm', method);
    let target = params.and_then(|params| params.name().or_else(|| params.uri()));
    for part in [target, params.and_then(Payload::arguments)] {
        match part {
            Some(part) => value(&mut digest, &part),
            None => digest.update(b"-"),
        }
    }
    digest.finalize().into()
}

/// The depth is limited: the scanner has accepted the text.
fn value(digest: &mut Sha256, raw: &Raw) {
    match raw.kind() {
        Kind::Object => {
            let mut members: Vec<(String, Raw)> =
                Members::read(raw).unwrap_or_default().into_iter().collect();
            members.sort_by(|(left, _), (right, _)| left.cmp(right));
            digest.update(b"{");
            for (name, member) in &members {
                text(digest, b'k', name);
                value(digest, member);
            }
            digest.update(b"}");
        }
        Kind::Array => {
            digest.update(b"[");
            for item in Vec::<Raw>::read(raw).unwrap_or_default() {
                value(digest, &item);
            }
            digest.update(b"]");
        }
        Kind::String => match raw.to_string_value() {
            Some(string) => text(digest, b's', &string),
            None => text(digest, b'?', raw.as_str()),
        },
        _ => text(digest, b'l', raw.as_str()),
    }
}

/// Adds a text with its kind and its length, so that different sequences of texts are different bytes.
fn text(digest: &mut Sha256, kind: u8, text: &str) {
    digest.update([kind]);
    digest.update((text.len() as u64).to_be_bytes());
    digest.update(text.as_bytes());
}
