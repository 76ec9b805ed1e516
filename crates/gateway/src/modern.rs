//! Clients of the modern era: serves one connection of such a client.
//!
//! Each request of the era carries the client's capabilities, so each request finds its pool of servers by them
//! (`pools`). Usually all requests of a connection find the same pool, which is remembered. If the server is of the
//! legacy era, [`modern_to_legacy`](super::modern_to_legacy) answers; otherwise the request is relayed unchanged.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic>

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mcpjoin_proto::session::{ClientInfo, Reply, ServerRole};
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::types::{Implementation, ServerCapabilities};
use mcpjoin_proto::{Era, ErrorObject, Method, Notification, Raw, Request, Version};
use parking_lot::Mutex;

use super::call_record::{record_refused, recorded};
use super::capacity::Caller;
use super::client::ClientHandle;
use super::end::GatewayEnd;
use super::errors::ErrorTexts;
use super::modern_to_legacy::discover_result;
use super::opening::{self, First, Opening};
use super::policy::{ClientPolicy, Counting};
use super::pool::{InUse, Pool};
use super::pools::{ConnectionPools, Pools};
use super::relay::{StreamSink, call, forward_to, to_request, with_subscription_id};
use super::request_state;
use super::settings::Settings;
use super::tools::HeaderMarks;
use mcpjoin::client::{Client, RestartError};
use mcpjoin::connection::Context;
use mcpjoin::handler::Handler;
use mcpjoin::transport::Replicas;

/// Serves a client that gives its version in each request.
pub(super) async fn serve(
    pools: &Arc<Pools>,
    header_marks: &Arc<HeaderMarks>,
    opening: Box<Opening>,
    first: First,
    handle: &ClientHandle,
    errors: ErrorTexts,
) -> GatewayEnd {
    let own = (!opening.caps().exchanges).then(|| pools.of_connection());
    let settings = &pools.launcher.settings;
    // In a box that is freed when there is a server.
    let opened = Box::pin(open(pools, own.as_ref(), opening, first, &errors)).await;
    let (opening, pool) = match opened {
        Ok(opened) => opened,
        Err(end) => return end,
    };
    let info = pool.first.upstream.current().and_then(|server| server.peer().info.as_deref().cloned());
    let info = info.unwrap_or_else(|| Implementation::new("", ""));
    let mut role = ServerRole::new(info, ServerCapabilities::default());
    role.versions = vec![Version::newest(Era::Modern)];
    role.relays = true;
    drop(pool);
    let target = Arc::new(TargetRequests::new(pools, own, errors, Counting::Here));
    let handler = Relayed { target: target.clone(), header_marks: header_marks.clone() };
    let (connection, driver) =
        settings.telemetry.connection(opening.into_link(), role, settings.limits.clone(), handler);
    handle.connected(connection.clone());
    driver.await;
    target.close().await;
    GatewayEnd::Client(connection.closed().await)
}

/// Opens the first server of the client's pool.
async fn open(
    pools: &Arc<Pools>,
    own: Option<&ConnectionPools>,
    mut opening: Box<Opening>,
    first: First,
    errors: &ErrorTexts,
) -> Result<(Box<Opening>, Arc<Pool>), GatewayEnd> {
    let account = first.caller.clone().into_account();
    let caller = own.map_or(first.caller, |own| own.caller.clone());
    let start = pin!(pools.pool(first.hello, caller, account));
    match opening.wait_for(start).await {
        Ok(Ok(pool)) => Ok((opening, pool)),
        Ok(Err(refusal)) => {
            let error = pools.refused(&refusal, errors);
            let settings = &pools.launcher.settings;
            record_refused(settings, &first.request, first.origin, &error, refusal.is_of_limit());
            Err(opening.refuse(&first.request.id, error, refusal).await)
        }
        Err(left) => Err(opening.client_left(left, &first.request.id, errors).await),
    }
}

/// Answers the requests of a modern client at the servers of one target.
pub(super) struct TargetRequests {
    pools: Arc<Pools>,
    last_pool: LastPool,
    policy: ClientPolicy,
    errors: ErrorTexts,
    /// Set if the connection belongs to one client, which can receive notifications that belong to no request.
    own: Option<ConnectionPools>,
}

/// The pool of the last request on this connection, with the sender of that request.
#[derive(Default)]
struct LastPool(Mutex<Option<Last>>);

struct Last {
    client: Arc<ClientInfo>,
    caller: Caller,
    pool: Arc<Pool>,
}

impl LastPool {
    fn forget(&self) {
        let last = self.0.lock().take();
        if let Some(last) = last {
            last.pool.first.relay.set_client(None);
        }
    }
}

impl TargetRequests {
    pub(super) fn new(
        pools: &Arc<Pools>,
        own: Option<ConnectionPools>,
        errors: ErrorTexts,
        counting: Counting,
    ) -> Self {
        let policy = ClientPolicy::new(&pools.launcher.settings, counting);
        Self { pools: pools.clone(), last_pool: LastPool::default(), policy, errors, own }
    }

    /// Ends the servers that the connection has for itself, and waits until nothing of them is left.
    pub(super) async fn close(&self) {
        self.last_pool.forget();
        if let Some(own) = &self.own {
            own.close().await;
        }
    }

    async fn pool(&self, request: &Request, cx: &Context) -> Result<Arc<Pool>, ErrorObject> {
        let client = cx.client().cloned().unwrap_or_default();
        let by_origin = Caller::of_request(cx);
        let caller = self.own.as_ref().map_or_else(|| by_origin.clone(), |own| own.caller.clone());
        if let Some(last) = &*self.last_pool.0.lock()
            && Arc::ptr_eq(&last.client, &client)
            && last.caller == caller
            && !last.pool.is_spent()
        {
            return Ok(last.pool.clone());
        }
        let hello = request.params.as_ref().and_then(opening::modern_hello);
        let hello = hello.ok_or_else(|| {
            ErrorObject::invalid_params(
                "the request does not identify its \
            client",
            )
        })?;
        let account = by_origin.into_account();
        let pool = loop {
            // In a box, because most requests find the pool of the last one.
            let pool = Box::pin(self.pools.pool(hello.clone(), caller.clone(), account.clone())).await;
            let pool = pool.map_err(|refusal| self.pools.refused(&refusal, &self.errors))?;
            if !pool.is_spent() {
                break pool;
            }
            self.pools.remove(&pool);
            pool.end();
        };
        if self.own.is_some() {
            pool.first.relay.set_client(Some(cx.connection()));
        }
        *self.last_pool.0.lock() = Some(Last { client, caller, pool: pool.clone() });
        Ok(pool)
    }

    /// The pool of the request, and the connection to its first server.
    async fn server(
        &self,
        request: &Request,
        cx: &Context,
    ) -> Result<(Arc<Pool>, Client, InUse), ErrorObject> {
        loop {
            let pool = self.pool(request, cx).await?;
            // Taken before anything is awaited, because an unused server may be ended for another client.
            let in_use = pool.first.relay.enter();
            let why = match pool.first.upstream.client().await {
                Ok(server) => return Ok((pool, server, in_use)),
                Err(why) => why,
            };
            // The next request starts a new pool.
            self.pools.remove(&pool);
            self.last_pool.forget();
            // So does this one if the server was ended for another client before it was in use.
            if !matches!(why, RestartError::Closed) {
                return Err(self.errors.gone(why));
            }
        }
    }

    /// Answers a request of the client. The notifications of a stream go to `sink`, by default to the request that
    /// opened it.
    pub(super) async fn request(
        &self,
        request: Request,
        cx: &Context,
        sink: Option<StreamSink>,
    ) -> Result<Reply, ErrorObject> {
        let settings = &self.pools.launcher.settings;
        recorded(settings, request, cx, |request| self.answer(request, cx, sink)).await
    }

    async fn answer(
        &self,
        request: Request,
        cx: &Context,
        sink: Option<StreamSink>,
    ) -> Result<Reply, ErrorObject> {
        let (request, mut permit) = self.policy.admit(request, cx)?;
        if let Some(sink) = &sink {
            permit = permit.telling(sink);
        }
        let settings = &self.pools.launcher.settings;
        let (timeout, errors) = (settings.timeout, &self.errors);
        let method = request.method.clone();
        let (pool, server, _in_use) = self.server(&request, cx).await?;
        let claim = || self.pools.claim(&pool, cx, errors);
        let translation = &pool.first.relay.translation;
        // The state of a call that waits for its client.
        let waiting = OnceLock::new();
        let answering = pin!(async {
            match (server.profile().initialize, &method) {
                (false, Method::Listen) => {
                    let sink = permitted(sink.unwrap_or_else(|| to_request(cx)), settings);
                    listen(&server, request, cx, &sink, timeout, errors).await
                }
                (false, _) => self.relay(&pool, &server, request, cx).await,
                (true, Method::Discover) => discover_result(&server),
                (true, Method::Listen) => {
                    let sink = sink.unwrap_or_else(|| to_request(cx));
                    tokio::select! {
                        biased;
                        // A stream lives through restarts of the server, and ends when the server is not restarted.
                        why = pool.first.upstream.over() => Err(errors.gone(why)),
                        reply = translation.listen(&server, request.params, cx, sink) => reply,
                    }
                }
                // In a box, because requests to a modern server need none of it.
                (true, _) => {
                    let reply =
                        Box::pin(translation.request(claim, &server, request, cx.clone(), errors)).await;
                    if let Ok(Reply::NeedInput(input)) = &reply
                        && let Some(state) = &input.request_state
                    {
                        let _ = waiting.set(state.clone());
                    }
                    reply
                }
            }
        });
        let answer = permit.answer(&server, answering).await;
        if let (Err(_), Some(state)) = (&answer, waiting.get()) {
            translation.give_up(state, cx);
        }
        answer
    }

    /// Relays a request to a modern server, unchanged but for the mark of a state that only this process can use.
    async fn relay(
        &self,
        pool: &Pool,
        server: &Client,
        request: Request,
        cx: &Context,
    ) -> Result<Reply, ErrorObject> {
        let (relay, errors) = (&pool.first.relay, &self.errors);
        let replicas = cx.extension::<Replicas>().filter(|_| relay.is_of_process());
        let Some(replicas) = replicas else {
            return relay.translation.relay_unchanged(server, request, cx, errors).await;
        };
        let request = request_state::restored(replicas, request);
        match relay.translation.relay_unchanged(server, request, cx, errors).await? {
            Reply::Verbatim(result) => Ok(Reply::Verbatim(request_state::marked(replicas, result))),
            reply => Ok(reply),
        }
    }

    /// Forwards a notification of the client. Over HTTP several clients use one connection in turn, so the server of a
    /// notification is unknown.
    pub(super) fn notification(&self, notification: Notification) {
        if self.own.is_none() {
            return;
        }
        let server = self.last_pool.0.lock().as_ref().and_then(|last| last.pool.first.upstream.current());
        let sent = server.map(|server| server.connection().notify(notification));
        if !matches!(sent, Some(Ok(()))) {
            tracing::debug!(target: "mcpjoin", ?sent, "a notification of a client was not forwarded");
        }
    }
}

/// Answers the requests of a client whose only target this is.
struct Relayed {
    target: Arc<TargetRequests>,
    header_marks: Arc<HeaderMarks>,
}

impl Handler for Relayed {
    async fn request(&self, request: Request, cx: Context) -> Result<Reply, ErrorObject> {
        let method = request.method.clone();
        let reply = self.target.request(request, &cx, None).await?;
        if self.target.own.is_none() && method == Method::ListTools {
            self.header_marks.learn_from(&Caller::of_request(&cx), &reply);
        }
        Ok(reply)
    }

    async fn notification(&self, notification: Notification, _: Context) {
        self.target.notification(notification);
    }
}

/// Drops the notifications of a stream in which the server asks what it may not ask. The response to `tasks/get` says so.
fn permitted(sink: StreamSink, settings: &Settings) -> StreamSink {
    let questions = ClientPolicy::questions(settings);
    Arc::new(move |notification| match questions.permits(&notification) {
        true => sink(notification),
        false => tracing::debug!(target: "mcpjoin", "a task asks what its server may not ask"),
    })
}

/// Relays `subscriptions/listen` to a modern server. The subscription id in its notifications becomes the client's.
async fn listen(
    server: &Client,
    request: Request,
    cx: &Context,
    sink: &StreamSink,
    timeout: Duration,
    errors: &ErrorTexts,
) -> Result<Reply, ErrorObject> {
    let id = Raw::parse(cx.request_id().map(ToString::to_string).unwrap_or_default())
        .map_err(|error| ErrorObject::internal(error.to_string()))?;
    let call = call(request.method, request.params, cx, timeout);
    let forward = |notification: Notification| {
        sink(with_subscription_id(notification, &id));
    };
    match forward_to(server.connection().call(call), cx, forward).await {
        Ok(result) => Ok(Reply::Verbatim(result.with_meta_member(key::SUBSCRIPTION_ID, &id))),
        Err(error) => Err(errors.call_error(error, server.connection()).await),
    }
}
