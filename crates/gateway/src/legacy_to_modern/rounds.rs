//! The rounds of a request that a modern server answers with questions: the client is asked each of them as a request of
//! its own, and the request is made again with the answers.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

use std::time::Duration;

use futures_util::future::try_join_all;
use mcpjoin_proto::session::{Call, CallError};
use mcpjoin_proto::types::Members;
use mcpjoin_proto::{ErrorObject, Kind, Method, Payload, Raw};
use tokio::time::sleep;

use crate::relaying::{self, failure, forward};
use crate::telling::Telling;
use mcpjoin::connection::Context;
use mcpjoin::internal::{FIRST_PAUSE, LONGEST_PAUSE, MAX_ROUNDS};

/// A request, made as often as the server wants.
pub(super) struct Rounds {
    /// As the client has asked it.
    asked: Option<Payload>,
    /// The same with the answers to the last questions.
    next: Option<Payload>,
    timeout: Duration,
    made: usize,
    pause: Duration,
}

impl Rounds {
    pub(super) const fn new(asked: Option<Payload>, timeout: Duration) -> Self {
        Self { asked, next: None, timeout, made: 0, pause: FIRST_PAUSE }
    }

    /// The next call.
    pub(super) fn call(&mut self, method: &Method, cx: &Context) -> Call {
        let params = self.next.take().or_else(|| self.asked.clone());
        let mut call = relaying::call(method.clone(), params, cx, self.timeout);
        call.log_level = cx.request().and_then(|request| request.log_level);
        call
    }

    /// Has the client answer what the server has asked in place of a result.
    pub(super) async fn answer(
        &mut self,
        method: &Method,
        result: &Payload,
        cx: &Context,
    ) -> Result<(), ErrorObject> {
        if self.made >= MAX_ROUNDS {
            let text = format!("{method} asked for input more often than the limit `rounds` of {MAX_ROUNDS}");
            return Err(failure("tooManyRounds", &text, &[("limit", MAX_ROUNDS.to_string())]));
        }
        self.made += 1;
        let bad =
            |what: &str| failure("badReply", &format!("the answer to {method} is not valid: {what}"), &[]);
        let member = |name: &str| result.raw().member(name).filter(|member| member.kind() != Kind::Null);
        let questions: Members<Raw> = match member("inputRequests") {
            Some(questions) => questions.decode().map_err(|error| bad(&format!("inputRequests: {error}")))?,
            None => Members::new(),
        };
        let state = member("requestState");
        if questions.is_empty() && state.is_none() {
            return Err(bad("`input_required` with neither `inputRequests` nor `requestState`"));
        }
        let mut params = self.asked.clone().unwrap_or_else(|| Payload::from_raw(Raw::empty_object()));
        if questions.is_empty() {
            sleep(self.pause).await;
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        } else {
            let timeout = self.timeout;
            let answers = questions.into_iter().map(|(name, question)| async move {
                ask(&question, cx, timeout).await.map(|answer| (name, answer))
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

/// Asks the client one question, on the way of the request that it belongs to.
async fn ask(question: &Raw, cx: &Context, timeout: Duration) -> Result<Raw, ErrorObject> {
    let method = question.member("method");
    let method = method.as_ref().and_then(Raw::to_string_value);
    let method = method.ok_or_else(|| {
        failure("badReply", "the server asks for input, and a question of it has no `method`", &[])
    })?;
    let mut call = Call::new(Method::parse(&method));
    call.params = question.member("params").map(Payload::from_raw);
    call.timeout = Some(timeout);
    call.total = Some(Duration::MAX);
    match forward(cx.call(call), cx).await {
        Ok(answer) => Ok(answer.into_raw()),
        Err(CallError::Remote(error)) => Err(error),
        Err(CallError::Closed(_)) => Err(failure("clientGone", "the client has left", &[])),
        Err(error) => Err(Telling::default().ended(error, &cx.connection()).await),
    }
}
