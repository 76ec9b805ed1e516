//! Streams and sessions of the legacy era: the stream that GET opens, event ids and resumption, the ids and the end of
//! sessions, and the version header of their requests. Also the HTTP+SSE of 2024-11-05, in which a stream names the endpoint
//! for our messages.

use std::collections::{BTreeMap, BTreeSet};

use mcpjoin_proto::Method;
use mcpjoin_proto::http::headers::{Headers, name};
use mcpjoin_proto::http::origin::resolve_same_origin;

use super::{NO_SUCH_REQUEST, each_line, has_result, has_status, is_let_in, probed};
use crate::exchange::Exchange;
use crate::revisions::Revisions;
use crate::rule::{Evidence, Finding, Outcome, Source};
use crate::server_view::ServerView;
use crate::trace::{Probe, What};

const LISTENING: &str = "basic/transports#listening-for-messages-from-the-server";
const RESUMING: &str = "basic/transports#resumability-and-redelivery";
const SENDING: &str = "basic/transports#sending-messages-to-the-server";
const SESSIONS: &str = "basic/transports#session-management";
const VERSIONS: &str = "basic/transports#protocol-version-header";
const NO_SESSION: &str = "the server issued no session id";
pub(crate) const SSE_PAGE: &str =
    "https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse";
/// A server may agree on a later version than the one that has this transport.
const DEMANDED: &[Source] = sources![LEGACY Must SSE_PAGE];
const ADVISED: &[Source] = sources![LEGACY Advice SSE_PAGE];
const NO_STREAM: &str = "no stream was opened";

/// An id of 128 random bits has more characters in any encoding.
const MIN_SESSION_ID_LENGTH: usize = 16;
/// Two ids that differ only in this many bytes at their end are taken for values of a counter.
const COUNTER_BYTES: usize = 6;

rules! {
    pub(crate) RULES for Server in Chapter::StreamableHttp;

    "get-opens-a-stream", [LEGACY_SINCE_SECOND Must LISTENING],
        "A GET opens a stream, or gets the status 405.",
        |view| probed(view, &[Probe::OpenStream], "no stream was requested", |exchange| {
            if exchange.is_stream() || exchange.status() == Some(405) {
                return None;
            }
            let kind = || String::from_utf8_lossy(exchange.header(name::CONTENT_TYPE).unwrap_or_default());
            Some(match exchange.status().filter(|_| exchange.is_success()) {
                Some(status) => {
                    exchange.finding(format_args!("the status is {status}, the content type {:?}", kind()))
                }
                None => exchange.finding(exchange.outcome()),
            })
        });
    "no-response-on-get", [LEGACY_SINCE_SECOND Must LISTENING],
        "A stream that was opened by GET has no response, unless it resumes another stream.",
        else "no stream was opened",
        |view| {
            let opened = view.exchanges.values().filter(|exchange| exchange.is("GET") && exchange.is_stream());
            opened.filter(|exchange| exchange.resumed_after().is_none()).map(|exchange| {
                let (line, ..) = exchange.responses().next()?;
                Some(exchange.finding_in("it has a response", line))
            })
        };
    "event-ids-unique", [LEGACY_SINCE_SECOND Must RESUMING],
        "No two events of a session have the same id, not even on different streams.",
        else "no event has an id",
        |view| {
            let mut known = BTreeSet::new();
            let first = view.exchanges.values().filter(|exchange| exchange.resumed_after().is_none());
            let ids = first.flat_map(|exchange| exchange.event_ids().map(move |id| (exchange, id)));
            ids.filter(|(_, id)| !id.is_empty()).map(move |(exchange, id)| {
                let problem = || format!("the id {} appeared before", String::from_utf8_lossy(id));
                (!known.insert(id)).then(|| exchange.finding(problem()))
            })
        };
    "stream-primed", [LAST_LEGACY Should SENDING],
        "A stream that can be resumed begins with an event that has an id and no data.",
        else "no stream can be resumed: its events have no ids",
        |view| {
            let resumable = versioned_streams(view).filter(|exchange| exchange.event_ids().next().is_some());
            resumable.map(|exchange| {
                let first = exchange.events.first()?;
                let is_primed = first.data.is_empty() && first.id.as_ref().is_some_and(|id| !id.is_empty());
                exchange.finding_if(!is_primed, "its first event has data, or no id")
            })
        };
    "retry-before-closing", [LAST_LEGACY Should SENDING],
        "Before a server closes the connection of an unfinished stream, it sends the waiting time in retry.",
        else "no stream was closed before its response",
        |view| {
            // A stream goes on if its response comes after it is resumed.
            let closed = versioned_streams(view).filter(|exchange| {
                exchange.is_complete() && !exchange.is_answered() && goes_on(view, exchange)
            });
            closed.map(|exchange| exchange.finding_if(exchange.retry.is_none(), "it was closed without \
                retry"))
        };
    "one-stream-each-message", [LEGACY_SINCE_SECOND Must "basic/transports#multiple-connections"],
        "A message is sent on one stream, and not on all open streams.",
        else "no message came on a stream while another was open",
        |view| one_stream(view);
    "resumed-stream", [LEGACY_SINCE_SECOND Must RESUMING],
        "A resumed stream continues after the last event, without events of other streams.",
        else "no stream was resumed",
        |view| {
            let resumed = view.exchanges.values().filter(|it| it.resumed_after().is_some() && it.is_stream());
            resumed.map(|exchange| replayed(view, exchange))
        };
    "session-id-visible", [LEGACY_SINCE_SECOND Must SESSIONS],
        "A session id contains only visible ASCII, from 0x21 to 0x7E.",
        else NO_SESSION,
        |view| session_ids(view).map(|(exchange, id)| match id.iter().find(|byte| !(0x21..=0x7e).contains(*byte)) {
            Some(byte) => Some(exchange.finding(format_args!("the id contains the byte 0x{byte:02X}"))),
            None => exchange.finding_if(id.is_empty(), "the id is empty"),
        });
    "session-id-unguessable", [LEGACY_SINCE_SECOND Should SESSIONS],
        "A session id is unique and cannot be guessed from other ids.",
        else NO_SESSION,
        |view| session_ids(view).map(|(exchange, id)| {
            if id.len() < MIN_SESSION_ID_LENGTH {
                return Some(exchange.finding(format_args!("the id has {} characters", id.len())));
            }
            let problem = earlier_session_ids(view).into_iter().find_map(|other| {
                Some(match counter_bytes(id, other)? {
                    0 => "another session has the same id".to_owned(),
                    rest => format!("the id of another session differs only in its last {rest} bytes"),
                })
            });
            problem.map(|problem| exchange.finding(problem))
        });
    "session-id-required", [LEGACY_SINCE_SECOND Should SESSIONS],
        "A server that requires the session id rejects a request without it with the status 400.",
        else "the server requires no session id",
        |view| {
            let refused = view.exchanged(Probe::NoSession).filter(|it| it.status().is_some() && !it.is_busy() && !it.has_result());
            refused.map(|exchange| has_status(exchange, 400))
        };
    "session-ended", [LEGACY_SINCE_SECOND Advice SESSIONS],
        "A DELETE ends the session, or gets the status 405.",
        |view| probed(view, &[Probe::EndSession], NO_SESSION, |exchange| {
            let is_good = exchange.is_success() || exchange.status() == Some(405);
            (!is_good).then(|| exchange.finding(exchange.outcome()))
        });
    "ended-session-not-found", [LEGACY_SINCE_SECOND Must SESSIONS],
        "A request in a session that has ended is rejected with the status 404.",
        |view| probed(view, &[Probe::EndedSession], "no session was ended", |it| has_status(it, 404));
    "unknown-session-not-found", [LEGACY_SINCE_SECOND Advice SESSIONS],
        "A request in an unknown session, for example after a restart of the server, is rejected with the \
         status 404.",
        |view| probed(view, &[Probe::UnknownSession], NO_SESSION, |it| has_status(it, 404));
    "bad-version-header-refused", [LEGACY_SINCE_THIRD Must VERSIONS],
        "A request with an unsupported MCP-Protocol-Version is rejected with the status 400.",
        |view| probed(view, &[Probe::BadVersionHeader], NO_SUCH_REQUEST, |it| has_status(it, 400));
    "version-header-may-lack", [LEGACY_SINCE_THIRD Should VERSIONS],
        "A request without MCP-Protocol-Version and without a session is taken for one of 2025-03-26.",
        |view| {
            // A session names its version, and in that version a client must send the header.
            let is_named = |exchange: &Exchange<'_>| exchange.request.headers.value(name::SESSION_ID).is_some();
            if view.exchanged(Probe::NoVersionHeader).any(is_named) || !view.opens(Revisions::BATCHING) {
                return Outcome::Skipped("the server has sessions, or does not support 2025-03-26");
            }
            probed(view, &[Probe::NoVersionHeader], NO_SUCH_REQUEST, has_result)
        };
}

rules! {
    pub(crate) SSE_RULES for Server in Chapter::HttpSse;

    "sse-origin-validated", DEMANDED,
        "A request from a page of another origin is rejected.",
        |view| probed(view, &[Probe::ForeignOrigin], "no request came from another origin", is_let_in);
    "sse-endpoint-first", DEMANDED,
        "A GET opens a stream, and its first event is endpoint with the URL for messages.",
        |view| probed(view, &[Probe::OpenStream], NO_STREAM, |exchange| {
            if !exchange.is_stream() {
                return Some(exchange.finding(format_args!("no stream was opened: {}", exchange.outcome())));
            }
            match exchange.events.first() {
                None => Some(exchange.finding("received no event")),
                Some(event) if event.name.as_deref() != Some(b"endpoint") => {
                    Some(exchange.finding("the first event is another one"))
                }
                Some(event) => exchange.finding_if(event.data.is_empty(), "the event endpoint is empty"),
            }
        });
    "sse-endpoint-here", ADVISED,
        "The URL for messages has the origin of the stream: clients use no other origin.",
        else NO_STREAM,
        |view| view.exchanges.values().filter_map(|exchange| {
            let address = endpoint(exchange)?;
            let resolved = resolve_same_origin(&exchange.request.url, &address);
            Some(resolved.err().map(|why| exchange.finding(format_args!("{address:?}: {why}"))))
        });
    "sse-post-accepted", ADVISED,
        "A message to that URL is accepted with a status from 200 to 299.",
        else "no message was posted",
        |view| {
            let refusable = [Probe::ForeignOrigin, Probe::AfterStream, Probe::StrayAnswer];
            let posts = view.exchanges.values().filter(move |exchange| {
                let has_message = exchange.has_request() || exchange.needs_no_response();
                exchange.is("POST") && has_message && !refusable.contains(&exchange.probe)
            });
            posts.map(|exchange| (!exchange.is_success()).then(|| exchange.finding(exchange.outcome())))
        };
    "sse-answers-on-stream", DEMANDED,
        "Messages of the server arrive on the stream, and not in the response to a POST.",
        else "no message was posted",
        |view| view.exchanges.values().filter(|it| it.is("POST") && it.is_success()).map(|exchange| {
            let (line, _) = exchange.lines.first()?;
            Some(exchange.finding_in("the response to the POST contains a message", line))
        });
    "sse-events-named", DEMANDED,
        "The events with the server's messages are named message.",
        else "the server sent no message",
        |view| view.exchanges.values().filter(|exchange| exchange.is("GET")).flat_map(|exchange| {
            exchange.lines.iter().map(move |(line, name)| {
                let name = name.filter(|name| **name != "message")?;
                let problem = format!("the event is named {:?}", String::from_utf8_lossy(name));
                Some(exchange.finding_in(problem, line))
            })
        });
    "sse-data-is-message", DEMANDED,
        "The data of each event that is named message is a JSON message.",
        each_line;
    "sse-session-ends", ADVISED,
        "The session ends with its stream: later POSTs are rejected.",
        |view| probed(view, &[Probe::AfterStream], "nothing was posted after the end of the stream", is_let_in);
}

/// The streams that answer a POST with a version. Without a version, the server cannot know what its client supports.
fn versioned_streams<'s, 'a>(view: &'s ServerView<'a>) -> impl Iterator<Item = &'s Exchange<'a>> {
    let streams = view.exchanges.values().filter(|exchange| exchange.is("POST") && exchange.is_stream());
    streams.filter(|exchange| exchange.request.headers.value(name::PROTOCOL_VERSION).is_some())
}

/// Whether the response that a stream lacks came after the stream was resumed.
fn goes_on(view: &ServerView<'_>, exchange: &Exchange<'_>) -> bool {
    let has = |after: &[u8]| exchange.event_ids().any(|id| id == after);
    let rest = view.exchanges.values().filter(|other| other.resumed_after().is_some_and(has));
    rest.flat_map(Exchange::responses)
        .any(|(_, id, _)| exchange.requests().any(|request| Some(&request.id) == id))
}

/// Finds messages that were sent on two streams. Two equal messages are one message: two requests have two ids, and progress
/// increases. A resumed stream repeats the first stream and is no other.
fn one_stream(view: &ServerView<'_>) -> Vec<Option<Finding>> {
    let is_first = |exchange: &&Exchange<'_>| exchange.resumed_after().is_none();
    let mut first = view.exchanges.values().filter(is_first);
    let is_open = first.any(|exchange| exchange.is("GET") && exchange.is_stream());
    let requests = view.requests.iter().map(|request| (request.exchange, request.line));
    let progress = view.notified(&Method::Progress).map(|it| (it.exchange, it.line));
    let mut known = BTreeMap::new();
    let mut findings = Vec::new();
    for (number, line) in requests.chain(progress).filter(|_| is_open) {
        let exchange = number.and_then(|number| view.exchanges.get(&number));
        let Some(exchange) = exchange.filter(is_first) else { continue };
        let earlier = known.insert(line.bytes(), number);
        if exchange.is("POST") || earlier.is_some() {
            let is_twice = earlier.is_some_and(|earlier| earlier != number);
            findings.push(is_twice.then(|| exchange.finding_in("it also came on another stream", line)));
        }
    }
    findings
}

/// Checks a resumed stream.
fn replayed(view: &ServerView<'_>, exchange: &Exchange<'_>) -> Option<Finding> {
    let after = exchange.resumed_after()?;
    let mut first = view.exchanges.values().filter(|first| first.resumed_after().is_none());
    let first = first.find(|first| first.event_ids().any(|id| id == after))?;
    for (line, id, _) in exchange.responses() {
        if !first.requests().any(|request| Some(&request.id) == id) {
            return Some(exchange.finding_in("the response belongs to another stream", line));
        }
    }
    let mut earlier: BTreeSet<&[u8]> = first.event_ids().take_while(|id| *id != after).collect();
    earlier.insert(after);
    let repeated = exchange.event_ids().find(|id| earlier.contains(id))?;
    Some(exchange.finding(format_args!("the event {} came a second time", String::from_utf8_lossy(repeated))))
}

/// The responses that have a session id.
fn session_ids<'s, 'a>(view: &'s ServerView<'a>) -> impl Iterator<Item = (&'s Exchange<'a>, &'a [u8])> {
    view.exchanges.values().filter_map(|exchange| Some((exchange, exchange.header(name::SESSION_ID)?)))
}

/// The session ids of earlier runs.
fn earlier_session_ids<'a>(view: &ServerView<'a>) -> Vec<&'a [u8]> {
    let runs = view.trace.runs.iter().take_while(|run| !std::ptr::eq(*run, view.run));
    let heads = runs.flat_map(|run| &run.events).filter_map(|event| match &event.what {
        What::Responded(response) => response.headers.value(name::SESSION_ID),
        _ => None,
    });
    let mut ids: Vec<&[u8]> = heads.collect();
    ids.dedup();
    ids
}

/// The number of bytes at their end in which two ids differ, if they look like values of a counter.
pub(crate) fn counter_bytes(one: &[u8], other: &[u8]) -> Option<usize> {
    let same = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let rest = one.len() - same;
    (one.len() == other.len() && rest <= COUNTER_BYTES).then_some(rest)
}

/// The address that a stream names.
fn endpoint(exchange: &Exchange<'_>) -> Option<String> {
    let first = exchange.events.first().filter(|event| event.name.as_deref() == Some(b"endpoint"))?;
    (!first.data.is_empty()).then(|| String::from_utf8_lossy(&first.data).into_owned())
}
