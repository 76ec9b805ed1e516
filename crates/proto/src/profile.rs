//! What differs between the revisions, as one row of facts each.
//!
//! Whoever needs to know asks `profile.batching`, never "which version is this": see the invariant in
//! `tests/invariants.rs`. The facts are those of the specification's changelogs, for example
//! <https://modelcontextprotocol.io/specification/2025-06-18/changelog>.

use crate::{Era, Version, code};

/// The facts of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Profile {
    /// The revision.
    pub version: Version,
    /// Its era.
    pub era: Era,
    /// A session is opened with `initialize`.
    pub initialize: bool,
    /// A line may be an array of messages: 2025-03-26 alone.
    pub batching: bool,
    /// The server may send requests of its own. From 2026-07-28 on it answers with `input_required` instead.
    pub server_requests: bool,
    /// Every result carries `resultType`.
    pub result_type: bool,
    /// Streamable HTTP has sessions, streams opened with GET, and resumption. Before it there was HTTP+SSE, after it
    /// every POST stands for itself.
    pub http_sessions: bool,
    /// After `initialize`, every HTTP request names the revision in `MCP-Protocol-Version`.
    pub http_version_header: bool,
    /// HTTP requests repeat their method, and what they are about, in headers.
    pub http_method_headers: bool,
    /// A stream that can be resumed begins with an event that has an id and no data, and a server may close it to be
    /// asked again.
    pub http_priming_event: bool,
    /// To cancel on HTTP is to close the exchange, and a peer that leaves has cancelled.
    pub leaving_cancels: bool,
    /// `structuredContent` exists.
    pub structured_content: bool,
    /// `structuredContent` may be any JSON value, and `outputSchema` any schema; before, both are objects.
    pub structured_any: bool,
    /// Content of kind `audio` exists.
    pub audio: bool,
    /// Content of kind `resource_link` exists.
    pub resource_links: bool,
    /// `completions` is a capability that must be declared.
    pub completions_capability: bool,
    /// Elicitation by URL exists.
    pub elicitation_url: bool,
    /// Tasks are part of the core: 2025-11-25 alone. Behind it they are an extension, and another thing.
    pub core_tasks: bool,
    /// The code for a resource that does not exist.
    pub resource_not_found: i64,
}

static PROFILES: [Profile; 5] = [
    LEGACY,
    Profile {
        version: Version::V2025_03_26,
        batching: true,
        http_sessions: true,
        audio: true,
        completions_capability: true,
        ..LEGACY
    },
    Profile { version: Version::V2025_06_18, ..SINCE_2025_06_18 },
    Profile {
        version: Version::V2025_11_25,
        http_priming_event: true,
        elicitation_url: true,
        core_tasks: true,
        ..SINCE_2025_06_18
    },
    Profile {
        version: Version::V2026_07_28,
        era: Era::Modern,
        initialize: false,
        server_requests: false,
        result_type: true,
        http_sessions: false,
        http_method_headers: true,
        leaving_cancels: true,
        structured_any: true,
        elicitation_url: true,
        resource_not_found: code::INVALID_PARAMS,
        ..SINCE_2025_06_18
    },
];

const LEGACY: Profile = Profile {
    version: Version::V2024_11_05,
    era: Era::Legacy,
    initialize: true,
    batching: false,
    server_requests: true,
    result_type: false,
    http_sessions: false,
    http_version_header: false,
    http_method_headers: false,
    http_priming_event: false,
    leaving_cancels: false,
    structured_content: false,
    structured_any: false,
    audio: false,
    resource_links: false,
    completions_capability: false,
    elicitation_url: false,
    core_tasks: false,
    resource_not_found: code::RESOURCE_NOT_FOUND,
};

const SINCE_2025_06_18: Profile = Profile {
    http_sessions: true,
    http_version_header: true,
    structured_content: true,
    audio: true,
    resource_links: true,
    completions_capability: true,
    ..LEGACY
};

impl Profile {
    /// The facts of a known revision; `None` for one that this crate does not know.
    #[must_use]
    pub fn of(version: &Version) -> Option<&'static Self> {
        PROFILES.get(usize::from(version.rank()?))
    }

    /// The facts of the newest revision of an era.
    #[must_use]
    pub fn newest(era: Era) -> &'static Self {
        match era {
            Era::Legacy => &PROFILES[3],
            Era::Modern => &PROFILES[4],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_version_has_its_row() {
        for version in &Version::ALL {
            let profile = Profile::of(version).expect("a row");
            assert_eq!(profile.version, *version);
            assert_eq!(Some(profile.era), version.era());
        }
        for era in [Era::Legacy, Era::Modern] {
            assert_eq!(Profile::newest(era).version, Version::newest(era));
        }
    }

    #[test]
    fn only_one_revision_has_batches() {
        let batching: alloc::vec::Vec<_> =
            PROFILES.iter().filter(|profile| profile.batching).map(|profile| &profile.version).collect();
        assert_eq!(batching, [&Version::V2025_03_26]);
    }
}
