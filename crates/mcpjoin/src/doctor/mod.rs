//! What is wrong with a server that is started as a child: an examination, phase by phase.
//!
//! [`Doctor`] looks up the program, starts it, finds out how it speaks, reads its lists and ends it, with the time of
//! each part, and says what is wrong: what was seen, what it means, one thing to do. Called by `mcpjoin doctor` and by
//! whoever wants to know why a server does not connect. It calls no tool, prints nothing and leaves no process.
//!
//! ```no_run
//! use mcpjoin::Client;
//! use mcpjoin::doctor::Doctor;
//! use mcpjoin::link::ChildCommand;
//!
//! # async fn example() {
//! let command = ChildCommand::new("my-server").arg("--stdio");
//! let report = Doctor::new(command, Client::builder("my-client", "1.0.0")).examine().await;
//! for finding in &report.findings {
//!     println!("{}: {} ({})", finding.id, finding.seen, finding.advice);
//! }
//! assert!(report.is_healthy(), "{} checks of {}", report.checks_run(), report.checks.len());
//! # }
//! ```
//!
//! How a client should start and end such a server is in the specification:
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#stdio>.

mod course;
mod diagnosis;
mod environment;
mod opening;
#[cfg(feature = "quic")]
mod orchestra;
#[cfg(feature = "quic")]
mod quic;
mod report;
mod resolve;
mod wire;

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

pub use environment::{
    EnvironmentCheck, EnvironmentDoctor, EnvironmentFinding, EnvironmentPart, EnvironmentReport,
    EnvironmentStep, Runtime, SearchPath, SearchPaths, Seat, System, World,
};
#[cfg(feature = "quic")]
pub use orchestra::{OrchestraDoctor, OrchestraFinding, OrchestraPart, OrchestraReport, OrchestraStep};
#[cfg(feature = "quic")]
pub use quic::{QuicDoctor, QuicFinding, QuicPart, QuicReport, QuicStep};
pub use report::{Check, Evidence, Finding, Listing, Outcome, Phase, Report, Step};

use self::course::Course;
use self::opening::Opening;
use self::wire::Wire;
use crate::client::ClientBuilder;
use crate::link::ChildCommand;

/// How long a server may take to its first answer before that is a finding: 5 s, as long as the probe of the era waits.
const SLOW: Duration = Duration::from_secs(5);

/// An examination to be. It is made by [`examine`](Self::examine).
#[must_use = "nothing is examined before `examine`"]
pub struct Doctor {
    command: ChildCommand,
    client: ClientBuilder,
    slow: Duration,
    begun: Option<Box<dyn Fn(Phase) + Send + Sync>>,
}

impl Doctor {
    /// Examines what this command starts, as this client talks to it.
    pub fn new(command: ChildCommand, client: ClientBuilder) -> Self {
        Self { command, client, slow: SLOW, begun: None }
    }

    /// How long a server may take to its first answer before that is a finding: 5 s.
    pub const fn slow_start(mut self, bound: Duration) -> Self {
        self.slow = bound;
        self
    }

    /// Hears of each phase as it begins. Must not block.
    pub fn on_phase(mut self, begun: impl Fn(Phase) + Send + Sync + 'static) -> Self {
        self.begun = Some(Box::new(begun));
        self
    }

    /// Does all of it. When it is over nothing that it has started is left, but what [`Check::Family`] names.
    ///
    /// Takes as long as the client's limits and the shutdown of the command allow, and 5 s at most for a runtime that
    /// is asked for its version. Dropped before it is ready, it ends what it has started.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub async fn examine(self) -> Report {
        let started = Instant::now();
        let mut course = Course::new(self.begun);
        let handle = self.command.handle();

        course.begin(Phase::Resolve);
        course.notes = resolve::notes(&self.command);
        let resolved = match resolve::resolve(&self.command).await {
            Ok(resolved) => resolved,
            Err(finding) => {
                if finding.check == Check::Runtime {
                    course.pass(Check::Program);
                }
                course.fail(*finding);
                return course.report(started);
            }
        };
        course.resolved(&resolved);

        course.begin(Phase::Spawn);
        let wire = Wire::default();
        let link = match self.command.start().await {
            Ok(link) => link,
            Err(error) => {
                let interpreter = resolved.interpreter.as_deref();
                course.fail(*diagnosis::unstarted(Phase::Spawn, &error, interpreter));
                return course.report(started);
            }
        };
        course.pass(Check::Start);
        let pid = handle.pid();
        course.end(pid.map_or_else(String::new, |pid| format!("process {pid}")));

        let opening = Opening { began: course.since, pid, slow: self.slow };
        course.begin(Phase::Probe);
        let Some(client) = opening.connect(&mut course, &wire, link, self.client, &handle).await else {
            course.stderr = diagnosis::last_lines(&handle.stderr());
            return course.report(started);
        };
        course.lists(&client).await;
        course.shut_down(client, &handle).await;
        course.heard(&wire.seen());
        course.stderr = diagnosis::last_lines(&handle.stderr());
        course.report(started)
    }
}

impl fmt::Debug for Doctor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doctor")
            .field("command", &self.command)
            .field("client", &self.client)
            .field("slow", &self.slow)
            .finish_non_exhaustive()
    }
}
