//! Schemas that servers give: each walk over a schema ends soon, whatever it refers to, and says nothing that contradicts itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcpjoin_check::{Offer, changes, compatibility, misfit};
use mcpjoin_fuzz::{Input, start};
use mcpjoin_proto::Raw;
use mcpjoin_proto::http::params::{check_param_headers, header_marks, param_headers};

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
    let refused = misfit(schema, value);
    // References and identifiers lead elsewhere when a schema lies in another one.
    if !schema.as_str().contains(['$', '\\']) && !schema.as_str().contains("\"id\"") {
        let within =
            |text: &str| Raw::parse(text.replace('S', schema.as_str())).expect("a schema around a schema");
        assert!(misfit(&within(r#"{"allOf":[true,S]}"#), value).is_some() == refused.is_some());
        assert!(
            refused.is_none() || misfit(&within(r#"{"not":S}"#), value).is_none(),
            "{schema:?} {value:?}"
        );
        assert!(misfit(&within(r#"{"anyOf":[S,true]}"#), value).is_none());
        assert!(misfit(&within(r#"{"allOf":[S,false]}"#), value).is_some());
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
        Offer { tools: vec![Raw::parse(tool).expect("a schema in a tool")], ..Offer::default() }
    };
    let (first, second) = (offer(first), offer(second));
    assert!(changes(&first, &first).is_empty());
    assert_eq!(changes(&first, &second).is_empty(), changes(&second, &first).is_empty());
    let verdict = compatibility("server", &[first.tools, second.tools].concat());
    assert_eq!(verdict.tools, 2);
}
