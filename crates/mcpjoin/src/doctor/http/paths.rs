//! Where else on a server its MCP might be, when it is not where it was looked for.
//!
//! Called by the examination over HTTP. The usual paths are asked for with a GET without a body and without a header of the
//! user's, at the same origin alone; nothing of what comes back is read but its head.

use std::time::Duration;

use futures_util::future::join_all;
use http::header;
use reqwest::{Client, Url};

use crate::link::{Proxy, shown};

/// Where servers mostly are. Those of HTTP+SSE have `/sse`.
const USUAL: [&str; 4] = ["/mcp", "/sse", "/mcp/", "/"];
/// How long they have to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// What to do: the URL at which something answers as an MCP server would. `None`: at none of them. `guarded`: the server
/// wants to know who asks wherever it is asked, so that a 401 says nothing of a path.
pub(super) async fn elsewhere(
    url: &Url,
    tls: &rustls::ClientConfig,
    within: Duration,
    guarded: bool,
) -> Option<String> {
    let mut client = Client::builder();
    if Proxy::to(url).is_none() {
        client = client.no_proxy();
    }
    let client = client
        .tls_backend_preconfigured(tls.clone())
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .connect_timeout(within.min(PATIENCE))
        .timeout(PATIENCE)
        .build()
        .ok()?;
    let asked = USUAL.iter().filter(|path| **path != url.path()).map(|path| {
        let (client, mut there) = (client.clone(), url.clone());
        there.set_path(path);
        there.set_query(None);
        async move {
            let request = client.get(there.clone()).header(header::ACCEPT, "text/event-stream");
            let response = request.send().await.ok()?;
            let streams = response
                .headers()
                .get(header::CONTENT_TYPE)
                .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
            match response.status().as_u16() {
                200 if streams && path.starts_with("/sse") => {
                    Some(format!("write sse+{}: an event stream answers there", shown(&there)))
                }
                200 if streams => Some(format!("write {}: an event stream answers there", shown(&there))),
                401 if guarded => None,
                // What Streamable HTTP says to a GET without a session.
                status @ (400 | 401 | 405 | 406) => Some(format!(
                    "write {}: it answers there as an MCP server would ({status})",
                    shown(&there)
                )),
                _ => None,
            }
        }
    });
    join_all(asked).await.into_iter().flatten().next()
}
