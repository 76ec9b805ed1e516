//! Tests of random conversations between two sessions of both eras: for any order of delivery, responses, cancellations
//! and timeouts, every call ends exactly once, nothing panics, and no request is left.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use mcpjoin_proto::session::{
    Call, Event, Inbound, Limits, Reply, Route, Session, State, TransportEnd, TransportError,
};
use mcpjoin_proto::types::{LogMessageParams, LoggingLevel};
use mcpjoin_proto::{ErrorObject, Method, Notification, RequestId, Time, Version};
use proptest::prelude::*;

use crate::common::*;

#[derive(Clone, Debug)]
enum Step {
    Call { side: usize, progress: bool, seconds: u8 },
    Listen,
    Answer { side: usize, which: u8, fails: bool },
    Cancel { side: usize, which: u8 },
    Progress { side: usize, which: u8 },
    Log { which: u8 },
    Changed { tools: bool },
    Deliver { from: usize, lines: u8 },
    Lose { side: usize, which: u8 },
    Wait { millis: u16 },
    End { side: usize, broken: bool },
    Close { side: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let side = 0..2_usize;
    prop_oneof![
        8 => (side.clone(), any::<bool>(), 1..90_u8).prop_map(|(side, progress, seconds)| Step::Call { side, progress, seconds }),
        1 => Just(Step::Listen),
        8 => (side.clone(), any::<u8>(), any::<bool>()).prop_map(|(side, which, fails)| Step::Answer { side, which, fails }),
        3 => (side.clone(), any::<u8>()).prop_map(|(side, which)| Step::Cancel { side, which }),
        4 => (side.clone(), any::<u8>()).prop_map(|(side, which)| Step::Progress { side, which }),
        2 => any::<u8>().prop_map(|which| Step::Log { which }),
        2 => any::<bool>().prop_map(|tools| Step::Changed { tools }),
        16 => (side.clone(), 1..8_u8).prop_map(|(from, lines)| Step::Deliver { from, lines }),
        1 => (side.clone(), any::<u8>()).prop_map(|(side, which)| Step::Lose { side, which }),
        3 => (0..20_000_u16).prop_map(|millis| Step::Wait { millis }),
        1 => (side.clone(), any::<bool>()).prop_map(|(side, broken)| Step::End { side, broken }),
        1 => side.prop_map(|side| Step::Close { side }),
    ]
}

/// One side, with the state of its owner.
struct Side {
    session: Session,
    wire: VecDeque<Bytes>,
    /// Calls that must still end, once each.
    open: BTreeSet<RequestId>,
    handling: BTreeSet<RequestId>,
    acknowledged: BTreeSet<RequestId>,
    progress: f64,
    /// The link of this side has ended.
    ended: bool,
    closed: bool,
}

struct World {
    sides: [Side; 2],
    now: Time,
}

fn nth(set: &BTreeSet<RequestId>, which: u8) -> Option<RequestId> {
    set.iter().nth(usize::from(which) % set.len().max(1)).cloned()
}

impl World {
    fn new(version: &Version, limits: &Limits) -> Self {
        let pair = Pair::new(version, limits.clone(), limits.clone());
        let side = |session| Side {
            session,
            wire: VecDeque::new(),
            open: BTreeSet::new(),
            handling: BTreeSet::new(),
            acknowledged: BTreeSet::new(),
            progress: 0.0,
            ended: false,
            closed: false,
        };
        Self { sides: [side(pair.client), side(pair.server)], now: Time::ZERO }
    }

    fn perform(&mut self, step: &Step) {
        let now = self.now;
        match *step {
            Step::Call { side, progress, seconds } => {
                let method = if side == 0 { Method::CallTool } else { Method::ListRoots };
                let mut call = Call::new(method).with_timeout(Duration::from_secs(u64::from(seconds)));
                call.progress = progress;
                call.log_level = Some(LoggingLevel::Info);
                if let Ok(id) = self.sides[side].session.call(now, &call) {
                    assert!(self.sides[side].open.insert(id), "an id is never used again");
                }
            }
            Step::Listen => {
                let listen = Call::new(Method::Listen).with_params(raw(
                    r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":true}}"#,
                ));
                if let Ok(id) = self.sides[0].session.call(now, &listen) {
                    self.sides[0].open.insert(id);
                }
            }
            Step::Answer { side, which, fails } => {
                let side = &mut self.sides[side];
                if let Some(id) = nth(&side.handling, which) {
                    side.handling.remove(&id);
                    let reply = if fails { Err(ErrorObject::internal("no")) } else { Ok(Reply::empty()) };
                    side.session.respond(&id, reply);
                }
            }
            Step::Cancel { side, which } => {
                let side = &mut self.sides[side];
                if let Some(id) = nth(&side.open, which) {
                    side.open.remove(&id);
                    side.session.cancel(&id, Some("no more"));
                }
            }
            Step::Progress { side, which } => {
                let side = &mut self.sides[side];
                if let Some(id) = nth(&side.handling, which) {
                    side.progress += 1.0;
                    side.session.progress(&id, side.progress, None, None).unwrap();
                }
            }
            Step::Log { which } => {
                let side = &mut self.sides[1];
                if let Some(id) = nth(&side.handling, which) {
                    let message = LogMessageParams::new(LoggingLevel::Error, raw("1"));
                    side.session.log(&id, &message).unwrap();
                }
            }
            Step::Changed { tools } => {
                let method = if tools { Method::ToolListChanged } else { Method::PromptListChanged };
                let changed = Notification { method, params: None };
                let server = &mut self.sides[1].session;
                let told = server.notify(changed, Route::Session);
                assert!(told.is_ok() || server.state() != State::Ready, "{told:?}");
            }
            Step::Deliver { from, lines } => self.deliver(from, usize::from(lines)),
            Step::Lose { side, which } => {
                let side = &mut self.sides[side];
                if let Some(id) = nth(&side.open, which) {
                    let cause = TransportError::new("lost", true);
                    side.session.handle(now, Inbound::Lost { id, cause });
                }
            }
            Step::Wait { millis } => {
                self.now = now + Duration::from_millis(u64::from(millis));
                for side in &mut self.sides {
                    side.session.handle_timeout(self.now);
                    let next = side.session.poll_timeout();
                    assert!(next.is_none_or(|next| next > self.now), "a deadline stays: {next:?}");
                }
            }
            Step::End { side, broken } => {
                let cause = if broken {
                    TransportEnd::failed(TransportError::new("reset", true))
                } else {
                    TransportEnd::end_of_stream()
                };
                self.sides[side].ended = true;
                self.sides[side].session.handle(now, Inbound::Closed { cause });
            }
            Step::Close { side } => self.sides[side].session.close(),
        }
        self.listen();
    }

    fn deliver(&mut self, from: usize, lines: usize) {
        for _ in 0..lines {
            let side = &mut self.sides[from];
            if let Some(outbound) = side.session.poll_transmit() {
                side.wire.push_back(Bytes::from(text(&outbound)));
            }
            if let Some(line) = side.wire.pop_front() {
                say_at(&mut self.sides[1 - from].session, self.now, &line);
            }
            let side = &mut self.sides[from];
            let waiting = !side.wire.is_empty();
            side.session.report_sent(self.now, 0, waiting);
        }
        self.listen();
    }

    /// Both owners poll their events and check them.
    fn listen(&mut self) {
        for side in &mut self.sides {
            while let Some(event) = side.session.poll_event() {
                assert!(!side.closed, "nothing follows the end: {event:?}");
                match event {
                    Event::Outcome { id, .. } => {
                        assert!(side.open.remove(&id), "{id} has ended twice or was cancelled");
                    }
                    Event::Progress { id, .. } => {
                        assert!(side.open.contains(&id), "progress of {id} after its end");
                    }
                    Event::Request { request, .. } => {
                        assert!(side.handling.insert(request.id), "two requests of one id");
                    }
                    Event::Cancelled { id, .. } => {
                        assert!(side.handling.remove(&id), "{id} was not being handled");
                    }
                    Event::Notification { notification, call: Some(id) } => {
                        if notification.method == Method::SubscriptionsAcknowledged {
                            side.acknowledged.insert(id);
                        } else {
                            assert!(side.acknowledged.contains(&id), "an event before the acknowledgement");
                        }
                    }
                    // A link delivers nothing after its end.
                    Event::Violation(violation) => assert!(side.ended, "a well-behaved peer: {violation}"),
                    Event::Closed(_) => side.closed = true,
                    Event::Opened | Event::Notification { call: None, .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    fn finish(&mut self) {
        for _ in 0..4 {
            self.deliver(0, 500);
            self.deliver(1, 500);
        }
        for side in 0..2 {
            self.perform(&Step::Close { side });
        }
        for side in &mut self.sides {
            assert!(side.closed);
            assert!(side.open.is_empty(), "calls without an end: {:?}", side.open);
            assert!(side.handling.is_empty(), "handlers that nobody has stopped: {:?}", side.handling);
            assert_eq!((side.session.calls_in_flight(), side.session.requests_in_flight()), (0, 0));
            assert_eq!(side.session.poll_timeout(), None);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_call_ends_exactly_once(
        modern in any::<bool>(),
        tight in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..300),
    ) {
        let version = if modern { Version::V2026_07_28 } else { Version::V2025_11_25 };
        let mut limits = Limits::default();
        if tight {
            (limits.handling, limits.waiting, limits.in_flight) = (2, 1000, 8);
            (limits.queued_replies, limits.subscriptions) = (400, 2);
        }
        let mut world = World::new(&version, &limits);
        for step in &steps {
            world.perform(step);
        }
        world.finish();
    }
}
