//! Which runs there are, and what is sent in each.

use std::time::Duration;

use mcpjoin_proto::session::{LinkEnd, OpeningFailure};
use mcpjoin_proto::types::Members;
use mcpjoin_proto::{Era, ErrorObject, Kind, Method, Payload, Profile, Raw, Version, code};
use mcpjoin_rules::{CallNote, Probe, Revisions, Run, Trace};
use tokio::time::timeout;

use super::features::{self, Question};
use super::live::{Live, MOMENT, Opened, Over};
use super::probes::{self, Manner};
use super::source::Source;
use super::{Look, Progress, ValidateError};

/// Methods that the modern era has no longer.
pub(super) const REMOVED: [&str; 2] = ["ping", "logging/setLevel"];
/// A server that says something by itself has this long beyond its usual start.
const SILENCE: Duration = Duration::from_millis(200);
/// And at most so long in all.
const LONGEST_SILENCE: Duration = Duration::from_secs(3);
/// One with which no session was opened has so long to end, at most.
const LAST: Duration = Duration::from_secs(10);

/// Every run of one server.
pub(super) struct Runs {
    of: Look,
    source: Source,
    pub(super) trace: Trace,
    number: usize,
    /// How long it took from the start to the first answer.
    start: Duration,
}

/// What became of an attempt to open a session.
enum Attempt {
    Spoken,
    Not(OpeningFailure),
}

impl Runs {
    pub(super) fn new(of: Look, source: Source) -> Self {
        let trace = Trace { answer_within: of.answer, ..Trace::default() };
        Self { of, source, trace, number: 0, start: Duration::ZERO }
    }

    pub(super) async fn all(mut self) -> Result<Trace, ValidateError> {
        let limits = self.of.limits.clone();
        let (mut modern, mut failure) = (false, None);
        if self.of.modern {
            let within = if self.of.legacy { limits.probe } else { limits.initialize };
            match self.modern(within).await? {
                Attempt::Spoken => modern = true,
                Attempt::Not(why) => failure = Some(why),
            }
        }
        let mut legacy = false;
        if self.of.legacy {
            match self.legacy(modern).await? {
                Attempt::Spoken => {
                    legacy = true;
                    // One that takes this long to start may not have heard the probe.
                    let slow = matches!(failure, Some(OpeningFailure::TimedOut { .. }))
                        && self.start * 2 > limits.probe;
                    let within = limits.probe + self.start * 2;
                    if slow && let Attempt::Spoken = self.modern(within).await? {
                        modern = true;
                    }
                }
                Attempt::Not(why) => {
                    // A modern server that was slow to start has not answered the probe in time.
                    let slow = matches!(failure, Some(OpeningFailure::TimedOut { .. }))
                        && matches!(why, OpeningFailure::Refused { .. });
                    failure = Some(both(failure, why));
                    if slow && let Attempt::Spoken = self.modern(limits.initialize).await? {
                        modern = true;
                    }
                }
            }
        }
        if let (false, false, Some(failure)) = (modern, legacy, failure) {
            return Err(ValidateError::NoSession(failure));
        }
        if legacy {
            self.openers().await?;
        }
        self.bad_lines(modern).await?;
        self.streams(modern).await?;
        if self.of.resilience {
            self.resilience(modern).await?;
        }
        Ok(self.trace)
    }

    pub(super) async fn start(&mut self, name: &str, version: &Version) -> Result<Live, ValidateError> {
        self.number += 1;
        Live::start(&mut self.source, name, version.clone(), &self.of.limits, self.of.answer).await
    }

    pub(super) fn tell(&mut self, live: &Live, probe: Probe) {
        (self.of.progress)(Progress { number: self.number, run: &live.run.name, probe });
    }

    /// A session of the modern era, if there is one.
    async fn modern(&mut self, within: Duration) -> Result<Attempt, ValidateError> {
        let version = Version::newest(Era::Modern);
        let manner = Manner::Modern(version.clone());
        let mut live = self.start("modern session", &version).await?;
        self.tell(&live, Probe::Discover);
        let id = live.id();
        let line = probes::request(&manner, &id, Method::Discover.as_str());
        let declared = match live.open(Probe::Discover, id, line.clone(), within).await {
            Opened::Result(result) if member(result.raw(), "supportedVersions").is_some() => {
                Some(capabilities(&result))
            }
            outcome => {
                // Where this era alone is asked for, a server may be of it and lack this method: that is judged.
                let spoken = !self.of.legacy
                    && !matches!(&outcome, Opened::Error(error) if error.code == code::UNSUPPORTED_PROTOCOL_VERSION)
                    && self.lists_tools(&mut live, &manner).await;
                if !spoken {
                    return Ok(Attempt::Not(given_up(live, &line, &outcome, within).await));
                }
                None
            }
        };
        self.start = self.start.max(live.elapsed());
        self.common(&mut live, &manner, declared.as_ref()).await;
        if let Some(line) =
            declared.as_ref().and_then(|declared| features::listen(&manner, &live.id(), declared))
        {
            self.tell(&live, Probe::Listen);
            live.listen(&line).await;
            self.ask(&mut live, &manner, Probe::Ping, control(&manner)).await;
        }
        for method in REMOVED {
            self.ask(&mut live, &manner, Probe::RemovedMethod, method).await;
        }
        let name = version.as_str();
        for (probe, version, capabilities) in [
            (Probe::NoCapabilities, Some(name), false),
            (Probe::NoVersion, None, true),
            (Probe::UnsupportedVersion, Some(probes::NO_VERSION), true),
        ] {
            self.tell(&live, probe);
            let id = live.id();
            let line = probes::discover(&id, version, capabilities);
            live.ask_one(probe, id, line).await;
        }
        self.tell(&live, Probe::NoClientInfo);
        let id = live.id();
        let line = probes::discover_unnamed(&id, name);
        live.ask_one(Probe::NoClientInfo, id, line).await;
        self.tell(&live, Probe::NoMeta);
        let id = live.id();
        let line = probes::discover_bare(&id);
        live.ask_one(Probe::NoMeta, id, line).await;
        self.keep(live).await;
        Ok(Attempt::Spoken)
    }

    /// Whether a request of the modern era is answered as that era does. A legacy server may take it for one of its own,
    /// and its result lacks what each modern one has.
    async fn lists_tools(&mut self, live: &mut Live, manner: &Manner) -> bool {
        let id = live.id();
        let line = probes::request(manner, &id, Method::ListTools.as_str());
        let opened = live.open(Probe::List, id, line, self.of.answer).await;
        matches!(opened, Opened::Result(result) if result.result_type().is_some())
    }

    /// A session of the legacy era, if there is one. `modern`: there is one of the modern era.
    async fn legacy(&mut self, modern: bool) -> Result<Attempt, ValidateError> {
        let version = self.of.version.clone().unwrap_or_else(|| Version::newest(Era::Legacy));
        let manner = Manner::Legacy;
        let mut live = self.start("legacy session", &version).await?;
        self.tell(&live, Probe::Initialize);
        let id = live.id();
        let line = probes::initialize(&id, version.as_str());
        let within = if modern { self.of.answer.max(self.start) } else { self.of.limits.initialize };
        let result = match live.open(Probe::Initialize, id, line.clone(), within).await {
            Opened::Result(result) => result,
            outcome if modern => {
                // How a modern server refuses is judged as well.
                let failure = failure(&live, &line, &outcome, within);
                live.run.name = "initialize refused".into();
                live.run.version = Version::newest(Era::Modern);
                self.keep(live).await;
                return Ok(Attempt::Not(failure));
            }
            outcome => return Ok(Attempt::Not(given_up(live, &line, &outcome, within).await)),
        };
        self.start = self.start.max(live.elapsed());
        live.run.version = agreed(&result, &version);
        let declared = capabilities(&result);
        self.ask(&mut live, &manner, Probe::EarlyPing, Method::Ping.as_str()).await;
        live.send(Probe::Initialized, &probes::initialized());
        self.ask(&mut live, &manner, Probe::Ping, Method::Ping.as_str()).await;
        self.common(&mut live, &manner, Some(&declared)).await;
        if Profile::of(&live.run.version).is_some_and(|profile| profile.batching) {
            self.tell(&live, Probe::Batch);
            let ids = [live.id(), live.id()];
            let parts: Vec<String> =
                ids.iter().map(|id| probes::request(&manner, id, Method::Ping.as_str())).collect();
            live.ask_batch(Probe::Batch, &ids, &format!("[{}]", parts.join(","))).await;
        }
        self.keep(live).await;
        Ok(Attempt::Spoken)
    }

    /// What is asked in both eras.
    async fn common(&mut self, live: &mut Live, manner: &Manner, declared: Option<&Members<Raw>>) {
        let control = control(manner);
        self.tell(live, Probe::Id);
        let odd: Vec<(String, String)> = probes::ODD_IDS
            .iter()
            .map(|id| ((*id).to_owned(), probes::request(manner, id, control)))
            .collect();
        live.ask_all(Probe::Id, &odd).await;
        self.ask(live, manner, Probe::UnknownMethod, probes::NO_METHOD).await;
        for (probe, line, after) in [
            (Probe::UnknownNotification, probes::unknown_notification(), Probe::Ping),
            (Probe::UnknownCancel, probes::unknown_cancel(), Probe::AfterCancel),
        ] {
            if live.over().is_some() {
                return;
            }
            live.send(probe, &line);
            self.ask(live, manner, after, control).await;
        }
        let (version, consent) = (live.run.version.clone(), self.of.consent.clone());
        let mut asking = Asking { runs: self, live, manner };
        features::look(&mut asking, manner, &version, declared, &consent).await;
        self.tell(live, Probe::TwoAtOnce);
        let two = [live.id(), live.id()].map(|id| (id.clone(), probes::request(manner, &id, control)));
        live.ask_together(Probe::TwoAtOnce, &two).await;
        self.tell(live, Probe::InPieces);
        let id = live.id();
        let line = probes::request(manner, &id, control);
        live.ask_in_pieces(Probe::InPieces, &id, &line).await;
    }

    async fn ask(&mut self, live: &mut Live, manner: &Manner, probe: Probe, method: &str) {
        self.tell(live, probe);
        let id = live.id();
        let line = probes::request(manner, &id, method);
        live.ask_one(probe, id, line).await;
    }

    /// A short session for each version of the legacy era that has had none, and for one that does not exist.
    async fn openers(&mut self) -> Result<(), ValidateError> {
        let had = self.of.version.clone().unwrap_or_else(|| Version::newest(Era::Legacy));
        let others = Revisions::LEGACY.iter().filter(|version| **version != had).cloned();
        let unknown = Version::parse(probes::NO_VERSION);
        for (first, version) in std::iter::once(unknown).chain(others).enumerate() {
            let probe = if first == 0 { Probe::UnknownVersion } else { Probe::Initialize };
            let mut live = self.start(&format!("initialize with {version}"), &version).await?;
            if first == 0 {
                // Once, we let the server speak first, and it should not.
                live.look((self.start + SILENCE).min(LONGEST_SILENCE)).await;
            }
            self.tell(&live, probe);
            let id = live.id();
            let line = probes::initialize(&id, version.as_str());
            let within = self.of.limits.initialize;
            // A version may also be refused; by which revision is not told.
            if let Opened::Result(result) = live.open(probe, id, line, within).await {
                live.run.version = agreed(&result, &version);
                live.send(Probe::Initialized, &probes::initialized());
                self.ask(&mut live, &Manner::Legacy, Probe::Ping, Method::Ping.as_str()).await;
            }
            if version.era().is_none() && live.run.version.era().is_none() {
                live.run.version = Version::newest(Era::Legacy);
            }
            self.keep(live).await;
        }
        Ok(())
    }

    /// Lines that cannot be read. A server that does not survive one is started afresh for the next.
    async fn bad_lines(&mut self, modern: bool) -> Result<(), ValidateError> {
        let mut live: Option<(Live, Manner)> = None;
        let bad = probes::BAD_JSON.iter().map(|line| (Probe::BadJson, *line));
        for (probe, line) in
            bad.chain(probes::INVALID_REQUESTS.iter().map(|line| (Probe::InvalidRequest, *line)))
        {
            let (mut current, manner) = match live.take() {
                Some(current) => current,
                None => match self.opened(modern).await? {
                    Some(current) => current,
                    None => return Ok(()),
                },
            };
            self.tell(&current, probe);
            current.send(probe, line);
            self.ask(&mut current, &manner, Probe::AfterBadLine, control(&manner)).await;
            current.look(MOMENT).await;
            if current.over().is_some() || current.has_missed() {
                self.keep(current).await;
            } else {
                live = Some((current, manner));
            }
        }
        if let Some((live, _)) = live {
            self.keep(live).await;
        }
        Ok(())
    }

    /// A session in which each request has a stream of its own, where the transport has that.
    async fn streams(&mut self, modern: bool) -> Result<(), ValidateError> {
        let Some(link) = self.source.messages().await? else { return Ok(()) };
        self.number += 1;
        let version = if modern { Version::newest(Era::Modern) } else { self.legacy_version() };
        let live = Live::on(link, "a stream for each request", version, &self.of.limits, self.of.answer);
        let Some((mut live, manner)) = self.open(live, modern).await else { return Ok(()) };
        let control = control(&manner);
        self.tell(&live, Probe::Id);
        let odd = probes::ODD_IDS.map(|id| (id.to_owned(), probes::request(&manner, id, control)));
        live.ask_all(Probe::Id, &odd).await;
        self.ask(&mut live, &manner, Probe::UnknownMethod, probes::NO_METHOD).await;
        live.send(Probe::UnknownNotification, &probes::unknown_notification());
        self.ask(&mut live, &manner, Probe::Ping, control).await;
        self.keep(live).await;
        Ok(())
    }

    /// The version of the legacy era that is looked at closely.
    fn legacy_version(&self) -> Version {
        self.of.version.clone().unwrap_or_else(|| Version::newest(Era::Legacy))
    }

    /// A session in which anything may be sent; `None` when none opens any more.
    pub(super) async fn opened(&mut self, modern: bool) -> Result<Option<(Live, Manner)>, ValidateError> {
        let version = if modern { Version::newest(Era::Modern) } else { self.legacy_version() };
        let live = self.start("lines that cannot be read", &version).await?;
        Ok(self.open(live, modern).await)
    }

    /// Opens a session.
    async fn open(&mut self, mut live: Live, modern: bool) -> Option<(Live, Manner)> {
        let (version, id) = (live.run.version.clone(), live.id());
        if modern {
            let manner = Manner::Modern(version);
            let line = probes::request(&manner, &id, Method::Discover.as_str());
            let opened = live.open(Probe::Discover, id, line, self.of.limits.initialize).await;
            return matches!(opened, Opened::Result(_)).then_some((live, manner));
        }
        let line = probes::initialize(&id, version.as_str());
        let Opened::Result(result) = live.open(Probe::Initialize, id, line, self.of.limits.initialize).await
        else {
            return None;
        };
        live.run.version = agreed(&result, &version);
        live.send(Probe::Initialized, &probes::initialized());
        Some((live, Manner::Legacy))
    }

    async fn keep(&mut self, live: Live) {
        let run: Run = live.close().await;
        self.trace.runs.push(run);
    }
}

/// A run in which something can be asked.
struct Asking<'r> {
    runs: &'r mut Runs,
    live: &'r mut Live,
    manner: &'r Manner,
}

impl features::Ask for Asking<'_> {
    async fn ask(&mut self, question: Question<'_>) -> features::Reply {
        self.runs.tell(self.live, question.probe);
        let id = self.live.id();
        let line = question.line(self.manner, &id);
        self.live.ask_one(question.probe, id.clone(), line).await;
        self.live.reply(&id)
    }

    async fn tell(&mut self, probe: Probe, line: String) {
        if self.live.over().is_none() {
            self.live.send(probe, &line);
        }
    }

    async fn cancelled(&mut self, question: Question<'_>) {
        if self.live.over().is_some() {
            return;
        }
        self.runs.tell(self.live, question.probe);
        let id = self.live.id();
        self.live.send(question.probe, &question.line(self.manner, &id));
        // The server has begun.
        self.live.look(MOMENT / 2).await;
        self.live.send(Probe::Cancel, &probes::cancel(Some(&id)));
        let control = Question::new(Probe::AfterCancel, Method::parse(control(self.manner)));
        self.ask(control).await;
        self.live.look(MOMENT).await;
    }

    async fn elsewhere(&mut self) {
        // A process has one.
    }

    fn note(&mut self, note: CallNote) {
        self.runs.trace.calls.push(note);
    }

    fn last_id(&self) -> String {
        self.live.last_id()
    }

    fn cancels(&self) -> bool {
        true
    }
}

/// A request that every server of an era answers.
pub(super) fn control(manner: &Manner) -> &'static str {
    match manner {
        Manner::Legacy => "ping",
        Manner::Modern(_) => "server/discover",
    }
}

pub(super) fn member(raw: &Raw, name: &str) -> Option<Raw> {
    if raw.kind() != Kind::Object {
        return None;
    }
    raw.decode::<Members<Raw>>().ok()?.get(name).cloned()
}

pub(super) fn capabilities(result: &Payload) -> Members<Raw> {
    member(result.raw(), "capabilities").and_then(|declared| declared.decode().ok()).unwrap_or_default()
}

/// The version that was agreed on, if it is one.
pub(super) fn agreed(result: &Payload, asked: &Version) -> Version {
    let given = member(result.raw(), "protocolVersion");
    let given = given.and_then(|version| version.to_string_value().map(|name| Version::parse(&name)));
    given.filter(|version| version.era().is_some()).unwrap_or_else(|| asked.clone())
}

/// Why a session was not opened; the run is ended and not judged.
async fn given_up(live: Live, line: &str, outcome: &Opened, within: Duration) -> OpeningFailure {
    let failure = failure(&live, line, outcome, within);
    // Dropped, it is ended at once: what has not spoken in its time has no more of it than that to end.
    let _ = timeout(within.min(LAST), live.close()).await;
    failure
}

/// What is told when neither era was spoken: how `initialize` went, unless the probe has said it all.
fn both(probe: Option<OpeningFailure>, initialize: OpeningFailure) -> OpeningFailure {
    match (probe, initialize) {
        (Some(known @ OpeningFailure::NoCommonVersion { .. }), _) => known,
        (
            Some(OpeningFailure::Ended { last: first, garbage: earlier, .. }),
            OpeningFailure::Ended { last, garbage, .. },
        ) => OpeningFailure::Ended { last, probe: Some(first), garbage: garbage.or(earlier) },
        (_, initialize) => initialize,
    }
}

fn failure(live: &Live, line: &str, outcome: &Opened, within: Duration) -> OpeningFailure {
    let method = Live::request_of(line).map_or(Method::Initialize, |request| request.method);
    let garbage = live.garbage();
    match (outcome, live.over()) {
        (
            Opened::Error(ErrorObject { code: code::UNSUPPORTED_PROTOCOL_VERSION, data: Some(data), .. }),
            _,
        ) => {
            let supported = member(data, "supported").and_then(|list| list.decode().ok());
            OpeningFailure::NoCommonVersion { supported: supported.unwrap_or_default() }
        }
        (Opened::Error(error), _) => OpeningFailure::Refused { method, error: error.clone() },
        (Opened::Result(_), _) => OpeningFailure::BadReply {
            method,
            problem: "it is not what this request is answered with".into(),
        },
        (Opened::Broken(error), _) => OpeningFailure::BadReply { method, problem: error.to_string() },
        (Opened::Echo, _) => OpeningFailure::Echo { method },
        (Opened::Other(given), _) => {
            let asked = Live::request_of(line).map_or_else(|| given.clone(), |request| request.id);
            OpeningFailure::UnknownReply { method, asked, given: given.clone() }
        }
        (Opened::Nothing, Some(Over::Ended(end))) => {
            OpeningFailure::Ended { last: LinkEnd::clone(end), probe: None, garbage }
        }
        (Opened::Nothing, Some(Over::Flood)) if garbage.is_none() => OpeningFailure::BadReply {
            method,
            problem: format!("{} messages came, and none of them is the answer", live.lines()),
        },
        (Opened::Nothing, Some(Over::Flood)) => {
            OpeningFailure::Garbage { lines: live.bad_lines(), first: garbage.unwrap_or_default() }
        }
        (Opened::Nothing, _) => OpeningFailure::TimedOut { method, after: within, garbage },
    }
}
