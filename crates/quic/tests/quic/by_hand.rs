//! One side is driven stream by stream, as `docs/quic.md` describes it: what another implementation must do, and what
//! it may omit.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use mcpjoin::Client;
use mcpjoin::proto::Era;
use mcpjoin::proto::session::EraChoice;
use mcpjoin_quic::ALPN;
use mcpjoin_quic::endpoint::{
    self as quic, ClientAuth, ClientTls, Connection, Identity, Listener, QuicOptions, RecvStream, SendStream,
    ServerTls, Trust,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::{Gate, Up, builder, run, text};

pub(crate) fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub(crate) fn note(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// A modern request with its `_meta`.
pub(crate) fn modern(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "by hand", "version": "1"},
    });
    request(id, method, &params)
}

pub(crate) fn initialize(id: u64) -> Value {
    request(
        id,
        "initialize",
        &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"}}),
    )
}

pub(crate) fn call(id: u64, tool: &str) -> Value {
    request(id, "tools/call", &json!({"name": tool, "arguments": {}}))
}

/// A bidirectional stream of lines.
pub(crate) struct Wire {
    pub(crate) send: SendStream,
    pub(crate) receive: BufReader<RecvStream>,
}

impl Wire {
    pub(crate) fn new((send, receive): (SendStream, RecvStream)) -> Self {
        Self { send, receive: BufReader::new(receive) }
    }

    pub(crate) async fn open(connection: &Connection) -> Self {
        Self::new(connection.open().await.unwrap())
    }

    pub(crate) async fn say(&mut self, value: &Value) {
        self.send.write_all(format!("{value}\n").as_bytes()).await.unwrap();
    }

    /// The next line; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = self.receive.read_line(&mut line).await.unwrap();
        (read > 0).then(|| serde_json::from_str(&line).unwrap())
    }

    /// Sends one message, and expects one response and the end of the stream.
    pub(crate) async fn ask(connection: &Connection, value: &Value) -> Value {
        let mut wire = Self::open(connection).await;
        wire.say(value).await;
        wire.send.finish().unwrap();
        let answer = wire.next().await.expect("an answer");
        assert_eq!(wire.next().await, None, "the answer is the last");
        answer
    }

    /// The error code of the peer's reset.
    pub(crate) async fn reset_with(&mut self) -> u64 {
        loop {
            match self.receive.get_mut().read_chunk(1024, true).await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it has ended in good order"),
                Err(quinn::ReadError::Reset(code)) => return code.into_inner(),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Connects to our server and opens the session stream.
pub(crate) async fn connect(up: &Up) -> (Connection, Wire) {
    let tls = ClientTls::new(&Trust::Key(up.pin), None, ALPN).unwrap();
    let connection = quic::connect(&up.address.to_string(), &tls, &QuicOptions::default()).await.unwrap();
    let session = Wire::open(&connection).await;
    (connection, session)
}

async fn up() -> Up {
    Up::new(builder(&Gate::default()).build().unwrap()).await
}

#[test]
fn a_modern_client_needs_no_stream_of_the_session() {
    run(async {
        let up = up().await;
        let (connection, _session) = connect(&up).await;
        let found = Wire::ask(&connection, &modern(1, "server/discover", json!({}))).await;
        assert!(found["result"]["supportedVersions"].is_array(), "{found}");
        let steps = modern(1, "tools/call", json!({"name": "echo", "arguments": {"text": "x"}}));
        assert_eq!(Wire::ask(&connection, &steps).await["result"]["content"][0]["text"], "x");
    });
}

#[test]
fn a_legacy_client_may_ask_before_initialized_has_arrived() {
    run(async {
        let up = up().await;
        let (connection, mut session) = connect(&up).await;
        let mut opening = Wire::open(&connection).await;
        opening.say(&initialize(1)).await;
        assert_eq!(opening.next().await.unwrap()["result"]["protocolVersion"], "2025-06-18");
        // Streams are not ordered: this request was sent later, arrives earlier, and waits.
        let mut early = Wire::open(&connection).await;
        early.say(&call(2, "origin")).await;
        // A ping does not wait. It shows that the call has arrived.
        let pong = Wire::ask(&connection, &request(3, "ping", &json!({}))).await;
        assert_eq!(pong["result"], json!({}));
        session.say(&note("notifications/initialized", &json!({}))).await;
        let answer = early.next().await.unwrap();
        assert!(answer["result"]["content"].is_array(), "{answer}");
        assert_eq!(early.next().await, None);
    });
}

#[test]
fn a_client_that_says_everything_on_one_stream_is_served_as_on_standard_input() {
    run(async {
        let gate = Gate::default();
        let up = Up::new(builder(&gate).build().unwrap()).await;
        let (_connection, mut session) = connect(&up).await;
        session.say(&initialize(1)).await;
        assert_eq!(session.next().await.unwrap()["id"], 1);
        session.say(&note("notifications/initialized", &json!({}))).await;
        session.say(&call(2, "wait")).await;
        gate.begin(1).await;
        session.say(&call(3, "origin")).await;
        assert_eq!(session.next().await.unwrap()["id"], 3);
        session.say(&note("notifications/cancelled", &json!({"requestId": 2}))).await;
        gate.left.notified().await;
        session.say(&json!([1])).await;
        assert!(session.next().await.unwrap()["error"].is_object());
    });
}

#[test]
fn a_legacy_cancellation_ends_the_stream_without_an_answer() {
    run(async {
        let gate = Gate::default();
        let up = Up::new(builder(&gate).build().unwrap()).await;
        let (connection, mut session) = connect(&up).await;
        assert!(Wire::ask(&connection, &initialize(1)).await["result"].is_object());
        session.say(&note("notifications/initialized", &json!({}))).await;
        let mut wire = Wire::open(&connection).await;
        wire.say(&call(2, "wait")).await;
        gate.begin(1).await;
        wire.say(&note("notifications/cancelled", &json!({"requestId": 2}))).await;
        gate.left.notified().await;
        assert_eq!(wire.next().await, None);
        // In this era a reset is not a cancellation: the call goes on, and its response is dropped.
        let mut wire = Wire::open(&connection).await;
        wire.say(&call(3, "wait")).await;
        gate.begin(1).await;
        wire.send.reset(1_u32.into()).unwrap();
        assert_eq!(wire.reset_with().await, 1);
        assert_eq!(gate.waiting.load(std::sync::atomic::Ordering::SeqCst), 1);
        gate.go_on.add_permits(1);
        gate.left.notified().await;
        assert!(Wire::ask(&connection, &call(4, "origin")).await["result"].is_object());
    });
}

#[test]
fn a_modern_request_is_cancelled_by_either_half() {
    run(async {
        for reset in [true, false] {
            let gate = Gate::default();
            let up = Up::new(builder(&gate).build().unwrap()).await;
            let (connection, _session) = connect(&up).await;
            Wire::ask(&connection, &modern(1, "tools/list", json!({}))).await;
            let mut wire = Wire::open(&connection).await;
            wire.say(&modern(2, "tools/call", json!({"name": "wait", "arguments": {}}))).await;
            gate.begin(1).await;
            if reset {
                wire.send.reset(1_u32.into()).unwrap();
            } else {
                wire.receive.get_mut().stop(1_u32.into()).unwrap();
            }
            gate.left.notified().await;
        }
    });
}

/// A server driven by hand, and our client connected to it in this era.
async fn served(era: Era) -> (Client, Arc<Connection>, Wire, Listener) {
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let pin = identity.facts().unwrap().key_hash;
    let tls = ServerTls::new(identity, &ClientAuth::Anybody, ALPN).unwrap();
    let listener =
        Listener::bind("127.0.0.1:0", move || Ok(tls.clone()), QuicOptions::default()).await.unwrap();
    let address = listener.address().to_string();
    let accept = async { listener.accept().await.unwrap().establish().await.unwrap() };
    let (link, connection) =
        tokio::join!(mcpjoin_quic::connect(&address, Trust::Key(pin)).into_future(), accept);
    let connection = Arc::new(connection);
    let builder = Client::builder("c", "1").era(EraChoice::Only(era));
    let opening = tokio::spawn(async move { builder.connect(link.unwrap()).await });
    let mut session = Wire::new(connection.accept().await.unwrap());
    assert_eq!(session.send.id().index(), 0);
    let mut wire = Wire::new(connection.accept().await.unwrap());
    let asked = wire.next().await.unwrap();
    let result = match era {
        Era::Legacy => {
            json!({"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}})
        }
        Era::Modern => {
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}, "ttlMs": 0, "cacheScope": "private"})
        }
    };
    wire.say(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": result})).await;
    wire.send.finish().unwrap();
    let client = opening.await.unwrap().unwrap();
    if era == Era::Legacy {
        assert_eq!(session.next().await.unwrap()["method"], "notifications/initialized");
    }
    (client, connection, session, listener)
}

/// Lets the client call a tool, and returns the stream.
async fn calling(
    client: &Client,
    connection: &Connection,
) -> (tokio::task::JoinHandle<Result<String, String>>, Wire, Value) {
    let client = client.clone();
    let calling = tokio::spawn(async move {
        let result = client.call_tool("t", ()).await.map_err(|error| error.to_string())?;
        Ok(text(&result))
    });
    let mut wire = Wire::new(connection.accept().await.unwrap());
    let asked = wire.next().await.unwrap();
    assert_eq!(asked["method"], "tools/call");
    (calling, wire, asked["id"].clone())
}

fn answer(id: &Value, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", "content": [{"type": "text", "text": text}]}})
}

#[test]
fn a_stream_that_is_reset_or_ends_early_loses_its_call_and_no_other() {
    run(async {
        for era in crate::BOTH {
            let (client, connection, _session, _listener) = served(era).await;
            let (other, mut well, id) = calling(&client, &connection).await;

            let (lost, mut wire, _) = calling(&client, &connection).await;
            wire.send.reset(1_u32.into()).unwrap();
            let error = lost.await.unwrap().unwrap_err();
            assert!(error.contains("cancelled this request"), "{error}");

            let (lost, mut wire, _) = calling(&client, &connection).await;
            wire.send.finish().unwrap();
            let error = lost.await.unwrap().unwrap_err();
            assert!(error.contains("without answering"), "{error}");

            // An incomplete response is an error, whether it is cut in its text or inside a character.
            for text in ["half", "€"] {
                let (lost, mut wire, id_of_half) = calling(&client, &connection).await;
                let half = answer(&id_of_half, text).to_string();
                let cut = half.find(text).unwrap() + 2;
                wire.send.write_all(&half.as_bytes()[..cut]).await.unwrap();
                wire.send.finish().unwrap();
                let error = lost.await.unwrap().unwrap_err();
                let words =
                    format!("the answer was cut off: the peer has ended its stream after {cut} bytes");
                assert!(error.contains(&words), "{error}");
            }

            // A response without a final line feed is complete.
            let (found, mut wire, id_of_last) = calling(&client, &connection).await;
            wire.send.write_all(answer(&id_of_last, "last").to_string().as_bytes()).await.unwrap();
            wire.send.finish().unwrap();
            assert_eq!(found.await.unwrap().unwrap(), "last");

            well.say(&answer(&id, "well")).await;
            well.send.finish().unwrap();
            assert_eq!(other.await.unwrap().unwrap(), "well", "{era:?}");
            client.close().await;
        }
    });
}

#[test]
fn the_client_ends_its_half_and_cancels_as_its_era_does() {
    run(async {
        let (client, connection, _session, _listener) = served(Era::Modern).await;
        let (gone, mut wire, _) = calling(&client, &connection).await;
        // Nothing follows a modern request.
        assert_eq!(wire.next().await, None);
        gone.abort();
        assert_eq!(wire.send.stopped().await.unwrap().map(quinn::VarInt::into_inner), Some(1));
        client.close().await;

        let (client, connection, _session, _listener) = served(Era::Legacy).await;
        let (gone, mut wire, id) = calling(&client, &connection).await;
        gone.abort();
        let cancelled = wire.next().await.unwrap();
        assert_eq!(
            (&cancelled["method"], &cancelled["params"]["requestId"]),
            (&json!("notifications/cancelled"), &id)
        );
        assert_eq!(wire.next().await, None);
        // The STOP_SENDING of our side shows that no response is expected.
        assert_eq!(wire.send.stopped().await.unwrap().map(quinn::VarInt::into_inner), Some(1));

        let (called, mut wire, id) = calling(&client, &connection).await;
        wire.say(&request(7, "ping", &json!({}))).await;
        assert_eq!(wire.next().await.unwrap(), json!({"jsonrpc": "2.0", "id": 7, "result": {}}));
        wire.say(&answer(&id, "x")).await;
        assert_eq!(called.await.unwrap().unwrap(), "x");
        assert_eq!(wire.next().await, None);
        client.close().await;
        let closed = connection.closed().await;
        assert!(matches!(closed.kind, quic::QuicErrorKind::Closed { code: 0, .. }), "{closed}");
    });
}

#[test]
fn a_connection_that_the_server_closes_ends_each_call_with_its_words() {
    run(async {
        for era in crate::BOTH {
            let (client, connection, _session, _listener) = served(era).await;
            let (one, _wire, _) = calling(&client, &connection).await;
            let (two, _other, _) = calling(&client, &connection).await;
            connection.close(9, "maintenance");
            for lost in [one, two] {
                let error = lost.await.unwrap().unwrap_err();
                assert!(error.contains("maintenance") && error.contains("code 9"), "{error}");
            }
        }
    });
}

#[test]
fn a_server_may_open_no_stream() {
    run(async {
        let (client, connection, _session, _listener) = served(Era::Modern).await;
        // The client has allowed no server streams, however often it sends.
        for _ in 0..3 {
            let (called, mut wire, id) = calling(&client, &connection).await;
            wire.say(&answer(&id, "x")).await;
            called.await.unwrap().unwrap();
            let mut opening = pin!(connection.open());
            let opened = poll_fn(|cx| Poll::Ready(opening.as_mut().poll(cx).is_ready())).await;
            assert!(!opened);
        }
        client.close().await;
    });
}

#[test]
fn an_array_that_the_revision_does_not_have_is_refused_on_its_own_stream() {
    run(async {
        let up = up().await;
        let (connection, mut session) = connect(&up).await;
        assert!(Wire::ask(&connection, &initialize(1)).await["result"].is_object());
        session.say(&note("notifications/initialized", &json!({}))).await;
        for array in [
            json!([request(2, "ping", &json!({}))]),
            json!([note("notifications/progress", &json!({"progressToken": 1, "progress": 1}))]),
        ] {
            let answer = Wire::ask(&connection, &array).await;
            assert!(answer["error"].is_object(), "{answer}");
        }
        // The ids in it are free again.
        assert_eq!(Wire::ask(&connection, &request(2, "ping", &json!({}))).await["id"], 2);
    });
}

#[test]
fn the_answer_to_an_array_goes_onto_the_stream_that_has_brought_it() {
    run(async {
        let gate = Gate::default();
        let up = Up::new(builder(&gate).build().unwrap()).await;
        let (connection, mut session) = connect(&up).await;
        let mut opening = initialize(1);
        opening["params"]["protocolVersion"] = "2025-03-26".into();
        assert!(Wire::ask(&connection, &opening).await["result"].is_object());
        session.say(&note("notifications/initialized", &json!({}))).await;
        // An answered array must not redirect a later response.
        session.say(&json!([request(2, "ping", &json!({}))])).await;
        assert_eq!(session.next().await.unwrap()[0]["id"], 2);
        // Neither must one that needs no answer.
        session
            .say(&json!([note("notifications/progress", &json!({"progressToken": 1, "progress": 1}))]))
            .await;
        session.say(&request(4, "ping", &json!({}))).await;
        assert_eq!(session.next().await.unwrap()["id"], 4);
        let mut waiting = Wire::open(&connection).await;
        waiting.say(&call(3, "wait")).await;
        gate.begin(1).await;
        let no_request = json!([{"jsonrpc": "2.0", "id": 3, "method": 7}]);
        let answers = Wire::ask(&connection, &no_request).await;
        assert!(answers[0]["error"].is_object(), "{answers}");
        let answer = Wire::ask(&connection, &json!(7)).await;
        assert!(answer["error"].is_object(), "{answer}");
        gate.go_on.add_permits(1);
        assert!(waiting.next().await.unwrap()["result"]["content"].is_array());
    });
}
