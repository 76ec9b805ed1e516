//! How a client uses Streamable HTTP (its POST requests and its sessions) and the HTTP+SSE of 2024-11-05.

use std::time::Duration;

use mcpjoin_proto::http::headers::{Headers, name};
use mcpjoin_proto::http::origin::{MediaType, accepts, has_json_body};
use mcpjoin_proto::{Message, Method, Version};

use crate::client_view::ClientView;
use crate::exchange::Exchange;
use crate::http::sse::PAGE as SSE_PAGE;
use crate::json::text;
use crate::revisions::Revisions;
use crate::rule::{Evidence, Finding, Outcome, Source};
use crate::stdio::is_no_message;
use crate::trace::What;

const SENDING: &[Source] = sources![
    LEGACY_SINCE_SECOND Must "basic/transports#sending-messages-to-the-server",
    MODERN Must "basic/transports/streamable-http#sending-messages",
];
const SESSIONS: &[Source] = sources![LEGACY_SINCE_SECOND Must "basic/transports#session-management"];
const VERSION: &str = "basic/transports#protocol-version-header";
const NO_POST: &str = "the client posted nothing";
const NO_SESSION: &str = "the client got no session";
const NOTHING_FOLLOWED: &str = "nothing followed initialize";

rules! {
    pub(crate) RULES for Client in Chapter::StreamableHttp;

    "client-accepts-both", SENDING,
        "A client's POST accepts application/json and text/event-stream.",
        else NO_POST,
        |view| view.posts().map(|post| {
            let is_good = accepts(&post.request.headers[..], &[MediaType::Json, MediaType::EventStream]);
            (!is_good).then(|| wrong_header(post, "Accept", name::ACCEPT))
        });
    "client-get-accepts-events", [LEGACY_SINCE_SECOND Must "basic/transports#listening-for-messages-from-the-server"],
        "A client's GET accepts text/event-stream.",
        else "the client opened no stream",
        |view| view.exchanges.values().filter(|exchange| exchange.is("GET")).map(|get| {
            let is_good = accepts(&get.request.headers[..], &[MediaType::EventStream]);
            (!is_good).then(|| wrong_header(get, "Accept", name::ACCEPT))
        });
    "client-posts-json", [
        LEGACY_SINCE_SECOND Advice "basic/transports#sending-messages-to-the-server",
        MODERN Advice "basic/transports/streamable-http#standard-request-headers",
    ],
        "A client says that what it posts is application/json.",
        else NO_POST,
        |view| view.posts().map(|post| {
            let is_json = has_json_body(&post.request.headers[..]);
            (!is_json).then(|| wrong_header(post, "Content-Type", name::CONTENT_TYPE))
        });
    "client-posts-each-message", SENDING,
        "The body of a client's POST is one message.",
        else NO_POST,
        |view| view.posts().map(|post| {
            let Some(body) = post.message else { return Some(post.finding("it has no body")) };
            if body.is_array() {
                let is_allowed = Revisions::BATCHING.contains(view.version());
                return post.finding_if(!is_allowed, "it is an array");
            }
            let kind = &body.parts().find_map(Result::err)?.kind;
            post.finding_if(is_no_message(kind), kind)
        });
    "client-posts-no-cancellation", [MODERN Advice "basic/patterns/cancellation#transport-specific-cancellation"],
        "A client gives up a request by closing its response, and posts no notifications/cancelled.",
        else NO_POST,
        |view| view.posts().map(|post| {
            let is_cancelling = |message: &Message| {
                matches!(message, Message::Notification(it) if it.method == Method::Cancelled)
            };
            post.finding_if(post.messages().any(is_cancelling), "no such notification is expected")
        });
    "client-sends-session-id", SESSIONS,
        "Each request of a client that follows initialize has the id of the session, if it got one.",
        else NOTHING_FOLLOWED,
        |view| {
            let Some(session) = session(view) else { return Outcome::Skipped(NO_SESSION) };
            following(view).map(move |post| match post.request.headers.value(name::SESSION_ID) {
                None => Some(post.finding("Mcp-Session-Id is missing")),
                Some(given) => post.finding_if(
                    given != session,
                    "Mcp-Session-Id is not the one that came with the answer to initialize",
                ),
            })
        };
    "client-ends-session", [LEGACY_SINCE_SECOND Should "basic/transports#session-management"],
        "A client that no longer needs a session ends it with DELETE.",
        else NOTHING_FOLLOWED,
        |view| {
            if session(view).is_none() {
                return Outcome::Skipped(NO_SESSION);
            }
            let has_deleted = view.exchanges.values().any(|exchange| exchange.is("DELETE"));
            let has_ended = view.run.events.iter().any(|event| matches!(event.what, What::Ended(_)));
            if !has_deleted && !has_ended {
                return Outcome::Skipped("nobody knows whether the client still needs its session");
            }
            let finding = || Finding::new("the client is gone, and has sent no DELETE", None, None);
            [(!has_deleted).then(finding)]
        };
    "client-new-session-after-404", SESSIONS,
        "A client whose session is not known any more begins a new one, and asks no more in the old one.",
        else NOTHING_FOLLOWED,
        |view| {
            let Some(session) = session(view) else { return Outcome::Skipped(NO_SESSION) };
            let is_of_session = |it: &Exchange<'_>| it.request.headers.value(name::SESSION_ID) == Some(session);
            let mut refused = view.exchanges.values().filter(|it| it.status() == Some(404));
            let Some(lost) = refused.find(|it| is_of_session(it)) else {
                return Outcome::Skipped("the session lasted");
            };
            let again = view.requests.iter().find(|request| {
                // A request that was sent at the same time may have crossed with the response.
                request.place > lost.place
                    && request.at.saturating_sub(lost.at) > Duration::from_secs(1)
                    && request.what.method != Method::Initialize
            });
            [again.map(|request| request.finding("it asked again in the session that was lost"))]
        };
    "client-version-header", [LEGACY_SINCE_THIRD Must VERSION],
        "Each request of a client that follows initialize has the header MCP-Protocol-Version.",
        else NOTHING_FOLLOWED,
        |view| following(view).map(|post| {
            let is_missing = post.request.headers.value(name::PROTOCOL_VERSION).is_none();
            post.finding_if(is_missing, "MCP-Protocol-Version is missing")
        });
    "client-version-header-negotiated", [LEGACY_SINCE_THIRD Should VERSION],
        "The version in a client's MCP-Protocol-Version is the one that was agreed on.",
        else NOTHING_FOLLOWED,
        |view| {
            let Some((.., result)) = view.opening() else { return Outcome::Skipped("no session was opened") };
            let agreed = text(result, "protocolVersion").map(|version| Version::parse(&version));
            following(view).filter_map(move |post| {
                let given = post.request.headers.value(name::PROTOCOL_VERSION)?;
                let is_good = agreed.as_ref().is_some_and(|agreed| agreed.as_str().as_bytes() == given);
                Some((!is_good).then(|| wrong_header(post, "MCP-Protocol-Version", name::PROTOCOL_VERSION)))
            })
        };
}

rules! {
    pub(crate) SSE_RULES for Client in Chapter::HttpSse;

    "client-posts-to-endpoint", [FIRST Must "basic/transports#http-with-sse", LEGACY_SINCE_SECOND Must SSE_PAGE],
        "A client posts its messages to the address that the event endpoint has named.",
        else NO_POST,
        |view| {
            let events = view.run.events.iter().enumerate();
            let mut named = events.filter_map(|(place, event)| match &event.what {
                What::Streamed(event) if event.name.as_deref() == Some(b"endpoint") => Some((place, &event.data)),
                _ => None,
            });
            let Some((place, endpoint)) = named.next() else {
                return Outcome::Skipped("the client was told no endpoint");
            };
            view.posts().filter(move |post| post.place > place).map(|post| {
                let is_good = target(post.request.url.as_bytes()) == target(endpoint);
                let wanted = String::from_utf8_lossy(endpoint);
                post.finding_if(!is_good, format_args!("the endpoint is {wanted}"))
            })
        };
}

/// A finding about a header of a request, with its value.
pub(super) fn wrong_header(exchange: &Exchange<'_>, title: &str, name: &str) -> Finding {
    match exchange.request.headers.value(name) {
        None => exchange.finding(format_args!("{title} is missing")),
        Some(value) => exchange.finding(format_args!("{title} is {:?}", String::from_utf8_lossy(value))),
    }
}

fn is_opening(post: &Exchange<'_>) -> bool {
    post.requests().any(|request| request.method == Method::Initialize)
}

/// The session id in the response to `initialize`.
fn session<'a>(view: &ClientView<'a>) -> Option<&'a [u8]> {
    let mut opened = view.exchanges.values().filter(|post| is_opening(post));
    opened.find_map(|post| post.header(name::SESSION_ID))
}

/// The HTTP requests after the response to `initialize`.
fn following<'t, 'a>(view: &'t ClientView<'a>) -> impl Iterator<Item = &'t Exchange<'a>> {
    let answered = view.opening().map_or(usize::MAX, |(_, response, _)| response.place);
    view.exchanges.values().filter(move |post| post.place > answered && !is_opening(post))
}

/// The path and the query of an address.
fn target(address: &[u8]) -> &[u8] {
    let scheme = address.windows(3).position(|three| three == b"://");
    let Some(host) = scheme.map(|start| start + 3) else { return address };
    let path = address[host..].iter().position(|byte| *byte == b'/');
    path.map_or(&[], |path| &address[host + path..])
}
