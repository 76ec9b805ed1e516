//! An echo server on rmcp for the benchmark: `rmcp-server [--rt current|multi] stdio|pipes`, where `stdio` is the transport
//! of rmcp's documentation and `pipes` is its newer one without threads, or
//! `rmcp-server [--rt current|multi] http PORT stateful|stateless`; without sessions it answers with plain JSON. `--tools FILE` and
//! `--resource FILE` are what they are for `ours-server`.

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::serve::ListenerExt as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, ResourceContents, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Builder;

#[derive(Clone)]
struct Echo {
    tools: Arc<Vec<Tool>>,
    /// The path of the file with the resource.
    resource: Arc<str>,
}

impl Echo {
    fn new(words: &[String]) -> Self {
        let value = |option| words.iter().position(|word| word == option).and_then(|at| words.get(at + 1));
        let tools = match value("--tools") {
            Some(path) => {
                let tools = std::fs::read(path).expect("the list of tools");
                serde_json::from_slice(&tools).expect("a list of tools")
            }
            None => {
                let schema = json!({"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]});
                let schema = schema.as_object().cloned().unwrap_or_default();
                vec![Tool::new("echo", "Says what it is told", Arc::new(schema))]
            }
        };
        Self { tools: Arc::new(tools), resource: value("--resource").map_or("", String::as_str).into() }
    }
}

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        let mut config = ServerConfig::default();
        config.capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        config
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.as_ref().clone()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = std::fs::read_to_string(&*self.resource)
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Ok(ReadResourceResult::new(vec![ResourceContents::text(text, request.uri)]).into())
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if call.name == "report"
            && let Some(token) = context.meta.get_progress_token()
        {
            let _ = context.peer.notify_progress(ProgressNotificationParam::new(token, 1.0)).await;
        }
        match call.arguments.and_then(|mut arguments| arguments.remove("message")) {
            Some(Value::String(text)) => Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into()),
            _ => Err(ErrorData::invalid_params("message", None)),
        }
    }
}

async fn http(echo: Echo, port: u16, stateful: bool) {
    let mut config = StreamableHttpServerConfig::default();
    config.legacy_session_mode = stateful;
    config.json_response = !stateful;
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(echo.clone()), sessions, config);
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
        let echo = Echo::new(&words);
        if let Some(at) = words.iter().position(|word| word == "http") {
            let port = words[at + 1].parse().expect("http PORT");
            return http(echo, port, has("stateful")).await;
        }
        let running = if has("pipes") {
            echo.serve(rmcp::transport::io::stdio_pipes()).await
        } else {
            echo.serve(rmcp::transport::stdio()).await
        };
        let _ = running.expect("a client").waiting().await;
    });
}
