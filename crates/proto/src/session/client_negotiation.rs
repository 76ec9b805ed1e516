//! How a client on a stream finds out the era of its server.
//!
//! Used by `Session` until the era is known, and never afterwards. The client probes with `server/discover` and falls
//! back to `initialize`
//! (<https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio#backward-compatibility>). The rules
//! below also cover what published servers do with a probe: exit, send nothing, respond late, respond with any error
//! code. The server side is in `server_negotiation`.

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::calls::{Call, Expired, Purpose};
use super::event::{
    ClientInfo, CloseCause, EraChoice, Event, NegotiationFailure, Peer, PeerCapabilities, ResponseProblem,
};
use super::foreign::foreign_protocol;
use super::legacy::Legacy;
use super::modern::{self, Modern};
use super::role::ClientRole;
use super::shared::Shared;
use super::transport::{Route, TransportEnd, TransportError};
use super::violation::Violation;
use crate::decode::Shape;
use crate::types::{DiscoverResult, InitializeParams, UnsupportedVersionData};
use crate::{
    DecodeError, Era, ErrorObject, Message, Method, Notification, Payload, Profile, Raw, Request, RequestId,
    Response, Time, Version, code,
};

/// The result of the negotiation.
pub(super) enum EraDecision {
    Legacy(Legacy),
    Modern(Modern),
    Failed(CloseCause),
}

/// A client that does not know the era of its server yet.
pub(super) struct ClientNegotiation {
    client: Arc<ClientRole>,
    /// The id of our `server/discover`, while its response may still come.
    probe: Option<i64>,
    /// The id of our `initialize`.
    initialize: Option<i64>,
    offered: Version,
    /// The number of lines that are not messages, and an excerpt of the first of them.
    garbage: usize,
    first_garbage: Option<Bytes>,
    /// The id of the last response that matches no request of ours.
    unmatched_id: Option<RequestId>,
    /// How the first connection ended, once the link has reconnected.
    probe_end: Option<TransportEnd>,
    /// The error to `initialize`, when it lists a modern version. Then one more probe is sent, and no further one.
    initialize_error: Option<ErrorObject>,
    /// The probe was repeated because the server rejected its version and lists the same version. It is repeated once.
    probe_repeated: bool,
}

impl ClientNegotiation {
    /// Sends the first request.
    pub(super) fn start(
        shared: &mut Shared,
        client: Arc<ClientRole>,
        now: Time,
    ) -> (Self, Option<EraDecision>) {
        let mut negotiation = Self {
            probe: None,
            initialize: None,
            offered: client.version.clone().unwrap_or_else(|| Version::newest(Era::Legacy)),
            garbage: 0,
            first_garbage: None,
            unmatched_id: None,
            probe_end: None,
            initialize_error: None,
            probe_repeated: false,
            client,
        };
        let decision = match negotiation.client.era {
            EraChoice::Auto | EraChoice::Only(Era::Modern) => {
                let timeout = negotiation.probe_timeout(shared);
                negotiation.send_probe(shared, now, timeout)
            }
            EraChoice::Only(Era::Legacy) => negotiation.send_initialize(shared, now),
        };
        (negotiation, decision)
    }

    /// The link has reconnected. The new connection gets no probe.
    pub(super) fn reopened(&mut self, shared: &mut Shared, now: Time) -> Option<EraDecision> {
        self.probe = None;
        self.garbage = 0;
        self.unmatched_id = None;
        self.send_initialize(shared, now)
    }

    /// The timeout of a probe. It is shorter where there is a fallback.
    fn probe_timeout(&self, shared: &Shared) -> Duration {
        match self.client.era {
            EraChoice::Auto => shared.limits.probe,
            EraChoice::Only(_) => shared.limits.initialize,
        }
    }

    fn send_probe(&mut self, shared: &mut Shared, now: Time, timeout: Duration) -> Option<EraDecision> {
        let meta = modern::client_meta(modern::newest(), &self.client);
        let meta: Vec<(&str, &str)> = meta.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let mut call = Call::new(Method::Discover).with_timeout(timeout);
        call.total = Some(timeout);
        match shared.send_request(now, &mut call, Purpose::Opening, &meta) {
            Ok(id) => {
                self.probe = Some(id);
                None
            }
            Err(refused) => Some(failed(NegotiationFailure::Unsent { method: Method::Discover, refused })),
        }
    }

    fn send_initialize(&mut self, shared: &mut Shared, now: Time) -> Option<EraDecision> {
        let mut timeout = shared.limits.initialize;
        if shared.caps.remote && self.first_garbage.is_some() {
            timeout = timeout.min(shared.limits.probe);
        }
        let mut call = Call::new(Method::Initialize).with_timeout(timeout);
        call.total = Some(timeout);
        call.params = match self.client.presents.as_ref().and_then(|presents| presents.initialize.clone()) {
            Some(params) => Some(Payload::from_raw(params)),
            None => {
                let (capabilities, info) = (self.client.capabilities.clone(), self.client.info.clone());
                Payload::from_value(&InitializeParams::new(self.offered.clone(), capabilities, info)).ok()
            }
        };
        match shared.send_request(now, &mut call, Purpose::Opening, &[]) {
            Ok(id) => {
                self.initialize = Some(id);
                None
            }
            Err(refused) => Some(failed(NegotiationFailure::Unsent { method: Method::Initialize, refused })),
        }
    }

    pub(super) fn response(
        &mut self,
        shared: &mut Shared,
        now: Time,
        response: Response,
    ) -> Option<EraDecision> {
        let id = response.id.as_ref().and_then(RequestId::as_i64);
        if id.is_some() && id == self.probe {
            self.probe = None;
            if let Some(id) = id {
                shared.calls.take(id);
            }
            return self.probe_answered(shared, now, response.outcome);
        }
        if id.is_some() && id == self.initialize {
            if let Some(id) = id {
                shared.calls.take(id);
            }
            return self.initialize_answered(shared, now, response.outcome);
        }
        match (response, self.probe, self.initialize) {
            // An error without an id belongs to the one request that is pending. Some servers respond to the probe in
            // this way because they cannot parse it as a request.
            (Response { id: None, outcome: Err(error) }, Some(probe), None) => {
                self.probe = None;
                shared.calls.take(probe);
                self.probe_answered(shared, now, Err(error))
            }
            (Response { id: None, outcome: Err(error) }, None, Some(initialize)) => {
                shared.calls.take(initialize);
                self.initialize_answered(shared, now, Err(error))
            }
            (response, ..) => {
                if response.id.is_some() {
                    self.unmatched_id.clone_from(&response.id);
                }
                let unknown = response.id.as_ref().is_some_and(|id| !shared.calls.was_sent(id));
                shared.violation(Violation::UnknownResponse { id: response.id });
                match (self.probe, self.initialize) {
                    // The only request that waits gets no other response.
                    (Some(probe), None) if unknown => {
                        self.probe = None;
                        shared.calls.take(probe);
                        self.misdirected(shared, now, Method::Discover, probe)
                    }
                    (None, Some(initialize)) if unknown => {
                        shared.calls.take(initialize);
                        self.misdirected(shared, now, Method::Initialize, initialize)
                    }
                    _ => None,
                }
            }
        }
    }

    /// The response to the request has the id of no request.
    fn misdirected(
        &mut self,
        shared: &mut Shared,
        now: Time,
        method: Method,
        asked: i64,
    ) -> Option<EraDecision> {
        if method == Method::Discover && self.client.era == EraChoice::Auto {
            return self.fall_back(shared, now);
        }
        self.unmatched_response(method, asked).map(failed)
    }

    fn probe_answered(
        &mut self,
        shared: &mut Shared,
        now: Time,
        outcome: Result<Payload, ErrorObject>,
    ) -> Option<EraDecision> {
        let only_modern = self.client.era == EraChoice::Only(Era::Modern);
        match outcome {
            Ok(result) => match (self.client.results.discover)(result.raw()) {
                Ok(discovered) => {
                    let presented = self.client.relays.then(|| result.into_raw());
                    self.choose(shared, now, discovered, presented)
                }
                Err(problem) if only_modern => Some(failed(NegotiationFailure::InvalidResponse {
                    method: Method::Discover,
                    problem: problem.to_string().into(),
                })),
                // An old server may send a result to any method without looking at it.
                Err(_) => self.fall_back(shared, now),
            },
            Err(error) if error.code == code::UNSUPPORTED_PROTOCOL_VERSION => {
                let supported = supported_versions(&error);
                if !self.probe_repeated && self.lists_probed_version(&supported) {
                    // Both sides list this version, and no other modern version exists.
                    self.probe_repeated = true;
                    let timeout = self.probe_timeout(shared);
                    return self.send_probe(shared, now, timeout);
                }
                self.choose_version(shared, now, supported, error)
            }
            Err(error) if only_modern || is_modern(&error) => {
                Some(failed(NegotiationFailure::Refused { method: Method::Discover, error }))
            }
            // Any other error means a legacy server. Published servers use -32601, -32602, -32603, -32000 and 0.
            Err(_) => self.fall_back(shared, now),
        }
    }

    fn fall_back(&mut self, shared: &mut Shared, now: Time) -> Option<EraDecision> {
        if let Some(error) = self.initialize_error.take() {
            return Some(failed(NegotiationFailure::Refused { method: Method::Initialize, error }));
        }
        match self.initialize {
            None => self.send_initialize(shared, now),
            Some(_) => None,
        }
    }

    fn choose(
        &mut self,
        shared: &mut Shared,
        now: Time,
        discovered: DiscoverResult,
        presented: Option<Raw>,
    ) -> Option<EraDecision> {
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
            return Some(EraDecision::Modern(Modern::new(profile, &shared.role)));
        }
        let error = ErrorObject::new(code::UNSUPPORTED_PROTOCOL_VERSION, "no common version");
        self.choose_version(shared, now, discovered.supported_versions, error)
    }

    /// Whether the server lists the version of a probe, and this client may use that version.
    fn lists_probed_version(&self, supported: &[Version]) -> bool {
        let probed = &modern::newest().version;
        self.client.version.as_ref().is_none_or(|only| only == probed) && supported.contains(probed)
    }

    /// A modern server lists its versions, and ours is not among them. Falls back to `initialize` when both sides
    /// support a legacy version.
    fn choose_version(
        &mut self,
        shared: &mut Shared,
        now: Time,
        supported: Vec<Version>,
        error: ErrorObject,
    ) -> Option<EraDecision> {
        let newest = match &self.client.version {
            None => Version::newest_among(Era::Legacy, &supported),
            only => only.as_ref().filter(|only| supported.contains(only)),
        };
        match newest {
            Some(version) if self.client.era == EraChoice::Auto && self.initialize.is_none() => {
                if self.initialize_error.is_none() {
                    self.offered = version.clone();
                }
                self.fall_back(shared, now)
            }
            Some(_) if self.initialize.is_some() => None,
            // `NoCommonVersion` would be wrong for a version that the server lists and still rejects.
            _ if supported.is_empty() || self.lists_probed_version(&supported) => {
                Some(failed(NegotiationFailure::Refused { method: Method::Discover, error }))
            }
            _ => Some(failed(NegotiationFailure::NoCommonVersion { supported })),
        }
    }

    fn initialize_answered(
        &mut self,
        shared: &mut Shared,
        now: Time,
        outcome: Result<Payload, ErrorObject>,
    ) -> Option<EraDecision> {
        let answered = match outcome {
            Ok(result) => {
                let read = (self.client.results.initialize)(result.raw()).map_err(|problem| {
                    NegotiationFailure::InvalidResponse {
                        method: Method::Initialize,
                        problem: problem.to_string().into(),
                    }
                });
                read.map(|read| (read, self.client.relays.then(|| result.into_raw())))
            }
            Err(error) => Err(NegotiationFailure::Refused { method: Method::Initialize, error }),
        };
        let (result, presented) = match answered {
            Ok(result) => result,
            // A modern-only server that did not receive the probe lists its versions in the error to `initialize`.
            Err(NegotiationFailure::Refused { error, .. })
                if self.client.era == EraChoice::Auto
                    && error.code == code::UNSUPPORTED_PROTOCOL_VERSION
                    && supported_versions(&error).contains(&modern::newest().version) =>
            {
                if self.initialize_error.is_some() {
                    return Some(failed(NegotiationFailure::Refused { method: Method::Initialize, error }));
                }
                self.initialize_error = Some(error);
                self.initialize = None;
                let timeout = shared.limits.initialize;
                return self.send_probe(shared, now, timeout);
            }
            Err(failure) => return Some(failed(failure)),
        };
        let profile = Profile::of(&result.protocol_version).filter(|profile| {
            let only = self.client.version.as_ref().filter(|_| !self.client.relays);
            profile.era == Era::Legacy && only.is_none_or(|only| *only == profile.version)
        });
        let Some(profile) = profile else {
            return Some(failed(NegotiationFailure::UnsupportedVersion {
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
            // A late response to the probe must not change the decision.
            shared.calls.take(probe);
        }
        let initialized = Notification { method: Method::Initialized, params: None };
        shared.queue.push_own(Message::Notification(initialized), Route::Session);
        shared.events.push_back(Event::Opened);
        Some(EraDecision::Legacy(Legacy::new(profile, Arc::new(ClientInfo::default()), true)))
    }

    /// A request of the server before the era is known. Responds to `ping` and rejects every other method. A method that
    /// only clients send shows a peer that echoes our own messages.
    pub(super) fn request(shared: &mut Shared, request: Request) -> Option<EraDecision> {
        if matches!(request.method, Method::Initialize | Method::Discover) {
            return Some(failed(NegotiationFailure::Echo { method: request.method }));
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

    /// The response to a request of ours cannot be used. Ignores requests that do not wait.
    pub(super) fn invalid_response(
        &mut self,
        shared: &mut Shared,
        now: Time,
        id: i64,
        problem: ResponseProblem,
    ) -> Option<EraDecision> {
        let method = if self.initialize == Some(id) {
            Method::Initialize
        } else if self.probe == Some(id) {
            self.probe = None;
            shared.calls.take(id);
            if self.client.era == EraChoice::Auto {
                return self.fall_back(shared, now);
            }
            Method::Discover
        } else {
            return None;
        };
        Some(failed(NegotiationFailure::InvalidResponse { method, problem }))
    }

    /// The peer sent something that is not a message: an invalid response to a request of ours, or garbage.
    pub(super) fn malformed(
        &mut self,
        shared: &mut Shared,
        now: Time,
        error: &DecodeError,
        excerpt: &Bytes,
    ) -> Option<EraDecision> {
        let id = error.id.as_ref().filter(|_| error.shape != Shape::Request).and_then(RequestId::as_i64);
        if let Some(id) = id.filter(|id| [self.probe, self.initialize].contains(&Some(*id))) {
            return self.invalid_response(shared, now, id, error.clone().into());
        }
        self.garbage += 1;
        let first = self.first_garbage.get_or_insert_with(|| excerpt.clone()).clone();
        let lines = self.garbage;
        if shared.caps.remote {
            // Only the server writes to this connection. The greeting of another protocol ends the negotiation. Other
            // lines may be logs: the server is up, so the long start timeout no longer applies.
            if foreign_protocol(excerpt).is_some() {
                return Some(failed(NegotiationFailure::Garbage { lines, first }));
            }
            for id in [self.probe, self.initialize].into_iter().flatten() {
                shared.calls.shorten_deadline(now, id, shared.limits.probe);
            }
        }
        (lines >= shared.limits.opening_garbage).then(|| failed(NegotiationFailure::Garbage { lines, first }))
    }

    /// The stream of a pending opening request ended without a response.
    pub(super) fn lost(
        &mut self,
        shared: &mut Shared,
        now: Time,
        id: &RequestId,
        cause: TransportError,
    ) -> Option<EraDecision> {
        let id = id.as_i64()?;
        let probed = self.probe == Some(id);
        if !probed && self.initialize != Some(id) {
            return None;
        }
        shared.calls.take(id);
        if probed && self.client.era == EraChoice::Auto {
            self.probe = None;
            return self.fall_back(shared, now);
        }
        let method = if probed { Method::Discover } else { Method::Initialize };
        if let Some(failure) = self.unmatched_response(method, id) {
            return Some(failed(failure));
        }
        Some(failed(NegotiationFailure::Ended {
            last: TransportEnd::failed(cause),
            probe: self.probe_end.take(),
            garbage: self.first_garbage.clone(),
        }))
    }

    /// The failure to report in place of a timeout, when a response to no request of ours was received.
    fn unmatched_response(&mut self, method: Method, asked: i64) -> Option<NegotiationFailure> {
        let given = self.unmatched_id.take()?;
        Some(NegotiationFailure::UnknownResponse { method, asked: RequestId::from(asked), given })
    }

    pub(super) fn expired(
        &mut self,
        shared: &mut Shared,
        now: Time,
        expired: Expired,
    ) -> Option<EraDecision> {
        if self.probe == Some(expired.id) && self.client.era == EraChoice::Auto {
            // The probe stays pending: a modern-only server may start slowly and respond later.
            return self.fall_back(shared, now);
        }
        if let Some(failure) = self.unmatched_response(expired.method.clone(), expired.id) {
            return Some(failed(failure));
        }
        Some(failed(NegotiationFailure::TimedOut {
            method: expired.method,
            after: expired.after,
            garbage: self.first_garbage.clone(),
        }))
    }

    /// The link ended. After a probe, reconnects once and tries without the probe.
    pub(super) fn ended(&mut self, shared: &mut Shared, end: TransportEnd) -> Option<EraDecision> {
        let probed = self.client.era == EraChoice::Auto && self.probe_end.is_none();
        if shared.caps.reopens && probed {
            for id in [self.probe.take(), self.initialize.take()].into_iter().flatten() {
                shared.calls.take(id);
            }
            shared.queue.clear();
            self.probe_end = Some(end);
            shared.events.push_back(Event::Reopen);
            return None;
        }
        Some(failed(NegotiationFailure::Ended {
            last: end,
            probe: self.probe_end.take(),
            garbage: self.first_garbage.clone(),
        }))
    }
}

fn failed(failure: NegotiationFailure) -> EraDecision {
    EraDecision::Failed(CloseCause::Opening(failure))
}

/// Whether only a modern server sends this error.
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
