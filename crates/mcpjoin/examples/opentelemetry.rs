//! The spans of one tool call: that of the client, that of the server, and the one that the tool opens, in one trace.
//!
//! ```console
//! $ cargo run -p mcpjoin --example opentelemetry --features otel
//! 21 degrees
//! Client: tools/call weather
//! Server: tools/call weather, below Client
//! Internal: look up, below Server
//! one trace
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use mcpjoin::server::{NoArguments, tool};
use mcpjoin::{Client, Server};
use opentelemetry::trace::{SpanKind, TracerProvider as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use tracing_subscriber::layer::SubscriberExt as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // What a program installs once. Without the propagator the server would begin a trace of its own.
    opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
    // A real program exports to a collector: `.with_batch_exporter(..)` with `opentelemetry-otlp`.
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("example"));
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))?;

    let server = Server::builder("weather", "1.0.0")
        .telemetry()
        .tool(tool("weather"), |_: NoArguments, _| async {
            tracing::info_span!("look up").in_scope(|| "21 degrees")
        })
        .build()?;
    let client = Client::builder("example", "1.0.0").telemetry().connect_to(&server).await?;
    println!("{}", client.call_tool("weather", ()).await?.to_text());
    client.close().await;
    provider.force_flush()?;

    let mut spans = exporter.get_finished_spans()?;
    // They end from the inside out.
    spans.reverse();
    for span in &spans {
        let parent = spans.iter().find(|parent| parent.span_context.span_id() == span.parent_span_id);
        let below = parent.map(|parent| format!(", below {:?}", parent.span_kind)).unwrap_or_default();
        println!("{:?}: {}{below}", span.span_kind, span.name);
    }
    let trace = |kind: SpanKind| {
        spans.iter().find(|span| span.span_kind == kind).map(|span| span.span_context.trace_id())
    };
    if trace(SpanKind::Client).is_some() && trace(SpanKind::Client) == trace(SpanKind::Internal) {
        println!("one trace");
    }
    Ok(())
}
