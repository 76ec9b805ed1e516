//! A relay between a client and a server over HTTP: it forwards every byte in both directions, and records each with the
//! time of its arrival. The record is independent of the peers' own reports.
//!
//! Used by [`crate::overheard`], which evaluates the record. It does not parse HTTP.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A local port that forwards to a server. It exists until the test's process ends.
#[derive(Debug)]
pub(crate) struct Relay {
    address: SocketAddr,
    connections: Arc<Mutex<Vec<Arc<Mutex<Connection>>>>>,
}

/// The recorded bytes of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connection {
    pub(crate) asked: Said,
    pub(crate) answered: Said,
}

/// One direction of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub(crate) bytes: Vec<u8>,
    /// Pairs of a byte offset and the time from which on bytes arrived there. All connections share one clock, a counter.
    marks: Vec<(usize, u64)>,
    /// The time at which it was closed.
    pub(crate) over: Option<u64>,
}

impl Said {
    /// The arrival time of the byte at this offset. Callers pass only offsets of bytes that have arrived.
    pub(crate) fn when(&self, place: usize) -> u64 {
        let mark = self.marks.partition_point(|(from, _)| *from <= place);
        mark.checked_sub(1).map_or(0, |mark| self.marks[mark].1)
    }
}

/// The clock of all connections of all relays in this process.
static CLOCK: AtomicU64 = AtomicU64::new(1);

fn now() -> u64 {
    CLOCK.fetch_add(1, Ordering::SeqCst)
}

impl Relay {
    /// A relay to this server.
    pub(crate) fn to(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let connections = Arc::new(Mutex::new(Vec::new()));
        let known = connections.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let connection = Arc::new(Mutex::new(Connection::default()));
                lock(&known).push(connection.clone());
                if hand_through(&client, server, &connection).is_err() {
                    // If the server is gone, the client's connection is closed.
                    lock(&connection).asked.over = Some(now());
                }
            }
        });
        Ok(Self { address, connections })
    }

    /// The address for clients.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until every client has closed its connections; returns whether that happened within `time`.
    pub(crate) fn is_left_within(&self, time: Duration) -> bool {
        let begun = Instant::now();
        loop {
            let left = lock(&self.connections).iter().all(|one| lock(one).asked.over.is_some());
            if left || begun.elapsed() > time {
                return left;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// The recorded bytes of each connection until now, in the order in which they were opened.
    pub(crate) fn connections(&self) -> Vec<Connection> {
        lock(&self.connections).iter().map(|connection| lock(connection).clone()).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts to forward both directions.
fn hand_through(client: &TcpStream, server: SocketAddr, received: &Arc<Mutex<Connection>>) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    for stream in [client, &server] {
        stream.set_nodelay(true)?;
    }
    let asked: Direction = |connection| &mut connection.asked;
    let answered: Direction = |connection| &mut connection.answered;
    for (from, to, directions) in [(client, &server, [asked, answered]), (&server, client, [answered, asked])]
    {
        let (from, to, received) = (from.try_clone()?, to.try_clone()?, received.clone());
        thread::spawn(move || copy(from, to, &received, directions));
    }
    Ok(())
}

type Direction = fn(&mut Connection) -> &mut Said;

/// Copies one direction to its end; it is the first one of `directions`.
fn copy(mut from: TcpStream, mut to: TcpStream, received: &Mutex<Connection>, directions: [Direction; 2]) {
    let mut bytes = [0; 16 * 1024];
    let orderly = loop {
        let read = match from.read(&mut bytes) {
            Ok(0) => break true,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break false,
        };
        {
            let mut received = lock(received);
            let said = directions[0](&mut received);
            said.marks.push((said.bytes.len(), now()));
            said.bytes.extend_from_slice(&bytes[..read]);
        }
        if to.write_all(&bytes[..read]).is_err() {
            // The other side has closed the connection before this one.
            directions[1](&mut lock(received)).over.get_or_insert_with(now);
            let _ = from.shutdown(Shutdown::Both);
            break true;
        }
    };
    directions[0](&mut lock(received)).over.get_or_insert_with(now);
    let how = if orderly { Shutdown::Write } else { Shutdown::Both };
    let _ = to.shutdown(how);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A relay to a server that echoes each byte, and closes the connection after `!`.
    fn relay() -> Relay {
        let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = server.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut byte = [0];
            while stream.read(&mut byte).unwrap() == 1 {
                stream.write_all(&byte).unwrap();
                if byte == *b"!" {
                    break;
                }
            }
        });
        Relay::to(address).unwrap()
    }

    #[test]
    fn what_is_said_is_written_down_with_who_closed_first() {
        for (last, by_the_client) in [(b'c', true), (b'!', false)] {
            let relay = relay();
            let mut client = TcpStream::connect(relay.address()).unwrap();
            for byte in [b'a', b'b', last] {
                client.write_all(&[byte]).unwrap();
                let mut answer = [0];
                client.read_exact(&mut answer).unwrap();
                assert_eq!(answer, [byte]);
            }
            if by_the_client {
                client.shutdown(Shutdown::Write).unwrap();
            }
            assert_eq!(client.read(&mut [0]).unwrap(), 0);
            drop(client);
            assert!(relay.is_left_within(Duration::from_secs(60)));
            let connections = relay.connections();
            let [Connection { asked, answered }] = &connections[..] else { panic!("{connections:?}") };
            assert_eq!((&asked.bytes, &answered.bytes), (&vec![b'a', b'b', last], &asked.bytes));
            assert!(asked.when(0) < answered.when(0) && answered.when(0) < asked.when(1));
            assert_eq!(asked.over < answered.over, by_the_client, "{asked:?} {answered:?}");
        }
    }

    #[test]
    fn a_client_that_stays_is_not_taken_for_one_that_has_left() {
        let relay = relay();
        let mut client = TcpStream::connect(relay.address()).unwrap();
        client.write_all(b"a").unwrap();
        client.read_exact(&mut [0]).unwrap();
        assert!(!relay.is_left_within(Duration::ZERO));
    }
}
