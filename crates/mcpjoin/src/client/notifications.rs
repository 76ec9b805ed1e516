//! Delivers the notifications of a server to the functions of the [`ClientBuilder`](super::ClientBuilder), alike in both
//! eras.
//!
//! Every notification passes [`Dispatch::receive`] on arrival, whatever it belongs to. That runs under the connection's lock,
//! so it only fills inboxes. Each function has an inbox and a task of its own, which runs it for one notification after the
//! other. Subscriptions of the legacy era have an inbox, too (`subscription`).
//!
//! A legacy server sends its notifications unasked. A modern server sends them on streams that the client opens, so the
//! client keeps one open for the functions that need it.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>

use std::future::{Future, poll_fn};
use std::mem;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::sync::Mutex;
use futures_util::FutureExt as _;
use mcpjoin_proto::types::{
    LoggingLevel, ProtocolType, ResourceUpdatedParams, SetLevelParams, SubscriptionFilter,
};
use mcpjoin_proto::{Method, Notification, Payload, Raw};
use tokio::time::{Instant, sleep};

use super::cache::Cache;
use super::input::OnNotification;
use super::subscription::{Subscription, acknowledged, forward};
use super::{Client, ClientError, Inner, encode};
use crate::background;
use crate::connection::rounds::{FIRST_PAUSE, MAX_PAUSE};
use crate::connection::{NotificationQueue, panicked};

/// How often in a row the stream may fail or end early before it is given up.
const MAX_STREAM_FAILURES: u32 = 10;

/// A stream that lived this long has not failed.
const STREAM_SETTLED: Duration = Duration::from_secs(30);

/// The level of log messages that a client with a function for them asks for.
const DEFAULT_LEVEL: LoggingLevel = LoggingLevel::Info;

type NotificationHandler = Arc<dyn Fn(Client, Notification) -> Handling + Send + Sync>;
type Handling = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The registered functions, by the method of their notification.
#[derive(Default)]
pub(super) struct NotificationHandlers(Vec<(Method, NotificationHandler)>);

impl NotificationHandlers {
    /// Registers a function, in place of an earlier one for this method. It is not called for parameters that are no `P`.
    pub(super) fn register<P, F, A>(&mut self, method: Method, handle: F)
    where
        P: ProtocolType + 'static,
        F: Fn(Client, P) -> A + Send + Sync + 'static,
        A: Future<Output = ()> + Send + 'static,
    {
        let handler: NotificationHandler = Arc::new(move |client, notification: Notification| -> Handling {
            let params = notification.params.map_or_else(Raw::empty_object, Payload::into_raw);
            match P::read(&params) {
                Ok(params) => Box::pin(handle(client, params)),
                Err(error) => {
                    let method = notification.method;
                    tracing::debug!(target: "mcpjoin", %method, %error, "a notification is not valid");
                    Box::pin(std::future::ready(()))
                }
            }
        });
        self.0.retain(|(known, _)| *known != method);
        self.0.push((method, handler));
    }

    fn has(&self, method: &Method) -> bool {
        self.0.iter().any(|(known, _)| known == method)
    }

    /// The stream that the functions need in the modern era.
    fn filter(&self) -> SubscriptionFilter {
        let mut filter = SubscriptionFilter::default();
        filter.tools_list_changed = self.has(&Method::ToolListChanged).then_some(true);
        filter.prompts_list_changed = self.has(&Method::PromptListChanged).then_some(true);
        filter.resources_list_changed = self.has(&Method::ResourceListChanged).then_some(true);
        filter
    }
}

/// Whether one notification says as much as several: read the list again.
const fn is_of_list(method: &Method) -> bool {
    matches!(method, Method::ToolListChanged | Method::PromptListChanged | Method::ResourceListChanged)
}

/// The notifications that wait for one reader.
#[derive(Default)]
pub(super) struct Inbox {
    /// A notification that finds another one is dropped.
    coalesces: bool,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    notifications: NotificationQueue,
    reader: Option<Waker>,
}

impl Inbox {
    fn push(&self, notification: &Notification, wake: &mut Vec<Waker>) {
        let mut waiting = self.waiting.lock();
        if self.coalesces && !waiting.notifications.is_empty() {
            return;
        }
        waiting.notifications.push(notification.clone());
        wake.extend(waiting.reader.take());
    }

    pub(super) fn poll_next(&self, cx: &Context<'_>) -> Poll<Notification> {
        // A waker is cloned before the lock is taken, and dropped after it is released.
        let mut reader = Some(cx.waker().clone());
        let mut waiting = self.waiting.lock();
        let next = waiting.notifications.pop();
        if next.is_none() {
            mem::swap(&mut waiting.reader, &mut reader);
        }
        drop(waiting);
        next.map_or(Poll::Pending, Poll::Ready)
    }

    pub(super) fn dropped(&self) -> u64 {
        self.waiting.lock().notifications.dropped
    }
}

/// Who receives the notifications of one connection.
pub(super) struct Dispatch {
    cache: Option<Cache>,
    /// The inboxes of the functions, in the order of [`NotificationHandlers`].
    handlers: Vec<(Method, Arc<Inbox>)>,
    subscriptions: Mutex<Vec<(SubscriptionFilter, Arc<Inbox>)>>,
}

impl Dispatch {
    pub(super) fn new(cache: Option<Cache>, handlers: &NotificationHandlers) -> Self {
        let inbox = |method: &Method| Inbox { coalesces: is_of_list(method), ..Inbox::default() };
        let handlers = handlers.0.iter().map(|(method, _)| (method.clone(), inbox(method).into())).collect();
        Self { cache, handlers, subscriptions: Mutex::default() }
    }

    /// Handles a notification. Invalidates what is cached before a callback or a stream gets the notification.
    pub(super) fn receive(&self, notification: &Notification, wake: &mut Vec<Waker>) {
        if let Some(cache) = &self.cache {
            cache.invalidate(notification);
        }
        for (_, inbox) in self.handlers.iter().filter(|(method, _)| *method == notification.method) {
            inbox.push(notification, wake);
        }
        let subscriptions = self.subscriptions.lock();
        if subscriptions.is_empty() {
            return;
        }
        let uri = notification.params.as_ref().and_then(Payload::uri);
        let uri = uri.as_ref().and_then(Raw::to_string_value);
        for (filter, inbox) in &*subscriptions {
            if filter.selects(&notification.method, uri.as_deref()) {
                inbox.push(notification, wake);
            }
        }
    }

    /// Adds a subscription of the legacy era.
    pub(super) fn subscribe(&self, filter: SubscriptionFilter) -> Arc<Inbox> {
        let inbox = Arc::<Inbox>::default();
        self.subscriptions.lock().push((filter, inbox.clone()));
        inbox
    }

    pub(super) fn unsubscribe(&self, inbox: &Arc<Inbox>) {
        let mut subscriptions = self.subscriptions.lock();
        let place = subscriptions.iter().position(|(_, known)| Arc::ptr_eq(known, inbox));
        let removed = place.map(|place| subscriptions.swap_remove(place));
        drop(subscriptions);
        drop(removed);
    }

    /// There was no stream for a while: everything that it is about may have changed meanwhile.
    fn assume_changes(&self, filter: &SubscriptionFilter) {
        let mut wake = Vec::new();
        for (method, _) in self.handlers.iter().filter(|(method, _)| filter.selects(method, None)) {
            self.receive(&Notification { method: method.clone(), params: None }, &mut wake);
        }
        for uri in filter.resource_subscriptions.iter().flatten() {
            let params = ResourceUpdatedParams::new(uri).to_raw().ok().map(Payload::from_raw);
            self.receive(&Notification { method: Method::ResourceUpdated, params }, &mut wake);
        }
        wake.into_iter().for_each(Waker::wake);
    }
}

/// Starts the tasks of the functions, opens the stream that they need, and asks for log messages. What is sent is sent
/// before every request of the caller.
pub(super) fn start(client: &Client, handlers: &NotificationHandlers) {
    let inner = &client.inner;
    let mut tasks = inner.notification_tasks.lock();
    for ((_, handler), (method, inbox)) in handlers.0.iter().zip(&inner.dispatch.handlers) {
        let (handler, inbox) = (handler.clone(), inbox.clone());
        background::spawn_in(&mut tasks, handle_each(Arc::downgrade(inner), method.clone(), inbox, handler));
    }
    let Some(server) = inner.peer.server_capabilities() else { return };
    let filter = handlers.filter().declared_by(server);
    if client.has(&Method::Listen)
        && filter != SubscriptionFilter::default()
        && let Ok(mut stream) = client.call_listen(filter.clone())
    {
        let _ = stream.poll_event(&mut Context::from_waker(Waker::noop()));
        let client = Arc::downgrade(inner);
        let on_notification = inner.on_notification.clone();
        background::spawn_in(&mut tasks, async move {
            let opened = acknowledged(stream).await;
            keep_stream(client, filter, opened, on_notification).await;
        });
    }
    if !handlers.has(&Method::LogMessage) || server.logging.is_none() {
        return;
    }
    if !client.has(&Method::SetLevel) {
        client.set_request_level(DEFAULT_LEVEL);
    } else if let Ok(params) = encode(&Method::SetLevel, &SetLevelParams::new(DEFAULT_LEVEL)) {
        let mut calling = inner.connection.call(client.call(Method::SetLevel).with_params(params));
        let _ = calling.poll_event(&mut Context::from_waker(Waker::noop()));
        background::spawn_in(&mut tasks, async move {
            if let Err(error) = calling.await {
                tracing::debug!(target: "mcpjoin", %error, "the log level was not set");
            }
        });
    }
}

/// Runs a function for each notification. Keeps the connection open only while the function runs.
async fn handle_each(client: Weak<Inner>, method: Method, inbox: Arc<Inbox>, handler: NotificationHandler) {
    loop {
        let notification = poll_fn(|cx| inbox.poll_next(cx)).await;
        let Some(inner) = client.upgrade() else { return };
        let client = Client { inner, uncached: false };
        let handling = async { handler(client, notification).await };
        if let Err(panic) = AssertUnwindSafe(handling).catch_unwind().await {
            drop(panicked(&method, &*panic));
        }
    }
}

/// Keeps a stream open while the connection lives. Its notifications have been dispatched on arrival.
pub(super) async fn keep_stream(
    client: Weak<Inner>,
    filter: SubscriptionFilter,
    mut opened: Result<Subscription, ClientError>,
    on_notification: Option<OnNotification>,
) {
    let (mut failures, mut pause, mut is_reopened) = (0, FIRST_PAUSE, false);
    loop {
        let began = Instant::now();
        match opened {
            Ok(stream) => {
                if is_reopened && let Some(inner) = client.upgrade() {
                    inner.dispatch.assume_changes(&filter);
                }
                forward(stream, on_notification.as_ref()).await;
            }
            Err(error) if error.remote().is_some() => {
                tracing::warn!(target: "mcpjoin", %error, "the server does not announce changes");
                return;
            }
            Err(error) => tracing::debug!(target: "mcpjoin", %error, "the subscription stream was not \
                opened"),
        }
        if began.elapsed() >= STREAM_SETTLED {
            (failures, pause) = (0, FIRST_PAUSE);
        }
        failures += 1;
        if failures >= MAX_STREAM_FAILURES {
            tracing::warn!(target: "mcpjoin", failures, "the subscription stream is not reopened");
            return;
        }
        sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
        let Some(inner) = client.upgrade() else { return };
        let client = Client { inner, uncached: false };
        if client.is_closed() {
            return;
        }
        let Ok(calling) = client.call_listen(filter.clone()) else { return };
        drop(client);
        (opened, is_reopened) = (acknowledged(calling).await, true);
    }
}
