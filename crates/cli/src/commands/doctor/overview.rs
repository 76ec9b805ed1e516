//! `mcpjoin doctor` without a target: the machine, then the configuration, then each of its servers.

use mcpjoin_diagnostics::doctor::{
    Doctor, EnvironmentDoctor, EnvironmentFinding, EnvironmentReport, Outcome, Report,
};
use serde_json::{Value, json};

use super::configuration::{Configuration, Server};
use super::text::{Page, figures};
use super::{environment, json};
use crate::args;
use crate::commands::{present, print_page, refuse_trace};
use crate::config;
use crate::connect::{Plan, Work, with_each};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::target::{Named, Target};
use crate::ui::{HEADING, Secrets, Ui};
use crate::visible;

/// The findings about speed, which depend on what else runs.
const SLOW: [&str; 2] = ["slow-start", "mute"];

/// The report on a server and the faults of the machine that may be the cause; or why there is no report.
type Examined = Result<(Report, Vec<EnvironmentFinding>), Failure>;

/// Examines the machine, the configuration and all servers.
pub(super) fn run(ui: &Ui, args: &args::Doctor) -> Result<Exit, Failure> {
    let connect = &args.connect;
    refuse_trace(connect, "the command applies to all servers of the configuration")?;
    let files = config::survey(&connect.configured)?;
    for entry in files.iter().flat_map(|file| &file.entries) {
        // An entry that is not trusted is not started, so its secrets cannot be in any output.
        if entry.untrusted.is_none() {
            ui.hide(Secrets::new(&entry.secrets));
        }
        entry.kept.iter().for_each(|text| ui.keep(text));
    }
    let doctor = environment::doctor(args);
    let machine = match environment::examined(ui, connect, &doctor) {
        Ok(machine) => machine,
        Err(exit) => return Ok(exit),
    };
    let configuration = Configuration::of(&files, &machine);
    let examined = configuration.servers.iter().filter(|server| server.not_run.is_none());
    let targets: Vec<Target> = examined.map(target).collect();
    let work = move |_, _, plan| -> Work<(Report, Vec<EnvironmentFinding>)> {
        Box::pin(examine(plan, doctor.clone()))
    };
    let mut outcomes: Vec<Examined> = Vec::new();
    let exit = with_each(ui, &targets, connect, None, work.clone(), async |servers| {
        for server in servers {
            outcomes.push(server.result(ui).await);
        }
        Exit::Done
    });
    if exit != Exit::Done {
        return Ok(exit);
    }
    // Servers that start at the same time delay each other: what was slow is measured again, alone.
    let is_slow = |outcome: &Examined| {
        let is_slow = |(report, _): &(Report, _)| report.findings.iter().any(|it| SLOW.contains(&it.id));
        targets.len() > 1 && outcome.as_ref().is_ok_and(is_slow)
    };
    let slow: Vec<usize> = (0..outcomes.len()).filter(|place| is_slow(&outcomes[*place])).collect();
    let again: Vec<Target> = slow.iter().map(|place| targets[*place].clone()).collect();
    Ok(with_each(ui, &again, connect, Some(1), work, async |servers| {
        for (place, server) in slow.into_iter().zip(servers) {
            outcomes[place] = server.result(ui).await;
        }
        for (_, surroundings) in outcomes.iter_mut().flatten() {
            remove_reported(&machine, surroundings);
        }
        let healthy = machine.is_healthy()
            && configuration.faults.is_empty()
            && outcomes.iter().all(|outcome| matches!(outcome, Ok((report, _)) if report.is_healthy()));
        let text = if ui.json {
            let mut document = document(healthy, &machine, &configuration, &outcomes);
            json::hide(ui, &mut document);
            visible::json(&document.to_string())
        } else {
            ui.hidden(&page(ui, &machine, &configuration, &outcomes)).into_owned()
        };
        match print_page(ui, text).await {
            Exit::Done if !healthy => Exit::Faults,
            exit => exit,
        }
    }))
}

fn target(server: &Server) -> Target {
    Target::Entry(Named { file: None, name: server.name.clone(), or_program: false, instead: String::new() })
}

async fn examine(plan: Plan, machine: EnvironmentDoctor) -> Examined {
    let mut report = Doctor::new(plan.endpoint.doctor_target()?, plan.client).examine().await;
    plan.endpoint.advise(&mut report);
    let surroundings = environment::about(&machine, &plan.endpoint, &report).await;
    Ok((report, surroundings))
}

/// Removes faults that the report on the machine has already.
fn remove_reported(machine: &EnvironmentReport, surroundings: &mut Vec<EnvironmentFinding>) {
    let is_reported = |finding: &EnvironmentFinding| {
        machine.findings.iter().any(|known| known.id == finding.id && known.seen == finding.seen)
    };
    surroundings.retain(|finding| !is_reported(finding));
}

/// Each server, with its outcome if it was examined.
fn paired<'a>(
    configuration: &'a Configuration,
    outcomes: &'a [Examined],
) -> impl Iterator<Item = (&'a Server, Option<&'a Examined>)> {
    let mut outcomes = outcomes.iter();
    configuration.servers.iter().map(move |server| {
        let outcome = if server.not_run.is_none() { outcomes.next() } else { None };
        (server, outcome)
    })
}

// ---- for a person ----

fn page(
    ui: &Ui,
    machine: &EnvironmentReport,
    configuration: &Configuration,
    outcomes: &[Examined],
) -> String {
    let names: Vec<_> = configuration.servers.iter().map(|server| visible::line(&server.name)).collect();
    let mut page = Page::new(ui.width(), environment::labels(machine).chain(names.iter().map(AsRef::as_ref)));
    heading(&mut page, "This machine");
    environment::lines(&mut page, machine, ui.verbosity() > 0);
    heading(&mut page, "Configuration");
    for (name, _, detail) in &configuration.files {
        page.fact(&visible::line(name), detail);
    }
    if configuration.files.is_empty() {
        page.fact("note", "there is none: `mcpjoin help servers` lists its places");
    }
    for note in &configuration.notes {
        page.fact("note", note);
    }
    if !configuration.servers.is_empty() {
        heading(&mut page, "Servers");
    }
    for (server, outcome) in paired(configuration, outcomes) {
        let name = visible::line(&server.name);
        match (outcome, server.not_run) {
            (Some(Ok((report, _))), _) => {
                let how = if report.is_healthy() { Outcome::Passed } else { Outcome::Failed };
                page.step(&name, Some(report.took), how, &summary(report));
            }
            (Some(Err(failure)), _) => page.step(&name, None, Outcome::Failed, &failure.message),
            (None, why) => page.step(&name, None, Outcome::NotRun(why.unwrap_or_default()), ""),
        }
    }
    let of_server = |outcome: &Examined| match outcome {
        Ok((report, surroundings)) => report.findings.len() + surroundings.len(),
        Err(_) => 1,
    };
    let count =
        machine.findings.len() + configuration.faults.len() + outcomes.iter().map(of_server).sum::<usize>();
    machine.findings.iter().for_each(|finding| page.surroundings(count, finding));
    for fault in &configuration.faults {
        page.begin_fault(count, "", fault.id, &fault.seen, [fault.meaning, &fault.advice]);
        page.end_fault();
    }
    for (server, outcome) in paired(configuration, outcomes) {
        match outcome {
            Some(Ok((report, surroundings))) => {
                report.findings.iter().for_each(|finding| page.fault(count, &server.name, finding));
                surroundings.iter().for_each(|finding| page.surroundings(count, finding));
            }
            Some(Err(failure)) => {
                let meaning = "this server could not be examined";
                page.begin_fault(count, &server.name, failure.id, &failure.message, [meaning, &failure.hint]);
                page.end_fault();
            }
            None => {}
        }
    }
    let reports = || outcomes.iter().flatten().map(|(report, _)| report);
    let run =
        machine.checks_run() + configuration.checks_run() + reports().map(Report::checks_run).sum::<usize>();
    let not_run = machine.checks_not_run().map(|(_, why)| why).chain(configuration.not_run());
    let not_run = not_run.chain(reports().flat_map(|report| report.checks_not_run().map(|(_, why)| why)));
    let figures = figures(run, not_run);
    page.verdict((ui.verbosity() > 0).then_some(figures), configuration.not_started())
}

fn heading(page: &mut Page, text: &str) {
    if !page.out.is_empty() {
        page.out.push('\n');
    }
    page.out.push_str(&format!("{HEADING}{text}{HEADING:#}\n"));
}

/// A server in one line: its name and its lists, or the first of its faults.
fn summary(report: &Report) -> String {
    match &report.findings[..] {
        [] => {}
        [only] => return only.seen.clone(),
        [first, more @ ..] => return format!("{} (and {} more)", first.seen, more.len()),
    }
    let mut parts = Vec::new();
    if let Some(peer) = &report.peer {
        let info = peer.info.as_ref();
        parts.push(
            info.map_or_else(|| "unnamed".to_owned(), |info| format!("{} {}", info.name, info.version)),
        );
        parts.push(format!("protocol {}", peer.profile.version.as_str()));
    }
    let counts = report.lists.iter().filter(|list| list.items > 0);
    parts.extend(counts.map(|list| {
        let what = match list.method.as_str() {
            "resources/templates/list" => "resource templates",
            method => method.trim_end_matches("/list"),
        };
        format!("{} {}", list.items, if list.items == 1 { what.trim_end_matches('s') } else { what })
    }));
    parts.join(", ")
}

// ---- for a program ----

/// The document on the machine, the configuration and each server.
fn document(
    healthy: bool,
    machine: &EnvironmentReport,
    configuration: &Configuration,
    outcomes: &[Examined],
) -> Value {
    let servers = paired(configuration, outcomes).map(|(server, outcome)| {
        let report = outcome.and_then(|outcome| outcome.as_ref().ok());
        let failure = outcome.and_then(|outcome| outcome.as_ref().err());
        present(json!({
            "name": server.name,
            "path": server.place,
            "report": report.map(|(seen, surroundings)| json::of(&server.name, seen, surroundings)),
            "error": failure.map(|failure| failure.json()["error"].take()),
            "notRun": server.not_run.filter(|_| outcome.is_none()),
        }))
    });
    json!({
        "healthy": healthy,
        "environment": environment::document(machine),
        "configuration": configuration.document(),
        "servers": servers.collect::<Value>(),
    })
}

#[cfg(test)]
mod tests {
    use mcpjoin_diagnostics::doctor::{EnvironmentDoctor, World};

    use super::remove_reported;

    #[tokio::test]
    async fn what_is_reported_of_the_machine_is_not_reported_of_its_servers() {
        let folder = std::env::temp_dir().join("mcpjoin-there-is-no-such-world");
        let machine = EnvironmentDoctor::new(World::below(folder)).examine().await;
        assert!(!machine.findings.is_empty());
        let mut again = machine.findings.clone();
        again[0].seen.push_str(" in another way");
        let other = again[0].clone();
        remove_reported(&machine, &mut again);
        assert_eq!(again, [other]);
    }
}
