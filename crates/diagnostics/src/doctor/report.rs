//! The result of an examination: phases, checks and findings, the same for every transport.
//!
//! Returned by [`Doctor`](super::Doctor) and [`OrchestraDoctor`](super::OrchestraDoctor) to callers that print it. Which
//! phases and checks a transport has is in the two tables here.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use mcpjoin_proto::session::{Peer, ProcessExit, TransportError, Violation};
use mcpjoin_proto::{ErrorObject, Method};

use super::orchestra::Orchestrator;
use mcpjoin::transport::Survivor;
use mcpjoin_quic::endpoint::CertificateFacts;
use mcpjoin_rules::named;

/// Declares an enum with [`named`], each variant of which belongs to some transports.
macro_rules! of_transports {
    ($(#[$about:meta])* $name:ident {
        $($(#[$what:meta])* $variant:ident = $text:literal [$($transport:ident),*],)*
    }) => {
        named! {
            $(#[$about])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
            #[non_exhaustive]
            pub enum $name { $($(#[$what])* $variant = $text,)* }
        }

        impl $name {
            /// Those that this transport has, in their order.
            pub(super) fn of(transport: Transport) -> impl Iterator<Item = Self> {
                let belongs = move |value: &Self| match value {
                    $(Self::$variant => [$(Transport::$transport),*].contains(&transport),)*
                };
                Self::ALL.into_iter().filter(belongs)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

/// How the server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// A child process, on its standard input and output.
    Child,
    Http,
    /// A TCP or a Unix socket.
    Socket,
    Quic,
    /// An orchestrator of Orchestra, which is no MCP server.
    Orchestra,
}

impl Transport {
    /// Whether the server is not our child process.
    pub(super) const fn is_remote(self) -> bool {
        !matches!(self, Self::Child)
    }
}

of_transports! {
    /// The phases of an examination, in their order. The transport decides which of them there are.
    Phase {
        /// Reading the folder of certificates. For an orchestrator only.
        Certificates = "certificates" [Orchestra],
        /// Finding the program and its interpreter, the addresses of a name, or the socket.
        Resolve = "resolve" [Child, Http, Socket, Quic],
        /// Starting a program.
        Spawn = "spawn" [Child],
        /// Connecting; over QUIC with its handshake.
        Connect = "connect" [Http, Socket, Quic, Orchestra],
        /// The handshake of TLS, with the certificate. For HTTPS only.
        Tls = "tls" [Http],
        /// Finding out the era with `server/discover`.
        Probe = "probe" [Child, Http, Socket, Quic],
        /// Opening a session with `initialize`. For the legacy era only.
        Initialize = "initialize" [Child, Http, Socket, Quic],
        /// Finding out how a client would log in. For a server over HTTP that requires a login when we have no credentials.
        Authorization = "authorization" [],
        /// Requesting the health. For an orchestrator only.
        Health = "health" [Orchestra],
        /// Reading every list that the server declares.
        List = "list" [Child, Http, Socket, Quic, Orchestra],
        /// Ending the session and the connection; for a program its standard input and its exit.
        ShutDown = "shut down" [Child, Http, Socket, Quic],
    }
}

of_transports! {
    /// The checks of an examination. Each passes, fails with a finding, or is not run. The transport decides which of them
    /// there are.
    Check {
        /// The program is found and may be run.
        Program = "program" [Child],
        /// What runs the program (the interpreter in its first line) is found.
        Runtime = "runtime" [Child],
        /// The system starts it.
        Start = "start" [Child],
        /// Our own certificates are in order.
        Certificates = "certificates" [Quic, Orchestra],
        /// The address is valid, and its name has addresses; the socket exists.
        Address = "address" [Http, Socket, Quic, Orchestra],
        /// The proxy, if there is one, forwards our requests.
        Proxy = "proxy" [Http],
        /// The connection is accepted.
        Reached = "reached" [Http, Socket, Quic, Orchestra],
        /// The server listens on every address of the name, over IPv4 and IPv6 alike.
        Families = "families" [Http],
        /// Both sides speak TLS, or neither does.
        Tls = "tls" [Http],
        /// The server's certificate is trusted, for this name and today.
        ServerCertificate = "server-certificate" [Http, Quic, Orchestra],
        /// The server accepts the certificate of the client.
        ClientCertificate = "client-certificate" [Quic, Orchestra],
        /// The peer speaks the protocol of this transport.
        Protocol = "protocol" [Http, Socket, Quic, Orchestra],
        /// The clock of the server and ours agree within five minutes.
        Clock = "clock" [Http],
        /// The server requires no credentials, or accepts ours.
        Authorization = "authorization" [Http],
        /// The path is that of an MCP server, with the HTTP transport that was asked for.
        Endpoint = "endpoint" [Http],
        /// The server accepts the headers of a request.
        Headers = "headers" [Http],
        /// The server accepts requests as large as ours.
        Size = "size" [Http],
        /// The server is not overloaded, and works.
        Capacity = "capacity" [Http],
        /// The bodies of responses hold messages, with the right type.
        Body = "body" [Http],
        /// The server does not exit or disconnect because of the probe of the era.
        ProbeSurvived = "probe-survived" [Child, Socket],
        /// The probe of the era has a response before `initialize` is sent.
        ProbeAnswered = "probe-answered" [Child, Http, Socket, Quic],
        /// Client and server agree on a version.
        Opening = "opening" [Child, Http, Socket, Quic],
        /// The first response comes in good time.
        Speed = "speed" [Child, Http, Socket, Quic],
        /// Standard output, or the connection, carries messages and nothing else.
        Output = "output" [Child, Http, Socket, Quic],
        /// What the server writes does not begin with a byte order mark.
        ByteOrderMark = "byte-order-mark" [Child, Socket],
        /// No other rule of the protocol is violated.
        Rules = "rules" [Child, Http, Socket, Quic],
        /// The session lives as long as it is used.
        Session = "session" [Http],
        /// The orchestrator reports that it is healthy.
        Health = "health" [Orchestra],
        /// Every list that is declared can be read.
        Lists = "lists" [Child, Http, Socket, Quic, Orchestra],
        /// The lists are not empty.
        Offer = "offer" [Child, Http, Socket, Quic, Orchestra],
        /// The server does not exit or disconnect before the client ends the session.
        Life = "life" [Child, Http, Socket, Quic],
        /// It exits by itself at the end of its standard input.
        EndOfInput = "end-of-input" [Child],
        /// It exits with code 0.
        ExitStatus = "exit-status" [Child],
        /// It leaves no process behind.
        Family = "family" [Child],
        /// It accepts the end of the session.
        Farewell = "farewell" [Http],
    }
}

/// The result of one phase.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// The phase.
    pub phase: Phase,
    /// How it went.
    pub outcome: Outcome,
    /// Its duration; `None` for one that was not run. The probe ends with its response, or when it is given up.
    pub took: Option<Duration>,
    /// The result in one line; of a failed phase, the id of the finding or what else is known. May contain text of the
    /// server's.
    pub detail: String,
}

/// How a phase or a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Nothing is wrong.
    Passed,
    /// A finding says what is wrong.
    Failed,
    /// It was not possible or not necessary, for this reason.
    NotRun(&'static str),
}

/// One fault: what was seen, what it means, one thing to do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of fault. It stays from version to version, so that scripts may match on it.
    pub id: &'static str,
    /// The check that failed.
    pub check: Check,
    /// The phase in which it was seen.
    pub phase: Phase,
    /// What was seen, in one sentence. May contain text of the server's.
    pub seen: String,
    /// What it means for users of the server.
    pub meaning: String,
    /// One thing to do.
    pub advice: String,
    /// The facts that it is concluded from.
    pub evidence: Evidence,
    /// The failure of the link that it is concluded from, where it may become more precise.
    pub(super) lost: Option<Box<TransportError>>,
}

/// The facts that a finding is concluded from, as far as they are known. Texts are the server's own, not escaped. A line has
/// at most 400 characters.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Evidence {
    /// How the server's process exited.
    pub exit: Option<ProcessExit>,
    /// The last lines of its standard error, at most 12.
    pub stderr: Vec<String>,
    /// The first lines of its standard output that were no messages, at most 5.
    pub stdout: Vec<String>,
    /// The first lines that a remote server sent and that were no messages, at most 5.
    pub received: Vec<String>,
    /// The beginning of the body of a response that is no message.
    pub body: Option<String>,
    /// The last HTTP requests with the outcome of each, a line each, at most 12.
    pub requests: Vec<String>,
    /// The error that the server answered with.
    pub error: Option<ErrorObject>,
    /// The rules that the server violated, at most 20.
    pub violations: Vec<Violation>,
    /// The processes that the finding is about.
    pub processes: Vec<Survivor>,
}

/// One list of the server, read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// The method that lists: `tools/list` and the like.
    pub method: Method,
    /// How many items it has.
    pub items: usize,
    /// How long reading it took.
    pub took: Duration,
}

/// The result of an examination.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Every phase of the transport, in order.
    pub steps: Vec<Step>,
    /// Every check of the transport, in the order of [`Check::ALL`].
    pub checks: Vec<(Check, Outcome)>,
    /// What is wrong, in the order in which it was noticed. Empty for a server without fault.
    pub findings: Vec<Finding>,
    /// What was seen and is no fault, but may matter, a sentence each.
    pub notes: Vec<String>,
    /// The last lines that the server wrote to standard error, at most 12. Writing there is no fault.
    pub stderr: Vec<String>,
    /// The addresses of the name, if there is one.
    pub addresses: Vec<SocketAddr>,
    /// The server's certificate, over QUIC and HTTPS.
    pub certificate: Option<CertificateFacts>,
    /// The facts about an orchestrator, if one was examined.
    pub orchestrator: Option<Box<Orchestrator>>,
    /// The server, if client and server agreed.
    pub peer: Option<Peer>,
    /// The lists that were read.
    pub lists: Vec<Listing>,
    /// The duration of the whole examination.
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
        self.checks.len() - self.checks_not_run().count()
    }

    /// The checks that were not run, and why.
    pub fn checks_not_run(&self) -> impl Iterator<Item = (Check, &'static str)> {
        not_run(&self.checks)
    }
}

/// The checks that were not run, and why.
pub(super) fn not_run<C: Copy>(checks: &[(C, Outcome)]) -> impl Iterator<Item = (C, &'static str)> {
    checks.iter().filter_map(|(check, outcome)| match outcome {
        Outcome::NotRun(why) => Some((*check, *why)),
        _ => None,
    })
}

/// Sets the outcome of a check. One that has failed stays failed.
pub(super) fn mark<C: PartialEq>(checks: &mut Vec<(C, Outcome)>, check: C, outcome: Outcome) {
    match checks.iter_mut().find(|(known, _)| *known == check) {
        Some((_, known)) if *known == Outcome::Failed => {}
        Some((_, known)) => *known = outcome,
        None => checks.push((check, outcome)),
    }
}
