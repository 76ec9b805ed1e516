//! What is special about the types: numbers, unions, unknown words and names, presence. Every example of the
//! specification is read and written in `tests/schema.rs`.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;
use crate::{Method, ProgressToken, Raw, RequestId, Version};

fn raw(text: &str) -> Raw {
    Raw::parse(text.to_owned()).expect("the test's text is valid")
}

fn read<T: DeserializeOwned>(text: &str) -> T {
    raw(text).decode().expect("the test's text has the shape")
}

fn refused<T: DeserializeOwned + core::fmt::Debug>(text: &str) -> String {
    raw(text).decode::<T>().expect_err("the test's text has not the shape").to_string()
}

fn written<T: Serialize>(value: &T) -> String {
    Raw::from_value(value).expect("the test's value can be written").as_str().to_owned()
}

/// Reads and writes; what comes out is what went in, in this crate's reader and in serde_json's.
fn same<T: Serialize + DeserializeOwned>(text: &str) -> T {
    let value: T = read(text);
    assert_eq!(written(&value), text);
    let other: T = serde_json::from_str(text).expect("serde_json reads it too");
    assert_eq!(serde_json::to_string(&other).expect("serde_json writes it too"), text);
    value
}

#[test]
fn a_double_without_a_fraction_is_written_as_an_integer() {
    let progress = |value| written(&ProgressParams::new(ProgressToken::from(1), value));
    assert_eq!(progress(50.0), r#"{"progressToken":1,"progress":50}"#);
    assert_eq!(progress(0.5), r#"{"progressToken":1,"progress":0.5}"#);
    assert_eq!(progress(-3.0), r#"{"progressToken":1,"progress":-3}"#);
    // Above 2^53 a double is no longer exact, and below zero there are two zeros.
    assert_eq!(progress(9_007_199_254_740_992.0), r#"{"progressToken":1,"progress":9007199254740992}"#);
    assert_eq!(progress(-0.0), r#"{"progressToken":1,"progress":0}"#);
    assert!(Raw::from_value(&ProgressParams::new(ProgressToken::from(1), f64::NAN)).is_err());
    assert!(Raw::from_value(&ProgressParams::new(ProgressToken::from(1), f64::INFINITY)).is_err());
    let huge: ProgressParams = read(&progress(1e300));
    assert_eq!(huge.progress.to_bits(), 1e300_f64.to_bits());
    same::<ProgressParams>(r#"{"progressToken":"t","progress":1,"total":2.5,"message":"m"}"#);
}

#[test]
fn an_integer_may_be_written_with_a_fraction_of_zero_or_an_exponent() {
    for text in ["60000", "60000.0", "6e4", "6.0E+4"] {
        let metadata: TaskMetadata = read(&format!("{{\"ttl\":{text}}}"));
        assert_eq!(metadata.ttl, Some(60_000), "{text}");
    }
    assert_eq!(read::<ListToolsResult>(r#"{"tools":[],"ttlMs":-1}"#).ttl_ms, Some(-1));
    assert_eq!(read::<TaskMetadata>(r#"{"ttl":null}"#).ttl, None);
    for text in ["0.5", "1e300", "9223372036854775808", "\"1\"", "true", "[]"] {
        let what = refused::<TaskMetadata>(&format!("{{\"ttl\":{text}}}"));
        assert!(what.starts_with("ttl: ") && what.contains("expected a whole number"), "{text}: {what}");
    }
}

#[test]
fn a_task_that_is_kept_for_ever_says_null() {
    let task = same::<Task>(
        r#"{"taskId":"t","status":"working","createdAt":"a","lastUpdatedAt":"b","ttl":null,"pollInterval":5}"#,
    );
    assert_eq!((task.ttl, task.poll_interval), (None, Some(5)));
    let task = same::<ExtensionTask>(
        r#"{"taskId":"t","status":"failed","createdAt":"a","lastUpdatedAt":"b","ttlMs":null,"error":{"code":-32603,"message":"m"},"resultType":"complete"}"#,
    );
    assert!(task.status.is_final());
    let waiting = same::<ExtensionTask>(
        r#"{"taskId":"t","status":"input_required","createdAt":"a","lastUpdatedAt":"b","ttlMs":1,"inputRequests":{"k":{"method":"roots/list"}}}"#,
    );
    assert!(!waiting.status.is_final());
    same::<UpdateTaskParams>(r#"{"taskId":"t","inputResponses":{"k":{"roots":[]}}}"#);
}

#[test]
fn a_structured_null_is_something_else_than_none() {
    let result = same::<CallToolResult>(r#"{"content":[],"structuredContent":null}"#);
    assert_eq!(result.structured_content, Some(Raw::null()));
    assert_eq!(same::<CallToolResult>(r#"{"content":[]}"#).structured_content, None);
    let content = same::<SamplingContent>(
        r#"{"type":"tool_result","toolUseId":"u","content":[],"structuredContent":null}"#,
    );
    assert!(matches!(content, SamplingContent::ToolResult(result) if result.structured_content.is_some()));
}

#[test]
fn a_result_of_a_tool_is_made_in_one_call() {
    assert_eq!(written(&CallToolResult::text("a")), r#"{"content":[{"type":"text","text":"a"}]}"#);
    assert_eq!(
        written(&CallToolResult::error("a")),
        r#"{"content":[{"type":"text","text":"a"}],"isError":true}"#
    );
    assert_eq!(
        written(&CallToolResult::structured(raw("[1]"))),
        r#"{"content":[{"type":"text","text":"[1]"}],"structuredContent":[1]}"#
    );
    // Seen in the field: a structured result without content.
    assert!(read::<CallToolResult>(r#"{"structuredContent":{}}"#).content.is_empty());
}

#[test]
fn content_of_every_kind_keeps_its_kind_and_an_unknown_one_its_text() {
    let kinds = [
        r#"{"type":"text","text":"a","annotations":{"audience":["user","robot"],"priority":1},"_meta":{"k":[1]}}"#,
        r#"{"type":"image","data":"AA==","mimeType":"image/png"}"#,
        r#"{"type":"audio","data":"AA==","mimeType":"audio/wav"}"#,
        r#"{"type":"resource_link","uri":"a:b","name":"n","size":3}"#,
        r#"{"type":"resource","resource":{"uri":"a:b","text":"t"}}"#,
        r#"{"type":"resource","resource":{"uri":"a:b","blob":"AA==","mimeType":"m/m"}}"#,
        r#"{"type":"resource","resource":{"uri":"a:b","later":1}}"#,
        r#"{"more":1.5,"type":"hologram"}"#,
    ];
    let contents: Vec<Content> = kinds.iter().map(|text| same(text)).collect();
    assert_eq!(contents[0].as_text(), Some("a"));
    assert_eq!(contents[1].as_text(), None);
    assert_eq!(contents[7], Content::Other(raw(kinds[7])));
    // The kind may stand anywhere and be written with escapes.
    let content: Content = read(r#"{"text":"a","t\u0079pe":"te\u0078t"}"#);
    assert_eq!(content, Content::text("a"));
    for text in
        ["{}", "[]", "null", "\"text\"", r#"{"type":1}"#, r#"{"type":"text"}"#, r#"{"type":"text","text":1}"#]
    {
        refused::<Content>(text);
    }
    let what = refused::<CallToolResult>(r#"{"content":[{"type":"text","text":"a"},{"type":"text"}]}"#);
    assert!(what.contains("content[1]") && what.contains("text"), "{what}");
}

#[test]
fn resource_contents_are_distinguished_by_their_members() {
    assert!(matches!(read(r#"{"uri":"u","text":"","blob":""}"#), ResourceContents::Text(_)));
    for text in ["[]", "\"\"", r#"{"text":"t"}"#, r#"{"uri":"u","text":null}"#] {
        refused::<ResourceContents>(text);
    }
}

#[test]
fn a_sampling_message_has_one_piece_or_a_list_and_keeps_which() {
    let one = same::<SamplingMessage>(r#"{"role":"user","content":{"type":"text","text":"a"}}"#);
    let many = same::<SamplingMessage>(r#"{"role":"user","content":[{"type":"text","text":"a"}]}"#);
    assert_eq!(one.content.as_slice(), many.content.as_slice());
    assert_ne!(one.content, many.content);
    let made = SamplingMessage::new(Role::User, TextContent::new("a"));
    assert_eq!(made, one);
    same::<SamplingMessage>(
        r#"{"role":"assistant","content":{"type":"tool_use","id":"i","name":"n","input":{}},"_meta":{}}"#,
    );
}

#[test]
fn every_kind_of_field_is_distinguished() {
    let fields = [
        r#"{"type":"string","title":"t","minLength":1,"format":"email","default":"d"}"#,
        r#"{"type":"integer","minimum":0,"maximum":1.5,"default":1}"#,
        r#"{"type":"number"}"#,
        r#"{"type":"boolean","default":true}"#,
        r#"{"type":"string","enum":["a"]}"#,
        r#"{"type":"string","enum":["a"],"enumNames":["A"]}"#,
        r#"{"type":"string","oneOf":[{"const":"a","title":"A"}],"default":"a"}"#,
        r#"{"type":"array","items":{"type":"string","enum":["a"]},"minItems":1}"#,
        r#"{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]},"default":["a"]}"#,
        r#"{"type":"array","items":{"type":"string"}}"#,
        r#"{"type":"object"}"#,
        r#"{"anyOf":[]}"#,
    ];
    let read: Vec<PrimitiveSchema> = fields.iter().map(|text| same(text)).collect();
    use PrimitiveSchema as Field;
    assert!(matches!(read[0], Field::String(_)));
    assert!(matches!(&read[1], Field::Number(number) if number.kind == NumberType::Integer));
    assert!(matches!(&read[2], Field::Number(number) if number.kind == NumberType::Number));
    assert!(matches!(read[3], Field::Boolean(_)));
    assert!(matches!(read[4], Field::UntitledSingleSelect(_)));
    assert!(matches!(read[5], Field::LegacyTitled(_)));
    assert!(matches!(read[6], Field::TitledSingleSelect(_)));
    assert!(matches!(read[7], Field::UntitledMultiSelect(_)));
    assert!(matches!(read[8], Field::TitledMultiSelect(_)));
    assert!(read[9..].iter().all(|field| matches!(field, Field::Other(_))));
}

#[test]
fn the_fields_of_a_form_keep_their_order() {
    let text = r#"{"message":"m","requestedSchema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"boolean"},"m":{"type":"number"}},"required":["z"]}}"#;
    let ElicitParams::Form(form) = same::<ElicitParams>(text) else { unreachable!("no mode is a form") };
    assert_eq!(form.requested_schema.properties.keys().collect::<Vec<_>>(), ["z", "a", "m"]);
}

#[test]
fn the_mode_of_an_elicitation_decides_what_it_is() {
    let form = r#"{"message":"m","requestedSchema":{"type":"object","properties":{}},"mode":"form"}"#;
    assert!(!same::<ElicitParams>(form).is_url());
    assert!(same::<ElicitParams>(r#"{"mode":"url","message":"m","url":"https://a"}"#).is_url());
    assert!(matches!(same(r#"{"mode":"voice","message":"m"}"#), ElicitParams::Other(_)));
    for text in [r#"{"mode":1}"#, "[]", r#"{"mode":"url","message":"m"}"#, r#"{"message":"m"}"#] {
        refused::<ElicitParams>(text);
    }
    let result = same::<ElicitResult>(r#"{"action":"accept","content":{"b":[],"a":1.5}}"#);
    assert_eq!(result.content.expect("is there").keys().collect::<Vec<_>>(), ["b", "a"]);
}

#[test]
fn a_question_of_any_kind_says_its_method() {
    let input = same::<InputRequired>(concat!(
        r#"{"inputRequests":{"u":{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"u"}},"#,
        r#""r":{"method":"roots/list"},"s":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}},"#,
        r#""o":{"method":"other/thing","params":{"a":1}},"n":{"method":"other/thing"}},"requestState":"s"}"#,
    ));
    let requests = input.input_requests.expect("is there");
    let methods: Vec<&str> = requests.values().map(InputRequest::method).collect();
    assert_eq!(
        methods,
        ["elicitation/create", "roots/list", "sampling/createMessage", "other/thing", "other/thing"]
    );
    assert!(requests.get("u").is_some_and(InputRequest::is_url_elicitation));
    assert!(!requests.get("r").is_some_and(InputRequest::is_url_elicitation));
    for (name, request) in requests.iter() {
        let params = request.params().expect("can be written");
        assert_eq!(
            &InputRequest::from_parts(request.method(), params).expect("can be read"),
            request,
            "{name}"
        );
    }
    let what = refused::<InputRequest>(r#"{"method":"sampling/createMessage"}"#);
    assert!(what.contains("params"), "{what}");
    refused::<InputRequest>(r#"{"params":{}}"#);
}

#[test]
fn an_answer_is_a_bare_result() {
    let answer =
        InputResponse::from_elicit(&ElicitResult::new(ElicitAction::Decline)).expect("can be written");
    assert_eq!(answer.raw().as_str(), r#"{"action":"decline"}"#);
    assert_eq!(answer.to_elicit().map(|result| result.action), Ok(ElicitAction::Decline));
    assert!(answer.to_list_roots().is_err());
    assert!(InputResponse::from_raw(Raw::null()).is_none());
    refused::<InputResponses>(r#"{"a":1}"#);
    let params = same::<CallToolParams>(
        r#"{"name":"n","inputResponses":{"b":{"action":"cancel"},"a":{"roots":[]}},"requestState":""}"#,
    );
    assert_eq!(params.input_responses.map(|answers| answers.len()), Some(2));
}

#[test]
fn unknown_capabilities_are_kept() {
    let text = r#"{"roots":{"listChanged":true,"deep":1},"sampling":{"tools":{}},"extensions":{"a/b":{}},"telepathy":{"x":[1.0]},"aura":{}}"#;
    let client = same::<ClientCapabilities>(text);
    assert_eq!(client.other.keys().collect::<Vec<_>>(), ["telepathy", "aura"]);
    assert!(client.roots.as_ref().is_some_and(|roots| roots.list_changed == Some(true)));
    assert!(client.roots.is_some_and(|roots| roots.other.contains_key("deep")));
    let server = same::<ServerCapabilities>(
        r#"{"logging":{},"prompts":{},"resources":{"subscribe":true},"tools":{"listChanged":false},"x":null}"#,
    );
    assert_eq!(server.resources.and_then(|resources| resources.subscribe), Some(true));
    // `null` declares nothing.
    assert_eq!(read::<ClientCapabilities>(r#"{"sampling":null}"#), ClientCapabilities::default());
    refused::<ClientCapabilities>("[]");
    refused::<ServerCapabilities>(r#"{"tools":1}"#);
    let made = ServerCapabilities::default().with_tools(ToolsCapability::default().with_list_changed(true));
    assert_eq!(written(&made), r#"{"tools":{"listChanged":true}}"#);
}

#[test]
fn b42_a_capability_that_stands_twice_is_not_read() {
    // serde_json finds no duplicate, so the types must.
    for text in [r#"{"tools":{},"tools":{}}"#, r#"{"x":1,"y":2,"x":3}"#] {
        assert!(serde_json::from_str::<ServerCapabilities>(text).is_err(), "{text}");
        assert!(serde_json::from_str::<Meta>(text).is_err(), "{text}");
    }
}

#[test]
fn b42_a_field_that_stands_twice_is_not_read() {
    // A field that was `null` counts, and one that is unknown does not.
    for text in [r#"{"tools":[],"tools":[]}"#, r#"{"tools":[],"_meta":null,"_meta":{}}"#] {
        let error = serde_json::from_str::<ListToolsResult>(text).expect_err(text);
        assert!(error.to_string().starts_with("duplicate field `"), "{text}: {error}");
    }
    let unknown = r#"{"x":1,"tools":[],"x":2,"nextCursor":"c"}"#;
    let result: ListToolsResult = serde_json::from_str(unknown).expect(unknown);
    assert_eq!(result.next_cursor.as_deref(), Some("c"));
}

#[test]
fn capabilities_for_tasks_name_the_methods_that_they_cover() {
    let tasks = same::<TasksCapability>(
        r#"{"list":{},"requests":{"tools":{"call":{}},"sampling":{},"later":{"thing":{}}}}"#,
    );
    assert!(tasks.covers(&Method::CallTool));
    assert!(!tasks.covers(&Method::CreateMessage));
    assert!(!tasks.covers(&Method::Elicit));
    assert!(!tasks.covers(&Method::Ping));
    assert!(tasks.covers(&Method::parse("later/thing")));
}

#[test]
fn meta_keeps_every_key_in_its_order() {
    let text = r#"{"z":1,"progressToken":"t","io.modelcontextprotocol/subscriptionId":7,"io.modelcontextprotocol/serverInfo":{"name":"n","version":"1"},"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/logLevel":"warning","io.modelcontextprotocol/related-task":{"taskId":"t"},"a":{"deep":1.5}}"#;
    let meta = same::<Meta>(text);
    assert_eq!(meta.progress_token(), Some(ProgressToken::from("t")));
    assert_eq!(meta.subscription_id(), Some(RequestId::from(7)));
    assert_eq!(meta.server_info(), Some(Implementation::new("n", "1")));
    assert_eq!(meta.protocol_version(), Some(Version::V2026_07_28));
    assert_eq!(meta.log_level(), Some(LoggingLevel::Warning));
    assert_eq!(meta.related_task(), Some(RelatedTask::new("t")));
    assert_eq!(meta.client_info(), None);
    let meta = meta.with("progressToken", raw("null")).with("new", raw("[]"));
    assert_eq!(meta.progress_token(), None);
    assert_eq!(meta.iter().last(), Some(("new", &raw("[]"))));
}

#[test]
fn keys_of_meta_have_a_grammar() {
    for key in
        ["", "a", "a_b.c-d", "0", "com.example/", "com.example/a", "io.modelcontextprotocol/x", "a-b.c1/9"]
    {
        assert!(Meta::key_is_valid(key), "{key}");
    }
    for key in ["-", "a.", ".a", "a b", "ä", "/a", "1a/a", "a-/a", "a..b/c", "a/b/c", "a_b/c", "a/-"] {
        assert!(!Meta::key_is_valid(key), "{key}");
    }
}

#[test]
fn log_levels_are_ordered_by_how_serious_they_are() {
    for pair in LoggingLevel::ALL.windows(2) {
        assert!(pair[0] < pair[1]);
    }
    for level in LoggingLevel::ALL {
        assert_eq!(LoggingLevel::parse(level.as_str()), Some(level));
        assert_eq!(read::<LoggingLevel>(&written(&level)), level);
    }
    refused::<LoggingLevel>("\"verbose\"");
    refused::<LoggingLevel>("3");
    let message = same::<LogMessageParams>(r#"{"level":"info","data":null,"logger":"l"}"#);
    assert_eq!(message.data, Raw::null());
    refused::<LogMessageParams>(r#"{"level":"info"}"#);
}

#[test]
fn members_keep_their_order_and_find_their_names() {
    let mut members = Members::from([("b", 1), ("a", 2)]);
    assert_eq!(members.insert("b", 3), Some(1));
    assert_eq!(members.insert("c", 4), None);
    assert_eq!(members.iter().collect::<Vec<_>>(), [("b", &3), ("a", &2), ("c", &4)]);
    assert_eq!(members.remove("a"), Some(2));
    assert_eq!(members.remove("a"), None);
    assert_eq!(written(&members), r#"{"b":3,"c":4}"#);
    assert_eq!(members.into_iter().map(|(name, _)| name).collect::<String>(), "bc");
}

#[test]
fn many_members_are_collected_in_time_and_the_last_of_a_name_counts() {
    let names = || (0..300_000).map(|number| number.to_string());
    let members: Members<u8> = names().map(|name| (name, 1)).chain([("7".to_owned(), 2)]).collect();
    assert_eq!((members.len(), members.get("7"), members.get("8")), (300_000, Some(&2), Some(&1)));
    assert!(members.keys().eq(names()));
}

#[test]
fn the_envelope_of_either_era_is_read() {
    let modern = same::<DiscoverResult>(
        r#"{"supportedVersions":["2026-07-28","2030-01-01"],"capabilities":{},"ttlMs":5,"cacheScope":"public","resultType":"complete"}"#,
    );
    assert_eq!(modern.supported_versions, [Version::V2026_07_28, Version::Other("2030-01-01".into())]);
    assert_eq!(modern.cache_scope, Some(CacheScope::Public));
    same::<InitializeResult>(
        r#"{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"n","version":"v"},"instructions":"i"}"#,
    );
    same::<SubscriptionFilter>(
        r#"{"toolsListChanged":true,"resourceSubscriptions":["a:b"],"taskIds":["t"]}"#,
    );
    same::<UnsupportedVersionData>(r#"{"supported":["2025-11-25"],"requested":"1"}"#);
    same::<MissingCapabilityData>(r#"{"requiredCapabilities":{"sampling":{}}}"#);
    same::<UrlElicitationRequiredData>(
        r#"{"elicitations":[{"mode":"url","message":"m","url":"u","elicitationId":"e"}]}"#,
    );
    same::<CompleteParams>(
        r#"{"ref":{"type":"ref/prompt","name":"n"},"argument":{"name":"a","value":""},"context":{"arguments":{"k":"v"}}}"#,
    );
}

#[test]
fn the_kind_of_a_union_is_read_wherever_it_stands_and_once() {
    // Within an array, where the scanner does not look for repeated keys.
    let text = |content: &str| {
        let read = Raw::parse(format!("[{content}]")).unwrap().decode::<[Content; 1]>();
        read.map(|[content]| content)
    };
    for content in [
        r#"{"type":"text","text":"a\"b","annotations":{"priority":1}}"#,
        r#" { "type" : "text" , "text" : "a\"b" , "annotations" : { "priority" : 1 } } "#,
        r#"{"text":"a\"b","type":"text","annotations":{"priority":1}}"#,
        r#"{"\u0074ype":"te\u0078t","text":"a\"b","annotations":{"priority":1}}"#,
        r#"{"type":"te\u0078t","text":"a\"b","annotations":{"type":"other","priority":1}}"#,
    ] {
        let read = text(content).unwrap();
        assert_eq!(read.as_text(), Some("a\"b"), "{content}");
        assert!(matches!(&read, Content::Text(text) if text.annotations.is_some()), "{content}");
        assert_eq!(serde_json::from_str::<Content>(content).unwrap(), read, "{content}");
    }
    let unknown = r#"{"type":"video","type_":1,"data":[{"type":"text"}]}"#;
    assert_eq!(text(unknown), Ok(Content::Other(Raw::parse(unknown).unwrap())));
    for twice in [
        r#"{"type":"text","text":"a","type":"image"}"#,
        r#"{"type":"text","type":"text","text":"a"}"#,
        r#"{"text":"a","type":"image","type":"text"}"#,
    ] {
        assert_eq!(text(twice).unwrap_err().to_string(), "[0]: the member `type` is repeated", "{twice}");
    }
    for none in [r#"{"text":"a"}"#, r#"{"type":1,"text":"a"}"#, "{}", "[]", "1", r#""type""#] {
        let error = text(none).unwrap_err().to_string();
        assert_eq!(error, "[0]: the member `type` is missing or no string", "{none}");
    }
}

#[test]
fn contents_as_json_are_what_their_type_writes() {
    // On both sides of the size from which a text is converted in place.
    for size in [0, 20_000] {
        let text = "a \"line\"\n".repeat(size);
        for mime_type in [None, Some("text/\"x\"")] {
            let mut contents = TextResourceContents::new("note://\"1\"", text.clone());
            contents.mime_type = mime_type.map(ToOwned::to_owned);
            let contents = ResourceContents::Text(contents);
            let read = ReadResourceResult::text_json("note://\"1\"", mime_type, text.clone());
            let read: ReadResourceResult = read.decode().unwrap();
            assert_eq!(read, ReadResourceResult::new(vec![contents]), "{size}");

            let mut contents = BlobResourceContents::new("note://1", "AAAA".repeat(size));
            contents.mime_type = mime_type.map(ToOwned::to_owned);
            let contents = ResourceContents::Blob(contents);
            let read = ReadResourceResult::blob_json("note://1", mime_type, "AAAA".repeat(size));
            let read: ReadResourceResult = read.decode().unwrap();
            assert_eq!(read, ReadResourceResult::new(vec![contents]), "{size}");
        }
    }
}
