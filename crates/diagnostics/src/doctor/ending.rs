//! From how a program ended that was told to, to findings.
//!
//! Called by `course` when the standard input of a child was closed.

use mcpjoin_proto::session::ProcessExit;

use super::diagnosis::last_lines;
use super::report::{Check, Finding, Phase};
use mcpjoin::link::{Forced, ShutdownReport};

/// What was wrong with a server's end, after its input was closed.
pub(super) fn ending(report: &ShutdownReport, stderr: &[u8]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if report.forced == Forced::No {
        if report.exit.is_some_and(|exit| exit != ProcessExit::Code(0)) {
            let how = report.exit.map(|exit| exit.to_string()).unwrap_or_default();
            let mut found = Finding::new(
                "exit-status",
                Check::ExitStatus,
                Phase::ShutDown,
                format!("the server ended with {how} when its standard input ended"),
                "the end of its input is how a client says that it is done: it should end with exit code 0, and not \
                 fail in what it does then",
                "mend what its standard error names",
            );
            found.evidence.exit = report.exit;
            found.evidence.stderr = last_lines(stderr);
            findings.push(found);
        }
        if !report.left_behind.is_empty() {
            let count = report.left_behind.len();
            let mut found = Finding::new(
                "left-behind",
                Check::Family,
                Phase::ShutDown,
                format!("the server ended and left {count} {} behind", plural_es(count)),
                "with clients that look less closely they pile up, one for each start",
                "let whatever starts them wait for them and end them; a wrapper in shell should `exec` its last command",
            );
            found.evidence.processes.clone_from(&report.left_behind);
            findings.push(found);
        }
    } else {
        let (what, how) = match report.forced {
            Forced::Killed => ("neither at the end of its standard input nor on SIGTERM", "SIGKILL"),
            _ => ("not at the end of its standard input", "SIGTERM"),
        };
        findings.push(Finding::new(
            "deaf",
            Check::EndOfInput,
            Phase::ShutDown,
            format!("the server ended {what}, but on {how}"),
            "clients that send no signal leave it running, and others wait for it each time",
            "let the server end when reading its standard input says that it is over",
        ));
    }
    if !report.survivors.is_empty() {
        let mut found = Finding::new(
            "survivors",
            Check::Family,
            Phase::ShutDown,
            format!("{} {} could not be ended", report.survivors.len(), plural_es(report.survivors.len())),
            "they run as another user, or hang in the kernel",
            "end them by hand",
        );
        found.evidence.processes.clone_from(&report.survivors);
        findings.push(found);
    }
    findings
}

/// How a server ended that was told to, in one line.
pub(super) fn how(report: &ShutdownReport) -> String {
    let how = match report.forced {
        Forced::No => "ended by itself when its input ended",
        Forced::Terminated => "ended on SIGTERM",
        _ => "ended on SIGKILL",
    };
    report.exit.map_or_else(|| how.to_owned(), |exit| format!("{how}, {exit}"))
}

const fn plural_es(count: usize) -> &'static str {
    if count == 1 { "process" } else { "processes" }
}
