//! HTTP+SSE, the transport of 2024-11-05, as a client uses it.

use bytes::Bytes;

use crate::revisions::Revisions;
use crate::rule::Level::Must;
use crate::rule::{Chapter, Outcome, Rule, Source};
use crate::seen::Seen;
use crate::trace::What;

const PAGE: &str = "https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse";

pub(super) static RULES: [Rule; 1] = [Rule {
    slug: "client-posts-to-endpoint",
    chapter: Chapter::HttpSse,
    sentence: "A client posts its messages to the address that the event endpoint has named.",
    sources: &[
        Source::new(Revisions::FIRST, Must, "basic/transports#http-with-sse"),
        // The transport is what it was, whatever is spoken over it.
        Source::new(Revisions::LEGACY_SINCE_SECOND, Must, PAGE),
    ],
    judge: |seen: &Seen<'_>| {
        let talk = seen.talk();
        let events = seen.run.events.iter().enumerate();
        let mut named = events.filter_map(|(place, event)| match &event.what {
            What::Streamed(event) if event.name.as_deref() == Some(b"endpoint") => Some((place, &event.data)),
            _ => None,
        });
        let Some((place, endpoint)) = named.next() else {
            return Outcome::Skipped("the client was told no endpoint");
        };
        let posts = talk.posts.values().filter(|post| post.is("POST") && post.place > place);
        let judged = posts.map(|post| {
            let good = target(post.request.url.as_bytes()) == target(endpoint);
            (!good).then(|| {
                let wanted = String::from_utf8_lossy(endpoint).into_owned();
                post.finding(format!("the endpoint is {wanted}"))
            })
        });
        Outcome::of(judged, "the client posted nothing")
    },
}];

/// The path and the query of an address.
fn target(address: &[u8]) -> Bytes {
    let host = address.windows(3).position(|three| three == b"://").map(|start| start + 3);
    let path = host.map_or(Some(0), |host| {
        address[host..].iter().position(|byte| *byte == b'/').map(|path| host + path)
    });
    path.map_or_else(Bytes::new, |path| Bytes::copy_from_slice(&address[path..]))
}
