//! The queue of messages that wait for the link.
//!
//! It has two lanes. Replies, and notifications that belong to a request, are sent first, so that two peers that both
//! reply before they request can never deadlock (`tests/session_debt.rs` shows it over pipes of 4 KiB). The order
//! within a lane never changes, because it has meaning in MCP: progress precedes the result, and the acknowledgement of
//! a subscription precedes its first event.

use alloc::collections::VecDeque;
use core::cmp::Ordering;

use super::batch::JoinedReplies;
use super::transport::{Outbound, Route};
use crate::sorted_map::SortedMap;
use crate::{Message, Method, Notification, Request, RequestId};

/// An upper bound of the bytes of a message beside its payload.
const MESSAGE_OVERHEAD_BYTES: usize = 96;

#[derive(Debug, Default)]
pub(super) struct Queue {
    replies: Lane,
    own: Lane,
    /// The positions of the queued change notifications.
    changes: SortedMap<Change, Position>,
}

/// A change notification (`list_changed`, `resources/updated`), compared by its method and params. Equal ones are
/// queued once.
#[derive(Debug)]
struct Change(Notification);

impl Change {
    fn text(&self) -> (&str, Option<&str>) {
        let Self(Notification { method, params }) = self;
        (method.as_str(), params.as_ref().map(|params| params.raw().as_str()))
    }
}

impl Ord for Change {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        crate::raw::COMPARISONS.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        self.text().cmp(&other.text())
    }
}

impl PartialEq for Change {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Change {}

impl PartialOrd for Change {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Whether a notification only reports a change.
pub(super) const fn is_change(method: &Method) -> bool {
    matches!(
        method,
        Method::ToolListChanged
            | Method::PromptListChanged
            | Method::ResourceListChanged
            | Method::ResourceUpdated
            | Method::RootsListChanged
    )
}

/// A first-in, first-out queue in which an item can be found by its position.
#[derive(Debug, Default)]
struct Lane {
    items: VecDeque<Item>,
    /// The encoded size of the items, as bounded by [`size`].
    bytes: usize,
    /// The part of replies that were made without a handler.
    immediate: usize,
    /// The position of the first item, counted from the start of the session.
    first: u64,
}

#[derive(Debug)]
struct Item {
    outbound: Outbound,
    /// A reply that was made without a handler.
    immediate: bool,
}

/// The position of an item. It stays valid while the item is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position(u64);

impl Lane {
    fn push(&mut self, outbound: Outbound, immediate: bool) -> Position {
        let bytes = size(&outbound);
        self.bytes += bytes;
        if immediate {
            self.immediate += bytes;
        }
        if self.items.capacity() == 0 {
            // Usually one item is queued, and the default growth would be to four.
            self.items.reserve_exact(1);
        }
        self.items.push_back(Item { outbound, immediate });
        Position(self.first + self.items.len() as u64 - 1)
    }

    fn pop(&mut self) -> Option<Outbound> {
        // Counted where it lies, because it is large to move.
        let Item { outbound, immediate } = self.items.front()?;
        let bytes = size(outbound);
        self.bytes -= bytes;
        if *immediate {
            self.immediate -= bytes;
        }
        self.first += 1;
        self.items.pop_front().map(|item| item.outbound)
    }

    /// The item at this position, if it is still queued.
    fn waiting(&mut self, position: Position) -> Option<&mut Outbound> {
        let index = usize::try_from(position.0.checked_sub(self.first)?).ok()?;
        self.items.get_mut(index).map(|item| &mut item.outbound)
    }
}

impl Queue {
    pub(super) const fn reply_bytes(&self) -> usize {
        self.replies.bytes
    }

    /// The part of replies that were made without a handler.
    pub(super) const fn immediate_bytes(&self) -> usize {
        self.replies.immediate
    }

    pub(super) const fn own_bytes(&self) -> usize {
        self.own.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.replies.items.is_empty() && self.own.items.is_empty()
    }

    /// Queues a reply of a handler, or a notification that belongs to a request.
    pub(super) fn push_reply(&mut self, message: Message, route: Route) -> Position {
        self.replies.push(Outbound::Message { message, route }, false)
    }

    /// Queues a reply that was made without a handler.
    pub(super) fn push_immediate_reply(&mut self, message: Message, route: Route) {
        self.replies.push(Outbound::Message { message, route }, true);
    }

    /// Queues the replies of a batch.
    pub(super) fn push_reply_batch(&mut self, joined: JoinedReplies) {
        let JoinedReplies { replies: messages, exchange, handled } = joined;
        self.replies.push(Outbound::Batch { messages, exchange }, !handled);
    }

    pub(super) fn push_own(&mut self, message: Message, route: Route) {
        self.own.push(Outbound::Message { message, route }, false);
    }

    /// Whether an equal change notification is queued.
    pub(super) fn has_change(&self, notification: &Notification) -> bool {
        self.changes.contains(&Change(notification.clone()))
    }

    /// Queues a change notification.
    pub(super) fn push_change(&mut self, notification: Notification, route: Route) {
        let message = Message::Notification(notification.clone());
        let position = self.own.push(Outbound::Message { message, route }, false);
        self.changes.insert(Change(notification), position);
    }

    pub(super) fn push_abort(&mut self, id: RequestId) {
        self.own.push(Outbound::Abort { id }, false);
    }

    /// Queues progress, or replaces the older progress of the same request if it is still queued.
    pub(super) fn push_progress(
        &mut self,
        older: Option<Position>,
        message: Message,
        route: Route,
    ) -> Position {
        let newer = Outbound::Message { message, route };
        let Some((position, waiting)) =
            older.and_then(|position| Some((position, self.replies.waiting(position)?)))
        else {
            return self.replies.push(newer, false);
        };
        let (old, new) = (size(waiting), size(&newer));
        *waiting = newer;
        self.replies.bytes = self.replies.bytes - old + new;
        position
    }

    /// Queues the closing of a request's stream behind the messages for it, once.
    pub(super) fn push_close_stream(&mut self, older: Option<Position>, id: RequestId) -> Position {
        let waits = older.filter(|position| self.replies.waiting(*position).is_some());
        waits.unwrap_or_else(|| self.replies.push(Outbound::CloseStream { id }, false))
    }

    pub(super) fn pop(&mut self) -> Option<Outbound> {
        if !self.replies.items.is_empty() {
            return self.replies.pop();
        }
        if let Some(Item { outbound: Outbound::Message { message, .. }, .. }) = self.own.items.front()
            && let Message::Notification(notification) = message
            && is_change(&notification.method)
        {
            let change = Change(notification.clone());
            // A notification that waited for the client to become ready has no entry.
            if self.changes.get(&change) == Some(&Position(self.own.first)) {
                self.changes.remove(&change);
            }
        }
        self.own.pop()
    }

    /// Frees the memory of empty lanes, except for one item.
    pub(super) fn shrink(&mut self) {
        for lane in [&mut self.replies, &mut self.own] {
            if lane.items.is_empty() && lane.items.capacity() > 1 {
                lane.items = VecDeque::new();
            }
        }
    }

    /// Removes everything when the link has ended.
    pub(super) fn clear(&mut self) {
        while self.pop().is_some() {}
    }
}

/// An upper bound of the encoded size.
fn size(outbound: &Outbound) -> usize {
    match outbound {
        Outbound::Message { message, .. } => message_size(message),
        Outbound::Batch { messages, .. } => messages.iter().map(message_size).sum(),
        Outbound::Abort { .. } => MESSAGE_OVERHEAD_BYTES,
        Outbound::CloseStream { id } => id.held() + MESSAGE_OVERHEAD_BYTES,
    }
}

pub(super) fn message_size(message: &Message) -> usize {
    let id = match message {
        Message::Request(request) => request.id.held(),
        Message::Notification(_) => 0,
        Message::Response(response) => response.id.as_ref().map_or(0, RequestId::held),
    };
    id + message.payload_len() + MESSAGE_OVERHEAD_BYTES
}

/// The memory of a request. Its sender also chooses the lengths of its id and of an unknown method.
pub(super) fn request_size(request: &Request) -> usize {
    let params = request.params.as_ref().map_or(0, |params| params.raw().len());
    params + bare_size(&request.id, &request.method)
}

/// The same for a request without params.
pub(super) fn bare_size(id: &RequestId, method: &Method) -> usize {
    id.held() + method.held() + MESSAGE_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use core::sync::atomic::Ordering;

    use super::*;
    use crate::raw::COMPARISONS;
    use crate::{Payload, Raw};

    fn updated(number: usize) -> Notification {
        let params = format!(r#"{{"uri":"file:///{number}"}}"#);
        let params = Some(Payload::from_raw(Raw::parse(params).expect("valid")));
        Notification { method: Method::ResourceUpdated, params }
    }

    #[test]
    fn five_thousand_changes_are_compared_a_few_times_each() {
        const CHANGES: usize = 5_000;
        let mut queue = Queue::default();
        let before = COMPARISONS.load(Ordering::Relaxed);
        for round in 0..2 {
            for number in 0..CHANGES {
                let change = updated(number);
                assert_eq!(queue.has_change(&change), round == 1);
                if round == 0 {
                    queue.push_change(change, Route::Session);
                }
            }
        }
        for _ in 0..CHANGES {
            assert!(queue.pop().is_some());
        }
        assert!(queue.is_empty() && queue.changes.is_empty());
        let comparisons = COMPARISONS.load(Ordering::Relaxed) - before;
        // A search among them compares with at most 11 in each of 7 nodes, and each is searched for five times.
        assert!(comparisons <= CHANGES * 5 * 77, "{comparisons} comparisons");
    }

    #[test]
    fn a_change_that_was_sent_is_queued_again() {
        let mut queue = Queue::default();
        // As for a client that has just become ready.
        queue.push_own(Message::Notification(updated(1)), Route::Session);
        queue.push_change(updated(1), Route::Session);
        queue.push_change(updated(2), Route::Session);
        assert!(queue.pop().is_some());
        assert!(queue.has_change(&updated(1)) && queue.has_change(&updated(2)));
        assert!(queue.pop().is_some());
        assert!(!queue.has_change(&updated(1)) && queue.has_change(&updated(2)));
        queue.clear();
        assert!(!queue.has_change(&updated(2)));
    }
}
