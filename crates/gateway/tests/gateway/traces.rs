//! Tests of the context of a trace: a client, the gateway and the server behind it are in one trace, whatever their eras.

use std::future::ready;
use std::io;

use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::{Era, Version};
use mcpjoin::server::{NoArguments, Server, tool};
use mcpjoin::{Client, Link};
use mcpjoin_gateway::Gateway;
use opentelemetry::global;
use opentelemetry::trace::{SpanKind, TracerProvider as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::run;

#[test]
fn a_call_through_the_gateway_is_in_one_trace_in_every_pair_of_eras() {
    run(async {
        global::set_text_map_propagator(TraceContextPropagator::new());
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let _subscriber = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        for era in [Era::Legacy, Era::Modern] {
            for version in [Version::V2025_06_18, Version::V2026_07_28] {
                let server = Server::builder("s", "1").versions([version.clone()]).telemetry();
                let server = server.tool(tool("t"), |_: NoArguments, _| async { "done" }).build().unwrap();
                let gateway = Gateway::builder(move || {
                    let (near, far) = Link::memory();
                    server.connect(far);
                    ready(Ok::<_, io::Error>(near))
                })
                .build();
                let (near, far) = Link::memory();
                let serving = tokio::spawn({
                    let gateway = gateway.clone();
                    async move { gateway.serve(far).await }
                });
                let client = Client::builder("c", "1").era(EraChoice::Only(era)).telemetry();
                let client = client.connect(near).await.unwrap();
                exporter.reset();
                assert_eq!(client.call_tool("t", ()).await.unwrap().to_text(), "done");
                let spans = exporter.get_finished_spans().unwrap();
                let of_kind = |kind: SpanKind| {
                    let mut calls =
                        spans.iter().filter(|span| span.name == "tools/call t" && span.span_kind == kind);
                    let span = calls.next().unwrap_or_else(|| panic!("{era:?} to {version}: {spans:#?}"));
                    assert!(calls.next().is_none());
                    span
                };
                let (sent, received) = (of_kind(SpanKind::Client), of_kind(SpanKind::Server));
                assert_eq!(received.parent_span_id, sent.span_context.span_id(), "{era:?} to {version}");
                assert_eq!(received.span_context.trace_id(), sent.span_context.trace_id());
                client.close().await;
                drop(serving.await);
            }
        }
    });
}
