//! `mcpjoin tool`: one tool, with its parameters.

use std::ffi::OsString;

use mcpjoin::client::Client;
use mcpjoin::proto::Raw;

use super::lists::{TOOLS, find};
use super::{items, misuse, operands, print_page, unicode};
use crate::args::Tool;
use crate::config::ToolFilter;
use crate::connect::with_server;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::object;
use crate::progress::Waiting;
use crate::target::shown;
use crate::ui::Ui;
use crate::visible;

/// Shows the tool. `separated`: `--` stood before the server's command.
pub(crate) fn run(ui: &Ui, args: Tool, separated: bool) -> Result<Exit, Failure> {
    let invocation = operands(ui, "tool", &args.connect, args.words, separated)?;
    let name = name(invocation.operands)?;
    let connect = args.connect.answering(args.questions);
    Ok(with_server(ui, &invocation.target, &connect, async |client, about| {
        show_named(ui, client, &about.tools, &name).await
    }))
}

/// Shows the tool that the operands name.
pub(super) async fn show(
    ui: &Ui,
    client: &Client,
    filter: &ToolFilter,
    operands: Vec<OsString>,
) -> Result<Exit, Failure> {
    show_named(ui, client, filter, &name(operands)?).await
}

fn name(operands: Vec<OsString>) -> Result<String, Failure> {
    let mut words = operands.into_iter();
    let name = unicode("tool", "the name of the tool", words.next())?;
    match words.next() {
        Some(word) => Err(misuse("tool", format!("{} is one word too many", shown(&word)))),
        None => Ok(name),
    }
}

async fn show_named(ui: &Ui, client: &Client, filter: &ToolFilter, name: &str) -> Result<Exit, Failure> {
    filter.permit(name)?;
    let found = Waiting::new(ui, "waiting").wait(read(client, filter, name)).await?;
    let text = object::write(found);
    let raw = Raw::parse(text).map_err(|_| Failure::bad_reply("the tool cannot be shown", Phase::List))?;
    let text = if ui.json { visible::json(raw.as_str()) } else { items::tool(&raw) };
    Ok(print_page(ui, text.trim_end().to_owned()).await)
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
