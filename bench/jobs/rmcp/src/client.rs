//! Job 2: a client of the server of notes, which it starts: `rmcp-client SERVER`.
#![allow(deprecated, reason = "sampling, roots and log messages")]

use std::time::Duration;

use rmcp::model::*;
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext, RunningService, ServiceError};
use rmcp::transport::TokioChildProcess;
use rmcp::{ClientHandler, ErrorData, RoleClient, ServiceExt, object};
use serde_json::json;
use tokio::process::Command;
use tokio::sync::mpsc;

#[derive(serde::Deserialize)]
struct Note {
    id: u32,
    text: String,
}

#[derive(Clone)]
struct Desk {
    events: mpsc::UnboundedSender<String>,
}

impl ClientHandler for Desk {
    fn get_info(&self) -> ClientConfig {
        let capabilities =
            ClientCapabilities::builder().enable_elicitation().enable_sampling().enable_roots().build();
        ClientConfig::new(capabilities, Implementation::new("desk", "1.0.0"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        println!("the server asks: {message}");
        let reason = json!({ "reason": "it is old" });
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(reason))
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let question = params.messages.first().and_then(|message| message.content.first()?.as_text());
        println!("the server asks the model: {}", question.map_or("", |text| &text.text));
        Ok(CreateMessageResult::new(SamplingMessage::assistant_text("milk"), "my-model".into()))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new("file:///home/ada")]))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        println!("progress: {}", params.progress);
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let _ = self.events.send(format!("log: {}", params.data));
    }

    async fn on_tool_list_changed(&self, context: NotificationContext<RoleClient>) {
        let tools = context.peer.list_all_tools().await.map_or(0, |tools| tools.len());
        let _ = self.events.send(format!("now {tools} tools"));
    }
}

type Client = RunningService<RoleClient, Desk>;

async fn start(program: &str, desk: &Desk) -> Result<Client, Box<dyn std::error::Error>> {
    Ok(desk.clone().serve(TokioChildProcess::new(Command::new(program))?).await?)
}

async fn call(client: &Client, tool: &'static str, arguments: JsonObject) -> Result<String, ServiceError> {
    let result = client.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await?;
    Ok(text(&result))
}

fn text(result: &CallToolResult) -> String {
    let text = result.content.first().and_then(|content| content.as_text());
    text.map(|text| text.text.clone()).unwrap_or_default()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = std::env::args().nth(1).ok_or("usage: rmcp-client SERVER")?;
    let (sender, mut events) = mpsc::unbounded_channel();
    let desk = Desk { events: sender };
    let client = start(&program, &desk).await?;
    let mut tools: Vec<_> = client.list_all_tools().await?.into_iter().map(|tool| tool.name).collect();
    tools.sort();
    println!("tools: {}", tools.join(" "));

    let add = CallToolRequestParams::new("add_note").with_arguments(object!({ "text": "Buy milk" }));
    let note: Note = client.call_tool(add).await?.into_typed()?;
    println!("added {}: {}", note.id, note.text);
    println!("{}", events.recv().await.ok_or("closed")?);
    let resource = client.read_resource(ReadResourceRequestParams::new("note://1")).await?;
    if let Some(ResourceContents::TextResourceContents { text, .. }) = resource.contents.first() {
        println!("resource: {text}");
    }
    let review =
        GetPromptRequestParams::new("review").with_arguments(object!({ "id": "1", "language": "Dutch" }));
    let prompt = client.get_prompt(review).await?;
    if let Some(text) = prompt.messages.first().and_then(|message| message.content.as_text()) {
        println!("prompt: {}", text.text);
    }
    let languages = client.complete_prompt_simple("review", "language", "D").await?;
    println!("completion: {}", languages.join(" "));

    println!("{}", call(&client, "import", object!({ "count": 3 })).await?);
    let slow = CallToolRequestParams::new("wait").with_arguments(object!({ "seconds": 60 }));
    let slow = client
        .send_cancellable_request(
            ClientRequest::CallToolRequest(Request::new(slow)),
            PeerRequestOptions::with_timeout(Duration::from_millis(200)),
        )
        .await?;
    let outcome = slow.await_response().await;
    println!("timed out: {}", matches!(outcome, Err(ServiceError::Timeout { .. })));
    println!("{}", call(&client, "summarize", object!({ "id": 1 })).await?);
    println!("{}", call(&client, "directories", JsonObject::new()).await?);
    println!("{}", call(&client, "remove_note", object!({ "id": 1 })).await?);
    let remove = CallToolRequestParams::new("remove_note").with_arguments(object!({ "id": 1 }));
    let result = client.call_tool(remove).await?;
    let error = if result.is_error == Some(true) { "error: " } else { "" };
    println!("{error}{}", text(&result));
    println!("{}", call(&client, "unlock", JsonObject::new()).await?);
    println!("{}", events.recv().await.ok_or("closed")?);

    println!("lost: {}", call(&client, "quit", JsonObject::new()).await.is_err());
    let client = start(&program, &desk).await?;
    println!("again {} tools", client.list_all_tools().await?.len());
    client.cancel().await?;
    Ok(())
}
