//! The report as [SARIF 2.1.0](https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html), which code scanning
//! services take: one run, with a result for each finding.
//!
//! A service shows a result in a file. That is the configuration if the server is an entry of one, otherwise a path
//! made from the name of the server, so that no result is dropped.

use std::fmt::Write;

use mcpjoin_rules::Level;
use serde_json::{Value, json};

use super::report::{Document, Examination, Finding, RuleResult, RuleResults, Server, level};
use crate::commands::{document_of, present};
use crate::ui::Ui;
use crate::visible;

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
/// The maximum length of a path that is made from a name.
const MAX_PATH_BYTES: usize = 200;

/// The report.
pub(super) fn document(ui: &Ui, document: &Document) -> String {
    let rules = rules(document);
    let mut results = Vec::new();
    for (server, checked) in checked(document) {
        for rule in &checked.results {
            let index = rules.iter().position(|known| known.rule.slug == rule.rule.slug);
            results.extend(rule.found().iter().map(|found| result(document, server, rule, index, found)));
        }
    }
    let driver = json!({
        "name": "mcpjoin",
        "semanticVersion": env!("CARGO_PKG_VERSION"),
        "informationUri": env!("CARGO_PKG_REPOSITORY"),
        "rules": rules.iter().map(rule).collect::<Value>(),
    });
    let invocation = json!({
        "executionSuccessful": document.servers.iter().all(|server| server.failure().is_none()),
        "toolExecutionNotifications": notifications(ui, document),
    });
    // Our own: the numbers of rules that passed, failed and were skipped.
    let servers = document.servers.iter().map(|server| figures(document, server));
    let run = json!({
        "tool": { "driver": driver },
        "automationDetails": { "id": "mcpjoin-validate/" },
        "columnKind": "unicodeCodePoints",
        "invocations": [invocation],
        "results": results,
        "properties": { "servers": servers.collect::<Value>() },
    });
    document_of(&json!({ "$schema": SCHEMA, "version": "2.1.0", "runs": [run] }))
}

fn checked(document: &Document) -> impl Iterator<Item = (&Server, &RuleResults)> {
    document.servers.iter().filter_map(|server| match &server.outcome {
        Ok(Examination::Rules(checked)) => Some((server, checked)),
        _ => None,
    })
}

/// Each rule once: the same rules were applied to every server.
fn rules(document: &Document) -> &[RuleResult] {
    checked(document).next().map_or(&[], |(_, checked)| &checked.results)
}

fn rule(result: &RuleResult) -> Value {
    let rule = result.rule;
    let address = rule.address();
    let help = address.as_ref().map(|address| json!({ "text": format!("See the specification: {address}") }));
    present(json!({
        "id": rule.slug,
        "shortDescription": message(rule.sentence),
        "fullDescription": message(&format!("{} ({})", rule.sentence, rule.level().as_str())),
        "defaultConfiguration": { "level": severity(rule.level()) },
        // Our own: the level and the chapter.
        "properties": { "tags": ["mcp", rule.chapter.as_str()], "level": level(rule.level()) },
        "help": help,
        "helpUri": address,
    }))
}

fn result(
    document: &Document,
    server: &Server,
    result: &RuleResult,
    rule_index: Option<usize>,
    found: &Finding,
) -> Value {
    let problem = if document.several {
        format!("{}: {} ({})", server.label, found.problem, found.run)
    } else {
        format!("{} ({})", found.problem, found.run)
    };
    let line = |text: &Option<String>| text.as_ref().map(|text| visible::line(text).into_owned());
    let location = json!({
        "physicalLocation": place(server),
        "logicalLocations": [{
            "name": visible::line(&found.run),
            "fullyQualifiedName": visible::line(&format!("{}/{}", server.label, found.run)),
            "kind": "module",
        }],
    });
    let baseline = document.baseline.as_ref();
    let suppressions = baseline.filter(|_| found.known).map(|compared| {
        let justification = text(&format!("It is in the baseline {}.", compared.file));
        json!([{ "kind": "external", "justification": justification }])
    });
    present(json!({
        "ruleId": result.rule.slug,
        "ruleIndex": rule_index,
        "level": severity(found.level),
        "message": message(&sentence(&problem)),
        "locations": [location],
        "occurrenceCount": found.count,
        "partialFingerprints": {
            "mcpjoin/v1": found.fingerprint,
            // The fingerprint that GitHub reads.
            "primaryLocationLineHash": format!("{}:1", found.fingerprint),
        },
        // Our own: the server, the version and the messages.
        "properties": present(json!({
            "server": server.label,
            "protocolVersion": found.version,
            "address": found.address,
            "sent": line(&found.sent),
            "received": line(&found.received),
        })),
        "baselineState": baseline.map(|_| if found.known { "unchanged" } else { "new" }),
        "suppressions": suppressions,
    }))
}

const fn severity(level: Level) -> &'static str {
    match level {
        Level::Must => "error",
        Level::Should => "warning",
        Level::Advice => "note",
    }
}

/// The servers that were not examined, or not completely, and the stale entries of the baseline.
fn notifications(ui: &Ui, document: &Document) -> Vec<Value> {
    let failed = document.servers.iter().filter_map(|server| {
        let failure = server.failure()?;
        let message = message(&sentence(&format!("{}: {}", server.label, ui.hidden(&failure.message))));
        Some(json!({ "level": "error", "message": message, "descriptor": { "id": failure.id } }))
    });
    let stale = document.baseline.iter().flat_map(|compared| {
        compared.stale.iter().map(|stale| {
            let problem = format!("{} has {}, which was not found again", compared.file, stale.rule);
            json!({ "level": "note", "message": message(&sentence(&problem)) })
        })
    });
    failed.chain(stale).collect()
}

/// The numbers of rules of a server, if they were applied.
fn figures(document: &Document, server: &Server) -> Value {
    let Ok(Examination::Rules(checked)) = &server.outcome else {
        return json!({ "server": server.label, "checked": false });
    };
    let counts = checked.counts();
    let skipped = checked.results.iter().filter_map(|result| Some((result.rule.slug, result.skipped()?)));
    present(json!({
        "server": server.label,
        "checked": true,
        "ran": counts.ran(),
        "passed": counts.passed,
        "failed": counts.failed,
        // The reason for each skipped rule.
        "skipped": skipped.collect::<Value>(),
        "known": document.baseline.as_ref().map(|_| counts.known),
    }))
}

/// The file and the line at which a service shows the result.
fn place(server: &Server) -> Value {
    let (path, start_line) = match &server.place {
        Some(place) => {
            // A path below the working directory is relative to the repository.
            let here = std::env::current_dir().ok();
            let file = here.and_then(|here| place.file.strip_prefix(here).ok()).unwrap_or(&place.file);
            (file.to_string_lossy().into_owned(), place.line)
        }
        None => (server.shown.clone(), 1),
    };
    json!({ "artifactLocation": { "uri": relative(&path) }, "region": { "startLine": start_line } })
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

fn message(text: &str) -> Value {
    json!({ "text": self::text(text) })
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
