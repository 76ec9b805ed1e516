//! Frames: those of the real programs, and invalid ones.

use std::collections::BTreeMap;

use bytes::Bytes;
use mcpjoin::proto::Raw;
use mcpjoin_orchestra::value::{Numbers, Struct, ValueErrorKind};
use mcpjoin_orchestra::wire::plugin_request::Request;
use mcpjoin_orchestra::wire::plugin_response::Response;
use mcpjoin_orchestra::wire::{
    self, FrameDecoder, HealthResult, ListPromptsRequest, ListPromptsResponse, ListToolsRequest, MAX_FRAME,
    PluginRequest, PluginResponse, PromptGetRequest, StorageListRequest, StorageListResponse, ToolRequest,
    WireError, health_result,
};
use mcpjoin_orchestra::{ALPN, CALLER};
use prost::Message as _;

use crate::run;

const GOLDEN: &str = include_str!("golden.txt");

/// A captured frame with its length prefix.
fn golden(name: &str) -> Vec<u8> {
    let line = GOLDEN.lines().find(|line| line.split(' ').next() == Some(name)).unwrap();
    let hex = line.split(' ').nth(2).unwrap();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn all() -> impl Iterator<Item = (&'static str, bool, Vec<u8>)> {
    GOLDEN.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut words = line.split(' ');
        let (name, way) = (words.next().unwrap(), words.next().unwrap());
        (name, way == "request", golden(name))
    })
}

fn request(id: &str, request: Request) -> PluginRequest {
    PluginRequest { request_id: id.to_owned(), request: Some(request) }
}

fn call(id: &str, tool: &str, arguments: Option<&str>, numbers: Numbers) -> PluginRequest {
    let arguments =
        arguments.map(|text| Struct::from_json(&Raw::parse(text.to_owned()).unwrap(), numbers).unwrap());
    let call = ToolRequest {
        tool_name: tool.to_owned(),
        arguments,
        caller_plugin: CALLER.to_owned(),
        ..ToolRequest::default()
    };
    request(id, Request::ToolCall(call))
}

fn storage(id: &str, prefix: &str) -> PluginRequest {
    let list = StorageListRequest { prefix: prefix.to_owned(), ..StorageListRequest::default() };
    request(id, Request::StorageList(list))
}

#[test]
fn every_request_of_the_real_bridge_has_our_bytes() {
    let exact = Numbers::Exact;
    let mut session = call("stdio-tc-2", "nil", Some(r#"{"k":"v"}"#), exact);
    let Some(Request::ToolCall(inner)) = &mut session.request else { panic!("a call") };
    inner.session_id = "SESSION".to_owned();
    let arguments = BTreeMap::from([("x".to_owned(), "1".to_owned())]);
    let prompt = PromptGetRequest { prompt_name: "p".to_owned(), arguments };
    let ours = [
        ("tools_list", request("stdio-lt-1", Request::ListTools(ListToolsRequest {}))),
        ("prompts_list", request("stdio-lp-2", Request::ListPrompts(ListPromptsRequest {}))),
        ("prompts_get", request("stdio-pg-3", Request::PromptGet(prompt))),
        ("call_nil", call("stdio-tc-4", "nil", None, exact)),
        ("call_nil_empty", call("stdio-tc-4", "nil", Some("{}"), exact)),
        ("call_text", call("stdio-tc-4", "text", Some(r#"{"k":null}"#), exact)),
        (
            "call_textnum",
            call("stdio-tc-4", "textnum", Some(r#"{"k":12345678901234567890}"#), Numbers::Lossy),
        ),
        ("call_json", call("stdio-tc-4", "json", Some(r#"{"k":[true,"x",{"y":2}]}"#), exact)),
        ("call_session", session),
        ("resources_features", storage("stdio-rl-6-features", "features/")),
        ("resources_notes", storage("stdio-rl-6-notes", "notes/")),
        ("resources_docs", storage("stdio-rl-6-docs", "docs/")),
    ];
    assert_eq!(ours.len(), all().filter(|(_, request, _)| *request).count(), "every captured request");
    for (name, ours) in ours {
        let real = golden(name);
        assert_eq!(wire::encode(&ours).unwrap(), real, "{name}");
        assert_eq!(wire::decode::<PluginRequest>(Bytes::from(real).slice(4..)).unwrap(), ours, "{name}");
    }
}

#[test]
fn every_response_of_the_real_orchestrator_has_our_bytes() {
    let health = HealthResult {
        status: health_result::Status::Healthy.into(),
        message: "orchestrator ok".to_owned(),
        ..HealthResult::default()
    };
    let ours = [
        ("health", "h1", Some(Response::Health(health))),
        ("prompts_list_empty", "p1", Some(Response::ListPrompts(ListPromptsResponse::default()))),
        ("storage_list_empty", "s1", Some(Response::StorageList(StorageListResponse::default()))),
        ("subscribe_ack", "sub1", None),
    ];
    assert_eq!(ours.len(), all().filter(|(_, request, _)| !*request).count(), "every captured response");
    for (name, id, response) in ours {
        let (real, ours) = (golden(name), PluginResponse { request_id: id.to_owned(), response });
        assert_eq!(wire::encode(&ours).unwrap(), real, "{name}");
        assert_eq!(wire::decode::<PluginResponse>(Bytes::from(real).slice(4..)).unwrap(), ours, "{name}");
    }
    assert_eq!(ALPN, "orchestra-plugin");
}

#[test]
fn a_number_that_the_real_bridge_rounds_is_refused() {
    let arguments = Raw::parse(r#"{"k":12345678901234567890}"#).unwrap();
    let refused = Struct::from_json(&arguments, Numbers::Exact).unwrap_err();
    assert_eq!(refused.path, "k");
    assert_eq!(refused.kind, ValueErrorKind::Rounded("12345678901234567890".to_owned()));
    assert!(refused.to_string().contains("send it as a string"), "{refused}");
}

#[test]
fn members_that_the_wire_has_in_another_order_are_the_same_call() {
    let one = call("1", "t", Some(r#"{"a":1,"b":[2],"c":{"d":null}}"#), Numbers::Exact);
    let other = call("1", "t", Some(r#"{"c":{"d":null},"b":[2],"a":1}"#), Numbers::Exact);
    let json = |request: &PluginRequest| {
        let decoded: PluginRequest = wire::decode(wire::encode(request).unwrap().slice(4..)).unwrap();
        let Some(Request::ToolCall(call)) = decoded.request else { panic!("a call") };
        call.arguments.unwrap().to_json().unwrap().json
    };
    assert_ne!(wire::encode(&one).unwrap(), wire::encode(&other).unwrap());
    assert_eq!(json(&one), json(&other));
}

#[test]
fn an_empty_frame_is_an_empty_request() {
    run(async {
        let empty: PluginRequest = wire::read(&mut &b"\0\0\0\0"[..]).await.unwrap();
        assert_eq!(empty, PluginRequest::default());
    });
}

#[test]
fn h149_a_length_above_the_limit_is_refused_before_anything_is_allocated() {
    for length in [u32::MAX, 1 << 31, MAX_FRAME as u32 + 1] {
        let mut frames = FrameDecoder::new(MAX_FRAME);
        frames.push(&length.to_be_bytes());
        let error = WireError::from(frames.poll_frame().unwrap_err());
        assert!(matches!(error, WireError::TooLong { limit: MAX_FRAME, .. }), "{error}");
        assert!(error.to_string().contains("16 MiB"), "{error}");
        assert!(frames.capacity() < 1024 * 1024, "{} bytes", frames.capacity());
        let stream = run(async { wire::read_frame(&mut &length.to_be_bytes()[..]).await });
        assert!(matches!(stream, Err(WireError::TooLong { .. })), "{stream:?}");
    }
    // The first half of 2^63 is a length too.
    let stream = run(async { wire::read_frame(&mut &(1_u64 << 63).to_be_bytes()[..]).await });
    assert!(matches!(stream, Err(WireError::TooLong { .. })), "{stream:?}");
}

#[test]
fn a_length_takes_no_more_memory_than_what_has_come() {
    let mut frames = FrameDecoder::new(MAX_FRAME);
    frames.push(&(MAX_FRAME as u32).to_be_bytes());
    frames.push(&[0; 1000]);
    assert_eq!(frames.poll_frame(), Ok(None));
    assert!(frames.capacity() < 1024 * 1024, "{} bytes for 1004", frames.capacity());
}

#[test]
fn the_longest_frame_goes_through_and_one_byte_more_does_not() {
    // The message has only the id: its tag, four bytes of length, and the text.
    let longest = PluginRequest { request_id: "x".repeat(MAX_FRAME - 5), request: None };
    let frame = wire::encode(&longest).unwrap();
    assert_eq!(frame.len(), MAX_FRAME + 4);
    let back: PluginRequest = run(async { wire::read(&mut &frame[..]).await }).unwrap();
    assert_eq!(back, longest);
    let longer = PluginRequest { request_id: "x".repeat(MAX_FRAME - 4), request: None };
    let error = wire::encode(&longer).unwrap_err();
    assert!(matches!(error, WireError::TooLong { length, .. } if length == MAX_FRAME + 1), "{error}");
    let mut out = Vec::new();
    assert!(run(async { wire::write(&mut out, &longer).await }).is_err());
    assert!(out.is_empty(), "nothing was written");
}

#[test]
fn h152_a_stream_that_ends_inside_a_frame_says_how_much_has_come() {
    for (name, _, frame) in all() {
        for end in 0..frame.len() {
            let error = run(async { wire::read_frame(&mut &frame[..end]).await }).unwrap_err();
            match error {
                WireError::Empty => assert_eq!(end, 0, "{name}"),
                WireError::Truncated { expected, received } => {
                    assert_eq!(received, end, "{name}");
                    assert_eq!(expected, if end < 4 { 4 } else { frame.len() }, "{name}");
                }
                error => panic!("{name} cut at {end}: {error}"),
            }
        }
    }
}

#[test]
fn frames_are_the_same_however_they_are_cut() {
    run(async {
        for (name, _, frame) in all() {
            let (mut writer, mut reader) = tokio::io::duplex(1);
            let sent = frame.clone();
            let sending =
                tokio::spawn(async move { tokio::io::AsyncWriteExt::write_all(&mut writer, &sent).await });
            assert_eq!(wire::read_frame(&mut reader).await.unwrap(), frame[4..], "{name}");
            sending.await.unwrap().unwrap();
        }
    });
}

#[test]
fn h153_what_is_no_message_is_an_error_and_never_a_panic() {
    let cases: [(&str, &[u8]); 7] = [
        ("a number where the id is due", b"\x08\x01"),
        ("an id that is not UTF-8", b"\x0a\x02\xff\xfe"),
        ("a length beyond the end", b"\x0a\x05ab"),
        ("a call of another wire type", b"\xa0\x01\x07"),
        ("the field 0", b"\x02\x00"),
        ("the wire type 7", b"\x0f"),
        ("a group that never ends", b"\x63"),
    ];
    for (what, bytes) in cases {
        let decoded = wire::decode::<PluginRequest>(Bytes::copy_from_slice(bytes));
        assert!(matches!(decoded, Err(WireError::Undecodable(_))), "{what}: {decoded:?}");
    }
    let groups = Bytes::from(b"\x63".repeat(10_000));
    assert!(wire::decode::<PluginRequest>(groups).is_err(), "groups in groups");
}

#[test]
fn h153_what_the_schema_does_not_know_is_passed_over_and_the_last_of_two_counts() {
    let known = request("1", Request::ListTools(ListToolsRequest {}));
    let mut bytes = known.encode_to_vec();
    bytes.extend_from_slice(b"\xc2\x3e\x03new\xd0\x3e\x05");
    assert_eq!(wire::decode::<PluginRequest>(bytes.into()).unwrap(), known);
    let twice = b"\x0a\x011\x0a\x012\xaa\x01\x00\xb2\x01\x00";
    let last = request("2", Request::ListPrompts(ListPromptsRequest {}));
    assert_eq!(wire::decode::<PluginRequest>(Bytes::from_static(twice)).unwrap(), last);
}

#[test]
fn bent_frames_never_panic() {
    for (_, is_request, frame) in all() {
        for at in 4..frame.len() {
            for bits in [0x01, 0x80, 0x7f, 0xff] {
                let mut bent = frame[4..].to_vec();
                bent[at - 4] ^= bits;
                if is_request {
                    if let Ok(PluginRequest { request: Some(Request::ToolCall(call)), .. }) =
                        wire::decode(bent.into())
                        && let Some(arguments) = call.arguments
                    {
                        let _ = arguments.to_json();
                        let _ = arguments.to_go_text();
                    }
                } else {
                    let _ = wire::decode::<PluginResponse>(bent.into());
                }
            }
        }
    }
}
