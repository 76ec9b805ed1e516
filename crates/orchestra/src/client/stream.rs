//! Tools that stream their result: a `StreamStart`, then chunks on the same stream until a `StreamEnd`.
//!
//! Used by [`Bridge`](super::Bridge) for the tools named in its options. Plugins and the TCP port of newer programs
//! support it. The orchestrator of Orchestra 1.0 rejects the request as unknown; then the tool has not run.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, timeout, timeout_at};

use super::super::wire::{
    self, FrameDecoder, MAX_FRAME, PluginRequest, PluginResponse, StreamCancel, StreamChunk, StreamEnd,
    StreamStart, ToolResponse, plugin_request::Request, plugin_response::Response,
};
use super::error::{AttemptError, OrchestratorError, OrchestratorErrorKind};
use super::exchange::{self, Stream};
use super::{MAX_ATTEMPTS, Orchestrator};
use mcpjoin_quic::endpoint::Connection;

/// Time limit for sending a `StreamCancel`, in the background.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// The name of the request in errors.
const REQUEST_NAME: &str = "stream_start";
/// Orchestra's error codes that mean the tool has not run.
const NOT_STREAMED_CODES: [&str; 2] = ["unknown_request", "tool_not_found"];

/// A part of a streamed result.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StreamItem {
    /// A chunk.
    Chunk(StreamChunk),
    /// The end of the stream. [`StreamEnd::success`] says whether the tool succeeded.
    End(StreamEnd),
}

/// The streamed result of a tool. Dropping it before its end resets the stream and sends a `StreamCancel` on another
/// stream, the only place where servers read one. The tool may go on running.
#[derive(Debug)]
pub struct ToolStream<'a> {
    orchestrator: &'a Orchestrator,
    request_id: String,
    from: Source,
    frames: FrameDecoder,
    /// The first part, which was read to find out whether the tool streams.
    first: Option<StreamItem>,
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
    /// Calls a tool that streams its result, at most once. The time limit
    /// ([`OrchestratorOptions::tool_call`](super::OrchestratorOptions::tool_call)) covers the whole stream. An empty
    /// `stream_id` becomes the id of the request.
    ///
    /// Returns `None` if the server does not stream this tool and has not run it. Then [`Orchestrator::tool_call`] may
    /// be used.
    ///
    /// # Errors
    /// [`OrchestratorError`], which says whether the tool may have run.
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
            Ok(StreamItem::End(end)) if is_not_streamed(end.success, &end.error_code) => Ok(None),
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

    /// Sends the request. Retries only if no byte of it was sent.
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
    /// Returns the next chunk or the end. Calling it after the end is an error.
    ///
    /// Not cancel-safe: dropping the future may lose a part of a chunk. Then drop the whole stream.
    ///
    /// # Errors
    /// [`OrchestratorError`]: the result is incomplete, and the tool may have run.
    pub async fn next(&mut self) -> Result<StreamItem, OrchestratorError> {
        match self.first.take() {
            Some(first) => Ok(first),
            None => self.read().await,
        }
    }

    async fn read(&mut self) -> Result<StreamItem, OrchestratorError> {
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
                Ok(StreamItem::Chunk(chunk))
            }
            Response::StreamEnd(end) => {
                self.finish();
                if end.success && end.total_chunks > self.received {
                    return Err(self.orchestrator.error(OrchestratorErrorKind::Chunks {
                        received: self.received,
                        announced: end.total_chunks,
                    }));
                }
                Ok(StreamItem::End(end))
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
                    let read = wire::next_frame(frames, &mut stream.receive).await;
                    read.map_err(|error| exchange::read_error(connection, error))
                };
                match &self.orchestrator.0.reconnector {
                    Some((reconnector, _)) => exchange::watched(reconnector, connection, read).await,
                    None => read.await,
                }
            }
            Source::Tcp(stream) => wire::next_frame(frames, stream).await.map_err(exchange::tcp_read_error),
        }
        .map_err(|error| error.into_kind(true))
    }

    /// Marks the stream as complete, so that dropping it cancels nothing.
    fn finish(&mut self) {
        self.cancel.target = None;
        if let Source::Quic(_, stream) = &mut self.from {
            stream.answered = true;
        }
    }
}

fn is_not_streamed(success: bool, code: &str) -> bool {
    !success && NOT_STREAMED_CODES.contains(&code)
}

/// Where to send a `StreamCancel`.
#[derive(Debug)]
enum CancelTarget {
    Quic(Connection),
    Tcp(Arc<str>, Duration),
}

/// Sends a `StreamCancel` if it is dropped before the end of the stream.
#[derive(Debug)]
struct CancelOnDrop {
    /// `None` if there is nothing to cancel.
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
            // Nothing depends on whether the cancellation arrives.
            match target {
                CancelTarget::Quic(connection) => {
                    drop(exchange::over_quic(&connection, &frame).await);
                }
                CancelTarget::Tcp(address, connect) => {
                    if let Ok(stream) = super::super::tcp(&address, connect).await {
                        drop(exchange::over_tcp(stream, &frame).await);
                    }
                }
            }
        };
        // Without a runtime there is no connection either.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn(timeout(CANCEL_TIMEOUT, send_cancel)));
        }
    }
}
