//! The chapter of resilience: how a server handles load, slow readers, lost connections and its own end.
//!
//! Its rules apply to [`Trace::stress`](crate::Trace::stress) alone, which `mcpjoin validate --resilience` fills, and no other
//! rule applies to it. The rules about a process apply if we have spawned it.

use std::collections::BTreeSet;

use mcpjoin_proto::Method;

use crate::base::{RESPONSE as RESPONSE_PAGE, unanswered};
use crate::exchange::Exchange;
use crate::json::{list, member, text};
use crate::revisions::Revisions;
use crate::rule::{Evidence, Finding, Outcome, Source};
use crate::server_view::{OurRequest, ServerView};
use crate::trace::{Channel, Probe, Run, What};

const RESPONSE: &[Source] = sources![ALL Must RESPONSE_PAGE];
const SHUTDOWN: &[Source] =
    sources![LEGACY Advice "basic/lifecycle#shutdown", MODERN Should "basic/transports/stdio#shutdown"];
const NOT_OURS: &str = "mcpjoin did not start the server, so it cannot stop or restart it";

rules! {
    pub(crate) RULES for Server in Chapter::Resilience;

    "many-requests-answered", RESPONSE,
        "Many requests at once all get responses.",
        |view| all_answered(view, Probe::Many);
    "slow-reader-loses-nothing", RESPONSE,
        "A client that stops reading for a while gets every response in full when it reads again.",
        |view| {
            let first = view.probed(Probe::Unread).next();
            let fault = first.and_then(|first| view.invalid.iter().find(|fault| fault.place > first.place));
            let Some(fault) = fault else { return all_answered(view, Probe::Unread) };
            let problem = format!("received something that is not a message: {}", fault.what.kind);
            Outcome::Failed(vec![fault.finding(problem)])
        };
    "large-request-survived", [ALL Advice "basic/transports"],
        "A server survives a request of 1 MiB, with any response to it.",
        |view| all_answered(view, Probe::AfterLarge);
    "ends-in-mid-request", SHUTDOWN,
        "A server exits when its standard input is closed, also with requests in flight.",
        |view| {
            let is_busy = view.probed(Probe::LastWords).next().is_some();
            ends_by_itself(view, is_busy, "no request was in flight when the input was closed")
        };
    "ends-unasked", SHUTDOWN,
        "A server exits when its standard input is closed before any message.",
        |view| {
            let is_closed = view.run.events.iter().any(|event| matches!(event.what, What::InputClosed));
            ends_by_itself(view, is_closed && view.our_requests.is_empty(), "messages were sent in every run")
        };
    "ends-at-sigterm", [LEGACY Advice "basic/lifecycle#shutdown", MODERN Advice "basic/transports/stdio#shutdown"],
        "A server exits on SIGTERM, before SIGKILL is needed.",
        else "no signal was sent",
        |view| {
            if !is_ours(view) {
                return Outcome::Skipped(NOT_OURS);
            }
            let is_signalled = view.run.events.iter().any(|event| matches!(event.what, What::Signalled(_)));
            view.ended().filter(|_| is_signalled).map(|ended| {
                ended.forced.then(|| Finding::new("it did not exit in time, and was killed", None, None))
            })
        };
    "same-after-restart", [ALL Advice "server/tools#capabilities"],
        "A restarted server has the same tools as before.",
        else "",
        // A server may change its offer in time. That the offer depends on the connection has a rule of its own.
        |view| {
            if !is_ours(view) {
                return Outcome::Skipped(NOT_OURS);
            }
            let same = Revisions::only(&view.run.version);
            let is_same = |run: &&Run| same.is_some_and(|same| same.contains(&run.version));
            let earlier = view.trace.stress.iter().take_while(|run| !std::ptr::eq(*run, view.run));
            let mut listed = earlier.filter(is_same).filter_map(|run| tools(&ServerView::of(view.trace, run)));
            let (Some(before), Some(now)) = (listed.next(), tools(view)) else {
                return Outcome::Skipped("the tools were not listed before and after a restart");
            };
            let gone = before.difference(&now).next().map(|tool| (tool, "was removed"));
            let changed = gone.or_else(|| now.difference(&before).next().map(|tool| (tool, "was added")));
            [changed.map(|(tool, how)| {
                Finding::new(format_args!("the tool {tool:?} {how} after a restart"), None, None)
            })]
        };
    "request-in-pieces-answered", RESPONSE,
        "A request whose body arrives in pieces, with pauses, gets the same response as others.",
        |view| all_answered(view, Probe::Pieces);
    "hang-up-survived", RESPONSE,
        "A server and its session survive connections that are lost before the response.",
        // "Disconnection may occur at any time": the next request is answered as before.
        |view| all_answered(view, Probe::AfterHangUp);
    "half-request-survived", RESPONSE,
        "A server and its session survive a connection that is lost in the middle of a request.",
        |view| all_answered(view, Probe::AfterHalf);
    "many-sessions-borne", [LEGACY Must RESPONSE_PAGE],
        "Many sessions of a server work at the same time, until the server ends one.",
        else "the server issues no session ids",
        // A server may refuse to open one more, and may end a session at any time: then its status is 404.
        |view| {
            let status = |request: &OurRequest<'_>| view.exchange_of(request).and_then(|exchange| exchange.status());
            let opened = view.probed(Probe::OneOfMany).filter(move |request| status(request).is_none());
            let within = view.probed(Probe::InOneOfMany).chain(view.probed(Probe::AfterMany));
            let within = within.filter(move |request| status(request) != Some(404) && !is_busy(view, request));
            opened.chain(within).map(|request| unanswered(view, request))
        };
    "cut-stream-resumed", [LEGACY_SINCE_SECOND Advice "basic/transports#resumability-and-redelivery"],
        "An interrupted stream with event ids delivers the response when it is resumed.",
        else "no stream had an event with an id before its response (see --call)",
        // No server has to send event ids, but clients rely on those that it sends.
        |view| {
            let has_events = |it: &&OurRequest<'_>| view.exchange_of(it).is_some_and(|it| !it.events.is_empty());
            view.probed(Probe::CutStream).filter(has_events).map(|request| unanswered(view, request))
        };
}

fn is_busy(view: &ServerView<'_>, request: &OurRequest<'_>) -> bool {
    view.exchange_of(request).is_some_and(Exchange::is_busy)
}

/// Checks that every request of a probe is answered. Over HTTP, a server may refuse one with `429 Too Many Requests` or `503
/// Service Unavailable`.
fn all_answered(view: &ServerView<'_>, probe: Probe) -> Outcome {
    let findings = view.probed(probe).filter(|request| !is_busy(view, request));
    Outcome::of(
        findings.map(|request| unanswered(view, request)),
        "no such request was sent, or the server answered with a rate limit",
    )
}

/// Whether the server is a process that we spawned. The end of a server on a socket is not known.
fn is_ours(view: &ServerView<'_>) -> bool {
    let of_process = |what: &What| matches!(what, What::Ended(_) | What::Signalled(_));
    view.run.channel == Channel::Stdio && view.run.events.iter().any(|event| of_process(&event.what))
}

/// Checks that a process of ours ended without a signal, if that was tested.
fn ends_by_itself(view: &ServerView<'_>, is_tested: bool, nothing: &'static str) -> Outcome {
    if !is_ours(view) {
        return Outcome::Skipped(NOT_OURS);
    }
    let ended = view.ended_in_order().filter(|_| is_tested);
    let finding = || Finding::new("it exited only after a signal", None, None);
    Outcome::of(ended.map(|ended| ended.forced.then(finding)), nothing)
}

/// The names of the listed tools. `None` if more pages were not read.
fn tools(view: &ServerView<'_>) -> Option<BTreeSet<String>> {
    let mut names = None;
    for (_, result) in view.results_by(&Method::ListTools) {
        if member(result, "nextCursor").is_some() {
            return None;
        }
        let tools = list(result, "tools").unwrap_or_default();
        names.get_or_insert_with(BTreeSet::new).extend(tools.iter().filter_map(|tool| text(tool, "name")));
    }
    names
}
