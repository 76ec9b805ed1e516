//! Handles a refused request: uses a newer token, refreshes, logs in, requests more scopes, or explains the error.
//!
//! Called by `oauth` for each 401 and 403. The transport limits how often one message is sent again (adversarial case 114). This
//! module remembers what was tried for all messages, so that no server can make the user log in over and over (144).
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#error-handling>

use std::sync::Arc;

use http::HeaderValue;

use super::account::{Account, authorization};
use super::discovery::Challenged;
use super::error::AuthError;
use super::fetch::cut;
use super::login::Occasion;

/// The errors of an authorization endpoint that say nothing about the request
/// ([RFC 6749, 4.1.2.1](https://www.rfc-editor.org/rfc/rfc6749#section-4.1.2.1)).
const TEMPORARY: [&str; 2] = ["server_error", "temporarily_unavailable"];
/// The largest number of scopes of a login, with those that were denied: a server cannot require one more each time for ever.
const MAX_SCOPES: usize = 256;

impl Account {
    /// The server has answered 401. When there is another authorization now, the message can be sent again. `again`: whether it
    /// was sent again already, with a new authorization. `asks`: whether a login by a user is possible.
    pub(super) async fn unauthorized(
        self: &Arc<Self>,
        refused: Option<&HeaderValue>,
        challenge: Challenged,
        again: bool,
        asks: bool,
    ) -> Result<(), AuthError> {
        let is_other = |current: Option<HeaderValue>| current.is_some() && current.as_ref() != refused;
        if is_other(authorization(self.kept().await?.as_ref())) {
            return Ok(());
        }
        // Another process may have logged in meanwhile.
        let kept = self.reload().await?;
        if is_other(authorization(kept.as_ref())) {
            return Ok(());
        }
        let refresh = kept.as_ref().and_then(|kept| kept.tokens.as_ref()?.refresh.as_ref());
        if let (Some(refused), Some(_), false) = (refused, refresh, again) {
            match self.refreshed(refused.clone()).await {
                Err(AuthError::LoginNeeded(_)) if asks => {}
                // It may fail each time: a login finds another endpoint, or gets another refresh token.
                Err(AuthError::Token(error)) if asks && !error.is_transient() => {}
                outcome => return outcome,
            }
        }
        if !asks {
            let what = match (refused, again) {
                (None, _) => format!("not logged in to {}", self.shown()),
                (Some(_), false) => format!("{} no longer accepts the stored token", self.shown()),
                (Some(_), true) => {
                    format!("{} also rejects the refreshed token", self.shown())
                }
            };
            let said = challenge.parameter("error_description").map(|said| format!(" ({})", cut(said)));
            return Err(AuthError::LoginNeeded(format!("{what}{}", said.unwrap_or_default())));
        }
        self.logged_in(Occasion::Unauthorized { refused: refused.cloned(), challenge }).await
    }

    /// The server has answered 403 because scopes are missing. `repeatable`: whether the message can be sent again, so that a
    /// login is worthwhile.
    pub(super) async fn step_up(
        self: &Arc<Self>,
        refused: &HeaderValue,
        challenge: Challenged,
        repeatable: bool,
    ) -> Result<(), AuthError> {
        let kept = self.kept().await?;
        if repeatable && authorization(kept.as_ref()).is_some_and(|current| current != refused) {
            return Ok(());
        }
        let needed = challenge.scopes().unwrap_or_default();
        let requested = kept.as_ref().map(|kept| kept.requested.as_slice()).unwrap_or_default();
        let granted = kept.as_ref().and_then(|kept| kept.tokens.as_ref()?.scopes.as_deref());
        let granted = granted.unwrap_or(requested);
        let without =
            |has: &[String]| needed.iter().filter(|scope| !has.contains(scope)).cloned().collect::<Vec<_>>();
        let wider = without(requested);
        let denied = self.state().denied.clone();
        let is_known = wider.iter().all(|scope| denied.contains(scope));
        let too_many = requested.len() + denied.len() + wider.len() > MAX_SCOPES;
        if is_known || too_many || !repeatable || !self.can_log_in() {
            let mut missing = without(granted);
            if missing.is_empty() {
                missing = needed;
            }
            return Err(AuthError::Scopes { missing });
        }
        let outcome = self.logged_in(Occasion::StepUp { refused: refused.clone(), challenge }).await;
        if let Err(AuthError::Refused { error, .. }) = &outcome
            && !TEMPORARY.contains(&error.as_str())
        {
            let denied = &mut self.state().denied;
            let new: Vec<String> = wider.into_iter().filter(|scope| !denied.contains(scope)).collect();
            denied.extend(new);
        }
        outcome
    }
}
