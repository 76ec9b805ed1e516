//! An event stream: its messages, and what is needed to resume it.
//!
//! Read by `response_stream`, `session_stream` and `http_sse`.
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html>

use std::collections::hash_map::RandomState;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderValue;
use mcpjoin_proto::codec::sse::{Event, SseDecoder, SseEvent, clamp_retry};
use mcpjoin_proto::session::{Inbound, Origin};
use mcpjoin_proto::{DecodeLimits, RequestId};

use super::body::{decode_message, too_long};
use super::response_error::{excerpt, readable};
use super::seen_events::{EventKey, SeenIds};
use crate::http::{Response, root};

/// The delay before a reconnection, unless the server sets another one.
const DEFAULT_RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// What every message contains, near its beginning as servers write it.
const JSONRPC: &[u8] = b"\"jsonrpc\"";

/// The next item of an event stream.
pub(super) enum StreamItem {
    /// A message, or something that should be one, with the key of its event if that has an id.
    Inbound(Inbound, Option<EventKey>),
    /// An event of another name than `message`.
    Other(Event),
    /// The body is complete.
    Ended,
    /// The body broke off, described for people.
    Broken(String),
}

/// An event stream, which may consist of several bodies, one after the other.
pub(super) struct EventStream<'a> {
    decoder: SseDecoder,
    event_hash: &'a RandomState,
    limit: usize,
    /// The id of the last event, if the stream can be resumed after it.
    last: Option<HeaderValue>,
    retry: Duration,
    seen: SeenIds,
    /// This body continues another one: an event with a known id is a repetition.
    resumed: bool,
    /// A new event has arrived since [`EventStream::next_body`].
    pub(super) has_new_events: bool,
    /// An event has arrived, in whatever body.
    has_events: bool,
    /// The name of the last event that is not called `message`, although its data is one.
    other_name: Option<String>,
    /// This body ended within an event.
    is_unfinished: bool,
    /// Bytes that have arrived since the last complete event.
    incomplete_bytes: usize,
}

impl<'a> EventStream<'a> {
    /// `limit`: bytes of one event. `event_hash`: the hash of the keys of the session's events.
    pub(super) fn new(limit: usize, event_hash: &'a RandomState) -> Self {
        Self {
            decoder: SseDecoder::new(limit),
            event_hash,
            limit,
            last: None,
            retry: DEFAULT_RECONNECT_DELAY,
            seen: SeenIds::default(),
            resumed: false,
            has_new_events: false,
            has_events: false,
            other_name: None,
            is_unfinished: false,
            incomplete_bytes: 0,
        }
    }

    /// Bytes that have arrived since the last complete event or comment: a stream on which they grow is not silent.
    pub(super) const fn incomplete_bytes(&self) -> usize {
        self.incomplete_bytes
    }

    /// Whether an event has arrived, with data or without.
    pub(super) const fn has_events(&self) -> bool {
        self.has_events
    }

    /// Why the last event of this body, which is complete, was not read as a message.
    pub(super) fn unread_event(&self) -> Option<String> {
        if self.is_unfinished {
            return Some("its last event has no empty line at its end".to_owned());
        }
        let name = self.other_name.as_ref()?;
        Some(format!("its last event has the name `{name}`, and messages have the name `message` or none"))
    }

    /// A line of this body that does not belong into an event stream.
    pub(super) fn unknown_line(&self) -> Option<&[u8]> {
        self.decoder.unknown_line()
    }

    /// Whether this body continues another one.
    pub(super) const fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// The value of `Last-Event-ID`; `None` if the stream cannot be resumed.
    pub(super) const fn last(&self) -> Option<&HeaderValue> {
        self.last.as_ref()
    }

    /// The delay before a reconnection.
    pub(super) const fn retry(&self) -> Duration {
        self.retry
    }

    /// Continues with another body. An incomplete event of the body before is dropped.
    pub(super) fn next_body(&mut self) {
        self.decoder = SseDecoder::new(self.limit);
        self.resumed = true;
        self.has_new_events = false;
        self.is_unfinished = false;
        self.incomplete_bytes = 0;
    }

    /// Reads the next item. `pending`: the request whose response is expected on the stream.
    pub(super) async fn next(
        &mut self,
        response: &mut Response,
        limits: &DecodeLimits,
        origin: &Arc<Origin>,
        pending: Option<&RequestId>,
    ) -> StreamItem {
        loop {
            while let Some(event) = self.decoder.poll_event() {
                self.incomplete_bytes = 0;
                match event {
                    SseEvent::Event(event) => {
                        self.has_events = true;
                        if !self.record_id(event.id.as_ref()) || event.data.is_empty() {
                            continue;
                        }
                        self.has_new_events = true;
                        if let Some(name) = event.name.as_ref().filter(|name| *name != "message") {
                            let looks_like_message =
                                excerpt(&event.data).windows(JSONRPC.len()).any(|part| part == JSONRPC);
                            self.other_name = looks_like_message.then(|| readable(excerpt(name)));
                            return StreamItem::Other(event);
                        }
                        let key = self.key(event.id.as_ref(), &event.data);
                        return StreamItem::Inbound(
                            decode_message(&event.data, limits, origin, pending),
                            key,
                        );
                    }
                    SseEvent::TooLong { head, id } => {
                        (self.has_events, self.has_new_events) = (true, true);
                        if self.record_id(id.as_ref()) {
                            let length = self.limit.saturating_add(1);
                            let key = self.key(id.as_ref(), &head);
                            return StreamItem::Inbound(
                                too_long(&head, self.limit, length, origin, pending),
                                key,
                            );
                        }
                    }
                    SseEvent::Id(id) => {
                        self.has_events = true;
                        self.record_id(Some(&id));
                    }
                    SseEvent::Retry(milliseconds) => self.retry = clamp_retry(milliseconds),
                    SseEvent::Comment | SseEvent::Unfinished(_) => {}
                }
            }
            match response.chunk().await {
                Ok(Some(chunk)) => {
                    self.incomplete_bytes = self.incomplete_bytes.saturating_add(chunk.len());
                    self.decoder.push(chunk);
                }
                Ok(None) => {
                    self.decoder.finish();
                    let rest = self.decoder.poll_event();
                    self.is_unfinished =
                        matches!(rest, Some(SseEvent::Unfinished(event)) if !event.data.is_empty());
                    return StreamItem::Ended;
                }
                Err(error) => return StreamItem::Broken(root(&error)),
            }
        }
    }

    /// The key of an event in its session.
    fn key(&self, id: Option<&Bytes>, data: &[u8]) -> Option<EventKey> {
        let id = id.filter(|id| !id.is_empty())?;
        Some(EventKey::new(self.event_hash, id, data, self.resumed))
    }

    /// Records the id of an event. Returns whether the event is new.
    fn record_id(&mut self, id: Option<&Bytes>) -> bool {
        let Some(id) = id else { return true };
        if id.is_empty() {
            self.last = None;
            return true;
        }
        let new = self.seen.insert(id) || !self.resumed;
        if new {
            self.has_new_events = true;
            // An id that no header can carry cannot be sent back.
            self.last = HeaderValue::from_bytes(id).ok();
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use http::header;

    use super::super::body::{answers, read_reply};
    use super::*;
    use crate::transport::Link;

    fn stream(body: impl Into<Bytes>) -> Response {
        let response = http::Response::builder().header(header::CONTENT_TYPE, "text/event-stream");
        response.body(body.into()).expect("a response").into()
    }

    #[tokio::test]
    async fn a_reply_is_what_settles_its_request_whatever_comes_before_it() {
        let link = Link::http("http://127.0.0.1:1/").link().expect("a URL");
        let id = RequestId::from("a");
        let others = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n\
            data: {\"jsonrpc\":\"2.0\",\"id\":\"b\",\"result\":{}}\n\n";
        assert!(read_reply(&link.requester, stream(others), &id).await.is_none());
        let all = format!("{others}data: {{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{{}}}}\n\n");
        let found = read_reply(&link.requester, stream(all), &id).await.expect("a reply");
        assert!(answers(&found, &id), "{found:?}");
    }

    #[tokio::test]
    async fn an_event_that_comes_again_in_the_body_that_continues_is_nothing_new() {
        let requester = Link::http("http://127.0.0.1:1/").link().expect("a URL").requester;
        let mut events = EventStream::new(1000, &requester.event_hash);
        let mut body = stream("id: 1\ndata: {}\n\nid: 2\ndata: {}\n\n");
        for _ in 0..2 {
            let next = events.next(&mut body, &requester.limits.decode, &requester.origin, None).await;
            assert!(matches!(next, StreamItem::Inbound(..)));
        }
        events.next_body();
        let mut body = stream("id: 1\ndata: {}\n\n");
        let next = events.next(&mut body, &requester.limits.decode, &requester.origin, None).await;
        assert!(matches!(next, StreamItem::Ended) && !events.has_new_events);
        assert_eq!(events.last(), Some(&HeaderValue::from_static("2")), "the place is kept");
    }
}
