//! The list of tools: names, and what else describes them.

use mcpjoin_proto::{Kind, Method, Raw};

use crate::features::{are_unique, each, has_texts, is_kind, is_list, pages};
use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Outcome, Rule, Source};
use crate::seen::{elements, member, members, text};
use crate::trace::Probe;

const TOOL: &[Source] = &[Source::new(Revisions::ALL, Must, "server/tools#tool")];
const NAMES: &[Source] = &[Source::new(Revisions::SINCE_FOURTH, Should, "server/tools#tool-names")];
const NOTHING: &str = "no tool was listed";

/// The hints about what a tool does.
const HINTS: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

pub(super) static RULES: [Rule; 11] = [
    Rule {
        slug: "tools-listed",
        chapter: Chapter::Tools,
        sentence: "The result of tools/list has an array of tools.",
        sources: &[Source::new(Revisions::ALL, Must, "server/tools#listing-tools")],
        judge: |seen| is_list(seen, &Method::ListTools, "tools/list brought no result"),
    },
    Rule {
        slug: "tool-has-name",
        chapter: Chapter::Tools,
        sentence: "Each tool is an object with a name, which is a string.",
        sources: TOOL,
        judge: |seen| has_texts(seen, &Method::ListTools, &["name"], NOTHING),
    },
    Rule {
        slug: "tool-names-unique",
        chapter: Chapter::Tools,
        sentence: "No two tools of a server have the same name.",
        sources: &[
            Source::new(Revisions::FIRST_THREE, Should, "server/tools#tool"),
            Source::new(Revisions::SINCE_FOURTH, Should, "server/tools#tool-names"),
        ],
        judge: |seen| are_unique(seen, &Method::ListTools, "name", "tools/list brought no result"),
    },
    Rule {
        slug: "tool-name-length",
        chapter: Chapter::Tools,
        sentence: "The name of a tool has 1 to 128 characters.",
        sources: NAMES,
        judge: |seen| {
            each(seen, &Method::ListTools, NOTHING, |tool| {
                let count = text(tool, "name")?.chars().count();
                (!(1..=128).contains(&count)).then(|| format!("its name has {count} characters"))
            })
        },
    },
    Rule {
        slug: "tool-name-characters",
        chapter: Chapter::Tools,
        sentence: "The name of a tool is of the letters A to Z and a to z, digits, underscores, hyphens and dots.",
        sources: NAMES,
        judge: |seen| {
            each(seen, &Method::ListTools, NOTHING, |tool| {
                let name = text(tool, "name")?;
                let strange =
                    name.chars().find(|one| !one.is_ascii_alphanumeric() && !"_-.".contains(*one))?;
                Some(format!("{strange:?} stands in its name"))
            })
        },
    },
    Rule {
        slug: "tool-members",
        chapter: Chapter::Tools,
        sentence: "What describes a tool has its type: title and description are strings, annotations an object.",
        sources: TOOL,
        judge: |seen| {
            each(seen, &Method::ListTools, NOTHING, |tool| {
                let version = &seen.run.version;
                let known = [
                    ("description", Kind::String, Revisions::ALL),
                    ("annotations", Kind::Object, Revisions::SINCE_SECOND),
                    ("title", Kind::String, Revisions::SINCE_THIRD),
                    ("execution", Kind::Object, Revisions::LAST_LEGACY),
                ];
                let mut known = known.into_iter().filter(|(.., revisions)| revisions.contains(version));
                known.find_map(|(name, kind, _)| is_kind(tool, name, kind))
            })
        },
    },
    Rule {
        slug: "tool-annotations",
        chapter: Chapter::Tools,
        sentence: "Of a tool's annotations the hints are true or false, and the title is a string.",
        sources: &[Source::new(Revisions::SINCE_SECOND, Must, "server/tools#tool")],
        judge: |seen| {
            each(seen, &Method::ListTools, "no tool was listed that has annotations", |tool| {
                let annotations = member(tool, "annotations").filter(|value| members(value).is_some())?;
                let hint = HINTS.into_iter().find_map(|name| is_kind(&annotations, name, Kind::Bool));
                let found = hint.or_else(|| is_kind(&annotations, "title", Kind::String))?;
                Some(format!("of its annotations, {found}"))
            })
        },
    },
    Rule {
        slug: "tool-task-support",
        chapter: Chapter::Tools,
        sentence: "What a tool says of tasks in execution.taskSupport is forbidden, optional or required.",
        sources: &[Source::new(Revisions::LAST_LEGACY, Must, "basic/utilities/tasks#tool-level-negotiation")],
        judge: |seen| {
            each(seen, &Method::ListTools, NOTHING, |tool| {
                let given = member(&member(tool, "execution")?, "taskSupport")?;
                let word = given.to_string_value();
                let good = word.is_some_and(|word| ["forbidden", "optional", "required"].contains(&&*word));
                (!good).then(|| format!("execution.taskSupport is {given}"))
            })
        },
    },
    Rule {
        slug: "tools-in-order",
        chapter: Chapter::Tools,
        sentence: "The tools are listed in the same order each time, on whatever connection they are asked for.",
        sources: &[Source::new(Revisions::MODERN, Should, "server/tools#capabilities")],
        judge: |seen| {
            let first = pages(seen, &Method::ListTools).find(|page| page.asked.probe == Probe::List);
            let first = first.and_then(|page| names_of(page.result));
            let again = seen
                .results()
                .filter(|(asked, ..)| matches!(asked.probe, Probe::ListAgain | Probe::ListElsewhere));
            let judged = again.filter_map(|(asked, answer, result)| {
                let (first, again) = (first.as_ref()?, names_of(result.raw())?);
                // Other tools are no other order.
                let same = sorted(first) == sorted(&again);
                let differs = *first != again;
                same.then(|| {
                    differs.then(|| asked.finding("the order differs from the one before", answer.line))
                })
            });
            Outcome::of(judged, "the tools were not listed twice")
        },
    },
    Rule {
        slug: "list-not-by-connection",
        chapter: Chapter::Tools,
        sentence: "What is listed does not depend on the connection on which it is asked for.",
        sources: &[Source::new(Revisions::MODERN, Must, "server/tools#capabilities")],
        judge: |seen| {
            // Lists may change in time: this one is the same before and after.
            let first = pages(seen, &Method::ListTools).find(|page| page.asked.probe == Probe::List);
            let first = first.and_then(|page| names_of(page.result)).map(|names| sorted(&names));
            let named = |probe: Probe| {
                let results = seen.results().filter(move |(asked, ..)| asked.probe == probe);
                results.filter_map(|(asked, answer, result)| {
                    Some((asked, answer, sorted(&names_of(result.raw())?)))
                })
            };
            let again = named(Probe::ListAgain).next().map(|(.., names)| names);
            let judged = named(Probe::ListElsewhere).filter_map(|(asked, answer, names)| {
                let same = first.is_some() && first == again;
                let differs = first.as_ref() != Some(&names);
                same.then(|| {
                    differs.then(|| asked.finding("other tools than on the connection before", answer.line))
                })
            });
            Outcome::of(judged, "the tools were not listed on two connections")
        },
    },
    Rule {
        slug: "list-change-told",
        chapter: Chapter::Tools,
        sentence: "A server that declares listChanged tells when its list of tools has changed.",
        sources: &[Source::new(Revisions::LEGACY, Should, "server/tools#list-changed-notification")],
        judge: |seen| {
            let declared = seen.declared();
            let flag = declared.as_ref().and_then(|declared| member(declared.get("tools")?, "listChanged"));
            let declares = flag.is_some_and(|flag| flag.as_str() == "true");
            let told = seen.notifications.iter().any(|told| told.what.method == Method::ToolListChanged);
            let first = pages(seen, &Method::ListTools).find(|page| page.asked.probe == Probe::List);
            let first = first.and_then(|page| names_of(page.result)).map(|names| sorted(&names));
            let again = seen.results().filter(|(asked, ..)| asked.probe == Probe::ListAgain);
            let judged = again.filter_map(|(asked, answer, result)| {
                let again = sorted(&names_of(result.raw())?);
                let changed = declares && first.as_ref().is_some_and(|first| *first != again);
                changed.then(|| {
                    (!told).then(|| asked.finding("the list has changed, and nothing was told", answer.line))
                })
            });
            Outcome::of(judged, "no list has changed while it was looked at")
        },
    },
];

/// The names of the tools on a page.
fn names_of(result: &Raw) -> Option<Vec<Option<String>>> {
    let tools = elements(&member(result, "tools")?)?;
    Some(tools.iter().map(|tool| text(tool, "name")).collect())
}

fn sorted(names: &[Option<String>]) -> Vec<Option<String>> {
    let mut names = names.to_vec();
    names.sort();
    names
}
