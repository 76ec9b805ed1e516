//! The sessions of HTTP clients: which run a request belongs to, and the state that all exchanges share.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::request::Parts;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::{Era, Method, Version};
use mcpjoin_rules::{Channel, Line, Revisions};
use tokio::sync::Notify;

use super::pages::Pages;
use super::probes::Prepared;
use super::recorder::{Recorder, is_modern, requests, version};
use crate::engine::only_request;

/// The requests after which a session is lost, where one is to be lost.
const REQUESTS_UNTIL_LOSS: usize = 12;

/// The state that all exchanges share.
pub(super) struct Sessions {
    pub(super) recorder: Recorder,
    /// The runs of the sessions of Streamable HTTP, by their ids.
    by_id: HashMap<Bytes, usize>,
    /// The runs of HTTP+SSE, by their endpoints.
    by_endpoint: HashMap<Bytes, usize>,
    /// The run of all requests of the modern era.
    modern: Option<usize>,
    /// The session that was opened last. Requests that name no session belong to it.
    last: Option<usize>,
    /// The session of HTTP+SSE that has got its endpoint last.
    last_sse: Option<usize>,
    exchanges: u32,
    pub(super) pages: Pages,
    /// The probes for the streams of sessions.
    queued: HashMap<usize, Vec<Prepared>>,
    /// Notified when there are more of them.
    has_queued: Arc<Notify>,
    /// The number of responses in each run.
    pub(super) replies: HashMap<usize, usize>,
    /// The sessions that were lost on purpose.
    lost: HashSet<usize>,
    /// The runs in which a call was refused for its headers.
    mismatched: HashSet<usize>,
    /// The number of requests in each run.
    requests: HashMap<usize, usize>,
}

/// [`Sessions`], shared. Cheap to clone.
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
            last_sse: None,
            exchanges: 0,
            pages: Pages::new(disturb),
            queued: HashMap::new(),
            has_queued: Arc::default(),
            replies: HashMap::new(),
            lost: HashSet::new(),
            mismatched: HashSet::new(),
            requests: HashMap::new(),
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notified when probes are queued.
    pub(super) fn queued(&self) -> Arc<Notify> {
        Arc::clone(&self.lock().has_queued)
    }
}

impl Sessions {
    /// The run of a request, and the number of its exchange.
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
        if let Some(run) = self.last_sse.filter(|_| self.is_of_sse(parts, opens)) {
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

    /// Records the id of a session.
    pub(super) fn begins(&mut self, run: usize, id: &[u8]) {
        self.by_id.insert(Bytes::copy_from_slice(id), run);
    }

    /// Whether a request is posted to an address of HTTP+SSE that is not the endpoint of a session. One that opens a
    /// session at the address of the stream tries whether the server speaks Streamable HTTP.
    fn is_of_sse(&self, parts: &Parts, opens: bool) -> bool {
        let path = parts.uri.path();
        let is_path = |endpoint: &Bytes| endpoint.split(|byte| *byte == b'?').next() == Some(path.as_bytes());
        let is_known = || self.by_endpoint.keys().any(is_path);
        parts.method == http::Method::POST && (path == "/sse" && !opens || is_known())
    }

    /// The probes to send on the stream of a session now.
    pub(super) fn take(&mut self, run: usize) -> Vec<Prepared> {
        let mut lines = self.recorder.first(run);
        lines.extend(self.queued.remove(&run).into_iter().flatten());
        lines
    }

    /// Queues further probes. Called when the client has sent a message.
    pub(super) fn queue_probes(&mut self, run: usize) {
        let mut next = Vec::new();
        if !self.recorder.is_waiting(run) {
            next = self.recorder.second(run);
        }
        next.extend(self.recorder.roots(run));
        if !next.is_empty() {
            self.queued.entry(run).or_default().extend(next);
            self.has_queued.notify_waiters();
        }
    }

    /// Whether the session of a request is lost on purpose, now or before.
    pub(super) fn loses(&mut self, run: usize, parts: &Parts, line: Option<&Line>) -> bool {
        if self.recorder.is_modern(run) || !parts.headers.contains_key(name::SESSION_ID) {
            return false;
        }
        let asked = self.requests.entry(run).or_default();
        *asked += usize::from(line.and_then(only_request).is_some());
        // Once: the next session of the client is kept.
        (*asked >= REQUESTS_UNTIL_LOSS && self.lost.is_empty() && self.lost.insert(run))
            || self.lost.contains(&run)
    }

    /// Whether a call is refused for its headers: the first with such headers in each run.
    pub(super) fn mismatches(&mut self, run: usize, parts: &Parts) -> bool {
        let mut names = parts.headers.keys();
        let has = names.any(|header| header.as_str().starts_with(name::PARAM_PREFIX));
        has && self.recorder.is_modern(run) && self.mismatched.insert(run)
    }

    /// Records the endpoint of a session of HTTP+SSE: the path and the query of the address in its event.
    pub(super) fn set_endpoint(&mut self, run: usize, address: &Bytes) {
        let address = match address.windows(3).position(|three| three == b"://") {
            Some(start) => {
                let host = start + 3;
                let path = address[host..].iter().position(|byte| *byte == b'/');
                path.map_or_else(Bytes::new, |path| address.slice(host + path..))
            }
            None => address.clone(),
        };
        self.last_sse = Some(run);
        self.by_endpoint.insert(address, run);
    }
}
