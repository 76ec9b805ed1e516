//! Tools that take a while and say something meanwhile: log messages and progress.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress>. Who wants to hear of it is not
//! theirs to know: what nobody has asked for is not sent.

use mcpjoin::proto::types::LoggingLevel;
use mcpjoin::server::{Context, NoArguments, ServerBuilder, tool};
use tokio::time::sleep;

use super::PAUSE;

/// Adds the chapter.
pub(super) fn add(server: ServerBuilder) -> ServerBuilder {
    server
        .logging()
        .tool(
            tool("test_tool_with_logging").description("Sends three log messages").read_only(),
            async |_: NoArguments, cx: Context| {
                cx.log(LoggingLevel::Info, "Tool execution started");
                sleep(PAUSE).await;
                cx.log(LoggingLevel::Info, "Tool processing data");
                sleep(PAUSE).await;
                cx.log(LoggingLevel::Info, "Tool execution completed");
                "Tool with logging executed successfully"
            },
        )
        .tool(
            tool("test_logging_tool").description("Sends a log message of each of three levels").read_only(),
            async |_: NoArguments, cx: Context| {
                for level in [LoggingLevel::Debug, LoggingLevel::Info, LoggingLevel::Warning] {
                    let text = format!("A message of the level {}", level.as_str());
                    cx.log_as(Some("demo"), level, text);
                }
                "Whoever wanted messages of these levels has them"
            },
        )
        .tool(
            tool("test_tool_with_progress").description("Tells how far it is, three times").read_only(),
            async |_: NoArguments, cx: Context| {
                cx.progress(0.0, Some(100.0), Some("Begun"));
                sleep(PAUSE).await;
                cx.progress(50.0, Some(100.0), Some("Half done"));
                sleep(PAUSE).await;
                cx.progress(100.0, Some(100.0), Some("Done"));
                "Tool with progress executed successfully"
            },
        )
        .tool(
            tool("test_reconnection")
                .description(
                    "Closes the stream of the call, where there is one, and gives its result a little later",
                )
                .read_only(),
            async |_: NoArguments, cx: Context| {
                sleep(PAUSE).await;
                cx.close_sse_stream();
                sleep(2 * PAUSE).await;
                "The result has arrived, over whichever stream"
            },
        )
}
