//! Answers with the least work of an echo server, in 2025-11-25: copies the id and the text unchanged.

use std::borrow::Cow;

use mcpjoin_proto::scan;
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The version, unless the client asks for another: an older client cannot use this one.
const VERSION: &str = "2025-11-25";
const TOOLS: &str = r#"{"tools":[{"name":"echo","description":"Says what it is told","inputSchema":{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}}]}"#;

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    arguments: Arguments<'a>,
}

#[derive(Deserialize)]
struct Initialize<'a> {
    #[serde(borrow, rename = "protocolVersion")]
    version: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    message: &'a RawValue,
}

/// Appends the response to a line, without a line feed; false when it has none.
pub fn borrowed(line: &[u8], out: &mut Vec<u8>) -> bool {
    let request: Request<'_> = serde_json::from_slice(line).expect("the generator writes requests");
    let Some(id) = request.id else { return false };
    begin(out, id.get().as_bytes());
    if request.method == "tools/call" {
        let params = request.params.expect("a call has params").get();
        let call: Call<'_> = serde_json::from_str(params).expect("a call of echo");
        echo(out, call.arguments.message.get().as_bytes());
    } else if request.method == "initialize" {
        let params = request.params.map_or("", RawValue::get);
        initialize(out, serde_json::from_str(params).map_or(VERSION.into(), |it: Initialize<'_>| it.version));
    } else {
        result(out, &request.method);
    }
    true
}

/// The same after one scan that checks everything. The parts are then found by their names at known places, because the
/// floor server may assume a known client.
pub fn scanned(line: &[u8], out: &mut Vec<u8>) -> bool {
    scan::value(line).expect("the generator writes JSON");
    let Some(id) = after(line, b"\"id\":") else { return false };
    let digits = id.iter().take_while(|byte| byte.is_ascii_digit()).count();
    begin(out, &id[..digits]);
    match after(line, b"\"message\":") {
        // The text is the last member of a call: `"...."}}}`.
        Some(message) => echo(out, &message[..message.len() - 3]),
        None => {
            let method = after(line, b"\"method\":\"").expect("a request has a method");
            let end = memchr::memchr(b'"', method).expect("a string has an end");
            result(out, std::str::from_utf8(&method[..end]).expect("it was scanned"));
        }
    }
    true
}

/// The bytes after a name.
pub(crate) fn after<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    // All names are in the first bytes of a call.
    let head = &line[..line.len().min(256)];
    memmem::find(head, name).map(|at| &line[at + name.len()..])
}

fn begin(out: &mut Vec<u8>, id: &[u8]) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id);
}

fn echo(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(br#","result":{"content":[{"type":"text","text":"#);
    out.extend_from_slice(text);
    out.extend_from_slice(b"}]}}");
}

fn initialize(out: &mut Vec<u8>, version: Cow<'_, str>) {
    let about = r#"","capabilities":{"tools":{}},"serverInfo":{"name":"floor","version":"0.0.0"}}}"#;
    for part in [r#","result":{"protocolVersion":""#, &version, about] {
        out.extend_from_slice(part.as_bytes());
    }
}

fn result(out: &mut Vec<u8>, method: &str) {
    let result = match method {
        "initialize" => return initialize(out, VERSION.into()),
        "tools/list" => TOOLS,
        "ping" => "{}",
        _ => {
            out.extend_from_slice(br#","error":{"code":-32601,"message":"Method not found"}}"#);
            return;
        }
    };
    out.extend_from_slice(b",\"result\":");
    out.extend_from_slice(result.as_bytes());
    out.push(b'}');
}
