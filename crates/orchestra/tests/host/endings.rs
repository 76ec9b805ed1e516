//! Ends: of a cancelled call, of an MCP server, and of the host.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcpjoin::Link;
use mcpjoin::client::{Restart, RestartingClient};
use mcpjoin::connection::Connection;
use mcpjoin::server::{Context, NoArguments, Server, tool};
use mcpjoin_orchestra::certs::Certificates;
use mcpjoin_orchestra::host::{Host, HostLimits, Offer};
use mcpjoin_orchestra::wire::plugin_request::Request;
use mcpjoin_orchestra::wire::plugin_response::Response;
use mcpjoin_orchestra::wire::{
    self, HealthRequest, ListToolsRequest, PluginRequest, PluginResponse, health_result,
};
use mcpjoin_quic::endpoint::QuicErrorKind;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::timeout;

use crate::{Stage, call, client, connect, json, offer, run};

/// A server with a tool that reports its start and runs until it is cancelled.
fn endless() -> (Server, mpsc::UnboundedReceiver<&'static str>) {
    let (say, said) = mpsc::unbounded_channel();
    let wait = move |_: NoArguments, context: Context| {
        let say = say.clone();
        async move {
            let told = Cancelled(say.clone());
            say.send("begun").unwrap();
            context.cancelled().await;
            drop(told);
            "cancelled"
        }
    };
    (Server::builder("endless", "1").tool(tool("wait"), wait).build().unwrap(), said)
}

/// Reports the end of a handler, however it ends.
struct Cancelled(mpsc::UnboundedSender<&'static str>);

impl Drop for Cancelled {
    fn drop(&mut self) {
        let _ = self.0.send("ended");
    }
}

fn waiting() -> PluginRequest {
    PluginRequest { request_id: "w".to_owned(), request: Some(call("wait", "{}")) }
}

#[test]
fn a_call_is_cancelled_when_its_stream_is_reset_or_stopped_or_its_connection_ends() {
    run(async {
        let (server, mut said) = endless();
        let stage = Stage::of(&server).await;
        for way in ["reset", "stopped", "closed"] {
            let connection = connect(&stage.folder, &stage.address).await;
            let (mut send, mut receive) = connection.open().await.unwrap();
            wire::write(&mut send, &waiting()).await.unwrap();
            assert_eq!(said.recv().await, Some("begun"));
            match way {
                "reset" => send.reset(0_u32.into()).unwrap(),
                "stopped" => {
                    // The client's side has ended, as with every request of the real bridge.
                    send.finish().unwrap();
                    receive.stop(0_u32.into()).unwrap();
                }
                _ => connection.close(0, "client closed"),
            }
            assert_eq!(said.recv().await, Some("ended"), "{way}");
        }
    });
}

#[test]
fn a_call_over_a_connection_that_lives_is_not_cancelled_by_another_ones_end() {
    run(async {
        let (server, mut said) = endless();
        let stage = Stage::of(&server).await;
        let (mut kept, _receive) = stage.connection.open().await.unwrap();
        wire::write(&mut kept, &waiting()).await.unwrap();
        assert_eq!(said.recv().await, Some("begun"));
        let (mut send, receive) = stage.connection.open().await.unwrap();
        wire::write(&mut send, &waiting()).await.unwrap();
        assert_eq!(said.recv().await, Some("begun"));
        drop(receive);
        assert_eq!(said.recv().await, Some("ended"));
        stage.ask(Request::Health(HealthRequest {})).await;
        assert!(said.try_recv().is_err(), "the other one goes on");
    });
}

#[test]
fn what_is_in_progress_is_finished_before_the_host_ends_in_good_order() {
    run(async {
        let go = Arc::new(Notify::new());
        let (say, mut said) = mpsc::unbounded_channel();
        let held = go.clone();
        let wait = move |_: NoArguments, _| {
            let (go, say) = (held.clone(), say.clone());
            async move {
                say.send(()).unwrap();
                go.notified().await;
                "finished"
            }
        };
        let server = Server::builder("slow", "1").tool(tool("wait"), wait).build().unwrap();
        let mut stage = Stage::of(&server).await;
        let end = stage.end.take().unwrap();
        let (answer, ()) = tokio::join!(stage.call("wait", "{}"), async {
            said.recv().await.unwrap();
            end.send(()).unwrap();
            // New clients are rejected, and the call in progress goes on.
            go.notify_one();
        });
        assert_eq!(json(&answer.result), json!({ "text": "finished" }));
        let ended = stage.connection.closed().await;
        assert!(
            matches!(&ended.kind, QuicErrorKind::Closed { code: 0, said } if said.is_empty()),
            "{ended:?}"
        );
        stage.serving.await.unwrap();
    });
}

#[test]
fn what_does_not_end_is_given_up_when_the_time_for_it_is_over() {
    run(async {
        let (server, mut said) = endless();
        let mut limits = HostLimits::default();
        limits.drain = Duration::from_millis(50);
        let mut stage = Stage::with([offer("one", &server).await], limits).await;
        let (mut send, _receive) = stage.connection.open().await.unwrap();
        wire::write(&mut send, &waiting()).await.unwrap();
        assert_eq!(said.recv().await, Some("begun"));
        stage.end.take().unwrap().send(()).unwrap();
        let ended = stage.connection.closed().await;
        assert!(matches!(ended.kind, QuicErrorKind::Closed { code: 0, .. }), "{ended:?}");
        assert_eq!(said.recv().await, Some("ended"));
        stage.serving.await.unwrap();
    });
}

#[test]
fn more_connections_than_may_be_are_refused_and_those_that_are_there_go_on() {
    run(async {
        let (server, _said) = endless();
        let mut limits = HostLimits::default();
        limits.connections = 1;
        let stage = Stage::with([offer("one", &server).await], limits).await;
        let tls = Certificates::in_directory(stage.folder.path());
        let tls = tls.client(mcpjoin_orchestra::CLIENT_NAME, mcpjoin_orchestra::ALPN).unwrap();
        let options = mcpjoin_quic::endpoint::QuicOptions::default();
        mcpjoin_quic::endpoint::connect(&stage.address, &tls, &options).await.unwrap_err();
        stage.ask(Request::Health(HealthRequest {})).await;
        // After the first client has gone there is room again.
        stage.connection.close(0, "client closed");
        stage.connection.close_sent(Duration::from_secs(5)).await;
        let connected = async {
            loop {
                if let Ok(connection) = mcpjoin_quic::endpoint::connect(&stage.address, &tls, &options).await
                {
                    break connection;
                }
            }
        };
        connected.await;
    });
}

/// The first datagram of a client that never gets a response.
async fn first_datagram(stage: &Stage) -> Vec<u8> {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let tls = Certificates::in_directory(stage.folder.path());
    let tls = tls.client(mcpjoin_orchestra::CLIENT_NAME, mcpjoin_orchestra::ALPN).unwrap();
    let (address, options) =
        (socket.local_addr().unwrap().to_string(), mcpjoin_quic::endpoint::QuicOptions::default());
    let mut datagram = vec![0; 2000];
    // One attempt for the whole loop: each attempt starts with an empty datagram, so new attempts would never progress.
    let mut connecting = std::pin::pin!(mcpjoin_quic::endpoint::connect(&address, &tls, &options));
    loop {
        tokio::select! {
            biased;
            // An empty datagram tests whether the port is open.
            received = socket.recv(&mut datagram) => {
                let length = received.unwrap();
                if length > 0 {
                    datagram.truncate(length);
                    return datagram;
                }
            }
            connected = &mut connecting => panic!("{connected:?}"),
        }
    }
}

#[test]
fn who_is_in_the_middle_of_a_handshake_does_not_keep_the_host_from_ending() {
    run(async {
        let (server, _said) = endless();
        let mut stage = Stage::of(&server).await;
        let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        stranger.send_to(&first_datagram(&stage).await, &stage.address).await.unwrap();
        // The stranger would need this response to continue.
        assert!(stranger.recv(&mut [0; 2000]).await.unwrap() > 0);
        stage.end.take().unwrap().send(()).unwrap();
        let ended = timeout(HostLimits::default().drain / 2, stage.serving).await;
        ended.expect("it waits for the stranger").unwrap();
    });
}

#[test]
fn who_is_there_and_has_not_said_a_byte_over_tcp_does_not_either() {
    run(async {
        let (server, _said) = endless();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let host = Host::new([offer("one", &server).await], HostLimits::default());
        let (end, ends) = oneshot::channel::<()>();
        let serving = tokio::spawn(async move { host.serve_tcp(listener, async { drop(ends.await) }).await });
        let mut silent = TcpStream::connect(address).await.unwrap();
        // A later client gets a response, so the silent one was accepted.
        let mut other = TcpStream::connect(address).await.unwrap();
        let health =
            PluginRequest { request_id: "h".to_owned(), request: Some(Request::Health(HealthRequest {})) };
        wire::write(&mut other, &health).await.unwrap();
        wire::read::<PluginResponse>(&mut other).await.unwrap();
        end.send(()).unwrap();
        let ended = timeout(HostLimits::default().drain / 2, serving).await;
        ended.expect("it waits for who says nothing").unwrap();
        assert_eq!(silent.read(&mut [0]).await.unwrap(), 0);
    });
}

/// A server that can be stopped and is restarted each time, with the number of starts.
#[derive(Clone, Default)]
struct Mortal {
    starts: Arc<AtomicUsize>,
    runs: Arc<std::sync::Mutex<Vec<Connection>>>,
    client: Arc<std::sync::OnceLock<RestartingClient>>,
}

impl Mortal {
    async fn offer(&self, name: &'static str) -> Offer {
        let mortal = self.clone();
        let start = move || {
            let mortal = mortal.clone();
            async move {
                let (ours, theirs) = Link::memory();
                let run = mortal.starts.fetch_add(1, Ordering::SeqCst) + 1;
                let server = Server::builder(name, "1")
                    .tool(tool("run"), move |_: NoArguments, _| async move { run.to_string() })
                    .build()
                    .unwrap();
                mortal.runs.lock().unwrap().push(server.connect(theirs));
                Ok::<Link, std::io::Error>(ours)
            }
        };
        let restart = Restart::default().pauses(Duration::from_millis(1), Duration::from_millis(1));
        let client = client().restarting(restart, start).await.unwrap();
        self.client.set(client.clone()).unwrap();
        Offer::restarting(name, client)
    }

    /// Stops the current run, also from its client's point of view.
    async fn die(&self) {
        let run = self.runs.lock().unwrap().pop().unwrap();
        let client = self.client.get().unwrap().client().await.unwrap();
        run.close();
        run.closed().await;
        client.closed().await;
    }
}

#[test]
fn a_server_that_dies_is_there_again_for_the_next_call() {
    run(async {
        let mortal = Mortal::default();
        let stage = Stage::with([mortal.offer("mortal").await], HostLimits::default()).await;
        assert_eq!(json(&stage.call("run", "{}").await.result), json!({ "text": "1" }));
        mortal.die().await;
        assert_eq!(json(&stage.call("run", "{}").await.result), json!({ "text": "2" }));
    });
}

#[test]
fn a_server_that_is_gone_is_named_in_health_and_errors_and_hides_no_other() {
    run(async {
        let (ours, theirs) = Link::memory();
        let server = Server::builder("gone", "1").tool(tool("gone"), |_: NoArguments, _| async { "here" });
        let far = server.build().unwrap().connect(theirs);
        let gone = client().connect(ours).await.unwrap();
        let other = Server::builder("other", "1").tool(tool("other"), |_: NoArguments, _| async { "here" });
        let offers = [offer("other", &other.build().unwrap()).await, Offer::client("gone", gone.clone())];
        let stage = Stage::with(offers, HostLimits::default()).await;
        stage.call("gone", "{}").await;
        far.close();
        gone.closed().await;

        let (code, message) = stage.refused(call("gone", "{}")).await;
        assert_eq!(code, "routing_error");
        assert!(message.contains("the MCP server `gone` is unavailable"), "{message}");
        assert_eq!(json(&stage.call("other", "{}").await.result), json!({ "text": "here" }));
        let Response::ListTools(list) = stage.ask(Request::ListTools(ListToolsRequest {})).await else {
            panic!("a list")
        };
        assert_eq!(list.tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["other"]);
        let Response::Health(health) = stage.ask(Request::Health(HealthRequest {})).await else { panic!() };
        assert_eq!(health.status(), health_result::Status::Degraded);
        assert_eq!(health.message, "1 of 2 MCP servers are unavailable");
        assert_eq!(health.details.keys().collect::<Vec<_>>(), ["gone"]);
    });
}

#[test]
fn without_any_server_lists_are_errors_and_health_says_so() {
    run(async {
        let (ours, theirs) = Link::memory();
        let far = Server::builder("gone", "1").build().unwrap().connect(theirs);
        let gone = client().connect(ours).await.unwrap();
        far.close();
        gone.closed().await;
        let stage = Stage::with([Offer::client("gone", gone)], HostLimits::default()).await;
        let (code, _) = stage.refused(Request::ListTools(ListToolsRequest {})).await;
        assert_eq!(code, "routing_error");
        assert_eq!(stage.refused(call("any", "{}")).await.0, "routing_error");
        let Response::Health(health) = stage.ask(Request::Health(HealthRequest {})).await else { panic!() };
        assert_eq!(health.status(), health_result::Status::Unhealthy);
    });
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_started_again_is_waited_for_ten_seconds() {
    let (ours, theirs) = Link::memory();
    let server = Server::builder("slow", "1").tool(tool("run"), |_: NoArguments, _| async { "here" });
    let far = server.build().unwrap().connect(theirs);
    let first = std::sync::Mutex::new(Some(ours));
    let start = move || {
        let link = first.lock().unwrap().take();
        async move {
            match link {
                Some(link) => Ok::<Link, std::io::Error>(link),
                None => std::future::pending().await,
            }
        }
    };
    let slow = client().restarting(Restart::default(), start).await.unwrap();
    let run = slow.client().await.unwrap();
    let host = Host::new([Offer::restarting("slow", slow)], HostLimits::default());
    let ask = async || {
        let request = PluginRequest { request_id: "1".to_owned(), request: Some(call("run", "{}")) };
        match host.answer(request).await.response {
            Some(Response::ToolCall(response)) => response,
            other => panic!("{other:?}"),
        }
    };
    assert!(ask().await.success);
    far.close();
    run.closed().await;
    let began = tokio::time::Instant::now();
    let answer = ask().await;
    assert_eq!((answer.success, &*answer.error_code), (false, "routing_error"));
    assert_eq!(began.elapsed().as_millis(), 10_000);
}
