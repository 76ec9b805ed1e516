//! How long decoding, reading and writing take beside serde_json, in nanoseconds of this thread and as a ratio.
//!
//! `cargo run --release -p mcpjoin-proto --features std --example decode_speed`
//!
//! serde_json decodes an envelope of `RawValue`s, which is the least that it can do; it checks much less
//! (neither depth nor repeated keys in params nor lone surrogates).
#![allow(clippy::print_stdout, reason = "an example that prints")]
#![allow(clippy::unwrap_used, reason = "an example on its own input")]

use std::hint::black_box;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use mcpjoin_proto::decode::{DecodeLimits, Decoded, decode};
use mcpjoin_proto::{Raw, encode};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[allow(dead_code, reason = "only read into")]
struct Envelope<'a> {
    jsonrpc: &'a str,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// The quickest of nine runs of about 10 ms each, per operation; the two take turns, so that a machine that changes
/// its speed changes it for both.
fn time<T, U>(mut ours: impl FnMut() -> T, mut theirs: impl FnMut() -> U) -> (f64, f64) {
    fn run<T>(operation: &mut impl FnMut() -> T, count: u32) -> f64 {
        let start = Instant::now();
        for _ in 0..count {
            black_box(operation());
        }
        start.elapsed().as_nanos() as f64 / f64::from(count)
    }
    let mut count = 1_u32;
    while run(&mut ours, count) * f64::from(count) < 10e6 {
        count *= 2;
    }
    let mut best = (f64::MAX, f64::MAX);
    for _ in 0..9 {
        best = (best.0.min(run(&mut ours, count)), best.1.min(run(&mut theirs, count)));
    }
    best
}

fn row(name: &str, bytes: usize, (ours, theirs): (f64, f64)) {
    println!("{name:<34} {bytes:>8} B {ours:>12.0} ns {theirs:>12.0} ns {:>6.2}", ours / theirs);
}

fn result_of(text: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":[{{"type":"text","text":{}}}],"isError":false}}}}"#,
        Raw::string(text)
    )
}

fn tools() -> String {
    let tool = |index: usize| {
        format!(
            r#"{{"name":"tool_{index}","title":"Tool {index}","description":"Does the thing number {index} with the given path, and says how it went.","inputSchema":{{"type":"object","properties":{{"path":{{"type":"string","description":"Where the thing is."}},"count":{{"type":"integer","minimum":0,"maximum":100}},"mode":{{"type":"string","enum":["fast","slow","careful"]}},"options":{{"type":"object","properties":{{"deep":{{"type":"boolean"}},"tags":{{"type":"array","items":{{"type":"string"}}}}}}}}}},"required":["path","count"],"additionalProperties":false}},"annotations":{{"readOnlyHint":true,"openWorldHint":false}}}}"#
        )
    };
    let tools: Vec<String> = (0..108).map(tool).collect();
    format!(r#"{{"jsonrpc":"2.0","id":3,"result":{{"tools":[{}]}}}}"#, tools.join(","))
}

fn main() {
    let limits = DecodeLimits::default();
    let call = r#"{"jsonrpc":"2.0","id":12345,"method":"tools/call","params":{"name":"echo","arguments":{"text":"the quick brown fox jumps over the lazy dog, and the dog sleeps on"}}}"#;
    let plain = "the quick brown fox jumps over the lazy dog. ".repeat(1457);
    let escapes = "the quick brown fox jumps over the \"lazy\" dog and then sleeps\n".repeat(1040);
    let dense = "{\"name\": \"x\",\n\t\"value\": \"the quick brown fox jumps over\"},\n".repeat(1070);
    let foreign = "быстрая коричневая лиса прыгает через ленивую собаку, 犬は眠っている。".repeat(520);
    let large = plain.repeat(64);

    println!("{:<34} {:>10} {:>15} {:>15} {:>6}", "decode", "", "ours", "serde_json", "ratio");
    for (name, text) in [
        ("tools/call, small", call.to_owned()),
        ("tools/list", tools()),
        ("64 KiB with escapes", result_of(&escapes)),
        ("64 KiB of JSON in a string", result_of(&dense)),
        ("64 KiB plain", result_of(&plain)),
        ("64 KiB non-ASCII", result_of(&foreign)),
        ("4 MiB plain", result_of(&large)),
    ] {
        let text = Bytes::from(text);
        let times = time(
            || decode(&text, &limits).unwrap(),
            || {
                let envelope = serde_json::from_slice::<Envelope<'_>>(&text).unwrap();
                black_box(envelope.id.map(|id| id.get().parse::<i64>()));
                black_box(envelope.params.or(envelope.result).is_some());
            },
        );
        row(name, text.len(), times);
    }

    println!("{:<34}", "read a String");
    for (name, text) in [
        ("64 KiB with escapes", &escapes),
        ("64 KiB of JSON in a string", &dense),
        ("64 KiB plain", &plain),
        ("64 KiB non-ASCII", &foreign),
    ] {
        let raw = Raw::string(text);
        let times = time(
            || raw.decode::<String>().unwrap(),
            || serde_json::from_slice::<String>(raw.as_bytes()).unwrap(),
        );
        row(name, raw.len(), times);
    }

    println!("{:<34}", "write a str");
    for (name, text) in [
        ("64 KiB with escapes", &escapes),
        ("64 KiB of JSON in a string", &dense),
        ("64 KiB plain", &plain),
        ("64 KiB non-ASCII", &foreign),
    ] {
        let times =
            time(|| Raw::from_value(text.as_str()).unwrap(), || serde_json::to_vec(text.as_str()).unwrap());
        row(name, text.len(), times);
    }

    println!("{:<34}", "encode");
    let Ok(Decoded::Message(message)) = decode(&Bytes::from_static(call.as_bytes()), &limits) else { return };
    let value: serde_json::Value = serde_json::from_str(call).unwrap();
    let mut out = BytesMut::with_capacity(4096);
    let mut theirs_out = Vec::with_capacity(4096);
    let times = time(
        || {
            out.clear();
            encode::message(&message, &mut out);
            out.len()
        },
        || {
            theirs_out.clear();
            serde_json::to_writer(&mut theirs_out, &value).unwrap();
            theirs_out.len()
        },
    );
    row("tools/call (theirs: from a Value)", call.len(), times);
}
