//! A tool that asks for input: it is called with every capability declared, and called again without the input, with
//! another value, and with everything declined. No request for input is ever accepted.
//!
//! Used in the modern era, where the user has allowed calls of tools that only read.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

use mcpjoin_proto::types::Members;
use mcpjoin_proto::{Method, Raw};
use mcpjoin_rules::Probe;

use super::super::probes;
use super::calls::call;
use super::text;
use crate::engine::Session;
use crate::engine::message::{Question, member};

/// Tools that are called until one asks for input.
const MAX_TRIED: usize = 3;
/// A name that no request for input has.
const UNKNOWN_INPUT: &str = "mcpjoin-unasked";

/// The input that a tool has asked for.
struct Wanted {
    /// The name and the method of each request.
    requests: Vec<(String, String)>,
    state: Option<Raw>,
}

/// `tools`: those that need capabilities that we have not declared.
pub(super) async fn look(session: &mut impl Session, tools: &[(String, &Raw)]) {
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
        member(result.raw(), "inputRequests").and_then(|requests| requests.decode().ok());
    let requests = requests.unwrap_or_default();
    let requests =
        requests.iter().map(|(name, request)| (name.to_owned(), text(request, "method").unwrap_or_default()));
    Some(Wanted { requests: requests.collect(), state: member(result.raw(), "requestState") })
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
