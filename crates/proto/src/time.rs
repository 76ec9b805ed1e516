//! Points in time, as the owner of a session counts them.
//!
//! A session reads no clock: its owner passes in a [`Time`]. In production it is the monotonic time since the
//! connection was made; in tests it is set by the test.

use core::ops::{Add, Sub};
use core::time::Duration;

/// A point in time: the duration since an epoch of the owner. Monotonic, never a wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(Duration);

impl Time {
    /// The owner's epoch.
    pub const ZERO: Self = Self(Duration::ZERO);

    /// A point that is never reached.
    pub const FAR: Self = Self(Duration::MAX);

    /// The point `since_epoch` after the owner's epoch.
    #[must_use]
    pub const fn from_epoch(since_epoch: Duration) -> Self {
        Self(since_epoch)
    }

    /// The duration since the owner's epoch.
    #[must_use]
    pub const fn since_epoch(self) -> Duration {
        self.0
    }

    /// The duration since `earlier`; zero if it is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    /// Saturates: an infinite timeout is a point that is never reached.
    fn add(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(delay))
    }
}

impl Sub for Time {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.saturating_since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_for_ever_saturates() {
        let end = Time::from_epoch(Duration::from_secs(1)) + Duration::MAX;
        assert_eq!(end.since_epoch(), Duration::MAX);
        assert_eq!(Time::ZERO - end, Duration::ZERO);
    }
}
