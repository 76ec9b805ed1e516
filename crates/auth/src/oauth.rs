//! `OAuth`: the credentials of a client by OAuth 2.1, and login, logout and status for its user.
//!
//! Given to [`HttpConnect::credentials`](mcpjoin::transport::HttpConnect::credentials). It uses and refreshes the stored login; a user
//! is involved only through the user agent, if one is set.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{HeaderValue, StatusCode};
use mcpjoin_proto::http::origin::same_origin;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use url::Url;

use super::account::{Account, State};
use super::discovery::Challenged;
use super::dpop::Dpop;
use super::error::AuthError;
use super::explain::OnStep;
use super::fetch::{FetchOptions, Fetched, Fetcher};
use super::form::Form;
use super::grants::PrivateKey;
use super::login::{Obtain, Occasion};
use super::registration::{ClientIdentity, TokenAuth};
use super::resource::is_scope;
use super::secret::Secret;
use super::single_flight::SingleFlight;
use super::steps::Step;
use super::store::{ErasedStore, MemoryStore, TokenStore};
use super::stored_login::StoredLogin;
use super::token::{TokenError, TokenKind, Tokens, refusal};
use super::user_agent::{ErasedUserAgent, UserAgent};
use mcpjoin::transport::{
    AfterChallenge, AuthorizationChallenge, AuthorizationRequest, Credentials, CredentialsError,
    HttpSetupError,
};

/// How far clocks may differ: a token that expired less than this ago is still tried when it cannot be refreshed.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(5 * 60);
/// [RFC 6750, 3.1](https://www.rfc-editor.org/rfc/rfc6750#section-3.1).
const INSUFFICIENT_SCOPE: &str = "insufficient_scope";
/// [RFC 9449, 9](https://www.rfc-editor.org/rfc/rfc9449#section-9).
const USE_DPOP_NONCE: &str = "use_dpop_nonce";

/// Credentials by OAuth 2.1 for one server. Clones share everything.
///
/// As [`Credentials`] of a link it sends the stored token and refreshes it a minute before it expires, or when the server
/// refuses it; concurrent requests share one refresh. When the server requires an authorization or more scopes, it logs in
/// through the [`UserAgent`] or the grant. Without either, the message fails with an error that says what is missing. A user may
/// take longer than a call may last: log in before connecting where a user is needed.
///
/// The token is sent to the origin of the server only. Everything stored is sent only to the authorization server that it came
/// from.
///
/// ```no_run
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// use mcpjoin_auth::{FileStore, LocalBrowser, OAuth};
/// use mcpjoin::{Client, Link};
///
/// let url = "https://example.com/mcp";
/// let oauth = OAuth::builder(url)
///     .store(FileStore::at("/home/me/.local/state/example"))
///     .user_agent(LocalBrowser::new())
///     .build()?;
/// if oauth.status().await?.is_none() {
///     oauth.login().await?;
/// }
/// let link = Link::http(url).credentials(oauth).build()?;
/// let client = Client::builder("example", "1.0.0").connect(link).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct OAuth(pub(super) Arc<Account>);

/// Builds an [`OAuth`]. Every setting is optional.
#[must_use = "nothing is made before `build`"]
pub struct OAuthBuilder {
    url: String,
    pub(super) identity: ClientIdentity,
    scopes: Vec<String>,
    store: Box<dyn ErasedStore>,
    user_agent: Option<Box<dyn ErasedUserAgent>>,
    fetching: FetchOptions,
    on_step: Option<OnStep>,
    /// A grant other than the authorization code.
    pub(super) obtain: Option<Arc<dyn Obtain>>,
    /// Authenticates the client with its key.
    pub(super) assertion: Option<PrivateKey>,
    /// Tokens are bound to a key where the authorization server supports it.
    pub(super) dpop: bool,
}

/// An [`OAuth`] cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OAuthSetupError {
    /// The URL or a certificate cannot be used.
    #[error(transparent)]
    Http(#[from] HttpSetupError),
    /// A scope contains a character that scopes must not contain
    /// ([RFC 6749, 3.3](https://www.rfc-editor.org/rfc/rfc6749#section-3.3)).
    #[error("`{0}` is not a scope")]
    Scope(String),
}

/// A login, without its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Login {
    /// The URL of the server.
    pub server: String,
    /// The resource of the token, as the server's metadata names it.
    pub resource: String,
    /// The authorization server that issued it.
    pub issuer: String,
    /// The client id there.
    pub client_id: String,
    /// The scopes: those that the authorization server granted, or those that were requested if it named none.
    pub scopes: Vec<String>,
    /// When it expires; `None` when that is unknown.
    pub expires: Option<SystemTime>,
    /// Whether it can be refreshed.
    pub refreshable: bool,
}

/// The result of a logout.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Logout {
    /// Whether a login was stored. It is removed.
    pub stored: bool,
    /// Whether the token was revoked at the authorization server ([RFC 7009](https://www.rfc-editor.org/rfc/rfc7009)), or why that
    /// failed. `None` when there was no token, or the server does not support it.
    pub revoked: Option<Result<(), String>>,
}

impl OAuth {
    /// Credentials for the server at `url`, the URL of the link.
    pub fn builder(url: impl Into<String>) -> OAuthBuilder {
        OAuthBuilder {
            url: url.into(),
            identity: ClientIdentity::default(),
            scopes: Vec::new(),
            store: Box::new(MemoryStore::default()),
            user_agent: None,
            fetching: FetchOptions::default(),
            on_step: None,
            obtain: None,
            assertion: None,
            dpop: false,
        }
    }

    /// Logs in now, whatever is stored: runs discovery, registers the client if needed, asks the user, and stores the login.
    /// Dropping the future cancels it and closes the port for the browser; but once tokens were issued they are stored.
    ///
    /// # Errors
    /// When any of that fails, and when the login cannot be stored (it is used all the same).
    pub async fn login(&self) -> Result<Login, AuthError> {
        self.0.log_in(&Occasion::Wanted).await?;
        let gone = || AuthError::LoginNeeded(format!("the login for {} no longer exists", self.0.shown()));
        self.0.kept().await?.as_deref().and_then(login).ok_or_else(gone)
    }

    /// Removes the stored login, tokens and client, and revokes the tokens where the authorization server supports it.
    ///
    /// # Errors
    /// When it cannot be removed. A failed revocation is no error: it is in [`Logout::revoked`].
    pub async fn logout(&self) -> Result<Logout, AuthError> {
        let account = &self.0;
        // A login that cannot be read can still be removed.
        let mut kept = account.reload().await.ok().flatten();
        let _lock = match &kept {
            Some(_) => Some(account.store.lock(&account.server).await?),
            None => None,
        };
        if kept.is_some() {
            // The previous holder of the lock may have refreshed the tokens.
            kept = account.reload().await.ok().flatten();
        }
        let possession = account.possession();
        let stored = account.forget().await?;
        let revoked = match kept.as_deref() {
            Some(kept) => revoke(account, kept, possession.as_deref()).await,
            None => None,
        };
        Ok(Logout { stored, revoked })
    }

    /// Returns the stored login. Sends nothing, so the server may still refuse it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn status(&self) -> Result<Option<Login>, AuthError> {
        Ok(self.0.reload().await?.as_deref().and_then(login))
    }
}

/// The name of an access token at the revocation endpoint ([RFC 7009, 2.1](https://www.rfc-editor.org/rfc/rfc7009#section-2.1)).
const ACCESS: &str = "access_token";

/// Whether the endpoint cannot revoke tokens of that type.
fn is_unsupported(fetched: &Fetched) -> bool {
    matches!(refusal("", fetched), Some(TokenError::Refused { error, .. }) if error == "unsupported_token_type")
}

/// Revokes the tokens.
async fn revoke(
    account: &Account,
    kept: &StoredLogin,
    possession: Option<&Dpop>,
) -> Option<Result<(), String>> {
    let (url, tokens) = (kept.revocation_endpoint.as_deref()?, kept.tokens.as_ref()?);
    let endpoint = account.endpoint(kept, url, possession);
    // Revoking the refresh token should revoke its access tokens; the reverse is not required.
    let all = [("refresh_token", tokens.refresh.as_ref()), (ACCESS, Some(&tokens.access))];
    for (kind, token) in all {
        let Some(token) = token else { continue };
        let form = Form::empty().with("token", token.clone()).with("token_type_hint", Secret::new(kind));
        let mut answer = endpoint.post(form.clone()).await;
        let is_refused =
            |fetched: &Fetched| fetched.status == StatusCode::BAD_REQUEST && !is_unsupported(fetched);
        if endpoint.client.token_auth == TokenAuth::None && answer.as_ref().is_ok_and(is_refused) {
            // Servers of the Python SDK require the field, also of a client without a secret. Omitted or empty means the same (RFC 6749,
            // 2.3.1).
            answer = endpoint.post(form.with("client_secret", "")).await;
        }
        match answer {
            Ok(fetched) if fetched.status.is_success() => {}
            // An access token that the server does not store, such as a signed one, expires by itself (RFC 7009, 2.2.1).
            Ok(fetched) if tokens.refresh.is_some() && kind == ACCESS && is_unsupported(&fetched) => {}
            Ok(fetched) => {
                return Some(Err(format!("the revocation endpoint responded with {}", fetched.status)));
            }
            Err(error) => return Some(Err(error.to_string())),
        }
    }
    Some(Ok(()))
}

fn login(kept: &StoredLogin) -> Option<Login> {
    let tokens = kept.tokens.as_ref()?;
    Some(Login {
        server: kept.server.clone(),
        resource: kept.resource.clone(),
        issuer: kept.issuer().to_owned(),
        client_id: kept.registration.client_id.clone(),
        scopes: tokens.scopes.clone().unwrap_or_else(|| kept.requested.clone()),
        expires: tokens.expires,
        refreshable: tokens.refresh.is_some(),
    })
}

impl Credentials for OAuth {
    async fn authorization(
        &self,
        request: AuthorizationRequest<'_>,
    ) -> Result<Option<HeaderValue>, CredentialsError> {
        let account = &self.0;
        if !same_origin(request.url, &account.server) {
            return Ok(None);
        }
        // Twice: a token that another process has refreshed meanwhile may be stale, too.
        for last in [false, true] {
            let kept = account.kept().await.map_err(failed)?;
            let Some(tokens) = kept.as_ref().and_then(|kept| kept.tokens.as_ref()) else { return Ok(None) };
            let Some(value) = tokens.authorization() else { return Ok(None) };
            if tokens.kind == TokenKind::Dpop && account.possession().is_none() {
                let what = format!(
                    "the token for {} is bound to a key (DPoP), and that key is missing or unusable",
                    account.shown()
                );
                return Err(failed(AuthError::LoginNeeded(what)));
            }
            let now = SystemTime::now();
            if last || !account.is_stale(tokens, now) {
                return Ok(Some(value));
            }
            match account.refreshed(value.clone()).await {
                Ok(()) => {}
                // The server will send a challenge, and a login is possible.
                Err(AuthError::LoginNeeded(_)) if account.can_log_in() => return Ok(None),
                Err(error) if account.is_worth_sending(tokens, now, &error) => {
                    tracing::warn!(target: "mcpjoin", %error, "the token is not refreshed");
                    return Ok(Some(value));
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(None)
    }

    fn proof(&self, request: AuthorizationRequest<'_>, authorization: &HeaderValue) -> Option<HeaderValue> {
        let token = authorization.to_str().ok()?.strip_prefix("DPoP ")?;
        self.0.possession()?.proof(request.method, request.url, Some(token))
    }

    fn answered(&self, url: &str, dpop_nonce: &str) {
        if let Some(possession) = self.0.possession() {
            possession.nonce(url, dpop_nonce);
        }
    }

    /// A digest of the token: it differs for another token.
    fn cache_partition(&self) -> Option<String> {
        let kept = self.0.known()?;
        let mut digest = Sha256::new();
        for part in [kept.issuer(), &kept.resource, kept.tokens.as_ref()?.access.expose()] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        Some(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    async fn challenged(&self, challenge: AuthorizationChallenge<'_>) -> AfterChallenge {
        let account = &self.0;
        let AuthorizationChallenge { status, www_authenticate, authorization, again, repeatable, .. } =
            challenge;
        // The user should not have to log in for the end of a session.
        let asks = account.can_log_in() && challenge.method != "DELETE";
        if !same_origin(challenge.url, &account.server) {
            return AfterChallenge::GiveUp;
        }
        let challenged = Challenged::of(status, www_authenticate);
        let error = challenged.parameter("error").unwrap_or_default();
        let outcome = match (status, authorization) {
            (401, _) if !repeatable => return AfterChallenge::GiveUp,
            (401, Some(_)) if error == USE_DPOP_NONCE && challenge.dpop_nonce.is_some() => Ok(()),
            (401, _) => account.unauthorized(authorization, challenged, again > 0, asks).await,
            (403, Some(refused)) if error == INSUFFICIENT_SCOPE && challenged.scopes().is_some() => {
                account.step_up(refused, challenged, repeatable && asks).await
            }
            _ => return AfterChallenge::GiveUp,
        };
        match outcome {
            Ok(()) => AfterChallenge::Retry,
            Err(error) => AfterChallenge::Fail(failed(error)),
        }
    }
}

impl Account {
    /// Whether a token is sent all the same although its refresh has failed.
    fn is_worth_sending(&self, tokens: &Tokens, now: SystemTime, error: &AuthError) -> bool {
        let is_valid = tokens.expires.is_some_and(|expires| now < expires);
        match error {
            // The tokens are forgotten.
            AuthError::LoginNeeded(_) => false,
            AuthError::Token(error) if error.is_transient() => is_near(tokens.expires, now),
            // The refresh may fail each time. The challenge of the server leads to a login.
            AuthError::Token(_) => is_valid || self.can_log_in(),
            _ => is_valid,
        }
    }
}

/// Whether a token is valid, or expired so recently that the clocks may differ about it.
fn is_near(expires: Option<SystemTime>, now: SystemTime) -> bool {
    expires.and_then(|expires| expires.checked_add(MAX_CLOCK_SKEW)).is_none_or(|expires| now < expires)
}

fn failed(error: impl Into<AuthError>) -> CredentialsError {
    let error = error.into();
    match (error.outage(), &error) {
        (Some((kind, what)), _) => CredentialsError::new(what).of(kind),
        (None, AuthError::LoginNeeded(_)) => CredentialsError::new(format!("{error}: a login is needed")),
        (None, error) => CredentialsError::new(error.to_string()),
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth").field("server", &self.0.shown()).finish_non_exhaustive()
    }
}

impl OAuthBuilder {
    /// Sets the client identity. By default the client registers itself, or uses the stored registration.
    pub fn client(mut self, identity: ClientIdentity) -> Self {
        self.identity = identity;
        self
    }

    /// Requests this scope, or several separated by spaces, in addition to those that the server requires.
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scopes.extend(scope.into().split_ascii_whitespace().map(str::to_owned));
        self
    }

    /// Sets where the login is stored: in memory by default.
    pub fn store(mut self, store: impl TokenStore) -> Self {
        self.store = Box::new(store);
        self
    }

    /// Sets who shows the page of the authorization server to the user. By default a login by a user is not possible.
    pub fn user_agent(mut self, user_agent: impl UserAgent) -> Self {
        self.user_agent = Some(Box::new(user_agent));
        self
    }

    /// Trusts certificates that these have signed, beside those of the system: PEM, one or several.
    pub fn extra_ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.fetching.extra_ca.push(pem.into());
        self
    }

    /// Sets how long connecting may take: 10 s by default.
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.fetching.connect_timeout = timeout;
        self
    }

    /// Called with each step of a discovery.
    pub fn on_step(mut self, told: impl Fn(&Step) + Send + Sync + 'static) -> Self {
        self.on_step = Some(Arc::new(told));
        self
    }

    /// Builds it. Sends and reads nothing.
    ///
    /// # Errors
    /// When the URL, a certificate or a scope is invalid.
    pub fn build(self) -> Result<OAuth, OAuthSetupError> {
        check_scopes(&self.scopes)?;
        let fetcher = Fetcher::new(&self.url, self.fetching)?;
        let mut url = Url::parse(&self.url).map_err(|error| HttpSetupError::Url(error.to_string()))?;
        url.set_fragment(None);
        Ok(OAuth(Arc::new(Account {
            server: url.into(),
            fetcher,
            identity: self.identity,
            scopes: self.scopes,
            store: self.store,
            user_agent: self.user_agent,
            obtain: self.obtain,
            assertion: self.assertion,
            dpop: self.dpop,
            on_step: self.on_step,
            state: Mutex::new(State::default()),
            refreshing: SingleFlight::default(),
            logging_in: SingleFlight::default(),
        })))
    }
}

/// Checks that each of them is a scope.
pub(super) fn check_scopes(scopes: &[String]) -> Result<(), OAuthSetupError> {
    match scopes.iter().find(|scope| !is_scope(scope)) {
        Some(wrong) => Err(OAuthSetupError::Scope(super::fetch::cut(wrong))),
        None => Ok(()),
    }
}

impl fmt::Debug for OAuthBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthBuilder").field("client", &self.identity).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
