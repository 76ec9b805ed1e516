//! Connections: established, rejected, lost and closed.

use std::time::{Duration, Instant};

use mcpjoin_orchestra::certs::Certificates;
use mcpjoin_orchestra::wire::plugin_request::Request;
use mcpjoin_orchestra::wire::{self, ListToolsRequest, PluginRequest, WireError};
use mcpjoin_orchestra::{ALPN, CLIENT_NAME, SERVER_NAME};
use mcpjoin_quic::endpoint::{self as quic, ClientTls, Connection, Listener, QuicErrorKind, QuicOptions};

use crate::lossy::{Lossy, Rates};
use crate::ports::Closed;
use crate::{Folder, run};

/// A listener that echoes every frame of every stream.
async fn echo(certificates: &Certificates, address: &str, options: QuicOptions) -> Listener {
    let certificates = certificates.clone();
    Listener::bind(address, move || certificates.server(SERVER_NAME, true, ALPN), options).await.unwrap()
}

async fn serve(listener: &Listener) {
    while let Some(incoming) = listener.accept().await {
        tokio::spawn(async move {
            let Ok(connection) = incoming.establish().await else { return };
            while let Ok((mut send, mut receive)) = connection.accept().await {
                tokio::spawn(async move {
                    let request: Result<PluginRequest, WireError> = wire::read(&mut receive).await;
                    if let Ok(request) = request {
                        wire::write(&mut send, &request).await.unwrap();
                    }
                    let _ = send.finish();
                });
            }
        });
    }
}

fn list(id: &str) -> PluginRequest {
    PluginRequest { request_id: id.to_owned(), request: Some(Request::ListTools(ListToolsRequest {})) }
}

async fn exchange(connection: &Connection, id: &str) -> PluginRequest {
    let (mut send, mut receive) = connection.open().await.unwrap();
    wire::write(&mut send, &list(id)).await.unwrap();
    send.finish().unwrap();
    wire::read(&mut receive).await.unwrap()
}

fn tls(certificates: &Certificates) -> ClientTls {
    certificates.client(CLIENT_NAME, ALPN).unwrap()
}

#[test]
fn frames_cross_in_both_directions_on_as_many_streams_as_are_opened() {
    let folder = Folder::new();
    let certificates = Certificates::in_directory(folder.path());
    run(async {
        let listener = echo(&certificates, "127.0.0.1:0", QuicOptions::default()).await;
        let address = listener.address().to_string();
        let connected = async {
            let connection =
                quic::connect(&address, &tls(&certificates), &QuicOptions::default()).await.unwrap();
            assert_eq!(connection.peer_name().as_deref(), Some(SERVER_NAME));
            assert_eq!(connection.address(), address);
            // More than the peer allows at once: the rest waits.
            let all = (0..400).map(|id| {
                let connection = &connection;
                async move { assert_eq!(exchange(connection, &id.to_string()).await, list(&id.to_string())) }
            });
            futures_util::future::join_all(all).await;
            connection.close(0, "client closed");
            connection.close_sent(Duration::from_secs(5)).await;
            assert!(matches!(connection.closed().await.kind, QuicErrorKind::ClosedByUs));
        };
        tokio::select! { () = serve(&listener) => panic!("the listener ended"), () = connected => {} }
    });
}

#[test]
fn the_peer_learns_how_a_connection_is_closed() {
    let folder = Folder::new();
    let certificates = Certificates::in_directory(folder.path());
    run(async {
        let listener = echo(&certificates, "127.0.0.1:0", QuicOptions::default()).await;
        let address = listener.address().to_string();
        let (client, options) = (tls(&certificates), QuicOptions::default());
        let connect = quic::connect(&address, &client, &options);
        let accept = async { listener.accept().await.unwrap().establish().await };
        let (ours, theirs) = tokio::join!(connect, accept);
        let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
        assert_eq!(theirs.peer_name().as_deref(), Some(CLIENT_NAME));
        ours.close(0, "client closed");
        let QuicErrorKind::Closed { code: 0, said } = theirs.accept().await.unwrap_err().kind else {
            panic!("closed")
        };
        assert_eq!(said, "client closed");

        let (ours, theirs) = tokio::join!(quic::connect(&address, &client, &options), async {
            listener.accept().await.unwrap().establish().await
        });
        let (ours, _theirs) = (ours.unwrap(), theirs.unwrap());
        listener.close(Duration::from_secs(5)).await;
        assert!(matches!(ours.closed().await.kind, QuicErrorKind::Closed { code: 0, .. }));
        assert!(ours.ended().is_some());
        assert!(listener.accept().await.is_none());
    });
}

#[test]
fn the_peer_of_a_process_that_exits_learns_of_it_once_the_connection_is_settled() {
    let folder = Folder::new();
    let certificates = Certificates::in_directory(folder.path());
    run(async {
        let listener = echo(&certificates, "127.0.0.1:0", QuicOptions::default()).await;
        let (address, client) = (listener.address().to_string(), tls(&certificates));
        let process = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let connection = quic::connect(&address, &client, &QuicOptions::default()).await.unwrap();
                connection.close(0, "client closed");
                connection.close_sent(Duration::from_secs(5)).await;
            });
            // The sending task ends with it.
            drop(runtime);
        });
        let theirs = listener.accept().await.unwrap().establish().await.unwrap();
        process.await.unwrap();
        let ended = theirs.closed().await;
        assert!(matches!(ended.kind, QuicErrorKind::Closed { code: 0, .. }), "{ended:?}");
    });
}

#[test]
fn names_and_addresses_of_both_kinds_are_reached() {
    let folder = Folder::new();
    let certificates = Certificates::in_directory(folder.path());
    run(async {
        for (host, named) in [("127.0.0.1", "localhost"), ("[::1]", "[::1]")] {
            let listener = echo(&certificates, &format!("{host}:0"), QuicOptions::default()).await;
            let address = format!("{named}:{}", listener.address().port());
            let connected = async {
                let connection = quic::connect(&address, &tls(&certificates), &QuicOptions::default()).await;
                exchange(&connection.unwrap(), "1").await;
            };
            tokio::select! { () = serve(&listener) => panic!("the listener ended"), () = connected => {} }
        }
    });
}

#[test]
fn h159_a_closed_port_is_reported_at_once_with_every_address() {
    let folder = Folder::new();
    let certificates = Certificates::in_directory(folder.path());
    run(async {
        let closed = Closed::udp();
        let port = closed.port();
        let began = Instant::now();
        let options = QuicOptions::default();
        let error =
            quic::connect(&format!("127.0.0.1:{port}"), &tls(&certificates), &options).await.unwrap_err();
        // Well below the timeout of 10 s, and the 5 s in which the bridge must report it.
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        let QuicErrorKind::Unreached(attempts) = &error.kind else { panic!("{error}") };
        assert_eq!(attempts.len(), 1);
        assert!(error.to_string().starts_with(&format!("127.0.0.1:{port}: no connection: ")), "{error}");
    });
}

#[test]
fn a_peer_that_is_silent_is_given_up_in_time() {
    let folder = Folder::new();
    let certificates = Certificates::in_directory(folder.path());
    run(async {
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap().to_string();
        let mut options = QuicOptions::default();
        options.connect_timeout = Duration::from_millis(300);
        let error = quic::connect(&address, &tls(&certificates), &options).await.unwrap_err();
        assert_eq!(error.to_string(), format!("{address}: no connection within 300 ms: no response"));
    });
}

#[test]
fn h161_another_protocol_is_refused_and_both_sides_say_so() {
    let folder = Folder::new();
    let certificates = Certificates::in_directory(folder.path());
    run(async {
        let listener = echo(&certificates, "127.0.0.1:0", QuicOptions::default()).await;
        let address = listener.address().to_string();
        let client = certificates.client(CLIENT_NAME, "mcp").unwrap();
        let options = QuicOptions::default();
        let connect = quic::connect(&address, &client, &options);
        let accept = async { listener.accept().await.unwrap().establish().await };
        let (ours, theirs) = tokio::join!(connect, accept);
        let (ours, theirs) = (ours.unwrap_err(), theirs.unwrap_err());
        assert!(matches!(&ours.kind, QuicErrorKind::Protocol { ours } if ours == "mcp"), "{ours}");
        assert!(matches!(&theirs.kind, QuicErrorKind::Protocol { ours } if ours == ALPN), "{theirs}");
    });
}

#[test]
fn a_peer_that_is_gone_is_noticed_when_nothing_has_come_for_the_idle_time() {
    let folder = Folder::new();
    let certificates = Certificates::in_directory(folder.path());
    run(async {
        let listener = echo(&certificates, "127.0.0.1:0", QuicOptions::default()).await;
        let relay = Lossy::to(listener.address(), Rates::NONE).await;
        let address = relay.address.to_string();
        let mut options = QuicOptions::default();
        (options.idle, options.keep_alive) = (Duration::from_secs(3), Duration::from_millis(500));
        let connected = async {
            let connection = quic::connect(&address, &tls(&certificates), &options).await.unwrap();
            exchange(&connection, "1").await;
            relay.point(None);
            assert!(matches!(connection.closed().await.kind, QuicErrorKind::Lost));
        };
        tokio::select! { () = serve(&listener) => panic!("the listener ended"), () = connected => {} }
    });
}

#[test]
fn an_address_that_is_none_is_refused() {
    let folder = Folder::new();
    let certificates = Certificates::in_directory(folder.path());
    run(async {
        for address in ["", "localhost", "localhost:x", "::1:1", ":1"] {
            let error =
                quic::connect(address, &tls(&certificates), &QuicOptions::default()).await.unwrap_err();
            assert!(matches!(error.kind, QuicErrorKind::Address), "{address}: {error}");
        }
        let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let listened = Listener::bind(
            &address,
            move || certificates.server(SERVER_NAME, true, ALPN),
            QuicOptions::default(),
        );
        assert!(matches!(listened.await.unwrap_err().kind, QuicErrorKind::System(_)));
    });
}

#[test]
fn frames_cross_plain_tcp() {
    run(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let far = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request: PluginRequest = wire::read(&mut stream).await.unwrap();
            wire::write(&mut stream, &request).await.unwrap();
        };
        let near = async {
            let mut stream = mcpjoin_orchestra::tcp(&address, Duration::from_secs(10)).await.unwrap();
            wire::write(&mut stream, &list("t")).await.unwrap();
            assert_eq!(wire::read::<PluginRequest>(&mut stream).await.unwrap(), list("t"));
        };
        tokio::join!(far, near);
    });
}
