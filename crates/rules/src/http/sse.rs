//! The HTTP+SSE of 2024-11-05: a stream that GET opens, and the endpoint that it names for our messages.
//!
//! <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>

use mcpjoin_proto::http::origin::resolve_same_origin;

use super::{each_line, is_let_in, probed};
use crate::exchange::Exchange;
use crate::rule::{Evidence, Source};
use crate::trace::Probe;

pub(crate) const PAGE: &str =
    "https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse";
/// A server may agree on a later version than the one that has this transport.
const DEMANDED: &[Source] = sources![LEGACY Must PAGE];
const ADVISED: &[Source] = sources![LEGACY Advice PAGE];
const NO_STREAM: &str = "no stream was opened";

rules! {
    pub(crate) RULES for Server in Chapter::HttpSse;

    "sse-origin-validated", DEMANDED,
        "A request that comes from a page of another origin is refused.",
        |view| probed(view, &[Probe::ForeignOrigin], "no request came from another origin", is_let_in);
    "sse-endpoint-first", DEMANDED,
        "A GET opens a stream, and its first event is named endpoint and holds the address for messages.",
        |view| probed(view, &[Probe::OpenStream], NO_STREAM, |exchange| {
            if !exchange.is_stream() {
                return Some(exchange.finding(format_args!("no stream was opened: {}", exchange.outcome())));
            }
            match exchange.events.first() {
                None => Some(exchange.finding("no event came")),
                Some(event) if event.name.as_deref() != Some(b"endpoint") => {
                    Some(exchange.finding("another event came first"))
                }
                Some(event) => exchange.finding_if(event.data.is_empty(), "the event endpoint is empty"),
            }
        });
    "sse-endpoint-here", ADVISED,
        "The address for messages has the origin of the stream: a client sends its messages nowhere else.",
        else NO_STREAM,
        |view| view.exchanges.values().filter_map(|exchange| {
            let address = endpoint(exchange)?;
            let resolved = resolve_same_origin(&exchange.request.url, &address);
            Some(resolved.err().map(|why| exchange.finding(format_args!("{address:?}: {why}"))))
        });
    "sse-post-accepted", ADVISED,
        "A message that is posted there is accepted with a status from 200 to 299.",
        else "no message was posted",
        |view| {
            let refusable = [Probe::ForeignOrigin, Probe::AfterStream, Probe::StrayAnswer];
            let posts = view.exchanges.values().filter(move |exchange| {
                let has_message = exchange.has_request() || exchange.needs_no_response();
                exchange.is("POST") && has_message && !refusable.contains(&exchange.probe)
            });
            posts.map(|exchange| (!exchange.is_success()).then(|| exchange.finding(exchange.outcome())))
        };
    "sse-answers-on-stream", DEMANDED,
        "Messages of the server come on the stream, and not in what a POST is answered with.",
        else "no message was posted",
        |view| view.exchanges.values().filter(|it| it.is("POST") && it.is_success()).map(|exchange| {
            let (line, _) = exchange.lines.first()?;
            Some(exchange.finding_in("a message came with the response", line))
        });
    "sse-events-named", DEMANDED,
        "The events that hold the server's messages are named message.",
        else "the server sent no message",
        |view| view.exchanges.values().filter(|exchange| exchange.is("GET")).flat_map(|exchange| {
            exchange.lines.iter().map(move |(line, name)| {
                let name = name.filter(|name| **name != "message")?;
                let problem = format!("the event is named {:?}", String::from_utf8_lossy(name));
                Some(exchange.finding_in(problem, line))
            })
        });
    "sse-data-is-message", DEMANDED,
        "The data of each event that is named message is a message, in JSON.",
        each_line;
    "sse-session-ends", ADVISED,
        "The session ends with its stream: what is posted afterwards is refused.",
        |view| probed(view, &[Probe::AfterStream], "nothing was posted after the stream", is_let_in);
}

/// The address that a stream names.
fn endpoint(exchange: &Exchange<'_>) -> Option<String> {
    let first = exchange.events.first().filter(|event| event.name.as_deref() == Some(b"endpoint"))?;
    (!first.data.is_empty()).then(|| String::from_utf8_lossy(&first.data).into_owned())
}
