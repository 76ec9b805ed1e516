//! A POST of 2026-07-28: it stands for itself.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#sending-messages-to-the-server>

use std::sync::Arc;

use http::Response;
use mcpjoin_proto::decode::Decoded;
use mcpjoin_proto::http::headers::HeaderMismatch;
use mcpjoin_proto::http::params::check_param_headers;
use mcpjoin_proto::session::Inbound;
use mcpjoin_proto::{Message, Method, Payload, Request};

use super::body::HttpBody;
use super::exchange::{Exchange, Owner};
use super::head::RequestHead;
use super::lasting::Listens;
use super::wire::Head;
use super::{Came, Shared, gone, reply};

pub(super) async fn post(shared: &Arc<Shared>, head: &RequestHead<'_>, came: Came) -> Response<HttpBody> {
    let (until, account) = (came.until, came.account.clone());
    let (message, size, origin) = match came.into_decoded() {
        Some((Decoded::Message(message @ Message::Request(_)), size, origin)) => (message, size, origin),
        // The core has no notification that a client sends over HTTP: to cancel is to leave. What an extension
        // has would be told to a server that knows nothing of who sends it.
        Some(_) => return reply::bare(202),
        None => return reply::bare(400),
    };
    let Message::Request(request) = &message else { return reply::bare(202) };
    let (id, listens) = (request.id.clone(), request.method == Method::Listen);
    if let Err(mismatch) = check_params(shared, head, request) {
        return reply::error(400, Some(id), mismatch.to_error_object());
    }
    let entry = match shared.take() {
        Ok(entry) => entry,
        Err(refused) => return *refused,
    };
    entry.wire.charge_to(account);
    let inbound = Inbound::Message { message, origin };
    let holder = match entry.wire.begin_one(id.clone(), inbound, size) {
        Ok(holder) => holder,
        Err(refused) => return shared.refused(refused, Some(id)),
    };
    let exchange = Exchange::new(holder, Owner::Modern { entry: entry.clone(), shared: shared.clone() });
    entry.run();
    drop(entry);
    let patience = (!shared.options.json_only).then_some(shared.options.keep_alive);
    match exchange.head(patience).await {
        Head::Json { status, body } => reply::json(status, body),
        Head::Stream => {
            // The stream of a call ends with it.
            let until = until.filter(|_| listens);
            let body = HttpBody::stream([], Some(exchange), shared.options.keep_alive).until(until);
            let mut response = reply::stream(body);
            if listens {
                response.extensions_mut().insert(Listens);
            }
            response
        }
        Head::Nothing | Head::Closed => reply::error(500, Some(id), gone()),
    }
}

/// The headers that repeat arguments of a tool.
fn check_params(shared: &Shared, head: &RequestHead<'_>, request: &Request) -> Result<(), HeaderMismatch> {
    let (Method::CallTool, Some(params)) = (&request.method, &request.params) else { return Ok(()) };
    let marks = params.name_string().and_then(|name| shared.served.header_marks(&name));
    let Some(marks) = marks else { return Ok(()) };
    check_param_headers(head, &marks, Payload::arguments(params).as_ref())
}
