//! The memory that clients can make the server hold: the bytes of request bodies and of responses, counted for all
//! clients together and for each of them.
//!
//! A count follows its bytes: [`Account::hold`] returns bytes that are counted until the last slice of them is dropped,
//! also in the buffers of the HTTP library.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::sync::Mutex;
use bytes::Bytes;
use mcpjoin_proto::session::Origin;
use mcpjoin_proto::text::Line;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::transport::subscriber;

/// The kind of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    /// Request bodies, from their first piece until their messages are dropped.
    Bodies,
    /// Responses and events, from their encoding until the client has taken them.
    Responses,
}

/// A limit in bytes, for all clients together and for each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) all: usize,
    pub(super) each: usize,
}

impl Bound {
    /// Raises the limit so that a message of the largest size fits.
    pub(super) fn at_least(self, message: usize) -> Self {
        Self { all: self.all.max(message), each: self.each.max(message) }
    }
}

/// The limit that has no room left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    All(Traffic, usize),
    Each(Traffic, usize),
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::All(traffic, limit) | Self::Each(traffic, limit)) = self;
        let name = match traffic {
            Traffic::Bodies => "max_body_bytes",
            Traffic::Responses => "max_response_bytes",
        };
        let whose = match self {
            Self::All(..) => "all clients together",
            Self::Each(..) => "one client",
        };
        write!(f, "the limit `{name}` of {limit} bytes for {whose} is reached")
    }
}

/// All counted bytes, by kind and by client.
pub(super) struct Memory {
    bodies: Total,
    responses: Total,
    /// One account for each client that holds something, has a session, or has a request in progress.
    accounts: Mutex<HashMap<Client, Weak<Account>>>,
}

struct Total {
    bound: Bound,
    held: AtomicUsize,
    freed: Notify,
}

impl Total {
    fn new(bound: Bound) -> Self {
        Self { bound, held: AtomicUsize::new(0), freed: Notify::new() }
    }
}

/// The client whose bytes are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Client {
    Principal(Box<str>),
    /// The [`subscriber`].
    Address(IpAddr),
    /// Another program's HTTP server names no address.
    Unknown,
}

impl Client {
    fn of(origin: &Origin) -> Self {
        if let Some(principal) = &origin.principal {
            return Self::Principal(principal.clone());
        }
        let address = origin.peer.as_deref().and_then(|peer| peer.parse::<SocketAddr>().ok());
        address.map_or(Self::Unknown, |address| Self::Address(subscriber(address.ip())))
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Principal(principal) => write!(f, "principal {}", Line::of(principal)),
            Self::Address(address) => write!(f, "address {address}"),
            Self::Unknown => f.write_str("without an address"),
        }
    }
}

/// The bytes and sessions of one client.
pub(super) struct Account {
    memory: Arc<Memory>,
    client: Client,
    bodies: AtomicUsize,
    responses: AtomicUsize,
    /// Sessions in the table. Changed under the lock of the table.
    pub(super) sessions: AtomicUsize,
}

/// Bytes that count until this is dropped.
pub(super) struct Charge {
    account: Arc<Account>,
    traffic: Traffic,
    bytes: usize,
}

/// Bytes with the charge that counts them.
struct Held {
    bytes: Bytes,
    _charge: Charge,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Memory {
    pub(super) fn new(bodies: Bound, responses: Bound) -> Arc<Self> {
        Arc::new(Self {
            bodies: Total::new(bodies),
            responses: Total::new(responses),
            accounts: Mutex::default(),
        })
    }

    const fn total(&self, traffic: Traffic) -> &Total {
        match traffic {
            Traffic::Bodies => &self.bodies,
            Traffic::Responses => &self.responses,
        }
    }

    /// The bytes that are counted now, of all clients.
    pub(super) fn held(&self, traffic: Traffic) -> usize {
        self.total(traffic).held.load(Ordering::Relaxed)
    }

    /// The account of the client that a request came from.
    pub(super) fn account(self: &Arc<Self>, origin: &Origin) -> Arc<Account> {
        let client = Client::of(origin);
        let mut accounts = self.accounts.lock();
        if let Some(account) = accounts.get(&client).and_then(Weak::upgrade) {
            return account;
        }
        let account = Arc::new(Account {
            memory: self.clone(),
            client: client.clone(),
            bodies: AtomicUsize::new(0),
            responses: AtomicUsize::new(0),
            sessions: AtomicUsize::new(0),
        });
        accounts.insert(client, Arc::downgrade(&account));
        account
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let mut accounts = self.memory.accounts.lock();
        // A concurrent request may have made a new account.
        if accounts.get(&self.client).is_some_and(|account| account.strong_count() == 0) {
            accounts.remove(&self.client);
        }
    }
}

/// The client.
impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.fmt(f)
    }
}

impl Account {
    /// Counts bytes until the last slice of them is dropped.
    ///
    /// # Errors
    /// When there is no room for them. They are dropped then.
    pub(super) fn hold(self: &Arc<Self>, traffic: Traffic, bytes: Bytes) -> Result<Bytes, Full> {
        let mut charge = Charge::new(self.clone(), traffic);
        charge.grow(bytes.len())?;
        Ok(charge.with(bytes))
    }

    /// Whether more than a quarter of a limit is in use: too much to keep bytes that no reader waits for.
    pub(super) fn is_crowded(&self, traffic: Traffic) -> bool {
        let total = self.memory.total(traffic);
        let Bound { all, each } = total.bound;
        let alone = self.own(traffic).load(Ordering::Relaxed) > each / 4 && self.client != Client::Unknown;
        alone || total.held.load(Ordering::Relaxed) > all / 4
    }

    const fn own(&self, traffic: Traffic) -> &AtomicUsize {
        match traffic {
            Traffic::Bodies => &self.bodies,
            Traffic::Responses => &self.responses,
        }
    }
}

impl Charge {
    pub(super) const fn new(account: Arc<Account>, traffic: Traffic) -> Self {
        Self { account, traffic, bytes: 0 }
    }

    fn counts(&self) -> (&Total, &AtomicUsize) {
        (self.account.memory.total(self.traffic), self.account.own(self.traffic))
    }

    fn grow(&mut self, bytes: usize) -> Result<(), Full> {
        let (total, own) = self.counts();
        let Bound { all, each } = total.bound;
        let held = own.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if held > each && self.account.client != Client::Unknown {
            own.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Full::Each(self.traffic, each));
        }
        if total.held.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) > all {
            total.held.fetch_sub(bytes, Ordering::Relaxed);
            own.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Full::All(self.traffic, all));
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Counts more bytes. Waits at most `patience` until there is room for them.
    pub(super) async fn grow_within(&mut self, bytes: usize, timeout: Duration) -> Result<(), Full> {
        if self.grow(bytes).is_ok() {
            return Ok(());
        }
        let account = self.account.clone();
        let freed = &account.memory.total(self.traffic).freed;
        let mut over = pin!(sleep(timeout));
        loop {
            let mut notified = pin!(freed.notified());
            notified.as_mut().enable();
            let Err(full) = self.grow(bytes) else { return Ok(()) };
            tokio::select! {
                biased;
                () = notified => {}
                () = &mut over => return Err(full),
            }
        }
    }

    /// Returns the bytes with the charge that counts them.
    pub(super) fn with(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Held { bytes, _charge: self })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let (total, own) = self.counts();
        own.fetch_sub(self.bytes, Ordering::Relaxed);
        total.held.fetch_sub(self.bytes, Ordering::Relaxed);
        if self.traffic == Traffic::Bodies {
            total.freed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(all: usize, each: usize) -> Arc<Memory> {
        let bound = Bound { all, each };
        Memory::new(bound, bound)
    }

    fn from(peer: &str, principal: Option<&str>) -> Origin {
        Origin { peer: Some(peer.into()), principal: principal.map(Into::into), ..Origin::new("http") }
    }

    #[test]
    fn each_client_and_all_together_are_held_to_the_byte() {
        let memory = memory(10, 6);
        let [a, b] = ["10.0.0.1:1", "10.0.0.2:1"].map(|peer| memory.account(&from(peer, None)));
        let first = a.hold(Traffic::Responses, Bytes::from_static(b"123456")).expect("room");
        let refused = a.hold(Traffic::Responses, Bytes::from_static(b"1")).expect_err("no room");
        assert_eq!(refused, Full::Each(Traffic::Responses, 6));
        let second = b.hold(Traffic::Responses, Bytes::from_static(b"1234")).expect("room");
        let refused = b.hold(Traffic::Responses, Bytes::from_static(b"1")).expect_err("no room");
        assert_eq!(refused, Full::All(Traffic::Responses, 10));
        assert_eq!((memory.held(Traffic::Responses), memory.held(Traffic::Bodies)), (10, 0));
        let slice = first.slice(5..);
        drop(first);
        assert_eq!(memory.held(Traffic::Responses), 10, "a slice keeps all of it");
        drop((slice, second));
        assert_eq!(memory.held(Traffic::Responses), 0);
    }

    #[test]
    fn a_client_is_its_principal_or_its_network() {
        let memory = memory(10, 6);
        let account = memory.account(&from("10.0.0.1:1", None));
        assert!(Arc::ptr_eq(&account, &memory.account(&from("10.0.0.1:2", None))));
        assert!(Arc::ptr_eq(&account, &memory.account(&from("[::ffff:10.0.0.1]:3", None))));
        assert!(!Arc::ptr_eq(&account, &memory.account(&from("10.0.0.2:1", None))));
        assert!(!Arc::ptr_eq(&account, &memory.account(&from("10.0.0.1:1", Some("a")))));
        drop(account);
        let kept = memory.account(&from("[2001:db8::1]:1", None));
        assert!(Arc::ptr_eq(&kept, &memory.account(&from("[2001:db8::ffff:2]:1", None))));
        assert!(!Arc::ptr_eq(&kept, &memory.account(&from("[2001:db8:0:1::1]:1", None))));
        drop(kept);
        let kept = memory.account(&from("10.0.0.1:1", Some("a")));
        assert!(Arc::ptr_eq(&kept, &memory.account(&from("10.0.0.9:1", Some("a")))));
        drop(kept);
        assert_eq!(memory.accounts.lock().len(), 0, "an account lasts as long as it is used");
    }

    #[test]
    fn who_holds_more_than_a_quarter_is_crowded_and_so_is_everybody_when_all_do() {
        let memory = memory(400, 40);
        let known = memory.account(&from("10.0.0.1:1", None));
        let unknown = memory.account(&Origin::new("http"));
        let hold = |account: &Arc<Account>, bytes| {
            account.hold(Traffic::Responses, vec![0; bytes].into()).expect("room")
        };
        let mut held = vec![hold(&known, 10), hold(&unknown, 11)];
        let crowded = || [&known, &unknown].map(|account| account.is_crowded(Traffic::Responses));
        assert_eq!(crowded(), [false, false], "nobody knows how many clients the unknown are");
        held.push(hold(&known, 1));
        assert_eq!(crowded(), [true, false]);
        held.push(hold(&unknown, 78));
        assert_eq!(crowded(), [true, false], "100 bytes are a quarter");
        held.push(hold(&unknown, 1));
        assert_eq!(crowded(), [true, true]);
    }
}
