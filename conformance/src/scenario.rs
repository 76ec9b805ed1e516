//! The client's part in each scenario of the suite. The authorization scenarios are in `authorization`.
//!
//! Besides the suite's checks, each scenario checks its own results: a missing result is an error here too.

use mcpjoin::client::ClientBuilder;
use mcpjoin::proto::types::{
    CallToolResult, Content, CreateMessageResult, PromptArgument, Role, Root, SamplingContent,
};
use mcpjoin::proto::{ErrorObject, Raw};
use mcpjoin::{Client, Link};
use serde::Deserialize;

use crate::{Fault, form};

/// The suite's parameters of a scenario.
#[derive(Debug)]
pub(crate) struct Told {
    /// The URL of its server.
    pub(crate) url: String,
    /// The only revision that the server speaks.
    pub(crate) version: Option<String>,
    /// Additional data of some scenarios, as JSON.
    pub(crate) context: Option<String>,
}

impl Told {
    /// Checks that the client has negotiated that revision.
    pub(crate) fn is_agreed(&self, client: &Client) -> Result<(), Fault> {
        match self.version.as_deref() {
            Some(version) if client.profile().version.as_str() != version => {
                Err(format!("agreed on {} and not on {version}", client.profile().version).into())
            }
            _ => Ok(()),
        }
    }
}

/// A known scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    Initialize,
    ToolsCall,
    ElicitationDefaults,
    SseRetry,
    RequestMetadata,
    RequestState,
    StandardHeaders,
    CustomHeaders,
    InvalidToolHeaders,
    SchemaReference,
    SchemaPreservation,
}

/// The context of `http-custom-headers`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolCalls {
    tool_calls: Vec<ToolCall>,
}

#[derive(Deserialize)]
struct ToolCall {
    name: String,
    arguments: Raw,
}

impl Scenario {
    /// Parses the suite's name of the scenario.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "initialize" => Self::Initialize,
            "tools_call" => Self::ToolsCall,
            "elicitation-sep1034-client-defaults" => Self::ElicitationDefaults,
            "sse-retry" => Self::SseRetry,
            "request-metadata" => Self::RequestMetadata,
            "sep-2322-client-request-state" => Self::RequestState,
            "http-standard-headers" => Self::StandardHeaders,
            "http-custom-headers" => Self::CustomHeaders,
            "http-invalid-tool-headers" => Self::InvalidToolHeaders,
            "json-schema-ref-no-deref" => Self::SchemaReference,
            "json-schema-2020-12-preservation" => Self::SchemaPreservation,
            _ => return None,
        })
    }

    /// Connects, runs the scenario, and closes the client.
    pub(crate) async fn run(self, told: &Told) -> Result<(), Fault> {
        let link = Link::http(&told.url).build()?;
        let client = self.builder().connect(link).await?;
        let outcome = match told.is_agreed(&client) {
            Ok(()) => self.act(&client, told).await,
            Err(fault) => Err(fault),
        };
        // Also after an error: the suite waits for its server.
        client.close().await;
        outcome
    }

    /// A client with the capabilities that the scenario needs, and no others.
    fn builder(self) -> ClientBuilder {
        let builder = Client::builder("mcpjoin-conformance-client", env!("CARGO_PKG_VERSION"));
        let elicitation =
            |builder: ClientBuilder| builder.elicitation(|asked| async move { form::accept(&asked) });
        match self {
            Self::ElicitationDefaults | Self::RequestState => elicitation(builder),
            Self::RequestMetadata => {
                elicitation(builder).roots(vec![Root::new("file:///tmp")]).sampling(|_| async {
                    let content = SamplingContent::text("Paris");
                    Ok::<_, ErrorObject>(CreateMessageResult::new(Role::Assistant, content, "none"))
                })
            }
            _ => builder,
        }
    }

    async fn act(self, client: &Client, told: &Told) -> Result<(), Fault> {
        match self {
            Self::Initialize => Ok(()),
            Self::ToolsCall => {
                list_and_find(client, "add_numbers").await?;
                expect(call(client, "add_numbers", r#"{"a":5,"b":3}"#).await?, "The sum of 5 and 3 is 8")
            }
            Self::ElicitationDefaults => {
                list_and_find(client, "test_client_elicitation_defaults").await?;
                let result = call(client, "test_client_elicitation_defaults", "{}").await?;
                expect(result, "Elicitation completed: ")
            }
            Self::SseRetry => {
                list_and_find(client, "test_reconnection").await?;
                expect(
                    call(client, "test_reconnection", "{}").await?,
                    "Reconnection test completed successfully",
                )
            }
            // Its server supports only the base protocol.
            Self::RequestMetadata => Ok(client.ping().await?),
            Self::RequestState => request_state(client).await,
            Self::StandardHeaders => standard_headers(client).await,
            Self::CustomHeaders => custom_headers(client, told).await,
            Self::InvalidToolHeaders => {
                // Every tool that the library lists can be called.
                let tools = client.list_tools().all().await?;
                for tool in &tools {
                    call(client, &tool.name, r#"{"region":"us-west1"}"#).await?;
                }
                if tools.is_empty() { Err("no tool is left".into()) } else { Ok(()) }
            }
            Self::SchemaReference => list_and_find(client, "lookup_user").await.map(drop),
            Self::SchemaPreservation => {
                let schema = list_and_find(client, "json_schema_2020_12_tool").await?;
                let arguments = format!(r#"{{"schema":{}}}"#, schema.as_str());
                expect(call(client, "json_schema_echo", &arguments).await?, "echoed")
            }
        }
    }
}

/// Lists the tools, and returns the input schema of the tool with this name.
pub(crate) async fn list_and_find(client: &Client, name: &str) -> Result<Raw, Fault> {
    let tools = client.list_tools().all().await?;
    let found = tools.into_iter().find(|tool| tool.name == name);
    found.map(|tool| tool.input_schema).ok_or_else(|| format!("the tool {name} is not listed").into())
}

pub(crate) async fn call(client: &Client, name: &str, arguments: &str) -> Result<CallToolResult, Fault> {
    let result = client.call_tool(name, Some(Raw::parse(arguments.to_owned())?)).await?;
    if result.is_error == Some(true) {
        return Err(format!("the tool {name} failed: {}", text(&result)).into());
    }
    Ok(result)
}

fn text(result: &CallToolResult) -> &str {
    match result.content.first() {
        Some(Content::Text(content)) => &content.text,
        _ => "",
    }
}

pub(crate) fn expect(result: CallToolResult, beginning: &str) -> Result<(), Fault> {
    if text(&result).starts_with(beginning) {
        return Ok(());
    }
    Err(format!("expected {beginning:?}, not {:?}", result.content).into())
}

/// Makes all calls concurrently, to find out whether the state of one gets into another.
async fn request_state(client: &Client) -> Result<(), Fault> {
    client.list_tools().all().await?;
    let (echo, bare, unrelated, untyped) = tokio::try_join!(
        call(client, "test_mrtr_echo_state", "{}"),
        call(client, "test_mrtr_no_state", "{}"),
        call(client, "test_mrtr_unrelated", "{}"),
        call(client, "test_mrtr_no_result_type", "{}"),
    )?;
    expect(echo, "echo-state-ok")?;
    expect(bare, "no-state-ok")?;
    expect(unrelated, "unrelated-ok")?;
    expect(untyped, "no-result-type-test-ok")
}

/// Makes every request that carries a name in its headers, for each listed item.
async fn standard_headers(client: &Client) -> Result<(), Fault> {
    for tool in client.list_tools().all().await? {
        expect(call(client, &tool.name, "{}").await?, "Headers test completed")?;
    }
    for resource in client.list_resources().all().await? {
        client.read_resource(resource.uri).await?;
    }
    for prompt in client.list_prompts().all().await? {
        let required = |argument: &PromptArgument| argument.required == Some(true);
        if prompt.arguments.is_some_and(|arguments| arguments.iter().any(required)) {
            return Err(format!("the prompt {} wants arguments", prompt.name).into());
        }
        client.get_prompt(prompt.name, ()).await?;
    }
    Ok(())
}

async fn custom_headers(client: &Client, told: &Told) -> Result<(), Fault> {
    let context = told.context.as_ref().ok_or("the suite does not say what to call")?;
    let context: ToolCalls = Raw::parse(context.clone())?.decode()?;
    if context.tool_calls.is_empty() {
        return Err("the suite says to call nothing".into());
    }
    client.list_tools().all().await?;
    for wanted in context.tool_calls {
        expect(
            call(client, &wanted.name, wanted.arguments.as_str()).await?,
            "Custom headers test completed",
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Scenario, Told};

    #[test]
    fn what_is_not_known_is_no_scenario() {
        assert_eq!(Scenario::parse("tools_call"), Some(Scenario::ToolsCall));
        assert_eq!(Scenario::parse("tools-call"), None);
        assert_eq!(Scenario::parse("auth/metadata-default"), None);
        assert_eq!(Scenario::parse(""), None);
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_an_error() {
        // Bound without a listener: the system rejects connections to it.
        let closed = tokio::net::TcpSocket::new_v4().unwrap();
        closed.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let url = format!("http://{}/mcp", closed.local_addr().unwrap());
        let told = Told { url, version: None, context: None };
        assert!(Scenario::Initialize.run(&told).await.is_err());
    }
}
