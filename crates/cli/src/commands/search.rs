//! `mcpjoin search`: tools by name, in every server of the configuration.

use glob::{MatchOptions, Pattern};
use mcpjoin::proto::Raw;
use unicode_width::UnicodeWidthStr;

use super::list::{gather_each, told};
use super::written;
use crate::args::Search;
use crate::connect::Answer;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::object::{self, Object};
use crate::ui::{NAME, Ui};
use crate::visible;

/// Names are aligned up to this width; longer ones push their description away.
const NAMES: usize = 56;

const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: false,
    require_literal_separator: false,
    require_literal_leading_dot: false,
};

/// A tool that was found.
struct Found {
    server: String,
    name: String,
    tool: Raw,
}

/// Asks every server for its tools.
pub(crate) fn run(ui: &Ui, args: &Search) -> Result<Exit, Failure> {
    if args.connect.server.is_some() {
        let hint = "mcpjoin list shows the tools of one server";
        return Err(Failure::usage("search looks into every server of the configuration", hint));
    }
    let wild = args.pattern.contains(['*', '?', '[']);
    let written_as = if wild { args.pattern.clone() } else { format!("*{}*", args.pattern) };
    let pattern = Pattern::new(&written_as).map_err(|error| {
        Failure::usage(format!("this pattern cannot be used: {}", error.msg), "mcpjoin help search")
    })?;
    let whole = args.pattern.contains('/');
    gather_each(ui, &args.connect, async |answers| {
        let (mut found, mut failures) = (Vec::new(), Vec::new());
        for Answer { name: server, outcome } in answers {
            match outcome {
                Ok(listed) => {
                    for tool in listed.tools() {
                        let Some(name) = Object::of(tool).and_then(|tool| tool.text("name")) else {
                            continue;
                        };
                        let full = format!("{server}/{name}");
                        if pattern.matches_with(if whole { &full } else { &name }, OPTIONS) {
                            found.push(Found { server: server.clone(), name, tool: tool.clone() });
                        }
                    }
                }
                Err(failure) => failures.push((server, failure)),
            }
        }
        let text = if ui.json { json(&found, &failures) } else { page(&found) };
        if found.is_empty() && failures.is_empty() && !ui.json {
            ui.note("no tool has such a name");
        }
        let text = ui.hidden(&text).into_owned();
        let exit = if text.is_empty() {
            Exit::Done
        } else {
            written(ui, ui.aside(move |ui| ui.result(&text)).await)
        };
        let failed = told(ui, &failures);
        if exit == Exit::Done { failed } else { exit }
    })
}

/// `SERVER/TOOL`, as it can be called, and the first line of what is said about it.
fn page(found: &[Found]) -> String {
    let rows: Vec<(String, String)> = found
        .iter()
        .map(|found| {
            let said = Object::of(&found.tool)
                .and_then(|tool| tool.text("description").or_else(|| tool.text("title")))
                .unwrap_or_default();
            let name = visible::line(&format!("{}/{}", found.server, found.name)).into_owned();
            (name, visible::first_line(&said).into_owned())
        })
        .collect();
    let widths = rows.iter().map(|(name, _)| name.width()).filter(|width| *width <= NAMES);
    let widest = widths.max().unwrap_or_default();
    let lines: Vec<String> = rows
        .iter()
        .map(|(name, said)| {
            let gap = " ".repeat(widest.saturating_sub(name.width()) + 2);
            format!("{NAME}{name}{NAME:#}{gap}{said}").trim_end().to_owned()
        })
        .collect();
    lines.join("\n")
}

fn json(found: &[Found], failures: &[(String, Failure)]) -> String {
    let tools: Vec<String> = found
        .iter()
        .map(|found| {
            object::write([("server", Raw::string(&found.server).as_str()), ("tool", found.tool.as_str())])
        })
        .collect();
    let errors: Vec<String> = failures
        .iter()
        .map(|(server, failure)| {
            let error = failure.json()["error"].to_string();
            object::write([("server", Raw::string(server).as_str()), ("error", &error)])
        })
        .collect();
    visible::json(&format!("{{\"tools\":[{}],\"errors\":[{}]}}", tools.join(","), errors.join(",")))
}
