//! Ports for servers that must be told one: those of other people, which cannot say which one they were given.
//!
//! Used by [`crate::Listening`], by `cargo xtask`, by the load generator of `bench/` and, as a file, by tests of the library
//! whose server comes after its client. A port that the system has just given and taken back may be somebody else's before
//! the server listens on it; these are none of those that the system gives to anybody, and nobody claims one twice.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::ops::Range;

/// Below are those that services are known by, and those that browsers do not connect to.
const LOWEST: u16 = 20_000;

/// Where a system says which ports it gives to whoever names none; Linux does.
pub(crate) const GIVEN: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// The lowest port that other systems give (Linux by itself), all of them from there on.
const GIVEN_FROM: u16 = 32_768;

/// A port that is nobody else's for as long as this lives, for one server after another on it.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _claim: Claim,
}

/// The same number of the protocol that the server does not speak: one process has it, and loses it with its end, whatever
/// that is.
#[derive(Debug)]
enum Claim {
    Udp(#[expect(dead_code, reason = "held, and nothing else")] UdpSocket),
    Tcp(#[expect(dead_code, reason = "held, and nothing else")] TcpListener),
}

impl Port {
    /// Claims one of TCP on which nobody listens.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn claim() -> io::Result<Self> {
        Self::first(Self::of_tcp)
    }

    /// Claims one of UDP that nobody has.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn claim_udp() -> io::Result<Self> {
        Self::first(Self::of_udp)
    }

    fn first(of: fn(u16) -> Option<Self>) -> io::Result<Self> {
        let given = std::fs::read_to_string(GIVEN).ok();
        let ports = not_given(given.as_deref().and_then(range));
        // Anywhere: on the one that was given back last somebody may still look for the server of before.
        let (count, from) = (u64::from(ports.end - ports.start), RandomState::new().hash_one(()));
        (0..count)
            .filter_map(|step| u16::try_from(from.wrapping_add(step) % count).ok())
            .find_map(|step| of(ports.start + step))
            .ok_or_else(|| io::Error::new(ErrorKind::AddrInUse, format!("no port of {ports:?} is free")))
    }

    /// What the server is told.
    #[must_use]
    pub const fn number(&self) -> u16 {
        self.number
    }

    /// This one, unless somebody has it.
    pub(crate) fn of_tcp(number: u16) -> Option<Self> {
        // Before it is looked at: so nobody else comes to the same answer.
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

/// Whether nobody has it at any of this machine's addresses, as far as a local server is concerned.
fn nobody(bind: impl Fn(IpAddr) -> io::Result<()>) -> bool {
    let addresses: [IpAddr; 4] = [
        Ipv4Addr::UNSPECIFIED.into(),
        Ipv4Addr::LOCALHOST.into(),
        Ipv6Addr::UNSPECIFIED.into(),
        Ipv6Addr::LOCALHOST.into(),
    ];
    let free = |address: IpAddr| match bind(address) {
        Ok(()) => true,
        // A machine without IPv6 has nobody who listens on it.
        Err(error) => address.is_ipv6() && error.kind() != ErrorKind::AddrInUse,
    };
    addresses.into_iter().all(free)
}

/// The first and the last of the ports that the system gives.
pub(crate) fn range(line: &str) -> Option<(u16, u16)> {
    let (first, last) = line.trim().split_once(char::is_whitespace)?;
    Some((first.parse().ok()?, last.trim().parse().ok()?))
}

/// Ports that it does not give. Where it gives them all it is only unlikely that it gives the claimed one.
pub(crate) fn not_given(given: Option<(u16, u16)>) -> Range<u16> {
    /// As many as a machine has tests at once, many times.
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
