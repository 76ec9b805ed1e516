//! The runs of a server that reads and writes lines: a child process, or a stream of bytes.

use std::time::Duration;

use mcpjoin_proto::session::NegotiationFailure;
use mcpjoin_proto::{Era, Method, RequestId, Version};
use mcpjoin_rules::{Channel, Probe, Run, Trace};
use tokio::time::timeout;

use super::probes;
use super::runs::{
    Runs, Transport, agreed, batch, capabilities, incomplete_meta, odd_ids, refused_initialize,
    removed_methods, subscription,
};
use super::source::Source;
use super::{Look, ValidateError};
use crate::engine::message::Manner;
use crate::engine::{Delivery, LineSession, Outcome, ProgressFn, RunState, Session as _};

/// How long a server that should be silent is listened to, beyond the time that it usually takes to start.
const SILENCE: Duration = Duration::from_millis(200);
/// And at most in all.
const MAX_SILENCE: Duration = Duration::from_secs(3);
/// How long a server with which no session was opened may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that is started, or connected to, for each run.
pub(super) struct Lines {
    source: Source,
    /// The longest time from the start of the server to its first response.
    startup: Duration,
}

impl Transport for Lines {
    type Session = LineSession;

    async fn start(&mut self, state: RunState, look: &Look) -> Result<LineSession, ValidateError> {
        let (link, child) = self.source.open().await?;
        Ok(LineSession::new(link, child, state, &look.limits))
    }

    async fn listen_first(&mut self, session: &mut LineSession) {
        // The server should say nothing by itself.
        session.look_for((self.startup + SILENCE).min(MAX_SILENCE)).await;
    }

    async fn end(_: &mut LineSession) {
        // The end of its input is the end of the session.
    }

    async fn close(session: LineSession) -> Run {
        session.close().await
    }
}

type Attempt = Result<(), NegotiationFailure>;

impl Runs<Lines> {
    pub(super) fn over_lines(look: Look, progress: ProgressFn, source: Source) -> Self {
        Self::new(look, progress, Lines { source, startup: Duration::ZERO }, Trace::default())
    }

    pub(super) async fn all(mut self) -> Result<Trace, ValidateError> {
        let limits = self.look.limits.clone();
        let (mut modern, mut failure) = (false, None);
        if self.look.modern {
            let within = if self.look.legacy { limits.probe } else { limits.initialize };
            match self.modern(within).await? {
                Ok(()) => modern = true,
                Err(why) => failure = Some(why),
            }
        }
        let timed_out = matches!(failure, Some(NegotiationFailure::TimedOut { .. }));
        let mut legacy = false;
        if self.look.legacy {
            match self.legacy(modern).await? {
                Ok(()) => {
                    legacy = true;
                    // A server that takes this long to start may not have seen the probe.
                    let startup = self.transport.startup;
                    if timed_out && startup * 2 > limits.probe {
                        modern = self.modern(limits.probe + startup * 2).await?.is_ok();
                    }
                }
                Err(why) => {
                    // A modern server that is slow to start has not answered the probe in time.
                    let slow = timed_out && matches!(why, NegotiationFailure::Refused { .. });
                    failure = Some(both(failure, why));
                    if slow {
                        modern = self.modern(limits.initialize).await?.is_ok();
                    }
                }
            }
        }
        if let (false, false, Some(failure)) = (modern, legacy, failure) {
            return Err(ValidateError::NoSession(failure));
        }
        if legacy {
            self.openers(Channel::Stdio).await?;
        }
        self.bad_lines(modern).await?;
        self.streams(modern).await?;
        if self.look.resilience {
            self.resilience(modern).await?;
        }
        Ok(self.trace)
    }

    /// A session of the modern era, if the server speaks it.
    async fn modern(&mut self, within: Duration) -> Result<Attempt, ValidateError> {
        let version = Version::newest(Era::Modern);
        let manner = Manner::Modern(version.clone());
        let mut session = self.start("modern session", &version, manner, Channel::Stdio).await?;
        let declared = match self.discover(&mut session, within, |_| true).await {
            Ok(declared) => declared,
            Err(outcome) => {
                let failure = session.opening_failure(Method::Discover, outcome, first_id(), within);
                give_up(session, within).await;
                return Ok(Err(failure));
            }
        };
        self.started(&session);
        self.common(&mut session, declared.as_ref()).await;
        delivery(&mut session).await;
        if let Some(declared) = &declared
            && subscription(&mut session, declared).await
        {
            session.ask_control(Probe::Ping).await;
        }
        removed_methods(&mut session).await;
        incomplete_meta(&mut session, &version).await;
        self.keep(session).await;
        Ok(Ok(()))
    }

    /// A session of the legacy era, if the server speaks it. `modern`: it speaks the modern era.
    async fn legacy(&mut self, modern: bool) -> Result<Attempt, ValidateError> {
        let version = self.legacy_version();
        let mut session = self.start("legacy session", &version, Manner::Legacy, Channel::Stdio).await?;
        let within = match modern {
            true => self.look.answer.max(self.transport.startup),
            false => self.look.limits.initialize,
        };
        let result = match session.initialize(Probe::Initialize, &version, within).await {
            Outcome::Result(result) => result,
            outcome => {
                let failure = session.opening_failure(Method::Initialize, outcome, first_id(), within);
                if modern {
                    refused_initialize(&mut session);
                    self.keep(session).await;
                } else {
                    give_up(session, within).await;
                }
                return Ok(Err(failure));
            }
        };
        self.started(&session);
        session.agree(agreed(&result, &version));
        session.ask_control(Probe::EarlyPing).await;
        session.initialized().await;
        session.ask_control(Probe::Ping).await;
        self.common(&mut session, Some(&capabilities(&result))).await;
        delivery(&mut session).await;
        if let Some(batch) = batch(&mut session) {
            session.requests(Probe::Batch, vec![batch]).await;
        }
        self.keep(session).await;
        Ok(Ok(()))
    }

    fn started(&mut self, session: &LineSession) {
        self.transport.startup = self.transport.startup.max(session.elapsed());
    }

    /// Lines that cannot be read. A server that does not survive one is started again for the next.
    async fn bad_lines(&mut self, modern: bool) -> Result<(), ValidateError> {
        let mut open = None;
        for (probe, line) in probes::BAD_LINES {
            let mut session = match open.take() {
                Some(session) => session,
                None => match self.opened("lines that cannot be parsed", modern).await? {
                    Some(session) => session,
                    None => return Ok(()),
                },
            };
            session.announce(probe);
            session.send(probe, line);
            session.ask_control(Probe::AfterBadLine).await;
            session.look().await;
            if session.is_over() || session.has_missed() {
                self.keep(session).await;
            } else {
                open = Some(session);
            }
        }
        if let Some(session) = open {
            self.keep(session).await;
        }
        Ok(())
    }

    /// A session in which each request has a stream of its own, where the transport has that.
    async fn streams(&mut self, modern: bool) -> Result<(), ValidateError> {
        let Some(link) = self.transport.source.messages().await? else { return Ok(()) };
        let (version, manner) = self.newest(modern);
        let state = self.next_run("a stream for each request", &version, manner, Channel::Stdio);
        let mut session = LineSession::new(link, None, state, &self.look.limits);
        if !self.open(&mut session).await {
            return Ok(());
        }
        odd_ids(&mut session).await;
        session.ask(Probe::UnknownMethod, probes::NO_METHOD).await;
        session.notify(Probe::UnknownNotification, &probes::unknown_notification()).await;
        session.ask_control(Probe::Ping).await;
        self.keep(session).await;
        Ok(())
    }

    fn newest(&self, modern: bool) -> (Version, Manner) {
        if modern {
            let version = Version::newest(Era::Modern);
            (version.clone(), Manner::Modern(version))
        } else {
            (self.legacy_version(), Manner::Legacy)
        }
    }

    /// An open session with that name; `None` when none opens any more.
    pub(super) async fn opened(
        &mut self,
        name: &str,
        modern: bool,
    ) -> Result<Option<LineSession>, ValidateError> {
        let (version, manner) = self.newest(modern);
        let mut session = self.start(name, &version, manner, Channel::Stdio).await?;
        Ok(self.open(&mut session).await.then_some(session))
    }

    async fn open(&mut self, session: &mut LineSession) -> bool {
        if session.state().manner.is_legacy() {
            return self.open_legacy(session).await;
        }
        let within = self.look.limits.initialize;
        let outcome = session.ask_within(Probe::Discover, Method::Discover.as_str(), within).await;
        matches!(outcome, Outcome::Result(_))
    }
}

/// Two requests in one write, and one in two.
async fn delivery(session: &mut LineSession) {
    let control = session.control();
    session.announce(Probe::TwoAtOnce);
    let two = [session.line(control), session.line(control)];
    session.deliver(Probe::TwoAtOnce, &two, Delivery::Together).await;
    session.announce(Probe::InPieces);
    let one = [session.line(control)];
    session.deliver(Probe::InPieces, &one, Delivery::Split).await;
}

/// The id of the request that opens a session.
fn first_id() -> Option<RequestId> {
    Some(RequestId::from(1))
}

/// Ends a run that is not checked. A server that has not responded in its time has no more time than that to end; then
/// it is dropped, which ends it at once.
async fn give_up(session: LineSession, within: Duration) {
    let _ = timeout(within.min(END_TIMEOUT), session.close()).await;
}

/// The failure that is reported when neither era was spoken: that of `initialize`, unless that of the probe says more.
fn both(probe: Option<NegotiationFailure>, initialize: NegotiationFailure) -> NegotiationFailure {
    match (probe, initialize) {
        (Some(known @ NegotiationFailure::NoCommonVersion { .. }), _) => known,
        (
            Some(NegotiationFailure::Ended { last: first, garbage: earlier, .. }),
            NegotiationFailure::Ended { last, garbage, .. },
        ) => NegotiationFailure::Ended { last, probe: Some(first), garbage: garbage.or(earlier) },
        (_, initialize) => initialize,
    }
}
