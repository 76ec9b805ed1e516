//! Job 3: two replicas, each asked in turn, with messages written by hand: neither library takes part in the check.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

use crate::{Result, program};

pub(crate) struct Replica {
    pub(crate) port: u16,
    child: Child,
}

impl Replica {
    pub(crate) async fn start(library: &str) -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port();
        let child = Command::new(program(library, "replica"))
            .arg(port.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        Ok(Self { port, child })
    }

    /// Closes the standard input, and returns what the process has printed when it ends.
    async fn end(mut self) -> Result<String> {
        drop(self.child.stdin.take());
        let mut printed = String::new();
        let stdout = self.child.stdout.as_mut().ok_or("no standard output")?;
        stdout.read_to_string(&mut printed).await?;
        if self.child.wait().await?.success() { Ok(printed) } else { Err("a replica failed".into()) }
    }
}

/// Sends one `tools/call` of 2026-07-28, and returns its response.
async fn call(port: u16, user: &str, mut params: Value) -> Result<Value> {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "check", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} } },
    });
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let response = reqwest::Client::new()
        .post(format!("http://127.0.0.1:{port}/mcp"))
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", name)
        .header("x-user", user)
        .header("x-program", "check")
        .body(request.to_string());
    let text = response.send().await?.text().await?;
    // Either a JSON document or a stream of events whose last one has the response.
    let mut events = text.lines().filter_map(|line| line.strip_prefix("data:"));
    Ok(serde_json::from_str(events.rfind(|data| data.len() > 1).unwrap_or(&text))?)
}

fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

fn hold(what: &str, holds: bool, response: &Value) -> Result {
    if holds { Ok(()) } else { Err(format!("{what}: {response}").into()) }
}

pub(crate) async fn check(library: &str) -> Result {
    let (one, two) = (Replica::start(library).await?, Replica::start(library).await?);
    let health = reqwest::get(format!("http://127.0.0.1:{}/health", one.port)).await?.text().await?;
    let refused = reqwest::Client::new().post(format!("http://127.0.0.1:{}/mcp", one.port)).send().await?;
    hold("the rest of the application", health == "ok" && refused.status() == 401, &json!(health))?;

    let response = call(one.port, "ada", json!({ "name": "whoami", "arguments": {} })).await?;
    hold("extensions and headers", text(&response) == "ada with check", &response)?;

    // Each round goes to the other replica.
    let mut params = json!({ "name": "book", "arguments": {} });
    let answers = [("How many persons?", json!({ "count": 4 })), ("At what hour?", json!({ "hour": 19 }))];
    for ((question, answer), replica) in answers.into_iter().zip([&one, &two]) {
        let response = call(replica.port, "ada", params.clone()).await?;
        let result = &response["result"];
        let (key, asked) = result["inputRequests"]
            .as_object()
            .and_then(|requests| requests.iter().next())
            .ok_or_else(|| format!("no question: {response}"))?;
        hold(question, asked["params"]["message"] == question, &response)?;
        params["inputResponses"] = json!({ key.as_str(): { "action": "accept", "content": answer } });
        params["requestState"] = result["requestState"].clone();
    }
    let response = call(two.port, "bob", params.clone()).await?;
    hold("the state of another user", response["error"]["code"] == -32602, &response)?;
    let response = call(one.port, "ada", params).await?;
    hold("three rounds", text(&response) == "a table for 4 at 19", &response)?;

    // The call in progress is answered, and then the replica ends.
    let port = two.port;
    let cooking = async move { call(port, "ada", json!({ "name": "cook", "arguments": {} })).await };
    let ending = async {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        two.end().await
    };
    let (response, printed) = tokio::join!(cooking, ending);
    let response = response?;
    hold("a call while it ends", text(&response) == "cooked" && printed? == "ended\n", &response)
}
