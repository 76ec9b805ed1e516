//! The checks for clients on rmcp, the same as in `interop/clients/demo.py`. Each check opens a session of its own.

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::{Call, Checked, Desk, Era, Failure, List, Running, Server, Session};

/// The time limit of a check: far more than a check takes on a busy machine, and less than `fifty` would take if its calls
/// ran one after the other.
const LIMIT: Duration = Duration::from_secs(40);

/// The description of the server, if no file in the variable `MCPJOIN_INTEROP_DEMO` has another one.
const DEMO: &str = include_str!("../../clients/demo.json");
const WATCHED: &str = "test://watched-resource";
const TEMPLATE: &str = "test://template/{id}/data";
const FOLDERS: [&str; 2] = ["file:///home/ada/engine", "file:///tmp/%C3%A9"];

/// A check. Its arguments are the server and the era.
type Check = for<'a> fn(&'a Server, Era) -> Running<'a>;

/// Every check, in the order of the table.
pub(crate) fn all<S: Session>() -> [(&'static str, Check); 13] {
    [
        ("open", |server, era| Box::pin(open::<S>(server, era))),
        ("list", |server, era| Box::pin(list::<S>(server, era))),
        ("content", |server, era| Box::pin(content::<S>(server, era))),
        ("progress", |server, era| Box::pin(progress::<S>(server, era))),
        ("cancel", |server, era| Box::pin(cancel::<S>(server, era))),
        ("sampling", |server, era| Box::pin(sampling::<S>(server, era))),
        ("elicitation", |server, era| Box::pin(elicitation::<S>(server, era))),
        ("roots", |server, era| Box::pin(roots::<S>(server, era))),
        ("resources", |server, era| Box::pin(resources::<S>(server, era))),
        ("prompts", |server, era| Box::pin(prompts::<S>(server, era))),
        ("completion", |server, era| Box::pin(completion::<S>(server, era))),
        ("fifty", |server, era| Box::pin(fifty::<S>(server, era))),
        ("end", |server, era| Box::pin(end::<S>(server, era))),
    ]
}

/// Runs a check with the time limit.
pub(crate) async fn limited(check: Running<'_>) -> Checked {
    match tokio::time::timeout(LIMIT, check).await {
        Ok(checked) => checked,
        Err(_) => Err(Failure::Fault(format!("not done in {LIMIT:?}"))),
    }
}

async fn open<S: Session>(server: &Server, era: Era) -> Checked {
    let session = S::open(server, era, Arc::default()).await?;
    let opened = session.opened()?;
    let demo = demo()?;
    equal("the version", &opened["protocolVersion"], &era.version().into())?;
    equal("the server", &opened["serverInfo"]["name"], &demo["name"])?;
    let instructions = demo["instructions"].as_str().unwrap_or_default();
    if !opened["instructions"].as_str().is_some_and(|text| text.starts_with(instructions)) {
        return Err(Failure::Fault(format!("the instructions: {}", opened["instructions"])));
    }
    for capability in ["completions", "prompts", "resources", "tools"] {
        if !opened["capabilities"][capability].is_object() {
            return Err(Failure::Fault(format!("{capability} is not in {}", opened["capabilities"])));
        }
    }
    session.close().await
}

async fn list<S: Session>(server: &Server, era: Era) -> Checked {
    let mut demo = demo()?;
    let session = S::open(server, era, Arc::default()).await?;
    let tools = session.list(List::Tools).await?;
    equal("the names", &every(&tools, "name"), &demo["tools"])?;
    let named = |name: &Value| {
        let tool = tools.as_array().into_iter().flatten().find(|tool| tool["name"] == *name);
        tool.cloned().unwrap_or_default()
    };
    let schema = demo["schema"].take();
    equal("a schema", &named(&schema["of"])["inputSchema"], &schema["is"])?;
    equal("annotations", &named(&"echo".into())["annotations"], &json!({ "readOnlyHint": true }))?;
    equal("a schema of results", &named(&"add".into())["outputSchema"]["required"], &json!(["sum"]))?;
    equal("a tool without one", &named(&"echo".into())["outputSchema"], &Value::Null)?;
    session.close().await
}

async fn content<S: Session>(server: &Server, era: Era) -> Checked {
    let demo = demo()?;
    let picture = json!({ "type": "image", "data": demo["picture"], "mimeType": "image/png" });
    let link = json!({
        "type": "resource_link", "uri": "test://static-text", "name": "static-text", "mimeType": "text/plain",
    });
    let resource = json!({
        "uri": "test://embedded-resource",
        "mimeType": "text/plain",
        "text": "This is an embedded resource content.",
    });
    let alone = [
        (
            "test_simple_text",
            json!({ "type": "text", "text": "This is a simple text response for testing." }),
        ),
        ("test_image_content", picture.clone()),
        ("test_audio_content", json!({ "type": "audio", "data": demo["sound"], "mimeType": "audio/wav" })),
        ("test_resource_link", link),
        ("test_embedded_resource", json!({ "type": "resource", "resource": resource })),
    ];
    let session = S::open(server, era, Arc::default()).await?;
    for (name, expected) in alone {
        let result = session.call(name, json!({})).await?;
        equal(name, &result["content"], &json!([expected]))?;
        equal("no isError", &result["isError"].as_bool().unwrap_or(false).into(), &false.into())?;
    }
    let result = session.call("test_multiple_content_types", json!({})).await?;
    let kinds: Value =
        result["content"].as_array().into_iter().flatten().map(|one| one["type"].clone()).collect();
    equal("the kinds together", &kinds, &json!(["text", "image", "resource"]))?;
    equal("the picture among others", &result["content"][1], &picture)?;
    let result = session.call("add", json!({ "a": 2, "b": 3.5 })).await?;
    equal("the structured content", &result["structuredContent"], &json!({ "sum": 5.5 }))?;
    equal("the same as a text", &parsed(text(&result)?)?, &json!({ "sum": 5.5 }))?;
    let result = session.call("test_error_handling", json!({})).await?;
    equal("isError", &result["isError"], &true.into())?;
    let why = "This tool intentionally returns an error for testing";
    equal("the error", &result["content"], &json!([{ "type": "text", "text": why }]))?;
    let strange = "\u{1f600} \u{2028} \"'\\ \u{7f}";
    for name in demo["echoes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let result = session.call(name, json!({ "message": strange })).await?;
        equal("what is not ASCII", &text(&result)?.into(), &strange.into())?;
    }
    let (code, _) = refused(session.call("absent", json!({})).await)?;
    equal("what a tool that is not there comes to", &code.into(), &(-32602).into())?;
    session.close().await
}

async fn progress<S: Session>(server: &Server, era: Era) -> Checked {
    let desk = Arc::new(Desk::default());
    let session = S::open(server, era, desk.clone()).await?;
    let call = session.begin("test_tool_with_progress", json!({})).await?;
    let token = call.token().clone();
    let result = call.answer().await?;
    equal("the result", &text(&result)?.into(), &"Tool with progress executed successfully".into())?;
    let seen = desk.until(|received| (received.progress.len() >= 3).then(|| received.progress.clone())).await;
    let steps = [(0.0, "Begun"), (50.0, "Half done"), (100.0, "Done")].map(|(progress, message)| {
        json!({ "progressToken": token, "progress": progress, "total": 100.0, "message": message })
    });
    equal("the progress", &floats(&seen), &steps.to_vec().into())?;
    session.close().await
}

async fn cancel<S: Session>(server: &Server, era: Era) -> Checked {
    let session = S::open(server, era, Arc::default()).await?;
    let running = async |wanted: u32| {
        loop {
            let result = session.call("running_computations", json!({})).await?;
            if result["structuredContent"] == json!({ "running": wanted }) {
                return Ok::<_, Failure>(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let call = session.begin("slow_compute", json!({ "seconds": 600 })).await?;
    running(1).await?;
    call.cancel().await?;
    running(0).await?;
    session.close().await
}

async fn sampling<S: Session>(server: &Server, era: Era) -> Checked {
    let desk = Arc::new(Desk { sampling: Some(|_| said("Paris")), ..Desk::default() });
    let session = S::open(server, era, desk.clone()).await?;
    let result = session.call("test_sampling", json!({ "prompt": "The capital?" })).await?;
    equal("the result", &text(&result)?.into(), &"LLM response: Paris".into())?;
    let asked = desk.received().asked.clone();
    let content = json!({ "type": "text", "text": "The capital?" });
    equal("how often it was asked", &asked.len().into(), &1.into())?;
    equal("the question", &asked[0]["messages"], &json!([{ "role": "user", "content": content }]))?;
    equal("how long the answer may be", &asked[0]["maxTokens"], &100.into())?;
    let result = session.call("test_input_required_result_sampling", json!({})).await?;
    equal("a question with a name", &text(&result)?.into(), &"The model says: Paris".into())?;
    let result = session.call("test_missing_capability", json!({})).await?;
    equal("what a client with a model is told", &text(&result)?.into(), &"This client has a model".into())?;
    session.close().await
}

/// A response of the model.
fn said(text: &str) -> Value {
    json!({ "role": "assistant", "content": { "type": "text", "text": text }, "model": "none" })
}

/// The user's answer to a form.
fn filled_in(message: &str) -> Value {
    match message {
        "Who are you?" => json!({ "username": "ada", "email": "ada@example.org" }),
        "Is this right?" => {
            json!({ "name": "Ada", "age": 36, "score": 99.5, "status": "pending", "verified": false })
        }
        "What will it be?" => json!({
            "untitledSingle": "option2",
            "titledSingle": "value1",
            "legacyEnum": "opt3",
            "untitledMulti": ["option1", "option3"],
            "titledMulti": ["value2"],
        }),
        "What context should the prompt use?" => json!({ "context": "gardening" }),
        "Please confirm" => json!({ "ok": true }),
        "Step 2: What is your favorite color?" => json!({ "color": "blue" }),
        _ => json!({ "name": "Ada" }),
    }
}

fn elicited(params: &Value) -> Value {
    let demo = demo().unwrap_or_default();
    let question = |message| str::strip_prefix(message, demo["question"].as_str()?);
    match params["message"].as_str().and_then(question) {
        Some("No?") | None => json!({ "action": "decline" }),
        Some(message) => json!({ "action": "accept", "content": filled_in(message) }),
    }
}

async fn elicitation<S: Session>(server: &Server, era: Era) -> Checked {
    let desk = Arc::new(Desk { elicitation: Some(elicited), ..Desk::default() });
    let session = S::open(server, era, desk.clone()).await?;
    let asked = || desk.received().asked.last().cloned().unwrap_or_default();

    let result = session.call("test_elicitation", json!({ "message": "Who are you?" })).await?;
    equal(
        "the answer",
        &after("User response: action: accept, content: ", &result)?,
        &filled_in("Who are you?"),
    )?;
    let expected = json!({
        "type": "object",
        "properties": {
            "username": { "type": "string", "title": "Name" },
            "email": { "type": "string", "title": "Address for mail", "format": "email" },
        },
        "required": ["username", "email"],
    });
    equal("the question", &asked()["requestedSchema"], &expected)?;
    let result = session.call("test_elicitation", json!({ "message": "No?" })).await?;
    equal("the answer no", &text(&result)?.into(), &"User response: action: decline, content: {}".into())?;

    let completed = "Elicitation completed: action=accept, content=";
    let result = session.call("test_elicitation_sep1034_defaults", json!({})).await?;
    equal("what was filled in", &after(completed, &result)?, &filled_in("Is this right?"))?;
    let fields = asked()["requestedSchema"]["properties"].take();
    let defaults: Value = fields
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, field)| (name.clone(), field["default"].clone()))
        .collect();
    let expected =
        json!({ "name": "John Doe", "age": 30, "score": 95.5, "status": "active", "verified": true });
    equal("the defaults", &defaults, &expected)?;

    let result = session.call("test_elicitation_sep1330_enums", json!({})).await?;
    equal("what was chosen", &after(completed, &result)?, &filled_in("What will it be?"))?;
    let fields = asked()["requestedSchema"]["properties"].take();
    let option = json!({ "const": "value1", "title": "First Option" });
    equal("a choice with titles", &fields["titledSingle"]["oneOf"][0], &option)?;
    let choice = json!({ "const": "value2", "title": "Second Choice" });
    equal("several choices with titles", &fields["titledMulti"]["items"]["anyOf"][1], &choice)?;

    let result = session.call("test_streaming_elicitation", json!({})).await?;
    equal("after progress", &after(completed, &result)?, &json!({ "name": "Ada" }))?;
    let result = session.call("test_input_required_result_multi_round", json!({})).await?;
    equal("two rounds", &text(&result)?.into(), &"Ada likes blue".into())?;
    let result = session.call("test_input_required_result_request_state", json!({})).await?;
    equal(
        "a state that travels",
        &text(&result)?.into(),
        &"state-ok, and the user's answer is accept".into(),
    )?;
    session.close().await
}

fn folders(_: &Value) -> Value {
    json!({ "roots": FOLDERS.map(|uri| json!({ "uri": uri })) })
}

async fn roots<S: Session>(server: &Server, era: Era) -> Checked {
    let shown = FOLDERS.join(", ");
    let desk = Desk { roots: Some(folders), ..Desk::default() };
    let session = S::open(server, era, Arc::new(desk)).await?;
    let result = session.call("test_input_required_result_list_roots", json!({})).await?;
    equal("the roots", &text(&result)?.into(), &format!("Roots: {shown}").into())?;
    session.close().await?;

    let desk = Desk {
        sampling: Some(|_| said("Good morning")),
        elicitation: Some(elicited),
        roots: Some(folders),
        ..Desk::default()
    };
    let session = S::open(server, era, Arc::new(desk)).await?;
    let result = session.call("test_input_required_result_multiple_inputs", json!({})).await?;
    let expected = format!("Ada: Good morning. Roots: {shown}");
    equal("the roots among other questions", &text(&result)?.into(), &expected.into())?;
    session.close().await
}

async fn resources<S: Session>(server: &Server, era: Era) -> Checked {
    let demo = demo()?;
    let session = S::open(server, era, Arc::default()).await?;
    let resources = session.list(List::Resources).await?;
    equal("the list", &every(&resources, "uri"), &demo["resources"])?;
    let templates = session.list(List::Templates).await?;
    equal("the templates", &every(&templates, "uriTemplate"), &demo["resourceTemplates"])?;

    let read = async |uri: &str| {
        let contents = session.read(uri).await?["contents"].take();
        equal("how many contents", &contents.as_array().map_or(0, Vec::len).into(), &1.into())?;
        equal("the address of a content", &contents[0]["uri"], &uri.into())?;
        Ok::<_, Failure>(contents[0].clone())
    };
    let expected = "This is the content of the static text resource.";
    equal("a text", &read("test://static-text").await?["text"], &expected.into())?;
    let content = read("test://static-binary").await?;
    equal("a blob", &content["blob"], &demo["picture"])?;
    equal("its type", &content["mimeType"], &"image/png".into())?;
    let made = json!({ "id": "42", "templateTest": true, "data": "Data for ID: 42" });
    let content = read("test://template/42/data").await?;
    equal("what a template makes", &parsed(content["text"].as_str().unwrap_or_default())?, &made)?;
    let absent = if era == Era::Modern { -32602 } else { -32002 };
    let (code, data) = refused(session.read("test://absent").await)?;
    equal("what is not there", &json!([code, data]), &json!([absent, { "uri": "test://absent" }]))?;

    equal("what is watched", &read(WATCHED).await?["text"], &"Watched resource, version 1".into())?;
    // Behind two processes with a state each, the change happens in one of them.
    if demo["isOneState"] == false {
        return session.close().await;
    }
    let mut watch = session.watch(WATCHED).await?;
    session.call("test_trigger_resource_update", json!({})).await?;
    equal("the update", &session.updated(&mut watch).await?.into(), &WATCHED.into())?;
    equal("after the update", &read(WATCHED).await?["text"], &"Watched resource, version 2".into())?;
    session.unwatch(WATCHED, watch).await?;
    session.close().await
}

async fn prompts<S: Session>(server: &Server, era: Era) -> Checked {
    let demo = demo()?;
    let desk = Desk { elicitation: Some(elicited), ..Desk::default() };
    let session = S::open(server, era, Arc::new(desk)).await?;
    equal("the list", &every(&session.list(List::Prompts).await?, "name"), &demo["prompts"])?;
    let prompt = async |name: &str, arguments: Value| {
        let mut result = session.prompt(name, arguments).await?;
        equal("the role", &result["messages"][0]["role"], &"user".into())?;
        Ok::<_, Failure>(result["messages"][0]["content"].take())
    };
    let expected = json!({ "type": "text", "text": "This is a simple prompt for testing." });
    equal("a prompt", &prompt("test_simple_prompt", json!({})).await?, &expected)?;
    let arguments = json!({ "arg1": "one", "arg2": "two" });
    let expected = "Prompt with arguments: arg1='one', arg2='two'";
    equal("arguments", &prompt("test_prompt_with_arguments", arguments).await?["text"], &expected.into())?;
    let arguments = json!({ "resourceUri": "test://given" });
    let content = prompt("test_prompt_with_embedded_resource", arguments).await?;
    equal("a resource in a prompt", &content["resource"]["uri"], &"test://given".into())?;
    let content = prompt("test_prompt_with_image", json!({})).await?;
    equal("a picture in a prompt", &content["data"], &demo["picture"])?;
    let content = prompt("test_input_required_result_prompt", json!({})).await?;
    equal("a prompt that asks", &content["text"], &"A prompt for this context: gardening".into())?;
    session.close().await
}

async fn completion<S: Session>(server: &Server, era: Era) -> Checked {
    let session = S::open(server, era, Arc::default()).await?;
    let proposed = session.complete_prompt("test_prompt_with_arguments", "arg1", "he").await?;
    equal("for a prompt", &proposed.into(), &json!(["hello", "help"]))?;
    let proposed = session.complete_template(TEMPLATE, "id", "9").await?;
    let expected: Vec<String> = [9].into_iter().chain(90..100).map(|id| id.to_string()).collect();
    equal("for a template", &proposed.into(), &expected.into())?;
    session.close().await
}

async fn fifty<S: Session>(server: &Server, era: Era) -> Checked {
    // One after the other, these would take 50 s.
    let desk = Arc::new(Desk::default());
    let session = S::open(server, era, desk.clone()).await?;
    let one = async |number: u32| {
        let label = format!("number {number}");
        let call = session.begin("slow_compute", json!({ "seconds": 1, "label": label })).await?;
        let token = call.token().clone();
        let result = call.answer().await?;
        equal("an answer", &text(&result)?.into(), &format!("{label} is there, after 1 s").into())?;
        Ok::<_, Failure>((token, label))
    };
    let calls = try_join_all((0..50).map(one)).await?;
    for (token, label) in calls {
        // The client handles each notification in a task of its own.
        let mine = desk
            .until(|received| {
                let mine = received.progress.iter().filter(|progress| progress["progressToken"] == token);
                Some(mine.cloned().collect::<Vec<Value>>()).filter(|mine| !mine.is_empty())
            })
            .await;
        for progress in mine {
            equal("whose progress it is", &progress["message"], &label.as_str().into())?;
        }
    }
    session.close().await
}

async fn end<S: Session>(server: &Server, era: Era) -> Checked {
    // The test observes the end of the server from outside: rmcp kills a server that does not end in time.
    let session = S::open(server, era, Arc::default()).await?;
    let result = session.call("echo", json!({ "message": "bye" })).await?;
    equal("a call", &text(&result)?.into(), &"bye".into())?;
    session.close().await
}

fn demo() -> Checked<Value> {
    let Some(path) = std::env::var_os("MCPJOIN_INTEROP_DEMO") else {
        return serde_json::from_str(DEMO).map_err(Failure::fault);
    };
    serde_json::from_slice(&std::fs::read(path).map_err(Failure::fault)?).map_err(Failure::fault)
}

fn equal(what: &str, seen: &Value, expected: &Value) -> Checked {
    if seen == expected {
        return Ok(());
    }
    Err(Failure::Fault(format!("{what}: {seen} instead of {expected}")))
}

/// This member of every entry of a list.
fn every(list: &Value, member: &str) -> Value {
    list.as_array().into_iter().flatten().map(|entry| entry[member].clone()).collect()
}

/// The code and the data of the server's error.
fn refused(answer: Checked<Value>) -> Checked<(i64, Value)> {
    match answer {
        Err(Failure::Refused { code, data, .. }) => Ok((code, data)),
        Err(other) => Err(other),
        Ok(result) => Err(Failure::Fault(format!("no error, but {result}"))),
    }
}

/// The only text of a successful call.
fn text(result: &Value) -> Checked<&str> {
    let alone =
        result["content"].as_array().filter(|contents| contents.len() == 1 && result["isError"] != true);
    let text = alone.and_then(|contents| contents[0]["text"].as_str());
    text.ok_or_else(|| Failure::Fault(format!("no text alone: {result}")))
}

/// The JSON after these words in the only text of a call.
fn after(words: &str, result: &Value) -> Checked<Value> {
    let text = text(result)?;
    let rest = text.strip_prefix(words);
    parsed(rest.ok_or_else(|| Failure::Fault(format!("`{words}` does not begin {text}")))?)
}

fn parsed(text: &str) -> Checked<Value> {
    serde_json::from_str(text).map_err(|error| Failure::Fault(format!("{error} in {text}")))
}

/// Progress with its numbers as floats: in JSON 50 and 50.0 are the same.
fn floats(progress: &[Value]) -> Value {
    let float = |one: &Value| {
        let mut one = one.clone();
        for member in ["progress", "total"] {
            one[member] = one[member].as_f64().into();
        }
        one
    };
    progress.iter().map(float).collect()
}
