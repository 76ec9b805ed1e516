//! How to fix what a rule finds, where one line can say it, and the SDKs in whose servers it is found.
//!
//! Called by the reports of `validate`. A rule without a row has no advice beyond its sentence. The list of SDKs is that of
//! `docs/published-findings.md`; a test compares them.

use crate::rule::Rule;

/// The fixes, by rule.
const FIXES: &[(&str, &str)] = &[
    ("unique-members", "Write each member of an object once."),
    (
        "request-answered",
        "Send a response to every request, also when its handler fails: a result or an error.",
    ),
    ("answered-once", "Send one response for each request."),
    ("id-given-back", "Copy the id of the request into the response without changing its type."),
    ("notification-not-answered", "Send nothing in response to a message without an id."),
    ("unknown-method-refused", "Answer unknown methods with the error -32601 (Method not found)."),
    ("unknown-method-code", "Use the code -32601 (Method not found) for unknown methods."),
    ("bad-json-code", "Answer text that is not JSON with the error -32700 (Parse error)."),
    ("invalid-request-code", "Answer JSON that is not a request with the error -32600 (Invalid Request)."),
    ("goes-on-after-bad-line", "Discard a line that cannot be parsed, and read the next one."),
    ("silent-before-initialize", "Send nothing before the client's initialize request."),
    ("initialize-server-info", "Put serverInfo with name and version into the result of initialize."),
    ("ping-empty", "Answer ping with an empty object: {}."),
    ("ping-before-initialized", "Answer ping also before notifications/initialized."),
    (
        "unknown-version-not-accepted",
        "Answer a version that you do not support with the latest one that you support.",
    ),
    ("offered-version-spoken", "Answer a supported protocol version with the same version."),
    (
        "declared-list-exists",
        "Implement the list method of each declared capability, or remove the capability.",
    ),
    ("features-declared", "Declare the capability of each feature that you offer."),
    ("undeclared-list-unknown", "Answer methods of undeclared capabilities with the error -32601."),
    ("server-info-in-results", "Add io.modelcontextprotocol/serverInfo to _meta of every result."),
    ("unsupported-version-code", "Answer a request of an unsupported version with the error -32022."),
    ("unsupported-version-list", "List the supported versions in data.supported of the error -32022."),
    ("missing-meta-refused", "Answer requests without _meta with the error -32602."),
    ("result-type-present", "Add resultType to every result: \"complete\" unless input is required."),
    ("cache-ttl", "Add ttlMs, an integer of 0 or more, to the result."),
    ("cache-scope", "Add cacheScope, \"public\" or \"private\", to the result."),
    ("only-messages", "Write logs to standard error; standard output is for messages only."),
    ("one-line-each", "Write each message on one line: JSON without line breaks."),
    ("ends-with-its-input", "Exit when standard input is closed."),
    ("ends-in-order", "Exit with the status 0 when standard input is closed."),
    ("ends-at-sigterm", "Exit on SIGTERM."),
    ("origin-validated", "Check the Origin header of every request, and answer foreign origins with 403."),
    (
        "sse-origin-validated",
        "Check the Origin header of every request, and answer foreign origins with 403.",
    ),
    ("foreign-origin-forbidden", "Answer requests from foreign origins with the status 403."),
    ("host-validated", "Accept only requests whose Host header is a name of this server."),
    ("notification-accepted", "Answer notifications with the status 202 and an empty body."),
    ("stream-ends", "Close the stream of a request after its response."),
    ("session-id-required", "Answer requests without Mcp-Session-Id with the status 400."),
    (
        "ended-session-not-found",
        "Answer requests of ended sessions with the status 404: clients then start a new one.",
    ),
    (
        "unknown-session-not-found",
        "Answer requests of unknown sessions with the status 404: clients then start a new one.",
    ),
    ("bad-version-header-refused", "Answer an unsupported MCP-Protocol-Version with the status 400."),
    (
        "version-header-agrees",
        "Compare MCP-Protocol-Version with the version in the body; if they differ, answer 400 and -32020.",
    ),
    ("tool-names-unique", "Give each tool a name of its own."),
    ("input-schema-valid", "Give each tool a valid inputSchema: at least {\"type\":\"object\"}."),
    ("bad-arguments-refused", "Validate arguments against inputSchema before you use them."),
    (
        "structured-content-conforms",
        "Return structuredContent that conforms to the tool's outputSchema, or correct the schema.",
    ),
    ("unknown-tool-refused", "Answer a call of an unknown tool with the error -32602, not with a result."),
    ("unknown-tool-code", "Use the code -32602 (Invalid params) for unknown tools."),
    (
        "unknown-resource-code",
        "Use the code of the revision for unknown resources: -32602, up to 2025-11-25 -32002.",
    ),
    ("unknown-prompt-code", "Use the code -32602 (Invalid params) for unknown prompts."),
    (
        "missing-prompt-argument-code",
        "Use the code -32602 (Invalid params) for missing arguments of prompts.",
    ),
    (
        "bad-cursor-code",
        "Answer a cursor that you did not issue with the error -32602, also for lists with one page.",
    ),
    (
        "completion-refused-as-undeclared",
        "Answer completion/complete with the error -32601 unless you declare completions.",
    ),
    (
        "completion-missing-argument-code",
        "Use the code -32602 (Invalid params) for a completion without an argument.",
    ),
    ("unknown-log-level-code", "Use the code -32602 (Invalid params) for unknown log levels."),
    ("progress-increases", "Send progress values that increase with every notification."),
    ("progress-stops", "Send no progress after the response."),
    ("cancelled-not-answered", "Send no response for a cancelled request."),
];

/// The SDKs whose servers have these findings when they are set up as their guides say.
const SDKS: &[(&str, &[&str])] = &[
    (
        "@modelcontextprotocol/sdk",
        &[
            "bad-cursor-code",
            "client-id-documents-supported",
            "ended-session-not-found",
            "host-validated",
            "invalid-request-code",
            "origin-validated",
            "unknown-session-not-found",
        ],
    ),
    (
        "@modelcontextprotocol/server",
        &[
            "bad-cursor-code",
            "ended-session-not-found",
            "host-validated",
            "invalid-request-code",
            "origin-validated",
            "unknown-session-not-found",
        ],
    ),
    (
        "mcp (Python)",
        &[
            "bad-cursor-code",
            "challenge-scope-named",
            "client-id-documents-supported",
            "response-iss-supported",
            "unknown-prompt-code",
            "unknown-resource-code",
            "version-header-agrees",
        ],
    ),
    (
        "rmcp",
        &[
            "bad-cursor-code",
            "ends-in-order",
            "event-ids-unique",
            "origin-validated",
            "server-info-in-results",
        ],
    ),
    ("rmcp 2", &["bad-cursor-code", "completion-refused-as-undeclared"]),
];

impl Rule {
    /// How to fix a violation, if one line can say it.
    #[must_use]
    pub fn fix(&self) -> Option<&'static str> {
        FIXES.iter().find(|(slug, _)| *slug == self.slug).map(|(_, fix)| *fix)
    }

    /// The SDKs in whose servers it is found: there the SDK may be the cause.
    pub fn sdks(&self) -> impl Iterator<Item = &'static str> {
        let slug = self.slug;
        SDKS.iter().filter(move |(_, slugs)| slugs.contains(&slug)).map(|(sdk, _)| *sdk)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::{FIXES, SDKS};
    use crate::book::rules;

    #[test]
    fn every_fix_is_one_short_sentence_of_a_rule() {
        let slugs: BTreeSet<&str> = rules().map(|rule| rule.slug).collect();
        let mut seen = BTreeSet::new();
        for (slug, fix) in FIXES {
            assert!(slugs.contains(slug), "{slug} is not a rule");
            assert!(seen.insert(slug), "{slug} has two fixes");
            assert!(fix.ends_with('.') && fix.len() < 100, "{fix}");
        }
    }

    /// The rows of the SDKs in the tables of the page: an SDK has rows for several transports.
    #[test]
    fn the_sdks_are_those_of_the_page_of_findings() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/published-findings.md");
        let page = std::fs::read_to_string(page).unwrap();
        let servers = page.split("Findings on published clients").next().unwrap();
        let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for line in servers.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [server, _, _, breaks] = cells[..] else { panic!("{line}") };
            let server = server.trim_matches('`');
            if SDKS.iter().any(|(sdk, _)| *sdk == server) {
                found
                    .entry(server)
                    .or_default()
                    .extend(breaks.split(", ").map(|slug| slug.trim_matches('`')));
            }
        }
        let known: BTreeMap<&str, BTreeSet<&str>> =
            SDKS.iter().map(|(sdk, slugs)| (*sdk, slugs.iter().copied().collect())).collect();
        assert_eq!(found, known);
    }
}
