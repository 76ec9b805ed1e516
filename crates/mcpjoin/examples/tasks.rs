//! A tool call that runs as a task: the client gets the task at once, and its result later.
//!
//! A client that does not accept tasks waits for the result of the same tool.
//!
//! ```console
//! $ cargo run -p mcpjoin --example tasks
//! the report is a task
//! the report of May
//! without tasks: the report of May
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use mcpjoin::client::{ClientBuilder, TaskOutcome};
use mcpjoin::proto::types::{ElicitParams, ElicitResult};
use mcpjoin::server::{Context, HandlerError, NoArguments, tool};
use mcpjoin::{Client, Link, Server};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Month {
    name: String,
}

/// A task may ask the user as well. Its handler runs once, in both eras.
async fn report(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    let month = cx.elicit_as::<Month>("Which month?").await?;
    Ok(format!("the report of {}", month.map_or_else(|| "all months".to_owned(), |month| month.name)))
}

fn client() -> ClientBuilder {
    Client::builder("example", "1.0.0")
        .elicitation(|_: ElicitParams| async { ElicitResult::accept(json!({ "name": "May" })) })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder("reports", "1.0.0").tool(tool("report").as_task(), report).build()?;

    let (near, far) = Link::memory();
    server.connect(far);
    let taking = client().tasks(true).connect(near).await?;
    let TaskOutcome::Task(task) = taking.call_tool("report", ()).start().await? else {
        return Err("the call did not become a task".into());
    };
    println!("the report is a task");
    // The id is all that is needed to continue later, even on another connection.
    let id = task.id().to_owned();
    println!("{}", taking.task(id).result().await?.to_text());

    let (near, far) = Link::memory();
    server.connect(far);
    let waiting = client().connect(near).await?;
    println!("without tasks: {}", waiting.call_tool("report", ()).await?.to_text());
    Ok(())
}
