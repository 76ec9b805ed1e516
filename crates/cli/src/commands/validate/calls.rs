//! `mcpjoin validate --call`: reports calls that did not test anything, for example because the tool does not exist. A
//! report without faults would hide that.

use mcpjoin::proto::Raw;
use mcpjoin_rules::{CallWarningKind, Probe, Trace};
use serde::Serialize;

use crate::args::ToolCall;
use crate::object::Object;
use crate::ui::Ui;
use crate::visible::cut_chars;

/// The longest problem.
const MAX_PROBLEM_CHARS: usize = 300;

/// A call that did not do what was intended.
#[derive(Serialize)]
pub(super) struct CallWarning {
    pub(super) tool: String,
    /// Truncated, and without secrets.
    pub(super) problem: String,
    /// The server lists the tool.
    listed: bool,
    /// The server does not list the tool, and no call of it succeeded.
    #[serde(skip)]
    pub(super) missing: bool,
}

/// The outcome of all calls of a tool.
#[derive(Debug, PartialEq, Eq)]
enum Called {
    /// A call succeeded.
    Served,
    /// All calls failed, for this reason.
    Refused(String),
    /// There was no call, or no response to it. A rule reports that.
    Unanswered,
}

/// The calls to report.
pub(super) fn notes(ui: &Ui, trace: &Trace, calls: &[ToolCall]) -> Vec<CallWarning> {
    let note = |call: &ToolCall| {
        let known: Vec<&CallWarningKind> =
            trace.calls.iter().filter(|note| *note.tool == *call.tool).map(|note| &note.problem).collect();
        let listed = !known
            .iter()
            .any(|problem| matches!(problem, CallWarningKind::NoTools | CallWarningKind::NotListed));
        let called = called(trace, &call.tool);
        let missing = !listed && called != Called::Served;
        // The same problem in each era is reported once.
        let mut problems: Vec<String> = Vec::new();
        let refused = match called {
            Called::Refused(why) => Some(why),
            Called::Served | Called::Unanswered => None,
        };
        for problem in known.iter().map(ToString::to_string).chain(refused) {
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        let problem = ui.hidden(&cut_chars(&problems.join("; "), MAX_PROBLEM_CHARS)).into_owned();
        (!problem.is_empty()).then(|| CallWarning { tool: call.tool.clone(), problem, listed, missing })
    };
    calls.iter().filter_map(note).collect()
}

fn is_called(tool: &Raw, name: &str) -> bool {
    Object::of(tool).and_then(|tool| tool.text("name")).as_deref() == Some(name)
}

/// The outcome of the calls of a tool in all runs.
fn called(trace: &Trace, tool: &str) -> Called {
    let mut called = Called::Unanswered;
    for run in &trace.runs {
        let calls = run.asked(Probe::Call);
        let named = calls.filter(|(request, _)| {
            request.params.as_ref().is_some_and(|params| is_called(params.raw(), tool))
        });
        for (_, response) in named {
            called = match response.map(|response| &response.outcome) {
                Some(Err(error)) => Called::Refused(format!(
                    "the server rejected it: error {}: {}",
                    error.code, error.message
                )),
                Some(Ok(result)) => match failed(result.raw()) {
                    Some(why) => Called::Refused(why),
                    None => return Called::Served,
                },
                None => called,
            };
        }
    }
    called
}

/// The text of a result with `isError`; `None` for any other result.
fn failed(result: &Raw) -> Option<String> {
    let result = Object::of(result)?;
    if result.value("isError").is_none_or(|flag| flag.as_str() != "true") {
        return None;
    }
    let content = result.items("content").unwrap_or_default();
    let text = content.iter().find_map(|block| Object::of(block)?.text("text")).unwrap_or_default();
    Some(format!("its result is an error (isError): {text}"))
}

#[cfg(test)]
mod tests {
    use mcpjoin::proto::{Era, Version};
    use mcpjoin_rules::{Probe, Run, Trace};

    use super::{Called, called};

    /// A run with one call of the tool and its response.
    fn run(response: &str) -> Run {
        let mut run = Run::new("session", Version::newest(Era::Legacy));
        run.sent(Probe::Call, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#);
        run.received(format!(r#"{{"jsonrpc":"2.0","id":1,{response}}}"#));
        run
    }

    #[test]
    fn a_call_that_is_served_in_one_run_is_not_reported() {
        let refused = r#""error":{"code":-32602,"message":"no y"}"#;
        let failed = r#""result":{"isError":true,"content":[{"type":"text","text":"no y"}]}"#;
        let served = r#""result":{"content":[]}"#;
        let called_by = |responses: &[&str], tool: &str| {
            let runs = responses.iter().map(|response| run(response)).collect();
            called(&Trace { runs, ..Trace::default() }, tool)
        };
        let because = |why: &str| Called::Refused(why.to_owned());
        assert_eq!(called_by(&[refused], "x"), because("the server rejected it: error -32602: no y"));
        assert_eq!(called_by(&[failed], "x"), because("its result is an error (isError): no y"));
        assert_eq!(called_by(&[refused, served], "x"), Called::Served);
        assert_eq!(called_by(&[served], "x"), Called::Served);
        assert_eq!(called_by(&[], "x"), Called::Unanswered);
        assert_eq!(called_by(&[refused], "y"), Called::Unanswered);
    }
}
