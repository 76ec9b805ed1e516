//! Calls of tools: of those that the user has named, and of those that say that they only read; also of a tool that asks for
//! input (in the modern era), and of a tool as a task (for 2025-11-25, which has tasks as an experiment).
//!
//! Used only where the user has allowed it.

use std::time::Duration;

use mcpjoin_proto::http::params::{header_marks, param_headers};
use mcpjoin_proto::types::Members;
use mcpjoin_proto::{Method, Raw, Version, code};
use mcpjoin_rules::{CallWarning, CallWarningKind, Probe, nonconformity};
use tokio::time::Instant;

use super::super::probes;
use super::{Consent, Found, MAX_CALLS, MAX_PAGES, elements, text};
use crate::engine::Session;
use crate::engine::message::Question;

/// A call that takes at least this long can be cancelled meanwhile.
const SLOW_CALL: Duration = Duration::from_millis(200);

/// Tools that are called until one asks for input.
const MAX_TRIED: usize = 3;
/// A name that no request for input has.
const UNKNOWN_INPUT: &str = "mcpjoin-unasked";

/// Calls a tool that does not exist, and the tools that the user has named.
pub(super) async fn named(
    session: &mut impl Session,
    version: &Version,
    consent: &Consent,
    found: &Found,
    declared: bool,
) {
    let listed = |name: &str| found.tools.iter().find(|tool| text(tool, "name").as_deref() == Some(name));
    for (name, arguments) in &consent.calls {
        if let Some(problem) = problem(declared, listed(name), arguments.as_ref()) {
            session.state_mut().notes.push(CallWarning::new(name, version.clone(), problem));
        }
    }
    if !declared || !consent.read_only && consent.calls.is_empty() {
        return;
    }
    session.question(call(Probe::UnknownTool, probes::NO_TOOL, None, &Raw::empty_object())).await;
    for (number, (name, arguments)) in consent.calls.iter().enumerate() {
        let arguments = arguments.clone().unwrap_or_else(Raw::empty_object);
        let token = Raw::string(&format!("mcpjoin-{number}"));
        session
            .question(call(Probe::Call, name, listed(name), &arguments).meta("progressToken", token))
            .await;
    }
}

/// Why a call of the user cannot show what it is meant to show.
fn problem(declared: bool, tool: Option<&Raw>, arguments: Option<&Raw>) -> Option<CallWarningKind> {
    if !declared {
        return Some(CallWarningKind::NoTools);
    }
    let Some(tool) = tool else { return Some(CallWarningKind::NotListed) };
    let empty = Raw::empty_object();
    nonconformity(&tool.member("inputSchema")?, arguments.unwrap_or(&empty)).map(CallWarningKind::Arguments)
}

/// Calls the tools that only read. Returns those that need capabilities that we have not declared, with their names.
pub(super) async fn reading<'f>(session: &mut impl Session, found: &'f Found) -> Vec<(String, &'f Raw)> {
    let (needing, plain): (Vec<&Raw>, Vec<&Raw>) =
        found.tools.iter().filter(|tool| only_reads(tool)).partition(|tool| needs_arguments(tool));
    let (mut slow, mut asking) = (None, Vec::new());
    for (number, tool) in plain.into_iter().take(MAX_CALLS).enumerate() {
        let Some(name) = text(tool, "name") else { continue };
        let arguments = Raw::empty_object();
        if task_support(tool).as_deref() == Some("required") {
            session.question(call(Probe::TaskRequired, &name, Some(tool), &arguments)).await;
            continue;
        }
        let token = Raw::string(&format!("mcpjoin-read-{number}"));
        let began = Instant::now();
        let question = call(Probe::Call, &name, Some(tool), &arguments).meta("progressToken", token);
        let reply = session.question(question).await;
        if began.elapsed() >= SLOW_CALL && slow.is_none() {
            slow = Some((name.clone(), tool));
        }
        if matches!(&reply, Some(Err(error)) if error.code == code::MISSING_REQUIRED_CLIENT_CAPABILITY) {
            asking.push((name, tool));
        }
    }
    if let Some((name, tool)) = slow.filter(|_| session.has_cancel()) {
        session.cancel(call(Probe::CancelledCall, &name, Some(tool), &Raw::empty_object())).await;
    }
    for tool in needing.into_iter().take(MAX_CALLS) {
        let Some(name) = text(tool, "name") else { continue };
        session.question(call(Probe::BadArguments, &name, Some(tool), &Raw::empty_object())).await;
    }
    asking
}

/// Whether a tool says that it only reads.
fn only_reads(tool: &Raw) -> bool {
    let hint = tool.member("annotations").and_then(|annotations| annotations.member("readOnlyHint"));
    hint.is_some_and(|hint| hint.as_str() == "true")
}

fn needs_arguments(tool: &Raw) -> bool {
    tool.member("inputSchema").is_some_and(|schema| !elements(&schema, "required").is_empty())
}

/// What a tool says about tasks: `required`, `optional` or `forbidden`.
fn task_support(tool: &Raw) -> Option<String> {
    text(&tool.member("execution")?, "taskSupport")
}

/// A call, with the headers that repeat its arguments.
fn call<'q>(probe: Probe, name: &str, tool: Option<&Raw>, arguments: &Raw) -> Question<'q> {
    let question =
        Question::new(probe, Method::CallTool).text("name", name).with("arguments", arguments.clone());
    let marks =
        tool.and_then(|tool| tool.member("inputSchema")).and_then(|schema| header_marks(&schema).ok());
    let headers = marks.and_then(|marks| param_headers(&marks, Some(arguments)).ok()).unwrap_or_default();
    Question { headers, ..question }
}

/// A tool that only reads and whose arguments are repeated in headers.
pub(in super::super) struct Marked<'q> {
    /// A call with these arguments and no others, and with their headers.
    pub(in super::super) full: Question<'q>,
    /// The call with null in place of each argument.
    pub(in super::super) null: Question<'q>,
    /// The call without any argument.
    pub(in super::super) empty: Question<'q>,
}

/// The first such tool that needs no other arguments.
pub(in super::super) fn marked<'q>(tools: &[Raw]) -> Option<Marked<'q>> {
    tools.iter().filter(|tool| only_reads(tool)).find_map(|tool| {
        let schema = tool.member("inputSchema")?;
        let properties: Members<Raw> = schema.member("properties")?.decode().ok()?;
        let marked = properties.iter().filter(|(_, property)| property.member("x-mcp-header").is_some());
        let arguments: Vec<(&str, &str)> = marked
            .filter_map(|(name, property)| match text(property, "type").as_deref() {
                Some("string") => Some((name, "\"mcpjoin\"")),
                Some("integer") => Some((name, "1")),
                Some("boolean") => Some((name, "true")),
                _ => None,
            })
            .collect();
        let required = elements(&schema, "required");
        let given = |name: &Raw| {
            name.to_string_value().is_some_and(|name| arguments.iter().any(|(one, _)| *one == name))
        };
        if arguments.is_empty() || !required.iter().all(given) {
            return None;
        }
        let with = |probe: Probe, of: &dyn Fn(&str) -> String| {
            let members =
                arguments.iter().map(|(name, value)| format!("{}:{}", Raw::string(name), of(value)));
            let members: Vec<String> = members.collect();
            let arguments = Raw::parse(format!("{{{}}}", members.join(","))).ok()?;
            Some(call(probe, &text(tool, "name")?, Some(tool), &arguments))
        };
        let full = with(Probe::NoParamHeader, &str::to_owned)?;
        let null = with(Probe::NoParamExpected, &|_| "null".to_owned())?;
        let empty = call(Probe::NoParamExpected, &text(tool, "name")?, Some(tool), &Raw::empty_object());
        (!full.headers.is_empty()).then_some(Marked { full, null, empty })
    })
}

/// The input that a tool has asked for.
struct Wanted {
    /// The name and the method of each request.
    requests: Vec<(String, String)>,
    state: Option<Raw>,
}

/// Calls a tool that asks for input with every capability declared, and again without the input, with another value, and
/// with everything declined. No request for input is ever accepted. `tools`: those that need capabilities that we have not
/// declared.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>
pub(super) async fn asking(session: &mut impl Session, tools: &[(String, &Raw)]) {
    for (name, tool) in tools.iter().take(MAX_TRIED) {
        let Some(wanted) = asked(session, name, tool).await.filter(|wanted| !wanted.requests.is_empty())
        else {
            continue;
        };
        let nothing = Raw::empty_object();
        session.question(again(Probe::NoInput, name, tool, nothing, wanted.state)).await;
        // A state may be valid only once.
        if let Some(wanted) = asked(session, name, tool).await {
            session.question(again(Probe::BadInput, name, tool, Raw::string("mcpjoin"), wanted.state)).await;
        }
        for probe in [Probe::Declined, Probe::UnknownInput] {
            let Some(wanted) = asked(session, name, tool).await else { return };
            let more = probe == Probe::UnknownInput;
            let Some(answers) = declined(&wanted.requests, more) else { return };
            session.question(again(probe, name, tool, answers, wanted.state)).await;
            let person = wanted.requests.iter().any(|(_, method)| method == Method::Elicit.as_str());
            if !more && person {
                session.ask_control(Probe::AfterDecline).await;
            }
        }
        return;
    }
}

/// Calls a tool that may ask for input. Returns what it has asked for.
async fn asked(session: &mut impl Session, name: &str, tool: &Raw) -> Option<Wanted> {
    let question = call(Probe::MayAsk, name, Some(tool), &Raw::empty_object());
    let result =
        session.question(Question { capabilities: probes::ALL_CAPABILITIES, ..question }).await?.ok()?;
    text(result.raw(), "resultType").filter(|kind| kind == "input_required")?;
    let requests: Option<Members<Raw>> =
        result.raw().member("inputRequests").and_then(|requests| requests.decode().ok());
    let requests = requests.unwrap_or_default();
    let requests =
        requests.iter().map(|(name, request)| (name.to_owned(), text(request, "method").unwrap_or_default()));
    Some(Wanted { requests: requests.collect(), state: result.raw().member("requestState") })
}

/// The same call with these responses to the requests for input.
fn again<'q>(probe: Probe, name: &str, tool: &Raw, answers: Raw, state: Option<Raw>) -> Question<'q> {
    let question = call(probe, name, Some(tool), &Raw::empty_object()).with("inputResponses", answers);
    let question = match state {
        Some(state) => question.with("requestState", state),
        None => question,
    };
    Question { capabilities: probes::ALL_CAPABILITIES, ..question }
}

/// Responses that decline everything; `None` where a request cannot be declined. `more`: with one to no request.
fn declined(requests: &[(String, String)], more: bool) -> Option<Raw> {
    const NO: &str = r#"{"action":"decline"}"#;
    let answers = requests.iter().map(|(name, method)| {
        let answer = match Method::parse(method) {
            Method::Elicit => NO,
            Method::ListRoots => r#"{"roots":[]}"#,
            _ => return None,
        };
        Some(format!("{}:{answer}", Raw::string(name)))
    });
    let mut answers: Vec<String> = answers.collect::<Option<_>>()?;
    if more {
        answers.push(format!("\"{UNKNOWN_INPUT}\":{NO}"));
    }
    Raw::parse(format!("{{{}}}", answers.join(","))).ok()
}

/// Calls a tool that only reads as a task, from its beginning to its end, and once more, to be cancelled. `declared`: what
/// the server declares about tasks.
///
/// <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>
pub(super) async fn as_tasks(session: &mut impl Session, found: &Found, declared: Option<&Raw>) {
    let mut plain = found.tools.iter().filter(|tool| only_reads(tool) && !needs_arguments(tool));
    let with_calls =
        declared.and_then(|tasks| tasks.member("requests")?.member("tools")?.member("call").map(|_| tasks));
    let Some(tasks) = with_calls else {
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
        if tasks.member("cancel").is_some()
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
    text(&created.raw().member("task")?, "taskId")
}

async fn to_its_end(session: &mut impl Session, id: &str, declared: &Raw) {
    if declared.member("list").is_some() {
        session.question(of_task(Probe::TaskStatus, Method::GetTask, id)).await;
        list_tasks(session).await;
    }
    session.question(of_task(Probe::TaskResult, Method::GetTaskResult, id)).await;
    let reply = session.question(of_task(Probe::TaskStatus, Method::GetTask, id)).await;
    let status = reply.and_then(Result::ok).and_then(|result| text(result.raw(), "status"));
    // A task that has not ended may be cancelled.
    let ended = status.is_some_and(|status| ["completed", "failed", "cancelled"].contains(&&*status));
    if ended && declared.member("cancel").is_some() {
        session.question(of_task(Probe::CancelEndedTask, Method::CancelTask, id)).await;
    }
    if ended {
        session.question(of_task(Probe::TaskStatus, Method::GetTask, id)).await;
    }
}

/// Reads the list of tasks to its end.
async fn list_tasks(session: &mut impl Session) {
    let mut question = Question::new(Probe::TaskList, Method::ListTasks);
    for _ in 0..MAX_PAGES {
        let Some(Ok(page)) = session.question(question).await else { return };
        let Some(next) = text(page.raw(), "nextCursor") else { return };
        question = Question::new(Probe::TaskList, Method::ListTasks).text("cursor", &next);
    }
}
