//! Ports with a stable state during a test: without a listener, or given to a server before it listens.
//!
//! A test must not take a port from the system, release it and use its number: another process may get the port.

use std::fmt;
use std::net::{SocketAddr, UdpSocket};

use tokio::net::TcpSocket;

pub use interop::Port;

/// A local port that refuses connections while this value lives.
pub struct Closed {
    pub address: SocketAddr,
    _held: Held,
}

enum Held {
    Tcp(#[expect(dead_code, reason = "held, and nothing else")] TcpSocket),
    Udp(#[expect(dead_code, reason = "held, and nothing else")] UdpSocket),
}

impl Closed {
    pub fn tcp() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        // A socket that is bound but does not listen reserves the port, and the system refuses connections to it. It does not
        // allow address reuse, so that no other socket can get the port.
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        Self { address: socket.local_addr().unwrap(), _held: Held::Tcp(socket) }
    }

    pub fn udp() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        // It is connected to itself, so it receives only its own datagrams: to all others the system reports a closed port.
        socket.connect(address).unwrap();
        Self { address, _held: Held::Udp(socket) }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}
