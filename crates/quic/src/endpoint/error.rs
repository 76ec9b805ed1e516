//! What a connection can fail with, in words that a person can act on.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::text::Line;
use quinn::ConnectionError;

use super::tls::CertificateError;

/// A connection was not made, was not accepted, or has ended.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{address}: {kind}")]
#[non_exhaustive]
pub struct QuicError {
    /// The peer, as `host:port`, as its caller has named it; on the listening side the address that it came from.
    pub address: Arc<str>,
    /// Why.
    #[source]
    pub kind: QuicErrorKind,
}

impl QuicError {
    /// An error about this peer.
    #[must_use]
    pub fn new(address: impl Into<Arc<str>>, kind: QuicErrorKind) -> Self {
        Self { address: address.into(), kind }
    }
}

/// The ways in which a connection fails.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuicErrorKind {
    /// It is no `host:port`.
    #[error("it is no address of the form host:port, with an IPv6 address in brackets")]
    Address,
    /// The name has no address.
    #[error("the name was not resolved: {0}")]
    Resolve(#[source] Arc<io::Error>),
    /// The system gives no socket.
    #[error("{0}")]
    System(#[source] Arc<io::Error>),
    /// Our own certificates cannot be used.
    #[error("{0}")]
    Certificate(#[from] CertificateError),
    /// Every address was tried, and each has failed.
    #[error("no connection ({})", Attempts(.0))]
    Unreached(Vec<QuicAttempt>),
    /// No address has answered in time.
    #[error("no connection within {} ms ({})", .after.as_millis(), Attempts(.attempts))]
    TimedOut {
        /// The bound.
        after: Duration,
        /// What was tried; empty when not even the name was resolved.
        attempts: Vec<QuicAttempt>,
    },
    /// The two sides have no application protocol in common.
    #[error(
        "the peer does not speak `{ours}` (ALPN): another program listens there, or another version of it"
    )]
    Protocol {
        /// The one that we speak.
        ours: String,
    },
    /// We do not accept the peer's certificate.
    #[error("its certificate is refused: {0}")]
    Refused(String),
    /// The peer does not accept our certificate.
    #[error("it refuses our certificate: {what}{}", Said(.said))]
    RefusedByPeer {
        /// The alert of TLS with which it says so ([RFC 8446, 6](https://www.rfc-editor.org/rfc/rfc8446#section-6)).
        alert: u8,
        /// What it means.
        what: &'static str,
        /// The peer's own words, if any.
        said: String,
    },
    /// The peer takes nobody in now.
    #[error("it takes no new connections: it is about to end, or has too many")]
    Declined,
    /// The handshake failed in another way.
    #[error("the handshake failed: {0}")]
    Handshake(String),
    /// Nothing has come for as long as the idle limit: the peer or the network is gone.
    #[error("nothing has come from it for too long: the peer or the network is gone")]
    Lost,
    /// The peer has closed the connection.
    #[error("it has closed the connection (code {code}){}", Said(.said))]
    Closed {
        /// The application's code; 0 in good order.
        code: u64,
        /// The peer's own words, if any.
        said: String,
    },
    /// The peer knows nothing of the connection any more: it was started again.
    #[error("it knows nothing of the connection any more: it was started again")]
    Reset,
    /// We have closed the connection.
    #[error("the connection is closed")]
    ClosedByUs,
    /// Something came that QUIC does not allow, or the peer says so of us.
    #[error("{0}")]
    Transport(String),
}

/// One address that was tried.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QuicAttempt {
    /// The address.
    pub address: SocketAddr,
    /// Why it has failed; `None` when nothing had come back when the time was over.
    pub error: Option<String>,
}

/// How many characters of a peer's reason an error shows.
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
            return f.write_str("the name was not resolved");
        }
        for (place, attempt) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            let error = attempt.error.as_deref().unwrap_or("no answer");
            write!(f, "{comma}{}: {error}", attempt.address)?;
        }
        Ok(())
    }
}

/// The codes from 0x100 on are the alerts of TLS: <https://www.rfc-editor.org/rfc/rfc9001#section-4.8>.
const CRYPTO: std::ops::RangeInclusive<u64> = 0x100..=0x1ff;
/// `CONNECTION_REFUSED`: <https://www.rfc-editor.org/rfc/rfc9000#section-20.1>.
const DECLINED: u64 = 2;
/// `no_application_protocol`.
const NO_PROTOCOL: u8 = 120;

/// The alert that a code of [`CRYPTO`] stands for.
const fn alert_of(code: u64) -> u8 {
    let [alert, ..] = code.to_le_bytes();
    alert
}

/// What an alert about a certificate means to the one whose certificate it is: <https://www.rfc-editor.org/rfc/rfc8446#section-6>.
const fn certificate_alert(alert: u8) -> Option<&'static str> {
    Some(match alert {
        42 => "it cannot be read, or its use is not allowed (bad_certificate)",
        43 => "its kind is not known there (unsupported_certificate)",
        44 => "it was revoked (certificate_revoked)",
        45 => "it has expired or is not valid yet (certificate_expired)",
        46 => "it is not acceptable there (certificate_unknown)",
        48 => "the authority that has signed it is not trusted there (unknown_ca)",
        49 => "it is not allowed in (access_denied)",
        51 => "its signature is not that of the authority there, which was made anew (decrypt_error)",
        116 => "it wants one, and we have shown none (certificate_required)",
        _ => return None,
    })
}

impl QuicErrorKind {
    /// What has ended a connection. `refusal` is what our own verifier has said of the peer, `alpn` the protocol that we
    /// speak.
    pub(super) fn of(error: ConnectionError, refusal: Option<String>, alpn: &str) -> Self {
        if let Some(refusal) = refusal {
            return Self::Refused(refusal);
        }
        let protocol = || Self::Protocol { ours: alpn.to_owned() };
        match error {
            ConnectionError::TransportError(error) => match u64::from(error.code) {
                code if CRYPTO.contains(&code) => match alert_of(code) {
                    NO_PROTOCOL => protocol(),
                    _ => Self::Handshake(error.reason),
                },
                _ => Self::Transport(error.to_string()),
            },
            ConnectionError::ConnectionClosed(close) => match u64::from(close.error_code) {
                code if CRYPTO.contains(&code) => match (alert_of(code), certificate_alert(alert_of(code))) {
                    (NO_PROTOCOL, _) => protocol(),
                    (alert, Some(what)) => Self::RefusedByPeer { alert, what, said: said(&close.reason) },
                    (alert, None) => Self::Handshake(format!(
                        "the peer says TLS alert {alert}{}",
                        Said(&said(&close.reason))
                    )),
                },
                DECLINED => Self::Declined,
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

    /// Whether it is the peer's own word, so that no other address of it will say anything else.
    pub(super) const fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Protocol { .. } | Self::Refused(_) | Self::RefusedByPeer { .. } | Self::Certificate(_)
        )
    }
}
