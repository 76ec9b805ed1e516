//! What a tool may return, and the three ways in which a call may fail.
//!
//! ```console
//! $ cargo run -p mcpjoin --example results_and_errors
//! 3 or 3.5
//! the tool failed: division by zero
//! the tool failed: invalid arguments: `b` is missing
//! the server refused: unknown tool: multiply (-32602)
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use mcpjoin::server::{HandlerError, Json, tool};
use mcpjoin::{Client, Link, Server};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
struct Divide {
    a: i32,
    b: i32,
}

/// The structured result. Its JSON Schema is part of the list of tools.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Quotient {
    whole: i32,
    exact: f64,
}

async fn divide(Divide { a, b }: Divide) -> Result<Json<Quotient>, HandlerError> {
    // For the model to read. Every `std::error::Error` becomes the same with `?`.
    let whole = a.checked_div(b).ok_or_else(|| HandlerError::new("division by zero"))?;
    Ok(Json(Quotient { whole, exact: f64::from(a) / f64::from(b) }))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server =
        Server::builder("calculator", "1.0.0").tool(tool("divide"), |n: Divide, _| divide(n)).build()?;

    let (near, far) = Link::memory();
    server.connect(far);
    let client = Client::builder("example", "1.0.0").connect(near).await?;
    let quotient: Quotient = client.call_tool("divide", json!({ "a": 7, "b": 2 })).await?.decode()?;
    println!("{} or {}", quotient.whole, quotient.exact);

    report(&client, "divide", json!({ "a": 7, "b": 0 })).await;
    // Arguments that do not fit never reach the handler.
    report(&client, "divide", json!({ "a": 7 })).await;
    report(&client, "multiply", json!({})).await;
    Ok(())
}

async fn report(client: &Client, tool: &str, arguments: Value) {
    match client.call_tool(tool, arguments).await {
        // A tool that fails has a result all the same.
        Ok(result) => match result.into_result() {
            Ok(result) => println!("{}", result.to_text()),
            Err(failure) => println!("the tool failed: {failure}"),
        },
        Err(error) => match error.remote() {
            Some(refusal) => println!("the server refused: {} ({})", refusal.message, refusal.code),
            None => println!("there is no response: {error}"),
        },
    }
}
