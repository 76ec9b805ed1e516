//! What a legacy client hears by itself, on one stream of the modern server: changes of lists where the server tells of
//! them, and of the resources that the client has subscribed to.
//!
//! The stream is opened anew when the client subscribes to another resource, when it ends, and when the server was started
//! again: the new one before the old one is left, so that nothing is missed in between.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::session::Call;
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::types::{AcknowledgedParams, ListenParams, ServerCapabilities, SubscriptionFilter};
use mcpjoin_proto::{ErrorObject, Method, Notification, Payload, Raw, code};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use crate::pair::Pair;
use crate::relaying::{failure, too_long_to_subscribe};
use crate::upstream::Upstream;
use mcpjoin::client::{Client, RestartError};
use mcpjoin::connection::{CallEvent, Calling};

/// The pause before a stream that has ended is opened again; it doubles from time to time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Resources that a client may be subscribed to.
const RESOURCES: usize = 1024;

/// One stream, kept open by a task of its own, which ends when this is dropped.
pub(super) struct Listening {
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    /// The resources that are wanted, and how often that has changed.
    wanted: watch::Sender<(u64, BTreeSet<String>)>,
    /// What the server has come to last.
    honoured: watch::Sender<Honoured>,
}

/// What became of what was wanted.
#[derive(Clone, Default)]
struct Honoured {
    change: u64,
    outcome: Option<Result<SubscriptionFilter, ErrorObject>>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listening {
    pub(super) fn begin(pair: Arc<Pair>, upstream: &Arc<Upstream>, server: &Client) -> Self {
        let shared = Arc::new(Shared {
            wanted: watch::channel((0, BTreeSet::new())).0,
            honoured: watch::channel(Honoured::default()).0,
        });
        let lists = lists_of(server.peer().server_capabilities());
        let listener = Listener {
            pair,
            // It ends with the client's connection, and does not keep the server.
            upstream: Arc::downgrade(upstream),
            lists,
            wanted: shared.wanted.subscribe(),
            shared: shared.clone(),
        };
        let task = tokio::spawn(listener.listen()).abort_handle();
        Self { shared, task }
    }

    /// Adds a resource, and waits until the server has said whether it tells of its changes.
    pub(super) async fn subscribe(&self, uri: String) -> Result<Payload, ErrorObject> {
        if let Some(refused) = too_long_to_subscribe(&uri) {
            return Err(refused);
        }
        let mut honoured = self.shared.honoured.subscribe();
        let mut is_full = false;
        let change = self.shared.change(|wanted| {
            is_full = wanted.len() >= RESOURCES && !wanted.contains(&uri);
            !is_full && wanted.insert(uri.clone())
        });
        if is_full {
            let text = format!("too many subscriptions: the limit `subscriptions` of {RESOURCES} is reached");
            return Err(failure("tooManySubscriptions", &text, &[("limit", RESOURCES.to_string())]));
        }
        let Some(change) = change else { return Ok(Payload::from_raw(Raw::empty_object())) };
        let outcome = match honoured.wait_for(|honoured| honoured.change >= change).await {
            Ok(honoured) => honoured.outcome.clone(),
            Err(_) => None,
        };
        match outcome {
            Some(Ok(filter)) if filter.resource_subscriptions.iter().flatten().any(|known| *known == uri) => {
                Ok(Payload::from_raw(Raw::empty_object()))
            }
            other => {
                self.shared.change(|wanted| wanted.remove(&uri));
                Err(match other {
                    Some(Err(error)) => error,
                    _ => ErrorObject::invalid_params("the server does not tell of changes of this resource"),
                })
            }
        }
    }

    /// Takes a resource away. One that was never there does no harm.
    pub(super) fn unsubscribe(&self, uri: &str) -> Result<Payload, ErrorObject> {
        self.shared.change(|wanted| wanted.remove(uri));
        Ok(Payload::from_raw(Raw::empty_object()))
    }
}

impl Shared {
    /// Changes what is wanted; the number of the change, if it is one.
    fn change(&self, change: impl FnOnce(&mut BTreeSet<String>) -> bool) -> Option<u64> {
        let mut number = None;
        self.wanted.send_if_modified(|(count, wanted)| {
            let changed = change(wanted);
            if changed {
                *count += 1;
                number = Some(*count);
            }
            changed
        });
        number
    }
}

/// The changes of lists that a server tells of, as a filter.
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

/// Keeps the stream open.
struct Listener {
    pair: Arc<Pair>,
    upstream: std::sync::Weak<Upstream>,
    lists: SubscriptionFilter,
    wanted: watch::Receiver<(u64, BTreeSet<String>)>,
    shared: Arc<Shared>,
}

/// Why a stream is left.
enum Left {
    /// Something else is wanted.
    Changed,
    /// It has ended.
    Ended(Option<ErrorObject>),
}

impl Listener {
    async fn listen(mut self) {
        let mut pause = FIRST_PAUSE;
        let mut old: Option<Calling> = None;
        loop {
            let (change, wanted) = self.wanted.borrow_and_update().clone();
            let filter = self.filter(&wanted);
            if filter == SubscriptionFilter::default() {
                drop(old.take());
                self.tell(change, Ok(filter));
                if self.wanted.changed().await.is_err() {
                    return;
                }
                continue;
            }
            // Not kept beyond the moment: the server ends with its client.
            let Some(upstream) = self.upstream.upgrade() else { return };
            let server = upstream.client().await;
            drop(upstream);
            let server = match server {
                Ok(server) => server,
                Err(RestartError::TimedOut { .. }) => continue,
                Err(why) => {
                    // Whatever will be wanted has had its answer.
                    self.tell(u64::MAX, Err(self.pair.telling.gone(why)));
                    return;
                }
            };
            let began = Instant::now();
            let left = self.stream(server, change, filter, &mut old).await;
            if began.elapsed() > LONGEST_PAUSE {
                pause = FIRST_PAUSE;
            }
            let Left::Ended(error) = left else { continue };
            if let Some(error) = error {
                tracing::debug!(target: "mcpjoin", %error, "the stream of a legacy client's notifications has ended");
                let is_unknown = error.code == code::METHOD_NOT_FOUND;
                self.tell(change, Err(error));
                if is_unknown {
                    // It has no streams, however often it is asked.
                    pause = Duration::MAX;
                }
            }
            tokio::select! {
                () = sleep(pause) => pause = pause.saturating_mul(2).min(LONGEST_PAUSE),
                changed = self.wanted.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    pause = FIRST_PAUSE;
                }
            }
        }
    }

    fn filter(&self, wanted: &BTreeSet<String>) -> SubscriptionFilter {
        let mut filter = self.lists.clone();
        if !wanted.is_empty() {
            filter.resource_subscriptions = Some(wanted.iter().cloned().collect());
        }
        filter
    }

    fn tell(&self, change: u64, outcome: Result<SubscriptionFilter, ErrorObject>) {
        self.shared.honoured.send_replace(Honoured { change, outcome: Some(outcome) });
    }

    /// One stream. It is left in `old`, still open, when something else is wanted.
    async fn stream(
        &mut self,
        server: Client,
        change: u64,
        filter: SubscriptionFilter,
        old: &mut Option<Calling>,
    ) -> Left {
        let params = match Payload::from_value(&ListenParams::new(filter)) {
            Ok(params) => params,
            Err(error) => return Left::Ended(Some(ErrorObject::internal(error.to_string()))),
        };
        let mut call = Call::new(Method::Listen);
        call.params = Some(params);
        let mut calling = server.connection().call(call);
        let mut acknowledged = false;
        loop {
            let event = tokio::select! {
                biased;
                // Until the new one is acknowledged the one before says what there is to say.
                event = next_of(old), if old.is_some() => {
                    match event {
                        Some(CallEvent::Notification(notification)) => self.told(notification),
                        Some(_) => {}
                        None => *old = None,
                    }
                    continue;
                }
                event = calling.next_event() => event,
                changed = self.wanted.changed() => {
                    if changed.is_err() {
                        return Left::Ended(None);
                    }
                    if acknowledged || old.is_none() {
                        *old = Some(calling);
                    }
                    return Left::Changed;
                }
            };
            let Some(CallEvent::Notification(notification)) = event else {
                if event.is_some() {
                    continue;
                }
                *old = None;
                let error = match calling.await {
                    Ok(_) => None,
                    Err(error) => Some(self.pair.telling.ended(error, server.connection()).await),
                };
                return Left::Ended(error);
            };
            if notification.method == Method::SubscriptionsAcknowledged {
                acknowledged = true;
                *old = None;
                let acknowledged = notification
                    .params
                    .as_ref()
                    .and_then(|params| params.raw().decode::<AcknowledgedParams>().ok());
                self.tell(change, Ok(acknowledged.map(|known| known.notifications).unwrap_or_default()));
                continue;
            }
            self.told(notification);
        }
    }

    fn told(&self, notification: Notification) {
        if notification.method != Method::SubscriptionsAcknowledged {
            self.pair.tell(of_no_stream(notification));
        }
    }
}

/// What a stream says next. Cancel-safe.
async fn next_of(stream: &mut Option<Calling>) -> Option<CallEvent> {
    stream.as_mut()?.next_event().await
}

/// The same without the name of the stream on which it came.
fn of_no_stream(notification: Notification) -> Notification {
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
    async fn a_client_subscribes_to_so_many_resources_and_to_none_of_them_in_vain_again() {
        let all: Vec<String> = (0..=RESOURCES).map(|uri| uri.to_string()).collect();
        let honoured = SubscriptionFilter::default().with_resource_subscriptions(all.clone());
        let shared = Arc::new(Shared {
            wanted: watch::channel((0, BTreeSet::new())).0,
            honoured: watch::channel(Honoured { change: u64::MAX, outcome: Some(Ok(honoured)) }).0,
        });
        let listening = Listening { shared, task: tokio::spawn(std::future::pending::<()>()).abort_handle() };
        for uri in &all[..RESOURCES] {
            listening.subscribe(uri.clone()).await.expect("room");
        }
        let error = listening.subscribe(all[RESOURCES].clone()).await.expect_err("one too many");
        assert!(error.message.contains("the limit `subscriptions` of 1024"), "{}", error.message);
        listening.subscribe(all[0].clone()).await.expect("it is subscribed to");
        let error = listening.subscribe("x".repeat(8 * 1024 + 1)).await.expect_err("too long");
        assert!(error.message.contains("`subscription_bytes` of 8192"), "{}", error.message);
        listening.unsubscribe(&all[0]).expect("it was there");
        listening.subscribe(all[RESOURCES].clone()).await.expect("room again");
    }
}
