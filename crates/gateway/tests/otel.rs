//! Tests of the spans of a gateway, for each pair of eras. One process has one global propagator, so all tests share it; each
//! has spans of its own.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::future::ready;
use std::io;
use std::time::Duration;

use mcpjoin::client::ClientBuilder;
use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::{
    CallToolParams, ElicitFormParams, ElicitResult, ElicitationSchema, Members, Meta,
};
use mcpjoin::proto::{Era, Payload, Raw, Version};
use mcpjoin::server::{Context, HandlerError, NoArguments, Server, tool};
use mcpjoin::transport::HttpOptions;
use mcpjoin::{Client, Link};
use mcpjoin_gateway::{Gateway, GatewayBuilder};
use opentelemetry::global;
use opentelemetry::trace::{SpanId, SpanKind, TracerProvider as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use serde_json::Value;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::SubscriberExt as _;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const LINKED: &str = "00-11111111111111111111111111111111-2222222222222222-01";

/// What a test's spans are exported to.
struct Exported {
    exporter: InMemorySpanExporter,
    _provider: SdkTracerProvider,
    _subscriber: DefaultGuard,
}

fn export() -> Exported {
    global::set_text_map_propagator(TraceContextPropagator::new());
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let subscriber = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    Exported { exporter, _provider: provider, _subscriber: subscriber }
}

impl Exported {
    /// The spans of this name and kind that have ended.
    fn named(&self, name: &str, kind: SpanKind) -> Vec<SpanData> {
        let spans = self.exporter.get_finished_spans().unwrap();
        spans.into_iter().filter(|span| span.name == name && span.span_kind == kind).collect()
    }

    /// The only span of this name and kind.
    #[track_caller]
    fn only(&self, name: &str, kind: SpanKind) -> SpanData {
        let mut spans = self.named(name, kind);
        let all = self.exporter.get_finished_spans().unwrap();
        assert_eq!(spans.len(), 1, "{name}: {all:#?}");
        spans.remove(0)
    }
}

/// Runs a test in virtual time. Ten hours count as a hang.
fn run(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(36_000), test).await.expect("the test hangs");
    });
}

/// A server of this revision whose tool `meta` returns the `_meta` of its call as JSON, and whose tool `ask` asks for input.
fn server(version: &Version) -> Server {
    Server::builder("s", "1")
        .versions([version.clone()])
        .tool(tool("meta"), |_: NoArguments, cx: Context| async move {
            let meta = cx.params().and_then(Payload::meta);
            meta.map_or_else(|| "{}".to_owned(), |meta| meta.as_str().to_owned())
        })
        .tool(tool("ask"), async |_: NoArguments, cx: Context| -> Result<String, HandlerError> {
            let question = ElicitFormParams::new("Sure?", ElicitationSchema::new(Members::new()));
            Ok(cx.elicit(question).await?.action.as_str().to_owned())
        })
        .build()
        .unwrap()
}

/// A target that is this server.
fn target(server: Server) -> GatewayBuilder {
    Gateway::builder(move || {
        let (near, far) = Link::memory();
        server.connect(far);
        ready(Ok::<_, io::Error>(near))
    })
}

fn client(era: Era) -> ClientBuilder {
    Client::builder("c", "1").era(EraChoice::Only(era))
}

async fn connect(gateway: &Gateway, client: ClientBuilder) -> Client {
    let (near, far) = Link::memory();
    let gateway = gateway.clone();
    tokio::spawn(async move { gateway.serve(far).await });
    client.connect(near).await.unwrap()
}

/// A call of a tool with these members in `_meta`.
fn call(tool: &str, meta: &[(&str, &str)]) -> CallToolParams {
    let mut params = CallToolParams::new(tool);
    let written = Meta::new();
    params.meta = Some(meta.iter().fold(written, |all, (key, value)| all.with(*key, Raw::string(value))));
    params
}

/// The `_meta` that the server has received with this call.
async fn received(client: &Client, params: CallToolParams) -> Value {
    serde_json::from_str(&client.call_tool_with(params).await.unwrap().to_text()).unwrap()
}

const PAIRS: [(Era, Version); 4] = [
    (Era::Legacy, Version::V2025_06_18),
    (Era::Legacy, Version::V2026_07_28),
    (Era::Modern, Version::V2025_06_18),
    (Era::Modern, Version::V2026_07_28),
];

#[test]
fn a_relayed_call_has_a_span_towards_each_side_and_the_server_receives_the_context_of_the_inner_one() {
    run(async {
        let exported = export();
        for (era, version) in PAIRS {
            let gateway = target(server(&version)).telemetry().build();
            let client = connect(&gateway, client(era)).await;
            exported.exporter.reset();
            let meta = [("traceparent", PARENT), ("tracestate", "vendor=1"), ("example.com/own", "kept")];
            let meta = received(&client, call("meta", &meta)).await;
            let outer = exported.only("tools/call meta", SpanKind::Server);
            let inner = exported.only("tools/call meta", SpanKind::Client);
            assert_eq!(outer.span_context.trace_id().to_string(), TRACE, "{era:?} to {version}");
            assert_eq!(outer.parent_span_id.to_string(), "b7ad6b7169203331");
            assert_eq!(inner.parent_span_id, outer.span_context.span_id(), "{era:?} to {version}");
            let expected = format!("00-{TRACE}-{}-01", inner.span_context.span_id());
            assert_eq!(meta["traceparent"], expected, "{era:?} to {version}");
            assert_eq!(meta["tracestate"], "vendor=1");
            assert_eq!(meta["example.com/own"], "kept");
            client.close().await;
            gateway.close().await;
        }
    });
}

#[test]
fn a_call_without_a_context_begins_a_trace_and_an_invalid_context_is_replaced() {
    run(async {
        let exported = export();
        for (era, version) in PAIRS {
            let gateway = target(server(&version)).telemetry().build();
            let client = connect(&gateway, client(era)).await;
            for meta in [&[][..], &[("traceparent", "nonsense"), ("tracestate", "vendor=1")]] {
                exported.exporter.reset();
                let meta = received(&client, call("meta", meta)).await;
                let outer = exported.only("tools/call meta", SpanKind::Server);
                let inner = exported.only("tools/call meta", SpanKind::Client);
                assert_eq!(outer.parent_span_id, SpanId::INVALID);
                assert_eq!(inner.parent_span_id, outer.span_context.span_id());
                let context = &inner.span_context;
                assert_eq!(
                    meta["traceparent"],
                    format!("00-{}-{}-01", context.trace_id(), context.span_id())
                );
                // It belongs to the invalid one.
                assert_eq!(meta.get("tracestate"), None, "{era:?} to {version}");
            }
            client.close().await;
            gateway.close().await;
        }
    });
}

#[test]
fn without_telemetry_a_gateway_records_no_span_and_leaves_the_context_as_it_is() {
    run(async {
        let exported = export();
        for (era, version) in PAIRS {
            let gateway = target(server(&version)).build();
            let client = connect(&gateway, client(era)).await;
            let meta = received(&client, call("meta", &[("traceparent", PARENT)])).await;
            assert_eq!(meta["traceparent"], PARENT);
            let meta = received(&client, call("meta", &[])).await;
            assert_eq!(meta.get("traceparent"), None);
            client.close().await;
            gateway.close().await;
        }
        assert_eq!(exported.exporter.get_finished_spans().unwrap(), []);
    });
}

#[test]
fn a_question_of_a_legacy_server_has_a_span_towards_each_side() {
    run(async {
        let exported = export();
        let gateway = target(server(&Version::V2025_06_18)).telemetry().build();
        let client = client(Era::Legacy).elicitation(|_| async { Ok(ElicitResult::decline()) }).telemetry();
        let client = connect(&gateway, client).await;
        exported.exporter.reset();
        assert_eq!(client.call_tool("ask", ()).await.unwrap().to_text(), "decline");
        // The gateway receives the question, and sends it on; the client receives it.
        let received = exported.named("elicitation/create", SpanKind::Server);
        let sent = exported.only("elicitation/create", SpanKind::Client);
        assert_eq!(received.len(), 2, "{received:#?}");
        let of_gateway = received.iter().find(|span| span.parent_span_id == SpanId::INVALID).unwrap();
        let of_client = received.iter().find(|span| span.parent_span_id != SpanId::INVALID).unwrap();
        assert_eq!(sent.parent_span_id, of_gateway.span_context.span_id());
        assert_eq!(of_client.parent_span_id, sent.span_context.span_id());
        client.close().await;
        gateway.close().await;
    });
}

#[test]
fn a_joined_call_has_the_joined_name_towards_the_client_and_the_own_name_towards_the_server() {
    run(async {
        let exported = export();
        for (era, version) in PAIRS {
            let gateway = Gateway::joined("g", "1")
                .target("a", target(server(&version)))
                .target("b", target(server(&version)))
                .telemetry()
                .build();
            let (near, far) = Link::memory();
            let serving = gateway.clone();
            tokio::spawn(async move { serving.serve(far).await });
            let client = client(era).connect(near).await.unwrap();
            client.list_tools().all().await.unwrap();
            exported.exporter.reset();
            let meta = received(&client, call("b__meta", &[("traceparent", PARENT)])).await;
            let outer = exported.only("tools/call b__meta", SpanKind::Server);
            let inner = exported.only("tools/call meta", SpanKind::Client);
            assert_eq!(outer.parent_span_id.to_string(), "b7ad6b7169203331");
            assert_eq!(inner.parent_span_id, outer.span_context.span_id(), "{era:?} to {version}");
            let expected = format!("00-{TRACE}-{}-01", inner.span_context.span_id());
            assert_eq!(meta["traceparent"], expected, "{era:?} to {version}");
            client.close().await;
            gateway.close().await;
        }
    });
}

#[test]
fn the_context_of_the_http_request_is_a_link_of_the_span_towards_the_client() {
    run(async {
        let exported = export();
        let gateway = target(server(&Version::V2026_07_28)).telemetry().build();
        let mut service = gateway.http(HttpOptions::new());
        let meta = format!(
            r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}},"traceparent":"{PARENT}""#
        );
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"meta","arguments":{{}},"_meta":{{{meta}}}}}}}"#
        );
        let request = http::Request::post("http://localhost/mcp")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", "meta")
            .header("traceparent", LINKED)
            .body(http_body_util::Full::new(bytes::Bytes::from(body)))
            .unwrap();
        let response = tower_service::Service::call(&mut service, request).await.unwrap();
        assert_eq!(response.status(), 200);
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        assert!(!body.is_empty());
        let outer = exported.only("tools/call meta", SpanKind::Server);
        assert_eq!(outer.parent_span_id.to_string(), "b7ad6b7169203331");
        let links: Vec<_> = outer.links.iter().map(|link| link.span_context.span_id().to_string()).collect();
        assert_eq!(links, ["2222222222222222"]);
        exported.only("tools/call meta", SpanKind::Client);
        gateway.close().await;
    });
}
