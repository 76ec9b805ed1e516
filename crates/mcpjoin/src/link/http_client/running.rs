//! What a link over HTTP has under way: futures that it polls itself, each of which can be ended alone.
//!
//! Dropping it ends them all. It knows whose each is, and nothing of what they do.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::StreamExt as _;
use futures_util::future::{AbortHandle, Abortable};
use futures_util::stream::FuturesUnordered;
use mcpjoin_proto::RequestId;

/// Requests under way at once; on HTTP/1.1 each has a connection of its own. Streams that a client listens on are not
/// counted: they wait for nobody's turn.
pub(super) const REQUESTS: usize = 256;

/// What something that runs is.
pub(super) enum What {
    /// The exchange of a request. Counted: against [`REQUESTS`].
    Request { id: RequestId, counted: bool },
    /// A message without a reply.
    Told,
    /// `initialized`: the gate opens when it is over.
    Initialized,
    /// A cancellation: when it has arrived, the exchange is of no use any more.
    Cancel(RequestId),
    /// A session is being opened again: what comes of it is to be ended with the link.
    Reopening,
    /// Streams and the like.
    Background,
}

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

struct Entry {
    abort: AbortHandle,
    what: What,
}

type Boxed = Pin<Box<dyn Future<Output = Ticket> + Send>>;

/// Everything under way.
#[derive(Default)]
pub(super) struct Running {
    futures: FuturesUnordered<Boxed>,
    entries: BTreeMap<Ticket, Entry>,
    by_id: BTreeMap<RequestId, Ticket>,
    requests: usize,
    next: u64,
}

impl Running {
    /// Begins something; nothing of it happens before [`Running::poll_over`].
    pub(super) fn begin(&mut self, what: What, future: impl Future<Output = ()> + Send + 'static) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        let (abort, registration) = AbortHandle::new_pair();
        let future = Abortable::new(future, registration);
        if let What::Request { id, counted } = &what {
            self.by_id.insert(id.clone(), ticket);
            self.requests += usize::from(*counted);
        }
        self.entries.insert(ticket, Entry { abort, what });
        self.futures.push(Box::pin(async move {
            let _ = future.await;
            ticket
        }));
        ticket
    }

    /// Moves everything on; gives what is over, one at a time. `Pending`: nothing is.
    pub(super) fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<What> {
        loop {
            let Poll::Ready(Some(ticket)) = self.futures.poll_next_unpin(cx) else { return Poll::Pending };
            let Some(entry) = self.entries.remove(&ticket) else { continue };
            if let What::Request { id, counted } = &entry.what {
                self.requests -= usize::from(*counted);
                if self.by_id.get(id) == Some(&ticket) {
                    self.by_id.remove(id);
                }
            }
            return Poll::Ready(entry.what);
        }
    }

    /// Whether one more request may run.
    pub(super) const fn has_room(&self) -> bool {
        self.requests < REQUESTS
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Ends one of them. It is over with the next poll.
    pub(super) fn end(&self, ticket: Ticket) {
        if let Some(entry) = self.entries.get(&ticket) {
            entry.abort.abort();
        }
    }

    /// Ends the exchange of a request.
    pub(super) fn end_request(&self, id: &RequestId) {
        if let Some(ticket) = self.by_id.get(id) {
            self.end(*ticket);
        }
    }

    /// Ends everything but what only tells the server something, and what makes a session there.
    pub(super) fn end_all_but_told(&self) {
        for entry in self.entries.values() {
            if matches!(entry.what, What::Request { .. } | What::Background) {
                entry.abort.abort();
            }
        }
    }

    /// Ends everything at once.
    pub(super) fn clear(&mut self) {
        *self = Self { next: self.next, ..Self::default() };
    }
}
