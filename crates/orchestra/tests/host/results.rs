//! Conversion of results and errors.

use std::sync::Arc;

use mcpjoin::Link;
use mcpjoin::proto::session::Limits;
use mcpjoin::proto::types::{
    AudioContent, CallToolResult, Content, EmbeddedResource, ImageContent, ResourceLink, TextResourceContents,
};
use mcpjoin::proto::{ErrorObject, Raw};
use mcpjoin::server::{HandlerError, NoArguments, Server, ServerBuilder, tool};
use mcpjoin_orchestra::host::{HostLimits, Offer};
use mcpjoin_orchestra::wire::MAX_FRAME;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Stage, call, client, json, run};

/// A server whose only tool returns this result.
fn giving(result: CallToolResult) -> Server {
    let result = Arc::new(result);
    let give = move |_: NoArguments, _| {
        let result = result.clone();
        async move { (*result).clone() }
    };
    Server::builder("giving", "1").tool(tool("give"), give).build().unwrap()
}

async fn given(result: CallToolResult) -> Value {
    let stage = Stage::of(&giving(result)).await;
    let answer = stage.call("give", "{}").await;
    assert!(answer.success, "{answer:?}");
    json(&answer.result)
}

fn raw(value: &Value) -> Raw {
    Raw::parse(value.to_string()).unwrap()
}

#[test]
fn one_text_is_text() {
    run(async {
        for text in ["hello", "", "{\"a\":1}", "<&>\u{2028}"] {
            assert_eq!(given(CallToolResult::text(text)).await, json!({ "text": text }));
        }
    });
}

#[test]
fn a_structured_result_is_its_members() {
    run(async {
        let value = json!({ "n": 1, "deep": { "list": [1.5, "x", null] } });
        // The text beside it is the same, or absent.
        assert_eq!(given(CallToolResult::structured(raw(&value))).await, value);
        let silent = CallToolResult::new(Vec::new()).with_structured_content(raw(&value));
        assert_eq!(given(silent).await, value);
    });
}

#[test]
fn a_text_beside_a_structured_result_is_kept() {
    run(async {
        let result = CallToolResult::text("it is one").with_structured_content(raw(&json!({ "n": 1 })));
        assert_eq!(
            given(result).await,
            json!({
                "content": [{ "type": "text", "text": "it is one" }],
                "structuredContent": { "n": 1 },
                "text": "it is one",
            })
        );
    });
}

#[test]
fn blocks_of_every_kind_are_kept_and_named() {
    run(async {
        let blocks = vec![
            Content::text("first"),
            ImageContent::new("AAAA", "image/png").into(),
            AudioContent::new("BBBB", "audio/wav").into(),
            ResourceLink::new("test://link", "link").into(),
            EmbeddedResource::new(TextResourceContents::new("test://embedded", "inside")).into(),
        ];
        let got = given(CallToolResult::new(blocks)).await;
        assert_eq!(
            got["text"],
            "first\n[image: image/png]\n[audio: audio/wav]\n[resource: test://link]\ninside"
        );
        assert_eq!(got["content"][1], json!({ "type": "image", "data": "AAAA", "mimeType": "image/png" }));
        assert_eq!(got["content"][4]["resource"]["uri"], "test://embedded");
        assert_eq!(got.get("structuredContent"), None);
        assert_eq!(given(CallToolResult::new(Vec::new())).await, json!({ "content": [], "text": "" }));
    });
}

#[test]
fn a_number_that_orchestra_does_not_have_is_never_rounded_in_silence() {
    run(async {
        let text = r#"{"rows":[{"id":12345678901234567890}]}"#;
        let got = given(CallToolResult::structured(Raw::parse(text).unwrap())).await;
        assert_eq!(got["text"], text);
        assert_eq!(got.get("structuredContent"), None);
        let omitted = got["structuredContentOmitted"].as_str().unwrap();
        assert!(omitted.starts_with("rows[0].id: 12345678901234567890 does not fit"), "{omitted}");
    });
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Which {
    which: String,
}

fn failing() -> ServerBuilder {
    let fail = |Which { which }: Which, _| async move {
        match &*which {
            "result" => Ok(CallToolResult::error("it has failed")),
            "silent" => Ok(CallToolResult::new(Vec::new()).with_is_error(true)),
            "code" => {
                let data = Raw::parse(r#"{"why":"because"}"#).unwrap();
                Err(HandlerError::from(ErrorObject::new(-32050, "its own").with_data(data)))
            }
            _ => Ok(CallToolResult::text("fine")),
        }
    };
    Server::builder("failing", "1").tool(tool("fail"), fail)
}

#[test]
fn failures_keep_their_message_and_their_code() {
    run(async {
        let stage = Stage::of(&failing().build().unwrap()).await;
        let answer = stage.call("fail", r#"{"which":"result"}"#).await;
        assert!(!answer.success);
        assert_eq!((&*answer.error_code, &*answer.error_message), ("tool_error", "it has failed"));
        assert_eq!(json(&answer.result), json!({ "text": "it has failed" }));
        let answer = stage.call("fail", r#"{"which":"silent"}"#).await;
        assert_eq!((answer.success, &*answer.error_code), (false, "tool_error"));
        let answer = stage.call("fail", r#"{"which":"code"}"#).await;
        assert_eq!((&*answer.error_code, &*answer.error_message), ("handler_error", "its own"));
        let error =
            json!({ "error": { "code": -32050, "message": "its own", "data": { "why": "because" } } });
        assert_eq!(json(&answer.result), error);
        assert_eq!(stage.refused(call("other", "{}")).await.0, "tool_not_found");
    });
}

#[test]
fn an_answer_longer_than_a_frame_is_an_error_that_says_so() {
    run(async {
        let mut limits = Limits::default();
        limits.message = 64 * 1024 * 1024;
        limits.queued_replies = limits.message;
        let server = Server::builder("long", "1")
            .limits(limits.clone())
            .tool(tool("give"), |_: NoArguments, _| async { "x".repeat(MAX_FRAME) })
            .tool(tool("other"), |_: NoArguments, _| async { "still here" })
            .build()
            .unwrap();
        let (ours, theirs) = Link::memory();
        server.connect(theirs);
        let client = client().limits(limits).connect(ours).await.unwrap();
        let stage = Stage::with([Offer::client("long", client)], HostLimits::default()).await;
        let (code, message) = stage.refused(call("give", "{}")).await;
        assert_eq!(code, "invalid_response");
        assert!(message.contains("16 MiB"), "{message}");
        assert_eq!(json(&stage.call("other", "{}").await.result), json!({ "text": "still here" }));
    });
}
