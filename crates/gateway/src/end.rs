//! How serving a client ends, and what a gateway tells of its servers meanwhile.

use std::time::Duration;

use mcpjoin_proto::ErrorObject;
use mcpjoin_proto::session::{CloseCause, OpeningFailure};

use super::relaying::{exit_of, millis};
use super::telling::Telling;
use mcpjoin::client::{RestartError, RunExit};

/// How serving one client has ended.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayEnd {
    /// The client's connection is over.
    #[error("{0}")]
    Client(CloseCause),
    /// The server could not be had, or could not be had again. The client was told, and its connection was closed.
    #[error("{0}")]
    NoServer(#[source] Refusal),
}

/// Why a client has no server.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It could not be started, or did not agree.
    #[error("{0}")]
    NotStarted(#[source] Box<RunExit>),
    /// It was given up, or is not there in time.
    #[error("{0}")]
    Gone(#[source] Box<RestartError>),
    /// There are as many servers as there may be ([`GatewayBuilder::upstreams`](super::GatewayBuilder::upstreams)).
    #[error("there is no server left for one more client: {limit} may run at once")]
    TooMany {
        /// The bound.
        limit: usize,
    },
    /// More servers were to be started for one principal or address than may be.
    #[error(
        "too many servers were started for this client: {limit} a second may be started for one principal or address, after {burst} \
         at once; come again in {} s", retry_after.as_secs() + 1
    )]
    TooManyStarts {
        /// Starts a second.
        limit: u32,
        /// Starts at once after a pause.
        burst: u32,
        /// After this time one more may be started.
        retry_after: Duration,
    },
    /// The gateway is closed.
    #[error("the gateway is closed")]
    Closed,
}

impl Refusal {
    /// What a client gets that has no server: the server's own error where that is why.
    pub(super) fn to_error_object(&self, telling: &Telling) -> ErrorObject {
        let end = match self {
            Self::NotStarted(end) => Some(&**end),
            Self::Gone(why) => match &**why {
                RestartError::GivenUp { last, .. } | RestartError::TimedOut { last, .. } => Some(last),
                _ => None,
            },
            Self::TooMany { .. } | Self::TooManyStarts { .. } | Self::Closed => None,
        };
        if let (Self::NotStarted(_), Some(RunExit::NotOpened(error))) = (self, end)
            && let CloseCause::Opening(OpeningFailure::Refused { error, .. }) = error.close_cause()
        {
            return error.clone();
        }
        let mut facts = exit_of(end.and_then(RunExit::link_end));
        let (kind, text) = match self {
            Self::NotStarted(end) => {
                ("notStarted", format!("the server was not started: {}", telling.run_end(end)))
            }
            Self::Gone(why) => {
                let given_up = match &**why {
                    RestartError::GivenUp { starts, .. } => Some(("starts", starts.to_string())),
                    _ => None,
                };
                let kind = if given_up.is_some() { "givenUp" } else { "notThere" };
                facts.extend(given_up);
                (kind, telling.no_client(why).to_string())
            }
            Self::TooMany { limit } => {
                facts.push(("limit", limit.to_string()));
                ("tooManyServers", self.to_string())
            }
            Self::TooManyStarts { limit, burst, retry_after } => {
                facts.push(("limit", limit.to_string()));
                facts.push(("burst", burst.to_string()));
                facts.push(("retryAfterMs", millis(*retry_after)));
                ("tooManyStarts", self.to_string())
            }
            Self::Closed => ("closed", self.to_string()),
        };
        telling.failure(kind, &text, &facts)
    }
}

/// Something that has happened to a gateway.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum GatewayEvent<'a> {
    /// A server runs, and the peers agree.
    Started {
        /// Which of the gateway's servers: they count up from 1.
        upstream: u64,
        /// The number of its run: 1 for the first.
        run: u64,
    },
    /// The run of a server has ended that nobody here has ended, and nothing of it is left; or it was not started.
    Ended {
        /// Which of the gateway's servers.
        upstream: u64,
        /// How, or why.
        end: &'a RunExit,
        /// After what pause it is started again; `None`: it is given up, or was never there.
        next: Option<Duration>,
    },
    /// Nothing is left of a server that has run, and it is not started again: its client has left, the gateway was closed, or
    /// it was given up.
    Over {
        /// Which of the gateway's servers.
        upstream: u64,
    },
    /// A client was refused.
    Refused {
        /// Why.
        why: &'a Refusal,
    },
}
