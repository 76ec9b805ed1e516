//! What is left of the body of a request that was refused for its length, or for its token.
//!
//! Many a client sends all of a body before it looks for an answer, and whoever closes the connection on what was not read
//! takes the answer away with it (<https://www.rfc-editor.org/rfc/rfc9112#section-9.6>). So it is read and dropped before the
//! refusal is sent, within bounds. Used by `serve` alone: in somebody else's server the connection is theirs.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::EXPECT;
use http::{Request, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::timeout;

use super::body::UNCOUNTED;

/// As much is read and dropped: three bodies as large as they may be by themselves.
const MOST: u64 = 32 * 1024 * 1024;
/// For so long: it has to come as fast as it can.
const TIME: Duration = Duration::from_secs(5);

/// A body on its way in. What nobody has read of it is given back when this is dropped, where somebody keeps it.
pub(super) struct Coming {
    /// `None` once it is given back.
    body: Option<Incoming>,
    rest: Option<Arc<Rest>>,
}

/// Keeps what is left of a body.
pub(super) struct Rest {
    body: Mutex<Option<Incoming>>,
    /// It is left for its length alone, or because there is no room.
    for_length: bool,
}

impl Rest {
    /// For a body that may be above the limit, for one that there may be no room for, and for every one where tokens are
    /// asked for: what is no good is said before a body is read. Who waits to be told to send it (`Expect: 100-continue`) is told at once not to.
    pub(super) fn of(request: &Request<Incoming>, limit: usize, asks: bool) -> Option<Arc<Self>> {
        let body = request.body();
        let small = body.size_hint().upper().is_some_and(|most| most <= limit.min(UNCOUNTED) as u64);
        let may_be_left = !small || asks && !body.is_end_stream();
        let rest = || Arc::new(Self { body: Mutex::default(), for_length: !asks });
        (may_be_left && !request.headers().contains_key(EXPECT)).then(rest)
    }

    /// Whether a response with that status may have come before the body was read.
    pub(super) fn is_left_with(&self, status: StatusCode) -> bool {
        let refused = status.is_client_error() || status.is_server_error();
        // Who was too slow once is not waited for again.
        let early = refused && status != StatusCode::REQUEST_TIMEOUT;
        let for_room = matches!(status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::SERVICE_UNAVAILABLE);
        for_room || early && !self.for_length
    }

    fn lock(&self) -> MutexGuard<'_, Option<Incoming>> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads it and keeps nothing of it. One that is longer than is read here is left at once.
    pub(super) async fn drop_it(&self) {
        let Some(mut body) = self.lock().take() else { return };
        let mut left = MOST;
        let read = async {
            while body.size_hint().lower() <= left {
                let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await else { return };
                let length = frame.data_ref().map_or(0, Bytes::len) as u64;
                let Some(less) = left.checked_sub(length) else { return };
                left = less;
            }
        };
        // That it takes too long changes nothing.
        let _ = timeout(TIME, read).await;
    }
}

impl Coming {
    pub(super) const fn new(body: Incoming, rest: Option<Arc<Rest>>) -> Self {
        Self { body: Some(body), rest }
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        if let Some(rest) = &self.rest {
            *rest.lock() = self.body.take().filter(|body| !body.is_end_stream());
        }
    }
}

impl Body for Coming {
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
