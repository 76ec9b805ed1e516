//! The body of a response on its way to a client: noted as it goes, with what we add to a stream that stands open.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use mcpjoin_proto::codec::sse::{Event, SseDecoder, SseEvent};
use mcpjoin_rules::{BodyEnd, Line, Probe, StreamEvent, What};

use super::sessions::Shared;
use mcpjoin::link::HttpBody;

/// A message on a stream.
pub(super) fn written(line: &str) -> Bytes {
    format!("event: message\ndata: {line}\n\n").into()
}

/// A body, whole or as it comes.
pub(super) enum NotedBody {
    Whole(Bytes),
    Stream(Box<Stream>),
}

pub(super) struct Stream {
    inner: HttpBody,
    decoder: SseDecoder,
    shared: Shared,
    run: usize,
    exchange: u32,
    /// Our probes may go on it.
    stands: bool,
    ahead: VecDeque<Bytes>,
    ended: bool,
}

impl NotedBody {
    pub(super) fn stream(inner: HttpBody, shared: Shared, run: usize, exchange: u32, stands: bool) -> Self {
        let decoder = SseDecoder::new(16 * 1024 * 1024);
        let ahead = VecDeque::new();
        Self::Stream(Box::new(Stream { inner, decoder, shared, run, exchange, stands, ahead, ended: false }))
    }
}

impl Stream {
    /// Puts our probes before what comes next.
    fn probe(&mut self, waker: &Waker) {
        let mut shared = self.shared.lock();
        if !self.stands {
            return;
        }
        for (probe, line) in shared.take(self.run, waker) {
            // No id: a stream that is resumed does not bring it again.
            self.ahead.push_back(written(&line));
            shared.recorder.said(self.run, Some(self.exchange), probe, Line::new(line));
        }
    }

    fn note(&mut self, piece: &Bytes) {
        self.decoder.push(piece.clone());
        let mut shared = self.shared.lock();
        while let Some(event) = self.decoder.poll_event() {
            let event = match event {
                SseEvent::Event(event) => event,
                SseEvent::Id(id) => Event { id: Some(id), ..Event::default() },
                SseEvent::Retry(retry) => {
                    let retry = StreamEvent { retry: Some(retry), ..StreamEvent::default() };
                    shared.recorder.note_in(self.run, self.exchange, What::Streamed(retry));
                    continue;
                }
                _ => continue,
            };
            let data = event.data.clone();
            if event.name.as_deref() == Some(b"endpoint") {
                shared.posts_to(self.run, &data);
            }
            let is_message = event.name.as_ref().is_none_or(|name| name == "message") && !data.is_empty();
            let streamed = StreamEvent { name: event.name, id: event.id, data: event.data, retry: None };
            shared.recorder.note_in(self.run, self.exchange, What::Streamed(streamed));
            if is_message {
                shared.recorder.said(self.run, Some(self.exchange), Probe::Answer, Line::new(data));
            }
        }
    }

    fn end(&mut self, how: BodyEnd) {
        if !std::mem::replace(&mut self.ended, true) {
            self.shared.lock().recorder.note_in(self.run, self.exchange, What::BodyEnded(how));
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.end(BodyEnd::Left);
    }
}

impl Body for NotedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let stream = match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => return Poll::Ready(None),
            Self::Whole(bytes) => return Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Stream(stream) => stream,
        };
        stream.probe(cx.waker());
        if let Some(bytes) = stream.ahead.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        let polled = Pin::new(&mut stream.inner).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(piece) = frame.data_ref() {
                    // A session may have become ready since: what stands open carries our probes first.
                    stream.note(piece);
                }
            }
            Poll::Ready(_) => stream.end(BodyEnd::Complete),
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Stream(_) => SizeHint::new(),
        }
    }
}
