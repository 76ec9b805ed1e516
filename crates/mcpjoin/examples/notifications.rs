//! A client that reacts to what its server reports: log messages, and a resource that has changed.
//!
//! The same functions serve both eras.
//!
//! ```console
//! $ cargo run -p mcpjoin --example notifications
//! 2025-11-25: info: "dimmed"
//! 2025-11-25: lamp://kitchen is now 30 %
//! 2026-07-28: info: "dimmed"
//! 2026-07-28: lamp://kitchen is now 30 %
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use mcpjoin::client::EraChoice;
use mcpjoin::proto::Era;
use mcpjoin::proto::types::{LoggingLevel, Resource};
use mcpjoin::server::{BuildError, Context, NoArguments, ReadRequest, tool, with};
use mcpjoin::{Client, Link, Server};
use tokio::sync::mpsc::unbounded_channel;

const LAMP: &str = "lamp://kitchen";

/// A lamp that can be dimmed, from the full brightness.
fn lamp() -> Result<Server, BuildError> {
    let brightness = Arc::new(AtomicU8::new(100));
    Server::builder("lamp", "1.0.0")
        .logging()
        .subscriptions()
        .resource(
            Resource::new(LAMP, "kitchen"),
            with(&brightness, |lamp, _: ReadRequest, _| async move {
                format!("{} %", lamp.load(Ordering::Relaxed))
            }),
        )
        .tool(
            tool("dim"),
            with(&brightness, |lamp, _: NoArguments, cx: Context| async move {
                lamp.store(30, Ordering::Relaxed);
                cx.log(LoggingLevel::Info, "dimmed");
                cx.server().notify_resource_updated(LAMP);
            }),
        )
        .build()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    for era in [Era::Legacy, Era::Modern] {
        let (near, far) = Link::memory();
        lamp()?.connect(far);
        let (logged, mut logs) = unbounded_channel();
        let (updated, mut updates) = unbounded_channel();
        let client = Client::builder("example", "1.0.0")
            .era(EraChoice::Only(era))
            .on_log(move |message| {
                let _ = logged.send(format!("{}: {}", message.level.as_str(), message.data));
            })
            .on_resource_updated(move |client, uri| {
                let updated = updated.clone();
                async move {
                    let now = client.read_resource(&uri).await.map(|contents| contents.to_text());
                    let _ = updated.send(now.map(|now| format!("{uri} is now {now}")));
                }
            })
            .connect(near)
            .await?;
        client.subscribe(LAMP).await?;
        client.call_tool("dim", ()).await?.into_result()?;
        let version = &client.profile().version;
        println!("{version}: {}", logs.recv().await.ok_or("nothing was logged")?);
        println!("{version}: {}", updates.recv().await.ok_or("nothing was updated")??);
    }
    Ok(())
}
