//! QUIC ([RFC 9000](https://www.rfc-editor.org/rfc/rfc9000)) with TLS 1.3 on both sides: connecting, listening, closing in
//! good order, and saying what went wrong.
//!
//! Stands under Orchestra and under the transport of MCP over QUIC. It knows no
//! application protocol: its caller names one, and the handshake fails where the peer names another. It never sends or
//! takes data before the handshake is complete (no 0-RTT), and never resumes a session, so that certificates count from
//! the first connection after they have changed.

mod connect;
mod connection;
mod error;
mod listen;
mod reset;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use quinn::congestion::CubicConfig;
use quinn::{IdleTimeout, TransportConfig, VarInt};

pub use connect::connect;
pub use connection::Connection;
pub use error::{QuicAttempt, QuicError, QuicErrorKind};
pub use listen::{Incoming, Listener};
pub use quinn::{RecvStream, SendStream};
pub use tls::{
    Authorities, CertificateError, CertificateErrorKind, CertificateFacts, ClientTls, ClientsAre, Identity,
    ServerTls, Trust,
};

#[doc(hidden)]
pub use tls::private;
#[doc(hidden)]
pub use tls::{Moment, now};

/// How a connection behaves. The numbers are those of the project's interface page.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QuicOptions {
    /// How long connecting may take in all, resolving the name included: 10 s. On the listening side, the handshake.
    pub connect_timeout: Duration,
    /// A connection is lost when nothing has come for so long: 30 s. The shorter of both peers' numbers counts.
    pub idle: Duration,
    /// So often something is sent when there is nothing to say: 10 s.
    pub keep_alive: Duration,
    /// How many streams in both directions the peer may have open at once: 256. Orchestra has 100.
    pub streams: u32,
    /// How much the peer may send on one stream before it is read, in bytes: 1 MiB, which keeps 100 MB/s flowing over
    /// 10 ms.
    pub stream_window: u32,
    /// The same for all streams of the connection together: 8 MiB, so that eight streams that nobody reads stop no other.
    pub connection_window: u32,
}

impl Default for QuicOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            idle: Duration::from_secs(30),
            keep_alive: Duration::from_secs(10),
            streams: 256,
            stream_window: STREAM_WINDOW,
            connection_window: 8 * STREAM_WINDOW,
        }
    }
}

/// The default of [`QuicOptions::stream_window`].
const STREAM_WINDOW: u32 = 1024 * 1024;

impl QuicOptions {
    fn transport(&self) -> Arc<TransportConfig> {
        let mut config = TransportConfig::default();
        // Beyond what the encoding can say, which is longer than anybody waits, there is no limit.
        config.max_idle_timeout(IdleTimeout::try_from(self.idle).ok());
        config.keep_alive_interval(Some(self.keep_alive));
        config.max_concurrent_bidi_streams(VarInt::from_u32(self.streams));
        config.max_concurrent_uni_streams(VarInt::from_u32(0));
        config.datagram_receive_buffer_size(None);
        config.stream_receive_window(VarInt::from_u32(self.stream_window));
        config.receive_window(VarInt::from_u32(self.connection_window));
        config.send_window(u64::from(self.connection_window));
        config.congestion_controller_factory(Arc::new(CubicConfig::default()));
        Arc::new(config)
    }
}
