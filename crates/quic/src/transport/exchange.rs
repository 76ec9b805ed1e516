//! One stream: lines in both directions, until it ends, is cut off, or is left.
//!
//! A task of its own, started by the link. It reads and decodes for itself, so that a large message on it keeps no
//! other stream waiting, and hands in what came. What it means, the link knows.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
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
use super::shared::{LARGE, Line};
use super::table::claim;
use mcpjoin::internal::{decoded, is_cut_off, too_long};

/// How much is taken from a stream at once, in bytes.
const CHUNK: usize = 64 * 1024;
/// So much of a message that is not complete any stream may hold, in bytes. For more it waits for one of few places.
const FREE: usize = 64 * 1024;

/// What a stream is for.
pub(super) enum Kind {
    /// What belongs to no request.
    Session,
    /// A request of ours.
    Call(RequestId),
    /// A request of the peer.
    Request,
}

/// What is the same for all streams of a link.
pub(super) struct Common {
    pub(super) message: usize,
    pub(super) decoding: DecodeLimits,
    /// How long a peer may take nothing of what is written, and leave a message half said.
    pub(super) stall: Duration,
    pub(super) origin: Arc<Origin>,
    /// Places for messages that are larger than what any stream may hold.
    pub(super) large: Arc<Semaphore>,
    pub(super) news: Sender<News>,
}

/// What a stream tells its link.
pub(super) enum News {
    /// A line has come.
    Came {
        key: u64,
        inbound: Inbound,
        line: Bytes,
        /// It counts as large until the link has taken it.
        permit: Option<OwnedSemaphorePermit>,
    },
    /// Nothing more comes, or can be sent. On the stream of the session it is the end of all.
    Gone { key: u64, cause: TransportError },
    /// The peer says nothing more on the stream of the session.
    SessionEnded,
}

/// The task of one stream.
pub(super) struct Exchange {
    pub(super) key: u64,
    pub(super) kind: Kind,
    pub(super) common: Arc<Common>,
    /// With what the stream is reset when the task is dropped.
    pub(super) code: Arc<AtomicU32>,
    pub(super) claim: Arc<AtomicU8>,
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

/// Our half: reset when it is dropped before everything is said.
struct Sending {
    inner: SendStream,
    done: bool,
    code: Arc<AtomicU32>,
}

/// Their half: stopped when it is dropped before they have said everything.
struct Receiving {
    inner: RecvStream,
    ended: bool,
    code: Arc<AtomicU32>,
}

impl Sending {
    /// Says nothing more, whatever is left to be said.
    fn reset(&mut self, code: u32) {
        if !self.done {
            self.done = true;
            // A stream that has ended by itself does not mind.
            let _ = self.inner.reset(code::number(code));
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.reset(self.code.load(Ordering::Relaxed));
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.inner.stop(code::number(self.code.load(Ordering::Relaxed)));
        }
    }
}

impl Exchange {
    /// Until the stream is over in both directions. `leash` is held until everything is written and received, or never
    /// will be.
    pub(super) async fn run(
        self,
        (send, receive): (SendStream, RecvStream),
        mut out: UnboundedReceiver<Line>,
        leash: Sender<()>,
    ) {
        let mut sending = Sending { inner: send, done: false, code: self.code.clone() };
        let mut receiving = Receiving { inner: receive, ended: false, code: self.code.clone() };
        let (mut written, mut read) = (false, false);
        let mut writing = pin!(async {
            let end = self.write(&mut sending, &mut out).await;
            drop(leash);
            end
        });
        let mut reading = pin!(self.read(&mut receiving));
        while !(written && read) {
            tokio::select! {
                biased;
                end = &mut reading, if !read => {
                    read = true;
                    match (end, &self.kind) {
                        (ReadEnd::Lost, _) => return,
                        (ReadEnd::Finished, Kind::Session) => self.tell(News::SessionEnded).await,
                        (ReadEnd::Finished, Kind::Call(_)) => {
                            let what = "the peer has ended the stream of this request without answering it";
                            return self.gone(TransportError::new(what, true)).await;
                        }
                        (ReadEnd::TooLong, Kind::Call(_)) => {
                            let what = "the answer is larger than a message may be";
                            return self.gone(TransportError::new(what, false)).await;
                        }
                        (ReadEnd::Failed(cause), _) => return self.gone(cause).await,
                        (ReadEnd::Answered | ReadEnd::Finished | ReadEnd::TooLong, _) => {}
                    }
                }
                end = &mut writing, if !written => {
                    written = true;
                    match (end, &self.kind) {
                        (WriteEnd::Lost, _) => return,
                        // Everything is said: what may still come concerns nobody.
                        (WriteEnd::Finished, Kind::Request) => {
                            self.code.store(code::NO_ERROR, Ordering::Relaxed);
                            return;
                        }
                        (WriteEnd::Finished, Kind::Call(_)) if self.is_given_up() => return,
                        (WriteEnd::Finished, _) => {}
                        // The answer to a request of which the rest was not wanted may still come.
                        (WriteEnd::Failed(_), Kind::Call(_)) => {}
                        // A cancellation may still come.
                        (WriteEnd::Failed(cause), _) => self.gone(cause).await,
                    }
                }
            }
        }
    }

    fn is_given_up(&self) -> bool {
        self.claim.load(Ordering::Acquire) == claim::GIVEN_UP
    }

    async fn tell(&self, news: News) {
        // Where the link is gone nobody is interested.
        let _ = self.common.news.send(news).await;
    }

    async fn gone(&self, cause: TransportError) {
        self.tell(News::Gone { key: self.key, cause }).await;
    }

    /// Writes until there is nothing more to write, and waits until all of it has arrived.
    async fn write(&self, sending: &mut Sending, out: &mut UnboundedReceiver<Line>) -> WriteEnd {
        let mut stopped = pin!(sending.inner.stopped());
        loop {
            let line = tokio::select! {
                biased;
                line = out.recv() => line,
                stopped = &mut stopped => {
                    sending.reset(code::CANCELLED);
                    return match stopped {
                        Ok(code) => WriteEnd::Failed(left(code)),
                        Err(StoppedError::ConnectionLost(_)) => WriteEnd::Lost,
                        Err(StoppedError::ZeroRttRejected) => WriteEnd::Failed(left(None)),
                    };
                }
            };
            let Some(mut line) = line else {
                if self.claim.load(Ordering::Acquire) == claim::CUT {
                    return WriteEnd::Lost;
                }
                break;
            };
            line.encode().await;
            while !line.rest().is_empty() {
                let before = line.sent_in_all();
                match timeout(self.common.stall, sending.inner.write_chunks(line.rest())).await {
                    Ok(Ok(written)) => line.took(written.bytes, written.chunks),
                    Ok(Err(WriteError::ConnectionLost(_))) => return WriteEnd::Lost,
                    Ok(Err(WriteError::Stopped(code))) => {
                        sending.reset(code::CANCELLED);
                        return WriteEnd::Failed(left(Some(code)));
                    }
                    Ok(Err(error)) => return WriteEnd::Failed(TransportError::new(error.to_string(), true)),
                    // The peer may take one large message after the other.
                    Err(_) if line.sent_in_all() != before => {}
                    Err(_) => {
                        sending.reset(code::STALLED);
                        let after = self.common.stall.as_millis();
                        let what = format!("the peer has taken nothing on this stream for {after} ms");
                        return WriteEnd::Failed(TransportError::new(what, true));
                    }
                }
            }
        }
        // It can only have been ended before.
        let _ = sending.inner.finish();
        let end = match stopped.await {
            Err(StoppedError::ConnectionLost(_)) => WriteEnd::Lost,
            _ => WriteEnd::Finished,
        };
        sending.done = true;
        end
    }

    /// Reads and hands in, until the peer has no more to say or we do not want to hear more.
    async fn read(&self, receiving: &mut Receiving) -> ReadEnd {
        let mut lines = LineDecoder::new(self.common.message);
        let mut permit = None;
        // Bytes since the last line, at least: it is known to be half a message.
        let mut half = 0_usize;
        loop {
            while let Some(event) = lines.poll_event() {
                half = 0;
                let long = matches!(event, LineEvent::TooLong { .. });
                let last = matches!(event, LineEvent::Last(_));
                let (inbound, line) = self.inbound(event).await;
                if last && matches!(self.kind, Kind::Call(_)) && is_cut_off(&inbound) {
                    let length = line.len();
                    let what = format!(
                        "the answer was cut off: the peer has ended its stream after {length} bytes of it"
                    );
                    return ReadEnd::Failed(TransportError::new(what, true));
                }
                let answered = matches!((&inbound, &self.kind),
                    (Inbound::Message { message: Message::Response(response), .. }, Kind::Call(id))
                        if response.id.as_ref() == Some(id));
                self.tell(News::Came { key: self.key, inbound, line, permit: permit.take() }).await;
                if answered {
                    self.code.store(code::NO_ERROR, Ordering::Relaxed);
                    // Its end comes with the answer, mostly, and then there is nothing to be stopped.
                    let last = receiving.inner.read_chunk(CHUNK, true).now_or_never();
                    receiving.ended = matches!(last, Some(Ok(None)));
                    return ReadEnd::Answered;
                }
                if long && !matches!(self.kind, Kind::Session) {
                    let _ = receiving.inner.stop(code::number(code::TOO_LARGE));
                    receiving.ended = true;
                    return ReadEnd::TooLong;
                }
            }
            if receiving.ended {
                return ReadEnd::Finished;
            }
            if half > FREE && permit.is_none() {
                permit = self.common.large.clone().acquire_owned().await.ok();
            }
            let reading = receiving.inner.read_chunk(CHUNK, true);
            let read = if half == 0 {
                reading.await
            } else {
                match timeout(self.common.stall, reading).await {
                    Ok(read) => read,
                    Err(_) => {
                        self.code.store(code::STALLED, Ordering::Relaxed);
                        let after = self.common.stall.as_millis();
                        let what = format!("half a message came, and nothing more for {after} ms");
                        return ReadEnd::Failed(TransportError::new(what, true));
                    }
                }
            };
            match read {
                Ok(Some(chunk)) => {
                    half = half.saturating_add(chunk.bytes.len());
                    lines.push(&chunk.bytes);
                }
                Ok(None) => {
                    receiving.ended = true;
                    lines.finish();
                }
                Err(ReadError::ConnectionLost(_)) => return ReadEnd::Lost,
                Err(ReadError::Reset(code)) => {
                    receiving.ended = true;
                    return ReadEnd::Failed(left(Some(code)));
                }
                Err(error) => return ReadEnd::Failed(TransportError::new(error.to_string(), true)),
            }
        }
    }

    /// What came, and the line that it is.
    async fn inbound(&self, event: LineEvent) -> (Inbound, Bytes) {
        let origin = self.common.origin.clone();
        match event {
            LineEvent::Line(line) | LineEvent::Last(line) if line.len() >= LARGE => {
                let (common, text) = (self.common.clone(), line.clone());
                let inbound = spawn_blocking(move || decoded(&text, &common.decoding, origin)).await;
                // It neither panics nor is it aborted; if it were, here it can be done as well.
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

/// The peer has left a stream, for the reason that its code names.
fn left(code: Option<VarInt>) -> TransportError {
    let number = code.map_or(0, VarInt::into_inner);
    let why = match u32::try_from(number) {
        Ok(code::NO_ERROR) => "it has given no reason".to_owned(),
        Ok(code::CANCELLED) => "it has given this request up".to_owned(),
        Ok(code::PROTOCOL) => "it says that we broke a rule of the transport".to_owned(),
        Ok(code::TOO_LARGE) => "a message was larger than it takes".to_owned(),
        Ok(code::STALLED) => "it says that nothing has moved for too long".to_owned(),
        _ => format!("its code {number} is not known"),
    };
    TransportError::new(format!("the peer has left the stream of this request: {why}"), true)
}
