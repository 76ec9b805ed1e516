//! Tests of clients and servers over HTTP.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::{
    ElicitAction, ElicitFormParams, ElicitResult, ElicitationSchema, LoggingLevel, Members,
};
use mcpjoin::proto::{Era, Raw};
use mcpjoin::server::{NoArguments, tool};
use mcpjoin::transport::{HttpListener, HttpOptions};
use mcpjoin::{Client, Link, Server};
use mcpjoin_gateway::{Gateway, Policy, SharedPolicy};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;

use super::Servers;

/// Runs a test with real sockets. Two minutes count as a hang.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(120), test).await.expect("the test hangs");
    });
}

fn server() -> Server {
    Server::builder("far", "1")
        .logging()
        .dynamic_tools()
        .tool(tool("asks"), |_: NoArguments, cx| async move {
            cx.log(LoggingLevel::Error, json!("soon"));
            let answer =
                cx.elicit(ElicitFormParams::new("who?", ElicitationSchema::new(Members::new()))).await?;
            Ok::<_, mcpjoin::server::HandlerError>(format!("{:?}", answer.action))
        })
        .build()
        .unwrap()
}

/// A gateway over HTTP in front of servers in memory. It ends when the sender is dropped.
async fn gateway(server: Server) -> (String, Gateway, oneshot::Sender<()>) {
    let start = move || {
        let (near, far) = Link::memory();
        server.connect(far);
        std::future::ready(Ok::<_, std::io::Error>(near))
    };
    let gateway = Gateway::builder(start).build();
    let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
    let (url, (end, ended)) = (listener.url(), oneshot::channel());
    let serving = gateway.clone();
    tokio::spawn(async move {
        serving.serve_http(listener, HttpOptions::new(), async { drop(ended.await) }).await;
    });
    (url, gateway, end)
}

#[test]
fn both_eras_over_http_with_questions_and_logs_in_a_call() {
    run(async {
        for era in [Era::Legacy, Era::Modern] {
            let (url, gateway, end) = gateway(server()).await;
            let logs = Arc::new(Mutex::new(0));
            let received = logs.clone();
            let client = Client::builder("near", "1")
                .era(EraChoice::Only(era))
                .elicitation(|_| async { Ok(ElicitResult::new(ElicitAction::Decline)) })
                .on_notification(move |_| *received.lock().unwrap() += 1)
                .connect(Link::http(&url).build().unwrap())
                .await
                .unwrap();
            assert_eq!(client.server_name(), Some("far"));
            client.set_level(LoggingLevel::Debug).await.unwrap();
            let result = client.call_tool("asks", Some(Raw::parse("{}").unwrap())).await.unwrap();
            assert!(format!("{:?}", result.content).contains("Decline"), "{:?}", result.content);
            assert!(*logs.lock().unwrap() >= 1, "{era:?}");
            client.close().await;
            drop(end);
            gateway.close().await;
        }
    });
}

#[test]
fn two_nameless_clients_at_one_address_are_each_asked_what_their_own_call_asks() {
    run(async {
        let both = Arc::new(tokio::sync::Barrier::new(2));
        let asked = Arc::new(tokio::sync::Notify::new());
        let question = |name: &str| ElicitFormParams::new(name, ElicitationSchema::new(Members::new()));
        let (first, second) = ((both.clone(), asked.clone()), (both, asked));
        let server = Server::builder("far", "1")
            .versions([mcpjoin::proto::Version::V2025_11_25])
            .tool(tool("first"), move |_: NoArguments, cx: mcpjoin::server::Context| {
                let (both, asked) = first.clone();
                async move {
                    both.wait().await;
                    // The newer call asks first.
                    asked.notified().await;
                    let answer = cx.elicit(question("first")).await?;
                    Ok::<_, mcpjoin::server::HandlerError>(format!("{:?}", answer.action))
                }
            })
            .tool(tool("second"), move |_: NoArguments, cx: mcpjoin::server::Context| {
                let (both, asked) = second.clone();
                async move {
                    both.wait().await;
                    let asking = cx.elicit(question("second"));
                    asked.notify_one();
                    Ok::<_, mcpjoin::server::HandlerError>(format!("{:?}", asking.await?.action))
                }
            })
            .build()
            .unwrap();
        let (url, gateway, end) = gateway(server).await;
        let mut calls = Vec::new();
        for name in ["first", "second"] {
            let received = Arc::new(Mutex::new(Vec::new()));
            let receiver = received.clone();
            let client = Client::builder("near", "1")
                .era(EraChoice::Only(Era::Modern))
                .elicitation(move |params| {
                    let mcpjoin::proto::types::ElicitParams::Form(params) = params else { panic!() };
                    receiver.lock().unwrap().push(params.message);
                    async { Ok(ElicitResult::new(ElicitAction::Decline)) }
                })
                .connect(Link::http(&url).build().unwrap())
                .await
                .unwrap();
            calls.push(tokio::spawn(async move {
                let result = client.call_tool(name, ()).await.unwrap();
                assert_eq!(result.content[0].as_text(), Some("Decline"));
                assert_eq!(*received.lock().unwrap(), [name]);
            }));
        }
        for call in calls {
            call.await.unwrap();
        }
        drop(end);
        gateway.close().await;
    });
}

/// Sends one POST as text, and returns the response as text.
async fn post(url: &str, headers: &str, body: &str) -> String {
    post_from("127.0.0.1", url, headers, body).await
}

/// Sends one POST from this address.
async fn post_from(from: &str, url: &str, headers: &str, body: &str) -> String {
    let address = url.trim_start_matches("http://").split('/').next().unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    let mut stream = socket.connect(address.parse().unwrap()).await.unwrap();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Connection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    reply
}

#[test]
fn a_clients_authorization_and_its_other_headers_never_reach_a_server() {
    run(async {
        // The server is behind HTTP, too, and the bytes that it receives are recorded.
        let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let got = Arc::new(Mutex::new(String::new()));
        let seen = got.clone();
        let far = tokio::spawn(async move {
            loop {
                let (mut stream, _) = socket.accept().await.unwrap();
                let seen = seen.clone();
                tokio::spawn(async move {
                    let mut bytes = vec![0; 65536];
                    while let Ok(length) = stream.read(&mut bytes).await {
                        if length == 0 {
                            return;
                        }
                        let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
                        seen.lock().unwrap().push_str(&text);
                        let body = if text.contains("\"initialize\"") {
                            r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}"#
                        } else if text.contains("tools/call") {
                            r#"{"jsonrpc":"2.0","id":2,"result":{"content":[]}}"#
                        } else {
                            let reply = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
                            let _ = stream.write_all(reply.as_bytes()).await;
                            continue;
                        };
                        let reply = format!(
                            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                            body.len()
                        );
                        let _ = stream.write_all(reply.as_bytes()).await;
                    }
                });
            }
        });
        let target = format!("http://{address}/mcp");
        let gateway = Gateway::builder(move || std::future::ready(Link::http(&target).build())).build();
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
        let url = listener.url();
        let serving = gateway.clone();
        let served = tokio::spawn(async move {
            serving.serve_http(listener, HttpOptions::new(), std::future::pending()).await;
        });
        let secret = "Authorization: Bearer s3cr3t-of-the-client\r\nCookie: s3cr3t\r\nX-Custom: s3cr3t\r\n";
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
        let reply = post(&url, secret, body).await;
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
        let session = reply.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().trim();
        let headers = format!("{secret}Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
        let reply = post(&url, &headers, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        assert!(reply.starts_with("HTTP/1.1 202"), "{reply}");
        let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t"}}"#;
        let reply = post(&url, &headers, call).await;
        assert!(reply.contains(r#"{"jsonrpc":"2.0","id":7,"result":{"content":[]}}"#), "{reply}");
        let got = got.lock().unwrap().to_lowercase();
        assert!(got.contains("tools/call"), "{got}");
        assert!(!got.contains("s3cr3t") && !got.contains("authorization") && !got.contains(session), "{got}");
        served.abort();
        far.abort();
    });
}

#[test]
fn legacy_requests_without_a_session_have_a_server_too() {
    run(async {
        let far = server();
        let start = move || {
            let (near, theirs) = Link::memory();
            far.connect(theirs);
            std::future::ready(Ok::<_, std::io::Error>(near))
        };
        let gateway = Gateway::builder(start).build();
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
        let url = listener.url();
        let serving = gateway.clone();
        let options = HttpOptions::new().stateless(true);
        let served =
            tokio::spawn(async move { serving.serve_http(listener, options, std::future::pending()).await });
        let list = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#;
        let reply = post(&url, "MCP-Protocol-Version: 2025-06-18\r\n", list).await;
        assert!(reply.contains(r#""name":"asks""#), "{reply}");
        gateway.close().await;
        served.abort();
    });
}

#[test]
fn messages_of_no_request_are_sent_on_the_stream_of_the_session_or_of_a_request() {
    run(async {
        let (mut servers, start) = Servers::set();
        let gateway = Gateway::builder(start).build();
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
        let url = listener.url();
        let serving = gateway.clone();
        let served = tokio::spawn(async move {
            serving.serve_http(listener, HttpOptions::new(), std::future::pending()).await;
        });
        let opening = {
            let url = url.clone();
            tokio::spawn(async move { post(&url, "", super::INITIALIZE).await })
        };
        let mut server = servers.next().await;
        super::open_legacy(&mut server).await;
        let reply = opening.await.unwrap();
        let session = reply.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().trim();
        let headers = format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-06-18\r\n");
        post(&url, &headers, super::INITIALIZED).await;
        // The session has no stream, so the notification is sent on the stream of the only request, before its result.
        let calling = {
            let (url, headers) = (url.clone(), headers.clone());
            tokio::spawn(async move {
                post(
                    &url,
                    &headers,
                    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#,
                )
                .await
            })
        };
        server.line().await;
        let told = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"n":-0}}"#;
        server.say(told).await;
        server.say(r#"{"jsonrpc":"2.0","id":2,"result":{"n":-0}}"#).await;
        let reply = calling.await.unwrap();
        let (first, last) = (reply.find(told).unwrap(), reply.find(r#""result":{"n":-0}"#).unwrap());
        assert!(first < last, "{reply}");
        gateway.close().await;
        served.abort();
    });
}

#[test]
fn the_end_of_a_session_is_the_end_of_its_server() {
    run(async {
        let (mut servers, start) = Servers::set();
        let gateway = Gateway::builder(start).build();
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
        let url = listener.url();
        let serving = gateway.clone();
        let served = tokio::spawn(async move {
            serving.serve_http(listener, HttpOptions::new(), std::future::pending()).await;
        });
        let connecting = {
            let url = url.clone();
            tokio::spawn(async move {
                let builder = Client::builder("c", "1").era(EraChoice::Only(Era::Legacy));
                builder.connect(Link::http(&url).build().unwrap()).await.unwrap()
            })
        };
        let mut server = servers.next().await;
        server.line().await;
        server
            .say(r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}"#)
            .await;
        server.line().await;
        let client = connecting.await.unwrap();
        // Without a request in flight, a question is sent on the stream of the session.
        server.say(r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#).await;
        assert_eq!(server.value().await["error"]["code"], -32601);
        // DELETE.
        client.close().await;
        assert_eq!(server.receive().await, None);
        gateway.close().await;
        served.abort();
    });
}

/// A response stream that is read only as far as the test waits for it.
struct Reading {
    stream: TcpStream,
    text: String,
}

impl Reading {
    async fn of(url: &str, method: &str, headers: &str, body: &str) -> Self {
        let address = url.trim_start_matches("http://").split('/').next().unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let accept =
            if method == "GET" { "text/event-stream" } else { "application/json, text/event-stream" };
        let request = format!(
            "{method} /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nAccept: {accept}\r\n\
             Connection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        Self { stream, text: String::new() }
    }

    async fn until(&mut self, text: &str) {
        let mut bytes = [0; 4096];
        while !self.text.contains(text) {
            let length = self.stream.read(&mut bytes).await.unwrap();
            assert!(length > 0, "the stream ends without {text}: {}", self.text);
            self.text.push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
    }
}

#[test]
fn a_question_during_several_requests_is_asked_on_the_stream_of_the_session_or_on_that_of_the_oldest() {
    run(async {
        let (mut servers, start) = Servers::set();
        let gateway = Gateway::builder(start).build();
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
        let url = listener.url();
        let serving = gateway.clone();
        let served = tokio::spawn(async move {
            serving.serve_http(listener, HttpOptions::new(), std::future::pending()).await;
        });
        for has_stream in [false, true] {
            let opening = {
                let url = url.clone();
                tokio::spawn(async move { post(&url, "", super::INITIALIZE).await })
            };
            let mut server = servers.next().await;
            super::open_legacy(&mut server).await;
            let reply = opening.await.unwrap();
            let session =
                reply.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().trim();
            let headers = format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-06-18\r\n");
            post(&url, &headers, super::INITIALIZED).await;
            let mut stream = None;
            if has_stream {
                let mut listens = Reading::of(&url, "GET", &headers, "").await;
                listens.until("\r\n\r\n").await;
                stream = Some(listens);
            }
            let mut calls = Vec::new();
            for id in 1..=2 {
                let call =
                    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "t" } });
                calls.push(Reading::of(&url, "POST", &headers, &call.to_string()).await);
                assert_eq!(server.value().await["method"], "tools/call");
            }
            server.say(r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#).await;
            let asked = r#""method":"roots/list""#;
            stream.as_mut().unwrap_or(&mut calls[0]).until(asked).await;
            for (call, id) in calls.iter_mut().zip([2, 3]) {
                server.say(&json!({ "jsonrpc": "2.0", "id": id, "result": { "n": id } }).to_string()).await;
                call.until(&format!(r#""result":{{"n":{id}}}"#)).await;
            }
            let of = |call: &Reading| call.text.matches(asked).count();
            assert_eq!((of(&calls[0]), of(&calls[1])), (usize::from(!has_stream), 0), "{has_stream}");
        }
        gateway.close().await;
        served.abort();
    });
}

#[test]
fn a_client_for_which_no_more_servers_are_started_is_asked_to_come_again() {
    run(async {
        let (url, gateway, _end) = gateway(server()).await;
        for (status, headers, of) in [
            (
                "modern",
                "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n",
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"cNUMBER","version":"1"}}}}"#,
            ),
            ("legacy", "", super::INITIALIZE),
        ] {
            let mut replies = tokio::task::JoinSet::new();
            for number in 0..60 {
                let (url, body) = (url.clone(), of.replace("NUMBER", &number.to_string()));
                replies.spawn(async move { post(&url, headers, &body).await });
            }
            let refused = loop {
                let reply = replies.join_next().await.expect("one is refused").unwrap();
                if !reply.starts_with("HTTP/1.1 200") {
                    break reply;
                }
            };
            assert!(refused.starts_with("HTTP/1.1 503"), "{status}: {refused}");
            assert!(refused.to_lowercase().contains("\r\nretry-after: 1\r\n"), "{refused}");
            assert!(refused.contains("tooManyStarts") && refused.contains("4 per second"), "{refused}");
        }
        gateway.close().await;
    });
}

#[test]
fn a_client_above_its_rate_gets_a_status_with_retry_after() {
    run(async {
        let policy =
            Policy::parse(Path::new("p"), "[limits]\nrequests_per_minute = 20\nburst = 1\n").unwrap();
        let far = server();
        let gateway = Gateway::builder(move || {
            let (near, theirs) = Link::memory();
            far.connect(theirs);
            std::future::ready(Ok::<_, std::io::Error>(near))
        });
        let gateway = gateway.policy(SharedPolicy::new(policy)).build();
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
        let (url, serving) = (listener.url(), gateway.clone());
        let served = tokio::spawn(async move {
            serving.serve_http(listener, HttpOptions::new(), std::future::pending()).await;
        });
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        } } })
        .to_string();
        let modern = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n";
        let opened = post(&url, "", super::INITIALIZE).await.to_lowercase();
        let session = opened.split("mcp-session-id: ").nth(1).unwrap().split("\r\n").next().unwrap();
        let legacy = format!("MCP-Protocol-Version: 2025-06-18\r\nMcp-Session-Id: {session}\r\n");
        assert!(post(&url, modern, &list).await.starts_with("HTTP/1.1 200"));
        for (headers, body) in
            [(modern, &*list), (&*legacy, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)]
        {
            let refused = post(&url, headers, body).await;
            assert!(refused.starts_with("HTTP/1.1 429"), "{refused}");
            let seconds = refused.to_lowercase();
            let seconds = seconds.split("\r\nretry-after: ").nth(1).unwrap().split("\r\n").next().unwrap();
            let millis = refused.split("\"retryAfterMs\":").nth(1).unwrap().split('}').next().unwrap();
            let (seconds, millis): (u64, u64) = (seconds.parse().unwrap(), millis.parse().unwrap());
            assert!((2_000..=3_001).contains(&millis) && seconds == millis.div_ceil(1_000), "{refused}");
        }
        gateway.close().await;
        served.abort();
    });
}

/// Other systems have only one loopback address.
#[cfg(target_os = "linux")]
#[test]
fn without_sessions_a_client_gets_no_server_that_another_address_has_used() {
    run(async {
        let (starts, far) = (Arc::new(Mutex::new(0)), server());
        let count = starts.clone();
        let gateway = Gateway::builder(move || {
            *count.lock().unwrap() += 1;
            let (near, theirs) = Link::memory();
            far.connect(theirs);
            std::future::ready(Ok::<_, std::io::Error>(near))
        })
        .build();
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
        let url = listener.url();
        let serving = gateway.clone();
        let options = HttpOptions::new().stateless(true);
        let served =
            tokio::spawn(async move { serving.serve_http(listener, options, std::future::pending()).await });
        let list = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#;
        for (from, servers) in
            [("127.0.0.1", 1), ("127.0.0.1", 1), ("127.0.0.2", 2), ("127.0.0.1", 2), ("127.0.0.2", 2)]
        {
            let reply = post_from(from, &url, "MCP-Protocol-Version: 2025-06-18\r\n", list).await;
            assert!(reply.contains(r#""name":"asks""#), "{reply}");
            assert_eq!(*starts.lock().unwrap(), servers, "{from}");
        }
        gateway.close().await;
        served.abort();
    });
}

#[test]
fn only_lists_of_tools_say_which_arguments_headers_repeat() {
    run(async {
        let (mut servers, start) = Servers::set();
        let gateway = Gateway::builder(start).build();
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
        let url = listener.url();
        let serving = gateway.clone();
        let served = tokio::spawn(async move {
            serving.serve_http(listener, HttpOptions::new(), std::future::pending()).await;
        });
        let ask = |method: &'static str, name: &str, members: &str| {
            let (url, body) = (url.clone(), super::modern_request("1", method, members, ""));
            let headers = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}\r\n")
                .replace("\r\n\r\n", "\r\n");
            tokio::spawn(async move { post(&url, &headers, &body).await })
        };
        let call = || ask("tools/call", "Mcp-Name: t", r#""name":"t","arguments":{"a":"x"},"#);
        let tools = r#""tools":[{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}}]"#;
        let first = call();
        let mut server = servers.next().await;
        super::open_modern(&mut server).await;
        let answered =
            async |server: &mut super::Raw, asked: tokio::task::JoinHandle<String>, fields: &str| {
                let id = server.value().await["id"].clone();
                let result = format!(r#"{{"resultType":"complete",{fields}}}"#);
                server.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)).await;
                let reply = asked.await.unwrap();
                assert!(reply.starts_with("HTTP/1.1 200") && reply.contains(&result), "{reply}");
            };
        answered(&mut server, first, tools).await;
        // That result was not a list of tools, so no header is required.
        answered(&mut server, call(), r#""content":[]"#).await;
        let list = format!(r#"{tools},"ttlMs":1,"cacheScope":"public""#);
        answered(&mut server, ask("tools/list", "", ""), &list).await;
        let refused = call().await.unwrap();
        assert!(refused.starts_with("HTTP/1.1 400") && refused.contains("Mcp-Param-A"), "{refused}");
        gateway.close().await;
        served.abort();
    });
}

#[test]
fn a_tool_that_only_another_principal_sees_is_unknown_also_to_the_check_of_headers() {
    run(async {
        let (mut servers, start) = Servers::set();
        let policy = "[[rule]]\nprincipals = [\"guest\"]\ndeny = [\"t\"]\n";
        let policy = SharedPolicy::new(Policy::parse(Path::new("policy.toml"), policy).unwrap());
        let gateway = Gateway::builder(start).policy(policy).build();
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
        let url = listener.url();
        let options =
            HttpOptions::new().principal(|head| Some(head.headers.get("who")?.to_str().ok()?.to_owned()));
        let serving = gateway.clone();
        let served =
            tokio::spawn(async move { serving.serve_http(listener, options, std::future::pending()).await });
        let ask = |who: &str, method: &str, name: &str, members: &str| {
            let (url, body) = (url.clone(), super::modern_request("1", method, members, ""));
            let headers =
                format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}Who: {who}\r\n");
            tokio::spawn(async move { post(&url, &headers, &body).await })
        };
        let call = |who| ask(who, "tools/call", "Mcp-Name: t\r\n", r#""name":"t","arguments":{"a":"x"},"#);
        let listed = ask("admin", "tools/list", "", "");
        let mut server = servers.next().await;
        super::open_modern(&mut server).await;
        let id = server.value().await["id"].clone();
        let tool = r#"{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}}"#;
        let result =
            format!(r#"{{"resultType":"complete","tools":[{tool}],"ttlMs":1,"cacheScope":"public"}}"#);
        server.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)).await;
        assert!(listed.await.unwrap().starts_with("HTTP/1.1 200"));
        let refused = call("admin").await.unwrap();
        assert!(refused.starts_with("HTTP/1.1 400") && refused.contains("Mcp-Param-A"), "{refused}");
        let unknown = call("guest").await.unwrap();
        assert!(unknown.contains("unknown tool: t") && !unknown.contains("Mcp-Param"), "{unknown}");
        gateway.close().await;
        served.abort();
    });
}
