//! Starts a server, or connects to it, each time a bridge needs it, and keeps the last failure.
//!
//! Used by the bridges to MCP servers. The library reports a start as one sentence; the failure here has the exit code
//! and the hint, too.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mcpjoin::Link;
use mcpjoin::client::{RestartError, RunExit};
use mcpjoin::transport::{HttpConnect, SpawnError};
use mcpjoin_gateway::NotAuthorized;

use super::credentials::TargetAccess;
use crate::connect::Endpoint;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::ui::Ui;

/// What stands between a failure and its hint in the error for a client.
const TRY: &str = "; try: ";

/// The endpoint to a server. Cheap to clone.
#[derive(Clone)]
pub(super) struct Upstream(Arc<Shared>);

struct Shared {
    ui: Ui,
    endpoint: Endpoint,
    /// The authorization that the policy names.
    access: Option<TargetAccess>,
    /// The first phase of a new connection.
    first: Phase,
    starts: AtomicU64,
    failed: Mutex<Option<Failure>>,
}

impl Upstream {
    /// The failure of a program that cannot be started. It says that the word is no entry either, where it could be one.
    pub(super) fn not_started(&self, error: &SpawnError) -> Failure {
        Failure::spawn(error).and_no_entry(self.0.endpoint.no_entry())
    }

    pub(super) fn new(ui: &Ui, endpoint: Endpoint, access: Option<TargetAccess>, first: Phase) -> Self {
        if let Some(access) = endpoint.access() {
            access.tells_clients();
        }
        Self(Arc::new(Shared {
            ui: ui.clone(),
            endpoint,
            access,
            first,
            starts: AtomicU64::new(0),
            failed: Mutex::default(),
        }))
    }

    /// Starts the server, or connects to it, for a client with this principal. The error is one sentence, and
    /// [`NotAuthorized`] if it is about this client alone.
    pub(super) async fn link(
        self,
        principal: Option<Box<str>>,
    ) -> Result<Link, Box<dyn Error + Send + Sync>> {
        let Shared { ui, endpoint, access, starts, failed, .. } = &*self.0;
        let number = starts.fetch_add(1, Ordering::Relaxed) + 1;
        let mut endpoint = endpoint.numbered(ui, number);
        if let Some(access) = access {
            // Several principals may be refused at once, so what is said about each is in its own error.
            endpoint = access
                .at(&endpoint, principal.as_deref())
                .await
                .map_err(|failure| NotAuthorized(format!("{}{TRY}{}", failure.message, failure.hint)))?;
        }
        endpoint.link().await.map_err(|failure| {
            let said = failure.message.clone();
            *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
            said.into()
        })
    }

    /// Whether each principal has an authorization of its own.
    pub(super) fn is_by_principal(&self) -> bool {
        self.0.access.as_ref().is_some_and(TargetAccess::is_by_principal)
    }

    /// Why the server does not run.
    pub(super) fn failure(&self, end: &RunExit) -> Failure {
        let Shared { endpoint, access, first, failed, .. } = &*self.0;
        if let RunExit::NotStarted(error) = end
            && let Some(NotAuthorized(said)) = error.downcast_ref()
        {
            let (what, hint) = said.split_once(TRY).unwrap_or((said, ""));
            return Failure::new("E_AUTH", Exit::Authorization, Phase::Authorize, what).hint(hint);
        }
        let not_started = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        let failure = match (end, not_started) {
            (RunExit::NotStarted(_), Some(failure)) => failure,
            (RunExit::NotOpened(error), _) => Failure::closed(&error.cause, *first),
            (RunExit::Ended(cause), _) => Failure::closed(cause, Phase::Serve),
            (end, _) => Failure::new("E_SPAWN", Exit::Connection, Phase::Spawn, end.to_string()),
        };
        match access {
            Some(access) => access.explain(failure.over_http(endpoint.http().map_or("", HttpConnect::url))),
            None => endpoint.explain(failure),
        }
    }

    /// Why the server is gone.
    pub(super) fn gone(&self, gone: &RestartError) -> Failure {
        match gone {
            RestartError::GivenUp { last, .. } | RestartError::TimedOut { last, .. } => self.failure(last),
            gone => Failure::new("E_CLOSED", Exit::Connection, Phase::Serve, gone.to_string())
                .hint("see what the server itself says about it: -v shows it"),
        }
    }
}
