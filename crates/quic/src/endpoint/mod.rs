//! QUIC endpoints ([RFC 9000](https://www.rfc-editor.org/rfc/rfc9000)) with TLS 1.3: connect, listen, close, and report
//! errors.
//!
//! Used by Orchestra and by the MCP transport. It knows no application protocol: the caller names one, and the
//! handshake fails if the peer names another. It sends and accepts no data before the handshake is complete (no 0-RTT),
//! and it never resumes a TLS session, so that changed certificates apply to the next connection.

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
    Authorities, CertificateError, CertificateErrorKind, CertificateFacts, ClientAuth, ClientTls, Identity,
    ServerTls, Trust,
};

#[doc(hidden)]
pub use tls::check_private;
#[doc(hidden)]
pub use tls::{Moment, now};

/// Options of a connection. The defaults are those of the project's interface page.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QuicOptions {
    /// Time limit for connecting, name resolution included; for a listener, for the handshake. Default: 10 s.
    pub connect_timeout: Duration,
    /// Idle timeout: the connection is lost if nothing is received for this time. The shorter one of both peers
    /// applies. Default: 30 s.
    pub idle: Duration,
    /// Interval of keep-alive packets. Default: 10 s.
    pub keep_alive: Duration,
    /// Maximum number of bidirectional streams that the peer may have open. Default: 256. Orchestra uses 100.
    pub streams: u32,
    /// Bytes that the peer may send on one stream before they are read. Default: 1 MiB, enough for 100 MB/s at a round
    /// trip of 10 ms.
    pub stream_window: u32,
    /// The same for all streams together. Default: 8 MiB, so that eight unread streams do not block the others.
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

/// Default of [`QuicOptions::stream_window`], in bytes.
const STREAM_WINDOW: u32 = 1024 * 1024;

impl QuicOptions {
    fn transport(&self) -> Arc<TransportConfig> {
        let mut config = TransportConfig::default();
        // A time that exceeds the encoding means no limit.
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
