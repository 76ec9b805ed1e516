//! `mcpjoin doctor`: what is wrong with a server, or with our way to it. The library examines; here it is shown.

mod configuration;
mod document;
mod environment;
mod everything;
mod orchestra;
mod page;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use mcpjoin_diagnostics::doctor::{Doctor, EnvironmentDoctor, EnvironmentFinding, Phase, Report, Step};

use super::{misused, written};
use crate::args;
use crate::connect::{Plan, Signals, with_plan};
use crate::exit::Exit;
use crate::failure::{self, Failure};
use crate::target;
use crate::ui::Ui;
use crate::visible;

/// What is found in what was typed, before anything is reached.
const UNUSABLE: [&str; 2] = ["unusable", "no-address"];

/// Examines the server, or, where none is named, the machine and every server of the configuration. `escaped`: `--` stood
/// before the first word.
pub(crate) fn run(ui: &Ui, args: args::Doctor, escaped: bool) -> Result<Exit, Failure> {
    if args.environment {
        orchestra::refuse(&args)?;
        return environment::run(ui, &args);
    }
    if args.words.is_empty() && args.connect.server.is_none() && !escaped {
        orchestra::refuse(&args)?;
        return everything::run(ui, &args);
    }
    if let Some(address) = orchestra::address(&args, escaped) {
        return orchestra::run(ui, &args, &address);
    }
    orchestra::refuse(&args)?;
    let machine = environment::doctor(&args);
    let invocation = target::without_operands("doctor", args.connect.server.as_deref(), args.words, escaped)
        .map_err(misused)?;
    invocation.notes.iter().for_each(|note| ui.note(note));
    Ok(with_plan(ui, &invocation.target, &args.connect, async |plan| examine(plan, &machine, ui).await))
}

async fn examine(plan: Plan, machine: &EnvironmentDoctor, ui: &Ui) -> Exit {
    let child = plan.endpoint.child();
    let trace = plan.endpoint.trace().cloned();
    let watch = Watch::new(ui);
    let mut doctor =
        Doctor::new(plan.endpoint.doctor_target(), plan.client).on_phase(watch.phase()).on_step(watch.step());
    if let (Some(trace), None) = (trace, &child) {
        // What a child is told is written down by whatever starts it.
        doctor = doctor.tapped(trace.tap());
    }
    let ended = async {
        if let Some(child) = child {
            child.ended().await;
        }
    };
    let examined = async {
        let mut report = doctor.examine().await;
        plan.endpoint.advise(&mut report);
        let surroundings = environment::about(machine, &plan.endpoint, &report).await;
        environment::yields(&mut report, &surroundings);
        report.notes.extend(machine.shell_notes());
        (report, surroundings)
    };
    shown(&watch, &plan.shown, examined, ended).await
}

/// Follows an examination: draws each phase as it begins, and keeps what has come of those that are over.
struct Watch {
    ui: Ui,
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    steps: Vec<Step>,
    /// What is being done.
    under_way: Option<(Phase, Instant)>,
}

impl Watch {
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

    /// What was found out until it was stopped, for a person. Nothing for a program, which takes a document or none.
    fn stopped(&self) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if self.ui.json || known.steps.is_empty() {
            return;
        }
        let under_way =
            known.under_way.filter(|(phase, _)| !known.steps.iter().any(|step| step.phase == *phase));
        let page = page::stopped(
            &known.steps,
            under_way.map(|(phase, since)| (phase, since.elapsed())),
            self.ui.width(),
        );
        // It is stopped: that its words go nowhere changes nothing.
        let _ = self.ui.page(&self.ui.hidden(&page));
    }
}

/// Waits for the report and shows it. A signal ends it all; `ended` is waited for then, until the next signal.
async fn shown(
    watch: &Watch,
    name: &str,
    examined: impl Future<Output = (Report, Vec<EnvironmentFinding>)>,
    ended: impl Future<Output = ()>,
) -> Exit {
    let ui = &watch.ui;
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            let failure = Failure::system(failure::Phase::Connect, &error);
            ui.failure(&failure);
            return failure.exit;
        }
    };
    // Dropped by the signal, it begins to end what it has started.
    let report = tokio::select! {
        biased;
        signal = signals.next() => Err(signal),
        report = examined => Ok(report),
    };
    let (report, surroundings) = match report {
        Ok(report) => report,
        Err(signal) => {
            ui.line_over();
            watch.stopped();
            tokio::select! {
                biased;
                _ = signals.next() => {}
                () = ended => {}
            }
            return Exit::Signal(signal);
        }
    };
    ui.line_over();
    if let Some(finding) = report.findings.iter().find(|finding| UNUSABLE.contains(&finding.id)) {
        // What was typed is wrong, as for every other verb.
        let mut failure =
            Failure::usage(ui.hidden(&finding.seen), finding.advice.clone()).with(name, report.took);
        failure.seen.listening = true;
        ui.failure(&failure);
        return Exit::Usage;
    }
    // What a server wrote to standard error may hold what it was told.
    let text = if ui.json {
        let mut document = document::of(name, &report, &surroundings);
        document::hide(ui, &mut document);
        visible::json(&document.to_string())
    } else {
        ui.hidden(&page::of(&report, &surroundings, ui.verbosity() > 0, ui.width())).into_owned()
    };
    let outcome = tokio::select! {
        biased;
        signal = signals.next() => return Exit::Signal(signal),
        outcome = ui.aside(move |ui| ui.page(&text)) => outcome,
    };
    match written(ui, outcome) {
        Exit::Done if !report.is_healthy() => Exit::Faults,
        exit => exit,
    }
}
