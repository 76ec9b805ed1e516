//! The servers of one pool: the first, to which everything goes, and more where a call must not share one.
//!
//! A legacy server that asks something does not say in which of the calls under way. So where clients share a pool that can be
//! asked something, each such call has a server for itself until it is over: the first one where that is free, or another
//! of the pool, or one that is started for it, as long as there may be more. Beyond that calls wait for their turn, in the
//! order in which they came. A call that waits for its client to come back with an answer keeps its server. Whatever can be
//! asked nothing goes to the first server, and so does everything of clients that cannot be asked at all: they have that one
//! alone. Streams are the first one's, so that each event is told once.
//!
//! Called by `modern` and `pools`. Whose turn it is at a server, `modern_to_legacy` knows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use mcpjoin_proto::ErrorObject;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use super::Shared;
use super::builder::Settings;
use super::end::Refusal;
use super::modern::{FromServer, Relay};
use super::modern_to_legacy::{Claim, Common, Lanes, ModernToLegacy};
use super::places::Place;
use super::pools::Whose;
use super::relaying::millis;
use super::telling::Telling;
use super::upstream::{Spoken, Upstream, Wanted};
use mcpjoin::connection::Context;

/// How long a server beyond the first of a pool is kept that nobody uses: a person who has been asked something mostly asks for
/// more, and a program takes seconds to start.
const IDLE: Duration = Duration::from_secs(300);

/// A server that modern clients share.
pub(super) struct Lane {
    pub(super) upstream: Upstream,
    pub(super) relay: Arc<Relay>,
}

/// The servers of clients that share them. They are ended when this is dropped.
pub(super) struct Pool {
    /// The first.
    pub(super) home: Lane,
    more: Mutex<Vec<Arc<Lane>>>,
    common: Common,
    /// For whom more are started.
    wanted: Wanted,
    /// To whom they are charged.
    account: Whose,
    /// Held by the call whose turn is next.
    turn: tokio::sync::Mutex<()>,
    /// Told when it may be somebody's turn.
    free: Arc<Notify>,
}

/// Where a call is made that can be asked something.
enum Found {
    Free(Claim),
    /// At a server that is still to be started.
    Place(Place),
}

impl Lane {
    async fn start(
        settings: &Arc<Settings>,
        place: Place,
        spoken: &Arc<Spoken>,
        wanted: Wanted,
        common: Common,
    ) -> Result<Self, Refusal> {
        let relay = Arc::new(Relay::new(ModernToLegacy::new(common)));
        let answers = FromServer(relay.clone());
        let upstream = Upstream::start(settings, place, spoken, wanted, answers).await?;
        Ok(Self { upstream, relay })
    }

    fn claim(&self, cx: &Context) -> Option<Claim> {
        let server = self.upstream.current()?;
        self.relay.translation.claim(&server, cx)
    }

    /// Since when nobody uses it; `None`: somebody does.
    fn idle_since(&self) -> Option<Instant> {
        self.relay.translation.idle_since().filter(|_| self.relay.is_idle())
    }

    /// Whether nobody uses it, and no call that can be asked something will have its turn here.
    fn is_spent(&self) -> bool {
        self.relay.translation.is_abandoned() && self.idle_since().is_some()
    }
}

impl Pool {
    /// Starts the first server.
    pub(super) async fn start(
        settings: &Arc<Settings>,
        place: Place,
        spoken: &Arc<Spoken>,
        wanted: Wanted,
        account: Whose,
        shared: bool,
    ) -> Result<Arc<Self>, Refusal> {
        let declared = &wanted.capabilities;
        let can_be_asked =
            declared.elicitation.is_some() || declared.sampling.is_some() || declared.roots.is_some();
        let free = Arc::new(Notify::new());
        let ended = {
            let (free, stir) = (free.clone(), place.stirs());
            move || {
                free.notify_one();
                stir();
            }
        };
        let common = Common::new(settings.timeout, shared, can_be_asked, ended);
        let home = Lane::start(settings, place, spoken, wanted.clone(), common.clone()).await?;
        let (more, turn) = (Mutex::default(), tokio::sync::Mutex::default());
        Ok(Arc::new(Self { home, more, common, wanted, account, turn, free }))
    }

    fn more(&self) -> MutexGuard<'_, Vec<Arc<Lane>>> {
        self.more.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody uses any of its servers.
    pub(super) fn is_idle(&self) -> bool {
        !self.common.has_parked()
            && self.home.idle_since().is_some()
            && self.more().iter().all(|lane| lane.idle_since().is_some())
    }

    /// Whether nobody uses it, and the next client is better off with another: its first server may still be at a call that
    /// was left.
    pub(super) fn is_spent(&self) -> bool {
        self.home.relay.translation.is_abandoned() && self.is_idle()
    }

    /// Ends all of its servers.
    pub(super) fn end(&self) {
        self.home.upstream.end();
        for lane in self.more().drain(..) {
            lane.upstream.end();
        }
    }

    /// The same, and waits until nothing is left of the first one.
    pub(super) async fn close(&self) {
        self.end();
        self.home.upstream.close().await;
    }

    /// Ends the server that was used longest ago of those beyond the first that nobody uses now; says whether there was one.
    pub(super) fn end_idle_lane(&self) -> bool {
        let mut more = self.more();
        let idle = more.iter().enumerate().filter_map(|(place, lane)| Some((lane.idle_since()?, place)));
        let Some((_, place)) = idle.min() else { return false };
        more.remove(place).upstream.end();
        true
    }

    /// The turn of a request at a server of the pool, as soon as it comes.
    async fn found(&self, shared: &Shared, cx: &Context) -> Result<Found, Refusal> {
        let _turn = self.turn.lock().await;
        let mut reserved = None;
        loop {
            let free = self.free.notified();
            if let Some(claim) = self.claim_free(cx) {
                return Ok(Found::Free(claim));
            }
            let Some(_) = self.home.upstream.current() else {
                // It is being started again, and free when it is there.
                self.home.upstream.client().await.map_err(|why| Refusal::Gone(Box::new(why)))?;
                continue;
            };
            let start = async {
                let place = shared.pools.wait_for_place(&shared.places, &self.account, None).await?;
                // Once for this call, however often another server becomes free meanwhile.
                let at = match reserved {
                    Some(at) => at,
                    None => *reserved.insert(shared.places.reserve_start(&self.account)?),
                };
                if at > Instant::now() {
                    sleep_until(at).await;
                }
                Ok(place)
            };
            tokio::select! {
                biased;
                () = free => {}
                place = start => return place.map(Found::Place),
            }
        }
    }

    fn claim_free(&self, cx: &Context) -> Option<Claim> {
        if let Some(claim) = self.home.claim(cx) {
            return Some(claim);
        }
        // Under the lock, so that none is ended between that it is found and that it is in use.
        let mut more = self.more();
        more.retain(|lane| {
            let is_spent = lane.is_spent();
            if is_spent {
                lane.upstream.end();
            }
            !is_spent
        });
        more.iter().find_map(|lane| lane.claim(cx))
    }

    /// One server more, at which it is the turn of this request; `None`: it is of another era than the first.
    async fn start_lane(
        self: &Arc<Self>,
        shared: &Shared,
        place: Place,
        cx: &Context,
    ) -> Result<Option<Claim>, Refusal> {
        let (wanted, common) = (self.wanted.clone(), self.common.clone());
        let lane = Lane::start(&shared.settings, place, &shared.spoken, wanted, common).await?;
        let server = lane.upstream.client().await.map_err(|why| Refusal::Gone(Box::new(why)))?;
        let legacy = server.profile().initialize;
        let claim =
            Some(server).filter(|_| legacy).and_then(|server| lane.relay.translation.claim(&server, cx));
        if claim.is_some() {
            let lane = Arc::new(lane);
            self.more().push(lane.clone());
            tokio::spawn(end_in_time(Arc::downgrade(self), lane));
        }
        Ok(claim)
    }

    /// Ends a server that nobody has used for so long. `Err`: when to look again.
    fn end_if_idle(&self, lane: &Arc<Lane>) -> Result<(), Instant> {
        let mut more = self.more();
        let until = lane.idle_since().unwrap_or_else(Instant::now) + IDLE;
        if until > Instant::now() {
            return Err(until);
        }
        more.retain(|known| !Arc::ptr_eq(known, lane));
        lane.upstream.end();
        Ok(())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.end();
    }
}

/// Ends a server when nobody has used it for long, and forgets one that is over.
async fn end_in_time(pool: Weak<Pool>, lane: Arc<Lane>) {
    let mut until = Instant::now() + IDLE;
    loop {
        let is_over = tokio::select! {
            biased;
            _ = lane.upstream.over() => true,
            () = sleep_until(until) => false,
        };
        let Some(pool) = pool.upgrade() else { return };
        if is_over {
            return pool.more().retain(|known| !Arc::ptr_eq(known, &lane));
        }
        match pool.end_if_idle(&lane) {
            Ok(()) => return,
            Err(later) => until = later,
        }
    }
}

/// The lanes of a pool, as a request sees them.
pub(super) struct InPool<'a> {
    pub(super) pool: &'a Arc<Pool>,
    pub(super) shared: &'a Shared,
    pub(super) telling: &'a Telling,
}

impl Lanes for InPool<'_> {
    async fn claim(&self, cx: &Context) -> Result<Claim, ErrorObject> {
        let Self { pool, shared, telling } = self;
        let patience = shared.settings.timeout;
        let found = timeout(patience, pool.found(shared, cx)).await.map_err(|_| {
            let limit = shared.settings.upstreams;
            let text = format!(
                "the client can be asked something in this call, so it needs a server for itself, and none was free within {} s: \
                 {limit} may run at once (the limit `upstreams`; of mcpjoin bridge: --max-sessions)",
                patience.as_secs()
            );
            telling.failure("noTurn", &text, &[("limit", limit.to_string()), ("afterMs", millis(patience))])
        })?;
        let place = match found.map_err(|why| why.to_error_object(telling))? {
            Found::Free(claim) => return Ok(claim),
            Found::Place(place) => place,
        };
        let claim = pool.start_lane(shared, place, cx).await.map_err(|why| {
            shared.tell_refused(&why);
            why.to_error_object(telling)
        })?;
        claim.ok_or_else(|| {
            let text = "a server that was started for this call speaks another revision than the first one";
            telling.failure("otherEra", text, &[])
        })
    }
}
