//! Requirements for all our QUIC endpoints, Orchestra's included: bad networks, long routes, wasteful peers, invalid
//! packets, silence, and a restarted listener. Time is virtual, the datagrams are real.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcpjoin::Client;
use mcpjoin::proto::Era;
use mcpjoin_quic::ALPN;
use mcpjoin_quic::endpoint::{
    self as quic, ClientAuth, ClientTls, Identity, QuicErrorKind, QuicOptions, ServerTls, Trust,
};
use quinn::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use quinn::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use quinn::rustls::{self, DigitallySignedStruct, SignatureScheme};
use serde_json::json;
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout};

use crate::by_hand::{Wire, modern};
use crate::lossy::{Lossy, Path, Rates};
use crate::ports::Closed;
use crate::ports::Port;
use crate::{BOTH, Gate, Up, arguments, builder, client, limits, text, waits};

/// In virtual time, which passes when all tasks are idle.
const DEADLINE: Duration = Duration::from_secs(3_600);

pub(crate) fn run(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async { timeout(DEADLINE, test).await.expect("the test hangs") });
    runtime.shutdown_background();
}

/// A server behind a relay.
pub(crate) async fn behind(gate: &Gate, rates: Rates, path: Path) -> (Up, Lossy) {
    let up = Up::new(builder(gate).build().unwrap()).await;
    let relay = Lossy::over(up.address, rates, path).await;
    (up, relay)
}

async fn through(relay: &Lossy, up: &Up, era: Era) -> Client {
    let link = mcpjoin_quic::connect(relay.address.to_string(), Trust::Key(up.pin)).await.unwrap();
    client(era).connect(link).await.unwrap()
}

async fn says(client: &Client, said: &str) -> Result<String, String> {
    let result = client.call_tool("echo", arguments(&json!({"text": said}))).await;
    result.map(|result| text(&result)).map_err(|error| error.to_string())
}

/// A client of quinn with settings other than ours.
pub(crate) async fn foreign(
    server: SocketAddr,
    change: impl FnOnce(&mut rustls::ClientConfig, &mut quinn::TransportConfig),
) -> (quinn::Endpoint, quinn::ClientConfig) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.into()];
    let mut transport = quinn::TransportConfig::default();
    change(&mut tls, &mut transport);
    let tls = quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap();
    let mut config = quinn::ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(transport));
    let any = SocketAddr::new(server.ip(), 0);
    (quinn::Endpoint::client(any).unwrap(), config)
}

#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519, SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

/// Sends everything at once, ignoring losses.
#[derive(Clone, Debug)]
struct Reckless;

impl quinn::congestion::Controller for Reckless {
    fn on_congestion_event(&mut self, _: std::time::Instant, _: std::time::Instant, _: bool, _: u64) {}

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        1 << 40
    }

    fn clone_box(&self) -> Box<dyn quinn::congestion::Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        1 << 40
    }

    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {
        self
    }
}

impl quinn::congestion::ControllerFactory for Reckless {
    fn build(self: Arc<Self>, _: std::time::Instant, _: u16) -> Box<dyn quinn::congestion::Controller> {
        Box::new(Self)
    }
}

#[test]
fn h154_a_stream_of_fragments_with_gaps_is_cut_off_long_before_the_window_is_full_of_them() {
    run(async {
        /// Half of them arrive. A window of 128 KiB has room for 65,536 fragments with gaps between them, which would
        /// cost 100 bytes or more each.
        const FRAGMENTS: usize = 4_400;
        let (up, relay) = behind(&Gate::default(), Rates::NONE, Path::default()).await;
        let well = up.client(Era::Modern).await;
        assert_eq!(says(&well, "before").await.unwrap(), "before");
        // Lost data is never retransmitted, and losses do not slow it down.
        let (endpoint, config) = foreign(relay.address, |_, transport| {
            transport.packet_threshold(u32::MAX).time_threshold(1e9).initial_rtt(Duration::from_secs(600));
            transport.congestion_controller_factory(Arc::new(Reckless));
        })
        .await;
        let connecting = endpoint.connect_with(config, relay.address, "localhost").unwrap();
        let connection = connecting.await.unwrap();
        let (mut send, _receive) = connection.open_bi().await.unwrap();
        send.write_all(b" ").await.unwrap();
        tokio::task::yield_now().await;
        relay.halve(true);
        for _ in 0..FRAGMENTS {
            let datagrams = connection.stats().udp_tx.datagrams;
            if send.write_all(b" ").await.is_err() {
                break;
            }
            // Each byte is sent in a packet of its own.
            while connection.stats().udp_tx.datagrams == datagrams && connection.close_reason().is_none() {
                tokio::task::yield_now().await;
            }
        }
        relay.halve(false);
        // Another client is not affected.
        assert_eq!(says(&well, "after").await.unwrap(), "after");
        let closed = connection.close_reason().expect("so many are not kept").to_string();
        assert!(closed.contains("too many gaps"), "{closed}");
        well.close().await;
    });
}

#[test]
fn h155_a_peer_that_opens_every_stream_and_is_silent_is_gone_when_it_is_idle_for_too_long() {
    run(async {
        let up = Up::new(builder(&Gate::default()).build().unwrap()).await;
        let relay = Lossy::to(up.address, Rates::NONE).await;
        let tls = ClientTls::new(&Trust::Key(up.pin), None, ALPN).unwrap();
        let connection =
            quic::connect(&relay.address.to_string(), &tls, &QuicOptions::default()).await.unwrap();
        let mut streams = Vec::new();
        for _ in 0..256 {
            let mut wire = Wire::open(&connection).await;
            wire.send.write_all(b" ").await.unwrap();
            streams.push(wire);
        }
        // The limit is reached.
        assert!(timeout(Duration::from_secs(5), connection.open()).await.is_err());
        assert_eq!(up.handle.open(), 1);
        let since = Instant::now();
        relay.cut(true);
        while up.handle.open() > 0 {
            tokio::time::advance(Duration::from_millis(500)).await;
            tokio::task::yield_now().await;
        }
        // The last keep-alive may have arrived up to 10 s before.
        let took = since.elapsed().as_secs();
        assert!((19..=35).contains(&took), "{took} s");
        drop(streams);
    });
}

#[test]
fn h156_a_call_is_completed_when_the_client_is_given_another_port_meanwhile() {
    run(async {
        for era in BOTH {
            let gate = Gate::default();
            let (up, relay) = behind(&gate, Rates::NONE, Path::default()).await;
            let client = through(&relay, &up, era).await;
            let from = text(&client.call_tool("origin", ()).await.unwrap());
            let calling = waits(&client);
            gate.begin(1).await;
            relay.rebind();
            // The server learns of the new address with the next packet.
            assert_eq!(says(&client, "moved").await.unwrap(), "moved");
            relay.rebind();
            gate.go_on.add_permits(1);
            assert_eq!(calling.await.unwrap().unwrap(), "at last", "{era:?}");
            assert_eq!(says(&client, "moved again").await.unwrap(), "moved again");
            // The identity is the one at the start of the connection.
            assert_eq!(text(&client.call_tool("origin", ()).await.unwrap()), from);
            client.close().await;
        }
    });
}

#[test]
fn h157_ten_idle_minutes_end_nothing_and_30_seconds_without_a_network_do() {
    run(async {
        for era in BOTH {
            let gate = Gate::default();
            let (up, relay) = behind(&gate, Rates::NONE, Path::default()).await;
            let client = through(&relay, &up, era).await;
            assert!(timeout(Duration::from_secs(600), client.closed()).await.is_err(), "{era:?}");
            assert_eq!(says(&client, "still here").await.unwrap(), "still here");

            let calling = waits(&client);
            gate.begin(1).await;
            let since = Instant::now();
            relay.cut(true);
            let error = calling.await.unwrap().unwrap_err();
            let took = since.elapsed();
            assert!(error.contains("no data has arrived for too long"), "{era:?}: {error}");
            assert!((Duration::from_secs(19)..Duration::from_secs(32)).contains(&took), "{took:?}");
            assert!(client.is_closed());
            // The network is back, and clients can connect again.
            relay.cut(false);
            let client = through(&relay, &up, era).await;
            assert_eq!(says(&client, "again").await.unwrap(), "again");
            client.close().await;
        }
    });
}

#[test]
fn h160_there_is_no_early_data_and_a_replayed_hello_runs_nothing() {
    run(async {
        let gate = Gate::default();
        let (up, relay) = behind(&gate, Rates::NONE, Path::default()).await;
        // A client that would send early data if the server allowed it.
        let sessions = Arc::new(rustls::client::ClientSessionMemoryCache::new(32));
        let (endpoint, config) = foreign(relay.address, |tls, _| {
            tls.resumption = rustls::client::Resumption::store(sessions);
            tls.enable_early_data = true;
        })
        .await;
        for id in 1..=2 {
            let connecting = endpoint.connect_with(config.clone(), relay.address, "localhost").unwrap();
            let Err(connecting) = connecting.into_0rtt() else { panic!("early data") };
            let connection = connecting.await.unwrap();
            let mut session = connection.open_bi().await.unwrap();
            session.0.write_all(b" ").await.unwrap();
            let mut wire = Wire::new(connection.open_bi().await.unwrap());
            wire.say(&modern(id, "tools/call", json!({"name": "wait", "arguments": {}}))).await;
            gate.begin(1).await;
            gate.go_on.add_permits(1);
            assert_eq!(wire.next().await.unwrap()["id"], id);
            connection.close(0_u32.into(), b"");
        }
        // Replay all first packets of the client, from its address and from another one.
        let recorded = relay.recorded();
        assert!(recorded.len() >= 4, "{}", recorded.len());
        for _ in 0..3 {
            let replay = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            for datagram in &recorded {
                replay.send_to(datagram, up.address).await.unwrap();
                replay.send_to(datagram, relay.address).await.unwrap();
            }
        }
        let client = up.client(Era::Modern).await;
        assert_eq!(says(&client, "well").await.unwrap(), "well");
        // The replayed handshakes have timed out, and no handler was started.
        assert!(timeout(Duration::from_secs(60), gate.began.acquire()).await.is_err());
        assert_eq!(gate.most.load(Ordering::SeqCst), 1);
        client.close().await;
    });
}

/// SplitMix64.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[test]
fn h161_junk_is_dropped_and_the_endpoint_goes_on() {
    run(async {
        const DATAGRAMS: usize = 10_000;
        let up = Up::new(builder(&Gate::default()).build().unwrap()).await;
        let client = up.client(Era::Modern).await;
        let flood = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        flood.connect(up.address).await.unwrap();
        let (mut sent, mut came, mut state) = (0, 0, 7);
        let mut buffer = vec![0; 65_536];
        for round in 0..DATAGRAMS {
            let length = (draw(&mut state) % 1_500) as usize;
            let mut junk: Vec<u8> = (0..length).map(|_| draw(&mut state) as u8).collect();
            // A long header of each kind, of this QUIC version and others, with ids of any length; version negotiation;
            // a short header; an empty first packet; and random bytes.
            let versions: [[u8; 4]; 5] =
                [[0, 0, 0, 1], [0, 0, 0, 0], [0x6b, 0x33, 0x43, 0xcf], [10, 10, 10, 10], [0xff; 4]];
            if let (Some(first), 0..=2) = (junk.first_mut(), round % 4) {
                *first |= if round % 4 == 2 { 0x40 } else { 0xc0 };
            }
            if round % 4 < 2 && junk.len() > 8 {
                junk[1..5].copy_from_slice(&versions[round % versions.len()]);
                if round % 3 > 0 {
                    junk[5] %= 24;
                }
            }
            if round % 50 == 0 {
                junk.resize(1_200, 0);
            }
            sent += flood.send(&junk).await.unwrap_or(0);
            while let Ok(length) = flood.try_recv(&mut buffer) {
                came += length;
            }
            if round % 1_000 == 0 {
                assert_eq!(says(&client, "in the flood").await.unwrap(), "in the flood");
            } else if round % 50 == 0 {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(says(&client, "after it").await.unwrap(), "after it");
        let another = up.client(Era::Legacy).await;
        assert_eq!(says(&another, "also new").await.unwrap(), "also new");
        println!("{DATAGRAMS} datagrams of junk, {sent} bytes; answered with {came} bytes");
        // It must not be usable as an amplifier.
        assert!(came * 3 < sent, "{came} bytes for {sent}");
        another.close().await;
        client.close().await;
    });
}

#[test]
fn h162_calls_are_right_over_a_long_narrow_and_bad_way() {
    run(async {
        let rates = Rates { lost: 10, reordered: 30, duplicated: 5 };
        let path = Path { delay: Duration::from_millis(250), mtu: 1_200 };
        for (era, count) in [(Era::Modern, 700), (Era::Legacy, 300)] {
            // This is slow: a loss of 10 % leaves 10 KB/s on such a route, and a handshake may take 10 s.
            let patient = || {
                limits(|limits| {
                    (limits.request, limits.request_total) = (DEADLINE / 4, DEADLINE / 4);
                    (limits.initialize, limits.write_stall) = (DEADLINE / 4, DEADLINE / 4);
                })
            };
            let server = builder(&Gate::default()).limits(patient()).build().unwrap();
            let up = Up::with(server, |listen| listen.timeout(DEADLINE / 4)).await;
            let relay = Lossy::over(up.address, rates, path).await;
            let began = Instant::now();
            let link = mcpjoin_quic::connect(relay.address.to_string(), Trust::Key(up.pin)).streams(64);
            let link = link.timeout(DEADLINE / 4).await.unwrap();
            let client = client(era).limits(patient()).connect(link).await.unwrap();
            let calls: Vec<_> = (0..count)
                .map(|n: u32| {
                    let client = client.clone();
                    // Some messages exceed one packet.
                    let said = format!("{n} {}", "x".repeat(if n.is_multiple_of(16) { 2_000 } else { 20 }));
                    tokio::spawn(async move { (says(&client, &said).await, said) })
                })
                .collect();
            for call in calls {
                let (received, said) = call.await.unwrap();
                assert_eq!(received.unwrap(), said, "{era:?}, seed {}", relay.seed);
            }
            println!("{count} calls in {:?} of that time: {:?}", began.elapsed(), relay.counts);
            assert!(relay.counts.lost.load(Ordering::Relaxed) > 0);
            // It probed for a larger packet size, and stays at the one that passes.
            assert!(relay.counts.too_long.load(Ordering::Relaxed) > 0);
            client.close().await;
        }
    });
}

#[test]
fn a_closed_port_refuses_and_belongs_to_no_other_process() {
    let tcp = Closed::tcp();
    for _ in 0..2 {
        let refused = std::net::TcpStream::connect(tcp.address).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    }
    let taken = std::net::TcpListener::bind(tcp.address).unwrap_err();
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
    let udp = Closed::udp();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(udp.address).unwrap();
    socket.send(b"anybody?").unwrap();
    assert_eq!(socket.recv(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    assert_eq!(std::net::UdpSocket::bind(udp.address).unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
}

/// Listens on this address as soon as it is free.
async fn listen(address: SocketAddr, identity: &Identity) -> quic::Listener {
    let tls = ServerTls::new(identity.clone(), &ClientAuth::Anybody, ALPN).unwrap();
    loop {
        let tls = tls.clone();
        let address = address.to_string();
        match quic::Listener::bind(&address, move || Ok(tls.clone()), QuicOptions::default()).await {
            Ok(listener) => return listener,
            Err(error) => assert!(error.to_string().contains("in use"), "{error}"),
        }
        // After closing its connections, the endpoint listens for a moment longer, for peers that missed it.
        tokio::time::advance(Duration::from_millis(100)).await;
    }
}

async fn connected(
    listener: &quic::Listener,
    address: SocketAddr,
    tls: &ClientTls,
) -> (quic::Connection, quic::Connection) {
    let accept = async { listener.accept().await.unwrap().establish().await.unwrap() };
    let (address, options) = (address.to_string(), QuicOptions::default());
    let (ours, theirs) = tokio::join!(quic::connect(&address, tls, &options), accept);
    (ours.unwrap(), theirs)
}

#[test]
fn a_listener_that_was_started_again_says_so_to_its_former_peers_at_once() {
    run(async {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let tls = ClientTls::new(&Trust::Key(identity.facts().unwrap().key_hash), None, ALPN).unwrap();
        let port = Port::claim_udp().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port.number()));
        let relay = Lossy::to(address, Rates::NONE).await;
        for speaks in [true, false] {
            let listener = listen(address, &identity).await;
            let (ours, theirs) = connected(&listener, relay.address, &tls).await;
            let mut wire = Wire::open(&ours).await;
            wire.send.write_all(b"x").await.unwrap();
            theirs.accept().await.unwrap();
            // The process is killed: no peer is informed.
            relay.cut(true);
            listener.close(Duration::ZERO).await;
            drop((listener, theirs));
            let listener = listen(address, &identity).await;
            // Its last packets have reached the relay, but not the peer.
            tokio::time::advance(Duration::from_millis(10)).await;
            relay.cut(false);
            let since = Instant::now();
            if speaks {
                wire.send.write_all(b"more").await.unwrap();
            }
            let ended = ours.closed().await;
            assert!(matches!(ended.kind, QuicErrorKind::Reset), "{ended}");
            assert!(ended.to_string().contains("was restarted"), "{ended}");
            // An idle peer learns of it with its next keep-alive, every 10 s.
            let most = if speaks { 1 } else { 11 };
            assert!(since.elapsed() < Duration::from_secs(most), "{:?}", since.elapsed());
            drop(listener);
        }
        // A listener with another key cannot reset the connection.
        let listener = listen(address, &identity).await;
        let (ours, theirs) = connected(&listener, relay.address, &tls).await;
        relay.cut(true);
        listener.close(Duration::ZERO).await;
        drop((listener, theirs));
        let _other = listen(address, &Identity::self_signed(["localhost"]).unwrap()).await;
        tokio::time::advance(Duration::from_millis(10)).await;
        relay.cut(false);
        let ended = ours.closed().await;
        assert!(matches!(ended.kind, QuicErrorKind::Lost), "{ended}");
    });
}

#[test]
fn a_listener_that_has_stopped_or_is_dropped_refuses_newcomers_and_keeps_who_is_there() {
    run(async {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let tls = ClientTls::new(&Trust::Key(identity.facts().unwrap().key_hash), None, ALPN).unwrap();
        for drops in [false, true] {
            let listener = listen("127.0.0.1:0".parse().unwrap(), &identity).await;
            let address = listener.address();
            let (ours, theirs) = connected(&listener, address, &tls).await;
            let listener = if drops {
                drop(listener);
                None
            } else {
                listener.stop();
                listener.stop();
                Some(listener)
            };
            let since = Instant::now();
            let refused = quic::connect(&address.to_string(), &tls, &QuicOptions::default()).await;
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("accepts no new connections"), "{error}");
            assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
            // The existing connection continues.
            let mut wire = Wire::open(&ours).await;
            wire.send.write_all(b"\n").await.unwrap();
            let mut received = Wire::new(theirs.accept().await.unwrap());
            received.say(&json!({})).await;
            assert_eq!(wire.next().await, Some(json!({})));
            drop((listener, ours, wire, theirs, received));
            // After the last connection the port is free.
            drop(listen(address, &identity).await);
        }
    });
}

#[test]
fn a_connection_is_settled_when_its_end_was_sent_without_waiting_for_messages_in_flight() {
    run(async {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let tls = ClientTls::new(&Trust::Key(identity.facts().unwrap().key_hash), None, ALPN).unwrap();
        let listener = listen("127.0.0.1:0".parse().unwrap(), &identity).await;
        let path = Path { delay: Duration::from_secs(1), ..Path::default() };
        let relay = Lossy::over(listener.address(), Rates::NONE, path).await;
        let (ours, theirs) = connected(&listener, relay.address, &tls).await;
        let since = Instant::now();
        ours.close(7, "that is all");
        ours.close_sent(Duration::from_secs(60)).await;
        assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
        let ended = theirs.closed().await;
        assert!(matches!(ended.kind, QuicErrorKind::Closed { code: 7, .. }), "{ended}");
        // If the peer closed first, there is nothing to wait for.
        let (ours, theirs) = connected(&listener, relay.address, &tls).await;
        theirs.close(8, "");
        ours.closed().await;
        let since = Instant::now();
        ours.close(0, "");
        ours.close_sent(Duration::from_secs(60)).await;
        assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
    });
}
