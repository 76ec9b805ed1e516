//! The revisions of the protocol and their two eras.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning>
//!
//! Versions are compared only in `session/client_negotiation.rs`, `http/classify.rs` and the tables (this file,
//! `profile.rs`, `method.rs`). All other code uses the [`Profile`](crate::Profile).

use alloc::boxed::Box;
use core::fmt;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

/// A revision of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Version {
    /// 2024-11-05: the first revision.
    V2024_11_05,
    /// 2025-03-26: Streamable HTTP, batches, audio, annotations.
    V2025_03_26,
    /// 2025-06-18: elicitation, structured output, resource links; no batches.
    V2025_06_18,
    /// 2025-11-25: tasks, URL elicitation, icons; the last with `initialize`.
    V2025_11_25,
    /// 2026-07-28: no session; each request carries its version and capabilities.
    V2026_07_28,
    /// An unknown revision.
    Other(Box<str>),
}

/// The two generations of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// Up to 2025-11-25: `initialize` opens a session.
    Legacy,
    /// Since 2026-07-28: every request is independent.
    Modern,
}

impl Version {
    /// All known revisions, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// The newest revision of an era.
    #[must_use]
    pub const fn newest(era: Era) -> Self {
        match era {
            Era::Legacy => Self::V2025_11_25,
            Era::Modern => Self::V2026_07_28,
        }
    }

    /// The revision with this name.
    #[must_use]
    pub fn parse(name: &str) -> Self {
        let known = Self::ALL.into_iter().find(|version| version.as_str() == name);
        known.unwrap_or_else(|| Self::Other(name.into()))
    }

    /// The name in messages.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
            Self::Other(name) => name,
        }
    }

    /// The era of a revision; `None` for an unknown one.
    #[must_use]
    pub const fn era(&self) -> Option<Era> {
        match self {
            Self::V2024_11_05 | Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => {
                Some(Era::Legacy)
            }
            Self::V2026_07_28 => Some(Era::Modern),
            Self::Other(_) => None,
        }
    }

    /// The newest revision of an era in a list.
    #[must_use]
    pub fn newest_among(era: Era, versions: &[Self]) -> Option<&'static Self> {
        const ALL: &[Version] = &Version::ALL;
        ALL.iter().rev().find(|version| version.era() == Some(era) && versions.contains(version))
    }

    /// The index of a revision in [`Version::ALL`].
    pub(crate) const fn rank(&self) -> Option<u8> {
        match self {
            Self::V2024_11_05 => Some(0),
            Self::V2025_03_26 => Some(1),
            Self::V2025_06_18 => Some(2),
            Self::V2025_11_25 => Some(3),
            Self::V2026_07_28 => Some(4),
            Self::Other(_) => None,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        })
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        alloc::borrow::Cow::<'de, str>::deserialize(deserializer).map(|name| Self::parse(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_version_has_its_name_its_place_and_an_era() {
        for (place, version) in Version::ALL.iter().enumerate() {
            assert_eq!(Version::parse(version.as_str()), *version);
            assert_eq!(version.rank(), u8::try_from(place).ok());
            assert!(version.era().is_some());
        }
        assert_eq!(Version::parse("1999-01-01").era(), None);
        assert_eq!(Version::parse("1999-01-01").as_str(), "1999-01-01");
    }
}
