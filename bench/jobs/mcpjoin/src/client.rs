//! Job 2: a client of the server of notes, which it starts: `mcpjoin-client SERVER`.

use std::time::Duration;

use mcpjoin::Client;
use mcpjoin::client::Restart;
use mcpjoin::proto::types::{CreateMessageResult, ElicitResult, Root};
use mcpjoin::transport::ChildCommand;
use serde_json::json;
use tokio::sync::mpsc;

#[derive(serde::Deserialize)]
struct Note {
    id: u32,
    text: String,
}

#[tokio::main]
async fn main() -> Result<(), mcpjoin::BoxError> {
    let program = std::env::args().nth(1).ok_or("usage: mcpjoin-client SERVER")?;
    let (sender, mut events) = mpsc::unbounded_channel();
    let logged = sender.clone();
    let server = Client::builder("desk", "1.0.0")
        .elicitation_form(|form| async move {
            println!("the server asks: {}", form.message);
            ElicitResult::accept(json!({ "reason": "it is old" }))
        })
        .sampling(|question| async move {
            println!("the server asks the model: {}", question.to_text());
            Ok(CreateMessageResult::text("milk", "my-model"))
        })
        .roots([Root::new("file:///home/ada")])
        .on_log(move |message| drop(logged.send(format!("log: {}", message.data))))
        .on_tools_changed(move |client| {
            let sender = sender.clone();
            async move {
                let tools = client.list_tools().all().await.map_or(0, |tools| tools.len());
                let _ = sender.send(format!("now {tools} tools"));
            }
        })
        .restarting(Restart::default(), move || ChildCommand::new(&program).start())
        .await?;
    let client = server.client().await?;
    let mut tools: Vec<_> = client.list_tools().all().await?.into_iter().map(|tool| tool.name).collect();
    tools.sort();
    println!("tools: {}", tools.join(" "));

    let note: Note = client.call_tool("add_note", json!({ "text": "Buy milk" })).await?.decode()?;
    println!("added {}: {}", note.id, note.text);
    println!("{}", events.recv().await.ok_or("closed")?);
    println!("resource: {}", client.read_resource("note://1").await?.to_text());
    let prompt = client.get_prompt("review", json!({ "id": "1", "language": "Dutch" })).await?;
    println!("prompt: {}", prompt.to_text());
    let completion = client.complete_prompt("review", "language", "D").await?.completion;
    println!("completion: {}", completion.values.join(" "));

    let import = client.call_tool("import", json!({ "count": 3 }));
    let result = import.on_progress(|report| println!("progress: {}", report.progress)).await?;
    println!("{}", result.to_text());
    let slow = client.call_tool("wait", json!({ "seconds": 60 })).timeout(Duration::from_millis(200));
    println!("timed out: {}", slow.await.is_err_and(|error| error.is_timeout()));
    println!("{}", client.call_tool("summarize", json!({ "id": 1 })).await?.to_text());
    println!("{}", client.call_tool("directories", ()).await?.to_text());
    println!("{}", client.call_tool("remove_note", json!({ "id": 1 })).await?.to_text());
    match client.call_tool("remove_note", json!({ "id": 1 })).await?.into_result() {
        Ok(result) => println!("{}", result.to_text()),
        Err(error) => println!("error: {error}"),
    }
    println!("{}", client.call_tool("unlock", ()).await?.to_text());
    println!("{}", events.recv().await.ok_or("closed")?);

    println!("lost: {}", client.call_tool("quit", ()).await.is_err_and(|error| error.is_fatal()));
    let client = server.client().await?;
    println!("again {} tools", client.list_tools().all().await?.len());
    server.close().await;
    Ok(())
}
