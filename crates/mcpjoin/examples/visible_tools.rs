//! Tools that only some users see. For everybody else such a tool does not exist.
//!
//! ```console
//! $ cargo run -p mcpjoin --example visible_tools
//! ada sees: count, clear
//! bob sees: count
//! bob: JSON-RPC error -32602: unknown tool: clear
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use mcpjoin::server::{NoArguments, tool};
use mcpjoin::transport::{HttpListener, HttpOptions};
use mcpjoin::{Client, Link, Server};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder("notes", "1.0.0")
        .tool(tool("count").read_only(), |_: NoArguments, _| async { "three notes" })
        .tool(tool("clear"), |_: NoArguments, _| async { "cleared" })
        .visible_tools(|cx, tool| tool.name != "clear" || cx.principal() == Some("ada"))
        .build()?;
    // A proxy in front of this server logs the users in, and says in a header who they are. Without such a proxy a
    // client could name anybody: see the examples `bearer_token` and `oauth`.
    let options =
        HttpOptions::new().principal(|head| Some(head.headers.get("x-user")?.to_str().ok()?.to_owned()));
    let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await?;
    let url = listener.url();
    let serving =
        tokio::spawn(async move { server.serve_http(listener, options, std::future::pending()).await });

    for user in ["ada", "bob"] {
        let link = Link::http(&url).header("x-user", user).build()?;
        let client = Client::builder("example", "1.0.0").connect(link).await?;
        let tools = client.list_tools().all().await?;
        let names: Vec<String> = tools.into_iter().map(|tool| tool.name).collect();
        println!("{user} sees: {}", names.join(", "));
        if let Err(error) = client.call_tool("clear", ()).await {
            println!("{user}: {error}");
        }
        client.close().await;
    }
    serving.abort();
    Ok(())
}
