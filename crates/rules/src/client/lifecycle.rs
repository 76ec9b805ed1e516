//! How a client opens a session of the legacy era, and that it uses no feature that was not negotiated.

use mcpjoin_proto::types::Members;
use mcpjoin_proto::{Direction, Kind, Message, Method, MethodFacts, Needs, Raw, Version};

use super::utilities::is_string;
use crate::client_view::{ClientRequest, ClientView};
use crate::json::{is_object, member, members};
use crate::revisions::Revisions;
use crate::rule::{Finding, Outcome, Source};
use crate::trace::{Channel, Line, What};

const INITIALIZATION: &[Source] = sources![LEGACY Must "basic/lifecycle#initialization"];
const OPERATION: &[Source] = sources![
    FIRST_TWO Should "basic/lifecycle#operation",
    LEGACY_SINCE_THIRD Must "basic/lifecycle#operation",
];
const NOTHING: &str = "the client did not send initialize";

rules! {
    pub(crate) RULES for Client in Chapter::Lifecycle;

    "client-opens-with-initialize", INITIALIZATION,
        "A client begins with initialize.",
        |view| {
            // A ping is allowed before the session is open, and without one nothing is used.
            let first = view.requests.iter().find(|request| request.what.method != Method::Ping);
            let findings = first.map(|request| {
                (request.what.method != Method::Initialize)
                    .then(|| request.finding(format!("its first request is {}", request.what.method)))
            });
            Outcome::of(findings, "the client sent no request")
        };
    "client-initialize-alone", [BATCHING Must "basic/lifecycle#initialization"],
        "A client's initialize is no part of an array.",
        |view| {
            opened(view, |request| request.line.is_array().then(|| request.finding("it stands in an array")))
        };
    "client-initialize-complete", INITIALIZATION,
        "A client's initialize has a protocol version, the client's capabilities, and its name and version.",
        |view| {
            opened(view, |request| {
                let params = params(request).unwrap_or_default();
                if !is_string(params.get("protocolVersion")) {
                    return Some(request.finding("protocolVersion is missing or no string"));
                }
                if !is_object(params.get("capabilities")) {
                    return Some(request.finding("capabilities are missing or no object"));
                }
                nameless(params.get("clientInfo"))
                    .map(|problem| request.finding(format!("clientInfo {problem}")))
            })
        };
    "client-version-exists", [LEGACY Advice "basic/lifecycle#version-negotiation"],
        "The version that a client's initialize names is a revision that has initialize.",
        |view| {
            opened(view, |request| {
                let version = params(request)?.get("protocolVersion")?.to_string_value()?.into_owned();
                (!Revisions::LEGACY.contains(&Version::parse(&version)))
                    .then(|| request.finding(format!("no such revision: {version:?}")))
            })
        };
    "client-waits-for-initialize", [LEGACY Should "basic/lifecycle#initialization"],
        "Before initialize is answered, a client sends no request but ping.",
        |view| {
            let Some(opened) = view.calls(&Method::Initialize).next() else {
                return Outcome::Skipped(NOTHING);
            };
            let answered = opened.response.map_or(usize::MAX, |response| response.place);
            let early = view.requests.iter().filter(|request| {
                request.place > opened.place
                    && request.place < answered
                    && !matches!(request.what.method, Method::Ping | Method::Initialize)
            });
            let early = early.map(|request| {
                Some(request.finding(format!("{} came before the answer", request.what.method)))
            });
            Outcome::of(early.chain([None]), NOTHING)
        };
    "client-sends-initialized", INITIALIZATION,
        "A client sends notifications/initialized when initialize has brought a result, and not before.",
        |view| {
            let notification = view
                .notifications
                .iter()
                .find(|notification| notification.what.method == Method::Initialized);
            let Some((opened, response, _)) = view.opening().filter(|_| !view.is_unusable()) else {
                // What is to follow an error nobody says.
                let answered = view.calls(&Method::Initialize).any(|request| request.response.is_some());
                let early = notification.filter(|_| !answered);
                let early = early
                    .map(|notification| Some(view.finding("initialize was not answered", notification.line)));
                return Outcome::of(early, "initialize did not bring a result that a client can use");
            };
            if let Some(notification) = notification {
                let early = notification.place < response.place;
                let early = early.then(|| view.finding("initialize was not answered yet", notification.line));
                return Outcome::of([early], NOTHING);
            }
            let went_on = view
                .requests
                .iter()
                .any(|request| request.place > response.place && request.what.method != Method::Ping);
            let waited = view.last_event.saturating_sub(response.at) >= view.trace.answer_within;
            if !went_on && !waited {
                return Outcome::Skipped("the client left at once");
            }
            Outcome::of([Some(opened.finding("it was never sent"))], NOTHING)
        };
    "client-leaves-unknown-version", [LEGACY Should "basic/lifecycle#version-negotiation"],
        "A client disconnects when the server answers with a version that it does not know.",
        |view| {
            let Some((_, response, _)) = view.opening().filter(|_| view.is_unusable()) else {
                return Outcome::Skipped("the version that the client got was one that exists");
            };
            let after = view.lines.iter().find(|(place, line)| {
                // To ask again in another way is no use of this session.
                *place > response.place && line.parts().any(|part| !is_opening(part.ok()))
            });
            Outcome::of([after.map(|(_, line)| view.finding("the client went on", line))], NOTHING)
        };
    "client-accepts-offered-version", [LEGACY Must "basic/lifecycle#version-negotiation"],
        "A client asks for a version that it speaks: it goes on when it gets that.",
        |view| {
            let Some((opened, response, result)) = view.opening() else {
                return Outcome::Skipped("initialize did not bring a result");
            };
            let agreed = member(result.raw(), "protocolVersion").and_then(|version| version_of(&version));
            let wanted = params(opened).and_then(|params| version_of(params.get("protocolVersion")?));
            if agreed.is_none() || agreed != wanted {
                return Outcome::Skipped("the client did not get the version that it had asked for");
            }
            let went_on = view.lines.iter().any(|(place, _)| *place > response.place);
            if went_on {
                return Outcome::Passed;
            }
            // On the same connection, there is no other client.
            let next = next_opening(view).filter(|(next, _)| Some(next) != wanted.as_ref());
            let other = next.map(|(next, line)| {
                let problem = format!("it asks for {next:?} now, and had got what it had asked for");
                Some(view.finding(problem, line))
            });
            Outcome::of(other, "the client left at once")
        };
    "client-undeclared-not-asked", OPERATION,
        "A client asks for nothing that the server has not declared.",
        |view| {
            let Some(offered) = view.offered() else {
                return Outcome::Skipped("initialize did not bring capabilities");
            };
            let findings = sent(view).filter_map(|(method, line)| {
                let needs = method.facts()?.needs;
                // The capability for completions came with the second revision; before, everybody could be asked.
                let first = Revisions::FIRST.contains(view.version());
                let Needs::Server(path) = needs else { return None };
                let has = has(&offered, path) || first && path == "completions";
                Some((!has).then(|| {
                    view.finding(format!("{method} needs {path}, which the server has not declared"), line)
                }))
            });
            Outcome::of(findings, "the client used nothing that must be declared")
        };
    "client-respects-version", OPERATION,
        "A client uses no method of a revision other than the one that was agreed on.",
        |view| {
            let findings = sent(view).filter_map(|(method, line)| {
                let facts = method.facts()?;
                let good = facts.exists_in(view.version()) && facts.direction != Direction::ToClient;
                Some((!good).then(|| foreign(view, facts, line)))
            });
            Outcome::of(findings, "the client sent no message")
        };
}

fn foreign(view: &ClientView<'_>, facts: &MethodFacts, line: &Line) -> Finding {
    let problem = if facts.direction == Direction::ToClient {
        format!("{} is sent by servers", facts.name)
    } else {
        format!("{} has no {}", view.version(), facts.name)
    };
    view.finding(problem, line)
}

/// The methods of all that it has sent.
pub(super) fn sent<'a>(view: &ClientView<'a>) -> impl Iterator<Item = (&'a Method, &'a Line)> {
    let request = view.requests.iter().map(|request| (&request.what.method, request.line));
    request
        .chain(view.notifications.iter().map(|notification| (&notification.what.method, notification.line)))
}

fn is_opening(message: Option<&Message>) -> bool {
    match message {
        Some(Message::Request(request)) => request.method == Method::Initialize,
        Some(Message::Notification(notification)) => notification.method == Method::Cancelled,
        _ => false,
    }
}

/// Whether a capability was declared: an object, or true below one.
pub(super) fn has(capabilities: &Members<Raw>, path: &str) -> bool {
    let (first, second) = path.split_once('.').map_or((path, None), |(first, second)| (first, Some(second)));
    let Some(found) = capabilities.get(first) else { return false };
    let Some(second) = second else { return found.kind() != Kind::Null };
    member(found, second).is_some_and(|found| !matches!(found.as_str(), "false" | "null"))
}

/// What is wrong with the description of an implementation.
pub(super) fn nameless(info: Option<&Raw>) -> Option<&'static str> {
    let Some(info) = info.filter(|info| info.kind() == Kind::Object) else {
        return Some("is missing or no object");
    };
    if !is_string(member(info, "name").as_ref()) {
        return Some("has no name that is a string");
    }
    (!is_string(member(info, "version").as_ref())).then_some("has no version that is a string")
}

fn version_of(version: &Raw) -> Option<String> {
    version.to_string_value().map(|version| version.into_owned())
}

/// The version that is asked for next on the same stream, in a session of its own.
fn next_opening<'a>(view: &ClientView<'a>) -> Option<(String, &'a Line)> {
    let later = view.trace.runs.iter().skip_while(|run| !std::ptr::eq(*run, view.run)).skip(1);
    let next =
        later.take(1).filter(|run| run.channel == Channel::Stdio && view.run.channel == Channel::Stdio);
    let mut lines = next.flat_map(|run| &run.events).filter_map(|event| match &event.what {
        What::Received(line) => Some(line),
        _ => None,
    });
    lines.find_map(|line| {
        line.parts().filter_map(Result::ok).find_map(|message| match message {
            Message::Request(request) if request.method == Method::Initialize => {
                let wanted = member(request.params.as_ref()?.raw(), "protocolVersion")?;
                Some((version_of(&wanted)?, line))
            }
            _ => None,
        })
    })
}

fn params(request: &ClientRequest<'_>) -> Option<Members<Raw>> {
    members(request.what.params.as_ref()?.raw())
}

/// Looks at what opens the session.
fn opened(view: &ClientView<'_>, look: impl Fn(&ClientRequest<'_>) -> Option<Finding>) -> Outcome {
    Outcome::of(view.calls(&Method::Initialize).map(look), NOTHING)
}
