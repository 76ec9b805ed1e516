//! A server that listens on a TCP port or a Unix socket: its name or file, the connection, the protocol.
//!
//! Called by [`Doctor::examine`](super::Doctor::examine). It makes a single connection, because many such servers serve one
//! client and exit.

use std::io;
use std::net::IpAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::time::timeout;

use super::diagnosis;
use super::environment::within;
use super::examination::{Examination, seconds};
use super::findings::*;
use super::report::{Check, Finding, Phase};
use mcpjoin::client::ClientBuilder;
use mcpjoin::internal::{SocketPlace, host_and_port};
use mcpjoin::transport::{SocketConnect, SocketError, SocketErrorKind};

/// Runs all phases.
pub(super) async fn examine(exam: &mut Examination, connect: SocketConnect, client: ClientBuilder) {
    exam.begin(Phase::Resolve);
    let place = connect.place();
    let resolved = match &place {
        SocketPlace::Tcp(address) => resolve_address(exam, "tcp", address, connect.within()).await,
        SocketPlace::Unix(path) => find_socket(path, connect.within()).await,
    };
    if !end_resolve(exam, resolved) {
        return;
    }

    exam.begin(Phase::Connect);
    let began = exam.since;
    let link = match connect.await {
        Ok(link) => link,
        Err(error) => return exam.fail(not_connected(&place, &error)),
    };
    exam.pass([Check::Reached]);
    exam.end("connected");

    match exam.open(link, client, began, None).await {
        Ok(client) => {
            exam.pass([Check::Protocol]);
            exam.read_lists(&client).await;
            if exam.disconnect(client).await {
                exam.end("closed by mcpjoin");
            }
            exam.add_violations();
        }
        Err(cause) => {
            let observed = exam.observer.observed();
            let mut finding = diagnosis::remote_not_opened(exam.phase, &cause, &observed);
            let scheme = match finding.id {
                "speaks-http" => Some("http"),
                "speaks-tls" => Some("https"),
                _ => None,
            };
            if let (Some(scheme), SocketPlace::Tcp(address)) = (scheme, &place) {
                finding.advice = format!("use {scheme}://{address}/mcp, or the path in the server's output");
            }
            if finding.check == Check::Opening {
                exam.not_run([Check::Protocol], "no message was sent that would show it");
            }
            exam.fail(finding);
        }
    }
}

/// Resolves an address `host:port`, as it is written in a URL with this scheme.
///
/// # Errors
/// The finding of an address that is invalid, or of a name without one.
pub(super) async fn resolve_address(
    exam: &mut Examination,
    scheme: &str,
    address: &str,
    within: Duration,
) -> Result<String, Finding> {
    match host_and_port(address) {
        Ok((host, port)) => resolve(exam, host, port, within).await,
        Err(error) => {
            let seen = format!("{scheme}://{address}: {error}");
            Err(NO_HOST_AND_PORT.with(Phase::Resolve, seen, &[("scheme", scheme)]))
        }
    }
}

/// Ends the phase with the detail or the finding. Returns whether the examination goes on.
pub(super) fn end_resolve(exam: &mut Examination, resolved: Result<String, Finding>) -> bool {
    let is_resolved = resolved.is_ok();
    match resolved {
        Ok(detail) => {
            exam.end(detail);
            exam.pass([Check::Address]);
        }
        Err(finding) => exam.fail(finding),
    }
    is_resolved
}

/// Resolves a name. Returns its addresses, as they are shown.
///
/// # Errors
/// The finding of a name without an address.
pub(super) async fn resolve(
    exam: &mut Examination,
    host: &str,
    port: u16,
    within: Duration,
) -> Result<String, Finding> {
    let addresses: Vec<_> = match timeout(within, lookup_host((host, port))).await {
        Ok(Ok(addresses)) => addresses.collect(),
        Ok(Err(error)) => {
            let seen = format!("the name {host} cannot be resolved: {error}");
            return Err(NAME_UNKNOWN.at(Phase::Resolve, seen));
        }
        Err(_) => {
            let seen = format!("the name {host} was not resolved within {}", seconds(within));
            return Err(NO_NAME_SERVER.at(Phase::Resolve, seen));
        }
    };
    if addresses.is_empty() {
        return Err(NAME_WITHOUT_ADDRESS.at(Phase::Resolve, format!("the name {host} has no address")));
    }
    let mut shown: Vec<String> = addresses.iter().map(|address| address.ip().to_string()).collect();
    shown.dedup();
    exam.report.addresses = addresses;
    Ok(if host.parse::<IpAddr>().is_ok() { "an address, not a name".to_owned() } else { shown.join(", ") })
}

/// Whether there is a Unix socket.
async fn find_socket(path: &Path, timeout: Duration) -> Result<String, Finding> {
    let (name, place) = (path.display(), path.to_owned());
    let (kind, seen) = match within(timeout, move || std::fs::metadata(place)).await {
        Some(Ok(found)) if found.file_type().is_socket() => return Ok("a socket".to_owned()),
        Some(Ok(found)) => {
            let what = if found.is_dir() { "a directory" } else { "a file" };
            (NOT_A_SOCKET, format!("{name} is {what}, not a socket"))
        }
        Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
            (SOCKET_MISSING, format!("{name} does not exist"))
        }
        Some(Err(error)) => {
            let is_closed = error.kind() == io::ErrorKind::PermissionDenied;
            let kind = if is_closed { FOLDER_CLOSED } else { SOCKET_UNREADABLE };
            (kind, format!("{name} cannot be read: {error}"))
        }
        None => (FOLDER_SILENT, format!("{name} could not be read within {}", seconds(timeout))),
    };
    Err(kind.at(Phase::Resolve, seen))
}

fn not_connected(place: &SocketPlace, error: &SocketError) -> Finding {
    let system = match &error.kind {
        SocketErrorKind::System(error) => Some(error.kind()),
        SocketErrorKind::Unreached(attempts) => {
            let kinds = || attempts.iter().filter_map(|attempt| attempt.error.as_ref()).map(io::Error::kind);
            let refused = kinds().find(|kind| *kind == io::ErrorKind::ConnectionRefused);
            refused.or_else(|| kinds().next())
        }
        _ => None,
    };
    let kind = match (&error.kind, system) {
        (_, Some(io::ErrorKind::ConnectionRefused)) => match place {
            SocketPlace::Unix(_) => SOCKET_STALE,
            SocketPlace::Tcp(_) => PORT_REFUSED,
        },
        (_, Some(io::ErrorKind::PermissionDenied)) => SOCKET_NOT_PERMITTED,
        (SocketErrorKind::TimedOut { .. }, _) => NO_ANSWER,
        (SocketErrorKind::NotAccepted { .. }, _) => NOT_ACCEPTED,
        _ => NO_ROUTE,
    };
    kind.at(Phase::Connect, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_without_permission_is_not_taken_for_a_stale_one() {
        let place = SocketPlace::Unix("/run/x.sock".into());
        for (kind, id) in [
            (io::ErrorKind::PermissionDenied, "not-permitted"),
            (io::ErrorKind::ConnectionRefused, "refused"),
            (io::ErrorKind::Other, "unreached"),
        ] {
            let error = SocketError::new("unix:/run/x.sock", SocketErrorKind::System(kind.into()));
            let finding = not_connected(&place, &error);
            assert_eq!((finding.id, finding.check), (id, Check::Reached));
        }
        let after = Duration::from_secs(10);
        let kind = SocketErrorKind::NotAccepted { after };
        let error = SocketError::new("unix:/run/x.sock", kind);
        assert_eq!(not_connected(&place, &error).id, "not-accepted");
    }
}
