//! Tests of a client with HTTP+SSE of 2024-11-05, detected or configured.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::proto::Era;
use mcpjoin::proto::session::Limits;
use mcpjoin::transport::{HttpWay, Link};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::scripted::{Scripted, Seen, Talk, builder, call, initialized, run, text};

/// A real server of 2024-11-05: it refuses POST at `/mcp`, its GET is the stream, `/messages` accepts the messages.
async fn server(endpoint: &'static str) -> Scripted {
    let stream: Arc<Mutex<Option<UnboundedSender<String>>>> = Arc::default();
    Scripted::new(move |seen: Seen, talk: Talk| {
        let stream = stream.clone();
        async move {
            if seen.method == "GET" {
                assert_eq!(seen.header("accept"), Some("text/event-stream"));
                let (sender, mut receiver) = unbounded_channel();
                *stream.lock().unwrap() = Some(sender);
                let mut talk = talk.stream(&[]).await;
                talk.piece(format!("event: endpoint\r\ndata: {endpoint}\r\n\r\n")).await;
                while let Some(data) = receiver.recv().await {
                    if data.is_empty() {
                        return talk.finish().await;
                    }
                    talk.piece(format!("event: message\ndata: {data}\n\n")).await;
                }
                return None;
            }
            if !seen.target.starts_with("/messages") {
                return talk.status(404).await;
            }
            assert_eq!(seen.header("mcp-session-id"), None);
            assert_eq!(seen.header("mcp-protocol-version"), None);
            let reply = match seen.about().as_str() {
                "initialize" => Some(seen.result(&initialized("2024-11-05"))),
                "tools/call" if seen.json()["params"]["name"] == "end" => Some(String::new()),
                "tools/call" if seen.json()["params"]["name"] == "refused" => {
                    return talk.answer(400, &[("Content-Type", "text/plain")], "no such session").await;
                }
                "tools/call" => Some(seen.result(&text("by stream"))),
                "notifications/initialized" => None,
                other => panic!("{other}"),
            };
            if let Some(reply) = reply {
                stream.lock().unwrap().as_ref().unwrap().send(reply).unwrap();
            }
            talk.answer(202, &[], "Accepted").await
        }
    })
    .await
}

#[test]
fn r62_f17_an_old_server_is_found_by_its_stream() {
    run(async {
        let server = server("/messages?session=1").await;
        let link = server.link();
        let handle = link.handle();
        let client = builder().connect(link.build().unwrap()).await.unwrap();
        assert_eq!(client.profile().era, Era::Legacy);
        assert_eq!(client.profile().version.as_str(), "2024-11-05");
        assert_eq!(handle.way(), Some(HttpWay::HttpSse));
        assert_eq!(call(&client, "a").await.unwrap(), "by stream");
        client.close().await;
        let order: Vec<_> =
            server.seen().iter().map(|seen| format!("{} {}", seen.target, seen.about())).collect();
        assert_eq!(
            order,
            [
                "/mcp server/discover",
                "/mcp initialize",
                "/mcp GET",
                "/messages?session=1 initialize",
                "/messages?session=1 notifications/initialized",
                "/messages?session=1 tools/call"
            ]
        );
    });
}

#[test]
fn an_old_server_that_the_caller_declares_is_not_probed() {
    run(async {
        let server = server("messages").await;
        let client = builder().connect(server.link().legacy_sse().build().unwrap()).await.unwrap();
        assert_eq!(call(&client, "a").await.unwrap(), "by stream");
        assert_eq!(server.abouts(), ["GET", "initialize", "notifications/initialized", "tools/call"]);
    });
}

#[test]
fn an_old_server_may_take_any_time_to_open_where_that_has_no_limit() {
    run(async {
        let server = server("messages").await;
        let builder = builder().limits(Limits::default().with_initialize(Duration::MAX));
        let client = builder.connect(server.link().legacy_sse().build().unwrap()).await.unwrap();
        assert_eq!(call(&client, "a").await.unwrap(), "by stream");
    });
}

#[test]
fn f127_an_endpoint_of_another_origin_is_refused() {
    run(async {
        let other = Scripted::new(|_, talk: Talk| talk.status(200)).await;
        let port = other.port;
        for endpoint in [
            format!("http://127.0.0.1:{port}/messages"),
            format!("//127.0.0.1:{port}/messages"),
            format!("http://localhost:{port}/messages"),
            "https://evil.example/messages".to_owned(),
            "http://user@evil.example/".to_owned(),
            "file:///etc/passwd".to_owned(),
            "\\\\evil.example\\messages".to_owned(),
        ] {
            let told = endpoint.clone();
            let server = Scripted::new(move |seen: Seen, talk: Talk| {
                let endpoint = told.clone();
                async move {
                    if seen.method != "GET" {
                        return talk.status(405).await;
                    }
                    let mut talk = talk.stream(&[]).await;
                    talk.piece(format!("event: endpoint\ndata: {endpoint}\n\n")).await;
                    talk.gone().await;
                    None
                }
            })
            .await;
            for link in [server.link(), server.link().legacy_sse()] {
                let link = link.header("authorization", "secret").build().unwrap();
                let error = builder().connect(link).await.unwrap_err().to_string();
                assert!(error.contains("the endpoint"), "{endpoint}: {error}");
            }
        }
        assert_eq!(other.seen().len(), 0, "nothing was sent there");
    });
}

#[test]
fn the_end_of_the_stream_is_the_end_of_the_session() {
    run(async {
        let server = server("/messages").await;
        let client = server.connect().await.unwrap();
        let error = call(&client, "end").await.unwrap_err();
        assert!(error.contains("ended the event stream"), "{error}");
        assert!(client.closed().await.to_string().contains("ended the event stream"));
    });
}

#[test]
fn a_post_that_is_refused_fails_its_call() {
    run(async {
        let server = server("/messages").await;
        let client = server.connect().await.unwrap();
        let error = call(&client, "refused").await.unwrap_err();
        assert!(error.contains("400") && error.contains("no such session"), "{error}");
        assert_eq!(call(&client, "a").await.unwrap(), "by stream");
    });
}

#[test]
fn f17_the_path_of_a_url_says_nothing_about_the_transport() {
    run(async {
        let server = Scripted::new(crate::scripted::modern).await;
        for path in ["/sse", "/session", "/ssecret", "/mcp?session=1&sse=true"] {
            let url = format!("http://127.0.0.1:{}{path}", server.port);
            let client = builder().connect(Link::http(url).build().unwrap()).await.unwrap();
            assert_eq!(client.profile().era, Era::Modern, "{path}");
        }
        assert!(server.seen().iter().all(|seen| seen.method == "POST"));
    });
}

#[test]
fn a_stream_that_names_no_endpoint_is_given_up() {
    run(async {
        let server = Scripted::new(|seen: Seen, talk: Talk| async move {
            if seen.method != "GET" {
                return talk.status(405).await;
            }
            let mut talk = talk.stream(&[]).await;
            let early = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}});
            talk.event(None, &early.to_string()).await;
            talk.gone().await;
            None
        })
        .await;
        let mut limits = Limits::default();
        limits.initialize = Duration::from_millis(300);
        let link = server.link().legacy_sse().build().unwrap();
        let error = builder().limits(limits).connect(link).await.unwrap_err().to_string();
        assert!(error.contains("within 300 ms"), "{error}");
    });
}

#[test]
fn what_is_no_stream_is_reported_unchanged_and_names_no_endpoint() {
    run(async {
        for (status, kind) in [(200, "text/html"), (404, "text/event-stream")] {
            let server = Scripted::new(move |_, talk: Talk| async move {
                let body = "event: endpoint\ndata: /messages\n\n";
                talk.answer(status, &[("Content-Type", kind)], body).await
            })
            .await;
            let link = server.link().legacy_sse().build().unwrap();
            let error = builder().connect(link).await.unwrap_err().to_string();
            assert!(error.contains(&status.to_string()) && error.contains(kind), "{error}");
            assert_eq!(server.abouts(), ["GET"]);
        }
    });
}
