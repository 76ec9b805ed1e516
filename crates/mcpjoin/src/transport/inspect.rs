//! Observes everything that crosses a link, for traces and for tests.
//!
//! An inspector changes nothing. It is called in the task that drives the link, so it must not block.

use std::task::{Context, Poll};

use mcpjoin_proto::session::{Inbound, Outbound};

use super::{Link, Transport, TransportLayer};

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the peer to us.
    In,
    /// From us to the peer: observed when it is handed to the transport.
    Out,
}

/// What crosses a link.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Inspected<'a> {
    /// On a byte stream: one line without its end, byte for byte; the beginning of a line above the limit. Blank lines are not
    /// shown.
    Line(&'a [u8]),
    /// On a transport that carries messages: a received message.
    Inbound(&'a Inbound),
    /// On a transport that carries messages: a sent message.
    Outbound(&'a Outbound),
}

/// Called with everything that crosses a link, in order. It must not block.
pub type Inspector = Box<dyn FnMut(Direction, Inspected<'_>) + Send>;

/// Combines two inspectors. `inspector` is called first.
pub fn beside(other: Option<Inspector>, mut inspector: Inspector) -> Inspector {
    match other {
        None => inspector,
        Some(mut first) => Box::new(move |direction, inspected| {
            first(direction, inspected);
            inspector(direction, inspected);
        }),
    }
}

impl Link {
    /// The same link, with `inspector` called for everything that crosses it, in order. An inspector that needs times reads its own clock.
    /// Several inspectors all see the same.
    ///
    /// ```
    /// use mcpjoin::transport::{Inspected, Link};
    ///
    /// let (ours, theirs) = Link::memory();
    /// let ours = ours.inspected(|direction, crossed| {
    ///     if let Inspected::Line(line) = crossed {
    ///         println!("{direction:?} {}", line.escape_ascii());
    ///     }
    /// });
    /// # drop((ours, theirs));
    /// ```
    #[must_use]
    pub fn inspected(self, inspector: impl FnMut(Direction, Inspected<'_>) + Send + 'static) -> Self {
        let mut io = self.into_transport();
        match io.inspect(Box::new(inspector)) {
            Ok(()) => Self(io),
            Err(inspector) => Self::new(InspectedTransport { io, inspector }),
        }
    }
}

/// A link that carries messages as they are, with a inspector.
struct InspectedTransport {
    io: Box<dyn Transport>,
    inspector: Inspector,
}

impl TransportLayer for InspectedTransport {
    fn io(&self) -> &dyn Transport {
        &*self.io
    }

    fn io_mut(&mut self) -> &mut dyn Transport {
        &mut *self.io
    }

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        let inbound = self.io.poll_inbound(cx);
        if let Poll::Ready(inbound) = &inbound {
            (self.inspector)(Direction::In, Inspected::Inbound(inbound));
        }
        inbound
    }

    fn push(&mut self, outbound: Outbound) {
        (self.inspector)(Direction::Out, Inspected::Outbound(&outbound));
        self.io.push(outbound);
    }
}
