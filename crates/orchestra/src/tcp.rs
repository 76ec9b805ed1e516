//! The plain form: the same frames over TCP, one exchange on each connection, without encryption and without names.

use std::time::Duration;

use tokio::net::TcpStream;

use mcpjoin::internal::tcp_stream;
use mcpjoin::transport::SocketError;

/// Connects to the plain TCP port of an orchestrator, `host:port`. Every address of a name is tried, IPv4 and IPv6 side
/// by side, and `timeout` bounds all of it.
///
/// # Errors
/// [`SocketError`] with every address that was tried, and what came of it.
pub async fn tcp(address: &str, timeout: Duration) -> Result<TcpStream, SocketError> {
    tcp_stream(address, timeout).await
}
