//! The progress of responses over HTTP/2.
//!
//! Used by `serve` alone; in another program's server the streams are not ours. A client that leaves the window of a stream
//! closed (<https://www.rfc-editor.org/rfc/rfc9113#section-5.2>) keeps its response in memory while the connection itself
//! works. So progress is measured for each stream: when there are bytes to send and none of them is sent for too long, the
//! stream is reset and its bytes are dropped.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use crate::sync::Mutex;
use bytes::{Buf, Bytes};
use hyper::rt::Executor;
use tokio::time::{Instant, sleep_until};

use crate::warning_rate::WarningRate;

tokio::task_local! {
    /// The state of the stream that is being polled.
    static CURRENT: Arc<ResponseProgress>;
}

/// The bytes of a response that the HTTP library has and has not sent.
#[derive(Default)]
pub(super) struct ResponseProgress(Mutex<Flow>);

#[derive(Default)]
struct Flow {
    bytes: usize,
    /// When the last of them was sent, or the first of them was queued. `None`: there are none.
    since: Option<Instant>,
    /// The waker of the response, which ends when no bytes are left.
    waker: Option<Waker>,
}

impl ResponseProgress {
    /// The state of the stream that is being polled; `None` over HTTP/1.1.
    pub(super) fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    fn since(&self) -> Option<Instant> {
        self.0.lock().since
    }

    fn add(&self, bytes: usize) {
        let mut flow = self.0.lock();
        flow.bytes += bytes;
        if bytes > 0 {
            flow.since.get_or_insert_with(Instant::now);
        }
    }

    fn remove(&self, bytes: usize) {
        let mut flow = self.0.lock();
        flow.bytes -= bytes;
        let (since, waker) = match flow.bytes {
            0 => (None, flow.waker.take()),
            _ => (Some(Instant::now()), None),
        };
        flow.since = since;
        drop(flow);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().bytes == 0
    }

    /// Ready when everything is sent. The end of a response waits for it: the HTTP library cannot reset a stream whose end it
    /// has received.
    pub(super) fn poll_empty(&self, cx: &Context<'_>) -> Poll<()> {
        let mut flow = self.0.lock();
        if flow.bytes == 0 {
            return Poll::Ready(());
        }
        flow.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// A piece of a response. It records how much of it is sent.
pub(super) struct Piece {
    bytes: Bytes,
    progress: Option<Arc<ResponseProgress>>,
}

impl Piece {
    pub(super) fn new(bytes: Bytes, progress: Option<&Arc<ResponseProgress>>) -> Self {
        if let Some(progress) = progress {
            progress.add(bytes.len());
        }
        Self { bytes, progress: progress.cloned() }
    }

    fn note(&self, bytes: usize) {
        if let Some(progress) = self.progress.as_ref().filter(|_| bytes > 0) {
            progress.remove(bytes);
        }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, sent: usize) {
        self.bytes.advance(sent);
        self.note(sent);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.note(self.bytes.len());
    }
}

/// Runs the streams of a connection, and drops one that makes no progress for too long, which resets it.
#[derive(Clone)]
pub(super) struct Streams {
    pub(super) stall_time: Duration,
    pub(super) peer: SocketAddr,
    /// The warnings about clients that do not read.
    pub(super) stalls: Arc<WarningRate<()>>,
}

impl Streams {
    fn stalled(&self) {
        tracing::debug!(target: "mcpjoin", peer = %self.peer, "a response over HTTP/2 was not taken");
        if let Some(left_out) = self.stalls.due(()) {
            tracing::warn!(target: "mcpjoin", client = %self.peer, limit = ?self.stall_time, left_out, "a response was dropped: its client has not read it");
        }
    }
}

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        tokio::spawn(supervise(stream, self.clone()));
    }
}

async fn supervise(stream: impl Future<Output = ()>, streams: Streams) {
    let progress = Arc::new(ResponseProgress::default());
    let mut stream = pin!(CURRENT.scope(progress.clone(), stream));
    let mut timer = None;
    poll_fn(|cx| {
        if stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        // Bytes are queued only while the stream is polled, so none are missed here.
        while let Some(since) = progress.since() {
            let due = since + streams.stall_time;
            let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
            // It may be set to a time before the last progress, and is reset only when that has passed.
            ready!(timer.as_mut().poll(cx));
            if Instant::now() >= due {
                streams.stalled();
                return Poll::Ready(());
            }
            timer.as_mut().reset(due);
        }
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::SocketAddr;

    use http::{Request, Response};
    use hyper::body::Incoming;
    use hyper::server::conn::http2;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use mcpjoin_proto::Raw;
    use mcpjoin_proto::session::Origin;
    use mcpjoin_proto::types::Tool;
    use mcpjoin_test_support::events::{Told, hearing};
    use serde_json::json;
    use tokio::io::{AsyncRead, AsyncWrite, duplex};
    use tokio::net::TcpStream;
    use tokio::sync::{mpsc, oneshot};
    use tokio::time::{interval, timeout};

    use super::super::long_lived::ResponseBody;
    use super::super::memory::{Bound, Memory, Traffic};
    use super::super::time_limits::{ActiveRequest, Activity};
    use super::super::{HttpBody, HttpListener, HttpOptions};
    use super::*;
    use crate::Server;

    /// A client whose streams have this window, and the task of its connection.
    async fn client<S>(io: S, window: u32) -> h2::client::SendRequest<Bytes>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(window).initial_connection_window_size(1 << 24);
        let (client, connection) = builder.handshake(io).await.expect("a connection");
        tokio::spawn(async move {
            let _ = connection.await;
        });
        client
    }

    fn is_reset(end: Result<Bytes, h2::Error>) -> bool {
        end.is_err_and(|error| error.is_reset() && error.reason() == Some(h2::Reason::CANCEL))
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_takes_nothing_is_reset_and_one_that_takes_a_byte_now_and_then_is_not() {
        const LENGTH: usize = 40;
        const STALL_TIMEOUT: Duration = Duration::from_secs(30);
        let bound = Bound { all: 1 << 20, each: 1 << 20 };
        let memory = Memory::new(bound, bound);
        let account = memory.account(&Origin::new("http"));
        let (far, near) = duplex(1 << 20);
        let served = service_fn(move |_: Request<Incoming>| {
            let bytes = account.hold(Traffic::Responses, vec![b'x'; LENGTH].into()).expect("room");
            async move {
                let (progress, answering) =
                    (ResponseProgress::current(), ActiveRequest::new(&Activity::new(), true));
                assert!(progress.is_some(), "each stream has one");
                Ok::<_, Infallible>(Response::new(ResponseBody::Here {
                    body: HttpBody::whole(bytes),
                    progress,
                    answering,
                }))
            }
        });
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let streams = Streams { stall_time: STALL_TIMEOUT, peer, stalls: Arc::default() };
        let builder = http2::Builder::new(streams);
        tokio::spawn(builder.serve_connection(TokioIo::new(near), served));
        let mut client = client(far, 1).await;
        let mut responses = Vec::new();
        for _ in 0..2 {
            let (response, _) = client.send_request(Request::new(()), true).expect("a stream");
            responses.push(response.await.expect("a response").into_body());
        }
        let [mut slow, mut stalled] = <[_; 2]>::try_from(responses).expect("two");
        let began = Instant::now();
        let reads = async {
            let mut read = 0;
            let mut pace = interval(STALL_TIMEOUT - Duration::from_secs(1));
            while let Some(bytes) = slow.data().await {
                let length = bytes.expect("it is never cut").len();
                read += length;
                pace.tick().await;
                slow.flow_control().release_capacity(length).expect("as much was received");
            }
            read
        };
        let waits = async {
            assert_eq!(stalled.data().await.expect("a byte").expect("the first"), "x");
            let end = timeout(10 * STALL_TIMEOUT, stalled.data()).await.expect("it is not reset");
            assert!(is_reset(end.expect("the end")));
            let passed = began.elapsed();
            assert!((STALL_TIMEOUT..STALL_TIMEOUT + Duration::from_secs(1)).contains(&passed), "{passed:?}");
            assert_eq!(memory.held(Traffic::Responses), LENGTH, "of the other one");
        };
        let (read, ()) = tokio::join!(reads, waits);
        assert_eq!(read, LENGTH);
        assert!(began.elapsed() > 20 * STALL_TIMEOUT);
        assert_eq!(memory.held(Traffic::Responses), 0);
    }

    #[test]
    fn responses_for_windows_that_stay_closed_are_dropped_and_named_and_the_connection_lives() {
        let (told, mut lines) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        hearing(Told(told), || runtime.block_on(responses_that_are_not_taken()));
        let warnings = std::iter::from_fn(|| lines.try_recv().ok());
        let warnings: Vec<String> = warnings.filter(|line| line.contains("has not read it")).collect();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
    }

    async fn responses_that_are_not_taken() {
        const CALLS: usize = 20;
        let server = Server::builder("s", "1")
            .raw_tool(Tool::new("long", Raw::parse(r#"{"type":"object"}"#).expect("JSON")), |_, _| async {
                "x".repeat(1 << 20)
            })
            .build()
            .expect("a server");
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.expect("a port");
        let address: SocketAddr = listener.address();
        let service = server.http(HttpOptions::new().stall_time(Duration::from_secs(2)));
        let (end, ended) = oneshot::channel::<()>();
        let serving = tokio::spawn(listener.serve(service.clone(), async {
            let _ = ended.await;
        }));
        let mut client = client(TcpStream::connect(address).await.expect("a connection"), 0).await;
        let request = |body: &serde_json::Value| {
            let request = Request::post(format!("http://{address}/mcp"))
                .header("content-type", "application/json")
                .header("accept", "application/json, text/event-stream")
                .header("mcp-protocol-version", "2026-07-28")
                .header("mcp-method", "tools/call")
                .header("mcp-name", "long");
            (request.body(()).expect("a request"), Bytes::from(body.to_string()))
        };
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "long", "arguments": {}, "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {}
            }
        } });
        let mut bodies = Vec::new();
        for _ in 0..CALLS {
            let (head, body) = request(&call);
            client = client.ready().await.expect("a stream");
            let (response, mut sending) = client.send_request(head, false).expect("a stream");
            sending.send_data(body, true).expect("a body");
            let response = response.await.expect("a response");
            assert_eq!(response.status(), 200);
            bodies.push(response.into_body());
        }
        for mut body in bodies {
            let end = timeout(Duration::from_secs(50), body.data()).await.expect("it is not reset");
            assert!(is_reset(end.expect("the end")));
        }
        assert_eq!((service.response_bytes(), service.body_bytes()), (0, 0));
        // A response without a body needs no window.
        let (head, body) =
            request(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28"
        } } }));
        client = client.ready().await.expect("the connection lives");
        let (response, mut sending) = client.send_request(head, false).expect("a stream");
        sending.send_data(body, true).expect("a body");
        assert!(response.await.is_ok());
        drop(client);
        end.send(()).expect("it listens");
        serving.await.expect("it has ended");
    }
}
