//! Looks for the MCP endpoint of a server at its usual paths, when it is not at the URL that was given.
//!
//! Used by the examination over HTTP. Each path gets a GET at the same origin; only the head of the response is read. Where
//! HTTP+SSE has failed, the URL itself gets a `ping`. No header of the user is sent.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::Method;
use http::header::{self, HeaderMap, HeaderValue};
use mcpjoin_proto::decode::{Decoded, decode};
use mcpjoin_proto::{DecodeLimits, Message};
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::engine::http::{anonymous_client, read_body};
use mcpjoin::internal::http::shown;

/// The usual paths of MCP. Those of HTTP+SSE have `/sse`.
const USUAL_PATHS: [&str; 4] = ["/mcp", "/sse", "/mcp/", "/"];
/// How long a response may take, body included.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
/// A path that no server has.
const UNKNOWN_PATH: &str = "/mcpjoin-asks-for-what-is-not-there";
/// How much of a response to `ping` is read.
const MAX_RESPONSE_BYTES: usize = 16 * 1024;

/// The advice where none of the usual paths is an MCP server.
pub(super) const NOWHERE: &str = "find the path in the server's settings or its first output, and check \
    the port: no MCP server is at /mcp, /sse or /";

/// The result of the search.
pub(super) enum Elsewhere {
    /// The advice: the URL at which something responds as an MCP server would.
    Perhaps(String),
    /// Every path has this status, which therefore says nothing about a path.
    Same(u16),
    /// No path responds as an MCP server would.
    Nowhere,
    /// Some paths gave no response.
    Unknown,
}

/// Tries the usual paths. `guarded`: the server answers 401 at every path, so that a 401 does not count.
pub(super) async fn elsewhere(
    url: &Url,
    tls: &rustls::ClientConfig,
    timeout: Duration,
    guarded: bool,
) -> Elsewhere {
    let client = &anonymous_client(tls, timeout.min(RESPONSE_TIMEOUT));
    let deadline = Instant::now() + RESPONSE_TIMEOUT;
    let get = |path: &str| {
        let mut there = url.clone();
        there.set_path(path);
        there.set_query(None);
        let accept = HeaderValue::from_static("text/event-stream");
        let headers = HeaderMap::from_iter([(header::ACCEPT, accept)]);
        async move {
            let sent = client.send(Method::GET, &there, headers, None);
            let response = timeout_at(deadline, sent).await.ok()?.ok()?;
            let kind = response.headers().get(header::CONTENT_TYPE);
            let streams = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
            Some((there, response.status().as_u16(), streams))
        }
    };
    let asked: Vec<_> = USUAL_PATHS.iter().copied().filter(|path| *path != url.path()).map(get).collect();
    let (nowhere, answers) = tokio::join!(get(UNKNOWN_PATH), join_all(asked));
    let everywhere = nowhere.map(|(_, status, _)| status);
    let perhaps = answers.iter().flatten().find_map(|(there, status, streams)| match status {
        200 if *streams && there.path().starts_with("/sse") => {
            Some(format!("use sse+{}: an event stream is there", shown(there)))
        }
        200 if *streams => Some(format!("use {}: an event stream is there", shown(there))),
        401 if guarded => None,
        // The status of a path that no server has says nothing about another one.
        status if Some(*status) == everywhere => None,
        // The responses of Streamable HTTP to a GET without a session.
        400 | 401 | 405 | 406 => {
            Some(format!("use {}: an MCP server seems to be there ({status})", shown(there)))
        }
        _ => None,
    });
    let same = everywhere.filter(|status| answers.iter().flatten().all(|(_, other, _)| other == status));
    match (perhaps, same) {
        (Some(advice), _) => Elsewhere::Perhaps(advice),
        (None, Some(status)) => Elsewhere::Same(status),
        (None, None) if answers.iter().all(Option::is_some) => Elsewhere::Nowhere,
        (None, None) => Elsewhere::Unknown,
    }
}

/// The URL, if it responds to a POST as Streamable HTTP does: with a message, or with an error about the session.
pub(super) async fn streamable(url: &Url, tls: &rustls::ClientConfig, timeout: Duration) -> Option<String> {
    let deadline = Instant::now() + RESPONSE_TIMEOUT;
    let headers = HeaderMap::from_iter([
        (header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream")),
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
    ]);
    let ping = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    let client = anonymous_client(tls, timeout.min(RESPONSE_TIMEOUT));
    let sent = client.send(Method::POST, url, headers, ping);
    let mut response = timeout_at(deadline, sent).await.ok()?.ok()?;
    // Some servers send the error about the session as text.
    let refused = response.status() == 400;
    // An event stream may go on.
    let read_deadline = deadline.min(Instant::now() + timeout);
    let body = read_body(&mut response, MAX_RESPONSE_BYTES, read_deadline).await;
    let text = String::from_utf8_lossy(&body).into_owned();
    if refused && text.to_ascii_lowercase().contains("session") {
        return Some(shown(url));
    }
    let mut texts =
        std::iter::once(text.trim()).chain(text.lines().filter_map(|line| line.strip_prefix("data:")));
    let is_reply = |text: &str| {
        let decoded = decode(&text.trim().to_owned().into(), &DecodeLimits::default());
        matches!(decoded, Ok(Decoded::Message(Message::Response(_))))
    };
    texts.any(is_reply).then(|| shown(url))
}
