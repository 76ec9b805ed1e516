//! What a POST is answered with: the status, the kind of the body, and what is in it.

use bytes::Bytes;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::{Method, Raw};

use super::{both, each_line};
use crate::exchange::{BodyEnd, Exchange};
use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Outcome, Rule, Source};
use crate::trace::Probe;

const SENDING: &str = "basic/transports#sending-messages-to-the-server";
const MODERN_SENDING: &str = "basic/transports/streamable-http#sending-messages";

pub(super) static RULES: [Rule; 7] = [
    Rule {
        slug: "reply-content-type",
        chapter: Chapter::StreamableHttp,
        sentence: "A request that is accepted is answered with application/json or text/event-stream.",
        sources: &both(Must, SENDING, MODERN_SENDING),
        judge: |seen| {
            let accepted = seen.exchanges.values().filter(|exchange| {
                let empty = exchange.lines.is_empty() && exchange.body.is_none_or(Bytes::is_empty);
                // One that has nothing in it is no answer at all, which is judged as such.
                exchange.is("POST") && exchange.is_success() && exchange.asked().next().is_some() && !empty
            });
            let judged = accepted.map(|exchange| {
                if exchange.media_type() != MediaType::Other {
                    return None;
                }
                let problem = match exchange.header(name::CONTENT_TYPE) {
                    Some(given) => format!("the content type is {}", String::from_utf8_lossy(given)),
                    None => "there is no content type".into(),
                };
                Some(exchange.finding(problem))
            });
            Outcome::of(judged, "no request was accepted")
        },
    },
    Rule {
        slug: "reply-is-message",
        chapter: Chapter::StreamableHttp,
        sentence: "A body of JSON is a message in UTF-8, and so is the data of each event that has some.",
        sources: &both(Must, SENDING, "basic/transports#messages"),
        judge: each_line,
    },
    Rule {
        slug: "reply-is-one-object",
        chapter: Chapter::StreamableHttp,
        sentence: "A body of JSON, or the data of an event, is one message and no array of messages.",
        sources: &[
            Source::new(Revisions::LEGACY_SINCE_THIRD, Must, SENDING),
            Source::new(Revisions::MODERN, Must, MODERN_SENDING),
        ],
        judge: |seen| {
            let judged = seen.exchanges.values().flat_map(|exchange| {
                exchange.lines.iter().map(move |(line, _)| {
                    let array = line.is_array() && Raw::parse(line.bytes().clone()).is_ok();
                    array.then(|| exchange.finding_in("an array came", line))
                })
            });
            Outcome::of(judged, "the server sent no message")
        },
    },
    Rule {
        slug: "notification-accepted",
        chapter: Chapter::StreamableHttp,
        sentence: "A notification, or a response, that is accepted is answered with the status 202 and no body.",
        sources: &both(Must, SENDING, MODERN_SENDING),
        judge: |seen| {
            let told = seen.exchanges.values().filter(|exchange| {
                exchange.is("POST") && exchange.only_tells() && exchange.status().is_some()
            });
            let judged = told.map(|exchange| {
                let body = exchange.body.is_some_and(|body| !body.is_empty()) || !exchange.lines.is_empty();
                let problem = match exchange.status() {
                    Some(400..) => return None,
                    Some(202) if !body => return None,
                    Some(202) => "the status is 202, and there is a body".to_owned(),
                    _ => format!("{}; 202 is due, or that of an error", exchange.outcome()),
                };
                Some(exchange.finding(problem))
            });
            Outcome::of(judged, "nothing was sent that needs no answer")
        },
    },
    Rule {
        slug: "replies-not-crossed",
        chapter: Chapter::StreamableHttp,
        sentence: "Two clients may use one id at the same time, and each gets the reply to its own request.",
        sources: &both(Must, "basic#responses", "basic#responses"),
        judge: |seen| {
            let mut asked =
                seen.exchanges.values().filter(|exchange| exchange.probe == Probe::SameId).peekable();
            let nothing = match asked.peek() {
                Some(_) => "of what two clients asked at the same time, nothing was answered",
                None => "no two clients asked at the same time",
            };
            // That there is no reply, or none that can be read, is judged elsewhere: whose it is cannot be said.
            let answered =
                asked.filter(|exchange| !exchange.is_broken() && exchange.responses().next().is_some());
            let judged = answered.filter_map(|exchange| {
                let (_, method) = exchange.asked().next()?;
                // A method that exists brings a result, another one an error.
                let good =
                    if method.facts().is_some() { exchange.has_result() } else { exchange.error().is_some() };
                Some(
                    (!good).then(|| {
                        exchange.finding(format!("{method} was asked for, and {}", exchange.outcome()))
                    }),
                )
            });
            Outcome::of(judged, nothing)
        },
    },
    Rule {
        slug: "task-get-not-streamed",
        chapter: Chapter::StreamableHttp,
        sentence: "A server that answers without a stream answers tasks/get so: who asks for it polls.",
        sources: &[Source::new(
            Revisions::LAST_LEGACY,
            Should,
            "basic/utilities/tasks#input-required-status",
        )],
        judge: |seen| {
            let answered = || {
                seen.exchanges.values().filter(|exchange| {
                    exchange.is("POST")
                        && exchange.status() == Some(200)
                        && exchange.responses().next().is_some()
                })
            };
            // Where every reply is a stream, nothing else is possible.
            let is_get =
                |exchange: &&Exchange<'_>| exchange.asked().any(|(_, method)| *method == Method::GetTask);
            if !answered().any(|exchange| !is_get(&exchange) && !exchange.is_stream()) {
                return Outcome::Skipped("the server answers everything with a stream");
            }
            let judged = answered().filter(is_get).map(|exchange| {
                exchange.is_stream().then(|| exchange.finding("tasks/get was answered with a stream"))
            });
            Outcome::of(judged, "the server declares no tasks")
        },
    },
    Rule {
        slug: "stream-ends",
        chapter: Chapter::StreamableHttp,
        sentence: "A stream that answers a request ends after the response.",
        sources: &both(Should, SENDING, "basic/transports/streamable-http#receiving-messages"),
        judge: |seen| {
            let answered = seen.exchanges.values().filter(|exchange| {
                exchange.is("POST")
                    && exchange.is_stream()
                    && exchange.probe != Probe::Listen
                    && exchange.asked().next().is_some()
                    && exchange
                        .asked()
                        .all(|(id, _)| exchange.responses().any(|(_, given, _)| given == Some(id)))
            });
            let judged = answered.map(|exchange| {
                let open = matches!(exchange.end, Some((_, BodyEnd::Left)));
                open.then(|| exchange.finding("the stream stays open after the response"))
            });
            Outcome::of(judged, "no request was answered with a stream")
        },
    },
];
