//! Tools that request input from the client in the usual way: the handler calls a method and waits for its result.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/client/sampling>. The modern era has no such
//! requests, and the library hides that here. The tools of `rounds` use its own pattern.

use mcpjoin::proto::Raw;
use mcpjoin::proto::types::{
    BooleanSchema, ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitFormParams,
    ElicitResult, ElicitationSchema, EnumOption, LegacyTitledEnumSchema, Members, NumberSchema, NumberType,
    PrimitiveSchema, Role, SamplingCapability, SamplingContent, SamplingMessage, StringFormat, StringSchema,
    TitledItems, TitledMultiSelectEnumSchema, TitledSingleSelectEnumSchema, UntitledItems,
    UntitledMultiSelectEnumSchema, UntitledSingleSelectEnumSchema,
};
use mcpjoin::server::{Context, HandlerError, NoArguments, ServerBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::sleep;

use super::{PAUSE, read_only};

#[derive(Deserialize, JsonSchema)]
struct Sampling {
    /// What to ask the client's model
    prompt: String,
}

#[derive(Deserialize, JsonSchema)]
struct Elicitation {
    /// What to ask the client's user
    message: String,
}

/// Adds the tools.
pub(super) fn add(server: ServerBuilder) -> ServerBuilder {
    server
        .tool(read_only("test_sampling", "Asks the client's model"), sampling)
        .tool(read_only("test_elicitation", "Asks the client's user"), elicitation)
        .tool(
            read_only("test_elicitation_sep1034_defaults", "Asks with a form that is filled in already"),
            defaults,
        )
        .tool(
            read_only("test_elicitation_sep1330_enums", "Asks with each kind of choice that a form can have"),
            choices,
        )
        .tool(
            read_only("test_streaming_elicitation", "Tells how far it is, then asks the client's user"),
            streaming,
        )
        .tool(
            read_only("test_missing_capability", "Is of use only to clients that have a model"),
            missing_capability,
        )
}

async fn sampling(arguments: Sampling, cx: Context) -> Result<String, HandlerError> {
    let answer = cx.sample(message(&arguments.prompt, 100)).await?;
    Ok(format!("LLM response: {}", spoken(&answer)))
}

async fn elicitation(arguments: Elicitation, cx: Context) -> Result<String, HandlerError> {
    let email = StringSchema::default().with_title("Address for mail").with_format(StringFormat::Email);
    let fields = Members::new()
        .with("username", StringSchema::default().with_title("Name").into())
        .with("email", email.into());
    let form = ElicitationSchema::new(fields).with_required(["username".to_owned(), "email".to_owned()]);
    let answer = cx.elicit(ElicitFormParams::new(arguments.message, form)).await?;
    Ok(format!("User response: action: {}, content: {}", answer.action.as_str(), filled_in(&answer)?))
}

async fn defaults(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    let status = UntitledSingleSelectEnumSchema::new(strings(["active", "inactive", "pending"]));
    let fields = Members::new()
        .with("name", StringSchema::default().with_default("John Doe").into())
        .with("age", NumberSchema::new(NumberType::Integer).with_default(30).into())
        .with("score", NumberSchema::new(NumberType::Number).with_default(95.5).into())
        .with("status", status.with_default("active").into())
        .with("verified", BooleanSchema::default().with_default(true).into());
    completed(&cx, "Is this right?", fields).await
}

async fn choices(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    let values = || strings(["option1", "option2", "option3"]);
    let legacy = LegacyTitledEnumSchema::new(strings(["opt1", "opt2", "opt3"]));
    let fields = Members::new()
        .with("untitledSingle", UntitledSingleSelectEnumSchema::new(values()).into())
        .with("titledSingle", TitledSingleSelectEnumSchema::new(titled("Option")).into())
        .with(
            "legacyEnum",
            legacy.with_enum_names(strings(["Option One", "Option Two", "Option Three"])).into(),
        )
        .with("untitledMulti", UntitledMultiSelectEnumSchema::new(UntitledItems::new(values())).into())
        .with("titledMulti", TitledMultiSelectEnumSchema::new(TitledItems::new(titled("Choice"))).into());
    completed(&cx, "What will it be?", fields).await
}

async fn streaming(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    // In the modern era the handler runs again from its beginning when the response has arrived.
    cx.progress(1.0, Some(2.0), Some("About to ask"));
    sleep(PAUSE).await;
    let fields = Members::new().with("name", StringSchema::default().into());
    completed(&cx, "What is your name?", fields).await
}

async fn missing_capability(_: NoArguments, cx: Context) -> Result<&'static str, HandlerError> {
    // Checked first, so that a client without a model fails at once and not after half of the work.
    cx.require(&ClientCapabilities::default().with_sampling(SamplingCapability::default()))?;
    Ok("This client has a model")
}

/// Asks with a form, and describes the result.
async fn completed(
    cx: &Context,
    message: &str,
    fields: Members<PrimitiveSchema>,
) -> Result<String, HandlerError> {
    let answer = cx.elicit(ElicitFormParams::new(message, ElicitationSchema::new(fields))).await?;
    let content = filled_in(&answer)?;
    Ok(format!("Elicitation completed: action={}, content={content}", answer.action.as_str()))
}

/// The content of the form as JSON.
fn filled_in(answer: &ElicitResult) -> Result<Raw, HandlerError> {
    Ok(match &answer.content {
        Some(content) => Raw::from_value(content)?,
        None => Raw::empty_object(),
    })
}

/// A prompt for a model.
pub(super) fn message(text: &str, max_tokens: i64) -> CreateMessageParams {
    let said = SamplingMessage::new(Role::User, SamplingContent::text(text));
    CreateMessageParams::new(vec![said], max_tokens)
}

/// The text of a model.
pub(super) fn spoken(answer: &CreateMessageResult) -> &str {
    let text = answer.content.as_slice().iter().find_map(|content| match content {
        SamplingContent::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    text.unwrap_or("(no text)")
}

fn strings<const N: usize>(strings: [&str; N]) -> Vec<String> {
    strings.map(str::to_owned).to_vec()
}

/// Three options with titles of that kind.
fn titled(kind: &str) -> Vec<EnumOption> {
    [("value1", "First"), ("value2", "Second"), ("value3", "Third")]
        .map(|(value, title)| EnumOption::new(value, format!("{title} {kind}")))
        .to_vec()
}
