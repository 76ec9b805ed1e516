//! Decides which addresses are allowed for documents and endpoints whose URLs come from a third party.
//!
//! A server's metadata names the next document, and a client requests it with the network access of the user's machine. That
//! is how a server could reach what only the user can reach (server-side request forgery, adversarial cases 129 and 130). So a
//! named address must be public, or of the same class as the address of the server itself, which the user has named. Called
//! by `fetch`: for hosts that are addresses before anything is sent, and for names when they are resolved to connect, so that
//! a later DNS response changes nothing. Pure: it resolves nothing.
//!
//! <https://modelcontextprotocol.io/docs/2026-07-28/tutorials/security/security_best_practices>,
//! the [registry of IPv4](https://www.iana.org/assignments/iana-ipv4-special-registry) and
//! [of IPv6](https://www.iana.org/assignments/iana-ipv6-special-registry).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The reach of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressClass {
    /// The internet.
    Public,
    /// A private network.
    Private,
    /// The same link, and the metadata services of clouds, which only the machines that run there may use.
    LinkLocal,
    /// This machine.
    Loopback,
    /// No single machine: reserved, multicast, or documentation.
    Never,
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "a public address",
            Self::Private => "an address in a private network",
            Self::LinkLocal => "a link-local or cloud metadata address",
            Self::Loopback => "an address of this machine",
            Self::Never => "an address that cannot belong to a server",
        })
    }
}

/// The class of an address. An address that embeds another one has the class of that one.
pub(crate) fn class(address: IpAddr) -> AddressClass {
    match address {
        IpAddr::V4(address) => class_v4(address),
        IpAddr::V6(address) => class_v6(address),
    }
}

fn class_v4(address: Ipv4Addr) -> AddressClass {
    match address.octets() {
        [127, ..] => AddressClass::Loopback,
        // Metadata services of Alibaba's cloud, and of Azure, whose address looks public.
        [100, 100, 100, 200] | [168, 63, 129, 16] => AddressClass::LinkLocal,
        [169, 254, ..] => AddressClass::LinkLocal,
        // RFC 1918; RFC 6598; and RFC 2544, which local proxies use for names that they resolve themselves.
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => AddressClass::Private,
        [100, 64..=127, ..] | [198, 18..=19, ..] => AddressClass::Private,
        // This network; protocol assignments; documentation; multicast, reserved and broadcast.
        [0, ..] | [192, 0, 0, _] => AddressClass::Never,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => AddressClass::Never,
        [224..=255, ..] => AddressClass::Never,
        _ => AddressClass::Public,
    }
}

fn class_v6(address: Ipv6Addr) -> AddressClass {
    if let Some(address) = stands_for(address) {
        return class_v4(address);
    }
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressClass::Loopback,
        // Metadata services of Amazon's and Google's clouds.
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254] => {
            AddressClass::LinkLocal
        }
        [0xfe80..=0xfebf, ..] => AddressClass::LinkLocal,
        // Unique local, the former site-local, and a network's own translation prefix (RFC 8215).
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] | [0x64, 0xff9b, 1, ..] => AddressClass::Private,
        // Unspecified, discard-only, multicast, documentation, and protocols (Teredo, which hides its target).
        [0, 0, 0, 0, 0, 0, 0, 0] | [0x100, 0, 0, 0, ..] | [0xff00..=0xffff, ..] => AddressClass::Never,
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] | [0x2001, 0..=0x1ff, ..] => AddressClass::Never,
        _ => AddressClass::Public,
    }
}

/// The IPv4 address that an IPv6 address embeds: mapped and compatible ones (RFC 4291, 2.5.5), translated ones
/// (RFC 6052, 2.1) and tunnels of 6to4 (RFC 3056, 2).
fn stands_for(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let whole = |high: u16, low: u16| Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => Some(whole(high, low)),
        [0, 0, 0, 0, 0xffff, 0, high, low] => Some(whole(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(whole(high, low)),
        [0x2002, high, low, ..] => Some(whole(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g129_an_address_is_checked_by_the_network_that_it_reaches() {
        use AddressClass::{LinkLocal, Loopback, Never, Private, Public};
        for (address, expected) in [
            ("127.0.0.1", Loopback),
            ("127.255.0.9", Loopback),
            ("::1", Loopback),
            ("::ffff:127.0.0.1", Loopback),
            ("10.0.0.1", Private),
            ("172.16.0.1", Private),
            ("172.31.255.255", Private),
            ("172.32.0.1", Public),
            ("192.168.7.7", Private),
            ("100.64.0.1", Private),
            ("100.127.255.255", Private),
            ("100.128.0.1", Public),
            ("198.18.0.7", Private),
            ("fc00::1", Private),
            ("fd00::1", Private),
            ("fec0::1", Private),
            ("64:ff9b:1::a00:1", Private),
            ("::ffff:10.0.0.1", Private),
            ("::10.0.0.1", Private),
            ("::ffff:0:10.0.0.1", Private),
            ("64:ff9b::10.0.0.1", Private),
            ("2002:a00:1::", Private),
            ("169.254.169.254", LinkLocal),
            ("::ffff:169.254.169.254", LinkLocal),
            ("64:ff9b::169.254.169.254", LinkLocal),
            ("fe80::1", LinkLocal),
            ("febf::1", LinkLocal),
            ("fd00:ec2::254", LinkLocal),
            ("fd20:ce::254", LinkLocal),
            ("100.100.100.200", LinkLocal),
            ("168.63.129.16", LinkLocal),
            ("0.0.0.0", Never),
            ("0.1.2.3", Never),
            ("::", Never),
            ("::ffff:0.0.0.0", Never),
            ("224.0.0.1", Never),
            ("240.0.0.1", Never),
            ("255.255.255.255", Never),
            ("192.0.2.1", Never),
            ("198.51.100.1", Never),
            ("203.0.113.1", Never),
            ("192.0.0.192", Never),
            ("ff02::1", Never),
            ("2001:db8::1", Never),
            ("3fff::1", Never),
            ("2001::1", Never),
            ("100::1", Never),
            ("1.1.1.1", Public),
            ("192.0.1.1", Public),
            ("2606:4700::1111", Public),
            ("64:ff9b::1.1.1.1", Public),
            ("2002:101:101::", Public),
            ("2a00::1", Public),
        ] {
            assert_eq!(class(address.parse().unwrap()), expected, "{address}");
        }
    }
}
