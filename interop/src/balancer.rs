//! A balancer without stickiness: it gives each request to the next of two servers.
//!
//! Used by the tests of several bridges that are killed. It reads the head of a request and nothing else of it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The largest head of a request: more than that of a sealed session id.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// A local port that leads to two servers. It exists until the test's process ends.
#[derive(Clone, Debug)]
pub struct Balancer {
    address: SocketAddr,
    opened: Arc<AtomicUsize>,
}

impl Balancer {
    /// A balancer before these servers. A request is sent to the other one only if the first refuses the connection.
    ///
    /// # Errors
    ///
    /// When no port is free.
    pub fn before(servers: [SocketAddr; 2]) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let (address, opened) = (listener.local_addr()?, Arc::new(AtomicUsize::new(0)));
        let count = opened.clone();
        thread::spawn(move || {
            for (at, client) in listener.incoming().flatten().enumerate() {
                let opened = count.clone();
                // A client or a server that breaks off ends this connection alone.
                thread::spawn(move || forward(client, servers, at, &opened).unwrap_or_default());
            }
        });
        Ok(Self { address, opened })
    }

    /// The address for clients.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many sessions clients have opened.
    #[must_use]
    pub fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }
}

fn forward(
    mut client: TcpStream,
    servers: [SocketAddr; 2],
    first: usize,
    opened: &AtomicUsize,
) -> io::Result<()> {
    let (mut head, mut piece) = (Vec::new(), [0; 4 * 1024]);
    let end = loop {
        if let Some(end) = head.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end;
        }
        let read = client.read(&mut piece)?;
        if read == 0 || head.len() > MAX_HEAD_BYTES {
            return Ok(());
        }
        head.extend_from_slice(&piece[..read]);
    };
    // Only `initialize` of an older client names neither a session nor a revision.
    let names = String::from_utf8_lossy(&head[..end]).to_ascii_lowercase();
    if names.starts_with("post ")
        && !names.contains("\nmcp-session-id:")
        && !names.contains("\nmcp-protocol-version:")
    {
        opened.fetch_add(1, Ordering::Relaxed);
    }
    for attempt in 0..servers.len() {
        let Ok(mut server) = TcpStream::connect(servers[(first + attempt) % servers.len()]) else { continue };
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        // One request for each connection: the next one goes to the other server.
        let (head, rest) = head.split_at(end);
        server.write_all(&[head, b"\r\nconnection: close", rest].concat())?;
        let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
        let copied = io::copy(&mut server, &mut client);
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
        return copied.map(drop);
    }
    // Both are gone: the client's connection is closed.
    Ok(())
}
