//! Tests of the demonstration server over links in memory with a paused clock: each tool, prompt and resource in both eras
//! through the library's client, and the messages that the official suite checks, line by line. A test for a scenario has
//! the name of the scenario.

mod changes;
mod content;
mod introduction;
mod offers;
mod protocol;
mod questions;
mod rounds;
mod schemas;
mod steps;
mod tasks;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::client::ClientBuilder;
use mcpjoin::proto::session::{EraChoice, Limits};
use mcpjoin::proto::types::{
    CallToolResult, Content, CreateMessageResult, ElicitAction, ElicitParams, ElicitResult, Members, Role,
    Root, SamplingContent,
};
use mcpjoin::proto::{Era, ErrorObject, Notification, Raw};
use mcpjoin::{Client, Link, Server};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::sync::mpsc;

use crate::demo::Demo;

pub(super) const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// Runs a test with a paused clock, for at most ten hours of virtual time.
pub(super) fn run(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(36_000), test).await.expect("the test hangs");
    });
}

pub(super) fn server() -> Server {
    Demo::Full.server(Limits::default()).unwrap()
}

pub(super) fn raw(value: &Value) -> Raw {
    Raw::from_value(value).unwrap()
}

pub(super) fn value(value: &impl serde::Serialize) -> Value {
    Raw::from_value(value).unwrap().decode().unwrap()
}

pub(super) fn builder(era: Era) -> ClientBuilder {
    Client::builder("test", "1").era(EraChoice::Only(era))
}

pub(super) async fn connect(server: &Server, builder: ClientBuilder) -> Client {
    let (ours, theirs) = Link::memory();
    server.connect(theirs);
    builder.connect(ours).await.unwrap()
}

/// A client that answers no requests of the server.
pub(super) async fn silent(era: Era) -> Client {
    connect(&server(), builder(era)).await
}

/// The elicitation requests that a client received: their schemas and messages.
pub(super) type Asked = Arc<Mutex<Vec<Value>>>;

/// A client that answers every request: with the name Ada, the colour blue, yes, and the roots of a home.
pub(super) async fn answering(era: Era) -> (Client, Asked) {
    let asked = Asked::default();
    let (forms, prompts) = (asked.clone(), asked.clone());
    let builder = builder(era)
        .roots(vec![Root::new("file:///home")])
        .sampling(move |params| {
            prompts.lock().unwrap().push(value(&params));
            let answer = SamplingContent::text("Paris");
            async { Ok(CreateMessageResult::new(Role::Assistant, answer, "none")) }
        })
        .elicitation(move |params| {
            forms.lock().unwrap().push(value(&params));
            async move { Ok(filled_in(&params)) }
        });
    (connect(&server(), builder).await, asked)
}

/// Fills in every field with a value that suits its name.
pub(super) fn filled_in(params: &ElicitParams) -> ElicitResult {
    let ElicitParams::Form(form) = params else { panic!("{params:?}") };
    let mut content = Members::new();
    for field in form.requested_schema.properties.keys() {
        let value = match field {
            "name" | "username" => json!("Ada"),
            "color" => json!("blue"),
            "ok" | "confirm" | "verified" => json!(true),
            "untitledMulti" => json!(["option1"]),
            "titledMulti" => json!(["value1", "value2"]),
            _ => json!("so"),
        };
        content.insert(field, raw(&value));
    }
    ElicitResult::new(ElicitAction::Accept).with_content(content)
}

/// A client, and the notifications that it receives.
pub(super) async fn listening(server: &Server, era: Era) -> (Client, mpsc::UnboundedReceiver<Notification>) {
    let (received, receiver) = mpsc::unbounded_channel();
    let receive = move |notification| received.send(notification).unwrap();
    (connect(server, builder(era).on_notification(receive)).await, receiver)
}

pub(super) async fn call(client: &Client, tool: &str, arguments: Value) -> CallToolResult {
    client.call_tool(tool, Some(raw(&arguments))).await.unwrap()
}

/// The text of a result whose only content is a text.
pub(super) fn text(result: &CallToolResult) -> &str {
    let [Content::Text(text)] = &result.content[..] else { panic!("{result:?}") };
    &text.text
}

/// The error of a call that is refused.
pub(super) async fn refused(client: &Client, tool: &str, arguments: Value) -> ErrorObject {
    let error = client.call_tool(tool, Some(raw(&arguments))).await.unwrap_err();
    error.remote().unwrap_or_else(|| panic!("{error}")).clone()
}

/// A scripted client that sends and receives lines.
pub(super) struct Wire {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    last: i64,
    meta: Option<Value>,
    /// The messages before the response to the last request.
    pub(super) received: Vec<Value>,
}

impl Wire {
    fn new(server: &Server, meta: Option<Value>) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = tokio::io::split(theirs);
        server.connect(Link::stream(reader, writer, "test"));
        let (reader, writer) = tokio::io::split(ours);
        Self { lines: BufReader::new(reader).lines(), writer, last: 0, meta, received: Vec::new() }
    }

    /// A client of the modern era with these capabilities.
    pub(super) fn modern(server: &Server, capabilities: Value) -> Self {
        Self::new(server, Some(meta(capabilities)))
    }

    /// A client of the modern era with every capability that the server can use.
    pub(super) fn able() -> Self {
        Self::modern(&server(), json!({ "roots": {}, "sampling": {}, "elicitation": {} }))
    }

    /// A client of the newest legacy revision, after the handshake. The response to `initialize` is in `received`.
    pub(super) async fn legacy(server: &Server) -> Self {
        let mut wire = Self::new(server, None);
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "0" }
        });
        let opened = wire.ask("initialize", params).await;
        wire.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        wire.received = vec![opened];
        wire
    }

    /// Sets the `_meta` of the next requests.
    pub(super) fn says(&mut self, meta: Option<Value>) {
        self.meta = meta;
    }

    pub(super) async fn send(&mut self, message: &Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    pub(super) async fn next(&mut self) -> Value {
        let line = self.lines.next_line().await.unwrap().expect("a line");
        serde_json::from_str(&line).unwrap()
    }

    /// Asserts that no message arrives for a minute.
    pub(super) async fn is_silent(&mut self) {
        let line = tokio::time::timeout(Duration::from_secs(60), self.lines.next_line()).await;
        assert!(line.is_err(), "{line:?}");
    }

    /// Sends a request and returns its id.
    pub(super) async fn request(&mut self, method: &str, mut params: Value) -> i64 {
        self.last += 1;
        if let Some(meta) = &self.meta {
            params["_meta"] = meta.clone();
        }
        let id = self.last;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    /// Sends a request and returns the whole response. The messages before it are in `received`.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).await;
        self.received.clear();
        loop {
            let message = self.next().await;
            if message["id"] == id && message["method"].is_null() {
                return message;
            }
            self.received.push(message);
        }
    }

    /// The result of a request.
    pub(super) async fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params).await;
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    /// The code of the error of a request.
    pub(super) async fn code(&mut self, method: &str, params: Value) -> i64 {
        let answer = self.ask(method, params).await;
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer}"))
    }

    /// The result of a call.
    pub(super) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }
}

/// The `_meta` of a modern request.
pub(super) fn meta(capabilities: Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "0" }
    })
}
