//! How far a request is.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress>

use std::collections::{BTreeMap, BTreeSet};

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Kind, Method, Notification, ProgressToken, Raw};

use crate::base::is_sent_again;
use crate::features::is_kind;
use crate::json::Json;
use crate::revisions::Revisions;
use crate::rule::Level::Must;
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::{Asked, Came, Seen, member};
use crate::trace::Channel;

const NONE_CAME: &str = "no progress was told: see --call and --read-only-tools";

/// The same paragraph on the page of each era.
const fn sources(legacy: &'static str, modern: &'static str) -> [Source; 2] {
    [Source::new(Revisions::LEGACY, Must, legacy), Source::new(Revisions::MODERN, Must, modern)]
}

pub(super) static RULES: [Rule; 5] = [
    Rule {
        slug: "progress-complete",
        chapter: Chapter::Patterns,
        sentence: "A notification of progress has the token of a request and a number; total is a number too.",
        sources: &sources("basic/utilities/progress#progress-flow", "basic/patterns/progress#progress-flow"),
        judge: |seen| {
            each(seen, |told| {
                let Some(params) = told.what.params.as_ref() else { return Some("it says nothing".into()) };
                if token_of(told.what).is_none() {
                    return Some("progressToken is missing, or neither a string nor an integer".into());
                }
                if !member(params.raw(), "progress").is_some_and(|progress| progress.kind() == Kind::Number) {
                    return Some("progress is missing or no number".into());
                }
                is_kind(params.raw(), "total", Kind::Number)
                    .or_else(|| is_kind(params.raw(), "message", Kind::String))
            })
        },
    },
    Rule {
        slug: "progress-token-known",
        chapter: Chapter::Patterns,
        sentence: "Progress is told of requests that have asked for it: its token is one that a request has given.",
        sources: &sources(
            "basic/utilities/progress#behavior-requirements",
            "basic/patterns/progress#behavior-requirements",
        ),
        judge: |seen| {
            let modern = Revisions::MODERN.contains(&seen.run.version);
            if modern && seen.run.channel == Channel::StreamableHttp {
                return Outcome::Skipped("over HTTP, notifications-relate says it");
            }
            let askers = askers(seen);
            each(seen, |told| {
                let token = token_of(told.what)?;
                let known = asker(&askers, told).is_some();
                (!known).then(|| format!("no request had given the token {token}"))
            })
        },
    },
    Rule {
        slug: "progress-increases",
        chapter: Chapter::Patterns,
        sentence: "With each notification the progress of a request is greater.",
        sources: &sources("basic/utilities/progress#progress-flow", "basic/patterns/progress#progress-flow"),
        judge: |seen| {
            let mut last: BTreeMap<ProgressToken, f64> = BTreeMap::new();
            let mut known = BTreeMap::new();
            let judged: Vec<Option<Finding>> = progress(seen)
                .filter_map(|told| {
                    // What is sent on every stream is judged as such.
                    if known.insert(told.line.bytes(), told).is_some_and(|first| is_sent_again(first, told)) {
                        return None;
                    }
                    let token = token_of(told.what)?;
                    let progress =
                        Json::of(&member(told.what.params.as_ref()?.raw(), "progress")?)?.as_number()?;
                    let Some(before) = last.insert(token, progress) else { return Some(None) };
                    let problem = || format!("the progress is {progress} after {before}");
                    let broken = progress <= before;
                    Some(broken.then(|| Finding::new(problem(), None, Some(told.line.bytes()))))
                })
                .collect();
            Outcome::of(judged, NONE_CAME)
        },
    },
    Rule {
        slug: "progress-stops",
        chapter: Chapter::Patterns,
        sentence: "No progress is told of a request that has been answered.",
        sources: &sources(
            "basic/utilities/progress#implementation-notes",
            "basic/patterns/progress#implementation-notes",
        ),
        judge: |seen| {
            let askers = askers(seen);
            each(seen, |told| {
                let asked = asker(&askers, told)?;
                // On two streams nobody knows which came first.
                let over_http = seen.run.channel == Channel::StreamableHttp;
                let mut answers = asked.answers.iter();
                let late = answers.any(|answer| {
                    answer.place < told.place && (!over_http || answer.exchange == told.exchange)
                });
                // A task goes on after the answer that names it.
                let task = asked.params().is_some_and(|params| member(&params, "task").is_some());
                (late && !task).then(|| "its request had been answered".into())
            })
        },
    },
    Rule {
        slug: "progress-token-of-server",
        chapter: Chapter::Patterns,
        sentence: "The progress token in a request of the server is a string or an integer, its own among all of them.",
        sources: &[Source::new(Revisions::LEGACY, Must, "basic/utilities/progress#progress-flow")],
        judge: |seen| {
            let mut known: BTreeSet<ProgressToken> = BTreeSet::new();
            let judged: Vec<Option<Finding>> = seen
                .requests
                .iter()
                .filter_map(|request| {
                    let meta = member(request.what.params.as_ref()?.raw(), "_meta")?;
                    let raw = member(&meta, key::PROGRESS_TOKEN)?;
                    let problem = match raw.decode::<ProgressToken>() {
                        Err(_) => format!("the token is {raw}"),
                        Ok(token) if known.contains(&token) => format!("another request had the token {raw}"),
                        Ok(token) => {
                            known.insert(token);
                            return Some(None);
                        }
                    };
                    Some(Some(Finding::new(problem, None, Some(request.line.bytes()))))
                })
                .collect();
            Outcome::of(judged, "the server sent no request with a progress token")
        },
    },
];

fn progress<'s, 'a>(seen: &'s Seen<'a>) -> impl Iterator<Item = &'s Came<'a, Notification>> {
    seen.notifications.iter().filter(|told| told.what.method == Method::Progress)
}

fn token_of(told: &Notification) -> Option<ProgressToken> {
    member(told.params.as_ref()?.raw(), "progressToken")?.decode().ok()
}

/// The first request of ours with each token. Read once: what a server tells may be much.
fn askers<'s, 'a>(seen: &'s Seen<'a>) -> BTreeMap<ProgressToken, &'s Asked<'a>> {
    let given = |raw: Raw| raw.decode::<ProgressToken>().ok();
    let mut askers = BTreeMap::new();
    for asked in &seen.asked {
        if let Some(token) = asked.meta(key::PROGRESS_TOKEN).and_then(given) {
            askers.entry(token).or_insert(asked);
        }
    }
    askers
}

/// The request of ours that has given the token of a notification.
fn asker<'s, 'a>(
    askers: &BTreeMap<ProgressToken, &'s Asked<'a>>,
    told: &Came<'_, Notification>,
) -> Option<&'s Asked<'a>> {
    let asked = askers.get(&token_of(told.what)?)?;
    (asked.place < told.place).then_some(*asked)
}

/// Looks at each notification of progress.
fn each(seen: &Seen<'_>, look: impl Fn(&Came<'_, Notification>) -> Option<String>) -> Outcome {
    let judged = progress(seen)
        .map(|told| look(told).map(|problem| Finding::new(problem, None, Some(told.line.bytes()))));
    Outcome::of(judged, NONE_CAME)
}
