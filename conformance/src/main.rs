//! The client that the official conformance suite judges. The suite starts it once per scenario, against a server of its
//! own; `cargo xtask conformance` starts the suite.
//!
//! Built on the public API of `mcpjoin` alone, and it never tells the library which revision to speak: what is judged is
//! what everyone gets. The suite says through the environment what is wanted
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

/// When it gives up by itself, before the suite's own 30 s: one that the suite must kill leaves its server waiting.
const LONGEST: Duration = Duration::from_secs(25);

/// What went wrong: shown, and nothing else.
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

/// What is wanted.
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

/// What the suite says: which scenario, where, and what is known of it.
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
