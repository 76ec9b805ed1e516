//! How a client handles the responses to its POST requests: both forms of a response, and refusals that tell more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcpjoin_proto::http::headers::{Headers, name};
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Method, Raw, RequestId, code};

use super::utilities::{CROSSING, cancelled};
use crate::client_view::{ClientExchange, ClientRequest, ClientView};
use crate::json::{member, text};
use crate::revisions::Revisions;
use crate::rule::Outcome;
use crate::trace::{Channel, What};

/// A client that begins anew because of an answer does so within this time.
const AT_ONCE: Duration = Duration::from_secs(2);

rules! {
    pub(crate) RULES for Client in Chapter::StreamableHttp;

    "client-takes-both-replies", [
        LEGACY_SINCE_SECOND Must "basic/transports#sending-messages-to-the-server",
        MODERN Must "basic/transports/streamable-http#sending-messages",
    ],
        "A client takes an answer as JSON and as an event of a stream.",
        |view| {
            let unread = unread(view);
            let mut findings = Vec::new();
            for form in [MediaType::Json, MediaType::EventStream] {
                let given: Vec<&ClientRequest<'_>> = replied(view, form).collect();
                let lost = given.iter().find(|request| unread.contains(&request.what.id));
                let last = view.requests.last().map_or(0, |request| request.place);
                let went_on = |request: &&ClientRequest<'_>| {
                    request.response.is_some_and(|response| response.place < last)
                };
                if let Some(lost) = lost {
                    findings
                        .push(Some(lost.finding(format!("its answer came {}, and was not read", how(form)))));
                } else if given.iter().any(went_on) {
                    findings.push(None);
                }
            }
            if findings.len() < 2 && findings.iter().all(Option::is_none) {
                return Outcome::Skipped("the client did not get both, or did not go on");
            }
            Outcome::of(findings, "the client asked for nothing")
        };
    "client-refreshes-after-mismatch", [MODERN Should "basic/transports/streamable-http#client-behavior"],
        "A client whose call was refused for its headers lists the tools before it calls again.",
        |view| {
            let findings = view.calls(&Method::CallTool).filter_map(|request| {
                let response = request.response?;
                let error = response.outcome.as_ref().err()?;
                let tool = named(request)?;
                if error.code != code::HEADER_MISMATCH {
                    return None;
                }
                let again = view
                    .calls(&Method::CallTool)
                    .find(|next| next.place > response.place && named(next).as_ref() == Some(&tool))?;
                let listed = view
                    .calls(&Method::ListTools)
                    .any(|list| list.place > response.place && list.place < again.place);
                Some((!listed).then(|| again.finding(format!("{tool} was called again as it was"))))
            });
            Outcome::of(findings, "no call was refused so, or none came again")
        };
    "client-reads-400-before-falling-back", [MODERN Should "basic/transports/streamable-http#backward-compatibility"],
        "A client that gets the status 400 with an error of the modern era does not fall back to initialize.",
        |view| {
            let refused = view.exchanges.values().filter(|post| post.status() == Some(400));
            let findings = refused.filter_map(|post| {
                let request = asked_in(view, post)?;
                let response = request.response?;
                let error = response.outcome.as_ref().err()?;
                if !is_modern(error.code) {
                    return None;
                }
                let next =
                    view.requests.get(view.requests.partition_point(|next| next.place <= response.place));
                if next.is_some_and(|next| next.at.saturating_sub(response.at) <= AT_ONCE) {
                    return Some(None);
                }
                let fell = fallen_back(view, request, response.at)?;
                let problem = format!("it came after the error {}", error.code);
                Some(Some(view.finding(problem, fell)))
            });
            Outcome::of(findings, "nothing was refused so, or the client left")
        };
}

/// The errors by which a server shows that it is of the modern era.
pub(super) const fn is_modern(error: i64) -> bool {
    matches!(
        error,
        code::HEADER_MISMATCH | code::MISSING_REQUIRED_CLIENT_CAPABILITY | code::UNSUPPORTED_PROTOCOL_VERSION
    )
}

/// The requests of the client that it has cancelled long after their whole answers had come over HTTP: where it has read
/// no other answer of that form, it cannot read it.
pub(super) fn unread(view: &ClientView<'_>) -> BTreeSet<RequestId> {
    let mut unread = BTreeSet::new();
    if !view.is_http() {
        return unread;
    }
    let request: BTreeMap<&RequestId, &ClientRequest<'_>> =
        view.requests.iter().map(|request| (&request.what.id, request)).collect();
    let given_up: BTreeSet<RequestId> = cancelled(view)
        .filter_map(|(notification, id)| {
            let id = id?;
            let response =
                request.get(&id)?.response.filter(|response| response.place < notification.place)?;
            (notification.at.saturating_sub(response.at) > CROSSING).then_some(id)
        })
        .collect();
    if given_up.is_empty() {
        return unread;
    }
    for form in [MediaType::Json, MediaType::EventStream] {
        let given: Vec<&RequestId> = replied(view, form).map(|request| &request.what.id).collect();
        if given.iter().all(|id| given_up.contains(*id)) {
            unread.extend(given.into_iter().cloned());
        }
    }
    unread
}

/// The requests with an answer of that form.
fn replied<'t, 'a>(view: &'t ClientView<'a>, form: MediaType) -> impl Iterator<Item = &'t ClientRequest<'a>> {
    let posts = view.exchanges.values().filter(move |post| {
        let kind = post.response.and_then(|response| response.headers.value(name::CONTENT_TYPE));
        post.is("POST") && post.status() == Some(200) && MediaType::of(kind) == form
    });
    posts.filter_map(|post| asked_in(view, post)).filter(|request| request.response.is_some())
}

/// The one request that was posted there.
pub(super) fn asked_in<'t, 'a>(
    view: &'t ClientView<'a>,
    post: &ClientExchange<'a>,
) -> Option<&'t ClientRequest<'a>> {
    let body = post.body?;
    let place = view.requests.partition_point(|request| request.place < post.place);
    view.requests.get(place..)?.iter().find(|request| is(body, request))
}

fn is(body: &crate::trace::Line, request: &ClientRequest<'_>) -> bool {
    std::ptr::eq(body, request.line)
}

const fn how(form: MediaType) -> &'static str {
    match form {
        MediaType::Json => "as JSON",
        _ => "on a stream",
    }
}

fn named(request: &ClientRequest<'_>) -> Option<String> {
    text(request.what.params.as_ref()?.raw(), "name")
}

/// The `initialize` that the same client has sent at once after that.
fn fallen_back<'a>(
    view: &ClientView<'a>,
    request: &ClientRequest<'_>,
    since: Duration,
) -> Option<&'a crate::trace::Line> {
    let of = |info: Raw| text(&info, "name");
    let client = request.meta().and_then(|meta| member(&meta, key::CLIENT_INFO)).and_then(of);
    let others = view
        .trace
        .runs
        .iter()
        .filter(|run| run.channel == Channel::StreamableHttp && Revisions::LEGACY.contains(&run.version));
    let events = others.flat_map(|run| &run.events);
    let soon = events.filter(|event| event.at >= since && event.at.saturating_sub(since) <= AT_ONCE);
    let mut lines = soon.filter_map(|event| match &event.what {
        What::Received(line) => Some(line),
        _ => None,
    });
    lines.find(|line| {
        line.parts().filter_map(Result::ok).any(|message| match message {
            mcpjoin_proto::Message::Request(request) if request.method == Method::Initialize => {
                let info = request.params.as_ref().and_then(|params| member(params.raw(), "clientInfo"));
                info.and_then(of) == client
            }
            _ => false,
        })
    })
}
