//! Where else on a server its MCP might be, when it is not where it was looked for.
//!
//! Called by the examination over HTTP. The usual paths are asked for with a GET without a body, at the same origin alone,
//! and nothing of what comes back is read but its head; where HTTP+SSE was asked for in vain, the URL itself is asked for a
//! `ping`. No header of the user's is sent.

use std::time::Duration;

use futures_util::future::join_all;
use http::header;
use mcpjoin_proto::decode::{Decoded, decode};
use mcpjoin_proto::{DecodeLimits, Message};
use reqwest::{Client, Url};
use tokio::time::timeout;

use crate::link::{Proxy, shown};

/// Where servers mostly are. Those of HTTP+SSE have `/sse`.
const USUAL: [&str; 4] = ["/mcp", "/sse", "/mcp/", "/"];
/// How long they have to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// A path that no server has.
const NO_PATH: &str = "/mcpjoin-asks-for-what-is-not-there";
/// So much of an answer is read, in bytes.
const ANSWER: usize = 16 * 1024;

/// What came of looking elsewhere.
pub(super) enum Elsewhere {
    /// What to do: the URL at which something answers as an MCP server would.
    Perhaps(String),
    /// This status comes wherever it is asked, and says nothing of a path.
    Same(u16),
    /// No path answers as an MCP server would.
    Nowhere,
    /// It could not be asked.
    Unknown,
}

/// Looks at the usual paths. `guarded`: the server wants to know who asks wherever it is asked, so that a 401 says nothing
/// of a path.
pub(super) async fn elsewhere(
    url: &Url,
    tls: &rustls::ClientConfig,
    within: Duration,
    guarded: bool,
) -> Elsewhere {
    let Some(client) = client(url, tls, within) else { return Elsewhere::Unknown };
    let get = |path: &str| {
        let mut there = url.clone();
        there.set_path(path);
        there.set_query(None);
        let request = client.get(there.clone()).header(header::ACCEPT, "text/event-stream");
        async move {
            let response = request.send().await.ok()?;
            let kind = response.headers().get(header::CONTENT_TYPE);
            let streams = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
            Some((there, response.status().as_u16(), streams))
        }
    };
    let asked: Vec<_> = USUAL.iter().copied().filter(|path| *path != url.path()).map(get).collect();
    let (nowhere, answers) = tokio::join!(get(NO_PATH), join_all(asked));
    let everywhere = nowhere.map(|(_, status, _)| status);
    let perhaps = answers.iter().flatten().find_map(|(there, status, streams)| match status {
        200 if *streams && there.path().starts_with("/sse") => {
            Some(format!("write sse+{}: an event stream answers there", shown(there)))
        }
        200 if *streams => Some(format!("write {}: an event stream answers there", shown(there))),
        401 if guarded => None,
        // What is said of a path that no server has says nothing of another.
        status if Some(*status) == everywhere => None,
        // What Streamable HTTP says to a GET without a session.
        400 | 401 | 405 | 406 => {
            Some(format!("write {}: it answers there as an MCP server would ({status})", shown(there)))
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

/// The URL, where what is there answers a POST as Streamable HTTP does: with a message, be it that it wants a session.
pub(super) async fn streamable(url: &Url, tls: &rustls::ClientConfig, within: Duration) -> Option<String> {
    let client = client(url, tls, within)?;
    let mut response = client
        .post(url.clone())
        .header(header::ACCEPT, "application/json, text/event-stream")
        .header(header::CONTENT_TYPE, "application/json")
        .body(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
        .send()
        .await
        .ok()?;
    // Some say so in their own words.
    let refused = response.status() == 400;
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(piece)) = response.chunk().await {
            body.extend_from_slice(&piece[..piece.len().min(ANSWER - body.len())]);
            if body.len() == ANSWER {
                break;
            }
        }
    };
    // An event stream may go on.
    let _ = timeout(PATIENCE.min(within), read).await;
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

/// It sends nothing of the user's, follows nothing and keeps nothing.
fn client(url: &Url, tls: &rustls::ClientConfig, within: Duration) -> Option<Client> {
    let mut client = Client::builder();
    if Proxy::to(url).is_none() {
        client = client.no_proxy();
    }
    client
        .tls_backend_preconfigured(tls.clone())
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .connect_timeout(within.min(PATIENCE))
        .timeout(PATIENCE)
        .build()
        .ok()
}
