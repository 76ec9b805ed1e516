//! How a bridge authorizes itself at a target, as `[target.NAME.credentials]` of its policy says: with the token in a file,
//! as a client of its own, or with the token of each client, exchanged (RFC 8693).
//!
//! Made by `relay` before anything is started, and checked by `--check-config`. `upstream` asks it for the endpoint of each
//! client. Where it has no authorization for a client, none is sent: it never falls back to another identity, neither to a
//! stored login nor to a header.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use http::HeaderValue;
use mcpjoin::proto::session::TransportErrorKind;
use mcpjoin::transport::{
    AfterChallenge, AuthorizationChallenge, AuthorizationRequest, Credentials, CredentialsError,
};
use mcpjoin_auth::{ClientIdentity, Grant, OAuth, PrivateKey, Secret, SubjectTokens, TokenExchange};
use mcpjoin_gateway::{ClientAtIssuer, Policy, TargetCredentials};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::args::Authorization;
use crate::connect::{Endpoint, certificates, hide_token, private_key, secret_file, unusable_login};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::target::shown;
use crate::ui::{Secrets, Ui};
use crate::visible;

/// How often the time of a token's file is looked at.
const POLL: Duration = Duration::from_secs(1);
const PAGE: &str = "docs/identity.md explains the credentials of a bridge";

/// The authorization of a bridge at one target.
pub(super) struct TargetAccess {
    ui: Ui,
    /// What is to be done where the authorization fails.
    hint: Arc<str>,
    way: Way,
}

enum Way {
    Token(TokenFile),
    Own(OAuth, Hidden),
    Exchange { exchange: TokenExchange, subjects: SubjectTokens },
}

/// The token that was hidden last in what is printed.
type Hidden = Arc<Mutex<Option<HeaderValue>>>;

/// How the bridge's own client is authenticated at an authorization server.
enum Proof {
    Secret(Secret),
    Key(PrivateKey),
}

/// Checks everything that needs no target, for `--check-config`. Reads the files that are named.
pub(super) fn check(ui: &Ui, policy: &Policy, authorization: &Authorization) -> Result<(), Failure> {
    for (target, credentials) in policy.credentials() {
        match credentials {
            TargetCredentials::TokenFile(path) => drop(token_of(ui, path)?),
            TargetCredentials::ClientCredentials(own) => drop(proof(ui, &own.client)?),
            TargetCredentials::TokenExchange(exchange) => {
                needs_principals(target, authorization)?;
                drop(proof(ui, &exchange.client)?);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether tokens of clients are exchanged for some target.
pub(super) fn exchanges(policy: &Policy) -> bool {
    policy.credentials().any(|(_, credentials)| matches!(credentials, TargetCredentials::TokenExchange(_)))
}

/// Refuses an exchange at a bridge whose clients have no tokens.
fn needs_principals(target: &str, authorization: &Authorization) -> Result<(), Failure> {
    if authorization.auth_issuer.is_some() {
        return Ok(());
    }
    let problem =
        format!("the tokens of clients are exchanged for {}, but clients need none", shown(target.as_ref()));
    Err(Failure::usage(problem, "--listen http://host:port/path --auth-issuer URL; docs/identity.md"))
}

impl TargetAccess {
    /// Checks the settings of a target, and reads the files that they name. `subjects`: the tokens of the clients.
    pub(super) fn new(
        ui: &Ui,
        target: &str,
        credentials: &TargetCredentials,
        endpoint: &Endpoint,
        authorization: &Authorization,
        subjects: Option<&SubjectTokens>,
    ) -> Result<Self, Failure> {
        let named = shown(target.as_ref());
        let (Some(_), Some(access)) = (endpoint.http(), endpoint.access()) else {
            let problem = format!("the policy has credentials for {named}, which is not reached over HTTP");
            return Err(Failure::usage(problem, "leave them out; -e or `env` set variables of a program"));
        };
        if access.has_header() {
            let problem = format!("{named} has an Authorization header and credentials in the policy");
            return Err(Failure::usage(problem, "leave out one of them"));
        }
        let authority = authorization.auth_ca.as_deref().map(|path| certificates("--auth-ca", path));
        let authority = authority.transpose()?;
        let way = match credentials {
            TargetCredentials::TokenFile(path) => Way::Token(TokenFile::new(ui, path)?),
            TargetCredentials::ClientCredentials(own) => {
                let (secret, key) = match proof(ui, &own.client)? {
                    Proof::Secret(secret) => (Some(secret), None),
                    Proof::Key(key) => (None, Some(key)),
                };
                let (id, issuer) = (own.client.id.clone(), Some(own.issuer.clone()));
                let mut oauth = access
                    .builder()
                    .client(registered(id, secret, issuer))
                    .grant(Grant::ClientCredentials)
                    .scope(own.scopes.join(" "));
                oauth = key.into_iter().fold(oauth, mcpjoin_auth::OAuthBuilder::private_key);
                oauth = authority.into_iter().fold(oauth, mcpjoin_auth::OAuthBuilder::extra_ca);
                Way::Own(oauth.build().map_err(|error| unusable_login(&error))?, Hidden::default())
            }
            TargetCredentials::TokenExchange(settings) => {
                needs_principals(target, authorization)?;
                let mut exchange = TokenExchange::builder(access.url(), &settings.client.id);
                exchange = match proof(ui, &settings.client)? {
                    Proof::Secret(secret) => exchange.client_secret(secret),
                    Proof::Key(key) => exchange.private_key(key),
                };
                // The policy has exactly one of them.
                exchange = settings.issuer.iter().fold(exchange, |exchange, issuer| exchange.issuer(issuer));
                exchange = settings
                    .token_endpoint
                    .iter()
                    .fold(exchange, |exchange, url| exchange.token_endpoint(url));
                exchange = settings.audience.iter().fold(exchange, |exchange, name| exchange.audience(name));
                exchange = settings.resource.iter().fold(exchange, |exchange, url| exchange.resource(url));
                exchange = exchange.scope(settings.scopes.join(" "));
                for pem in access.extra_ca().map(<[u8]>::to_vec).into_iter().chain(authority) {
                    exchange = exchange.extra_ca(pem);
                }
                if let Some(time) = access.connect_timeout() {
                    exchange = exchange.connect_timeout(time);
                }
                let exchange = exchange.build().map_err(|error| {
                    let problem = format!("the token exchange of {named} cannot be used: {error}");
                    Failure::usage(visible::line(&problem).into_owned(), PAGE)
                })?;
                Way::Exchange { exchange, subjects: subjects.cloned().unwrap_or_default() }
            }
            _ => return Err(Failure::usage(format!("the credentials of {named} are not known"), PAGE)),
        };
        let what = match &way {
            Way::Token(file) => format!("put a token that it accepts into {}", shown(file.path.as_os_str())),
            Way::Own(..) => "check what the authorization server allows this client".to_owned(),
            Way::Exchange { .. } => {
                "check what the authorization server allows this user and this client".to_owned()
            }
        };
        let hint = format!("{what}; [target.{named}.credentials] of the policy");
        Ok(Self { ui: ui.clone(), hint: hint.into(), way })
    }

    /// Whether each principal has an authorization of its own.
    pub(super) const fn is_by_principal(&self) -> bool {
        matches!(self.way, Way::Exchange { .. })
    }

    /// The endpoint with the authorization for this client.
    ///
    /// # Errors
    /// If there is none for it, which says nothing about other clients.
    pub(super) async fn at(&self, endpoint: &Endpoint, principal: Option<&str>) -> Result<Endpoint, Failure> {
        let (ui, hint) = (self.ui.clone(), self.hint.clone());
        match &self.way {
            Way::Token(file) => {
                Ok(endpoint.authorized_by(Explained { credentials: file.clone(), ui, hint, hidden: None }))
            }
            Way::Own(oauth, hidden) => {
                let hidden = Some(hidden.clone());
                Ok(endpoint.authorized_by(Explained { credentials: oauth.clone(), ui, hint, hidden }))
            }
            Way::Exchange { exchange, subjects } => {
                let principal = principal.ok_or_else(|| {
                    let text = "this client has no token that could be exchanged for one of this server";
                    self.explain(Failure::new("E_AUTH", Exit::Authorization, Phase::Authorize, text))
                })?;
                let credentials = exchange.credentials(principal, subjects);
                credentials.prepare().await.map_err(|error| {
                    let text = self.ui.hidden(&error.to_string()).into_owned();
                    self.explain(Failure::new("E_AUTH", Exit::Authorization, Phase::Authorize, text))
                })?;
                // Each principal has another token: a list of all of them could only grow.
                Ok(endpoint.authorized_by(Explained { credentials, ui, hint, hidden: None }))
            }
        }
    }

    /// Replaces the hint of a failure that the authorization may be the cause of.
    pub(super) fn explain(&self, failure: Failure) -> Failure {
        if failure.id == "E_AUTH" { failure.hint(&*self.hint) } else { failure }
    }
}

fn registered(id: String, secret: Option<Secret>, issuer: Option<String>) -> ClientIdentity {
    ClientIdentity::Registered { id, secret, issuer }
}

/// The secret or the key of the bridge's own client. It is hidden from now on.
fn proof(ui: &Ui, client: &ClientAtIssuer) -> Result<Proof, Failure> {
    let form = "secret_file = \"FILE\", secret_env = \"NAME\" or private_key_file = \"FILE\"";
    if let Some(path) = &client.private_key_file {
        return Ok(Proof::Key(private_key(ui, path, form)?));
    }
    let secret = match (&client.secret_file, &client.secret_env) {
        (Some(path), _) => secret_file(ui, path, "the secret", form)?,
        (None, name) => {
            let name = name.as_deref().unwrap_or_default();
            let value = std::env::var(name).ok().filter(|value| !value.is_empty());
            value.ok_or_else(|| {
                let problem = format!("the variable {} with the secret is not set", shown(name.as_ref()));
                Failure::usage(problem, form)
            })?
        }
    };
    ui.hide(Secrets::new(&[secret.clone().into()]));
    Ok(Proof::Secret(Secret::new(secret)))
}

/// The authorization with the token in a file.
fn token_of(ui: &Ui, path: &Path) -> Result<HeaderValue, Failure> {
    let form = "token_file = \"FILE\", where FILE contains only the token";
    let token = secret_file(ui, path, "the token", form)?;
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| Failure::usage(format!("{} contains no token", shown(path.as_os_str())), form))?;
    hide_token(ui, &value);
    value.set_sensitive(true);
    Ok(value)
}

/// The token in a file, which is read again when it changes. Cheap to clone.
#[derive(Clone)]
struct TokenFile {
    ui: Ui,
    path: Arc<PathBuf>,
    read: Arc<Mutex<Read>>,
}

struct Read {
    value: HeaderValue,
    stamp: Option<(SystemTime, u64)>,
    looked: Instant,
}

fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = path.metadata().ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

impl TokenFile {
    fn new(ui: &Ui, path: &Path) -> Result<Self, Failure> {
        // Before it is read, so that a change meanwhile is noticed.
        let stamp = stamp(path);
        let read = Read { value: token_of(ui, path)?, stamp, looked: Instant::now() };
        Ok(Self { ui: ui.clone(), path: Arc::new(path.to_owned()), read: Arc::new(Mutex::new(read)) })
    }

    /// The token. `now`: the file is looked at, also if that was done a moment ago.
    async fn value(&self, now: bool) -> HeaderValue {
        let (known, last) = {
            let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
            if !now && read.looked.elapsed() < POLL {
                return read.value.clone();
            }
            read.looked = Instant::now();
            (read.value.clone(), read.stamp)
        };
        let (ui, path) = (self.ui.clone(), self.path.clone());
        // A file system may take long.
        let looked = spawn_blocking(move || {
            let stamp = stamp(&path);
            (stamp != last).then(|| (stamp, token_of(&ui, &path)))
        });
        let Ok(Some((stamp, outcome))) = looked.await else { return known };
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.stamp = stamp;
        match outcome {
            Ok(value) => read.value = value,
            Err(failure) => {
                let why = visible::line(&failure.message).into_owned();
                self.ui.warning(&format!("{why}; the last token is used"));
            }
        }
        read.value.clone()
    }
}

impl Credentials for TokenFile {
    async fn authorization(
        &self,
        _: AuthorizationRequest<'_>,
    ) -> Result<Option<HeaderValue>, CredentialsError> {
        Ok(Some(self.value(false).await))
    }

    async fn challenged(&self, challenge: AuthorizationChallenge<'_>) -> AfterChallenge {
        if challenge.status != 401 {
            return AfterChallenge::GiveUp;
        }
        match challenge.authorization != Some(&self.value(true).await) {
            true if challenge.repeatable => AfterChallenge::Retry,
            true => AfterChallenge::GiveUp,
            false => AfterChallenge::Fail(CredentialsError::new("the server rejects the token")),
        }
    }
}

/// Credentials whose errors, which may go to a client, say what to do.
struct Explained<C> {
    credentials: C,
    ui: Ui,
    hint: Arc<str>,
    /// The token that was hidden last, if they are hidden when they are sent.
    hidden: Option<Hidden>,
}

impl<C> Explained<C> {
    fn explained(&self, error: CredentialsError) -> CredentialsError {
        let CredentialsError { message, kind } = error;
        let hint = match kind {
            TransportErrorKind::Unauthorized => &*self.hint,
            _ => "check that the authorization server runs and is reachable",
        };
        CredentialsError::new(self.ui.hidden(&format!("{message}; try: {hint}"))).of(kind)
    }
}

impl<C: Credentials> Credentials for Explained<C> {
    async fn authorization(
        &self,
        request: AuthorizationRequest<'_>,
    ) -> Result<Option<HeaderValue>, CredentialsError> {
        let value = self.credentials.authorization(request).await.map_err(|error| self.explained(error))?;
        if let (Some(value), Some(hidden)) = (&value, &self.hidden) {
            let mut hidden = hidden.lock().unwrap_or_else(PoisonError::into_inner);
            if hidden.replace(value.clone()).as_ref() != Some(value) {
                hide_token(&self.ui, value);
            }
        }
        Ok(value)
    }

    fn proof(&self, request: AuthorizationRequest<'_>, authorization: &HeaderValue) -> Option<HeaderValue> {
        self.credentials.proof(request, authorization)
    }

    fn answered(&self, url: &str, dpop_nonce: &str) {
        self.credentials.answered(url, dpop_nonce);
    }

    fn cache_partition(&self) -> Option<String> {
        self.credentials.cache_partition()
    }

    async fn challenged(&self, challenge: AuthorizationChallenge<'_>) -> AfterChallenge {
        match self.credentials.challenged(challenge).await {
            AfterChallenge::Fail(error) => AfterChallenge::Fail(self.explained(error)),
            after => after,
        }
    }
}
