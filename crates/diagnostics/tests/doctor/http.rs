//! Tests of servers over HTTP: one for each fault, and healthy ones of both eras and of HTTP+SSE.

use std::sync::Arc;
use std::time::Duration;

use mcpjoin::client::ClientBuilder;
use mcpjoin::proto::Era;
use mcpjoin::proto::session::{EraChoice, Limits};
use mcpjoin::server::{NoArguments, tool};
use mcpjoin::transport::{HttpConnect, HttpListener, HttpOptions};
use mcpjoin::{Client, Link, Server};
use mcpjoin_diagnostics::doctor::{Check, Doctor, Outcome, Phase, Report};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::alone;
use crate::ports::Closed;
use crate::support::run;

/// A request to a server of a test.
pub(crate) struct Asked {
    method: String,
    path: String,
    /// The method of MCP; empty if there is none.
    about: String,
    id: String,
}

impl Asked {
    /// Parses the head and the body by text search, which is enough for our own client.
    fn of(head: &str, body: &str) -> Self {
        let mut words = head.split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let path = words.next().unwrap_or_default().to_owned();
        let after = |mark: &str| body.split_once(mark).map(|(_, rest)| rest).unwrap_or_default();
        let about = after(r#""method":""#).split('"').next().unwrap_or_default().to_owned();
        let id = after(r#""id":"#).split([',', '}']).next().unwrap_or_default().to_owned();
        Self { method, path, about, id }
    }

    fn result(&self, result: &str) -> Option<String> {
        json(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, self.id))
    }

    fn error(&self, code: i64, message: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":{code},"message":"{message}"}}}}"#, self.id)
    }
}

/// A response. `head`: further header lines, each with its line end.
pub(crate) fn response(status: &str, head: &str, body: &str) -> Option<String> {
    let length = body.len();
    Some(format!("HTTP/1.1 {status}\r\n{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"))
}

fn json(body: &str) -> Option<String> {
    response("200 OK", "Content-Type: application/json\r\n", body)
}

pub(crate) fn page(status: &str, body: &str) -> Option<String> {
    response(status, "Content-Type: text/html; charset=utf-8\r\n", body)
}

/// The responses of a legacy server without fault. `None` leaves the connection open without a response.
fn good(asked: &Asked) -> Option<String> {
    match (&*asked.method, &*asked.about) {
        ("POST", "server/discover") => json(&asked.error(-32601, "unknown")),
        ("POST", "initialize") => {
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"canned","version":"1"}}}}}}"#,
                asked.id
            );
            response("200 OK", "Content-Type: application/json\r\nMcp-Session-Id: s1\r\n", &body)
        }
        ("POST", "tools/list") => asked.result(r#"{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}"#),
        ("POST", _) => response("202 Accepted", "", ""),
        ("DELETE", _) => response("200 OK", "", ""),
        _ => response("405 Method Not Allowed", "Allow: POST\r\n", ""),
    }
}

/// The same without sessions.
fn stateless(asked: &Asked) -> Option<String> {
    good(asked).map(|answer| answer.replace("Mcp-Session-Id: s1\r\n", ""))
}

/// A server that sends one response for each connection.
pub(crate) struct Canned {
    pub(crate) port: u16,
    task: JoinHandle<()>,
}

impl Drop for Canned {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Canned {
    pub(crate) async fn new(answer: impl Fn(&Asked) -> Option<String> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answer = Arc::new(answer);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let answer = answer.clone();
                connections.spawn(async move {
                    let mut text = String::new();
                    let mut piece = [0; 8192];
                    loop {
                        let Ok(read @ 1..) = stream.read(&mut piece).await else { return };
                        text.push_str(&String::from_utf8_lossy(&piece[..read]));
                        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                        let length = head.to_ascii_lowercase().split_once("content-length: ").map_or(
                            0,
                            |(_, rest)| {
                                rest.split("\r\n")
                                    .next()
                                    .unwrap_or_default()
                                    .parse::<usize>()
                                    .unwrap_or_default()
                            },
                        );
                        if body.len() < length {
                            continue;
                        }
                        match answer(&Asked::of(head, body)) {
                            Some(answer) => {
                                let _ = stream.write_all(answer.as_bytes()).await;
                                let _ = stream.shutdown().await;
                                return;
                            }
                            None => std::future::pending::<()>().await,
                        }
                    }
                });
            }
        });
        Self { port, task }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/x", self.port)
    }

    pub(crate) async fn examined(&self) -> Report {
        examined(Link::http(self.url())).await
    }
}

/// A client with short timeouts.
pub(crate) fn client() -> ClientBuilder {
    let mut limits = Limits::default();
    limits.probe = Duration::from_secs(2);
    limits.initialize = Duration::from_secs(2);
    limits.request = Duration::from_secs(20);
    Client::builder("test", "1.0.0").limits(limits)
}

async fn examined(connect: HttpConnect) -> Report {
    Doctor::new(connect.connect_timeout(Duration::from_secs(5)), client()).examine().await
}

type Answer = fn(&Asked) -> Option<String>;

#[test]
fn each_response_of_another_server_is_diagnosed() {
    // The response to every request.
    let table: [(&str, Check, Answer); 34] = [
        ("not-authorized", Check::Authorization, |_| {
            response("401 Unauthorized", "WWW-Authenticate: Bearer error=\"invalid_token\"\r\n", "")
        }),
        ("forbidden", Check::Authorization, |_| page("403 Forbidden", "no")),
        ("robots-refused", Check::Authorization, |_| {
            page("403 Forbidden", "<title>Just a moment...</title>")
        }),
        ("not-mcp", Check::Protocol, |_| response("426 Upgrade Required", "Upgrade: websocket\r\n", "")),
        ("host-refused", Check::Headers, |_| page("403 Forbidden", "Invalid Host header")),
        ("host-refused", Check::Headers, |_| page("421 Misdirected Request", "Invalid Host header")),
        ("wrong-path", Check::Endpoint, |_| page("404 Not Found", "<h1>Not Found</h1>")),
        ("wrong-path", Check::Endpoint, |asked| match &*asked.method {
            "GET" => page("404 Not Found", "no"),
            _ => page("405 Method Not Allowed", "no"),
        }),
        ("no-mcp", Check::Endpoint, |_| page("405 Method Not Allowed", "no")),
        ("redirect-circle", Check::Endpoint, |asked| {
            response("308 Permanent Redirect", &format!("Location: {}\r\n", asked.path), "")
        }),
        ("no-message", Check::Body, |_| {
            response("200 OK", "Content-Type: text/event-stream\r\n", "data: hello\n\ndata: {bad\n\n")
        }),
        ("batch", Check::Rules, |asked| json(&format!("[{}]", asked.error(-32601, "unknown")))),
        ("echo", Check::Opening, |asked| {
            json(&format!(r#"{{"jsonrpc":"2.0","id":{},"method":"{}"}}"#, asked.id, asked.about))
        }),
        ("other-id", Check::Opening, |_| json(r#"{"jsonrpc":"2.0","id":"x","result":{}}"#)),
        ("redirected", Check::Endpoint, |_| {
            response("302 Found", "Location: https://login.example/in\r\n", "")
        }),
        ("redirected", Check::Endpoint, |_| {
            response("308 Permanent Redirect", "Location: http://other.example/mcp\r\n", "")
        }),
        ("not-acceptable", Check::Headers, |_| page("406 Not Acceptable", "no")),
        ("not-acceptable", Check::Headers, |_| page("415 Unsupported Media Type", "no")),
        ("header-mismatch", Check::Headers, |asked| {
            let body = asked.error(-32020, "Mcp-Method does not agree with the body");
            response("400 Bad Request", "Content-Type: application/json\r\n", &body)
        }),
        ("request-refused", Check::Headers, |_| page("400 Bad Request", "what?")),
        ("too-large", Check::Size, |_| page("413 Payload Too Large", "no")),
        ("headers-too-large", Check::Size, |_| page("431 Request Header Fields Too Large", "no")),
        ("too-many-requests", Check::Capacity, |_| {
            response("429 Too Many Requests", "Retry-After: 3600\r\n", "")
        }),
        ("unavailable", Check::Capacity, |_| {
            response("503 Service Unavailable", "Retry-After: 3600\r\n", "")
        }),
        ("gateway", Check::Capacity, |_| response("502 Bad Gateway", "Retry-After: 3600\r\n", "")),
        ("server-error", Check::Capacity, |_| page("500 Internal Server Error", "oh")),
        ("html", Check::Endpoint, |_| page("200 OK", "<!DOCTYPE html><title>Welcome</title>")),
        ("empty-body", Check::Body, |_| response("200 OK", "", "")),
        ("content-type", Check::Body, |_| response("200 OK", "Content-Type: text/plain\r\n", "hello")),
        ("no-message", Check::Body, |_| json(r#"{"ok":true}"#)),
        ("bad-reply", Check::Opening, |asked| {
            json(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}},"result":{{}}}}"#, asked.id))
        }),
        ("not-http", Check::Protocol, |_| Some("HTTP/1.1 200 OK\r\nthis is no header\r\n\r\n".to_owned())),
        ("tls-port", Check::Tls, |_| {
            page("400 Bad Request", "<center>The plain HTTP request was sent to HTTPS port</center>")
        }),
        ("silent", Check::Opening, |_| None),
    ];
    run(async {
        for (id, check, answer) in table {
            let canned = Canned::new(answer).await;
            let report = canned.examined().await;
            let finding = alone(&report, id, check);
            assert!(matches!(finding.phase, Phase::Probe | Phase::Initialize), "{finding:#?}");
            let reached = report.checks.contains(&(Check::Reached, Outcome::Passed));
            assert!(reached && report.peer.is_none(), "{report:#?}");
            if id != "silent" {
                assert!(!finding.evidence.requests.is_empty(), "{finding:#?}");
            }
        }
    });
}

/// No request accepts a compressed body, so it is not read.
#[test]
fn a_body_that_is_not_read_is_reported_with_the_reason() {
    run(async {
        for kind in ["application/json", "text/event-stream"] {
            let canned = Canned::new(move |_| {
                let head = format!("Content-Type: {kind}\r\nContent-Encoding: gzip\r\n");
                response("200 OK", &head, "compressed")
            });
            let report = canned.await.examined().await;
            let finding = alone(&report, "no-message", Check::Body);
            let seen = &finding.seen;
            assert!(
                seen.ends_with("the body is compressed (gzip), although this was not requested"),
                "{seen}"
            );
            assert!(finding.advice.contains("without Content-Encoding"), "{finding:#?}");
        }
    });
}

#[test]
fn each_fault_in_a_conversation_is_diagnosed() {
    // All other requests are answered correctly.
    let table: [(&str, Check, Phase, Answer); 16] = [
        ("version", Check::Opening, Phase::Initialize, |asked| {
            match &*asked.about {
            "initialize" => asked.result(r#"{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"x","version":"1"}}"#),
            _ => good(asked),
        }
        }),
        ("refused", Check::Opening, Phase::Initialize, |asked| match &*asked.about {
            "initialize" => json(&asked.error(-32000, "no key")),
            _ => good(asked),
        }),
        ("bad-reply", Check::Opening, Phase::Initialize, |asked| match &*asked.about {
            "initialize" => asked.result("{}"),
            _ => good(asked),
        }),
        ("stream-ended", Check::Body, Phase::Initialize, |asked| match &*asked.about {
            "initialize" => response("200 OK", "Content-Type: text/event-stream\r\n", ": nothing\n\n"),
            _ => good(asked),
        }),
        ("no-events", Check::Body, Phase::Initialize, |asked| match &*asked.about {
            "initialize" => Some(good(asked)?.replace("application/json", "text/event-stream")),
            _ => good(asked),
        }),
        ("session-lost", Check::Session, Phase::List, |asked| match &*asked.about {
            "notifications/initialized" => page("404 Not Found", "Session not found"),
            _ => good(asked),
        }),
        ("session-lost", Check::Lists, Phase::List, |asked| match &*asked.about {
            "tools/list" => page("404 Not Found", "Session not found"),
            _ => good(asked),
        }),
        // A server without sessions cannot lose one.
        ("list-failed", Check::Lists, Phase::List, |asked| match &*asked.about {
            "tools/list" => page("404 Not Found", "no such method"),
            _ => stateless(asked),
        }),
        ("initialized-refused", Check::Session, Phase::Initialize, |asked| match &*asked.about {
            "notifications/initialized" => page("404 Not Found", "no such method"),
            _ => stateless(asked),
        }),
        ("initialized-refused", Check::Session, Phase::Initialize, |asked| match &*asked.about {
            "notifications/initialized" => page("500 Internal Server Error", "oh"),
            _ => good(asked),
        }),
        ("not-authorized", Check::Lists, Phase::List, |asked| match &*asked.about {
            "tools/list" => page("401 Unauthorized", "who?"),
            _ => good(asked),
        }),
        ("list-refused", Check::Lists, Phase::List, |asked| match &*asked.about {
            "tools/list" => json(&asked.error(-32603, "out of order")),
            _ => good(asked),
        }),
        ("no-tools", Check::Offer, Phase::List, |asked| match &*asked.about {
            "tools/list" => asked.result(r#"{"tools":[]}"#),
            _ => good(asked),
        }),
        ("content-type", Check::Body, Phase::List, |asked| match &*asked.about {
            "tools/list" => {
                let body =
                    asked.result(r#"{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}"#).unwrap();
                Some(body.replace("Content-Type: application/json\r\n", ""))
            }
            _ => good(asked),
        }),
        ("noise", Check::Output, Phase::List, |asked| match &*asked.about {
            "tools/list" => {
                let body =
                    asked.result(r#"{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}"#).unwrap();
                let (_, body) = body.split_once("\r\n\r\n").unwrap();
                let stream = format!("data: listing\n\ndata: {body}\n\n");
                response("200 OK", "Content-Type: text/event-stream\r\n", &stream)
            }
            _ => good(asked),
        }),
        ("session-end", Check::Farewell, Phase::ShutDown, |asked| match &*asked.method {
            "DELETE" => page("500 Internal Server Error", "oh"),
            _ => good(asked),
        }),
    ];
    run(async {
        let canned = Canned::new(good).await;
        let report = canned.examined().await;
        assert!(report.is_healthy(), "{report:#?}");
        for (id, check, phase, answer) in table {
            let canned = Canned::new(answer).await;
            let report = canned.examined().await;
            let finding = alone(&report, id, check);
            assert_eq!(finding.phase, phase, "{finding:#?}");
        }
    });
}

/// An answer for one request of MCP; all others are answered correctly.
type Fault = (&'static str, &'static str, &'static str, &'static str, Answer);

#[test]
fn a_response_that_cannot_be_used_is_described_with_what_is_wrong_with_it() {
    const JSON: &str = "Content-Type: application/json\r\n";
    const EVENTS: &str = "Content-Type: text/event-stream\r\n";
    let table: [Fault; 9] = [
        ("initialize", "empty-body", "200 OK with an empty body", "sends no response", |_| {
            response("200 OK", JSON, "")
        }),
        ("initialize", "no-message", "the response body was cut off", "was cut off: the server", |_| {
            Some(format!("HTTP/1.1 200 OK\r\n{JSON}Content-Length: 90\r\nConnection: close\r\n\r\n{{"))
        }),
        ("initialize", "no-message", "200 OK, application/json, but jsonrpc must be \"2.0\"", "", |_| {
            json(r#"{"ok":true}"#)
        }),
        (
            "initialize",
            "no-message",
            "UTF-8 with a byte order mark",
            "encodes its messages wrongly",
            |asked| json(&format!("\u{feff}{}", asked.error(-32601, "unknown"))),
        ),
        ("initialize", "stream-ended", "its last event has no empty line at its end", "", |asked| {
            response("200 OK", EVENTS, &format!("data: {}\n", asked.error(-32601, "unknown")))
        }),
        ("initialize", "batch", "with an array instead of a message", "", |asked| {
            json(&format!("[{}]", asked.error(-32601, "unknown")))
        }),
        ("tools/list", "list-failed", "202 Accepted with an empty body", "is not in its response", |_| {
            response("202 Accepted", "", "")
        }),
        ("tools/list", "list-failed", "200 OK with an empty body", "is not in its response", |_| {
            response("200 OK", JSON, "")
        }),
        ("tools/list", "list-failed", "has the id 9999 instead of", "is not in its response", |_| {
            json(r#"{"jsonrpc":"2.0","id":9999,"result":{"tools":[]}}"#)
        }),
    ];
    run(async {
        for (about, id, seen, meaning, fault) in table {
            let canned =
                Canned::new(move |asked| if asked.about == about { fault(asked) } else { good(asked) });
            let report = canned.await.examined().await;
            let finding = report.findings.iter().find(|finding| finding.id == id);
            let finding = finding.unwrap_or_else(|| panic!("{id}: {report:#?}"));
            assert!(finding.seen.contains(seen) && finding.meaning.contains(meaning), "{finding:#?}");
            assert!(!finding.seen.contains("stream ended before the answer"), "{finding:#?}");
        }
    });
}

#[test]
fn the_right_path_is_advised() {
    run(async {
        let elsewhere = |asked: &Asked| match &*asked.path {
            "/mcp" => good(asked),
            _ => page("404 Not Found", "no"),
        };
        let canned = Canned::new(elsewhere).await;
        let report = canned.examined().await;
        let finding = alone(&report, "wrong-path", Check::Endpoint);
        assert!(finding.advice.contains(&format!("127.0.0.1:{}/mcp", canned.port)), "{finding:#?}");
        assert_eq!(finding.evidence.body.as_deref(), Some("no"));
        // Headers of the user are not sent to other paths.
        let report = examined(Link::http(canned.url()).header("Authorization", "Bearer x")).await;
        alone(&report, "wrong-path", Check::Endpoint);
    });
}

#[test]
fn a_redirect_circle_is_found() {
    run(async {
        let circle = Canned::new(|asked| {
            let to = if asked.path == "/x" { "/y" } else { "/x" };
            response("307 Temporary Redirect", &format!("Location: {to}\r\n"), "")
        });
        let report = circle.await.examined().await;
        let finding = alone(&report, "redirect-circle", Check::Endpoint);
        assert!(finding.seen.contains("/x") && finding.seen.contains("/y"), "{finding:#?}");
    });
}

#[test]
fn the_status_of_a_response_is_shown() {
    run(async {
        let busy = Canned::new(|_| response("503 Service Unavailable", "", "busy")).await;
        let report = busy.examined().await;
        alone(&report, "unavailable", Check::Capacity);
        let texts = |report: &Report| {
            let steps: Vec<String> = report.steps.iter().map(|step| step.detail.clone()).collect();
            steps.join("; ")
        };
        assert!(texts(&report).contains("the server answered 503"), "{report:#?}");
        let unknown = Canned::new(|_| page("401 Unauthorized", "who?")).await;
        let report = unknown.examined().await;
        assert!(texts(&report).contains("the server answered 401"), "{report:#?}");
        assert!(!texts(&report).contains("there was no connection"), "{report:#?}");
    });
}

#[test]
fn streamable_http_behind_a_url_for_http_sse_is_found() {
    run(async {
        // Such servers require a session for all requests but `initialize`, and refuse in two ways.
        let words: Answer =
            |_| response("400 Bad Request", "Content-Type: text/plain\r\n", "No valid session ID");
        let message: Answer = |asked| {
            let body = asked.error(-32000, "refused");
            response("404 Not Found", "Content-Type: application/json\r\n", &body)
        };
        for (get, ping) in [(words, message), (good, words)] {
            let server = Canned::new(move |asked| match (&*asked.method, &*asked.about) {
                ("GET", _) => get(asked),
                ("POST", "ping") => ping(asked),
                _ => good(asked),
            });
            let server = server.await;
            let report = examined(Link::http(server.url()).legacy_sse()).await;
            let finding = alone(&report, "streamable-http", Check::Endpoint);
            assert_eq!(finding.advice, format!("use {}", server.url()));
        }
    });
}

#[test]
fn of_an_answer_at_another_path_16_kib_are_read() {
    run(async {
        const ANSWER: usize = 16 * 1024;
        let word = "session";
        for (before, is_read) in [(ANSWER - word.len(), true), (ANSWER - word.len() + 1, false)] {
            let server = Canned::new(move |asked| match &*asked.about {
                "ping" => page("400 Bad Request", &("x".repeat(before) + word)),
                _ => page("404 Not Found", "no"),
            });
            let server = server.await;
            let report = examined(Link::http(server.url()).legacy_sse()).await;
            let is_streamable = report.findings.iter().any(|finding| finding.id == "streamable-http");
            assert_eq!(is_streamable, is_read, "{report:#?}");
        }
    });
}

#[test]
fn clocks_that_differ_are_found() {
    run(async {
        for (date, ahead) in
            [("Sun, 06 Nov 1994 08:49:37 GMT", "earlier"), ("Fri, 01 Jan 2100 00:00:00 GMT", "later")]
        {
            let server = Canned::new(move |asked| {
                Some(good(asked)?.replace("Content-Length", &format!("Date: {date}\r\nContent-Length")))
            });
            let report = server.await.examined().await;
            let finding = alone(&report, "clocks-apart", Check::Clock);
            assert!(finding.seen.contains(ahead), "{finding:#?}");
        }
        let report = Canned::new(good).await.examined().await;
        let untold = Outcome::NotRun("the response has no Date");
        assert!(report.checks.contains(&(Check::Clock, untold)), "{report:#?}");
    });
}

#[test]
fn words_in_a_url_are_not_taken_for_the_body() {
    run(async {
        let forbids = Canned::new(|_| page("403 Forbidden", "no")).await;
        let report = examined(Link::http(format!("http://localhost:{}/origin", forbids.port))).await;
        let ids: Vec<&str> = report.findings.iter().map(|finding| finding.id).collect();
        assert!(ids.contains(&"forbidden") && !ids.contains(&"host-refused"), "{report:#?}");
        let refuses = Canned::new(|_| page("400 Bad Request", "what?")).await;
        let report = examined(Link::http(format!("http://127.0.0.1:{}/session", refuses.port))).await;
        alone(&report, "request-refused", Check::Headers);
        // The message of an error counts.
        let says = Canned::new(|asked| {
            let body = asked.error(-32000, "Invalid Host: 127.0.0.1");
            response("403 Forbidden", "Content-Type: application/json\r\n", &body)
        });
        alone(&says.await.examined().await, "host-refused", Check::Headers);
    });
}

#[test]
fn no_other_path_is_advised_for_a_redirect_or_a_guarded_server() {
    run(async {
        let moved = Canned::new(|asked| match &*asked.method {
            "GET" => response("405 Method Not Allowed", "", ""),
            _ => response("302 Found", "Location: https://login.example/in\r\n", ""),
        });
        let report = moved.await.examined().await;
        let finding = alone(&report, "redirected", Check::Endpoint);
        assert!(finding.advice.contains("https://login.example/in"), "{finding:#?}");
        // It requires authorization before it answers 404.
        let guarded = Canned::new(|asked| match (&*asked.method, &*asked.about) {
            ("GET", _) | (_, "server/discover") => page("401 Unauthorized", "who?"),
            _ => page("404 Not Found", "no"),
        });
        let report = guarded.await.examined().await;
        let finding = &report.findings[0];
        assert!(!finding.advice.contains("as an MCP server would"), "{finding:#?}");
    });
}

#[test]
fn a_slow_start_over_http_is_found() {
    run(async {
        let canned = Canned::new(good).await;
        let doctor = Doctor::new(Link::http(canned.url()), client()).slow_start(Duration::ZERO);
        alone(&doctor.examine().await, "slow-start", Check::Speed);
    });
}

#[test]
fn a_server_that_cannot_be_reached_is_found() {
    run(async {
        let closed = Closed::tcp();
        let report = examined(Link::http(format!("http://{closed}/mcp"))).await;
        let finding = alone(&report, "refused", Check::Reached);
        assert!(finding.seen.contains(&closed.port().to_string()), "{finding:#?}");
        assert_eq!(report.steps.len(), 7);
        let report = examined(Link::http("http://no-such-host.invalid/mcp")).await;
        alone(&report, "unresolved", Check::Address);
        let report = examined(Link::http("ftp://x/")).await;
        alone(&report, "no-address", Check::Address);
    });
}

/// A server that sends these bytes to each client, and disconnects.
async fn banner(words: &'static [u8]) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(words).await;
            // A reset would discard the bytes.
            let _ = stream.shutdown().await;
            let mut rest = Vec::new();
            let _ = tokio::time::timeout(Duration::from_secs(1), stream.read_to_end(&mut rest)).await;
        }
    });
    (port, task)
}

#[test]
fn another_protocol_on_the_port_is_recognised() {
    run(async {
        for (words, id, seen) in [
            (&b"SSH-2.0-OpenSSH_9.6\r\n"[..], "not-mcp", "SSH"),
            (b"220 mail.example ESMTP\r\n", "not-mcp", "speaks SMTP"),
            (b"hello\r\n", "not-http", "does not speak HTTP"),
            (b"", "not-http", "closes the connection"),
        ] {
            let (port, task) = banner(words).await;
            let report = examined(Link::http(format!("http://127.0.0.1:{port}/mcp"))).await;
            let finding = alone(&report, id, Check::Protocol);
            assert!(finding.seen.contains(seen), "{finding:#?}");
            task.abort();
        }
    });
}

#[test]
fn a_healthy_server_has_no_finding_in_either_era_and_over_http_sse() {
    run(async {
        let server =
            Server::builder("up", "1").tool(tool("t"), |_: NoArguments, _| async { "x" }).build().unwrap();
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
        let url = listener.url();
        let serving = tokio::spawn(async move {
            server.serve_http(listener, HttpOptions::new(), std::future::pending()).await;
        });
        for (era, opened, not_run) in [(Era::Modern, 3, 4), (Era::Legacy, 4, 3)] {
            let doctor = Doctor::new(Link::http(&url), client().era(EraChoice::Only(era)));
            let report = doctor.examine().await;
            assert!(report.is_healthy(), "{report:#?}");
            let phases: Vec<&str> = report.steps.iter().map(|step| step.phase.as_str()).collect();
            assert_eq!(phases, ["resolve", "connect", "tls", "probe", "initialize", "list", "shut down"]);
            assert!(report.steps[opened].detail.starts_with("up 1, protocol 202"), "{report:#?}");
            assert!(matches!(report.steps[not_run].outcome, Outcome::NotRun(_)));
            assert_eq!(report.addresses.len(), 1);
            assert_eq!(report.checks.len(), report.checks_run() + report.checks_not_run().count());
        }
        let report = examined(Link::http(&url)).await;
        assert!(report.is_healthy() && report.checks_run() >= 15, "{report:#?}");

        let sse = url.replace("/mcp", "/sse");
        let report = examined(Link::http(&sse).legacy_sse()).await;
        assert!(report.is_healthy(), "{report:#?}");
        // The same stream, when Streamable HTTP was asked for.
        let report = examined(Link::http(&sse)).await;
        let finding = alone(&report, "http-sse", Check::Endpoint);
        assert!(finding.advice.contains(&format!("sse+{sse}")), "{finding:#?}");
        serving.abort();
    });
}

/// The header is at fault, not the body.
#[test]
fn an_invalid_session_id_is_found() {
    run(async {
        let bad = |asked: &Asked| {
            good(asked).map(|answer| answer.replace("Mcp-Session-Id: s1", "Mcp-Session-Id: a\u{e9}"))
        };
        let report = Canned::new(bad).await.examined().await;
        let finding = alone(&report, "session-id-malformed", Check::Session);
        assert!(finding.seen.contains("is not visible ASCII"), "{finding:?}");
    });
}

/// `localhost` is 127.0.0.1 on many machines, and many servers listen on ::1 only.
#[test]
fn a_server_at_the_other_loopback_address_is_found() {
    run(async {
        let listener = TcpListener::bind("[::1]:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let report = examined(Link::http(format!("http://127.0.0.1:{port}/mcp"))).await;
        let finding = alone(&report, "other-loopback", Check::Reached);
        assert!(finding.advice.starts_with(&format!("use [::1]:{port} in the URL")), "{finding:?}");
    });
}
