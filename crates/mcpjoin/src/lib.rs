//! Connects any Model Context Protocol client to any server.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use mcpjoin::server::{Json, tool};
//! use mcpjoin::{Client, Server};
//! use serde_json::json;
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Add { a: i64, b: i64 }
//!
//! let server = Server::builder("calculator", "1.0.0")
//!     .tool(tool("add").description("Adds two numbers"), |n: Add, _| async move { Json(n.a + n.b) })
//!     .build()?;
//! let client = Client::builder("example", "1.0.0").connect_to(&server).await?;
//! let sum: i64 = client.call_tool("add", json!({ "a": 2, "b": 40 })).await?.decode()?;
//! assert_eq!(sum, 42);
//! # Ok(())
//! # }
//! ```
//!
//! # Begin here
//!
//! | to | read |
//! |---|---|
//! | write a server | [`guide::writing_a_server`], then [`server`] |
//! | write a client | [`guide::writing_a_client`], then [`client`] |
//! | log in to a server | [`guide::logging_in`] |
//! | test a server or a client | [`guide::testing`], then [`testing`] |
//! | use it in a larger program, or offer tools inside one | [`guide::embedding`] |
//! | trace and measure it | [`guide::opentelemetry`] |
//! | connect in another way | [`guide::writing_a_transport`], then [`transport`] |
//! | come from rmcp | [`guide::from_rmcp`] |
//! | see it run | [programs, one for each job](https://github.com/mcpjoin/mcpjoin/tree/main/crates/mcpjoin/examples) |
//!
//! ```console
//! $ cargo add mcpjoin tokio --features tokio/macros,tokio/rt
//! $ cargo add serde --features derive && cargo add schemars@1 serde_json
//! ```
//!
//! # Features
//!
//! Each feature adds to the crate; none changes what another one does.
//!
//! | feature | adds | by default |
//! |---|---|---|
//! | `client` | [`Client`], [`client`] | yes |
//! | `server` | [`Server`], [`server`] | yes |
//! | `macros` | [`server::handlers`]: the methods of a type as tools, prompts and resources; implies `server` | yes |
//! | `json-schema` | the arguments of tools validated against their schemas: `ServerBuilder::validate_arguments`; implies `server` | no |
//! | `child` | servers as child processes: [`transport::ChildCommand`]; implies `client` | yes |
//! | `socket` | TCP and Unix sockets: [`Link::tcp`], [`Link::unix`] and [`transport::Listener`] | no |
//! | `http-client` | Streamable HTTP and HTTP+SSE: [`Link::http`]; implies `client` and `socket`; needs one of the two `tls-*` | no |
//! | `http-server` | the same as a server: [`Server::http`]; implies `server` | no |
//! | `otel` | spans, metrics and trace context of OpenTelemetry: [`guide::opentelemetry`] | no |
//! | `testing` | for tests of servers and clients: [`testing`]; implies `client` and `server` | no |
//! | `tls-ring` | the cryptography of TLS by ring | yes |
//! | `tls-aws-lc-rs` | the cryptography of TLS by aws-lc-rs; ring is used if both are on | no |
//!
//! Links in memory, over any byte stream and over the program's own standard input and output need no feature. OAuth is in
//! `mcpjoin-auth`, QUIC in `mcpjoin-quic`, the bridge between eras in `mcpjoin-gateway`.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(all(feature = "child", feature = "http-client", feature = "http-server", feature = "socket")),
    allow(
        dead_code,
        unused_imports,
        reason = "what several features share is compiled when one of them is on"
    )
)]

mod background;
#[cfg(feature = "client")]
pub mod client;
pub mod connection;
mod der;
#[cfg(any(
    all(unix, feature = "child", feature = "http-client", feature = "http-server"),
    all(doc, not(doctest))
))]
pub mod guide;
pub mod handler;
#[cfg(feature = "http-client")]
mod http;
#[doc(hidden)]
pub mod internal;
mod known_tools;
#[cfg(feature = "otel")]
mod otel;
#[cfg(all(unix, feature = "child"))]
mod process;
#[cfg(feature = "server")]
mod seal;
#[cfg(feature = "server")]
pub mod server;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;
pub mod transport;
mod warning_rate;

pub use mcpjoin_proto as proto;

/// An error of any type, as it may pass from one thread to another: `?` converts every error into it. Handlers return it as it
/// is ([`server::IntoHandlerError`]), and so do functions that start a server again ([`client::ClientBuilder::restarting`]).
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[cfg(all(target_os = "linux", feature = "child"))]
pub use process::guard;

#[cfg(feature = "client")]
pub use client::Client;
pub use handler::Handler;
#[cfg(feature = "server")]
pub use server::Server;
pub use transport::Link;
