//! The trait of token stores, and the store in memory.
//!
//! Used by `oauth`. A store keeps one opaque text for each server; `stored_login` reads and writes it.
//! [`FileStore`](super::FileStore) outlives the process.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::secret::Secret;

/// Stores logins: one text for each server, which contains tokens. Could be a keychain of the system, for example.
///
/// The `server` is the URL of the MCP server. An operation on one server does not affect others.
pub trait TokenStore: Send + Sync + 'static {
    /// Returns the text that was saved last.
    ///
    /// # Errors
    /// When it cannot be read. It is not deleted then.
    fn load(&self, server: &str) -> impl Future<Output = Result<Option<Secret>, StoreError>> + Send;

    /// Replaces the text atomically: a concurrent load returns the old or the new text.
    ///
    /// # Errors
    /// When it cannot be written. The old text is still stored then.
    fn save(&self, server: &str, text: Secret) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Removes the text; returns whether there was one.
    ///
    /// # Errors
    /// When it exists and cannot be removed.
    fn remove(&self, server: &str) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Checks whether a text could be saved, as far as possible without saving one: called before a user is asked to log in. The
    /// default checks nothing.
    ///
    /// # Errors
    /// When it could not be saved.
    fn check(&self, server: &str) -> impl Future<Output = Result<(), StoreError>> + Send {
        let _ = server;
        async { Ok(()) }
    }

    /// Locks the login of a server, among all processes that share the store, until the result is dropped. A refresh holds the
    /// lock, because many authorization servers accept each refresh token once.
    ///
    /// # Errors
    /// When it cannot be locked.
    fn lock(&self, server: &str) -> impl Future<Output = Result<StoreLock, StoreError>> + Send;
}

/// The lock of one login. Dropping it releases the lock.
pub struct StoreLock(#[allow(dead_code, reason = "it is held until it is dropped")] Box<dyn Any + Send>);

impl StoreLock {
    /// A lock that is released by dropping `held`.
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

/// A login cannot be read, or not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The system refuses.
    #[error("{place}: {what}")]
    System {
        /// The file or place.
        place: String,
        /// The error of the system.
        what: String,
    },
    /// Another user could read it, or could have written it: it is not used.
    #[error("{place} is not safe for tokens: {what}")]
    Unsafe {
        /// The file or place.
        place: String,
        /// The problem, and what to do.
        what: String,
    },
    /// The stored text is no login.
    #[error(
        "the login stored for {server} is unreadable ({what}): delete it with `auth logout`, and log in again"
    )]
    Unreadable {
        /// The server.
        server: String,
        /// The problem. Repeats nothing of the text.
        what: String,
    },
    /// Another process has held the lock for too long.
    #[error("{place}: another program has locked it for too long")]
    Busy {
        /// The lock.
        place: String,
    },
    /// Any other error, for people and without a secret.
    #[error("{0}")]
    Other(String),
}

/// Stores logins in memory. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore(Arc<Memory>);

#[derive(Debug, Default)]
struct Memory {
    texts: Mutex<HashMap<String, Secret>>,
    locks: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl TokenStore for MemoryStore {
    async fn load(&self, server: &str) -> Result<Option<Secret>, StoreError> {
        Ok(self.0.texts.lock().get(server).cloned())
    }

    async fn save(&self, server: &str, text: Secret) -> Result<(), StoreError> {
        self.0.texts.lock().insert(server.to_owned(), text);
        Ok(())
    }

    async fn remove(&self, server: &str) -> Result<bool, StoreError> {
        Ok(self.0.texts.lock().remove(server).is_some())
    }

    async fn lock(&self, server: &str) -> Result<StoreLock, StoreError> {
        let lock = {
            let mut locks = self.0.locks.lock();
            Arc::clone(locks.entry(server.to_owned()).or_default())
        };
        Ok(StoreLock::new(lock.lock_owned().await))
    }
}

type Boxed<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// [`TokenStore`] behind a pointer.
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
