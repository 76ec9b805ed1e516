//! The connection of a legacy client: its handler, and what serves it from its first request to its end.

use std::sync::{Arc, Mutex, PoisonError};

use mcpjoin_proto::session::{CloseCause, LinkEnd, PeerCapabilities, Reply, Role, ServerRole};
use mcpjoin_proto::types::Implementation;
use mcpjoin_proto::{ErrorObject, Notification, Profile, Request};
use tokio::time::Instant;

use super::end::{GatewayEnd, Refusal};
use super::filter::Filter;
use super::legacy_to_modern::{self, LegacyToModern};
use super::opening::{First, Opening};
use super::pair::{FromServer, Pair};
use super::places::Session;
use super::serving::{FAREWELL, Hold};
use super::telling::Telling;
use super::upstream::Upstream;
use super::{Shared, filter};
use mcpjoin::client::Client;
use mcpjoin::connection::{Connection, Context, Setup};
use mcpjoin::handler::Handler;

/// Answers a legacy client by asking its server.
struct FromClient {
    pair: Arc<Pair>,
    used: Arc<Used>,
    upstream: Arc<Upstream>,
    /// Where the server is of the modern era.
    translation: Option<LegacyToModern>,
    filter: Filter,
    telling: Telling,
}

/// When a session was used last.
struct Used {
    pair: Arc<Pair>,
    hold: Hold,
    last: Mutex<Instant>,
}

impl Used {
    fn touch(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

impl Session for Used {
    fn idle_since(&self) -> Option<Instant> {
        let connection = self.hold.connection()?;
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        (connection.in_flight() == (0, 0)).then_some(last)
    }

    fn is_attended(&self) -> bool {
        self.pair.is_attended()
    }

    fn end(&self) {
        self.hold.drain();
    }
}

/// A request is under way, until this is dropped.
struct InUse<'a>(&'a Used);

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.0.touch();
    }
}

impl Shared {
    /// Serves a client that has opened with `initialize`.
    pub(super) async fn serve_legacy(
        &self,
        mut opening: Opening,
        first: First,
        hold: &Hold,
        telling: Telling,
    ) -> GatewayEnd {
        let (exchanges, heard) = (opening.caps().exchanges, opening.heard());
        let pair = Pair::new(self.settings.timeout, exchanges, heard, telling.clone());
        let session =
            Arc::new(Used { pair: pair.clone(), hold: hold.clone(), last: Mutex::new(Instant::now()) });
        let answers = FromServer(pair.clone());
        let asked_for = first.wanted.version.clone();
        let start = async {
            let account = first.whose.into_account();
            let place = self.pools.place(&self.places, &account, None).await?;
            place.set_session(session.clone());
            Upstream::start(&self.settings, place, &self.spoken, first.wanted, answers).await
        };
        let upstream = match opening.waiting(start).await {
            Ok(Ok(upstream)) => Arc::new(upstream),
            Ok(Err(refusal)) => return self.refuse(opening, &first.id, refusal, &telling).await,
            Err(left) => return left_while_waiting(opening, left).await,
        };
        let Some(server) = upstream.current() else {
            let refusal = match upstream.client().await {
                Err(why) => Refusal::Gone(Box::new(why)),
                Ok(_) => Refusal::Closed,
            };
            return self.refuse(opening, &first.id, refusal, &telling).await;
        };
        let mut role = role_of(&server);
        let modern = !server.profile().initialize;
        if modern {
            role = legacy_to_modern::role_of(role, &server, asked_for.as_ref());
        }
        let translation = role.versions.first().and_then(Profile::of).filter(|_| modern).map(|profile| {
            let timeout = self.settings.timeout;
            LegacyToModern::new(profile, timeout, pair.clone(), &upstream, &server)
        });
        let setup = Setup {
            role: Role::Server(Arc::new(role)),
            limits: self.settings.limits.clone(),
            on_violation: None,
            notification_observer: None,
        };
        drop(server);
        let handler = FromClient {
            pair: pair.clone(),
            used: session,
            upstream: upstream.clone(),
            translation,
            filter: filter::of(&self.settings),
            telling,
        };
        let (connection, driver) = Connection::new(opening.into_link(), setup, Arc::new(handler));
        pair.connect(connection.clone());
        hold.connected(connection.clone());
        driver.await;
        upstream.end();
        upstream.close().await;
        GatewayEnd::Client(connection.closed().await)
    }

    /// Tells a client that there is no server for it.
    pub(super) async fn refuse(
        &self,
        opening: Opening,
        id: &mcpjoin_proto::RequestId,
        refusal: Refusal,
        telling: &Telling,
    ) -> GatewayEnd {
        self.tell_refused(&refusal);
        opening.refuse(id, refusal.to_error_object(telling), FAREWELL).await;
        GatewayEnd::NoServer(refusal)
    }
}

/// A client has left before there was a server for it.
pub(super) async fn left_while_waiting(opening: Opening, left: LinkEnd) -> GatewayEnd {
    opening.close(FAREWELL).await;
    GatewayEnd::Client(CloseCause::Link(left))
}

/// What the server is, for its client.
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
        self.used.touch();
        let _in_use = InUse(&self.used);
        self.filter.check(&request)?;
        let server = self.upstream.client().await.map_err(|why| self.telling.gone(why))?;
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
        let told = self.upstream.current().map(|server| server.connection().notify(notification));
        if !matches!(told, Some(Ok(()))) {
            tracing::debug!(target: "mcpjoin", ?told, "a notification of a client was not handed on");
        }
    }
}
