//! A POST of 2026-07-28: it stands for itself.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#sending-messages-to-the-server>

use std::sync::Arc;

use http::Response;
use mcpjoin_proto::Message;
use mcpjoin_proto::decode::Decoded;
use mcpjoin_proto::session::Inbound;

use super::body::HttpBody;
use super::exchange::{Exchange, Owner};
use super::wire::Head;
use super::{Came, Shared, gone, reply};

pub(super) async fn post(shared: &Arc<Shared>, came: Came) -> Response<HttpBody> {
    let (message, size, origin) = match came.into_decoded() {
        Some((Decoded::Message(message @ Message::Request(_)), size, origin)) => (message, size, origin),
        // The core has no notification that a client sends over HTTP: to cancel is to leave. What an extension
        // has would be told to a server that knows nothing of who sends it.
        Some(_) => return reply::bare(202),
        None => return reply::bare(400),
    };
    let Message::Request(request) = &message else { return reply::bare(202) };
    let id = request.id.clone();
    let Some(entry) = shared.take() else {
        return reply::refuse(500, "the service was called outside of a tokio runtime");
    };
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
        Head::Stream => reply::stream(HttpBody::stream([], Some(exchange), shared.options.keep_alive)),
        Head::Nothing | Head::Closed => reply::error(500, Some(id), gone()),
    }
}
