//! The opening of a legacy session, and what stays possible before it is open.

use mcpjoin_proto::{Kind, Method, Raw};

use crate::base::silence;
use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::{Answer, Asked, Seen, member, members};
use crate::trace::{Channel, Event, Line, Probe, What};

const INITIALIZATION: &[Source] = &[Source::new(Revisions::LEGACY, Must, "basic/lifecycle#initialization")];
const PING: &[Source] = &[Source::new(Revisions::LEGACY, Must, "basic/utilities/ping#behavior-requirements")];

pub(super) static RULES: [Rule; 7] = [
    Rule {
        slug: "silent-before-initialize",
        chapter: Chapter::Lifecycle,
        sentence: "The first thing that is said is the client's initialize.",
        sources: INITIALIZATION,
        judge: |seen| {
            if seen.run.channel == Channel::StreamableHttp {
                return Outcome::Skipped("over HTTP nothing can come before something was asked");
            }
            let opening = |event: &Event| {
                matches!(event.what, What::Sent(Probe::Initialize | Probe::UnknownVersion, _))
            };
            let Some(opened) = seen.run.events.iter().position(opening) else {
                return Outcome::Skipped("no session was opened");
            };
            let early = seen.lines.iter().filter(|(place, line)| {
                // What is no message breaks another rule.
                *place < opened && line.parts().any(|part| part.is_ok())
            });
            let early = early.map(|(_, line)| {
                Some(Finding::new("this came before we had said anything", None, Some(line.bytes())))
            });
            Outcome::of(early.chain([None]), "")
        },
    },
    Rule {
        slug: "initialize-version",
        chapter: Chapter::Lifecycle,
        sentence: "The answer to initialize names a protocol version.",
        sources: INITIALIZATION,
        judge: |seen| {
            opened(seen, |asked, answer, result| {
                (kind(result, "protocolVersion") != Some(Kind::String))
                    .then(|| asked.finding("protocolVersion is missing or no string", answer.line))
            })
        },
    },
    Rule {
        slug: "initialize-capabilities",
        chapter: Chapter::Lifecycle,
        sentence: "The answer to initialize has the server's capabilities.",
        sources: INITIALIZATION,
        judge: |seen| {
            opened(seen, |asked, answer, result| {
                (kind(result, "capabilities") != Some(Kind::Object))
                    .then(|| asked.finding("capabilities are missing or no object", answer.line))
            })
        },
    },
    Rule {
        slug: "initialize-server-info",
        chapter: Chapter::Lifecycle,
        sentence: "The answer to initialize has serverInfo with the name and the version of the server.",
        sources: INITIALIZATION,
        judge: |seen| {
            opened(seen, |asked, answer, result| {
                let info = member(result, "serverInfo");
                let string = |name| info.as_ref().and_then(|info| kind(info, name)) == Some(Kind::String);
                let problem = if info.is_none() {
                    "serverInfo is missing"
                } else if !string("name") {
                    "serverInfo has no name that is a string"
                } else if !string("version") {
                    "serverInfo has no version that is a string"
                } else {
                    return None;
                };
                Some(asked.finding(problem, answer.line))
            })
        },
    },
    Rule {
        slug: "ping-empty",
        chapter: Chapter::Lifecycle,
        sentence: "The answer to ping is an empty result.",
        sources: PING,
        judge: |seen| {
            let pings = seen
                .asked
                .iter()
                .filter(|asked| asked.method == Some(&Method::Ping) && !asked.probe.is_about_http());
            let judged = pings.filter_map(|asked| {
                let (answer, outcome) = asked.answer()?;
                let problem = match outcome {
                    Err(_) => "ping brought an error",
                    Ok(result) => {
                        let members = members(result.raw())?;
                        // `_meta` may stand in every result.
                        if members.keys().all(|name| name == "_meta") {
                            return Some(None);
                        }
                        "the result of ping is not empty"
                    }
                };
                Some(Some(asked.finding(problem, answer.line)))
            });
            Outcome::of(judged, "no ping was answered")
        },
    },
    Rule {
        slug: "ping-before-initialized",
        chapter: Chapter::Lifecycle,
        sentence: "A ping is answered before notifications/initialized, too.",
        sources: PING,
        judge: |seen| {
            let pings = seen.probed(Probe::EarlyPing);
            let judged = pings.filter(|asked| !asked.answers.is_empty() || !seen.may_be_answered(asked));
            Outcome::of(
                judged.map(|asked| asked.answers.is_empty().then(|| silence(seen, asked))),
                "no ping was sent before notifications/initialized",
            )
        },
    },
    Rule {
        slug: "no-request-before-initialized",
        chapter: Chapter::Lifecycle,
        sentence: "Before notifications/initialized the server sends no request but ping.",
        sources: &[Source::new(Revisions::LEGACY, Should, "basic/lifecycle#initialization")],
        judge: |seen| {
            let opened = seen.told.iter().find(|told| is_initialized(told.line));
            let Some(opened) = opened.map(|told| told.place) else {
                return Outcome::Skipped("no session was opened");
            };
            let early = seen.requests.iter().filter(|request| request.place < opened);
            let early = early.filter(|request| request.what.method != Method::Ping).map(|request| {
                let problem = format!("{} came before notifications/initialized", request.what.method);
                Some(Finding::new(problem, None, Some(request.line.bytes())))
            });
            Outcome::of(early.chain([None]), "")
        },
    },
];

fn is_initialized(line: &Line) -> bool {
    line.parts().any(|part| {
        matches!(part, Ok(mcpjoin_proto::Message::Notification(told)) if told.method == Method::Initialized)
    })
}

fn kind(object: &Raw, name: &str) -> Option<Kind> {
    member(object, name).map(|value| value.kind())
}

/// Looks at each result of `initialize` that is an object.
fn opened(seen: &Seen<'_>, look: impl Fn(&Asked<'_>, &Answer<'_>, &Raw) -> Option<Finding>) -> Outcome {
    let results = seen.results().filter(|(asked, ..)| asked.method == Some(&Method::Initialize));
    let judged = results
        .filter(|(.., result)| result.raw().kind() == Kind::Object)
        .map(|(asked, answer, result)| look(asked, answer, result.raw()));
    Outcome::of(judged, "initialize brought no result")
}
