//! The HTTP+SSE of 2024-11-05: a stream that GET opens, and an endpoint that it names for what we send.
//!
//! <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>

use mcpjoin_proto::http::origin::resolve_same_origin;

use super::guard::let_in;
use super::{each_line, probed};
use crate::exchange::Exchange;
use crate::revisions::Revisions;
use crate::rule::Level::{Advice, Must};
use crate::rule::{Chapter, Outcome, Rule, Source};
use crate::trace::Probe;

const PAGE: &str = "https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse";
/// A server may agree on a later version than the one that has this transport.
const DEMANDED: &[Source] = &[Source::new(Revisions::LEGACY, Must, PAGE)];
const ADVISED: &[Source] = &[Source::new(Revisions::LEGACY, Advice, PAGE)];
const NO_STREAM: &str = "no stream was opened";

pub(super) static RULES: [Rule; 8] = [
    Rule {
        slug: "sse-origin-validated",
        chapter: Chapter::HttpSse,
        sentence: "A request that comes from a page of another origin is refused.",
        sources: DEMANDED,
        judge: |seen| probed(seen, &[Probe::ForeignOrigin], "no request came from another origin", let_in),
    },
    Rule {
        slug: "sse-endpoint-first",
        chapter: Chapter::HttpSse,
        sentence: "A GET opens a stream, and its first event is named endpoint and holds the address for messages.",
        sources: DEMANDED,
        judge: |seen| {
            probed(seen, &[Probe::OpenStream], NO_STREAM, |exchange| {
                if !exchange.is_stream() {
                    return Some(exchange.finding(format!("no stream was opened: {}", exchange.outcome())));
                }
                let problem = match exchange.events.first() {
                    None => "no event came",
                    Some(event) if event.name.as_deref() != Some(b"endpoint") => "another event came first",
                    Some(event) if event.data.is_empty() => "the event endpoint is empty",
                    Some(_) => return None,
                };
                Some(exchange.finding(problem))
            })
        },
    },
    Rule {
        slug: "sse-endpoint-here",
        chapter: Chapter::HttpSse,
        sentence: "The address for messages has the origin of the stream: a client sends its messages nowhere else.",
        sources: ADVISED,
        judge: |seen| {
            let judged = seen.exchanges.values().filter_map(|exchange| {
                let address = endpoint(exchange)?;
                let resolved = resolve_same_origin(&exchange.request.url, &address);
                Some(resolved.err().map(|why| exchange.finding(format!("{address:?}: {why}"))))
            });
            Outcome::of(judged, NO_STREAM)
        },
    },
    Rule {
        slug: "sse-post-accepted",
        chapter: Chapter::HttpSse,
        sentence: "A message that is posted there is accepted with a status from 200 to 299.",
        sources: ADVISED,
        judge: |seen| {
            let posts = seen.exchanges.values().filter(|exchange| {
                exchange.is("POST")
                    && (exchange.asked().next().is_some() || exchange.only_tells())
                    && !matches!(
                        exchange.probe,
                        Probe::ForeignOrigin | Probe::AfterStream | Probe::StrayAnswer
                    )
            });
            let judged =
                posts.map(|exchange| (!exchange.is_success()).then(|| exchange.finding(exchange.outcome())));
            Outcome::of(judged, "no message was posted")
        },
    },
    Rule {
        slug: "sse-answers-on-stream",
        chapter: Chapter::HttpSse,
        sentence: "Messages of the server come on the stream, and not in what a POST is answered with.",
        sources: DEMANDED,
        judge: |seen| {
            let posts =
                seen.exchanges.values().filter(|exchange| exchange.is("POST") && exchange.is_success());
            let judged = posts.map(|exchange| {
                let (line, _) = exchange.lines.first()?;
                Some(exchange.finding_in("a message came with the response", line))
            });
            Outcome::of(judged, "no message was posted")
        },
    },
    Rule {
        slug: "sse-events-named",
        chapter: Chapter::HttpSse,
        sentence: "The events that hold the server's messages are named message.",
        sources: DEMANDED,
        judge: |seen| {
            let judged = seen.exchanges.values().filter(|exchange| exchange.is("GET")).flat_map(|exchange| {
                exchange.lines.iter().map(move |(line, name)| {
                    let name = name.filter(|name| **name != "message")?;
                    let problem = format!("the event is named {:?}", String::from_utf8_lossy(name));
                    Some(exchange.finding_in(problem, line))
                })
            });
            Outcome::of(judged, "the server sent no message")
        },
    },
    Rule {
        slug: "sse-data-is-message",
        chapter: Chapter::HttpSse,
        sentence: "The data of each event that is named message is a message, in JSON.",
        sources: DEMANDED,
        judge: each_line,
    },
    Rule {
        slug: "sse-session-ends",
        chapter: Chapter::HttpSse,
        sentence: "The session ends with its stream: what is posted afterwards is refused.",
        sources: ADVISED,
        judge: |seen| probed(seen, &[Probe::AfterStream], "nothing was posted after the stream", let_in),
    },
];

/// The address that a stream names.
fn endpoint(exchange: &Exchange<'_>) -> Option<String> {
    let first = exchange.events.first().filter(|event| event.name.as_deref() == Some(b"endpoint"))?;
    (!first.data.is_empty()).then(|| String::from_utf8_lossy(&first.data).into_owned())
}
