//! Debt and credit: whatever two peers do to each other, no wait is without an end and no queue without a
//! bound.
//!
//! The wires are pipes of 4 KiB in both directions, as a kernel may give, and a side reads only when its
//! session wants input. Messages move through them by their size; their bytes are shared, not copied, so that
//! gigabytes pass in a moment.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot do what it wants to has failed")]

#[path = "session/common.rs"]
#[allow(dead_code, reason = "shared with `session.rs`, which uses more of it")]
mod common;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use mcpjoin_proto::session::{
    Call, CallError, CloseCause, Event, Inbound, Limits, Origin, Outbound, Reply, Session,
};
use mcpjoin_proto::{Message, Method, Payload, RequestId, Time, Version};

use common::*;

const PIPE: usize = 4096;
const MIB: usize = 1024 * 1024;

/// What a message takes on the wire, a little more or less.
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

/// A pipe: at most 4 KiB are between its two ends.
#[derive(Default)]
struct Pipe {
    filled: usize,
    /// What is written and not read yet, with the bytes of it that the reader still misses.
    messages: VecDeque<(Message, usize)>,
    /// Bytes of the last message that the writer still has to write.
    unwritten: usize,
    written: u64,
}

impl Pipe {
    /// The writer writes what fits. Says whether anything moved.
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

    /// The reader reads while it wants to. Says whether anything moved.
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

/// What waits in a session's two lanes, as seen from outside.
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

/// Parameters of that size, read once from bytes, so that nobody scans them again.
fn payload(bytes: usize) -> Payload {
    let line = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"x":"{}"}}}}"#, "x".repeat(bytes - 8));
    let limits = mcpjoin_proto::DecodeLimits::default();
    match mcpjoin_proto::decode::decode(&line.into(), &limits) {
        Ok(mcpjoin_proto::decode::Decoded::Message(Message::Notification(told))) => told.params.unwrap(),
        other => panic!("{other:?}"),
    }
}

/// One of our peers: calls as often as it has room, and answers at once with what it was asked.
struct Peer {
    session: Session,
    method: Method,
    params: Payload,
    to_make: usize,
    answered: usize,
    failed: Vec<CallError>,
    watch: Watch,
    /// How many bytes an answer has; `None`: what was asked.
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

/// Two of our peers over pipes of 4 KiB, until nothing moves any more.
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

/// Small questions with large answers: the answers cannot leave as fast as the questions come.
#[test]
fn small_questions_with_large_answers_block_nobody() {
    for peer in two_callers(64, Some(64 * 1024), 5_000) {
        assert_eq!((peer.answered, peer.failed.len(), peer.to_make), (5_000, 0, 0));
        let message = 64 * 1024 + 96;
        assert!(peer.watch.most_replies <= 8 * MIB + message, "{} bytes of replies", peer.watch.most_replies);
    }
}

/// The bound of handled requests is 1,024 and that of waiting ones 8 MiB; a caller may have 10,000 calls in
/// flight. Whoever calls so much at handlers that take their time is refused by name, and nothing stops.
#[test]
fn calls_that_outrun_slow_handlers_are_refused_by_the_name_of_the_bound() {
    let pair = Pair::new(&Version::V2025_11_25, Limits::default(), Limits::default());
    let params = payload(64 * 1024);
    let mut client = Peer::new(pair.client, Method::CallTool, &params, 10_000);
    let mut server = pair.server;
    let origin = Arc::new(Origin::new("pipe"));
    let (mut there, mut back, mut watch) = (Pipe::default(), Pipe::default(), Watch::default());
    let mut handled = VecDeque::new();
    loop {
        let mut moved = client.act();
        while let Some(event) = server.poll_event() {
            moved = true;
            let Event::Request { request, .. } = event else { panic!("{event:?}") };
            handled.push_back(request.id);
        }
        moved |= there.write(&mut client.session, &mut client.watch);
        moved |= back.write(&mut server, &mut watch);
        moved |= there.read(&mut server, &origin);
        moved |= back.read(&mut client.session, &origin);
        if !moved {
            // Only now does a handler come to its end.
            let Some(id) = handled.pop_front() else { break };
            server.respond(&id, Ok(Reply::empty()));
        }
    }
    assert_eq!(client.answered + client.failed.len(), 10_000);
    assert!(client.answered >= 1_024 + 120, "{} were handled", client.answered);
    for error in &client.failed {
        let CallError::Remote(error) = error else { panic!("{error}") };
        assert!(error.data.as_ref().is_some_and(|data| data.as_str().contains(r#""limit":"waiting""#)));
    }
}

/// Every tool call asks its user, and the answers are read although no more calls can be handled.
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
        server.link_sent(Time::ZERO, 4096, true);
    }
    assert!(replied <= 8 * MIB, "{replied} bytes of results wait");
    assert_eq!(server.poll_timeout(), Some(at(30)));
    server.handle_timeout(at(29));
    assert!(server.poll_event().is_none());
    server.handle_timeout(at(30));
    let told = events(&mut server);
    assert!(matches!(told.last(), Some(Event::Closed(CloseCause::Stalled { .. }))));
    assert_eq!((server.requests_in_flight(), server.poll_timeout()), (0, None));
}
