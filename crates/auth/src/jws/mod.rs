//! JSON Web Signatures in compact form, and their keys ([RFC 7515](https://www.rfc-editor.org/rfc/rfc7515),
//! [RFC 7517](https://www.rfc-editor.org/rfc/rfc7517), [RFC 7638](https://www.rfc-editor.org/rfc/rfc7638)).
//!
//! Called by `grants` and `dpop`, which sign, and by `resource`, which verifies. Only asymmetric algorithms are accepted:
//! `none` and HMAC are not implemented. Nothing here checks claims or reads a clock, and `Debug` shows no private key.

mod public;
mod signing;

pub(crate) use public::{KeySet, PublicKey};
pub(crate) use signing::{Header, KeyError, SigningKey};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcpjoin_proto::Raw;

/// The longest token in bytes: twice what common servers allow for one header field.
pub(crate) const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// How many characters of a peer's name an error shows.
const MAX_SHOWN_CHARS: usize = 64;

/// The accepted algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// ECDSA over P-256 with SHA-256.
    Es256,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// Ed25519, by either of its names ([RFC 8037](https://www.rfc-editor.org/rfc/rfc8037),
    /// [RFC 9864](https://www.rfc-editor.org/rfc/rfc9864)).
    EdDsa,
}

impl Algorithm {
    /// Parses the name in `alg`, case-sensitively.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "ES256" => Self::Es256,
            "RS256" => Self::Rs256,
            "PS256" => Self::Ps256,
            "EdDSA" | "Ed25519" => Self::EdDsa,
            _ => return None,
        })
    }

    /// The name in `alg`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Rs256 => "RS256",
            Self::Ps256 => "PS256",
            Self::EdDsa => "EdDSA",
        }
    }
}

/// Why a token is invalid. Contains nothing of its payload or signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum JwsError {
    /// Longer than the limit.
    #[error("the token is longer than {MAX_TOKEN_BYTES} bytes")]
    TooLong,
    /// Not three parts of Base64url, of which the first two are JSON objects.
    #[error("the token is not a signed JWT: {0}")]
    Malformed(&'static str),
    /// The algorithm is not accepted, or the token is not signed.
    #[error("the token's algorithm is {0:?}, which is not accepted")]
    Algorithm(String),
    /// It has critical headers that are not understood.
    #[error("the token has unknown critical headers")]
    Critical,
    /// No key of the set has that id and fits the algorithm. A newer set may.
    #[error("no known key could have signed the token{}", named(.0.as_deref()))]
    UnknownKey(Option<String>),
    /// The signature is by another key or for another text.
    #[error("the token's signature does not match")]
    Signature,
}

fn named(key_id: Option<&str>) -> String {
    key_id.map_or_else(String::new, |key_id| format!(" (kid {key_id:?})"))
}

fn shown(name: &str) -> String {
    name.chars().take(MAX_SHOWN_CHARS).collect()
}

/// A well-formed token whose signature is not verified.
pub(crate) struct Jws<'a> {
    algorithm: Algorithm,
    header: Raw,
    signed: &'a str,
    claims: Raw,
    signature: Vec<u8>,
}

impl std::fmt::Debug for Jws<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The complete token is a credential.
        formatter.debug_struct("Jws").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

impl<'a> Jws<'a> {
    /// Parses a token.
    ///
    /// # Errors
    /// When it is malformed, or its algorithm is not accepted.
    pub(crate) fn parse(token: &'a str) -> Result<Self, JwsError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(JwsError::TooLong);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(JwsError::Malformed("it has no signature"))?;
        let (header, claims) = signed.split_once('.').ok_or(JwsError::Malformed("it has no payload"))?;
        let header =
            object(header).ok_or(JwsError::Malformed("its header is not a JSON object in Base64url"))?;
        let name = text(&header, "alg").ok_or(JwsError::Malformed("its header names no algorithm"))?;
        let algorithm = Algorithm::parse(&name).ok_or_else(|| JwsError::Algorithm(shown(&name)))?;
        if header.member("crit").is_some() {
            return Err(JwsError::Critical);
        }
        let claims =
            object(claims).ok_or(JwsError::Malformed("its payload is not a JSON object in Base64url"))?;
        let signature = decode(signature).ok_or(JwsError::Malformed("its signature is not in Base64url"))?;
        Ok(Self { algorithm, header, signed, claims, signature })
    }

    /// Its algorithm.
    #[cfg(test)]
    pub(crate) const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// `typ`, as it is written.
    pub(crate) fn kind(&self) -> Option<String> {
        text(&self.header, "typ")
    }

    /// `kid`.
    pub(crate) fn key_id(&self) -> Option<String> {
        text(&self.header, "kid")
    }

    /// `jwk`: a key that the sender includes. It proves nothing by itself.
    #[cfg(test)]
    pub(crate) fn jwk(&self) -> Option<Raw> {
        self.header.member("jwk")
    }

    /// The payload of an unverified token: only to find out whose keys are needed.
    pub(crate) const fn unverified_claims(&self) -> &Raw {
        &self.claims
    }

    /// Returns the payload if a key of the set has signed it: the key with the token's `kid`, or any fitting key when the token
    /// has none.
    ///
    /// # Errors
    /// [`JwsError::UnknownKey`] when the set has no such key, otherwise [`JwsError::Signature`].
    pub(crate) fn verify(&self, keys: &KeySet) -> Result<&Raw, JwsError> {
        let key_id = self.key_id();
        let mut candidates = keys.candidates(key_id.as_deref(), self.algorithm).peekable();
        if candidates.peek().is_none() {
            return Err(JwsError::UnknownKey(key_id.as_deref().map(shown)));
        }
        candidates.find_map(|key| self.verify_with(key).ok()).ok_or(JwsError::Signature)
    }

    /// Returns the payload if this key has signed it.
    ///
    /// # Errors
    /// [`JwsError::Signature`].
    pub(crate) fn verify_with(&self, key: &PublicKey) -> Result<&Raw, JwsError> {
        let right = key.has_signed(self.algorithm, self.signed.as_bytes(), &self.signature);
        if right { Ok(&self.claims) } else { Err(JwsError::Signature) }
    }
}

/// Decodes Base64url without padding; `None` for anything else.
fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// Base64url without padding.
pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Decodes a JSON object in Base64url. A repeated member is an error (RFC 7515, section 4).
fn object(text: &str) -> Option<Raw> {
    let raw = Raw::parse(decode(text)?).ok()?;
    (raw.kind() == mcpjoin_proto::Kind::Object).then_some(raw)
}

/// A member that is a string.
fn text(object: &Raw, name: &str) -> Option<String> {
    object.member(name)?.to_string_value().map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests;
