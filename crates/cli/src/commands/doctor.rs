//! `mcpjoin doctor`: finds out what is wrong with a server, or with the connection to it. `mcpjoin_diagnostics`
//! examines; this module prints the report.

mod configuration;
mod environment;
mod json;
mod overview;
mod text;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use mcpjoin_diagnostics::doctor::{
    Doctor, EnvironmentDoctor, EnvironmentFinding, OrchestraDoctor, Phase, Report, Step, Target,
};

use super::{exit_of, print_page, target_of};
use crate::args;
use crate::connect::{Plan, Signals, orchestra_certificates, with_plan, with_plans};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::target;
use crate::ui::Ui;
use crate::visible;

/// Findings about the target itself, before any connection.
const UNUSABLE_TARGET: [&str; 2] = ["unusable", "no-address"];

/// Examines the server, or without a server the machine and every server of the configuration. `escaped`: `--` stood
/// before the first word.
pub(crate) fn run(ui: &Ui, mut args: args::Doctor, escaped: bool) -> Result<Exit, Failure> {
    if args.environment {
        refuse_orchestrator_options(&args)?;
        return environment::run(ui, &args);
    }
    if args.words.is_empty() && args.connect.server().is_none() && !escaped {
        refuse_orchestrator_options(&args)?;
        return overview::run(ui, &args);
    }
    if let Some(address) = orchestrator_address(&args, escaped) {
        return examine_orchestrator(ui, &args, &address);
    }
    refuse_orchestrator_options(&args)?;
    let machine = environment::doctor(&args);
    // It examines the URL as it is typed, and looks for paths itself.
    args.connect.exact_url = true;
    let target = target_of(ui, "doctor", &args.connect, args.words, escaped)?;
    Ok(with_plan(ui, &target, &args.connect, async |plan, signals| match plan.endpoint.doctor_target() {
        Ok(target) => examine(target, plan, &machine, ui, signals).await,
        Err(failure) => exit_of(ui, Err(failure)),
    }))
}

async fn examine(target: Target, plan: Plan, machine: &EnvironmentDoctor, ui: &Ui, signals: Signals) -> Exit {
    let child = plan.endpoint.child();
    let trace = plan.endpoint.trace().cloned();
    let observer = Observer::new(ui);
    let mut doctor = Doctor::new(target, plan.client).on_phase(observer.phase()).on_step(observer.step());
    if let (Some(trace), None) = (trace, &child) {
        // The transport of a child writes its own trace.
        doctor = doctor.inspected(trace.inspect());
    }
    let endpoint = plan.endpoint.clone();
    let ended = endpoint.ended();
    let examined = async {
        let mut report = doctor.examine().await;
        plan.endpoint.advise(&mut report);
        let surroundings = environment::about(machine, &plan.endpoint, &report).await;
        environment::correct_advice(&mut report, &surroundings);
        report.notes.extend(machine.shell_notes());
        (report, surroundings)
    };
    show(&observer, signals, &plan.shown, examined, ended).await
}

/// Follows an examination: draws each phase when it begins, and keeps the steps that have ended.
struct Observer {
    ui: Ui,
    known: Arc<Mutex<Progress>>,
}

#[derive(Default)]
struct Progress {
    steps: Vec<Step>,
    /// The current phase and its beginning.
    under_way: Option<(Phase, Instant)>,
}

impl Observer {
    fn new(ui: &Ui) -> Self {
        Self { ui: ui.clone(), known: Arc::default() }
    }

    fn phase(&self) -> impl Fn(Phase) + Send + Sync + 'static {
        let (ui, known) = (self.ui.clone(), Arc::clone(&self.known));
        move |phase| {
            known.lock().unwrap_or_else(PoisonError::into_inner).under_way = Some((phase, Instant::now()));
            if ui.has_line() {
                ui.line(&format!("{phase} ..."));
            }
        }
    }

    fn step(&self) -> impl Fn(&Step) + Send + Sync + 'static {
        let known = Arc::clone(&self.known);
        move |step| {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            known.steps.retain(|earlier| earlier.phase != step.phase);
            known.steps.push(step.clone());
        }
    }

    /// Prints the steps until a signal stopped the examination. Prints nothing with `--json`: an incomplete document is
    /// not valid.
    fn stopped(&self) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if self.ui.json || known.steps.is_empty() {
            return;
        }
        let under_way =
            known.under_way.filter(|(phase, _)| !known.steps.iter().any(|step| step.phase == *phase));
        let page = text::stopped(
            &known.steps,
            under_way.map(|(phase, since)| (phase, since.elapsed())),
            self.ui.width(),
        );
        // The command was stopped: a failed output changes nothing.
        let _ = self.ui.page(&self.ui.hidden(&page));
    }
}

/// Waits for the report and prints it. A signal ends the examination. Then `ended` is awaited until the next signal.
async fn show(
    observer: &Observer,
    mut signals: Signals,
    name: &str,
    examined: impl Future<Output = (Report, Vec<EnvironmentFinding>)>,
    ended: impl Future<Output = ()>,
) -> Exit {
    let ui = &observer.ui;
    // A signal drops the examination, which ends what it has started.
    let (report, surroundings) = match signals.until(examined).await {
        Ok(report) => report,
        Err(signal) => {
            ui.line_over();
            observer.stopped();
            // A second signal ends the wait.
            let _ = signals.until(ended).await;
            return Exit::Signal(signal);
        }
    };
    ui.line_over();
    if let Some(finding) = report.findings.iter().find(|finding| UNUSABLE_TARGET.contains(&finding.id)) {
        // A wrong target is a usage error, as for every verb.
        let mut failure =
            Failure::usage(ui.hidden(&finding.seen), finding.advice.clone()).with(name, report.took);
        failure.seen.listening = true;
        ui.failure(&failure);
        return Exit::Usage;
    }
    // Standard error of a server may contain secrets that it was given.
    let text = if ui.json {
        let mut document = json::of(name, &report, &surroundings);
        json::hide(ui, &mut document);
        visible::json(&document.to_string())
    } else {
        ui.hidden(&text::of(&report, &surroundings, ui.verbosity() > 0, ui.width())).into_owned()
    };
    match signals.until(print_page(ui, text)).await {
        Ok(Exit::Done) if !report.is_healthy() => Exit::Faults,
        Ok(exit) => exit,
        Err(signal) => Exit::Signal(signal),
    }
}

// ---- an orchestrator of Orchestra ----

/// The address, if the target is an orchestrator.
fn orchestrator_address(args: &args::Doctor, escaped: bool) -> Option<String> {
    let [word] = &*args.words else { return None };
    let (scheme, address) = word.to_str()?.split_once("://")?;
    (!escaped && scheme.eq_ignore_ascii_case("orchestra")).then(|| address.to_owned())
}

/// The options for an orchestrator alone.
const OF_ORCHESTRATORS: [&str; 2] = ["--certs-dir", "--server-name"];
/// The options that an orchestrator and MCP servers have in common.
const OF_BOTH: [&str; 3] = ["--ca", "--timeout", "--connect-timeout"];

/// Refuses options for an orchestrator with any other target.
fn refuse_orchestrator_options(args: &args::Doctor) -> Result<(), Failure> {
    let Some(option) = args.connect.given().find(|option| OF_ORCHESTRATORS.contains(option)) else {
        return Ok(());
    };
    let problem = format!("{option} is for an orchestrator (orchestra://host:port)");
    Err(Failure::usage(problem, format!("leave out {option}")))
}

/// Examines the orchestrator.
fn examine_orchestrator(ui: &Ui, args: &args::Doctor, address: &str) -> Result<Exit, Failure> {
    if address.is_empty() || address.contains(['/', '?', '#', '@']) {
        let word = args.words.first().map(|word| target::shown(word)).unwrap_or_default();
        return Err(Failure::usage(format!("{word} is not an address"), "use orchestra://host:port"));
    }
    let connect = &args.connect;
    let is_of_others = |option: &&str| !OF_ORCHESTRATORS.contains(option) && !OF_BOTH.contains(option);
    if let Some(option) = connect.given().find(is_of_others) {
        let problem = format!("{option} is for an MCP server, not for an orchestrator");
        return Err(Failure::usage(problem, format!("leave out {option}")));
    }
    let mut doctor = OrchestraDoctor::new(address, orchestra_certificates(connect)?);
    if let Some(time) = connect.connect_timeout {
        doctor = doctor.connect_timeout(time);
    }
    if let Some(time) = connect.timeout {
        doctor = doctor.answer_timeout(time);
    }
    let observer = Observer::new(ui);
    let doctor = doctor.on_phase(observer.phase()).on_step(observer.step());
    let name = format!("orchestra://{address}");
    let examined = async { (doctor.examine().await, Vec::new()) };
    Ok(with_plans(ui, &[], connect, async |_, signals| {
        show(&observer, signals, &name, examined, std::future::ready(())).await
    }))
}
