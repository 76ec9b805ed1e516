//! One endpoint for several targets.
//!
//! A joined gateway has a single-target gateway for each target, which starts its servers, keeps clients apart and
//! translates between eras. What is added here: names with a prefix, joined lists, one opening, one stream of
//! changes, and the health of each target, so that a dead target costs only its own tools. `legacy` and `modern` serve
//! the clients of an era, `router` answers their requests, `names` knows what belongs to which target, `tasks` makes the
//! ids of tasks. Each target can be reached alone, too ([`JoinedGateway::target`]).

mod legacy;
mod modern;
mod names;
mod router;
mod tasks;

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin::server::catalogue::{Collision, Source};
use mcpjoin::server::{SealingKeys, TaskStore};
use mcpjoin::transport::{HttpListener, HttpOptions, HttpService, Link, Listener};
use mcpjoin_proto::session::{CloseCause, Limits};
use mcpjoin_proto::types::{
    Implementation, LoggingLevel, PromptsCapability, ResourcesCapability, ServerCapabilities, ToolsCapability,
};
use mcpjoin_proto::{Method, Notification, Payload, Raw};
use parking_lot::Mutex;
use tokio::sync::watch;

use self::names::Names;
pub(super) use self::tasks::TargetTasks;
use self::tasks::TaskIds;
use crate::capacity::Caller;
use crate::client::ClientHandle;
use crate::end::GatewayEnd;
use crate::errors::ErrorTexts;
use crate::opening::Opening;
use crate::policy::{Allowed, ClientLimits};
use crate::serving::{ServeClient, Serving};
use crate::settings::Settings;
use crate::status::TargetStatus;
use crate::target_health::TargetHealth;
use crate::telemetry::Telemetry;
use crate::tools::HeaderMarks;
use crate::warnings::Warnings;
use crate::{Gateway, GatewayBuilder, serving};

/// How long changes of lists are collected before a client is notified once.
const CHANGES_DELAY: Duration = Duration::from_millis(200);
/// Principals and addresses whose names are remembered. The names of the one that was used least recently are forgotten,
/// and read again when they are needed.
const MAX_CALLERS: usize = 64;

/// Joins several targets to one server. Made by [`Gateway::joined`], cheap to clone.
///
/// ```no_run
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// use mcpjoin::transport::{ChildCommand, HttpListener, HttpOptions};
/// use mcpjoin_gateway::Gateway;
///
/// let (files, git) = (ChildCommand::new("files-server"), ChildCommand::new("git-server"));
/// let gateway = Gateway::joined("tools", "1.0.0")
///     .target("files", Gateway::builder(move || files.clone().start()))
///     .target("git", Gateway::builder(move || git.clone().start()))
///     .build();
/// let interrupted = async { drop(tokio::signal::ctrl_c().await) };
/// gateway.serve_http(HttpListener::bind("http://127.0.0.1:8080/mcp").await?, HttpOptions::new(), interrupted).await;
/// gateway.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct JoinedGateway(Arc<Joined>);

/// Builds a [`JoinedGateway`]. Made by [`Gateway::joined`].
#[must_use = "a builder serves no client by itself"]
pub struct JoinedBuilder {
    info: Implementation,
    limits: Limits,
    telemetry: Telemetry,
    targets: Vec<(Box<str>, TargetOptions, GatewayBuilder)>,
    keys: Option<SealingKeys>,
    task_store: Option<Arc<dyn TaskStore>>,
}

/// How a target is joined.
#[derive(Clone, Debug)]
#[must_use = "options have no effect by themselves"]
pub struct TargetOptions {
    source: Option<Source>,
    questions: Allowed,
}

pub(crate) struct Joined {
    info: Implementation,
    limits: Arc<Limits>,
    telemetry: Telemetry,
    targets: Vec<Arc<Target>>,
    client_limits: ClientLimits,
    header_marks: HeaderMarks,
    tasks: Arc<TaskIds>,
    /// The names of clients over HTTP without a session, the caller that was used last at the end.
    names: Mutex<VecDeque<(Caller, Arc<Names>)>>,
    /// The names of the client that has read a list last.
    listed: Mutex<Option<Arc<Names>>>,
    /// Whether the opening of a client has ended.
    opened: watch::Sender<bool>,
    /// Those about clients.
    warnings: Warnings,
}

/// One target.
pub(crate) struct Target {
    name: Box<str>,
    source: Source,
    gateway: Gateway,
}

impl Default for TargetOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl TargetOptions {
    /// The defaults: the prefix is the name of the target with `__` behind it, and its servers may ask nothing but
    /// elicitation, whose message then names the target. Rules of a policy precede these options.
    pub const fn new() -> Self {
        Self { source: None, questions: Allowed { sampling: false, roots: false } }
    }

    /// Sets how the names of tools and prompts are joined. A source with an empty prefix leaves them unchanged.
    pub fn source(mut self, source: impl Into<Source>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Sets whether its servers may use the client's model (`sampling/createMessage`). Default: no.
    pub const fn sampling(mut self, allowed: bool) -> Self {
        self.questions.sampling = allowed;
        self
    }

    /// Sets whether its servers may ask for the client's roots (`roots/list`). Default: no.
    pub const fn roots(mut self, allowed: bool) -> Self {
        self.questions.roots = allowed;
        self
    }
}

impl JoinedBuilder {
    pub(super) fn new(info: Implementation) -> Self {
        Self {
            info,
            limits: Limits::default(),
            telemetry: Telemetry::default(),
            targets: Vec::new(),
            keys: None,
            task_store: None,
        }
    }

    /// Adds a target. The order of the targets is that of the joined lists, and of precedence where two targets offer
    /// the same name or URI.
    pub fn target(self, name: impl Into<Box<str>>, gateway: GatewayBuilder) -> Self {
        self.target_with(name, TargetOptions::new(), gateway)
    }

    /// Adds a target with options.
    pub fn target_with(
        mut self,
        name: impl Into<Box<str>>,
        options: TargetOptions,
        gateway: GatewayBuilder,
    ) -> Self {
        self.targets.push((name.into(), options, gateway));
        self
    }

    /// Sets the limits of each connection to a client. Default: [`Limits::default`]. Those of the targets' builders
    /// hold where a target is reached alone.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Makes the ids of tasks with keys that other processes have as well, so that each of them knows the tasks. The processes
    /// have the same targets in the same order. By default a key is made that only this gateway has.
    ///
    /// Sessions of legacy clients are shared by [`SealedSessions`](crate::SealedSessions).
    pub fn sealing_keys(mut self, keys: SealingKeys) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Lets a legacy client list the tasks (`tasks/list`) that it has created at another process with the same
    /// [`sealing_keys`](Self::sealing_keys). Of a task the store gets the id and its target, no state and no result. One client has at
    /// most as many there as the store keeps for an owner. By default each process lists the tasks that were created there.
    pub fn task_store(mut self, store: impl TaskStore) -> Self {
        self.task_store = Some(Arc::new(store));
        self
    }

    /// Records spans of OpenTelemetry, as [`GatewayBuilder::telemetry`] does, at this endpoint and for every target. The span
    /// of a client's request has the joined name, that of the request to the server the server's own name. Feature `otel`.
    #[cfg(feature = "otel")]
    pub fn telemetry(mut self) -> Self {
        self.telemetry = Telemetry::on();
        self
    }

    /// Builds the gateway. No server is started before a client needs it. Of two targets with one name only the first
    /// is reached alone ([`JoinedGateway::target`]).
    #[must_use]
    pub fn build(self) -> JoinedGateway {
        let target = |(name, options, builder): (Box<str>, TargetOptions, GatewayBuilder)| {
            let source = options.source.unwrap_or_else(|| Source::new(&*name));
            let gateway = builder.build_target(&name, options.questions, &self.telemetry);
            Arc::new(Target { name, source, gateway })
        };
        let targets: Vec<Arc<Target>> = self.targets.into_iter().map(target).collect();
        let client_limits = ClientLimits::of(targets.iter().map(|target| target.settings()));
        JoinedGateway(Arc::new(Joined {
            info: self.info,
            limits: Arc::new(self.limits),
            telemetry: self.telemetry,
            targets,
            client_limits,
            header_marks: HeaderMarks::default(),
            tasks: Arc::new(TaskIds::new(self.keys, self.task_store)),
            names: Mutex::default(),
            listed: Mutex::default(),
            opened: watch::Sender::new(false),
            warnings: Warnings::default(),
        }))
    }
}

impl JoinedGateway {
    /// Serves one client until its connection ends, as [`Gateway::serve`] does.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled.
    pub async fn serve(&self, link: Link) -> GatewayEnd {
        serving::serve(self.clone(), link).await
    }

    /// Serves all clients that connect to the listener until `end` is ready, as [`Gateway::serve_all`] does.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled.
    pub async fn serve_all(&self, listener: Listener, end: impl Future<Output = ()>) {
        serving::serve_all(self, listener, end).await;
    }

    /// Returns a service that answers HTTP requests, as [`Gateway::http`] does. Below its path each target is reached
    /// alone, under its name: `/mcp/NAME`.
    #[must_use]
    pub fn http(&self, options: HttpOptions) -> HttpService {
        let mut service = serving::http(self.clone(), options.clone(), self.0.limits.clone());
        for target in self.0.targets.iter().rev() {
            service = service.with_route(&target.name, target.gateway.http(options.clone()));
        }
        service
    }

    /// Serves all clients that connect to the listener until `end` is ready, as [`Gateway::serve_http`] does.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time enabled.
    pub async fn serve_http(
        &self,
        listener: HttpListener,
        options: HttpOptions,
        end: impl Future<Output = ()>,
    ) {
        let service = self.http(listener.options(options));
        listener.serve(service, end).await;
    }

    /// Returns the gateway of one target, which serves its clients with the original names.
    #[must_use]
    pub fn target(&self, name: &str) -> Option<&Gateway> {
        self.0.targets.iter().find(|target| &*target.name == name).map(|target| &target.gateway)
    }

    /// Waits until the opening of a client has ended for the first time: each target is open or has failed once, or
    /// its time has passed. No server is started before, so the states of the targets say little until then.
    ///
    /// Ends at once if it has ended. Dropping the future has no effect.
    pub async fn opened(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.opened.subscribe().wait_for(|opened| *opened).await;
    }

    /// Returns the targets in their order, with their states. Collisions are those that the client which has read a list
    /// last has seen.
    #[must_use]
    pub fn targets(&self) -> Vec<TargetStatus> {
        let names = self.0.listed.lock().clone();
        let text = |Collision { kind, name, owner, .. }: Collision| {
            let owner = self.0.targets.get(owner.source).map_or("", |target| &target.name);
            format!("{kind}: `{name}` is that of `{owner}`").into()
        };
        let status = |(index, target): (usize, &Arc<Target>)| TargetStatus {
            collisions: names.iter().flat_map(|names| names.collisions(index)).map(text).collect(),
            ..target.gateway.status(target.name.clone())
        };
        self.0.targets.iter().enumerate().map(status).collect()
    }

    /// Returns the number of servers of all targets that run or start.
    #[must_use]
    pub fn running_servers(&self) -> usize {
        self.0.targets.iter().map(|target| target.gateway.running_servers()).sum()
    }

    /// Returns the number of sessions of legacy clients. Modern clients have none. A session is counted while at least one
    /// target is open for it; sessions of single targets are counted where they are the most.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.0.targets.iter().map(|target| target.gateway.sessions()).max().unwrap_or(0)
    }

    /// Ends every server, and waits until nothing of them is left. Requests in flight and all later requests fail.
    pub async fn close(&self) {
        futures_util::future::join_all(self.0.targets.iter().map(|target| target.gateway.close())).await;
    }
}

impl ServeClient for JoinedGateway {
    fn serve_client(self, link: Link, handle: ClientHandle, remote: bool) -> Serving {
        Box::pin(async move { self.0.serve_to_end(link, &handle, remote).await })
    }

    fn header_marks(&self) -> &HeaderMarks {
        &self.0.header_marks
    }
}

impl Joined {
    /// `remote`: the client came over a listener or over HTTP, so it may be anyone.
    async fn serve_to_end(self: &Arc<Self>, link: Link, handle: &ClientHandle, remote: bool) -> GatewayEnd {
        let mut opening = Opening::new(link, &self.limits);
        let first = tokio::select! {
            biased;
            first = opening.first() => first,
            () = handle.drained() => Err(CloseCause::Local),
        };
        let first = match first {
            Err(cause) => return opening.close(cause).await,
            Ok(first) => first,
        };
        let client = remote.then(|| first.client_name());
        let end = if first.hello.initializes {
            legacy::serve(self, opening, first, handle, remote).await
        } else {
            modern::serve(self, opening, handle, remote).await
        };
        if let Some(client) = client {
            self.warnings.warn_of_client(&client, &end);
        }
        end
    }

    fn parts<P>(&self, part: impl Fn(&Arc<Target>) -> P) -> Vec<Arc<P>> {
        self.targets.iter().map(|target| Arc::new(part(target))).collect()
    }

    /// Returns names of which nothing is known.
    fn names(&self) -> Arc<Names> {
        Arc::new(Names::new(self.targets.iter().map(|target| target.source.clone())))
    }

    /// A client has read a list, so it is open.
    fn listed(&self, names: &Arc<Names>) {
        *self.listed.lock() = Some(names.clone());
        self.opened.send_replace(true);
    }

    /// Returns the names that this caller has seen.
    fn names_of(&self, caller: Caller) -> Arc<Names> {
        let mut all = self.names.lock();
        let names = match all.iter().position(|(known, _)| *known == caller) {
            Some(place) => all.remove(place).map_or_else(|| self.names(), |(_, names)| names),
            None => self.names(),
        };
        if all.len() >= MAX_CALLERS {
            all.pop_front();
        }
        all.push_back((caller, names.clone()));
        names
    }

    /// What the gateway declares: all that a target may have later. Tasks are declared if a target has them.
    fn capabilities(&self) -> ServerCapabilities {
        ServerCapabilities::default()
            .with_tools(ToolsCapability::default().with_list_changed(true))
            .with_prompts(PromptsCapability::default().with_list_changed(true))
            .with_resources(ResourcesCapability::default().with_list_changed(true).with_subscribe(true))
            .with_logging(Raw::empty_object())
            .with_completions(Raw::empty_object())
    }
}

impl Target {
    fn settings(&self) -> &Settings {
        &self.gateway.pools.launcher.settings
    }

    fn health(&self) -> &TargetHealth {
        &self.settings().health
    }

    /// Whether the gateway is closed, so that no further server can start.
    fn is_closed(&self) -> bool {
        self.gateway.pools.launcher.slots.is_closed()
    }

    fn errors(&self, remote: bool) -> ErrorTexts {
        ErrorTexts::new(&self.gateway.pools.launcher.settings, remote)
    }
}

/// The notifications that every list may have changed.
fn list_changes() -> impl Iterator<Item = Notification> {
    [Method::ToolListChanged, Method::PromptListChanged, Method::ResourceListChanged]
        .into_iter()
        .map(|method| Notification { method, params: None })
}

/// Whether a client with this level of log messages wants warnings. A client without a level has not asked for messages.
fn wants_warnings(level: Option<LoggingLevel>) -> bool {
    level.is_some_and(|level| level <= LoggingLevel::Warning)
}

/// The log message about a target that has no server.
fn warning(text: &str) -> Notification {
    let params = Payload::from_raw(Raw::empty_object())
        .with_member("level", &Raw::string(LoggingLevel::Warning.as_str()))
        .with_member("logger", &Raw::string("mcpjoin"))
        .with_member("data", &Raw::string(text));
    Notification { method: Method::LogMessage, params: Some(params) }
}

impl fmt::Debug for JoinedGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinedGateway").field("targets", &self.targets()).finish_non_exhaustive()
    }
}

impl fmt::Debug for JoinedBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let targets: Vec<_> = self.targets.iter().map(|(name, ..)| name).collect();
        f.debug_struct("JoinedBuilder")
            .field("info", &self.info)
            .field("targets", &targets)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::io;

    use super::*;

    #[test]
    fn callers_with_names_are_limited_and_the_one_unused_for_longest_is_dropped() {
        let target = Gateway::builder(|| ready(Err::<Link, io::Error>(io::ErrorKind::NotFound.into())));
        let joined = Gateway::joined("both", "1").target("a", target).build().0;
        let of = |number: usize| joined.names_of(Caller::Principal(number.to_string().into()));
        let first: Vec<Arc<Names>> = (0..MAX_CALLERS).map(of).collect();
        // The first one comes again, so the second one is unused for longest when one more comes.
        assert!(Arc::ptr_eq(&of(0), &first[0]));
        drop(of(MAX_CALLERS));
        assert_eq!(joined.names.lock().len(), MAX_CALLERS);
        let is_kept = |number: usize| {
            let caller = Caller::Principal(number.to_string().into());
            joined
                .names
                .lock()
                .iter()
                .any(|(known, names)| *known == caller && Arc::ptr_eq(names, &first[number]))
        };
        assert!(is_kept(0) && !is_kept(1) && (2..MAX_CALLERS).all(is_kept));
        assert!(!Arc::ptr_eq(&of(1), &first[1]));
    }
}
