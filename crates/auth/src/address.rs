//! Which addresses a document or an endpoint may be at that somebody else has named.
//!
//! A server says in its metadata where the next document is, and whoever follows asks there with the reach of the user's
//! machine: that is how servers come to what only the user can reach (server-side request forgery, adversarial cases 129
//! and 130). So what is named must be at a public address, or at one of the kind that the server itself has, which the
//! user has named. Called by `fetch`, for hosts that are addresses before anything is sent and for names when they are
//! resolved to connect, so that no later answer counts. Pure: it resolves nothing.
//!
//! <https://modelcontextprotocol.io/docs/2026-07-28/tutorials/security/security_best_practices>,
//! the [registry of IPv4](https://www.iana.org/assignments/iana-ipv4-special-registry) and
//! [of IPv6](https://www.iana.org/assignments/iana-ipv6-special-registry).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Who can be reached at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressClass {
    /// Everybody.
    Public,
    /// A network that is not the internet.
    Private,
    /// The same wire, and what clouds tell the machines that run in them, which is for nobody else.
    LinkLocal,
    /// This machine.
    Loopback,
    /// Nobody: not one machine, not in use, or not to be seen outside of documents.
    Never,
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "a public address",
            Self::Private => "an address in a private network",
            Self::LinkLocal => {
                "a link-local address, or one at which a cloud tells its machines their secrets"
            }
            Self::Loopback => "an address of this machine",
            Self::Never => "an address at which no server can be",
        })
    }
}

/// The class of an address. One that stands for another is judged by that one.
pub(crate) fn class(address: IpAddr) -> AddressClass {
    match address {
        IpAddr::V4(address) => class_v4(address),
        IpAddr::V6(address) => class_v6(address),
    }
}

fn class_v4(address: Ipv4Addr) -> AddressClass {
    match address.octets() {
        [127, ..] => AddressClass::Loopback,
        // What clouds tell their machines: Alibaba's, and Azure's, which looks like anybody's.
        [100, 100, 100, 200] | [168, 63, 129, 16] => AddressClass::LinkLocal,
        [169, 254, ..] => AddressClass::LinkLocal,
        // RFC 1918; RFC 6598; and RFC 2544, which proxies on this machine use for names that they resolve themselves.
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => AddressClass::Private,
        [100, 64..=127, ..] | [198, 18..=19, ..] => AddressClass::Private,
        // This network; protocols; documentation; multicast, reserved and broadcast.
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
        // What Amazon's and Google's clouds tell their machines.
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254] => {
            AddressClass::LinkLocal
        }
        [0xfe80..=0xfebf, ..] => AddressClass::LinkLocal,
        // Unique local, the site-local of old, and a translation that a network has for itself (RFC 8215).
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] | [0x64, 0xff9b, 1, ..] => AddressClass::Private,
        // Nothing, discarded, multicast, documentation, and protocols (Teredo, which hides whom it leads to).
        [0, 0, 0, 0, 0, 0, 0, 0] | [0x100, 0, 0, 0, ..] | [0xff00..=0xffff, ..] => AddressClass::Never,
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] | [0x2001, 0..=0x1ff, ..] => AddressClass::Never,
        _ => AddressClass::Public,
    }
}

/// The address of IPv4 that one of IPv6 is another way to write or leads to: mapped and compatible ones (RFC 4291, 2.5.5),
/// translated ones (RFC 6052, 2.1) and tunnels of 6to4 (RFC 3056, 2).
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
    fn g129_an_address_is_judged_by_whom_it_reaches() {
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
