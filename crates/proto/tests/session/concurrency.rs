//! Tests of group E of the catalogue: many requests at once, races, floods, and an end in the middle of them.

use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::session::{
    Call, CallRefused, Event, Inbound, Limits, NotifyRefused, Origin, Reply, Route, State, TransportEnd,
};
use mcpjoin_proto::types::{LogMessageParams, LoggingLevel};
use mcpjoin_proto::{Method, Notification, Payload, Raw, Time, Version};

use crate::common::*;

/// A small random generator (xorshift), seeded by each test, so that every run is the same.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }
}

const ERAS: [Version; 2] = [Version::V2025_11_25, Version::V2026_07_28];

#[test]
fn a_call_that_is_refused_keeps_its_parameters_and_one_that_is_made_gives_them_up() {
    for version in &ERAS {
        let mut limits = Limits::default();
        limits.in_flight = 1;
        limits.message = 20_000;
        let mut pair = Pair::new(version, limits, Limits::default());
        let call = |length: usize| {
            let params =
                raw(&format!("{{\"name\":\"echo\",\"arguments\":{{\"a\":\"{}\"}}}}", "x".repeat(length)));
            let mut call = Call::new(Method::CallTool).with_params(params);
            call.lacks_meta = true;
            call.progress = true;
            call
        };
        let mut large = call(20_000);
        for _ in 0..2 {
            let refused = pair.client.call_taking(Time::ZERO, &mut large);
            assert!(matches!(refused, Err(CallRefused::TooLarge { limit: 20_000, .. })), "{refused:?}");
            assert!(large.params.is_some());
        }
        let (mut first, mut second) = (call(10_000), call(10));
        pair.client.call_taking(Time::ZERO, &mut first).unwrap();
        assert!(first.params.is_none());
        let refused = pair.client.call_taking(Time::ZERO, &mut second);
        assert!(matches!(refused, Err(CallRefused::Full { limit: "in_flight", .. })), "{refused:?}");
        assert!(second.params.is_some());
        pair.exchange();
        assert_eq!(requests(&mut pair.server).len(), 1, "what was sent is a request");
    }
}

#[test]
fn e89_ten_thousand_replies_in_any_order_find_their_requests() {
    for version in &ERAS {
        for shuffled in [false, true] {
            let mut limits = Limits::default();
            limits.handling = 10_000;
            let mut pair = Pair::new(version, Limits::default(), limits);
            for n in 0..10_000 {
                let call = Call::new(Method::CallTool).with_params(raw(&format!("{{\"n\":{n}}}")));
                pair.client.call(Time::ZERO, &call).unwrap();
            }
            assert!(matches!(
                pair.client.call(Time::ZERO, &Call::new(Method::CallTool)),
                Err(CallRefused::Full { limit: "in_flight", value: 10_000 })
            ));
            pair.exchange();
            let mut handled = requests(&mut pair.server);
            assert_eq!(handled.len(), 10_000);
            handled.reverse();
            let mut dice = Dice(42);
            for place in (1..handled.len()).rev().filter(|_| shuffled) {
                handled.swap(place, dice.roll(place + 1));
            }
            for id in &handled {
                pair.server.respond(id, Ok(Reply::Complete(raw(&format!("{{\"echo\":{id}}}")))));
            }
            pair.exchange();
            let outcomes = outcomes(&mut pair.client);
            assert_eq!(outcomes.len(), 10_000);
            for ((id, outcome), wanted) in outcomes.iter().zip(&handled) {
                assert_eq!(id, wanted, "in the order of the answers");
                let Ok(Reply::Complete(result)) = outcome else { panic!("{outcome:?}") };
                assert_eq!(result.member("echo").unwrap().as_str(), id.to_string());
            }
            assert_eq!((pair.client.calls_in_flight(), pair.server.requests_in_flight()), (0, 0));
        }
    }
}

/// Each request gets its response and is cancelled at once; the order in which the peers read them is random.
#[test]
fn e90_a_cancel_that_races_with_its_reply_ends_the_call_once() {
    for version in &ERAS {
        let mut pair = Pair::new(version, Limits::default(), Limits::default());
        let origin = Arc::new(Origin::new("memory"));
        let mut dice = Dice(7);
        let (mut answered, mut cancelled) = (0_u32, 0_u32);
        for _ in 0..50_000 {
            let id = pair.client.call(Time::ZERO, &Call::new(Method::CallTool)).unwrap();
            pair.exchange();
            assert_eq!(requests(&mut pair.server), std::slice::from_ref(&id));
            let mut steps = ["reply", "cancel", "to client", "to server"];
            for place in (1..steps.len()).rev() {
                steps.swap(place, dice.roll(place + 1));
            }
            let mut wanted = true;
            let mut ends = 0;
            for step in steps {
                match step {
                    "reply" => pair.server.respond(&id, Ok(Reply::empty())),
                    "cancel" => {
                        wanted = pair.client.calls_in_flight() == 1;
                        pair.client.cancel(&id, None);
                    }
                    "to client" => {
                        while let Some(outbound) = pair.server.poll_transmit() {
                            pair.client.handle(Time::ZERO, arrives(outbound, &origin));
                        }
                    }
                    _ => {
                        while let Some(outbound) = pair.client.poll_transmit() {
                            pair.server.handle(Time::ZERO, arrives(outbound, &origin));
                        }
                    }
                }
                ends += outcomes(&mut pair.client).len();
            }
            pair.exchange();
            ends += outcomes(&mut pair.client).len();
            events(&mut pair.server);
            // Either the response precedes the cancellation, or the request is cancelled and nothing is reported.
            assert_eq!(ends, usize::from(!wanted), "{steps:?}");
            if ends == 1 {
                answered += 1;
            } else {
                cancelled += 1;
            }
            assert_eq!(pair.client.calls_in_flight(), 0);
            assert_eq!(pair.server.requests_in_flight(), 0);
        }
        assert!(answered > 5_000 && cancelled > 5_000, "{answered} and {cancelled}: no race");
        assert_eq!(pair.client.poll_timeout(), None, "no deadline is left");
    }
}

#[test]
fn e91_a_dropped_call_is_cancelled_once_and_its_late_reply_dropped() {
    let mut client = opened_client(Limits::default());
    let id = call(&mut client, Method::CallTool);
    sent(&mut client);
    client.cancel(&id, None);
    client.cancel(&id, None);
    assert_eq!(
        sent(&mut client),
        [format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)]
    );
    say(&mut client, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    assert!(outcomes(&mut client).is_empty());
}

#[test]
fn e95_a_storm_of_requests_and_cancels_leaves_nothing_behind() {
    let mut limits = Limits::default();
    limits.handling = 256;
    let mut server = opened_server("2025-11-25", limits);
    // All slots are taken by handlers that never finish.
    for id in 0..256 {
        say(&mut server, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#));
    }
    assert_eq!(requests(&mut server).len(), 256);
    for id in 1_000..101_000 {
        say(&mut server, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#));
        say(
            &mut server,
            &format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
            ),
        );
        assert_eq!(server.requests_in_flight(), 256);
    }
    assert!(events(&mut server).is_empty(), "no handler has received of any");
    assert!(sent(&mut server).is_empty(), "and none was refused: what was cancelled takes no room");
    // With free slots each request is dispatched and finished.
    let mut server = opened_server("2025-11-25", Limits::default());
    let mut running = 0_i64;
    for id in 0..100_000 {
        say(&mut server, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#));
        say(
            &mut server,
            &format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
            ),
        );
        for event in events(&mut server) {
            running += match event {
                Event::Request { .. } => 1,
                Event::Cancelled { .. } => -1,
                other => panic!("{other:?}"),
            };
        }
        assert_eq!(running, 0);
    }
    assert_eq!(server.requests_in_flight(), 0);
}

#[test]
fn e96_the_end_of_input_with_a_thousand_in_flight_is_drained_for_the_time_of_grace() {
    let mut limits = Limits::default();
    limits.handling = 900;
    let mut server = opened_server("2025-11-25", limits);
    for id in 0..1_000 {
        say(&mut server, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#));
    }
    assert_eq!(requests(&mut server).len(), 900);
    server.handle(at(5), Inbound::Closed { cause: TransportEnd::end_of_stream() });
    assert_eq!(server.state(), State::ShuttingDown);
    for id in 0..50_i64 {
        server.respond(&id.into(), Ok(Reply::empty()));
    }
    assert_eq!(sent(&mut server).len(), 50);
    assert_eq!(requests(&mut server).len(), 50, "what waited goes on");
    assert_eq!(server.poll_timeout(), Some(at(15)));
    server.handle_timeout(at(15));
    let told = events(&mut server);
    assert_eq!(told.iter().filter(|event| matches!(event, Event::Cancelled { .. })).count(), 900);
    assert_eq!(told.len(), 901, "no handler begins now");
    assert!(matches!(told.last(), Some(Event::Closed(_))));
    let refused = sent(&mut server);
    assert_eq!(refused.len(), 950, "every request has its answer");
    assert!(refused.iter().all(|line| line.contains("the server ended before")));
    assert_eq!(server.requests_in_flight(), 0);
}

#[test]
fn e97_a_peer_that_reads_no_notifications_fills_no_memory() {
    let mut limits = Limits::default();
    limits.queued_calls = 64 * 1024;
    limits.queued_replies = 64 * 1024;
    let mut pair = Pair::new(&Version::V2025_11_25, Limits::default(), limits);
    // Log messages of a request: dropped and counted.
    let mut wanted = Call::new(Method::CallTool);
    wanted.progress = true;
    let id = pair.client.call(Time::ZERO, &wanted).unwrap();
    pair.exchange();
    requests(&mut pair.server);
    let message = LogMessageParams::new(LoggingLevel::Info, Raw::string(&"x".repeat(1000)));
    for _ in 0..10_000 {
        pair.server.log(&id, &message).unwrap();
    }
    assert!(pair.server.dropped_logs() > 9_900, "{}", pair.server.dropped_logs());
    // Other notifications, with and without a request: rejected with the name of the limit.
    let own = Notification {
        method: Method::parse("notifications/own"),
        params: Some(Payload::from_raw(raw(&format!("{{\"x\":\"{}\"}}", "x".repeat(1000))))),
    };
    for route in [Route::ReplyTo(id), Route::Session] {
        let refused = (0..10_000).filter(|_| pair.server.notify(own.clone(), route.clone()).is_err()).count();
        assert!(refused > 9_900, "{route:?}: {refused}");
        let refused = pair.server.notify(own.clone(), route.clone()).unwrap_err();
        assert!(matches!(refused, NotifyRefused::NotAllowed(CallRefused::Full { .. })), "{refused}");
    }
    // Updates of a thousand resources: each at most once.
    let waiting = sent(&mut pair.server).iter().map(String::len).sum::<usize>();
    assert!(waiting < 2 * 64 * 1024 + 4096, "{waiting} bytes waited");
}

#[test]
fn e97_streams_that_are_opened_and_cancelled_fill_no_memory() {
    let mut server = server(Limits::default().with_queued_calls(1_000).with_queued_replies(1_000));
    server.open(Time::ZERO);
    for id in 0..10_000 {
        if !server.wants_input() {
            break;
        }
        say(
            &mut server,
            &format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"subscriptions/listen","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}},"notifications":{{}}}}}}"#
            ),
        );
        say(
            &mut server,
            &format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
            ),
        );
    }
    let queued = sent(&mut server);
    assert!(queued.iter().map(String::len).sum::<usize>() < 5_000, "{} messages", queued.len());
    assert!(queued[0].contains("queued_calls"), "{}", queued[0]);
}

#[test]
fn e97_long_ids_and_method_names_count_as_what_they_weigh() {
    let mut limits = Limits::default();
    limits.queued_replies = 64 * 1024;
    let mut server = opened_server("2025-11-25", limits);
    let long = "i".repeat(4000);
    let mut pings = 0;
    while server.wants_input() {
        say(&mut server, &format!(r#"{{"jsonrpc":"2.0","id":"{long}","method":"ping"}}"#));
        pings += 1;
        assert!(pings < 100, "64 KiB of replies with ids of 4 kB");
    }
    let mut limits = Limits::default();
    (limits.handling, limits.waiting) = (1, 64 * 1024);
    let mut server = opened_server("2025-11-25", limits);
    for id in 0..100 {
        say(&mut server, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"x/{long}"}}"#));
    }
    let refused = sent(&mut server).iter().filter(|line| line.contains("`waiting`")).count();
    assert!(refused > 80, "{refused} of 100 requests of 4 kB were refused at 64 KiB");
}

#[test]
fn e98_a_reply_in_flight_at_the_end_of_input_is_sent() {
    let mut server = opened_server("2025-11-25", Limits::default());
    say(&mut server, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    requests(&mut server);
    server.handle(Time::ZERO, Inbound::Closed { cause: TransportEnd::end_of_stream() });
    assert!(!server.wants_input());
    server.respond(&1.into(), Ok(Reply::empty()));
    assert_eq!(sent(&mut server), [r#"{"jsonrpc":"2.0","id":1,"result":{}}"#]);
    server.report_sent(Time::ZERO, 10, true);
    assert!(events(&mut server).is_empty(), "the reply is still on its way");
    server.report_sent(Time::ZERO, 20, false);
    assert!(matches!(&events(&mut server)[..], [Event::Closed(_)]));
}

#[test]
fn e97_requests_that_wait_count_with_what_is_kept_beside_them() {
    let mut limits = Limits::default();
    limits.handling = 1;
    let mut server = opened_server("2025-11-25", limits);
    for id in 0..40_000 {
        say(&mut server, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#));
    }
    // Each of them takes about 580 bytes; 8 MiB of requests may take 16 MiB.
    let refused = sent(&mut server).iter().filter(|line| line.contains("`waiting`")).count();
    assert!(refused > 40_000 - (16 << 20) / 580, "{refused} of 40,000 requests were refused");
    assert!(refused < 25_000, "{refused}: ten thousand calls at once are taken");
}

/// An idle session frees its memory and keeps what is pending.
#[test]
fn a_session_that_gives_its_room_back_forgets_nothing_that_is_under_way() {
    let mut pair = Pair::new(&Version::V2025_11_25, Limits::default(), Limits::default());
    // Many at once, so that there is memory to free.
    let calls: Vec<_> = (0..200).map(|_| call(&mut pair.client, Method::ListTools)).collect();
    pair.client.notify(changed(), Route::Session).unwrap();
    pair.client.shrink();
    pair.exchange();
    pair.server.shrink();
    let asked = requests(&mut pair.server);
    assert_eq!((asked.len(), pair.client.calls_in_flight()), (200, 200));
    for id in &asked {
        pair.server.shrink();
        pair.server.respond(id, Ok(Reply::empty()));
        pair.server.shrink();
    }
    pair.exchange();
    pair.client.shrink();
    let answered: Vec<_> =
        outcomes(&mut pair.client).into_iter().map(|(id, outcome)| outcome.map(|_| id)).collect();
    assert_eq!(answered, calls.into_iter().map(Ok).collect::<Vec<_>>());
    assert_eq!((pair.client.calls_in_flight(), pair.server.requests_in_flight()), (0, 0));
}

fn changed() -> Notification {
    Notification { method: Method::RootsListChanged, params: None }
}

#[test]
fn a_request_does_not_time_out_while_the_server_waits_for_an_answer() {
    let mut limits = Limits::default();
    limits.request = Duration::from_secs(10);
    limits.request_total = Duration::from_secs(35);
    let mut client = opened_client(limits);
    let id = call(&mut client, Method::CallTool);
    say(&mut client, r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}"#);
    assert_eq!(requests(&mut client).len(), 1);
    for seconds in [10, 20, 30] {
        client.handle_timeout(at(seconds));
        assert!(outcomes(&mut client).is_empty(), "after {seconds} s");
    }
    // Nobody answers for ever.
    client.handle_timeout(at(35));
    assert_eq!(
        outcomes(&mut client).first().map(|(id, outcome)| (id.clone(), outcome.is_err())),
        Some((id, true))
    );

    let mut client = opened_client(Limits::default().with_request(Duration::from_secs(10)));
    call(&mut client, Method::CallTool);
    say(&mut client, r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}"#);
    let question = requests(&mut client).remove(0);
    client.handle_timeout(at(10));
    client.respond(&question, Ok(Reply::Complete(raw("{}"))));
    client.handle_timeout(at(20));
    assert_eq!(outcomes(&mut client).len(), 1, "after the answer the server has its time again, and no more");
}
