//! A tool that asks the model of the client.
//!
//! ```console
//! $ cargo run -p mcpjoin --example sampling
//! the model was asked: Name a colour.
//! poet wrote: blue
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use mcpjoin::proto::types::{
    CreateMessageParams, CreateMessageResult, Role, SamplingContent, SamplingMessage,
};
use mcpjoin::server::{Context, HandlerError, NoArguments, tool};
use mcpjoin::{Client, Link, Server};

/// The text of a message with one piece of text.
fn text(content: &mcpjoin::proto::types::SamplingContents) -> Option<&str> {
    match content.as_slice() {
        [SamplingContent::Text(text)] => Some(&text.text),
        _ => None,
    }
}

async fn colour(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    let question = SamplingMessage::new(Role::User, SamplingContent::text("Name a colour."));
    let answer = cx.sample(CreateMessageParams::new(vec![question], 20)).await?;
    let colour = text(&answer.content).ok_or_else(|| HandlerError::new("the model wrote no text"))?;
    Ok(format!("{} wrote: {colour}", answer.model))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder("colours", "1.0.0").tool(tool("colour"), colour).build()?;

    let (near, far) = Link::memory();
    server.connect(far);
    let client = Client::builder("example", "1.0.0")
        // In a real client this shows the question to the user, and then asks a model.
        .sampling(|question| async move {
            let asked = question.messages.first().and_then(|message| text(&message.content));
            println!("the model was asked: {}", asked.unwrap_or_default());
            Ok(CreateMessageResult::text("blue", "poet"))
        })
        .connect(near)
        .await?;
    println!("{}", client.call_tool("colour", ()).await?.to_text());
    Ok(())
}
