//! Streams of notifications that a client opens on a modern server, and subscriptions to resources in both eras.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>,
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions>

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use mcpjoin_proto::session::{CallError, CallRefused};
use mcpjoin_proto::types::{
    AcknowledgedParams, EmptyResult, ListenParams, SubscribeParams, SubscriptionFilter, UnsubscribeParams,
};
use mcpjoin_proto::{Method, Notification, Payload, RequestId};
use tokio::task::AbortHandle;

use super::input::OnNotification;
use super::{Client, ClientError, decode, encode};
use crate::connection::{CallEvent, Calling};

/// A stream of notifications from a modern server, acknowledged and open.
///
/// Ends when the server ends it, with the connection, or when it is dropped: then the server is told. Notifications
/// that nobody takes are kept, 1,024 of them; beyond that the oldest are dropped and counted
/// ([`Subscription::dropped`]).
#[must_use = "dropping it ends the stream"]
pub struct Subscription {
    calling: Option<Calling>,
    acknowledged: SubscriptionFilter,
    /// Keeps the connection open.
    _client: Option<Client>,
}

impl Subscription {
    /// What the server honours of the filter that was asked for.
    #[must_use]
    pub const fn acknowledged(&self) -> &SubscriptionFilter {
        &self.acknowledged
    }

    /// The id of the stream: that of the request which opened it. `None` when the stream has ended.
    #[must_use]
    pub fn id(&self) -> Option<RequestId> {
        self.calling.as_ref().and_then(Calling::id)
    }

    /// How many notifications were dropped because nobody took them.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.calling.as_ref().map_or(0, Calling::dropped)
    }

    /// The next notification; `None` when the server has ended the stream. When it ends otherwise (the connection
    /// is lost), that is told once. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Notification, ClientError>> {
        let calling = self.calling.as_mut()?;
        while let Some(event) = calling.next_event().await {
            if let CallEvent::Notification(notification) = event {
                return Some(Ok(notification));
            }
        }
        let end = calling.await;
        self.calling = None;
        end.err().map(|error| Err(error.into()))
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("id", &self.id())
            .field("acknowledged", &self.acknowledged)
            .finish_non_exhaustive()
    }
}

/// The streams that stand for `resources/subscribe` in the modern era, by resource.
#[derive(Debug, Default)]
pub(super) struct ResourceStreams(Mutex<BTreeMap<String, AbortHandle>>);

impl ResourceStreams {
    fn is_open(&self, uri: &str) -> bool {
        let resource_streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        resource_streams.get(uri).is_some_and(|task| !task.is_finished())
    }

    fn insert(&self, uri: String, task: AbortHandle) {
        let mut resource_streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        resource_streams.retain(|_, task| !task.is_finished());
        if let Some(former) = resource_streams.insert(uri, task) {
            former.abort();
        }
    }

    fn remove(&self, uri: &str) {
        let task = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uri);
        if let Some(task) = task {
            task.abort();
        }
    }
}

impl Drop for ResourceStreams {
    fn drop(&mut self) {
        for task in self.0.get_mut().unwrap_or_else(PoisonError::into_inner).values() {
            task.abort();
        }
    }
}

impl Client {
    /// Opens a stream of notifications, in the modern era, and waits until the server has acknowledged it: what it
    /// honours is in [`Subscription::acknowledged`]. In the legacy era a server sends its notifications by itself, to
    /// [`ClientBuilder::on_notification`](super::ClientBuilder::on_notification).
    ///
    /// # Errors
    /// As every call; in the legacy era always
    /// [`CallRefused::NotInVersion`].
    pub async fn listen(&self, filter: SubscriptionFilter) -> Result<Subscription, ClientError> {
        let mut subscription = self.open_stream(filter).await?;
        subscription._client = Some(self.clone());
        Ok(subscription)
    }

    pub(super) async fn open_stream(&self, filter: SubscriptionFilter) -> Result<Subscription, ClientError> {
        let method = Method::Listen;
        let call = self.call(Method::Listen).with_params(encode(&method, &ListenParams::new(filter))?);
        let mut calling = self.inner.connection.call(call);
        while let Some(event) = calling.next_event().await {
            let CallEvent::Notification(notification) = event else { continue };
            // The acknowledgement is the first message of a stream, so there is nothing before it to be kept.
            if notification.method != Method::SubscriptionsAcknowledged {
                continue;
            }
            let Some(params) = notification.params.map(Payload::into_raw) else { break };
            let acknowledged: AcknowledgedParams = decode(&method, &params)?;
            return Ok(Subscription {
                calling: Some(calling),
                acknowledged: acknowledged.notifications,
                _client: None,
            });
        }
        calling.await?;
        Err(ClientError::BadResult { method, what: "the stream ended before it was acknowledged".into() })
    }

    /// Wants to be told when this resource changes: to
    /// [`ClientBuilder::on_notification`](super::ClientBuilder::on_notification). In the modern era this opens a
    /// stream, which lives until [`Client::unsubscribe`] or the end of the connection. To subscribe twice is to
    /// subscribe once.
    ///
    /// # Errors
    /// As every call; [`ClientError::NotHonoured`] when a modern server does not honour it.
    pub async fn subscribe(&self, uri: impl Into<String>) -> Result<(), ClientError> {
        let uri = uri.into();
        if self.has(&Method::Subscribe) {
            return self
                .request::<_, EmptyResult>(Method::Subscribe, &SubscribeParams::new(uri))
                .await
                .map(drop);
        }
        self.check_subscribes(Method::Subscribe)?;
        if self.inner.resource_streams.is_open(&uri) {
            return Ok(());
        }
        let filter = SubscriptionFilter::default().with_resource_subscriptions(vec![uri.clone()]);
        let stream = self.open_stream(filter).await?;
        if stream.acknowledged.resource_subscriptions.as_ref().is_none_or(|honoured| !honoured.contains(&uri))
        {
            return Err(ClientError::NotHonoured { uri });
        }
        let task = tokio::spawn(forward(stream, self.inner.on_notification.clone()));
        self.inner.resource_streams.insert(uri, task.abort_handle());
        Ok(())
    }

    /// No longer wants to be told when this resource changes.
    ///
    /// # Errors
    /// As every call.
    pub async fn unsubscribe(&self, uri: impl Into<String>) -> Result<(), ClientError> {
        let uri = uri.into();
        if self.has(&Method::Unsubscribe) {
            let params = UnsubscribeParams::new(uri);
            return self.request::<_, EmptyResult>(Method::Unsubscribe, &params).await.map(drop);
        }
        self.check_subscribes(Method::Unsubscribe)?;
        self.inner.resource_streams.remove(&uri);
        Ok(())
    }

    /// The capability is the same in both eras.
    fn check_subscribes(&self, method: Method) -> Result<(), ClientError> {
        let resources = self.inner.peer.server_capabilities().and_then(|server| server.resources.as_ref());
        if resources.is_some_and(|resources| resources.subscribe == Some(true)) {
            return Ok(());
        }
        let refused = CallRefused::Undeclared { method, capability: "resources.subscribe" };
        Err(CallError::Refused(refused).into())
    }
}

/// Hands on what comes, until the stream ends.
async fn forward(mut stream: Subscription, on_notification: Option<OnNotification>) {
    while let Some(next) = stream.next().await {
        match next {
            Ok(notification) => {
                if let Some(on_notification) = &on_notification {
                    on_notification(notification);
                }
            }
            Err(error) => tracing::debug!(target: "mcpjoin", %error, "a subscription has ended"),
        }
    }
}
