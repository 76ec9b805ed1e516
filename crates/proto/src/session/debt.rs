//! What we owe because of what we read: requests of the peer that are being handled or wait for it.
//!
//! Over the bound of handled requests the next ones wait, up to a bound in bytes; beyond that they are
//! refused with an error that names the bound. So reading never has to stop because of requests, and the
//! answers that handlers wait for are always read.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::event::RequestContext;
use super::queue::Place;
use crate::{Message, Method, Request, RequestId};

/// What a request that waits holds beside its own bytes: its places in the tables and what is known of its sender.
/// Measured with 80,000 requests of sixty bytes: 580 bytes each in all, so 8 MiB of them are less than 16 MiB.
pub(super) const ENTRY: usize = 256;

/// A request of the peer that has no answer yet.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) method: Method,
    pub(super) context: RequestContext,
    /// The batch that it came in and that its answer goes into.
    pub(super) batch: Option<u64>,
    /// The resource that this request subscribes to or unsubscribes from, when it is granted.
    pub(super) uri: Option<String>,
    /// Progress that may still wait in the queue.
    pub(super) progress: Option<Place>,
    /// What was last reported.
    pub(super) reported: Option<f64>,
    number: u64,
    size: usize,
    handled: bool,
}

#[derive(Debug)]
struct Waiting {
    request: Request,
    size: usize,
}

/// A batch that is being answered: 2025-03-26 alone.
#[derive(Debug, Default)]
struct Batch {
    outstanding: usize,
    replies: Vec<Message>,
    complete: bool,
}

#[derive(Debug, Default)]
pub(super) struct Debt {
    /// Boxed, so that the entries of the map stay small: it moves them whenever a request comes or goes.
    incoming: BTreeMap<RequestId, Box<Incoming>>,
    /// By the number of their arrival.
    waiting: BTreeMap<u64, Waiting>,
    waiting_bytes: usize,
    handled: usize,
    handled_bytes: usize,
    numbers: u64,
    batches: BTreeMap<u64, Batch>,
}

impl Incoming {
    /// Whether a handler has begun with it.
    pub(super) const fn is_handled(&self) -> bool {
        self.handled
    }
}

impl Debt {
    pub(super) fn contains(&self, id: &RequestId) -> bool {
        self.incoming.contains_key(id)
    }

    pub(super) fn find(&mut self, id: &RequestId) -> Option<&mut Incoming> {
        self.incoming.get_mut(id).map(Box::as_mut)
    }

    /// The ids of all requests that have no answer yet: those that wait first, so that none of them is begun
    /// while the others are settled.
    pub(super) fn ids(&self) -> Vec<RequestId> {
        let waiting = self.waiting.values().map(|waiting| &waiting.request.id);
        let handled = self.incoming.iter().filter(|(_, incoming)| incoming.handled).map(|(id, _)| id);
        waiting.chain(handled).cloned().collect()
    }

    /// Requests that have no answer yet.
    pub(super) fn len(&self) -> usize {
        self.incoming.len()
    }

    /// Requests that a handler works on.
    pub(super) const fn handled(&self) -> usize {
        self.handled
    }

    /// What those requests hold, in bytes.
    pub(super) const fn handled_bytes(&self) -> usize {
        self.handled_bytes
    }

    pub(super) const fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Whether a request that may be handled at once has no other before it.
    pub(super) fn is_nobody_waiting(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes a request in and lets it wait its turn.
    pub(super) fn admit(
        &mut self,
        request: Request,
        size: usize,
        context: RequestContext,
        batch: Option<u64>,
        uri: Option<String>,
    ) {
        self.enter(&request, size, context, batch, uri, false);
        let size = size + ENTRY;
        self.waiting_bytes += size;
        self.waiting.insert(self.numbers, Waiting { request, size });
    }

    /// Takes a request in that a handler begins with now.
    pub(super) fn begin(
        &mut self,
        request: &Request,
        size: usize,
        context: RequestContext,
        batch: Option<u64>,
        uri: Option<String>,
    ) {
        self.enter(request, size, context, batch, uri, true);
        self.handled += 1;
        self.handled_bytes += size;
    }

    fn enter(
        &mut self,
        request: &Request,
        size: usize,
        context: RequestContext,
        batch: Option<u64>,
        uri: Option<String>,
        handled: bool,
    ) {
        self.numbers += 1;
        if let Some(batch) = batch.and_then(|batch| self.batches.get_mut(&batch)) {
            batch.outstanding += 1;
        }
        self.incoming.insert(
            request.id.clone(),
            Box::new(Incoming {
                method: request.method.clone(),
                context,
                batch,
                uri,
                progress: None,
                reported: None,
                number: self.numbers,
                size,
                handled,
            }),
        );
    }

    /// The next request that a handler may begin with.
    pub(super) fn dispatch(&mut self) -> Option<(Request, RequestContext)> {
        let (_, Waiting { request, size }) = self.waiting.pop_first()?;
        self.waiting_bytes -= size;
        let entry = self.incoming.get_mut(&request.id)?;
        entry.handled = true;
        self.handled += 1;
        self.handled_bytes += entry.size;
        Some((request, entry.context.clone()))
    }

    /// The request is answered or cancelled. Says whether a handler had begun with it.
    pub(super) fn settle(&mut self, id: &RequestId) -> Option<(Box<Incoming>, bool)> {
        let entry = self.incoming.remove(id)?;
        if entry.handled {
            self.handled -= 1;
            self.handled_bytes -= entry.size;
        } else if let Some(Waiting { size, .. }) = self.waiting.remove(&entry.number) {
            self.waiting_bytes -= size;
        }
        let handled = entry.handled;
        Some((entry, handled))
    }

    /// Forgets everything and says which requests a handler still works on.
    pub(super) fn take_handled(&mut self) -> Vec<RequestId> {
        self.waiting.clear();
        self.waiting_bytes = 0;
        self.handled = 0;
        self.batches.clear();
        core::mem::take(&mut self.incoming)
            .into_iter()
            .filter_map(|(id, entry)| entry.handled.then_some(id))
            .collect()
    }

    /// Begins a batch, whose requests are then admitted with its number.
    pub(super) fn open_batch(&mut self) -> u64 {
        self.numbers += 1;
        self.batches.insert(self.numbers, Batch::default());
        self.numbers
    }

    /// All of the batch was read. The replies, when all are there already.
    pub(super) fn complete_batch(&mut self, number: u64) -> Option<Vec<Message>> {
        self.batches.get_mut(&number)?.complete = true;
        self.finish_batch(number)
    }

    /// A reply that did not need a handler.
    pub(super) fn add_to_batch(&mut self, number: u64, reply: Message) {
        if let Some(batch) = self.batches.get_mut(&number) {
            batch.replies.push(reply);
        }
    }

    /// A request of the batch is settled, with a reply or, when it was cancelled, without. All replies, when
    /// it was the last.
    pub(super) fn settle_in_batch(&mut self, number: u64, reply: Option<Message>) -> Option<Vec<Message>> {
        let batch = self.batches.get_mut(&number)?;
        batch.outstanding = batch.outstanding.saturating_sub(1);
        batch.replies.extend(reply);
        self.finish_batch(number)
    }

    fn finish_batch(&mut self, number: u64) -> Option<Vec<Message>> {
        let batch = self.batches.get(&number)?;
        if !batch.complete || batch.outstanding > 0 {
            return None;
        }
        let batch = self.batches.remove(&number)?;
        (!batch.replies.is_empty()).then_some(batch.replies)
    }
}
