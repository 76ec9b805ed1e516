//! How a client uses Streamable HTTP (its POST requests, its sessions, and in the modern era the headers that repeat parts of
//! the body) and the HTTP+SSE of 2024-11-05.

use std::collections::BTreeMap;
use std::time::Duration;

use mcpjoin_proto::http::headers::{Headers, decode_value, encode_value, name};
use mcpjoin_proto::http::origin::{MediaType, accepts, has_json_body};
use mcpjoin_proto::http::params::{check_param_headers, header_marks};
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Message, Method, Payload, Raw, Request, Version};

use super::tasks::{by_each, listed, listed_before};
use crate::client_view::ClientView;
use crate::exchange::Exchange;
use crate::http::streams::SSE_PAGE;
use crate::json::{member, text, text_param};
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
const STANDARD: &[Source] = sources![MODERN Must "basic/transports/streamable-http#standard-request-headers"];
const NO_POST: &str = "the client sent no POST";
const NO_SESSION: &str = "the client received no session id";
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
        "A client sends its POSTs as application/json.",
        else NO_POST,
        |view| view.posts().map(|post| {
            let is_json = has_json_body(&post.request.headers[..]);
            (!is_json).then(|| wrong_header(post, "Content-Type", name::CONTENT_TYPE))
        });
    "client-posts-each-message", SENDING,
        "The body of a client's POST is one message.",
        else NO_POST,
        |view| view.posts().map(|post| {
            let Some(body) = post.message else { return Some(post.finding("the body is empty")) };
            if body.is_array() {
                let is_allowed = Revisions::BATCHING.contains(view.version());
                return post.finding_if(!is_allowed, "the body is an array");
            }
            let kind = &body.parts().find_map(Result::err)?.kind;
            post.finding_if(is_no_message(kind), kind)
        });
    "client-posts-no-cancellation", [MODERN Advice "basic/patterns/cancellation#transport-specific-cancellation"],
        "A client cancels a request by closing its response stream, and sends no notifications/cancelled.",
        else NO_POST,
        |view| view.posts().map(|post| {
            let is_cancelling = |message: &Message| {
                matches!(message, Message::Notification(it) if it.method == Method::Cancelled)
            };
            post.finding_if(post.messages().any(is_cancelling), "this notification is not allowed over HTTP")
        });
    "client-sends-session-id", SESSIONS,
        "After initialize, each request of a client has the session id, if it received one.",
        else NOTHING_FOLLOWED,
        |view| {
            let Some(session) = session(view) else { return Outcome::Skipped(NO_SESSION) };
            following(view).map(move |post| match post.request.headers.value(name::SESSION_ID) {
                None => Some(post.finding("Mcp-Session-Id is missing")),
                Some(given) => post.finding_if(
                    given != session,
                    "Mcp-Session-Id differs from the one in the response to initialize",
                ),
            })
        };
    "client-ends-session", [LEGACY_SINCE_SECOND Should "basic/transports#session-management"],
        "A client that no longer needs a session ends it with DELETE.",
        else NOTHING_FOLLOWED,
        |view| {
            let Some(session) = session(view) else { return Outcome::Skipped(NO_SESSION) };
            if lost(view, session).is_some() {
                return Outcome::Skipped("the server has lost the session");
            }
            let has_deleted = view.exchanges.values().any(|exchange| exchange.is("DELETE"));
            let has_ended = view.run.events.iter().any(|event| matches!(event.what, What::Ended(_)));
            if !has_deleted && !has_ended {
                return Outcome::Skipped("it is unknown whether the client still needs its session");
            }
            let finding = || Finding::new("the client has disconnected without sending DELETE", None, None);
            [(!has_deleted).then(finding)]
        };
    "client-new-session-after-404", SESSIONS,
        "A client whose session is unknown to the server starts a new one, and stops using the old one.",
        else NOTHING_FOLLOWED,
        |view| {
            let Some(session) = session(view) else { return Outcome::Skipped(NO_SESSION) };
            let Some(lost) = lost(view, session) else {
                return Outcome::Skipped("the session was never lost");
            };
            let again = view.requests.iter().find(|request| {
                // A request that was sent at the same time may have crossed with the response.
                request.place > lost.place
                    && request.at.saturating_sub(lost.at) > Duration::from_secs(1)
                    && request.what.method != Method::Initialize
            });
            [again.map(|request| request.finding("the lost session was used again"))]
        };
    "client-version-header", [LEGACY_SINCE_THIRD Must VERSION],
        "After initialize, each request of a client has the header MCP-Protocol-Version.",
        else NOTHING_FOLLOWED,
        |view| following(view).map(|post| {
            let is_missing = post.request.headers.value(name::PROTOCOL_VERSION).is_none();
            post.finding_if(is_missing, "MCP-Protocol-Version is missing")
        });
    "client-version-header-negotiated", [LEGACY_SINCE_THIRD Should VERSION],
        "The version in a client's MCP-Protocol-Version is the negotiated one.",
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
    "client-version-header-agrees", [MODERN Must "basic/transports/streamable-http#protocol-version-header"],
        "Each request of a client has the version of its body in the header MCP-Protocol-Version.",
        |view| requests(view, |post, request| {
            let meta = request.params.as_ref().and_then(Payload::meta);
            let version = meta.and_then(|meta| text(&meta, key::PROTOCOL_VERSION));
            let given = post.request.headers.value(name::PROTOCOL_VERSION).map(<[u8]>::trim_ascii);
            // A body without a version violates another rule.
            let is_good = given.is_some_and(|given| version.is_none_or(|version| given == version.as_bytes()));
            (!is_good).then(|| wrong_header(post, "MCP-Protocol-Version", name::PROTOCOL_VERSION))
        });
    "client-method-header", STANDARD,
        "Each request of a client has its method in the header Mcp-Method.",
        |view| requests(view, |post, request| {
            let given = post.request.headers.value(name::METHOD).map(<[u8]>::trim_ascii);
            let is_good = given == Some(request.method.as_str().as_bytes());
            (!is_good).then(|| wrong_header(post, "Mcp-Method", name::METHOD))
        });
    "client-name-header", STANDARD,
        "A client's request for a tool, a prompt or a resource has its name or URI in the header Mcp-Name.",
        else "the client requested no tool, prompt or resource",
        |view| named(view).map(|(post, wanted)| {
            // A name that must be encoded has a rule of its own.
            let given = post.request.headers.value(name::NAME);
            let is_good = given.is_some() && encode_value(&wanted) != wanted
                || matches!(given.map(decode_value), Some(Ok(given)) if *given == *wanted);
            (!is_good).then(|| wrong_header(post, "Mcp-Name", name::NAME))
        });
    "client-header-encoded", [MODERN Must "basic/transports/streamable-http#value-encoding"],
        "A client encodes a name in Base64 in Mcp-Name if it is not plain text or looks encoded.",
        else "no name had to be encoded",
        |view| named(view).filter(|(_, wanted)| encode_value(wanted) != *wanted).filter_map(|(post, wanted)| {
            let given = post.request.headers.value(name::NAME)?;
            let is_good =
                given != wanted.as_bytes() && matches!(decode_value(given), Ok(given) if *given == *wanted);
            Some((!is_good).then(|| wrong_header(post, "Mcp-Name", name::NAME)))
        });
    "client-param-headers", [MODERN Must "basic/transports/streamable-http#custom-headers-from-tool-parameters"],
        "A client repeats in headers exactly the arguments that the tool's schema marks with x-mcp-header.",
        else "no tool with such arguments was called, or it was not listed before",
        |view| {
            let listed = listed(view);
            calls(view).filter_map(move |(post, called, request)| {
                let arguments = request.params.as_ref().and_then(Payload::arguments);
                let checked = listed_before(&listed, &called, post.place, post.at).into_iter().map(|tool| {
                    let marks = header_marks(&member(tool, "inputSchema")?).ok().filter(|marks| !marks.is_empty())?;
                    Some(check_param_headers(&post.request.headers[..], &marks, arguments.as_ref()).err())
                });
                // By a definition without marks, nothing is known of the call.
                let errors: Vec<_> = checked.collect::<Option<_>>()?;
                Some(by_each(errors)?.map(|error| post.finding(error)))
            })
        };
    "client-drops-bad-header-marks", [MODERN Must "basic/transports/streamable-http#schema-extension"],
        "A client ignores a tool whose schema has an invalid x-mcp-header.",
        else "the client called no tool",
        |view| {
            let listed = listed(view);
            let invalid = |tool: &Raw| header_marks(&member(tool, "inputSchema")?).err();
            if !listed.values().flat_map(BTreeMap::values).any(|(_, tool)| invalid(tool).is_some()) {
                return Outcome::Skipped("no such tool was listed");
            }
            calls(view).map(move |(post, called, _)| {
                let errors = listed_before(&listed, &called, post.place, post.at).into_iter().map(invalid);
                let error = by_each(errors)??;
                Some(post.finding(format_args!("{called} is such a tool: {error}")))
            })
        };
}

rules! {
    pub(crate) SSE_RULES for Client in Chapter::HttpSse;

    "client-posts-to-endpoint", [FIRST Must "basic/transports#http-with-sse", LEGACY_SINCE_SECOND Must SSE_PAGE],
        "A client posts its messages to the URL in the event endpoint.",
        else NO_POST,
        |view| {
            let events = view.run.events.iter().enumerate();
            let mut named = events.filter_map(|(place, event)| match &event.what {
                What::Streamed(event) if event.name.as_deref() == Some(b"endpoint") => Some((place, &event.data)),
                _ => None,
            });
            let Some((place, endpoint)) = named.next() else {
                return Outcome::Skipped("the client received no endpoint");
            };
            view.posts().filter(move |post| post.place > place).map(|post| {
                let is_good = target(post.request.url.as_bytes()) == target(endpoint);
                let wanted = String::from_utf8_lossy(endpoint);
                post.finding_if(!is_good, format_args!("the endpoint is {wanted}"))
            })
        };
}

/// A finding about a header of a request, with its value.
fn wrong_header(exchange: &Exchange<'_>, title: &str, name: &str) -> Finding {
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

/// The request that shows the client that the server has lost the session.
fn lost<'t, 'a>(view: &'t ClientView<'a>, session: &[u8]) -> Option<&'t Exchange<'a>> {
    let mut refused = view.exchanges.values().filter(|exchange| exchange.status() == Some(404));
    refused.find(|exchange| exchange.request.headers.value(name::SESSION_ID) == Some(session))
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

/// The requests for a tool, a prompt or a resource, with its name or URI.
fn named<'t, 'a>(view: &'t ClientView<'a>) -> impl Iterator<Item = (&'t Exchange<'a>, String)> {
    posted(view).filter_map(|(post, request)| {
        let named = match request.method {
            Method::CallTool | Method::GetPrompt => "name",
            Method::ReadResource => "uri",
            _ => return None,
        };
        Some((post, text_param(&request.params, named)?))
    })
}

/// The requests in POSTs.
fn posted<'t, 'a>(view: &'t ClientView<'a>) -> impl Iterator<Item = (&'t Exchange<'a>, &'a Request)> {
    view.posts().flat_map(|post| post.requests().map(move |request| (post, request)))
}

/// Checks all requests in POSTs but `initialize`.
fn requests(view: &ClientView<'_>, check: impl Fn(&Exchange<'_>, &Request) -> Option<Finding>) -> Outcome {
    let requests = posted(view).filter(|(_, request)| request.method != Method::Initialize);
    Outcome::of(requests.map(|(post, request)| check(post, request)), "the client sent no request by POST")
}

/// The calls of tools, with the name of the tool.
fn calls<'t, 'a>(view: &'t ClientView<'a>) -> impl Iterator<Item = (&'t Exchange<'a>, String, &'a Request)> {
    let calls = posted(view).filter(|(_, request)| request.method == Method::CallTool);
    calls.filter_map(|(post, request)| Some((post, text_param(&request.params, "name")?, request)))
}
