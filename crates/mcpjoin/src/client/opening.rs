//! Opens the connection of a client over a transport.

use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::time::Duration;

use crate::sync::Mutex;
use mcpjoin_proto::session::{ClientRole, EraChoice, Limits, Peer, Role};
use tokio::time::{Instant, timeout};

use super::cache::Cache;
use super::connection_cache::{CacheConfig, ConnectionCache};
use super::input::{ClientHandler, InputHandlers, OnNotification};
use super::notifications::{self, Dispatch, NotificationHandlers};
use super::pages::ToolFilter;
use super::subscription::{LegacySubscriptions, ResourceStreams};
use super::task::TaskRegistry;
use super::{Client, ConnectError, Inner, OpenConnection};
#[cfg(feature = "otel")]
use crate::background;
use crate::connection::{Connection, Layers, NotificationObserver, OnViolation, Setup};
use crate::handler::{ErasedHandler, SharedHandler};
#[cfg(feature = "otel")]
use crate::otel::{Instruments, Observed, Session};
#[cfg(all(unix, feature = "child"))]
use crate::transport::ChildHandle;
use crate::transport::{Link, PeerIdentity};

/// How long a failed connect waits for the end of what it has started. Together with the time to detect the death of a
/// child it stays below half a second.
const CONNECT_ERROR_CLOSE_TIMEOUT: Duration = Duration::from_millis(100);

/// The parts of each connection of a client.
pub(super) struct Plan {
    pub(super) role: ClientRole,
    /// Used in place of `answers` and `on_notification`.
    pub(super) handler: Option<Arc<dyn ErasedHandler>>,
    pub(super) limits: Limits,
    pub(super) max_pages: usize,
    pub(super) answers: Arc<InputHandlers>,
    pub(super) on_notification: Option<OnNotification>,
    pub(super) notification_handlers: NotificationHandlers,
    pub(super) on_violation: Option<OnViolation>,
    pub(super) layers: Layers,
    #[cfg(feature = "otel")]
    pub(super) telemetry: Option<Arc<Instruments>>,
    pub(super) caching: CacheConfig,
}

/// A connection that is being opened. Dropping it ends it.
pub(super) struct Opening<'a> {
    plan: &'a Plan,
    connection: OpenConnection,
    tasks: Arc<TaskRegistry>,
    /// The server's process, if it is our child.
    #[cfg(all(unix, feature = "child"))]
    child: Option<ChildHandle>,
    /// Arguments are repeated in headers, where a tool's schema says so.
    headers: bool,
    identity: PeerIdentity,
    cache: Option<Cache>,
    dispatch: Arc<Dispatch>,
    started: Instant,
}

impl Plan {
    /// Starts to open a connection, in a task of its own.
    pub(super) fn open(&self, link: Link, era: EraChoice) -> Opening<'_> {
        let started = Instant::now();
        let cache = self.caching.of_connection();
        let dispatch = Arc::new(Dispatch::new(cache.clone(), &self.notification_handlers));
        let receiver = dispatch.clone();
        let notification_observer: NotificationObserver =
            Box::new(move |notification, wake| receiver.receive(notification, wake));
        let mut role = self.role.clone();
        role.era = era;
        let setup = Setup {
            role: Role::Client(role.into()),
            limits: Arc::new(self.limits.clone()),
            on_violation: self.on_violation.clone(),
            notification_observer: Some(notification_observer),
            layers: self.layers.clone(),
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
        #[cfg(feature = "otel")]
        let handler: Arc<dyn ErasedHandler> = match &self.telemetry {
            Some(instruments) => Arc::new(Observed { handler, instruments: instruments.clone() }),
            None => handler,
        };
        #[cfg(all(unix, feature = "child"))]
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
            #[cfg(all(unix, feature = "child"))]
            child,
            headers,
            identity,
            cache,
            dispatch,
            started,
        }
    }
}

impl Opening<'_> {
    /// Waits until the peers agree, or until the failed connection has ended completely. Cancel-safe.
    pub(super) async fn opened(&self) -> Result<Arc<Peer>, ConnectError> {
        match self.connection.opened().await {
            Ok(peer) => Ok(peer),
            // How it has ended is only known when everything is gone.
            Err(_) => Err(ConnectError::new(self.connection.closed().await, self.started.elapsed())),
        }
    }

    /// Waits until the peers agree, or until it is certain that they will not. What is left of the connection then is
    /// ended in the background, after a short wait. Cancel-safe.
    pub(super) async fn opened_or_failed_promptly(&self) -> Result<Arc<Peer>, ConnectError> {
        match self.connection.opened().await {
            Ok(peer) => Ok(peer),
            Err(cause) => {
                let took = self.started.elapsed();
                // More may be known about the end when everything is gone.
                let cause =
                    timeout(CONNECT_ERROR_CLOSE_TIMEOUT, self.connection.closed()).await.unwrap_or(cause);
                Err(ConnectError::new(cause, took))
            }
        }
    }

    /// Closes it, and waits until it has ended completely.
    pub(super) async fn close(self) {
        self.connection.close();
        self.connection.closed().await;
    }

    pub(super) fn client(self, peer: Arc<Peer>) -> Client {
        let checks_headers = self.headers && peer.profile.http_method_headers;
        let plan = self.plan;
        let partition = plan.caching.partition.clone();
        let capabilities = &plan.role.capabilities;
        let cache = ConnectionCache::of(self.cache, &peer, capabilities, partition, self.identity);
        let client = Client {
            uncached: false,
            inner: Arc::new(Inner {
                resource_streams: ResourceStreams::default(),
                notification_tasks: Mutex::default(),
                #[cfg(all(unix, feature = "child"))]
                child: self.child,
                connection: self.connection,
                peer,
                answers: self.plan.answers.clone(),
                tasks: self.tasks,
                on_notification: self.plan.on_notification.clone(),
                dispatch: self.dispatch,
                legacy_subscriptions: LegacySubscriptions::default(),
                cache,
                tool_filter: ToolFilter { checks_headers, on_violation: self.plan.on_violation.clone() },
                log_level: AtomicU8::new(0),
                max_pages: self.plan.max_pages,
            }),
        };
        #[cfg(feature = "otel")]
        if let Some(instruments) = &plan.telemetry {
            let session =
                Session::of_client(instruments.clone(), &client.peer(), client.connection().origin());
            let connection = client.connection().clone();
            background::spawn(async move {
                connection.ended().await;
                drop(session);
            });
        }
        notifications::start(&client, &plan.notification_handlers);
        client
    }
}
