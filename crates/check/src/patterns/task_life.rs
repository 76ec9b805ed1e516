//! How tasks go on, as 2025-11-25 tries them: from their creation to their end, in lists, and when they are cancelled.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#behavior-requirements>

use std::collections::{BTreeMap, BTreeSet};

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Kind, Method, Payload, ProgressToken, Raw, code};

use super::tasks::NO_TASK;
use crate::features::Part;
use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Finding, Level, Outcome, Rule, Source};
use crate::seen::{Answer, Asked, Seen, elements, member, text};
use crate::trace::{Channel, Probe};

const ONE_TASK: &str = "no two calls became tasks: see --read-only-tools";
const NOT_CANCELLED: &str = "no task was cancelled: see --read-only-tools";

/// An id of so few characters is guessed sooner or later.
const SHORTEST: usize = 8;
/// Two ids that share all but this much of their end have been counted.
const COUNTED: usize = 6;
/// An id is compared with so many others.
const COMPARED: usize = 20;

const fn tasks(level: Level, page: &'static str) -> [Source; 1] {
    [Source::new(Revisions::LAST_LEGACY, level, page)]
}

pub(super) static RULES: [Rule; 9] = [
    Rule {
        slug: "task-id-unique",
        chapter: Chapter::Patterns,
        sentence: "The id of a task is that of no other task.",
        sources: &tasks(Must, "basic/utilities/tasks#task-id-requirements"),
        judge: |seen| {
            let mut known = BTreeSet::new();
            let judged: Vec<Option<Finding>> = created(seen)
                .filter_map(|(id, part)| {
                    let first = known.is_empty();
                    let twice = !known.insert(id);
                    (!first).then(|| twice.then(|| part.finding("another task has the same id")))
                })
                .collect();
            Outcome::of(judged, ONE_TASK)
        },
    },
    Rule {
        slug: "task-id-unguessable",
        chapter: Chapter::Patterns,
        sentence: "The id of a task that is bound to nobody cannot be guessed, not from that of another task either.",
        sources: &tasks(Must, "basic/utilities/tasks#task-isolation-and-access-control"),
        judge: |seen| {
            if seen.trace.credentials {
                return Outcome::Skipped("the server may know whose tasks they are");
            }
            let mut known: Vec<String> = Vec::new();
            let judged: Vec<Option<Finding>> = created(seen)
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
            Outcome::of(judged, NO_TASK)
        },
    },
    Rule {
        slug: "task-transitions",
        chapter: Chapter::Patterns,
        sentence: "A task that is completed, failed or cancelled stays so.",
        sources: &tasks(Must, "basic/utilities/tasks#task-status-lifecycle"),
        judge: |seen| {
            let mut ended: BTreeMap<String, (String, usize)> = BTreeMap::new();
            let mut judged = Vec::new();
            for (asked, answer, result) in status_results(seen, Probe::TaskStatus) {
                let (Some(id), Some(status)) = (task_of(asked), text(result.raw(), "status")) else {
                    continue;
                };
                match ended.get(&id) {
                    // What was asked before that came may have been answered with what was true before.
                    Some((before, place)) if *place < asked.place => {
                        let problem = || format!("the status is {status:?} after {before:?}");
                        judged.push((status != *before).then(|| asked.finding(problem(), answer.line)));
                    }
                    None if is_end(&status) => _ = ended.insert(id, (status, answer.place)),
                    _ => {}
                }
            }
            Outcome::of(judged, "no task was looked at after its end: see --read-only-tools")
        },
    },
    Rule {
        slug: "task-result-as-of-call",
        chapter: Chapter::Patterns,
        sentence: "tasks/result waits until the task has ended, and gives what the call would have had.",
        sources: &tasks(Must, "basic/utilities/tasks#result-retrieval"),
        judge: |seen| {
            let judged = seen.probed(Probe::TaskResult).filter_map(|asked| {
                let (answer, outcome) = asked.answer()?;
                let status = status_after(seen, asked, answer.place);
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
                Some(problem.map(|problem| asked.finding(problem, answer.line)))
            });
            Outcome::of(judged, NO_TASK)
        },
    },
    Rule {
        slug: "task-listed",
        chapter: Chapter::Patterns,
        sentence: "A task that tasks/get knows is in the list of tasks, whose pages name the next as long as there is one.",
        sources: &tasks(Must, "basic/utilities/tasks#task-listing"),
        judge: listed,
    },
    Rule {
        slug: "task-progress-stops",
        chapter: Chapter::Patterns,
        sentence: "No progress is told of a task that has ended.",
        sources: &tasks(Must, "basic/utilities/progress#behavior-requirements"),
        judge: progress,
    },
    Rule {
        slug: "cancelled-task-status",
        chapter: Chapter::Patterns,
        sentence: "A task that was cancelled is so in the answer to tasks/cancel, and stays so.",
        sources: &tasks(Must, "basic/utilities/tasks#task-cancellation"),
        judge: |seen| {
            let cancelled: Vec<_> = status_results(seen, Probe::CancelTask).collect();
            let later = status_results(seen, Probe::CancelledTask);
            let later = later.filter(|(asked, ..)| {
                cancelled
                    .iter()
                    .any(|(cancel, ..)| task_of(cancel) == task_of(asked) && cancel.place < asked.place)
            });
            let judged = cancelled.iter().copied().chain(later).filter_map(|(asked, answer, result)| {
                let status = text(result.raw(), "status")?;
                let problem = || format!("the status is {status:?}");
                Some((status != "cancelled").then(|| asked.finding(problem(), answer.line)))
            });
            Outcome::of(judged.collect::<Vec<_>>(), NOT_CANCELLED)
        },
    },
    Rule {
        slug: "failed-task-says-why",
        chapter: Chapter::Patterns,
        sentence: "A task that has failed says why in its statusMessage.",
        sources: &tasks(Should, "basic/utilities/tasks#task-execution-errors"),
        judge: |seen| {
            let failed = status_results(seen, Probe::TaskStatus)
                .filter(|(.., result)| text(result.raw(), "status").as_deref() == Some("failed"));
            let judged = failed.map(|(asked, answer, result)| {
                let silent = text(result.raw(), "statusMessage").is_none_or(|message| message.is_empty());
                silent.then(|| asked.finding("there is no statusMessage", answer.line))
            });
            Outcome::of(judged, "no task has failed")
        },
    },
    Rule {
        slug: "undeclared-task-ignored",
        chapter: Chapter::Patterns,
        sentence: "Where no tasks are declared for calls, one that is to become a task is made as any other.",
        sources: &tasks(Must, "basic/utilities/tasks#task-support-and-handling"),
        judge: |seen| {
            let judged = seen.probed(Probe::UndeclaredTask).filter_map(|asked| {
                let (answer, outcome) = asked.answer()?;
                // The same call without it is taken.
                let tool = text(&asked.params()?, "name")?;
                let mut plain = seen.probed(Probe::Call).filter(|call| {
                    call.params().is_some_and(|params| text(&params, "name").as_ref() == Some(&tool))
                });
                plain.find(|call| matches!(call.answer(), Some((_, Ok(_)))))?;
                let codes = [code::INVALID_REQUEST, code::METHOD_NOT_FOUND, code::INVALID_PARAMS];
                let refused = outcome.as_ref().is_err_and(|error| codes.contains(&error.code));
                Some(refused.then(|| asked.finding("it was refused, and a plain call is not", answer.line)))
            });
            Outcome::of(judged, "tasks are declared, or no tool was called: see --read-only-tools")
        },
    },
];

/// Every task that a call has become, with its id.
fn created<'s, 'a>(seen: &'s Seen<'a>) -> impl Iterator<Item = (String, Part<'s, 'a>)> {
    let calls = seen.results().filter(|(asked, ..)| asked.method == Some(&Method::CallTool));
    calls.filter_map(|(asked, answer, result)| {
        let value = member(result.raw(), "task")?;
        Some((text(&value, "taskId")?, Part { asked, answer, value }))
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
    seen: &'s Seen<'a>,
    probe: Probe,
) -> impl Iterator<Item = (&'s Asked<'a>, &'s Answer<'a>, &'a Payload)> {
    seen.results().filter(move |(asked, ..)| asked.probe == probe)
}

/// The task that a request of ours names.
fn task_of(asked: &Asked<'_>) -> Option<String> {
    text(&asked.params()?, "taskId")
}

fn is_end(status: &str) -> bool {
    ["completed", "failed", "cancelled"].contains(&status)
}

/// How the task of a request was when it was looked at next after that place.
fn status_after(seen: &Seen<'_>, asked: &Asked<'_>, place: usize) -> Option<String> {
    let mut later = status_results(seen, Probe::TaskStatus);
    let (.., result) =
        later.find(|(status, ..)| status.place > place && task_of(status) == task_of(asked))?;
    text(result.raw(), "status")
}

fn listed(seen: &Seen<'_>) -> Outcome {
    let nothing = "no task was there while tasks were listed: see --read-only-tools";
    let pages: Vec<_> = status_results(seen, Probe::TaskList).collect();
    let (Some((first, ..)), Some((last, answer, end))) = (pages.first(), pages.last()) else {
        return Outcome::Skipped(nothing);
    };
    let tasks = pages.iter().filter_map(|(.., page)| elements(&member(page.raw(), "tasks")?)).flatten();
    let ids: BTreeSet<String> = tasks.filter_map(|task| text(&task, "taskId")).collect();
    let known = |before: bool| -> BTreeSet<String> {
        let looks = status_results(seen, Probe::TaskStatus);
        let looks = looks
            .filter(|(asked, ..)| if before { asked.place < first.place } else { asked.place > last.place });
        looks.filter_map(|(asked, ..)| task_of(asked)).collect()
    };
    // It was there before, and is there after.
    let (before, after) = (known(true), known(false));
    let whole = member(end.raw(), "nextCursor").is_none();
    let judged = before.intersection(&after).filter_map(|id| match (ids.contains(id), whole) {
        (true, _) => Some(None),
        (false, true) => Some(Some(last.finding(format!("the task {id:?} is on no page"), answer.line))),
        // There are more pages than we have looked at.
        (false, false) => None,
    });
    Outcome::of(judged, nothing)
}

fn progress(seen: &Seen<'_>) -> Outcome {
    let token = |raw: Raw| raw.decode::<ProgressToken>().ok();
    // Read once: what a server tells may be much.
    let calls = seen.probed(Probe::TaskCall).filter_map(|call| {
        let (_, outcome) = call.answer()?;
        let task = member(outcome.as_ref().ok()?.raw(), "task")?;
        let id = text(&task, "taskId")?;
        let results = seen.probed(Probe::TaskResult).filter(|asked| task_of(asked).as_ref() == Some(&id));
        let end = results.filter_map(|asked| asked.answer().map(|(answer, _)| answer)).next();
        Some((call.meta(key::PROGRESS_TOKEN).and_then(token)?, end))
    });
    let calls: Vec<(ProgressToken, Option<&Answer<'_>>)> = calls.collect();
    // On two streams nobody knows which came first.
    let over_http = seen.run.channel == Channel::StreamableHttp;
    let told = seen.notifications.iter().filter(|told| told.what.method == Method::Progress);
    let judged = told.filter_map(|told| {
        let given = member(told.what.params.as_ref()?.raw(), "progressToken").and_then(token)?;
        let (_, end) = calls.iter().find(|(token, _)| *token == given)?;
        let late =
            end.is_some_and(|end| end.place < told.place && (!over_http || end.exchange == told.exchange));
        Some(late.then(|| Finding::new("its task has ended", None, Some(told.line.bytes()))))
    });
    Outcome::of(judged, "no progress of a task was told: see --read-only-tools")
}
