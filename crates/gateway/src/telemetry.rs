//! The spans of what a gateway relays: one of the kind `SERVER` for each request of a client, and inside it one of the kind
//! `CLIENT` for each request to a server. The same for the requests of legacy servers, in the other direction.
//!
//! `mcpjoin` records them (feature `otel`), with the names of the
//! [conventions](https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md). Here it is
//! attached to the connections: those to clients by `legacy`, `modern` and their joined forms, those to servers by
//! `upstream`. Without the feature, or if the program has not asked for spans, nothing is attached, and no message changes.

use std::sync::Arc;

use mcpjoin::client::ClientBuilder;
use mcpjoin::connection::{Connection, Driver, Layers, Setup};
use mcpjoin::handler::Handler;
#[cfg(feature = "otel")]
use mcpjoin::internal::Relaying;
use mcpjoin::transport::Link;
use mcpjoin_proto::session::{Limits, Role, ServerRole};

/// Whether spans are recorded, and with what. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Telemetry {
    #[cfg(feature = "otel")]
    relaying: Option<Relaying>,
}

impl Telemetry {
    #[cfg(feature = "otel")]
    pub(super) fn on() -> Self {
        Self { relaying: Some(Relaying::default()) }
    }

    pub(super) const fn is_on(&self) -> bool {
        #[cfg(feature = "otel")]
        return self.relaying.is_some();
        #[cfg(not(feature = "otel"))]
        false
    }

    /// Makes the connection to a client, over its link.
    pub(super) fn connection(
        &self,
        link: Link,
        role: ServerRole,
        limits: Arc<Limits>,
        handler: impl Handler,
    ) -> (Connection, Driver) {
        let setup = Setup {
            role: Role::Server(Arc::new(role)),
            limits,
            on_violation: None,
            notification_observer: None,
            layers: Layers::default(),
        };
        let handler = Arc::new(handler);
        #[cfg(feature = "otel")]
        if let Some(relaying) = &self.relaying {
            let setup = Setup { layers: relaying.layers(), ..setup };
            return Connection::new(link, setup, relaying.handler(handler));
        }
        Connection::new(link, setup, handler)
    }

    /// Prepares the connections to a server.
    pub(super) fn upstream(&self, builder: ClientBuilder) -> ClientBuilder {
        #[cfg(feature = "otel")]
        if let Some(relaying) = &self.relaying {
            return builder.relay_telemetry(relaying);
        }
        builder
    }
}
