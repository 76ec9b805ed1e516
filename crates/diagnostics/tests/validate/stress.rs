//! Tests of servers over HTTP under stress. Our own server passes, and each fault in front of it is found by its rule and by
//! no other.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ::http::Method;
use ::http::request::Parts;
use mcpjoin::Link;
use mcpjoin::proto::Raw;
use mcpjoin::proto::session::Limits;
use mcpjoin_diagnostics::validate::Validator;

use super::demo::Demo;
use super::fault::Fault;
use super::front::{Front, Raw as Bytes, Reply, full, looked, server};
use mcpjoin_rules::{Outcome, Selection, Trace, check_server};

/// A slow tool of the demonstration server that sends progress.
const SLOW: &str = "test_tool_with_progress";

/// The rules of the chapter of resilience, and whether each has passed, failed or was skipped.
fn said(trace: &Trace) -> Vec<(&'static str, &'static str)> {
    let report = check_server(trace, &Selection::new(["resilience"], []).unwrap());
    let said = report.results.iter().map(|result| {
        let outcome = match &result.outcome {
            Outcome::Passed => "passed",
            Outcome::Skipped(_) => "skipped",
            Outcome::Failed(_) => "failed",
        };
        (result.rule.slug, outcome)
    });
    said.collect()
}

fn of<'s>(said: &[(&'s str, &str)], outcome: &str) -> Vec<&'s str> {
    said.iter().filter(|(_, said)| *said == outcome).map(|(slug, _)| *slug).collect()
}

/// Rules that are checked only for a server that the validator has started.
const OF_PROCESSES: [&str; 4] =
    ["ends-in-mid-request", "ends-unasked", "ends-at-sigterm", "same-after-restart"];

#[tokio::test]
async fn f27_our_server_bears_it_over_http() {
    let demo = Demo::Full.server(Limits::default()).unwrap();
    let front = Front::of(&demo, Fault { whole: true, ..Fault::default() }).await;
    let validator = front.validator().resilience().call(SLOW, Some(Raw::empty_object()));
    let said = said(&looked(validator).await.unwrap());
    assert_eq!(of(&said, "failed"), [""; 0]);
    assert_eq!(of(&said, "skipped"), OF_PROCESSES);
    // Only named tools are called.
    let front = Front::of(&demo, Fault::default()).await;
    let quiet = self::said(&looked(front.validator().resilience()).await.unwrap());
    assert_eq!(of(&quiet, "failed"), [""; 0]);
    assert!(!front.came.lock().unwrap().iter().any(|body| body.contains("tools/call")));
}

#[tokio::test]
async fn f27_our_server_bears_it_over_http_sse() {
    let demo = Demo::Full.server(Limits::default()).unwrap();
    let front = Front::of(&demo, Fault::default()).await;
    let said = said(&looked(over_sse(&front)).await.unwrap());
    assert_eq!(of(&said, "failed"), [""; 0]);
    // A stream of that transport cannot be resumed.
    assert_eq!(of(&said, "skipped"), [&OF_PROCESSES[..], &["cut-stream-resumed"]].concat());
    assert!(!front.came.lock().unwrap().iter().any(|body| body.contains("tools/call")));
}

fn over_sse(front: &Front) -> Validator {
    Validator::http(Link::http(front.url.replace("/mcp", "/sse")).legacy_sse()).resilience()
}

type Instead = Box<dyn Fn(&Parts, &str) -> Option<Reply> + Send + Sync>;

fn asks(body: &str, method: &str, id: impl Fn(u64) -> bool) -> bool {
    let message: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    message["method"] == method && message["id"].as_u64().is_some_and(id)
}

fn broken() -> Option<Reply> {
    Some(full(500, "text/plain", "not today"))
}

/// Breaks the response to the first `server/discover` after a request that `begins` accepts.
fn next(begins: impl Fn(&Parts, &str) -> bool + Send + Sync + 'static) -> Instead {
    let (due, begins) = (AtomicBool::new(false), begins);
    Box::new(move |head, body| {
        if begins(head, body) {
            due.store(true, Ordering::Relaxed);
        } else if body.contains("server/discover") && due.swap(false, Ordering::Relaxed) {
            return broken();
        }
        None
    })
}

/// Faults of a server of the modern era.
fn modern() -> Vec<(&'static str, Instead)> {
    // Matches one request by its id and by the requests before it, which follow an abandoned request.
    let after = |before: &'static [(&'static str, u64)], now: u64| {
        let last = Mutex::new(VecDeque::<String>::new());
        move |_: &Parts, body: &str| {
            if body.is_empty() {
                return None;
            }
            let mut last = last.lock().unwrap();
            let left = last.len() == before.len()
                && last
                    .iter()
                    .zip(before)
                    .all(|(body, (method, wanted))| asks(body, method, |id| id == *wanted));
            last.push_back(body.to_owned());
            if last.len() > before.len() {
                last.pop_front();
            }
            if left && asks(body, "server/discover", |id| id == now) { broken() } else { None }
        }
    };
    vec![
        (
            "many-requests-answered",
            Box::new(|_, body| if asks(body, "server/discover", |id| id > 40) { broken() } else { None }),
        ),
        (
            "slow-reader-loses-nothing",
            Box::new(|_, body| if asks(body, "tools/list", |id| id > 14) { broken() } else { None }),
        ),
        ("large-request-survived", next(|_, body| body.len() > 100_000)),
        (
            "request-in-pieces-answered",
            Box::new(|head, body| {
                let bytes = head
                    .extensions
                    .get::<Bytes>()
                    .map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned());
                let came = bytes.and_then(|bytes| bytes.split_once("\r\n\r\n").map(|(_, came)| came.len()));
                let partly = came.is_some_and(|came| came > 0 && came < body.len() && body.len() < 10_000);
                if partly { Some(full(400, "text/plain", "unexpected end of input")) } else { None }
            }),
        ),
        ("hang-up-survived", Box::new(after(&[("tools/list", 11)], 12))),
        ("half-request-survived", Box::new(after(&[("tools/list", 11), ("server/discover", 12)], 6))),
    ]
}

/// Faults of a server of the legacy era.
fn legacy() -> Vec<(&'static str, Instead)> {
    let ended = AtomicBool::new(false);
    vec![
        // The end of one session ends all sessions.
        (
            "many-sessions-borne",
            Box::new(move |head, body| {
                if head.method == Method::DELETE {
                    ended.store(true, Ordering::Relaxed);
                } else if body.contains("\"initialize\"") {
                    ended.store(false, Ordering::Relaxed);
                }
                let gone = ended.load(Ordering::Relaxed) && body.contains("\"ping\"");
                if gone { Some(full(400, "text/plain", "no such session")) } else { None }
            }),
        ),
        (
            "cut-stream-resumed",
            Box::new(|head, _| {
                let resumes = head.headers.contains_key("last-event-id");
                if resumes { Some(full(404, "text/plain", "what stream?")) } else { None }
            }),
        ),
    ]
}

#[tokio::test]
async fn f27_each_fault_of_a_server_under_stress_over_http_is_found_by_its_rule_and_by_no_other() {
    let (plain, demo) = (server(&[]), Demo::Full.server(Limits::default()).unwrap());
    let mut looks = tokio::task::JoinSet::new();
    for (is_modern, (rule, instead)) in modern()
        .into_iter()
        .map(|fault| (true, fault))
        .chain(legacy().into_iter().map(|fault| (false, fault)))
    {
        let server = if is_modern { plain.clone() } else { demo.clone() };
        looks.spawn(async move {
            let front = Front::of(&server, Fault { instead: Arc::from(instead), ..Fault::default() }).await;
            let validator: Validator = front.validator().resilience();
            let validator = if is_modern {
                validator.without_legacy()
            } else {
                validator.without_modern().call(SLOW, None)
            };
            let said = said(&looked(validator).await.unwrap());
            let failed = of(&said, "failed");
            (failed != [rule]).then(|| format!("{rule}: {failed:?}"))
        });
    }
    let mut wrong: Vec<String> = looks.join_all().await.into_iter().flatten().collect();
    wrong.sort();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Faults of a server over HTTP+SSE: a request is refused after a given number of sessions were opened.
fn http_sse() -> Vec<(&'static str, Instead)> {
    let of = |sessions: usize, method: &'static str, wanted: fn(u64) -> bool| -> Instead {
        let opened = AtomicUsize::new(0);
        Box::new(move |_, body| {
            if asks(body, "initialize", |_| true) {
                opened.fetch_add(1, Ordering::Relaxed);
            }
            let due = opened.load(Ordering::Relaxed) == sessions && asks(body, method, wanted);
            if due { broken() } else { None }
        })
    };
    vec![
        ("many-requests-answered", of(2, "ping", |id| id > 40)),
        ("slow-reader-loses-nothing", of(3, "tools/list", |id| id > 14)),
        ("large-request-survived", of(4, "ping", |id| id == 3)),
        ("request-in-pieces-answered", of(5, "ping", |id| id == 2)),
        ("hang-up-survived", of(6, "ping", |id| id == 13)),
        ("half-request-survived", of(7, "ping", |id| id == 7)),
        ("many-sessions-borne", of(27, "ping", |id| id == 3)),
    ]
}

#[tokio::test]
async fn f27_each_fault_of_a_server_under_stress_over_http_sse_is_found_by_its_rule_and_by_no_other() {
    let plain = server(&[]);
    let mut looks = tokio::task::JoinSet::new();
    for (rule, instead) in http_sse() {
        let plain = plain.clone();
        looks.spawn(async move {
            let front = Front::of(&plain, Fault { instead: Arc::from(instead), ..Fault::default() }).await;
            let said = said(&looked(over_sse(&front)).await.unwrap());
            let failed = of(&said, "failed");
            (failed != [rule]).then(|| format!("{rule}: {failed:?}"))
        });
    }
    let mut wrong: Vec<String> = looks.join_all().await.into_iter().flatten().collect();
    wrong.sort();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
