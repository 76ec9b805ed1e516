//! The bridge as an MCP server: initialization, lists, pages, ids, lines, and how it ends.

use std::time::Duration;

use mcpjoin_orchestra::certs::Certificates;
use mcpjoin_orchestra::client::{BridgeOptions, Orchestrator, OrchestratorOptions, Unreached};
use mcpjoin_orchestra::wire::plugin_request::Request;
use mcpjoin_orchestra::wire::plugin_response::Response;
use mcpjoin_orchestra::wire::{ListToolsResponse, MAX_FRAME, ToolDefinition};
use mcpjoin_proto::{ErrorObject, Raw};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::ports::Closed;
use crate::support::{
    Act, Folder, Stage, Wire, bridge_with, done, handle, healthy, initialize, of_json, quiet, refusal, run,
    tool, tools, usual,
};

#[test]
fn r25_r26_it_is_opened_and_answers_ping_while_the_orchestrator_is_away() {
    let (folder, closed) = (Folder::new(), Closed::udp());
    let address = closed.to_string();
    run(async {
        let orchestrator = handle(&address, &Certificates::in_directory(folder.path())).await;
        let bridge = bridge_with(orchestrator, quiet());
        let mut wire = Wire::opened(&bridge, "2025-11-25").await;
        assert_eq!(wire.ask("ping", &json!({})).await["result"], json!({}));
        let level = wire.ask("logging/setLevel", &json!({ "level": "warning" })).await;
        assert_eq!(level["result"], json!({}));
        let level = wire.ask("logging/setLevel", &json!({ "level": "loud" })).await;
        assert_eq!(level["error"]["code"], -32602);
        let templates = wire.ask("resources/templates/list", &json!({})).await;
        assert_eq!(templates["result"]["resourceTemplates"].as_array().unwrap().len(), 3);
        let away = wire.call("x", &json!({})).await;
        assert_eq!(away["error"]["code"], -32603);
        let message = away["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("orchestrator tool_call failed: "), "{message}");
        assert!(message.contains(&address) && message.to_lowercase().contains("refused"), "{message}");
        assert_eq!(wire.ask("ping", &json!({})).await["result"], json!({}), "it stays");

        let mut wire = Wire::new(&bridge);
        let discovered = wire.ask_modern("server/discover", json!({})).await;
        assert!(discovered["result"]["supportedVersions"].as_array().unwrap().contains(&"2026-07-28".into()));
    });
}

#[test]
fn every_revision_is_negotiated() {
    run(async {
        let stage = Stage::new(usual).await;
        for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            let mut wire = Wire::opened(&stage.bridge, version).await;
            let list = wire.ask("tools/list", &json!({})).await;
            assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 3, "{version}: {list}");
        }
        let mut wire = Wire::new(&stage.bridge);
        let unknown = wire.ask("initialize", &initialize("1999-01-01")).await;
        assert_eq!(unknown["result"]["protocolVersion"], "2025-11-25");
        assert_eq!(unknown["result"]["serverInfo"]["name"], "orchestra");
        for capability in ["tools", "prompts", "resources", "logging"] {
            assert!(unknown["result"]["capabilities"][capability].is_object(), "{unknown}");
        }
        let mut wire = Wire::new(&stage.bridge);
        let list = wire.ask_modern("tools/list", json!({})).await;
        assert_eq!(list["result"]["resultType"], "complete");
        assert_eq!(list["result"]["tools"][0]["name"], "echo");
    });
}

fn names(list: &Value) -> Vec<&str> {
    list["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn r27_tools_are_sorted_without_duplicates_and_each_has_a_schema() {
    run(async {
        let stage = Stage::new(|request| match request.request {
            Some(Request::ListTools(_)) => {
                let described = ToolDefinition {
                    description: "Makes one".into(),
                    input_schema: Some(of_json(&json!({ "type": "object", "properties": { "n": {} } }))),
                    ..tool("create")
                };
                let tools = vec![tool("zeta"), described, tool("alpha"), tool("zeta"), tool("")];
                Act::Say(Response::ListTools(ListToolsResponse { tools }))
            }
            _ => healthy(),
        })
        .await;
        let mut wire = stage.opened().await;
        let id = wire.request("tools/list", &json!({})).await;
        let warned = wire.next().await;
        assert_eq!(warned["method"], "notifications/message", "the one without a name is told of: {warned}");
        let list = wire.next().await;
        assert_eq!(list["id"], id);
        assert_eq!(
            list["result"]["tools"],
            json!([
                { "name": "alpha", "inputSchema": { "type": "object" } },
                { "name": "create", "description": "Makes one",
                  "inputSchema": { "type": "object", "properties": { "n": {} } } },
                { "name": "zeta", "inputSchema": { "type": "object" } },
            ])
        );
    });
}

#[test]
fn an_error_without_a_connection_says_in_its_data_which_orchestrator_was_not_reached() {
    run(async {
        let closed = Closed::tcp();
        let address = closed.to_string();
        let mut options = OrchestratorOptions::default();
        options.wait = Duration::from_millis(100);
        let orchestrator = Orchestrator::tcp(&address, options).unwrap();
        let mut wire = Wire::opened(&bridge_with(orchestrator, quiet()), "2025-11-25").await;
        for (method, params) in [("tools/list", json!({})), ("tools/call", json!({ "name": "x" }))] {
            let answer = wire.ask(method, &params).await;
            let error: ErrorObject = serde_json::from_value(answer["error"].clone()).unwrap();
            let unreached = Unreached::of(&error).unwrap();
            assert_eq!(unreached.orchestrator, address);
            assert!(unreached.why.starts_with(&format!("{address}: the orchestrator was not reached")));
            // The words alone say nothing, and neither does another kind.
            assert_eq!(Unreached::of(&ErrorObject::internal(error.message.clone())), None);
            let data = error.data.unwrap().to_string().replace("unreached", "refused");
            let other = ErrorObject::internal(error.message).with_data(Raw::parse(data).unwrap());
            assert_eq!(Unreached::of(&other), None);
        }
    });
}

#[test]
fn a_list_comes_in_pages_that_stay_right_when_tools_come_and_go() {
    run(async {
        let (put, put_there) = watch::channel(vec!["a", "b", "c", "d"]);
        let mut options = quiet();
        options.page = 2;
        let script = move |request: &_| match request {
            mcpjoin_orchestra::wire::PluginRequest { request: Some(Request::ListTools(_)), .. } => {
                Act::Say(tools(&put_there.borrow()))
            }
            _ => healthy(),
        };
        let stage = Stage::with(script, options).await;
        let mut wire = stage.opened().await;
        let first = wire.ask("tools/list", &json!({})).await;
        assert_eq!(names(&first), ["a", "b"]);
        put.send(vec!["0", "a", "c", "bb", "e"]).unwrap();
        let cursor = &first["result"]["nextCursor"];
        let second = wire.ask("tools/list", &json!({ "cursor": cursor })).await;
        assert_eq!(names(&second), ["bb", "c"]);
        let third = wire.ask("tools/list", &json!({ "cursor": second["result"]["nextCursor"] })).await;
        assert_eq!(names(&third), ["e"]);
        assert!(third["result"].get("nextCursor").is_none());
        for cursor in
            [json!("x"), json!("tools-"), json!("tools-zz"), json!("tools-6"), json!(7), json!("prompts-61")]
        {
            let wrong = wire.ask("tools/list", &json!({ "cursor": cursor })).await;
            let empty = cursor == json!("tools-");
            assert_eq!(wrong["error"]["code"] == json!(-32602), !empty, "{cursor}: {wrong}");
        }
    });
}

#[test]
fn an_error_of_the_orchestrator_is_reported_with_its_code() {
    run(async {
        let stage = Stage::new(|_| Act::Say(refusal("list_tools_error", "no plugin answers"))).await;
        let mut wire = stage.opened().await;
        let answer = wire.ask("tools/list", &json!({})).await;
        assert_eq!(answer["error"]["code"], -32603);
        assert_eq!(answer["error"]["data"], json!({ "errorCode": "list_tools_error" }));
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("list_tools_error: no plugin answers"), "{message}");
    });
}

#[test]
fn ids_come_back_as_they_were_written() {
    run(async {
        let stage = Stage::new(usual).await;
        let mut wire = stage.opened().await;
        for id in ["9007199254740993", "-3", "1.0", "\"9007199254740993\"", "\"<a&b>\""] {
            wire.send_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)).await;
            let line = wire.line().await;
            assert!(line.contains(&format!("\"id\":{id}")), "{line}");
        }
    });
}

#[test]
fn r31_r33_what_is_no_request_is_refused_with_an_id_and_never_executed() {
    run(async {
        let stage = Stage::new(usual).await;
        let mut wire = stage.opened().await;
        wire.send_line("{").await;
        let line = wire.line().await;
        assert!(line.contains("-32700") && line.contains("\"id\":null"), "{line}");
        wire.send_line(r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#).await;
        assert_eq!(wire.next().await["error"]["code"], -32600);
        wire.send_line(r#"{"id":2}"#).await;
        assert_eq!(wire.next().await["error"]["code"], -32600);
        wire.send_line(r#"{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}"#).await;
        assert_eq!(wire.next().await["error"]["code"], -32600);
        wire.send_line(r#"{"jsonrpc":"2.0","id":3,"METHOD":"ping"}"#).await;
        assert_eq!(wire.next().await["error"]["code"], -32600);
        // The original runs these, and responds without an id.
        wire.send_line(r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}"#).await;
        wire.send_line(r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"echo"}}"#).await;
        // To these the original responds that the method does not exist.
        wire.send_line(r#"{"jsonrpc":"2.0","id":4,"result":{}}"#).await;
        wire.send_line(r#"{"jsonrpc":"2.0","method":"notifications/nobody/knows"}"#).await;
        let unknown = wire.request("some/unknown", &json!({})).await;
        let mut answer = wire.next().await;
        if answer["id"] == Value::Null {
            assert_eq!(answer["error"]["code"], -32600, "a request whose id is null: {answer}");
            answer = wire.next().await;
        }
        assert_eq!(answer["id"], unknown, "{answer}");
        assert_eq!(answer["error"], json!({ "code": -32601, "message": "method not found: some/unknown" }));
        assert!(stage.scripted.calls().is_empty());
    });
}

#[test]
fn a_slow_list_stops_neither_ping_nor_another_call() {
    run(async {
        let (go, told) = watch::channel(false);
        let stage = Stage::new(move |request| match request.request {
            Some(Request::ListTools(_)) => Act::When(told.clone(), tools(&["late"])),
            _ => usual(request),
        })
        .await;
        let mut wire = stage.opened().await;
        let list = wire.request("tools/list", &json!({})).await;
        assert_eq!(wire.ask("ping", &json!({})).await["result"], json!({}));
        assert!(wire.call("echo", &json!({ "text": "hi" })).await["result"].is_object());
        go.send(true).unwrap();
        let late = wire.next().await;
        assert_eq!((&late["id"], names(&late)), (&json!(list), vec!["late"]));
    });
}

#[test]
fn a_call_that_is_cancelled_is_not_answered_and_its_stream_is_reset() {
    run(async {
        let stage = Stage::new(usual).await;
        let mut wire = stage.opened().await;
        let mut arrivals = stage.scripted.arrivals();
        let slow = wire.request("tools/call", &json!({ "name": "slow" })).await;
        arrivals.recv().await.unwrap();
        let cancel =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": slow } });
        wire.send(&cancel).await;
        stage.scripted.given_up(1).await;
        assert_eq!(wire.ask("ping", &json!({})).await["result"], json!({}));
        let (rest, _) = wire.finish().await;
        assert!(rest.is_empty(), "{rest:?}");
    });
}

#[test]
fn r37_a_line_of_eleven_mebibytes_is_a_request_as_any_other() {
    run(async {
        let stage = Stage::new(|request| match request.request {
            Some(Request::ToolCall(_)) => Act::Say(done(&json!({ "text": "taken" }))),
            _ => healthy(),
        })
        .await;
        let mut wire = stage.opened().await;
        let text = "x".repeat(11 * 1024 * 1024);
        let answer = wire.call("echo", &json!({ "a": text })).await;
        assert_eq!(answer["result"]["content"][0]["text"], "taken");
        assert_eq!(stage.scripted.calls().len(), 1);
    });
}

#[test]
fn what_is_longer_than_a_frame_is_refused_and_the_session_goes_on() {
    run(async {
        let stage = Stage::new(usual).await;
        let mut wire = stage.opened().await;
        // It fits into a line, but not into a frame with the other fields.
        let line = |id: &str, length: usize| {
            let text = "x".repeat(length);
            format!(
                r#"{{"jsonrpc":"2.0","id":"{id}","method":"tools/call","params":{{"name":"e","arguments":{{"a":"{text}"}}}}}}"#
            )
        };
        let around = line("fits", 0).len();
        wire.send_line(&line("fits", MAX_FRAME - around)).await;
        let fits = wire.next().await;
        assert_eq!(fits["id"], "fits");
        assert!(
            fits["error"]["code"] == -32602 || fits["result"]["isError"] == true,
            "it is a frame or it is not, and it is said which: {fits}"
        );
        wire.send_line(&line("over", MAX_FRAME)).await;
        let refused = wire.next().await;
        assert_eq!(refused["id"], "over", "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains("16777216"), "{refused}");
        assert_eq!(wire.ask("ping", &json!({})).await["result"], json!({}));
    });
}

#[test]
fn r36_at_the_end_of_input_what_is_in_progress_is_answered() {
    run(async {
        let (go, told) = watch::channel(false);
        let stage = Stage::new(move |request| match request.request {
            Some(Request::ToolCall(_)) => Act::When(told.clone(), done(&json!({ "text": "late" }))),
            _ => usual(request),
        })
        .await;
        let mut wire = stage.opened().await;
        let mut arrivals = stage.scripted.arrivals();
        let id = wire.request("tools/call", &json!({ "name": "x" })).await;
        arrivals.recv().await.unwrap();
        let (ended, ()) = tokio::join!(wire.finish(), async { go.send(true).unwrap() });
        let (rest, end) = ended;
        assert_eq!(rest.len(), 1);
        assert_eq!((&rest[0]["id"], &rest[0]["result"]["content"][0]["text"]), (&json!(id), &json!("late")));
        assert!(end.starts_with("Ok"), "{end}");
    });
}

#[test]
fn r36_a_call_that_never_ends_does_not_keep_the_end_of_input_waiting_for_ever() {
    run(async {
        let mut options = quiet();
        options.limits.drain = Duration::from_millis(200);
        let stage = Stage::with(usual, options).await;
        let mut wire = stage.opened().await;
        let mut arrivals = stage.scripted.arrivals();
        wire.request("tools/call", &json!({ "name": "slow" })).await;
        arrivals.recv().await.unwrap();
        wire.finish().await;
        stage.scripted.given_up(1).await;
    });
}

#[test]
fn a_batch_is_answered_in_the_one_revision_that_has_them() {
    run(async {
        let stage = Stage::new(usual).await;
        let batch = r#"[{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}},{"jsonrpc":"2.0","id":8,"method":"ping"}]"#;
        let mut wire = Wire::opened(&stage.bridge, "2025-03-26").await;
        wire.send_line(batch).await;
        let mut answers = wire.next().await;
        let answers = answers.as_array_mut().unwrap();
        answers.sort_by_key(|answer| answer["id"].as_i64());
        assert_eq!(answers[0]["result"]["content"][0]["text"], "hi", "{answers:?}");
        assert_eq!((answers.len(), &answers[1]["result"]), (2, &json!({})));
        // The original treats each of these as invalid JSON.
        let mut wire = stage.opened().await;
        wire.send_line(batch).await;
        assert_eq!(wire.next().await["error"]["code"], -32600);
        assert_eq!(stage.scripted.calls().len(), 1);
    });
}

#[test]
fn the_name_of_the_session_in_orchestra_is_sent_where_mcp_has_a_member_for_it() {
    run(async {
        let stage = Stage::new(usual).await;
        let mut wire = Wire::new(&stage.bridge);
        let opened = wire.ask("initialize", &initialize("2025-11-25")).await;
        let told = opened["result"]["capabilities"]["experimental"]["orchestra"]["sessionId"].clone();
        wire.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        wire.call("echo", &json!({})).await;
        assert_eq!(told, stage.scripted.calls()[0].session_id.as_str());
    });
}

#[test]
fn slow_prompts_and_documents_stop_nothing_either() {
    run(async {
        let (go, told) = watch::channel(false);
        let stage = Stage::new(move |request| match request.request {
            Some(Request::PromptGet(_) | Request::StorageRead(_) | Request::StorageList(_)) => {
                Act::When(told.clone(), refusal("storage_error", "no"))
            }
            _ => usual(request),
        })
        .await;
        let mut wire = stage.opened().await;
        let mut arrivals = stage.scripted.arrivals();
        wire.request("prompts/get", &json!({ "name": "p" })).await;
        wire.request("resources/read", &json!({ "uri": "orchestra://docs/d" })).await;
        wire.request("resources/list", &json!({})).await;
        for _ in 0..5 {
            arrivals.recv().await.unwrap();
        }
        assert!(wire.call("echo", &json!({})).await["result"].is_object());
        go.send(true).unwrap();
        for _ in 0..3 {
            assert_eq!(wire.next().await["error"]["code"], -32603);
        }
    });
}

#[test]
fn the_numbers_are_those_of_the_interface_page() {
    let options = BridgeOptions::default();
    assert_eq!(options.poll, Some(Duration::from_secs(30)));
    assert_eq!(options.limits.message, 16 * 1024 * 1024);
}

#[test]
fn an_orchestrator_that_does_not_accept_us_ends_the_bridge_at_once() {
    let (ours, theirs) = (Folder::new(), Folder::new());
    run(async {
        let scripted = crate::support::Scripted::new(&Certificates::in_directory(theirs.path()), usual).await;
        let orchestrator = handle(scripted.address, &Certificates::in_directory(ours.path())).await;
        let wire = Wire::new(&bridge_with(orchestrator, quiet()));
        let end = wire.serving.await.unwrap();
        assert!(end.starts_with("Err(Refused"), "{end}");
    });
}
