//! Tests of the rules for clients that need provoked situations over HTTP, in real time: a scripted client without a fault,
//! and the same client with one fault.

use std::net::SocketAddr;
use std::time::Duration;

use mcpjoin::transport::{HttpListener, HttpOptions};
use mcpjoin_diagnostics::validate::{ClientValidator, StopReason};
use mcpjoin_rules::{Outcome, Trace};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{checked, failed_rules, server};

const META: &str = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"}}"#;
/// The delay after which a client must reconnect.
const RETRY: Duration = Duration::from_secs(1);
/// The timeout of a scripted client.
const LONGEST: Duration = Duration::from_secs(20);
/// The time that the validator waits for a client.
const ANSWER: Duration = Duration::from_millis(200);

async fn passes(time: Duration) {
    let _ = timeout(time, std::future::pending::<()>()).await;
}

/// A complete response.
struct Reply(String);

impl Reply {
    fn header(&self, name: &str) -> &str {
        let mut lines = self.0.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    }

    /// The id of the last event.
    fn event(&self) -> &str {
        let mut ids = self.0.lines().filter_map(|line| line.strip_prefix("id: "));
        ids.next_back().unwrap_or_default()
    }

    fn cursor(&self) -> &str {
        self.0.split_once(r#""nextCursor":""#).and_then(|(_, rest)| rest.split('"').next()).unwrap()
    }
}

/// A client: its address, and its request headers.
#[derive(Clone)]
struct Raw {
    address: SocketAddr,
    path: String,
    session: String,
}

impl Raw {
    async fn sends(&self, method: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let both = "Accept: application/json, text/event-stream\r\nContent-Type: application/json";
        let session = match self.session.as_str() {
            "" => String::new(),
            id => format!("Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-11-25\r\n"),
        };
        let request = format!(
            "{method} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{both}\r\n{session}{headers}Content-Length: {}\r\n\r\n{body}",
            self.path,
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn asks(&self, headers: &str, body: &str) -> Reply {
        let mut stream = self.sends("POST", headers, body).await;
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text).await;
        Reply(text)
    }

    async fn says(&self, rest: &str) -> Reply {
        self.asks("", &format!(r#"{{"jsonrpc":"2.0",{rest}}}"#)).await
    }

    /// Sends a request of the modern era.
    async fn requests(&self, id: u8, method: &str, name: &str, more: &str, params: &str) -> Reply {
        let named = if name.is_empty() { String::new() } else { format!("Mcp-Name: {name}\r\n") };
        let headers = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{named}{more}");
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}"_meta":{META}}}}}"#
        );
        self.asks(&headers, &body).await
    }

    async fn calls_region(&self, id: u8) {
        let params = r#""name":"region","arguments":{"region":"a"},"#;
        self.requests(id, "tools/call", "region", "Mcp-Param-Region: a\r\n", params).await;
    }

    /// Opens a session.
    async fn opens(mut self) -> Self {
        let opened = self.says(INITIALIZE).await;
        self.session = opened.header("mcp-session-id").to_owned();
        self.says(r#""method":"notifications/initialized""#).await;
        self
    }

    /// Reconnects to a stream.
    async fn resumes(&self, event: &str) {
        let mut stream = self.sends("GET", &format!("Last-Event-ID: {event}\r\n"), "").await;
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text).await;
    }
}

const INITIALIZE: &str = r#""id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}"#;

async fn looked_at<C: Future<Output = ()>>(
    validator: ClientValidator,
    client: impl FnOnce(Raw) -> C,
) -> Trace {
    let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
    let raw = Raw { address: listener.address(), path: "/mcp".into(), session: String::new() };
    let (over, gone) = oneshot::channel::<()>();
    let end = async {
        let _ = gone.await;
        StopReason::Over
    };
    let options = HttpOptions::new().retry(RETRY);
    let looking = validator.respond_within(ANSWER).serve_http(listener, options, None, end);
    let working = async {
        client(raw).await;
        let _ = over.send(());
    };
    tokio::join!(looking, working).0
}

fn plain() -> ClientValidator {
    ClientValidator::new(server())
}

/// Runs the script of a rule, with or without its fault.
async fn does(rule: &'static str, faulty: bool) -> Trace {
    match rule {
        "client-takes-both-replies" => {
            looked_at(plain(), async move |raw: Raw| {
                let raw = raw.opens().await;
                raw.says(r#""id":2,"method":"ping""#).await;
                let second = raw.says(r#""id":3,"method":"ping""#).await;
                assert_eq!(second.header("content-type"), "text/event-stream");
                if faulty {
                    passes(Duration::from_millis(1100)).await;
                    raw.says(r#""method":"notifications/cancelled","params":{"requestId":3}"#).await;
                } else {
                    raw.says(r#""id":4,"method":"ping""#).await;
                }
            })
            .await
        }
        "client-polls-primed-stream" | "client-respects-retry" | "client-resumes-with-last-id" => {
            looked_at(plain(), async move |raw: Raw| {
                let raw = raw.opens().await;
                let parted = raw.says(r#""id":2,"method":"tools/call","params":{"name":"part"}"#).await;
                let event = parted.event();
                assert!(!event.is_empty(), "{}", parted.0);
                match rule {
                    "client-polls-primed-stream" if faulty => {
                        passes(RETRY + 2 * ANSWER).await;
                        raw.says(r#""id":3,"method":"ping""#).await;
                    }
                    "client-respects-retry" if faulty => raw.resumes(event).await,
                    _ => {
                        passes(RETRY + Duration::from_millis(20)).await;
                        let other = format!("{event}0");
                        raw.resumes(if faulty { &other } else { event }).await;
                    }
                }
            })
            .await
        }
        "client-cancels-explicitly" => {
            looked_at(plain(), async move |raw: Raw| {
                let raw = raw.opens().await;
                let body = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait"}}"#;
                let stream = raw.sends("POST", "", body).await;
                // The request has arrived when a later request is answered.
                raw.says(r#""id":3,"method":"ping""#).await;
                drop(stream);
                passes(2 * ANSWER).await;
                if !faulty {
                    raw.says(r#""method":"notifications/cancelled","params":{"requestId":2}"#).await;
                }
                raw.says(r#""id":4,"method":"ping""#).await;
            })
            .await
        }
        "client-refreshes-after-mismatch" => {
            looked_at(plain().disturbing(), async move |raw: Raw| {
                raw.requests(1, "server/discover", "", "", "").await;
                raw.requests(2, "tools/list", "", "", "").await;
                raw.calls_region(3).await;
                if !faulty {
                    raw.requests(4, "tools/list", "", "", "").await;
                }
                raw.calls_region(5).await;
            })
            .await
        }
        "client-reads-400-before-falling-back" => {
            looked_at(plain().refusing(), async move |raw: Raw| {
                raw.requests(1, "server/discover", "", "", "").await;
                if faulty {
                    raw.says(INITIALIZE).await;
                }
            })
            .await
        }
        "client-posts-to-endpoint" => {
            looked_at(plain(), async move |mut raw: Raw| {
                let own = Raw { path: "/sse".into(), ..raw.clone() };
                let mut events = own.sends("GET", "", "").await;
                let (mut text, mut buffer) = (String::new(), [0; 1024]);
                while !text.split("data: ").nth(1).is_some_and(|data| data.contains('\n')) {
                    let read = events.read(&mut buffer).await.unwrap();
                    assert!(read > 0, "{text}");
                    text.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
                }
                let data = text.split("data: ").nth(1).and_then(|data| data.lines().next()).unwrap();
                let start = data.find("/messages").unwrap();
                raw.path = data[start..].to_owned();
                if faulty {
                    raw.path = raw.path.split('?').next().unwrap().to_owned();
                }
                raw.says(&INITIALIZE.replace("2025-11-25", "2024-11-05")).await;
                if !faulty {
                    raw.says(r#""method":"notifications/initialized""#).await;
                }
                drop(events);
            })
            .await
        }
        "client-new-session-after-404" => {
            looked_at(plain().disturbing(), async move |raw: Raw| {
                let raw = raw.opens().await;
                let mut id = 2;
                while !raw.says(&format!(r#""id":{id},"method":"ping""#)).await.0.contains(" 404 ") {
                    id += 1;
                    assert!(id < 100);
                }
                if faulty {
                    passes(Duration::from_millis(1100)).await;
                    raw.says(r#""id":200,"method":"ping""#).await;
                } else {
                    Raw { session: String::new(), ..raw }.opens().await;
                }
            })
            .await
        }
        "client-restarts-list-after-bad-cursor" => {
            looked_at(plain().disturbing(), async move |raw: Raw| {
                raw.requests(1, "server/discover", "", "", "").await;
                let first = raw.requests(2, "prompts/list", "", "", "").await;
                let params = format!(r#""cursor":"{}","#, first.cursor());
                raw.requests(3, "prompts/list", "", "", &params).await;
                raw.requests(4, "prompts/list", "", "", r#""cursor":"","#).await;
                raw.requests(5, "prompts/list", "", "", if faulty { r#""cursor":"","# } else { "" }).await;
            })
            .await
        }
        _ => unreachable!("{rule}"),
    }
}

/// The rules, and whether the client without the fault passes (otherwise the rule is skipped).
const RULES: [(&str, bool); 9] = [
    ("client-takes-both-replies", true),
    ("client-polls-primed-stream", true),
    ("client-respects-retry", true),
    ("client-resumes-with-last-id", true),
    ("client-cancels-explicitly", true),
    ("client-refreshes-after-mismatch", true),
    // This client disconnects.
    ("client-reads-400-before-falling-back", false),
    ("client-posts-to-endpoint", true),
    ("client-restarts-list-after-bad-cursor", true),
];

async fn wrong_findings(rule: &'static str, known: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    let Ok(trace) = timeout(LONGEST, does(rule, false)).await else {
        return vec![format!("without a fault, {rule} goes on for ever")];
    };
    let report = checked(&trace);
    let own = report.results.iter().find(|result| result.rule.slug == rule).unwrap();
    if (own.outcome == Outcome::Passed) != known || !failed_rules(&report).is_empty() {
        let failed: Vec<_> = report.failed().collect();
        wrong.push(format!("without a fault, {rule}: {:?}, {failed:#?}", own.outcome));
    }
    let Ok(trace) = timeout(LONGEST, does(rule, true)).await else {
        return vec![format!("{rule} goes on for ever")];
    };
    let report = checked(&trace);
    if failed_rules(&report) != [rule] {
        wrong.push(format!("{rule}: {:#?}", report.failed().collect::<Vec<_>>()));
    }
    wrong
}

#[tokio::test]
async fn f27_what_is_provoked_over_http_is_found_by_its_rule_and_by_no_other() {
    let mut all = JoinSet::new();
    for (rule, known) in RULES.into_iter().chain([("client-new-session-after-404", true)]) {
        all.spawn(wrong_findings(rule, known));
    }
    let wrong: Vec<String> = all.join_all().await.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
