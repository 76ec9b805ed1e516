//! What is wrong with a server that listens on QUIC, or with our way to it: name, port, certificates, protocol, lists.
//!
//! Called by `mcpjoin doctor quic://...`. It calls no tool and subscribes to nothing. What crosses the connection is in
//! `docs/quic.md`.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcpjoin_proto::session::{CloseCause, LinkEndKind, OpeningFailure};
use mcpjoin_proto::{Method, code};
use tokio::net::lookup_host;
use tokio::time::{Instant, timeout};

use super::report::{Listing, Outcome};
use crate::client::{Client, ClientBuilder, ClientError, ConnectError, Listed, Pages};
use crate::link::{Link, QuicConnect, host_and_port};
use crate::quic::{CertificateFacts, Connection, QuicError, QuicErrorKind, Trust, now};

/// How long resolving a name may take: as long as connecting, of which it is a part otherwise.
const RESOLVE: Duration = Duration::from_secs(10);
/// Certificates that run out sooner get a note.
const SOON: i64 = 14 * 86_400;
/// Rules that were broken, at most so many are told.
const RULES: usize = 20;

const NO_CONNECTION: &str = "there was no connection";

/// The parts of this examination, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum QuicPart {
    /// From the name to addresses.
    Resolve,
    /// The handshake: certificates, keys, the application protocol.
    Connect,
    /// Finding out the era, and coming to an agreement.
    Open,
    /// Reading every list that the server declares.
    List,
    /// Leaving, until the server knows.
    Close,
}

impl QuicPart {
    /// Its name, for people and for programs alike.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Open => "open",
            Self::List => "list",
            Self::Close => "close",
        }
    }
}

/// One part as it went.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuicStep {
    /// Which.
    pub part: QuicPart,
    /// How it went.
    pub outcome: Outcome,
    /// From its beginning to its end; `None` for one that was not run.
    pub took: Option<Duration>,
    /// What came of it, in one line; of one that failed, the id of the finding. May contain text of the server's.
    pub detail: String,
}

/// One thing that is wrong: what was seen, what it means, one thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuicFinding {
    /// What kind of fault it is; stays from version to version, so that scripts may look for it.
    pub id: &'static str,
    /// Where it was seen.
    pub part: QuicPart,
    /// What was seen, in one sentence. May contain text of the server's.
    pub seen: String,
    /// What it means for whoever uses the server.
    pub meaning: String,
    /// One thing to do.
    pub advice: String,
}

/// How the examination went.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QuicReport {
    /// Every part, in order.
    pub steps: Vec<QuicStep>,
    /// What is wrong, in the order in which it was noticed. Empty for a server without fault.
    pub findings: Vec<QuicFinding>,
    /// What was seen and is no fault, but may matter, a sentence each.
    pub notes: Vec<String>,
    /// The addresses of the name.
    pub addresses: Vec<SocketAddr>,
    /// The server's certificate.
    pub certificate: Option<CertificateFacts>,
    /// The lists that could be read.
    pub lists: Vec<Listing>,
    /// From the beginning to the end.
    pub took: Duration,
}

impl QuicReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_healthy(&self) -> bool {
        self.findings.is_empty()
    }
}

/// An examination of a server over QUIC to be. It is made by [`examine`](Self::examine).
#[derive(Debug)]
#[must_use = "nothing is examined before `examine`"]
pub struct QuicDoctor {
    connect: QuicConnect,
    client: ClientBuilder,
}

impl QuicDoctor {
    /// Examines the server that this connects to, as this client talks to it.
    pub const fn new(connect: QuicConnect, client: ClientBuilder) -> Self {
        Self { connect, client }
    }

    /// Does all of it. Takes as long as the limits of the client and of the connection allow. Dropped before it is
    /// ready, it leaves nothing open.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub async fn examine(self) -> QuicReport {
        let began = Instant::now();
        let mut course = Course {
            report: QuicReport {
                steps: Vec::new(),
                findings: Vec::new(),
                notes: Vec::new(),
                addresses: Vec::new(),
                certificate: None,
                lists: Vec::new(),
                took: Duration::ZERO,
            },
            part: QuicPart::Resolve,
            since: began,
        };
        course.examine(self.connect, self.client).await;
        course.report.took = began.elapsed();
        course.report
    }
}

/// A finding without its place.
struct Fault {
    id: &'static str,
    seen: String,
    meaning: &'static str,
    advice: String,
}

/// An examination under way.
struct Course {
    report: QuicReport,
    part: QuicPart,
    since: Instant,
}

impl Course {
    fn begin(&mut self, part: QuicPart) {
        (self.part, self.since) = (part, Instant::now());
    }

    fn end(&mut self, detail: String) {
        self.step(Outcome::Passed, detail);
    }

    fn fail(&mut self, fault: Fault) {
        self.step(Outcome::Failed, fault.id.to_owned());
        self.fault(fault);
    }

    fn fault(&mut self, fault: Fault) {
        let Fault { id, seen, meaning, advice } = fault;
        let meaning = meaning.to_owned();
        self.report.findings.push(QuicFinding { id, part: self.part, seen, meaning, advice });
    }

    fn step(&mut self, outcome: Outcome, detail: String) {
        let took = Some(self.since.elapsed());
        self.report.steps.push(QuicStep { part: self.part, outcome, took, detail });
    }

    fn skip<const N: usize>(&mut self, parts: [QuicPart; N], why: &'static str) {
        for part in parts {
            let outcome = Outcome::NotRun(why);
            self.report.steps.push(QuicStep { part, outcome, took: None, detail: why.to_owned() });
        }
    }

    async fn examine(&mut self, connect: QuicConnect, client: ClientBuilder) {
        let rest = [QuicPart::Open, QuicPart::List, QuicPart::Close];
        if !self.resolve(connect.address()).await {
            self.skip([QuicPart::Connect], "there is no address");
            return self.skip(rest, NO_CONNECTION);
        }
        let Some((link, connection)) = self.connect(connect).await else {
            return self.skip(rest, NO_CONNECTION);
        };
        let broken = Arc::new(Mutex::new(Vec::new()));
        let told = broken.clone();
        let client = client.also_on_violation(move |violation| {
            let mut broken = told.lock().unwrap_or_else(PoisonError::into_inner);
            if broken.len() < RULES {
                broken.push(violation.to_string());
            }
        });
        self.begin(QuicPart::Open);
        match client.connect(link).await {
            Ok(client) => {
                self.opened(&client);
                self.lists(&client).await;
                self.begin(QuicPart::Close);
                client.close().await;
                self.end(format!("after {} datagrams from it", connection.received()));
            }
            Err(error) => {
                self.fail(unopened(&error));
                self.skip([QuicPart::List, QuicPart::Close], "client and server did not agree");
            }
        }
        let broken = std::mem::take(&mut *broken.lock().unwrap_or_else(PoisonError::into_inner));
        if !broken.is_empty() {
            self.part = QuicPart::List;
            self.fault(Fault {
                id: "Q_RULES",
                seen: broken.join("; "),
                meaning: "it does not keep the rules of the protocol: other clients may refuse it",
                advice: "tell the server's authors; `mcpjoin validate` says more".to_owned(),
            });
        }
    }

    /// Whether there is an address.
    async fn resolve(&mut self, address: &str) -> bool {
        let advice = "write quic://host:port, and check the name of the host".to_owned();
        let Ok((host, port)) = host_and_port(address) else {
            let seen = format!("{address} is no host:port");
            self.fail(Fault { id: "Q_ADDRESS", seen, meaning: "it cannot be reached", advice });
            return false;
        };
        let found = match timeout(RESOLVE, lookup_host((host, port))).await {
            Ok(Ok(found)) => found.collect(),
            Ok(Err(error)) => {
                let seen = format!("{host} was not resolved: {error}");
                self.fail(Fault { id: "Q_ADDRESS", seen, meaning: "the name leads nowhere", advice });
                return false;
            }
            Err(_) => {
                let seen = format!("{host} was not resolved within {} s", RESOLVE.as_secs());
                let meaning = "no name server answers";
                let advice = "look at the name servers of this machine (/etc/resolv.conf)".to_owned();
                self.fail(Fault { id: "Q_ADDRESS", seen, meaning, advice });
                return false;
            }
        };
        self.report.addresses = found;
        let shown: Vec<String> = self.report.addresses.iter().map(ToString::to_string).collect();
        self.end(shown.join(", "));
        true
    }

    async fn connect(&mut self, connect: QuicConnect) -> Option<(Link, Connection)> {
        self.begin(QuicPart::Connect);
        let trust = connect.trust().clone();
        let (link, connection) = match connect.linked().await {
            Ok(made) => made,
            Err(error) => {
                self.fail(unconnected(&error, &trust));
                return None;
            }
        };
        let certificate = connection.peer_certificate();
        let known = match trust {
            Trust::Key(_) => "known by its key",
            Trust::Authorities(_) => "known by an authority",
        };
        let whose = certificate.as_ref().map_or("a certificate that cannot be read", |facts| &facts.subject);
        let until = certificate.as_ref().map_or_else(String::new, |facts| format!(" until {}", facts.ends()));
        let millis = connection.round_trip().as_secs_f64() * 1000.0;
        self.end(format!("{whose}{until}, {known}, at {}, round trip {millis:.1} ms", connection.remote()));
        if let Some(facts) = &certificate {
            let left = facts.not_after - now().0;
            if left < SOON {
                let when = if left < 0 { "has run out on" } else { "runs out on" };
                self.report.notes.push(format!(
                    "its certificate {when} {}: who trusts an authority, and not its key alone, refuses it then",
                    facts.ends()
                ));
            }
        }
        self.report.certificate = certificate;
        Some((link, connection))
    }

    fn opened(&mut self, client: &Client) {
        let version = client.profile().version.as_str();
        let name = client.server_name().unwrap_or("a server without a name");
        self.end(format!("{name}, in {version}"));
    }

    /// Reads every list that is declared.
    async fn lists(&mut self, client: &Client) {
        self.begin(QuicPart::List);
        let before = self.report.findings.len();
        let peer = client.peer();
        let declared = peer.server_capabilities();
        if declared.is_some_and(|server| server.tools.is_some()) {
            self.list(Method::ListTools, client.list_tools()).await;
        }
        if declared.is_some_and(|server| server.resources.is_some()) {
            self.list(Method::ListResources, client.list_resources()).await;
            self.list(Method::ListResourceTemplates, client.list_resource_templates()).await;
        }
        if declared.is_some_and(|server| server.prompts.is_some()) {
            self.list(Method::ListPrompts, client.list_prompts()).await;
        }
        let counts: Vec<String> =
            self.report.lists.iter().map(|list| format!("{} in {}", list.items, list.method)).collect();
        if self.report.findings.len() > before {
            return self.step(Outcome::Failed, "Q_LIST".to_owned());
        }
        if self.report.lists.iter().all(|list| list.items == 0) {
            return self.fail(Fault {
                id: "Q_EMPTY",
                seen: "it has no tools, resources or prompts".to_owned(),
                meaning: "a client of it can do nothing",
                advice: "see that it is told what to offer".to_owned(),
            });
        }
        self.end(counts.join(", "));
    }

    async fn list<T: Listed>(&mut self, method: Method, pages: Pages<T>) {
        let began = Instant::now();
        match pages.all().await {
            Ok(items) => {
                self.report.lists.push(Listing { method, items: items.len(), took: began.elapsed() });
            }
            // Many a server has resources and does not know the method for templates: it has none.
            Err(error) if method == Method::ListResourceTemplates && is_unknown(&error) => {}
            Err(error) => self.fault(Fault {
                id: "Q_LIST",
                seen: error.to_string(),
                meaning: "what it declares cannot be read",
                advice: "look at the server's own log, and tell its authors".to_owned(),
            }),
        }
    }
}

fn is_unknown(error: &ClientError) -> bool {
    error.remote().is_some_and(|error| error.code == code::METHOD_NOT_FOUND)
}

fn unconnected(error: &QuicError, trust: &Trust) -> Fault {
    let (id, meaning, advice) = match &error.kind {
        QuicErrorKind::Address | QuicErrorKind::Resolve(_) => {
            ("Q_ADDRESS", "the name leads nowhere", "write quic://host:port, and check the name of the host")
        }
        QuicErrorKind::Unreached(_) | QuicErrorKind::TimedOut { .. } => (
            "Q_UNREACHED",
            "nobody answers QUIC there: the server does not run, listens on another port or address, or a firewall lets \
             no UDP through",
            "see that the server runs, and that UDP to that port is let through on the way",
        ),
        QuicErrorKind::Protocol { .. } => (
            "Q_PROTOCOL",
            "what listens there speaks QUIC, but no MCP over it: HTTP/3, or an orchestrator (orchestra://)",
            "check the port",
        ),
        QuicErrorKind::Refused(_) => match trust {
            Trust::Key(_) => (
                "Q_SERVER_CERTIFICATE",
                "it is another server, somebody stands between it and us, or it has a new key, as it has after each \
                 start without --cert and --key",
                "take --pin from where the server says it, as it is started",
            ),
            Trust::Authorities(_) => (
                "Q_SERVER_CERTIFICATE",
                "none of the authorities that are trusted has signed its certificate for that name, or it does not count \
                 today",
                "--ca FILE names the authority that has signed it; --pin sha256:HEX takes its key without one",
            ),
        },
        QuicErrorKind::RefusedByPeer { .. } => (
            "Q_CLIENT_CERTIFICATE",
            "it asks who its clients are, and does not let us in",
            "--cert FILE --key FILE, signed by the authority that it trusts (its --client-ca)",
        ),
        QuicErrorKind::Certificate(_) => {
            ("Q_OURS", "our own certificate cannot be used", "put right what it says")
        }
        _ => ("Q_CONNECTION", "there is no connection to it", "look at the server's own log"),
    };
    Fault { id, seen: error.to_string(), meaning, advice: advice.to_owned() }
}

fn unopened(error: &ConnectError) -> Fault {
    let (id, meaning, advice) = match &error.cause {
        CloseCause::Opening(OpeningFailure::TimedOut { .. }) => (
            "Q_SILENT",
            "something takes the connection and says nothing: it is busy, or no MCP server",
            "look at the server's own log",
        ),
        CloseCause::Opening(OpeningFailure::UnsupportedVersion { .. }) => (
            "Q_VERSION",
            "client and server have no revision of MCP in common",
            "leave out --protocol-version",
        ),
        CloseCause::Link(end) if end.kind == LinkEndKind::EndOfStream => (
            "Q_CLOSED",
            "it has closed the connection before it said anything",
            "look at the server's own log",
        ),
        _ => {
            ("Q_NOT_OPENED", "client and server do not come to an agreement", "look at the server's own log")
        }
    };
    Fault { id, seen: error.to_string(), meaning, advice: advice.to_owned() }
}
