//! How a client opens a session of the legacy era, and that it uses no more than was agreed on.

use mcpjoin_proto::types::Members;
use mcpjoin_proto::{Direction, Kind, Message, Method, MethodFacts, Needs, Raw, Version};

use super::talk::{Asked, Talk, is_object};
use super::utilities::is_string;
use crate::revisions::Revisions;
use crate::rule::Level::{Advice, Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::{Seen, member, members};
use crate::trace::{Channel, Line, What};

const INITIALIZATION: &[Source] = &[Source::new(Revisions::LEGACY, Must, "basic/lifecycle#initialization")];
const OPERATION: &[Source] = &[
    Source::new(Revisions::FIRST_TWO, Should, "basic/lifecycle#operation"),
    Source::new(Revisions::LEGACY_SINCE_THIRD, Must, "basic/lifecycle#operation"),
];
const NOTHING: &str = "the client did not send initialize";

pub(super) static RULES: [Rule; 10] = [
    Rule {
        slug: "client-opens-with-initialize",
        chapter: Chapter::Lifecycle,
        sentence: "A client begins with initialize.",
        sources: INITIALIZATION,
        judge: |seen| {
            let talk = seen.talk();
            // A ping is allowed before the session is open, and without one nothing is used.
            let first = talk.asked.iter().find(|asked| asked.what.method != Method::Ping);
            let judged = first.map(|asked| {
                (asked.what.method != Method::Initialize)
                    .then(|| asked.finding(format!("its first request is {}", asked.what.method)))
            });
            Outcome::of(judged, "the client sent no request")
        },
    },
    Rule {
        slug: "client-initialize-alone",
        chapter: Chapter::Lifecycle,
        sentence: "A client's initialize is no part of an array.",
        sources: &[Source::new(Revisions::BATCHING, Must, "basic/lifecycle#initialization")],
        judge: |seen| {
            opened(seen, |asked| asked.line.is_array().then(|| asked.finding("it stands in an array")))
        },
    },
    Rule {
        slug: "client-initialize-complete",
        chapter: Chapter::Lifecycle,
        sentence: "A client's initialize has a protocol version, the client's capabilities, and its name and version.",
        sources: INITIALIZATION,
        judge: |seen| {
            opened(seen, |asked| {
                let params = params(asked).unwrap_or_default();
                if !is_string(params.get("protocolVersion")) {
                    return Some(asked.finding("protocolVersion is missing or no string"));
                }
                if !is_object(params.get("capabilities")) {
                    return Some(asked.finding("capabilities are missing or no object"));
                }
                nameless(params.get("clientInfo"))
                    .map(|problem| asked.finding(format!("clientInfo {problem}")))
            })
        },
    },
    Rule {
        slug: "client-version-exists",
        chapter: Chapter::Lifecycle,
        sentence: "The version that a client's initialize names is a revision that has initialize.",
        sources: &[Source::new(Revisions::LEGACY, Advice, "basic/lifecycle#version-negotiation")],
        judge: |seen| {
            opened(seen, |asked| {
                let version = params(asked)?.get("protocolVersion")?.to_string_value()?.into_owned();
                (!Revisions::LEGACY.contains(&Version::parse(&version)))
                    .then(|| asked.finding(format!("no such revision: {version:?}")))
            })
        },
    },
    Rule {
        slug: "client-waits-for-initialize",
        chapter: Chapter::Lifecycle,
        sentence: "Before initialize is answered, a client sends no request but ping.",
        sources: &[Source::new(Revisions::LEGACY, Should, "basic/lifecycle#initialization")],
        judge: |seen| {
            let talk = seen.talk();
            let Some(opened) = talk.calls(&Method::Initialize).next() else {
                return Outcome::Skipped(NOTHING);
            };
            let answered = opened.answer.map_or(usize::MAX, |said| said.place);
            let early = talk.asked.iter().filter(|asked| {
                asked.place > opened.place
                    && asked.place < answered
                    && !matches!(asked.what.method, Method::Ping | Method::Initialize)
            });
            let early = early
                .map(|asked| Some(asked.finding(format!("{} came before the answer", asked.what.method))));
            Outcome::of(early.chain([None]), NOTHING)
        },
    },
    Rule {
        slug: "client-sends-initialized",
        chapter: Chapter::Lifecycle,
        sentence: "A client sends notifications/initialized when initialize has brought a result, and not before.",
        sources: INITIALIZATION,
        judge: |seen| {
            let talk = seen.talk();
            let told = talk.told.iter().find(|told| told.what.method == Method::Initialized);
            let Some((opened, said, _)) = talk.opening().filter(|_| !talk.is_unusable()) else {
                // What is to follow an error nobody says.
                let answered = talk.calls(&Method::Initialize).any(|asked| asked.answer.is_some());
                let early = told.filter(|_| !answered);
                let early = early.map(|told| Some(talk.finding("initialize was not answered", told.line)));
                return Outcome::of(early, "initialize did not bring a result that a client can use");
            };
            if let Some(told) = told {
                let early = told.place < said.place;
                let early = early.then(|| talk.finding("initialize was not answered yet", told.line));
                return Outcome::of([early], NOTHING);
            }
            let went_on =
                talk.asked.iter().any(|asked| asked.place > said.place && asked.what.method != Method::Ping);
            let waited = talk.last.saturating_sub(said.at) >= seen.trace.answer_within;
            if !went_on && !waited {
                return Outcome::Skipped("the client left at once");
            }
            Outcome::of([Some(opened.finding("it was never sent"))], NOTHING)
        },
    },
    Rule {
        slug: "client-leaves-unknown-version",
        chapter: Chapter::Lifecycle,
        sentence: "A client disconnects when the server answers with a version that it does not know.",
        sources: &[Source::new(Revisions::LEGACY, Should, "basic/lifecycle#version-negotiation")],
        judge: |seen| {
            let talk = seen.talk();
            let Some((_, said, _)) = talk.opening().filter(|_| talk.is_unusable()) else {
                return Outcome::Skipped("the version that the client got was one that exists");
            };
            let after = talk.lines.iter().find(|(place, line)| {
                // To ask again in another way is no use of this session.
                *place > said.place && line.parts().any(|part| !is_opening(part.ok()))
            });
            Outcome::of([after.map(|(_, line)| talk.finding("the client went on", line))], NOTHING)
        },
    },
    Rule {
        slug: "client-accepts-offered-version",
        chapter: Chapter::Lifecycle,
        sentence: "A client asks for a version that it speaks: it goes on when it gets that.",
        sources: &[Source::new(Revisions::LEGACY, Must, "basic/lifecycle#version-negotiation")],
        judge: |seen| {
            let talk = seen.talk();
            let Some((opened, said, result)) = talk.opening() else {
                return Outcome::Skipped("initialize did not bring a result");
            };
            let agreed = member(result.raw(), "protocolVersion").and_then(|version| version_of(&version));
            let wanted = params(opened).and_then(|params| version_of(params.get("protocolVersion")?));
            if agreed.is_none() || agreed != wanted {
                return Outcome::Skipped("the client did not get the version that it had asked for");
            }
            let went_on = talk.lines.iter().any(|(place, _)| *place > said.place);
            if went_on {
                return Outcome::Passed;
            }
            // On the same connection, there is no other client.
            let next = next_opening(seen).filter(|(next, _)| Some(next) != wanted.as_ref());
            let other = next.map(|(next, line)| {
                let problem = format!("it asks for {next:?} now, and had got what it had asked for");
                Some(talk.finding(problem, line))
            });
            Outcome::of(other, "the client left at once")
        },
    },
    Rule {
        slug: "client-undeclared-not-asked",
        chapter: Chapter::Lifecycle,
        sentence: "A client asks for nothing that the server has not declared.",
        sources: OPERATION,
        judge: |seen| {
            let talk = seen.talk();
            let Some(offered) = talk.offered() else {
                return Outcome::Skipped("initialize did not bring capabilities");
            };
            let judged = sent(talk).filter_map(|(method, line)| {
                let needs = method.facts()?.needs;
                // The capability for completions came with the second revision; before, everybody could be asked.
                let first = Revisions::FIRST.contains(talk.version());
                let Needs::Server(path) = needs else { return None };
                let has = has(&offered, path) || first && path == "completions";
                Some((!has).then(|| {
                    talk.finding(format!("{method} needs {path}, which the server has not declared"), line)
                }))
            });
            Outcome::of(judged, "the client used nothing that must be declared")
        },
    },
    Rule {
        slug: "client-respects-version",
        chapter: Chapter::Lifecycle,
        sentence: "A client uses no method of a revision other than the one that was agreed on.",
        sources: OPERATION,
        judge: |seen| {
            let talk = seen.talk();
            let judged = sent(talk).filter_map(|(method, line)| {
                let facts = method.facts()?;
                let good = facts.exists_in(talk.version()) && facts.direction != Direction::ToClient;
                Some((!good).then(|| foreign(talk, facts, line)))
            });
            Outcome::of(judged, "the client sent no message")
        },
    },
];

fn foreign(talk: &Talk<'_>, facts: &MethodFacts, line: &Line) -> Finding {
    let problem = if facts.direction == Direction::ToClient {
        format!("{} is sent by servers", facts.name)
    } else {
        format!("{} has no {}", talk.version(), facts.name)
    };
    talk.finding(problem, line)
}

/// The methods of all that it has sent.
pub(super) fn sent<'a>(talk: &Talk<'a>) -> impl Iterator<Item = (&'a Method, &'a Line)> {
    let asked = talk.asked.iter().map(|asked| (&asked.what.method, asked.line));
    asked.chain(talk.told.iter().map(|told| (&told.what.method, told.line)))
}

fn is_opening(message: Option<&Message>) -> bool {
    match message {
        Some(Message::Request(request)) => request.method == Method::Initialize,
        Some(Message::Notification(told)) => told.method == Method::Cancelled,
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
fn next_opening<'a>(seen: &Seen<'a>) -> Option<(String, &'a Line)> {
    let later = seen.trace.runs.iter().skip_while(|run| !std::ptr::eq(*run, seen.run)).skip(1);
    let next =
        later.take(1).filter(|run| run.channel == Channel::Stdio && seen.run.channel == Channel::Stdio);
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

fn params(asked: &Asked<'_>) -> Option<Members<Raw>> {
    members(asked.what.params.as_ref()?.raw())
}

/// Looks at what opens the session.
fn opened(seen: &Seen<'_>, look: impl Fn(&Asked<'_>) -> Option<Finding>) -> Outcome {
    Outcome::of(seen.talk().calls(&Method::Initialize).map(look), NOTHING)
}
