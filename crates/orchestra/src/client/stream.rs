//! A tool that answers bit by bit: a `StreamStart`, and on the same stream chunks until an end.
//!
//! Used by [`Bridge`](super::Bridge) for the tools that it is told of. Plugins and the plain TCP port of newer programs
//! answer so; Orchestra's orchestrator of 1.0 says that it does not know the request, and then nothing has run.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, timeout, timeout_at};

use super::super::wire::{
    self, FrameDecoder, MAX_FRAME, PluginRequest, PluginResponse, StreamCancel, StreamChunk, StreamEnd,
    StreamStart, ToolResponse, WireError, plugin_request::Request, plugin_response::Response,
};
use super::error::{AttemptError, OrchestratorError, OrchestratorErrorKind};
use super::exchange::{self, Stream};
use super::{MAX_ATTEMPTS, Orchestrator};
use mcpjoin_quic::endpoint::Connection;

/// How long telling the far end that nobody listens any more may take. Nothing waits for it.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// What was asked, for people.
const REQUEST_NAME: &str = "stream_start";
/// Words of Orchestra's own: nothing has run.
const NOT_STREAMED_CODES: [&str; 2] = ["unknown_request", "tool_not_found"];

/// A bit of an answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Streamed {
    /// A part of it.
    Chunk(StreamChunk),
    /// All of it has come, or the tool has failed: [`StreamEnd::success`] says which. Nothing follows.
    End(StreamEnd),
}

/// The answer of a tool, as it comes. Dropped before its end, it resets the stream and tells the far end in a
/// `StreamCancel` on another one, which is the only place where that is read. The tool may run on all the same.
#[derive(Debug)]
pub struct ToolStream<'a> {
    orchestrator: &'a Orchestrator,
    request_id: String,
    from: Source,
    frames: FrameDecoder,
    /// What has been read to see whether it streams at all.
    first: Option<Streamed>,
    received: i64,
    deadline: (Duration, Instant),
    cancel: CancelOnDrop,
    _permit: SemaphorePermit<'a>,
}

#[derive(Debug)]
enum Source {
    Quic(Connection, Stream),
    Tcp(TcpStream),
}

impl Orchestrator {
    /// Calls a tool that answers bit by bit, at most once. The bound of a call
    /// ([`OrchestratorOptions::tool_call`](super::OrchestratorOptions::tool_call)) is one for all of it. A `stream_id` that
    /// is empty becomes the id of the request.
    ///
    /// `None`: the far end does not answer this tool so, and has not run it; [`Orchestrator::tool_call`] may be asked.
    ///
    /// # Errors
    /// [`OrchestratorError`], which says where the tool may have run all the same.
    pub async fn tool_stream(
        &self,
        mut request: StreamStart,
    ) -> Result<Option<ToolStream<'_>>, OrchestratorError> {
        self.check_alive().await?;
        let request_id = self.id("st");
        if request.stream_id.is_empty() {
            request.stream_id.clone_from(&request_id);
        }
        let stream_id = request.stream_id.clone();
        let frame = self.encoded(&request_id, Request::StreamStart(request))?;
        let after = self.0.options.tool_call;
        let until = Instant::now() + after;
        let started = timeout_at(until, self.start(&frame, stream_id)).await;
        let (from, cancel, permit) = started
            .unwrap_or(Err(OrchestratorErrorKind::TimedOut { after, maybe_done: true }))
            .map_err(|kind| self.error(kind))?;
        let mut stream = ToolStream {
            orchestrator: self,
            request_id,
            from,
            frames: FrameDecoder::new(MAX_FRAME),
            first: None,
            received: 0,
            deadline: (after, until),
            cancel,
            _permit: permit,
        };
        match stream.read().await {
            Ok(Streamed::End(end)) if is_not_streamed(end.success, &end.error_code) => Ok(None),
            Ok(first) => {
                stream.first = Some(first);
                Ok(Some(stream))
            }
            Err(OrchestratorError { kind: OrchestratorErrorKind::Remote { code, .. }, .. })
                if is_not_streamed(false, &code) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The request, sent: again only while not a byte of it can have left.
    async fn start(
        &self,
        frame: &Bytes,
        stream_id: String,
    ) -> Result<(Source, CancelOnDrop, SemaphorePermit<'_>), OrchestratorErrorKind> {
        let permit = self.acquire_permit().await?;
        let mut tries = 0;
        loop {
            let error = match &self.0.reconnector {
                Some((reconnector, _)) => {
                    let connection = reconnector.connection().await?;
                    let mut cancel = CancelOnDrop::new(CancelTarget::Quic(connection.clone()), &stream_id);
                    match exchange::send_request(&connection, frame).await {
                        Ok(stream) => return Ok((Source::Quic(connection, stream), cancel, permit)),
                        Err(error) => {
                            cancel.target = None;
                            error
                        }
                    }
                }
                None => {
                    let mut stream = self.connect_tcp().await?;
                    let target = CancelTarget::Tcp(self.0.address.clone(), self.0.options.connect);
                    let mut cancel = CancelOnDrop::new(target, &stream_id);
                    match exchange::send_request_over_tcp(&mut stream, frame).await {
                        Ok(()) => return Ok((Source::Tcp(stream), cancel, permit)),
                        Err(error) => {
                            cancel.target = None;
                            error
                        }
                    }
                }
            };
            tries += 1;
            match error {
                AttemptError::Unsent(_) if tries < MAX_ATTEMPTS => {}
                error => return Err(error.into_kind(true)),
            }
        }
    }
}

impl ToolStream<'_> {
    /// The next bit, or the end; after that there is nothing, and asking again is an error.
    ///
    /// Not cancel-safe: dropped before it is ready, it may have lost a part of a chunk, so what is left is to drop all of
    /// it.
    ///
    /// # Errors
    /// [`OrchestratorError`]: the answer is incomplete, and the tool may have run all the same.
    pub async fn next(&mut self) -> Result<Streamed, OrchestratorError> {
        match self.first.take() {
            Some(first) => Ok(first),
            None => self.read().await,
        }
    }

    async fn read(&mut self) -> Result<Streamed, OrchestratorError> {
        let (after, until) = self.deadline;
        let frame = timeout_at(until, self.frame()).await;
        let frame = frame
            .unwrap_or(Err(OrchestratorErrorKind::TimedOut { after, maybe_done: true }))
            .map_err(|kind| self.orchestrator.error(kind))?;
        let PluginResponse { request_id, response } = self.orchestrator.decoded(frame, true)?;
        self.orchestrator.note_received();
        let Some(response) = response else {
            return Err(self
                .orchestrator
                .error(OrchestratorErrorKind::Unexpected { asked: REQUEST_NAME, maybe_done: true }));
        };
        self.orchestrator.check_id(&self.request_id, request_id, REQUEST_NAME, true)?;
        match response {
            Response::StreamChunk(chunk) => {
                self.received += 1;
                Ok(Streamed::Chunk(chunk))
            }
            Response::StreamEnd(end) => {
                self.finish();
                if end.success && end.total_chunks > self.received {
                    return Err(self.orchestrator.error(OrchestratorErrorKind::Chunks {
                        received: self.received,
                        announced: end.total_chunks,
                    }));
                }
                Ok(Streamed::End(end))
            }
            other => {
                if matches!(other, Response::ToolCall(ToolResponse { success: false, .. })) {
                    self.finish();
                }
                Err(self.orchestrator.unexpected(other, REQUEST_NAME, true))
            }
        }
    }

    async fn frame(&mut self) -> Result<Bytes, OrchestratorErrorKind> {
        let frames = &mut self.frames;
        match &mut self.from {
            Source::Quic(connection, stream) => {
                let read = async {
                    let read = next_frame(frames, &mut stream.receive).await;
                    read.map_err(|error| exchange::read_error(connection, error))
                };
                match &self.orchestrator.0.reconnector {
                    Some((reconnector, _)) => exchange::watched(reconnector, connection, read).await,
                    None => read.await,
                }
            }
            Source::Tcp(stream) => next_frame(frames, stream).await.map_err(exchange::tcp_read_error),
        }
        .map_err(|error| error.into_kind(true))
    }

    /// Nothing follows: there is nothing to give up.
    fn finish(&mut self) {
        self.cancel.target = None;
        if let Source::Quic(_, stream) = &mut self.from {
            stream.answered = true;
        }
    }
}

/// The next frame of several.
async fn next_frame(
    frames: &mut FrameDecoder,
    from: &mut (impl tokio::io::AsyncRead + Unpin),
) -> Result<Bytes, WireError> {
    loop {
        if let Some(frame) = frames.poll_frame()? {
            return Ok(frame);
        }
        if from.read_buf(&mut frames.room()).await? == 0 {
            frames.finish();
            return frames.poll_frame()?.ok_or(WireError::Empty);
        }
    }
}

fn is_not_streamed(success: bool, code: &str) -> bool {
    !success && NOT_STREAMED_CODES.contains(&code)
}

/// Where a `StreamCancel` goes.
#[derive(Debug)]
enum CancelTarget {
    Quic(Connection),
    Tcp(Arc<str>, Duration),
}

/// Says, when it is dropped before the end, that nobody listens any more.
#[derive(Debug)]
struct CancelOnDrop {
    /// `None`: there is nothing to say.
    target: Option<CancelTarget>,
    stream_id: String,
}

impl CancelOnDrop {
    fn new(target: CancelTarget, stream_id: &str) -> Self {
        Self { target: Some(target), stream_id: stream_id.to_owned() }
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some(target) = self.target.take() else { return };
        let stream_id = std::mem::take(&mut self.stream_id);
        let request_id = format!("{stream_id}-cancel");
        let request = Some(Request::StreamCancel(StreamCancel { stream_id }));
        let Ok(frame) = wire::encode(&PluginRequest { request_id, request }) else { return };
        let send_cancel = async move {
            // Whether it was told is all the same to everybody here.
            match target {
                CancelTarget::Quic(connection) => {
                    drop(exchange::exchange_over_quic(&connection, &frame).await)
                }
                CancelTarget::Tcp(address, connect) => {
                    if let Ok(stream) = super::super::tcp(&address, connect).await {
                        drop(exchange::exchange_over_tcp(stream, &frame).await);
                    }
                }
            }
        };
        // Where there is no runtime any more, there is no connection either.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn(timeout(CANCEL_TIMEOUT, send_cancel)));
        }
    }
}
