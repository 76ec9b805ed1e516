//! Answers the requests of one client of a joined gateway: lists from all targets, everything else from the target
//! that owns the name or the URI.
//!
//! Used by `legacy` and `modern`, which provide the [`Part`]s: how each target is reached for this client. It never
//! translates between eras, never sends a request to one target after another, and never repeats one.
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination>

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use mcpjoin::connection::Context;
use mcpjoin::server::catalogue::{Claim, Collision, Kind, Position};
use mcpjoin_proto::session::Reply;
use mcpjoin_proto::text::Line;
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::types::{CompleteParams, PageParams, ProtocolType, Reference};
use mcpjoin_proto::{ErrorObject, Kind as JsonKind, Method, Payload, Raw, Request, code};
use tokio::time::timeout;

use super::names::{Learned, MAX_PAGES, Names};
use super::tasks::ClientTasks;
use crate::call_record::recorded;
use crate::capacity::Caller;
use crate::errors;
use crate::relay;
use crate::settings::Settings;
use crate::target_health::TargetHealth;
use crate::warnings::Problem;

/// How long a target may take for a page of a list. A list is sent without the targets that take longer.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);
/// Items after which a page of a joined list is sent, although targets follow.
const PAGE_ITEMS: usize = 1000;
/// How old the list of a target must be before it is read again for a name that it does not have.
const LIST_MAX_AGE: Duration = Duration::from_secs(1);
/// The lists that say which target has a URI.
const OF_URIS: [Kind; 2] = [Kind::Resource, Kind::ResourceTemplate];
/// Characters of an unknown name that an error repeats.
const MAX_NAME_CHARS: usize = 100;

/// One target, as it is reached for one client.
pub(super) trait Part: Send + Sync + 'static {
    /// The name of the target.
    fn name(&self) -> &str;

    /// Whether a request may succeed now. If not, [`Part::request`] fails at once.
    fn is_ready(&self) -> bool;

    /// The health of the target, which all clients share.
    fn health(&self) -> &TargetHealth;

    /// The settings of the target.
    fn settings(&self) -> &Settings;

    /// The error for a name that this target may have, if it has no server.
    fn outage(&self) -> Option<ErrorObject>;

    /// The error for a name that this target may have, if its list took too long.
    fn late(&self) -> ErrorObject;

    /// Whether the client has subscribed to this resource of the target by a request, as in the legacy era.
    fn is_subscribed(&self, _: &str) -> bool {
        false
    }

    /// Answers a request of the client.
    fn request(
        &self,
        request: Request,
        cx: &Context,
    ) -> impl Future<Output = Result<Reply, ErrorObject>> + Send;
}

/// The parts of one client, and what it has seen of their lists.
pub(super) struct Router<P> {
    pub(super) parts: Vec<Arc<P>>,
    pub(super) names: Arc<Names>,
    pub(super) tasks: Arc<ClientTasks>,
    pub(super) caller: Caller,
}

/// What a list contains.
#[derive(Clone, Copy)]
enum Listed {
    /// Entries with names.
    Named(Kind),
    Tasks,
}

impl Listed {
    fn method(self) -> Method {
        match self {
            Self::Named(kind) => kind.list_method(),
            Self::Tasks => Method::ListTasks,
        }
    }

    /// The member of a result with the items.
    const fn member(self) -> &'static str {
        match self {
            Self::Named(kind) => kind.list_member(),
            Self::Tasks => "tasks",
        }
    }
}

/// A list of a target did not come in time.
enum Late {
    /// This one has waited for it.
    New,
    /// An earlier one has waited, so this one has not.
    Known,
}

/// A page of the list of one target.
struct Page {
    items: Vec<Raw>,
    next: Option<String>,
    /// `ttlMs` and whether `cacheScope` is `public`, which only the modern era has.
    ttl: u64,
    is_public: bool,
}

impl<P: Part> Router<P> {
    /// Answers a request of the client.
    ///
    /// # Errors
    /// The error of the owner, or -32602 if there is none. If a target without a server may be the owner, the error says
    /// why it has none.
    pub(super) async fn request(&self, request: Request, cx: &Context) -> Result<Reply, ErrorObject> {
        let params = request.params.as_ref();
        let is_about_task = is_about_task(&request.method) && exists(&request.method, cx);
        let (target, params) = match request.method {
            _ if is_about_task => {
                let (target, id) = self.tasks.target(params, cx)?;
                (target, params.map(|params| params.with_member("taskId", &Raw::string(&id))))
            }
            Method::ListTasks if exists(&Method::ListTasks, cx) => {
                return Box::pin(self.list(Listed::Tasks, &request, cx)).await;
            }
            Method::CallTool | Method::GetPrompt => {
                let kind = if request.method == Method::CallTool { Kind::Tool } else { Kind::Prompt };
                let name = params.and_then(Payload::name_string);
                let name = name.ok_or_else(|| ErrorObject::invalid_params("`name` is missing"))?;
                let claim = self.find(&[kind], &name, &request, cx).await;
                let claim = claim.map_err(|unread| self.missing(kind, &name, &unread))?;
                (claim.source, params.map(|params| params.with_member("name", &Raw::string(&claim.name))))
            }
            Method::ReadResource | Method::Subscribe | Method::Unsubscribe => {
                let uri = params.and_then(Payload::uri);
                let uri = uri.as_ref().and_then(Raw::to_string_value);
                let uri = uri.ok_or_else(|| ErrorObject::invalid_params("`uri` is missing"))?;
                // The list of that target may have lost the resource since.
                let subscribed = (request.method == Method::Unsubscribe)
                    .then(|| self.parts.iter().position(|part| part.is_subscribed(&uri)));
                let owner = match subscribed.flatten() {
                    Some(target) => target,
                    None => self.owner(&uri, &request, cx).await?,
                };
                (owner, params.cloned())
            }
            Method::Complete => self.completion(&request, cx).await?,
            Method::Ping => return Ok(Reply::empty()),
            ref method => match Kind::of_list(method) {
                // In a box, because a call needs none of it.
                Some(kind) => return Box::pin(self.list(Listed::Named(kind), &request, cx)).await,
                None => return Err(ErrorObject::method_not_found(method.as_str())),
            },
        };
        let part = self.parts.get(target).ok_or_else(|| ErrorObject::internal("there is no such target"))?;
        let (method, asked) = (request.method.clone(), params.clone());
        let reply = part.request(Request { params, ..request }, cx).await;
        let reply = reply.map_err(|error| match error.code {
            code::URL_ELICITATION_REQUIRED => with_named_pages(part.name(), error),
            // The server of a task may have ended since, or may no longer keep the task.
            _ if is_about_task => named(part.name(), error),
            _ => error,
        })?;
        match &reply {
            Reply::Verbatim(result) => self.names.learn_links(target, result),
            Reply::Complete(result) => self.names.learn_links(target, &Payload::from_raw(result.clone())),
            Reply::NeedInput(_) | Reply::Task(_) => {}
        }
        let has_core_tasks = cx.profile().is_some_and(|profile| profile.core_tasks);
        self.tasks.reply(target, &method, asked.as_ref(), has_core_tasks, reply).await
    }

    /// Records a request that was refused before a target was asked: at the targets that would have been asked.
    pub(super) async fn refused(&self, request: Request, cx: &Context, error: ErrorObject) -> ErrorObject {
        let known = self.known_target(&request);
        for (target, part) in self.parts.iter().enumerate() {
            if known.is_none_or(|known| known == target) {
                let answer = |_| async {
                    errors::note_refusal();
                    Err(error.clone())
                };
                drop(recorded(part.settings(), request.clone(), cx, answer).await);
            }
        }
        error
    }

    /// Returns the target that has the name or the URI of a request, if it is known.
    fn known_target(&self, request: &Request) -> Option<usize> {
        let params = request.params.as_ref()?;
        match request.method {
            Method::CallTool => Some(self.names.find(Kind::Tool, &params.name_string()?)?.source),
            Method::GetPrompt => Some(self.names.find(Kind::Prompt, &params.name_string()?)?.source),
            _ => self.names.owner(&params.uri()?.to_string_value()?),
        }
    }

    /// Returns the target that owns a URI.
    async fn owner(&self, uri: &str, request: &Request, cx: &Context) -> Result<usize, ErrorObject> {
        if let Some(owner) = self.names.owner(uri) {
            return Ok(owner);
        }
        let unread = self.read_lists(&OF_URIS, request, cx).await;
        self.names.owner(uri).ok_or_else(|| {
            let code = cx.profile().map_or(code::INVALID_PARAMS, |profile| profile.resource_not_found);
            let data = Payload::from_raw(Raw::empty_object()).with_member("uri", &Raw::string(uri));
            let unknown = ErrorObject { code, data: Some(data.into_raw()), ..unknown("resource", uri) };
            self.missing_uri(unread, unknown)
        })
    }

    /// Reads the lists once if one of the URIs is not known.
    pub(super) async fn learn(&self, uris: &[String], request: &Request, cx: &Context) {
        if uris.iter().any(|uri| self.names.owner(uri).is_none()) {
            drop(self.read_lists(&OF_URIS, request, cx).await);
        }
    }

    /// Returns the error for a URI that no list has: why a list was not read, or that it is unknown and which target has no server.
    fn missing_uri(&self, unread: Vec<(usize, ErrorObject)>, unknown: ErrorObject) -> ErrorObject {
        if let Some((_, why)) = unread.into_iter().next() {
            return why;
        }
        match self.parts.iter().find_map(|part| part.outage()) {
            Some(outage) => {
                ErrorObject { message: format!("{}; {}", unknown.message, outage.message), ..unknown }
            }
            None => unknown,
        }
    }

    /// Returns the target of a completion, and the parameters with its own name.
    async fn completion(
        &self,
        request: &Request,
        cx: &Context,
    ) -> Result<(usize, Option<Payload>), ErrorObject> {
        let params =
            request.params.as_ref().ok_or_else(|| ErrorObject::invalid_params("`ref` is missing"))?;
        let decoded = CompleteParams::read(params.raw())
            .map_err(|error| ErrorObject::invalid_params(error.to_string()))?;
        match decoded.reference {
            Reference::Prompt(prompt) => {
                let claim = self.find(&[Kind::Prompt], &prompt.name, request, cx).await;
                let claim = claim.map_err(|unread| self.missing(Kind::Prompt, &prompt.name, &unread))?;
                let reference = params.raw().member("ref").map(Payload::from_raw);
                let reference =
                    reference.map(|it| it.with_member("name", &Raw::string(&claim.name)).into_raw());
                Ok((claim.source, reference.map(|reference| params.with_member("ref", &reference))))
            }
            Reference::Resource(template) => {
                let kinds = [Kind::ResourceTemplate, Kind::Resource];
                let claim = self.find(&kinds, &template.uri, request, cx).await;
                let claim = claim.map_err(|unread| {
                    self.missing_uri(unread, unknown("resource template", &template.uri))
                })?;
                Ok((claim.source, Some(params.clone())))
            }
            _ => Err(ErrorObject::invalid_params("`ref` is of an unknown kind")),
        }
    }

    /// Returns the owner of a name, and its own name for it. Lists that do not have the name are read again.
    ///
    /// # Errors
    /// No list has the name. The targets whose lists were not read are given, with why.
    async fn find(
        &self,
        kinds: &[Kind],
        joined: &str,
        request: &Request,
        cx: &Context,
    ) -> Result<Claim, Vec<(usize, ErrorObject)>> {
        let find = || kinds.iter().find_map(|kind| self.names.find(*kind, joined));
        if let Some(claim) = find() {
            return Ok(claim);
        }
        let unread = self.read_lists(kinds, request, cx).await;
        find().ok_or(unread)
    }

    /// Returns the error for the name of a tool or prompt that no list has: that of a target without a server if the name
    /// has its prefix. `unread`: the targets whose lists were not read, and why.
    fn missing(&self, kind: Kind, joined: &str, unread: &[(usize, ErrorObject)]) -> ErrorObject {
        let owners = self.parts.iter().enumerate().filter(|(target, _)| self.names.may_have(*target, joined));
        let unread = |target| unread.iter().find(|(other, _)| *other == target).map(|(_, why)| why.clone());
        let mut why = owners.filter_map(|(target, part)| unread(target).or_else(|| part.outage()));
        why.next().unwrap_or_else(|| unknown(if kind == Kind::Tool { "tool" } else { "prompt" }, joined))
    }

    // ---- lists ----

    /// Reads the lists of these kinds of all targets, unless they were read just now. Returns the targets whose lists the
    /// gateway has not read, because they took too long or a limit was exceeded.
    async fn read_lists(&self, kinds: &[Kind], request: &Request, cx: &Context) -> Vec<(usize, ErrorObject)> {
        let all = self.parts.iter().enumerate().flat_map(|(target, part)| {
            kinds.iter().map(move |kind| async move {
                let is_fresh =
                    self.names.complete(target, *kind).is_some_and(|read| read.elapsed() < LIST_MAX_AGE);
                if !part.is_ready() || is_fresh {
                    return None;
                }
                let read = self.in_time(target, self.read_list(target, *kind, request, cx)).await;
                if read.is_ok() {
                    part.health().was_in_time(&self.caller);
                }
                let why = read.unwrap_or_else(|_| Err(part.late())).err()?;
                // A server without this kind refuses its list.
                errors::is_of_gateway(&why).then_some((target, why))
            })
        });
        join_all(all).await.into_iter().flatten().collect()
    }

    /// Waits for a list of a target for as long as a list may take, and not at all if the target was late just now.
    async fn in_time<T>(
        &self,
        target: usize,
        list: impl Future<Output = Result<T, ErrorObject>>,
    ) -> Result<Result<T, ErrorObject>, Late> {
        let health = self.parts[target].health();
        if health.is_late(&self.caller) {
            return Err(Late::Known);
        }
        timeout(LIST_TIMEOUT, list).await.map_err(|_| {
            health.was_late(&self.caller);
            Late::New
        })
    }

    /// Reads the whole list of a target.
    async fn read_list(
        &self,
        target: usize,
        kind: Kind,
        request: &Request,
        cx: &Context,
    ) -> Result<(), ErrorObject> {
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let listed = Listed::Named(kind);
            let page = self.page(target, listed, cursor.as_deref(), request, cx).await?;
            if page.next.is_none() {
                break;
            }
            cursor = page.next;
        }
        Ok(())
    }

    /// Reads one page of the list of a target, and learns its names.
    async fn page(
        &self,
        target: usize,
        listed: Listed,
        cursor: Option<&str>,
        request: &Request,
        cx: &Context,
    ) -> Result<Page, ErrorObject> {
        let part = &self.parts[target];
        // The envelope of the client's request belongs to this one as well. The progress of several lists, or of a list that is read
        // for a call, is not that of the client's request.
        let params = match request.params.as_ref().and_then(Payload::meta) {
            Some(meta) => Payload::from_raw(Raw::empty_object())
                .with_member("_meta", &meta)
                .without_meta_members(|name| name == key::PROGRESS_TOKEN),
            None => Payload::from_raw(Raw::empty_object()),
        };
        let params = cursor
            .map_or_else(|| params.clone(), |cursor| params.with_member("cursor", &Raw::string(cursor)));
        let request = Request { method: listed.method(), params: Some(params), ..request.clone() };
        let result = match part.request(request, cx).await? {
            Reply::Verbatim(result) => result.into_raw(),
            Reply::Complete(result) => result,
            Reply::NeedInput(_) | Reply::Task(_) => {
                return Err(ErrorObject::internal("the list of a target is not a complete result"));
            }
        };
        let items: Option<Vec<Raw>> = result.member(listed.member()).and_then(|items| items.decode().ok());
        let items = items.ok_or_else(|| ErrorObject::internal("the list of a target has no items"))?;
        let next = result.member("nextCursor").filter(|next| next.kind() == JsonKind::String);
        let next = next.and_then(|next| Some(next.to_string_value()?.into_owned()));
        // A cursor that leads to itself leads nowhere.
        let mut next = next.filter(|next| Some(&**next) != cursor);
        let mut items = items;
        if let Listed::Named(kind) = listed {
            let learned = self.names.learn(target, kind, cursor, items, next.is_none());
            self.warn_of_list(target, kind, &learned);
            items = learned.items;
            // The rest is not offered, so it is not read either.
            next = next.filter(|_| !learned.left_out);
        }
        let is_public = result.member("cacheScope").is_some_and(|scope| scope.as_str() == "\"public\"");
        let ttl = result.member("ttlMs").and_then(|ttl| ttl.decode().ok()).unwrap_or(0);
        Ok(Page { items, next, ttl, is_public })
    }

    /// Warns the operator of what is wrong with a page of a list.
    fn warn_of_list(&self, target: usize, kind: Kind, learned: &Learned) {
        let settings = self.parts[target].settings();
        if let Some(Collision { name, owner, other, .. }) = learned.collisions.first() {
            let named = |source: usize| self.parts.get(source).map_or("", |part| part.name());
            let (owner, other, count) = (named(owner.source), named(other.source), learned.collisions.len());
            settings.warn(Problem::Collision, format_args!(
                "a list of {kind} has {count} names of other servers, the first {name}: of {owner} and {other}, that \
                 of {owner} is offered"
            ));
        }
        if let Some(name) = &learned.repeated {
            settings.warn(
                Problem::RepeatedName,
                format_args!("a list of {kind} has the name {name} more than once; the first is offered"),
            );
        }
        if learned.left_out {
            settings.warn(
                Problem::LongList,
                format_args!("a list of {kind} is too long; what follows its first entries is not offered"),
            );
        }
    }

    /// Returns a page of the joined list: the targets in their order, without those that fail.
    async fn list(&self, listed: Listed, request: &Request, cx: &Context) -> Result<Reply, ErrorObject> {
        let method = &request.method;
        let cursor = match &request.params {
            Some(params) => {
                let page = PageParams::read(params.raw())
                    .map_err(|error| ErrorObject::invalid_params(error.to_string()))?;
                page.cursor
            }
            None => None,
        };
        let at = match &cursor {
            Some(cursor) => self.names.read_cursor(method, cursor)?,
            None => Position::default(),
        };
        let created = match listed {
            Listed::Tasks => self.tasks.created().await?,
            Listed::Named(_) => HashSet::new(),
        };
        // One request to each target at a time. A page that continues reads one target after the other.
        let mut waiting: Vec<Option<Option<Page>>> = (0..self.parts.len()).map(|_| None).collect();
        if cursor.is_none() {
            let first =
                (0..self.parts.len()).map(|target| self.page_in_time(target, listed, None, request, cx));
            waiting = join_all(first).await.into_iter().map(Result::ok).collect();
        }
        let (mut items, mut next) = (Vec::new(), None);
        let (mut ttl, mut is_public) = (u64::MAX, true);
        for (target, waiting) in waiting.iter_mut().enumerate().skip(at.source) {
            let cursor = at.cursor.as_deref().filter(|_| target == at.source);
            let page = match waiting.take() {
                Some(page) => page,
                None => self.page_in_time(target, listed, cursor, request, cx).await?,
            };
            let Some(page) = page else {
                if let Listed::Named(kind) = listed {
                    self.names.leave_out(target, kind);
                }
                (ttl, is_public) = (0, false);
                continue;
            };
            (ttl, is_public) = (ttl.min(page.ttl), is_public && page.is_public);
            items.extend(match listed {
                Listed::Named(kind) => self.names.offered(target, kind, page.items),
                Listed::Tasks => self.tasks.listed(target, page.items, &created),
            });
            if page.next.is_some() {
                next = Some(Position { source: target, cursor: page.next });
                break;
            }
            if items.len() >= PAGE_ITEMS && target + 1 < self.parts.len() {
                next = Some(Position { source: target + 1, cursor: None });
                break;
            }
        }
        let list = Raw::from_value(&items).map_err(|error| ErrorObject::internal(error.to_string()))?;
        let mut result = Payload::from_raw(Raw::empty_object());
        if cx.profile().is_some_and(|profile| !profile.initialize) {
            let (ttl, scope) = if self.parts.is_empty() { (0, false) } else { (ttl, is_public) };
            let scope = if scope { "public" } else { "private" };
            result = result.with_member("cacheScope", &Raw::string(scope));
            if let Ok(ttl) = Raw::from_value(&ttl) {
                result = result.with_member("ttlMs", &ttl);
            }
        }
        if let Some(next) = next {
            let next = self.names.write_cursor(method, &next)?;
            result = result.with_member("nextCursor", &Raw::string(&next));
        }
        Ok(Reply::Complete(result.with_member(listed.member(), &list).into_raw()))
    }

    /// Returns a page of a target. `None` if the target is not ready or takes too long, or if its first page fails.
    ///
    /// # Errors
    /// Those of a page with a cursor, which may be none of the target's any more.
    async fn page_in_time(
        &self,
        target: usize,
        listed: Listed,
        cursor: Option<&str>,
        request: &Request,
        cx: &Context,
    ) -> Result<Option<Page>, ErrorObject> {
        if !self.parts[target].is_ready() {
            return Ok(None);
        }
        let page = self.in_time(target, self.page(target, listed, cursor, request, cx)).await;
        // Of a list with pages the last one counts.
        if page.as_ref().is_ok_and(|page| page.as_ref().map_or(true, |page| page.next.is_none())) {
            self.parts[target].health().was_in_time(&self.caller);
        }
        Ok(match page {
            Ok(Ok(page)) => Some(page),
            Ok(Err(error)) if cursor.is_some() => return Err(error),
            Ok(Err(error)) => {
                let list = listed.member();
                tracing::debug!(target: "mcpjoin", from = target, list, %error, "a list is left out");
                None
            }
            Err(Late::Known) => None,
            Err(Late::New) => {
                let list = listed.member();
                self.parts[target].settings().warn(
                    Problem::SlowList,
                    format_args!("the list `{list}` took too long; it is sent without this server"),
                );
                None
            }
        })
    }
}

/// Returns whether a request of this method is about one task.
const fn is_about_task(method: &Method) -> bool {
    matches!(method, Method::GetTask | Method::GetTaskResult | Method::CancelTask | Method::UpdateTask)
}

/// Returns whether the revision of the client has this method.
fn exists(method: &Method, cx: &Context) -> bool {
    let profile = cx.profile();
    method.facts().is_some_and(|facts| profile.is_some_and(|profile| facts.exists_in(&profile.version)))
}

/// Returns an error that begins with the name of the target.
pub(super) fn named(target: &str, error: ErrorObject) -> ErrorObject {
    if error.message.strip_prefix(target).is_some_and(|rest| rest.starts_with(": ")) {
        return error;
    }
    ErrorObject { message: format!("{target}: {}", error.message), ..error }
}

/// Returns an error of 2025-11-25 whose pages name the target, as its elicitations do.
fn with_named_pages(target: &str, error: ErrorObject) -> ErrorObject {
    let pages = error.data.as_ref().and_then(|data| data.member("elicitations")?.decode::<Vec<Raw>>().ok());
    let Some((pages, data)) = pages.zip(error.data.clone()) else { return error };
    let named = pages.into_iter().map(|page| relay::named(Some(target), Payload::from_raw(page)).into_raw());
    match Raw::from_value(&named.collect::<Vec<_>>()) {
        Ok(pages) => {
            let data = Payload::from_raw(data).with_member("elicitations", &pages);
            ErrorObject { data: Some(data.into_raw()), ..error }
        }
        Err(_) => error,
    }
}

/// Returns the error for an unknown name. The client has chosen the name, so it is escaped and truncated.
fn unknown(kind: &str, name: &str) -> ErrorObject {
    ErrorObject::invalid_params(format!("unknown {kind}: {}", Line::of(name).truncated(MAX_NAME_CHARS)))
}
