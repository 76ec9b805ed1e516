//! Streams of the legacy era: the one that GET opens, ids of events, resumption.

use std::collections::{BTreeMap, BTreeSet};

use mcpjoin_proto::Method;
use mcpjoin_proto::http::headers::{Headers, name};

use super::probed;
use crate::exchange::{BodyEnd, Exchange};
use crate::rule::{Finding, Outcome};
use crate::server_view::ServerView;
use crate::trace::Probe;

const LISTENING: &str = "basic/transports#listening-for-messages-from-the-server";
const RESUMING: &str = "basic/transports#resumability-and-redelivery";

rules! {
    pub(crate) RULES for Server in Chapter::StreamableHttp;

    "get-opens-a-stream", [LEGACY_SINCE_SECOND Must LISTENING],
        "A GET opens a stream, or is answered with the status 405.",
        |view| {
            probed(view, &[Probe::OpenStream], "no stream was asked for", |exchange| {
                let good = exchange.is_stream() || exchange.status() == Some(405);
                let kind = || String::from_utf8_lossy(exchange.header("content-type").unwrap_or_default());
                let problem = match exchange.is_success() {
                    true => format!(
                        "the status is {}, the content type {:?}",
                        exchange.status().unwrap_or(0),
                        kind()
                    ),
                    false => exchange.outcome(),
                };
                (!good).then(|| exchange.finding(problem))
            })
        };
    "no-response-on-get", [LEGACY_SINCE_SECOND Must LISTENING],
        "The stream that a GET opens brings no response, unless it resumes another.",
        |view| {
            let opened = view.exchanges.values().filter(|exchange| {
                exchange.is("GET") && exchange.is_stream() && exchange.resumed_after().is_none()
            });
            let findings = opened.map(|exchange| {
                let (line, ..) = exchange.responses().next()?;
                Some(exchange.finding_in("a response came on it", line))
            });
            Outcome::of(findings, "no stream was opened")
        };
    "event-ids-unique", [LEGACY_SINCE_SECOND Must RESUMING],
        "No two events of a session have the same id, on whatever streams they come.",
        |view| {
            let mut known = BTreeMap::new();
            let fresh = view.exchanges.values().filter(|exchange| exchange.resumed_after().is_none());
            let findings =
                fresh.flat_map(|exchange| exchange.events.iter().map(move |event| (exchange, event)));
            let findings = findings.filter_map(|(exchange, event)| {
                let id = event.id.as_ref().filter(|id| !id.is_empty())?;
                let problem = || format!("the id {} came before", String::from_utf8_lossy(id));
                Some(known.insert(id, ()).map(|()| exchange.finding(problem())))
            });
            Outcome::of(findings, "no event has an id")
        };
    "stream-primed", [LAST_LEGACY Should "basic/transports#sending-messages-to-the-server"],
        "A stream that can be resumed begins with an event that has an id and no data.",
        |view| {
            let resumable = view.exchanges.values().filter(|exchange| {
                exchange.is("POST")
                    && exchange.is_stream()
                    && is_versioned(exchange)
                    && exchange.events.iter().any(|event| event.id.is_some())
            });
            let findings = resumable.map(|exchange| {
                let first = exchange.events.first()?;
                let primed = first.data.is_empty() && first.id.as_ref().is_some_and(|id| !id.is_empty());
                (!primed).then(|| exchange.finding("its first event has data, or no id"))
            });
            Outcome::of(findings, "no stream can be resumed: its events have no ids")
        };
    "retry-before-closing", [LAST_LEGACY Should "basic/transports#sending-messages-to-the-server"],
        "Before a server closes the connection of a stream that goes on, it says with retry how long to wait.",
        |view| {
            // That a stream goes on is seen when what is still to come on it comes later.
            let closed = view.exchanges.values().filter(|exchange| {
                exchange.is("POST")
                    && exchange.is_stream()
                    && is_versioned(exchange)
                    && matches!(exchange.end, Some((_, BodyEnd::Complete)))
                    && !exchange.is_answered()
                    && goes_on(view, exchange)
            });
            let findings = closed.map(|exchange| {
                (!exchange.has_retry).then(|| exchange.finding("it was closed, and no retry had come"))
            });
            Outcome::of(findings, "no stream was closed before its response")
        };
    "one-stream-each-message", [LEGACY_SINCE_SECOND Must "basic/transports#multiple-connections"],
        "A message is sent on one stream, and not on all that are open.",
        one_stream;
    "resumed-stream", [LEGACY_SINCE_SECOND Must RESUMING],
        "A stream that is resumed brings what came after the last event on it, and nothing of another.",
        |view| {
            let resumed = view
                .exchanges
                .values()
                .filter(|exchange| exchange.resumed_after().is_some() && exchange.is_stream());
            Outcome::of(resumed.map(|exchange| replayed(view, exchange)), "no stream was resumed")
        };
}

/// Before a request names its version, the server cannot know what its client understands.
fn is_versioned(exchange: &Exchange<'_>) -> bool {
    exchange.request.headers.value(name::PROTOCOL_VERSION).is_some()
}

/// Whether the response that a stream has not brought came when it was asked for the rest.
fn goes_on(view: &ServerView<'_>, exchange: &Exchange<'_>) -> bool {
    let has = |after: &[u8]| exchange.events.iter().any(|event| event.id.as_deref() == Some(after));
    let rest = view.exchanges.values().filter(|other| other.resumed_after().is_some_and(has));
    rest.flat_map(Exchange::responses)
        .any(|(_, id, _)| exchange.requests().any(|(request, _)| Some(request) == id))
}

/// Of two messages that are alike it is known that they are one: two requests have two ids, and progress increases.
/// A stream that is resumed brings once more what came on the first: it is no other.
fn one_stream(view: &ServerView<'_>) -> Outcome {
    let is_first = |exchange: &&Exchange<'_>| exchange.resumed_after().is_none();
    let mut first = view.exchanges.values().filter(is_first);
    let open = first.any(|exchange| exchange.is("GET") && exchange.is_stream());
    let requests = view.requests.iter().map(|request| (request.exchange, request.line));
    let progress =
        view.notifications.iter().filter(|notification| notification.what.method == Method::Progress);
    let messages = requests.chain(progress.map(|notification| (notification.exchange, notification.line)));
    let mut known = BTreeMap::new();
    let mut findings = Vec::new();
    for (number, line) in messages.filter(|_| open) {
        let exchange = number.and_then(|number| view.exchanges.get(&number));
        let Some(exchange) = exchange.filter(is_first) else { continue };
        let earlier = known.insert(line.bytes(), number);
        if exchange.is("POST") || earlier.is_some() {
            let twice = earlier.is_some_and(|earlier| earlier != number);
            findings.push(twice.then(|| exchange.finding_in("it came on another stream as well", line)));
        }
    }
    Outcome::of(findings, "no message came on a stream while another was open")
}

/// What is wrong with a stream that was resumed.
fn replayed(view: &ServerView<'_>, exchange: &Exchange<'_>) -> Option<Finding> {
    let after = exchange.resumed_after()?;
    let of = |exchange: &&Exchange<'_>| exchange.resumed_after().is_none();
    let has =
        |exchange: &&Exchange<'_>| exchange.events.iter().any(|event| event.id.as_deref() == Some(after));
    let first = view.exchanges.values().filter(of).find(has)?;
    for (line, id, _) in exchange.responses() {
        if !first.requests().any(|(request, _)| Some(request) == id) {
            return Some(exchange.finding_in("this response belongs to another stream", line));
        }
    }
    let seen_before = first.events.iter().take_while(|event| event.id.as_deref() != Some(after));
    let mut earlier: BTreeSet<&[u8]> = seen_before.filter_map(|event| event.id.as_deref()).collect();
    earlier.insert(after);
    let repeated =
        exchange.events.iter().find(|event| event.id.as_deref().is_some_and(|id| earlier.contains(id)));
    repeated.map(|event| {
        let id = event.id.as_deref().unwrap_or_default();
        exchange.finding(format!("the event {} came once more", String::from_utf8_lossy(id)))
    })
}
