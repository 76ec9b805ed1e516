//! What is wrong with the machine that servers are started on, before any server is: `PATH` and runtimes, caches, proxies,
//! certificates, loopback, clock, room.
//!
//! Called by `mcpjoin doctor`. Everything goes through a [`World`], every look ends within a bound, nothing is changed, and
//! nothing is run but `--version` of a runtime. The internet is not asked. How clients start servers is in the
//! specification: <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#stdio>.

mod caches;
mod certificates;
mod clock;
mod loopback;
mod managers;
mod paths;
mod proxy;
mod reach;
mod report;
mod room;
mod runtimes;
mod shell;
mod world;

use std::time::Duration;

use tokio::time::Instant;

pub use paths::{SearchPath, SearchPaths, Seat};
pub use report::{
    EnvironmentCheck, EnvironmentFinding, EnvironmentPart, EnvironmentReport, EnvironmentStep, Runtime,
};
pub use world::{System, World};

pub(super) use self::world::within;
use super::Outcome;
use super::report::mark;
use crate::link::ChildCommand;

/// How long looking at the files of one part may take.
const FILES: Duration = Duration::from_secs(5);
/// How long a runtime may take to say its version: npm takes a second, and on a busy machine some.
const VERSION: Duration = Duration::from_secs(10);
/// Why a part has no result.
const SLOW: &str = "looking at its files took longer than 5 s";
/// Why a check of a connection is not run.
const NO_TARGET: &str = "needs a target";

/// An examination of the surroundings, to be. It is made by [`examine`](Self::examine).
///
/// ```no_run
/// # async fn example() {
/// use mcpjoin::doctor::{EnvironmentDoctor, World};
///
/// let report = EnvironmentDoctor::new(World::here()).examine().await;
/// for finding in &report.findings {
///     println!("{}: {} ({})", finding.id, finding.seen, finding.advice);
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is examined before `examine`"]
pub struct EnvironmentDoctor {
    world: World,
    patience: Duration,
}

impl EnvironmentDoctor {
    /// Examines this world.
    pub const fn new(world: World) -> Self {
        Self { world, patience: VERSION }
    }

    /// How long a runtime may take to say its version: 10 s.
    pub const fn patience(mut self, bound: Duration) -> Self {
        self.patience = bound;
        self
    }

    /// Does all of it, in at most 20 s. Dropped before it is ready, it ends what it has started; a thread may go on
    /// looking at files that do not answer.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub async fn examine(self) -> EnvironmentReport {
        let began = Instant::now();
        let world = &self.world;
        let paths = {
            let world = world.clone();
            within(FILES, move || SearchPaths::of(&world)).await
        };
        let (programs, caches, proxy, certificates, loopback, clock, room) = tokio::join!(
            timed(runtimes::examine(world, paths.as_ref(), self.patience)),
            timed(looked(world, caches::examine)),
            timed(proxy::examine(world)),
            timed(looked(world, certificates::examine)),
            timed(loopback::examine(world)),
            timed(looked(world, clock::examine)),
            timed(looked(world, room::examine)),
        );
        let mut report = EnvironmentReport {
            steps: Vec::new(),
            checks: EnvironmentCheck::ALL.map(|check| (check, Outcome::NotRun(SLOW))).into(),
            findings: Vec::new(),
            notes: Vec::new(),
            runtimes: programs.0.runtimes,
            paths,
            took: Duration::ZERO,
        };
        let path = (programs.0.path, programs.1);
        let runtimes = (programs.0.looked, programs.1);
        let parts = [path, runtimes, caches, proxy, certificates, loopback, clock, room];
        for (part, (looked, took)) in EnvironmentPart::ALL.into_iter().zip(parts) {
            looked.into_report(&mut report, part, took);
        }
        report.took = began.elapsed();
        report
    }

    /// What of the surroundings keeps this program from being started: where else it is when it is not found from here, a
    /// shim with nothing behind it, what runs it. At most 5 s.
    pub async fn about_program(&self, program: &str) -> Vec<EnvironmentFinding> {
        let world = self.world.clone();
        let program = program.to_owned();
        within(FILES, move || reach::about(&world, &program)).await.unwrap_or_default()
    }

    /// The same for the program of a command, with the `PATH` that it gets.
    pub async fn about_command(&self, command: &ChildCommand) -> Vec<EnvironmentFinding> {
        let spec = command.spec();
        // A relative path counts from the working directory that it gets.
        let program = match &spec.current_dir {
            Some(folder) if spec.program.as_encoded_bytes().contains(&b'/') => folder.join(&spec.program),
            _ => spec.program.clone().into(),
        };
        let Some(program) = program.to_str() else { return Vec::new() };
        let world = self.world.clone();
        let world = match spec.variable("PATH") {
            Some(path) => world.with_variable("PATH", path),
            None => world.without_variable("PATH"),
        };
        Self { world, ..self.clone() }.about_program(program).await
    }

    /// What of the surroundings bears on the server that this connects to, as [`about_host`](Self::about_host) has it. Nothing
    /// where it connects to nobody.
    #[cfg(feature = "http")]
    pub async fn about_server(&self, connect: &crate::link::HttpConnect) -> Vec<EnvironmentFinding> {
        let Ok(checked) = connect.checked() else { return Vec::new() };
        let host = checked.url.host_str().unwrap_or_default();
        self.about_host(host, checked.url.scheme() == "https").await
    }

    /// What of the surroundings bears on a server that is reached by a URL with this host: a proxy, certificates, and for a
    /// host on this machine loopback. Of the variables only those that mcpjoin reads for such a URL. At most 10 s.
    pub async fn about_host(&self, host: &str, encrypted: bool) -> Vec<EnvironmentFinding> {
        let world = &self.world;
        let host = host.trim_matches(['[', ']']);
        let mut findings = proxy::about(world, host, encrypted).await;
        if encrypted {
            findings.extend(looked(world, certificates::ours).await.findings);
        }
        if proxy::is_here(host) {
            findings.extend(loopback::examine(world).await.findings);
        }
        findings
    }
}

/// What came of a part.
#[derive(Debug, Default)]
struct Looked {
    checks: Vec<(EnvironmentCheck, Outcome)>,
    findings: Vec<EnvironmentFinding>,
    notes: Vec<String>,
    detail: String,
}

impl Looked {
    fn pass(&mut self, check: EnvironmentCheck) {
        self.mark(check, Outcome::Passed);
    }

    fn not_run(&mut self, check: EnvironmentCheck, why: &'static str) {
        self.mark(check, Outcome::NotRun(why));
    }

    fn fail(
        &mut self,
        check: EnvironmentCheck,
        id: &'static str,
        seen: impl Into<String>,
        meaning: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.mark(check, Outcome::Failed);
        let (seen, meaning, advice) = (seen.into(), meaning.into(), advice.into());
        self.findings.push(EnvironmentFinding { id, check, seen, meaning, advice });
    }

    fn mark(&mut self, check: EnvironmentCheck, outcome: Outcome) {
        mark(&mut self.checks, check, outcome);
    }

    fn into_report(self, report: &mut EnvironmentReport, part: EnvironmentPart, took: Duration) {
        let Self { checks, findings, notes, mut detail } = self;
        let outcome = if checks.is_empty() {
            Outcome::NotRun(SLOW)
        } else if findings.is_empty() {
            Outcome::Passed
        } else {
            let mut ids: Vec<&str> = findings.iter().map(|finding| finding.id).collect();
            ids.dedup();
            detail = ids.join(", ");
            Outcome::Failed
        };
        for (check, outcome) in checks {
            if let Some((_, known)) = report.checks.iter_mut().find(|(known, _)| *known == check) {
                *known = outcome;
            }
        }
        report.steps.push(EnvironmentStep { part, outcome, took, detail });
        report.findings.extend(findings);
        report.notes.extend(notes);
    }
}

/// A part that looks at files alone.
async fn looked(world: &World, examine: fn(&World) -> Looked) -> Looked {
    let world = world.clone();
    within(FILES, move || examine(&world)).await.unwrap_or_default()
}

async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let began = Instant::now();
    (work.await, began.elapsed())
}

#[cfg(test)]
mod tests;
