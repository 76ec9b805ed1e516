//! The report as [SARIF 2.1.0](https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html), which code scanning
//! services take: one run, with a result for each finding.
//!
//! A service shows a result in a file. That is the configuration if the server is an entry of one, otherwise a path
//! made from the name of the server, so that no result is dropped. The names of the structs and of their members are
//! those of the standard.

use std::collections::BTreeMap;
use std::fmt::Write;

use mcpjoin_rules::Level;
use serde::Serialize;
use serde_json::Value;

use super::report::{Document, Examination, Finding, RuleResult, RuleResults, Server, lower_case};
use crate::commands::{document_of, joined};
use crate::ui::Ui;
use crate::visible;

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
const HOME: &str = env!("CARGO_PKG_REPOSITORY");
/// The maximum length of a path that is made from a name.
const MAX_PATH_BYTES: usize = 200;

/// An object with one member, or with two of the same type.
type Members<T> = BTreeMap<&'static str, T>;

#[derive(Serialize)]
struct SarifLog<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [Run<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Run<'a> {
    tool: Members<ToolComponent<'a>>,
    automation_details: Members<&'static str>,
    column_kind: &'static str,
    invocations: [Invocation; 1],
    results: Vec<SarifResult<'a>>,
    /// Our own: the numbers of rules that passed, failed and were skipped.
    properties: Members<Vec<Value>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolComponent<'a> {
    name: &'static str,
    semantic_version: &'static str,
    information_uri: &'static str,
    rules: Vec<ReportingDescriptor<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReportingDescriptor<'a> {
    id: &'a str,
    short_description: Members<String>,
    full_description: Members<String>,
    default_configuration: Members<&'static str>,
    properties: RuleProperties<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<Members<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    help_uri: Option<String>,
}

/// Our own: the level and the chapter of a rule.
#[derive(Serialize)]
struct RuleProperties<'a> {
    tags: [&'a str; 2],
    #[serde(serialize_with = "lower_case")]
    level: Level,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Invocation {
    execution_successful: bool,
    tool_execution_notifications: Vec<Notification>,
}

#[derive(Serialize)]
struct Notification {
    level: &'static str,
    message: Members<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    descriptor: Option<Members<&'static str>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifResult<'a> {
    rule_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule_index: Option<usize>,
    level: &'static str,
    message: Members<String>,
    locations: [Location; 1],
    occurrence_count: usize,
    partial_fingerprints: Members<String>,
    properties: ResultProperties<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline_state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    suppressions: Option<[Members<String>; 1]>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    physical_location: PhysicalLocation,
    logical_locations: [LogicalLocation; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PhysicalLocation {
    artifact_location: Members<String>,
    region: Members<usize>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LogicalLocation {
    name: String,
    fully_qualified_name: String,
    kind: &'static str,
}

/// Our own: the server, the version and the messages of a finding.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultProperties<'a> {
    server: &'a str,
    protocol_version: &'a str,
    address: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    received: Option<String>,
}

/// Our own: a server, with the members of [`Figures`] if the rules were applied.
#[derive(Serialize)]
struct ServerFigures<'a> {
    server: &'a str,
    judged: bool,
}

#[derive(Serialize)]
struct Figures<'a> {
    ran: usize,
    passed: usize,
    failed: usize,
    /// The reason for each skipped rule.
    skipped: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    known: Option<usize>,
}

/// The report.
pub(super) fn document(ui: &Ui, document: &Document) -> String {
    let rules = rules(document);
    let mut results = Vec::new();
    for (server, judged) in judged(document) {
        for rule in &judged.results {
            let index = rules.iter().position(|known| known.rule.slug == rule.rule.slug);
            results.extend(rule.found().iter().map(|found| result(document, server, rule, index, found)));
        }
    }
    let driver = ToolComponent {
        name: "mcpjoin",
        semantic_version: env!("CARGO_PKG_VERSION"),
        information_uri: HOME,
        rules: rules.iter().map(rule).collect(),
    };
    let servers = document.servers.iter().map(|server| figures(document, server));
    let run = Run {
        tool: Members::from([("driver", driver)]),
        automation_details: Members::from([("id", "mcpjoin-validate/")]),
        column_kind: "unicodeCodePoints",
        invocations: [Invocation {
            execution_successful: document.servers.iter().all(|server| server.failure().is_none()),
            tool_execution_notifications: notifications(ui, document),
        }],
        results,
        properties: Members::from([("servers", servers.collect())]),
    };
    document_of(&SarifLog { schema: SCHEMA, version: "2.1.0", runs: [run] })
}

fn judged(document: &Document) -> impl Iterator<Item = (&Server, &RuleResults)> {
    document.servers.iter().filter_map(|server| match &server.outcome {
        Ok(Examination::Rules(judged)) => Some((server, judged)),
        _ => None,
    })
}

/// Each rule once: the same rules were applied to every server.
fn rules(document: &Document) -> &[RuleResult] {
    judged(document).next().map_or(&[], |(_, judged)| &judged.results)
}

fn rule(result: &RuleResult) -> ReportingDescriptor<'_> {
    let rule = result.rule;
    let address = rule.address();
    ReportingDescriptor {
        id: rule.slug,
        short_description: message(rule.sentence),
        full_description: message(&format!("{} ({})", rule.sentence, rule.level().as_str())),
        default_configuration: Members::from([("level", severity(rule.level()))]),
        properties: RuleProperties { tags: ["mcp", rule.chapter.as_str()], level: rule.level() },
        help: address
            .as_ref()
            .map(|address| Members::from([("text", format!("The specification says it at {address}"))])),
        help_uri: address,
    }
}

fn result<'a>(
    document: &Document,
    server: &'a Server,
    result: &'a RuleResult,
    rule_index: Option<usize>,
    found: &'a Finding,
) -> SarifResult<'a> {
    let problem = if document.several {
        format!("{}: {} ({})", server.label, found.problem, found.run)
    } else {
        format!("{} ({})", found.problem, found.run)
    };
    let line = |text: &Option<String>| text.as_ref().map(|text| visible::line(text).into_owned());
    let known = document.baseline.as_ref().filter(|_| found.known);
    SarifResult {
        rule_id: result.rule.slug,
        rule_index,
        level: severity(found.level),
        message: message(&sentence(&problem)),
        locations: [Location {
            physical_location: place(server),
            logical_locations: [LogicalLocation {
                name: visible::line(&found.run).into_owned(),
                fully_qualified_name: visible::line(&format!("{}/{}", server.label, found.run)).into_owned(),
                kind: "module",
            }],
        }],
        occurrence_count: found.count,
        partial_fingerprints: Members::from([
            ("mcpjoin/v1", found.fingerprint.clone()),
            // The fingerprint that GitHub reads.
            ("primaryLocationLineHash", format!("{}:1", found.fingerprint)),
        ]),
        properties: ResultProperties {
            server: &server.label,
            protocol_version: &found.version,
            address: &found.address,
            sent: line(&found.sent),
            received: line(&found.received),
        },
        baseline_state: document.baseline.is_some().then_some(if found.known { "unchanged" } else { "new" }),
        suppressions: known.map(|compared| {
            let justification = text(&format!("It is in the baseline {}.", compared.file));
            [Members::from([("kind", "external".to_owned()), ("justification", justification)])]
        }),
    }
}

const fn severity(level: Level) -> &'static str {
    match level {
        Level::Must => "error",
        Level::Should => "warning",
        Level::Advice => "note",
    }
}

/// The servers that were not examined, or not completely, and the stale entries of the baseline.
fn notifications(ui: &Ui, document: &Document) -> Vec<Notification> {
    let failed = document.servers.iter().filter_map(|server| {
        let failure = server.failure()?;
        let problem = format!("{}: {}", server.label, ui.hidden(&failure.message));
        let descriptor = Some(Members::from([("id", failure.id)]));
        Some(Notification { level: "error", message: message(&sentence(&problem)), descriptor })
    });
    let stale = document.baseline.iter().flat_map(|compared| {
        compared.stale.iter().map(|stale| {
            let problem = format!("{} has {}, which is found no longer", compared.file, stale.rule);
            Notification { level: "note", message: message(&sentence(&problem)), descriptor: None }
        })
    });
    failed.chain(stale).collect()
}

fn figures(document: &Document, server: &Server) -> Value {
    let figures = match &server.outcome {
        Ok(Examination::Rules(judged)) => {
            let counts = judged.counts();
            let skipped = judged.results.iter();
            Some(Figures {
                ran: counts.ran(),
                passed: counts.passed,
                failed: counts.failed,
                skipped: skipped.filter_map(|it| Some((it.rule.slug, it.skipped()?))).collect(),
                known: document.baseline.is_some().then_some(counts.known),
            })
        }
        _ => None,
    };
    joined(&ServerFigures { server: &server.label, judged: figures.is_some() }, &figures)
}

/// The file and the line at which a service shows the result.
fn place(server: &Server) -> PhysicalLocation {
    let (path, start_line) = match &server.place {
        Some(place) => {
            // A path below the working directory is relative to the repository.
            let here = std::env::current_dir().ok();
            let file = here.and_then(|here| place.file.strip_prefix(here).ok()).unwrap_or(&place.file);
            (file.to_string_lossy().into_owned(), place.line)
        }
        None => (server.shown.clone(), 1),
    };
    PhysicalLocation {
        artifact_location: Members::from([("uri", relative(&path))]),
        region: Members::from([("startLine", start_line)]),
    }
}

/// A path or a name as a relative reference: without a scheme, a root, or a part that leaves the folder.
fn relative(path: &str) -> String {
    let path = path.split_once("://").map_or(path, |(_, rest)| rest);
    // A query may contain secrets.
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "." | ".."));
    let mut out = String::new();
    for part in parts {
        if !out.is_empty() {
            out.push('/');
        }
        for byte in part.bytes() {
            if out.len() >= MAX_PATH_BYTES {
                break;
            }
            if byte.is_ascii_alphanumeric() || b"-._~@+,".contains(&byte) {
                out.push(char::from(byte));
            } else {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    if out.is_empty() { "server".into() } else { out }
}

fn message(text: &str) -> Members<String> {
    Members::from([("text", self::text(text))])
}

/// A text for a message: braces would be placeholders, and `[..](..)` a link.
fn text(text: &str) -> String {
    visible::line(text).replace('{', "{{").replace('}', "}}").replace("](", "] (")
}

/// The text with a full stop.
fn sentence(text: &str) -> String {
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

#[cfg(test)]
mod tests {
    use super::{relative, text};

    #[test]
    fn a_name_is_a_path_that_stays_in_its_folder() {
        for (name, path) in [
            ("./server.js", "server.js"),
            ("/usr/bin/../x", "usr/bin/x"),
            ("http://localhost:8080/mcp?token=a", "localhost%3A8080/mcp"),
            ("npx -y @scope/server", "npx%20-y%20@scope/server"),
            ("demo:", "demo%3A"),
            ("é", "%C3%A9"),
            ("..", "server"),
        ] {
            assert_eq!(relative(name), path);
        }
        assert!(relative(&"a/".repeat(5000)).len() <= 2 * 5000);
        assert!(relative(&"é".repeat(5000)).len() <= super::MAX_PATH_BYTES + 2);
    }

    #[test]
    fn a_message_fills_nothing_in_and_links_to_nothing() {
        assert_eq!(text("a {0} [here](http://x)\n"), "a {{0}} [here] (http://x)\\u{{a}}");
    }
}
