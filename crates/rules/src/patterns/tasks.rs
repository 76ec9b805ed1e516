//! The experimental tasks of 2025-11-25: how a server declares them and responds to requests with a task.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Kind, Method, Raw, code};

use crate::base::{refused, refused_with};
use crate::features::Part;
use crate::grammar::may_be_time;
use crate::json::{is_integer, member, text};
use crate::rule::{Finding, Outcome, Source};
use crate::server_view::ServerView;
use crate::trace::Probe;

const ERRORS: &[Source] = sources![LAST_LEGACY Must "basic/utilities/tasks#protocol-errors"];
const NOT_DECLARED: &str = "the server declares no tasks";
pub(super) const NO_TASK: &str = "no call became a task: see --read-only-tools";

rules! {
    pub(crate) RULES for Server in Chapter::Patterns;

    "unknown-task-refused", ERRORS,
        "Asking for a task that does not exist brings the error -32602.",
        |view| refused(view, Probe::NoTask, NOT_DECLARED);
    "bad-task-cursor-refused", ERRORS,
        "A cursor of tasks that the server has never given brings the error -32602.",
        |view| refused(view, Probe::BadTaskCursor, "the server lists no tasks");
    "task-capability-declared", [LAST_LEGACY Must "basic/utilities/tasks#capabilities"],
        "A server that makes a task of a request declares tasks.",
        |view| {
            let Some(declared) = view.declared() else { return Outcome::Skipped("nothing was declared") };
            let results = view.results().filter(|(request, _, result)| {
                request.method == Some(&Method::CallTool) && member(result.raw(), "task").is_some()
            });
            let findings = results.map(|(request, response, _)| {
                (!declared.contains_key("tasks"))
                    .then(|| request.finding("tasks is not declared", response.line))
            });
            Outcome::of(findings, "no request became a task")
        };
    "task-created", [LAST_LEGACY Must "basic/utilities/tasks#result-retrieval"],
        "A call that is to become a task is answered with the task, where the server and its tool allow it.",
        |view| {
            let findings = view.results().filter(|(request, ..)| request.probe == Probe::TaskCall).map(
                |(request, response, result)| {
                    let task = member(result.raw(), "task").is_some_and(|task| task.kind() == Kind::Object);
                    (!task).then(|| request.finding("there is no task in the result", response.line))
                },
            );
            Outcome::of(findings, NO_TASK)
        };
    "task-complete", [LAST_LEGACY Must "basic/utilities/tasks#ttl-and-resource-management"],
        "A task has a taskId, a status, two times and a ttl, which is an integer or null.",
        |view| {
            let findings = all(view).into_iter().map(|part| {
                let problem = task_fault(&part.value)?;
                Some(part.finding(problem))
            });
            Outcome::of(findings, NO_TASK)
        };
    "task-begins-working", [LAST_LEGACY Must "basic/utilities/tasks#task-status-lifecycle"],
        "A task begins with the status working.",
        |view| {
            let created = all(view).into_iter().filter(|part| part.request.method == Some(&Method::CallTool));
            let findings = created.filter_map(|part| {
                let status = text(&part.value, "status")?;
                let problem = || format!("it begins with {status:?}");
                Some((status != "working").then(|| part.finding(problem())))
            });
            Outcome::of(findings, NO_TASK)
        };
    "related-task-named", [LAST_LEGACY Must "basic/utilities/tasks#related-task-metadata"],
        "The answer to tasks/result names its task in _meta, under io.modelcontextprotocol/related-task.",
        |view| {
            let findings = view.results().filter(|(request, ..)| request.probe == Probe::TaskResult).map(
                |(request, response, result)| {
                    let wanted = request.params().and_then(|params| text(&params, "taskId"));
                    let named = related(result.raw()).and_then(|related| text(&related, "taskId"));
                    (named.is_none() || named != wanted)
                        .then(|| request.finding("_meta does not name the task", response.line))
                },
            );
            Outcome::of(findings, NO_TASK)
        };
    "related-task-not-repeated", [LAST_LEGACY Should "basic/utilities/tasks#related-task-metadata"],
        "The answers to tasks/get, tasks/list and tasks/cancel, and notifications of a status, do not name it so.",
        |view| {
            let plain =
                |method: &Method| matches!(method, Method::GetTask | Method::ListTasks | Method::CancelTask);
            let results = view.results().filter(|(request, ..)| request.method.is_some_and(plain));
            let results = results.map(|(request, response, result)| {
                related(result.raw()).map(|_| request.finding("_meta names the task", response.line))
            });
            let notifications = view
                .notifications
                .iter()
                .filter(|notification| notification.what.method == Method::TaskStatus);
            let notifications = notifications.map(|notification| {
                let named = notification.what.params.as_ref().and_then(|params| related(params.raw()));
                named.map(|_| Finding::new("_meta names the task", None, Some(notification.line.bytes())))
            });
            Outcome::of(results.chain(notifications), NO_TASK)
        };
    "terminal-task-not-cancelled", [LAST_LEGACY Must "basic/utilities/tasks#task-cancellation"],
        "Cancelling a task that has ended brings the error -32602.",
        |view| refused(view, Probe::CancelEndedTask, NO_TASK);
    "task-required-refused", [LAST_LEGACY Must "basic/utilities/tasks#tool-level-negotiation"],
        "A tool that is to be called as a task alone answers a plain call with the error -32601.",
        |view| {
            let nothing = "no tool that only reads must be called as a task: see --read-only-tools";
            refused_with(view, Probe::TaskRequired, code::METHOD_NOT_FOUND, nothing)
        };
    "task-forbidden-refused", [LAST_LEGACY Should "basic/utilities/tasks#tool-level-negotiation"],
        "A tool that is no task answers a call that is to become one with the error -32601.",
        |view| {
            let nothing =
                "no tool that only reads was called as a task that it is not: see --read-only-tools";
            refused_with(view, Probe::TaskForbidden, code::METHOD_NOT_FOUND, nothing)
        };
}

/// The task that a message names in `_meta`.
fn related(value: &Raw) -> Option<Raw> {
    member(&member(value, "_meta")?, key::RELATED_TASK)
}

/// Every task that an answer is about.
fn all<'s, 'a>(view: &'s ServerView<'a>) -> Vec<Part<'s, 'a>> {
    let results = view.results().filter_map(|(request, response, result)| {
        let value = match request.method? {
            Method::CallTool => member(result.raw(), "task").filter(|task| task.kind() == Kind::Object)?,
            Method::GetTask => result.raw().clone(),
            _ => return None,
        };
        Some(Part { request, response, value })
    });
    results.collect()
}

fn task_fault(task: &Raw) -> Option<String> {
    if text(task, "taskId").is_none() {
        return Some("taskId is missing or no string".into());
    }
    let known = ["working", "input_required", "completed", "failed", "cancelled"];
    let status = text(task, "status");
    if !status.as_ref().is_some_and(|status| known.contains(&&**status)) {
        return Some("status is missing or another word".into());
    }
    let times = ["createdAt", "lastUpdatedAt"];
    if let Some(name) = times.iter().find(|name| !text(task, name).is_some_and(|time| may_be_time(&time))) {
        return Some(format!("{name} is missing or no time"));
    }
    let good = member(task, "ttl").is_some_and(|ttl| ttl.kind() == Kind::Null || is_integer(&ttl));
    (!good).then(|| "ttl is missing, or neither an integer nor null".into())
}
