//! The same server on rmcp 2.2, which ends when the first request is not `initialize`.

use std::sync::Arc;

use rmcp_old::model::{
    CallToolRequestParams, CallToolResult, ContentBlock, Implementation, JsonObject, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerInfo, Tool,
};
use rmcp_old::service::RequestContext;
use rmcp_old::transport::stdio;
use rmcp_old::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};

struct Tools;

/// A tool that takes one text.
fn tool(name: &'static str, description: &'static str) -> Tool {
    let schema = json!({
        "type": "object", "properties": { "message": { "type": "string" } }, "required": ["message"]
    });
    let schema: JsonObject = schema.as_object().cloned().unwrap_or_default();
    Tool::new(name, description, Arc::new(schema))
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerInfo {
        let mut info = ServerInfo::default();
        info.capabilities = ServerCapabilities::builder().enable_tools().build();
        info.server_info = Implementation::new("rmcp-old", "2.2.0");
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![
            tool("echo", "Gives it back"),
            tool("fail", "Fails with it"),
        ]))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let message = call.arguments.as_ref().and_then(|arguments| arguments.get("message"));
        let Some(message) = message.and_then(Value::as_str) else {
            return Err(ErrorData::invalid_params("message is a text", None));
        };
        let content = vec![ContentBlock::text(message)];
        match &*call.name {
            "echo" => Ok(CallToolResult::success(content)),
            "fail" => Ok(CallToolResult::error(content)),
            _ => Err(ErrorData::invalid_params("there is no such tool", None)),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        Tools.serve(stdio()).await?.waiting().await?;
        Ok(())
    })
}
