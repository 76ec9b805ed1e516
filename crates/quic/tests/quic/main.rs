//! MCP over real QUIC on loopback. Both sides are ours, or one is driven stream by stream as in `docs/quic.md`.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod by_hand;
mod calls;
mod doctor;
mod endpoint;
mod hostile;
mod large;
mod limits;
mod trust;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use mcpjoin::client::ClientBuilder;
use mcpjoin::proto::session::{EraChoice, Limits};
use mcpjoin::proto::types::{
    CallToolResult, ElicitAction, ElicitFormParams, ElicitResult, ElicitationSchema, LoggingLevel, Members,
};
use mcpjoin::proto::{Era, Raw};
use mcpjoin::server::{Context, HandlerError, NoArguments, ServerBuilder, blocking, tool};
use mcpjoin::transport::{Listener, ListenerHandle};
use mcpjoin::{Client, Server};
use mcpjoin_quic::endpoint::{ClientAuth, Identity, Trust};
use mcpjoin_quic::{QuicConnect, QuicListen};
use mcpjoin_test_support::{lossy, ports, run_on_threads as run};
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::task::JoinHandle;

const BOTH: [Era; 2] = [Era::Modern, Era::Legacy];

/// Synchronizes the tests with the server's tools.
#[derive(Clone)]
struct Gate {
    /// A waiting handler has started.
    began: Arc<Semaphore>,
    go_on: Arc<Semaphore>,
    /// The number of waiting handlers, and its maximum so far.
    waiting: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    /// A waiting handler was dropped.
    left: Arc<Notify>,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            began: Arc::new(Semaphore::new(0)),
            go_on: Arc::new(Semaphore::new(0)),
            waiting: Arc::default(),
            most: Arc::default(),
            left: Arc::default(),
        }
    }
}

struct Waiting(Gate);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
        self.0.left.notify_one();
    }
}

impl Gate {
    async fn begin(&self, count: u32) {
        self.began.acquire_many(count).await.unwrap().forget();
    }

    async fn wait(self) {
        let now = self.waiting.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let waiting = Waiting(self);
        waiting.0.began.add_permits(1);
        waiting.0.go_on.acquire().await.unwrap().forget();
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Text {
    text: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Size {
    bytes: usize,
}

fn builder(gate: &Gate) -> ServerBuilder {
    let slow = gate.clone();
    Server::builder("quic", "1")
        .logging()
        .dynamic_tools()
        .tool(tool("echo"), |text: Text, _| async move { text.text })
        .tool(tool("origin"), |_: NoArguments, cx: Context| async move {
            let origin = cx.origin().unwrap();
            format!("{} {}", origin.link, origin.peer.clone().unwrap_or_default())
        })
        .tool(tool("size"), blocking(|size: Size, _| "x".repeat(size.bytes)))
        .tool(tool("steps"), |_: NoArguments, cx: Context| async move {
            for step in 0..3 {
                cx.log(LoggingLevel::Info, step);
                cx.progress(f64::from(step), None, None);
            }
            "done"
        })
        .tool(tool("ask"), |text: Text, cx: Context| async move {
            let form = ElicitFormParams::new(text.text, ElicitationSchema::new(Members::new()));
            let answer = cx.elicit(form).await?;
            Ok::<_, HandlerError>(answer.action.as_str().to_owned())
        })
        .tool(tool("wait"), move |_: NoArguments, _| {
            let gate = slow.clone();
            async move {
                gate.wait().await;
                "at last"
            }
        })
}

/// A listener with its own key, and the hash of that key.
fn listen() -> (QuicListen, [u8; 32]) {
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let pin = identity.facts().unwrap().key_hash;
    (mcpjoin_quic::listen("127.0.0.1:0", move || Ok((identity.clone(), ClientAuth::Anybody))), pin)
}

/// A listening server with its own key.
struct Up {
    address: SocketAddr,
    pin: [u8; 32],
    server: Server,
    handle: ListenerHandle,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

impl Up {
    async fn new(server: Server) -> Self {
        Self::with(server, |listen| listen).await
    }

    async fn with(server: Server, change: impl FnOnce(QuicListen) -> QuicListen) -> Self {
        let (listen, pin) = listen();
        Self::on(change(listen).await.unwrap(), pin, server)
    }

    fn on(listener: Listener, pin: [u8; 32], server: Server) -> Self {
        let handle = listener.handle();
        let address = listener.address().socket_addr().unwrap();
        assert_eq!(listener.address().to_string(), format!("quic://{address}"));
        let (stop, stopped) = oneshot::channel::<()>();
        let task = server.clone();
        let serving =
            tokio::spawn(async move { task.serve_all(listener, async { drop(stopped.await) }).await });
        Self { address, pin, server, handle, stop: Some(stop), serving }
    }

    fn link(&self) -> QuicConnect {
        mcpjoin_quic::connect(self.address.to_string(), Trust::Key(self.pin))
    }

    async fn client(&self, era: Era) -> Client {
        client(era).connect(self.link().await.unwrap()).await.unwrap()
    }

    /// Stops listening and completes calls in progress.
    async fn end(mut self) {
        drop(self.stop.take());
        self.serving.await.unwrap();
    }
}

/// Calls the tool that waits, and returns its text.
fn waits(client: &Client) -> JoinHandle<Result<String, String>> {
    let client = client.clone();
    tokio::spawn(async move {
        let result = client.call_tool("wait", ()).await;
        result.map(|result| text(&result)).map_err(|error| error.to_string())
    })
}

fn client(era: Era) -> ClientBuilder {
    Client::builder("quic", "1")
        .era(EraChoice::Only(era))
        .elicitation(|_| async { Ok(ElicitResult::new(ElicitAction::Accept)) })
}

/// A client, and all notifications that belong to none of its calls.
async fn hearing(up: &Up, era: Era) -> (Client, Heard) {
    let heard = Heard::default();
    let (notes, told) = (heard.notes.clone(), heard.told.clone());
    let client = client(era)
        .on_notification(move |note| {
            notes.lock().unwrap().push(note.method.as_str().to_owned());
            told.notify_one();
        })
        .connect(up.link().await.unwrap())
        .await
        .unwrap();
    (client, heard)
}

#[derive(Clone, Default)]
struct Heard {
    notes: Arc<Mutex<Vec<String>>>,
    told: Arc<Notify>,
}

impl Heard {
    async fn until(&self, method: &str) {
        while !self.notes.lock().unwrap().iter().any(|note| note == method) {
            self.told.notified().await;
        }
    }
}

fn arguments(value: &serde_json::Value) -> Option<Raw> {
    Some(Raw::parse(value.to_string()).unwrap())
}

fn text(result: &CallToolResult) -> String {
    let content = serde_json::to_value(&result.content).unwrap();
    content[0]["text"].as_str().unwrap().to_owned()
}

/// The limits, with a change.
fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}
