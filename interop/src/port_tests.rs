//! Tests of [`crate::port`]. They have a separate file, because other tests include `port.rs` as a module.
#![allow(clippy::unwrap_used, reason = "what is not as it should be fails the test")]

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};

use crate::port::{GIVEN, Port, not_given, range};

#[test]
fn a_port_is_claimed_once_and_for_as_long_as_it_is_held() {
    type Of = fn(u16) -> Option<Port>;
    for (claim, of) in
        [(Port::claim as fn() -> io::Result<Port>, Port::of_tcp as Of), (Port::claim_udp, Port::of_udp)]
    {
        let port = claim().unwrap();
        let number = port.number();
        assert!(Port::of_tcp(number).is_none() && Port::of_udp(number).is_none());
        drop(port);
        assert_eq!(of(number).unwrap().number(), number);
    }
}

#[test]
fn a_claimed_port_can_be_bound_again_and_again() {
    let (tcp, udp) = (Port::claim().unwrap(), Port::claim_udp().unwrap());
    for address in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST] {
        drop(TcpListener::bind((address, tcp.number())).unwrap());
        drop(UdpSocket::bind((address, udp.number())).unwrap());
    }
}

#[test]
fn a_port_in_use_is_not_free() {
    let addresses: [IpAddr; 4] = [
        Ipv4Addr::LOCALHOST.into(),
        Ipv4Addr::UNSPECIFIED.into(),
        Ipv6Addr::LOCALHOST.into(),
        Ipv6Addr::UNSPECIFIED.into(),
    ];
    for address in addresses {
        let port = Port::claim().unwrap();
        let number = port.number();
        let listener = TcpListener::bind((address, number));
        drop(port);
        // Without IPv6 no process listens on the IPv6 address.
        assert_eq!(Port::of_tcp(number).is_some(), listener.is_err() && address.is_ipv6(), "{address}");
    }
}

#[test]
fn the_system_gives_the_port_to_no_other_process() {
    assert_eq!(range("32768\t60999\n"), Some((32_768, 60_999)));
    assert_eq!(range("nonsense"), None);
    assert_eq!(not_given(None), 20_000..32_768);
    assert_eq!(not_given(Some((32_768, 60_999))), 20_000..32_768);
    assert_eq!(not_given(Some((10_000, 60_999))), 61_000..65_535);
    assert_eq!(not_given(Some((1024, 8_000))), 20_001..65_535);
    assert_eq!(not_given(Some((1024, 65_535))), 20_000..65_535);
    if let Some((first, last)) = std::fs::read_to_string(GIVEN).ok().as_deref().and_then(range)
        && (first, last) != (1024, u16::MAX)
    {
        let number = Port::claim().unwrap().number();
        assert!(!(first..=last).contains(&number), "{number}");
    }
}
