//! The machine on which servers are started: `PATH` and runtimes, caches, proxies, certificates, loopback, clock, limits.
//!
//! Used by `mcpjoin doctor`. Everything is read through a [`World`], and has a timeout. Nothing is changed. Only the runtimes
//! are run, with `--version`, and the user's login shell, unless [`EnvironmentDoctor::without_shell`] forbids it. Nothing is
//! sent to the internet. How clients start servers is in the specification:
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#stdio>.

mod faults;
mod managers;
mod network;
mod paths;
mod programs;
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

pub(super) use self::managers::version_manager;
use self::programs::Programs;
pub(super) use self::world::within;
use super::Outcome;
use super::report::mark;
use mcpjoin::transport::ChildCommand;

/// How long reading the files of one part may take.
const FILES_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a runtime may take to print its version: npm takes a second, and on a busy machine several.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);
/// Why a part has no result.
const TOO_SLOW: &str = "reading its files took longer than 5 s";

/// An examination of the machine. It is made by [`examine`](Self::examine).
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
    /// `PATH` of the login shell and of a desktop session. Clones share it, so that the shell is run once only.
    sessions: Arc<OnceCell<[SearchPath; 2]>>,
}

impl EnvironmentDoctor {
    /// Examines these surroundings.
    pub fn new(world: World) -> Self {
        let shell_timeout = Some(shell::SHELL_TIMEOUT);
        Self { world, version_timeout: VERSION_TIMEOUT, shell_timeout, sessions: Arc::default() }
    }

    /// How long a runtime may take to print its version. Default: 10 s.
    pub const fn version_timeout(mut self, timeout: Duration) -> Self {
        self.version_timeout = timeout;
        self
    }

    /// Does not run the user's login shell. The `PATH` of a terminal, and of a desktop session on Linux, is then unknown.
    pub const fn without_shell(mut self) -> Self {
        self.shell_timeout = None;
        self
    }

    /// Examines all parts, in at most 25 s. Dropped before it is ready, it ends what it has started; a thread may go on
    /// reading files of a file system that hangs.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub async fn examine(&self) -> EnvironmentReport {
        let began = Instant::now();
        let world = &self.world;
        let (programs, path, caches, proxies, certificates, loopback, clock, resources) = tokio::join!(
            timed(programs::examine(world, self.version_timeout)),
            timed(self.sessions()),
            timed(files(world, system::caches)),
            timed(network::proxies(world)),
            timed(files(world, system::certificates)),
            timed(network::loopback(world)),
            timed(files(world, system::clock)),
            timed(files(world, system::resources)),
        );
        let ((mut programs, programs_took), (sessions, sessions_took)) = (programs, path);
        let ((located, path_results), took) = timed(located(world, sessions, &mut programs)).await;
        let path = (path_results, sessions_took + took);
        let Programs { results, runtimes, .. } = programs;
        let checks = EnvironmentCheck::ALL.map(|check| (check, Outcome::NotRun(TOO_SLOW))).into();
        let mut report =
            EnvironmentReport { checks, runtimes, paths: located, ..EnvironmentReport::default() };
        let parts =
            [path, (results, programs_took), caches, proxies, certificates, loopback, clock, resources];
        for (part, (results, took)) in EnvironmentPart::ALL.into_iter().zip(parts) {
            results.into_report(&mut report, part, took);
        }
        report.took = began.elapsed();
        report
    }

    /// A sentence about the login shells that this and its clones have run, and one about each that printed no `PATH`. Empty
    /// if none was needed.
    #[must_use]
    pub fn shell_notes(&self) -> Vec<String> {
        let Some(sessions) = self.sessions.get() else { return Vec::new() };
        let shells: Vec<&str> = sessions.iter().filter_map(|path| path.shell.as_deref()).collect();
        let ran = (!shells.is_empty()).then(|| format!("ran {} to find the program", shells.join(" and ")));
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

    /// Why this program cannot be started: it is found elsewhere but not from here, it is a shim without a program behind it,
    /// or its interpreter is missing. Runs the login shell if the program is not found. Takes at most 20 s.
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

    /// The same for the program of a command, with the `PATH` of the command.
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

    /// The faults of the machine that affect this connection, as [`about_host`](Self::about_host) finds them. None for an
    /// address that is invalid.
    pub async fn about_server(&self, connect: &mcpjoin::transport::HttpConnect) -> Vec<EnvironmentFinding> {
        let Ok(checked) = connect.checked() else { return Vec::new() };
        let host = checked.url.host_str().unwrap_or_default();
        self.about_host(host, checked.url.scheme() == "https").await
    }

    /// The faults of the machine that affect URLs with this host: proxies, certificates, and loopback for a host on this
    /// machine. Only the variables that mcpjoin reads for such a URL count. Takes at most 10 s.
    pub async fn about_host(&self, host: &str, encrypted: bool) -> Vec<EnvironmentFinding> {
        let world = &self.world;
        let host = host.trim_matches(['[', ']']);
        let mut findings = network::about_host(world, host, encrypted).await;
        if encrypted {
            findings.extend(files(world, system::own_certificates).await.findings);
        }
        if network::is_this_machine(host) {
            findings.extend(network::loopback(world).await.findings);
        }
        findings
    }
}

/// Finds each runtime in each context. Returns the results of the part `path`.
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

/// The results of one part. No check at all means that it took too long.
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

    /// Passes the check, or adds the fault.
    fn decide(&mut self, check: EnvironmentCheck, fault: Option<EnvironmentFinding>) {
        match fault {
            Some(finding) => self.fail(finding),
            None => self.pass(check),
        }
    }

    fn into_report(self, report: &mut EnvironmentReport, part: EnvironmentPart, took: Duration) {
        let Self { checks, findings, notes, mut detail } = self;
        let outcome = if checks.is_empty() {
            Outcome::NotRun(TOO_SLOW)
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

/// Examines a part that only reads files.
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
