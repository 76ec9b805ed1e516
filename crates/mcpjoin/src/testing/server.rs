//! A server for the test of a client: it plays a script of expected requests, responses, delays and faults.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::sync::Mutex;
use mcpjoin_proto::session::Reply;
use mcpjoin_proto::{Era, ErrorObject, Method, Profile, Version, code};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, duplex,
    split,
};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::assert::differences;
use super::json as to_json;
use crate::client::Client;
use crate::server::{ToolOutput, tools::written};
use crate::transport::Link;

/// How many bytes each side may send before the other side reads.
const BUFFER_BYTES: usize = 64 * 1024;

/// A running server that plays a script to one client.
///
/// Dropping it ends the connection. It fails the test if the client has sent a request that the script does not expect, or
/// has not sent one that it expects; unless the test has failed already. A request that is not expected gets an error that says
/// so, and so does every request after it: a client never waits for a script that cannot continue.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use mcpjoin::Client;
/// use mcpjoin::testing::{ExpectTool as _, TestServer};
/// use serde_json::json;
///
/// let (link, _server) = TestServer::script()
///     .expect_with("tools/call", json!({ "name": "add", "arguments": { "a": 2 } }))
///     .delay(Duration::from_secs(30))
///     .reply(json!({ "content": [{ "type": "text", "text": "42" }] }))
///     .expect("tools/call")
///     .close()
///     .start();
/// let client = Client::builder("c", "1").connect(link).await?;
/// client.call_tool("add", json!({ "a": 2 })).await.expect_text("42");
/// // The server closes the link in place of a response.
/// assert!(client.call_tool("add", ()).await.unwrap_err().is_fatal());
/// # Ok(())
/// # }
/// ```
pub struct TestServer {
    progress: Arc<Mutex<Progress>>,
    task: JoinHandle<()>,
}

/// What a [`TestServer`] does, step by step. Created by [`TestServer::script`].
///
/// The server opens the session by itself. From then on each request of the client must be the next that the script expects.
/// Notifications of the client are skipped if the next step does not expect them. For a response that is lost, add no reply;
/// for one that arrives twice, add it twice.
#[must_use = "a script does nothing before it is started"]
pub struct ServerScript {
    version: Version,
    capabilities: Value,
    tools: Vec<(String, Value)>,
    steps: VecDeque<Step>,
}

/// A request or notification that a [`TestServer`] has received.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Received {
    /// The method.
    pub method: String,
    /// The parameters without `_meta`; null if there are none.
    pub params: Value,
}

enum Step {
    Expect { method: String, params: Option<Value> },
    Delay(Duration),
    Reply(Result<Value, ErrorObject>),
    Progress { progress: f64, total: Option<f64> },
    Bytes(Vec<u8>),
    Close,
}

/// What the test learns when it ends.
struct Progress {
    steps: VecDeque<Step>,
    /// The method that the script waits for.
    awaited: Option<String>,
    problem: Option<String>,
    /// What the client has sent after the session was opened.
    received: Vec<Received>,
}

impl ServerScript {
    /// Sets the protocol version. Default: the newest.
    pub fn version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// Sets the capabilities that the server declares: an object. Default: tools, resources with subscriptions, prompts,
    /// completions and logging, with changing lists.
    pub fn capabilities(mut self, capabilities: impl Serialize) -> Self {
        self.capabilities = to_json(&capabilities);
        self
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push_back(step);
        self
    }

    /// Adds a tool that returns this result to each of its calls: a text, [`Json`](crate::server::Json), a
    /// [`CallToolResult`](mcpjoin_proto::types::CallToolResult), or what else a tool of a server may return.
    ///
    /// Calls of such tools, and the list of tools, are no steps of the script: they may be sent at any time and in any number.
    /// [`TestServer::calls`] returns the arguments.
    ///
    /// # Panics
    /// If the result is none that can be repeated: a protocol error, or a request for input.
    #[track_caller]
    pub fn tool(mut self, name: impl Into<String>, result: impl ToolOutput) -> Self {
        let name = name.into();
        match written(result.into_tool_reply()) {
            Ok(Reply::Complete(result)) => self.tools.push((name, to_json(&result))),
            Ok(_) => panic!("the result of {name} is not complete"),
            Err(error) => panic!("the result of {name} is an error of the protocol: {error}"),
        }
        self
    }

    /// Waits for a request, or a notification, of this method.
    pub fn expect(self, method: impl Into<String>) -> Self {
        self.step(Step::Expect { method: method.into(), params: None })
    }

    /// As [`expect`](Self::expect), with exactly these parameters. `_meta` is not compared.
    pub fn expect_with(self, method: impl Into<String>, params: impl Serialize) -> Self {
        self.step(Step::Expect { method: method.into(), params: Some(to_json(&params)) })
    }

    /// Waits this long, on the clock of tokio, before the next step.
    pub fn delay(self, time: Duration) -> Self {
        self.step(Step::Delay(time))
    }

    /// Responds to the last expected request with a result: an object. The members that every result of 2026-07-28 must have
    /// are added if they are missing.
    pub fn reply(self, result: impl Serialize) -> Self {
        self.step(Step::Reply(Ok(to_json(&result))))
    }

    /// Responds to the last expected request with an error.
    pub fn reply_error(self, error: ErrorObject) -> Self {
        self.step(Step::Reply(Err(error)))
    }

    /// Reports progress of the last expected request, with the token that the client gave it. Does nothing if it gave none.
    pub fn progress(self, progress: f64, total: Option<f64>) -> Self {
        self.step(Step::Progress { progress, total })
    }

    /// Sends a notification.
    pub fn notify(self, method: &str, params: impl Serialize) -> Self {
        let notification = json!({ "jsonrpc": "2.0", "method": method, "params": to_json(&params) });
        self.send(format!("{notification}\n"))
    }

    /// Sends bytes as they are: an invalid message, half a line. The transport separates messages by line feeds.
    pub fn send(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.step(Step::Bytes(bytes.into()))
    }

    /// Closes the link. The steps after it are not played.
    pub fn close(self) -> Self {
        self.step(Step::Close)
    }

    /// Starts the server in a task of the current runtime. Returns the link for the client, and the server, which must be
    /// held until the test ends.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcpjoin::Client;
    /// use mcpjoin::testing::TestServer;
    ///
    /// // A server that exits in the middle of a call.
    /// let (link, _server) = TestServer::script().expect("tools/call").close().start();
    /// let client = Client::builder("example", "1.0.0").connect(link).await?;
    /// assert!(client.call_tool("build", ()).await.is_err_and(|error| error.is_fatal()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled.
    pub fn start(self) -> (Link, TestServer) {
        let Self { version, capabilities, tools, steps } = self;
        let (near, far) = duplex(BUFFER_BYTES);
        let (reader, writer) = split(near);
        let link = Link::stream(reader, writer, "test");
        let (reader, writer) = split(far);
        let progress =
            Arc::new(Mutex::new(Progress { steps, awaited: None, problem: None, received: Vec::new() }));
        let player = Player {
            profile: Profile::of(&version),
            version,
            capabilities,
            tools,
            progress: progress.clone(),
            lines: BufReader::new(reader).lines(),
            writer,
            is_open: false,
            last: Value::Null,
        };
        let task = tokio::spawn(player.play());
        (link, TestServer { progress, task })
    }

    /// Starts the server like [`start`](Self::start), and connects a client without options to it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use mcpjoin::server::Json;
    /// use mcpjoin::testing::{ExpectTool as _, TestServer};
    /// use serde_json::json;
    ///
    /// let (client, server) = TestServer::script().tool("add", Json(42)).connect().await;
    /// client.call_tool("add", json!({ "a": 2, "b": 40 })).await.expect_value(42);
    /// assert_eq!(server.calls("add"), [json!({ "a": 2, "b": 40 })]);
    /// # }
    /// ```
    ///
    /// # Panics
    /// If the two do not agree, and outside of a tokio runtime with time enabled.
    pub async fn connect(self) -> (Client, TestServer) {
        let (link, server) = self.start();
        match Client::builder("test-client", "1.0.0").connect(link).await {
            Ok(client) => (client, server),
            Err(error) => panic!("the client could not be connected: {error}"),
        }
    }
}

impl TestServer {
    /// Returns an empty script: a server that is opened and expects nothing.
    pub fn script() -> ServerScript {
        let changing = || json!({ "listChanged": true });
        let capabilities = json!({
            "tools": changing(),
            "resources": { "listChanged": true, "subscribe": true },
            "prompts": changing(),
            "completions": {},
            "logging": {},
        });
        let version = Version::newest(Era::Modern);
        ServerScript { version, capabilities, tools: Vec::new(), steps: VecDeque::new() }
    }

    /// Returns what the client has sent so far, in its order, without what opens the session.
    #[must_use]
    pub fn requests(&self) -> Vec<Received> {
        self.progress.lock().received.clone()
    }

    /// Returns the arguments of the calls of a tool so far, in their order; null for a call without arguments.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcpjoin::server::Json;
    /// use mcpjoin::testing::TestServer;
    /// use serde_json::json;
    ///
    /// let (client, server) = TestServer::script().tool("add", Json(42)).connect().await;
    /// let sum: i64 = client.call_tool("add", json!({ "a": 2, "b": 40 })).await?.decode()?;
    /// assert_eq!(sum, 42);
    /// assert_eq!(server.calls("add"), [json!({ "a": 2, "b": 40 })]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn calls(&self, tool: &str) -> Vec<Value> {
        let progress = self.progress.lock();
        let calls = progress.received.iter().filter(|one| one.method == "tools/call");
        calls
            .filter(|call| call.params["name"] == tool)
            .map(|call| call.params["arguments"].clone())
            .collect()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
        let failure = self.progress.lock().failure();
        if let Some(failure) = failure.filter(|_| !std::thread::panicking()) {
            panic!("{failure}");
        }
    }
}

impl Progress {
    /// Why the test has failed, if it has.
    fn failure(&self) -> Option<String> {
        if let Some(problem) = &self.problem {
            return Some(problem.clone());
        }
        let expected =
            self.steps.iter().take_while(|step| !matches!(step, Step::Close)).filter_map(|step| match step {
                Step::Expect { method, .. } => Some(method),
                _ => None,
            });
        let missing: Vec<&str> = self.awaited.iter().chain(expected).map(String::as_str).collect();
        (!missing.is_empty()).then(|| format!("the client has not sent: {}", missing.join(", ")))
    }
}

/// Plays the script.
struct Player {
    /// The facts of the version; `None` for an unknown version.
    profile: Option<&'static Profile>,
    version: Version,
    capabilities: Value,
    /// The tools whose calls are no steps of the script, with their results.
    tools: Vec<(String, Value)>,
    progress: Arc<Mutex<Progress>>,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    /// The session is open.
    is_open: bool,
    /// The last expected message.
    last: Value,
}

impl Player {
    async fn play(mut self) {
        while !self.is_open {
            let Some(message) = self.line().await else { return };
            if !self.open(&message).await {
                self.refuse(&message, "the client has not opened the session").await;
            }
        }
        while let Some(step) = self.next_step() {
            match step {
                Step::Expect { method, params } => {
                    if !self.expect(&method, params.as_ref()).await {
                        break;
                    }
                    self.progress.lock().awaited = None;
                }
                Step::Delay(time) => sleep(time).await,
                Step::Reply(outcome) => self.reply(outcome).await,
                Step::Progress { progress, total } => self.report(progress, total).await,
                Step::Bytes(bytes) => self.write(&bytes).await,
                Step::Close => {
                    self.progress.lock().steps.clear();
                    return;
                }
            }
        }
        while let Some(message) = self.message().await {
            if let Some(method) = message["method"].as_str() {
                self.refuse(
                    &message,
                    &format!("the script expects nothing more, and the client sent {method}"),
                )
                .await;
            }
        }
    }

    fn next_step(&self) -> Option<Step> {
        let mut progress = self.progress.lock();
        let step = progress.steps.pop_front()?;
        if let Step::Expect { method, .. } = &step {
            progress.awaited = Some(method.clone());
        }
        Some(step)
    }

    /// The next message. `None` when the client has closed the link.
    async fn line(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.ok()??;
        Some(serde_json::from_str(&line).unwrap_or_else(|error| {
            let problem = format!("the client sent a line that is not JSON ({error}): {line}");
            self.progress.lock().problem.get_or_insert(problem);
            Value::Null
        }))
    }

    /// The next message that does not open the session.
    async fn message(&mut self) -> Option<Value> {
        loop {
            let message = self.line().await?;
            if self.open(&message).await {
                continue;
            }
            if let Some(method) = message["method"].as_str() {
                let received = Received { method: method.to_owned(), params: params_of(&message) };
                self.progress.lock().received.push(received);
            }
            if !self.answer(&message).await {
                return Some(message);
            }
        }
    }

    /// Answers a call of a tool that has a result for all calls, and the list of these tools. Returns false if it is neither.
    async fn answer(&mut self, message: &Value) -> bool {
        let result = match message["method"].as_str() {
            Some("tools/call") => {
                let called = self.tools.iter().find(|(name, _)| message["params"]["name"] == name.as_str());
                called.map(|(_, result)| result.clone())
            }
            Some("tools/list") if !self.tools.is_empty() => {
                let tool = |(name, _): &(String, Value)| json!({ "name": name, "inputSchema": { "type": "object" } });
                Some(json!({ "tools": self.tools.iter().map(tool).collect::<Vec<_>>() }))
            }
            _ => None,
        };
        let Some(result) = result else { return false };
        self.respond(message, "result", self.complete(message, result)).await;
        true
    }

    /// Answers a message that opens the session. Returns false if it is none.
    async fn open(&mut self, message: &Value) -> bool {
        let has_handshake = self.profile.is_some_and(|profile| profile.initialize);
        let info = json!({ "name": "test-server", "version": "1.0.0" });
        let result = match message["method"].as_str() {
            Some("server/discover") if !has_handshake => {
                self.is_open = true;
                json!({
                    "resultType": "complete",
                    "ttlMs": 0,
                    "cacheScope": "private",
                    "supportedVersions": [self.version.as_str()],
                    "capabilities": self.capabilities,
                    "_meta": { "io.modelcontextprotocol/serverInfo": info },
                })
            }
            Some("initialize") if has_handshake => json!({
                "protocolVersion": self.version.as_str(),
                "capabilities": self.capabilities,
                "serverInfo": info,
            }),
            Some(method @ ("server/discover" | "initialize")) => {
                self.respond(message, "error", to_json(&ErrorObject::method_not_found(method))).await;
                return true;
            }
            Some("notifications/initialized") => {
                self.is_open = true;
                return true;
            }
            _ => return false,
        };
        self.respond(message, "result", result).await;
        true
    }

    /// Waits for a message of this method. Returns false if the client sent another request, or is gone.
    async fn expect(&mut self, method: &str, params: Option<&Value>) -> bool {
        loop {
            let Some(message) = self.message().await else { return false };
            let sent = message["method"].as_str().unwrap_or_default();
            if sent == method {
                let received = params_of(&message);
                let Some(lines) = params.and_then(|params| differences(&received, params)) else {
                    self.last = message;
                    return true;
                };
                self.refuse(&message, &format!("the parameters of {method} differ:{lines}")).await;
                return false;
            }
            if message.get("id").is_some() && !sent.is_empty() {
                self.refuse(&message, &format!("the script expects {method}, and the client sent {sent}"))
                    .await;
                return false;
            }
        }
    }

    /// Records why the script cannot continue, and fails the request.
    async fn refuse(&mut self, message: &Value, problem: &str) {
        if message.get("id").is_none() {
            return;
        }
        self.progress.lock().problem.get_or_insert_with(|| problem.to_owned());
        let error = ErrorObject::new(code::INTERNAL_ERROR, problem);
        self.respond(message, "error", to_json(&error)).await;
    }

    async fn reply(&mut self, outcome: Result<Value, ErrorObject>) {
        let request = self.last.clone();
        match outcome {
            Ok(result) => self.respond(&request, "result", self.complete(&request, result)).await,
            Err(error) => self.respond(&request, "error", to_json(&error)).await,
        }
    }

    /// Adds the members that each result of the revision must have.
    fn complete(&self, request: &Value, mut result: Value) -> Value {
        if let Some(members) =
            result.as_object_mut().filter(|_| self.profile.is_some_and(|facts| facts.result_type))
        {
            members.entry("resultType").or_insert_with(|| "complete".into());
            if request["method"].as_str().is_some_and(|method| Method::parse(method).is_cacheable()) {
                members.entry("ttlMs").or_insert_with(|| 0.into());
                members.entry("cacheScope").or_insert_with(|| "private".into());
            }
        }
        result
    }

    async fn report(&mut self, progress: f64, total: Option<f64>) {
        let token = &self.last["params"]["_meta"]["progressToken"];
        if token.is_null() {
            return;
        }
        let mut params = json!({ "progressToken": token, "progress": progress });
        if let Some(total) = total {
            params["total"] = total.into();
        }
        let report = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
        self.write(format!("{report}\n").as_bytes()).await;
    }

    async fn respond(&mut self, request: &Value, member: &str, outcome: Value) {
        let response = json!({ "jsonrpc": "2.0", "id": request["id"], member: outcome });
        self.write(format!("{response}\n").as_bytes()).await;
    }

    /// Sends bytes. A client that is gone shows when the next message is read.
    async fn write(&mut self, bytes: &[u8]) {
        let _ = self.writer.write_all(bytes).await;
    }
}

/// The parameters of a message without `_meta`.
fn params_of(message: &Value) -> Value {
    let mut params = message["params"].clone();
    if let Some(members) = params.as_object_mut() {
        members.remove("_meta");
    }
    params
}

impl fmt::Debug for TestServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestServer").field("failure", &self.progress.lock().failure()).finish_non_exhaustive()
    }
}

impl fmt::Debug for ServerScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerScript").field("version", &self.version).finish_non_exhaustive()
    }
}
