//! Connections to this machine itself: 127.0.0.1, ::1, and what `localhost` means.
//!
//! Called by `environment`. It listens on a free port for a moment, and connects to itself.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use tokio::time::timeout;

use super::{EnvironmentCheck as Check, Looked, World};

/// A connection to oneself, and a name of one's own, take no longer.
const BOUND: Duration = Duration::from_secs(3);

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// How an address of this machine answers.
#[derive(PartialEq, Eq)]
enum Answer {
    Yes,
    /// This machine has no such address.
    Absent,
    No(String),
}

pub(super) async fn examine(world: &World) -> Looked {
    let mut looked = Looked::default();
    let names = timeout(BOUND, world.resolve("localhost"));
    let (v4, v6, names) = tokio::join!(answer(world, V4), answer(world, V6), names);
    let meaning = "a server on this machine and its client cannot reach each other over HTTP, and no sign-in can come back";
    let mut shown = Vec::new();
    for (check, id, address, answer) in
        [(Check::LoopbackV4, "loopback-ipv4", V4, &v4), (Check::LoopbackV6, "loopback-ipv6", V6, &v6)]
    {
        match answer {
            Answer::Yes => {
                looked.pass(check);
                shown.push(address.to_string());
            }
            Answer::Absent if address == V6 => looked.not_run(check, "this machine has no IPv6"),
            Answer::Absent => {
                let seen = format!("this machine has no {address}");
                looked.fail(check, id, seen, meaning, "bring up the loopback interface: ip link set lo up");
            }
            Answer::No(why) => {
                let seen = format!("a connection from {address} to itself {why}");
                let advice = "look at the rules of the firewall for the interface lo";
                looked.fail(check, id, seen, meaning, advice);
            }
        }
    }
    let advice = "write the line `127.0.0.1 localhost` into /etc/hosts";
    match names {
        Err(_) => {
            let seen = format!("localhost was not resolved within {} s", BOUND.as_secs());
            looked.fail(Check::Localhost, "localhost-unknown", seen, meaning, advice);
        }
        Ok(Err(error)) => {
            let seen = format!("localhost was not resolved: {error}");
            looked.fail(Check::Localhost, "localhost-unknown", seen, meaning, advice);
        }
        Ok(Ok(addresses)) => localhost(&mut looked, &addresses, &v4, &v6, &mut shown),
    }
    looked.detail = shown.join(", ");
    looked
}

/// What `localhost` leads to.
fn localhost(looked: &mut Looked, addresses: &[IpAddr], v4: &Answer, v6: &Answer, shown: &mut Vec<String>) {
    let mut known: Vec<IpAddr> = Vec::new();
    addresses.iter().for_each(|address| {
        if !known.contains(address) {
            known.push(*address);
        }
    });
    let list: Vec<String> = known.iter().map(ToString::to_string).collect();
    let list = list.join(", ");
    let works = |address: &IpAddr| match address {
        IpAddr::V4(_) => *v4 == Answer::Yes,
        IpAddr::V6(_) => *v6 == Answer::Yes,
    };
    let advice = "write the lines `127.0.0.1 localhost` and, with IPv6, `::1 localhost` into /etc/hosts";
    if let Some(elsewhere) = known.iter().find(|address| !address.is_loopback()) {
        looked.fail(
            Check::Localhost,
            "localhost-elsewhere",
            format!("localhost is {list}, and {elsewhere} is not this machine's own"),
            "what is sent to a server on this machine goes to another one",
            advice,
        );
    } else if known.is_empty() {
        looked.fail(
            Check::Localhost,
            "localhost-unknown",
            "localhost has no address",
            "it leads nowhere",
            advice,
        );
    } else if !known.iter().any(works) && (*v4 == Answer::Yes || *v6 == Answer::Yes) {
        looked.fail(
            Check::Localhost,
            "localhost-unreachable",
            format!("localhost is {list}, and this machine cannot be reached there"),
            "a URL with localhost does not reach a server on this machine, one with the address that works does",
            advice,
        );
    } else {
        looked.pass(Check::Localhost);
        if known.first().is_some_and(IpAddr::is_ipv6) && known.len() > 1 {
            looked.notes.push(format!(
                "localhost is {list}, IPv6 first: a server that listens on 127.0.0.1 alone is not found by clients that \
                 try one address only"
            ));
        }
    }
    shown.push(format!("localhost is {list}"));
}

async fn answer(world: &World, address: IpAddr) -> Answer {
    match timeout(BOUND, world.loopback(address)).await {
        Ok(Ok(())) => Answer::Yes,
        Ok(Err(error)) => match error.kind() {
            // EAFNOSUPPORT has no kind of its own.
            io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported => Answer::Absent,
            _ if error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error()) => {
                Answer::Absent
            }
            _ => Answer::No(format!("failed: {error}")),
        },
        Err(_) => Answer::No(format!("was not made within {} s", BOUND.as_secs())),
    }
}
