//! Decoding: compares our scanner with all its checks with other parsers on the same bytes.

use std::borrow::Cow;
use std::hint::black_box;

use bytes::Bytes;
use mcpjoin::proto::decode::{Decoded, decode};
use mcpjoin::proto::types::{CallToolParams, CallToolResult, ListToolsResult};
use mcpjoin::proto::{DecodeLimits, Message};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::harness::{Cost, compare};
use crate::texts;

/// The least that any parser must read: the kind of the message, and the place of its payload. It does not reject deep
/// nesting, duplicate keys inside the payload, or unpaired surrogates.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

pub(crate) fn run(rounds: usize) {
    println!("## Decoding, CPU time per message (median, 10 % to 90 % of {rounds} rounds)\n");
    println!(
        "| message | bytes | ours | serde_json envelope | serde_json Value | ours, typed | rmcp | ours / envelope | Value / ours | rmcp / ours, typed |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let call = texts::call();
    row::<ClientJsonRpcMessage>("tools/call", &call, rounds, &typed_params::<CallToolParams>);
    let list = texts::tools_list();
    row::<ServerJsonRpcMessage>("tools/list result", &list, rounds, &typed_result::<ListToolsResult>);
    for length in [64 * 1024, 4 * 1024 * 1024] {
        let text = texts::text_result(length);
        row::<ServerJsonRpcMessage>("text result", &text, rounds, &typed_result::<CallToolResult>);
    }
    println!();
}

fn row<Theirs: DeserializeOwned>(name: &str, text: &Bytes, rounds: usize, typed: &dyn Fn(&Message)) {
    let limits = DecodeLimits::default();
    let costs: Vec<Cost> = compare(
        rounds,
        &mut [
            &mut || drop(black_box(ours(text, &limits))),
            &mut || envelope(text),
            &mut || drop(black_box(serde_json::from_slice::<serde_json::Value>(text).expect("valid"))),
            &mut || typed(&ours(text, &limits)),
            &mut || drop(black_box(serde_json::from_slice::<Theirs>(text).expect("valid"))),
        ],
    );
    let [ours, envelope, value, typed, rmcp] = costs[..] else { unreachable!("five candidates") };
    println!(
        "| {name} | {} | {ours} | {envelope} | {value} | {typed} | {rmcp} | {:.2} | {:.1} | {:.1} |",
        text.len(),
        ours.median / envelope.median,
        value.median / ours.median,
        rmcp.median / typed.median,
    );
}

pub(crate) fn ours(text: &Bytes, limits: &DecodeLimits) -> Message {
    match decode(black_box(text), limits) {
        Ok(Decoded::Message(message)) => message,
        other => panic!("{other:?}"),
    }
}

fn envelope(text: &Bytes) {
    let read: Envelope<'_> = serde_json::from_slice(black_box(text)).expect("valid");
    assert_eq!(read.jsonrpc, "2.0");
    black_box((read.id, read.method, read.params, read.result, read.error));
}

fn typed_params<T: DeserializeOwned>(message: &Message) {
    let Message::Request(request) = message else { panic!("no request") };
    let params = request.params.as_ref().expect("a call has params");
    black_box(params.raw().decode::<T>().expect("typed"));
}

fn typed_result<T: DeserializeOwned>(message: &Message) {
    let Message::Response(response) = message else { panic!("no response") };
    let result = response.outcome.as_ref().expect("a result");
    black_box(result.raw().decode::<T>().expect("typed"));
}
