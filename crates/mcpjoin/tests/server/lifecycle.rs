//! Tests of a server's sessions from the first line to the last, with a scripted client.

use std::time::Duration;

use mcpjoin::proto::Version;
use mcpjoin::proto::session::{CloseCause, Limits};
use mcpjoin::proto::types::Prompt;
use mcpjoin::server::{HandlerError, NoArguments, Server, tool};
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;

use crate::told::{Told, hearing};
use crate::{Wire, initialize, request, run, text};

fn server() -> Server {
    Server::builder("s", "1.2.3")
        .title("S")
        .instructions("Ask nicely.")
        .dynamic_tools()
        .tool(tool("hello"), |_: NoArguments, _| async { "hello" })
        .prompt(Prompt::new("broken"), |_, _| async {
            Err::<String, _>(HandlerError::new("the backend is gone"))
        })
        .tool(tool("slow"), |_: NoArguments, _| async {
            // Three seconds on the paused clock, which advances only while all tasks wait.
            let never = tokio::time::timeout(Duration::from_secs(3), std::future::pending::<()>()).await;
            never.map_or("at last", |()| "never")
        })
        .build()
        .unwrap()
}

fn hello(id: i64) -> Value {
    request(id, "tools/call", &json!({ "name": "hello" }))
}

#[test]
fn initialize_is_answered_with_version_name_and_capabilities() {
    run(async {
        let answer = Wire::new(&server()).ask(&initialize("2025-06-18")).await;
        assert_eq!(
            answer["result"],
            json!({
                "protocolVersion": "2025-06-18",
                "capabilities": { "prompts": {}, "tools": { "listChanged": true } },
                "serverInfo": { "name": "s", "version": "1.2.3", "title": "S" },
                "instructions": "Ask nicely."
            })
        );
    });
}

#[test]
fn r26_a_ping_is_answered_with_an_empty_object_at_any_time() {
    run(async {
        let mut wire = Wire::new(&server());
        let ping = json!({ "jsonrpc": "2.0", "id": "p", "method": "ping" });
        let pong = json!({ "jsonrpc": "2.0", "id": "p", "result": {} });
        assert_eq!(wire.ask(&ping).await, pong);
        wire.ask(&initialize("2025-11-25")).await;
        assert_eq!(wire.ask(&ping).await, pong);
        wire.send(&request(1, "tools/call", &json!({ "name": "slow" })).to_string()).await;
        assert_eq!(wire.ask(&ping).await, pong, "while a tool is at work");
    });
}

#[test]
fn r32_an_unknown_method_is_an_error_with_its_name_and_its_id() {
    run(async {
        let mut wire = Wire::opened(&server()).await;
        let answer = wire.ask(&request(7, "no/such", &json!({}))).await;
        assert_eq!(
            answer,
            json!({ "jsonrpc": "2.0", "id": 7,
                    "error": { "code": -32601, "message": "method not found: no/such" } })
        );
    });
}

#[test]
fn r33_what_is_no_request_is_an_error_and_the_server_lives() {
    run(async {
        let mut wire = Wire::opened(&server()).await;
        for (line, code) in [
            ("{not json", -32700),
            (r#"{"jsonrpc":"2.0","id":1}"#, -32600),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}"#, -32602),
            (r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"broken"}}"#, -32603),
        ] {
            wire.send(line).await;
            assert_eq!(wire.next().await["error"]["code"], code, "{line}");
        }
        assert_eq!(text(&wire.ask(&hello(2)).await["result"]), "hello");
    });
}

#[test]
fn b36_an_unknown_notification_is_never_answered() {
    run(async {
        let mut wire = Wire::opened(&server()).await;
        wire.send(r#"{"jsonrpc":"2.0","method":"notifications/no_such","params":{"x":1}}"#).await;
        wire.send(r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"hello"}}"#).await;
        wire.is_silent().await;
        assert_eq!(wire.ask(&hello(1)).await["id"], 1);
    });
}

#[test]
fn b37_a_notification_that_cannot_be_understood_is_never_answered() {
    run(async {
        let mut wire = Wire::opened(&server()).await;
        for params in ["[]", "{}", r#"{"requestId":{}}"#, r#"{"requestId":99}"#] {
            let line = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#);
            wire.send(&line).await;
        }
        wire.is_silent().await;
        assert_eq!(wire.ask(&hello(1)).await["id"], 1);
    });
}

#[test]
fn r46_the_server_says_nothing_until_it_is_spoken_to() {
    run(async {
        let server = server();
        let mut wire = Wire::new(&server);
        server.handle().add_tool(tool("new"), |_: NoArguments, _| async {}).unwrap();
        wire.is_silent().await;
        wire.ask(&initialize("2025-11-25")).await;
    });
}

#[test]
fn r48_e98_what_was_asked_before_the_end_of_the_input_is_answered_after_it() {
    run(async {
        let mut wire = Wire::opened(&server()).await;
        for id in 1..=3 {
            wire.send(&request(id, "tools/call", &json!({ "name": "slow" })).to_string()).await;
        }
        let (rest, cause) = wire.finish().await;
        let mut ids: Vec<_> = rest.iter().map(|answer| answer["id"].as_i64().unwrap()).collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 2, 3]);
        assert!(rest.iter().all(|answer| text(&answer["result"]) == "at last"));
        assert!(matches!(cause, CloseCause::Link(_)), "{cause:?}");
    });
}

#[test]
fn c54_a_request_before_the_opening_is_refused_and_the_opening_then_works() {
    run(async {
        let mut wire = Wire::new(&server());
        assert_eq!(wire.ask(&hello(1)).await["error"]["code"], -32600);
        assert_eq!(wire.ask(&initialize("2025-11-25")).await["result"]["serverInfo"]["name"], "s");
        assert_eq!(text(&wire.ask(&hello(2)).await["result"]), "hello");
    });
}

#[test]
fn c55_a_second_opening_is_refused_and_changes_nothing() {
    run(async {
        let mut wire = Wire::opened(&server()).await;
        assert_eq!(wire.ask(&initialize("2024-11-05")).await["error"]["code"], -32600);
        let answer = wire.ask(&hello(1)).await;
        assert_eq!(text(&answer["result"]), "hello");
    });
}

#[test]
fn c56_a_version_that_is_not_spoken_is_answered_with_one_that_is() {
    run(async {
        for asked_for in ["1999-01-01", "2030-01-01", "x"] {
            let answer = Wire::new(&server()).ask(&initialize(asked_for)).await;
            assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        }
        let old =
            Server::builder("s", "1").versions([Version::V2024_11_05, Version::V2025_03_26]).build().unwrap();
        for (asked_for, answered) in [("2025-11-25", "2025-03-26"), ("2024-11-05", "2024-11-05")] {
            let answer = Wire::new(&old).ask(&initialize(asked_for)).await;
            assert_eq!(answer["result"]["protocolVersion"], answered);
        }
    });
}

#[test]
fn c64_before_the_client_is_ready_pings_are_answered_and_changes_held_back() {
    run(async {
        let server = server();
        let mut wire = Wire::new(&server);
        wire.ask(&initialize("2025-11-25")).await;
        server.handle().add_tool(tool("new"), |_: NoArguments, _| async {}).unwrap();
        wire.is_silent().await;
        let pong = wire.ask(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })).await;
        assert_eq!(pong["result"], json!({}));
        wire.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        assert_eq!(wire.next().await["method"], "notifications/tools/list_changed");
    });
}

#[test]
fn a_handler_ends_when_its_connection_does() {
    run(async {
        let (ended, mut ends) = unbounded_channel();
        struct Ends(tokio::sync::mpsc::UnboundedSender<()>);
        impl Drop for Ends {
            fn drop(&mut self) {
                self.0.send(()).unwrap();
            }
        }
        let server = Server::builder("s", "1")
            .tool(tool("never"), move |_: NoArguments, _| {
                let ends = Ends(ended.clone());
                async move {
                    let _ends = ends;
                    std::future::pending::<()>().await;
                }
            })
            .build()
            .unwrap();
        let mut wire = Wire::opened(&server).await;
        wire.send(&request(1, "tools/call", &json!({ "name": "never" })).to_string()).await;
        let (rest, _) = wire.finish().await;
        let [answer] = &rest[..] else { panic!("{rest:?}") };
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32603)));
        ends.recv().await.unwrap();
    });
}

#[test]
fn a_message_that_is_refused_for_its_size_is_reported() {
    let (tell, mut told) = unbounded_channel();
    hearing(Told(tell), || {
        run(async {
            let mut limits = Limits::default();
            limits.message = 4096;
            let server = Server::builder("s", "1").limits(limits).build().unwrap();
            let mut wire = Wire::opened(&server).await;
            wire.send(&request(2, "ping", &json!({ "x": "y".repeat(5000) })).to_string()).await;
            assert_eq!(wire.next().await["id"], 2);
            let line = told.recv().await.unwrap();
            assert!(line.contains("a message was refused") && line.contains("limit: \"message\""), "{line}");
        });
    });
}
