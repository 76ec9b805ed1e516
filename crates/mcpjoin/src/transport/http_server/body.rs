//! Bodies: of requests, read completely and within limits, and of responses, sent as they are produced.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use mcpjoin_proto::codec::sse::write_comment;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::exchange::Exchange;
use super::memory::{Account, Charge, Full, Traffic};
use super::passing::PassedBody;
use super::unread_body::IncomingBody;

/// The body of a request.
///
/// One type for all servers, so that what answers a request is compiled and optimized once, in this crate.
pub(super) enum RequestBody {
    Incoming(IncomingBody),
    /// Of another program's server.
    Foreign(UnsyncBoxBody<Bytes, Broken>),
}

/// A body that could not be read.
pub(super) struct Broken;

impl RequestBody {
    pub(super) fn foreign(body: impl Body<Data = Bytes> + Send + 'static) -> Self {
        Self::Foreign(body.map_err(|_| Broken).boxed_unsync())
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.get_mut() {
            Self::Incoming(body) => Pin::new(body).poll_frame(cx).map_err(|_| Broken),
            Self::Foreign(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Incoming(body) => body.is_end_stream(),
            Self::Foreign(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Incoming(body) => body.size_hint(),
            Self::Foreign(body) => body.size_hint(),
        }
    }
}

/// The body of a response: empty, one JSON text, or an event stream.
///
/// Dropping it before its end tells the connection that the client has disconnected.
pub struct HttpBody(Kind);

enum Kind {
    Whole(Bytes),
    Stream(Box<EventStream>),
    /// The body of another process.
    Passed(Box<PassedBody>),
}

/// An event stream that is being sent.
struct EventStream {
    /// Sent before everything else.
    ahead: VecDeque<Bytes>,
    /// `None` after the end.
    exchange: Option<Exchange>,
    keep_alive: Duration,
    silence: Option<Pin<Box<Sleep>>>,
    /// When the stream is closed, even if more events follow.
    until: Option<Pin<Box<Sleep>>>,
}

impl HttpBody {
    pub(super) const fn empty() -> Self {
        Self::whole(Bytes::new())
    }

    pub(super) const fn whole(bytes: Bytes) -> Self {
        Self(Kind::Whole(bytes))
    }

    /// An event stream: `ahead`, then the events of the exchange, if it goes on.
    pub(super) fn stream(
        ahead: impl Into<VecDeque<Bytes>>,
        exchange: Option<Exchange>,
        keep_alive: Duration,
    ) -> Self {
        let stream = EventStream { ahead: ahead.into(), exchange, keep_alive, silence: None, until: None };
        Self(Kind::Stream(Box::new(stream)))
    }

    /// The body of a response of another process.
    pub(super) fn passed(body: PassedBody) -> Self {
        Self(Kind::Passed(Box::new(body)))
    }

    /// Closes the stream at `until` at the latest.
    pub(super) fn until(mut self, until: Option<Instant>) -> Self {
        if let (Kind::Stream(stream), Some(until)) = (&mut self.0, until) {
            stream.until = Some(Box::pin(sleep_until(until)));
        }
        self
    }
}

impl EventStream {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(until) = &mut self.until
            && until.as_mut().poll(cx).is_ready()
        {
            self.ahead.clear();
            self.exchange = None;
            self.until = None;
        }
        if let Some(bytes) = self.ahead.pop_front() {
            return Poll::Ready(Some(bytes));
        }
        let Some(exchange) = &self.exchange else { return Poll::Ready(None) };
        if let Poll::Ready(bytes) = exchange.poll_bytes(cx) {
            if bytes.is_none() {
                self.exchange = None;
            }
            return Poll::Ready(bytes);
        }
        let silence = self.silence.get_or_insert_with(|| Box::pin(sleep(self.keep_alive)));
        if silence.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        silence.as_mut().reset(Instant::now() + self.keep_alive);
        let mut comment = BytesMut::new();
        write_comment("", &mut comment);
        // The timer is reset when the comment has been taken.
        cx.waker().wake_by_ref();
        Poll::Ready(Some(comment.freeze()))
    }
}

impl Body for HttpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.get_mut().0 {
            Kind::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Kind::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Kind::Stream(stream) => {
                stream.poll_next(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
            Kind::Passed(body) => body.poll_next(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(bytes) => bytes.is_empty(),
            Kind::Stream(stream) => stream.ahead.is_empty() && stream.exchange.is_none(),
            Kind::Passed(body) => body.is_end(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Stream(_) => SizeHint::new(),
            Kind::Passed(body) => body.size_hint(),
        }
    }
}

impl fmt::Debug for HttpBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.0 {
            Kind::Whole(_) => "Whole",
            Kind::Stream(_) => "Stream",
            Kind::Passed(_) => "Passed",
        };
        f.debug_tuple("HttpBody").field(&kind).finish()
    }
}

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    TooLarge,
    TooSlow,
    Broken,
    Full(Full),
}

/// The largest body that is not counted when it arrives in one piece: 64 KiB. Most requests are smaller and are dropped soon,
/// and a connection has one of them at a time.
pub(super) const MAX_UNCOUNTED_BYTES: usize = 64 * 1024;

/// How long the next piece of a body waits for room: 2 s. Bodies that are being read free some meanwhile.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(2);

/// Reads a complete body. One that arrives in one piece is not copied. Its bytes are counted until reading fails or the last
/// slice of it is dropped.
pub(super) async fn read(
    body: RequestBody,
    limit: usize,
    time: Duration,
    account: &Arc<Account>,
) -> Result<Bytes, Unread> {
    let mut body = pin!(body);
    if body.size_hint().lower() > limit as u64 {
        return Err(Unread::TooLarge);
    }
    let mut timeout = None;
    let mut charge: Option<Charge> = None;
    let mut first = Bytes::new();
    let mut joined = BytesMut::new();
    loop {
        let frame = poll_fn(|cx| {
            if let Poll::Ready(frame) = body.as_mut().poll_frame(cx) {
                return Poll::Ready(Ok(frame));
            }
            let timeout = timeout.get_or_insert_with(|| Box::pin(sleep(time)));
            timeout.as_mut().poll(cx).map(|()| Err(Unread::TooSlow))
        });
        let piece = match frame.await? {
            None => break,
            Some(Err(_)) => return Err(Unread::Broken),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(piece) => piece,
                // Trailers are ignored.
                Err(_) => continue,
            },
        };
        if piece.len() > limit - first.len() - joined.len() {
            return Err(Unread::TooLarge);
        }
        if charge.is_some() || piece.len() > MAX_UNCOUNTED_BYTES || !body.is_end_stream() {
            let charge = charge.get_or_insert_with(|| Charge::new(account.clone(), Traffic::Bodies));
            charge.grow_within(piece.len(), MEMORY_TIMEOUT).await.map_err(Unread::Full)?;
        }
        if first.is_empty() && joined.is_empty() {
            first = piece;
        } else {
            if joined.is_empty() {
                joined.extend_from_slice(&std::mem::take(&mut first));
            }
            joined.extend_from_slice(&piece);
        }
    }
    let whole = if joined.is_empty() { first } else { joined.freeze() };
    Ok(match charge {
        // Small parts may be kept as long as a session lasts: the client's name and capabilities.
        Some(charge) if whole.len() > MAX_UNCOUNTED_BYTES => charge.with(whole),
        _ => whole,
    })
}
