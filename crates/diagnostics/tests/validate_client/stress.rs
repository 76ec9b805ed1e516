//! Tests of servers under stress over lines: our own server passes, and faults in front of it are found.

use mcpjoin::Link;
use mcpjoin_diagnostics::validate::Validator;
use mcpjoin_rules::{Chapter, Outcome, Selection, check_server};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::{link, server};

/// A fault between the server and its client: decides by number and content whether a line is dropped.
type Fault = fn(usize, &str) -> bool;

/// A connection to the server. Lines that the fault selects do not reach the server; without a fault nothing is changed.
fn behind(fault: Option<Fault>) -> Link {
    let (theirs, ours) = tokio::io::duplex(4096);
    let Some(fault) = fault else {
        tokio::spawn(async move { server().serve(link(ours)).await });
        return link(theirs);
    };
    let (inner, at_server) = tokio::io::duplex(4096);
    tokio::spawn(async move { server().serve(link(at_server)).await });
    let (from_client, mut to_client) = tokio::io::split(ours);
    let (mut from_server, mut to_server) = tokio::io::split(inner);
    tokio::spawn(async move {
        let mut lines = BufReader::new(from_client).lines();
        let mut number = 0;
        while let Ok(Some(line)) = lines.next_line().await {
            number += 1;
            if !fault(number, &line) {
                let _ = to_server.write_all(format!("{line}\n").as_bytes()).await;
            }
        }
    });
    tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
    link(theirs)
}

async fn failed_rules(fault: Option<Fault>) -> Vec<&'static str> {
    let open = move || {
        let link = behind(fault);
        async move { Ok::<_, std::io::Error>(link) }
    };
    let trace = Validator::stream(open).without_legacy().resilience().run().await.unwrap();
    let report = check_server(&trace, &Selection::new(["resilience"], []).unwrap());
    let passed = report.passed().count();
    assert!(fault.is_some() || passed == 3, "{report:#?}");
    let failed = report.failed().filter(|result| matches!(result.outcome, Outcome::Failed(_)));
    failed.map(|result| result.rule.slug).collect()
}

#[tokio::test(start_paused = true)]
async fn f27_our_server_bears_it_and_faults_of_another_are_found() {
    assert_eq!(failed_rules(None).await, [""; 0]);
    // The first 110 lines of a connection are accepted. The check of a slow reader sends 100 requests, which stays below.
    let tired: Fault = |number, line| number > 110 && line.contains("server/discover");
    assert_eq!(failed_rules(Some(tired)).await, ["many-requests-answered"]);
    let lazy: Fault = |number, line| number > 50 && line.contains("tools/list");
    assert_eq!(failed_rules(Some(lazy)).await, ["slow-reader-loses-nothing"]);
    // The fourth line follows the large one in its connection. In the other connection it is one of many.
    let small: Fault = |number, line| line.len() > 100_000 || number == 4 && line.contains("server/discover");
    assert_eq!(failed_rules(Some(small)).await, ["many-requests-answered", "large-request-survived"]);
}

#[tokio::test(start_paused = true)]
async fn f27_without_being_asked_for_nothing_is_put_under_stress() {
    let open = || {
        let link = behind(None);
        async move { Ok::<_, std::io::Error>(link) }
    };
    let trace = Validator::stream(open).without_legacy().run().await.unwrap();
    assert!(trace.stress.is_empty());
    let report = check_server(&trace, &Selection::default());
    let mut stress = report.results.iter().filter(|result| result.rule.chapter == Chapter::Resilience);
    assert!(stress.all(|result| matches!(result.outcome, Outcome::Skipped(_))));
    assert_eq!(report.failed().count(), 0, "{:?}", report.failed().collect::<Vec<_>>());
}
