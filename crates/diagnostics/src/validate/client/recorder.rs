//! Notes what crosses, run by run: which run a message belongs to, and by which revision that one is judged.

use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::types::Members;
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Era, Message, Method, Raw, Request, RequestId, Version};
use mcpjoin_rules::HttpRequest;
use mcpjoin_rules::{Channel, Line, Probe, Revisions, Run, Trace, What};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::probes::{self, Prepared};
use crate::engine::Traffic;

/// So often a client is asked for its roots again, and no sooner than after this time.
const MOST_LOOKS: usize = 20;
const BETWEEN_LOOKS: Duration = Duration::from_secs(5);

pub(super) struct Recorder {
    runs: Vec<Noted>,
    answer: Duration,
    started: Instant,
    traffic: Traffic,
    full: Arc<Notify>,
}

/// A run, and what is known about its session.
struct Noted {
    run: Run,
    /// The request that opens it, while that is not answered.
    opening: Option<RequestId>,
    /// It is a session: `initialize` has been sent in it.
    is_opened: bool,
    /// `notifications/initialized` has been sent in it.
    is_ready: bool,
    /// How many of our two rows of probes are out.
    rows: u8,
    /// Our requests that are not answered yet.
    waiting: Vec<RequestId>,
    /// What the client has declared.
    capabilities: Option<Raw>,
    /// How often it was asked for its roots again, and when it was last.
    looks: usize,
    looked: Duration,
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
        let runs = self.runs.into_iter().map(|noted| noted.run).collect();
        Trace { runs, answer_within: self.answer, ..Trace::default() }
    }

    /// As much has been noted as is noted.
    pub(super) fn is_full(&self) -> bool {
        self.traffic.is_full()
    }

    /// Told when [`is_full`](Self::is_full) comes true, whoever notes it. It is kept for the one that waits for it later.
    pub(super) fn full(&self) -> Arc<Notify> {
        Arc::clone(&self.full)
    }

    /// A run of its own.
    pub(super) fn open(&mut self, name: &str, version: Version, channel: Channel) -> usize {
        let run = Run::new(name, version).over(channel);
        self.runs.push(Noted {
            run,
            opening: None,
            is_opened: false,
            is_ready: false,
            rows: 0,
            waiting: Vec::new(),
            capabilities: None,
            looks: 0,
            looked: Duration::ZERO,
        });
        self.runs.len() - 1
    }

    /// The run of a line on a stream that carries one client's sessions, one after the other.
    pub(super) fn of_stream(&mut self, line: &Line) -> usize {
        let opens = requests(line).any(|request| request.method == Method::Initialize);
        let last = self.runs.len().checked_sub(1);
        let fits = last.is_some_and(|last| {
            let noted = &self.runs[last];
            // Whoever has asked in the modern era, and then opens a session, has found out that it needs one.
            !opens || !noted.is_opened && Revisions::LEGACY.contains(&noted.run.version)
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
        if let Some(noted) = self.runs.get_mut(run) {
            match exchange {
                Some(exchange) => noted.run.note_in(exchange, at, what),
                None => noted.run.note(at, what),
            }
        }
    }

    pub(super) fn note_in(&mut self, run: usize, exchange: u32, what: What) {
        self.note(run, Some(exchange), what);
    }

    /// The client has sent an HTTP request. One without a message counts as one: it is remembered like that.
    pub(super) fn requested(&mut self, run: usize, exchange: u32, request: HttpRequest, line: Option<Line>) {
        let headers = request.headers.iter().map(|(name, value)| name.len() + value.len());
        let bytes = request.url.len() + headers.sum::<usize>();
        self.count(usize::from(line.is_none()), bytes);
        self.note_in(run, exchange, What::Requested(Probe::Answer, request));
        if let Some(line) = line {
            self.heard(run, Some(exchange), line);
        }
    }

    /// In every run.
    pub(super) fn note_end(&mut self, what: &What) {
        for run in 0..self.runs.len() {
            self.note(run, None, what.clone());
        }
    }

    /// The client has sent a line.
    pub(super) fn heard(&mut self, run: usize, exchange: Option<u32>, line: Line) {
        self.count(1, line.bytes().len());
        let noted = &mut self.runs[run];
        for part in line.parts().filter_map(Result::ok) {
            match part {
                Message::Request(request) if request.method == Method::Initialize => {
                    noted.is_opened = true;
                    noted.opening = Some(request.id.clone());
                    let params = request.params.as_ref();
                    let params = params.and_then(|params| params.raw().decode::<Members<Raw>>().ok());
                    noted.capabilities = params.and_then(|params| params.get("capabilities").cloned());
                }
                Message::Response(response) => {
                    noted.waiting.retain(|id| response.id.as_ref() != Some(id));
                }
                Message::Notification(told) if told.method == Method::Initialized => noted.is_ready = true,
                _ => {}
            }
        }
        self.note(run, exchange, What::Received(line));
    }

    /// It gets one.
    pub(super) fn said(&mut self, run: usize, exchange: Option<u32>, probe: Probe, line: Line) {
        self.count(1, line.bytes().len());
        let noted = &mut self.runs[run];
        for part in line.parts().filter_map(Result::ok) {
            if let Message::Request(request) = part
                && probes::is_ours(&request.id)
            {
                noted.waiting.push(request.id.clone());
            }
            let Message::Response(response) = part else { continue };
            if response.id.is_some() && response.id == noted.opening {
                noted.opening = None;
                let agreed = response.outcome.as_ref().ok().and_then(|result| {
                    let result: Members<Raw> = result.raw().decode().ok()?;
                    Some(Version::parse(&result.get("protocolVersion")?.to_string_value()?))
                });
                if let Some(agreed) = agreed.filter(|agreed| Revisions::LEGACY.contains(agreed)) {
                    noted.run.version = agreed;
                }
            }
        }
        self.note(run, exchange, What::Sent(probe, line));
    }

    /// Whether a line is the answer to `initialize`, with a result.
    pub(super) fn opens(&self, run: usize, line: &Line) -> bool {
        let Some(opening) = self.runs.get(run).and_then(|noted| noted.opening.as_ref()) else { return false };
        line.parts().filter_map(Result::ok).any(|part| {
            matches!(part, Message::Response(response) if response.id.as_ref() == Some(opening) && response.outcome.is_ok())
        })
    }

    /// The first of our probes, when the session is open; once.
    pub(super) fn first(&mut self, run: usize) -> Vec<Prepared> {
        let at = self.started.elapsed();
        let Some(noted) = self.runs.get_mut(run) else { return Vec::new() };
        if !noted.is_ready || noted.rows > 0 {
            return Vec::new();
        }
        (noted.rows, noted.looked) = (1, at);
        probes::first(run)
    }

    /// What follows them, once.
    pub(super) fn second(&mut self, run: usize) -> Vec<Prepared> {
        let Some(noted) = self.runs.get_mut(run).filter(|noted| noted.rows == 1) else { return Vec::new() };
        noted.rows = 2;
        let mut probes = probes::second(run, &noted.run.version, noted.capabilities.as_ref());
        if noted.waiting.iter().any(|id| id.as_str() == Some(&probes::pinged(run))) {
            // What is not answered would be given up by it, and need not be answered any more.
            probes.retain(|(probe, _)| *probe != Probe::CompletedCancel);
        }
        probes
    }

    /// Another look at the roots of a client that tells of their changes, when the last was a while ago.
    pub(super) fn again(&mut self, run: usize) -> Option<Prepared> {
        let at = self.started.elapsed();
        let noted = self.runs.get_mut(run).filter(|noted| noted.rows == 2)?;
        let declared = noted.capabilities.as_ref().is_some_and(|all| probes::has(all, "roots.listChanged"));
        if !declared || noted.looks >= MOST_LOOKS || at.saturating_sub(noted.looked) < BETWEEN_LOOKS {
            return None;
        }
        (noted.looks, noted.looked) = (noted.looks + 1, at);
        Some(probes::roots(run, noted.looks))
    }

    /// Whether a request of ours is not answered yet.
    pub(super) fn is_waiting(&self, run: usize) -> bool {
        self.runs.get(run).is_some_and(|noted| !noted.waiting.is_empty())
    }

    /// Whether a run is of the era without sessions.
    pub(super) fn is_modern(&self, run: usize) -> bool {
        self.runs.get(run).is_some_and(|noted| Revisions::MODERN.contains(&noted.run.version))
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

/// Whether a request says of itself that it is of the modern era.
pub(super) fn is_modern(request: &Request) -> bool {
    named(request).is_some()
}

fn named(request: &Request) -> Option<Version> {
    let meta: Members<Raw> = request.params.as_ref()?.meta()?.decode().ok()?;
    Some(Version::parse(&meta.get(key::PROTOCOL_VERSION)?.to_string_value()?))
}

/// The revision that a first line is of.
pub(super) fn version(line: &Line) -> Version {
    for request in requests(line) {
        if let Some(version) = named(request) {
            let known = Revisions::MODERN.contains(&version);
            return if known { version } else { Version::newest(Era::Modern) };
        }
        if request.method == Method::Discover {
            return Version::newest(Era::Modern);
        }
        let asked = request.params.as_ref().and_then(|params| {
            let params: Members<Raw> = params.raw().decode().ok()?;
            Some(Version::parse(&params.get("protocolVersion")?.to_string_value()?))
        });
        if let Some(version) = asked.filter(|version| Revisions::LEGACY.contains(version)) {
            return version;
        }
    }
    Version::newest(Era::Legacy)
}
