//! The handshake of TLS with a server over HTTPS, and the finding of one that fails.
//!
//! Used by the examination over HTTP. Nothing is sent after the handshake. The verifier is that of the link, so that both
//! trust the same certificates.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::session::foreign_protocol;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, ClientConnection};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::super::examination::seconds;
use super::super::findings::*;
use super::super::report::{Finding, Phase};
use mcpjoin::internal::http::{is_an_authoritys, tls_text, untrusted_issuer};
use mcpjoin::internal::readable;

/// Bytes of a peer that speaks no TLS that are kept.
const MAX_FOREIGN_BYTES: usize = 80;
/// Parts of the names of authorities whose programs or devices decrypt connections: company proxies, virus scanners, tools
/// of developers. In small letters.
const INTERCEPTORS: [&str; 24] = [
    "zscaler",
    "netskope",
    "fortinet",
    "fortigate",
    "palo alto",
    "blue coat",
    "bluecoat",
    "symantec web",
    "forcepoint",
    "websense",
    "cisco umbrella",
    "cisco secure access",
    "sophos",
    "check point",
    "barracuda",
    "mcafee web",
    "skyhigh",
    "gateway ca - cloudflare",
    "mitmproxy",
    "charles proxy",
    "fiddler",
    "portswigger",
    "kaspersky",
    "avast",
];

/// Whether an authority is one that decrypts connections.
pub(super) fn intercepts(issuer: &str) -> bool {
    let issuer = issuer.to_ascii_lowercase();
    INTERCEPTORS.iter().any(|name| issuer.contains(name))
}

/// A handshake that succeeded.
pub(super) struct Session {
    pub(super) version: &'static str,
    pub(super) certificate: Option<CertificateDer<'static>>,
}

/// Why a handshake failed.
pub(super) enum HandshakeError {
    Tls(rustls::Error),
    /// The peer does not speak TLS. Holds its first bytes.
    Foreign(Vec<u8>),
    Closed,
    Io(io::Error),
    TimedOut,
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rustls::Error> for HandshakeError {
    fn from(error: rustls::Error) -> Self {
        Self::Tls(error)
    }
}

impl HandshakeError {
    /// Whether the peer sent nothing that says why.
    pub(super) const fn is_unspecific(&self) -> bool {
        matches!(self, Self::Closed | Self::Io(_) | Self::TimedOut)
    }
}

/// Makes the handshake.
pub(super) async fn handshake(
    stream: &mut TcpStream,
    config: &ClientConfig,
    host: &str,
    timeout: Duration,
) -> Result<Session, HandshakeError> {
    let outcome = tokio::time::timeout(timeout, exchange(stream, config, host)).await;
    outcome.unwrap_or(Err(HandshakeError::TimedOut))
}

async fn exchange(
    stream: &mut TcpStream,
    config: &ClientConfig,
    host: &str,
) -> Result<Session, HandshakeError> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the host is not a valid name for TLS"))?;
    let mut tls = ClientConnection::new(Arc::new(config.clone()), name)?;
    let mut is_first = true;
    let mut buffer = vec![0; 16 * 1024];
    loop {
        while tls.wants_write() {
            let mut out = Vec::new();
            tls.write_tls(&mut out)?;
            stream.write_all(&out).await?;
        }
        if !tls.is_handshaking() {
            break;
        }
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Err(HandshakeError::Closed);
        }
        let mut received = &buffer[..read];
        // Records of TLS begin with their kind and their version.
        if std::mem::take(&mut is_first) && !matches!(received, [0x14..=0x17] | [0x14..=0x17, 0x03, ..]) {
            return Err(HandshakeError::Foreign(received[..read.min(MAX_FOREIGN_BYTES)].to_vec()));
        }
        while !received.is_empty() {
            tls.read_tls(&mut received)?;
            if let Err(error) = tls.process_new_packets() {
                let mut alert = Vec::new();
                // The server may log the alert. A failure to send it changes nothing.
                let _ = tls.write_tls(&mut alert);
                let _ = stream.write_all(&alert).await;
                return Err(error.into());
            }
        }
    }
    let version = match tls.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_3) => "TLS 1.3",
        Some(rustls::ProtocolVersion::TLSv1_2) => "TLS 1.2",
        _ => "TLS",
    };
    let certificate = tls.peer_certificates().and_then(|chain| chain.first());
    Ok(Session { version, certificate: certificate.map(|first| first.clone().into_owned()) })
}

/// Whether the peer speaks TLS, even if the handshake failed.
pub(super) const fn is_spoken(outcome: &Result<Session, HandshakeError>) -> bool {
    match outcome {
        Ok(_) => true,
        Err(HandshakeError::Tls(error)) => !matches!(error, rustls::Error::InvalidMessage(_)),
        Err(_) => false,
    }
}

/// The finding of a handshake that failed.
pub(super) fn failed(error: HandshakeError, host: &str, timeout: Duration) -> Finding {
    let (kind, seen) = match error {
        HandshakeError::Tls(rustls::Error::InvalidCertificate(problem)) => {
            return refused_certificate(problem, host);
        }
        HandshakeError::Tls(error @ rustls::Error::InvalidMessage(_)) => (NO_TLS, tls_text(&error, host)),
        HandshakeError::Tls(error) => (TLS_DISAGREEMENT, tls_text(&error, host)),
        HandshakeError::Foreign(first) => return foreign(&first, host),
        HandshakeError::Closed => {
            (TLS_CLOSED, format!("{host} closed the connection in the middle of the handshake"))
        }
        HandshakeError::Io(error) => (TLS_BROKEN, format!("the TLS handshake with {host} failed: {error}")),
        HandshakeError::TimedOut => {
            (TLS_SILENT, format!("{host} did not respond to the TLS handshake within {}", seconds(timeout)))
        }
    };
    kind.at(Phase::Tls, seen)
}

/// The peer speaks another protocol.
fn foreign(first: &[u8], host: &str) -> Finding {
    let (kind, seen, received) = match foreign_protocol(first) {
        None | Some("HTTP") => (NO_TLS, format!("{host} does not speak TLS on that port"), first),
        Some(protocol) => {
            let kind = if protocol == "SSH" { TLS_SSH } else { TLS_OTHER_PROTOCOL };
            let seen = format!("the server speaks {protocol}, and not TLS");
            (kind, seen, first.trim_ascii_end())
        }
    };
    let mut finding = kind.at(Phase::Tls, seen);
    finding.evidence.received = vec![readable(received)];
    finding
}

/// The certificate is not accepted.
fn refused_certificate(problem: CertificateError, host: &str) -> Finding {
    let (issuer, self_signed) = untrusted_issuer(&problem).unzip();
    let kind = match (&problem, &issuer) {
        (CertificateError::Expired | CertificateError::ExpiredContext { .. }, _) => CERTIFICATE_EXPIRED,
        (CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }, _) => {
            CERTIFICATE_NOT_YET_VALID
        }
        (CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }, _) => {
            CERTIFICATE_NAME
        }
        (problem, _) if is_an_authoritys(problem) => CERTIFICATE_OF_AUTHORITY,
        (_, Some(issuer)) if intercepts(issuer) => CERTIFICATE_INTERCEPTED,
        (_, Some(_)) if self_signed == Some(true) => CERTIFICATE_SELF_SIGNED,
        (_, Some(_)) => CERTIFICATE_UNTRUSTED,
        (_, None) => CERTIFICATE_INVALID,
    };
    let seen = tls_text(&rustls::Error::InvalidCertificate(problem), host);
    kind.with(Phase::Tls, seen, &[("issuer", issuer.as_deref().unwrap_or_default())])
}

#[cfg(test)]
mod tests {
    use super::intercepts;

    #[test]
    fn intercepting_authorities_are_known_by_their_names() {
        for name in ["Zscaler Root CA (Zscaler Inc.)", "mitmproxy", "Fortinet CA", "PortSwigger CA"] {
            assert!(intercepts(name), "{name}");
        }
        for name in ["R11 (Let's Encrypt)", "DigiCert Global G2", ""] {
            assert!(!intercepts(name), "{name}");
        }
    }
}
