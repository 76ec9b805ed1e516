//! What the link does with what it is given.

use mcpjoin_proto::Request;
use mcpjoin_proto::session::Route;

use super::*;
use crate::link::Link;

#[test]
fn limits_hold_for_what_begins_behind_them_whatever_runs_already() {
    let mut link = Link::http("http://127.0.0.1:1/").link().expect("a URL");
    let running = Arc::clone(&link.wire);
    let mut limits = Limits::default();
    limits.message = 7;
    link.configure(&limits);
    assert_eq!(link.wire.limits, limits);
    assert_eq!(running.limits, Limits::default());
}

fn asked(id: i64, method: Method) -> Request {
    Request { id: RequestId::from(id), method, params: None }
}

#[test]
fn so_many_requests_run_at_once_and_none_where_the_gate_is_shut_or_all_is_over() {
    let mut link = Link::http("http://127.0.0.1:1/").link().expect("a URL");
    for id in (0..).take(running::REQUESTS + 2) {
        let message = Message::Request(asked(id, Method::Ping));
        link.push(Outbound::Message { message, route: Route::Session });
    }
    assert!(link.pump());
    assert_eq!((link.sent, link.queued.len()), (running::REQUESTS as u64, 2));
    assert!(!link.pump(), "there is no room");
    link.running.clear();
    link.gate = Gate::Reopening;
    assert!(!link.pump());
    link.gate = Gate::Open;
    link.ended = Some(LinkEnd::end_of_stream());
    assert!(!link.pump());
    link.ended = None;
    assert!(link.pump());
    assert_eq!((link.sent, link.queued.len()), (running::REQUESTS as u64 + 2, 0));
}

#[test]
fn what_was_refused_in_an_earlier_session_opens_no_other() {
    let mut link = Link::http("http://127.0.0.1:1/").link().expect("a URL");
    link.memory.note(&asked(1, Method::Initialize));
    let agreed = "2025-11-25".to_owned();
    link.session =
        Some(Arc::new(LegacySession { id: None, agreed, header: None, streams: false, generation: 1 }));
    for (generation, gate) in [(0, Gate::Open), (1, Gate::Reopening)] {
        link.gone(generation, None);
        assert_eq!(link.gate, gate, "{generation}");
    }
}
