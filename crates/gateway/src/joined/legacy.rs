//! Clients of the legacy era in front of a joined gateway: one session of the client, and one with each target.
//!
//! The sessions open at the same time, before the reply to `initialize`. A target that is late or fails is opened as
//! soon as its health allows, and the client is notified that lists have changed. Used by `mod`.
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle>

use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use mcpjoin::connection::{Connection, Context};
use mcpjoin::handler::Handler;
use mcpjoin::server::catalogue::{Kind, join_instructions};
use mcpjoin_proto::session::{Reply, ServerRole};
use mcpjoin_proto::{ErrorObject, Method, Notification, Payload, Profile, Raw, Request, RequestId, Version};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::router::{Part, Router, named};
use super::tasks::united;
use super::{CHANGES_DELAY, Joined, Target, list_changes, wants_warnings, warning};
use crate::answers::{self, Answers};
use crate::cancellations::{Cancels, ClientLayer};
use crate::capacity::Caller;
use crate::client::{ClientHandle, Storing};
use crate::end::{GatewayEnd, Refusal};
use crate::errors::{ErrorTexts, session_ended};
use crate::legacy::{ClientLink, TargetSession};
use crate::legacy_to_modern::checked_level;
use crate::opening::{First, Opening};
use crate::pair::Subscriptions;
use crate::policy::Counting;
use crate::portable::{Portable, StoredSession};
use crate::settings::Settings;
use crate::target_health::TargetHealth;
use crate::upstream::ClientHello;

/// How long the reply to `initialize` waits for targets that start.
const OPENING_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after an attempt that failed for another reason than the target. It doubles each time that the target refuses the
/// client, up to [`MAX_RETRY_DELAY`].
const RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

/// How long `logging/setLevel` waits for the targets.
const SET_LEVEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves a client that has sent `initialize`.
pub(super) async fn serve(
    joined: &Arc<Joined>,
    mut opening: Box<Opening>,
    first: First,
    handle: &ClientHandle,
    remote: bool,
) -> GatewayEnd {
    if let Storing::Resumed(state) = handle.storing()
        && !is_of(joined, state)
    {
        return opening.refuse(&first.request.id, session_ended(), Refusal::Closed).await;
    }
    let (changes, _) = watch::channel(0);
    let owner = match handle.storing() {
        Storing::No => None,
        Storing::New => random_owner(),
        Storing::Resumed(state) => state.member("owner").and_then(|owner| owner.decode().ok()),
    };
    let client = Arc::new(LegacyClient {
        router: Router {
            parts: joined.parts(|target| LegacyPart::new(target, remote, handle.storing())),
            names: joined.names(),
            tasks: joined.tasks.of_session(&first.caller, owner.as_deref()),
            caller: first.caller.clone(),
        },
        connection: Mutex::default(),
        level: Mutex::default(),
        changes,
        owner,
        handle: handle.clone(),
        joined: joined.clone(),
    });
    let mut link = ClientLink::of(&opening, handle);
    link.counting = Counting::Before;
    let mut tasks = JoinSet::new();
    for index in 0..joined.targets.len() {
        link.on_list_changed = Some(client.on_list_changed(index));
        link.tasks = Some(client.router.tasks.at(index));
        link.portable.clone_from(&client.router.parts[index].portable);
        let hello = first.hello.clone();
        tasks.spawn(client.clone().keep_open(index, first.caller.clone(), hello, link.clone()));
    }
    let opened = pin!(client.opened());
    if let Err(left) = opening.wait_for(opened).await {
        tasks.shutdown().await;
        client.close().await;
        return opening.client_left(left, &first.request.id, &ErrorTexts::default()).await;
    }
    if let Some((error, refusal)) = client.refused() {
        tasks.shutdown().await;
        client.close().await;
        return opening.refuse(&first.request.id, error, refusal).await;
    }
    joined.opened.send_replace(true);
    let (role, handler) = (client.role(), FromClient(client.clone()));
    let link = match handle.storing() {
        Storing::No => opening.into_link(),
        _ => {
            let link = answers::layer(opening.into_link(), client.clone());
            ClientLayer::of(link, client.clone())
        }
    };
    let (connection, driver) = joined.telemetry.connection(link, role, joined.limits.clone(), handler);
    client.connect(&connection);
    handle.connected(connection.clone());
    let serves: Weak<dyn StoredSession> = Arc::downgrade(&(client.clone() as Arc<dyn StoredSession>));
    handle.serves(serves);
    tasks.spawn(client.clone().tell_changes());
    driver.await;
    tasks.shutdown().await;
    client.close().await;
    GatewayEnd::Client(connection.closed().await)
}

/// One client with its sessions.
struct LegacyClient {
    router: Router<LegacyPart>,
    connection: Mutex<Option<Connection>>,
    /// The last parameters of `logging/setLevel`, for targets that open later.
    level: Mutex<Option<Payload>>,
    /// Counts the changes of parts and of their lists.
    changes: watch::Sender<u64>,
    /// The owner of its tasks in every process, if the session may be stored and has no principal.
    owner: Option<Box<str>>,
    handle: ClientHandle,
    joined: Arc<Joined>,
}

/// The session with one target, if it is open.
struct LegacyPart {
    session: Mutex<Option<Arc<TargetSession>>>,
    target: Arc<Target>,
    errors: ErrorTexts,
    /// Whether the first attempt to open has ended.
    tried: watch::Sender<bool>,
    /// Why the last attempt has failed, if that is about this client: it is above a limit, or has no access.
    failed: Mutex<Option<(ErrorObject, Refusal)>>,
    /// For a session that opens later.
    subscriptions: Mutex<Subscriptions>,
    /// Set if the client's session may be stored.
    portable: Option<Arc<Portable>>,
    /// Whether the target may be opened. A stored session has the targets that were open when it was stored: one that was
    /// opened later would have a session in each process.
    may_open: watch::Sender<bool>,
    /// Whether the target has lost the session, so that the client's session ends.
    is_lost: AtomicBool,
}

impl LegacyPart {
    fn new(target: &Arc<Target>, remote: bool, storing: &Storing) -> Self {
        let errors = target.errors(remote);
        let (portable, may_open) = match storing {
            Storing::No => (None, true),
            Storing::New => (Some(Portable::new(None)), true),
            Storing::Resumed(state) => {
                let state = session_with(&target.name, state);
                let is_part = state.is_some();
                (Some(Portable::new(state)), is_part)
            }
        };
        Self {
            portable,
            may_open: watch::Sender::new(may_open),
            is_lost: AtomicBool::new(false),
            session: Mutex::default(),
            target: target.clone(),
            errors,
            tried: watch::Sender::new(!may_open),
            failed: Mutex::default(),
            subscriptions: Mutex::default(),
        }
    }

    fn session(&self) -> Option<Arc<TargetSession>> {
        self.session.lock().clone()
    }

    /// The error for a request while there is no session.
    fn not_available(&self) -> ErrorObject {
        if self.is_lost.load(Ordering::Relaxed) {
            return self.errors.session_lost("the server no longer knows the session");
        }
        if !*self.may_open.borrow() {
            let text =
                "the server was not running when this session was opened; initialize again to reach it";
            return self.errors.failure("notAvailable", text, &[]);
        }
        match &*self.failed.lock() {
            Some((error, Refusal::NotStarted(_) | Refusal::Closed)) => {
                named(&self.target.name, error.clone())
            }
            _ => self.errors.not_available(self.target.health().outage()),
        }
    }

    /// Makes the subscriptions of an earlier session in this one.
    async fn subscribe_again(&self, session: &TargetSession) {
        let subscriptions = self.subscriptions.lock().all();
        for params in subscriptions {
            session.subscribe_again(params).await;
        }
    }
}

impl Part for LegacyPart {
    fn name(&self) -> &str {
        &self.target.name
    }

    fn is_ready(&self) -> bool {
        self.session.lock().as_ref().is_some_and(|session| session.is_ready())
    }

    fn health(&self) -> &TargetHealth {
        self.target.health()
    }

    fn settings(&self) -> &Settings {
        self.target.settings()
    }

    fn outage(&self) -> Option<ErrorObject> {
        (!self.is_ready()).then(|| self.not_available())
    }

    fn late(&self) -> ErrorObject {
        self.errors.late()
    }

    fn is_subscribed(&self, uri: &str) -> bool {
        self.subscriptions.lock().contains(uri)
    }

    async fn request(&self, request: Request, cx: &Context) -> Result<Reply, ErrorObject> {
        if let Some(session) = self.session() {
            session.restarted().await;
        }
        let to_restore = match request.method {
            Method::Subscribe | Method::Unsubscribe => Some((request.method.clone(), request.params.clone())),
            _ => None,
        };
        let Some(session) = self.session().filter(|session| session.is_ready()) else {
            // No server has the subscription now, and the next one must not get it.
            if let Some((Method::Unsubscribe, Some(params))) = to_restore
                && self.subscriptions.lock().note(&Method::Unsubscribe, &params)
            {
                if let Some(session) = self.session() {
                    session.forget_subscription(params);
                }
                return Ok(Reply::empty());
            }
            return Err(self.not_available());
        };
        let reply = session.request(request, cx).await?;
        if let Some((method, Some(params))) = to_restore {
            self.subscriptions.lock().note(&method, &params);
        }
        Ok(reply)
    }
}

impl LegacyClient {
    /// Opens the session with a target, and opens it again after it has ended, until this future is dropped or the gateway is closed.
    async fn keep_open(self: Arc<Self>, index: usize, caller: Caller, hello: ClientHello, link: ClientLink) {
        let part = &self.router.parts[index];
        let pools = &part.target.gateway.pools;
        let mut pause = RETRY_DELAY;
        loop {
            // The sender lives as long as `self`.
            let _ = part.may_open.subscribe().wait_for(|may_open| *may_open).await;
            part.target.health().ready_to_start().await;
            let open = TargetSession::open(pools, caller.clone(), hello.clone(), &link, part.errors.clone());
            let session = match open.await {
                Ok(session) => Arc::new(session),
                Err(refusal) => {
                    let error = pools.refused(&refusal, &part.errors);
                    let is_of_client = match &refusal {
                        refusal if refusal.is_of_limit() => true,
                        Refusal::NotStarted(end) => part.settings().is_of_client(end),
                        _ => part.target.is_closed(),
                    };
                    let delay = match refusal {
                        Refusal::TooManyStarts { retry_after, .. } => retry_after.max(RETRY_DELAY),
                        // The target works for other clients, so its health does not say when to try again for this one.
                        Refusal::NotStarted(_) if is_of_client => {
                            let delay = pause;
                            pause = (2 * pause).min(MAX_RETRY_DELAY);
                            delay
                        }
                        _ => RETRY_DELAY,
                    };
                    *part.failed.lock() = is_of_client.then_some((error, refusal));
                    part.tried.send_replace(true);
                    if part.target.is_closed() {
                        return;
                    }
                    sleep(delay).await;
                    continue;
                }
            };
            let connection = {
                // The lock is held, so that `connect` sees the session, or this sees the connection.
                let connection = self.connection.lock();
                let mut place = part.session.lock();
                let may_open = *part.may_open.borrow();
                *place = may_open.then(|| session.clone());
                *part.failed.lock() = None;
                may_open.then(|| connection.clone())
            };
            let Some(connection) = connection else {
                session.close().await;
                continue;
            };
            part.tried.send_replace(true);
            pause = RETRY_DELAY;
            if let Some(connection) = connection {
                session.connect(connection);
            }
            self.changed(index);
            let restored = async {
                let level = self.level.lock().clone();
                if let Some(level) = level {
                    session.set_level(level).await;
                }
                part.subscribe_again(&session).await;
                pending::<()>().await;
            };
            tokio::select! {
                biased;
                () = session.over() => {}
                () = restored => {}
                () = session.tell_changes() => {}
                () = self.watch(index, &session) => {}
                () = session.lost() => {
                    // The target does not come back in this session.
                    part.is_lost.store(true, Ordering::Relaxed);
                    part.may_open.send_replace(false);
                    self.handle.drain();
                }
            }
            *part.session.lock() = None;
            self.changed(index);
            session.close().await;
        }
    }

    /// Returns why the client gets no session: no target is open, because the client is above a limit.
    fn refused(&self) -> Option<(ErrorObject, Refusal)> {
        let parts = &self.router.parts;
        if parts.iter().any(|part| part.session.lock().is_some()) {
            return None;
        }
        let above_limit = |part: &Arc<LegacyPart>| {
            part.failed.lock().clone().filter(|(_, why)| !matches!(why, Refusal::NotStarted(_)))
        };
        parts.iter().find_map(above_limit)
    }

    /// Waits until the opening of each session was tried, for as long as an opening may take. Does not wait for a target that was
    /// late just now.
    async fn opened(&self) {
        let waiting = self.router.parts.iter().map(|part| async {
            // The sender lives as long as `self`.
            let mut tried = part.tried.subscribe();
            let tried = async { drop(tried.wait_for(|tried| *tried).await) };
            if part.health().starts_late(&self.router.caller) {
                return;
            }
            if timeout(OPENING_TIMEOUT, tried).await.is_err() {
                part.health().was_late(&self.router.caller);
            }
        });
        join_all(waiting).await;
    }

    fn on_list_changed(self: &Arc<Self>, index: usize) -> Arc<dyn Fn() + Send + Sync> {
        let client = Arc::downgrade(self);
        Arc::new(move || {
            if let Some(client) = client.upgrade() {
                client.changed(index);
            }
        })
    }

    fn changed(&self, index: usize) {
        self.router.names.outdate(index);
        self.changes.send_modify(|changes| *changes += 1);
    }

    fn connect(&self, client: &Connection) {
        let mut connection = self.connection.lock();
        *connection = Some(client.clone());
        for session in self.router.parts.iter().filter_map(|part| part.session()) {
            session.connect(client.clone());
        }
    }

    /// Notifies the client of changed lists, once for all changes within [`CHANGES_DELAY`].
    async fn tell_changes(self: Arc<Self>) {
        let mut own = self.changes.subscribe();
        own.borrow_and_update();
        while own.changed().await.is_ok() {
            sleep(CHANGES_DELAY).await;
            own.borrow_and_update();
            let connection = self.connection.lock().clone();
            let Some(connection) = connection else { continue };
            for notification in list_changes() {
                if let Err(error) = connection.notify(notification) {
                    tracing::debug!(target: "mcpjoin", %error, "a client was not notified of changed lists");
                }
            }
        }
    }

    /// Sends the log message that a target has no server, if the client wants it.
    fn warn(&self, index: usize) {
        let level = self.level.lock().as_ref().and_then(|params| params.raw().member("level")?.decode().ok());
        let connection = self.connection.lock().clone();
        let Some(connection) = connection.filter(|_| wants_warnings(level)) else { return };
        let part = &self.router.parts[index];
        let text = part.not_available().message;
        if let Err(error) = connection.notify(warning(&text)) {
            tracing::debug!(target: "mcpjoin", %error, "a log message was not sent");
        }
    }

    /// Watches whether the server of an open session runs, which it does not while it is restarted.
    async fn watch(&self, index: usize, session: &TargetSession) {
        let mut events = self.router.parts[index].target.health().changes();
        let mut is_ready = session.is_ready();
        // The sender lives as long as the target.
        while events.changed().await.is_ok() {
            if session.is_ready() != is_ready {
                is_ready = !is_ready;
                if !is_ready {
                    self.warn(index);
                }
                self.changed(index);
            }
        }
    }

    /// The role that the gateway takes towards the client. The capabilities are those that a target may have later:
    /// they cannot grow after the opening. Tasks are declared if a target that is open has them.
    fn role(&self) -> ServerRole {
        let mut role = ServerRole::new(self.joined.info.clone(), self.joined.capabilities());
        let sessions: Vec<_> = self
            .router
            .parts
            .iter()
            .filter_map(|part| Some((part.target.name.clone(), part.session()?)))
            .collect();
        role.capabilities.tasks = united(sessions.iter().filter_map(|(_, session)| session.tasks()));
        role.instructions =
            join_instructions(sessions.iter().map(|(name, session)| (&**name, session.instructions())));
        role.versions = Version::ALL
            .into_iter()
            .filter(|version| Profile::of(version).is_some_and(|profile| profile.initialize))
            .collect();
        role.relays = true;
        role.lenient_opening = true;
        role
    }

    async fn close(&self) {
        for part in &self.router.parts {
            let session = part.session.lock().take();
            if let Some(session) = session {
                session.close().await;
            }
        }
    }

    /// Sets the level of log messages at all targets, also at those that open later.
    async fn set_level(&self, params: Option<Payload>) -> Result<Reply, ErrorObject> {
        let params = checked_level(params.as_ref())?.without_members(|name| name == "_meta");
        *self.level.lock() = Some(params.clone());
        let sessions: Vec<_> = self.router.parts.iter().filter_map(|part| part.session()).collect();
        let set = sessions.iter().map(|session| session.set_level(params.clone()));
        // A target that does not answer delays the others no longer.
        drop(timeout(SET_LEVEL_TIMEOUT, join_all(set)).await);
        Ok(Reply::empty())
    }
}

/// The state of a client's session: those with the targets that are open, by name.
impl StoredSession for LegacyClient {
    fn state(&self) -> Option<Raw> {
        let mut targets = Vec::new();
        for part in &self.router.parts {
            let place = part.session.lock();
            let Some(session) = &*place else {
                // Until it is known that the session is not stored.
                part.may_open.send_replace(false);
                continue;
            };
            let state = Payload::from_raw(Raw::empty_object())
                .with_member("target", &Raw::string(&part.target.name))
                .with_member("session", &session.state()?);
            targets.push(state.into_raw());
        }
        // A session without a target waits for them in this process.
        if targets.is_empty() {
            return None;
        }
        let state = Payload::from_raw(Raw::empty_object());
        let state = match &self.owner {
            Some(owner) => state.with_member("owner", &Raw::string(owner)),
            None => state,
        };
        Some(state.with_member("targets", &Raw::from_value(&targets).ok()?).into_raw())
    }

    fn stored(&self, stored: bool) {
        for part in &self.router.parts {
            match part.session() {
                Some(session) => session.stored(stored),
                None if !stored => {
                    if let Some(portable) = &part.portable {
                        portable.stored(false, false);
                    }
                    part.may_open.send_replace(true);
                }
                None => {}
            }
        }
    }

    fn listens(&self, listens: bool) {
        self.router.parts.iter().filter_map(|part| part.session()).for_each(|one| one.listens(listens));
    }

    fn ended(&self) {
        self.router.parts.iter().filter_map(|part| part.session()).for_each(|session| session.ended());
    }
}

impl Answers for LegacyClient {
    fn answer(&self, target: &str, id: RequestId, outcome: Result<Payload, ErrorObject>) {
        let part = self.router.parts.iter().find(|part| *part.target.name == *target);
        if let Some(session) = part.and_then(|part| part.session()) {
            session.answer(target, id, outcome);
        }
    }
}

/// The request may be at any target: the others do not know its id.
impl Cancels for LegacyClient {
    fn cancel(&self, cancelled: &Notification) {
        let sessions = self.router.parts.iter().filter_map(|part| part.session());
        sessions.for_each(|session| session.cancel(cancelled));
    }
}

/// Whether the state is that of a session of this gateway: of another one the client would get some targets only.
fn is_of(joined: &Joined, state: &Raw) -> bool {
    let targets: Option<Vec<Raw>> = state.member("targets").and_then(|targets| targets.decode().ok());
    let is_known = |one: &Raw| {
        let name = one.member("target");
        let name = name.as_ref().and_then(Raw::to_string_value);
        joined.targets.iter().any(|target| name.as_deref() == Some(&*target.name))
    };
    targets.is_some_and(|targets| targets.iter().all(is_known))
}

/// Returns the state of the session with this target.
fn session_with(target: &str, state: &Raw) -> Option<Raw> {
    let targets: Vec<Raw> = state.member("targets")?.decode().ok()?;
    targets.iter().find_map(|one| {
        let name = one.member("target")?;
        one.member("session").filter(|_| name.to_string_value().as_deref() == Some(target))
    })
}

/// A name for the owner of the tasks of a session that cannot be guessed.
fn random_owner() -> Option<Box<str>> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).ok()?;
    Some(format!("{:032x}", u128::from_be_bytes(random)).into())
}

/// Answers the requests of the client.
struct FromClient(Arc<LegacyClient>);

impl Handler for FromClient {
    async fn request(&self, request: Request, cx: Context) -> Result<Reply, ErrorObject> {
        let _counted = match self.0.joined.client_limits.admit(&request, &cx) {
            Ok(counted) => counted,
            Err(error) => return Err(self.0.router.refused(request, &cx, error).await),
        };
        match request.method {
            Method::SetLevel => self.0.set_level(request.params).await,
            ref method => {
                let is_list = Kind::of_list(method).is_some();
                let reply = self.0.router.request(request, &cx).await;
                if is_list {
                    self.0.joined.listed(&self.0.router.names);
                }
                reply
            }
        }
    }

    async fn notification(&self, notification: Notification, _: Context) {
        for part in &self.0.router.parts {
            if let Some(session) = part.session() {
                session.notification(notification.clone());
            }
        }
    }
}
