//! An MCP server that the host offers: its name, its client, and its visible tools.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::error::{RequestError, code};
use mcpjoin::client::{Client, RestartingClient};

type Permits = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// An MCP server that a [`Host`](super::Host) offers. Cheap to clone.
#[derive(Clone)]
pub struct Offer {
    name: Arc<str>,
    reach: Reach,
    permits: Option<Permits>,
}

#[derive(Clone)]
enum Reach {
    Client(Client),
    Restarting(RestartingClient),
}

/// The error of a server that is unavailable.
#[derive(Debug)]
pub(super) struct Unavailable {
    pub(super) server: Arc<str>,
    pub(super) reason: String,
}

impl Offer {
    /// A server behind one connection. After the connection has ended, every request to it fails.
    pub fn client(name: impl Into<Arc<str>>, client: Client) -> Self {
        Self { name: name.into(), reach: Reach::Client(client), permits: None }
    }

    /// A server that is restarted when it exits. Requests wait for it
    /// ([`HostLimits::restart_wait`](super::HostLimits::restart_wait)).
    pub fn restarting(name: impl Into<Arc<str>>, client: RestartingClient) -> Self {
        Self { name: name.into(), reach: Reach::Restarting(client), permits: None }
    }

    /// Limits the visible tools to those for which `permits` returns true. It must not block.
    #[must_use]
    pub fn tools(mut self, permits: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.permits = Some(Arc::new(permits));
        self
    }

    /// The server's name, which a client can give as `provider`, and which errors contain.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn permits(&self, tool: &str) -> bool {
        self.permits.as_ref().is_none_or(|permits| permits(tool))
    }

    /// The client. Waits at most `wait` for a restart.
    pub(super) async fn reached(&self, wait: Duration) -> Result<Client, Unavailable> {
        let unavailable = |reason: String| Unavailable { server: self.name.clone(), reason };
        match &self.reach {
            Reach::Client(client) if client.is_closed() => Err(unavailable(match client.close_cause() {
                Some(cause) => cause.to_string(),
                None => "the connection is being closed".to_owned(),
            })),
            Reach::Client(client) => Ok(client.clone()),
            Reach::Restarting(client) => {
                client.client_within(wait).await.map_err(|gone| unavailable(gone.to_string()))
            }
        }
    }
}

impl From<Unavailable> for RequestError {
    fn from(unavailable: Unavailable) -> Self {
        let Unavailable { server, reason } = unavailable;
        Self::new(code::ROUTING, format!("the MCP server `{server}` is unavailable: {reason}"))
    }
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Offer");
        out.field("name", &self.name);
        match &self.reach {
            Reach::Client(client) => out.field("client", client),
            Reach::Restarting(client) => out.field("client", client),
        };
        out.finish_non_exhaustive()
    }
}
