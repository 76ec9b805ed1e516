//! A handle to the connection of a client, which exists before the connection does.
//!
//! Used by `lib`, which drains connections, by `capacity` for unused sessions, and by `legacy` and `modern`, which make
//! the connection.

use std::sync::{Arc, OnceLock};

use mcpjoin_proto::Version;
use tokio::sync::watch;

use mcpjoin::connection::Connection;

#[derive(Clone, Default)]
pub(super) struct ClientHandle(Arc<Inner>);

#[derive(Default)]
struct Inner {
    connection: OnceLock<Connection>,
    draining: watch::Sender<bool>,
}

impl ClientHandle {
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
}
