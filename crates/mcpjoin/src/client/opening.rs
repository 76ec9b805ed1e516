//! From a link to a client: what each connection of a client is made of, and opening one.

use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::time::Duration;

use mcpjoin_proto::session::{Ask, ClientRole, Limits, Peer, Role};
use tokio::time::{Instant, timeout};

use super::cache::Cache;
use super::catalogue::Catalogue;
use super::connection_cache::{CacheConfig, ConnectionCache};
use super::input::{ClientHandler, InputHandlers, OnNotification};
use super::subscription::ResourceStreams;
use super::task::TaskRegistry;
use super::{Client, ConnectError, Inner, OpenConnection};
use crate::connection::{Connection, NotificationObserver, OnViolation, Setup};
use crate::handler::{ErasedHandler, SharedHandler};
#[cfg(unix)]
use crate::link::ChildHandle;
use crate::link::{Link, PeerIdentity};

/// How long an error in connecting waits for the end of what was started. With what it takes to be certain of a child's
/// death it stays below half a second.
const CONNECT_ERROR_CLOSE_TIMEOUT: Duration = Duration::from_millis(100);

/// What each connection of a client is made of.
pub(super) struct Plan {
    pub(super) role: ClientRole,
    /// Who answers and hears in place of `answers` and `on_notification`.
    pub(super) handler: Option<Arc<dyn ErasedHandler>>,
    pub(super) limits: Limits,
    pub(super) max_rounds: usize,
    pub(super) max_pages: usize,
    pub(super) answers: Arc<InputHandlers>,
    pub(super) on_notification: Option<OnNotification>,
    pub(super) on_violation: Option<OnViolation>,
    pub(super) caching: CacheConfig,
}

/// A connection whose peers do not agree yet. Dropping it ends it.
pub(super) struct Opening<'a> {
    plan: &'a Plan,
    connection: OpenConnection,
    tasks: Arc<TaskRegistry>,
    /// Watches the server, when it is a child of ours.
    #[cfg(unix)]
    child: Option<ChildHandle>,
    /// Arguments travel in headers, too, where a tool's schema says so.
    headers: bool,
    identity: PeerIdentity,
    cache: Option<Cache>,
    started: Instant,
}

impl Plan {
    /// Begins to open a connection, in a task of its own.
    pub(super) fn open(&self, link: Link, ask: Ask) -> Opening<'_> {
        let started = Instant::now();
        let cache = self.caching.of_connection();
        let mut role = self.role.clone();
        role.ask = ask;
        let setup = Setup {
            role: Role::Client(role.into()),
            limits: Arc::new(self.limits.clone()),
            on_violation: self.on_violation.clone(),
            notification_observer: cache.clone().map(|cache| -> NotificationObserver {
                Box::new(move |notification| cache.invalidate(notification))
            }),
        };
        let tasks = Arc::<TaskRegistry>::default();
        let handler: Arc<dyn ErasedHandler> = match &self.handler {
            Some(handler) => handler.clone(),
            None => Arc::new(Arc::new(ClientHandler {
                answers: self.answers.clone(),
                on_notification: self.on_notification.clone(),
                tasks: tasks.clone(),
            })),
        };
        #[cfg(unix)]
        let child = link.child();
        let headers = link.has_headers();
        let identity = link.identity();
        let (connection, driver) = Connection::new(link, setup, SharedHandler(handler));
        let connection = OpenConnection(connection);
        tokio::spawn(driver);
        Opening {
            plan: self,
            connection,
            tasks,
            #[cfg(unix)]
            child,
            headers,
            identity,
            cache,
            started,
        }
    }
}

impl Opening<'_> {
    /// Waits until the peers agree, or until nothing is left of the connection. Cancel-safe.
    pub(super) async fn opened(&self) -> Result<Arc<Peer>, ConnectError> {
        match self.connection.opened().await {
            Ok(peer) => Ok(peer),
            // Only when everything is gone is it known how it ended.
            Err(_) => Err(ConnectError::new(self.connection.closed().await, self.started.elapsed())),
        }
    }

    /// Waits until the peers agree, or until it is certain that they never will; what is left of the connection then
    /// is ended behind the error, unless it is gone in a moment. Cancel-safe.
    pub(super) async fn opened_or_failed_promptly(&self) -> Result<Arc<Peer>, ConnectError> {
        match self.connection.opened().await {
            Ok(peer) => Ok(peer),
            Err(cause) => {
                let took = self.started.elapsed();
                // When everything is gone more may be known of how it ended.
                let cause =
                    timeout(CONNECT_ERROR_CLOSE_TIMEOUT, self.connection.closed()).await.unwrap_or(cause);
                Err(ConnectError::new(cause, took))
            }
        }
    }

    /// Ends it, and waits until nothing of it is left.
    pub(super) async fn close(self) {
        self.connection.close();
        self.connection.closed().await;
    }

    pub(super) fn client(self, peer: Arc<Peer>) -> Client {
        let marks = self.headers && peer.profile.http_method_headers;
        let plan = self.plan;
        let partition = plan.caching.partition.clone();
        let capabilities = &plan.role.capabilities;
        let cache = ConnectionCache::of(self.cache, &peer, capabilities, partition, self.identity);
        Client {
            uncached: false,
            inner: Arc::new(Inner {
                resource_streams: ResourceStreams::default(),
                #[cfg(unix)]
                child: self.child,
                connection: self.connection,
                peer,
                answers: self.plan.answers.clone(),
                tasks: self.tasks,
                on_notification: self.plan.on_notification.clone(),
                cache,
                catalogue: Catalogue { marks, on_violation: self.plan.on_violation.clone() },
                log_level: AtomicU8::new(0),
                max_rounds: self.plan.max_rounds,
                max_pages: self.plan.max_pages,
            }),
        }
    }
}
