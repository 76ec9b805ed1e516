//! HTTP+SSE of 2024-11-05: one stream for all messages of the server, whose first event names the URL to post to.
//!
//! Started by the transport if its builder says so, or if the server has no POST of `initialize`. The end of the stream is
//! the end of the session. <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::{HeaderMap, HeaderValue};
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::{MediaType, OriginError, resolve_same_origin};
use mcpjoin_proto::session::{TransportEnd, TransportError, TransportErrorReason};
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::body::compressed;
use super::event_stream::{EventStream, StreamItem};
use super::exchange_event::ExchangeEvent;
use super::requester::{HttpRequest, Requester, media_type};
use super::response_error;

/// A longer timeout of the endpoint is none: thirty years.
const NO_LIMIT: Duration = Duration::from_secs(30 * 365 * 86_400);

/// Reads the stream to its end.
pub(super) async fn listen(requester: Arc<Requester>, reports: Sender<ExchangeEvent>) {
    let mut headers = HeaderMap::new();
    headers.insert(name::ACCEPT, HeaderValue::from_static("text/event-stream"));
    let http_request =
        HttpRequest { headers, ..requester.request(Method::GET, "the event stream of HTTP+SSE") };
    let last = match read(&requester, &http_request, &reports).await {
        Ok(()) => return,
        Err(last) => last,
    };
    let _ = reports.send(last).await;
}

/// Returns the last report. `Ok`: the transport was dropped.
async fn read(
    requester: &Requester,
    http_request: &HttpRequest,
    reports: &Sender<ExchangeEvent>,
) -> Result<(), ExchangeEvent> {
    let limits = &requester.limits;
    // No instant is later by `Duration::MAX`, with which programs say that there is no limit.
    let until = Instant::now() + limits.initialize.min(NO_LIMIT);
    let late = |what: &str| {
        let what = format!("{what} within {} ms", limits.initialize.as_millis());
        ExchangeEvent::HttpSseFailed(http_request.error(what, true))
    };
    let opened = timeout_at(until, requester.send(http_request)).await.map_err(|_| late("no response"))?;
    let mut response = opened.map_err(|failure| ExchangeEvent::HttpSseFailed(failure.error))?;
    let stream = response.status().is_success() && media_type(&response) == MediaType::EventStream;
    if !stream {
        let status = response.status();
        let page = response_error::read_page(response).await;
        let cause = response_error::by_status(http_request.error(&page.text, false), status);
        let cause = page.explain(cause);
        return Err(ExchangeEvent::HttpSseFailed(cause));
    }
    if let Some(what) = compressed(&response) {
        let cause = http_request.error(what, false).because(TransportErrorReason::ContentEncoding);
        return Err(ExchangeEvent::HttpSseFailed(cause));
    }
    let mut events = EventStream::new(limits.message, &requester.event_hash);
    let mut post_url = None;
    loop {
        let next = events.next(&mut response, &limits.decode, &requester.origin, None);
        let next = match post_url {
            None => timeout_at(until, next).await.map_err(|_| late("the stream named no endpoint"))?,
            Some(_) => next.await,
        };
        let report = match next {
            StreamItem::Other(event) if event.name.as_deref() == Some(b"endpoint") && post_url.is_none() => {
                let url = endpoint(requester, &event.data)
                    .map_err(|what| ExchangeEvent::HttpSseFailed(http_request.error(what, false)))?;
                post_url = Some(url.clone());
                ExchangeEvent::HttpSseEndpoint(url)
            }
            // A second endpoint would move the session; the specification does not allow that.
            StreamItem::Other(_) => continue,
            StreamItem::Inbound(inbound, _) => ExchangeEvent::Message(inbound),
            StreamItem::Ended | StreamItem::Broken(_) if post_url.is_none() => {
                let what = "the stream ended before it named an endpoint";
                return Err(ExchangeEvent::HttpSseFailed(http_request.error(what, true)));
            }
            StreamItem::Ended => {
                return Err(ended(
                    http_request.error("the server ended the event stream, and with it the session", true),
                ));
            }
            StreamItem::Broken(error) => {
                return Err(ended(http_request.error(format!("the event stream broke: {error}"), true)));
            }
        };
        if reports.send(report).await.is_err() {
            return Ok(());
        }
    }
}

fn ended(cause: TransportError) -> ExchangeEvent {
    ExchangeEvent::Closed(TransportEnd::failed(cause))
}

/// The URL to post to, which must have the origin of the stream.
fn endpoint(requester: &Requester, data: &[u8]) -> Result<Url, String> {
    let shown = response_error::readable(&data[..data.len().min(response_error::MAX_EXCERPT_BYTES)]);
    let text = std::str::from_utf8(data).map_err(|_| format!("the endpoint `{shown}` is not UTF-8"))?;
    let url =
        resolve_same_origin(requester.url.as_str(), text.trim_matches([' ', '\t'])).map_err(|error| {
            match error {
                OriginError::OtherOrigin => {
                    format!("the endpoint `{shown}` has another origin: rejected, nothing was sent there")
                }
                error => format!("the endpoint `{shown}` cannot be used: {error}"),
            }
        })?;
    Url::parse(&url).map_err(|error| format!("the endpoint `{shown}` is not a URL: {error}"))
}

/// The error if neither transport of the specification reaches the server.
pub(super) fn both_failed(streamable: &TransportError, sse: &TransportError) -> TransportError {
    let mut both = streamable.clone();
    both.message = format!("{}; and as HTTP+SSE: {}", streamable.message, sse.message);
    both.retryable |= sse.retryable;
    both
}
