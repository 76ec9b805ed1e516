//! A scripted orchestrator, and a client that writes lines.

use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::Link;
use mcpjoin::proto::Raw;
use mcpjoin_orchestra::certs::Certificates;
use mcpjoin_orchestra::client::{Bridge, BridgeOptions, Orchestrator, OrchestratorOptions};
use mcpjoin_orchestra::value::{Numbers, Struct};
use mcpjoin_orchestra::wire::plugin_request::Request;
use mcpjoin_orchestra::wire::plugin_response::Response;
use mcpjoin_orchestra::wire::{
    self, HealthResult, ListToolsResponse, PluginRequest, PluginResponse, ToolDefinition, ToolRequest,
    ToolResponse,
};
use mcpjoin_orchestra::{ALPN, SERVER_NAME};
use mcpjoin_quic::endpoint::{Connection, Listener, QuicOptions, RecvStream, SendStream};
pub(crate) use mcpjoin_test_support::{Folder, run_on_threads as run};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

/// What the orchestrator does with a request.
pub(crate) enum Act {
    /// Responds.
    Say(Response),
    /// Responds with these bytes and ends the stream.
    Bytes(Vec<u8>),
    /// Responds with these messages, one frame each on one stream, and ends it.
    Frames(Vec<Response>),
    /// Responds with the first messages, and with the others when the value becomes true.
    FramesWhen(Vec<Response>, watch::Receiver<bool>, Vec<Response>),
    /// Does not respond until the client cancels.
    Hold,
    /// Responds when the value becomes true.
    When(watch::Receiver<bool>, Response),
    /// Resets the stream.
    Reset,
    /// Closes the connection.
    Close,
}

type Script = dyn Fn(&PluginRequest) -> Act + Send + Sync;

/// An orchestrator that follows its script, and records its requests.
pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
    task: JoinHandle<()>,
    stop: watch::Sender<bool>,
    /// Holds its certificates, where it has its own.
    folder: Option<Folder>,
}

#[derive(Default)]
struct Seen {
    requests: Mutex<Vec<PluginRequest>>,
    arrived: Mutex<Vec<mpsc::UnboundedSender<PluginRequest>>>,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    /// The number of streams that the client has cancelled.
    given_up: watch::Sender<usize>,
}

impl Scripted {
    pub(crate) async fn new(
        certificates: &Certificates,
        script: impl Fn(&PluginRequest) -> Act + Send + Sync + 'static,
    ) -> Self {
        Self::at("127.0.0.1:0", certificates, script).await
    }

    pub(crate) async fn at(
        address: &str,
        certificates: &Certificates,
        script: impl Fn(&PluginRequest) -> Act + Send + Sync + 'static,
    ) -> Self {
        let certificates = certificates.clone();
        // The options of the real one.
        let mut options = QuicOptions::default();
        options.streams = 100;
        (options.idle, options.keep_alive) = (Duration::from_secs(300), Duration::from_secs(15));
        let listener = loop {
            let certificates = certificates.clone();
            let tls = move || certificates.server(SERVER_NAME, true, ALPN);
            match Listener::bind(address, tls, options.clone()).await {
                Ok(listener) => break listener,
                // The previous listener has stopped, but its socket is closed by another task.
                Err(error) => assert!(error.to_string().contains("in use"), "{error}"),
            }
            tokio::task::yield_now().await;
        };
        let address = listener.address();
        let seen = Arc::new(Seen::default());
        let script: Arc<Script> = Arc::new(script);
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(accept(listener, script, seen.clone(), stopped));
        Self { address, seen, task, stop, folder: None }
    }

    /// All requests except health.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let requests = self.seen.requests.lock().unwrap();
        let asked = requests.iter().filter_map(|request| request.request.clone());
        asked.filter(|request| !matches!(request, Request::Health(_))).collect()
    }

    pub(crate) fn calls(&self) -> Vec<ToolRequest> {
        let calls = self.requests().into_iter().filter_map(|request| match request {
            Request::ToolCall(call) => Some(call),
            _ => None,
        });
        calls.collect()
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.seen.requests.lock().unwrap().iter().map(|request| request.request_id.clone()).collect()
    }

    pub(crate) fn most_at_once(&self) -> usize {
        self.seen.most_at_once.load(Ordering::SeqCst)
    }

    /// Every request from now on except health.
    pub(crate) fn arrivals(&self) -> mpsc::UnboundedReceiver<PluginRequest> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.seen.arrived.lock().unwrap().push(sender);
        receiver
    }

    /// Waits until this many streams were cancelled.
    pub(crate) async fn given_up(&self, streams: usize) {
        self.seen.given_up.subscribe().wait_for(|given| *given >= streams).await.unwrap();
    }

    /// Stops it normally.
    pub(crate) async fn stop(mut self) {
        self.stop.send(true).unwrap();
        (&mut self.task).await.unwrap();
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(
    listener: Listener,
    script: Arc<Script>,
    seen: Arc<Seen>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            incoming = listener.accept() => {
                let Some(incoming) = incoming else { return };
                let (script, seen) = (script.clone(), seen.clone());
                tasks.spawn(async move {
                    let Ok(connection) = incoming.establish().await else { return };
                    let mut streams = JoinSet::new();
                    while let Ok((send, receive)) = connection.accept().await {
                        streams.spawn(answer(connection.clone(), send, receive, script.clone(), seen.clone()));
                    }
                });
            }
            _ = stopped.wait_for(|stopped| *stopped) => break,
        }
    }
    listener.close(Duration::from_secs(5)).await;
}

async fn answer(
    connection: Connection,
    mut send: SendStream,
    mut receive: RecvStream,
    script: Arc<Script>,
    seen: Arc<Seen>,
) {
    let Ok(request) = wire::read::<PluginRequest>(&mut receive).await else { return };
    let now = seen.at_once.fetch_add(1, Ordering::SeqCst) + 1;
    seen.most_at_once.fetch_max(now, Ordering::SeqCst);
    let act = script(&request);
    let request_id = request.request_id.clone();
    seen.requests.lock().unwrap().push(request.clone());
    if !matches!(request.request, Some(Request::Health(_))) {
        seen.arrived.lock().unwrap().retain(|arrived| arrived.send(request.clone()).is_ok());
    }
    let said =
        |response| PluginResponse { request_id: request_id.clone(), response: Some(in_any_order(response)) };
    match act {
        Act::Say(response) => {
            seen.at_once.fetch_sub(1, Ordering::SeqCst);
            let _ = wire::write(&mut send, &said(response)).await;
            let _ = send.finish();
            return;
        }
        Act::When(mut told, response) => {
            let is_told = tokio::select! {
                told = async { told.wait_for(|told| *told).await.is_ok() } => told,
                _ = send.stopped() => false,
            };
            seen.at_once.fetch_sub(1, Ordering::SeqCst);
            if is_told {
                let _ = wire::write(&mut send, &said(response)).await;
                let _ = send.finish();
            } else {
                seen.given_up.send_modify(|given| *given += 1);
            }
            return;
        }
        Act::Bytes(bytes) => {
            let _ = send.write_all(&bytes).await;
            let _ = send.finish();
        }
        Act::Frames(responses) => {
            for response in responses {
                let _ = wire::write(&mut send, &said(response)).await;
            }
            let _ = send.finish();
        }
        Act::FramesWhen(first, mut told, rest) => {
            for response in first {
                let _ = wire::write(&mut send, &said(response)).await;
            }
            let is_told = tokio::select! {
                told = async { told.wait_for(|told| *told).await.is_ok() } => told,
                _ = send.stopped() => false,
            };
            if is_told {
                for response in rest {
                    let _ = wire::write(&mut send, &said(response)).await;
                }
                let _ = send.finish();
            } else {
                seen.given_up.send_modify(|given| *given += 1);
            }
        }
        Act::Hold => {
            let _ = send.stopped().await;
            seen.given_up.send_modify(|given| *given += 1);
        }
        Act::Reset => {
            let _ = send.reset(7u32.into());
        }
        Act::Close => connection.close(0, ""),
    }
    seen.at_once.fetch_sub(1, Ordering::SeqCst);
}

/// Lists are in another order each time, as from the real one.
fn in_any_order(mut response: Response) -> Response {
    let random = RandomState::new();
    match &mut response {
        Response::ListTools(list) => list.tools.sort_by_cached_key(|tool| random.hash_one(&tool.name)),
        Response::ListPrompts(list) => {
            list.prompts.sort_by_cached_key(|prompt| random.hash_one(&prompt.name));
        }
        _ => {}
    }
    response
}

/// A client with the default options.
/// A scripted orchestrator with certificates of its own, and a client of it.
pub(crate) async fn scripted(
    script: impl Fn(&PluginRequest) -> Act + Send + Sync + 'static,
) -> (Scripted, Orchestrator) {
    scripted_with(script, OrchestratorOptions::default()).await
}

pub(crate) async fn scripted_with(
    script: impl Fn(&PluginRequest) -> Act + Send + Sync + 'static,
    options: OrchestratorOptions,
) -> (Scripted, Orchestrator) {
    let folder = Folder::new();
    let certificates = Certificates::in_directory(folder.path());
    let mut scripted = Scripted::new(&certificates, script).await;
    scripted.folder = Some(folder);
    let orchestrator = handle_with(scripted.address, &certificates, options).await;
    (scripted, orchestrator)
}

pub(crate) async fn handle(address: impl ToString, certificates: &Certificates) -> Orchestrator {
    handle_with(address, certificates, OrchestratorOptions::default()).await
}

pub(crate) async fn handle_with(
    address: impl ToString,
    certificates: &Certificates,
    options: OrchestratorOptions,
) -> Orchestrator {
    Orchestrator::quic(&address.to_string(), certificates.clone(), options).await.unwrap()
}

// ---- answers ----

pub(crate) fn of_json(value: &Value) -> Struct {
    Struct::from_json(&raw(value), Numbers::Lossy).unwrap()
}

pub(crate) fn raw(value: &Value) -> Raw {
    Raw::from_value(value).unwrap()
}

pub(crate) fn healthy() -> Act {
    Act::Say(Response::Health(HealthResult {
        status: 1,
        message: "orchestrator ok".into(),
        ..HealthResult::default()
    }))
}

pub(crate) fn tool(name: &str) -> ToolDefinition {
    ToolDefinition { name: name.into(), ..ToolDefinition::default() }
}

/// Tools with a schema, except for one, as in the real orchestrator.
pub(crate) fn tools(names: &[&str]) -> Response {
    let without = names.iter().min();
    let definition = |name: &&str| ToolDefinition {
        input_schema: (Some(name) != without)
            .then(|| of_json(&json!({ "type": "object", "properties": {} }))),
        ..tool(name)
    };
    Response::ListTools(ListToolsResponse { tools: names.iter().map(definition).collect() })
}

pub(crate) fn done(result: &Value) -> Response {
    Response::ToolCall(ToolResponse {
        success: true,
        result: Some(of_json(result)),
        ..ToolResponse::default()
    })
}

pub(crate) fn refusal(code: &str, message: &str) -> Response {
    Response::ToolCall(ToolResponse {
        error_code: code.into(),
        error_message: message.into(),
        ..ToolResponse::default()
    })
}

pub(crate) fn call_of(name: &str) -> ToolRequest {
    ToolRequest { tool_name: name.into(), ..ToolRequest::default() }
}

/// An orchestrator with a few tools: `echo` returns its arguments, `fail` fails, `slow` never responds.
pub(crate) fn usual(request: &PluginRequest) -> Act {
    match request.request.as_ref().unwrap() {
        Request::Health(_) => healthy(),
        Request::ListTools(_) => Act::Say(tools(&["slow", "echo", "fail"])),
        Request::ToolCall(call) => match call.tool_name.as_str() {
            "echo" => Act::Say(Response::ToolCall(ToolResponse {
                success: true,
                result: call.arguments.clone(),
                ..ToolResponse::default()
            })),
            "fail" => Act::Say(refusal("validation_error", "title is missing")),
            "slow" => Act::Hold,
            other => Act::Say(refusal("tool_not_found", &format!("no plugin provides tool {other:?}"))),
        },
        _ => Act::Say(refusal("unknown_request", "unrecognized request type")),
    }
}

// ---- the MCP side ----

/// A client that writes lines.
pub(crate) struct Wire {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: Option<WriteHalf<DuplexStream>>,
    pub(crate) serving: JoinHandle<String>,
    last: i64,
}

impl Wire {
    /// Over a link that `serve` serves.
    pub(crate) fn over<F, Fut>(serve: F) -> Self
    where
        F: FnOnce(Link) -> Fut,
        Fut: Future<Output = String> + Send + 'static,
    {
        let (ours, theirs) = tokio::io::duplex(256 * 1024);
        let (reader, writer) = tokio::io::split(theirs);
        let serving = tokio::spawn(serve(Link::stream(reader, writer, "test")));
        let (reader, writer) = tokio::io::split(ours);
        Self { lines: BufReader::new(reader).lines(), writer: Some(writer), serving, last: 0 }
    }

    pub(crate) fn new(bridge: &Bridge) -> Self {
        let bridge = bridge.clone();
        Self::over(|link| async move { format!("{:?}", bridge.serve(link).await) })
    }

    /// The same after initialization with this revision.
    pub(crate) async fn opened(bridge: &Bridge, version: &str) -> Self {
        let mut wire = Self::new(bridge);
        let answer = wire.ask("initialize", &initialize(version)).await;
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
        wire.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        wire
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.send_line(&message.to_string()).await;
    }

    pub(crate) async fn send_line(&mut self, line: impl AsRef<[u8]>) {
        let writer = self.writer.as_mut().expect("still open");
        writer.write_all(line.as_ref()).await.unwrap();
        writer.write_all(b"\n").await.unwrap();
    }

    /// The next line, unparsed.
    pub(crate) async fn line(&mut self) -> String {
        self.lines.next_line().await.unwrap().expect("a line")
    }

    pub(crate) async fn next(&mut self) -> Value {
        serde_json::from_str(&self.line().await).unwrap()
    }

    /// Sends a request and returns its id.
    pub(crate) async fn request(&mut self, method: &str, params: &Value) -> i64 {
        self.last += 1;
        let id = self.last;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    /// Sends a request and returns its response; nothing else may arrive before it.
    pub(crate) async fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.request(method, params).await;
        let answer = self.next().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    pub(crate) async fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({ "name": tool, "arguments": arguments })).await
    }

    /// Sends a request in the modern form.
    pub(crate) async fn ask_modern(&mut self, method: &str, params: Value) -> Value {
        self.ask(method, &modern(params)).await
    }

    /// Closes our side, and returns the remaining messages and how serving ended.
    pub(crate) async fn finish(mut self) -> (Vec<Value>, String) {
        self.writer.take().expect("still open").shutdown().await.unwrap();
        let mut rest = Vec::new();
        while let Some(line) = self.lines.next_line().await.unwrap() {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        (rest, self.serving.await.unwrap())
    }
}

pub(crate) fn initialize(version: &str) -> Value {
    json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "t", "version": "0" } })
}

/// Adds the `_meta` of modern requests.
pub(crate) fn modern(mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": "t", "version": "0" });
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    params
}

pub(crate) fn bridge_with(orchestrator: Orchestrator, options: BridgeOptions) -> Bridge {
    Bridge::new(orchestrator, options).unwrap()
}

/// A scripted orchestrator, and a bridge to it that does not poll.
pub(crate) struct Stage {
    pub(crate) scripted: Scripted,
    pub(crate) bridge: Bridge,
}

impl Stage {
    pub(crate) async fn new(script: impl Fn(&PluginRequest) -> Act + Send + Sync + 'static) -> Self {
        Self::with(script, quiet()).await
    }

    pub(crate) async fn with(
        script: impl Fn(&PluginRequest) -> Act + Send + Sync + 'static,
        options: BridgeOptions,
    ) -> Self {
        let (scripted, orchestrator) = scripted(script).await;
        Self { scripted, bridge: bridge_with(orchestrator, options) }
    }

    pub(crate) async fn opened(&self) -> Wire {
        Wire::opened(&self.bridge, "2025-11-25").await
    }
}

/// Without polling.
pub(crate) fn quiet() -> BridgeOptions {
    let mut options = BridgeOptions::default();
    (options.poll, options.settling) = (None, Duration::ZERO);
    options
}
