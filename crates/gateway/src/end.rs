//! How serving a client ends, and the events that a gateway reports.

use std::time::Duration;

use mcpjoin_proto::session::{CloseCause, NegotiationFailure};
use mcpjoin_proto::{ErrorObject, Raw, code};

use super::call_record::CallRecord;
use mcpjoin::client::{RestartError, RunExit};
use mcpjoin_rules::Change;

/// How serving one client ended.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayEnd {
    /// The client's connection ended.
    #[error("{0}")]
    Client(CloseCause),
    /// There is no server for the client. The client received an error, and its connection was closed.
    #[error("{0}")]
    NoServer(#[source] Refusal),
}

/// Why there is no server for a client.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The server could not be started, or it did not accept the client's version.
    #[error("{0}")]
    NotStarted(#[source] Box<RunExit>),
    /// The server was given up after too many restarts, or did not restart in time.
    #[error("{0}")]
    Gone(#[source] Box<RestartError>),
    /// The limit of servers is reached ([`GatewayBuilder::upstreams`](super::GatewayBuilder::upstreams)).
    #[error("no server is free for another client: {limit} may run at once")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The limit of starts for one principal or address is reached.
    #[error(
        "too many servers were started for this client: {limit} per second are allowed for one principal \
         or address, after {burst} at once; try again in {} s", retry_after.as_secs() + 1
    )]
    TooManyStarts {
        /// Starts a second.
        limit: u32,
        /// Starts at once after a pause.
        burst: u32,
        /// One more server may be started after this time.
        retry_after: Duration,
    },
    /// The server was not ready in time after the client had closed its side.
    #[error("the server was not ready within {} s after the client had closed its side", waited.as_secs())]
    NotReady {
        /// How long the server was awaited: [`Limits::drain`](mcpjoin_proto::session::Limits::drain).
        waited: Duration,
    },
    /// The gateway is closed.
    #[error("the gateway is closed")]
    Closed,
}

impl Refusal {
    /// Whether the client is above a limit.
    pub(super) const fn is_of_limit(&self) -> bool {
        matches!(self, Self::TooMany { .. } | Self::TooManyStarts { .. })
    }
}

/// Why no link is made for one client, while others may have access to the server: the error of a function of
/// [`Gateway::builder_by_principal`](super::Gateway::builder_by_principal). The text is for the client, too.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotAuthorized(pub String);

/// Whether a server has ended because its client has no access to it, which says nothing about the server.
pub(super) fn is_not_authorized(end: &RunExit) -> bool {
    match end {
        RunExit::NotStarted(error) => error.is::<NotAuthorized>(),
        RunExit::NotOpened(error) => error.is_unauthorized(),
        _ => false,
    }
}

/// Whether a server has answered its opening with an error about what the client has said of itself.
pub(super) fn is_refused(end: &RunExit) -> bool {
    opening_error(end).is_some_and(|error| {
        matches!(
            error.code,
            code::INVALID_PARAMS
                | code::UNSUPPORTED_PROTOCOL_VERSION
                | code::MISSING_REQUIRED_CLIENT_CAPABILITY
        )
    })
}

/// The bytes of the error with which a server has answered its opening.
pub(super) fn error_bytes(end: &RunExit) -> usize {
    opening_error(end).map_or(0, |error| error.message.len() + error.data.as_ref().map_or(0, Raw::len))
}

fn opening_error(end: &RunExit) -> Option<&ErrorObject> {
    let RunExit::NotOpened(error) = end else { return None };
    match &error.cause {
        CloseCause::Opening(NegotiationFailure::Refused { error, .. }) => Some(error),
        _ => None,
    }
}

/// An event of a gateway.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum GatewayEvent<'a> {
    /// A server is started for the first time.
    Starting {
        /// The number of the server; numbers count up from 1.
        upstream: u64,
    },
    /// A server runs, and its session is open.
    Started {
        /// The number of the server; numbers count up from 1.
        upstream: u64,
        /// The number of its run: 1 for the first.
        run: u64,
    },
    /// The run of a server ended without a request of the gateway, and nothing of it is left; or it was not started.
    Ended {
        /// The number of the server.
        upstream: u64,
        /// How it ended, or why it was not started.
        end: &'a RunExit,
        /// The pause before it is started again. `None`: it is given up, or its first start failed.
        next: Option<Duration>,
    },
    /// Nothing is left of a server that has run, and it is not started again: its client left, the gateway was closed,
    /// or it was given up.
    Over {
        /// The number of the server.
        upstream: u64,
    },
    /// A tool is withheld from clients, because its definition is not the pinned one.
    Withheld {
        /// The name of the target.
        target: &'a str,
        /// The name of the tool at the target. Of tools that are not pinned, the first one is reported.
        tool: &'a str,
        /// The changes since the definition was pinned.
        changes: &'a [Change],
    },
    /// A request of a client has arrived. Reported with [`GatewayBuilder::record_calls`](super::GatewayBuilder).
    Calling {
        /// The name of the target.
        target: &'a str,
    },
    /// A request of a client has ended. Follows its [`GatewayEvent::Calling`].
    Called(&'a CallRecord),
    /// A client was refused.
    Refused {
        /// Why.
        why: &'a Refusal,
    },
}
