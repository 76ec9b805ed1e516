//! The revisions of the protocol that a rule applies to. No other file of this crate knows the dates of revisions.
//!
//! A rule says `Revisions::LEGACY`, never "if the version is ..."; see `crates/proto/tests/invariants.rs`.

use mcpjoin_proto::Version;

/// A range of revisions, both ends included, as places in [`Version::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revisions {
    first: usize,
    last: usize,
}

impl Revisions {
    /// Every revision.
    pub const ALL: Self = Self { first: 0, last: 4 };
    /// 2024-11-05 alone.
    pub const FIRST: Self = Self { first: 0, last: 0 };
    /// 2024-11-05 and 2025-03-26.
    pub const FIRST_TWO: Self = Self { first: 0, last: 1 };
    /// 2024-11-05 to 2025-06-18.
    pub const FIRST_THREE: Self = Self { first: 0, last: 2 };
    /// 2025-03-26 alone: the revision with batches.
    pub const BATCHING: Self = Self { first: 1, last: 1 };
    /// 2025-03-26 to 2025-06-18.
    pub const SECOND_AND_THIRD: Self = Self { first: 1, last: 2 };
    /// 2025-03-26 to 2025-11-25.
    pub const LEGACY_SINCE_SECOND: Self = Self { first: 1, last: 3 };
    /// 2025-06-18 alone.
    pub const THIRD: Self = Self { first: 2, last: 2 };
    /// 2025-06-18 to 2025-11-25.
    pub const LEGACY_SINCE_THIRD: Self = Self { first: 2, last: 3 };
    /// 2025-11-25 alone: the last revision with `initialize`.
    pub const LAST_LEGACY: Self = Self { first: 3, last: 3 };
    /// 2025-03-26 and later.
    pub const SINCE_SECOND: Self = Self { first: 1, last: 4 };
    /// 2025-06-18 and later.
    pub const SINCE_THIRD: Self = Self { first: 2, last: 4 };
    /// 2025-11-25 and later.
    pub const SINCE_FOURTH: Self = Self { first: 3, last: 4 };
    /// 2024-11-05 to 2025-11-25: the revisions with `initialize`.
    pub const LEGACY: Self = Self { first: 0, last: 3 };
    /// 2026-07-28: the revision without sessions.
    pub const MODERN: Self = Self { first: 4, last: 4 };

    /// Whether a revision is in the range. An unknown one is in no range.
    #[must_use]
    pub fn contains(&self, version: &Version) -> bool {
        Version::ALL
            .iter()
            .position(|known| known == version)
            .is_some_and(|place| (self.first..=self.last).contains(&place))
    }

    /// The range of one revision; `None` for an unknown one.
    #[must_use]
    pub fn only(version: &Version) -> Option<Self> {
        let place = Version::ALL.iter().position(|known| known == version)?;
        Some(Self { first: place, last: place })
    }

    /// The revisions of the range, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &'static Version> {
        ALL[self.first..=self.last].iter()
    }

    /// The first revision.
    #[must_use]
    pub const fn first(&self) -> &'static Version {
        &ALL[self.first]
    }

    /// The last revision.
    #[must_use]
    pub const fn last(&self) -> &'static Version {
        &ALL[self.last]
    }

    /// Whether one revision came before another. An unknown one is neither before nor after another.
    #[must_use]
    pub fn is_older(one: &Version, other: &Version) -> bool {
        let place = |version| Version::ALL.iter().position(|known| known == version);
        matches!((place(one), place(other)), (Some(one), Some(other)) if one < other)
    }

    /// Whether a version is no revision, and will not be one. A revision is a date, so an unknown one that is later than all others
    /// may be newer than this list.
    pub(crate) fn never_existed(version: &Version) -> bool {
        !Self::ALL.contains(version) && version.as_str() < Self::ALL.last().as_str()
    }
}

static ALL: [Version; 5] = Version::ALL;

#[cfg(test)]
mod tests {
    use super::{Revisions, Version};

    #[test]
    fn a_range_has_its_ends_and_nothing_unknown() {
        assert!(Revisions::ALL.contains(Revisions::MODERN.first()));
        assert!(!Revisions::LEGACY.contains(Revisions::MODERN.last()));
        assert!(!Revisions::ALL.contains(&Version::parse("1999-01-01")));
        assert_eq!(Revisions::only(Revisions::MODERN.last()), Some(Revisions::MODERN));
        assert_eq!(Revisions::LEGACY.iter().chain(Revisions::MODERN.iter()).count(), Version::ALL.len());
        assert!(Revisions::is_older(Revisions::ALL.first(), Revisions::ALL.last()));
        assert!(!Revisions::is_older(&Version::parse("1999-01-01"), Revisions::ALL.last()));
        for (text, expected) in
            [("1999-01-01", true), ("1.0", true), ("", true), ("2025-06-18", false), ("2099-01-01", false)]
        {
            assert_eq!(Revisions::never_existed(&Version::parse(text)), expected, "{text}");
        }
    }
}
