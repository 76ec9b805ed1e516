//! Servers that are a part of another server ([`ServerBuilder::mount`](super::ServerBuilder::mount)).
//!
//! `service` gives each request to [`Mounts::route`], which passes it to the [`Service`] of the server that owns
//! its name, its URI or its task, with the same context of the connection. The lists are read source by source:
//! the server itself is source 0 of the [`Catalogue`], the mounted servers follow in their order. No result is
//! changed but the names in lists. A mounted server has no connection of its own here, and does not know under
//! which name it is called.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination>

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::sync::{RwLock, RwLockReadGuard};
use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::{CompleteParams, ProtocolType, Reference};
use mcpjoin_proto::{ErrorObject, Kind as JsonKind, Method, Payload, Profile, Raw, Request};

use super::catalogue::{Catalogue, Claim, Collision, Kind, Position, Replaced, Source};
use super::list;
use super::service::{Service, unknown};
use super::tools::ToolEntry;
use super::{BuildError, Context, Offer, Server, Shared, decode_params, resources, task};
use crate::connection;
use crate::handler::{ErasedHandler as _, ResponseFuture};

/// Maximum number of pages of mounted servers that are read for one page. A layer of a mounted server may return
/// any number of empty pages.
const MAX_PAGES_READ: usize = 64;

/// The servers that are mounted on a server.
pub(super) struct Mounts {
    servers: Vec<Arc<Shared>>,
    table: RwLock<Table>,
}

/// The names of all sources.
struct Table {
    catalogue: Catalogue,
    /// For each source the number of its changes when its names were read.
    seen: Vec<Option<u64>>,
}

impl Table {
    /// Reads the names of the sources that have changed. Returns what was found, for each source and kind.
    fn update(
        &mut self,
        own: (u64, &Offer),
        servers: &[Arc<Shared>],
    ) -> impl Iterator<Item = (usize, Kind, Replaced)> + use<> {
        let mut found = Vec::new();
        for (source, (seen, count)) in self.seen.iter_mut().zip(change_counts(own.0, servers)).enumerate() {
            // Set before the names are read: a change in between is then seen the next time.
            if seen.replace(count) == Some(count) {
                continue;
            }
            for kind in Kind::ALL {
                let replaced = match source.checked_sub(1).and_then(|place| servers.get(place)) {
                    None => self.catalogue.replace(source, kind, own.1.names(kind)),
                    Some(server) => self.catalogue.replace(source, kind, server.names(kind)),
                };
                found.push((source, kind, replaced));
            }
        }
        found.into_iter()
    }

    /// Returns how a message names a source.
    fn shown(&self, servers: &[Arc<Shared>], source: usize) -> String {
        let mounted = source.checked_sub(1).and_then(|place| servers.get(place));
        match mounted.zip(self.catalogue.sources().nth(source)) {
            None => "the server itself".to_owned(),
            Some((server, at)) => format!("`{}`, mounted at `{}`", server.role.info.name, at.prefix()),
        }
    }
}

/// Returns how often each source has changed.
fn change_counts(own: u64, servers: &[Arc<Shared>]) -> impl Iterator<Item = u64> {
    [own].into_iter().chain(servers.iter().map(|server| server.change_count()))
}

impl Mounts {
    /// Mounts servers on one with this offer.
    pub(super) fn new(offer: &Offer, mounted: &[(Source, Server)]) -> Result<Self, BuildError> {
        let sources = [Source::new("")].into_iter().chain(mounted.iter().map(|(source, _)| source.clone()));
        let mut table = Table { catalogue: Catalogue::new(sources), seen: vec![None; mounted.len() + 1] };
        let servers: Vec<Arc<Shared>> = mounted.iter().map(|(_, server)| server.0.clone()).collect();
        if let Some(place) = servers.iter().position(|server| server.custom_handler.is_some()) {
            return Err(BuildError::MountedHandler { mount: table.shown(&servers, place + 1) });
        }
        for (source, kind, replaced) in table.update((0, offer), &servers) {
            if let Some(collision) = replaced.collisions.into_iter().next() {
                let shown =
                    |claim: Claim| format!("`{}` of {}", claim.name, table.shown(&servers, claim.source));
                let (first, second) = (shown(collision.owner), shown(collision.other));
                return Err(BuildError::Collision { list: kind.list(), name: collision.name, first, second });
            }
            if replaced.left_out > 0 {
                return Err(BuildError::TooManyEntries { mount: table.shown(&servers, source) });
            }
        }
        Ok(Self { servers, table: RwLock::new(table) })
    }

    fn server(&self, source: usize) -> Option<&Arc<Shared>> {
        self.servers.get(source.checked_sub(1)?)
    }

    /// Reads the catalogue, after bringing it up to date. `of` is the server with these mounts.
    fn read<T>(&self, of: &Shared, read: impl FnOnce(&Catalogue) -> T) -> T {
        read(&self.current(of).catalogue)
    }

    /// Not generic, so that it is compiled once.
    fn current(&self, of: &Shared) -> RwLockReadGuard<'_, Table> {
        let own = of.changes.load(Ordering::Acquire);
        {
            let table = self.table.read();
            if change_counts(own, &self.servers).map(Some).eq(table.seen.iter().copied()) {
                return table;
            }
        }
        let mut table = self.table.write();
        for (source, kind, replaced) in table.update((own, &of.offer.read()), &self.servers) {
            for Collision { name, owner, other, .. } in &replaced.collisions {
                let (owner, other) =
                    (table.shown(&self.servers, owner.source), table.shown(&self.servers, other.source));
                tracing::warn!(target: "mcpjoin", list = %kind, name, owner, other, "a name is offered twice");
            }
            if replaced.left_out > 0 {
                let (mount, left_out) = (table.shown(&self.servers, source), replaced.left_out);
                tracing::warn!(target: "mcpjoin", list = %kind, mount, left_out, "too many entries to offer");
            }
        }
        drop(table);
        self.table.read()
    }

    /// Passes a request to the mounted server that answers it. Returns the request if it is one for the server
    /// itself.
    pub(super) fn route(
        self: &Arc<Self>,
        service: &Service,
        profile: &'static Profile,
        request: Request,
        cx: &connection::Context,
    ) -> ControlFlow<ResponseFuture, Request> {
        let of = &*service.server;
        if let Some(listed) = Listed::of(&request.method) {
            let (service, mounts, cx) = (service.clone(), self.clone(), cx.clone());
            let list = ListRequest { service, mounts, profile, request, cx, listed };
            return ControlFlow::Break(Box::pin(list.page()));
        }
        let context = || service.context(profile, request.clone(), cx.clone());
        let Some(Target { server, params, name }) = self.target(of, &request, context) else {
            return ControlFlow::Continue(request);
        };
        if let Some((Kind::Tool, joined, _)) = &name
            && of.visible_tools.is_some()
            && !of.find_tool(joined).is_some_and(|tool| of.shows(&tool, joined, &context()))
        {
            // The server itself does not have it, and answers so.
            return ControlFlow::Continue(request);
        }
        let response =
            service.of_mounted(&server, usize::MAX).request(Request { params, ..request }, cx.clone());
        let Some((kind, joined, own)) = name else { return ControlFlow::Break(response) };
        // The client knows only the joined name. A hidden tool must look like one that does not exist.
        let kind = if kind == Kind::Tool { "tool" } else { "prompt" };
        ControlFlow::Break(Box::pin(async move {
            match response.await {
                Err(error) if error == unknown(kind, &own) => Err(unknown(kind, &joined)),
                response => response,
            }
        }))
    }

    /// Returns the mounted server that a request is for. `None` if the server itself answers it.
    fn target(&self, of: &Shared, request: &Request, context: impl Fn() -> Context) -> Option<Target> {
        let params = request.params.as_ref()?;
        match request.method {
            Method::CallTool | Method::GetPrompt => {
                let kind = if request.method == Method::CallTool { Kind::Tool } else { Kind::Prompt };
                let joined = params.name_string()?;
                let (server, own) = self.find(of, kind, &joined)?;
                let params = params.with_member("name", &Raw::string(&own));
                Some(Target { server, params: Some(params), name: Some((kind, joined.into(), own)) })
            }
            Method::ReadResource | Method::Subscribe | Method::Unsubscribe => {
                let uri = resources::uri(Some(params)).ok()?;
                let owner = self.read(of, |catalogue| catalogue.owner(&uri))?;
                let server = self.server(owner.source)?.clone();
                Some(Target { server, params: request.params.clone(), name: None })
            }
            Method::Complete => {
                let decoded: CompleteParams = decode_params(Some(params)).ok()?;
                match decoded.reference {
                    Reference::Prompt(mut prompt) => {
                        let (server, own) = self.find(of, Kind::Prompt, &prompt.name)?;
                        let joined = std::mem::replace(&mut prompt.name, own.to_string());
                        let reference = Raw::from_value(&Reference::Prompt(prompt)).ok()?;
                        let params = params.with_member("ref", &reference);
                        let name = Some((Kind::Prompt, joined.into(), own));
                        Some(Target { server, params: Some(params), name })
                    }
                    Reference::Resource(template) => {
                        let found = self.find(of, Kind::ResourceTemplate, &template.uri);
                        let (server, _) = found.or_else(|| self.find(of, Kind::Resource, &template.uri))?;
                        Some(Target { server, params: request.params.clone(), name: None })
                    }
                    _ => None,
                }
            }
            Method::GetTask | Method::UpdateTask | Method::CancelTask | Method::GetTaskResult => {
                let id = params.raw().member("taskId")?;
                let id = id.to_string_value()?;
                let cx = context();
                let server = self.servers.iter().find(|server| task::keeps(server, &cx, &id))?.clone();
                Some(Target { server, params: request.params.clone(), name: None })
            }
            _ => None,
        }
    }

    /// Returns the mounted server that offers this name, and its own name for it.
    fn find(&self, of: &Shared, kind: Kind, joined: &str) -> Option<(Arc<Shared>, Arc<str>)> {
        let claim = self.read(of, |catalogue| catalogue.find(kind, joined).cloned())?;
        Some((self.server(claim.source)?.clone(), claim.name))
    }
}

/// The mounted server that a request is for.
struct Target {
    server: Arc<Shared>,
    /// The parameters with its own name for the tool or prompt.
    params: Option<Payload>,
    /// The kind of that name, the joined name, and its own one.
    name: Option<(Kind, Box<str>, Arc<str>)>,
}

/// A list that is joined.
#[derive(Clone, Copy)]
struct Listed {
    /// The member of the result with the items.
    member: &'static str,
    /// The kind of the items, and the member with their name. `None` for tasks, whose ids are unique.
    named: Option<(Kind, &'static str)>,
}

impl Listed {
    fn of(method: &Method) -> Option<Self> {
        match Kind::of_list(method) {
            Some(kind) => Some(Self { member: kind.list_member(), named: Some((kind, kind.name_member())) }),
            None => (*method == Method::ListTasks).then_some(Self { member: "tasks", named: None }),
        }
    }
}

/// A request for a page of a joined list.
struct ListRequest {
    service: Service,
    mounts: Arc<Mounts>,
    profile: &'static Profile,
    request: Request,
    cx: connection::Context,
    listed: Listed,
}

/// A page of one source: its items, and its cursor for the next page.
type SourcePage = (Vec<Raw>, Option<String>);

impl ListRequest {
    /// Reads the sources in their order until the page is full.
    async fn page(self) -> Result<Reply, ErrorObject> {
        let (server, mounts, method) = (&*self.service.server, &*self.mounts, &self.request.method);
        let mut at = match list::cursor(self.request.params.as_ref())? {
            None => Position::default(),
            Some(cursor) => mounts.read(server, |catalogue| catalogue.read_cursor(method, &cursor))?,
        };
        let mut is_from_client = at.cursor.is_some();
        let (mut items, mut failure) = (Vec::new(), None);
        for _ in 0..MAX_PAGES_READ {
            if at.source > mounts.servers.len() {
                break;
            }
            let room = self.service.page_size().saturating_sub(items.len());
            match self.source_page(&at, room.max(1)).await {
                Ok((page, next)) => {
                    let shown = self.shown(at.source, page);
                    if !items.is_empty() && shown.len() > room {
                        break;
                    }
                    items.extend(shown);
                    at = Position { source: at.source + usize::from(next.is_none()), cursor: next };
                }
                // The cursor of the client is the reason.
                Err(error) if is_from_client => return Err(error),
                Err(error) => {
                    let source = at.source;
                    tracing::debug!(target: "mcpjoin", %method, source, %error, "a list is left out");
                    failure.get_or_insert(error);
                    at = Position { source: source + 1, cursor: None };
                }
            }
            is_from_client = false;
        }
        if let (Some(error), true) = (failure, items.is_empty()) {
            return Err(error);
        }
        let next = (at.source <= mounts.servers.len())
            .then(|| mounts.read(server, |catalogue| catalogue.write_cursor(method, &at)))
            .transpose()?;
        list::page(self.listed.member, items, next).map(Reply::Complete)
    }

    /// Requests a page of a source, of about `size` items.
    async fn source_page(&self, at: &Position, size: usize) -> Result<SourcePage, ErrorObject> {
        let params = self.request.params.clone().unwrap_or_else(|| Payload::from_raw(Raw::empty_object()));
        let params = match &at.cursor {
            Some(cursor) => params.with_member("cursor", &Raw::string(cursor)),
            None => params.without_members(|name| name == "cursor"),
        };
        let request = Request { params: Some(params), ..self.request.clone() };
        let response = match self.mounts.server(at.source) {
            None => self.service.with_page_size(size).answer_alone(self.profile, request, self.cx.clone()),
            Some(server) => self.service.of_mounted(server, size).request(request, self.cx.clone()),
        };
        let Reply::Complete(result) = response.await? else {
            return Err(ErrorObject::internal("the list of a mounted server is not a complete result"));
        };
        let items = result.member(self.listed.member).and_then(|items| Vec::read(&items).ok());
        let items =
            items.ok_or_else(|| ErrorObject::internal("the list of a mounted server has no items"))?;
        let next = result.member("nextCursor").filter(|next| next.kind() == JsonKind::String);
        Ok((items, next.and_then(|next| Some(next.to_string_value()?.into_owned()))))
    }

    /// Returns those items of a source that the client may see, with their joined names.
    fn shown(&self, source: usize, items: Vec<Raw>) -> Vec<Raw> {
        let server = &*self.service.server;
        let Some((kind, member)) = self.listed.named.filter(|_| source > 0) else { return items };
        let joined: Vec<(Raw, String)> = self.mounts.read(server, |catalogue| {
            let join = |item: Raw| {
                let own = item.member(member)?;
                let joined = catalogue.joined(source, kind, &own.to_string_value()?)?.into_owned();
                Some((catalogue.offered(source, kind, item)?, joined))
            };
            items.into_iter().filter_map(join).collect()
        });
        let cx = (kind == Kind::Tool && server.visible_tools.is_some())
            .then(|| self.service.context(self.profile, self.request.clone(), self.cx.clone()));
        // Without the lock: the function may change what the server offers.
        let is_shown = |joined: &str| match &cx {
            None => true,
            Some(cx) => server.find_tool(joined).is_some_and(|tool| server.shows(&tool, joined, cx)),
        };
        joined.into_iter().filter(|(_, joined)| is_shown(joined)).map(|(item, _)| item).collect()
    }
}

impl Shared {
    /// Returns the servers that are mounted on this one.
    pub(super) fn mounted(&self) -> &[Arc<Self>] {
        self.mounts.as_ref().map_or(&[], |mounts| &mounts.servers)
    }

    /// Returns how often the offer has changed, that of mounted servers included.
    fn change_count(&self) -> u64 {
        let mounted: u64 = self.mounted().iter().map(|server| server.change_count()).sum();
        self.changes.load(Ordering::Acquire).wrapping_add(mounted)
    }

    /// Returns all names of a kind, those of mounted servers included.
    fn names(&self, kind: Kind) -> Vec<Box<str>> {
        match &self.mounts {
            None => self.offer.read().names(kind).map(Into::into).collect(),
            Some(mounts) => mounts.read(self, |catalogue| catalogue.names(kind).map(Into::into).collect()),
        }
    }

    /// Returns the tool with this name, also if a mounted server has it.
    pub(super) fn find_tool(&self, name: &str) -> Option<Arc<ToolEntry>> {
        if let Some(tool) = self.offer.read().tools.get(name) {
            return Some(tool.clone());
        }
        let (server, name) = self.mounts.as_ref()?.find(self, Kind::Tool, name)?;
        server.find_tool(&name)
    }

    /// Returns the tool with this name whose headers are checked before this server is asked. A mounted server
    /// that hides tools checks them itself, because a refusal shows that the tool exists.
    #[cfg(feature = "http-server")]
    pub(super) fn find_checked_tool(&self, name: &str) -> Option<Arc<ToolEntry>> {
        if let Some(tool) = self.offer.read().tools.get(name) {
            return Some(tool.clone());
        }
        let (server, name) = self.mounts.as_ref()?.find(self, Kind::Tool, name)?;
        if server.visible_tools.is_some() { None } else { server.find_checked_tool(&name) }
    }

    /// Whether an update of a resource of this mounted server concerns the clients of the server.
    pub(super) fn takes_update(&self, uri: &str, mounted: &Arc<Self>) -> bool {
        let Some(mounts) = &self.mounts else { return false };
        match mounts.read(self, |catalogue| catalogue.owner(uri)) {
            // Clients may be subscribed to a resource that contains it.
            None => true,
            Some(owner) => mounts.server(owner.source).is_some_and(|owner| Arc::ptr_eq(owner, mounted)),
        }
    }
}

impl Offer {
    /// Returns the names, URIs or URI templates of a kind.
    fn names(&self, kind: Kind) -> Box<dyn Iterator<Item = &str> + '_> {
        match kind {
            Kind::Tool => Box::new(self.tools.names()),
            Kind::Prompt => Box::new(self.prompts.names()),
            Kind::Resource => Box::new(self.resources.names()),
            Kind::ResourceTemplate => Box::new(self.templates.names()),
        }
    }
}
