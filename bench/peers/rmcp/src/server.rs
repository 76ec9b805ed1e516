//! An echo server on rmcp for the benchmark: `rmcp-server [--rt current|multi] stdio|pipes`, where `stdio` is the transport
//! of rmcp's documentation and `pipes` is its newer one without threads, or
//! `rmcp-server [--rt current|multi] http PORT stateful|stateless`; without sessions it answers with plain JSON.

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::serve::ListenerExt as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Builder;

struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        let mut config = ServerConfig::default();
        config.capabilities = ServerCapabilities::builder().enable_tools().build();
        config
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema =
            json!({"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]});
        let schema = schema.as_object().cloned().unwrap_or_default();
        Ok(ListToolsResult::with_all_items(vec![Tool::new("echo", "Says what it is told", Arc::new(schema))]))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match call.arguments.and_then(|mut arguments| arguments.remove("message")) {
            Some(Value::String(text)) => Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into()),
            _ => Err(ErrorData::invalid_params("message", None)),
        }
    }
}

async fn http(port: u16, stateful: bool) {
    let mut config = StreamableHttpServerConfig::default();
    config.legacy_session_mode = stateful;
    config.json_response = !stateful;
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(|| Ok(Echo), sessions, config);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.expect("the port is free");
    let listener = listener.tap_io(|socket| drop(socket.set_nodelay(true)));
    axum::serve(listener, axum::Router::new().fallback_service(service)).await.expect("a server");
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |option: &str| words.iter().any(|word| word == option);
    let mut builder =
        if has("current") { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.enable_all().build().expect("a runtime").block_on(async {
        if let Some(at) = words.iter().position(|word| word == "http") {
            let port = words[at + 1].parse().expect("http PORT");
            return http(port, has("stateful")).await;
        }
        let running = if has("pipes") {
            Echo.serve(rmcp::transport::io::stdio_pipes()).await
        } else {
            Echo.serve(rmcp::transport::stdio()).await
        };
        let _ = running.expect("a client").waiting().await;
    });
}
