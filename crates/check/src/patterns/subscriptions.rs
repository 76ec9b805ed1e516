//! Streams of changes.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Message, Method, Notification, RequestId};

use crate::revisions::Revisions;
use crate::rule::Level::Must;
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::{Asked, Seen, member};
use crate::trace::{Channel, Line, Probe};

const NONE_OPENED: &str = "no stream of changes was opened";

pub(super) static RULES: [Rule; 2] = [
    Rule {
        slug: "listen-acknowledged",
        chapter: Chapter::Patterns,
        sentence: "The first message on a stream of changes acknowledges it, and each carries the id of the request \
                   that has opened it.",
        sources: &[Source::new(Revisions::MODERN, Must, "basic/patterns/subscriptions#acknowledgment")],
        judge: |seen| listening(seen, acknowledged),
    },
    Rule {
        slug: "listen-filtered",
        chapter: Chapter::Patterns,
        sentence: "A stream of changes promises and brings nothing but what was asked for.",
        sources: &[Source::new(Revisions::MODERN, Must, "basic/patterns/subscriptions#opening-a-stream")],
        judge: |seen| listening(seen, filtered),
    },
];

/// The kinds of changes that can be asked for, and what tells of them.
const KINDS: [(&str, Method); 3] = [
    ("toolsListChanged", Method::ToolListChanged),
    ("promptsListChanged", Method::PromptListChanged),
    ("resourcesListChanged", Method::ResourceListChanged),
];

/// A stream that was opened, and what came on it.
struct Stream<'s, 'a> {
    seen: &'s Seen<'a>,
    asked: &'s Asked<'a>,
    told: Vec<(&'a Line, &'a Notification)>,
}

impl Stream<'_, '_> {
    fn finding(&self, problem: impl Into<String>, line: Option<&Line>) -> Finding {
        match (self.seen.exchange_of(self.asked), line) {
            (Some(exchange), Some(line)) => exchange.finding_in(problem, line),
            (Some(exchange), None) => exchange.finding(problem),
            (None, line) => Finding::new(problem, Some(self.asked.line.bytes()), line.map(Line::bytes)),
        }
    }
}

/// Looks at each stream of changes that was opened.
fn listening(seen: &Seen<'_>, look: impl Fn(&Stream<'_, '_>) -> Option<Finding>) -> Outcome {
    let opened = seen.probed(Probe::Listen).filter_map(|asked| {
        if asked.answers.iter().any(|answer| matches!(answer.outcome, Some(Err(_)))) {
            return None;
        }
        let told = if seen.run.channel == Channel::StreamableHttp {
            let exchange = seen.exchange_of(asked).filter(|exchange| exchange.is_stream())?;
            let parts =
                exchange.lines.iter().flat_map(|(line, _)| line.parts().map(move |part| (*line, part)));
            let told = parts.filter_map(|(line, part)| match part {
                // The end of a stream has a rule of its own.
                Ok(Message::Notification(told)) if told.method != Method::Cancelled => Some((line, told)),
                _ => None,
            });
            told.collect()
        } else {
            // All share one channel: what tells of changes is of the stream, whatever else comes.
            let changes = |method: &Method| {
                matches!(method, Method::SubscriptionsAcknowledged | Method::ResourceUpdated)
                    || KINDS.iter().any(|(_, kind)| kind == method)
            };
            let told = seen
                .notifications
                .iter()
                .filter(|told| told.place > asked.place && changes(&told.what.method));
            told.map(|told| (told.line, told.what)).collect()
        };
        Some(Stream { seen, asked, told })
    });
    Outcome::of(opened.map(|stream| look(&stream)), NONE_OPENED)
}

fn acknowledged(stream: &Stream<'_, '_>) -> Option<Finding> {
    let id = stream.asked.id?;
    let Some((line, first)) = stream.told.first() else {
        return Some(stream.finding("nothing came on it", None));
    };
    if first.method != Method::SubscriptionsAcknowledged {
        return Some(stream.finding(format!("{} came first", first.method), Some(line)));
    }
    let tagged = |told: &Notification| {
        let meta = told.params.as_ref().and_then(|params| member(params.raw(), "_meta"))?;
        member(&meta, key::SUBSCRIPTION_ID)?.decode::<RequestId>().ok()
    };
    let (line, told) = stream.told.iter().find(|(_, told)| tagged(told).as_ref() != Some(id))?;
    Some(stream.finding(format!("{} does not carry the id {id}", told.method), Some(line)))
}

fn filtered(stream: &Stream<'_, '_>) -> Option<Finding> {
    let wanted = member(&stream.asked.params()?, "notifications")?;
    let is_wanted = |name: &str| member(&wanted, name).is_some_and(|value| value.as_str() == "true");
    stream.told.iter().find_map(|(line, told)| {
        if told.method == Method::SubscriptionsAcknowledged {
            let promised = member(told.params.as_ref()?.raw(), "notifications")?;
            let (name, _) = KINDS.iter().find(|(name, _)| {
                !is_wanted(name) && member(&promised, name).is_some_and(|value| value.as_str() == "true")
            })?;
            return Some(stream.finding(format!("{name} was not asked for"), Some(line)));
        }
        let wanted = KINDS.iter().any(|(name, method)| told.method == *method && is_wanted(name));
        (!wanted).then(|| stream.finding(format!("{} was not asked for", told.method), Some(line)))
    })
}
