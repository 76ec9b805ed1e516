//! What is wrong with an orchestrator, or with our way to it: certificates, connection, health, tools.
//!
//! Called by `mcpjoin doctor orchestra://...`. It calls no tool, subscribes to nothing, and changes no certificate; only
//! where the folder has an authority with its key and no certificate for us, one is made, as the bridge would.

use std::fmt;
use std::time::Duration;

use mcpjoin_proto::Method;
use tokio::time::{Instant, timeout};

use super::course::{Begun, Course, Noted};
use super::quic::reached;
use super::report::{Check, Finding, Outcome, Phase, Report, Step};
use super::way::Way;
use mcpjoin_orchestra::certs::{CertificateReport, Certificates};
use mcpjoin_orchestra::wire::plugin_request::Request;
use mcpjoin_orchestra::wire::plugin_response::Response;
use mcpjoin_orchestra::wire::{
    self, HealthRequest, HealthResult, ListToolsRequest, PluginRequest, PluginResponse, ToolDefinition,
    WireError, health_result,
};
use mcpjoin_orchestra::{ALPN, CLIENT_NAME, LISTEN_ADDRESS};
use mcpjoin_quic::endpoint::{
    self as quic, CertificateError, Connection, QuicError, QuicErrorKind, QuicOptions,
};

/// How long an answer may take: 10 s. The original gives each within milliseconds.
const ANSWER: Duration = Duration::from_secs(10);
/// How long the orchestrator may take to hear that we leave.
const CLOSE: Duration = Duration::from_secs(1);

/// What is known of an orchestrator.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Orchestrator {
    /// The certificates of our side.
    pub certificates: CertificateReport,
    /// The name in the orchestrator's certificate.
    pub name: Option<String>,
    /// What it says of itself.
    pub health: Option<HealthResult>,
    /// The tools, as it lists them.
    pub tools: Vec<ToolDefinition>,
}

/// An examination of an orchestrator to be. It is made by [`examine`](Self::examine).
///
/// ```no_run
/// use mcpjoin_orchestra::certs::Certificates;
/// use mcpjoin_diagnostics::doctor::OrchestraDoctor;
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
pub struct OrchestraDoctor {
    address: String,
    certificates: Certificates,
    options: QuicOptions,
    answer: Duration,
    begun: Option<Begun>,
    noted: Option<Noted>,
}

impl OrchestraDoctor {
    /// Examines the orchestrator at `host:port`, as a client with these certificates.
    pub fn new(address: impl Into<String>, certificates: Certificates) -> Self {
        let address = address.into();
        Self {
            address,
            certificates,
            options: QuicOptions::default(),
            answer: ANSWER,
            begun: None,
            noted: None,
        }
    }

    /// Hears of each phase as it begins. Must not block.
    pub fn on_phase(mut self, begun: impl Fn(Phase) + Send + Sync + 'static) -> Self {
        self.begun = Some(Box::new(begun));
        self
    }

    /// Hears of each phase when it is over. Must not block.
    pub fn on_step(mut self, noted: impl Fn(&Step) + Send + Sync + 'static) -> Self {
        self.noted = Some(Box::new(noted));
        self
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
    pub async fn examine(mut self) -> Report {
        let began = Instant::now();
        let mut course = Course::new(Way::Orchestra, self.begun.take());
        course.noted = self.noted.take();
        course.begin(Phase::Certificates);
        let certificates = self.certificates.clone();
        // It reads files.
        let read = tokio::task::spawn_blocking(move || certificates.report(CLIENT_NAME)).await;
        let certificates = read.unwrap_or_else(|_| self.certificates.report(CLIENT_NAME));
        let mut known = Orchestrator { certificates, name: None, health: None, tools: Vec::new() };
        if judged(&mut course, &known.certificates)
            && let Some(connection) = self.connect(&mut course, &mut known).await
        {
            self.health(&mut course, &mut known, &connection).await;
            self.tools(&mut course, &mut known, &connection).await;
            connection.close(0, "client closed");
            connection.settled(CLOSE).await;
        }
        course.orchestrator = Some(Box::new(known));
        course.report(began)
    }

    async fn connect(&self, course: &mut Course, known: &mut Orchestrator) -> Option<Connection> {
        course.begin(Phase::Connect);
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
                for check in [
                    Check::Address,
                    Check::Reached,
                    Check::ServerCertificate,
                    Check::ClientCertificate,
                    Check::Protocol,
                ] {
                    course.pass(check);
                }
                let peer = connection.peer_name();
                let named = peer.as_deref().unwrap_or("an orchestrator without a name");
                let millis = connection.round_trip().as_secs_f64() * 1000.0;
                course.end(format!("{named} at {}, round trip {millis:.1} ms", connection.remote()));
                course.addresses.push(connection.remote());
                course.certificate = connection.peer_certificate();
                known.name = peer;
                Some(connection)
            }
            Err(error) => {
                if !matches!(error.kind, QuicErrorKind::Address | QuicErrorKind::Resolve(_)) {
                    course.pass(Check::Address);
                }
                reached(course, &error.kind);
                course.fail(unconnected(&error));
                None
            }
        }
    }

    async fn health(&self, course: &mut Course, known: &mut Orchestrator, connection: &Connection) {
        course.begin(Phase::Health);
        match self.ask(connection, Request::Health(HealthRequest {})).await {
            Ok(Response::Health(health)) => {
                let said = if health.message.is_empty() { "it says nothing" } else { &health.message };
                if health.status() == health_result::Status::Healthy {
                    course.pass(Check::Health);
                    course.end(said.to_owned());
                } else {
                    let details = health.details.iter().map(|(name, what)| format!("; {name}: {what}"));
                    let status = health.status().as_str_name();
                    course.fail(Finding::new(
                        "unhealthy",
                        Check::Health,
                        Phase::Health,
                        format!("it says that it is {status}: {said}{}", details.collect::<String>()),
                        "some or all of its tools cannot be called",
                        "look at the orchestrator's own log for the plugin or server that has ended",
                    ));
                }
                known.health = Some(health);
            }
            other => course.fail(unanswered(Check::Health, Phase::Health, "how it is", other)),
        }
    }

    async fn tools(&self, course: &mut Course, known: &mut Orchestrator, connection: &Connection) {
        course.begin(Phase::List);
        let list = match self.ask(connection, Request::ListTools(ListToolsRequest {})).await {
            Ok(Response::ListTools(list)) => list,
            other => return course.fail(unanswered(Check::Lists, Phase::List, "its tools", other)),
        };
        course.pass(Check::Lists);
        course.listed(Method::ListTools, list.tools.len(), course.since);
        let mut names: Vec<&str> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
        names.sort_unstable();
        let twice = names.windows(2).filter(|pair| matches!(pair, [one, other] if one == other)).count();
        let without = list.tools.iter().filter(|tool| tool.input_schema.is_none()).count();
        if twice > 0 {
            let note =
                format!("{twice} of the tools have the name of another: only one of each can be called");
            course.notes.push(note);
        }
        if without > 0 {
            let note =
                format!("{without} of the tools have no schema: the bridge gives them one that allows all");
            course.notes.push(note);
        }
        if list.tools.is_empty() {
            course.fail(Finding::new(
                "no-tools",
                Check::Offer,
                Phase::List,
                "it has no tools",
                "a client of it can do nothing",
                "see that its plugins are enabled and have started",
            ));
        } else {
            course.pass(Check::Offer);
            let count = list.tools.len();
            course.end(format!("{count} tool{}", if count == 1 { "" } else { "s" }));
        }
        known.tools = list.tools;
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

impl fmt::Debug for OrchestraDoctor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrchestraDoctor").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The alert `certificate_expired`: <https://www.rfc-editor.org/rfc/rfc8446#section-6>. What has run out on our side is made
/// anew or told before anybody is asked.
const EXPIRED: u8 = 45;
const CERTS_DIR: &str = "--certs-dir names the folder that the orchestrator uses";

/// Judges the certificates; whether there is an authority at all.
fn judged(course: &mut Course, report: &CertificateReport) -> bool {
    let finding = |id, seen: String, meaning: &str, advice: &str| {
        Finding::new(id, Check::Certificates, Phase::Certificates, seen, meaning, advice)
    };
    let directory = report.directory.display().to_string();
    let problems = report.problem.iter().map(|problem| format!("{directory}: {problem}"));
    let files = report.files.iter().filter_map(|file| {
        file.problem.as_ref().map(|problem| format!("{}: {problem}", file.path.display()))
    });
    let problems: Vec<String> = problems.chain(files).collect();
    if report.files.is_empty() {
        course.fail(finding(
            "no-certificates",
            format!("there are no certificates in {directory}"),
            "no program of Orchestra has used this folder, so the orchestrator cannot be known by it",
            CERTS_DIR,
        ));
        return false;
    }
    if problems.is_empty() {
        course.pass(Check::Certificates);
        let mut facts = report.files.iter().filter_map(|file| file.facts.as_ref());
        let until = facts.find(|facts| facts.is_authority).map_or_else(String::new, |facts| {
            let name = facts.common_name.as_deref().unwrap_or("the authority");
            format!(", {name} until {}", facts.ends())
        });
        course.end(format!("{directory}{until}"));
        return true;
    }
    let (from, now) = (course.since, Instant::now());
    course.step(Outcome::Failed, from, now, "certificates".to_owned());
    for seen in problems {
        course.fault(finding(
            "certificates",
            seen,
            "the orchestrator may refuse us, or we it",
            "put right what it says; a certificate of ours that is removed is made anew",
        ));
    }
    true
}

fn unusable(error: &CertificateError) -> Finding {
    Finding::new(
        "certificates",
        Check::Certificates,
        Phase::Connect,
        error.to_string(),
        "without a certificate of ours and an authority to trust nothing can be sent",
        CERTS_DIR,
    )
}

fn unconnected(error: &QuicError) -> Finding {
    let (id, check, meaning, advice) = match &error.kind {
        QuicErrorKind::Address => ("no-address", Check::Address, "it cannot be reached", "write host:port"),
        QuicErrorKind::Resolve(_) => {
            ("unresolved", Check::Address, "the name leads nowhere", "check the name of the host")
        }
        QuicErrorKind::Unreached(_) | QuicErrorKind::TimedOut { .. } => (
            "unreached",
            Check::Reached,
            "no orchestrator answers at this address, or a firewall lets no UDP through",
            "is it running there? its own default is LISTEN",
        ),
        QuicErrorKind::Protocol { .. } => (
            "other-protocol",
            Check::Protocol,
            "what listens there speaks QUIC, but is no orchestrator",
            "check the port: its own default is LISTEN",
        ),
        QuicErrorKind::Refused(_) => (
            "server-certificate",
            Check::ServerCertificate,
            "we do not know it by its certificate: it uses another folder of certificates, or is reached under a name that \
             is not in it",
            "--certs-dir names the folder that it uses; from another machine --server-name orchestrator",
        ),
        QuicErrorKind::RefusedByPeer { alert: EXPIRED, .. } => (
            "client-certificate",
            Check::ClientCertificate,
            "for it our certificate, or the authority that has signed it, has run out: it knows these as they were when it \
             was started, or its clock is wrong",
            "start the orchestrator again, so that it reads the folder as it is now; if that does not help, compare the \
             clocks",
        ),
        QuicErrorKind::RefusedByPeer { .. } => (
            "client-certificate",
            Check::ClientCertificate,
            "it does not let us in: it trusts another authority than the one that has signed for us",
            "--certs-dir names the folder that it uses",
        ),
        _ => (
            "not-connected",
            Check::Reached,
            "there is no connection to it",
            "look at the orchestrator's own log",
        ),
    };
    let advice = advice.replace("LISTEN", LISTEN_ADDRESS);
    Finding::new(id, check, Phase::Connect, error.to_string(), meaning, advice)
}

fn unanswered(check: Check, phase: Phase, what: &str, answer: Result<Response, String>) -> Finding {
    let came = match answer {
        Ok(Response::ToolCall(refused)) if !refused.success => {
            format!("the error {}: {}", refused.error_code, refused.error_message)
        }
        Ok(_) => "an answer to another question".to_owned(),
        Err(error) => error,
    };
    Finding::new(
        "no-answer",
        check,
        phase,
        format!("asked {what}, what came was: {came}"),
        "it is not an orchestrator, or not in order",
        "look at the orchestrator's own log",
    )
}

#[cfg(test)]
mod tests {
    use super::{EXPIRED, unconnected};
    use mcpjoin_quic::endpoint::{QuicError, QuicErrorKind};

    #[test]
    fn an_orchestrator_for_which_our_certificate_has_run_out_is_started_again_and_asked_for_no_other_folder()
    {
        let refused = |alert| {
            let kind = QuicErrorKind::RefusedByPeer { alert, what: "no", said: String::new() };
            unconnected(&QuicError::new("localhost:50100", kind))
        };
        let expired = refused(EXPIRED);
        assert!(expired.advice.starts_with("start the orchestrator again"), "{expired:?}");
        assert!(!expired.meaning.contains("another authority"), "{expired:?}");
        let unknown = refused(48);
        assert!(unknown.advice.contains("--certs-dir"), "{unknown:?}");
        assert_eq!(expired.id, unknown.id);
    }
}
