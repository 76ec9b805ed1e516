//! Clients of the legacy era: serves one session, which has a server for itself.
//!
//! If the server is of the modern era, [`legacy_to_modern`](super::legacy_to_modern) answers; otherwise requests are
//! relayed unchanged (`pair`).

use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Weak};

use mcpjoin_proto::session::{PeerCapabilities, Reply, ServerRole};
use mcpjoin_proto::types::{Implementation, TasksCapability};
use mcpjoin_proto::{ErrorObject, Method, Notification, Payload, Profile, Raw, Request, RequestId};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::answers::{self, Answers};
use super::call_record::recorded;
use super::cancellations::{self, Cancels, ClientLayer};
use super::capacity::{Caller, ClientSession};
use super::client::{ClientHandle, Storing};
use super::end::{GatewayEnd, Refusal};
use super::errors::{ErrorTexts, session_ended};
use super::joined::TargetTasks;
use super::legacy_to_modern::{self, LegacyToModern};
use super::opening::{First, HasListener, Opening};
use super::pair::{FromServer, OnListChanged, Pair};
use super::policy::{ClientPolicy, Counting};
use super::pools::Pools;
use super::portable::{Portable, StoredSession};
use super::relay::resource_updated;
use super::settings::Settings;
use super::upstream::{ClientHello, Upstream};
use mcpjoin::client::Client;
use mcpjoin::connection::{Connection, Context};
use mcpjoin::handler::Handler;

/// Serves a client that has sent `initialize`.
pub(super) async fn serve(
    pools: &Pools,
    opening: Box<Opening>,
    first: First,
    handle: &ClientHandle,
    errors: ErrorTexts,
) -> GatewayEnd {
    // In a box that is freed when the session is open.
    let opened = Box::pin(open(pools, opening, first, handle, errors)).await;
    let (opening, session) = match opened {
        Ok(opened) => opened,
        Err(end) => return end,
    };
    let settings = &pools.launcher.settings;
    let (role, handler) = (session.role(), Relayed(session.clone()));
    let link = match handle.storing() {
        Storing::No => opening.into_link(),
        _ => {
            let link = answers::layer(opening.into_link(), session.clone());
            ClientLayer::of(link, session.clone())
        }
    };
    let (connection, driver) = settings.telemetry.connection(link, role, settings.limits.clone(), handler);
    session.connect(connection.clone());
    handle.connected(connection.clone());
    let serves: Weak<dyn StoredSession> = Arc::downgrade(&(session.clone() as Arc<dyn StoredSession>));
    handle.serves(serves);
    let ending = async {
        session.lost().await;
        session.upstream.end();
        handle.drain();
        pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = driver => {}
        () = session.tell_changes() => {}
        () = ending => {}
    }
    session.close().await;
    GatewayEnd::Client(connection.closed().await)
}

/// Opens the session with the server.
async fn open(
    pools: &Pools,
    mut opening: Box<Opening>,
    first: First,
    handle: &ClientHandle,
    errors: ErrorTexts,
) -> Result<(Box<Opening>, Arc<TargetSession>), GatewayEnd> {
    let mut client = ClientLink::of(&opening, handle);
    client.portable = match handle.storing() {
        Storing::No => None,
        Storing::New => Some(Portable::new(None)),
        Storing::Resumed(state) => match resumed(state, &pools.launcher.settings.name) {
            Some(state) => Some(Portable::new(Some(state))),
            None => {
                return Err(opening.refuse(&first.request.id, session_ended(), Refusal::Closed).await);
            }
        },
    };
    let start = pin!(TargetSession::open(pools, first.caller, first.hello, &client, errors.clone()));
    let session = match opening.wait_for(start).await {
        Ok(Ok(session)) => session,
        Ok(Err(refusal)) => {
            let error = pools.refused(&refusal, &errors);
            return Err(opening.refuse(&first.request.id, error, refusal).await);
        }
        Err(left) => return Err(opening.client_left(left, &first.request.id, &errors).await),
    };
    Ok((opening, Arc::new(session)))
}

/// What the sessions of a client's servers know about the client before its connection exists.
#[derive(Clone)]
pub(super) struct ClientLink {
    exchanges: bool,
    has_listener: Option<HasListener>,
    handle: ClientHandle,
    /// Called in place of the notifications that a list has changed.
    pub(super) on_list_changed: Option<OnListChanged>,
    /// The ids of the server's tasks, where the client has others for them.
    pub(super) tasks: Option<TargetTasks>,
    /// Set if the client's session may be stored.
    pub(super) portable: Option<Arc<Portable>>,
    pub(super) counting: Counting,
}

impl ClientLink {
    pub(super) fn of(opening: &Opening, handle: &ClientHandle) -> Self {
        let (exchanges, has_listener) = (opening.caps().exchanges, opening.has_listener());
        let (handle, counting) = (handle.clone(), Counting::Here);
        Self { exchanges, has_listener, handle, on_list_changed: None, tasks: None, portable: None, counting }
    }
}

/// The session of one server with a legacy client.
pub(super) struct TargetSession {
    pair: Arc<Pair>,
    session: Arc<Session>,
    upstream: Arc<Upstream>,
    /// The role of the server when it opened.
    role: ServerRole,
    /// Set if the server is of the modern era.
    translation: Option<LegacyToModern>,
    policy: Arc<ClientPolicy>,
    settings: Arc<Settings>,
    errors: ErrorTexts,
    /// The number of the server.
    number: u64,
}

impl TargetSession {
    /// Starts the server. Dropping the future ends it.
    pub(super) async fn open(
        pools: &Pools,
        caller: Caller,
        hello: ClientHello,
        client: &ClientLink,
        errors: ErrorTexts,
    ) -> Result<Self, Refusal> {
        let settings = &pools.launcher.settings;
        let (has_listener, on_list_changed) = (client.has_listener.clone(), client.on_list_changed.clone());
        let questions = ClientPolicy::questions(settings).about(client.portable.clone());
        let pair = Pair::new(
            settings.timeout,
            client.exchanges,
            has_listener,
            on_list_changed,
            errors.clone(),
            questions.clone(),
            client.tasks.clone(),
        );
        let session = Arc::new(Session {
            pair: pair.clone(),
            handle: client.handle.clone(),
            last_use: Mutex::new(Instant::now()),
        });
        let asked_for = hello.version.clone();
        let mut hello = hello;
        hello.resumed = client.portable.as_ref().and_then(|portable| portable.era());
        let slot = pools.slot(&caller.into_account(), None).await?;
        slot.set_session(session.clone());
        let number = slot.number;
        let upstream =
            Arc::new(pools.launcher.start(slot, questions.declare(hello), FromServer(pair.clone())).await?);
        let Some(server) = upstream.current() else {
            return Err(match upstream.client().await {
                Ok(_) => Refusal::Closed,
                Err(why) => Refusal::Gone(Box::new(why)),
            });
        };
        let mut role = role_of(&server, settings.policy.is_some());
        let is_modern = !server.profile().initialize;
        if is_modern {
            role = legacy_to_modern::role_of(role, &server, asked_for.as_ref());
        }
        let translation =
            role.versions.first().and_then(Profile::of).filter(|_| is_modern).map(|profile| {
                LegacyToModern::new(profile, settings.timeout, pair.clone(), &upstream, &server)
            });
        let policy = Arc::new(ClientPolicy::new(settings, client.counting));
        Ok(Self {
            pair,
            session,
            upstream,
            role,
            translation,
            policy,
            settings: settings.clone(),
            errors,
            number,
        })
    }

    /// The role that the gateway takes towards the client: that of the server.
    fn role(&self) -> ServerRole {
        self.role.clone()
    }

    /// Returns the server's instructions for the use of its tools.
    pub(super) fn instructions(&self) -> &str {
        self.role.instructions.as_deref().unwrap_or_default()
    }

    /// Returns what the server can do with tasks of 2025-11-25.
    pub(super) fn tasks(&self) -> Option<&TasksCapability> {
        self.role.capabilities.tasks.as_deref().filter(|_| self.translation.is_none())
    }

    /// Returns what another process needs to go on with the session; `None` if none can.
    pub(super) fn state(&self) -> Option<Raw> {
        self.pair.portable.as_ref()?.state(self.translation.is_some())
    }

    /// Whether the client's session was stored.
    pub(super) fn stored(&self, stored: bool) {
        if let Some(portable) = &self.pair.portable {
            portable.stored(stored, self.translation.is_some());
        }
    }

    /// Whether the client has its stream open in this process.
    pub(super) fn listens(&self, listens: bool) {
        if let Some(portable) = &self.pair.portable {
            portable.listens(listens);
        }
    }

    /// The client has ended its session.
    pub(super) fn ended(&self) {
        if let Some(portable) = &self.pair.portable {
            portable.ended();
        }
    }

    /// Waits until the server has lost a session that must not be replaced.
    pub(super) async fn lost(&self) {
        match &self.pair.portable {
            Some(portable) => portable.lost().await,
            None => pending().await,
        }
    }

    /// Whether the server runs.
    pub(super) fn is_ready(&self) -> bool {
        self.upstream.current().is_some()
    }

    /// Waits while the server is started again for the first time after it has exited, for a moment at most.
    pub(super) async fn restarted(&self) {
        self.settings.health.restarted(Some(self.number)).await;
    }

    /// Waits until the server was given up or ended.
    pub(super) async fn over(&self) {
        drop(self.upstream.over().await);
    }

    /// Sets the level of log messages, of which a modern server learns with each request.
    pub(super) async fn set_level(&self, params: Payload) {
        if let (None, Some(server)) = (&self.translation, self.upstream.current()) {
            self.pair.set(&server, Method::SetLevel, params).await;
        }
    }

    /// Subscribes to a resource to which the client was subscribed at an earlier server of this target, and notifies it that the
    /// resource may have changed since. A refusal is logged.
    pub(super) async fn subscribe_again(&self, params: Payload) {
        let uri = params.uri();
        match (&self.translation, self.upstream.current()) {
            (Some(translation), _) => translation.subscribe(&params).await,
            (None, Some(server)) => self.pair.set(&server, Method::Subscribe, params).await,
            (None, None) => return,
        }
        if let Some(uri) = uri {
            self.pair.notify(resource_updated(&uri));
        }
    }

    /// Forgets a subscription while no server runs, so that the next one does not get it.
    pub(super) fn forget_subscription(&self, params: Payload) {
        match &self.translation {
            // Without a URI there is no subscription.
            Some(translation) => drop(translation.unsubscribe(Some(&params))),
            None => self.pair.store(&Method::Unsubscribe, params),
        }
    }

    /// Sets the connection of the client, to which the server's own messages go.
    pub(super) fn connect(&self, client: Connection) {
        self.pair.connect(client);
    }

    /// Notifies the client each time its tools change because another policy is in force. Never ends.
    pub(super) async fn tell_changes(&self) {
        let tell = || self.pair.notify(Notification { method: Method::ToolListChanged, params: None });
        self.policy.tell_changes(tell).await;
    }

    /// Ends the server, and waits until nothing of it is left.
    pub(super) async fn close(&self) {
        self.upstream.end();
        self.upstream.close().await;
    }

    /// Answers a request of the client.
    pub(super) async fn request(&self, request: Request, cx: &Context) -> Result<Reply, ErrorObject> {
        recorded(&self.settings, request, cx, |request| self.answer(request, cx)).await
    }

    async fn answer(&self, request: Request, cx: &Context) -> Result<Reply, ErrorObject> {
        self.session.touch();
        let _in_progress = InProgress(&self.session);
        let (request, permit) = self.policy.admit(request, cx)?;
        let server = self.upstream.client().await.map_err(|why| self.errors.gone(why))?;
        let answering = pin!(async {
            match &self.translation {
                None => self.pair.ask_server(&server, request, cx).await,
                Some(translation) => translation.request(&server, request, cx).await,
            }
            .map(Reply::Verbatim)
        });
        permit.answer(&server, answering).await
    }

    /// Forwards a notification of the client.
    pub(super) fn notification(&self, notification: Notification) {
        let notification = match &self.translation {
            None => Some(notification),
            Some(translation) => translation.notification(notification),
        };
        let Some(notification) = notification else { return };
        if notification.method == Method::RootsListChanged
            && self.pair.questions.check(&Method::ListRoots).is_err()
        {
            return;
        }
        if self.pair.tasks.as_ref().is_some_and(|tasks| !tasks.concerns(&notification)) {
            return;
        }
        let sent = self.upstream.current().map(|server| server.connection().notify(notification));
        if !matches!(sent, Some(Ok(()))) {
            tracing::debug!(target: "mcpjoin", ?sent, "a notification of a client was not forwarded");
        }
    }
}

impl Cancels for TargetSession {
    fn cancel(&self, cancelled: &Notification) {
        if self.pair.portable.as_ref().is_some_and(|portable| portable.is_shared())
            && let Some(cancelled) = cancellations::for_target(cancelled)
        {
            self.notification(cancelled);
        }
    }
}

/// The state of a client's session: that of its only target, with the name of the target.
impl StoredSession for TargetSession {
    fn state(&self) -> Option<Raw> {
        let state = Payload::from_raw(Raw::empty_object())
            .with_member("target", &Raw::string(&self.settings.name))
            .with_member("session", &Self::state(self)?);
        Some(state.into_raw())
    }

    fn stored(&self, stored: bool) {
        Self::stored(self, stored);
    }

    fn listens(&self, listens: bool) {
        Self::listens(self, listens);
    }

    fn ended(&self) {
        Self::ended(self);
    }
}

/// There is one target, which has asked whatever was asked.
impl Answers for TargetSession {
    fn answer(&self, _: &str, id: RequestId, outcome: Result<Payload, ErrorObject>) {
        let Some(portable) = &self.pair.portable else { return };
        let outcome = outcome.map(|result| self.pair.answer(result));
        portable.answer(id, outcome);
    }
}

/// Returns the state of the session with this target.
fn resumed(state: &Raw, target: &str) -> Option<Raw> {
    let name = state.member("target")?;
    state.member("session").filter(|_| name.to_string_value().as_deref() == Some(target))
}

/// A session with the time of its last use.
struct Session {
    pair: Arc<Pair>,
    handle: ClientHandle,
    last_use: Mutex<Instant>,
}

impl Session {
    fn touch(&self) {
        *self.last_use.lock() = Instant::now();
    }
}

impl ClientSession for Session {
    fn idle_since(&self) -> Option<Instant> {
        let connection = self.handle.connection()?;
        let last_use = *self.last_use.lock();
        (connection.in_flight() == (0, 0)).then_some(last_use)
    }

    fn is_connected(&self) -> bool {
        self.pair.is_connected()
    }

    fn end(&self) {
        self.handle.drain();
    }
}

/// A request in progress. Its end counts as a use of the session.
struct InProgress<'a>(&'a Session);

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.0.touch();
    }
}

/// The role that the gateway takes towards the client: that of the server. `tools_may_change`: a server with tools
/// declares that their list changes.
fn role_of(server: &Client, tools_may_change: bool) -> ServerRole {
    let peer = server.peer();
    let mut capabilities = match &peer.capabilities {
        PeerCapabilities::Server(capabilities) => (**capabilities).clone(),
        PeerCapabilities::Client(_) => Default::default(),
    };
    let info = peer.info.as_deref().cloned().unwrap_or_else(|| Implementation::new("", ""));
    let tools = capabilities.tools.as_mut().filter(|_| tools_may_change);
    let declares = tools.map(|tools| tools.list_changed = Some(true)).is_some();
    let mut role = ServerRole::new(info, capabilities);
    role.instructions.clone_from(&peer.instructions);
    role.versions = vec![peer.profile.version.clone()];
    role.presents =
        peer.presented.clone().map(|result| if declares { with_list_changed(result) } else { result });
    role.relays = true;
    role.lenient_opening = true;
    role
}

/// The result of `initialize` with the declaration that the list of tools changes.
fn with_list_changed(result: Raw) -> Raw {
    let Some(capabilities) = result.member("capabilities") else { return result };
    let Some(tools) = capabilities.member("tools") else { return result };
    let tools = Payload::from_raw(tools)
        .with_member("listChanged", &Raw::from_value(&true).unwrap_or_else(|_| Raw::null()));
    let capabilities = Payload::from_raw(capabilities).with_member("tools", tools.raw());
    Payload::from_raw(result).with_member("capabilities", capabilities.raw()).into_raw()
}

/// Answers the requests of a client whose only server this is.
struct Relayed(Arc<TargetSession>);

impl Handler for Relayed {
    async fn request(&self, request: Request, cx: Context) -> Result<Reply, ErrorObject> {
        self.0.request(request, &cx).await
    }

    async fn notification(&self, notification: Notification, _: Context) {
        self.0.notification(notification);
    }
}
