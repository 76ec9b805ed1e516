//! Several servers at once: one that does not start and one that does not respond leave the others alone.
//!
//! ```console
//! $ cargo run -p mcpjoin --example many_servers
//! missing: cannot start ./no-such-server: no such program
//! clock: it is noon
//! slow: no response in time
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::time::Duration;

use futures_util::future::join_all;
use mcpjoin::server::{BuildError, NoArguments, tool};
use mcpjoin::transport::ChildCommand;
use mcpjoin::{BoxError, Client, Server};

/// A server in this program. The tool of `slow` never ends.
fn server(name: &'static str) -> Result<Server, BuildError> {
    Server::builder(name, "1.0.0")
        .tool(tool("time"), move |_: NoArguments, _| async move {
            if name == "slow" {
                std::future::pending::<()>().await;
            }
            "it is noon"
        })
        .build()
}

/// A client is of the same type for a server in this program, a child process or a URL.
async fn connect(name: &'static str) -> Result<Client, BoxError> {
    let builder = Client::builder("desk", "1.0.0");
    if name == "missing" {
        let link = ChildCommand::new("./no-such-server").start().await?;
        return Ok(builder.connect(link).await?);
    }
    Ok(builder.connect_to(&server(name)?).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let names = ["clock", "missing", "slow"];
    let mut clients = Vec::new();
    for (name, client) in names.into_iter().zip(join_all(names.map(connect)).await) {
        match client {
            Ok(client) => clients.push((name, client)),
            Err(error) => println!("{name}: {error}"),
        }
    }
    // All calls at the same time, each with a deadline.
    let calls =
        clients.iter().map(|(_, client)| client.call_tool("time", ()).total(Duration::from_millis(100)));
    for ((name, _), result) in clients.iter().zip(join_all(calls).await) {
        match result {
            Ok(result) => println!("{name}: {}", result.to_text()),
            Err(error) if error.is_timeout() => println!("{name}: no response in time"),
            Err(error) => println!("{name}: {error}"),
        }
    }
    join_all(clients.iter().map(|(_, client)| client.close())).await;
}
