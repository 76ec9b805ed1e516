//! A server with one tool over stdio, on mcpjoin; `cargo xtask weight` measures its build.

use mcpjoin::server::{Json, tool};
use mcpjoin::{Link, Server};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder("calculator", "1.0.0")
        .tool(tool("add").description("Adds two numbers"), |n: Add, _| async move { Json(n.a + n.b) })
        .build()?;
    server.connect(Link::stdio()?).closed().await;
    Ok(())
}
