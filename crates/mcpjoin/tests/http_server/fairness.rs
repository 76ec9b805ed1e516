//! Tests of the server's fairness between clients that send many requests, and clients that send few. They run on one
//! thread, so that a task that holds the thread delays every client; they count handlers, not time.

use std::future::{Future as _, pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use mcpjoin::Server;
use mcpjoin::proto::session::Limits;
use mcpjoin::server::{NoArguments, tool};
use mcpjoin::transport::{HttpListener, HttpOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::support::{LEGACY, MODERN, Peer, Reply, call, modern, run, run_for_real, settle, text, until};

const FLOOD: usize = 10_000;

/// The state of the calls of the flooding client: each waits at the gate, and is counted behind it.
#[derive(Clone)]
struct Flood {
    gate: Arc<Semaphore>,
    begun: watch::Sender<usize>,
    counted: Arc<AtomicUsize>,
}

impl Flood {
    fn new(permits: usize) -> Self {
        Self {
            gate: Arc::new(Semaphore::new(permits)),
            begun: watch::Sender::new(0),
            counted: Arc::default(),
        }
    }

    fn server(&self) -> Server {
        let flood = self.clone();
        Server::builder("s", "1")
            .tool(tool("count"), move |_: NoArguments, _| {
                let flood = flood.clone();
                async move {
                    flood.begun.send_modify(|begun| *begun += 1);
                    drop(flood.gate.acquire().await);
                    flood.counted.fetch_add(1, Ordering::Relaxed);
                    "counted"
                }
            })
            .tool(tool("small"), |_: NoArguments, _| async { "small" })
            .build()
            .unwrap()
    }

    fn counted(&self) -> usize {
        self.counted.load(Ordering::Relaxed)
    }
}

async fn last(mut reply: Reply) -> Value {
    if reply.kind() == "application/json" {
        return reply.json().await;
    }
    let mut last = Value::Null;
    while let Some(message) = reply.message().await {
        last = message;
    }
    last
}

/// The number of calls of the flood that were counted while another client waited for a small call.
async fn waits(peer: &Peer, flood: &Flood) -> usize {
    let (peer, flood) = (peer.clone(), flood.clone());
    let before = flood.counted();
    let small = tokio::spawn(async move {
        let reply = peer.call(1, "small", json!({})).await;
        assert_eq!(text(&last(reply).await), "small");
        flood.counted()
    });
    small.await.unwrap() - before
}

#[test]
fn e100_a_session_with_ten_thousand_calls_in_flight_delays_no_other() {
    run(async {
        let flood = Flood::new(0);
        let peer = Peer::new(&flood.server(), HttpOptions::new());
        let session = peer.open(LEGACY).await;
        let (mut calls, posted) = (JoinSet::new(), watch::Sender::new(0));
        for id in 0..FLOOD {
            let (session, posted) = (session.clone(), posted.clone());
            calls.spawn(async move {
                let mut reply = Box::pin(session.post(call(id, "count", json!({}))));
                let waits = poll_fn(|cx| Poll::Ready(reply.as_mut().poll(cx).is_pending())).await;
                assert!(waits);
                posted.send_modify(|posted| *posted += 1);
                assert_eq!(text(&last(reply.await).await), "counted");
            });
        }
        until(&posted, FLOOD).await;
        settle().await;
        // The maximum number of handlers runs, and the other calls wait for them.
        assert_eq!(*flood.begun.borrow(), Limits::default().handling);
        flood.gate.close();
        let during = waits(&peer, &flood).await;
        // Two turns of the connection, in each of which 64 woken handlers go on and 64 begin.
        assert!(during <= 256, "{during} calls of another client went first");
        while let Some(call) = calls.join_next().await {
            call.unwrap();
        }
        assert_eq!(flood.counted(), FLOOD);
    });
}

#[test]
fn e100_ten_thousand_requests_on_one_connection_delay_no_other() {
    run_for_real(async {
        let flood = Flood::new(1);
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
        let address = listener.address();
        let server = flood.server();
        tokio::spawn(async move { server.serve_http(listener, HttpOptions::new(), pending()).await });
        let (mut replies, mut requests) = TcpStream::connect(address).await.unwrap().into_split();
        let writing = tokio::spawn(async move {
            for id in 0..FLOOD {
                requests.write_all(modern_call(id, "count", "").as_bytes()).await.unwrap();
            }
            requests
        });
        let reading = tokio::spawn(async move {
            let (mut count, mut text) = (0, String::new());
            while count < FLOOD {
                let mut piece = [0; 16 * 1024];
                let length = replies.read(&mut piece).await.unwrap();
                assert!(length > 0, "{count} replies");
                text.push_str(std::str::from_utf8(&piece[..length]).unwrap());
                count += text.matches("HTTP/1.1 200").count();
                text.drain(..text.len().saturating_sub("HTTP/1.1 200".len() - 1));
            }
        });
        while flood.counted() == 0 {
            tokio::task::yield_now().await;
        }
        let before = flood.counted();
        let mut other = TcpStream::connect(address).await.unwrap();
        other.write_all(modern_call(1, "small", "connection: close\r\n").as_bytes()).await.unwrap();
        let mut reply = String::new();
        other.read_to_string(&mut reply).await.unwrap();
        let during = flood.counted() - before;
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
        // The runtime polls sockets only once in a while: the flood goes on meanwhile, but is far from its end.
        assert!(during <= FLOOD / 5, "{during} calls of another client went first");
        reading.await.unwrap();
        drop(writing.await.unwrap());
        assert_eq!(flood.counted(), FLOOD);
    });
}

fn modern_call(id: usize, tool: &str, more: &str) -> String {
    let body = modern(id, "tools/call", json!({ "name": tool, "arguments": {} })).to_string();
    let length = body.len();
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: {MODERN}\r\n\
         mcp-method: tools/call\r\nmcp-name: {tool}\r\n{more}\r\n{body}"
    )
}
