//! The pace of a client: as long as it takes nothing, nothing is read of what its server says.
//!
//! Put around the link to a server that one client has for itself. Without it, what a server tells faster than its client
//! reads would have to be kept without a bound, or thrown away; so both wait for each other, as over one pipe. What a
//! client says is never held up.

use std::task::{Context, Poll};

use mcpjoin_proto::session::Inbound;
use tokio::sync::watch;

use mcpjoin::connection::Connection;
use mcpjoin::link::TransportLayer;
use mcpjoin::link::{Link, Transport};

/// A link of which nothing is read while the client has no room.
struct Paced {
    io: Box<dyn Transport>,
    client: watch::Receiver<Option<Connection>>,
    /// Among those who wait for room.
    place: Option<u64>,
}

/// The link at the pace of the client, once there is one.
pub(super) fn paced(link: Link, client: watch::Receiver<Option<Connection>>) -> Link {
    Link::new(Paced { io: link.into_io(), client, place: None })
}

/// A server that ended while it was held up must not keep the place of the next one.
impl Drop for Paced {
    fn drop(&mut self) {
        if let (Some(place), Some(client)) = (self.place, &*self.client.borrow()) {
            client.leave_call_queue(place);
        }
    }
}

impl TransportLayer for Paced {
    fn io(&self) -> &dyn Transport {
        &*self.io
    }

    fn io_mut(&mut self) -> &mut dyn Transport {
        &mut *self.io
    }

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        if let Some(client) = &*self.client.borrow()
            && client.poll_call_queue(&mut self.place, cx).is_pending()
        {
            return Poll::Pending;
        }
        self.io.poll_inbound(cx)
    }
}
