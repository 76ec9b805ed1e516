//! What clients are told of failures that are not the server's own words.
//!
//! How a server has ended may hold what it has written to its standard error, and that may hold the secrets that it was
//! started with. So each text passes what the user of the gateway has set, and who may be a stranger is told nothing of
//! standard error. Called wherever a client is answered with an error that the gateway makes; a server's own error never
//! passes here.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcpjoin_proto::ErrorObject;
use mcpjoin_proto::session::{CallError, CallRefused, CloseCause, LinkEnd, OpeningFailure};
use tokio::time::timeout;

use super::builder::{Settings, Words};
use super::end::Refusal;
use super::relaying::{exit_of, failure, millis};
use mcpjoin::client::{RestartError, RunExit};
use mcpjoin::connection::Connection;

/// How long an error waits for what is not known yet of the end of the server: its exit status.
const PROMPT: Duration = Duration::from_millis(500);

/// What one client is told. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Telling {
    words: Option<Words>,
    stranger: bool,
}

impl Telling {
    /// `stranger`: whoever reaches an address is this client.
    pub(super) fn new(settings: &Arc<Settings>, stranger: bool) -> Self {
        Self { words: settings.words.clone(), stranger }
    }

    /// The text as this client may see it.
    pub(super) fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.words {
            Some(words) => words(text).into(),
            None => text.into(),
        }
    }

    /// An error of the gateway's own.
    pub(super) fn failure(&self, kind: &str, message: &str, facts: &[(&str, String)]) -> ErrorObject {
        failure(kind, &self.text(message), facts)
    }

    /// How a connection has ended, as this client may know it.
    pub(super) fn cause(&self, cause: &CloseCause) -> CloseCause {
        let mut cause = cause.clone();
        match &mut cause {
            _ if !self.stranger => {}
            CloseCause::Link(end) => end.stderr = Bytes::new(),
            CloseCause::Opening(OpeningFailure::Ended { last, probe, garbage }) => {
                last.stderr = Bytes::new();
                (*probe, *garbage) = (None, None);
            }
            CloseCause::Opening(OpeningFailure::TimedOut { garbage, .. }) => *garbage = None,
            _ => {}
        }
        cause
    }

    /// The same of a run.
    pub(super) fn run_end(&self, end: &RunExit) -> RunExit {
        match end {
            RunExit::NotOpened(error) => {
                let mut error = error.clone();
                error.cause = self.cause(&error.cause);
                RunExit::NotOpened(error)
            }
            RunExit::Ended(cause) => RunExit::Ended(self.cause(cause)),
            _ => end.clone(),
        }
    }

    /// The same of why there is no server.
    pub(super) fn no_client(&self, why: &RestartError) -> RestartError {
        let mut why = why.clone();
        if let RestartError::GivenUp { last, .. } | RestartError::TimedOut { last, .. } = &mut why {
            *last = self.run_end(last);
        }
        why
    }

    /// What a client gets that has no server any more.
    pub(super) fn gone(&self, why: RestartError) -> ErrorObject {
        Refusal::Gone(Box::new(why)).to_error_object(self)
    }

    /// What the asker gets in place of a result: the error of the other side as it came, or one that says why there is
    /// none.
    pub(super) async fn ended(&self, error: CallError, other: &Connection) -> ErrorObject {
        let text = error.to_string();
        match error {
            CallError::Remote(error) => error,
            CallError::Closed(cause) => {
                // How a process has ended is known when it has.
                let cause =
                    timeout(PROMPT, other.closed()).await.unwrap_or_else(|_| CloseCause::clone(&cause));
                self.closed(&cause)
            }
            CallError::Refused(CallRefused::Closed) => {
                self.closed(&timeout(PROMPT, other.closed()).await.unwrap_or(CloseCause::Local))
            }
            CallError::TimedOut { after, .. } => {
                self.failure("timeout", &text, &[("afterMs", millis(after))])
            }
            CallError::Refused(CallRefused::TooLarge { limit, .. })
            | CallError::ReplyTooLarge { limit, .. } => {
                self.failure("tooLarge", &text, &[("limit", limit.to_string())])
            }
            CallError::Lost(_) => self.failure("lost", &text, &[]),
            _ => self.failure("refused", &text, &[]),
        }
    }

    /// The error of whoever waits for a server that has ended.
    fn closed(&self, cause: &CloseCause) -> ErrorObject {
        let end: Option<&LinkEnd> = match cause {
            CloseCause::Link(end) | CloseCause::Opening(OpeningFailure::Ended { last: end, .. }) => Some(end),
            _ => None,
        };
        self.failure("serverEnded", &self.cause(cause).to_string(), &exit_of(end))
    }
}
