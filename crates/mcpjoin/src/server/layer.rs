//! Layers around the methods of a server: functions that see each request before its handler and each result after it.
//!
//! Registered with [`ServerBuilder::layer`](super::ServerBuilder::layer), entered by `service`. A server without layers
//! does nothing for them.

use std::fmt;

use mcpjoin_proto::session::Reply;
use mcpjoin_proto::{ErrorObject, Profile, Request};

use super::Context;
use super::service::Service;
use crate::connection;
use crate::handler::ResponseFuture;

pub(super) type Layer = dyn Fn(Request, Context, Next) -> ResponseFuture + Send + Sync;

/// What follows a layer: the layers registered after it, and the handler. Given to the function of
/// [`ServerBuilder::layer`](super::ServerBuilder::layer).
#[must_use = "a layer that does not run it answers the request itself"]
pub struct Next {
    service: Service,
    profile: &'static Profile,
    connection: connection::Context,
    /// The index of the next layer.
    layer: usize,
}

impl Next {
    pub(super) const fn new(
        service: Service,
        profile: &'static Profile,
        connection: connection::Context,
    ) -> Self {
        Self { service, profile, connection, layer: 0 }
    }

    /// Passes the request on, as it came or changed, and returns its response.
    ///
    /// A failed tool is a [`Reply::Complete`] with `isError`. A handler of 2026-07-28 that asks the client for input is a
    /// [`Reply::NeedInput`], and a call that has become a task of the extension is a [`Reply::Task`]. The id of the
    /// request has no effect: the response goes to the request that arrived.
    ///
    /// # Errors
    /// The error with which the request fails.
    pub async fn run(self, request: Request) -> Result<Reply, ErrorObject> {
        self.start(request).await
    }

    pub(super) fn start(mut self, request: Request) -> ResponseFuture {
        let server = self.service.server.clone();
        let Some(layer) = server.layers.get(self.layer) else {
            return self.service.answer(self.profile, request, self.connection);
        };
        self.layer += 1;
        let context = self.service.context(self.profile, request.clone(), self.connection.clone());
        layer(request, context, self)
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("layer", &self.layer).finish_non_exhaustive()
    }
}
