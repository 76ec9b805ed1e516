//! Tests of how clients and servers start and end.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::Link;
use mcpjoin::client::Restart;
use mcpjoin::proto::session::{
    EraChoice, Inbound, Limits, Origin, Outbound, ProcessExit, TransportCaps, TransportEnd,
};
use mcpjoin::proto::{Era, Message, Response};
use mcpjoin_gateway::{Gateway, GatewayBuilder, GatewayEnd, Refusal};
use serde_json::json;

use super::pools::Person;
use super::{
    INITIALIZE, INITIALIZED, INITIALIZED_RESULT, Raw, Servers, client, legacy, modern_request, open_legacy,
    open_modern, run,
};

const CALL: &str = r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"t"}}"#;

/// A server that exits during a call, with this exit status and this text on standard error.
async fn dies_in_a_call(
    builder: impl FnOnce(GatewayBuilder) -> GatewayBuilder,
    exit: ProcessExit,
    stderr: &'static [u8],
) -> serde_json::Value {
    let (drivers, mut started) = tokio::sync::mpsc::unbounded_channel();
    let start = move || {
        let (link, driver) = Link::channel(TransportCaps::default());
        let _ = drivers.send(driver);
        std::future::ready(Ok::<_, io::Error>(link))
    };
    let gateway = builder(Gateway::builder(start)).build();
    let (mut client, _served) = client(&gateway);
    client.say(INITIALIZE).await;
    let mut server = started.recv().await.unwrap();
    let origin = Arc::new(Origin::new("test"));
    loop {
        let Some(Outbound::Message { message: Message::Request(request), .. }) = server.recv().await else {
            continue;
        };
        if request.method.as_str() == "tools/call" {
            break;
        }
        let result = mcpjoin::proto::Raw::parse(INITIALIZED_RESULT).unwrap();
        let outcome = Ok(mcpjoin::proto::Payload::from_raw(result));
        let message = Message::Response(Response { id: Some(request.id), outcome });
        server.send(Inbound::Message { message, origin: origin.clone() }).await.unwrap();
        client.line().await;
        client.say(INITIALIZED).await;
        client.say(CALL).await;
    }
    let mut end = TransportEnd::end_of_stream();
    end.exit = Some(exit);
    end.stderr = stderr.into();
    server.send(Inbound::Closed { cause: end }).await.unwrap();
    let reply = client.value().await;
    // The session continues with the next run.
    client.say(r#"{"jsonrpc":"2.0","id":6,"method":"ping"}"#).await;
    client.expects(r#"{"jsonrpc":"2.0","id":6,"result":{}}"#).await;
    drop(server);
    reply
}

#[test]
fn a_server_that_dies_in_the_middle_of_a_call_says_how() {
    run(async {
        let reply =
            dies_in_a_call(|builder| builder, ProcessExit::Code(3), b"first\nno such database\n").await;
        assert_eq!(
            reply,
            json!({"jsonrpc": "2.0", "id": 5, "error": {
                "code": -32603,
                "message": "the server ended (exit code 3); its last line on stderr: no such database",
                "data": {"gateway": "serverEnded", "exitCode": 3},
            }})
        );
        let reply = dies_in_a_call(|builder| builder, ProcessExit::Signal(9), b"").await;
        assert_eq!(reply["error"]["message"], "the server ended (signal 9)");
        assert_eq!(reply["error"]["data"], json!({"gateway": "serverEnded", "signal": 9}));
    });
}

#[test]
fn a_client_learns_the_reason_of_the_end_of_its_server() {
    run(async {
        let words = |builder: GatewayBuilder| builder.words(|text| text.replace("hunter2", "***"));
        let reply = dies_in_a_call(words, ProcessExit::Code(3), b"no use: hunter2\n").await;
        assert_eq!(
            reply["error"]["message"],
            "the server ended (exit code 3); its last line on stderr: no use: ***"
        );
        let (servers, start) = Servers::set();
        *servers.failing.lock().unwrap() = Some("no such program: `hunter2`");
        let gateway = words(Gateway::builder(start)).build();
        for first in [INITIALIZE.to_owned(), modern_request("1", "a/b", "", "")] {
            let (mut client, _served) = client(&gateway);
            client.say(&first).await;
            let reply = client.value().await;
            assert_eq!(reply["error"]["message"], "the server was not started: no such program: `***`");
        }
    });
}

#[test]
fn a_stream_on_a_legacy_server_outlives_its_runs_and_ends_when_it_is_given_up() {
    run(async {
        let (mut servers, start) = Servers::set();
        let restart = Restart::default().starts(2);
        let gateway = Gateway::builder(start).restart(restart).era(EraChoice::Only(Era::Legacy)).build();
        let (mut client, _served) = client(&gateway);
        let filter = r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:b"]},"#;
        client.say(&modern_request("\"s\"", "subscriptions/listen", filter, "")).await;
        for run in 1..=2 {
            let mut server = servers.next().await;
            server.line().await;
            server.say(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{INITIALIZED_RESULT}}}"#)).await;
            server.expects(INITIALIZED).await;
            let told = client.value().await;
            let method = if run == 1 { "subscriptions/acknowledged" } else { "tools/list_changed" };
            assert_eq!(told["method"], format!("notifications/{method}"));
            server
                .expects(r#"{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"a:b"}}"#)
                .await;
            server.say(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#).await;
            if run == 2 {
                // What changed between the two runs is not known.
                let told = client.value().await;
                assert_eq!(told["method"], "notifications/resources/updated");
                let meta = json!({ "io.modelcontextprotocol/subscriptionId": "s" });
                assert_eq!(told["params"], json!({ "uri": "a:b", "_meta": meta }));
            }
        }
        let end = client.value().await;
        assert_eq!(end["id"], "s");
        assert_eq!(end["error"]["data"], json!({"gateway": "givenUp", "starts": 2}));
    });
}

#[test]
fn a_restarted_server_gets_the_settings_of_its_client_and_the_client_learns_what_may_have_changed() {
    run(async {
        let (_gateway, mut client, mut server, mut servers, _served) = legacy(|builder| builder).await;
        client
            .say(r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error","x":-0}}"#)
            .await;
        server
            .expects(
                r#"{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"error","x":-0}}"#,
            )
            .await;
        server.say(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#).await;
        client.line().await;
        for (number, (method, uri)) in
            [("subscribe", "a"), ("subscribe", "b"), ("unsubscribe", "a")].into_iter().enumerate()
        {
            let id = number + 3;
            client
                .say(&format!(
                    r#"{{"jsonrpc":"2.0","id":9,"method":"resources/{method}","params":{{"uri":"{uri}"}}}}"#
                ))
                .await;
            server.expects(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"resources/{method}","params":{{"uri":"{uri}"}}}}"#)).await;
            server.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)).await;
            client.line().await;
        }
        client.say(CALL).await;
        server.line().await;
        drop(server);
        let reply = client.value().await;
        assert_eq!(reply["error"]["message"], "the peer closed the connection");
        let mut server = servers.next().await;
        open_legacy(&mut server).await;
        server
            .expects(
                r#"{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"error","x":-0}}"#,
            )
            .await;
        // A server may take a minute for that.
        client.expects(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#).await;
        server.say(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#).await;
        server
            .expects(r#"{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"b"}}"#)
            .await;
        server.say(r#"{"jsonrpc":"2.0","id":3,"error":{"code":-1,"message":"gone"}}"#).await;
        client
            .expects(r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"b"}}"#)
            .await;
        client.say(CALL).await;
        server.expects(&CALL.replace(":5", ":4")).await;
        server.say(r#"{"jsonrpc":"2.0","id":4,"result":{"again":-0}}"#).await;
        client.expects(r#"{"jsonrpc":"2.0","id":5,"result":{"again":-0}}"#).await;
    });
}

#[test]
fn a_server_that_does_not_stay_is_given_up_and_the_error_says_so() {
    run(async {
        let received = Arc::new(Mutex::new(Vec::new()));
        let notes = received.clone();
        let (_gateway, mut client, server, mut servers, _served) = legacy(move |builder| {
            builder
                .restart(Restart::default().starts(2).pauses(Duration::from_secs(1), Duration::from_secs(1)))
                .on_event(move |event| notes.lock().unwrap().push(format!("{event:?}")))
        })
        .await;
        drop(server);
        drop(servers.next().await);
        client.say(CALL).await;
        let reply = client.value().await;
        assert_eq!(reply["error"]["data"], json!({"gateway": "givenUp", "starts": 2}));
        let text = reply["error"]["message"].as_str().unwrap();
        assert!(text.starts_with("the server is no longer restarted after 2 starts"), "{text}");
        let received = received.lock().unwrap();
        assert_eq!(received.iter().filter(|event| event.starts_with("Started")).count(), 1);
        assert_eq!(received.iter().filter(|event| event.starts_with("Ended")).count(), 2);
    });
}

#[test]
fn a_client_that_opens_a_session_learns_why_there_is_no_server() {
    run(async {
        let (servers, start) = Servers::set();
        *servers.failing.lock().unwrap() = Some("no such program: `nope`");
        let gateway = Gateway::builder(start).build();
        for first in [INITIALIZE.to_owned(), modern_request("\"hello\"", "server/discover", "", "")] {
            let (mut client, served) = client(&gateway);
            client.say(&first).await;
            client
                .expects(r#"{"jsonrpc":"2.0","id":"hello","error":{"code":-32603,"message":"the server was not started: no such program: `nope`","data":{"gateway":"notStarted"}}}"#)
                .await;
            assert_eq!(client.receive().await, None);
            let end = served.await.unwrap();
            assert!(matches!(&end, GatewayEnd::NoServer(Refusal::NotStarted(_))), "{end}");
        }
        // The error of a server that refuses is forwarded unchanged.
        *servers.failing.lock().unwrap() = None;
        let mut servers = servers;
        let (mut client, _served) = client(&gateway);
        client.say(INITIALIZE).await;
        let mut server = servers.next().await;
        server.line().await;
        server
            .say(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"log in","data":[-0]}}"#)
            .await;
        client
            .expects(
                r#"{"jsonrpc":"2.0","id":"hello","error":{"code":-32000,"message":"log in","data":[-0]}}"#,
            )
            .await;
        assert_eq!(server.receive().await, None);
        // The server is offered the client's version, not the newest.
        let (mut client, _served) = super::client(&gateway);
        client.say(INITIALIZE).await;
        let mut server = servers.next().await;
        server.line().await;
        let answered = INITIALIZED_RESULT.replace("2025-06-18", "1999-01-01");
        server.say(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{answered}}}"#)).await;
        let reply = client.value().await;
        let error = reply["error"]["message"].to_string();
        assert!(error.contains("1999-01-01") && error.contains("it offered 2025-06-18"), "{reply}");
    });
}

#[test]
fn a_refusal_is_remembered_if_its_error_has_sixteen_kib_at_most() {
    run(async {
        for (bytes, starts) in [(16 << 10, 2), ((16 << 10) + 1, 3)] {
            let (mut servers, start) = Servers::set();
            let gateway = Gateway::builder(start).era(EraChoice::Only(Era::Modern)).build();
            let (mut first, served) = client(&gateway);
            first.say(&modern_request("1", "a/b", "", "")).await;
            let mut server = servers.next().await;
            open_modern(&mut server).await;
            assert_eq!(server.value().await["method"], "a/b");
            drop(first);
            served.await.unwrap();
            let why = "x".repeat(bytes);
            let refuses = async |servers: &mut Servers| {
                let mut server = servers.next().await;
                let id = server.value().await["id"].clone();
                let error = json!({ "code": -32602, "message": why });
                server.say(&json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string()).await;
            };
            for ask in 2..4 {
                let (mut refused, _served) = client(&gateway);
                refused.say(&modern_request("1", "a/b", "", "")).await;
                if ask <= starts {
                    refuses(&mut servers).await;
                }
                assert_eq!(refused.value().await["error"]["message"], why);
            }
            assert_eq!(servers.starts(), starts);
        }
    });
}

#[test]
fn one_server_more_than_there_may_be_is_refused() {
    run(async {
        let (gateway, _client, _server, servers, _served) = legacy(|builder| builder.upstreams(1)).await;
        let (mut second, served) = client(&gateway);
        second.say(INITIALIZE).await;
        let reply = second.value().await;
        assert_eq!(reply["error"]["message"], "no server is free for another client: 1 may run at once");
        assert_eq!(reply["error"]["data"], json!({"gateway": "tooManyServers", "limit": 1}));
        assert!(matches!(served.await.unwrap(), GatewayEnd::NoServer(Refusal::TooMany { limit: 1 })));
        assert_eq!(servers.starts(), 1);
    });
}

#[test]
fn nothing_of_a_server_is_left_when_its_client_has_left_in_whichever_phase() {
    run(async {
        let (mut servers, start) = Servers::set();
        let gateway = Gateway::builder(start).build();
        // Before the first message, no server is started.
        let (nobody, served) = client(&gateway);
        drop(nobody);
        served.await.unwrap();
        assert_eq!(servers.starts(), 0);
        // During the opening of the server: the client has closed its side, and waits at most as long as a server that
        // drains. Then it gets an error.
        for first in [INITIALIZE.to_owned(), modern_request("\"hello\"", "server/discover", "", "")] {
            let (mut waits, served) = client(&gateway);
            waits.say(&first).await;
            let mut server = servers.next().await;
            server.line().await;
            waits.finish().await;
            let began = tokio::time::Instant::now();
            while server.receive().await.is_some() {}
            assert_eq!(began.elapsed().as_secs(), 10);
            waits
                .expects(r#"{"jsonrpc":"2.0","id":"hello","error":{"code":-32603,"message":"the server was not ready within 10 s after the client had closed its side","data":{"gateway":"notReady"}}}"#)
                .await;
            let end = served.await.unwrap();
            assert!(matches!(end, GatewayEnd::NoServer(Refusal::NotReady { .. })), "{end}");
        }
        // During a call, which is cancelled after the drain time.
        let (mut calls, served) = client(&gateway);
        calls.say(INITIALIZE).await;
        let mut server = servers.next().await;
        open_legacy(&mut server).await;
        calls.line().await;
        calls.say(INITIALIZED).await;
        calls.say(CALL).await;
        server.line().await;
        drop(calls);
        served.await.unwrap();
        while server.receive().await.is_some() {}
        // The future that serves the client is dropped.
        let (mut dropped, served) = client(&gateway);
        dropped.say(INITIALIZE).await;
        let mut server = servers.next().await;
        open_legacy(&mut server).await;
        dropped.line().await;
        served.abort();
        assert_eq!(server.receive().await, None);
        assert_eq!(dropped.receive().await, None);
        // All slots are free.
        gateway.close().await;
    });
}

#[test]
fn what_is_said_before_there_is_a_server_is_neither_lost_nor_out_of_order() {
    run(async {
        let (mut servers, start) = Servers::set();
        let gateway = Gateway::builder(start).build();
        let (mut client, _served) = client(&gateway);
        // A message that says nothing about the client is answered at once.
        client.say(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await;
        client.expects(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
        client.say("no JSON").await;
        assert_eq!(client.value().await["error"]["code"], -32700);
        client.say(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#).await;
        assert_eq!(client.value().await["error"]["code"], -32600);
        assert_eq!(servers.starts(), 0);
        client.say(INITIALIZE).await;
        client.say(INITIALIZED).await;
        for number in 0..50 {
            client.say(&format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"m/{number}"}}"#)).await;
        }
        client.finish().await;
        let mut server = servers.next().await;
        open_legacy(&mut server).await;
        assert_eq!(client.value().await["id"], "hello");
        for number in 0..50 {
            let asked = server.value().await;
            assert_eq!(asked["method"], format!("m/{number}"));
            server.say(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {}}).to_string()).await;
        }
        for _ in 0..50 {
            assert!(client.value().await["result"].is_object());
        }
        assert_eq!(client.receive().await, None);
        assert_eq!(server.receive().await, None);
    });
}

#[test]
fn a_message_that_is_too_large_for_the_server_or_from_it_is_named_with_the_limit() {
    run(async {
        let mut limits = Limits::default();
        limits.message = 2000;
        let (_gateway, mut client, mut server, _servers, _served) =
            legacy(|builder| builder.upstream_limits(limits)).await;
        let expected = json!({ "gateway": "tooLarge", "limit": 2000 });
        let long = "x".repeat(3000);
        let call = CALL.replace("\"t\"", &format!("\"{long}\""));
        client.say(&call).await;
        let error = client.value().await["error"].take();
        assert_eq!(error["data"], expected, "{error}");
        client.say(CALL).await;
        let id = server.value().await["id"].take();
        server.say(&json!({ "jsonrpc": "2.0", "id": id, "result": { "long": long } }).to_string()).await;
        let error = client.value().await["error"].take();
        assert_eq!(error["data"], expected, "{error}");
    });
}

#[test]
fn a_call_without_a_sign_of_life_ends_and_is_cancelled() {
    run(async {
        let (_gateway, mut client, mut server, _servers, _served) =
            legacy(|builder| builder.timeout(Duration::from_secs(7))).await;
        client.say(CALL).await;
        server.line().await;
        let reply = client.value().await;
        assert_eq!(reply["error"]["message"], "tools/call was not answered within 7 s");
        assert_eq!(reply["error"]["data"], json!({"gateway": "timeout", "afterMs": 7000}));
        server
            .expects(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"timeout"}}"#)
            .await;
    });
}

#[test]
fn a_stream_that_a_server_fills_ends_in_order_with_its_clients_connection() {
    run(async {
        let (mut servers, start) = Servers::set();
        let gateway = Gateway::builder(start).build();
        let (mut client, served) = client(&gateway);
        let listen = |id: &str| modern_request(id, "subscriptions/listen", r#""notifications":{},"#, "");
        client.say(&listen("\"s\"")).await;
        let mut server = servers.next().await;
        open_modern(&mut server).await;
        server.expects(&listen("2")).await;
        client.say(&modern_request("1", "tools/call", "", "")).await;
        server.expects(&modern_request("3", "tools/call", "", "")).await;
        client.finish().await;
        client
            .expects(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s"}}"#)
            .await;
        let end = client.value().await;
        assert_eq!(end["id"], "s");
        assert_eq!(end["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "s");
        server
            .expects(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#)
            .await;
        // An open request is still answered.
        server.say(r#"{"jsonrpc":"2.0","id":3,"result":{"n":-0}}"#).await;
        client.expects(r#"{"jsonrpc":"2.0","id":1,"result":{"n":-0}}"#).await;
        assert_eq!(client.receive().await, None);
        served.await.unwrap();
        // The server stays for the next client.
        gateway.close().await;
        assert_eq!(server.receive().await, None);
    });
}

#[test]
fn a_modern_server_that_was_given_up_is_another_one_for_the_next_request() {
    run(async {
        let (mut servers, start) = Servers::set();
        let gateway = Gateway::builder(start).restart(Restart::default().starts(1)).build();
        let (mut client, _served) = client(&gateway);
        client.say(&modern_request("1", "a/b", "", "")).await;
        let mut server = servers.next().await;
        open_modern(&mut server).await;
        server.line().await;
        drop(server);
        assert_eq!(client.value().await["error"]["data"]["gateway"], "serverEnded");
        client.say(&modern_request("2", "a/b", "", "")).await;
        assert_eq!(client.value().await["error"]["data"]["gateway"], "givenUp");
        client.say(&modern_request("3", "a/b", "", "")).await;
        let mut server = servers.next().await;
        open_modern(&mut server).await;
        server.line().await;
        server.say(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#).await;
        client.expects(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#).await;
    });
}

/// A client that waits for its server, and the sender of the link to that server.
async fn while_it_starts() -> (Raw, tokio::sync::oneshot::Sender<Link>) {
    let (started, start) = tokio::sync::oneshot::channel();
    let start = Mutex::new(Some(start));
    let gateway = Gateway::builder(move || {
        let start = start.lock().unwrap().take().unwrap();
        async move { start.await.map_err(|_| io::Error::other("not started")) }
    })
    .build();
    // The bytes that one side may write before the other reads.
    const ROOM: usize = 4096;
    let (link, mut client) = Raw::pair_of(ROOM);
    tokio::spawn(async move { gateway.serve(link).await });
    client.say(INITIALIZE).await;
    (client, started)
}

#[test]
fn who_says_much_while_its_server_starts_is_read_up_to_a_bound_and_loses_nothing() {
    run(async {
        let (mut client, started) = while_it_starts().await;
        let mut said = 0;
        let flood = async {
            loop {
                client.say(&format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"n":{said}}}}}"#)).await;
                said += 1;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(60), flood).await.is_err());
        // 1,024 messages are buffered; 200 more are in the two buffers of the pipe, at 40 bytes each.
        assert!((1023..1500).contains(&said), "{said} messages were read");
        let (link, mut server) = Raw::pair();
        started.send(link).unwrap();
        open_legacy(&mut server).await;
        for number in 0..said {
            assert_eq!(server.value().await["params"]["n"], number);
        }
    });
}

#[test]
fn what_is_held_while_a_server_starts_has_a_total_in_bytes_whatever_it_is() {
    run(async {
        let long = "x".repeat(1 << 20);
        let params = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"n":"{long}"}}}}"#);
        let named = format!(r#"{{"jsonrpc":"2.0","method":"{long}"}}"#);
        for line in [&params, &named, &format!("[{params}]")] {
            let (mut client, _started) = while_it_starts().await;
            let mut said = 0;
            let flood = async {
                loop {
                    client.say(line).await;
                    said += 1;
                }
            };
            assert!(tokio::time::timeout(Duration::from_secs(60), flood).await.is_err());
            assert_eq!(said, 8, "messages of a mebibyte were read; {}", &line[..40]);
        }
    });
}

#[test]
fn who_says_much_before_it_opens_and_reads_nothing_is_read_no_more() {
    run(async {
        let (_servers, start) = Servers::set();
        let gateway = Gateway::builder(start).build();
        let (mut client, _served) = client(&gateway);
        let ping = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "x".repeat(4000));
        let mut said = 0;
        let flood = async {
            while said < 10_000 {
                client.say(&ping).await;
                said += 1;
            }
        };
        let outcome = tokio::time::timeout(Duration::from_secs(60), flood).await;
        assert!(outcome.is_err(), "40 MB of answers are held for somebody who reads none");
        // When the client reads, the gateway reads again.
        for _ in 0..said {
            assert!(client.line().await.ends_with(r#""result":{}}"#));
        }
    });
}

#[test]
fn an_unused_shared_server_makes_room_for_another_client_and_a_dedicated_one_does_not() {
    run(async {
        let (mut servers, start) = Servers::set();
        let gateway = Gateway::builder(start).upstreams(1).build();
        let mut modern = Person::at(&gateway, "192.0.2.1:5");
        modern.say(modern_request("1", "a/b", "", "")).await;
        let mut server = servers.next().await;
        open_modern(&mut server).await;
        server.line().await;
        // The server is in use.
        let (mut refused, _refused) = client(&gateway);
        refused.say(INITIALIZE).await;
        assert_eq!(refused.value().await["error"]["data"]["gateway"], "tooManyServers");
        server.say(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#).await;
        modern.next().await;
        let (mut legacy, served) = client(&gateway);
        legacy.say(INITIALIZE).await;
        assert_eq!(server.receive().await, None);
        let mut server = servers.next().await;
        open_legacy(&mut server).await;
        legacy.line().await;
        drop(legacy);
        served.await.unwrap();
        // The same for a modern client with other capabilities.
        modern.say(modern_request("2", "a/b", "", "")).await;
        let mut server = servers.next().await;
        open_modern(&mut server).await;
        server.line().await;
        server.say(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#).await;
        modern.next().await;
        let other = |id: &str| modern_request(id, "a/b", "", "").replace(r#""elicitation":{},"#, "");
        modern.say(other("3")).await;
        assert_eq!(server.receive().await, None);
        let mut server = servers.next().await;
        open_modern(&mut server).await;
        server.line().await;
        server.say(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#).await;
        modern.next().await;
        // A client with its own connection keeps its server, but its own next pool may replace it.
        let (mut alone, _alone) = client(&gateway);
        alone.say(&modern_request("1", "a/b", "", "")).await;
        assert_eq!(server.receive().await, None);
        let mut server = servers.next().await;
        open_modern(&mut server).await;
        server.line().await;
        server.say(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#).await;
        alone.line().await;
        modern.say(modern_request("4", "a/b", "", "")).await;
        assert_eq!(modern.next().await["error"]["data"]["gateway"], "tooManyServers");
        alone.say(&other("2")).await;
        assert_eq!(server.receive().await, None);
        open_modern(&mut servers.next().await).await;
    });
}

#[test]
fn clients_of_a_listener_are_served_until_the_end_in_either_era() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let test = async {
        let far = mcpjoin::Server::builder("far", "1")
            .tool(mcpjoin::server::tool("t"), |_: mcpjoin::server::NoArguments, _| async { "done" })
            .build()
            .unwrap();
        let gateway = Gateway::builder(move || {
            let (near, theirs) = Link::memory();
            far.connect(theirs);
            std::future::ready(Ok::<_, io::Error>(near))
        })
        .build();
        let listener = mcpjoin::transport::Listener::tcp("127.0.0.1:0").await.unwrap();
        let address = listener.address().socket_addr().unwrap().to_string();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let serving = gateway.clone();
        let served =
            tokio::spawn(async move { serving.serve_all(listener, async { drop(ended.await) }).await });
        let mut clients = Vec::new();
        for era in [Era::Legacy, Era::Modern] {
            let link = Link::tcp(&address).await.unwrap();
            let builder = mcpjoin::Client::builder("c", "1").era(EraChoice::Only(era));
            let client = builder.connect(link).await.unwrap();
            let result = client.call_tool("t", ()).await.unwrap();
            assert_eq!(result.content[0].as_text(), Some("done"));
            clients.push(client);
        }
        assert!(!served.is_finished());
        drop(end);
        served.await.unwrap();
        for client in clients {
            client.closed().await;
        }
        gateway.close().await;
    };
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(120), test).await.expect("the test hangs");
    });
}
