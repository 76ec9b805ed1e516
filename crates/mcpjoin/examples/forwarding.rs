//! A server with the tools of two others. Arguments and results are forwarded as the text that they are.
//!
//! No value is decoded. For whole servers in another era or on another transport see the crate `mcpjoin-gateway`.
//!
//! ```console
//! $ cargo run -p mcpjoin --example forwarding
//! clock_now, weather_now
//! noon
//! {"celsius":21.50}
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use mcpjoin::proto::Raw;
use mcpjoin::proto::session::Reply;
use mcpjoin::server::{NoArguments, tool};
use mcpjoin::{Client, Link, Server};

/// A client of this server, in memory.
async fn client(server: &Server) -> Result<Client, mcpjoin::client::ConnectError> {
    let (near, far) = Link::memory();
    server.connect(far);
    Client::builder("example", "1.0.0").connect(near).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock =
        Server::builder("clock", "1.0.0").tool(tool("now"), |_: NoArguments, _| async { "noon" }).build()?;
    let weather = Server::builder("weather", "1.0.0")
        .tool(tool("now"), |_: NoArguments, _| async { r#"{"celsius":21.50}"# })
        .build()?;

    let mut both = Server::builder("both", "1.0.0");
    for (prefix, server) in [("clock", clock), ("weather", weather)] {
        let upstream = client(&server).await?;
        for mut tool in upstream.list_tools().all().await? {
            let (upstream, name) = (upstream.clone(), tool.name);
            tool.name = format!("{prefix}_{name}");
            // The description and the schemas are those of the upstream server.
            both = both.raw_tool(tool, move |arguments: Raw, _| {
                // Dropped when the caller cancels, which cancels the call upstream.
                let call = upstream.call_tool(&name, arguments);
                async move { call.raw().await.map(Reply::Complete) }
            });
        }
    }
    let both = client(&both.build()?).await?;
    let names: Vec<String> = both.list_tools().all().await?.into_iter().map(|tool| tool.name).collect();
    println!("{}", names.join(", "));
    for name in names {
        println!("{}", both.call_tool(name, ()).await?.to_text());
    }
    Ok(())
}
