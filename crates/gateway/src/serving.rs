//! How clients reach a gateway: one connection, a listener, or HTTP.
//!
//! Used by `Gateway` and `JoinedGateway` alike, which only differ in how they serve a client. Never reads a message.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use mcpjoin::internal::{Served, Serves, serve_each};
use mcpjoin::transport::{HttpOptions, HttpService, Link, Listener};
use mcpjoin_proto::http::params::HeaderMark;
use mcpjoin_proto::session::{CloseCause, Limits, Origin};
use mcpjoin_proto::{Raw, Version};
use tokio::task::JoinHandle;

use crate::capacity::Caller;
use crate::client::{ClientHandle, Storing};
use crate::end::GatewayEnd;
use crate::tools::HeaderMarks;

/// Serves one client to its end. Its type is erased where it is made, so that it is compiled and optimized in this crate and not in
/// the one that polls it.
pub(crate) type Serving = BoxFuture<'static, GatewayEnd>;

/// A gateway.
pub(crate) trait ServeClient: Clone + Send + Sync + 'static {
    /// `remote`: the client came over a listener or over HTTP, so it may be anyone.
    fn serve_client(self, link: Link, handle: ClientHandle, remote: bool) -> Serving;

    fn header_marks(&self) -> &HeaderMarks;
}

/// Serves the client of one connection.
pub(crate) async fn serve(gateway: impl ServeClient, link: Link) -> GatewayEnd {
    // In a task, because a runtime with several threads polls its main future on a thread that must be woken for
    // every message.
    let mut task = AbortOnDrop(tokio::spawn(gateway.serve_client(link, ClientHandle::default(), false)));
    (&mut task.0).await.unwrap_or(GatewayEnd::Client(CloseCause::Local))
}

/// Serves the clients of a listener until `end` is ready.
pub(crate) async fn serve_all(gateway: &impl ServeClient, listener: Listener, end: impl Future<Output = ()>) {
    serve_each(listener, end, |link| open(gateway, link, Storing::No), ClientHandle::drain).await;
}

/// A service that serves the clients of an HTTP server.
pub(crate) fn http(gateway: impl ServeClient, options: HttpOptions, limits: Arc<Limits>) -> HttpService {
    let stores = options.stores_sessions();
    HttpService::new(options, limits, Version::ALL.into(), OverHttp { gateway, stores })
}

/// Prepares to serve a client that came over a listener or over HTTP.
fn open(gateway: &impl ServeClient, link: Link, storing: Storing) -> (ClientHandle, BoxFuture<'static, ()>) {
    let handle = ClientHandle::new(storing);
    let serving = gateway.clone().serve_client(link, handle.clone(), true);
    (handle, Box::pin(async move { drop(serving.await) }))
}

/// A task that is aborted when its result is not waited for any more.
struct AbortOnDrop(JoinHandle<GatewayEnd>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Serves the connections of an HTTP service.
struct OverHttp<G> {
    gateway: G,
    /// Whether sessions of legacy clients are stored.
    stores: bool,
}

impl<G: ServeClient> OverHttp<G> {
    fn open(&self, link: Link, storing: Storing) -> (Box<dyn Served>, BoxFuture<'static, ()>) {
        let (handle, serving) = open(&self.gateway, link, storing);
        (Box::new(handle), serving)
    }
}

impl<G: ServeClient> Serves for OverHttp<G> {
    fn open(&self, link: Link) -> (Box<dyn Served>, BoxFuture<'static, ()>) {
        self.open(link, if self.stores { Storing::New } else { Storing::No })
    }

    fn reopen(&self, link: Link, state: &Raw) -> (Box<dyn Served>, BoxFuture<'static, ()>) {
        self.open(link, Storing::Resumed(state.clone()))
    }

    fn header_marks(&self, tool: &str, client: &Origin) -> Option<Arc<[HeaderMark]>> {
        self.gateway.header_marks().of(&Caller::of(client), tool)
    }

    /// A server may still send messages about an earlier request of the same client.
    fn remembers_clients(&self) -> bool {
        true
    }
}
