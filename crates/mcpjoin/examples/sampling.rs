//! A tool that asks the model of the client.
//!
//! ```console
//! $ cargo run -p mcpjoin --example sampling
//! the model was asked: Name a colour.
//! the model wrote: blue
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use mcpjoin::proto::types::CreateMessageResult;
use mcpjoin::server::{Context, NoArguments, Result, tool};
use mcpjoin::{Client, Server};

async fn colour(_: NoArguments, cx: Context) -> Result<String> {
    // `cx.sample` takes whole conversations, and returns the name of the model too.
    let colour = cx.sample_text("Name a colour.", 20).await?;
    Ok(format!("the model wrote: {colour}"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder("colours", "1.0.0").tool(tool("colour"), colour).build()?;
    let client = Client::builder("example", "1.0.0")
        // In a real client this shows the question to the user, and then asks a model.
        .sampling(|question| async move {
            println!("the model was asked: {}", question.to_text());
            Ok(CreateMessageResult::text("blue", "poet"))
        })
        .connect_to(&server)
        .await?;
    println!("{}", client.call_tool("colour", ()).await?.to_text());
    Ok(())
}
