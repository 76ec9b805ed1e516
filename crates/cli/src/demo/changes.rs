//! Tools that change what the server offers while it runs, for those who listen to see it.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>. Every client of this server
//! sees the change, and hears of it in the way of its era.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mcpjoin::proto::types::{Prompt, Resource};
use mcpjoin::server::{Context, HandlerError, NoArguments, ServerBuilder, tool};

/// The tool that comes and goes.
pub(crate) const TOOL: &str = "test_added_tool";
/// The prompt that comes and goes.
pub(crate) const PROMPT: &str = "test_added_prompt";
/// The resource that changes.
pub(crate) const WATCHED: &str = "test://watched-resource";

/// Adds the chapter.
pub(super) fn add(server: ServerBuilder) -> ServerBuilder {
    let version = Arc::new(AtomicU64::new(1));
    let updated = version.clone();
    server
        .dynamic_tools()
        .dynamic_prompts()
        .subscriptions()
        .tool(
            tool("test_trigger_tool_change").description("Adds a tool to the list, or takes it away again"),
            tool_change,
        )
        .tool(
            tool("test_trigger_prompt_change")
                .description("Adds a prompt to the list, or takes it away again"),
            prompt_change,
        )
        .tool(
            tool("test_trigger_resource_update").description("Changes the resource that can be watched"),
            move |_: NoArguments, cx: Context| {
                let version = 1 + updated.fetch_add(1, Ordering::Relaxed);
                cx.server().notify_resource_updated(WATCHED);
                async move { format!("{WATCHED} has version {version}") }
            },
        )
        .resource(
            Resource::new(WATCHED, "watched-resource")
                .with_description("A text that changes when test_trigger_resource_update is called")
                .with_mime_type("text/plain"),
            move |_, _| {
                let version = version.load(Ordering::Relaxed);
                async move { format!("Watched resource, version {version}") }
            },
        )
}

async fn tool_change(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    let server = cx.server();
    if server.remove_tool(TOOL)? {
        return Ok(format!("{TOOL} is gone"));
    }
    let added = tool(TOOL).description("Was added while the server ran").read_only();
    server.add_tool(added, async |_: NoArguments, _| "Here since test_trigger_tool_change was called")?;
    Ok(format!("{TOOL} is there"))
}

async fn prompt_change(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    let server = cx.server();
    if server.remove_prompt(PROMPT)? {
        return Ok(format!("{PROMPT} is gone"));
    }
    let added = Prompt::new(PROMPT).with_description("Was added while the server ran");
    server.add_prompt(added, async |_, _| "Here since test_trigger_prompt_change was called")?;
    Ok(format!("{PROMPT} is there"))
}
