//! Which runs there are over HTTP, and what is sent in each.

use std::time::Duration;

use http::Method as Verb;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::types::Members;
use mcpjoin_proto::{Era, Method, Payload, Profile, Raw, Version, code};
use mcpjoin_rules::{CallNote, Channel, Probe, Revisions, Trace, What};

use super::super::features;
use super::super::live::Opened;
use super::super::probes::{self, Manner};
use super::super::runs::{REMOVED, agreed, capabilities, control, member};
use super::super::{Look, Progress, ValidateError};
use super::asking::Asking;
use super::lines;
use super::live::{Live, MOMENT, Reply, Until};
use super::refusal::{Attempt, Refusal};
use super::wire::{Head, Wire};
use mcpjoin::link::{HttpConnect, HttpSetupError};

/// What is posted to a session that is gone has this long to be answered.
const GONE: Duration = Duration::from_secs(1);
/// So many times two clients ask at once.
const TOGETHER: usize = 10;

/// The run in which the legacy era is looked at closely.
const LEGACY_SESSION: &str = "legacy session";

/// Every run of one server.
pub(in super::super) struct Runs {
    pub(super) of: Look,
    pub(super) wire: Wire,
    /// The server is reached over HTTP+SSE.
    pub(super) sse: bool,
    /// Certificates to trust beside those of the system.
    pub(super) authorities: Vec<Vec<u8>>,
    pub(super) trace: Trace,
    number: usize,
}

impl Runs {
    /// # Errors
    /// When the URL, a header or a certificate cannot be used.
    pub(in super::super) fn new(mut of: Look, connect: &HttpConnect) -> Result<Self, HttpSetupError> {
        let wire = Wire::new(connect, of.tap.take())?;
        let trace = Trace { answer_within: of.answer, credentials: wire.may_be_known(), ..Trace::default() };
        Ok(Self {
            of,
            wire,
            sse: connect.is_http_sse(),
            authorities: connect.authorities().to_vec(),
            trace,
            number: 0,
        })
    }

    pub(in super::super) async fn all(mut self) -> Result<Trace, ValidateError> {
        if self.sse {
            return match self.http_sse().await {
                Attempt::Spoken => Ok(self.stressed(false, false).await),
                Attempt::Not(refusal) => Err(refusal.into()),
            };
        }
        let (mut modern, mut legacy, mut failure) = (false, false, None);
        if self.of.modern {
            match self.modern().await {
                Attempt::Spoken => modern = true,
                Attempt::Not(refusal) if refusal.is_final() => return Err(self.kept_out(refusal).await),
                Attempt::Not(refusal) => failure = Some(refusal),
            }
        }
        if self.of.legacy {
            match self.legacy(modern).await {
                Attempt::Spoken => legacy = true,
                Attempt::Not(refusal) => {
                    let older = matches!(refusal.reply.status, Some(400 | 404 | 405));
                    if !modern && older && matches!(self.http_sse().await, Attempt::Spoken) {
                        self.sse = true;
                        return Ok(self.stressed(false, false).await);
                    }
                    failure = Some(refusal);
                }
            }
        }
        if let (false, false, Some(failure)) = (modern, legacy, failure) {
            return Err(self.kept_out(failure).await);
        }
        if legacy {
            self.openers().await;
        }
        self.at_once(modern).await;
        self.bad_lines(modern).await;
        if !self.wire.is_gone() {
            let spoken = if modern { Version::newest(Era::Modern) } else { self.legacy_spoken() };
            self.authorization(&spoken, false).await;
        }
        Ok(self.stressed(modern, legacy).await)
    }

    /// All that was seen, and what the server bears, where that was asked for.
    async fn stressed(mut self, modern: bool, legacy: bool) -> Trace {
        if self.wire.is_gone() {
            self.ended();
        } else if self.of.resilience {
            self.resilience(modern, legacy).await;
        }
        self.trace
    }

    /// Nothing can be asked. A server that wants a token says more of that.
    async fn kept_out(mut self, refusal: Box<Refusal>) -> ValidateError {
        if matches!(refusal.reply.status, Some(401 | 403)) {
            let asked = match refusal.method {
                Method::Discover => Version::newest(Era::Modern),
                _ => self.of.version.clone().unwrap_or_else(|| Version::newest(Era::Legacy)),
            };
            self.authorization(&asked, true).await;
        }
        let mut error = ValidateError::from(refusal);
        if let ValidateError::Unauthorized { seen, .. } = &mut error {
            **seen = std::mem::take(&mut self.trace);
        }
        error
    }

    /// The version of the legacy session.
    fn legacy_spoken(&self) -> Version {
        let mut legacy = self.trace.runs.iter().filter(|run| &*run.name == LEGACY_SESSION);
        legacy.next().map_or_else(|| Version::newest(Era::Legacy), |run| run.version.clone())
    }

    /// The server has ended with what was asked last, whichever run has found that out.
    fn ended(&mut self) {
        let Some(last) = self.trace.runs.last_mut() else { return };
        if !last.events.iter().any(|event| matches!(event.what, What::OutputEnded)) {
            let at = last.events.last().map_or(Duration::ZERO, |event| event.at);
            last.note(at, What::OutputEnded);
        }
    }

    pub(super) fn note(&mut self, note: CallNote) {
        self.trace.calls.push(note);
    }

    pub(super) const fn answer(&self) -> Duration {
        self.of.answer
    }

    pub(super) fn tell(&mut self, live: &Live<'_>, probe: Probe) {
        (self.of.progress)(Progress { number: self.number, run: &live.run.name, probe });
    }

    /// A session of the modern era, if there is one.
    async fn modern(&mut self) -> Attempt {
        let version = Version::newest(Era::Modern);
        let manner = Manner::Modern(version.clone());
        let wire = self.wire.clone();
        let mut live =
            self.start(&wire, "modern session", &version, Channel::StreamableHttp).in_manner(manner.clone());
        let within = self.of.limits.initialize;
        let reply = self.open(&mut live, Probe::Discover, &manner, Method::Discover.as_str(), within).await;
        let declared = match &reply.opened {
            Opened::Result(result) if member(result.raw(), "supportedVersions").is_some() => {
                Some(capabilities(result))
            }
            opened => {
                // Where this era alone is asked for, a server may be of it and lack this method: that is judged.
                let other = matches!(opened, Opened::Error(error) if error.code == code::UNSUPPORTED_PROTOCOL_VERSION);
                let kept_out = matches!(reply.status, None | Some(401 | 403));
                let may_be = !self.of.legacy && !other && !kept_out;
                let list = Method::ListTools.as_str();
                let spoken = may_be && {
                    let reply = self.open(&mut live, Probe::List, &manner, list, self.of.answer).await;
                    matches!(&reply.opened, Opened::Result(result) if result.result_type().is_some())
                };
                if !spoken {
                    return Attempt::not(Method::Discover, reply, within);
                }
                None
            }
        };
        let control = control(&manner);
        self.common(&mut live, &manner, declared.as_ref()).await;
        let declared = declared.unwrap_or_default();
        for method in REMOVED {
            self.ask(&mut live, &manner, Probe::RemovedMethod, method).await;
        }
        self.lacking(&mut live, &version).await;
        self.headers(&mut live, &manner, control).await;
        if declared.contains_key("prompts") {
            self.names(&mut live, &version).await;
        }
        self.strangers(&mut live, &manner, control).await;
        if let Some(line) = features::listen(&manner, &live.id(), &declared) {
            self.tell(&live, Probe::Listen);
            let head = live.post(&line);
            live.exchange(Probe::Listen, head, Some(&line), Until::FirstMessage, self.of.answer).await;
        }
        self.keep(live).await;
        Attempt::Spoken
    }

    /// A session of the legacy era, if there is one. `modern`: there is one of the modern era.
    async fn legacy(&mut self, modern: bool) -> Attempt {
        let version = self.of.version.clone().unwrap_or_else(|| Version::newest(Era::Legacy));
        let manner = Manner::Legacy;
        let wire = self.wire.clone();
        let mut live = self.start(&wire, LEGACY_SESSION, &version, Channel::StreamableHttp);
        let within = self.of.limits.initialize;
        let reply = self.initialize(&mut live, Probe::Initialize, &version).await;
        let Opened::Result(result) = &reply.opened else {
            if modern {
                // How a modern server refuses is judged as well.
                live.run.name = "initialize refused".into();
                live.run.version = Version::newest(Era::Modern);
                self.keep(live).await;
            }
            return Attempt::not(Method::Initialize, reply, within);
        };
        live.agree(agreed(result, &version), reply.session.clone());
        let declared = capabilities(result);
        let ping = control(&manner);
        self.ask(&mut live, &manner, Probe::EarlyPing, ping).await;
        live.ask(Probe::Initialized, &probes::initialized()).await;
        self.tell(&live, Probe::OpenStream);
        let head = live.head(Verb::GET);
        live.exchange(Probe::OpenStream, head, None, Until::Open, self.of.answer).await;
        self.ask(&mut live, &manner, Probe::Ping, ping).await;
        self.common(&mut live, &manner, Some(&declared)).await;
        live.ask(Probe::StrayAnswer, &lines::stray_answer()).await;
        if Profile::of(&live.run.version).is_some_and(|profile| profile.batching) {
            self.tell(&live, Probe::Batch);
            let parts = [live.id(), live.id()].map(|id| probes::request(&manner, &id, ping));
            live.ask(Probe::Batch, &format!("[{}]", parts.join(","))).await;
            live.ask(Probe::UnknownNotification, &lines::told_twice()).await;
        }
        live.close_stream().await;
        if let Some(event) = live.resumable() {
            self.tell(&live, Probe::Resume);
            let head = live.head(Verb::GET).with(name::LAST_EVENT_ID, &event);
            live.exchange(Probe::Resume, head, None, Until::FirstMessage, MOMENT * 5).await;
        }
        self.sessions(&mut live, ping).await;
        self.strangers(&mut live, &manner, ping).await;
        self.end(&mut live, true).await;
        self.keep(live).await;
        Attempt::Spoken
    }

    /// Requests in other sessions, and of other versions.
    async fn sessions(&mut self, live: &mut Live<'_>, ping: &str) {
        type Change = fn(Head) -> Head;
        let manner = Manner::Legacy;
        let mut changes: Vec<(Probe, Change)> = Vec::new();
        if live.session.is_some() {
            changes.push((Probe::NoSession, |head| head.without(name::SESSION_ID)));
            changes.push((Probe::UnknownSession, |head| head.with(name::SESSION_ID, lines::NO_SESSION)));
        }
        if Profile::of(&live.run.version).is_some_and(|profile| profile.http_version_header) {
            changes.push((Probe::BadVersionHeader, |head| {
                head.with(name::PROTOCOL_VERSION, probes::NO_VERSION)
            }));
            changes.push((Probe::NoVersionHeader, |head| head.without(name::PROTOCOL_VERSION)));
        }
        for (probe, change) in changes {
            self.tell(live, probe);
            let line = probes::request(&manner, &live.id(), ping);
            let head = change(live.post(&line));
            self.send(live, probe, head, &line).await;
        }
    }

    /// Ends the session, if it is one. `look`: asks in it once more.
    pub(super) async fn end(&mut self, live: &mut Live<'_>, look: bool) {
        if live.session.is_none() {
            return;
        }
        self.tell(live, Probe::EndSession);
        let head = live.head(Verb::DELETE);
        let reply = live.exchange(Probe::EndSession, head, None, Until::Closed, self.of.answer).await;
        if look && reply.is_success() {
            let manner = Manner::Legacy;
            self.ask(live, &manner, Probe::EndedSession, control(&manner)).await;
        }
    }

    /// What is asked in both eras.
    async fn common(&mut self, live: &mut Live<'_>, manner: &Manner, declared: Option<&Members<Raw>>) {
        let control = control(manner);
        for id in probes::ODD_IDS {
            self.tell(live, Probe::Id);
            live.ask(Probe::Id, &probes::request(manner, id, control)).await;
        }
        self.ask(live, manner, Probe::UnknownMethod, probes::NO_METHOD).await;
        live.ask(Probe::UnknownNotification, &probes::unknown_notification()).await;
        self.ask(live, manner, Probe::Ping, control).await;
        if matches!(manner, Manner::Legacy) {
            // In the modern era, to cancel is to close the exchange.
            live.ask(Probe::UnknownCancel, &probes::unknown_cancel()).await;
            self.ask(live, manner, Probe::AfterCancel, control).await;
        }
        let (version, consent) = (live.run.version.clone(), self.of.consent.clone());
        let mut asking = Asking { runs: self, live, manner };
        let tools = features::look(&mut asking, manner, &version, declared, &consent).await;
        // With arguments of ours: never a tool that was named, whose arguments are those that were given.
        if consent.read_only
            && matches!(manner, Manner::Modern(_))
            && let Some(marked) = features::marked(&tools)
        {
            self.params(live, manner, &marked).await;
        }
    }

    /// A short session for each version of the legacy era that has had none, and for one that does not exist.
    async fn openers(&mut self) {
        let had = self.of.version.clone().unwrap_or_else(|| Version::newest(Era::Legacy));
        let others = Revisions::LEGACY.iter().filter(|version| **version != had).cloned();
        let wire = self.wire.clone();
        for (first, version) in std::iter::once(Version::parse(probes::NO_VERSION)).chain(others).enumerate()
        {
            let probe = if first == 0 { Probe::UnknownVersion } else { Probe::Initialize };
            let name = format!("initialize with {version}");
            let mut live = self.start(&wire, &name, &version, Channel::StreamableHttp);
            let reply = self.initialize(&mut live, probe, &version).await;
            // A version may also be refused; by which revision is not told.
            if let Opened::Result(result) = &reply.opened {
                live.agree(agreed(result, &version), reply.session.clone());
                live.ask(Probe::Initialized, &probes::initialized()).await;
                self.ask(&mut live, &Manner::Legacy, Probe::Ping, Method::Ping.as_str()).await;
                self.end(&mut live, false).await;
            }
            if version.era().is_none() && live.run.version.era().is_none() {
                live.run.version = Version::newest(Era::Legacy);
            }
            self.keep(live).await;
        }
    }

    /// Two clients that use the same ids at the same time.
    async fn at_once(&mut self, modern: bool) {
        let wire = self.wire.clone();
        let Some((mut one, manner)) = self.opened(&wire, "two clients, the first", modern).await else {
            return;
        };
        let Some((mut other, _)) = self.opened(&wire, "two clients, the second", modern).await else {
            return;
        };
        for _ in 0..TOGETHER {
            self.tell(&one, Probe::SameId);
            let id = one.id();
            // Both have counted to the same number.
            other.id();
            let known = probes::request(&manner, &id, control(&manner));
            let unknown = probes::request(&manner, &id, probes::NO_METHOD);
            tokio::join!(one.ask(Probe::SameId, &known), other.ask(Probe::SameId, &unknown));
        }
        for mut live in [one, other] {
            self.end(&mut live, false).await;
            self.keep(live).await;
        }
    }

    /// A session in which anything may be sent; `None` when none opens any more.
    pub(super) async fn opened<'w>(
        &mut self,
        wire: &'w Wire,
        name: &str,
        modern: bool,
    ) -> Option<(Live<'w>, Manner)> {
        if modern {
            let version = Version::newest(Era::Modern);
            let manner = Manner::Modern(version.clone());
            let live = self.start(wire, name, &version, Channel::StreamableHttp).in_manner(manner.clone());
            return Some((live, manner));
        }
        if self.sse {
            let (mut live, _) = self.http_sse_session(wire, name).await.ok()?;
            live.ask(Probe::Initialized, &probes::initialized()).await;
            return Some((live, Manner::Legacy));
        }
        let version = self.of.version.clone().unwrap_or_else(|| Version::newest(Era::Legacy));
        let mut live = self.start(wire, name, &version, Channel::StreamableHttp);
        let reply = self.initialize(&mut live, Probe::Initialize, &version).await;
        let Opened::Result(result) = &reply.opened else {
            if self.wire.is_gone() {
                self.keep(live).await;
            }
            return None;
        };
        live.agree(agreed(result, &version), reply.session.clone());
        live.ask(Probe::Initialized, &probes::initialized()).await;
        Some((live, Manner::Legacy))
    }

    /// Bodies that cannot be read.
    async fn bad_lines(&mut self, modern: bool) {
        let wire = self.wire.clone();
        let Some((mut live, manner)) = self.opened(&wire, "lines that cannot be read", modern).await else {
            return;
        };
        self.unreadable(&mut live, &manner).await;
        self.end(&mut live, false).await;
        self.keep(live).await;
    }

    async fn unreadable(&mut self, live: &mut Live<'_>, manner: &Manner) {
        let bad = probes::BAD_JSON.iter().map(|line| (Probe::BadJson, *line));
        let invalid = probes::INVALID_REQUESTS.iter().map(|line| (Probe::InvalidRequest, *line));
        for (probe, line) in bad.chain(invalid) {
            self.tell(live, probe);
            live.ask(probe, line).await;
            self.ask(live, manner, Probe::AfterBadLine, control(manner)).await;
        }
    }

    /// A session over HTTP+SSE up to the answer to `initialize`, and that answer.
    async fn http_sse_session<'w>(
        &mut self,
        wire: &'w Wire,
        name: &str,
    ) -> Result<(Live<'w>, Payload), Box<Refusal>> {
        let version = self.of.version.clone().unwrap_or_else(|| Revisions::FIRST.first().clone());
        let mut live = self.start(wire, name, &version, Channel::HttpSse);
        self.tell(&live, Probe::OpenStream);
        let head = live.head(Verb::GET);
        let within = self.of.limits.initialize;
        let reply = live.exchange(Probe::OpenStream, head, None, Until::Open, within).await;
        if reply.is_stream()
            && let Err(problem) = live.wait_for_endpoint().await
        {
            return Err(
                Refusal { problem: Some(problem), ..Refusal::of(Method::Initialize, reply, within) }.into()
            );
        }
        if !reply.is_stream() {
            return Err(Refusal::of(Method::Initialize, reply, within).into());
        }
        let reply = self.initialize(&mut live, Probe::Initialize, &version).await;
        let Opened::Result(result) = &reply.opened else {
            return Err(Refusal::of(Method::Initialize, reply, within).into());
        };
        // Neither a session nor a version stands in headers.
        live.run.version = agreed(result, &version);
        let result = result.clone();
        Ok((live, result))
    }

    /// A session over HTTP+SSE, if there is one.
    async fn http_sse(&mut self) -> Attempt {
        let wire = self.wire.clone();
        let (mut live, result) = match self.http_sse_session(&wire, "HTTP+SSE session").await {
            Ok(opened) => opened,
            Err(refusal) => return Attempt::Not(refusal),
        };
        let manner = Manner::Legacy;
        let declared = capabilities(&result);
        let ping = control(&manner);
        self.ask(&mut live, &manner, Probe::EarlyPing, ping).await;
        live.ask(Probe::Initialized, &probes::initialized()).await;
        self.ask(&mut live, &manner, Probe::Ping, ping).await;
        self.common(&mut live, &manner, Some(&declared)).await;
        self.unreadable(&mut live, &manner).await;
        for origin in lines::FOREIGN_ORIGINS {
            self.tell(&live, Probe::ForeignOrigin);
            let head = live.head(Verb::GET).with(name::ORIGIN, origin);
            live.exchange(Probe::ForeignOrigin, head, None, Until::Closed, self.of.answer).await;
        }
        live.close_stream().await;
        // The server is told by its system, and has a moment to understand.
        tokio::time::sleep(MOMENT * 2).await;
        self.tell(&live, Probe::AfterStream);
        let line = probes::unknown_cancel();
        let head = live.post(&line);
        // Some never answer it.
        let within = self.of.answer.min(GONE);
        live.exchange(Probe::AfterStream, head, Some(&line), Until::Ended, within).await;
        self.keep(live).await;
        Attempt::Spoken
    }

    pub(super) fn start<'w>(
        &mut self,
        wire: &'w Wire,
        name: &str,
        version: &Version,
        channel: Channel,
    ) -> Live<'w> {
        self.number += 1;
        Live::new(wire, name, version.clone(), channel, (self.of.answer, self.of.limits.message))
    }

    pub(super) async fn initialize(&mut self, live: &mut Live<'_>, probe: Probe, version: &Version) -> Reply {
        self.tell(live, probe);
        let line = probes::initialize(&live.id(), version.as_str());
        let head = live.post(&line);
        live.exchange(probe, head, Some(&line), Until::Ended, self.of.limits.initialize).await
    }

    async fn open(
        &mut self,
        live: &mut Live<'_>,
        probe: Probe,
        manner: &Manner,
        method: &str,
        within: Duration,
    ) -> Reply {
        self.tell(live, probe);
        let line = probes::request(manner, &live.id(), method);
        let head = live.post(&line);
        live.exchange(probe, head, Some(&line), Until::Ended, within).await
    }

    pub(super) async fn ask(&mut self, live: &mut Live<'_>, manner: &Manner, probe: Probe, method: &str) {
        self.open(live, probe, manner, method, self.of.answer).await;
    }

    pub(super) async fn send(&mut self, live: &mut Live<'_>, probe: Probe, head: Head, line: &str) {
        live.exchange(probe, head, Some(line), Until::Ended, self.of.answer).await;
    }

    async fn keep(&mut self, live: Live<'_>) {
        let run = live.close().await;
        // Of a server that had ended, nothing was asked.
        if run.events.iter().any(|event| matches!(event.what, What::Requested(..))) {
            self.trace.runs.push(run);
        }
    }
}
