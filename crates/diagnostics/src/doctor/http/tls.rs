//! The handshake of TLS with a server over HTTPS, made for itself, and what is wrong with it.
//!
//! Called by the examination over HTTP. Nothing is sent after the handshake. Certificates are judged by the link's own
//! verifier: what is trusted here is what the link trusts.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::session::foreign_protocol;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, ClientConnection};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::super::remote::ITS_LOG;
use super::super::report::{Check, Finding, Phase};
use mcpjoin::internal::http::{is_an_authoritys, tls_text, untrusted_issuer};

/// What an authority is called that belongs to a program or a device which opens encrypted connections: a proxy of a
/// company, a scanner, a tool of developers. In small letters.
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

/// Whether that is what such an authority is called.
pub(super) fn intercepts(issuer: &str) -> bool {
    let issuer = issuer.to_ascii_lowercase();
    INTERCEPTORS.iter().any(|name| issuer.contains(name))
}

/// A handshake that has come to its end.
pub(super) struct Shaken {
    /// As it is called, where that is known.
    pub(super) version: &'static str,
    pub(super) certificate: Option<rustls::pki_types::CertificateDer<'static>>,
}

/// A handshake that has not.
pub(super) enum Unshaken {
    Tls(rustls::Error),
    /// What came is no TLS; how it begins.
    Foreign(Vec<u8>),
    Closed,
    Io(io::Error),
    Silent,
}

/// Makes the handshake.
pub(super) async fn shake(
    stream: &mut TcpStream,
    config: &ClientConfig,
    host: &str,
    within: Duration,
) -> Result<Shaken, Unshaken> {
    match timeout(within, shaking(stream, config, host)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Unshaken::Silent),
    }
}

async fn shaking(stream: &mut TcpStream, config: &ClientConfig, host: &str) -> Result<Shaken, Unshaken> {
    let name = ServerName::try_from(host.to_owned()).map_err(|_| {
        Unshaken::Io(io::Error::new(io::ErrorKind::InvalidInput, "the host is no name for TLS"))
    })?;
    let mut tls = ClientConnection::new(Arc::new(config.clone()), name).map_err(Unshaken::Tls)?;
    let mut first = true;
    let mut piece = vec![0; 16 * 1024];
    loop {
        while tls.wants_write() {
            let mut out = Vec::new();
            tls.write_tls(&mut out).map_err(Unshaken::Io)?;
            stream.write_all(&out).await.map_err(Unshaken::Io)?;
        }
        if !tls.is_handshaking() {
            break;
        }
        let read = stream.read(&mut piece).await.map_err(Unshaken::Io)?;
        if read == 0 {
            return Err(Unshaken::Closed);
        }
        let mut came = &piece[..read];
        // The records of TLS begin with their kind and their version.
        if std::mem::take(&mut first) && !matches!(came, [0x14..=0x17] | [0x14..=0x17, 0x03, ..]) {
            return Err(Unshaken::Foreign(came[..came.len().min(80)].to_vec()));
        }
        while !came.is_empty() {
            tls.read_tls(&mut came).map_err(Unshaken::Io)?;
            if let Err(error) = tls.process_new_packets() {
                let mut alert = Vec::new();
                // The server may know why we leave; whether it does changes nothing.
                let _ = tls.write_tls(&mut alert);
                let _ = stream.write_all(&alert).await;
                return Err(Unshaken::Tls(error));
            }
        }
    }
    let version = match tls.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_3) => "TLS 1.3",
        Some(rustls::ProtocolVersion::TLSv1_2) => "TLS 1.2",
        _ => "TLS",
    };
    Ok(Shaken {
        version,
        certificate: tls
            .peer_certificates()
            .and_then(|chain| chain.first())
            .map(|first| first.clone().into_owned()),
    })
}

/// Whether somebody speaks TLS there, whoever they are.
pub(super) const fn speaks(outcome: &Result<Shaken, Unshaken>) -> bool {
    match outcome {
        Ok(_) => true,
        Err(Unshaken::Tls(error)) => !matches!(error, rustls::Error::InvalidMessage(_)),
        Err(_) => false,
    }
}

/// Why there is no connection that both sides trust.
pub(super) fn unshaken(error: Unshaken, host: &str, within: Duration) -> Finding {
    let finding = |id, check, seen: String, meaning: &str, advice: &str| {
        Finding::new(id, check, Phase::Tls, seen, meaning, advice)
    };
    match error {
        Unshaken::Tls(rustls::Error::InvalidCertificate(problem)) => certificate(problem, host),
        Unshaken::Foreign(first) if foreign_protocol(&first).is_some_and(|protocol| protocol != "HTTP") => {
            let protocol = foreign_protocol(&first).unwrap_or_default();
            let mut found = finding(
                "not-mcp",
                Check::Tls,
                format!("what listens there speaks {protocol}, and no TLS"),
                "it is no MCP server",
                match protocol {
                    "SSH" => {
                        "check the port; a server behind SSH is a command: mcpjoin doctor -- ssh host command"
                    }
                    _ => "check the port; `ss -ltnp` shows which program listens on which",
                },
            );
            found.evidence.received = vec![mcpjoin::internal::readable(first.trim_ascii_end())];
            found
        }
        Unshaken::Foreign(first) => {
            let mut found = finding(
                "no-tls",
                Check::Tls,
                format!("{host} does not speak TLS on that port"),
                "the server takes its connections without encryption there, and the URL says https",
                "write http:// in the URL, or the port on which the server speaks TLS",
            );
            found.evidence.received = vec![mcpjoin::internal::readable(&first)];
            found
        }
        Unshaken::Tls(error @ rustls::Error::InvalidMessage(_)) => finding(
            "no-tls",
            Check::Tls,
            tls_text(&error, host),
            "the server takes its connections without encryption there, and the URL says https",
            "write http:// in the URL, or the port on which the server speaks TLS",
        ),
        Unshaken::Tls(error) => finding(
            "tls-failed",
            Check::Tls,
            tls_text(&error, host),
            "both sides speak TLS and do not agree on how: on a version, a cipher, or on the name of the host",
            "see which versions of TLS the server offers (1.2 and 1.3 are spoken here), and look at its own log",
        ),
        Unshaken::Closed => finding(
            "tls-failed",
            Check::Tls,
            format!("{host} closed the connection in the middle of the handshake"),
            "it speaks no TLS on that port, does not know this name, or something on the way cuts TLS off",
            "write http:// if it is a server without TLS; otherwise look at its own log",
        ),
        Unshaken::Io(error) => finding(
            "tls-failed",
            Check::Tls,
            format!("the connection to {host} broke in the handshake: {error}"),
            "it speaks no TLS on that port, or something on the way cuts TLS off",
            "write http:// if it is a server without TLS; otherwise look at its own log",
        ),
        Unshaken::Silent => finding(
            "tls-silent",
            Check::Tls,
            format!("{host} says nothing to the handshake of TLS within {:.1} s", within.as_secs_f64()),
            "something takes the connection and answers no TLS: it is busy, or speaks another protocol",
            ITS_LOG,
        ),
    }
}

/// What is wrong with the certificate.
fn certificate(problem: CertificateError, host: &str) -> Finding {
    let issuer = untrusted_issuer(&problem);
    let (id, meaning, advice) = match &problem {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => (
            "certificate-expired",
            "no client that checks certificates connects, unless the clock of this machine is wrong".to_owned(),
            "renew the server's certificate; check the clock (date)",
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => (
            "certificate-not-yet-valid",
            "the certificate was made for later, or the clock of this machine is behind".to_owned(),
            "check the clock (date), then the server's certificate",
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => (
            "certificate-name",
            "it is another server, or one that is known by another name".to_owned(),
            "use a name that is in the certificate, or give the server one for this name",
        ),
        problem if is_an_authoritys(problem) => (
            "certificate-of-authority",
            "what openssl req -x509 makes is an authority unless it is told otherwise; --ca does not help".to_owned(),
            "make the server another one, with -addext basicConstraints=critical,CA:FALSE; --ca FILE trusts that",
        ),
        _ => match issuer {
            Some(issuer) if intercepts(&issuer) => (
                "certificate-intercepted",
                format!(
                    "somebody between here and the server opens what is encrypted and closes it again with a certificate \
                     of their own ({issuer}): a proxy, a scanner of viruses, a tool of developers"
                ),
                "--ca FILE with the certificate of that authority, from whoever runs it; or have it leave this host alone",
            ),
            Some(_) => (
                "certificate-untrusted",
                "the authority that has signed it is unknown to this system: the server's own, a company's, or that of \
                 somebody who stands in between; or the server does not send the certificates in between"
                    .to_owned(),
                "--ca FILE with the certificate of that authority, once you know whose it is",
            ),
            None => (
                "certificate-refused",
                "the certificate is not one that a client may take".to_owned(),
                "give the server another certificate",
            ),
        },
    };
    let seen = tls_text(&rustls::Error::InvalidCertificate(problem), host);
    Finding::new(id, Check::ServerCertificate, Phase::Tls, seen, meaning, advice)
}

#[cfg(test)]
mod tests {
    use super::intercepts;

    #[test]
    fn authorities_that_open_connections_are_known_by_their_names() {
        for name in ["Zscaler Root CA (Zscaler Inc.)", "mitmproxy", "Fortinet CA", "PortSwigger CA"] {
            assert!(intercepts(name), "{name}");
        }
        for name in ["R11 (Let's Encrypt)", "DigiCert Global G2", ""] {
            assert!(!intercepts(name), "{name}");
        }
    }
}
