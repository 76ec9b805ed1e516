//! The chapter of resilience: how a server handles load, slow readers, lost connections and its own end.
//!
//! Its rules apply to [`Trace::stress`](crate::Trace::stress) alone, which `mcpjoin validate --resilience` fills, and no other
//! rule applies to it. The rules about a process apply where we have spawned it.

use std::collections::BTreeSet;

use mcpjoin_proto::Method;

use crate::base::silence;
use crate::json::{elements, member, text};
use crate::revisions::Revisions;
use crate::rule::{Finding, Outcome, Source};
use crate::server_view::{OurRequest, ServerView};
use crate::trace::{Channel, Ended, Probe, Run, What};

const RESPONSE_PAGE: &str = "https://www.jsonrpc.org/specification#response_object";
const RESPONSE: &[Source] = sources![ALL Must RESPONSE_PAGE];
const SHUTDOWN: &[Source] = sources![
    LEGACY Advice "basic/lifecycle#shutdown",
    MODERN Should "basic/transports/stdio#shutdown",
];

/// A server at an address is neither started nor ended by us.
const NOT_OURS: &str = "the server was not started by us, and is not ended or started again";

rules! {
    pub(crate) RULES for Server in Chapter::Resilience;

    "many-requests-answered", RESPONSE,
        "Many requests that come at once are all answered.",
        |view| all_answered(view, Probe::Many);
    "slow-reader-loses-nothing", RESPONSE,
        "A client that does not read for a while gets every answer, whole, when it reads again.",
        |view| {
            let broken = view.probed(Probe::Unread).next().and_then(|_| view.invalid.first());
            match broken {
                Some(fault) => {
                    let problem = format!("what came is no message: {}", fault.what.kind);
                    Outcome::Failed(vec![Finding::new(problem, None, Some(fault.line.bytes()))])
                }
                None => all_answered(view, Probe::Unread),
            }
        };
    "large-request-survived", [ALL Advice "basic/transports"],
        "A server goes on after a request of 1 MiB, whatever it makes of that.",
        |view| all_answered(view, Probe::AfterLarge);
    "ends-in-mid-request", SHUTDOWN,
        "A server ends when its standard input is closed, also with requests under way.",
        |view| {
            if !is_ours(view) {
                return Outcome::Skipped(NOT_OURS);
            }
            let busy = view.probed(Probe::LastWords).next().is_some();
            by_itself(view, busy, "no request was under way when the input was closed")
        };
    "ends-unasked", SHUTDOWN,
        "A server whose standard input is closed before anything was said ends.",
        |view| {
            if !is_ours(view) {
                return Outcome::Skipped(NOT_OURS);
            }
            let closed = view.run.events.iter().any(|event| matches!(event.what, What::InputClosed));
            by_itself(view, closed && view.our_requests.is_empty(), "something was said in every run")
        };
    "ends-at-sigterm", [LEGACY Advice "basic/lifecycle#shutdown", MODERN Advice "basic/transports/stdio#shutdown"],
        "A server ends at SIGTERM, and does not wait for SIGKILL.",
        |view| {
            if !is_ours(view) {
                return Outcome::Skipped(NOT_OURS);
            }
            let signalled = view.run.events.iter().any(|event| matches!(event.what, What::Signalled(_)));
            let ended = ended(view.run).filter(|_| signalled);
            let findings = ended.map(|ended| {
                ended.forced.then(|| Finding::new("it did not end in time, and was killed", None, None))
            });
            Outcome::of(findings, "no signal was sent")
        };
    "same-after-restart", [ALL Advice "server/tools#capabilities"],
        "A server that is started again offers what it has offered before.",
        // A server may change its offer in time. That the offer depends on the connection has a rule of its own.
        |view| {
            if !is_ours(view) {
                return Outcome::Skipped(NOT_OURS);
            }
            let here = tools(view);
            let same = Revisions::only(&view.run.version);
            let is_same = |run: &&Run| same.is_some_and(|same| same.contains(&run.version));
            let first = view.trace.stress.iter().find(is_same);
            let first = first.map(|run| tools(&ServerView::of(view.trace, run))).unwrap_or_default();
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
        };
    "request-in-pieces-answered", RESPONSE,
        "A request whose body comes in pieces, with pauses between them, is answered like any other.",
        |view| all_answered(view, Probe::Pieces);
    "hang-up-survived", RESPONSE,
        "A server goes on, and a session lives, when connections are lost before their answers have come.",
        // "Disconnection may occur at any time": the next request is answered as before.
        |view| all_answered(view, Probe::AfterHangUp);
    "half-request-survived", RESPONSE,
        "A server goes on, and a session lives, when a connection is lost in the middle of a request.",
        |view| all_answered(view, Probe::AfterHalf);
    "many-sessions-borne", [LEGACY Must RESPONSE_PAGE],
        "Many sessions that a server has given out work side by side, until it says that one has ended.",
        sessions;
    "cut-stream-resumed", [LEGACY_SINCE_SECOND Advice "basic/transports#resumability-and-redelivery"],
        "The answer on a stream with event ids that was cut comes when the stream is resumed.",
        // No server has to give out ids; but clients rely on those that one gives out.
        |view| {
            let cut = view.probed(Probe::CutStream).filter(|request| {
                view.exchange_of(request).is_some_and(|exchange| !exchange.events.is_empty())
            });
            Outcome::of(
                cut.map(|request| request.responses.is_empty().then(|| silence(view, request))),
                "no stream had an event with an id before its answer: see --call",
            )
        };
}

/// Every request for that purpose is answered. Over HTTP, a server that says that it is asked too much has not failed.
fn all_answered(view: &ServerView<'_>, probe: Probe) -> Outcome {
    let findings = view.probed(probe).filter(|request| !is_too_much(view, request));
    Outcome::of(
        findings.map(|request| request.responses.is_empty().then(|| silence(view, request))),
        "no such request was sent, or the server said that it was asked too much",
    )
}

/// `429 Too Many Requests`, or `503 Service Unavailable`.
fn is_too_much(view: &ServerView<'_>, request: &OurRequest<'_>) -> bool {
    let status = view.exchange_of(request).and_then(|exchange| exchange.status());
    matches!(status, Some(429 | 503))
}

/// Whether the server is a process that we have started.
fn is_ours(view: &ServerView<'_>) -> bool {
    // Of what listens on a socket no end is known.
    let of_process = |what: &What| matches!(what, What::Ended(_) | What::Signalled(_));
    view.run.channel == Channel::Stdio && view.run.events.iter().any(|event| of_process(&event.what))
}

/// The process has ended without a signal of ours, where that was put to the test.
fn by_itself(view: &ServerView<'_>, tested: bool, nothing: &'static str) -> Outcome {
    let findings = view
        .ended_in_order()
        .filter(|_| tested)
        .map(|ended| ended.forced.then(|| Finding::new("it had to be ended by a signal", None, None)));
    Outcome::of(findings, nothing)
}

fn ended(run: &Run) -> Option<Ended> {
    run.events.iter().find_map(|event| match event.what {
        What::Ended(ended) => Some(ended),
        _ => None,
    })
}

/// The names of the tools that were listed.
fn tools(view: &ServerView<'_>) -> Option<BTreeSet<String>> {
    let listed = view.results().filter(|(request, ..)| request.method == Some(&Method::ListTools));
    let mut names = None;
    for (.., result) in listed {
        let tools = member(result.raw(), "tools").as_ref().and_then(elements).unwrap_or_default();
        names.get_or_insert_with(BTreeSet::new).extend(tools.iter().filter_map(|tool| text(tool, "name")));
    }
    names
}

/// A server may refuse to open one more, and may end a session at any time, after which it answers in it with 404.
fn sessions(view: &ServerView<'_>) -> Outcome {
    let opened = view.probed(Probe::OneOfMany).filter(|request| {
        // Whoever refuses says so.
        view.exchange_of(request).is_none_or(|exchange| exchange.status().is_none())
    });
    let within = [Probe::InOneOfMany, Probe::AfterMany].into_iter().flat_map(|probe| view.probed(probe));
    let has_ended = |request: &&OurRequest<'_>| {
        view.exchange_of(request).is_some_and(|exchange| exchange.status() == Some(404))
    };
    let within = within.filter(|request| !is_too_much(view, request) && !has_ended(request));
    let findings = opened.chain(within);
    Outcome::of(
        findings.map(|request| request.responses.is_empty().then(|| silence(view, request))),
        "the server gives out no sessions",
    )
}
