//! An orchestrator of Orchestra: certificates, connection, health, tools.
//!
//! Called by `mcpjoin doctor orchestra://...`. It calls no tool and subscribes to nothing. It changes no certificate, but
//! makes one for the client where the folder has an authority with its key and none for us, as the bridge would.

use std::fmt;
use std::time::Duration;

use mcpjoin_proto::Method;
use tokio::time::timeout;

use super::examination::{Callbacks, Examination, counted};
use super::findings::*;
use super::quic::pass_before_failure;
use super::report::{Check, Finding, Listing, Phase, Report, Step, Transport};
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

/// How long a response may take: 10 s. The original implementation sends each within milliseconds.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the orchestrator may take to acknowledge the end of the connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The alert `certificate_expired`: <https://www.rfc-editor.org/rfc/rfc8446#section-6>. A certificate of ours that expired is
/// renewed, or is a finding, before we connect.
const EXPIRED_ALERT: u8 = 45;

/// The facts about an orchestrator.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Orchestrator {
    /// The certificates of our side.
    pub certificates: CertificateReport,
    /// The name in the orchestrator's certificate.
    pub name: Option<String>,
    /// The health that it reports.
    pub health: Option<HealthResult>,
    /// The tools, as it lists them.
    pub tools: Vec<ToolDefinition>,
}

/// An examination of an orchestrator. It is made by [`examine`](Self::examine).
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
    response_timeout: Duration,
    callbacks: Callbacks,
}

impl OrchestraDoctor {
    /// Examines the orchestrator at `host:port`, as a client with these certificates.
    pub fn new(address: impl Into<String>, certificates: Certificates) -> Self {
        Self {
            address: address.into(),
            certificates,
            options: QuicOptions::default(),
            response_timeout: RESPONSE_TIMEOUT,
            callbacks: Callbacks::default(),
        }
    }

    /// Calls this when a phase begins. It must not block.
    pub fn on_phase(mut self, callback: impl Fn(Phase) + Send + Sync + 'static) -> Self {
        self.callbacks.on_phase = Some(Box::new(callback));
        self
    }

    /// Calls this when a phase ends. It must not block.
    pub fn on_step(mut self, callback: impl Fn(&Step) + Send + Sync + 'static) -> Self {
        self.callbacks.on_step = Some(Box::new(callback));
        self
    }

    /// How long connecting may take. Default: 10 s.
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.options.connect_timeout = timeout;
        self
    }

    /// How long each response may take. Default: 10 s.
    pub const fn answer_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = timeout;
        self
    }

    /// Runs all phases, within the timeouts. Dropped before it is ready, it closes the connection.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub async fn examine(mut self) -> Report {
        let callbacks = std::mem::take(&mut self.callbacks);
        let mut exam = Examination::new(Transport::Orchestra, callbacks, Duration::MAX);
        exam.begin(Phase::Certificates);
        let certificates = self.certificates.clone();
        // It reads files.
        let read = tokio::task::spawn_blocking(move || certificates.report(CLIENT_NAME)).await;
        let certificates = read.unwrap_or_else(|_| self.certificates.report(CLIENT_NAME));
        let mut known = Orchestrator { certificates, name: None, health: None, tools: Vec::new() };
        if has_authority(&mut exam, &known.certificates)
            && let Some(connection) = self.connect(&mut exam, &mut known).await
        {
            self.health(&mut exam, &mut known, &connection).await;
            self.tools(&mut exam, &mut known, &connection).await;
            connection.close(0, "client closed");
            connection.close_sent(CLOSE_TIMEOUT).await;
        }
        exam.report.orchestrator = Some(Box::new(known));
        exam.finish()
    }

    async fn connect(&self, exam: &mut Examination, known: &mut Orchestrator) -> Option<Connection> {
        exam.begin(Phase::Connect);
        let certificates = self.certificates.clone();
        let made = tokio::task::spawn_blocking(move || certificates.client(CLIENT_NAME, ALPN)).await;
        let made = made.unwrap_or_else(|error| Err(CertificateError::interrupted(&error.to_string())));
        let tls = match made {
            Ok(tls) => tls,
            Err(error) => {
                let unusable = CERTIFICATES_UNUSABLE.at(Phase::Connect, error.to_string());
                // The report of the folder has the same fault, without its effect.
                exam.report.findings.retain(|found| found.seen != unusable.seen);
                exam.fail(unusable);
                return None;
            }
        };
        match quic::connect(&self.address, &tls, &self.options).await {
            Ok(connection) => {
                exam.pass([
                    Check::Address,
                    Check::Reached,
                    Check::ServerCertificate,
                    Check::ClientCertificate,
                    Check::Protocol,
                ]);
                known.name = connection.peer_name();
                let name = known.name.as_deref().unwrap_or("an unnamed orchestrator");
                let millis = connection.round_trip().as_secs_f64() * 1000.0;
                exam.end(format!("{name} at {}, round trip {millis:.1} ms", connection.remote()));
                exam.report.addresses.push(connection.remote());
                exam.report.certificate = connection.peer_certificate();
                Some(connection)
            }
            Err(error) => {
                if !matches!(error.kind, QuicErrorKind::Address | QuicErrorKind::Resolve(_)) {
                    exam.pass([Check::Address]);
                }
                pass_before_failure(exam, &error.kind);
                exam.fail(not_connected(&error));
                None
            }
        }
    }

    async fn health(&self, exam: &mut Examination, known: &mut Orchestrator, connection: &Connection) {
        exam.begin(Phase::Health);
        match self.request(connection, Request::Health(HealthRequest {})).await {
            Ok(Response::Health(health)) => {
                let said = if health.message.is_empty() { "no details" } else { &health.message };
                if health.status() == health_result::Status::Healthy {
                    exam.pass([Check::Health]);
                    exam.end(said);
                } else {
                    let details = health.details.iter().map(|(name, what)| format!("; {name}: {what}"));
                    let (status, details) = (health.status().as_str_name(), details.collect::<String>());
                    let seen = format!("its status is {status}: {said}{details}");
                    exam.fail(UNHEALTHY.at(Phase::Health, seen));
                }
                known.health = Some(health);
            }
            other => exam.fail(unanswered(&HEALTH_UNANSWERED, Phase::Health, "its health", other)),
        }
    }

    async fn tools(&self, exam: &mut Examination, known: &mut Orchestrator, connection: &Connection) {
        exam.begin(Phase::List);
        let tools = match self.request(connection, Request::ListTools(ListToolsRequest {})).await {
            Ok(Response::ListTools(list)) => list.tools,
            other => {
                return exam.fail(unanswered(&TOOLS_UNANSWERED, Phase::List, "its tools", other));
            }
        };
        exam.pass([Check::Lists]);
        let (items, took) = (tools.len(), exam.since.elapsed());
        exam.report.lists.push(Listing { method: Method::ListTools, items, took });
        let mut names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        names.sort_unstable();
        let duplicates = names.windows(2).filter(|pair| matches!(pair, [one, other] if one == other)).count();
        let without_schema = tools.iter().filter(|tool| tool.input_schema.is_none()).count();
        for (count, what) in [
            (duplicates, "have the same name as another: only one of each can be called"),
            (without_schema, "have no schema: the bridge gives them one that accepts everything"),
        ] {
            if count > 0 {
                exam.report.notes.push(format!("{count} of the tools {what}"));
            }
        }
        if tools.is_empty() {
            exam.fail(ORCHESTRATOR_NO_TOOLS.at(Phase::List, "it has no tools"));
        } else {
            exam.pass([Check::Offer]);
            exam.end(counted(items, "tool"));
        }
        known.tools = tools;
    }

    async fn request(&self, connection: &Connection, request: Request) -> Result<Response, String> {
        let exchange = async {
            let (mut send, mut receive) = connection.open().await.map_err(|error| error.to_string())?;
            let request = PluginRequest { request_id: "doctor".to_owned(), request: Some(request) };
            let response: Result<PluginResponse, WireError> = async {
                wire::write(&mut send, &request).await?;
                // It fails only for a stream that has ended, and then reading fails as well.
                let _ = send.finish();
                wire::read(&mut receive).await
            }
            .await;
            // The reason for the end of the connection says more than the end of the stream.
            let error = |error: WireError| {
                connection.ended().map_or_else(|| error.to_string(), |ended| ended.to_string())
            };
            response.map_err(error)?.response.ok_or_else(|| "an empty response".to_owned())
        };
        let late = |_| format!("no response within {} s", self.response_timeout.as_secs_f64());
        timeout(self.response_timeout, exchange).await.map_err(late)?
    }
}

impl fmt::Debug for OrchestraDoctor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrchestraDoctor").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Ends the phase of the certificates. Returns whether there is an authority to trust.
fn has_authority(exam: &mut Examination, report: &CertificateReport) -> bool {
    let directory = report.directory.display().to_string();
    if report.files.is_empty() {
        let seen = format!("{directory} contains no certificates");
        exam.fail(NO_CERTIFICATES.at(Phase::Certificates, seen));
        return false;
    }
    let problems = report.problem.iter().map(|problem| format!("{directory}: {problem}"));
    let of_files = report.files.iter().filter_map(|file| {
        let path = file.path.display().to_string();
        file.problem.as_ref().map(|problem| match problem.starts_with(&path) {
            true => problem.clone(),
            false => format!("{path}: {problem}"),
        })
    });
    let problems: Vec<String> = problems.chain(of_files).collect();
    if problems.is_empty() {
        exam.pass([Check::Certificates]);
        let mut facts = report.files.iter().filter_map(|file| file.facts.as_ref());
        let until = facts.find(|facts| facts.is_authority).map_or_else(String::new, |facts| {
            let name = facts.common_name.as_deref().unwrap_or("the authority");
            format!(", {name} until {}", facts.ends())
        });
        exam.end(format!("{directory}{until}"));
    } else {
        exam.end_failed("certificates");
        for seen in problems {
            exam.add(CERTIFICATES_FAULTY.at(Phase::Certificates, seen));
        }
    }
    true
}

fn not_connected(error: &QuicError) -> Finding {
    let kind = match &error.kind {
        QuicErrorKind::Address => ORCHESTRATOR_NO_ADDRESS,
        QuicErrorKind::Resolve(_) => NAME_WITHOUT_ADDRESS,
        QuicErrorKind::Unreached(_) | QuicErrorKind::TimedOut { .. } => ORCHESTRATOR_UNREACHED,
        QuicErrorKind::Protocol { .. } => NO_ORCHESTRATOR,
        QuicErrorKind::Refused(_) => ORCHESTRATOR_CERTIFICATE,
        QuicErrorKind::RefusedByPeer { alert: EXPIRED_ALERT, .. } => CLIENT_CERTIFICATE_EXPIRED,
        QuicErrorKind::RefusedByPeer { .. } => CLIENT_CERTIFICATE_REFUSED,
        _ => ORCHESTRATOR_NOT_CONNECTED,
    };
    kind.with(Phase::Connect, error.to_string(), &[("listen", LISTEN_ADDRESS)])
}

fn unanswered(kind: &Kind<Check>, phase: Phase, what: &str, response: Result<Response, String>) -> Finding {
    let came = match response {
        Ok(Response::ToolCall(refused)) if !refused.success => {
            format!("the error {}: {}", refused.error_code, refused.error_message)
        }
        Ok(_) => "a response to another request".to_owned(),
        Err(error) => error,
    };
    kind.at(phase, format!("requested {what}, received: {came}"))
}

#[cfg(test)]
mod tests {
    use super::{EXPIRED_ALERT, not_connected};
    use mcpjoin_quic::endpoint::{QuicError, QuicErrorKind};

    #[test]
    fn an_expired_certificate_of_ours_advises_a_restart_of_the_orchestrator() {
        let refused = |alert| {
            let kind = QuicErrorKind::RefusedByPeer { alert, what: "no", said: String::new() };
            not_connected(&QuicError::new("localhost:50100", kind))
        };
        let expired = refused(EXPIRED_ALERT);
        assert!(expired.advice.starts_with("restart the orchestrator"), "{expired:?}");
        assert!(!expired.meaning.contains("another authority"), "{expired:?}");
        let unknown = refused(48);
        assert!(unknown.advice.contains("--certs-dir"), "{unknown:?}");
        assert_eq!(expired.id, unknown.id);
    }
}
