//! The requests of the peer that have no response yet: those that a handler works on, and those that wait for one.
//!
//! `flow_control` decides which requests are dispatched, wait, or are rejected.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::batch::Batches;
use super::event::{ClientInfo, RequestContext};
use super::queue::Position;
use crate::sorted_map::SortedMap;
use crate::types::LoggingLevel;
use crate::{Method, ProgressToken, Request, RequestId};

/// The memory of a waiting request beside its own bytes: its table entries and its context. Measured with 80,000
/// requests of 60 bytes: 580 bytes each in total, so 8 MiB of them take less than 16 MiB.
pub(super) const WAITING_OVERHEAD_BYTES: usize = 256;

/// A request of the peer without a response.
#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) method: Method,
    /// Further data, boxed to keep an entry small, and `None` when there is none.
    details: Option<Box<RequestDetails>>,
    number: u64,
    size: usize,
    handled: bool,
}

/// Further data of a pending request.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RequestDetails {
    /// The token for progress notifications, if its sender wants them.
    pub(super) progress_token: Option<ProgressToken>,
    /// The minimum level of log messages that its sender wants; `None`: no messages.
    pub(super) log_level: Option<LoggingLevel>,
    /// The client, in the era where each request describes it.
    pub(super) client: Option<Arc<ClientInfo>>,
    /// The batch of the request.
    pub(super) batch: Option<u64>,
    /// The resource that the request subscribes to or unsubscribes from.
    pub(super) uri: Option<String>,
    /// The queue position of the last progress notification, which may have been sent since.
    pub(super) progress: Option<Position>,
    /// The last reported progress.
    pub(super) reported: Option<f64>,
    /// The queue position of the message that closes the stream, which may have been sent since.
    pub(super) closing: Option<Position>,
}

#[derive(Debug)]
struct Waiting {
    request: Request,
    context: RequestContext,
    size: usize,
}

#[derive(Debug, Default)]
pub(super) struct PendingRequests {
    /// The place of each request. Most ids are integers, and a map of integers is faster.
    integers: BTreeMap<i64, usize>,
    others: SortedMap<RequestId, usize>,
    /// The requests. Places are reused, so a short request allocates nothing.
    places: Vec<Option<PendingRequest>>,
    free: Vec<usize>,
    /// By the number of the request.
    waiting: SortedMap<u64, Waiting>,
    waiting_bytes: usize,
    handled: usize,
    handled_bytes: usize,
    numbers: u64,
    pub(super) batches: Batches,
}

/// The maximum number of places that are kept while no request is pending.
const MAX_FREE_SLOTS: usize = 64;

impl PendingRequest {
    /// Whether the request was dispatched to a handler.
    pub(super) const fn is_handled(&self) -> bool {
        self.handled
    }

    pub(super) fn details(&self) -> Option<&RequestDetails> {
        self.details.as_deref()
    }

    pub(super) fn details_mut(&mut self) -> &mut RequestDetails {
        self.details.get_or_insert_default()
    }

    /// The batch of the request.
    pub(super) fn batch(&self) -> Option<u64> {
        self.details()?.batch
    }

    /// The resource that the request subscribes to or unsubscribes from.
    pub(super) fn uri(&self) -> Option<&str> {
        self.details()?.uri.as_deref()
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

    fn get(&self, id: &RequestId) -> Option<&PendingRequest> {
        self.places.get(self.place(id)?)?.as_ref()
    }

    pub(super) fn find(&mut self, id: &RequestId) -> Option<&mut PendingRequest> {
        let place = self.place(id)?;
        self.places.get_mut(place)?.as_mut()
    }

    /// Whether a handler works on the request with this id and number.
    pub(super) fn is_handled(&self, id: &RequestId, number: u64) -> bool {
        self.get(id).is_some_and(|pending| pending.handled && pending.number == number)
    }

    /// Whether the request describes its client, as requests of the modern era do.
    pub(super) fn is_modern(&self, id: &RequestId) -> bool {
        self.get(id).and_then(PendingRequest::details).is_some_and(|details| details.client.is_some())
    }

    /// The method of the request, if a handler works on it.
    pub(super) fn method_of(&self, id: &RequestId) -> Option<&Method> {
        let pending = self.get(id)?;
        pending.handled.then_some(&pending.method)
    }

    /// The ids of all pending requests. Waiting ones come first, so that finishing the others dispatches none of them.
    pub(super) fn ids(&self) -> Vec<RequestId> {
        let waiting = self.waiting.values().map(|waiting| waiting.request.id.clone());
        waiting.chain(self.handled_ids()).collect()
    }

    fn handled_ids(&self) -> impl Iterator<Item = RequestId> {
        let integers = self.integers.iter().map(|(id, place)| (RequestId::from(*id), *place));
        let others = self.others.iter().map(|(id, place)| (id.clone(), *place));
        integers.chain(others).filter_map(|(id, place)| {
            let pending = self.places.get(place)?.as_ref()?;
            pending.handled.then_some(id)
        })
    }

    /// The oldest request that a handler works on.
    pub(super) fn oldest_handled(&self) -> Option<RequestId> {
        self.handled_ids().min_by_key(|id| self.get(id).map(|pending| pending.number))
    }

    /// The number of pending requests.
    pub(super) fn len(&self) -> usize {
        self.integers.len() + self.others.len()
    }

    /// The number of requests that handlers work on.
    pub(super) const fn handled(&self) -> usize {
        self.handled
    }

    /// The bytes of these requests.
    pub(super) const fn handled_bytes(&self) -> usize {
        self.handled_bytes
    }

    pub(super) const fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Whether no request waits for a handler.
    pub(super) fn has_none_waiting(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a request that waits for a handler.
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

    /// Adds a request that a handler starts with now.
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
        let pending = Some(PendingRequest {
            method: request.method.clone(),
            details: (details != RequestDetails::default()).then(|| Box::new(details)),
            number: self.numbers,
            size,
            handled,
        });
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place] = pending;
                place
            }
            None => {
                if self.places.capacity() == 0 {
                    // Usually one request is pending, and the default growth would be to four.
                    self.places.reserve_exact(1);
                    self.free.reserve_exact(1);
                }
                self.places.push(pending);
                self.places.len() - 1
            }
        };
        match request.id.as_i64() {
            Some(number) => self.integers.insert(number, place),
            None => self.others.insert(request.id.clone(), place),
        };
    }

    /// Takes the next waiting request for a handler.
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

    /// Removes a request that has its response or was cancelled.
    pub(super) fn remove(&mut self, id: &RequestId) -> Option<PendingRequest> {
        let place = match id.as_i64() {
            Some(number) => self.integers.remove(&number),
            None => self.others.remove(id),
        }?;
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

    /// Removes all requests and returns those that a handler works on.
    pub(super) fn take_handled(&mut self) -> Vec<RequestId> {
        let handled = self.handled_ids().collect();
        // Numbers are never reused.
        *self = Self { numbers: self.numbers, ..Self::default() };
        handled
    }

    /// Frees the memory, except for one request, while none is pending.
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
