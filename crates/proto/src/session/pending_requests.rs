//! What we owe because of what we read: requests of the peer that are being handled or wait for it.
//!
//! Over the bound of handled requests the next ones wait, up to a bound in bytes. Beyond that they are refused with an
//! error that names the bound, or reading is held back: `admission` says when.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::batch::Batches;
use super::event::{Asker, RequestContext};
use super::queue::Place;
use crate::types::LoggingLevel;
use crate::{Method, ProgressToken, Request, RequestId};

/// What a request that waits holds beside its own bytes: its places in the tables and what is known of its sender.
/// Measured with 80,000 requests of sixty bytes: 580 bytes each in all, so 8 MiB of them are less than 16 MiB.
pub(super) const WAITING_OVERHEAD_BYTES: usize = 256;

/// A request of the peer that has no answer yet.
#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) method: Method,
    /// The rest. Boxed, and absent where there is nothing to note, so that an entry is quickly moved.
    details: Option<Box<RequestDetails>>,
    number: u64,
    size: usize,
    handled: bool,
}

/// What is noted of a request while it has no answer.
#[derive(Debug, Default)]
pub(super) struct RequestDetails {
    /// The name under which its sender wants to hear of progress, if at all.
    pub(super) progress_token: Option<ProgressToken>,
    /// From which level on its sender wants log messages; `None`: none.
    pub(super) log_level: Option<LoggingLevel>,
    /// Who asks, where each request says so itself and its answer depends on it.
    pub(super) asker: Option<Arc<Asker>>,
    /// The batch that it came in and that its answer goes into.
    pub(super) batch: Option<u64>,
    /// The resource that this request subscribes to or unsubscribes from, when it is granted.
    pub(super) uri: Option<String>,
    /// Progress that may still wait in the queue.
    pub(super) progress: Option<Place>,
    /// What was last reported.
    pub(super) reported: Option<f64>,
    /// That its stream is to be closed may still wait in the queue.
    pub(super) closing: Option<Place>,
}

#[derive(Debug)]
struct Waiting {
    request: Request,
    context: RequestContext,
    size: usize,
}

#[derive(Debug, Default)]
pub(super) struct PendingRequests {
    /// In which place each request is. Most names are integers, which are found faster alone.
    integers: BTreeMap<i64, usize>,
    others: BTreeMap<RequestId, usize>,
    /// The requests. A place is used again, so that a request that is answered at once costs no memory of its own.
    places: Vec<Option<PendingRequest>>,
    free: Vec<usize>,
    /// By the number of their arrival.
    waiting: BTreeMap<u64, Waiting>,
    waiting_bytes: usize,
    handled: usize,
    handled_bytes: usize,
    numbers: u64,
    pub(super) batches: Batches,
}

/// So many free places are kept when nothing is owed any more.
const MAX_FREE_SLOTS: usize = 64;

impl PendingRequest {
    /// Whether a handler has begun with it.
    pub(super) const fn is_handled(&self) -> bool {
        self.handled
    }

    pub(super) fn details(&self) -> Option<&RequestDetails> {
        self.details.as_deref()
    }

    pub(super) fn details_mut(&mut self) -> &mut RequestDetails {
        self.details.get_or_insert_default()
    }

    /// The batch that its answer goes into.
    pub(super) fn batch(&self) -> Option<u64> {
        self.details()?.batch
    }

    /// The resource that it subscribes to or unsubscribes from.
    pub(super) fn uri(&self) -> Option<&str> {
        self.details()?.uri.as_deref()
    }
}

impl RequestDetails {
    fn is_something(&self) -> bool {
        let Self { progress_token, log_level, asker, batch, uri, progress, reported, closing } = self;
        progress_token.is_some()
            || log_level.is_some()
            || asker.is_some()
            || batch.is_some()
            || uri.is_some()
            || progress.is_some()
            || reported.is_some()
            || closing.is_some()
    }
}

impl PendingRequests {
    fn place(&self, id: &RequestId) -> Option<usize> {
        match id.as_i64() {
            Some(number) => self.integers.get(&number).copied(),
            None => self.others.get(id).copied(),
        }
    }

    pub(super) fn contains(&self, id: &RequestId) -> bool {
        self.place(id).is_some()
    }

    pub(super) fn find(&mut self, id: &RequestId) -> Option<&mut PendingRequest> {
        let place = self.place(id)?;
        self.places.get_mut(place)?.as_mut()
    }

    /// Whether a handler works on the request with that id and that number.
    pub(super) fn is_handled(&self, id: &RequestId, number: u64) -> bool {
        let incoming = self.place(id).and_then(|place| self.places.get(place)?.as_ref());
        incoming.is_some_and(|incoming| incoming.handled && incoming.number == number)
    }

    /// Whether the request with that id says itself who asks, as those of the modern era do.
    pub(super) fn is_modern(&self, id: &RequestId) -> bool {
        let incoming = self.place(id).and_then(|place| self.places.get(place)?.as_ref());
        incoming.and_then(PendingRequest::details).is_some_and(|details| details.asker.is_some())
    }

    /// What the request with that id asks, while a handler works on it.
    pub(super) fn method_of(&self, id: &RequestId) -> Option<&Method> {
        let incoming = self.place(id).and_then(|place| self.places.get(place)?.as_ref())?;
        incoming.handled.then_some(&incoming.method)
    }

    /// The ids of all requests that have no answer yet: those that wait first, so that none of them is begun
    /// while the others are settled.
    pub(super) fn ids(&self) -> Vec<RequestId> {
        let waiting = self.waiting.values().map(|waiting| waiting.request.id.clone());
        waiting.chain(self.handled_ids()).collect()
    }

    fn handled_ids(&self) -> impl Iterator<Item = RequestId> {
        let integers = self.integers.iter().map(|(id, place)| (RequestId::from(*id), *place));
        let others = self.others.iter().map(|(id, place)| (id.clone(), *place));
        integers.chain(others).filter_map(|(id, place)| {
            let incoming = self.places.get(place)?.as_ref()?;
            incoming.handled.then_some(id)
        })
    }

    /// Of the requests that a handler works on, the one that came first.
    pub(super) fn oldest_handled(&self) -> Option<RequestId> {
        let number = |id: &RequestId| {
            self.place(id).and_then(|place| self.places.get(place)?.as_ref()).map(|incoming| incoming.number)
        };
        self.handled_ids().min_by_key(number)
    }

    /// Requests that have no answer yet.
    pub(super) fn len(&self) -> usize {
        self.integers.len() + self.others.len()
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
    pub(super) fn has_none_waiting(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes a request in and lets it wait its turn.
    pub(super) fn admit(
        &mut self,
        request: Request,
        size: usize,
        mut context: RequestContext,
        details: RequestDetails,
    ) {
        self.enter(&request, size, &mut context, details, false);
        let size = size + WAITING_OVERHEAD_BYTES;
        self.waiting_bytes += size;
        self.waiting.insert(self.numbers, Waiting { request, context, size });
    }

    /// Takes a request in that a handler begins with now.
    pub(super) fn begin(
        &mut self,
        request: &Request,
        size: usize,
        context: &mut RequestContext,
        details: RequestDetails,
    ) {
        self.enter(request, size, context, details, true);
        self.handled += 1;
        self.handled_bytes += size;
    }

    fn enter(
        &mut self,
        request: &Request,
        size: usize,
        context: &mut RequestContext,
        details: RequestDetails,
        handled: bool,
    ) {
        self.numbers += 1;
        context.number = self.numbers;
        if let Some(batch) = details.batch {
            self.batches.admit(batch, &request.id);
        }
        let incoming = Some(PendingRequest {
            method: request.method.clone(),
            details: details.is_something().then(|| Box::new(details)),
            number: self.numbers,
            size,
            handled,
        });
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place] = incoming;
                place
            }
            None => {
                if self.places.capacity() == 0 {
                    // Mostly there is one at a time, and the first growth by itself would be to four.
                    self.places.reserve_exact(1);
                    self.free.reserve_exact(1);
                }
                self.places.push(incoming);
                self.places.len() - 1
            }
        };
        match request.id.as_i64() {
            Some(number) => self.integers.insert(number, place),
            None => self.others.insert(request.id.clone(), place),
        };
    }

    /// The next request that a handler may begin with.
    pub(super) fn dispatch(&mut self) -> Option<(Request, RequestContext)> {
        let (_, Waiting { request, context, size }) = self.waiting.pop_first()?;
        self.waiting_bytes -= size;
        let entry = self.find(&request.id)?;
        entry.handled = true;
        let size = entry.size;
        self.handled += 1;
        self.handled_bytes += size;
        Some((request, context))
    }

    /// The request is answered or cancelled.
    pub(super) fn remove(&mut self, id: &RequestId) -> Option<PendingRequest> {
        let place = match id.as_i64() {
            Some(number) => self.integers.remove(&number),
            None => self.others.remove(id),
        }?;
        if self.others.is_empty() {
            self.others = BTreeMap::new();
        }
        let entry = self.places.get_mut(place)?.take()?;
        self.free.push(place);
        if self.places.len() > MAX_FREE_SLOTS && self.len() == 0 {
            (self.places, self.free) = (Vec::new(), Vec::new());
        }
        if entry.handled {
            self.handled -= 1;
            self.handled_bytes -= entry.size;
        } else if let Some(Waiting { size, .. }) = self.waiting.remove(&entry.number) {
            self.waiting_bytes -= size;
        }
        Some(entry)
    }

    /// Forgets everything and says which requests a handler still works on.
    pub(super) fn take_handled(&mut self) -> Vec<RequestId> {
        let handled = self.handled_ids().collect();
        // Their numbers are never used again.
        *self = Self { numbers: self.numbers, ..Self::default() };
        handled
    }

    /// Gives back its room when nothing is owed, but for that of one request.
    pub(super) fn shrink(&mut self) {
        if self.places.capacity() > 1 && self.len() == 0 && self.batches.is_empty() {
            *self = Self { numbers: self.numbers, ..Self::default() };
        }
    }

    /// Begins a batch, whose requests are then admitted with its number.
    pub(super) fn open_batch(&mut self, exchange: Option<u64>) -> u64 {
        self.numbers += 1;
        self.batches.open(self.numbers, exchange);
        self.numbers
    }
}
