//! `mcpjoin auth explain`: the steps of discovery and login, each with the rule that it is checked against.

use std::fmt::Write;
use std::sync::Arc;

use mcpjoin::proto::session::TransportErrorKind;
use mcpjoin_auth::{
    ClientIdentity, Discovered, DiscoveryReport, ExplainOptions, OnStep, Rule, ServerAnswer, Step,
    StepResult, StepSubject, explain,
};
use serde_json::{Value, json};

use super::login::identity;
use super::{failures, format, reaching, with_access};
use crate::args;
use crate::commands::{present, print_page};
use crate::connect::{Access, refused};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::ui::{BAD, FAINT, HEADING, Ui};
use crate::visible;

const NO_OAUTH: &str = "no sign of OAuth: this server probably requires an API key or a token";
const NO_OAUTH_ADVICE: &str =
    "-H 'Authorization: Bearer KEY' with any command, or the header that the server's documentation names";
/// The width of the names of steps.
const STEP_COLUMNS: usize = 21;

/// Runs discovery and prints its steps.
pub(super) fn run(ui: &Ui, args: args::Explain) -> Result<Exit, Failure> {
    let args::Explain { target, client, reach, output: _ } = args;
    let (connect, within) = reaching(reach);
    with_access(ui, "explain", target, &connect, within, async |access| {
        failures::refuse_plain_http(access)?;
        let identity = identity(ui, &client, access)?;
        let watched = ui.clone();
        let on_step = move |step: &Step| {
            if watched.has_line() {
                watched.line(&format::step(step));
            }
        };
        let report = of(access, identity, Some(Arc::new(on_step))).await?;
        ui.line_over();
        if let Some(failure) = connect_failure(access, &report) {
            return Err(failure);
        }
        let text = if ui.json {
            let mut document = document(access.url(), &report);
            ui.hide_in(&mut document);
            visible::json(&document.to_string())
        } else {
            ui.hidden(&page(access, &report, ui.verbosity() > 0)).into_owned()
        };
        match print_page(ui, text).await {
            Exit::Done if !can_log_in(&report) => Ok(Exit::Faults),
            exit => Ok(exit),
        }
    })
}

/// Runs discovery at the server.
async fn of(
    access: &Access,
    client: ClientIdentity,
    on_step: Option<OnStep>,
) -> Result<DiscoveryReport, Failure> {
    let mut options = ExplainOptions {
        client,
        on_step,
        connect_timeout: access.connect_timeout(),
        ..ExplainOptions::default()
    };
    options.extra_ca.extend(access.extra_ca().map(<[u8]>::to_vec));
    explain(access.url(), options).await.map_err(|error| refused(&error))
}

/// The failure of a server that could not be reached.
fn connect_failure(access: &Access, report: &DiscoveryReport) -> Option<Failure> {
    let (Err(error), [step]) = (&report.outcome, &*report.steps) else { return None };
    let is_silent = step.subject == StepSubject::Server && step.tried.is_some() && step.status.is_none();
    if !is_silent {
        return None;
    }
    let kind = error.outage.unwrap_or(TransportErrorKind::Unreachable);
    Some(match kind {
        TransportErrorKind::Untrusted => access.unreached(kind, error.message.clone()),
        _ => Failure::new("E_CONNECT", Exit::Connection, Phase::Authorize, error.message.clone())
            .hint("check that a server listens there and that you can reach it"),
    })
}

/// Whether a client can use the server: it needs no login, or no failed step prevents one and the server supports OAuth.
fn can_log_in(report: &DiscoveryReport) -> bool {
    needs_no_login(report)
        || report.outcome.is_ok() && !shows_no_oauth(report) && failed_registration(report).is_none()
}

/// Whether the server refuses requests, and nothing shows that it does so by OAuth.
fn shows_no_oauth(report: &DiscoveryReport) -> bool {
    report.outcome.as_ref().is_ok_and(|discovered| discovered.assumed)
}

/// Whether the server accepts requests without a token, and does not describe a login.
fn needs_no_login(report: &DiscoveryReport) -> bool {
    report.outcome.is_err() && answer(report) == Some(ServerAnswer::Open)
}

fn answer(report: &DiscoveryReport) -> Option<ServerAnswer> {
    report.steps.first()?.answer()
}

/// The failed step behind discovery: no client could get an id.
fn failed_registration(report: &DiscoveryReport) -> Option<(&Step, &str)> {
    let ends = |step: &&Step| step.subject == StepSubject::Registration;
    report.steps.iter().filter(ends).find_map(|step| match &step.result {
        StepResult::Failed(why) => Some((step, why.as_str())),
        _ => None,
    })
}

/// For a person: each step with its request, its response and its rule, then the conclusion.
fn page(access: &Access, report: &DiscoveryReport, links: bool) -> String {
    let mut out = String::new();
    let below = |out: &mut String, label: &str, text: &str| {
        let text = visible::line(text);
        let _ = writeln!(out, "{:STEP_COLUMNS$} {FAINT}{label:<5}{FAINT:#} {text}", "");
    };
    // The last step of a server without login is the conclusion.
    let is_said_below =
        |at: usize, step: &Step| at > 0 && step.subject == StepSubject::Server && needs_no_login(report);
    for (at, step) in report.steps.iter().enumerate() {
        if is_said_below(at, step) {
            continue;
        }
        let (style, found) = match &step.result {
            StepResult::Passed => (HEADING, step.found.clone()),
            StepResult::Skipped(why) => (FAINT, format!("skipped: {why}")),
            // The reason is printed once.
            StepResult::Failed(why) if *why == step.found => (BAD, String::new()),
            StepResult::Failed(_) => (BAD, step.found.clone()),
        };
        let asked = format::asked(step);
        let mut lines: Vec<String> = asked.into_iter().chain(Some(found)).collect();
        lines.retain(|line| !line.is_empty());
        lines.iter_mut().for_each(|line| *line = visible::line(line).into_owned());
        if let StepResult::Failed(why) = &step.result {
            lines.push(format!("{BAD}failed{BAD:#} {}", visible::line(why)));
        }
        for (place, line) in lines.iter().enumerate() {
            let name = if place == 0 { step.subject.as_str() } else { "" };
            let _ = writeln!(out, "{style}{name:<STEP_COLUMNS$}{style:#} {line}");
        }
        if !matches!(step.result, StepResult::Skipped(_)) {
            below(&mut out, "rule", &rule(&step.rule, links));
        }
        if let Some(advice) = &step.advice {
            below(&mut out, "try", advice);
        }
    }
    out.push('\n');
    out.push_str(&verdict(access, report, links));
    out
}

/// The conclusion.
fn verdict(access: &Access, report: &DiscoveryReport, links: bool) -> String {
    if needs_no_login(report) {
        return format!(
            "{HEADING}no login is needed{HEADING:#}: the server answers requests without a token"
        );
    }
    let is_unknown = matches!(answer(report), Some(ServerAnswer::Failed | ServerAnswer::NoEndpoint));
    let so =
        if is_unknown { "it is not yet known whether a client can log in" } else { "no client can log in" };
    let failed = |subject: StepSubject, message: &str, of: &Rule, advice: Option<&str>| {
        format!(
            "{BAD}{so}{BAD:#}: {}\n  {FAINT}rule{FAINT:#} {}\n  {FAINT}try{FAINT:#}  {}",
            visible::line(&format!("{}: {message}", subject.as_str())),
            visible::line(&rule(of, links)),
            visible::line(advice.unwrap_or("report it to the operators of the server"))
        )
    };
    match (&report.outcome, failed_registration(report)) {
        (Ok(_), _) if shows_no_oauth(report) => format!(
            "{BAD}{NO_OAUTH}{BAD:#}\n  {FAINT}try{FAINT:#}  {}\n       {}",
            NO_OAUTH_ADVICE,
            visible::line(&format!("if the server has logins: {}", access.line(&[])))
        ),
        (Err(error), _) => failed(error.subject, &error.message, &error.rule, error.advice.as_deref()),
        (Ok(_), Some((step, why))) => failed(step.subject, why, &step.rule, step.advice.as_deref()),
        (Ok(discovered), None) => {
            let scopes = scopes(discovered).map(|scopes| format!(", for {scopes}")).unwrap_or_default();
            let has_failed = |step: &&Step| matches!(step.result, StepResult::Failed(_));
            let although = match report.steps.iter().filter(has_failed).count() {
                0 => "",
                1 => ", but one violation may stop other clients",
                _ => ", but violations may stop other clients",
            };
            format!(
                "{HEADING}a client can log in{HEADING:#}: at {}{}{although}\n  {FAINT}try{FAINT:#}  {}",
                visible::line(&discovered.issuer),
                visible::line(&scopes),
                access.line(&[])
            )
        }
    }
}

fn scopes(discovered: &Discovered) -> Option<String> {
    discovered.scopes(&[], false).map(|scopes| scopes.join(" ")).filter(|scopes| !scopes.is_empty())
}

/// The rule and its source. `links`: with the address of the source.
fn rule(rule: &Rule, links: bool) -> String {
    let source = if links { rule.source.to_owned() } else { without_links(rule.source) };
    format!("{} ({source})", rule.text)
}

/// The names of documents without their addresses.
fn without_links(source: &str) -> String {
    let words = source.split(' ').filter(|word| !word.starts_with("https://"));
    words.collect::<Vec<_>>().join(" ").trim_end_matches(':').to_owned()
}

/// For a program. Unknown values are absent.
fn document(server: &str, report: &DiscoveryReport) -> Value {
    let of_rule = |rule: &Rule| json!({ "text": rule.text, "source": rule.source });
    let steps = report.steps.iter().map(|step| {
        let (verdict, why) = match &step.result {
            StepResult::Passed => ("passed", None),
            StepResult::Skipped(why) => ("skipped", Some(why)),
            StepResult::Failed(why) => ("failed", Some(why)),
        };
        present(json!({
            "step": step.subject.as_str(),
            "verdict": verdict,
            "found": step.found,
            "rule": of_rule(&step.rule),
            "method": step.tried.as_ref().map(|tried| &tried.method),
            "url": step.tried.as_ref().map(|tried| &tried.url),
            "status": step.status,
            "contentType": step.content_type,
            "why": why,
            "advice": step.advice,
        }))
    });
    let discovered = report.outcome.as_ref().ok();
    let ways = |discovered: &Discovered| {
        discovered.ways().iter().map(|endpoint| endpoint.as_str()).collect::<Value>()
    };
    let of_no_oauth = report.steps.iter().find(|step| step.subject == StepSubject::ServerMetadata);
    let advice_of_no_oauth = Some(NO_OAUTH_ADVICE.to_owned());
    let failed = match (&report.outcome, failed_registration(report)) {
        _ if can_log_in(report) => None,
        (Ok(_), _) if shows_no_oauth(report) => {
            of_no_oauth.map(|step| (step.subject, NO_OAUTH, &step.rule, &advice_of_no_oauth))
        }
        (Err(error), _) => Some((error.subject, error.message.as_str(), &error.rule, &error.advice)),
        (Ok(_), registration) => {
            registration.map(|(step, why)| (step.subject, why, &step.rule, &step.advice))
        }
    };
    let failed = failed.map(|(subject, message, rule, advice)| {
        present(json!({
            "step": subject.as_str(),
            "message": message,
            "rule": of_rule(rule),
            "advice": advice,
        }))
    });
    present(json!({
        "server": server,
        "canLogIn": can_log_in(report),
        "steps": steps.collect::<Value>(),
        "loginNeeded": !needs_no_login(report),
        "resource": discovered.map(|discovered| &discovered.resource),
        "issuer": discovered.map(|discovered| &discovered.issuer),
        "registration": discovered.map(ways),
        "scopes": discovered.and_then(|discovered| discovered.scopes(&[], false)),
        "failed": failed,
    }))
}
