//! Questions that a handler asks by hand, emulated_rounds for those clients that do not make their request again.
//!
//! A handler that answers with an [`InputRequired`] is written for the modern era, where the client brings the
//! answers with its next request: <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>.
//! In the legacy era the questions are requests of our own, and in a task they wait for `tasks/update`; either way
//! the handler is called again here, with the answers that it would have found. Called by what runs handlers.

use std::future::Future;

use mcpjoin_proto::ErrorObject;
use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::InputRequired;
use tokio::time::sleep;

use super::{Context, HandlerError};
use crate::connection::rounds::{FIRST_PAUSE, LONGEST_PAUSE, MAX_ROUNDS};

/// Asks, and calls the handler again, until it has a result.
pub(super) async fn run<F, Fut>(cx: Context, first: InputRequired, handle: F) -> Result<Reply, HandlerError>
where
    F: Fn(Context) -> Fut,
    Fut: Future<Output = Result<Reply, ErrorObject>>,
{
    let (mut input, mut pause) = (first, FIRST_PAUSE);
    for _ in 0..MAX_ROUNDS {
        let questions = input.input_requests.unwrap_or_default();
        if questions.is_empty() {
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        let responses = cx.ask_all(questions).await?;
        match handle(cx.answered(responses, input.request_state)).await {
            Ok(Reply::NeedInput(next)) => input = *next,
            Ok(reply) => return Ok(reply),
            Err(error) => return Err(HandlerError::protocol(error)),
        }
    }
    Err(HandlerError::new(format!("asked {MAX_ROUNDS} times and still needs input")))
}
