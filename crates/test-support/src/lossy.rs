//! A bad network: a UDP relay that loses, duplicates, reorders and delays datagrams in both directions, drops those above
//! its MTU, can forget the ports of its clients, can be cut, and can be redirected to another server: then the peer of its
//! clients has disappeared without a message.
//!
//! It uses tokio's time, so that with virtual time in a test, long delays cost nothing.
//!
//! The fate of each datagram is drawn from a seed, which is printed; `MCPJOIN_LOSSY_SEED` sets the seed, to repeat a run
//! with the same draws.
#![allow(clippy::print_stdout, reason = "a test says with which seed it can be made again")]

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// The largest number of datagrams that overtake one that is held back.
const OVERTAKEN: u64 = 4;
/// A datagram that is held back continues after this time even if no others arrive.
const HELD: Duration = Duration::from_millis(3);
/// The largest number of clients: the relay of a test has a few.
const CLIENTS: usize = 64;

/// The rates of faults, in percent of all datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    pub lost: u64,
    pub reordered: u64,
    pub duplicated: u64,
}

impl Rates {
    pub const NONE: Self = Self { lost: 0, reordered: 0, duplicated: 0 };
}

/// The delay and the MTU of the path.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// In each direction.
    pub delay: Duration,
    /// The size of the longest datagram that passes, in bytes.
    pub mtu: usize,
}

impl Default for Path {
    fn default() -> Self {
        Self { delay: Duration::ZERO, mtu: 65_536 }
    }
}

/// The state that a test can change while the relay runs.
#[derive(Default)]
struct Switches {
    /// The server; with `None` all datagrams are dropped.
    server: Mutex<Option<SocketAddr>>,
    cut: AtomicBool,
    /// Whether every other datagram of the clients is lost.
    halved: AtomicBool,
    /// How often all clients have got a new port.
    moved: AtomicU64,
    /// The first datagrams of the clients.
    recorded: Mutex<Vec<Vec<u8>>>,
}

/// The number of recorded datagrams.
const RECORDED: usize = 16;

/// The counts of datagrams.
#[derive(Debug, Default)]
pub struct Counts {
    pub too_long: AtomicU64,
    /// Datagrams of clients, including those that were lost.
    pub of_clients: AtomicU64,
    pub passed: AtomicU64,
    pub lost: AtomicU64,
    pub reordered: AtomicU64,
    pub duplicated: AtomicU64,
}

/// The relay. It ends when this value is dropped.
pub struct Lossy {
    pub address: SocketAddr,
    pub seed: u64,
    pub counts: Arc<Counts>,
    switches: Arc<Switches>,
    relaying: JoinSet<()>,
}

impl Lossy {
    /// Starts a relay to `server`.
    pub async fn to(server: SocketAddr, rates: Rates) -> Self {
        Self::over(server, rates, Path::default()).await
    }

    /// The same, with a delay and an MTU.
    pub async fn over(server: SocketAddr, rates: Rates, path: Path) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        Self::before(front, server, rates, path)
    }

    /// Starts a relay without faults at an address that another socket used until now.
    pub async fn at(address: SocketAddr, server: SocketAddr) -> Self {
        let front = loop {
            match UdpSocket::bind(address).await {
                Ok(front) => break front,
                // The previous user has ended, but a separate task closes its socket.
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{error}"),
            }
            tokio::task::yield_now().await;
        };
        Self::before(front, server, Rates::NONE, Path::default())
    }

    fn before(front: UdpSocket, server: SocketAddr, rates: Rates, path: Path) -> Self {
        let given = std::env::var("MCPJOIN_LOSSY_SEED").ok();
        let seed = given.map_or_else(drawn, |seed| seed.parse().expect("MCPJOIN_LOSSY_SEED is a number"));
        println!("MCPJOIN_LOSSY_SEED={seed} makes the same draws again");
        let front = Arc::new(front);
        let address = front.local_addr().unwrap();
        let counts = Arc::new(Counts::default());
        let switches = Arc::new(Switches { server: Mutex::new(Some(server)), ..Switches::default() });
        let mut relaying = JoinSet::new();
        let way = Way::new(rates, path, seed, counts.clone());
        relaying.spawn(relay(front, way, switches.clone()));
        Self { address, seed, counts, switches, relaying }
    }

    /// Closes the port without a message to the peers.
    pub async fn close(mut self) {
        self.relaying.shutdown().await;
    }

    /// Drops all datagrams, or forwards them again.
    pub fn cut(&self, cut: bool) {
        self.switches.cut.store(cut, Ordering::SeqCst);
    }

    /// Loses every other datagram of the clients.
    pub fn halve(&self, halved: bool) {
        self.switches.halved.store(halved, Ordering::SeqCst);
    }

    /// Gives every client a new port, and drops datagrams to the old one: like a router that has lost its NAT table.
    pub fn rebind(&self) {
        self.switches.moved.fetch_add(1, Ordering::SeqCst);
    }

    /// Redirects to another server, which knows nothing of the earlier datagrams, or to none.
    pub fn point(&self, server: Option<SocketAddr>) {
        *self.switches.server.lock().unwrap() = server;
        self.rebind();
    }

    /// The first datagrams of the clients.
    pub fn recorded(&self) -> Vec<Vec<u8>> {
        self.switches.recorded.lock().unwrap().clone()
    }
}

/// A seed that differs in each run.
fn drawn() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_secs() ^ u64::from(now.subsec_nanos()) << 20 ^ u64::from(std::process::id())
}

async fn relay(front: Arc<UdpSocket>, mut way: Way, switches: Arc<Switches>) {
    let mut backs: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
    let mut answers = JoinSet::new();
    let (mut moved, mut made) = (0, 0);
    let mut buffer = vec![0; 65_536];
    loop {
        let received = way.next(front.recv_from(&mut buffer)).await;
        if switches.moved.load(Ordering::SeqCst) != moved {
            moved = switches.moved.load(Ordering::SeqCst);
            backs.clear();
            answers.shutdown().await;
        }
        // An error means that the peer's port is closed.
        if let Some(Ok((length, client))) = received {
            let server = *switches.server.lock().unwrap();
            if let Some(server) = server
                && !backs.contains_key(&client)
                && backs.len() < CLIENTS
            {
                let back = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
                back.connect(server).await.unwrap();
                let other = Way::new(way.rates, way.path, !way.seed ^ made, way.counts.clone());
                made += 1;
                answers.spawn(answer(back.clone(), front.clone(), client, other, switches.clone()));
                backs.insert(client, back);
            }
            let before = way.counts.of_clients.fetch_add(1, Ordering::Relaxed);
            {
                let mut recorded = switches.recorded.lock().unwrap();
                if recorded.len() < RECORDED {
                    recorded.push(buffer[..length].to_vec());
                }
            }
            let halved = switches.halved.load(Ordering::SeqCst) && before % 2 == 1;
            if !halved && !switches.cut.load(Ordering::SeqCst) {
                way.pass(buffer[..length].to_vec(), client);
            }
        }
        for (datagram, client) in way.take() {
            if let Some(back) = backs.get(&client) {
                let _ = back.send(&datagram).await;
            }
        }
    }
}

async fn answer(
    back: Arc<UdpSocket>,
    front: Arc<UdpSocket>,
    client: SocketAddr,
    mut way: Way,
    switches: Arc<Switches>,
) {
    let mut buffer = vec![0; 65_536];
    loop {
        if let Some(Ok(length)) = way.next(back.recv(&mut buffer)).await
            && !switches.cut.load(Ordering::SeqCst)
        {
            way.pass(buffer[..length].to_vec(), client);
        }
        for (datagram, client) in way.take() {
            let _ = front.send_to(&datagram, client).await;
        }
    }
}

/// One direction.
struct Way {
    rates: Rates,
    path: Path,
    seed: u64,
    state: u64,
    counts: Arc<Counts>,
    /// Datagrams that are held back, and how many others must still overtake each.
    held: Vec<(u64, Vec<u8>, SocketAddr)>,
    held_until: Instant,
    ready: Vec<(Vec<u8>, SocketAddr)>,
    /// Delayed datagrams, with the time of arrival of each.
    travelling: VecDeque<(Instant, Vec<u8>, SocketAddr)>,
}

impl Way {
    fn new(rates: Rates, path: Path, seed: u64, counts: Arc<Counts>) -> Self {
        let (held, ready, travelling) = (Vec::new(), Vec::new(), VecDeque::new());
        let held_until = Instant::now();
        Self { rates, path, seed, state: seed, counts, held, held_until, ready, travelling }
    }

    /// The next datagram, or `None` when a held or delayed one is due first.
    async fn next<T>(&self, receive: impl Future<Output = io::Result<T>>) -> Option<io::Result<T>> {
        let held = (!self.held.is_empty()).then_some(self.held_until);
        let travelling = self.travelling.front().map(|(at, ..)| *at);
        match held.into_iter().chain(travelling).min() {
            Some(at) => timeout_at(at, receive).await.ok(),
            None => Some(receive.await),
        }
    }

    /// The datagrams that are due for delivery.
    fn take(&mut self) -> Vec<(Vec<u8>, SocketAddr)> {
        let now = Instant::now();
        if now >= self.held_until {
            self.release();
        }
        let at = now + self.path.delay;
        self.travelling.extend(self.ready.drain(..).map(|(datagram, client)| (at, datagram, client)));
        let mut arrived = Vec::new();
        while self.travelling.front().is_some_and(|(at, ..)| *at <= now)
            && let Some((_, datagram, client)) = self.travelling.pop_front()
        {
            arrived.push((datagram, client));
        }
        arrived
    }

    /// SplitMix64: it works with any seed.
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    fn happens(&mut self, percent: u64) -> bool {
        self.draw() % 100 < percent
    }

    fn pass(&mut self, datagram: Vec<u8>, client: SocketAddr) {
        // All three are drawn for each datagram, so that the draws depend only on the number of datagrams.
        let (lost, duplicated) = (self.happens(self.rates.lost), self.happens(self.rates.duplicated));
        let reordered = self.happens(self.rates.reordered).then(|| 1 + self.state % OVERTAKEN);
        let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        if datagram.len() > self.path.mtu {
            count(&self.counts.too_long);
            return;
        }
        if lost {
            count(&self.counts.lost);
            return;
        }
        if duplicated {
            count(&self.counts.duplicated);
            self.ready.push((datagram.clone(), client));
        }
        if let Some(others) = reordered {
            count(&self.counts.reordered);
            self.held.push((others, datagram, client));
            self.held_until = Instant::now() + HELD;
            return;
        }
        count(&self.counts.passed);
        self.ready.push((datagram, client));
        for (others, _, _) in &mut self.held {
            *others -= 1;
        }
        let (held, over): (Vec<_>, Vec<_>) = self.held.drain(..).partition(|(others, _, _)| *others > 0);
        self.held = held;
        self.ready.extend(over.into_iter().map(|(_, datagram, client)| (datagram, client)));
    }

    fn release(&mut self) {
        let held = self.held.drain(..).map(|(_, datagram, client)| (datagram, client));
        self.ready.extend(held);
    }
}
