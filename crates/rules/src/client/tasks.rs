//! The experimental tasks of 2025-11-25: a client that creates and polls tasks, and a client that runs them.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>

use std::collections::BTreeMap;
use std::time::Duration;

use mcpjoin_proto::{Kind, Method, Payload, Raw, RequestId};

use super::CROSSING;
use crate::client_view::{ClientRequest, ClientView, RecordedResponse};
use crate::json::{float, has_path, list, member, param, text};
use crate::patterns::tasks::related;
use crate::rule::{Evidence, Outcome, Source};
use crate::trace::Probe;

const NEGOTIATION: &str = "basic/utilities/tasks#tool-level-negotiation";
const POLLING: &[Source] = sources![LAST_LEGACY Should "basic/utilities/tasks#getting-tasks"];
const NO_TASK: &str = "the client received no task-augmented request, or did not respond";

/// A client that polls this often does not do so by chance.
const MIN_POLLS: usize = 3;
/// Whether a client keeps a shorter interval depends on the load of the machine.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// A longer interval, in milliseconds, is ignored: one day.
const MAX_POLL_INTERVAL_MS: f64 = 86_400_000.0;

rules! {
    pub(crate) RULES for Client in Chapter::Patterns;

    "client-task-capability-declared", [LAST_LEGACY Must "basic/utilities/tasks#capabilities"],
        "A client that runs a request as a task declares tasks.",
        else NO_TASK,
        |view| {
            let is_declared = view.capabilities(None).is_some_and(|declared| has_path(&declared, "tasks"));
            let responses = view.answers().filter(|it| wants_task(&it.request.what.params)).map(move |answer| {
                let is_task = answer.response.result().and_then(created).is_some();
                answer.finding_if(is_task && !is_declared, "it ran as a task, although tasks is not declared")
            });
            let notifications = view.notified(&Method::TaskStatus).map(move |notification| {
                notification.finding_if(!is_declared, "it is about a task, although tasks is not declared")
            });
            responses.chain(notifications)
        };
    "client-undeclared-task-ignored", [LAST_LEGACY Must "basic/utilities/tasks#task-support-and-handling"],
        "A client that does not declare tasks for a request answers it normally, and ignores `task`.",
        else NO_TASK,
        |view| {
            let mut plain = view.answers_to(&Method::ListRoots);
            if !plain.any(|it| it.request.probe != Probe::UndeclaredTask && it.response.outcome.is_ok()) {
                return Outcome::Skipped("the client has no roots, or received no request for them");
            }
            view.answers_of(Probe::UndeclaredTask).map(|answer| {
                let code = answer.response.error()?.code;
                Some(answer.finding(format_args!("the error {code}, although the same request without \
                    `task` returned a result")))
            })
        };
    "client-task-declared-alone", [LAST_LEGACY Should "basic/utilities/tasks#capability-negotiation"],
        "A client requests tasks only for the requests for which the server declares them.",
        else "the client requested no task",
        |view| view.requests.iter().filter(|it| wants_task(&it.what.params)).filter_map(|request| {
            // Calls without declared tasks have a rule of their own.
            let is_call = request.what.method == Method::CallTool;
            let problem = || format!("the server does not declare tasks for {}", request.what.method);
            (!is_call || declares_calls(view)).then(|| (!is_call).then(|| request.finding(problem())))
        });
    "client-task-as-tool-says", [LAST_LEGACY Must NEGOTIATION],
        "A client calls a tool as a task only if the server and the tool allow it, and always if the tool \
         requires it.",
        else "the client called no tool that it had listed",
        |view| {
            let is_declared = declares_calls(view);
            let listed = listed(view);
            view.calls(&Method::CallTool).filter_map(move |request| {
                let wants_task = wants_task(&request.what.params);
                if wants_task && !is_declared {
                    return Some(Some(request.finding("the server does not declare tasks for tools/call")));
                }
                let name = request.text_param("name")?;
                let tools = listed_before(&listed, &name, request.place, request.at);
                let problems = tools.into_iter().map(|tool| {
                    let support = member(tool, "execution").and_then(|how| text(&how, "taskSupport"));
                    match (wants_task, support.as_deref().unwrap_or("forbidden")) {
                        (true, "forbidden") => Some("forbids tasks"),
                        (false, "required") if is_declared => Some("requires a task"),
                        _ => None,
                    }
                });
                let problem = by_each(problems)?;
                Some(problem.map(|problem| request.finding(format_args!("the tool {name} {problem}"))))
            })
        };
    "client-respects-poll-interval", POLLING,
        "A client polls a task not more often than pollInterval allows.",
        else "no task with a pollInterval was polled twice",
        |view| followed(view).into_iter().filter_map(|task| {
            let mut interval = interval(&task.created);
            let mut early = Vec::new();
            let mut has_interval = false;
            for pair in task.polls.windows(2) {
                let [before, next] = pair else { continue };
                interval = before.response.and_then(|it| self::interval(it.result()?)).or(interval);
                let Some(wanted) = interval.filter(|wanted| *wanted >= MIN_POLL_INTERVAL) else { continue };
                has_interval = true;
                // Half of the interval, because the time on the network differs.
                let waited = next.at.saturating_sub(before.at);
                if waited < wanted / 2 {
                    early.push((next, waited.as_millis(), wanted.as_millis()));
                }
            }
            let first = early.first().filter(|_| early.len() >= MIN_POLLS);
            let finding = first.map(|(next, waited, wanted)| {
                next.finding(format_args!("the next poll came after {waited} ms, but pollInterval is \
                    {wanted} ms"))
            });
            has_interval.then_some(finding)
        });
    "client-polls-to-the-end", POLLING,
        "A client polls a task until it has ended or needs input, unless it waits for the result.",
        else "the client polled no task, or requested the result",
        |view| followed(view).into_iter().filter_map(|task| {
            let last = task.polls.last()?;
            let now = last.response?.result()?;
            if text(now, "status")? != "working" {
                return Some(None);
            }
            // A client that waits for the result, or wants none, need not poll.
            if task.is_over {
                return None;
            }
            let wanted = interval(now).unwrap_or_default().saturating_mul(10).max(view.trace.respond_within);
            let quiet = view.last_present.saturating_sub(last.at);
            let problem = || format!("no poll for {} s, although the task was working", quiet.as_secs());
            (quiet >= wanted).then(|| Some(last.finding(problem())))
        });
    "client-fetches-when-input-required", [LAST_LEGACY Should "basic/utilities/tasks#input-required-status"],
        "A client that learns that a task needs input requests its result, which delivers the input requests.",
        else "no task needed input, or the client did not poll",
        |view| followed(view).into_iter().filter_map(|task| {
            let needs_input = |poll: &&&ClientRequest<'_>| {
                let status = poll.response.and_then(|it| text(it.result()?, "status"));
                status.as_deref() == Some("input_required")
            };
            let first = task.polls.iter().find(needs_input)?;
            let place = first.response?.place;
            if task.waits.iter().any(|wait| wait.response.is_none_or(|result| result.place > place)) {
                return Some(None);
            }
            let again = task.polls.iter().filter(|poll| poll.place > place).filter(needs_input).count();
            (again >= MIN_POLLS)
                .then(|| Some(first.finding("the task needed input, but its result was not requested")))
        });
    "client-related-task-named", [LAST_LEGACY Must "basic/utilities/tasks#associating-task-related-messages"],
        "A client's result names the task of the request in _meta.",
        else "no task has sent the client a request",
        |view| view.answers().filter_map(|answer| {
            let task_of = |value: &Raw| text(&related(value)?, "taskId");
            let wanted = task_of(answer.request.what.params.as_ref()?.raw())?;
            Some(match task_of(answer.response.result()?) {
                None => Some(answer.finding("_meta names no task")),
                Some(given) => answer.finding_if(given != wanted, "_meta names another task"),
            })
        });
    "client-no-related-task", [LAST_LEGACY Should "basic/utilities/tasks#related-task-metadata"],
        "A client's tasks/get, tasks/result, tasks/list and tasks/cancel do not repeat the task in _meta.",
        else "the client sent no request about a task",
        |view| {
            let methods = [Method::GetTask, Method::GetTaskResult, Method::ListTasks, Method::CancelTask];
            view.requests.iter().filter(move |it| methods.contains(&it.what.method)).map(|request| {
                let task = request.what.params.as_ref().and_then(|params| related(params.raw()));
                request.finding_if(task.is_some(), "_meta names the task")
            })
        };
    "client-cancels-tasks-by-method", [LAST_LEGACY Must "basic/utilities/cancellation#behavior-requirements"],
        "A client cancels a task with tasks/cancel, and not with notifications/cancelled.",
        else "the client cancelled no task",
        |view| {
            let created = of_tasks(view);
            let wrong = view.cancelled().filter_map(move |(notification, id)| {
                let response = created.get(&id?)?;
                // Before the client knows the task, it can cancel the request alone.
                (notification.at.saturating_sub(response.at) > CROSSING)
                    .then(|| Some(notification.finding("the request in it had become a task")))
            });
            view.calls(&Method::CancelTask).map(|_| None).chain(wrong)
        };
}

/// Whether a request is to become a task.
fn wants_task(params: &Option<Payload>) -> bool {
    param(params, "task").is_some_and(|task| task.kind() == Kind::Object)
}

/// The task in a result.
pub(super) fn created(result: &Raw) -> Option<Raw> {
    member(result, "task").filter(|task| text(task, "taskId").is_some())
}

/// Whether the server makes tasks of calls.
fn declares_calls(view: &ClientView<'_>) -> bool {
    let tasks = view.offered().and_then(|offered| offered.get("tasks").cloned());
    tasks.is_some_and(|tasks| has_path(&tasks, "requests.tools.call"))
}

/// The listed tools by their names: each definition with the place and the time of the first list that had it.
pub(super) type Listed = BTreeMap<String, BTreeMap<usize, (Duration, Raw)>>;

pub(super) fn listed(view: &ClientView<'_>) -> Listed {
    let mut listed = Listed::new();
    for response in view.calls(&Method::ListTools).filter_map(|request| request.response) {
        for tool in response.result().and_then(|page| list(page, "tools")).unwrap_or_default() {
            let Some(name) = text(&tool, "name") else { continue };
            let known = listed.entry(name).or_default();
            if known.values().next_back().is_none_or(|(_, last)| *last != tool) {
                known.insert(response.place, (response.at, tool));
            }
        }
    }
    listed
}

/// The definitions of a tool by which a client may have called it at that place and time: the last one that was listed before,
/// and while a list may have crossed with the call, also the one that it replaced.
pub(super) fn listed_before<'t>(listed: &'t Listed, name: &str, place: usize, at: Duration) -> Vec<&'t Raw> {
    let mut may_be_older = true;
    let known = listed.get(name).into_iter().flat_map(|known| known.range(..place).rev());
    let known = known.take_while(|(_, (listed_at, _))| {
        std::mem::replace(&mut may_be_older, at.saturating_sub(*listed_at) <= CROSSING)
    });
    known.map(|(_, (_, tool))| tool).collect()
}

/// The problem of a call, if it has one by each definition of its tool; `None` if there is no definition.
pub(super) fn by_each<T>(problems: impl IntoIterator<Item = Option<T>>) -> Option<Option<T>> {
    problems.into_iter().reduce(|last, older| last.filter(|_| older.is_some()))
}

/// The responses by which requests became tasks, by the ids of the requests.
pub(super) fn of_tasks<'a>(view: &ClientView<'a>) -> BTreeMap<&'a RequestId, RecordedResponse<'a>> {
    let requests = view.requests.iter().filter(|request| wants_task(&request.what.params));
    let became = requests.filter_map(|request| {
        let response = request.response?;
        created(response.result()?)?;
        Some((&request.what.id, response))
    });
    became.collect()
}

/// A task, and the requests of the client for it.
struct Followed<'t, 'a> {
    created: Raw,
    polls: Vec<&'t ClientRequest<'a>>,
    /// The requests for its result.
    waits: Vec<&'t ClientRequest<'a>>,
    /// Whether the client has requested its result, or has cancelled it.
    is_over: bool,
}

/// The tasks that the client has created.
fn followed<'t, 'a>(view: &'t ClientView<'a>) -> Vec<Followed<'t, 'a>> {
    let about = |method: Method| {
        let mut about: BTreeMap<String, Vec<&'t ClientRequest<'a>>> = BTreeMap::new();
        for request in view.calls(&method) {
            if let Some(id) = request.text_param("taskId") {
                about.entry(id).or_default().push(request);
            }
        }
        about
    };
    let (mut polls, mut waits) = (about(Method::GetTask), about(Method::GetTaskResult));
    let ends = about(Method::CancelTask);
    let tasks = of_tasks(view).into_values().filter_map(|response| {
        let created = created(response.result()?)?;
        let id = text(&created, "taskId")?;
        let polls = polls.remove(&id).unwrap_or_default();
        let waits = waits.remove(&id).unwrap_or_default();
        let is_over = !waits.is_empty() || ends.contains_key(&id);
        Some(Followed { created, polls, waits, is_over })
    });
    tasks.collect()
}

fn interval(task: &Raw) -> Option<Duration> {
    let wanted =
        float(task, "pollInterval").filter(|wanted| (0.0..=MAX_POLL_INTERVAL_MS).contains(wanted))?;
    Some(Duration::from_secs_f64(wanted / 1000.0))
}
