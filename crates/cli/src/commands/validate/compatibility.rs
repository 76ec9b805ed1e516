//! `mcpjoin validate --compatibility`: what well-known clients make of the tools of a server. The library looks; here it is told.

use std::fmt::Write;

use mcpjoin::check::{Compatibility, Incompatibility, Trace, What, compatibility};
use mcpjoin::proto::{Message, Raw, Response};
use serde_json::{Value, json};

use super::fold::{Head, prose};
use super::report::cut;
use crate::object::Object;
use crate::ui::{HEADING, NAME, Ui};
use crate::visible;

/// Of what a client does not take, so much is shown to a person.
const SHOWN: usize = 5;
/// And so much to a program.
const KEPT: usize = 200;
/// Of a tool's name and of a problem so many characters are kept.
const TEXT: usize = 300;
/// What a server is called by where nobody has said it.
const SERVER: &str = "server";

/// What the clients make of it, with every text of the server cut and without secrets.
pub(super) struct Clients {
    tools: usize,
    tokens: usize,
    rows: Vec<Row>,
}

struct Row {
    client: &'static str,
    usable: usize,
    found: Vec<Found>,
    left_out: usize,
}

struct Found {
    tool: Option<String>,
    problem: String,
    then: &'static str,
    source: &'static str,
    seen: String,
}

impl Clients {
    /// By the tools that were listed; `None` when none were. `entry`: the name of the server in its configuration.
    pub(super) fn new(ui: &Ui, entry: Option<&str>, trace: &Trace) -> Option<Self> {
        let Compatibility { tools, tokens, clients, .. } =
            compatibility(entry.unwrap_or(SERVER), &listed(trace)?);
        let rows = clients.into_iter().map(|verdict| Row {
            client: verdict.client,
            usable: verdict.usable,
            left_out: verdict.findings.len().saturating_sub(KEPT),
            found: verdict.findings.into_iter().take(KEPT).map(|finding| found(ui, finding)).collect(),
        });
        Some(Self { tools, tokens, rows: rows.collect() })
    }

    /// For a program.
    pub(super) fn json(&self) -> Value {
        let found = |found: &Found| {
            let mut out = json!({
                "problem": found.problem,
                "consequence": found.then,
                "source": found.source,
                "seen": found.seen,
            });
            if let Some(tool) = &found.tool {
                out["tool"] = json!(tool);
            }
            out
        };
        let rows = self.rows.iter().map(|row| {
            let mut out = json!({
                "client": row.client,
                "usable": row.usable,
                "findings": row.found.iter().map(found).collect::<Vec<_>>(),
            });
            if row.left_out > 0 {
                out["leftOut"] = json!(row.left_out);
            }
            out
        });
        json!({ "tools": self.tools, "tokens": self.tokens, "clients": rows.collect::<Vec<_>>() })
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
            for found in row.found.iter().take(SHOWN) {
                let tool = found.tool.as_ref().map(|tool| format!("{}: ", visible::line(tool)));
                let text = format!(
                    "{}{}: {} ({}, {})",
                    tool.unwrap_or_default(),
                    visible::line(&found.problem),
                    found.then,
                    found.seen,
                    found.source
                );
                prose(out, &Head { text: "    ", columns: 4, indent: 6 }, &text);
            }
            let more = (row.found.len() + row.left_out).saturating_sub(SHOWN);
            if more > 0 {
                let _ = writeln!(out, "    and {more} more");
            }
        }
    }
}

fn found(ui: &Ui, finding: Incompatibility) -> Found {
    let text = |text: &str| ui.hidden(&cut(text, TEXT)).into_owned();
    Found {
        tool: finding.tool.as_deref().map(text),
        problem: text(&finding.problem),
        then: finding.limit.then.as_str(),
        source: finding.limit.source,
        seen: finding.limit.seen.to_string(),
    }
}

/// The tools of the first list that there is, all of its pages.
pub(super) fn listed(trace: &Trace) -> Option<Vec<Raw>> {
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
