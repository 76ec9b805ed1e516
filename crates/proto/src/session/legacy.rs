//! The legacy era: one session, opened with `initialize`, with requests in both directions.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle>. The [`Profile`] holds the differences
//! between the four revisions.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::NotifyRefused;
use super::calls::{Call, Purpose};
use super::event::{CallRefused, ClientInfo, Event, Reply, RequestContext};
use super::limits::Limits;
use super::shared::Shared;
use super::shared::{log_level, result_object, too_long_subscription, too_many_subscriptions};
use super::transport::{Origin, Route};
use super::violation::Violation;
use crate::method::MethodKind;
use crate::sorted_map::SortedSet;
use crate::types::resource::is_within;
use crate::types::{LoggingLevel, SetLevelParams};
use crate::{
    ErrorObject, Message, Method, Notification, Payload, Profile, ProgressToken, Raw, Request, RequestId,
    Response, Time, json,
};

pub(super) struct Legacy {
    profile: &'static Profile,
    /// The client, when we are the server.
    client: Arc<ClientInfo>,
    /// The client has sent `initialized`. Until then a server queues its notifications.
    ready: bool,
    queued: Vec<Notification>,
    log_level: Option<LoggingLevel>,
    subscribed: SortedSet<String>,
}

impl Legacy {
    pub(super) fn new(profile: &'static Profile, client: Arc<ClientInfo>, ready: bool) -> Self {
        Self { profile, client, ready, queued: Vec::new(), log_level: None, subscribed: SortedSet::new() }
    }

    pub(super) const fn profile(&self) -> &'static Profile {
        self.profile
    }

    /// Refers to an equal description of the client.
    pub(super) fn share_client(&mut self, equal: &Arc<ClientInfo>) {
        self.client = equal.clone();
    }

    /// Whether the opening is complete on both sides.
    pub(super) const fn is_ready(&self) -> bool {
        self.ready
    }

    // ---- outbound ----

    pub(super) fn call(&self, shared: &mut Shared, now: Time, call: &mut Call) -> Result<i64, CallRefused> {
        // A handler may send a request before `initialized`, on behalf of a request of the client.
        if !self.ready && call.on_behalf_of.is_none() && call.method != Method::Ping {
            return Err(CallRefused::NotOpen);
        }
        shared.check_outgoing(&call.method, MethodKind::Request, self.profile)?;
        if call.method == Method::Initialize {
            let version = self.profile.version.clone();
            return Err(CallRefused::NotInVersion { method: Method::Initialize, version });
        }
        shared.check_capacity()?;
        shared.send_request(now, call, Purpose::Owner, &[])
    }

    pub(super) fn notify(
        &mut self,
        shared: &mut Shared,
        notification: Notification,
        route: Route,
    ) -> Result<(), NotifyRefused> {
        shared.check_outgoing(&notification.method, MethodKind::Notification, self.profile)?;
        let relays = shared.relays();
        if notification.method == Method::LogMessage
            && !relays
            && log_level(&notification).is_some_and(|level| !self.wants_log(level))
        {
            return Ok(());
        }
        if notification.method == Method::ResourceUpdated && shared.is_server() && !relays {
            let uri = notification.params.as_ref().and_then(Payload::uri);
            let uri = uri.as_ref().and_then(Raw::to_string_value);
            let uri = uri.ok_or_else(|| NotifyRefused::Invalid("`uri` is missing".into()))?;
            if !self.is_subscribed(&uri) {
                return Ok(());
            }
        }
        match route {
            Route::ReplyTo(id) if shared.requests.contains(&id) => shared.send_related(notification, &id),
            Route::ReplyTo(_) => Err(NotifyRefused::NoSuchRequest),
            Route::Session if self.ready => shared.send_notification(notification, Route::Session),
            Route::Session if !relays && self.queued.contains(&notification) => Ok(()),
            Route::Session if self.queued.len() >= shared.limits.subscriptions => {
                let value = shared.limits.subscriptions;
                Err(CallRefused::Full { limit: "subscriptions", value }.into())
            }
            Route::Session => {
                self.queued.push(notification);
                Ok(())
            }
        }
    }

    fn is_subscribed(&self, uri: &str) -> bool {
        self.subscribed.keys().any(|subscribed| is_within(uri, subscribed))
    }

    /// Whether the client is ready for a notification, or subscribed to this resource. A subscription that is being answered
    /// counts.
    pub(super) fn has_listener(&self, shared: &Shared, uri: Option<&str>) -> bool {
        uri.map_or(self.ready, |uri| {
            self.is_subscribed(uri) || !shared.requests_of(&Method::Subscribe).is_empty()
        })
    }

    /// Whether the client wants a log message of this level. Until it sets a level, the server decides.
    pub(super) fn wants_log(&self, level: LoggingLevel) -> bool {
        self.log_level.is_none_or(|from| level >= from)
    }

    // ---- inbound ----

    pub(super) fn request(
        &mut self,
        shared: &mut Shared,
        request: Request,
        origin: Arc<Origin>,
        batch: Option<u64>,
    ) {
        if shared.requests.contains(&request.id) {
            return shared.reject_duplicate(request.id, batch);
        }
        let outcome = match request.method {
            Method::Ping => Ok(Payload::from_raw(Raw::empty_object())),
            Method::Initialize if shared.is_server() => {
                shared.violation(Violation::InitializedTwice);
                Err(ErrorObject::invalid_request("this session is already initialized"))
            }
            Method::SetLevel if shared.is_server() && shared.relays() => {
                // The level is noted for the messages of this session. The other side of the gateway checks it.
                let _ = self.set_level(&request);
                return self.admit(shared, request, origin, batch);
            }
            _ => match shared.check_incoming(&request.method, self.profile) {
                Err(error) => Err(error),
                Ok(()) if shared.relays() => return self.admit(shared, request, origin, batch),
                Ok(()) if request.method == Method::SetLevel => self.set_level(&request),
                Ok(()) => match self.check_subscription(&request, &shared.limits) {
                    Err(error) => Err(error),
                    Ok(()) => return self.admit(shared, request, origin, batch),
                },
            },
        };
        shared.reply(request.id, batch, outcome);
    }

    fn admit(&self, shared: &mut Shared, request: Request, origin: Arc<Origin>, batch: Option<u64>) {
        let context = self.context(&request, origin);
        shared.admit(request, context, batch, None);
    }

    /// Whether a request is a subscription above the limits of number or length.
    fn check_subscription(&self, request: &Request, limits: &Limits) -> Result<(), ErrorObject> {
        if request.method != Method::Subscribe {
            return Ok(());
        }
        let uri = uri_of(request);
        if uri.as_ref().is_some_and(|uri| uri.len() > limits.subscription_bytes) {
            return Err(too_long_subscription(limits.subscription_bytes));
        }
        if self.is_full(limits.subscriptions, uri.as_deref()) {
            return Err(too_many_subscriptions(limits.subscriptions));
        }
        Ok(())
    }

    /// Whether a subscription to this resource would exceed the limit.
    fn is_full(&self, limit: usize, uri: Option<&str>) -> bool {
        self.subscribed.len() >= limit && !uri.is_some_and(|uri| self.subscribed.contains(uri))
    }

    fn context(&self, request: &Request, origin: Arc<Origin>) -> RequestContext {
        RequestContext {
            profile: self.profile,
            progress_token: progress_token(request.params.as_ref()),
            log_level: self.log_level,
            client: self.client.clone(),
            origin,
            number: 0,
        }
    }

    fn set_level(&mut self, request: &Request) -> Result<Payload, ErrorObject> {
        let params = request.params.as_ref().map(|params| params.raw().decode::<SetLevelParams>());
        match params {
            Some(Ok(params)) => {
                self.log_level = Some(params.level);
                Ok(Payload::from_raw(Raw::empty_object()))
            }
            Some(Err(error)) => Err(ErrorObject::invalid_params(error.to_string())),
            None => Err(ErrorObject::invalid_params("`level` is missing")),
        }
    }

    pub(super) fn notification(&mut self, shared: &mut Shared, now: Time, notification: Notification) {
        match notification.method {
            Method::Initialized if shared.is_server() => {
                if !self.ready {
                    self.ready = true;
                    for queued in self.queued.drain(..) {
                        shared.queue.push_own(Message::Notification(queued), Route::Session);
                    }
                    shared.events.push_back(Event::Opened);
                }
            }
            Method::Cancelled => shared.cancelled(&notification),
            Method::Progress => shared.progress(now, notification),
            _ => shared.notification(notification, self.profile, None),
        }
    }

    pub(super) fn response(&self, shared: &mut Shared, response: Response) {
        let relays = shared.relays();
        shared.response(response, |_, result| {
            Ok(if relays { Reply::Verbatim(result.indexed()) } else { Reply::Complete(result.into_raw()) })
        });
    }

    pub(super) fn respond(&mut self, shared: &mut Shared, id: &RequestId, reply: Result<Reply, ErrorObject>) {
        let outcome = match reply {
            Ok(Reply::Complete(result)) => result_object(result),
            Ok(Reply::Verbatim(result)) => Ok(result),
            Ok(Reply::NeedInput(_)) => Err(ErrorObject::internal(
                "the handler asked for input in a way that this protocol version does not have",
            )),
            Ok(Reply::Task(_)) => Err(ErrorObject::internal(
                "the handler answered with a task, which this request did not ask for",
            )),
            Err(error) => Err(error),
        };
        let limit = shared.limits.subscriptions;
        let mut granted = outcome.is_ok() && !shared.relays();
        let finished = shared.finish_request(id, |pending| {
            // Several subscriptions may be pending at once, so the limit is checked when each one is granted.
            if granted && pending.method == Method::Subscribe && self.is_full(limit, pending.uri()) {
                granted = false;
                return Err(too_many_subscriptions(limit));
            }
            outcome
        });
        let Some(pending) = finished else { return };
        match (&pending.method, pending.uri()) {
            (Method::Subscribe, Some(uri)) if granted => {
                self.subscribed.add(uri.to_owned());
            }
            (Method::Unsubscribe, Some(uri)) if granted => {
                self.subscribed.remove(uri);
            }
            _ => {}
        }
    }
}

/// The resource of a request.
fn uri_of(request: &Request) -> Option<String> {
    request.params.as_ref()?.uri()?.to_string_value().map(alloc::borrow::Cow::into_owned)
}

/// The progress token of a request.
pub(super) fn progress_token(params: Option<&Payload>) -> Option<ProgressToken> {
    json::from_text(json::member(params?.meta_text()?, "progressToken")?).ok()
}
