//! The runs of one server, over any transport: how sessions are opened, and what every session sends.
//!
//! [`lines`](super::lines) and [`http`](super::http) say which sessions there are over their transport, and what is
//! sent over it alone.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin_proto::types::Members;
use mcpjoin_proto::{Era, Method, Payload, Profile, Raw, Version};
use mcpjoin_rules::{Channel, Probe, Revisions, Run, Trace, What};

use super::features;
use super::probes;
use super::{Look, ValidateError};
use crate::engine::message::{self, Manner, version_of};
use crate::engine::{Outcome, ProgressFn, Reporter, RunState, Session};

/// Methods that the modern era does not have any more.
const REMOVED_METHODS: [&str; 2] = ["ping", "logging/setLevel"];

/// How sessions with a server are started.
pub(super) trait Transport {
    type Session: Session;

    /// Starts the server, or connects to it.
    async fn start(&mut self, state: RunState, look: &Look) -> Result<Self::Session, ValidateError>;

    /// What is awaited before the first message of a session, once.
    async fn listen_first(&mut self, session: &mut Self::Session);

    /// Ends the session before its connection is closed, where that is a request of its own.
    async fn end(session: &mut Self::Session);

    async fn close(session: Self::Session) -> Run;
}

/// Every run of one server.
pub(super) struct Runs<T> {
    pub(super) look: Look,
    pub(super) transport: T,
    pub(super) trace: Trace,
    progress: Arc<Mutex<ProgressFn>>,
    number: usize,
}

/// A message of a session. Tables of steps say what is sent in which order.
pub(super) enum Step {
    /// A request that the server must respond to.
    Control(Probe),
    /// A request of this method, without parameters.
    Method(Probe, &'static str),
    Notify(Probe, fn() -> String),
}

/// The messages of each session before those about its features. A request after a notification shows that the server
/// goes on.
const BASICS: [Step; 3] = [
    Step::Method(Probe::UnknownMethod, probes::NO_METHOD),
    Step::Notify(Probe::UnknownNotification, probes::unknown_notification),
    Step::Control(Probe::Ping),
];

/// Further ones where a notification cancels a request. In the modern era over HTTP, closing the exchange does.
const CANCELLATION: [Step; 2] =
    [Step::Notify(Probe::UnknownCancel, probes::unknown_cancel), Step::Control(Probe::AfterCancel)];

impl<T: Transport> Runs<T> {
    pub(super) fn new(look: Look, progress: ProgressFn, transport: T, trace: Trace) -> Self {
        let trace = Trace { respond_within: look.answer, ..trace };
        Self { look, transport, trace, progress: Arc::new(Mutex::new(progress)), number: 0 }
    }

    /// The version of the legacy era that is looked at closely.
    pub(super) fn legacy_version(&self) -> Version {
        self.look.version.clone().unwrap_or_else(|| Version::newest(Era::Legacy))
    }

    /// The state of the next run.
    pub(super) fn next_run(
        &mut self,
        name: &str,
        version: &Version,
        manner: Manner,
        channel: Channel,
    ) -> RunState {
        self.number += 1;
        let reporter = Reporter { number: self.number, progress: Arc::clone(&self.progress) };
        RunState::new(Run::new(name, version.clone()).over(channel), manner, self.look.answer, reporter)
    }

    pub(super) async fn start(
        &mut self,
        name: &str,
        version: &Version,
        manner: Manner,
        channel: Channel,
    ) -> Result<T::Session, ValidateError> {
        let state = self.next_run(name, version, manner, channel);
        self.transport.start(state, &self.look).await
    }

    /// Sends `server/discover`. Returns the declared capabilities, where they are known.
    ///
    /// # Errors
    /// The outcome, when the server does not speak the modern era.
    pub(super) async fn discover(
        &mut self,
        session: &mut T::Session,
        within: Duration,
        may_go_on: impl FnOnce(&T::Session) -> bool,
    ) -> Result<Option<Members<Raw>>, Outcome> {
        let outcome = session.ask_within(Probe::Discover, Method::Discover.as_str(), within).await;
        match &outcome {
            Outcome::Result(result) if result.raw().member("supportedVersions").is_some() => {
                return Ok(Some(capabilities(result)));
            }
            _ => {}
        }
        // Where only this era was asked for, the server may speak it and lack this method, which is checked. A legacy
        // server may take a list for a request of its own, and its result lacks what each modern one has.
        let may_be_modern = !self.look.legacy && !outcome.is_unsupported_version() && may_go_on(session);
        if may_be_modern
            && let Outcome::Result(result) = session.ask(Probe::List, Method::ListTools.as_str()).await
            && result.result_type().is_some()
        {
            return Ok(None);
        }
        Err(outcome)
    }

    /// A short session for each version of the legacy era that has had none, and for one that does not exist.
    pub(super) async fn openers(&mut self, channel: Channel) -> Result<(), ValidateError> {
        let had = self.legacy_version();
        let others = Revisions::LEGACY.iter().filter(|version| **version != had).cloned();
        let unknown = Version::parse(probes::NO_VERSION);
        for (index, version) in std::iter::once(unknown).chain(others).enumerate() {
            let name = format!("initialize with {version}");
            let mut session = self.start(&name, &version, Manner::Legacy, channel).await?;
            let probe = if index == 0 { Probe::UnknownVersion } else { Probe::Initialize };
            if index == 0 {
                self.transport.listen_first(&mut session).await;
            }
            let within = self.look.limits.initialize;
            // A version may also be refused. No revision says how.
            if let Outcome::Result(result) = session.initialize(probe, &version, within).await {
                session.agree(agreed(&result, &version));
                session.initialized().await;
                session.ask_control(Probe::Ping).await;
                T::end(&mut session).await;
            }
            let run = &mut session.state_mut().run;
            if version.era().is_none() && run.version.era().is_none() {
                run.version = Version::newest(Era::Legacy);
            }
            self.keep(session).await;
        }
        Ok(())
    }

    /// Opens a session of the legacy era. Returns whether it is open.
    pub(super) async fn open_legacy(&mut self, session: &mut T::Session) -> bool {
        let version = session.state().run.version.clone();
        let within = self.look.limits.initialize;
        let Outcome::Result(result) = session.initialize(Probe::Initialize, &version, within).await else {
            return false;
        };
        session.agree(agreed(&result, &version));
        session.initialized().await;
        true
    }

    /// Closes a session and records its run.
    pub(super) async fn keep(&mut self, mut session: T::Session) {
        self.trace.calls.append(&mut session.state_mut().notes);
        let run = T::close(session).await;
        // A run over HTTP in which nothing was sent, because the server had ended, says nothing.
        let has_sent = || run.events.iter().any(|event| matches!(event.what, What::Requested(..)));
        if run.channel == Channel::Stdio || has_sent() {
            self.trace.runs.push(run);
        }
    }

    pub(super) async fn keep_stress(&mut self, mut session: T::Session) {
        T::end(&mut session).await;
        self.trace.stress.push(T::close(session).await);
    }

    /// What is sent in the sessions of both eras. Returns the tools of the server.
    pub(super) async fn common(
        &mut self,
        session: &mut T::Session,
        declared: Option<&Members<Raw>>,
    ) -> Vec<Raw> {
        odd_ids(session).await;
        steps(session, &BASICS).await;
        if session.has_cancel() {
            steps(session, &CANCELLATION).await;
        }
        if session.is_over() {
            return Vec::new();
        }
        let version = session.state().run.version.clone();
        features::look(session, &version, declared, &self.look.consent).await
    }
}

/// Requests with ids that servers lose.
pub(super) async fn odd_ids(session: &mut impl Session) {
    let (manner, control) = (session.state().manner.clone(), session.control());
    let lines = probes::ODD_IDS.map(|id| message::request(&manner, id, control));
    session.requests(Probe::Id, lines.into()).await;
}

/// Sends the messages of a table, until the session is over.
pub(super) async fn steps(session: &mut impl Session, steps: &[Step]) {
    for step in steps {
        if session.is_over() {
            return;
        }
        match *step {
            Step::Control(probe) => {
                session.ask_control(probe).await;
            }
            Step::Method(probe, method) => {
                session.ask(probe, method).await;
            }
            Step::Notify(probe, line) => session.notify(probe, &line()).await,
        }
    }
}

/// Requests of methods that the modern era does not have.
pub(super) async fn removed_methods(session: &mut impl Session) {
    for method in REMOVED_METHODS {
        session.ask(Probe::RemovedMethod, method).await;
    }
}

/// Requests of the modern era whose `_meta` lacks something, or names another version.
pub(super) async fn incomplete_meta(session: &mut impl Session, version: &Version) {
    let name = version.as_str();
    type Write = fn(&str, &str) -> String;
    let lines: [(Probe, Write); 5] = [
        (Probe::NoCapabilities, |id, name| probes::discover(id, Some(name), false)),
        (Probe::NoVersion, |id, _| probes::discover(id, None, true)),
        (Probe::UnsupportedVersion, |id, _| probes::discover(id, Some(probes::NO_VERSION), true)),
        (Probe::NoClientInfo, probes::discover_unnamed),
        (Probe::NoMeta, |id, _| probes::discover_bare(id)),
    ];
    let within = session.state().response_timeout;
    for (probe, line) in lines {
        let line = line(&session.next_id(), name);
        session.ask_line(probe, line, within).await;
    }
}

/// Two requests in an array; `None` where the version of the session has no arrays.
pub(super) fn batch(session: &mut impl Session) -> Option<String> {
    Profile::of(&session.state().run.version).filter(|profile| profile.batching)?;
    let control = session.control();
    let parts = [session.line(control), session.line(control)];
    Some(format!("[{}]", parts.join(",")))
}

/// Subscribes to one kind of changes, if the server declares one. Returns whether it does.
pub(super) async fn subscription(session: &mut impl Session, declared: &Members<Raw>) -> bool {
    let manner = session.state().manner.clone();
    let line = features::listen(&manner, &session.next_id(), declared);
    let declares = line.is_some();
    if let Some(line) = line {
        session.subscribe(line).await;
    }
    declares
}

/// A run of a server that refuses `initialize` because it is of the modern era: how it refuses is checked as well.
pub(super) fn refused_initialize(session: &mut impl Session) {
    let run = &mut session.state_mut().run;
    run.name = "initialize refused".into();
    run.version = Version::newest(Era::Modern);
}

pub(super) fn capabilities(result: &Payload) -> Members<Raw> {
    result.raw().member("capabilities").and_then(|declared| declared.decode().ok()).unwrap_or_default()
}

/// The version in the result of `initialize`, if it is one; otherwise the version that was asked for.
pub(super) fn agreed(result: &Payload, asked: &Version) -> Version {
    version_of(result.raw(), "protocolVersion")
        .filter(|version| version.era().is_some())
        .unwrap_or_else(|| asked.clone())
}
