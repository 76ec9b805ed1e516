//! Cancelling a request at another process than the one that has sent it on.
//!
//! Several processes serve one legacy session, and `notifications/cancelled` may come to any of them. It names the request by the
//! id that the client has chosen. So the id at the target is made of that one, the same in every process, and a process that does
//! not handle the request tells the target itself. The session with the target belongs to this client alone, so no id leads to a
//! request of another one. Lists have ids of the gateway's own, because it may read several for one request of the client; they end
//! soon. A modern target has no such notification: its calls are cancelled by the process that has sent them.
//!
//! Used by `pair`, whose link to the target has [`TargetLayer`], and by `legacy` and `joined::legacy`, whose links to the client have
//! [`ClientLayer`].
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation>

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::task::{Context, Poll};

use mcpjoin::internal::TransportLayer;
use mcpjoin::transport::{Link, Transport};
use mcpjoin_proto::decode::{DecodeError, Shape};
use mcpjoin_proto::session::{Inbound, Outbound, Route};
use mcpjoin_proto::types::{CancelledParams, ProtocolType};
use mcpjoin_proto::{Message, Method, Notification, Raw, RequestId, Response};
use sha2::{Digest as _, Sha256};

/// The first id that is made of one of a client. A link counts its own from 1, or from a random number below 2^30 + 2^20, so it does
/// not reach this one.
const FIRST: i64 = 3 << 29;
/// Integers of clients below it keep their distance from each other. All other ids are digests of 28 bits. All are below 2^31,
/// because some servers read ids as such numbers.
const NUMBERS: i64 = 1 << 28;

/// Tells the targets what a client has cancelled.
pub(super) trait Cancels: Send + Sync {
    /// The client has sent this notification, and this process does not handle the request.
    fn cancel(&self, cancelled: &Notification);
}

/// The id at the target of a request with this id at the client.
fn shared_id(id: &RequestId) -> RequestId {
    let number = id.as_i64().filter(|number| (0..NUMBERS).contains(number));
    let number = number.unwrap_or_else(|| {
        let [a, b, c, d, ..]: [u8; 32] = Sha256::digest(id.to_string()).into();
        NUMBERS + i64::from(u32::from_be_bytes([a, b, c, d])) % NUMBERS
    });
    RequestId::from(FIRST + number)
}

/// Whether exactly one request of this method is sent to a target for one of a client.
pub(super) const fn is_sent_once(method: &Method) -> bool {
    !matches!(
        method,
        Method::ListTools
            | Method::ListPrompts
            | Method::ListResources
            | Method::ListResourceTemplates
            | Method::ListTasks
    )
}

/// Returns the notification of a client as a target understands it.
pub(super) fn for_target(cancelled: &Notification) -> Option<Notification> {
    let params = cancelled.params.as_ref()?;
    let id = Raw::from_value(&shared_id(&cancelled_by(cancelled)?)).ok()?;
    Some(Notification { method: Method::Cancelled, params: Some(params.with_member("requestId", &id)) })
}

/// The request that a notification cancels.
fn cancelled_by(notification: &Notification) -> Option<RequestId> {
    let params = notification.params.as_ref().filter(|_| notification.method == Method::Cancelled)?;
    CancelledParams::read(params.raw()).ok()?.request_id
}

/// A link to a target whose session several processes share. A request with the route of a client's request gets the id that is made of
/// that one.
pub(super) struct TargetLayer {
    io: Box<dyn Transport>,
    /// The ids that the session uses, by those at the target: at most as many as it has requests pending.
    open: HashMap<RequestId, RequestId>,
}

impl TargetLayer {
    pub(super) fn of(link: Link) -> Link {
        Link::new(Self { io: link.into_transport(), open: HashMap::new() })
    }

    /// Gives a request of ours its id at the target, unless another one that has not ended has the same.
    fn request(&mut self, id: &mut RequestId, route: &mut Route) {
        let Route::ReplyTo(client) = std::mem::replace(route, Route::Session) else { return };
        let shared = shared_id(&client);
        if !self.open.contains_key(&shared) {
            self.open.insert(shared.clone(), std::mem::replace(id, shared));
        }
    }

    fn cancelled(&mut self, notification: &mut Notification) {
        let own = cancelled_by(notification).filter(|_| !self.open.is_empty());
        let shared = self.open.iter().find(|(_, open)| own.as_ref() == Some(open)).map(|(id, _)| id.clone());
        let (Some(shared), Some(params)) = (shared, &notification.params) else { return };
        if let Ok(id) = Raw::from_value(&shared) {
            notification.params = Some(params.with_member("requestId", &id));
        }
        self.open.remove(&shared);
    }

    /// Gives a message about a request of ours the id that the session uses. Returns false if the request was cancelled.
    fn is_open(&mut self, id: &mut RequestId) -> bool {
        if id.as_i64().is_none_or(|number| number < FIRST) {
            return true;
        }
        let Some(own) = self.open.remove(id) else { return false };
        *id = own;
        true
    }

    fn is_response_to_open(&mut self, response: &mut Response) -> bool {
        response.id.as_mut().is_none_or(|id| self.is_open(id))
    }

    /// The id of a request is the target's own.
    fn is_malformed_of_open(&mut self, error: &mut DecodeError) -> bool {
        let id = error.id.as_mut().filter(|_| error.shape != Shape::Request);
        id.is_none_or(|id| self.is_open(id))
    }
}

impl TransportLayer for TargetLayer {
    fn io(&self) -> &dyn Transport {
        &*self.io
    }

    fn io_mut(&mut self) -> &mut dyn Transport {
        &mut *self.io
    }

    fn push(&mut self, mut outbound: Outbound) {
        if let Outbound::Message { message, route } = &mut outbound {
            match message {
                Message::Request(request) => self.request(&mut request.id, route),
                Message::Notification(notification) => self.cancelled(notification),
                Message::Response(_) => {}
            }
        }
        self.io.push(outbound);
    }

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        loop {
            let Poll::Ready(mut inbound) = self.io.poll_inbound(cx) else { return Poll::Pending };
            let is_open = match &mut inbound {
                Inbound::Message { message: Message::Response(response), .. } => {
                    self.is_response_to_open(response)
                }
                Inbound::Batch { parts, .. } => {
                    parts.retain_mut(|part| match part {
                        Ok(Message::Response(response)) => self.is_response_to_open(response),
                        Ok(_) => true,
                        Err(error) => self.is_malformed_of_open(error),
                    });
                    true
                }
                Inbound::Malformed { error, .. } => self.is_malformed_of_open(error),
                Inbound::Lost { id, .. } => self.is_open(id),
                _ => true,
            };
            if is_open {
                return Poll::Ready(inbound);
            }
        }
    }
}

/// A link to a client whose session several processes serve.
pub(super) struct ClientLayer {
    io: Box<dyn Transport>,
    targets: Arc<dyn Cancels>,
    /// The requests that this process handles: at most as many as the session has pending.
    handled: HashSet<RequestId>,
}

impl ClientLayer {
    pub(super) fn of(link: Link, targets: Arc<dyn Cancels>) -> Link {
        Link::new(Self { io: link.into_transport(), targets, handled: HashSet::new() })
    }

    fn received(&mut self, message: &Message) {
        match message {
            Message::Request(request) => {
                self.handled.insert(request.id.clone());
            }
            Message::Notification(notification) => {
                if let Some(id) = cancelled_by(notification)
                    && !self.handled.remove(&id)
                {
                    self.targets.cancel(notification);
                }
            }
            Message::Response(_) => {}
        }
    }

    fn sent(&mut self, message: &Message) {
        if let Message::Response(Response { id: Some(id), .. }) = message {
            self.handled.remove(id);
        }
    }
}

impl TransportLayer for ClientLayer {
    fn io(&self) -> &dyn Transport {
        &*self.io
    }

    fn io_mut(&mut self) -> &mut dyn Transport {
        &mut *self.io
    }

    fn push(&mut self, outbound: Outbound) {
        match &outbound {
            Outbound::Message { message, .. } => self.sent(message),
            Outbound::Batch { messages, .. } => messages.iter().for_each(|message| self.sent(message)),
            _ => {}
        }
        self.io.push(outbound);
    }

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        let inbound = self.io.poll_inbound(cx);
        match &inbound {
            Poll::Ready(Inbound::Message { message, .. }) => self.received(message),
            Poll::Ready(Inbound::Batch { parts, .. }) => {
                parts.iter().flatten().for_each(|part| self.received(part));
            }
            _ => {}
        }
        inbound
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::task::Waker;

    use bytes::Bytes;
    use mcpjoin_proto::decode::{DecodeLimits, decode};
    use mcpjoin_proto::session::{Limits, Origin, TransportCaps, TransportEnd, TransportError};
    use mcpjoin_proto::{ErrorObject, Payload, Request};
    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn an_id_is_the_same_in_every_process_and_none_of_those_that_a_link_counts() {
        let [zero, one, last, beyond, minus] = [0, 1, NUMBERS - 1, NUMBERS, -1].map(RequestId::from);
        let number = |id: &RequestId| shared_id(id).as_i64().expect("a number");
        assert_eq!((number(&zero), number(&one), number(&last)), (FIRST, FIRST + 1, FIRST + NUMBERS - 1));
        // Written down, because processes of two versions may serve one session.
        assert_eq!(number(&RequestId::from("1")), 2_031_440_576);
        let mut others: Vec<i64> =
            [beyond, minus, "".into(), "1".into(), "a".into()].iter().map(number).collect();
        others.push(number(&RequestId::from(&*"a".repeat(4_000))));
        others.sort_unstable();
        others.dedup();
        assert_eq!(others.len(), 6);
        assert!(others.iter().all(|id| (FIRST + NUMBERS..1 << 31).contains(id)), "{others:?}");
        // Those of a link begin below 2^30 + 2^20.
        const { assert!(FIRST > (1 << 30) + (1 << 20) + 500_000_000) };
    }

    /// The other end of a layer.
    #[derive(Default)]
    struct Wire {
        sent: Vec<Outbound>,
        received: VecDeque<Inbound>,
    }

    struct Io(Arc<Mutex<Wire>>);

    impl Transport for Io {
        fn caps(&self) -> TransportCaps {
            TransportCaps::default()
        }

        fn poll_inbound(&mut self, _: &mut Context<'_>) -> Poll<Inbound> {
            self.0.lock().received.pop_front().map_or(Poll::Pending, Poll::Ready)
        }

        fn has_room(&self) -> bool {
            true
        }

        fn push(&mut self, outbound: Outbound) {
            self.0.lock().sent.push(outbound);
        }

        fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportEnd>> {
            Poll::Ready(Ok(()))
        }

        fn configure(&mut self, _: &Limits) {}

        fn sent(&self) -> u64 {
            0
        }

        fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<TransportEnd> {
            Poll::Ready(TransportEnd::end_of_stream())
        }
    }

    fn request(id: impl Into<RequestId>) -> Message {
        Message::Request(Request { id: id.into(), method: Method::CallTool, params: None })
    }

    fn response(id: impl Into<RequestId>) -> Message {
        Message::Response(Response { id: Some(id.into()), outcome: Err(ErrorObject::internal("x")) })
    }

    fn cancelled(id: &str) -> Message {
        let params = Raw::parse(format!("{{\"requestId\":{id},\"reason\":\"r\"}}")).expect("JSON");
        let params = Some(Payload::from_raw(params));
        Message::Notification(Notification { method: Method::Cancelled, params })
    }

    fn inbound(message: Message) -> Inbound {
        Inbound::Message { message, origin: Arc::new(Origin::new("test")) }
    }

    fn next(layer: &mut impl TransportLayer) -> Option<Inbound> {
        match layer.poll_inbound(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(inbound) => Some(inbound),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_request_has_its_id_at_the_target_until_it_ends_and_a_cancelled_one_has_no_response() {
        let wire = Arc::new(Mutex::new(Wire::default()));
        let mut layer = TargetLayer { io: Box::new(Io(wire.clone())), open: HashMap::new() };
        let sends = |layer: &mut TargetLayer, message: Message, client: Option<i64>| {
            let route = client.map_or(Route::Session, |id| Route::ReplyTo(id.into()));
            TransportLayer::push(layer, Outbound::Message { message, route });
            match wire.lock().sent.pop() {
                Some(Outbound::Message { message, route: Route::Session }) => message,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(sends(&mut layer, request(1), Some(7)), request(FIRST + 7));
        assert_eq!(sends(&mut layer, request(2), None), request(2));
        // The client has used the id twice.
        assert_eq!(sends(&mut layer, request(3), Some(7)), request(3));
        assert_eq!(sends(&mut layer, request(4), Some(8)), request(FIRST + 8));
        assert_eq!(sends(&mut layer, cancelled("3"), None), cancelled("3"));
        assert_eq!(sends(&mut layer, cancelled("4"), None), cancelled(&(FIRST + 8).to_string()));
        // That of a request of another process is sent as it is.
        let other = cancelled(&(FIRST + 9).to_string());
        assert_eq!(sends(&mut layer, other.clone(), None), other);
        let cause = TransportError::new("lost", false);
        let handle = |layer: &mut TargetLayer, message: Inbound| {
            wire.lock().received.push_back(message);
            match next(layer) {
                Some(Inbound::Message { message: Message::Response(response), .. }) => response.id,
                Some(Inbound::Lost { id, .. }) => Some(id),
                Some(other) => panic!("{other:?}"),
                None => None,
            }
        };
        assert_eq!(handle(&mut layer, inbound(response(FIRST + 8))), None);
        assert_eq!(handle(&mut layer, inbound(response(2))), Some(2.into()));
        assert_eq!(handle(&mut layer, inbound(response(FIRST + 7))), Some(1.into()));
        assert_eq!(handle(&mut layer, inbound(response(FIRST + 7))), None, "once");
        assert_eq!(sends(&mut layer, request(5), Some(7)), request(FIRST + 7));
        let lost = Inbound::Lost { id: (FIRST + 7).into(), cause };
        assert_eq!(handle(&mut layer, lost), Some(5.into()));
        assert!(layer.open.is_empty());
    }

    #[test]
    fn a_response_that_cannot_be_read_is_that_of_its_request_and_a_request_of_the_target_is_not() {
        let wire = Arc::new(Mutex::new(Wire::default()));
        let mut layer = TargetLayer { io: Box::new(Io(wire.clone())), open: HashMap::new() };
        let sends = |layer: &mut TargetLayer, own: i64, client: i64| {
            let route = Route::ReplyTo(client.into());
            TransportLayer::push(layer, Outbound::Message { message: request(own), route });
        };
        let malformed = |id: i64, rest: &str| {
            let text = format!("{{\"jsonrpc\":\"1.0\",\"id\":{id},{rest}}}");
            decode(&Bytes::from(text), &DecodeLimits::default()).expect_err("another version of JSON-RPC")
        };
        let (asks, answers) = ("\"method\":\"ping\"", "\"result\":{}");
        let ids = |layer: &mut TargetLayer, parts: Vec<DecodeError>| -> Vec<Option<RequestId>> {
            let origin = Arc::new(Origin::new("test"));
            let parts = parts.into_iter().map(Err).collect();
            wire.lock().received.push_back(Inbound::Batch { parts, exchange: None, origin });
            match next(layer) {
                Some(Inbound::Batch { parts, .. }) => {
                    parts.into_iter().map(|part| part.expect_err("malformed").id).collect()
                }
                other => panic!("{other:?}"),
            }
        };
        sends(&mut layer, 1, 7);
        sends(&mut layer, 2, 8);
        // The target may use any id for its own requests.
        let request = malformed(FIRST + 7, asks);
        let parts = vec![
            request.clone(),
            malformed(FIRST + 8, answers),
            // Cancelled.
            malformed(FIRST + 9, answers),
            malformed(3, answers),
        ];
        assert_eq!(ids(&mut layer, parts), [Some((FIRST + 7).into()), Some(2.into()), Some(3.into())]);
        let origin = Arc::new(Origin::new("test"));
        wire.lock().received.push_back(Inbound::Malformed { error: request, excerpt: Bytes::new(), origin });
        match next(&mut layer) {
            Some(Inbound::Malformed { error, .. }) => assert_eq!(error.id, Some((FIRST + 7).into())),
            other => panic!("{other:?}"),
        }
        // Its own request is pending as before.
        wire.lock().received.push_back(inbound(response(FIRST + 7)));
        match next(&mut layer) {
            Some(Inbound::Message { message: Message::Response(response), .. }) => {
                assert_eq!(response.id, Some(1.into()));
            }
            other => panic!("{other:?}"),
        }
        assert!(layer.open.is_empty());
    }

    /// Records the notifications for the targets.
    #[derive(Default)]
    struct Told(Mutex<Vec<Notification>>);

    impl Cancels for Told {
        fn cancel(&self, cancelled: &Notification) {
            self.0.lock().extend(for_target(cancelled));
        }
    }

    #[test]
    fn a_cancellation_goes_to_the_targets_only_if_this_process_does_not_handle_the_request() {
        let (wire, told) = (Arc::new(Mutex::new(Wire::default())), Arc::new(Told::default()));
        let mut layer =
            ClientLayer { io: Box::new(Io(wire.clone())), targets: told.clone(), handled: HashSet::new() };
        let answered = Outbound::Message { message: response(2), route: Route::ReplyTo(2.into()) };
        for message in [request(1), request(2), cancelled("1"), cancelled("null"), cancelled("{}")] {
            wire.lock().received.push_back(inbound(message));
            assert!(next(&mut layer).is_some(), "the session gets everything");
        }
        assert!(told.0.lock().is_empty());
        TransportLayer::push(&mut layer, answered);
        assert!(layer.handled.is_empty());
        let parts = vec![Ok(request(3)), Ok(cancelled("3")), Ok(cancelled("2"))];
        let origin = Arc::new(Origin::new("test"));
        wire.lock().received.push_back(Inbound::Batch { parts, exchange: None, origin });
        assert!(next(&mut layer).is_some());
        let told: Vec<Message> = told.0.lock().drain(..).map(Message::Notification).collect();
        assert_eq!(told, [cancelled(&(FIRST + 2).to_string())]);
    }
}
