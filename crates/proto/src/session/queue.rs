//! What waits to be taken by the link.
//!
//! Two lanes. Replies, and the notifications that belong to a request, go first: two peers that both answer
//! before they ask can never block each other (`tests/session_debt.rs` shows it over pipes of 4 KiB). Within
//! a lane, order is never changed, because in MCP order has meaning: progress before the result, the
//! acknowledgement of a subscription before its first event.

use alloc::collections::{BTreeMap, VecDeque};
use core::cmp::Ordering;

use super::batch::Joined;
use super::link::{Outbound, Route};
use crate::{Message, Method, Notification, Request, RequestId};

/// What a message costs beside its payload: a generous bound on the text around it.
const MESSAGE_OVERHEAD_BYTES: usize = 96;

#[derive(Debug, Default)]
pub(super) struct Queue {
    replies: Lane,
    own: Lane,
    /// The changes that wait to be told, each with its place.
    changes: BTreeMap<Change, Place>,
}

/// What a notification says that something has changed: the same twice is said once. Its parameters have the resource
/// that it is about, and the stream that it is told on.
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

/// Whether a notification only says that something has changed.
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

/// A first-in first-out line that knows the place of each of its items.
#[derive(Debug, Default)]
struct Lane {
    items: VecDeque<Item>,
    /// What the items take on the wire, as [`size`] bounds it.
    bytes: usize,
    /// The same of the replies that no handler has made.
    immediate: usize,
    /// The place of the first item, counted from the beginning of the session.
    first: u64,
}

#[derive(Debug)]
struct Item {
    outbound: Outbound,
    /// A reply that no handler has made.
    immediate: bool,
}

/// Where something was put, to find it again while it still waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u64);

impl Lane {
    fn push(&mut self, outbound: Outbound, immediate: bool) -> Place {
        let bytes = size(&outbound);
        self.bytes += bytes;
        if immediate {
            self.immediate += bytes;
        }
        if self.items.capacity() == 0 {
            // Mostly there is never more than one, and the first growth by itself would be to four.
            self.items.reserve_exact(1);
        }
        self.items.push_back(Item { outbound, immediate });
        Place(self.first + self.items.len() as u64 - 1)
    }

    fn pop(&mut self) -> Option<Outbound> {
        let Item { outbound, immediate } = self.items.pop_front()?;
        let bytes = size(&outbound);
        self.bytes -= bytes;
        if immediate {
            self.immediate -= bytes;
        }
        self.first += 1;
        Some(outbound)
    }

    /// What still waits in that place.
    fn waiting(&mut self, place: Place) -> Option<&mut Outbound> {
        let index = usize::try_from(place.0.checked_sub(self.first)?).ok()?;
        self.items.get_mut(index).map(|item| &mut item.outbound)
    }
}

impl Queue {
    pub(super) const fn reply_bytes(&self) -> usize {
        self.replies.bytes
    }

    /// The part of them that no handler has made.
    pub(super) const fn immediate_bytes(&self) -> usize {
        self.replies.immediate
    }

    pub(super) const fn own_bytes(&self) -> usize {
        self.own.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.replies.items.is_empty() && self.own.items.is_empty()
    }

    /// Replies go first, and what belongs to a request goes with them.
    pub(super) fn push_reply(&mut self, message: Message, route: Route) -> Place {
        self.replies.push(Outbound::Message { message, route }, false)
    }

    /// A reply that no handler has made.
    pub(super) fn push_immediate_reply(&mut self, message: Message, route: Route) {
        self.replies.push(Outbound::Message { message, route }, true);
    }

    /// The replies to a batch.
    pub(super) fn push_reply_batch(&mut self, joined: Joined) {
        let Joined { replies: messages, exchange, handled } = joined;
        self.replies.push(Outbound::Batch { messages, exchange }, !handled);
    }

    pub(super) fn push_own(&mut self, message: Message, route: Route) {
        self.own.push(Outbound::Message { message, route }, false);
    }

    /// Whether a notification that says the same waits already.
    pub(super) fn has_change(&self, notification: &Notification) -> bool {
        self.changes.contains_key(&Change(notification.clone()))
    }

    /// A notification that says that something has changed.
    pub(super) fn push_change(&mut self, notification: Notification, route: Route) {
        let message = Message::Notification(notification.clone());
        let place = self.own.push(Outbound::Message { message, route }, false);
        self.changes.insert(Change(notification), place);
    }

    pub(super) fn push_abort(&mut self, id: RequestId) {
        self.own.push(Outbound::Abort { id }, false);
    }

    /// Progress: takes the place of older progress that nobody has taken yet, else it goes behind everything.
    pub(super) fn push_progress(&mut self, older: Option<Place>, message: Message, route: Route) -> Place {
        let newer = Outbound::Message { message, route };
        let Some((place, waiting)) = older.and_then(|place| Some((place, self.replies.waiting(place)?)))
        else {
            return self.replies.push(newer, false);
        };
        let (old, new) = (size(waiting), size(&newer));
        *waiting = newer;
        self.replies.bytes = self.replies.bytes - old + new;
        place
    }

    /// To close the stream of a request, behind what is to be sent on it. Said once, however often it is wanted.
    pub(super) fn push_close_stream(&mut self, older: Option<Place>, id: RequestId) -> Place {
        let waits = older.filter(|place| self.replies.waiting(*place).is_some());
        waits.unwrap_or_else(|| self.replies.push(Outbound::CloseStream { id }, false))
    }

    pub(super) fn pop(&mut self) -> Option<Outbound> {
        if !self.replies.items.is_empty() {
            return self.replies.pop();
        }
        let place = Place(self.own.first);
        let outbound = self.own.pop()?;
        if let Outbound::Message { message: Message::Notification(told), .. } = &outbound
            && is_change(&told.method)
        {
            let change = Change(told.clone());
            // One that was held back for a client that was not ready yet is not noted.
            if self.changes.get(&change) == Some(&place) {
                self.changes.remove(&change);
            }
        }
        Some(outbound)
    }

    /// Gives back the room that nothing waits in, but for one.
    pub(super) fn shrink(&mut self) {
        for lane in [&mut self.replies, &mut self.own] {
            if lane.items.is_empty() && lane.items.capacity() > 1 {
                lane.items = VecDeque::new();
            }
        }
    }

    /// Forgets everything: nobody can take it any more.
    pub(super) fn clear(&mut self) {
        while self.pop().is_some() {}
    }
}

/// A bound on the bytes that this takes on the wire.
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

/// What a request holds. Its sender chooses the lengths of its id and of an unknown method, too.
pub(super) fn request_size(request: &Request) -> usize {
    let params = request.params.as_ref().map_or(0, |params| params.raw().len());
    params + bare_size(&request.id, &request.method)
}

/// The same of a request without parameters.
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
    fn a_change_that_was_told_is_told_again() {
        let mut queue = Queue::default();
        // As what is told to a client that has just become ready.
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
