//! The account of one server: its settings and its current login.
//!
//! Shared by all clones of an `OAuth`. `login`, `refresh` and `refused` change it. The store has the authoritative login and is
//! read again whenever the login seems to be invalid; memory is newer than the store only where saving has failed.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::HeaderValue;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::dpop::{self, Dpop};
use super::explain::OnStep;
use super::fetch::{Fetcher, shown_text};
use super::grants::PrivateKey;
use super::login::Obtain;
use super::registration::{ClientIdentity, Registration, Way};
use super::single_flight::SingleFlight;
use super::steps::Step;
use super::store::{ErasedStore, StoreError};
use super::stored_login::StoredLogin;
use super::token::{TokenEndpoint, Tokens};
use super::user_agent::ErasedUserAgent;

/// How long before its expiry a token is refreshed: it must not expire while a request is in flight.
pub(super) const REFRESH_MARGIN: Duration = Duration::from_secs(60);
/// A token that was issued less than this ago and is refused will be refused again.
pub(super) const JUST_NOW: Duration = Duration::from_secs(60);
/// After a refresh that failed, how long a valid token is used before the next attempt.
const REFRESH_RETRY_DELAY: Duration = Duration::from_secs(30);

pub(super) struct Account {
    /// The URL of the server.
    pub(super) server: String,
    pub(super) fetcher: Fetcher,
    pub(super) identity: ClientIdentity,
    /// The scopes that are always requested.
    pub(super) scopes: Vec<String>,
    pub(super) store: Box<dyn ErasedStore>,
    pub(super) user_agent: Option<Box<dyn ErasedUserAgent>>,
    pub(super) obtain: Option<Arc<dyn Obtain>>,
    pub(super) assertion: Option<PrivateKey>,
    /// Tokens are bound to a key where the authorization server supports it.
    pub(super) dpop: bool,
    pub(super) on_step: Option<OnStep>,
    pub(super) state: Mutex<State>,
    pub(super) refreshing: SingleFlight,
    pub(super) logging_in: SingleFlight,
}

/// The mutable part.
#[derive(Default)]
pub(super) struct State {
    loaded: bool,
    kept: Option<Arc<StoredLogin>>,
    /// The proof of the key that the tokens are bound to.
    possession: Option<Arc<Dpop>>,
    /// The login in memory is newer than the one in the store.
    unsaved: bool,
    /// How often the login has changed: what was read from the store before a change is stale.
    changes: u64,
    /// The issuer and the time of the last login.
    pub(super) logged_in: Option<(String, Instant)>,
    /// The scopes that were requested in vain since the last login.
    pub(super) denied: Vec<String>,
    /// When a refresh failed last, for another reason than that a login is needed.
    pub(super) failed: Option<Instant>,
}

impl State {
    /// Removes the login; returns the number of this change.
    fn forget(&mut self) -> u64 {
        *self = Self { loaded: true, changes: self.changes + 1, ..Self::default() };
        self.changes
    }
}

impl Account {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The URL of the server for people: its query may contain a key.
    pub(super) fn shown(&self) -> String {
        shown_text(&self.server)
    }

    /// Reports a step.
    pub(super) fn report(&self, step: &Step) {
        if let Some(on_step) = &self.on_step {
            on_step(step);
        }
    }

    /// Whether a new token can be obtained without a stored one.
    pub(super) fn can_log_in(&self) -> bool {
        self.user_agent.is_some() || self.obtain.is_some()
    }

    /// The login.
    pub(super) async fn kept(&self) -> Result<Option<Arc<StoredLogin>>, StoreError> {
        {
            let state = self.state();
            if state.loaded {
                return Ok(state.kept.clone());
            }
        }
        self.reload().await
    }

    /// The login, if it is in memory.
    pub(super) fn known(&self) -> Option<Arc<StoredLogin>> {
        self.state().kept.clone()
    }

    /// Reads the login from the store again: another process may have changed it.
    pub(super) async fn reload(&self) -> Result<Option<Arc<StoredLogin>>, StoreError> {
        let changes = {
            let state = self.state();
            if state.unsaved {
                return Ok(state.kept.clone());
            }
            state.changes
        };
        let text = self.store.load(&self.server).await?;
        let kept = text.map(|text| StoredLogin::read(&self.server, &text)).transpose()?;
        let kept = kept.filter(|kept| self.is_ours(&kept.registration));
        let possession = kept.as_ref().and_then(possession_of);
        let mut state = self.state();
        if state.changes != changes {
            return Ok(state.kept.clone());
        }
        let unchanged = state.kept.as_deref() == kept.as_ref();
        if !unchanged {
            state.kept = kept.map(Arc::new);
            state.possession = possession;
        } else if state.possession.is_none() {
            state.possession = possession;
        }
        state.loaded = true;
        Ok(state.kept.clone())
    }

    /// Whether a login belongs to the client identity of the settings.
    fn is_ours(&self, registration: &Registration) -> bool {
        match &self.identity {
            ClientIdentity::Registered { id, issuer, .. } => {
                *id == registration.client_id && issuer.as_ref().is_none_or(|it| *it == registration.issuer)
            }
            // Without a configured identity, any stored login is used.
            _ => true,
        }
    }

    /// Stores a login. It is kept in memory even if it cannot be stored.
    pub(super) async fn keep(
        &self,
        kept: StoredLogin,
        possession: Option<Arc<Dpop>>,
    ) -> Result<(), StoreError> {
        let text = kept.text();
        let changes = {
            let mut state = self.state();
            state.changes += 1;
            state.kept = Some(Arc::new(kept));
            state.possession = possession;
            state.loaded = true;
            state.unsaved = true;
            state.failed = None;
            state.changes
        };
        self.store.save(&self.server, text?).await?;
        let mut state = self.state();
        if state.changes == changes {
            state.unsaved = false;
        }
        Ok(())
    }

    /// Removes the login, and returns whether there was one.
    pub(super) async fn forget(&self) -> Result<bool, StoreError> {
        let changes = self.state().forget();
        let removed = self.store.remove(&self.server).await?;
        let mut state = self.state();
        // A concurrent read may have returned the login that was being removed.
        if state.changes == changes {
            state.forget();
        }
        Ok(removed)
    }

    pub(super) fn possession(&self) -> Option<Arc<Dpop>> {
        self.state().possession.clone()
    }

    /// The token endpoint of that login.
    pub(super) fn endpoint<'a>(
        &'a self,
        kept: &'a StoredLogin,
        url: &'a str,
        possession: Option<&'a Dpop>,
    ) -> TokenEndpoint<'a> {
        TokenEndpoint {
            fetcher: &self.fetcher,
            url,
            issuer: kept.issuer(),
            client: &kept.registration,
            assertion: self.assertion.as_ref(),
            possession,
        }
    }

    /// The client identity, in view of the stored login: a registered client stays with the issuer with which it was used first. A
    /// client of the program's own credentials, which has no redirect URI, cannot be used for a login by a person.
    pub(super) fn identity(&self, stored: Option<&StoredLogin>) -> ClientIdentity {
        let stored = stored.map(|kept| &kept.registration).filter(|stored| stored.way == Way::PreRegistered);
        let Some(stored) = stored else { return self.identity.clone() };
        let fits = self.obtain.is_some() || !stored.redirect_uris.is_empty();
        match &self.identity {
            ClientIdentity::Registered { id, secret, issuer: None } => ClientIdentity::Registered {
                id: id.clone(),
                secret: secret.clone(),
                issuer: Some(stored.issuer.clone()),
            },
            ClientIdentity::Dynamic { .. } if fits => ClientIdentity::Registered {
                id: stored.client_id.clone(),
                secret: stored.client_secret.clone(),
                issuer: Some(stored.issuer.clone()),
            },
            other => other.clone(),
        }
    }

    /// Whether a token should be refreshed now. A token that cannot be refreshed is never stale: the server decides.
    pub(super) fn is_stale(&self, tokens: &Tokens, now: SystemTime) -> bool {
        if tokens.refresh.is_none() {
            return false;
        }
        let paused = self.state().failed.is_some_and(|failed| failed.elapsed() < REFRESH_RETRY_DELAY);
        stale(tokens, now) && !(paused && tokens.expires.is_some_and(|expires| now < expires))
    }
}

/// The proof of the key that the tokens are bound to, whether or not a new login would have one.
fn possession_of(kept: &StoredLogin) -> Option<Arc<Dpop>> {
    match dpop::possession(Some(kept.key.as_ref()?)) {
        Ok(possession) => Some(possession),
        Err(error) => {
            tracing::warn!(target: "mcpjoin", %error, "the stored key cannot be used");
            None
        }
    }
}

/// Whether a token expires within a minute, or within half of its life where that is less.
fn stale(tokens: &Tokens, now: SystemTime) -> bool {
    let Some(expires) = tokens.expires else { return false };
    let before = tokens.lifetime.map_or(REFRESH_MARGIN, |lifetime| REFRESH_MARGIN.min(lifetime / 2));
    now.checked_add(before).is_none_or(|now| now >= expires)
}

/// The value of `Authorization` for a login.
pub(super) fn authorization(kept: Option<&Arc<StoredLogin>>) -> Option<HeaderValue> {
    kept?.tokens.as_ref()?.authorization()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::token::TokenKind;

    #[test]
    fn g141_a_token_is_refreshed_a_minute_before_it_expires_or_when_half_of_its_life_is_over() {
        let at = |seconds: u64| UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds);
        let table: [(Option<u64>, Option<u64>, u64, bool); 9] = [
            (Some(3600), Some(3600), 0, false),
            (Some(3600), Some(3600), 3539, false),
            (Some(3600), Some(3600), 3540, true),
            (Some(3600), Some(3600), 9999, true),
            (Some(10), Some(10), 4, false),
            (Some(10), Some(10), 5, true),
            (None, Some(3600), 3539, false),
            (None, Some(3600), 3541, true),
            (None, None, 9999, false),
        ];
        for (lifetime, expires, now, is_stale) in table {
            let tokens = Tokens {
                access: "a".into(),
                kind: TokenKind::Bearer,
                expires: expires.map(at),
                lifetime: lifetime.map(Duration::from_secs),
                refresh: Some("r".into()),
                scopes: None,
            };
            assert_eq!(stale(&tokens, at(now)), is_stale, "{lifetime:?} {expires:?} {now}");
        }
    }
}
