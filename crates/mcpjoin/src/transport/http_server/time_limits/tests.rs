//! Tests of a connection's timeouts, in virtual time, over an in-memory pipe.

use mcpjoin_test_support::events::{Told, hearing};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinHandle;
use tokio::time::{timeout, timeout_at};

use super::*;
use crate::Server;
use crate::transport::HttpOptions;
use mcpjoin_proto::Raw;
use mcpjoin_proto::types::Tool;

/// The default of `HttpOptions::header_time`, in seconds.
const HEAD: u64 = 10;

fn run(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async { timeout(Duration::from_secs(36_000), test).await.expect("the test hangs") });
}

/// The client's end of a served connection.
struct Client {
    stream: DuplexStream,
    served: JoinHandle<()>,
    gate: Arc<Semaphore>,
    began: Instant,
    /// Kept open, because its drop would end all connections.
    _ending: watch::Sender<bool>,
}

impl Client {
    fn new(options: HttpOptions) -> Self {
        let (stream, other) = duplex(16 * 1024);
        Self::over(stream, other, options)
    }

    fn over<T>(stream: DuplexStream, other: T, options: HttpOptions) -> Self
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let gate = Arc::new(Semaphore::new(0));
        let wait = gate.clone();
        let any = || Raw::parse(r#"{"type":"object"}"#).unwrap();
        let server = Server::builder("s", "1")
            .raw_tool(Tool::new("large", any()), |_, _| async move { "x".repeat(200_000) })
            .raw_tool(Tool::new("wait", any()), move |_, _| {
                let wait = wait.clone();
                async move {
                    wait.acquire().await.unwrap().forget();
                    "waited".to_owned()
                }
            })
            .build()
            .unwrap();
        let (ending, ended) = watch::channel(false);
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let serving = super::super::serve::connection(other, peer, server.http(options), ended);
        let served = tokio::spawn(serving);
        Self { stream, served, gate, began: Instant::now(), _ending: ending }
    }

    async fn says(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Reads until this text, and returns everything up to and including it.
    async fn up_to(&mut self, end: &str) -> String {
        let mut all = Vec::new();
        while !all.ends_with(end.as_bytes()) {
            all.push(self.stream.read_u8().await.unwrap_or_else(|_| panic!("{}", all.escape_ascii())));
        }
        String::from_utf8(all).unwrap()
    }

    /// Reads the rest of the stream.
    async fn rest(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        self.stream.read_to_end(&mut all).await.unwrap();
        all
    }

    /// Waits until the connection is closed, and returns its age then, in whole seconds.
    async fn closed(&mut self) -> u64 {
        (&mut self.served).await.unwrap();
        self.seconds()
    }

    fn seconds(&self) -> u64 {
        self.began.elapsed().as_secs()
    }

    /// Waits until the connection has this age in seconds.
    async fn at(&self, seconds: u64) {
        let until = self.began + Duration::from_secs(seconds);
        let _ = timeout_at(until, std::future::pending::<()>()).await;
    }
}

fn body(tool: &str) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    let params = json!({ "name": tool, "arguments": {}, "_meta": meta });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string()
}

fn headers(tool: &str) -> [(&str, &str); 5] {
    [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", tool),
    ]
}

fn call_with(tool: &str, length: &str, body: &str) -> String {
    let headers: String = headers(tool).iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\n{headers}{length}\r\n\r\n{body}")
}

fn call(tool: &str) -> String {
    let body = body(tool);
    call_with(tool, &format!("content-length: {}", body.len()), &body)
}

/// A request that is refused at once without a body, on a connection that stays open.
const SMALL: &str = "PUT /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n";

#[test]
fn a_connection_that_is_kept_alive_is_closed_after_the_idle_limit() {
    run(async {
        // The header timeout has no effect on this.
        for header_time in [1, 3600] {
            let mut client = Client::new(HttpOptions::new().header_time(Duration::from_secs(header_time)));
            client.says(SMALL).await;
            assert!(client.up_to("\r\n\r\n").await.starts_with("HTTP/1.1 405"));
            client.at(80).await;
            client.says(SMALL).await;
            client.up_to("\r\n\r\n").await;
            assert_eq!(client.rest().await, b"");
            assert_eq!(client.closed().await, 80 + IDLE_TIMEOUT.as_secs(), "{header_time}");
        }
    });
}

#[test]
fn a_head_has_its_own_limit_from_its_first_byte_on_and_none_behind_its_last() {
    run(async {
        let (ahead, behind) = SMALL.split_at(20);
        // The client sends nothing, or the beginning of the first head.
        for ahead in ["", "\r\n", "P", "PRI", ahead] {
            let mut client = Client::new(HttpOptions::new());
            client.says(ahead).await;
            assert_eq!(client.closed().await, HEAD, "{ahead:?}");
        }
        // The idle timeout passes meanwhile.
        let mut client = Client::new(HttpOptions::new());
        client.says(SMALL).await;
        client.up_to("\r\n\r\n").await;
        client.at(85).await;
        client.says(ahead).await;
        client.at(94).await;
        client.says(behind).await;
        assert!(client.up_to("\r\n\r\n").await.starts_with("HTTP/1.1 405"));
        client.at(170).await;
        client.says(ahead).await;
        assert_eq!(client.closed().await, 170 + HEAD);
        // A call has no timeout here, and the timeout of a head behind it starts when the call ends.
        let mut client = Client::new(HttpOptions::new().keep_alive(Duration::from_secs(1000)));
        client.says(call("wait") + ahead).await;
        client.at(500).await;
        client.gate.add_permits(1);
        client.up_to("}").await;
        client.at(508).await;
        client.says(&behind[..2]).await;
        assert_eq!(client.closed().await, 500 + HEAD);
    });
}

#[test]
fn a_client_that_takes_nothing_is_given_up_and_named_and_one_that_takes_a_little_is_not() {
    let (tell, mut told) = unbounded_channel();
    let test = async {
        let mut client = Client::new(HttpOptions::new());
        client.says(call("large")).await;
        assert_eq!(client.closed().await, STALL_TIMEOUT.as_secs());
        let mut client = Client::new(HttpOptions::new());
        client.says(call("large")).await;
        for time in 1..=10 {
            client.at(time * (STALL_TIMEOUT.as_secs() - 1)).await;
            assert!(!client.served.is_finished(), "{time}");
            client.stream.read_exact(&mut [0; 64]).await.unwrap();
        }
        // The idle timeout starts when the client has read the response, however late that is.
        let taken = client.seconds();
        let rest = String::from_utf8(client.rest().await).unwrap();
        assert!(rest.contains(&"x".repeat(190_000)) && rest.ends_with('}'));
        assert_eq!(client.closed().await, taken + IDLE_TIMEOUT.as_secs());
    };
    hearing(Told(tell), || run(test));
    let told: Vec<String> = std::iter::from_fn(|| told.try_recv().ok()).collect();
    let named = |text: &&String| text.contains("client: 127.0.0.1:1;") && text.contains("has not read");
    assert_eq!(told.iter().filter(named).count(), 1, "{told:?}");
}

#[test]
fn the_rest_of_a_body_that_is_refused_for_its_length_has_five_seconds() {
    run(async {
        for more in [None, Some(4)] {
            let mut client = Client::new(HttpOptions::new());
            client.says(call_with("large", &format!("content-length: {}", 11 << 20), "")).await;
            if let Some(seconds) = more {
                client.at(seconds).await;
                client.says("x").await;
            }
            assert!(client.up_to("\r\n\r\n").await.starts_with("HTTP/1.1 413"));
            assert_eq!(client.began.elapsed().as_millis(), 5000, "{more:?}");
        }
    });
}

// ---- content lengths ----

#[test]
fn two_lengths_are_refused_whatever_comes_before_and_behind() {
    run(async {
        let chunked = |length: &str| {
            let body = body("large");
            call_with("large", length, &format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()))
        };
        let good = chunked("transfer-encoding: chunked");
        for lengths in [
            "content-length: 5\r\ntransfer-encoding: chunked",
            "transfer-encoding: chunked\r\ncontent-length: 5",
            "Transfer-Encoding: chunked\r\nx: y\r\nContent-Length: 0\r\ncontent-length: 0",
        ] {
            for ahead in
                [String::new(), SMALL.to_owned(), call_with("x", "content-length: 2", "{}"), good.clone()]
            {
                for pieces in [1, 2, 7] {
                    let mut client = Client::new(HttpOptions::new());
                    let all = format!("{ahead}{}{good}", chunked(lengths));
                    for piece in all.as_bytes().chunks(all.len().div_ceil(pieces)) {
                        // The server may have closed the connection already.
                        let _ = client.stream.write_all(piece).await;
                        tokio::task::yield_now().await;
                    }
                    let answers = String::from_utf8(client.rest().await).unwrap();
                    let statuses: Vec<_> =
                        answers.match_indices("HTTP/1.1 ").map(|(at, _)| &answers[at + 9..at + 12]).collect();
                    let last = answers.rfind("HTTP/1.1 ").map(|at| &answers[at..]).unwrap();
                    assert!(last.contains("connection: close"), "{last}");
                    let count = 1 + usize::from(!ahead.is_empty());
                    assert_eq!((statuses.len(), statuses.last()), (count, Some(&"400")), "{lengths} {ahead}");
                }
            }
        }
        let mut client = Client::new(HttpOptions::new());
        client.says(good + SMALL).await;
        assert!(client.up_to("\r\n\r\n").await.starts_with("HTTP/1.1 200"));
    });
}

// ---- scripted HTTP/2 frames ----

const GOAWAY: u8 = 7;
const PING: u8 = 6;
const ACK: u8 = 1;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// An HTTP/2 call of a tool: its head, and its body.
fn http2_call(stream: u32, tool: &str) -> Vec<u8> {
    let mut block = vec![0x83, 0x86];
    for (name, value) in [(":path", "/mcp"), (":authority", "localhost")].into_iter().chain(headers(tool)) {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    let mut request = frame(1, 4, stream, &block);
    request.extend(frame(0, 1, stream, body(tool).as_bytes()));
    request
}

impl Client {
    async fn http2(options: HttpOptions) -> Self {
        let mut client = Self::new(options);
        client.says(HTTP2_PREFACE).await;
        client.says(frame(4, 0, 0, &[])).await;
        client
    }

    /// The next frame except settings: its type, its flags, its stream, its payload. `None` at the end.
    async fn frame(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).await.ok()?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            self.stream.read_exact(&mut payload).await.unwrap();
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            if !matches!(head[3], 4 | 8) {
                return Some((head[3], head[4], stream, payload));
            }
        }
    }

    /// Reads to the end of the response on this stream.
    async fn replied(&mut self, to: u32) -> Value {
        let mut text = Vec::new();
        loop {
            let (kind, flags, stream, payload) = self.frame().await.expect("a reply");
            if (kind, stream) == (0, to) {
                text.extend(payload);
                if flags & 1 == 1 {
                    return serde_json::from_slice(&text).unwrap();
                }
            }
        }
    }

    async fn waits(&mut self, stream: u32) {
        self.gate.add_permits(1);
        self.says(http2_call(stream, "wait")).await;
        assert_eq!(self.replied(stream).await["result"]["content"][0]["text"], "waited");
    }
}

#[test]
fn http_2_at_rest_is_ended_in_order_after_the_idle_limit_and_not_before() {
    run(async {
        let mut client = Client::http2(HttpOptions::new()).await;
        client.waits(1).await;
        // Frames that are no requests start no header timeout, and do not restart the idle timeout.
        for time in [1, 40, 80] {
            client.at(time).await;
            client.says(frame(PING, 0, 0, &[7; 8])).await;
            assert_eq!(client.frame().await, Some((PING, ACK, 0, vec![7; 8])));
            client.says(frame(8, 0, 0, &[0, 0, 0, 1])).await;
        }
        let (kind, _, _, payload) = client.frame().await.unwrap();
        assert_eq!((kind, client.seconds()), (GOAWAY, IDLE_TIMEOUT.as_secs()));
        assert_eq!(payload[..8], [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0], "no error, and no request is refused");
        let (kind, flags, _, payload) = client.frame().await.unwrap();
        assert_eq!((kind, flags), (PING, 0));
        client.says(frame(PING, ACK, 0, &payload)).await;
        let (kind, _, _, payload) = client.frame().await.unwrap();
        assert_eq!((kind, &payload[..8]), (GOAWAY, &[0, 0, 0, 1, 0, 0, 0, 0][..]));
        assert_eq!(client.frame().await, None);
        assert_eq!(client.closed().await, IDLE_TIMEOUT.as_secs());
    });
}

#[test]
fn a_request_that_crosses_goaway_is_answered() {
    run(async {
        let options = HttpOptions::new().keep_alive(Duration::from_secs(1000));
        let mut client = Client::http2(options).await;
        client.waits(1).await;
        assert_eq!(client.frame().await.map(|frame| frame.0), Some(GOAWAY));
        client.says(http2_call(3, "wait")).await;
        client.at(500).await;
        client.gate.add_permits(1);
        assert_eq!(client.replied(3).await["result"]["content"][0]["text"], "waited");
        // The client has not acknowledged GOAWAY; the server waits only for the close timeout.
        assert_eq!(client.closed().await, 500 + CLOSE_TIMEOUT.as_secs());
    });
}

#[test]
fn http_2_without_a_request_is_given_up_like_a_head_that_does_not_come() {
    run(async {
        let mut client = Client::http2(HttpOptions::new()).await;
        client.at(HEAD - 1).await;
        client.says(frame(PING, 0, 0, &[7; 8])).await;
        assert_eq!(client.closed().await, HEAD);
        // A client that does not answer GOAWAY.
        let mut client = Client::http2(HttpOptions::new()).await;
        client.waits(1).await;
        assert_eq!(client.closed().await, (IDLE_TIMEOUT + CLOSE_TIMEOUT).as_secs());
    });
}

// ---- the first bytes ----

/// A stream that counts its reads.
struct Counting {
    stream: DuplexStream,
    reads: Arc<AtomicUsize>,
}

impl AsyncRead for Counting {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Counting {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[test]
fn a_client_that_has_said_a_part_of_the_preface_is_read_when_it_says_more_and_not_before() {
    run(async {
        let reads = Arc::new(AtomicUsize::new(0));
        let (stream, other) = duplex(16 * 1024);
        let other = Counting { stream: other, reads: reads.clone() };
        let mut client = Client::over(stream, other, HttpOptions::new());
        for byte in &HTTP2_PREFACE[..4] {
            client.says([*byte]).await;
            tokio::task::yield_now().await;
        }
        assert_eq!(client.closed().await, HEAD);
        // One read for each byte, and a pending one after it.
        assert!(reads.load(Ordering::Relaxed) <= 10, "{reads:?}");
    });
}

#[test]
fn the_first_bytes_may_come_one_by_one() {
    run(async {
        let mut client = Client::new(HttpOptions::new());
        for byte in HTTP2_PREFACE.iter().chain(&frame(4, 0, 0, &[])).chain(&http2_call(1, "wait")) {
            client.says([*byte]).await;
            tokio::task::yield_now().await;
        }
        client.gate.add_permits(1);
        client.replied(1).await;
        let mut client = Client::new(HttpOptions::new());
        for byte in SMALL.replace("PUT", "PRI").as_bytes() {
            client.says([*byte]).await;
            tokio::task::yield_now().await;
        }
        assert!(client.up_to("\r\n\r\n").await.starts_with("HTTP/1.1 405"));
        // A client that closes the connection before it has shown its HTTP version.
        let mut client = Client::new(HttpOptions::new());
        client.says("PRI").await;
        client.stream.shutdown().await.unwrap();
        assert_eq!(client.closed().await, 0);
    });
}
