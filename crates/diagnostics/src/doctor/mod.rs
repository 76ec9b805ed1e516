//! Finds out why a server does not work: an examination, phase by phase.
//!
//! [`Doctor`] resolves the program or the address, starts the program or connects, opens the session, reads the lists and
//! disconnects. Its report has the duration of each phase and the findings: what was seen, what it means, one thing to do.
//! [`OrchestraDoctor`] does the same with an orchestrator of Orchestra, and [`EnvironmentDoctor`] with the machine. Used by
//! `mcpjoin doctor`, and by programs that show why a server does not connect. It calls no tool, prints nothing and leaves no
//! process and no connection.
//!
//! ```no_run
//! use mcpjoin::Client;
//! use mcpjoin_diagnostics::doctor::Doctor;
//! use mcpjoin::transport::ChildCommand;
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
mod diagnosis;
mod environment;
mod examination;
mod findings;
mod http;
mod observer;
mod opening;
mod orchestra;
mod quic;
mod report;
mod socket;
mod stderr_patterns;

use std::fmt;
use std::time::Duration;

pub use environment::{
    EnvironmentCheck, EnvironmentDoctor, EnvironmentFinding, EnvironmentPart, EnvironmentReport,
    EnvironmentStep, LaunchContext, Runtime, SearchPath, SearchPaths, World,
};
#[doc(hidden)]
pub use examination::counted;
pub use orchestra::{OrchestraDoctor, Orchestrator};
pub use report::{Check, Evidence, Finding, Listing, Outcome, Phase, Report, Step};
pub use stderr_patterns::{KnownFault, listening_url};

use self::examination::{Callbacks, Examination};
use self::report::Transport;
use mcpjoin::client::ClientBuilder;
use mcpjoin::transport::{ChildCommand, Direction, HttpConnect, Inspected, SocketConnect};
use mcpjoin_quic::QuicConnect;

/// A first response that takes longer is a finding: 5 s, the timeout of the probe of the era.
const SLOW_START: Duration = Duration::from_secs(5);

/// How the server is started or reached. Made by `into` from each of the types it holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Target {
    /// A program, started as a child process.
    Child(ChildCommand),
    /// A server on a TCP port or a Unix socket.
    Socket(SocketConnect),
    /// A server over HTTP.
    Http(Box<HttpConnect>),
    /// A server on QUIC.
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

/// An examination of a server. It is made by [`examine`](Self::examine).
#[must_use = "nothing is examined before `examine`"]
pub struct Doctor {
    target: Target,
    client: ClientBuilder,
    slow_start: Duration,
    callbacks: Callbacks,
}

impl Doctor {
    /// Examines this server, as this client talks to it.
    pub fn new(target: impl Into<Target>, client: ClientBuilder) -> Self {
        let callbacks = Callbacks::default();
        Self { target: target.into(), client, slow_start: SLOW_START, callbacks }
    }

    /// A first response that takes longer than this is a finding. Default: 5 s.
    pub const fn slow_start(mut self, limit: Duration) -> Self {
        self.slow_start = limit;
        self
    }

    /// Calls this when a phase begins. It must not block.
    pub fn on_phase(mut self, callback: impl Fn(Phase) + Send + Sync + 'static) -> Self {
        self.callbacks.on_phase = Some(Box::new(callback));
        self
    }

    /// Calls this when a phase ends, so that a caller that stops the examination has its results until then. A phase may be
    /// reported again when more is known of it; [`Report::steps`] is final. It must not block.
    pub fn on_step(mut self, callback: impl Fn(&Step) + Send + Sync + 'static) -> Self {
        self.callbacks.on_step = Some(Box::new(callback));
        self
    }

    /// Calls this with everything that crosses the link. It must not block.
    pub fn inspected(mut self, inspector: impl FnMut(Direction, Inspected<'_>) + Send + 'static) -> Self {
        self.callbacks.inspector = Some(Box::new(inspector));
        self
    }

    /// Runs all phases. Afterwards nothing that it has started is left, except what [`Check::Family`] reports, and no
    /// connection.
    ///
    /// Takes as long as the limits of the client and of the connection and the shutdown of the command allow, and at most 5 s
    /// for the version of a runtime. Dropped before it is ready, it ends what it has started.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub async fn examine(self) -> Report {
        let Self { target, client, slow_start, callbacks } = self;
        let transport = match &target {
            Target::Child(_) => Transport::Child,
            Target::Socket(_) => Transport::Socket,
            Target::Http(_) => Transport::Http,
            Target::Quic(_) => Transport::Quic,
        };
        let mut exam = Examination::new(transport, callbacks, slow_start);
        match target {
            Target::Child(command) => child::examine(&mut exam, command, client).await,
            Target::Socket(connect) => socket::examine(&mut exam, connect, client).await,
            Target::Http(connect) => http::examine(&mut exam, *connect, client).await,
            Target::Quic(connect) => quic::examine(&mut exam, *connect, client).await,
        }
        exam.finish()
    }
}

impl fmt::Debug for Doctor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doctor")
            .field("target", &self.target)
            .field("client", &self.client)
            .field("slow_start", &self.slow_start)
            .finish_non_exhaustive()
    }
}
