//! `mcpjoin call`: calls one tool, or waits for a task that an earlier call has started.

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use mcpjoin::client::{Client, ClientError, TaskHandle, TaskOutcome, ToolCall};
use mcpjoin::connection::CallEvent;
use mcpjoin::proto::types::{CallToolParams, LoggingLevel, TaskSupport, ToolExecution};
use mcpjoin::proto::{Kind, Raw, code};
use tokio::time::timeout;

use super::next_command::CommandLine;
use super::result_content::Spill;
use super::{lists, misuse, operands, printed, request, unicode};
use crate::args::Call;
use crate::arguments::Typed;
use crate::config::ToolFilter;
use crate::connect::{Plan, limits, with_tasks};
use crate::exit::{Exit, Signal};
use crate::failure::{Failure, Phase};
use crate::object::Object;
use crate::progress::Waiting;
use crate::target::{is_argument, shown};
use crate::ui::Ui;
use crate::visible;

const VERB: &str = "call";

/// How long cancelling a task may take: as long as a server has to exit by itself.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// The most characters of the reason why the list of tools was not read.
const MAX_REASON_CHARS: usize = 300;

/// How the result and the log messages are shown.
struct Shape {
    /// The size from which a content is written to a file.
    spill: Option<usize>,
    /// The folder for contents that are not text.
    folder: Option<PathBuf>,
    /// The level of log messages.
    log_level: Option<LoggingLevel>,
}

/// The task that is waited for, if there is one.
#[derive(Default)]
pub(super) struct CurrentTask(RefCell<Option<TaskHandle>>);

impl CurrentTask {
    /// Shows an event, and remembers the task that it reports.
    fn show(&self, client: &Client, waiting: &mut Waiting<'_>, ui: &Ui, event: CallEvent) {
        if let CallEvent::Task(task) = &event {
            let over = task.status.is_final();
            *self.0.borrow_mut() = (!over).then(|| client.task(task.task_id.as_str()));
        }
        request::show_event(ui, waiting, event);
    }

    /// Cancels the task at the server. Waits for a short time only, and does not report the outcome: the command ends.
    /// Returns the task if the server did not respond.
    pub(super) async fn cancel(&self) -> Option<TaskHandle> {
        let task = self.0.borrow_mut().take()?;
        match timeout(CANCEL_TIMEOUT, task.cancel()).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) if error.remote().is_some() => None,
            _ => Some(task),
        }
    }
}

/// Calls the tool, or waits for a task. `separated`: `--` stood between the operands and the server's command.
pub(crate) fn run(ui: &Ui, args: Call, argv: &[OsString], separated: bool) -> Result<Exit, Failure> {
    let with_logs = args.log_level.map(|_| ui.with_logs());
    let ui = with_logs.as_ref().unwrap_or(ui);
    let words = args.words.clone();
    let invocation = operands(ui, VERB, &args.connect, args.words, separated)?;
    let current = CurrentTask::default();
    let limit = limits(&args.connect).message;
    let connect = args.connect.answering(args.questions);
    let shape = Shape { spill: args.spill, folder: args.folder, log_level: args.log_level };
    if let Some(id) = args.task {
        no_operand(&invocation.operands)?;
        // The task was started to outlive its command: only an interrupt cancels it.
        let on_signal = async |signal| {
            if signal == Signal::Interrupt {
                drop(current.cancel().await);
            }
        };
        return Ok(with_tasks(
            ui,
            &invocation.target,
            &connect,
            |_| Ok(()),
            on_signal,
            async |client| resume(ui, client, &current, &id, &shape).await,
        ));
    }
    let typed = CommandLine { argv, verb: VERB, words: &words, separated, target: &invocation.target };
    let is_missing = |before: String| {
        let problem = format!("the name of a tool is missing{before}");
        Failure::usage(problem, format!("see the tools: {}", typed.of_verb("list", "")))
    };
    let argument = match invocation.operands.first() {
        None if args.tool.is_none() => return Err(is_missing(String::new())),
        first => first.filter(|word| args.tool.is_none() && is_argument(word)).map(|word| shown(word)),
    };
    let (tool, arguments) = read(invocation.operands, args.tool, args.args.as_deref(), limit)?;
    let named = tool.clone();
    let permit = |plan: &Plan| {
        if let Some(argument) = &argument {
            return Err(is_missing(format!(" before {argument}")));
        }
        plan.tools.permit(&named)?;
        if args.detach && plan.endpoint.child().is_some() { Err(ends_with_us(&plan.shown)) } else { Ok(()) }
    };
    let resume_line = |id: &str| typed.resuming(id);
    let on_signal = async |_| drop(current.cancel().await);
    Ok(with_tasks(ui, &invocation.target, &connect, permit, on_signal, async |client| {
        let tool_name = shown(tool.as_ref());
        let tool_line = || typed.of_verb("tool", &tool_name);
        let prepared = prepare(ui, client, tool, arguments, args.force, shape.log_level, tool_line).await?;
        let outcome = if args.detach {
            detach(ui, client, &tool_name, prepared, &shape, false, resume_line).await
        } else {
            call(ui, client, &current, &tool_name, prepared, &shape, resume_line).await
        };
        outcome.map_err(|failure| typed.complete(failure))
    }))
}

/// A server that is started for one call ends with it, and its tasks, too.
fn ends_with_us(server: &str) -> Failure {
    let problem =
        format!("a task of {server} would end with this command, which starts the server only for this call");
    Failure::usage(problem, "leave out --detach, or use mcpjoin shell")
        .or("keep the server running: mcpjoin bridge --listen http://127.0.0.1:8080/mcp COMMAND [ARG]...")
}

/// Calls a tool in a session, or waits for a task. `current`: remembers the task, which the shell cancels after a signal.
pub(super) async fn in_session(
    ui: &Ui,
    client: &Client,
    filter: &ToolFilter,
    args: Call,
    current: &CurrentTask,
) -> Result<Exit, Failure> {
    let limit = limits(&args.connect).message;
    let operands = args.words.of_session(VERB)?;
    let shape = Shape { spill: args.spill, folder: args.folder, log_level: args.log_level };
    if let Some(id) = args.task {
        no_operand(&operands)?;
        return resume(ui, client, current, &id, &shape).await;
    }
    let (tool, arguments) = read(operands, args.tool, args.args.as_deref(), limit)?;
    filter.permit(&tool)?;
    let tool_name = shown(tool.as_ref());
    let tool_line = || format!("tool {tool_name}");
    let prepared = prepare(ui, client, tool, arguments, args.force, shape.log_level, tool_line).await?;
    let resume_line = |id: &str| format!("call --task {}", shown(id.as_ref()));
    if args.detach {
        detach(ui, client, &tool_name, prepared, &shape, true, resume_line).await
    } else {
        call(ui, client, current, &tool_name, prepared, &shape, resume_line).await
    }
}

/// The tool and its arguments. `limit`: the most bytes of a file.
fn read(
    operands: Vec<OsString>,
    tool: Option<String>,
    object: Option<&str>,
    limit: usize,
) -> Result<(String, Typed), Failure> {
    let mut operands = operands.into_iter();
    let tool = match tool {
        Some(tool) => tool,
        None => unicode(VERB, "the tool's name", operands.next())?,
    };
    let operands: Vec<_> = operands.collect();
    let arguments = Typed::read(object, &operands, limit).map_err(|problem| misuse(VERB, problem))?;
    Ok((tool, arguments))
}

fn no_operand(operands: &[OsString]) -> Result<(), Failure> {
    let Some(word) = operands.first() else { return Ok(()) };
    Err(misuse(VERB, format!("--task resumes a task, and {} is an extra word", shown(word))))
}

/// Builds the call. Reads the definition of the tool, with which the arguments are checked, unless `force` and nothing depends on
/// it. `tool_line`: the command line that shows the parameters of the tool.
async fn prepare(
    ui: &Ui,
    client: &Client,
    tool: String,
    arguments: Typed,
    force: bool,
    log_level: Option<LoggingLevel>,
    tool_line: impl FnOnce() -> String,
) -> Result<ToolCall, Failure> {
    let need_schema = arguments.need_schema();
    let listed = if force && !need_schema {
        None
    } else {
        let found = definition(ui, client, &tool).await.map_err(|failure| match failure.id {
            "E_TIMEOUT" if !need_schema => {
                let hint = format!("{}; --force sends the call without the list of tools", failure.hint);
                failure.hint(hint)
            }
            _ => failure,
        })?;
        if let (true, Err(Some(why))) = (need_schema, &found) {
            let (why, json) = (visible::cut_chars(why, MAX_REASON_CHARS), arguments.as_json());
            ui.note(&format!(
                "{why}; the types of the arguments are not known, and values are sent as text; for JSON write {json}"
            ));
        }
        found.ok()
    };
    let schema = listed.as_ref().and_then(|listed| listed.value("inputSchema"));
    let checked = arguments.checked(schema, force).map_err(|problem| {
        Failure::usage(problem, format!("--force sends the call anyway; see the parameters: {}", tool_line()))
    })?;
    checked.notes.iter().for_each(|note| ui.note(note));
    request::enable_logs(ui, client, log_level).await;
    let mut params = CallToolParams::new(tool);
    params.arguments = Some(checked.object);
    let call = client.call_tool_with(params);
    // The library does not need to read the definition again.
    Ok(match listed.map(|listed| listed.value("execution").and_then(|said| said.decode().ok())) {
        Some(execution) => {
            let support = execution.and_then(|execution: ToolExecution| execution.task_support);
            call.task_support(support.unwrap_or(TaskSupport::Forbidden))
        }
        None => call,
    })
}

/// The definition of the tool. `Err` where the server does not list it, or cannot: then the server decides about the call. It says
/// why there is none, unless the call fails in the same way.
async fn definition(ui: &Ui, client: &Client, tool: &str) -> Result<Result<Object, Option<String>>, Failure> {
    let failed = |why: String| format!("tools/list failed: {why}");
    match Waiting::new(ui, "waiting").wait(lists::find(client, &lists::TOOLS, tool)).await {
        Ok(Ok(listed)) => Ok(Ok(listed)),
        Ok(Err(mut absent)) => {
            let unread = absent.unread.take();
            request::note_absent(ui, "tool", tool, absent);
            let why = unread.map_or_else(|| "the server does not list this tool".to_owned(), failed);
            Ok(Err(Some(why)))
        }
        // The call fails in the same way.
        Err(failure) if failure.id == "E_NOT_OFFERED" => Ok(Err(None)),
        // A list above a limit is a failure of ours.
        Err(failure) if failure.exit == Exit::ServerError => Ok(Err(Some(failed(failure.message)))),
        Err(failure) => Err(failure),
    }
}

/// Waits for the result, also if the call becomes a task. `resume_line`: the command line that continues the task.
async fn call(
    ui: &Ui,
    client: &Client,
    current: &CurrentTask,
    tool_name: &str,
    mut call: ToolCall,
    shape: &Shape,
    resume_line: impl FnOnce(&str) -> String,
) -> Result<Exit, Failure> {
    request::show_events(
        ui,
        async || call.next_event().await,
        |waiting, event| current.show(client, waiting, ui, event),
    )
    .await;
    match call.raw().await {
        Ok(result) => print(ui, &named_tool(tool_name), &result, shape).await,
        Err(error) => {
            let failure = Failure::client(&error, Phase::Call);
            // Only this command knows the task. A task that the server has ended is not cancelled.
            if error.remote().is_none()
                && !matches!(error, ClientError::TaskCancelled { .. })
                && let Some(task) = current.cancel().await
                // A server that was started for the call is gone, and its task with it.
                && client.child().is_none()
            {
                let resume_line = resume_line(task.id());
                return Err(failure.hint(format!("the task may still run: {resume_line} resumes it")));
            }
            Err(failure)
        }
    }
}

/// The tool in a message.
fn named_tool(name: &str) -> String {
    format!("tool `{name}`")
}

/// Waits for the result of a task.
async fn resume(
    ui: &Ui,
    client: &Client,
    current: &CurrentTask,
    id: &str,
    shape: &Shape,
) -> Result<Exit, Failure> {
    // The task is assumed to exist before the server has responded: a signal may come earlier.
    *current.0.borrow_mut() = Some(client.task(id));
    request::enable_logs(ui, client, shape.log_level).await;
    let mut result = client.task(id).result();
    request::show_events(
        ui,
        async || result.next_event().await,
        |waiting, event| current.show(client, waiting, ui, event),
    )
    .await;
    let result = result.raw().await.map_err(|error| {
        let failure = Failure::client(&error, Phase::Call);
        match error.remote() {
            Some(remote) if remote.code == code::METHOD_NOT_FOUND => {
                failure.hint("this server has no tasks: call the tool again without --task")
            }
            _ => failure,
        }
    })?;
    print(ui, &format!("task `{}`", visible::line(id)), &result, shape).await
}

/// Starts the call as a task and prints its id, or the result if there is no task. `stays`: the session goes on;
/// `resume_line`: the command line that continues the task.
async fn detach(
    ui: &Ui,
    client: &Client,
    tool_name: &str,
    call: ToolCall,
    shape: &Shape,
    stays: bool,
    resume_line: impl FnOnce(&str) -> String,
) -> Result<Exit, Failure> {
    let mut call = call.start();
    request::show_events(
        ui,
        async || call.next_event().await,
        |waiting, event| request::show_event(ui, waiting, event),
    )
    .await;
    let task = match call.await.map_err(|error| Failure::client(&error, Phase::Call))? {
        TaskOutcome::Task(task) => task,
        TaskOutcome::Result(result) => {
            ui.remark(&format!("{tool_name} returned its result at once: there is no task"));
            return print(ui, &named_tool(tool_name), &result, shape).await;
        }
        _ => {
            return Err(Failure::bad_reply(
                "the response to the call is neither a task nor a result",
                Phase::Call,
            ));
        }
    };
    let created = task.created().and_then(|created| Raw::from_value(created).ok());
    let exit = printed(ui, &created.unwrap_or_else(Raw::empty_object), || task.id().to_owned()).await;
    ui.remark(&format!("resume it with: {}", resume_line(task.id())));
    if !stays && client.profile().core_tasks {
        ui.remark("in this protocol version a server may keep a task only until its session ends, and this session has ended");
    }
    Ok(exit)
}

/// Prints the result. The exit code says whether the tool has failed. `what`: the tool or the task for messages.
async fn print(ui: &Ui, what: &str, result: &Raw, shape: &Shape) -> Result<Exit, Failure> {
    let Some(members) = Object::of(result) else {
        return Err(Failure::bad_reply("the result is not an object", Phase::Call));
    };
    if members.value("content").is_some_and(|content| content.kind() != Kind::Array) {
        return Err(Failure::bad_reply("the result has no array `content`", Phase::Call));
    }
    let mut spill = Spill::new(ui, shape.spill, shape.folder.clone());
    let exit = printed(ui, result, || page(&members, &mut spill)).await;
    if let Some(failure) = spill.broken().filter(|_| exit == Exit::Done) {
        return Err(failure);
    }
    let flag = members.value("isError").map_or("false", Raw::as_str);
    if exit != Exit::Done || matches!(flag, "false" | "null") {
        return Ok(exit);
    }
    ui.remark(&match flag {
        "true" => format!("{what} returned an error"),
        // Silence would hide the failure of a tool whose server writes a word or a number here.
        _ => format!(
            "{what} returned isError {}, taken as true: it must be true or false",
            visible::line(&visible::cut_chars(flag, 40))
        ),
    });
    Ok(Exit::ServerError)
}

/// The contents for a person, or the structured content if there are none.
fn page(result: &Object, spill: &mut Spill<'_>) -> String {
    let contents = result.items("content").unwrap_or_default();
    if contents.is_empty() {
        let value = result.value("structuredContent");
        return value.map_or_else(String::new, |value| spill.text(visible::json(value.as_str()), "json"));
    }
    spill.page(&contents)
}
