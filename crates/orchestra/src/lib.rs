//! Orchestra's plugin protocol: Protobuf messages over QUIC. Each exchange has its own stream, and both sides present
//! certificates of one authority.
//!
//! [`wire`] has the messages, [`value`] converts JSON, [`certs`] manages the certificates, and
//! [`quic`](mcpjoin_quic::endpoint) is the transport. The protocol is not MCP: [`client`] and [`host`] translate
//! between the two.
//!
//! In one exchange the client opens a bidirectional stream, writes one frame and finishes its side; the server writes
//! one frame and finishes its side. Over plain TCP each exchange has its own connection ([`tcp`]).

pub mod certs;
pub mod client;
pub mod host;
pub mod value;
pub mod wire;

use std::time::Duration;

use mcpjoin::internal::tcp_stream;
use mcpjoin::transport::SocketError;
use tokio::net::TcpStream;

/// The application protocol (ALPN) of both sides. A peer that names another one, or none, is rejected.
pub const ALPN: &str = "orchestra-plugin";

/// Default address of the orchestrator for clients, as in Orchestra's `transport.stdio`.
pub const CLIENT_ADDRESS: &str = "localhost:9100";

/// Default address that Orchestra's orchestrator listens on. It differs from [`CLIENT_ADDRESS`].
pub const LISTEN_ADDRESS: &str = "localhost:50100";

/// The bridge's name in [`wire::ToolRequest::caller_plugin`].
pub const CALLER: &str = "transport.stdio";

/// The name in the certificate of `transport.stdio`.
pub const CLIENT_NAME: &str = "transport.stdio-client";

/// The name in the certificate of the orchestrator.
pub const SERVER_NAME: &str = "orchestrator";

/// Connects to the plain TCP port of an orchestrator, `host:port`. Tries every address of a name, IPv4 and IPv6 in
/// parallel, for at most `timeout`. TCP has no encryption and no authentication.
///
/// # Errors
/// [`SocketError`] lists every address that was tried, with its error.
pub async fn tcp(address: &str, timeout: Duration) -> Result<TcpStream, SocketError> {
    tcp_stream(address, timeout).await
}
