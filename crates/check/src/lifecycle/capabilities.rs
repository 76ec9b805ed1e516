//! What a server declares, and what it does beside it.

use mcpjoin_proto::types::Members;
use mcpjoin_proto::{Kind, Method, Needs, Raw, code};

use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::{Seen, elements, has_path, member, members};
use crate::trace::Probe;

/// The capabilities of the specification; a server may have others of its own, of any shape.
const KNOWN: [&str; 8] =
    ["experimental", "logging", "completions", "prompts", "resources", "tools", "tasks", "extensions"];
const FLAGS: [(&str, &str); 4] = [
    ("prompts", "listChanged"),
    ("resources", "subscribe"),
    ("resources", "listChanged"),
    ("tools", "listChanged"),
];

const SHAPE: &[Source] = &[
    Source::new(Revisions::LEGACY, Must, "basic/lifecycle#capability-negotiation"),
    Source::new(Revisions::MODERN, Must, "schema#servercapabilities"),
];

pub(super) static RULES: [Rule; 8] = [
    Rule {
        slug: "capabilities-are-objects",
        chapter: Chapter::Lifecycle,
        sentence: "Each capability of the specification is an object.",
        sources: SHAPE,
        judge: |seen| {
            declared(seen, |declared| {
                KNOWN.into_iter().find_map(|name| {
                    let value = declared.get(name)?;
                    (value.kind() != Kind::Object).then(|| format!("{name} is {value}"))
                })
            })
        },
    },
    Rule {
        slug: "capability-flags-are-booleans",
        chapter: Chapter::Lifecycle,
        sentence: "listChanged and subscribe are true or false.",
        sources: SHAPE,
        judge: |seen| {
            declared(seen, |declared| {
                FLAGS.into_iter().find_map(|(name, flag)| {
                    let value = members(declared.get(name)?)?.get(flag)?.clone();
                    (value.kind() != Kind::Bool).then(|| format!("{name}.{flag} is {value}"))
                })
            })
        },
    },
    Rule {
        slug: "declared-list-exists",
        chapter: Chapter::Lifecycle,
        sentence: "A server that declares tools, resources or prompts knows the method that lists them.",
        sources: &[
            Source::new(Revisions::LEGACY, Should, "basic/lifecycle#capability-negotiation"),
            Source::new(Revisions::MODERN, Must, "server/tools#capabilities"),
        ],
        judge: |seen| {
            let judged = seen.probed(Probe::List).filter_map(|asked| {
                let (answer, outcome) = asked.answer()?;
                let unknown = outcome.as_ref().is_err_and(|error| error.code == code::METHOD_NOT_FOUND);
                let problem = || format!("the capability is declared, and {} does not exist", asked.name());
                Some(unknown.then(|| asked.finding(problem(), answer.line)))
            });
            Outcome::of(judged, "no list was declared")
        },
    },
    Rule {
        slug: "undeclared-list-unknown",
        chapter: Chapter::Lifecycle,
        sentence: "A method whose capability is not declared is answered with the error -32601.",
        sources: &[Source::new(Revisions::MODERN, Should, "schema#methodnotfounderror")],
        judge: |seen| {
            let judged = seen.probed(Probe::UndeclaredList).filter_map(|asked| {
                let (answer, outcome) = asked.answer()?;
                let problem = match outcome {
                    // This has a rule of its own.
                    Ok(result) if offers(result.raw()) => return None,
                    Ok(_) => format!("{} brought a result, and its capability is not declared", asked.name()),
                    Err(error) if error.code == code::METHOD_NOT_FOUND => return Some(None),
                    Err(error) => format!("the code is {}, not {}", error.code, code::METHOD_NOT_FOUND),
                };
                Some(Some(asked.finding(problem, answer.line)))
            });
            Outcome::of(judged, "the server declares every list")
        },
    },
    Rule {
        slug: "features-declared",
        chapter: Chapter::Lifecycle,
        sentence: "A server that offers tools, resources, prompts or completion declares the capability.",
        sources: &[Source::new(Revisions::ALL, Must, "server/tools#capabilities")],
        judge: |seen| {
            let probed = [Probe::UndeclaredList, Probe::UndeclaredCompletion];
            let judged =
                seen.asked.iter().filter(|asked| probed.contains(&asked.probe)).filter_map(|asked| {
                    let (answer, outcome) = asked.answer()?;
                    let offered = outcome.as_ref().is_ok_and(|result| offers(result.raw()));
                    let problem =
                        || format!("{} offers something, and nothing of the kind is declared", asked.name());
                    Some(offered.then(|| asked.finding(problem(), answer.line)))
                });
            Outcome::of(judged, "the server declares everything")
        },
    },
    Rule {
        slug: "client-capability-respected",
        chapter: Chapter::Lifecycle,
        sentence: "The server asks nothing of the client that the client has not declared.",
        sources: &[
            Source::new(Revisions::FIRST_TWO, Should, "basic/lifecycle#operation"),
            Source::new(Revisions::LEGACY_SINCE_THIRD, Must, "basic/lifecycle#operation"),
        ],
        judge: |seen| {
            let judged = seen.requests.iter().map(|request| {
                let Some(Needs::Client(capability)) = request.what.method.facts().map(|facts| facts.needs)
                else {
                    return None;
                };
                if seen.client_capabilities().is_some_and(|ours| has_path(&ours, capability)) {
                    return None;
                }
                let problem =
                    format!("{} needs the capability {capability}, which we have not", request.what.method);
                Some(Finding::new(problem, None, Some(request.line.bytes())))
            });
            Outcome::of(judged.chain(seen.opening().map(|_| None)), "no session was opened")
        },
    },
    Rule {
        slug: "notification-capability-declared",
        chapter: Chapter::Lifecycle,
        sentence: "The server notifies of what it has declared, and of nothing else.",
        sources: &[
            Source::new(Revisions::FIRST_TWO, Should, "basic/lifecycle#operation"),
            Source::new(Revisions::LEGACY_SINCE_THIRD, Must, "basic/lifecycle#operation"),
        ],
        judge: |seen| undeclared(seen, |method| *method != Method::LogMessage),
    },
    Rule {
        slug: "logging-declared",
        chapter: Chapter::Lifecycle,
        sentence: "A server that sends log messages declares logging.",
        sources: &[Source::new(Revisions::ALL, Must, "server/utilities/logging#capabilities")],
        judge: |seen| undeclared(seen, |method| *method == Method::LogMessage),
    },
];

/// Whether a list has something in it.
fn offers(result: &Raw) -> bool {
    let completion = member(result, "completion").and_then(|completion| member(&completion, "values"));
    let lists = ["tools", "prompts", "resources", "resourceTemplates"].map(|name| member(result, name));
    let mut lists = lists.into_iter().chain([completion]).flatten().filter_map(|list| elements(&list));
    lists.any(|list| !list.is_empty())
}

/// Whether a capability, or a flag of one, is declared.
fn has(declared: &Members<Raw>, path: &str) -> bool {
    match path.split_once('.') {
        None => declared.contains_key(path),
        Some((name, flag)) => declared
            .get(name)
            .and_then(members)
            .is_some_and(|members| members.get(flag).is_some_and(|flag| flag.as_str() == "true")),
    }
}

/// The notifications of these methods need what is declared.
fn undeclared(seen: &Seen<'_>, of: impl Fn(&Method) -> bool) -> Outcome {
    let Some(declared) = seen.declared() else {
        return Outcome::Skipped("nothing was declared");
    };
    let judged = seen.notifications.iter().filter(|told| of(&told.what.method)).filter_map(|told| {
        let Some(Needs::Server(capability)) = told.what.method.facts().map(|facts| facts.needs) else {
            return None;
        };
        let problem =
            || format!("{} needs the capability {capability}, which is not declared", told.what.method);
        let missing = !has(&declared, capability);
        Some(missing.then(|| Finding::new(problem(), None, Some(told.line.bytes()))))
    });
    Outcome::of(judged, "the server notified of nothing that must be declared")
}

/// Looks at what the opening of a run has declared.
fn declared(seen: &Seen<'_>, look: impl Fn(&Members<Raw>) -> Option<String>) -> Outcome {
    let judged = seen.opening().and_then(|(asked, answer, result)| {
        let declared = member(result.raw(), "capabilities")?;
        Some(look(&members(&declared)?).map(|problem| asked.finding(problem, answer.line)))
    });
    Outcome::of(judged, "nothing was declared")
}
