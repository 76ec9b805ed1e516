//! A server over HTTP with a listener of its own. One address serves clients of both eras.
//!
//! ```console
//! $ cargo run -p mcpjoin --example http_server
//! 2025-11-25: 42
//! 2026-07-28: 42
//! the server has ended
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use mcpjoin::client::EraChoice;
use mcpjoin::proto::Era;
use mcpjoin::server::{Json, tool};
use mcpjoin::transport::{HttpListener, HttpOptions};
use mcpjoin::{Client, Link, Server};
use serde_json::json;
use tokio::sync::oneshot;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder("calculator", "1.0.0")
        .tool(tool("add"), |n: Add, _| async move { Json(n.a + n.b) })
        .build()?;
    // Port 0 is any free port.
    let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await?;
    let url = listener.url();
    // A server that runs until it is interrupted waits for `tokio::signal::ctrl_c()` here.
    let (end, ends) = oneshot::channel::<()>();
    let ended = async { drop(ends.await) };
    let serving = tokio::spawn(async move { server.serve_http(listener, HttpOptions::new(), ended).await });

    for era in [Era::Legacy, Era::Modern] {
        let link = Link::http(&url).build()?;
        let client = Client::builder("example", "1.0.0").era(EraChoice::Only(era)).connect(link).await?;
        let sum: i64 = client.call_tool("add", json!({ "a": 2, "b": 40 })).await?.decode()?;
        println!("{}: {sum}", client.profile().version);
        client.close().await;
    }
    // Requests in progress are answered, and streams are closed.
    drop(end);
    serving.await?;
    println!("the server has ended");
    Ok(())
}
