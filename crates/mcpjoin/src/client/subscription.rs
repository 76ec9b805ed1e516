//! Streams of notifications, and subscriptions to resources, in both eras.
//!
//! A modern server has a request that opens a stream. A legacy server sends its notifications unasked, and the client
//! selects those of a stream (`notifications`).
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>,
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions>

use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Waker};

use crate::sync::Mutex;
use mcpjoin_proto::session::{CallError, CallRefused};
use mcpjoin_proto::types::{
    AcknowledgedParams, EmptyResult, ListenParams, SubscribeParams, SubscriptionFilter, UnsubscribeParams,
};
use mcpjoin_proto::{Method, Notification, Payload, RequestId};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::input::OnNotification;
use super::notifications::{Inbox, keep_stream};
use super::{Client, ClientError, decode, encode};
use crate::background;
use crate::connection::{CallEvent, Calling};

/// A stream of notifications. Created by [`Client::listen`].
///
/// It ends when a modern server ends it, with the connection, or when it is dropped, which tells the server. Up to 1,024
/// notifications and 4 MiB wait to be taken; beyond that the oldest are dropped and counted ([`Subscription::dropped`]).
#[must_use = "dropping it ends the stream"]
pub struct Subscription {
    source: Source,
    acknowledged: SubscriptionFilter,
    /// Keeps the connection open.
    _client: Option<Client>,
}

/// Where the notifications come from.
enum Source {
    /// The request of the modern era that opened the stream.
    Request(Calling),
    Selection(Selection),
    Ended,
}

/// What was selected of the notifications of a legacy server.
struct Selection {
    client: Client,
    inbox: Arc<Inbox>,
    /// Keep the subscriptions to its resources.
    holds: Vec<Hold>,
}

impl Drop for Selection {
    fn drop(&mut self) {
        self.client.inner.dispatch.unsubscribe(&self.inbox);
    }
}

/// Keeps a subscription to a resource in the legacy era, from before it is requested: the end of another one must not take
/// it away. The last one for a resource unsubscribes, also if its own request was abandoned, which the server may have granted.
struct Hold {
    client: Client,
    uri: String,
}

impl Hold {
    fn new(client: &Client, uri: &str) -> Self {
        client.inner.legacy_subscriptions.update(uri, |holders| holders.holds += 1);
        Self { client: client.clone(), uri: uri.to_owned() }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let uri = mem::take(&mut self.uri);
        if self.client.inner.legacy_subscriptions.update(&uri, |holders| holders.holds -= 1) {
            self.client.unsubscribe_detached(uri);
        }
    }
}

impl Subscription {
    /// Returns which part of the requested filter the server honours.
    #[must_use]
    pub const fn acknowledged(&self) -> &SubscriptionFilter {
        &self.acknowledged
    }

    /// Returns the id of the stream, which is that of the request that opened it. `None` in the legacy era, and when the
    /// stream has ended.
    #[must_use]
    pub fn id(&self) -> Option<RequestId> {
        match &self.source {
            Source::Request(calling) => calling.id(),
            Source::Selection(_) | Source::Ended => None,
        }
    }

    /// Returns how many notifications were dropped because they were not taken in time.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        match &self.source {
            Source::Request(calling) => calling.dropped(),
            Source::Selection(selection) => selection.inbox.dropped(),
            Source::Ended => 0,
        }
    }

    /// Returns the next notification, or `None` when the server has ended the stream. If the stream ends in another
    /// way, such as with its connection, the error is returned once. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Notification, ClientError>> {
        let end = match &mut self.source {
            Source::Request(calling) => {
                while let Some(event) = calling.next_event().await {
                    if let CallEvent::Notification(notification) = event {
                        return Some(Ok(notification));
                    }
                }
                calling.await.err()
            }
            Source::Selection(selection) => tokio::select! {
                biased;
                notification = poll_fn(|cx| selection.inbox.poll_next(cx)) => return Some(Ok(notification)),
                cause = selection.client.inner.connection.ended() => Some(CallError::Closed(cause)),
            },
            Source::Ended => return None,
        };
        self.source = Source::Ended;
        end.map(|error| Err(error.into()))
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

/// Who needs the subscriptions to resources of the legacy era, by URI.
#[derive(Default)]
pub(super) struct LegacySubscriptions(Mutex<HashMap<String, Holders>>);

#[derive(Default)]
struct Holders {
    /// The caller of [`Client::subscribe`].
    caller: bool,
    /// Streams, and requests for a subscription.
    holds: usize,
}

impl LegacySubscriptions {
    /// Returns whether the subscription is unused after the change.
    fn update(&self, uri: &str, change: impl FnOnce(&mut Holders)) -> bool {
        let mut subscriptions = self.0.lock();
        let holders = subscriptions.entry(uri.to_owned()).or_default();
        change(holders);
        let is_unused = !holders.caller && holders.holds == 0;
        if is_unused {
            subscriptions.remove(uri);
        }
        is_unused
    }
}

impl Client {
    /// Opens a stream of notifications, and waits until the server acknowledges it.
    ///
    /// [`Subscription::acknowledged`] says what the server honours. In the legacy era servers send their notifications
    /// without a request: the stream has those that the filter selects, and the server honours what it declares. Resources
    /// of the filter are subscribed to, and unsubscribed from when the last stream that needs them is dropped. Tasks are not
    /// honoured there.
    ///
    /// For changes of lists, [`ClientBuilder::on_tools_changed`](super::ClientBuilder::on_tools_changed) and its siblings
    /// need no stream of yours.
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
    /// See [`ClientError`].
    pub async fn listen(&self, filter: SubscriptionFilter) -> Result<Subscription, ClientError> {
        if !self.has(&Method::Listen) {
            return self.select(filter).await;
        }
        let mut subscription = self.open_stream(filter).await?;
        subscription._client = Some(self.clone());
        Ok(subscription)
    }

    pub(super) async fn open_stream(&self, filter: SubscriptionFilter) -> Result<Subscription, ClientError> {
        acknowledged(self.call_listen(filter)?).await
    }

    /// Creates the request that opens a stream.
    pub(super) fn call_listen(&self, filter: SubscriptionFilter) -> Result<Calling, ClientError> {
        let params = encode(&Method::Listen, &ListenParams::new(filter))?;
        Ok(self.inner.connection.call(self.call(Method::Listen).with_params(params)))
    }

    /// Opens a stream in the legacy era.
    async fn select(&self, filter: SubscriptionFilter) -> Result<Subscription, ClientError> {
        let server = self.inner.peer.server_capabilities();
        let acknowledged = server.map(|server| filter.declared_by(server)).unwrap_or_default();
        let inbox = self.inner.dispatch.subscribe(acknowledged.clone());
        let mut selection = Selection { client: self.clone(), inbox, holds: Vec::new() };
        for uri in acknowledged.resource_subscriptions.iter().flatten() {
            selection.holds.push(self.hold(uri).await?);
        }
        Ok(Subscription { source: Source::Selection(selection), acknowledged, _client: None })
    }

    /// Subscribes in the legacy era.
    async fn hold(&self, uri: &str) -> Result<Hold, ClientError> {
        let hold = Hold::new(self, uri);
        self.request::<_, EmptyResult>(Method::Subscribe, &SubscribeParams::new(uri)).await?;
        Ok(hold)
    }

    /// Sends the request now, so that a later subscription follows it. Its response is not awaited.
    fn unsubscribe_detached(&self, uri: String) {
        let (Ok(params), Ok(_)) =
            (encode(&Method::Unsubscribe, &UnsubscribeParams::new(uri)), Handle::try_current())
        else {
            return;
        };
        let mut calling = self.inner.connection.call(self.call(Method::Unsubscribe).with_params(params));
        let _ = calling.poll_event(&mut Context::from_waker(Waker::noop()));
        background::spawn(async move { drop(calling.await) });
    }

    /// Subscribes to changes of a resource. They arrive at
    /// [`ClientBuilder::on_resource_updated`](super::ClientBuilder::on_resource_updated) and
    /// [`ClientBuilder::on_notification`](super::ClientBuilder::on_notification).
    ///
    /// In the modern era this opens a stream, which lives until [`Client::unsubscribe`] or the end of the connection. If it
    /// ends before, it is opened again, as [`ClientBuilder::on_tools_changed`](super::ClientBuilder::on_tools_changed) says,
    /// and `on_resource_updated` is run because an update may have been missed. A second subscription to the same resource
    /// has no effect.
    ///
    /// ```no_run
    /// use mcpjoin::Client;
    ///
    /// # async fn example(link: mcpjoin::Link) -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::builder("example", "1.0.0")
    ///     .on_resource_updated(|client, uri| async move {
    ///         println!("{uri} is now {:?}", client.read_resource(&uri).await);
    ///     })
    ///     .connect(link)
    ///     .await?;
    /// client.subscribe("file:///settings.json").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`ClientError`]; [`ClientError::NotHonoured`] if a modern server does not honour it.
    pub async fn subscribe(&self, uri: impl Into<String>) -> Result<(), ClientError> {
        let uri = uri.into();
        if self.has(&Method::Subscribe) {
            let _hold = self.hold(&uri).await?;
            self.inner.legacy_subscriptions.update(&uri, |holders| holders.caller = true);
            return Ok(());
        }
        self.check_subscribes(Method::Subscribe)?;
        if self.inner.resource_streams.is_open(&uri) {
            return Ok(());
        }
        let filter = SubscriptionFilter::default().with_resource_subscriptions(vec![uri.clone()]);
        let stream = self.open_stream(filter.clone()).await?;
        if stream.acknowledged.resource_subscriptions.as_ref().is_none_or(|honoured| !honoured.contains(&uri))
        {
            return Err(ClientError::NotHonoured { uri });
        }
        let client = Arc::downgrade(&self.inner);
        let task =
            background::spawn(keep_stream(client, filter, Ok(stream), self.inner.on_notification.clone()));
        self.inner.resource_streams.insert(uri, task.abort_handle());
        Ok(())
    }

    /// Ends the subscription to a resource. In the legacy era the server keeps it while a [`Subscription`] needs it.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn unsubscribe(&self, uri: impl Into<String>) -> Result<(), ClientError> {
        let uri = uri.into();
        if self.has(&Method::Unsubscribe) {
            if !self.inner.legacy_subscriptions.update(&uri, |holders| holders.caller = false) {
                return Ok(());
            }
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

/// Waits until the server acknowledges a stream.
pub(super) async fn acknowledged(mut calling: Calling) -> Result<Subscription, ClientError> {
    let method = Method::Listen;
    while let Some(event) = calling.next_event().await {
        let CallEvent::Notification(notification) = event else { continue };
        // The acknowledgement is the first message of a stream, so nothing before it is lost.
        if notification.method != Method::SubscriptionsAcknowledged {
            continue;
        }
        let Some(params) = notification.params.map(Payload::into_raw) else { break };
        let AcknowledgedParams { notifications: acknowledged, .. } = decode(&method, &params)?;
        return Ok(Subscription { source: Source::Request(calling), acknowledged, _client: None });
    }
    calling.await?;
    Err(ClientError::BadResult { method, what: "the stream ended before it was acknowledged".into() })
}

/// Forwards the notifications of a stream until it ends.
pub(super) async fn forward(mut stream: Subscription, on_notification: Option<&OnNotification>) {
    while let Some(next) = stream.next().await {
        match next {
            Ok(notification) => {
                if let Some(on_notification) = on_notification {
                    on_notification(notification);
                }
            }
            Err(error) => tracing::debug!(target: "mcpjoin", %error, "a subscription has ended"),
        }
    }
}
