//! Model Context Protocol over QUIC, as a transport for [`mcpjoin`].
//!
//! [`connect`] makes the link of a client, [`listen`] the listener of a server. [`endpoint`] is the QUIC layer below,
//! without MCP; other application protocols use it too, for example Orchestra's. `docs/quic.md` in the repository
//! specifies the bytes on the wire.
//!
//! It is a [custom
//! transport](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#custom-transports).

pub mod endpoint;
mod transport;

pub use endpoint::{
    Authorities, CertificateError, CertificateErrorKind, CertificateFacts, ClientAuth, Identity, QuicAttempt,
    QuicError, QuicErrorKind, Trust,
};
pub use transport::{ALPN, QuicConnect, QuicListen, connect, listen};
