//! A client that starts a server as a child process, lists its tools and calls one.
//!
//! The arguments are the command of the server. Here it is the example `stdio_server`:
//!
//! ```console
//! $ cargo build -p mcpjoin --example stdio_server
//! $ cargo run -p mcpjoin --example stdio_client -- target/debug/examples/stdio_server
//! greet: Greets a person
//! Hello, Ada!
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use mcpjoin::Client;
use mcpjoin::transport::ChildCommand;
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut command = std::env::args_os().skip(1);
    let program = command.next().ok_or("usage: stdio_client COMMAND [ARGUMENT...]")?;
    let link = ChildCommand::new(program).args(command).start().await?;
    let client = Client::builder("stdio-client", "1.0.0").connect(link).await?;
    for tool in client.list_tools().all().await? {
        println!("{}: {}", tool.name, tool.description.unwrap_or_default());
    }
    // The result of a tool that has failed is an error here.
    let greeting = client.call_tool("greet", json!({ "name": "Ada" })).await?.into_result()?;
    println!("{}", greeting.to_text());
    // Waits until the server and every process that it has started are gone.
    client.close().await;
    Ok(())
}
