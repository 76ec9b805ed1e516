//! Tests of handlers that share a state, and of the errors that handlers may return.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::thread;

use mcpjoin::proto::ErrorObject;
use mcpjoin::proto::types::{CompleteParams, Prompt, PromptReference, Resource, ResourceTemplate};
use mcpjoin::server::{
    Context, HandlerError, Json, NoArguments, PromptArguments, ReadRequest, Result, Server, blocking_with,
    prompt, resource_template, tool, with,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::{BOTH_ERAS, ask, call, in_era, run, text};

#[derive(Default)]
struct Store(Mutex<Vec<String>>);

#[derive(Deserialize, JsonSchema)]
struct AddNote {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct NoteId {
    id: usize,
}

impl Store {
    async fn add(self: Arc<Self>, new: AddNote, _: Context) -> Result<Json<usize>> {
        tokio::task::yield_now().await;
        let mut notes = self.0.lock().unwrap();
        notes.push(new.text);
        Ok(Json(notes.len()))
    }

    fn note(&self, id: usize) -> Result<String> {
        self.0
            .lock()
            .unwrap()
            .get(id)
            .cloned()
            .ok_or_else(|| HandlerError::new(format_args!("there is no note {id}")))
    }
}

#[test]
fn every_kind_of_handler_shares_the_state() {
    run(async {
        let store = Arc::new(Store::default());
        let main = thread::current().id();
        let server = Server::builder("notes", "1")
            .tool(tool("add"), with(&store, Store::add))
            .tool(
                tool("count"),
                blocking_with(&store, move |store, _: NoArguments, _| {
                    Json((thread::current().id() == main, store.0.lock().unwrap().len()))
                }),
            )
            .prompt(
                Prompt::new("all"),
                with(&store, |store, _: PromptArguments, _| async move { store.note(0) }),
            )
            .prompt(prompt("one"), with(&store, async |store: Arc<Store>, NoteId { id }, _| store.note(id)))
            .resource(
                Resource::new("note://first", "first"),
                with(&store, |store, _: ReadRequest, _| async move { store.note(0) }),
            )
            .resource_template(
                ResourceTemplate::new("text://{id}", "text"),
                with(&store, |store, read: ReadRequest, _| async move {
                    store.note(read.variable("id").parse()?)
                }),
            )
            .resource_template(
                resource_template("note://{id}/text", "note"),
                blocking_with(&store, |store, NoteId { id }, _| store.note(id)),
            )
            .completion(
                PromptReference::new("one"),
                with(
                    &store,
                    |store, _: CompleteParams, _| async move { store.note(0).map(|note| vec![note]) },
                ),
            )
            .build()
            .unwrap();
        for era in BOTH_ERAS {
            store.0.lock().unwrap().clear();
            let client = in_era(&server, era).await;
            let added = call(&client, "add", json!({ "text": "milk" })).await.unwrap();
            assert_eq!(text(&added), "1");
            let counted = call(&client, "count", json!({})).await.unwrap();
            assert_eq!(text(&counted), "[false,1]", "counted on another thread");
            for (name, arguments) in [("all", json!({})), ("one", json!({ "id": "0" }))] {
                let got = ask(&client, "prompts/get", json!({ "name": name, "arguments": arguments })).await;
                assert_eq!(got.unwrap()["messages"][0]["content"]["text"], "milk");
            }
            for uri in ["note://first", "text://0", "note://0/text"] {
                let read = ask(&client, "resources/read", json!({ "uri": uri })).await.unwrap();
                assert_eq!(read["contents"][0]["text"], "milk", "{uri}");
            }
            let params = json!({
                "ref": { "type": "ref/prompt", "name": "one" }, "argument": { "name": "id", "value": "" }
            });
            let completed = ask(&client, "completion/complete", params).await.unwrap();
            assert_eq!(completed["completion"]["values"], json!(["milk"]));
        }
    });
}

fn failing() -> anyhow::Result<String> {
    Err(anyhow::anyhow!("no such file").context("cannot read the note"))
}

#[test]
fn a_handler_returns_the_errors_that_people_have() {
    run(async {
        let server = Server::builder("s", "1")
            .tool(tool("text"), |_: NoArguments, _| async { Err::<(), _>("not today") })
            .tool(tool("string"), |_: NoArguments, _| async { Err::<(), _>(format!("not {}", "today")) })
            .tool(tool("anyhow"), |_: NoArguments, _| async { failing() })
            .tool(tool("boxed"), |_: NoArguments, _| async {
                Err::<(), Box<dyn Error + Send + Sync>>("not today".into())
            })
            .tool(tool("std"), |_: NoArguments, _| async { "x".parse::<i64>().map(Json) })
            .tool(tool("converted"), |_: NoArguments, _| async { failing().map_err(HandlerError::new) })
            .tool(tool("protocol"), |_: NoArguments, _| async {
                Err::<(), _>(ErrorObject::invalid_params("not today"))
            })
            .prompt(Prompt::new("anyhow"), |_, _| async { failing() })
            .build()
            .unwrap();
        for era in BOTH_ERAS {
            let client = in_era(&server, era).await;
            for (name, said) in [
                ("text", "not today"),
                ("string", "not today"),
                ("anyhow", "cannot read the note"),
                ("boxed", "not today"),
                ("std", "invalid digit found in string"),
                ("converted", "cannot read the note"),
            ] {
                let failed = call(&client, name, json!({})).await.unwrap();
                assert_eq!((&failed["isError"], text(&failed)), (&json!(true), said), "{name}");
            }
            let error = call(&client, "protocol", json!({})).await.unwrap_err();
            assert_eq!((error.code, &*error.message), (-32602, "not today"));
            let error = ask(&client, "prompts/get", json!({ "name": "anyhow" })).await.unwrap_err();
            assert_eq!((error.code, &*error.message), (-32603, "cannot read the note"));
        }
    });
}
