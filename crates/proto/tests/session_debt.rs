//! Tests of backpressure: whatever two peers do, no wait is endless and no queue is unlimited.
//!
//! The wires are pipes of 4 KiB in both directions, as a kernel may provide, and a side reads only while its session
//! wants input. Messages move through them by their size; their bytes are shared and not copied, so that gigabytes pass
//! quickly.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot do what it wants to has failed")]

#[path = "session/common.rs"]
#[allow(dead_code, reason = "shared with `session.rs`, which uses more of it")]
mod common;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use mcpjoin_proto::session::{
    Call, CallError, CloseCause, Event, Inbound, Limits, Origin, Outbound, Reply, Session, TransportCaps,
    Violation,
};
use mcpjoin_proto::{Message, Method, Payload, Request, RequestId, Time, Version};

use common::*;

const PIPE: usize = 4096;
const MIB: usize = 1024 * 1024;

/// The approximate encoded size of a message.
fn size(message: &Message) -> usize {
    let length = |payload: &Option<Payload>| payload.as_ref().map_or(0, |payload| payload.raw().len());
    96 + match message {
        Message::Request(request) => length(&request.params),
        Message::Notification(notification) => length(&notification.params),
        Message::Response(response) => match &response.outcome {
            Ok(result) => result.raw().len(),
            Err(error) => error.message.len(),
        },
    }
}

/// A pipe with a capacity of 4 KiB.
#[derive(Default)]
struct Pipe {
    filled: usize,
    /// Written messages, with the bytes that the reader has not read yet.
    messages: VecDeque<(Message, usize)>,
    /// Bytes of the last message that the writer has not written yet.
    unwritten: usize,
    written: u64,
}

impl Pipe {
    /// Writes what fits. Returns whether anything moved.
    fn write(&mut self, session: &mut Session, watch: &mut Watch) -> bool {
        let before = self.written;
        while self.filled < PIPE {
            if self.unwritten == 0 {
                let Some(Outbound::Message { message, .. }) = session.poll_transmit() else { break };
                watch.taken(&message);
                self.unwritten = size(&message);
                self.messages.push_back((message, self.unwritten));
            }
            let chunk = self.unwritten.min(PIPE - self.filled);
            self.unwritten -= chunk;
            self.filled += chunk;
            self.written += chunk as u64;
        }
        self.written > before
    }

    /// Reads while the session wants input. Returns whether anything moved.
    fn read(&mut self, session: &mut Session, origin: &Arc<Origin>) -> bool {
        let mut moved = false;
        while self.filled > 0 && session.wants_input() {
            let Some((_, missing)) = self.messages.front_mut() else { break };
            let chunk = (*missing).min(self.filled);
            *missing -= chunk;
            self.filled -= chunk;
            moved = true;
            if *missing == 0 {
                let (message, _) = self.messages.pop_front().unwrap();
                session.handle(Time::ZERO, Inbound::Message { message, origin: origin.clone() });
            }
        }
        moved
    }
}

/// The bytes in both lanes of a session's queue, counted from outside.
#[derive(Default)]
struct Watch {
    replies: usize,
    own: usize,
    most_replies: usize,
    most_own: usize,
}

impl Watch {
    fn replied(&mut self, bytes: usize) {
        self.replies += bytes + 96;
        self.most_replies = self.most_replies.max(self.replies);
    }

    fn called(&mut self, bytes: usize) {
        self.own += bytes + 96;
        self.most_own = self.most_own.max(self.own);
    }

    fn taken(&mut self, message: &Message) {
        let lane = if matches!(message, Message::Response(_)) { &mut self.replies } else { &mut self.own };
        *lane = lane.saturating_sub(size(message));
    }
}

/// Params of this size, decoded once, so that they are not scanned again.
fn payload(bytes: usize) -> Payload {
    let line = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"x":"{}"}}}}"#, "x".repeat(bytes - 8));
    let limits = mcpjoin_proto::DecodeLimits::default();
    match mcpjoin_proto::decode::decode(&line.into(), &limits) {
        Ok(mcpjoin_proto::decode::Decoded::Message(Message::Notification(told))) => told.params.unwrap(),
        other => panic!("{other:?}"),
    }
}

/// A peer that calls while it has capacity, and responds at once with the params of the request.
struct Peer {
    session: Session,
    method: Method,
    params: Payload,
    to_make: usize,
    answered: usize,
    failed: Vec<CallError>,
    watch: Watch,
    /// The response to every request; `None`: the params of the request.
    answers: Option<Payload>,
}

impl Peer {
    fn new(session: Session, method: Method, params: &Payload, calls: usize) -> Self {
        Self {
            session,
            method,
            params: params.clone(),
            to_make: calls,
            answered: 0,
            failed: Vec::new(),
            watch: Watch::default(),
            answers: None,
        }
    }

    fn act(&mut self) -> bool {
        let mut moved = false;
        while let Some(event) = self.session.poll_event() {
            moved = true;
            match event {
                Event::Request { request, .. } => {
                    let reply = self.answers.clone().or(request.params).unwrap().into_raw();
                    self.watch.replied(reply.len());
                    self.session.respond(&request.id, Ok(Reply::Complete(reply)));
                }
                Event::Outcome { outcome: Ok(_), .. } => self.answered += 1,
                Event::Outcome { outcome: Err(error), .. } => self.failed.push(error),
                // Events for a call that was cancelled by its caller.
                Event::Violation(Violation::LateResponse { .. }) | Event::Cancelled { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        while self.to_make > 0 && self.session.has_room() {
            moved = true;
            let mut call = Call::new(self.method.clone());
            call.params = Some(self.params.clone());
            self.session.call(Time::ZERO, &call).unwrap();
            self.watch.called(self.params.raw().len());
            self.to_make -= 1;
        }
        moved
    }
}

/// Runs two peers over pipes of 4 KiB until nothing moves.
fn converse(one: &mut Peer, other: &mut Peer) {
    let origin = Arc::new(Origin::new("pipe"));
    let (mut there, mut back) = (Pipe::default(), Pipe::default());
    loop {
        let mut moved = one.act() | other.act();
        moved |= there.write(&mut one.session, &mut one.watch);
        moved |= back.write(&mut other.session, &mut other.watch);
        moved |= there.read(&mut other.session, &origin);
        moved |= back.read(&mut one.session, &origin);
        if !moved {
            return;
        }
    }
}

fn two_callers(asked: usize, answered: Option<usize>, calls: usize) -> [Peer; 2] {
    let pair = Pair::new(&Version::V2025_11_25, Limits::default(), Limits::default());
    let params = payload(asked);
    let mut peers = [
        Peer::new(pair.client, Method::CallTool, &params, calls),
        Peer::new(pair.server, Method::CreateMessage, &params, calls),
    ];
    for peer in &mut peers {
        peer.answers = answered.map(payload);
    }
    let [one, other] = &mut peers;
    converse(one, other);
    peers
}

#[test]
fn two_peers_that_both_call_ten_thousand_times_64_kib_never_block_each_other() {
    for peer in two_callers(64 * 1024, None, 10_000) {
        assert_eq!((peer.answered, peer.failed.len(), peer.to_make), (10_000, 0, 0));
        assert_eq!((peer.session.calls_in_flight(), peer.session.requests_in_flight()), (0, 0));
        let message = 64 * 1024 + 96;
        assert!(peer.watch.most_own <= 8 * MIB + message, "{} bytes of calls waited", peer.watch.most_own);
        assert!(peer.watch.most_replies <= 8 * MIB + message, "{} bytes of replies", peer.watch.most_replies);
    }
}

/// Small requests with large responses: the peer sends responses more slowly than requests arrive.
#[test]
fn small_questions_with_large_answers_do_not_block() {
    for peer in two_callers(64, Some(64 * 1024), 5_000) {
        assert_eq!((peer.answered, peer.failed.len(), peer.to_make), (5_000, 0, 0));
        let message = 64 * 1024 + 96;
        assert!(peer.watch.most_replies <= 8 * MIB + message, "{} bytes of replies", peer.watch.most_replies);
    }
}

/// A server whose handlers finish one after the other, and only while nothing else moves.
struct Slow {
    session: Session,
    handled: VecDeque<RequestId>,
    watch: Watch,
    most_handled: usize,
}

impl Slow {
    fn new(session: Session) -> Self {
        Self { session, handled: VecDeque::new(), watch: Watch::default(), most_handled: 0 }
    }

    fn act(&mut self) -> bool {
        let before = self.handled.len();
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Request { request, .. } => self.handled.push_back(request.id),
                Event::Outcome { outcome, .. } => drop(outcome.unwrap()),
                other => panic!("{other:?}"),
            }
        }
        self.most_handled = self.most_handled.max(self.handled.len());
        self.handled.len() > before
    }

    fn finish_one(&mut self) -> bool {
        let Some(id) = self.handled.pop_front() else { return false };
        self.session.respond(&id, Ok(Reply::empty()));
        true
    }
}

/// Runs a client and a slow server until nothing moves.
fn outrun(client: &mut Peer, server: &mut Slow) {
    let origin = Arc::new(Origin::new("pipe"));
    let (mut there, mut back) = (Pipe::default(), Pipe::default());
    loop {
        let mut moved = client.act() | server.act();
        moved |= there.write(&mut client.session, &mut client.watch);
        moved |= back.write(&mut server.session, &mut server.watch);
        moved |= there.read(&mut server.session, &origin);
        moved |= back.read(&mut client.session, &origin);
        if !moved && !server.finish_one() {
            return;
        }
    }
}

/// The limit of handled requests is 1,024 and of waiting ones 8 MiB; a caller may have 10,000 pending calls. While the
/// server has a pending request, it must read on, and rejects further calls with the name of the limit.
#[test]
fn calls_that_outrun_slow_handlers_are_refused_by_the_name_of_the_bound() {
    let pair = Pair::new(&Version::V2025_11_25, Limits::default(), Limits::default());
    let params = payload(64 * 1024);
    let mut client = Peer::new(pair.client, Method::CallTool, &params, 10_000);
    let mut server = Slow::new(pair.server);
    server.session.call(Time::ZERO, &Call::new(Method::ListRoots)).unwrap();
    let asked = loop {
        let Some(Outbound::Message { message: Message::Request(asked), .. }) = server.session.poll_transmit()
        else {
            continue;
        };
        break asked.id;
    };
    outrun(&mut client, &mut server);
    assert_eq!((client.answered + client.failed.len(), server.session.calls_in_flight()), (10_000, 1));
    assert!(client.answered >= 1_024 + 120, "{} were handled", client.answered);
    assert!(!client.failed.is_empty(), "{asked} is still to be answered");
    for error in &client.failed {
        let CallError::Remote(error) = error else { panic!("{error}") };
        assert!(error.data.as_ref().is_some_and(|data| data.as_str().contains(r#""limit":"waiting""#)));
    }
}

/// The same calls to a server without a pending request: it pauses reading when the queue is full.
#[test]
fn calls_that_outrun_slow_handlers_wait_at_their_caller_while_the_server_asks_nothing() {
    let pair = Pair::new(&Version::V2025_11_25, Limits::default(), Limits::default());
    let params = payload(64 * 1024);
    let mut client = Peer::new(pair.client, Method::CallTool, &params, 10_000);
    let mut server = Slow::new(pair.server);
    outrun(&mut client, &mut server);
    assert_eq!((client.answered, client.failed.len(), client.to_make), (10_000, 0, 0));
    assert_eq!(server.session.requests_in_flight(), 0);
}

/// The server handles 128 MiB at once, and 8 MiB wait: the other calls stay at their caller.
#[test]
fn two_hundred_requests_of_a_mebibyte_at_once_are_all_answered() {
    let mut limits = Limits::default();
    limits.queued_calls = 256 * MIB;
    let pair = Pair::new(&Version::V2025_11_25, limits, Limits::default());
    let mut client = Peer::new(pair.client, Method::CallTool, &payload(MIB), 200);
    let mut server = Slow::new(pair.server);
    outrun(&mut client, &mut server);
    assert_eq!((client.answered, client.failed.len(), client.to_make), (200, 0, 0));
    assert!(server.most_handled <= 128, "{} were handled at once", server.most_handled);
}

/// Both sides send 200 calls of a mebibyte and respond with as much. Each pauses reading, and no side blocks.
#[test]
fn two_peers_that_both_call_two_hundred_times_with_a_mebibyte_never_block_each_other() {
    for peer in two_callers(MIB, None, 200) {
        assert_eq!((peer.answered, peer.failed.len(), peer.to_make), (200, 0, 0));
        assert_eq!((peer.session.calls_in_flight(), peer.session.requests_in_flight()), (0, 0));
    }
}

/// Both sides have twenty handlers that finish at the same time with a mebibyte each: more than the limit waits on both
/// sides, and each side reads the responses of the other.
#[test]
fn large_answers_that_are_all_late_on_both_sides_do_not_block() {
    let pair = Pair::new(&Version::V2025_11_25, Limits::default(), Limits::default());
    let answer = payload(MIB).into_raw();
    let params = payload(64);
    let mut peers = [
        Peer::new(pair.client, Method::CallTool, &params, 20),
        Peer::new(pair.server, Method::CreateMessage, &params, 20),
    ];
    let origin = Arc::new(Origin::new("pipe"));
    let (mut there, mut back) = (Pipe::default(), Pipe::default());
    let mut handled = [Vec::new(), Vec::new()];
    let mut late = true;
    loop {
        let mut moved = false;
        for (peer, handled) in peers.iter_mut().zip(&mut handled) {
            while let Some(event) = peer.session.poll_event() {
                moved = true;
                match event {
                    Event::Request { request, .. } => handled.push(request.id),
                    Event::Outcome { outcome, .. } => {
                        outcome.unwrap();
                        peer.answered += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
            moved |= peer.act();
        }
        let [one, other] = &mut peers;
        moved |= there.write(&mut one.session, &mut one.watch);
        moved |= back.write(&mut other.session, &mut other.watch);
        moved |= there.read(&mut other.session, &origin);
        moved |= back.read(&mut one.session, &origin);
        if moved {
            continue;
        }
        if !std::mem::take(&mut late) {
            break;
        }
        assert_eq!([handled[0].len(), handled[1].len()], [20, 20]);
        for (peer, handled) in peers.iter_mut().zip(&mut handled) {
            for id in handled.drain(..) {
                peer.session.respond(&id, Ok(Reply::Complete(answer.clone())));
            }
        }
    }
    for peer in &peers {
        assert_eq!((peer.answered, peer.session.calls_in_flight()), (20, 0));
    }
}

/// Every tool call sends an elicitation, and the responses are read although no more calls can be handled.
#[test]
fn two_thousand_calls_that_each_elicit_pass_a_server_that_handles_sixteen() {
    let mut limits = Limits::default();
    limits.handling = 16;
    let pair = Pair::new(&Version::V2025_11_25, Limits::default(), limits);
    let (mut client, mut server) = (pair.client, pair.server);
    let origin = Arc::new(Origin::new("pipe"));
    let (mut there, mut back) = (Pipe::default(), Pipe::default());
    let mut watch = Watch::default();
    let mut tools: BTreeMap<RequestId, RequestId> = BTreeMap::new();
    let (mut to_make, mut answered, mut handled, mut most) = (2_000, 0, 0, 0);
    loop {
        let mut moved = false;
        while to_make > 0 && client.has_room() {
            client.call(Time::ZERO, &Call::new(Method::CallTool)).unwrap();
            to_make -= 1;
            moved = true;
        }
        while let Some(event) = client.poll_event() {
            moved = true;
            match event {
                Event::Request { request, .. } => {
                    assert_eq!(request.method, Method::Elicit);
                    client.respond(&request.id, Ok(Reply::Complete(raw(r#"{"action":"accept"}"#))));
                }
                Event::Outcome { outcome, .. } => {
                    outcome.unwrap();
                    answered += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        while let Some(event) = server.poll_event() {
            moved = true;
            match event {
                Event::Request { request, .. } => {
                    handled += 1;
                    most = most.max(handled);
                    let mut ask = Call::new(Method::Elicit);
                    ask.on_behalf_of = Some(request.id.clone());
                    tools.insert(server.call(Time::ZERO, &ask).unwrap(), request.id);
                }
                Event::Outcome { id, outcome } => {
                    outcome.unwrap();
                    handled -= 1;
                    server.respond(&tools.remove(&id).unwrap(), Ok(Reply::empty()));
                }
                other => panic!("{other:?}"),
            }
        }
        moved |= there.write(&mut client, &mut watch);
        moved |= back.write(&mut server, &mut watch);
        moved |= there.read(&mut server, &origin);
        moved |= back.read(&mut client, &origin);
        if !moved {
            break;
        }
    }
    assert_eq!((answered, handled, most), (2_000, 0, 16));
    assert_eq!((client.calls_in_flight(), server.requests_in_flight()), (0, 0));
}

/// Both sides have cancelled their calls, and neither has read that: each queue has only messages that the other side
/// does not need any more. Both pause, then resume, and nothing is lost.
#[test]
fn two_peers_that_hold_back_for_calls_that_were_given_up_read_on_after_a_second() {
    let pair = Pair::new(&Version::V2025_11_25, Limits::default(), Limits::default());
    let params = payload(MIB);
    let mut peers = [
        Peer::new(pair.client, Method::CallTool, &params, 40),
        Peer::new(pair.server, Method::CreateMessage, &params, 40),
    ];
    let origin = Arc::new(Origin::new("pipe"));
    let mut pipes = [Pipe::default(), Pipe::default()];
    let (mut now, mut held) = (0, [false, false]);
    loop {
        let mut moved = false;
        for peer in &mut peers {
            moved |= peer.act();
        }
        for (peer, pipe) in peers.iter_mut().zip(&mut pipes) {
            moved |= pipe.write(&mut peer.session, &mut peer.watch);
            // Every call is cancelled at once.
            for id in 1..=100 {
                peer.session.cancel(&RequestId::from(id), None);
            }
        }
        let [one, other] = &mut peers;
        let [there, back] = &mut pipes;
        moved |= there.read(&mut other.session, &origin);
        moved |= back.read(&mut one.session, &origin);
        if moved {
            continue;
        }
        for ((peer, pipe), held) in peers.iter_mut().zip(&pipes).zip(&mut held) {
            *held |= !peer.session.wants_input();
            let waits = pipe.unwritten > 0 || pipe.filled > 0;
            peer.session.report_sent(at(now), pipe.written, waits);
        }
        if pipes.iter().all(|pipe| pipe.messages.is_empty() && pipe.unwritten == 0) {
            break;
        }
        now += 1;
        assert!(now < 10, "nothing moves: {held:?}");
        for peer in &mut peers {
            peer.session.handle_timeout(at(now));
        }
    }
    for peer in &peers {
        assert_eq!((peer.to_make, peer.session.requests_in_flight()), (0, 0));
    }
}

/// A peer that writes everything before it reads is rejected above the limit, and is not disconnected.
#[test]
fn who_writes_everything_before_reading_is_read_on_after_a_second() {
    let mut server = opened_server("2025-11-25", Limits::default());
    let params = payload(MIB);
    let origin = Arc::new(Origin::new("pipe"));
    let mut id = 0;
    let mut read = |server: &mut Session, now: u64| {
        while id < 200 && server.wants_input() {
            id += 1;
            let request =
                Request { id: RequestId::from(id), method: Method::CallTool, params: Some(params.clone()) };
            server.handle(
                at(now),
                Inbound::Message { message: Message::Request(request), origin: origin.clone() },
            );
            while let Some(event) = server.poll_event() {
                let Event::Request { request, .. } = event else { panic!("{event:?}") };
                server.respond(&request.id, Ok(Reply::Complete(request.params.unwrap().into_raw())));
            }
            server.report_sent(at(now), 4096, true);
        }
        id
    };
    let first = read(&mut server, 0);
    assert!((9..20).contains(&first), "{first} were read");
    assert_eq!(server.poll_timeout(), Some(at(1)));
    server.handle_timeout(at(1));
    assert_eq!(read(&mut server, 1), 200);
    let (mut results, mut refused) = (0, 0);
    while let Some(outbound) = server.poll_transmit() {
        let Outbound::Message { message: Message::Response(response), .. } = outbound else {
            panic!("{outbound:?}")
        };
        match response.outcome {
            Ok(_) => results += 1,
            Err(error) => {
                assert!(error.message.contains("limit `waiting`"), "{error:?}");
                refused += 1;
            }
        }
        while let Some(event) = server.poll_event() {
            let Event::Request { request, .. } = event else { panic!("{event:?}") };
            server.respond(&request.id, Ok(Reply::Complete(request.params.unwrap().into_raw())));
        }
    }
    assert_eq!(results + refused, 200);
    assert!(results >= 12, "{results}");
    assert_eq!(server.requests_in_flight(), 0);
}

/// Handlers that never finish: reading resumes when a request would have timed out, so that cancellations and the end
/// of the stream are read.
#[test]
fn reading_is_held_back_for_no_longer_than_a_request_may_take() {
    let mut limits = Limits::default();
    (limits.handling, limits.waiting) = (1, 1);
    let mut server = opened_server("2025-11-25", limits);
    let list = |id: u64| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#);
    say_at(&mut server, at(5), &list(1).into());
    assert!(server.wants_input());
    say_at(&mut server, at(6), &list(2).into());
    assert!(!server.wants_input(), "one waits, and nothing is asked");
    assert_eq!(requests(&mut server), [RequestId::from(1)]);
    assert_eq!(server.poll_timeout(), Some(at(66)));
    server.handle_timeout(at(65));
    assert!(!server.wants_input());
    server.handle_timeout(at(66));
    assert!(server.wants_input());
    say_at(&mut server, at(66), &list(3).into());
    assert!(sent(&mut server)[0].contains("limit `waiting` of 1 bytes"));
    // Once there was capacity, reading pauses again.
    server.respond(&1.into(), Ok(Reply::empty()));
    assert_eq!(requests(&mut server), [RequestId::from(2)]);
    say_at(&mut server, at(67), &list(4).into());
    assert!(!server.wants_input());
    assert_eq!(server.requests_in_flight(), 2);
}

/// The response to our request is behind the requests of the peer: reading resumes when we send a request.
#[test]
fn reading_that_is_held_back_goes_on_when_something_is_asked() {
    let mut limits = Limits::default();
    (limits.handling, limits.waiting) = (1, 1);
    let mut server = opened_server("2025-11-25", limits);
    for id in 1..=2 {
        say(&mut server, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#));
    }
    assert!(!server.wants_input());
    let asked = server.call(Time::ZERO, &Call::new(Method::ListRoots)).unwrap();
    assert!(server.wants_input());
    say(&mut server, r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#);
    assert!(sent(&mut server).iter().any(|line| line.contains("limit `waiting` of 1 bytes")));
    say(&mut server, &format!(r#"{{"jsonrpc":"2.0","id":{asked},"result":{{"roots":[]}}}}"#));
    assert!(!server.wants_input(), "the answer has come");
}

/// On a link with one exchange per request, a rejection has no other cost for the peer.
#[test]
fn reading_is_not_held_back_where_each_request_has_an_exchange_of_its_own() {
    let mut limits = Limits::default();
    (limits.handling, limits.waiting) = (1, 1);
    let caps = TransportCaps { exchanges: true, ..TransportCaps::default() };
    let mut server = opened_server_over(caps, "2025-11-25", limits);
    for id in 1..=2 {
        say(&mut server, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#));
    }
    assert!(server.wants_input());
    assert!(sent(&mut server)[0].contains("limit `waiting` of 1 bytes"));
}

#[test]
fn a_peer_that_never_reads_stops_our_reading_and_is_given_up() {
    let mut server = opened_server("2025-11-25", Limits::default());
    let answer = payload(64 * 1024).into_raw();
    let (mut read, mut replied) = (0, 0);
    while server.wants_input() {
        read += 1;
        assert!(read < 1_000_000, "reading has no end");
        say(
            &mut server,
            &format!(r#"{{"jsonrpc":"2.0","id":{read},"method":"tools/call","params":{{"name":"t"}}}}"#),
        );
        while let Some(event) = server.poll_event() {
            let Event::Request { request, .. } = event else { panic!("{event:?}") };
            replied += answer.len();
            server.respond(&request.id, Ok(Reply::Complete(answer.clone())));
        }
        server.report_sent(Time::ZERO, 4096, true);
    }
    assert!(replied <= 8 * MIB, "{replied} bytes of results wait");
    // The peer may have much to write before it reads: for a second the server rejects nothing, and then it rejects as many
    // requests as 8 MiB of replies hold.
    assert_eq!(server.poll_timeout(), Some(at(1)));
    server.handle_timeout(at(1));
    let mut refused = 0;
    while server.wants_input() {
        refused += 1;
        assert!(refused < 1_000_000, "reading has no end");
        say(&mut server, &format!(r#"{{"jsonrpc":"2.0","id":"r{refused}","method":"tools/list"}}"#));
        server.report_sent(at(1), 4096, true);
    }
    assert!(requests(&mut server).is_empty());
    assert!(refused > 10_000, "{refused} were refused");
    assert_eq!(server.poll_timeout(), Some(at(30)));
    server.handle_timeout(at(29));
    assert!(server.poll_event().is_none());
    server.handle_timeout(at(30));
    let told = events(&mut server);
    assert!(matches!(told.last(), Some(Event::Closed(CloseCause::Stalled { .. }))));
    assert_eq!((server.requests_in_flight(), server.poll_timeout()), (0, None));
}
