//! A link around another one: what it does not do in its own way, the other does.
//!
//! For links that look at what crosses, hold it up or give it again: the tap, and both sides of a gateway.

use std::task::{Context, Poll};

use bytes::Bytes;
use mcpjoin_proto::session::{Inbound, Limits, LinkCaps, LinkEnd, Outbound};

#[cfg(unix)]
use super::ChildHandle;
use super::{Io, Standing};

/// What may be done in another way than by the link within. Whoever implements this is an [`Io`].
pub(crate) trait Around: Send {
    /// The link within.
    fn io(&self) -> &dyn Io;

    /// The same, to be used.
    fn io_mut(&mut self) -> &mut dyn Io;

    fn configure(&mut self, limits: &Limits) {
        self.io_mut().configure(limits);
    }

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        self.io_mut().poll_inbound(cx)
    }

    fn push(&mut self, outbound: Outbound) {
        self.io_mut().push(outbound);
    }
}

impl<A: Around> Io for A {
    fn caps(&self) -> LinkCaps {
        self.io().caps()
    }

    fn has_headers(&self) -> bool {
        self.io().has_headers()
    }

    fn configure(&mut self, limits: &Limits) {
        Around::configure(self, limits);
    }

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        Around::poll_inbound(self, cx)
    }

    fn has_room(&self) -> bool {
        self.io().has_room()
    }

    fn push(&mut self, outbound: Outbound) {
        Around::push(self, outbound);
    }

    fn push_bytes(&mut self, bytes: &Bytes) -> bool {
        self.io_mut().push_bytes(bytes)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        self.io_mut().poll_flush(cx)
    }

    fn discard(&mut self) {
        self.io_mut().discard();
    }

    fn sent(&self) -> u64 {
        self.io().sent()
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<LinkEnd> {
        self.io_mut().poll_close(cx)
    }

    fn poll_reopen(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        self.io_mut().poll_reopen(cx)
    }

    #[cfg(unix)]
    fn child(&self) -> Option<ChildHandle> {
        self.io().child()
    }

    fn standing(&self) -> Standing {
        self.io().standing()
    }

    fn heard(&self) -> Option<Box<dyn Fn() -> bool + Send + Sync>> {
        self.io().heard()
    }
}
