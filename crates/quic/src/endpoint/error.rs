//! The errors of connections, with messages that say what to do.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::text::Line;
use quinn::ConnectionError;

use super::tls::CertificateError;

/// A connection failed, was rejected, or has ended.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{address}: {}", Reason { address, kind })]
#[non_exhaustive]
pub struct QuicError {
    /// The peer: `host:port` as the caller gave it, or an incoming peer's address.
    pub address: Arc<str>,
    /// The reason.
    #[source]
    pub kind: QuicErrorKind,
}

impl QuicError {
    /// Creates an error about this peer.
    #[must_use]
    pub fn new(address: impl Into<Arc<str>>, kind: QuicErrorKind) -> Self {
        Self { address: address.into(), kind }
    }

    /// The reason, for a message that names the address itself.
    #[doc(hidden)]
    #[must_use]
    pub fn reason(&self) -> String {
        Reason { address: &self.address, kind: &self.kind }.to_string()
    }
}

/// The reason without the address of the only attempt, where that is the address of the peer.
struct Reason<'a> {
    address: &'a str,
    kind: &'a QuicErrorKind,
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (QuicErrorKind::Unreached(attempts) | QuicErrorKind::TimedOut { attempts, .. }) = self.kind
        else {
            return self.kind.fmt(f);
        };
        match &attempts[..] {
            [only] if only.address.to_string() == self.address => match self.kind {
                QuicErrorKind::TimedOut { after, .. } => {
                    write!(f, "no connection within {} ms: {}", after.as_millis(), only.outcome())
                }
                _ => write!(f, "no connection: {}", only.outcome()),
            },
            _ => self.kind.fmt(f),
        }
    }
}

/// Why a connection failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuicErrorKind {
    /// The address is not `host:port`.
    #[error("not an address of the form host:port, with an IPv6 address in brackets")]
    Address,
    /// The name was not resolved.
    #[error("the name cannot be resolved: {0}")]
    Resolve(#[source] Arc<io::Error>),
    /// A socket operation failed.
    #[error("{0}")]
    System(#[source] Arc<io::Error>),
    /// Our own certificates are unusable.
    #[error("{0}")]
    Certificate(#[from] CertificateError),
    /// Every address was tried and failed.
    #[error("no connection ({})", Attempts(.0))]
    Unreached(Vec<QuicAttempt>),
    /// No address responded in time.
    #[error("no connection within {} ms ({})", .after.as_millis(), Attempts(.attempts))]
    TimedOut {
        /// The time limit.
        after: Duration,
        /// The attempts; empty if the name was not resolved.
        attempts: Vec<QuicAttempt>,
    },
    /// The two sides have no application protocol in common.
    #[error(
        "the peer does not speak `{ours}` (ALPN): another program listens there, or another version of it"
    )]
    Protocol {
        /// Our application protocol.
        ours: String,
    },
    /// We reject the peer's certificate.
    #[error("its certificate is rejected: {0}")]
    Refused(String),
    /// The peer rejects our certificate.
    #[error("it rejects our certificate: {what}{}", Said(.said))]
    RefusedByPeer {
        /// The TLS alert that it sent ([RFC 8446, 6](https://www.rfc-editor.org/rfc/rfc8446#section-6)).
        alert: u8,
        /// The meaning of the alert.
        what: &'static str,
        /// The peer's reason text, if any.
        said: String,
    },
    /// The peer accepts no new connections.
    #[error("it accepts no new connections: it is shutting down, or has reached its limit")]
    Declined,
    /// The handshake failed for another reason.
    #[error("the handshake failed: {0}")]
    Handshake(String),
    /// Nothing was received within the idle timeout.
    #[error("no data has arrived for too long: the peer or the network is gone")]
    Lost,
    /// The peer has closed the connection.
    #[error("it has closed the connection (code {code}){}", Said(.said))]
    Closed {
        /// The application's error code; 0 for a normal close.
        code: u64,
        /// The peer's reason text, if any.
        said: String,
    },
    /// The peer was restarted and does not know the connection.
    #[error("it does not know the connection: it was restarted")]
    Reset,
    /// We have closed the connection.
    #[error("the connection is closed")]
    ClosedByUs,
    /// The peer violated QUIC, or reports that we did.
    #[error("{0}")]
    Transport(String),
}

/// An attempt to connect to one address.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QuicAttempt {
    /// The address.
    pub address: SocketAddr,
    /// Why it failed; `None` if there was no response within the time limit.
    pub error: Option<String>,
}

impl QuicAttempt {
    fn outcome(&self) -> &str {
        self.error.as_deref().unwrap_or("no response")
    }
}

/// Maximum characters of a peer's reason text in an error.
const MAX_REASON_CHARS: usize = 200;

pub(super) fn said(reason: &[u8]) -> String {
    Line::of_bytes(reason).truncated(MAX_REASON_CHARS).to_string()
}

struct Said<'a>(&'a str);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " (it says: {})", self.0) }
    }
}

struct Attempts<'a>(&'a [QuicAttempt]);

impl fmt::Display for Attempts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("the name cannot be resolved");
        }
        for (index, attempt) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{}: {}", attempt.address, attempt.outcome())?;
        }
        Ok(())
    }
}

/// Error codes that carry a TLS alert: <https://www.rfc-editor.org/rfc/rfc9001#section-4.8>.
const TLS_ALERT_CODES: std::ops::RangeInclusive<u64> = 0x100..=0x1ff;
/// <https://www.rfc-editor.org/rfc/rfc9000#section-20.1>.
const CONNECTION_REFUSED: u64 = 2;
/// The alert `no_application_protocol`.
const NO_PROTOCOL_ALERT: u8 = 120;

/// The alert in an error code of [`TLS_ALERT_CODES`].
const fn alert_of(code: u64) -> u8 {
    let [alert, ..] = code.to_le_bytes();
    alert
}

/// What a certificate alert means to the owner of the certificate: <https://www.rfc-editor.org/rfc/rfc8446#section-6>.
const fn certificate_alert(alert: u8) -> Option<&'static str> {
    Some(match alert {
        42 => "it cannot be read, or its use is not allowed (bad_certificate)",
        43 => "its type is not supported there (unsupported_certificate)",
        44 => "it was revoked (certificate_revoked)",
        45 => "it has expired or is not valid yet (certificate_expired)",
        46 => "it is not accepted there (certificate_unknown)",
        48 => "its authority is not trusted there (unknown_ca)",
        49 => "it has no access (access_denied)",
        51 => "its signature does not match the authority there, which was recreated (decrypt_error)",
        116 => "the peer requires a certificate, but none was sent (certificate_required)",
        _ => return None,
    })
}

impl QuicErrorKind {
    /// An error of a socket operation.
    pub(super) fn system(error: io::Error) -> Self {
        Self::System(Arc::new(error))
    }

    /// Converts the error that ended a connection. `rejection` is why our verifier rejected the peer's certificate,
    /// `alpn` our application protocol.
    pub(super) fn of(error: ConnectionError, rejection: Option<String>, alpn: &str) -> Self {
        if let Some(rejection) = rejection {
            return Self::Refused(rejection);
        }
        let protocol = || Self::Protocol { ours: alpn.to_owned() };
        match error {
            ConnectionError::TransportError(error) => match u64::from(error.code) {
                code if TLS_ALERT_CODES.contains(&code) => match alert_of(code) {
                    NO_PROTOCOL_ALERT => protocol(),
                    _ => Self::Handshake(error.reason),
                },
                _ => Self::Transport(error.to_string()),
            },
            ConnectionError::ConnectionClosed(close) => match u64::from(close.error_code) {
                code if TLS_ALERT_CODES.contains(&code) => {
                    match (alert_of(code), certificate_alert(alert_of(code))) {
                        (NO_PROTOCOL_ALERT, _) => protocol(),
                        (alert, Some(what)) => Self::RefusedByPeer { alert, what, said: said(&close.reason) },
                        (alert, None) => Self::Handshake(format!(
                            "the peer reports the TLS alert {alert}{}",
                            Said(&said(&close.reason))
                        )),
                    }
                }
                CONNECTION_REFUSED => Self::Declined,
                _ => Self::Transport(said(close.to_string().as_bytes())),
            },
            ConnectionError::ApplicationClosed(close) => {
                Self::Closed { code: close.error_code.into_inner(), said: said(&close.reason) }
            }
            ConnectionError::TimedOut => Self::Lost,
            ConnectionError::Reset => Self::Reset,
            ConnectionError::LocallyClosed => Self::ClosedByUs,
            ConnectionError::VersionMismatch => {
                Self::Handshake("the peer speaks another version of QUIC".to_owned())
            }
            error @ ConnectionError::CidsExhausted => Self::Transport(error.to_string()),
        }
    }

    /// Whether the peer decided it, so that its other addresses would give the same result.
    pub(super) const fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Protocol { .. } | Self::Refused(_) | Self::RefusedByPeer { .. } | Self::Certificate(_)
        )
    }
}
