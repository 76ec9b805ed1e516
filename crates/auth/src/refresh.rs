//! Refreshes tokens without a user.
//!
//! Called by `oauth` before a token expires, and by `refused` when the server refuses it. Concurrent requests share one refresh: in
//! the process through `single_flight`, and between processes through the lock of the store, because a refresh token may be valid
//! once (adversarial cases 140 and 180). The refresh token is sent only to the token endpoint of its issuer.
//! [OAuth 2.1, 4.3](https://datatracker.ietf.org/doc/html/draft-ietf-oauth-v2-1-13#section-4.3)

use std::sync::Arc;

use http::HeaderValue;
use tokio::time::Instant;

use super::account::{Account, authorization};
use super::error::AuthError;
use super::fetch::shown_text;
use super::form::Form;
use super::registration::Way;
use super::stored_login::StoredLogin;
use super::token::{TokenError, Tokens};

impl Account {
    /// Refreshes the token of that `Authorization`, or waits for a refresh in progress. It is completed even if no caller waits any
    /// more: the new login must be stored, because the old refresh token may be invalid.
    pub(super) async fn refreshed(self: &Arc<Self>, stale: HeaderValue) -> Result<(), AuthError> {
        let this = Arc::clone(self);
        let work = self.refreshing.join(move || {
            let work = tokio::spawn(async move {
                let outcome = this.refresh(&stale).await;
                if !matches!(outcome, Ok(()) | Err(AuthError::LoginNeeded(_))) {
                    this.state().failed = Some(Instant::now());
                }
                outcome
            });
            async move { work.await.unwrap_or(Err(AuthError::Abandoned)) }
        });
        work.await
    }

    async fn refresh(&self, stale: &HeaderValue) -> Result<(), AuthError> {
        let _lock = self.store.lock(&self.server).await?;
        let kept = self.reload().await?;
        if authorization(kept.as_ref()).is_some_and(|current| current != stale) {
            tracing::debug!(target: "mcpjoin", server = %self.shown(), "another process refreshed the token");
            return Ok(());
        }
        let Some((kept, tokens)) = kept.as_ref().and_then(|kept| Some((kept, kept.tokens.as_ref()?))) else {
            return Err(AuthError::LoginNeeded(format!("the login for {} no longer exists", self.shown())));
        };
        let Some(refresh) = &tokens.refresh else {
            let what = format!("the token for {} has expired and cannot be refreshed", self.shown());
            return Err(AuthError::LoginNeeded(what));
        };
        let form = Form::new("refresh_token")
            .with("refresh_token", refresh.clone())
            .with("resource", kept.resource.as_str());
        let possession = self.possession();
        let asked = self.endpoint(kept, &kept.token_endpoint, possession.as_deref()).ask(form).await;
        match asked {
            Ok(new) => {
                // What the response does not name stays as it was (RFC 6749, 6).
                let tokens = Tokens {
                    refresh: new.refresh.clone().or_else(|| tokens.refresh.clone()),
                    scopes: new.scopes.clone().or_else(|| tokens.scopes.clone()),
                    ..new
                };
                let kept = StoredLogin { tokens: Some(tokens), ..StoredLogin::clone(kept) };
                if let Err(error) = self.keep(kept, possession).await {
                    tracing::warn!(target: "mcpjoin", %error, "the new token is not stored");
                }
                tracing::debug!(target: "mcpjoin", server = %self.shown(), "the token is refreshed");
                Ok(())
            }
            Err(AuthError::Token(error)) if error.is_final() => {
                // A client that the server does not know any more cannot do anything else.
                let unknown = error.is("invalid_client") && kept.registration.way == Way::Dynamic;
                let forgotten = if unknown {
                    self.forget().await.map(drop)
                } else {
                    self.keep(StoredLogin { tokens: None, key: None, ..StoredLogin::clone(kept) }, None).await
                };
                if let Err(error) = forgotten {
                    tracing::warn!(target: "mcpjoin", %error, "an expired token stays stored");
                }
                let TokenError::Refused { error, .. } = error else { return Err(error.into()) };
                Err(AuthError::LoginNeeded(format!(
                    "{} rejected the refresh of the token for {} ({error})",
                    shown_text(kept.issuer()),
                    self.shown()
                )))
            }
            Err(error) => Err(error),
        }
    }
}
