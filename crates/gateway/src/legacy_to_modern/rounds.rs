//! Requests that a modern server answers with questions. Each question becomes a request to the client, and the
//! original request is repeated with the answers.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

use std::time::Duration;

use futures_util::future::try_join_all;
use mcpjoin_proto::session::{Call, CallError};
use mcpjoin_proto::types::Members;
use mcpjoin_proto::{ErrorObject, Kind, Method, Payload, Raw};
use tokio::time::sleep;

use crate::answers;
use crate::errors::{ErrorTexts, client_gone, failure};
use crate::policy::Questions;
use crate::relay::{self, forward};
use mcpjoin::connection::Context;
use mcpjoin::internal::{FIRST_PAUSE, MAX_PAUSE, MAX_ROUNDS};
use mcpjoin::transport::Replicas;

/// A request and its repetitions.
pub(super) struct Rounds {
    /// The parameters of the client's request.
    original: Option<Payload>,
    /// The parameters with the answers to the last questions.
    next: Option<Payload>,
    timeout: Duration,
    /// The name of the target in a joined gateway.
    target: Option<Box<str>>,
    rounds: usize,
    pause: Duration,
}

impl Rounds {
    pub(super) fn new(original: Option<Payload>, timeout: Duration, target: Option<&str>) -> Self {
        let target = target.map(Into::into);
        Self { original, next: None, timeout, target, rounds: 0, pause: FIRST_PAUSE }
    }

    /// The call for the next round.
    pub(super) fn call(&mut self, method: &Method, cx: &Context) -> Call {
        let params = self.next.take().or_else(|| self.original.clone());
        let mut call = relay::call(method.clone(), params, cx, self.timeout);
        call.log_level = cx.request().and_then(|request| request.log_level);
        call
    }

    /// Sends the questions in `result` to the client, and prepares the next round with its answers.
    pub(super) async fn ask_client(
        &mut self,
        method: &Method,
        result: &Payload,
        cx: &Context,
        may_ask: &Questions,
    ) -> Result<(), ErrorObject> {
        if self.rounds >= MAX_ROUNDS {
            let text = format!("{method} asked for input more often than the limit `rounds` of {MAX_ROUNDS}");
            return Err(failure("tooManyRounds", &text, &[("limit", MAX_ROUNDS.to_string())]));
        }
        self.rounds += 1;
        let bad =
            |what: &str| failure("badReply", &format!("the answer to {method} is not valid: {what}"), &[]);
        let member = |name: &str| result.raw().member(name).filter(|member| member.kind() != Kind::Null);
        let questions: Members<Raw> = match member("inputRequests") {
            Some(questions) => questions.decode().map_err(|error| bad(&format!("inputRequests: {error}")))?,
            None => Members::new(),
        };
        let state = member("requestState");
        if questions.is_empty() && state.is_none() {
            return Err(bad("`input_required` has neither `inputRequests` nor `requestState`"));
        }
        let mut params = self.original.clone().unwrap_or_else(|| Payload::from_raw(Raw::empty_object()));
        if questions.is_empty() {
            sleep(self.pause).await;
            self.pause = (self.pause * 2).min(MAX_PAUSE);
        } else {
            let (timeout, target) = (self.timeout, self.target.as_deref());
            let answers = questions.into_iter().map(|(name, question)| async move {
                ask(&question, cx, timeout, target, may_ask).await.map(|answer| (name, answer))
            });
            let answers: Members<Raw> = try_join_all(answers).await?.into_iter().collect();
            let answers =
                Raw::from_value(&answers).map_err(|error| ErrorObject::internal(error.to_string()))?;
            params = params.with_member("inputResponses", &answers);
        }
        if let Some(state) = state {
            params = params.with_member("requestState", &state);
        }
        self.next = Some(params);
        Ok(())
    }
}

/// Sends one question to the client, as part of the request that it belongs to.
async fn ask(
    question: &Raw,
    cx: &Context,
    timeout: Duration,
    target: Option<&str>,
    may_ask: &Questions,
) -> Result<Raw, ErrorObject> {
    let method = question.member("method");
    let method = method.as_ref().and_then(Raw::to_string_value);
    let method = method.ok_or_else(|| {
        failure("badReply", "the server asks for input, but one of its input requests has no `method`", &[])
    })?;
    let method = Method::parse(&method);
    may_ask.check(&method)?;
    let mut call = Call::new(method);
    call.params = question.member("params").map(Payload::from_raw);
    if may_ask.is_answered_anywhere() {
        let Some(replicas) = cx.extension::<Replicas>() else {
            let text = format!(
                "several processes serve the session, and the answer of the client to {} would reach any of them",
                call.method
            );
            return Err(failure("questionRefused", &text, &[]));
        };
        call.params = Some(answers::marked_here(replicas, call.params));
    }
    if call.method == Method::Elicit {
        call.params = call.params.map(|params| relay::named(target, params));
    }
    call.timeout = Some(timeout);
    call.total = Some(Duration::MAX);
    match forward(cx.call(call), cx).await {
        Ok(answer) => Ok(answer.into_raw()),
        Err(CallError::Remote(error)) => Err(error),
        Err(CallError::Closed(_)) => Err(client_gone()),
        Err(error) => Err(ErrorTexts::default().call_error(error, &cx.connection()).await),
    }
}
