//! Fuzz target of a server's schemas: each walk over a schema is short, whatever it refers to, and its results do not
//! contradict each other.

use crate::Input;
use mcpjoin_proto::Raw;
use mcpjoin_proto::http::params::{check_param_headers, header_marks, param_headers};
use mcpjoin_rules::{Offer, changes, compatibility, nonconformity};

/// If bytes of the schema times bytes of the value are below this number, validation stays within its limit of work.
const SMALL: usize = 50_000;

pub(crate) fn run(data: &[u8]) {
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
}

/// Checks that a schema and its negation do not both reject a value, and that no value conforms to `false`.
fn fits(schema: &Raw, value: &Raw) {
    let refused = nonconformity(schema, value);
    // References and identifiers resolve differently when a schema is nested in another one.
    let text = schema.as_str();
    if text.contains(['$', '\\']) || text.contains("\"id\"") || text.len() * value.len() > SMALL {
        return;
    }
    let within = |before: &str, behind: &str| Raw::parse(format!("{before}{text}{behind}")).ok();
    // The schema may be too deep for another level.
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
    // The validator can decide the schema.
    if refused.is_some() || nonconformity(&not, value).is_some() {
        assert!(nonconformity(&none, value).is_some());
    }
}

/// Checks that arguments that can be sent in headers are those that a server reads from the headers.
fn headers(schema: &Raw, arguments: &Raw) {
    let Ok(marks) = header_marks(schema) else { return };
    let Ok(headers) = param_headers(&marks, Some(arguments)) else { return };
    assert!(headers.len() <= marks.len());
    assert_eq!(check_param_headers(headers.as_slice(), &marks, Some(arguments)), Ok(()), "{headers:?}");
}

/// Checks that a change in one direction is also a change in the other, and that no schema differs from itself.
fn differ(first: &Raw, second: &Raw) {
    let offer = |schema: &Raw| {
        let schema = schema.as_str();
        let tool = format!(r#"{{"name":"t","inputSchema":{schema},"outputSchema":{schema}}}"#);
        Some(Offer { tools: vec![Raw::parse(tool).ok()?], ..Offer::default() })
    };
    let (Some(first), Some(second)) = (offer(first), offer(second)) else { return };
    assert!(changes(&first, &first).is_empty());
    assert_eq!(changes(&first, &second).is_empty(), changes(&second, &first).is_empty());
    let result = compatibility("server", &[first.tools, second.tools].concat());
    assert_eq!(result.tools, 2);
}
