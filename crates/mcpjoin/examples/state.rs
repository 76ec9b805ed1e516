//! Handlers that share a state: `with` gives each call a clone of an `Arc`.
//!
//! ```console
//! $ cargo run -p mcpjoin --example state
//! 1 note
//! 2 notes
//! buy milk, call Bob
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::sync::Arc;

use mcpjoin::server::{Context, Json, NoArguments, Result, tool, with};
use mcpjoin::{Client, Link, Server};
use serde_json::json;
use tokio::sync::Mutex;

/// What all handlers use.
#[derive(Default)]
struct Store {
    notes: Mutex<Vec<String>>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct AddNote {
    text: String,
}

impl Store {
    /// A handler may be a method: its first parameter is the state.
    async fn add(self: Arc<Self>, note: AddNote, _: Context) -> Result<Json<usize>> {
        let mut notes = self.notes.lock().await;
        notes.push(note.text);
        Ok(Json(notes.len()))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Arc::new(Store::default());
    let server = Server::builder("notes", "1.0.0")
        .tool(tool("add_note"), with(&store, Store::add))
        // It may be a closure as well.
        .tool(
            tool("list_notes"),
            with(&store, |store, _: NoArguments, _| async move { Json(store.notes.lock().await.clone()) }),
        )
        .build()?;

    let (near, far) = Link::memory();
    server.connect(far);
    let client = Client::builder("example", "1.0.0").connect(near).await?;
    for text in ["buy milk", "call Bob"] {
        let count: usize = client.call_tool("add_note", json!({ "text": text })).await?.decode()?;
        println!("{count} {}", if count == 1 { "note" } else { "notes" });
    }
    let notes: Vec<String> = client.call_tool("list_notes", ()).await?.decode()?;
    println!("{}", notes.join(", "));
    Ok(())
}
