//! Connections to this machine itself: 127.0.0.1, ::1, and what `localhost` means.
//!
//! Used by `environment`. It listens on a free port for a moment, and connects to itself.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use tokio::time::timeout;

use super::faults::{
    LOCALHOST_ELSEWHERE, LOCALHOST_NOWHERE, LOCALHOST_UNKNOWN, LOCALHOST_UNREACHABLE, LOOPBACK_V4,
    LOOPBACK_V6,
};
use super::{CheckResults, EnvironmentCheck as Check, World};

/// A connection to oneself, and a name of one's own, take no longer.
const LOOPBACK_TIMEOUT: Duration = Duration::from_secs(3);

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// Whether an address of this machine can be reached.
#[derive(PartialEq, Eq)]
enum Reached {
    Yes,
    /// This machine has no such address.
    NoAddress,
    No(String),
}

pub(super) async fn examine(world: &World) -> CheckResults {
    let mut results = CheckResults::default();
    let names = timeout(LOOPBACK_TIMEOUT, world.resolve("localhost"));
    let (v4, v6, names) = tokio::join!(reach(world, V4), reach(world, V6), names);
    let mut shown = Vec::new();
    for (check, fault, address, reached) in
        [(Check::LoopbackV4, LOOPBACK_V4, V4, &v4), (Check::LoopbackV6, LOOPBACK_V6, V6, &v6)]
    {
        match reached {
            Reached::Yes => {
                results.pass(check);
                shown.push(address.to_string());
            }
            Reached::NoAddress if address == V6 => results.not_run(check, "this machine has no IPv6"),
            Reached::NoAddress => {
                let advice = ("advice", "bring up the loopback interface: ip link set lo up");
                results.fail(fault.found(format!("this machine has no {address}"), &[advice]));
            }
            Reached::No(why) => {
                let advice = ("advice", "look at the rules of the firewall for the interface lo");
                let seen = format!("a connection from {address} to itself {why}");
                results.fail(fault.found(seen, &[advice]));
            }
        }
    }
    let unresolved = match names {
        Ok(Ok(addresses)) => {
            let works =
                |address: &IpAddr| if address.is_ipv4() { v4 == Reached::Yes } else { v6 == Reached::Yes };
            shown.push(localhost(&mut results, addresses, works));
            results.detail = shown.join(", ");
            return results;
        }
        Ok(Err(error)) => format!("localhost was not resolved: {error}"),
        Err(_) => format!("localhost was not resolved within {} s", LOOPBACK_TIMEOUT.as_secs()),
    };
    results.fail(LOCALHOST_UNKNOWN.found(unresolved, &[]));
    results
}

/// The addresses of `localhost`, shown. `works`: whether this machine can be reached there.
fn localhost(
    results: &mut CheckResults,
    mut addresses: Vec<IpAddr>,
    works: impl Fn(&IpAddr) -> bool,
) -> String {
    let mut seen = std::collections::HashSet::new();
    addresses.retain(|address| seen.insert(*address));
    let list = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if let Some(elsewhere) = addresses.iter().find(|address| !address.is_loopback()) {
        let seen = format!("localhost is {list}, and {elsewhere} is not this machine's own");
        results.fail(LOCALHOST_ELSEWHERE.found(seen, &[]));
    } else if addresses.is_empty() {
        results.fail(LOCALHOST_NOWHERE.found("localhost has no address", &[]));
    } else if !addresses.iter().any(&works) && (works(&V4) || works(&V6)) {
        let seen = format!("localhost is {list}, and this machine cannot be reached there");
        results.fail(LOCALHOST_UNREACHABLE.found(seen, &[]));
    } else {
        results.pass(Check::Localhost);
        if addresses.len() > 1 && addresses[0].is_ipv6() {
            results.notes.push(format!(
                "localhost is {list}, IPv6 first: a server that listens on 127.0.0.1 alone is not found by clients that \
                 try one address only"
            ));
        }
    }
    format!("localhost is {list}")
}

async fn reach(world: &World, address: IpAddr) -> Reached {
    match timeout(LOOPBACK_TIMEOUT, world.loopback(address)).await {
        Ok(Ok(())) => Reached::Yes,
        Ok(Err(error)) => match error.kind() {
            // EAFNOSUPPORT has no kind of its own.
            io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported => Reached::NoAddress,
            _ if error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error()) => {
                Reached::NoAddress
            }
            _ => Reached::No(format!("failed: {error}")),
        },
        Err(_) => Reached::No(format!("was not made within {} s", LOOPBACK_TIMEOUT.as_secs())),
    }
}
