//! Modern clients, and what their servers ask and tell.
//!
//! Each request of the era says what its client can do, so each finds its server by that (`pools`); the most of a
//! connection's requests say the same. Where the server is of the legacy era,
//! [`modern_to_legacy`](super::modern_to_legacy) answers.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic>

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcpjoin_proto::session::{Asker, Reply, Role, ServerRole};
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::types::{Implementation, ServerCapabilities};
use mcpjoin_proto::{Era, ErrorObject, Method, Notification, Payload, Raw, Request, Version};

use super::end::GatewayEnd;
use super::filter::{self, Filter};
use super::lanes::{InPool, Pool};
use super::legacy::left_while_waiting;
use super::modern_to_legacy::{ModernToLegacy, Untranslated};
use super::opening::{self, First, Opening};
use super::pools::Whose;
use super::relaying::{call, forward, forward_with};
use super::serving::Hold;
use super::telling::Telling;
use super::upstream::Answers;
use super::{Shared, discovery};
use mcpjoin::client::{Client, RestartError};
use mcpjoin::connection::{Connection, Context, Setup};
use mcpjoin::handler::Handler;

/// What a server of modern clients says, and to whom.
pub(super) struct Relay {
    pub(super) translation: Arc<ModernToLegacy>,
    /// Requests under way and streams that are open.
    under_way: AtomicUsize,
    /// The connection of the client that has the server for itself.
    client: Mutex<Option<Connection>>,
}

impl Shared {
    /// Serves a client that names its version in each request.
    pub(super) async fn serve_modern(
        self: &Arc<Self>,
        mut opening: Opening,
        first: First,
        hold: &Hold,
        telling: Telling,
    ) -> GatewayEnd {
        let streams = !opening.caps().exchanges;
        let own = streams.then(|| self.pools.own());
        let account = first.whose.clone().into_account();
        let whose = own.as_ref().map_or(first.whose, |own| own.whose());
        let start = self.pool(first.wanted, whose, account);
        let pool = match opening.waiting(start).await {
            Ok(Ok(pool)) => pool,
            Ok(Err(refusal)) => return self.refuse(opening, &first.id, refusal, &telling).await,
            Err(left) => return left_while_waiting(opening, left).await,
        };
        let info = pool.home.upstream.current().and_then(|server| server.peer().info.as_deref().cloned());
        let info = info.unwrap_or_else(|| Implementation::new("", ""));
        let mut role = ServerRole::new(info, ServerCapabilities::default());
        role.versions = vec![Version::newest(Era::Modern)];
        role.relays = true;
        let setup = Setup {
            role: Role::Server(role.into()),
            limits: self.settings.limits.clone(),
            on_violation: None,
            notification_observer: None,
        };
        drop(pool);
        let seen = Arc::new(Seen::default());
        let handler = FromClient {
            shared: self.clone(),
            last: seen.clone(),
            filter: filter::of(&self.settings),
            telling,
            own: own.as_ref().map(|own| own.whose()),
        };
        let (connection, driver) = Connection::new(opening.into_link(), setup, Arc::new(handler));
        hold.connected(connection.clone());
        driver.await;
        seen.leave();
        if let Some(own) = own {
            own.close().await;
        }
        GatewayEnd::Client(connection.closed().await)
    }
}

/// Answers modern clients by asking their server.
struct FromClient {
    shared: Arc<Shared>,
    last: Arc<Seen>,
    filter: Filter,
    telling: Telling,
    /// The connection is this one client's alone, and it can be told what belongs to no request.
    own: Option<Whose>,
}

/// The servers of the last request, and whoever made it.
#[derive(Default)]
struct Seen(Mutex<Option<Last>>);

struct Last {
    asker: Arc<Asker>,
    whose: Whose,
    pool: Arc<Pool>,
}

impl Seen {
    fn lock(&self) -> MutexGuard<'_, Option<Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pool is of no use any more, or the connection is over.
    fn leave(&self) {
        let last = self.lock().take();
        if let Some(last) = last {
            last.pool.home.relay.set_client(None);
        }
    }
}

impl FromClient {
    async fn pool(&self, request: &Request, cx: &Context) -> Result<Arc<Pool>, ErrorObject> {
        let asker = cx.asker().cloned().unwrap_or_default();
        let by_origin = cx.origin().map_or(Whose::Anybody, |origin| Whose::of(origin));
        let whose = self.own.clone().unwrap_or_else(|| by_origin.clone());
        if let Some(last) = &*self.last.lock()
            && Arc::ptr_eq(&last.asker, &asker)
            && last.whose == whose
            && !last.pool.is_spent()
        {
            return Ok(last.pool.clone());
        }
        let wanted = request.params.as_ref().and_then(opening::modern);
        let wanted =
            wanted.ok_or_else(|| ErrorObject::invalid_params("the request does not say who asks"))?;
        let account = by_origin.into_account();
        let pool = loop {
            let pool = self.shared.pool(wanted.clone(), whose.clone(), account.clone()).await.map_err(
                |refusal| {
                    self.shared.tell_refused(&refusal);
                    refusal.to_error_object(&self.telling)
                },
            )?;
            if !pool.is_spent() {
                break pool;
            }
            self.shared.pools.forget(&pool);
            pool.end();
        };
        if self.own.is_some() {
            pool.home.relay.set_client(Some(cx.connection()));
        }
        *self.last.lock() = Some(Last { asker, whose, pool: pool.clone() });
        Ok(pool)
    }
}

impl Handler for FromClient {
    async fn request(&self, request: Request, cx: Context) -> Result<Reply, ErrorObject> {
        self.filter.check(&request)?;
        let (timeout, telling) = (self.shared.settings.timeout, &self.telling);
        let method = request.method.clone();
        let (pool, server, _under_way) = loop {
            let pool = self.pool(&request, &cx).await?;
            // Before anything is waited for: a server that is in use makes no room for others.
            let under_way = pool.home.relay.enter();
            match pool.home.upstream.client().await {
                Ok(server) => break (pool, server, under_way),
                Err(why) => {
                    // The next client gets another one.
                    self.shared.pools.forget(&pool);
                    self.last.leave();
                    // And so does this one, if the server was ended to make room while nobody used it.
                    if !matches!(why, RestartError::Closed) {
                        return Err(telling.gone(why));
                    }
                }
            }
        };
        let lanes = InPool { pool: &pool, shared: &self.shared, telling };
        let translation = &pool.home.relay.translation;
        let reply = match (server.profile().initialize, &method) {
            (false, Method::Listen) => listen(&server, request, &cx, timeout, telling).await?,
            (false, _) => {
                let begun = translation.begin_untranslated(&server, &cx);
                ask(&server, request, &cx, timeout, telling, begun).await?
            }
            (true, Method::Discover) => discovery::of_legacy(&server)?,
            (true, Method::Listen) => tokio::select! {
                biased;
                // A stream outlives the runs of a server, and ends with the last of them.
                why = pool.home.upstream.over() => return Err(telling.gone(why)),
                reply = translation.request(&lanes, &server, request, cx.clone(), telling) => reply?,
            },
            (true, _) => translation.request(&lanes, &server, request, cx.clone(), telling).await?,
        };
        if self.own.is_none() && method == Method::ListTools {
            match &reply {
                Reply::Verbatim(list) => self.shared.marks.learn(list),
                Reply::Complete(list) => self.shared.marks.learn(&Payload::from_raw(list.clone())),
                _ => {}
            }
        }
        match reply {
            Reply::Verbatim(result) => self.filter.apply(&method, result).map(Reply::Verbatim),
            Reply::Complete(result) => {
                let result = self.filter.apply(&method, Payload::from_raw(result))?;
                Ok(Reply::Complete(result.into_raw()))
            }
            reply => Ok(reply),
        }
    }

    async fn notification(&self, notification: Notification, _: Context) {
        // Over HTTP it belongs to no request, and its server is not known: the connection is used by one client after another.
        if self.own.is_none() {
            return;
        }
        let server = self.last.lock().as_ref().and_then(|last| last.pool.home.upstream.current());
        let told = server.map(|server| server.connection().notify(notification));
        if !matches!(told, Some(Ok(()))) {
            tracing::debug!(target: "mcpjoin", ?told, "a notification of a client was not handed on");
        }
    }
}

/// Asks a modern server what a modern client has asked: the same request, with the token of its progress alone changed.
async fn ask(
    server: &Client,
    request: Request,
    cx: &Context,
    timeout: Duration,
    telling: &Telling,
    begun: Untranslated,
) -> Result<Reply, ErrorObject> {
    let call = call(request.method, request.params, cx, timeout);
    let outcome = forward(server.connection().call(call), cx).await;
    begun.is_over(&outcome);
    drop(begun);
    match outcome {
        Ok(result) => Ok(Reply::Verbatim(result)),
        Err(error) => Err(telling.ended(error, server.connection()).await),
    }
}

/// The same for a stream of notifications, which have its name in them: the client's in the place of ours.
async fn listen(
    server: &Client,
    request: Request,
    cx: &Context,
    timeout: Duration,
    telling: &Telling,
) -> Result<Reply, ErrorObject> {
    let name = Raw::parse(cx.request_id().map(ToString::to_string).unwrap_or_default())
        .map_err(|error| ErrorObject::internal(error.to_string()))?;
    let call = call(request.method, request.params, cx, timeout);
    let named = |notification: Notification| {
        let params = notification.params.map(|params| params.with_meta_member(key::SUBSCRIPTION_ID, &name));
        Notification { params, ..notification }
    };
    match forward_with(server.connection().call(call), cx, named).await {
        Ok(result) => Ok(Reply::Verbatim(result.with_meta_member(key::SUBSCRIPTION_ID, &name))),
        Err(error) => Err(telling.ended(error, server.connection()).await),
    }
}

impl Relay {
    pub(super) fn new(translation: ModernToLegacy) -> Self {
        let (under_way, client) = (AtomicUsize::new(0), Mutex::default());
        Self { translation: Arc::new(translation), under_way, client }
    }

    /// Whether no request is under way, and no stream open.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) == 0
    }

    /// Notes a request that is under way, until what this gives is dropped.
    fn enter(self: &Arc<Self>) -> UnderWay {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(self.clone())
    }

    fn client(&self) -> MutexGuard<'_, Option<Connection>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One client has the server for itself, and can be told what belongs to no request.
    fn set_client(&self, client: Option<Connection>) {
        *self.client() = client;
    }

    /// What a modern server says beside its streams, and not on the way of a request. Where clients share the server it is a
    /// log message of the only call, or nobody's.
    fn tell(&self, notification: Notification) {
        let client = self.client().clone();
        let is_log = notification.method == Method::LogMessage;
        let told = match (client, self.translation.hearer(&notification)) {
            (Some(client), _) if !is_log => client.notify(notification),
            (_, Some(cx)) => cx.notify(notification),
            (Some(client), None) => client.notify(notification),
            (None, None) => {
                tracing::debug!(target: "mcpjoin", method = %notification.method, "a notification has no recipient");
                return;
            }
        };
        if let Err(error) = told {
            tracing::debug!(target: "mcpjoin", %error, "a notification was not handed on");
        }
    }
}

/// A request that is under way.
struct UnderWay(Arc<Relay>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
        self.0.translation.ended();
    }
}

/// What a server that is shared asks and tells.
#[derive(Clone)]
pub(super) struct FromServer(pub(super) Arc<Relay>);

impl Handler for FromServer {
    async fn request(&self, request: Request, cx: Context) -> Result<Reply, ErrorObject> {
        self.0.translation.upstream_request(request, cx).await
    }

    async fn notification(&self, notification: Notification, cx: Context) {
        match cx.profile().map(|profile| profile.initialize) {
            Some(false) => self.0.tell(notification),
            _ => self.0.translation.upstream_notification(notification),
        }
    }
}

impl Answers for FromServer {
    async fn began(&self, client: &Client) {
        if client.profile().initialize {
            self.0.translation.began(client).await;
        }
    }
}
