//! Tests of content that our types keep without knowing it, and of content that is easily lost.

use std::fmt::Debug;

use mcpjoin_proto::types::*;
use mcpjoin_proto::{ErrorObject, Raw};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::rows::typed;
use crate::same::difference;

/// Decodes a text as a `T`, and checks that encoding it returns an equal value.
fn kept<T: Serialize + DeserializeOwned>(text: &str) -> (T, String) {
    let raw = Raw::parse(text.to_owned()).unwrap();
    let written = typed::<T>(&raw).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    let before: Value = serde_json::from_str(text).unwrap();
    let after: Value = serde_json::from_str(written.as_str()).unwrap();
    assert_eq!(difference(&before, &after), None, "{text}");
    (raw.decode().unwrap(), written.to_string())
}

/// Checks that the text contains every part, in this order.
fn in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let Some((_, behind)) = rest.split_once(part) else { panic!("{part} is not in its place in {text}") };
        rest = behind;
    }
}

fn unknown_word<T: Serialize + DeserializeOwned + Debug>() {
    for word in [r#""in-a-later-revision""#, r#""""#, r#""Text Caf\u00e9""#] {
        kept::<T>(word);
    }
    for no_word in ["1", "null", "{}", "[]", "true"] {
        let read = Raw::parse(no_word).unwrap().decode::<T>();
        assert!(read.is_err(), "{no_word} has been read as {read:?}");
    }
}

#[test]
fn f19_an_unknown_kind_of_content_is_kept_word_for_word() {
    let unknown =
        r#"{ "type":"hologram", "z":[1.0, 1e2], "a":{"data":null}, "n":123456789012345678901234567890 }"#;
    let (result, written) = kept::<CallToolResult>(&format!(r#"{{"content":[{unknown}]}}"#));
    in_order(&written, &[unknown]);
    assert!(matches!(&result.content[0], Content::Other(raw) if raw.as_str() == unknown));
    let (_, written) = kept::<PromptMessage>(&format!(r#"{{"role":"user","content":{unknown}}}"#));
    in_order(&written, &[unknown]);
    let (_, written) = kept::<SamplingMessage>(&format!(r#"{{"role":"user","content":{unknown}}}"#));
    in_order(&written, &[unknown]);
    let (_, written) =
        kept::<SamplingMessage>(&format!(r#"{{"role":"user","content":[{unknown},{unknown}]}}"#));
    in_order(&written, &[unknown, unknown]);
    let (_, written) = kept::<ToolResultContent>(&format!(
        r#"{{"type":"tool_result","toolUseId":"1","content":[{unknown}]}}"#
    ));
    in_order(&written, &[unknown]);
}

#[test]
fn content_without_a_kind_is_refused() {
    for content in
        [r#"{"text":"a"}"#, r#"{"type":1,"text":"a"}"#, r#"{"type":null}"#, "[]", r#""text""#, "null"]
    {
        let read = Raw::parse(content).unwrap().decode::<Content>();
        assert!(read.is_err(), "{content} has been read as {read:?}");
    }
}

#[test]
fn f19_audio_and_links_are_kept() {
    let text = r#"{"content":[
        {"type":"audio","data":"AAEC","mimeType":"audio/wav","annotations":{"audience":["user"],"priority":1.0}},
        {"type":"resource_link","uri":"file:///a","name":"a","size":3,"_meta":{"k":null}}
    ],"structuredContent":{"a":[1]},"_meta":{"b":1},"isError":false}"#;
    let (result, _) = kept::<CallToolResult>(text);
    assert!(matches!(&result.content[0], Content::Audio(audio) if audio.mime_type == "audio/wav"));
    assert!(matches!(&result.content[1], Content::ResourceLink(link) if link.size == Some(3)));
    assert_eq!(result.is_error, Some(false));
}

#[test]
fn f19_a_tool_without_a_description_is_kept() {
    let text = r#"{"tools":[{"name":"a","inputSchema":{"type":"object"}},{"name":"b","inputSchema":{"type":"object"}}]}"#;
    let (result, written) = kept::<ListToolsResult>(text);
    assert_eq!(result.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(written, text);
    // A null description counts as absent, and is not encoded.
    let null = Raw::parse(r#"{"name":"a","description":null,"inputSchema":{"type":"object"}}"#).unwrap();
    assert_eq!(typed::<Tool>(&null).unwrap().as_str(), r#"{"name":"a","inputSchema":{"type":"object"}}"#);
}

#[test]
fn f19_a_snake_case_schema_is_no_schema() {
    let text = r#"{"name":"a","input_schema":{"type":"object"}}"#;
    let error = Raw::parse(text).unwrap().decode::<Tool>().unwrap_err();
    assert!(error.to_string().contains("inputSchema"), "{error}");
}

#[test]
fn schemas_are_kept_word_for_word() {
    let input = r##"{ "type":"object", "$schema":"http://json-schema.org/draft-07/schema#",
        "properties":{"z":{"const":1.00},"a":{"enum":[null,1E3,9007199254740993]}}, "required":["z", "a"],
        "$defs":{"x":{"$ref":"#"}}, "x-of-our-own":{"b":1, "a":2} }"##;
    let output = r#"{"anyOf":[ {"type":"null"}, true ]}"#;
    let (tool, written) =
        kept::<Tool>(&format!(r#"{{"name":"a","inputSchema":{input},"outputSchema":{output}}}"#));
    assert_eq!(tool.input_schema.as_str(), input);
    assert_eq!(tool.output_schema.as_ref().map(Raw::as_str), Some(output));
    in_order(&written, &[input]);
    in_order(&written, &[output]);
}

#[test]
fn arguments_and_structured_content_are_kept_word_for_word() {
    let value = r#"{ "z":18446744073709551616, "a":1.10, "m":{"é":"\u00e9\ud83d\ude00"}, "e":-0.0 }"#;
    let (params, written) = kept::<CallToolParams>(&format!(r#"{{"name":"a","arguments":{value}}}"#));
    assert_eq!(params.arguments.as_ref().map(Raw::as_str), Some(value));
    in_order(&written, &[value]);
    let (result, written) =
        kept::<CallToolResult>(&format!(r#"{{"content":[],"structuredContent":{value}}}"#));
    assert_eq!(result.structured_content.as_ref().map(Raw::as_str), Some(value));
    in_order(&written, &[value]);
    let (_, written) =
        kept::<ToolUseContent>(&format!(r#"{{"type":"tool_use","id":"1","name":"a","input":{value}}}"#));
    in_order(&written, &[value]);
}

#[test]
fn null_is_a_value_where_any_value_may_be() {
    let (result, _) = kept::<CallToolResult>(r#"{"content":[],"structuredContent":null}"#);
    assert_eq!(result.structured_content, Some(Raw::null()));
    let (result, _) = kept::<CallToolResult>(r#"{"content":[]}"#);
    assert_eq!(result.structured_content, None);
    kept::<ToolResultContent>(
        r#"{"type":"tool_result","toolUseId":"1","content":[],"structuredContent":null}"#,
    );
    kept::<LogMessageParams>(r#"{"level":"info","data":null}"#);
    kept::<ErrorObject>(r#"{"code":1,"message":"","data":null}"#);
    kept::<Meta>(r#"{"a":null}"#);
}

#[test]
fn b52_unknown_capabilities_are_kept_at_every_level() {
    let server = r#"{"tools":{"listChanged":true,"x":[1]},"resources":{"subscribe":false,"y":null},
        "prompts":{"z":{}},"logging":{"w":1},"completions":{"v":1},"experimental":{"u":{"t":1}},
        "extensions":{"io.modelcontextprotocol/tasks":{"s":1}},
        "tasks":{"list":{},"r":1,"requests":{"tools":{"call":{},"q":1},"other":{"p":1}}},
        "of-a-later-revision":{"o":[{}]},"null":null}"#;
    let (server, _) = kept::<ServerCapabilities>(server);
    assert!(server.other.contains_key("of-a-later-revision"));
    let client = r#"{"roots":{"listChanged":true,"x":[1]},"sampling":{"tools":{"y":1},"context":{},"z":1},
        "elicitation":{"form":{"w":1},"url":{},"v":1},"experimental":{"u":{"t":1}},"extensions":{"a/b":{}},
        "tasks":{"requests":{"sampling":{"createMessage":{}},"elicitation":{"create":{}},"s":{}}},
        "of-a-later-revision":true}"#;
    let (client, _) = kept::<ClientCapabilities>(client);
    assert!(client.other.contains_key("of-a-later-revision"));
}

#[test]
fn b52_the_keys_of_meta_are_kept_in_their_order() {
    let meta =
        r#""_meta":{"z":1,"progressToken":"p","a":{"c":1, "b":2},"io.modelcontextprotocol/x":null,"":1.0}"#;
    let (_, written) = kept::<CallToolParams>(&format!(r#"{{"name":"a",{meta}}}"#));
    in_order(&written, &[meta]);
    let (_, written) = kept::<CallToolResult>(&format!(r#"{{"content":[],{meta}}}"#));
    in_order(&written, &[meta]);
    let (_, written) = kept::<EmptyResult>(&format!("{{{meta}}}"));
    in_order(&written, &[meta]);
    let (_, written) = kept::<NotificationParams>(&format!("{{{meta}}}"));
    in_order(&written, &[meta]);
    let (_, written) = kept::<Tool>(&format!(r#"{{"name":"a","inputSchema":{{"type":"object"}},{meta}}}"#));
    in_order(&written, &[meta]);
}

#[test]
fn input_requests_and_answers_are_kept_in_their_order() {
    let requests = r#"{"z":{"method":"roots/list"},"a":{"method":"elicitation/create",
        "params":{"mode":"url","message":"m","url":"https://example.com/"}}}"#;
    let (_, written) = kept::<InputRequests>(requests);
    in_order(&written, &[r#""z""#, r#""a""#]);
    let responses = r#"{"z":{"action":"decline"},"a":{"roots":[]}}"#;
    let (_, written) = kept::<InputResponses>(responses);
    in_order(&written, &[r#""z""#, r#""a""#]);
}

#[test]
fn an_empty_cursor_is_a_cursor() {
    let (params, _) = kept::<PageParams>(r#"{"cursor":""}"#);
    assert_eq!(params.cursor.as_deref(), Some(""));
    let (result, _) = kept::<ListToolsResult>(r#"{"tools":[],"nextCursor":""}"#);
    assert_eq!(result.next_cursor.as_deref(), Some(""));
    let (result, _) = kept::<ListToolsResult>(r#"{"tools":[]}"#);
    assert_eq!(result.next_cursor, None);
}

#[test]
fn an_empty_list_is_a_list() {
    kept::<Prompt>(r#"{"name":"a","arguments":[]}"#);
    kept::<Implementation>(r#"{"name":"a","version":"1","icons":[]}"#);
    kept::<Annotations>(r#"{"audience":[]}"#);
    kept::<ModelPreferences>(r#"{"hints":[{}]}"#);
    kept::<CreateMessageParams>(r#"{"messages":[],"maxTokens":1,"stopSequences":[],"tools":[]}"#);
    kept::<SamplingMessage>(r#"{"role":"user","content":[]}"#);
}

#[test]
fn one_content_and_a_list_of_one_are_distinguished() {
    let (_, written) = kept::<SamplingMessage>(r#"{"role":"user","content":{"type":"text","text":"a"}}"#);
    in_order(&written, &[r#""content":{"#]);
    let (_, written) = kept::<SamplingMessage>(r#"{"role":"user","content":[{"type":"text","text":"a"}]}"#);
    in_order(&written, &[r#""content":[{"#]);
}

#[test]
fn words_that_no_revision_has_are_kept() {
    unknown_word::<Role>();
    unknown_word::<IconTheme>();
    unknown_word::<CacheScope>();
    unknown_word::<TaskStatus>();
    unknown_word::<TaskSupport>();
    unknown_word::<IncludeContext>();
    unknown_word::<ToolChoiceMode>();
    unknown_word::<StopReason>();
    unknown_word::<ElicitAction>();
    unknown_word::<StringFormat>();
}

/// Levels have an order, and an unknown level would have no place in it.
#[test]
fn there_are_eight_levels() {
    for level in LoggingLevel::ALL {
        kept::<LoggingLevel>(&format!("{:?}", level.as_str()));
    }
    for other in ["\"warn\"", "\"Error\"", "\"\"", "3", "null"] {
        assert!(Raw::parse(other).unwrap().decode::<LoggingLevel>().is_err(), "{other}");
    }
}

/// A roots request with empty params means the same as one without params.
#[test]
fn empty_params_of_a_question_may_go() {
    let question = Raw::parse(r#"{"method":"roots/list","params":{}}"#).unwrap();
    assert_eq!(typed::<InputRequest>(&question).unwrap().as_str(), r#"{"method":"roots/list"}"#);
    kept::<InputRequest>(r#"{"method":"roots/list","params":{"_meta":{}}}"#);
    kept::<InputRequest>(r#"{"method":"of-a-later-revision","params":{}}"#);
}
