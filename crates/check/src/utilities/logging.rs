//! Log messages.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging>

use std::collections::BTreeMap;

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Kind, Method, Raw};

use crate::base::refused;
use crate::revisions::Revisions;
use crate::rule::Level::{Advice, Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::{Seen, member, text};
use crate::trace::{Channel, Probe};

/// The levels, the least urgent first.
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
const NONE_CAME: &str = "no log message came";

pub(super) static RULES: [Rule; 5] = [
    Rule {
        slug: "unknown-log-level-code",
        chapter: Chapter::Utilities,
        sentence: "A level of log messages that does not exist brings the error -32602.",
        sources: &[Source::new(Revisions::ALL, Should, "server/utilities/logging#error-handling")],
        judge: |seen| {
            refused(seen, Probe::BadLevel, "no log messages were asked for: logging is not declared")
        },
    },
    Rule {
        slug: "set-level-empty",
        chapter: Chapter::Utilities,
        sentence: "The answer to logging/setLevel is empty: nothing is in it but _meta.",
        sources: &[Source::new(Revisions::LEGACY, Must, "server/utilities/logging#message-flow")],
        judge: |seen| {
            let judged = seen.results().filter(|(asked, ..)| asked.probe == Probe::SetLevel).filter_map(
                |(asked, answer, result)| {
                    let members = crate::seen::members(result.raw())?;
                    let strange = members.keys().find(|name| *name != "_meta").map(str::to_owned);
                    Some(strange.map(|name| asked.finding(format!("{name} is in it"), answer.line)))
                },
            );
            Outcome::of(judged, "no log messages were asked for: logging is not declared")
        },
    },
    Rule {
        slug: "log-message-complete",
        chapter: Chapter::Utilities,
        sentence: "A log message has a level, one of the eight, and data; its logger is a string.",
        sources: &[Source::new(Revisions::ALL, Must, "server/utilities/logging#log-message-notifications")],
        judge: |seen| {
            logged(seen, |params, _| {
                let level = text(params, "level");
                if !level.is_some_and(|level| LEVELS.contains(&&*level)) {
                    return Some("its level is missing or none of the eight".into());
                }
                if member(params, "data").is_none() {
                    return Some("it has no data".into());
                }
                crate::features::is_kind(params, "logger", Kind::String)
            })
        },
    },
    Rule {
        slug: "log-level-kept",
        chapter: Chapter::Utilities,
        sentence: "No log message comes that is less urgent than the level that was asked for.",
        sources: &[
            Source::new(Revisions::LEGACY, Advice, "server/utilities/logging#setting-log-level"),
            Source::new(Revisions::MODERN, Advice, "server/utilities/logging#per-request-log-level"),
        ],
        judge: |seen| {
            let urgency = |level: &str| LEVELS.iter().position(|known| *known == level);
            let asked: BTreeMap<usize, usize> = seen
                .results()
                .filter(|(asked, ..)| asked.probe == Probe::SetLevel)
                .filter_map(|(asked, answer, _)| {
                    Some((answer.place, urgency(&text(&asked.params()?, "level")?)?))
                })
                .collect();
            logged(seen, |params, place| {
                let (_, least) = asked.range(..place).next_back()?;
                let level = text(params, "level")?;
                (urgency(&level)? < *least).then(|| format!("its level is {level:?}"))
            })
        },
    },
    Rule {
        slug: "log-asked-for",
        chapter: Chapter::Utilities,
        sentence: "No log message comes where no request has asked for them, in _meta under io.modelcontextprotocol/logLevel.",
        sources: &[Source::new(Revisions::MODERN, Must, "server/utilities/logging#per-request-log-level")],
        judge: |seen| {
            if seen.run.channel == Channel::StreamableHttp {
                return Outcome::Skipped("over HTTP, notifications-relate says it");
            }
            let first = seen.asked.iter().find(|asked| asked.meta(key::LOG_LEVEL).is_some());
            logged(seen, |_, place| {
                let asked = first.is_some_and(|first| first.place < place);
                (!asked).then(|| "no request has asked for it".into())
            })
        },
    },
];

/// Looks at the parameters of each log message.
fn logged(seen: &Seen<'_>, look: impl Fn(&Raw, usize) -> Option<String>) -> Outcome {
    let messages = seen.notifications.iter().filter(|told| told.what.method == Method::LogMessage);
    let judged = messages.map(|told| {
        let none = Raw::empty_object();
        let params = told.what.params.as_ref().map_or(&none, |params| params.raw());
        look(params, told.place).map(|problem| Finding::new(problem, None, Some(told.line.bytes())))
    });
    Outcome::of(judged, NONE_CAME)
}
