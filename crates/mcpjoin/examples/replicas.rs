//! Two replicas of a server behind a load balancer that gives each request to the next one.
//!
//! Clients of 2026-07-28 have no session. The input that a handler has received so far travels with the client,
//! encrypted, so the replicas share a key. Tasks do not travel: replicas pass requests about them
//! to the replica that has started the task (`ServerBuilder::replica`).
//!
//! ```console
//! $ cargo run -p mcpjoin --example replicas
//! replica 2 asks: How many persons?
//! replica 1 books for 4
//! replica 2 asks: How many persons?
//! replica 1 books for 4
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::Request;
use axum::routing::any;
use mcpjoin::client::EraChoice;
use mcpjoin::proto::Era;
use mcpjoin::proto::types::{ElicitParams, ElicitResult};
use mcpjoin::server::{BuildError, Context, HandlerError, NoArguments, StateKey, tool};
use mcpjoin::transport::HttpOptions;
use mcpjoin::{Client, Link, Server};
use serde_json::json;
use tokio::net::TcpListener;
use tower_service::Service as _;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Persons {
    count: u8,
}

/// All replicas are built alike. The key is a secret of the deployment: 32 random bytes.
fn replica(number: usize) -> Result<Server, BuildError> {
    Server::builder("restaurant", "1.0.0")
        .state_key(StateKey::from_bytes([7; 32]))
        .tool(tool("book"), move |_: NoArguments, cx: Context| async move {
            let question = format!("replica {number} asks: How many persons?");
            let persons = cx.elicit_as::<Persons>(question).await?;
            let count = persons.map_or(0, |persons| persons.count);
            Ok::<_, HandlerError>(format!("replica {number} books for {count}"))
        })
        .build()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = || HttpOptions::new().stateless(true);
    let replicas = [replica(1)?.http(options()), replica(2)?.http(options())];
    // Stands for the load balancer and the network behind it.
    let turn = Arc::new(AtomicUsize::new(0));
    let balancer = any(move |request: Request| {
        let mut replica = replicas[turn.fetch_add(1, Ordering::Relaxed) % 2].clone();
        async move { replica.call(request).await }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/mcp", balancer)).await });

    let client = Client::builder("example", "1.0.0")
        .era(EraChoice::Only(Era::Modern))
        .elicitation(|question| async move {
            if let ElicitParams::Form(form) = question {
                println!("{}", form.message);
            }
            ElicitResult::accept(json!({ "count": 4 }))
        })
        .connect(Link::http(url).build()?)
        .await?;
    for _ in 0..2 {
        println!("{}", client.call_tool("book", ()).await?.to_text());
    }
    client.close().await;
    Ok(())
}
