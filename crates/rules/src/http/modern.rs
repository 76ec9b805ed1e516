//! The modern era over HTTP: the headers that repeat parts of the body, the status codes of errors, the stream of one
//! request, and requests of earlier revisions.

use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::params::{InvalidHeaderMark, header_marks};
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Message, Method, Notification, ProgressToken, code};

use super::{NO_SUCH_REQUEST, has_result, has_status, is_mismatch, probed};
use crate::exchange::Exchange;
use crate::features::Definitions;
use crate::json::{list, member, of_line, param, text};
use crate::rule::{Evidence, Outcome};
use crate::server_view::ServerView;
use crate::trace::{Line, Probe};

const VALIDATION: &str = "basic/transports/streamable-http#server-validation";
const CUSTOM: &str = "basic/transports/streamable-http#server-behavior-for-custom-headers";
const ENCODING: &str = "basic/transports/streamable-http#value-encoding";
const CASE: &str = "basic/transports/streamable-http#case-sensitivity";
const EARLIER: &str = "basic/transports/streamable-http#earlier-streamable-http-revisions";
const RECEIVING: &str = "basic/transports/streamable-http#receiving-messages";
const VERSIONS: &str = "basic/transports/streamable-http#protocol-version-header";
const NO_PARAMS: &str = "no tool with arguments in headers was called (see --read-only-tools)";
const NO_NUMBERS: &str = "no tool with an integer in a header was called (see --read-only-tools)";
const NO_PROMPTS: &str = "the server declares no prompts, and no other request has a name";
const SPEAKS_LEGACY: &str =
    "the server supports earlier revisions, in which this has a meaning, or received no such request";

rules! {
    pub(crate) RULES for Server in Chapter::StreamableHttp;

    "version-header-required", [MODERN Must VERSIONS],
        "A request without MCP-Protocol-Version is rejected with the status 400 and the error -32020.",
        |view| {
            if !view.refuses_legacy() {
                return Outcome::Skipped("the server supports revisions without this header, or received no \
                    such request");
            }
            mismatch(view, Probe::NoVersionHeader, NO_SUCH_REQUEST)
        };
    "version-header-agrees", [MODERN Must VERSIONS],
        "A request whose MCP-Protocol-Version differs from the version in its body is rejected with the \
         status 400 and the error -32020.",
        |view| mismatch(view, Probe::OtherVersionHeader, NO_SUCH_REQUEST);
    "method-header-required", [MODERN Must VALIDATION],
        "A request without Mcp-Method is rejected with the status 400 and the error -32020.",
        |view| mismatch(view, Probe::NoMethodHeader, NO_SUCH_REQUEST);
    "method-header-agrees", [MODERN Must VALIDATION],
        "A request whose Mcp-Method differs from its method is rejected with the status 400 and the error \
         -32020.",
        |view| mismatch(view, Probe::OtherMethodHeader, NO_SUCH_REQUEST);
    "header-values-keep-letters", [MODERN Must CASE],
        "Values of headers are case-sensitive: a method in capitals is another method.",
        |view| mismatch(view, Probe::CapitalMethodHeader, NO_SUCH_REQUEST);
    "header-names-any-letters", [MODERN Must CASE],
        "Names of headers are case-insensitive.",
        |view| probed(view, &[Probe::HeaderLetters], NO_SUCH_REQUEST, has_result);
    "header-space-dropped", [MODERN Must "https://www.rfc-editor.org/rfc/rfc9110#section-5.5"],
        "White space around the value of a header is ignored.",
        |view| probed(view, &[Probe::HeaderSpace], NO_SUCH_REQUEST, has_result);
    "name-header-required", [MODERN Must VALIDATION],
        "A request for a prompt without Mcp-Name is rejected with the status 400 and the error -32020.",
        |view| mismatch(view, Probe::NoNameHeader, NO_PROMPTS);
    "name-header-agrees", [MODERN Must VALIDATION],
        "A request whose Mcp-Name differs from the name in its body, or cannot be decoded, is rejected \
         with the status 400 and the error -32020.",
        |view| probed(view, &[Probe::OtherNameHeader, Probe::BadNameHeader], NO_PROMPTS, is_mismatch);
    "name-header-decoded", [MODERN Must ENCODING],
        "A name in Base64 is decoded before it is compared with the body.",
        |view| accepted(view, Probe::EncodedNameHeader, NO_PROMPTS);
    "param-header-required", [MODERN Must CUSTOM],
        "A call without the Mcp-Param header of an argument is rejected with the status 400 and the error \
         -32020.",
        |view| of_calls(view, Probe::NoParamHeader, NO_PARAMS, mismatch);
    "param-header-agrees", [MODERN Must VALIDATION],
        "A call whose Mcp-Param header has another value is rejected with the status 400 and the error \
         -32020.",
        |view| of_calls(view, Probe::OtherParamHeader, NO_PARAMS, mismatch);
    "param-header-valid", [MODERN Must CUSTOM],
        "A call whose Mcp-Param header has invalid Base64 after its marker is rejected with 400 and the \
         error -32020.",
        |view| of_calls(view, Probe::BadParamHeader, NO_PARAMS, mismatch);
    "param-header-decoded", [MODERN Must ENCODING],
        "An Mcp-Param header in Base64 is decoded before it is compared with the body.",
        |view| of_calls(view, Probe::EncodedParamHeader, NO_PARAMS, accepted);
    "param-header-as-number", [MODERN Should VALIDATION],
        "An integer in an Mcp-Param header is compared as a number: 1.0 is 1.",
        |view| of_calls(view, Probe::NumberParamHeader, NO_NUMBERS, accepted);
    "param-header-not-expected", [MODERN Must CUSTOM],
        "No Mcp-Param header is required for an argument that is missing or null.",
        |view| of_calls(view, Probe::NoParamExpected, NO_PARAMS, accepted);
    "unsupported-version-status", [MODERN Must VERSIONS],
        "The error -32022, for an unsupported version, has the status 400.",
        |view| status_of(view, code::UNSUPPORTED_PROTOCOL_VERSION, 400, |_| true);
    "missing-meta-status", [MODERN Must "basic#meta"],
        "The error -32602, for a request without the required members of _meta, has the status 400.",
        |view| status_of(view, code::INVALID_PARAMS, 400, |it| {
            matches!(it.probe, Probe::NoCapabilities | Probe::NoVersion | Probe::NoMeta)
        });
    "missing-client-capability-status", [MODERN Must "basic#meta"],
        "The error -32021, for an undeclared client capability, has the status 400.",
        else "no such error was received",
        |view| {
            // The status of a stream is sent before the server knows what is missing.
            let errors = view.exchanges.values().filter(|exchange| {
                let code = exchange.error().map(|error| error.code);
                code == Some(code::MISSING_REQUIRED_CLIENT_CAPABILITY) && !exchange.is_stream()
            });
            errors.map(|exchange| has_status(exchange, 400))
        };
    "unknown-method-status", [MODERN Must VERSIONS],
        "The error -32601, for an unknown method, has the status 404.",
        |view| status_of(view, code::METHOD_NOT_FOUND, 404, |_| true);
    "no-session-given", [MODERN Should EARLIER],
        "A request with the Mcp-Session-Id of earlier revisions gets none in its response.",
        |view| {
            if !view.refuses_legacy() {
                return Outcome::Skipped(SPEAKS_LEGACY);
            }
            probed(view, &[Probe::EarlierHeaders], NO_SUCH_REQUEST, |exchange| {
                let has_id = exchange.header(name::SESSION_ID).is_some();
                exchange.finding_if(has_id, "the response has an Mcp-Session-Id")
            })
        };
    "earlier-headers-ignored", [MODERN Should EARLIER],
        "Mcp-Session-Id and Last-Event-ID, headers of earlier revisions, are ignored.",
        |view| {
            if !view.refuses_legacy() {
                return Outcome::Skipped(SPEAKS_LEGACY);
            }
            probed(view, &[Probe::EarlierHeaders], NO_SUCH_REQUEST, has_result)
        };
    "earlier-methods-refused", [MODERN Should EARLIER],
        "GET and DELETE, which earlier revisions had, are rejected with the status 405.",
        |view| {
            if !view.refuses_legacy() {
                return Outcome::Skipped(SPEAKS_LEGACY);
            }
            let probes = [Probe::EarlierGet, Probe::EarlierDelete];
            probed(view, &probes, NO_SUCH_REQUEST, |exchange| has_status(exchange, 405))
        };
    "streams-not-buffered", [MODERN Should RECEIVING],
        "A stream tells proxies not to buffer it: X-Accel-Buffering is \"no\".",
        else "no response was a stream",
        |view| view.exchanges.values().filter(|exchange| exchange.is_stream()).map(|exchange| {
            let value = exchange.header(name::ACCEL_BUFFERING);
            let is_good = value.is_some_and(|value| value.eq_ignore_ascii_case(b"no"));
            exchange.finding_if(!is_good, "X-Accel-Buffering is missing or has another value")
        });
    "no-request-on-stream", [MODERN Must RECEIVING],
        "The server sends no request: it asks for input in a result.",
        else "the server sent no message",
        |view| {
            let lines = view.exchanges.values().flat_map(|it| it.lines.iter().map(move |(line, _)| (it, line)));
            lines.flat_map(|(exchange, line)| line.messages().map(move |message| {
                let Message::Request(request) = message else { return None };
                Some(exchange.finding_in(format_args!("the server sends the request {}", request.method), line))
            }))
        };
    "notifications-relate", [MODERN Must RECEIVING],
        "Before a response only notifications of its request are sent: progress and log messages, if \
         requested.",
        else "no request got a response",
        |view| {
            let answered = view.exchanges.values().filter(|exchange| {
                exchange.probe != Probe::Listen && exchange.has_request() && !exchange.lines.is_empty()
            });
            answered.map(|exchange| {
                let mut notifications = notifications(exchange);
                let (line, stray) = notifications.find(|(_, it)| !is_asked_for(exchange, it).unwrap_or(false))?;
                Some(exchange.finding_in(format_args!("{} was not requested", stray.method), line))
            })
        };
    "listen-closed-in-order", [MODERN Should "basic/patterns/subscriptions#graceful-closure"],
        "A server that ends a subscription stream first sends the response to its request.",
        else "the server ended no subscription stream",
        |view| {
            // An empty stream was not opened; another rule checks that.
            let ended = view.exchanged(Probe::Listen).filter(|exchange| {
                exchange.is_stream() && !exchange.lines.is_empty() && exchange.is_complete()
            });
            ended.map(|exchange| {
                let mut messages = exchange.lines.iter().flat_map(|(line, _)| line.messages());
                let is_cancelled = messages
                    .any(|message| matches!(message, Message::Notification(it) if it.method == Method::Cancelled));
                let is_silent = !is_cancelled && !exchange.has_response();
                exchange.finding_if(is_silent, "the stream ended without a result")
            })
        };
    "header-marks-valid", [MODERN Must "basic/transports/streamable-http#schema-extension"],
        "Each x-mcp-header in a tool's inputSchema is a unique header name, on a string, integer or \
         boolean reached only through `properties`.",
        else "no tool was listed",
        |view| {
            let is_list = |it: &&Exchange<'_>| it.requests().any(|request| request.method == Method::ListTools);
            let tools = view.exchanges.values().filter(is_list).filter_map(|exchange| {
                let (line, _, outcome) = exchange.responses().next()?;
                let tools = list(outcome.as_ref().ok()?.raw(), "tools")?;
                Some(tools.into_iter().map(move |tool| (exchange, line, tool)))
            });
            tools.flatten().filter_map(|(exchange, line, tool)| {
                let invalid = header_marks(&member(&tool, "inputSchema")?).err();
                // This one is a limit of ours.
                let invalid = invalid.filter(|why| !matches!(why, InvalidHeaderMark::TooLarge));
                let name = text(&tool, "name").unwrap_or_default();
                Some(invalid.map(|why| exchange.finding_in(format_args!("the tool {name:?}: {why}"), line)))
            })
        };
}

fn mismatch(view: &ServerView<'_>, probe: Probe, nothing: &'static str) -> Outcome {
    probed(view, &[probe], nothing, is_mismatch)
}

/// Checks calls, unless their tool may have changed since it was listed.
fn of_calls(
    view: &ServerView<'_>,
    probe: Probe,
    nothing: &'static str,
    check: fn(&ServerView<'_>, Probe, &'static str) -> Outcome,
) -> Outcome {
    let definitions = Definitions::of(view);
    if view.probed(probe).any(|request| definitions.may_differ(request)) {
        return Outcome::Skipped("the tool changed during the check");
    }
    check(view, probe, nothing)
}

/// Checks that a request was not refused because its headers and its body differ.
fn accepted(view: &ServerView<'_>, probe: Probe, nothing: &'static str) -> Outcome {
    let findings = view.exchanged(probe).filter(|exchange| exchange.has_response()).map(|exchange| {
        let is_refused = exchange.error().is_some_and(|error| error.code == code::HEADER_MISMATCH);
        is_refused.then(|| exchange.finding(exchange.outcome()))
    });
    Outcome::of(findings, nothing)
}

/// Checks that errors with this code have this status.
fn status_of(view: &ServerView<'_>, code: i64, status: u16, of: impl Fn(&Exchange<'_>) -> bool) -> Outcome {
    let has_both_eras = !view.refuses_legacy();
    let errors = view.exchanges.values().filter(|exchange| {
        let is_legacy = has_both_eras && exchange.probe.may_be_taken_for_legacy();
        exchange.error().is_some_and(|error| error.code == code) && of(exchange) && !is_legacy
    });
    Outcome::of(errors.map(|exchange| has_status(exchange, status)), "no such error was received")
}

/// The notifications of an exchange; `notifications/cancelled` has a rule of its own.
pub(crate) fn notifications<'a>(
    exchange: &Exchange<'a>,
) -> impl Iterator<Item = (&'a Line, &'a Notification)> {
    exchange.lines.iter().flat_map(|(line, _)| {
        line.messages().filter_map(move |message| match message {
            Message::Notification(it) if it.method != Method::Cancelled => Some((*line, it)),
            _ => None,
        })
    })
}

/// Whether the request of an exchange asked for such notifications. What requests those of an extension is not known.
fn is_asked_for(exchange: &Exchange<'_>, notification: &Notification) -> Option<bool> {
    if notification.method.facts().is_none() {
        return Some(true);
    }
    let params = member(&of_line(exchange.message?.bytes())?, "params")?;
    let meta = member(&params, "_meta")?;
    match notification.method {
        Method::LogMessage => member(&meta, key::LOG_LEVEL).map(|_| true),
        Method::Progress => {
            let wanted: ProgressToken = member(&meta, key::PROGRESS_TOKEN)?.decode().ok()?;
            Some(param(&notification.params, "progressToken")?.decode().ok() == Some(wanted))
        }
        _ => None,
    }
}
