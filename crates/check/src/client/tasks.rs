//! Tasks, as 2025-11-25 tries them: a client that asks for them and follows them, and one that is asked by them.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>

use std::collections::BTreeMap;
use std::time::Duration;

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Kind, Method, Payload, Raw, RequestId};

use super::talk::{Asked, Said, Talk};
use super::utilities::{CROSSING, cancelled};
use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Outcome, Rule, Source};
use crate::seen::{elements, has_path, member, text};
use crate::trace::Probe;

/// How often a client asks that is not asking just once more.
const SEVERAL: usize = 3;
/// A shorter interval is kept, or not, by the load of a machine.
const SHORTEST: Duration = Duration::from_millis(200);

pub(super) static RULES: [Rule; 10] = [
    Rule {
        slug: "client-task-capability-declared",
        chapter: Chapter::Patterns,
        sentence: "A client that makes a task of a request declares tasks.",
        sources: &[tasks(Must, "basic/utilities/tasks#capabilities")],
        judge: |seen| {
            let talk = seen.talk();
            let declared = talk.capabilities(None).is_some_and(|declared| has_path(&declared, "tasks"));
            let answers = talk.ours.iter().filter(|ours| wants_task(ours.what.params.as_ref()));
            let answers = answers.filter_map(|ours| {
                let said = ours.answer?;
                let task = said.outcome.as_ref().ok().and_then(|result| created(result.raw()));
                let wrong = task.is_some() && !declared;
                Some(wrong.then(|| ours.finding("it became a task, and tasks were not declared", said.line)))
            });
            let told = talk.told.iter().filter(|told| told.what.method == Method::TaskStatus);
            let told = told.map(|told| {
                (!declared)
                    .then(|| talk.finding("it tells of a task, and tasks were not declared", told.line))
            });
            Outcome::of(answers.chain(told), "the client was asked for no task, or did not answer")
        },
    },
    Rule {
        slug: "client-undeclared-task-ignored",
        chapter: Chapter::Patterns,
        sentence: "A request that is to become a task is answered as any other by a client that has not declared that.",
        sources: &[tasks(Must, "basic/utilities/tasks#general")],
        judge: |seen| {
            let talk = seen.talk();
            let plain = talk.ours.iter().any(|ours| {
                ours.what.method == Method::ListRoots
                    && ours.probe != Probe::UndeclaredTask
                    && ours.answer.is_some_and(|said| said.outcome.is_ok())
            });
            if !plain {
                return Outcome::Skipped("the client has no roots, or was not asked for them");
            }
            let asked = talk.ours.iter().filter(|ours| ours.probe == Probe::UndeclaredTask);
            let judged = asked.filter_map(|ours| {
                let said = ours.answer?;
                let code = said.outcome.as_ref().err().map(|error| error.code);
                Some(code.map(|code| {
                    ours.finding(format!("the error {code}, where a plain request was answered"), said.line)
                }))
            });
            Outcome::of(judged, "the client was asked for no task, or did not answer")
        },
    },
    Rule {
        slug: "client-task-declared-alone",
        chapter: Chapter::Patterns,
        sentence: "A client asks for a task with those requests alone for which the server has declared tasks.",
        sources: &[tasks(Should, "basic/utilities/tasks#capability-negotiation")],
        judge: |seen| {
            let talk = seen.talk();
            let judged = talk.asked.iter().filter(|asked| wants_task(asked.what.params.as_ref()));
            let judged = judged.filter_map(|asked| {
                // Calls where no tasks were declared have a rule of their own.
                let is_call = asked.what.method == Method::CallTool;
                if is_call && !declares_calls(talk) {
                    return None;
                }
                let problem = || format!("no server makes a task of {}", asked.what.method);
                Some((!is_call).then(|| asked.finding(problem())))
            });
            Outcome::of(judged, "the client asked for no task")
        },
    },
    Rule {
        slug: "client-task-as-tool-says",
        chapter: Chapter::Patterns,
        sentence: "A client calls a tool as a task where the server has declared that and the tool allows it, and always \
                   where the tool requires it.",
        sources: &[tasks(Must, "basic/utilities/tasks#tool-level-negotiation")],
        judge: |seen| {
            let talk = seen.talk();
            let declared = declares_calls(talk);
            let listed = listed(talk);
            let judged = talk.calls(&Method::CallTool).filter_map(|asked| {
                let params = asked.what.params.as_ref()?;
                let wanted = wants_task(Some(params));
                if wanted && !declared {
                    return Some(Some(asked.finding("the server makes no tasks of calls")));
                }
                let name = text(params.raw(), "name")?;
                let before = listed.get(&name)?.iter().rev().find(|(place, _)| *place < asked.place)?;
                let support = before.1.as_deref().unwrap_or("forbidden");
                Some(match (wanted, support) {
                    (true, "forbidden") => Some(asked.finding(format!("the tool {name} is never a task"))),
                    (false, "required") if declared => {
                        Some(asked.finding(format!("the tool {name} is a task or nothing")))
                    }
                    _ => None,
                })
            });
            Outcome::of(judged, "the client called no tool that it had listed")
        },
    },
    Rule {
        slug: "client-respects-poll-interval",
        chapter: Chapter::Patterns,
        sentence: "A client asks how a task is no more often than pollInterval says.",
        sources: &[tasks(Should, "basic/utilities/tasks#getting-tasks")],
        judge: |seen| {
            let talk = seen.talk();
            let judged = followed(talk).into_iter().filter_map(|task| {
                let mut interval = interval(&task.created);
                let mut early = Vec::new();
                let mut any = false;
                for pair in task.polls.windows(2) {
                    let [before, next] = pair else { continue };
                    let said = before.answer.and_then(status_of);
                    interval = said.and_then(|task| self::interval(&task)).or(interval);
                    let Some(wanted) = interval.filter(|wanted| *wanted >= SHORTEST) else { continue };
                    any = true;
                    // What has been on its way for long has been sent before.
                    let waited = next.at.saturating_sub(before.at);
                    if waited < wanted / 2 {
                        early.push((next, waited, wanted));
                    }
                }
                let first = early.first().filter(|_| early.len() >= SEVERAL);
                any.then(|| {
                    first.map(|(asked, waited, wanted)| {
                        asked.finding(format!(
                            "it comes after {} ms, and pollInterval is {} ms",
                            waited.as_millis(),
                            wanted.as_millis()
                        ))
                    })
                })
            });
            Outcome::of(judged, "no task was asked after twice that has a pollInterval")
        },
    },
    Rule {
        slug: "client-polls-to-the-end",
        chapter: Chapter::Patterns,
        sentence: "A client that asks how a task is goes on until it has ended or needs input, if it does not wait for \
                   the result.",
        sources: &[tasks(Should, "basic/utilities/tasks#getting-tasks")],
        judge: |seen| {
            let talk = seen.talk();
            let judged = followed(talk).into_iter().filter_map(|task| {
                let last = task.polls.last()?;
                let now = status_of(last.answer?)?;
                let status = text(&now, "status")?;
                if status != "working" {
                    return Some(None);
                }
                // Whoever waits for the result, or wants none, need not ask.
                if task.ended {
                    return None;
                }
                let wanted = interval(&now).unwrap_or_default().saturating_mul(10);
                let quiet = talk.here.saturating_sub(last.at);
                (quiet >= wanted.max(seen.trace.answer_within)).then(|| {
                    let problem =
                        format!("nobody has asked for {} s since, and it was working", quiet.as_secs());
                    Some(last.finding(problem))
                })
            });
            Outcome::of(judged, "the client asked after no task, or went on to its result")
        },
    },
    Rule {
        slug: "client-fetches-when-input-required",
        chapter: Chapter::Patterns,
        sentence: "A client that learns that a task needs input asks for its result, with which the questions come.",
        sources: &[tasks(Should, "basic/utilities/tasks#input-required-status")],
        judge: |seen| {
            let talk = seen.talk();
            let judged = followed(talk).into_iter().filter_map(|task| {
                let needy = |poll: &&&Asked<'_>| {
                    let now = poll.answer.and_then(status_of);
                    now.is_some_and(|now| text(&now, "status").as_deref() == Some("input_required"))
                };
                let first = task.polls.iter().find(needy)?;
                let said = first.answer?;
                let waits = |asked: &&Asked<'_>| asked.answer.is_none_or(|answer| answer.place > said.place);
                if task.waits.iter().any(waits) {
                    return Some(None);
                }
                let again = task.polls.iter().filter(|poll| poll.place > said.place).filter(needy).count();
                let problem = || first.finding("the task needed input, and nobody asked for its result");
                (again >= SEVERAL).then(|| Some(problem()))
            });
            Outcome::of(judged, "no task needed input, or the client did not ask")
        },
    },
    Rule {
        slug: "client-related-task-named",
        chapter: Chapter::Patterns,
        sentence: "A client's result names the task that the request to it belonged to.",
        sources: &[tasks(Must, "basic/utilities/tasks#associating-task-related-messages")],
        judge: |seen| {
            let talk = seen.talk();
            let judged = talk.ours.iter().filter_map(|ours| {
                let wanted = text(&related(ours.what.params.as_ref()?.raw())?, "taskId")?;
                let said = ours.answer?;
                let result = said.outcome.as_ref().ok()?;
                let given = related(result.raw()).and_then(|task| text(&task, "taskId"));
                let problem = || match &given {
                    None => "_meta names no task".to_owned(),
                    Some(_) => "_meta names another task".to_owned(),
                };
                Some((given.as_ref() != Some(&wanted)).then(|| ours.finding(problem(), said.line)))
            });
            Outcome::of(judged, "no task has asked the client for anything")
        },
    },
    Rule {
        slug: "client-no-related-task",
        chapter: Chapter::Patterns,
        sentence: "A client's tasks/get, tasks/result, tasks/list and tasks/cancel do not name their task in _meta again.",
        sources: &[tasks(Should, "basic/utilities/tasks#related-task-metadata")],
        judge: |seen| {
            let judged = seen.talk().asked.iter().filter(|asked| {
                matches!(
                    asked.what.method,
                    Method::GetTask | Method::GetTaskResult | Method::ListTasks | Method::CancelTask
                )
            });
            let judged = judged.map(|asked| {
                let again = asked.what.params.as_ref().and_then(|params| related(params.raw()));
                again.map(|_| asked.finding("_meta names the task"))
            });
            Outcome::of(judged, "the client asked after no task")
        },
    },
    Rule {
        slug: "client-cancels-tasks-by-method",
        chapter: Chapter::Patterns,
        sentence: "A client cancels a task with tasks/cancel, and not with notifications/cancelled.",
        sources: &[tasks(Must, "basic/utilities/cancellation#behavior-requirements")],
        judge: |seen| {
            let talk = seen.talk();
            let good = talk.calls(&Method::CancelTask).map(|_| None);
            let created = of_tasks(talk);
            let wrong = cancelled(talk).filter_map(|(told, id)| {
                let said = created.get(&id?)?;
                // Before it knows the task, a client can name nothing but the request.
                (told.at.saturating_sub(said.at) > CROSSING)
                    .then(|| Some(talk.finding("the request that it names had become a task", told.line)))
            });
            Outcome::of(good.chain(wrong), "the client cancelled no task")
        },
    },
];

const fn tasks(level: crate::rule::Level, page: &'static str) -> Source {
    Source::new(Revisions::LAST_LEGACY, level, page)
}

/// Whether a request is to become a task.
fn wants_task(params: Option<&Payload>) -> bool {
    params.and_then(|params| member(params.raw(), "task")).is_some_and(|task| task.kind() == Kind::Object)
}

/// The task that a result is, in place of one.
pub(super) fn created(result: &Raw) -> Option<Raw> {
    member(result, "task").filter(|task| text(task, "taskId").is_some())
}

/// The task that a message names in `_meta`.
fn related(value: &Raw) -> Option<Raw> {
    member(&member(value, "_meta")?, key::RELATED_TASK)
}

/// Whether the server makes tasks of calls.
fn declares_calls(talk: &Talk<'_>) -> bool {
    let offered = talk.offered().and_then(|offered| offered.get("tasks").cloned());
    offered.is_some_and(|tasks| has_path(&tasks, "requests.tools.call"))
}

/// What each tool that was listed says of tasks, and when it did.
fn listed(talk: &Talk<'_>) -> BTreeMap<String, Vec<(usize, Option<String>)>> {
    let mut listed: BTreeMap<String, Vec<(usize, Option<String>)>> = BTreeMap::new();
    for said in talk.calls(&Method::ListTools).filter_map(|asked| asked.answer) {
        let Ok(page) = said.outcome else { continue };
        for tool in member(page.raw(), "tools").as_ref().and_then(elements).unwrap_or_default() {
            let Some(name) = text(&tool, "name") else { continue };
            let support = member(&tool, "execution").and_then(|how| text(&how, "taskSupport"));
            listed.entry(name).or_default().push((said.place, support));
        }
    }
    listed
}

/// The answers with which requests became tasks, by the ids of the requests. Two rules look at them.
pub(super) fn of_tasks<'a>(talk: &Talk<'a>) -> BTreeMap<&'a RequestId, Said<'a>> {
    let asked = talk.asked.iter().filter(|asked| wants_task(asked.what.params.as_ref()));
    let became = asked.filter_map(|asked| {
        let said = asked.answer?;
        created(said.outcome.as_ref().ok()?.raw())?;
        Some((&asked.what.id, said))
    });
    became.collect()
}

/// A task, and how the client has asked after it.
struct Followed<'t, 'a> {
    created: Raw,
    polls: Vec<&'t Asked<'a>>,
    /// The requests for its result.
    waits: Vec<&'t Asked<'a>>,
    /// The client has asked for its result, or wants it no more.
    ended: bool,
}

/// The tasks that the client has got.
fn followed<'t, 'a>(talk: &'t Talk<'a>) -> Vec<Followed<'t, 'a>> {
    let about = |method: Method| {
        let mut about: BTreeMap<String, Vec<&'t Asked<'a>>> = BTreeMap::new();
        for asked in talk.asked.iter().filter(|asked| asked.what.method == method) {
            if let Some(id) = asked.what.params.as_ref().and_then(|params| text(params.raw(), "taskId")) {
                about.entry(id).or_default().push(asked);
            }
        }
        about
    };
    let (mut polls, mut waits) = (about(Method::GetTask), about(Method::GetTaskResult));
    let ends = about(Method::CancelTask);
    let created = of_tasks(talk).into_values();
    let tasks = created.filter_map(|said| self::created(said.outcome.as_ref().ok()?.raw()));
    let tasks = tasks.filter_map(|created| {
        let id = text(&created, "taskId")?;
        let polls = polls.remove(&id).unwrap_or_default();
        let waits = waits.remove(&id).unwrap_or_default();
        let ended = !waits.is_empty() || ends.contains_key(&id);
        Some(Followed { created, polls, waits, ended })
    });
    tasks.collect()
}

/// How a task was, by an answer.
fn status_of(said: Said<'_>) -> Option<Raw> {
    said.outcome.as_ref().ok().map(|task| task.raw().clone())
}

fn interval(task: &Raw) -> Option<Duration> {
    let wanted = member(task, "pollInterval")?.as_str().parse::<f64>().ok()?;
    // A longer one than a day is none.
    (0.0..=86_400_000.0).contains(&wanted).then(|| Duration::from_secs_f64(wanted / 1000.0))
}
