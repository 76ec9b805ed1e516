//! Orchestra's host over the wire: its responses, invalid requests, and bad networks. The exchanges of the real
//! programs are in `../base/golden.txt`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the seed of a run is told, so that it can be made again")]

mod endings;
mod exchanges;
#[path = "../bridge/faulty_orchestrator.rs"]
mod faulty_orchestrator;
mod frames;
mod network;
mod results;

use mcpjoin::client::ClientBuilder;
use mcpjoin::proto::Raw;
use mcpjoin::server::Server;
use mcpjoin::{Client, Link};
use mcpjoin_orchestra::certs::Certificates;
use mcpjoin_orchestra::host::{self, Host, HostLimits, Offer};
use mcpjoin_orchestra::value::{Numbers, Struct};
use mcpjoin_orchestra::wire::plugin_request::Request;
use mcpjoin_orchestra::wire::plugin_response::Response;
use mcpjoin_orchestra::wire::{self, PluginRequest, PluginResponse, ToolRequest, ToolResponse};
use mcpjoin_orchestra::{ALPN, CLIENT_NAME, SERVER_NAME};
use mcpjoin_quic::endpoint::{self as quic, Connection, Listener, QuicOptions};
use mcpjoin_test_support::{Folder, lossy, run_on_threads as run};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

fn client() -> ClientBuilder {
    Client::builder("orchestra-host-test", "1")
}

/// An MCP server for the host, with its own name.
async fn offer(name: &str, server: &Server) -> Offer {
    let (ours, theirs) = Link::memory();
    server.connect(theirs);
    Offer::client(name, client().connect(ours).await.unwrap())
}

/// A running host, and a connection to it.
struct Stage {
    connection: Connection,
    address: String,
    end: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
    folder: Folder,
}

impl Stage {
    async fn of(server: &Server) -> Self {
        Self::with([offer("one", server).await], HostLimits::default()).await
    }

    async fn with(offers: impl IntoIterator<Item = Offer>, limits: HostLimits) -> Self {
        let folder = Folder::new();
        let certificates = Certificates::in_directory(folder.path());
        let tls = move || certificates.server(SERVER_NAME, true, ALPN);
        let listener = Listener::bind("127.0.0.1:0", tls, host::quic_options()).await.unwrap();
        let address = listener.address().to_string();
        let host = Host::new(offers, limits);
        let (end, ends) = oneshot::channel::<()>();
        let serving = tokio::spawn(async move {
            host.serve(listener, async { drop(ends.await) }).await;
        });
        let connection = connect(&folder, &address).await;
        Self { connection, address, end: Some(end), serving, folder }
    }

    async fn ask(&self, request: Request) -> Response {
        ask(&self.connection, request).await
    }

    async fn call(&self, tool: &str, arguments: &str) -> ToolResponse {
        match self.ask(call(tool, arguments)).await {
            Response::ToolCall(response) => response,
            other => panic!("{other:?}"),
        }
    }

    async fn refused(&self, request: Request) -> (String, String) {
        match self.ask(request).await {
            Response::ToolCall(ToolResponse { success: false, error_code, error_message, .. }) => {
                (error_code, error_message)
            }
            other => panic!("{other:?}"),
        }
    }
}

async fn connect(folder: &Folder, address: &str) -> Connection {
    let tls = Certificates::in_directory(folder.path()).client(CLIENT_NAME, ALPN).unwrap();
    quic::connect(address, &tls, &QuicOptions::default()).await.unwrap()
}

async fn ask(connection: &Connection, request: Request) -> Response {
    let request = PluginRequest { request_id: "an id".to_owned(), request: Some(request) };
    let (mut send, mut receive) = connection.open().await.unwrap();
    wire::write(&mut send, &request).await.unwrap();
    send.finish().unwrap();
    let answer: PluginResponse = wire::read(&mut receive).await.unwrap();
    assert_eq!(answer.request_id, "an id");
    answer.response.unwrap()
}

/// The response to these bytes, up to the end of the stream.
async fn bytes(connection: &Connection, bytes: &[u8]) -> Vec<u8> {
    let (mut send, mut receive) = connection.open().await.unwrap();
    // The host may stop reading early.
    if send.write_all(bytes).await.is_ok() {
        let _ = send.finish();
    }
    receive.read_to_end(usize::MAX).await.unwrap()
}

fn call(tool: &str, arguments: &str) -> Request {
    let arguments = Struct::from_json(&Raw::parse(arguments.to_owned()).unwrap(), Numbers::Exact).unwrap();
    let request =
        ToolRequest { tool_name: tool.to_owned(), arguments: Some(arguments), ..ToolRequest::default() };
    Request::ToolCall(request)
}

fn json(value: &Option<Struct>) -> Value {
    let json = value.as_ref().unwrap().to_json().unwrap();
    serde_json::from_str(json.json.as_str()).unwrap()
}
