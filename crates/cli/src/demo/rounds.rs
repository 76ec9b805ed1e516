//! Tools that request input explicitly: they respond with named input requests, and are called again with the responses.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>. The modern era works this way. It is for a handler
//! that needs several inputs at once, or keeps its own state between two calls. In the legacy era the library asks the client and
//! calls the handler again, so these tools work there, too.
//!
//! The responses come from the client. So each handler checks them, and asks again for what is missing. State that it relies on is
//! sealed.

use mcpjoin::proto::types::{
    BooleanSchema, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitResult, ElicitationSchema,
    InputRequest, InputRequests, InputRequired, ListRootsParams, ListRootsResult, Members, PrimitiveSchema,
    StringSchema,
};
use mcpjoin::server::{Context, HandlerError, NoArguments, ServerBuilder};
use serde::{Deserialize, Serialize};

use super::questions::{message, spoken};
use super::read_only;

/// Adds the tools.
pub(super) fn add(server: ServerBuilder) -> ServerBuilder {
    server
        .tool(read_only("test_input_required_result_elicitation", "Asks the user for a name"), elicitation)
        .tool(read_only("test_input_required_result_sampling", "Asks the model for a capital"), sampling)
        .tool(read_only("test_input_required_result_list_roots", "Asks for the client's roots"), list_roots)
        .tool(
            read_only("test_input_required_result_request_state", "Asks, and recognises its own question"),
            request_state,
        )
        .tool(
            read_only(
                "test_input_required_result_tampered_state",
                "The same, to be tried with a state that somebody has changed",
            ),
            request_state,
        )
        .tool(
            read_only(
                "test_input_required_result_multiple_inputs",
                "Asks the user, the model and the client at once",
            ),
            multiple_inputs,
        )
        .tool(
            read_only("test_input_required_result_multi_round", "Asks twice, and remembers the first answer"),
            multi_round,
        )
        .tool(
            read_only("test_input_required_result_capabilities", "Asks what this client can answer"),
            capabilities,
        )
}

async fn elicitation(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    match cx.input_response::<ElicitResult>("user_name")? {
        Some(answer) => Ok(format!("Hello, {}!", text_of(&answer, "name"))),
        None => Err(ask(InputRequests::new().with("user_name", user_name()))),
    }
}

async fn sampling(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    match cx.input_response::<CreateMessageResult>("capital_question")? {
        Some(answer) => Ok(format!("The model says: {}", spoken(&answer))),
        None => {
            let question = message("What is the capital of France?", 100);
            Err(ask(InputRequests::new().with("capital_question", question.into())))
        }
    }
}

async fn list_roots(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    match cx.input_response::<ListRootsResult>("client_roots")? {
        Some(answer) => Ok(format!("Roots: {}", uris(&answer))),
        None => Err(ask(InputRequests::new().with("client_roots", roots()))),
    }
}

/// The state of `request_state`.
const ASKED: &str = "asked to confirm";

async fn request_state(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    // A changed state is an error, whatever the response beside it.
    let state = cx.open_request_state::<String>()?;
    match cx.input_response::<ElicitResult>("confirm")? {
        Some(answer) if state.as_deref() == Some(ASKED) => {
            Ok(format!("state-ok, and the user's answer is {}", answer.action.as_str()))
        }
        _ => {
            let ok = form("Please confirm", "ok", BooleanSchema::default().into());
            Err(ask_with(InputRequests::new().with("confirm", ok), cx.seal_request_state(&ASKED)?))
        }
    }
}

async fn multiple_inputs(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    let state = cx.open_request_state::<String>()?;
    let name = cx.input_response::<ElicitResult>("user_name")?;
    let greeting = cx.input_response::<CreateMessageResult>("greeting")?;
    let client_roots = cx.input_response::<ListRootsResult>("client_roots")?;
    let (Some(name), Some(greeting), Some(client_roots), Some(_)) = (name, greeting, client_roots, state)
    else {
        return Err(ask_with(everything(), cx.seal_request_state(&"asked three things")?));
    };
    Ok(format!("{}: {}. Roots: {}", text_of(&name, "name"), spoken(&greeting), uris(&client_roots)))
}

/// The state of `multi_round`, which the client returns in the next round.
#[derive(Serialize, Deserialize)]
struct SoFar {
    name: Option<String>,
}

async fn multi_round(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    let name = match cx.open_request_state::<SoFar>()? {
        Some(SoFar { name: Some(name) }) => name,
        Some(SoFar { name: None }) => match cx.input_response::<ElicitResult>("step1")? {
            Some(answer) => text_of(&answer, "name"),
            None => return Err(first_step(&cx)?),
        },
        None => return Err(first_step(&cx)?),
    };
    match cx.input_response::<ElicitResult>("step2")? {
        Some(answer) => Ok(format!("{name} likes {}", text_of(&answer, "color"))),
        None => {
            let state = cx.seal_request_state(&SoFar { name: Some(name) })?;
            let color = form("Step 2: What is your favorite color?", "color", StringSchema::default().into());
            Err(ask_with(InputRequests::new().with("step2", color), state))
        }
    }
}

fn first_step(cx: &Context) -> Result<HandlerError, HandlerError> {
    let name = form("Step 1: What is your name?", "name", StringSchema::default().into());
    Ok(ask_with(InputRequests::new().with("step1", name), cx.seal_request_state(&SoFar { name: None })?))
}

async fn capabilities(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    // Input that the client has not declared must not be requested.
    let questions: InputRequests =
        everything().into_iter().filter(|(_, question)| cx.may_ask(question)).collect();
    let answers = cx.input_responses()?.unwrap_or_default();
    let answered: Vec<&str> = questions.keys().filter(|name| answers.contains_key(name)).collect();
    if questions.is_empty() {
        Ok("This client answers no questions".into())
    } else if answered.is_empty() {
        Err(ask(questions))
    } else {
        Ok(format!("Answered: {}", answered.join(", ")))
    }
}

/// Requests to the user, the model and the client.
fn everything() -> InputRequests {
    InputRequests::new()
        .with("user_name", user_name())
        .with("greeting", message("Generate a greeting", 50).into())
        .with("client_roots", roots())
}

fn user_name() -> InputRequest {
    form("What is your name?", "name", StringSchema::default().into())
}

fn roots() -> InputRequest {
    ListRootsParams::default().into()
}

fn uris(answer: &ListRootsResult) -> String {
    let uris: Vec<&str> = answer.roots.iter().map(|root| root.uri.as_str()).collect();
    uris.join(", ")
}

/// A form with one required field.
pub(super) fn form(message: &str, field: &str, schema: PrimitiveSchema) -> InputRequest {
    let fields = ElicitationSchema::new(Members::new().with(field, schema));
    ElicitFormParams::new(message, fields.with_required([field.to_owned()])).into()
}

/// The user's text in a field, or a placeholder.
pub(super) fn text_of(answer: &ElicitResult, field: &str) -> String {
    let content = answer.content.as_ref().filter(|_| answer.action == ElicitAction::Accept);
    let text = content.and_then(|content| content.get(field)?.to_string_value());
    text.map_or_else(|| "(not said)".to_owned(), std::borrow::Cow::into_owned)
}

/// The result of a handler that needs input.
pub(super) fn ask(questions: InputRequests) -> HandlerError {
    HandlerError::need_input(InputRequired::default().with_input_requests(questions))
}

/// [`ask`] with a state that the client returns with the responses.
fn ask_with(questions: InputRequests, state: String) -> HandlerError {
    let input = InputRequired::default().with_input_requests(questions).with_request_state(state);
    HandlerError::need_input(input)
}
