//! A tool that asks the user: a form whose fields are those of a type.
//!
//! The same handler serves both eras. A server of the legacy era sends a request of its own. A server of the modern
//! era asks with its result, the client repeats the call with the answer, and the handler runs again from its start.
//! So nothing before the last question may have an effect that must happen once.
//!
//! ```console
//! $ cargo run -p mcpjoin --example elicitation
//! 2025-11-25: a table for 2 at 19:30
//! 2026-07-28: a table for 2 at 19:30
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use mcpjoin::client::EraChoice;
use mcpjoin::proto::Era;
use mcpjoin::proto::types::ElicitResult;
use mcpjoin::server::{Context, NoArguments, Result, tool};
use mcpjoin::{Client, Server};
use serde_json::json;

/// The form. The doc comments describe its fields to the user.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Booking {
    /// How many persons?
    persons: u8,
    /// At what time? At 18:00 if absent.
    time: Option<String>,
}

async fn book(_: NoArguments, cx: Context) -> Result<String> {
    let Some(booking) = cx.elicit_as::<Booking>("Which table?").await? else {
        return Ok("no table: the user declined".to_owned());
    };
    let time = booking.time.as_deref().unwrap_or("18:00");
    Ok(format!("a table for {} at {time}", booking.persons))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder("restaurant", "1.0.0").tool(tool("book"), book).build()?;
    for era in [Era::Legacy, Era::Modern] {
        let client = Client::builder("example", "1.0.0")
            .era(EraChoice::Only(era))
            // In a real client this shows the form to the user.
            .elicitation_form(|form| async move {
                if form.message != "Which table?" {
                    return Ok(ElicitResult::decline());
                }
                ElicitResult::accept(json!({ "persons": 2, "time": "19:30" }))
            })
            .connect_to(&server)
            .await?;
        println!("{}: {}", client.profile().version, client.call_tool("book", ()).await?.to_text());
    }
    Ok(())
}
