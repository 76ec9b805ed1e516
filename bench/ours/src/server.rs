//! Our server for the benchmark, where it does not use `mcpjoin serve demo --full`:
//! `ours-server [--rt current|multi] [--inline] [--pending] [--http URL]`. With `--rt multi` each handler runs in a task of its own, and
//! with `--inline` in the task of its connection. With `--pending` the tool echo is not ready at its first poll, like a tool
//! that waits for a result. With `--http` it serves at that URL instead of standard input and output. `--tools FILE` adds the tools
//! of a list in JSON, `--resource FILE` a resource whose contents are those of the file, and `--progress` the tool report, which
//! reports progress once and is echo otherwise.

use mcpjoin::Link;
use mcpjoin::proto::session::Limits;
use mcpjoin::proto::types::{Resource, Tool};
use mcpjoin::server::{Server, tool};
use mcpjoin::transport::{HttpListener, HttpOptions};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::runtime::Builder;
use tokio::task::yield_now;

/// The limit of a message: more than the largest resource.
const LARGEST: usize = 256 << 20;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    message: String,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |option: &str| words.iter().any(|word| word == option);
    let mut builder = if has("multi") { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    let pending = has("--pending");
    let mut description = Server::builder("ours", "0.0.0");
    if has("--inline") {
        description = description.inline_handlers();
    }
    let value = |option: &str| words.iter().position(|word| word == option).and_then(|at| words.get(at + 1));
    if let Some(path) = value("--resource").cloned() {
        let resource = Resource::new("bench://file", "file");
        description = description
            .limits(Limits::default().with_message(LARGEST))
            .resource(resource, move |_, _| std::future::ready(std::fs::read_to_string(&path)));
    }
    if has("--progress") {
        description = description.tool(tool("report"), |echo: Echo, cx| async move {
            cx.progress(1.0, None, None);
            echo.message
        });
    }
    description = match value("--tools") {
        // These are all tools that the server has, so that they are one page.
        Some(path) => {
            tools(path).into_iter().fold(description, |server, tool| server.raw_tool(tool, |_, _| async {}))
        }
        None => description.tool(
            tool("echo").description("Says what it is told"),
            move |echo: Echo, _| async move {
                if pending {
                    yield_now().await;
                }
                echo.message
            },
        ),
    };
    let server = description.build().expect("a server");
    let url = value("--http");
    builder.enable_all().build().expect("a runtime").block_on(async {
        if let Some(url) = url {
            let listener = HttpListener::bind(url).await.expect("the address is free");
            return server.serve_http(listener, HttpOptions::new(), std::future::pending::<()>()).await;
        }
        server.serve(Link::stdio().expect("standard input and output")).await;
    });
}

fn tools(path: &str) -> Vec<Tool> {
    let tools = std::fs::read(path).expect("the list of tools");
    serde_json::from_slice(&tools).expect("a list of tools")
}
