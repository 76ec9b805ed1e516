//! Notification streams of modern servers, and subscriptions to resources in both eras.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>,
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions>

use std::collections::HashMap;
use std::fmt;

use mcpjoin_proto::session::{CallError, CallRefused};
use mcpjoin_proto::types::{
    AcknowledgedParams, EmptyResult, ListenParams, SubscribeParams, SubscriptionFilter, UnsubscribeParams,
};
use mcpjoin_proto::{Method, Notification, Payload, RequestId};
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use super::input::OnNotification;
use super::{Client, ClientError, decode, encode};
use crate::connection::{CallEvent, Calling};

/// An open stream of notifications from a modern server. Created by [`Client::listen`].
///
/// It ends when the server ends it, with the connection, or when it is dropped, which tells the server. Up to 1,024
/// notifications wait to be taken; beyond that the oldest are dropped and counted ([`Subscription::dropped`]).
#[must_use = "dropping it ends the stream"]
pub struct Subscription {
    calling: Option<Calling>,
    acknowledged: SubscriptionFilter,
    /// Keeps the connection open.
    _client: Option<Client>,
}

impl Subscription {
    /// Returns which part of the requested filter the server honours.
    #[must_use]
    pub const fn acknowledged(&self) -> &SubscriptionFilter {
        &self.acknowledged
    }

    /// Returns the id of the stream, which is that of the request that opened it. `None` when the stream has ended.
    #[must_use]
    pub fn id(&self) -> Option<RequestId> {
        self.calling.as_ref().and_then(Calling::id)
    }

    /// Returns how many notifications were dropped because they were not taken in time.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.calling.as_ref().map_or(0, Calling::dropped)
    }

    /// Returns the next notification, or `None` when the server has ended the stream. If the stream ends in another
    /// way, such as with its connection, the error is returned once. Cancel-safe.
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

/// The streams that replace `resources/subscribe` in the modern era, by resource.
#[derive(Debug, Default)]
pub(super) struct ResourceStreams(Mutex<HashMap<String, AbortHandle>>);

impl ResourceStreams {
    fn is_open(&self, uri: &str) -> bool {
        let resource_streams = self.0.lock();
        resource_streams.get(uri).is_some_and(|task| !task.is_finished())
    }

    fn insert(&self, uri: String, task: AbortHandle) {
        let mut resource_streams = self.0.lock();
        resource_streams.retain(|_, task| !task.is_finished());
        if let Some(former) = resource_streams.insert(uri, task) {
            former.abort();
        }
    }

    fn remove(&self, uri: &str) {
        let task = self.0.lock().remove(uri);
        if let Some(task) = task {
            task.abort();
        }
    }
}

impl Drop for ResourceStreams {
    fn drop(&mut self) {
        for task in self.0.get_mut().values() {
            task.abort();
        }
    }
}

impl Client {
    /// Opens a stream of notifications, in the modern era, and waits until the server acknowledges it.
    ///
    /// [`Subscription::acknowledged`] says what the server honours. In the legacy era servers send their notifications
    /// without a request, to [`ClientBuilder::on_notification`](super::ClientBuilder::on_notification).
    ///
    /// ```no_run
    /// use mcpjoin::proto::types::SubscriptionFilter;
    ///
    /// # async fn example(client: mcpjoin::Client) -> Result<(), mcpjoin::client::ClientError> {
    /// let filter = SubscriptionFilter::default().with_tools_list_changed(true);
    /// let mut changes = client.listen(filter).await?;
    /// while let Some(notification) = changes.next().await {
    ///     println!("{}", notification?.method);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`ClientError`]. In the legacy era always [`CallRefused::NotInVersion`].
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
            // The acknowledgement is the first message of a stream, so nothing before it is lost.
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

    /// Subscribes to changes of a resource. They arrive at
    /// [`ClientBuilder::on_notification`](super::ClientBuilder::on_notification).
    ///
    /// In the modern era this opens a stream, which lives until [`Client::unsubscribe`] or the end of the connection. A
    /// second subscription to the same resource has no effect.
    ///
    /// # Errors
    /// See [`ClientError`]; [`ClientError::NotHonoured`] if a modern server does not honour it.
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

    /// Ends the subscription to a resource.
    ///
    /// # Errors
    /// See [`ClientError`].
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

    /// Checks the capability, which is the same in both eras.
    fn check_subscribes(&self, method: Method) -> Result<(), ClientError> {
        let resources = self.inner.peer.server_capabilities().and_then(|server| server.resources.as_ref());
        if resources.is_some_and(|resources| resources.subscribe == Some(true)) {
            return Ok(());
        }
        let refused = CallRefused::Undeclared { method, capability: "resources.subscribe" };
        Err(CallError::Refused(refused).into())
    }
}

/// Forwards the notifications of a stream until it ends.
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
