//! A legacy client and the server that it has for itself: what one says is said to the other.
//!
//! The client's connection and the server's are made one after the other, so each finds the other through the [`Pair`].
//! Where the server is of the modern era, [`legacy_to_modern`](super::legacy_to_modern) answers in between.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcpjoin_proto::session::{Call, Limits, NotifyRefused, Reply};
use mcpjoin_proto::types::ServerCapabilities;
use mcpjoin_proto::{ErrorObject, Method, Notification, Payload, Request};
use tokio::sync::watch;

use super::pace::paced;
use super::relaying::{call, failure, forward};
use super::telling::Telling;
use super::upstream::Answers;
use mcpjoin::client::Client;
use mcpjoin::connection::{Connection, Context};
use mcpjoin::handler::Handler;
use mcpjoin::link::Link;

/// Notifications of a server that are kept until its client can be told, in number and in bytes.
const EARLY: usize = 256;
const EARLY_BYTES: usize = 1024 * 1024;
/// Subscriptions that are made again for a server that was started again.
const SUBSCRIPTIONS: usize = 1024;

/// What the two connections share.
pub(super) struct Pair {
    timeout: Duration,
    /// Each request of the client has a stream of its own, and what belongs to none has perhaps another.
    exchanges: bool,
    /// Whether somebody listens to what belongs to no request.
    heard: Option<Heard>,
    /// What the client is told of failures.
    pub(super) telling: Telling,
    client: watch::Sender<Option<Connection>>,
    state: Mutex<State>,
}

/// Whether somebody listens to what belongs to no request.
pub(super) type Heard = Box<dyn Fn() -> bool + Send + Sync>;

#[derive(Default)]
struct State {
    /// What the server has said before there was anybody to be told.
    early: Vec<Notification>,
    /// What was last asked for and granted, to be asked of a server that was started again.
    level: Option<Payload>,
    subscriptions: BTreeMap<Box<str>, Payload>,
}

impl State {
    fn has_room_for(&self, early: &Notification) -> bool {
        let bytes: usize = self.early.iter().map(Notification::payload_len).sum();
        self.early.len() < EARLY && bytes.saturating_add(early.payload_len()) <= EARLY_BYTES
    }
}

impl Pair {
    pub(super) fn new(
        timeout: Duration,
        exchanges: bool,
        heard: Option<Heard>,
        telling: Telling,
    ) -> Arc<Self> {
        let (client, _) = watch::channel(None);
        Arc::new(Self { timeout, exchanges, heard, telling, client, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the client is connected now: over HTTP by a stream of its session, elsewhere by the connection itself.
    pub(super) fn is_attended(&self) -> bool {
        !self.exchanges || self.heard.as_ref().is_some_and(|heard| heard())
    }

    /// The client's connection is made.
    pub(super) fn connect(&self, client: Connection) {
        // Under the lock, so that what is told from now on comes behind what waits.
        let mut state = self.lock();
        for notification in std::mem::take(&mut state.early) {
            self.tell_client(&client, notification);
        }
        self.client.send_replace(Some(client));
    }

    /// The client's connection, once requests may be made over it.
    async fn client(&self) -> Result<Connection, ErrorObject> {
        let gone = || failure("clientGone", "the client has left", &[]);
        let mut client = self.client.subscribe();
        let client = client.wait_for(Option::is_some).await.ok().and_then(|client| client.clone());
        let client = client.ok_or_else(gone)?;
        client.opened().await.map_err(|_| gone())?;
        Ok(client)
    }

    // ---- from the client to the server ----

    /// Asks a legacy server what the client has asked.
    pub(super) async fn ask_server(
        &self,
        server: &Client,
        request: Request,
        cx: &Context,
    ) -> Result<Payload, ErrorObject> {
        let kept = match request.method {
            Method::SetLevel | Method::Subscribe | Method::Unsubscribe => request.params.clone(),
            _ => None,
        };
        let call = call(request.method.clone(), request.params, cx, self.timeout);
        match forward(server.connection().call(call), cx).await {
            Ok(result) => {
                if let Some(params) = kept {
                    self.keep(&request.method, params);
                }
                Ok(result)
            }
            Err(error) => Err(self.telling.ended(error, server.connection()).await),
        }
    }

    /// Notes what holds for the session, for a server that has to be told anew.
    fn keep(&self, method: &Method, params: Payload) {
        // What is given again asks for nothing beside.
        let params = params.without_members(|name| name == "_meta");
        let mut state = self.lock();
        if *method == Method::SetLevel {
            state.level = Some(params);
            return;
        }
        let uri = params.uri();
        let Some(uri) = uri.as_ref().and_then(|uri| uri.to_string_value()) else { return };
        if *method == Method::Unsubscribe {
            state.subscriptions.remove(&*uri);
        } else if params.raw().len() <= Limits::default().subscription_bytes
            && (state.subscriptions.len() < SUBSCRIPTIONS || state.subscriptions.contains_key(&*uri))
        {
            state.subscriptions.insert((*uri).into(), params);
        }
    }

    // ---- from the server to the client ----

    /// Asks the client what the server has asked.
    async fn ask_client(&self, request: Request, cx: &Context) -> Result<Reply, ErrorObject> {
        let client = self.client().await?;
        self.ask(&client, request, cx).await.map(Reply::Verbatim)
    }

    async fn ask(&self, client: &Connection, request: Request, cx: &Context) -> Result<Payload, ErrorObject> {
        let mut call = call(request.method, request.params, cx, self.timeout);
        if self.exchanges {
            call.on_behalf_of = self.stream_for(client, true);
        }
        match forward(client.call(call), cx).await {
            Ok(result) => Ok(result),
            Err(error) => Err(match error {
                mcpjoin_proto::session::CallError::Closed(_) => {
                    failure("clientGone", "the client has left", &[])
                }
                error => Telling::default().ended(error, client).await,
            }),
        }
    }

    /// The request of the client on whose stream something is said that belongs to none that is known: the only one under
    /// way (`related`: it is likely to belong to one), none where somebody listens to what belongs to none, or the oldest.
    fn stream_for(&self, client: &Connection, related: bool) -> Option<mcpjoin_proto::RequestId> {
        let heard = self.heard.as_ref().is_some_and(|heard| heard());
        if heard && !related {
            return None;
        }
        let (under_way, oldest) = client.handled_requests();
        oldest.filter(|_| under_way == 1 || !heard)
    }

    /// Tells the client what the server tells.
    pub(super) fn tell(&self, notification: Notification) {
        let mut state = self.lock();
        let client = self.client.borrow().clone();
        match client {
            Some(client) => {
                drop(state);
                self.tell_client(&client, notification);
            }
            None if state.has_room_for(&notification) => state.early.push(notification),
            None => {
                tracing::debug!(target: "mcpjoin", "a notification came before its client, and too many do");
            }
        }
    }

    fn tell_client(&self, client: &Connection, notification: Notification) {
        let changes = matches!(
            notification.method,
            Method::ToolListChanged
                | Method::PromptListChanged
                | Method::ResourceListChanged
                | Method::ResourceUpdated
        );
        let stream = if self.exchanges { self.stream_for(client, !changes) } else { None };
        let told = match stream {
            Some(request) => match client.notify_on(request, notification.clone()) {
                // It has just ended.
                Err(NotifyRefused::NoSuchRequest) => client.notify(notification),
                told => told,
            },
            None => client.notify(notification),
        };
        if let Err(error) = told {
            tracing::debug!(target: "mcpjoin", %error, "a notification was not handed on");
        }
    }

    /// Asks a server that was started again for what the client has asked of the one before, and tells the client that
    /// lists may be others now.
    async fn ask_anew(&self, server: &Client) {
        let (level, subscriptions) = {
            let state = self.lock();
            (state.level.clone(), state.subscriptions.values().cloned().collect::<Vec<_>>())
        };
        let asked = level.map(|params| (Method::SetLevel, params)).into_iter();
        let asked = asked.chain(subscriptions.into_iter().map(|params| (Method::Subscribe, params)));
        for (method, params) in asked {
            let mut call = Call::new(method);
            call.params = Some(params);
            if let Err(error) = server.connection().call(call).await {
                tracing::debug!(target: "mcpjoin", %error, "what was asked of the server before was not granted again");
            }
        }
        let peer = server.peer();
        for method in peer.server_capabilities().into_iter().flat_map(changes_of) {
            self.tell(Notification { method, params: None });
        }
    }
}

/// The changes of lists of which a server tells.
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

/// What the server of a pair asks and tells.
#[derive(Clone)]
pub(super) struct FromServer(pub(super) Arc<Pair>);

impl Handler for FromServer {
    async fn request(&self, request: Request, cx: Context) -> Result<Reply, ErrorObject> {
        self.0.ask_client(request, &cx).await
    }

    async fn notification(&self, notification: Notification, _: Context) {
        self.0.tell(notification);
    }
}

impl Answers for FromServer {
    fn paced(&self, link: Link) -> Link {
        // Over HTTP nobody may be there for what belongs to no request.
        if self.0.exchanges { link } else { paced(link, self.0.client.subscribe()) }
    }

    async fn began(&self, client: &Client) {
        self.0.ask_anew(client).await;
    }
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::Raw;

    use super::*;

    fn unconnected() -> Arc<Pair> {
        Pair::new(Duration::ZERO, false, None, Telling::default())
    }

    fn payload(json: String) -> Payload {
        Payload::from_raw(Raw::parse(json).expect("JSON"))
    }

    #[test]
    fn what_a_server_says_before_there_is_a_client_is_kept_up_to_a_bound() {
        let pair = unconnected();
        let told = |number: usize| {
            let params = payload(format!("{{\"n\":{number}}}"));
            Notification { method: Method::LogMessage, params: Some(params) }
        };
        (0..=EARLY).for_each(|number| pair.tell(told(number)));
        assert_eq!(pair.lock().early, (0..EARLY).map(told).collect::<Vec<_>>());
        let pair = unconnected();
        let of = |bytes: usize| {
            let params = payload(format!("{{\"n\":\"{}\"}}", "x".repeat(bytes - 8)));
            Notification { method: Method::LogMessage, params: Some(params) }
        };
        let told = [of(EARLY_BYTES / 2), of(EARLY_BYTES / 2 + 1), of(EARLY_BYTES / 2), of(8)];
        told.iter().cloned().for_each(|told| pair.tell(told));
        assert_eq!(pair.lock().early, [told[0].clone(), told[2].clone()]);
        // The name is the server's choice, too.
        let named = Method::parse(&"x".repeat(EARLY_BYTES / 4));
        pair.tell(Notification { method: named, params: None });
        assert_eq!(pair.lock().early.len(), 2);
    }

    #[test]
    fn so_many_subscriptions_are_made_again_at_a_new_server() {
        let pair = unconnected();
        let of = |uri: usize, more: &str| payload(format!("{{\"uri\":\"{uri}\"{more}}}"));
        for uri in 0..=SUBSCRIPTIONS {
            pair.keep(&Method::Subscribe, of(uri, ""));
        }
        pair.keep(&Method::Subscribe, of(0, ",\"n\":1"));
        pair.keep(&Method::Subscribe, of(0, &format!(",\"n\":\"{}\"", "x".repeat(8 * 1024))));
        let kept = |uri: usize| pair.lock().subscriptions.get(uri.to_string().as_str()).cloned();
        assert_eq!(kept(0), Some(of(0, ",\"n\":1")));
        assert!((1..SUBSCRIPTIONS).all(|uri| kept(uri) == Some(of(uri, ""))));
        assert_eq!(kept(SUBSCRIPTIONS), None);
        pair.keep(&Method::Unsubscribe, of(1, ""));
        pair.keep(&Method::Subscribe, of(SUBSCRIPTIONS, ""));
        assert!(kept(1).is_none() && kept(SUBSCRIPTIONS).is_some());
    }
}
