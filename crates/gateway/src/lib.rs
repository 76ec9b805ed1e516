//! Connects any client of the Model Context Protocol to any server, with one session on each side.
//!
//! A [`Gateway`] serves clients of every revision over every link. A function that the caller gives makes links to one
//! kind of server: a child process, an address, anything that gives a [`Link`]. Request ids, deadlines, cancellation,
//! limits and the envelope of an era belong to the two sessions. Parameters and results travel between them as text, so
//! the gateway drops nothing because it does not know it: methods, capabilities, members, content.
//!
//! If both sides speak the same era, requests and results are relayed byte for byte. Otherwise `legacy_to_modern`
//! translates for a client that opens with `initialize` and a server that does not know it, and `modern_to_legacy` for
//! the opposite case.
//!
//! A client of the legacy era has a server for itself, which ends with the client's session. Clients of the modern era
//! use a pool of servers (`pools`). A pool belongs to one connection or, over HTTP, where this era has no sessions, to
//! one principal or address; its clients have the same name and capabilities. If its servers are of the legacy era and
//! can ask something, each call that can be asked has a server for itself. So a question of a server reaches the client
//! whose call it is about, or is refused.
//!
//! The gateway never forwards HTTP headers, above all not `Authorization`
//! (<https://modelcontextprotocol.io/specification/2025-11-25/basic/security_best_practices#token-passthrough>), and
//! never forwards messages of one client to another.
//!
//! Modules use only modules that stand below them: `lib`, then `legacy` and `modern`, then `pools`, `pool`, `refused` and
//! the two translations, then `pair`, `policy` and `upstream`, then `answers`, `portable` and `request_state`, then
//! `call_record`, then `capacity`, `rate`, `relay`, `errors`, `settings`, `warnings` and `end`. `telemetry` attaches spans to the
//! connections.
//!
//! ```no_run
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! use mcpjoin_gateway::Gateway;
//! use mcpjoin::transport::{ChildCommand, Listener};
//!
//! let command = ChildCommand::new("my-server");
//! let gateway = Gateway::builder(move || command.clone().start()).build();
//! let interrupted = async { drop(tokio::signal::ctrl_c().await) };
//! gateway.serve_all(Listener::tcp("127.0.0.1:7000").await?, interrupted).await;
//! gateway.close().await;
//! # Ok(())
//! # }
//! ```

mod answers;
mod builder;
mod call_record;
mod cancellations;
mod capacity;
mod client;
mod end;
mod errors;
mod joined;
mod legacy;
mod legacy_to_modern;
mod modern;
mod modern_to_legacy;
mod opening;
mod pair;
mod policy;
mod pool;
mod pools;
mod portable;
mod rate;
mod refused;
mod relay;
mod request_state;
mod sealed_sessions;
mod serving;
mod settings;
mod status;
mod target_health;
mod telemetry;
mod tools;
mod upstream;
mod warnings;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use mcpjoin_proto::session::CloseCause;
use mcpjoin_proto::types::Implementation;

pub use builder::GatewayBuilder;
pub use call_record::{CallOutcome, CallRecord};
pub use end::{GatewayEnd, GatewayEvent, NotAuthorized, Refusal};
pub use joined::{JoinedBuilder, JoinedGateway, TargetOptions};
pub use policy::{
    ClientAtIssuer, ClientCredentials, Policy, PolicyError, SharedPolicy, TargetCredentials,
    TokenExchangeSettings,
};
pub use sealed_sessions::SealedSessions;
pub use status::{TargetState, TargetStatus};

use self::client::ClientHandle;
use self::errors::ErrorTexts;
use self::opening::Opening;
use self::pools::Pools;
use self::serving::{ServeClient, Serving};
use self::settings::Settings;
use self::tools::HeaderMarks;
use self::upstream::Launcher;
use mcpjoin::transport::{HttpListener, HttpOptions, HttpService, Link, Listener};

/// Connects any client to any server of one kind. Made by [`Gateway::builder`], cheap to clone.
///
/// The server of a legacy client lives as long as the client. The servers of modern clients live until they are unused
/// and their place is needed, or until [`Gateway::close`]. Dropping the last handle ends those that no request uses.
#[derive(Clone)]
pub struct Gateway {
    pools: Arc<Pools>,
    header_marks: Arc<HeaderMarks>,
}

impl Gateway {
    /// Returns a builder. `start` makes a new link to the server each time one is needed.
    pub fn builder<F, S, E>(start: F) -> GatewayBuilder
    where
        F: Fn() -> S + Send + Sync + 'static,
        S: IntoFuture<Output = Result<Link, E>, IntoFuture: Send + 'static>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        GatewayBuilder::new(move |_| start())
    }

    /// Returns a builder of a gateway whose servers know their client. `start` makes a new link for the client with this
    /// principal, as the listener has authenticated it ([`Origin::principal`](mcpjoin_proto::session::Origin::principal));
    /// `None` if it has not. No client with another principal uses the link, or one that replaces it.
    ///
    /// If `start` fails with [`NotAuthorized`], or the server refuses the authorization, only this client is without the server:
    /// it does not count as dead.
    pub fn builder_by_principal<F, S, E>(start: F) -> GatewayBuilder
    where
        F: Fn(Option<&str>) -> S + Send + Sync + 'static,
        S: IntoFuture<Output = Result<Link, E>, IntoFuture: Send + 'static>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        GatewayBuilder::new(start).by_principal()
    }

    /// Returns a builder of a gateway that joins several targets to one server. `name` and `version` are what clients
    /// see of it.
    pub fn joined(name: impl Into<String>, version: impl Into<String>) -> JoinedBuilder {
        JoinedBuilder::new(Implementation::new(name, version))
    }

    fn new(settings: Settings) -> Self {
        Self { pools: Pools::new(Launcher::new(settings)), header_marks: Arc::default() }
    }

    /// Serves one client until its connection ends, and returns how it ended. A server that the client has for itself
    /// has ended by then. Dropping the future ends the connection and that server.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled.
    pub async fn serve(&self, link: Link) -> GatewayEnd {
        serving::serve(self.clone(), link).await
    }

    /// Serves all clients that connect to the listener until `end` is ready, each in its own task. Then no client is
    /// accepted and nothing is read any more, requests in progress are finished, and the method returns after the last
    /// connection has ended, as in [`Server::serve_all`](mcpjoin::Server::serve_all). Servers of modern clients run
    /// until [`Gateway::close`].
    ///
    /// Dropping the future ends all connections at once.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled.
    pub async fn serve_all(&self, listener: Listener, end: impl Future<Output = ()>) {
        serving::serve_all(self, listener, end).await;
    }

    /// Returns a service that answers HTTP requests, as [`Server::http`](mcpjoin::Server::http) does.
    #[must_use]
    pub fn http(&self, options: HttpOptions) -> HttpService {
        serving::http(self.clone(), options, self.pools.launcher.settings.limits.clone())
    }

    /// Serves all clients that connect to the listener until `end` is ready, as
    /// [`Server::serve_http`](mcpjoin::Server::serve_http) does.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time enabled.
    pub async fn serve_http(
        &self,
        listener: HttpListener,
        options: HttpOptions,
        end: impl Future<Output = ()>,
    ) {
        let service = self.http(listener.options(options));
        listener.serve(service, end).await;
    }

    /// Ends every server, and waits until nothing of them is left. Requests in flight and all later requests fail.
    pub async fn close(&self) {
        self.pools.launcher.slots.close().await;
        self.pools.clear();
    }

    /// Returns the state of each target: of this gateway the only one.
    #[must_use]
    pub fn targets(&self) -> Vec<TargetStatus> {
        vec![self.status(self.pools.launcher.settings.name.clone())]
    }

    /// The state of the target, under this name.
    fn status(&self, name: Box<str>) -> TargetStatus {
        let Settings { health, redact, .. } = &*self.pools.launcher.settings;
        let (state, cause) = (health.state(), health.cause(redact.as_ref()));
        TargetStatus { name, state, cause, collisions: Vec::new() }
    }

    /// Returns the number of servers that run or start.
    #[must_use]
    pub fn running_servers(&self) -> usize {
        self.pools.launcher.slots.taken()
    }

    /// Returns the number of sessions of legacy clients. Modern clients have none.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.pools.launcher.slots.sessions()
    }

    async fn serve_to_end(&self, link: Link, handle: &ClientHandle, remote: bool) -> GatewayEnd {
        let settings = &self.pools.launcher.settings;
        let errors = ErrorTexts::new(settings, remote);
        let mut opening = Opening::new(link, &settings.limits);
        let first = tokio::select! {
            biased;
            first = opening.first() => first,
            () = handle.drained() => Err(CloseCause::Local),
        };
        let first = match first {
            Err(cause) => return opening.close(cause).await,
            Ok(first) => first,
        };
        let client = remote.then(|| first.client_name());
        let end = if first.hello.initializes {
            legacy::serve(&self.pools, opening, first, handle, errors).await
        } else {
            modern::serve(&self.pools, &self.header_marks, opening, first, handle, errors).await
        };
        if let Some(client) = client {
            settings.warnings.warn_of_client(&client, &end);
        }
        end
    }
}

impl ServeClient for Gateway {
    fn serve_client(self, link: Link, handle: ClientHandle, remote: bool) -> Serving {
        Box::pin(async move { self.serve_to_end(link, &handle, remote).await })
    }

    fn header_marks(&self) -> &HeaderMarks {
        &self.header_marks
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("settings", &self.pools.launcher.settings).finish_non_exhaustive()
    }
}
