//! A server on standard input and output, as programs with MCP start it.
//!
//! It serves one client and ends when the client closes standard input. Such a client is the example `stdio_client`:
//!
//! ```console
//! $ cargo build -p mcpjoin --example stdio_server
//! $ cargo run -p mcpjoin --example stdio_client -- target/debug/examples/stdio_server
//! greet: Greets a person
//! Hello, Ada!
//! ```

use mcpjoin::server::tool;
use mcpjoin::{Link, Server};

/// The arguments of the tool. Their JSON Schema is derived from this type.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet {
    /// Whom to greet.
    name: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder("greeter", "1.0.0")
        .tool(tool("greet").description("Greets a person"), |greet: Greet, _| async move {
            format!("Hello, {}!", greet.name)
        })
        .build()?;
    // From here on, what this program prints goes to standard error: standard output carries messages only.
    server.serve(Link::stdio()?).await;
    Ok(())
}
