//! Clients of the legacy era: serves one session, which has a server for itself.
//!
//! If the server is of the modern era, [`legacy_to_modern`](super::legacy_to_modern) answers; otherwise requests are
//! relayed unchanged (`pair`).

use std::sync::Arc;

use mcpjoin_proto::session::{PeerCapabilities, Reply, Role, ServerRole};
use mcpjoin_proto::types::Implementation;
use mcpjoin_proto::{ErrorObject, Notification, Profile, Request};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::call_record::Recorded;
use super::capacity::ClientSession;
use super::client::ClientHandle;
use super::end::{GatewayEnd, Refusal};
use super::errors::ErrorTexts;
use super::legacy_to_modern::{self, LegacyToModern};
use super::opening::{First, Opening};
use super::pair::{FromServer, Pair};
use super::pools::Pools;
use super::tools::ToolFilter;
use super::upstream::Upstream;
use mcpjoin::client::Client;
use mcpjoin::connection::{Connection, Context, Layers, Setup};
use mcpjoin::handler::Handler;

/// Serves a client that has sent `initialize`.
pub(super) async fn serve(
    pools: &Pools,
    mut opening: Opening,
    first: First,
    handle: &ClientHandle,
    errors: ErrorTexts,
) -> GatewayEnd {
    let settings = &pools.launcher.settings;
    let (exchanges, has_listener) = (opening.caps().exchanges, opening.has_listener());
    let pair = Pair::new(settings.timeout, exchanges, has_listener, errors.clone());
    let session = Arc::new(Session {
        pair: pair.clone(),
        handle: handle.clone(),
        last_use: Mutex::new(Instant::now()),
    });
    let from_server = FromServer(pair.clone());
    let asked_for = first.hello.version.clone();
    let start = async {
        let account = first.caller.into_account();
        let slot = pools.slot(&account, None).await?;
        slot.set_session(session.clone());
        pools.launcher.start(slot, first.hello, from_server).await
    };
    let refusal = match opening.wait_for(start).await {
        Ok(Ok(upstream)) => match upstream.current() {
            Some(server) => Ok((Arc::new(upstream), server)),
            None => Err(match upstream.client().await {
                Err(why) => Refusal::Gone(Box::new(why)),
                Ok(_) => Refusal::Closed,
            }),
        },
        Ok(Err(refusal)) => Err(refusal),
        Err(left) => return opening.client_left(left).await,
    };
    let (upstream, server) = match refusal {
        Ok(started) => started,
        Err(refusal) => {
            let error = pools.refused(&refusal, &errors);
            return opening.refuse(&first.request.id, error, refusal).await;
        }
    };
    let mut role = role_of(&server);
    let is_modern = !server.profile().initialize;
    if is_modern {
        role = legacy_to_modern::role_of(role, &server, asked_for.as_ref());
    }
    let translation = role
        .versions
        .first()
        .and_then(Profile::of)
        .filter(|_| is_modern)
        .map(|profile| LegacyToModern::new(profile, settings.timeout, pair.clone(), &upstream, &server));
    let setup = Setup {
        role: Role::Server(Arc::new(role)),
        limits: settings.limits.clone(),
        on_violation: None,
        notification_observer: None,
        layers: Layers::default(),
    };
    drop(server);
    let handler = FromClient {
        pair: pair.clone(),
        session,
        upstream: upstream.clone(),
        translation,
        filter: ToolFilter::new(settings),
        errors,
    };
    let (connection, driver) =
        Connection::new(opening.into_link(), setup, Arc::new(Recorded::new(handler, settings)));
    pair.connect(connection.clone());
    handle.connected(connection.clone());
    driver.await;
    upstream.end();
    upstream.close().await;
    GatewayEnd::Client(connection.closed().await)
}

/// Answers the requests of a legacy client.
struct FromClient {
    pair: Arc<Pair>,
    session: Arc<Session>,
    upstream: Arc<Upstream>,
    /// Set if the server is of the modern era.
    translation: Option<LegacyToModern>,
    filter: ToolFilter,
    errors: ErrorTexts,
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

/// The role that the gateway takes towards the client: that of the server.
fn role_of(server: &Client) -> ServerRole {
    let peer = server.peer();
    let capabilities = match &peer.capabilities {
        PeerCapabilities::Server(capabilities) => (**capabilities).clone(),
        PeerCapabilities::Client(_) => Default::default(),
    };
    let info = peer.info.as_deref().cloned().unwrap_or_else(|| Implementation::new("", ""));
    let mut role = ServerRole::new(info, capabilities);
    role.instructions.clone_from(&peer.instructions);
    role.versions = vec![peer.profile.version.clone()];
    role.presents.clone_from(&peer.presented);
    role.relays = true;
    role.lenient_opening = true;
    role
}

impl Handler for FromClient {
    async fn request(&self, request: Request, cx: Context) -> Result<Reply, ErrorObject> {
        self.session.touch();
        let _in_progress = InProgress(&self.session);
        self.filter.check(&request)?;
        let server = self.upstream.client().await.map_err(|why| self.errors.gone(why))?;
        let method = request.method.clone();
        let result = match &self.translation {
            None => self.pair.ask_server(&server, request, &cx).await?,
            Some(translation) => translation.request(&server, request, &cx).await?,
        };
        Ok(Reply::Verbatim(self.filter.apply(&method, result)?))
    }

    async fn notification(&self, notification: Notification, _: Context) {
        let notification = match &self.translation {
            None => Some(notification),
            Some(translation) => translation.notification(notification),
        };
        let Some(notification) = notification else { return };
        let sent = self.upstream.current().map(|server| server.connection().notify(notification));
        if !matches!(sent, Some(Ok(()))) {
            tracing::debug!(target: "mcpjoin", ?sent, "a notification of a client was not forwarded");
        }
    }
}
