//! A server of the host's: how it is called, how it is reached, which of its tools are to be seen.

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

/// The server is not there.
#[derive(Debug)]
pub(super) struct Unavailable {
    pub(super) server: Arc<str>,
    pub(super) reason: String,
}

impl Offer {
    /// What is at the far end of this connection. When it ends, everything that is asked of it fails.
    pub fn client(name: impl Into<Arc<str>>, client: Client) -> Self {
        Self { name: name.into(), reach: Reach::Client(client), permits: None }
    }

    /// A server that is started again when it dies. What comes meanwhile waits for it
    /// ([`HostLimits::restart_wait`](super::HostLimits::restart_wait)).
    pub fn restarting(name: impl Into<Arc<str>>, client: RestartingClient) -> Self {
        Self { name: name.into(), reach: Reach::Restarting(client), permits: None }
    }

    /// Only the tools of which this says so can be seen and called. Must not block.
    #[must_use]
    pub fn tools(mut self, permits: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.permits = Some(Arc::new(permits));
        self
    }

    /// How it is called: a `provider` that picks it, and what errors say.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn permits(&self, tool: &str) -> bool {
        self.permits.as_ref().is_none_or(|permits| permits(tool))
    }

    /// The client, when it is there within `wait`.
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
        Self::new(code::ROUTING, format!("the MCP server `{server}` is not there: {reason}"))
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
