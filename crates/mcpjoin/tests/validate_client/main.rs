//! A look at clients, and at servers under stress: our own client is clean in both eras over both transports, and each fault of a client that is written by
//! hand is found by its rule and by no other.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as it should be fails the test")]

mod bound;
mod faults;
mod ours;
mod stress;

use mcpjoin::check::{Outcome, Report, Selection, Trace, judge_client};
use mcpjoin::proto::types::{
    BooleanSchema, ElicitFormParams, ElicitResult, ElicitationSchema, InputRequests, InputRequired, Members,
};
use mcpjoin::server::{Context, HandlerError, NoArguments, tool};
use mcpjoin::{Link, Server};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::io::DuplexStream;

#[derive(Deserialize, JsonSchema)]
struct Region {
    /// Where
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
}

/// A server with something for each rule: pages, an argument that belongs in a header, a question, and a state with it.
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
        .build()
        .unwrap()
}

async fn ask(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    if let Some(answer) = cx.input_response::<ElicitResult>("sure")? {
        return Ok(format!("{:?} {:?}", answer.action.as_str(), cx.open_request_state::<String>()?));
    }
    let field = BooleanSchema::default().into();
    let schema = ElicitationSchema::new(Members::new().with("sure", field));
    let question = ElicitFormParams::new("Sure?", schema.with_required(["sure".to_owned()])).into();
    let questions = InputRequests::new().with("sure", question);
    let state = cx.seal_request_state(&"asked")?;
    let input = InputRequired::default().with_input_requests(questions).with_request_state(state);
    Err(HandlerError::need_input(input))
}

fn link(io: DuplexStream) -> Link {
    let (reader, writer) = tokio::io::split(io);
    Link::stream(reader, writer, "duplex")
}

fn judged(trace: &Trace) -> Report {
    judge_client(trace, &Selection::for_clients([], []).unwrap())
}

fn accused(report: &Report) -> Vec<&'static str> {
    report.failed().map(|verdict| verdict.rule.slug).collect()
}

/// Whether all of these were put to the test.
#[track_caller]
fn all_passed(report: &Report, rules: &[&str]) {
    let told = |slug: &&&str| {
        let verdict = report.verdicts.iter().find(|verdict| verdict.rule.slug == **slug).unwrap();
        verdict.outcome != Outcome::Passed
    };
    let not: Vec<&&str> = rules.iter().filter(told).collect();
    assert!(not.is_empty(), "not put to the test: {not:?}");
}
