//! Tests of change notifications to subscribed clients.

use mcpjoin::proto::{Era, Method};
use serde_json::{Value, json};

use super::{ERAS, Wire, call, listening, run, server, text, value};
use crate::demo::offers::{ADDED_PROMPT, ADDED_TOOL, WATCHED_RESOURCE};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Opens a stream, waits for its acknowledgement, and returns its id.
async fn listen(wire: &mut Wire, filter: Value) -> i64 {
    let id = wire.request("subscriptions/listen", json!({ "notifications": filter })).await;
    let first = wire.next().await;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(first["params"]["_meta"][SUBSCRIPTION], id);
    assert_eq!(first["params"]["notifications"], filter);
    id
}

#[test]
fn server_stateless_list_changes_are_sent_on_the_stream_that_asked_for_them() {
    run(async {
        let server = server();
        for (tool, wanted, method) in [
            ("test_trigger_tool_change", "toolsListChanged", "notifications/tools/list_changed"),
            ("test_trigger_prompt_change", "promptsListChanged", "notifications/prompts/list_changed"),
        ] {
            let mut hearing = Wire::modern(&server, json!({}));
            let stream = listen(&mut hearing, json!({ wanted: true })).await;
            let other = json!({ if wanted == "toolsListChanged" { "promptsListChanged" } else { "toolsListChanged" }: true });
            let mut elsewhere = Wire::modern(&server, json!({}));
            listen(&mut elsewhere, other).await;
            let mut changing = Wire::modern(&server, json!({}));
            for _ in 0..2 {
                changing.call(tool, json!({})).await;
                assert!(changing.received.is_empty(), "who does not listen receives nothing");
                let received = hearing.next().await;
                assert_eq!(
                    (&received["method"], &received["params"]["_meta"][SUBSCRIPTION]),
                    (&json!(method), &json!(stream))
                );
            }
            elsewhere.is_silent().await;
            hearing.is_silent().await;
        }
    });
}

#[test]
fn a_tool_and_a_prompt_come_and_go_in_both_eras() {
    run(async {
        for era in ERAS {
            let server = server();
            let (client, _hears) = listening(&server, era).await;
            let before = client.list_tools().all().await.unwrap().len();
            let there = call(&client, "test_trigger_tool_change", json!({})).await;
            assert_eq!(text(&there), "test_added_tool is there");
            assert_eq!(client.list_tools().all().await.unwrap().len(), before + 1);
            let added = call(&client, ADDED_TOOL, json!({})).await;
            assert_eq!(text(&added), "Here since test_trigger_tool_change was called");
            assert_eq!(
                text(&call(&client, "test_trigger_tool_change", json!({})).await),
                "test_added_tool is gone"
            );
            assert_eq!(super::refused(&client, ADDED_TOOL, json!({})).await.code, -32602);

            call(&client, "test_trigger_prompt_change", json!({})).await;
            let prompt = client.get_prompt(ADDED_PROMPT, ()).await.unwrap();
            assert_eq!(
                prompt.messages[0].content.as_text(),
                Some("Here since test_trigger_prompt_change was called")
            );
            call(&client, "test_trigger_prompt_change", json!({})).await;
            assert!(client.get_prompt(ADDED_PROMPT, ()).await.is_err());
        }
    });
}

#[test]
fn legacy_clients_hear_of_changed_lists_without_asking() {
    run(async {
        let (client, mut receiver) = listening(&server(), Era::Legacy).await;
        call(&client, "test_trigger_tool_change", json!({})).await;
        assert_eq!(receiver.recv().await.unwrap().method, Method::ToolListChanged);
        call(&client, "test_trigger_prompt_change", json!({})).await;
        assert_eq!(receiver.recv().await.unwrap().method, Method::PromptListChanged);
    });
}

#[test]
fn resources_subscribe() {
    run(async {
        let mut wire = Wire::legacy(&server()).await;
        assert_eq!(wire.result("resources/subscribe", json!({ "uri": WATCHED_RESOURCE })).await, json!({}));
    });
}

#[test]
fn resources_unsubscribe() {
    run(async {
        let mut wire = Wire::legacy(&server()).await;
        wire.result("resources/subscribe", json!({ "uri": WATCHED_RESOURCE })).await;
        assert_eq!(wire.result("resources/unsubscribe", json!({ "uri": WATCHED_RESOURCE })).await, json!({}));
        wire.call("test_trigger_resource_update", json!({})).await;
        assert!(wire.received.is_empty());
        wire.is_silent().await;
    });
}

#[test]
fn subscribers_hear_of_an_update_in_both_eras_and_then_read_what_is_new() {
    run(async {
        let server = server();
        let mut clients = Vec::new();
        for era in ERAS {
            let (client, receiver) = listening(&server, era).await;
            client.subscribe(WATCHED_RESOURCE).await.unwrap();
            clients.push((client, receiver));
        }
        let (changing, mut hears_nothing) = listening(&server, Era::Legacy).await;
        let changed = call(&changing, "test_trigger_resource_update", json!({})).await;
        assert_eq!(text(&changed), "test://watched-resource has version 2");
        for (client, receiver) in &mut clients {
            let received = receiver.recv().await.unwrap();
            assert_eq!(received.method, Method::ResourceUpdated);
            assert_eq!(value(received.params.unwrap().raw())["uri"], WATCHED_RESOURCE);
            let read = value(&client.read_resource(WATCHED_RESOURCE).await.unwrap().contents);
            assert_eq!(read[0]["text"], "Watched resource, version 2");
        }
        changing.ping().await.unwrap();
        assert!(hears_nothing.try_recv().is_err());
    });
}
