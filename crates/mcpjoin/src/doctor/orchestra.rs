//! What is wrong with an orchestrator, or with our way to it: certificates, connection, health, tools.
//!
//! Called by `mcpjoin doctor orchestra://...`. It calls no tool, subscribes to nothing, and changes no certificate; only
//! where the folder has an authority with its key and no certificate for us, one is made, as the bridge would.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::report::Outcome;
use crate::bridge::orchestra::certs::{CertificateReport, Certificates};
use crate::bridge::orchestra::wire::plugin_request::Request;
use crate::bridge::orchestra::wire::plugin_response::Response;
use crate::bridge::orchestra::wire::{
    self, HealthRequest, HealthResult, ListToolsRequest, PluginRequest, PluginResponse, ToolDefinition,
    WireError, health_result,
};
use crate::bridge::orchestra::{ALPN, CLIENT_NAME, LISTEN_ADDRESS};
use crate::quic::{self, CertificateError, Connection, QuicError, QuicErrorKind, QuicOptions};

/// How long an answer may take: 10 s. The original gives each within milliseconds.
const ANSWER: Duration = Duration::from_secs(10);
/// How long the orchestrator may take to hear that we leave.
const CLOSE: Duration = Duration::from_secs(1);

const NO_CONNECTION: &str = "there was no connection";

/// The parts of this examination, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum OrchestraPart {
    /// Looking at the folder of certificates.
    Certificates,
    /// Connecting, with certificates on both sides.
    Connect,
    /// Asking how it is.
    Health,
    /// Reading the list of tools.
    Tools,
}

impl OrchestraPart {
    /// Its name, for people and for programs alike.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Certificates => "certificates",
            Self::Connect => "connect",
            Self::Health => "health",
            Self::Tools => "tools",
        }
    }
}

/// One part as it went.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OrchestraStep {
    /// Which.
    pub part: OrchestraPart,
    /// How it went.
    pub outcome: Outcome,
    /// From its beginning to its end; `None` for one that was not run.
    pub took: Option<Duration>,
    /// What came of it, in one line; of one that failed, the id of the finding. May contain text of the orchestrator's.
    pub detail: String,
}

/// One thing that is wrong: what was seen, what it means, one thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OrchestraFinding {
    /// What kind of fault it is; stays from version to version, so that scripts may look for it.
    pub id: &'static str,
    /// Where it was seen.
    pub part: OrchestraPart,
    /// What was seen, in one sentence. May contain text of the orchestrator's.
    pub seen: String,
    /// What it means for whoever uses the orchestrator.
    pub meaning: String,
    /// One thing to do.
    pub advice: String,
}

/// How the examination went.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OrchestraReport {
    /// Every part, in order.
    pub steps: Vec<OrchestraStep>,
    /// What is wrong, in the order in which it was noticed. Empty for an orchestrator without fault.
    pub findings: Vec<OrchestraFinding>,
    /// What was seen and is no fault, but may matter, a sentence each.
    pub notes: Vec<String>,
    /// The certificates of our side.
    pub certificates: CertificateReport,
    /// The name in the orchestrator's certificate.
    pub peer: Option<String>,
    /// What it says of itself.
    pub health: Option<HealthResult>,
    /// The tools, as it lists them.
    pub tools: Vec<ToolDefinition>,
    /// From the beginning to the end.
    pub took: Duration,
}

impl OrchestraReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_healthy(&self) -> bool {
        self.findings.is_empty()
    }
}

/// An examination of an orchestrator to be. It is made by [`examine`](Self::examine).
///
/// ```no_run
/// use mcpjoin::bridge::orchestra::certs::Certificates;
/// use mcpjoin::doctor::OrchestraDoctor;
///
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let certificates = Certificates::in_directory(Certificates::default_directory()?);
/// let report = OrchestraDoctor::new("localhost:50100", certificates).examine().await;
/// for finding in &report.findings {
///     println!("{}: {} ({})", finding.id, finding.seen, finding.advice);
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is examined before `examine`"]
#[derive(Clone, Debug)]
pub struct OrchestraDoctor {
    address: String,
    certificates: Certificates,
    options: QuicOptions,
    answer: Duration,
}

impl OrchestraDoctor {
    /// Examines the orchestrator at `host:port`, as a client with these certificates.
    pub fn new(address: impl Into<String>, certificates: Certificates) -> Self {
        let address = address.into();
        Self { address, certificates, options: QuicOptions::default(), answer: ANSWER }
    }

    /// How long connecting may take: 10 s.
    pub const fn connect_timeout(mut self, bound: Duration) -> Self {
        self.options.connect_timeout = bound;
        self
    }

    /// How long each answer may take: 10 s.
    pub const fn answer_timeout(mut self, bound: Duration) -> Self {
        self.answer = bound;
        self
    }

    /// Does all of it, within the time limits. Dropped before it is ready, it closes the connection.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub async fn examine(self) -> OrchestraReport {
        let began = Instant::now();
        let certificates = self.certificates.clone();
        // It reads files.
        let read = tokio::task::spawn_blocking(move || certificates.report(CLIENT_NAME)).await;
        let certificates = read.unwrap_or_else(|_| self.certificates.report(CLIENT_NAME));
        let mut course = Course {
            report: OrchestraReport {
                steps: Vec::new(),
                findings: Vec::new(),
                notes: Vec::new(),
                certificates,
                peer: None,
                health: None,
                tools: Vec::new(),
                took: Duration::ZERO,
            },
            part: OrchestraPart::Certificates,
            since: began,
        };
        if course.certificates() {
            if let Some(connection) = self.connect(&mut course).await {
                self.health(&mut course, &connection).await;
                self.tools(&mut course, &connection).await;
                connection.close(0, "client closed");
                connection.settled(CLOSE).await;
            } else {
                course.skip([OrchestraPart::Health, OrchestraPart::Tools], NO_CONNECTION);
            }
        } else {
            let parts = [OrchestraPart::Connect, OrchestraPart::Health, OrchestraPart::Tools];
            course.skip(parts, "there is no authority to trust");
        }
        course.report.took = began.elapsed();
        course.report
    }

    async fn connect(&self, course: &mut Course) -> Option<Connection> {
        course.begin(OrchestraPart::Connect);
        let certificates = self.certificates.clone();
        let made = tokio::task::spawn_blocking(move || certificates.client(CLIENT_NAME, ALPN)).await;
        let tls = match made {
            Ok(Ok(tls)) => tls,
            Ok(Err(error)) => {
                course.fail(unusable(&error));
                return None;
            }
            Err(error) => {
                course.fail(unusable(&CertificateError::interrupted(&error.to_string())));
                return None;
            }
        };
        match quic::connect(&self.address, &tls, &self.options).await {
            Ok(connection) => {
                let peer = connection.peer_name();
                let named = peer.as_deref().unwrap_or("an orchestrator without a name");
                let millis = connection.round_trip().as_secs_f64() * 1000.0;
                course.end(format!("{named} at {}, round trip {millis:.1} ms", connection.remote()));
                course.report.peer = peer;
                Some(connection)
            }
            Err(error) => {
                course.fail(unconnected(&error));
                None
            }
        }
    }

    async fn health(&self, course: &mut Course, connection: &Connection) {
        course.begin(OrchestraPart::Health);
        match self.ask(connection, Request::Health(HealthRequest {})).await {
            Ok(Response::Health(health)) => {
                let said = if health.message.is_empty() { "it says nothing" } else { &health.message };
                if health.status() == health_result::Status::Healthy {
                    course.end(said.to_owned());
                } else {
                    let details = health.details.iter().map(|(name, what)| format!("; {name}: {what}"));
                    let status = health.status().as_str_name();
                    let seen = format!("it says that it is {status}: {said}{}", details.collect::<String>());
                    course.fail(Fault {
                        id: "O_UNHEALTHY",
                        seen,
                        meaning: "some or all of its tools cannot be called".to_owned(),
                        advice: "look at the orchestrator's own log for the plugin or server that has ended"
                            .to_owned(),
                    });
                }
                course.report.health = Some(health);
            }
            other => course.fail(unanswered("how it is", other)),
        }
    }

    async fn tools(&self, course: &mut Course, connection: &Connection) {
        course.begin(OrchestraPart::Tools);
        let list = match self.ask(connection, Request::ListTools(ListToolsRequest {})).await {
            Ok(Response::ListTools(list)) => list,
            other => return course.fail(unanswered("its tools", other)),
        };
        let mut names: Vec<&str> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
        names.sort_unstable();
        let twice = names.windows(2).filter(|pair| matches!(pair, [one, other] if one == other)).count();
        let without = list.tools.iter().filter(|tool| tool.input_schema.is_none()).count();
        if twice > 0 {
            let note =
                format!("{twice} of the tools have the name of another: only one of each can be called");
            course.report.notes.push(note);
        }
        if without > 0 {
            let note =
                format!("{without} of the tools have no schema: the bridge gives them one that allows all");
            course.report.notes.push(note);
        }
        if list.tools.is_empty() {
            course.fail(Fault {
                id: "O_NO_TOOLS",
                seen: "it has no tools".to_owned(),
                meaning: "a client of it can do nothing".to_owned(),
                advice: "see that its plugins are enabled and have started".to_owned(),
            });
        } else {
            let count = list.tools.len();
            course.end(format!("{count} tool{}", if count == 1 { "" } else { "s" }));
        }
        course.report.tools = list.tools;
    }

    async fn ask(&self, connection: &Connection, request: Request) -> Result<Response, String> {
        let asked = async {
            let (mut send, mut receive) = connection.open().await.map_err(|error| error.to_string())?;
            let request = PluginRequest { request_id: "doctor".to_owned(), request: Some(request) };
            let answer: Result<PluginResponse, WireError> = async {
                wire::write(&mut send, &request).await?;
                // It fails only for a stream that has ended, and then so does reading.
                let _ = send.finish();
                wire::read(&mut receive).await
            }
            .await;
            // Why the connection has ended says more than that the stream has.
            let error = |error: WireError| {
                connection.ended().map_or_else(|| error.to_string(), |ended| ended.to_string())
            };
            answer.map_err(error)?.response.ok_or_else(|| "an answer with nothing in it".to_owned())
        };
        let late = |_| format!("no answer within {} s", self.answer.as_secs_f64());
        timeout(self.answer, asked).await.map_err(late)?
    }
}

/// A finding without its place.
struct Fault {
    id: &'static str,
    seen: String,
    meaning: String,
    advice: String,
}

/// An examination under way.
struct Course {
    report: OrchestraReport,
    part: OrchestraPart,
    since: Instant,
}

impl Course {
    fn begin(&mut self, part: OrchestraPart) {
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
        self.report.findings.push(OrchestraFinding { id, part: self.part, seen, meaning, advice });
    }

    fn step(&mut self, outcome: Outcome, detail: String) {
        let took = Some(self.since.elapsed());
        self.report.steps.push(OrchestraStep { part: self.part, outcome, took, detail });
    }

    fn skip<const N: usize>(&mut self, parts: [OrchestraPart; N], why: &'static str) {
        for part in parts {
            let outcome = Outcome::NotRun(why);
            self.report.steps.push(OrchestraStep { part, outcome, took: None, detail: why.to_owned() });
        }
    }

    /// Judges the certificates; whether there is an authority at all.
    fn certificates(&mut self) -> bool {
        let report = &self.report.certificates;
        let directory = report.directory.display().to_string();
        let problems = report.problem.iter().map(|problem| format!("{directory}: {problem}"));
        let files = report.files.iter().filter_map(|file| {
            file.problem.as_ref().map(|problem| format!("{}: {problem}", file.path.display()))
        });
        let problems: Vec<String> = problems.chain(files).collect();
        let authority =
            report.files.iter().find(|file| file.facts.as_ref().is_some_and(|facts| facts.is_authority));
        if report.files.is_empty() {
            self.fail(Fault {
                id: "O_NO_CERTIFICATES",
                seen: format!("there are no certificates in {directory}"),
                meaning:
                    "no program of Orchestra has used this folder, so the orchestrator cannot be known by it"
                        .to_owned(),
                advice: "--certs-dir names the folder that the orchestrator uses".to_owned(),
            });
            return false;
        }
        match problems.is_empty() {
            true => {
                let until =
                    authority.and_then(|file| file.facts.as_ref()).map_or_else(String::new, |facts| {
                        format!(
                            ", {} until {}",
                            facts.common_name.as_deref().unwrap_or("the authority"),
                            facts.ends()
                        )
                    });
                self.end(format!("{directory}{until}"));
            }
            false => self.step(Outcome::Failed, "O_CERTIFICATES".to_owned()),
        }
        for seen in problems {
            self.fault(Fault {
                id: "O_CERTIFICATES",
                seen,
                meaning: "the orchestrator may refuse us, or we it".to_owned(),
                advice: "put right what it says; a certificate of ours that is removed is made anew"
                    .to_owned(),
            });
        }
        true
    }
}

fn unusable(error: &CertificateError) -> Fault {
    Fault {
        id: "O_CERTIFICATES",
        seen: error.to_string(),
        meaning: "without a certificate of ours and an authority to trust nothing can be sent".to_owned(),
        advice: "--certs-dir names the folder that the orchestrator uses".to_owned(),
    }
}

fn unconnected(error: &QuicError) -> Fault {
    let (id, meaning, advice) = match &error.kind {
        QuicErrorKind::Address => ("O_ADDRESS", "it cannot be reached", "write host:port"),
        QuicErrorKind::Resolve(_) => ("O_ADDRESS", "the name leads nowhere", "check the name of the host"),
        QuicErrorKind::Unreached(_) | QuicErrorKind::TimedOut { .. } => (
            "O_UNREACHED",
            "no orchestrator answers at this address, or a firewall lets no UDP through",
            "is it running there? its own default is LISTEN",
        ),
        QuicErrorKind::Protocol { .. } => (
            "O_PROTOCOL",
            "what listens there speaks QUIC, but is no orchestrator",
            "check the port: its own default is LISTEN",
        ),
        QuicErrorKind::Refused(_) => (
            "O_SERVER_CERTIFICATE",
            "we do not know it by its certificate: it uses another folder of certificates, or is reached under a name that \
             is not in it",
            "--certs-dir names the folder that it uses; from another machine --server-name orchestrator",
        ),
        QuicErrorKind::RefusedByPeer { .. } => (
            "O_CLIENT_CERTIFICATE",
            "it does not let us in: it trusts another authority than the one that has signed for us",
            "--certs-dir names the folder that it uses",
        ),
        _ => ("O_CONNECTION", "there is no connection to it", "look at the orchestrator's own log"),
    };
    let advice = advice.replace("LISTEN", LISTEN_ADDRESS);
    Fault { id, seen: error.to_string(), meaning: meaning.to_owned(), advice }
}

fn unanswered(what: &str, answer: Result<Response, String>) -> Fault {
    let came = match answer {
        Ok(Response::ToolCall(refused)) if !refused.success => {
            format!("the error {}: {}", refused.error_code, refused.error_message)
        }
        Ok(_) => "an answer to another question".to_owned(),
        Err(error) => error,
    };
    Fault {
        id: "O_NO_ANSWER",
        seen: format!("asked {what}, what came was: {came}"),
        meaning: "it is not an orchestrator, or not in order".to_owned(),
        advice: "look at the orchestrator's own log".to_owned(),
    }
}
