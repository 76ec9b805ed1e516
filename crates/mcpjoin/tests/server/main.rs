//! Tests of servers from the view of their clients, and the support functions of these tests.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod by_hand;
mod handlers;
mod input;
mod layers;
mod lifecycle;
mod lists;
mod mount;
mod own_tasks;
mod replicas;
mod schemas;
mod state;
mod tasks;
mod tasks_core;
mod texts;
mod tools;
mod typed;

use mcpjoin_test_support::events as told;
use std::time::Duration;

use mcpjoin::client::ClientBuilder;
use mcpjoin::proto::session::{CloseCause, EraChoice};
use mcpjoin::proto::{Era, ErrorObject, Raw, Version};
use mcpjoin::{Client, Link, Server};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::task::JoinHandle;

/// The era of the revisions with a handshake, and the era without.
pub(crate) const BOTH_ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// Runs a test on a paused clock that advances only while all tasks wait. Ten minutes on it count as a hang.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(36_000), test).await.expect("the test hangs");
    });
}

pub(crate) fn raw(value: &Value) -> Raw {
    Raw::from_value(value).unwrap()
}

pub(crate) fn value(raw: &Raw) -> Value {
    raw.decode().unwrap()
}

/// A connected client over an in-memory link.
pub(crate) async fn connect(server: &Server, builder: ClientBuilder) -> Client {
    let (ours, theirs) = Link::memory();
    server.connect(theirs);
    builder.connect(ours).await.unwrap()
}

pub(crate) fn builder() -> ClientBuilder {
    Client::builder("test", "0")
}

pub(crate) async fn in_era(server: &Server, era: Era) -> Client {
    connect(server, builder().era(EraChoice::Only(era))).await
}

pub(crate) async fn in_version(server: &Server, version: Version) -> Client {
    connect(server, builder().protocol_version(version).era(EraChoice::Only(Era::Legacy))).await
}

/// Calls a tool and returns its result as JSON, without the fields of the envelope.
pub(crate) async fn call(client: &Client, tool: &str, arguments: Value) -> Result<Value, ErrorObject> {
    ask(client, "tools/call", json!({ "name": tool, "arguments": arguments })).await
}

/// Sends any request and returns the result as JSON, without the fields of the envelope.
pub(crate) async fn ask(client: &Client, method: &str, params: Value) -> Result<Value, ErrorObject> {
    match client.send_request(method, Some(raw(&params))).await {
        Ok(result) => {
            let mut result = value(&result);
            let members = result.as_object_mut().unwrap();
            members.remove("_meta");
            members.remove("resultType");
            Ok(result)
        }
        Err(error) => Err(error.remote().unwrap_or_else(|| panic!("no answer: {error}")).clone()),
    }
}

/// The text of a result that has exactly one text block.
pub(crate) fn text(result: &Value) -> &str {
    assert_eq!(result["content"].as_array().unwrap().len(), 1, "{result}");
    result["content"][0]["text"].as_str().unwrap()
}

/// A scripted client that writes lines.
pub(crate) struct Wire {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: Option<WriteHalf<DuplexStream>>,
    serving: JoinHandle<CloseCause>,
}

impl Wire {
    pub(crate) fn new(server: &Server) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = tokio::io::split(theirs);
        let (server, link) = (server.clone(), Link::stream(reader, writer, "test"));
        let serving = tokio::spawn(async move { server.serve(link).await });
        let (reader, writer) = tokio::io::split(ours);
        Self { lines: BufReader::new(reader).lines(), writer: Some(writer), serving }
    }

    /// The same after the handshake in the newest legacy revision.
    pub(crate) async fn opened(server: &Server) -> Self {
        let mut wire = Self::new(server);
        let answer = wire.ask(&initialize("2025-11-25")).await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        wire.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string()).await;
        wire
    }

    pub(crate) async fn send(&mut self, line: &str) {
        let writer = self.writer.as_mut().expect("still open");
        writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn next(&mut self) -> Value {
        let line = self.lines.next_line().await.unwrap().expect("a line");
        serde_json::from_str(&line).unwrap()
    }

    /// Checks that no line arrives for a minute.
    pub(crate) async fn is_silent(&mut self) {
        let line = tokio::time::timeout(Duration::from_secs(60), self.lines.next_line()).await;
        assert!(line.is_err(), "{line:?}");
    }

    pub(crate) async fn ask(&mut self, request: &Value) -> Value {
        self.send(&request.to_string()).await;
        self.next().await
    }

    /// Closes the client's side, and returns the remaining messages and the server's close cause.
    pub(crate) async fn finish(mut self) -> (Vec<Value>, CloseCause) {
        let mut writer = self.writer.take().expect("still open");
        writer.shutdown().await.unwrap();
        let mut rest = Vec::new();
        while let Some(line) = self.lines.next_line().await.unwrap() {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        (rest, self.serving.await.unwrap())
    }
}

pub(crate) fn initialize(version: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": "open", "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "t", "version": "0" }
    } })
}

pub(crate) fn request(id: i64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}
