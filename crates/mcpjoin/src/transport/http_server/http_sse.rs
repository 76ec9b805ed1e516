//! HTTP+SSE, the transport of 2024-11-05: one event stream for the messages of the server, and a second path to which the
//! client posts its messages. The session lives as long as its stream.
//!
//! <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{Method as HttpMethod, Response};
use http_body::Body;
use mcpjoin_proto::codec::sse::OutgoingEvent;
use mcpjoin_proto::decode::{Decoded, decode};
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::session::Origin;
use mcpjoin_proto::{Message, Method};

use super::body::{HttpBody, read};
use super::events::SessionId;
use super::exchange::{Exchange, Owner};
use super::head::RequestHead;
use super::legacy::inbound;
use super::memory::Account;
use super::wire::Routing;
use super::{Admitted, Shared, reply};

/// The query parameter of the path for messages.
const PARAMETER: &str = "sessionId";

/// Opens the stream, and with it the session.
pub(super) fn stream(
    shared: &Arc<Shared>,
    parts: &Parts,
    origin: &Origin,
    admitted: Option<Admitted>,
    account: Arc<Account>,
) -> Response<HttpBody> {
    if parts.method != HttpMethod::GET {
        return reply::not_allowed("GET");
    }
    if let Err(refused) = RequestHead::new(parts).check_accept(&[MediaType::EventStream]) {
        return *refused;
    }
    let Some(place) = shared.sessions.reserve(&account) else {
        return reply::unavailable("too many sessions");
    };
    let entry = match shared.open(Routing::Everything) {
        Ok(entry) => entry,
        Err(refused) => return *refused,
    };
    entry.wire.charge_to(account);
    let Some(id) = SessionId::random() else {
        return reply::refuse(500, "the system gave no random bytes");
    };
    let Some(reader) = entry.wire.open_get_stream() else { return reply::bare(500) };
    entry.run();
    let session = shared.sessions.insert(place, id, entry, None, origin.principal.clone());
    let exchange = Exchange::new(reader, Owner::Sse { session, shared: shared.clone() });
    // Relative, so that it leads to this server by whatever name the client has reached it.
    let endpoint = format!("{}?{PARAMETER}={id}", shared.options.messages_path);
    let mut first = BytesMut::new();
    let event =
        OutgoingEvent { name: Some("endpoint"), data: endpoint.as_bytes(), ..OutgoingEvent::default() };
    if event.write(&mut first).is_err() {
        return reply::bare(500);
    }
    let until = admitted.and_then(|admitted| admitted.until);
    reply::stream(HttpBody::stream([first.freeze()], Some(exchange), shared.options.keep_alive).until(until))
}

/// Receives a message. The reply is sent on the stream.
pub(super) async fn message<B>(
    shared: &Arc<Shared>,
    parts: &Parts,
    body: B,
    origin: Arc<Origin>,
    admitted: Option<Admitted>,
    account: Arc<Account>,
) -> Response<HttpBody>
where
    B: Body<Data = Bytes> + Send + 'static,
{
    if parts.method != HttpMethod::POST {
        return reply::not_allowed("POST");
    }
    if let Err(refused) = RequestHead::new(parts).check_body() {
        return *refused;
    }
    let named = parts.uri.query().into_iter().flat_map(|query| query.split('&')).find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (key == PARAMETER).then(|| SessionId::parse(value.as_bytes()))?
    });
    let session = named.and_then(|id| shared.sessions.find(&id, origin.principal.as_deref()));
    let Some(session) = session.filter(|session| session.version.is_none()) else {
        return reply::refuse(404, "no such session; open the stream first");
    };
    let body = match read(body, shared.limits.message, shared.options.body_time, &account).await {
        Ok(body) => body,
        Err(unread) => return shared.unread(unread),
    };
    let inbound = match decode(&body, &shared.limits.decode) {
        Ok(decoded) if opens(&decoded) && body.len() > shared.options.initialize => {
            return shared.too_long_initialize();
        }
        Ok(decoded) => match shared.allow(admitted.as_ref(), &decoded) {
            Ok(()) => inbound(decoded, origin),
            Err(refused) => return *refused,
        },
        Err(error) => return reply::error(400, error.id.clone(), error.to_error_object()),
    };
    if let Err(refused) = session.entry.wire.deliver(inbound, body.len()) {
        return shared.refused(refused, None);
    }
    session.entry.run();
    reply::bare(202)
}

/// Whether the message opens a session.
fn opens(decoded: &Decoded) -> bool {
    matches!(decoded, Decoded::Message(Message::Request(request)) if request.method == Method::Initialize)
}
