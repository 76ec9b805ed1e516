//! Clients of the modern era in front of a joined gateway: one connection of such a client.
//!
//! Requests go to the servers of the target's pools, as without joining. The names are those that the client has seen:
//! of this connection if it belongs to one client, otherwise of the principal or address of the request. Used by `mod`.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use mcpjoin::connection::Context;
use mcpjoin::handler::Handler;
use mcpjoin::internal::tasks_undeclared;
use mcpjoin::server::catalogue::{Kind, join_instructions};
use mcpjoin_proto::session::{Reply, ServerRole};
use mcpjoin_proto::types::task::EXTENSION;
use mcpjoin_proto::types::{
    DiscoverResult, InputRequest, ListenParams, Members, ProtocolType, ServerCapabilities, SubscriptionFilter,
};
use mcpjoin_proto::{Era, ErrorObject, Method, Notification, Payload, Raw, Request, Version};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::names::Names;
use super::router::{Part, Router};
use super::tasks::{ClientTasks, TargetTasks, declares};
use super::{CHANGES_DELAY, Joined, Target, list_changes, wants_warnings, warning};
use crate::capacity::Caller;
use crate::client::ClientHandle;
use crate::end::GatewayEnd;
use crate::errors::{ErrorTexts, failure, is_of_gateway};
use crate::modern::TargetRequests;
use crate::opening::Opening;
use crate::policy::Counting;
use crate::relay::{self, StreamSink, resource_updated, with_subscription_id};
use crate::settings::Settings;
use crate::target_health::TargetHealth;

/// How long the acknowledgement of a stream waits for the targets.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the answer to `server/discover` waits for the instructions of the targets.
const DISCOVER_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause before the stream of a target is opened again. It doubles each time in which the target itself refuses or ends it
/// soon, up to [`MAX_REOPEN_DELAY`].
const REOPEN_DELAY: Duration = Duration::from_secs(1);
const MAX_REOPEN_DELAY: Duration = Duration::from_secs(30);

/// Serves a client that gives its version in each request.
pub(super) async fn serve(
    joined: &Arc<Joined>,
    opening: Box<Opening>,
    handle: &ClientHandle,
    remote: bool,
) -> GatewayEnd {
    let is_own = !opening.caps().exchanges;
    let parts = joined.parts(|target| {
        let pools = &target.gateway.pools;
        let own = is_own.then(|| pools.of_connection());
        let errors = target.errors(remote);
        ModernPart {
            requests: TargetRequests::new(pools, own, errors.clone(), Counting::Before),
            target: target.clone(),
            errors,
        }
    });
    let own = is_own.then(|| (joined.names(), joined.tasks.of_connection(&Caller::Local)));
    let client = Arc::new(ModernClient { parts, own, joined: joined.clone() });
    let mut role = ServerRole::new(joined.info.clone(), ServerCapabilities::default());
    role.versions = vec![Version::newest(Era::Modern)];
    role.relays = true;
    let handler = FromClient(client.clone());
    let (connection, driver) =
        joined.telemetry.connection(opening.into_link(), role, joined.limits.clone(), handler);
    handle.connected(connection.clone());
    driver.await;
    join_all(client.parts.iter().map(|part| part.requests.close())).await;
    GatewayEnd::Client(connection.closed().await)
}

/// One connection with its targets.
struct ModernClient {
    parts: Vec<Arc<ModernPart>>,
    /// The names and the tasks of the client, if the connection belongs to one.
    own: Option<(Arc<Names>, Arc<ClientTasks>)>,
    joined: Arc<Joined>,
}

struct ModernPart {
    requests: TargetRequests,
    target: Arc<Target>,
    errors: ErrorTexts,
}

impl ModernPart {
    async fn ask(
        &self,
        request: Request,
        cx: &Context,
        sink: Option<StreamSink>,
    ) -> Result<Reply, ErrorObject> {
        self.target.health().restarted(None).await;
        if let Some(why) = self.target.health().cooling_down() {
            return Err(self.errors.not_available(Some(why)));
        }
        let reply = self.requests.request(request, cx, sink).await?;
        Ok(with_name(&self.target.name, reply))
    }
}

impl ModernPart {
    /// The log message that the target has no server.
    fn warning(&self) -> Notification {
        warning(&self.errors.not_available(self.target.health().outage()).message)
    }
}

impl Part for ModernPart {
    fn name(&self) -> &str {
        &self.target.name
    }

    fn is_ready(&self) -> bool {
        self.target.health().is_ready()
    }

    fn health(&self) -> &TargetHealth {
        self.target.health()
    }

    fn settings(&self) -> &Settings {
        self.target.settings()
    }

    fn outage(&self) -> Option<ErrorObject> {
        self.target.health().outage().map(|why| self.errors.not_available(Some(why)))
    }

    fn late(&self) -> ErrorObject {
        self.errors.late()
    }

    async fn request(&self, request: Request, cx: &Context) -> Result<Reply, ErrorObject> {
        self.ask(request, cx, None).await
    }
}

impl ModernClient {
    fn router(&self, cx: &Context) -> Router<ModernPart> {
        let caller = Caller::of_request(cx);
        let (names, tasks) = self.own.clone().unwrap_or_else(|| {
            let tasks = self.joined.tasks.of(&caller);
            (self.joined.names_of(caller.clone()), tasks)
        });
        Router { parts: self.parts.clone(), names, tasks, caller }
    }

    /// Opens a stream that joins those of all targets. It lives until this future is dropped.
    async fn listen(&self, request: Request, cx: &Context) -> Result<Reply, ErrorObject> {
        let router = self.router(cx);
        let filter = match request.params.as_ref().map(|params| ListenParams::read(params.raw())) {
            Some(Ok(params)) => params.notifications,
            Some(Err(error)) => return Err(ErrorObject::invalid_params(error.to_string())),
            None => SubscriptionFilter::default(),
        };
        let named = filter.resource_subscriptions.iter().chain(&filter.task_ids).flatten().count();
        let limit = self.joined.limits.subscriptions;
        if named > limit {
            let text = format!("too many subscriptions: the limit `subscriptions` of {limit} is exceeded");
            return Err(failure("tooManySubscriptions", &text, &[("limit", limit.to_string())]));
        }
        let id = cx.request_id().and_then(|id| Raw::from_value(id).ok()).unwrap_or_else(Raw::null);
        // Each target receives its own resources and tasks only.
        let mut owned: Vec<Vec<String>> = vec![Vec::new(); self.parts.len()];
        let mut accepted = filter.clone();
        let mut tasks: Vec<Vec<String>> = vec![Vec::new(); self.parts.len()];
        if let Some(ids) = &mut accepted.task_ids {
            if !declares(cx) {
                return Err(tasks_undeclared());
            }
            ids.retain(|id| {
                let own = router.tasks.open(id).filter(|(target, _)| *target < self.parts.len());
                own.map(|(target, id)| tasks[target].push(id)).is_some()
            });
        }
        if let Some(uris) = &mut accepted.resource_subscriptions {
            router.learn(uris, &request, cx).await;
            uris.retain(|uri| {
                let owner = router.names.owner(uri);
                owner.map(|owner| owned[owner].push(uri.clone())).is_some()
            });
        }
        let notifications = Raw::from_value(&accepted).unwrap_or_else(|_| Raw::empty_object());
        let acknowledgement = Arc::new(Acknowledgement::new(cx, &notifications, &id));
        let (changes, changed) = watch::channel(0_u64);
        let (acknowledged, mut acknowledgements) = watch::channel(0_usize);
        let streams = self.parts.iter().zip(owned.into_iter().zip(tasks)).enumerate();
        let streams = streams.map(|(index, (part, (uris, ids)))| {
            let mut own = SubscriptionFilter::default();
            own.tools_list_changed = filter.tools_list_changed;
            own.prompts_list_changed = filter.prompts_list_changed;
            own.resources_list_changed = filter.resources_list_changed;
            own.resource_subscriptions = (!uris.is_empty()).then(|| uris.clone());
            own.task_ids = (!ids.is_empty()).then_some(ids);
            let stream = TargetStream {
                part: part.clone(),
                request: with_filter(&request, &own),
                id: id.clone(),
                resources: uris.into(),
                cx: cx.clone(),
                names: router.names.clone(),
                tasks: router.tasks.at(index),
                index,
                changes: changes.clone(),
                acknowledged: acknowledged.clone(),
                acknowledgement: acknowledgement.clone(),
            };
            stream.run()
        });
        let all = join_all(streams);
        let tell = async {
            let late = self.parts.iter().filter(|part| part.health().is_late(&router.caller)).count();
            let enough = acknowledgements.wait_for(|count| *count + late >= self.parts.len());
            drop(timeout(ACKNOWLEDGE_TIMEOUT, enough).await);
            acknowledgement.send();
            self.tell_changes(changed, &filter, &id, cx).await;
        };
        tokio::join!(all, tell);
        Ok(Reply::empty())
    }

    /// Notifies a stream of changed lists, once for all changes within [`CHANGES_DELAY`].
    async fn tell_changes(
        &self,
        mut changed: watch::Receiver<u64>,
        filter: &SubscriptionFilter,
        id: &Raw,
        cx: &Context,
    ) {
        let wants = |method: &Method| match method {
            Method::ToolListChanged => filter.tools_list_changed == Some(true),
            Method::PromptListChanged => filter.prompts_list_changed == Some(true),
            _ => filter.resources_list_changed == Some(true),
        };
        let mut health: Vec<_> = self.parts.iter().map(|part| part.target.health().changes()).collect();
        let mut ready = self.ready();
        if health.is_empty() {
            return;
        }
        loop {
            let is_own = tokio::select! {
                own = changed.changed() => match own {
                    Ok(()) => true,
                    Err(_) => return,
                },
                _ = select_all(health.iter_mut().map(|events| Box::pin(events.changed()))) => false,
            };
            sleep(CHANGES_DELAY).await;
            let now = self.ready();
            if !is_own && now == ready && !changed.has_changed().unwrap_or(false) {
                continue;
            }
            if wants_warnings(cx.request().and_then(|request| request.log_level)) {
                let gone = ready.iter().zip(&now).zip(&self.parts);
                let gone = gone.filter(|((before, now), _)| **before && !**now);
                gone.for_each(|(_, part)| relay::notify(cx, part.warning()));
            }
            ready = now;
            changed.borrow_and_update();
            for change in list_changes().filter(|change| wants(&change.method)) {
                relay::notify(cx, with_subscription_id(change, id));
            }
        }
    }

    /// Whether each target has a server, or none has failed.
    fn ready(&self) -> Vec<bool> {
        self.parts.iter().map(|part| part.target.health().outage().is_none()).collect()
    }

    /// Describes the gateway, with the instructions of the targets that answer in time.
    async fn discover(&self, request: &Request, cx: &Context) -> Result<Reply, ErrorObject> {
        let caller = Caller::of_request(cx);
        let answers = self.parts.iter().map(|part| async {
            if part.health().is_late(&caller) {
                return None;
            }
            let asked = timeout(DISCOVER_TIMEOUT, part.ask(request.clone(), cx, None)).await;
            if asked.is_err() {
                part.health().was_late(&caller);
            }
            match asked.ok()?.ok()? {
                // Only a modern target has the tasks of this era.
                Reply::Verbatim(result) => Some((result.raw().member("instructions"), has_tasks(&result))),
                Reply::Complete(result) => Some((result.member("instructions"), false)),
                Reply::NeedInput(_) | Reply::Task(_) => None,
            }
        });
        let (instructions, has_tasks): (Vec<_>, Vec<bool>) =
            join_all(answers).await.into_iter().map(Option::unwrap_or_default).unzip();
        let instructions: Vec<Option<String>> =
            instructions.into_iter().map(|text| Some(text?.to_string_value()?.into_owned())).collect();
        self.joined.opened.send_replace(true);
        let named = self.parts.iter().zip(&instructions);
        let named = named.filter_map(|(part, text)| Some((&*part.target.name, text.as_deref()?)));
        let mut capabilities = self.joined.capabilities();
        if has_tasks.contains(&true) {
            capabilities = capabilities.with_extensions([(EXTENSION, Raw::empty_object())]);
        }
        let result = DiscoverResult::new(Version::ALL.to_vec(), capabilities)
            .with_instructions(join_instructions(named));
        let result = Raw::from_value(&result).map_err(|error| ErrorObject::internal(error.to_string()))?;
        Ok(Reply::Complete(result))
    }
}

/// The part of a stream that one target has.
struct TargetStream {
    part: Arc<ModernPart>,
    request: Request,
    /// The id of the client's request.
    id: Raw,
    /// The resources of the target that the stream names.
    resources: Arc<[String]>,
    cx: Context,
    names: Arc<Names>,
    tasks: TargetTasks,
    index: usize,
    /// Counts the changes of lists.
    changes: watch::Sender<u64>,
    /// Counts the targets that have acknowledged, or have failed once.
    acknowledged: watch::Sender<usize>,
    acknowledgement: Arc<Acknowledgement>,
}

/// The acknowledgement of a joined stream. It precedes each event, so it is sent with the first one if a target is slow.
struct Acknowledgement {
    cx: Context,
    unsent: Mutex<Option<Notification>>,
}

impl Acknowledgement {
    fn new(cx: &Context, notifications: &Raw, id: &Raw) -> Self {
        let params = Payload::from_raw(Raw::empty_object()).with_member("notifications", notifications);
        let unsent = Notification { method: Method::SubscriptionsAcknowledged, params: Some(params) };
        Self { cx: cx.clone(), unsent: Mutex::new(Some(with_subscription_id(unsent, id))) }
    }

    /// Sends it, unless it was sent.
    fn send(&self) {
        // The lock is held, so that no other target sends an event before.
        let mut unsent = self.unsent.lock();
        if let Some(acknowledgement) = unsent.take() {
            relay::notify(&self.cx, acknowledgement);
        }
    }
}

impl TargetStream {
    /// Opens the stream of the target, and opens it again when it has ended, until this is dropped or the gateway is closed.
    async fn run(self) {
        let (counted, was_open) = (Arc::new(watch::Sender::new(false)), watch::Sender::new(false));
        let (was_open, is_open) = (Arc::new(was_open), Arc::new(AtomicBool::new(false)));
        let mut delay = REOPEN_DELAY;
        let count = {
            let (counted, acknowledged) = (counted.clone(), self.acknowledged.clone());
            move || {
                if !counted.send_replace(true) {
                    acknowledged.send_modify(|count| *count += 1);
                }
            }
        };
        loop {
            let sink: StreamSink = {
                let (count, was_open, cx) = (count.clone(), was_open.clone(), self.cx.clone());
                let (names, index, changes) = (self.names.clone(), self.index, self.changes.clone());
                let (tasks, target) = (self.tasks.clone(), self.part.target.clone());
                let (acknowledgement, is_open) = (self.acknowledgement.clone(), is_open.clone());
                let (resources, id) = (self.resources.clone(), self.id.clone());
                Arc::new(move |notification: Notification| match notification.method {
                    Method::SubscriptionsAcknowledged => {
                        is_open.store(true, Ordering::Relaxed);
                        // What happened while there was no stream is not known, and a late target is new to the client.
                        let had_gap = was_open.send_replace(true);
                        if had_gap || names.is_left_out(index) {
                            names.outdate(index);
                            changes.send_modify(|changes| *changes += 1);
                        }
                        if had_gap && !resources.is_empty() {
                            acknowledgement.send();
                            for uri in &*resources {
                                let updated = resource_updated(&Raw::string(uri));
                                relay::notify(&cx, with_subscription_id(updated, &id));
                            }
                        }
                        count();
                    }
                    Method::ToolListChanged | Method::PromptListChanged | Method::ResourceListChanged => {
                        names.outdate(index);
                        changes.send_modify(|changes| *changes += 1);
                    }
                    Method::Tasks => {
                        let mut notification = tasks.notification(notification);
                        notification.params =
                            notification.params.map(|task| named_questions(&target.name, task));
                        acknowledgement.send();
                        relay::notify(&cx, notification);
                    }
                    _ => {
                        acknowledgement.send();
                        relay::notify(&cx, notification);
                    }
                })
            };
            let began = Instant::now();
            let ended = self.part.ask(self.request.clone(), &self.cx, Some(sink)).await;
            let is_answer = ended.as_ref().err().is_none_or(|error| !is_of_gateway(error));
            tracing::debug!(target: "mcpjoin", from = self.index, ended = ?ended.err(), "a stream of a target has ended");
            count();
            was_open.send_replace(true);
            if is_open.swap(false, Ordering::Relaxed) {
                // Its tools leave, and come back with the next stream.
                self.changes.send_modify(|changes| *changes += 1);
            }
            if self.part.target.is_closed() {
                return;
            }
            if !is_answer || began.elapsed() > MAX_REOPEN_DELAY {
                delay = REOPEN_DELAY;
            }
            sleep(delay).await;
            delay = (2 * delay).min(MAX_REOPEN_DELAY);
            self.part.target.health().ready_to_start().await;
        }
    }
}

/// Whether the result of `server/discover` declares tasks.
fn has_tasks(discovered: &Payload) -> bool {
    let capabilities = discovered.raw().member("capabilities");
    let extensions = capabilities.and_then(|capabilities| capabilities.member("extensions"));
    extensions.is_some_and(|extensions| extensions.member(EXTENSION).is_some())
}

/// The request with the part of its filter that one target gets.
fn with_filter(request: &Request, filter: &SubscriptionFilter) -> Request {
    let params = request.params.clone().unwrap_or_else(|| Payload::from_raw(Raw::empty_object()));
    let filter = Raw::from_value(filter).unwrap_or_else(|_| Raw::empty_object());
    Request { params: Some(params.with_member("notifications", &filter)), ..request.clone() }
}

/// Puts the name of the target before the message of each question, so that the user knows who asks.
fn with_name(name: &str, reply: Reply) -> Reply {
    match reply {
        Reply::NeedInput(mut input) => {
            let requests = input.input_requests.take();
            input.input_requests = requests.map(|requests| {
                requests.into_iter().map(|(key, request)| (key, named_request(name, request))).collect()
            });
            Reply::NeedInput(input)
        }
        Reply::Verbatim(result) if relay::may_ask(&result) => Reply::Verbatim(named_questions(name, result)),
        reply => reply,
    }
}

/// Names the target in a question of a legacy server, which the translation leaves as text.
fn named_request(name: &str, request: InputRequest) -> InputRequest {
    match request {
        InputRequest::Other { method, params: Some(params) } if Method::parse(&method) == Method::Elicit => {
            let params = relay::named(Some(name), Payload::from_raw(params)).into_raw();
            InputRequest::Other { method, params: Some(params) }
        }
        request => request,
    }
}

/// Names the target in the questions of a modern server.
fn named_questions(name: &str, result: Payload) -> Payload {
    let questions = result.raw().member("inputRequests");
    let questions: Option<Members<Raw>> = questions.and_then(|questions| questions.decode().ok());
    let Some(questions) = questions else { return result };
    let named: Members<Raw> = questions
        .into_iter()
        .map(|(key, question)| {
            let method = question.member("method");
            let method = method.as_ref().and_then(Raw::to_string_value);
            let is_elicitation = method.is_some_and(|method| Method::parse(&method) == Method::Elicit);
            let params = question.member("params").filter(|_| is_elicitation);
            let named = params.map(|params| relay::named(Some(name), Payload::from_raw(params)).into_raw());
            let question = match named {
                Some(params) => Payload::from_raw(question).with_member("params", &params).into_raw(),
                None => question,
            };
            (key, question)
        })
        .collect();
    match Raw::from_value(&named) {
        Ok(named) => result.with_member("inputRequests", &named),
        Err(_) => result,
    }
}

/// Answers the requests of the client.
struct FromClient(Arc<ModernClient>);

impl Handler for FromClient {
    async fn request(&self, request: Request, cx: Context) -> Result<Reply, ErrorObject> {
        let _counted = match self.0.joined.client_limits.admit(&request, &cx) {
            Ok(counted) => counted,
            Err(error) => return Err(self.0.router(&cx).refused(request, &cx, error).await),
        };
        match request.method {
            Method::Discover => self.0.discover(&request, &cx).await,
            Method::Listen => self.0.listen(request, &cx).await,
            // Of the legacy era, in which the router answers them.
            Method::Ping | Method::Subscribe | Method::Unsubscribe => {
                Err(ErrorObject::method_not_found(request.method.as_str()))
            }
            ref method if Kind::of_list(method).is_some() => {
                let (is_of_tools, router) = (*method == Method::ListTools, self.0.router(&cx));
                let reply = router.request(request, &cx).await?;
                self.0.joined.listed(&router.names);
                if is_of_tools && self.0.own.is_none() {
                    self.0.joined.header_marks.learn_from(&router.caller, &reply);
                }
                Ok(reply)
            }
            _ => self.0.router(&cx).request(request, &cx).await,
        }
    }

    async fn notification(&self, notification: Notification, _: Context) {
        for part in &self.0.parts {
            part.requests.notification(notification.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_names_its_target_however_the_target_has_written_it() {
        let question = r#"{"method":"elicitation/create","params":{"message":"m","mode":"form"}}"#;
        let named = r#""message":"[a] m""#;
        for written in [
            question.to_owned(),
            // As `json_encode` of PHP writes it.
            question.replace('/', "\\/"),
            question.replace("method", "m\\u0065thod").replace("create", "cre\\u0061te"),
        ] {
            for member in ["inputRequests", "inputRequest\\u0073"] {
                let result = format!(r#"{{"resultType":"input_required","{member}":{{"q":{written}}}}}"#);
                let result = Payload::from_raw(Raw::parse(result).expect("JSON"));
                let Reply::Verbatim(shown) = with_name("a", Reply::Verbatim(result)) else {
                    panic!("a result")
                };
                assert!(shown.raw().as_str().contains(named), "{}", shown.raw());
            }
        }
        let other = question.replace("elicitation/create", "sampling/createMessage");
        let result = format!(r#"{{"inputRequests":{{"q":{other}}}}}"#);
        let result = Payload::from_raw(Raw::parse(result).expect("JSON"));
        assert_eq!(with_name("a", Reply::Verbatim(result.clone())), Reply::Verbatim(result));
    }
}
