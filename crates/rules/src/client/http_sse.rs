//! HTTP+SSE, the transport of 2024-11-05, as a client uses it.

use bytes::Bytes;

use crate::rule::Outcome;
use crate::trace::What;

const PAGE: &str = "https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse";

rules! {
    pub(crate) RULES for Client in Chapter::HttpSse;

    "client-posts-to-endpoint", [FIRST Must "basic/transports#http-with-sse", LEGACY_SINCE_SECOND Must PAGE],
        "A client posts its messages to the address that the event endpoint has named.",
        |view| {
            let events = view.run.events.iter().enumerate();
            let mut named = events.filter_map(|(place, event)| match &event.what {
                What::Streamed(event) if event.name.as_deref() == Some(b"endpoint") => {
                    Some((place, &event.data))
                }
                _ => None,
            });
            let Some((place, endpoint)) = named.next() else {
                return Outcome::Skipped("the client was told no endpoint");
            };
            let posts = view.exchanges.values().filter(|post| post.is("POST") && post.place > place);
            let findings = posts.map(|post| {
                let good = target(post.request.url.as_bytes()) == target(endpoint);
                (!good).then(|| {
                    let wanted = String::from_utf8_lossy(endpoint).into_owned();
                    post.finding(format!("the endpoint is {wanted}"))
                })
            });
            Outcome::of(findings, "the client posted nothing")
        };
}

/// The path and the query of an address.
fn target(address: &[u8]) -> Bytes {
    let host = address.windows(3).position(|three| three == b"://").map(|start| start + 3);
    let path = host.map_or(Some(0), |host| {
        address[host..].iter().position(|byte| *byte == b'/').map(|path| host + path)
    });
    path.map_or_else(Bytes::new, |path| Bytes::copy_from_slice(&address[path..]))
}
