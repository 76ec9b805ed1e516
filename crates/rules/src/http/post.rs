//! POST: which requests a server refuses for their `Origin` or `Host`, and what it responds to the others.

use bytes::Bytes;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::{Method, code};

use super::{each_line, has_status, is_let_in, probed};
use crate::exchange::{BodyEnd, Exchange};
use crate::rule::{Evidence, Outcome, Source};
use crate::trace::Probe;

const PAGE: &str = "basic/transports#sending-messages-to-the-server";
const MODERN_PAGE: &str = "basic/transports/streamable-http#sending-messages";
const SENDING: &[Source] = sources![LEGACY_SINCE_SECOND Must PAGE, MODERN Must MODERN_PAGE];
const WARNING: &str = "basic/transports#security-warning";
const MODERN_WARNING: &str = "basic/transports/streamable-http";

rules! {
    pub(crate) RULES for Server in Chapter::StreamableHttp;

    "origin-validated", [LEGACY_SINCE_SECOND Must WARNING, MODERN Must MODERN_WARNING],
        "A request from a page of another origin is rejected.",
        |view| probed(view, &[Probe::ForeignOrigin], "no request came from another origin", is_let_in);
    "foreign-origin-forbidden", [LAST_LEGACY Must WARNING, MODERN Must MODERN_WARNING],
        "A request with a forbidden Origin is rejected with the status 403.",
        else "no request was rejected because of its Origin",
        |view| {
            let refused = view.exchanged(Probe::ForeignOrigin).filter(|it| it.is_refused() && !it.is_busy());
            refused.map(|exchange| has_status(exchange, 403))
        };
    "host-validated", [LEGACY_SINCE_SECOND Advice WARNING, MODERN Advice MODERN_WARNING],
        "A server on the user's machine rejects requests for another host: only DNS rebinding sends them.",
        |view| {
            let nothing = "no request for another host was sent: the server is not on this machine";
            probed(view, &[Probe::ForeignHost], nothing, is_let_in)
        };
    "reply-content-type", SENDING,
        "An accepted request returns application/json or text/event-stream.",
        else "no request was accepted",
        |view| {
            // That a response is empty is checked as a missing response.
            let is_empty = |it: &Exchange<'_>| it.lines.is_empty() && it.body.is_none_or(Bytes::is_empty);
            let accepted = view.exchanges.values().filter(move |exchange| {
                exchange.is("POST") && exchange.is_success() && exchange.has_request() && !is_empty(exchange)
            });
            accepted.map(|exchange| {
                if exchange.media_type() != MediaType::Other {
                    return None;
                }
                Some(match exchange.header(name::CONTENT_TYPE) {
                    Some(given) => {
                        exchange.finding(format_args!("the content type is {}", String::from_utf8_lossy(given)))
                    }
                    None => exchange.finding("Content-Type is missing"),
                })
            })
        };
    "reply-is-message", [LEGACY_SINCE_SECOND Must PAGE, MODERN Must "basic/transports#messages"],
        "A JSON body is a message in UTF-8, and so is the data of each event that has data.",
        each_line;
    "reply-is-one-object", [LEGACY_SINCE_THIRD Must PAGE, MODERN Must MODERN_PAGE],
        "A JSON body, or the data of an event, is one message and not an array.",
        else "the server sent no message",
        |view| view.exchanges.values().flat_map(|exchange| exchange.lines.iter().map(move |(line, _)| {
            crate::stdio::array(line).map(|_| exchange.finding_in("received an array", line))
        }));
    "notification-accepted", SENDING,
        "An accepted notification or response gets the status 202 without a body.",
        else "no message was sent that needs no response",
        |view| {
            let posts = view.exchanges.values().filter(|it| it.is("POST") && it.needs_no_response());
            posts.filter_map(|exchange| {
                let has_body = exchange.body.is_some_and(|body| !body.is_empty()) || !exchange.lines.is_empty();
                Some(match exchange.status()? {
                    400.. => None,
                    202 => exchange.finding_if(has_body, "the status is 202, but there is a body"),
                    _ => {
                        let outcome = exchange.outcome();
                        Some(exchange.finding(format_args!("{outcome}, expected 202 or the status of an \
                            error")))
                    }
                })
            })
        };
    "replies-not-crossed", [LEGACY_SINCE_SECOND Must "basic#responses", MODERN Must "basic#responses"],
        "Two clients may use the same id at the same time, and each gets the response to its own request.",
        |view| {
            let nothing = match view.exchanged(Probe::SameId).next() {
                Some(_) => "no request of two clients at the same time got a response",
                None => "no two clients sent requests at the same time",
            };
            // A missing response, and one that is no message, cannot be assigned; other rules check them.
            let answered = view.exchanged(Probe::SameId).filter(|it| !it.is_broken() && it.has_response());
            let findings = answered.filter_map(|exchange| {
                let method = &exchange.requests().next()?.method;
                let code = exchange.error().map(|error| error.code);
                // A method that exists may fail for another reason.
                let is_good = match method.facts() {
                    Some(_) => code != Some(code::METHOD_NOT_FOUND),
                    None => code.is_some(),
                };
                let problem = || format!("{method} was requested, and {}", exchange.outcome());
                Some((!is_good).then(|| exchange.finding(problem())))
            });
            Outcome::of(findings, nothing)
        };
    "task-get-not-streamed", [LAST_LEGACY Should "basic/utilities/tasks#input-required-status"],
        "A server without streams responds to tasks/get without one: the client polls.",
        else "the server declares no tasks",
        |view| {
            let answered = || view.exchanges.values().filter(|exchange| {
                exchange.is("POST") && exchange.status() == Some(200) && exchange.has_response()
            });
            let is_get = |it: &&Exchange<'_>| it.requests().any(|request| request.method == Method::GetTask);
            if !answered().any(|exchange| !is_get(&exchange) && !exchange.is_stream()) {
                return Outcome::Skipped("the server responds to every request with a stream");
            }
            answered()
                .filter(is_get)
                .map(|exchange| exchange.finding_if(exchange.is_stream(), "the response to tasks/get was a \
                    stream"))
        };
    "stream-ends", [
        LEGACY_SINCE_SECOND Should PAGE,
        MODERN Should "basic/transports/streamable-http#receiving-messages",
    ],
        "The stream of a request ends after the response.",
        else "no response was a stream",
        |view| {
            let streams = view.exchanges.values().filter(|exchange| {
                let is_response = exchange.is("POST") && exchange.is_stream() && exchange.probe != Probe::Listen;
                is_response && exchange.has_request() && exchange.is_answered()
            });
            streams.map(|exchange| {
                let is_open = matches!(exchange.end, Some((.., BodyEnd::Left)));
                exchange.finding_if(is_open, "the stream stays open after the response")
            })
        };
}
