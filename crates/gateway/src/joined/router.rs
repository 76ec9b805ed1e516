//! Answers the requests of one client of a joined gateway: lists from all targets, everything else from the target
//! that owns the name or the URI.
//!
//! Used by `legacy` and `modern`, which provide the [`Part`]s: how each target is reached for this client. It never
//! translates between eras, never sends a request to one target after another, and never repeats one.
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination>

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use mcpjoin::connection::Context;
use mcpjoin::server::catalogue::{Claim, Kind, Position};
use mcpjoin_proto::session::Reply;
use mcpjoin_proto::text::Line;
use mcpjoin_proto::types::{CompleteParams, PageParams, Reference};
use mcpjoin_proto::{ErrorObject, Kind as JsonKind, Method, Payload, Raw, Request};
use tokio::time::timeout;

use super::names::Names;

/// How long a target may take for a page of a list. A list is sent without the targets that take longer.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);
/// Items after which a page of a joined list is sent, although targets follow.
const PAGE_ITEMS: usize = 1000;
/// Pages of one list that are read to find a name.
const MAX_PAGES: usize = 1000;
/// How old the list of a target must be before it is read again for a name that it does not have.
const LIST_MAX_AGE: Duration = Duration::from_secs(1);
/// Characters of an unknown name that an error repeats.
const MAX_NAME_CHARS: usize = 100;

/// One target, as it is reached for one client.
pub(super) trait Part: Send + Sync + 'static {
    /// Whether a request may succeed now. If not, [`Part::request`] fails at once.
    fn is_ready(&self) -> bool;

    /// The error for a name that this target may have, if it has no server. `is_late`: its list took too long.
    fn outage(&self, is_late: bool) -> Option<ErrorObject>;

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
        let (target, params) = match request.method {
            Method::CallTool | Method::GetPrompt => {
                let kind = if request.method == Method::CallTool { Kind::Tool } else { Kind::Prompt };
                let name = params.and_then(Payload::name_string);
                let name = name.ok_or_else(|| ErrorObject::invalid_params("`name` is missing"))?;
                let claim = self.find(&[kind], &name, &request, cx).await;
                let claim = claim.map_err(|late| self.missing(kind, &name, &late))?;
                (claim.source, params.map(|params| params.with_member("name", &Raw::string(&claim.name))))
            }
            Method::ReadResource | Method::Subscribe | Method::Unsubscribe => {
                let uri = params.and_then(Payload::uri);
                let uri = uri.as_ref().and_then(Raw::to_string_value);
                let uri = uri.ok_or_else(|| ErrorObject::invalid_params("`uri` is missing"))?;
                (self.owner(&uri, &request, cx).await?, params.cloned())
            }
            Method::Complete => self.completion(&request, cx).await?,
            Method::Ping => return Ok(Reply::empty()),
            ref method => match Kind::of_list(method) {
                Some(kind) => return self.list(kind, &request, cx).await,
                None => return Err(ErrorObject::method_not_found(method.as_str())),
            },
        };
        let part = self.parts.get(target).ok_or_else(|| ErrorObject::internal("there is no such target"))?;
        let reply = part.request(Request { params, ..request }, cx).await?;
        match &reply {
            Reply::Verbatim(result) => self.names.learn_links(target, result),
            Reply::Complete(result) => self.names.learn_links(target, &Payload::from_raw(result.clone())),
            Reply::NeedInput(_) | Reply::Task(_) => {}
        }
        Ok(reply)
    }

    /// Returns the target that owns a URI.
    pub(super) async fn owner(
        &self,
        uri: &str,
        request: &Request,
        cx: &Context,
    ) -> Result<usize, ErrorObject> {
        let kinds = [Kind::Resource, Kind::ResourceTemplate];
        if let Some(owner) = self.names.owner(uri) {
            return Ok(owner);
        }
        self.read_lists(&kinds, request, cx).await;
        self.names.owner(uri).ok_or_else(|| {
            let code = cx
                .profile()
                .map_or(mcpjoin_proto::code::INVALID_PARAMS, |profile| profile.resource_not_found);
            let data = Payload::from_raw(Raw::empty_object()).with_member("uri", &Raw::string(uri));
            ErrorObject { code, data: Some(data.into_raw()), ..unknown("resource", uri) }
        })
    }

    /// Returns the target of a completion, and the parameters with its own name.
    async fn completion(
        &self,
        request: &Request,
        cx: &Context,
    ) -> Result<(usize, Option<Payload>), ErrorObject> {
        let params =
            request.params.as_ref().ok_or_else(|| ErrorObject::invalid_params("`ref` is missing"))?;
        let decoded: CompleteParams =
            params.raw().decode().map_err(|error| ErrorObject::invalid_params(error.to_string()))?;
        match decoded.reference {
            Reference::Prompt(prompt) => {
                let claim = self.find(&[Kind::Prompt], &prompt.name, request, cx).await;
                let claim = claim.map_err(|late| self.missing(Kind::Prompt, &prompt.name, &late))?;
                let reference = params.raw().member("ref").map(Payload::from_raw);
                let reference =
                    reference.map(|it| it.with_member("name", &Raw::string(&claim.name)).into_raw());
                Ok((claim.source, reference.map(|reference| params.with_member("ref", &reference))))
            }
            Reference::Resource(template) => {
                let kinds = [Kind::ResourceTemplate, Kind::Resource];
                let claim = self.find(&kinds, &template.uri, request, cx).await;
                let claim = claim.map_err(|_| unknown("resource template", &template.uri))?;
                Ok((claim.source, Some(params.clone())))
            }
            _ => Err(ErrorObject::invalid_params("`ref` is of an unknown kind")),
        }
    }

    /// Returns the owner of a name, and its own name for it. Lists that do not have the name are read again.
    ///
    /// # Errors
    /// No list has the name. The targets whose lists took too long are given.
    async fn find(
        &self,
        kinds: &[Kind],
        joined: &str,
        request: &Request,
        cx: &Context,
    ) -> Result<Claim, Vec<usize>> {
        let find = || kinds.iter().find_map(|kind| self.names.find(*kind, joined));
        if let Some(claim) = find() {
            return Ok(claim);
        }
        let late = self.read_lists(kinds, request, cx).await;
        find().ok_or(late)
    }

    /// Returns the error for the name of a tool or prompt that no list has: that of a target without a server if the name
    /// has its prefix. `late`: the targets whose lists took too long.
    fn missing(&self, kind: Kind, joined: &str, late: &[usize]) -> ErrorObject {
        let owners = self.parts.iter().enumerate().filter(|(target, _)| self.names.may_have(*target, joined));
        let mut why = owners.filter_map(|(target, part)| part.outage(late.contains(&target)));
        why.next().unwrap_or_else(|| unknown(if kind == Kind::Tool { "tool" } else { "prompt" }, joined))
    }

    // ---- lists ----

    /// Reads the lists of these kinds of all targets, unless they were read just now. Returns the targets that took too
    /// long.
    async fn read_lists(&self, kinds: &[Kind], request: &Request, cx: &Context) -> Vec<usize> {
        let all = self.parts.iter().enumerate().flat_map(|(target, part)| {
            kinds.iter().map(move |kind| async move {
                let is_fresh =
                    self.names.complete(target, *kind).is_some_and(|read| read.elapsed() < LIST_MAX_AGE);
                if !part.is_ready() || is_fresh {
                    return None;
                }
                let read = timeout(LIST_TIMEOUT, self.read_list(target, *kind, request, cx)).await;
                read.is_err().then_some(target)
            })
        });
        join_all(all).await.into_iter().flatten().collect()
    }

    /// Reads the whole list of a target.
    async fn read_list(&self, target: usize, kind: Kind, request: &Request, cx: &Context) {
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let Ok(page) = self.page(target, kind, cursor.as_deref(), request, cx).await else { return };
            if page.next.is_none() || page.next == cursor || self.names.is_full(target, kind) {
                return;
            }
            cursor = page.next;
        }
    }

    /// Reads one page of the list of a target, and learns its names.
    async fn page(
        &self,
        target: usize,
        kind: Kind,
        cursor: Option<&str>,
        request: &Request,
        cx: &Context,
    ) -> Result<Page, ErrorObject> {
        let part = &self.parts[target];
        // The envelope of the client's request belongs to this one as well.
        let params = match request.params.as_ref().and_then(Payload::meta) {
            Some(meta) => Payload::from_raw(Raw::empty_object()).with_member("_meta", &meta),
            None => Payload::from_raw(Raw::empty_object()),
        };
        let params = cursor
            .map_or_else(|| params.clone(), |cursor| params.with_member("cursor", &Raw::string(cursor)));
        let request = Request { method: kind.list_method(), params: Some(params), ..request.clone() };
        let result = match part.request(request, cx).await? {
            Reply::Verbatim(result) => result.into_raw(),
            Reply::Complete(result) => result,
            Reply::NeedInput(_) | Reply::Task(_) => {
                return Err(ErrorObject::internal("the list of a target is not a complete result"));
            }
        };
        let items: Option<Vec<Raw>> = result.member(kind.list_member()).and_then(|items| items.decode().ok());
        let items = items.ok_or_else(|| ErrorObject::internal("the list of a target has no items"))?;
        let next = result.member("nextCursor").filter(|next| next.kind() == JsonKind::String);
        let next = next.and_then(|next| Some(next.to_string_value()?.into_owned()));
        self.names.learn(target, kind, &items, cursor.is_none(), next.is_none());
        let is_public = result.member("cacheScope").is_some_and(|scope| scope.as_str() == "\"public\"");
        let ttl = result.member("ttlMs").and_then(|ttl| ttl.decode().ok()).unwrap_or(0);
        Ok(Page { items, next, ttl, is_public })
    }

    /// Returns a page of the joined list: the targets in their order, without those that fail.
    async fn list(&self, kind: Kind, request: &Request, cx: &Context) -> Result<Reply, ErrorObject> {
        let method = &request.method;
        let cursor = match &request.params {
            Some(params) => {
                let page: PageParams =
                    params.raw().decode().map_err(|error| ErrorObject::invalid_params(error.to_string()))?;
                page.cursor
            }
            None => None,
        };
        let at = match &cursor {
            Some(cursor) => self.names.read_cursor(method, cursor)?,
            None => Position::default(),
        };
        // One request to each target at a time. A page that continues reads one target after the other.
        let mut waiting: Vec<Option<Option<Page>>> = (0..self.parts.len()).map(|_| None).collect();
        if cursor.is_none() {
            let first = (0..self.parts.len()).map(|target| self.first_page(target, kind, request, cx));
            waiting = join_all(first).await.into_iter().map(Some).collect();
        }
        let (mut items, mut next) = (Vec::new(), None);
        let (mut ttl, mut is_public) = (u64::MAX, true);
        for (target, waiting) in waiting.iter_mut().enumerate().skip(at.source) {
            let page = match (waiting.take(), &at.cursor) {
                (Some(page), _) => page,
                (None, Some(cursor)) if target == at.source => {
                    Some(self.page(target, kind, Some(cursor), request, cx).await?)
                }
                (None, _) => self.first_page(target, kind, request, cx).await,
            };
            let Some(page) = page else {
                self.names.leave_out(target, kind);
                (ttl, is_public) = (0, false);
                continue;
            };
            (ttl, is_public) = (ttl.min(page.ttl), is_public && page.is_public);
            items.extend(self.names.offered(target, kind, page.items));
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
        Ok(Reply::Complete(result.with_member(kind.list_member(), &list).into_raw()))
    }

    /// Returns the first page of a target. `None` if it is not ready, fails or takes too long.
    async fn first_page(&self, target: usize, kind: Kind, request: &Request, cx: &Context) -> Option<Page> {
        if !self.parts[target].is_ready() {
            return None;
        }
        match timeout(LIST_TIMEOUT, self.page(target, kind, None, request, cx)).await {
            Ok(Ok(page)) => Some(page),
            Ok(Err(error)) => {
                tracing::debug!(target: "mcpjoin", from = target, list = %kind, %error, "a list is left out");
                None
            }
            Err(_) => {
                tracing::warn!(target: "mcpjoin", from = target, list = %kind, "a list took too long and is left out");
                None
            }
        }
    }
}

/// Returns the error for an unknown name. The client has chosen the name, so it is escaped and truncated.
fn unknown(kind: &str, name: &str) -> ErrorObject {
    ErrorObject::invalid_params(format!("unknown {kind}: {}", Line::of(name).truncated(MAX_NAME_CHARS)))
}
