//! An orchestrator with invalid responses: each is an error that names the problem, and the connection stays open.

use mcpjoin_orchestra::client::OrchestratorErrorKind;
use mcpjoin_orchestra::wire::plugin_request::Request;
use mcpjoin_orchestra::wire::{self, PluginRequest, PluginResponse};
use mcpjoin_quic::endpoint::QuicOptions;

use crate::support::{Act, call_of, healthy, refusal, run, scripted, tools};

/// The frame of a response to a request whose id is not known yet.
fn frame(response: Option<wire::plugin_response::Response>) -> Vec<u8> {
    wire::encode(&PluginResponse { request_id: "x".into(), response }).unwrap().to_vec()
}

fn by_tool(request: &PluginRequest) -> Act {
    let Some(Request::ToolCall(call)) = &request.request else { return healthy() };
    let whole = frame(Some(tools(&["a"])));
    match call.tool_name.as_str() {
        "nothing" => Act::Bytes(Vec::new()),
        "half a length" => Act::Bytes(vec![0, 0]),
        "half a frame" => Act::Bytes(whole[..whole.len() - 1].to_vec()),
        "a lie" => Act::Bytes(vec![0xff, 0xff, 0xff, 0xff, 1]),
        "no message" => Act::Bytes(vec![0, 0, 0, 2, 0xff, 0xff]),
        "an empty message" => Act::Bytes(vec![0, 0, 0, 0]),
        "another answer" => Act::Bytes(whole),
        "reset" => Act::Reset,
        _ => panic!("{call:?}"),
    }
}

#[test]
fn what_is_no_answer_is_an_error_that_says_what_came_and_the_connection_goes_on() {
    run(async {
        let (scripted, orchestrator) = scripted(by_tool).await;
        let cases = [
            ("nothing", "the stream ended without a response: the peer could not read the request"),
            ("half a length", "2 of 4 bytes"),
            ("half a frame", "ended inside a frame"),
            ("a lie", "a frame of 4294967295 bytes is longer than Orchestra's limit of 16777216 bytes"),
            ("no message", "not a message of orchestra.plugin.v1"),
            ("an empty message", "does not belong to `tool_call`"),
            ("another answer", "does not belong to `tool_call`"),
            ("reset", "reset"),
        ];
        for (tool, says) in cases {
            let error = orchestrator.tool_call(call_of(tool)).await.unwrap_err().to_string();
            assert!(error.contains(says), "{tool}: {error}");
            assert!(error.starts_with(&scripted.address.to_string()), "{error}");
        }
        assert_eq!(scripted.calls().len(), cases.len(), "none was asked twice");
        assert_eq!(orchestrator.connected(0).await.unwrap(), 1);
    });
}

#[test]
fn the_error_envelope_is_an_error_with_its_code_whatever_was_asked() {
    run(async {
        let (_scripted, orchestrator) =
            scripted(|_| Act::Say(refusal("routing_error", "the plugin is gone"))).await;
        let errors = [
            orchestrator.health().await.unwrap_err(),
            orchestrator.list_tools().await.unwrap_err(),
            orchestrator.list_prompts().await.unwrap_err(),
            orchestrator.prompt_get(wire::PromptGetRequest::default()).await.unwrap_err(),
            orchestrator.storage_read(wire::StorageReadRequest::default()).await.unwrap_err(),
            orchestrator.storage_list(wire::StorageListRequest::default()).await.unwrap_err(),
        ];
        for error in errors {
            assert!(error.is_remote("routing_error"), "{error}");
            assert!(error.to_string().ends_with("routing_error: the plugin is gone"), "{error}");
            assert!(!matches!(error.kind, OrchestratorErrorKind::Unexpected { .. }));
        }
        let failed = orchestrator.tool_call(call_of("x")).await.unwrap();
        assert_eq!((failed.success, failed.error_code.as_str()), (false, "routing_error"));
    });
}

#[test]
fn nothing_is_taken_from_memory_for_a_length_that_is_a_lie() {
    // 16 MiB are announced, one byte arrives, then nothing: the timeout ends it, and no memory is allocated.
    run(async {
        let (_scripted, orchestrator) = scripted(|_| Act::Bytes(vec![1, 0, 0, 0, 7])).await;
        let error = orchestrator.list_tools().await.unwrap_err().to_string();
        assert!(error.contains("5 of 16777220 bytes"), "{error}");
    });
}

#[test]
fn the_numbers_of_a_connection_are_those_that_notice_a_dead_peer_in_time() {
    let options = mcpjoin_orchestra::client::OrchestratorOptions::default();
    assert_eq!((options.keep_alive.as_secs(), options.idle.as_secs()), (5, 10));
    assert!(options.wait.as_secs() < 5 && options.connect < options.wait);
    assert!(options.idle < QuicOptions::default().idle);
}
