//! A server on the newest rmcp, written as its users write one: both eras. Without arguments it uses stdio; with `http` it
//! uses Streamable HTTP, and with `http-stateless` the same without sessions in the legacy era. With HTTP it prints its
//! address for the client. With the variable `COUNTED` it has one more tool, which appends its message to that file.

use std::io::Write as _;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::stdio;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};

struct Tools;

/// The environment variable with the path of the file for `counted`.
const COUNTED: &str = "COUNTED";

fn count(message: &str) -> std::io::Result<()> {
    let path = std::env::var_os(COUNTED).ok_or(std::io::ErrorKind::NotFound)?;
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path)?;
    // One write, because several processes of this server may append to one file.
    file.write_all(format!("{message}\n").as_bytes())
}

/// A tool that takes one text.
fn tool(name: &'static str, description: &'static str) -> Tool {
    let schema = json!({
        "type": "object", "properties": { "message": { "type": "string" } }, "required": ["message"]
    });
    let schema: JsonObject = schema.as_object().cloned().unwrap_or_default();
    Tool::new(name, description, Arc::new(schema))
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::default();
        info.capabilities = ServerCapabilities::builder().enable_tools().build();
        info.server_info = Implementation::new("rmcp-current", "3.11.0");
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut tools = vec![tool("echo", "Gives it back"), tool("fail", "Fails with it")];
        if std::env::var_os(COUNTED).is_some() {
            tools.push(tool("counted", "Gives it back, and appends it to a file"));
        }
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let message = call.arguments.as_ref().and_then(|arguments| arguments.get("message"));
        let Some(message) = message.and_then(Value::as_str) else {
            return Err(ErrorData::invalid_params("message is a text", None));
        };
        let content = vec![ContentBlock::text(message)];
        match &*call.name {
            "echo" => Ok(CallToolResult::success(content).into()),
            "fail" => Ok(CallToolResult::error(content).into()),
            "counted" => match count(message) {
                Ok(()) => Ok(CallToolResult::success(content).into()),
                Err(error) => Err(ErrorData::internal_error(error.to_string(), None)),
            },
            _ => Err(ErrorData::invalid_params("there is no such tool", None)),
        }
    }
}

async fn listen(sessions: bool) -> Result<(), Box<dyn std::error::Error>> {
    let mut config = StreamableHttpServerConfig::default();
    config.legacy_session_mode = sessions;
    let manager = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(|| Ok(Tools), manager, config);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        match std::env::args().nth(1).as_deref() {
            Some("http") => listen(true).await,
            Some("http-stateless") => listen(false).await,
            _ => {
                Tools.serve(stdio()).await?.waiting().await?;
                Ok(())
            }
        }
    })
}
