//! Tests that each fault of the table is found by its rule, and by no other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use mcpjoin::proto::session::Limits;
use mcpjoin::proto::{Era, Raw, Version};
use mcpjoin::transport::SocketError;
use mcpjoin::{Link, Server};
use mcpjoin_diagnostics::validate::Validator;
use mcpjoin_rules::{CallWarningKind, Chapter, Outcome, Report, Trace, rules};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::demo::Demo;
use super::fault::{Fault, Look, Of, Over, Row, modern};
use super::front::{Front, SLOW, checked, failed, looked, outcome, server, small};
use super::lines;
use super::table::{NONE, features, http, protocol, rows};

/// A timeout above any response time on a busy machine, so that slowness is never an additional fault.
const PATIENCE: Duration = Duration::from_secs(120);
/// The number of servers validated over HTTP at the same time.
const AT_ONCE: u32 = 8;

const EVERY: [Of; 6] = [Of::Introduction, Of::Demo, Of::ModernAlone, Of::Plain, Of::Bare, Of::Small];

fn clean(of: Of) -> Server {
    match of {
        Of::Introduction => Demo::Introduction.server(Limits::default()).unwrap(),
        Of::Demo => Demo::Full.server(Limits::default()).unwrap(),
        Of::ModernAlone => server(&[Version::newest(Era::Modern)]),
        Of::Plain => server(&[]),
        Of::Small => small(),
        Of::Bare => Server::builder("bare", "1").build().unwrap(),
    }
}

fn looking(validator: Validator, row: &Row) -> Validator {
    let validator = match row.call {
        Some((tool, arguments)) => validator.call(tool, Some(Raw::parse(arguments).unwrap())),
        None => validator,
    };
    let validator = if row.reads { validator.read_only_tools() } else { validator };
    match &row.look {
        Look::Legacy(version) => validator.without_modern().legacy_version(version.clone()),
        Look::Modern => validator.without_legacy(),
        Look::Both => validator,
    }
}

/// Describes how a report differs from the expected one, in which only the rules of the fault fail.
fn wrong(row: &Row, over: Over, report: &Result<Report, String>) -> Option<String> {
    let also = row.also.iter().map(|(rule, _)| *rule);
    let wanted: BTreeSet<&str> = also.chain([row.rule]).collect();
    let report = match report {
        Ok(report) => report,
        Err(error) => return Some(format!("{} over {over:?}: {error}", row.rule)),
    };
    let found: BTreeSet<&str> = failed(report).into_iter().collect();
    (found != wanted).then(|| {
        let findings: Vec<_> = report.failed().map(|result| (result.rule.slug, &result.outcome)).collect();
        let why = match report.results.iter().find(|result| result.rule.slug == row.rule) {
            Some(result) if !found.contains(row.rule) => format!("{:?}", result.outcome),
            _ => String::new(),
        };
        let text = format!("{findings:?}").chars().take(1500).collect::<String>();
        format!("{} over {over:?} ({:?}): {found:?} {why}\n  {text}", row.rule, row.look)
    })
}

/// Validates a server behind a fault over lines, on a paused clock that advances only while all tasks wait.
fn over_lines(server: &Server, row: &Row) -> Result<Report, String> {
    looked_over_lines(server, row).map(|trace| checked(&trace))
}

fn looked_over_lines(server: &Server, row: &Row) -> Result<Trace, String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let (server, fault) = (server.clone(), row.fault.clone());
        let validator = Validator::stream(move || {
            let link = lines::link(&server, &fault);
            async { Ok::<Link, SocketError>(link) }
        });
        let looking = looking(validator, row).run();
        let trace = tokio::time::timeout(Duration::from_secs(3600), looking).await.expect("it hangs");
        trace.map_err(|error| error.to_string())
    })
}

async fn over_http(server: &Server, row: &Row, over: Over) -> Result<Report, String> {
    let front = Front::of(server, row.fault.clone()).await;
    let validator = match over {
        Over::Sse => Validator::http(Link::http(front.url.replace("/mcp", "/sse")).legacy_sse()),
        _ => looking(front.validator(), row),
    };
    let validator = validator.respond_within(if row.fault.slow { SLOW } else { PATIENCE });
    looked(validator).await.map(|trace| checked(&trace)).map_err(|error| error.to_string())
}

#[test]
fn f27_each_fault_over_lines_is_found_by_its_rule_and_by_no_other() {
    let servers: BTreeMap<Of, Server> = EVERY.map(|of| (of, clean(of))).into();
    let rows = rows();
    let rows = rows.iter().filter(|row| row.over.contains(&Over::Stdio));
    let wrong: Vec<String> = rows
        .filter_map(|row| {
            let report = over_lines(&servers[&row.of], row);
            wrong(row, Over::Stdio, &report)
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Validates the servers behind these faults, several at the same time.
async fn found_over_http(rows: Vec<Row>) {
    let servers: BTreeMap<Of, Server> = EVERY.map(|of| (of, clean(of))).into();
    let (servers, room) = (Arc::new(servers), Arc::new(Semaphore::new(AT_ONCE as usize)));
    let mut looks = JoinSet::new();
    for row in rows {
        let row = Arc::new(row);
        for over in row.over.iter().copied().filter(|over| *over != Over::Stdio) {
            let (row, servers, room) = (Arc::clone(&row), Arc::clone(&servers), Arc::clone(&room));
            looks.spawn(async move {
                // A fault that depends on exact times runs alone.
                let share = if row.fault.slow { AT_ONCE } else { 1 };
                let _room = room.acquire_many(share).await.unwrap();
                let report = over_http(&servers[&row.of], &row, over).await;
                wrong(&row, over, &report)
            });
        }
    }
    let mut wrong: Vec<String> = looks.join_all().await.into_iter().flatten().collect();
    wrong.sort();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn f27_each_fault_of_the_protocol_over_http_is_found_by_its_rule_and_by_no_other() {
    found_over_http(protocol()).await;
}

#[tokio::test]
async fn f27_each_fault_of_features_over_http_is_found_by_its_rule_and_by_no_other() {
    found_over_http(features()).await;
}

#[tokio::test]
async fn f27_each_fault_of_http_is_found_by_its_rule_and_by_no_other() {
    found_over_http(http()).await;
}

#[test]
fn each_rule_has_a_fault_over_each_transport_that_it_checks() {
    let rows = rows();
    let mut wrong = Vec::new();
    for rule in rules() {
        let over: &[Over] = match rule.chapter {
            Chapter::Stdio => &[Over::Stdio],
            Chapter::StreamableHttp => &[Over::Http],
            Chapter::HttpSse => &[Over::Sse],
            // Checked in separate runs: the faults are in `tests/validate_client/stress.rs`.
            Chapter::Resilience => &[],
            // Checked with requests without a token: the faults are in `authorization`.
            Chapter::Authorization => &[],
            _ => &[Over::Stdio, Over::Http],
        };
        for over in over {
            let has = rows.iter().any(|row| row.rule == rule.slug && row.over.contains(over));
            let excused = NONE.iter().any(|(slug, where_, _)| *slug == rule.slug && where_ == over);
            if has == excused {
                wrong.push(format!(
                    "{} over {over:?}: {}",
                    rule.slug,
                    if has { "it has a fault" } else { "none" }
                ));
            }
        }
    }
    let known = |slug: &str| rules().any(|rule| rule.slug == slug);
    wrong.extend(rows.iter().filter(|row| !known(row.rule)).map(|row| format!("{}: no such rule", row.rule)));
    wrong.extend(
        NONE.iter().filter(|(slug, ..)| !known(slug)).map(|(slug, ..)| format!("{slug}: no such rule")),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn r71_clean_servers_have_no_finding_over_lines() {
    for of in EVERY {
        let row = modern("").in_both().change(|it| it.whole = true);
        for row in [row, modern("").in_both().change(|it| it.whole = true).reads()] {
            let report = over_lines(&clean(of), &row).unwrap();
            assert_eq!(failed(&report), [""; 0], "{of:?}: {:#?}", report.failed().collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_server_that_is_slow_to_start_is_looked_at_in_both_eras() {
    for seconds in [4, 6, 20] {
        let slow = modern("").in_both().change(|it| it.start = Duration::from_secs(seconds));
        let trace = looked_over_lines(&clean(Of::Demo), &slow).unwrap();
        assert_eq!(failed(&checked(&trace)), [""; 0]);
        for version in Version::ALL.iter() {
            assert!(trace.runs.iter().any(|run| run.version == *version), "{version}, after {seconds} s");
        }
    }
}

#[tokio::test]
async fn r71_what_only_reads_has_no_finding_over_http() {
    for of in [Of::Small, Of::Plain] {
        let row = modern("").in_both().reads();
        let report = over_http(&clean(of), &row, Over::Http).await.unwrap();
        assert_eq!(failed(&report), [""; 0], "{of:?}: {:#?}", report.failed().collect::<Vec<_>>());
        for (rule, only) in [
            ("input-asked-again", Of::Small),
            ("elicitation-decline-handled", Of::Small),
            ("param-header-as-number", Of::Small),
            ("param-header-not-expected", Of::Small),
            ("task-listed", Of::Small),
            ("cancelled-task-status", Of::Small),
            ("task-get-not-streamed", Of::Small),
            ("undeclared-task-ignored", Of::Plain),
        ] {
            if of == only {
                assert_eq!(*outcome(&report, rule), Outcome::Passed, "{rule}");
            }
        }
    }
}

#[tokio::test]
async fn r71_the_demo_has_no_finding_over_http() {
    for of in [Of::Demo, Of::Bare] {
        let server = clean(of);
        for (path, sse) in [("/mcp", false), ("/sse", true)] {
            let front = Front::of(&server, Fault { whole: true, ..Fault::default() }).await;
            let link = Link::http(front.url.replace("/mcp", path));
            let validator = Validator::http(if sse { link.legacy_sse() } else { link });
            let report = checked(&looked(validator).await.unwrap());
            assert_eq!(failed(&report), [""; 0], "{of:?}: {:#?}", report.failed().collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_call_that_can_show_nothing_is_reported_as_such() {
    let problems = |of: Of, tool: &'static str, arguments: &'static str| -> Vec<String> {
        let trace = looked_over_lines(&clean(of), &modern("").call(tool, arguments)).unwrap();
        let told = trace.calls.iter().map(|note| {
            assert_eq!((&*note.tool, note.version.era()), (tool, Some(Era::Modern)));
            note.problem.to_string()
        });
        told.collect()
    };
    assert_eq!(problems(Of::Demo, "echo", r#"{"message":"x"}"#), [""; 0]);
    assert_eq!(problems(Of::Demo, "nothing", "{}"), [CallWarningKind::NotListed.to_string()]);
    assert_eq!(problems(Of::Bare, "echo", "{}"), [CallWarningKind::NoTools.to_string()]);
    for arguments in ["{}", r#"{"message":7}"#] {
        let told = problems(Of::Demo, "echo", arguments);
        assert!(told.len() == 1 && told[0].contains("message"), "{told:?}");
    }
}
