//! Ports that stay as a test needs them: on which nobody listens, or that are told to a server before it does.
//!
//! Whoever takes a port from the system, gives it back and goes on with its number may meet anybody there.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt;
use std::net::{SocketAddr, UdpSocket};

use tokio::net::TcpSocket;

#[path = "../../../../interop/src/port.rs"]
#[allow(unreachable_pub, reason = "it is public in the crate that it is part of")]
pub(crate) mod port;

/// A port of this machine that refuses everybody for as long as this lives.
pub(crate) struct Closed {
    pub(crate) address: SocketAddr,
    _held: Held,
}

enum Held {
    Tcp(TcpSocket),
    Udp(UdpSocket),
}

impl Closed {
    pub(crate) fn tcp() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        // A socket that is bound and does not listen has the port, and the system refuses for it. It does not say that the
        // port may be used again, so that it is nobody else's.
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        Self { address: socket.local_addr().unwrap(), _held: Held::Tcp(socket) }
    }

    pub(crate) fn udp() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        // It hears its peer alone, and that is itself: to everybody else the system says that nobody is there.
        socket.connect(address).unwrap();
        Self { address, _held: Held::Udp(socket) }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}
