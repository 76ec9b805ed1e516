//! Tests of the spans and metrics of OpenTelemetry. One process has one global propagator and one meter provider, so all
//! tests share them; each has spans of its own.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::{Mutex, OnceLock};

use mcpjoin::client::{ClientBuilder, ClientError};
use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::{
    CallToolParams, ElicitFormParams, ElicitResult, ElicitationSchema, Members, Meta,
};
use mcpjoin::proto::{Era, ErrorObject, Raw};
use mcpjoin::server::{Context, HandlerError, NoArguments, Server, ServerBuilder, blocking, tool};
use mcpjoin::transport::HttpOptions;
use mcpjoin::{Client, Link};
use opentelemetry::global;
use opentelemetry::propagation::TextMapCompositePropagator;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceId, TracerProvider as _};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::propagation::{BaggagePropagator, TraceContextPropagator};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use serde_json::json;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::SubscriberExt as _;

const BOTH_ERAS: [Era; 2] = [Era::Legacy, Era::Modern];
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// What a test's spans are exported to.
struct Exported {
    exporter: InMemorySpanExporter,
    provider: SdkTracerProvider,
    _subscriber: DefaultGuard,
}

fn export() -> Exported {
    global::set_text_map_propagator(TextMapCompositePropagator::new(vec![
        Box::new(TraceContextPropagator::new()),
        Box::new(BaggagePropagator::new()),
    ]));
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let subscriber = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    Exported { exporter, provider, _subscriber: subscriber }
}

impl Exported {
    /// The spans that have ended since the last call.
    fn spans(&self) -> Vec<SpanData> {
        self.provider.force_flush().unwrap();
        let spans = self.exporter.get_finished_spans().unwrap();
        self.exporter.reset();
        spans
    }
}

fn of_kind(spans: &[SpanData], kind: SpanKind) -> &SpanData {
    let mut of_kind = spans.iter().filter(|span| span.span_kind == kind);
    let span = of_kind.next().unwrap_or_else(|| panic!("no {kind:?} in {spans:#?}"));
    assert!(of_kind.next().is_none(), "several of {kind:?} in {spans:#?}");
    span
}

fn attribute(span: &SpanData, key: &str) -> Option<String> {
    let mut values = span.attributes.iter().filter(|attribute| attribute.key.as_str() == key);
    let value = values.next().map(|attribute| attribute.value.as_str().into_owned());
    assert!(values.next().is_none(), "{key} is there twice: {span:#?}");
    value
}

#[track_caller]
fn assert_attributes(span: &SpanData, expected: &[(&str, &str)]) {
    for (key, value) in expected {
        assert_eq!(attribute(span, key).as_deref(), Some(*value), "{key}");
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(test);
}

/// Lets all tasks run until they wait.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

fn server() -> ServerBuilder {
    Server::builder("s", "1")
        .telemetry()
        .tool(tool("add"), |_: NoArguments, _| async { tracing::info_span!("inside").in_scope(|| "sum") })
        .tool(tool("fails"), |_: NoArguments, _| async { Err::<(), _>(HandlerError::new("no luck")) })
        .tool(tool("waits"), |_: NoArguments, _| std::future::pending::<()>())
}

fn client(era: Era) -> ClientBuilder {
    Client::builder("c", "1").era(EraChoice::Only(era)).telemetry()
}

async fn connect(server: &Server, client: ClientBuilder) -> Client {
    let (near, far) = Link::memory();
    server.connect(far);
    client.connect(near).await.unwrap()
}

fn version(era: Era) -> &'static str {
    if era == Era::Legacy { "2025-11-25" } else { "2026-07-28" }
}

#[test]
fn a_call_has_a_span_on_both_sides_in_one_trace() {
    run(async {
        let exported = export();
        for era in BOTH_ERAS {
            let server = server().build().unwrap();
            let client = connect(&server, client(era)).await;
            exported.spans();
            client.call_tool("add", ()).await.unwrap();
            let spans = exported.spans();
            let (sent, received) = (of_kind(&spans, SpanKind::Client), of_kind(&spans, SpanKind::Server));
            for span in [sent, received] {
                assert_eq!((&*span.name, &span.status), ("tools/call add", &Status::Unset));
                assert_attributes(
                    span,
                    &[
                        ("mcp.method.name", "tools/call"),
                        ("mcp.protocol.version", version(era)),
                        ("gen_ai.operation.name", "execute_tool"),
                        ("gen_ai.tool.name", "add"),
                    ],
                );
                assert_eq!(attribute(span, "error.type"), None);
            }
            assert_eq!(attribute(sent, "jsonrpc.request.id"), attribute(received, "jsonrpc.request.id"));
            assert!(attribute(sent, "jsonrpc.request.id").is_some());
            assert_eq!(received.span_context.trace_id(), sent.span_context.trace_id(), "{era:?}");
            assert_eq!(received.parent_span_id, sent.span_context.span_id(), "{era:?}");
            assert_eq!(sent.parent_span_id, SpanId::INVALID);
            // What a handler logs is inside.
            let inside = of_kind(&spans, SpanKind::Internal);
            assert_eq!(inside.parent_span_id, received.span_context.span_id());
        }
    });
}

#[test]
fn handlers_are_inside_the_span_on_other_threads_too() {
    let _exported = export();
    let dispatch = tracing::dispatcher::get_default(Clone::clone);
    // Each thread of the runtime has the subscriber of the test for its whole life.
    let set = move || std::mem::forget(tracing::dispatcher::set_default(&dispatch));
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().on_thread_start(set).build().unwrap();
    let current = || tracing::Span::current().metadata().map_or("none", |metadata| metadata.name());
    let server = Server::builder("s", "1")
        .telemetry()
        .tool(tool("task"), move |_: NoArguments, _| async move { current() })
        .tool(tool("blocking"), blocking(move |_: NoArguments, _| current()))
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = connect(&server, Client::builder("c", "1")).await;
        for tool in ["task", "blocking"] {
            assert_eq!(client.call_tool(tool, ()).await.unwrap().to_text(), "mcp", "{tool}");
        }
    });
}

#[test]
fn failures_are_errors_with_their_type() {
    run(async {
        let exported = export();
        for era in BOTH_ERAS {
            let server = server().build().unwrap();
            let client = connect(&server, client(era)).await;
            exported.spans();
            assert!(client.call_tool("fails", ()).await.unwrap().is_error == Some(true));
            let spans = exported.spans();
            for kind in [SpanKind::Client, SpanKind::Server] {
                let span = of_kind(&spans, kind);
                assert_attributes(span, &[("error.type", "tool_error"), ("gen_ai.tool.name", "fails")]);
                assert_eq!(attribute(span, "rpc.response.status_code"), None);
                assert_eq!(span.status, Status::error(""), "{era:?}");
            }
            let error = client.call_tool("unknown", ()).await.unwrap_err();
            let message = error.remote().unwrap().message.clone();
            let spans = exported.spans();
            for kind in [SpanKind::Client, SpanKind::Server] {
                let span = of_kind(&spans, kind);
                let expected = [("error.type", "-32602"), ("rpc.response.status_code", "-32602")];
                assert_attributes(span, &expected);
                assert_eq!(span.status, Status::error(message.clone()), "{era:?}");
            }
        }
    });
}

#[test]
fn a_cancelled_call_ends_its_spans() {
    run(async {
        let exported = export();
        for era in BOTH_ERAS {
            let server = server().build().unwrap();
            let client = connect(&server, client(era)).await;
            exported.spans();
            let timeout = std::time::Duration::from_secs(5);
            tokio::time::timeout(timeout, client.call_tool("waits", ())).await.unwrap_err();
            settle().await;
            let spans = exported.spans();
            for kind in [SpanKind::Client, SpanKind::Server] {
                let span = of_kind(&spans, kind);
                assert_attributes(span, &[("error.type", "cancelled")]);
                assert!(attribute(span, "jsonrpc.request.id").is_some());
            }
            let error = client.call_tool("waits", ()).timeout(timeout).await.unwrap_err();
            assert!(error.is_timeout());
            assert_attributes(of_kind(&exported.spans(), SpanKind::Client), &[("error.type", "timeout")]);
        }
    });
}

fn with_meta(tool: &str, key: &str, value: Raw) -> CallToolParams {
    let mut params = CallToolParams::new(tool);
    params.meta = Some(Meta::new().with(key, value));
    params
}

/// A server with a tool that returns the `_meta` of its call.
fn telling() -> Server {
    let meta = |_: NoArguments, cx: Context| async move {
        cx.params()
            .and_then(mcpjoin::proto::Payload::meta)
            .map_or_else(String::new, |meta| meta.as_str().to_owned())
    };
    Server::builder("s", "1").telemetry().tool(tool("meta"), meta).build().unwrap()
}

#[test]
fn a_traceparent_of_the_caller_stays_and_other_keys_are_added() {
    run(async {
        let exported = export();
        for era in BOTH_ERAS {
            let client = connect(&telling(), client(era)).await;
            exported.spans();
            let params = with_meta("meta", "traceparent", Raw::string(PARENT));
            let text = client.call_tool_with(params).await.unwrap().to_text();
            let meta: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(meta["traceparent"], PARENT);
            let spans = exported.spans();
            let received = of_kind(&spans, SpanKind::Server);
            assert_eq!(received.span_context.trace_id(), TraceId::from_hex(TRACE).unwrap(), "{era:?}");
            let params = with_meta("meta", "com.example/key", Raw::string("kept"));
            let text = client.call_tool_with(params).await.unwrap().to_text();
            let meta: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(meta["com.example/key"], "kept");
            let spans = exported.spans();
            let sent = of_kind(&spans, SpanKind::Client).span_context.clone();
            let traceparent = format!("00-{}-{}-01", sent.trace_id(), sent.span_id());
            assert_eq!(meta["traceparent"], traceparent);
            assert!(meta.get("tracestate").is_none(), "an empty one is not sent");
        }
    });
}

#[test]
fn a_hostile_meta_is_as_if_it_were_absent() {
    run(async {
        let exported = export();
        let server = server().build().unwrap();
        for era in BOTH_ERAS {
            let client = connect(&server, Client::builder("c", "1").era(EraChoice::Only(era))).await;
            exported.spans();
            let long = Raw::string(&"x".repeat(100_000));
            let number = Raw::from_value(&7).unwrap();
            let values = [
                ("traceparent", number.clone()),
                ("traceparent", Raw::from_value(&json!({ "a": [PARENT] })).unwrap()),
                ("traceparent", Raw::string("00-nonsense")),
                ("traceparent", Raw::string(&PARENT.to_uppercase())),
                ("traceparent", Raw::string(&format!("{PARENT}{}", "-x".repeat(5_000)))),
                ("tracestate", number.clone()),
                ("baggage", number),
                ("baggage", long),
            ];
            for (key, value) in values {
                client.call_tool_with(with_meta("add", key, value)).await.unwrap();
                let spans = exported.spans();
                let received = of_kind(&spans, SpanKind::Server);
                assert_eq!(received.parent_span_id, SpanId::INVALID, "{key}");
                assert!(received.links.is_empty());
            }
            // A good traceparent in a `_meta` that is too long.
            let mut params = with_meta("add", "traceparent", Raw::string(PARENT));
            let meta = params.meta.take().unwrap().with("com.example/long", Raw::string(&"x".repeat(70_000)));
            params.meta = Some(meta);
            client.call_tool_with(params).await.unwrap();
            assert_eq!(of_kind(&exported.spans(), SpanKind::Server).parent_span_id, SpanId::INVALID);
            // Names and methods are cut.
            let name = "n".repeat(5_000);
            client.call_tool(name.as_str(), ()).await.unwrap_err();
            let spans = exported.spans();
            let received = of_kind(&spans, SpanKind::Server);
            assert_eq!(received.name.len(), "tools/call ".len() + 128);
            assert_eq!(attribute(received, "gen_ai.tool.name").unwrap().len(), 128);
        }
    });
}

#[test]
fn a_uri_and_the_message_of_an_error_are_cut() {
    run(async {
        let exported = export();
        let refuse = async |_: NoArguments, _: Context| -> Result<(), HandlerError> {
            Err(HandlerError::protocol(ErrorObject::new(-32000, "x".repeat(5_000))))
        };
        let server = Server::builder("s", "1").telemetry().tool(tool("refuse"), refuse).dynamic_resources();
        let server = server.build().unwrap();
        for era in BOTH_ERAS {
            let client = connect(&server, Client::builder("c", "1").era(EraChoice::Only(era))).await;
            exported.spans();
            client.call_tool("refuse", ()).await.unwrap_err();
            let spans = exported.spans();
            let span = of_kind(&spans, SpanKind::Server);
            assert_attributes(span, &[("error.type", "-32000")]);
            assert_eq!(span.status, Status::error("x".repeat(1024)));
            client.read_resource(format!("a:{}", "y".repeat(5_000))).await.unwrap_err();
            let spans = exported.spans();
            let span = of_kind(&spans, SpanKind::Server);
            assert_eq!(span.name, "resources/read");
            assert_eq!(attribute(span, "mcp.resource.uri").unwrap().len(), 1024);
        }
    });
}

#[test]
fn a_question_of_a_legacy_server_is_a_request_in_the_same_trace() {
    run(async {
        let exported = export();
        let ask = async |_: NoArguments, cx: Context| -> Result<String, HandlerError> {
            let question = ElicitFormParams::new("Sure?", ElicitationSchema::new(Members::new()));
            Ok(cx.elicit(question).await?.action.as_str().to_owned())
        };
        let server = Server::builder("s", "1").telemetry().tool(tool("ask"), ask).build().unwrap();
        let client = client(Era::Legacy).elicitation(|_| async { Ok(ElicitResult::decline()) });
        let client = connect(&server, client).await;
        exported.spans();
        client.call_tool("ask", ()).await.unwrap();
        let spans = exported.spans();
        let named = |name: &str, kind: SpanKind| {
            spans.iter().find(|span| span.name == name && span.span_kind == kind).unwrap()
        };
        let called = named("tools/call ask", SpanKind::Server);
        let asked = named("elicitation/create", SpanKind::Client);
        let answered = named("elicitation/create", SpanKind::Server);
        assert_eq!(asked.parent_span_id, called.span_context.span_id());
        assert_eq!(answered.parent_span_id, asked.span_context.span_id());
        assert_eq!(spans.len(), 4);
    });
}

/// A request over HTTP with the two contexts.
async fn post(server: &Server, meta: &str, header: Option<&str>, beside: Option<opentelemetry::Context>) {
    use tower_service::Service as _;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":"seven","method":"tools/call","params":{{"name":"add","_meta":{{
        "io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}},
        "io.modelcontextprotocol/clientInfo":{{"name":"c","version":"1"}}{meta}}}}}}}"#
    );
    let mut request = http::Request::post("http://localhost/")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "add");
    if let Some(header) = header {
        request = request.header("traceparent", header);
    }
    if let Some(beside) = beside {
        request = request.extension(beside);
    }
    let body = http_body_util::Full::new(bytes::Bytes::from(body));
    let response = server.http(HttpOptions::default()).call(request.body(body).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    drop(http_body_util::BodyExt::collect(response.into_body()).await);
}

#[test]
fn the_context_of_the_http_request_is_a_link_beside_a_parent_in_meta_and_else_the_parent() {
    use opentelemetry::trace::{TraceContextExt as _, TraceFlags};
    run(async {
        let exported = export();
        let server = server().build().unwrap();
        let header = "00-11111111111111111111111111111111-2222222222222222-01";
        let http_span = SpanId::from_hex("2222222222222222").unwrap();
        let received = |exported: &Exported| of_kind(&exported.spans(), SpanKind::Server).clone();

        post(&server, &format!(r#","traceparent":"{PARENT}""#), Some(header), None).await;
        let span = received(&exported);
        assert_eq!(span.parent_span_id, SpanId::from_hex("b7ad6b7169203331").unwrap());
        let links: Vec<SpanId> = span.links.iter().map(|link| link.span_context.span_id()).collect();
        assert_eq!(links, [http_span]);
        assert_attributes(
            &span,
            &[
                ("network.transport", "tcp"),
                ("network.protocol.name", "http"),
                ("network.protocol.version", "1.1"),
                ("jsonrpc.request.id", "seven"),
            ],
        );

        post(&server, "", Some(header), None).await;
        let span = received(&exported);
        assert_eq!((span.parent_span_id, span.links.len()), (http_span, 0));

        // What the application puts beside the request is nearer than the header.
        let id = SpanId::from_hex("3333333333333333").unwrap();
        let beside = SpanContext::new(
            TraceId::from_hex(TRACE).unwrap(),
            id,
            TraceFlags::SAMPLED,
            false,
            Default::default(),
        );
        let beside = opentelemetry::Context::new().with_remote_span_context(beside);
        post(&server, "", Some(header), Some(beside)).await;
        assert_eq!(received(&exported).parent_span_id, id);

        post(&server, "", None, None).await;
        assert_eq!(received(&exported).parent_span_id, SpanId::INVALID);
    });
}

/// The meter provider of the process, and its lock: measurements of one test at a time.
fn meters() -> &'static Mutex<(SdkMeterProvider, InMemoryMetricExporter)> {
    static METERS: OnceLock<Mutex<(SdkMeterProvider, InMemoryMetricExporter)>> = OnceLock::new();
    METERS.get_or_init(|| {
        let exporter = InMemoryMetricExporter::default();
        let provider = SdkMeterProvider::builder()
            .with_reader(PeriodicReader::builder(exporter.clone()).build())
            .build();
        global::set_meter_provider(provider.clone());
        Mutex::new((provider, exporter))
    })
}

/// The measurements as sorted lines: the name, the attributes, and the sum in whole seconds.
fn measurements() -> Vec<String> {
    let meters = meters().lock().unwrap();
    meters.0.force_flush().unwrap();
    let mut lines = Vec::new();
    let finished = meters.1.get_finished_metrics().unwrap();
    let last = finished.last().unwrap();
    for metric in last.scope_metrics().flat_map(|scope| scope.metrics()) {
        let AggregatedMetrics::F64(MetricData::Histogram(histogram)) = metric.data() else {
            panic!("{metric:?}")
        };
        for point in histogram.data_points() {
            let mut attributes: Vec<String> = point
                .attributes()
                .map(|attribute| format!("{}={}", attribute.key, attribute.value))
                .collect();
            attributes.sort();
            lines.push(format!(
                "{} {} {}s {}",
                metric.name(),
                metric.unit(),
                point.sum().round(),
                attributes.join(" ")
            ));
        }
    }
    lines.sort();
    lines
}

#[test]
fn durations_are_measured_with_the_names_that_exist() {
    meters();
    run(async {
        let slow = |_: NoArguments, _: Context| async {
            tokio::time::advance(std::time::Duration::from_secs(7)).await;
        };
        let server = Server::builder("s", "1").telemetry().tool(tool("measured"), slow).build().unwrap();
        let client = connect(&server, client(Era::Modern)).await;
        client.call_tool("measured", ()).await.unwrap();
        let refused: Result<_, ClientError> = client.call_tool("made up by a client", ()).await;
        refused.unwrap_err();
        client.close().await;
        settle().await;
        let lines = measurements();
        let has = |line: &str| assert!(lines.iter().any(|known| known == line), "{line}\n{lines:#?}");
        let call = "gen_ai.operation.name=execute_tool gen_ai.tool.name=measured mcp.method.name=tools/call mcp.protocol.version=2026-07-28";
        has(&format!("mcp.client.operation.duration s 7s {call}"));
        has(&format!("mcp.server.operation.duration s 7s {call}"));
        let served: Vec<&String> = lines.iter().filter(|line| line.starts_with("mcp.server")).collect();
        assert!(!served.iter().any(|line| line.contains("made up")), "{served:#?}");
        assert!(lines.iter().any(|line| line.starts_with("mcp.client.session.duration s 7s")), "{lines:#?}");
        assert!(lines.iter().any(|line| line.starts_with("mcp.server.session.duration s 7s")), "{lines:#?}");
    });
}
