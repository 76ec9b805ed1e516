//! The chapter of the base protocol: JSON-RPC 2.0 as the specification narrows it. The form of messages, one response for
//! each request, the codes of errors, batches, and lines that are no message.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic#messages>

use std::collections::BTreeMap;

use bytes::Bytes;
use mcpjoin_proto::types::Members;
use mcpjoin_proto::{DecodeErrorKind, Kind, Raw, code};

use crate::json::{is_integer, member, members, of_line};
use crate::rule::{Evidence, Finding, Outcome, Source};
use crate::server_view::{OurRequest, Received, ServerView, StrayMeaning};
use crate::trace::{Line, Probe};

/// The paragraph that demands JSON-RPC 2.0.
pub(crate) const MESSAGES: &[Source] =
    sources![FIRST Must "basic/messages", SINCE_SECOND Must "basic#messages"];
/// The paragraph on requests.
pub(crate) const REQUESTS: &[Source] =
    sources![FIRST Must "basic/messages#requests", SINCE_SECOND Must "basic#requests"];
/// The paragraph on notifications.
pub(crate) const NOTIFICATIONS: &[Source] =
    sources![FIRST Must "basic/messages#notifications", SINCE_SECOND Must "basic#notifications"];
/// The paragraphs on results.
const RESULTS: &[Source] = sources![
    FIRST Must "basic/messages#responses",
    SECOND_AND_THIRD Must "basic#responses",
    SINCE_FOURTH Must "basic#result-responses",
];
/// The paragraphs on errors.
const ERRORS: &[Source] = sources![
    FIRST Must "basic/messages#responses",
    SECOND_AND_THIRD Must "basic#responses",
    SINCE_FOURTH Must "basic#error-responses",
];
/// The paragraphs on responses of both kinds.
const RESPONSES: &[Source] =
    sources![FIRST Must "basic/messages#responses", SINCE_SECOND Must "basic#responses"];
pub(crate) const RESPONSE: &str = "https://www.jsonrpc.org/specification#response_object";
pub(crate) const CODES: &str = "https://www.jsonrpc.org/specification#error_object";

/// Probes whose missing responses are checked by rules of their own.
const OWN_RULE: [Probe; 10] = [
    Probe::AfterDecline,
    Probe::AfterCompletedCancel,
    Probe::AfterMalformedCancel,
    Probe::CancelledCall,
    Probe::AfterCancel,
    Probe::AfterBadLine,
    Probe::TwoAtOnce,
    Probe::InPieces,
    Probe::Batch,
    Probe::EarlyPing,
];

rules! {
    pub(crate) RULES for Server in Chapter::Base;

    "jsonrpc-version", MESSAGES,
        "Each message has the member jsonrpc with the value \"2.0\".",
        |view| by_kind(view, |kind| *kind == DecodeErrorKind::JsonRpcVersion);
    "message-shape", MESSAGES,
        "A message is a request, a notification or a response: it has a string `method` and an object \
         `params`, or a result or an error.",
        |view| by_kind(view, is_misshapen);
    "unique-members", [ALL Should "https://www.rfc-editor.org/rfc/rfc8259#section-4"],
        "No member appears twice in a JSON object: readers disagree on which one counts.",
        |view| by_kind(view, |kind| matches!(kind, DecodeErrorKind::DuplicateMember { .. }));
    "result-or-error", RESPONSES,
        "A response has a result or an error, but not both.",
        |view| by_kind(view, |kind| matches!(kind, DecodeErrorKind::ResultAndError | DecodeErrorKind::NoOutcome));
    "result-has-id", RESULTS,
        "A result has the id of its request, and the id is not null.",
        |view| by_line(view, |kind, line| {
            matches!(kind, DecodeErrorKind::IdMissing | DecodeErrorKind::IdNull)
                && line.is_none_or(|line| !line.contains_key("method"))
        });
    "request-has-id", REQUESTS,
        "The id of a request is not null.",
        else "the server sent no request",
        |view| {
            let is_request = |line: &Line| of_line(line.bytes()).is_some_and(|line| member(&line, "method").is_some());
            let broken = view.invalid.iter().filter(|it| it.what.kind == DecodeErrorKind::IdNull);
            let broken = broken.filter(move |it| is_request(it.line));
            let broken = broken.map(|fault| Some(fault.finding(&fault.what.kind)));
            view.requests.iter().map(|_| None).chain(broken)
        };
    "notification-without-id", NOTIFICATIONS,
        "A notification has no id.",
        else "the server sent no notification",
        |view| {
            let broken = view.requests.iter().filter(|it| it.what.method.as_str().starts_with("notifications/"));
            let broken = broken
                .map(|it| Some(it.finding(format_args!("{} has the id {}", it.what.method, it.what.id))));
            view.notifications.iter().map(|_| None).chain(broken)
        };
    "id-type", REQUESTS,
        "An id is a string or an integer.",
        |view| by_kind(view, |kind| *kind == DecodeErrorKind::IdType);
    "result-is-object", RESULTS,
        "A result is a JSON object.",
        else "no result was seen",
        |view| view.results().map(|(reply, result)| {
            reply.finding_if(result.kind() != Kind::Object, "the result is not an object")
        });
    "error-members", ERRORS,
        "An error is an object with a code, and a message that is a string.",
        |view| broken_errors(view, |error| {
            let Some(error) = members(error) else { return Some("the error is not an object".into()) };
            if !error.contains_key("code") {
                return Some("the error has no code".into());
            }
            match error.get("message").map(Raw::kind) {
                None => Some("the error has no message".into()),
                Some(Kind::String) => None,
                Some(_) => Some("the error's message is not a string".into()),
            }
        });
    "error-code-integer", ERRORS,
        "The code of an error is an integer.",
        |view| broken_errors(view, |error| {
            let code = member(error, "code")?;
            (code.kind() != Kind::Number || !is_integer(&code)).then(|| format!("the code is {code}"))
        });
    "request-answered", [ALL Must RESPONSE],
        "Each request gets a response.",
        else "no request was sent",
        |view| {
            let findings = view.our_requests.iter().filter(|request| {
                let own = OWN_RULE.contains(&request.probe)
                    || request.probe.is_about_http() && !view.is_last(request);
                request.method.is_some() && !own
            });
            // A tool may take longer than we have waited.
            let is_due = |request: &OurRequest<'_>| !request.probe.may_take_long() || view.ended_early();
            findings
                .filter(move |request| view.is_decided(request) && (request.is_answered() || is_due(request)))
                .map(|request| unanswered(view, request))
        };
    "answered-once", [ALL Must RESPONSE],
        "A request gets only one response.",
        else "no request got a response",
        |view| view.our_requests.iter().filter(|it| it.method.is_some() && it.is_answered()).map(|request| {
            let second = request.responses.get(1)?;
            let count = request.responses.len();
            Some(request.finding_with(format_args!("{} got {count} responses", request.name()), second.line))
        });
    "id-given-back", RESPONSES,
        "A response has the unchanged id of its request: 1 and \"1\" are different ids.",
        else "no request got a response",
        |view| {
            let changed = view.stray_responses.iter().filter_map(|stray| {
                let StrayMeaning::Answers(request) = view.meaning(stray) else { return None };
                let given = stray.what.id.as_ref().map_or_else(|| "no id".into(), ToString::to_string);
                let id = request.id.map(ToString::to_string).unwrap_or_default();
                let problem = format!("the request has the id {id}, the response {given}");
                Some(Some(request.finding_with(problem, stray.line)))
            });
            answered(view).chain(changed)
        };
    "response-to-a-request", RESPONSES,
        "Each response belongs to a request.",
        else "no response was seen",
        |view| {
            let others = view.stray_responses.iter().filter_map(|stray| {
                let StrayMeaning::Nothing = view.meaning(stray) else { return None };
                let id = stray.what.id.as_ref().map_or_else(|| "no id".into(), |id| format!("the id {id}"));
                Some(Some(stray.line.finding(format_args!("the response has {id}, which no request had"))))
            });
            answered(view).chain(others)
        };
    "notification-not-answered", [
        FIRST Must "https://www.jsonrpc.org/specification#notification",
        SINCE_SECOND Must "basic#notifications",
    ],
        "A notification gets no response.",
        else "no notification was sent",
        |view| {
            if view.run.is_http() {
                return Outcome::Skipped("over HTTP, the rule notification-accepted checks the response");
            }
            let answered = view.stray_responses.iter().filter_map(|stray| {
                let StrayMeaning::Notified(notification) = view.meaning(stray) else { return None };
                let (sent, received) = (notification.line.bytes(), stray.line.bytes());
                Some(Some(Finding::new("a notification got a response", Some(sent), Some(received))))
            });
            view.our_notifications.iter().map(|_| None).chain(answered)
        };
    "answer-in-time", [
        FIRST Advice "basic/lifecycle#error-handling",
        LEGACY_SINCE_SECOND Advice "basic/lifecycle#timeouts",
        MODERN Advice "basic/patterns/cancellation#timeouts",
    ],
        "A response arrives while its sender can still wait for it.",
        else "no second request got a response",
        |view| {
            let limit = view.trace.respond_within;
            // The time of the first response includes the start of the program.
            let later = view.our_requests.iter().skip(1).filter(|request| !request.probe.may_take_long());
            later.filter_map(move |request| {
                let response = request.responses.first()?;
                let time = response.at.saturating_sub(request.at);
                let problem = || format!(
                    "the response to {} took {:.1} s, more than {:.1} s",
                    request.name(), time.as_secs_f64(), limit.as_secs_f64()
                );
                Some((time > limit).then(|| request.finding_with(problem(), response.line)))
            })
        };
    "request-id-not-reused", REQUESTS,
        "The id of a request was not used before by the same sender in the session.",
        else "the server sent no request",
        |view| {
            let mut first = BTreeMap::new();
            view.requests.iter().map(move |request| {
                let earlier = first.insert(&request.what.id, request)?;
                // A message that is sent on every stream has a rule of its own.
                if is_sent_again(earlier, request) {
                    return None;
                }
                let problem = format!("two requests of the server have the id {}", request.what.id);
                Some(Finding::new(problem, Some(earlier.line.bytes()), Some(request.line.bytes())))
            })
        };
    "unknown-cancel-ignored", [
        LEGACY Should "basic/utilities/cancellation#error-handling",
        MODERN Should "basic/patterns/cancellation#error-handling",
    ],
        "The cancellation of an unknown request is ignored.",
        |view| goes_on(view, Probe::AfterCancel, "no unknown request was cancelled");
    "unknown-method-refused", [ALL Must RESPONSE],
        "A request with an unknown method returns an error.",
        else "no unknown method was requested, or there was no response",
        |view| view.answers(Probe::UnknownMethod).map(|(reply, outcome)| {
            reply.finding_if(outcome.is_ok(), "an unknown method returned a result")
        });
    "unknown-method-code", [LEGACY Should CODES, MODERN Should "schema#methodnotfounderror"],
        "The error for an unknown method has the code -32601.",
        |view| code_of(view, Probe::UnknownMethod, code::METHOD_NOT_FOUND, "no unknown method was rejected");
    "bad-json-code", [LEGACY Should CODES, MODERN Should "schema#parseerror"],
        "The error for text that is not JSON has the code -32700.",
        |view| provoked(view, Probe::BadJson, code::PARSE_ERROR);
    "invalid-request-code", [LEGACY Should CODES, MODERN Should "schema#invalidrequesterror"],
        "The error for JSON that is not a request has the code -32600.",
        |view| provoked(view, Probe::InvalidRequest, code::INVALID_REQUEST);
    "json-rpc-codes", [ALL Should CODES],
        "Codes from -32768 to -32100 are reserved by JSON-RPC: only those that it defines are used.",
        |view| codes(view, "is reserved by JSON-RPC and has no meaning there", |code| {
            let is_defined = matches!(
                code,
                code::PARSE_ERROR
                    | code::INVALID_REQUEST
                    | code::METHOD_NOT_FOUND
                    | code::INVALID_PARAMS
                    | code::INTERNAL_ERROR
            );
            (-32768..=-32100).contains(&code) && !is_defined
        });
    "reserved-codes", [MODERN Must "basic#error-codes"],
        "Codes from -32099 to -32020 are reserved by the specification: only those that it defines are used.",
        |view| codes(view, "is reserved by the specification and has no meaning there", |code| {
            let is_defined = matches!(
                code,
                // The last one has a rule of its own.
                code::HEADER_MISMATCH
                    | code::MISSING_REQUIRED_CLIENT_CAPABILITY
                    | code::UNSUPPORTED_PROTOCOL_VERSION
                    | code::URL_ELICITATION_REQUIRED
            );
            (-32099..=-32020).contains(&code) && !is_defined
        });
    "superseded-codes", [MODERN Must "basic#error-codes"],
        "The codes -32002 and -32042 of earlier revisions are not sent.",
        |view| codes(view, "belongs to earlier revisions", |code| {
            matches!(code, code::RESOURCE_NOT_FOUND | code::URL_ELICITATION_REQUIRED)
        });
    "implementation-codes", [MODERN Should "basic#error-codes"],
        "New implementations do not use the codes from -32019 to -32000.",
        |view| codes(view, "is in a range that is closed to new uses", |code| {
            (-32019..=-32000).contains(&code) && code != code::RESOURCE_NOT_FOUND
        });
    "batch-answered", [BATCHING Must "basic#batching"],
        "An array of requests is accepted, and each request in it gets a response.",
        else "no array of requests was sent (see --protocol-version)",
        |view| {
            // The requests of one array are one line, which has one finding.
            let first = |request: &OurRequest<'_>| {
                let on_line = view.probed(Probe::Batch).filter(|other| other.place == request.place);
                on_line.filter(|other| !other.is_answered()).map(|other| other.id).next()
            };
            view.probed(Probe::Batch).map(move |request| {
                let is_first = !request.is_answered() && first(request) == Some(request.id);
                is_first.then(|| silence(view, request))
            })
        };
    "goes-on-after-bad-line", [ALL Advice CODES],
        "After a line that cannot be parsed, the next request gets a response.",
        |view| goes_on(view, Probe::AfterBadLine, "no line was sent that cannot be parsed");
}

/// Whether a line is JSON-RPC without the form of a message.
pub(crate) const fn is_misshapen(kind: &DecodeErrorKind) -> bool {
    matches!(
        kind,
        DecodeErrorKind::MethodMissing
            | DecodeErrorKind::MethodType
            | DecodeErrorKind::MethodAndOutcome
            | DecodeErrorKind::ParamsType
    )
}

/// An item without a finding for each answered request.
fn answered<'s>(view: &'s ServerView<'_>) -> impl Iterator<Item = Option<Finding>> + 's {
    view.our_requests.iter().filter(|request| request.is_answered()).map(|_| None)
}

/// Checks the errors that the decoder refuses: `check` returns the problem of one.
fn broken_errors(view: &ServerView<'_>, check: impl Fn(&Raw) -> Option<String>) -> Outcome {
    let invalid = view.invalid.iter().filter(|it| matches!(it.what.kind, DecodeErrorKind::Error { .. }));
    let broken = invalid.filter_map(|fault| {
        let error = member(&of_line(fault.line.bytes())?, "error")?;
        Some(Some(fault.finding(check(&error)?)))
    });
    Outcome::of(view.errors().map(|_| None).chain(broken), "no error was seen")
}

/// Checks all messages: a violation is a line that is no message for this reason.
fn by_kind(view: &ServerView<'_>, is_broken: impl Fn(&DecodeErrorKind) -> bool) -> Outcome {
    by_line(view, |kind, _| is_broken(kind))
}

fn by_line(
    view: &ServerView<'_>,
    is_broken: impl Fn(&DecodeErrorKind, Option<&Members<Raw>>) -> bool,
) -> Outcome {
    let messages = view.lines.iter().flat_map(|(_, line)| line.messages()).map(|_| None);
    let broken = view.invalid.iter().filter(|fault| {
        let line = of_line(fault.line.bytes()).and_then(|line| members(&line));
        is_broken(&fault.what.kind, line.as_ref())
    });
    let broken = broken.map(|fault| Some(fault.finding(&fault.what.kind)));
    Outcome::of(messages.chain(broken), "the server sent no message")
}

/// Checks the codes of all errors.
fn codes(view: &ServerView<'_>, problem: &str, is_broken: impl Fn(i64) -> bool) -> Outcome {
    let findings = view.errors().map(|it| {
        let code = it.error.code;
        it.finding_if(is_broken(code), format_args!("the code {code} {problem}"))
    });
    Outcome::of(findings, "no error was seen")
}

/// Checks that the errors for a probe have this code.
pub(crate) fn code_of(view: &ServerView<'_>, probe: Probe, wanted: i64, nothing: &'static str) -> Outcome {
    let findings = view.answers(probe).filter_map(|(reply, outcome)| {
        let code = outcome.as_ref().err()?.code;
        Some(reply.finding_if(code != wanted, format_args!("the code is {code}, expected {wanted}")))
    });
    Outcome::of(findings, nothing)
}

/// Checks that a probe is answered with the error -32602.
pub(crate) fn refused(view: &ServerView<'_>, probe: Probe, nothing: &'static str) -> Outcome {
    refused_with(view, probe, code::INVALID_PARAMS, nothing)
}

/// Checks that a probe is answered with the error of this code.
pub(crate) fn refused_with(
    view: &ServerView<'_>,
    probe: Probe,
    wanted: i64,
    nothing: &'static str,
) -> Outcome {
    let findings = view.answers(probe).map(|(reply, outcome)| match outcome {
        Ok(_) => Some(reply.finding("expected an error, got a result")),
        Err(error) => reply
            .finding_if(error.code != wanted, format_args!("the code is {}, expected {wanted}", error.code)),
    });
    Outcome::of(findings, nothing)
}

/// Checks the code of the errors for lines that are no request: errors with the id of the line or without one.
fn provoked(view: &ServerView<'_>, probe: Probe, wanted: i64) -> Outcome {
    let nothing = match view.probed(probe).next() {
        Some(_) => "there was no error, which is allowed",
        None => "no such line was sent",
    };
    let owned = view.probed(probe).flat_map(|request| {
        let responses = request.responses.iter();
        responses.filter_map(move |it| Some((request, it.line, it.outcome?.as_ref().err()?)))
    });
    let strays =
        view.stray_responses.iter().filter_map(|stray| match (view.meaning(stray), &stray.what.outcome) {
            (StrayMeaning::Provoked(request), Err(error)) if request.probe == probe => {
                Some((request, stray.line, error))
            }
            _ => None,
        });
    let findings = owned.chain(strays).map(|(request, line, error)| {
        let problem = || format!("the code is {}, expected {wanted}", error.code);
        (error.code != wanted).then(|| request.finding_with(problem(), line))
    });
    Outcome::of(findings, nothing)
}

/// Whether one message was received on two streams.
pub(crate) fn is_sent_again<T>(one: &Received<'_, T>, other: &Received<'_, T>) -> bool {
    one.exchange != other.exchange && one.line.bytes() == other.line.bytes()
}

/// Checks that the requests of a probe, which follow an odd message, are answered.
pub(crate) fn goes_on(view: &ServerView<'_>, probe: Probe, nothing: &'static str) -> Outcome {
    let decided = view.probed(probe).filter(|request| view.is_decided(request));
    Outcome::of(decided.map(|request| unanswered(view, request)), nothing)
}

/// A finding if a request is not answered.
pub(crate) fn unanswered(view: &ServerView<'_>, request: &OurRequest<'_>) -> Option<Finding> {
    (!request.is_answered()).then(|| silence(view, request))
}

/// The finding that a request is not answered.
fn silence(view: &ServerView<'_>, request: &OurRequest<'_>) -> Finding {
    let is_too_large = |kind: &DecodeErrorKind| matches!(kind, DecodeErrorKind::TooLarge { .. });
    let exchange = view.exchange_of(request);
    let why = if view.ended_early() {
        "the server exited".into()
    } else if view.invalid.iter().any(|fault| is_too_large(&fault.what.kind)) {
        "received a line longer than the limit of a message".into()
    } else if let Some(exchange) = exchange {
        exchange.silence()
    } else {
        "received nothing".into()
    };
    let problem = format!("{} got no response: {why}", request.name());
    let sent: &Bytes = request.line.bytes();
    exchange.map_or_else(|| Finding::new(&problem, Some(sent), None), |exchange| exchange.finding(&problem))
}
