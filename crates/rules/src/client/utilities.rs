//! Cancellations, progress and cursors, as a client sends them.

use std::collections::{BTreeMap, BTreeSet};

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Method, Payload, Raw, RequestId};

use super::CROSSING;
use super::streams::unread;
use super::tasks::of_tasks;
use crate::client_view::{ClientRequest, ClientView};
use crate::json::{float, member, param, plain, string};
use crate::rule::{Evidence, Source};
use crate::utilities::LEVELS;

const CANCELLATION: &[Source] = sources![
    LEGACY Must "basic/utilities/cancellation#behavior-requirements",
    MODERN Must "basic/patterns/cancellation#behavior-requirements",
];
const PROGRESS: &[Source] = sources![
    LEGACY Must "basic/utilities/progress#progress-flow",
    MODERN Must "basic/patterns/progress#progress-flow",
];
const NOT_CANCELLED: &str = "the client cancelled nothing";
const NO_TOKEN: &str = "the client asked for no progress";

rules! {
    pub(crate) RULES for Client in Chapter::Base;

    "client-cancels-what-is-under-way", CANCELLATION,
        "A client cancels requests that it has sent, and that it believes to be under way.",
        else NOT_CANCELLED,
        |view| {
            let mut first = BTreeMap::new();
            for request in &view.requests {
                first.entry(&request.what.id).or_insert(request);
            }
            // These have rules of their own.
            let (tasks, unread) = (of_tasks(view), unread(view));
            view.cancelled().map(move |(notification, id)| {
                let Some(id) = id else { return Some(notification.finding("it names no request")) };
                if tasks.contains_key(&id) || unread.contains(&id) {
                    return None;
                }
                let Some(request) = first.get(&id).filter(|request| request.place < notification.place) else {
                    return Some(notification.finding(format_args!("no request had the id {id}")));
                };
                let is_over = request.response.is_some_and(|response| {
                    response.place < notification.place
                        && notification.at.saturating_sub(response.at) > CROSSING
                });
                notification.finding_if(
                    is_over,
                    format_args!("{} with the id {id} was answered long before", request.what.method),
                )
            })
        };
    "client-never-cancels-initialize", [LEGACY Must "basic/utilities/cancellation#behavior-requirements"],
        "A client does not cancel initialize.",
        else NOT_CANCELLED,
        |view| {
            let opened = view.calls(&Method::Initialize).map(|request| &request.what.id);
            let opened: BTreeSet<&RequestId> = opened.collect();
            view.cancelled().map(move |(notification, id)| {
                let is_opening = id.is_some_and(|id| opened.contains(&id));
                notification.finding_if(is_opening, "the request that it names is initialize")
            })
        };
    "client-progress-token", PROGRESS,
        "A progress token of a client is a string or an integer.",
        else NO_TOKEN,
        |view| tokens(view).map(|(request, token)| {
            let is_good = token.decode::<RequestId>().is_ok();
            request.finding_if(!is_good, format_args!("the progress token is {token}"))
        });
    "client-progress-token-unique", PROGRESS,
        "No two requests of a client that are under way have the same progress token.",
        else NO_TOKEN,
        |view| {
            // A cancelled request is no longer in flight, nor is, over HTTP, one whose response the client left.
            let cancelled = view.cancelled_ids();
            let mut last: BTreeMap<String, &ClientRequest<'_>> = BTreeMap::new();
            tokens(view).map(move |(request, token)| {
                let earlier = last.insert(plain(&token).to_string(), request)?;
                let is_answered = earlier.response.is_some_and(|response| response.place < request.place);
                let is_cancelled = cancelled.get(&earlier.what.id).is_some_and(|place| *place < request.place);
                let is_over = is_answered || is_cancelled || view.run.is_http() && view.is_modern();
                let (method, id) = (&earlier.what.method, &earlier.what.id);
                request.finding_if(!is_over, format_args!(
                    "the progress token {token} is that of {method} with the id {id}, which is not answered yet"
                ))
            })
        };
    "client-own-progress", [LEGACY Must "basic/utilities/progress#behavior-requirements"],
        "A client tells of the progress of requests to it, by their tokens, and it increases each time.",
        else "the client told of no progress",
        |view| {
            let mut first = BTreeMap::new();
            for request in &view.our_requests {
                let meta = request.what.params.as_ref().and_then(Payload::meta);
                if let Some(token) = meta.and_then(|meta| member(&meta, "progressToken")) {
                    first.entry(plain(&token).to_string()).or_insert(request);
                }
            }
            let mut last: BTreeMap<String, f64> = BTreeMap::new();
            view.notified(&Method::Progress).map(move |notification| {
                let params = notification.what.params.as_ref()?.raw();
                let token = member(params, "progressToken").map(|token| plain(&token).to_string());
                let request = token.as_ref().and_then(|token| first.get(token));
                let request = request.filter(|request| request.place < notification.place);
                let (Some(token), Some(request)) = (token, request) else {
                    return Some(notification.finding("no request to the client had this token"));
                };
                if request.response.is_some_and(|response| response.place < notification.place) {
                    return Some(notification.finding("the request with this token was answered"));
                }
                let progress = float(params, "progress")?;
                let before = last.insert(token, progress).filter(|before| progress <= *before)?;
                Some(notification.finding(format_args!("{progress} comes after {before}")))
            })
        };
    "client-cursor-unchanged", [ALL Must "server/utilities/pagination#implementation-guidelines"],
        "A client hands a cursor back as it got it, for the same list.",
        else "no page had another after it, or it was not asked for",
        |view| {
            let pages = view.requests.iter().filter_map(|page| {
                let next = member(page.response?.result()?, "nextCursor")?;
                Some((page.what.method.as_str(), plain(&next).to_string()))
            });
            let given: BTreeSet<(&str, String)> = pages.collect();
            view.requests.iter().filter_map(move |request| {
                let cursor = plain(&request.param("cursor")?).to_string();
                let method = request.what.method.as_str();
                let is_known = given.contains(&(method, cursor));
                Some(request
                    .finding_if(!is_known, format_args!("no page of {method} has led to this cursor")))
            })
        };
    "client-log-level", [LEGACY Advice "server/utilities/logging#log-levels", MODERN Advice "basic#meta"],
        "The level from which on a client wants log messages is one of the eight.",
        else "the client asked for no log messages",
        |view| view.requests.iter().filter_map(|request| {
            let level = if view.is_modern() {
                request.meta_member(key::LOG_LEVEL)?
            } else {
                param(&request.what.params, "level").filter(|_| request.what.method == Method::SetLevel)?
            };
            let is_good = string(&level).is_some_and(|level| LEVELS.contains(&&*level));
            Some(request.finding_if(!is_good, format_args!("the level is {level}")))
        });
}

/// The requests with a progress token.
fn tokens<'t, 'a>(view: &'t ClientView<'a>) -> impl Iterator<Item = (&'t ClientRequest<'a>, Raw)> {
    view.requests.iter().filter_map(|request| Some((request, request.meta_member(key::PROGRESS_TOKEN)?)))
}
