//! Batches of requests: their replies are stored until the last request of the batch has one. 2025-03-26 alone:
//! <https://modelcontextprotocol.io/specification/2025-03-26/basic#batching>.
//!
//! The stored replies are limited by rejecting results and requests, and never by pausing reads or dispatch: the last
//! request of a batch may need a response or a cancellation of the peer to finish, and both come after it in the
//! stream.
//!
//! - The joined reply is one message, so it is at most [`Limits::message`] bytes. A result that does not fit becomes an
//!   error with the id of its request. Space for such an error is reserved for every request without a reply.
//! - The replies of all open batches are at most [`Limits::queued_replies`] bytes. A result above it becomes an error,
//!   and a new batch is rejected, each request with an error. One batch alone may store as much as one message.
//!
//! Errors that replace results are always accepted. Each belongs to a request that was counted on admission, so
//! [`Limits::handling`] and [`Limits::waiting`] limit their number.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::limits::Limits;
use super::shared::Shared;
use crate::sorted_map::SortedMap;
use crate::{ErrorObject, Message, Request, RequestId, Response, encode};

/// Bytes reserved for an error that replaces a result, without the id. The longest error has 185 bytes, with a length
/// and a limit of 20 digits each, and a comma.
const ERROR_RESERVE_BYTES: usize = 192;
/// The brackets around a batch.
const BRACKETS_BYTES: usize = "[]".len();
/// The separator behind each reply but the last.
const COMMA_BYTES: usize = ",".len();

/// The open batches.
#[derive(Debug, Default)]
pub(super) struct Batches {
    open: SortedMap<u64, Batch>,
    /// The bytes of their replies.
    reply_bytes: usize,
}

#[derive(Debug, Default)]
struct Batch {
    /// The number of requests without a reply.
    outstanding: usize,
    /// The bytes reserved for errors to these requests.
    reserved: usize,
    replies: Vec<Message>,
    /// The bytes of the replies.
    reply_bytes: usize,
    /// All messages of the batch were read.
    complete: bool,
    /// A handler has made at least one reply.
    handled: bool,
    /// The link's number of the exchange on which the batch arrived.
    exchange: Option<u64>,
}

/// The replies of a complete batch.
#[derive(Debug)]
pub(super) struct JoinedReplies {
    pub(super) replies: Vec<Message>,
    /// The link's number of the exchange on which the batch arrived.
    pub(super) exchange: Option<u64>,
    /// A handler has made at least one reply.
    pub(super) handled: bool,
}

impl Batches {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn open(&mut self, number: u64, exchange: Option<u64>) {
        self.open.insert(number, Batch { exchange, ..Batch::default() });
    }

    /// Counts a request of the batch.
    pub(super) fn admit(&mut self, number: u64, id: &RequestId) {
        if let Some(batch) = self.open.get_mut(&number) {
            batch.outstanding += 1;
            batch.reserved += reservation(id);
        }
    }

    /// The name and value of the limit that this reply would exceed.
    fn exceeded(
        &self,
        number: u64,
        id: &RequestId,
        length: usize,
        limits: &Limits,
    ) -> Option<(&'static str, usize)> {
        let batch = self.open.get(&number)?;
        let others = batch.reserved.saturating_sub(reservation(id));
        if BRACKETS_BYTES + batch.reply_bytes + length + others > limits.message {
            return Some(("message", limits.message));
        }
        let alone = self.reply_bytes == batch.reply_bytes;
        let too_much = !alone && self.reply_bytes + length + COMMA_BYTES > limits.queued_replies;
        too_much.then_some(("queued_replies", limits.queued_replies))
    }

    /// Stores a reply.
    pub(super) fn add(&mut self, number: u64, reply: Message) {
        if let Some(batch) = self.open.get_mut(&number) {
            let bytes = encode::length(&reply) + COMMA_BYTES;
            batch.reply_bytes += bytes;
            self.reply_bytes += bytes;
            batch.replies.push(reply);
        }
    }

    /// A request of the batch has its reply, or was cancelled without one. Returns all replies if it was the last
    /// request.
    pub(super) fn finish_request(
        &mut self,
        number: u64,
        id: &RequestId,
        reply: Option<Message>,
    ) -> Option<JoinedReplies> {
        let batch = self.open.get_mut(&number)?;
        batch.outstanding = batch.outstanding.saturating_sub(1);
        batch.reserved = batch.reserved.saturating_sub(reservation(id));
        if let Some(reply) = reply {
            batch.handled = true;
            self.add(number, reply);
        }
        self.finish(number)
    }

    /// All messages of the batch were read. Returns all replies if every request has one.
    pub(super) fn complete(&mut self, number: u64) -> Option<JoinedReplies> {
        self.open.get_mut(&number)?.complete = true;
        self.finish(number)
    }

    fn finish(&mut self, number: u64) -> Option<JoinedReplies> {
        let batch = self.open.get(&number)?;
        if !batch.complete || batch.outstanding > 0 {
            return None;
        }
        let Batch { replies, exchange, reply_bytes, handled, .. } = self.open.remove(&number)?;
        self.reply_bytes -= reply_bytes;
        (!replies.is_empty()).then_some(JoinedReplies { replies, exchange, handled })
    }
}

fn reservation(id: &RequestId) -> usize {
    id.to_string().len() + ERROR_RESERVE_BYTES
}

impl Shared {
    /// Whether the stored replies have reached the limit, so that a new batch is rejected.
    pub(super) fn rejects_batches(&self) -> bool {
        let reply_bytes = self.requests.batches.reply_bytes;
        reply_bytes > 0 && reply_bytes >= self.limits.queued_replies
    }

    /// Rejects a request of such a batch.
    pub(super) fn reject_in_batch(&mut self, request: Request, batch: u64) {
        let limit = self.limits.queued_replies;
        let error = ErrorObject::internal(format!(
            "too many replies wait for the rest of their batches: the limit `queued_replies` of {limit} bytes is reached"
        ));
        self.reply(request.id, Some(batch), Err(error));
    }

    /// Stores the reply of a request, or `None` for a cancelled request. A reply above a limit becomes an error.
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

    /// Queues the replies of a complete batch.
    pub(super) fn push_joined(&mut self, joined: Option<JoinedReplies>) {
        if let Some(joined) = joined {
            self.queue.push_reply_batch(joined);
        }
    }
}
