//! Verifies JSON Web Tokens, as [RFC 9068](https://www.rfc-editor.org/rfc/rfc9068) specifies them and as they are issued in
//! practice.
//!
//! [`jws`](crate::jws) verifies signatures, [`keys`](super::keys) has the keys. This module checks the claims.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcpjoin_proto::{Kind, Raw};

use super::ResourceSetupError;
use super::documents::Published;
use super::keys::{Documents, IssuerKeys};
use super::verifier::{Principal, Rejected, TokenVerifier, Verified};
use crate::jws::{Jws, KeySet};

/// How far two clocks may differ. [RFC 7519, 4.1.4](https://www.rfc-editor.org/rfc/rfc7519#section-4.1.4) allows "no more than a
/// few minutes"; most verifiers allow a minute.
const LEEWAY: Duration = Duration::from_secs(60);

/// Verifies JSON Web Tokens with the keys that their issuers publish.
///
/// A token is accepted when one of the issuers has signed it (ES256, RS256, PS256 or EdDSA; never without a signature, never
/// with a shared secret), its `iss` equals that issuer, `exp` is in the future and `nbf` in the past, give or take a minute,
/// and it is not bound to a key (`cnf`), because this server checks no proofs. Its audience is `aud`, its scopes are
/// `scope`, or `scp` where there is none; its principal is `iss`, `sub` and `client_id`, or `azp` where there is none.
///
/// The keys are fetched for the first token, again after 10 min or when a token names an unknown key, and at most every 30 s.
/// When they cannot be fetched, the present ones are used for an hour; after that no token can be verified.
///
/// ```
/// use mcpjoin_auth::resource::{JwtVerifier, ResourceServer};
///
/// // The keys are known here: nothing is fetched.
/// let keys = br#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1",
///     "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
/// let verifier = JwtVerifier::with_keys("https://login.example.com", keys)?;
/// let resource = ResourceServer::builder("https://tools.example.com/mcp")
///     .issuer("https://login.example.com")
///     .verifier(verifier)
///     .build()?;
/// # drop(resource);
/// # Ok::<(), mcpjoin_auth::resource::ResourceSetupError>(())
/// ```
#[derive(Clone)]
pub struct JwtVerifier(Vec<Arc<IssuerKeys>>);

impl JwtVerifier {
    /// A verifier for the tokens of an issuer, whose metadata name its keys. Sends nothing yet.
    ///
    /// # Errors
    /// When the URL of the issuer is invalid.
    pub fn new(issuer: impl Into<String>) -> Result<Self, ResourceSetupError> {
        Self::with_extra_ca(issuer, [])
    }

    /// The same with trusted authorities beside those of the system, each PEM.
    ///
    /// # Errors
    /// When the URL of the issuer or an authority is invalid.
    pub fn with_extra_ca(
        issuer: impl Into<String>,
        extra_ca: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<Self, ResourceSetupError> {
        let issuer = issuer.into();
        let published = Published::by(&issuer, extra_ca.into_iter().collect())?;
        Ok(Self::fetching(issuer, Arc::new(published)))
    }

    /// A verifier for the tokens of an issuer with these keys only: a JSON Web Key Set.
    ///
    /// # Errors
    /// When the text is no key set.
    pub fn with_keys(issuer: impl Into<String>, keys: &[u8]) -> Result<Self, ResourceSetupError> {
        let keys = KeySet::parse(keys).map_err(|error| ResourceSetupError::Verifier(error.to_string()))?;
        Ok(Self(vec![Arc::new(IssuerKeys::given(issuer.into(), keys))]))
    }

    /// Accepts the tokens of both verifiers.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    fn fetching(issuer: String, documents: Arc<dyn Documents>) -> Self {
        Self(vec![Arc::new(IssuerKeys::named_by(issuer, documents))])
    }
}

impl TokenVerifier for JwtVerifier {
    async fn verify(&self, token: &str) -> Result<Verified, Rejected> {
        let jws = Jws::parse(token).map_err(|error| {
            Rejected::Invalid(format!("the token is not an accepted JSON Web Token: {error}"))
        })?;
        // RFC 9068, 2.1; many authorization servers write `JWT`, or nothing.
        let kind = jws.kind().unwrap_or_default().to_ascii_lowercase();
        if !matches!(&*kind, "" | "jwt" | "at+jwt" | "application/jwt" | "application/at+jwt") {
            return Err(Rejected::Invalid("the token is not an access token, according to its `typ`".into()));
        }
        let issuer = text(jws.unverified_claims(), "iss");
        let issuer = self.0.iter().find(|one| issuer.as_deref() == Some(&*one.issuer));
        let issuer = issuer.ok_or_else(|| Rejected::Invalid("the token has another issuer".into()))?;
        let claims = issuer.verify(&jws).await?;
        verified(claims, SystemTime::now())
    }

    async fn prepare(&self) -> Result<(), String> {
        let mut problems = Vec::new();
        for issuer in &self.0 {
            if let Err(problem) = issuer.prepare().await {
                problems.push(problem);
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
    }
}

/// Checks the claims of a token with a valid signature and issuer.
fn verified(claims: &Raw, now: SystemTime) -> Result<Verified, Rejected> {
    let invalid = |why: &str| Rejected::Invalid(why.to_owned());
    let issuer = text(claims, "iss").ok_or_else(|| invalid("the token names no issuer"))?;
    let time = |claim: &str| match claims.member(claim) {
        None => Ok(None),
        Some(raw) => match raw.decode::<f64>().ok().and_then(date) {
            Some(time) => Ok(Some(time)),
            None => Err(Rejected::Invalid(format!("`{claim}` of the token is not a time"))),
        },
    };
    let expires = time("exp")?.ok_or_else(|| invalid("the token has no expiry"))?;
    let expires = expires.checked_add(LEEWAY).ok_or_else(|| invalid("`exp` of the token is not a time"))?;
    if expires <= now {
        return Err(invalid("the token has expired"));
    }
    if time("nbf")?.is_some_and(|begins| begins > now + LEEWAY) {
        return Err(invalid("the token is not valid yet"));
    }
    if claims.member("cnf").is_some_and(|bound| bound.kind() != Kind::Null) {
        return Err(invalid(
            "the token is bound to a key, but this server does not support proofs of \
            possession",
        ));
    }
    let audience = texts(claims, "aud");
    let scopes = match claims.member("scope") {
        Some(_) => texts(claims, "scope"),
        None => texts(claims, "scp"),
    };
    let scopes: BTreeSet<String> =
        scopes.iter().flat_map(|scopes| scopes.split(' ')).map(ToOwned::to_owned).collect();
    let client = text(claims, "client_id").or_else(|| text(claims, "azp"));
    let subject = text(claims, "sub");
    if subject.is_none() && client.is_none() {
        return Err(invalid("the token has no subject"));
    }
    let principal = Principal::new(&issuer, subject.as_deref(), client.as_deref());
    let scopes = scopes.into_iter().filter(|scope| !scope.is_empty());
    Ok(Verified::new(principal, audience).scopes(scopes).expires(expires))
}

/// Seconds since 1970, which may have a fraction.
fn date(seconds: f64) -> Option<SystemTime> {
    // A time before 1970 has passed in any case.
    let since = Duration::try_from_secs_f64(seconds.max(0.0)).ok()?;
    UNIX_EPOCH.checked_add(since)
}

fn text(claims: &Raw, claim: &str) -> Option<String> {
    Some(claims.member(claim)?.to_string_value()?.into_owned())
}

/// A text, or an array of texts; values of other types are ignored.
fn texts(claims: &Raw, claim: &str) -> Vec<String> {
    let Some(value) = claims.member(claim) else { return Vec::new() };
    match value.to_string_value() {
        Some(text) => vec![text.into_owned()],
        None => value.decode::<Vec<String>>().unwrap_or_default(),
    }
}

impl fmt::Debug for JwtVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let issuers = self.0.iter().map(|one| &one.issuer);
        f.debug_tuple("JwtVerifier").field(&issuers.collect::<Vec<_>>()).finish()
    }
}

#[cfg(test)]
mod tests;
