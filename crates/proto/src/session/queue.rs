//! What waits to be taken by the link.
//!
//! Two lanes. Replies, and the notifications that belong to a request, go first: two peers that both answer
//! before they ask can never block each other (`tests/session_debt.rs` shows it over pipes of 4 KiB). Within
//! a lane, order is never changed, because in MCP order has meaning: progress before the result, the
//! acknowledgement of a subscription before its first event.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::link::{Outbound, Route};
use crate::{Message, Method, Notification, Request, RequestId};

/// What a message costs beside its payload: a generous bound on the text around it.
const ENVELOPE: usize = 96;

#[derive(Debug, Default)]
pub(super) struct Queue {
    replies: Lane,
    own: Lane,
    /// The changes that wait to be told, each with its place.
    changes: Vec<(Notification, Place)>,
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

    /// The replies to a batch; `handled`: a handler has made one of them.
    pub(super) fn push_reply_batch(&mut self, messages: Vec<Message>, handled: bool) {
        self.replies.push(Outbound::Batch { messages, route: Route::Session }, !handled);
    }

    pub(super) fn push_own(&mut self, message: Message, route: Route) {
        self.own.push(Outbound::Message { message, route }, false);
    }

    /// Whether a notification that says the same waits already.
    pub(super) fn has_change(&mut self, notification: &Notification) -> bool {
        let first = self.own.first;
        self.changes.retain(|(_, place)| place.0 >= first);
        self.changes.iter().any(|(waiting, _)| waiting == notification)
    }

    /// A notification that says that something has changed.
    pub(super) fn push_change(&mut self, notification: Notification, route: Route) {
        let message = Message::Notification(notification.clone());
        let place = self.own.push(Outbound::Message { message, route }, false);
        self.changes.push((notification, place));
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
        if self.replies.items.is_empty() { self.own.pop() } else { self.replies.pop() }
    }

    /// Gives back the room that nothing waits in, but for one.
    pub(super) fn shrink(&mut self) {
        for lane in [&mut self.replies, &mut self.own] {
            if lane.items.is_empty() && lane.items.capacity() > 1 {
                lane.items = VecDeque::new();
            }
        }
        if self.own.items.is_empty() {
            self.changes = Vec::new();
        }
    }

    /// Forgets everything: nobody can take it any more.
    pub(super) fn clear(&mut self) {
        while self.pop().is_some() {}
        self.changes.clear();
    }
}

/// A bound on the bytes that this takes on the wire.
fn size(outbound: &Outbound) -> usize {
    match outbound {
        Outbound::Message { message, .. } => message_size(message),
        Outbound::Batch { messages, .. } => messages.iter().map(message_size).sum(),
        Outbound::Abort { .. } => ENVELOPE,
        Outbound::CloseStream { id } => id.held() + ENVELOPE,
    }
}

pub(super) fn message_size(message: &Message) -> usize {
    let name = match message {
        Message::Request(request) => return request_size(request),
        Message::Notification(notification) => method_size(&notification.method),
        Message::Response(response) => response.id.as_ref().map_or(0, RequestId::held),
    };
    name + message.payload_len() + ENVELOPE
}

/// What a request holds. Its sender chooses the lengths of its id and of an unknown method, too.
pub(super) fn request_size(request: &Request) -> usize {
    let params = request.params.as_ref().map_or(0, |params| params.raw().len());
    params + bare_size(&request.id, &request.method)
}

/// The same of a request without parameters.
pub(super) fn bare_size(id: &RequestId, method: &Method) -> usize {
    id.held() + method_size(method) + ENVELOPE
}

/// The known names are part of the envelope.
fn method_size(method: &Method) -> usize {
    match method {
        Method::Other(name) => name.len(),
        _ => 0,
    }
}
