//! A server that may exit, and a client that starts it again.
//!
//! The call during which the server exits fails: it may have had an effect, so it is not repeated.
//!
//! ```console
//! $ cargo run -p mcpjoin --example restarting_client
//! run 1 has started
//! still here
//! the call has failed: exit code 1
//! run 2 has started
//! still here
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::sync::Arc;
use std::time::Duration;

use mcpjoin::client::{Restart, RunEvent};
use mcpjoin::server::{NoArguments, tool, with};
use mcpjoin::transport::ChildCommand;
use mcpjoin::{Client, Link, Server};
use tokio::sync::Notify;

/// The server: this program with the argument `serve`. Its tool `crash` makes it exit with an error.
async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let crash = Arc::new(Notify::new());
    let server = Server::builder("fragile", "1.0.0")
        .tool(tool("state"), |_: NoArguments, _| async { "still here" })
        .tool(
            tool("crash"),
            with(&crash, |crash, _: NoArguments, _| async move {
                crash.notify_one();
                std::future::pending::<()>().await;
            }),
        )
        .build()?;
    tokio::select! {
        _ = server.serve(Link::stdio()?) => Ok(()),
        () = crash.notified() => Err("crashed".into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        return serve().await;
    }
    let command = ChildCommand::new(std::env::current_exe()?).arg("serve");
    let restart =
        Restart::default().pauses(Duration::from_millis(10), Duration::from_secs(30)).on_event(|event| {
            if let RunEvent::Started { run } = event {
                println!("run {run} has started");
            }
        });
    let server =
        Client::builder("example", "1.0.0").restarting(restart, move || command.clone().start()).await?;

    let client = server.client().await?;
    println!("{}", client.call_tool("state", ()).await?.to_text());
    if client.call_tool("crash", ()).await.is_err() {
        let exit = client.exit().ok_or("the server has not exited")?;
        println!("the call has failed: {exit}");
    }
    // Waits for the next run. Each run has a client of its own.
    let client = server.client().await?;
    println!("{}", client.call_tool("state", ()).await?.to_text());
    server.close().await;
    Ok(())
}
