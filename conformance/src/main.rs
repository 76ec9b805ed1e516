//! The client that the official conformance suite tests. The suite starts it once per scenario, against one of its own
//! servers; `cargo xtask conformance` starts the suite.
//!
//! It uses only the public API of `mcpjoin`, and never tells the library which revision to speak, so the suite tests the
//! library's default behaviour. The environment gives the scenario
//! (<https://github.com/modelcontextprotocol/conformance>), and the last argument is the server's URL.
#![allow(clippy::print_stderr, reason = "the suite shows what a client says on standard error")]

mod authorization;
mod form;
mod scenario;

use std::env::VarError;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use authorization::Authorization;
use scenario::{Scenario, Told};
use tokio::time::timeout;

/// The client's own time limit, below the suite's 30 s: if the suite must kill a client, its server keeps waiting.
const LONGEST: Duration = Duration::from_secs(25);

/// An error, which is only printed.
type Fault = Box<dyn Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let outcome = match told() {
        Ok((wanted, told)) => timeout(LONGEST, run(wanted, &told))
            .await
            .unwrap_or_else(|_| Err(format!("not over after {} s", LONGEST.as_secs()).into())),
        Err(fault) => Err(fault),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("mcpjoin-conformance-client: {}", with_sources(&*fault));
            ExitCode::FAILURE
        }
    }
}

/// The scenario to run.
enum Wanted {
    Scenario(Scenario),
    Authorization(Authorization),
}

async fn run(wanted: Wanted, told: &Told) -> Result<(), Fault> {
    match wanted {
        Wanted::Scenario(scenario) => scenario.run(told).await,
        Wanted::Authorization(authorization) => authorization.run(told).await,
    }
}

/// Reads the scenario, the server's URL and the context.
fn told() -> Result<(Wanted, Told), Fault> {
    let name = variable("MCP_CONFORMANCE_SCENARIO")?.ok_or("the suite names no scenario")?;
    let wanted = Scenario::parse(&name)
        .map(Wanted::Scenario)
        .or_else(|| Authorization::parse(&name).map(Wanted::Authorization))
        .ok_or_else(|| format!("no scenario that is known: {name}"))?;
    let url = std::env::args().next_back().filter(|url| url.starts_with("http"));
    let told = Told {
        url: url.ok_or("the last argument is the URL of the server, and there is none")?,
        version: variable("MCP_CONFORMANCE_PROTOCOL_VERSION")?,
        context: variable("MCP_CONFORMANCE_CONTEXT")?,
    };
    Ok((wanted, told))
}

fn variable(name: &str) -> Result<Option<String>, Fault> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(VarError::NotPresent) => Ok(None),
        Err(error) => Err(format!("{name}: {error}").into()),
    }
}

fn with_sources(fault: &(dyn Error + 'static)) -> String {
    let mut text = fault.to_string();
    let mut source = fault.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}
