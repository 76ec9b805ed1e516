//! Where logins are kept: the seam, and the one that forgets them with the process.
//!
//! Used by `oauth`. A store keeps one text for each server and looks into none of them; what stands in it is `kept`'s business.
//! [`FileStore`](super::FileStore) outlives the process.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use super::secret::Secret;

/// Keeps logins: one text for each server, with tokens in it. A keychain of the system, for example.
///
/// The `server` is the URL of the MCP server. Everything that is said here of one server leaves the others alone.
pub trait TokenStore: Send + Sync + 'static {
    /// What was saved last.
    ///
    /// # Errors
    /// When it cannot be read. Nothing is deleted for that reason.
    fn load(&self, server: &str) -> impl Future<Output = Result<Option<Secret>, StoreError>> + Send;

    /// Keeps a text in place of the one before. Whoever loads meanwhile gets the one or the other, whole.
    ///
    /// # Errors
    /// When it cannot be written. What was there before is there still.
    fn save(&self, server: &str, text: Secret) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Forgets it, and says whether there was anything.
    ///
    /// # Errors
    /// When it is there and cannot be deleted.
    fn remove(&self, server: &str) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Finds out whether a text could be saved, as far as that can be found out without saving one: it is asked before a person is.
    /// Unless this is implemented, nothing is found out.
    ///
    /// # Errors
    /// When it could not.
    fn check(&self, server: &str) -> impl Future<Output = Result<(), StoreError>> + Send {
        let _ = server;
        async { Ok(()) }
    }

    /// Waits until nobody else, in any process that shares the store, has this lock; nobody else gets it before it is dropped.
    /// Whoever refreshes a token has it, because many authorization servers take each refresh token once.
    ///
    /// # Errors
    /// When it cannot be had.
    fn lock(&self, server: &str) -> impl Future<Output = Result<StoreLock, StoreError>> + Send;
}

/// Nobody else refreshes until this is dropped.
pub struct StoreLock(#[allow(dead_code, reason = "it is held until it is dropped")] Box<dyn Any + Send>);

impl StoreLock {
    /// Whatever lets the others go on when it is dropped.
    #[must_use]
    pub fn new(held: impl Any + Send) -> Self {
        Self(Box::new(held))
    }
}

impl fmt::Debug for StoreLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreLock").finish_non_exhaustive()
    }
}

/// What is stored cannot be read, or not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The system does not let us.
    #[error("{place}: {what}")]
    System {
        /// What it is about.
        place: String,
        /// What the system says.
        what: String,
    },
    /// Somebody else could read it, or could have written it: nothing there is used.
    #[error("{place} is not safe for tokens: {what}")]
    Unsafe {
        /// What it is about.
        place: String,
        /// What is wrong with it, and what can be done.
        what: String,
    },
    /// What is there is no login that was stored by us.
    #[error("what is stored for {server} cannot be read ({what}): forget it, and log in again")]
    Unreadable {
        /// Whose login it should be.
        server: String,
        /// What is wrong with it. Nothing of it is repeated here.
        what: String,
    },
    /// Somebody else has had the lock for too long.
    #[error("{place}: another program has held it for too long")]
    Busy {
        /// What is held.
        place: String,
    },
    /// Anything else, in words and without a secret.
    #[error("{0}")]
    Other(String),
}

/// Keeps logins for as long as it lives. Its clones are one.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore(Arc<Memory>);

#[derive(Debug, Default)]
struct Memory {
    texts: Mutex<HashMap<String, Secret>>,
    locks: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl MemoryStore {
    fn texts(&self) -> std::sync::MutexGuard<'_, HashMap<String, Secret>> {
        self.0.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenStore for MemoryStore {
    async fn load(&self, server: &str) -> Result<Option<Secret>, StoreError> {
        Ok(self.texts().get(server).cloned())
    }

    async fn save(&self, server: &str, text: Secret) -> Result<(), StoreError> {
        self.texts().insert(server.to_owned(), text);
        Ok(())
    }

    async fn remove(&self, server: &str) -> Result<bool, StoreError> {
        Ok(self.texts().remove(server).is_some())
    }

    async fn lock(&self, server: &str) -> Result<StoreLock, StoreError> {
        let lock = {
            let mut locks = self.0.locks.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(locks.entry(server.to_owned()).or_default())
        };
        Ok(StoreLock::new(lock.lock_owned().await))
    }
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The form that is kept.
pub(super) trait ErasedStore: Send + Sync {
    fn load<'a>(&'a self, server: &'a str) -> Boxed<'a, Option<Secret>>;
    fn save<'a>(&'a self, server: &'a str, text: Secret) -> Boxed<'a, ()>;
    fn remove<'a>(&'a self, server: &'a str) -> Boxed<'a, bool>;
    fn check<'a>(&'a self, server: &'a str) -> Boxed<'a, ()>;
    fn lock<'a>(&'a self, server: &'a str) -> Boxed<'a, StoreLock>;
}

impl<S: TokenStore> ErasedStore for S {
    fn load<'a>(&'a self, server: &'a str) -> Boxed<'a, Option<Secret>> {
        Box::pin(TokenStore::load(self, server))
    }

    fn save<'a>(&'a self, server: &'a str, text: Secret) -> Boxed<'a, ()> {
        Box::pin(TokenStore::save(self, server, text))
    }

    fn remove<'a>(&'a self, server: &'a str) -> Boxed<'a, bool> {
        Box::pin(TokenStore::remove(self, server))
    }

    fn check<'a>(&'a self, server: &'a str) -> Boxed<'a, ()> {
        Box::pin(TokenStore::check(self, server))
    }

    fn lock<'a>(&'a self, server: &'a str) -> Boxed<'a, StoreLock> {
        Box::pin(TokenStore::lock(self, server))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_lock_is_that_of_one_server() {
        let store = MemoryStore::default();
        let one = TokenStore::lock(&store, "a").await.unwrap();
        assert!(TokenStore::lock(&store, "b").now_or_never().is_some(), "the others go on");
        assert!(TokenStore::lock(&store.clone(), "a").now_or_never().is_none());
        drop(one);
        assert!(TokenStore::lock(&store, "a").now_or_never().is_some());
    }
}
