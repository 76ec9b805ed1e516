//! Observes everything that crosses a link, for traces and for tests.
//!
//! A tap changes nothing. It is called in the task that drives the link, so it must not block.

use std::task::{Context, Poll};

use mcpjoin_proto::session::{Inbound, Outbound};

use super::{Link, Transport, TransportLayer};

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the peer to us.
    In,
    /// From us to the peer: observed when it is handed to the transport.
    Out,
}

/// What crosses a link.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Crossed<'a> {
    /// On a byte stream: one line without its end, byte for byte; the beginning of a line above the limit. Blank lines are not
    /// shown.
    Line(&'a [u8]),
    /// On a transport that carries messages: a received message.
    Inbound(&'a Inbound),
    /// On a transport that carries messages: a sent message.
    Outbound(&'a Outbound),
}

/// Called with everything that crosses a link, in order. It must not block.
pub type Tap = Box<dyn FnMut(Way, Crossed<'_>) + Send>;

/// Combines two taps. `tap` is called first.
pub fn beside(other: Option<Tap>, mut tap: Tap) -> Tap {
    match other {
        None => tap,
        Some(mut first) => Box::new(move |way, crossed| {
            first(way, crossed);
            tap(way, crossed);
        }),
    }
}

impl Link {
    /// The same link, with `tap` called for everything that crosses it, in order. A tap that needs times reads its own clock.
    /// Several taps all see the same.
    ///
    /// ```
    /// use mcpjoin::link::{Crossed, Link};
    ///
    /// let (ours, theirs) = Link::memory();
    /// let ours = ours.tapped(|way, crossed| {
    ///     if let Crossed::Line(line) = crossed {
    ///         println!("{way:?} {}", line.escape_ascii());
    ///     }
    /// });
    /// # drop((ours, theirs));
    /// ```
    #[must_use]
    pub fn tapped(self, tap: impl FnMut(Way, Crossed<'_>) + Send + 'static) -> Self {
        let mut io = self.into_io();
        match io.tap(Box::new(tap)) {
            Ok(()) => Self(io),
            Err(tap) => Self::new(Tapped { io, tap }),
        }
    }
}

/// A link that carries messages as they are, with a tap.
struct Tapped {
    io: Box<dyn Transport>,
    tap: Tap,
}

impl TransportLayer for Tapped {
    fn io(&self) -> &dyn Transport {
        &*self.io
    }

    fn io_mut(&mut self) -> &mut dyn Transport {
        &mut *self.io
    }

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        let inbound = self.io.poll_inbound(cx);
        if let Poll::Ready(inbound) = &inbound {
            (self.tap)(Way::In, Crossed::Inbound(inbound));
        }
        inbound
    }

    fn push(&mut self, outbound: Outbound) {
        (self.tap)(Way::Out, Crossed::Outbound(&outbound));
        self.io.push(outbound);
    }
}
