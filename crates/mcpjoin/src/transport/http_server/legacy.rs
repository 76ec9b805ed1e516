//! Requests of 2025-03-26 to 2025-11-25: `initialize` opens a session, all others belong to one.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http>

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use mcpjoin_proto::decode::Decoded;
use mcpjoin_proto::http::classify::LegacyKind;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::session::{Inbound, Origin};
use mcpjoin_proto::types::{CancelledParams, ProtocolType};
use mcpjoin_proto::{ErrorObject, Message, Method, Notification, Payload, Profile, RequestId, Version};
use tokio::time::Instant;

use super::body::HttpBody;
use super::entry::Entry;
use super::events::{EventId, Replayed, SessionId, StreamEnd};
use super::exchange::{Exchange, Owner};
use super::head::{Answer, RequestHead};
use super::memory::Traffic;
use super::passing::errors;
use super::reopening::{initialized, is_stored_id};
use super::session_store::SessionRecord;
use super::sessions::{Place, Problem, Session};
use super::wire::{GET_STREAM, Head, Negotiated, Routing};
use super::{HttpOptions, Received, Shared, gone, reply, request_id};

/// When the response to a request becomes a stream although there is nothing to send: a client that has received an event
/// can resume the stream and gets the reply even if the stream breaks. Not later, because some clients (rmcp up to 2.2) send
/// nothing else, not even a cancellation, until a response begins.
const STREAM_DELAY: Duration = Duration::from_millis(100);

/// The number of the event that ends a stream in the place of a process that is gone: nothing follows it.
const BEHIND_ALL: u64 = u64::MAX;

/// The end of a request that was in progress when its session has ended.
const SESSION_ENDED: &str = "the session has ended, and may have processed the request";

/// The end of a request whose stream is resumed after the end of its process.
const PROCESS_ENDED: &str =
    "the process that handled this request has ended without a response, and may have processed the request";

pub(super) async fn answer(
    shared: &Arc<Shared>,
    kind: LegacyKind,
    head: &RequestHead<'_>,
    session: Option<Arc<Session>>,
    received: Received,
) -> Answer {
    match (kind, session) {
        (LegacyKind::Initialize, None) => initialize(shared, received).await,
        (LegacyKind::Initialize | LegacyKind::Message, Some(session)) => {
            post(shared, session, received).await
        }
        (LegacyKind::Stream, Some(session)) => match head.last_event_id() {
            Some(after) => resume(shared, session, after, &received).await,
            None => stream(shared, session, received.until),
        },
        (LegacyKind::End, Some(session)) => end(shared, session).await,
        // `classify` refuses a message that needs a session and has none.
        (_, None) => Err(reply::error(400, None, gone()).into()),
    }
}

/// Opens a session, once the server has accepted `initialize`.
async fn initialize(shared: &Arc<Shared>, received: Received) -> Answer {
    let account = received.account.clone();
    let (Decoded::Message(message), size, origin) = received.into_decoded()? else {
        return Err(reply::bare(400).into());
    };
    let id = request_id(&message).cloned().ok_or_else(|| reply::bare(400))?;
    let store = shared.options.session_store.as_ref();
    let params = match (&message, store) {
        (Message::Request(request), Some(_)) => request.params.as_ref().map(|params| params.raw().clone()),
        _ => None,
    };
    let place = shared.reserve_session(&account)?;
    let entry = shared.open(Routing::Session)?;
    entry.wire.charge_to(account.clone());
    let principal = origin.principal.clone();
    let inbound = Inbound::Message { message, origin: origin.clone() };
    let reader = entry.wire.begin(std::slice::from_ref(&id), inbound, size);
    let reader = reader.map_err(|refused| shared.refused(refused, Some(id.clone())))?;
    let exchange = Exchange::new(reader, Owner::Once(entry.clone()));
    entry.run();
    let failed = |text: &str| reply::error(500, Some(id.clone()), ErrorObject::internal(text));
    let Head::Json { status, body } = exchange.head(None).await else {
        return Err(failed("the session could not be opened").into());
    };
    drop(exchange);
    let mut response = reply::json(status, body);
    let agreed = entry.served().version().and_then(|version| Some((Profile::of(&version)?, version)));
    if let Some((profile, version)) = agreed {
        let mut stored: Option<Box<str>> = None;
        if let (Some(store), Some(params)) = (store, params) {
            let mut record = SessionRecord::new(params);
            record.principal.clone_from(&principal);
            record.state = entry.served().state();
            stored = store.create(&record).await.map(|id| id.map(Into::into)).map_err(|error| {
                shared.sessions.warn(Problem::Store, &account, &error.to_string());
                reply::unavailable(&error.to_string())
            })?;
        }
        if stored.as_deref().is_some_and(|id| !is_stored_id(id)) {
            return Err(failed("the session store gave an id that cannot be sent").into());
        }
        let (session, value) = match &stored {
            Some(id) => (SessionId::of_stored(id), id.to_string()),
            None => shared
                .new_session_id(principal.as_deref(), Some(&version))
                .ok_or_else(|| failed("the system gave no random bytes"))?,
        };
        let value = HeaderValue::from_str(&value).map_err(|_| reply::bare(500))?;
        if stored.is_some() {
            // That of the client may come to another process. It changes nothing if it comes here as well.
            initialized(&entry, &origin);
        }
        insert(shared, place, entry, profile, version, principal, session, stored);
        response.headers_mut().insert(name::SESSION_ID, value);
    }
    Ok(response)
}

/// Inserts a session that is open. `stored`: its id in the store, if it is stored.
#[allow(clippy::too_many_arguments, reason = "what a session consists of, from two callers")]
pub(super) fn insert(
    shared: &Arc<Shared>,
    place: Place,
    entry: Arc<Entry>,
    profile: &'static Profile,
    version: Version,
    principal: Option<Box<str>>,
    session: SessionId,
    stored: Option<Box<str>>,
) {
    // The events of a stored session are useful only if every process has them, and those of another session only here.
    let HttpOptions { events, shared_events, .. } = &shared.options;
    let events = if stored.is_some() { shared_events } else { events };
    let events = events.clone().filter(|_| profile.http_sessions);
    let before_streams = if stored.is_some() && events.is_some() { random_number() } else { Some(0) };
    // Without random numbers no stream can be told from those of other processes.
    let events = events.filter(|_| before_streams.is_some());
    let (before_streams, retry) = (before_streams.unwrap_or(0), shared.options.retry);
    entry.wire.set_negotiated(Negotiated { profile, session, events, before_streams, retry });
    if shared.options.session_store.is_some() {
        entry.served().stored(stored.is_some());
    }
    shared.sessions.insert(place, session, stored, entry, Some(version), principal);
}

/// A random number above 0 with 61 bits: no two processes have the same, and adding the streams of a session does not overflow.
fn random_number() -> Option<u64> {
    getrandom::u64().ok().map(|number| (number >> 3).max(1))
}

/// Ends a session at the request of its client.
async fn end(shared: &Arc<Shared>, session: Arc<Session>) -> Answer {
    if let (Some(store), Some(id)) = (&shared.options.session_store, &session.stored) {
        store.end(id).await.map_err(|error| {
            shared.sessions.warn(Problem::Store, &session.account, &error.to_string());
            reply::unavailable(&error.to_string())
        })?;
        session.entry.served().ended();
        if let Some(events) = &shared.options.shared_events {
            events.forget(&session.id);
        }
    }
    shared.sessions.end(&session.id);
    Ok(reply::bare(204))
}

/// Receives a message or a batch in a session.
async fn post(shared: &Arc<Shared>, session: Arc<Session>, received: Received) -> Answer {
    let (decoded, size, origin) = received.into_decoded()?;
    let cancelled: Vec<RequestId> = match &decoded {
        Decoded::Message(message) => cancels(message).into_iter().collect(),
        Decoded::Batch(parts) => parts.iter().flatten().filter_map(cancels).collect(),
    };
    let (ids, batch) = pending_requests(&decoded);
    let first = ids.first().cloned();
    let inbound = inbound(decoded, origin);
    let wire = &session.entry.wire;
    if ids.is_empty() && !batch {
        wire.deliver(inbound, size).map_err(|refused| shared.refused(refused, None))?;
        session.entry.run();
        cancelled.iter().for_each(|id| wire.cancelled(id));
        return Ok(reply::bare(202));
    }
    let reader = wire.begin(&ids, inbound, size);
    let reader = reader.map_err(|refused| shared.refused(refused, first.clone()))?;
    let resumable = wire.agreed().is_some_and(|agreed| agreed.events.is_some());
    let timeout = if resumable { STREAM_DELAY } else { shared.options.keep_alive };
    let exchange = Exchange::new(reader, Owner::Session(session.clone()));
    session.entry.run();
    cancelled.iter().for_each(|id| wire.cancelled(id));
    let timeout = (!shared.options.json_only).then_some(timeout);
    Ok(match exchange.head(timeout).await {
        Head::Json { status, body } => reply::json(status, body),
        Head::Stream => reply::stream(HttpBody::stream([], Some(exchange), shared.options.keep_alive)),
        Head::Nothing => reply::stream(HttpBody::stream([], None, shared.options.keep_alive)),
        Head::Closed => reply::error(404, first, gone()),
        // Not 404: a client opens another session then, and may send the request again.
        Head::Lost => reply::error(500, first, ErrorObject::internal(SESSION_ENDED)),
    })
}

/// The requests of a POST, and whether they are a batch.
pub(super) fn pending_requests(decoded: &Decoded) -> (Vec<RequestId>, bool) {
    match decoded {
        Decoded::Message(message) => (request_id(message).cloned().into_iter().collect(), false),
        Decoded::Batch(parts) => {
            let ids = parts.iter().flatten().filter_map(request_id).cloned().collect();
            // An invalid part gets an error reply, too.
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
            CancelledParams::read(params).ok()?.request_id
        }
        _ => None,
    }
}

/// Opens the GET stream.
fn stream(shared: &Arc<Shared>, session: Arc<Session>, until: Option<Instant>) -> Answer {
    let open = || reply::refuse(409, "the session has this stream open already");
    let reader = session.entry.wire.open_get_stream().ok_or_else(open)?;
    session.listener_changed();
    let exchange = Exchange::new(reader, Owner::Session(session));
    Ok(reply::stream(HttpBody::stream([], Some(exchange), shared.options.keep_alive).until(until)))
}

/// Resumes a broken stream behind the event that the client has received last. A stream that is over and of which nothing was missed
/// is refused with 405: there is no stream to offer. An empty stream would be taken for one that has broken again.
async fn resume(shared: &Arc<Shared>, session: Arc<Session>, after: &[u8], received: &Received) -> Answer {
    let after = std::str::from_utf8(after).ok().and_then(|after| EventId::from_str(after).ok());
    let after = after.ok_or_else(|| reply::refuse(400, "Last-Event-ID does not belong to this session"))?;
    let is_over = || reply::not_allowed("POST, DELETE");
    if after.number == BEHIND_ALL {
        return Err(is_over().into());
    }
    let events = session.entry.wire.agreed().and_then(|agreed| agreed.events.clone());
    let events = events.ok_or_else(|| reply::refuse(400, "streams of this session cannot be resumed"))?;
    // From here on, new events go to this reader: no event between them and those from the store is lost or sent twice.
    let wire = &session.entry.wire;
    let is_elsewhere = wire.is_get_stream_elsewhere(after.stream);
    let resumed = match is_elsewhere {
        true => wire.take_over_get_stream().map(|reader| (reader, u64::MAX)),
        false => wire.resume(after.stream, after.number),
    };
    let (exchange, before) = match resumed {
        Some((reader, next)) => (Some(Exchange::new(reader, Owner::Session(session.clone()))), next),
        None => (None, u64::MAX),
    };
    let is_get_stream = is_elsewhere || after.stream == wire.named(GET_STREAM);
    session.listener_changed();
    let missed = events.replay(&session.id, after, before).await.map_err(|error| {
        shared.sessions.warn(Problem::Store, &session.account, &error.to_string());
        reply::unavailable(&error.to_string())
    })?;
    let Replayed { events: missed, end } =
        missed.ok_or_else(|| reply::refuse(400, "the events after Last-Event-ID are no longer stored"))?;
    let mut missed: Vec<_> =
        missed.into_iter().map(|event| event.bytes).filter(|bytes| !bytes.is_empty()).collect();
    match end {
        // This process has the stream and knows better.
        _ if exchange.is_some() => {}
        StreamEnd::Ended if missed.is_empty() => return Err(is_over().into()),
        StreamEnd::ProcessGone(requests) if requests.is_empty() => {
            return Err(reply::refuse(400, PROCESS_ENDED).into());
        }
        StreamEnd::ProcessGone(requests) => {
            let behind = EventId { number: BEHIND_ALL, ..after };
            missed.push(errors(&requests, PROCESS_ENDED, Some(behind)));
        }
        StreamEnd::Open | StreamEnd::Ended => {}
    }
    let held = missed.into_iter().map(|bytes| received.account.hold(Traffic::Responses, bytes));
    let ahead: Vec<_> =
        held.collect::<Result<_, _>>().map_err(|full| reply::unavailable(&full.to_string()))?;
    // The stream of a call ends with the call.
    let until = received.until.filter(|_| is_get_stream);
    Ok(reply::stream(HttpBody::stream(ahead, exchange, shared.options.keep_alive).until(until)))
}
