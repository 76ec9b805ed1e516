//! Tests of the HTTP server over raw TCP sockets: reliability group F, where single bytes and connections matter.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mcpjoin::proto::codec::sse::{SseDecoder, SseEvent};
use mcpjoin::proto::session::Limits;
use mcpjoin::server::ServerHandle;
use mcpjoin::transport::{HttpListenError, HttpListener, HttpOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::{Gate, LEGACY, MODERN, builder, call, initialize, modern, run_for_real, text, until};

/// A server that listens, and the means to stop it.
struct Listening {
    address: SocketAddr,
    gate: Gate,
    handle: ServerHandle,
    end: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

impl Listening {
    async fn new(options: HttpOptions) -> Self {
        Self::with_limits(options, Limits::default()).await
    }

    async fn with_limits(options: HttpOptions, limits: Limits) -> Self {
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
        Self::at(listener, options, limits)
    }

    fn at(listener: HttpListener, options: HttpOptions, limits: Limits) -> Self {
        let gate = Gate::new();
        let server = builder(&gate).limits(limits).build().unwrap();
        let handle = server.handle();
        let address = listener.address();
        let (end, ended) = oneshot::channel::<()>();
        let serving = tokio::spawn(async move {
            server
                .serve_http(listener, options, async {
                    let _ = ended.await;
                })
                .await;
        });
        Self { address, gate, handle, end: Some(end), serving }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends a request and reads until the server closes the connection.
    async fn says(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        to_end(&mut stream).await
    }

    /// Sends a modern call and returns the whole response.
    async fn calls(&self, tool: &str) -> String {
        self.says(&modern_call(1, tool)).await
    }

    async fn is_served(&self) {
        assert!(self.calls("echo").await.starts_with("HTTP/1.1 200"));
    }

    async fn ends(mut self) {
        let _ = self.end.take().unwrap().send(());
        self.serving.await.unwrap();
    }
}

/// Reads to the end of the stream, or to the point where the connection broke.
async fn to_end(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let mut piece = [0; 16 * 1024];
    while let Ok(length @ 1..) = stream.read(&mut piece).await {
        all.extend_from_slice(&piece[..length]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

fn post(headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
}

fn modern_call(id: i64, tool: &str) -> String {
    let body = modern(id, "tools/call", json!({ "name": tool, "arguments": {} })).to_string();
    let headers = format!("mcp-protocol-version: {MODERN}\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n");
    post(&headers, &body)
}

/// Opens a session and returns its headers.
async fn open(listening: &Listening) -> String {
    let response = listening.says(&post("", &initialize(LEGACY, json!({})).to_string())).await;
    let id = response.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    let headers = format!("mcp-session-id: {id}\r\nmcp-protocol-version: {LEGACY}\r\n");
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    assert!(listening.says(&post(&headers, &initialized)).await.starts_with("HTTP/1.1 202"));
    headers
}

fn body(response: &str) -> &str {
    response.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

#[test]
fn a_handshake_has_the_time_of_a_head_and_its_failure_ends_only_its_connection() {
    run_for_real(async {
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
        // A handshake of one byte, in the place of TLS.
        let listener = listener.secured(|mut stream: TcpStream| async move {
            match stream.read_u8().await? {
                b'+' => Ok(stream),
                _ => Err(std::io::Error::other("a wrong handshake")),
            }
        });
        assert!(listener.url().starts_with("https://127.0.0.1:"), "{}", listener.url());
        let options = HttpOptions::new().header_time(Duration::from_secs(2));
        let listening = Listening::at(listener, options, Limits::default());
        let mut silent = listening.connect().await;
        assert_eq!(listening.says("-").await, "");
        assert_eq!(listening.says(&modern_call(1, "echo")).await, "");
        let served = listening.says(&format!("+{}", modern_call(1, "echo"))).await;
        assert!(served.starts_with("HTTP/1.1 200"), "{served}");
        assert_eq!(to_end(&mut silent).await, "");
        listening.ends().await;
    });
}

#[test]
fn f101_heads_that_trickle_are_given_up_and_others_are_served() {
    run_for_real(async {
        // The time is long enough for the well-behaved clients.
        let listening = Listening::new(HttpOptions::new().header_time(Duration::from_secs(2))).await;
        let started = Instant::now();
        let slow: Vec<_> = (0..100)
            .map(|_| {
                let address = listening.address;
                tokio::spawn(async move {
                    let mut stream = TcpStream::connect(address).await.unwrap();
                    let (mut reader, mut writer) = stream.split();
                    let mut pace = tokio::time::interval(Duration::from_millis(20));
                    let trickle = async {
                        for byte in b"POST /mcp HTTP/1.1\r\nx: ".iter().chain(b"y".iter().cycle()) {
                            if writer.write_all(&[*byte]).await.is_err() {
                                break;
                            }
                            pace.tick().await;
                        }
                    };
                    let closed = async { while matches!(reader.read(&mut [0; 1024]).await, Ok(1..)) {} };
                    tokio::select! {
                        () = trickle => {}
                        () = closed => {}
                    }
                })
            })
            .collect();
        listening.is_served().await;
        for slow in slow {
            slow.await.unwrap();
        }
        // This is far below the timeout of an idle connection, and below that of a connection that reads nothing.
        let took = started.elapsed();
        assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(25), "{took:?}");
        // A connection that sends nothing at all is closed too.
        assert_eq!(to_end(&mut listening.connect().await).await, "");
        listening.is_served().await;
    });
}

#[test]
fn f102_a_body_that_does_not_come_is_given_up() {
    run_for_real(async {
        let listening = Listening::new(HttpOptions::new().body_time(Duration::from_millis(200))).await;
        let request = post("", "x").replace("content-length: 1", "content-length: 100");
        assert!(listening.says(&request).await.starts_with("HTTP/1.1 408"));
    });
}

#[test]
fn who_sends_all_of_a_body_that_is_too_large_before_it_reads_gets_the_answer_all_the_same() {
    run_for_real(async {
        let mut limits = Limits::default();
        limits.message = 100_000;
        let listening = Listening::with_limits(HttpOptions::new(), limits).await;
        // The body is larger than the socket buffers of both sides.
        let body = vec![b' '; 12 * 1024 * 1024];
        let known = post("", "").replace("content-length: 0", &format!("content-length: {}", body.len()));
        let chunked = post("", "").replace("content-length: 0", "transfer-encoding: chunked");
        for (head, ahead, behind) in
            [(known, String::new(), ""), (chunked, format!("{:x}\r\n", body.len()), "\r\n0\r\n\r\n")]
        {
            let mut stream = listening.connect().await;
            for piece in [head.as_bytes(), ahead.as_bytes(), &body, behind.as_bytes()] {
                stream.write_all(piece).await.unwrap();
            }
            let answer = to_end(&mut stream).await;
            assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
        }
        // A client that sends `Expect: 100-continue` receives the error before it sends the body.
        let asks =
            post("", "").replace("content-length: 0", "content-length: 200000\r\nexpect: 100-continue");
        let mut stream = listening.connect().await;
        stream.write_all(asks.as_bytes()).await.unwrap();
        let answer = to_end(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
        listening.is_served().await;
    });
}

#[test]
fn authorization_a_client_that_sends_the_whole_body_before_it_reads_gets_the_401() {
    run_for_real(async {
        let mut limits = Limits::default();
        limits.message = 32 * 1024 * 1024;
        let listening = Listening::with_limits(crate::authorization::asking(), limits).await;
        // The body is larger than the socket buffers of both sides, and smaller than the limit.
        let body = vec![b' '; 12 * 1024 * 1024];
        let head = post("", "").replace("content-length: 0", &format!("content-length: {}", body.len()));
        for (token, status) in
            [("", "401"), ("authorization: Bearer x\r\n", "401"), ("authorization: Bearer\r\n", "400")]
        {
            let mut stream = listening.connect().await;
            stream.write_all(head.replace("host:", &format!("{token}host:")).as_bytes()).await.unwrap();
            stream.write_all(&body).await.unwrap();
            let answer = to_end(&mut stream).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{token}: {answer}");
        }
    });
}

#[test]
fn authorization_each_request_on_a_connection_shows_its_own_token_and_a_refusal_leaves_it_open() {
    run_for_real(async {
        let listening = Listening::new(crate::authorization::asking()).await;
        let mut stream = listening.connect().await;
        let call = modern_call(1, "echo").replace("connection: close\r\n", "");
        let (head, body) = call.split_once("\r\n\r\n").unwrap();
        for (token, status) in [
            ("", "401"),
            ("authorization: Bearer alice/a\r\n", "200"),
            ("", "401"),
            ("authorization: Bearer alice/b\r\n", "403"),
            ("authorization: Bearer alice/a\r\n", "200"),
        ] {
            // The body is a separate write, as many libraries send it.
            let head = format!("{}\r\n\r\n", head.replace("host:", &format!("{token}host:")));
            stream.write_all(head.as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
            stream.write_all(body.as_bytes()).await.unwrap();
            let mut answer = String::new();
            let mut piece = [0; 4096];
            loop {
                let length = stream.read(&mut piece).await.unwrap();
                assert_ne!(length, 0, "{token}: it was closed after {answer}");
                answer.push_str(&String::from_utf8_lossy(&piece[..length]));
                let Some((head, body)) = answer.split_once("\r\n\r\n") else { continue };
                let of_length = |line: &str| line.strip_prefix("content-length: ")?.parse::<usize>().ok();
                if head.lines().find_map(of_length).expect(&answer) == body.len() {
                    break;
                }
            }
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{token}: {answer}");
        }
    });
}

#[test]
fn f103_chunks_without_end_and_beyond_all_numbers_are_refused() {
    run_for_real(async {
        let mut limits = Limits::default();
        limits.message = 100_000;
        let listening = Listening::with_limits(HttpOptions::new(), limits).await;
        let chunked = post("", "").replace("content-length: 0", "transfer-encoding: chunked");
        let mut endless = listening.connect().await;
        endless.write_all(chunked.as_bytes()).await.unwrap();
        let (mut reader, mut writer) = endless.split();
        let chunk = format!("1000\r\n{}\r\n", " ".repeat(0x1000));
        let send = async { while writer.write_all(chunk.as_bytes()).await.is_ok() {} };
        let mut answer = vec![0; 64];
        let read = async { reader.read(&mut answer).await };
        let length =
            tokio::select! { biased; length = read => length.unwrap(), () = send => panic!("closed") };
        assert!(answer[..length].starts_with(b"HTTP/1.1 413"), "{}", answer[..length].escape_ascii());

        for bomb in ["FFFFFFFFFFFFFFFFF\r\n", "10000000000000000\r\n", "-1\r\n", "x\r\n"] {
            let answer = listening.says(&format!("{chunked}{bomb}")).await;
            assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{bomb}: {answer}");
        }
        let extension = format!("{chunked}1;{}", "x".repeat(200_000));
        let answer = listening.says(&extension).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
        listening.is_served().await;
    });
}

#[test]
fn f104_lengths_that_lie_are_refused_and_smuggle_nothing() {
    run_for_real(async {
        let listening = Listening::new(HttpOptions::new()).await;
        let good = modern_call(1, "echo").replace("connection: close\r\n", "");
        let length = body(&good).len();
        let written = format!("content-length: {length}");
        for lie in [
            format!("content-length: {length}\r\ncontent-length: {}", length + 1),
            "content-length: -1".to_owned(),
            "content-length: 18446744073709551616".to_owned(),
        ] {
            let answer = listening.says(&good.replace(&written, &lie)).await;
            assert!(answer.starts_with("HTTP/1.1 400"), "{lie}: {answer}");
            assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{lie}");
        }
        // With too small a length, the rest of the body is no valid request.
        let answer =
            listening.says(&good.replace(&written, &format!("content-length: {}", length - 1))).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        // Two lengths, each of them plausible, and a second request inside the body, which the server must not run.
        let inner = modern_call(2, "wait");
        let (head, body) = good.split_once("\r\n\r\n").unwrap();
        let chunked = format!("{length:x}\r\n{body}\r\n0\r\n\r\n");
        let (one, two) =
            ("transfer-encoding: chunked".to_owned(), format!("content-length: {}", chunked.len()));
        for (one, two) in [(&one, &two), (&two, &one)] {
            let head = head.replace(&written, &format!("{one}\r\n{two}"));
            let answer = listening.says(&format!("{head}\r\n\r\n{chunked}{inner}")).await;
            assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("exclude each other"), "{answer}");
            assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
        }
        assert_eq!(listening.gate.begun(), 0);
        listening.is_served().await;
    });
}

#[test]
fn f106_heads_beyond_the_bounds_are_refused() {
    run_for_real(async {
        let listening = Listening::new(HttpOptions::new()).await;
        let many: String = (0..150).map(|number| format!("x-{number}: 1\r\n")).collect();
        assert!(listening.says(&post(&many, "{}")).await.starts_with("HTTP/1.1 431"));
        let many: String = (0..2_000).map(|number| format!("x-{number}: 1\r\n")).collect();
        assert!(listening.says(&post(&many, "{}")).await.starts_with("HTTP/1.1 431"));
        for size in [70_000, 1_000_000] {
            let large = format!("x: {}\r\n", "y".repeat(size));
            let answer = listening.says(&post(&large, "{}")).await;
            assert!(answer.starts_with("HTTP/1.1 431") || size > 100_000 && answer.is_empty(), "{answer}");
        }
        listening.is_served().await;
    });
}

#[test]
fn cve_2025_53365_a_client_that_vanishes_mid_reply_harms_no_other() {
    run_for_real(async {
        let listening = Listening::new(HttpOptions::new().keep_alive(Duration::from_millis(10))).await;
        for _ in 0..20 {
            let mut stream = listening.connect().await;
            stream.write_all(modern_call(1, "wait").as_bytes()).await.unwrap();
            let mut piece = [0; 200];
            assert!(stream.read(&mut piece).await.unwrap() > 0);
            drop(stream);
            listening.is_served().await;
        }
        until(&listening.gate.dropped, 20).await;
    });
}

#[test]
fn n93_a_large_reply_that_is_not_read_delays_no_other() {
    run_for_real(async {
        let listening = Listening::new(HttpOptions::new()).await;
        let session = open(&listening).await;
        let large = call(1, "echo", json!({ "message": "x".repeat(8 * 1024 * 1024) })).to_string();
        let mut unread = listening.connect().await;
        unread.write_all(post(&session, &large).as_bytes()).await.unwrap();
        let mut first = [0; 16];
        unread.read_exact(&mut first).await.unwrap();
        for id in 2..10 {
            let started = Instant::now();
            let small = call(id, "echo", json!({ "message": "small" })).to_string();
            assert!(listening.says(&post(&session, &small)).await.contains("small"));
            assert!(started.elapsed() < Duration::from_secs(5));
        }
        assert!(to_end(&mut unread).await.len() > 8 * 1024 * 1024);
    });
}

/// The complete events of a stream that was read in part.
fn events(bytes: &[u8]) -> Vec<(String, String)> {
    events_up_to(bytes, 1 << 20)
}

fn events_up_to(bytes: &[u8], limit: usize) -> Vec<(String, String)> {
    let mut decoder = SseDecoder::new(limit);
    decoder.push(Bytes::copy_from_slice(bytes));
    std::iter::from_fn(|| decoder.poll_event())
        .filter_map(|event| match event {
            SseEvent::Event(event) => {
                let text =
                    |bytes: Option<Bytes>| String::from_utf8(bytes.unwrap_or_default().to_vec()).unwrap();
                Some((text(event.id), text(Some(event.data))))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn f116_a_stream_cut_at_any_byte_is_resumed_without_loss_or_doubling() {
    run_for_real(async {
        let listening = Listening::new(HttpOptions::new()).await;
        let session = open(&listening).await;
        // HTTP/1.0 has no chunked encoding: the body is the bare stream.
        let old = |request: String| request.replace("HTTP/1.1", "HTTP/1.0");
        let ask = |id: usize| old(post(&session, &call(id, "steps", json!({ "n": 3 })).to_string()));
        let resume = |after: &str| {
            let get =
                format!("GET /mcp HTTP/1.0\r\nhost: localhost\r\naccept: text/event-stream\r\n{session}");
            format!("{get}last-event-id: {after}\r\n\r\n")
        };
        listening.gate.open.add_permits(3);
        let whole = listening.says(&ask(0)).await;
        let length = body(&whole).len();
        for cut in 0..length {
            listening.gate.open.add_permits(3);
            let mut stream = listening.connect().await;
            stream.write_all(ask(cut + 1).as_bytes()).await.unwrap();
            let (mut head, mut came) = (Vec::new(), Vec::new());
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            while came.len() < cut {
                came.push(stream.read_u8().await.unwrap());
            }
            drop(stream);
            let mut seen = events(&came);
            if let Some((last, _)) = seen.last().cloned() {
                let rest = listening.says(&resume(&last)).await;
                assert!(rest.starts_with("HTTP/1.0 200"), "cut at {cut}: {rest}");
                seen.extend(events(body(&rest).as_bytes()));
                let stream = last.split_once('-').unwrap().0;
                let ids: Vec<String> = (0..seen.len()).map(|number| format!("{stream}-{number}")).collect();
                assert_eq!(seen.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(), ids, "cut at {cut}");
                let last: Value = serde_json::from_str(&seen.last().unwrap().1).unwrap();
                assert_eq!((text(&last), &last["id"]), ("stepped", &json!(cut + 1)));
            }
        }
    });
}

// ---- long streams ----

fn listen(session: &str) -> String {
    format!("GET /mcp HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n{session}\r\n")
}

/// Reads until this text, and returns everything up to and including it.
async fn up_to(stream: &mut TcpStream, end: &str) -> String {
    let mut all = Vec::new();
    while !all.ends_with(end.as_bytes()) {
        all.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(all).unwrap()
}

/// Joins the chunks of a body; every chunk must be complete.
fn joined(mut chunks: &str) -> String {
    let mut all = String::new();
    loop {
        let (length, rest) = chunks.split_once("\r\n").unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        let (data, rest) = rest.split_at(length);
        all.push_str(data);
        chunks = rest.strip_prefix("\r\n").unwrap();
        if length == 0 {
            assert_eq!(chunks, "");
            return all;
        }
    }
}

#[test]
fn a_stream_that_lasts_has_a_connection_of_its_own_and_ends_in_order() {
    run_for_real(async {
        let listening = Listening::new(HttpOptions::new()).await;
        let session = open(&listening).await;
        let mut stream = listening.connect().await;
        stream.write_all(listen(&session).as_bytes()).await.unwrap();
        let head = up_to(&mut stream, "\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("connection: close"), "{head}");
        assert!(head.contains("transfer-encoding: chunked"), "{head}");
        // The server does not answer a request that a client sends on this connection, and it does no harm.
        stream.write_all(modern_call(1, "echo").as_bytes()).await.unwrap();
        listening.handle.remove_tool("echo").unwrap();
        let mut came = up_to(&mut stream, "list_changed\"}\n\n\r\n").await;
        listening.ends().await;
        came.push_str(&to_end(&mut stream).await);
        let ids: Vec<String> = events(joined(&came).as_bytes()).into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, ["0-0", "0-1"]);
    });
}

#[test]
fn a_stream_that_lasts_has_no_chunks_in_http_1_0() {
    run_for_real(async {
        let listening = Listening::new(HttpOptions::new()).await;
        let session = open(&listening).await;
        let mut stream = listening.connect().await;
        stream.write_all(listen(&session).replace("HTTP/1.1", "HTTP/1.0").as_bytes()).await.unwrap();
        let head = up_to(&mut stream, "\r\n\r\n").await;
        assert!(head.contains(" 200 ") && !head.contains("transfer-encoding"), "{head}");
        listening.handle.remove_tool("echo").unwrap();
        let mut came = up_to(&mut stream, "list_changed\"}\n\n").await;
        listening.ends().await;
        came.push_str(&to_end(&mut stream).await);
        let ids: Vec<String> = events(came.as_bytes()).into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, ["0-0", "0-1"]);
        assert!(!came.contains('\r'), "{came}");
    });
}

#[test]
fn what_was_asked_before_a_stream_that_lasts_is_answered_whole() {
    run_for_real(async {
        let listening = Listening::new(HttpOptions::new()).await;
        let session = open(&listening).await;
        let asked = call(1, "echo", json!({ "message": "x".repeat(6 * 1024 * 1024) })).to_string();
        let ahead = post(&session, &asked).replace("connection: close\r\n", "");
        let mut stream = listening.connect().await;
        let (mut reading, mut writing) = stream.split();
        let all = format!("{ahead}{}", listen(&session));
        let mut came = Vec::new();
        let read = async {
            while !came.windows(7).rev().take(64 * 1024).any(|end| end == b"id: 0-0") {
                assert!(reading.read_buf(&mut came).await.unwrap() > 0);
            }
        };
        let (written, ()) = tokio::join!(writing.write_all(all.as_bytes()), read);
        written.unwrap();
        let came = String::from_utf8(came).unwrap();
        let (first, second) = came.split_at(came.rfind("HTTP/1.1 200").unwrap());
        // A large response is serialized on another thread, so it arrives as an event: in chunks, the last of them empty.
        let end = first.trim_end_matches("\r\n0\r\n\r\n").trim_end();
        assert!(first.len() > 6 * 1024 * 1024 && end.ends_with('}'), "{} bytes", first.len());
        assert!(second.contains("text/event-stream"));
    });
}

#[test]
fn a_client_that_leaves_a_stream_that_lasts_may_open_it_again() {
    run_for_real(async {
        let listening = Listening::new(HttpOptions::new()).await;
        let session = open(&listening).await;
        for _ in 0..3 {
            // The server may notice only now that the previous client has disconnected.
            loop {
                let mut stream = listening.connect().await;
                stream.write_all(listen(&session).as_bytes()).await.unwrap();
                let head = up_to(&mut stream, "\r\n\r\n").await;
                if head.starts_with("HTTP/1.1 200") {
                    assert!(up_to(&mut stream, "\n\n").await.contains("id: 0-"));
                    break;
                }
                assert!(head.starts_with("HTTP/1.1 409"), "{head}");
            }
        }
    });
}

#[test]
fn a_large_event_on_a_stream_that_lasts_arrives_whole() {
    run_for_real(async {
        let listening = Listening::new(HttpOptions::new()).await;
        let mut stream = listening.connect().await;
        let get = "GET /sse HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n";
        stream.write_all(get.as_bytes()).await.unwrap();
        let opened = up_to(&mut stream, "\n\n\r\n").await;
        let endpoint = opened.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        let tell = |body: Value| post("", &body.to_string()).replace("/mcp", endpoint);
        let (initialized, message) = ("notifications/initialized", "x".repeat(6 * 1024 * 1024));
        for body in [
            initialize("2024-11-05", json!({})),
            json!({ "jsonrpc": "2.0", "method": initialized }),
            call(2, "echo", json!({ "message": message })),
        ] {
            assert!(listening.says(&tell(body)).await.starts_with("HTTP/1.1 202"));
        }
        // The client has read nothing meanwhile. The stream ends only after every pending message was sent on it.
        let (rest, ()) = tokio::join!(to_end(&mut stream), listening.ends());
        let all = joined(&format!("{}{rest}", body(&opened)));
        let events = events_up_to(all.as_bytes(), 1 << 24);
        let last: Value = serde_json::from_str(&events.last().unwrap().1).unwrap();
        assert_eq!((&last["id"], text(&last).len()), (&json!(2), message.len()));
    });
}

#[test]
fn a_connection_above_the_limit_waits_for_its_place() {
    run_for_real(async {
        let listening = Listening::new(HttpOptions::new().max_connections(1)).await;
        let first = listening.connect().await;
        let mut second = Box::pin(listening.calls("echo"));
        let early = tokio::time::timeout(Duration::from_millis(300), &mut second).await;
        assert!(early.is_err(), "{early:?}");
        drop(first);
        assert!(second.await.starts_with("HTTP/1.1 200"));
    });
}

// ---- scripted HTTP/2 frames ----

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// The header block of a POST to the endpoint, in the encoding of HTTP/2: each header as a literal.
fn head(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut block = vec![0x83, 0x86];
    for (name, value) in [(":path", "/mcp"), (":authority", "localhost")].iter().chain(headers) {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// Reads the next frame: its type, its flags, its payload.
async fn next_frame(stream: &mut TcpStream) -> Option<(u8, u8, Vec<u8>)> {
    let mut header = [0; 9];
    stream.read_exact(&mut header).await.ok()?;
    let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut payload).await.ok()?;
    Some((header[3], header[4], payload))
}

#[test]
fn http_2_is_spoken_on_the_same_port() {
    run_for_real(async {
        let listening = Listening::new(HttpOptions::new()).await;
        let mut stream = listening.connect().await;
        let headers = head(&[
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", MODERN),
            ("mcp-method", "tools/call"),
            ("mcp-name", "echo"),
        ]);
        let body = modern(1, "tools/call", json!({ "name": "echo", "arguments": { "message": "hi" } }));
        let mut request = PREFACE.to_vec();
        request.extend(frame(1, 4, 1, &headers));
        request.extend(frame(0, 1, 1, body.to_string().as_bytes()));
        stream.write_all(&request).await.unwrap();
        let mut answer = Vec::new();
        loop {
            let (kind, flags, payload) = next_frame(&mut stream).await.unwrap();
            if kind == 0 {
                answer.extend(payload);
            }
            if kind == 0 && flags & 1 == 1 {
                break;
            }
        }
        assert_eq!(text(&serde_json::from_slice(&answer).unwrap()), "hi");
        listening.ends().await;
    });
}

#[test]
fn http_2_with_two_hosts_is_refused() {
    run_for_real(async {
        let listening = Listening::new(HttpOptions::new()).await;
        // Status 400 is the twelfth entry of the static table. Status 415, for a missing content type, is not in it.
        for (host, is_400) in [("localhost", false), ("evil.example", true)] {
            let mut stream = listening.connect().await;
            let mut request = PREFACE.to_vec();
            request.extend(frame(1, 5, 1, &head(&[("host", host)])));
            stream.write_all(&request).await.unwrap();
            loop {
                let (kind, _, payload) = next_frame(&mut stream).await.unwrap();
                if kind == 1 {
                    assert_eq!(payload[0] == 0x80 | 12, is_400, "{host}: {payload:x?}");
                    break;
                }
            }
        }
        listening.ends().await;
    });
}

#[test]
fn f126_rapid_resets_and_endless_heads_end_the_connection() {
    run_for_real(async {
        let listening = Listening::new(HttpOptions::new()).await;
        let mut resets = PREFACE.to_vec();
        for stream in (1..20_000).step_by(2) {
            resets.extend(frame(1, 4, stream, &head(&[])));
            resets.extend(frame(3, 0, stream, &[0, 0, 0, 8]));
        }
        let mut endless = PREFACE.to_vec();
        endless.extend(frame(1, 0, 1, &head(&[])));
        for number in 0..20_000 {
            let name = format!("x-{number}");
            let mut block = vec![0, u8::try_from(name.len()).unwrap()];
            block.extend_from_slice(name.as_bytes());
            block.extend_from_slice(&[100; 101]);
            endless.extend(frame(9, 0, 1, &block));
        }
        for flood in [resets, endless] {
            let mut stream = listening.connect().await;
            let (mut reader, mut writer) = stream.split();
            let write = async {
                let _ = writer.write_all(&flood).await;
                std::future::pending::<()>().await;
            };
            let mut all = Vec::new();
            let read = async {
                let mut piece = [0; 4096];
                while let Ok(length @ 1..) = reader.read(&mut piece).await {
                    all.extend_from_slice(&piece[..length]);
                }
            };
            // The server closes the connection, whatever it sends before.
            tokio::select! { () = write => {}, () = read => {} }
            listening.is_served().await;
        }
    });
}

// ---- the listener ----

#[test]
fn the_end_finishes_calls_and_streams_and_then_closes() {
    run_for_real(async {
        let listening = Listening::new(HttpOptions::new()).await;
        let session = open(&listening).await;
        let mut standing = listening.connect().await;
        let get =
            format!("GET /mcp HTTP/1.0\r\nhost: localhost\r\naccept: text/event-stream\r\n{session}\r\n");
        standing.write_all(get.as_bytes()).await.unwrap();
        let mut first = [0; 12];
        standing.read_exact(&mut first).await.unwrap();
        let mut waiting = listening.connect().await;
        waiting.write_all(modern_call(1, "wait").as_bytes()).await.unwrap();
        let idle = listening.connect().await;
        until(&listening.gate.begun, 1).await;
        let (address, gate) = (listening.address, listening.gate.clone());
        let ended = tokio::spawn(listening.ends());
        assert!(to_end(&mut standing).await.contains("0-0"));
        gate.open.add_permits(1);
        assert!(to_end(&mut waiting).await.contains("waited"));
        ended.await.unwrap();
        drop(idle);
        assert!(TcpStream::connect(address).await.is_err());
    });
}

#[test]
fn an_address_is_a_url_with_a_port() {
    run_for_real(async {
        let listener = HttpListener::bind("http://localhost:0").await.unwrap();
        assert!(listener.address().ip().is_loopback());
        assert_eq!(listener.url(), format!("http://localhost:{}/mcp", listener.address().port()));
        for wrong in [
            "",
            "localhost:1",
            "https://localhost:1/mcp",
            "http://localhost/mcp",
            "http://localhost:x/mcp",
            "http://localhost:65536/",
            "http://me:secret@localhost:1/",
            "http://localhost:1/a?b",
            "http://:1/",
            "http://::1:1/",
            "http://localhost:1/a b",
        ] {
            let refused = HttpListener::bind(wrong).await;
            assert!(matches!(refused, Err(HttpListenError::Url { .. })), "{wrong}: {refused:?}");
        }
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
        let again = HttpListener::bind(listener.url()).await;
        assert!(matches!(again, Err(HttpListenError::System { .. })), "{again:?}");
    });
}
