//! Support for the tests of the HTTP server: a server with tools that block until the test releases them, and a
//! scripted HTTP client.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body::Body as _;
use http_body_util::Full;
use mcpjoin::Server;
use mcpjoin::proto::Raw;
use mcpjoin::proto::codec::sse::{SseDecoder, SseEvent};
use mcpjoin::proto::types::{
    ElicitFormParams, ElicitationSchema, LoggingLevel, Members, Prompt, Resource, Tool,
};
use mcpjoin::server::{Context, HandlerError, ServerBuilder};
use mcpjoin::transport::{HttpBody, HttpOptions, HttpService};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tower_service::Service as _;

pub(crate) const MODERN: &str = "2026-07-28";
pub(crate) const LEGACY: &str = "2025-11-25";

/// Runs a test on a paused clock that advances only while all tasks wait. Ten hours on it count as a hang.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(36_000), test).await.expect("the test hangs");
    });
}

/// Runs a test on the real clock, for tests that use sockets.
pub(crate) fn run_for_real(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test hangs");
    });
}

/// The signals that the tools of [`server`] wait for, and counters of their calls.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) open: Arc<Semaphore>,
    /// Calls of `wait` that have begun.
    pub(crate) begun: watch::Sender<usize>,
    /// Calls of `wait` that were dropped before they had a result.
    pub(crate) dropped: watch::Sender<usize>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self {
            open: Arc::new(Semaphore::new(0)),
            begun: watch::Sender::new(0),
            dropped: watch::Sender::new(0),
        }
    }

    pub(crate) fn begun(&self) -> usize {
        *self.begun.borrow()
    }

    pub(crate) fn dropped(&self) -> usize {
        *self.dropped.borrow()
    }
}

struct Counted(Option<watch::Sender<usize>>);

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(count) = &self.0 {
            count.send_modify(|count| *count += 1);
        }
    }
}

fn any_object() -> Raw {
    Raw::parse(r#"{"type":"object"}"#).unwrap()
}

fn member(arguments: &Raw, name: &str) -> Value {
    arguments.decode::<Value>().unwrap()[name].clone()
}

pub(crate) fn builder(gate: &Gate) -> ServerBuilder {
    let gate = gate.clone();
    let marked = r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}"#;
    Server::builder("s", "1")
        .logging()
        .dynamic_tools()
        .subscriptions()
        .raw_tool(Tool::new("echo", any_object()), |arguments, _| async move {
            member(&arguments, "message").as_str().unwrap_or_default().to_owned()
        })
        .raw_tool(Tool::new("marked", Raw::parse(marked).unwrap()), |_, _| async move { "marked".to_owned() })
        // Reports progress at each step, and goes on with the next step when the gate opens.
        .raw_tool(Tool::new("steps", any_object()), {
            let gate = gate.clone();
            move |arguments, cx: Context| {
                let gate = gate.clone();
                async move {
                    for step in 1..=member(&arguments, "n").as_u64().unwrap_or(1) {
                        cx.progress(step as f64, None, None);
                        // Lets the server send this progress before the handler reports the next one.
                        tokio::task::yield_now().await;
                        gate.open.acquire().await.unwrap().forget();
                    }
                    "stepped".to_owned()
                }
            }
        })
        // The same, and closes its client's connection after each step.
        .raw_tool(Tool::new("part", any_object()), {
            let gate = gate.clone();
            move |arguments, cx: Context| {
                let gate = gate.clone();
                async move {
                    for step in 1..=member(&arguments, "n").as_u64().unwrap_or(1) {
                        cx.progress(step as f64, None, None);
                        cx.close_sse_stream();
                        gate.open.acquire().await.unwrap().forget();
                    }
                    "parted".to_owned()
                }
            }
        })
        .raw_tool(Tool::new("wait", any_object()), move |_, _| {
            let gate = gate.clone();
            async move {
                gate.begun.send_modify(|begun| *begun += 1);
                let mut counted = Counted(Some(gate.dropped.clone()));
                gate.open.acquire().await.unwrap().forget();
                counted.0 = None;
                "waited".to_owned()
            }
        })
        .raw_tool(Tool::new("log", any_object()), |_, cx: Context| async move {
            cx.log(LoggingLevel::Warning, "careful");
            "logged".to_owned()
        })
        .raw_tool(Tool::new("ask", any_object()), |_, cx: Context| async move {
            let question = ElicitFormParams::new("Sure?", ElicitationSchema::new(Members::new()));
            let answer = cx.elicit(question).await?;
            Ok::<_, HandlerError>(answer.action.as_str().to_owned())
        })
        .raw_tool(Tool::new("panics", any_object()), |_, _| async move {
            assert!(std::hint::black_box(false), "s3cret");
            String::new()
        })
        .resource(Resource::new("x://1", "1"), |_, _| async move { "one".to_owned() })
        .prompt(Prompt::new("p"), |_, _| async move { "prompted".to_owned() })
}

pub(crate) fn server() -> (Server, Gate) {
    let gate = Gate::new();
    (builder(&gate).build().unwrap(), gate)
}

/// A client of an HTTP service.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) service: HttpService,
    /// The headers of every request.
    pub(crate) headers: Vec<(String, String)>,
}

/// A response whose body may be incomplete.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: HttpBody,
    decoder: SseDecoder,
}

pub(crate) fn peer(options: HttpOptions) -> (Peer, Gate) {
    let (server, gate) = server();
    (Peer::new(&server, options), gate)
}

impl Peer {
    pub(crate) fn new(server: &Server, options: HttpOptions) -> Self {
        let headers = [
            ("host", "localhost:1"),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Self { service: server.http(options), headers }
    }

    /// The same client with this header added or replaced; an empty value removes the header.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut other = self.clone();
        other.headers.retain(|(kept, _)| kept != name);
        if !value.is_empty() {
            other.headers.push((name.to_owned(), value.to_owned()));
        }
        other
    }

    pub(crate) fn request(&self, method: Method, uri: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.body(Full::new(body.into())).unwrap()
    }

    pub(crate) async fn send(&self, method: Method, uri: &str, body: impl Into<Bytes>) -> Reply {
        let request = self.request(method, uri, body);
        Reply::of(self.service.clone().call(request).await.unwrap())
    }

    pub(crate) async fn post(&self, body: impl ToString) -> Reply {
        self.send(Method::POST, "/mcp", body.to_string()).await
    }

    pub(crate) async fn get(&self) -> Reply {
        self.send(Method::GET, "/mcp", "").await
    }

    // ---- 2026-07-28 ----

    /// Adds the headers of a modern request.
    pub(crate) fn modern(&self, method: &str, name: &str) -> Self {
        self.with("mcp-protocol-version", MODERN).with("mcp-method", method).with("mcp-name", name)
    }

    pub(crate) async fn ask(&self, id: impl Into<Value>, method: &str, params: Value) -> Reply {
        let name = params["name"].as_str().or_else(|| params["uri"].as_str()).unwrap_or_default().to_owned();
        self.modern(method, &name).post(modern(id, method, params)).await
    }

    pub(crate) async fn call(&self, id: impl Into<Value>, tool: &str, arguments: Value) -> Reply {
        self.ask(id, "tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    // ---- up to 2025-11-25 ----

    /// Opens a session of that revision and returns the client with its headers.
    pub(crate) async fn open(&self, version: &str) -> Self {
        self.open_as(version, json!({ "elicitation": {} })).await
    }

    pub(crate) async fn open_as(&self, version: &str, capabilities: Value) -> Self {
        let reply = self.post(initialize(version, capabilities)).await;
        let id = reply.headers["mcp-session-id"].to_str().unwrap().to_owned();
        assert_eq!(reply.json().await["result"]["protocolVersion"], version);
        let session = self.with("mcp-session-id", &id).with("mcp-protocol-version", version);
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(session.post(initialized).await.status, 202);
        session
    }

    pub(crate) async fn call_in_session(&self, id: impl Into<Value>, tool: &str, arguments: Value) -> Reply {
        self.post(call(id, tool, arguments)).await
    }
}

impl Reply {
    pub(crate) fn of(response: http::Response<HttpBody>) -> Self {
        let (parts, body) = response.into_parts();
        let decoder = SseDecoder::new(1 << 20);
        Self { status: parts.status.as_u16(), headers: parts.headers, body, decoder }
    }

    pub(crate) fn kind(&self) -> &str {
        self.headers.get("content-type").map_or("", |value| value.to_str().unwrap())
    }

    /// The next piece of the body.
    pub(crate) async fn piece(&mut self) -> Option<Bytes> {
        let frame = poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await?;
        Some(frame.unwrap().into_data().unwrap())
    }

    pub(crate) async fn bytes(mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.piece().await {
            bytes.extend_from_slice(&piece);
        }
        bytes
    }

    /// The whole body, which must be JSON.
    pub(crate) async fn json(self) -> Value {
        assert_eq!(self.kind(), "application/json");
        serde_json::from_slice(&self.bytes().await).unwrap()
    }

    /// The only message of the response, either as the body or as an event.
    pub(crate) async fn message_or_json(mut self) -> Value {
        match self.kind() {
            "application/json" => self.json().await,
            _ => self.message().await.expect("a message"),
        }
    }

    /// The status, and the code of the JSON-RPC error in the body.
    pub(crate) async fn error(self) -> (u16, i64) {
        let status = self.status;
        (status, self.json().await["error"]["code"].as_i64().unwrap())
    }

    /// The next event: its id and its data; `None` at the end of the stream.
    pub(crate) async fn event(&mut self) -> Option<(String, String)> {
        assert_eq!(self.kind(), "text/event-stream");
        loop {
            match self.decoder.poll_event() {
                Some(SseEvent::Event(event)) => {
                    let id = event.id.map(|id| String::from_utf8(id.to_vec()).unwrap()).unwrap_or_default();
                    return Some((id, String::from_utf8(event.data.to_vec()).unwrap()));
                }
                Some(SseEvent::Comment | SseEvent::Retry(_)) => {}
                Some(other) => panic!("{other:?}"),
                None => match self.piece().await {
                    Some(piece) => self.decoder.push(piece),
                    None => return None,
                },
            }
        }
    }

    /// The next message of the stream, without the priming event; `None` at the end of the stream.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        Some(self.message_with_id().await?.1)
    }

    pub(crate) async fn message_with_id(&mut self) -> Option<(String, Value)> {
        loop {
            let (id, data) = self.event().await?;
            if !data.is_empty() {
                return Some((id, serde_json::from_str(&data).unwrap()));
            }
        }
    }

    /// Checks that nothing but comments arrives for a minute.
    pub(crate) async fn is_silent(&mut self) {
        let message = tokio::time::timeout(Duration::from_secs(60), self.message()).await;
        assert!(message.is_err(), "{message:?}");
    }
}

/// A request of 2026-07-28.
pub(crate) fn modern(id: impl Into<Value>, method: &str, mut params: Value) -> Value {
    let meta = params.as_object_mut().unwrap().entry("_meta").or_insert_with(|| json!({}));
    meta["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

pub(crate) fn initialize(version: &str, capabilities: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": "open", "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": capabilities, "clientInfo": { "name": "t", "version": "0" }
    } })
}

/// A tool call in a legacy revision that asks for progress.
pub(crate) fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    let id = id.into();
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": tool, "arguments": arguments, "_meta": { "progressToken": id }
    } })
}

pub(crate) fn text(message: &Value) -> &str {
    message["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{message}"))
}

/// Waits until a counter has reached this value.
pub(crate) async fn until(count: &watch::Sender<usize>, least: usize) {
    count.subscribe().wait_for(|count| *count >= least).await.unwrap();
}

/// Runs every ready task.
pub(crate) async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// Polls a future a few times, and checks that it is pending.
pub(crate) async fn begins<F: Future + Unpin>(future: &mut F) {
    for _ in 0..3 {
        let waiting = poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx).is_pending())).await;
        assert!(waiting, "it is over already");
        settle().await;
    }
}
