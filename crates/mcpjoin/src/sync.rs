//! Locks of the standard library without poisoning: a panic of a handler does not make every later lock fail.
//!
//! Used by all modules of this crate in place of `parking_lot`, which is six crates and 2 % of the processor time of a user's
//! build (`cargo xtask weight`).

use std::sync::{self, PoisonError};

pub(crate) use std::sync::MutexGuard;
#[cfg(feature = "server")]
pub(crate) use std::sync::{RwLockReadGuard, RwLockWriteGuard};

/// As [`sync::Mutex`].
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        matches!(self.0.try_lock(), Err(sync::TryLockError::WouldBlock))
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As [`sync::RwLock`].
#[cfg(feature = "server")]
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(sync::RwLock<T>);

#[cfg(feature = "server")]
impl<T> RwLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }

    #[inline]
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
