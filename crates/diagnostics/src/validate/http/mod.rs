//! The runs of a server that is reached over HTTP.
//!
//! Beside what every server is asked, requests are sent without their headers, with other headers, from pages of other
//! origins, for other hosts, and in sessions that have ended; streams are opened, closed and resumed. A server that
//! wants a token is also asked without one. A prompt is asked for by a name that no server has, where prompts are
//! declared.

mod authorization;
mod headers;
mod resilience;

use std::sync::Arc;
use std::time::Duration;

use http::Method as Verb;
use mcpjoin::transport::{HttpConnect, HttpSetupError};
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::session::NegotiationFailure;
use mcpjoin_proto::{Era, ErrorObject, Method, Payload, Profile, Version, code};
use mcpjoin_rules::{Channel, Probe, Revisions, Run, Trace, What};
use tokio::time::sleep;

use super::features;
use super::probes;
use super::runs::{
    Runs, Transport, agreed, batch, capabilities, incomplete_meta, refused_initialize, removed_methods,
    subscription,
};
use super::{Look, ValidateError};
use crate::engine::http::{Head, HttpSession, Inspector, LOOK_TIME, Reply, Target, Until};
use crate::engine::message::Manner;
use crate::engine::{Outcome, ProgressFn, RunState, Session as _};

/// How long a message to a session that has ended may take.
const ENDED_SESSION_TIMEOUT: Duration = Duration::from_secs(1);
/// How often two clients send requests at once.
const CONCURRENT_REQUESTS: usize = 10;

/// The run in which the legacy era is looked at closely.
const LEGACY_SESSION: &str = "legacy session";

/// A server at a URL.
pub(super) struct Http {
    target: Arc<Target>,
    /// The server is reached over HTTP+SSE.
    sse: bool,
    /// Certificates to trust beside those of the system.
    authorities: Vec<Vec<u8>>,
}

impl Transport for Http {
    type Session = HttpSession;

    async fn start(&mut self, state: RunState, look: &Look) -> Result<HttpSession, ValidateError> {
        Ok(HttpSession::new(Arc::clone(&self.target), state, look.limits.message))
    }

    async fn listen_first(&mut self, _: &mut HttpSession) {
        // Without a request there is no connection.
    }

    async fn end(session: &mut HttpSession) {
        end(session, false).await;
    }

    async fn close(session: HttpSession) -> Run {
        session.close().await
    }
}

/// Why there is no session.
struct Refusal {
    method: Method,
    reply: Reply,
    /// How long the response took.
    took: Duration,
    /// How long it was awaited.
    within: Duration,
    /// What is wrong, where the reply does not say it.
    problem: Option<String>,
}

type Attempt<T = ()> = Result<T, Box<Refusal>>;

impl Refusal {
    fn of(method: Method, reply: Reply, within: Duration) -> Box<Self> {
        Box::new(Self { method, took: reply.began.elapsed(), reply, within, problem: None })
    }
}

impl Runs<Http> {
    /// # Errors
    /// When the URL, a header or a certificate cannot be used.
    pub(super) fn over_http(
        look: Look,
        progress: ProgressFn,
        inspector: Option<Inspector>,
        connect: &HttpConnect,
    ) -> Result<Self, HttpSetupError> {
        let target = Target::new(connect, inspector)?;
        let trace = Trace { credentials: target.may_be_known(), ..Trace::default() };
        let http = Http {
            target: Arc::new(target),
            sse: connect.is_http_sse(),
            authorities: connect.authorities().to_vec(),
        };
        Ok(Self::new(look, progress, http, trace))
    }

    pub(super) async fn all(mut self) -> Result<Trace, ValidateError> {
        if self.transport.sse {
            return match self.http_sse().await {
                Ok(()) => Ok(self.finished(false, false).await),
                Err(refusal) => Err((*refusal).into()),
            };
        }
        let (mut modern, mut legacy, mut failure) = (false, false, None);
        if self.look.modern {
            match self.modern().await {
                Ok(()) => modern = true,
                Err(refusal) if refusal.reply.is_refusal() => return Err(self.refused(refusal).await),
                Err(refusal) => failure = Some(refusal),
            }
        }
        if self.look.legacy {
            match self.legacy(modern).await {
                Ok(()) => legacy = true,
                Err(refusal) => {
                    let may_be_older = matches!(refusal.reply.status, Some(400 | 404 | 405));
                    if !modern && may_be_older && self.http_sse().await.is_ok() {
                        self.transport.sse = true;
                        return Ok(self.finished(false, false).await);
                    }
                    failure = Some(refusal);
                }
            }
        }
        if let (false, false, Some(failure)) = (modern, legacy, failure) {
            return Err(self.refused(failure).await);
        }
        if legacy {
            self.openers(Channel::StreamableHttp).await?;
        }
        self.at_once(modern).await;
        if let Some(mut session) = self.opened("lines that cannot be parsed", modern).await {
            bad_lines(&mut session).await;
            end(&mut session, false).await;
            self.keep(session).await;
        }
        if !self.transport.target.is_gone() {
            let spoken = if modern { Version::newest(Era::Modern) } else { self.legacy_spoken() };
            self.authorization(&spoken, false).await;
        }
        Ok(self.finished(modern, legacy).await)
    }

    /// The whole trace, after the runs under stress, where they were asked for.
    async fn finished(mut self, modern: bool, legacy: bool) -> Trace {
        if self.transport.target.is_gone() {
            self.record_end();
        } else if self.look.resilience {
            self.resilience(modern, legacy).await;
        }
        self.trace
    }

    /// Why no session was opened. A server that wants a token is asked for more about that.
    async fn refused(mut self, refusal: Box<Refusal>) -> ValidateError {
        if matches!(refusal.reply.status, Some(401 | 403)) {
            let asked = match refusal.method {
                Method::Discover => Version::newest(Era::Modern),
                _ => self.legacy_version(),
            };
            self.authorization(&asked, true).await;
        }
        let mut error = ValidateError::from(*refusal);
        if let ValidateError::Unauthorized { seen, .. } = &mut error {
            **seen = self.trace;
        }
        error
    }

    /// The version of the legacy session.
    fn legacy_spoken(&self) -> Version {
        let mut legacy = self.trace.runs.iter().filter(|run| &*run.name == LEGACY_SESSION);
        legacy.next().map_or_else(|| Version::newest(Era::Legacy), |run| run.version.clone())
    }

    /// Records in the last run that the server has ended, whichever run has found that out.
    fn record_end(&mut self) {
        let Some(last) = self.trace.runs.last_mut() else { return };
        if !last.events.iter().any(|event| matches!(event.what, What::OutputEnded)) {
            let at = last.events.last().map_or(Duration::ZERO, |event| event.at);
            last.note(at, What::OutputEnded);
        }
    }

    /// Starts a session. Nothing is connected before its first request.
    fn session(&mut self, name: &str, version: &Version, manner: Manner, channel: Channel) -> HttpSession {
        let state = self.next_run(name, version, manner, channel);
        HttpSession::new(Arc::clone(&self.transport.target), state, self.look.limits.message)
    }

    /// A session of the modern era, if the server speaks it.
    async fn modern(&mut self) -> Attempt {
        let version = Version::newest(Era::Modern);
        let manner = Manner::Modern(version.clone());
        let mut session = self.session("modern session", &version, manner, Channel::StreamableHttp);
        let within = self.look.limits.initialize;
        let discovered = self.discover(&mut session, within, |session| !session.opening().is_refusal()).await;
        let Ok(declared) = discovered else {
            return Err(Refusal::of(Method::Discover, session.opening(), within));
        };
        let tools = self.common(&mut session, declared.as_ref()).await;
        // With arguments of ours. A tool that the user has named is called with the given arguments alone.
        if self.look.consent.read_only
            && let Some(marked) = features::marked(&tools)
        {
            headers::params(&mut session, &marked).await;
        }
        let declared = declared.unwrap_or_default();
        removed_methods(&mut session).await;
        incomplete_meta(&mut session, &version).await;
        headers::changed(&mut session).await;
        if declared.contains_key("prompts") {
            headers::names(&mut session, &version).await;
        }
        self.strangers(&mut session).await;
        subscription(&mut session, &declared).await;
        self.keep(session).await;
        Ok(())
    }

    /// A session of the legacy era, if the server speaks it. `modern`: it speaks the modern era.
    async fn legacy(&mut self, modern: bool) -> Attempt {
        let version = self.legacy_version();
        let mut session = self.session(LEGACY_SESSION, &version, Manner::Legacy, Channel::StreamableHttp);
        let within = self.look.limits.initialize;
        let Outcome::Result(result) = session.initialize(Probe::Initialize, &version, within).await else {
            let refusal = Refusal::of(Method::Initialize, session.opening(), within);
            if modern {
                refused_initialize(&mut session);
                self.keep(session).await;
            }
            return Err(refusal);
        };
        session.agree(agreed(&result, &version));
        session.ask_control(Probe::EarlyPing).await;
        session.initialized().await;
        session.send_as(Probe::OpenStream, Verb::GET, Until::Open, |head| head).await;
        session.ask_control(Probe::Ping).await;
        self.common(&mut session, Some(&capabilities(&result))).await;
        session.notify(Probe::StrayAnswer, &probes::stray_response()).await;
        if let Some(batch) = batch(&mut session) {
            session.requests(Probe::Batch, vec![batch]).await;
            session.notify(Probe::UnknownNotification, &probes::notification_batch()).await;
        }
        session.close_stream().await;
        if let Some(event) = session.resumable() {
            session.announce(Probe::Resume);
            let head = session.head(Verb::GET).with(name::LAST_EVENT_ID, &event);
            session.exchange(Probe::Resume, head, None, Until::FirstMessage, LOOK_TIME * 5).await;
        }
        other_sessions(&mut session).await;
        self.strangers(&mut session).await;
        end(&mut session, true).await;
        self.keep(session).await;
        Ok(())
    }

    /// Requests from pages of other origins, and for other hosts.
    async fn strangers(&mut self, session: &mut HttpSession) {
        let foreign = probes::FOREIGN_ORIGINS.map(|origin| (Probe::ForeignOrigin, name::ORIGIN, origin));
        // Other names of a server that is not on this machine are not ours to check.
        let host = (Probe::ForeignHost, name::HOST, probes::FOREIGN_HOST);
        let host = self.transport.target.is_loopback.then_some(host);
        for (probe, header, value) in foreign.into_iter().chain(host) {
            let line = session.line(session.control());
            session.post_as(probe, line, |head| head.with(header, value)).await;
        }
    }

    /// Two clients that use the same ids at the same time.
    async fn at_once(&mut self, modern: bool) {
        let Some(mut one) = self.opened("two clients, the first", modern).await else { return };
        let Some(mut other) = self.opened("two clients, the second", modern).await else { return };
        let within = self.look.answer;
        for _ in 0..CONCURRENT_REQUESTS {
            // Both have counted to the same number.
            let (known, unknown) = (one.line(one.control()), other.line(probes::NO_METHOD));
            one.announce(Probe::SameId);
            tokio::join!(
                one.request_with(Probe::SameId, known, &[], within),
                other.request_with(Probe::SameId, unknown, &[], within)
            );
        }
        for mut session in [one, other] {
            end(&mut session, false).await;
            self.keep(session).await;
        }
    }

    /// An open session; `None` when none opens any more.
    async fn opened(&mut self, name: &str, modern: bool) -> Option<HttpSession> {
        if modern {
            let version = Version::newest(Era::Modern);
            let manner = Manner::Modern(version.clone());
            return Some(self.session(name, &version, manner, Channel::StreamableHttp));
        }
        if self.transport.sse {
            let (mut session, _) = self.http_sse_session(name).await.ok()?;
            session.initialized().await;
            return Some(session);
        }
        let version = self.legacy_version();
        let mut session = self.session(name, &version, Manner::Legacy, Channel::StreamableHttp);
        if self.open_legacy(&mut session).await {
            return Some(session);
        }
        if self.transport.target.is_gone() {
            self.keep(session).await;
        }
        None
    }

    /// A session over HTTP+SSE up to the response to `initialize`, and its result.
    async fn http_sse_session(&mut self, name: &str) -> Attempt<(HttpSession, Payload)> {
        let version = self.look.version.clone().unwrap_or_else(|| Revisions::FIRST.first().clone());
        let mut session = self.session(name, &version, Manner::Legacy, Channel::HttpSse);
        session.announce(Probe::OpenStream);
        let (head, within) = (session.head(Verb::GET), self.look.limits.initialize);
        let reply = session.exchange(Probe::OpenStream, head, None, Until::Open, within).await;
        if !reply.is_stream() {
            return Err(Refusal::of(Method::Initialize, reply, within));
        }
        if let Err(problem) = session.await_endpoint().await {
            let refusal = *Refusal::of(Method::Initialize, reply, within);
            return Err(Box::new(Refusal { problem: Some(problem), ..refusal }));
        }
        let Outcome::Result(result) = session.initialize(Probe::Initialize, &version, within).await else {
            return Err(Refusal::of(Method::Initialize, session.opening(), within));
        };
        session.agree(agreed(&result, &version));
        Ok((session, result))
    }

    /// A session over HTTP+SSE, if the server speaks it.
    async fn http_sse(&mut self) -> Attempt {
        let (mut session, result) = self.http_sse_session("HTTP+SSE session").await?;
        session.ask_control(Probe::EarlyPing).await;
        session.initialized().await;
        session.ask_control(Probe::Ping).await;
        self.common(&mut session, Some(&capabilities(&result))).await;
        bad_lines(&mut session).await;
        for origin in probes::FOREIGN_ORIGINS {
            let foreign = |head: Head| head.with(name::ORIGIN, origin);
            session.send_as(Probe::ForeignOrigin, Verb::GET, Until::Closed, foreign).await;
        }
        session.close_stream().await;
        // Until the server has learned from its system that the connection is closed.
        sleep(LOOK_TIME * 2).await;
        session.announce(Probe::AfterStream);
        let line = probes::unknown_cancel();
        let head = session.post(&line);
        // Some servers never respond to it.
        let within = self.look.answer.min(ENDED_SESSION_TIMEOUT);
        session.exchange(Probe::AfterStream, head, Some(&line), Until::Ended, within).await;
        self.keep(session).await;
        Ok(())
    }
}

/// Bodies that cannot be read.
async fn bad_lines(session: &mut HttpSession) {
    for (probe, line) in probes::BAD_LINES {
        session.announce(probe);
        session.notify(probe, line).await;
        session.ask_control(Probe::AfterBadLine).await;
    }
}

/// Requests in other sessions, and of other versions.
async fn other_sessions(session: &mut HttpSession) {
    type Change = fn(Head) -> Head;
    let mut changes: Vec<(Probe, Change)> = Vec::new();
    if session.session_id.is_some() {
        changes.push((Probe::NoSession, |head| head.without(name::SESSION_ID)));
        changes.push((Probe::UnknownSession, |head| head.with(name::SESSION_ID, probes::NO_SESSION)));
    }
    if Profile::of(&session.state().run.version).is_some_and(|profile| profile.http_version_header) {
        changes.push((Probe::BadVersionHeader, |head| head.with(name::PROTOCOL_VERSION, probes::NO_VERSION)));
        changes.push((Probe::NoVersionHeader, |head| head.without(name::PROTOCOL_VERSION)));
    }
    for (probe, change) in changes {
        let line = session.line(session.control());
        session.post_as(probe, line, change).await;
    }
}

/// Ends the session, if it has an id. `ask`: sends a request in it once more.
async fn end(session: &mut HttpSession, ask: bool) {
    if session.session_id.is_none() {
        return;
    }
    session.ends();
    let reply = session.send_as(Probe::EndSession, Verb::DELETE, Until::Closed, |head| head).await;
    if ask && reply.is_success() {
        session.ask_control(Probe::EndedSession).await;
    }
}

impl From<Refusal> for ValidateError {
    fn from(refusal: Refusal) -> Self {
        let Refusal { method, reply, took, within, problem } = refusal;
        if let Some(problem) = problem {
            let problem = problem.into();
            return Self::NoSession(NegotiationFailure::InvalidResponse { method, problem });
        }
        if let Some(error) = reply.failure {
            return Self::Unreachable(error);
        }
        let Some(status) = reply.status else {
            return Self::NoSession(NegotiationFailure::TimedOut { method, after: within, garbage: None });
        };
        if matches!(status, 401 | 403) {
            return Self::Unauthorized { status, reason: reply.reason, seen: Box::default() };
        }
        // Over HTTP such an error need not name versions.
        if let Outcome::Error(ErrorObject { code: code::UNSUPPORTED_PROTOCOL_VERSION, data: None, .. }) =
            &reply.outcome
        {
            return Self::NoSession(NegotiationFailure::NoCommonVersion { supported: Vec::new() });
        }
        if let Some(failure) = reply.outcome.opening_failure(method.clone(), reply.asked) {
            return Self::NoSession(failure);
        }
        match status {
            // A response that was received and brings no message is not awaited any longer.
            200..=299 if took >= within => {
                Self::NoSession(NegotiationFailure::TimedOut { method, after: within, garbage: None })
            }
            300..=399 => Self::Redirected { status, location: reply.location },
            _ => Self::NotMcp { status, content_type: reply.content_type, head: reply.body },
        }
    }
}
