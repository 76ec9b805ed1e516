//! Modern clients, and what their servers ask and tell.
//!
//! Each request of the era says what its client can do, so each finds its server by that (`pools`); the most of a
//! connection's requests say the same. Where the server is of the legacy era,
//! [`modern_to_legacy`](super::modern_to_legacy) answers.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic>

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcpjoin_proto::session::{Asker, Reply, Role, ServerRole};
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::types::{Implementation, LoggingLevel, ServerCapabilities};
use mcpjoin_proto::{Era, ErrorObject, Method, Notification, Payload, Raw, Request, Version};

use super::end::GatewayEnd;
use super::filter::{self, Filter};
use super::lanes::{InPool, Pool};
use super::legacy::left_while_waiting;
use super::modern_to_legacy::ModernToLegacy;
use super::opening::{self, First, Opening};
use super::pools::Whose;
use super::relaying::{call, forward, forward_with};
use super::serving::Hold;
use super::telling::Telling;
use super::upstream::Answers;
use super::{Shared, discovery};
use crate::client::{Client, NoClient};
use crate::connection::{Connection, Context, Setup};
use crate::handler::Handler;

/// What a server that is shared says, and to whom.
pub(super) struct Relay {
    pub(super) translation: Arc<ModernToLegacy>,
    state: Mutex<Under>,
    numbers: AtomicU64,
}

#[derive(Default)]
struct Under {
    /// The requests under way, in the order in which they came.
    way: BTreeMap<u64, Context>,
    /// How many streams are open.
    listens: usize,
    /// The connections of clients that can be told what belongs to no request.
    streams: BTreeMap<u64, Connection>,
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
        let whose = own.as_ref().map_or(first.whose, |own| own.whose());
        let start = self.pool(first.wanted, whose);
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
            overhears: None,
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
    /// Under which number the connection is told what belongs to no request.
    stream: Option<u64>,
}

impl Seen {
    fn lock(&self) -> MutexGuard<'_, Option<Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection is over.
    fn leave(&self) {
        let last = self.lock().take();
        if let Some(last) = last {
            last.leave();
        }
    }
}

impl Last {
    fn leave(&self) {
        if let Some(number) = self.stream {
            self.pool.home.relay.lock().streams.remove(&number);
        }
    }
}

impl FromClient {
    async fn pool(&self, request: &Request, cx: &Context) -> Result<Arc<Pool>, ErrorObject> {
        let asker = cx.asker().cloned().unwrap_or_default();
        let by_origin = || cx.origin().map_or(Whose::Anybody, |origin| Whose::of(origin));
        let whose = self.own.clone().unwrap_or_else(by_origin);
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
        let pool = loop {
            let pool = self.shared.pool(wanted.clone(), whose.clone()).await.map_err(|refusal| {
                self.shared.tell_refused(&refusal);
                refusal.to_error_object(&self.telling)
            })?;
            if !pool.is_spent() {
                break pool;
            }
            self.shared.pools.forget(&pool);
            pool.end();
        };
        let stream = self.own.is_some().then(|| pool.home.relay.listen(cx.connection()));
        let last = self.last.lock().replace(Last { asker, whose, pool: pool.clone(), stream });
        if let Some(last) = last {
            last.leave();
        }
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
            let under_way = pool.home.relay.enter(&method, &cx);
            match pool.home.upstream.client().await {
                Ok(server) => break (pool, server, under_way),
                Err(why) => {
                    // The next client gets another one.
                    self.shared.pools.forget(&pool);
                    self.last.leave();
                    // And so does this one, if the server was ended to make room while nobody used it.
                    if !matches!(why, NoClient::Closed) {
                        return Err(telling.gone(why));
                    }
                }
            }
        };
        let lanes = InPool { pool: &pool, shared: &self.shared, telling };
        let translation = &pool.home.relay.translation;
        let reply = match (server.profile().initialize, &method) {
            (false, Method::Listen) => listen(&server, request, &cx, timeout, telling).await?,
            (false, _) => ask(&server, request, &cx, timeout, telling).await?,
            (true, Method::Discover) => discovery::of_legacy(&server)?,
            (true, Method::Listen) => tokio::select! {
                biased;
                // A stream outlives the runs of a server, and ends with the last of them.
                why = pool.home.upstream.over() => return Err(telling.gone(why)),
                reply = translation.request(&lanes, &server, request, cx.clone(), telling) => reply?,
            },
            (true, _) => translation.request(&lanes, &server, request, cx.clone(), telling).await?,
        };
        #[cfg(feature = "http")]
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
) -> Result<Reply, ErrorObject> {
    let call = call(request.method, request.params, cx, timeout);
    match forward(server.connection().call(call), cx).await {
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
        Self { translation: Arc::new(translation), state: Mutex::default(), numbers: AtomicU64::new(0) }
    }

    /// Whether no request is under way, and no stream open.
    pub(super) fn is_idle(&self) -> bool {
        let under = self.lock();
        under.way.is_empty() && under.listens == 0
    }

    fn lock(&self) -> MutexGuard<'_, Under> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a request that is under way, until what this gives is dropped.
    fn enter(self: &Arc<Self>, method: &Method, cx: &Context) -> UnderWay {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let mut under = self.lock();
        let listens = *method == Method::Listen;
        if listens {
            under.listens += 1;
        } else {
            under.way.insert(number, cx.clone());
        }
        UnderWay { relay: self.clone(), number, listens }
    }

    fn listen(&self, connection: Connection) -> u64 {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.lock().streams.insert(number, connection);
        number
    }

    /// What a modern server says beside its streams. A log message belongs to a request, and does not say to which: it
    /// goes to the oldest of those that want it, and where none does only to a client that has the server for itself.
    /// Anything else goes to every client that can be told.
    fn tell(&self, notification: Notification) {
        let under = self.lock();
        let streams: Vec<Connection> = under.streams.values().cloned().collect();
        let oldest = || under.way.values().next().cloned();
        let (one, streams) = match notification.method {
            Method::LogMessage => {
                let level = level_of(&notification);
                let wants = |cx: &&Context| {
                    let from = cx.request().and_then(|request| request.log_level);
                    from.is_some_and(|from| level.is_none_or(|level| level >= from))
                };
                let is_alone = |only: &Connection| under.way.values().all(|cx| cx.connection().is(only));
                match under.way.values().find(wants).cloned() {
                    Some(cx) => (Some(cx), Vec::new()),
                    None if streams.len() == 1 && streams.iter().all(is_alone) => (oldest(), streams),
                    None => (None, Vec::new()),
                }
            }
            _ if streams.is_empty() => (oldest(), streams),
            _ => (None, streams),
        };
        drop(under);
        let refused = |error| tracing::debug!(target: "mcpjoin", %error, "a notification was not handed on");
        if let Some(cx) = one {
            return cx.notify(notification).unwrap_or_else(refused);
        }
        // One that takes no more takes nothing from the others.
        for client in streams {
            client.notify(notification.clone()).unwrap_or_else(refused);
        }
    }
}

fn level_of(notification: &Notification) -> Option<LoggingLevel> {
    notification.params.as_ref()?.raw().member("level")?.decode().ok()
}

/// A request that is under way.
struct UnderWay {
    relay: Arc<Relay>,
    number: u64,
    listens: bool,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut under = self.relay.lock();
        if self.listens {
            under.listens -= 1;
        } else {
            under.way.remove(&self.number);
        }
        drop(under);
        self.relay.translation.ended();
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
