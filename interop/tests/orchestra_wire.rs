//! Compares Orchestra's messages with Google's Protobuf library for Python, which has its own description of them
//! (`interop/orchestra/wire.py`): the captured messages, those that we encode, and those that it encodes.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as it should be fails the test")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use mcpjoin::proto::Raw;
use mcpjoin_orchestra::value::{Numbers, Struct};
use mcpjoin_orchestra::wire::plugin_request::Request;
use mcpjoin_orchestra::wire::plugin_response::Response;
use mcpjoin_orchestra::wire::{self, PluginRequest, PluginResponse, WireError};
use serde_json::{Value, json};

/// The captured frames of Orchestra's own programs.
const GOLDEN: &str = include_str!("../../crates/orchestra/tests/base/golden.txt");

/// Python's answer to each line.
fn python(asked: &[Value]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("orchestra/wire.py");
    let mut child = Command::new(interop::server("venv/bin/python").unwrap())
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines: String = asked.iter().map(|asked| format!("{asked}\n")).collect();
    let writing = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    assert!(output.status.success(), "the script failed");
    let answers: Vec<Value> = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(answers.len(), asked.len());
    answers
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// The captured frames: name, message, and the hex of the payload.
fn golden() -> Vec<(&'static str, &'static str, &'static str)> {
    let lines = GOLDEN.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split(' ');
            let (name, way, hex) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
            (name, if way == "request" { "PluginRequest" } else { "PluginResponse" }, &hex[8..])
        })
        .collect()
}

#[test]
fn every_captured_frame_says_to_python_what_it_says_to_us() {
    let said = |name: &str| match name {
        "tools_list" => json!({"request_id": "stdio-lt-1", "list_tools": {}}),
        "prompts_list" => json!({"request_id": "stdio-lp-2", "list_prompts": {}}),
        "prompts_get" => {
            json!({"request_id": "stdio-pg-3", "prompt_get": {"prompt_name": "p", "arguments": {"x": "1"}}})
        }
        "call_nil" => call("stdio-tc-4", json!({"tool_name": "nil"})),
        "call_nil_empty" => call("stdio-tc-4", json!({"tool_name": "nil", "arguments": {}})),
        "call_text" => call("stdio-tc-4", json!({"tool_name": "text", "arguments": {"k": null}})),
        "call_textnum" => {
            call("stdio-tc-4", json!({"tool_name": "textnum", "arguments": {"k": 12345678901234567890_f64}}))
        }
        "call_json" => {
            call("stdio-tc-4", json!({"tool_name": "json", "arguments": {"k": [true, "x", {"y": 2.0}]}}))
        }
        "call_session" => {
            call("stdio-tc-2", json!({"tool_name": "nil", "arguments": {"k": "v"}, "session_id": "SESSION"}))
        }
        "resources_features" => {
            json!({"request_id": "stdio-rl-6-features", "storage_list": {"prefix": "features/"}})
        }
        "resources_notes" => json!({"request_id": "stdio-rl-6-notes", "storage_list": {"prefix": "notes/"}}),
        "resources_docs" => json!({"request_id": "stdio-rl-6-docs", "storage_list": {"prefix": "docs/"}}),
        "health" => {
            json!({"request_id": "h1", "health": {"status": "STATUS_HEALTHY", "message": "orchestrator ok"}})
        }
        "prompts_list_empty" => json!({"request_id": "p1", "list_prompts": {}}),
        "storage_list_empty" => json!({"request_id": "s1", "storage_list": {}}),
        "subscribe_ack" => json!({"request_id": "sub1"}),
        name => panic!("no meaning is written down for {name}"),
    };
    let golden = golden();
    let asked: Vec<Value> = golden.iter().map(|(_, message, hex)| json!(["decode", message, hex])).collect();
    for ((name, message, hex), answer) in golden.iter().zip(python(&asked)) {
        assert_eq!(answer, said(name), "{name}");
        // Our encoding of it is the same again.
        let payload = bytes(hex).into();
        let again = match *message {
            "PluginRequest" => wire::encode(&wire::decode::<PluginRequest>(payload).unwrap()),
            _ => wire::encode(&wire::decode::<PluginResponse>(payload).unwrap()),
        };
        assert_eq!(again.unwrap()[4..], bytes(hex), "{name}");
    }
}

fn call(id: &str, mut call: Value) -> Value {
    call["caller_plugin"] = "transport.stdio".into();
    json!({"request_id": id, "tool_call": call})
}

/// Every request and every response, with every field, by the names of the table.
fn full() -> Vec<(&'static str, Value)> {
    let map = json!({"k": "v", "l": "w"});
    let object = json!({"a": [1.0, -2.5, true, null, "é\u{1f600}\n"], "o": {"": {}}});
    let all = json!(["one", "", "drei"]);
    let manifest = json!({
        "id": "i", "version": "v", "language": "rust", "provides_tools": all, "provides_events": all,
        "provides_storage": all, "provides_transport": all, "provides_ai": all, "needs_storage": all,
        "needs_events": all, "needs_ai": all, "needs_tools": all, "description": "d", "author": "a",
        "binary": "b", "args": all, "env": map, "provides_prompts": all,
    });
    let argument = json!({"name": "n", "description": "d", "required": true});
    let requests = json!({
        "register": manifest,
        "boot": {"config": map},
        "shutdown": {"timeout_seconds": -7},
        "health": {},
        "tool_call": {"tool_name": "t", "arguments": object, "caller_plugin": "c", "trace_parent": "00-1-2-01", "provider": "p", "session_id": "s"},
        "list_tools": {},
        "list_prompts": {},
        "prompt_get": {"prompt_name": "p", "arguments": map},
        "storage_read": {"path": "a/b", "storage_type": "markdown"},
        "storage_write": {"path": "p", "content": "AP8=", "metadata": object, "expected_version": "-9007199254740993", "storage_type": "s"},
        "storage_delete": {"path": "p", "storage_type": "s"},
        "storage_list": {"prefix": "p", "pattern": "*", "storage_type": "s"},
        "stream_start": {"stream_id": "s", "tool_name": "t", "arguments": object, "caller_plugin": "c"},
        "stream_cancel": {"stream_id": "s"},
        "subscribe": {"subscription_id": "s", "topic": "t", "filters": map},
        "unsubscribe": {"subscription_id": "s"},
        "publish": {"topic": "t", "event_type": "e", "payload": object, "source_plugin": "s"},
    });
    let responses = json!({
        "register": {"accepted": true, "reject_reason": "r"},
        "boot": {"ready": true, "error": "e"},
        "shutdown": {"clean": true},
        "health": {"status": "STATUS_UNHEALTHY", "message": "m", "details": map},
        "tool_call": {"success": true, "result": object, "error_code": "c", "error_message": "m"},
        "list_tools": {"tools": [{"name": "n", "description": "d", "input_schema": object}, {}]},
        "list_prompts": {"prompts": [{"name": "n", "description": "d", "arguments": [argument, {}]}]},
        "prompt_get": {"description": "d", "messages": [{"role": "user", "content": {"type": "text", "text": "t"}}, {}]},
        "storage_read": {"content": "AAEC", "metadata": object, "version": "9223372036854775807"},
        "storage_write": {"success": true, "new_version": "2", "error": "e"},
        "storage_delete": {"success": true},
        "storage_list": {"entries": [{"path": "p", "size": "3", "version": "-1", "modified_at": "2026-11-22T08:14:21.000000007Z"}]},
        "stream_chunk": {"stream_id": "s", "data": "AA==", "content_type": "c", "sequence": "1"},
        "stream_end": {"stream_id": "s", "success": true, "error_code": "c", "error_message": "m", "total_chunks": "4"},
        "event_delivery": {"subscription_id": "s", "topic": "t", "event_type": "e", "payload": object, "source_plugin": "p", "timestamp": "1969-12-31T23:59:59Z"},
    });
    let envelopes = |message: &'static str, arms: &Value| -> Vec<(&'static str, Value)> {
        let arms = arms.as_object().unwrap().iter();
        arms.map(|(arm, body)| (message, json!({"request_id": "r", arm: body}))).collect()
    };
    [envelopes("PluginRequest", &requests), envelopes("PluginResponse", &responses)].concat()
}

#[test]
fn every_field_that_python_writes_is_one_that_we_know() {
    let full = full();
    let asked: Vec<Value> = full.iter().map(|(message, body)| json!(["encode", message, body])).collect();
    let mut ours = Vec::new();
    for ((message, body), answer) in full.iter().zip(python(&asked)) {
        let payload = bytes(answer.as_str().unwrap());
        let again = match *message {
            "PluginRequest" => {
                let read: Result<PluginRequest, WireError> = wire::decode(payload.clone().into());
                let read = read.unwrap();
                assert!(read.request.is_some(), "{body}");
                wire::encode(&read)
            }
            _ => {
                let read: PluginResponse = wire::decode(payload.clone().into()).unwrap();
                assert!(read.response.is_some(), "{body}");
                wire::encode(&read)
            }
        };
        let again = again.unwrap()[4..].to_vec();
        // An unknown field would be lost, and the length would differ.
        assert_eq!(again.len(), payload.len(), "{body}");
        ours.push(json!(["decode", message, hex(&again)]));
    }
    for ((_, body), answer) in full.iter().zip(python(&ours)) {
        assert_eq!(&answer, body);
    }
}

/// We omit empty values in an entry, Python encodes them; both decoders accept both forms.
#[test]
fn empty_keys_and_values_of_a_map_are_kept() {
    let body = json!({"prompt_get": {"arguments": {"": "empty", "e": ""}}});
    let written = python(&[json!(["encode", "PluginRequest", body])]);
    let read: PluginRequest = wire::decode(bytes(written[0].as_str().unwrap()).into()).unwrap();
    let Some(Request::PromptGet(prompt)) = &read.request else { panic!("a prompt") };
    assert_eq!(
        prompt.arguments.iter().map(|(key, value)| (&**key, &**value)).collect::<Vec<_>>(),
        [("", "empty"), ("e", "")]
    );
    let again = hex(&wire::encode(&read).unwrap()[4..]);
    assert_eq!(python(&[json!(["decode", "PluginRequest", again])]), [body]);
}

#[test]
fn values_are_the_same_on_both_sides() {
    let texts = [
        r#"{}"#,
        r#"{"a":{"b":[[],{},[[null]],"",0,-0.5,true,false]},"é":"\u0000\ud83d\ude00"}"#,
        r#"{"n":[1,-1,0.1,1e21,5e-324,1.7976931348623157e308,9007199254740992]}"#,
    ];
    let mut asked = Vec::new();
    for text in texts {
        let value = Struct::from_json(&Raw::parse(text).unwrap(), Numbers::Exact).unwrap();
        let call = wire::ToolRequest { arguments: Some(value), ..wire::ToolRequest::default() };
        let request = PluginRequest { request_id: String::new(), request: Some(Request::ToolCall(call)) };
        asked.push(json!(["decode", "PluginRequest", hex(&wire::encode(&request).unwrap()[4..])]));
        let object: Value = serde_json::from_str(text).unwrap();
        asked.push(json!(["encode", "PluginResponse", {"tool_call": {"result": object}}]));
    }
    let answers = python(&asked);
    for (text, answers) in texts.iter().zip(answers.chunks(2)) {
        let meant = floats(&serde_json::from_str(text).unwrap());
        assert_eq!(floats(&answers[0]["tool_call"]["arguments"]), meant, "{text}");
        let response: PluginResponse = wire::decode(bytes(answers[1].as_str().unwrap()).into()).unwrap();
        let Some(Response::ToolCall(call)) = response.response else { panic!("a call") };
        let json = call.result.unwrap().to_json().unwrap().json;
        assert_eq!(floats(&serde_json::from_str(json.as_str()).unwrap()), meant, "{text}");
    }
}

/// The same value with every number as a float, the only kind of number in the format.
fn floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64().unwrap()),
        Value::Array(array) => array.iter().map(floats).collect(),
        Value::Object(object) => object.iter().map(|(key, value)| (key.clone(), floats(value))).collect(),
        other => other.clone(),
    }
}
