//! A handle to the connection of a client, which exists before the connection does.
//!
//! Used by `lib`, which drains connections, by `capacity` for unused sessions, and by `legacy` and `modern`, which make the
//! connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcpjoin_proto::Version;
use tokio::sync::Notify;

use mcpjoin::connection::Connection;

#[derive(Clone, Default)]
pub(super) struct ClientHandle(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    drained: Notify,
}

#[derive(Default)]
struct State {
    connection: Option<Connection>,
    draining: bool,
}

impl ClientHandle {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the connection. It is drained at once if [`ClientHandle::drain`] was called before.
    pub(super) fn connected(&self, connection: Connection) {
        let mut state = self.lock();
        if state.draining {
            connection.drain();
        }
        state.connection = Some(connection);
    }

    pub(super) fn connection(&self) -> Option<Connection> {
        self.lock().connection.clone()
    }

    /// Ends the connection in order. If it does not exist yet, it is never made.
    pub(super) fn drain(&self) {
        let mut state = self.lock();
        state.draining = true;
        match &state.connection {
            Some(connection) => connection.drain(),
            None => self.0.drained.notify_one(),
        }
    }

    /// Ready when it was drained before the connection was made.
    pub(super) async fn drained(&self) {
        self.0.drained.notified().await;
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
}
