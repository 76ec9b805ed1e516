//! The experimental tasks of 2025-11-25: how a server declares and creates them, and how they go on and end.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>

use std::collections::{BTreeMap, BTreeSet};

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Kind, Method, ProgressToken, Raw, code};

use super::in_flight::is_after;
use crate::base::{refused, refused_with};
use crate::features::Part;
use crate::grammar::may_be_time;
use crate::http::streams::counter_bytes;
use crate::json::{has_kind, is_integer, list, member, param, text};
use crate::rule::{Evidence, Finding, Outcome, Source};
use crate::server_view::{OurRequest, Reply, ServerView};
use crate::trace::Probe;

const ERRORS: &[Source] = sources![LAST_LEGACY Must "basic/utilities/tasks#protocol-errors"];
const STATUS: &[Source] = sources![LAST_LEGACY Must "basic/utilities/tasks#task-status-lifecycle"];
const RESULT: &[Source] = sources![LAST_LEGACY Must "basic/utilities/tasks#result-retrieval"];
const CANCELLATION: &[Source] = sources![LAST_LEGACY Must "basic/utilities/tasks#task-cancellation"];
const RELATED: &str = "basic/utilities/tasks#related-task-metadata";
const NEGOTIATION: &str = "basic/utilities/tasks#tool-level-negotiation";
const NOT_DECLARED: &str = "the server declares no tasks";
const NO_TASK: &str = "no call became a task (see --read-only-tools)";
const NOT_LISTED: &str = "no task existed while tasks were listed (see --read-only-tools)";

/// Shorter ids of tasks can be guessed.
const MIN_TASK_ID_LENGTH: usize = 8;
/// How many ids each id is compared with.
const MAX_COMPARED_IDS: usize = 20;

rules! {
    pub(crate) RULES for Server in Chapter::Patterns;

    "unknown-task-refused", ERRORS,
        "A request for an unknown task returns the error -32602.",
        |view| refused(view, Probe::NoTask, NOT_DECLARED);
    "bad-task-cursor-refused", ERRORS,
        "An invalid cursor for tasks/list returns the error -32602.",
        |view| refused(view, Probe::BadTaskCursor, "the server lists no tasks");
    "task-capability-declared", [LAST_LEGACY Must "basic/utilities/tasks#capabilities"],
        "A server that creates tasks declares the capability tasks.",
        else "no request became a task",
        |view| {
            let Some(declared) = view.declared() else { return Outcome::Skipped("nothing was declared") };
            let tasks = view.results_by(&Method::CallTool).filter(|(_, result)| member(result, "task").is_some());
            tasks.map(move |(reply, _)| {
                reply.finding_if(!declared.contains_key("tasks"), "tasks is not declared")
            })
        };
    "task-created", RESULT,
        "A task-augmented call returns a task, if the server and its tool allow it.",
        else NO_TASK,
        |view| view.results_of(Probe::TaskCall).map(|(reply, result)| {
            reply.finding_if(!has_kind(result, "task", Kind::Object), "the result has no task")
        });
    "task-complete", [LAST_LEGACY Must "basic/utilities/tasks#ttl-and-resource-management"],
        "A task has a taskId, a status, two times and a ttl, which is an integer or null.",
        else NO_TASK,
        |view| all(view).map(|part| task_fault(&part.value).map(|problem| part.finding(problem)));
    "task-begins-working", STATUS,
        "The first status of a task is working.",
        else NO_TASK,
        |view| all(view).filter(|part| part.is_of(&Method::CallTool)).filter_map(|part| {
            let status = text(&part.value, "status")?;
            Some(part.finding_if(status != "working", format_args!("its first status is {status:?}")))
        });
    "related-task-named", [LAST_LEGACY Must RELATED],
        "The response to tasks/result names its task in _meta, under io.modelcontextprotocol/related-task.",
        else NO_TASK,
        |view| view.results_of(Probe::TaskResult).map(|(reply, result)| {
            let named = related(result).and_then(|related| text(&related, "taskId"));
            let is_good = named.is_some() && named == task_of(reply.request);
            reply.finding_if(!is_good, "_meta does not name the task")
        });
    "related-task-not-repeated", [LAST_LEGACY Should RELATED],
        "Responses to tasks/get, tasks/list and tasks/cancel, and status notifications, do not name the \
         task in _meta.",
        else NO_TASK,
        |view| {
            let plain = [Method::GetTask, Method::ListTasks, Method::CancelTask];
            let is_plain = move |reply: &Reply<'_, '_>| reply.request.method.is_some_and(|it| plain.contains(it));
            let results = view.results().filter(move |(reply, _)| is_plain(reply));
            let results = results
                .map(|(reply, result)| reply.finding_if(related(result).is_some(), "_meta names the task"));
            let notifications = view.notified(&Method::TaskStatus).map(|notification| {
                let named = notification.what.params.as_ref().and_then(|params| related(params.raw()));
                notification.finding_if(named.is_some(), "_meta names the task")
            });
            results.chain(notifications)
        };
    "terminal-task-not-cancelled", CANCELLATION,
        "Cancelling a task that has ended returns the error -32602.",
        |view| refused(view, Probe::CancelEndedTask, NO_TASK);
    "task-required-refused", [LAST_LEGACY Must NEGOTIATION],
        "A tool that requires tasks rejects a plain call with the error -32601.",
        |view| {
            let nothing = "no read-only tool requires tasks (see --read-only-tools)";
            refused_with(view, Probe::TaskRequired, code::METHOD_NOT_FOUND, nothing)
        };
    "task-forbidden-refused", [LAST_LEGACY Should NEGOTIATION],
        "A tool that forbids tasks rejects a task-augmented call with the error -32601.",
        |view| {
            let nothing = "no read-only tool that forbids tasks was called as a task (see --read-only-tools)";
            refused_with(view, Probe::TaskForbidden, code::METHOD_NOT_FOUND, nothing)
        };
    "task-id-unique", [LAST_LEGACY Must "basic/utilities/tasks#task-id-requirements"],
        "The id of a task is unique.",
        else "no two calls became tasks (see --read-only-tools)",
        |view| {
            let mut known = BTreeSet::new();
            let all = created(view).map(move |(id, part)| {
                part.finding_if(!known.insert(id), "another task has the same id")
            });
            all.skip(1)
        };
    "task-id-unguessable", [LAST_LEGACY Must "basic/utilities/tasks#task-isolation-and-access-control"],
        "The id of a task that is not bound to a user cannot be guessed, also not from other ids.",
        else NO_TASK,
        |view| {
            if view.trace.credentials {
                return Outcome::Skipped("the server may bind tasks to users");
            }
            let mut known: Vec<String> = Vec::new();
            created(view).map(move |(id, part)| {
                let length = id.len();
                // That two ids are the same has a rule of its own.
                let mut rests = known.iter().filter_map(|other| counter_bytes(id.as_bytes(), other.as_bytes()));
                let rest = rests.find(|rest| *rest > 0);
                if known.len() < MAX_COMPARED_IDS {
                    known.push(id);
                }
                if length < MIN_TASK_ID_LENGTH {
                    return Some(part.finding(format_args!("the id has {length} characters")));
                }
                rest.map(|rest| {
                    part.finding(format_args!("the id of another task differs only in its last {rest} bytes"))
                })
            })
        };
    "task-transitions", STATUS,
        "A task that is completed, failed or cancelled keeps this status.",
        else "no task was polled after its end (see --read-only-tools)",
        |view| {
            let mut ended: BTreeMap<String, (String, usize)> = BTreeMap::new();
            view.results_of(Probe::TaskStatus).filter_map(move |(reply, result)| {
                let (id, status) = (task_of(reply.request)?, text(result, "status")?);
                let is_end = ["completed", "failed", "cancelled"].contains(&&*status);
                match ended.get(&id) {
                    // A request that was sent before the end was known may have the earlier status.
                    Some((before, place)) if *place < reply.request.place => Some(reply.finding_if(
                        status != *before,
                        format_args!("the status is {status:?} after {before:?}"),
                    )),
                    None if is_end => {
                        ended.insert(id, (status, reply.response.place));
                        None
                    }
                    _ => None,
                }
            })
        };
    "task-result-as-of-call", RESULT,
        "tasks/result waits until the task has ended, and returns what the call would have returned.",
        else NO_TASK,
        |view| view.answers(Probe::TaskResult).map(|(reply, outcome)| {
            let status = status_after(view, reply).unwrap_or_default();
            match outcome {
                Ok(_) if ["working", "input_required"].contains(&&*status) => {
                    Some(reply.finding(format_args!("the result came while the task was {status}")))
                }
                Ok(result) => {
                    let is_good = has_kind(result.raw(), "content", Kind::Array);
                    reply.finding_if(!is_good, "it has no content, so it is not the result of a call")
                }
                Err(error) => reply.finding_if(
                    status == "completed",
                    format_args!("the task is completed, but its result is the error {}", error.code),
                ),
            }
        });
    "task-listed", [LAST_LEGACY Must "basic/utilities/tasks#task-listing"],
        "A task that tasks/get knows is in tasks/list, and every page but the last has a nextCursor.",
        listed;
    "task-progress-stops", [LAST_LEGACY Must "basic/utilities/progress#behavior-requirements"],
        "No progress is sent for a task that has ended.",
        progress;
    "cancelled-task-status", CANCELLATION,
        "A cancelled task has the status cancelled in the response to tasks/cancel, and keeps it.",
        else "no task was cancelled (see --read-only-tools)",
        |view| {
            let is_cancelled = |request: &OurRequest<'_>| view.results_of(Probe::CancelTask).any(|(cancel, _)| {
                task_of(cancel.request) == task_of(request) && cancel.request.place < request.place
            });
            let later = view.results_of(Probe::CancelledTask);
            let later = later.filter(move |(reply, _)| is_cancelled(reply.request));
            view.results_of(Probe::CancelTask).chain(later).filter_map(|(reply, result)| {
                let status = text(result, "status")?;
                Some(reply.finding_if(status != "cancelled", format_args!("the status is {status:?}")))
            })
        };
    "failed-task-says-why", [LAST_LEGACY Should "basic/utilities/tasks#task-execution-errors"],
        "A failed task has a statusMessage with the reason.",
        else "no task has failed",
        |view| {
            let failed = view
                .results_of(Probe::TaskStatus)
                .filter(|(_, result)| text(result, "status").as_deref() == Some("failed"));
            failed.map(|(reply, result)| {
                let is_silent = text(result, "statusMessage").is_none_or(|message| message.is_empty());
                reply.finding_if(is_silent, "statusMessage is missing")
            })
        };
    "undeclared-task-ignored", [LAST_LEGACY Must "basic/utilities/tasks#task-support-and-handling"],
        "A server that declares no tasks for calls ignores `task`, and handles the call normally.",
        else "tasks are declared, or no tool was called (see --read-only-tools)",
        |view| view.answers(Probe::UndeclaredTask).filter_map(|(reply, outcome)| {
            // The same call without a task is accepted.
            let tool = |request: &OurRequest<'_>| text(&request.params()?, "name");
            let wanted = tool(reply.request)?;
            let mut plain = view.answers(Probe::Call).filter(|(_, outcome)| outcome.is_ok());
            plain.find(|(call, _)| tool(call.request).as_ref() == Some(&wanted))?;
            let codes = [code::INVALID_REQUEST, code::METHOD_NOT_FOUND, code::INVALID_PARAMS];
            let is_refused = outcome.as_ref().is_err_and(|error| codes.contains(&error.code));
            Some(reply.finding_if(is_refused, "it was rejected, but the same call without `task` was not"))
        });
}

/// The task that a message names in `_meta`.
pub(crate) fn related(value: &Raw) -> Option<Raw> {
    member(&member(value, "_meta")?, key::RELATED_TASK)
}

/// The task that a request of ours names.
fn task_of(request: &OurRequest<'_>) -> Option<String> {
    text(&request.params()?, "taskId")
}

/// Every task in a result.
fn all<'s, 'a>(view: &'s ServerView<'a>) -> impl Iterator<Item = Part<'s, 'a>> {
    view.results().filter_map(|(reply, result)| {
        let value = match reply.request.method? {
            Method::CallTool => member(result, "task").filter(|task| task.kind() == Kind::Object)?,
            Method::GetTask => result.clone(),
            _ => return None,
        };
        Some(Part { reply, value })
    })
}

/// Every task that a call created, with its id.
fn created<'s, 'a>(view: &'s ServerView<'a>) -> impl Iterator<Item = (String, Part<'s, 'a>)> {
    view.results_by(&Method::CallTool).filter_map(|(reply, result)| {
        let value = member(result, "task")?;
        Some((text(&value, "taskId")?, Part { reply, value }))
    })
}

fn task_fault(task: &Raw) -> Option<String> {
    if text(task, "taskId").is_none() {
        return Some("taskId is missing or not a string".into());
    }
    let known = ["working", "input_required", "completed", "failed", "cancelled"];
    if !text(task, "status").is_some_and(|status| known.contains(&&*status)) {
        return Some("status is missing or has another value".into());
    }
    let mut times = ["createdAt", "lastUpdatedAt"].into_iter();
    if let Some(name) = times.find(|name| !text(task, name).is_some_and(|time| may_be_time(&time))) {
        return Some(format!("{name} is missing or not a time"));
    }
    let is_good = member(task, "ttl").is_some_and(|ttl| ttl.kind() == Kind::Null || is_integer(&ttl));
    (!is_good).then(|| "ttl is missing, or neither an integer nor null".into())
}

/// The next status of the task of a request, after its response.
fn status_after(view: &ServerView<'_>, reply: Reply<'_, '_>) -> Option<String> {
    let mut later = view.results_of(Probe::TaskStatus).filter(|(status, _)| {
        status.request.place > reply.response.place && task_of(status.request) == task_of(reply.request)
    });
    text(later.next()?.1, "status")
}

fn listed(view: &ServerView<'_>) -> Outcome {
    let pages: Vec<_> = view.results_of(Probe::TaskList).collect();
    let (Some((first, _)), Some((last, end))) = (pages.first(), pages.last()) else {
        return Outcome::Skipped(NOT_LISTED);
    };
    let tasks = pages.iter().filter_map(|(_, page)| list(page, "tasks")).flatten();
    let ids: BTreeSet<String> = tasks.filter_map(|task| text(&task, "taskId")).collect();
    let known = |is_in_time: &dyn Fn(usize) -> bool| -> BTreeSet<String> {
        let statuses = view.results_of(Probe::TaskStatus);
        let statuses = statuses.filter(|(status, _)| is_in_time(status.request.place));
        statuses.filter_map(|(status, _)| task_of(status.request)).collect()
    };
    // A task that exists before and after the list must be in it.
    let before = known(&|place| place < first.request.place);
    let after = known(&|place| place > last.request.place);
    let is_whole = member(end, "nextCursor").is_none();
    let findings = before.intersection(&after).filter_map(|id| {
        // Pages that we did not request may have it.
        let is_listed = ids.contains(id);
        (is_listed || is_whole)
            .then(|| last.finding_if(!is_listed, format_args!("no page lists the task {id:?}")))
    });
    Outcome::of(findings, NOT_LISTED)
}

fn progress(view: &ServerView<'_>) -> Outcome {
    let token = |raw: Raw| raw.decode::<ProgressToken>().ok();
    // Read once, because a server may send many notifications.
    let calls = view.answers(Probe::TaskCall).filter_map(|(call, outcome)| {
        let id = text(&member(outcome.as_ref().ok()?.raw(), "task")?, "taskId")?;
        let mut results = view.answers(Probe::TaskResult).map(|(reply, _)| reply);
        let end = results.find(|reply| task_of(reply.request).as_ref() == Some(&id));
        Some((call.request.meta(key::PROGRESS_TOKEN).and_then(token)?, end))
    });
    let calls: Vec<(ProgressToken, Option<Reply<'_, '_>>)> = calls.collect();
    let findings = view.notified(&Method::Progress).filter_map(|notification| -> Option<Option<Finding>> {
        let given = param(&notification.what.params, "progressToken").and_then(token)?;
        let (_, end) = calls.iter().find(|(token, _)| *token == given)?;
        let end = end.map(|end| end.response);
        let is_late = end.is_some_and(|end| is_after(view, notification, end.place, end.exchange));
        Some(notification.finding_if(is_late, "its task has ended"))
    });
    Outcome::of(findings, "no task sent progress (see --read-only-tools)")
}
