//! Applies a policy to each request of a client and to its result.
//!
//! `legacy` and `modern` admit each request ([`ClientPolicy::admit`]) and answer it within the [`Permit`]. A request
//! keeps the policy that admitted it until its end, also if another one is read meanwhile. What a policy does not name
//! stays byte for byte.

use std::pin::{Pin, pin};
use std::sync::Arc;

use mcpjoin_proto::session::{Origin, Reply};
use mcpjoin_proto::{ErrorObject, Kind, Method, Notification, Payload, Raw, Request};
use mcpjoin_rules::Change;
use parking_lot::Mutex;
use tokio::time::timeout;

use super::limiter::{Exceeded, Held};
use super::pins::name_of;
use super::questions::{self, Questions};
use super::rules::{TargetRules, scopes_of};
use super::{MAX_NAME_BYTES, Policy, SharedPolicy};
use crate::capacity::Caller;
use crate::end::GatewayEvent;
use crate::errors::{failure, millis};
use crate::relay::{StreamSink, to_request, with_subscription_id};
use crate::settings::Settings;
use mcpjoin::client::Client;
use mcpjoin::connection::{Connection, Context};

/// The policy of a target for one client.
pub(crate) struct ClientPolicy {
    settings: Arc<Settings>,
    counting: Counting,
    /// The sender of the last request.
    origin: Mutex<Option<Arc<Origin>>>,
}

/// Where a request is counted towards the limits of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// At the target.
    Here,
    /// Already, before several targets were asked for it ([`ClientLimits`]).
    Before,
}

/// The limits of the clients of a joined gateway, which may ask several targets for one request.
pub(crate) struct ClientLimits(Vec<SharedPolicy>);

/// A request that was counted, until this is dropped.
pub(crate) struct Counted {
    _held: Vec<Held<Caller>>,
}

/// A request that may be answered.
pub(crate) struct Permit(Option<Admitted>);

struct Admitted {
    settings: Arc<Settings>,
    policy: Option<(SharedPolicy, Arc<Policy>)>,
    origin: Option<Arc<Origin>>,
    method: Method,
    /// The tool that is called: its name at the server, and for the client.
    tool: Option<(Box<str>, Box<str>)>,
    /// The stream for changes of tools that the request opens: where its notifications go, and its id.
    stream: Option<(StreamSink, Raw)>,
    bytes: Option<usize>,
    _client: Option<Held<Caller>>,
    _target: Option<Held<Box<str>>>,
}

impl ClientLimits {
    /// The limits of these targets. Targets may have the same policy.
    pub(crate) fn of<'a>(targets: impl Iterator<Item = &'a Settings>) -> Self {
        let mut policies: Vec<SharedPolicy> = Vec::new();
        for policy in targets.filter_map(|settings| settings.policy.as_ref()) {
            if !policies.iter().any(|known| known.is_same(policy)) {
                policies.push(policy.clone());
            }
        }
        Self(policies)
    }

    /// Counts a request until the result is dropped.
    ///
    /// # Errors
    /// The error to answer the client with: a limit is exceeded.
    pub(crate) fn admit(&self, request: &Request, cx: &Context) -> Result<Counted, ErrorObject> {
        let origin = cx.origin().map(|origin| &**origin);
        let held =
            self.0.iter().filter_map(|shared| count(shared, &shared.current(), request, origin).transpose());
        Ok(Counted { _held: held.collect::<Result<_, _>>()? })
    }
}

/// Counts a request towards the limits of its client.
fn count(
    shared: &SharedPolicy,
    policy: &Policy,
    request: &Request,
    origin: Option<&Origin>,
) -> Result<Option<Held<Caller>>, ErrorObject> {
    let caller = origin.map_or(Caller::Local, Caller::of).into_account();
    let stays = request.method == Method::Listen;
    let limits = policy.rules.limits_of(origin);
    shared.clients().admit(&caller, &limits, stays).map_err(|exceeded| refused(&exceeded, "client"))
}

impl ClientPolicy {
    pub(crate) fn new(settings: &Arc<Settings>, counting: Counting) -> Self {
        Self { settings: settings.clone(), counting, origin: Mutex::default() }
    }

    /// What the target may ask this client.
    pub(crate) fn questions(settings: &Settings) -> Questions {
        let policy = settings.policy.clone().map(|policy| (policy, settings.name.clone()));
        Questions::new(policy, settings.questions)
    }

    /// Admits a request, and gives it as the server shall receive it.
    ///
    /// # Errors
    /// The error to answer the client with: a limit is exceeded, or the client may not call this tool.
    pub(crate) fn admit(&self, request: Request, cx: &Context) -> Result<(Request, Permit), ErrorObject> {
        let settings = &self.settings;
        if settings.policy.is_none() && settings.allows_tool.is_none() && settings.questions.is_all() {
            return Ok((request, Permit(None)));
        }
        let origin = cx.origin().cloned();
        if settings.policy.is_some() {
            self.remember(origin.as_deref());
        }
        let policy = settings.policy.as_ref().map(|shared| (shared.clone(), shared.current()));
        let mut admitted = Admitted {
            settings: settings.clone(),
            policy,
            origin,
            method: request.method.clone(),
            tool: None,
            stream: None,
            bytes: None,
            _client: None,
            _target: None,
        };
        admitted.limit(&request, self.counting)?;
        let request = admitted.rewrite(request)?;
        if admitted.policy.is_some() && wants_changes_of_tools(&request) {
            let id = cx.request_id().and_then(|id| Raw::from_value(id).ok()).unwrap_or_else(Raw::null);
            admitted.stream = Some((to_request(cx), id));
        }
        Ok((request, Permit(Some(admitted))))
    }

    /// Keeps the sender of the request, without the head of its request: over HTTP that would keep the buffer of its connection.
    fn remember(&self, sender: Option<&Origin>) {
        let mut last = self.origin.lock();
        let is_known = match (last.as_deref(), sender) {
            (Some(last), Some(sender)) => last.principal == sender.principal && last.scopes == sender.scopes,
            (last, sender) => last.is_none() && sender.is_none(),
        };
        if !is_known {
            *last = sender.map(|sender| Arc::new(Origin { attachment: None, ..sender.clone() }));
        }
    }

    /// Calls `tell` each time the client's tools change because another policy is in force. Never ends.
    pub(crate) async fn tell_changes(&self, tell: impl Fn()) {
        let Some(shared) = &self.settings.policy else { return std::future::pending().await };
        shared.each_change(&self.settings.name, || self.origin.lock().clone(), tell).await;
    }
}

impl Permit {
    /// Sets where the notifications of a stream go, in place of the request that opens it.
    pub(crate) fn telling(mut self, sink: &StreamSink) -> Self {
        if let Some((to, _)) = self.0.as_mut().and_then(|admitted| admitted.stream.as_mut()) {
            *to = sink.clone();
        }
        self
    }

    /// Answers the request. `server`: the connection to the target.
    ///
    /// # Errors
    /// The error to answer the client with.
    pub(crate) async fn answer(
        self,
        server: &Client,
        // Pinned where it is made: each move of a future takes its size in this one.
        answering: Pin<&mut impl Future<Output = Result<Reply, ErrorObject>>>,
    ) -> Result<Reply, ErrorObject> {
        let Some(admitted) = &self.0 else { return answering.await };
        let work = async {
            admitted.check_pin(server.connection()).await?;
            answering.await
        };
        let is_stream = admitted.method == Method::Listen;
        let outcome = match admitted.rules().and_then(|rules| rules.timeout).filter(|_| !is_stream) {
            Some(limit) => timeout(limit, work).await.unwrap_or_else(|_| {
                let text =
                    format!("{} was not answered within {} ms in all", admitted.method, limit.as_millis());
                Err(failure("timeout", &text, &[("afterMs", millis(limit))]))
            }),
            None => {
                let mut work = pin!(work);
                tokio::select! {
                    biased;
                    outcome = &mut work => outcome,
                    never = admitted.tell_stream() => never,
                }
            }
        };
        match outcome {
            Ok(reply) => admitted.reply(reply, server.connection()),
            Err(error) => Err(admitted.error(error)),
        }
    }
}

impl Admitted {
    fn rules(&self) -> Option<&TargetRules> {
        Some(self.policy.as_ref()?.1.rules.target(&self.settings.name))
    }

    /// Counts the request towards the limits of its client, unless that was done, and of the target.
    fn limit(&mut self, request: &Request, counting: Counting) -> Result<(), ErrorObject> {
        let Some((shared, policy)) = &self.policy else { return Ok(()) };
        let target = policy.rules.target(&self.settings.name);
        let own = policy.rules.limits_of(self.origin.as_deref());
        self.bytes = own.bytes.into_iter().chain(target.limits.bytes).min();
        self.check_bytes(request.params.as_ref().map_or(0, |params| params.raw().len()))?;
        let client = match counting {
            Counting::Here => count(shared, policy, request, self.origin.as_deref())?,
            Counting::Before => None,
        };
        let stays = request.method == Method::Listen;
        let target = shared
            .targets()
            .admit(&self.settings.name, &target.limits, stays)
            .map_err(|exceeded| refused(&exceeded, "server"))?;
        (self._client, self._target) = (client, target);
        Ok(())
    }

    fn check_bytes(&self, bytes: usize) -> Result<(), ErrorObject> {
        let Some(limit) = self.bytes.filter(|limit| bytes > *limit) else { return Ok(()) };
        let text = format!(
            "{} of {bytes} bytes is above the limit of {limit} of this gateway's policy",
            self.method
        );
        Err(failure("tooLarge", &text, &[("limit", limit.to_string())]))
    }

    /// The request as the server shall receive it.
    fn rewrite(&mut self, mut request: Request) -> Result<Request, ErrorObject> {
        let is_ruled = self.policy.is_some() || self.settings.allows_tool.is_some();
        if request.method == Method::CallTool && is_ruled {
            let named = request.params.as_ref().and_then(Payload::name_string);
            // Some servers find a tool also by what is no string, such as an array with its name.
            let shown = named.ok_or_else(|| ErrorObject::invalid_params("`name` is not a string"))?;
            let name = self.original(&shown).ok_or_else(|| unknown_tool(&shown))?;
            let is_renamed = *name != *shown;
            self.tool = Some((name.clone(), (*shown).into()));
            if is_renamed {
                request.params = request.params.map(|params| params.with_member("name", &Raw::string(&name)));
            }
        }
        let allowed = self.settings.questions.by(self.rules());
        request.params = request.params.map(|params| questions::declared(allowed, params));
        Ok(request)
    }

    /// The name at the server of the tool that this client may call by this name.
    fn original(&self, shown: &str) -> Option<Box<str>> {
        let name = match self.rules() {
            Some(_) if shown.len() > MAX_NAME_BYTES => return None,
            Some(rules) => rules.original(shown)?,
            None => shown,
        };
        self.allows(name).then(|| name.into())
    }

    /// Whether this client may use a tool, which is named as the server names it.
    fn allows(&self, tool: &str) -> bool {
        let origin = self.origin.as_deref();
        self.settings.allows_tool.as_ref().is_none_or(|allows| allows(tool))
            && self.policy.as_ref().is_none_or(|(_, policy)| {
                tool.len() <= MAX_NAME_BYTES
                    && policy.rules.target(&self.settings.name).allows(tool, scopes_of(origin))
                    && policy.rules.allows(&self.settings.name, tool, origin)
            })
    }

    /// Refuses the call of a tool whose definition is not the pinned one. The comparison may take as long as a request.
    async fn check_pin(&self, connection: &Connection) -> Result<(), ErrorObject> {
        let pin = self.rules().and_then(|rules| rules.pin.as_deref());
        let (Some(pin), Some((tool, shown))) = (pin, &self.tool) else { return Ok(()) };
        let on_withheld = |tool: &str, changes: &[Change]| self.withheld(tool, changes);
        // The list may have many pages.
        let limit = self.settings.timeout;
        let permits = timeout(limit, pin.permits(connection, tool, &on_withheld)).await;
        let late = |_| {
            let text = format!(
                "the tools of the server could not be compared with the pinned ones within {} s",
                limit.as_secs()
            );
            failure("notCompared", &text, &[("afterMs", millis(limit))])
        };
        match permits.map_err(late)?? {
            true => Ok(()),
            false => Err(unknown_tool(shown)),
        }
    }

    fn withheld(&self, tool: &str, changes: &[Change]) {
        self.settings.emit(&GatewayEvent::Withheld { target: &self.settings.name, tool, changes });
    }

    /// Tells the client on its stream each time its tools change because another policy is in force. Never ends.
    async fn tell_stream<T>(&self) -> T {
        let (Some((sink, id)), Some((shared, _))) = (&self.stream, &self.policy) else {
            return std::future::pending().await;
        };
        let tell = || {
            let changed = Notification { method: Method::ToolListChanged, params: None };
            sink(with_subscription_id(changed, id));
        };
        shared.each_change(&self.settings.name, || self.origin.clone(), tell).await;
        std::future::pending().await
    }

    // ---- results ----

    fn reply(&self, reply: Reply, connection: &Connection) -> Result<Reply, ErrorObject> {
        let allowed = self.settings.questions.by(self.rules());
        // Questions are written once for both checks, and only for them.
        let asked = match &reply {
            Reply::NeedInput(input) if self.bytes.is_some() || !allowed.is_all() => {
                Payload::from_value(&**input).ok()
            }
            _ => None,
        };
        let (text, asks) = match &reply {
            Reply::Verbatim(result) => (Some(result.raw()), true),
            Reply::Complete(result) | Reply::Task(result) => (Some(result), false),
            Reply::NeedInput(_) => (asked.as_ref().map(Payload::raw), true),
        };
        self.check_bytes(text.map_or(0, Raw::len))?;
        questions::check_result(allowed, text.filter(|_| asks))?;
        Ok(match reply {
            Reply::Verbatim(result) => Reply::Verbatim(self.result(result, connection)?),
            Reply::Complete(result) => {
                Reply::Complete(self.result(Payload::from_raw(result), connection)?.into_raw())
            }
            reply => reply,
        })
    }

    fn result(&self, result: Payload, connection: &Connection) -> Result<Payload, ErrorObject> {
        match self.method {
            Method::ListTools => self.list(result, connection),
            Method::CallTool => Ok(self.without_original_name(result)),
            _ => Ok(result),
        }
    }

    /// The list as this client may see it. If others may see another one, no cache may give it to them.
    fn list(&self, result: Payload, connection: &Connection) -> Result<Payload, ErrorObject> {
        let list = self.permitted(result, connection)?;
        let target = &self.settings.name;
        let is_by_client = self.policy.as_ref().is_some_and(|(_, policy)| policy.rules.are_by_client(target));
        let scope = list.raw().member("cacheScope").filter(|_| is_by_client);
        Ok(match scope {
            Some(_) => list.with_member("cacheScope", &Raw::string("private")),
            None => list,
        })
    }

    /// The list without what this client may not see.
    fn permitted(&self, result: Payload, connection: &Connection) -> Result<Payload, ErrorObject> {
        let Some(tools) = result.raw().member("tools") else { return Ok(result) };
        // A list that cannot be read may contain hidden tools, so it is not forwarded.
        let tools: Vec<Raw> = tools
            .decode()
            .map_err(|error| ErrorObject::internal(format!("the list of tools cannot be read: {error}")))?;
        let pin = self.rules().and_then(|rules| rules.pin.as_deref());
        let pinned =
            pin.map(|pin| pin.compare(connection, &tools, &|tool, changes| self.withheld(tool, changes)));
        let (mut shown, mut is_changed) = (Vec::new(), false);
        for (index, tool) in tools.iter().enumerate() {
            let passes = pinned.as_ref().is_none_or(|pinned| pinned[index]);
            let item = if passes { self.item(tool) } else { None };
            is_changed |= item.as_ref().is_none_or(|item| item.as_str() != tool.as_str());
            shown.extend(item);
        }
        if !is_changed {
            return Ok(result);
        }
        let shown: Vec<&str> = shown.iter().map(Raw::as_str).collect();
        let shown = Raw::parse(format!("[{}]", shown.join(",")))
            .map_err(|error| ErrorObject::internal(error.to_string()))?;
        Ok(result.with_member("tools", &shown))
    }

    /// A tool as this client may see it; `None` if it may not.
    fn item(&self, tool: &Raw) -> Option<Raw> {
        let name = name_of(tool).filter(|name| self.allows(name))?;
        let Some(rules) = self.rules() else { return Some(tool.clone()) };
        let shown = rules.shown(&name)?;
        let mut item = Payload::from_raw(tool.clone());
        if shown != name {
            item = item.with_member("name", &Raw::string(shown));
        }
        if let Some(description) = rules.description(&name) {
            item = item.with_member("description", &Raw::string(description));
        }
        Some(item.into_raw())
    }

    /// The name of the called tool at the server and for the client, if they differ.
    fn renamed(&self) -> Option<(&str, &str)> {
        let (name, shown) = self.tool.as_ref()?;
        (name != shown).then_some((name, shown))
    }

    /// The result of a call that failed, in whose texts a renamed tool has its new name.
    fn without_original_name(&self, result: Payload) -> Payload {
        let Some((name, shown)) = self.renamed() else { return result };
        let is_error = result.raw().member("isError").is_some_and(|is_error| is_error.as_str() == "true");
        let content = result.raw().member("content").filter(|_| is_error);
        let Some(items) = content.and_then(|content| content.decode::<Vec<Raw>>().ok()) else {
            return result;
        };
        let items = items.into_iter().map(|item| {
            let text = item.member("text");
            match text.as_ref().and_then(Raw::to_string_value).and_then(|text| renamed_in(&text, name, shown))
            {
                Some(text) => Payload::from_raw(item).with_member("text", &Raw::string(&text)).into_raw(),
                None => item,
            }
        });
        let items: Vec<String> = items.map(|item| item.as_str().to_owned()).collect();
        match Raw::parse(format!("[{}]", items.join(","))) {
            Ok(content) => result.with_member("content", &content),
            Err(_) => result,
        }
    }

    /// An error in whose texts a renamed tool has its new name.
    fn error(&self, mut error: ErrorObject) -> ErrorObject {
        let Some((name, shown)) = self.renamed() else { return error };
        if let Some(message) = renamed_in(&error.message, name, shown) {
            error.message = message;
        }
        // Data has any form, so it is left out if it names the tool.
        error.data = error.data.filter(|data| renamed_in(data.as_str(), name, shown).is_none());
        error
    }
}

fn wants_changes_of_tools(request: &Request) -> bool {
    let filter = request.params.as_ref().filter(|_| request.method == Method::Listen);
    let filter = filter.and_then(|params| params.raw().member("notifications"));
    let wants = filter
        .filter(|filter| filter.kind() == Kind::Object)
        .and_then(|filter| filter.member("toolsListChanged"));
    wants.is_some_and(|wants| wants.as_str() == "true")
}

fn unknown_tool(name: &str) -> ErrorObject {
    let shown: String = name.chars().take(100).collect();
    ErrorObject::invalid_params(format!("unknown tool: {}", shown.escape_debug()))
}

/// `who`: whose limit it is.
fn refused(exceeded: &Exceeded, who: &str) -> ErrorObject {
    let Exceeded { of, limit, retry_after } = exceeded;
    let text = format!("too many requests: by the policy of this gateway {limit} {of} for one {who}");
    let retry_after = millis(*retry_after + std::time::Duration::from_millis(1));
    failure("tooManyRequests", &text, &[("limit", limit.to_string()), ("retryAfterMs", retry_after)])
}

/// The text with the new name for each place where the old one stands as a word; `None` if there is no such place.
fn renamed_in(text: &str, old: &str, new: &str) -> Option<String> {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    let (mut out, mut done) = (String::new(), 0);
    for (at, _) in text.match_indices(old) {
        let (before, after) = (text[..at].chars().next_back(), text[at + old.len()..].chars().next());
        if !is_part(before) && !is_part(after) {
            out.push_str(&text[done..at]);
            out.push_str(new);
            done = at + old.len();
        }
    }
    (done > 0).then(|| out + &text[done..])
}
