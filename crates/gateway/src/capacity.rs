//! How many servers run at once, and how many of them one account may take.
//!
//! Each server holds a [`Slot`], which is charged to an account: a principal, or the network of an address. While
//! another account waits, an account may hold at most half of the slots. Each account starts servers at a limited rate.
//! A client with neither a principal nor an address (standard input and output, a Unix socket, a link of the program's
//! own) belongs to a user who can start programs here anyway, so its rate is not limited.
//!
//! Used by `pools` and `legacy`, which take slots, and by `upstream`, which keeps one until nothing of its server is
//! left.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use mcpjoin::connection::Context;
use mcpjoin_proto::session::Origin;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::end::Refusal;
use super::rate::Rate;
use mcpjoin::internal::subscriber;

/// Starts of servers a second for one account: a start of a program with a package manager takes 1 to 2 s of processor
/// time.
const STARTS_PER_SECOND: u32 = 4;
/// Starts at once after a pause: clients that open several connections when they begin.
const STARTS_AT_ONCE: u32 = 8;
/// How long a start may be delayed: well below the minute after which usual clients stop waiting. So at most 48 starts
/// of one account are in progress or delayed.
const MAX_START_DELAY: Duration = Duration::from_secs(10);
/// How long a session without a stream must be unused before it may be ended for another client: longer than a person
/// or a model usually takes between two requests.
const SESSION_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The sender of a request, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Caller {
    /// The client that has this connection for itself, by the number of the connection.
    Connection(u64),
    /// An authenticated principal.
    Principal(Box<str>),
    /// The clients at an address.
    Address(IpAddr),
    /// The clients on this machine that have no address.
    Local,
}

impl Caller {
    /// The sender of a request over HTTP.
    pub(super) fn of(origin: &Origin) -> Self {
        if let Some(principal) = &origin.principal {
            return Self::Principal(principal.clone());
        }
        let peer: Option<SocketAddr> = origin.peer.as_ref().and_then(|peer| peer.parse().ok());
        peer.map_or(Self::Local, |peer| Self::Address(peer.ip()))
    }

    /// The sender of the request that a handler answers.
    pub(super) fn of_request(cx: &Context) -> Self {
        cx.origin().map_or(Self::Local, |origin| Self::of(origin))
    }

    /// Whether it may be several clients.
    pub(super) const fn is_shared(&self) -> bool {
        !matches!(self, Self::Connection(_))
    }

    /// The account that its servers are charged to: for an address the network of one subscriber.
    pub(super) fn into_account(self) -> Self {
        match self {
            Self::Address(address) => Self::Address(subscriber(address)),
            caller => caller,
        }
    }
}

/// The accounts whose servers may be ended to make room for one more server of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EvictFrom {
    /// The account itself, because it holds its share.
    Itself(Caller),
    /// An account that holds more than its share.
    AboveShare(Caller),
    Anyone,
}

impl EvictFrom {
    pub(super) fn includes(&self, account: &Caller) -> bool {
        match self {
            Self::Itself(known) | Self::AboveShare(known) => known == account,
            Self::Anyone => true,
        }
    }

    /// Chooses for one more of `wanting`, out of `limit`. `held` gives the account of each item that is held.
    pub(super) fn choose<'a>(held: impl Iterator<Item = &'a Caller>, limit: usize, wanting: &Caller) -> Self {
        let mut counts: HashMap<&Caller, usize> = HashMap::new();
        for account in held {
            *counts.entry(account).or_default() += 1;
        }
        if counts.get(wanting).is_some_and(|count| *count >= fair_share(limit)) {
            return Self::Itself(wanting.clone());
        }
        // At most one account can hold more than half.
        let above = counts.into_iter().find(|(_, count)| *count > fair_share(limit));
        above.map_or(Self::Anyone, |(account, _)| Self::AboveShare(account.clone()))
    }
}

/// How much of `limit` one account may hold while another waits.
const fn fair_share(limit: usize) -> usize {
    if limit < 2 { 1 } else { limit / 2 }
}

/// The starts of each account: a token bucket, stored as the time at which it is full again.
#[derive(Debug, Default)]
struct StartRate(HashMap<Caller, Instant>);

impl StartRate {
    /// Reserves a start, and gives the delay before it.
    ///
    /// # Errors
    /// If the delay would exceed [`MAX_START_DELAY`].
    fn reserve(&mut self, account: &Caller, now: Instant) -> Result<Duration, Refusal> {
        if *account == Caller::Local {
            return Ok(Duration::ZERO);
        }
        self.0.retain(|_, full| *full > now);
        let rate = Rate { period: Duration::from_secs(1) / STARTS_PER_SECOND, burst: STARTS_AT_ONCE };
        let (full, delay) = rate.take(self.0.get(account).copied(), now);
        if delay > MAX_START_DELAY {
            let retry_after = delay - MAX_START_DELAY;
            return Err(Refusal::TooManyStarts {
                limit: STARTS_PER_SECOND,
                burst: STARTS_AT_ONCE,
                retry_after,
            });
        }
        self.0.insert(account.clone(), full);
        Ok(delay)
    }
}

/// A client session that has a server for itself.
pub(super) trait ClientSession: Send + Sync {
    /// Since when no request is in flight; `None` if one is.
    fn idle_since(&self) -> Option<Instant>;

    /// Whether its client is connected: it has a connection of its own, or an open stream.
    fn is_connected(&self) -> bool;

    /// Ends it in order.
    fn end(&self);
}

/// The slots for servers.
pub(super) struct Slots {
    limit: usize,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    last_number: u64,
    taken: BTreeMap<u64, Taken>,
    /// The accounts that wait for a slot, one entry for each waiting request.
    waiting: Vec<Caller>,
    starts: StartRate,
    closed: bool,
}

struct Taken {
    account: Caller,
    /// Ends the server.
    ending: watch::Sender<bool>,
    /// The session that has the server for itself, if one has.
    session: Option<Arc<dyn ClientSession>>,
}

/// The slot of one server, held until nothing of the server is left.
pub(super) struct Slot {
    slots: Arc<Slots>,
    /// Counts up from 1.
    pub(super) number: u64,
    account: Caller,
    /// Ends the server.
    pub(super) ending: watch::Sender<bool>,
}

/// Registers an account as waiting for a slot until this is dropped.
pub(super) struct Waiting<'a> {
    slots: &'a Slots,
    account: &'a Caller,
}

impl State {
    fn held(&self, account: &Caller) -> usize {
        self.taken.values().filter(|taken| taken.account == *account).count()
    }

    /// Whether the account holds its share, and another account that holds less waits.
    fn must_yield(&self, account: &Caller, share: usize) -> bool {
        self.held(account) >= share
            && self.waiting.iter().any(|other| other != account && self.held(other) < share)
    }
}

impl Slots {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, state: Mutex::default(), changed: Notify::new() })
    }

    /// Reserves the start of one more server of the account, and gives the time at which it may start.
    pub(super) fn reserve_start(&self, account: &Caller) -> Result<Instant, Refusal> {
        let now = Instant::now();
        Ok(now + self.state.lock().starts.reserve(account, now)?)
    }

    pub(super) fn take(self: &Arc<Self>, account: &Caller) -> Result<Slot, Refusal> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Refusal::Closed);
        }
        if state.taken.len() >= self.limit || state.must_yield(account, fair_share(self.limit)) {
            return Err(Refusal::TooMany { limit: self.limit });
        }
        state.last_number += 1;
        let (number, ending) = (state.last_number, watch::channel(false).0);
        let taken = Taken { account: account.clone(), ending: ending.clone(), session: None };
        state.taken.insert(number, taken);
        Ok(Slot { slots: self.clone(), number, account: account.clone(), ending })
    }

    /// Whether [`Slots::close`] was called.
    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// The number of servers that run or start.
    pub(super) fn taken(&self) -> usize {
        self.state.lock().taken.len()
    }

    /// The number of sessions that have a server for themselves.
    pub(super) fn sessions(&self) -> usize {
        self.state.lock().taken.values().filter(|taken| taken.session.is_some()).count()
    }

    /// Registers the account as waiting.
    pub(super) fn waiting<'a>(&'a self, account: &'a Caller) -> Waiting<'a> {
        self.state.lock().waiting.push(account.clone());
        Waiting { slots: self, account }
    }

    /// Whether a server is ending, so that its slot becomes free soon.
    pub(super) fn has_ending(&self) -> bool {
        self.state.lock().taken.values().any(|taken| *taken.ending.borrow())
    }

    /// The accounts whose servers may be ended for one more server of this account.
    pub(super) fn evict_from(&self, account: &Caller) -> EvictFrom {
        let state = self.state.lock();
        EvictFrom::choose(state.taken.values().map(|taken| &taken.account), self.limit, account)
    }

    /// Ends the session of these accounts that has been unused for the longest time. If an account holds more than its
    /// share and all its sessions are in use, ends its newest server. Returns whether one was ended.
    pub(super) fn evict_session(&self, from: &EvictFrom) -> bool {
        let state = self.state.lock();
        let is_above = matches!(from, EvictFrom::AboveShare(_));
        let candidates = state.taken.values().filter(|taken| from.includes(&taken.account));
        let candidates: Vec<&Taken> = candidates.filter(|taken| !*taken.ending.borrow()).collect();
        let unused = candidates.iter().filter_map(|taken| {
            let session = taken.session.as_ref()?;
            let since = session.idle_since()?;
            let is_unused = since.elapsed() >= SESSION_IDLE_TIMEOUT && !session.is_connected();
            (is_above || is_unused).then_some((since, taken))
        });
        let longest = unused.min_by_key(|(since, _)| *since).map(|(_, taken)| taken);
        let Some(taken) = longest.or_else(|| candidates.last().filter(|_| is_above)) else { return false };
        let (session, ending) = (taken.session.clone(), taken.ending.clone());
        drop(state);
        if let Some(session) = session {
            session.end();
        }
        ending.send_replace(true);
        true
    }

    /// Waits for the next event after which a slot or an unused server may be available. Counts from this call on.
    pub(super) fn changed(&self) -> impl Future<Output = ()> {
        self.changed.notified()
    }

    /// Ends all servers and waits until nothing of them is left. No slot can be taken from now on.
    pub(super) async fn close(&self) {
        {
            let mut state = self.state.lock();
            state.closed = true;
            for taken in state.taken.values() {
                taken.ending.send_replace(true);
            }
        }
        loop {
            let changed = self.changed.notified();
            if self.state.lock().taken.is_empty() {
                return;
            }
            changed.await;
        }
    }
}

impl Slot {
    /// The principal of the client that the server is for, if it is authenticated.
    pub(super) fn principal(&self) -> Option<&str> {
        match &self.account {
            Caller::Principal(principal) => Some(principal),
            Caller::Connection(_) | Caller::Address(_) | Caller::Local => None,
        }
    }

    /// The server belongs to this session alone.
    pub(super) fn set_session(&self, session: Arc<dyn ClientSession>) {
        if let Some(taken) = self.slots.state.lock().taken.get_mut(&self.number) {
            taken.session = Some(session);
        }
    }

    /// A function to call when a server may have become unused.
    pub(super) fn notifier(&self) -> impl Fn() + Send + Sync + 'static {
        let slots = self.slots.clone();
        move || slots.changed.notify_waiters()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // The session is dropped after the lock is released.
        let taken = self.slots.state.lock().taken.remove(&self.number);
        self.slots.changed.notify_waiters();
        drop(taken);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.slots.state.lock();
        if let Some(index) = state.waiting.iter().position(|account| account == self.account) {
            state.waiting.swap_remove(index);
        }
        drop(state);
        // Another account may take a slot now.
        self.slots.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Caller {
        Caller::Address(text.parse().expect("an address")).into_account()
    }

    #[test]
    fn who_holds_its_share_gives_its_own_and_who_holds_more_gives_to_others() {
        let (a, b, c) = (address("192.0.2.1"), address("192.0.2.2"), address("192.0.2.3"));
        let of = |held: &[&Caller], wanting: &Caller| EvictFrom::choose(held.iter().copied(), 4, wanting);
        assert_eq!(of(&[&a, &b, &c], &a), EvictFrom::Anyone);
        assert_eq!(of(&[&a, &a, &b], &a), EvictFrom::Itself(a.clone()));
        assert_eq!(of(&[&a, &a, &b, &b], &c), EvictFrom::Anyone);
        assert_eq!(of(&[&a, &a, &a, &b], &b), EvictFrom::AboveShare(a.clone()));
        assert_eq!(of(&[&a, &a, &a, &b], &a), EvictFrom::Itself(a.clone()));
        assert_eq!(
            (fair_share(0), fair_share(1), fair_share(2), fair_share(5), fair_share(100)),
            (1, 1, 1, 2, 50)
        );
        assert!(EvictFrom::Anyone.includes(&a) && EvictFrom::AboveShare(a.clone()).includes(&a));
        assert!(!EvictFrom::Itself(a).includes(&b));
    }

    #[test]
    fn the_addresses_of_a_network_are_one_account() {
        assert_eq!(address("2001:db8:0:1::1"), address("2001:db8:0:1:ffff::2"));
        assert_ne!(address("2001:db8:0:1::1"), address("2001:db8:0:2::1"));
        assert_eq!(address("::ffff:192.0.2.1"), address("192.0.2.1"));
        assert_ne!(address("192.0.2.1"), address("192.0.2.2"));
    }

    #[tokio::test(start_paused = true)]
    async fn starts_are_bounded_in_rate_and_wait_a_bounded_time() {
        let (mut starts, now) = (StartRate::default(), Instant::now());
        let (a, b) = (address("192.0.2.1"), address("192.0.2.2"));
        let millis = |outcome: Result<Duration, Refusal>| outcome.map(|wait| wait.as_millis()).ok();
        for _ in 0..8 {
            assert_eq!(millis(starts.reserve(&a, now)), Some(0));
        }
        for number in 1..=40 {
            assert_eq!(millis(starts.reserve(&a, now)), Some(number * 250));
        }
        let refused = starts.reserve(&a, now).expect_err("the 49th");
        assert!(matches!(
            refused,
            Refusal::TooManyStarts { limit: 4, burst: 8, retry_after } if retry_after.as_millis() == 250
        ));
        // Another account does not wait, and a second later there is room for four more.
        assert_eq!(millis(starts.reserve(&b, now)), Some(0));
        let later = now + Duration::from_secs(1);
        assert_eq!((0..5).filter(|_| starts.reserve(&a, later).is_ok()).count(), 4);
        // A full bucket is removed.
        assert_eq!(starts.0.len(), 1);
        assert_eq!(millis(starts.reserve(&b, now + Duration::from_secs(60))), Some(0));
        assert_eq!(starts.0.len(), 1);
        for _ in 0..1000 {
            assert_eq!(millis(starts.reserve(&Caller::Local, now)), Some(0));
        }
    }

    #[test]
    fn an_account_yields_to_one_that_waits_below_its_share_and_to_no_other() {
        let [one, other] = ["one", "other"].map(|name| Caller::Principal(name.into()));
        let slots = Slots::new(5);
        let ones = [(); 2].map(|()| slots.take(&one).ok());
        let others = [(); 2].map(|()| slots.take(&other).ok());
        assert!(ones.iter().chain(&others).all(Option::is_some));
        // Both have their share: the last slot is for either.
        let waits = slots.waiting(&other);
        assert!(slots.take(&one).is_ok());
        drop(others);
        assert!(matches!(slots.take(&one), Err(Refusal::TooMany { limit: 5 })));
        drop(waits);
        // It does not yield to itself.
        let waits = slots.waiting(&one);
        assert!(slots.take(&one).is_ok());
        drop(waits);
    }

    #[test]
    fn a_request_is_its_principals_or_that_of_its_address() {
        let of = |peer: Option<&str>, principal: Option<&str>| {
            let (peer, principal) = (peer.map(Into::into), principal.map(Into::into));
            Caller::of(&Origin { peer, principal, ..Origin::new("http") })
        };
        assert_eq!(of(None, None), Caller::Local);
        // A path is no address.
        assert_eq!(of(Some("/run/a.sock"), None), Caller::Local);
        assert_eq!(of(Some("192.0.2.1:5"), None), of(Some("192.0.2.1:6"), None));
        assert_ne!(of(Some("192.0.2.1:5"), None), of(Some("192.0.2.2:5"), None));
        assert_ne!(of(Some("[2001:db8::1]:5"), None), of(Some("[2001:db8::2]:5"), None));
        assert_ne!(of(Some("192.0.2.1:5"), Some("a")), of(Some("192.0.2.1:5"), Some("b")));
        assert_eq!(of(Some("192.0.2.1:5"), Some("a")), of(Some("192.0.2.2:5"), Some("a")));
        assert_ne!(of(Some("192.0.2.1:5"), None), of(None, Some("192.0.2.1")));
    }
}
