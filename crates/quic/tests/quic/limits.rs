//! Each limit of the transport, set to 1 or to its minimum.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt as _;
use mcpjoin::Client;
use mcpjoin::proto::session::{EraChoice, Limits, Outbound, Route};
use mcpjoin::proto::{Era, Message, Method, Payload, Raw, Request, encode};
use mcpjoin_quic::ALPN;
use mcpjoin_quic::endpoint::{self as quic, ClientAuth, ClientTls, Identity, QuicOptions, ServerTls, Trust};
use serde_json::json;
use tokio::io::AsyncBufReadExt as _;
use tokio::net::UdpSocket;

use crate::by_hand::{Wire, connect, modern};
use crate::endpoint::{self, behind};
use crate::lossy::{Path, Rates};
use crate::{BOTH, Gate, Up, arguments, builder, limits, run, text};

#[test]
fn with_one_stream_for_requests_they_go_one_after_the_other() {
    run(async {
        for era in BOTH {
            let up = Up::new(builder(&Gate::default()).build().unwrap()).await;
            let link = up.link().streams(1).await.unwrap();
            let client = Client::builder("c", "1").era(EraChoice::Only(era)).connect(link).await.unwrap();
            let calls: Vec<_> = (0..50)
                .map(|n| {
                    let client = client.clone();
                    let said = arguments(&json!({"text": n.to_string()}));
                    tokio::spawn(async move { (n, client.call_tool("echo", said).await) })
                })
                .collect();
            for call in calls {
                let (n, outcome) = call.await.unwrap();
                assert_eq!(text(&outcome.unwrap()), n.to_string(), "{era:?}");
            }
            client.close().await;
        }
    });
}

#[test]
fn a_message_limit_of_1_refuses_everything_and_says_so() {
    run(async {
        let server = builder(&Gate::default()).limits(limits(|limits| limits.message = 1)).build().unwrap();
        let up = Up::new(server).await;
        let (connection, _session) = connect(&up).await;
        let mut wire = Wire::open(&connection).await;
        // The server stops reading as soon as it knows the length.
        let _ = wire.send.write_all(format!("{}\n", modern(1, "tools/list", json!({}))).as_bytes()).await;
        assert_eq!(wire.send.stopped().await.unwrap().map(quinn::VarInt::into_inner), Some(3));
    });
}

#[test]
fn an_answer_above_the_limit_of_the_client_fails_its_call_and_no_other() {
    run(async {
        for era in BOTH {
            let up = Up::new(builder(&Gate::default()).build().unwrap()).await;
            let builder =
                Client::builder("c", "1").era(EraChoice::Only(era)).limits(limits(|l| l.message = 20_000));
            let client = builder.connect(up.link().await.unwrap()).await.unwrap();
            let error = client.call_tool("size", arguments(&json!({"bytes": 500_000}))).await.unwrap_err();
            assert!(error.to_string().contains("20000"), "{era:?}: {error}");
            let small = client.call_tool("size", arguments(&json!({"bytes": 5}))).await.unwrap();
            assert_eq!(text(&small), "xxxxx");
            client.close().await;
        }
    });
}

#[test]
fn many_large_answers_at_once_come_one_after_the_other_and_all_of_them() {
    run(async {
        let up = Up::new(builder(&Gate::default()).build().unwrap()).await;
        let client = up.client(Era::Modern).await;
        let calls: Vec<_> = (0..40)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(
                    async move { client.call_tool("size", arguments(&json!({"bytes": 600_000}))).await },
                )
            })
            .collect();
        for call in calls {
            assert_eq!(text(&call.await.unwrap().unwrap()).len(), 600_000);
        }
        client.close().await;
    });
}

#[test]
fn every_bound_of_a_session_that_concerns_the_transport_may_be_1() {
    let bounds: [fn(&mut Limits); 8] = [
        |limits| limits.queued_replies = 1,
        |limits| limits.queued_calls = 1,
        |limits| limits.handling = 1,
        |limits| limits.handling_bytes = 1,
        |limits| limits.in_flight = 1,
        |limits| limits.write_stall = Duration::from_millis(1),
        |limits| limits.drain = Duration::from_millis(1),
        |limits| limits.subscriptions = 1,
    ];
    endpoint::run(async {
        for (era, change) in BOTH.into_iter().flat_map(|era| bounds.map(|change| (era, change))) {
            let up = Up::new(builder(&Gate::default()).limits(limits(change)).build().unwrap()).await;
            let builder = Client::builder("c", "1").era(EraChoice::Only(era)).limits(limits(change));
            let client = builder.connect(up.link().await.unwrap()).await.unwrap();
            let calls: Vec<_> = (0..20)
                .map(|n| {
                    let client = client.clone();
                    tokio::spawn(async move {
                        let size = 1_000 * n;
                        (size, client.call_tool("size", arguments(&json!({"bytes": size}))).await)
                    })
                })
                .collect();
            for call in calls {
                let (size, outcome) = call.await.unwrap();
                assert_eq!(text(&outcome.unwrap()).len(), size, "{era:?}");
            }
            client.close().await;
        }
    });
}

#[test]
fn half_a_message_may_wait_for_a_millisecond_and_no_longer() {
    endpoint::run(async {
        let bound = limits(|limits| limits.write_stall = Duration::from_millis(1));
        let up = Up::new(builder(&Gate::default()).limits(bound).build().unwrap()).await;
        let (connection, _session) = connect(&up).await;
        let mut half = Wire::open(&connection).await;
        half.send.write_all(b"{\"jsonrpc\":").await.unwrap();
        assert_eq!(half.reset_with().await, 4);
        // The same for a response that is not read.
        let mut unread = Wire::open(&connection).await;
        unread
            .say(&modern(2, "tools/call", json!({"name": "size", "arguments": {"bytes": 4_000_000}})))
            .await;
        let reset = unread.receive.get_mut().received_reset().await.unwrap();
        assert_eq!(reset.map(quinn::VarInt::into_inner), Some(4));
        assert!(Wire::ask(&connection, &modern(3, "tools/list", json!({}))).await["result"].is_object());
    });
}

#[test]
fn a_handshake_may_take_a_millisecond_and_no_longer() {
    endpoint::run(async {
        let far = Path { delay: Duration::from_millis(5), ..Path::default() };
        let (up, relay) = behind(&Gate::default(), Rates::NONE, far).await;
        let link = || mcpjoin_quic::connect(relay.address.to_string(), Trust::Key(up.pin));
        let error = link().timeout(Duration::from_millis(1)).await.unwrap_err().to_string();
        assert!(error.contains("no connection within 1 ms"), "{error}");
        link().await.unwrap();

        let strict = Up::with(builder(&Gate::default()).build().unwrap(), |listen| {
            listen.timeout(Duration::from_millis(1))
        })
        .await;
        let relay = crate::lossy::Lossy::over(strict.address, Rates::NONE, far).await;
        let link = mcpjoin_quic::connect(relay.address.to_string(), Trust::Key(strict.pin));
        link.timeout(Duration::from_secs(3)).await.unwrap_err();
        // On a short route it takes less time.
        strict.link().await.unwrap();
    });
}

#[test]
fn an_answer_over_a_long_path_arrives_whole_from_a_server_that_ends() {
    endpoint::run(async {
        // The window of a stream carries 640 KB a second, so that 2 MB take more than the second of a close.
        let far = Path { delay: Duration::from_millis(100), ..Path::default() };
        let (up, relay) = behind(&Gate::default(), Rates::NONE, far).await;
        let tls = ClientTls::new(&Trust::Key(up.pin), None, ALPN).unwrap();
        let mut options = QuicOptions::default();
        options.stream_window = 128 * 1024;
        let connection = quic::connect(&relay.address.to_string(), &tls, &options).await.unwrap();
        let _session = Wire::open(&connection).await;
        let mut wire = Wire::open(&connection).await;
        wire.say(&modern(2, "tools/call", json!({"name": "size", "arguments": {"bytes": 2_000_000}}))).await;
        assert!(!wire.receive.fill_buf().await.unwrap().is_empty());
        let ending = tokio::spawn(up.end());
        assert_eq!(wire.next().await.unwrap()["id"], 2);
        ending.await.unwrap();
    });
}

#[test]
fn windows_of_a_byte_and_one_stream_carry_what_there_is() {
    endpoint::run(async {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let tls = ClientTls::new(&Trust::Key(identity.facts().unwrap().key_hash), None, ALPN).unwrap();
        let server = ServerTls::new(identity, &ClientAuth::Anybody, ALPN).unwrap();
        let mut options = QuicOptions::default();
        (options.streams, options.stream_window, options.connection_window) = (1, 1, 1);
        let listener = quic::Listener::bind("127.0.0.1:0", move || Ok(server.clone()), options.clone());
        let listener = listener.await.unwrap();
        let address = listener.address().to_string();
        let accept = async { listener.accept().await.unwrap().establish().await.unwrap() };
        let (ours, theirs) = tokio::join!(quic::connect(&address, &tls, &options), accept);
        let ours = ours.unwrap();
        for _ in 0..3 {
            let mut asking = Wire::open(&ours).await;
            let answering = async {
                let mut wire = Wire::new(theirs.accept().await.unwrap());
                let received = wire.next().await.unwrap();
                wire.say(&received).await;
                wire.send.finish().unwrap();
                wire.next().await
            };
            let said = json!({"every": "byte"});
            let asked = async {
                asking.say(&said).await;
                asking.send.finish().unwrap();
                (asking.next().await, asking.next().await)
            };
            assert_eq!(tokio::join!(asked, answering), ((Some(said.clone()), None), None));
        }
    });
}

/// A request whose line has this many bytes.
fn ping(id: i64, bytes: usize) -> Outbound {
    let of = |padding: usize| {
        let params = Raw::parse(format!("{{\"x\":\"{}\"}}", "x".repeat(padding))).unwrap();
        let params = Some(Payload::from_raw(params));
        Message::Request(Request { id: id.into(), method: Method::Ping, params })
    };
    let message = of(bytes - 1 - encode::length(&of(0)));
    Outbound::Message { message, route: Route::Session }
}

#[test]
fn calls_wait_to_be_sent_up_to_eight_mib() {
    endpoint::run(async {
        let up = Up::new(builder(&Gate::default()).build().unwrap()).await;
        let mut link = up.link().await.unwrap().raw(&Limits::default());
        // Nothing is sent meanwhile, because no other task runs.
        for id in 1..=64 {
            assert!(link.has_room());
            link.push(ping(id, 128 * 1024));
        }
        assert!(link.has_room());
        link.push(ping(65, 100));
        assert!(!link.has_room());
        link.recv().await;
        assert!(link.has_room());
    });
}

#[test]
fn peers_that_wait_for_a_handshake_are_limited_and_one_more_is_not_answered() {
    run(async {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let tls = ServerTls::new(identity, &ClientAuth::Anybody, ALPN).unwrap();
        let listener = quic::Listener::bind("127.0.0.1:0", move || Ok(tls.clone()), QuicOptions::default());
        let listener = listener.await.unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(listener.address()).await.unwrap();
        let hellos = hellos(256 + 1).await;
        for some in hellos.chunks(32) {
            for hello in some {
                socket.send(hello).await.unwrap();
            }
            received(&socket).await;
        }
        let waiting = || std::iter::from_fn(|| listener.accept().now_or_never().flatten());
        // Those beyond 64 are asked to show that they receive.
        let all: Vec<_> = waiting().collect();
        assert_eq!(all.len(), 64);
        for _ in 64..256 {
            assert!(socket.recv(&mut [0; 2000]).await.unwrap() > 0);
        }
        assert!(socket.recv(&mut [0; 2000]).now_or_never().is_none(), "256 have waited");
        // Now there is room for the last one.
        socket.send(&hellos[256]).await.unwrap();
        received(&socket).await;
        assert_eq!(waiting().count(), 0);
        assert!(socket.recv(&mut [0; 2000]).await.unwrap() > 0);
        // A rejected client makes room for another one.
        drop(all);
        assert!(socket.recv(&mut [0; 2000]).await.unwrap() > 0);
    });
}

/// The first datagrams of this many clients.
async fn hellos(count: usize) -> Vec<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let (endpoint, config) = endpoint::foreign(address, |_, _| {}).await;
    let (mut hellos, mut connecting) = (BTreeMap::new(), Vec::new());
    while hellos.len() < count {
        connecting.push(endpoint.connect_with(config.clone(), address, "localhost").unwrap());
        while hellos.len() < connecting.len() {
            let mut hello = vec![0; 2000];
            let length = socket.recv(&mut hello).await.unwrap();
            hello.truncate(length);
            // By connection id, because unanswered datagrams are retransmitted.
            hellos.insert(hello[6..][..hello[5].into()].to_vec(), hello);
        }
    }
    hellos.into_values().collect()
}

/// Waits until a server has processed all earlier datagrams: it responds to one with another version.
async fn received(socket: &UdpSocket) {
    let mut other = vec![0; 1200];
    other[..7].copy_from_slice(&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 1, 7]);
    socket.send(&other).await.unwrap();
    let mut answer = [1; 2000];
    while answer[1..5] != [0; 4] {
        socket.recv(&mut answer).await.unwrap();
    }
}
