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
use super::error::{Fault, OrchestratorError, OrchestratorErrorKind};
use super::exchange::{self, Stream};
use super::{Orchestrator, TRIES};
use mcpjoin_quic::endpoint::Connection;

/// How long telling the far end that nobody listens any more may take. Nothing waits for it.
const CANCEL: Duration = Duration::from_secs(5);
/// What was asked, for people.
const NAME: &str = "stream_start";
/// Words of Orchestra's own: nothing has run.
const NOT_STREAMED: [&str; 2] = ["unknown_request", "tool_not_found"];

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
    leaving: StopReason,
    _turn: SemaphorePermit<'a>,
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
        self.look_for_signs_of_life().await?;
        let request_id = self.id("st");
        if request.stream_id.is_empty() {
            request.stream_id.clone_from(&request_id);
        }
        let stream_id = request.stream_id.clone();
        let frame = self.encoded(&request_id, Request::StreamStart(request))?;
        let after = self.0.options.tool_call;
        let until = Instant::now() + after;
        let begun = timeout_at(until, self.begun(&frame, stream_id)).await;
        let (from, leaving, turn) = begun
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
            leaving,
            _turn: turn,
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
    async fn begun(
        &self,
        frame: &Bytes,
        stream_id: String,
    ) -> Result<(Source, StopReason, SemaphorePermit<'_>), OrchestratorErrorKind> {
        let turn = self.turn().await?;
        let mut tries = 0;
        loop {
            let fault = match &self.0.keeping {
                Some((keeping, _)) => {
                    let connection = keeping.connection().await?;
                    let mut leaving = StopReason::new(Far::Quic(connection.clone()), &stream_id);
                    match exchange::begin(&connection, frame).await {
                        Ok(stream) => return Ok((Source::Quic(connection, stream), leaving, turn)),
                        Err(fault) => {
                            leaving.far = None;
                            fault
                        }
                    }
                }
                None => {
                    let mut stream = self.reach().await?;
                    let far = Far::Tcp(self.0.address.clone(), self.0.options.connect);
                    let mut leaving = StopReason::new(far, &stream_id);
                    match exchange::begin_over_tcp(&mut stream, frame).await {
                        Ok(()) => return Ok((Source::Tcp(stream), leaving, turn)),
                        Err(fault) => {
                            leaving.far = None;
                            fault
                        }
                    }
                }
            };
            tries += 1;
            match fault {
                Fault::Unsent(_) if tries < TRIES => {}
                fault => return Err(kind_of(fault)),
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
        self.orchestrator.has_heard();
        let Some(response) = response else {
            return Err(self
                .orchestrator
                .error(OrchestratorErrorKind::Unexpected { asked: NAME, maybe_done: true }));
        };
        self.orchestrator.is_ours(&self.request_id, request_id, NAME, true)?;
        match response {
            Response::StreamChunk(chunk) => {
                self.received += 1;
                Ok(Streamed::Chunk(chunk))
            }
            Response::StreamEnd(end) => {
                self.over();
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
                    self.over();
                }
                Err(self.orchestrator.unexpected(other, NAME, true))
            }
        }
    }

    async fn frame(&mut self) -> Result<Bytes, OrchestratorErrorKind> {
        let frames = &mut self.frames;
        match &mut self.from {
            Source::Quic(connection, stream) => {
                let read = async {
                    let read = frame_from(frames, &mut stream.receive).await;
                    read.map_err(|error| exchange::fault_of_reading(connection, error))
                };
                match &self.orchestrator.0.keeping {
                    Some((keeping, _)) => exchange::watched(keeping, connection, read).await,
                    None => read.await,
                }
            }
            Source::Tcp(stream) => frame_from(frames, stream).await.map_err(exchange::fault_over_tcp),
        }
        .map_err(kind_of)
    }

    /// Nothing follows: there is nothing to give up.
    fn over(&mut self) {
        self.leaving.far = None;
        if let Source::Quic(_, stream) = &mut self.from {
            stream.answered = true;
        }
    }
}

/// The next frame of several.
async fn frame_from(
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
    !success && NOT_STREAMED.contains(&code)
}

fn kind_of(fault: Fault) -> OrchestratorErrorKind {
    match fault {
        Fault::Unsent(why) => OrchestratorErrorKind::Lost { why, maybe_done: false },
        Fault::Lost(why) => OrchestratorErrorKind::Lost { why, maybe_done: true },
        Fault::Answer(error) => OrchestratorErrorKind::Answer { error: Arc::new(error), maybe_done: true },
    }
}

/// Where a `StreamCancel` goes.
#[derive(Debug)]
enum Far {
    Quic(Connection),
    Tcp(Arc<str>, Duration),
}

/// Says, when it is dropped before the end, that nobody listens any more.
#[derive(Debug)]
struct StopReason {
    /// `None`: there is nothing to say.
    far: Option<Far>,
    stream_id: String,
}

impl StopReason {
    fn new(far: Far, stream_id: &str) -> Self {
        Self { far: Some(far), stream_id: stream_id.to_owned() }
    }
}

impl Drop for StopReason {
    fn drop(&mut self) {
        let Some(far) = self.far.take() else { return };
        let stream_id = std::mem::take(&mut self.stream_id);
        let request_id = format!("{stream_id}-cancel");
        let request = Some(Request::StreamCancel(StreamCancel { stream_id }));
        let Ok(frame) = wire::encode(&PluginRequest { request_id, request }) else { return };
        let told = async move {
            // Whether it was told is all the same to everybody here.
            match far {
                Far::Quic(connection) => drop(exchange::over_quic(&connection, &frame).await),
                Far::Tcp(address, connect) => {
                    if let Ok(stream) = super::super::tcp(&address, connect).await {
                        drop(exchange::over_tcp(stream, &frame).await);
                    }
                }
            }
        };
        // Where there is no runtime any more, there is no connection either.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn(timeout(CANCEL, told)));
        }
    }
}
