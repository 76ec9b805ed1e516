//! What only the other crates of this repository use of this crate: outside the promise of compatibility.
//!
//! Used by `mcpjoin-auth`, `mcpjoin-quic`, `mcpjoin-redis`, `mcpjoin-gateway`, `mcpjoin-orchestra`, `mcpjoin-diagnostics` and
//! `mcpjoin-cli`. At most 60 items.

#[cfg(feature = "http-client")]
pub use crate::http::is_excepted as is_proxy_excepted;
#[cfg(feature = "http-client")]
pub use crate::http::{
    EXCEPTIONS as PROXY_EXCEPTIONS, VARIABLES as PROXY_VARIABLES, first as first_variable,
};
#[cfg(all(feature = "client", feature = "server", feature = "otel"))]
pub use crate::otel::Relaying;
pub use crate::transport::cannot_reopen;
#[cfg(all(unix, feature = "child"))]
pub use crate::transport::child::ProgramOutput;
pub use crate::transport::gather::Gather;
#[cfg(feature = "http-client")]
pub use crate::transport::http_client::{
    Checked, ErasedCredentials, Exchanged, HttpOpen, kind_of_status, readable, refusal,
};
pub use crate::transport::inspect::beside;
pub use crate::transport::layer::TransportLayer;
#[cfg(feature = "socket")]
pub use crate::transport::socket::{SocketPlace, host_and_port, in_turn, tcp_stream};
pub use crate::transport::stream::{decoded, is_cut_off, too_long};
pub mod der {
    //! Reads what a certificate says, element by element.
    pub use crate::der::{element, shown, value};
}
pub use crate::connection::rounds::{FIRST_PAUSE, MAX_PAUSE, MAX_ROUNDS};
pub use crate::known_tools::{
    KnownTools, MAX_TOOL_BYTES as MAX_KNOWN_TOOL_BYTES, MAX_TOOLS as MAX_KNOWN_TOOLS,
};
#[cfg(feature = "server")]
pub use crate::seal::{NotOpened, owner_of, unix_time};
#[cfg(feature = "server")]
pub use crate::server::capability::undeclared;
#[cfg(feature = "server")]
pub use crate::server::input::digest as request_digest;
#[cfg(feature = "server")]
pub use crate::server::listening::serve_each;
#[cfg(feature = "server")]
pub use crate::server::schema::{is_of_object, wrap, wrapped};
#[cfg(feature = "server")]
pub use crate::server::task::{is_declared as declares_tasks, undeclared as tasks_undeclared};
#[cfg(feature = "server")]
pub use crate::server::tools::adapt_content;
#[cfg(feature = "http-server")]
pub use crate::transport::http_server::entry::{Served, Serves, Serving};
pub use crate::transport::subscriber;
pub use crate::warning_rate::WarningRate;
#[cfg(feature = "http-client")]
pub mod http {
    //! The HTTP client of the transport, for examinations that send requests of their own.
    pub use crate::http::*;
}
