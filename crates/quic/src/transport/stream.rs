//! The task of one stream: reads and writes lines in both directions until both have ended.
//!
//! The link starts one task for each stream. The task decodes its messages itself, so that a large message does not
//! delay other streams, and reports them to the link, which interprets them.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use mcpjoin_proto::codec::lines::{LineDecoder, LineEvent};
use mcpjoin_proto::session::{Inbound, Origin, TransportError};
use mcpjoin_proto::{DecodeLimits, Message, RequestId};
use quinn::{ReadError, RecvStream, SendStream, StoppedError, VarInt, WriteError};
use tokio::sync::mpsc::{Sender, UnboundedReceiver};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::code;
use super::table::{StreamState, claim};
use super::write_buffer::{LARGE_MESSAGE_BYTES, Line};
use mcpjoin::internal::{decoded, is_cut_off, too_long};

/// Maximum bytes of one read.
const READ_CHUNK_BYTES: usize = 64 * 1024;
/// Bytes of an incomplete message that any stream may hold. Beyond this, the stream needs a permit of
/// [`Common::large`].
const SMALL_MESSAGE_BYTES: usize = 64 * 1024;

/// The purpose of a stream.
pub(super) enum Kind {
    /// The session stream: messages that belong to no request.
    Session,
    /// A request of ours.
    Call(RequestId),
    /// A request of the peer.
    Request,
}

/// State that all streams of a link share.
pub(super) struct Common {
    pub(super) message: usize,
    pub(super) decoding: DecodeLimits,
    /// Time limit for a write without progress, and for the rest of an incomplete message.
    pub(super) stall: Duration,
    pub(super) origin: Arc<Origin>,
    /// Permits for messages above [`SMALL_MESSAGE_BYTES`].
    pub(super) large: Arc<Semaphore>,
    pub(super) events: Sender<StreamEvent>,
}

/// What a stream reports to its link.
pub(super) enum StreamEvent {
    /// A line was received.
    Received {
        key: u64,
        inbound: Inbound,
        line: Bytes,
        /// Held until the link has processed a large message.
        permit: Option<OwnedSemaphorePermit>,
    },
    /// The stream failed. If it is the session stream, the session ends.
    Ended { key: u64, cause: TransportError },
    /// The peer has finished the session stream.
    SessionEnded,
}

impl StreamEvent {
    /// Whether this is a message on this stream.
    pub(super) const fn is_of(&self, stream: u64) -> bool {
        matches!(self, Self::Received { key, .. } if *key == stream)
    }
}

/// The task of one stream.
pub(super) struct StreamTask {
    pub(super) key: u64,
    pub(super) kind: Kind,
    pub(super) common: Arc<Common>,
    pub(super) state: Arc<StreamState>,
}

enum WriteEnd {
    Finished,
    Failed(TransportError),
    Lost,
}

enum ReadEnd {
    Answered,
    Finished,
    TooLong,
    Failed(TransportError),
    Lost,
}

/// The sending side. Dropping it before everything is sent resets the stream.
struct SendHalf {
    inner: SendStream,
    done: bool,
    state: Arc<StreamState>,
}

/// The receiving side. Dropping it before the end asks the peer to stop.
struct ReceiveHalf {
    inner: RecvStream,
    ended: bool,
    state: Arc<StreamState>,
}

impl SendHalf {
    /// Resets the stream and drops what is unsent.
    fn reset(&mut self, code: u32) {
        if !self.done {
            self.done = true;
            // This fails only if the stream has already ended.
            let _ = self.inner.reset(code::number(code));
        }
    }
}

impl Drop for SendHalf {
    fn drop(&mut self) {
        self.reset(self.state.code());
    }
}

impl Drop for ReceiveHalf {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.inner.stop(code::number(self.state.code()));
        }
    }
}

impl StreamTask {
    /// Runs until the stream has ended in both directions. `unfinished` is dropped once no more data will be sent.
    pub(super) async fn run(
        self,
        (send, receive): (SendStream, RecvStream),
        mut out: UnboundedReceiver<Line>,
        unfinished: Sender<()>,
    ) {
        let mut send_half = SendHalf { inner: send, done: false, state: self.state.clone() };
        let mut receive_half = ReceiveHalf { inner: receive, ended: false, state: self.state.clone() };
        let (mut written, mut read) = (false, false);
        let mut writing = pin!(async {
            let end = self.write(&mut send_half, &mut out).await;
            drop(unfinished);
            end
        });
        let mut reading = pin!(self.read(&mut receive_half));
        while !(written && read) {
            tokio::select! {
                biased;
                end = &mut reading, if !read => {
                    read = true;
                    match (end, &self.kind) {
                        (ReadEnd::Lost, _) => return,
                        (ReadEnd::Finished, Kind::Session) => self.report(StreamEvent::SessionEnded).await,
                        (ReadEnd::Finished, Kind::Call(_)) => {
                            let text = "the peer has ended the stream of this request without answering it";
                            return self.report_end(TransportError::new(text, true)).await;
                        }
                        (ReadEnd::TooLong, Kind::Call(_)) => {
                            let text = "the response exceeds the size limit of a message";
                            return self.report_end(TransportError::new(text, false)).await;
                        }
                        (ReadEnd::Failed(cause), _) => return self.report_end(cause).await,
                        (ReadEnd::Answered | ReadEnd::Finished | ReadEnd::TooLong, _) => {}
                    }
                }
                end = &mut writing, if !written => {
                    written = true;
                    match (end, &self.kind) {
                        (WriteEnd::Lost, _) => return,
                        // The response is sent, so nothing more is expected from the peer.
                        (WriteEnd::Finished, Kind::Request) => {
                            self.state.set_code(code::NO_ERROR);
                            return;
                        }
                        (WriteEnd::Finished, Kind::Call(_)) if self.state.is(claim::CANCELLED) => return,
                        (WriteEnd::Finished, _) => {}
                        // The peer stopped reading the request. Its response may still arrive.
                        (WriteEnd::Failed(_), Kind::Call(_)) => {}
                        // A cancellation may still arrive.
                        (WriteEnd::Failed(cause), _) => self.report_end(cause).await,
                    }
                }
            }
        }
    }

    async fn report(&self, event: StreamEvent) {
        // Sending fails only if the link is gone.
        let _ = self.common.events.send(event).await;
    }

    async fn report_end(&self, cause: TransportError) {
        self.report(StreamEvent::Ended { key: self.key, cause }).await;
    }

    /// Writes lines until the queue closes, then waits until the peer has acknowledged all of them.
    async fn write(&self, send_half: &mut SendHalf, out: &mut UnboundedReceiver<Line>) -> WriteEnd {
        let mut stopped = pin!(send_half.inner.stopped());
        loop {
            let line = tokio::select! {
                biased;
                line = out.recv() => line,
                stopped = &mut stopped => {
                    send_half.reset(code::CANCELLED);
                    return match stopped {
                        Ok(code) => WriteEnd::Failed(stopped_by_peer(code)),
                        Err(StoppedError::ConnectionLost(_)) => WriteEnd::Lost,
                        Err(StoppedError::ZeroRttRejected) => WriteEnd::Failed(stopped_by_peer(None)),
                    };
                }
            };
            let Some(mut line) = line else {
                if self.state.is(claim::CUT) {
                    return WriteEnd::Lost;
                }
                break;
            };
            line.encode().await;
            while !line.unwritten().is_empty() {
                let before = line.total_sent();
                match timeout(self.common.stall, send_half.inner.write_chunks(line.unwritten())).await {
                    Ok(Ok(written)) => line.consume(written.bytes, written.chunks),
                    Ok(Err(WriteError::ConnectionLost(_))) => return WriteEnd::Lost,
                    Ok(Err(WriteError::Stopped(code))) => {
                        send_half.reset(code::CANCELLED);
                        return WriteEnd::Failed(stopped_by_peer(Some(code)));
                    }
                    Ok(Err(error)) => return WriteEnd::Failed(TransportError::new(error.to_string(), true)),
                    // The peer may read large messages one after the other, so progress on any stream counts.
                    Err(_) if line.total_sent() != before => {}
                    Err(_) => {
                        send_half.reset(code::STALLED);
                        let after = self.common.stall.as_millis();
                        let text = format!("the peer has read nothing on this stream for {after} ms");
                        return WriteEnd::Failed(TransportError::new(text, true));
                    }
                }
            }
        }
        // This fails only if the stream has already ended.
        let _ = send_half.inner.finish();
        let end = match stopped.await {
            Err(StoppedError::ConnectionLost(_)) => WriteEnd::Lost,
            _ => WriteEnd::Finished,
        };
        send_half.done = true;
        end
    }

    /// Reads and reports messages until the stream ends or its response has arrived.
    async fn read(&self, receive_half: &mut ReceiveHalf) -> ReadEnd {
        let mut lines = LineDecoder::new(self.common.message);
        let mut permit = None;
        // Bytes since the last complete line. Above 0, a message is incomplete.
        let mut incomplete = 0_usize;
        loop {
            while let Some(event) = lines.poll_event() {
                incomplete = 0;
                let long = matches!(event, LineEvent::TooLong { .. });
                let last = matches!(event, LineEvent::Last(_));
                let (inbound, line) = self.inbound(event).await;
                if last && matches!(self.kind, Kind::Call(_)) && is_cut_off(&inbound) {
                    let length = line.len();
                    let text = format!(
                        "the answer was cut off: the peer has ended its stream after {length} bytes of it"
                    );
                    return ReadEnd::Failed(TransportError::new(text, true));
                }
                let answered = matches!((&inbound, &self.kind),
                    (Inbound::Message { message: Message::Response(response), .. }, Kind::Call(id))
                        if response.id.as_ref() == Some(id));
                self.report(StreamEvent::Received { key: self.key, inbound, line, permit: permit.take() })
                    .await;
                if answered {
                    self.state.set_code(code::NO_ERROR);
                    // The end of the stream usually arrives with the response; then there is nothing to stop.
                    let last = receive_half.inner.read_chunk(READ_CHUNK_BYTES, true).now_or_never();
                    receive_half.ended = matches!(last, Some(Ok(None)));
                    return ReadEnd::Answered;
                }
                if long && !matches!(self.kind, Kind::Session) {
                    let _ = receive_half.inner.stop(code::number(code::TOO_LARGE));
                    receive_half.ended = true;
                    return ReadEnd::TooLong;
                }
            }
            if receive_half.ended {
                return ReadEnd::Finished;
            }
            if incomplete > SMALL_MESSAGE_BYTES && permit.is_none() {
                permit = self.common.large.clone().acquire_owned().await.ok();
            }
            let reading = receive_half.inner.read_chunk(READ_CHUNK_BYTES, true);
            let read = if incomplete == 0 {
                reading.await
            } else {
                match timeout(self.common.stall, reading).await {
                    Ok(read) => read,
                    Err(_) => {
                        self.state.set_code(code::STALLED);
                        let after = self.common.stall.as_millis();
                        let text = format!("half a message came, and nothing more for {after} ms");
                        return ReadEnd::Failed(TransportError::new(text, true));
                    }
                }
            };
            match read {
                Ok(Some(chunk)) => {
                    incomplete = incomplete.saturating_add(chunk.bytes.len());
                    lines.push(&chunk.bytes);
                }
                Ok(None) => {
                    receive_half.ended = true;
                    lines.finish();
                }
                Err(ReadError::ConnectionLost(_)) => return ReadEnd::Lost,
                Err(ReadError::Reset(code)) => {
                    receive_half.ended = true;
                    return ReadEnd::Failed(stopped_by_peer(Some(code)));
                }
                Err(error) => return ReadEnd::Failed(TransportError::new(error.to_string(), true)),
            }
        }
    }

    /// Decodes a line.
    async fn inbound(&self, event: LineEvent) -> (Inbound, Bytes) {
        let origin = self.common.origin.clone();
        match event {
            LineEvent::Line(line) | LineEvent::Last(line) if line.len() >= LARGE_MESSAGE_BYTES => {
                let (common, text) = (self.common.clone(), line.clone());
                let inbound = spawn_blocking(move || decoded(&text, &common.decoding, origin)).await;
                // Decoding neither panics nor is it aborted. If it were, decode here.
                let again = |_| decoded(&line, &self.common.decoding, self.common.origin.clone());
                (inbound.unwrap_or_else(again), line)
            }
            LineEvent::Line(line) | LineEvent::Last(line) => {
                (decoded(&line, &self.common.decoding, origin), line)
            }
            LineEvent::TooLong { head, length } => {
                (too_long(&head, length, self.common.message, origin), head)
            }
            LineEvent::ByteOrderMark => (Inbound::ByteOrderMark, Bytes::new()),
        }
    }
}

/// The error for a stream that the peer stopped or reset with this code.
fn stopped_by_peer(code: Option<VarInt>) -> TransportError {
    let number = code.map_or(0, VarInt::into_inner);
    let why = match u32::try_from(number) {
        Ok(code::NO_ERROR) => "no reason".to_owned(),
        Ok(code::CANCELLED) => "it has cancelled this request".to_owned(),
        Ok(code::PROTOCOL) => "it reports a violation of the transport's rules".to_owned(),
        Ok(code::TOO_LARGE) => "a message exceeded its limit".to_owned(),
        Ok(code::STALLED) => "it reports that no data has arrived for too long".to_owned(),
        _ => format!("its code {number} is unknown"),
    };
    TransportError::new(format!("the peer has closed the stream of this request: {why}"), true)
}
