//! Tasks, as 2025-11-25 tries them.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Kind, Method, Raw, code};

use crate::base::{refused, refused_with};
use crate::features::Part;
use crate::grammar::may_be_time;
use crate::json::Json;
use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::{Seen, member, text};
use crate::trace::Probe;

const ERRORS: &[Source] =
    &[Source::new(Revisions::LAST_LEGACY, Must, "basic/utilities/tasks#protocol-errors")];
const NOT_DECLARED: &str = "the server declares no tasks";
pub(super) const NO_TASK: &str = "no call became a task: see --read-only-tools";

pub(super) static RULES: [Rule; 11] = [
    Rule {
        slug: "unknown-task-refused",
        chapter: Chapter::Patterns,
        sentence: "Asking for a task that does not exist brings the error -32602.",
        sources: ERRORS,
        judge: |seen| refused(seen, Probe::NoTask, NOT_DECLARED),
    },
    Rule {
        slug: "bad-task-cursor-refused",
        chapter: Chapter::Patterns,
        sentence: "A cursor of tasks that the server has never given brings the error -32602.",
        sources: ERRORS,
        judge: |seen| refused(seen, Probe::BadTaskCursor, "the server lists no tasks"),
    },
    Rule {
        slug: "task-capability-declared",
        chapter: Chapter::Patterns,
        sentence: "A server that makes a task of a request declares tasks.",
        sources: &[Source::new(Revisions::LAST_LEGACY, Must, "basic/utilities/tasks#capabilities")],
        judge: |seen| {
            let Some(declared) = seen.declared() else { return Outcome::Skipped("nothing was declared") };
            let results = seen.results().filter(|(asked, _, result)| {
                asked.method == Some(&Method::CallTool) && member(result.raw(), "task").is_some()
            });
            let judged = results.map(|(asked, answer, _)| {
                (!declared.contains_key("tasks")).then(|| asked.finding("tasks is not declared", answer.line))
            });
            Outcome::of(judged, "no request became a task")
        },
    },
    Rule {
        slug: "task-created",
        chapter: Chapter::Patterns,
        sentence: "A call that is to become a task is answered with the task, where the server and its tool allow it.",
        sources: &[tasks(Must, "basic/utilities/tasks#result-retrieval")],
        judge: |seen| {
            let judged = seen.results().filter(|(asked, ..)| asked.probe == Probe::TaskCall).map(
                |(asked, answer, result)| {
                    let task = member(result.raw(), "task").is_some_and(|task| task.kind() == Kind::Object);
                    (!task).then(|| asked.finding("there is no task in the result", answer.line))
                },
            );
            Outcome::of(judged, NO_TASK)
        },
    },
    Rule {
        slug: "task-complete",
        chapter: Chapter::Patterns,
        sentence: "A task has a taskId, a status, two times and a ttl, which is an integer or null.",
        sources: &[tasks(Must, "basic/utilities/tasks#ttl-and-resource-management")],
        judge: |seen| {
            let judged = all(seen).into_iter().map(|part| {
                let problem = task_fault(&part.value)?;
                Some(part.finding(problem))
            });
            Outcome::of(judged, NO_TASK)
        },
    },
    Rule {
        slug: "task-begins-working",
        chapter: Chapter::Patterns,
        sentence: "A task begins with the status working.",
        sources: &[tasks(Must, "basic/utilities/tasks#task-status-lifecycle")],
        judge: |seen| {
            let created = all(seen).into_iter().filter(|part| part.asked.method == Some(&Method::CallTool));
            let judged = created.filter_map(|part| {
                let status = text(&part.value, "status")?;
                let problem = || format!("it begins with {status:?}");
                Some((status != "working").then(|| part.finding(problem())))
            });
            Outcome::of(judged, NO_TASK)
        },
    },
    Rule {
        slug: "related-task-named",
        chapter: Chapter::Patterns,
        sentence: "The answer to tasks/result names its task in _meta, under io.modelcontextprotocol/related-task.",
        sources: &[tasks(Must, "basic/utilities/tasks#related-task-metadata")],
        judge: |seen| {
            let judged = seen.results().filter(|(asked, ..)| asked.probe == Probe::TaskResult).map(
                |(asked, answer, result)| {
                    let wanted = asked.params().and_then(|params| text(&params, "taskId"));
                    let named = related(result.raw()).and_then(|related| text(&related, "taskId"));
                    (named.is_none() || named != wanted)
                        .then(|| asked.finding("_meta does not name the task", answer.line))
                },
            );
            Outcome::of(judged, NO_TASK)
        },
    },
    Rule {
        slug: "related-task-not-repeated",
        chapter: Chapter::Patterns,
        sentence: "The answers to tasks/get, tasks/list and tasks/cancel, and notifications of a status, do not name it so.",
        sources: &[tasks(Should, "basic/utilities/tasks#related-task-metadata")],
        judge: |seen| {
            let plain =
                |method: &Method| matches!(method, Method::GetTask | Method::ListTasks | Method::CancelTask);
            let results = seen.results().filter(|(asked, ..)| asked.method.is_some_and(plain));
            let results = results.map(|(asked, answer, result)| {
                related(result.raw()).map(|_| asked.finding("_meta names the task", answer.line))
            });
            let told = seen.notifications.iter().filter(|told| told.what.method == Method::TaskStatus);
            let told = told.map(|told| {
                let named = told.what.params.as_ref().and_then(|params| related(params.raw()));
                named.map(|_| Finding::new("_meta names the task", None, Some(told.line.bytes())))
            });
            Outcome::of(results.chain(told), NO_TASK)
        },
    },
    Rule {
        slug: "terminal-task-not-cancelled",
        chapter: Chapter::Patterns,
        sentence: "Cancelling a task that has ended brings the error -32602.",
        sources: &[tasks(Must, "basic/utilities/tasks#task-cancellation")],
        judge: |seen| refused(seen, Probe::CancelEndedTask, NO_TASK),
    },
    Rule {
        slug: "task-required-refused",
        chapter: Chapter::Patterns,
        sentence: "A tool that is to be called as a task alone answers a plain call with the error -32601.",
        sources: &[tasks(Must, "basic/utilities/tasks#tool-level-negotiation")],
        judge: |seen| {
            let nothing = "no tool that only reads must be called as a task: see --read-only-tools";
            refused_with(seen, Probe::TaskRequired, code::METHOD_NOT_FOUND, nothing)
        },
    },
    Rule {
        slug: "task-forbidden-refused",
        chapter: Chapter::Patterns,
        sentence: "A tool that is no task answers a call that is to become one with the error -32601.",
        sources: &[tasks(Should, "basic/utilities/tasks#tool-level-negotiation")],
        judge: |seen| {
            let nothing =
                "no tool that only reads was called as a task that it is not: see --read-only-tools";
            refused_with(seen, Probe::TaskForbidden, code::METHOD_NOT_FOUND, nothing)
        },
    },
];

const fn tasks(level: crate::rule::Level, page: &'static str) -> Source {
    Source::new(Revisions::LAST_LEGACY, level, page)
}

/// The task that a message names in `_meta`.
fn related(value: &Raw) -> Option<Raw> {
    member(&member(value, "_meta")?, key::RELATED_TASK)
}

/// Every task that an answer is about.
fn all<'s, 'a>(seen: &'s Seen<'a>) -> Vec<Part<'s, 'a>> {
    let results = seen.results().filter_map(|(asked, answer, result)| {
        let value = match asked.method? {
            Method::CallTool => member(result.raw(), "task").filter(|task| task.kind() == Kind::Object)?,
            Method::GetTask => result.raw().clone(),
            _ => return None,
        };
        Some(Part { asked, answer, value })
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
    let ttl = member(task, "ttl").and_then(|ttl| Json::of(&ttl));
    let good = ttl.is_some_and(|ttl| matches!(ttl, Json::Null) || ttl.is_integer());
    (!good).then(|| "ttl is missing, or neither an integer nor null".into())
}
