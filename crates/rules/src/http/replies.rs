//! POST: which requests a server refuses for their `Origin` or `Host`, and what it responds to the others.

use bytes::Bytes;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::{Method, Raw};

use super::{each_line, probed};
use crate::exchange::{BodyEnd, Exchange};
use crate::rule::{Finding, Outcome};
use crate::trace::Probe;

const SENDING: &str = "basic/transports#sending-messages-to-the-server";
const MODERN_SENDING: &str = "basic/transports/streamable-http#sending-messages";

rules! {
    pub(crate) RULES for Server in Chapter::StreamableHttp;

    "origin-validated", [
        LEGACY_SINCE_SECOND Must "basic/transports#security-warning",
        MODERN Must "basic/transports/streamable-http",
    ],
        "A request that comes from a page of another origin is refused.",
        |view| probed(view, &[Probe::ForeignOrigin], "no request came from another origin", let_in);
    "foreign-origin-forbidden", [
        LAST_LEGACY Must "basic/transports#security-warning",
        MODERN Must "basic/transports/streamable-http",
    ],
        "A request whose Origin is refused is answered with the status 403.",
        |view| {
            let refused = view.exchanges.values().filter(|exchange| {
                exchange.probe == Probe::ForeignOrigin
                    && exchange.status().is_some()
                    && let_in(exchange).is_none()
            });
            Outcome::of(
                refused.map(|exchange| super::has_status(exchange, 403)),
                "no request was refused for its origin",
            )
        };
    "host-validated", [
        LEGACY_SINCE_SECOND Advice "basic/transports#security-warning",
        MODERN Advice "basic/transports/streamable-http",
    ],
        "A server on the user's machine refuses requests for another host, which only a name that was bound to its \
         address can bring it.",
        |view| {
            let nothing = "no request for another host was made: the server is not on this machine";
            probed(view, &[Probe::ForeignHost], nothing, let_in)
        };
    "reply-content-type", [LEGACY_SINCE_SECOND Must SENDING, MODERN Must MODERN_SENDING],
        "A request that is accepted is answered with application/json or text/event-stream.",
        |view| {
            let accepted = view.exchanges.values().filter(|exchange| {
                let empty = exchange.lines.is_empty() && exchange.body.is_none_or(Bytes::is_empty);
                // One that has nothing in it is no answer at all, which is checked as such.
                exchange.is("POST") && exchange.is_success() && exchange.requests().next().is_some() && !empty
            });
            let findings = accepted.map(|exchange| {
                if exchange.media_type() != MediaType::Other {
                    return None;
                }
                let problem = match exchange.header(name::CONTENT_TYPE) {
                    Some(given) => format!("the content type is {}", String::from_utf8_lossy(given)),
                    None => "there is no content type".into(),
                };
                Some(exchange.finding(problem))
            });
            Outcome::of(findings, "no request was accepted")
        };
    "reply-is-message", [LEGACY_SINCE_SECOND Must SENDING, MODERN Must "basic/transports#messages"],
        "A body of JSON is a message in UTF-8, and so is the data of each event that has some.",
        each_line;
    "reply-is-one-object", [LEGACY_SINCE_THIRD Must SENDING, MODERN Must MODERN_SENDING],
        "A body of JSON, or the data of an event, is one message and no array of messages.",
        |view| {
            let findings = view.exchanges.values().flat_map(|exchange| {
                exchange.lines.iter().map(move |(line, _)| {
                    let array = line.is_array() && Raw::parse(line.bytes().clone()).is_ok();
                    array.then(|| exchange.finding_in("an array came", line))
                })
            });
            Outcome::of(findings, "the server sent no message")
        };
    "notification-accepted", [LEGACY_SINCE_SECOND Must SENDING, MODERN Must MODERN_SENDING],
        "A notification, or a response, that is accepted is answered with the status 202 and no body.",
        |view| {
            let carriers = view.exchanges.values().filter(|exchange| {
                exchange.is("POST") && exchange.only_tells() && exchange.status().is_some()
            });
            let findings = carriers.map(|exchange| {
                let body = exchange.body.is_some_and(|body| !body.is_empty()) || !exchange.lines.is_empty();
                let problem = match exchange.status() {
                    Some(400..) => return None,
                    Some(202) if !body => return None,
                    Some(202) => "the status is 202, and there is a body".to_owned(),
                    _ => format!("{}; 202 is due, or that of an error", exchange.outcome()),
                };
                Some(exchange.finding(problem))
            });
            Outcome::of(findings, "nothing was sent that needs no answer")
        };
    "replies-not-crossed", [LEGACY_SINCE_SECOND Must "basic#responses", MODERN Must "basic#responses"],
        "Two clients may use one id at the same time, and each gets the reply to its own request.",
        |view| {
            let mut request =
                view.exchanges.values().filter(|exchange| exchange.probe == Probe::SameId).peekable();
            let nothing = match request.peek() {
                Some(_) => "of what two clients asked at the same time, nothing was answered",
                None => "no two clients asked at the same time",
            };
            // That there is no reply, or none that can be read, is checked elsewhere: whose it is cannot be said.
            let answered =
                request.filter(|exchange| !exchange.is_broken() && exchange.responses().next().is_some());
            let findings = answered.filter_map(|exchange| {
                let (_, method) = exchange.requests().next()?;
                // A method that exists brings a result, another one an error.
                let good =
                    if method.facts().is_some() { exchange.has_result() } else { exchange.error().is_some() };
                Some(
                    (!good).then(|| {
                        exchange.finding(format!("{method} was asked for, and {}", exchange.outcome()))
                    }),
                )
            });
            Outcome::of(findings, nothing)
        };
    "task-get-not-streamed", [LAST_LEGACY Should "basic/utilities/tasks#input-required-status"],
        "A server that answers without a stream answers tasks/get so: who asks for it polls.",
        |view| {
            let answered = || {
                view.exchanges.values().filter(|exchange| {
                    exchange.is("POST")
                        && exchange.status() == Some(200)
                        && exchange.responses().next().is_some()
                })
            };
            // Where every reply is a stream, nothing else is possible.
            let is_get =
                |exchange: &&Exchange<'_>| exchange.requests().any(|(_, method)| *method == Method::GetTask);
            if !answered().any(|exchange| !is_get(&exchange) && !exchange.is_stream()) {
                return Outcome::Skipped("the server answers everything with a stream");
            }
            let findings = answered().filter(is_get).map(|exchange| {
                exchange.is_stream().then(|| exchange.finding("tasks/get was answered with a stream"))
            });
            Outcome::of(findings, "the server declares no tasks")
        };
    "stream-ends", [
        LEGACY_SINCE_SECOND Should SENDING,
        MODERN Should "basic/transports/streamable-http#receiving-messages",
    ],
        "A stream that answers a request ends after the response.",
        |view| {
            let answered = view.exchanges.values().filter(|exchange| {
                exchange.is("POST")
                    && exchange.is_stream()
                    && exchange.probe != Probe::Listen
                    && exchange.requests().next().is_some()
                    && exchange
                        .requests()
                        .all(|(id, _)| exchange.responses().any(|(_, given, _)| given == Some(id)))
            });
            let findings = answered.map(|exchange| {
                let open = matches!(exchange.end, Some((_, BodyEnd::Left)));
                open.then(|| exchange.finding("the stream stays open after the response"))
            });
            Outcome::of(findings, "no request was answered with a stream")
        };
}

/// It was not refused.
pub(super) fn let_in(exchange: &Exchange<'_>) -> Option<Finding> {
    let refused = exchange.status().is_none_or(|status| status >= 400);
    (!refused).then(|| exchange.finding(exchange.outcome()))
}
