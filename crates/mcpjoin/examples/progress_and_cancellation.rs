//! A long tool reports its progress. A client that drops its call cancels it.
//!
//! ```console
//! $ cargo run -p mcpjoin --example progress_and_cancellation
//! 3 of 3: copied
//! all files were copied
//! the handler was dropped
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use mcpjoin::connection::CallEvent;
use mcpjoin::server::{Context, NoArguments, tool, with};
use mcpjoin::{Client, Link, Server};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

async fn copy(_: NoArguments, cx: Context) -> &'static str {
    for file in 1..=3 {
        // Nothing is sent if the client did not ask for it.
        cx.progress(f64::from(file), Some(3.0), Some("copied"));
        tokio::task::yield_now().await;
    }
    "all files were copied"
}

/// Says that it was dropped.
struct Guard(UnboundedSender<&'static str>);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.send("the handler was dropped");
    }
}

/// Never ends by itself. When the call is cancelled, the handler is dropped at its current await.
async fn wait(dropped: UnboundedSender<&'static str>, _: NoArguments, cx: Context) {
    let _guard = Guard(dropped);
    cx.progress(0.0, None, Some("waiting"));
    std::future::pending::<()>().await;
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (dropped, mut drops) = unbounded_channel();
    let server = Server::builder("files", "1.0.0")
        .tool(tool("copy"), copy)
        .tool(tool("wait"), with(&dropped, wait))
        .build()?;

    let (near, far) = Link::memory();
    server.connect(far);
    let client = Client::builder("example", "1.0.0").connect(near).await?;

    let mut call = client.call_tool("copy", ());
    let mut last = None;
    // A newer report replaces one that was not taken. The last one always arrives before the result.
    while let Some(event) = call.next_event().await {
        if let CallEvent::Progress(progress) = event {
            last = Some(progress);
        }
    }
    let last = last.ok_or("no progress was reported")?;
    println!("{} of {}: {}", last.progress, last.total.unwrap_or_default(), last.message.unwrap_or_default());
    println!("{}", call.await?.to_text());

    let mut call = client.call_tool("wait", ());
    call.next_event().await.ok_or("no progress was reported")?;
    drop(call);
    println!("{}", drops.recv().await.ok_or("the handler still runs")?);
    Ok(())
}
