//! Points in time as the owner of a session counts them.
//!
//! The session never reads a clock: whoever drives it passes [`Time`] in. In production it is the time since
//! the connection was made, on the monotonic clock; in tests it is a number that the test moves.

use core::ops::{Add, Sub};
use core::time::Duration;

/// A point in time: the time since the owner's own epoch. Monotonic, never a wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(Duration);

impl Time {
    /// The owner's epoch.
    pub const ZERO: Self = Self(Duration::ZERO);

    /// A point that never comes.
    pub const FAR: Self = Self(Duration::MAX);

    /// The point that lies `since_epoch` after the owner's epoch.
    #[must_use]
    pub const fn from_epoch(since_epoch: Duration) -> Self {
        Self(since_epoch)
    }

    /// How long after the owner's epoch this point lies.
    #[must_use]
    pub const fn since_epoch(self) -> Duration {
        self.0
    }

    /// How long after `earlier` this point lies; zero when it does not.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    /// Saturates instead of overflowing: a timeout of "for ever" is a point that never comes.
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
