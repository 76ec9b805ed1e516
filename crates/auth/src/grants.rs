//! Grants without a user in front of a browser: a program with credentials of its own
//! ([OAuth client credentials](https://github.com/modelcontextprotocol/ext-auth/blob/main/specification/draft/oauth-client-credentials.mdx)),
//! a workload whose platform vouches for it
//! ([SEP-1933](https://github.com/modelcontextprotocol/modelcontextprotocol/pull/1933)), and a user whom an organization's
//! identity provider vouches for
//! ([enterprise-managed authorization](https://github.com/modelcontextprotocol/ext-auth/blob/main/specification/draft/enterprise-managed-authorization.mdx)).
//!
//! Called by `oauth`, after discovery. No grant is retried, and none replaces another that was refused.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use mcpjoin_proto::Raw;

use super::error::AuthError;
use super::fetch::Fetched;
use super::form::Form;
use super::jws::{self, Header, SigningKey};
use super::login::{Obtain, Obtaining};
use super::oauth::OAuthBuilder;
use super::registration::{Registration, TokenAuth};
use super::secret::Secret;
use super::token::{self, TokenEndpoint, TokenError, Tokens};
use super::token_exchange;

/// The grant of [RFC 7523, 2.1](https://www.rfc-editor.org/rfc/rfc7523#section-2.1).
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// The result of the token exchange: an identity assertion for one authorization server.
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
/// The lifetime of a client's own assertion. It is used at once, but clocks differ by minutes.
const ASSERTION_LIFE: Duration = Duration::from_secs(300);

/// How tokens are obtained.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Grant {
    /// A user agrees in a browser. Needs a [`UserAgent`](super::UserAgent).
    AuthorizationCode,
    /// The client's own credentials: the secret of
    /// [`ClientIdentity::Registered`](super::ClientIdentity::Registered), or [`OAuthBuilder::private_key`].
    ClientCredentials,
    /// An assertion by an issuer that the authorization server trusts, such as the platform that a workload runs on.
    JwtBearer(Assertion),
    /// An identity provider exchanges the user's identity for a grant at the authorization server.
    EnterpriseManaged(IdentityProvider),
}

impl Grant {
    /// The MCP extension of the grant. Clients that use it declare it, with
    /// [`ClientBuilder::extension`](mcpjoin::client::ClientBuilder::extension) and empty settings.
    #[must_use]
    pub const fn extension(&self) -> Option<&'static str> {
        match self {
            // Workload identity (SEP-1933) has no published name.
            Self::AuthorizationCode | Self::JwtBearer(_) => None,
            Self::ClientCredentials => Some("io.modelcontextprotocol/oauth-client-credentials"),
            Self::EnterpriseManaged(_) => Some("io.modelcontextprotocol/enterprise-managed-authorization"),
        }
    }
}

impl OAuthBuilder {
    /// Sets how tokens are obtained: [`Grant::AuthorizationCode`] by default. Every other grant needs a registered client
    /// ([`OAuthBuilder::client`]), needs no user, and is used again when a token has expired.
    pub fn grant(mut self, grant: Grant) -> Self {
        self.obtain = match grant {
            Grant::AuthorizationCode => None,
            Grant::ClientCredentials => Some(Arc::new(ClientCredentials)),
            Grant::JwtBearer(assertion) => Some(Arc::new(assertion)),
            Grant::EnterpriseManaged(provider) => Some(Arc::new(provider)),
        };
        self
    }

    /// Authenticates the client by a key instead of a secret: `private_key_jwt`
    /// ([RFC 7523, 2.2](https://www.rfc-editor.org/rfc/rfc7523#section-2.2)).
    pub fn private_key(mut self, key: PrivateKey) -> Self {
        self.assertion = Some(key);
        self
    }
}

/// The private key of a registered client. `Debug` does not show it.
#[derive(Clone, Debug)]
pub struct PrivateKey {
    key: Arc<SigningKey>,
    id: Option<String>,
}

/// A text is no usable private key. The error does not contain it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PrivateKeyError(String);

impl PrivateKey {
    /// Reads a key from PEM: PKCS#8 (`PRIVATE KEY`), or the forms of OpenSSL (`EC PRIVATE KEY`, `RSA PRIVATE KEY`). A key of P-256
    /// signs with ES256, a key of RSA (2048 to 4096 bits) with RS256.
    ///
    /// # Errors
    /// When the text is no such key.
    pub fn from_pem(pem: &str) -> Result<Self, PrivateKeyError> {
        let key = SigningKey::from_pem(pem).map_err(|error| PrivateKeyError(error.to_string()))?;
        Ok(Self { key: Arc::new(key), id: None })
    }

    /// Sets the id (`kid`) of the key, where the authorization server knows several keys of the client.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// The algorithm: `ES256` or `RS256`.
    #[must_use]
    pub fn algorithm(&self) -> &'static str {
        self.key.algorithm().name()
    }

    /// The public key as a JWK, for registration at an authorization server.
    #[must_use]
    pub fn public_jwk(&self) -> Raw {
        self.key.public().jwk()
    }

    /// A new assertion of the client for an audience: the issuer.
    pub(super) fn assertion(&self, client_id: &str, audience: &str) -> Result<Secret, AuthError> {
        self.sign(client_id, audience, SystemTime::now()).map_err(unasked)
    }

    fn sign(&self, client_id: &str, audience: &str, now: SystemTime) -> Result<Secret, String> {
        let now = now.duration_since(UNIX_EPOCH).map_err(|_| "the clock is before 1970".to_owned())?;
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|_| "the system provides no random numbers".to_owned())?;
        let client_id = Raw::string(client_id);
        let claims = format!(
            r#"{{"iss":{0},"sub":{0},"aud":{1},"jti":"{2}","iat":{3},"exp":{4}}}"#,
            client_id.as_str(),
            Raw::string(audience).as_str(),
            jws::encode(id),
            now.as_secs(),
            (now + ASSERTION_LIFE).as_secs(),
        );
        let claims = Raw::parse(claims).map_err(|error| error.to_string())?;
        let header = Header { kind: Some("JWT"), key_id: self.id.as_deref(), with_jwk: false };
        self.key.sign(header, &claims).map(Secret::new).map_err(|error| error.to_string())
    }
}

type Asked = BoxFuture<'static, Result<Secret, String>>;

/// A signed statement about the client or its user: a JWT, or a SAML assertion. `Debug` does not show it.
#[derive(Clone)]
pub struct Assertion(Arc<dyn Fn(&str) -> Asked + Send + Sync>);

impl fmt::Debug for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assertion").finish_non_exhaustive()
    }
}

impl Assertion {
    /// A fixed assertion, for as long as it is valid.
    #[must_use]
    pub fn new(text: impl Into<Secret>) -> Self {
        let text = text.into();
        Self(Arc::new(move |_| {
            let text = text.clone();
            Box::pin(async move { Ok(text) })
        }))
    }

    /// Calls a function for each assertion that is needed: platforms issue new ones every few minutes. Its argument is the
    /// audience: the issuer of the authorization server, or the token endpoint of the identity provider. Its error is shown to
    /// the user.
    #[must_use]
    pub fn from_fn<F, T>(ask: F) -> Self
    where
        F: Fn(&str) -> T + Send + Sync + 'static,
        T: Future<Output = Result<Secret, String>> + Send + 'static,
    {
        Self(Arc::new(move |audience| Box::pin(ask(audience))))
    }

    async fn ask(&self, audience: &str) -> Result<Secret, AuthError> {
        let assertion = (self.0)(audience).await.map_err(unasked)?;
        // Text that was read from a file ends with a line feed.
        let text = assertion.expose().trim();
        if text.is_empty() {
            return Err(unasked("the assertion is empty".into()));
        }
        Ok(Secret::new(text))
    }
}

/// The request was not sent.
fn unasked(what: String) -> AuthError {
    TokenError::Unasked(what).into()
}

/// The kind of identity that an identity provider has issued for a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdentityKind {
    /// An ID token of OpenID Connect.
    IdToken,
    /// An assertion of SAML 2.0.
    Saml2,
}

impl IdentityKind {
    const fn token_type(self) -> &'static str {
        match self {
            Self::IdToken => "urn:ietf:params:oauth:token-type:id_token",
            Self::Saml2 => "urn:ietf:params:oauth:token-type:saml2",
        }
    }
}

/// An organization's identity provider, and this client and user there. `Debug` shows no secret.
#[derive(Clone, Debug)]
pub struct IdentityProvider {
    token_endpoint: String,
    client_id: String,
    client_secret: Option<Secret>,
    identity: Assertion,
    kind: IdentityKind,
}

impl IdentityProvider {
    /// `token_endpoint` is its URL for the token exchange, `client_id` the id of the client there, and `identity` the ID token of
    /// the user's single sign-on.
    pub fn new(token_endpoint: impl Into<String>, client_id: impl Into<String>, identity: Assertion) -> Self {
        Self {
            token_endpoint: token_endpoint.into(),
            client_id: client_id.into(),
            client_secret: None,
            identity,
            kind: IdentityKind::IdToken,
        }
    }

    /// Sets the client secret at the identity provider, where there is one.
    #[must_use]
    pub fn with_client_secret(mut self, secret: impl Into<Secret>) -> Self {
        self.client_secret = Some(secret.into());
        self
    }

    /// Sets the kind of identity, where it is no ID token.
    #[must_use]
    pub const fn with_identity_kind(mut self, kind: IdentityKind) -> Self {
        self.kind = kind;
        self
    }

    /// The token exchange request (section 4 of the extension).
    fn exchange(&self, identity: &Secret, issuer: &str, resource: &str, scopes: &[String]) -> Form {
        let form = token_exchange::form(ID_JAG, [issuer], self.kind.token_type(), identity.clone());
        for_resource(form, resource, scopes)
    }

    /// Sends the request to the identity provider. The user has named it, so its address is not restricted.
    async fn ask(&self, at: &Obtaining<'_>, form: Form) -> Result<Secret, AuthError> {
        let fetcher = at.endpoint.fetcher.of(&self.token_endpoint);
        let fetcher = fetcher.map_err(|error| unasked(format!("the identity provider: {error}")))?;
        let client = Registration {
            client_secret: self.client_secret.clone(),
            // As in the example of the extension (section 4).
            token_auth: if self.client_secret.is_some() { TokenAuth::Post } else { TokenAuth::None },
            ..Registration::given(self.token_endpoint.clone(), self.client_id.clone())
        };
        let endpoint = TokenEndpoint {
            fetcher: &fetcher,
            url: &self.token_endpoint,
            issuer: &self.token_endpoint,
            client: &client,
            assertion: None,
            possession: None,
        };
        let fetched = endpoint.post(form).await?;
        Ok(exchanged(&endpoint.name(), &fetched)?)
    }
}

/// The result of a token exchange (section 4.2 of the extension): a grant for one authorization server, and no token.
fn exchanged(url: &str, fetched: &Fetched) -> Result<Secret, TokenError> {
    let answer = fetched.json().ok().filter(|_| fetched.status.is_success());
    let member = |name: &str| {
        let value = answer.as_ref()?.member(name)?;
        Some(value.to_string_value()?.into_owned()).filter(|text| !text.is_empty())
    };
    match (member("issued_token_type").as_deref(), member("access_token")) {
        (Some(ID_JAG), Some(grant)) => Ok(Secret::new(grant)),
        _ => match token::read(url, fetched, SystemTime::now()) {
            Err(refused @ (TokenError::Refused { .. } | TokenError::Unavailable { .. })) => Err(refused),
            _ => Err(TokenError::Nonsense {
                url: url.to_owned(),
                what: format!("it has no access_token whose issued_token_type is {ID_JAG}"),
            }),
        },
    }
}

struct ClientCredentials;

impl Obtain for ClientCredentials {
    fn obtain<'a>(&'a self, at: Obtaining<'a>) -> BoxFuture<'a, Result<Tokens, AuthError>> {
        let form = for_resource(Form::new("client_credentials"), &at.discovered.resource, at.scopes);
        Box::pin(async move { at.endpoint.ask(form).await })
    }
}

impl Obtain for Assertion {
    fn obtain<'a>(&'a self, at: Obtaining<'a>) -> BoxFuture<'a, Result<Tokens, AuthError>> {
        Box::pin(async move {
            let assertion = self.ask(&at.discovered.issuer).await?;
            at.endpoint.ask(jwt_bearer(&assertion, &at.discovered.resource, at.scopes)).await
        })
    }
}

impl Obtain for IdentityProvider {
    fn obtain<'a>(&'a self, at: Obtaining<'a>) -> BoxFuture<'a, Result<Tokens, AuthError>> {
        Box::pin(async move {
            let (resource, issuer) = (&at.discovered.resource, &at.discovered.issuer);
            let identity = self.identity.ask(&self.token_endpoint).await?;
            let form = self.exchange(&identity, issuer, resource, at.scopes);
            let assertion = self.ask(&at, form).await?;
            at.endpoint.ask(jwt_bearer(&assertion, resource, at.scopes)).await
        })
    }
}

fn jwt_bearer(assertion: &Secret, resource: &str, scopes: &[String]) -> Form {
    for_resource(Form::new(JWT_BEARER).with("assertion", assertion.clone()), resource, scopes)
}

/// Adds the resource (RFC 8707: every token is for one server), and the scopes if there are any.
fn for_resource(form: Form, resource: &str, scopes: &[String]) -> Form {
    let form = form.with("resource", resource);
    if scopes.is_empty() { form } else { form.with("scope", scopes.join(" ")) }
}

#[cfg(test)]
mod tests;
