//! Job 5: tests of a server, and of a function that calls one.

use mcpjoin::server::{Context, HandlerError, Json, Result, handlers};
use mcpjoin::testing::{ExpectTool, TestClient, TestServer};
use mcpjoin::{BoxError, Client};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Confirmation {
    sure: bool,
}

struct Calculator;

#[handlers]
impl Calculator {
    /// Divides two numbers.
    #[tool]
    fn divide(&self, a: f64, b: f64) -> Result<Json<f64>> {
        if b == 0.0 { Err(HandlerError::new("division by zero")) } else { Ok(Json(a / b)) }
    }

    /// Clears the memory.
    #[tool]
    async fn clear(&self, cx: Context) -> Result<&'static str> {
        let answer = cx.elicit_as::<Confirmation>("Clear the memory?").await?;
        Ok(if answer.is_some_and(|answer| answer.sure) { "cleared" } else { "kept" })
    }
}

/// The function under test: half of a number, by the server.
async fn half(client: &Client, a: f64) -> Result<f64, BoxError> {
    Ok(client.call_tool("divide", json!({ "a": a, "b": 2 })).await?.decode()?)
}

#[tokio::test]
async fn divides() {
    let client = TestClient::connect_handlers(Calculator).await;
    client.call_tool("divide", json!({ "a": 1, "b": 4 })).await.expect_value(0.25);
}

#[tokio::test]
async fn refuses_to_divide_by_zero() {
    let client = TestClient::connect_handlers(Calculator).await;
    client.call_tool("divide", json!({ "a": 1, "b": 0 })).await.expect_tool_error("division by zero");
}

#[tokio::test]
async fn asks_before_it_clears() {
    let client =
        TestClient::script().declines().accepts(json!({ "sure": true })).connect_handlers(Calculator).await;
    client.call_tool("clear", ()).await.expect_text("kept");
    client.call_tool("clear", ()).await.expect_text("cleared");
}

#[tokio::test]
async fn asks_the_server_for_a_half() {
    let (client, server) = TestServer::script().tool("divide", Json(21.0)).connect().await;
    assert_eq!(half(&client, 42.0).await.unwrap(), 21.0);
    assert_eq!(server.calls("divide"), [json!({ "a": 42.0, "b": 2 })]);
}
