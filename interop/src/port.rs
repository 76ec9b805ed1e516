//! Reserves ports for servers that take their port as an argument: foreign servers, which cannot report a port that the
//! system has chosen.
//!
//! Used by [`crate::Listening`], by `cargo xtask`, by the load generator of `bench/` and, as a file, by tests of the library
//! whose server starts after its client. If a test binds port 0 and closes the socket, another process may take the port
//! before the server listens. These ports are outside the range from which the system chooses, and no two claims share one.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::ops::Range;

/// Lower ports include those of well-known services and those that browsers refuse.
const LOWEST: u16 = 20_000;

/// The file in which Linux gives the range from which it chooses ports.
pub(crate) const GIVEN: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// The lowest port that other systems choose (Linux by default); they may choose any port above it.
const GIVEN_FROM: u16 = 32_768;

/// A claimed port. No other claim has it while this value lives; several servers may use it one after the other.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _claim: Claim,
}

/// The claim: a bound socket with the same number of the other protocol, UDP for TCP and TCP for UDP. Only one process can
/// bind it, and the system releases it however that process ends.
#[derive(Debug)]
enum Claim {
    Udp(#[expect(dead_code, reason = "held, and nothing else")] UdpSocket),
    Tcp(#[expect(dead_code, reason = "held, and nothing else")] TcpListener),
}

impl Port {
    /// Claims a TCP port on which no process listens.
    ///
    /// # Errors
    ///
    /// When no port is free.
    pub fn claim() -> io::Result<Self> {
        Self::first(Self::of_tcp)
    }

    /// Claims a UDP port that no process has bound.
    ///
    /// # Errors
    ///
    /// When no port is free.
    pub fn claim_udp() -> io::Result<Self> {
        Self::first(Self::of_udp)
    }

    fn first(of: fn(u16) -> Option<Self>) -> io::Result<Self> {
        let given = std::fs::read_to_string(GIVEN).ok();
        let ports = not_given(given.as_deref().and_then(range));
        // Starts at a random place: a client may still try to reach the previous server on a port that was just released.
        let (count, from) = (u64::from(ports.end - ports.start), RandomState::new().hash_one(()));
        (0..count)
            .filter_map(|step| u16::try_from(from.wrapping_add(step) % count).ok())
            .find_map(|step| of(ports.start + step))
            .ok_or_else(|| io::Error::new(ErrorKind::AddrInUse, format!("no port of {ports:?} is free")))
    }

    /// The number for the server.
    #[must_use]
    pub const fn number(&self) -> u16 {
        self.number
    }

    /// Claims this port, unless it is in use.
    pub(crate) fn of_tcp(number: u16) -> Option<Self> {
        // The claim comes before the check, so that no other process can pass the check for the same port.
        let claim = Claim::Udp(UdpSocket::bind((Ipv4Addr::LOCALHOST, number)).ok()?);
        nobody(|address| TcpListener::bind((address, number)).map(drop))
            .then_some(Self { number, _claim: claim })
    }

    pub(crate) fn of_udp(number: u16) -> Option<Self> {
        let claim = Claim::Tcp(TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?);
        nobody(|address| UdpSocket::bind((address, number)).map(drop))
            .then_some(Self { number, _claim: claim })
    }
}

/// Whether no process uses the port at any address of this machine that a local server may bind.
fn nobody(bind: impl Fn(IpAddr) -> io::Result<()>) -> bool {
    let addresses: [IpAddr; 4] = [
        Ipv4Addr::UNSPECIFIED.into(),
        Ipv4Addr::LOCALHOST.into(),
        Ipv6Addr::UNSPECIFIED.into(),
        Ipv6Addr::LOCALHOST.into(),
    ];
    let free = |address: IpAddr| match bind(address) {
        Ok(()) => true,
        // On a machine without IPv6 no process listens on the IPv6 address.
        Err(error) => address.is_ipv6() && error.kind() != ErrorKind::AddrInUse,
    };
    addresses.into_iter().all(free)
}

/// The first and the last port of the range from which the system chooses.
pub(crate) fn range(line: &str) -> Option<(u16, u16)> {
    let (first, last) = line.trim().split_once(char::is_whitespace)?;
    Some((first.parse().ok()?, last.trim().parse().ok()?))
}

/// Ports that the system does not choose. If it chooses from all ports, a collision with a claimed port is only unlikely.
pub(crate) fn not_given(given: Option<(u16, u16)>) -> Range<u16> {
    /// Many times the number of tests that a machine runs concurrently.
    const ENOUGH: u16 = 1000;
    let (first, last) = given.unwrap_or((GIVEN_FROM, u16::MAX));
    if first.saturating_sub(LOWEST) >= ENOUGH {
        LOWEST..first
    } else if u16::MAX - last >= ENOUGH {
        last.max(LOWEST) + 1..u16::MAX
    } else {
        LOWEST..u16::MAX
    }
}
