//! The modern era over HTTP: the status codes of errors, the stream of one request, requests of earlier revisions, and
//! tools whose arguments are repeated in headers.

use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::params::{InvalidHeaderMark, header_marks};
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Message, Method, Notification, ProgressToken, Raw, code};

use super::{has_result, has_status, probed};
use crate::exchange::{BodyEnd, Exchange};
use crate::json::{elements, member, text};
use crate::rule::{Finding, Outcome};
use crate::server_view::ServerView;
use crate::trace::{Line, Probe};

const EARLIER: &str = "basic/transports/streamable-http#earlier-streamable-http-revisions";
const RECEIVING: &str = "basic/transports/streamable-http#receiving-messages";
const VERSIONS: &str = "basic/transports/streamable-http#protocol-version-header";
const DUAL: &str =
    "the server speaks earlier revisions, in which this has a meaning, or was not asked for them";

rules! {
    pub(crate) RULES for Server in Chapter::StreamableHttp;

    "unsupported-version-status", [MODERN Must VERSIONS],
        "The error -32022, for a version that is not spoken, comes with the status 400.",
        |view| status_of(view, code::UNSUPPORTED_PROTOCOL_VERSION, 400, |_| true);
    "missing-meta-status", [MODERN Must "basic#meta"],
        "The error -32602, for a request that lacks what each one has in _meta, comes with the status 400.",
        |view| {
            status_of(view, code::INVALID_PARAMS, 400, |probe| {
                matches!(probe, Probe::NoCapabilities | Probe::NoVersion | Probe::NoMeta)
            })
        };
    "missing-client-capability-status", [MODERN Must "basic#meta"],
        "The error -32021, for what the client has not declared, comes with the status 400.",
        |view| {
            // The status of a stream has been sent before what is missing is known.
            let errors = view.exchanges.values().filter(|exchange| {
                let code = exchange.error().map(|error| error.code);
                code == Some(code::MISSING_REQUIRED_CLIENT_CAPABILITY) && !exchange.is_stream()
            });
            Outcome::of(errors.map(|exchange| has_status(exchange, 400)), "no such error came")
        };
    "unknown-method-status", [MODERN Must VERSIONS],
        "The error -32601, for a method that the server does not have, comes with the status 404.",
        |view| status_of(view, code::METHOD_NOT_FOUND, 404, |_| true);
    "no-session-given", [MODERN Should EARLIER],
        "There are no sessions: no response has an Mcp-Session-Id.",
        |view| {
            let dual = !view.refuses_legacy();
            let responses = view.exchanges.values().filter(|exchange| {
                exchange.response.is_some() && !(dual && exchange.probe.may_be_taken_for_legacy())
            });
            let findings = responses.map(|exchange| {
                let given = exchange.header(name::SESSION_ID).is_some();
                given.then(|| exchange.finding("the response has the id of a session"))
            });
            Outcome::of(findings, "no response came")
        };
    "earlier-headers-ignored", [MODERN Should EARLIER],
        "Mcp-Session-Id and Last-Event-ID, headers of earlier revisions, are passed over.",
        |view| {
            if !view.refuses_legacy() {
                return Outcome::Skipped(DUAL);
            }
            probed(view, &[Probe::EarlierHeaders], "no such request was sent", has_result)
        };
    "earlier-methods-refused", [MODERN Should EARLIER],
        "GET and DELETE, which earlier revisions had, are answered with the status 405.",
        |view| {
            if !view.refuses_legacy() {
                return Outcome::Skipped(DUAL);
            }
            probed(view, &[Probe::EarlierGet, Probe::EarlierDelete], "no such request was sent", |exchange| {
                has_status(exchange, 405)
            })
        };
    "streams-not-buffered", [MODERN Should RECEIVING],
        "A stream says to proxies that they must not hold it back: X-Accel-Buffering is \"no\".",
        |view| {
            let streams = view.exchanges.values().filter(|exchange| exchange.is_stream());
            let findings = streams.map(|exchange| {
                let good = exchange
                    .header(name::ACCEL_BUFFERING)
                    .is_some_and(|value| value.eq_ignore_ascii_case(b"no"));
                (!good).then(|| exchange.finding("X-Accel-Buffering is missing, or another word"))
            });
            Outcome::of(findings, "nothing was answered with a stream")
        };
    "no-request-on-stream", [MODERN Must RECEIVING],
        "The server sends no request: what it needs is asked for in a result.",
        |view| {
            messages(view, |exchange, line, message| match message {
                Message::Request(request) => {
                    Some(exchange.finding_in(format!("the server asks for {}", request.method), line))
                }
                _ => None,
            })
        };
    "notifications-relate", [MODERN Must RECEIVING],
        "Before a response come no notifications but of its request: its progress and its log messages, if they were \
         asked for.",
        |view| {
            let streams = view.exchanges.values().filter(|exchange| {
                exchange.probe != Probe::Listen
                    && exchange.requests().next().is_some()
                    && !exchange.lines.is_empty()
            });
            let findings = streams.map(|exchange| {
                let (line, notification) = notifications(exchange)
                    .find(|(_, notification)| !is_asked_for(exchange, notification))?;
                Some(exchange.finding_in(format!("{} was not asked for", notification.method), line))
            });
            Outcome::of(findings, "no request was answered")
        };
    "listen-closed-in-order", [MODERN Should "basic/patterns/subscriptions#graceful-closure"],
        "A server that ends a stream of changes says so on it before.",
        |view| {
            // One on which nothing has come was not opened, which is checked as such.
            let ended = view.exchanges.values().filter(|exchange| {
                exchange.probe == Probe::Listen
                    && exchange.is_stream()
                    && !exchange.lines.is_empty()
                    && matches!(exchange.end, Some((_, BodyEnd::Complete)))
            });
            let findings = ended.map(|exchange| {
                let is_cancelled = exchange.lines.iter().flat_map(|(line, _)| line.parts()).any(|part| {
                    let cancelled = |notification: &Notification| notification.method == Method::Cancelled;
                    matches!(part, Ok(Message::Notification(notification)) if cancelled(notification))
                });
                let silent = !is_cancelled && exchange.responses().next().is_none();
                silent.then(|| exchange.finding("the stream ended without a result"))
            });
            Outcome::of(findings, "the server has ended no stream of changes")
        };
    "header-marks-valid", [MODERN Must "basic/transports/streamable-http#schema-extension"],
        "Each x-mcp-header in a tool's inputSchema is a header's name, its own, on a string, an integer or a boolean \
         that properties alone lead to.",
        |view| {
            let tools = tool_lists(view).flat_map(|(_, exchange, line, tools)| {
                tools.into_iter().map(move |tool| (exchange, line, tool))
            });
            let findings = tools.filter_map(|(exchange, line, tool)| {
                let broken = header_marks(&member(&tool, "inputSchema")?).err();
                // That is our bound and no rule.
                let broken = broken.filter(|why| !matches!(why, InvalidHeaderMark::TooLarge));
                let name = text(&tool, "name").unwrap_or_default();
                Some(broken.map(|why| exchange.finding_in(format!("the tool {name:?}: {why}"), line)))
            });
            Outcome::of(findings, "no tool was listed")
        };
}

/// Errors with this code have this status.
fn status_of(view: &ServerView<'_>, code: i64, status: u16, of: impl Fn(Probe) -> bool) -> Outcome {
    let dual = !view.refuses_legacy();
    let errors = view.exchanges.values().filter(|exchange| {
        let elsewhere = dual && exchange.probe.may_be_taken_for_legacy();
        exchange.error().is_some_and(|error| error.code == code) && of(exchange.probe) && !elsewhere
    });
    Outcome::of(errors.map(|exchange| has_status(exchange, status)), "no such error came")
}

fn messages(
    view: &ServerView<'_>,
    look: impl Fn(&Exchange<'_>, &Line, &Message) -> Option<Finding>,
) -> Outcome {
    let look = &look;
    let findings = view.exchanges.values().flat_map(|exchange| {
        exchange.lines.iter().flat_map(move |(line, _)| {
            line.parts().filter_map(Result::ok).map(move |message| look(exchange, line, message))
        })
    });
    Outcome::of(findings, "the server sent no message")
}

/// The notifications of an exchange; `notifications/cancelled` has a rule of its own.
fn notifications<'a>(exchange: &Exchange<'a>) -> impl Iterator<Item = (&'a Line, &'a Notification)> {
    exchange.lines.iter().flat_map(|(line, _)| {
        line.parts().filter_map(move |part| match part {
            Ok(Message::Notification(notification)) if notification.method != Method::Cancelled => {
                Some((*line, notification))
            }
            _ => None,
        })
    })
}

/// Whether the request of an exchange has asked for such notifications.
fn is_asked_for(exchange: &Exchange<'_>, notification: &Notification) -> bool {
    let was_requested = || {
        let params = member(&crate::json::of_line(exchange.sent?.bytes())?, "params")?;
        let meta = member(&params, "_meta")?;
        match notification.method {
            Method::LogMessage => member(&meta, key::LOG_LEVEL).map(|_| true),
            Method::Progress => {
                let wanted: ProgressToken = member(&meta, key::PROGRESS_TOKEN)?.decode().ok()?;
                let token = member(notification.params.as_ref()?.raw(), "progressToken")?.decode().ok();
                Some(token == Some(wanted))
            }
            _ => None,
        }
    };
    was_requested().unwrap_or(false)
}

/// The results of `tools/list`.
fn tool_lists<'s, 'a>(
    view: &'s ServerView<'a>,
) -> impl Iterator<Item = (Probe, &'s Exchange<'a>, &'a Line, Vec<Raw>)> {
    let lists = view
        .exchanges
        .values()
        .filter(|exchange| exchange.requests().any(|(_, method)| *method == Method::ListTools));
    lists.filter_map(|exchange| {
        let (line, _, outcome) = exchange.responses().next()?;
        let tools = elements(&member(outcome.as_ref().ok()?.raw(), "tools")?)?;
        Some((exchange.probe, exchange, line, tools))
    })
}
