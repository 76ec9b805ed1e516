//! Tests of group B of the catalogue: the rules of JSON-RPC, at the level of the session.

use std::time::Duration;

use bytes::Bytes;
use mcpjoin_proto::session::{
    Call, CallError, Event, Limits, NotifyRefused, Outbound, Reply, TransportCaps, Violation,
};
use mcpjoin_proto::{Method, RequestId, Time};

use crate::common::*;

#[test]
fn b25_a_batch_where_none_is_allowed_is_one_error_with_a_null_id() {
    let mut server = opened_server("2025-11-25", Limits::default());
    say(
        &mut server,
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#,
    );
    let replies = sent(&mut server);
    assert_eq!(replies.len(), 1);
    assert!(replies[0].starts_with(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"#), "{replies:?}");
    say(&mut server, r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#);
    assert_eq!(sent(&mut server), [r#"{"jsonrpc":"2.0","id":3,"result":{}}"#]);
}

#[test]
fn b26_a_batch_where_allowed_has_at_most_100_parts() {
    let batch = |parts: usize| format!("[{}]", vec![r#"{"jsonrpc":"2.0","method":"x"}"#; parts].join(","));
    let mut server = opened_server("2025-03-26", Limits::default());
    say(&mut server, &batch(100));
    assert_eq!(sent(&mut server).len(), 0, "notifications are not answered");
    assert_eq!(events(&mut server).len(), 100);
    for refused in [batch(101), batch(1_000_000), "[]".to_owned()] {
        say(&mut server, &refused);
        let replies = sent(&mut server);
        assert_eq!(replies.len(), 1);
        assert!(replies[0].contains(r#""id":null,"error":{"code":-32600"#), "{replies:?}");
        assert_eq!(violations(&mut server), 1);
    }
}

#[test]
fn b31_the_second_request_of_an_id_is_refused_and_the_first_completes() {
    let mut server = opened_server("2025-11-25", Limits::default());
    say(&mut server, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    say(&mut server, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#);
    assert_eq!(requests(&mut server), [RequestId::from(1)]);
    assert!(sent(&mut server)[0].contains("-32600"));
    server.respond(&1.into(), Ok(Reply::empty()));
    assert_eq!(sent(&mut server), [r#"{"jsonrpc":"2.0","id":1,"result":{}}"#]);
}

#[test]
fn b35_a_method_that_the_revision_does_not_have_is_not_found() {
    let mut server = opened_server("2025-11-25", Limits::default());
    say(&mut server, r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#);
    assert!(sent(&mut server)[0].contains(r#""id":1,"error":{"code":-32601"#));
    assert!(requests(&mut server).is_empty());
}

#[test]
fn b36_an_unknown_notification_is_never_answered() {
    let mut server = opened_server("2025-11-25", Limits::default());
    say(&mut server, r#"{"jsonrpc":"2.0","method":"notifications/unknown","params":{"a":[]}}"#);
    say(&mut server, r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"t"}}"#);
    assert!(sent(&mut server).is_empty());
}

#[test]
fn b38_parameters_that_are_no_object_are_refused_and_missing_ones_are_none() {
    let mut server = opened_server("2025-11-25", Limits::default());
    for params in ["[]", "\"x\"", "7", "null", "true"] {
        say(&mut server, &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{params}}}"#));
        assert!(sent(&mut server)[0].contains(r#""id":1,"error":{"code":-32602"#), "{params}");
        assert!(requests(&mut server).is_empty());
    }
    say(&mut server, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    assert_eq!(requests(&mut server).len(), 1);
    for method in ["notifications/cancelled", "notifications/progress"] {
        for params in ["", ",\"params\":{}", ",\"params\":{\"requestId\":[]}", ",\"params\":[]"] {
            say(&mut server, &format!(r#"{{"jsonrpc":"2.0","method":"{method}"{params}}}"#));
        }
    }
    assert!(sent(&mut server).is_empty());
    assert_eq!(server.requests_in_flight(), 1);
}

#[test]
fn b45_a_response_to_nothing_is_reported_and_harms_nothing() {
    let mut client = opened_client(Limits::default());
    let id = call(&mut client, Method::ListTools);
    say(&mut client, r#"{"jsonrpc":"2.0","id":777,"result":{}}"#);
    assert!(matches!(
        &events(&mut client)[..],
        [Event::Violation(Violation::UnknownResponse { id: Some(unknown) })] if *unknown == RequestId::from(777)
    ));
    say(&mut client, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    assert_eq!(outcomes(&mut client), [(id, Ok(Reply::empty()))]);
}

#[test]
fn b46_an_id_of_the_other_type_is_another_id() {
    let mut client = opened_client(Limits::default());
    let id = call(&mut client, Method::ListTools);
    say(&mut client, &format!(r#"{{"jsonrpc":"2.0","id":"{id}","result":{{}}}}"#));
    assert!(outcomes(&mut client).is_empty());
    assert_eq!(client.calls_in_flight(), 1);
}

#[test]
fn b47_the_first_of_two_responses_counts() {
    let mut client = opened_client(Limits::default());
    let id = call(&mut client, Method::ListTools);
    for content in 1..=2 {
        say(&mut client, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"n":{content}}}}}"#));
    }
    let told = events(&mut client);
    assert!(
        matches!(&told[0], Event::Outcome { outcome: Ok(Reply::Complete(result)), .. } if result.as_str() == r#"{"n":1}"#)
    );
    assert!(matches!(&told[1], Event::Violation(Violation::LateResponse { id: late }) if *late == id));
    assert_eq!(told.len(), 2);
}

#[test]
fn b48_a_response_after_timeout_or_cancel_is_dropped_and_its_id_never_used_again() {
    let mut client = opened_client(Limits::default());
    let cancelled = call(&mut client, Method::ListTools);
    client.cancel(&cancelled, None);
    let timed_out =
        client.call(Time::ZERO, &Call::new(Method::ListTools).with_timeout(Duration::from_secs(1))).unwrap();
    client.handle_timeout(at(1));
    assert_eq!(outcomes(&mut client).len(), 1, "the one that timed out");
    let next = call(&mut client, Method::ListTools);
    assert!(next != cancelled && next != timed_out);
    for late in [cancelled, timed_out] {
        say(&mut client, &format!(r#"{{"jsonrpc":"2.0","id":{late},"result":{{"late":true}}}}"#));
    }
    assert!(outcomes(&mut client).is_empty());
    say(&mut client, &format!(r#"{{"jsonrpc":"2.0","id":{next},"result":{{}}}}"#));
    assert_eq!(outcomes(&mut client), [(next, Ok(Reply::empty()))]);
}

#[test]
fn what_crosses_our_cancellation_breaks_no_rule_and_a_second_response_does() {
    let mut client = opened_client(Limits::default());
    let cancelled = call(&mut client, Method::ListTools);
    client.cancel(&cancelled, None);
    let timed_out =
        client.call(Time::ZERO, &Call::new(Method::ListTools).with_timeout(Duration::from_secs(1))).unwrap();
    client.handle_timeout(at(1));
    for late in [cancelled, timed_out] {
        let progress = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{late},"progress":1}}}}"#
        );
        let response = format!(r#"{{"jsonrpc":"2.0","id":{late},"result":{{}}}}"#);
        say(&mut client, &progress);
        say(&mut client, &response);
        assert_eq!(violations(&mut client), 0);
        say(&mut client, &progress);
        say(&mut client, &response);
        assert_eq!(violations(&mut client), 2, "progress and a response after the response");
    }
}

#[test]
fn b49_an_error_of_an_odd_shape_fails_its_call_readably() {
    for error in [r#"{"message":"x"}"#, r#"{"code":"x","message":"x"}"#, r#""x""#, "7", "[]", r#"{"code":1}"#]
    {
        let mut client = opened_client(Limits::default());
        let id = call(&mut client, Method::ListTools);
        say(&mut client, &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
        let outcomes = outcomes(&mut client);
        assert_eq!(outcomes.len(), 1, "{error}");
        assert!(!outcomes[0].1.as_ref().unwrap_err().to_string().is_empty());
        assert_eq!(client.calls_in_flight(), 0);
    }
    let mut client = opened_client(Limits::default());
    let id = call(&mut client, Method::ListTools);
    say(
        &mut client,
        &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":1099511627776,"message":"x"}}}}"#),
    );
    let Err(CallError::Remote(error)) = &outcomes(&mut client)[0].1 else { panic!("an error of the peer") };
    assert_eq!(error.code, 1_099_511_627_776);
}

#[test]
fn b51_a_million_progress_in_a_second_is_bounded_and_extends_nothing_past_the_total() {
    // Outbound: only the newest progress is queued.
    let mut server = opened_server("2025-11-25", Limits::default());
    say(
        &mut server,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":"p"}}}"#,
    );
    requests(&mut server);
    for step in 1..=1_000_000 {
        server.progress(&1.into(), f64::from(step), None, None).unwrap();
    }
    server.respond(&1.into(), Ok(Reply::empty()));
    let lines = sent(&mut server);
    assert_eq!(lines.len(), 2, "one progress and the result");
    assert!(lines[0].contains(r#""progress":1000000"#) && lines[1].contains("result"), "{lines:?}");

    // Inbound: progress does not extend the total timeout.
    let mut client = opened_client(Limits::default());
    let mut wanted = Call::new(Method::CallTool).with_timeout(Duration::from_secs(10));
    (wanted.progress, wanted.total) = (true, Some(Duration::from_secs(20)));
    let id = client.call(Time::ZERO, &wanted).unwrap();
    let mut told = 0;
    for step in 1..=1_000_000_u32 {
        let now = Time::from_epoch(Duration::from_secs(9) + Duration::from_micros(u64::from(step)));
        let line = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{id},"progress":{step}}}}}"#
        );
        say_at(&mut client, now, &line.into());
        told += events(&mut client).len();
    }
    assert_eq!(told, 1_000_000);
    client.handle_timeout(at(10));
    assert!(outcomes(&mut client).is_empty());
    assert_eq!(
        client.poll_timeout(),
        Some(at(20)),
        "10 s and 10 s more would be 20.0 s: the total is the bound"
    );
    client.handle_timeout(at(20));
    assert!(matches!(&outcomes(&mut client)[..], [(_, Err(CallError::TimedOut { .. }))]));
}

#[test]
fn what_is_remembered_of_a_modern_client_does_not_keep_its_message() {
    let mut server = server(Limits::default());
    server.open(Time::ZERO);
    for length in [100, 100_000] {
        let words = "x".repeat(length);
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{{"large":"{}"}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"{words}","version":"1"}},"io.modelcontextprotocol/clientCapabilities":{{"experimental":{{"{words}":{{"a":"{words}"}}}}}}}}}}}}"#,
            "y".repeat(1 << 20)
        );
        let line = Bytes::from(text);
        say_at(&mut server, Time::ZERO, &line);
        let asked = events(&mut server);
        assert!(matches!(asked.last(), Some(Event::Request { .. })), "{length}");
        drop(asked);
        server.respond(&RequestId::from(1), Ok(Reply::empty()));
        assert_eq!(sent(&mut server).len(), 1);
        assert!(line.is_unique(), "{length}");
    }
}

#[test]
fn a_stream_is_closed_once_and_only_where_the_client_comes_back() {
    let exchanges = TransportCaps { exchanges: true, ..TransportCaps::default() };
    let ask =
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":7}}}"#;
    for (version, caps, closes) in [
        ("2025-11-25", exchanges, true),
        ("2025-11-25", TransportCaps::default(), false),
        ("2025-06-18", exchanges, false),
    ] {
        let mut server = opened_server_over(caps, version, Limits::default());
        say(&mut server, ask);
        events(&mut server);
        let id = RequestId::from(7);
        server.progress(&id, 1.0, None, None).unwrap();
        for _ in 0..1_000 {
            server.close_stream(&id).unwrap();
        }
        let sent: Vec<_> = std::iter::from_fn(|| server.poll_transmit()).collect();
        assert!(matches!(sent[0], Outbound::Message { .. }), "{sent:?}");
        let expected = [Outbound::CloseStream { id: id.clone() }];
        assert_eq!(sent[1..], expected[..usize::from(closes)], "{version} {caps:?}");
        server.respond(&id, Ok(Reply::empty()));
        assert!(matches!(server.poll_transmit(), Some(Outbound::Message { .. })));
        let late = server.close_stream(&id);
        assert_eq!(late, if closes { Err(NotifyRefused::NoSuchRequest) } else { Ok(()) });
        assert_eq!(server.poll_transmit(), None);
    }
}
