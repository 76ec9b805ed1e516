//! Tools that stream: chunks become progress and one result, and a server that does not stream gets a normal call.

use std::time::Duration;

use mcpjoin_orchestra::client::{
    BridgeOptions, Orchestrator, OrchestratorErrorKind, OrchestratorOptions, StreamItem,
};
use mcpjoin_orchestra::wire::plugin_request::Request;
use mcpjoin_orchestra::wire::plugin_response::Response;
use mcpjoin_orchestra::wire::{self, PluginRequest, PluginResponse, StreamChunk, StreamEnd, StreamStart};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::support::{Act, Stage, Wire, done, of_json, quiet, refusal, run, scripted_with, usual};

const BYTES: &str = "application/octet-stream";
const JSON: &str = "application/json";

fn chunk(data: impl AsRef<[u8]>, kind: &str, sequence: i64) -> Response {
    Response::StreamChunk(StreamChunk {
        stream_id: String::new(),
        data: data.as_ref().to_vec().into(),
        content_type: kind.to_owned(),
        sequence,
    })
}

fn end(total_chunks: i64) -> Response {
    Response::StreamEnd(StreamEnd { success: true, total_chunks, ..StreamEnd::default() })
}

fn failed(code: &str, message: &str) -> Response {
    Response::StreamEnd(StreamEnd {
        error_code: code.into(),
        error_message: message.into(),
        ..StreamEnd::default()
    })
}

/// Without polling, and with these tools called as streams.
fn streaming(tools: &[&str]) -> BridgeOptions {
    let mut options = quiet();
    options.streamed = tools.iter().map(|name| (*name).to_owned()).collect();
    options
}

/// Responds to `StreamStart` as given, and as usual to everything else.
fn answering(start: impl Fn(&StreamStart) -> Act + Send + Sync + 'static) -> impl Fn(&PluginRequest) -> Act {
    move |request| match &request.request {
        Some(Request::StreamStart(asked)) => start(asked),
        _ => usual(request),
    }
}

/// Creates the response for each case.
type Making = fn() -> Act;

async fn result_of(version: &str, responses: impl Fn() -> Vec<Response> + Send + Sync + 'static) -> Value {
    let stage = Stage::with(answering(move |_| Act::Frames(responses())), streaming(&["say"])).await;
    let mut wire = Wire::opened(&stage.bridge, version).await;
    let mut answer = wire.call("say", &json!({ "a": 1 })).await;
    let asked = stage.scripted.requests();
    let [Request::StreamStart(start)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((start.tool_name.as_str(), start.caller_plugin.as_str()), ("say", "transport.stdio"));
    assert_eq!(start.arguments, Some(of_json(&json!({ "a": 1 }))));
    assert!(!start.stream_id.is_empty());
    answer["result"].take()
}

#[test]
fn what_has_come_in_chunks_is_one_result() {
    run(async {
        // A character that is split between two chunks.
        let text = || vec![chunk(b"caf\xc3", BYTES, 0), chunk(b"\xa9 and tea", BYTES, 1), end(2)];
        assert_eq!(
            result_of("2025-11-25", text).await,
            json!({ "content": [{ "type": "text", "text": "café and tea" }] })
        );
        let values =
            || vec![chunk(r#"{"n": 12345678901234567890}"#, JSON, 0), chunk("[true]\n", JSON, 1), end(2)];
        let text = "{\"n\": 12345678901234567890}\n[true]";
        let result = result_of("2025-11-25", values).await;
        assert_eq!(result["content"], json!([{ "type": "text", "text": text }]));
        assert_eq!(result["structuredContent"]["chunks"][1], json!([true]));
        assert_eq!(
            result_of("2025-03-26", values).await,
            json!({ "content": [{ "type": "text", "text": text }] }),
            "there is no structure in that revision"
        );
        let bytes = || vec![chunk(b"\x89PNG\xff", "image/png", 0), end(1)];
        let resource = json!({ "uri": "orchestra://stream", "mimeType": "image/png", "blob": "iVBOR/8=" });
        assert_eq!(
            result_of("2025-11-25", bytes).await,
            json!({ "content": [{ "type": "resource", "resource": resource }] })
        );
        let nothing = || vec![end(0)];
        assert_eq!(
            result_of("2025-11-25", nothing).await,
            json!({ "content": [{ "type": "text", "text": "" }] })
        );
        let half = || vec![chunk("half of", BYTES, 0), failed("handler_error", "the model is gone")];
        assert_eq!(
            result_of("2025-11-25", half).await,
            json!({
                "content": [{ "type": "text", "text": "half of" }, { "type": "text", "text": "the model is gone" }],
                "isError": true, "_meta": { "orchestra/errorCode": "handler_error" },
            })
        );
    });
}

#[test]
fn received_bytes_are_reported_as_progress() {
    run(async {
        let (go, told) = watch::channel(false);
        let script = answering(move |_| {
            Act::FramesWhen(
                vec![chunk("first ", BYTES, 0)],
                told.clone(),
                vec![chunk("last", BYTES, 1), end(2)],
            )
        });
        let stage = Stage::with(script, streaming(&["say"])).await;
        let mut wire = stage.opened().await;
        let params = json!({ "name": "say", "_meta": { "progressToken": 7 } });
        let id = wire.request("tools/call", &params).await;
        let progress = wire.next().await;
        assert_eq!(progress["method"], "notifications/progress", "{progress}");
        assert_eq!(
            (&progress["params"]["progressToken"], &progress["params"]["message"]),
            (&json!(7), &json!("first "))
        );
        let first = progress["params"]["progress"].as_f64().unwrap();
        go.send(true).unwrap();
        loop {
            let message = wire.next().await;
            if message["id"] == id {
                assert_eq!(message["result"]["content"][0]["text"], "first last");
                break;
            }
            assert!(message["params"]["progress"].as_f64().unwrap() > first, "{message}");
        }
    });
}

#[test]
fn who_does_not_stream_is_asked_as_for_any_other_tool_and_runs_it_once() {
    run(async {
        // The error of the 1.0 orchestrator, and that of a plugin for a tool that does not stream.
        for other in [
            refusal("unknown_request", "unrecognized request type"),
            failed("tool_not_found", "no streaming tool"),
        ] {
            let script = answering(move |_| Act::Frames(vec![other.clone()]));
            let stage = Stage::with(script, streaming(&["echo"])).await;
            let mut wire = stage.opened().await;
            let answer = wire.call("echo", &json!({ "text": "hi" })).await;
            assert_eq!(answer["result"]["content"][0]["text"], "hi", "{answer}");
            assert_eq!(stage.scripted.calls().len(), 1);
        }
        // Tools that are not in the options are not called as streams.
        let stage = Stage::with(answering(|_| panic!("not asked for")), streaming(&["other"])).await;
        let mut wire = stage.opened().await;
        assert!(wire.call("echo", &json!({ "text": "hi" })).await["result"].is_object());
    });
}

#[test]
fn a_stream_that_is_cancelled_is_reset_and_cancelled_on_a_stream_of_its_own() {
    run(async {
        let (_never, told) = watch::channel(false);
        let script =
            answering(move |_| Act::FramesWhen(vec![chunk("first", BYTES, 0)], told.clone(), Vec::new()));
        let stage = Stage::with(script, streaming(&["say"])).await;
        let mut wire = stage.opened().await;
        let mut arrivals = stage.scripted.arrivals();
        let params = json!({ "name": "say", "_meta": { "progressToken": 7 } });
        let id = wire.request("tools/call", &params).await;
        let Some(Request::StreamStart(start)) = arrivals.recv().await.unwrap().request else { panic!() };
        assert_eq!(wire.next().await["params"]["message"], "first");
        wire.send(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }),
        )
        .await;
        stage.scripted.given_up(1).await;
        let cancelled = arrivals.recv().await.unwrap().request;
        let Some(Request::StreamCancel(cancel)) = cancelled else { panic!("{cancelled:?}") };
        assert_eq!(cancel.stream_id, start.stream_id);
        assert_eq!(wire.ask("ping", &json!({})).await["result"], json!({}));
    });
}

#[test]
fn an_answer_that_is_not_whole_is_an_error_and_is_not_asked_for_again() {
    run(async {
        let cases: [(&str, Making); 5] = [
            ("received 1 of 2 chunks", || Act::Frames(vec![chunk("a", BYTES, 0), end(2)])),
            ("the stream ended without a response", || Act::Frames(vec![chunk("a", BYTES, 0)])),
            ("does not belong to `stream_start`", || {
                Act::Frames(vec![chunk("a", BYTES, 0), done(&json!({}))])
            }),
            ("reset", || Act::Reset),
            ("the connection ended", || Act::Close),
        ];
        for (says, act) in cases {
            let stage = Stage::with(answering(move |_| act()), streaming(&["say"])).await;
            let mut wire = stage.opened().await;
            let answer = wire.call("say", &json!({})).await;
            assert_eq!(answer["error"]["code"], -32603, "{answer}");
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(
                message.contains(says) && message.contains("the request may have been executed"),
                "{message}"
            );
            let starts = stage.scripted.requests().into_iter();
            let starts = starts.filter(|request| matches!(request, Request::StreamStart(_))).count();
            assert_eq!(starts, 1, "{says}");
            assert!(wire.call("echo", &json!({ "text": "on" })).await["result"].is_object(), "{says}");
        }
    });
}

#[test]
fn an_answer_without_end_ends_at_the_limit_of_a_message() {
    run(async {
        let (_never, told) = watch::channel(false);
        let script = answering(move |_| {
            let chunks = (0..3).map(|number| chunk(vec![b'x'; 600_000], BYTES, number)).collect();
            Act::FramesWhen(chunks, told.clone(), Vec::new())
        });
        let mut options = streaming(&["say"]);
        options.limits.message = 1 << 20;
        let stage = Stage::with(script, options).await;
        let mut wire = stage.opened().await;
        let answer = wire.call("say", &json!({})).await;
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("1200000 bytes") && message.contains("1048576"), "{message}");
        stage.scripted.given_up(1).await;
    });
}

#[test]
fn the_time_limit_of_a_call_is_one_for_the_whole_stream() {
    run(async {
        let (_never, told) = watch::channel(false);
        let script =
            answering(move |_| Act::FramesWhen(vec![chunk("first", BYTES, 0)], told.clone(), Vec::new()));
        let mut options = OrchestratorOptions::default();
        options.tool_call = Duration::from_secs(3);
        let (scripted, orchestrator) = scripted_with(script, options).await;
        let start = StreamStart { tool_name: "say".into(), ..StreamStart::default() };
        let mut stream = orchestrator.tool_stream(start).await.unwrap().unwrap();
        assert!(matches!(stream.next().await.unwrap(), StreamItem::Chunk(_)));
        let error = stream.next().await.unwrap_err();
        assert!(matches!(error.kind, OrchestratorErrorKind::TimedOut { maybe_done: true, .. }), "{error}");
        drop(stream);
        scripted.given_up(1).await;
    });
}

#[test]
fn over_plain_tcp_a_stream_has_a_connection_of_its_own_and_so_has_its_end() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let orchestrator =
            Orchestrator::tcp(&listener.local_addr().unwrap().to_string(), OrchestratorOptions::default());
        let orchestrator = orchestrator.unwrap();
        let start = StreamStart { tool_name: "say".into(), ..StreamStart::default() };
        let served = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request: PluginRequest = wire::read(&mut stream).await.unwrap();
            let request_id = request.request_id;
            let said = |response| PluginResponse { request_id: request_id.clone(), response: Some(response) };
            wire::write(&mut stream, &said(chunk("first", JSON, 0))).await.unwrap();
            let (mut other, _) = listener.accept().await.unwrap();
            let cancel: PluginRequest = wire::read(&mut other).await.unwrap();
            (request.request, cancel.request)
        };
        let asked = async {
            let mut stream = orchestrator.tool_stream(start).await.unwrap().unwrap();
            let StreamItem::Chunk(chunk) = stream.next().await.unwrap() else { panic!() };
            assert_eq!(chunk.data, "first");
        };
        let (served, ()) = tokio::join!(served, asked);
        let (Some(Request::StreamStart(start)), Some(Request::StreamCancel(cancel))) = served else {
            panic!("{served:?}")
        };
        assert_eq!(start.stream_id, cancel.stream_id);
    });
}

/// Without a progress token there is no progress.
#[test]
fn no_tool_is_streamed_by_default() {
    run(async {
        let stage = Stage::new(usual).await;
        let mut wire = stage.opened().await;
        wire.call("echo", &json!({})).await;
        assert!(stage.scripted.requests().iter().all(|request| matches!(request, Request::ToolCall(_))));
    });
}
