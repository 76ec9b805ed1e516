//! The report as [SARIF 2.1.0](https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html), which code scanning
//! services take: one run, with a result for each finding.
//!
//! A service shows a result in a file. That is the configuration where the server is an entry of one; otherwise the
//! server's own name stands for a path, so that nothing has to be left out.

use std::fmt::Write;

use mcpjoin::check::Level;
use serde_json::{Map, Value, json};

use super::json::level;
use super::report::{Document, Found, Judged, Ruling, Said, Seen, Server};
use crate::ui::Ui;
use crate::visible;

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
const HOME: &str = env!("CARGO_PKG_REPOSITORY");
/// A name stands for a path up to so many bytes.
const PATH: usize = 200;

/// All of it.
pub(super) fn document(ui: &Ui, document: &Document) -> String {
    let rules = rules(document);
    let mut results = Vec::new();
    for (server, judged) in judged(document) {
        for ruling in &judged.rulings {
            let index = rules.iter().position(|known| known.rule.slug == ruling.rule.slug);
            results.extend(ruling.found().iter().map(|found| result(document, server, ruling, index, found)));
        }
    }
    let notes = notes(ui, document);
    let failed = document.servers.iter().any(|server| server.failure().is_some());
    let servers: Vec<Value> = document.servers.iter().map(|server| figures(document, server)).collect();
    let driver = json!({
        "name": "mcpjoin",
        "semanticVersion": env!("CARGO_PKG_VERSION"),
        "informationUri": HOME,
        "rules": rules.iter().map(rule).collect::<Vec<_>>(),
    });
    let run = json!({
        "tool": { "driver": driver },
        "automationDetails": { "id": "mcpjoin-validate/" },
        "columnKind": "unicodeCodePoints",
        "invocations": [{
            "executionSuccessful": !failed,
            "toolExecutionNotifications": notes,
        }],
        "results": results,
        "properties": { "servers": servers },
    });
    visible::json(&json!({ "$schema": SCHEMA, "version": "2.1.0", "runs": [run] }).to_string())
}

fn judged(document: &Document) -> impl Iterator<Item = (&Server, &Judged)> {
    document.servers.iter().filter_map(|server| match &server.seen {
        Ok(Seen::Judged(judged)) => Some((server, judged)),
        _ => None,
    })
}

/// Each rule once: the same were applied to every server.
fn rules(document: &Document) -> &[Ruling] {
    judged(document).next().map_or(&[], |(_, judged)| &judged.rulings)
}

fn rule(ruling: &Ruling) -> Value {
    let rule = ruling.rule;
    let mut out = json!({
        "id": rule.slug,
        "shortDescription": { "text": text(rule.sentence) },
        "fullDescription": { "text": text(&format!("{} ({})", rule.sentence, rule.level().as_str())) },
        "defaultConfiguration": { "level": severity(rule.level()) },
        "properties": { "tags": ["mcp", rule.chapter.as_str()], "level": level(rule.level()) },
    });
    if let Some(address) = rule.address() {
        out["help"] = json!({ "text": format!("The specification says it at {address}") });
        out["helpUri"] = json!(address);
    }
    out
}

fn result(
    document: &Document,
    server: &Server,
    ruling: &Ruling,
    index: Option<usize>,
    found: &Found,
) -> Value {
    let problem = if document.several {
        format!("{}: {} ({})", server.label, found.problem, found.run)
    } else {
        format!("{} ({})", found.problem, found.run)
    };
    let mut properties = Map::new();
    properties.insert("server".into(), json!(server.label));
    properties.insert("protocolVersion".into(), json!(found.version));
    properties.insert("address".into(), json!(found.address));
    for (name, line) in [("sent", &found.sent), ("received", &found.received)] {
        if let Some(line) = line {
            properties.insert(name.into(), json!(visible::line(line)));
        }
    }
    let mut out = json!({
        "ruleId": ruling.rule.slug,
        "level": severity(found.level),
        "message": { "text": text(&sentence(&problem)) },
        "locations": [{
            "physicalLocation": place(server),
            "logicalLocations": [{
                "name": visible::line(&found.run),
                "fullyQualifiedName": visible::line(&format!("{}/{}", server.label, found.run)),
                "kind": "module",
            }],
        }],
        "occurrenceCount": found.count,
        "partialFingerprints": {
            "mcpjoin/v1": found.fingerprint,
            // The one that GitHub reads.
            "primaryLocationLineHash": format!("{}:1", found.fingerprint),
        },
        "properties": properties,
    });
    if let Some(index) = index {
        out["ruleIndex"] = json!(index);
    }
    if let Some(compared) = &document.baseline {
        out["baselineState"] = json!(if found.known { "unchanged" } else { "new" });
        if found.known {
            let why = text(&format!("It is in the baseline {}.", compared.file));
            out["suppressions"] = json!([{ "kind": "external", "justification": why }]);
        }
    }
    out
}

const fn severity(level: Level) -> &'static str {
    match level {
        Level::Must => "error",
        Level::Should => "warning",
        Level::Advice => "note",
    }
}

/// What is to be said of servers that were not judged, or not by everything, and of the baseline.
fn notes(ui: &Ui, document: &Document) -> Vec<Value> {
    let failed = document.servers.iter().filter_map(|server| {
        let failure = server.failure()?;
        let message = format!("{}: {}", server.label, ui.hidden(&failure.message));
        Some(json!({
            "level": "error",
            "descriptor": { "id": failure.id },
            "message": { "text": text(&sentence(&message)) },
        }))
    });
    let stale = document.baseline.iter().flat_map(|compared| {
        compared.stale.iter().map(|stale| {
            let message = format!("{} has {}, which is found no longer", compared.file, stale.rule);
            json!({ "level": "note", "message": { "text": text(&sentence(&message)) } })
        })
    });
    failed.chain(stale).collect()
}

/// What ran and what did not, and why not.
fn figures(document: &Document, server: &Server) -> Value {
    let Ok(Seen::Judged(judged)) = &server.seen else {
        return json!({ "server": server.label, "judged": false });
    };
    let counts = judged.counts();
    let mut skipped = Map::new();
    for ruling in &judged.rulings {
        if let Said::Skipped(why) = &ruling.said {
            skipped.insert(ruling.rule.slug.into(), json!(why));
        }
    }
    let mut out = json!({
        "server": server.label,
        "judged": true,
        "ran": counts.ran(),
        "passed": counts.passed,
        "failed": counts.failed,
        "skipped": skipped,
    });
    if document.baseline.is_some() {
        out["known"] = json!(counts.known);
    }
    out
}

/// Where a service shows what is wrong with the server.
fn place(server: &Server) -> Value {
    let (path, line) = match &server.place {
        Some(place) => {
            // A path from where we are is one in the repository.
            let here = std::env::current_dir().ok();
            let file = here.and_then(|here| place.file.strip_prefix(here).ok()).unwrap_or(&place.file);
            (file.to_string_lossy().into_owned(), place.line)
        }
        None => (server.shown.clone(), 1),
    };
    json!({ "artifactLocation": { "uri": relative(&path) }, "region": { "startLine": line } })
}

/// A path or a name as a relative reference: no scheme, no root, nothing that leads out of the folder.
fn relative(path: &str) -> String {
    let path = path.split_once("://").map_or(path, |(_, rest)| rest);
    // Secrets stand behind it.
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "." | ".."));
    let mut out = String::new();
    for part in parts {
        if !out.is_empty() {
            out.push('/');
        }
        for byte in part.bytes() {
            if out.len() >= PATH {
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

/// A text as a message: braces would be places to be filled in, and `[..](..)` a link.
fn text(text: &str) -> String {
    visible::line(text).replace('{', "{{").replace('}', "}}").replace("](", "] (")
}

/// With a full stop.
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
        assert!(relative(&"é".repeat(5000)).len() <= super::PATH + 2);
    }

    #[test]
    fn a_message_fills_nothing_in_and_links_to_nothing() {
        assert_eq!(text("a {0} [here](http://x)\n"), "a {{0}} [here] (http://x)\\u{{a}}");
    }
}
