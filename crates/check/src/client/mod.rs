//! The book for clients: the same chapters, judged in a [`Trace`] in which we are the server.
//!
//! [`What::Received`](crate::What::Received) is what the client has sent, [`What::Sent`](crate::What::Sent) what it
//! got; over HTTP, [`What::Requested`](crate::What::Requested) is its request, before the message in it. What the
//! client has done of its own accord is judged, and what it made of our probes; a rule that nothing has been done about
//! says so. Nobody knows from outside what a client shows to its user, so no rule says anything about that.

mod answers;
mod asked;
mod cancelling;
mod exchanges;
mod headers;
mod http_sse;
mod lifecycle;
mod messages;
mod meta;
mod pages;
mod replies;
mod retries;
mod sessions;
mod stdio;
mod streams;
mod talk;
mod tasks;
mod utilities;

pub(crate) use talk::Talk;

use crate::rule::{Outcome, Report, Rule, Selection, Verdict, by_runs};
use crate::seen::Seen;
use crate::trace::Trace;

static RULES: [&[Rule]; 17] = [
    &messages::RULES,
    &answers::RULES,
    &utilities::RULES,
    &lifecycle::RULES,
    &meta::RULES,
    &stdio::RULES,
    &exchanges::RULES,
    &sessions::RULES,
    &headers::RULES,
    &replies::RULES,
    &streams::RULES,
    &http_sse::RULES,
    &pages::RULES,
    &cancelling::RULES,
    &tasks::RULES,
    &asked::RULES,
    &retries::RULES,
];

/// The book for clients: every rule, chapter by chapter. No name in it is one of the [book for servers](crate::rules).
pub fn client_rules() -> impl Iterator<Item = &'static Rule> {
    RULES.iter().copied().flatten()
}

/// Judges a client by the selected rules, in a trace in which we are the server.
///
/// ```
/// use mcpjoin_check::{Probe, Run, Selection, Trace, judge_client};
/// use mcpjoin_proto::{Era, Version};
///
/// let mut run = Run::new("session", Version::newest(Era::Legacy));
/// run.received(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
/// run.sent(Probe::Answer, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
/// run.received(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
/// let mut trace = Trace::default();
/// trace.runs.push(run);
///
/// let report = judge_client(&trace, &Selection::default());
/// let failed: Vec<&str> = report.failed().map(|verdict| verdict.rule.slug).collect();
/// assert_eq!(failed, ["client-request-id-not-reused"]);
/// ```
#[must_use]
pub fn judge_client(trace: &Trace, selection: &Selection) -> Report {
    let runs: Vec<Seen<'_>> = trace.runs.iter().map(|run| Seen::of_client(trace, run)).collect();
    let selected = client_rules().filter(|rule| selection.has(rule));
    let outcome = |rule| match by_runs(rule, &runs) {
        Outcome::Skipped(why) => Outcome::Skipped(of_a_client(why)),
        outcome => outcome,
    };
    Report { verdicts: selected.map(|rule| Verdict { rule, outcome: outcome(rule) }).collect() }
}

/// Why a rule had nothing to judge, where the reason that its chapter gives is about a server.
fn of_a_client(why: &'static str) -> &'static str {
    match why {
        "the server was not run as a child" => "the client did not come over stdio",
        "the server was not reached over Streamable HTTP" => "the client did not come over Streamable HTTP",
        "the server was not reached over HTTP+SSE" => "the client did not come over HTTP+SSE",
        why => why,
    }
}
