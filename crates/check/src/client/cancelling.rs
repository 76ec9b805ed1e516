//! Cancellations: of what a client waits for no longer, and of what it was asked.

use std::collections::BTreeMap;
use std::time::Duration;

use mcpjoin_proto::{Method, Payload, RequestId};

use super::talk::{Asked, Talk};
use super::utilities::{CROSSING, cancelled};
use crate::exchange::BodyEnd;
use crate::revisions::Revisions;
use crate::rule::Level::Should;
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::{Seen, members};
use crate::trace::{Line, Probe, What};

/// Who asks for the same again after this time waits for the first answer no longer.
const GIVEN_UP: Duration = Duration::from_secs(30);

pub(super) static RULES: [Rule; 3] = [
    Rule {
        slug: "client-cancels-after-timeout",
        chapter: Chapter::Patterns,
        sentence: "A client cancels a request for whose answer it waits no longer, before it sends it again.",
        sources: &[
            Source::new(Revisions::FIRST, Should, "basic/lifecycle#error-handling"),
            Source::new(Revisions::LEGACY_SINCE_SECOND, Should, "basic/lifecycle#timeouts"),
            Source::new(Revisions::MODERN, Should, "basic/patterns/cancellation#timeouts"),
        ],
        judge: |seen| {
            let talk = seen.talk();
            let given_up = GivenUp::of(talk);
            // The last that asks for the same.
            let mut last: BTreeMap<(&str, String), &Asked<'_>> = BTreeMap::new();
            for asked in talk.asked.iter().filter(|asked| only_reads(&asked.what.method)) {
                last.insert((asked.what.method.as_str(), wanted(asked)), asked);
            }
            let waiting = talk.asked.iter().filter(|asked| !opens(&asked.what.method));
            let judged = waiting.filter_map(|asked| {
                let answered = asked.answer.map(|said| said.place);
                if let Some(place) = given_up.when(asked) {
                    return answered.is_none_or(|answered| answered > place).then_some(None);
                }
                // A call may be meant twice; what only reads is sent again for one reason.
                if answered.is_some() || !only_reads(&asked.what.method) {
                    return None;
                }
                let again = last.get(&(asked.what.method.as_str(), wanted(asked)))?;
                if again.at.saturating_sub(asked.at) < GIVEN_UP {
                    return None;
                }
                let problem = format!(
                    "the request with the id {} is the same, was not answered, and was not cancelled",
                    asked.what.id
                );
                Some(Some(again.finding(problem)))
            });
            Outcome::of(judged, "the client waited for every answer, or left")
        },
    },
    Rule {
        slug: "client-bad-cancel-ignored",
        chapter: Chapter::Patterns,
        sentence: "A client passes over a cancellation of what is not known, of what was answered, and one that names \
                   nothing.",
        sources: &[Source::new(Revisions::LEGACY, Should, "basic/utilities/cancellation#error-handling")],
        judge: |seen| goes_on(seen, Probe::AfterCancel, "a cancellation that means nothing to it"),
    },
    Rule {
        slug: "client-cancelled-not-answered",
        chapter: Chapter::Patterns,
        sentence: "A client does not answer a request that was cancelled.",
        sources: &[Source::new(
            Revisions::LEGACY,
            Should,
            "basic/utilities/cancellation#behavior-requirements",
        )],
        judge: |seen| {
            let talk = seen.talk();
            let judged = talk.ours.iter().filter_map(|ours| {
                let at = ours.cancelled?;
                let Some(said) = ours.answer else {
                    return (talk.here.saturating_sub(at) > CROSSING).then_some(None);
                };
                let late = said.at.saturating_sub(at) > CROSSING && said.at > at;
                let problem = || {
                    let late = said.at.saturating_sub(at).as_secs();
                    ours.finding(format!("it was answered {late} s after it was cancelled"), said.line)
                };
                late.then(|| Some(problem()))
            });
            Outcome::of(judged, "nothing that the client was asked was cancelled before its answer")
        },
    },
];

/// Whether a client answers a ping that has followed what it is to pass over.
pub(super) fn goes_on(seen: &Seen<'_>, ping: Probe, what: &str) -> Outcome {
    let talk = seen.talk();
    let pings = talk.ours.iter().filter(|ours| ours.probe == ping);
    let judged = pings.filter_map(|ours| {
        if ours.answer.is_some() {
            return Some(None);
        }
        let waited = talk.here.saturating_sub(ours.at) >= seen.trace.answer_within;
        let before = talk.run.events.iter().take(ours.place).rev().find_map(|event| match &event.what {
            What::Sent(Probe::MalformedCancel | Probe::UnknownElicitation, line) => Some(line),
            _ => None,
        });
        let problem = || {
            let sent = before.unwrap_or(ours.line);
            Finding::new(format!("it answers no ping after {what}"), Some(sent.bytes()), None)
        };
        waited.then(|| Some(problem()))
    });
    Outcome::of(judged, "the client was not told so, or it was gone too soon")
}

/// When the client has said of a request that it wants no answer.
struct GivenUp {
    told: BTreeMap<RequestId, usize>,
    /// In the modern era the end of the stream says it: by the line that it was to answer.
    left: BTreeMap<*const Line, usize>,
}

impl GivenUp {
    fn of(talk: &Talk<'_>) -> Self {
        let told = cancelled(talk).filter_map(|(told, id)| Some((id?, told.place))).collect();
        let posts = talk.posts.values().filter(|_| talk.is_modern());
        let left = posts.filter_map(|post| {
            let (place, _, BodyEnd::Left) = post.end? else { return None };
            Some((std::ptr::from_ref(post.body?), place))
        });
        Self { told, left: left.collect() }
    }

    fn when(&self, asked: &Asked<'_>) -> Option<usize> {
        let told = self.told.get(&asked.what.id).filter(|place| **place > asked.place);
        told.or_else(|| self.left.get(&std::ptr::from_ref(asked.line))).copied()
    }
}

/// What opens a session is not cancelled, and may be tried again.
const fn opens(method: &Method) -> bool {
    matches!(method, Method::Initialize | Method::Discover)
}

fn only_reads(method: &Method) -> bool {
    let name = method.as_str();
    name.ends_with("/list") || matches!(method, Method::ReadResource | Method::GetPrompt | Method::Ping)
}

/// What a request asks for, without what it says of itself.
fn wanted(asked: &Asked<'_>) -> String {
    let params = asked.what.params.as_ref().map(Payload::raw).and_then(members).unwrap_or_default();
    let own = params.iter().filter(|(name, _)| *name != "_meta");
    own.map(|(name, value)| format!("{name}={value};")).collect()
}
