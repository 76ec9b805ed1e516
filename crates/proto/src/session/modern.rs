//! The modern era: no session. Every request carries its version and its client's capabilities, and only the client
//! sends requests.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic>. This module stores no protocol state. It remembers
//! open streams, and the last client description, which saves decoding the same text again.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::NotifyRefused;
use super::calls::{Call, PendingCall, Purpose};
use super::capabilities::{
    declares_tasks, missing_capability, missing_tasks_capability, supported_in, undeclared_input,
};
use super::envelope::{self, ResultEnvelope};
use super::event::{CallRefused, ClientInfo, Reply, RequestContext};
use super::role::{ClientRole, ResultReaders, Role, ServerRole};
use super::shared::{Shared, read};
use super::shared::{log_level, result_object};
use super::subscriptions::Stream;
use super::transport::{Origin, Route};
use super::violation::Violation;
use crate::method::MethodKind;
use crate::sorted_map::SortedMap;
use crate::text::Line;
use crate::types::meta::key;
use crate::types::{InputRequired, LoggingLevel, UnsupportedVersionData};
use crate::{
    Era, ErrorObject, Method, Notification, Payload, Profile, ProgressToken, Raw, Request, RequestId,
    Response, Time, Version, code, json, scan,
};

pub(super) struct Modern {
    pub(super) profile: &'static Profile,
    /// The members of `_meta` in our requests (client), or in our results (server).
    meta: Vec<(&'static str, String)>,
    /// The streams of the client, by the id of their request.
    pub(super) streams: SortedMap<RequestId, Stream>,
    /// The last client description with the texts that it was decoded from.
    cached_client: Option<Box<CachedClient>>,
}

struct CachedClient {
    capabilities: Box<str>,
    info: Option<Box<str>>,
    client: Arc<ClientInfo>,
}

/// The decoded `_meta` of a request.
struct RequestMeta {
    progress_token: Option<ProgressToken>,
    log_level: Option<LoggingLevel>,
    client: Arc<ClientInfo>,
}

impl Modern {
    pub(super) fn new(profile: &'static Profile, role: &Role) -> Self {
        let meta = match role {
            Role::Client(client) => client_meta(profile, client),
            Role::Server(server) => Raw::from_value(&server.info)
                .map(|info| (key::SERVER_INFO, info.as_str().into()))
                .into_iter()
                .collect(),
        };
        Self { profile, meta, streams: SortedMap::new(), cached_client: None }
    }

    pub(super) const fn profile(&self) -> &'static Profile {
        self.profile
    }

    pub(super) fn meta(&self) -> Vec<(&str, &str)> {
        self.meta.iter().map(|(key, value)| (*key, value.as_str())).collect()
    }

    // ---- outbound ----

    pub(super) fn call(&self, shared: &mut Shared, now: Time, call: &mut Call) -> Result<i64, CallRefused> {
        shared.check_outgoing(&call.method, MethodKind::Request, self.profile)?;
        if shared.is_server() && !self.profile.server_requests {
            let version = self.profile.version.clone();
            return Err(CallRefused::NotInVersion { method: call.method.clone(), version });
        }
        shared.check_capacity()?;
        let purpose = match call.method {
            Method::Listen => Purpose::Listen { acknowledged: false },
            _ => Purpose::Owner,
        };
        if shared.relays() && call.params.as_ref().and_then(version_in).is_some() {
            // The params already have the complete envelope of the client behind the gateway.
            return shared.send_request(now, call, purpose, &[]);
        }
        let mut meta = self.meta();
        let level;
        if let Some(from) = call.log_level {
            level = format!("\"{}\"", from.as_str());
            meta.push((key::LOG_LEVEL, &level));
        }
        shared.send_request(now, call, purpose, &meta)
    }

    pub(super) fn notify(
        &self,
        shared: &mut Shared,
        notification: Notification,
        route: Route,
        principal: Option<&str>,
    ) -> Result<(), NotifyRefused> {
        shared.check_outgoing(&notification.method, MethodKind::Notification, self.profile)?;
        if let Route::ReplyTo(id) = route {
            let pending = shared.requests.find(&id).ok_or(NotifyRefused::NoSuchRequest)?;
            let level = log_level(&notification);
            let from = pending.details().and_then(|details| details.log_level);
            let wanted = from.is_some_and(|from| level.is_some_and(|level| level >= from));
            if notification.method == Method::LogMessage && !wanted && !shared.relays() {
                return Ok(());
            }
            return shared.send_related(notification, &id);
        }
        if !shared.is_server() || shared.relays() {
            return shared.send_notification(notification, Route::Session);
        }
        self.notify_streams(shared, &notification, principal)
    }

    // ---- inbound ----

    pub(super) fn request(&mut self, shared: &mut Shared, request: Request, origin: Arc<Origin>) {
        let Role::Server(server) = &shared.role else {
            // Only clients send requests in this era, and a client must not send responses, so no error is sent.
            shared.violation(Violation::UnexpectedRequest { method: request.method });
            return;
        };
        if shared.requests.contains(&request.id) || self.streams.contains(&request.id) {
            return shared.reject_duplicate(request.id, None);
        }
        if request.method == Method::Initialize {
            // The error lists our versions for a legacy client.
            let requested = request.params.as_ref().and_then(|params| params.raw().member("protocolVersion"));
            let requested = requested.as_ref().and_then(Raw::to_string_value).unwrap_or_default();
            let error = unsupported_version(server, &requested);
            shared.violation(Violation::UnexpectedRequest { method: request.method });
            return shared.reply(request.id, None, Err(error));
        }
        let meta = match self.read_meta(server, request.params.as_ref()) {
            Ok(meta) => meta,
            Err((error, violation)) => {
                shared.violation(violation);
                return shared.reply(request.id, None, Err(error));
            }
        };
        if let Err(error) = shared.check_incoming(&request.method, self.profile) {
            return shared.reply(request.id, None, Err(error));
        }
        let relays = shared.relays();
        match request.method {
            Method::Discover if !relays => {
                let outcome = self.discover(shared);
                shared.reply(request.id, None, outcome);
            }
            Method::Listen if !relays => {
                self.listen(shared, request, &meta.client, origin.principal.clone());
            }
            _ => {
                let context = RequestContext {
                    profile: self.profile,
                    progress_token: meta.progress_token,
                    log_level: meta.log_level,
                    client: meta.client.clone(),
                    origin,
                    number: 0,
                };
                shared.admit(request, context, None, Some(meta.client));
            }
        }
    }

    fn read_meta(
        &mut self,
        server: &ServerRole,
        params: Option<&Payload>,
    ) -> Result<RequestMeta, (ErrorObject, Violation)> {
        let missing = |key: &'static str| {
            let text = format!("every request must carry `{key}` in its _meta");
            (ErrorObject::invalid_params(text), Violation::MissingMeta { key })
        };
        let bad = |key: &'static str| {
            let text = format!("`{key}` in _meta does not have the shape that it must have");
            (ErrorObject::invalid_params(text), Violation::MissingMeta { key })
        };
        let meta = params.and_then(Payload::meta_text).ok_or_else(|| missing(key::PROTOCOL_VERSION))?;
        let (mut version, mut capabilities, mut info, mut level, mut token) = (None, None, None, None, None);
        for (name, range) in scan::members_of(meta) {
            let found = match &*name {
                key::PROTOCOL_VERSION => &mut version,
                key::CLIENT_CAPABILITIES => &mut capabilities,
                key::CLIENT_INFO => &mut info,
                key::LOG_LEVEL => &mut level,
                "progressToken" => &mut token,
                _ => continue,
            };
            *found = meta.get(range);
        }
        let version = version.ok_or_else(|| missing(key::PROTOCOL_VERSION))?;
        let version = json::string_value(version).ok_or_else(|| bad(key::PROTOCOL_VERSION))?;
        if version != self.profile.version.as_str() {
            let requested = Version::parse(&version);
            return Err((unsupported_version(server, &version), Violation::UnsupportedVersion { requested }));
        }
        let capabilities = capabilities.ok_or_else(|| missing(key::CLIENT_CAPABILITIES))?;
        let client = self.client(capabilities, info).ok_or_else(|| bad(key::CLIENT_CAPABILITIES))?;
        let log_level = level.map(json::from_text).transpose().map_err(|_| bad(key::LOG_LEVEL))?;
        let progress_token = token.map(json::from_text).transpose().map_err(|_| bad("progressToken"))?;
        Ok(RequestMeta { progress_token, log_level, client })
    }

    /// The client as this request describes it. Reuses the last description if the text is the same; the request still
    /// stands for itself.
    fn client(&mut self, capabilities: &str, info: Option<&str>) -> Option<Arc<ClientInfo>> {
        if let Some(last) = &self.cached_client
            && *last.capabilities == *capabilities
            && last.info.as_deref() == info
        {
            return Some(last.client.clone());
        }
        let client = Arc::new(ClientInfo {
            // For display only, so invalid information is omitted.
            info: info.and_then(|info| json::from_text(info).ok()).map(Arc::new),
            capabilities: json::from_text(capabilities).ok()?,
        });
        // A long text would stay in memory.
        let is_short = |text: &str| text.len() < Raw::SHARED_FROM;
        self.cached_client = (is_short(capabilities) && info.is_none_or(is_short)).then(|| {
            let (capabilities, info) = (capabilities.into(), info.map(Into::into));
            Box::new(CachedClient { capabilities, info, client: client.clone() })
        });
        Some(client)
    }

    /// The response to `server/discover`.
    fn discover(&self, shared: &Shared) -> Result<Payload, ErrorObject> {
        let Role::Server(server) = &shared.role else {
            return Err(ErrorObject::method_not_found("server/discover"));
        };
        let capabilities = supported_in(server.capabilities.clone(), self.profile);
        let result = crate::types::DiscoverResult::new(server.versions.clone(), capabilities)
            .with_instructions(server.instructions.clone());
        let result =
            Payload::from_value(&result).map_err(|error| ErrorObject::internal(error.to_string()))?;
        Ok(envelope::complete(&self.meta(), &Method::Discover, &result))
    }

    /// The client has closed a stream or the exchange of a request.
    pub(super) fn detach(&mut self, shared: &mut Shared, id: &RequestId) {
        if self.streams.remove(id).is_none() {
            shared.peer_cancelled(id, None);
        }
    }

    pub(super) fn notification(&mut self, shared: &mut Shared, now: Time, notification: Notification) {
        match notification.method {
            Method::Cancelled => {
                let params = read::<crate::types::CancelledParams>(&notification);
                let stream = params.and_then(|params| params.request_id);
                if stream.is_none_or(|id| self.streams.remove(&id).is_none()) {
                    shared.cancelled(&notification);
                }
            }
            Method::Progress if !shared.is_server() => shared.progress(now, notification),
            // Only a server reports progress.
            Method::Progress => {
                shared.violation(Violation::UnexpectedNotification { method: Method::Progress });
            }
            _ => {
                // A notification of a finished stream is delivered, but belongs to no call.
                let stream = subscription(&notification).filter(|id| {
                    let pending = shared.calls.find(id);
                    pending.is_some_and(|(_, pending)| matches!(pending.purpose, Purpose::Listen { .. }))
                });
                if notification.method == Method::SubscriptionsAcknowledged {
                    let acknowledged = stream.as_ref().and_then(|id| shared.calls.find(id)).map(|(id, _)| id);
                    if acknowledged.and_then(|id| shared.calls.acknowledge(id)).is_none() {
                        let id = subscription(&notification).and_then(|id| id.as_i64());
                        if id.is_some_and(|id| shared.ended_calls.contains(id)) {
                            return;
                        }
                        let method = Method::SubscriptionsAcknowledged;
                        shared.violation(Violation::UnexpectedNotification { method });
                        return;
                    }
                }
                shared.notification(notification, self.profile, stream);
            }
        }
    }

    pub(super) fn response(&self, shared: &mut Shared, response: Response) {
        let client = match &shared.role {
            Role::Client(client) if client.relays => {
                return shared.response(response, |_, result| Ok(Reply::Verbatim(result.indexed())));
            }
            Role::Client(client) => Some((client.results, declares_tasks(&client.capabilities))),
            // A server of this era sends no requests.
            Role::Server(_) => None,
        };
        shared.response(response, |pending, result| interpret(pending, result, client));
    }

    pub(super) fn respond(&self, shared: &mut Shared, id: &RequestId, reply: Result<Reply, ErrorObject>) {
        let relays = shared.relays();
        shared.finish_request(id, |pending| {
            let (method, client) =
                (&pending.method, pending.details().and_then(|details| details.client.as_deref()));
            match reply {
                Ok(Reply::Complete(result)) => result_object(result)
                    .map(|result| envelope::complete(&self.meta(), method, &result.indexed())),
                Ok(Reply::NeedInput(input)) => self.need_input(method, client, &input),
                Ok(Reply::Task(task))
                    if client.is_some_and(|client| declares_tasks(&client.capabilities)) =>
                {
                    result_object(task)
                        .map(|task| envelope::enclose(&self.meta(), "\"resultType\":\"task\",", "", &task))
                }
                Ok(Reply::Task(_)) => Err(missing_tasks_capability()),
                Ok(Reply::Verbatim(result)) => Ok(result),
                Err(error) if relays => Err(error),
                Err(error) if error.code == code::RESOURCE_NOT_FOUND => {
                    Err(ErrorObject { code: self.profile.resource_not_found, ..error })
                }
                Err(error) => Err(error),
            }
        });
    }

    fn need_input(
        &self,
        method: &Method,
        client: Option<&ClientInfo>,
        input: &InputRequired,
    ) -> Result<Payload, ErrorObject> {
        if !method.may_need_input() {
            return Err(ErrorObject::internal(format!(
                "{method} may not be answered with a request for input"
            )));
        }
        let declared = client.map(|client| &client.capabilities);
        for request in input.input_requests.iter().flat_map(|requests| requests.values()) {
            if let Some(missing) = declared.and_then(|declared| undeclared_input(request, declared)) {
                return Err(missing_capability(missing));
            }
        }
        let result = Payload::from_value(input).map_err(|error| ErrorObject::internal(error.to_string()))?;
        Ok(envelope::enclose(&self.meta(), "\"resultType\":\"input_required\",", "", &result))
    }

    pub(super) fn enclosure(&self, method: &Method) -> ResultEnvelope {
        ResultEnvelope::new(self.meta.clone(), method.clone())
    }
}

/// The members of `_meta` in every request of a client.
pub(super) fn client_meta(profile: &Profile, client: &ClientRole) -> Vec<(&'static str, String)> {
    let text = |value: Result<Raw, json::WriteError>| value.map(|raw| String::from(raw.as_str()));
    let mut meta = alloc::vec![(key::PROTOCOL_VERSION, format!("\"{}\"", profile.version))];
    let presents = client.presents.as_deref();
    let (info, capabilities) = (
        presents.and_then(|presents| presents.info.clone()),
        presents.and_then(|presents| presents.capabilities.clone()),
    );
    let info = info.map_or_else(|| Raw::from_value(&client.info), Ok);
    meta.extend(text(info).map(|info| (key::CLIENT_INFO, info)));
    let capabilities = capabilities.map_or_else(|| Raw::from_value(&client.capabilities), Ok);
    let capabilities = text(capabilities).unwrap_or_else(|_| "{}".into());
    meta.push((key::CLIENT_CAPABILITIES, capabilities));
    meta
}

/// Decodes a result that requests input.
fn read_input_required(
    results: ResultReaders,
    method: &Method,
    result: &Raw,
) -> Result<InputRequired, String> {
    if !method.may_need_input() {
        return Err(format!("{method} may not be answered with `input_required`"));
    }
    let input = (results.input_required)(result).map_err(|error| error.to_string())?;
    if input.input_requests.as_ref().is_none_or(|requests| requests.is_empty())
        && input.request_state.is_none()
    {
        return Err("`input_required` with neither `inputRequests` nor `requestState`".into());
    }
    Ok(input)
}

/// Decodes a result by its `resultType`. `client`: its readers, and whether it accepts tasks.
fn interpret(
    pending: &PendingCall,
    result: Payload,
    client: Option<(ResultReaders, bool)>,
) -> Result<Reply, String> {
    let kind = match result.result_type_text() {
        None => "complete".into(),
        Some(kind) => json::string_value(kind).ok_or("`resultType` is not a string")?,
    };
    match (&*kind, client) {
        ("complete", _) => Ok(Reply::Complete(result.into_raw())),
        ("input_required", Some((results, _))) => {
            let input = read_input_required(results, &pending.method, result.raw())?;
            Ok(Reply::NeedInput(Box::new(input)))
        }
        ("task", Some((_, true))) => Ok(Reply::Task(result.into_raw())),
        (other, _) => Err(format!("unknown `resultType` `{}`", Line::of(other))),
    }
}

/// The error that lists the versions of the server.
pub(super) fn unsupported_version(server: &ServerRole, requested: &str) -> ErrorObject {
    version_error(UnsupportedVersionData::new(server.versions.clone(), requested))
}

fn version_error(data: UnsupportedVersionData) -> ErrorObject {
    let error = ErrorObject::new(
        code::UNSUPPORTED_PROTOCOL_VERSION,
        "this server does not speak that protocol version",
    );
    match Raw::from_value(&data) {
        Ok(data) => error.with_data(data),
        Err(_) => error,
    }
}

/// The error to a modern request on a connection that negotiated another version and serves no second one.
pub(super) fn other_version_agreed(request: &Request, agreed: &Profile) -> ErrorObject {
    let requested = version_of(request).and_then(json::string_value).unwrap_or_default();
    version_error(UnsupportedVersionData::new(alloc::vec![agreed.version.clone()], &requested))
}

/// The id of the subscription that a notification belongs to.
fn subscription(notification: &Notification) -> Option<RequestId> {
    let meta = notification.params.as_ref()?.meta_text()?;
    json::from_text(json::member(meta, key::SUBSCRIPTION_ID)?).ok()
}

/// Whether a request carries its protocol version.
pub(super) fn names_its_version(request: &Request) -> bool {
    version_of(request).is_some()
}

/// Whether a request carries the modern version of this crate.
pub(super) fn names_our_version(request: &Request) -> bool {
    let version = version_of(request).and_then(json::string_value);
    version.is_some_and(|version| version == newest().version.as_str())
}

/// The text of the version in the params of a request.
fn version_of(request: &Request) -> Option<&str> {
    request.params.as_ref().and_then(version_in)
}

fn version_in(params: &Payload) -> Option<&str> {
    json::member(params.meta_text()?, key::PROTOCOL_VERSION)
}

/// The profile of a modern session.
pub(super) fn newest() -> &'static Profile {
    Profile::newest(Era::Modern)
}
