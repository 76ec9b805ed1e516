//! A server that is started, or reached, each time somebody needs it, and why that failed the last time.
//!
//! Used by both kinds of bridges to servers: what the library says of a start is a sentence, and the failure that a person
//! is shown knows more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mcpjoin::Link;
use mcpjoin::client::{RestartError, RunExit};

use crate::connect::Way;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::ui::Ui;

/// How a server is had. Cheap to clone.
#[derive(Clone)]
pub(super) struct Starting(Arc<Shared>);

struct Shared {
    ui: Ui,
    way: Way,
    /// What is done first once it runs.
    first: Phase,
    starts: AtomicU64,
    failed: Mutex<Option<Failure>>,
}

impl Starting {
    pub(super) fn new(ui: &Ui, way: Way, first: Phase) -> Self {
        if let Some(access) = way.access() {
            access.tells_clients();
        }
        Self(Arc::new(Shared {
            ui: ui.clone(),
            way,
            first,
            starts: AtomicU64::new(0),
            failed: Mutex::default(),
        }))
    }

    /// Starts it, or connects to it; otherwise the one sentence why not.
    pub(super) async fn link(self) -> Result<Link, String> {
        let Shared { ui, way, starts, failed, .. } = &*self.0;
        let number = starts.fetch_add(1, Ordering::Relaxed) + 1;
        way.numbered(ui, number).link().await.map_err(|failure| {
            let said = failure.message.clone();
            *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
            said
        })
    }

    /// Why it does not run.
    pub(super) fn failure(&self, end: &RunExit) -> Failure {
        let Shared { way, first, failed, .. } = &*self.0;
        let not_started = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        let failure = match (end, not_started) {
            (RunExit::NotStarted(_), Some(failure)) => failure,
            (RunExit::NotOpened(error), _) => Failure::closed(&error.cause, *first),
            (RunExit::Ended(cause), _) => Failure::closed(cause, Phase::Serve),
            (end, _) => Failure::new("E_SPAWN", Exit::Connection, Phase::Spawn, end.to_string()),
        };
        way.told(failure)
    }

    /// Why it is not there any more.
    pub(super) fn gone(&self, gone: &RestartError) -> Failure {
        match gone {
            RestartError::GivenUp { last, .. } | RestartError::TimedOut { last, .. } => self.failure(last),
            gone => Failure::new("E_CLOSED", Exit::Connection, Phase::Serve, gone.to_string())
                .hint("see what the server itself says about it: -v shows it"),
        }
    }
}
