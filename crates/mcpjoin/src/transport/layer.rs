//! A transport around another one, for what observes, delays or repeats messages: the inspector, the counting of a listener, both sides
//! of a gateway.
//!
//! It changes what it overrides and forwards the rest.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use mcpjoin_proto::session::{Inbound, Limits, Origin, Outbound, TransportCaps, TransportEnd};

#[cfg(all(unix, feature = "child"))]
use super::ChildHandle;
use super::{Inspector, PeerIdentity, Transport, UpstreamSession};

/// A transport around another one. What it does not override, the inner transport does. Every layer is a [`Transport`].
pub trait TransportLayer: Send {
    /// The inner transport.
    fn io(&self) -> &dyn Transport;

    /// The inner transport, to be polled.
    fn io_mut(&mut self) -> &mut dyn Transport;

    /// [`Transport::configure`].
    fn configure(&mut self, limits: &Limits) {
        self.io_mut().configure(limits);
    }

    /// [`Transport::poll_inbound`].
    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        self.io_mut().poll_inbound(cx)
    }

    /// [`Transport::push`].
    fn push(&mut self, outbound: Outbound) {
        self.io_mut().push(outbound);
    }

    /// [`Transport::inspect`]. A layer that changes no message lets the inner transport show its bytes; by default messages are
    /// shown as they cross the layer.
    ///
    /// # Errors
    /// The inspector, where messages are to be shown.
    fn inspect(&mut self, inspector: Inspector) -> Result<(), Inspector> {
        Err(inspector)
    }
}

#[doc(hidden)]
impl<A: TransportLayer> Transport for A {
    fn caps(&self) -> TransportCaps {
        self.io().caps()
    }

    fn has_headers(&self) -> bool {
        self.io().has_headers()
    }

    fn configure(&mut self, limits: &Limits) {
        TransportLayer::configure(self, limits);
    }

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        TransportLayer::poll_inbound(self, cx)
    }

    fn has_room(&self) -> bool {
        self.io().has_room()
    }

    fn push(&mut self, outbound: Outbound) {
        TransportLayer::push(self, outbound);
    }

    fn push_bytes(&mut self, bytes: &Bytes) -> bool {
        self.io_mut().push_bytes(bytes)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportEnd>> {
        self.io_mut().poll_flush(cx)
    }

    fn discard(&mut self) {
        self.io_mut().discard();
    }

    fn sent(&self) -> u64 {
        self.io().sent()
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<TransportEnd> {
        self.io_mut().poll_close(cx)
    }

    fn poll_reopen(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportEnd>> {
        self.io_mut().poll_reopen(cx)
    }

    #[cfg(all(unix, feature = "child"))]
    fn child(&self) -> Option<ChildHandle> {
        self.io().child()
    }

    fn identity(&self) -> PeerIdentity {
        self.io().identity()
    }

    fn origin(&self) -> Option<Arc<Origin>> {
        self.io().origin()
    }

    fn upstream_session(&self) -> Option<UpstreamSession> {
        self.io().upstream_session()
    }

    fn has_listener(&self) -> Option<Box<dyn Fn() -> bool + Send + Sync>> {
        self.io().has_listener()
    }

    fn inspect(&mut self, inspector: Inspector) -> Result<(), Inspector> {
        TransportLayer::inspect(self, inspector)
    }
}
