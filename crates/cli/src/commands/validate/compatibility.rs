//! `mcpjoin validate --compatibility`: the tools of a server that well-known clients do not accept. `mcpjoin_rules`
//! compares; this file prints.

use std::fmt::Write;

use mcpjoin::proto::{Message, Raw, Response};
use mcpjoin_rules::{Compatibility, Incompatibility, Trace, What, compatibility};
use serde::Serialize;

use crate::fold::{Head, prose};
use crate::object::Object;
use crate::ui::{HEADING, NAME, Ui};
use crate::visible::{self, cut_chars};

/// The maximum number of limits of one client on a page.
const MAX_SHOWN: usize = 5;
/// The maximum number of findings of one client in a document.
const MAX_FINDINGS: usize = 200;
/// The longest name of a tool, and the longest problem.
const MAX_TEXT_CHARS: usize = 300;
/// The name of a server that is no entry of a configuration.
const SERVER: &str = "server";

/// The tools that well-known clients accept. All texts of the server are truncated and without secrets.
#[derive(Serialize)]
pub(super) struct Clients {
    /// The number of tools that the server lists.
    tools: usize,
    /// An estimate of the tokens of their definitions.
    tokens: usize,
    #[serde(rename = "clients")]
    rows: Vec<Row>,
}

/// The result for one client.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    client: &'static str,
    /// The number of tools that it accepts.
    usable: usize,
    #[serde(rename = "findings")]
    found: Vec<Found>,
    /// The number of findings beyond the limit.
    #[serde(skip_serializing_if = "is_zero")]
    left_out: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A tool, or a list, that a client does not accept.
#[derive(Serialize)]
struct Found {
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    problem: String,
    #[serde(rename = "consequence")]
    then: &'static str,
    /// The page with the limit of the client.
    source: &'static str,
    /// The date on which the page was read.
    seen: String,
}

impl Clients {
    /// `None` if no tools were listed. `entry`: the name of the server in its configuration.
    pub(super) fn new(ui: &Ui, entry: Option<&str>, trace: &Trace) -> Option<Self> {
        let Compatibility { tools, tokens, clients, .. } =
            compatibility(entry.unwrap_or(SERVER), &listed(trace)?);
        let rows = clients.into_iter().map(|result| Row {
            client: result.client,
            usable: result.usable,
            left_out: result.findings.len().saturating_sub(MAX_FINDINGS),
            found: result.findings.into_iter().take(MAX_FINDINGS).map(|finding| found(ui, finding)).collect(),
        });
        Some(Self { tools, tokens, rows: rows.collect() })
    }

    /// For a person.
    pub(super) fn page(&self, out: &mut String) {
        let Self { tools, tokens, .. } = self;
        let _ =
            writeln!(out, "\n{HEADING}Well-known clients{HEADING:#}: {tools} tools, about {tokens} tokens");
        for row in &self.rows {
            let usable =
                if row.usable == self.tools { "all usable".into() } else { format!("{} usable", row.usable) };
            let _ = writeln!(out, "  {NAME}{}{NAME:#}: {usable}", row.client);
            let causes = causes(&row.found);
            for (first, tools) in causes.iter().take(MAX_SHOWN) {
                let of = match &tools[..] {
                    [] => String::new(),
                    [tool] => format!("{}: ", visible::line(tool)),
                    [tool, ..] => format!("{} tools, such as {}: ", tools.len(), visible::line(tool)),
                };
                let text = format!(
                    "{of}{}: {} ({}, {})",
                    visible::line(&first.problem),
                    first.then,
                    first.seen,
                    first.source
                );
                prose(out, &Head { text: "    ", columns: 4, indent: 6 }, &text);
            }
            let more = causes.len().saturating_sub(MAX_SHOWN);
            if more + row.left_out > 0 {
                let _ = writeln!(out, "    and {} more (--json lists them)", more + row.left_out);
            }
        }
    }
}

/// The findings by their limit: the first of each, with the names of all its tools.
fn causes(found: &[Found]) -> Vec<(&Found, Vec<&str>)> {
    let mut causes: Vec<(&Found, Vec<&str>)> = Vec::new();
    for one in found {
        let same = |first: &Found| (first.then, first.source) == (one.then, one.source);
        let at = causes.iter().position(|(first, _)| same(first)).unwrap_or_else(|| {
            causes.push((one, Vec::new()));
            causes.len() - 1
        });
        causes[at].1.extend(one.tool.as_deref());
    }
    causes
}

fn found(ui: &Ui, finding: Incompatibility) -> Found {
    let text = |text: &str| ui.hidden(&cut_chars(text, MAX_TEXT_CHARS)).into_owned();
    Found {
        tool: finding.tool.as_deref().map(text),
        problem: text(&finding.problem),
        then: finding.limit.then.as_str(),
        source: finding.limit.source,
        seen: finding.limit.seen.to_string(),
    }
}

/// The tools in all pages of the first list of the trace.
fn listed(trace: &Trace) -> Option<Vec<Raw>> {
    trace.runs.iter().find_map(|run| {
        let mut all: Option<Vec<Raw>> = None;
        let lines = run.events.iter().filter_map(|event| match &event.what {
            What::Received(line) => Some(line),
            _ => None,
        });
        for part in lines.flat_map(|line| line.parts()) {
            let Ok(Message::Response(Response { outcome: Ok(result), .. })) = part else { continue };
            let Some(result) = Object::of(result.raw()) else { continue };
            let Some(tools) = result.items("tools") else { continue };
            all.get_or_insert_default().extend(tools);
            if result.text("nextCursor").is_none() {
                break;
            }
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::{Found, causes};

    #[test]
    fn tools_with_one_limit_are_one_cause() {
        let found = |tool: Option<&str>, source| Found {
            tool: tool.map(Into::into),
            problem: "the name is long".into(),
            then: "left out",
            source,
            seen: "2026-01-01".into(),
        };
        let all =
            [found(Some("a"), "one"), found(None, "two"), found(Some("b"), "one"), found(Some("c"), "three")];
        let causes: Vec<(&str, Vec<&str>)> =
            causes(&all).into_iter().map(|(first, tools)| (first.source, tools)).collect();
        assert_eq!(causes, [("one", vec!["a", "b"]), ("two", vec![]), ("three", vec!["c"])]);
    }
}
