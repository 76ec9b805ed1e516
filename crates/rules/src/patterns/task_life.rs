//! The life of the experimental tasks of 2025-11-25: creation, polling, result, lists and cancellation.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#behavior-requirements>

use std::collections::{BTreeMap, BTreeSet};

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Kind, Method, Payload, ProgressToken, Raw, code};

use super::tasks::NO_TASK;
use crate::features::Part;
use crate::json::{elements, member, text};
use crate::rule::{Finding, Outcome};
use crate::server_view::{OurRequest, ReceivedResponse, ServerView};
use crate::trace::{Channel, Probe};

const ONE_TASK: &str = "no two calls became tasks: see --read-only-tools";
const NOT_CANCELLED: &str = "no task was cancelled: see --read-only-tools";

/// An id of so few characters is guessed sooner or later.
const SHORTEST: usize = 8;
/// Two ids that share all but this much of their end have been counted.
const COUNTED: usize = 6;
/// An id is compared with so many others.
const COMPARED: usize = 20;

rules! {
    pub(crate) RULES for Server in Chapter::Patterns;

    "task-id-unique", [LAST_LEGACY Must "basic/utilities/tasks#task-id-requirements"],
        "The id of a task is that of no other task.",
        |view| {
            let mut known = BTreeSet::new();
            let findings: Vec<Option<Finding>> = created(view)
                .filter_map(|(id, part)| {
                    let first = known.is_empty();
                    let twice = !known.insert(id);
                    (!first).then(|| twice.then(|| part.finding("another task has the same id")))
                })
                .collect();
            Outcome::of(findings, ONE_TASK)
        };
    "task-id-unguessable", [LAST_LEGACY Must "basic/utilities/tasks#task-isolation-and-access-control"],
        "The id of a task that is bound to nobody cannot be guessed, not from that of another task either.",
        |view| {
            if view.trace.credentials {
                return Outcome::Skipped("the server may know whose tasks they are");
            }
            let mut known: Vec<String> = Vec::new();
            let findings: Vec<Option<Finding>> = created(view)
                .map(|(id, part)| {
                    let problem = match id.len() {
                        length if length < SHORTEST => Some(format!("the id has {length} characters")),
                        _ => known.iter().find_map(|other| counted(&id, other)),
                    };
                    if known.len() < COMPARED {
                        known.push(id);
                    }
                    problem.map(|problem| part.finding(problem))
                })
                .collect();
            Outcome::of(findings, NO_TASK)
        };
    "task-transitions", [LAST_LEGACY Must "basic/utilities/tasks#task-status-lifecycle"],
        "A task that is completed, failed or cancelled stays so.",
        |view| {
            let mut ended: BTreeMap<String, (String, usize)> = BTreeMap::new();
            let mut findings = Vec::new();
            for (request, response, result) in status_results(view, Probe::TaskStatus) {
                let (Some(id), Some(status)) = (task_of(request), text(result.raw(), "status")) else {
                    continue;
                };
                match ended.get(&id) {
                    // What was asked before that came may have been answered with what was true before.
                    Some((before, place)) if *place < request.place => {
                        let problem = || format!("the status is {status:?} after {before:?}");
                        findings.push((status != *before).then(|| request.finding(problem(), response.line)));
                    }
                    None if is_end(&status) => _ = ended.insert(id, (status, response.place)),
                    _ => {}
                }
            }
            Outcome::of(findings, "no task was looked at after its end: see --read-only-tools")
        };
    "task-result-as-of-call", [LAST_LEGACY Must "basic/utilities/tasks#result-retrieval"],
        "tasks/result waits until the task has ended, and gives what the call would have had.",
        |view| {
            let findings = view.probed(Probe::TaskResult).filter_map(|request| {
                let (response, outcome) = request.response()?;
                let status = status_after(view, request, response.place);
                let status = status.as_deref().unwrap_or_default();
                let problem = match outcome {
                    Ok(_) if ["working", "input_required"].contains(&status) => {
                        Some(format!("it came while the task was {status}"))
                    }
                    Ok(result) => {
                        let content = member(result.raw(), "content");
                        let good = content.is_some_and(|content| content.kind() == Kind::Array);
                        (!good).then(|| "it has no content: it is no result of a call".to_owned())
                    }
                    Err(error) => (status == "completed")
                        .then(|| format!("the task is completed, and its result the error {}", error.code)),
                };
                Some(problem.map(|problem| request.finding(problem, response.line)))
            });
            Outcome::of(findings, NO_TASK)
        };
    "task-listed", [LAST_LEGACY Must "basic/utilities/tasks#task-listing"],
        "A task that tasks/get knows is in the list of tasks, whose pages name the next as long as there is one.",
        listed;
    "task-progress-stops", [LAST_LEGACY Must "basic/utilities/progress#behavior-requirements"],
        "No progress is told of a task that has ended.",
        progress;
    "cancelled-task-status", [LAST_LEGACY Must "basic/utilities/tasks#task-cancellation"],
        "A task that was cancelled is so in the answer to tasks/cancel, and stays so.",
        |view| {
            let cancelled: Vec<_> = status_results(view, Probe::CancelTask).collect();
            let later = status_results(view, Probe::CancelledTask);
            let later = later.filter(|(request, ..)| {
                cancelled
                    .iter()
                    .any(|(cancel, ..)| task_of(cancel) == task_of(request) && cancel.place < request.place)
            });
            let findings =
                cancelled.iter().copied().chain(later).filter_map(|(request, response, result)| {
                    let status = text(result.raw(), "status")?;
                    let problem = || format!("the status is {status:?}");
                    Some((status != "cancelled").then(|| request.finding(problem(), response.line)))
                });
            Outcome::of(findings.collect::<Vec<_>>(), NOT_CANCELLED)
        };
    "failed-task-says-why", [LAST_LEGACY Should "basic/utilities/tasks#task-execution-errors"],
        "A task that has failed says why in its statusMessage.",
        |view| {
            let failed = status_results(view, Probe::TaskStatus)
                .filter(|(.., result)| text(result.raw(), "status").as_deref() == Some("failed"));
            let findings = failed.map(|(request, response, result)| {
                let silent = text(result.raw(), "statusMessage").is_none_or(|message| message.is_empty());
                silent.then(|| request.finding("there is no statusMessage", response.line))
            });
            Outcome::of(findings, "no task has failed")
        };
    "undeclared-task-ignored", [LAST_LEGACY Must "basic/utilities/tasks#task-support-and-handling"],
        "Where no tasks are declared for calls, one that is to become a task is made as any other.",
        |view| {
            let findings = view.probed(Probe::UndeclaredTask).filter_map(|request| {
                let (response, outcome) = request.response()?;
                // The same call without it is taken.
                let tool = text(&request.params()?, "name")?;
                let mut plain = view.probed(Probe::Call).filter(|call| {
                    call.params().is_some_and(|params| text(&params, "name").as_ref() == Some(&tool))
                });
                plain.find(|call| matches!(call.response(), Some((_, Ok(_)))))?;
                let codes = [code::INVALID_REQUEST, code::METHOD_NOT_FOUND, code::INVALID_PARAMS];
                let refused = outcome.as_ref().is_err_and(|error| codes.contains(&error.code));
                Some(
                    refused
                        .then(|| request.finding("it was refused, and a plain call is not", response.line)),
                )
            });
            Outcome::of(findings, "tasks are declared, or no tool was called: see --read-only-tools")
        };
}

/// Every task that a call has become, with its id.
fn created<'s, 'a>(view: &'s ServerView<'a>) -> impl Iterator<Item = (String, Part<'s, 'a>)> {
    let calls = view.results().filter(|(request, ..)| request.method == Some(&Method::CallTool));
    calls.filter_map(|(request, response, result)| {
        let value = member(result.raw(), "task")?;
        Some((text(&value, "taskId")?, Part { request, response, value }))
    })
}

/// How far two ids look like two counts.
fn counted(one: &str, other: &str) -> Option<String> {
    let same = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    // That two are the same has a rule of its own.
    let rest = one.len() - same;
    let counted = one.len() == other.len() && (1..=COUNTED).contains(&rest);
    counted.then(|| format!("the id of another task differs in its last {rest} bytes"))
}

fn status_results<'s, 'a>(
    view: &'s ServerView<'a>,
    probe: Probe,
) -> impl Iterator<Item = (&'s OurRequest<'a>, &'s ReceivedResponse<'a>, &'a Payload)> {
    view.results().filter(move |(request, ..)| request.probe == probe)
}

/// The task that a request of ours names.
fn task_of(request: &OurRequest<'_>) -> Option<String> {
    text(&request.params()?, "taskId")
}

fn is_end(status: &str) -> bool {
    ["completed", "failed", "cancelled"].contains(&status)
}

/// How the task of a request was when it was looked at next after that place.
fn status_after(view: &ServerView<'_>, request: &OurRequest<'_>, place: usize) -> Option<String> {
    let mut later = status_results(view, Probe::TaskStatus);
    let (.., result) =
        later.find(|(status, ..)| status.place > place && task_of(status) == task_of(request))?;
    text(result.raw(), "status")
}

fn listed(view: &ServerView<'_>) -> Outcome {
    let nothing = "no task was there while tasks were listed: see --read-only-tools";
    let pages: Vec<_> = status_results(view, Probe::TaskList).collect();
    let (Some((first, ..)), Some((last, response, end))) = (pages.first(), pages.last()) else {
        return Outcome::Skipped(nothing);
    };
    let tasks = pages.iter().filter_map(|(.., page)| elements(&member(page.raw(), "tasks")?)).flatten();
    let ids: BTreeSet<String> = tasks.filter_map(|task| text(&task, "taskId")).collect();
    let known = |before: bool| -> BTreeSet<String> {
        let looks = status_results(view, Probe::TaskStatus);
        let looks =
            looks.filter(
                |(request, ..)| if before { request.place < first.place } else { request.place > last.place },
            );
        looks.filter_map(|(request, ..)| task_of(request)).collect()
    };
    // It was there before, and is there after.
    let (before, after) = (known(true), known(false));
    let whole = member(end.raw(), "nextCursor").is_none();
    let findings = before.intersection(&after).filter_map(|id| match (ids.contains(id), whole) {
        (true, _) => Some(None),
        (false, true) => Some(Some(last.finding(format!("the task {id:?} is on no page"), response.line))),
        // There are more pages than we have looked at.
        (false, false) => None,
    });
    Outcome::of(findings, nothing)
}

fn progress(view: &ServerView<'_>) -> Outcome {
    let token = |raw: Raw| raw.decode::<ProgressToken>().ok();
    // Read once: what a server tells may be much.
    let calls = view.probed(Probe::TaskCall).filter_map(|call| {
        let (_, outcome) = call.response()?;
        let task = member(outcome.as_ref().ok()?.raw(), "task")?;
        let id = text(&task, "taskId")?;
        let results = view.probed(Probe::TaskResult).filter(|request| task_of(request).as_ref() == Some(&id));
        let end = results.filter_map(|request| request.response().map(|(response, _)| response)).next();
        Some((call.meta(key::PROGRESS_TOKEN).and_then(token)?, end))
    });
    let calls: Vec<(ProgressToken, Option<&ReceivedResponse<'_>>)> = calls.collect();
    // On two streams nobody knows which came first.
    let over_http = view.run.channel == Channel::StreamableHttp;
    let notifications =
        view.notifications.iter().filter(|notification| notification.what.method == Method::Progress);
    let findings = notifications.filter_map(|notification| {
        let given = member(notification.what.params.as_ref()?.raw(), "progressToken").and_then(token)?;
        let (_, end) = calls.iter().find(|(token, _)| *token == given)?;
        let late = end.is_some_and(|end| {
            end.place < notification.place && (!over_http || end.exchange == notification.exchange)
        });
        Some(late.then(|| Finding::new("its task has ended", None, Some(notification.line.bytes()))))
    });
    Outcome::of(findings, "no progress of a task was told: see --read-only-tools")
}
