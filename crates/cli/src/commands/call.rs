//! `mcpjoin call`: one tool, once.

use mcpjoin::client::Client;
use mcpjoin::proto::types::CallToolParams;
use mcpjoin::proto::{Kind, Raw};

use super::{contents, exchange, list, misuse, operands, printed, unicode};
use crate::args::Call;
use crate::arguments::Typed;
use crate::connect::{limits, with_tools};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::object::Object;
use crate::progress::Waiting;
use crate::target::shown;
use crate::ui::Ui;
use crate::visible;

const VERB: &str = "call";

/// Calls the tool. `separated`: `--` stood between the operands and the server's command.
pub(crate) fn run(ui: &Ui, args: Call, separated: bool) -> Result<Exit, Failure> {
    let invocation = operands(ui, VERB, args.connect.server.as_deref(), args.words, separated)?;
    let mut operands = invocation.operands.into_iter();
    let tool = match args.tool {
        Some(tool) => tool,
        None => unicode(VERB, "the tool's name", operands.next())?,
    };
    let operands: Vec<_> = operands.collect();
    let arguments = Typed::read(args.args.as_deref(), &operands, limits(&args.connect).message)
        .map_err(|problem| misuse(VERB, problem))?;
    let named = tool.clone();
    Ok(with_tools(ui, &invocation.target, &args.connect, Some(&named), async |client, _| {
        call(ui, client, tool, arguments).await
    }))
}

async fn call(ui: &Ui, client: &Client, tool: String, arguments: Typed) -> Result<Exit, Failure> {
    let schema = if arguments.need_schema() {
        let found = Waiting::new(ui, "waiting").wait(list::find(client, &list::TOOLS, &tool)).await?;
        found.and_then(|tool| tool.value("inputSchema").cloned())
    } else {
        None
    };
    let arguments = arguments
        .object_for(schema.as_ref())
        .map_err(|problem| Failure::usage(problem, "mcpjoin list --json shows what each tool takes"))?;
    exchange::hear_logs(ui, client).await;
    let mut params = CallToolParams::new(tool.as_str());
    params.arguments = Some(arguments);
    let result = exchange::result(ui, client.call_tool_with(params), Phase::Call).await?;
    print(ui, &tool, &result).await
}

/// Prints the result; whether the tool has failed is in the exit.
async fn print(ui: &Ui, tool: &str, result: &Raw) -> Result<Exit, Failure> {
    let Some(members) = Object::of(result) else {
        return Err(Failure::bad_reply("the result is no object", Phase::Call));
    };
    if members.value("content").is_some_and(|content| content.kind() != Kind::Array) {
        return Err(Failure::bad_reply("the result has no array content", Phase::Call));
    }
    let exit = printed(ui, result, || page(&members)).await;
    if exit == Exit::Done && members.value("isError").is_some_and(|error| error.as_str() == "true") {
        ui.remark(&format!("{} says that it has failed", shown(tool.as_ref())));
        return Ok(Exit::ServerError);
    }
    Ok(exit)
}

/// The contents for a person, or, where there are none, what stands in their place.
fn page(result: &Object) -> String {
    let contents = result.items("content").unwrap_or_default();
    if contents.is_empty() {
        return result
            .value("structuredContent")
            .map_or_else(String::new, |value| visible::json(value.as_str()));
    }
    contents::page(&contents)
}
