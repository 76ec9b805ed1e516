//! A bad network: a UDP relay that loses, duplicates and reorders datagrams in both directions.
//!
//! It can be cut, and pointed at another server: then its clients have a peer that is gone without a word. What becomes of
//! each datagram is drawn from a seed, which is printed; `MCPJOIN_LOSSY_SEED` gives one, so that a run can be
//! made again with the same draws.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// A datagram that is held back is overtaken by so many others at most.
const OVERTAKEN: u64 = 4;
/// When no others come it goes on after this time.
const HELD: Duration = Duration::from_millis(3);
/// Clients at most: a relay of a test has a few.
const CLIENTS: usize = 64;

/// How bad, in percent of all datagrams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    pub(crate) lost: u64,
    pub(crate) reordered: u64,
    pub(crate) duplicated: u64,
}

impl Rates {
    /// Everything arrives, once and in order.
    pub(crate) const NONE: Self = Self { lost: 0, reordered: 0, duplicated: 0 };
}

/// What has become of the datagrams.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) passed: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) reordered: AtomicU64,
    pub(crate) duplicated: AtomicU64,
}

/// The relay. Gone when this is dropped.
pub(crate) struct Lossy {
    pub(crate) address: SocketAddr,
    pub(crate) seed: u64,
    pub(crate) counts: Arc<Counts>,
    server: watch::Sender<Option<SocketAddr>>,
    _relaying: JoinSet<()>,
}

impl Lossy {
    /// Relays to `server` and back.
    pub(crate) async fn to(server: SocketAddr, rates: Rates) -> Self {
        let given = std::env::var("MCPJOIN_LOSSY_SEED").ok();
        let seed = given.map_or_else(drawn, |seed| seed.parse().expect("MCPJOIN_LOSSY_SEED is a number"));
        println!("MCPJOIN_LOSSY_SEED={seed} makes the same draws again");
        let front = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let address = front.local_addr().unwrap();
        let counts = Arc::new(Counts::default());
        let (server, told) = watch::channel(Some(server));
        let mut relaying = JoinSet::new();
        relaying.spawn(relay(front, told, rates, seed, counts.clone()));
        Self { address, seed, counts, server, _relaying: relaying }
    }

    /// From now on to another server, which knows nothing of what was before, or to none.
    pub(crate) fn point(&self, server: Option<SocketAddr>) {
        self.server.send_replace(server);
    }
}

/// A seed that is another one each time.
fn drawn() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_secs() ^ u64::from(now.subsec_nanos()) << 20 ^ u64::from(std::process::id())
}

async fn relay(
    front: Arc<UdpSocket>,
    server: watch::Receiver<Option<SocketAddr>>,
    rates: Rates,
    seed: u64,
    counts: Arc<Counts>,
) {
    let mut backs: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
    let mut answers = JoinSet::new();
    let mut way = Way::new(rates, seed, counts.clone());
    let mut buffer = vec![0; 65_536];
    loop {
        let received = match way.held.is_empty() {
            true => Some(front.recv_from(&mut buffer).await),
            false => timeout(HELD, front.recv_from(&mut buffer)).await.ok(),
        };
        match received {
            Some(Ok((length, client))) => {
                if !backs.contains_key(&client) && backs.len() < CLIENTS {
                    let back = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
                    let other = Way::new(rates, !seed ^ backs.len() as u64, counts.clone());
                    answers.spawn(answer(back.clone(), server.clone(), front.clone(), client, other));
                    backs.insert(client, back);
                }
                way.pass(buffer[..length].to_vec(), client);
            }
            // The far end is away: its port is closed.
            Some(Err(_)) => {}
            None => way.release(),
        }
        let server = *server.borrow();
        for (datagram, client) in way.ready.drain(..) {
            if let (Some(back), Some(server)) = (backs.get(&client), server) {
                let _ = back.send_to(&datagram, server).await;
            }
        }
    }
}

async fn answer(
    back: Arc<UdpSocket>,
    server: watch::Receiver<Option<SocketAddr>>,
    front: Arc<UdpSocket>,
    client: SocketAddr,
    mut way: Way,
) {
    let mut buffer = vec![0; 65_536];
    loop {
        let received = match way.held.is_empty() {
            true => Some(back.recv_from(&mut buffer).await),
            false => timeout(HELD, back.recv_from(&mut buffer)).await.ok(),
        };
        match received {
            Some(Ok((length, from))) if *server.borrow() == Some(from) => {
                way.pass(buffer[..length].to_vec(), client);
            }
            Some(_) => {}
            None => way.release(),
        }
        for (datagram, client) in way.ready.drain(..) {
            let _ = front.send_to(&datagram, client).await;
        }
    }
}

/// One direction.
struct Way {
    rates: Rates,
    state: u64,
    counts: Arc<Counts>,
    /// Datagrams that others are to overtake, and how many more.
    held: Vec<(u64, Vec<u8>, SocketAddr)>,
    ready: Vec<(Vec<u8>, SocketAddr)>,
}

impl Way {
    fn new(rates: Rates, seed: u64, counts: Arc<Counts>) -> Self {
        Self { rates, state: seed, counts, held: Vec::new(), ready: Vec::new() }
    }

    /// SplitMix64: any seed is a good one.
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
        // All three are drawn for each, so that the draws depend on nothing but the number of datagrams.
        let (lost, duplicated) = (self.happens(self.rates.lost), self.happens(self.rates.duplicated));
        let reordered = self.happens(self.rates.reordered).then(|| 1 + self.state % OVERTAKEN);
        let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
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
