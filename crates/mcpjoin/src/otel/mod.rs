//! Spans and metrics of OpenTelemetry for the requests of clients and servers, and the context of a trace in `_meta`.
//!
//! `client` and `server` enter it as a layer, if their builders ask for it
//! ([`ClientBuilder::telemetry`](crate::client::ClientBuilder::telemetry),
//! [`ServerBuilder::telemetry`](crate::server::ServerBuilder::telemetry)). The spans are spans of `tracing`, so that what a
//! handler logs is inside them; the program exports them with `tracing-opentelemetry`. Names and attributes follow the
//! [conventions for MCP](https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md); the
//! keys of `_meta` are those of the [specification](https://modelcontextprotocol.io/specification/2026-07-28/basic#meta).
//! A gateway relays requests with [`Relaying`]. Nothing here exports, installs a provider, or records what tools are given and return.

mod attributes;
mod instruments;
mod operation;
mod propagation;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mcpjoin_proto::session::{Call, CallError, Reply};
use mcpjoin_proto::{ErrorObject, Method, Notification, Request};
use tracing::{Instrument as _, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

pub(crate) use instruments::{Instruments, Session};

use self::operation::Operation;
#[cfg(all(feature = "client", feature = "server"))]
use crate::connection::Layers;
use crate::connection::{Context, Next};
use crate::handler::{ErasedHandler, ResponseFuture};

/// Sends a request inside a span of the kind `CLIENT`. The layer of a client, and of the requests of a server.
pub(crate) async fn send(
    instruments: Arc<Instruments>,
    mut call: Call,
    next: Next,
) -> Result<Reply, CallError> {
    // This request lives as long as its stream of notifications: as a span it would only be seen when that ends.
    if call.method == Method::Listen {
        propagation::inject(&Span::current().context(), &mut call);
        return next.run(call).await;
    }
    in_span(instruments, call, next, propagation::inject).await
}

/// Sends a request that was received from another peer, as [`send`] does. What its sender has put into `_meta` is replaced,
/// except in a request without a span.
#[cfg(all(feature = "client", feature = "server"))]
pub(crate) async fn relay(instruments: Arc<Instruments>, call: Call, next: Next) -> Result<Reply, CallError> {
    if call.method == Method::Listen {
        return next.run(call).await;
    }
    in_span(instruments, call, next, propagation::replace).await
}

async fn in_span(
    instruments: Arc<Instruments>,
    mut call: Call,
    next: Next,
    write: fn(&opentelemetry::Context, &mut Call),
) -> Result<Reply, CallError> {
    let operation = Operation::sent(instruments, &call, &next);
    write(&operation.span().context(), &mut call);
    let method = call.method.clone();
    let outcome = next.run(call).instrument(operation.span().clone()).await;
    operation.end_sent(&method, &outcome);
    outcome
}

/// Answers a request inside a span of the kind `SERVER`, as `answer` does. The layer of a server, and of the requests
/// that a server sends to its client.
pub(crate) async fn receive<F, Fut>(
    instruments: Arc<Instruments>,
    request: Request,
    cx: Context,
    answer: F,
) -> Result<Reply, ErrorObject>
where
    F: FnOnce(Request) -> Fut,
    Fut: Future<Output = Result<Reply, ErrorObject>>,
{
    let operation = Operation::received(instruments, &request, &cx);
    let (method, span) = (request.method.clone(), operation.span().clone());
    // A handler may start its work when it is called.
    let answer = span.in_scope(|| answer(request));
    let response = answer.instrument(span).await;
    operation.end_received(&method, &response);
    response
}

/// The spans and the measurements of a gateway. Cheap to clone.
#[cfg(all(feature = "client", feature = "server"))]
#[derive(Clone, Debug, Default)]
pub struct Relaying(Arc<Instruments>);

#[cfg(all(feature = "client", feature = "server"))]
impl Relaying {
    /// The handler of a connection to a client. A request for a stream of notifications has no span.
    pub fn handler<H: ErasedHandler + 'static>(&self, handler: H) -> impl ErasedHandler + use<H> {
        Observed { handler: Arc::new(handler), instruments: self.0.clone() }
    }

    /// The layers of a connection to a client.
    #[must_use]
    pub fn layers(&self) -> Layers {
        let instruments = self.0.clone();
        Layers::of(move |call, next| relay(instruments.clone(), call, next))
    }

    pub(crate) fn instruments(&self) -> Arc<Instruments> {
        self.0.clone()
    }
}

/// A handler whose requests are [received](receive) in spans.
pub(crate) struct Observed {
    pub(crate) handler: Arc<dyn ErasedHandler>,
    pub(crate) instruments: Arc<Instruments>,
}

impl ErasedHandler for Observed {
    fn request(&self, request: Request, context: Context) -> ResponseFuture {
        // As in `send`. Only a gateway receives it: a server's session answers it.
        if request.method == Method::Listen {
            return self.handler.request(request, context);
        }
        let (handler, cx) = (self.handler.clone(), context.clone());
        let answer = move |request| handler.request(request, context);
        Box::pin(receive(self.instruments.clone(), request, cx, answer))
    }

    fn notification(
        &self,
        notification: Notification,
        context: Context,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.handler.notification(notification, context)
    }
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").finish_non_exhaustive()
    }
}
