//! What a question to the client leaves behind in the modern era: the answers so far, and the state they travel in.
//!
//! Called by `asking`. In the legacy era a question is a request of the server's own. In the modern era the server may
//! only answer: the first question without an answer ends the handler ([`InputError::Needed`], passed on with `?`), the
//! client makes its request again with the answer, and the handler runs again from its start, with the answers that are
//! there. So what a handler does before its last question may be done several times.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>
//!
//! The answers so far travel with the client (`requestState`), encrypted under the server's key (`seal`) and bound to the
//! method, the tool, prompt or resource, the arguments, the proved principal and ten minutes. An answer counts only beside
//! the state that asked for it, so nobody can answer a question about one call in another.

use std::fmt;

use mcpjoin_proto::session::CallError;
use mcpjoin_proto::types::{InputRequest, InputRequests, InputRequired, InputResponses, Members};
use mcpjoin_proto::{ErrorObject, Kind, Payload, Raw};
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use super::seal::{self, Keys, OpenError, Purpose};

/// Why a question has no answer yet, or none at all.
#[derive(Debug)]
#[non_exhaustive]
pub enum InputError {
    /// The client is asked when the handler ends with this: pass it on with `?`.
    Needed(PendingInput),
    /// The client has not declared that it answers such questions: the missing capability. (In the modern era the
    /// session says so to the client, with the error -32021.)
    Undeclared(&'static str),
    /// The question was asked and brought no answer.
    Failed(CallError),
    /// The client's answer, or the state that it gave back, is not valid: the error to answer with.
    Refused(ErrorObject),
}

/// The end of a handler that has to ask first: the questions, and the state that the client gives back.
#[derive(Debug)]
pub struct PendingInput(Box<InputRequired>);

impl PendingInput {
    pub(super) fn into_input(self) -> Box<InputRequired> {
        self.0
    }
}

// Not a `std::error::Error`: `HandlerError` has to know it from those when it comes through `?`.
impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Needed(_) => f.write_str("the client has to be asked first"),
            Self::Undeclared(capability) => {
                write!(f, "the client does not declare the capability `{capability}`")
            }
            Self::Failed(error) => error.fmt(f),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

/// The answers of one request, in the order of its questions.
pub(super) struct InputState {
    /// What the state is good for: the digest of method, target, arguments and principal.
    request: [u8; 32],
    answers: Vec<Raw>,
    /// The answer to the one question that was open.
    fresh: Option<Raw>,
    asked: usize,
}

impl InputState {
    /// The answers that a request brings.
    pub(super) fn of(
        keys: &Keys,
        method: &str,
        params: Option<&Payload>,
        principal: Option<&str>,
    ) -> Result<Self, ErrorObject> {
        let request = asked(method, params, principal);
        let mut rounds = Self { request, answers: Vec::new(), fresh: None, asked: 0 };
        let state = params.and_then(|params| params.raw().member("requestState"));
        let Some(state) = state.filter(|state| state.kind() != Kind::Null) else { return Ok(rounds) };
        let state = state.to_string_value().ok_or_else(|| refused("is not a string"))?;
        rounds.answers = opened(keys, Purpose::Answers, &request, &state, Age::Counts)?;
        if let Some(responses) = responses(params)? {
            let name = name(rounds.answers.len());
            rounds.fresh = responses.get(&name).map(|response| response.raw().clone());
        }
        Ok(rounds)
    }

    /// The answer to the next question, or the end of this round.
    pub(super) fn ask(&mut self, keys: &Keys, question: InputRequest) -> Result<Raw, InputError> {
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
        // The number of the first question that is open, whatever else was asked beside it.
        let mut questions = InputRequests::new();
        questions.insert(name(self.answers.len()), question);
        let input = InputRequired::default().with_input_requests(questions).with_request_state(state);
        Err(InputError::Needed(PendingInput(Box::new(input))))
    }

    fn seal(&self, keys: &Keys) -> Result<String, ErrorObject> {
        let answers =
            Raw::from_value(&self.answers).map_err(|error| ErrorObject::internal(error.to_string()))?;
        keys.seal(Purpose::Answers, &self.request, answers.as_str(), seal::unix_time())
    }
}

/// Seals what a handler wants to be given back with that request.
pub(super) fn seal(
    keys: &Keys,
    method: &str,
    params: Option<&Payload>,
    principal: Option<&str>,
    state: &Raw,
) -> Result<String, ErrorObject> {
    keys.seal(Purpose::ByHand, &asked(method, params, principal), state.as_str(), seal::unix_time())
}

/// Whether the age of a state counts: not where it never left this process.
#[derive(Clone, Copy)]
pub(super) enum Age {
    Counts,
    DoesNotCount,
}

/// What was sealed so, for that request.
pub(super) fn open<T: DeserializeOwned>(
    keys: &Keys,
    method: &str,
    params: Option<&Payload>,
    principal: Option<&str>,
    state: &str,
    age: Age,
) -> Result<T, ErrorObject> {
    opened(keys, Purpose::ByHand, &asked(method, params, principal), state, age)
}

/// The answers that a request brings; `null` is none.
pub(super) fn responses(params: Option<&Payload>) -> Result<Option<InputResponses>, ErrorObject> {
    let responses = params.and_then(|params| params.raw().member("inputResponses"));
    let Some(responses) = responses.filter(|responses| responses.kind() != Kind::Null) else {
        return Ok(None);
    };
    responses
        .decode()
        .map(Some)
        .map_err(|error| ErrorObject::invalid_params(format!("`inputResponses`: {error}")))
}

/// The name of a question.
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
    age: Age,
) -> Result<T, ErrorObject> {
    let foreign = || refused("is not what this server has given for this request");
    let now = match age {
        Age::Counts => Some(seal::unix_time()),
        Age::DoesNotCount => None,
    };
    let content = keys.open(purpose, request, state, now).map_err(|why| match why {
        OpenError::Foreign => foreign(),
        OpenError::Expired => refused("has expired: make the request again without it"),
    })?;
    Raw::parse(content).ok().and_then(|content| content.decode().ok()).ok_or_else(foreign)
}

/// What a request asks for, and in scope name.
fn asked(method: &str, params: Option<&Payload>, principal: Option<&str>) -> [u8; 32] {
    let request = digest(method, params);
    let Some(principal) = principal else { return request };
    let mut digest = Sha256::new();
    digest.update(request);
    text(&mut digest, b'p', principal);
    digest.finalize().into()
}

/// What a request asks for, whatever the order of the members of its arguments.
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

/// Bounded in depth: the scanner has passed the text.
fn value(digest: &mut Sha256, raw: &Raw) {
    match raw.kind() {
        Kind::Object => {
            let mut members: Vec<(String, Raw)> =
                raw.decode::<Members<Raw>>().unwrap_or_default().into_iter().collect();
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
            for item in raw.decode::<Vec<Raw>>().unwrap_or_default() {
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

/// A text with its kind and its length, so that no two sequences of texts are the same bytes.
fn text(digest: &mut Sha256, kind: u8, text: &str) {
    digest.update([kind]);
    digest.update((text.len() as u64).to_be_bytes());
    digest.update(text.as_bytes());
}
