//! The `requestState` of a modern server that only this process reaches, such as a program that it has started.
//!
//! A modern server asks by ending a request, and its client repeats the request with the `requestState` that it received. Behind a
//! balancer the next request may arrive at another process, whose server does not know the value. So the value leaves with a mark of
//! this process, to which the others pass the request, and the server gets it back without the mark. Used by `modern`.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

use mcpjoin::transport::Replicas;
use mcpjoin_proto::{Payload, Raw, Request};
use memchr::memmem;

const STATE: &str = "requestState";

/// The type of a result that asks something, as JSON.
const ASKS: &str = "\"input_required\"";

/// Removes the mark of this process from the state of a request.
pub(super) fn restored(replicas: &Replicas, request: Request) -> Request {
    let restore = |params: Payload| {
        let Some(state) = state(&params) else { return params };
        let own = replicas.unmarked(&state);
        if own.len() == state.len() { params } else { params.with_member(STATE, &Raw::string(own)) }
    };
    Request { params: request.params.map(restore), ..request }
}

/// Adds the mark of this process to the state of a result that asks something.
pub(super) fn marked(replicas: &Replicas, result: Payload) -> Payload {
    let raw = result.raw();
    let may_ask = memmem::find(raw.as_bytes(), ASKS.as_bytes()).is_some();
    let asks = may_ask && raw.member("resultType").is_some_and(|kind| kind.as_str() == ASKS);
    match state(&result).filter(|_| asks) {
        Some(state) => result.with_member(STATE, &Raw::string(&replicas.mark(&state))),
        None => result,
    }
}

fn state(of: &Payload) -> Option<String> {
    Some(of.raw().member(STATE)?.to_string_value()?.into_owned())
}
