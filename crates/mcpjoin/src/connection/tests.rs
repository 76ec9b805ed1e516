//! Tests of the connection: its calls, its wakers, its driver and its notifications. Used by the tests of `driver` too.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Wake, Waker};
use std::time::{Duration, Instant};

use mcpjoin_proto::decode::{Decoded, decode};
use mcpjoin_proto::session::{
    CallError, ClientRole, EraChoice, Event, Inbound, Origin, Reply, TransportCaps,
};
use mcpjoin_proto::types::{ClientCapabilities, Implementation};
use mcpjoin_proto::{DecodeLimits, Era, Payload, Raw, Time};

use super::*;
use crate::handler::Nothing;

#[test]
fn who_does_not_wait_for_the_end_any_more_leaves_nothing_behind() {
    let role = ClientRole::new(Implementation::new("c", "1"), ClientCapabilities::default());
    let session = Session::new(Role::Client(role.into()), TransportCaps::default(), Limits::default());
    let connection = Connection::from_core(Arc::new(Core::new(session, None)));
    let mut cx = TaskContext::from_waker(Waker::noop());
    let watchers = || connection.core.lock().watchers();
    {
        let mut closed = pin!(connection.closed());
        let mut opened = pin!(connection.opened());
        for _ in 0..3 {
            assert!(closed.as_mut().poll(&mut cx).is_pending());
            assert!(opened.as_mut().poll(&mut cx).is_pending());
        }
        assert_eq!(watchers(), 2);
    }
    assert_eq!(watchers(), 0);
}

/// An open connection without a driver, whose server is the test.
pub(super) fn opened(limits: Limits) -> Arc<Core> {
    let mut role = ClientRole::new(Implementation::new("c", "1"), ClientCapabilities::default());
    role.era = EraChoice::Only(Era::Legacy);
    let core =
        Arc::new(Core::new(Session::new(Role::Client(role.into()), TransportCaps::default(), limits), None));
    core.lock().session.open(Time::ZERO);
    said(
        &core,
        r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}"#,
    );
    core
}

pub(super) fn said(core: &Core, line: &'static str) {
    let Ok(Decoded::Message(message)) = decode(&line.into(), &DecodeLimits::default()) else {
        panic!("{line} is no message")
    };
    let inbound = Inbound::Message { message, origin: Arc::new(Origin::new("test")) };
    core.lock().session.handle(Time::ZERO, inbound);
}

/// A waker that checks that the connection is not locked when it is woken and when its last clone is dropped: foreign
/// code may use the connection then, and would deadlock.
struct Probe {
    core: Weak<Core>,
    was_locked: Arc<AtomicBool>,
}

impl Probe {
    fn look(&self) {
        if self.core.upgrade().is_some_and(|core| core.is_locked()) {
            self.was_locked.store(true, Ordering::SeqCst);
        }
    }
}

impl Wake for Probe {
    fn wake(self: Arc<Self>) {
        self.look();
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.look();
    }
}

/// Creates probes for one connection.
struct Probes {
    core: Weak<Core>,
    was_locked: Arc<AtomicBool>,
}

impl Probes {
    fn of(core: &Arc<Core>) -> Self {
        Self { core: Arc::downgrade(core), was_locked: Arc::default() }
    }

    /// Returns the waker of a new task.
    fn waker(&self) -> Waker {
        Waker::from(Arc::new(Probe { core: self.core.clone(), was_locked: self.was_locked.clone() }))
    }

    /// Polls as a new task, of which only the connection keeps the waker.
    fn poll<F: Future>(&self, future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut TaskContext::from_waker(&self.waker()))
    }

    #[track_caller]
    fn check(&self) {
        assert!(!self.was_locked.load(Ordering::SeqCst), "a waker ran while the connection was locked");
    }
}

#[test]
fn who_waits_for_the_opening_or_the_end_is_not_touched_under_the_lock() {
    let core = opened(Limits::default());
    let (probes, connection) = (Probes::of(&core), Connection::from_core(core));
    {
        let mut closed = pin!(connection.closed());
        let mut opened = pin!(connection.opened());
        for _ in 0..2 {
            assert!(probes.poll(closed.as_mut()).is_pending());
            probes.check();
            assert!(probes.poll(opened.as_mut()).is_pending());
            probes.check();
        }
    }
    probes.check();
}

#[test]
fn a_call_is_not_touched_under_the_lock() {
    let core = opened(Limits::default());
    let (probes, connection) = (Probes::of(&core), Connection::from_core(core.clone()));
    let call = || connection.call(Call::new(Method::Ping));
    let (mut answered, mut dropped, mut listened) = (call(), call(), call());
    for _ in 0..2 {
        assert!(probes.poll(Pin::new(&mut answered)).is_pending());
        probes.check();
        assert!(probes.poll(Pin::new(&mut dropped)).is_pending());
        let mut listening = pin!(listened.next_event());
        assert!(probes.poll(listening.as_mut()).is_pending());
        probes.check();
    }
    drop(dropped);
    probes.check();
    // The outcome arrives while the waker of the last poll is still stored.
    if let Some(slot) = core.lock().slots.get_mut(2) {
        slot.outcome = Some(Ok(Reply::empty()));
    }
    assert!(probes.poll(Pin::new(&mut answered)).is_ready());
    probes.check();
}

#[test]
fn who_waits_for_room_is_not_touched_under_the_lock() {
    let mut limits = Limits::default();
    limits.in_flight = 1;
    let core = opened(limits);
    let (probes, connection) = (Probes::of(&core), Connection::from_core(core.clone()));
    let mut first = connection.call(Call::new(Method::Ping));
    assert!(probes.poll(Pin::new(&mut first)).is_pending());
    let mut second = connection.call(Call::new(Method::Ping));
    let mut third = connection.call(Call::new(Method::Ping).with_timeout(Duration::ZERO));
    let mut place = None;
    for _ in 0..2 {
        assert!(probes.poll(Pin::new(&mut second)).is_pending());
        probes.check();
        let waker = probes.waker();
        assert!(connection.poll_call_queue(&mut place, &TaskContext::from_waker(&waker)).is_pending());
        drop(waker);
        probes.check();
    }
    assert!(matches!(probes.poll(Pin::new(&mut third)), Poll::Ready(Err(CallError::TimedOut { .. }))));
    connection.leave_call_queue(place.expect("it waits"));
    probes.check();
    // There is capacity while the waker of the last poll is still stored.
    said(&core, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
    assert!(probes.poll(Pin::new(&mut second)).is_pending());
    probes.check();
    assert!(second.id().is_some());
    drop((first, second));
    probes.check();
}

#[test]
fn who_waits_for_a_request_to_be_over_is_not_touched_under_the_lock_and_leaves_nothing_behind() {
    let core = opened(Limits::default());
    said(&core, r#"{"jsonrpc":"2.0","id":"r","method":"x/y"}"#);
    let mut events = std::iter::from_fn(|| core.lock().session.poll_event());
    let request = events.find_map(|event| match event {
        Event::Request { request, context } => Some((request.id, context)),
        _ => None,
    });
    let (id, request) = request.expect("it asks");
    let probes = Probes::of(&core);
    let cx = Context::of_request(core.clone(), id, request);
    {
        let mut over = pin!(cx.cancelled());
        for _ in 0..100 {
            assert!(probes.poll(over.as_mut()).is_pending());
            probes.check();
        }
        assert_eq!(core.lock().end_watchers(), 1);
    }
    probes.check();
    assert_eq!(core.lock().end_watchers(), 0);
}

#[tokio::test]
async fn the_task_that_drives_is_not_touched_under_the_lock() {
    let (ours, _theirs) = Link::channel(TransportCaps::default());
    let role = ClientRole::new(Implementation::new("c", "1"), ClientCapabilities::default());
    let setup = Setup {
        role: Role::Client(role.into()),
        limits: Arc::default(),
        on_violation: None,
        notification_observer: None,
        layers: Layers::default(),
    };
    let (connection, mut driver) = Connection::new(ours, setup, Arc::new(Nothing));
    let probes = Probes::of(&connection.core);
    for _ in 0..3 {
        assert!(probes.poll(Pin::new(&mut driver)).is_pending());
        probes.check();
    }
    connection.close();
    probes.check();
    // The driver flushes, closes its transport, and ends.
    let ends = (0..10).any(|_| probes.poll(Pin::new(&mut driver)).is_ready());
    assert!(ends);
    drop(driver);
    probes.check();
}

/// A waker is cloned before the lock is taken: here another thread polls while the lock is held.
#[test]
fn a_waker_is_cloned_before_the_connection_is_locked() {
    let core = opened(Limits::default());
    let (probes, connection) = (Probes::of(&core), Connection::from_core(core.clone()));
    let probe = Arc::new(Probe { core: Weak::new(), was_locked: Arc::default() });
    let kept = probe.clone();
    let held = core.lock();
    let polling = std::thread::spawn(move || {
        let waker = Waker::from(probe);
        let mut call = connection.call(Call::new(Method::Ping));
        assert!(Pin::new(&mut call).poll(&mut TaskContext::from_waker(&waker)).is_pending());
    });
    let began = Instant::now();
    // Three references: the test's, the one of the polling waker, and the clone.
    while Arc::strong_count(&kept) < 3 {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is cloned while the lock is held");
        std::thread::yield_now();
    }
    drop(held);
    polling.join().expect("it is pending");
    probes.check();
}

/// A waker that records whether it was woken.
#[derive(Default)]
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_driver_that_is_dropped_ends_the_calls_under_way() {
    let core = opened(Limits::default());
    let (io, _theirs) = Link::channel(TransportCaps::default());
    let driver = Driver::new(core.clone(), io.into_transport(), Box::new(Arc::new(Nothing)), (None, None));
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    let mut cx = TaskContext::from_waker(&waker);
    let mut call = Connection::from_core(core).call(Call::new(Method::Ping));
    assert!(Pin::new(&mut call).poll(&mut cx).is_pending());
    drop(driver);
    assert!(bell.0.load(Ordering::SeqCst));
    assert!(matches!(Pin::new(&mut call).poll(&mut cx), Poll::Ready(Err(CallError::Closed(_)))));
}

#[test]
fn who_waits_for_a_request_to_be_over_is_woken_when_that_one_is_and_when_all_are() {
    let core = opened(Limits::default());
    let waker = || TaskWaker::new(&TaskContext::from_waker(Waker::noop()));
    for id in [1, 2, 3] {
        core.lock().wait_for_end(&RequestId::from(id), None, &mut waker());
    }
    let mut wake = Vec::new();
    core.lock().request_ended(&RequestId::from(2), &mut wake);
    assert_eq!((wake.len(), core.lock().end_watchers()), (1, 2));
    core.lock().request_ended(&RequestId::from(2), &mut wake);
    assert_eq!(wake.len(), 1);
    core.lock().all_requests_ended(&mut wake);
    assert_eq!((wake.len(), core.lock().end_watchers()), (3, 0));
}

#[test]
fn of_unread_notifications_of_a_call_the_newest_are_kept_and_the_others_counted() {
    let core = opened(Limits::default());
    let mut cx = TaskContext::from_waker(Waker::noop());
    let mut call = Connection::from_core(core.clone()).call(Call::new(Method::Ping));
    let told = |number: usize| Notification { method: Method::parse(&format!("x/{number}")), params: None };
    assert!(call.poll_event(&mut cx).is_pending());
    let push = |number: usize| {
        core.lock().slots.get_mut(2).expect("it is under way").events().notifications.push(told(number));
    };
    (0..1024).for_each(push);
    assert_eq!(call.dropped(), 0);
    (1024..1026).for_each(push);
    assert_eq!(call.dropped(), 2);
    for number in 2..1026 {
        let Poll::Ready(Some(CallEvent::Notification(next))) = call.poll_event(&mut cx) else {
            panic!("there are more")
        };
        assert_eq!(next, told(number));
    }
    assert!(call.poll_event(&mut cx).is_pending());
}

#[test]
fn unread_notifications_of_a_call_have_a_limit_in_bytes_beside_the_newest() {
    const MIB: usize = 1024 * 1024;
    let core = opened(Limits::default());
    let mut cx = TaskContext::from_waker(Waker::noop());
    let mut call = Connection::from_core(core.clone()).call(Call::new(Method::Ping));
    assert!(call.poll_event(&mut cx).is_pending());
    // The name of an unknown method counts, because its sender has chosen it.
    let told = |name: &str, bytes: usize| {
        let params = Raw::string(&"x".repeat(bytes - 2));
        Notification { method: Method::parse(name), params: Some(Payload::from_raw(params)) }
    };
    let push = |told: Notification| {
        core.lock().slots.get_mut(2).expect("it is under way").events().notifications.push(told);
    };
    let dropped = |told: Vec<Notification>, call: &mut Calling| {
        let before = call.dropped();
        told.into_iter().for_each(push);
        let dropped = call.dropped() - before;
        while call.poll_event(&mut TaskContext::from_waker(Waker::noop())).is_ready() {}
        dropped
    };
    assert_eq!(dropped(vec![told("a", 4 * MIB - 1), told("b", 9 * MIB)], &mut call), 0);
    assert_eq!(dropped(vec![told("a", 4 * MIB), told("b", 2)], &mut call), 1);
    assert_eq!(dropped(vec![told("a", MIB), told(&"b".repeat(4 * MIB), 2), told("c", 2)], &mut call), 2);
    assert_eq!(
        dropped((0..8).map(|_| told("a", MIB)).collect(), &mut call),
        4,
        "what was taken counts no more"
    );
}
