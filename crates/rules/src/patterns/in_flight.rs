//! Requests in flight: progress and cancellation.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress>
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation>

use std::collections::{BTreeMap, BTreeSet};

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Kind, Method, Notification, ProgressToken, Raw, RequestId};

use crate::base::{goes_on, is_sent_again};
use crate::features::is_kind;
use crate::json::{member, number};
use crate::revisions::Revisions;
use crate::rule::{Finding, Outcome, Source};
use crate::server_view::{OurRequest, Received, ServerView};
use crate::trace::{Channel, Probe};

const NONE_CAME: &str = "no progress was told: see --call and --read-only-tools";

const ERRORS: &[Source] = sources![
    LEGACY Should "basic/utilities/cancellation#error-handling",
    MODERN Should "basic/patterns/cancellation#error-handling",
];

rules! {
    pub(crate) RULES for Server in Chapter::Patterns;

    "progress-complete", [
        LEGACY Must "basic/utilities/progress#progress-flow",
        MODERN Must "basic/patterns/progress#progress-flow",
    ],
        "A notification of progress has the token of a request and a number; total is a number too.",
        |view| {
            each(view, |notification| {
                let Some(params) = notification.what.params.as_ref() else {
                    return Some("it says nothing".into());
                };
                if token_of(notification.what).is_none() {
                    return Some("progressToken is missing, or neither a string nor an integer".into());
                }
                if !member(params.raw(), "progress").is_some_and(|progress| progress.kind() == Kind::Number) {
                    return Some("progress is missing or no number".into());
                }
                is_kind(params.raw(), "total", Kind::Number)
                    .or_else(|| is_kind(params.raw(), "message", Kind::String))
            })
        };
    "progress-token-known", [
        LEGACY Must "basic/utilities/progress#behavior-requirements",
        MODERN Must "basic/patterns/progress#behavior-requirements",
    ],
        "Progress is told of requests that have asked for it: its token is one that a request has given.",
        |view| {
            let modern = Revisions::MODERN.contains(&view.run.version);
            if modern && view.run.channel == Channel::StreamableHttp {
                return Outcome::Skipped("over HTTP, notifications-relate says it");
            }
            let askers = askers(view);
            each(view, |notification| {
                let token = token_of(notification.what)?;
                let known = asker(&askers, notification).is_some();
                (!known).then(|| format!("no request had given the token {token}"))
            })
        };
    "progress-increases", [
        LEGACY Must "basic/utilities/progress#progress-flow",
        MODERN Must "basic/patterns/progress#progress-flow",
    ],
        "With each notification the progress of a request is greater.",
        |view| {
            let mut last: BTreeMap<ProgressToken, f64> = BTreeMap::new();
            let mut known = BTreeMap::new();
            let findings: Vec<Option<Finding>> = progress(view)
                .filter_map(|notification| {
                    // What is sent on every stream is checked as such.
                    if known
                        .insert(notification.line.bytes(), notification)
                        .is_some_and(|first| is_sent_again(first, notification))
                    {
                        return None;
                    }
                    let token = token_of(notification.what)?;
                    let progress = number(&member(notification.what.params.as_ref()?.raw(), "progress")?)?;
                    let Some(before) = last.insert(token, progress) else { return Some(None) };
                    let problem = || format!("the progress is {progress} after {before}");
                    let broken = progress <= before;
                    Some(broken.then(|| Finding::new(problem(), None, Some(notification.line.bytes()))))
                })
                .collect();
            Outcome::of(findings, NONE_CAME)
        };
    "progress-stops", [
        LEGACY Must "basic/utilities/progress#implementation-notes",
        MODERN Must "basic/patterns/progress#implementation-notes",
    ],
        "No progress is told of a request that has been answered.",
        |view| {
            let askers = askers(view);
            each(view, |notification| {
                let request = asker(&askers, notification)?;
                // On two streams nobody knows which came first.
                let over_http = view.run.channel == Channel::StreamableHttp;
                let mut responses = request.responses.iter();
                let late = responses.any(|response| {
                    response.place < notification.place
                        && (!over_http || response.exchange == notification.exchange)
                });
                // A task goes on after the answer that names it.
                let task = request.params().is_some_and(|params| member(&params, "task").is_some());
                (late && !task).then(|| "its request had been answered".into())
            })
        };
    "progress-token-of-server", [LEGACY Must "basic/utilities/progress#progress-flow"],
        "The progress token in a request of the server is a string or an integer, its own among all of them.",
        |view| {
            let mut known: BTreeSet<ProgressToken> = BTreeSet::new();
            let findings: Vec<Option<Finding>> = view
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
            Outcome::of(findings, "the server sent no request with a progress token")
        };
    "completed-cancel-ignored", ERRORS,
        "The cancellation of a request that has been answered is passed over.",
        |view| goes_on(view, Probe::AfterCompletedCancel, "no request was cancelled that was answered");
    "malformed-cancel-ignored", ERRORS,
        "A cancellation that does not say of what is passed over.",
        |view| goes_on(view, Probe::AfterMalformedCancel, "no such cancellation was sent");
    "cancelled-not-answered", [
        LEGACY Should "basic/utilities/cancellation#behavior-requirements",
        MODERN Must "basic/transports/stdio#cancellation",
    ],
        "A request that was cancelled is not answered, not with an error either.",
        |view| {
            if Revisions::MODERN.contains(&view.run.version) && view.run.channel != Channel::Stdio {
                return Outcome::Skipped("over HTTP, to cancel is to leave");
            }
            let cancelled =
                view.our_notifications.iter().filter(|notification| notification.probe == Probe::Cancel);
            let findings = cancelled.filter_map(|notification| {
                let request =
                    view.probed(Probe::CancelledCall).find(|request| request.place < notification.place)?;
                // A result may have been on its way, or could no longer be held back: a server may pass over a
                // cancellation. An error says that it has not, and answers all the same.
                match request.responses.first() {
                    None => Some(None),
                    Some(response) => match response.outcome {
                        Some(Err(_)) if response.place > notification.place => {
                            Some(Some(request.finding("it was answered with an error", response.line)))
                        }
                        _ => None,
                    },
                }
            });
            Outcome::of(findings, "nothing was cancelled that took long enough: see --read-only-tools")
        };
    "server-cancels-its-own", [LEGACY Must "basic/utilities/cancellation#behavior-requirements"],
        "A server cancels requests of its own that are under way, and no others.",
        |view| {
            let mut first = BTreeMap::new();
            for request in &view.requests {
                first.entry(&request.what.id).or_insert(request.place);
            }
            let cancels = view
                .notifications
                .iter()
                .filter(|notification| notification.what.method == Method::Cancelled);
            let findings = cancels.map(|notification| {
                let id =
                    notification.what.params.as_ref().and_then(|params| member(params.raw(), "requestId"));
                let id = id.and_then(|id| id.decode::<RequestId>().ok());
                let own = |id: &RequestId| first.get(id).is_some_and(|place| *place < notification.place);
                let problem = match id {
                    None => "it does not say of what".to_owned(),
                    Some(id) if own(&id) => return None,
                    Some(id) => format!("the server has sent no request with the id {id}"),
                };
                Some(Finding::new(problem, None, Some(notification.line.bytes())))
            });
            Outcome::of(findings, "the server has cancelled nothing")
        };
}

fn progress<'s, 'a>(view: &'s ServerView<'a>) -> impl Iterator<Item = &'s Received<'a, Notification>> {
    view.notifications.iter().filter(|notification| notification.what.method == Method::Progress)
}

fn token_of(notification: &Notification) -> Option<ProgressToken> {
    member(notification.params.as_ref()?.raw(), "progressToken")?.decode().ok()
}

/// The first request of ours with each token. Read once: what a server tells may be much.
fn askers<'s, 'a>(view: &'s ServerView<'a>) -> BTreeMap<ProgressToken, &'s OurRequest<'a>> {
    let given = |raw: Raw| raw.decode::<ProgressToken>().ok();
    let mut askers = BTreeMap::new();
    for request in &view.our_requests {
        if let Some(token) = request.meta(key::PROGRESS_TOKEN).and_then(given) {
            askers.entry(token).or_insert(request);
        }
    }
    askers
}

/// The request of ours that has given the token of a notification.
fn asker<'s, 'a>(
    askers: &BTreeMap<ProgressToken, &'s OurRequest<'a>>,
    notification: &Received<'_, Notification>,
) -> Option<&'s OurRequest<'a>> {
    let request = askers.get(&token_of(notification.what)?)?;
    (request.place < notification.place).then_some(*request)
}

/// Looks at each notification of progress.
fn each(view: &ServerView<'_>, look: impl Fn(&Received<'_, Notification>) -> Option<String>) -> Outcome {
    let findings = progress(view).map(|notification| {
        look(notification).map(|problem| Finding::new(problem, None, Some(notification.line.bytes())))
    });
    Outcome::of(findings, NONE_CAME)
}
