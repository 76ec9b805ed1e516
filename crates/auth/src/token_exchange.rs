//! Token exchange ([RFC 8693](https://www.rfc-editor.org/rfc/rfc8693)): a program between clients and a server exchanges the
//! token of each client for one that acts for the same user at that server.
//!
//! A gateway makes one [`TokenExchange`] for each server, and gives the [`credentials`](TokenExchange::credentials) of a client
//! to the links of this client alone. The client's token goes to the authorization server that the operator has named, and
//! nowhere else. An exchange that fails is the failure of that client: no other token is used in its place.
//!
//! `grants` uses the same form for its exchange at an identity provider.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::HeaderValue;
use mcpjoin_proto::http::origin::same_origin;
use mcpjoin_proto::http::resource::canonical;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::account::{JUST_NOW, REFRESH_MARGIN};
use super::discovery::{self, Challenged};
use super::error::AuthError;
use super::fetch::{FetchOptions, Fetcher, cut, shown_text};
use super::form::Form;
use super::grants::PrivateKey;
use super::oauth::{OAuthSetupError, check_scopes};
use super::per_principal::PerPrincipal;
use super::registration::{Registration, TokenAuth};
use super::secret::Secret;
use super::single_flight::SingleFlight;
use super::subject_tokens::{SubjectToken, SubjectTokens};
use super::token::{self, TokenEndpoint, TokenError, TokenKind};
use mcpjoin::transport::{
    AfterChallenge, AuthorizationChallenge, AuthorizationRequest, Credentials, CredentialsError,
    HttpSetupError,
};

/// The grant of [RFC 8693, 2.1](https://www.rfc-editor.org/rfc/rfc8693#section-2.1).
const GRANT: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// An access token ([RFC 8693, 3](https://www.rfc-editor.org/rfc/rfc8693#section-3)).
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
/// A token that is a JWT, which may be an access token.
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";
/// How long one request to the authorization server may take: half of the time in which a session opens.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the failure for one token of a client is repeated without another request. A client that tries again and again
/// costs the authorization server four requests in a minute.
const FAILURE_AGE: Duration = Duration::from_secs(15);
/// How long the endpoint in the metadata of an issuer is used before it is fetched again.
const METADATA_AGE: Duration = Duration::from_secs(10 * 60);
const INSUFFICIENT_SCOPE: &str = "insufficient_scope";

/// The form of a token exchange.
pub(super) fn form<'a>(
    requested: &str,
    audiences: impl IntoIterator<Item = &'a str>,
    subject_type: &str,
    subject: Secret,
) -> Form {
    let form = Form::new(GRANT).with("requested_token_type", requested);
    let form = audiences.into_iter().fold(form, |form, audience| form.with("audience", audience));
    form.with("subject_token_type", subject_type).with("subject_token", subject)
}

/// Exchanges the tokens of clients for tokens for one server. Cheap to clone; clones share everything.
///
/// A token is kept in memory until a minute before it expires, or until the server refuses it; then the newest token of the
/// principal is exchanged again. The tokens of 10,000 principals and 32 MiB at most are kept; of the others, each is exchanged
/// when it is needed. Concurrent requests of a principal share one exchange, which takes 10 s at most. A failed exchange is
/// tried again after 15 s, or when the principal has sent another token.
///
/// ```no_run
/// # fn f() -> Result<(), Box<dyn std::error::Error>> {
/// use mcpjoin::Link;
/// use mcpjoin_auth::resource::ResourceServer;
/// use mcpjoin_auth::{SubjectTokens, TokenExchange};
///
/// let tokens = SubjectTokens::default();
/// let admission = ResourceServer::builder("https://gateway.example.com/mcp")
///     .issuer("https://login.example.com")
///     .subject_tokens(tokens.clone())
///     .build()?;
/// let files = TokenExchange::builder("https://files.example.com/mcp", "gateway")
///     .issuer("https://login.example.com")
///     .client_secret("...")
///     .build()?;
/// // For the client whose principal is `alice`, which `admission` has admitted:
/// let link = Link::http("https://files.example.com/mcp").credentials(files.credentials("alice", &tokens)).build()?;
/// # drop((admission, link));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TokenExchange(Arc<Inner>);

/// Configures a [`TokenExchange`].
#[must_use = "nothing is made before `build`"]
pub struct TokenExchangeBuilder {
    server: String,
    place: Place,
    client: Registration,
    key: Option<PrivateKey>,
    audiences: Vec<String>,
    resources: Vec<String>,
    scopes: Vec<String>,
    fetching: FetchOptions,
}

/// Where tokens are exchanged.
#[derive(Clone)]
enum Place {
    /// At the token endpoint in the metadata of this issuer.
    Issuer(String),
    TokenEndpoint(String),
}

struct Inner {
    /// The URL of the server.
    server: String,
    place: Place,
    fetcher: Fetcher,
    client: Registration,
    key: Option<PrivateKey>,
    audiences: Vec<String>,
    resources: Vec<String>,
    scopes: Vec<String>,
    /// The endpoint in the metadata, with how a secret is sent there.
    discovered: Mutex<Option<(String, TokenAuth, Instant)>>,
    tokens: Mutex<PerPrincipal<Arc<PrincipalTokens>>>,
}

/// What is known about one principal.
#[derive(Default)]
struct PrincipalTokens {
    state: Mutex<State>,
    exchanging: SingleFlight,
}

#[derive(Default)]
struct State {
    token: Option<Exchanged>,
    failed: Option<Failed>,
}

/// The token for the server.
struct Exchanged {
    authorization: HeaderValue,
    issued: Instant,
    /// When it is to be exchanged again; `None`: when the server refuses it.
    until: Option<Instant>,
    /// The token that it was exchanged for.
    subject: [u8; 32],
}

struct Failed {
    subject: [u8; 32],
    error: AuthError,
    at: Instant,
}

impl TokenExchange {
    /// A builder for the server at this URL. `client_id` is the program's own id at the authorization server.
    pub fn builder(server: impl Into<String>, client_id: impl Into<String>) -> TokenExchangeBuilder {
        TokenExchangeBuilder {
            server: server.into(),
            place: Place::Issuer(String::new()),
            client: Registration::given(String::new(), client_id.into()),
            key: None,
            audiences: Vec::new(),
            resources: Vec::new(),
            scopes: Vec::new(),
            fetching: FetchOptions { timeout: EXCHANGE_TIMEOUT, ..FetchOptions::default() },
        }
    }

    /// The credentials of one principal, for links to the server that only this principal uses. `subjects` has its newest token.
    #[must_use]
    pub fn credentials(&self, principal: &str, subjects: &SubjectTokens) -> PrincipalCredentials {
        PrincipalCredentials {
            exchange: self.clone(),
            principal: principal.into(),
            subjects: subjects.clone(),
        }
    }
}

impl TokenExchangeBuilder {
    /// Exchanges tokens at the token endpoint that the metadata of this issuer name. Either this or
    /// [`token_endpoint`](Self::token_endpoint) is needed.
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.place = Place::Issuer(issuer.into());
        self
    }

    /// Exchanges tokens at this URL.
    pub fn token_endpoint(mut self, url: impl Into<String>) -> Self {
        self.place = Place::TokenEndpoint(url.into());
        self
    }

    /// Sets the secret of the client.
    pub fn client_secret(mut self, secret: impl Into<Secret>) -> Self {
        self.client.client_secret = Some(secret.into());
        self
    }

    /// Authenticates the client by a key instead of a secret (`private_key_jwt`).
    pub fn private_key(mut self, key: PrivateKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Adds a name of the server at the authorization server. Default: none.
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.audiences.push(audience.into());
        self
    }

    /// Adds a URL of the server as a resource (RFC 8707). Default: the URL of the server, if there is no audience.
    pub fn resource(mut self, url: impl Into<String>) -> Self {
        self.resources.push(url.into());
        self
    }

    /// Requests this scope, or several separated by spaces. Default: none, so the authorization server chooses.
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scopes.extend(scope.into().split_ascii_whitespace().map(str::to_owned));
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

    /// Builds it. Sends nothing.
    ///
    /// # Errors
    /// When a URL, a certificate or a scope is invalid.
    pub fn build(self) -> Result<TokenExchange, OAuthSetupError> {
        let Self { server, place, mut client, key, audiences, mut resources, scopes, fetching } = self;
        check_scopes(&scopes)?;
        let (Place::Issuer(named) | Place::TokenEndpoint(named)) = &place;
        // The operator has named it, so its address is not restricted.
        let fetcher = Fetcher::new(named, fetching)?;
        client.issuer.clone_from(named);
        let own = canonical(&server).ok_or_else(|| HttpSetupError::Url(shown_text(&server)))?;
        if audiences.is_empty() && resources.is_empty() {
            resources.push(own);
        }
        Ok(TokenExchange(Arc::new(Inner {
            server,
            place,
            fetcher,
            client,
            key,
            audiences,
            resources,
            scopes,
            discovered: Mutex::default(),
            tokens: Mutex::default(),
        })))
    }
}

impl Inner {
    /// What is known about a principal. It may be dropped when it is no longer referenced.
    fn of(&self, principal: &str) -> Arc<PrincipalTokens> {
        let mut tokens = self.tokens.lock();
        if let Some(known) = tokens.find(principal) {
            return known.clone();
        }
        let new = Arc::new(PrincipalTokens::default());
        tokens.insert(principal, new.clone(), 0);
        new
    }

    /// Exchanges a token, and keeps the result.
    async fn exchange(
        &self,
        principal: &str,
        known: Arc<PrincipalTokens>,
        subject: SubjectToken,
    ) -> Result<(), AuthError> {
        let (began, digest) = (Instant::now(), subject.digest);
        match self.exchanged(subject, began).await {
            Ok(token) => {
                let bytes = token.authorization.len();
                *known.state.lock() = State { token: Some(token), failed: None };
                self.tokens.lock().insert(principal, known, bytes);
                tracing::debug!(target: "mcpjoin", server = %shown_text(&self.server), %principal, "a token was exchanged");
                Ok(())
            }
            Err(error) => {
                let failed = Failed { subject: digest, error: error.clone(), at: Instant::now() };
                known.state.lock().failed = Some(failed);
                Err(error)
            }
        }
    }

    async fn exchanged(&self, subject: SubjectToken, began: Instant) -> Result<Exchanged, AuthError> {
        let (url, token_auth) = self.token_endpoint().await?;
        let has_secret = self.client.client_secret.is_some();
        let client = Registration {
            token_auth: if has_secret { token_auth } else { TokenAuth::None },
            ..self.client.clone()
        };
        let endpoint = TokenEndpoint {
            fetcher: &self.fetcher,
            url: &url,
            issuer: &client.issuer,
            client: &client,
            assertion: self.key.as_ref(),
            possession: None,
        };
        let SubjectToken { token, digest, until } = subject;
        let audiences = self.audiences.iter().map(String::as_str);
        let mut form = form(ACCESS_TOKEN, audiences, ACCESS_TOKEN, token);
        for resource in &self.resources {
            form = form.with("resource", resource.as_str());
        }
        if !self.scopes.is_empty() {
            form = form.with("scope", self.scopes.join(" "));
        }
        let fetched = endpoint.post(form).await?;
        let nonsense = |what| TokenError::Nonsense { url: endpoint.name(), what };
        let tokens = token::read(&endpoint.name(), &fetched, SystemTime::now())?;
        let issued = fetched
            .json()
            .ok()
            .and_then(|answer| Some(answer.member("issued_token_type")?.to_string_value()?.into_owned()));
        if let Some(kind) = issued.filter(|kind| ![ACCESS_TOKEN, JWT].contains(&kind.as_str())) {
            let what = format!("its issued_token_type is `{}`, which is not an access token", cut(&kind));
            return Err(nonsense(what).into());
        }
        if tokens.kind != TokenKind::Bearer {
            return Err(nonsense("the token is bound to a key (DPoP), which was not requested".into()).into());
        }
        let authorization =
            tokens.authorization().ok_or_else(|| nonsense("the token fits into no header".into()))?;
        let margin = |lifetime: Duration| lifetime - REFRESH_MARGIN.min(lifetime / 2);
        // A token that does not say how long it lives is used no longer than the one that it was exchanged for.
        let until = tokens.lifetime.map_or(until, |lifetime| began.checked_add(margin(lifetime)));
        Ok(Exchanged { authorization, issued: Instant::now(), until, subject: digest })
    }

    /// The token endpoint, and how a secret is sent there.
    async fn token_endpoint(&self) -> Result<(String, TokenAuth), AuthError> {
        let issuer = match &self.place {
            Place::TokenEndpoint(url) => return Ok((url.clone(), TokenAuth::Basic)),
            Place::Issuer(issuer) => issuer,
        };
        if let Some((url, token_auth, since)) = &*self.discovered.lock()
            && since.elapsed() < METADATA_AGE
        {
            return Ok((url.clone(), *token_auth));
        }
        let server = discovery::authorization_server(&self.fetcher, issuer).await?;
        let token_auth = TokenAuth::of_secret(&server);
        // Discovery has checked that it is there.
        let url = server.token_endpoint.unwrap_or_default();
        *self.discovered.lock() = Some((url.clone(), token_auth, Instant::now()));
        Ok((url, token_auth))
    }
}

impl State {
    fn usable(&self, now: Instant) -> Option<HeaderValue> {
        let token = self.token.as_ref().filter(|token| token.until.is_none_or(|until| now < until))?;
        Some(token.authorization.clone())
    }

    /// The failure for this token of the principal, if it is a recent one.
    fn failure(&self, subject: &SubjectToken) -> Option<AuthError> {
        let failed = self.failed.as_ref()?;
        let is_recent = failed.subject == subject.digest && failed.at.elapsed() < FAILURE_AGE;
        is_recent.then(|| failed.error.clone())
    }
}

/// The credentials of one principal at one server. Made by [`TokenExchange::credentials`].
#[derive(Clone)]
pub struct PrincipalCredentials {
    exchange: TokenExchange,
    principal: Arc<str>,
    subjects: SubjectTokens,
}

impl PrincipalCredentials {
    /// Obtains a token, unless there is one already: to know before a link is made whether the principal has access.
    ///
    /// # Errors
    /// When there is none. The text names the principal and the authorization server, and contains no token.
    pub async fn prepare(&self) -> Result<(), CredentialsError> {
        self.token().await.map(drop)
    }

    async fn token(&self) -> Result<HeaderValue, CredentialsError> {
        self.obtained().await.map_err(|error| self.failed(&error))
    }

    async fn obtained(&self) -> Result<HeaderValue, AuthError> {
        let exchange = &self.exchange.0;
        let known = exchange.of(&self.principal);
        if let Some(authorization) = known.state.lock().usable(Instant::now()) {
            return Ok(authorization);
        }
        let needs = |why: &str| AuthError::LoginNeeded(format!("{why}: its next request brings one"));
        let subject = self.subjects.of(&self.principal).ok_or_else(|| needs("its own token is not known"))?;
        if subject.until.is_some_and(|until| until <= Instant::now()) {
            return Err(needs("its own token has expired"));
        }
        if let Some(error) = known.state.lock().failure(&subject) {
            return Err(error);
        }
        let (shared, principal, keeping) = (exchange.clone(), self.principal.clone(), known.clone());
        let exchanging =
            known.exchanging.join(move || async move { shared.exchange(&principal, keeping, subject).await });
        exchanging.await?;
        // Also one that lives for a moment only.
        let state = known.state.lock();
        let token = state.token.as_ref().map(|token| token.authorization.clone());
        token.ok_or(AuthError::Abandoned)
    }

    fn failed(&self, error: &AuthError) -> CredentialsError {
        let text = |what: String| format!("there is no token for {}: {what}", self.principal);
        match error.outage() {
            Some((kind, what)) => CredentialsError::new(text(what)).of(kind),
            None => CredentialsError::new(text(error.to_string())),
        }
    }

    /// The server has refused a token. Returns whether there may be another one.
    fn refused(&self, refused: Option<&HeaderValue>, again: u32) -> Result<(), AuthError> {
        let known = self.exchange.0.of(&self.principal);
        let mut state = known.state.lock();
        let Some(token) = state.token.take() else { return Ok(()) };
        if Some(&token.authorization) != refused {
            // There is a newer one already.
            state.token = Some(token);
            return Ok(());
        }
        if again == 0 && token.issued.elapsed() >= JUST_NOW {
            return Ok(());
        }
        let (Place::Issuer(issuer) | Place::TokenEndpoint(issuer)) = &self.exchange.0.place;
        let error = AuthError::Rejected { issuer: shown_text(issuer) };
        state.failed = Some(Failed { subject: token.subject, error: error.clone(), at: Instant::now() });
        Err(error)
    }
}

impl Credentials for PrincipalCredentials {
    async fn authorization(
        &self,
        request: AuthorizationRequest<'_>,
    ) -> Result<Option<HeaderValue>, CredentialsError> {
        if !same_origin(request.url, &self.exchange.0.server) {
            return Ok(None);
        }
        self.token().await.map(Some)
    }

    /// A digest of the token: it differs for another token.
    fn cache_partition(&self) -> Option<String> {
        let known = self.exchange.0.of(&self.principal);
        let state = known.state.lock();
        let digest = Sha256::digest(state.token.as_ref()?.authorization.as_bytes());
        Some(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    async fn challenged(&self, challenge: AuthorizationChallenge<'_>) -> AfterChallenge {
        let AuthorizationChallenge { status, authorization, again, repeatable, .. } = challenge;
        if !same_origin(challenge.url, &self.exchange.0.server) {
            return AfterChallenge::GiveUp;
        }
        let challenged = Challenged::of(status, challenge.www_authenticate);
        let outcome = match status {
            401 => self.refused(authorization, again),
            403 if challenged.parameter("error") == Some(INSUFFICIENT_SCOPE) => {
                Err(AuthError::Scopes { missing: challenged.scopes().unwrap_or_default() })
            }
            _ => return AfterChallenge::GiveUp,
        };
        match outcome {
            Ok(()) if repeatable => AfterChallenge::Retry,
            Ok(()) => AfterChallenge::GiveUp,
            Err(error) => AfterChallenge::Fail(self.failed(&error)),
        }
    }
}

impl fmt::Debug for TokenExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenExchange").field("server", &shown_text(&self.0.server)).finish_non_exhaustive()
    }
}

impl fmt::Debug for TokenExchangeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenExchangeBuilder")
            .field("server", &shown_text(&self.server))
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PrincipalCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrincipalCredentials").field("principal", &self.principal).finish_non_exhaustive()
    }
}
