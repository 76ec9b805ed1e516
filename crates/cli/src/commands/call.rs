//! `mcpjoin call`: one tool, once; or a task that was begun so before.

use std::cell::RefCell;
use std::ffi::OsString;
use std::time::Duration;

use mcpjoin::client::{Client, ClientError, TaskHandle, TaskOutcome, ToolCall};
use mcpjoin::connection::CallEvent;
use mcpjoin::proto::types::{CallToolParams, TaskSupport, ToolExecution};
use mcpjoin::proto::{Kind, Raw, code};
use tokio::time::timeout;

use super::spill::Spill;
use super::{again, exchange, list, misuse, operands, printed, unicode};
use crate::args::Call;
use crate::arguments::Typed;
use crate::connect::{limits, with_tasks};
use crate::exit::{Exit, Signal};
use crate::failure::{Failure, Phase};
use crate::object::Object;
use crate::progress::Waiting;
use crate::target::shown;
use crate::ui::Ui;
use crate::visible;

pub(super) const VERB: &str = "call";

/// How long calling a task off may take: as long as a server is given to end by itself.
const CALLED_OFF: Duration = Duration::from_secs(2);

/// The task that is waited for, while there is one.
#[derive(Default)]
struct Held(RefCell<Option<TaskHandle>>);

impl Held {
    /// What comes before the result is shown.
    fn show(&self, client: &Client, waiting: &mut Waiting<'_>, ui: &Ui, event: CallEvent) {
        if let CallEvent::Task(task) = &event {
            let over = task.status.is_final();
            *self.0.borrow_mut() = (!over).then(|| client.task(task.task_id.as_str()));
        }
        exchange::show_event(ui, waiting, event);
    }

    /// Has the server called off what is waited for. Whether it does is not waited for long, and what it says is not said
    /// again: the command ends. The task, where nothing was heard of it.
    async fn call_off(&self) -> Option<TaskHandle> {
        let task = self.0.borrow_mut().take()?;
        match timeout(CALLED_OFF, task.cancel()).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) if error.remote().is_some() => None,
            _ => Some(task),
        }
    }
}

/// Calls the tool, or takes up a task. `separated`: `--` stood between the operands and the server's command.
pub(crate) fn run(ui: &Ui, args: Call, argv: &[OsString], separated: bool) -> Result<Exit, Failure> {
    let words = args.words.clone();
    let invocation = operands(ui, VERB, args.connect.server.as_deref(), args.words, separated)?;
    let mut operands = invocation.operands.into_iter();
    let held = Held::default();
    if let Some(id) = args.task {
        if let Some(word) = operands.next() {
            let problem =
                format!("--task takes up what was begun, and {} is one word too many", shown(&word));
            return Err(misuse(VERB, problem));
        }
        // It was left to run, so only who says so ends it.
        let farewell = async |signal| {
            if signal == Signal::Interrupt {
                drop(held.call_off().await);
            }
        };
        return Ok(with_tasks(ui, &invocation.target, &args.connect, None, farewell, async |client| {
            take_up(ui, client, &held, &id, args.spill).await
        }));
    }
    let tool = match args.tool {
        Some(tool) => tool,
        None => unicode(VERB, "the tool's name", operands.next())?,
    };
    let operands: Vec<_> = operands.collect();
    let arguments = Typed::read(args.args.as_deref(), &operands, limits(&args.connect).message)
        .map_err(|problem| misuse(VERB, problem))?;
    let named = tool.clone();
    let line = |id: &str| again::line(argv, &words, separated, &invocation.target, id);
    let farewell = async |_| drop(held.call_off().await);
    Ok(with_tasks(ui, &invocation.target, &args.connect, Some(&named), farewell, async |client| {
        let called = shown(tool.as_ref());
        let prepared = prepare(ui, client, tool, arguments).await?;
        if args.detach {
            detach(ui, client, &called, prepared, args.spill, line).await
        } else {
            call(ui, client, &held, &called, prepared, args.spill, line).await
        }
    }))
}

/// The call, once it is known what the tool takes.
async fn prepare(ui: &Ui, client: &Client, tool: String, arguments: Typed) -> Result<ToolCall, Failure> {
    let listed = if arguments.need_schema() {
        match Waiting::new(ui, "waiting").wait(list::find(client, &list::TOOLS, &tool)).await? {
            Ok(listed) => Some(listed),
            Err(absent) => {
                exchange::say_absent(ui, "tool", &tool, absent);
                None
            }
        }
    } else {
        None
    };
    let schema: Option<serde_json::Value> = listed
        .as_ref()
        .and_then(|listed| listed.value("inputSchema"))
        .and_then(|schema| serde_json::from_str(schema.as_str()).ok());
    for (name, meant) in schema.as_ref().map(|schema| arguments.mistyped(schema)).unwrap_or_default() {
        let (name, meant) = (shown(name.as_ref()), shown(meant.as_ref()));
        ui.note(&format!("the tool has no argument {name}; did you mean {meant}?"));
    }
    let arguments = arguments.object_for(schema.as_ref()).map_err(|problem| {
        Failure::usage(problem, "mcpjoin tool shows what a tool takes, list --json what each does")
    })?;
    exchange::hear_logs(ui, client).await;
    let mut params = CallToolParams::new(tool);
    params.arguments = Some(arguments);
    let call = client.call_tool_with(params);
    // What was read once is not read again.
    Ok(match listed.map(|listed| listed.value("execution").and_then(|said| said.decode().ok())) {
        Some(execution) => {
            let support = execution.and_then(|execution: ToolExecution| execution.task_support);
            call.task_support(support.unwrap_or(TaskSupport::Forbidden))
        }
        None => call,
    })
}

/// Waits for the result, also where the call becomes a task. `line` takes that up again.
async fn call(
    ui: &Ui,
    client: &Client,
    held: &Held,
    called: &str,
    mut call: ToolCall,
    spill: Option<usize>,
    line: impl FnOnce(&str) -> String,
) -> Result<Exit, Failure> {
    let mut waiting = Waiting::new(ui, "waiting");
    loop {
        tokio::select! {
            biased;
            event = call.next_event() => match event {
                Some(event) => held.show(client, &mut waiting, ui, event),
                None => break,
            },
            () = waiting.tick() => {}
        }
    }
    drop(waiting);
    match call.raw().await {
        Ok(result) => print(ui, called, &result, spill).await,
        Err(error) => {
            let failure = Failure::client(&error, Phase::Call);
            // Nobody else knows of it. What the server has ended itself need not be called off.
            if error.remote().is_none()
                && !matches!(error, ClientError::TaskCancelled { .. })
                && let Some(task) = held.call_off().await
                // What was started for the call is gone, and the task with it.
                && client.child().is_none()
            {
                let line = line(task.id());
                return Err(failure.hint(format!("the task may still run: {line} takes it up again")));
            }
            Err(failure)
        }
    }
}

/// Takes up a task: the same, without the call.
async fn take_up(
    ui: &Ui,
    client: &Client,
    held: &Held,
    id: &str,
    spill: Option<usize>,
) -> Result<Exit, Failure> {
    // It is there, as far as is known, before it has answered.
    *held.0.borrow_mut() = Some(client.task(id));
    exchange::hear_logs(ui, client).await;
    let mut result = client.task(id).result();
    let mut waiting = Waiting::new(ui, "waiting");
    loop {
        tokio::select! {
            biased;
            event = result.next_event() => match event {
                Some(event) => held.show(client, &mut waiting, ui, event),
                None => break,
            },
            () = waiting.tick() => {}
        }
    }
    drop(waiting);
    let result = result.raw().await.map_err(|error| {
        let failure = Failure::client(&error, Phase::Call);
        match error.remote() {
            Some(remote) if remote.code == code::METHOD_NOT_FOUND => {
                failure.hint("this server has no tasks: begin it again, without --task")
            }
            _ => failure,
        }
    })?;
    print(ui, &format!("the task {}", shown(id.as_ref())), &result, spill).await
}

/// Begins the call and leaves it: prints the task, or the result where there is none. `line` takes it up again.
async fn detach(
    ui: &Ui,
    client: &Client,
    called: &str,
    call: ToolCall,
    spill: Option<usize>,
    line: impl FnOnce(&str) -> String,
) -> Result<Exit, Failure> {
    let mut call = call.start();
    let mut waiting = Waiting::new(ui, "waiting");
    loop {
        tokio::select! {
            biased;
            event = call.next_event() => match event {
                Some(event) => exchange::show_event(ui, &mut waiting, event),
                None => break,
            },
            () = waiting.tick() => {}
        }
    }
    drop(waiting);
    let task = match call.await.map_err(|error| Failure::client(&error, Phase::Call))? {
        TaskOutcome::Task(task) => task,
        TaskOutcome::Result(result) => {
            ui.remark(&format!("{called} was answered at once: there is no task"));
            return print(ui, called, &result, spill).await;
        }
        _ => return Err(Failure::bad_reply("the call came to neither a task nor a result", Phase::Call)),
    };
    let created = task.created().and_then(|created| Raw::from_value(created).ok());
    let exit = printed(ui, &created.unwrap_or_else(Raw::empty_object), || task.id().to_owned()).await;
    ui.remark(&format!("take it up again with: {}", line(task.id())));
    if client.child().is_some() {
        ui.remark("this server was started for the call: the task ends with it, unless the server keeps it elsewhere");
    } else if client.profile().core_tasks {
        ui.remark("a server of this revision may keep a task for the session alone in which it began, which is over now");
    }
    Ok(exit)
}

/// Prints the result; whether the tool has failed is in the exit. `what`: the tool or the task, as it is shown; `spill`: from
/// which size on a part goes to a file, where that was asked for.
async fn print(ui: &Ui, what: &str, result: &Raw, spill: Option<usize>) -> Result<Exit, Failure> {
    let Some(members) = Object::of(result) else {
        return Err(Failure::bad_reply("the result is no object", Phase::Call));
    };
    if members.value("content").is_some_and(|content| content.kind() != Kind::Array) {
        return Err(Failure::bad_reply("the result has no array content", Phase::Call));
    }
    let mut spill = Spill::new(ui, spill);
    let exit = printed(ui, result, || page(&members, &mut spill)).await;
    if let Some(failure) = spill.broken().filter(|_| exit == Exit::Done) {
        return Err(failure);
    }
    if exit == Exit::Done && members.value("isError").is_some_and(|error| error.as_str() == "true") {
        ui.remark(&format!("{what} says that it has failed"));
        return Ok(Exit::ServerError);
    }
    Ok(exit)
}

/// The contents for a person, or, where there are none, what stands in their place.
fn page(result: &Object, spill: &mut Spill<'_>) -> String {
    let contents = result.items("content").unwrap_or_default();
    if contents.is_empty() {
        let value = result.value("structuredContent");
        return value.map_or_else(String::new, |value| spill.text(visible::json(value.as_str()), "json"));
    }
    spill.page(&contents)
}
