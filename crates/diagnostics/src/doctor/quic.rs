//! A server that listens on QUIC, or our way to it: name, port, certificates, protocol.
//!
//! Called by [`Doctor::examine`](super::Doctor::examine). It calls no tool and subscribes to nothing. What crosses the
//! connection is in `docs/quic.md`.

use std::time::Duration;

use super::course::Course;
use super::opening::Opening;
use super::report::{Check, Finding, Phase};
use super::wire::Wire;
use super::{remote, socket};
use mcpjoin::client::ClientBuilder;
use mcpjoin::internal::host_and_port;
use mcpjoin::link::Link;
use mcpjoin_quic::QuicConnect;
use mcpjoin_quic::endpoint::{Connection, QuicError, QuicErrorKind, Trust, now};

/// How long resolving a name may take: as long as connecting, of which it is a part otherwise.
const RESOLVE: Duration = Duration::from_secs(10);
/// Certificates that run out sooner get a note.
pub(super) const SOON: i64 = 14 * 86_400;

/// Does all of it.
pub(super) async fn examine(
    course: &mut Course,
    connect: QuicConnect,
    client: ClientBuilder,
    slow: Duration,
) {
    course.begin(Phase::Resolve);
    let resolved = match host_and_port(connect.address()) {
        Ok((host, port)) => socket::resolve(course, host, port, RESOLVE).await,
        Err(error) => Err(Box::new(Finding::new(
            "no-address",
            Check::Address,
            Phase::Resolve,
            format!("quic://{}: {error}", connect.address()),
            "it cannot be connected to",
            "write quic://host:port, with an IPv6 address in brackets",
        ))),
    };
    match resolved {
        Ok(detail) => course.end(detail),
        Err(finding) => return course.fail(*finding),
    }
    course.pass(Check::Address);

    course.begin(Phase::Connect);
    let began = course.since;
    let Some((link, connection)) = connected(course, connect).await else { return };

    let wire = Wire::default();
    let opening = Opening { began, child: None, slow };
    course.begin(Phase::Probe);
    match opening.connect(course, &wire, link, client).await {
        Ok(client) => {
            course.lists(&client, &wire).await;
            if course.leave(client).await.is_some() {
                course.end(format!("closed by us, after {} datagrams from it", connection.received()));
            }
            course.heard(&wire.seen());
        }
        Err(error) => course.fail(remote::unopened(course.phase, &error.cause, &wire.seen())),
    }
}

async fn connected(course: &mut Course, connect: QuicConnect) -> Option<(Link, Connection)> {
    let trust = connect.trust().clone();
    let (link, connection) = match connect.linked().await {
        Ok(made) => made,
        Err(error) => {
            reached(course, &error.kind);
            course.fail(unconnected(&error, &trust));
            return None;
        }
    };
    let checks = [
        Check::Certificates,
        Check::Reached,
        Check::ServerCertificate,
        Check::ClientCertificate,
        Check::Protocol,
    ];
    checks.into_iter().for_each(|check| course.pass(check));
    let certificate = connection.peer_certificate();
    let known = match trust {
        Trust::Key(_) => "known by its key",
        Trust::Authorities(_) => "known by an authority",
    };
    let whose = certificate.as_ref().map_or("a certificate that cannot be read", |facts| &facts.subject);
    let until = certificate.as_ref().map_or_else(String::new, |facts| format!(" until {}", facts.ends()));
    let millis = connection.round_trip().as_secs_f64() * 1000.0;
    course.end(format!("{whose}{until}, {known}, at {}, round trip {millis:.1} ms", connection.remote()));
    if let Some(facts) = &certificate {
        let left = facts.not_after - now().0;
        if left < SOON {
            let when = if left < 0 { "has run out on" } else { "runs out on" };
            course.notes.push(format!(
                "its certificate {when} {}: who trusts an authority, and not its key alone, refuses it then",
                facts.ends()
            ));
        }
    }
    course.certificate = certificate;
    Some((link, connection))
}

/// What is known to be in order where the handshake has failed.
pub(super) fn reached(course: &mut Course, kind: &QuicErrorKind) {
    match kind {
        QuicErrorKind::Protocol { .. } | QuicErrorKind::Refused(_) => course.pass(Check::Reached),
        QuicErrorKind::RefusedByPeer { .. } => {
            for check in [Check::Reached, Check::ServerCertificate, Check::Protocol] {
                course.pass(check);
            }
        }
        _ => {}
    }
}

fn unconnected(error: &QuicError, trust: &Trust) -> Finding {
    let (id, check, meaning, advice) = match &error.kind {
        QuicErrorKind::Address | QuicErrorKind::Resolve(_) => (
            "unresolved",
            Check::Address,
            "the name leads nowhere",
            "write quic://host:port, and check the name of the host",
        ),
        QuicErrorKind::Unreached(_) | QuicErrorKind::TimedOut { .. } => (
            "unreached",
            Check::Reached,
            "nobody answers QUIC there: the server does not run, listens on another port or address, or a firewall lets \
             no UDP through",
            "see that the server runs, and that UDP to that port is let through on the way",
        ),
        QuicErrorKind::Protocol { .. } => (
            "other-protocol",
            Check::Protocol,
            "what listens there speaks QUIC, but no MCP over it: HTTP/3, or an orchestrator (orchestra://)",
            "check the port",
        ),
        QuicErrorKind::Refused(_) => match trust {
            Trust::Key(_) => (
                "server-certificate",
                Check::ServerCertificate,
                "it is another server, somebody stands between it and us, or it has a new key, as it has after each \
                 start without --cert and --key",
                "take --pin from where the server says it, as it is started",
            ),
            Trust::Authorities(_) => (
                "server-certificate",
                Check::ServerCertificate,
                "none of the authorities that are trusted has signed its certificate for that name, or it does not count \
                 today",
                "--ca FILE names the authority that has signed it; --pin sha256:HEX takes its key without one",
            ),
        },
        QuicErrorKind::RefusedByPeer { .. } => (
            "client-certificate",
            Check::ClientCertificate,
            "it asks who its clients are, and does not let us in",
            "--cert FILE --key FILE, signed by the authority that it trusts (its --client-ca)",
        ),
        QuicErrorKind::Certificate(_) => (
            "own-certificate",
            Check::Certificates,
            "our own certificate cannot be used",
            "put right what it says",
        ),
        _ => ("not-connected", Check::Reached, "there is no connection to it", remote::ITS_LOG),
    };
    Finding::new(id, check, Phase::Connect, error.to_string(), meaning, advice)
}
