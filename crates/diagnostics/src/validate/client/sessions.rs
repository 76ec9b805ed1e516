//! Which run an HTTP request belongs to.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use bytes::Bytes;
use http::request::Parts;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::{Era, Method, Version};
use mcpjoin_rules::{Channel, Line, Revisions};

use super::pages::Pages;
use super::probes::Prepared;
use super::recorder::{Recorder, is_modern, requests, version};
use crate::engine::only_request;

/// After so many requests a session is lost, where one is to be.
const LASTS: usize = 12;

/// What all exchanges share.
pub(super) struct Sessions {
    pub(super) recorder: Recorder,
    /// The runs of the sessions of Streamable HTTP, by their ids.
    by_id: HashMap<Bytes, usize>,
    /// Those of HTTP+SSE, by where their messages are posted.
    by_endpoint: HashMap<Bytes, usize>,
    /// All requests of the modern era.
    modern: Option<usize>,
    /// The session that was opened last: what names none is counted with it.
    last: Option<usize>,
    /// The session of HTTP+SSE that was told last where to post.
    told: Option<usize>,
    exchanges: u32,
    pub(super) pages: Pages,
    /// What the streams of sessions are to bring, and who is told of it.
    ahead: HashMap<usize, Vec<Prepared>>,
    standing: HashMap<usize, Waker>,
    /// How much was answered in each run.
    pub(super) replies: HashMap<usize, usize>,
    /// The sessions that were taken away.
    lost: HashSet<usize>,
    /// The runs in which a call has been refused for its headers.
    mismatched: HashSet<usize>,
    asked: HashMap<usize, usize>,
}

/// The same, for many.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Sessions>>);

impl Shared {
    pub(super) fn new(recorder: Recorder, disturb: bool) -> Self {
        Self(Arc::new(Mutex::new(Sessions {
            recorder,
            by_id: HashMap::new(),
            by_endpoint: HashMap::new(),
            modern: None,
            last: None,
            told: None,
            exchanges: 0,
            pages: Pages::new(disturb),
            ahead: HashMap::new(),
            standing: HashMap::new(),
            replies: HashMap::new(),
            lost: HashSet::new(),
            mismatched: HashSet::new(),
            asked: HashMap::new(),
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sessions {
    /// The run of a request, and its number.
    pub(super) fn of(&mut self, parts: &Parts, line: Option<&Line>) -> (usize, u32) {
        self.exchanges += 1;
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        let endpoint = self.by_endpoint.get(target.as_bytes()).copied();
        (endpoint.unwrap_or_else(|| self.run(parts, line)), self.exchanges)
    }

    fn run(&mut self, parts: &Parts, line: Option<&Line>) -> usize {
        if parts.method == http::Method::GET && parts.uri.path() == "/sse" {
            return self.recorder.open("session", Version::ALL[0].clone(), Channel::HttpSse);
        }
        let opens =
            line.is_some_and(|line| requests(line).any(|request| request.method == Method::Initialize));
        if let Some(run) = self.told.filter(|_| self.is_of_sse(parts, opens)) {
            return run;
        }
        if opens {
            let version = line.map_or_else(|| Version::newest(Era::Legacy), version);
            let run = self.recorder.open("session", version, Channel::StreamableHttp);
            self.last = Some(run);
            return run;
        }
        let session = parts.headers.get(name::SESSION_ID).map(|id| Bytes::copy_from_slice(id.as_bytes()));
        if let Some(run) = session.and_then(|id| self.by_id.get(&id)) {
            return *run;
        }
        let header = parts.headers.get(name::PROTOCOL_VERSION).and_then(|value| value.to_str().ok());
        let modern = header.map(Version::parse).filter(|version| Revisions::MODERN.contains(version));
        let said = line.is_some_and(|line| requests(line).any(is_modern));
        if let (false, None, Some(run)) = (said, &modern, self.last) {
            return run;
        }
        if said || modern.is_some() {
            let recorder = &mut self.recorder;
            return *self.modern.get_or_insert_with(|| {
                let version = line.filter(|_| said).map(version).or(modern);
                let version = version.unwrap_or_else(|| Version::newest(Era::Modern));
                recorder.open("requests without a session", version, Channel::StreamableHttp)
            });
        }
        let version = line.map_or_else(|| Version::newest(Era::Legacy), version);
        let run = self.recorder.open("requests before any session", version, Channel::StreamableHttp);
        self.last = Some(run);
        run
    }

    /// A session has got this id.
    pub(super) fn begins(&mut self, run: usize, id: &[u8]) {
        self.by_id.insert(Bytes::copy_from_slice(id), run);
    }

    /// Whether it is posted to a place of HTTP+SSE, though not to that of a session. What opens a session at the address
    /// of the stream tries whether that is Streamable HTTP, too.
    fn is_of_sse(&self, parts: &Parts, opens: bool) -> bool {
        let path = parts.uri.path();
        let is_path = |endpoint: &Bytes| endpoint.split(|byte| *byte == b'?').next() == Some(path.as_bytes());
        let is_known = || self.by_endpoint.keys().any(is_path);
        parts.method == http::Method::POST && (path == "/sse" && !opens || is_known())
    }

    /// What the stream of a session is to bring now. Its reader is told when there is more.
    pub(super) fn take(&mut self, run: usize, waker: &Waker) -> Vec<Prepared> {
        self.standing.insert(run, waker.clone());
        let mut lines = self.recorder.first(run);
        lines.extend(self.ahead.remove(&run).into_iter().flatten());
        lines
    }

    /// The client has answered something of ours, or asked.
    pub(super) fn goes_on(&mut self, run: usize) {
        let mut next = Vec::new();
        if !self.recorder.is_waiting(run) {
            next = self.recorder.second(run);
        }
        next.extend(self.recorder.again(run));
        if !next.is_empty() {
            self.ahead.entry(run).or_default().extend(next);
            if let Some(waker) = self.standing.remove(&run) {
                waker.wake();
            }
        }
    }

    /// Whether the session of a request is taken away, now or before.
    pub(super) fn loses(&mut self, run: usize, parts: &Parts, line: Option<&Line>) -> bool {
        if self.recorder.is_modern(run) || !parts.headers.contains_key(name::SESSION_ID) {
            return false;
        }
        let asked = self.asked.entry(run).or_default();
        *asked += usize::from(line.and_then(only_request).is_some());
        // Once: a client that has begun anew keeps that.
        (*asked >= LASTS && self.lost.is_empty() && self.lost.insert(run)) || self.lost.contains(&run)
    }

    /// Whether a call is refused for its headers: the first in each run that has some.
    pub(super) fn mismatches(&mut self, run: usize, parts: &Parts) -> bool {
        let mut names = parts.headers.keys();
        let has = names.any(|header| header.as_str().starts_with(name::PARAM_PREFIX));
        has && self.recorder.is_modern(run) && self.mismatched.insert(run)
    }

    /// What belongs to a session is posted there: the path and the query of the address in an event.
    pub(super) fn posts_to(&mut self, run: usize, address: &Bytes) {
        let address = match address.windows(3).position(|three| three == b"://") {
            Some(start) => {
                let host = start + 3;
                let path = address[host..].iter().position(|byte| *byte == b'/');
                path.map_or_else(Bytes::new, |path| address.slice(host + path..))
            }
            None => address.clone(),
        };
        self.told = Some(run);
        self.by_endpoint.insert(address, run);
    }
}
