//! Tests of the traces that a bridge and a server export: a receiver of OTLP over HTTP in the test decodes what arrives.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message as _;
use serde_json::Value;

use super::support::{Ran, command, start, takes_less_than};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A span as it has arrived.
#[derive(Debug)]
struct Span {
    name: String,
    kind: SpanKind,
    trace: String,
    id: String,
    parent: String,
    attributes: Vec<KeyValue>,
    /// The attributes of the process.
    resource: Vec<KeyValue>,
    /// The head of the request that carried it.
    path: String,
    headers: HeaderMap,
}

/// Receives OTLP, and answers each request with this status.
struct Collector {
    url: String,
    arrived: Receiver<Span>,
}

impl Collector {
    fn start(status: StatusCode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (spans, arrived) = channel();
        // It lives as long as the test.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(serve(listener, status, spans));
        });
        Self { url, arrived }
    }

    /// What has arrived from processes that have ended.
    fn spans(&self) -> Vec<Span> {
        self.arrived.try_iter().collect()
    }
}

async fn serve(listener: TcpListener, status: StatusCode, spans: Sender<Span>) {
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    while let Ok((stream, _)) = listener.accept().await {
        let spans = spans.clone();
        let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
            let spans = spans.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                for span in decoded(&head, body) {
                    // The test may have ended.
                    let _ = spans.send(span);
                }
                let mut response = Response::new(Full::new(Bytes::new()));
                *response.status_mut() = status;
                Ok::<_, hyper::Error>(response)
            }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

fn decoded(head: &http::request::Parts, body: Bytes) -> Vec<Span> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut spans = Vec::new();
    for resource in ExportTraceServiceRequest::decode(body).unwrap().resource_spans {
        let of_process = resource.resource.unwrap().attributes;
        for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            spans.push(Span {
                kind: span.kind(),
                trace: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                name: span.name,
                attributes: span.attributes,
                resource: of_process.clone(),
                path: head.uri.path().to_owned(),
                headers: head.headers.clone(),
            });
        }
    }
    spans
}

fn value<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    let value = attributes.iter().find(|attribute| attribute.key == key)?.value.as_ref()?;
    match value.value.as_ref()? {
        any_value::Value::StringValue(text) => Some(text),
        _ => None,
    }
}

/// The only span of this name, kind and parent.
#[track_caller]
fn only<'a>(spans: &'a [Span], name: &str, kind: SpanKind, parent: &str) -> &'a Span {
    let is_meant = |span: &&Span| span.name == name && span.kind == kind && span.parent == parent;
    let found: Vec<&Span> = spans.iter().filter(is_meant).collect();
    assert_eq!(found.len(), 1, "{name}: {spans:#?}");
    found[0]
}

/// A call of `echo`, under this name, that belongs to the trace of the test.
fn call(tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"message":"hi"}},"_meta":{{"traceparent":"00-{TRACE}-{PARENT}-01"}}}}}}"#
    )
}

/// Runs a server on standard input and output, makes the call, and closes its input. Returns what it printed, and the time
/// from there to its end.
#[track_caller]
fn talk(mut command: Command, call: &str) -> (Ran, Duration) {
    let mut running = start({
        command.stdin(Stdio::piped());
        command
    });
    let mut input = running.child.stdin.take().unwrap();
    let mut output = BufReader::new(running.child.stdout.take().unwrap()).lines();
    let mut answer_to = |id: u32| loop {
        let line: Value = serde_json::from_str(&output.next().unwrap().unwrap()).unwrap();
        if line["id"] == id {
            return line;
        }
    };
    writeln!(input, "{INITIALIZE}").unwrap();
    answer_to(1);
    writeln!(input, "{INITIALIZED}\n{call}").unwrap();
    let answer = answer_to(2);
    assert_eq!(answer["result"]["content"][0]["text"], "hi", "{answer}");
    drop(input);
    let closed = Instant::now();
    (running.finish(), closed.elapsed())
}

#[test]
fn a_call_through_a_bridge_is_exported_as_one_trace_with_what_the_environment_says() {
    let collector = Collector::start(StatusCode::OK);
    let mut bridge = command(["bridge", "demo:"]);
    bridge
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url)
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=blue%20team")
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test");
    let (ran, _) = talk(bridge, &call("echo"));
    assert_eq!(ran.exits(0).stderr, "");
    let spans = collector.spans();
    let name = "tools/call echo";
    let outer = only(&spans, name, SpanKind::Server, PARENT);
    let inner = only(&spans, name, SpanKind::Client, &outer.id);
    // The server behind the bridge is `mcpjoin serve demo`, which has the same environment.
    let server = only(&spans, name, SpanKind::Server, &inner.id);
    for span in [outer, inner, server] {
        assert_eq!(span.trace, TRACE);
        assert_eq!(span.path, "/v1/traces");
        assert_eq!(span.headers["content-type"], "application/x-protobuf");
        assert_eq!(span.headers["x-tenant"], "blue team");
        assert_eq!(value(&span.attributes, "mcp.method.name"), Some("tools/call"));
        assert_eq!(value(&span.attributes, "gen_ai.tool.name"), Some("echo"));
        assert_eq!(value(&span.attributes, "network.transport"), Some("pipe"));
        assert_eq!(value(&span.attributes, "code.file.path"), None);
        assert_eq!(value(&span.resource, "service.name"), Some("mcpjoin"));
        assert_eq!(value(&span.resource, "service.version"), Some(env!("CARGO_PKG_VERSION")));
        assert_eq!(value(&span.resource, "deployment.environment.name"), Some("test"));
    }
}

#[test]
fn a_call_through_joined_servers_is_exported_under_both_names() {
    let collector = Collector::start(StatusCode::OK);
    let mut bridge = command(["bridge", "--join", "a=demo:", "--join", "b=demo:"]);
    bridge
        .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("{}/own", collector.url))
        .env("OTEL_SERVICE_NAME", "tools");
    let (ran, _) = talk(bridge, &call("b__echo"));
    let stderr = ran.exits(0).stderr;
    assert!(stderr.lines().all(|line| line.contains(": connected; ")), "{stderr}");
    let spans = collector.spans();
    let outer = only(&spans, "tools/call b__echo", SpanKind::Server, PARENT);
    let inner = only(&spans, "tools/call echo", SpanKind::Client, &outer.id);
    only(&spans, "tools/call echo", SpanKind::Server, &inner.id);
    assert_eq!(outer.path, "/own");
    assert_eq!(value(&outer.resource, "service.name"), Some("tools"));
}

#[test]
fn nothing_is_exported_if_the_environment_switches_it_off_or_wants_another_protocol() {
    let collector = Collector::start(StatusCode::OK);
    let bridge = |variable: &str, value: &str| {
        let mut bridge = command(["bridge", "demo:"]);
        bridge.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url).env(variable, value);
        talk(bridge, &call("echo")).0.exits(0).stderr
    };
    assert_eq!(bridge("OTEL_SDK_DISABLED", "true"), "");
    let warned = bridge("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    let warning =
        r#"warning: no traces are exported: the protocol "grpc" is not supported, http/protobuf is"#;
    assert_eq!(warned.lines().filter(|line| line.contains(warning)).count(), 1, "{warned}");
    assert!(collector.spans().is_empty());
    // The sampler of the environment takes none.
    assert_eq!(bridge("OTEL_TRACES_SAMPLER", "always_off"), "");
    assert!(collector.spans().is_empty());
}

#[test]
fn a_collector_that_refuses_or_is_gone_is_named_once_and_costs_no_call() {
    let refusing = Collector::start(StatusCode::NOT_FOUND);
    // Nothing listens at its port any more.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = format!("http://{gone}");
    let cases =
        [(&refusing.url, "it answers 404 Not Found"), (&gone, "connection refused: nothing listens there")];
    for (url, why) in cases {
        // The demonstration server alone: one process, one warning.
        let mut server = command(["serve", "demo"]);
        server.env("OTEL_EXPORTER_OTLP_ENDPOINT", url);
        let stderr = talk(server, &call("echo")).0.exits(0).stderr;
        let warning = format!("warning: traces cannot be sent to {url}/v1/traces: {why}; calls go on\n");
        assert_eq!(stderr, warning);
    }
}

#[test]
fn a_collector_that_does_not_answer_delays_neither_a_call_nor_the_end_for_long() {
    // Connections are accepted by the system, and nothing answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    takes_less_than(Duration::from_secs(5), || {
        let mut server = command(["serve", "demo"]);
        server.env("OTEL_EXPORTER_OTLP_ENDPOINT", &url);
        let (ran, took) = talk(server, &call("echo"));
        let warning = format!(
            "warning: traces cannot be sent to {url}/v1/traces: not all were accepted within 2 s; calls go on\n"
        );
        assert_eq!(ran.exits(0).stderr, warning);
        took
    });
}
