//! The modern era over HTTP: statuses of errors, streams of one request, what is left of earlier revisions, and
//! tools whose arguments stand in headers.

use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::params::{InvalidHeaderMark, header_marks};
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Message, Method, Notification, ProgressToken, Raw, code};

use super::{has_result, has_status, modern, probed};
use crate::exchange::{BodyEnd, Exchange};
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule};
use crate::seen::{Seen, elements, member, text};
use crate::trace::{Line, Probe};

const EARLIER: &str = "basic/transports/streamable-http#earlier-streamable-http-revisions";
const RECEIVING: &str = "basic/transports/streamable-http#receiving-messages";
const VERSIONS: &str = "basic/transports/streamable-http#protocol-version-header";
const DUAL: &str =
    "the server speaks earlier revisions, in which this has a meaning, or was not asked for them";

pub(super) static RULES: [Rule; 12] = [
    Rule {
        slug: "unsupported-version-status",
        chapter: Chapter::StreamableHttp,
        sentence: "The error -32022, for a version that is not spoken, comes with the status 400.",
        sources: &modern(Must, VERSIONS),
        judge: |seen| status_of(seen, code::UNSUPPORTED_PROTOCOL_VERSION, 400, |_| true),
    },
    Rule {
        slug: "missing-meta-status",
        chapter: Chapter::StreamableHttp,
        sentence: "The error -32602, for a request that lacks what each one has in _meta, comes with the status 400.",
        sources: &modern(Must, "basic#meta"),
        judge: |seen| {
            status_of(seen, code::INVALID_PARAMS, 400, |probe| {
                matches!(probe, Probe::NoCapabilities | Probe::NoVersion | Probe::NoMeta)
            })
        },
    },
    Rule {
        slug: "missing-client-capability-status",
        chapter: Chapter::StreamableHttp,
        sentence: "The error -32021, for what the client has not declared, comes with the status 400.",
        sources: &modern(Must, "basic#meta"),
        judge: |seen| {
            // The status of a stream has been sent before what is missing is known.
            let errors = seen.exchanges.values().filter(|exchange| {
                let code = exchange.error().map(|error| error.code);
                code == Some(code::MISSING_REQUIRED_CLIENT_CAPABILITY) && !exchange.is_stream()
            });
            Outcome::of(errors.map(|exchange| has_status(exchange, 400)), "no such error came")
        },
    },
    Rule {
        slug: "unknown-method-status",
        chapter: Chapter::StreamableHttp,
        sentence: "The error -32601, for a method that the server does not have, comes with the status 404.",
        sources: &modern(Must, VERSIONS),
        judge: |seen| status_of(seen, code::METHOD_NOT_FOUND, 404, |_| true),
    },
    Rule {
        slug: "no-session-given",
        chapter: Chapter::StreamableHttp,
        sentence: "There are no sessions: no response has an Mcp-Session-Id.",
        sources: &modern(Should, EARLIER),
        judge: |seen| {
            let dual = !seen.refuses_legacy();
            let responses = seen.exchanges.values().filter(|exchange| {
                exchange.response.is_some() && !(dual && exchange.probe.may_be_taken_for_legacy())
            });
            let judged = responses.map(|exchange| {
                let given = exchange.header(name::SESSION_ID).is_some();
                given.then(|| exchange.finding("the response has the id of a session"))
            });
            Outcome::of(judged, "no response came")
        },
    },
    Rule {
        slug: "earlier-headers-ignored",
        chapter: Chapter::StreamableHttp,
        sentence: "Mcp-Session-Id and Last-Event-ID, headers of earlier revisions, are passed over.",
        sources: &modern(Should, EARLIER),
        judge: |seen| {
            if !seen.refuses_legacy() {
                return Outcome::Skipped(DUAL);
            }
            probed(seen, &[Probe::EarlierHeaders], "no such request was sent", has_result)
        },
    },
    Rule {
        slug: "earlier-methods-refused",
        chapter: Chapter::StreamableHttp,
        sentence: "GET and DELETE, which earlier revisions had, are answered with the status 405.",
        sources: &modern(Should, EARLIER),
        judge: |seen| {
            if !seen.refuses_legacy() {
                return Outcome::Skipped(DUAL);
            }
            probed(seen, &[Probe::EarlierGet, Probe::EarlierDelete], "no such request was sent", |exchange| {
                has_status(exchange, 405)
            })
        },
    },
    Rule {
        slug: "streams-not-buffered",
        chapter: Chapter::StreamableHttp,
        sentence: "A stream says to proxies that they must not hold it back: X-Accel-Buffering is \"no\".",
        sources: &modern(Should, RECEIVING),
        judge: |seen| {
            let streams = seen.exchanges.values().filter(|exchange| exchange.is_stream());
            let judged = streams.map(|exchange| {
                let good = exchange
                    .header(name::ACCEL_BUFFERING)
                    .is_some_and(|value| value.eq_ignore_ascii_case(b"no"));
                (!good).then(|| exchange.finding("X-Accel-Buffering is missing, or another word"))
            });
            Outcome::of(judged, "nothing was answered with a stream")
        },
    },
    Rule {
        slug: "no-request-on-stream",
        chapter: Chapter::StreamableHttp,
        sentence: "The server sends no request: what it needs is asked for in a result.",
        sources: &modern(Must, RECEIVING),
        judge: |seen| {
            messages(seen, |exchange, line, message| match message {
                Message::Request(request) => {
                    Some(exchange.finding_in(format!("the server asks for {}", request.method), line))
                }
                _ => None,
            })
        },
    },
    Rule {
        slug: "notifications-relate",
        chapter: Chapter::StreamableHttp,
        sentence: "Before a response come no notifications but of its request: its progress and its log messages, if \
                   they were asked for.",
        sources: &modern(Must, RECEIVING),
        judge: |seen| {
            let streams = seen.exchanges.values().filter(|exchange| {
                exchange.probe != Probe::Listen
                    && exchange.asked().next().is_some()
                    && !exchange.lines.is_empty()
            });
            let judged = streams.map(|exchange| {
                let (line, told) = notifications(exchange).find(|(_, told)| !is_asked_for(exchange, told))?;
                Some(exchange.finding_in(format!("{} was not asked for", told.method), line))
            });
            Outcome::of(judged, "no request was answered")
        },
    },
    Rule {
        slug: "listen-closed-in-order",
        chapter: Chapter::StreamableHttp,
        sentence: "A server that ends a stream of changes says so on it before.",
        sources: &modern(Should, "basic/patterns/subscriptions#graceful-closure"),
        judge: |seen| {
            // One on which nothing has come was not opened, which is judged as such.
            let ended = seen.exchanges.values().filter(|exchange| {
                exchange.probe == Probe::Listen
                    && exchange.is_stream()
                    && !exchange.lines.is_empty()
                    && matches!(exchange.end, Some((_, BodyEnd::Complete)))
            });
            let judged = ended.map(|exchange| {
                let told = exchange.lines.iter().flat_map(|(line, _)| line.parts()).any(|part| {
                    let cancelled = |told: &Notification| told.method == Method::Cancelled;
                    matches!(part, Ok(Message::Notification(told)) if cancelled(told))
                });
                let silent = !told && exchange.responses().next().is_none();
                silent.then(|| exchange.finding("the stream ended without a result"))
            });
            Outcome::of(judged, "the server has ended no stream of changes")
        },
    },
    Rule {
        slug: "header-marks-valid",
        chapter: Chapter::StreamableHttp,
        sentence: "Each x-mcp-header in a tool's inputSchema is a header's name, its own, on a string, an integer or a \
                   boolean that properties alone lead to.",
        sources: &modern(Must, "basic/transports/streamable-http#schema-extension"),
        judge: |seen| {
            let tools = tool_lists(seen).flat_map(|(_, exchange, line, tools)| {
                tools.into_iter().map(move |tool| (exchange, line, tool))
            });
            let judged = tools.filter_map(|(exchange, line, tool)| {
                let broken = header_marks(&member(&tool, "inputSchema")?).err();
                // That is our bound and no rule.
                let broken = broken.filter(|why| !matches!(why, InvalidHeaderMark::TooLarge));
                let name = text(&tool, "name").unwrap_or_default();
                Some(broken.map(|why| exchange.finding_in(format!("the tool {name:?}: {why}"), line)))
            });
            Outcome::of(judged, "no tool was listed")
        },
    },
];

/// Errors with this code have this status.
fn status_of(seen: &Seen<'_>, code: i64, status: u16, of: impl Fn(Probe) -> bool) -> Outcome {
    let dual = !seen.refuses_legacy();
    let errors = seen.exchanges.values().filter(|exchange| {
        let elsewhere = dual && exchange.probe.may_be_taken_for_legacy();
        exchange.error().is_some_and(|error| error.code == code) && of(exchange.probe) && !elsewhere
    });
    Outcome::of(errors.map(|exchange| has_status(exchange, status)), "no such error came")
}

fn messages(seen: &Seen<'_>, look: impl Fn(&Exchange<'_>, &Line, &Message) -> Option<Finding>) -> Outcome {
    let look = &look;
    let judged = seen.exchanges.values().flat_map(|exchange| {
        exchange.lines.iter().flat_map(move |(line, _)| {
            line.parts().filter_map(Result::ok).map(move |message| look(exchange, line, message))
        })
    });
    Outcome::of(judged, "the server sent no message")
}

/// The notifications of an exchange; `notifications/cancelled` has a rule of its own.
fn notifications<'a>(exchange: &Exchange<'a>) -> impl Iterator<Item = (&'a Line, &'a Notification)> {
    exchange.lines.iter().flat_map(|(line, _)| {
        line.parts().filter_map(move |part| match part {
            Ok(Message::Notification(told)) if told.method != Method::Cancelled => Some((*line, told)),
            _ => None,
        })
    })
}

/// Whether the request of an exchange has asked for such notifications.
fn is_asked_for(exchange: &Exchange<'_>, told: &Notification) -> bool {
    let asked = || {
        let params = member(&crate::seen::of_line(exchange.sent?.bytes())?, "params")?;
        let meta = member(&params, "_meta")?;
        match told.method {
            Method::LogMessage => member(&meta, key::LOG_LEVEL).map(|_| true),
            Method::Progress => {
                let wanted: ProgressToken = member(&meta, key::PROGRESS_TOKEN)?.decode().ok()?;
                let token = member(told.params.as_ref()?.raw(), "progressToken")?.decode().ok();
                Some(token == Some(wanted))
            }
            _ => None,
        }
    };
    asked().unwrap_or(false)
}

/// The results of `tools/list`.
fn tool_lists<'s, 'a>(
    seen: &'s Seen<'a>,
) -> impl Iterator<Item = (Probe, &'s Exchange<'a>, &'a Line, Vec<Raw>)> {
    let lists = seen
        .exchanges
        .values()
        .filter(|exchange| exchange.asked().any(|(_, method)| *method == Method::ListTools));
    lists.filter_map(|exchange| {
        let (line, _, outcome) = exchange.responses().next()?;
        let tools = elements(&member(outcome.as_ref().ok()?.raw(), "tools")?)?;
        Some((exchange.probe, exchange, line, tools))
    })
}
