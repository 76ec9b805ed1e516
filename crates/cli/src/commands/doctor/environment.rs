//! `mcpjoin doctor --environment`, and the faults of the machine that may be the cause of a failing server.
//! `mcpjoin_diagnostics` examines; this file prints.

use mcpjoin_diagnostics::doctor::{
    Check, EnvironmentDoctor, EnvironmentFinding, EnvironmentPart, EnvironmentReport, Outcome, Report, World,
};
use serde_json::{Value, json as value};

use super::json;
use super::text::{FAILED, Page, figures};
use crate::args::{Connect, Doctor};
use crate::commands::{present, written};
use crate::connect::{Endpoint, with_plans};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::Ui;
use crate::visible;

/// Examines the machine alone.
pub(super) fn run(ui: &Ui, args: &Doctor) -> Result<Exit, Failure> {
    if let Some(option) = args.connect.given().next() {
        let problem = format!("{option} is for a server, but --environment checks none");
        return Err(Failure::usage(problem, format!("leave out {option}, or --environment")));
    }
    let report = match examined(ui, &args.connect, &doctor(args)) {
        Ok(report) => report,
        Err(exit) => return Ok(exit),
    };
    let text = if ui.json {
        let mut document = document(&report);
        json::hide(ui, &mut document);
        visible::json(&document.to_string())
    } else {
        let mut page = Page::new(ui.width(), labels(&report));
        let everything = ui.verbosity() > 0;
        lines(&mut page, &report, everything);
        for finding in &report.findings {
            page.surroundings(report.findings.len(), finding);
        }
        let figures = figures(report.checks_run(), report.checks_not_run().map(|(_, why)| why));
        ui.hidden(&page.verdict(everything.then_some(figures), None)).into_owned()
    };
    Ok(match written(ui, ui.result(&text)) {
        Exit::Done if !report.is_healthy() => Exit::Faults,
        exit => exit,
    })
}

/// The examination of this machine, with or without the user's login shell.
pub(super) fn doctor(args: &Doctor) -> EnvironmentDoctor {
    let doctor = EnvironmentDoctor::new(World::here());
    if args.no_shell { doctor.without_shell() } else { doctor }
}

/// Examines the machine. The error is the exit code after a signal.
pub(super) fn examined(
    ui: &Ui,
    connect: &Connect,
    doctor: &EnvironmentDoctor,
) -> Result<EnvironmentReport, Exit> {
    let mut examined = None;
    let exit = with_plans(ui, &[], connect, async |_, mut signals| {
        if ui.has_line() {
            ui.line("checking this machine ...");
        }
        // A signal drops the examination, which ends the shell and the runtimes that it has started.
        let report = signals.until(doctor.examine()).await;
        ui.line_over();
        match report {
            Ok(report) => {
                examined = Some(report);
                Exit::Done
            }
            Err(signal) => Exit::Signal(signal),
        }
    });
    examined.ok_or(exit)
}

/// Returns the faults of the machine that may be the cause of a server's findings.
pub(super) async fn about(
    doctor: &EnvironmentDoctor,
    endpoint: &Endpoint,
    report: &Report,
) -> Vec<EnvironmentFinding> {
    if report.is_healthy() {
        return Vec::new();
    }
    if let Some(command) = endpoint.command() {
        return doctor.about_command(command).await;
    }
    // A server that was reached and responds wrongly does so on any machine.
    let failed: Vec<Check> = report.findings.iter().map(|finding| finding.check).collect();
    if !failed.iter().any(|check| CONNECTION_PARTS.iter().any(|part| affects(*part, *check))) {
        return Vec::new();
    }
    let mut findings = match endpoint.http() {
        Some(connect) => doctor.about_server(connect).await,
        None => Vec::new(),
    };
    findings.retain(|finding| failed.iter().any(|check| affects(finding.check.part(), *check)));
    // The findings of the server include its proxy.
    if failed.contains(&Check::Proxy) {
        findings.retain(|finding| !["proxy-unreachable", "proxy-authorization"].contains(&finding.id));
    }
    findings
}

/// Replaces the advice to install a program if it is installed: the finding of the machine says where.
pub(super) fn correct_advice(report: &mut Report, surroundings: &[EnvironmentFinding]) {
    if !surroundings.iter().any(|found| ["not-found-here", "manager-not-loaded"].contains(&found.id)) {
        return;
    }
    let missing = |id| ["program-missing", "runtime-missing"].contains(&id);
    for finding in report.findings.iter_mut().filter(|finding| missing(finding.id)) {
        "it is installed: the next fault shows its path and the fix".clone_into(&mut finding.advice);
    }
}

/// The parts of the machine that affect connections.
const CONNECTION_PARTS: [EnvironmentPart; 3] =
    [EnvironmentPart::Proxy, EnvironmentPart::Certificates, EnvironmentPart::Loopback];

/// Whether a fault of this part may be the cause of this failed check.
const fn affects(part: EnvironmentPart, check: Check) -> bool {
    match part {
        EnvironmentPart::Proxy => matches!(check, Check::Address | Check::Proxy | Check::Reached),
        EnvironmentPart::Certificates => {
            matches!(check, Check::Certificates | Check::Tls | Check::ServerCertificate)
        }
        EnvironmentPart::Loopback => matches!(check, Check::Address | Check::Reached | Check::Families),
        _ => false,
    }
}

// ---- for a person ----

pub(super) fn labels(report: &EnvironmentReport) -> impl Iterator<Item = &str> {
    report.steps.iter().map(|step| step.part.as_str())
}

/// Writes a line for each part, and the notes. `everything`: with the parts that were not looked at, and the folders of each
/// `PATH`.
pub(super) fn lines(page: &mut Page, report: &EnvironmentReport, everything: bool) {
    let is_known = |detail: &str| report.findings.iter().any(|finding| finding.id == detail);
    for step in &report.steps {
        if everything || !matches!(step.outcome, Outcome::NotRun(_)) {
            let detail = if is_known(&step.detail) { FAILED } else { &step.detail };
            page.step(step.part.as_str(), Some(step.took), step.outcome, detail);
        }
    }
    for path in report.paths.iter().flat_map(|paths| paths.all()).filter(|_| everything) {
        page.fact(path.context.as_str(), &joined(&path.folders));
        if !path.sources.is_empty() {
            page.fact("", &format!("set by {}", path.sources.join(", ")));
        }
    }
    let shells: Vec<&str> =
        report.paths.iter().flat_map(|paths| paths.all()).filter_map(|path| path.shell.as_deref()).collect();
    if !shells.is_empty() {
        page.fact("ran", &shells.join(", "));
    }
    for note in &report.notes {
        page.fact("note", note);
    }
}

fn joined(folders: &[std::path::PathBuf]) -> String {
    let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    folders.join(":")
}

// ---- for a program ----

/// The report as one JSON object.
pub(super) fn document(report: &EnvironmentReport) -> Value {
    let parts = report.steps.iter().map(|step| {
        value!({
            "part": step.part.as_str(),
            "outcome": json::outcome(step.outcome),
            "detail": step.detail,
            "elapsedMs": json::milliseconds(step.took),
        })
    });
    let runtimes = report.runtimes.iter().map(|runtime| {
        let paths = runtime.found.iter();
        let found = paths
            .map(|(context, path)| (context.as_str(), value!({ "path": path.display().to_string() })))
            .collect::<Value>();
        present(value!({
            "runtime": runtime.name,
            "found": found,
            "version": runtime.version,
            "manager": runtime.manager,
        }))
    });
    let paths = report.paths.iter().flat_map(|paths| paths.all()).map(|path| {
        let unknown = Vec::from_iter(&path.unknown);
        let details = present(value!({ "set": path.sources, "unknown": unknown, "ran": path.shell }));
        value!({ "seat": path.context.as_str(), "path": joined(&path.folders), "details": details })
    });
    value!({
        "healthy": report.is_healthy(),
        "elapsedMs": json::milliseconds(report.took),
        "parts": parts.collect::<Value>(),
        "checks": report.checks.iter().map(|(it, how)| json::check(it.as_str(), *how)).collect::<Value>(),
        "findings": json::machine_findings(&report.findings),
        "notes": report.notes,
        "runtimes": runtimes.collect::<Value>(),
        "paths": paths.collect::<Value>(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Check, EnvironmentPart, affects};

    #[test]
    fn a_fault_of_the_machine_is_reported_with_failures_of_its_kind() {
        for (part, check, does) in [
            (EnvironmentPart::Proxy, Check::Reached, true),
            (EnvironmentPart::Proxy, Check::Endpoint, false),
            (EnvironmentPart::Certificates, Check::ServerCertificate, true),
            (EnvironmentPart::Certificates, Check::Authorization, false),
            (EnvironmentPart::Loopback, Check::Families, true),
            (EnvironmentPart::Path, Check::Reached, false),
        ] {
            assert_eq!(affects(part, check), does, "{part:?} {check:?}");
        }
    }
}
