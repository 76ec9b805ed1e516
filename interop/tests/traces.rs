//! A call through the real bridge is in one trace, as a program reads it that none of us wrote: the spans of client, bridge
//! and server leave through OpenTelemetry's own exporter, and are read with its messages for Python (`interop/otlp`).

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as it should be fails the test")]

use std::io::{BufRead as _, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mcpjoin::Client;
use mcpjoin::proto::Era;
use mcpjoin::proto::session::EraChoice;
use mcpjoin::server::{NoArguments, Server, tool};
use mcpjoin::transport::{ChildCommand, Listener};
use opentelemetry::global;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use serde_json::Value;
use tokio::runtime::Handle;
use tracing_subscriber::layer::SubscriberExt as _;

/// The time limit of the test: far more than it takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// The program that receives spans.
struct Receiver {
    child: Child,
    /// It ends when this is closed.
    input: Option<ChildStdin>,
    printed: Lines<BufReader<ChildStdout>>,
}

impl Receiver {
    fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("otlp/receiver.py");
        let mut child = Command::new(interop::server("venv/bin/python").unwrap())
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let printed = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, input, printed }
    }

    fn line(&mut self) -> Value {
        let line = self.printed.next().expect("the receiver has ended").unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Ends it, and returns the spans that it has received.
    fn end(mut self) -> Vec<Value> {
        drop(self.input.take());
        let rest = self.printed.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
        assert!(self.child.wait().unwrap().success(), "the receiver failed");
        rest
    }
}

/// Sends from the thread of the exporter, which has no runtime, on the runtime of the test.
#[derive(Debug)]
struct OnRuntime(Arc<HyperClient>, Handle);

#[async_trait]
impl HttpClient for OnRuntime {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.0.clone();
        self.1.spawn(async move { client.send_bytes(request).await }).await?
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_independent_program_reads_one_trace_of_client_bridge_and_server() {
    let binary = interop::mcpjoin().unwrap();
    let mut receiver = Receiver::start();
    let address = receiver.line()["address"].as_str().unwrap().to_owned();
    let client = HyperClient::with_default_connector(DEADLINE, None);
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(OnRuntime(Arc::new(client), Handle::current()))
        .with_endpoint(format!("{address}/v1/traces"))
        .build()
        .unwrap();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
    global::set_text_map_propagator(TraceContextPropagator::new());
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("interop"));
    let filter = tracing_subscriber::filter::Targets::new().with_target("mcpjoin", tracing::Level::INFO);
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(filter).with(layer)).unwrap();

    let calls = async {
        let server = Server::builder("s", "1").telemetry();
        let server = server.tool(tool("t"), |_: NoArguments, _| async { "done" }).build().unwrap();
        let listener = Listener::tcp("127.0.0.1:0").await.unwrap();
        let target = listener.address().to_string();
        tokio::spawn(async move { server.serve_all(listener, std::future::pending()).await });
        for era in [Era::Legacy, Era::Modern] {
            let joined = format!("a={target}");
            for (words, tool) in [(vec![&*target], "t"), (vec!["--join", &*joined], "a__t")] {
                let bridge = ChildCommand::new(&binary).arg("bridge").args(words);
                let bridge = bridge.env("OTEL_EXPORTER_OTLP_ENDPOINT", &address);
                let client = Client::builder("c", "1").era(EraChoice::Only(era)).telemetry();
                let client = client.connect(bridge.start().await.unwrap()).await.unwrap();
                assert_eq!(client.call_tool(tool, ()).await.unwrap().to_text(), "done");
                client.close().await;
            }
        }
    };
    tokio::time::timeout(DEADLINE, calls).await.unwrap();
    provider.shutdown().unwrap();

    let spans = receiver.end();
    // What a bridge of several servers asks on its own, to find the tool, is left out.
    let calls: Vec<&Value> =
        spans.iter().filter(|span| text(&span["span"]).starts_with("tools/call")).collect();
    let inside = |parent: &str| -> Vec<&Value> {
        calls.iter().filter(|span| span["parent"] == parent).copied().collect()
    };
    let sent = inside("");
    assert_eq!(sent.len(), 4, "each call without a parent begins a trace: {spans:#?}");
    for first in sent {
        let mut way = vec![first];
        while let [next] = inside(text(&way[way.len() - 1]["id"]))[..] {
            assert_eq!(next["trace"], first["trace"]);
            way.push(next);
        }
        let seen: Vec<_> = way.iter().map(|span| (text(&span["kind"]), &span["attributes"])).collect();
        let kinds: Vec<_> = seen.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, ["SPAN_KIND_CLIENT", "SPAN_KIND_SERVER", "SPAN_KIND_CLIENT", "SPAN_KIND_SERVER"]);
        let of_all = |key: &str| seen.iter().map(|(_, all)| text(&all[key]).to_owned()).collect::<Vec<_>>();
        assert_eq!(of_all("mcp.method.name"), ["tools/call"; 4]);
        assert_eq!(of_all("network.transport"), ["pipe", "pipe", "tcp", "tcp"]);
        let tool = text(&first["attributes"]["gen_ai.tool.name"]);
        assert_eq!(of_all("gen_ai.tool.name"), [tool, tool, "t", "t"]);
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
