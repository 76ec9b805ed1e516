//! A server that listens on a TCP port or a Unix socket, or our way to it: name, file, connection, and who answers.
//!
//! Called by [`Doctor::examine`](super::Doctor::examine). One connection is made and no other, since many such servers
//! serve one client and end.

use std::io;
use std::net::IpAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::time::timeout;

use super::course::Course;
use super::environment::within;
use super::opening::Opening;
use super::remote;
use super::report::{Check, Finding, Phase};
use super::wire::Wire;
use mcpjoin::client::ClientBuilder;
use mcpjoin::internal::{SocketPlace, host_and_port};
use mcpjoin::link::{SocketConnect, SocketError, SocketErrorKind};

/// Does all of it.
pub(super) async fn examine(
    course: &mut Course,
    connect: SocketConnect,
    client: ClientBuilder,
    slow: Duration,
) {
    course.begin(Phase::Resolve);
    let place = connect.place();
    let resolved = match &place {
        SocketPlace::Tcp(address) => match host_and_port(address) {
            Ok((host, port)) => resolve(course, host, port, connect.within()).await,
            Err(error) => Err(Box::new(Finding::new(
                "no-address",
                Check::Address,
                Phase::Resolve,
                format!("tcp://{address}: {error}"),
                "it cannot be connected to",
                "write tcp://host:port, with an IPv6 address in brackets",
            ))),
        },
        SocketPlace::Unix(path) => file(path, connect.within()).await,
    };
    match resolved {
        Ok(detail) => course.end(detail),
        Err(finding) => return course.fail(*finding),
    }
    course.pass(Check::Address);

    course.begin(Phase::Connect);
    let began = course.since;
    let link = match connect.await {
        Ok(link) => link,
        Err(error) => return course.fail(unconnected(&place, &error)),
    };
    course.pass(Check::Reached);
    course.end("connected".into());

    let wire = Wire::default();
    let opening = Opening { began, child: None, slow };
    course.begin(Phase::Probe);
    match opening.connect(course, &wire, link, client).await {
        Ok(client) => {
            course.pass(Check::Protocol);
            course.lists(&client, &wire).await;
            if course.leave(client).await.is_some() {
                course.end("closed by us".into());
            }
            course.heard(&wire.seen());
        }
        Err(error) => {
            let mut finding = remote::unopened(course.phase, &error.cause, &wire.seen());
            let scheme = match finding.id {
                "speaks-http" => Some("http"),
                "speaks-tls" => Some("https"),
                _ => None,
            };
            if let (Some(scheme), SocketPlace::Tcp(address)) = (scheme, &place) {
                finding.advice = format!("write {scheme}://{address}/mcp, or the path that the server says");
            }
            if finding.check == Check::Opening {
                course.not_run([Check::Protocol], "nothing was said that would show it");
            }
            course.fail(finding);
        }
    }
}

/// From a name to its addresses.
pub(super) async fn resolve(
    course: &mut Course,
    host: &str,
    port: u16,
    within: Duration,
) -> Result<String, Box<Finding>> {
    let unresolved = |seen: String, meaning: &str, advice: &str| {
        Box::new(Finding::new("unresolved", Check::Address, Phase::Resolve, seen, meaning, advice))
    };
    let found: Vec<_> = match timeout(within, lookup_host((host, port))).await {
        Ok(Ok(found)) => found.collect(),
        Ok(Err(error)) => {
            return Err(unresolved(
                format!("the name {host} was not resolved: {error}"),
                "the name leads nowhere: it is misspelled, or known to a name server that this machine does not ask \
                 (a VPN, a container's network)",
                "check the name of the host",
            ));
        }
        Err(_) => {
            return Err(unresolved(
                format!("the name {host} was not resolved within {:.1} s", within.as_secs_f64()),
                "no name server answers",
                "look at the name servers of this machine (/etc/resolv.conf)",
            ));
        }
    };
    if found.is_empty() {
        return Err(unresolved(
            format!("the name {host} has no address"),
            "the name leads nowhere",
            "check the name of the host",
        ));
    }
    let detail = if host.parse::<IpAddr>().is_ok() {
        "an address, no name".to_owned()
    } else {
        let mut addresses: Vec<String> = found.iter().map(|address| address.ip().to_string()).collect();
        addresses.dedup();
        addresses.join(", ")
    };
    course.addresses = found;
    Ok(detail)
}

/// Whether there is a socket.
async fn file(path: &Path, bound: Duration) -> Result<String, Box<Finding>> {
    let name = path.display();
    let finding = |id, seen: String, meaning: &str, advice: &str| {
        Err(Box::new(Finding::new(id, Check::Address, Phase::Resolve, seen, meaning, advice)))
    };
    let place = path.to_owned();
    let Some(looked) = within(bound, move || std::fs::metadata(place)).await else {
        return finding(
            "unreached",
            format!("{name} could not be looked at within {:.1} s", bound.as_secs_f64()),
            "the folder lies on a disk or a machine that does not answer",
            "look at where the folder is mounted from",
        );
    };
    match looked {
        Ok(found) if found.file_type().is_socket() => Ok("a socket".to_owned()),
        Ok(found) => finding(
            "not-a-socket",
            format!("{name} is {}, no socket", if found.is_dir() { "a directory" } else { "a file" }),
            "no server listens there",
            "name the socket that the server makes",
        ),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => finding(
            "not-permitted",
            format!("{name} cannot be looked at: {error}"),
            "a directory on the way is closed to this user",
            "run this as the user that the server belongs to, or open the directory",
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => finding(
            "socket-missing",
            format!("there is nothing at {name}"),
            "the server does not run, or listens elsewhere",
            "start the server, and check the path; it counts from this directory",
        ),
        Err(error) => finding(
            "socket-missing",
            format!("{name} cannot be looked at: {error}"),
            "no server can be reached there",
            "check the path",
        ),
    }
}

fn unconnected(place: &SocketPlace, error: &SocketError) -> Finding {
    let system = match &error.kind {
        SocketErrorKind::System(error) => Some(error.kind()),
        SocketErrorKind::Unreached(attempts) => {
            let kinds = || attempts.iter().filter_map(|attempt| attempt.error.as_ref()).map(io::Error::kind);
            let refused = kinds().find(|kind| *kind == io::ErrorKind::ConnectionRefused);
            refused.or_else(|| kinds().next())
        }
        _ => None,
    };
    let is_file = matches!(place, SocketPlace::Unix(_));
    let (id, meaning, advice) = match (&error.kind, system) {
        (_, Some(io::ErrorKind::ConnectionRefused)) if is_file => (
            "refused",
            "the file is what an earlier server has left: nobody listens there now",
            "start the server",
        ),
        (_, Some(io::ErrorKind::ConnectionRefused)) => (
            "refused",
            "nothing listens on that port: the server does not run, or listens elsewhere",
            "start the server, and check the port",
        ),
        (_, Some(io::ErrorKind::PermissionDenied)) => (
            "not-permitted",
            "the socket is not for this user",
            "run this as the user that the server belongs to, or let it make a socket for others",
        ),
        (SocketErrorKind::TimedOut { .. }, _) => (
            "unreached",
            "nobody answers: the machine is off, the address is another's, or a firewall swallows the packets",
            "check the host, and the firewalls on the way",
        ),
        (SocketErrorKind::NotAccepted { .. }, _) => (
            "not-accepted",
            "a server listens and accepts nobody: it hangs, or serves one client at a time",
            "look at what the server does, and start it again",
        ),
        _ => (
            "unreached",
            "there is no way to it from here",
            "check the host, and the network of this machine",
        ),
    };
    Finding::new(id, Check::Reached, Phase::Connect, error.to_string(), meaning, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_is_not_for_us_is_told_from_one_that_nobody_serves() {
        let place = SocketPlace::Unix("/run/x.sock".into());
        for (kind, id) in [
            (io::ErrorKind::PermissionDenied, "not-permitted"),
            (io::ErrorKind::ConnectionRefused, "refused"),
            (io::ErrorKind::Other, "unreached"),
        ] {
            let error = SocketError::new("unix:/run/x.sock", SocketErrorKind::System(kind.into()));
            let finding = unconnected(&place, &error);
            assert_eq!((finding.id, finding.check), (id, Check::Reached));
        }
        let after = Duration::from_secs(10);
        let kind = SocketErrorKind::NotAccepted { after };
        let error = SocketError::new("unix:/run/x.sock", kind);
        assert_eq!(unconnected(&place, &error).id, "not-accepted");
    }
}
