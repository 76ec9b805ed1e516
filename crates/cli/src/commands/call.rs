//! `mcpjoin call`: one tool, once.

use mcpjoin::client::Client;
use mcpjoin::connection::CallEvent;
use mcpjoin::proto::session::{Call as Request, Reply};
use mcpjoin::proto::types::{CallToolParams, InputRequired, LoggingLevel, ProgressParams};
use mcpjoin::proto::{Method, Raw};

use super::{list, refused, written};
use crate::args::Call;
use crate::arguments::Typed;
use crate::connect::{limits, show, with_tools};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::object::{self, Object};
use crate::target::{self, shown};
use crate::ui::Ui;
use crate::visible;

/// From this level on log messages are asked for with `-v`.
const LOG_LEVEL: LoggingLevel = LoggingLevel::Info;

/// Calls the tool. `separated`: `--` stood between the operands and the server's command.
pub(crate) fn run(args: Call, separated: bool) -> Exit {
    let ui = Ui::new(&args.output);
    let after = separated.then_some(args.command);
    let invocation = match target::with_operands("call", args.connect.server.as_deref(), args.words, after) {
        Ok(invocation) => invocation,
        Err(misuse) => return refused(&ui, misuse),
    };
    invocation.notes.iter().for_each(|note| ui.note(note));

    let mut operands = invocation.operands.into_iter();
    let tool = match args.tool.map(Ok).or_else(|| operands.next().map(std::ffi::OsString::into_string)) {
        Some(Ok(tool)) => tool,
        Some(Err(word)) => {
            return misuse(&ui, format!("the tool's name {} is not Unicode", shown(&word)));
        }
        None => return misuse(&ui, "no tool is named".into()),
    };
    let operands: Vec<_> = operands.collect();
    let arguments = match Typed::read(args.args.as_deref(), &operands, limits(&args.connect).message) {
        Ok(arguments) => arguments,
        Err(problem) => return misuse(&ui, problem),
    };
    let named = tool.clone();
    with_tools(&ui, &invocation.target, &args.connect, Some(&named), async |client, _| {
        call(&ui, client, tool, arguments).await
    })
}

fn misuse(ui: &Ui, problem: String) -> Exit {
    let failure = Failure::usage(problem, "mcpjoin help call");
    ui.failure(&failure);
    failure.exit
}

async fn call(ui: &Ui, client: &Client, tool: String, arguments: Typed) -> Result<Exit, Failure> {
    let schema = if arguments.need_schema() {
        list::tool(client, &tool).await?.and_then(|tool| tool.value("inputSchema").cloned())
    } else {
        None
    };
    let arguments = arguments
        .object_for(schema.as_ref())
        .map_err(|problem| Failure::usage(problem, "mcpjoin list --json shows what each tool takes"))?;
    let logs = ui.verbosity() > 0
        && client.peer().server_capabilities().is_some_and(|server| server.logging.is_some());
    if logs {
        client.set_level(LOG_LEVEL).await.map_err(|error| Failure::client(&error, Phase::Call))?;
    }

    let name = Raw::string(&tool);
    let params = object::write([("name", name.as_str()), ("arguments", arguments.as_str())]);
    let params =
        Raw::parse(params).map_err(|error| Failure::usage(error.to_string(), "check the arguments"))?;
    let mut request = Request::new(Method::CallTool).with_params(params);
    request.progress = true;
    request.log_level = logs.then_some(LOG_LEVEL);
    // Not the client's own method, because what it has no type for would be lost with --json.
    let mut calling = client.connection().call(request);
    while let Some(event) = calling.next_event().await {
        show_event(ui, &event);
    }
    ui.progress_over();
    let result = match calling.await.map_err(|error| Failure::call(&error, Phase::Call))? {
        Reply::Complete(result) => result,
        Reply::NeedInput(input) => later(ui, client, &tool, arguments, *input).await?,
        Reply::Task(_) => {
            return Err(Failure::bad_reply("the result is a task, which was not asked for", Phase::Call));
        }
    };
    print(ui, &tool, &result).await
}

/// The server has put the call off, or asks something. The former is waited for; the latter nobody here answers.
async fn later(
    ui: &Ui,
    client: &Client,
    tool: &str,
    arguments: Raw,
    input: InputRequired,
) -> Result<Raw, Failure> {
    if let Some((_, question)) = input.input_requests.as_ref().and_then(|questions| questions.iter().next()) {
        let asked = question.method();
        return Err(Failure::needs_input(format!("the tool asks its client for {asked}"), Phase::Call));
    }
    let mut params = CallToolParams::new(tool);
    params.arguments = Some(arguments);
    params.request_state = input.request_state;
    let mut calling = client.call_tool_with(params);
    while let Some(event) = calling.next_event().await {
        show_event(ui, &event);
    }
    ui.progress_over();
    let result = calling.await.map_err(|error| Failure::client(&error, Phase::Call))?;
    Raw::from_value(&result).map_err(|error| Failure::bad_reply(error.to_string(), Phase::Call))
}

fn show_event(ui: &Ui, event: &CallEvent) {
    match event {
        CallEvent::Progress(progress) => ui.progress(&far(progress)),
        CallEvent::Notification(notification) => show(ui, notification),
        _ => {}
    }
}

/// How far it is, in words.
fn far(progress: &ProgressParams) -> String {
    let mut text = match progress.total {
        Some(total) => format!("{} of {total}", progress.progress),
        None => progress.progress.to_string(),
    };
    if let Some(message) = &progress.message {
        text.push_str(": ");
        text.push_str(message);
    }
    text
}

/// Prints the result; whether the tool has failed is in the exit.
async fn print(ui: &Ui, tool: &str, result: &Raw) -> Result<Exit, Failure> {
    let Some(members) = Object::of(result) else {
        return Err(Failure::bad_reply("the result is no object", Phase::Call));
    };
    let outcome = if ui.json {
        let text = visible::json(result.as_str());
        ui.aside(move |ui| ui.result(&text)).await
    } else {
        let text = contents(&members);
        ui.aside(move |ui| ui.data(&text)).await
    };
    let exit = written(ui, outcome);
    if exit == Exit::Done && members.value("isError").is_some_and(|error| error.as_str() == "true") {
        ui.note(&format!("{} says that it has failed", shown(tool.as_ref())));
        return Ok(Exit::ServerError);
    }
    Ok(exit)
}

/// The contents for a person: text as it is, each piece on lines of its own.
fn contents(result: &Object) -> String {
    let contents = result.items("content").unwrap_or_default();
    if contents.is_empty() {
        return result
            .value("structuredContent")
            .map_or_else(String::new, |value| visible::json(value.as_str()));
    }
    let mut out = String::new();
    for content in contents {
        match Object::of(&content) {
            Some(content) => match (content.text("type").as_deref(), content.text("text")) {
                (Some("text"), Some(text)) => out.push_str(&text),
                _ => out.push_str(&line(&content)),
            },
            None => out.push_str("[content that is no object]"),
        }
        if !out.ends_with('\n') {
            out.push('\n');
        }
    }
    out
}

/// One line that describes a piece of content that is not text.
fn line(content: &Object) -> String {
    let text = |from: &Object, name: &str| from.text(name).map(|text| visible::line(&text).into_owned());
    let kind = text(content, "type").unwrap_or_else(|| "content without a type".into());
    let inner = content.value("resource").and_then(Object::of);
    let facts = inner.as_ref().unwrap_or(content);
    let mut parts = vec![kind];
    parts.extend(text(facts, "uri"));
    parts.extend(text(facts, "name"));
    parts.extend(text(facts, "mimeType"));
    if let Some(data) = facts.text("data").or_else(|| facts.text("blob")) {
        parts.push(format!("{} bytes", decoded_length(&data)));
    } else if let Some(text) = facts.text("text") {
        parts.push(format!("{} characters", text.chars().count()));
    } else if let Some(size) = facts.value("size") {
        parts.push(format!("{} bytes", visible::line(size.as_str())));
    }
    format!("[{}]", parts.join(", "))
}

/// The number of bytes that a text in base64 stands for.
fn decoded_length(data: &str) -> usize {
    let digits =
        data.bytes().filter(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_'));
    digits.count() / 4 * 3
        + match data.trim_end_matches('=').len() % 4 {
            2 => 1,
            3 => 2,
            _ => 0,
        }
}

#[cfg(test)]
mod tests {
    use mcpjoin::proto::Raw;

    use super::{decoded_length, line};
    use crate::object::Object;

    #[test]
    fn what_is_not_text_is_described_in_one_line() {
        for (content, described) in [
            (r#"{"type":"image","data":"aGVsbG8=","mimeType":"image/png"}"#, "[image, image/png, 5 bytes]"),
            (r#"{"type":"audio","data":"","mimeType":"audio/wav"}"#, "[audio, audio/wav, 0 bytes]"),
            (
                r#"{"type":"resource","resource":{"uri":"a://b","mimeType":"text/plain","text":"äb"}}"#,
                "[resource, a://b, text/plain, 2 characters]",
            ),
            (
                r#"{"type":"resource_link","uri":"a://b","name":"b","size":7}"#,
                "[resource_link, a://b, b, 7 bytes]",
            ),
            (r#"{"type":"hologram\u001b","x":1}"#, "[hologram\\u{1b}]"),
            (r#"{"text":7}"#, "[content without a type]"),
        ] {
            let raw = Raw::parse(content.as_bytes().to_vec()).unwrap();
            assert_eq!(line(&Object::of(&raw).unwrap()), described, "{content}");
        }
    }

    #[test]
    fn base64_is_counted_without_being_decoded() {
        for (data, length) in [("", 0), ("YQ==", 1), ("YQ", 1), ("YWI=", 2), ("YWJj", 3), ("YWJjZA==", 4)] {
            assert_eq!(decoded_length(data), length, "{data}");
        }
    }
}
