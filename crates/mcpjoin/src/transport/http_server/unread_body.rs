//! Discards the rest of a request body that was refused because of its length or its token.
//!
//! Used by `serve` alone; in another program's server the connection is not ours. Many clients send the whole body before they
//! read a response, and closing a connection with unread bytes loses the response
//! (<https://www.rfc-editor.org/rfc/rfc9112#section-9.6>). So the body is read and discarded, within limits, before the
//! refusal is sent.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::sync::Mutex;
use bytes::Bytes;
use http::header::EXPECT;
use http::{Request, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::timeout;

use super::body::MAX_UNCOUNTED_BYTES;

/// How many bytes are discarded at most: three bodies of the default limit.
const MAX_DISCARDED_BYTES: u64 = 32 * 1024 * 1024;
/// How long discarding may take at most: the client must send as fast as it can.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);

/// A body that is being received. Dropping it returns the unread part, where it is wanted.
pub(super) struct IncomingBody {
    /// `None` once it is returned.
    body: Option<Incoming>,
    rest: Option<Arc<UnreadBody>>,
}

/// Takes back the unread part of a body.
pub(super) struct UnreadBody {
    body: Mutex<Option<Incoming>>,
    /// The body was refused for its length alone, or for lack of memory.
    for_length: bool,
}

impl UnreadBody {
    /// Watches a body that may exceed the limit or for which memory may be short, and every body where tokens are required: a
    /// bad token is refused before the body is read. A client that waits for `100-continue` gets the refusal at once.
    pub(super) fn of(request: &Request<Incoming>, limit: usize, asks: bool) -> Option<Arc<Self>> {
        let body = request.body();
        let small =
            body.size_hint().upper().is_some_and(|most| most <= limit.min(MAX_UNCOUNTED_BYTES) as u64);
        let may_be_left = !small || asks && !body.is_end_stream();
        let rest = || Arc::new(Self { body: Mutex::default(), for_length: !asks });
        (may_be_left && !request.headers().contains_key(EXPECT)).then(rest)
    }

    /// Whether a response with that status may have been made before the body was read.
    pub(super) fn is_left_with(&self, status: StatusCode) -> bool {
        let refused = status.is_client_error() || status.is_server_error();
        // A client that was too slow once is not waited for again.
        let early = refused && status != StatusCode::REQUEST_TIMEOUT;
        let for_room = matches!(status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::SERVICE_UNAVAILABLE);
        for_room || early && !self.for_length
    }

    /// Reads and discards the rest. A body that is longer than the limit is left at once.
    pub(super) async fn discard(&self) {
        let Some(mut body) = self.body.lock().take() else { return };
        let mut left = MAX_DISCARDED_BYTES;
        let read = async {
            while body.size_hint().lower() <= left {
                let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await else { return };
                let length = frame.data_ref().map_or(0, Bytes::len) as u64;
                let Some(less) = left.checked_sub(length) else { return };
                left = less;
            }
        };
        // A timeout needs no handling: the refusal is sent in any case.
        let _ = timeout(DISCARD_TIMEOUT, read).await;
    }
}

impl IncomingBody {
    pub(super) const fn new(body: Incoming, rest: Option<Arc<UnreadBody>>) -> Self {
        Self { body: Some(body), rest }
    }
}

impl Drop for IncomingBody {
    fn drop(&mut self) {
        if let Some(rest) = &self.rest {
            *rest.body.lock() = self.body.take().filter(|body| !body.is_end_stream());
        }
    }
}

impl Body for IncomingBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.get_mut().body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}
