//! A scripted server over HTTP/1.1: a test decides every byte that it sends, and sees every request.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::client::{Client, ClientBuilder, ConnectError};
use mcpjoin::proto::Notification;
use mcpjoin::transport::{HttpConnect, Link};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

/// The time limit of a test: a test that hangs fails.
pub const DEADLINE: Duration = Duration::from_secs(30);

pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(DEADLINE, test).await.expect("the test hangs") })
}

/// A received request.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
    about: String,
}

impl Seen {
    /// A request with only a body.
    pub fn of(body: String) -> Self {
        Self { method: "POST".into(), target: "/".into(), headers: Vec::new(), body, about: String::new() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }

    /// The method of MCP; `response` for a response, and the HTTP method for a request without a body.
    pub fn about(&self) -> String {
        self.about.clone()
    }

    pub fn id(&self) -> Value {
        self.json()["id"].clone()
    }

    pub fn result(&self, result: &Value) -> String {
        json!({"jsonrpc": "2.0", "id": self.id(), "result": result}).to_string()
    }

    pub fn error(&self, code: i64, message: &str) -> String {
        let error = json!({"code": code, "message": message});
        json!({"jsonrpc": "2.0", "id": self.id(), "error": error}).to_string()
    }
}

/// A connection on which a request has been read.
pub struct Talk {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// The result of a script: the connection, if it can take another request.
pub type Turn = Pin<Box<dyn Future<Output = Option<Talk>> + Send>>;

type Script = Arc<dyn Fn(Seen, Talk) -> Turn + Send + Sync>;

pub struct Scripted {
    pub port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    came: Arc<Notify>,
    /// The number of open connections.
    open: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

/// Decrements the number of open connections when it is dropped.
struct Closes(Arc<AtomicUsize>);

impl Drop for Closes {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Scripted {
    pub async fn new<F, T>(script: F) -> Self
    where
        F: Fn(Seen, Talk) -> T + Send + Sync + 'static,
        T: Future<Output = Option<Talk>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, script)
    }

    pub fn on<F, T>(listener: TcpListener, script: F) -> Self
    where
        F: Fn(Seen, Talk) -> T + Send + Sync + 'static,
        T: Future<Output = Option<Talk>> + Send + 'static,
    {
        let port = listener.local_addr().unwrap().port();
        let script: Script = Arc::new(move |seen, talk| Box::pin(script(seen, talk)));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let came = Arc::new(Notify::new());
        let open = Arc::new(AtomicUsize::new(0));
        let (all, told, count) = (seen.clone(), came.clone(), open.clone());
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let (script, all, told) = (script.clone(), all.clone(), told.clone());
                let count = count.clone();
                connections.spawn(async move {
                    count.fetch_add(1, Ordering::SeqCst);
                    let _open = Closes(count);
                    let mut talk = Talk { stream, unread: Vec::new() };
                    while let Some(request) = talk.request().await {
                        all.lock().unwrap().push(request.clone());
                        told.notify_waiters();
                        match script(request, talk).await {
                            Some(next) => talk = next,
                            None => return,
                        }
                    }
                });
            }
        });
        Self { port, seen, came, open, task }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    pub fn link(&self) -> HttpConnect {
        Link::http(self.url())
    }

    pub async fn connect(&self) -> Result<Client, ConnectError> {
        builder().connect(self.link().build().unwrap()).await
    }

    /// Connects a client, and returns the notifications that it receives.
    pub async fn connect_listening(&self) -> (Client, UnboundedReceiver<Notification>) {
        let (received, receiver) = unbounded_channel();
        let client = builder()
            .on_notification(move |note| drop(received.send(note)))
            .connect(self.link().build().unwrap())
            .await
            .unwrap();
        (client, receiver)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The methods of all requests, in their order.
    pub fn abouts(&self) -> Vec<String> {
        self.seen().iter().map(Seen::about).collect()
    }

    pub fn count(&self, about: &str) -> usize {
        self.seen.lock().unwrap().iter().filter(|seen| seen.about == about).count()
    }

    /// The number of open connections.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// Waits until `count` requests with this method have arrived.
    pub async fn wait(&self, about: &str, count: usize) {
        loop {
            let came = self.came.notified();
            tokio::pin!(came);
            came.as_mut().enable();
            if self.count(about) >= count {
                return;
            }
            came.await;
        }
    }
}

impl Talk {
    async fn request(&mut self) -> Option<Seen> {
        let end = loop {
            if let Some(end) = self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            self.fill().await?;
        };
        let head = String::from_utf8(self.unread.drain(..end).collect()).unwrap();
        let mut lines = head.lines();
        let mut first = lines.next().unwrap().split(' ');
        let (method, target) = (first.next().unwrap().to_owned(), first.next().unwrap().to_owned());
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let mut seen = Seen { method, target, headers, body: String::new(), about: String::new() };
        assert_eq!(seen.header("transfer-encoding"), None, "the length of a message is known");
        let length: usize = seen.header("content-length").map_or(0, |length| length.parse().unwrap());
        while self.unread.len() < length {
            self.fill().await?;
        }
        seen.body = String::from_utf8(self.unread.drain(..length).collect()).unwrap();
        let json = seen.json();
        seen.about = match json["method"].as_str() {
            Some(method) => method.to_owned(),
            None if json.is_object() => "response".to_owned(),
            None => seen.method.clone(),
        };
        Some(seen)
    }

    async fn fill(&mut self) -> Option<()> {
        match self.stream.read_buf(&mut self.unread).await {
            Ok(1..) => Some(()),
            _ => None,
        }
    }

    /// Waits until the client has closed the connection.
    pub async fn gone(mut self) {
        while self.fill().await.is_some() {}
    }

    /// Writes the letter x until the client has closed the connection.
    pub async fn endless(mut self) {
        let piece = [b'x'; 64 * 1024];
        while self.stream.write_all(&piece).await.is_ok() {}
    }

    /// Writes bytes unchanged.
    pub async fn raw(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    /// Sends a complete response.
    pub async fn answer(mut self, status: u16, headers: &[(&str, &str)], body: &str) -> Option<Self> {
        let mut head = format!("HTTP/1.1 {status} Whatever\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        self.raw(format!("{head}\r\n{body}")).await;
        Some(self)
    }

    pub async fn status(self, status: u16) -> Option<Self> {
        self.answer(status, &[], "").await
    }

    pub async fn json(self, body: &str) -> Option<Self> {
        self.answer(200, &[("Content-Type", "application/json")], body).await
    }

    pub async fn accept(self) -> Option<Self> {
        self.status(202).await
    }

    /// Sends the head of an event stream.
    pub async fn stream(mut self, headers: &[(&str, &str)]) -> Self {
        let mut head =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n".to_owned();
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        self.raw(format!("{head}\r\n")).await;
        self
    }

    /// Sends a piece of the stream.
    pub async fn piece(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        let mut chunk = format!("{:x}\r\n", text.len()).into_bytes();
        chunk.extend_from_slice(text);
        chunk.extend_from_slice(b"\r\n");
        self.raw(chunk).await;
    }

    pub async fn event(&mut self, id: Option<&str>, data: &str) {
        let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        self.piece(format!("{id}data: {data}\n\n")).await;
    }

    /// Ends the stream correctly.
    pub async fn finish(mut self) -> Option<Self> {
        self.raw("0\r\n\r\n").await;
        Some(self)
    }
}

pub const MODERN: &str = "2026-07-28";

pub fn capabilities() -> Value {
    json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}, "logging": {}})
}

pub fn discovered() -> Value {
    json!({
        "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
        "supportedVersions": [MODERN], "capabilities": capabilities(),
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}},
    })
}

pub fn initialized(version: &str) -> Value {
    json!({
        "protocolVersion": version, "capabilities": capabilities(),
        "serverInfo": {"name": "scripted", "version": "1"},
    })
}

pub fn text(text: &str) -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": text}]})
}

/// A modern server: answers with JSON, and answers a call with the name of the tool.
pub async fn modern(seen: Seen, talk: Talk) -> Option<Talk> {
    match seen.about().as_str() {
        "server/discover" => talk.json(&seen.result(&discovered())).await,
        "tools/call" => {
            let name = seen.json()["params"]["name"].as_str().unwrap().to_owned();
            talk.json(&seen.result(&text(&name))).await
        }
        "GET" | "DELETE" => talk.status(405).await,
        _ => talk.answer(404, &[("Content-Type", "application/json")], &seen.error(-32601, "unknown")).await,
    }
}

/// A legacy server with sessions: `session` is the id of its only session.
pub async fn legacy(version: &str, session: &str, seen: Seen, talk: Talk) -> Option<Talk> {
    const JSON: (&str, &str) = ("Content-Type", "application/json");
    let about = seen.about();
    if about == "server/discover" {
        return talk.answer(400, &[JSON], &seen.error(-32000, "no session")).await;
    }
    if about == "initialize" {
        let result = seen.result(&initialized(version));
        return talk.answer(200, &[JSON, ("Mcp-Session-Id", session)], &result).await;
    }
    if seen.header("mcp-session-id") != Some(session) {
        let error =
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "Session not found"}});
        return talk.answer(404, &[JSON], &error.to_string()).await;
    }
    match about.as_str() {
        "GET" => talk.status(405).await,
        "DELETE" => talk.status(204).await,
        "tools/call" => {
            let name = seen.json()["params"]["name"].as_str().unwrap().to_owned();
            talk.json(&seen.result(&text(&name))).await
        }
        "ping" | "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" => {
            talk.json(&seen.result(&json!({}))).await
        }
        "tools/list" => talk.json(&seen.result(&json!({"tools": []}))).await,
        _ => talk.accept().await,
    }
}

pub const V2025_11: &str = "2025-11-25";

pub fn builder() -> ClientBuilder {
    Client::builder("test", "1.0.0")
}

/// Calls a tool, and returns the text of its result, or the error message.
pub async fn call(client: &Client, tool: &str) -> Result<String, String> {
    let result = client.call_tool(tool, ()).await.map_err(|error| error.to_string())?;
    let content = serde_json::to_value(&result.content).unwrap();
    Ok(content[0]["text"].as_str().unwrap().to_owned())
}
