//! Tests of the HTTP part as tables: encoding of header values, validity of header marks in schemas, classification by
//! era, allowed hosts and origins, and responses to a probe.

use bytes::Bytes;
use mcpjoin_proto::decode::{Decoded, decode};
use mcpjoin_proto::http::classify::{
    Class, HttpMethod, LegacyKind, Offer, Probe, ProbeBody, ProbeVerdict, Rejection, SessionLookup, classify,
    status, verdict,
};
use mcpjoin_proto::http::headers::{
    HeaderProblem, HeaderValueError, Headers, check_request_headers, decode_value, encode_value,
};
use mcpjoin_proto::http::origin::{
    MediaType, Origin, OriginDenied, OriginError, OriginPolicy, accepts, has_json_body, resolve_same_origin,
    same_origin,
};
use mcpjoin_proto::http::params::{
    InvalidHeaderMark, ParamKind, check_param_headers, header_marks, param_headers,
};
use mcpjoin_proto::{DecodeError, DecodeLimits, ErrorObject, Method, Raw, RequestId, Version, code};
use proptest::prelude::*;

fn raw(text: &str) -> Raw {
    Raw::parse(text.to_owned()).expect("JSON")
}

/// Takes the arguments from a message: the scanner checks for repeated keys above the arguments, and not in them.
fn arguments(text: &str) -> Raw {
    raw(&format!(r#"{{"arguments":{text}}}"#)).member("arguments").expect("a member")
}

type List<'a> = &'a [(&'a str, &'a str)];

// --- Values ------------------------------------------------------------------------------------------------------

#[test]
fn values_are_written_as_the_specification_says() {
    for (value, header) in [
        ("us-west1", "us-west1"),
        ("", ""),
        ("one two", "one two"),
        ("tab\tinside", "tab\tinside"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("\tx", "=?base64?CXg=?="),
        ("x\t", "=?base64?eAk=?="),
        ("a\nb", "=?base64?YQpi?="),
        ("a\r\nX-Evil: 1", "=?base64?YQ0KWC1FdmlsOiAx?="),
        ("\0", "=?base64?AA==?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?BASE64?literal?=", "=?BASE64?literal?="),
        ("=?base64?open", "=?base64?open"),
    ] {
        assert_eq!(encode_value(value), header, "{value:?}");
        assert_eq!(decode_value(header.as_bytes()).as_deref(), Ok(value), "{header:?}");
    }
}

#[test]
fn values_are_read_strictly() {
    for (header, value) in [
        (&b"  x \t"[..], Ok("x")),
        (b" =?base64?eA==?= ", Ok("x")),
        (b"=?base64??=", Ok("")),
        (b"=?base64?eA?=", Err(HeaderValueError::Base64)),
        (b"=?base64?eA=?=", Err(HeaderValueError::Base64)),
        (b"=?base64?eB==?=", Err(HeaderValueError::Base64)),
        (b"=?base64?e A==?=", Err(HeaderValueError::Base64)),
        (b"=?base64?_-8=?=", Err(HeaderValueError::Base64)),
        (b"=?base64?/w==?=", Err(HeaderValueError::Utf8)),
        (b"a\x01", Err(HeaderValueError::Character)),
        (b"a\x7F", Err(HeaderValueError::Character)),
        (b"a\r\nb", Err(HeaderValueError::Character)),
        ("é".as_bytes(), Err(HeaderValueError::Character)),
    ] {
        assert_eq!(decode_value(header).as_deref(), value.as_ref().copied(), "{header:?}");
    }
}

proptest! {
    #[test]
    fn every_value_comes_back_and_fits_a_header(value in "(?s).*") {
        let header = encode_value(&value);
        prop_assert!(header.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')));
        let decoded = decode_value(header.as_bytes());
        prop_assert_eq!(decoded.as_deref(), Ok(&value[..]));
    }

    #[test]
    fn nothing_panics_on_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..60), text in "(?s).*") {
        let _ = decode_value(&bytes);
        let _ = MediaType::of(Some(&bytes));
        let headers = [("host", &bytes[..]), ("origin", &bytes[..]), ("accept", &bytes[..])];
        let _ = OriginPolicy::loopback().check(&headers[..]);
        let _ = accepts(&headers[..], &[MediaType::Json]);
        let _ = Origin::of(&text);
        let _ = Origin::of(&format!("http://{text}"));
        let _ = resolve_same_origin("http://a/b", &text);
    }
}

// --- Standard headers --------------------------------------------------------------------------------------------

fn problem(headers: List<'_>, method: Method, name: Option<&str>) -> Option<HeaderProblem> {
    check_request_headers(headers, "2026-07-28", &method, name).err().map(|mismatch| mismatch.problem)
}

#[test]
fn request_headers_agree_with_the_body_or_are_refused() {
    const VERSION: (&str, &str) = ("MCP-Protocol-Version", "2026-07-28");
    const METHOD: (&str, &str) = ("Mcp-Method", "tools/call");
    let call = |headers: List<'_>| problem(headers, Method::CallTool, Some("echo"));
    assert_eq!(call(&[VERSION, METHOD, ("Mcp-Name", "echo")]), None);
    assert_eq!(call(&[VERSION, METHOD, ("MCP-NAME", " echo\t")]), None);
    assert_eq!(call(&[VERSION, METHOD, ("mcp-name", "=?base64?ZWNobw==?=")]), None);
    let differs = |header: &str, body: &str| {
        Some(HeaderProblem::Differs { header: header.to_owned(), body: body.to_owned() })
    };
    assert_eq!(call(&[VERSION, METHOD, ("mcp-name", "Echo")]), differs("Echo", "echo"));
    assert_eq!(
        call(&[VERSION, ("mcp-method", "Tools/Call"), ("mcp-name", "echo")]),
        differs("Tools/Call", "tools/call")
    );
    assert_eq!(
        call(&[("mcp-protocol-version", "2025-11-25"), METHOD, ("mcp-name", "echo")]),
        differs("2025-11-25", "2026-07-28")
    );
    let missing = |body: &str| Some(HeaderProblem::Missing { body: body.to_owned() });
    assert_eq!(call(&[METHOD, ("mcp-name", "echo")]), missing("2026-07-28"));
    assert_eq!(call(&[VERSION, ("mcp-name", "echo")]), missing("tools/call"));
    assert_eq!(call(&[VERSION, METHOD]), missing("echo"));
    assert_eq!(
        call(&[VERSION, METHOD, ("mcp-name", "echo"), ("Mcp-Name", "echo")]),
        Some(HeaderProblem::Repeated)
    );
    assert_eq!(
        call(&[VERSION, METHOD, ("mcp-name", "=?base64?!?=")]),
        Some(HeaderProblem::Invalid(HeaderValueError::Base64))
    );
    let list = [VERSION, ("mcp-method", "tools/list")];
    assert_eq!(problem(&list, Method::ListTools, None), None);
    let task = [VERSION, ("mcp-method", "tasks/get")];
    assert_eq!(problem(&task, Method::GetTask, Some("t-1")), None, "optional on tasks");
    let task = [VERSION, ("mcp-method", "tasks/get"), ("mcp-name", "t-2")];
    assert_eq!(problem(&task, Method::GetTask, Some("t-1")), differs("t-2", "t-1"), "and checked");
}

#[test]
fn a_mismatch_reads_like_the_official_example() {
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "foo")];
    let mismatch = check_request_headers(&headers[..], "2026-07-28", &Method::CallTool, Some("bar"));
    let error = mismatch.expect_err("different").to_error_object();
    assert_eq!(error.code, -32020);
    assert_eq!(error.message, "Header mismatch: Mcp-Name header value 'foo' does not match body value 'bar'");
}

// --- Arguments in headers ----------------------------------------------------------------------------------------

#[test]
fn marks_are_found_where_properties_lead() {
    let schema = r#"{"type":"object","properties":{
        "region":{"type":"string","x-mcp-header":"Region"},
        "x-mcp-header":{"type":"string","default":{"x-mcp-header":"no mark"}},
        "inner":{"type":"object","properties":{"count":{"x-mcp-header":"Count","type":"integer"}}},
        "deep":{"type":"object","properties":{"flag":{"type":"boolean","x-mcp-header":"Method"}}}},
        "examples":[{"x-mcp-header":""}]}"#;
    let marks = header_marks(&raw(schema)).expect("valid");
    let found: Vec<_> = marks.iter().map(|mark| (mark.header(), mark.path.join("/"), mark.kind)).collect();
    assert_eq!(
        found,
        [
            ("Mcp-Param-Region".to_owned(), "region".to_owned(), ParamKind::String),
            ("Mcp-Param-Count".to_owned(), "inner/count".to_owned(), ParamKind::Integer),
            ("Mcp-Param-Method".to_owned(), "deep/flag".to_owned(), ParamKind::Boolean),
        ]
    );
    for schema in [r#"{"type":"object"}"#, "true", r#"{"properties":[],"items":1,"anyOf":{}}"#] {
        assert_eq!(header_marks(&raw(schema)), Ok(vec![]), "{schema}");
    }
}

#[test]
fn one_invalid_mark_is_the_end_of_the_tool() {
    use InvalidHeaderMark::{Empty, NotAString, NotAToken, OutOfReach, Repeated, Type};
    let name = |name: &str| name.to_owned();
    let out = |keyword: &str| OutOfReach { name: name("A"), keyword: keyword.to_owned() };
    let a = r#"{"type":"string","x-mcp-header":"A"}"#;
    for (properties, more, expected) in [
        (r#""a":{"type":"string","x-mcp-header":""}"#.to_owned(), "", Empty),
        (r#""a":{"type":"string","x-mcp-header":1}"#.to_owned(), "", NotAString),
        (r#""a":{"type":"string","x-mcp-header":null}"#.to_owned(), "", NotAString),
        (r#""a":{"type":"string","x-mcp-header":"a b"}"#.to_owned(), "", NotAToken { name: name("a b") }),
        (r#""a":{"type":"string","x-mcp-header":"a:"}"#.to_owned(), "", NotAToken { name: name("a:") }),
        (r#""a":{"type":"string","x-mcp-header":"a\r\n"}"#.to_owned(), "", NotAToken { name: name("a\r\n") }),
        (r#""a":{"type":"string","x-mcp-header":"é"}"#.to_owned(), "", NotAToken { name: name("é") }),
        (r#""a":{"type":"string","\u0078-mcp-header":""}"#.to_owned(), "", Empty),
        (r#""a":{"type":"number","x-mcp-header":"A"}"#.to_owned(), "", Type { name: name("A") }),
        (r#""a":{"type":"object","x-mcp-header":"A"}"#.to_owned(), "", Type { name: name("A") }),
        (r#""a":{"type":"array","x-mcp-header":"A"}"#.to_owned(), "", Type { name: name("A") }),
        (r#""a":{"type":"null","x-mcp-header":"A"}"#.to_owned(), "", Type { name: name("A") }),
        (r#""a":{"type":["string","null"],"x-mcp-header":"A"}"#.to_owned(), "", Type { name: name("A") }),
        (r#""a":{"x-mcp-header":"A"}"#.to_owned(), "", Type { name: name("A") }),
        (String::new(), r#","x-mcp-header":"A""#, Type { name: name("A") }),
        (format!(r#""a":{a},"b":{{"type":"integer","x-mcp-header":"a"}}"#), "", Repeated { name: name("a") }),
        (format!(r#""a":{{"type":"array","items":{a}}}"#), "", out("items")),
        (format!(r#""a":{{"items":[{a}]}}"#), "", out("items")),
        (format!(r#""a":{{"items":{{"properties":{{"b":{a}}}}}}}"#), "", out("items")),
        (format!(r#""a":{{"oneOf":[{{"type":"null"}},{a}]}}"#), "", out("oneOf")),
        (format!(r#""a":{{"not":{a}}}"#), "", out("not")),
        (format!(r#""a":{{"additionalProperties":{a}}}"#), "", out("additionalProperties")),
        (String::new(), r#","$defs":{"d":{"type":"string","x-mcp-header":"A"}}"#, out("$defs")),
        (
            String::new(),
            r#","anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]"#,
            out("anyOf"),
        ),
        (String::new(), r#","if":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}"#, out("if")),
    ] {
        let schema = format!(r#"{{"type":"object","properties":{{{properties}}}{more}}}"#);
        assert_eq!(header_marks(&raw(&schema)), Err(expected), "{schema}");
    }
}

const SCHEMA: &str = r#"{"type":"object","properties":{
    "s":{"type":"string","x-mcp-header":"S"},
    "i":{"type":"integer","x-mcp-header":"I"},
    "o":{"type":"object","properties":{"b":{"type":"boolean","x-mcp-header":"B"}}}}}"#;

#[test]
fn a_client_repeats_the_arguments_that_are_there() {
    let marks = header_marks(&raw(SCHEMA)).expect("valid");
    for (text, expected) in [
        (r#"{"s":"x","i":42,"o":{"b":true}}"#, vec![("S", "x"), ("I", "42"), ("B", "true")]),
        (r#"{"s":"","i":-0,"o":{"b":false}}"#, vec![("S", ""), ("I", "0"), ("B", "false")]),
        (r#"{"s":" \u4e16","i":4.2e1}"#, vec![("S", "=?base64?IOS4lg==?="), ("I", "42")]),
        (r#"{"i":9007199254740991}"#, vec![("I", "9007199254740991")]),
        (r#"{"s":null,"o":null}"#, vec![]),
        (r#"{"o":{"b":null}}"#, vec![]),
        (r#"{"o":[]}"#, vec![]),
        (r#"{"other":1}"#, vec![]),
    ] {
        let headers = param_headers(&marks, Some(&arguments(text))).expect("sendable");
        let found: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.strip_prefix("Mcp-Param-").expect("prefix"), value.as_str()))
            .collect();
        assert_eq!(found, expected, "{text}");
        assert_eq!(check_param_headers(&headers[..], &marks, Some(&arguments(text))), Ok(()), "{text}");
    }
    assert_eq!(param_headers(&marks, None), Ok(vec![]));
    for text in [r#"{"i":9007199254740992}"#, r#"{"i":1.5}"#, r#"{"s":[]}"#, r#"{"s":"a","s":"b"}"#] {
        assert!(param_headers(&marks, Some(&arguments(text))).is_err(), "{text}");
    }
}

#[test]
fn a_server_compares_the_arguments_with_the_headers() {
    let marks = header_marks(&raw(SCHEMA)).expect("valid");
    let check = |headers: List<'_>, text: &str| {
        check_param_headers(headers, &marks, Some(&arguments(text))).map_err(|mismatch| mismatch.problem)
    };
    let differs = |header: &str, body: &str| {
        Err(HeaderProblem::Differs { header: header.to_owned(), body: body.to_owned() })
    };
    for (header, text) in [
        (("mcp-param-i", "42"), r#"{"i":42.0}"#),
        (("Mcp-Param-I", " 42.0 "), r#"{"i":42}"#),
        (("mcp-param-s", "=?base64?eA==?="), r#"{"s":"x"}"#),
        (("mcp-param-b", "true"), r#"{"o":{"b":true}}"#),
        (("mcp-param-unknown", "1"), "{}"),
    ] {
        assert_eq!(check(&[header], text), Ok(()), "{header:?} {text}");
    }
    assert_eq!(check(&[("mcp-param-i", "43")], r#"{"i":42}"#), differs("43", "42"));
    assert_eq!(check(&[("mcp-param-i", "9007199254740993")], r#"{"i":1}"#), differs("9007199254740993", "1"));
    assert_eq!(check(&[("mcp-param-s", "X")], r#"{"s":"x"}"#), differs("X", "x"));
    assert_eq!(check(&[("mcp-param-s", "42.0")], r#"{"s":"42"}"#), differs("42.0", "42"));
    assert_eq!(check(&[("mcp-param-b", "TRUE")], r#"{"o":{"b":true}}"#), differs("TRUE", "true"));
    assert_eq!(check(&[("mcp-param-s", "x")], r#"{"s":["x"]}"#), differs("x", r#"["x"]"#));
    assert_eq!(
        check(&[("mcp-param-s", "a")], r#"{"s":"a","s":"b"}"#),
        differs("a", r#"{"s":"a","s":"b"}"#),
        "a repeated argument is no way round the check"
    );
    assert_eq!(check(&[], r#"{"s":"x"}"#), Err(HeaderProblem::Missing { body: "x".into() }));
    assert_eq!(check(&[("mcp-param-s", "x")], "{}"), Err(HeaderProblem::Unexpected { header: "x".into() }));
    assert_eq!(
        check(&[("mcp-param-s", "x")], r#"{"s":null}"#),
        Err(HeaderProblem::Unexpected { header: "x".into() })
    );
    assert_eq!(
        check(&[("mcp-param-s", "=?base64?x?=")], r#"{"s":"x"}"#),
        Err(HeaderProblem::Invalid(HeaderValueError::Base64))
    );
    assert_eq!(
        check(&[("mcp-param-s", "x"), ("Mcp-Param-S", "x")], r#"{"s":"x"}"#),
        Err(HeaderProblem::Repeated)
    );
}

// --- Eras --------------------------------------------------------------------------------------------------------

const BOTH: &[Version] = &Version::ALL;
const MODERN: &[Version] = &[Version::V2026_07_28];
const LEGACY: &[Version] = &[Version::V2025_11_25, Version::V2025_06_18, Version::V2025_03_26];

fn body(text: &str) -> Result<Decoded, DecodeError> {
    decode(&Bytes::copy_from_slice(text.as_bytes()), &DecodeLimits::default())
}

fn post(text: &str, headers: List<'_>, session: &SessionLookup, versions: &[Version]) -> Class {
    let decoded = body(text);
    let offer = Offer { versions, sessions: true };
    classify(HttpMethod::Post, headers, Some(decoded.as_ref()), session, &offer)
}

/// The status, the error code and the id of a rejection.
fn refused(class: Class) -> (u16, i64, Option<RequestId>) {
    let refusal = match class {
        Class::Reject(Rejection { status, id, error: Some(error) }) => Ok((status, error.code, id)),
        other => Err(other),
    };
    refusal.expect("refused with an error")
}

fn call(meta: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{{"name":"echo","_meta":{{{meta}}}}}}}"#
    )
}

const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;
const CALL: List<'static> =
    &[("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "echo")];
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":5,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#;

#[test]
fn a_modern_request_is_modern_whatever_session_it_names() {
    let modern = Class::Modern { version: Version::V2026_07_28 };
    let known = SessionLookup::Known(Version::V2025_11_25);
    for session in [SessionLookup::Absent, SessionLookup::Unknown, known] {
        assert_eq!(post(&call(META), CALL, &session, BOTH), modern);
        assert_eq!(post(&call(META), CALL, &session, MODERN), modern);
    }
}

#[test]
fn modern_requests_are_refused_with_the_exact_error() {
    let id = Some(RequestId::from(5));
    let with =
        |meta: &str, headers: List<'_>| refused(post(&call(meta), headers, &SessionLookup::Absent, BOTH));
    assert_eq!(with(META, &[]), (400, code::HEADER_MISMATCH, id.clone()), "no headers");
    assert_eq!(with(META, &CALL[..2]), (400, code::HEADER_MISMATCH, id.clone()), "no Mcp-Name");
    assert_eq!(with("", CALL), (400, code::INVALID_PARAMS, id.clone()), "no _meta");
    let no_capabilities = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
    assert_eq!(with(no_capabilities, CALL), (400, code::INVALID_PARAMS, id.clone()));
    let other = META.replace("2026-07-28", "2025-11-25");
    assert_eq!(with(&other, CALL), (400, code::HEADER_MISMATCH, id.clone()), "versions differ");
    let unknown = META.replace("2026-07-28", "1900-01-01");
    let headers = [("mcp-protocol-version", "1900-01-01"), CALL[1], CALL[2]];
    let Class::Reject(rejection) = post(&call(&unknown), &headers, &SessionLookup::Absent, MODERN) else {
        panic!("accepted")
    };
    let error = rejection.error.expect("an error");
    assert_eq!((rejection.status, error.code, rejection.id), (400, code::UNSUPPORTED_PROTOCOL_VERSION, id));
    let data = error.data.expect("data");
    assert_eq!(data.as_str(), r#"{"supported":["2026-07-28"],"requested":"1900-01-01"}"#);
}

#[test]
fn a_modern_initialize_is_a_method_that_does_not_exist() {
    let text = format!(r#"{{"jsonrpc":"2.0","id":5,"method":"initialize","params":{{"_meta":{{{META}}}}}}}"#);
    let headers = [CALL[0], ("mcp-method", "initialize")];
    let refusal = refused(post(&text, &headers, &SessionLookup::Absent, BOTH));
    assert_eq!(refusal, (404, code::METHOD_NOT_FOUND, Some(RequestId::from(5))));
}

#[test]
fn modern_servers_take_neither_responses_nor_batches() {
    let response = r#"{"jsonrpc":"2.0","id":5,"result":{}}"#;
    let refusal = refused(post(response, &CALL[..1], &SessionLookup::Absent, BOTH));
    assert_eq!(refusal, (400, code::INVALID_REQUEST, None));
    let batch = format!("[{PING}]");
    let refusal = refused(post(&batch, &CALL[..1], &SessionLookup::Absent, BOTH));
    assert_eq!(refusal, (400, code::INVALID_REQUEST, None));
}

#[test]
fn modern_notifications_need_a_version_and_no_contradiction() {
    let text = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let modern = Class::Modern { version: Version::V2026_07_28 };
    let with = |headers: List<'_>, versions| post(text, headers, &SessionLookup::Absent, versions);
    assert_eq!(with(&CALL[..1], BOTH), modern);
    assert_eq!(refused(with(&CALL[..2], BOTH)), (400, code::HEADER_MISMATCH, None));
    assert_eq!(refused(with(&[], MODERN)), (400, code::HEADER_MISMATCH, None));
}

#[test]
fn initialize_is_legacy_or_names_what_is_offered() {
    let legacy = Class::Legacy { kind: LegacyKind::Initialize, version: Version::V2025_11_25 };
    for headers in [&[][..], &[("mcp-protocol-version", "2025-11-25")], &CALL[..1]] {
        assert_eq!(post(INITIALIZE, headers, &SessionLookup::Absent, BOTH), legacy);
    }
    let Class::Reject(rejection) = post(INITIALIZE, &[], &SessionLookup::Absent, MODERN) else {
        panic!("accepted")
    };
    let error = rejection.error.expect("an error");
    assert_eq!((rejection.status, error.code), (400, code::UNSUPPORTED_PROTOCOL_VERSION));
    let data = error.data.expect("data");
    assert_eq!(data.as_str(), r#"{"supported":["2026-07-28"],"requested":"2025-11-25"}"#);
}

#[test]
fn legacy_requests_follow_their_session() {
    let known = SessionLookup::Known(Version::V2025_06_18);
    let legacy = Class::Legacy { kind: LegacyKind::Message, version: Version::V2025_06_18 };
    let header = [("mcp-protocol-version", "2025-06-18")];
    assert_eq!(post(PING, &header, &known, BOTH), legacy);
    assert_eq!(post(PING, &[], &known, BOTH), legacy);
    let id = Some(RequestId::from(5));
    let refusal = |headers: List<'_>, session: &SessionLookup| {
        let (status, _, found) = refused(post(PING, headers, session, BOTH));
        assert_eq!(found, id);
        status
    };
    assert_eq!(refusal(&header, &SessionLookup::Unknown), 404);
    assert_eq!(refusal(&header, &SessionLookup::Absent), 400);
    assert_eq!(refusal(&[("mcp-protocol-version", "1999-01-01")], &known), 400);
    assert_eq!(refusal(&[("mcp-protocol-version", "1999-01-01")], &SessionLookup::Absent), 400);
    assert_eq!(refusal(&[("mcp-protocol-version", "2026-07-28")], &known), 400);
    assert_eq!(refusal(&[header[0], header[0]], &known), 400);
    let offer = Offer { versions: LEGACY, sessions: false };
    let decoded = body(PING);
    let class = |headers: List<'_>| {
        classify(HttpMethod::Post, headers, Some(decoded.as_ref()), &SessionLookup::Absent, &offer)
    };
    assert_eq!(class(&[]), Class::Legacy { kind: LegacyKind::Message, version: Version::V2025_03_26 });
    assert_eq!(class(&header), legacy);
    assert_eq!(refused(class(&CALL[..1])).0, 400, "a legacy server and a modern header");
}

#[test]
fn batches_are_for_the_one_revision_that_has_them() {
    let batch = format!("[{PING},{PING}]");
    let class = |text: &str, version| post(text, &[], &SessionLookup::Known(version), BOTH);
    let legacy = Class::Legacy { kind: LegacyKind::Message, version: Version::V2025_03_26 };
    assert_eq!(class(&batch, Version::V2025_03_26), legacy);
    assert_eq!(refused(class(&batch, Version::V2025_06_18)).0, 400);
    let opens = format!("[{INITIALIZE},{PING}]");
    assert_eq!(refused(class(&opens, Version::V2025_03_26)), (400, code::INVALID_REQUEST, None));
}

#[test]
fn get_and_delete_are_legacy_and_the_rest_is_nothing() {
    let known = SessionLookup::Known(Version::V2025_11_25);
    let class = |method, session: &SessionLookup, versions| {
        let headers: List<'_> = &[];
        classify(method, headers, None, session, &Offer { versions, sessions: true })
    };
    for (method, kind) in [(HttpMethod::Get, LegacyKind::Stream), (HttpMethod::Delete, LegacyKind::End)] {
        assert_eq!(class(method, &known, BOTH), Class::Legacy { kind, version: Version::V2025_11_25 });
        assert_eq!(refused(class(method, &SessionLookup::Unknown, BOTH)).0, 404);
        assert_eq!(refused(class(method, &SessionLookup::Absent, BOTH)).0, 400);
        let nothing = Rejection { status: 405, id: None, error: None };
        assert_eq!(class(method, &known, MODERN), Class::Reject(nothing));
    }
    for name in ["PUT", "OPTIONS", "get", ""] {
        let class = class(HttpMethod::parse(name), &known, BOTH);
        assert_eq!(class, Class::Reject(Rejection { status: 405, id: None, error: None }), "{name}");
    }
}

#[test]
fn what_is_no_message_is_refused() {
    for (text, expected) in [("{", code::PARSE_ERROR), ("{}", code::INVALID_REQUEST), ("", code::PARSE_ERROR)]
    {
        let (status, found, id) = refused(post(text, CALL, &SessionLookup::Absent, BOTH));
        assert_eq!((status, found, id), (400, expected, None), "{text:?}");
    }
    let headers: List<'_> = &[];
    let offer = Offer { versions: BOTH, sessions: true };
    let class = classify(HttpMethod::Post, headers, None, &SessionLookup::Absent, &offer);
    assert_eq!(refused(class), (400, code::PARSE_ERROR, None));
}

#[test]
fn errors_have_their_status() {
    for (code, expected) in [
        (code::HEADER_MISMATCH, 400),
        (code::MISSING_REQUIRED_CLIENT_CAPABILITY, 400),
        (code::UNSUPPORTED_PROTOCOL_VERSION, 400),
        (code::METHOD_NOT_FOUND, 404),
        (code::INVALID_PARAMS, 200),
        (code::INTERNAL_ERROR, 200),
        (1, 200),
    ] {
        assert_eq!(status(code), expected, "{code}");
    }
}

#[test]
fn s17_s18_c9_the_reply_to_a_probe_decides_once() {
    let error = |code| ErrorObject::new(code, "");
    let unsupported = error(-32022).with_data(raw(r#"{"supported":["2026-07-28","2025-11-25",1]}"#));
    let choose = || ProbeVerdict::Modern { supported: vec![Version::V2026_07_28, Version::V2025_11_25] };
    let modern = || ProbeVerdict::Modern { supported: vec![] };
    let (not_found, server, mismatch, bare) = (error(-32601), error(-32000), error(-32020), error(-32022));
    for (probe, status, body, expected) in [
        (Probe::Discover, 200, ProbeBody::Result, modern()),
        (Probe::Discover, 400, ProbeBody::Error(&unsupported), choose()),
        (Probe::Discover, 200, ProbeBody::Error(&unsupported), choose()),
        (Probe::Discover, 400, ProbeBody::Error(&bare), modern()),
        (Probe::Discover, 400, ProbeBody::Error(&mismatch), ProbeVerdict::ModernRefusal),
        (Probe::Discover, 404, ProbeBody::Error(&not_found), ProbeVerdict::Legacy),
        (Probe::Discover, 200, ProbeBody::Error(&not_found), ProbeVerdict::Legacy),
        (Probe::Discover, 400, ProbeBody::Error(&server), ProbeVerdict::Legacy),
        (Probe::Discover, 400, ProbeBody::Other, ProbeVerdict::Legacy),
        (Probe::Discover, 404, ProbeBody::Other, ProbeVerdict::Legacy),
        (Probe::Discover, 405, ProbeBody::Other, ProbeVerdict::Legacy),
        (Probe::Discover, 422, ProbeBody::Other, ProbeVerdict::Legacy),
        (Probe::Discover, 500, ProbeBody::Other, ProbeVerdict::Legacy),
        (Probe::Discover, 200, ProbeBody::Other, ProbeVerdict::Legacy),
        (Probe::Discover, 401, ProbeBody::Other, ProbeVerdict::Authenticate),
        (Probe::Discover, 403, ProbeBody::Error(&server), ProbeVerdict::Authenticate),
        (Probe::Discover, 503, ProbeBody::Other, ProbeVerdict::Unavailable),
        (Probe::Discover, 429, ProbeBody::Other, ProbeVerdict::Unavailable),
        (Probe::Discover, 302, ProbeBody::Other, ProbeVerdict::Failed),
        (Probe::Initialize, 200, ProbeBody::Result, ProbeVerdict::Legacy),
        (Probe::Initialize, 400, ProbeBody::Other, ProbeVerdict::TryHttpSse),
        (Probe::Initialize, 404, ProbeBody::Error(&not_found), ProbeVerdict::TryHttpSse),
        (Probe::Initialize, 405, ProbeBody::Other, ProbeVerdict::TryHttpSse),
        (Probe::Initialize, 400, ProbeBody::Error(&unsupported), choose()),
        (Probe::Initialize, 401, ProbeBody::Other, ProbeVerdict::Authenticate),
        (Probe::Initialize, 410, ProbeBody::Other, ProbeVerdict::Failed),
        (Probe::Initialize, 500, ProbeBody::Other, ProbeVerdict::Failed),
        (Probe::Initialize, 200, ProbeBody::Other, ProbeVerdict::Failed),
        (Probe::Initialize, 200, ProbeBody::Error(&server), ProbeVerdict::Failed),
    ] {
        assert_eq!(verdict(probe, status, body), expected, "{probe:?} {status} {body:?}");
    }
}

// --- Hosts and origins ------------------------------------------------------------------------------------------

#[test]
fn f107_only_hosts_that_are_allowed() {
    let mut listed = OriginPolicy::loopback();
    listed.allow_host("Mcp.Example:8443").expect("a host");
    listed.allow_host("any-port.example").expect("a host");
    for (host, by_default, when_listed) in [
        (Some("localhost"), true, true),
        (Some("LOCALHOST:8080"), true, true),
        (Some("127.0.0.1"), true, true),
        (Some("127.0.0.1:3000"), true, true),
        (Some("[::1]"), true, true),
        (Some("[::1]:3000"), true, true),
        (Some("[0:0:0:0:0:0:0:1]"), true, true),
        (Some("evil.example"), false, false),
        (Some("evil.example:8080"), false, false),
        (Some("localhost.evil.example"), false, false),
        (Some("localhost."), false, false),
        (Some("127.0.0.1."), false, false),
        (Some("0.0.0.0"), false, false),
        (Some("[::]"), false, false),
        (Some("[::ffff:127.0.0.1]"), false, false),
        (Some("::1"), false, false),
        (Some("127.1"), false, false),
        (Some("0x7f.0.0.1"), false, false),
        (Some("2130706433"), false, false),
        (Some("localhost:"), false, false),
        (Some("localhost:0"), false, false),
        (Some("localhost:99999"), false, false),
        (Some("localhost:80@evil.example"), false, false),
        (Some("evil.example, localhost"), false, false),
        (Some(""), false, false),
        (None, false, false),
        (Some("mcp.example:8443"), false, true),
        (Some("mcp.example"), false, false),
        (Some("mcp.example:1"), false, false),
        (Some("any-port.example"), false, true),
        (Some("any-port.example:1"), false, true),
    ] {
        let headers: Vec<_> = host.map(|host| ("Host", host)).into_iter().collect();
        let check = |policy: &OriginPolicy| policy.check(&headers[..]);
        let expected = |allowed| if allowed { Ok(()) } else { Err(OriginDenied::Host) };
        assert_eq!(check(&OriginPolicy::loopback()), expected(by_default), "{host:?}");
        assert_eq!(check(&listed), expected(when_listed), "{host:?}");
        assert_eq!(check(&OriginPolicy::new()), Err(OriginDenied::Host));
    }
    let twice = [("host", "localhost"), ("Host", "localhost")];
    assert_eq!(OriginPolicy::loopback().check(&twice[..]), Err(OriginDenied::Host));
}

#[test]
fn f108_only_pages_that_are_allowed() {
    let mut listed = OriginPolicy::loopback();
    listed.allow_origin("https://app.example").expect("an origin");
    for (origin, by_default, when_listed) in [
        (None, true, true),
        (Some("http://localhost"), true, true),
        (Some("https://localhost:5173"), true, true),
        (Some("http://127.0.0.1:6274"), true, true),
        (Some("http://[::1]:6274"), true, true),
        (Some("null"), false, false),
        (Some(""), false, false),
        (Some("http://evil.example"), false, false),
        (Some("http://localhost.evil.example"), false, false),
        (Some("http://0.0.0.0"), false, false),
        (Some("http://localhost/path"), false, false),
        (Some("http://localhost@evil.example"), false, false),
        (Some("file://"), false, false),
        (Some("chrome-extension://abc"), false, false),
        (Some("https://app.example"), false, true),
        (Some("https://app.example:443"), false, true),
        (Some("http://app.example"), false, false),
        (Some("https://app.example:444"), false, false),
    ] {
        let mut headers = vec![("host", "localhost")];
        headers.extend(origin.map(|origin| ("Origin", origin)));
        let expected = |allowed| if allowed { Ok(()) } else { Err(OriginDenied::Origin) };
        assert_eq!(OriginPolicy::loopback().check(&headers[..]), expected(by_default), "{origin:?}");
        assert_eq!(listed.check(&headers[..]), expected(when_listed), "{origin:?}");
    }
    let twice = [("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://localhost")];
    assert_eq!(OriginPolicy::loopback().check(&twice[..]), Err(OriginDenied::Origin));
}

#[test]
fn f109_a_body_says_that_it_is_json() {
    for (content_type, expected) in [
        (Some("application/json"), true),
        (Some("Application/JSON; charset=utf-8"), true),
        (Some(" application/json ;x=y"), true),
        (Some("text/plain"), false),
        (Some("text/plain; application/json"), false),
        (Some("application/jsonp"), false),
        (Some("application/x-www-form-urlencoded"), false),
        (Some(""), false),
        (None, false),
    ] {
        let headers: Vec<_> = content_type.map(|value| ("content-type", value)).into_iter().collect();
        assert_eq!(has_json_body(&headers[..]), expected, "{content_type:?}");
    }
    let twice = [("content-type", "application/json"), ("content-type", "text/plain")];
    assert!(!has_json_body(&twice[..]));
}

#[test]
fn f109_a_client_takes_both_kinds_of_reply() {
    const BOTH: &[MediaType] = &[MediaType::Json, MediaType::EventStream];
    for (accept, expected) in [
        (&["application/json, text/event-stream"][..], true),
        (&["text/event-stream;q=0.5,application/json;q=1"], true),
        (&["application/json", "text/event-stream"], true),
        (&["*/*"], true),
        (&["application/*, text/*;q=0.1"], true),
        (&["application/json"], false),
        (&["text/event-stream"], false),
        (&["application/json, text/event-stream;q=0"], false),
        (&["application/json, text/event-stream; q=0.000"], false),
        (&["text/html"], false),
        (&[""], false),
        (&[], false),
    ] {
        let headers: Vec<_> = accept.iter().map(|value| ("Accept", *value)).collect();
        assert_eq!(accepts(&headers[..], BOTH), expected, "{accept:?}");
    }
    let stream = [("accept", "text/event-stream")];
    assert!(accepts(&stream[..], &[MediaType::EventStream]), "all that GET needs");
}

#[test]
fn the_reply_is_read_by_its_type() {
    assert_eq!(MediaType::of(Some(b"text/event-stream;charset=utf-8")), MediaType::EventStream);
    assert_eq!(MediaType::of(Some(b"application/json")), MediaType::Json);
    assert_eq!(MediaType::of(Some(b"text/html")), MediaType::Other);
    assert_eq!(MediaType::of(None), MediaType::Other);
}

#[test]
fn f115_origins_are_equal_or_they_are_not() {
    for (one, other, expected) in [
        ("https://a.example/x", "https://A.example:443/y?z#w", true),
        ("http://a.example:80", "http://a.example", true),
        ("http://[::1]:1/", "http://[0::1]:1", true),
        ("https://a.example", "http://a.example", false),
        ("https://a.example", "https://a.example:444", false),
        ("https://a.example", "https://b.example", false),
        ("https://a.example", "https://a.example.", false),
        ("https://a.example", "https://u@a.example", false),
        ("https://a.example", "https:a.example", false),
        ("nonsense", "nonsense", false),
    ] {
        assert_eq!(same_origin(one, other), expected, "{one} {other}");
    }
    for (url, error) in [
        ("ftp://a", OriginError::Scheme),
        ("a.example", OriginError::Scheme),
        ("http://user:secret@a", OriginError::UserInfo),
        ("http://", OriginError::Host),
        ("http:///path", OriginError::Host),
        ("http://a b", OriginError::Character),
        ("http://a\\b", OriginError::Character),
        ("http://a\n", OriginError::Character),
        ("http://%61", OriginError::Host),
        ("http://bücher.example", OriginError::Host),
        ("http://[::1", OriginError::Host),
        ("http://[fe80::1%25eth0]", OriginError::Host),
        ("http://0x7f.1", OriginError::Host),
        ("http://a:b", OriginError::Port),
        ("http://a:65536", OriginError::Port),
        ("http://a:+80", OriginError::Port),
    ] {
        assert_eq!(Origin::of(url), Err(error), "{url:?}");
    }
    assert!(Origin::of("http://127.9.9.9:1").expect("a URL").is_loopback());
    assert!(!Origin::of("http://example.com").expect("a URL").is_loopback());
    assert_eq!(Origin::of("HTTPS://[::1]:443/x").expect("a URL").to_string(), "https://[::1]");
}

#[test]
fn f115_f127_nothing_leads_to_another_origin() {
    let base = "https://a.example:8443/mcp/sse?x=1#f";
    for (reference, expected) in [
        ("/messages?sessionId=1", Ok("https://a.example:8443/messages?sessionId=1")),
        ("messages", Ok("https://a.example:8443/mcp/messages")),
        ("?y=2", Ok("https://a.example:8443/mcp/sse?y=2")),
        ("", Ok("https://a.example:8443/mcp/sse?x=1")),
        ("https://a.example:8443/m", Ok("https://a.example:8443/m")),
        ("HTTPS://A.example:8443/m", Ok("HTTPS://A.example:8443/m")),
        ("//a.example:8443/m", Ok("https://a.example:8443/m")),
        ("https://evil.example/m", Err(OriginError::OtherOrigin)),
        ("http://a.example:8443/m", Err(OriginError::OtherOrigin)),
        ("https://a.example/m", Err(OriginError::OtherOrigin)),
        ("//evil.example/m", Err(OriginError::OtherOrigin)),
        ("///evil.example/m", Err(OriginError::Host)),
        ("/\\evil.example/m", Err(OriginError::Character)),
        ("\t//evil.example", Err(OriginError::Character)),
        ("https:\\\\evil.example", Err(OriginError::Character)),
        ("https://a.example:8443@evil.example/", Err(OriginError::UserInfo)),
        ("javascript:alert(1)", Err(OriginError::Scheme)),
        ("file:///etc/passwd", Err(OriginError::Scheme)),
        ("https:/m", Err(OriginError::Scheme)),
    ] {
        let resolved = resolve_same_origin(base, reference);
        assert_eq!(resolved.as_deref(), expected.as_ref().copied(), "{reference:?}");
    }
    assert_eq!(resolve_same_origin("http://a", "m").as_deref(), Ok("http://a/m"));
    assert_eq!(resolve_same_origin("http://a?x", "m").as_deref(), Ok("http://a/m"));
}

#[test]
fn header_names_have_no_case() {
    let headers = [("MCP-Session-Id", "1"), ("x", "2"), ("mcp-session-id", "3")];
    let found: Vec<_> = headers[..].values("mcp-session-id").collect();
    assert_eq!(found, [b"1", b"3"]);
    assert_eq!(headers[..].value("last-event-id"), None);
}
