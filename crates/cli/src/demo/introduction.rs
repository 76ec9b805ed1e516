//! The introduction: a few tools, a prompt and resources that a newcomer understands. The full server has `echo` and `add`, too.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/tools>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/prompts>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/resources>.

use mcpjoin::proto::types::{
    CompleteParams, ElicitAction, ElicitFormParams, ElicitationSchema, Members, Prompt, PromptArgument,
    PromptReference, Resource, ResourceTemplate, ResourceTemplateReference, StringSchema,
};
use mcpjoin::server::{Context, HandlerError, Json, PromptArguments, ReadRequest, ServerBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::{PAUSE, read_only};

const TEMPLATE: &str = "demo://greeting/{language}";
const PROMPT: &str = "translate";
/// The languages, and a greeting in each.
const GREETINGS: [(&str, &str); 5] = [
    ("English", "Hello"),
    ("French", "Bonjour"),
    ("German", "Guten Tag"),
    ("Japanese", "こんにちは"),
    ("Spanish", "Buenos días"),
];
const ABOUT: &str = "\
This server is built into mcpjoin. Its tools, its prompt
and its resources show what a server can offer. None of
them changes anything outside of the server. demo:full has
one for each feature of the protocol.";

#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// The text to return
    message: String,
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The first number
    a: f64,
    /// The second number
    b: f64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    /// The sum of both
    sum: f64,
}

#[derive(Deserialize, JsonSchema)]
struct Divide {
    /// The number to divide
    a: f64,
    /// The number to divide by; 0 is an error
    b: f64,
}

#[derive(Serialize, JsonSchema)]
struct Quotient {
    quotient: f64,
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    /// The last number
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 100))]
    to: u8,
}

const fn three() -> u8 {
    3
}

#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// Who is greeted; the user is asked if it is missing
    // Without a default in the schema, which could only be `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    name: Option<String>,
}

/// Adds the tools of both servers.
pub(super) fn add_echo_and_add(server: ServerBuilder) -> ServerBuilder {
    server
        .tool(read_only("echo", "Returns the message"), async |echo: Echo, _| echo.message)
        .tool(read_only("add", "Adds two numbers, as a structured result"), async |numbers: Add, _| {
            Json(Sum { sum: numbers.a + numbers.b })
        })
}

/// Adds what only the introduction has.
pub(super) fn add(server: ServerBuilder) -> ServerBuilder {
    server
        .tool(read_only("divide", "Divides a number by another; by 0 it returns an error"), divide)
        .tool(read_only("count", "Counts, and reports its progress at each number"), count)
        .tool(read_only("greet", "Greets a person, and asks for the name"), greet)
        .prompt(
            Prompt::new(PROMPT).with_description("Asks a model to translate a text").with_arguments([
                PromptArgument::new("text").with_description("The text to translate").with_required(true),
                PromptArgument::new("language").with_description("The language to translate into"),
            ]),
            async |arguments: PromptArguments, _| {
                let given = |name: &str| arguments.get(name).map(String::as_str);
                let language = given("language").unwrap_or(GREETINGS[0].0);
                format!("Translate this text into {language}:\n\n{}", given("text").unwrap_or_default())
            },
        )
        .completion(PromptReference::new(PROMPT), async |asked: CompleteParams, _| languages(&asked))
        .resource(
            Resource::new("demo://about", "about")
                .with_description("What this server is")
                .with_mime_type("text/plain"),
            async |_, _| ABOUT,
        )
        .resource_template(
            ResourceTemplate::new(TEMPLATE, "greeting")
                .with_description("A greeting in a language")
                .with_mime_type("text/plain"),
            async |read: ReadRequest, _| {
                let known = GREETINGS.iter().find(|(language, _)| *language == read.variable("language"));
                known.map(|(_, greeting)| *greeting)
            },
        )
        .completion(ResourceTemplateReference::new(TEMPLATE), async |asked: CompleteParams, _| {
            languages(&asked)
        })
}

async fn divide(numbers: Divide, _: Context) -> Result<Json<Quotient>, HandlerError> {
    if numbers.b == 0.0 {
        return Err(HandlerError::new("`b` is 0, and no number can be divided by 0"));
    }
    Ok(Json(Quotient { quotient: numbers.a / numbers.b }))
}

async fn count(count: Count, cx: Context) -> Result<String, HandlerError> {
    if !(1..=100).contains(&count.to) {
        return Err(HandlerError::new("`to` is a number from 1 to 100"));
    }
    for number in 1..=count.to {
        cx.progress(f64::from(number), Some(f64::from(count.to)), Some(&format!("{number}")));
        sleep(PAUSE).await;
    }
    Ok(format!("Counted to {}", count.to))
}

async fn greet(greet: Greet, cx: Context) -> Result<String, HandlerError> {
    let name = match greet.name {
        Some(name) => name,
        None => {
            let field = StringSchema::default().with_title("Name").with_min_length(1);
            let form = ElicitationSchema::new(Members::new().with("name", field.into()))
                .with_required(["name".to_owned()]);
            let answer = cx.elicit(ElicitFormParams::new("What is your name?", form)).await?;
            let content = answer.content.filter(|_| answer.action == ElicitAction::Accept);
            let name = content.as_ref().and_then(|content| content.get("name")?.to_string_value());
            name.ok_or_else(|| HandlerError::new("no name was given"))?.into_owned()
        }
    };
    Ok(format!("Hello, {name}!"))
}

/// The languages that begin as the value does, if a language is asked for.
fn languages(asked: &CompleteParams) -> Vec<String> {
    let known = GREETINGS.iter().filter(|_| asked.argument.name == "language");
    let begun = asked.argument.value.to_lowercase();
    let begun = known.filter(|(language, _)| language.to_lowercase().starts_with(&begun));
    begun.map(|(language, _)| (*language).to_owned()).collect()
}
