//! Tests of the context of a trace through `bridge`: the client and the server on both sides of the program are in one trace.

use std::time::Duration;

use mcpjoin::Client;
use mcpjoin::proto::Era;
use mcpjoin::proto::session::EraChoice;
use mcpjoin::server::{NoArguments, Server, tool};
use mcpjoin::transport::{ChildCommand, Listener};
use opentelemetry::global;
use opentelemetry::trace::{SpanKind, TracerProvider as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use tracing_subscriber::layer::SubscriberExt as _;

#[test]
fn a_call_through_the_bridge_is_in_one_trace() {
    global::set_text_map_propagator(TraceContextPropagator::new());
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let _subscriber = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let test = async {
        let server = Server::builder("s", "1").telemetry();
        let server = server.tool(tool("t"), |_: NoArguments, _| async { "done" }).build().unwrap();
        let listener = Listener::tcp("127.0.0.1:0").await.unwrap();
        let target = listener.address().to_string();
        tokio::spawn(async move { server.serve_all(listener, std::future::pending()).await });
        for era in [Era::Legacy, Era::Modern] {
            let bridge = ChildCommand::new(env!("CARGO_BIN_EXE_mcpjoin"))
                .arg("bridge")
                .arg(&target)
                .start()
                .await
                .unwrap();
            let client = Client::builder("c", "1").era(EraChoice::Only(era)).telemetry();
            let client = client.connect(bridge).await.unwrap();
            exporter.reset();
            assert_eq!(client.call_tool("t", ()).await.unwrap().to_text(), "done");
            let spans = exporter.get_finished_spans().unwrap();
            let call = |kind: SpanKind| {
                let found = spans.iter().find(|span| span.name == "tools/call t" && span.span_kind == kind);
                found.unwrap_or_else(|| panic!("{era:?}: {spans:#?}"))
            };
            let (sent, received) = (call(SpanKind::Client), call(SpanKind::Server));
            assert_eq!(received.parent_span_id, sent.span_context.span_id(), "{era:?}");
            assert_eq!(received.span_context.trace_id(), sent.span_context.trace_id());
            client.close().await;
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), test).await.unwrap() });
}
