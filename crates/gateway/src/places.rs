//! The servers that there are now: their number is bounded, and all can be ended.
//!
//! Each is charged to an account (`shares`). What is free goes first to an account that waits and holds less than its share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::end::Refusal;
use super::pools::Whose;
use super::shares::{self, Giver, Starts, share};

/// How long a session without a stream is unused before it is ended to make room for another client: longer than a person
/// or a model takes between two requests, mostly.
const UNUSED: Duration = Duration::from_secs(60);

/// A session that has a server for itself.
pub(super) trait Session: Send + Sync {
    /// Since when no request is under way; `None`: some are.
    fn idle_since(&self) -> Option<Instant>;

    /// Whether its client is connected: it has a connection of its own, or a stream open.
    fn is_attended(&self) -> bool;

    /// Ends it in order.
    fn end(&self);
}

/// Places for servers.
pub(super) struct Places {
    most: usize,
    state: Mutex<State>,
    left: Notify,
}

#[derive(Default)]
struct State {
    last: u64,
    taken: BTreeMap<u64, Taken>,
    /// The accounts that wait for a place, one entry for each that waits.
    waiting: Vec<Whose>,
    starts: Starts,
    closed: bool,
}

struct Taken {
    account: Whose,
    /// Ends the server.
    ending: watch::Sender<bool>,
    /// The session that has it for itself, if one has.
    session: Option<Arc<dyn Session>>,
}

/// The place of one server, held until nothing of it is left.
pub(super) struct Place {
    places: Arc<Places>,
    /// They count up from 1.
    pub(super) number: u64,
    /// Ends the server.
    pub(super) ending: watch::Sender<bool>,
}

/// An account that waits for a place, until this is dropped.
pub(super) struct Waiting<'a> {
    places: &'a Places,
    account: &'a Whose,
}

impl State {
    fn held(&self, account: &Whose) -> usize {
        self.taken.values().filter(|taken| taken.account == *account).count()
    }

    /// Whether an account that holds less than its share waits while this one holds its own.
    fn yields(&self, account: &Whose, share: usize) -> bool {
        self.held(account) >= share
            && self.waiting.iter().any(|other| other != account && self.held(other) < share)
    }
}

impl Places {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, state: Mutex::default(), left: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the account may start one more server: it is counted from now on.
    pub(super) fn reserve_start(&self, account: &Whose) -> Result<Instant, Refusal> {
        let now = Instant::now();
        Ok(now + self.lock().starts.reserve(account, now)?)
    }

    pub(super) fn take(self: &Arc<Self>, account: &Whose) -> Result<Place, Refusal> {
        let mut state = self.lock();
        if state.closed {
            return Err(Refusal::Closed);
        }
        if state.taken.len() >= self.most || state.yields(account, share(self.most)) {
            return Err(Refusal::TooMany { limit: self.most });
        }
        state.last += 1;
        let (number, ending) = (state.last, watch::channel(false).0);
        let taken = Taken { account: account.clone(), ending: ending.clone(), session: None };
        state.taken.insert(number, taken);
        Ok(Place { places: self.clone(), number, ending })
    }

    /// Notes that the account waits.
    pub(super) fn waiting<'a>(&'a self, account: &'a Whose) -> Waiting<'a> {
        self.lock().waiting.push(account.clone());
        Waiting { places: self, account }
    }

    /// Whether some were ended, of which something is left: they will give their places.
    pub(super) fn are_leaving(&self) -> bool {
        self.lock().taken.values().any(|taken| *taken.ending.borrow())
    }

    /// Who has to give a place up for one more of this account.
    pub(super) fn giver(&self, account: &Whose) -> Giver {
        let state = self.lock();
        shares::giver(state.taken.values().map(|taken| &taken.account), self.most, account)
    }

    /// Ends the session of these that is unused for the longest time; of an account that holds more than its share, where all
    /// are in use, the server that was started last. Says whether there was one.
    pub(super) fn end_session(&self, giver: &Giver) -> bool {
        let state = self.lock();
        let is_above = matches!(giver, Giver::Other(_));
        let given = state.taken.values().filter(|taken| giver.includes(&taken.account));
        let given: Vec<&Taken> = given.filter(|taken| !*taken.ending.borrow()).collect();
        let unused = given.iter().filter_map(|taken| {
            let session = taken.session.as_ref()?;
            let since = session.idle_since()?;
            (is_above || (since.elapsed() >= UNUSED && !session.is_attended())).then_some((since, taken))
        });
        let longest = unused.min_by_key(|(since, _)| *since).map(|(_, taken)| taken);
        let Some(taken) = longest.or_else(|| given.last().filter(|_| is_above)) else { return false };
        let (session, ending) = (taken.session.clone(), taken.ending.clone());
        drop(state);
        if let Some(session) = session {
            session.end();
        }
        ending.send_replace(true);
        true
    }

    /// Waits until something has happened, from now on, by which there may be a place, or one that is used no more.
    pub(super) fn stirred(&self) -> impl Future<Output = ()> {
        self.left.notified()
    }

    /// Ends all of them, and waits until nothing of them is left. There will be no others.
    pub(super) async fn close(&self) {
        {
            let mut state = self.lock();
            state.closed = true;
            for taken in state.taken.values() {
                taken.ending.send_replace(true);
            }
        }
        loop {
            let left = self.left.notified();
            if self.lock().taken.is_empty() {
                return;
            }
            left.await;
        }
    }
}

impl Place {
    /// The server is this session's alone.
    pub(super) fn set_session(&self, session: Arc<dyn Session>) {
        if let Some(taken) = self.places.lock().taken.get_mut(&self.number) {
            taken.session = Some(session);
        }
    }

    /// To be called when a server may be in use no more.
    pub(super) fn stirs(&self) -> impl Fn() + Send + Sync + 'static {
        let places = self.places.clone();
        move || places.left.notify_waiters()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What a session holds is dropped with nothing locked.
        let taken = self.places.lock().taken.remove(&self.number);
        self.places.left.notify_waiters();
        drop(taken);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.places.lock();
        if let Some(place) = state.waiting.iter().position(|account| account == self.account) {
            state.waiting.swap_remove(place);
        }
        drop(state);
        // Another may be let in now.
        self.places.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_yields_to_one_that_waits_below_its_share_and_to_no_other() {
        let [one, other] = ["one", "other"].map(|name| Whose::Principal(name.into()));
        let places = Places::new(5);
        let ones = [(); 2].map(|()| places.take(&one).ok());
        let others = [(); 2].map(|()| places.take(&other).ok());
        assert!(ones.iter().chain(&others).all(Option::is_some));
        // Both have their share: the last place is for whoever comes.
        let waits = places.waiting(&other);
        assert!(places.take(&one).is_ok());
        drop(others);
        assert!(matches!(places.take(&one), Err(Refusal::TooMany { limit: 5 })));
        drop(waits);
        // It does not yield to itself.
        let waits = places.waiting(&one);
        assert!(places.take(&one).is_ok());
        drop(waits);
    }
}
