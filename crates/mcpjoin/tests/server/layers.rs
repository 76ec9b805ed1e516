//! Tests of layers around methods, and of tools that only some clients see.

use std::sync::Arc;

use mcpjoin::connection;
use mcpjoin::proto::session::Reply;
use mcpjoin::proto::types::{
    ElicitAction, ElicitFormParams, ElicitResult, ElicitationSchema, Members, ServerCapabilities,
    ToolsCapability,
};
use mcpjoin::proto::{Era, ErrorObject, Method, Payload, Request};
use mcpjoin::server::{Context, HandlerError, NoArguments, Server, ServerBuilder, tool};
use mcpjoin::{Handler, client::ClientBuilder};
use parking_lot::Mutex;

use serde_json::{Value, json};

use crate::{BOTH_ERAS, EraChoice, ask, builder, call, connect, in_era, raw, run, text, value};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Say {
    word: String,
}

type Notes = Arc<Mutex<Vec<String>>>;

/// Adds a layer that notes each request and the kind of its response.
fn noting(server: ServerBuilder, notes: &Notes, name: &'static str) -> ServerBuilder {
    let notes = notes.clone();
    server.layer(move |request, _, next| {
        let notes = notes.clone();
        async move {
            notes.lock().push(format!("{name} {}", request.method));
            let response = next.run(request).await;
            let kind = match &response {
                Ok(Reply::Complete(_)) => "complete",
                Ok(Reply::NeedInput(_)) => "needs input",
                Ok(Reply::Task(_)) => "task",
                Ok(_) => "other",
                Err(_) => "error",
            };
            notes.lock().push(format!("{name} {kind}"));
            response
        }
    })
}

fn say() -> ServerBuilder {
    Server::builder("s", "1").tool(tool("say"), |said: Say, _| async move { said.word })
}

#[test]
fn layers_run_from_the_first_to_the_last_and_back_for_every_request_with_a_handler() {
    run(async {
        for era in BOTH_ERAS {
            let notes = Notes::default();
            let server = noting(noting(say(), &notes, "outer"), &notes, "inner").build().unwrap();
            let client = in_era(&server, era).await;
            let result = call(&client, "say", json!({ "word": "hello" })).await.unwrap();
            assert_eq!(text(&result), "hello");
            let seen = ["outer tools/call", "inner tools/call", "inner complete", "outer complete"];
            assert_eq!(*notes.lock(), seen, "{era:?}");
            notes.lock().clear();
            call(&client, "unknown", json!({})).await.unwrap_err();
            client.list_tools().all().await.unwrap();
            let kinds =
                notes.lock().iter().filter(|note| note.starts_with("outer")).cloned().collect::<Vec<_>>();
            let seen = ["outer tools/call", "outer error", "outer tools/list", "outer complete"];
            assert_eq!(kinds, seen, "{era:?}");
        }
    });
}

/// The request with another word to say.
fn with_word(request: Request, word: &str) -> Request {
    let mut params: Value = value(request.params.as_ref().unwrap().raw());
    params["arguments"]["word"] = word.into();
    Request { params: Some(Payload::from_raw(raw(&params))), ..request }
}

#[test]
fn a_layer_refuses_answers_and_changes_requests_and_results() {
    run(async {
        let server = say().layer(|request, cx, next| async move {
            let word =
                request.params.as_ref().and_then(|params| params.raw().member("arguments")?.member("word"));
            let word: String = word.map(|word| word.decode().unwrap()).unwrap_or_default();
            assert_eq!(cx.params().map(Payload::raw), request.params.as_ref().map(Payload::raw));
            match word.as_str() {
                "refuse" => Err(ErrorObject::invalid_request("not that word")),
                "answer" => Ok(Reply::Complete(raw(&json!({ "content": [] })))),
                "change" => next.run(with_word(request, "changed")).await,
                "edit" => match next.run(request).await? {
                    Reply::Complete(result) => {
                        let mut result = value(&result);
                        result["structuredContent"] = json!({ "edited": true });
                        Ok(Reply::Complete(raw(&result)))
                    }
                    other => Ok(other),
                },
                "panic" => panic!("a layer that panics"),
                _ => next.run(request).await,
            }
        });
        let server = server.build().unwrap();
        for era in BOTH_ERAS {
            let client = in_era(&server, era).await;
            let say = async |word: &str| call(&client, "say", json!({ "word": word })).await;
            assert_eq!(say("refuse").await.unwrap_err().message, "not that word");
            assert_eq!(say("answer").await.unwrap(), json!({ "content": [] }));
            assert_eq!(text(&say("change").await.unwrap()), "changed");
            assert_eq!(say("edit").await.unwrap()["structuredContent"], json!({ "edited": true }));
            assert_eq!(say("panic").await.unwrap_err().code, -32603);
            assert_eq!(text(&say("on it goes").await.unwrap()), "on it goes");
        }
    });
}

fn accepting(era: Era) -> ClientBuilder {
    builder()
        .era(EraChoice::Only(era))
        .tasks(era == Era::Modern)
        .elicitation(|_| async { Ok(ElicitResult::new(ElicitAction::Accept)) })
}

#[test]
fn questions_and_tasks_pass_a_layer_as_the_replies_that_they_are() {
    run(async {
        let asks = async |_: NoArguments, cx: Context| -> Result<String, HandlerError> {
            let question = ElicitFormParams::new("Sure?", ElicitationSchema::new(Members::new()));
            Ok(cx.elicit(question).await?.action.as_str().to_owned())
        };
        let notes = Notes::default();
        let server = Server::builder("s", "1").tool(tool("asks"), asks);
        let server = server.tool(tool("later").as_task(), |_: NoArguments, _| async { "later" });
        let server = noting(server, &notes, "l").build().unwrap();
        let client = connect(&server, accepting(Era::Modern)).await;
        assert_eq!(client.call_tool("asks", ()).await.unwrap().content[0].as_text(), Some("accept"));
        assert_eq!(*notes.lock(), ["l tools/call", "l needs input", "l tools/call", "l complete"]);
        notes.lock().clear();
        assert_eq!(client.call_tool("later", ()).await.unwrap().content[0].as_text(), Some("later"));
        assert_eq!(notes.lock()[..2], ["l tools/call", "l task"]);
        notes.lock().clear();
        // Here the question is a request of its own.
        let client = connect(&server, accepting(Era::Legacy)).await;
        assert_eq!(client.call_tool("asks", ()).await.unwrap().content[0].as_text(), Some("accept"));
        assert_eq!(*notes.lock(), ["l tools/call", "l complete"]);
    });
}

/// Answers every request with the same text.
struct Own;

impl Handler for Own {
    async fn request(&self, request: Request, _: connection::Context) -> Result<Reply, ErrorObject> {
        assert_eq!(request.method, Method::CallTool);
        Ok(Reply::Complete(raw(&json!({ "content": [{ "type": "text", "text": "own" }] }))))
    }
}

#[test]
fn a_layer_surrounds_a_handler_of_the_servers_own() {
    run(async {
        let notes = Notes::default();
        let capabilities = ServerCapabilities::default().with_tools(ToolsCapability::default());
        let server = noting(Server::builder("s", "1").handler(capabilities, Own), &notes, "l");
        let client = in_era(&server.build().unwrap(), Era::Modern).await;
        assert_eq!(text(&call(&client, "any", json!({})).await.unwrap()), "own");
        assert_eq!(*notes.lock(), ["l tools/call", "l complete"]);
    });
}

/// Five tools, two to a page. `b` and `d` are visible only to the client `test`.
fn hiding() -> Server {
    let mut server = Server::builder("s", "1").page_size(2);
    for name in ["a", "b", "c", "d", "e"] {
        server = server.tool(tool(name), |_: NoArguments, _| async { "called" });
    }
    let is_visible = |cx: &Context, tool: &mcpjoin::proto::types::Tool| {
        let info = cx.client().and_then(|client| client.info.clone());
        !matches!(tool.name.as_str(), "b" | "d") || info.is_some_and(|info| info.name == "test")
    };
    server.visible_tools(is_visible).build().unwrap()
}

#[test]
fn hidden_tools_are_neither_listed_nor_called_and_pages_stay_right() {
    run(async {
        for era in BOTH_ERAS {
            let server = hiding();
            let pages = async |client: &mcpjoin::Client| {
                let (mut pages, mut params) = (Vec::new(), json!({}));
                loop {
                    let page = ask(client, "tools/list", params).await.unwrap();
                    let names = page["tools"].as_array().unwrap().iter();
                    pages.push(names.map(|tool| tool["name"].as_str().unwrap()).collect::<String>());
                    match page.get("nextCursor") {
                        Some(cursor) => params = json!({ "cursor": cursor }),
                        None => return (pages, page.get("cacheScope").cloned()),
                    }
                }
            };
            let scope = (era == Era::Modern).then(|| json!("private"));
            let seeing = in_era(&server, era).await;
            assert_eq!(pages(&seeing).await, (["ab", "cd", "e"].map(String::from).into(), scope.clone()));
            assert_eq!(text(&call(&seeing, "b", json!({})).await.unwrap()), "called");
            let other = mcpjoin::Client::builder("other", "1").era(EraChoice::Only(era));
            let other = connect(&server, other).await;
            assert_eq!(pages(&other).await, (["ac", "e"].map(String::from).into(), scope));
            assert_eq!(text(&call(&other, "a", json!({})).await.unwrap()), "called");
            let hidden = call(&other, "b", json!({})).await.unwrap_err();
            let mut unknown = call(&other, "f", json!({})).await.unwrap_err();
            unknown.message = unknown.message.replace('f', "b");
            assert_eq!(hidden, unknown);
        }
    });
}
