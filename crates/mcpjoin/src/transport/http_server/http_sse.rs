//! HTTP+SSE, the transport of 2024-11-05: one event stream for the messages of the server, and a second path to which the
//! client posts its messages. The session lives as long as its stream.
//!
//! <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>

use std::sync::Arc;

use bytes::BytesMut;
use http::Method as HttpMethod;
use http::request::Parts;
use mcpjoin_proto::codec::sse::OutgoingEvent;
use mcpjoin_proto::decode::{Decoded, decode};
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::session::Origin;
use mcpjoin_proto::{Message, Method};

use super::body::{HttpBody, RequestBody};
use super::exchange::{Exchange, Owner};
use super::head::{Answer, RequestHead};
use super::legacy::inbound;
use super::memory::Account;
use super::passing::{NamedBy, Passing, pass};
use super::wire::Routing;
use super::{Admitted, Found, Shared, reply};

/// The query parameter of the path for messages.
const PARAMETER: &str = "sessionId";

/// Opens the stream, and with it the session.
pub(super) fn stream(
    shared: &Arc<Shared>,
    parts: &Parts,
    origin: &Origin,
    admitted: Option<Admitted>,
    account: Arc<Account>,
) -> Answer {
    if parts.method != HttpMethod::GET {
        return Err(reply::not_allowed("GET").into());
    }
    RequestHead::new(parts).check_accept(&[MediaType::EventStream])?;
    let place = shared.reserve_session(&account)?;
    let entry = shared.open(Routing::Everything)?;
    entry.wire.charge_to(account);
    let id = shared.new_session_id(origin.principal.as_deref(), None);
    let (id, shown) = id.ok_or_else(|| reply::refuse(500, "the system gave no random bytes"))?;
    let reader = entry.wire.open_get_stream().ok_or_else(|| reply::bare(500))?;
    if shared.options.session_store.is_some() {
        // The stream is the session.
        entry.served().stored(false);
    }
    entry.run();
    let session = shared.sessions.insert(place, id, None, entry, None, origin.principal.clone());
    let exchange = Exchange::new(reader, Owner::Sse { session, shared: shared.clone() });
    // Relative, so that it leads to this server by whatever name the client has reached it.
    let endpoint = format!("{}?{PARAMETER}={shown}", shared.options.messages_path);
    let mut first = BytesMut::new();
    let event =
        OutgoingEvent { name: Some("endpoint"), data: endpoint.as_bytes(), ..OutgoingEvent::default() };
    event.write(&mut first).map_err(|_| reply::bare(500))?;
    let until = admitted.and_then(|admitted| admitted.until);
    let body = HttpBody::stream([first.freeze()], Some(exchange), shared.options.keep_alive);
    Ok(reply::stream(body.until(until)))
}

/// Receives a message. The reply is sent on the stream.
pub(super) async fn message(
    shared: &Arc<Shared>,
    parts: &Parts,
    body: RequestBody,
    origin: Arc<Origin>,
    admitted: Option<Admitted>,
    account: Arc<Account>,
) -> Answer {
    if parts.method != HttpMethod::POST {
        return Err(reply::not_allowed("POST").into());
    }
    RequestHead::new(parts).check_body()?;
    let named = session_parameter(parts);
    let found = match named.map(|named| shared.find_session(named.as_bytes(), parts, &origin)) {
        Some(Found::Here(session)) if session.version.is_none() => Ok(session),
        Some(Found::Elsewhere(replica)) if replica.version.is_none() => Err(replica),
        _ => return Err(reply::refuse(404, "no such session; open the stream first").into()),
    };
    let body = shared.read(body, &account).await?;
    let decoded = decode(&body, &shared.limits.decode)
        .map_err(|error| reply::error(400, error.id.clone(), error.to_error_object()))?;
    if opens(&decoded) && body.len() > shared.options.initialize {
        return Err(shared.too_long_initialize().into());
    }
    shared.allow(admitted.as_ref(), &decoded)?;
    let session = match found {
        Ok(session) => session,
        Err(replica) => {
            // The response to the message comes on the stream.
            let (account, by) = (&account, NamedBy::Session);
            let passing = Passing { body, pending: Vec::new(), origin: &origin, account, parts, by };
            return pass(shared, &replica, passing).await;
        }
    };
    let delivered = session.entry.wire.deliver(inbound(decoded, origin), body.len());
    delivered.map_err(|refused| shared.refused(refused, None))?;
    session.entry.run();
    Ok(reply::bare(202))
}

/// The session that the URL of a message names.
pub(super) fn session_parameter(parts: &Parts) -> Option<&str> {
    let pairs = parts.uri.query().into_iter().flat_map(|query| query.split('&'));
    pairs.filter_map(|pair| pair.split_once('=')).find_map(|(key, value)| (key == PARAMETER).then_some(value))
}

/// Whether the message opens a session.
fn opens(decoded: &Decoded) -> bool {
    matches!(decoded, Decoded::Message(Message::Request(request)) if request.method == Method::Initialize)
}
