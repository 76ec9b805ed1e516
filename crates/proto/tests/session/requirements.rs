//! Tests of the requirements of the project's source documents for a session, by number.

use mcpjoin_proto::session::{
    Call, CallError, CallRefused, EraChoice, Event, Inbound, Limits, Reply, State, TransportEnd,
};
use mcpjoin_proto::{Era, ErrorObject, Method, Notification, RequestId, Time, Version};

use crate::common::*;

#[test]
fn r1_a_request_without_parameters_has_no_params() {
    let mut client = opened_client(Limits::default());
    call(&mut client, Method::Ping);
    assert_eq!(sent(&mut client), [r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#]);
}

#[test]
fn r2_a_notification_has_no_id() {
    let mut client = opened_client(Limits::default());
    let changed = Notification { method: Method::RootsListChanged, params: None };
    client.notify(changed, mcpjoin_proto::session::Route::Session).unwrap();
    assert_eq!(sent(&mut client), [r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#]);
}

#[test]
fn r4_a_result_that_is_null_is_a_success() {
    let mut client = opened_client(Limits::default());
    let id = call(&mut client, Method::ListTools);
    say(&mut client, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":null}}"#));
    assert_eq!(outcomes(&mut client), [(id, Ok(Reply::Complete(raw("null"))))]);
}

#[test]
fn r12_a_malformed_line_is_reported_and_harms_no_request() {
    let mut client = opened_client(Limits::default());
    let id = call(&mut client, Method::ListTools);
    say(&mut client, "{broken");
    assert!(matches!(&events(&mut client)[..], [Event::Violation(_)]));
    say(&mut client, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    assert_eq!(outcomes(&mut client).len(), 1);
}

#[test]
fn r13_ids_begin_at_one_and_grow() {
    let mut client = client(EraChoice::Auto, Limits::default());
    client.open(Time::ZERO);
    assert!(sent(&mut client)[0].contains(r#""id":1,"#));
    let mut client = opened_client(Limits::default());
    let ids: Vec<RequestId> = (0..1_000).map(|_| call(&mut client, Method::Ping)).collect();
    assert_eq!(ids, (2..1_002).map(RequestId::from).collect::<Vec<_>>());
}

#[test]
fn r15_a_reply_with_another_id_is_kept_for_its_owner() {
    let mut client = opened_client(Limits::default());
    let (first, second) = (call(&mut client, Method::ListTools), call(&mut client, Method::ListPrompts));
    say(&mut client, &format!(r#"{{"jsonrpc":"2.0","id":{second},"result":{{}}}}"#));
    assert_eq!(outcomes(&mut client), [(second, Ok(Reply::empty()))]);
    assert_eq!(client.calls_in_flight(), 1);
    say(&mut client, &format!(r#"{{"jsonrpc":"2.0","id":{first},"result":{{}}}}"#));
    assert_eq!(outcomes(&mut client), [(first, Ok(Reply::empty()))]);
}

#[test]
fn r16_replies_in_reverse_order_find_their_requests() {
    let mut client = opened_client(Limits::default());
    let ids: Vec<RequestId> = (0..50).map(|_| call(&mut client, Method::ListTools)).collect();
    for id in ids.iter().rev() {
        say(&mut client, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"of":{id}}}}}"#));
    }
    for (id, outcome) in outcomes(&mut client) {
        assert_eq!(outcome, Ok(Reply::Complete(raw(&format!("{{\"of\":{id}}}")))));
    }
}

#[test]
fn r25_initialize_is_answered_by_the_session_itself() {
    let mut server = server(Limits::default());
    server.open(Time::ZERO);
    say(
        &mut server,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
    );
    let reply = &sent(&mut server)[0];
    for part in
        [r#""protocolVersion":"2024-11-05""#, r#""tools":{"#, r#""serverInfo":{"name":"s","version":"1"}"#]
    {
        assert!(reply.contains(part), "{reply}");
    }
    assert!(events(&mut server).is_empty(), "no handler is asked");
}

#[test]
fn r26_ping_is_answered_by_the_session_itself() {
    let mut server = opened_server("2025-11-25", Limits::default());
    say(&mut server, r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#);
    assert_eq!(sent(&mut server), [r#"{"jsonrpc":"2.0","id":"p","result":{}}"#]);
    assert!(events(&mut server).is_empty(), "no handler is asked");
}

#[test]
fn r31_a_missing_id_makes_a_notification_and_it_is_never_answered() {
    let mut server = opened_server("2025-11-25", Limits::default());
    for method in ["notifications/roots/list_changed", "notifications/x", "tools/call", "ping", "initialize"]
    {
        say(&mut server, &format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#));
    }
    assert!(sent(&mut server).is_empty());
    say(&mut server, r#"{"jsonrpc":"2.0","id":1,"method":"notifications/roots/list_changed"}"#);
    assert!(sent(&mut server)[0].contains(r#""id":1,"error":{"code":-32601"#), "an id makes a request");
}

#[test]
fn r32_an_unknown_method_is_not_found_by_its_name() {
    let mut server = opened_server("2025-11-25", Limits::default());
    say(&mut server, r#"{"jsonrpc":"2.0","id":"x","method":"server/discover"}"#);
    let expected =
        r#"{"jsonrpc":"2.0","id":"x","error":{"code":-32601,"message":"method not found: server/discover"}}"#;
    assert_eq!(sent(&mut server), [expected]);
}

#[test]
fn r33_each_fault_of_a_request_has_its_code() {
    let mut server = opened_server("2025-11-25", Limits::default());
    for (line, code) in [
        ("{", "-32700"),
        (r#"{"jsonrpc":"2.0","id":1}"#, "-32600"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":1}}"#, "-32602"),
    ] {
        say(&mut server, line);
        let replies = sent(&mut server);
        assert!(replies[0].contains(&format!(r#""code":{code}"#)), "{line}: {replies:?}");
    }
    say(&mut server, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    server.respond(&1.into(), Err(ErrorObject::internal("the backend is away")));
    assert!(sent(&mut server)[0].contains(r#""code":-32603"#));
}

#[test]
fn r40_id_and_method_tell_what_a_message_is() {
    let mut client = opened_client(Limits::default());
    let id = call(&mut client, Method::ListTools);
    say(&mut client, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"roots/list"}}"#));
    say(&mut client, r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    say(&mut client, &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":1,"message":"x"}}}}"#));
    let told = events(&mut client);
    assert!(matches!(
        &told[..],
        [
            Event::Request { .. },
            Event::Notification { .. },
            Event::Outcome { outcome: Err(CallError::Remote(_)), .. }
        ]
    ));
}

#[test]
fn r46_a_server_is_silent_until_it_is_asked() {
    let mut server = server(Limits::default());
    server.open(Time::ZERO);
    server.handle_timeout(at(100_000));
    assert!(sent(&mut server).is_empty());
    assert!(events(&mut server).is_empty());
    assert_eq!(server.poll_timeout(), None);
}

#[test]
fn r54_the_five_states_and_what_each_allows() {
    let mut client = client(EraChoice::Only(Era::Legacy), Limits::default());
    let mut server = server(Limits::default());
    assert_eq!((client.state(), server.state()), (State::Disconnected, State::Disconnected));
    client.open(Time::ZERO);
    server.open(Time::ZERO);
    assert_eq!(client.state(), State::Connecting);
    assert_eq!(client.call(Time::ZERO, &Call::new(Method::ListTools)), Err(CallRefused::NotOpen));
    say(&mut server, &sent(&mut client)[0]);
    assert_eq!(server.state(), State::Initializing);
    say(&mut client, &sent(&mut server)[0]);
    assert_eq!(client.state(), State::Ready);
    say(&mut server, &sent(&mut client)[0]);
    assert_eq!(server.state(), State::Ready);
    assert!(client.call(Time::ZERO, &Call::new(Method::ListTools)).is_ok());
    assert!(client.call(Time::ZERO, &Call::new(Method::Initialize)).is_err(), "only while connecting");
    say(&mut server, &sent(&mut client)[0]);
    server.handle(Time::ZERO, Inbound::Closed { cause: TransportEnd::end_of_stream() });
    assert_eq!(server.state(), State::ShuttingDown);
    client.close();
    assert_eq!(client.state(), State::Disconnected);
}

#[test]
fn r55_a_session_knows_version_capabilities_and_pending_requests() {
    let mut pair = Pair::new(&Version::V2025_11_25, Limits::default(), Limits::default());
    let peer = pair.client.peer().unwrap();
    assert_eq!(peer.profile.version, Version::V2025_11_25);
    assert!(peer.server_capabilities().unwrap().tools.is_some());
    assert_eq!(pair.server.peer().unwrap().info.as_ref().unwrap().name, "c");
    call(&mut pair.client, Method::ListTools);
    pair.exchange();
    assert_eq!((pair.client.calls_in_flight(), pair.server.requests_in_flight()), (1, 1));
}

#[test]
fn r66_initializing_sends_who_we_are_and_confirms() {
    let mut client = client(EraChoice::Only(Era::Legacy), Limits::default());
    client.open(Time::ZERO);
    let request = &sent(&mut client)[0];
    for part in
        [r#""protocolVersion":"2025-11-25""#, r#""capabilities":{"roots""#, r#""clientInfo":{"name":"c""#]
    {
        assert!(request.contains(part), "{request}");
    }
    say(
        &mut client,
        r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}"#,
    );
    assert_eq!(sent(&mut client), [r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#]);
    assert_eq!(client.state(), State::Ready);
}

#[test]
fn r67_lists_and_calls_fail_before_ready_and_work_after() {
    let methods = [Method::ListTools, Method::CallTool, Method::ListResources];
    let mut early = client(EraChoice::Auto, Limits::default());
    early.open(Time::ZERO);
    let mut ready = opened_client(Limits::default());
    for method in methods {
        assert_eq!(early.call(Time::ZERO, &Call::new(method.clone())), Err(CallRefused::NotOpen));
        assert!(ready.call(Time::ZERO, &Call::new(method)).is_ok());
    }
}

#[test]
fn r68_an_error_of_the_peer_arrives_with_code_message_and_data() {
    let mut client = opened_client(Limits::default());
    let id = call(&mut client, Method::CallTool);
    say(
        &mut client,
        &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-5,"message":"no","data":[1]}}}}"#),
    );
    let expected = ErrorObject::new(-5, "no").with_data(raw("[1]"));
    assert_eq!(outcomes(&mut client), [(id, Err(CallError::Remote(expected)))]);
}

#[test]
fn r69_the_end_goes_through_shutting_down_to_disconnected() {
    let mut server = opened_server("2025-11-25", Limits::default());
    say(&mut server, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    server.handle(Time::ZERO, Inbound::Closed { cause: TransportEnd::end_of_stream() });
    assert_eq!(server.state(), State::ShuttingDown);
    server.respond(&1.into(), Ok(Reply::empty()));
    sent(&mut server);
    server.report_sent(Time::ZERO, 1, false);
    assert_eq!(server.state(), State::Disconnected);
}
