//! Tests of the messages that pass through a gateway, and of the end of its connections. This file has the shared helpers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod authorization;
mod calls;
mod capacity;
mod ends;
mod http;
mod joined;
mod joined_bad_input;
mod joined_policy;
mod joined_tasks;
mod kinds;
mod legacy_to_modern;
mod levels;
mod modern_to_legacy;
mod owners;
mod policy;
mod pools;
mod raw;
mod replicas;
mod same_era;
mod traces;

use std::future::{Ready, ready};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::Link;
use mcpjoin_gateway::{Gateway, GatewayBuilder, GatewayEnd};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

pub(crate) use raw::Raw;

/// Runs a test in virtual time. Ten hours count as a hang.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(36_000), test).await.expect("the test hangs");
    });
}

/// Lets virtual time pass: everything that is due in it happens in its order.
pub(crate) async fn passes(time: Duration) {
    tokio::time::timeout(time, std::future::pending::<()>()).await.unwrap_err();
}

/// The servers that a gateway starts, in order, and the number of starts.
pub(crate) struct Servers {
    started: UnboundedReceiver<Raw>,
    pub(crate) starts: Arc<Mutex<usize>>,
    /// If set, starts fail for this reason.
    pub(crate) failing: Arc<Mutex<Option<&'static str>>>,
}

impl Servers {
    pub(crate) fn set() -> (Self, impl Fn() -> Ready<Result<Link, io::Error>> + Send + Sync + 'static) {
        let (started, servers) = unbounded_channel();
        let starts = Arc::new(Mutex::new(0));
        let failing = Arc::new(Mutex::new(None::<&'static str>));
        let (count, fails) = (starts.clone(), failing.clone());
        let start = move || {
            *count.lock().unwrap() += 1;
            if let Some(why) = *fails.lock().unwrap() {
                return ready(Err(io::Error::new(io::ErrorKind::NotFound, why)));
            }
            let (link, server) = Raw::pair();
            let _ = started.send(server);
            ready(Ok(link))
        };
        (Self { started: servers, starts, failing }, start)
    }

    pub(crate) async fn next(&mut self) -> Raw {
        self.started.recv().await.unwrap()
    }

    pub(crate) fn starts(&self) -> usize {
        *self.starts.lock().unwrap()
    }
}

/// A scripted client, and the task that serves it.
pub(crate) fn client(gateway: &Gateway) -> (Raw, JoinHandle<GatewayEnd>) {
    let (link, client) = Raw::pair();
    let gateway = gateway.clone();
    (client, tokio::spawn(async move { gateway.serve(link).await }))
}

pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"sampling":{},"roots":{"listChanged":true,"x":1e400},"com.example/new":{"a":[-0]}},"clientInfo":{"name":"c","version":"1","mood":"good"},"_meta":{"k":0.10}}}"#;
pub(crate) const INITIALIZED_RESULT: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"org.example/other":{"b":1E5}},"serverInfo":{"name":"s","version":"2","icon":"none"},"instructions":"be kind","_meta":{"z":{}},"later":[]}"#;
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A legacy client and its legacy server, both scripted and connected.
pub(crate) async fn legacy(
    builder: impl FnOnce(GatewayBuilder) -> GatewayBuilder,
) -> (Gateway, Raw, Raw, Servers, JoinHandle<GatewayEnd>) {
    let (mut servers, start) = Servers::set();
    let gateway = builder(Gateway::builder(start)).build();
    let (mut client, served) = client(&gateway);
    client.say(INITIALIZE).await;
    let mut server = servers.next().await;
    open_legacy(&mut server).await;
    client.expects(&format!(r#"{{"jsonrpc":"2.0","id":"hello","result":{INITIALIZED_RESULT}}}"#)).await;
    client.say(INITIALIZED).await;
    (gateway, client, server, servers, served)
}

/// The server receives the client's `initialize` unchanged.
pub(crate) async fn open_legacy(server: &mut Raw) {
    server.expects(&INITIALIZE.replace(r#""id":"hello""#, r#""id":1"#)).await;
    server.say(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{INITIALIZED_RESULT}}}"#)).await;
    server.expects(INITIALIZED).await;
}

pub(crate) const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"com.example/new":{"a":[-0]}},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1","mood":1E2}"#;

/// A request of a modern client, with these members before `_meta`.
pub(crate) fn modern_request(id: &str, method: &str, members: &str, meta: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{members}"_meta":{{{META}{meta}}}}}}}"#
    )
}

pub(crate) const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"logging":{}},"ttlMs":1e3,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"2","mood":-0}},"more":1}"#;

/// Answers the probe that opens a modern server.
pub(crate) async fn open_modern(server: &mut Raw) {
    let probe = server.value().await;
    assert_eq!(probe["method"], "server/discover");
    // From text, because the features of other crates decide how a value stores numbers.
    let info: Value = serde_json::from_str(r#"{"name":"c","version":"1","mood":1E2}"#).unwrap();
    assert_eq!(probe["params"]["_meta"]["io.modelcontextprotocol/clientInfo"], info);
    // The gateway reads `ttlMs` as an integer. Forwarded text is not changed.
    let discovered = DISCOVERED.replace("1e3", "1000");
    server.say(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{discovered}}}"#)).await;
}
