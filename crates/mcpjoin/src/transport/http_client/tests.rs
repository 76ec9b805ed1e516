//! Tests of the HTTP client transport as the connection drives it: its queues, limits, and the order of waiting messages.

use mcpjoin_proto::session::Route;
use mcpjoin_proto::{Notification, Payload, Raw, Request};

use super::in_flight::MAX_REQUESTS_IN_FLIGHT;
use super::*;
use crate::transport::Link;

#[test]
fn limits_hold_for_what_begins_behind_them_whatever_runs_already() {
    let mut link = Link::http("http://127.0.0.1:1/").link().expect("a URL");
    let running = Arc::clone(&link.requester);
    let mut limits = Limits::default();
    limits.message = 7;
    link.configure(&limits);
    assert_eq!(link.requester.limits, limits);
    assert_eq!(running.limits, Limits::default());
}

fn link() -> HttpLink {
    Link::http("http://127.0.0.1:1/").link().expect("a URL")
}

/// A request with this many bytes of parameters.
fn request(id: i64, method: Method, bytes: usize) -> Outbound {
    let params = Raw::parse(format!("{{\"x\":\"{}\"}}", "x".repeat(bytes - 8))).expect("JSON");
    let request = Request { id: id.into(), method, params: Some(Payload::from_raw(params)) };
    Outbound::Message { message: request.into(), route: Route::Session }
}

#[test]
fn messages_wait_to_be_sent_up_to_a_total_of_bytes() {
    const BYTES: usize = 8 << 20;
    let mut link = link();
    link.gate = SendGate::Endpoint;
    let ping = |id: i64, bytes: usize| request(id, Method::Ping, bytes);
    link.push(ping(1, 8));
    let one = link.waiting_bytes;
    link.push(ping(2, BYTES - 3 * one + 8));
    link.push(ping(3, 8));
    assert_eq!((link.waiting_bytes, link.has_room()), (BYTES, false));
    // An aborted message releases its bytes, and so does a sent one.
    link.push(Outbound::Abort { id: 1.into() });
    link.push(Outbound::Abort { id: 3.into() });
    link.push(ping(4, one + 8 - 1));
    assert_eq!((link.waiting_bytes, link.has_room()), (BYTES - 1, true));
    link.gate = SendGate::Open;
    link.pump();
    assert_eq!((link.waiting_bytes, link.has_room()), (0, true));
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_a_session_that_is_opened_unless_its_server_is_silent() {
    let wait = CLOSE_TIMEOUT / 2;
    for (silent, goes_on) in [(Duration::ZERO, true), (wait - Duration::from_millis(1), true), (wait, false)]
    {
        let mut link = link();
        let opens = Some(Instant::now());
        link.in_flight.start(Task::Request { id: 1.into(), counted: true, opens }, std::future::pending());
        tokio::time::advance(silent).await;
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(link.poll_close(&mut cx).is_pending(), goes_on, "{silent:?}");
    }
}

#[tokio::test]
async fn one_request_above_the_limit_in_flight_waits_until_another_has_ended() {
    let mut link = link();
    for id in 0..MAX_REQUESTS_IN_FLIGHT as i64 {
        assert!(link.in_flight.has_capacity(), "{id}");
        link.in_flight
            .start(Task::Request { id: id.into(), counted: true, opens: None }, std::future::pending());
    }
    link.push(request(1000, Method::ListTools, 8));
    // A request for a notification stream is not queued, and a notification neither.
    link.push(request(1001, Method::Listen, 8));
    let told = Notification { method: Method::Initialized, params: None };
    link.push(Outbound::Message { message: told.into(), route: Route::Session });
    let mut cx = Context::from_waker(Waker::noop());
    assert!(link.poll_flush(&mut cx).is_ready());
    assert_eq!((link.sent(), link.queued.len()), (2, 1));
    link.gate = SendGate::Open;
    link.abort(&7.into());
    assert!(link.poll_flush(&mut cx).is_ready());
    assert_eq!((link.sent(), link.queued.len()), (3, 0));
}

#[tokio::test]
async fn what_came_and_is_not_taken_holds_the_exchanges_up() {
    let mut link = link();
    let lost = |id: i64| Inbound::Lost { id: id.into(), cause: TransportError::new("lost", false) };
    let mut cx = Context::from_waker(Waker::noop());
    let (mut came, events) = (0..100, link.events.clone());
    // The transport has the same capacity as the channel.
    for _ in 0..2 {
        for id in came.by_ref().take(MAX_UNREAD_MESSAGES) {
            assert!(events.try_send(ExchangeEvent::Message(lost(id))).is_ok(), "{id}");
        }
        assert!(events.try_send(ExchangeEvent::ProbePostponed).is_err(), "there is no room");
        assert!(link.poll_flush(&mut cx).is_ready());
        assert_eq!(link.ready.len(), MAX_UNREAD_MESSAGES);
    }
    assert!(events.try_send(ExchangeEvent::ProbePostponed).is_err(), "there is still no room");
    for wanted in 0..2 * MAX_UNREAD_MESSAGES as i64 {
        let Poll::Ready(Inbound::Lost { id, .. }) = link.poll_inbound(&mut cx) else { panic!("{wanted}") };
        assert_eq!(id, wanted.into());
    }
    assert!(link.poll_inbound(&mut cx).is_pending());
}

fn asked(id: i64, method: Method) -> Request {
    Request { id: RequestId::from(id), method, params: None }
}

#[test]
fn concurrent_requests_are_limited_and_none_starts_where_the_gate_is_closed() {
    let mut link = Link::http("http://127.0.0.1:1/").link().expect("a URL");
    for id in (0..).take(MAX_REQUESTS_IN_FLIGHT + 2) {
        let message = Message::Request(asked(id, Method::Ping));
        link.push(Outbound::Message { message, route: Route::Session });
    }
    assert!(link.pump());
    assert_eq!((link.sent, link.queued.len()), (MAX_REQUESTS_IN_FLIGHT as u64, 2));
    assert!(!link.pump(), "there is no room");
    link.in_flight.clear();
    link.gate = SendGate::Reopening;
    assert!(!link.pump());
    link.gate = SendGate::Open;
    link.ended = Some(TransportEnd::end_of_stream());
    assert!(!link.pump());
    link.ended = None;
    assert!(link.pump());
    assert_eq!((link.sent, link.queued.len()), (MAX_REQUESTS_IN_FLIGHT as u64 + 2, 0));
}

#[test]
fn what_was_refused_in_an_earlier_session_opens_no_other() {
    let mut link = Link::http("http://127.0.0.1:1/").link().expect("a URL");
    link.settings.record(&asked(1, Method::Initialize));
    let agreed = "2025-11-25".to_owned();
    link.session =
        Some(Arc::new(LegacySession { id: None, agreed, header: None, streams: false, generation: 1 }));
    for (generation, gate) in [(0, SendGate::Open), (1, SendGate::Reopening)] {
        link.session_lost(generation, None);
        assert_eq!(link.gate, gate, "{generation}");
    }
}

/// A call that the server has refused unprocessed, while eight messages are not taken: its refusal waits in the channel.
fn refused_behind_others(refused: impl FnOnce(Request, Inbound) -> ExchangeEvent) -> HttpLink {
    let mut link = link();
    link.settings.record(&asked(0, Method::Initialize));
    let agreed = "2025-11-25".to_owned();
    link.session =
        Some(Arc::new(LegacySession { id: None, agreed, header: None, streams: false, generation: 1 }));
    link.push(request(1, Method::CallTool, 8));
    link.pump();
    link.in_flight.clear();
    let lost = |id: i64| Inbound::Lost { id: id.into(), cause: TransportError::new("lost", false) };
    (0..MAX_UNREAD_MESSAGES as i64).for_each(|id| link.ready.push_back(lost(100 + id)));
    let event = refused(asked(1, Method::CallTool), lost(1));
    assert!(link.events.try_send(event).is_ok());
    link
}

#[tokio::test]
async fn a_call_whose_refusal_is_not_read_yet_is_not_made_again_after_its_cancellation() {
    let outbound = |call: Request| Outbound::Message { message: call.into(), route: Route::Session };
    let session_lost = |call: Request, _| ExchangeEvent::SessionLost {
        generation: 1,
        refused: Some(Box::new((outbound(call), "refused".to_owned()))),
    };
    let mismatched =
        |call: Request, refusal| ExchangeEvent::HeadersMismatched { call: Box::new(outbound(call)), refusal };
    let listed = |call: Request, refusal| ExchangeEvent::ToolsListed { call, refusal, pages: Vec::new() };
    for cancelled in [false, true] {
        for mut link in [
            refused_behind_others(session_lost),
            refused_behind_others(mismatched),
            refused_behind_others(listed),
        ] {
            let mut cx = Context::from_waker(Waker::noop());
            if cancelled {
                link.push(Outbound::Abort { id: 1.into() });
            }
            let mut ends = false;
            for _ in 0..=MAX_UNREAD_MESSAGES {
                if let Poll::Ready(Inbound::Lost { id, .. }) = link.poll_inbound(&mut cx) {
                    ends |= id == 1.into();
                }
            }
            // It is sent again, or its refusal is its response.
            let is_resent = link.waiting.iter().any(|waiting| waiting.id() == Some(&1.into()));
            assert_eq!(ends || is_resent, !cancelled);
        }
    }
}

#[tokio::test]
async fn a_session_that_opens_beside_a_postponed_probe_is_used_at_once() {
    let mut link = link();
    // The probe was slow, so `initialize` was sent beside it. Then the server asks to repeat the probe later.
    link.probe = Some(1.into());
    let probe = Task::Request { id: 1.into(), counted: true, opens: None };
    link.in_flight.start(probe, std::future::pending());
    link.handle_event(ExchangeEvent::ProbePostponed);
    assert_eq!(link.gate, SendGate::Postponed);
    let result = Payload::from_raw(Raw::parse(r#"{"protocolVersion":"2025-11-25"}"#).expect("JSON"));
    let message = Message::Response(mcpjoin_proto::Response { id: Some(2.into()), outcome: Ok(result) });
    let reply = Inbound::Message { message, origin: Arc::clone(&link.requester.origin) };
    let session = LegacySession::of(&reply, &http::HeaderMap::new(), &2.into());
    let session = session.expect("no wrong id").expect("a session");
    link.handle_event(ExchangeEvent::Initialized { session, reply });
    let initialized = Notification { method: Method::Initialized, params: None };
    link.push(Outbound::Message { message: initialized.into(), route: Route::Session });
    let mut cx = Context::from_waker(Waker::noop());
    assert!(link.poll_flush(&mut cx).is_ready());
    assert_eq!((link.sent(), link.waiting.len()), (1, 0));
}
