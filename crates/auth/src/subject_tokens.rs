//! The newest token that each principal has sent: what a token exchange begins with.
//!
//! Filled by a `ResourceServer`, or by a program with an admission of its own; read by `token_exchange`. No token is stored
//! on disk or shown.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::per_principal::PerPrincipal;
use super::secret::Secret;

/// The newest token of each principal, for a [`TokenExchange`](super::TokenExchange). All clones are one.
///
/// [`ResourceServerBuilder::subject_tokens`](super::resource::ResourceServerBuilder::subject_tokens) fills it with the tokens
/// of the requests that are admitted. It holds those of 10,000 principals and 32 MiB at most; the one that was unused for
/// longest is forgotten first, until its principal sends the next request.
#[derive(Clone, Default)]
pub struct SubjectTokens(Arc<Mutex<PerPrincipal<SubjectToken>>>);

/// A token that a principal has sent.
#[derive(Clone)]
pub(super) struct SubjectToken {
    pub(super) token: Secret,
    /// Tells tokens apart without showing them.
    pub(super) digest: [u8; 32],
    /// When it expires; `None`: it is not known.
    pub(super) until: Option<Instant>,
}

impl SubjectTokens {
    /// Sets the token that a principal has sent last, which must have been verified. `until`: when it expires, if that is known.
    pub fn insert(&self, principal: &str, token: &str, until: Option<Instant>) {
        self.set(principal, token, Sha256::digest(token).into(), until);
    }

    /// [`insert`](Self::insert) of a token whose digest is known.
    pub(super) fn set(&self, principal: &str, token: &str, digest: [u8; 32], until: Option<Instant>) {
        let mut tokens = self.0.lock();
        if tokens.find(principal).is_some_and(|known| known.digest == digest) {
            return;
        }
        tokens.insert(principal, SubjectToken { token: token.into(), digest, until }, token.len());
    }

    pub(super) fn of(&self, principal: &str) -> Option<SubjectToken> {
        self.0.lock().find(principal).cloned()
    }
}

impl fmt::Debug for SubjectTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubjectTokens").finish_non_exhaustive()
    }
}
