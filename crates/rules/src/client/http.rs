//! How a client uses Streamable HTTP: its POST requests and its sessions.

use std::time::Duration;

use mcpjoin_proto::http::headers::{Headers, name};
use mcpjoin_proto::http::origin::{MediaType, accepts, has_json_body};
use mcpjoin_proto::scan::ScanErrorKind;
use mcpjoin_proto::{DecodeErrorKind, Message, Method, Version};

use crate::client_view::{ClientExchange, ClientView};
use crate::json::text;
use crate::revisions::Revisions;
use crate::rule::{Finding, Outcome, Source};
use crate::trace::What;

const SENDING: &[Source] = sources![
    LEGACY_SINCE_SECOND Must "basic/transports#sending-messages-to-the-server",
    MODERN Must "basic/transports/streamable-http#sending-messages",
];
const NOTHING: &str = "the client posted nothing";

const SESSIONS: &[Source] = sources![LEGACY_SINCE_SECOND Must "basic/transports#session-management"];
const VERSION: &str = "basic/transports#protocol-version-header";
const NOTHING_FOLLOWED: &str = "nothing followed initialize";

rules! {
    pub(crate) RULES for Client in Chapter::StreamableHttp;

    "client-accepts-both", SENDING,
        "A client's POST accepts application/json and text/event-stream.",
        |view| {
            posts(view, |post| {
                let good = accepts(&post.request.headers[..], &[MediaType::Json, MediaType::EventStream]);
                (!good).then(|| post.finding(format!("Accept is {}", shown(post, name::ACCEPT))))
            })
        };
    "client-get-accepts-events", [LEGACY_SINCE_SECOND Must "basic/transports#listening-for-messages-from-the-server"],
        "A client's GET accepts text/event-stream.",
        |view| {
            let gets = view.exchanges.values().filter(|post| post.is("GET"));
            let findings = gets.map(|post| {
                let good = accepts(&post.request.headers[..], &[MediaType::EventStream]);
                (!good).then(|| post.finding(format!("Accept is {}", shown(post, name::ACCEPT))))
            });
            Outcome::of(findings, "the client opened no stream")
        };
    "client-posts-json", [
        LEGACY_SINCE_SECOND Advice "basic/transports#sending-messages-to-the-server",
        MODERN Advice "basic/transports/streamable-http#standard-request-headers",
    ],
        "A client says that what it posts is application/json.",
        |view| {
            posts(view, |post| {
                (!has_json_body(&post.request.headers[..]))
                    .then(|| post.finding(format!("Content-Type is {}", shown(post, name::CONTENT_TYPE))))
            })
        };
    "client-posts-each-message", SENDING,
        "The body of a client's POST is one message.",
        |view| {
            let batches = Revisions::BATCHING.contains(&view.run.version);
            posts(view, |post| {
                let Some(body) = post.body else { return Some(post.finding("it has no body")) };
                if body.is_array() {
                    return (!batches).then(|| post.finding("it is an array"));
                }
                let fault = body.parts().find_map(Result::err)?;
                is_no_message(&fault.kind).then(|| post.finding(fault.kind.to_string()))
            })
        };
    "client-posts-no-cancellation", [MODERN Advice "basic/patterns/cancellation#transport-specific-cancellation"],
        "A client gives up a request by closing its response, and posts no notifications/cancelled.",
        |view| {
            posts(view, |post| {
                let notification = post.messages().find(|message| {
                    matches!(message, Message::Notification(notification) if notification.method == Method::Cancelled)
                });
                notification.map(|_| post.finding("no such notification is expected"))
            })
        };
    "client-sends-session-id", SESSIONS,
        "Each request of a client that follows initialize has the id of the session, if it got one.",
        |view| {
            let Some(session) = session(view) else {
                return Outcome::Skipped("the client got no session");
            };
            following(view, |post| {
                let given = post.request.headers.value(name::SESSION_ID);
                (given != Some(session)).then(|| {
                    post.finding(match given {
                        None => "Mcp-Session-Id is missing",
                        Some(_) => "Mcp-Session-Id is not the one that came with the answer to initialize",
                    })
                })
            })
        };
    "client-ends-session", [LEGACY_SINCE_SECOND Should "basic/transports#session-management"],
        "A client that no longer needs a session ends it with DELETE.",
        |view| {
            if session(view).is_none() {
                return Outcome::Skipped("the client got no session");
            }
            let ended = view.exchanges.values().any(|post| post.is("DELETE"));
            let gone = view.run.events.iter().any(|event| matches!(event.what, What::Ended(_)));
            if !ended && !gone {
                return Outcome::Skipped("nobody knows whether the client still needs its session");
            }
            let lost =
                (!ended).then(|| Finding::new("the client is gone, and has sent no DELETE", None, None));
            Outcome::of([lost], NOTHING_FOLLOWED)
        };
    "client-new-session-after-404", SESSIONS,
        "A client whose session is not known any more begins a new one, and asks no more in the old one.",
        |view| {
            let Some(session) = session(view) else {
                return Outcome::Skipped("the client got no session");
            };
            let Some(lost) = view.exchanges.values().find(|post| {
                post.status() == Some(404) && post.request.headers.value(name::SESSION_ID) == Some(session)
            }) else {
                return Outcome::Skipped("the session lasted");
            };
            let answered = lost.place;
            let again = view.requests.iter().find(|request| {
                // What was sent at once may have crossed with it.
                request.place > answered
                    && request.at.saturating_sub(at(view, answered)) > Duration::from_secs(1)
                    && request.what.method != Method::Initialize
            });
            Outcome::of(
                [again.map(|request| request.finding("it asked again in the session that was lost"))],
                NOTHING_FOLLOWED,
            )
        };
    "client-version-header", [LEGACY_SINCE_THIRD Must VERSION],
        "Each request of a client that follows initialize has the header MCP-Protocol-Version.",
        |view| {
            following(view, |post| {
                let given = post.request.headers.value(name::PROTOCOL_VERSION);
                given.is_none().then(|| post.finding("MCP-Protocol-Version is missing"))
            })
        };
    "client-version-header-negotiated", [LEGACY_SINCE_THIRD Should VERSION],
        "The version in a client's MCP-Protocol-Version is the one that was agreed on.",
        |view| {
            let Some((.., result)) = view.opening() else {
                return Outcome::Skipped("no session was opened");
            };
            let agreed = text(result.raw(), "protocolVersion").map(|version| Version::parse(&version));
            let posts = after(view).filter_map(|post| {
                let given = post.request.headers.value(name::PROTOCOL_VERSION)?;
                let good = agreed.as_ref().is_some_and(|agreed| agreed.as_str().as_bytes() == given);
                Some((!good).then(|| {
                    post.finding(format!("MCP-Protocol-Version is {}", shown(post, name::PROTOCOL_VERSION)))
                }))
            });
            Outcome::of(posts, NOTHING_FOLLOWED)
        };
}

/// Looks at what was posted.
pub(super) fn posts(view: &ClientView<'_>, look: impl Fn(&ClientExchange<'_>) -> Option<Finding>) -> Outcome {
    let posts = view.exchanges.values().filter(|post| post.is("POST"));
    Outcome::of(posts.map(look), NOTHING)
}

/// A header as it came, for a finding.
pub(super) fn shown(post: &ClientExchange<'_>, name: &str) -> String {
    let value = post.request.headers.value(name);
    value.map_or_else(|| "missing".into(), |value| format!("{:?}", String::from_utf8_lossy(value)))
}

fn is_no_message(kind: &DecodeErrorKind) -> bool {
    match kind {
        DecodeErrorKind::NotAnObject => true,
        // Deeper than we read, and keys to be checked elsewhere.
        DecodeErrorKind::Json(
            ScanErrorKind::Depth(_) | ScanErrorKind::TooLong | ScanErrorKind::DuplicateKey,
        ) => false,
        DecodeErrorKind::Json(_) => true,
        _ => false,
    }
}

fn at(view: &ClientView<'_>, place: usize) -> Duration {
    view.run.events.get(place).map_or(Duration::ZERO, |event| event.at)
}

fn is_opening(post: &ClientExchange<'_>) -> bool {
    post.requests().any(|request| request.method == Method::Initialize)
}

/// The id that came with the answer to `initialize`.
fn session<'a>(view: &ClientView<'a>) -> Option<&'a [u8]> {
    view.exchanges
        .values()
        .filter(|post| is_opening(post))
        .find_map(|post| post.response?.headers.value(name::SESSION_ID))
}

/// The requests after the answer to `initialize`.
fn after<'t, 'a>(view: &'t ClientView<'a>) -> impl Iterator<Item = &'t ClientExchange<'a>> {
    let answered = view.opening().map_or(usize::MAX, |(_, response, _)| response.place);
    view.exchanges.values().filter(move |post| post.place > answered && !is_opening(post))
}

fn following(view: &ClientView<'_>, look: impl Fn(&ClientExchange<'_>) -> Option<Finding>) -> Outcome {
    Outcome::of(after(view).map(look), NOTHING_FOLLOWED)
}
