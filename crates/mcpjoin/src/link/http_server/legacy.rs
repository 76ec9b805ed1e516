//! Requests of 2025-03-26 to 2025-11-25: they open sessions, and then belong to them.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http>

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Response};
use mcpjoin_proto::decode::Decoded;
use mcpjoin_proto::http::classify::LegacyKind;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::session::{Inbound, Origin};
use mcpjoin_proto::types::CancelledParams;
use mcpjoin_proto::{ErrorObject, Message, Method, Notification, Payload, Profile, RequestId};
use tokio::time::Instant;

use super::body::HttpBody;
use super::events::{EventId, SessionId};
use super::exchange::{Exchange, Owner};
use super::head::RequestHead;
use super::memory::Traffic;
use super::sessions::Session;
use super::wire::{Agreed, Head, Routing, STANDING};
use super::{Came, Shared, gone, reply, request_id};

/// When the response to a request becomes a stream although nothing has to be sent: a client that knows an event of
/// it can come back for the reply when the stream breaks. Not later, because there are clients (rmcp up to 2.2) that send
/// nothing else, no cancellation either, until a response begins.
const PATIENCE: Duration = Duration::from_millis(100);

pub(super) async fn answer(
    shared: &Arc<Shared>,
    kind: LegacyKind,
    head: &RequestHead<'_>,
    session: Option<Arc<Session>>,
    came: Came,
) -> Response<HttpBody> {
    match (kind, session) {
        (LegacyKind::Initialize, None) => initialize(shared, came).await,
        (LegacyKind::Initialize | LegacyKind::Message, Some(session)) => post(shared, session, came).await,
        (LegacyKind::Stream, Some(session)) => match head.last_event_id() {
            Some(after) => resume(shared, session, after, &came).await,
            None => stream(shared, session, came.until),
        },
        (LegacyKind::End, Some(session)) => {
            shared.sessions.end(&session.id);
            reply::bare(204)
        }
        // `classify` refuses what needs a session and has none.
        (_, None) => reply::error(400, None, gone()),
    }
}

/// Opens a session: it is there only when the server has accepted.
async fn initialize(shared: &Arc<Shared>, came: Came) -> Response<HttpBody> {
    let account = came.account.clone();
    let Some((Decoded::Message(message), size, origin)) = came.into_decoded() else {
        return reply::bare(400);
    };
    let Some(id) = request_id(&message).cloned() else { return reply::bare(400) };
    let Some(place) = shared.sessions.reserve(&account) else {
        return reply::unavailable("too many sessions");
    };
    let entry = match shared.open(Routing::Session) {
        Ok(entry) => entry,
        Err(refused) => return *refused,
    };
    entry.wire.charge_to(account);
    let principal = origin.principal.clone();
    let inbound = Inbound::Message { message, origin };
    let holder = match entry.wire.begin(std::slice::from_ref(&id), inbound, size) {
        Ok(holder) => holder,
        Err(refused) => return shared.refused(refused, Some(id)),
    };
    let exchange = Exchange::new(holder, Owner::Once(entry.clone()));
    entry.run();
    let (status, body) = match exchange.head(None).await {
        Head::Json { status, body } => (status, body),
        Head::Stream | Head::Nothing | Head::Closed => {
            return reply::error(500, Some(id), ErrorObject::internal("the session could not be opened"));
        }
    };
    drop(exchange);
    let mut response = reply::json(status, body);
    let agreed = entry.served().version().and_then(|version| Some((Profile::of(&version)?, version)));
    if let Some((profile, version)) = agreed {
        let Some(session) = SessionId::random() else {
            let text = "the system gave no random bytes";
            return reply::error(500, Some(id), ErrorObject::internal(text));
        };
        let Ok(value) = HeaderValue::from_str(&session.to_string()) else { return reply::bare(500) };
        let events = shared.options.events.clone().filter(|_| profile.http_sessions);
        entry.wire.agree(Agreed { profile, session, events, retry: shared.options.retry });
        shared.sessions.insert(place, session, entry, Some(version), principal);
        response.headers_mut().insert(name::SESSION_ID, value);
    }
    response
}

/// A message, or a batch of them, within a session.
async fn post(shared: &Arc<Shared>, session: Arc<Session>, came: Came) -> Response<HttpBody> {
    let Some((decoded, size, origin)) = came.into_decoded() else { return reply::bare(400) };
    let cancelled: Vec<RequestId> = match &decoded {
        Decoded::Message(message) => cancels(message).into_iter().collect(),
        Decoded::Batch(parts) => parts.iter().flatten().filter_map(cancels).collect(),
    };
    let (ids, batch) = owed(&decoded);
    let first = ids.first().cloned();
    let inbound = inbound(decoded, origin);
    let wire = &session.entry.wire;
    if ids.is_empty() && !batch {
        if let Err(refused) = wire.tell(inbound, size) {
            return shared.refused(refused, None);
        }
        session.entry.run();
        cancelled.iter().for_each(|id| wire.cancelled(id));
        return reply::bare(202);
    }
    let holder = match wire.begin(&ids, inbound, size) {
        Ok(holder) => holder,
        Err(refused) => return shared.refused(refused, first),
    };
    let resumable = wire.agreed().is_some_and(|agreed| agreed.events.is_some());
    let patience = if resumable { PATIENCE } else { shared.options.keep_alive };
    let exchange = Exchange::new(holder, Owner::Session(session.clone()));
    session.entry.run();
    cancelled.iter().for_each(|id| wire.cancelled(id));
    let patience = (!shared.options.json_only).then_some(patience);
    match exchange.head(patience).await {
        Head::Json { status, body } => reply::json(status, body),
        Head::Stream => reply::stream(HttpBody::stream([], Some(exchange), shared.options.keep_alive)),
        Head::Nothing => reply::stream(HttpBody::stream([], None, shared.options.keep_alive)),
        Head::Closed => reply::error(404, first, gone()),
    }
}

/// The requests that a POST has brought, and whether they are answered as a batch.
pub(super) fn owed(decoded: &Decoded) -> (Vec<RequestId>, bool) {
    match decoded {
        Decoded::Message(message) => (request_id(message).cloned().into_iter().collect(), false),
        Decoded::Batch(parts) => {
            let ids = parts.iter().flatten().filter_map(request_id).cloned().collect();
            // What is no message is answered too.
            let answers = parts.iter().any(|part| match part {
                Ok(message) => request_id(message).is_some(),
                Err(_) => true,
            });
            (ids, answers)
        }
    }
}

pub(super) fn inbound(decoded: Decoded, origin: Arc<Origin>) -> Inbound {
    match decoded {
        Decoded::Message(message) => Inbound::Message { message, origin },
        Decoded::Batch(parts) => Inbound::Batch { parts, exchange: None, origin },
    }
}

/// The request that a message cancels.
pub(super) fn cancels(message: &Message) -> Option<RequestId> {
    match message {
        Message::Notification(Notification { method: Method::Cancelled, params }) => {
            let params = params.as_ref().map(Payload::raw)?;
            params.decode::<CancelledParams>().ok()?.request_id
        }
        _ => None,
    }
}

/// The stream that belongs to no POST.
fn stream(shared: &Arc<Shared>, session: Arc<Session>, until: Option<Instant>) -> Response<HttpBody> {
    let Some(holder) = session.entry.wire.open_standing() else {
        return reply::refuse(409, "the session has this stream open already");
    };
    let exchange = Exchange::new(holder, Owner::Session(session));
    reply::stream(HttpBody::stream([], Some(exchange), shared.options.keep_alive).until(until))
}

/// A stream that broke, from the event on that the client has seen last.
async fn resume(
    shared: &Arc<Shared>,
    session: Arc<Session>,
    after: &[u8],
    came: &Came,
) -> Response<HttpBody> {
    let after = std::str::from_utf8(after).ok().and_then(|after| EventId::from_str(after).ok());
    let Some(after) = after else {
        return reply::refuse(400, "Last-Event-ID is none of this session's");
    };
    let events = session.entry.wire.agreed().and_then(|agreed| agreed.events.clone());
    let Some(events) = events else {
        return reply::refuse(400, "streams of this session cannot be resumed");
    };
    // From here on, what is new is for us: between it and what the client has seen nothing is lost or doubled.
    let resumed = session.entry.wire.resume(after.stream, after.number);
    let (exchange, before) = match resumed {
        Some((holder, next)) => (Some(Exchange::new(holder, Owner::Session(session.clone()))), next),
        None => (None, u64::MAX),
    };
    let Some(missed) = events.replay(&session.id, after, before).await else {
        return reply::refuse(400, "the events after Last-Event-ID are not kept any more");
    };
    let held = missed.into_iter().map(|event| came.account.hold(Traffic::Responses, event.bytes));
    let ahead: Vec<_> = match held.collect::<Result<_, _>>() {
        Ok(ahead) => ahead,
        Err(full) => return reply::unavailable(&full.to_string()),
    };
    // The stream of a call ends with it.
    let until = came.until.filter(|_| after.stream == STANDING);
    reply::stream(HttpBody::stream(ahead, exchange, shared.options.keep_alive).until(until))
}
