//! A legacy client and the server that it has for itself: relays requests and notifications between them.
//!
//! The connections to the client and to the server are made one after the other, so each finds the other through the
//! [`Pair`]. If the server is of the modern era, [`legacy_to_modern`](super::legacy_to_modern) stands in between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use mcpjoin_proto::session::{Call, CallError, CallRefused, Inbound, Limits, NotifyRefused, Reply};
use mcpjoin_proto::types::ServerCapabilities;
use mcpjoin_proto::{ErrorObject, Method, Notification, Payload, Request, RequestId};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::sleep;

use super::answers;
use super::cancellations::{self, TargetLayer};
use super::errors::{ErrorTexts, client_gone, failure};
use super::joined::TargetTasks;
use super::opening::HasListener;
use super::policy::Questions;
use super::portable::Portable;
use super::relay::{self, call, forward};
use super::upstream::UpstreamHandler;
use mcpjoin::client::Client;
use mcpjoin::connection::{Connection, Context};
use mcpjoin::handler::Handler;
use mcpjoin::internal::TransportLayer;
use mcpjoin::transport::{Link, Transport};

/// Notifications of a server, in number and in bytes, that are stored until the client is connected.
const MAX_EARLY_NOTIFICATIONS: usize = 256;
const MAX_EARLY_BYTES: usize = 1024 * 1024;
/// How often a question whose answer another process may receive is looked at.
const QUESTION_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Subscriptions that are made again when the server restarts.
const MAX_RESTORED_SUBSCRIPTIONS: usize = 1024;

/// Called in place of the notifications that a list of the server has changed.
pub(super) type OnListChanged = Arc<dyn Fn() + Send + Sync>;

/// The state that the two connections share.
pub(super) struct Pair {
    timeout: Duration,
    /// Each request of the client has its own stream, and the session may have one for other messages.
    exchanges: bool,
    has_listener: Option<HasListener>,
    on_list_changed: Option<OnListChanged>,
    pub(super) errors: ErrorTexts,
    /// What the server may ask the client.
    pub(super) questions: Questions,
    /// The ids of the server's tasks, where the client has others for them.
    pub(super) tasks: Option<TargetTasks>,
    /// Set if the client's session may be stored.
    pub(super) portable: Option<Arc<Portable>>,
    client: watch::Sender<Option<Connection>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Notifications that the server sent before the client was connected.
    early: Vec<Notification>,
    /// The last accepted parameters of `logging/setLevel` and of each subscription, to restore them after a restart.
    level: Option<Payload>,
    subscriptions: Subscriptions,
}

/// The accepted parameters of each subscription of a client at one server, to subscribe again at another run of it. At
/// most [`MAX_RESTORED_SUBSCRIPTIONS`].
#[derive(Default)]
pub(super) struct Subscriptions(BTreeMap<Box<str>, Payload>);

impl Subscriptions {
    /// Notes an accepted request to subscribe or to unsubscribe. Returns whether the resource was subscribed to before.
    pub(super) fn note(&mut self, method: &Method, params: &Payload) -> bool {
        let uri = params.uri();
        let Some(uri) = uri.as_ref().and_then(|uri| uri.to_string_value()) else { return false };
        if *method == Method::Unsubscribe {
            return self.0.remove(&*uri).is_some();
        }
        // A restored request asks for no progress.
        let params = params.without_members(|name| name == "_meta");
        let was_known = self.0.contains_key(&*uri);
        if params.raw().len() <= Limits::default().subscription_bytes
            && (self.0.len() < MAX_RESTORED_SUBSCRIPTIONS || was_known)
        {
            self.0.insert((*uri).into(), params);
        }
        was_known
    }

    pub(super) fn contains(&self, uri: &str) -> bool {
        self.0.contains_key(uri)
    }

    pub(super) fn all(&self) -> Vec<Payload> {
        self.0.values().cloned().collect()
    }
}

impl State {
    fn has_room_for(&self, early: &Notification) -> bool {
        let bytes: usize = self.early.iter().map(Notification::payload_len).sum();
        self.early.len() < MAX_EARLY_NOTIFICATIONS
            && bytes.saturating_add(early.payload_len()) <= MAX_EARLY_BYTES
    }
}

impl Pair {
    pub(super) fn new(
        timeout: Duration,
        exchanges: bool,
        has_listener: Option<HasListener>,
        on_list_changed: Option<OnListChanged>,
        errors: ErrorTexts,
        questions: Questions,
        tasks: Option<TargetTasks>,
    ) -> Arc<Self> {
        let (client, _) = watch::channel(None);
        let portable = questions.portable().cloned();
        Arc::new(Self {
            timeout,
            exchanges,
            has_listener,
            on_list_changed,
            errors,
            questions,
            tasks,
            portable,
            client,
            state: Mutex::default(),
        })
    }

    /// Whether the client is connected: over HTTP it needs an open stream of its session.
    pub(super) fn is_connected(&self) -> bool {
        !self.exchanges || self.has_listener()
    }

    /// Whether the client has a stream open for messages that belong to no request.
    fn has_listener(&self) -> bool {
        self.has_listener.as_ref().is_some_and(|has_listener| has_listener())
    }

    /// Sets the connection of the client.
    pub(super) fn connect(&self, client: Connection) {
        // The lock is held, so that new notifications follow the stored ones.
        let mut state = self.state.lock();
        for notification in std::mem::take(&mut state.early) {
            self.notify_client(&client, notification);
        }
        self.client.send_replace(Some(client));
    }

    /// The connection of the client, once requests may be sent to it.
    async fn client(&self) -> Result<Connection, ErrorObject> {
        let mut client = self.client.subscribe();
        let client = client.wait_for(Option::is_some).await.ok().and_then(|client| client.clone());
        let client = client.ok_or_else(client_gone)?;
        client.opened().await.map_err(|_| client_gone())?;
        Ok(client)
    }

    // ---- from the client to the server ----

    /// Relays a request of the client to a legacy server.
    pub(super) async fn ask_server(
        &self,
        server: &Client,
        request: Request,
        cx: &Context,
    ) -> Result<Payload, ErrorObject> {
        let to_restore = match request.method {
            Method::SetLevel | Method::Subscribe | Method::Unsubscribe => request.params.clone(),
            _ => None,
        };
        let mut call = call(request.method.clone(), request.params, cx, self.timeout);
        let is_shared = self.portable.as_ref().is_some_and(|portable| portable.is_shared());
        if is_shared && cancellations::is_sent_once(&request.method) {
            // Its link takes the id of the request from it.
            call.on_behalf_of = Some(request.id);
        }
        match forward(server.connection().call(call), cx).await {
            Ok(result) => {
                if let Some(params) = to_restore {
                    self.store(&request.method, params);
                }
                Ok(result)
            }
            Err(error) => Err(self.errors.call_error(error, server.connection()).await),
        }
    }

    /// Sets the level of log messages of a legacy server, or subscribes to a resource of it, for the client. A refusal is
    /// logged.
    pub(super) async fn set(&self, server: &Client, method: Method, params: Payload) {
        let call = Call::new(method.clone()).with_params(params.raw().clone());
        match server.connection().call(call).await {
            Ok(_) => self.store(&method, params),
            Err(error) => tracing::debug!(target: "mcpjoin", %method, %error, "a setting was refused"),
        }
    }

    /// Stores a setting of the session, to restore it when the server restarts.
    pub(super) fn store(&self, method: &Method, params: Payload) {
        let mut state = self.state.lock();
        if *method == Method::SetLevel {
            // A restored request asks for no progress.
            state.level = Some(params.without_members(|name| name == "_meta"));
        } else {
            state.subscriptions.note(method, &params);
        }
    }

    // ---- from the server to the client ----

    /// Relays a request of the server to the client.
    async fn ask_client(&self, request: Request, cx: &Context) -> Result<Reply, ErrorObject> {
        self.questions.check(&request.method)?;
        if let Some(tasks) = &self.tasks {
            tasks.check(&request.method, request.params.as_ref())?;
        }
        let client = self.client().await?;
        let params = match (&self.tasks, request.params) {
            (Some(tasks), Some(params)) => Some(tasks.question(params)),
            (_, params) => params,
        };
        let params = match request.method {
            Method::Elicit => params.map(|params| relay::named(self.errors.target(), params)),
            _ => params,
        };
        let is_stored = self.portable.as_ref().is_some_and(|portable| portable.is_stored());
        let params = match is_stored {
            true => {
                let marked = answers::marked(self.errors.target().unwrap_or_default(), &request.id, params);
                Some(
                    marked.ok_or_else(|| {
                        failure("questionRefused", "the id of the question is too long", &[])
                    })?,
                )
            }
            false => params,
        };
        let mut call = call(request.method, params, cx, self.timeout);
        if self.exchanges {
            call.on_behalf_of = self.stream_for(&client, true);
        }
        let asking = call.on_behalf_of.clone().filter(|_| is_stored);
        let answered = forward(client.call(call), cx);
        let answer = match asking {
            None => answered.await,
            Some(asking) => tokio::select! {
                biased;
                answer = answered => answer,
                () = ended(&client, &asking) => return Err(answered_elsewhere()),
            },
        };
        match answer {
            Ok(result) => Ok(Reply::Verbatim(self.answer(result))),
            Err(CallError::Closed(_)) => Err(client_gone()),
            Err(error) => Err(ErrorTexts::default().call_error(error, &client).await),
        }
    }

    /// The answer of the client with the ids of tasks that the server knows.
    pub(super) fn answer(&self, result: Payload) -> Payload {
        match &self.tasks {
            Some(tasks) => tasks.answer(result),
            None => result,
        }
    }

    /// The request on whose stream a message of the server is sent to the client. `None`: the message is sent on the
    /// stream of the session.
    ///
    /// If the session has no stream, this is the oldest request in flight. If it has one, a message goes there, except
    /// a `related` one (which belongs to some request) while exactly one request is in flight.
    fn stream_for(&self, client: &Connection, related: bool) -> Option<RequestId> {
        let has_listener = self.has_listener();
        if has_listener && !related {
            return None;
        }
        let (in_flight, oldest) = client.handled_requests();
        oldest.filter(|_| in_flight == 1 || !has_listener)
    }

    /// Delivers a notification of the server to the client.
    pub(super) fn notify(&self, notification: Notification) {
        if let Some(on_list_changed) = &self.on_list_changed
            && matches!(
                notification.method,
                Method::ToolListChanged | Method::PromptListChanged | Method::ResourceListChanged
            )
        {
            return on_list_changed();
        }
        let notification = match &self.tasks {
            Some(tasks) => tasks.notification(notification),
            None => notification,
        };
        let mut state = self.state.lock();
        let client = self.client.borrow().clone();
        match client {
            Some(client) => {
                drop(state);
                self.notify_client(&client, notification);
            }
            None if state.has_room_for(&notification) => state.early.push(notification),
            None => {
                tracing::debug!(target: "mcpjoin", "too many notifications came before the client, and one was dropped");
            }
        }
    }

    fn notify_client(&self, client: &Connection, notification: Notification) {
        let changes = matches!(
            notification.method,
            Method::ToolListChanged
                | Method::PromptListChanged
                | Method::ResourceListChanged
                | Method::ResourceUpdated
        );
        let stream = if self.exchanges { self.stream_for(client, !changes) } else { None };
        let sent = match stream {
            Some(request) => match client.notify_on(request, notification.clone()) {
                // The request has just ended.
                Err(NotifyRefused::NoSuchRequest) => client.notify(notification),
                sent => sent,
            },
            None => client.notify(notification),
        };
        if let Err(error) = sent {
            tracing::debug!(target: "mcpjoin", %error, "a notification was not forwarded");
        }
    }

    /// Notifies the client after a restart of the server that lists may have changed, and restores the log level and the
    /// subscriptions, which a server may take long to answer. A subscribed resource may have changed meanwhile, so the client
    /// is notified of it, also if the server refuses the subscription: a client that reads the resource learns why.
    async fn restore(&self, server: &Client) {
        let peer = server.peer();
        for method in peer.server_capabilities().into_iter().flat_map(changes_of) {
            self.notify(Notification { method, params: None });
        }
        let (level, subscriptions) = {
            let state = self.state.lock();
            (state.level.clone(), state.subscriptions.all())
        };
        let requests = level.map(|params| (Method::SetLevel, params)).into_iter();
        let requests = requests.chain(subscriptions.into_iter().map(|params| (Method::Subscribe, params)));
        for (method, params) in requests {
            let subscribed = params.uri().filter(|_| method == Method::Subscribe);
            let mut call = Call::new(method);
            call.params = Some(params);
            if let Err(error) = server.connection().call(call).await {
                tracing::debug!(target: "mcpjoin", %error, "a setting was not restored after a restart");
                if matches!(error, CallError::Closed(_) | CallError::Refused(CallRefused::Closed)) {
                    return;
                }
            }
            if let Some(uri) = subscribed {
                self.notify(relay::resource_updated(&uri));
            }
        }
    }
}

/// Waits until a request of the client has ended which was the oldest one when it was chosen to carry a question. Then the
/// question is over as well: its answer has reached another process, which has sent it on.
async fn ended(client: &Connection, request: &RequestId) {
    while client.handled_requests().1.as_ref() == Some(request) {
        sleep(QUESTION_CHECK_INTERVAL).await;
    }
}

/// The response to a question whose server has its answer already.
fn answered_elsewhere() -> ErrorObject {
    failure("questionEnded", "the question ended with the request that it belonged to", &[])
}

/// The notifications of changed lists that a server declares.
pub(super) fn changes_of(server: &ServerCapabilities) -> impl Iterator<Item = Method> + use<> {
    let declared = |list_changed: Option<bool>| list_changed == Some(true);
    let tools = server.tools.as_ref().is_some_and(|tools| declared(tools.list_changed));
    let prompts = server.prompts.as_ref().is_some_and(|prompts| declared(prompts.list_changed));
    let resources = server.resources.as_ref().is_some_and(|resources| declared(resources.list_changed));
    [
        (tools, Method::ToolListChanged),
        (prompts, Method::PromptListChanged),
        (resources, Method::ResourceListChanged),
    ]
    .into_iter()
    .filter_map(|(declared, method)| declared.then_some(method))
}

/// Handles what the server of a pair sends.
#[derive(Clone)]
pub(super) struct FromServer(pub(super) Arc<Pair>);

impl Handler for FromServer {
    async fn request(&self, request: Request, cx: Context) -> Result<Reply, ErrorObject> {
        self.0.ask_client(request, &cx).await
    }

    async fn notification(&self, notification: Notification, _: Context) {
        self.0.notify(notification);
    }
}

impl UpstreamHandler for FromServer {
    fn wrap(&self, link: Link) -> Link {
        let link = match &self.0.portable {
            Some(portable) => {
                portable.attach(&link);
                TargetLayer::of(link)
            }
            None => link,
        };
        // Over HTTP the client may have no open stream, and then it would stop the server.
        if self.0.exchanges {
            return link;
        }
        Link::new(Backpressure {
            io: link.into_transport(),
            client: self.0.client.subscribe(),
            waiting: None,
        })
    }

    async fn restarted(&self, client: &Client) {
        self.0.restore(client).await;
    }
}

/// A link to a server that is not read while the queue to the client is full.
///
/// Otherwise the notifications of a server that sends faster than its client reads would be stored without a limit, or
/// dropped. Messages of the client are never delayed.
struct Backpressure {
    io: Box<dyn Transport>,
    client: watch::Receiver<Option<Connection>>,
    /// The registration among those that wait for room in the queue.
    waiting: Option<u64>,
}

/// The registration of a server that has ended must not delay the next one.
impl Drop for Backpressure {
    fn drop(&mut self) {
        if let (Some(waiting), Some(client)) = (self.waiting, &*self.client.borrow()) {
            client.leave_call_queue(waiting);
        }
    }
}

impl TransportLayer for Backpressure {
    fn io(&self) -> &dyn Transport {
        &*self.io
    }

    fn io_mut(&mut self) -> &mut dyn Transport {
        &mut *self.io
    }

    fn poll_inbound(&mut self, cx: &mut TaskContext<'_>) -> Poll<Inbound> {
        if let Some(client) = &*self.client.borrow()
            && client.poll_call_queue(&mut self.waiting, cx).is_pending()
        {
            return Poll::Pending;
        }
        self.io.poll_inbound(cx)
    }
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::Raw;

    use super::*;

    fn unconnected() -> Arc<Pair> {
        Pair::new(Duration::ZERO, false, None, None, ErrorTexts::default(), Questions::default(), None)
    }

    fn payload(json: String) -> Payload {
        Payload::from_raw(Raw::parse(json).expect("JSON"))
    }

    #[test]
    fn what_a_server_says_before_there_is_a_client_is_kept_up_to_a_bound() {
        let pair = unconnected();
        let numbered = |number: usize| {
            let params = payload(format!("{{\"n\":{number}}}"));
            Notification { method: Method::LogMessage, params: Some(params) }
        };
        (0..=MAX_EARLY_NOTIFICATIONS).for_each(|number| pair.notify(numbered(number)));
        assert_eq!(pair.state.lock().early, (0..MAX_EARLY_NOTIFICATIONS).map(numbered).collect::<Vec<_>>());
        let pair = unconnected();
        let of = |bytes: usize| {
            let params = payload(format!("{{\"n\":\"{}\"}}", "x".repeat(bytes - 8)));
            Notification { method: Method::LogMessage, params: Some(params) }
        };
        let half = MAX_EARLY_BYTES / 2;
        let sent = [of(half), of(half + 1), of(half), of(8)];
        sent.iter().cloned().for_each(|notification| pair.notify(notification));
        assert_eq!(pair.state.lock().early, [sent[0].clone(), sent[2].clone()]);
        // The method counts, too: the server chooses its name.
        let named = Method::parse(&"x".repeat(MAX_EARLY_BYTES / 4));
        pair.notify(Notification { method: named, params: None });
        assert_eq!(pair.state.lock().early.len(), 2);
    }

    #[test]
    fn restored_subscriptions_at_a_new_server_are_limited() {
        let pair = unconnected();
        let of = |uri: usize, more: &str| payload(format!("{{\"uri\":\"{uri}\"{more}}}"));
        for uri in 0..=MAX_RESTORED_SUBSCRIPTIONS {
            pair.store(&Method::Subscribe, of(uri, ""));
        }
        pair.store(&Method::Subscribe, of(0, ",\"n\":1"));
        pair.store(&Method::Subscribe, of(0, &format!(",\"n\":\"{}\"", "x".repeat(8 * 1024))));
        let stored = |uri: usize| pair.state.lock().subscriptions.0.get(uri.to_string().as_str()).cloned();
        assert_eq!(stored(0), Some(of(0, ",\"n\":1")));
        assert!((1..MAX_RESTORED_SUBSCRIPTIONS).all(|uri| stored(uri) == Some(of(uri, ""))));
        assert_eq!(stored(MAX_RESTORED_SUBSCRIPTIONS), None);
        pair.store(&Method::Unsubscribe, of(1, ""));
        pair.store(&Method::Subscribe, of(MAX_RESTORED_SUBSCRIPTIONS, ""));
        assert!(stored(1).is_none() && stored(MAX_RESTORED_SUBSCRIPTIONS).is_some());
    }
}
