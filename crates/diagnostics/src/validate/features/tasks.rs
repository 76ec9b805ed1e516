//! A tool that only reads, called as a task: from its beginning to its end, and once more, to be cancelled.
//!
//! Used where the user has allowed it, for 2025-11-25, which has tasks as an experiment.
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>

use mcpjoin_proto::{Method, Raw};
use mcpjoin_rules::Probe;

use super::calls::{call, needs_arguments, only_reads, task_support};
use super::{Found, MAX_PAGES, text};
use crate::engine::Session;
use crate::engine::message::{Question, member};

/// `declared`: what the server declares about tasks.
pub(super) async fn look(session: &mut impl Session, found: &Found, declared: Option<&Raw>) {
    let mut plain = found.tools.iter().filter(|tool| only_reads(tool) && !needs_arguments(tool));
    let as_tasks = declared
        .and_then(|tasks| member(&member(&member(tasks, "requests")?, "tools")?, "call").map(|_| tasks));
    let Some(tasks) = as_tasks else {
        if let Some(question) = plain.next().and_then(|tool| as_task(Probe::UndeclaredTask, tool)) {
            session.question(question).await;
        }
        return;
    };
    let allowed =
        |tool: &&Raw| task_support(tool).is_some_and(|word| word == "optional" || word == "required");
    if let Some(tool) = plain.clone().find(allowed) {
        let call = as_task(Probe::TaskCall, tool);
        let call = call.map(|call| call.meta("progressToken", Raw::string("mcpjoin-task")));
        if let Some(id) = created(session, call).await {
            to_its_end(session, &id, tasks).await;
        }
        if member(tasks, "cancel").is_some()
            && let Some(id) = created(session, as_task(Probe::TaskAgain, tool)).await
        {
            session.question(of_task(Probe::CancelTask, Method::CancelTask, &id)).await;
            session.question(of_task(Probe::CancelledTask, Method::GetTask, &id)).await;
        }
    }
    if let Some(question) =
        plain.find(|tool| !allowed(tool)).and_then(|tool| as_task(Probe::TaskForbidden, tool))
    {
        session.question(question).await;
    }
}

fn as_task<'q>(probe: Probe, tool: &Raw) -> Option<Question<'q>> {
    let name = text(tool, "name")?;
    let lifetime = Raw::parse(r#"{"ttl":60000}"#).ok()?;
    Some(call(probe, &name, Some(tool), &Raw::empty_object()).with("task", lifetime))
}

fn of_task<'q>(probe: Probe, method: Method, id: &str) -> Question<'q> {
    Question::new(probe, method).text("taskId", id)
}

/// The id of the task that a call became.
async fn created(session: &mut impl Session, call: Option<Question<'_>>) -> Option<String> {
    let created = session.question(call?).await?.ok()?;
    text(&member(created.raw(), "task")?, "taskId")
}

async fn to_its_end(session: &mut impl Session, id: &str, declared: &Raw) {
    if member(declared, "list").is_some() {
        session.question(of_task(Probe::TaskStatus, Method::GetTask, id)).await;
        list(session).await;
    }
    session.question(of_task(Probe::TaskResult, Method::GetTaskResult, id)).await;
    let reply = session.question(of_task(Probe::TaskStatus, Method::GetTask, id)).await;
    let status = reply.and_then(Result::ok).and_then(|result| text(result.raw(), "status"));
    // A task that has not ended may be cancelled.
    let ended = status.is_some_and(|status| ["completed", "failed", "cancelled"].contains(&&*status));
    if ended && member(declared, "cancel").is_some() {
        session.question(of_task(Probe::CancelEndedTask, Method::CancelTask, id)).await;
    }
    if ended {
        session.question(of_task(Probe::TaskStatus, Method::GetTask, id)).await;
    }
}

/// Reads the list of tasks to its end.
async fn list(session: &mut impl Session) {
    let mut question = Question::new(Probe::TaskList, Method::ListTasks);
    for _ in 0..MAX_PAGES {
        let Some(Ok(page)) = session.question(question).await else { return };
        let Some(next) = text(page.raw(), "nextCursor") else { return };
        question = Question::new(Probe::TaskList, Method::ListTasks).text("cursor", &next);
    }
}
