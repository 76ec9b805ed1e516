//! HTTP+SSE of 2024-11-05: one stream for everything that the server says, which begins with where to post.
//!
//! Run by the link, when it was told to or when the server knows no POST of `initialize`. The end of the stream is the
//! end of the session. <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>

use std::sync::Arc;

use http::Method;
use http::header::{HeaderMap, HeaderValue};
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::{MediaType, OriginError, resolve_same_origin};
use mcpjoin_proto::session::{LinkEnd, LinkError};
use reqwest::Url;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, timeout_at};

use super::exchange::News;
use super::failure;
use super::reading::{Events, Next, compressed};
use super::wire::{Sending, Wire, media_type};

/// Reads the stream to its end.
pub(super) async fn listen(wire: Arc<Wire>, news: Sender<News>) {
    let mut headers = HeaderMap::new();
    headers.insert(name::ACCEPT, HeaderValue::from_static("text/event-stream"));
    let sending = Sending { headers, ..wire.sending(Method::GET, "the event stream of HTTP+SSE") };
    let last = match read(&wire, &sending, &news).await {
        Ok(()) => return,
        Err(last) => last,
    };
    let _ = news.send(last).await;
}

/// Says what is to be told last. `Ok`: nobody listens any more.
async fn read(wire: &Wire, sending: &Sending, news: &Sender<News>) -> Result<(), News> {
    let limits = &wire.limits;
    let until = Instant::now() + limits.initialize;
    let late = |what: &str| {
        let what = format!("{what} within {} ms", limits.initialize.as_millis());
        News::NoHttpSse(sending.error(what, true))
    };
    let opened = timeout_at(until, wire.send(sending)).await.map_err(|_| late("no response"))?;
    let mut response = opened.map_err(|unanswered| News::NoHttpSse(unanswered.error))?;
    let stream = response.status().is_success() && media_type(&response) == MediaType::EventStream;
    if !stream {
        let status = response.status();
        let what = failure::page(response).await;
        return Err(News::NoHttpSse(sending.error(what, false).of(failure::kind(status))));
    }
    if let Some(what) = compressed(&response) {
        return Err(News::NoHttpSse(sending.error(what, false)));
    }
    let mut events = Events::new(limits.message, &wire.marks);
    let mut posts_to = None;
    loop {
        let next = events.next(&mut response, &limits.decode, &wire.origin, None);
        let next = match posts_to {
            None => timeout_at(until, next).await.map_err(|_| late("the stream named no endpoint"))?,
            Some(_) => next.await,
        };
        let told = match next {
            Next::Other(event) if event.name.as_deref() == Some(b"endpoint") && posts_to.is_none() => {
                let url = endpoint(wire, &event.data)
                    .map_err(|what| News::NoHttpSse(sending.error(what, false)))?;
                posts_to = Some(url.clone());
                News::Endpoint(url)
            }
            // A second endpoint would move the session in the middle; nothing in the specification allows that.
            Next::Other(_) => continue,
            Next::Inbound(inbound, _) => News::Came(inbound),
            Next::Ended | Next::Broke(_) if posts_to.is_none() => {
                let what = "the stream ended before it named an endpoint";
                return Err(News::NoHttpSse(sending.error(what, true)));
            }
            Next::Ended => {
                return Err(ended(
                    sending.error("the server ended the event stream, and with it the session", true),
                ));
            }
            Next::Broke(error) => {
                return Err(ended(sending.error(format!("the event stream broke: {error}"), true)));
            }
        };
        if news.send(told).await.is_err() {
            return Ok(());
        }
    }
}

fn ended(cause: LinkError) -> News {
    News::Ended(LinkEnd::failed(cause))
}

/// Where to post, which is of one origin with the stream.
fn endpoint(wire: &Wire, data: &[u8]) -> Result<Url, String> {
    let shown = failure::readable(&data[..data.len().min(failure::EXCERPT)]);
    let text = std::str::from_utf8(data).map_err(|_| format!("the endpoint `{shown}` is not UTF-8"))?;
    let url =
        resolve_same_origin(wire.url.as_str(), text.trim_matches([' ', '\t'])).map_err(
            |error| match error {
                OriginError::OtherOrigin => {
                    format!("the endpoint `{shown}` is of another origin: refused, nothing was sent there")
                }
                error => format!("the endpoint `{shown}` cannot be used: {error}"),
            },
        )?;
    Url::parse(&url).map_err(|error| format!("the endpoint `{shown}` is no URL: {error}"))
}

/// What to say when neither way leads to the server.
pub(super) fn both_failed(streamable: &LinkError, sse: &LinkError) -> LinkError {
    let message = format!("{}; and as HTTP+SSE: {}", streamable.message, sse.message);
    LinkError::new(message, streamable.retryable || sse.retryable).of(streamable.kind)
}
