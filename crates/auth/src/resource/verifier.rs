//! The trait that verifies tokens, and its result.

use std::borrow::Cow;
use std::fmt;
use std::time::SystemTime;

use futures_util::future::BoxFuture;

/// Verifies tokens.
///
/// Called for each token, at most once in 60 s. The [`ResourceServer`](super::ResourceServer) itself checks by the result
/// whether the token was issued for this server, and whether it has expired.
pub trait TokenVerifier: Send + Sync + 'static {
    /// Verifies a token. It has the form of one (RFC 6750, 2.1), and nothing else is known about it. The future is dropped when
    /// the client disconnects.
    fn verify(&self, token: &str) -> impl Future<Output = Result<Verified, Rejected>> + Send;

    /// Prepares for verifying, for example by fetching keys. Called before the first token arrives, by programs that want to know
    /// problems at once ([`ResourceServer::prepare`](super::ResourceServer::prepare)). The default does nothing.
    ///
    /// # Errors
    /// The reason, for people, why no token could be verified now. A later attempt may succeed.
    fn prepare(&self) -> impl Future<Output = Result<(), String>> + Send {
        async { Ok(()) }
    }
}

/// [`TokenVerifier`] behind a pointer.
pub(super) trait ErasedVerifier: Send + Sync {
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Verified, Rejected>>;
    fn prepare(&self) -> BoxFuture<'_, Result<(), String>>;
}

impl<V: TokenVerifier> ErasedVerifier for V {
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Verified, Rejected>> {
        Box::pin(TokenVerifier::verify(self, token))
    }

    fn prepare(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(TokenVerifier::prepare(self))
    }
}

/// The content of a valid token.
#[derive(Clone, Debug)]
pub struct Verified {
    pub(super) principal: Principal,
    pub(super) audience: Vec<String>,
    pub(super) scopes: Vec<String>,
    pub(super) expires: Option<SystemTime>,
}

impl Verified {
    /// A token of a principal, issued for these resources: URLs, which are compared exactly.
    pub fn new<A: Into<String>>(principal: Principal, audience: impl IntoIterator<Item = A>) -> Self {
        Self {
            principal,
            audience: audience.into_iter().map(Into::into).collect(),
            scopes: Vec::new(),
            expires: None,
        }
    }

    /// Sets its scopes: none by default.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Sets when it expires: never by default.
    #[must_use]
    pub const fn expires(mut self, expires: SystemTime) -> Self {
        self.expires = Some(expires);
        self
    }
}

/// The principal of a token: its issuer, its subject, and its client.
///
/// Sessions, tasks and the state of a request belong to one principal. The same user with another client is another
/// principal: a permission of one program does not extend to another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal(Box<str>);

impl Principal {
    /// `subject` is the user of the token (`sub`), `client` the client that it was issued to (`client_id`); `None` when unknown. Two
    /// principals are equal only when all three parts are.
    #[must_use]
    pub fn new(issuer: &str, subject: Option<&str>, client: Option<&str>) -> Self {
        let [subject, client] = [subject, client].map(|part| part.map_or(Cow::Borrowed("-"), escaped));
        Self(format!("{} {subject} {client}", escaped(issuer)).into())
    }

    /// As one text: the three parts with a space between, where a space in a part is `%20`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn into_text(self) -> Box<str> {
        self.0
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Escapes a part, so that it cannot contain a separator or look like an absent part.
fn escaped(part: &str) -> Cow<'_, str> {
    let plain = |character: char| character != '%' && !character.is_whitespace() && !character.is_control();
    if !matches!(part, "" | "-") && part.chars().all(plain) {
        return Cow::Borrowed(part);
    }
    let mut text = String::from(if matches!(part, "" | "-") { "%" } else { "" });
    for character in part.chars() {
        if plain(character) {
            text.push(character);
        } else {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                text.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    Cow::Owned(text)
}

/// Why a token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// It is invalid: 401. The client receives the text, which contains nothing of the token.
    #[error("{0}")]
    Invalid(String),
    /// It cannot be verified now: 503. The client receives the text.
    #[error("{0}")]
    Unavailable(String),
}

#[cfg(test)]
mod tests {
    use super::Principal;

    #[test]
    fn two_principals_are_never_one_text() {
        let parts = [None, Some(""), Some("-"), Some("%"), Some("%-"), Some("a"), Some("a -"), Some("a%20-")];
        let mut seen = std::collections::HashMap::new();
        for issuer in ["https://as", "https://as -", "https://as a"] {
            for subject in parts {
                for client in parts {
                    let text = Principal::new(issuer, subject, client).to_string();
                    assert_eq!(text.split(' ').count(), 3, "{text}");
                    if let Some(other) = seen.insert(text.clone(), (issuer, subject, client)) {
                        panic!("{text:?}: {other:?} and {:?}", (issuer, subject, client));
                    }
                }
            }
        }
        assert_eq!(Principal::new("https://as", Some("x y"), None).as_str(), "https://as x%20y -");
    }
}
