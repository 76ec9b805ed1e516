//! The methods of a type as handlers: `#[handlers]` makes tools, resources and prompts of them.
//!
//! The parameters of a method are the arguments, and its doc comment is the description.
//!
//! ```console
//! $ cargo run -p mcpjoin --example handlers
//! add_note: Adds a note.
//! place 0
//! buy milk
//! Summarize in English: buy milk
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use mcpjoin::server::{HandlerError, Json, Result, handlers};
use mcpjoin::{Client, Link, Server};
use parking_lot::Mutex;
use serde_json::json;

#[derive(Default)]
struct Store {
    notes: Mutex<Vec<String>>,
}

#[handlers]
impl Store {
    /// Adds a note.
    #[tool]
    async fn add_note(
        &self,
        /// The text of the note.
        text: String,
        /// Where to insert it. At the end if absent.
        place: Option<usize>,
    ) -> Result<Json<usize>> {
        let mut notes = self.notes.lock();
        let place = place.unwrap_or(notes.len());
        if place > notes.len() {
            return Err(HandlerError::new("there are fewer notes"));
        }
        notes.insert(place, text);
        Ok(Json(place))
    }

    /// A note.
    #[resource("note://{place}", mime_type = "text/plain")]
    fn note(&self, place: usize) -> Result<String> {
        self.notes.lock().get(place).cloned().ok_or_else(|| HandlerError::new("there are fewer notes"))
    }

    /// Summarizes a note.
    #[prompt]
    fn summarize(&self, place: usize, language: Option<String>) -> Result<String> {
        Ok(format!("Summarize in {}: {}", language.as_deref().unwrap_or("English"), self.note(place)?))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder("notes", "1.0.0").handlers(Store::default()).build()?;

    let (near, far) = Link::memory();
    server.connect(far);
    let client = Client::builder("example", "1.0.0").connect(near).await?;
    for tool in client.list_tools().all().await? {
        println!("{}: {}", tool.name, tool.description.unwrap_or_default());
    }
    let place: usize = client.call_tool("add_note", json!({ "text": "buy milk" })).await?.decode()?;
    println!("place {place}");
    println!("{}", client.read_resource("note://0").await?.to_text());
    println!("{}", client.get_prompt("summarize", json!({ "place": "0" })).await?.to_text());
    Ok(())
}
