//! Tests of the attribute macros: what they make of methods.

use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use mcpjoin::proto::types::{CompleteParams, TaskSupport, Tool};
use mcpjoin::proto::{Era, Version};
use mcpjoin::server::{Context, HandlerError, Json, NoArguments, Result, Server, handlers, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{BOTH_ERAS, ask, call, in_era, in_version, run, text, value};

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Note {
    id: u32,
    text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Tone {
    Kind,
    Rude,
}

struct Store {
    notes: Mutex<Vec<Note>>,
    home: ThreadId,
}

fn with_title(tool: Tool) -> Tool {
    tool.with_title("Adds up")
}

#[handlers]
impl Store {
    fn new() -> Self {
        Self { notes: Mutex::default(), home: thread::current().id() }
    }

    /// Adds a note.
    ///
    /// It is kept until the server ends.
    #[tool(title = "Add", destructive = false, idempotent, as_task)]
    async fn add_note(
        &self,
        /// The text of the note.
        #[schemars(length(min = 1))]
        text: String,
        id: Option<u32>,
        #[serde(default)] mut count: u32,
        cx: Context,
    ) -> Result<Json<Note>> {
        tokio::task::yield_now().await;
        count += u32::from(cx.is_cancelled());
        let note = Note { id: id.unwrap_or(count), text };
        self.notes.lock().unwrap().push(note.clone());
        Ok(Json(note))
    }

    #[tool(name = "put", description = "Puts a note")]
    fn put_note(&self, #[arguments] note: Note) -> String {
        let text = note.text.clone();
        self.notes.lock().unwrap().push(note);
        text
    }

    #[tool(read_only, open_world = false, blocking)]
    fn elsewhere(&self, _cx: Context) -> Json<bool> {
        Json(thread::current().id() != self.home)
    }

    #[mcpjoin::server::tool(describe = with_title, inline)]
    async fn shared(self: Arc<Self>) -> Json<usize> {
        Json(self.notes.lock().unwrap().len())
    }

    #[cfg(any())]
    #[tool]
    async fn absent(&self) {}

    /// Asks for a summary.
    #[prompt]
    async fn summarize(
        &self,
        /// The id of the note.
        id: u32,
        tone: Option<Tone>,
    ) -> Result<String> {
        let tone = if matches!(tone, Some(Tone::Rude)) { "rudely" } else { "kindly" };
        Ok(format!("Summarize {tone}: {}", self.find(id)?.text))
    }

    #[completion(prompt = "summarize", argument = "tone")]
    fn tones(&self, typed: String) -> Vec<&'static str> {
        ["kind", "rude"].into_iter().filter(|tone| tone.starts_with(&typed)).collect()
    }

    /// Blocks its thread.
    #[completion(prompt = "summarize", argument = "thread", blocking)]
    fn threads(&self, typed: String, cx: Context) -> Result<Vec<String>> {
        let place = if thread::current().id() == self.home { "home" } else { "elsewhere" };
        Ok(vec![format!("{typed} {place} {}", cx.is_cancelled())])
    }

    #[completion(resource = "note://{id}", argument = "id", blocking)]
    fn all_ids(self: Arc<Self>, #[arguments] params: CompleteParams) -> Vec<String> {
        vec![params.argument.value; 1 + usize::from(thread::current().id() == self.home)]
    }

    #[completion(prompt = "summarize", argument = "id")]
    async fn ids(&self, #[arguments] params: CompleteParams, _cx: Context) -> Result<Vec<String>> {
        let notes = self.notes.lock().unwrap();
        let ids = notes.iter().map(|note| note.id.to_string());
        Ok(ids.filter(|id| id.starts_with(&params.argument.value)).collect())
    }

    /// All notes.
    #[resource("note://all", mime_type = "application/json", title = "All")]
    fn all(&self) -> Result<String> {
        Ok(serde_json::to_string(&*self.notes.lock().unwrap())?)
    }

    /// A note.
    #[resource("note://{id}", name = "one")]
    async fn note(&self, id: u32, _cx: Context) -> Result<String> {
        Ok(self.find(id)?.text)
    }

    /// The priority of a note, if it has one.
    #[resource("priority://{id}", mime_type = "text/plain")]
    fn priority(&self, id: u32) -> Option<String> {
        (id == 1).then(|| "high".to_owned())
    }

    /// The newest note, if there is one.
    #[resource("note://newest")]
    async fn newest(&self) -> Result<Option<String>> {
        Ok(self.notes.lock().unwrap().last().map(|note| note.text.clone()))
    }

    fn find(&self, id: u32) -> Result<Note> {
        let notes = self.notes.lock().unwrap();
        notes.iter().find(|note| note.id == id).cloned().ok_or_else(|| HandlerError::new("no such note"))
    }
}

/// A type with a parameter.
struct Constant<T>(T);

#[handlers]
impl<T: Serialize + JsonSchema + Clone + Send + Sync + 'static> Constant<T> {
    #[doc = concat!("Returns", " a constant.")]
    ///
    /// Always the same.
    #[tool(requires_tasks)]
    async fn constant(&self) -> Json<T> {
        Json(self.0.clone())
    }
}

fn server() -> Server {
    Server::builder("notes", "1")
        .handlers(Store::new())
        .handlers(Arc::new(Constant(7)))
        .tool(tool("by_hand"), |_: NoArguments, _| async { "hello" })
        .build()
        .unwrap()
}

#[test]
fn methods_are_described_as_they_are_written() {
    run(async {
        let client = in_version(&server(), Version::V2025_11_25).await;
        let tools = client.list_tools().all().await.unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["add_note", "put", "elsewhere", "shared", "constant", "by_hand"]);
        let add = &tools[0];
        assert_eq!(add.title.as_deref(), Some("Add"));
        assert_eq!(add.description.as_deref(), Some("Adds a note.\n\nIt is kept until the server ends."));
        let hints = add.annotations.as_ref().unwrap();
        assert_eq!((hints.destructive_hint, hints.idempotent_hint), (Some(false), Some(true)));
        assert_eq!(hints.read_only_hint, None);
        let schema = value(&add.input_schema);
        assert_eq!(schema["properties"]["text"]["description"], "The text of the note.");
        assert_eq!(schema["properties"]["text"]["minLength"], 1);
        assert_eq!(schema["required"], json!(["text"]));
        assert_eq!(schema["properties"].as_object().unwrap().len(), 3);
        assert!(add.output_schema.is_some());
        let support =
            |tool: &Tool| tool.execution.as_ref().and_then(|execution| execution.task_support.clone());
        assert_eq!(support(add), Some(TaskSupport::Optional));
        assert_eq!(support(&tools[4]), Some(TaskSupport::Required));
        assert_eq!(tools[4].description.as_deref(), Some("Returns a constant.\n\nAlways the same."));
        assert_eq!(tools[1].description.as_deref(), Some("Puts a note"));
        assert_eq!(value(&tools[1].input_schema)["required"], json!(["id", "text"]));
        assert_eq!(tools[2].annotations.as_ref().unwrap().read_only_hint, Some(true));
        assert_eq!(tools[3].title.as_deref(), Some("Adds up"));

        let prompts = client.list_prompts().all().await.unwrap();
        assert_eq!(prompts[0].description.as_deref(), Some("Asks for a summary."));
        let arguments: Vec<_> = prompts[0]
            .arguments
            .iter()
            .flatten()
            .map(|argument| (&*argument.name, argument.required, argument.description.as_deref()))
            .collect();
        assert_eq!(arguments, [("id", Some(true), Some("The id of the note.")), ("tone", Some(false), None)]);
        let resources = client.list_resources().all().await.unwrap();
        assert_eq!((&*resources[0].uri, &*resources[0].name), ("note://all", "all"));
        assert_eq!(resources[0].title.as_deref(), Some("All"));
        assert_eq!(resources[0].description.as_deref(), Some("All notes."));
        let templates = client.list_resource_templates().all().await.unwrap();
        assert_eq!((&*templates[0].uri_template, &*templates[0].name), ("note://{id}", "one"));
    });
}

#[test]
fn methods_are_called_with_their_arguments() {
    run(async {
        for era in BOTH_ERAS {
            let client = in_era(&server(), era).await;
            let added = call(&client, "add_note", json!({ "text": "milk", "id": 5 })).await.unwrap();
            assert_eq!(added["structuredContent"], json!({ "id": 5, "text": "milk" }));
            let refused = call(&client, "add_note", json!({ "id": 5 })).await.unwrap();
            assert!(text(&refused).contains("`text`"), "{refused}");
            let put = call(&client, "put", json!({ "text": "eggs", "id": 6 })).await.unwrap();
            assert_eq!(text(&put), "eggs");
            assert_eq!(text(&call(&client, "elsewhere", json!({})).await.unwrap()), "true");
            assert_eq!(text(&call(&client, "shared", json!({})).await.unwrap()), "2");
            assert_eq!(text(&call(&client, "by_hand", json!({})).await.unwrap()), "hello");

            let arguments = json!({ "id": "5", "tone": "rude" });
            let got =
                ask(&client, "prompts/get", json!({ "name": "summarize", "arguments": arguments })).await;
            assert_eq!(got.unwrap()["messages"][0]["content"]["text"], "Summarize rudely: milk");
            let read = ask(&client, "resources/read", json!({ "uri": "note://6" })).await.unwrap();
            assert_eq!(read["contents"][0]["text"], "eggs");
            let read = ask(&client, "resources/read", json!({ "uri": "note://all" })).await.unwrap();
            assert_eq!(read["contents"][0]["mimeType"], "application/json");

            for (argument, typed, proposed) in [
                ("tone", "r", json!(["rude"])),
                ("id", "", json!(["5", "6"])),
                ("other", "", json!([])),
                ("thread", "t", json!(["t elsewhere false"])),
            ] {
                let params = json!({
                    "ref": { "type": "ref/prompt", "name": "summarize" },
                    "argument": { "name": argument, "value": typed }
                });
                let completed = ask(&client, "completion/complete", params).await.unwrap();
                assert_eq!(completed["completion"]["values"], proposed, "{argument}");
            }
            let params = json!({
                "ref": { "type": "ref/resource", "uri": "note://{id}" },
                "argument": { "name": "id", "value": "5" }
            });
            let completed = ask(&client, "completion/complete", params).await.unwrap();
            assert_eq!(completed["completion"]["values"], json!(["5"]), "once, because it is elsewhere");
        }
    });
}

#[test]
fn a_resource_method_returns_none_for_a_resource_that_does_not_exist() {
    run(async {
        // -32602 since 2026-07-28, before it a code of its own.
        for (era, code) in [(Era::Legacy, -32002), (Era::Modern, -32602)] {
            let client = in_era(&server(), era).await;
            let read = ask(&client, "resources/read", json!({ "uri": "priority://1" })).await.unwrap();
            let contents = json!([{ "uri": "priority://1", "mimeType": "text/plain", "text": "high" }]);
            assert_eq!(read["contents"], contents);
            for uri in ["priority://2", "note://newest"] {
                let error = ask(&client, "resources/read", json!({ "uri": uri })).await.unwrap_err();
                assert_eq!(error.code, code, "{era:?}: {uri}");
                assert_eq!(value(&error.data.unwrap()), json!({ "uri": uri }));
            }
            call(&client, "add_note", json!({ "text": "milk" })).await.unwrap();
            let read = ask(&client, "resources/read", json!({ "uri": "note://newest" })).await.unwrap();
            assert_eq!(read["contents"][0]["text"], "milk");
        }
    });
}

#[test]
fn a_name_that_two_types_have_is_an_error_of_the_description() {
    let built = Server::builder("s", "1").handlers(Constant(1)).handlers(Constant(Value::Null)).build();
    assert_eq!(built.unwrap_err().to_string(), "there are two of the name `constant` in the list of tools");
}
