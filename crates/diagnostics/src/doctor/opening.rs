//! The opening of the session: the probe of the era, `initialize`, and how long both take.
//!
//! Used by the examination of every transport. The session decides which request it sends and what a response means; this
//! only reads the messages on the link.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::Method;
use mcpjoin_proto::session::{CloseCause, Peer};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use url::Url;

use super::examination::{Examination, NO_ANSWER, seconds};
use super::findings::*;
use super::observer::{FOREIGN_TIMEOUT, Observed, Observer, ProbeAnswer};
use super::report::{Check, Outcome, Phase, Transport};
use super::stderr_patterns::{last_lines, listening_url};
use mcpjoin::client::{Client, ClientBuilder};
use mcpjoin::transport::{ChildHandle, Link};

/// How often the standard error of a program is looked at that has not answered.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// How long a connection to a port of this machine may take.
const ACCEPT_TIMEOUT: Duration = Duration::from_millis(500);

impl Examination {
    /// Connects the client. `began`: when the program was started, or the connection was begun. `child`: the process of a
    /// child, with its process id at the first start.
    ///
    /// # Errors
    /// Why the session did not open. The caller turns it into a finding that ends the current phase.
    pub(super) async fn open(
        &mut self,
        link: Link,
        client: ClientBuilder,
        began: Instant,
        child: Option<(&ChildHandle, Option<u32>)>,
    ) -> Result<Client, CloseCause> {
        self.begin(Phase::Probe);
        // A server that disconnects later than this did so because the probe timed out.
        let probe_timeout = client.limits_in_force().probe;
        let observer = self.observer.clone();
        let (of_link, of_session) = (observer.clone(), observer.clone());
        let mut inspector = self.callbacks.inspector.take();
        let link = link.inspected(move |direction, inspected| {
            of_link.inspected(direction, inspected);
            if let Some(inspector) = &mut inspector {
                inspector(direction, inspected);
            }
        });
        let client = client.also_on_violation(move |violation| of_session.violation(violation));
        let is_socket = self.transport == Transport::Socket;
        let connecting = async { client.connect(link).await.map_err(|error| error.cause) };
        // There is no reason to wait for a peer that has shown that it is no MCP server.
        let hopeless = async {
            match child {
                Some((child, _)) => serves_elsewhere(&observer, child, probe_timeout).await,
                None if is_socket => observer.hopeless(probe_timeout).await,
                None => std::future::pending().await,
            }
        };
        let outcome = tokio::select! {
            outcome = connecting => outcome,
            () = hopeless => Err(observer.observed().garbage()),
        };
        if let (Err(_), Some((child, _))) = (&outcome, child) {
            child.ended().await;
        }
        let now = Instant::now();
        observer.set_opened();
        let observed = observer.observed();
        let restarted = match child {
            Some((child, pid)) => child.pid() != pid,
            None => is_socket && observed.hung_up(probe_timeout),
        };
        self.end_probe(&observed, began, now, restarted, outcome.is_ok());
        let client = outcome?;
        self.end_opening(&observed, began, now, restarted, client.peer());
        Ok(client)
    }

    /// Ends the phase of the probe, and begins that of `initialize` if it was sent.
    fn end_probe(
        &mut self,
        observed: &Observed,
        began: Instant,
        now: Instant,
        restarted: bool,
        connected: bool,
    ) {
        let Some(probed) = observed.probe else {
            self.skip(Phase::Probe, "the older protocol was requested (--era legacy)");
            self.not_run([Check::ProbeSurvived, Check::ProbeAnswered], "the protocol was not probed");
            let since = observed.initialize.map_or(began, |(first, _)| first);
            return self.begin_at(Phase::Initialize, since);
        };
        let Some((initialize, _)) = observed.initialize else {
            // The modern era has no `initialize`, and neither has a server that exited at the probe.
            self.since = probed;
            return;
        };
        let mut until = initialize;
        let detail = if restarted {
            let (seen, detail) = match self.transport.is_remote() {
                true => (
                    "the server closed the connection after server/discover, and was connected a second time",
                    "the server closed the connection, and was connected a second time",
                ),
                false => (
                    "the server exited after server/discover, and was started a second time",
                    "the server exited, and was started a second time",
                ),
            };
            // A server that also exits at `initialize` does not exit because of the probe.
            if connected {
                self.add(PROBE_FATAL.at(Phase::Probe, seen));
            }
            self.not_run([Check::ProbeAnswered], "the server exited after the probe");
            detail.to_owned()
        } else {
            if connected {
                self.pass([Check::ProbeSurvived]);
            }
            if let Some((at, answer)) = &observed.answered {
                self.pass([Check::ProbeAnswered]);
                until = (*at).min(initialize);
                match answer {
                    ProbeAnswer::Error(code) => {
                        format!("JSON-RPC error {code}: speaks the older protocol (initialize)")
                    }
                    ProbeAnswer::Foreign => {
                        "no message in answer to server/discover; trying initialize".to_owned()
                    }
                    ProbeAnswer::Result => "responded with another result".to_owned(),
                }
            } else {
                if connected {
                    let waited = seconds(initialize.saturating_duration_since(probed));
                    let seen = format!(
                        "no response to server/discover within {waited}, but one to \
                        initialize"
                    );
                    self.add(MUTE.at(Phase::Probe, seen));
                }
                NO_ANSWER.to_owned()
            }
        };
        self.step(Outcome::Passed, probed, until, detail);
        self.begin_at(Phase::Initialize, initialize.min(now));
    }

    /// Ends the opening of a client and a server that agree.
    fn end_opening(
        &mut self,
        observed: &Observed,
        began: Instant,
        now: Instant,
        restarted: bool,
        peer: Arc<Peer>,
    ) {
        let name = peer.info.as_ref().map_or_else(
            || "an unnamed server".to_owned(),
            |info| format!("{} {}", info.name, info.version).trim_end().to_owned(),
        );
        let version = &peer.profile.version;
        let detail = format!("{name}, protocol {}", version.as_str());
        let has_initialize = Method::Initialize.facts().is_some_and(|facts| facts.exists_in(version));
        self.pass([Check::Opening]);
        if has_initialize {
            self.end(detail);
        } else {
            self.pass([Check::ProbeSurvived, Check::ProbeAnswered]);
            // A response that arrived after the timeout of the probe still decides.
            self.reopen(Phase::Probe, observed.probe.unwrap_or(began));
            self.end(detail);
            self.skip(Phase::Initialize, "this protocol version has no initialize");
        }
        let unanswered = observed.probe.is_some() && observed.answered.is_none();
        let took = match observed.initialize {
            // The time of the start is not known here, so that only `initialize` counts.
            Some((_, last)) if restarted || unanswered => now.saturating_duration_since(last),
            _ => observed.first.unwrap_or(now).saturating_duration_since(began),
        };
        let fault = (took > self.slow_start).then(|| {
            let kind = match (self.transport.is_remote(), self.fetches) {
                (true, _) => &SLOW_START,
                (false, true) => &FETCHED_SLOW_START,
                (false, false) => &PROGRAM_SLOW_START,
            };
            let (took, limit) = (seconds(took), seconds(self.slow_start));
            kind.at(self.last_phase(), format!("the first response came after {took}, more than {limit}"))
        });
        self.decide(Check::Speed, fault);
        self.report.peer = Some(Arc::unwrap_or_clone(peer));
    }
}

/// Completes when a program has shown that it does not serve its standard input and output: it writes headers before its
/// messages, or it says that it listens at a port of this machine, something accepts connections there, and no message has come
/// within a second after its last line on standard output, or within the timeout of the probe.
async fn serves_elsewhere(observer: &Observer, child: &ChildHandle, probe_timeout: Duration) {
    let began = Instant::now();
    let mut looks = tokio::time::interval(LOOK_INTERVAL);
    loop {
        looks.tick().await;
        let observed = observer.observed();
        if observed.first.is_some() {
            return std::future::pending().await;
        }
        let (since, patience) = match observed.noise_at {
            Some(at) => (at, FOREIGN_TIMEOUT.min(probe_timeout)),
            None => (began, probe_timeout),
        };
        if since.elapsed() < patience {
            continue;
        }
        if observed.frames_with_headers() {
            return;
        }
        let mut said = last_lines(&child.stderr());
        said.extend(observed.noise_texts());
        if let Some(url) = listening_url(&said)
            && is_accepted(&url).await
        {
            return;
        }
    }
}

/// Whether something accepts connections at the port of this machine that a URL names.
async fn is_accepted(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else { return false };
    let host = host.trim_matches(['[', ']']);
    let is_local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    is_local && matches!(timeout(ACCEPT_TIMEOUT, TcpStream::connect((host, port))).await, Ok(Ok(_)))
}
