//! The stream of notifications that a modern server sends for a legacy client: changes of the lists that the server
//! declares, and of the resources that the client has subscribed to.
//!
//! The stream is opened again when the client changes its subscriptions, when the stream ends, and when the server
//! restarts. The old one is closed after the new one is acknowledged, so that no notification is lost in between. After a
//! stream that has ended, the client is notified of what may have changed until the next one.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::session::Call;
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::types::{
    AcknowledgedParams, ListenParams, ProtocolType, ServerCapabilities, SubscriptionFilter,
};
use mcpjoin_proto::{ErrorObject, Method, Notification, Payload, Raw, code};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use crate::errors::failure;
use crate::pair::Pair;
use crate::relay::{resource_updated, too_long_to_subscribe};
use crate::upstream::Upstream;
use mcpjoin::client::{Client, RestartError};
use mcpjoin::connection::{CallEvent, Calling, Connection};

/// The pause before a stream that has ended is opened again. It doubles each time, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Resources that a client may be subscribed to.
const MAX_RESOURCES: usize = 1024;

/// The stream, kept open by a task that ends when this is dropped.
pub(super) struct Stream {
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    /// The resources that the client has subscribed to, and a count of changes.
    wanted: watch::Sender<Wanted>,
    /// The last answer of the server.
    outcome: watch::Sender<Outcome>,
}

#[derive(Clone, Default)]
struct Wanted {
    change: u64,
    by_uri: BTreeMap<String, Subscription>,
}

#[derive(Clone)]
struct Subscription {
    /// The change that added it.
    since: u64,
    /// The client has the response that it is subscribed.
    accepted: bool,
    /// The requests that wait for the answer of the server. If none does any more, what was not accepted is not wanted.
    waiting: usize,
}

/// A request that waits for the answer of the server to a subscription, until this is dropped.
struct Waiting<'a> {
    shared: &'a Shared,
    uri: &'a str,
    since: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.wanted.send_if_modified(|wanted| {
            let known = wanted.by_uri.get_mut(self.uri).filter(|known| known.since == self.since);
            let Some(known) = known else { return false };
            known.waiting -= 1;
            let is_unwanted = known.waiting == 0 && !known.accepted;
            if is_unwanted {
                wanted.by_uri.remove(self.uri);
                wanted.change += 1;
            }
            is_unwanted
        });
    }
}

/// The answer of the server to the subscriptions as of one change.
#[derive(Clone, Default)]
struct Outcome {
    change: u64,
    accepted: Option<Result<SubscriptionFilter, ErrorObject>>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Stream {
    pub(super) fn open(pair: Arc<Pair>, upstream: &Arc<Upstream>, server: &Client) -> Self {
        let shared = Arc::new(Shared {
            wanted: watch::channel(Wanted::default()).0,
            outcome: watch::channel(Outcome::default()).0,
        });
        let lists = lists_of(server.peer().server_capabilities());
        let task = StreamTask {
            pair,
            // The server ends with the client's connection, so the stream does not keep it.
            upstream: Arc::downgrade(upstream),
            lists,
            wanted: shared.wanted.subscribe(),
            shared: shared.clone(),
            gap_after: None,
        };
        let task = tokio::spawn(task.run()).abort_handle();
        Self { shared, task }
    }

    /// Subscribes to a resource, and waits for the answer of the server.
    pub(super) async fn subscribe(&self, uri: String) -> Result<Payload, ErrorObject> {
        if let Some(refused) = too_long_to_subscribe(&uri) {
            return Err(refused);
        }
        let mut outcome = self.shared.outcome.subscribe();
        let Some(known) = self.shared.add(&uri) else {
            let text =
                format!("too many subscriptions: the limit `subscriptions` of {MAX_RESOURCES} is reached");
            return Err(failure("tooManySubscriptions", &text, &[("limit", MAX_RESOURCES.to_string())]));
        };
        // Also if the request is cancelled.
        let _waiting = Waiting { shared: &self.shared, uri: &uri, since: known.since };
        if known.accepted {
            return Ok(Payload::from_raw(Raw::empty_object()));
        }
        let accepted = match outcome.wait_for(|outcome| outcome.change >= known.since).await {
            Ok(outcome) => outcome.accepted.clone(),
            Err(_) => None,
        };
        match accepted {
            Some(Ok(filter)) if filter.resource_subscriptions.iter().flatten().any(|known| *known == uri) => {
                self.shared.accept(&uri);
                Ok(Payload::from_raw(Raw::empty_object()))
            }
            Some(Err(error)) => Err(error),
            _ => Err(ErrorObject::invalid_params("the server does not announce changes of this resource")),
        }
    }

    /// Ends the subscription to a resource, if there is one.
    pub(super) fn unsubscribe(&self, uri: &str) -> Result<Payload, ErrorObject> {
        self.shared.remove(uri);
        Ok(Payload::from_raw(Raw::empty_object()))
    }
}

impl Shared {
    /// Returns the subscription to a resource, for which one more request waits. It is added if there is none. `None`: there are too
    /// many.
    fn add(&self, uri: &str) -> Option<Subscription> {
        let mut known = None;
        self.wanted.send_if_modified(|wanted| {
            if let Some(one) = wanted.by_uri.get_mut(uri) {
                one.waiting += 1;
                known = Some(one.clone());
            }
            if known.is_some() || wanted.by_uri.len() >= MAX_RESOURCES {
                return false;
            }
            wanted.change += 1;
            let added = Subscription { since: wanted.change, accepted: false, waiting: 1 };
            wanted.by_uri.insert(uri.to_owned(), added.clone());
            known = Some(added);
            true
        });
        known
    }

    /// Notes that the client gets the response that it is subscribed.
    fn accept(&self, uri: &str) {
        self.wanted.send_if_modified(|wanted| {
            if let Some(known) = wanted.by_uri.get_mut(uri) {
                known.accepted = true;
            }
            false
        });
    }

    /// Removes the subscription to a resource.
    fn remove(&self, uri: &str) {
        self.wanted.send_if_modified(|wanted| {
            let is_removed = wanted.by_uri.remove(uri).is_some();
            wanted.change += u64::from(is_removed);
            is_removed
        });
    }
}

/// The changes of lists that a server declares, as a filter.
fn lists_of(server: Option<&ServerCapabilities>) -> SubscriptionFilter {
    let mut filter = SubscriptionFilter::default();
    for method in server.into_iter().flat_map(crate::pair::changes_of) {
        match method {
            Method::ToolListChanged => filter.tools_list_changed = Some(true),
            Method::PromptListChanged => filter.prompts_list_changed = Some(true),
            _ => filter.resources_list_changed = Some(true),
        }
    }
    filter
}

/// The task that keeps the stream open.
struct StreamTask {
    pair: Arc<Pair>,
    upstream: std::sync::Weak<Upstream>,
    lists: SubscriptionFilter,
    wanted: watch::Receiver<Wanted>,
    shared: Arc<Shared>,
    /// The run of the server whose stream has ended. `None`: no stream was open before, or the last one still is.
    gap_after: Option<Connection>,
}

/// Why a stream is closed.
enum StreamEnd {
    /// The subscriptions have changed.
    Changed,
    /// The server has ended it.
    Ended(Option<ErrorObject>),
}

impl StreamTask {
    async fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        let mut old: Option<Calling> = None;
        loop {
            let wanted = self.wanted.borrow_and_update().clone();
            let (change, filter) = (wanted.change, self.filter(&wanted));
            if filter == SubscriptionFilter::default() {
                drop(old.take());
                self.report(change, Ok(filter));
                if self.wanted.changed().await.is_err() {
                    return;
                }
                continue;
            }
            // Not kept while the stream is open, because the server ends with its client.
            let Some(upstream) = self.upstream.upgrade() else { return };
            let server = upstream.client().await;
            drop(upstream);
            let server = match server {
                Ok(server) => server,
                Err(RestartError::TimedOut { .. }) => continue,
                Err(why) => {
                    // This answers all later subscriptions, too.
                    self.report(u64::MAX, Err(self.pair.errors.gone(why)));
                    return;
                }
            };
            let began = Instant::now();
            let end = self.stream(server, change, filter, &mut old).await;
            if began.elapsed() > MAX_PAUSE {
                pause = FIRST_PAUSE;
            }
            let StreamEnd::Ended(error) = end else { continue };
            if let Some(error) = error {
                tracing::debug!(target: "mcpjoin", %error, "the stream of a legacy client's notifications has ended");
                let is_unknown = error.code == code::METHOD_NOT_FOUND;
                self.report(change, Err(error));
                if is_unknown {
                    // The server does not support streams.
                    pause = Duration::MAX;
                }
            }
            tokio::select! {
                () = sleep(pause) => pause = pause.saturating_mul(2).min(MAX_PAUSE),
                changed = self.wanted.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    pause = FIRST_PAUSE;
                }
            }
        }
    }

    fn filter(&self, wanted: &Wanted) -> SubscriptionFilter {
        let mut filter = self.lists.clone();
        if !wanted.by_uri.is_empty() {
            filter.resource_subscriptions = Some(wanted.by_uri.keys().cloned().collect());
        }
        filter
    }

    fn report(&self, change: u64, accepted: Result<SubscriptionFilter, ErrorObject>) {
        self.shared.outcome.send_replace(Outcome { change, accepted: Some(accepted) });
    }

    /// Keeps one stream open until it ends or the subscriptions change. If they change, it is moved into `old`, still
    /// open.
    async fn stream(
        &mut self,
        server: Client,
        change: u64,
        filter: SubscriptionFilter,
        old: &mut Option<Calling>,
    ) -> StreamEnd {
        let params = match Payload::from_value(&ListenParams::new(filter)) {
            Ok(params) => params,
            Err(error) => return StreamEnd::Ended(Some(ErrorObject::internal(error.to_string()))),
        };
        let mut call = Call::new(Method::Listen);
        call.params = Some(params);
        let mut calling = server.connection().call(call);
        let mut acknowledged = false;
        loop {
            let event = tokio::select! {
                biased;
                // Until the new stream is acknowledged, the old one delivers.
                event = next_of(old), if old.is_some() => {
                    match event {
                        Some(CallEvent::Notification(notification)) => self.deliver(notification),
                        Some(_) => {}
                        None => *old = None,
                    }
                    continue;
                }
                event = calling.next_event() => event,
                changed = self.wanted.changed() => {
                    if changed.is_err() {
                        return StreamEnd::Ended(None);
                    }
                    if acknowledged || old.is_none() {
                        *old = Some(calling);
                    }
                    return StreamEnd::Changed;
                }
            };
            let Some(CallEvent::Notification(notification)) = event else {
                if event.is_some() {
                    continue;
                }
                *old = None;
                if acknowledged {
                    self.gap_after = Some(server.connection().clone());
                }
                let error = match calling.await {
                    Ok(_) => {
                        if !acknowledged {
                            // The server has accepted nothing of it.
                            self.report(change, Ok(SubscriptionFilter::default()));
                        }
                        None
                    }
                    Err(error) => Some(self.pair.errors.call_error(error, server.connection()).await),
                };
                return StreamEnd::Ended(error);
            };
            if notification.method == Method::SubscriptionsAcknowledged {
                acknowledged = true;
                *old = None;
                let acknowledged = notification
                    .params
                    .as_ref()
                    .and_then(|params| AcknowledgedParams::read(params.raw()).ok());
                self.report(change, Ok(acknowledged.map(|known| known.notifications).unwrap_or_default()));
                self.tell_missed(&server);
                continue;
            }
            self.deliver(notification);
        }
    }

    /// Notifies the client of what may have changed since the last stream has ended. After a restart of the server the `pair`
    /// notifies it of the lists.
    fn tell_missed(&mut self, server: &Client) {
        let Some(last) = self.gap_after.take() else { return };
        if last.is(server.connection()) {
            for method in server.peer().server_capabilities().into_iter().flat_map(crate::pair::changes_of) {
                self.pair.notify(Notification { method, params: None });
            }
        }
        let wanted = self.wanted.borrow().clone();
        for (uri, _) in wanted.by_uri.iter().filter(|(_, one)| one.accepted) {
            self.pair.notify(resource_updated(&Raw::string(uri)));
        }
    }

    fn deliver(&self, notification: Notification) {
        if notification.method != Method::SubscriptionsAcknowledged {
            self.pair.notify(without_stream(notification));
        }
    }
}

/// The next event of a stream. Cancel-safe.
async fn next_of(stream: &mut Option<Calling>) -> Option<CallEvent> {
    stream.as_mut()?.next_event().await
}

/// The notification without the id of its stream.
fn without_stream(notification: Notification) -> Notification {
    let params = notification
        .params
        .map(|params| params.without_meta_members(|key| key == key::SUBSCRIPTION_ID))
        .filter(|params| params.raw().as_str() != "{}");
    Notification { params, ..notification }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_subscribes_to_a_limited_number_of_resources_and_may_repeat_each() {
        let all: Vec<String> = (0..=MAX_RESOURCES).map(|uri| uri.to_string()).collect();
        let accepted = SubscriptionFilter::default().with_resource_subscriptions(all.clone());
        let shared = Arc::new(Shared {
            wanted: watch::channel(Wanted::default()).0,
            outcome: watch::channel(Outcome { change: u64::MAX, accepted: Some(Ok(accepted)) }).0,
        });
        let stream = Stream { shared, task: tokio::spawn(std::future::pending::<()>()).abort_handle() };
        for uri in &all[..MAX_RESOURCES] {
            stream.subscribe(uri.clone()).await.expect("room");
        }
        let error = stream.subscribe(all[MAX_RESOURCES].clone()).await.expect_err("one too many");
        assert!(error.message.contains("the limit `subscriptions` of 1024"), "{}", error.message);
        stream.subscribe(all[0].clone()).await.expect("it is subscribed to");
        let error = stream.subscribe("x".repeat(8 * 1024 + 1)).await.expect_err("too long");
        assert!(error.message.contains("`subscription_bytes` of 8192"), "{}", error.message);
        stream.unsubscribe(&all[0]).expect("it was there");
        stream.subscribe(all[MAX_RESOURCES].clone()).await.expect("room again");
    }
}
