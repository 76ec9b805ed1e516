//! The session over HTTP: its transport and its end, the clock of the server, and how a client would log in.
//!
//! Used by the examination over HTTP. The clock is read from the `Date` of responses
//! (<https://www.rfc-editor.org/rfc/rfc9110#name-date>); which of the two clocks is wrong is not known. The login takes the
//! discovery steps of `mcpjoin auth explain`: it registers nothing and sends no token
//! (<https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>).

use super::super::examination::Examination;
use super::super::findings::*;
use super::super::report::{Check, Finding, Phase};
use super::exchanges::{Exchange, MAX_SHOWN_EXCHANGES};
use super::responses;
use mcpjoin::transport::HttpConnect;
use mcpjoin_auth::{DiscoveryReport, ExplainOptions, Step, StepResult, explain};

/// How far apart the clocks may be, in seconds: the leeway for a token is "no more than a few minutes"
/// (<https://www.rfc-editor.org/rfc/rfc7519#section-4.1.4>).
const MAX_CLOCK_DIFFERENCE_SECONDS: u64 = 300;

const NO_SESSION: &str = "there is no session";

/// Whether the server gave out a session id. A server that gives none cannot lose a session.
fn has_session(all: &[Exchange]) -> bool {
    all.iter()
        .any(|exchange| exchange.about == "initialize" && exchange.head().is_some_and(|head| head.session))
}

/// Checks the transport. `sse_only`: it is HTTP+SSE, which was not asked for.
pub(super) fn check_transport(exam: &mut Examination, sse_only: bool, url: &str) {
    let seen = "the server supports only HTTP+SSE of 2024-11-05, and not Streamable HTTP";
    let fault = sse_only.then(|| HTTP_SSE.with(Phase::Initialize, seen, &[("url", url)]));
    exam.decide(Check::Endpoint, fault);
}

/// Checks the content types and the session of a conversation.
pub(super) fn check(exam: &mut Examination, all: &[Exchange], is_sse: bool) {
    let untyped = all.iter().find(|exchange| {
        exchange.is_request()
            && exchange.status() == Some(200)
            && exchange.head().is_some_and(|head| head.content_type.is_none())
    });
    let fault = untyped
        .filter(|_| !is_sse)
        .map(|exchange| NO_CONTENT_TYPE.at(Phase::List, format!("{exchange}, without a Content-Type")));
    exam.decide(Check::Body, fault);
    let redirected = all.iter().filter_map(Exchange::head).find_map(|head| match head.status {
        300..=399 => head.location.as_ref(),
        _ => None,
    });
    if let Some(location) = redirected {
        let note = format!("requests are redirected to {location}: use that URL to avoid it");
        exam.report.notes.push(note);
    }
    let is_initialize = |exchange: &Exchange| exchange.about == "initialize";
    let opened = all.iter().position(|exchange| is_initialize(exchange) && exchange.is_success());
    let Some(opened) = opened else { return exam.not_run([Check::Session], NO_SESSION) };
    let after = &all[opened + 1..];
    let lost = after.iter().find(|exchange| exchange.method == "POST" && exchange.status() == Some(404));
    let initialized = after.iter().find(|exchange| exchange.about == "notifications/initialized");
    let refused = initialized.filter(|exchange| exchange.status().is_some_and(|status| status >= 400));
    let has_session = has_session(all);
    if has_session && (lost.is_some() || after.iter().any(is_initialize)) {
        if exam.findings_of(&SESSION_LOST).next().is_some() {
            exam.not_run([Check::Session], "the loss is reported with the list");
        } else {
            exam.add(session_lost(lost, all));
        }
    } else if let Some(exchange) = refused {
        exam.add(INITIALIZED_REFUSED.at(Phase::Initialize, exchange.to_string()).with_requests(all));
    } else if has_session {
        exam.pass([Check::Session]);
    } else {
        exam.not_run([Check::Session], NO_SESSION);
    }
}

/// The server does not know its own session. `exchange`: the one in which it says so.
fn session_lost(exchange: Option<&Exchange>, all: &[Exchange]) -> Finding {
    let how =
        exchange.map_or_else(|| "the session had to be opened a second time".to_owned(), ToString::to_string);
    let seen = format!("the server does not know the session that it has just opened: {how}");
    SESSION_LOST.at(Phase::List, seen).with_requests(all)
}

/// Makes the finding of a list that could not be read more precise, by the response to its request.
pub(super) fn refine_list(finding: &mut Finding, all: &[Exchange], authorized: bool) {
    let Some(lost) = finding.lost.take() else { return };
    let is_lost = |exchange: &&Exchange| {
        exchange.is_request() && lost.http_request() == Some(&exchange.about) && !exchange.is_success()
    };
    let Some(exchange) = all.iter().rev().find(is_lost) else { return };
    let precise = match exchange.status() {
        Some(404) if has_session(all) => Some(session_lost(Some(exchange), all)),
        // There is an MCP server at this path.
        Some(404 | 405 | 410 | 501) => None,
        _ => {
            let said = responses::server_words(&lost);
            responses::by_status(Phase::List, exchange, &said, authorized)
        }
    };
    let (check, error) = (finding.check, finding.evidence.error.take());
    let refined = precise.unwrap_or_else(|| finding.clone()).with_requests(all);
    // The check is still that of the list.
    *finding = Finding { check, ..refined };
    finding.evidence.error = error;
    finding.evidence.body = responses::excerpt(&lost);
}

/// Ends the phase in which the session was ended.
pub(super) fn check_end(exam: &mut Examination, all: &[Exchange], is_sse: bool) {
    if is_sse || !has_session(all) {
        exam.not_run([Check::Farewell], NO_SESSION);
        return exam.end("no session to end");
    }
    let finding = match all.iter().rev().find(|exchange| exchange.method == "DELETE") {
        // 405: sessions end by themselves. 404: this one has ended.
        Some(exchange) if matches!(exchange.status(), Some(200..=299 | 404 | 405)) => {
            exam.pass([Check::Farewell]);
            return exam.end(exchange.to_string());
        }
        Some(exchange) => SESSION_END_REFUSED.at(Phase::ShutDown, exchange.to_string()),
        None => {
            let seen = "the server did not respond to the end of the session within 500 ms";
            SESSION_END_UNANSWERED.at(Phase::ShutDown, seen)
        }
    };
    exam.fail(finding);
}

/// Checks the clock of the server against ours.
pub(super) fn check_clock(exam: &mut Examination, all: &[Exchange]) {
    let Some(ahead) = all.iter().filter_map(|exchange| exchange.head()?.seconds_ahead).next_back() else {
        return exam.not_run([Check::Clock], "the response has no Date");
    };
    let fault = (ahead.unsigned_abs() > MAX_CLOCK_DIFFERENCE_SECONDS).then(|| {
        let (how, span) = (if ahead > 0 { "later" } else { "earlier" }, span(ahead.unsigned_abs()));
        let seen = format!("the clock of the responding server is {span} {how} than ours");
        CLOCKS_APART.at(Phase::Connect, seen)
    });
    exam.decide(Check::Clock, fault);
}

/// `2 h 5 min`, `3 days`.
fn span(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes} min"),
        (0, _) => format!("{hours} h {minutes} min"),
        (1, _) => format!("1 day {hours} h"),
        _ => format!("{days} days"),
    }
}

/// Finds out how a client would log in to a server that answered 401. The existing finding then says what to do, or another
/// one which step fails.
pub(super) async fn check_login(exam: &mut Examination, connect: &HttpConnect, server: &str) {
    exam.begin(Phase::Authorization);
    let options = ExplainOptions {
        extra_ca: connect.authorities().to_vec(),
        connect_timeout: Some(connect.connect_within()),
        ..ExplainOptions::default()
    };
    // The same options made the link, so that this does not fail.
    let Ok(discovery) = explain(connect.url(), options).await else { return };
    match &discovery.outcome {
        Ok(found) if found.assumed => {
            for finding in exam.findings_of(&NOT_AUTHORIZED) {
                finding.advice = format!(
                    "send the key with -H 'Authorization: Bearer KEY', or the header in its documentation: \
                     there is no sign of OAuth, so this server probably requires an API key or a token. If \
                     it has logins: mcpjoin auth login {server}"
                );
            }
            exam.end("no sign of OAuth");
        }
        Ok(found) => {
            for finding in exam.findings_of(&NOT_AUTHORIZED) {
                finding.advice = format!(
                    "mcpjoin auth login {server} (with your own token: --header 'Authorization: Bearer \
                     TOKEN', or @FILE)"
                );
            }
            exam.end(format!("a client can log in at {}", found.issuer));
        }
        Err(error) => {
            let advice = error.advice.as_deref().unwrap_or("report it to the operators of the server");
            let values = [("rule", error.rule.text), ("source", error.rule.source), ("advice", advice)];
            let seen = format!("{}: {}", error.subject, error.message);
            let mut finding = LOGIN_BROKEN.with(Phase::Authorization, seen, &values);
            finding.evidence.requests = discovery_requests(&discovery);
            exam.fail(finding);
        }
    }
}

/// The requests of the discovery, with the outcome of each.
fn discovery_requests(discovery: &DiscoveryReport) -> Vec<String> {
    let shown = |step: &Step| {
        let tried = step.tried.as_ref()?;
        let what = match &step.result {
            StepResult::Passed => &step.found,
            StepResult::Skipped(why) | StepResult::Failed(why) => why,
        };
        let status = step.status.map(|status| format!(" {status}")).unwrap_or_default();
        Some(format!("{} {}{status}: {what}", tried.method, tried.url))
    };
    discovery.steps.iter().filter_map(shown).take(MAX_SHOWN_EXCHANGES).collect()
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn a_difference_of_clocks_is_reported_in_minutes_hours_or_days() {
        for (seconds, text) in
            [(301, "5 min"), (7500, "2 h 5 min"), (90_000, "1 day 1 h"), (260_000, "3 days")]
        {
            assert_eq!(span(seconds), text);
        }
    }
}
