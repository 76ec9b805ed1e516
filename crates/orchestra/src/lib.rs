//! Orchestra's plugin protocol: Protobuf messages, each exchange on a QUIC stream of its own, both ends known by
//! certificates of one authority.
//!
//! [`wire`] is what is said, [`value`] how JSON becomes part of it, [`certs`] who says it, and
//! [`quic`](mcpjoin_quic::endpoint) carries it. Another RPC than MCP, so what joins the two is a translator and not a
//! transport.
//!
//! One exchange: the client opens a stream in both directions, writes one frame and ends its side; the server writes one
//! frame and ends its own. The same over plain TCP takes a connection for each exchange ([`tcp`]).

pub mod certs;
pub mod client;
pub mod host;
mod percent;
pub mod value;
pub mod wire;

use std::time::Duration;

use mcpjoin::internal::tcp_stream;
use mcpjoin::link::SocketError;
use tokio::net::TcpStream;

/// The application protocol that both ends name in the TLS handshake. One that names another, or none, is refused.
pub const ALPN: &str = "orchestra-plugin";

/// Where a client looks for the orchestrator when it is not told: the default of Orchestra's `transport.stdio`.
pub const CLIENT_ADDRESS: &str = "localhost:9100";

/// Where the orchestrator listens when it is not told: the default of Orchestra's own. Not [`CLIENT_ADDRESS`].
pub const LISTEN_ADDRESS: &str = "localhost:50100";

/// What the bridge calls itself in [`wire::ToolRequest::caller_plugin`].
pub const CALLER: &str = "transport.stdio";

/// The name in the certificate of `transport.stdio`.
pub const CLIENT_NAME: &str = "transport.stdio-client";

/// The name in the certificate of the orchestrator.
pub const SERVER_NAME: &str = "orchestrator";

/// Connects to the plain TCP port of an orchestrator, `host:port`. Every address of a name is tried, IPv4 and IPv6 side
/// by side, and `timeout` bounds all of it.
///
/// # Errors
/// [`SocketError`] with every address that was tried, and what came of it.
pub async fn tcp(address: &str, timeout: Duration) -> Result<TcpStream, SocketError> {
    tcp_stream(address, timeout).await
}
