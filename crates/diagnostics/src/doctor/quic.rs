//! A server that listens on QUIC: its name, the connection with both certificates, the protocol.
//!
//! Called by [`Doctor::examine`](super::Doctor::examine). It calls no tool and subscribes to nothing. The messages on the
//! connection are in `docs/quic.md`.

use std::time::Duration;

use super::examination::Examination;
use super::findings::*;
use super::report::{Check, Finding, Phase};
use super::{diagnosis, socket};
use mcpjoin::client::ClientBuilder;
use mcpjoin::transport::Link;
use mcpjoin_quic::QuicConnect;
use mcpjoin_quic::endpoint::{CertificateFacts, Connection, QuicError, QuicErrorKind, Trust, now};

/// How long resolving a name may take: as long as connecting, of which it is usually a part.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);
/// A certificate that expires within this many seconds gets a note: 14 days.
const EXPIRY_NOTICE_SECONDS: i64 = 14 * 86_400;

/// Runs all phases.
pub(super) async fn examine(exam: &mut Examination, connect: QuicConnect, client: ClientBuilder) {
    exam.begin(Phase::Resolve);
    let resolved = socket::resolve_address(exam, "quic", connect.address(), RESOLVE_TIMEOUT).await;
    if !socket::end_resolve(exam, resolved) {
        return;
    }

    exam.begin(Phase::Connect);
    let began = exam.since;
    let Some((link, connection)) = connected(exam, connect).await else { return };

    match exam.open(link, client, began, None).await {
        Ok(client) => {
            exam.read_lists(&client).await;
            if exam.disconnect(client).await {
                exam.end(format!("closed by mcpjoin, after {} datagrams from it", connection.received()));
            }
            exam.add_violations();
        }
        Err(cause) => {
            let observed = exam.observer.observed();
            exam.fail(diagnosis::remote_not_opened(exam.phase, &cause, &observed));
        }
    }
}

async fn connected(exam: &mut Examination, connect: QuicConnect) -> Option<(Link, Connection)> {
    let trust = connect.trust().clone();
    let (link, connection) = match connect.linked().await {
        Ok(made) => made,
        Err(error) => {
            pass_before_failure(exam, &error.kind);
            exam.fail(not_connected(&error, &trust));
            return None;
        }
    };
    exam.pass([
        Check::Certificates,
        Check::Reached,
        Check::ServerCertificate,
        Check::ClientCertificate,
        Check::Protocol,
    ]);
    let certificate = connection.peer_certificate();
    let known = match trust {
        Trust::Key(_) => "verified by its key",
        Trust::Authorities(_) => "verified by an authority",
    };
    let whose = certificate.as_ref().map_or("a certificate that cannot be read", |facts| &facts.subject);
    let until = certificate.as_ref().map_or_else(String::new, |facts| format!(" until {}", facts.ends()));
    let millis = connection.round_trip().as_secs_f64() * 1000.0;
    exam.end(format!("{whose}{until}, {known}, at {}, round trip {millis:.1} ms", connection.remote()));
    if let Some(facts) = certificate.as_ref().filter(|facts| expires_soon(facts)) {
        let when = if facts.not_after < now().0 { "expired on" } else { "expires on" };
        exam.report.notes.push(format!(
            "its certificate {when} {}: clients that trust an authority, and not its key, then reject it",
            facts.ends()
        ));
    }
    exam.report.certificate = certificate;
    Some((link, connection))
}

/// Whether a certificate expires within 14 days, or has expired.
pub(super) fn expires_soon(facts: &CertificateFacts) -> bool {
    facts.not_after - now().0 < EXPIRY_NOTICE_SECONDS
}

/// Passes the checks that come before the failure of a handshake.
pub(super) fn pass_before_failure(exam: &mut Examination, kind: &QuicErrorKind) {
    match kind {
        QuicErrorKind::Protocol { .. } | QuicErrorKind::Refused(_) => exam.pass([Check::Reached]),
        QuicErrorKind::RefusedByPeer { .. } => {
            exam.pass([Check::Reached, Check::ServerCertificate, Check::Protocol]);
        }
        _ => {}
    }
}

fn not_connected(error: &QuicError, trust: &Trust) -> Finding {
    let kind = match (&error.kind, trust) {
        (QuicErrorKind::Address | QuicErrorKind::Resolve(_), _) => QUIC_UNRESOLVED,
        (QuicErrorKind::Unreached(_) | QuicErrorKind::TimedOut { .. }, _) => NO_QUIC_ANSWER,
        (QuicErrorKind::Protocol { .. }, _) => OTHER_PROTOCOL,
        (QuicErrorKind::Refused(_), Trust::Key(_)) => KEY_UNKNOWN,
        (QuicErrorKind::Refused(_), Trust::Authorities(_)) => SIGNER_UNKNOWN,
        (QuicErrorKind::RefusedByPeer { .. }, _) => CLIENT_REFUSED,
        (QuicErrorKind::Certificate(_), _) => OWN_CERTIFICATE,
        _ => NOT_CONNECTED,
    };
    kind.at(Phase::Connect, error.to_string())
}
