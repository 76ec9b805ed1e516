//! Adds a tool while the server runs, and notifies its clients.
//!
//! ```console
//! $ cargo run -p mcpjoin --example dynamic_tools
//! before: install
//! after: install, weather
//! sunny
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use mcpjoin::server::{Context, HandlerError, NoArguments, tool};
use mcpjoin::{Client, Link, Server};
use tokio::sync::mpsc::unbounded_channel;

/// A handler changes what its server offers. Code outside of handlers does the same with `Server::handle`.
async fn install(_: NoArguments, cx: Context) -> Result<&'static str, HandlerError> {
    cx.server().add_tool(tool("weather"), |_: NoArguments, _| async { "sunny" })?;
    Ok("installed")
}

async fn names(client: &Client) -> Result<String, mcpjoin::client::ClientError> {
    let tools = client.list_tools().all().await?;
    Ok(tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>().join(", "))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Clients may keep a list that is not declared as one that changes.
    let server =
        Server::builder("plugins", "1.0.0").dynamic_tools().tool(tool("install"), install).build()?;

    let (near, far) = Link::memory();
    server.connect(far);
    let (changed, mut changes) = unbounded_channel();
    let client = Client::builder("example", "1.0.0")
        .on_tools_changed(move |client| {
            let changed = changed.clone();
            async move {
                // The receiver lives as long as the program.
                let _ = changed.send(names(&client).await);
            }
        })
        .connect(near)
        .await?;
    println!("before: {}", names(&client).await?);
    client.call_tool("install", ()).await?.into_result()?;
    println!("after: {}", changes.recv().await.ok_or("no change was reported")??);
    println!("{}", client.call_tool("weather", ()).await?.to_text());
    Ok(())
}
