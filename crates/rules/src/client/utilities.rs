//! Cancellations, progress and cursors, as a client sends them.

use std::collections::{BTreeMap, BTreeSet};

use mcpjoin_proto::{Kind, Method, Payload, Raw, RequestId};

use super::replies::unread;
use super::tasks::of_tasks;
use crate::client_view::{ClientRequest, ClientView};
use crate::json::{member, plain};
use crate::rule::{Outcome, Source};

/// An answer that has been sent for no longer than this may have crossed with what the client has sent.
pub(super) const CROSSING: std::time::Duration = std::time::Duration::from_secs(1);

const CANCELLATION: &[Source] = sources![
    LEGACY Must "basic/utilities/cancellation#behavior-requirements",
    MODERN Must "basic/patterns/cancellation#behavior-requirements",
];
const PROGRESS: &[Source] = sources![
    LEGACY Must "basic/utilities/progress#progress-flow",
    MODERN Must "basic/patterns/progress#progress-flow",
];

rules! {
    pub(crate) RULES for Client in Chapter::Base;

    "client-cancels-what-is-under-way", CANCELLATION,
        "A client cancels requests that it has sent, and that it believes to be under way.",
        |view| {
            let mut first = BTreeMap::new();
            for request in &view.requests {
                first.entry(&request.what.id).or_insert(request);
            }
            // These have rules of their own.
            let (tasks, unread) = (of_tasks(view), unread(view));
            let findings = cancelled(view).map(|(notification, id)| {
                let Some(id) = id else {
                    return Some(view.finding("it names no request", notification.line));
                };
                if tasks.contains_key(&id) || unread.contains(&id) {
                    return None;
                }
                let Some(request) = first.get(&id).filter(|request| request.place < notification.place)
                else {
                    return Some(view.finding(format!("no request had the id {id}"), notification.line));
                };
                let over = request.response.is_some_and(|response| {
                    response.place < notification.place
                        && notification.at.saturating_sub(response.at) > CROSSING
                });
                let problem = || format!("{} with the id {id} was answered long before", request.what.method);
                over.then(|| view.finding(problem(), notification.line))
            });
            Outcome::of(findings, "the client cancelled nothing")
        };
    "client-never-cancels-initialize", [LEGACY Must "basic/utilities/cancellation#behavior-requirements"],
        "A client does not cancel initialize.",
        |view| {
            let opened: BTreeSet<&RequestId> =
                view.calls(&Method::Initialize).map(|request| &request.what.id).collect();
            let findings = cancelled(view).map(|(notification, id)| {
                id.is_some_and(|id| opened.contains(&id))
                    .then(|| view.finding("the request that it names is initialize", notification.line))
            });
            Outcome::of(findings, "the client cancelled nothing")
        };
    "client-progress-token", PROGRESS,
        "A progress token of a client is a string or an integer.",
        |view| {
            let findings = tokens(view).map(|(request, token)| {
                let good = token.decode::<RequestId>().is_ok();
                (!good).then(|| request.finding(format!("the progress token is {token}")))
            });
            Outcome::of(findings, "the client asked for no progress")
        };
    "client-progress-token-unique", PROGRESS,
        "No two requests of a client that are under way have the same progress token.",
        |view| {
            // What was cancelled is under way no longer, nor, over HTTP, what nobody waits for.
            let given_up: BTreeMap<RequestId, usize> =
                cancelled(view).filter_map(|(notification, id)| Some((id?, notification.place))).collect();
            let mut last: BTreeMap<String, &ClientRequest<'_>> = BTreeMap::new();
            let findings = tokens(view).map(|(request, token)| {
                let earlier = last.insert(plain(&token).to_string(), request)?;
                let answered = earlier.response.is_some_and(|response| response.place < request.place);
                let ended = given_up.get(&earlier.what.id).is_some_and(|place| *place < request.place);
                let over = answered || ended || view.is_http() && view.is_modern();
                (!over).then(|| {
                    request.finding(format!(
                        "the progress token {token} is that of {} with the id {}, which is not answered yet",
                        earlier.what.method, earlier.what.id
                    ))
                })
            });
            Outcome::of(findings, "the client asked for no progress")
        };
    "client-own-progress", [LEGACY Must "basic/utilities/progress#behavior-requirements"],
        "A client tells of the progress of requests to it, by their tokens, and it increases each time.",
        |view| {
            let mut first = BTreeMap::new();
            for our_request in &view.our_requests {
                let meta = our_request.what.params.as_ref().and_then(Payload::meta);
                if let Some(token) = meta.and_then(|meta| member(&meta, "progressToken")) {
                    first.entry(plain(&token).to_string()).or_insert(our_request);
                }
            }
            let mut last: BTreeMap<String, f64> = BTreeMap::new();
            let notification =
                view.notifications.iter().filter(|notification| notification.what.method == Method::Progress);
            let findings = notification.map(|notification| {
                let params = notification.what.params.as_ref().map(Payload::raw)?;
                let token = member(params, "progressToken").map(|token| plain(&token).to_string());
                let our_request = token.as_ref().and_then(|token| first.get(token));
                let our_request = our_request.filter(|our_request| our_request.place < notification.place);
                let (Some(token), Some(our_request)) = (token, our_request) else {
                    return Some(view.finding("no request to the client had this token", notification.line));
                };
                if our_request.response.is_some_and(|response| response.place < notification.place) {
                    return Some(view.finding("the request with this token was answered", notification.line));
                }
                let progress = member(params, "progress")?.as_str().parse::<f64>().ok()?;
                let before = last.insert(token, progress).filter(|before| progress <= *before)?;
                Some(view.finding(format!("{progress} comes after {before}"), notification.line))
            });
            Outcome::of(findings, "the client told of no progress")
        };
    "client-cursor-unchanged", [ALL Must "server/utilities/pagination#implementation-guidelines"],
        "A client hands a cursor back as it got it, for the same list.",
        |view| {
            let pages = view.requests.iter().filter_map(|page| {
                let result = page.response?.outcome.as_ref().ok()?;
                Some((page.what.method.as_str(), plain(&member(result.raw(), "nextCursor")?).to_string()))
            });
            let given: BTreeSet<(&str, String)> = pages.collect();
            let findings = view.requests.iter().filter_map(|request| {
                let cursor = plain(&member(request.what.params.as_ref()?.raw(), "cursor")?).to_string();
                let problem = || format!("no page of {} has led to this cursor", request.what.method);
                let known = given.contains(&(request.what.method.as_str(), cursor));
                Some((!known).then(|| request.finding(problem())))
            });
            Outcome::of(findings, "no page had another after it, or it was not asked for")
        };
    "client-log-level", [LEGACY Advice "server/utilities/logging#log-levels", MODERN Advice "basic#meta"],
        "The level from which on a client wants log messages is one of the eight.",
        |view| {
            let key = mcpjoin_proto::types::meta::key::LOG_LEVEL;
            let findings = view.requests.iter().filter_map(|request| {
                let level = if view.is_modern() {
                    member(&request.meta()?, key)?
                } else if request.what.method == Method::SetLevel {
                    member(request.what.params.as_ref()?.raw(), "level")?
                } else {
                    return None;
                };
                let good = LEVELS.iter().any(|known| level.to_string_value().as_deref() == Some(*known));
                Some((!good).then(|| request.finding(format!("the level is {level}"))))
            });
            Outcome::of(findings, "the client asked for no log messages")
        };
}

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The cancellations, each with the id that it names.
pub(super) fn cancelled<'t, 'a>(
    view: &'t ClientView<'a>,
) -> impl Iterator<Item = (&'t crate::client_view::ClientNotification<'a>, Option<RequestId>)> {
    let notification =
        view.notifications.iter().filter(|notification| notification.what.method == Method::Cancelled);
    notification.map(|notification| {
        let id = notification.what.params.as_ref().and_then(|params| member(params.raw(), "requestId"));
        (notification, id.and_then(|id| id.decode().ok()))
    })
}

/// The requests that ask for progress, each with its token.
fn tokens<'t, 'a>(view: &'t ClientView<'a>) -> impl Iterator<Item = (&'t ClientRequest<'a>, Raw)> {
    view.requests.iter().filter_map(|request| Some((request, member(&request.meta()?, "progressToken")?)))
}

/// Whether a value is a string.
pub(super) fn is_string(raw: Option<&Raw>) -> bool {
    raw.is_some_and(|raw| raw.kind() == Kind::String)
}
