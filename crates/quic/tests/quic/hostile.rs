//! Clients that violate the protocol: only their own streams or connection are affected.

use mcpjoin::proto::session::Limits;
use mcpjoin_quic::ALPN;
use mcpjoin_quic::endpoint::{self as quic, ClientTls, QuicOptions, Trust};
use serde_json::{Value, json};

use crate::by_hand::{Wire, call, connect, initialize, modern, note};
use crate::{Gate, Up, builder, limits, listen, run};

async fn up(limits: Limits) -> (Up, Gate) {
    let gate = Gate::default();
    (Up::new(builder(&gate).limits(limits).build().unwrap()).await, gate)
}

fn list(id: u64) -> Value {
    modern(id, "tools/list", json!({}))
}

#[test]
fn garbage_and_half_messages_are_answered_on_their_own_stream() {
    run(async {
        let (up, _) = up(Limits::default()).await;
        let (connection, _session) = connect(&up).await;
        assert!(Wire::ask(&connection, &list(1)).await["result"].is_object());
        for (sent, id) in [
            ("no json\n", Value::Null),
            (r#"{"jsonrpc":"2.0","id":5,"method":"#, json!(5)),
            ("{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":7}\n", json!(6)),
            ("[1,2]\n", Value::Null),
        ] {
            let mut wire = Wire::open(&connection).await;
            wire.send.write_all(sent.as_bytes()).await.unwrap();
            wire.send.finish().unwrap();
            let answer = wire.next().await.unwrap_or_else(|| panic!("{sent}: an answer"));
            assert!(answer["error"]["code"].is_i64(), "{sent}: {answer}");
            if !id.is_null() && !answer["id"].is_null() {
                assert_eq!(answer["id"], id, "{sent}");
            }
            assert_eq!(wire.next().await, None, "{sent}");
        }
        // What needs no response gets none.
        for sent in ["", "\n\n", "{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}\n"] {
            let mut wire = Wire::open(&connection).await;
            wire.send.write_all(sent.as_bytes()).await.unwrap();
            wire.send.finish().unwrap();
            assert!(Wire::ask(&connection, &list(2)).await["result"].is_object(), "{sent}");
        }
        for sent in
            [r#"{"jsonrpc":"2.0","id":9,"result":{}}"#, r#"{"jsonrpc":"2.0","id":9,"result":{},"error":1}"#]
        {
            let mut wire = Wire::open(&connection).await;
            wire.send.write_all(sent.as_bytes()).await.unwrap();
            wire.send.finish().unwrap();
            assert_eq!(wire.next().await, None, "{sent}");
        }
    });
}

#[test]
fn a_second_request_on_a_stream_cuts_it_off() {
    run(async {
        let (up, gate) = up(Limits::default()).await;
        let (connection, _session) = connect(&up).await;
        Wire::ask(&connection, &list(1)).await;
        let mut wire = Wire::open(&connection).await;
        wire.say(&modern(2, "tools/call", json!({"name": "wait", "arguments": {}}))).await;
        gate.begin(1).await;
        wire.say(&list(3)).await;
        assert_eq!(wire.reset_with().await, 2);
        // The first call is cancelled with it.
        gate.left.notified().await;
        assert!(Wire::ask(&connection, &list(4)).await["result"].is_object());
    });
}

#[test]
fn an_id_that_is_in_use_cuts_its_stream_off_and_harms_no_other() {
    run(async {
        let (up, gate) = up(Limits::default()).await;
        let (connection, _session) = connect(&up).await;
        Wire::ask(&connection, &list(1)).await;
        let wait = modern(2, "tools/call", json!({"name": "wait", "arguments": {}}));
        let mut first = Wire::open(&connection).await;
        first.say(&wait).await;
        gate.begin(1).await;
        let mut second = Wire::open(&connection).await;
        second.say(&wait).await;
        assert_eq!(second.reset_with().await, 2);
        gate.go_on.add_permits(1);
        assert_eq!(first.next().await.unwrap()["id"], 2);
    });
}

#[test]
fn a_line_that_never_ends_is_refused_when_it_passes_the_limit() {
    run(async {
        let (up, _) = up(limits(|limits| limits.message = 4096)).await;
        let (connection, _session) = connect(&up).await;
        let mut wire = Wire::open(&connection).await;
        wire.send
            .write_all(br#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":""#)
            .await
            .unwrap();
        let stopped = loop {
            match wire.send.write(&[b'x'; 1000]).await {
                Ok(_) => tokio::task::yield_now().await,
                Err(quinn::WriteError::Stopped(code)) => break code.into_inner(),
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(stopped, 3);
        let answer = wire.next().await.unwrap();
        assert_eq!(answer["id"], 5);
        assert!(answer["error"]["message"].as_str().unwrap().contains("4096"), "{answer}");
        assert_eq!(wire.next().await, None);
        assert!(Wire::ask(&connection, &list(1)).await["result"].is_object());
    });
}

#[test]
fn streams_that_stall_in_the_middle_of_large_messages_stop_no_small_one() {
    run(async {
        let (up, _) = up(Limits::default()).await;
        let (connection, _session) = connect(&up).await;
        // More of them than may be read at once, each with as much data as the server buffers.
        let mut stalled = Vec::new();
        for _ in 0..100 {
            let mut wire = Wire::open(&connection).await;
            wire.send.write_all(&vec![b' '; 100 * 1024]).await.unwrap();
            wire.send.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"").await.unwrap();
            stalled.push(wire);
        }
        for id in 200..220 {
            assert!(Wire::ask(&connection, &list(id)).await["result"].is_object());
        }
    });
}

#[test]
fn a_message_that_stops_half_way_ends_its_stream_and_no_other() {
    run(async {
        let (up, _) = up(limits(|limits| limits.write_stall = std::time::Duration::from_millis(100))).await;
        let (connection, _session) = connect(&up).await;
        let mut wire = Wire::open(&connection).await;
        wire.send.write_all(b"{\"jsonrpc\":\"2.0\",").await.unwrap();
        assert_eq!(wire.reset_with().await, 4);
        assert!(Wire::ask(&connection, &list(1)).await["result"].is_object());
    });
}

#[test]
fn a_response_that_is_not_read_ends_its_stream_and_no_other() {
    run(async {
        let (up, _) = up(limits(|limits| limits.write_stall = std::time::Duration::from_millis(100))).await;
        let (connection, _session) = connect(&up).await;
        let mut wire = Wire::open(&connection).await;
        wire.say(&modern(2, "tools/call", json!({"name": "size", "arguments": {"bytes": 4_000_000}}))).await;
        // Our window for one stream is a quarter of the message, and nothing is read.
        let reset = wire.receive.get_mut().received_reset().await.unwrap();
        assert_eq!(reset.map(quinn::VarInt::into_inner), Some(4));
        assert!(Wire::ask(&connection, &list(3)).await["result"].is_object());
    });
}

#[test]
fn the_stream_of_the_session_cut_off_is_the_end_of_the_connection() {
    run(async {
        let (up, _) = up(Limits::default()).await;
        let (connection, mut session) = connect(&up).await;
        assert!(Wire::ask(&connection, &initialize(1)).await["result"].is_object());
        session.say(&note("notifications/initialized", &json!({}))).await;
        assert!(Wire::ask(&connection, &call(2, "origin")).await["result"].is_object());
        session.send.reset(1_u32.into()).unwrap();
        let closed = connection.closed().await;
        assert!(closed.to_string().contains("code 2"), "{closed}");
    });
}

#[test]
fn a_second_request_before_initialized_cuts_its_stream_off() {
    run(async {
        let (up, _) = up(Limits::default()).await;
        let (connection, mut session) = connect(&up).await;
        assert!(Wire::ask(&connection, &initialize(1)).await["result"].is_object());
        // Until `initialized` the requests wait in the link, so their number must have a limit.
        let mut flood = Wire::open(&connection).await;
        flood.say(&call(2, "origin")).await;
        flood.say(&call(3, "origin")).await;
        assert_eq!(flood.reset_with().await, 2);
        let mut early = Wire::open(&connection).await;
        early.say(&call(4, "origin")).await;
        session.say(&note("notifications/initialized", &json!({}))).await;
        assert_eq!(early.next().await.unwrap()["id"], 4);
    });
}

#[test]
fn a_second_initialize_loses_no_request_that_waits_for_initialized() {
    run(async {
        let (up, _) = up(Limits::default()).await;
        let (connection, mut session) = connect(&up).await;
        assert!(Wire::ask(&connection, &initialize(1)).await["result"].is_object());
        let mut early = Wire::open(&connection).await;
        early.say(&call(2, "origin")).await;
        // A ping does not wait. It shows that the call has arrived.
        let ping = json!({"jsonrpc": "2.0", "id": 3, "method": "ping"});
        assert_eq!(Wire::ask(&connection, &ping).await["id"], 3);
        session.say(&initialize(4)).await;
        assert!(session.next().await.unwrap()["error"].is_object());
        session.say(&note("notifications/initialized", &json!({}))).await;
        assert_eq!(early.next().await.unwrap()["id"], 2);
    });
}

#[test]
fn a_stream_of_the_session_that_ends_delays_no_request() {
    run(async {
        let (up, _) = up(Limits::default()).await;
        let (connection, mut session) = connect(&up).await;
        assert!(Wire::ask(&connection, &initialize(1)).await["result"].is_object());
        session.send.finish().unwrap();
        // `initialized` will never arrive: a request without it gets a response, whatever the session decides.
        assert_eq!(Wire::ask(&connection, &call(2, "origin")).await["id"], 2);
    });
}

#[test]
fn streams_beyond_the_limit_are_not_given() {
    run(async {
        let (up, _) = up(Limits::default()).await;
        let (connection, _session) = connect(&up).await;
        let mut open = Vec::new();
        for _ in 0..255 {
            let mut wire = Wire::open(&connection).await;
            wire.send.write_all(b" ").await.unwrap();
            open.push(wire);
        }
        let more = connection.open();
        tokio::pin!(more);
        assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(more.as_mut().poll(cx).is_pending())).await);
        // Ended streams free credit, at the latest after an eighth of them.
        for mut wire in open.drain(..64) {
            wire.send.reset(0_u32.into()).unwrap();
        }
        more.await.unwrap();
    });
}

#[test]
fn connections_beyond_the_limit_are_turned_away_with_the_reason() {
    run(async {
        let (listen, pin) = listen();
        let listener = listen.await.unwrap().max_connections(1);
        let up = Up::on(listener, pin, builder(&Gate::default()).build().unwrap());
        let (connection, _session) = connect(&up).await;
        assert!(Wire::ask(&connection, &list(1)).await["result"].is_object());
        let tls = ClientTls::new(&Trust::Key(pin), None, ALPN).unwrap();
        let closed = match quic::connect(&up.address.to_string(), &tls, &QuicOptions::default()).await {
            Ok(second) => second.closed().await,
            Err(error) => error,
        };
        assert!(closed.to_string().contains("as many connections"), "{closed}");
        assert_eq!((up.handle.open(), up.handle.refused()), (1, 1));
    });
}
