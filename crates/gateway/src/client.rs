//! A handle to the connection of a client, which exists before the connection does.
//!
//! Used by `lib`, which drains connections, by `capacity` for unused sessions, and by `legacy` and `modern`, which make
//! the connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use mcpjoin_proto::{Raw, Version};
use tokio::sync::watch;

use super::portable::StoredSession;
use mcpjoin::connection::Connection;

#[derive(Clone, Default)]
pub(super) struct ClientHandle(Arc<Inner>);

#[derive(Default)]
struct Inner {
    connection: OnceLock<Connection>,
    draining: watch::Sender<bool>,
    storing: Storing,
    session: OnceLock<Weak<dyn StoredSession>>,
    /// It is known that the session is not stored.
    is_unstored: AtomicBool,
}

/// Whether the session of a client may be stored.
#[derive(Clone, Default)]
pub(super) enum Storing {
    /// There is no store.
    #[default]
    No,
    /// It is opened, and may be stored then.
    New,
    /// Another process has opened it, with this state.
    Resumed(Raw),
}

impl ClientHandle {
    pub(super) fn new(storing: Storing) -> Self {
        Self(Arc::new(Inner { storing, ..Inner::default() }))
    }

    pub(super) fn storing(&self) -> &Storing {
        &self.0.storing
    }

    /// Sets what serves the session, once it is open.
    pub(super) fn serves(&self, session: Weak<dyn StoredSession>) {
        // Set once for each client.
        let _ = self.0.session.set(session);
        if self.0.is_unstored.load(Ordering::Acquire)
            && let Some(session) = self.session()
        {
            session.stored(false);
        }
    }

    fn session(&self) -> Option<Arc<dyn StoredSession>> {
        self.0.session.get()?.upgrade()
    }

    /// Sets the connection. It is drained at once if [`ClientHandle::drain`] was called before.
    pub(super) fn connected(&self, connection: Connection) {
        let connection = self.0.connection.get_or_init(|| connection);
        if *self.0.draining.borrow() {
            connection.drain();
        }
    }

    pub(super) fn connection(&self) -> Option<&Connection> {
        self.0.connection.get()
    }

    /// Ends the connection in order. If it does not exist yet, it is never made.
    pub(super) fn drain(&self) {
        self.0.draining.send_replace(true);
        if let Some(connection) = self.connection() {
            connection.drain();
        }
    }

    /// Ready when [`ClientHandle::drain`] was called.
    pub(super) async fn drained(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.draining.subscribe().wait_for(|draining| *draining).await;
    }
}

impl mcpjoin::internal::Served for ClientHandle {
    fn version(&self) -> Option<Version> {
        Some(self.connection()?.peer()?.profile.version.clone())
    }

    fn is_quiet(&self) -> bool {
        self.connection().is_some_and(|connection| connection.in_flight() == (0, 0))
    }

    fn drain(&self) {
        Self::drain(self);
    }

    fn state(&self) -> Option<Raw> {
        self.session()?.state()
    }

    fn stored(&self, stored: bool) {
        self.0.is_unstored.store(!stored, Ordering::Release);
        if let Some(session) = self.session() {
            session.stored(stored);
        }
    }

    fn listens(&self, listens: bool) {
        if let Some(session) = self.session() {
            session.listens(listens);
        }
    }

    fn ended(&self) {
        if let Some(session) = self.session() {
            session.ended();
        }
    }
}
