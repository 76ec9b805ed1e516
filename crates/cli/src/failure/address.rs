//! An address could not be reached, or not be listened on: sockets, QUIC, HTTP, Orchestra.

use mcpjoin::server::BuildError;
use mcpjoin::transport::{HttpListenError, SocketError, SocketErrorKind};
use mcpjoin_orchestra::client::SetupError;
use mcpjoin_quic::endpoint::{QuicError, QuicErrorKind};

use super::hints::{CHECK_HOST, NOT_LISTENING, NOT_STARTED};
use super::{Failure, Phase};
use crate::exit::Exit;

const MEND_FILE: &str = "fix the file, or use another one";
const ADDRESS_TAKEN: &str = "check that the address is free and permitted; port 0 uses any free port";
const TCP_FORM: &str = "tcp://host:port, with an IPv6 address in brackets";
const QUIC_FORM: &str = "quic://host:port, with an IPv6 address in brackets";

impl Failure {
    /// The connection to a socket failed.
    pub(crate) fn connect(error: &SocketError) -> Self {
        let (id, hint) = match &error.kind {
            SocketErrorKind::Address(_) => ("E_USAGE", TCP_FORM),
            SocketErrorKind::Resolve(_) => ("E_RESOLVE", CHECK_HOST),
            SocketErrorKind::TimedOut { .. } | SocketErrorKind::NotAccepted { .. } => (
                "E_CONNECT",
                "check that the server is not busy, and that no firewall blocks it; --connect-timeout 30s \
                 waits longer",
            ),
            _ if error.target.starts_with("unix:") => {
                ("E_CONNECT", "start the server, which creates the socket, or check the path")
            }
            _ => ("E_CONNECT", NOT_STARTED),
        };
        Self::to_connect(id, error.to_string()).hint(hint)
    }

    /// The connection over QUIC failed, or one side did not accept the certificate of the other.
    pub(crate) fn quic(error: &QuicError) -> Self {
        let (id, hint) = match &error.kind {
            QuicErrorKind::Address => ("E_USAGE", QUIC_FORM),
            QuicErrorKind::Resolve(_) => ("E_RESOLVE", CHECK_HOST),
            QuicErrorKind::Certificate(_) => ("E_USAGE", MEND_FILE),
            QuicErrorKind::TimedOut { .. } => (
                "E_CONNECT",
                "check that a server listens there, and that no firewall blocks UDP; --connect-timeout 30s \
                 waits longer",
            ),
            QuicErrorKind::Protocol { .. } => {
                ("E_NO_ENDPOINT", "check that an MCP server over QUIC listens there")
            }
            QuicErrorKind::Refused(_) => (
                "E_TLS",
                "use --pin sha256:HEX with the server's key, from its output, or --ca FILE with the \
                 authority that signed its certificate",
            ),
            QuicErrorKind::RefusedByPeer { .. } => (
                "E_AUTH",
                "use --cert FILE --key FILE, with a certificate signed by an authority that the server \
                 trusts",
            ),
            QuicErrorKind::Unreached(_) => ("E_CONNECT", NOT_LISTENING),
            _ => ("E_LINK", "try again; see the server's own log"),
        };
        Self::to_connect(id, error.to_string()).hint(hint)
    }

    /// The bridge to an orchestrator could not be set up, or one of the two sides rejects the other: a retry would not help.
    pub(crate) fn orchestra(error: &SetupError) -> Self {
        let message = error.to_string();
        match error {
            SetupError::Address(_) => Self::usage(message, "--orchestrator-addr localhost:50100"),
            SetupError::Certificate(_) => Self::new("E_CERTIFICATE", Exit::Usage, Phase::Connect, message)
                .hint("--certs-dir DIR names another folder of certificates"),
            _ => Self::new("E_CERTIFICATE", Exit::Usage, Phase::Connect, message).hint(
                "both ends need certificates of one authority (--certs-dir), and the orchestrator's needs the \
                 expected name (--server-name orchestrator); restart an orchestrator after a change of its certificates",
            ),
        }
    }

    /// The server of the bridge to an orchestrator could not be built.
    pub(crate) fn orchestra_bridge(error: &BuildError) -> Self {
        Self::new("E_BRIDGE", Exit::Usage, Phase::Serve, error.to_string())
            .hint("report it to the authors of mcpjoin")
    }

    fn to_connect(id: &'static str, message: String) -> Self {
        let exit = match id {
            "E_USAGE" => Exit::Usage,
            "E_AUTH" => Exit::Authorization,
            _ => Exit::Connection,
        };
        Self::new(id, exit, Phase::Connect, message)
    }

    /// The address over QUIC cannot be listened on.
    pub(crate) fn listen_quic(error: &QuicError) -> Self {
        let (id, hint) = match &error.kind {
            QuicErrorKind::Address => ("E_USAGE", QUIC_FORM),
            QuicErrorKind::Certificate(_) => ("E_USAGE", MEND_FILE),
            _ => ("E_LISTEN", ADDRESS_TAKEN),
        };
        Self::new(id, Exit::Usage, Phase::Serve, error.to_string()).hint(hint)
    }

    /// The socket cannot be listened on.
    pub(crate) fn listen(error: &SocketError) -> Self {
        let is_a_file = error.target.starts_with("unix:");
        let (id, hint) = match &error.kind {
            SocketErrorKind::Address(_) => ("E_USAGE", TCP_FORM),
            SocketErrorKind::NotASocket => ("E_LISTEN", "use another file"),
            SocketErrorKind::InUse if is_a_file => ("E_LISTEN", "stop that server, or use another file"),
            _ if is_a_file => (
                "E_LISTEN",
                "check that the folder exists and is writable, and that the path is short \
                    enough",
            ),
            _ => ("E_LISTEN", ADDRESS_TAKEN),
        };
        Self::new(id, Exit::Usage, Phase::Serve, error.to_string()).hint(hint)
    }

    /// The address over HTTP cannot be listened on.
    pub(crate) fn listen_http(error: &HttpListenError) -> Self {
        let (id, hint) = match error {
            HttpListenError::Url { .. } => {
                ("E_USAGE", "http://host:port/path, with an IPv6 address in brackets")
            }
            _ => ("E_LISTEN", ADDRESS_TAKEN),
        };
        Self::new(id, Exit::Usage, Phase::Serve, error.to_string()).hint(hint)
    }
}
