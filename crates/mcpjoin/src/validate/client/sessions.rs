//! Which run an HTTP request belongs to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::request::Parts;
use mcpjoin_check::{Channel, Line, Revisions};
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::{Era, Method, Version};

use super::recorder::{Recorder, is_modern, requests, version};

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
    exchanges: u32,
}

/// The same, for many.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Sessions>>);

impl Shared {
    pub(super) fn new(recorder: Recorder) -> Self {
        Self(Arc::new(Mutex::new(Sessions {
            recorder,
            by_id: HashMap::new(),
            by_endpoint: HashMap::new(),
            modern: None,
            last: None,
            exchanges: 0,
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
        if line.is_some_and(|line| requests(line).any(|request| request.method == Method::Initialize)) {
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
        self.by_endpoint.insert(address, run);
    }
}
