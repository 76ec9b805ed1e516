//! Tests of decoding hostile input: the numbered cases of the adversarial catalogue for single texts, and random texts
//! compared with serde_json.
#![allow(clippy::unwrap_used, clippy::panic, reason = "also the helpers of tests fail by panicking")]

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use mcpjoin_proto::decode::{DecodeErrorKind as Kind, Decoded, Shape, decode};
use mcpjoin_proto::scan::ScanErrorKind as Json;
use mcpjoin_proto::{DecodeError, DecodeLimits, Message, Method, Raw, RequestId, Response, code, encode};
use proptest::prelude::*;
use serde_json::Value;

fn limits() -> DecodeLimits {
    DecodeLimits::default()
}

fn read(text: impl AsRef<[u8]>) -> Result<Decoded, DecodeError> {
    decode(&Bytes::copy_from_slice(text.as_ref()), &limits())
}

#[track_caller]
fn message(text: impl AsRef<[u8]>) -> Message {
    match read(text) {
        Ok(Decoded::Message(message)) => message,
        other => panic!("expected a message: {other:?}"),
    }
}

#[track_caller]
fn response(text: &str) -> Response {
    match message(text) {
        Message::Response(response) => response,
        other => panic!("expected a response: {other:?}"),
    }
}

#[track_caller]
fn error(text: impl AsRef<[u8]>) -> DecodeError {
    read(text).expect_err("should be refused")
}

#[track_caller]
fn batch(text: &str) -> Vec<Result<Message, DecodeError>> {
    match read(text) {
        Ok(Decoded::Batch(parts)) => parts,
        other => panic!("expected a batch: {other:?}"),
    }
}

fn written(message: &Message) -> Vec<u8> {
    let mut out = BytesMut::new();
    encode::message(message, &mut out);
    out.to_vec()
}

/// Decodes and encodes a text: the same except for white space and the order of the outer members.
#[track_caller]
fn through(text: &str) -> String {
    String::from_utf8(written(&message(text))).unwrap()
}

fn request(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)
}

fn with_params(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#)
}

#[test]
fn the_parts_of_a_request_are_found() {
    let text = r#" {"params" : {"_meta":{"a":1},"name":"ec\"ho","arguments" : {"x":[1]}, "uri":"u","resultType":"r"},
        "method":"tools\/call", "id":"a" ,"jsonrpc":"2.0", "other":[{}]} "#;
    let Message::Request(request) = message(text) else { panic!("a request") };
    assert_eq!((request.id, request.method), (RequestId::from("a"), Method::CallTool));
    let params = request.params.unwrap();
    let text = |raw: Option<Raw>| raw.map(|raw| raw.as_str().to_owned());
    assert_eq!(text(params.meta()).as_deref(), Some(r#"{"a":1}"#));
    assert_eq!(text(params.name()).as_deref(), Some(r#""ec\"ho""#));
    assert_eq!(text(params.uri()).as_deref(), Some(r#""u""#));
    assert_eq!(text(params.arguments()).as_deref(), Some(r#"{"x":[1]}"#));
    assert_eq!(text(params.result_type()).as_deref(), Some(r#""r""#));
    assert_eq!(
        mcpjoin_proto::Payload::from_raw(params.raw().clone()),
        params,
        "found again without the scanner"
    );
}

#[test]
fn keys_with_escapes_are_the_keys_that_they_mean() {
    let text = r#"{"jsonrpc":"2.0","\u0069d":1,"m\u0065thod":"tools/call","params":{"n\u0061me":"x"}}"#;
    let Message::Request(request) = message(text) else { panic!("a request") };
    assert_eq!(request.id, RequestId::from(1));
    assert_eq!(request.params.unwrap().name().unwrap().as_str(), "\"x\"");
}

#[test]
fn every_shape_of_message_is_distinguished() {
    assert!(matches!(message(r#"{"jsonrpc":"2.0","method":"x"}"#), Message::Notification(_)));
    assert!(matches!(message(r#"{"jsonrpc":"2.0","id":1,"method":"notifications/x"}"#), Message::Request(_)));
    let answer =
        response(r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"},"params":{"name":"no"}}"#);
    let result = answer.outcome.unwrap();
    assert_eq!(result.result_type().unwrap().as_str(), "\"complete\"");
    assert_eq!(result.name(), None, "a member of something else");
    for id in [r#""id":null,"#, ""] {
        let text = format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32700,"message":"no"}}}}"#);
        assert_eq!(response(&text).id, None);
    }
}

#[test]
fn r04_a_null_result_is_a_success_with_null() {
    for result in ["null", "1", "[]", "\"x\""] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        assert_eq!(response(&text).outcome.unwrap().raw().as_str(), result);
    }
}

#[test]
fn payloads_from_4_kib_on_share_a_text_of_which_they_are_half_and_others_do_not() {
    for (size, others, shared) in
        [(4095, 100, false), (4096, 100, true), (4096, 4096, true), (4096, 4098, false)]
    {
        let mut text = with_params(&format!(r#"{{"a":"{}"}}"#, "x".repeat(size - 8)));
        // A peer may send any amount of white space.
        text += &" ".repeat(size + others - text.len());
        let text = Bytes::from(text);
        let Ok(Decoded::Message(Message::Request(request))) = decode(&text, &limits()) else {
            panic!("a request")
        };
        let params = request.params.unwrap().into_raw();
        assert_eq!(params.len(), size);
        let inside = text.as_ptr_range().contains(&params.as_bytes().as_ptr());
        assert_eq!(inside, shared, "{size} and {others}");
    }
}

#[test]
fn what_is_too_long_to_be_read_whole_still_gives_its_id() {
    let whole = r#"{"jsonrpc":"2.0","id":12,"method":"x","params":{"a":"bbbbbbbbbb"}}"#;
    for end in 1..whole.len() {
        let error = error(&whole[..end]);
        assert_eq!((&error.kind, error.at), (&Kind::Json(Json::Truncated), end));
        // An id whose digits end with the text may be incomplete.
        assert_eq!(error.id.is_some(), end > 24, "{end}");
        assert!(error.id.is_none_or(|id| id.as_i64() == Some(12)));
    }
}

// A. Framing of single texts.

#[test]
fn a08_utf16_is_refused_by_its_name() {
    let text: Vec<u8> = request("1").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let found = error(text);
    assert_eq!(found.code(), code::PARSE_ERROR);
    assert!(found.to_error_object().message.contains("UTF-16LE"), "{found}");
    let text: Vec<u8> = "\u{feff}{}".encode_utf16().flat_map(u16::to_be_bytes).collect();
    assert!(error(text).to_string().contains("UTF-16BE"));
}

#[test]
fn a09_nul_bytes_are_refused_everywhere() {
    let good = request("1");
    for at in 0..=good.len() {
        let mut text = good.clone().into_bytes();
        text.insert(at, 0);
        let found = error(&text);
        assert_eq!(found.code(), code::PARSE_ERROR, "{at}");
        assert!(!found.to_error_object().message.contains('\0'));
    }
}

#[test]
fn a10_invalid_utf8_outside_strings_is_refused() {
    assert_eq!(error(b"{\xff}").kind, Kind::Json(Json::Utf8));
    assert_eq!(error(b"\x80{}").kind, Kind::Json(Json::Utf8));
    assert_eq!(error(b"\xff\xff").code(), code::PARSE_ERROR);
}

#[test]
fn a11_invalid_utf8_inside_a_string_is_refused_and_never_replaced() {
    for bad in [&b"\xff"[..], b"\xc3", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80"] {
        let text = [br#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":"ok "#, bad, b"\"}}"].concat();
        let found = error(&text);
        assert_eq!((&found.kind, found.at), (&Kind::Json(Json::Utf8), 55), "{}", bad.escape_ascii());
        assert_eq!((found.id, found.shape), (Some(7.into()), Shape::Request));
    }
}

#[test]
fn a12_characters_of_every_length_arrive_at_every_place() {
    for character in ["é", "€", "😀"] {
        for before in 0..70 {
            let text =
                format!(r#"{{"jsonrpc":"2.0","id":"{}{character}","method":"x"}}"#, "a".repeat(before));
            let Message::Request(request) = message(&text) else { panic!("a request") };
            assert_eq!(request.id.as_str(), Some(format!("{}{character}", "a".repeat(before)).as_str()));
        }
    }
}

#[test]
fn a13_a_raw_newline_in_a_string_is_refused() {
    let found = error(with_params("{\"a\":\"b\nc\"}"));
    assert_eq!(found.kind, Kind::Json(Json::Control(b'\n')));
    assert!(!found.to_error_object().message.contains('\n'));
    // The two halves that a line reader makes of it.
    assert_eq!(error(with_params("{\"a\":\"b").trim_end_matches('}')).code(), code::PARSE_ERROR);
    assert_eq!(error("c\"}}").code(), code::PARSE_ERROR);
}

#[test]
fn a20_two_messages_in_one_text_are_refused() {
    for between in ["", " ", "\r"] {
        let found = error(request("1") + between + &request("2"));
        assert_eq!(found.kind, Kind::Json(Json::Trailing));
    }
}

#[test]
fn a24_what_leaves_is_exactly_one_line() {
    let strange = "a\u{2028}\u{2029}\n\r\0\u{85}";
    let params = Raw::parse(format!("{{\r\n\"a\":\n{}}}", Raw::string(strange))).unwrap();
    let message = Message::Notification(mcpjoin_proto::Notification {
        method: Method::Other(strange.into()),
        params: Some(mcpjoin_proto::Payload::from_raw(params)),
    });
    let line = written(&message);
    assert!(!line.iter().any(|byte| *byte < 0x20));
    let Ok(Decoded::Message(Message::Notification(back))) = read(&line) else { panic!("a notification") };
    assert_eq!(back.method.as_str(), strange);
    assert_eq!(back.params.unwrap().raw().member("a").unwrap().to_string_value().unwrap(), strange);
}

// B. JSON-RPC.

#[test]
fn b26_a_batch_is_bounded_and_never_empty() {
    assert_eq!(error("[]").kind, Kind::BatchEmpty);
    assert_eq!(error(" [ ] ").code(), code::INVALID_REQUEST);
    let many = |count: usize| format!("[{}]", vec![request("1"); count].join(","));
    assert_eq!(batch(&many(100)).len(), 100);
    let found = error(many(101));
    assert_eq!((found.kind, found.id), (Kind::BatchTooLong { limit: 100 }, None));
    let start = Instant::now();
    let million = format!("[{}1]", "1,".repeat(1_000_000));
    assert_eq!(error(million).kind, Kind::BatchTooLong { limit: 100 });
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[test]
fn b26_each_element_of_a_batch_is_checked_alone() {
    let parts = batch(&format!("[{},1,[{}],{{\"id\":7,\"method\":\"x\"}}]", request("1"), request("2")));
    let kinds: Vec<_> = parts
        .iter()
        .map(|part| part.as_ref().map_err(|error| (&error.kind, error.id.clone())).err())
        .collect();
    assert_eq!(
        kinds,
        [
            None,
            Some((&Kind::NotAnObject, None)),
            Some((&Kind::BatchNested, None)),
            Some((&Kind::JsonRpcVersion, Some(7.into())))
        ]
    );
    assert_eq!(error(format!("[{},", request("1"))).code(), code::PARSE_ERROR);
}

#[test]
fn b27_an_id_is_an_integer_or_a_string() {
    for id in ["true", "false", "{}", "[]", "1.5", "1.50", "1e2", "1.0e1", "{\"a\":1}"] {
        let found = error(request(id));
        assert_eq!(
            (&found.kind, found.code(), &found.id),
            (&Kind::IdType, code::INVALID_REQUEST, &None),
            "{id}"
        );
        assert_eq!(found.at, 22);
    }
    assert_eq!(error(request("null")).kind, Kind::IdNull);
    assert_eq!(error(r#"{"jsonrpc":"2.0","id":null,"result":{}}"#).kind, Kind::IdNull);
    assert_eq!(error(r#"{"jsonrpc":"2.0","result":{}}"#).kind, Kind::IdMissing);
}

#[test]
fn b28_ids_are_echoed_digit_for_digit() {
    for id in [
        "-1",
        "0",
        "-0",
        "9007199254740993",
        "9223372036854775807",
        "-9223372036854775808",
        "1.0",
        "-0.00",
        "18446744073709551616.0",
    ] {
        assert_eq!(through(&request(id)), request(id));
    }
}

#[test]
fn b29_ids_beyond_every_word_are_echoed_and_never_rounded() {
    for id in ["18446744073709551616", "123456789012345678901234567890", &"9".repeat(4096)] {
        assert_eq!(through(&request(id)), request(id));
    }
    assert_eq!(error(request("1e400")).kind, Kind::IdType);
    assert_eq!(error(request(&"9".repeat(4097))).kind, Kind::IdTooLong { limit: 4096 });
}

#[test]
fn b30_string_ids_are_kept_and_bounded() {
    for id in [r#""""#, r#""1""#, r#""a\"\\\n\u0000é""#, r#""\u0041""#] {
        let sent: Value = serde_json::from_str(id).unwrap();
        let Message::Request(request) = message(request(id)) else { panic!("a request") };
        assert_eq!(request.id.as_str(), sent.as_str());
        assert_eq!(message(written(&Message::Request(request.clone()))), Message::Request(request));
    }
    assert_ne!(message(request("1")), message(request("\"1\"")));
    let long = |bytes: usize| request(&format!("\"{}\"", "x".repeat(bytes)));
    assert!(read(long(4096)).is_ok());
    for bytes in [4097, 1 << 20] {
        let found = error(long(bytes));
        assert_eq!((&found.kind, &found.id), (&Kind::IdTooLong { limit: 4096 }, &None));
        assert!(found.to_string().len() < 200);
    }
    // The limit counts the unescaped id.
    assert!(read(request(&format!("\"{}\"", "\\u0061".repeat(4096)))).is_ok());
    assert_eq!(
        error(request(&format!("\"{}\"", "\\u0061".repeat(4097)))).kind,
        Kind::IdTooLong { limit: 4096 }
    );
}

#[test]
fn b32_the_version_of_json_rpc_is_the_string_2_0() {
    for member in [
        "",
        r#""jsonrpc":"1.0","#,
        r#""jsonrpc":2.0,"#,
        r#""jsonrpc":null,"#,
        r#""jsonrpc":"2.0 ","#,
        r#""jsonrpc":["2.0"],"#,
    ] {
        let found = error(format!(r#"{{{member}"id":3,"method":"ping"}}"#));
        assert_eq!((&found.kind, &found.id), (&Kind::JsonRpcVersion, &Some(3.into())), "{member}");
        assert_eq!((found.code(), found.shape), (code::INVALID_REQUEST, Shape::Request));
    }
    assert!(read(r#"{"jsonrpc":"\u0032.0","id":3,"method":"ping"}"#).is_ok());
}

#[test]
fn b33_result_beside_error_is_an_invalid_response() {
    for error_text in ["null", r#"{"code":1,"message":"x"}"#] {
        let found = error(format!(r#"{{"jsonrpc":"2.0","id":5,"result":{{}},"error":{error_text}}}"#));
        assert_eq!(
            (found.kind, found.id, found.shape),
            (Kind::ResultAndError, Some(5.into()), Shape::Response)
        );
    }
    let found = error(r#"{"jsonrpc":"2.0","id":5,"method":"x","result":{}}"#);
    assert_eq!((found.kind, found.id), (Kind::MethodAndOutcome, Some(5.into())));
}

#[test]
fn b34_neither_result_nor_error_is_no_response() {
    let found = error(r#"{"jsonrpc":"2.0","id":5}"#);
    assert_eq!((found.kind, found.id, found.shape), (Kind::NoOutcome, Some(5.into()), Shape::Unknown));
    assert_eq!(error(r#"{"jsonrpc":"2.0","id":5,"params":{}}"#).kind, Kind::MethodMissing);
    assert_eq!(error(r#"{"jsonrpc":"2.0"}"#).kind, Kind::MethodMissing);
    for method in ["null", "1", "[]", "{}"] {
        let found = error(format!(r#"{{"jsonrpc":"2.0","id":5,"method":{method}}}"#));
        assert_eq!((found.kind, found.id), (Kind::MethodType, Some(5.into())));
    }
    for text in ["1", "\"x\"", "null", "true"] {
        assert_eq!(error(text).kind, Kind::NotAnObject);
    }
}

#[test]
fn b38_params_are_an_object() {
    for params in ["[]", "[1]", "\"x\"", "1", "null", "true"] {
        let found = error(with_params(params));
        assert_eq!((found.kind, found.id, found.at), (Kind::ParamsType, Some(1.into()), 55), "{params}");
        assert_eq!(error(with_params(params)).code(), code::INVALID_PARAMS);
    }
    let found = error(r#"{"jsonrpc":"2.0","method":"x","params":[]}"#);
    assert_eq!((found.shape, found.id), (Shape::Notification, None));
    assert!(matches!(message(request("1")), Message::Request(request) if request.params.is_none()));
}

#[test]
fn b39_depth_without_end_is_refused_without_the_stack() {
    for open in ["[", "{\"a\":"] {
        let deep = open.repeat(100_000);
        assert_eq!(error(&deep).code(), code::PARSE_ERROR);
        let found = error(with_params(&format!("{{\"x\":{deep}")));
        assert_eq!((found.kind, found.id), (Kind::Json(Json::Depth(128)), Some(1.into())));
    }
}

#[test]
fn b40_depth_127_128_and_129_are_pinned() {
    // The message and its params are two levels.
    let nested =
        |depth: usize| with_params(&format!("{{\"a\":{}{}}}", "[".repeat(depth - 2), "]".repeat(depth - 2)));
    assert!(read(nested(127)).is_ok());
    assert!(read(nested(128)).is_ok());
    assert_eq!(error(nested(129)).kind, Kind::Json(Json::Depth(128)));
    // In a batch the array is one more level.
    assert!(read(format!("[{}]", nested(127))).is_ok());
    assert!(read(format!("[{}]", nested(128))).is_err());
    let shallow = DecodeLimits { depth: 2, ..limits() };
    assert!(decode(&with_params("{\"a\":1}").into(), &shallow).is_ok());
    assert_eq!(decode(&nested(3).into(), &shallow).unwrap_err().kind, Kind::Json(Json::Depth(2)));
    assert!(decode(&"[1]".into(), &DecodeLimits { depth: 0, ..limits() }).is_err());
}

#[test]
fn b41_numbers_pass_unchanged() {
    for number in ["1e400", "-0", "1e-400", "1.000", "1E+2", &"7".repeat(10_000)] {
        let text = with_params(&format!("{{\"n\":{number}}}"));
        assert_eq!(through(&text), text);
    }
}

#[test]
fn b42_duplicate_keys_are_never_dispatched() {
    for (text, member) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#, "method"),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}"#, "id"),
        (r#"{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"a"}"#, "id"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{},"params":{}}"#, "params"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"name":"x","name":"y"}}"#, "name"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"name":"x","n\u0061me":"y"}}"#, "name"),
        (r#"{"jsonrpc":"2.0","id":1,"result":{"other":1,"other":1}}"#, "other"),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x","code":2}}"#, "code"),
    ] {
        let found = error(text);
        assert_eq!(found.kind, Kind::DuplicateMember { member: member.into() });
        assert_eq!(found.code(), code::INVALID_REQUEST);
        assert_eq!(found.id.is_none(), member == "id", "of two ids neither is believed");
    }
    // Below that level, repeated keys have no effect and pass unchanged.
    assert!(read(with_params(r#"{"arguments":{"a":1,"a":2}}"#)).is_ok());
    // Each message of a batch has its own keys.
    let parts = batch(r#"[{"jsonrpc":"2.0","method":"a","method":"b"},{"jsonrpc":"2.0","method":"a"}]"#);
    assert!(parts[0].is_err() && parts[1].is_ok());
}

#[test]
fn b43_keys_that_look_alike_are_not_the_key() {
    for key in ["Method", "METHOD", "metho\u{17f}d", "method\\u0000", "method ", "\\u212aethod"] {
        let found = error(format!(r#"{{"jsonrpc":"2.0","id":1,"{key}":"tools/call"}}"#));
        assert_eq!(found.kind, Kind::NoOutcome, "{key}");
        // Beside the correct key they are unknown members.
        let beside = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","{key}":"tools/call"}}"#);
        assert!(matches!(message(beside), Message::Request(request) if request.method == Method::Ping));
    }
    let found = message(r#"{"jsonrpc":"2.0","id\u0000":1,"ID":2,"method":"ping"}"#);
    assert!(matches!(found, Message::Notification(_)));
}

#[test]
fn b44_half_a_surrogate_pair_is_refused() {
    for half in ["\\ud800", "\\udfff", "\\ud800\\ud800", "\\ud83dx", "\\udc00\\ud800"] {
        let found = error(with_params(&format!("{{\"a\":\"{half}\"}}")));
        assert_eq!((found.kind, found.id), (Kind::Json(Json::Surrogate), Some(1.into())));
        assert_eq!(error(format!(r#"{{"{half}":1}}"#)).kind, Kind::Json(Json::Surrogate));
    }
}

#[test]
fn b49_a_malformed_error_is_distinguished_from_an_unusual_one() {
    for malformed in [
        "null",
        "1",
        "\"x\"",
        "[]",
        "{}",
        r#"{"message":"x"}"#,
        r#"{"code":"1","message":"x"}"#,
        r#"{"code":1.5,"message":"x"}"#,
        r#"{"code":99999999999999999999,"message":"x"}"#,
        r#"{"code":1}"#,
        r#"{"code":1,"message":2}"#,
    ] {
        let found = error(format!(r#"{{"jsonrpc":"2.0","id":9,"error":{malformed}}}"#));
        assert!(matches!(found.kind, Kind::Error { .. }), "{malformed}");
        assert_eq!((found.id, found.shape), (Some(9.into()), Shape::Response));
    }
    let text = r#"{"jsonrpc":"2.0","id":9,"error":{"code":1099511627776,"message":"a\nb","data":[1, 2]}}"#;
    let strange = response(text).outcome.unwrap_err();
    assert_eq!((strange.code, strange.message.as_str()), (1 << 40, "a\nb"));
    assert_eq!(strange.data.unwrap().as_str(), "[1, 2]");
    assert_eq!(through(text), text);
}

/// The resident memory of this process in bytes: the current value, and the peak.
#[cfg(target_os = "linux")]
fn resident() -> (usize, usize) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
    };
    (field("VmRSS"), field("VmHWM"))
}

#[test]
#[cfg(target_os = "linux")]
fn b50_amplification_is_bounded_in_time_and_memory() {
    let lists = format!("{{\"a\":[{}[]]}}", "[],".repeat(4 << 20 >> 2));
    let keys: Vec<String> = (0..1_000_000).map(|key| format!("\"k{key}\":1")).collect();
    let keys = format!("{{{}}}", keys.join(","));
    // The keys have one length and nearly equal text: the worst case for comparing each key with each other.
    let alike: Vec<String> = (0..100_000).map(|key| format!("\"{}{key:06}\":1", "k".repeat(30))).collect();
    let alike = format!("{{{}}}", alike.join(","));
    let escaped: Vec<String> = (0..100_000).map(|key| format!("\"\\u006b{key}\":1")).collect();
    let escaped = format!("{{{}}}", escaped.join(","));
    for params in [lists, keys, alike, escaped] {
        let text = Bytes::from(with_params(&params));
        // Resets the peak to the current value.
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let (before, _) = resident();
        let start = Instant::now();
        assert!(decode(&text, &limits()).is_ok());
        // The limit is for the optimised build; in tests, which are not optimised, the same takes ten times as long.
        let limit = if cfg!(debug_assertions) { 10 } else { 1 };
        assert!(start.elapsed() < Duration::from_secs(limit), "{:?}", start.elapsed());
        let (_, highest) = resident();
        assert!(highest.saturating_sub(before) < 16 * text.len(), "{highest} after {before}");
    }
}

#[test]
fn errors_show_what_stands_there_and_nothing_that_acts() {
    let found = error("{\"a\":\x1b[31m\u{202e}xyz");
    assert_eq!(found.at, 5);
    let object = found.to_error_object();
    assert!(object.message.contains("at byte 5"), "{}", object.message);
    assert!(object.message.contains(r"\u{1b}[31m\u{202e}xyz"), "{}", object.message);
    assert!(object.message.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
    // What can be read stands there as it was sent, so that it can be copied.
    assert!(error(r#"{"a":"ä","b""#).to_string().ends_with(r#": {"a":"ä","b""#));
    let long = error(format!("{{\"{}\":1,\"{0}\":2}}", "k".repeat(1 << 20)));
    assert!(long.to_string().len() < 400);
}

fn value() -> impl Strategy<Value = Value> {
    let number = prop_oneof![any::<i64>().prop_map(Value::from), any::<u64>().prop_map(Value::from)];
    let float = any::<f64>().prop_filter("JSON has only finite ones", |value| value.is_finite());
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        float.prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[a-z\"\\\\\n]{0,80}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Texts similar to messages: composed of their parts, with bytes changed, repeated and removed.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "\\u",
        "d800",
        "\\ud83d\\ude00",
        "null",
        "true",
        "false",
        "0",
        "-",
        "1.5",
        "e9",
        " ",
        "\n",
        "\0",
        "é",
        "\u{2028}",
        "\"jsonrpc\"",
        "\"2.0\"",
        "\"id\"",
        "\"method\"",
        "\"params\"",
        "\"result\"",
        "\"error\"",
        "\"code\"",
        "\"message\"",
        "\"x\":",
        "{}",
        "[]",
        "\"a\":1",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat().into_bytes())
}

fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 0..4);
    (value(), value(), changes).prop_map(|(id, params, changes)| {
        let mut text =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"x","params":{params}}}"#).into_bytes();
        for (place, byte, change) in changes {
            let at = place.index(text.len());
            match change {
                0 => text[at] = byte,
                1 => text.insert(at, byte),
                _ => {
                    text.remove(at);
                }
            }
            if text.is_empty() {
                break;
            }
        }
        text
    })
}

/// Checks that our parser accepts the same texts as serde_json, except for repeated keys.
fn parsed_alike(text: &[u8]) -> Result<(), TestCaseError> {
    let ours = Raw::parse(text.to_vec());
    let theirs = serde_json::from_slice::<Value>(text);
    match (&ours, &theirs) {
        (Ok(raw), Ok(theirs)) => {
            let back: Value = serde_json::from_str(raw.as_str()).unwrap();
            prop_assert_eq!(&back, theirs);
        }
        (Err(_), Err(_)) => {}
        // Our parser also refuses repeated keys.
        (Err(error), Ok(_)) => prop_assert!(matches!(error.kind, Json::DuplicateKey), "{error}"),
        (Ok(_), Err(error)) => prop_assert!(false, "taken, but serde_json says: {error}"),
    }
    if let Err(error) = ours {
        prop_assert!(error.at <= text.len());
    }
    let _ = format!("{:?}", read(text).map_err(|error| error.to_error_object()));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_is_json_is_decided_as_serde_json_decides(text in prop_oneof![soup(), mutated(), any::<Vec<u8>>()]) {
        parsed_alike(&text)?;
    }

    #[test]
    fn a_message_comes_back_as_it_was(text in mutated()) {
        if let Ok(Decoded::Message(message)) = read(&text) {
            let line = written(&message);
            prop_assert!(!line.contains(&b'\n'));
            match read(&line) {
                Ok(Decoded::Message(back)) => {
                    // Line breaks between tokens have become spaces, so texts may differ; values may not.
                    prop_assert_eq!(written(&back), line);
                    if !text.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
                        prop_assert_eq!(back, message);
                    }
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }

    #[test]
    fn values_are_written_and_read_as_serde_json_has_them(value in value()) {
        let raw = Raw::from_value(&value).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Value>(raw.as_str()).unwrap(), &value);
        prop_assert_eq!(&raw.decode::<Value>().unwrap(), &value);
        let theirs = serde_json::to_string(&value).unwrap();
        prop_assert_eq!(&Raw::parse(theirs).unwrap().decode::<Value>().unwrap(), &value);
        // Converted to another format and back.
        let transcribed = serde_json::to_value(&raw).unwrap();
        prop_assert_eq!(&transcribed, &value);
        prop_assert_eq!(serde_json::from_value::<Raw>(transcribed).unwrap().decode::<Value>().unwrap(), value);
    }
}
