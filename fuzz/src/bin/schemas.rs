//! Schemas that servers give: each walk over a schema ends soon, whatever it refers to, and says nothing that contradicts itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcpjoin_fuzz::{Input, start};
use mcpjoin_proto::Raw;
use mcpjoin_proto::http::params::{check_param_headers, header_marks, param_headers};
use mcpjoin_rules::{Offer, changes, compatibility, nonconformity};

/// Below this many bytes of the schema times bytes of the value the work of validating is within its limit.
const SMALL: usize = 50_000;

fuzz_target!(init: start("schemas"), |data: &[u8]| {
    let mut input = Input::new(data);
    let (first, second, value) = (input.line(), input.line(), input.line());
    let parsed = |line: &[u8]| Raw::parse(line.to_vec()).ok();
    let Some(first) = parsed(first) else { return };
    let second = parsed(second).unwrap_or_else(|| first.clone());
    if let Some(value) = parsed(value) {
        fits(&first, &value);
        headers(&first, &value);
    }
    differ(&first, &second);
});

/// A schema and its opposite do not both refuse a value, and nothing conforms to what allows nothing.
fn fits(schema: &Raw, value: &Raw) {
    let refused = nonconformity(schema, value);
    // References and identifiers lead elsewhere when a schema lies in another one.
    let text = schema.as_str();
    if text.contains(['$', '\\']) || text.contains("\"id\"") || text.len() * value.len() > SMALL {
        return;
    }
    let within = |before: &str, behind: &str| Raw::parse(format!("{before}{text}{behind}")).ok();
    // It may be too deep for another level.
    let (Some(all), Some(not)) = (within("{\"allOf\":[true,", "]}"), within("{\"not\":", "}")) else {
        return;
    };
    assert_eq!(nonconformity(&all, value).is_some(), refused.is_some());
    assert!(refused.is_none() || nonconformity(&not, value).is_none());
    let (Some(any), Some(none)) = (within("{\"anyOf\":[", ",true]}"), within("{\"allOf\":[", ",false]}"))
    else {
        return;
    };
    assert!(nonconformity(&any, value).is_none());
    // The schema is one that is decided.
    if refused.is_some() || nonconformity(&not, value).is_some() {
        assert!(nonconformity(&none, value).is_some());
    }
}

/// Arguments that can be sent in headers are those that a server reads from them.
fn headers(schema: &Raw, arguments: &Raw) {
    let Ok(marks) = header_marks(schema) else { return };
    let Ok(headers) = param_headers(&marks, Some(arguments)) else { return };
    assert!(headers.len() <= marks.len());
    assert_eq!(check_param_headers(headers.as_slice(), &marks, Some(arguments)), Ok(()), "{headers:?}");
}

/// What has changed one way has changed the other way, and nothing differs from itself.
fn differ(first: &Raw, second: &Raw) {
    let offer = |schema: &Raw| {
        let schema = schema.as_str();
        let tool = format!(r#"{{"name":"t","inputSchema":{schema},"outputSchema":{schema}}}"#);
        Some(Offer { tools: vec![Raw::parse(tool).ok()?], ..Offer::default() })
    };
    let (Some(first), Some(second)) = (offer(first), offer(second)) else { return };
    assert!(changes(&first, &first).is_empty());
    assert_eq!(changes(&first, &second).is_empty(), changes(&second, &first).is_empty());
    let verdict = compatibility("server", &[first.tools, second.tools].concat());
    assert_eq!(verdict.tools, 2);
}
