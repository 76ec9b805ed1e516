//! A tool that asks for input: it is called with everything declared that may be asked for, and called again without what
//! it has asked for, with something else, and with everything declined. Nothing is ever agreed to.
//!
//! Called where calls of what only reads were allowed, in the modern era.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

use mcpjoin_proto::types::Members;
use mcpjoin_proto::{Method, Raw};
use mcpjoin_rules::Probe;

use super::super::probes::{self, Manner};
use super::super::runs::{control, member};
use super::calls::call;
use super::{Ask, Question, text};

/// So many tools are tried until one asks.
const MOST_TRIED: usize = 3;
/// What is answered though nobody has asked it.
const UNASKED: &str = "mcpjoin-unasked";

/// What a tool has asked for.
struct Wanted {
    /// The name of each request, with its method.
    requests: Vec<(String, String)>,
    state: Option<Raw>,
}

/// `tools`: those that need what we have not declared.
pub(super) async fn look(run: &mut impl Ask, manner: &Manner, tools: &[(String, &Raw)]) {
    for (name, tool) in tools.iter().take(MOST_TRIED) {
        let Some(wanted) = asked(run, name, tool).await.filter(|wanted| !wanted.requests.is_empty()) else {
            continue;
        };
        let nothing = Raw::empty_object();
        run.ask(again(Probe::NoInput, name, tool, nothing, wanted.state)).await;
        // A state may be good for one try.
        if let Some(wanted) = asked(run, name, tool).await {
            run.ask(again(Probe::BadInput, name, tool, Raw::string("mcpjoin"), wanted.state)).await;
        }
        for probe in [Probe::Declined, Probe::UnknownInput] {
            let Some(wanted) = asked(run, name, tool).await else { return };
            let more = probe == Probe::UnknownInput;
            let Some(answers) = declined(&wanted.requests, more) else { return };
            run.ask(again(probe, name, tool, answers, wanted.state)).await;
            let person = wanted.requests.iter().any(|(_, method)| method == Method::Elicit.as_str());
            if !more && person {
                run.ask(Question::new(Probe::AfterDecline, Method::parse(control(manner)))).await;
            }
        }
        return;
    }
}

/// Calls a tool that may ask, and gives what it has asked for.
async fn asked(run: &mut impl Ask, name: &str, tool: &Raw) -> Option<Wanted> {
    let question = call(Probe::MayAsk, name, Some(tool), &Raw::empty_object());
    let result = run.ask(Question { capabilities: probes::EVERYTHING, ..question }).await?.ok()?;
    text(result.raw(), "resultType").filter(|kind| kind == "input_required")?;
    let requests: Option<Members<Raw>> =
        member(result.raw(), "inputRequests").and_then(|requests| requests.decode().ok());
    let requests = requests.unwrap_or_default();
    let requests =
        requests.iter().map(|(name, request)| (name.to_owned(), text(request, "method").unwrap_or_default()));
    Some(Wanted { requests: requests.collect(), state: member(result.raw(), "requestState") })
}

/// The same call with that in place of the answers.
fn again<'q>(probe: Probe, name: &str, tool: &Raw, answers: Raw, state: Option<Raw>) -> Question<'q> {
    let question = call(probe, name, Some(tool), &Raw::empty_object()).with("inputResponses", answers);
    let question = match state {
        Some(state) => question.with("requestState", state),
        None => question,
    };
    Question { capabilities: probes::EVERYTHING, ..question }
}

/// Answers that agree to nothing; `None` where something cannot be declined. `more`: with one that nobody has asked for.
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
        answers.push(format!("\"{UNASKED}\":{NO}"));
    }
    Raw::parse(format!("{{{}}}", answers.join(","))).ok()
}
