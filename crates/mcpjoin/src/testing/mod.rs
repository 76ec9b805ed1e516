//! Tests of servers and clients in memory: without processes, ports and waiting.
//!
//! For the tests of programs that use this crate; nothing in the crate calls it. A [`TestClient`] is connected to a server
//! and answers its questions from a script. A [`TestServer`] plays a script to a client, with delays and faults. Results are
//! checked by [`ExpectTool`] and [`assert_json_eq`], and [`snapshot`] writes what a server lists as text that can be compared.
//! Everything works on a paused clock (`tokio::time::pause`).
//!
//! A check that fails panics, with what was expected and what was received.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), mcpjoin::server::BuildError> {
//! use mcpjoin::server::{HandlerError, Json, tool};
//! use mcpjoin::testing::{ExpectTool as _, TestClient};
//!
//! #[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
//! struct Add { a: i64, b: i64 }
//!
//! let server = mcpjoin::Server::builder("calculator", "1.0.0")
//!     .tool(tool("add"), |n: Add, _| async move {
//!         n.a.checked_add(n.b).map(Json).ok_or_else(|| HandlerError::new("too large"))
//!     })
//!     .build()?;
//! let client = TestClient::connect(&server).await;
//! client.call_tool("add", Add { a: 2, b: 40 }).await.expect_value(42);
//! client.call_tool("add", Add { a: i64::MAX, b: 1 }).await.expect_tool_error("too large");
//! # Ok(())
//! # }
//! ```
#![expect(clippy::panic, reason = "a test fails by panicking")]

mod assert;
mod client;
mod server;

use mcpjoin_proto::Raw;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::Client;
use crate::client::{ClientError, Listed, Pages};

pub use assert::{ExpectTool, assert_json_eq};
pub use client::{ClientScript, TestClient};
pub use server::{Received, ServerScript, TestServer};

/// Returns what the server lists (tools, resources, resource templates, prompts) as indented JSON whose members are sorted, so
/// that a test can compare it with a stored text, such as a snapshot of `insta`.
///
/// Lists are in the order of the server. A list whose capability the server does not declare is absent.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mcpjoin::proto::types::Prompt;
/// use mcpjoin::testing::{TestClient, snapshot};
///
/// let server = mcpjoin::Server::builder("s", "1").prompt(Prompt::new("greet"), |_, _| async { "Hello!" }).build()?;
/// let client = TestClient::connect(&server).await;
/// assert_eq!(snapshot(&client).await?, r#"{
///   "prompts": [
///     {
///       "name": "greet"
///     }
///   ]
/// }"#);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As the lists of [`Client`].
pub async fn snapshot(client: &Client) -> Result<String, ClientError> {
    let (peer, mut lists) = (client.peer(), Map::new());
    let Some(offered) = peer.server_capabilities() else { return Ok(String::new()) };
    if offered.tools.is_some() {
        lists.insert("tools".into(), listed(client.list_tools()).await?);
    }
    if offered.resources.is_some() {
        lists.insert("resources".into(), listed(client.list_resources()).await?);
        lists.insert("resourceTemplates".into(), listed(client.list_resource_templates()).await?);
    }
    if offered.prompts.is_some() {
        lists.insert("prompts".into(), listed(client.list_prompts()).await?);
    }
    Ok(format!("{:#}", sorted(Value::Object(lists))))
}

async fn listed<T: Listed + Serialize>(pages: Pages<T>) -> Result<Value, ClientError> {
    Ok(json(&pages.all().await?))
}

/// The same value with the members of its objects in the order of their names. Whether `serde_json` keeps the order of
/// insertion is decided by the features of the whole program.
fn sorted(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        Value::Object(members) => {
            let mut members: Vec<_> =
                members.into_iter().map(|(name, value)| (name, sorted(value))).collect();
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            members.into_iter().collect()
        }
        other => other,
    }
}

/// The value as JSON.
#[track_caller]
fn json<T: Serialize + ?Sized>(value: &T) -> Value {
    let written = Raw::from_value(value).map_err(|error| error.to_string());
    match written.and_then(|raw| raw.decode().map_err(|error| error.to_string())) {
        Ok(value) => value,
        Err(problem) => panic!("the value of the test cannot be written as JSON: {problem}"),
    }
}
