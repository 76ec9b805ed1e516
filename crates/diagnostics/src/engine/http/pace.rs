//! How fast a request is sent and its response read: at once, unless a server is put under stress.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use mcpjoin::internal::http::Body;
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};

/// The pieces of a body that is sent slowly.
const PIECES: u32 = 3;

/// The pauses of one session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    /// Before a body is read, and between its parts. Each pause is made once.
    pub(crate) reading: VecDeque<Duration>,
    /// Before each piece of a request but the first.
    pub(crate) writing: Option<Duration>,
}

impl Pace {
    /// The sum of all pauses.
    pub(super) fn longest(&self) -> Duration {
        self.reading.iter().sum::<Duration>() + self.writing.unwrap_or_default() * PIECES
    }

    /// Makes the next pause of the reader, if there is one.
    pub(super) async fn pause(&mut self) {
        if let Some(pause) = self.reading.pop_front() {
            sleep(pause).await;
        }
    }

    /// The body of a request with this line.
    pub(super) fn body(&self, line: &str) -> Body {
        let line = Bytes::copy_from_slice(line.as_bytes());
        let Some(pause) = self.writing else { return line.into() };
        let size = line.len().div_ceil(PIECES as usize).max(1);
        let pieces = line.chunks(size).map(|piece| line.slice_ref(piece)).collect();
        Body::streamed(Pieces { pieces, left: line.len(), pause, waiting: None, sent: None, endless: false })
    }
}

/// A body in pieces.
pub(super) struct Pieces {
    pieces: VecDeque<Bytes>,
    /// Bytes that are not sent yet.
    left: usize,
    pause: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
    /// Notified when all pieces are taken.
    sent: Option<oneshot::Sender<()>>,
    /// Whether the body never ends: the rest of its bytes is never sent.
    endless: bool,
}

impl Pieces {
    /// The first `length` bytes of a line, and a receiver that is notified when they are taken. Further bytes of the
    /// line are never sent.
    pub(super) fn begun(line: &str, length: usize) -> (Body, oneshot::Receiver<()>) {
        let (sender, sent) = oneshot::channel();
        let begin = Bytes::copy_from_slice(&line.as_bytes()[..length.min(line.len())]);
        let body = Self {
            endless: begin.len() < line.len(),
            pieces: [begin].into(),
            left: line.len(),
            pause: Duration::ZERO,
            waiting: None,
            sent: Some(sender),
        };
        (Body::streamed(body), sent)
    }
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(waiting) = &mut self.waiting {
            std::task::ready!(waiting.as_mut().poll(cx));
            self.waiting = None;
        }
        let Some(piece) = self.pieces.pop_front() else {
            if let Some(sent) = self.sent.take() {
                let _ = sent.send(());
            }
            return if self.endless { Poll::Pending } else { Poll::Ready(None) };
        };
        self.left = self.left.saturating_sub(piece.len());
        if !self.pieces.is_empty() {
            self.waiting = Some(Box::pin(sleep(self.pause)));
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        // Polled once more, so that the receiver is notified.
        self.left == 0 && self.sent.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}
