//! Job 1: a server of notes on standard input and output, with every feature of a server.
#![allow(deprecated, reason = "sampling, roots and log messages")]

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::model::*;
use rmcp::service::{ElicitationError, Peer, RequestContext};
use rmcp::transport::stdio;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt, elicit_safe};
use rmcp::{prompt, prompt_handler, prompt_router, tool, tool_handler, tool_router};
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

#[derive(Serialize, Deserialize, JsonSchema)]
struct Reason {
    /// Why the note is removed.
    reason: String,
}

elicit_safe!(Reason);

#[derive(Deserialize, JsonSchema)]
struct NewNote {
    /// The text of the note.
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Id {
    id: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    count: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Seconds {
    seconds: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Review {
    /// Arguments of prompts are texts.
    id: String,
    language: Option<String>,
}

#[derive(Default)]
struct Store {
    notes: Mutex<BTreeMap<u32, Note>>,
    unlocked: AtomicBool,
}

impl Store {
    fn notes(&self) -> MutexGuard<'_, BTreeMap<u32, Note>> {
        self.notes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn find(&self, id: u32) -> Result<Note, String> {
        self.notes().get(&id).cloned().ok_or_else(|| format!("there is no note {id}"))
    }

    fn router(&self) -> ToolRouter<Self> {
        let mut router = Self::tool_router();
        if !self.unlocked.load(Ordering::Relaxed) {
            router.disable_route("export");
        }
        router
    }
}

#[tool_router]
impl Store {
    /// Adds a note.
    #[tool]
    async fn add_note(
        &self,
        Parameters(NewNote { text }): Parameters<NewNote>,
        peer: Peer<RoleServer>,
    ) -> Json<Note> {
        let note = {
            let mut notes = self.notes();
            let note = Note { id: notes.len() as u32 + 1, text };
            notes.insert(note.id, note.clone());
            note
        };
        let message = format!("added note {}", note.id).into();
        let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, message);
        let _ = peer.notify_logging_message(message).await;
        Json(note)
    }

    /// Removes a note, and asks the user for a reason.
    #[tool(annotations(destructive_hint = true))]
    async fn remove_note(
        &self,
        Parameters(Id { id }): Parameters<Id>,
        peer: Peer<RoleServer>,
    ) -> Result<String, String> {
        self.find(id)?;
        match peer.elicit::<Reason>("Why is the note removed?").await {
            Ok(Some(Reason { reason })) => {
                self.notes().remove(&id);
                Ok(format!("note {id} is removed: {reason}"))
            }
            Ok(None) | Err(ElicitationError::UserDeclined | ElicitationError::UserCancelled) => {
                Ok(format!("note {id} is kept"))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Imports notes, one after the other.
    #[tool]
    async fn import(
        &self,
        Parameters(Count { count }): Parameters<Count>,
        context: RequestContext<RoleServer>,
    ) -> String {
        for done in 1..=count {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if let Some(token) = context.meta.get_progress_token() {
                let progress = ProgressNotificationParam::new(token, f64::from(done));
                let _ = context.peer.notify_progress(progress.with_total(f64::from(count))).await;
            }
        }
        format!("{count} notes imported")
    }

    /// Waits.
    #[tool(annotations(read_only_hint = true))]
    async fn wait(&self, Parameters(Seconds { seconds }): Parameters<Seconds>) -> String {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        format!("waited for {seconds} s")
    }

    /// Asks the model of the client for a summary of a note.
    #[tool(annotations(read_only_hint = true))]
    async fn summarize(
        &self,
        Parameters(Id { id }): Parameters<Id>,
        peer: Peer<RoleServer>,
    ) -> Result<String, String> {
        let question = SamplingMessage::user_text(format!("Summarize: {}", self.find(id)?.text));
        let answer = peer.create_message(CreateMessageRequestParams::new(vec![question], 100)).await;
        let answer = answer.map_err(|error| error.to_string())?.message;
        let text = answer.content.first().and_then(|content| content.as_text());
        Ok(text.map(|text| text.text.clone()).unwrap_or_default())
    }

    /// Names the directories of the client.
    #[tool(annotations(read_only_hint = true))]
    async fn directories(&self, peer: Peer<RoleServer>) -> Result<String, String> {
        let roots = peer.list_roots().await.map_err(|error| error.to_string())?.roots;
        Ok(roots.iter().map(|root| &*root.uri).collect::<Vec<_>>().join(", "))
    }

    /// Adds the tool `export`.
    #[tool]
    async fn unlock(&self, peer: Peer<RoleServer>) -> Result<String, String> {
        self.unlocked.store(true, Ordering::Relaxed);
        peer.notify_tool_list_changed().await.map_err(|error| error.to_string())?;
        Ok("unlocked".into())
    }

    /// Exports all notes.
    #[tool]
    fn export(&self) -> Json<Notes> {
        Json(Notes { notes: self.notes().values().cloned().collect() })
    }

    /// Ends the program.
    #[tool]
    fn quit(&self) -> String {
        std::process::exit(3)
    }
}

#[prompt_router]
impl Store {
    /// Asks for a review of a note.
    #[prompt]
    fn review(
        &self,
        Parameters(Review { id, language }): Parameters<Review>,
    ) -> Result<Vec<PromptMessage>, ErrorData> {
        let id = id.parse().map_err(|_| ErrorData::invalid_params("id is not a number", None))?;
        let note = self.find(id).map_err(|error| ErrorData::invalid_params(error, None))?;
        let text = format!("Review in {}: {}", language.as_deref().unwrap_or("English"), note.text);
        Ok(vec![PromptMessage::new_text(Role::User, text)])
    }
}

#[tool_handler(router = self.router())]
#[prompt_handler]
impl ServerHandler for Store {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_resources()
            .enable_completions()
            .enable_logging()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("notes", "1.0.0"))
            .with_instructions("Keeps notes.")
    }

    /// Only where a server may ask its client: at 2026-07-28 `elicit`, `create_message` and `list_roots` fail.
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25))
    }

    async fn set_level(
        &self,
        _: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let all = Resource::new("note://all", "all").with_description("All notes.");
        Ok(ListResourcesResult::with_all_items(vec![all]))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let note = ResourceTemplate::new("note://{id}", "note").with_description("A note.");
        Ok(ListResourceTemplatesResult::with_all_items(vec![note.with_mime_type("text/plain")]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = match request.uri.strip_prefix("note://") {
            Some("all") => {
                Some(self.notes().values().map(|note| format!("{}: {}\n", note.id, note.text)).collect())
            }
            Some(id) => id.parse().ok().and_then(|id| self.find(id).ok()).map(|note| note.text),
            None => None,
        };
        let text = text.ok_or_else(|| ErrorData::resource_not_found("there is no such note", None))?;
        let contents = ResourceContents::text(text, request.uri).with_mime_type("text/plain");
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let languages: &[&str] = match &request.r#ref {
            Reference::Prompt(prompt) if prompt.name == "review" && request.argument.name == "language" => {
                &["Danish", "Dutch", "English"]
            }
            _ => &[],
        };
        let typed = request.argument.value;
        let values = languages.iter().filter(|language| language.starts_with(&typed));
        let values = values.map(|language| language.to_string()).collect();
        let completion = CompletionInfo::with_all_values(values)
            .map_err(|error| ErrorData::internal_error(error, None))?;
        Ok(CompleteResult::new(completion))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Store::default().serve(stdio()).await?.waiting().await?;
    Ok(())
}
