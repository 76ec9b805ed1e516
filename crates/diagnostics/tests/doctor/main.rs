//! Tests of the doctor's findings: a broken server for each fault, which is the only finding, and healthy servers.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod child;
mod http;
mod setups;
mod sockets;
mod tls;

use mcpjoin_diagnostics::doctor::{Check, Finding, Outcome, Report};
use mcpjoin_test_support as support;
use mcpjoin_test_support::ports;
use mcpjoin_test_support::tls as tls_server;

/// The only finding, which has this id. Every check that failed has a finding.
#[track_caller]
fn alone<'a>(report: &'a Report, id: &str, check: Check) -> &'a Finding {
    let ids: Vec<&str> = report.findings.iter().map(|finding| finding.id).collect();
    assert_eq!(ids, [id], "{report:#?}");
    let finding = &report.findings[0];
    assert_eq!(finding.check, check, "{finding:#?}");
    assert!(!finding.seen.is_empty() && !finding.meaning.is_empty() && !finding.advice.is_empty());
    let failed = report.checks.iter().filter(|(_, outcome)| *outcome == Outcome::Failed);
    assert_eq!(failed.map(|(check, _)| *check).collect::<Vec<_>>(), [check]);
    let phase = report.steps.iter().find(|step| step.phase == finding.phase);
    assert!(
        phase.is_some_and(|step| step.took.is_some()),
        "it was seen in a phase that was run: {report:#?}"
    );
    finding
}
