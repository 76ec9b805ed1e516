//! Before the era is known: a client's decider for streams. Afterwards nobody asks again.
//!
//! A client on a stream probes with `server/discover` and falls back to `initialize`
//! (<https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio#backward-compatibility>);
//! a server is decided by the first request that it gets (`first`). What published servers really do with a probe
//! (exit, stay mute, answer late, answer with any code) is part of the rules below.

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::calls::{Call, Expired, Purpose};
use super::event::{Ask, Asker, CloseCause, Event, OpeningFailure, Peer, PeerCapabilities};
use super::foreign::foreign_protocol;
use super::legacy::Legacy;
use super::link::{LinkEnd, LinkError, Route};
use super::modern::{self, Modern};
use super::role::ClientRole;
use super::shared::Shared;
use super::violation::Violation;
use crate::decode::Shape;
use crate::types::{DiscoverResult, InitializeParams, InitializeResult, UnsupportedVersionData};
use crate::{
    DecodeError, Era, ErrorObject, Message, Method, Notification, Payload, Profile, Raw, Request, RequestId,
    Response, Time, Version, code,
};

/// What becomes of an opening that has been decided.
pub(super) enum Decided {
    Legacy(Legacy),
    Modern(Modern),
    Failed(CloseCause),
}

/// A client that does not know yet how its server speaks.
pub(super) struct ClientOpening {
    /// Our `server/discover`, which may still be answered.
    probe: Option<i64>,
    /// Our `initialize`.
    initialize: Option<i64>,
    offered: Version,
    /// Lines that were no messages, and how the first of them begins.
    garbage: usize,
    first_garbage: Option<Bytes>,
    /// The id of the last response to what was never asked.
    unknown: Option<RequestId>,
    /// How the far end ended at the first start, when it is started afresh.
    probe_end: Option<LinkEnd>,
    /// How `initialize` was refused, when the refusal named a modern version: then there is one more probe,
    /// and no more.
    refusal: Option<ErrorObject>,
    /// A probe was made again because it was refused for a version that the refusal lists: once, and no more.
    insisted: bool,
}

impl ClientOpening {
    /// Sends the first request.
    pub(super) fn start(shared: &mut Shared, client: &ClientRole, now: Time) -> (Self, Option<Decided>) {
        let mut opening = Self {
            probe: None,
            initialize: None,
            offered: client.version.clone().unwrap_or_else(|| Version::newest(Era::Legacy)),
            garbage: 0,
            first_garbage: None,
            unknown: None,
            probe_end: None,
            refusal: None,
            insisted: false,
        };
        let decided = match client.ask {
            Ask::Auto | Ask::Only(Era::Modern) => {
                let patience = patience(shared, client);
                opening.send_probe(shared, client, now, patience)
            }
            Ask::Only(Era::Legacy) => opening.send_initialize(shared, client, now),
        };
        (opening, decided)
    }

    /// The far end was made afresh: now without the probe.
    pub(super) fn reopened(
        &mut self,
        shared: &mut Shared,
        client: &ClientRole,
        now: Time,
    ) -> Option<Decided> {
        self.probe = None;
        self.garbage = 0;
        self.unknown = None;
        self.send_initialize(shared, client, now)
    }

    fn send_probe(
        &mut self,
        shared: &mut Shared,
        client: &ClientRole,
        now: Time,
        patience: Duration,
    ) -> Option<Decided> {
        let meta = modern::client_meta(modern::newest(), client);
        let meta: Vec<(&str, &str)> = meta.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let mut call = Call::new(Method::Discover).with_timeout(patience);
        call.total = Some(patience);
        match shared.send_request(now, &mut call, Purpose::Opening, &meta) {
            Ok(id) => {
                self.probe = Some(id);
                None
            }
            Err(refused) => Some(failed(OpeningFailure::Unsent { method: Method::Discover, refused })),
        }
    }

    fn send_initialize(&mut self, shared: &mut Shared, client: &ClientRole, now: Time) -> Option<Decided> {
        let mut patience = shared.limits.initialize;
        if shared.caps.remote && self.first_garbage.is_some() {
            patience = patience.min(shared.limits.probe);
        }
        let mut call = Call::new(Method::Initialize).with_timeout(patience);
        call.total = Some(patience);
        call.params = match client.presents.as_ref().and_then(|presents| presents.initialize.clone()) {
            Some(params) => Some(Payload::from_raw(params)),
            None => {
                let (capabilities, info) = (client.capabilities.clone(), client.info.clone());
                Payload::from_value(&InitializeParams::new(self.offered.clone(), capabilities, info)).ok()
            }
        };
        match shared.send_request(now, &mut call, Purpose::Opening, &[]) {
            Ok(id) => {
                self.initialize = Some(id);
                None
            }
            Err(refused) => Some(failed(OpeningFailure::Unsent { method: Method::Initialize, refused })),
        }
    }

    pub(super) fn response(
        &mut self,
        shared: &mut Shared,
        client: &ClientRole,
        now: Time,
        response: Response,
    ) -> Option<Decided> {
        let id = response.id.as_ref().and_then(RequestId::as_i64);
        if id.is_some() && id == self.probe {
            self.probe = None;
            if let Some(id) = id {
                shared.calls.take(id);
            }
            return self.probe_answered(shared, client, now, response.outcome);
        }
        if id.is_some() && id == self.initialize {
            if let Some(id) = id {
                shared.calls.take(id);
            }
            return self.initialize_answered(shared, client, now, response.outcome);
        }
        match (response, self.probe, self.initialize) {
            // An error without an id while one request is open can only be about that one. Some servers
            // answer the probe so, because they do not read it as a request.
            (Response { id: None, outcome: Err(error) }, Some(probe), None) => {
                self.probe = None;
                shared.calls.take(probe);
                self.probe_answered(shared, client, now, Err(error))
            }
            (Response { id: None, outcome: Err(error) }, None, Some(initialize)) => {
                shared.calls.take(initialize);
                self.initialize_answered(shared, client, now, Err(error))
            }
            (response, ..) => {
                if response.id.is_some() {
                    self.unknown.clone_from(&response.id);
                }
                shared.violation(Violation::UnknownReply { id: response.id });
                None
            }
        }
    }

    fn probe_answered(
        &mut self,
        shared: &mut Shared,
        client: &ClientRole,
        now: Time,
        outcome: Result<Payload, ErrorObject>,
    ) -> Option<Decided> {
        let only_modern = client.ask == Ask::Only(Era::Modern);
        match outcome {
            Ok(result) => match result.raw().decode::<DiscoverResult>() {
                Ok(discovered) => {
                    let presented = client.relays.then(|| result.into_raw());
                    self.choose(shared, client, now, discovered, presented)
                }
                Err(problem) if only_modern => Some(failed(OpeningFailure::BadReply {
                    method: Method::Discover,
                    problem: problem.to_string(),
                })),
                // It answers anything with some result: an old server that does not look at the method.
                Err(_) => self.fall_back(shared, client, now),
            },
            Err(error) if error.code == code::UNSUPPORTED_PROTOCOL_VERSION => {
                let supported = supported_versions(&error);
                if !self.insisted && lists_ours(client, &supported) {
                    // A version that both speak is to be tried, and there is no other.
                    self.insisted = true;
                    let patience = patience(shared, client);
                    return self.send_probe(shared, client, now, patience);
                }
                self.choose_version(shared, client, now, supported, error)
            }
            Err(error) if only_modern || is_modern(&error) => {
                Some(failed(OpeningFailure::Refused { method: Method::Discover, error }))
            }
            // Any other error, whatever its code: seen are -32601, -32602, -32603, -32000 and 0.
            Err(_) => self.fall_back(shared, client, now),
        }
    }

    fn fall_back(&mut self, shared: &mut Shared, client: &ClientRole, now: Time) -> Option<Decided> {
        if let Some(error) = self.refusal.take() {
            return Some(failed(OpeningFailure::Refused { method: Method::Initialize, error }));
        }
        match self.initialize {
            None => self.send_initialize(shared, client, now),
            Some(_) => None,
        }
    }

    fn choose(
        &mut self,
        shared: &mut Shared,
        client: &ClientRole,
        now: Time,
        discovered: DiscoverResult,
        presented: Option<Raw>,
    ) -> Option<Decided> {
        let profile = modern::newest();
        if discovered.supported_versions.contains(&profile.version) {
            let info = discovered.meta.as_ref().and_then(crate::types::Meta::server_info);
            shared.peer = Some(Arc::new(Peer {
                profile,
                info: info.map(Arc::new),
                capabilities: PeerCapabilities::Server(discovered.capabilities.into()),
                instructions: discovered.instructions,
                supported_versions: discovered.supported_versions,
                presented,
            }));
            if let Some(id) = self.initialize.take() {
                shared.calls.take(id);
            }
            shared.events.push_back(Event::Opened);
            return Some(Decided::Modern(Modern::new(profile, &shared.role)));
        }
        let error = ErrorObject::new(code::UNSUPPORTED_PROTOCOL_VERSION, "no common version");
        self.choose_version(shared, client, now, discovered.supported_versions, error)
    }

    /// The server is modern and names its versions, and ours is not among them. A legacy version that both
    /// speak is then a choice of version, not a guess.
    fn choose_version(
        &mut self,
        shared: &mut Shared,
        client: &ClientRole,
        now: Time,
        supported: Vec<Version>,
        error: ErrorObject,
    ) -> Option<Decided> {
        let newest = match &client.version {
            None => Version::newest_among(Era::Legacy, &supported),
            only => only.as_ref().filter(|only| supported.contains(only)),
        };
        match newest {
            Some(version) if client.ask == Ask::Auto && self.initialize.is_none() => {
                if self.refusal.is_none() {
                    self.offered = version.clone();
                }
                self.fall_back(shared, client, now)
            }
            Some(_) if self.initialize.is_some() => None,
            // A version that it lists, and refuses all the same, is none that this client does not speak.
            _ if supported.is_empty() || lists_ours(client, &supported) => {
                Some(failed(OpeningFailure::Refused { method: Method::Discover, error }))
            }
            _ => Some(failed(OpeningFailure::NoCommonVersion { supported })),
        }
    }

    fn initialize_answered(
        &mut self,
        shared: &mut Shared,
        client: &ClientRole,
        now: Time,
        outcome: Result<Payload, ErrorObject>,
    ) -> Option<Decided> {
        let answered = match outcome {
            Ok(result) => {
                let read = result.raw().decode::<InitializeResult>().map_err(|problem| {
                    OpeningFailure::BadReply { method: Method::Initialize, problem: problem.to_string() }
                });
                read.map(|read| (read, client.relays.then(|| result.into_raw())))
            }
            Err(error) => Err(OpeningFailure::Refused { method: Method::Initialize, error }),
        };
        let (result, presented) = match answered {
            Ok(result) => result,
            // A modern-only server that never saw the probe names its versions when it refuses `initialize`.
            Err(OpeningFailure::Refused { error, .. })
                if client.ask == Ask::Auto
                    && error.code == code::UNSUPPORTED_PROTOCOL_VERSION
                    && supported_versions(&error).contains(&modern::newest().version) =>
            {
                if self.refusal.is_some() {
                    return Some(failed(OpeningFailure::Refused { method: Method::Initialize, error }));
                }
                self.refusal = Some(error);
                self.initialize = None;
                let patience = shared.limits.initialize;
                return self.send_probe(shared, client, now, patience);
            }
            Err(failure) => return Some(failed(failure)),
        };
        let profile = Profile::of(&result.protocol_version).filter(|profile| {
            let only = client.version.as_ref().filter(|_| !client.relays);
            profile.era == Era::Legacy && only.is_none_or(|only| *only == profile.version)
        });
        let Some(profile) = profile else {
            return Some(failed(OpeningFailure::UnsupportedVersion {
                offered: self.offered.clone(),
                answered: result.protocol_version,
            }));
        };
        shared.peer = Some(Arc::new(Peer {
            profile,
            info: Some(Arc::new(result.server_info)),
            capabilities: PeerCapabilities::Server(result.capabilities.into()),
            instructions: result.instructions,
            supported_versions: alloc::vec![profile.version.clone()],
            presented,
        }));
        if let Some(probe) = self.probe.take() {
            // From now on a late answer to the probe decides nothing any more.
            shared.calls.take(probe);
        }
        let initialized = Notification { method: Method::Initialized, params: None };
        shared.queue.push_own(Message::Notification(initialized), Route::Session);
        shared.events.push_back(Event::Opened);
        Some(Decided::Legacy(Legacy::new(profile, Arc::new(Asker::default()), true)))
    }

    /// The server asks while nothing is agreed: a ping is answered, nothing else is. What clients alone ask comes from
    /// whoever sends back what they read.
    pub(super) fn request(shared: &mut Shared, request: Request) -> Option<Decided> {
        if matches!(request.method, Method::Initialize | Method::Discover) {
            return Some(failed(OpeningFailure::Echo { method: request.method }));
        }
        if request.method == Method::Ping {
            shared.reply(request.id, None, Ok(Payload::from_raw(Raw::empty_object())));
        } else {
            shared.violation(Violation::TooEarly { method: request.method });
            let error = ErrorObject::invalid_request("this client has not finished opening the session");
            shared.reply(request.id, None, Err(error));
        }
        None
    }

    /// Something that is no message came: a bad answer to what we have asked, or noise.
    pub(super) fn malformed(
        &mut self,
        shared: &mut Shared,
        client: &ClientRole,
        now: Time,
        error: &DecodeError,
        excerpt: &Bytes,
    ) -> Option<Decided> {
        let id = error.id.as_ref().filter(|_| error.shape != Shape::Request).and_then(RequestId::as_i64);
        let bad = |method| failed(OpeningFailure::BadReply { method, problem: error.to_string() });
        if id.is_some() && id == self.initialize {
            return Some(bad(Method::Initialize));
        }
        if let Some(probe) = id.filter(|id| self.probe == Some(*id)) {
            self.probe = None;
            shared.calls.take(probe);
            return match client.ask {
                Ask::Only(_) => Some(bad(Method::Discover)),
                Ask::Auto => self.fall_back(shared, client, now),
            };
        }
        self.garbage += 1;
        let first = self.first_garbage.get_or_insert_with(|| excerpt.clone()).clone();
        let lines = self.garbage;
        if shared.caps.remote {
            // Nothing but the server writes there. Who greets in the words of another protocol is no peer; who greets in
            // others may have begun to log, but listens already, and need not be waited for as long as a start.
            if foreign_protocol(excerpt).is_some() {
                return Some(failed(OpeningFailure::Garbage { lines, first }));
            }
            for id in [self.probe, self.initialize].into_iter().flatten() {
                shared.calls.hasten(now, id, shared.limits.probe);
            }
        }
        (lines >= shared.limits.opening_garbage).then(|| failed(OpeningFailure::Garbage { lines, first }))
    }

    /// The stream that owed one of the opening answers has ended without it.
    pub(super) fn lost(
        &mut self,
        shared: &mut Shared,
        client: &ClientRole,
        now: Time,
        id: &RequestId,
        cause: LinkError,
    ) -> Option<Decided> {
        let id = id.as_i64()?;
        let probed = self.probe == Some(id);
        if !probed && self.initialize != Some(id) {
            return None;
        }
        shared.calls.take(id);
        if probed && client.ask == Ask::Auto {
            self.probe = None;
            return self.fall_back(shared, client, now);
        }
        let method = if probed { Method::Discover } else { Method::Initialize };
        if let Some(failure) = self.misdirected(method, id) {
            return Some(failed(failure));
        }
        Some(failed(OpeningFailure::Ended {
            last: LinkEnd::failed(cause),
            probe: self.probe_end.take(),
            garbage: self.first_garbage.clone(),
        }))
    }

    /// What is told in place of silence, where a response came to something else.
    fn misdirected(&mut self, method: Method, asked: i64) -> Option<OpeningFailure> {
        let given = self.unknown.take()?;
        Some(OpeningFailure::UnknownReply { method, asked: RequestId::from(asked), given })
    }

    pub(super) fn expired(
        &mut self,
        shared: &mut Shared,
        client: &ClientRole,
        now: Time,
        expired: Expired,
    ) -> Option<Decided> {
        if self.probe == Some(expired.id) && client.ask == Ask::Auto {
            // Silence. The probe may still be answered: a slow start in front of a modern-only server.
            return self.fall_back(shared, client, now);
        }
        if let Some(failure) = self.misdirected(expired.method.clone(), expired.id) {
            return Some(failed(failure));
        }
        Some(failed(OpeningFailure::TimedOut {
            method: expired.method,
            after: expired.after,
            garbage: self.first_garbage.clone(),
        }))
    }

    /// The far end has ended. Whoever was probed gets a second chance without the probe.
    pub(super) fn ended(
        &mut self,
        shared: &mut Shared,
        client: &ClientRole,
        end: LinkEnd,
    ) -> Option<Decided> {
        let probed = client.ask == Ask::Auto && self.probe_end.is_none();
        if shared.caps.reopens && probed {
            for id in [self.probe.take(), self.initialize.take()].into_iter().flatten() {
                shared.calls.take(id);
            }
            shared.queue.clear();
            self.probe_end = Some(end);
            shared.events.push_back(Event::Reopen);
            return None;
        }
        Some(failed(OpeningFailure::Ended {
            last: end,
            probe: self.probe_end.take(),
            garbage: self.first_garbage.clone(),
        }))
    }
}

/// How long a probe may take: where there is another way to open, less.
fn patience(shared: &Shared, client: &ClientRole) -> Duration {
    match client.ask {
        Ask::Auto => shared.limits.probe,
        Ask::Only(_) => shared.limits.initialize,
    }
}

/// Whether the version that a probe asks for is among these, and is one that this client may speak.
fn lists_ours(client: &ClientRole, supported: &[Version]) -> bool {
    let ours = &modern::newest().version;
    client.version.as_ref().is_none_or(|only| only == ours) && supported.contains(ours)
}

fn failed(failure: OpeningFailure) -> Decided {
    Decided::Failed(CloseCause::Opening(failure))
}

/// Errors that only a modern server sends.
fn is_modern(error: &ErrorObject) -> bool {
    matches!(
        error.code,
        code::HEADER_MISMATCH | code::MISSING_REQUIRED_CLIENT_CAPABILITY | code::UNSUPPORTED_PROTOCOL_VERSION
    )
}

fn supported_versions(error: &ErrorObject) -> Vec<Version> {
    let data = error.data.as_ref().and_then(|data| data.decode::<UnsupportedVersionData>().ok());
    data.map(|data| data.supported).unwrap_or_default()
}
