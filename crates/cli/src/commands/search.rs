//! `mcpjoin search`: finds tools by name in every server of the configuration.

use std::ops::ControlFlow;

use glob::{MatchOptions, Pattern};
use mcpjoin::proto::Raw;
use serde_json::Value;

use super::lists::{MAX_PAGES, Part, Section, ServerPart, TOOLS, read_each, report_server_failures};
use super::{items, print_page};
use crate::args::Search;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::object::{self, Object};
use crate::ui::{NAME, Ui};
use crate::visible;

const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: false,
    require_literal_separator: false,
    require_literal_leading_dot: false,
};

/// A tool whose name matches.
struct Found {
    server: String,
    name: String,
    tool: Raw,
}

/// Searches the tools of every server.
pub(crate) fn run(ui: &Ui, args: &Search) -> Result<Exit, Failure> {
    if args.connect.server().is_some() {
        let hint = "see the tools of one server: mcpjoin list TARGET";
        return Err(Failure::usage("search checks every server of the configuration", hint));
    }
    let wild = args.pattern.contains(['*', '?', '[']);
    let written_as = if wild { args.pattern.clone() } else { format!("*{}*", args.pattern) };
    let pattern = Pattern::new(&written_as).map_err(|error| {
        Failure::usage(format!("the pattern is invalid: {}", error.msg), "mcpjoin help search")
    })?;
    let whole = args.pattern.contains('/');
    let describe = args.describe;
    static WANTED: [&Section; 1] = [&TOOLS];
    read_each(ui, &args.connect, &WANTED, MAX_PAGES, false, async |servers, _| {
        let (mut found, mut failures) = (Vec::new(), Vec::new());
        for mut server in servers {
            let name = server.name.clone();
            while let Some(part) = server.next(ui).await {
                match part {
                    ServerPart::List(Part::Page(_, tools)) => {
                        found.extend(tools.iter().filter_map(|tool| {
                            let tool_name = Object::of(tool)?.text("name")?;
                            let full = format!("{name}/{tool_name}");
                            let matches =
                                pattern.matches_with(if whole { &full } else { &tool_name }, OPTIONS);
                            matches.then(|| Found {
                                server: name.clone(),
                                name: tool_name,
                                tool: tool.clone(),
                            })
                        }));
                    }
                    // A failure that ends the connection is also the outcome of the server, with more details.
                    ServerPart::List(Part::Failed(_, failure)) if failure.is_of_one_request() => {
                        failures.push((name.clone(), *failure));
                    }
                    _ => {}
                }
            }
            if let Err(failure) = server.outcome(ui).await {
                failures.push((name, failure));
            }
        }
        let text = match (ui.json, describe) {
            (true, _) => json(&found, &failures),
            (false, true) => described(&found),
            (false, false) => page(&found, ui.width()),
        };
        if found.is_empty() && !ui.json {
            let of = if failures.is_empty() { "" } else { " of the servers that responded" };
            ui.note(&format!("no tool{of} has a matching name"));
        }
        let text = if ui.json { ui.hidden_json(&text) } else { ui.hidden_whole(&text) }.into_owned();
        let exit = if text.is_empty() { Exit::Done } else { print_page(ui, text).await };
        let failed = report_server_failures(ui, &failures);
        ControlFlow::Continue(if exit == Exit::Done { failed } else { exit })
    })
}

/// `SERVER/TOOL`, as `mcpjoin call` takes it.
fn full_name(found: &Found) -> String {
    visible::line(&format!("{}/{}", found.server, found.name)).into_owned()
}

/// A row for each tool, with the first line of its description.
fn page(found: &[Found], width: Option<usize>) -> String {
    let rows: Vec<(String, String)> = found
        .iter()
        .map(|found| {
            let said = Object::of(&found.tool)
                .and_then(|tool| tool.text("description").or_else(|| tool.text("title")))
                .unwrap_or_default();
            (full_name(found), visible::first_line(&said).into_owned())
        })
        .collect();
    let mut out = String::new();
    items::table(&mut out, &rows, 0, items::name_columns(&rows, 0, width), width);
    out
}

/// Each tool as `mcpjoin tool` shows it.
fn described(found: &[Found]) -> String {
    let one = |found: &Found| {
        let name = full_name(found);
        // The page begins with the name of the tool, which the full name replaces.
        let page = items::tool(&found.tool);
        let rest = page.split_once('\n').map_or("", |(_, rest)| rest);
        format!("{NAME}{name}{NAME:#}\n{rest}")
    };
    found.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn json(found: &[Found], failures: &[(String, Failure)]) -> String {
    let tools: Vec<String> = found
        .iter()
        .map(|found| object::write([("server", &Raw::string(&found.server)), ("tool", &found.tool)]))
        .collect();
    let errors: Vec<String> = failures
        .iter()
        .map(|(server, failure)| {
            object::write([
                ("server", Value::from(server.as_str())),
                ("error", failure.json()["error"].take()),
            ])
        })
        .collect();
    visible::json(&format!("{{\"tools\":[{}],\"errors\":[{}]}}", tools.join(","), errors.join(",")))
}
