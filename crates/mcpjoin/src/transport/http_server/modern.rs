//! A POST of 2026-07-28, which is independent of all others.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#sending-messages-to-the-server>

use std::sync::Arc;

use mcpjoin_proto::decode::Decoded;
use mcpjoin_proto::http::headers::HeaderMismatch;
use mcpjoin_proto::http::params::check_param_headers;
use mcpjoin_proto::session::{Inbound, Origin};
use mcpjoin_proto::{Message, Method, Payload, Request};

use super::body::HttpBody;
use super::exchange::{Exchange, Owner};
use super::head::{Answer, RequestHead};
use super::long_lived::Listens;
use super::wire::Head;
use super::{Received, Shared, gone, reply};

pub(super) async fn post(shared: &Arc<Shared>, head: &RequestHead<'_>, received: Received) -> Answer {
    let (until, account) = (received.until, received.account.clone());
    let (Decoded::Message(message @ Message::Request(_)), size, origin) = received.into_decoded()? else {
        // The core has no notification from client to server over HTTP: a client cancels by disconnecting. A notification of
        // an extension would reach a server that cannot know its sender.
        return Ok(reply::bare(202));
    };
    let Message::Request(request) = &message else { return Ok(reply::bare(202)) };
    let (id, listens) = (request.id.clone(), request.method == Method::Listen);
    check_params(shared, head, request, &origin)
        .map_err(|mismatch| reply::error(400, Some(id.clone()), mismatch.to_error_object()))?;
    let entry = shared.take()?;
    entry.wire.charge_to(account);
    let inbound = Inbound::Message { message, origin };
    let reader = entry.wire.begin_one(id.clone(), inbound, size);
    let reader = reader.map_err(|refused| shared.refused(refused, Some(id.clone())))?;
    let exchange = Exchange::new(reader, Owner::Modern { entry: entry.clone(), shared: shared.clone() });
    entry.run();
    drop(entry);
    let timeout = (!shared.options.json_only).then_some(shared.options.keep_alive);
    Ok(match exchange.head(timeout).await {
        Head::Json { status, body } => reply::json(status, body),
        Head::Stream => {
            // The stream of a call ends with the call.
            let until = until.filter(|_| listens);
            let body = HttpBody::stream([], Some(exchange), shared.options.keep_alive).until(until);
            let mut response = reply::stream(body);
            if listens {
                response.extensions_mut().insert(Listens);
            }
            response
        }
        Head::Nothing | Head::Closed | Head::Lost => reply::error(500, Some(id), gone()),
    })
}

/// Checks the headers that repeat arguments of a tool.
fn check_params(
    shared: &Shared,
    head: &RequestHead<'_>,
    request: &Request,
    client: &Origin,
) -> Result<(), HeaderMismatch> {
    let (Method::CallTool, Some(params)) = (&request.method, &request.params) else { return Ok(()) };
    let marks = params.name_string().and_then(|name| shared.served.header_marks(&name, client));
    let Some(marks) = marks else { return Ok(()) };
    check_param_headers(head, &marks, Payload::arguments(params).as_ref())
}
