//! Tests of how a connection opens in each era, and of the headers and metadata of each message.

use mcpjoin::proto::Era;
use mcpjoin::transport::HttpWay;
use serde_json::json;

use crate::scripted::{MODERN, Scripted, V2025_11, call, legacy, modern, run, text};

#[test]
fn r58_s18_a_modern_server_gets_its_headers_and_nothing_else() {
    run(async {
        let server = Scripted::new(modern).await;
        let connect = server.link().header("X-Team", "blue");
        let client = crate::scripted::builder().connect(connect.build().unwrap()).await.unwrap();
        assert_eq!(client.profile().era, Era::Modern);
        assert_eq!(call(&client, "Hello, 世界").await.unwrap(), "Hello, 世界");
        client.close().await;
        let seen = server.seen();
        assert_eq!(server.abouts(), ["server/discover", "tools/call"], "no GET, no DELETE");
        let post = &seen[1];
        assert_eq!(post.target, "/mcp");
        assert_eq!(post.header("accept"), Some("application/json, text/event-stream"));
        assert_eq!(post.header("content-type"), Some("application/json"));
        assert_eq!(post.header("mcp-protocol-version"), Some(MODERN));
        assert_eq!(post.header("mcp-method"), Some("tools/call"));
        assert_eq!(post.header("mcp-name"), Some("=?base64?SGVsbG8sIOS4lueVjA==?="));
        assert_eq!(post.header("x-team"), Some("blue"));
        assert_eq!(post.header("mcp-session-id"), None);
        assert_eq!(post.header("last-event-id"), None);
        assert_eq!(post.header("accept-encoding"), None, "nothing is decompressed");
    });
}

#[test]
fn r59_the_session_and_the_version_are_named_from_the_reply_to_initialize_on() {
    run(async {
        let server = Scripted::new(|seen, talk| legacy(V2025_11, "s-1", seen, talk)).await;
        let link = server.link();
        let handle = link.handle();
        assert_eq!(handle.way(), None);
        let client = crate::scripted::builder().connect(link.build().unwrap()).await.unwrap();
        assert_eq!(client.profile().version.as_str(), V2025_11);
        assert_eq!(handle.way(), Some(HttpWay::Streamable));
        assert_eq!(call(&client, "add").await.unwrap(), "add");
        client.close().await;
        let seen = server.seen();
        for post in &seen {
            let after = !matches!(post.about().as_str(), "server/discover" | "initialize");
            assert_eq!(post.header("mcp-session-id"), after.then_some("s-1"), "{}", post.about());
            if post.about() != "server/discover" {
                assert_eq!(
                    post.header("mcp-protocol-version"),
                    after.then_some(V2025_11),
                    "{}",
                    post.about()
                );
                assert_eq!(post.header("mcp-method"), None);
            }
        }
        assert_eq!(server.count("GET"), 1, "the stream of the session was asked for");
        assert_eq!(server.abouts().last().unwrap(), "DELETE");
    });
}

#[test]
fn s2_nothing_passes_initialized() {
    run(async {
        let server = Scripted::new(|seen, talk| async move {
            if seen.about() == "notifications/initialized" {
                // A client that did not wait for this response would send its next request earlier.
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
            }
            legacy(V2025_11, "s", seen, talk).await
        })
        .await;
        let client = server.connect().await.unwrap();
        assert_eq!(call(&client, "a").await.unwrap(), "a");
        let order = server.abouts();
        let place = |about: &str| order.iter().position(|seen| seen == about).unwrap();
        assert!(place("initialize") < place("notifications/initialized"));
        assert!(place("notifications/initialized") < place("tools/call"));
        assert!(place("notifications/initialized") < place("GET"));
    });
}

#[test]
fn r61_s4_events_are_read_as_they_come() {
    run(async {
        let server = Scripted::new(|seen, talk| async move {
            if seen.about() != "tools/call" {
                return modern(seen, talk).await;
            }
            let mut talk = talk.stream(&[]).await;
            let token = seen.json()["params"]["_meta"]["progressToken"].clone();
            let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": token, "progress": 1}});
            talk.event(None, &progress.to_string()).await;
            talk.piece(": alive\n\n").await;
            talk.event(None, &seen.result(&text("streamed"))).await;
            talk.finish().await
        })
        .await;
        let client = server.connect().await.unwrap();
        assert_eq!(call(&client, "a").await.unwrap(), "streamed");
        assert_eq!(call(&client, "a").await.unwrap(), "streamed");
    });
}
