//! Proof Key for Code Exchange: the secret that binds a code to the client that requested it.
//!
//! [RFC 7636](https://www.rfc-editor.org/rfc/rfc7636), with S256 only, as
//! [the specification](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations#authorization-code-protection)
//! requires. Used by `authorize`, which generates one for each authorization.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::secret::Secret;

/// Random bytes of a verifier or a state: 256 bits, as RFC 7636, 7.1 recommends.
const RANDOM_BYTES: usize = 32;

/// A verifier and its challenge, which is sent first.
#[derive(Clone, Debug)]
pub(super) struct Pkce {
    pub(super) verifier: Secret,
    pub(super) challenge: String,
}

impl Pkce {
    /// Generates one; `None` when the system has no random bytes.
    pub(super) fn new() -> Option<Self> {
        Some(Self::of(random()?))
    }

    fn of(verifier: String) -> Self {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        Self { verifier: Secret::new(verifier), challenge }
    }
}

/// A random text: 43 characters of Base64url.
pub(super) fn random() -> Option<String> {
    let mut bytes = [0; RANDOM_BYTES];
    getrandom::fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_that_of_the_example_of_rfc_7636() {
        // RFC 7636, appendix B.
        let pkce = Pkce::of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".into());
        assert_eq!(pkce.challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn no_two_verifiers_are_alike() {
        let (one, other) = (Pkce::new().unwrap(), Pkce::new().unwrap());
        assert_ne!(one.verifier, other.verifier);
        assert_eq!(one.verifier.expose().len(), 43);
        assert!(!format!("{one:?}").contains(one.verifier.expose()));
    }
}
