//! One operation, repeated as often as the command line says, for tools that count instructions:
//! `mcpjoin-bench count CELL TIMES`. Run by `cargo xtask instructions`.
//!
//! Everything runs on one thread, and nothing is measured here. The difference between two runs is the cost of the
//! repetitions, without that of the start.

use std::convert::Infallible;
use std::hint::black_box;

use bytes::Bytes;
use mcpjoin::proto::DecodeLimits;
use mcpjoin::transport::{HttpOptions, HttpService};
use tokio::runtime::{Builder, Runtime};
use tower_service::Service as _;

use crate::{calls, decoding, texts};

/// The cells by name.
const CELLS: [(&str, fn(usize)); 8] = [
    ("decode-call", |times| decode(&texts::call(), times)),
    ("decode-list", |times| decode(&texts::tools_list(), times)),
    ("decode-64KiB", |times| decode(&texts::text_result(64 * 1024), times)),
    ("call-memory", |times| call(calls::Transport::Memory, 1, times)),
    ("call-stream", |times| call(calls::Transport::Stream, 1, times)),
    ("call-stream-16-at-once", |times| call(calls::Transport::Stream, 16, times)),
    ("http-session", |times| http(true, times)),
    ("http-2026-07-28", |times| http(false, times)),
];

/// Runs a cell.
///
/// # Panics
/// When there is no cell of this name.
pub(crate) fn run(cell: &str, times: usize) {
    let known = CELLS.iter().find(|(name, _)| *name == cell);
    let names = CELLS.map(|(name, _)| name);
    let (_, operation) = known.unwrap_or_else(|| panic!("{cell} is none of {names:?}"));
    operation(times);
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime can be built")
}

fn decode(text: &Bytes, times: usize) {
    let limits = DecodeLimits::default();
    for _ in 0..times {
        drop(black_box(decoding::ours(text, &limits)));
    }
}

/// Calls of the echo tool, client and server together.
fn call(transport: calls::Transport, at_once: usize, times: usize) {
    let runtime = runtime();
    let client = runtime.block_on(calls::ours(transport));
    runtime.block_on(calls::calls(&calls::Pair::Ours(client), at_once, times));
}

/// Calls of the echo tool as HTTP requests, without a socket and without the HTTP library.
fn http(session: bool, times: usize) {
    let runtime = runtime();
    runtime.block_on(async {
        let mut service = calls::echo().http(HttpOptions::new());
        let call = |meta: &str| {
            let message = "x".repeat(64);
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"message":"{message}"}}{meta}}}}}"#
            )
        };
        if !session {
            const META: &str = r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;
            let headers =
                [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "echo")];
            for _ in 0..times {
                post(&mut service, &headers, call(META)).await;
            }
            return;
        }
        let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
        let opened = post(&mut service, &[], initialize.to_owned()).await;
        let id = opened.headers()["mcp-session-id"].to_str().expect("visible ASCII").to_owned();
        let headers = [("mcp-protocol-version", "2025-11-25"), ("mcp-session-id", &*id)];
        for _ in 0..times {
            post(&mut service, &headers, call("")).await;
        }
    });
}

/// Sends a message and takes the response.
async fn post(service: &mut HttpService, headers: &[(&str, &str)], message: String) -> http::Response<()> {
    let mut request = http::Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(http_body_util::Full::new(Bytes::from(message))).expect("a request");
    let answered: Result<_, Infallible> = service.call(request).await;
    let Ok(response) = answered;
    let (head, body) = response.into_parts();
    let body = http_body_util::BodyExt::collect(body).await.map(|body| body.to_bytes());
    assert_eq!(head.status, 200, "{body:?}");
    http::Response::from_parts(head, ())
}
