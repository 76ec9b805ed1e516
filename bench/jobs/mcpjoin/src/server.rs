//! Job 1: a server of notes on standard input and output, with every feature of a server.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use mcpjoin::proto::types::LoggingLevel;
use mcpjoin::server::{Context, HandlerError, Json, NoArguments, Result, handlers, tool};
use mcpjoin::{BoxError, Link, Server};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, JsonSchema)]
struct Note {
    id: u32,
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct Notes {
    notes: Vec<Note>,
}

#[derive(Deserialize, JsonSchema)]
struct Reason {
    /// Why the note is removed.
    reason: String,
}

#[derive(Default)]
struct Store {
    notes: Mutex<BTreeMap<u32, Note>>,
}

impl Store {
    fn notes(&self) -> MutexGuard<'_, BTreeMap<u32, Note>> {
        self.notes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn find(&self, id: u32) -> Result<Note> {
        self.notes().get(&id).cloned().ok_or_else(|| HandlerError::new(format!("there is no note {id}")))
    }
}

#[handlers]
impl Store {
    /// Adds a note.
    #[tool]
    fn add_note(
        &self,
        /// The text of the note.
        text: String,
        cx: Context,
    ) -> Json<Note> {
        let mut notes = self.notes();
        let note = Note { id: notes.len() as u32 + 1, text };
        notes.insert(note.id, note.clone());
        cx.log(LoggingLevel::Info, format!("added note {}", note.id));
        Json(note)
    }

    /// Removes a note, and asks the user for a reason.
    #[tool(destructive)]
    async fn remove_note(&self, id: u32, cx: Context) -> Result<String> {
        self.find(id)?;
        let Some(Reason { reason }) = cx.elicit_as("Why is the note removed?").await? else {
            return Ok(format!("note {id} is kept"));
        };
        self.notes().remove(&id);
        Ok(format!("note {id} is removed: {reason}"))
    }

    /// Imports notes, one after the other.
    #[tool]
    async fn import(&self, count: u32, cx: Context) -> String {
        for done in 1..=count {
            tokio::time::sleep(Duration::from_millis(20)).await;
            cx.progress(f64::from(done), Some(f64::from(count)), None);
        }
        format!("{count} notes imported")
    }

    /// Waits.
    #[tool(read_only)]
    async fn wait(&self, seconds: u64) -> String {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        format!("waited for {seconds} s")
    }

    /// Asks the model of the client for a summary of a note.
    #[tool(read_only)]
    async fn summarize(&self, id: u32, cx: Context) -> Result<String> {
        let note = self.find(id)?;
        Ok(cx.sample_text(format!("Summarize: {}", note.text), 100).await?)
    }

    /// Names the directories of the client.
    #[tool(read_only)]
    async fn directories(&self, cx: Context) -> Result<String> {
        let roots = cx.list_roots().await?.roots;
        Ok(roots.iter().map(|root| &*root.uri).collect::<Vec<_>>().join(", "))
    }

    /// Adds the tool `export`.
    #[tool]
    fn unlock(&self, cx: Context) -> Result<&'static str> {
        let notes = Notes { notes: self.notes().values().cloned().collect() };
        cx.server().add_tool(tool("export").description("Exports all notes"), move |_: NoArguments, _| {
            let notes = Notes { notes: notes.notes.clone() };
            async { Json(notes) }
        })?;
        Ok("unlocked")
    }

    /// Ends the program.
    #[tool]
    fn quit(&self) -> String {
        std::process::exit(3)
    }

    /// All notes.
    #[resource("note://all")]
    fn all(&self) -> String {
        self.notes().values().map(|note| format!("{}: {}\n", note.id, note.text)).collect()
    }

    /// A note.
    #[resource("note://{id}", mime_type = "text/plain")]
    fn note(&self, id: u32) -> Option<String> {
        Some(self.notes().get(&id)?.text.clone())
    }

    /// Asks for a review of a note.
    #[prompt]
    fn review(&self, id: u32, language: Option<String>) -> Result<String> {
        Ok(format!("Review in {}: {}", language.as_deref().unwrap_or("English"), self.find(id)?.text))
    }

    #[completion(prompt = "review", argument = "language")]
    fn languages(&self, typed: String) -> Vec<&'static str> {
        ["Danish", "Dutch", "English"].into_iter().filter(|language| language.starts_with(&typed)).collect()
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let server = Server::builder("notes", "1.0.0")
        .instructions("Keeps notes.")
        .logging()
        .dynamic_tools()
        .handlers(Store::default())
        .build()?;
    server.serve(Link::stdio()?).await;
    Ok(())
}
