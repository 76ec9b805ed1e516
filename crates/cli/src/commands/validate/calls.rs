//! `mcpjoin validate --call`: what became of the calls that were asked for. A call of a tool that is not there judges
//! nothing, and a report without faults would hide that.

use mcpjoin::check::{Probe, Trace, What};
use mcpjoin::proto::{Message, Raw, Response};
use serde_json::{Value, json};

use super::compatibility::listed;
use super::report::cut;
use crate::args::ToolCall;
use crate::object::Object;
use crate::ui::Ui;

/// Of what a server says so many characters are kept.
const KEPT: usize = 300;

/// A call that shows less of a server than it was meant to.
pub(super) struct Note {
    pub(super) tool: String,
    /// What is the matter: cut, and without secrets.
    pub(super) problem: String,
    /// The server does not have it.
    pub(super) missing: bool,
}

impl Note {
    /// For a program.
    pub(super) fn json(&self) -> Value {
        json!({ "tool": self.tool, "problem": self.problem, "listed": !self.missing })
    }
}

/// What is to be told of the calls that were asked for.
pub(super) fn notes(ui: &Ui, trace: &Trace, calls: &[ToolCall]) -> Vec<Note> {
    if calls.is_empty() {
        return Vec::new();
    }
    let tools = listed(trace);
    let note = |call: &ToolCall| {
        let (missing, problem) = match &tools {
            None => (true, "the server lists no tools".to_owned()),
            Some(tools) if !tools.iter().any(|tool| is_called(tool, &call.tool)) => {
                (true, "the server lists no tool of this name".to_owned())
            }
            Some(_) => (false, refusal(trace, &call.tool)?),
        };
        let problem = ui.hidden(&cut(&problem, KEPT)).into_owned();
        Some(Note { tool: call.tool.clone(), problem, missing })
    };
    calls.iter().filter_map(note).collect()
}

fn is_called(tool: &Raw, name: &str) -> bool {
    Object::of(tool).and_then(|tool| tool.text("name")).as_deref() == Some(name)
}

/// Why a call of the tool has not done what it does, where no call of it has.
fn refusal(trace: &Trace, tool: &str) -> Option<String> {
    let mut refused = None;
    for run in &trace.runs {
        let asked = run.events.iter().filter_map(|event| match &event.what {
            What::Sent(Probe::Call, line) => line.parts().find_map(|part| match part {
                Ok(Message::Request(request)) => Some(request),
                _ => None,
            }),
            _ => None,
        });
        let named =
            asked.filter(|asked| asked.params.as_ref().is_some_and(|params| is_called(params.raw(), tool)));
        for asked in named {
            let answer = run.events.iter().find_map(|event| match &event.what {
                What::Received(line) => line.parts().find_map(|part| match part {
                    Ok(Message::Response(Response { id: Some(id), outcome })) if *id == asked.id => {
                        Some(outcome)
                    }
                    _ => None,
                }),
                _ => None,
            });
            match answer {
                Some(Err(error)) => {
                    refused =
                        Some(format!("the server has refused it: error {}: {}", error.code, error.message));
                }
                // One that is served shows what it was meant to.
                Some(Ok(result)) => refused = Some(failed(result.raw())?),
                None => {}
            }
        }
    }
    refused
}

/// What a result says that is an error of the tool; `None` for any other.
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
    use mcpjoin::check::{Probe, Run, Trace};
    use mcpjoin::proto::{Era, Version};

    use super::refusal;

    /// A run in which the tool is called, and this is the answer.
    fn run(answer: &str) -> Run {
        let mut run = Run::new("session", Version::newest(Era::Legacy));
        run.sent(Probe::Call, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#);
        run.received(format!(r#"{{"jsonrpc":"2.0","id":1,{answer}}}"#));
        run
    }

    #[test]
    fn a_call_that_is_served_in_one_run_is_not_told() {
        let refused = r#""error":{"code":-32602,"message":"no y"}"#;
        let failed = r#""result":{"isError":true,"content":[{"type":"text","text":"no y"}]}"#;
        let served = r#""result":{"content":[]}"#;
        let told = |answers: &[&str]| {
            let runs = answers.iter().map(|answer| run(answer)).collect();
            refusal(&Trace { runs, ..Trace::default() }, "x")
        };
        assert_eq!(told(&[refused]).as_deref(), Some("the server has refused it: error -32602: no y"));
        assert_eq!(told(&[failed]).as_deref(), Some("its result is an error (isError): no y"));
        assert_eq!(told(&[refused, served]), None);
        assert_eq!(told(&[served]), None);
        assert_eq!(told(&[]), None);
        assert_eq!(refusal(&Trace { runs: vec![run(refused)], ..Trace::default() }, "y"), None);
    }
}
