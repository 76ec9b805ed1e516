//! Calls of tools: of those that the user has named, and of those that say that they only read.
//!
//! Used only where the user has allowed it.

use std::time::Duration;

use mcpjoin_proto::http::params::{header_marks, param_headers};
use mcpjoin_proto::types::Members;
use mcpjoin_proto::{Method, Raw, Version, code};
use mcpjoin_rules::{CallWarning, CallWarningKind, Probe, nonconformity};
use tokio::time::Instant;

use super::super::probes;
use super::{Consent, Found, MAX_CALLS, elements, text};
use crate::engine::Session;
use crate::engine::message::{Question, member};

/// A call that takes at least this long can be cancelled meanwhile.
const SLOW_CALL: Duration = Duration::from_millis(200);

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
    nonconformity(&member(tool, "inputSchema")?, arguments.unwrap_or(&empty)).map(CallWarningKind::Arguments)
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
pub(in super::super) fn only_reads(tool: &Raw) -> bool {
    let hint = member(tool, "annotations").and_then(|annotations| member(&annotations, "readOnlyHint"));
    hint.is_some_and(|hint| hint.as_str() == "true")
}

pub(super) fn needs_arguments(tool: &Raw) -> bool {
    member(tool, "inputSchema").is_some_and(|schema| !elements(&schema, "required").is_empty())
}

/// What a tool says about tasks: `required`, `optional` or `forbidden`.
pub(super) fn task_support(tool: &Raw) -> Option<String> {
    text(&member(tool, "execution")?, "taskSupport")
}

/// A call, with the headers that repeat its arguments.
pub(super) fn call<'q>(probe: Probe, name: &str, tool: Option<&Raw>, arguments: &Raw) -> Question<'q> {
    let question =
        Question::new(probe, Method::CallTool).text("name", name).with("arguments", arguments.clone());
    let marks =
        tool.and_then(|tool| member(tool, "inputSchema")).and_then(|schema| header_marks(&schema).ok());
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
        let schema = member(tool, "inputSchema")?;
        let properties: Members<Raw> = member(&schema, "properties")?.decode().ok()?;
        let marked = properties.iter().filter(|(_, property)| member(property, "x-mcp-header").is_some());
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
