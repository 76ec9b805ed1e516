//! What an examination comes to: typed, to be shown by whoever asked for it. It is the same for every way to a server.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use mcpjoin_proto::session::{Peer, ProcessExit, Violation};
use mcpjoin_proto::{ErrorObject, Method};

use super::orchestra::Orchestrator;
use mcpjoin::link::Survivor;
use mcpjoin_quic::endpoint::CertificateFacts;

/// The parts of an examination, in their order. Which of them an examination has depends on the way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Phase {
    /// Looking at the folder of certificates: an orchestrator alone.
    Certificates,
    /// Which file is run, and by what; which addresses a name has; whether a socket is there.
    Resolve,
    /// Starting a program.
    Spawn,
    /// Connecting to who listens; over QUIC with its handshake.
    Connect,
    /// The handshake of TLS, and what the certificate says: HTTPS alone.
    Tls,
    /// Finding out the era with `server/discover`.
    Probe,
    /// Opening a session with `initialize`: the legacy era alone.
    Initialize,
    /// Finding out how a client would log in: a server over HTTP that wants to know who asks, and nobody has said it.
    Authorization,
    /// Asking how it is: an orchestrator alone.
    Health,
    /// Reading every list that the server declares.
    List,
    /// Leaving: the end of a program's standard input and its own end, the end of a session, of a connection.
    ShutDown,
}

impl Phase {
    /// All of them, in their order.
    pub const ALL: [Self; 11] = [
        Self::Certificates,
        Self::Resolve,
        Self::Spawn,
        Self::Connect,
        Self::Tls,
        Self::Probe,
        Self::Initialize,
        Self::Authorization,
        Self::Health,
        Self::List,
        Self::ShutDown,
    ];

    /// Its name, for people and for programs alike.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Certificates => "certificates",
            Self::Resolve => "resolve",
            Self::Spawn => "spawn",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Probe => "probe",
            Self::Initialize => "initialize",
            Self::Authorization => "authorization",
            Self::Health => "health",
            Self::List => "list",
            Self::ShutDown => "shut down",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One phase as it went.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// Which.
    pub phase: Phase,
    /// How it went.
    pub outcome: Outcome,
    /// From its beginning to its end; `None` for one that was not run. The time of the probe ends with its answer, or
    /// when it was given up.
    pub took: Option<Duration>,
    /// What came of it, in one line; of one that failed, the id of the finding or what is known beside it. May contain
    /// text of the server's.
    pub detail: String,
}

/// How a phase or a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// As it should.
    Passed,
    /// A finding says what is wrong.
    Failed,
    /// It could not be, or need not be, for this reason.
    NotRun(&'static str),
}

/// What is looked at. Each check passes, fails with a finding, or is not run. Which of them an examination has depends on
/// the way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Check {
    /// The program is found and may be run.
    Program,
    /// What runs the program (the interpreter in its first line) is found.
    Runtime,
    /// The system starts it.
    Start,
    /// Our own certificates are in order.
    Certificates,
    /// The address is one, and its name has addresses; the socket is there.
    Address,
    /// The proxy, where there is one, lets us through.
    Proxy,
    /// Somebody takes the connection.
    Reached,
    /// Whoever listens does so on every address of the name, over IPv4 and IPv6 alike.
    Families,
    /// Both sides speak TLS, or neither does.
    Tls,
    /// The server's certificate is one that is trusted, for this name and today.
    ServerCertificate,
    /// The server lets us in with the certificate that we show.
    ClientCertificate,
    /// What listens there speaks the protocol of this transport.
    Protocol,
    /// Its clock and ours are not far apart.
    Clock,
    /// The server does not ask who we are, or knows us.
    Authorization,
    /// The path is that of an MCP server, in the way of HTTP that was asked for.
    Endpoint,
    /// The server takes the headers that belong to a request.
    Headers,
    /// The server takes requests as large as ours.
    Size,
    /// The server has room for us, and is in order.
    Capacity,
    /// The bodies of responses are what a response has there.
    Body,
    /// The probe of the era is survived: the server does not end because of it.
    ProbeSurvived,
    /// The probe of the era is answered: the server is not mute until `initialize`.
    ProbeAnswered,
    /// Client and server agree.
    Opening,
    /// The first answer comes in good time.
    Speed,
    /// Standard output, or the connection, carries messages and nothing else.
    Output,
    /// What the server writes does not begin with a byte order mark.
    ByteOrderMark,
    /// No other rule of the protocol is broken.
    Rules,
    /// The session lives as long as we use it.
    Session,
    /// It says of itself that it is in order.
    Health,
    /// Every list that is declared can be read.
    Lists,
    /// There is something in the lists.
    Offer,
    /// The server lives until it is told to end; over a connection, it does not end that before we do.
    Life,
    /// It ends by itself when its standard input ends.
    EndOfInput,
    /// It ends with exit code 0.
    ExitStatus,
    /// It leaves no process behind.
    Family,
    /// It takes the end of the session.
    Farewell,
}

impl Check {
    /// All of them.
    pub const ALL: [Self; 35] = [
        Self::Program,
        Self::Runtime,
        Self::Start,
        Self::Certificates,
        Self::Address,
        Self::Proxy,
        Self::Reached,
        Self::Families,
        Self::Tls,
        Self::ServerCertificate,
        Self::ClientCertificate,
        Self::Protocol,
        Self::Clock,
        Self::Authorization,
        Self::Endpoint,
        Self::Headers,
        Self::Size,
        Self::Capacity,
        Self::Body,
        Self::ProbeSurvived,
        Self::ProbeAnswered,
        Self::Opening,
        Self::Speed,
        Self::Output,
        Self::ByteOrderMark,
        Self::Rules,
        Self::Session,
        Self::Health,
        Self::Lists,
        Self::Offer,
        Self::Life,
        Self::EndOfInput,
        Self::ExitStatus,
        Self::Family,
        Self::Farewell,
    ];

    /// Its name, which stays.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Runtime => "runtime",
            Self::Start => "start",
            Self::Certificates => "certificates",
            Self::Address => "address",
            Self::Proxy => "proxy",
            Self::Reached => "reached",
            Self::Families => "families",
            Self::Tls => "tls",
            Self::ServerCertificate => "server-certificate",
            Self::ClientCertificate => "client-certificate",
            Self::Protocol => "protocol",
            Self::Clock => "clock",
            Self::Authorization => "authorization",
            Self::Endpoint => "endpoint",
            Self::Headers => "headers",
            Self::Size => "size",
            Self::Capacity => "capacity",
            Self::Body => "body",
            Self::ProbeSurvived => "probe-survived",
            Self::ProbeAnswered => "probe-answered",
            Self::Opening => "opening",
            Self::Speed => "speed",
            Self::Output => "output",
            Self::ByteOrderMark => "byte-order-mark",
            Self::Rules => "rules",
            Self::Session => "session",
            Self::Health => "health",
            Self::Lists => "lists",
            Self::Offer => "offer",
            Self::Life => "life",
            Self::EndOfInput => "end-of-input",
            Self::ExitStatus => "exit-status",
            Self::Family => "family",
            Self::Farewell => "farewell",
        }
    }
}

/// One thing that is wrong: what was seen, what it means, one thing to do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// What kind of fault it is; stays from version to version, so that scripts may look for it.
    pub id: &'static str,
    /// The check that failed.
    pub check: Check,
    /// Where it was seen.
    pub phase: Phase,
    /// What was seen, in one sentence. May contain text of the server's.
    pub seen: String,
    /// What it means for whoever uses the server.
    pub meaning: String,
    /// One thing to do.
    pub advice: String,
    /// What it is concluded from.
    pub evidence: Evidence,
}

impl Finding {
    /// Without evidence.
    pub(super) fn new(
        id: &'static str,
        check: Check,
        phase: Phase,
        seen: impl Into<String>,
        meaning: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            id,
            check,
            phase,
            seen: seen.into(),
            meaning: meaning.into(),
            advice: advice.into(),
            evidence: Evidence::default(),
        }
    }
}

/// What a finding is concluded from, as far as it is known. Bytes are the server's own, and lines at most 400
/// characters long.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Evidence {
    /// How the server's process has ended.
    pub exit: Option<ProcessExit>,
    /// The last lines of its standard error, at most 12.
    pub stderr: Vec<String>,
    /// The first lines of its standard output that were no messages, at most 5.
    pub stdout: Vec<String>,
    /// The same of what came over a connection.
    pub received: Vec<String>,
    /// How the body of a response begins that is no message.
    pub body: Option<String>,
    /// The requests of HTTP that were made and what came of each, a line each, at most 12.
    pub requests: Vec<String>,
    /// The error that it answered with.
    pub error: Option<ErrorObject>,
    /// The rules that it has broken, at most 20.
    pub violations: Vec<Violation>,
    /// The processes that it is about.
    pub processes: Vec<Survivor>,
}

/// One list of the server, read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// Which: `tools/list` and the like.
    pub method: Method,
    /// How many items it has.
    pub items: usize,
    /// How long reading it took.
    pub took: Duration,
}

/// How an examination went.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// Every phase that this way to a server has, in order.
    pub steps: Vec<Step>,
    /// Every check that this way to a server has, in the order of [`Check::ALL`].
    pub checks: Vec<(Check, Outcome)>,
    /// What is wrong, in the order in which it was noticed. Empty for a server without fault.
    pub findings: Vec<Finding>,
    /// What was seen and is no fault, but may matter, a sentence each.
    pub notes: Vec<String>,
    /// The last lines that the server wrote to standard error, at most 12. Writing there is no fault.
    pub stderr: Vec<String>,
    /// The addresses of the name, where there is one.
    pub addresses: Vec<SocketAddr>,
    /// The server's certificate, over QUIC and HTTPS.
    pub certificate: Option<CertificateFacts>,
    /// What is known of an orchestrator, where it is one that is examined.
    pub orchestrator: Option<Box<Orchestrator>>,
    /// The server, where it came to an agreement.
    pub peer: Option<Peer>,
    /// The lists that could be read.
    pub lists: Vec<Listing>,
    /// From the beginning to the end.
    pub took: Duration,
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_healthy(&self) -> bool {
        self.findings.is_empty()
    }

    /// How many checks were run.
    #[must_use]
    pub fn checks_run(&self) -> usize {
        self.checks.iter().filter(|(_, outcome)| !matches!(outcome, Outcome::NotRun(_))).count()
    }

    /// The checks that were not run, and why.
    pub fn checks_not_run(&self) -> impl Iterator<Item = (Check, &'static str)> {
        self.checks.iter().filter_map(|(check, outcome)| match outcome {
            Outcome::NotRun(why) => Some((*check, *why)),
            _ => None,
        })
    }
}

/// Notes how a check went. What has failed has failed.
pub(super) fn mark<C: PartialEq>(checks: &mut Vec<(C, Outcome)>, check: C, outcome: Outcome) {
    match checks.iter_mut().find(|(known, _)| *known == check) {
        Some((_, known)) if *known == Outcome::Failed => {}
        Some((_, known)) => *known = outcome,
        None => checks.push((check, outcome)),
    }
}
