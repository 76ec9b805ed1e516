//! What is to be said of a conversation over HTTP that has worked: of its session, its transport and its end.

use super::super::course::Course;
use super::super::report::{Check, Finding, Phase};
use super::exchanges::{Exchange, lines};
use super::{answers, statuses};
use mcpjoin::link::HttpWay;

/// The number of the exchange in which `initialize` went well.
fn initialized(all: &[Exchange]) -> Option<usize> {
    all.iter().position(|exchange| exchange.about == "initialize" && exchange.is_success())
}

/// Whether a session was given out: a server without any cannot lose one.
fn has_session(all: &[Exchange]) -> bool {
    all.iter()
        .any(|exchange| exchange.about == "initialize" && exchange.head().is_some_and(|head| head.session))
}

/// Which way of HTTP it was. `asked`: HTTP+SSE was asked for.
pub(super) fn way(course: &mut Course, way: Option<HttpWay>, asked: bool, url: &str) {
    if way != Some(HttpWay::HttpSse) || asked {
        return course.pass(Check::Endpoint);
    }
    course.fault(Finding::new(
        "http-sse",
        Check::Endpoint,
        Phase::Initialize,
        "the server speaks HTTP+SSE of 2024-11-05, and no Streamable HTTP",
        "clients of today fail, or find it out anew each time: this transport was replaced in 2025-03-26",
        format!("write sse+{url}, update the server, or stand mcpjoin bridge before it"),
    ));
}

/// The session, and what the bodies are said to be. `streamable`: it is no HTTP+SSE.
pub(super) fn judged(course: &mut Course, all: &[Exchange], streamable: bool) {
    let untyped = all.iter().find(|exchange| {
        exchange.is_request()
            && exchange.status() == Some(200)
            && exchange.head().is_some_and(|head| head.content_type.is_none())
    });
    match untyped.filter(|_| streamable) {
        Some(exchange) => course.fault(Finding::new(
            "content-type",
            Check::Body,
            Phase::List,
            format!("{exchange}, without a Content-Type"),
            "a reply is application/json or text/event-stream, and says so: other clients do not read it",
            "let the server send Content-Type: application/json",
        )),
        None => course.pass(Check::Body),
    }
    let redirected = all.iter().filter_map(Exchange::head).find_map(|head| match head.status {
        300..=399 => head.location.as_ref(),
        _ => None,
    });
    if let Some(location) = redirected {
        course.notes.push(format!("requests are redirected to {location}: that URL saves a way"));
    }
    let Some(place) = initialized(all) else {
        return course.not_run([Check::Session], "there is no session");
    };
    let after = &all[place + 1..];
    let again = after.iter().any(|exchange| exchange.about == "initialize");
    let told = after.iter().find(|exchange| exchange.about == "notifications/initialized");
    let refused = told.filter(|exchange| exchange.status().is_some_and(|status| status >= 400));
    let lost = after.iter().find(|exchange| exchange.method == "POST" && exchange.status() == Some(404));
    let session = has_session(all);
    if session && (again || lost.is_some()) {
        if course.findings_mut().iter().any(|finding| finding.id == "session-lost") {
            course.not_run([Check::Session], "its loss is told with the list");
        } else {
            course.fault(lost_session(Phase::List, lost, all));
        }
    } else if let Some(exchange) = refused {
        let mut found = Finding::new(
            "initialized-refused",
            Check::Session,
            Phase::Initialize,
            exchange.to_string(),
            "the server answers initialize and refuses the notification that ends the opening: other clients stop here",
            super::super::diagnosis::AUTHORS,
        );
        found.evidence.requests = lines(all);
        course.fault(found);
    } else if session {
        course.pass(Check::Session);
    } else {
        course.not_run([Check::Session], "there is no session");
    }
}

/// The server does not know its own session.
fn lost_session(phase: Phase, exchange: Option<&Exchange>, all: &[Exchange]) -> Finding {
    let seen =
        exchange.map_or_else(|| "a session had to be opened a second time".to_owned(), ToString::to_string);
    let mut found = Finding::new(
        "session-lost",
        Check::Session,
        phase,
        format!("the server does not know the session that it has just opened: {seen}"),
        "requests go to several servers in turn of which each knows its own sessions alone, or the server forgets them: \
         clients that do not open a new session fail",
        "let the balancer send one client to one server, share the sessions, or let the server keep none",
    );
    found.evidence.requests = lines(all);
    found
}

/// A list that could not be read, where the answer says why.
pub(super) fn of_list(finding: &mut Finding, all: &[Exchange], authorized: bool) {
    let last = all.iter().rev().find(|exchange| {
        exchange.is_request()
            && finding.seen.contains(&format!("({})", exchange.about))
            && !exchange.is_success()
    });
    let Some(exchange) = last else { return };
    let body = answers::excerpt(&finding.seen);
    let better = match exchange.status() {
        Some(404) if has_session(all) => Some(lost_session(Phase::List, Some(exchange), all)),
        // At this path there is an MCP server.
        Some(404 | 405 | 410 | 501) => None,
        _ => statuses::refused(Phase::List, exchange, answers::words(&finding.seen), authorized),
    };
    if let Some(better) = better {
        let mut evidence = better.evidence;
        evidence.error = finding.evidence.error.take();
        evidence.body = body;
        evidence.requests = lines(all);
        // It is still this list that could not be read.
        *finding = Finding { check: finding.check, evidence, ..better };
    } else {
        finding.evidence.body = body;
        finding.evidence.requests = lines(all);
    }
}

/// How the session was left, in one line; what the server has against it.
pub(super) fn left(course: &mut Course, all: &[Exchange], streamable: bool) {
    if !streamable || !has_session(all) {
        course.not_run([Check::Farewell], "there is no session");
        return course.end("nothing to be ended".into());
    }
    let last = all.iter().rev().find(|exchange| exchange.method == "DELETE");
    let (seen, meaning) = match last.map(|exchange| (exchange, exchange.status())) {
        // 405: the server ends its sessions itself. 404: it has.
        Some((exchange, Some(200..=299 | 404 | 405))) => {
            course.pass(Check::Farewell);
            return course.end(exchange.to_string());
        }
        Some((exchange, _)) => (
            exchange.to_string(),
            "the session that we have ended stays with the server, as that of every client: they pile up",
        ),
        None => (
            "the server says nothing to the end of the session within 1 s".to_owned(),
            "it may keep the session, as that of every client: they pile up; clients that wait for it hang",
        ),
    };
    course.fail(Finding::new(
        "session-end",
        Check::Farewell,
        Phase::ShutDown,
        seen,
        meaning,
        "let the server answer DELETE with 200 or 204, or with 405 where sessions end by themselves",
    ));
}
