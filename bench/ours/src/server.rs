//! Our server for the benchmark, where it does not use `mcpjoin serve demo --full`:
//! `ours-server [--rt current|multi] [--inline] [--pending] [--http URL]`. With `--rt multi` each handler runs in a task of its own, and
//! with `--inline` in the task of its connection. With `--pending` the tool echo is not ready at its first poll, like a tool
//! that waits for a result. With `--http` it serves at that URL instead of standard input and output.

use mcpjoin::Link;
use mcpjoin::server::{Server, tool};
use mcpjoin::transport::{HttpListener, HttpOptions};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::runtime::Builder;
use tokio::task::yield_now;

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
    let server = description
        .tool(tool("echo").description("Says what it is told"), move |echo: Echo, _| async move {
            if pending {
                yield_now().await;
            }
            echo.message
        })
        .build()
        .expect("a server with one tool");
    let url = words.iter().position(|word| word == "--http").and_then(|at| words.get(at + 1));
    builder.enable_all().build().expect("a runtime").block_on(async {
        if let Some(url) = url {
            let listener = HttpListener::bind(url).await.expect("the address is free");
            return server.serve_http(listener, HttpOptions::new(), std::future::pending::<()>()).await;
        }
        server.serve(Link::stdio().expect("standard input and output")).await;
    });
}
