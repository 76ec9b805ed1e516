//! Which modern clients share servers: those that have the same name and can be asked the same, as far as they may be one.
//!
//! A client of a connection of its own (standard input and output, TCP, Unix sockets, QUIC) shares with nobody. Whoever comes over HTTP
//! has no session in this era, so there is one pool of servers for each principal, where who asks is proved, and else for
//! each address. Called by `modern` for each request. Which server of a pool a request goes to, `lanes` says.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic>

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcpjoin_proto::session::Origin;
use mcpjoin_proto::types::{ClientCapabilities, Implementation};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::Shared;
use super::end::Refusal;
use super::lanes::Pool;
use super::places::{Place, Places};
use super::shares::{self, Giver};
use super::upstream::Wanted;

/// Pools of clients over HTTP at once, and pools of one connection: beyond it the one that was used longest ago, and that
/// nobody uses now, is ended.
const POOLS: usize = 16;
/// How long the place of a server is waited for that was ended: longer than a program is given to leave.
const LEAVING: Duration = Duration::from_secs(30);

/// Whose requests share servers, as far as that is known. Nobody shares a server with others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Whose {
    /// That of one client: the number of its connection.
    Connection(u64),
    /// That of a principal.
    Principal(Box<str>),
    /// That of whoever is at an address.
    Address(IpAddr),
    /// That of whoever is on this machine, as far as it has no address.
    Anybody,
}

impl Whose {
    /// Whose a request is that comes over HTTP.
    pub(super) fn of(origin: &Origin) -> Self {
        if let Some(principal) = &origin.principal {
            return Self::Principal(principal.clone());
        }
        let peer: Option<SocketAddr> = origin.peer.as_ref().and_then(|peer| peer.parse().ok());
        peer.map_or(Self::Anybody, |peer| Self::Address(peer.ip()))
    }

    /// Whether several clients are behind it.
    pub(super) const fn is_shared(&self) -> bool {
        !matches!(self, Self::Connection(_))
    }

    /// Whether both are bounded together.
    fn is_bounded_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Connection(_), _) | (_, Self::Connection(_)) => self == other,
            _ => true,
        }
    }
}

/// What of a client a legacy server can act on. However else a client writes the same, it is at the same servers; a modern
/// server reads it in each request.
#[derive(PartialEq)]
struct Kind {
    /// Its name, where it says one.
    info: Option<Implementation>,
    forms: bool,
    pages: bool,
    sampling: bool,
    sampling_context: bool,
    sampling_tools: bool,
    roots: bool,
}

impl Kind {
    fn of(wanted: &Wanted) -> Self {
        let ClientCapabilities { elicitation, sampling, roots, .. } = &wanted.capabilities;
        let pages = elicitation.as_ref().is_some_and(|elicitation| elicitation.url.is_some());
        Self {
            info: wanted.presents.info.is_some().then(|| wanted.info.clone()),
            // A client that declares neither kind means forms.
            forms: elicitation.as_ref().is_some_and(|elicitation| elicitation.form.is_some() || !pages),
            pages,
            sampling: sampling.is_some(),
            sampling_context: sampling.as_ref().is_some_and(|sampling| sampling.context.is_some()),
            sampling_tools: sampling.as_ref().is_some_and(|sampling| sampling.tools.is_some()),
            roots: roots.is_some(),
        }
    }
}

impl Kind {
    /// Whether a client of this kind may be at the servers of that one: a request need not say the name.
    fn fits(&self, other: &Self) -> bool {
        let asked = |kind: &Self| Self { info: None, ..*kind };
        asked(self) == asked(other) && (self.info.is_none() || self.info == other.info)
    }
}

/// What the first server of a pool has come to.
type Outcome = Option<Result<Arc<Pool>, Refusal>>;

/// The pools that there are.
#[derive(Clone, Default)]
pub(super) struct Pools(Arc<Inner>);

#[derive(Default)]
struct Inner {
    entries: Mutex<Vec<Entry>>,
    /// Connections are counted up from 1.
    connections: AtomicU64,
}

struct Entry {
    kind: Kind,
    whose: Whose,
    /// To whom it is charged.
    account: Whose,
    outcome: watch::Receiver<Outcome>,
    used: Instant,
}

impl Entry {
    fn is_over(&self) -> bool {
        match &*self.outcome.borrow() {
            Some(Ok(pool)) => pool.home.upstream.is_ended(),
            Some(Err(_)) => true,
            None => false,
        }
    }

    fn pool(&self) -> Option<Arc<Pool>> {
        match &*self.outcome.borrow() {
            Some(Ok(pool)) => Some(pool.clone()),
            _ => None,
        }
    }
}

impl Pools {
    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pools of one more connection.
    pub(super) fn own(&self) -> Own {
        Own { pools: self.clone(), number: self.0.connections.fetch_add(1, Ordering::Relaxed) + 1 }
    }

    /// A place for one more server, once it may be started. When there is none left, one is freed, and waited for.
    pub(super) async fn place(
        &self,
        places: &Arc<Places>,
        account: &Whose,
        whose: Option<&Whose>,
    ) -> Result<Place, Refusal> {
        let at = places.reserve_start(account)?;
        if at > Instant::now() {
            sleep_until(at).await;
        }
        match places.take(account) {
            Err(why @ Refusal::TooMany { .. })
                if places.are_leaving() || self.free(places, account, whose) =>
            {
                timeout(LEAVING, self.wait_for_place(places, account, whose)).await.unwrap_or(Err(why))
            }
            taken => taken,
        }
    }

    /// Ends a server for one more of this account: one that nobody uses, else a session that is unused for long. Of an
    /// account that holds more than its share it may be any. But for that no server is ended that a client has for itself over
    /// another connection than this one. Says whether there was one.
    fn free(&self, places: &Places, account: &Whose, whose: Option<&Whose>) -> bool {
        let giver = places.giver(account);
        let is_above = matches!(giver, Giver::Other(_));
        let may = |entry: &Entry| {
            giver.includes(&entry.account)
                && (is_above || entry.whose.is_shared() || Some(&entry.whose) == whose)
        };
        end_unused(&mut self.lock(), may) || places.end_session(&giver)
    }

    /// A place for one more server, however long it takes until there is one. What can be ended for it is ended.
    pub(super) async fn wait_for_place(
        &self,
        places: &Arc<Places>,
        account: &Whose,
        whose: Option<&Whose>,
    ) -> Result<Place, Refusal> {
        let _waiting = places.waiting(account);
        loop {
            let stirred = places.stirred();
            match places.take(account) {
                Err(Refusal::TooMany { .. }) => {
                    if !places.are_leaving() {
                        self.free(places, account, whose);
                    }
                    stirred.await;
                }
                taken => return taken,
            }
        }
    }

    /// Forgets all of them.
    pub(super) fn clear(&self) {
        let entries = std::mem::take(&mut *self.lock());
        drop(entries);
    }

    /// Forgets one that is of no use any more. Its servers end with the last request that they are at.
    pub(super) fn forget(&self, pool: &Arc<Pool>) {
        let is_gone = |entry: &Entry| entry.pool().is_some_and(|known| Arc::ptr_eq(&known, pool));
        self.lock().retain(|entry| !is_gone(entry));
    }

    /// Forgets those of a connection.
    fn take(&self, whose: &Whose) -> Vec<Entry> {
        self.lock().extract_if(.., |entry| entry.whose == *whose).collect()
    }
}

/// The pools of one connection, which are ended when this is dropped.
pub(super) struct Own {
    pools: Pools,
    number: u64,
}

impl Own {
    pub(super) const fn whose(&self) -> Whose {
        Whose::Connection(self.number)
    }

    /// Ends them, and waits until nothing of them is left.
    pub(super) async fn close(&self) {
        for entry in self.pools.take(&self.whose()) {
            if let Some(pool) = entry.pool() {
                pool.close().await;
            }
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        for entry in self.pools.take(&self.whose()) {
            if let Some(pool) = entry.pool() {
                pool.end();
            }
        }
    }
}

/// Ends a pool that nobody uses when there are as many as there may be.
fn make_room(entries: &mut Vec<Entry>, whose: &Whose, account: &Whose) {
    loop {
        let bounded = || entries.iter().filter(|entry| entry.whose.is_bounded_with(whose));
        if bounded().count() < POOLS {
            return;
        }
        let giver = match whose {
            Whose::Connection(_) => Giver::Anyone,
            _ => shares::giver(bounded().map(|entry| &entry.account), POOLS, account),
        };
        if !end_pool(entries, |entry| entry.whose.is_bounded_with(whose) && giver.includes(&entry.account)) {
            return;
        }
    }
}

/// Ends a server that nobody uses now: one that a pool has beyond its first, else that of the pool that was used longest
/// ago. Says whether there was one.
fn end_unused(entries: &mut Vec<Entry>, may: impl Fn(&Entry) -> bool) -> bool {
    entries.retain(|entry| !entry.is_over());
    let lanes = entries.iter().filter(|entry| may(entry)).filter_map(Entry::pool);
    lanes.into_iter().any(|pool| pool.end_idle_lane()) || end_pool(entries, may)
}

fn end_pool(entries: &mut Vec<Entry>, among: impl Fn(&Entry) -> bool) -> bool {
    let is_idle = |entry: &Entry| among(entry) && entry.pool().is_some_and(|pool| pool.is_idle());
    let idle = entries.iter().enumerate().filter(|(_, entry)| is_idle(entry));
    let Some((place, _)) = idle.min_by_key(|(_, entry)| entry.used) else { return false };
    if let Some(pool) = entries.remove(place).pool() {
        pool.end();
    }
    true
}

impl Shared {
    /// The pool of clients with those capabilities, whose first server is started when there is none. Started once, however
    /// many want it.
    pub(super) async fn pool(
        &self,
        wanted: Wanted,
        whose: Whose,
        account: Whose,
    ) -> Result<Arc<Pool>, Refusal> {
        let kind = Kind::of(&wanted);
        let mut outcome = {
            let mut entries = self.pools.lock();
            // One that could not be had, or was ended, is tried again.
            entries.retain(|entry| !entry.is_over());
            let theirs = entries.iter_mut().filter(|entry| entry.whose == whose && kind.fits(&entry.kind));
            match theirs.max_by_key(|entry| entry.used) {
                Some(entry) => {
                    entry.used = Instant::now();
                    entry.outcome.clone()
                }
                None => {
                    make_room(&mut entries, &whose, &account);
                    let outcome = self.start_pool(wanted, whose.clone(), account.clone());
                    let used = Instant::now();
                    entries.push(Entry { kind, whose, account, outcome: outcome.clone(), used });
                    outcome
                }
            }
        };
        let known = outcome.wait_for(Option::is_some).await;
        known.ok().and_then(|known| known.clone()).unwrap_or(Err(Refusal::Closed))
    }

    fn start_pool(&self, wanted: Wanted, whose: Whose, account: Whose) -> watch::Receiver<Outcome> {
        let (told, outcome) = watch::channel(None);
        let (settings, places, spoken) = (self.settings.clone(), self.places.clone(), self.spoken.clone());
        let pools = self.pools.clone();
        tokio::spawn(async move {
            let start = async {
                let place = pools.place(&places, &account, Some(&whose)).await?;
                Pool::start(&settings, place, &spoken, wanted, account, whose.is_shared()).await
            };
            let started = tokio::select! {
                biased;
                started = start => started,
                // The only client that it was for has left.
                () = told.closed() => return,
            };
            drop(pools);
            told.send_replace(Some(started));
        });
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_its_principals_or_that_of_its_address() {
        let of = |peer: Option<&str>, principal: Option<&str>| {
            let (peer, principal) = (peer.map(Into::into), principal.map(Into::into));
            Whose::of(&Origin { peer, principal, ..Origin::new("http") })
        };
        assert_eq!(of(None, None), Whose::Anybody);
        // What is no address is on this machine.
        assert_eq!(of(Some("/run/a.sock"), None), Whose::Anybody);
        assert_eq!(of(Some("192.0.2.1:5"), None), of(Some("192.0.2.1:6"), None));
        assert_ne!(of(Some("192.0.2.1:5"), None), of(Some("192.0.2.2:5"), None));
        assert_ne!(of(Some("[2001:db8::1]:5"), None), of(Some("[2001:db8::2]:5"), None));
        assert_ne!(of(Some("192.0.2.1:5"), Some("a")), of(Some("192.0.2.1:5"), Some("b")));
        assert_eq!(of(Some("192.0.2.1:5"), Some("a")), of(Some("192.0.2.2:5"), Some("a")));
        assert_ne!(of(Some("192.0.2.1:5"), None), of(None, Some("192.0.2.1")));
    }

    #[test]
    fn those_of_a_connection_are_bounded_for_themselves() {
        let (one, two) = (Whose::Connection(1), Whose::Connection(2));
        assert!(one.is_bounded_with(&one) && !one.is_bounded_with(&two));
        assert!(!one.is_bounded_with(&Whose::Anybody) && !Whose::Anybody.is_bounded_with(&one));
        assert!(Whose::Anybody.is_bounded_with(&Whose::Principal("a".into())));
    }
}
