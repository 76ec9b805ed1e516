//! The handler of a server's connections: passes each request to its entry.

use std::future::{Future, ready};
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;

use mcpjoin_proto::session::{Peer, Reply};
use mcpjoin_proto::text::Line;
use mcpjoin_proto::types::{CompleteParams, GetPromptParams, Reference};
use mcpjoin_proto::{ErrorObject, Method, Notification, Profile, Request};

use super::blocking::in_own_task;
use super::layer::Next;
use super::list::page_of;
use super::resources::{self, Reader};
use super::schema_profile::ChosenProfile;
use super::tools::{self, ToolEntry, VisibleTools};
use super::{Context, Shared, decode_params};
use crate::connection;
use crate::handler::{ErasedHandler, ResponseFuture};

/// Maximum number of characters of an unknown name in an error.
const MAX_NAME_CHARS: usize = 100;

/// Answers the requests of one connection.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) server: Arc<Shared>,
    /// The number of the connection, if everything on it comes from one client. Not zero, so that it takes 8 bytes: there
    /// is a `Service` for each session, which may lie idle.
    session: Option<NonZeroU64>,
    /// Handlers run in tasks of their own.
    pub(super) own_tasks: bool,
    /// Maximum number of entries in a page.
    page_size: u32,
}

impl ErasedHandler for Service {
    fn request(&self, request: Request, cx: connection::Context) -> ResponseFuture {
        let Some(profile) = cx.profile() else {
            return Box::pin(ready(Err(ErrorObject::invalid_request("the session is not open"))));
        };
        #[cfg(feature = "http-server")]
        if let Err(error) = self.check_headers(profile, &request, &cx) {
            return Box::pin(ready(Err(error)));
        }
        if self.server.layers.is_empty() {
            self.answer(profile, request, cx)
        } else {
            Next::new(self.clone(), profile, cx).start(request)
        }
    }

    fn notification(
        &self,
        _: Notification,
        _: connection::Context,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(ready(()))
    }

    fn known_peer(&self, peer: &Arc<Peer>) -> Option<Arc<Peer>> {
        self.server.known_peers.lock().equal(peer)
    }
}

fn narrowed(page_size: usize) -> u32 {
    u32::try_from(page_size).unwrap_or(u32::MAX)
}

impl Service {
    pub(super) fn new(server: Arc<Shared>, session: Option<u64>, own_tasks: bool) -> Self {
        let page_size = narrowed(server.page_size);
        Self { server, session: session.and_then(NonZeroU64::new), own_tasks, page_size }
    }

    /// Answers a request that has passed all layers.
    pub(super) fn answer(
        &self,
        profile: &'static Profile,
        request: Request,
        cx: connection::Context,
    ) -> ResponseFuture {
        if let Some(handler) = &self.server.custom_handler {
            return handler.request(request, cx);
        }
        let Some(mounts) = &self.server.mounts else { return self.answer_alone(profile, request, cx) };
        match mounts.route(self, profile, request, &cx) {
            ControlFlow::Break(response) => response,
            ControlFlow::Continue(request) => self.answer_alone(profile, request, cx),
        }
    }

    /// Answers a request without the servers that are mounted on this one.
    pub(super) fn answer_alone(
        &self,
        profile: &'static Profile,
        request: Request,
        cx: connection::Context,
    ) -> ResponseFuture {
        match (&request.method, self.server.task_methods) {
            (Method::CallTool, _) => {
                let context = self.context(profile, request, cx);
                self.call_tool(context).unwrap_or_else(|error| Box::pin(ready(Err(error))))
            }
            (
                Method::GetTask
                | Method::UpdateTask
                | Method::CancelTask
                | Method::GetTaskResult
                | Method::ListTasks,
                Some(methods),
            ) => (methods.answer)(self.server.clone(), self.context(profile, request, cx)),
            _ => {
                let (service, method) = (self.clone(), request.method.clone());
                let runs_handler =
                    matches!(method, Method::ReadResource | Method::GetPrompt | Method::Complete);
                let response: ResponseFuture =
                    Box::pin(async move { service.other(profile, request, cx).await });
                if self.own_tasks && runs_handler { in_own_task(method, response) } else { response }
            }
        }
    }

    /// Returns the service of a server that is mounted on this one, for the same connection.
    pub(super) fn of_mounted(&self, server: &Arc<Shared>, most: usize) -> Self {
        Self {
            server: server.clone(),
            session: self.session,
            own_tasks: self.own_tasks && !server.inline_handlers,
            page_size: narrowed(server.page_size.min(most)),
        }
    }

    pub(super) fn session(&self) -> Option<u64> {
        self.session.map(NonZeroU64::get)
    }

    pub(super) fn page_size(&self) -> usize {
        usize::try_from(self.page_size).unwrap_or(usize::MAX)
    }

    pub(super) fn with_page_size(&self, page_size: usize) -> Self {
        Self { page_size: narrowed(page_size), ..self.clone() }
    }

    pub(super) fn context(
        &self,
        profile: &'static Profile,
        request: Request,
        cx: connection::Context,
    ) -> Context {
        Context::new(self.server.clone(), cx, profile, request, self.session())
    }

    /// Answers all requests other than tool calls and those about tasks.
    async fn other(
        &self,
        profile: &'static Profile,
        request: Request,
        cx: connection::Context,
    ) -> Result<Reply, ErrorObject> {
        let server = &self.server;
        let context = |request: Request| self.context(profile, request, cx.clone());
        match request.method {
            Method::ListTools => match &server.visible_tools {
                None => self.list_tools(profile, &request, server.schemas_for(cx.client())),
                Some(is_visible) => self.list_visible_tools(is_visible, &context(request)),
            },
            Method::ListResources => {
                let offer = server.offer.read();
                let page = offer.resources.page(&request, "resources", self.page_size(), |r| r.shown.clone());
                page.map(Reply::Complete)
            }
            Method::ListResourceTemplates => {
                let offer = server.offer.read();
                let member = "resourceTemplates";
                let page = offer.templates.page(&request, member, self.page_size(), |t| t.shown.clone());
                page.map(Reply::Complete)
            }
            Method::ReadResource => {
                let (uri, reader) = self.reader(profile, &request)?;
                reader.read(uri, context(request)).await
            }
            Method::Subscribe => self.reader(profile, &request).map(|_| Reply::empty()),
            // Ending a subscription that does not exist does no harm.
            Method::Unsubscribe => resources::uri(request.params.as_ref()).map(|_| Reply::empty()),
            Method::ListPrompts => {
                let offer = server.offer.read();
                let page = offer.prompts.page(&request, "prompts", self.page_size(), |p| p.shown.clone());
                page.map(Reply::Complete)
            }
            Method::GetPrompt => {
                let params: GetPromptParams = decode_params(request.params.as_ref())?;
                let prompt = server.offer.read().prompts.get(&params.name).cloned();
                let prompt = prompt.ok_or_else(|| unknown("prompt", &params.name))?;
                prompt.get(params.arguments.unwrap_or_default(), context(request)).await
            }
            Method::Complete => {
                let params: CompleteParams = decode_params(request.params.as_ref())?;
                self.check_reference(&params.reference)?;
                server.completions.complete(params, context(request)).await
            }
            _ => Err(ErrorObject::method_not_found(request.method.as_str())),
        }
    }

    /// Starts the call of a tool.
    fn call_tool(&self, cx: Context) -> Result<ResponseFuture, ErrorObject> {
        let entry = {
            let name = tools::name(cx.params())?;
            let entry = self.server.offer.read().tools.get(&name).cloned();
            let entry = entry.filter(|entry| self.server.shows(entry, &name, &cx));
            entry.ok_or_else(|| unknown("tool", &name))?
        };
        let own_task = self.own_tasks && !entry.mode.inline;
        let response = match self.server.task_methods {
            Some(methods) => (methods.call)(&self.server, entry, cx),
            None => entry.call(cx),
        };
        Ok(if own_task { in_own_task(Method::CallTool, response) } else { response })
    }

    fn list_tools(
        &self,
        profile: &Profile,
        request: &Request,
        schemas: Option<ChosenProfile>,
    ) -> Result<Reply, ErrorObject> {
        let offer = self.server.offer.read();
        let show = |tool: &ToolEntry| tool.show(profile, schemas);
        offer.tools.page(request, "tools", self.page_size(), show).map(Reply::Complete)
    }

    fn list_visible_tools(&self, is_visible: &VisibleTools, cx: &Context) -> Result<Reply, ErrorObject> {
        let (mut tools, last) = self.server.offer.read().tools.numbered();
        // Without the lock: the function may change what the server offers.
        tools.retain(|(_, tool)| is_visible(cx, tool.description()));
        let schemas = self.server.schemas_for(cx.client());
        let show = |tool: &ToolEntry| tool.show(cx.profile(), schemas);
        page_of(&tools, last, cx.params(), "tools", self.page_size(), show).map(Reply::Complete)
    }

    fn reader(&self, profile: &Profile, request: &Request) -> Result<(String, Reader), ErrorObject> {
        let uri = resources::uri(request.params.as_ref())?;
        let offer = self.server.offer.read();
        let reader = Reader::find(&offer.resources, &offer.templates, &uri);
        drop(offer);
        match reader {
            Some(reader) => Ok((uri, reader)),
            None => Err(resources::not_found_in(profile, &uri)),
        }
    }

    fn check_reference(&self, reference: &Reference) -> Result<(), ErrorObject> {
        let offer = self.server.offer.read();
        let (known, kind, name) = match reference {
            Reference::Prompt(prompt) => {
                (offer.prompts.get(&prompt.name).is_some(), "prompt", prompt.name.as_str())
            }
            Reference::Resource(template) => {
                let uri = template.uri.as_str();
                let known = offer.templates.get(uri).is_some() || offer.resources.get(uri).is_some();
                (known, "resource template", uri)
            }
            _ => (false, "reference", ""),
        };
        if known { Ok(()) } else { Err(unknown(kind, name)) }
    }
}

/// Returns the error for an unknown name. The peer has chosen the name, so it is escaped and truncated.
pub(super) fn unknown(kind: &str, name: &str) -> ErrorObject {
    ErrorObject::invalid_params(format!("unknown {kind}: {}", Line::of(name).truncated(MAX_NAME_CHARS)))
}
