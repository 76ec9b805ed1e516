//! Batches that are being answered: their replies are held until the last of their requests is settled.
//! 2025-03-26 alone: <https://modelcontextprotocol.io/specification/2025-03-26/basic#batching>.
//!
//! Held replies are bounded by refusing results and requests, never by reading or dispatching less. The last request of a
//! batch may need a response or a cancellation to end, and both are read behind it: a session that stopped reading
//! because of what it holds could wait for ever.
//!
//! - The joined reply is a message, so it is no longer than [`Limits::message`]. A result that does not fit becomes an
//!   error with the id of its request; room for such an error is reserved for every request that is still open.
//! - The replies of all open batches together are at most [`Limits::queued_replies`]: a result beyond becomes an error,
//!   and a batch that arrives when so much is held is refused, each request with an error. One batch alone may hold as
//!   much as a message.
//!
//! Errors that take the place of results are never refused themselves. Each belongs to a request that was counted when it
//! was admitted, so their number is bounded by [`Limits::handling`] and [`Limits::waiting`].

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::limits::Limits;
use super::shared::Shared;
use crate::{ErrorObject, Message, Request, RequestId, Response, encode};

/// What is reserved for an error in place of a result, in bytes, beside the id of its request: the longest one, which
/// names a length and a limit of 20 digits each, has 185 and a comma.
const ERROR_RESERVE_BYTES: usize = 192;
/// The brackets around a batch.
const BRACKETS_BYTES: usize = "[]".len();
/// What follows each reply but the last.
const COMMA_BYTES: usize = ",".len();

/// The batches whose replies are held.
#[derive(Debug, Default)]
pub(super) struct Batches {
    open: BTreeMap<u64, Batch>,
    /// The bytes of the replies in them.
    held: usize,
}

#[derive(Debug, Default)]
struct Batch {
    /// Requests without a reply.
    outstanding: usize,
    /// What is reserved for errors to them, in bytes.
    reserved: usize,
    replies: Vec<Message>,
    /// The bytes of the replies.
    held: usize,
    /// Every part was read.
    complete: bool,
    /// At least one reply was made by a handler.
    handled: bool,
    /// The link's number for the exchange that the batch came on.
    exchange: Option<u64>,
}

/// All replies of a batch.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) replies: Vec<Message>,
    /// The link's number for the exchange that the batch came on.
    pub(super) exchange: Option<u64>,
    /// Whether a handler has made one of them.
    pub(super) handled: bool,
}

impl Batches {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn open(&mut self, number: u64, exchange: Option<u64>) {
        self.open.insert(number, Batch { exchange, ..Batch::default() });
    }

    /// A request of the batch is admitted.
    pub(super) fn admit(&mut self, number: u64, id: &RequestId) {
        if let Some(batch) = self.open.get_mut(&number) {
            batch.outstanding += 1;
            batch.reserved += reservation(id);
        }
    }

    /// The limit, by name and value, that a reply to this request would exceed.
    fn exceeded(
        &self,
        number: u64,
        id: &RequestId,
        length: usize,
        limits: &Limits,
    ) -> Option<(&'static str, usize)> {
        let batch = self.open.get(&number)?;
        let others = batch.reserved.saturating_sub(reservation(id));
        if BRACKETS_BYTES + batch.held + length + others > limits.message {
            return Some(("message", limits.message));
        }
        let alone = self.held == batch.held;
        let too_much = !alone && self.held + length + COMMA_BYTES > limits.queued_replies;
        too_much.then_some(("queued_replies", limits.queued_replies))
    }

    /// A reply that needed no handler.
    pub(super) fn add(&mut self, number: u64, reply: Message) {
        if let Some(batch) = self.open.get_mut(&number) {
            let bytes = encode::length(&reply) + COMMA_BYTES;
            batch.held += bytes;
            self.held += bytes;
            batch.replies.push(reply);
        }
    }

    /// A request of the batch has its reply, or none because it was cancelled. All replies, if it was the last.
    pub(super) fn finish_request(
        &mut self,
        number: u64,
        id: &RequestId,
        reply: Option<Message>,
    ) -> Option<Joined> {
        let batch = self.open.get_mut(&number)?;
        batch.outstanding = batch.outstanding.saturating_sub(1);
        batch.reserved = batch.reserved.saturating_sub(reservation(id));
        if let Some(reply) = reply {
            batch.handled = true;
            self.add(number, reply);
        }
        self.finish(number)
    }

    /// Every part of the batch was read. All replies, if none is outstanding.
    pub(super) fn complete(&mut self, number: u64) -> Option<Joined> {
        self.open.get_mut(&number)?.complete = true;
        self.finish(number)
    }

    fn finish(&mut self, number: u64) -> Option<Joined> {
        let batch = self.open.get(&number)?;
        if !batch.complete || batch.outstanding > 0 {
            return None;
        }
        let Batch { replies, exchange, held, handled, .. } = self.open.remove(&number)?;
        self.held -= held;
        (!replies.is_empty()).then_some(Joined { replies, exchange, handled })
    }
}

fn reservation(id: &RequestId) -> usize {
    id.to_string().len() + ERROR_RESERVE_BYTES
}

impl Shared {
    /// Whether so many replies are held that a batch which arrives now is refused.
    pub(super) fn rejects_batches(&self) -> bool {
        let held = self.requests.batches.held;
        held > 0 && held >= self.limits.queued_replies
    }

    /// Refuses a request of a batch that is refused.
    pub(super) fn reject_in_batch(&mut self, request: Request, batch: u64) {
        let limit = self.limits.queued_replies;
        let error = ErrorObject::internal(format!(
            "too many replies wait for the rest of their batches: the limit `queued_replies` of {limit} bytes is reached"
        ));
        self.reply(request.id, Some(batch), Err(error));
    }

    /// A request of a batch has its reply, or was cancelled. A reply for which there is no room becomes an error.
    pub(super) fn finish_in_batch(&mut self, number: u64, id: &RequestId, mut reply: Option<Message>) {
        let length = reply.as_ref().map_or(0, encode::length);
        if let Some((limit, value)) = self.requests.batches.exceeded(number, id, length, &self.limits) {
            let error = ErrorObject::internal(format!(
                "the result of {length} bytes would take its batch above the limit `{limit}` of {value} bytes"
            ));
            let refused = |_| Message::Response(Response { id: Some(id.clone()), outcome: Err(error) });
            reply = reply.map(refused);
        }
        let joined = self.requests.batches.finish_request(number, id, reply);
        self.push_joined(joined);
    }

    /// Sends the replies of a batch, once all are there.
    pub(super) fn push_joined(&mut self, joined: Option<Joined>) {
        if let Some(joined) = joined {
            self.queue.push_reply_batch(joined);
        }
    }
}
