//! The chapter of resilience: how a server bears what clients, machines and people do to it. Its rules judge
//! [`Trace::stress`](crate::Trace::stress) alone, which is there when it was asked for, and no other rule does.
//!
//! What is about a process is judged where we have started one; `http` has what is about connections.

mod http;

use std::collections::BTreeSet;

use mcpjoin_proto::Method;

use crate::base::silence;
use crate::revisions::Revisions;
use crate::rule::Level::{Advice, Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::{Asked, Seen, elements, member, text};
use crate::trace::{Channel, Ended, Probe, Run, What};

const RESPONSE: &[Source] =
    &[Source::new(Revisions::ALL, Must, "https://www.jsonrpc.org/specification#response_object")];
const SHUTDOWN: &[Source] = &[
    Source::new(Revisions::LEGACY, Advice, "basic/lifecycle#shutdown"),
    Source::new(Revisions::MODERN, Should, "basic/transports/stdio#shutdown"),
];

/// Every rule of the chapter.
pub(crate) static RULES: [&[Rule]; 2] = [&COMMON, &http::RULES];

/// A server at an address is neither started nor ended by us.
const NOT_OURS: &str = "the server was not started by us, and is not ended or started again";

static COMMON: [Rule; 7] = [
    Rule {
        slug: "many-requests-answered",
        chapter: Chapter::Resilience,
        sentence: "Many requests that come at once are all answered.",
        sources: RESPONSE,
        judge: |seen| all_answered(seen, Probe::Many),
    },
    Rule {
        slug: "slow-reader-loses-nothing",
        chapter: Chapter::Resilience,
        sentence: "A client that does not read for a while gets every answer, whole, when it reads again.",
        sources: RESPONSE,
        judge: |seen| {
            let broken = seen.probed(Probe::Unread).next().and_then(|_| seen.faults.first());
            match broken {
                Some(fault) => {
                    let problem = format!("what came is no message: {}", fault.what.kind);
                    Outcome::Failed(vec![Finding::new(problem, None, Some(fault.line.bytes()))])
                }
                None => all_answered(seen, Probe::Unread),
            }
        },
    },
    Rule {
        slug: "large-request-survived",
        chapter: Chapter::Resilience,
        sentence: "A server goes on after a request of 1 MiB, whatever it makes of that.",
        sources: &[Source::new(Revisions::ALL, Advice, "basic/transports")],
        judge: |seen| all_answered(seen, Probe::AfterLarge),
    },
    Rule {
        slug: "ends-in-mid-request",
        chapter: Chapter::Resilience,
        sentence: "A server ends when its standard input is closed, also with requests under way.",
        sources: SHUTDOWN,
        judge: |seen| {
            if !is_ours(seen) {
                return Outcome::Skipped(NOT_OURS);
            }
            let busy = seen.probed(Probe::LastWords).next().is_some();
            by_itself(seen, busy, "no request was under way when the input was closed")
        },
    },
    Rule {
        slug: "ends-unasked",
        chapter: Chapter::Resilience,
        sentence: "A server whose standard input is closed before anything was said ends.",
        sources: SHUTDOWN,
        judge: |seen| {
            if !is_ours(seen) {
                return Outcome::Skipped(NOT_OURS);
            }
            let closed = seen.run.events.iter().any(|event| matches!(event.what, What::InputClosed));
            by_itself(seen, closed && seen.asked.is_empty(), "something was said in every run")
        },
    },
    Rule {
        slug: "ends-at-sigterm",
        chapter: Chapter::Resilience,
        sentence: "A server ends at SIGTERM, and does not wait for SIGKILL.",
        sources: &[
            Source::new(Revisions::LEGACY, Advice, "basic/lifecycle#shutdown"),
            Source::new(Revisions::MODERN, Advice, "basic/transports/stdio#shutdown"),
        ],
        judge: |seen| {
            if !is_ours(seen) {
                return Outcome::Skipped(NOT_OURS);
            }
            let signalled = seen.run.events.iter().any(|event| matches!(event.what, What::Signalled(_)));
            let ended = ended(seen.run).filter(|_| signalled);
            let judged = ended.map(|ended| {
                ended.forced.then(|| Finding::new("it did not end in time, and was killed", None, None))
            });
            Outcome::of(judged, "no signal was sent")
        },
    },
    Rule {
        slug: "same-after-restart",
        chapter: Chapter::Resilience,
        sentence: "A server that is started again offers what it has offered before.",
        // What is offered may change in time; only that it depends on the connection is forbidden, and judged elsewhere.
        sources: &[Source::new(Revisions::ALL, Advice, "server/tools#capabilities")],
        judge: |seen| {
            if !is_ours(seen) {
                return Outcome::Skipped(NOT_OURS);
            }
            let here = tools(seen);
            let same = Revisions::only(&seen.run.version);
            let is_same = |run: &&Run| same.is_some_and(|same| same.contains(&run.version));
            let first = seen.trace.stress.iter().find(is_same);
            let first = first.map(|run| tools(&Seen::of(seen.trace, run))).unwrap_or_default();
            let (Some(before), Some(now)) = (first, here) else {
                return Outcome::Skipped("the tools were not listed before and after a restart");
            };
            let lacks = before.iter().find(|tool| !now.contains(*tool)).map(|tool| ("is gone", tool));
            let more = now.iter().find(|tool| !before.contains(*tool)).map(|tool| ("is new", tool));
            let changed = lacks.or(more);
            Outcome::of(
                [changed.map(|(how, tool)| {
                    Finding::new(format!("the tool {tool:?} {how} after a restart"), None, None)
                })],
                "",
            )
        },
    },
];

/// Every request for that purpose is answered. Over HTTP, a server that says that it is asked too much has not failed.
fn all_answered(seen: &Seen<'_>, probe: Probe) -> Outcome {
    let judged = seen.probed(probe).filter(|asked| !is_too_much(seen, asked));
    Outcome::of(
        judged.map(|asked| asked.answers.is_empty().then(|| silence(seen, asked))),
        "no such request was sent, or the server said that it was asked too much",
    )
}

/// `429 Too Many Requests`, or `503 Service Unavailable`.
fn is_too_much(seen: &Seen<'_>, asked: &Asked<'_>) -> bool {
    let status = seen.exchange_of(asked).and_then(|exchange| exchange.status());
    matches!(status, Some(429 | 503))
}

/// Whether the server is a process that we have started.
fn is_ours(seen: &Seen<'_>) -> bool {
    // Of what listens on a socket no end is known.
    let of_process = |what: &What| matches!(what, What::Ended(_) | What::Signalled(_));
    seen.run.channel == Channel::Stdio && seen.run.events.iter().any(|event| of_process(&event.what))
}

/// The process has ended without a signal of ours, where that was put to the test.
fn by_itself(seen: &Seen<'_>, tested: bool, nothing: &'static str) -> Outcome {
    let judged = seen
        .ended_in_order()
        .filter(|_| tested)
        .map(|ended| ended.forced.then(|| Finding::new("it had to be ended by a signal", None, None)));
    Outcome::of(judged, nothing)
}

fn ended(run: &Run) -> Option<Ended> {
    run.events.iter().find_map(|event| match event.what {
        What::Ended(ended) => Some(ended),
        _ => None,
    })
}

/// The names of the tools that were listed.
fn tools(seen: &Seen<'_>) -> Option<BTreeSet<String>> {
    let listed = seen.results().filter(|(asked, ..)| asked.method == Some(&Method::ListTools));
    let mut names = None;
    for (.., result) in listed {
        let tools = member(result.raw(), "tools").as_ref().and_then(elements).unwrap_or_default();
        names.get_or_insert_with(BTreeSet::new).extend(tools.iter().filter_map(|tool| text(tool, "name")));
    }
    names
}
