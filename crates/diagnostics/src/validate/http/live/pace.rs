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

/// A body comes in so many pieces.
const PIECES: usize = 3;

/// The pace of what one run does.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Pace {
    /// Before a body is read, and between its parts: each pause is made once.
    pub(in super::super) reading: VecDeque<Duration>,
    /// Before each piece of what is sent but the first.
    pub(in super::super) writing: Option<Duration>,
}

impl Pace {
    /// As long as all pauses take.
    pub(super) fn longest(&self) -> Duration {
        let writing = self.writing.unwrap_or_default();
        self.reading.iter().sum::<Duration>() + writing * u32::try_from(PIECES).unwrap_or(u32::MAX)
    }

    /// Makes the next pause of a reader, if there is one.
    pub(super) async fn pause(&mut self) {
        if let Some(pause) = self.reading.pop_front() {
            sleep(pause).await;
        }
    }

    /// What carries the line.
    pub(super) fn body(&self, line: &str) -> Body {
        let line = Bytes::copy_from_slice(line.as_bytes());
        let Some(pause) = self.writing else { return line.into() };
        let size = line.len().div_ceil(PIECES).max(1);
        let pieces = line.chunks(size).map(|piece| line.slice_ref(piece)).collect();
        Body::streamed(Pieces { pieces, rest: line.len(), pause, waiting: None, gone: None, endless: false })
    }
}

/// A body in pieces.
pub(super) struct Pieces {
    pieces: VecDeque<Bytes>,
    /// As many bytes as are still to come.
    rest: usize,
    pause: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
    /// Told when nothing is left to be taken.
    gone: Option<oneshot::Sender<()>>,
    /// It never ends: what is left of it never comes.
    endless: bool,
}

impl Pieces {
    /// The first so many bytes of a line, and whoever wants to know when they are taken. Where that is not all, the rest
    /// never comes.
    pub(super) fn begun(line: &str, length: usize) -> (Body, oneshot::Receiver<()>) {
        let (gone, taken) = oneshot::channel();
        let begin = Bytes::copy_from_slice(&line.as_bytes()[..length.min(line.len())]);
        let body = Self {
            endless: begin.len() < line.len(),
            pieces: [begin].into(),
            rest: line.len(),
            pause: Duration::ZERO,
            waiting: None,
            gone: Some(gone),
        };
        (Body::streamed(body), taken)
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
            if let Some(gone) = self.gone.take() {
                let _ = gone.send(());
            }
            return if self.endless { Poll::Pending } else { Poll::Ready(None) };
        };
        self.rest = self.rest.saturating_sub(piece.len());
        if !self.pieces.is_empty() {
            self.waiting = Some(Box::pin(sleep(self.pause)));
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        // It is asked for once more, so that we know that all of it is taken.
        self.rest == 0 && self.gone.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.rest).unwrap_or(u64::MAX))
    }
}
