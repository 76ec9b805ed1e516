//! Tests of a client that speaks only the legacy era in front of a server that speaks only the modern era.

use std::sync::Arc;
use std::time::Duration;

use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::{
    CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitResult,
    ElicitationSchema, LoggingLevel, Members, Resource, Role, Root, SamplingMessage, TextContent,
};
use mcpjoin::proto::{Era, Version, code};
use mcpjoin::server::{HandlerError, Json, NoArguments, tool};
use mcpjoin::{Client, Link, Server};
use mcpjoin_gateway::Gateway;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::{INITIALIZE, INITIALIZED, Raw, Servers, client, run};

const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"x/y":[-0]},"ttlMs":5,"cacheScope":"public","instructions":"be kind","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"2","mood":1e400},"k":1.0},"more":{}}"#;

/// A legacy client and a modern server, both scripted and connected; the server has acknowledged the stream of
/// notifications.
async fn opened() -> (Gateway, Raw, Raw, Servers) {
    let (mut servers, start) = Servers::set();
    let gateway = Gateway::builder(start).build();
    let (mut client, _served) = client(&gateway);
    client.say(INITIALIZE).await;
    // The server is asked for the client's era first.
    let mut legacy = servers.next().await;
    legacy.expects(&INITIALIZE.replace(r#""id":"hello""#, r#""id":1"#)).await;
    legacy
        .say(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"],"requested":"2025-06-18"}}}"#)
        .await;
    assert_eq!(legacy.receive().await, None);
    let mut server = servers.next().await;
    let probe = server.value().await;
    assert_eq!(probe["method"], "server/discover");
    let meta = &probe["params"]["_meta"];
    assert_eq!(
        meta["io.modelcontextprotocol/clientInfo"],
        json!({"name": "c", "version": "1", "mood": "good"})
    );
    let new: Value = serde_json::from_str(r#"{"a":[-0]}"#).unwrap();
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"]["com.example/new"], new);
    server.say(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{DISCOVERED}}}"#)).await;
    client
        .expects(r#"{"jsonrpc":"2.0","id":"hello","result":{"protocolVersion":"2025-06-18","serverInfo":{"name":"s","version":"2","mood":1e400},"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"x/y":[-0]},"instructions":"be kind","_meta":{"k":1.0},"more":{}}}"#)
        .await;
    client.say(INITIALIZED).await;
    let listen = server.value().await;
    assert_eq!(listen["method"], "subscriptions/listen");
    assert_eq!(listen["params"]["notifications"], json!({"toolsListChanged": true}));
    acknowledge(&mut server, &listen).await;
    (gateway, client, server, servers)
}

async fn acknowledge(server: &mut Raw, listen: &Value) {
    let (id, filter) = (&listen["id"], &listen["params"]["notifications"]);
    server
        .say(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"notifications":{filter},"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#))
        .await;
}

#[test]
fn b52_requests_get_the_envelope_and_results_lose_it_and_nothing_else_changes() {
    run(async {
        let (_gateway, mut client, mut server, _servers) = opened().await;
        client.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{ "name" : "t","n":[1e400,-0],"_meta":{"k":0.10,"progressToken":"p"}}}"#).await;
        let line = server.line().await;
        assert!(line.contains(r#"{ "name" : "t","n":[1e400,-0],"_meta":{"#), "{line}");
        let asked: Value = serde_json::from_str(&line.replace("1e400", "1")).unwrap();
        let meta = &asked["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(meta["k"], serde_json::from_str::<Value>("0.10").unwrap());
        let id = &asked["id"];
        assert_eq!(meta["progressToken"], *id);
        server.say(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{id},"progress":1e400,"w":-0}}}}"#)).await;
        client.expects(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1e400,"w":-0}}"#).await;
        server.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","content":[{{"type":"hologram","x":-0}}],"ttlMs":7,"_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"s","version":"2"}},"z":1.0}},"structuredContent":[1e400]}}}}"#)).await;
        client.expects(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"hologram","x":-0}],"ttlMs":7,"_meta":{"z":1.0},"structuredContent":{"result":[1e400]}}}"#).await;
        // A list loses its cache hints with the envelope. A schema that is no object is wrapped in one, and so are its
        // results.
        client.say(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#).await;
        let id = server.value().await["id"].clone();
        server.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","ttlMs":7,"cacheScope":"public","tools":[{{"name":"o","n":-0,"outputSchema":{{"type":"object"}}}},{{"name":"any","n":-0,"outputSchema":{{}}}}]}}}}"#)).await;
        let listed = client.line().await;
        assert!(
            listed.starts_with(
                r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"o","n":-0,"outputSchema":{"type":"object"}},{"name":"any","n":-0,"#
            ),
            "{listed}"
        );
        let listed: Value = serde_json::from_str(&listed).unwrap();
        assert_eq!(
            listed["result"]["tools"][1]["outputSchema"],
            json!({"type": "object", "properties": {"result": {}}, "required": ["result"]})
        );
        client.say(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"any"}}"#).await;
        let id = server.value().await["id"].clone();
        server
            .say(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"structuredContent":{{"a":1}}}}}}"#
            ))
            .await;
        client
            .expects(
                r#"{"jsonrpc":"2.0","id":3,"result":{"content":[],"structuredContent":{"result":{"a":1}}}}"#,
            )
            .await;
        // Errors.
        client.say(r#"{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"uri":"u"}}"#).await;
        let id = server.value().await["id"].clone();
        server
            .say(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32602,"message":"no","data":-0}}}}"#
            ))
            .await;
        client.expects(r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32002,"message":"no","data":-0}}"#).await;
        client.say(r#"{"jsonrpc":"2.0","id":5,"method":"com.example/x","params":{}}"#).await;
        let asked = server.value().await;
        assert_eq!(asked["method"], "com.example/x");
        client.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5,"reason":"r"}}"#).await;
        let id = &asked["id"];
        server.expects(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"r"}}}}"#)).await;
    });
}

#[test]
fn questions_in_place_of_a_result_are_asked_and_the_request_is_made_again_with_the_answers() {
    run(async {
        let (_gateway, mut client, mut server, _servers) = opened().await;
        client.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"n":1e400}}}"#).await;
        let id = server.value().await["id"].clone();
        server.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required","inputRequests":{{"a":{{"method":"elicitation/create","params":{{"message":"m","n":-0}}}},"b":{{"method":"x/y"}}}},"requestState":"s\u0041"}}}}"#)).await;
        client
            .expects(
                r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m","n":-0}}"#,
            )
            .await;
        client.expects(r#"{"jsonrpc":"2.0","id":2,"method":"x/y"}"#).await;
        client.say(r#"{"jsonrpc":"2.0","id":2,"result":{"n":1e400}}"#).await;
        client.say(r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"n":-0}}}"#).await;
        let again = server.line().await;
        assert!(again.contains(r#""requestState":"s\u0041","inputResponses":{"a":{"action":"accept","content":{"n":-0}},"b":{"n":1e400}},"#), "{again}");
        assert!(again.contains(r#""name":"t","arguments":{"n":1e400}"#), "{again}");
        let id = serde_json::from_str::<Value>(&again.replace("1e400", "1")).unwrap()["id"].clone();
        // A state without questions: the request is repeated with it. Then the client refuses a question, which ends
        // the request.
        server.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required","requestState":"t"}}}}"#)).await;
        let again = server.value().await;
        assert_eq!(again["params"]["requestState"], "t");
        assert!(again["params"].get("inputResponses").is_none());
        let id = &again["id"];
        server.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required","inputRequests":{{"a":{{"method":"roots/list"}}}}}}}}"#)).await;
        client.expects(r#"{"jsonrpc":"2.0","id":3,"method":"roots/list"}"#).await;
        client.say(r#"{"jsonrpc":"2.0","id":3,"error":{"code":-1,"message":"never","data":[-0]}}"#).await;
        client.expects(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"never","data":[-0]}}"#).await;
        // A server that asks without end reaches the limit of rounds.
        client.say(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}"#).await;
        for _ in 0..11 {
            let id = server.value().await["id"].clone();
            server.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required","requestState":"t"}}}}"#)).await;
        }
        let reply = client.value().await;
        assert_eq!(reply["error"]["data"], json!({"gateway": "tooManyRounds", "limit": 10}));
    });
}

#[test]
fn a_second_subscription_to_a_resource_has_the_answer_of_the_first() {
    run(async {
        let (_gateway, mut client, mut server, _servers) = opened().await;
        let subscribe = |id: u64| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"resources/subscribe","params":{{"uri":"a:b"}}}}"#
            )
        };
        client.say(&subscribe(1)).await;
        let mut listen = server.value().await;
        client.say(&subscribe(2)).await;
        client.say(r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#).await;
        // The server has not decided yet.
        client.expects(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#).await;
        listen["params"]["notifications"] = json!({ "toolsListChanged": true });
        acknowledge(&mut server, &listen).await;
        let mut refused = [client.value().await, client.value().await];
        refused.sort_by_key(|answer| answer["id"].as_u64());
        for (answer, id) in refused.iter().zip(1..) {
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32602)), "{answer}");
        }
        // The stream without the resource.
        let mut listen = server.value().await;
        while listen["method"] != "subscriptions/listen" {
            listen = server.value().await;
        }
        assert_eq!(listen["params"]["notifications"], json!({ "toolsListChanged": true }));
        acknowledge(&mut server, &listen).await;
        client.say(&subscribe(4)).await;
        let mut listen = server.value().await;
        while listen["method"] != "subscriptions/listen" {
            listen = server.value().await;
        }
        client.say(&subscribe(5)).await;
        acknowledge(&mut server, &listen).await;
        let mut accepted = [client.value().await, client.value().await];
        accepted.sort_by_key(|answer| answer["id"].as_u64());
        assert_eq!(accepted[0], json!({ "jsonrpc": "2.0", "id": 4, "result": {} }));
        assert_eq!(accepted[1], json!({ "jsonrpc": "2.0", "id": 5, "result": {} }));
        // The client is subscribed, whatever becomes of the stream.
        client.say(&subscribe(6)).await;
        client.expects(r#"{"jsonrpc":"2.0","id":6,"result":{}}"#).await;
    });
}

#[test]
fn a_subscription_that_is_cancelled_ends_unless_another_request_waits_for_it() {
    run(async {
        let (_gateway, mut client, mut server, _servers) = opened().await;
        let subscribe = |id: u64, uri: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"resources/subscribe","params":{{"uri":"{uri}"}}}}"#
            )
        };
        let cancelled = |id: u64| {
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
        };
        client.say(&subscribe(1, "a:b")).await;
        let listen = server.value().await;
        client.say(&subscribe(2, "a:b")).await;
        client.say(&cancelled(1)).await;
        client.say(r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#).await;
        client.expects(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#).await;
        acknowledge(&mut server, &listen).await;
        client.expects(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#).await;
        assert_eq!(server.value().await["params"]["requestId"], 2);
        client.say(&subscribe(4, "c:d")).await;
        let listen = server.value().await;
        assert_eq!(listen["params"]["notifications"]["resourceSubscriptions"], json!(["a:b", "c:d"]));
        client.say(&cancelled(4)).await;
        let ended =
            timeout(Duration::from_secs(60), server.value()).await.expect("the stream is another one");
        assert_eq!(ended["params"]["requestId"], listen["id"]);
        let listen = server.value().await;
        assert_eq!(listen["params"]["notifications"]["resourceSubscriptions"], json!(["a:b"]));
    });
}

#[test]
fn subscriptions_and_changes_of_lists_are_one_stream_that_is_opened_again_when_it_ends() {
    run(async {
        let (_gateway, mut client, mut server, _servers) = opened().await;
        server.say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2}}}"#).await;
        client.expects(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#).await;
        client.say(r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:b"}}"#).await;
        let listen = server.value().await;
        assert_eq!(
            listen["params"]["notifications"],
            json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]})
        );
        acknowledge(&mut server, &listen).await;
        client.expects(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
        server
            .expects(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#)
            .await;
        let id = &listen["id"];
        server.say(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"a:b","n":-0,"_meta":{{"io.modelcontextprotocol/subscriptionId":{id},"k":1}}}}}}"#)).await;
        client.expects(r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b","n":-0,"_meta":{"k":1}}}"#).await;
        // The server does not accept this one.
        client.say(r#"{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"c:d"}}"#).await;
        let mut listen = server.value().await;
        listen["params"]["notifications"]["resourceSubscriptions"] = json!(["a:b"]);
        acknowledge(&mut server, &listen).await;
        let reply = client.value().await;
        assert_eq!(reply["error"]["code"], code::INVALID_PARAMS);
        server.line().await;
        let listen = server.value().await;
        assert_eq!(listen["params"]["notifications"]["resourceSubscriptions"], json!(["a:b"]));
        acknowledge(&mut server, &listen).await;
        server.line().await;
        // The server ends the stream, and it is opened again.
        let id = &listen["id"];
        server.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete"}}}}"#)).await;
        let listen = server.value().await;
        assert_eq!(listen["params"]["notifications"]["resourceSubscriptions"], json!(["a:b"]));
        acknowledge(&mut server, &listen).await;
        assert_eq!(client.value().await["method"], "notifications/tools/list_changed");
        assert_eq!(client.value().await["params"], json!({ "uri": "a:b" }));
        client
            .say(r#"{"jsonrpc":"2.0","id":3,"method":"resources/unsubscribe","params":{"uri":"a:b"}}"#)
            .await;
        client.expects(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#).await;
        let listen = server.value().await;
        assert_eq!(listen["params"]["notifications"], json!({"toolsListChanged": true}));
    });
}

#[test]
fn a_stream_that_a_server_keeps_ending_is_opened_again_after_pauses_of_half_a_minute_at_most() {
    run(async {
        let (_gateway, _client, mut server, _servers) = opened().await;
        let end = async |server: &mut Raw, id: &Value| {
            server
                .say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete"}}}}"#))
                .await;
            let ended = Instant::now();
            let listen = server.value().await;
            assert_eq!(listen["method"], "subscriptions/listen");
            (ended.elapsed().as_millis(), listen["id"].clone())
        };
        let (mut pauses, mut id) = (Vec::new(), json!(2));
        for _ in 0..11 {
            let (pause, next) = end(&mut server, &id).await;
            pauses.push(pause);
            id = next;
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
        // After a stream that was open for long, the pause is short again.
        tokio::time::advance(Duration::from_secs(30)).await;
        let (pause, id) = end(&mut server, &id).await;
        assert_eq!(pause, 30_000);
        tokio::time::advance(Duration::from_millis(30_001)).await;
        assert_eq!(end(&mut server, &id).await.0, 100);
    });
}

#[test]
fn what_a_stream_says_until_the_next_one_is_there_is_not_lost() {
    run(async {
        let (_gateway, mut client, mut server, _servers) = opened().await;
        let told = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        let tells = told.replace('}', r#","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2}}}"#);
        client.say(r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:b"}}"#).await;
        let first = server.value().await;
        // The unsubscription is answered at once, even if the server has not acknowledged the next stream.
        server.say(&tells).await;
        client.expects(told).await;
        // The subscriptions change again before that: the acknowledged stream stays open.
        client.say(r#"{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"c:d"}}"#).await;
        assert_eq!(server.value().await["params"]["requestId"], first["id"]);
        let second = server.value().await;
        assert_eq!(second["params"]["notifications"]["resourceSubscriptions"], json!(["a:b", "c:d"]));
        // Both streams are open: each notification is delivered once.
        server.say(&tells).await;
        server.say(&tells.replace("tools/list_changed", "com.example/x")).await;
        acknowledge(&mut server, &second).await;
        let (mut received, mut answered) = (0, Vec::new());
        for _ in 0..4 {
            match client.value().await["id"].as_u64() {
                Some(id) => answered.push(id),
                None => received += 1,
            }
        }
        answered.sort_unstable();
        assert_eq!((received, answered), (2, vec![1, 2]));
        assert_eq!(server.value().await["params"]["requestId"], 2);
    });
}

#[test]
fn a_subscription_is_refused_if_the_server_ends_the_stream_without_having_accepted_it() {
    run(async {
        let (_gateway, mut client, mut server, _servers) = opened().await;
        client.say(r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:b"}}"#).await;
        // So does each further one.
        let ends = async {
            loop {
                let message = server.value().await;
                if let ("subscriptions/listen", id) = (message["method"].as_str().unwrap(), &message["id"]) {
                    let result = json!({ "resultType": "complete" });
                    let ended = json!({ "jsonrpc": "2.0", "id": id, "result": result });
                    server.say(&ended.to_string()).await;
                }
            }
        };
        let reply = tokio::select! {
            reply = timeout(Duration::from_secs(3_600), client.value()) => reply.expect("the request ends"),
            () = ends => unreachable!("it has no end"),
        };
        assert_eq!(
            (&reply["id"], &reply["error"]["code"]),
            (&json!(1), &json!(code::INVALID_PARAMS)),
            "{reply}"
        );
    });
}

#[test]
fn a_client_is_notified_of_what_may_have_changed_while_no_stream_was_open() {
    run(async {
        let (_gateway, mut client, mut server, _servers) = opened().await;
        client.say(r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:b"}}"#).await;
        let listen = server.value().await;
        acknowledge(&mut server, &listen).await;
        client.expects(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
        server.line().await;
        let id = &listen["id"];
        server.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete"}}}}"#)).await;
        // Until the next stream is there, the server has no way to tell.
        let listen = server.value().await;
        acknowledge(&mut server, &listen).await;
        for told in [
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}"#,
        ] {
            let received = timeout(Duration::from_secs(600), client.line()).await.expect("it is told");
            assert_eq!(received, told);
        }
    });
}

#[test]
fn the_level_of_log_messages_is_said_with_each_request() {
    run(async {
        let (_gateway, mut client, mut server, _servers) = opened().await;
        client.say(r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"loud"}}"#).await;
        assert_eq!(client.value().await["error"]["code"], code::INVALID_PARAMS);
        client
            .say(r#"{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"notice"}}"#)
            .await;
        client.expects(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#).await;
        client.say(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"t"}}"#).await;
        let asked = server.value().await;
        assert_eq!(asked["params"]["_meta"]["io.modelcontextprotocol/logLevel"], "notice");
        let log =
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"notice","data":-0}}"#;
        server.say(log).await;
        client.expects(log).await;
    });
}

/// A server of this library that asks in every way.
fn server(go: &Arc<Notify>) -> (Server, mcpjoin::server::ServerHandle) {
    let went = go.clone();
    let form = || ElicitFormParams::new("who?", ElicitationSchema::new(Members::new()));
    let server = Server::builder("modern", "1")
        .logging()
        .subscriptions()
        .dynamic_tools()
        .resource(Resource::new("test:r", "r"), |_, _| async move { "text" })
        .tool(tool("elicits"), move |_: NoArguments, cx| async move {
            let answer = cx.elicit(form()).await?;
            Ok::<_, HandlerError>(format!("{:?}", answer.action))
        })
        .tool(tool("samples"), |_: NoArguments, cx| async move {
            let message = SamplingMessage::new(Role::User, TextContent::new("hm"));
            let answer = cx.sample(CreateMessageParams::new(vec![message], 10)).await?;
            Ok::<_, HandlerError>(answer.model)
        })
        .tool(tool("roots"), |_: NoArguments, cx| async move {
            Ok::<_, HandlerError>(cx.list_roots().await?.roots.len().to_string())
        })
        .tool(tool("logs"), |_: NoArguments, cx| async move {
            cx.log(LoggingLevel::Warning, json!("logged"));
            Json(vec![1, 2])
        })
        .tool(tool("waits"), move |_: NoArguments, _| {
            let went = went.clone();
            async move {
                went.notified().await;
                "went"
            }
        })
        .build()
        .unwrap();
    let handle = server.handle();
    (server, handle)
}

#[test]
fn our_own_client_of_each_legacy_revision_before_our_own_modern_server() {
    run(async {
        for version in
            [Version::V2024_11_05, Version::V2025_03_26, Version::V2025_06_18, Version::V2025_11_25]
        {
            let (server, handle) = server(&Arc::default());
            let start = move || {
                let (near, far) = Link::memory();
                server.connect(far);
                std::future::ready(Ok::<_, std::io::Error>(near))
            };
            let gateway = Gateway::builder(start).era(EraChoice::Only(Era::Modern)).build();
            let (near, far) = Link::memory();
            let serving = gateway.clone();
            let served = tokio::spawn(async move { serving.serve(far).await });
            let (told, mut received) = tokio::sync::mpsc::unbounded_channel();
            let client = Client::builder("near", "1")
                .protocol_version(version.clone())
                .elicitation(|_| async { Ok(ElicitResult::new(ElicitAction::Cancel)) })
                .sampling(|_| async {
                    Ok(CreateMessageResult::new(Role::Assistant, TextContent::new("so"), "a model"))
                })
                .roots(vec![Root::new("file:///a"), Root::new("file:///b")])
                .on_notification(move |notification| drop(told.send(notification.method.as_str().to_owned())))
                .connect(near)
                .await
                .unwrap();
            assert_eq!(
                (client.profile().version.clone(), client.server_name()),
                (version.clone(), Some("modern"))
            );
            let call = async |name: &str| {
                let result = client.call_tool(name, ()).await.unwrap();
                assert_ne!(result.is_error, Some(true), "{name}: {result:?}");
                serde_json::to_value(&result).unwrap()
            };
            if client.profile().structured_content {
                assert_eq!(call("elicits").await["content"][0]["text"], "Cancel");
            }
            assert_eq!(call("samples").await["content"][0]["text"], "a model");
            assert_eq!(call("roots").await["content"][0]["text"], "2");
            client.set_level(LoggingLevel::Info).await.unwrap();
            let result = call("logs").await;
            assert_eq!(received.recv().await.unwrap(), "notifications/message");
            let structured =
                if client.profile().structured_content { json!({"result": [1, 2]}) } else { Value::Null };
            assert_eq!(result["structuredContent"], structured, "{version}");
            assert_eq!(client.list_tools().all().await.unwrap().len(), 5);
            client.subscribe("test:r").await.unwrap();
            handle.notify_resource_updated("test:r");
            assert_eq!(received.recv().await.unwrap(), "notifications/resources/updated");
            handle.notify_tools_changed().unwrap();
            assert_eq!(received.recv().await.unwrap(), "notifications/tools/list_changed");
            client.unsubscribe("test:r").await.unwrap();
            let missing = client.read_resource("test:none").await.unwrap_err();
            assert_eq!(missing.remote().unwrap().code, code::RESOURCE_NOT_FOUND);
            client.close().await;
            served.await.unwrap();
            gateway.close().await;
        }
    });
}
