//! Tests of group C of the catalogue: the negotiation and declared capabilities.

use mcpjoin_proto::session::{
    Call, CallRefused, CloseCause, EraChoice, Event, Limits, NegotiationFailure, NotifyRefused, Role, Route,
    ServerRole, Session, State, TransportCaps, TransportEnd,
};
use mcpjoin_proto::types::Implementation;
use mcpjoin_proto::{Era, Method, Notification, Time, Version};

use crate::common::*;

fn closed(session: &mut Session) -> Option<CloseCause> {
    events(session).into_iter().find_map(|event| match event {
        Event::Closed(cause) => Some(cause),
        _ => None,
    })
}

#[test]
fn c54_a_request_before_initialize_is_refused_and_initialize_works_then() {
    let mut server = server(Limits::default());
    server.open(Time::ZERO);
    say(&mut server, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    say(&mut server, r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
    let replies = sent(&mut server);
    assert!(replies[0].contains(r#""id":1,"error":{"code":-32600"#), "{replies:?}");
    assert_eq!(replies[1], r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
    say(
        &mut server,
        r#"{"jsonrpc":"2.0","id":3,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
    );
    assert!(sent(&mut server)[0].contains(r#""protocolVersion":"2025-11-25""#));
}

#[test]
fn c55_a_second_initialize_is_refused_and_changes_nothing() {
    let mut server = opened_server("2025-06-18", Limits::default());
    say(
        &mut server,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"d","version":"2"}}}"#,
    );
    assert!(sent(&mut server)[0].contains("-32600"));
    assert_eq!(server.profile().unwrap().version, Version::V2025_06_18);
    assert_eq!(server.state(), State::Ready);
    assert_eq!(server.peer().unwrap().info.as_ref().unwrap().name, "c");
}

#[test]
fn c56_versions_are_negotiated_and_a_mismatch_names_both() {
    for (asked, answered) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("1999-01-01", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
    ] {
        let server = opened_server(asked, Limits::default());
        assert_eq!(server.profile().unwrap().version.as_str(), answered, "asked for {asked}");
    }
    for answered in ["1999-01-01", "2026-07-28", "2099-01-01"] {
        let mut client = client(EraChoice::Only(Era::Legacy), Limits::default());
        client.open(Time::ZERO);
        say(
            &mut client,
            &format!(
                r#"{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"{answered}","capabilities":{{}},"serverInfo":{{"name":"s","version":"1"}}}}}}"#
            ),
        );
        let cause = closed(&mut client).unwrap();
        assert!(matches!(cause, CloseCause::Opening(NegotiationFailure::UnsupportedVersion { .. })));
        let text = cause.to_string();
        assert!(text.contains(answered) && text.contains("2025-11-25"), "{text}");
    }
}

#[test]
fn c57_no_answer_to_initialize_ends_after_its_time() {
    let mut client = client(EraChoice::Only(Era::Legacy), Limits::default());
    client.open(Time::ZERO);
    assert_eq!(client.poll_timeout(), Some(at(30)));
    client.handle_timeout(at(29));
    assert_eq!(client.state(), State::Connecting);
    client.handle_timeout(at(30));
    assert!(closed(&mut client).unwrap().to_string().contains("no answer to initialize within 30 s"));
    assert_eq!(client.poll_timeout(), None);
}

#[test]
fn c58_garbage_instead_of_an_answer_is_shown_escaped() {
    let mut client = client(EraChoice::Only(Era::Legacy), Limits::default());
    client.open(Time::ZERO);
    say(&mut client, "\u{1b}[31mfatal\u{1b}[0m");
    client.handle_timeout(at(30));
    let text = closed(&mut client).unwrap().to_string();
    assert!(text.contains(r"\u{1b}[31mfatal"), "{text}");

    let mut client = crate::common::client(EraChoice::Auto, Limits::default());
    client.open(Time::ZERO);
    for _ in 0..20 {
        say(&mut client, "Starting...");
    }
    let text = closed(&mut client).unwrap().to_string();
    assert!(text.contains("20 lines") && text.contains("Starting..."), "{text}");
}

#[test]
fn c58_garbage_before_a_death_is_shown_too() {
    let mut client = client(EraChoice::Only(Era::Legacy), Limits::default());
    client.open(Time::ZERO);
    say(&mut client, "usage: server [options]");
    client
        .handle(Time::ZERO, mcpjoin_proto::session::Inbound::Closed { cause: TransportEnd::end_of_stream() });
    let text = closed(&mut client).unwrap().to_string();
    assert!(text.contains("usage: server"), "{text}");
}

#[test]
fn an_opening_request_whose_answer_has_the_id_of_no_request_is_not_waited_for() {
    let misdirected = r#"{"jsonrpc":"2.0","id":777,"result":{}}"#;
    for (era, method) in [(Era::Legacy, "initialize"), (Era::Modern, "server/discover")] {
        let mut client = client(EraChoice::Only(era), Limits::default());
        client.open(Time::ZERO);
        say(&mut client, misdirected);
        let text = closed(&mut client).unwrap().to_string();
        assert_eq!(text, format!("the response to {method} has the unknown id 777 instead of 1"));
    }
    // A server of the legacy era may answer the probe like that, and `initialize` rightly.
    let mut client = client(EraChoice::Auto, Limits::default());
    client.open(Time::ZERO);
    assert!(sent(&mut client)[0].contains("server/discover"));
    say(&mut client, misdirected);
    assert!(sent(&mut client)[0].contains("initialize"));
    say(
        &mut client,
        r#"{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}"#,
    );
    assert_eq!(client.state(), State::Ready);
}

#[test]
fn c63_what_was_not_declared_is_refused_before_it_is_sent() {
    let mut client = client(EraChoice::Only(Era::Legacy), Limits::default());
    client.open(Time::ZERO);
    say(
        &mut client,
        r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}"#,
    );
    sent(&mut client);
    for method in [
        Method::ListTools,
        Method::CallTool,
        Method::ListPrompts,
        Method::GetPrompt,
        Method::ListResources,
        Method::ReadResource,
        Method::ListResourceTemplates,
        Method::Subscribe,
        Method::Complete,
        Method::SetLevel,
    ] {
        let refused = client.call(Time::ZERO, &Call::new(method.clone())).unwrap_err();
        assert!(matches!(refused, CallRefused::Undeclared { .. }), "{method}");
    }
    assert!(sent(&mut client).is_empty());
    assert_eq!(client.calls_in_flight(), 0);
}

#[test]
fn c64_without_initialized_a_server_answers_pings_and_holds_the_rest() {
    let mut server = server(Limits::default());
    server.open(Time::ZERO);
    say(
        &mut server,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
    );
    sent(&mut server);
    let changed = Notification { method: Method::ToolListChanged, params: None };
    server.notify(changed, Route::Session).unwrap();
    say(&mut server, r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
    assert_eq!(sent(&mut server), [r#"{"jsonrpc":"2.0","id":2,"result":{}}"#]);
    say(&mut server, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert_eq!(sent(&mut server), [r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#]);
}

#[test]
fn c65_a_storm_of_changes_is_one_of_each_kind() {
    let pair = [Version::V2025_11_25, Version::V2026_07_28];
    for version in &pair {
        let mut pair = Pair::new(version, Limits::default(), Limits::default());
        let streams = if *version == Version::V2026_07_28 {
            let listen = Call::new(Method::Listen)
                .with_params(raw(r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":true}}"#));
            pair.client.call(Time::ZERO, &listen).unwrap();
            pair.exchange();
            true
        } else {
            false
        };
        for _ in 0..10_000 {
            for method in [Method::ToolListChanged, Method::PromptListChanged] {
                pair.server.notify(Notification { method, params: None }, Route::Session).unwrap();
            }
        }
        assert_eq!(sent(&mut pair.server).len(), 2, "{version}, streams: {streams}");
        let changed = Notification { method: Method::ToolListChanged, params: None };
        pair.server.notify(changed, Route::Session).unwrap();
        assert_eq!(sent(&mut pair.server).len(), 1, "what was sent says nothing of what changes later");
    }
}

#[test]
fn the_bounds_of_what_waits_are_wired() {
    // queued_calls: a second call and a notification wait.
    let mut limits = Limits::default();
    limits.queued_calls = 1;
    let mut client = opened_client(limits);
    call(&mut client, Method::ListTools);
    assert!(!client.has_room());
    let refused = client.call(Time::ZERO, &Call::new(Method::ListTools)).unwrap_err();
    assert_eq!(refused, CallRefused::Full { limit: "queued_calls", value: 1 });
    let refused = client
        .notify(Notification { method: Method::parse("notifications/x"), params: None }, Route::Session)
        .unwrap_err();
    assert!(matches!(refused, NotifyRefused::NotAllowed(CallRefused::Full { limit: "queued_calls", .. })));
    sent(&mut client);
    assert!(client.has_room());

    // queued_replies: nothing is read and nothing dispatched while one waits.
    let mut limits = Limits::default();
    limits.queued_replies = 1;
    let mut server = opened_server("2025-11-25", limits);
    say(&mut server, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    assert!(!server.wants_input());
    say(&mut server, r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
    assert!(requests(&mut server).is_empty());
    sent(&mut server);
    assert!(server.wants_input());
    assert_eq!(requests(&mut server).len(), 1);
}

/// A relaying session has the negotiated version and no other.
#[test]
fn a_modern_request_to_a_session_that_stands_for_a_legacy_one_is_refused_with_what_was_agreed() {
    let mut role = ServerRole::new(Implementation::new("s", "1"), raw("{}").decode().unwrap());
    role.relays = true;
    let mut server = Session::new(Role::Server(role.into()), TransportCaps::default(), Limits::default());
    server.open(Time::ZERO);
    say(
        &mut server,
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
    );
    say(&mut server, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    sent(&mut server);
    events(&mut server);
    say(
        &mut server,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    );
    assert!(requests(&mut server).is_empty());
    assert_eq!(
        sent(&mut server),
        [
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"this server does not speak that protocol version","data":{"supported":["2025-06-18"],"requested":"2026-07-28"}}}"#
        ]
    );
}
