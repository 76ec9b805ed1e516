//! The streams of modern clients, and what a legacy server has to be asked for so that it tells what they want to hear.
//!
//! A modern client opens a stream with `subscriptions/listen` for what it names
//! (<https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>). A legacy server tells of
//! its lists by itself and of a resource when it was asked to with `resources/subscribe`
//! (<https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions>). So each resource that some
//! stream names is subscribed to once, and unsubscribed from when the last such stream ends; in each run of the server
//! anew. Called by `mod`.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::types::resource::is_within;
use mcpjoin_proto::types::{ServerCapabilities, SubscriptionFilter};
use mcpjoin_proto::{ErrorObject, Method, Notification, Payload, Raw};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::relaying::too_long_to_subscribe;

/// Resources that all streams of one server may name together: ten times as many as one connection may.
const RESOURCES: usize = 10_240;

/// How long a request waits for the subscriptions that its client asked for before it: a server that does not answer them
/// holds up nobody for longer.
const SETTLING: Duration = Duration::from_secs(5);

/// Tells a client something on its stream.
type Tell = Box<dyn Fn(Notification) + Send + Sync>;

/// The streams that are open.
pub(super) struct Listeners {
    open: Mutex<Open>,
    /// Counts the changes of what they name.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Open {
    last: u64,
    streams: BTreeMap<u64, Stream>,
    resources: usize,
}

struct Stream {
    /// The id of the request that opened it, as JSON.
    id: Raw,
    filter: SubscriptionFilter,
    tell: Tell,
}

/// A stream that is open, until this is dropped.
pub(super) struct Listener {
    listeners: Arc<Listeners>,
    number: u64,
}

/// Asks one run of the server for what the streams name, until this is dropped.
pub(super) struct Keeper {
    task: AbortHandle,
    settled: watch::Receiver<u64>,
}

impl Listeners {
    pub(super) fn new() -> Self {
        Self { open: Mutex::default(), changes: watch::Sender::new(0) }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a stream, and acknowledges it with what of `filter` the server can be asked for.
    ///
    /// # Errors
    /// When too much is listened for.
    pub(super) fn listen(
        self: &Arc<Self>,
        id: Raw,
        filter: SubscriptionFilter,
        server: Option<&ServerCapabilities>,
        tell: Tell,
    ) -> Result<Listener, ErrorObject> {
        let filter = honoured(filter, server);
        let names = filter.resource_subscriptions.as_deref().unwrap_or_default();
        if let Some(refused) = names.iter().find_map(|name| too_long_to_subscribe(name)) {
            return Err(refused);
        }
        let count = names.len();
        let mut open = self.open();
        if open.resources + count > RESOURCES {
            return Err(ErrorObject::internal(format!(
                "too many subscriptions: the limit `subscriptions` of {RESOURCES} of this bridge is reached"
            )));
        }
        open.resources += count;
        open.last += 1;
        let number = open.last;
        let notifications = Raw::from_value(&filter).unwrap_or_else(|_| Raw::empty_object());
        let params = Payload::from_raw(Raw::empty_object()).with_member("notifications", &notifications);
        // Before anything else can be told on it.
        tell(tagged(Method::SubscriptionsAcknowledged, Some(&params), &id));
        open.streams.insert(number, Stream { id, filter, tell });
        drop(open);
        if count > 0 {
            self.changes.send_modify(|changes| *changes += 1);
        }
        Ok(Listener { listeners: self.clone(), number })
    }

    /// The server has told something that streams are for.
    pub(super) fn tell(&self, told: &Notification) {
        let uri = told.params.as_ref().and_then(Payload::uri);
        let uri = uri.as_ref().and_then(Raw::to_string_value);
        let open = self.open();
        for stream in
            open.streams.values().filter(|stream| wants(&stream.filter, &told.method, uri.as_deref()))
        {
            (stream.tell)(tagged(told.method.clone(), told.params.as_ref(), &stream.id));
        }
    }

    /// All lists may be others now.
    pub(super) fn tell_all_lists(&self) {
        for method in [Method::ToolListChanged, Method::PromptListChanged, Method::ResourceListChanged] {
            self.tell(&Notification { method, params: None });
        }
    }

    fn resources(&self) -> BTreeSet<String> {
        let open = self.open();
        let named = open.streams.values().filter_map(|stream| stream.filter.resource_subscriptions.as_ref());
        named.flatten().cloned().collect()
    }

    /// Whether no stream is open.
    pub(super) fn is_empty(&self) -> bool {
        self.open().streams.is_empty()
    }

    /// Whether any stream names a resource, or has.
    pub(super) fn has_named(&self) -> bool {
        *self.changes.borrow() > 0
    }

    /// Asks a run of the server, from now on and until the keeper is dropped. `ask` makes the request about that resource;
    /// it says `false` when the run is over.
    pub(super) fn keep<A, F>(self: &Arc<Self>, ask: A) -> Keeper
    where
        A: Fn(Method, Raw) -> F + Send + Sync + 'static,
        F: Future<Output = bool> + Send + 'static,
    {
        let (settles, settled) = watch::channel(0);
        let changes = self.changes.subscribe();
        let task = tokio::spawn(keep(Arc::downgrade(self), changes, settles, ask)).abort_handle();
        Keeper { task, settled }
    }

    /// Waits until the run was asked for what the streams name now, but not for long.
    pub(super) async fn settle(&self, mut settled: watch::Receiver<u64>) {
        let now = *self.changes.borrow();
        let waited = timeout(SETTLING, settled.wait_for(|settled| *settled >= now)).await;
        if waited.is_err() {
            tracing::debug!(target: "mcpjoin", "a server does not answer subscriptions");
        }
    }
}

impl Keeper {
    pub(super) fn settled(&self) -> watch::Receiver<u64> {
        self.settled.clone()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut open = self.listeners.open();
        let Some(stream) = open.streams.remove(&self.number) else { return };
        let count = stream.filter.resource_subscriptions.as_ref().map_or(0, Vec::len);
        open.resources -= count;
        drop(open);
        if count > 0 {
            self.listeners.changes.send_modify(|changes| *changes += 1);
        }
    }
}

/// Makes what the server was asked for the same as what the streams name, each time that this changes.
async fn keep<A, F>(
    listeners: Weak<Listeners>,
    mut changes: watch::Receiver<u64>,
    settles: watch::Sender<u64>,
    ask: A,
) where
    A: Fn(Method, Raw) -> F + Send + Sync,
    F: Future<Output = bool> + Send,
{
    let mut asked = BTreeSet::new();
    loop {
        let now = *changes.borrow_and_update();
        let Some(named) = listeners.upgrade().map(|listeners| listeners.resources()) else { return };
        let new = named.difference(&asked).map(|uri| (Method::Subscribe, uri));
        let old = asked.difference(&named).map(|uri| (Method::Unsubscribe, uri));
        for (method, uri) in new.chain(old) {
            let params = Payload::from_raw(Raw::empty_object()).with_member("uri", &Raw::string(uri));
            if !ask(method, params.into_raw()).await {
                return;
            }
        }
        asked = named;
        settles.send_replace(now);
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// The part of a filter that a server can be asked for: what it has declared.
fn honoured(mut filter: SubscriptionFilter, server: Option<&ServerCapabilities>) -> SubscriptionFilter {
    let tools = server.and_then(|server| server.tools.as_ref()?.list_changed) == Some(true);
    let prompts = server.and_then(|server| server.prompts.as_ref()?.list_changed) == Some(true);
    let resources = server.and_then(|server| server.resources.as_ref());
    let list = resources.and_then(|resources| resources.list_changed) == Some(true);
    let subscribe = resources.and_then(|resources| resources.subscribe) == Some(true);
    filter.tools_list_changed = filter.tools_list_changed.filter(|_| tools);
    filter.prompts_list_changed = filter.prompts_list_changed.filter(|_| prompts);
    filter.resources_list_changed = filter.resources_list_changed.filter(|_| list);
    filter.resource_subscriptions = filter.resource_subscriptions.filter(|_| subscribe);
    // The extension for tasks is of the modern era.
    filter.task_ids = None;
    filter
}

/// Whether a stream is for this. `uri`: of the resource that it is about.
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

/// A notification that says on which stream it is told.
fn tagged(method: Method, params: Option<&Payload>, stream: &Raw) -> Notification {
    let params = params.cloned().unwrap_or_else(|| Payload::from_raw(Raw::empty_object()));
    Notification { method, params: Some(params.with_meta_member(key::SUBSCRIPTION_ID, stream)) }
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

    type Told = Arc<Mutex<Vec<String>>>;

    fn listen(listeners: &Arc<Listeners>, id: &str, filter: SubscriptionFilter) -> (Listener, Told) {
        let told = Told::default();
        let hears = told.clone();
        let tell = move |notification: Notification| {
            let params = notification.params.map(|params| params.raw().to_string()).unwrap_or_default();
            hears.lock().unwrap().push(format!("{} {params}", notification.method));
        };
        let id = Raw::parse(id.to_owned()).expect("JSON");
        (listeners.listen(id, filter, Some(&server()), Box::new(tell)).expect("room"), told)
    }

    fn updated(uri: &str) -> Notification {
        let params = Raw::parse(format!("{{\"uri\":\"{uri}\"}}")).expect("JSON");
        Notification { method: Method::ResourceUpdated, params: Some(Payload::from_raw(params)) }
    }

    #[test]
    fn a_stream_is_told_of_each_kind_that_it_names_and_of_no_other() {
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
    fn a_stream_is_acknowledged_first_and_told_what_it_is_for() {
        let listeners = Arc::new(Listeners::new());
        let filter = names(&["file:///a"]).with_tools_list_changed(true).with_prompts_list_changed(true);
        let (listener, told) = listen(&listeners, "7", filter);
        let (_other, others) = listen(&listeners, "\"7\"", names(&["file:///b/"]));
        listeners.tell(&updated("file:///a"));
        listeners.tell(&updated("file:///a?page=2"));
        listeners.tell(&updated("file:///ab"));
        listeners.tell(&updated("file:///b/c"));
        listeners.tell_all_lists();
        drop(listener);
        listeners.tell(&updated("file:///a"));
        let tag = r#""_meta":{"io.modelcontextprotocol/subscriptionId":"#;
        assert_eq!(
            *told.lock().unwrap(),
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
            others.lock().unwrap()[1],
            format!(r#"notifications/resources/updated {{{tag}"7"}},"uri":"file:///b/c"}}"#)
        );
        assert_eq!(others.lock().unwrap().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_resource_is_asked_for_once_and_given_back_with_its_last_stream_in_each_run() {
        let listeners = Arc::new(Listeners::new());
        let keep = || {
            let (asks, asked) = mpsc::unbounded_channel();
            let keeper = listeners.keep(move |method, params| {
                let sent = asks.send(format!("{method} {params}")).is_ok();
                async move { sent }
            });
            (keeper, asked)
        };
        let settle = |keeper: &Keeper| {
            let settled = keeper.settled();
            let listeners = listeners.clone();
            async move { listeners.settle(settled).await }
        };
        let (first, _) = listen(&listeners, "1", names(&["a", "b"]));
        let (keeper, mut asked) = keep();
        settle(&keeper).await;
        let (second, _) = listen(&listeners, "2", names(&["b", "c"]));
        settle(&keeper).await;
        drop(first);
        settle(&keeper).await;
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
        drop(keeper);
        let (keeper, mut asked) = keep();
        settle(&keeper).await;
        assert_eq!(asked.try_recv().as_deref(), Ok(r#"resources/subscribe {"uri":"b"}"#));
        assert_eq!(asked.try_recv().as_deref(), Ok(r#"resources/subscribe {"uri":"c"}"#));
        drop(second);
        settle(&keeper).await;
        assert_eq!(asked.try_recv().as_deref(), Ok(r#"resources/unsubscribe {"uri":"b"}"#));
        assert_eq!(asked.try_recv().as_deref(), Ok(r#"resources/unsubscribe {"uri":"c"}"#));
        assert!(asked.try_recv().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_holds_nobody_up_for_long() {
        let listeners = Arc::new(Listeners::new());
        let keeper = listeners.keep(|_, _| std::future::pending());
        let _stream = listen(&listeners, "1", names(&["a"]));
        let begun = tokio::time::Instant::now();
        listeners.settle(keeper.settled()).await;
        assert_eq!(begun.elapsed(), SETTLING);
    }

    #[test]
    fn the_bounds_of_what_is_listened_for_are_named() {
        let listeners = Arc::new(Listeners::new());
        let refused = |uris: Vec<String>| {
            let filter = SubscriptionFilter::default().with_resource_subscriptions(uris);
            let outcome = listeners.listen(Raw::null(), filter, Some(&server()), Box::new(|_| {}));
            outcome.err().map(|error| error.message).unwrap_or_default()
        };
        assert_eq!(refused(vec!["x".repeat(8 * 1024)]), "");
        assert!(refused(vec!["x".repeat(8 * 1024 + 1)]).contains("`subscription_bytes` of 8192"));
        assert!(refused((0..=RESOURCES).map(|uri| uri.to_string()).collect()).contains("of 10240"));
        assert_eq!(refused((0..RESOURCES).map(|uri| uri.to_string()).collect()), "");
    }
}
