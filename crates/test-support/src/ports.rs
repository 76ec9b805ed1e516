//! Ports that stay as a test needs them: on which nobody listens, or that are told to a server before it does.
//!
//! Whoever takes a port from the system, gives it back and goes on with its number may meet anybody there.

use std::fmt;
use std::net::{SocketAddr, UdpSocket};

use tokio::net::TcpSocket;

pub use interop::Port;

/// A port of this machine that refuses everybody for as long as this lives.
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
        // A socket that is bound and does not listen has the port, and the system refuses for it. It does not say that the
        // port may be used again, so that it is nobody else's.
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        Self { address: socket.local_addr().unwrap(), _held: Held::Tcp(socket) }
    }

    pub fn udp() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        // It hears its peer alone, and that is itself: to everybody else the system says that nobody is there.
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
