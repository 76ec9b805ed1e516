//! A look at everything that crosses a link, for traces and for tests.
//!
//! The tap sees and changes nothing. It is called in the task that drives the link, so it must not block.

use std::task::{Context, Poll};

use mcpjoin_proto::session::{Inbound, Outbound};

use super::{Link, Transport, TransportLayer};

/// Which way something went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the far end to us.
    In,
    /// From us to the far end: noted when it is handed to the link.
    Out,
}

/// What crossed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Crossed<'a> {
    /// On a stream: one line, byte for byte, without its end; of a line above the limit, the beginning. Blank
    /// lines are not shown.
    Line(&'a [u8]),
    /// On a link that carries messages as they are: what came in.
    Inbound(&'a Inbound),
    /// On a link that carries messages as they are: what goes out.
    Outbound(&'a Outbound),
}

/// Called with everything that crosses a link, in order. It must not block.
pub type Tap = Box<dyn FnMut(Way, Crossed<'_>) + Send>;

/// A tap beside another one, which sees everything first.
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
    /// The same link, with `tap` called for everything that crosses it, in the order in which it crosses. When
    /// each crossing happened, the tap can ask its own clock. One tap sees what another sees.
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
