//! The token endpoint: its requests, the authentication of the client, and its responses.
//!
//! [RFC 6749, 4 to 6](https://www.rfc-editor.org/rfc/rfc6749#section-5) as
//! [OAuth 2.1](https://datatracker.ietf.org/doc/html/draft-ietf-oauth-v2-1-13#section-3.2) specifies it. Called by `login` (the
//! code), `refresh` and the grants without a user. It decides nothing: it sends once (twice where a nonce is required) and parses.
//!
//! The lifetime of a token, `expires_in` (adversarial case 141), is a number of seconds, or a text with such a number. If it is
//! absent, `null`, not a number, zero, negative, or more than ten years, the lifetime is unknown: the token is used until the
//! server refuses it, which costs one request. Believing a wrong value would cost a refresh before each request.

use std::fmt;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::dpop::Dpop;
use super::error::AuthError;
use super::fetch::{FetchError, FetchErrorKind, Fetched, Fetcher, cut, shown_text};
use super::form::{Form, encode};
use super::grants::PrivateKey;
use super::registration::{Registration, TokenAuth};
use super::secret::Secret;

/// The longest lifetime that is believed.
const MAX_LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// The longest token in bytes: a longer one fits into no header.
const MAX_TOKEN_BYTES: usize = 64 * 1024;
/// The longest request URI in bytes: a longer one fits into no URL.
const MAX_REQUEST_URI_BYTES: usize = 2048;
/// The largest number of scopes that are stored.
const MAX_SCOPES: usize = 256;
/// [RFC 7523, 2.2](https://www.rfc-editor.org/rfc/rfc7523#section-2.2).
const JWT_BEARER: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const DPOP: HeaderName = HeaderName::from_static("dpop");
const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// The token endpoint has issued no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It was not reached, or its response was truncated: the stored login stays valid.
    #[error("no token: {0}")]
    Unreached(FetchError),
    /// It is unavailable (a status of 5xx, or 429): the stored login stays valid.
    #[error("no token: {url} responded with {status}")]
    Unavailable {
        /// The endpoint.
        url: String,
        /// The status.
        status: u16,
    },
    /// It refuses ([RFC 6749, 5.2](https://www.rfc-editor.org/rfc/rfc6749#section-5.2)).
    #[error("no token: {url} rejected the request: {error}{}", description.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    Refused {
        /// The endpoint.
        url: String,
        /// Its `error`, `invalid_grant` for example: escaped and shortened.
        error: String,
        /// Its `error_description`: escaped and shortened.
        description: Option<String>,
    },
    /// Its response is malformed.
    #[error("no token: invalid response of {url}: {what}")]
    Nonsense {
        /// The endpoint.
        url: String,
        /// The problem.
        what: String,
    },
    /// The request could not be made.
    #[error("no token: {0}")]
    Unasked(String),
}

impl TokenError {
    /// Whether a retry may succeed.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Unreached(error) => !matches!(
                error.kind,
                FetchErrorKind::Url | FetchErrorKind::Address | FetchErrorKind::Redirect
            ),
            Self::Unavailable { .. } => true,
            _ => false,
        }
    }

    /// Whether the grant or the client is definitely not valid.
    pub(super) fn is_final(&self) -> bool {
        ["invalid_grant", "invalid_client", "unauthorized_client"].iter().any(|reason| self.is(reason))
    }

    /// Whether it was refused for that reason.
    pub(super) fn is(&self, reason: &str) -> bool {
        matches!(self, Self::Refused { error, .. } if error == reason)
    }
}

/// The scheme in which a token is sent to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Bearer,
    Dpop,
}

impl TokenKind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Bearer => "Bearer",
            Self::Dpop => "DPoP",
        }
    }

    /// Parses a scheme, case-insensitively: [RFC 6749, 5.1](https://www.rfc-editor.org/rfc/rfc6749#section-5.1).
    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::Bearer, Self::Dpop].into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(text))
    }
}

/// The tokens in a response.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) access: Secret,
    pub(super) kind: TokenKind,
    pub(super) expires: Option<SystemTime>,
    /// Its lifetime when it was issued.
    pub(super) lifetime: Option<Duration>,
    pub(super) refresh: Option<Secret>,
    /// Its scopes, if the server names them.
    pub(super) scopes: Option<Vec<String>>,
}

impl Tokens {
    /// The value of `Authorization`.
    pub(super) fn authorization(&self) -> Option<HeaderValue> {
        let text = format!("{} {}", self.kind.as_str(), self.access.expose());
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens")
            .field("kind", &self.kind)
            .field("expires", &self.expires)
            .field("refreshable", &self.refresh.is_some())
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// A token endpoint, and the client that uses it.
#[derive(Clone, Copy)]
pub(super) struct TokenEndpoint<'a> {
    pub(super) fetcher: &'a Fetcher,
    pub(super) url: &'a str,
    pub(super) issuer: &'a str,
    pub(super) client: &'a Registration,
    /// Authenticates the client by its signature instead of a secret: `private_key_jwt`
    /// ([RFC 7523, 3](https://www.rfc-editor.org/rfc/rfc7523#section-3)).
    pub(super) assertion: Option<&'a PrivateKey>,
    /// The key to bind tokens to.
    pub(super) possession: Option<&'a Dpop>,
}

impl TokenEndpoint<'_> {
    /// Requests tokens.
    pub(super) async fn ask(&self, form: Form) -> Result<Tokens, AuthError> {
        // Before the request, so that the token is never thought to live longer than it does.
        let now = SystemTime::now();
        let fetched = self.post(form).await?;
        let tokens = read(&self.name(), &fetched, now)?;
        if tokens.kind == TokenKind::Dpop && self.possession.is_none() {
            let what = "the token is bound to a key (DPoP), but the request had no proof".into();
            return Err(TokenError::Nonsense { url: self.name(), what }.into());
        }
        Ok(tokens)
    }

    /// Sends a form with the client's authentication. Does not read the response.
    pub(super) async fn post(&self, form: Form) -> Result<Fetched, AuthError> {
        let mut form = form;
        let mut headers = HeaderMap::new();
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(header::CONTENT_TYPE, kind);
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let id = self.client.client_id.as_str();
        let missing = || TokenError::Unasked("the client has no secret".into());
        if self.assertion.is_some() {
            form = form.with("client_id", id).with("client_assertion_type", JWT_BEARER);
        } else {
            let secret = self.client.client_secret.as_ref();
            match self.client.token_auth {
                TokenAuth::None => form = form.with("client_id", id),
                TokenAuth::Post => {
                    let secret = secret.ok_or_else(missing)?.clone();
                    form = form.with("client_id", id).with("client_secret", secret);
                }
                TokenAuth::Basic => {
                    let secret = secret.ok_or_else(missing)?;
                    headers.insert(header::AUTHORIZATION, basic(id, secret)?);
                    // The id is no second authentication (RFC 6749, 3.2.1): servers of the Python SDK need it to find the client.
                    form = form.with("client_id", id);
                }
                TokenAuth::PrivateKeyJwt => {
                    let what = "the client is registered with a key, but none was given";
                    return Err(TokenError::Unasked(what.into()).into());
                }
            }
        }
        let mut asked_for_nonce = false;
        loop {
            let (mut headers, mut form) = (headers.clone(), form.clone());
            if let Some(assertion) = self.assertion {
                // Each assertion is valid once.
                form = form.with("client_assertion", assertion.assertion(id, self.issuer)?);
            }
            if let Some(mut proof) = self.possession.and_then(|key| key.proof("POST", self.url, None)) {
                proof.set_sensitive(true);
                headers.insert(DPOP, proof);
            }
            let fetched = self.fetcher.post(self.url, headers, form.encode()).await;
            let fetched = fetched.map_err(TokenError::Unreached)?;
            if let Some(key) = self.possession
                && let Some(nonce) = fetched.headers.get(DPOP_NONCE).and_then(|nonce| nonce.to_str().ok())
            {
                key.nonce(self.url, nonce);
                let wanted = refusal(&self.name(), &fetched).is_some_and(|error| error.is("use_dpop_nonce"));
                if wanted && !asked_for_nonce {
                    asked_for_nonce = true;
                    continue;
                }
            }
            return Ok(fetched);
        }
    }

    /// The URL of the endpoint for people.
    pub(super) fn name(&self) -> String {
        shown_text(self.url)
    }
}

/// [RFC 6749, 2.3.1](https://www.rfc-editor.org/rfc/rfc6749#section-2.3.1): both parts are encoded before they are joined.
fn basic(id: &str, secret: &Secret) -> Result<HeaderValue, TokenError> {
    let text = STANDARD.encode(format!("{}:{}", encode(id), encode(secret.expose())));
    let mut value = HeaderValue::from_str(&format!("Basic {text}"))
        .map_err(|_| TokenError::Unasked("the secret of the client is too long".into()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The members of a response that is a JSON object.
fn members(fetched: &Fetched) -> Result<Map<String, Value>, String> {
    let raw = fetched.json()?;
    match serde_json::from_str(raw.as_str()) {
        Ok(Value::Object(members)) => Ok(members),
        _ => Err("it is not a JSON object".into()),
    }
}

/// The error in a response, if it has the form of the specification. Some servers send it with 200.
pub(super) fn refusal(url: &str, fetched: &Fetched) -> Option<TokenError> {
    let members = members(fetched).ok()?;
    let text = |name: &str| members.get(name).and_then(Value::as_str).map(cut);
    Some(TokenError::Refused {
        url: url.to_owned(),
        error: text("error")?,
        description: text("error_description"),
    })
}

/// The members of a successful response.
fn accepted(url: &str, fetched: &Fetched) -> Result<Map<String, Value>, TokenError> {
    let nonsense = |what: String| TokenError::Nonsense { url: url.to_owned(), what };
    let status = fetched.status;
    let refusal = refusal(url, fetched);
    let is_busy = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    // The errors of proxies and of rate limiters may have the form of OAuth.
    if is_busy && !refusal.as_ref().is_some_and(TokenError::is_final) {
        return Err(TokenError::Unavailable { url: url.to_owned(), status: status.as_u16() });
    }
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    if !status.is_success() {
        let kind = fetched.content_type().unwrap_or_else(|| "without a content type".into());
        return Err(nonsense(format!("{status} {kind}, without an OAuth error")));
    }
    members(fetched).map_err(|what| nonsense(format!("{status}: {what}")))
}

/// Reads the response to a pushed authorization request: its request URI
/// ([RFC 9126, 2.2](https://www.rfc-editor.org/rfc/rfc9126#section-2.2)).
pub(super) fn request_uri(url: &str, fetched: &Fetched) -> Result<String, TokenError> {
    let members = accepted(url, fetched)?;
    let uri = members.get("request_uri").and_then(Value::as_str);
    let uri = uri.filter(|uri| !uri.is_empty() && uri.len() <= MAX_REQUEST_URI_BYTES).map(str::to_owned);
    uri.ok_or_else(|| TokenError::Nonsense {
        url: url.to_owned(),
        what: "it has no usable request_uri".into(),
    })
}

/// Reads a response. `now` is the time of its request.
pub(super) fn read(url: &str, fetched: &Fetched, now: SystemTime) -> Result<Tokens, TokenError> {
    let nonsense = |what: String| TokenError::Nonsense { url: url.to_owned(), what };
    let members = accepted(url, fetched)?;
    let text = |name: &str| match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(nonsense(format!("its {name} is not a string"))),
    };
    let token = |name: &str| match text(name)? {
        None | Some("") => Ok(None),
        Some(token) if token.len() > MAX_TOKEN_BYTES => {
            Err(nonsense(format!("its {name} is longer than {MAX_TOKEN_BYTES} bytes")))
        }
        // VSCHAR of RFC 6749, A.12: the characters that a header can contain.
        Some(token) if !token.bytes().all(|byte| (0x20..=0x7e).contains(&byte)) => {
            Err(nonsense(format!("its {name} contains a character that is not allowed in a token")))
        }
        Some(token) => Ok(Some(Secret::new(token))),
    };
    let access = token("access_token")?.ok_or_else(|| nonsense("it has no access_token".into()))?;
    let kind = text("token_type")?.ok_or_else(|| nonsense("it has no token_type".into()))?;
    let kind = TokenKind::parse(kind)
        .ok_or_else(|| nonsense(format!("its token_type is `{}`, which is unknown", cut(kind))))?;
    let lifetime = members.get("expires_in").and_then(lifetime);
    let scopes = text("scope")?.map(|scopes| scopes.split(' ').filter(|scope| !scope.is_empty()));
    Ok(Tokens {
        access,
        kind,
        expires: lifetime.and_then(|lifetime| now.checked_add(lifetime)),
        lifetime,
        refresh: token("refresh_token")?,
        scopes: scopes.map(|scopes| scopes.take(MAX_SCOPES).map(str::to_owned).collect()),
    })
}

/// The lifetime of a token; `None` when it is absent or not believable.
fn lifetime(value: &Value) -> Option<Duration> {
    let seconds = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }?;
    let lifetime = Duration::try_from_secs_f64(seconds).ok()?;
    (!lifetime.is_zero() && lifetime <= MAX_LIFETIME).then_some(lifetime)
}

#[cfg(test)]
mod tests;
