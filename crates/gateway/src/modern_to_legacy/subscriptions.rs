//! The streams of modern clients, and the subscriptions at the legacy server that they need.
//!
//! A modern client opens a stream with `subscriptions/listen` for the lists and resources that it names
//! (<https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>). A legacy server sends
//! changes of lists without a request, and changes of a resource after `resources/subscribe`
//! (<https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions>). So each resource that a
//! stream names is subscribed to once in each run of the server, and unsubscribed from when the last such stream ends.
//! Used by `mod`.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use mcpjoin_proto::types::resource::is_within;
use mcpjoin_proto::types::{ServerCapabilities, SubscriptionFilter};
use mcpjoin_proto::{ErrorObject, Method, Notification, Payload, Raw};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::relay::{resource_updated, too_long_to_subscribe, with_subscription_id};

/// Resources that all streams of one server may name together: ten times the limit of one connection.
const MAX_RESOURCES: usize = 10_240;

/// How long a request waits for the subscriptions of streams that were opened before it. A server that does not answer
/// them delays a request no longer.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends a notification on the stream of a client.
type SendFn = Box<dyn Fn(Notification) + Send + Sync>;

/// The open streams.
pub(super) struct Streams {
    open: Mutex<Open>,
    /// Counts the changes of the resources that they name.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Open {
    last_number: u64,
    streams: BTreeMap<u64, Stream>,
    resources: usize,
}

struct Stream {
    /// The id of the request that opened it, as JSON.
    id: Raw,
    filter: SubscriptionFilter,
    send: SendFn,
}

/// An open stream, until this is dropped.
pub(super) struct StreamGuard {
    streams: Arc<Streams>,
    number: u64,
}

/// Subscribes to the resources that the streams name at one run of the server, until this is dropped.
pub(super) struct SubscriptionTask {
    task: AbortHandle,
    /// The last change that the server was asked for.
    progress: watch::Receiver<u64>,
}

impl Streams {
    pub(super) fn new() -> Self {
        Self { open: Mutex::default(), changes: watch::Sender::new(0) }
    }

    /// Opens a stream, and acknowledges the part of `filter` that the server declares.
    ///
    /// # Errors
    /// If a limit of subscriptions is exceeded.
    pub(super) fn open(
        self: &Arc<Self>,
        id: Raw,
        filter: SubscriptionFilter,
        server: Option<&ServerCapabilities>,
        send: SendFn,
    ) -> Result<StreamGuard, ErrorObject> {
        let filter = supported(filter, server);
        let names = filter.resource_subscriptions.as_deref().unwrap_or_default();
        if let Some(refused) = names.iter().find_map(|name| too_long_to_subscribe(name)) {
            return Err(refused);
        }
        let count = names.len();
        let mut open = self.open.lock();
        if open.resources + count > MAX_RESOURCES {
            return Err(ErrorObject::internal(format!(
                "too many subscriptions: the limit `subscriptions` of {MAX_RESOURCES} of this bridge is reached"
            )));
        }
        open.resources += count;
        open.last_number += 1;
        let number = open.last_number;
        let notifications = Raw::from_value(&filter).unwrap_or_else(|_| Raw::empty_object());
        let params = Payload::from_raw(Raw::empty_object()).with_member("notifications", &notifications);
        let acknowledged = Notification { method: Method::SubscriptionsAcknowledged, params: Some(params) };
        // The lock is held, so that this is the first message of the stream.
        send(with_subscription_id(acknowledged, &id));
        open.streams.insert(number, Stream { id, filter, send });
        drop(open);
        if count > 0 {
            self.changes.send_modify(|changes| *changes += 1);
        }
        Ok(StreamGuard { streams: self.clone(), number })
    }

    /// Sends a notification of the server on each stream that wants it.
    pub(super) fn notify(&self, notification: &Notification) {
        let uri = notification.params.as_ref().and_then(Payload::uri);
        let uri = uri.as_ref().and_then(Raw::to_string_value);
        let open = self.open.lock();
        let wants = |stream: &&Stream| wants(&stream.filter, &notification.method, uri.as_deref());
        for stream in open.streams.values().filter(wants) {
            (stream.send)(with_subscription_id(notification.clone(), &stream.id));
        }
    }

    /// Notifies the streams that every list may have changed.
    pub(super) fn notify_all_lists(&self) {
        for method in [Method::ToolListChanged, Method::PromptListChanged, Method::ResourceListChanged] {
            self.notify(&Notification { method, params: None });
        }
    }

    /// Notifies the streams that every resource that they name may have changed.
    pub(super) fn notify_all_resources(&self) {
        let open = self.open.lock();
        for stream in open.streams.values() {
            for uri in stream.filter.resource_subscriptions.iter().flatten() {
                (stream.send)(with_subscription_id(resource_updated(&Raw::string(uri)), &stream.id));
            }
        }
    }

    fn resources(&self) -> BTreeSet<String> {
        let open = self.open.lock();
        let named = open.streams.values().filter_map(|stream| stream.filter.resource_subscriptions.as_ref());
        named.flatten().cloned().collect()
    }

    /// Whether no stream is open.
    pub(super) fn is_empty(&self) -> bool {
        self.open.lock().streams.is_empty()
    }

    /// Whether a stream names a resource, or has named one.
    pub(super) fn have_named_resources(&self) -> bool {
        *self.changes.borrow() > 0
    }

    /// Starts the task that subscribes at one run of the server. `request` makes a request about a resource, and
    /// returns `false` if the run has ended.
    pub(super) fn subscribe_with<A, F>(self: &Arc<Self>, request: A) -> SubscriptionTask
    where
        A: Fn(Method, Raw) -> F + Send + Sync + 'static,
        F: Future<Output = bool> + Send + 'static,
    {
        let (done, progress) = watch::channel(0);
        let changes = self.changes.subscribe();
        let task = tokio::spawn(subscribe(Arc::downgrade(self), changes, done, request)).abort_handle();
        SubscriptionTask { task, progress }
    }

    /// Waits until the server was asked for the resources that the streams name now, at most [`SUBSCRIBE_TIMEOUT`].
    pub(super) async fn wait_subscribed(&self, mut progress: watch::Receiver<u64>) {
        let now = *self.changes.borrow();
        let waited = timeout(SUBSCRIBE_TIMEOUT, progress.wait_for(|done| *done >= now)).await;
        if waited.is_err() {
            tracing::debug!(target: "mcpjoin", "a server does not respond to subscriptions");
        }
    }
}

impl SubscriptionTask {
    pub(super) fn progress(&self) -> watch::Receiver<u64> {
        self.progress.clone()
    }
}

impl Drop for SubscriptionTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        let mut open = self.streams.open.lock();
        let Some(stream) = open.streams.remove(&self.number) else { return };
        let count = stream.filter.resource_subscriptions.as_ref().map_or(0, Vec::len);
        open.resources -= count;
        drop(open);
        if count > 0 {
            self.streams.changes.send_modify(|changes| *changes += 1);
        }
    }
}

/// Subscribes and unsubscribes each time the resources that the streams name change.
async fn subscribe<A, F>(
    streams: Weak<Streams>,
    mut changes: watch::Receiver<u64>,
    done: watch::Sender<u64>,
    request: A,
) where
    A: Fn(Method, Raw) -> F + Send + Sync,
    F: Future<Output = bool> + Send,
{
    let mut subscribed = BTreeSet::new();
    loop {
        let now = *changes.borrow_and_update();
        let Some(named) = streams.upgrade().map(|streams| streams.resources()) else { return };
        let new = named.difference(&subscribed).map(|uri| (Method::Subscribe, uri));
        let old = subscribed.difference(&named).map(|uri| (Method::Unsubscribe, uri));
        for (method, uri) in new.chain(old) {
            let params = Payload::from_raw(Raw::empty_object()).with_member("uri", &Raw::string(uri));
            if !request(method, params.into_raw()).await {
                return;
            }
        }
        subscribed = named;
        done.send_replace(now);
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// The part of a filter that the server declares.
fn supported(mut filter: SubscriptionFilter, server: Option<&ServerCapabilities>) -> SubscriptionFilter {
    let tools = server.and_then(|server| server.tools.as_ref()?.list_changed) == Some(true);
    let prompts = server.and_then(|server| server.prompts.as_ref()?.list_changed) == Some(true);
    let resources = server.and_then(|server| server.resources.as_ref());
    let list = resources.and_then(|resources| resources.list_changed) == Some(true);
    let subscribe = resources.and_then(|resources| resources.subscribe) == Some(true);
    filter.tools_list_changed = filter.tools_list_changed.filter(|_| tools);
    filter.prompts_list_changed = filter.prompts_list_changed.filter(|_| prompts);
    filter.resources_list_changed = filter.resources_list_changed.filter(|_| list);
    filter.resource_subscriptions = filter.resource_subscriptions.filter(|_| subscribe);
    // A legacy server does not have the extension for tasks.
    filter.task_ids = None;
    filter
}

/// Whether a stream wants a notification. `uri`: that of its resource.
fn wants(filter: &SubscriptionFilter, method: &Method, uri: Option<&str>) -> bool {
    match method {
        Method::ToolListChanged => filter.tools_list_changed == Some(true),
        Method::PromptListChanged => filter.prompts_list_changed == Some(true),
        Method::ResourceListChanged => filter.resources_list_changed == Some(true),
        Method::ResourceUpdated => uri.is_some_and(|uri| {
            filter.resource_subscriptions.iter().flatten().any(|subscribed| is_within(uri, subscribed))
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::types::{ResourcesCapability, ToolsCapability};
    use tokio::sync::mpsc;

    use super::*;

    fn server() -> ServerCapabilities {
        let mut server = ServerCapabilities::default();
        server.tools = Some(ToolsCapability::default().with_list_changed(true));
        server.resources = Some(ResourcesCapability::default().with_subscribe(true));
        server
    }

    fn names(uris: &[&str]) -> SubscriptionFilter {
        let uris: Vec<String> = uris.iter().map(|uri| (*uri).to_owned()).collect();
        SubscriptionFilter::default().with_resource_subscriptions(uris)
    }

    type Sent = Arc<Mutex<Vec<String>>>;

    fn open(streams: &Arc<Streams>, id: &str, filter: SubscriptionFilter) -> (StreamGuard, Sent) {
        let sent = Sent::default();
        let log = sent.clone();
        let send = move |notification: Notification| {
            let params = notification.params.map(|params| params.raw().to_string()).unwrap_or_default();
            log.lock().push(format!("{} {params}", notification.method));
        };
        let id = Raw::parse(id.to_owned()).expect("JSON");
        (streams.open(id, filter, Some(&server()), Box::new(send)).expect("room"), sent)
    }

    fn updated(uri: &str) -> Notification {
        let params = Raw::parse(format!("{{\"uri\":\"{uri}\"}}")).expect("JSON");
        Notification { method: Method::ResourceUpdated, params: Some(Payload::from_raw(params)) }
    }

    #[test]
    fn a_stream_receives_each_kind_that_it_names_and_no_other() {
        let all = [Method::ToolListChanged, Method::PromptListChanged, Method::ResourceListChanged];
        let named = SubscriptionFilter::default;
        for (filter, wanted) in [
            (named().with_tools_list_changed(true), Method::ToolListChanged),
            (named().with_prompts_list_changed(true), Method::PromptListChanged),
            (named().with_resources_list_changed(true), Method::ResourceListChanged),
        ] {
            for method in &all {
                assert_eq!(wants(&filter, method, None), *method == wanted, "{method} for {wanted}");
            }
        }
    }

    #[test]
    fn a_stream_is_acknowledged_first_and_receives_what_it_names() {
        let streams = Arc::new(Streams::new());
        let filter = names(&["file:///a"]).with_tools_list_changed(true).with_prompts_list_changed(true);
        let (stream, sent) = open(&streams, "7", filter);
        let (_other, others) = open(&streams, "\"7\"", names(&["file:///b/"]));
        streams.notify(&updated("file:///a"));
        streams.notify(&updated("file:///a?page=2"));
        streams.notify(&updated("file:///ab"));
        streams.notify(&updated("file:///b/c"));
        streams.notify_all_lists();
        drop(stream);
        streams.notify(&updated("file:///a"));
        let tag = r#""_meta":{"io.modelcontextprotocol/subscriptionId":"#;
        assert_eq!(
            *sent.lock(),
            [
                format!(
                    r#"notifications/subscriptions/acknowledged {{{tag}7}},"notifications":{{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}}}}"#
                ),
                format!(r#"notifications/resources/updated {{{tag}7}},"uri":"file:///a"}}"#),
                format!(r#"notifications/resources/updated {{{tag}7}},"uri":"file:///a?page=2"}}"#),
                format!("notifications/tools/list_changed {{{tag}7}}}}"),
            ]
        );
        assert_eq!(
            others.lock()[1],
            format!(r#"notifications/resources/updated {{{tag}"7"}},"uri":"file:///b/c"}}"#)
        );
        assert_eq!(others.lock().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_resource_is_asked_for_once_and_given_back_with_its_last_stream_in_each_run() {
        let streams = Arc::new(Streams::new());
        let subscribe = || {
            let (asks, asked) = mpsc::unbounded_channel();
            let task = streams.subscribe_with(move |method, params| {
                let sent = asks.send(format!("{method} {params}")).is_ok();
                async move { sent }
            });
            (task, asked)
        };
        let wait = |task: &SubscriptionTask| {
            let progress = task.progress();
            let streams = streams.clone();
            async move { streams.wait_subscribed(progress).await }
        };
        let (first, _) = open(&streams, "1", names(&["a", "b"]));
        let (task, mut asked) = subscribe();
        wait(&task).await;
        let (second, _) = open(&streams, "2", names(&["b", "c"]));
        wait(&task).await;
        drop(first);
        wait(&task).await;
        let mut all = Vec::new();
        while let Ok(one) = asked.try_recv() {
            all.push(one);
        }
        assert_eq!(
            all,
            [
                r#"resources/subscribe {"uri":"a"}"#,
                r#"resources/subscribe {"uri":"b"}"#,
                r#"resources/subscribe {"uri":"c"}"#,
                r#"resources/unsubscribe {"uri":"a"}"#,
            ]
        );
        drop(task);
        let (task, mut asked) = subscribe();
        wait(&task).await;
        assert_eq!(asked.try_recv().as_deref(), Ok(r#"resources/subscribe {"uri":"b"}"#));
        assert_eq!(asked.try_recv().as_deref(), Ok(r#"resources/subscribe {"uri":"c"}"#));
        drop(second);
        wait(&task).await;
        assert_eq!(asked.try_recv().as_deref(), Ok(r#"resources/unsubscribe {"uri":"b"}"#));
        assert_eq!(asked.try_recv().as_deref(), Ok(r#"resources/unsubscribe {"uri":"c"}"#));
        assert!(asked.try_recv().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_delays_requests_for_a_limited_time() {
        let streams = Arc::new(Streams::new());
        let task = streams.subscribe_with(|_, _| std::future::pending());
        let _stream = open(&streams, "1", names(&["a"]));
        let begun = tokio::time::Instant::now();
        streams.wait_subscribed(task.progress()).await;
        assert_eq!(begun.elapsed(), SUBSCRIBE_TIMEOUT);
    }

    #[test]
    fn the_bounds_of_what_is_listened_for_are_named() {
        let streams = Arc::new(Streams::new());
        let refused = |uris: Vec<String>| {
            let filter = SubscriptionFilter::default().with_resource_subscriptions(uris);
            let outcome = streams.open(Raw::null(), filter, Some(&server()), Box::new(|_| {}));
            outcome.err().map(|error| error.message).unwrap_or_default()
        };
        assert_eq!(refused(vec!["x".repeat(8 * 1024)]), "");
        assert!(refused(vec!["x".repeat(8 * 1024 + 1)]).contains("`subscription_bytes` of 8192"));
        assert!(refused((0..=MAX_RESOURCES).map(|uri| uri.to_string()).collect()).contains("of 10240"));
        assert_eq!(refused((0..MAX_RESOURCES).map(|uri| uri.to_string()).collect()), "");
    }
}
