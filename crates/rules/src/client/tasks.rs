//! The experimental tasks of 2025-11-25: a client that creates and polls tasks, and a client that runs them.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>

use std::collections::BTreeMap;
use std::time::Duration;

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Kind, Method, Payload, Raw, RequestId};

use super::utilities::{CROSSING, cancelled};
use crate::client_view::{ClientRequest, ClientView, RecordedResponse};
use crate::json::{elements, has_path, member, text};
use crate::rule::Outcome;
use crate::trace::Probe;

/// How often a client asks that is not asking just once more.
const SEVERAL: usize = 3;
/// A shorter interval is kept, or not, by the load of a machine.
const SHORTEST: Duration = Duration::from_millis(200);

rules! {
    pub(crate) RULES for Client in Chapter::Patterns;

    "client-task-capability-declared", [LAST_LEGACY Must "basic/utilities/tasks#capabilities"],
        "A client that makes a task of a request declares tasks.",
        |view| {
            let declared = view.capabilities(None).is_some_and(|declared| has_path(&declared, "tasks"));
            let responses =
                view.our_requests.iter().filter(|our_request| wants_task(our_request.what.params.as_ref()));
            let responses = responses.filter_map(|our_request| {
                let response = our_request.response?;
                let task = response.outcome.as_ref().ok().and_then(|result| created(result.raw()));
                let wrong = task.is_some() && !declared;
                Some(wrong.then(|| {
                    our_request.finding("it became a task, and tasks were not declared", response.line)
                }))
            });
            let notification = view
                .notifications
                .iter()
                .filter(|notification| notification.what.method == Method::TaskStatus);
            let notification = notification.map(|notification| {
                (!declared).then(|| {
                    view.finding("it tells of a task, and tasks were not declared", notification.line)
                })
            });
            Outcome::of(responses.chain(notification), "the client was asked for no task, or did not answer")
        };
    "client-undeclared-task-ignored", [LAST_LEGACY Must "basic/utilities/tasks#general"],
        "A request that is to become a task is answered as any other by a client that has not declared that.",
        |view| {
            let plain = view.our_requests.iter().any(|our_request| {
                our_request.what.method == Method::ListRoots
                    && our_request.probe != Probe::UndeclaredTask
                    && our_request.response.is_some_and(|response| response.outcome.is_ok())
            });
            if !plain {
                return Outcome::Skipped("the client has no roots, or was not asked for them");
            }
            let request =
                view.our_requests.iter().filter(|our_request| our_request.probe == Probe::UndeclaredTask);
            let findings = request.filter_map(|our_request| {
                let response = our_request.response?;
                let code = response.outcome.as_ref().err().map(|error| error.code);
                Some(code.map(|code| {
                    our_request.finding(
                        format!("the error {code}, where a plain request was answered"),
                        response.line,
                    )
                }))
            });
            Outcome::of(findings, "the client was asked for no task, or did not answer")
        };
    "client-task-declared-alone", [LAST_LEGACY Should "basic/utilities/tasks#capability-negotiation"],
        "A client asks for a task with those requests alone for which the server has declared tasks.",
        |view| {
            let findings = view.requests.iter().filter(|request| wants_task(request.what.params.as_ref()));
            let findings = findings.filter_map(|request| {
                // Calls where no tasks were declared have a rule of their own.
                let is_call = request.what.method == Method::CallTool;
                if is_call && !declares_calls(view) {
                    return None;
                }
                let problem = || format!("no server makes a task of {}", request.what.method);
                Some((!is_call).then(|| request.finding(problem())))
            });
            Outcome::of(findings, "the client asked for no task")
        };
    "client-task-as-tool-says", [LAST_LEGACY Must "basic/utilities/tasks#tool-level-negotiation"],
        "A client calls a tool as a task where the server has declared that and the tool allows it, and always where \
         the tool requires it.",
        |view| {
            let declared = declares_calls(view);
            let listed = listed(view);
            let findings = view.calls(&Method::CallTool).filter_map(|request| {
                let params = request.what.params.as_ref()?;
                let wanted = wants_task(Some(params));
                if wanted && !declared {
                    return Some(Some(request.finding("the server makes no tasks of calls")));
                }
                let name = text(params.raw(), "name")?;
                let before = listed.get(&name)?.iter().rev().find(|(place, _)| *place < request.place)?;
                let support = before.1.as_deref().unwrap_or("forbidden");
                Some(match (wanted, support) {
                    (true, "forbidden") => Some(request.finding(format!("the tool {name} is never a task"))),
                    (false, "required") if declared => {
                        Some(request.finding(format!("the tool {name} is a task or nothing")))
                    }
                    _ => None,
                })
            });
            Outcome::of(findings, "the client called no tool that it had listed")
        };
    "client-respects-poll-interval", [LAST_LEGACY Should "basic/utilities/tasks#getting-tasks"],
        "A client asks how a task is no more often than pollInterval says.",
        |view| {
            let findings = followed(view).into_iter().filter_map(|task| {
                let mut interval = interval(&task.created);
                let mut early = Vec::new();
                let mut any = false;
                for pair in task.polls.windows(2) {
                    let [before, next] = pair else { continue };
                    let response = before.response.and_then(status_of);
                    interval = response.and_then(|task| self::interval(&task)).or(interval);
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
                    first.map(|(request, waited, wanted)| {
                        request.finding(format!(
                            "it comes after {} ms, and pollInterval is {} ms",
                            waited.as_millis(),
                            wanted.as_millis()
                        ))
                    })
                })
            });
            Outcome::of(findings, "no task was asked after twice that has a pollInterval")
        };
    "client-polls-to-the-end", [LAST_LEGACY Should "basic/utilities/tasks#getting-tasks"],
        "A client that asks how a task is goes on until it has ended or needs input, if it does not wait for the \
         result.",
        |view| {
            let findings = followed(view).into_iter().filter_map(|task| {
                let last = task.polls.last()?;
                let now = status_of(last.response?)?;
                let status = text(&now, "status")?;
                if status != "working" {
                    return Some(None);
                }
                // Whoever waits for the result, or wants none, need not ask.
                if task.ended {
                    return None;
                }
                let wanted = interval(&now).unwrap_or_default().saturating_mul(10);
                let quiet = view.last_present.saturating_sub(last.at);
                (quiet >= wanted.max(view.trace.answer_within)).then(|| {
                    let problem =
                        format!("nobody has asked for {} s since, and it was working", quiet.as_secs());
                    Some(last.finding(problem))
                })
            });
            Outcome::of(findings, "the client asked after no task, or went on to its result")
        };
    "client-fetches-when-input-required", [LAST_LEGACY Should "basic/utilities/tasks#input-required-status"],
        "A client that learns that a task needs input asks for its result, with which the questions come.",
        |view| {
            let findings = followed(view).into_iter().filter_map(|task| {
                let needy = |poll: &&&ClientRequest<'_>| {
                    let now = poll.response.and_then(status_of);
                    now.is_some_and(|now| text(&now, "status").as_deref() == Some("input_required"))
                };
                let first = task.polls.iter().find(needy)?;
                let response = first.response?;
                let waits = |request: &&ClientRequest<'_>| {
                    request.response.is_none_or(|result| result.place > response.place)
                };
                if task.waits.iter().any(waits) {
                    return Some(None);
                }
                let again =
                    task.polls.iter().filter(|poll| poll.place > response.place).filter(needy).count();
                let problem = || first.finding("the task needed input, and nobody asked for its result");
                (again >= SEVERAL).then(|| Some(problem()))
            });
            Outcome::of(findings, "no task needed input, or the client did not ask")
        };
    "client-related-task-named", [LAST_LEGACY Must "basic/utilities/tasks#associating-task-related-messages"],
        "A client's result names the task that the request to it belonged to.",
        |view| {
            let findings = view.our_requests.iter().filter_map(|our_request| {
                let wanted = text(&related(our_request.what.params.as_ref()?.raw())?, "taskId")?;
                let response = our_request.response?;
                let result = response.outcome.as_ref().ok()?;
                let given = related(result.raw()).and_then(|task| text(&task, "taskId"));
                let problem = || match &given {
                    None => "_meta names no task".to_owned(),
                    Some(_) => "_meta names another task".to_owned(),
                };
                Some((given.as_ref() != Some(&wanted)).then(|| our_request.finding(problem(), response.line)))
            });
            Outcome::of(findings, "no task has asked the client for anything")
        };
    "client-no-related-task", [LAST_LEGACY Should "basic/utilities/tasks#related-task-metadata"],
        "A client's tasks/get, tasks/result, tasks/list and tasks/cancel do not name their task in _meta again.",
        |view| {
            let findings = view.requests.iter().filter(|request| {
                matches!(
                    request.what.method,
                    Method::GetTask | Method::GetTaskResult | Method::ListTasks | Method::CancelTask
                )
            });
            let findings = findings.map(|request| {
                let again = request.what.params.as_ref().and_then(|params| related(params.raw()));
                again.map(|_| request.finding("_meta names the task"))
            });
            Outcome::of(findings, "the client asked after no task")
        };
    "client-cancels-tasks-by-method", [LAST_LEGACY Must "basic/utilities/cancellation#behavior-requirements"],
        "A client cancels a task with tasks/cancel, and not with notifications/cancelled.",
        |view| {
            let good = view.calls(&Method::CancelTask).map(|_| None);
            let created = of_tasks(view);
            let wrong = cancelled(view).filter_map(|(notification, id)| {
                let response = created.get(&id?)?;
                // Before it knows the task, a client can name nothing but the request.
                (notification.at.saturating_sub(response.at) > CROSSING).then(|| {
                    Some(view.finding("the request that it names had become a task", notification.line))
                })
            });
            Outcome::of(good.chain(wrong), "the client cancelled no task")
        };
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
fn declares_calls(view: &ClientView<'_>) -> bool {
    let offered = view.offered().and_then(|offered| offered.get("tasks").cloned());
    offered.is_some_and(|tasks| has_path(&tasks, "requests.tools.call"))
}

/// What each tool that was listed says of tasks, and when it did.
fn listed(view: &ClientView<'_>) -> BTreeMap<String, Vec<(usize, Option<String>)>> {
    let mut listed: BTreeMap<String, Vec<(usize, Option<String>)>> = BTreeMap::new();
    for response in view.calls(&Method::ListTools).filter_map(|request| request.response) {
        let Ok(page) = response.outcome else { continue };
        for tool in member(page.raw(), "tools").as_ref().and_then(elements).unwrap_or_default() {
            let Some(name) = text(&tool, "name") else { continue };
            let support = member(&tool, "execution").and_then(|how| text(&how, "taskSupport"));
            listed.entry(name).or_default().push((response.place, support));
        }
    }
    listed
}

/// The answers with which requests became tasks, by the ids of the requests. Two rules look at them.
pub(super) fn of_tasks<'a>(view: &ClientView<'a>) -> BTreeMap<&'a RequestId, RecordedResponse<'a>> {
    let request = view.requests.iter().filter(|request| wants_task(request.what.params.as_ref()));
    let became = request.filter_map(|request| {
        let response = request.response?;
        created(response.outcome.as_ref().ok()?.raw())?;
        Some((&request.what.id, response))
    });
    became.collect()
}

/// A task, and how the client has asked after it.
struct Followed<'t, 'a> {
    created: Raw,
    polls: Vec<&'t ClientRequest<'a>>,
    /// The requests for its result.
    waits: Vec<&'t ClientRequest<'a>>,
    /// The client has asked for its result, or wants it no more.
    ended: bool,
}

/// The tasks that the client has got.
fn followed<'t, 'a>(view: &'t ClientView<'a>) -> Vec<Followed<'t, 'a>> {
    let about = |method: Method| {
        let mut about: BTreeMap<String, Vec<&'t ClientRequest<'a>>> = BTreeMap::new();
        for request in view.requests.iter().filter(|request| request.what.method == method) {
            if let Some(id) = request.what.params.as_ref().and_then(|params| text(params.raw(), "taskId")) {
                about.entry(id).or_default().push(request);
            }
        }
        about
    };
    let (mut polls, mut waits) = (about(Method::GetTask), about(Method::GetTaskResult));
    let ends = about(Method::CancelTask);
    let created = of_tasks(view).into_values();
    let tasks = created.filter_map(|response| self::created(response.outcome.as_ref().ok()?.raw()));
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
fn status_of(response: RecordedResponse<'_>) -> Option<Raw> {
    response.outcome.as_ref().ok().map(|task| task.raw().clone())
}

fn interval(task: &Raw) -> Option<Duration> {
    let wanted = member(task, "pollInterval")?.as_str().parse::<f64>().ok()?;
    // A longer one than a day is none.
    (0.0..=86_400_000.0).contains(&wanted).then(|| Duration::from_secs_f64(wanted / 1000.0))
}
