//! `mcpjoin tool`: one tool, with its parameters and a call that works when it is pasted.
//!
//! Calls no tool.

use std::ffi::OsString;

use mcpjoin::client::Client;
use mcpjoin::proto::Raw;

use super::lists::{TOOLS, find};
use super::next_command::CommandLine;
use super::{items, misuse, operands, print_page, unicode, written};
use crate::args::Tool;
use crate::arguments;
use crate::config::ToolFilter;
use crate::connect::with_server;
use crate::exit::Exit;
use crate::failure::{Failure, Phase, SEE_TOOLS};
use crate::object::{self, Object};
use crate::progress::Waiting;
use crate::schema::Schema;
use crate::target::{exact, shown};
use crate::ui::{HEADING, Ui};
use crate::visible;

/// A longer example is not shown.
const MAX_EXAMPLE_CHARS: usize = 2_000;

/// Shows the tool. `argv`: the command line; `separated`: `--` stood before the server's command.
pub(crate) fn run(ui: &Ui, args: Tool, argv: &[OsString], separated: bool) -> Result<Exit, Failure> {
    let words = args.words.clone();
    let invocation = operands(ui, "tool", &args.connect, args.words, separated)?;
    let name = name(invocation.operands)?;
    let connect = args.connect.answering(args.questions);
    let typed = CommandLine { argv, verb: "tool", words: &words, separated, target: &invocation.target };
    Ok(with_server(ui, &invocation.target, &connect, async |client, about| {
        let call_line = |words: &str| typed.of_verb("call", words);
        let shown = show_named(ui, client, &about.tools, &name, call_line).await;
        shown.map_err(|failure| typed.complete(failure))
    }))
}

/// Shows the tool that the operands name, in a session.
pub(super) async fn show(
    ui: &Ui,
    client: &Client,
    filter: &ToolFilter,
    operands: Vec<OsString>,
) -> Result<Exit, Failure> {
    show_named(ui, client, filter, &name(operands)?, |words| format!("call {words}")).await
}

fn name(operands: Vec<OsString>) -> Result<String, Failure> {
    let mut words = operands.into_iter();
    let name = unicode("tool", "the name of the tool", words.next())?;
    match words.next() {
        Some(word) => Err(misuse("tool", format!("{} is an extra word", shown(&word)))),
        None => Ok(name),
    }
}

/// `call_line`: the command line that calls a tool of the same server, from its name and arguments.
async fn show_named(
    ui: &Ui,
    client: &Client,
    filter: &ToolFilter,
    name: &str,
    call_line: impl FnOnce(&str) -> String,
) -> Result<Exit, Failure> {
    filter.permit(name)?;
    let found = Waiting::new(ui, "waiting").wait(read(client, filter, name)).await?;
    let text = object::write(found);
    let raw = Raw::parse(text).map_err(|_| Failure::bad_reply("the tool cannot be shown", Phase::List))?;
    if ui.json {
        return Ok(print_page(ui, visible::json(raw.as_str())).await);
    }
    let text = items::tool(&raw);
    let example = example(name, &raw, call_line).map(|line| ui.hidden_whole(&line).into_owned());
    let print = move |ui: &Ui| {
        ui.page(text.trim_end())?;
        // A line that is broken cannot be pasted.
        example.map_or(Ok(()), |line| ui.result(&format!("{HEADING}Example{HEADING:#}\n  {line}")))
    };
    Ok(written(ui, ui.aside(print).await))
}

/// A call of the tool for the same server, quoted for a shell.
fn example(name: &str, tool: &Raw, call_line: impl FnOnce(&str) -> String) -> Option<String> {
    let tool = Object::of(tool)?;
    let schema = tool.value("inputSchema")?;
    let mut words = vec![match name.starts_with('-') {
        true => shown(format!("--tool={name}").as_ref()),
        false => shown(name.as_ref()),
    }];
    words.extend(arguments::words(schema, &Schema::read(schema)?.example()).iter().map(|word| exact(word)));
    let line = call_line(&words.join(" "));
    (line.chars().count() <= MAX_EXAMPLE_CHARS).then_some(line)
}

async fn read(client: &Client, filter: &ToolFilter, name: &str) -> Result<Vec<(String, Raw)>, Failure> {
    let absent = match find(client, &TOOLS, name).await? {
        Ok(tool) => return Ok(tool.into_iter().collect()),
        Err(absent) => absent,
    };
    if let Some(unread) = absent.unread {
        return Err(Failure::bad_reply(unread, Phase::List));
    }
    let problem = format!("the server has no tool {}", shown(name.as_ref()));
    let hint = match absent.similar.filter(|similar| filter.allows(similar)) {
        Some(similar) => format!("did you mean {}?", shown(similar.as_ref())),
        None => SEE_TOOLS.into(),
    };
    Err(Failure::new("E_NO_TOOL", Exit::ServerError, Phase::List, problem).hint(hint))
}
