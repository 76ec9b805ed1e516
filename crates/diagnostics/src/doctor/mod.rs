//! What is wrong with a server, or with our way to it: an examination, phase by phase.
//!
//! [`Doctor`] looks up the program or the address, starts it or connects to it, finds out how it speaks, reads its lists
//! and leaves it, with the time of each part, and says what is wrong: what was seen, what it means, one thing to do.
//! [`OrchestraDoctor`] does the same with an orchestrator of Orchestra. Called by `mcpjoin doctor` and by whoever wants to
//! know why a server does not connect. It calls no tool, prints nothing and leaves no process and no connection.
//!
//! ```no_run
//! use mcpjoin::Client;
//! use mcpjoin_diagnostics::doctor::Doctor;
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
//! How a client should reach, start and leave a server is in the specification:
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports>.

mod child;
mod course;
mod diagnosis;
mod ending;
mod environment;
mod http;
mod opening;
mod orchestra;
mod quic;
mod remote;
mod report;
mod resolve;
mod socket;
mod way;
mod wire;
mod words;

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

pub use environment::{
    EnvironmentCheck, EnvironmentDoctor, EnvironmentFinding, EnvironmentPart, EnvironmentReport,
    EnvironmentStep, LaunchContext, Runtime, SearchPath, SearchPaths, World,
};
pub use orchestra::{OrchestraDoctor, Orchestrator};
pub use report::{Check, Evidence, Finding, Listing, Outcome, Phase, Report, Step};

use self::course::{Begun, Course, Noted};
use self::way::Way;
use mcpjoin::client::ClientBuilder;
use mcpjoin::link::HttpConnect;
use mcpjoin::link::{self, ChildCommand, Crossed, SocketConnect};
use mcpjoin_quic::QuicConnect;

/// How long a server may take to its first answer before that is a finding: 5 s, as long as the probe of the era waits.
const SLOW: Duration = Duration::from_secs(5);

/// What is examined: how the server is started or reached. Made from each of them by `into`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Target {
    /// A program, started as a child.
    Child(ChildCommand),
    /// Somebody who listens on a TCP port or a Unix socket.
    Socket(SocketConnect),
    /// Somebody who listens for HTTP.
    Http(Box<HttpConnect>),
    /// Somebody who listens on QUIC.
    Quic(Box<QuicConnect>),
}

impl From<ChildCommand> for Target {
    fn from(command: ChildCommand) -> Self {
        Self::Child(command)
    }
}

impl From<SocketConnect> for Target {
    fn from(connect: SocketConnect) -> Self {
        Self::Socket(connect)
    }
}

impl From<HttpConnect> for Target {
    fn from(connect: HttpConnect) -> Self {
        Self::Http(Box::new(connect))
    }
}

impl From<QuicConnect> for Target {
    fn from(connect: QuicConnect) -> Self {
        Self::Quic(Box::new(connect))
    }
}

/// An examination to be. It is made by [`examine`](Self::examine).
#[must_use = "nothing is examined before `examine`"]
pub struct Doctor {
    target: Target,
    client: ClientBuilder,
    slow: Duration,
    begun: Option<Begun>,
    noted: Option<Noted>,
    tap: Option<Tap>,
}

/// Sees the messages that cross.
type Tap = Box<dyn FnMut(link::Way, Crossed<'_>) + Send>;

impl Doctor {
    /// Examines what this starts or connects to, as this client talks to it.
    pub fn new(target: impl Into<Target>, client: ClientBuilder) -> Self {
        Self { target: target.into(), client, slow: SLOW, begun: None, noted: None, tap: None }
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

    /// Hears of each phase when it is over, so that whoever stops the examination has what was found out until then. One may
    /// come a second time, when more is known of it; [`Report::steps`] has the last word. Must not block.
    pub fn on_step(mut self, noted: impl Fn(&Step) + Send + Sync + 'static) -> Self {
        self.noted = Some(Box::new(noted));
        self
    }

    /// Shows everything that crosses the link. Must not block.
    pub fn tapped(mut self, tap: impl FnMut(link::Way, Crossed<'_>) + Send + 'static) -> Self {
        self.tap = Some(Box::new(tap));
        self
    }

    /// Does all of it. When it is over nothing that it has started is left, but what [`Check::Family`] names, and no
    /// connection.
    ///
    /// Takes as long as the limits of the client and of the connection and the shutdown of the command allow, and 5 s at
    /// most for a runtime that is asked for its version. Dropped before it is ready, it ends what it has begun.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub async fn examine(self) -> Report {
        let Self { target, client, slow, begun, noted, tap } = self;
        let started = Instant::now();
        let way = match &target {
            Target::Child(_) => Way::Child,
            Target::Socket(_) => Way::Socket,
            Target::Http(_) => Way::Http,
            Target::Quic(_) => Way::Quic,
        };
        let mut course = Course::new(way, begun);
        course.tap = tap;
        course.noted = noted;
        match target {
            Target::Child(command) => child::examine(&mut course, command, client, slow).await,
            Target::Socket(connect) => socket::examine(&mut course, connect, client, slow).await,
            Target::Http(connect) => http::examine(&mut course, *connect, client, slow).await,
            Target::Quic(connect) => quic::examine(&mut course, *connect, client, slow).await,
        }
        course.report(started)
    }
}

impl fmt::Debug for Doctor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doctor")
            .field("target", &self.target)
            .field("client", &self.client)
            .field("slow", &self.slow)
            .finish_non_exhaustive()
    }
}
