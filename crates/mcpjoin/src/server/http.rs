//! A server over HTTP: as a service for any HTTP server, and with a listener of its own.

use std::future::Future;
use std::sync::Arc;

use mcpjoin_proto::http::params::{HeaderMark, check_param_headers};
use mcpjoin_proto::session::Origin;
use mcpjoin_proto::{ErrorObject, Method, Profile, Request, Version};

use super::Server;
use super::service::Service;
use crate::connection::{self, Connection};
use crate::transport::Link;
use crate::transport::http_server::{
    HttpListener, HttpOptions, HttpService, RequestHead, Served, Serves, Serving,
};

impl Server {
    /// Returns a service that answers HTTP requests: Streamable HTTP in both eras, and HTTP+SSE of 2024-11-05.
    ///
    /// Mount it in any application of hyper, axum or tower. It must be called within a tokio runtime with time enabled.
    /// In axum, beside another route:
    ///
    /// ```
    /// # fn f(server: mcpjoin::Server) -> axum::Router {
    /// use axum::{Router, routing::get};
    /// use mcpjoin::transport::HttpOptions;
    ///
    /// let service = server.http(HttpOptions::new());
    /// Router::new().route("/health", get(|| async { "here" })).route_service("/mcp", service)
    /// # }
    /// ```
    ///
    /// `nest_service("/mcp", service)` works as well: the service answers at `/`, too, unless
    /// [`HttpOptions::path`] names another path. Clients of 2024-11-05 need routes to the same service at `/sse` and
    /// `/messages`. To shut down in order, call [`HttpService::drain`]: nothing else ends the streams of the service.
    ///
    /// What middleware puts into the extensions of a request is at hand in handlers:
    /// [`Context::extension`](crate::connection::Context::extension).
    #[must_use]
    pub fn http(&self, options: HttpOptions) -> HttpService {
        let (limits, versions) = (self.0.limits.clone(), self.0.role.versions.clone());
        let sessions = options.has_sessions();
        HttpService::new(options, limits, versions, OverHttp { server: self.clone(), sessions })
    }

    /// Serves all connections that the listener accepts, until `end` is ready.
    ///
    /// Then it accepts no more connections, finishes the requests in progress, ends the streams, and returns when the
    /// last connection has closed: at most [`Limits::drain`](mcpjoin_proto::session::Limits::drain) (10 s) later, plus
    /// 2 s for closing. Dropping the future ends everything immediately.
    ///
    /// ```no_run
    /// # async fn f(server: mcpjoin::Server) -> Result<(), mcpjoin::transport::HttpListenError> {
    /// use mcpjoin::transport::{HttpListener, HttpOptions};
    ///
    /// let listener = HttpListener::bind("http://127.0.0.1:8080/mcp").await?;
    /// let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    /// server.serve_http(listener, HttpOptions::new(), interrupted).await;
    /// # Ok(())
    /// # }
    /// ```
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
}

/// The server as the HTTP transport uses it.
struct OverHttp {
    server: Server,
    /// Whether a legacy connection belongs to one client.
    sessions: bool,
}

impl Serves for OverHttp {
    fn open(&self, link: Link) -> (Box<dyn Served>, Serving) {
        let (connection, serving) = self.server.open(link, self.sessions);
        (Box::new(connection), Box::pin(serving))
    }

    fn header_marks(&self, tool: &str, _: &Origin) -> Option<Arc<[HeaderMark]>> {
        if self.server.0.visible_tools.is_some() {
            // Checked by `Service::check_headers`.
            return None;
        }
        let tool = self.server.0.find_checked_tool(tool)?;
        let marks = tool.header_marks();
        (!marks.is_empty()).then(|| marks.clone())
    }
}

impl Service {
    /// Checks the headers that repeat arguments of a tool, where tools are hidden. The transport checks them otherwise, but
    /// it does not know who may see a tool, and its refusal would show that the tool exists.
    pub(super) fn check_headers(
        &self,
        profile: &'static Profile,
        request: &Request,
        cx: &connection::Context,
    ) -> Result<(), ErrorObject> {
        if self.server.visible_tools.is_none()
            || request.method != Method::CallTool
            || !profile.http_method_headers
        {
            return Ok(());
        }
        let (Some(head), Some(params)) = (cx.http(), &request.params) else { return Ok(()) };
        let Some(name) = params.name_string() else { return Ok(()) };
        let tool = self.server.find_checked_tool(&name);
        let Some(tool) = tool.filter(|tool| !tool.header_marks().is_empty()) else { return Ok(()) };
        if !self.server.shows(&tool, &name, &self.context(profile, request.clone(), cx.clone())) {
            return Ok(());
        }
        let arguments = params.arguments();
        check_param_headers(&RequestHead::new(head), tool.header_marks(), arguments.as_ref())
            .map_err(|mismatch| mismatch.to_error_object())
    }
}

impl Served for Connection {
    fn version(&self) -> Option<Version> {
        self.peer().map(|peer| peer.profile.version.clone())
    }

    fn is_quiet(&self) -> bool {
        self.in_flight() == (0, 0)
    }

    fn drain(&self) {
        Self::drain(self);
    }
}
