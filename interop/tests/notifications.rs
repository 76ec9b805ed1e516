//! The library's client on servers that notify it and ask it, of four SDKs, in each era that they have, over stdio and over
//! Streamable HTTP: a changed list of tools, an updated resource, a log message and a question for the user each reach the
//! function that `ClientBuilder` was given, and `Client::listen` has the same changes.
//!
//! The servers have the same tools. `change_tools` adds the tool `added`, or removes it; `update_resource` changes
//! `test://counter`; `log` logs a warning; `ask` asks for the user's name in the way of the era, and `elicit` always with a
//! request `elicitation/create`. Where a server cannot do one of them, its test expects exactly that and says why.
//!
//! And the other direction, for what `interop/clients/table.md` does not cover: clients on three SDKs receive from
//! `mcpjoin serve demo --full` that its list of tools has changed, and get its log messages of the level that they asked for.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as it should be fails the test")]

use std::ffi::OsString;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use interop::{Listening, NODE, Peer, Way, mcpjoin, server};
use mcpjoin::Link;
use mcpjoin::client::{Client, ClientBuilder, ClientError};
use mcpjoin::proto::session::{EraChoice, Inbound};
use mcpjoin::proto::types::{
    CallToolResult, ElicitParams, ElicitResult, LogMessageParams, LoggingLevel, SubscriptionFilter,
};
use mcpjoin::proto::{Era, Message, Method, Notification, Version};
use mcpjoin::transport::{ChildCommand, Direction, Inspected};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;
use tokio::time::timeout;

/// The time limit of each wait: far more than it takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

const COUNTER: &str = "test://counter";
const PYTHON: &str = "venv/bin/python";

/// A client on one server, and what its functions were given.
struct Notified {
    /// The server, the era and the transport, for messages.
    cell: String,
    client: Client,
    /// The tools that the client listed when it was told that they have changed.
    tools: UnboundedReceiver<Result<Vec<String>, ClientError>>,
    /// The URI of a resource that has changed, and its text.
    updates: UnboundedReceiver<(String, Result<String, ClientError>)>,
    logs: UnboundedReceiver<LogMessageParams>,
    /// The message of each question.
    questions: UnboundedReceiver<String>,
    listening: Option<Arc<Listening>>,
}

/// Waits for it, and names the cell and the thing if it does not come.
async fn within<T>(cell: &str, what: &str, waited: impl Future<Output = T>) -> T {
    timeout(LIMIT, waited).await.unwrap_or_else(|_| panic!("{cell}: {what}: nothing in {LIMIT:?}"))
}

/// A builder with a function for everything.
fn builder(cell: &str, era: Era) -> (ClientBuilder, impl FnOnce(Client, Option<Arc<Listening>>) -> Notified) {
    let (tell_tools, tools) = unbounded_channel();
    let (tell_updates, updates) = unbounded_channel();
    let (tell_logs, logs) = unbounded_channel();
    let (tell_questions, questions) = unbounded_channel();
    let builder = Client::builder("interop", "0")
        .era(EraChoice::Only(era))
        .on_tools_changed(move |client| {
            let tell = tell_tools.clone();
            async move {
                let listed = client.list_tools().all().await;
                let _ = tell.send(listed.map(|tools| tools.into_iter().map(|tool| tool.name).collect()));
            }
        })
        .on_resource_updated(move |client, uri| {
            let tell = tell_updates.clone();
            async move {
                let contents = client.read_resource(&uri).await;
                let _ = tell.send((uri, contents.map(|contents| contents.to_text())));
            }
        })
        .on_log(move |message| drop(tell_logs.send(message)))
        .elicitation(move |question| {
            let ElicitParams::Form(form) = question else { panic!("no form: {question:?}") };
            let _ = tell_questions.send(form.message);
            async { ElicitResult::accept(json!({ "name": "Ada" })) }
        });
    let cell = cell.to_owned();
    (builder, |client, listening| Notified { cell, client, tools, updates, logs, questions, listening })
}

/// Whether this is a message that a stream has begun.
fn acknowledges(direction: Direction, crossed: Inspected<'_>) -> bool {
    let method = Method::SubscriptionsAcknowledged;
    match crossed {
        Inspected::Line(line) if direction == Direction::In => {
            serde_json::from_slice::<Value>(line).is_ok_and(|message| message["method"] == method.as_str())
        }
        Inspected::Inbound(Inbound::Message { message: Message::Notification(told), .. }) => {
            told.method == method
        }
        _ => false,
    }
}

/// Connects to a server, and waits until the server can tell of changes: in the modern era until it has acknowledged the
/// client's stream, and in the legacy era over HTTP until it has opened the stream of the session.
async fn connected(name: &str, era: Era, way: Way, program: &str, args: &[OsString]) -> Notified {
    let cell = format!("{name}, {era:?}, {way:?}");
    let (builder, notified) = builder(&cell, era);
    let (link, listening) = match way {
        Way::Stdio => {
            let command = ChildCommand::new(server(program).unwrap()).args(args);
            (command.start().await.unwrap(), None)
        }
        _ => {
            let peer = args.iter().fold(Peer::installed(program), Peer::arg);
            let listening = Listening::new(&peer, way);
            (Link::http(listening.url()).build().unwrap(), Some(Arc::new(listening)))
        }
    };
    let (acknowledge, mut acknowledged) = watch::channel(false);
    let link = link.inspected(move |direction, crossed| {
        if acknowledges(direction, crossed) {
            acknowledge.send_replace(true);
        }
    });
    let client = within(&cell, "connecting", builder.connect(link)).await.unwrap();
    assert_eq!(client.profile().version, Version::newest(era), "{cell}");
    if era == Era::Modern {
        let acknowledged = acknowledged.wait_for(|is_acknowledged| *is_acknowledged);
        drop(within(&cell, "the stream of the client", acknowledged).await.unwrap());
    } else if let Some(listening) = listening.clone() {
        let opened = tokio::task::spawn_blocking(move || listening.opens_the_stream_of_a_session());
        within(&cell, "the stream of the session", opened).await.unwrap();
    }
    notified(client, listening)
}

impl Notified {
    async fn try_call(&self, tool: &str) -> Result<CallToolResult, ClientError> {
        within(&self.cell, tool, self.client.call_tool(tool, json!({}))).await
    }

    /// The text of a tool that must not fail.
    async fn call(&self, tool: &str) -> String {
        let result =
            self.try_call(tool).await.unwrap_or_else(|error| panic!("{}: {tool}: {error}", self.cell));
        assert!(result.is_error != Some(true), "{}: {tool}: {}", self.cell, result.to_text());
        result.to_text()
    }

    async fn hears_of_changed_tools(&mut self) {
        let before = self.client.list_tools().all().await.unwrap();
        assert!(before.iter().all(|tool| tool.name != "added"), "{}", self.cell);
        for is_added in [true, false] {
            self.call("change_tools").await;
            let tools = within(&self.cell, "on_tools_changed", self.tools.recv()).await.unwrap().unwrap();
            assert_eq!(tools.iter().any(|name| name == "added"), is_added, "{}: {tools:?}", self.cell);
        }
    }

    async fn hears_of_an_updated_resource(&mut self) {
        within(&self.cell, "subscribing", self.client.subscribe(COUNTER)).await.unwrap();
        for version in [1, 2] {
            self.call("update_resource").await;
            let (uri, text) = within(&self.cell, "on_resource_updated", self.updates.recv()).await.unwrap();
            assert_eq!((&*uri, text.unwrap()), (COUNTER, format!("version {version}")), "{}", self.cell);
        }
        within(&self.cell, "unsubscribing", self.client.unsubscribe(COUNTER)).await.unwrap();
    }

    async fn hears_a_log_message(&mut self) {
        self.call("log").await;
        let message = within(&self.cell, "on_log", self.logs.recv()).await.unwrap();
        assert_eq!(message.level, LoggingLevel::Warning, "{}", self.cell);
        assert_eq!(message.data.as_str(), r#""It is hot""#, "{}", self.cell);
    }

    /// The user's answer arrives in the result of the tool.
    async fn is_asked_by(&mut self, tool: &str) {
        assert_eq!(self.call(tool).await, "Hello, Ada", "{}: {tool}", self.cell);
        let question = within(&self.cell, "the question", self.questions.recv()).await.unwrap();
        assert_eq!(question, "Who are you?", "{}: {tool}", self.cell);
    }

    /// The server does not send `elicitation/create`: the tool fails with this reason, and the user is not asked.
    async fn is_not_asked_with_a_request(&mut self, why: &str) {
        let result = self.try_call("elicit").await;
        let said = match &result {
            Ok(result) if result.is_error == Some(true) => result.to_text(),
            Err(error) => error.to_string(),
            Ok(result) => panic!("{}: elicit: {}", self.cell, result.to_text()),
        };
        assert!(said.contains(why), "{}: `{why}` is not in {said}", self.cell);
        assert!(self.questions.try_recv().is_err(), "{}: the user was asked", self.cell);
    }

    /// A stream of the caller has the same changes.
    async fn listens(&self) {
        let resource = SubscriptionFilter::default().with_resource_subscriptions(vec![COUNTER.to_owned()]);
        let both = resource.clone().with_tools_list_changed(true);
        let mut stream = within(&self.cell, "listen", self.client.listen(both.clone())).await.unwrap();
        let honours_tools = self.declares_changes_of_tools();
        assert_eq!(stream.acknowledged(), if honours_tools { &both } else { &resource }, "{}", self.cell);
        let mut next = async |tool: &str| -> Notification {
            self.call(tool).await;
            within(&self.cell, &format!("the stream, {tool}"), stream.next()).await.unwrap().unwrap()
        };
        if honours_tools {
            assert_eq!(next("change_tools").await.method, Method::ToolListChanged, "{}", self.cell);
        }
        assert_eq!(next("update_resource").await.method, Method::ResourceUpdated, "{}", self.cell);
    }

    fn declares_changes_of_tools(&self) -> bool {
        let peer = self.client.peer();
        let tools = peer.server_capabilities().and_then(|server| server.tools.as_ref());
        tools.is_some_and(|tools| tools.list_changed == Some(true))
    }

    fn declares_logging(&self) -> bool {
        self.client.peer().server_capabilities().is_some_and(|server| server.logging.is_some())
    }

    /// Everything but the question with a request, which no server has in the modern era.
    async fn hears_everything(&mut self) {
        self.hears_of_changed_tools().await;
        self.hears_of_an_updated_resource().await;
        self.hears_a_log_message().await;
        self.is_asked_by("ask").await;
        self.listens().await;
    }

    async fn close(self) {
        within(&self.cell, "closing", self.client.close()).await;
        if let Some(listening) = self.listening {
            let cell = self.cell;
            tokio::task::spawn_blocking(move || listening.is_left(&cell)).await.unwrap();
        }
    }
}

fn script(name: &str, mode: &str) -> [OsString; 2] {
    [server(&format!("servers/{name}")).unwrap().into(), mode.into()]
}

async fn rmcp(era: Era, way: Way) -> Notified {
    let args: &[OsString] = if way == Way::Http { &["http".into()] } else { &[] };
    connected("rmcp", era, way, "rmcp/target/debug/rmcp-notifying", args).await
}

async fn typescript_1(way: Way) -> Notified {
    let args = script("sdk-1-notifying.mjs", if way == Way::Http { "sessions" } else { "stdio" });
    connected("@modelcontextprotocol/sdk", Era::Legacy, way, NODE, &args).await
}

async fn typescript_2(era: Era, way: Way) -> Notified {
    let mode = match (way, era) {
        (Way::Stdio, _) => "stdio",
        (_, Era::Modern) => "modern",
        (_, Era::Legacy) => "sessions",
    };
    let args = script("sdk-2-notifying.mjs", mode);
    connected("@modelcontextprotocol/server", era, way, NODE, &args).await
}

async fn python(era: Era, way: Way) -> Notified {
    let args = script("python-sdk-notifying.py", if way == Way::Http { "http" } else { "stdio" });
    connected("mcp", era, way, PYTHON, &args).await
}

/// The server that most users of the SDK write.
async fn python_mcpserver(era: Era) -> Notified {
    let [script, stdio] = script("python-sdk-notifying.py", "stdio");
    connected("mcp, MCPServer", era, Way::Stdio, PYTHON, &[script, stdio, "mcpserver".into()]).await
}

#[tokio::test]
async fn rmcp_in_the_legacy_era() {
    for way in [Way::Stdio, Way::Http] {
        let mut server = rmcp(Era::Legacy, way).await;
        server.hears_everything().await;
        server.is_asked_by("elicit").await;
        server.close().await;
    }
}

/// A question with a request does not exist in this era, and rmcp refuses to send one.
#[tokio::test]
async fn rmcp_in_the_modern_era() {
    for way in [Way::Stdio, Way::Http] {
        let mut server = rmcp(Era::Modern, way).await;
        server.hears_everything().await;
        server.is_not_asked_with_a_request("return InputRequiredResult instead").await;
        server.close().await;
    }
}

#[tokio::test]
async fn typescript_sdk_1() {
    for way in [Way::Stdio, Way::Http] {
        let mut server = typescript_1(way).await;
        server.hears_everything().await;
        server.is_asked_by("elicit").await;
        server.close().await;
    }
}

#[tokio::test]
async fn typescript_sdk_2_in_the_legacy_era() {
    for way in [Way::Stdio, Way::Http] {
        let mut server = typescript_2(Era::Legacy, way).await;
        server.hears_everything().await;
        server.is_asked_by("elicit").await;
        server.close().await;
    }
}

/// A question with a request does not exist in this era, and the SDK refuses to send one.
#[tokio::test]
async fn typescript_sdk_2_in_the_modern_era() {
    for way in [Way::Stdio, Way::Http] {
        let mut server = typescript_2(Era::Modern, way).await;
        server.hears_everything().await;
        server.is_not_asked_with_a_request("Server-to-client requests are not available").await;
        server.close().await;
    }
}

/// Over HTTP the SDK declares no changes of lists in this era, and gives no way to: `streamable_http_app` takes no
/// `NotificationOptions`. What it sends reaches `on_tools_changed` nevertheless; `listen` honours what is declared.
#[tokio::test]
async fn python_sdk_in_the_legacy_era() {
    for way in [Way::Stdio, Way::Http] {
        let mut server = python(Era::Legacy, way).await;
        assert_eq!(server.declares_changes_of_tools(), way == Way::Stdio);
        server.hears_everything().await;
        server.is_asked_by("elicit").await;
        server.close().await;
    }
}

/// A question with a request does not exist in this era, and the SDK refuses to send one.
#[tokio::test]
async fn python_sdk_in_the_modern_era() {
    for way in [Way::Stdio, Way::Http] {
        let mut server = python(Era::Modern, way).await;
        server.hears_everything().await;
        server.is_not_asked_with_a_request("no back-channel for server-initiated requests").await;
        server.close().await;
    }
}

/// `MCPServer` declares neither changes of lists nor logging in this era, and sends both.
#[tokio::test]
async fn python_mcpserver_in_the_legacy_era() {
    let mut server = python_mcpserver(Era::Legacy).await;
    assert!(!server.declares_changes_of_tools() && !server.declares_logging());
    server.hears_of_changed_tools().await;
    server.hears_a_log_message().await;
    server.close().await;
}

/// `MCPServer` does not declare logging. So the client asks for no level of log messages, and in this era the server sends none
/// without.
#[tokio::test]
async fn python_mcpserver_in_the_modern_era() {
    let mut server = python_mcpserver(Era::Modern).await;
    assert!(server.declares_changes_of_tools() && !server.declares_logging());
    server.call("log").await;
    server.hears_of_changed_tools().await;
    assert!(server.logs.try_recv().is_err(), "{}", server.cell);
    server.close().await;
}

/// Runs a foreign client on this server, and checks what it was told.
async fn tells(cell: &str, client: &[OsString], server: &[OsString]) {
    let mut command = Command::new(&client[0]);
    command.args(&client[1..]).args(server).env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
    let output = within(cell, "the client", command.stdin(Stdio::null()).kill_on_drop(true).output());
    let output = output.await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{cell}: {said}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let message = |level: &str| json!({ "level": level, "data": format!("A message of the level {level}"), "logger": "demo" });
    assert_eq!(
        told,
        json!({ "tools": [true, false], "logs": [message("info"), message("warning")] }),
        "{cell}"
    );
}

/// Runs a foreign client on the demonstration server, over stdio and over Streamable HTTP.
async fn is_told(program: &str, words: &[&str]) {
    let cell = |way: Way| format!("{program} {words:?}, {way:?}");
    let mut client: Vec<OsString> = vec![server(program).unwrap().into()];
    client.extend(words.iter().map(|word| match word.strip_prefix("clients/") {
        Some(_) => server(word).unwrap().into(),
        None => word.into(),
    }));
    let binary = mcpjoin().unwrap();
    let words = ["--".into(), binary.clone().into(), "serve".into(), "demo".into(), "--full".into()];
    tells(&cell(Way::Stdio), &client, &words).await;

    let mut demo = Command::new(binary)
        .args(["serve", "demo", "--full", "--listen", "http://127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(demo.stderr.take().unwrap()).lines();
    let line = within(&cell(Way::Http), "the address", lines.next_line()).await.unwrap().unwrap();
    let address = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).trim();
    tells(&cell(Way::Http), &client, &[address.into()]).await;
    demo.kill().await.unwrap();
}

#[tokio::test]
async fn clients_on_rmcp_are_notified() {
    for era in ["legacy", "modern"] {
        is_told("rmcp/target/debug/client-notified", &[era]).await;
    }
}

#[tokio::test]
async fn clients_on_the_typescript_sdk_are_notified() {
    for (version, era) in [("1", "legacy"), ("2", "legacy"), ("2", "modern")] {
        is_told(NODE, &["clients/notified.mjs", version, era]).await;
    }
}

#[tokio::test]
async fn clients_on_the_python_sdk_are_notified() {
    for era in ["legacy", "modern"] {
        is_told(PYTHON, &["clients/notified.py", era]).await;
    }
}
