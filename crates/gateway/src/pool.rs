//! The servers of one pool: the first, to which every request goes, and up to three more for calls that need a server
//! of their own.
//!
//! A request from a legacy server does not say to which call it belongs. So if the clients of a pool can be asked,
//! each such call owns a server until it ends: the first one if it is free, otherwise another of the pool. The owner is
//! stored in `modern_to_legacy`, and `pools` starts servers and lets calls wait. A call that waits for its client to
//! return keeps its server until another call needs one and the pool can have no further one: then the call whose client
//! has been away for the longest time is given up ([`Pool::give_up_absent`]). Requests during which nothing can be asked
//! go to the first server, and so does everything of clients that cannot be asked. The first server stays the first as
//! long as the pool is in use, because servers have state. Streams belong to the first server, so that each event is
//! delivered once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mcpjoin_proto::session::Reply;
use mcpjoin_proto::{ErrorObject, Method, Notification, Request};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::capacity::{Caller, Slot};
use super::end::Refusal;
use super::modern_to_legacy::{Claim, ModernToLegacy, PoolState};
use super::policy::{ClientPolicy, Questions};
use super::upstream::{ClientHello, Launcher, Upstream, UpstreamHandler};
use mcpjoin::client::Client;
use mcpjoin::connection::{Connection, Context};
use mcpjoin::handler::Handler;
use mcpjoin::transport::Link;

/// Servers of one pool: more calls of one client that can be asked something wait.
pub(super) const UPSTREAMS_PER_POOL: usize = 4;

/// How long a server beyond the first of a pool is kept unused: a person who answered one question often gets another,
/// and a program takes seconds to start.
const UNUSED_UPSTREAM_TIMEOUT: Duration = Duration::from_secs(300);

/// One server of a pool.
pub(super) struct PooledUpstream {
    pub(super) upstream: Upstream,
    pub(super) relay: Arc<Relay>,
}

/// The servers of one pool. They are ended when this is dropped.
pub(super) struct Pool {
    pub(super) first: PooledUpstream,
    others: Mutex<Others>,
    state: PoolState,
    /// The client that further servers are started for.
    hello: ClientHello,
    /// The account that its servers are charged to.
    pub(super) account: Caller,
    /// Held by the call that gets the next free server, so that calls are served in order.
    pub(super) queue: tokio::sync::Mutex<()>,
    /// Notified when a server may be free, or another one may be started.
    pub(super) freed: Arc<Notify>,
}

/// The servers beyond the first.
#[derive(Default)]
struct Others {
    running: Vec<Arc<PooledUpstream>>,
    starting: usize,
}

/// Counts a server that is being started, until this is dropped.
pub(super) struct StartingUpstream<'a>(&'a Pool);

impl Drop for StartingUpstream<'_> {
    fn drop(&mut self) {
        self.0.others.lock().starting -= 1;
        self.0.freed.notify_one();
    }
}

impl PooledUpstream {
    async fn start(
        launcher: &Launcher,
        slot: Slot,
        hello: ClientHello,
        state: PoolState,
    ) -> Result<Self, Refusal> {
        let questions = ClientPolicy::questions(&launcher.settings);
        let hello = questions.declare(hello);
        let relay = Arc::new(Relay::new(ModernToLegacy::new(state), questions));
        let upstream = launcher.start(slot, hello, FromServer(relay.clone())).await?;
        Ok(Self { upstream, relay })
    }

    fn claim(&self, cx: &Context) -> Option<Claim> {
        let server = self.upstream.current()?;
        self.relay.translation.claim(&server, cx)
    }

    /// Since when it is unused; `None` if it is in use.
    fn idle_since(&self) -> Option<Instant> {
        self.relay.translation.idle_since().filter(|_| self.relay.is_idle())
    }

    /// Whether it is unused, and no call that can be asked something may begin here.
    fn is_spent(&self) -> bool {
        self.relay.translation.is_left_unanswered() && self.idle_since().is_some()
    }
}

impl Pool {
    /// Starts the first server.
    pub(super) async fn start(
        launcher: &Launcher,
        slot: Slot,
        hello: ClientHello,
        account: Caller,
        shared: bool,
    ) -> Result<Arc<Self>, Refusal> {
        let declared = &hello.capabilities;
        let can_be_asked =
            declared.elicitation.is_some() || declared.sampling.is_some() || declared.roots.is_some();
        let freed = Arc::new(Notify::new());
        let on_end = {
            let (freed, notify_slots) = (freed.clone(), slot.notifier());
            move || {
                freed.notify_one();
                notify_slots();
            }
        };
        let state = PoolState::new(launcher.settings.timeout, shared, can_be_asked, on_end);
        let first = PooledUpstream::start(launcher, slot, hello.clone(), state.clone()).await?;
        let (others, queue) = (Mutex::default(), tokio::sync::Mutex::default());
        Ok(Arc::new(Self { first, others, state, hello, account, queue, freed }))
    }

    /// Whether none of its servers is in use.
    pub(super) fn is_idle(&self) -> bool {
        !self.state.has_suspended()
            && self.first.idle_since().is_some()
            && self.others.lock().running.iter().all(|other| other.idle_since().is_some())
    }

    /// Whether it is unused and the next client should get another one: a request was left unanswered at its first
    /// server.
    pub(super) fn is_spent(&self) -> bool {
        self.first.relay.translation.is_left_unanswered() && self.is_idle()
    }

    /// Ends all of its servers.
    pub(super) fn end(&self) {
        self.first.upstream.end();
        for other in self.others.lock().running.drain(..) {
            other.upstream.end();
        }
    }

    /// Ends all of its servers, and waits until nothing of them is left.
    pub(super) async fn close(&self) {
        self.first.upstream.end();
        let others = std::mem::take(&mut self.others.lock().running);
        for other in &others {
            other.upstream.end();
        }
        self.first.upstream.close().await;
        for other in others {
            other.upstream.close().await;
        }
    }

    /// Ends the server beyond the first that has been unused for the longest time. Returns whether there was one.
    pub(super) fn end_unused_other(&self) -> bool {
        let mut others = self.others.lock();
        let running = others.running.iter().enumerate();
        let unused = running.filter_map(|(index, other)| Some((other.idle_since()?, index)));
        let Some((_, index)) = unused.min() else { return false };
        others.running.remove(index).upstream.end();
        drop(others);
        self.freed.notify_one();
        true
    }

    /// Claims a server that no other call owns, the first if possible.
    pub(super) fn claim_free(&self, cx: &Context) -> Option<Claim> {
        if let Some(claim) = self.first.claim(cx) {
            return Some(claim);
        }
        // The lock is held until the claim, so that no other task ends the server in between.
        let mut others = self.others.lock();
        others.running.retain(|other| {
            let is_spent = other.is_spent();
            if is_spent {
                other.upstream.end();
            }
            !is_spent
        });
        others.running.iter().find_map(|other| other.claim(cx))
    }

    /// Gives up the call whose client has been away for the longest time, and for half a minute at least, so that
    /// another one can have its server. Never gives up a call whose client waits for the response.
    ///
    /// A server that several clients share could still ask about the call, so it is ended. The first one stays, so a
    /// call there is not given up.
    ///
    /// # Errors
    /// When this is possible; `None` if no such call waits.
    pub(super) fn give_up_absent(&self) -> Result<(), Option<Instant>> {
        self.state.give_up_absent(&self.first.relay.translation)
    }

    /// Whether it has fewer than [`UPSTREAMS_PER_POOL`] servers.
    pub(super) fn has_room(&self) -> bool {
        let others = self.others.lock();
        1 + others.running.len() + others.starting < UPSTREAMS_PER_POOL
    }

    /// Counts a server that is to be started until the guard is dropped.
    pub(super) fn starting(&self) -> StartingUpstream<'_> {
        self.others.lock().starting += 1;
        StartingUpstream(self)
    }

    /// Starts one more server, and claims it. `None`: it speaks another era than the first one.
    pub(super) async fn start_other(
        self: &Arc<Self>,
        launcher: &Launcher,
        slot: Slot,
        cx: &Context,
    ) -> Result<Option<Claim>, Refusal> {
        let other = PooledUpstream::start(launcher, slot, self.hello.clone(), self.state.clone()).await?;
        let server = other.upstream.client().await.map_err(|why| Refusal::Gone(Box::new(why)))?;
        let is_legacy = server.profile().initialize;
        let claim =
            Some(server).filter(|_| is_legacy).and_then(|server| other.relay.translation.claim(&server, cx));
        if claim.is_some() {
            let other = Arc::new(other);
            self.others.lock().running.push(other.clone());
            tokio::spawn(end_when_unused(Arc::downgrade(self), other));
        }
        Ok(claim)
    }

    /// Ends a server that has been unused for [`UNUSED_UPSTREAM_TIMEOUT`]. `Err`: the time of the next check.
    fn end_if_unused(&self, other: &Arc<PooledUpstream>) -> Result<(), Instant> {
        let mut others = self.others.lock();
        let until = other.idle_since().unwrap_or_else(Instant::now) + UNUSED_UPSTREAM_TIMEOUT;
        if until > Instant::now() {
            return Err(until);
        }
        others.running.retain(|known| !Arc::ptr_eq(known, other));
        other.upstream.end();
        Ok(())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.end();
    }
}

/// Ends a server when it has been unused for long, and removes it from its pool when it has ended.
async fn end_when_unused(pool: Weak<Pool>, other: Arc<PooledUpstream>) {
    let mut until = Instant::now() + UNUSED_UPSTREAM_TIMEOUT;
    loop {
        let has_ended = tokio::select! {
            biased;
            _ = other.upstream.over() => true,
            () = sleep_until(until) => false,
        };
        let Some(pool) = pool.upgrade() else { return };
        if has_ended {
            pool.others.lock().running.retain(|known| !Arc::ptr_eq(known, &other));
            pool.freed.notify_one();
            return;
        }
        match pool.end_if_unused(&other) {
            Ok(()) => return,
            Err(next) => until = next,
        }
    }
}

/// Delivers what one server of modern clients sends.
pub(super) struct Relay {
    pub(super) translation: Arc<ModernToLegacy>,
    /// What the server may ask the clients.
    questions: Questions,
    /// Requests in flight and open streams.
    in_use: AtomicUsize,
    /// The connection of the client that has the pool for itself.
    client: Mutex<Option<Connection>>,
    /// Whether only this process reaches the server: any but a server over HTTP.
    is_of_process: AtomicBool,
}

/// A request that uses a server, until this is dropped.
pub(super) struct InUse(Arc<Relay>);

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.in_use.fetch_sub(1, Ordering::Relaxed);
        self.0.translation.request_ended();
    }
}

impl Relay {
    fn new(translation: ModernToLegacy, questions: Questions) -> Self {
        let (translation, in_use) = (Arc::new(translation), AtomicUsize::new(0));
        let is_of_process = AtomicBool::new(false);
        Self { translation, questions, in_use, client: Mutex::default(), is_of_process }
    }

    /// Whether only this process reaches the server, so that it alone knows its states.
    pub(super) fn is_of_process(&self) -> bool {
        self.is_of_process.load(Ordering::Relaxed)
    }

    fn is_idle(&self) -> bool {
        self.in_use.load(Ordering::Relaxed) == 0
    }

    /// Counts a request as using the server until the guard is dropped.
    pub(super) fn enter(self: &Arc<Self>) -> InUse {
        self.in_use.fetch_add(1, Ordering::Relaxed);
        InUse(self.clone())
    }

    /// Sets the client that has the server for itself: it receives notifications that belong to no request.
    pub(super) fn set_client(&self, client: Option<Connection>) {
        *self.client.lock() = client;
    }

    /// Delivers a notification that a modern server sends outside of its streams and requests. If clients share the
    /// server, only a log message is delivered, to the only request in flight.
    fn notify(&self, notification: Notification) {
        if !self.questions.permits(&notification) {
            return;
        }
        let client = self.client.lock().clone();
        let is_log = notification.method == Method::LogMessage;
        let sent = match (client, self.translation.unstreamed_recipient(&notification)) {
            (Some(client), _) if !is_log => client.notify(notification),
            (_, Some(cx)) => cx.notify(notification),
            (Some(client), None) => client.notify(notification),
            (None, None) => {
                tracing::debug!(target: "mcpjoin", method = %notification.method, "a notification has no recipient");
                return;
            }
        };
        if let Err(error) = sent {
            tracing::debug!(target: "mcpjoin", %error, "a notification was not forwarded");
        }
    }
}

/// Handles what a server of modern clients sends.
#[derive(Clone)]
struct FromServer(Arc<Relay>);

impl Handler for FromServer {
    async fn request(&self, request: Request, cx: Context) -> Result<Reply, ErrorObject> {
        self.0.questions.check(&request.method)?;
        self.0.translation.upstream_request(request, cx).await
    }

    async fn notification(&self, notification: Notification, cx: Context) {
        match cx.profile().map(|profile| profile.initialize) {
            Some(false) => self.0.notify(notification),
            _ => self.0.translation.upstream_notification(notification),
        }
    }
}

impl UpstreamHandler for FromServer {
    async fn restarted(&self, client: &Client) {
        if client.profile().initialize {
            self.0.translation.restarted(client).await;
        }
    }

    fn wrap(&self, link: Link) -> Link {
        self.0.is_of_process.store(link.upstream_session().is_none(), Ordering::Relaxed);
        link
    }
}
