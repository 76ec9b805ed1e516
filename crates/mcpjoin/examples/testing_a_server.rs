//! Tests of a server in memory: no process, no port, no waiting.
//!
//! In a real project these functions are `#[tokio::test]`s.
//!
//! ```console
//! $ cargo run -p mcpjoin --example testing_a_server
//! 2024-11-05: passed
//! 2025-03-26: passed
//! 2025-06-18: passed
//! 2025-11-25: passed
//! 2026-07-28: passed
//! the question: passed
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use mcpjoin::Server;
use mcpjoin::proto::Version;
use mcpjoin::server::{BuildError, Context, HandlerError, Json, NoArguments, tool};
use mcpjoin::testing::{ExpectTool, TestClient};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Divide {
    a: f64,
    b: f64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sure {
    sure: bool,
}

/// The server to be tested.
fn server() -> Result<Server, BuildError> {
    Server::builder("calculator", "1.0.0")
        .tool(tool("divide"), |n: Divide, _| async move {
            if n.b == 0.0 { Err(HandlerError::new("division by zero")) } else { Ok(Json(n.a / n.b)) }
        })
        .tool(tool("clear"), |_: NoArguments, cx: Context| async move {
            let sure = cx.elicit_as::<Sure>("Sure?").await?.is_some_and(|answer| answer.sure);
            Ok::<_, HandlerError>(if sure { "cleared" } else { "kept" })
        })
        .build()
}

async fn a_quotient_is_the_same_in_every_revision(version: Version) -> Result<(), BuildError> {
    let client = TestClient::script().version(version).connect(&server()?).await;
    client.call_tool("divide", json!({ "a": 1, "b": 4 })).await.expect_value(0.25);
    client.call_tool("divide", json!({ "a": 1, "b": 0 })).await.expect_tool_error("division by zero");
    client.call_tool("multiply", json!({})).await.expect_error(-32602);
    Ok(())
}

async fn nothing_is_cleared_without_a_yes() -> Result<(), BuildError> {
    // The answers of the user, in order. A question without an answer fails the test, and so does one too many.
    let script =
        TestClient::script().accepts(json!({ "sure": true })).accepts(json!({ "sure": false })).declines();
    let client = script.connect(&server()?).await;
    for expected in ["cleared", "kept", "kept"] {
        client.call_tool("clear", ()).await.expect_text(expected);
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BuildError> {
    for version in Version::ALL {
        let name = version.to_string();
        a_quotient_is_the_same_in_every_revision(version).await?;
        println!("{name}: passed");
    }
    nothing_is_cleared_without_a_yes().await?;
    println!("the question: passed");
    Ok(())
}
