//! Tests of the client validator, and of servers under stress over lines. Our own client passes in both eras over both
//! transports, and each fault of a scripted client is found by its rule and by no other.
#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as it should be fails the test")]

mod bound;
mod faults;
mod ours;
mod over_http;
mod provoked;
mod stress;

use std::future::pending;
use std::time::Duration;

use mcpjoin::proto::types::{
    BooleanSchema, ElicitFormParams, ElicitResult, ElicitationSchema, InputRequests, InputRequired, Members,
    Prompt,
};
use mcpjoin::server::{Context, HandlerError, InputError, NoArguments, tool};
use mcpjoin::{Link, Server};
use mcpjoin_rules::{Outcome, Report, Selection, Trace, check_client};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::io::DuplexStream;
use tokio::time::timeout;

#[derive(Deserialize, JsonSchema)]
struct Region {
    /// Where
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
}

/// A server with something for each rule: pages, an argument with a header, an input request with a request state.
fn server() -> Server {
    Server::builder("looked-through", "1")
        .page_size(2)
        .tool(tool("ask").description("Asks the user"), ask)
        .tool(tool("region").description("Has a header"), async |region: Region, _| region.region)
        .tool(tool("quiet").description("Does nothing"), async |_: NoArguments, _| "done")
        .tool(tool("wait").description("Never ends"), async |_: NoArguments, cx: Context| {
            cx.cancelled().await;
            "cancelled"
        })
        .tool(tool("slow").description("Takes four seconds").as_task(), async |_: NoArguments, _| {
            let _ = timeout(Duration::from_secs(4), pending::<()>()).await;
            "done"
        })
        .tool(tool("wonder").description("Asks, as a task").as_task(), async |_: NoArguments, cx: Context| {
            let answer = cx.elicit(question()).await?;
            Ok::<_, InputError>(answer.action.as_str().to_owned())
        })
        .tool(tool("part").description("Closes its stream early"), async |_: NoArguments, cx: Context| {
            cx.close_sse_stream();
            let _ = timeout(Duration::from_millis(100), pending::<()>()).await;
            "done"
        })
        .tool(tool("eighth").description("Is the last"), async |_: NoArguments, _| "done")
        .prompt(Prompt::new("still"), async |_, cx: Context| {
            cx.cancelled().await;
            "cancelled"
        })
        .prompt(Prompt::new("one"), async |_, _| "1")
        .prompt(Prompt::new("two"), async |_, _| "2")
        .prompt(Prompt::new("three"), async |_, _| "3")
        .build()
        .unwrap()
}

async fn ask(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    if let Some(answer) = cx.input_response::<ElicitResult>("sure")? {
        return Ok(format!("{:?} {:?}", answer.action.as_str(), cx.open_request_state::<String>()?));
    }
    let questions = InputRequests::new().with("sure", question().into());
    let state = cx.seal_request_state(&"asked")?;
    let input = InputRequired::default().with_input_requests(questions).with_request_state(state);
    Err(HandlerError::need_input(input))
}

fn question() -> ElicitFormParams {
    let field = BooleanSchema::default().into();
    let schema = ElicitationSchema::new(Members::new().with("sure", field));
    ElicitFormParams::new("Sure?", schema.with_required(["sure".to_owned()]))
}

fn link(io: DuplexStream) -> Link {
    let (reader, writer) = tokio::io::split(io);
    Link::stream(reader, writer, "duplex")
}

fn checked(trace: &Trace) -> Report {
    check_client(trace, &Selection::for_clients([], []).unwrap())
}

fn failed_rules(report: &Report) -> Vec<&'static str> {
    report.failed().map(|result| result.rule.slug).collect()
}

/// Asserts that all of these rules were checked.
#[track_caller]
fn all_passed(report: &Report, rules: &[&str]) {
    let told = |slug: &&&str| {
        let result = report.results.iter().find(|result| result.rule.slug == **slug).unwrap();
        result.outcome != Outcome::Passed
    };
    let not: Vec<&&str> = rules.iter().filter(told).collect();
    assert!(not.is_empty(), "not put to the test: {not:?}");
}
