//! The differences between the revisions, as one row of facts each.
//!
//! Code asks for a fact, such as `profile.batching`, and never for the version: see the invariant in
//! `tests/invariants.rs`. The facts are from the specification's changelogs, for example
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
    /// A message may be an array of messages: 2025-03-26 alone.
    pub batching: bool,
    /// The server may send requests. Since 2026-07-28 it returns `input_required` instead.
    pub server_requests: bool,
    /// Every result carries `resultType`.
    pub result_type: bool,
    /// Streamable HTTP has sessions, streams opened with GET, and resumption. Before, there was HTTP+SSE; since
    /// 2026-07-28 every POST is independent.
    pub http_sessions: bool,
    /// After `initialize`, every HTTP request has the header `MCP-Protocol-Version`.
    pub http_version_header: bool,
    /// HTTP requests repeat their method and their subject in headers.
    pub http_method_headers: bool,
    /// A resumable stream starts with an event that has an id and no data, and a server may close it so that the client
    /// reconnects.
    pub http_priming_event: bool,
    /// Closing the HTTP exchange cancels the request.
    pub disconnect_cancels: bool,
    /// `structuredContent` exists.
    pub structured_content: bool,
    /// `structuredContent` may be any JSON value, and `outputSchema` any schema; otherwise both are objects.
    pub structured_any: bool,
    /// Content of kind `audio` exists.
    pub audio: bool,
    /// Content of kind `resource_link` exists.
    pub resource_links: bool,
    /// `completions` is a capability that must be declared.
    pub completions_capability: bool,
    /// Elicitation by URL exists.
    pub elicitation_url: bool,
    /// Tasks are a core feature: 2025-11-25 alone. In 2026-07-28 they are an extension with another form.
    pub core_tasks: bool,
    /// The error code for an unknown resource.
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
        disconnect_cancels: true,
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
    disconnect_cancels: false,
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
    /// The facts of a revision; `None` for an unknown one.
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
