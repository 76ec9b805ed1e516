//! `mcpjoin tool`: one tool, with its parameters.

use std::collections::HashSet;

use mcpjoin::client::Client;
use mcpjoin::proto::Raw;
use serde_json::Value;

use super::list::{TOOLS, find};
use super::{misuse, operands, unicode, written};
use crate::args::Tool;
use crate::arguments::Schema;
use crate::config::ToolFilter;
use crate::connect::with_tools;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::object::{self, Object};
use crate::progress::Waiting;
use crate::target::shown;
use crate::ui::{HEADING, NAME, Ui};
use crate::visible;

/// Shows the tool. `separated`: `--` stood before the server's command.
pub(crate) fn run(ui: &Ui, args: Tool, separated: bool) -> Result<Exit, Failure> {
    let invocation = operands(ui, "tool", args.connect.server.as_deref(), args.words, separated)?;
    let mut words = invocation.operands.into_iter();
    let name = unicode("tool", "the name of the tool", words.next())?;
    if let Some(word) = words.next() {
        return Err(misuse("tool", format!("{} is one word too many", shown(&word))));
    }
    Ok(with_tools(ui, &invocation.target, &args.connect, async |client, filter, _| {
        filter.permit(&name)?;
        let found = Waiting::new(ui, "waiting").wait(read(client, filter, &name)).await?;
        let text = object::write(found.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let raw =
            Raw::parse(text).map_err(|_| Failure::bad_reply("the tool cannot be shown", Phase::List))?;
        let text = if ui.json { visible::json(raw.as_str()) } else { page(&raw) };
        Ok(written(ui, ui.aside(move |ui| ui.page(text.trim_end())).await))
    }))
}

async fn read(client: &Client, filter: &ToolFilter, name: &str) -> Result<Vec<(String, Raw)>, Failure> {
    let absent = match find(client, &TOOLS, name).await? {
        Ok(tool) => return Ok(tool.into_iter().collect()),
        Err(absent) => absent,
    };
    let problem = format!("the server lists no tool {}", shown(name.as_ref()));
    let hint = match absent.similar.filter(|similar| filter.allows(similar)) {
        Some(similar) => format!("did you mean {}?", shown(similar.as_ref())),
        None => "mcpjoin list shows its tools".into(),
    };
    Err(Failure::new("E_NO_TOOL", Exit::ServerError, Phase::List, problem).hint(hint))
}

/// For a person: what it says of itself, then a line for each parameter.
pub(super) fn page(tool: &Raw) -> String {
    let Some(tool) = Object::of(tool) else { return String::new() };
    let text = |member: &str| tool.text(member).filter(|text| !text.trim().is_empty());
    let mut out = format!("{HEADING}{}{HEADING:#}", visible::line(&text("name").unwrap_or_default()));
    if let Some(title) = text("title") {
        out.push_str(&format!("  {}", visible::line(&title)));
    }
    out.push('\n');
    for line in text("description").iter().flat_map(|text| text.lines()) {
        out.push_str(&format!("  {}\n", visible::line(line)));
    }
    for (heading, member) in [("Parameters", "inputSchema"), ("Result", "outputSchema")] {
        if let Some(raw) = tool.value(member) {
            parameters(&mut out, heading, raw);
        }
    }
    if let Some(annotations) = tool.value("annotations").and_then(Object::of) {
        let hints: Vec<String> = annotations
            .into_iter()
            .filter(|(_, value)| value.as_str() == "true")
            .map(|(name, _)| visible::line(&name).into_owned())
            .collect();
        if !hints.is_empty() {
            out.push_str(&format!("{HEADING}Hints{HEADING:#}\n  {}\n", hints.join(", ")));
        }
    }
    out
}

/// A line for each property of a schema, in its order, and below it what is said about it.
fn parameters(out: &mut String, heading: &str, raw: &Raw) {
    let properties = Object::of(raw).and_then(|schema| Object::of(schema.value("properties")?));
    let Some(properties) = properties else { return };
    let schema: Value = serde_json::from_str(raw.as_str()).unwrap_or_default();
    let required = schema.get("required").and_then(Value::as_array);
    let required: HashSet<&str> = required.into_iter().flatten().filter_map(Value::as_str).collect();
    let mut kinds = Schema::new(&schema);
    let mut lines = String::new();
    for (name, property) in properties {
        let mut about = kinds.said(&name).unwrap_or_else(|| "anything".into());
        about.push_str(if required.contains(name.as_str()) { ", required" } else { "" });
        let property = Object::of(&property);
        let value = |member: &str| property.as_ref().and_then(|property| property.value(member));
        if let Some(values) = value("enum") {
            about.push_str(&format!(", one of {}", values.as_str()));
        }
        if let Some(default) = value("default") {
            about.push_str(&format!(", default {}", default.as_str()));
        }
        lines.push_str(&format!("  {NAME}{}{NAME:#}  {}\n", visible::line(&name), visible::line(&about)));
        let said = property.as_ref().and_then(|property| property.text("description")).unwrap_or_default();
        for line in said.lines() {
            lines.push_str(&format!("      {}\n", visible::line(line)));
        }
    }
    if !lines.is_empty() {
        out.push_str(&format!("{HEADING}{heading}{HEADING:#}\n{lines}"));
    }
}
