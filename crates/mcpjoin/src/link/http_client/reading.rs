//! From the bytes of a body to what came in: JSON texts, and the events of a stream.
//!
//! Called by `exchange`, `listen` and `sse2024`. Bodies are read as they come, up to the limit of a message, and never
//! decompressed: nothing here asks for compression.

use std::collections::hash_map::RandomState;
use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Version;
use http::header::{self, HeaderValue};
use mcpjoin_proto::codec::salvage::{Salvaged, SalvagedKind, salvage};
use mcpjoin_proto::codec::sse::{Event, SseDecoder, SseEvent, clamp_retry};
use mcpjoin_proto::decode::{Decoded, Shape, decode};
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::session::{Inbound, Origin};
use mcpjoin_proto::{DecodeError, DecodeErrorKind, DecodeLimits, Message, RequestId, Response as Reply};
use reqwest::Response;

use super::failure::{self, EXCERPT};
use super::heard::Mark;
use super::wire::{Wire, media_type};

/// How much of a body that is too long is kept, to learn whose it was.
const HEAD: usize = 4 * 1024;
/// How many ids of events are remembered, so that none is taken twice.
const SEEN: usize = 4096;
/// The time to wait before a reconnection when the server has not said another one.
const RETRY: Duration = Duration::from_secs(1);

/// One text as what came in. `owed`: the request that this body answers; an error without an id is about it.
pub(super) fn read(
    text: &Bytes,
    limits: &DecodeLimits,
    origin: &Arc<Origin>,
    owed: Option<&RequestId>,
) -> Inbound {
    let origin = Arc::clone(origin);
    match decode(text, limits) {
        Ok(Decoded::Message(Message::Response(Reply { id: None, outcome }))) => {
            Inbound::Message { message: Message::Response(Reply { id: owed.cloned(), outcome }), origin }
        }
        Ok(Decoded::Message(message)) => Inbound::Message { message, origin },
        Ok(Decoded::Batch(parts)) => Inbound::Batch { parts, exchange: None, origin },
        Err(error) => Inbound::Malformed { error, excerpt: excerpt(text), origin },
    }
}

/// A text of which only the beginning was kept. `owed`: whose it is when the beginning does not tell.
pub(super) fn too_long(
    head: &[u8],
    limit: usize,
    length: usize,
    origin: &Arc<Origin>,
    owed: Option<&RequestId>,
) -> Inbound {
    let (id, shape) = match salvage(head) {
        Some(Salvaged { id, kind: SalvagedKind::Request }) => {
            let shape = if id.is_some() { Shape::Request } else { Shape::Unknown };
            (id, shape)
        }
        Some(Salvaged { id, .. }) => (id.or_else(|| owed.cloned()), Shape::Response),
        None => (owed.cloned(), Shape::Response),
    };
    let kind = DecodeErrorKind::TooLarge { limit, length };
    let error = DecodeError { kind, at: limit, id, shape, excerpt: Box::default() };
    Inbound::Malformed { error, excerpt: excerpt(head), origin: Arc::clone(origin) }
}

fn excerpt(text: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&text[..text.len().min(EXCERPT)])
}

/// Whether this settles a request: its response, also as a part of a batch, or something broken with its id.
pub(super) fn settles(inbound: &Inbound, owed: &RequestId) -> bool {
    let answers =
        |message: &Message| matches!(message, Message::Response(reply) if reply.id.as_ref() == Some(owed));
    let breaks = |error: &DecodeError| error.shape != Shape::Request && error.id.as_ref() == Some(owed);
    match inbound {
        Inbound::Message { message, .. } => answers(message),
        Inbound::Batch { parts, .. } => parts.iter().any(|part| match part {
            Ok(message) => answers(message),
            Err(error) => breaks(error),
        }),
        Inbound::Malformed { error, .. } => breaks(error),
        _ => false,
    }
}

/// The reply in a response, whatever form it has; what stands beside it is dropped. For what the link itself asks.
pub(super) async fn reply(wire: &Wire, mut response: Response, owed: &RequestId) -> Option<Inbound> {
    let limits = &wire.limits;
    if media_type(&response) != MediaType::EventStream {
        let Whole::Text(text) = whole(response, limits.message).await else { return None };
        let inbound = read(&text, &limits.decode, &wire.origin, Some(owed));
        return settles(&inbound, owed).then_some(inbound);
    }
    let mut events = Events::new(limits.message, &wire.marks);
    loop {
        match events.next(&mut response, &limits.decode, &wire.origin, Some(owed)).await {
            Next::Inbound(inbound, _) if settles(&inbound, owed) => return Some(inbound),
            Next::Inbound(..) | Next::Other(_) => {}
            Next::Ended | Next::Broke(_) => return None,
        }
    }
}

/// A body that was read.
pub(super) enum Whole {
    Text(Bytes),
    /// Longer than the limit: how it begins, and how much had come.
    TooLong {
        head: Bytes,
        length: usize,
    },
    /// It broke off.
    Broken(String),
    /// It is compressed.
    Compressed(String),
}

/// Reads a body up to a limit. One that comes in one piece is not copied.
pub(super) async fn whole(mut response: Response, limit: usize) -> Whole {
    if let Some(coding) = compressed(&response) {
        return Whole::Compressed(coding);
    }
    let mut first = Bytes::new();
    let mut text = BytesMut::new();
    loop {
        let chunk = match response.chunk().await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => break,
            Err(error) => return Whole::Broken(format!("the body broke off: {}", failure::root(&error))),
        };
        let length = first.len() + text.len() + chunk.len();
        if length > limit {
            let mut head = BytesMut::from(&first[..first.len().min(HEAD)]);
            for piece in [&text[..], &chunk[..]] {
                head.extend_from_slice(&piece[..piece.len().min(HEAD - head.len().min(HEAD))]);
            }
            return Whole::TooLong { head: head.freeze(), length };
        }
        if first.is_empty() && text.is_empty() {
            first = chunk;
            continue;
        }
        if text.is_empty() {
            let expected = response.content_length().and_then(|length| usize::try_from(length).ok());
            text.reserve(expected.unwrap_or(length).min(limit));
            text.extend_from_slice(&std::mem::take(&mut first));
        }
        text.extend_from_slice(&chunk);
    }
    Whole::Text(if text.is_empty() { first } else { text.freeze() })
}

/// Whether nothing but the end of its connection ends a body: one that is cut off looks like one that is whole
/// ([RFC 9112, 6.3](https://www.rfc-editor.org/rfc/rfc9112#section-6.3)).
pub(super) fn ends_with_connection(response: &Response) -> bool {
    let headers = response.headers();
    matches!(response.version(), Version::HTTP_09 | Version::HTTP_10 | Version::HTTP_11)
        && !headers.contains_key(header::CONTENT_LENGTH)
        && !headers.contains_key(header::TRANSFER_ENCODING)
}

/// What to say of a body that is compressed although nothing was asked to be.
pub(super) fn compressed(response: &Response) -> Option<String> {
    let coding = response.headers().get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes)?;
    let plain = coding.is_empty() || coding.eq_ignore_ascii_case(b"identity");
    let coding = &coding[..coding.len().min(40)];
    (!plain).then(|| format!("the body is compressed ({}), which was not asked for", coding.escape_ascii()))
}

/// What an event stream says next.
pub(super) enum Next {
    /// A message, or something that should be one, and by what its event is known where it has an id.
    Inbound(Inbound, Option<Mark>),
    /// An event of another name than `message`.
    Other(Event),
    /// The body has ended in order.
    Ended,
    /// It broke off.
    Broke(String),
}

/// An event stream that may come in several bodies, one after the other.
pub(super) struct Events<'a> {
    decoder: SseDecoder,
    marks: &'a RandomState,
    limit: usize,
    /// After which event to go on.
    last: Option<HeaderValue>,
    retry: Duration,
    seen: Seen,
    /// This body continues another one: an event that was seen is sent again.
    resumed: bool,
    /// Something new has come since [`Events::next_body`].
    pub(super) fruitful: bool,
    /// An event has come.
    any: bool,
    /// Bytes that have come since the last event that was whole.
    unfinished: usize,
}

impl<'a> Events<'a> {
    /// `marks`: what the events of one session are marked with.
    pub(super) fn new(limit: usize, marks: &'a RandomState) -> Self {
        Self {
            decoder: SseDecoder::new(limit),
            marks,
            limit,
            last: None,
            retry: RETRY,
            seen: Seen::default(),
            resumed: false,
            fruitful: false,
            any: false,
            unfinished: 0,
        }
    }

    /// Bytes that have come since the last event that was whole, or comment: what grows is not silent.
    pub(super) const fn unfinished(&self) -> usize {
        self.unfinished
    }

    /// Whether any event has come, with data or without.
    pub(super) const fn any(&self) -> bool {
        self.any
    }

    /// Whether this body continues another one.
    pub(super) const fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// The id of the last event: what `Last-Event-ID` is to say. `None` when the stream cannot be resumed.
    pub(super) const fn last(&self) -> Option<&HeaderValue> {
        self.last.as_ref()
    }

    /// How long to wait before a reconnection.
    pub(super) const fn retry(&self) -> Duration {
        self.retry
    }

    /// Another body continues the stream. What the one before left unfinished was never an event.
    pub(super) fn next_body(&mut self) {
        self.decoder = SseDecoder::new(self.limit);
        self.resumed = true;
        self.fruitful = false;
        self.unfinished = 0;
    }

    /// Reads on. `owed`: the request whose reply the stream is to bring.
    pub(super) async fn next(
        &mut self,
        response: &mut Response,
        limits: &DecodeLimits,
        origin: &Arc<Origin>,
        owed: Option<&RequestId>,
    ) -> Next {
        loop {
            while let Some(event) = self.decoder.poll_event() {
                self.unfinished = 0;
                match event {
                    SseEvent::Event(event) => {
                        self.any = true;
                        if !self.moved(event.id.as_ref()) || event.data.is_empty() {
                            continue;
                        }
                        self.fruitful = true;
                        if event.name.as_ref().is_some_and(|name| name != "message") {
                            return Next::Other(event);
                        }
                        let mark = self.mark(event.id.as_ref(), &event.data);
                        return Next::Inbound(read(&event.data, limits, origin, owed), mark);
                    }
                    SseEvent::TooLong { head, id } => {
                        (self.any, self.fruitful) = (true, true);
                        if self.moved(id.as_ref()) {
                            let length = self.limit.saturating_add(1);
                            let mark = self.mark(id.as_ref(), &head);
                            return Next::Inbound(too_long(&head, self.limit, length, origin, owed), mark);
                        }
                    }
                    SseEvent::Id(id) => {
                        self.any = true;
                        self.moved(Some(&id));
                    }
                    SseEvent::Retry(milliseconds) => self.retry = clamp_retry(milliseconds),
                    SseEvent::Comment | SseEvent::Unfinished(_) => {}
                }
            }
            match response.chunk().await {
                Ok(Some(chunk)) => {
                    self.unfinished = self.unfinished.saturating_add(chunk.len());
                    self.decoder.push(chunk);
                }
                Ok(None) => return Next::Ended,
                Err(error) => return Next::Broke(failure::root(&error)),
            }
        }
    }

    /// By what an event is known in its session.
    fn mark(&self, id: Option<&Bytes>, data: &[u8]) -> Option<Mark> {
        let id = id.filter(|id| !id.is_empty())?;
        Some(Mark::new(self.marks, id, data, self.resumed))
    }

    /// Notes the id of an event; says whether the event is new.
    fn moved(&mut self, id: Option<&Bytes>) -> bool {
        let Some(id) = id else { return true };
        if id.is_empty() {
            self.last = None;
            return true;
        }
        let new = self.seen.insert(id) || !self.resumed;
        if new {
            self.fruitful = true;
            // One that no header can carry cannot be resumed from.
            self.last = HeaderValue::from_bytes(id).ok();
        }
        new
    }
}

/// The last ids of events, as numbers.
#[derive(Default)]
struct Seen {
    state: RandomState,
    ids: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Seen {
    fn insert(&mut self, id: &[u8]) -> bool {
        let id = self.state.hash_one(id);
        if !self.ids.insert(id) {
            return false;
        }
        self.order.push_back(id);
        if self.order.len() > SEEN
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;

    #[test]
    fn the_newest_ids_of_events_are_remembered() {
        let mut seen = Seen::default();
        let mut insert = |id: usize| seen.insert(&id.to_le_bytes());
        assert!((0..SEEN).all(&mut insert));
        assert!(!insert(0), "as many as are remembered");
        assert!(insert(SEEN) && insert(0), "the oldest is forgotten");
        assert!((2..=SEEN).all(|id| !insert(id)));
        assert_eq!((seen.ids.len(), seen.order.len()), (SEEN, SEEN));
    }

    fn stream(body: impl Into<reqwest::Body>) -> Response {
        let response = http::Response::builder().header(header::CONTENT_TYPE, "text/event-stream");
        response.body(body).expect("a response").into()
    }

    #[tokio::test]
    async fn a_reply_is_what_settles_its_request_whatever_comes_before_it() {
        let link = Link::http("http://127.0.0.1:1/").link().expect("a URL");
        let id = RequestId::from("a");
        let others = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n\
            data: {\"jsonrpc\":\"2.0\",\"id\":\"b\",\"result\":{}}\n\n";
        assert!(reply(&link.wire, stream(others), &id).await.is_none());
        let all = format!("{others}data: {{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{{}}}}\n\n");
        let found = reply(&link.wire, stream(all), &id).await.expect("a reply");
        assert!(settles(&found, &id), "{found:?}");
    }

    #[tokio::test]
    async fn an_event_that_comes_again_in_the_body_that_continues_is_nothing_new() {
        let wire = Link::http("http://127.0.0.1:1/").link().expect("a URL").wire;
        let mut events = Events::new(1000, &wire.marks);
        let mut body = stream("id: 1\ndata: {}\n\nid: 2\ndata: {}\n\n");
        for _ in 0..2 {
            let next = events.next(&mut body, &wire.limits.decode, &wire.origin, None).await;
            assert!(matches!(next, Next::Inbound(..)));
        }
        events.next_body();
        let mut body = stream("id: 1\ndata: {}\n\n");
        let next = events.next(&mut body, &wire.limits.decode, &wire.origin, None).await;
        assert!(matches!(next, Next::Ended) && !events.fruitful);
        assert_eq!(events.last(), Some(&HeaderValue::from_static("2")), "the place is kept");
    }
}
