//! The keys of an authorization server: fetched, cached and renewed.
//!
//! Used by [`jwt`](super::jwt). The issuer's metadata ([RFC 8414](https://www.rfc-editor.org/rfc/rfc8414#section-3) or OpenID
//! Connect Discovery) name the URL of the keys. One task at a time fetches them, for all waiters. It goes on when its waiters
//! are dropped, so that clients that come and go cause no more requests than one that stays.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use mcpjoin_proto::Raw;
use mcpjoin_proto::http::resource::authorization_server_urls;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::verifier::Rejected;
use crate::fetch::shown_text;
use crate::jws::{Jws, JwsError, KeySet};
use crate::metadata::AuthorizationServer;

/// How long keys are used before they are fetched again: a withdrawn key is accepted for that long at most.
const MAX_AGE: Duration = Duration::from_secs(10 * 60);

/// How long keys are used when they cannot be fetched again.
const MAX_STALE_AGE: Duration = Duration::from_secs(60 * 60);

/// The shortest time between two fetches, however often a token names an unknown key.
const MIN_FETCH_INTERVAL: Duration = Duration::from_secs(30);

/// How long fetching the keys may take, with the metadata that name them.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a request waits for newer keys while there are usable ones.
const WAIT_FOR_NEWER: Duration = Duration::from_secs(5);

/// Fetches documents: at most 1 MiB each, and only from addresses that the issuer may name.
pub(super) trait Documents: Send + Sync {
    /// Returns `None` when there is no such document.
    fn get(self: Arc<Self>, url: String) -> Getting;
}

pub(super) type Getting = BoxFuture<'static, Result<Option<Bytes>, String>>;

/// The keys of one issuer.
pub(super) struct IssuerKeys {
    pub(super) issuer: String,
    /// `None`: the keys are fixed and never fetched.
    documents: Option<Arc<dyn Documents>>,
    state: Mutex<State>,
    /// Locked by the task that fetches.
    alone: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct State {
    keys: Option<Keys>,
    attempted: Option<Instant>,
    /// Why the last fetch failed, if it did.
    problem: Option<String>,
}

#[derive(Clone)]
struct Keys {
    set: Arc<KeySet>,
    since: Instant,
}

impl IssuerKeys {
    /// Keys that the issuer's metadata name.
    pub(super) fn named_by(issuer: String, documents: Arc<dyn Documents>) -> Self {
        Self { issuer, documents: Some(documents), state: Mutex::default(), alone: Arc::default() }
    }

    /// Fixed keys.
    pub(super) fn given(issuer: String, set: KeySet) -> Self {
        let keys = Some(Keys { set: Arc::new(set), since: Instant::now() });
        let state = Mutex::new(State { keys, ..State::default() });
        Self { issuer, documents: None, state, alone: Arc::default() }
    }

    /// Verifies a token; returns its claims.
    pub(super) async fn verify<'t>(self: &Arc<Self>, jws: &'t Jws<'_>) -> Result<&'t Raw, Rejected> {
        let keys = self.keys().await?;
        match jws.verify(&keys.set) {
            Err(JwsError::UnknownKey(_)) => {}
            verified => return verified.map_err(invalid),
        }
        // The issuer may use a new key.
        self.fetch(Some(keys.since)).await;
        let (newer, is_unknown) = {
            let state = self.state.lock();
            let newer = state.keys.clone().filter(|newer| newer.since != keys.since);
            (newer, state.problem.is_some())
        };
        match newer {
            Some(newer) => jws.verify(&newer.set).map_err(invalid),
            // The newest keys are not known, and a client would discard a good token.
            None if is_unknown => Err(unavailable()),
            None => Err(Rejected::Invalid(
                "the token is signed with a key that its issuer does not publish".into(),
            )),
        }
    }

    async fn keys(self: &Arc<Self>) -> Result<Keys, Rejected> {
        let known = self.state.lock().keys.clone();
        if let Some(keys) = &known
            && (self.documents.is_none() || keys.since.elapsed() < MAX_AGE)
        {
            return Ok(keys.clone());
        }
        let fetching = self.fetch(known.as_ref().map(|keys| keys.since));
        match known {
            // An issuer that does not respond must not delay requests for long: the present keys are used then.
            Some(keys) if keys.since.elapsed() < MAX_STALE_AGE => {
                drop(timeout(WAIT_FOR_NEWER, fetching).await);
            }
            _ => fetching.await,
        }
        let keys = self.state.lock().keys.clone().filter(|keys| keys.since.elapsed() < MAX_STALE_AGE);
        keys.ok_or_else(unavailable)
    }

    /// Fetches the keys before they are needed. A request that needs them fetches at once, also after this has failed; the problem
    /// is only returned.
    pub(super) async fn prepare(self: &Arc<Self>) -> Result<(), String> {
        if self.documents.is_none() {
            return Ok(());
        }
        self.fetching(None, false).await;
        let mut state = self.state.lock();
        if state.keys.is_some() {
            return Ok(());
        }
        state.attempted = None;
        Err(state.problem.clone().unwrap_or_default())
    }

    /// Fetches the keys, unless that was done since, or tried a moment ago.
    async fn fetch(self: &Arc<Self>, since: Option<Instant>) {
        self.fetching(since, true).await;
    }

    async fn fetching(self: &Arc<Self>, since: Option<Instant>, tells: bool) {
        let Some(documents) = self.documents.clone() else { return };
        let alone = self.alone.clone().lock_owned().await;
        {
            let mut state = self.state.lock();
            let fetched = state.keys.as_ref().map(|keys| keys.since) != since;
            if fetched || state.attempted.is_some_and(|attempted| attempted.elapsed() < MIN_FETCH_INTERVAL) {
                return;
            }
            state.attempted = Some(Instant::now());
        }
        let this = self.clone();
        let fetching = tokio::spawn(async move {
            let fetched = timeout(FETCH_TIMEOUT, fetched(&this.issuer, documents)).await;
            match fetched.unwrap_or_else(|_| Err(format!("no response within {} s", FETCH_TIMEOUT.as_secs())))
            {
                Ok(set) => {
                    let mut state = this.state.lock();
                    state.keys = Some(Keys { set: Arc::new(set), since: Instant::now() });
                    state.problem = None;
                }
                Err(error) => {
                    let issuer = &this.issuer;
                    if tells {
                        tracing::warn!(target: "mcpjoin", %issuer, %error, "the keys of an authorization server cannot be fetched");
                    }
                    this.state.lock().problem = Some(error);
                }
            }
            // Measured from the end: after a slow fetch each waiter would otherwise find that it is time for another.
            this.state.lock().attempted = Some(Instant::now());
            drop(alone);
        });
        // The result is in the state.
        let _ = fetching.await;
    }
}

fn unavailable() -> Rejected {
    Rejected::Unavailable("the keys of the authorization server are unavailable".into())
}

fn invalid(error: JwsError) -> Rejected {
    Rejected::Invalid(format!("the token cannot be verified: {error}"))
}

/// Fetches the keys that an issuer's metadata name.
async fn fetched(issuer: &str, documents: Arc<dyn Documents>) -> Result<KeySet, String> {
    let mut problem = "its metadata is missing at the well-known URLs".to_owned();
    for url in authorization_server_urls(issuer) {
        let document = match documents.clone().get(url.clone()).await {
            Ok(Some(document)) => document,
            Ok(None) => continue,
            // The metadata may be at another of these URLs, whatever is at this one.
            Err(error) => {
                problem = error;
                continue;
            }
        };
        let metadata = match AuthorizationServer::parse(document) {
            Ok(metadata) => metadata,
            Err(error) => {
                problem = format!("{url}: {error}");
                continue;
            }
        };
        // Exactly equal (RFC 8414, 3.3).
        if metadata.issuer != issuer {
            let found = shown_text(&metadata.issuer);
            problem = format!("{url}: the metadata belongs to another issuer, {found}");
            continue;
        }
        let Some(keys) = metadata.jwks_uri else {
            problem = format!("{url}: `jwks_uri` is missing");
            continue;
        };
        let document =
            documents.get(keys.clone()).await?.ok_or_else(|| format!("{keys}: the response is empty"))?;
        return KeySet::parse(&document).map_err(|error| format!("{keys}: {error}"));
    }
    Err(problem)
}
