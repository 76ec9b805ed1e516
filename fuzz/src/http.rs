//! Fuzz target of HTTP texts: header values survive a round trip, a reference stays at its origin, and no text makes a
//! parser panic.

use std::time::Duration;

use crate::Input;
use mcpjoin_proto::http::headers::{decode_value, encode_value, protocol_version};
use mcpjoin_proto::http::origin::{
    MediaType, Origin, OriginPolicy, accepts, has_json_body, resolve_same_origin, same_origin,
};
use mcpjoin_proto::http::response_head::{date, is_session_id, retry_after};
use mcpjoin_rules::template_variables;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (first, second) = (input.line(), input.line());
    values(first);
    heads(first, second);
    times(first, second);
    if let (Ok(first), Ok(second)) = (std::str::from_utf8(first), std::str::from_utf8(second)) {
        origins(first, second);
        let names = template_variables(first);
        assert!(names.len() <= first.len() && names.iter().all(|name| first.contains(name.as_str())));
    }
}

fn values(value: &[u8]) {
    if let Ok(text) = std::str::from_utf8(value) {
        let written = encode_value(text);
        assert!(written.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)), "{written}");
        assert_eq!(decode_value(written.as_bytes()).as_deref(), Ok(text));
    }
    if let Ok(read) = decode_value(value) {
        assert_eq!(decode_value(encode_value(&read).as_bytes()).as_deref(), Ok(&*read));
    }
    if is_session_id(value) {
        assert!(value.iter().all(u8::is_ascii_graphic));
    }
}

fn heads(first: &[u8], second: &[u8]) {
    let names = ["host", "origin", "accept", "content-type", "mcp-protocol-version"];
    let once: Vec<_> = names.map(|name| (name, first)).into();
    let twice: Vec<_> = names.iter().flat_map(|name| [(*name, first), (*name, second)]).collect();
    let guard = OriginPolicy::loopback();
    // The guard rejects every request with repeated headers.
    assert!(guard.check(twice.as_slice()).is_err());
    if guard.check(once.as_slice()).is_ok() {
        let host = std::str::from_utf8(first).expect("a host that is allowed is text").to_ascii_lowercase();
        assert!(["localhost", "127.", "[::1]"].iter().any(|own| host.contains(own)), "{host}");
    }
    assert!(!has_json_body(twice.as_slice()));
    assert_eq!(has_json_body(once.as_slice()), MediaType::of(Some(first)) == MediaType::Json);
    let kinds = [MediaType::Json, MediaType::EventStream];
    let each = kinds.iter().all(|kind| accepts(once.as_slice(), &[*kind]));
    assert_eq!(accepts(once.as_slice(), &kinds), each);
    drop((protocol_version(once.as_slice()), protocol_version(twice.as_slice())));
}

fn times(first: &[u8], second: &[u8]) {
    if let (Some(then), Some(now)) = (date(first), date(second)) {
        assert_eq!(retry_after(first, Some(second)), Some(Duration::from_secs(then.saturating_sub(now))));
    }
    if let Some(seconds) = std::str::from_utf8(first).ok().and_then(|text| text.parse::<u32>().ok()) {
        let wait = Some(Duration::from_secs(seconds.into()));
        assert!(retry_after(first, None) == wait || first.starts_with(b"+"));
    }
}

fn origins(first: &str, second: &str) {
    if let Ok(led) = resolve_same_origin(first, second) {
        assert!(same_origin(first, &led), "{led} of {first}");
    }
    assert_eq!(same_origin(first, second), same_origin(second, first));
    if let Ok(origin) = Origin::of(first) {
        assert_eq!(Origin::parse(&origin.to_string()).as_ref(), Ok(&origin));
        let mut guard = OriginPolicy::new();
        guard.allow_origin(&origin.to_string()).expect("an origin can be allowed");
    }
}
