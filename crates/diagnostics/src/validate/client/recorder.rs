//! Records the messages of clients, run by run: which run a message belongs to, and by which revision the run is
//! checked.

use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Era, Message, Method, Raw, Request, RequestId, Version};
use mcpjoin_rules::HttpRequest;
use mcpjoin_rules::{Channel, Line, Probe, Revisions, Run, Trace, What};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::probes::{self, Prepared};
use crate::engine::Traffic;
use crate::engine::message::version_of;

/// How often a client is asked for its roots again, and the time between two such requests.
const MAX_ROOTS_REQUESTS: usize = 20;
const ROOTS_INTERVAL: Duration = Duration::from_secs(5);

pub(super) struct Recorder {
    runs: Vec<RecordedRun>,
    answer: Duration,
    started: Instant,
    traffic: Traffic,
    full: Arc<Notify>,
}

/// A run, and the state of its session.
struct RecordedRun {
    run: Run,
    /// The request that opens the session, until its response.
    opening: Option<RequestId>,
    /// Whether `initialize` was sent.
    is_opened: bool,
    /// Whether `notifications/initialized` was sent.
    is_ready: bool,
    /// How many of our two groups of probes were sent.
    groups: u8,
    /// Our requests without a response.
    in_flight: Vec<RequestId>,
    /// The capabilities that the client has declared.
    capabilities: Option<Raw>,
    /// How often the client was asked for its roots again, and when it was asked last.
    roots_requests: usize,
    roots_asked: Duration,
}

impl Recorder {
    pub(super) fn new(answer: Duration) -> Self {
        Self {
            runs: Vec::new(),
            answer,
            started: Instant::now(),
            traffic: Traffic::default(),
            full: Arc::default(),
        }
    }

    pub(super) fn into_trace(self) -> Trace {
        let runs = self.runs.into_iter().map(|recorded| recorded.run).collect();
        Trace { runs, respond_within: self.answer, ..Trace::default() }
    }

    /// Whether a limit of the recording is reached.
    pub(super) fn is_full(&self) -> bool {
        self.traffic.is_full()
    }

    /// Notified when [`is_full`](Self::is_full) becomes true. The notification is kept for a later waiter.
    pub(super) fn full(&self) -> Arc<Notify> {
        Arc::clone(&self.full)
    }

    /// Begins a run. Returns its index.
    pub(super) fn open(&mut self, name: &str, version: Version, channel: Channel) -> usize {
        let run = Run::new(name, version).over(channel);
        self.runs.push(RecordedRun {
            run,
            opening: None,
            is_opened: false,
            is_ready: false,
            groups: 0,
            in_flight: Vec::new(),
            capabilities: None,
            roots_requests: 0,
            roots_asked: Duration::ZERO,
        });
        self.runs.len() - 1
    }

    /// The run of a line on a stream that carries the sessions of one client, one after the other.
    pub(super) fn of_stream(&mut self, line: &Line) -> usize {
        let opens = requests(line).any(|request| request.method == Method::Initialize);
        let last = self.runs.len().checked_sub(1);
        let fits = last.is_some_and(|last| {
            let recorded = &self.runs[last];
            // A client that has sent requests of the modern era and opens a session now has found out that it needs
            // one.
            !opens || !recorded.is_opened && Revisions::LEGACY.contains(&recorded.run.version)
        });
        match last {
            Some(last) if fits => last,
            _ => {
                let name = if self.runs.is_empty() { "connection" } else { "connection, once more" };
                self.open(name, version(line), Channel::Stdio)
            }
        }
    }

    fn note(&mut self, run: usize, exchange: Option<u32>, what: What) {
        let at = self.started.elapsed();
        if let Some(recorded) = self.runs.get_mut(run) {
            match exchange {
                Some(exchange) => recorded.run.note_in(exchange, at, what),
                None => recorded.run.note(at, what),
            }
        }
    }

    pub(super) fn note_in(&mut self, run: usize, exchange: u32, what: What) {
        self.note(run, Some(exchange), what);
    }

    /// Records an HTTP request of a client. One without a message counts as a message: it needs as much memory.
    pub(super) fn requested(&mut self, run: usize, exchange: u32, request: HttpRequest, line: Option<Line>) {
        let headers = request.headers.iter().map(|(name, value)| name.len() + value.len());
        let bytes = request.url.len() + headers.sum::<usize>();
        self.count(usize::from(line.is_none()), bytes);
        self.note_in(run, exchange, What::Requested(Probe::Answer, request));
        if let Some(line) = line {
            self.received(run, Some(exchange), line);
        }
    }

    /// Records the end in every run.
    pub(super) fn note_end(&mut self, what: &What) {
        for run in 0..self.runs.len() {
            self.note(run, None, what.clone());
        }
    }

    /// Records a line of the client.
    pub(super) fn received(&mut self, run: usize, exchange: Option<u32>, line: Line) {
        self.count(1, line.bytes().len());
        let recorded = &mut self.runs[run];
        for part in line.parts().filter_map(Result::ok) {
            match part {
                Message::Request(request) if request.method == Method::Initialize => {
                    recorded.is_opened = true;
                    recorded.opening = Some(request.id.clone());
                    let params = request.params.as_ref();
                    recorded.capabilities = params.and_then(|params| params.raw().member("capabilities"));
                }
                Message::Response(response) => {
                    recorded.in_flight.retain(|id| response.id.as_ref() != Some(id));
                }
                Message::Notification(notification) if notification.method == Method::Initialized => {
                    recorded.is_ready = true;
                }
                _ => {}
            }
        }
        self.note(run, exchange, What::Received(line));
    }

    /// Records a line to the client.
    pub(super) fn sent(&mut self, run: usize, exchange: Option<u32>, probe: Probe, line: Line) {
        self.count(1, line.bytes().len());
        let recorded = &mut self.runs[run];
        for part in line.parts().filter_map(Result::ok) {
            if let Message::Request(request) = part
                && probes::is_ours(&request.id)
            {
                recorded.in_flight.push(request.id.clone());
            }
            let Message::Response(response) = part else { continue };
            if response.id.is_some() && response.id == recorded.opening {
                recorded.opening = None;
                let result = response.outcome.as_ref().ok();
                let agreed = result.and_then(|result| version_of(result.raw(), "protocolVersion"));
                if let Some(agreed) = agreed.filter(|agreed| Revisions::LEGACY.contains(agreed)) {
                    recorded.run.version = agreed;
                }
            }
        }
        self.note(run, exchange, What::Sent(probe, line));
    }

    /// Whether a line is the response to `initialize`, with a result.
    pub(super) fn opens(&self, run: usize, line: &Line) -> bool {
        let Some(opening) = self.runs.get(run).and_then(|recorded| recorded.opening.as_ref()) else {
            return false;
        };
        line.parts().filter_map(Result::ok).any(|part| {
            matches!(part, Message::Response(response) if response.id.as_ref() == Some(opening) && response.outcome.is_ok())
        })
    }

    /// The first group of our probes, once the session is open; empty when they were sent.
    pub(super) fn first(&mut self, run: usize) -> Vec<Prepared> {
        let at = self.started.elapsed();
        let Some(recorded) = self.runs.get_mut(run) else { return Vec::new() };
        if !recorded.is_ready || recorded.groups > 0 {
            return Vec::new();
        }
        (recorded.groups, recorded.roots_asked) = (1, at);
        probes::first(run)
    }

    /// The second group of our probes, after the first; empty when they were sent.
    pub(super) fn second(&mut self, run: usize) -> Vec<Prepared> {
        let Some(recorded) = self.runs.get_mut(run).filter(|recorded| recorded.groups == 1) else {
            return Vec::new();
        };
        recorded.groups = 2;
        let mut probes = probes::second(run, &recorded.run.version, recorded.capabilities.as_ref());
        if recorded.in_flight.iter().any(|id| id.as_str() == Some(&probes::pinged(run))) {
            // It would cancel the ping, which needs no response then.
            probes.retain(|(probe, _)| *probe != Probe::CompletedCancel);
        }
        probes
    }

    /// A further request for the roots of a client that announces their changes, if the last one is old enough.
    pub(super) fn roots(&mut self, run: usize) -> Option<Prepared> {
        let at = self.started.elapsed();
        let recorded = self.runs.get_mut(run).filter(|recorded| recorded.groups == 2)?;
        let declared =
            recorded.capabilities.as_ref().is_some_and(|all| probes::has(all, "roots.listChanged"));
        if !declared
            || recorded.roots_requests >= MAX_ROOTS_REQUESTS
            || at.saturating_sub(recorded.roots_asked) < ROOTS_INTERVAL
        {
            return None;
        }
        (recorded.roots_requests, recorded.roots_asked) = (recorded.roots_requests + 1, at);
        Some(probes::roots(run, recorded.roots_requests))
    }

    /// Whether a request of ours has no response yet.
    pub(super) fn is_waiting(&self, run: usize) -> bool {
        self.runs.get(run).is_some_and(|recorded| !recorded.in_flight.is_empty())
    }

    /// Whether a run is one of the modern era.
    pub(super) fn is_modern(&self, run: usize) -> bool {
        self.runs.get(run).is_some_and(|recorded| Revisions::MODERN.contains(&recorded.run.version))
    }

    fn count(&mut self, lines: usize, bytes: usize) {
        self.traffic.add(lines, bytes);
        if self.is_full() {
            self.full.notify_one();
        }
    }
}

/// The requests in a line.
pub(super) fn requests(line: &Line) -> impl Iterator<Item = &Request> {
    line.parts().filter_map(|part| match part {
        Ok(Message::Request(request)) => Some(request),
        _ => None,
    })
}

/// Whether a request has the form of the modern era.
pub(super) fn is_modern(request: &Request) -> bool {
    version_in_meta(request).is_some()
}

fn version_in_meta(request: &Request) -> Option<Version> {
    version_of(&request.params.as_ref()?.meta()?, key::PROTOCOL_VERSION)
}

/// The revision of the first line of a session.
pub(super) fn version(line: &Line) -> Version {
    for request in requests(line) {
        if let Some(version) = version_in_meta(request) {
            let known = Revisions::MODERN.contains(&version);
            return if known { version } else { Version::newest(Era::Modern) };
        }
        if request.method == Method::Discover {
            return Version::newest(Era::Modern);
        }
        let params = request.params.as_ref();
        let asked = params.and_then(|params| version_of(params.raw(), "protocolVersion"));
        if let Some(version) = asked.filter(|version| Revisions::LEGACY.contains(version)) {
            return version;
        }
    }
    Version::newest(Era::Legacy)
}
