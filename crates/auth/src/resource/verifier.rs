//! Who says whether a token is good: the trait, and what comes out.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::SystemTime;

/// Finds out whether a token is valid, and what it says.
///
/// Asked for each token, at most once in 60 s. Whether it was given out for this server and whether it has expired is
/// decided by the [`ResourceServer`](super::ResourceServer), from what comes out.
pub trait TokenVerifier: Send + Sync + 'static {
    /// Verifies a token. It has the form of one (RFC 6750, 2.1), and nothing else is known of it. Dropped when the client
    /// leaves.
    fn verify(&self, token: &str) -> impl Future<Output = Result<Verified, Rejected>> + Send;

    /// Gets ready to verify tokens: fetches keys, say. Asked before the first token comes, by whoever wants to know at once that
    /// something is wrong ([`ResourceServer::prepare`](super::ResourceServer::prepare)). Does nothing, unless this is implemented.
    ///
    /// # Errors
    /// Says, for a person, why no token could be verified now. It may be otherwise when one comes.
    fn prepare(&self) -> impl Future<Output = Result<(), String>> + Send {
        async { Ok(()) }
    }
}

/// The same for whoever keeps one.
pub(super) trait ErasedVerifier: Send + Sync {
    fn verify<'a>(&'a self, token: &'a str) -> Verifying<'a>;
    fn prepare(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>>;
}

type Verifying<'a> = Pin<Box<dyn Future<Output = Result<Verified, Rejected>> + Send + 'a>>;

impl<V: TokenVerifier> ErasedVerifier for V {
    fn verify<'a>(&'a self, token: &'a str) -> Verifying<'a> {
        Box::pin(TokenVerifier::verify(self, token))
    }

    fn prepare(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(TokenVerifier::prepare(self))
    }
}

/// What a valid token says.
#[derive(Clone, Debug)]
pub struct Verified {
    pub(super) principal: Principal,
    pub(super) audience: Vec<String>,
    pub(super) scopes: Vec<String>,
    pub(super) expires: Option<SystemTime>,
}

impl Verified {
    /// A token in that name, given out for those resources: URLs, to the letter.
    pub fn new<A: Into<String>>(principal: Principal, audience: impl IntoIterator<Item = A>) -> Self {
        Self {
            principal,
            audience: audience.into_iter().map(Into::into).collect(),
            scopes: Vec::new(),
            expires: None,
        }
    }

    /// What it is good for. None, unless it is said here.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// From when on it is not accepted any more. Never, unless it is said here.
    #[must_use]
    pub const fn expires(mut self, expires: SystemTime) -> Self {
        self.expires = Some(expires);
        self
    }
}

/// In whose name a token is used: who has given it out, for whom, and to which client.
///
/// Sessions, tasks and the state of a request belong to it. The same user with another client is another principal: what
/// was allowed to one program is not thereby another's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal(Box<str>);

impl Principal {
    /// `subject` is whom the token stands for (`sub`), `client` the client that it was given to (`client_id`); what is not
    /// known is `None`. Two are equal only when all three parts are.
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

/// A part with nothing in it that could end it, or be taken for an absent one.
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
    /// It is not valid, and will not be again: 401. The text is told to the client and says nothing of the token.
    #[error("{0}")]
    Invalid(String),
    /// That cannot be found out now: 503. The text is told to the client.
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
