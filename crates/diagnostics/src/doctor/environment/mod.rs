//! What is wrong with the machine that servers are started on, before any server is: `PATH` and runtimes, caches, proxies,
//! certificates, loopback, clock, limits.
//!
//! Used by `mcpjoin doctor`. Every look goes through a [`World`] and has a timeout. Nothing is changed. Run are the
//! runtimes, with `--version`, and the user's login shell, unless [`EnvironmentDoctor::without_shell`] forbids it. The
//! internet is not asked. How clients start servers is in the specification:
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#stdio>.

mod certificates;
mod faults;
mod loopback;
mod managers;
mod paths;
mod programs;
mod proxy;
mod report;
mod shell;
mod system;
mod world;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;

pub use paths::{LaunchContext, SearchPath, SearchPaths};
pub use report::{
    EnvironmentCheck, EnvironmentFinding, EnvironmentPart, EnvironmentReport, EnvironmentStep, Runtime,
};
pub use world::World;

use self::programs::Programs;
pub(super) use self::world::within;
use super::Outcome;
use super::report::mark;
use mcpjoin::link::ChildCommand;

/// How long looking at the files of one part may take.
const FILES_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a runtime may take to print its version: npm takes a second, and on a busy machine several.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);
/// Why a part has no result.
const SLOW: &str = "looking at its files took longer than 5 s";

/// An examination of the machine, not yet begun. It is made by [`examine`](Self::examine).
///
/// ```no_run
/// # async fn example() {
/// use mcpjoin_diagnostics::doctor::{EnvironmentDoctor, World};
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
    version_timeout: Duration,
    /// `None`: no shell is run.
    shell_timeout: Option<Duration>,
    /// `PATH` of the login shell and of a desktop session. Clones share it, so that the shell is run once.
    sessions: Arc<OnceCell<[SearchPath; 2]>>,
}

impl EnvironmentDoctor {
    /// Examines this world.
    pub fn new(world: World) -> Self {
        let shell_timeout = Some(shell::SHELL_TIMEOUT);
        Self { world, version_timeout: VERSION_TIMEOUT, shell_timeout, sessions: Arc::default() }
    }

    /// How long a runtime may take to print its version. Default: 10 s.
    pub const fn version_timeout(mut self, timeout: Duration) -> Self {
        self.version_timeout = timeout;
        self
    }

    /// Does not run the user's login shell. `PATH` of a terminal, and of a desktop session on Linux, is not known then.
    pub const fn without_shell(mut self) -> Self {
        self.shell_timeout = None;
        self
    }

    /// Does all of it, in at most 25 s. Dropped before it is ready, it ends what it has started; a thread may go on
    /// looking at files that do not answer.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub async fn examine(&self) -> EnvironmentReport {
        let began = Instant::now();
        let world = &self.world;
        let (programs, path, caches, proxy, certificates, loopback, clock, room) = tokio::join!(
            timed(programs::examine(world, self.version_timeout)),
            timed(self.sessions()),
            timed(files(world, system::caches)),
            timed(proxy::examine(world)),
            timed(files(world, certificates::examine)),
            timed(loopback::examine(world)),
            timed(files(world, system::clock)),
            timed(files(world, system::room)),
        );
        let ((mut programs, programs_took), (sessions, sessions_took)) = (programs, path);
        let ((located, path_results), took) = timed(located(world, sessions, &mut programs)).await;
        let path = (path_results, sessions_took + took);
        let Programs { results, runtimes, .. } = programs;
        let mut report = EnvironmentReport {
            steps: Vec::new(),
            checks: EnvironmentCheck::ALL.map(|check| (check, Outcome::NotRun(SLOW))).into(),
            findings: Vec::new(),
            notes: Vec::new(),
            runtimes,
            paths: located,
            took: Duration::ZERO,
        };
        let parts = [path, (results, programs_took), caches, proxy, certificates, loopback, clock, room];
        for (part, (results, took)) in EnvironmentPart::ALL.into_iter().zip(parts) {
            results.into_report(&mut report, part, took);
        }
        report.took = began.elapsed();
        report
    }

    /// A sentence about the login shells that this and its clones have run, and one about each that did not print a `PATH`.
    /// Empty as long as none was needed.
    #[must_use]
    pub fn shell_notes(&self) -> Vec<String> {
        let Some(sessions) = self.sessions.get() else { return Vec::new() };
        let asked: Vec<&str> = sessions.iter().filter_map(|path| path.asked.as_deref()).collect();
        let ran = (!asked.is_empty()).then(|| format!("ran {} to find the program", asked.join(" and ")));
        ran.into_iter().chain(paths::unknown_paths(sessions)).collect()
    }

    /// `PATH` of the login shell and of a desktop session.
    async fn sessions(&self) -> &[SearchPath; 2] {
        let both = || async {
            let of = |context| SearchPath::of_session(&self.world, context, self.shell_timeout);
            tokio::join!(of(LaunchContext::LoginShell), of(LaunchContext::Desktop)).into()
        };
        self.sessions.get_or_init(both).await
    }

    /// What keeps this program from being started: where else it is when it is not found from here, a shim with nothing
    /// behind it, what runs it. The login shell is run when the program is not found. At most 20 s.
    pub async fn about_program(&self, program: &str) -> Vec<EnvironmentFinding> {
        let (world, wanted) = (self.world.clone(), program.to_owned());
        let missing = within(FILES_TIMEOUT, move || programs::missing(&world, &wanted)).await;
        let wanted = match missing {
            Some(Err(finding)) => return vec![*finding],
            Some(Ok(Some(wanted))) => wanted,
            Some(Ok(None)) | None => return Vec::new(),
        };
        let (world, [login_shell, _]) = (self.world.clone(), self.sessions().await.clone());
        let found = within(FILES_TIMEOUT, move || programs::elsewhere(&world, &wanted, &login_shell));
        found.await.flatten().into_iter().collect()
    }

    /// The same for the program of a command, with the `PATH` that it gets.
    pub async fn about_command(&self, command: &ChildCommand) -> Vec<EnvironmentFinding> {
        let spec = command.spec();
        // A relative path counts from the working directory of the command.
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

    /// What of the machine affects the server that this connects to, as [`about_host`](Self::about_host) has it. Nothing
    /// where the address cannot be used.
    pub async fn about_server(&self, connect: &mcpjoin::link::HttpConnect) -> Vec<EnvironmentFinding> {
        let Ok(checked) = connect.checked() else { return Vec::new() };
        let host = checked.url.host_str().unwrap_or_default();
        self.about_host(host, checked.url.scheme() == "https").await
    }

    /// What of the machine affects a server that is reached by a URL with this host: a proxy, certificates, and for a
    /// host on this machine loopback. Of the variables only those that mcpjoin reads for such a URL. At most 10 s.
    pub async fn about_host(&self, host: &str, encrypted: bool) -> Vec<EnvironmentFinding> {
        let world = &self.world;
        let host = host.trim_matches(['[', ']']);
        let mut findings = proxy::about(world, host, encrypted).await;
        if encrypted {
            findings.extend(files(world, certificates::ours).await.findings);
        }
        if proxy::is_here(host) {
            findings.extend(loopback::examine(world).await.findings);
        }
        findings
    }
}

/// Where each runtime is found in each context, with the results of the part `path`.
async fn located(
    world: &World,
    sessions: &[SearchPath; 2],
    programs: &mut Programs,
) -> (Option<SearchPaths>, CheckResults) {
    let (world, [login_shell, desktop], mut copy) = (world.clone(), sessions.clone(), programs.clone());
    let looked = within(FILES_TIMEOUT, move || {
        let paths = SearchPaths::new(&world, login_shell, desktop);
        let results = copy.locate(&world, &paths);
        (paths, results, copy)
    });
    let Some((paths, results, copy)) = looked.await else { return (None, CheckResults::default()) };
    *programs = copy;
    (Some(paths), results)
}

/// The results of one part. Without any check: it took too long.
#[derive(Clone, Debug, Default)]
struct CheckResults {
    checks: Vec<(EnvironmentCheck, Outcome)>,
    findings: Vec<EnvironmentFinding>,
    notes: Vec<String>,
    detail: String,
}

impl CheckResults {
    fn pass(&mut self, check: EnvironmentCheck) {
        mark(&mut self.checks, check, Outcome::Passed);
    }

    fn not_run(&mut self, check: EnvironmentCheck, why: &'static str) {
        mark(&mut self.checks, check, Outcome::NotRun(why));
    }

    fn fail(&mut self, finding: EnvironmentFinding) {
        mark(&mut self.checks, finding.check, Outcome::Failed);
        self.findings.push(finding);
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
            mark(&mut report.checks, check, outcome);
        }
        report.steps.push(EnvironmentStep { part, outcome, took, detail });
        report.findings.extend(findings);
        report.notes.extend(notes);
    }
}

/// A part that looks at files alone.
async fn files(world: &World, examine: fn(&World) -> CheckResults) -> CheckResults {
    let world = world.clone();
    within(FILES_TIMEOUT, move || examine(&world)).await.unwrap_or_default()
}

async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let began = Instant::now();
    (work.await, began.elapsed())
}

#[cfg(test)]
mod tests;
