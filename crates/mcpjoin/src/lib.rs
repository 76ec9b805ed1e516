//! Connects any Model Context Protocol client to any server.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use mcpjoin::server::{Json, tool};
//! use mcpjoin::{Client, Link, Server, proto::Raw};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Add { a: i64, b: i64 }
//!
//! let server = Server::builder("calculator", "1.0.0")
//!     .tool(tool("add").description("Adds two numbers"), |n: Add, _| async move { Json(n.a + n.b) })
//!     .build()?;
//! let (ours, theirs) = Link::memory();
//! server.connect(theirs);
//! let client = Client::builder("example", "1.0.0").connect(ours).await?;
//! let arguments = Raw::parse(r#"{"a":2,"b":40}"#)?;
//! let result = client.call_tool("add", Some(arguments)).await?;
//! assert_eq!(result.structured_content, Some(Raw::parse("42")?));
//! # Ok(())
//! # }
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
//! | `child` | servers as child processes: [`transport::ChildCommand`]; implies `client` | yes |
//! | `socket` | TCP and Unix sockets: [`Link::tcp`], [`Link::unix`] and [`transport::Listener`] | no |
//! | `http-client` | Streamable HTTP and HTTP+SSE: [`Link::http`]; implies `client` and `socket`; needs one of the two `tls-*` | no |
//! | `http-server` | the same as a server: [`Server::http`]; implies `server` | no |
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

#[cfg(feature = "client")]
pub mod client;
pub mod connection;
mod der;
pub mod handler;
#[cfg(feature = "http-client")]
mod http;
#[doc(hidden)]
pub mod internal;
mod known_tools;
#[cfg(all(unix, feature = "child"))]
mod process;
#[cfg(feature = "server")]
pub mod server;
pub mod transport;

pub use mcpjoin_proto as proto;
#[cfg(all(target_os = "linux", feature = "child"))]
pub use process::guard;

#[cfg(feature = "client")]
pub use client::Client;
pub use handler::Handler;
#[cfg(feature = "server")]
pub use server::Server;
pub use transport::Link;

/// The pages whose programs are compiled, and run where they can be, as examples of this crate.
#[cfg(all(doctest, unix, feature = "child", feature = "http-client", feature = "http-server"))]
mod pages {
    #[doc = include_str!("../docs/writing-a-client.md")]
    struct WritingAClient;
    #[doc = include_str!("../docs/writing-a-server.md")]
    struct WritingAServer;
    #[doc = include_str!("../docs/writing-a-transport.md")]
    struct WritingATransport;
}
