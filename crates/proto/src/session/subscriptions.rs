//! The streams that modern clients listen on (`subscriptions/listen`).
//!
//! Part of `modern`. A notification that belongs to no request is sent only on streams whose filter matches it. Limited
//! by [`Limits::subscriptions`](super::Limits::subscriptions) in streams and in names.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::NotifyRefused;
use super::capabilities::{declares_tasks, missing_tasks_capability};
use super::envelope::{self, Additions};
use super::event::ClientInfo;
use super::modern::Modern;
use super::role::Role;
use super::shared::{Shared, too_long_subscription, too_many_subscriptions};
use super::transport::Route;
use crate::method::MethodKind;
use crate::types::meta::key;
use crate::types::{ListenParams, SubscriptionFilter};
use crate::{ErrorObject, Message, Method, Notification, Payload, Raw, Request, RequestId, Response};

/// A stream that a client listens on.
pub(super) struct Stream {
    filter: SubscriptionFilter,
    /// The authenticated principal that opened it.
    principal: Option<Box<str>>,
}

impl Modern {
    /// Sends a notification on every stream whose filter matches it. With a `principal`, only on the streams that this
    /// principal opened.
    pub(super) fn notify_streams(
        &self,
        shared: &mut Shared,
        notification: &Notification,
        principal: Option<&str>,
    ) -> Result<(), NotifyRefused> {
        let about = match notification.method {
            Method::Tasks => notification.params.as_ref().and_then(|params| params.raw().member("taskId")),
            _ => notification.params.as_ref().and_then(Payload::uri),
        };
        let about = about.as_ref().and_then(Raw::to_string_value);
        for (id, stream) in self.streams.iter() {
            let other_principal = principal.is_some() && stream.principal.as_deref() != principal;
            if other_principal || !stream.filter.selects(&notification.method, about.as_deref()) {
                continue;
            }
            let text = id.to_string();
            let additions = Additions { meta: &[(key::SUBSCRIPTION_ID, &text)], ..Additions::default() };
            let params = Some(envelope::splice(notification.params.clone(), false, &additions));
            let notification = Notification { method: notification.method.clone(), params };
            shared.send_notification(notification, Route::ReplyTo(id.clone()))?;
        }
        Ok(())
    }

    /// Whether a notification that belongs to no request would be delivered.
    pub(super) fn has_listener(&self, method: &Method, uri: Option<&str>, is_server: bool) -> bool {
        !is_server || self.streams.values().any(|stream| stream.filter.selects(method, uri))
    }

    /// Whether this request is an open stream.
    pub(super) fn is_stream(&self, id: &RequestId) -> bool {
        self.streams.contains(id)
    }

    pub(super) fn listen(
        &mut self,
        shared: &mut Shared,
        request: Request,
        client: &ClientInfo,
        principal: Option<Box<str>>,
    ) {
        // The acknowledgement waits in the queue of own messages, also when the stream is cancelled.
        let has_room = shared.check_own_queue().map_err(|full| ErrorObject::internal(full.to_string()));
        let filter = match has_room.and_then(|()| self.read_filter(shared, request.params.as_ref(), client)) {
            Ok(filter) => self.supported_filter(shared, filter),
            Err(error) => return shared.reply(request.id, None, Err(error)),
        };
        let id = request.id.to_string();
        let notifications = Raw::from_value(&filter);
        let notifications = notifications.as_ref().map_or("{}", Raw::as_str);
        let params = Raw::trusted(format!("{{\"notifications\":{notifications}}}").into());
        let additions = Additions { meta: &[(key::SUBSCRIPTION_ID, &id)], ..Additions::default() };
        let params = Some(envelope::splice(Some(Payload::from_raw(params)), true, &additions));
        let acknowledged = Notification { method: Method::SubscriptionsAcknowledged, params };
        // Queued with the events that follow it, so that the acknowledgement is always the first.
        shared.queue.push_own(Message::Notification(acknowledged), Route::ReplyTo(request.id.clone()));
        self.streams.insert(request.id, Stream { filter, principal });
    }

    /// Decodes the filter of a request, and checks the limits and the capability for tasks.
    fn read_filter(
        &self,
        shared: &Shared,
        params: Option<&Payload>,
        client: &ClientInfo,
    ) -> Result<SubscriptionFilter, ErrorObject> {
        let params = params.map(|params| params.raw().decode::<ListenParams>()).transpose();
        let params = params.map_err(|error| ErrorObject::invalid_params(error.to_string()))?;
        let filter = params.map(|params| params.notifications).unwrap_or_default();
        if filter.task_ids.is_some() && !declares_tasks(&client.capabilities) {
            return Err(missing_tasks_capability());
        }
        let limit = shared.limits.subscriptions;
        let subscribed: usize = self.streams.values().map(|stream| names(&stream.filter).count()).sum();
        if self.streams.len() >= limit || subscribed + names(&filter).count() > limit {
            return Err(too_many_subscriptions(limit));
        }
        let max_bytes = shared.limits.subscription_bytes;
        if names(&filter).any(|name| name.len() > max_bytes) {
            return Err(too_long_subscription(max_bytes));
        }
        Ok(filter)
    }

    /// The part of a filter that this server supports.
    fn supported_filter(&self, shared: &Shared, mut filter: SubscriptionFilter) -> SubscriptionFilter {
        let offers =
            |method: Method| shared.check_outgoing(&method, MethodKind::Notification, self.profile).is_ok();
        let tasks = match &shared.role {
            Role::Server(server) => server.capabilities.extensions.as_ref(),
            Role::Client(_) => None,
        };
        let tasks = tasks.is_some_and(|known| known.contains_key(crate::types::task::EXTENSION));
        filter.task_ids = filter.task_ids.filter(|_| tasks);
        filter.tools_list_changed = filter.tools_list_changed.filter(|_| offers(Method::ToolListChanged));
        filter.prompts_list_changed =
            filter.prompts_list_changed.filter(|_| offers(Method::PromptListChanged));
        filter.resources_list_changed =
            filter.resources_list_changed.filter(|_| offers(Method::ResourceListChanged));
        filter.resource_subscriptions =
            filter.resource_subscriptions.filter(|_| offers(Method::ResourceUpdated));
        filter
    }

    /// Ends every stream with a result, and on a shared channel also with a cancellation.
    pub(super) fn end_streams(&mut self, shared: &mut Shared) {
        for id in core::mem::take(&mut self.streams).into_keys().chain(shared.detach_relayed_streams()) {
            let text = id.to_string();
            if !shared.caps.exchanges {
                let params = Raw::trusted(format!("{{\"requestId\":{text}}}").into());
                let params = Some(Payload::from_raw(params));
                let cancelled = Notification { method: Method::Cancelled, params };
                shared.queue.push_own(Message::Notification(cancelled), Route::ReplyTo(id.clone()));
            }
            let mut meta = self.meta();
            meta.push((key::SUBSCRIPTION_ID, &text));
            let result = envelope::splice(
                None,
                true,
                &Additions { lead: envelope::COMPLETE, meta: &meta, token: None },
            );
            let response = Response { id: Some(id.clone()), outcome: Ok(result) };
            shared.queue.push_own(Message::Response(response), Route::ReplyTo(id));
        }
    }
}

impl Shared {
    /// The open streams of a relaying session, which the other side of the gateway serves. Their requests are no longer
    /// pending afterwards, and no handler waits for them.
    pub(super) fn detach_relayed_streams(&mut self) -> Vec<RequestId> {
        if !self.relays() || !self.is_server() {
            return Vec::new();
        }
        let ids = self.requests_of(&Method::Listen);
        for id in &ids {
            self.peer_cancelled(id, None);
        }
        ids
    }
}

/// The resources and tasks of a filter.
fn names(filter: &SubscriptionFilter) -> impl Iterator<Item = &String> {
    filter.resource_subscriptions.iter().chain(&filter.task_ids).flatten()
}
