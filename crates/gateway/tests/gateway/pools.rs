//! Tests of modern clients that cannot be told apart, in front of a legacy server that asks: each question reaches its own
//! call.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mcpjoin::Link;
use mcpjoin::proto::session::{EraChoice, Inbound, Origin, Outbound, TransportCaps};
use mcpjoin::proto::{Era, RequestId, decode, encode};
use mcpjoin::transport::ChannelDriver;
use mcpjoin_gateway::{Gateway, GatewayBuilder};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Raw, client, modern_request, passes, run};

const HOME: &str = "192.0.2.1:7";
const ASKABLE: &str = r#"{"elicitation":{},"roots":{}}"#;
/// How long an unused server beyond the first is kept.
const UNUSED_UPSTREAM_TIMEOUT: Duration = Duration::from_secs(300);

/// A client over HTTP as the gateway sees it: without a session, and known only by an address.
pub(crate) struct Person {
    driver: ChannelDriver,
    origin: Arc<Origin>,
    capabilities: &'static str,
}

impl Person {
    pub(crate) fn at(gateway: &Gateway, address: &str) -> Self {
        Self::with(gateway, address, TransportCaps { exchanges: true, ..TransportCaps::default() })
    }

    /// A client with a connection of its own.
    pub(crate) fn on_stream(gateway: &Gateway, address: &str) -> Self {
        Self::with(gateway, address, TransportCaps::default())
    }

    fn with(gateway: &Gateway, address: &str, caps: TransportCaps) -> Self {
        let (link, driver) = Link::channel(caps);
        let gateway = gateway.clone();
        tokio::spawn(async move { gateway.serve(link).await });
        let origin = Arc::new(Origin { peer: Some(address.into()), ..Origin::new("http") });
        Self { driver, origin, capabilities: ASKABLE }
    }

    /// A client of this origin, with a connection of its own if it `streams`.
    pub(crate) fn from(gateway: &Gateway, origin: Origin, streams: bool) -> Self {
        let mut person = if streams { Self::on_stream(gateway, HOME) } else { Self::at(gateway, HOME) };
        person.origin = Arc::new(origin);
        person
    }

    pub(crate) fn of(gateway: &Gateway, principal: &str) -> Self {
        let mut person = Self::at(gateway, HOME);
        person.origin = Arc::new(Origin { principal: Some(principal.into()), ..(*person.origin).clone() });
        person
    }

    async fn ask_with(&mut self, id: i64, method: &str, mut params: Value, meta: Value) {
        let capabilities: Value = serde_json::from_str(self.capabilities).unwrap();
        let mut all = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        all.as_object_mut().unwrap().extend(meta.as_object().unwrap().clone());
        params["_meta"] = all;
        self.say(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()).await;
    }

    pub(crate) async fn say(&mut self, text: String) {
        assert!(self.tries(text).await, "the connection has ended");
    }

    /// Sends on a connection that may have ended; returns whether it was accepted.
    pub(crate) async fn tries(&mut self, text: String) -> bool {
        let Ok(decode::Decoded::Message(message)) = decode::decode(&Bytes::from(text), &Default::default())
        else {
            panic!("no message")
        };
        self.driver.send(Inbound::Message { message, origin: self.origin.clone() }).await.is_ok()
    }

    async fn ask(&mut self, id: i64, method: &str, params: Value) {
        self.ask_with(id, method, params, json!({})).await;
    }

    async fn call(&mut self, id: i64, tool: &str) {
        self.ask(id, "tools/call", json!({ "name": tool })).await;
    }

    /// Repeats the request with the answer to the first question.
    async fn answer(&mut self, id: i64, tool: &str, state: &str, answer: &str) {
        let answers = json!({ "ask-1": { "action": "accept", "content": { "said": answer } } });
        let params = json!({ "name": tool, "requestState": state, "inputResponses": answers });
        self.ask(id, "tools/call", params).await;
    }

    /// Closes the HTTP exchange of a request.
    async fn leave(&mut self, id: i64) {
        self.leaves(RequestId::from(id)).await;
    }

    pub(crate) async fn leaves(&mut self, id: RequestId) {
        self.driver.send(Inbound::Detached { id }).await.unwrap();
    }

    pub(crate) async fn next(&mut self) -> Value {
        self.received().await.expect("an answer")
    }

    /// The next message; `None` if the connection has ended.
    pub(crate) async fn received(&mut self) -> Option<Value> {
        loop {
            if let Outbound::Message { message, .. } = self.driver.recv().await? {
                let mut text = BytesMut::new();
                encode::message(&message, &mut text);
                return Some(serde_json::from_slice(&text).unwrap());
            }
        }
    }

    /// The message and the state of the question that it receives.
    async fn asked(&mut self) -> (String, String) {
        let reply = self.next().await;
        let result = &reply["result"];
        assert_eq!(result["resultType"], "input_required", "{reply}");
        let questions = result["inputRequests"].as_object().unwrap();
        assert_eq!(questions.len(), 1, "{reply}");
        let words = questions["ask-1"]["params"]["message"].as_str().unwrap().to_owned();
        (words, result["requestState"].as_str().unwrap().to_owned())
    }

    async fn error(&mut self) -> Value {
        let reply = self.next().await;
        assert!(reply["error"].is_object(), "{reply}");
        reply["error"].clone()
    }

    async fn text(&mut self) -> String {
        let reply = self.next().await;
        let text = reply["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("no result: {reply}")).to_owned()
    }

    async fn is_silent(&mut self) {
        let silence = tokio::time::timeout(Duration::from_secs(5), self.next()).await;
        assert!(silence.is_err(), "{silence:?}");
    }
}

/// The servers that a gateway starts, by number. Each answers `initialize` without the test.
struct Programs {
    said: UnboundedReceiver<(usize, Value)>,
    to: Arc<Mutex<Vec<UnboundedSender<Option<String>>>>>,
}

impl Programs {
    fn before() -> (Self, GatewayBuilder) {
        let (says, said) = unbounded_channel();
        let to = Arc::new(Mutex::new(Vec::new()));
        let all = to.clone();
        let builder = Gateway::builder(move || {
            let (link, server) = Raw::pair();
            let (tell, told) = unbounded_channel();
            let number = {
                let mut all: std::sync::MutexGuard<'_, Vec<_>> = all.lock().unwrap();
                all.push(tell);
                all.len() - 1
            };
            tokio::spawn(program(number, server, told, says.clone()));
            std::future::ready(Ok::<_, std::io::Error>(link))
        });
        (Self { said, to }, builder.era(EraChoice::Only(Era::Legacy)))
    }

    fn starts(&self) -> usize {
        self.to.lock().unwrap().len()
    }

    /// The next request or notification that a server receives; `Null`: the server has ended.
    async fn next(&mut self) -> (usize, Value) {
        self.said.recv().await.unwrap()
    }

    /// The next message, which has this method: its server and its id.
    async fn receive(&mut self, method: &str) -> (usize, Value) {
        let (server, said) = self.next().await;
        assert_eq!(said["method"], method, "{server}: {said}");
        (server, said["id"].clone())
    }

    fn say(&self, server: usize, said: &Value) {
        self.to.lock().unwrap()[server].send(Some(said.to_string())).unwrap();
    }

    fn die(&self, server: usize) {
        self.to.lock().unwrap()[server].send(None).unwrap();
    }

    fn ask(&self, server: usize, words: &str) {
        let schema = json!({ "type": "object", "properties": {} });
        let params = json!({ "message": words, "requestedSchema": schema });
        self.say(
            server,
            &json!({ "jsonrpc": "2.0", "id": words, "method": "elicitation/create", "params": params }),
        );
    }

    fn answer(&self, server: usize, id: &Value, text: &str) {
        let result = json!({ "content": [{ "type": "text", "text": text }] });
        self.say(server, &json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    async fn is_silent(&mut self) {
        let silence = tokio::time::timeout(Duration::from_secs(5), self.next()).await;
        assert!(silence.is_err(), "{silence:?}");
    }
}

async fn program(
    number: usize,
    mut server: Raw,
    mut told: UnboundedReceiver<Option<String>>,
    says: UnboundedSender<(usize, Value)>,
) {
    loop {
        let received = tokio::select! {
            received = server.receive() => received,
            said = told.recv() => match said {
                Some(Some(said)) => { server.say(&said).await; continue; }
                _ => return,
            },
        };
        let Some(received) = received else {
            let _ = says.send((number, Value::Null));
            return;
        };
        let received: Value = serde_json::from_str(&received).unwrap();
        let result = match received["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-11-25",
                "serverInfo": { "name": "s", "version": "1" },
                "capabilities": {
                    "tools": { "listChanged": true }, "logging": {},
                    "resources": { "subscribe": true, "listChanged": true },
                },
            }),
            Some("notifications/initialized") => continue,
            Some("logging/setLevel" | "resources/subscribe" | "resources/unsubscribe") => {
                let _ = says.send((number, received.clone()));
                json!({})
            }
            _ => {
                let _ = says.send((number, received));
                continue;
            }
        };
        server.say(&json!({ "jsonrpc": "2.0", "id": received["id"], "result": result }).to_string()).await;
    }
}

#[test]
fn two_at_one_address_are_each_asked_what_their_own_call_asks() {
    run(async {
        let (mut servers, builder) = Programs::before();
        let gateway = builder.build();
        for kind in ["address", "principal"] {
            let mut people = match kind {
                "address" => [Person::at(&gateway, HOME), Person::at(&gateway, "192.0.2.1:8")],
                _ => [Person::of(&gateway, "ada"), Person::of(&gateway, "ada")],
            };
            let mut calls = Vec::new();
            for (person, tool) in people.iter_mut().zip(["first", "second"]) {
                person.call(1, tool).await;
                calls.push(servers.receive("tools/call").await);
            }
            // In reverse order, so that the oldest call is not the right one by chance.
            for ((server, _), words) in calls.iter().zip(["the first's", "the second's"]).rev() {
                servers.ask(*server, words);
                passes(Duration::from_secs(1)).await;
            }
            for ((person, tool), (server, id)) in people.iter_mut().zip(["first", "second"]).zip(&calls) {
                let (words, state) = person.asked().await;
                assert_eq!(words, format!("the {tool}'s"), "{kind}");
                person.answer(2, tool, &state, tool).await;
                let (told, answer) = servers.next().await;
                assert_eq!((told, &answer["id"]), (*server, &json!(words)));
                assert_eq!(answer["result"]["content"]["said"], tool);
                servers.answer(*server, id, tool);
                assert_eq!(person.text().await, tool);
            }
        }
        assert_eq!(servers.starts(), 4);
        // One server is enough for calls in sequence.
        let mut person = Person::at(&gateway, "192.0.2.3:1");
        for id in 1..=3 {
            person.call(id, "alone").await;
            let (server, id) = servers.receive("tools/call").await;
            assert_eq!(server, 4);
            servers.answer(server, &id, "alone");
            assert_eq!(person.text().await, "alone");
        }
    });
}

#[test]
fn twenty_clients_of_four_servers_are_served_in_order_and_none_gets_the_question_of_another() {
    run(async {
        let (mut servers, builder) = Programs::before();
        let gateway = builder.upstreams(4).build();
        let mut people = Vec::new();
        for number in 0..20 {
            let mut person = Person::at(&gateway, HOME);
            person.call(1, &format!("tool {number}")).await;
            people.push(Some(person));
            passes(Duration::from_millis(1)).await;
        }
        let (ends, mut ended) = unbounded_channel();
        for (number, person) in people.iter_mut().enumerate() {
            let (mut person, ends) = (person.take().unwrap(), ends.clone());
            tokio::spawn(async move {
                let tool = format!("tool {number}");
                let (words, state) = person.asked().await;
                assert_eq!(words, tool);
                // Some calls take longer than others.
                passes(Duration::from_secs(1 + [0, 1, 2][number % 3])).await;
                person.answer(2, &tool, &state, &tool).await;
                assert_eq!(person.text().await, tool);
                ends.send(number).unwrap();
            });
        }
        drop(ends);
        let (mut order, mut calls) = (Vec::new(), BTreeMap::new());
        let mut most = 0;
        while order.len() < 20 || !calls.is_empty() {
            let (server, said) = servers.next().await;
            match said["params"]["name"].as_str() {
                Some(tool) => {
                    order.push(tool.to_owned());
                    assert!(calls.insert(server, (tool.to_owned(), said["id"].clone())).is_none(), "{tool}");
                    most = most.max(calls.len());
                    servers.ask(server, tool);
                }
                None => {
                    let (tool, id) = calls.remove(&server).unwrap();
                    assert_eq!(said["result"]["content"]["said"], tool);
                    servers.answer(server, &id, &tool);
                }
            }
        }
        let wanted: Vec<_> = (0..20).map(|number| format!("tool {number}")).collect();
        assert_eq!(order, wanted);
        assert_eq!((most, servers.starts()), (4, 4));
        let mut all = Vec::new();
        while let Some(number) = ended.recv().await {
            all.push(number);
        }
        assert_eq!(all.len(), 20);
    });
}

#[test]
fn a_call_that_waits_for_its_client_holds_its_server_and_fails_with_it() {
    run(async {
        let (mut servers, builder) = Programs::before();
        let gateway = builder.build();
        let [mut one, mut two] = [Person::at(&gateway, HOME), Person::at(&gateway, HOME)];
        one.call(1, "one").await;
        let (first, first_id) = servers.receive("tools/call").await;
        servers.ask(first, "one?");
        let (_, first_state) = one.asked().await;
        two.call(1, "two").await;
        let (second, _) = servers.receive("tools/call").await;
        assert_ne!(first, second);
        servers.ask(second, "two?");
        let (words, second_state) = two.asked().await;
        assert_eq!(words, "two?");
        servers.die(second);
        // The server has restarted, and does not know the call.
        while servers.starts() < 3 {
            passes(Duration::from_secs(1)).await;
        }
        two.answer(2, "two", &second_state, "yes").await;
        let error = two.error().await;
        assert_eq!(error["data"]["gateway"], "serverEnded", "{error}");
        one.answer(2, "one", &first_state, "yes").await;
        assert_eq!(servers.next().await.1["result"]["content"]["said"], "yes");
        servers.answer(first, &first_id, "one");
        assert_eq!(one.text().await, "one");
    });
}

#[test]
fn a_state_is_valid_for_its_client_alone_and_cannot_be_forged() {
    run(async {
        let (mut servers, builder) = Programs::before();
        let gateway = builder.build();
        let mut one = Person::at(&gateway, HOME);
        one.call(1, "one").await;
        let (server, id) = servers.receive("tools/call").await;
        servers.ask(server, "one?");
        let (_, state) = one.asked().await;
        let mut forged = state.clone().into_bytes();
        let last = forged.len() - 1;
        forged[last] = if forged[last] == b'0' { b'1' } else { b'0' };
        let forged = String::from_utf8(forged).unwrap();
        let refused = "is unknown to this bridge";
        for (mut person, state, why) in [
            (Person::at(&gateway, "192.0.2.2:1"), &state, refused),
            (Person::of(&gateway, "ada"), &state, refused),
            (Person::at(&gateway, HOME), &forged, refused),
        ] {
            person.answer(1, "one", state, "mine").await;
            let error = person.error().await;
            assert_eq!(error["code"], -32602);
            assert!(error["message"].as_str().unwrap().contains(why), "{error}");
        }
        one.answer(2, "another", &state, "mine").await;
        let error = one.error().await;
        assert!(error["message"].as_str().unwrap().contains("belongs to another request"), "{error}");
        one.answer(3, "one", &state, "mine").await;
        assert_eq!(servers.next().await.1["result"]["content"]["said"], "mine");
        servers.answer(server, &id, "one");
        assert_eq!(one.text().await, "one");
        one.answer(4, "one", &state, "mine").await;
        let error = one.error().await;
        assert!(error["message"].as_str().unwrap().contains("was used already"), "{error}");
    });
}

#[test]
fn who_can_be_asked_nothing_shares_one_server_and_so_does_what_is_no_call() {
    run(async {
        let (mut servers, builder) = Programs::before();
        let gateway = builder.build();
        let mut people: Vec<_> = (0..10).map(|_| Person::at(&gateway, HOME)).collect();
        let mut ids = Vec::new();
        for person in &mut people {
            person.capabilities = r#"{"com.example/own":{}}"#;
            person.call(1, "t").await;
            ids.push(servers.receive("tools/call").await);
        }
        // The question is refused at once.
        servers.ask(0, "anybody?");
        assert_eq!(servers.next().await.1["error"]["code"], -32601);
        for (person, (server, id)) in people.iter_mut().zip(&ids).rev() {
            assert_eq!(*server, 0);
            servers.answer(0, id, "t");
            assert_eq!(person.text().await, "t");
        }
        assert_eq!(servers.starts(), 1);
        // A call that can be asked is in flight. Requests during which nothing can be asked go to the same server.
        let [mut one, mut two] = [Person::at(&gateway, HOME), Person::at(&gateway, HOME)];
        one.call(1, "one").await;
        let (busy, _) = servers.receive("tools/call").await;
        for (id, method) in [(1, "tools/list"), (2, "completion/complete"), (3, "own/method")] {
            two.ask(id, method, json!({})).await;
            let (server, id) = servers.receive(method).await;
            assert_eq!(server, busy);
            servers.say(server, &json!({ "jsonrpc": "2.0", "id": id, "result": { "tools": [] } }));
            two.next().await;
        }
        assert_eq!(servers.starts(), 2);
    });
}

#[test]
fn a_question_beside_the_request_of_another_is_refused_at_once() {
    run(async {
        let (mut servers, builder) = Programs::before();
        let gateway = builder.build();
        let [mut one, mut two] = [Person::at(&gateway, HOME), Person::at(&gateway, HOME)];
        one.call(1, "one").await;
        let (server, _) = servers.receive("tools/call").await;
        two.ask(1, "tools/list", json!({})).await;
        let (_, list) = servers.receive("tools/list").await;
        let began = tokio::time::Instant::now();
        servers.ask(server, "whose?");
        let (_, refused) = servers.next().await;
        assert_eq!(refused["error"]["data"]["gateway"], "severalClients", "{refused}");
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        one.is_silent().await;
        // Once the list is answered, the call is the only request that a question can be about.
        servers.say(server, &json!({ "jsonrpc": "2.0", "id": list, "result": { "tools": [] } }));
        two.next().await;
        servers.ask(server, "one?");
        let (words, state) = one.asked().await;
        assert_eq!(words, "one?");
        one.answer(2, "one", &state, "yes").await;
        assert_eq!(servers.next().await.1["result"]["content"]["said"], "yes");
    });
}

#[test]
fn a_fifth_call_of_one_client_waits_for_one_of_its_four_servers() {
    run(async {
        let (mut servers, builder) = Programs::before();
        let gateway = builder.build();
        // Of one address, and of one connection.
        let mut people: Vec<_> = (0..4).map(|_| Person::at(&gateway, HOME)).collect();
        let mut calls = Vec::new();
        for person in &mut people {
            person.call(1, "t").await;
            calls.push(servers.receive("tools/call").await);
        }
        let at: Vec<_> = calls.iter().map(|(server, _)| *server).collect();
        assert_eq!(at, [0, 1, 2, 3]);
        let mut fifth = Person::at(&gateway, HOME);
        fifth.call(1, "fifth").await;
        servers.is_silent().await;
        servers.ask(2, "third?");
        assert_eq!(people[2].asked().await.0, "third?");
        servers.answer(1, &calls[1].1, "second");
        assert_eq!(people[1].text().await, "second");
        assert_eq!(servers.receive("tools/call").await.0, 1);
        assert_eq!(servers.starts(), 4);

        let (mut alone, served) = client(&gateway);
        for id in 1..=5 {
            alone.say(&modern_request(&id.to_string(), "tools/call", r#""name":"t","#, "")).await;
        }
        let mut calls = Vec::new();
        for _ in 1..=4 {
            calls.push(servers.receive("tools/call").await);
        }
        servers.is_silent().await;
        assert_eq!(calls.iter().map(|(server, _)| *server).collect::<Vec<_>>(), [4, 5, 6, 7]);
        // Each question reaches the call that it is about.
        for (call, (server, _)) in calls.iter().enumerate().rev() {
            servers.ask(*server, &format!("{call}?"));
            let asked = alone.value().await;
            assert_eq!(asked["id"], call + 1);
            let questions = &asked["result"]["inputRequests"];
            assert_eq!(questions["ask-1"]["params"]["message"], format!("{call}?"), "{asked}");
        }
        // All servers of a connection end with it.
        drop(alone);
        served.await.unwrap();
        let mut ended = std::collections::BTreeSet::new();
        while ended.len() < 4 {
            let (server, said) = servers.next().await;
            if said.is_null() {
                ended.insert(server);
            }
        }
        assert_eq!(ended.into_iter().collect::<Vec<_>>(), [4, 5, 6, 7]);
    });
}

/// Four calls of these people, each of which waits for its client to answer. They have left one second apart.
async fn four_absent(servers: &mut Programs, people: &mut [Person]) -> Vec<(usize, Value, String)> {
    let mut calls = Vec::new();
    for number in 0..4 {
        let person = number % people.len();
        people[person].call(number as i64, &format!("tool {number}")).await;
        let (server, id) = servers.receive("tools/call").await;
        assert_eq!(server, number);
        servers.ask(server, &format!("{number}?"));
        let (words, state) = people[person].asked().await;
        assert_eq!(words, format!("{number}?"));
        calls.push((server, id, state));
        passes(Duration::from_secs(1)).await;
    }
    calls
}

const GIVEN_UP: &str = "given up because further calls of this client needed its server";

#[test]
fn a_fifth_call_gets_the_server_of_the_call_whose_client_left_first() {
    run(async {
        let (mut servers, builder) = Programs::before();
        let gateway = builder.build();
        let mut people = [Person::on_stream(&gateway, HOME)];
        let began = tokio::time::Instant::now();
        let calls = four_absent(&mut servers, &mut people).await;
        let [mut alone] = people;
        alone.call(5, "fifth").await;
        // Its server receives the cancellation of the call, and an error in response to its question.
        let reason = "the client sent no input response, and its further calls need the server";
        let mut told = Vec::new();
        loop {
            let (server, said) = servers.next().await;
            assert_eq!(server, 0, "{said}");
            match said["method"].as_str() {
                Some("tools/call") => {
                    assert_eq!(said["params"]["name"], "fifth");
                    break;
                }
                Some(_) => {
                    assert_eq!(said["params"], json!({ "requestId": calls[0].1, "reason": reason }));
                    told.push("cancelled");
                }
                None => {
                    assert_eq!((&said["id"], &said["error"]["message"]), (&json!("0?"), &json!(reason)));
                    told.push("refused");
                }
            }
        }
        told.sort_unstable();
        assert_eq!(told, ["cancelled", "refused"]);
        assert_eq!(began.elapsed().as_secs(), 30, "a client has half a minute");
        assert_eq!(servers.starts(), 4);
        alone.answer(6, "tool 0", &calls[0].2, "late").await;
        let error = alone.error().await;
        assert_eq!(error["code"], -32602);
        assert!(error["message"].as_str().unwrap().contains(GIVEN_UP), "{error}");
        // The others can still be answered, and one call gave up one.
        servers.is_silent().await;
        alone.answer(7, "tool 1", &calls[1].2, "yes").await;
        assert_eq!(servers.next().await.1["result"]["content"]["said"], "yes");
        servers.answer(1, &calls[1].1, "first");
        assert_eq!(alone.text().await, "first");
    });
}

#[test]
fn a_fifth_call_at_one_address_ends_the_server_of_the_call_whose_client_left_first() {
    run(async {
        let (mut servers, builder) = Programs::before();
        let gateway = builder.build();
        let mut people: Vec<_> = (0..4).map(|_| Person::at(&gateway, HOME)).collect();
        let calls = four_absent(&mut servers, &mut people).await;
        let mut fifth = Person::at(&gateway, HOME);
        let began = tokio::time::Instant::now();
        fifth.call(1, "fifth").await;
        // The call at the first server stays: giving it up would not free that server. The next oldest call is at server 1.
        let (mut cancelled, mut ended) = (false, false);
        let id = loop {
            let (server, said) = servers.next().await;
            if server == 4 {
                assert_eq!(said["params"]["name"], "fifth", "{said}");
                break said["id"].clone();
            }
            assert_eq!(server, 1, "{said}");
            cancelled |= said["method"] == "notifications/cancelled";
            ended |= said.is_null();
        };
        assert!(cancelled && ended);
        assert!((26_900..27_100).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
        servers.ask(4, "fifth?");
        assert_eq!(fifth.asked().await.0, "fifth?");
        assert!(id.is_number());
        people[1].answer(9, "tool 1", &calls[1].2, "late").await;
        let error = people[1].error().await;
        assert!(error["message"].as_str().unwrap().contains(GIVEN_UP), "{error}");
        people[0].answer(9, "tool 0", &calls[0].2, "yes").await;
        assert_eq!(servers.next().await.1["result"]["content"]["said"], "yes");
        servers.answer(0, &calls[0].1, "first");
        assert_eq!(people[0].text().await, "first");
    });
}

#[test]
fn a_call_whose_client_waits_for_it_is_never_given_up() {
    run(async {
        let (mut servers, builder) = Programs::before();
        let gateway = builder.timeout(Duration::from_secs(60)).build();
        let mut people = [Person::on_stream(&gateway, HOME)];
        let calls = four_absent(&mut servers, &mut people).await;
        let [mut alone] = people;
        alone.call(5, "fifth").await;
        passes(Duration::from_secs(20)).await;
        // All of them come back.
        for (number, (server, _, state)) in calls.iter().enumerate() {
            alone.answer(10 + number as i64, &format!("tool {number}"), state, "yes").await;
            assert_eq!(servers.next().await.0, *server);
        }
        passes(Duration::from_secs(20)).await;
        // One leaves again: its client has half a minute from then on, and the call that waits has 20 s.
        servers.ask(2, "2 again?");
        let asked = alone.next().await;
        assert_eq!(asked["id"], 12, "{asked}");
        let error = alone.error().await;
        assert_eq!(error["data"]["gateway"], "noTurn", "{error}");
        servers.is_silent().await;
        // The next call gets the server at once when the half minute is over.
        alone.call(6, "sixth").await;
        loop {
            let (server, said) = servers.next().await;
            assert_eq!(server, 2, "{said}");
            if said["params"]["name"] == "sixth" {
                break;
            }
        }
        for (server, id, _) in &calls {
            if *server != 2 {
                servers.answer(*server, id, "done");
                assert_eq!(alone.text().await, "done");
            }
        }
    });
}

#[test]
fn a_call_that_finds_no_slot_gives_up_one_whose_client_has_left() {
    run(async {
        let (mut servers, builder) = Programs::before();
        let gateway = builder.upstreams(2).build();
        let [mut one, mut two, mut three] = [0; 3].map(|_| Person::at(&gateway, HOME));
        let mut states = Vec::new();
        for (number, person) in [&mut one, &mut two].into_iter().enumerate() {
            person.call(1, "t").await;
            assert_eq!(servers.receive("tools/call").await.0, number);
            servers.ask(number, "?");
            states.push(person.asked().await.1);
        }
        three.call(1, "three").await;
        loop {
            let (server, said) = servers.next().await;
            if server == 2 {
                assert_eq!(said["params"]["name"], "three", "{said}");
                break;
            }
            assert_eq!(server, 1, "{said}");
        }
        two.answer(2, "t", &states[1], "late").await;
        let error = two.error().await;
        assert!(error["message"].as_str().unwrap().contains(GIVEN_UP), "{error}");
        one.answer(2, "t", &states[0], "yes").await;
        assert_eq!(servers.next().await.1["result"]["content"]["said"], "yes");
    });
}

#[test]
fn a_call_that_waits_for_a_slot_gets_that_of_a_session_that_becomes_idle_meanwhile() {
    run(async {
        let (mut servers, builder) = Programs::before();
        let gateway = builder.upstreams(4).build();
        let began = tokio::time::Instant::now();
        let mut sessions = Vec::new();
        for number in 0..3 {
            let mut session = Person::at(&gateway, &format!("192.0.2.{}:1", 10 + number));
            let params = json!({
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" },
            });
            let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
            session.say(initialize.to_string()).await;
            assert!(session.next().await["result"].is_object());
            session.say(super::INITIALIZED.into()).await;
            session.say(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string()).await;
            sessions.push((session, servers.receive("tools/list").await));
        }
        let [mut one, mut two] = [0; 2].map(|_| Person::at(&gateway, HOME));
        one.call(1, "one").await;
        assert_eq!(servers.receive("tools/call").await.0, 3);
        two.call(1, "two").await;
        passes(Duration::from_secs(20)).await;
        // A session is unused for a minute from now on.
        let (session, (server, id)) = &mut sessions[1];
        servers.answer(*server, id, "a list");
        assert_eq!(session.text().await, "a list");
        let idle = *server;
        assert_eq!(servers.next().await, (idle, Value::Null));
        assert_eq!(servers.receive("tools/call").await.0, 4);
        assert!((80..82).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    });
}

#[test]
fn a_server_whose_call_was_left_unanswered_gets_no_other_that_could_receive_its_question() {
    run(async {
        let (mut servers, builder) = Programs::before();
        let gateway = builder.build();
        let [mut one, mut two] = [Person::at(&gateway, HOME), Person::at(&gateway, HOME)];
        // A stream keeps the server in use for other requests.
        let filter = json!({ "notifications": { "toolsListChanged": true } });
        two.ask(9, "subscriptions/listen", filter).await;
        two.next().await;
        one.call(1, "one").await;
        let (left, _) = servers.receive("tools/call").await;
        one.leave(1).await;
        servers.receive("notifications/cancelled").await;
        two.call(1, "two").await;
        let (other, id) = servers.receive("tools/call").await;
        assert_ne!(left, other);
        servers.ask(left, "one, still there?");
        let (_, refused) = servers.next().await;
        assert_eq!(refused["error"]["data"]["gateway"], "nobodyToAsk", "{refused}");
        two.is_silent().await;
        two.ask(2, "tools/list", json!({})).await;
        assert_eq!(servers.receive("tools/list").await.0, left);
        servers.answer(other, &id, "two");
        assert_eq!(two.text().await, "two");
        // When it is unused, it is replaced by a server without an unanswered call.
        let mut three = Person::at(&gateway, "192.0.2.9:1");
        three.call(1, "three").await;
        let (left, _) = servers.receive("tools/call").await;
        three.leave(1).await;
        servers.receive("notifications/cancelled").await;
        three.ask(2, "tools/list", json!({})).await;
        let mut ended = false;
        let fresh = loop {
            let (server, said) = servers.next().await;
            if said.is_null() {
                assert_eq!(server, left);
                ended = true;
                continue;
            }
            assert_eq!(said["method"], "tools/list");
            break server;
        };
        assert_ne!(fresh, left);
        if !ended {
            assert_eq!(servers.next().await, (left, Value::Null));
        }
    });
}

#[test]
fn a_client_that_waits_in_vain_for_a_server_learns_the_limit_and_its_option() {
    run(async {
        let (mut servers, builder) = Programs::before();
        let gateway = builder.upstreams(1).timeout(Duration::from_secs(30)).build();
        let [mut one, mut two] = [Person::at(&gateway, HOME), Person::at(&gateway, HOME)];
        one.call(1, "one").await;
        let (server, id) = servers.receive("tools/call").await;
        servers.ask(server, "one?");
        let (_, state) = one.asked().await;
        let began = tokio::time::Instant::now();
        two.call(1, "two").await;
        let error = two.error().await;
        assert_eq!(began.elapsed().as_secs(), 30);
        assert_eq!(error["data"], json!({ "gateway": "noTurn", "limit": 1, "afterMs": 30_000 }));
        let words = error["message"].as_str().unwrap();
        assert!(words.contains("--max-sessions") && words.contains("within 30 s"), "{words}");
        // A client that leaves while it waits keeps no place in the queue.
        two.call(2, "two").await;
        passes(Duration::from_secs(1)).await;
        two.leave(2).await;
        two.call(3, "three").await;
        servers.is_silent().await;
        one.answer(2, "one", &state, "yes").await;
        assert_eq!(servers.next().await.1["result"]["content"]["said"], "yes");
        servers.answer(server, &id, "one");
        assert_eq!(one.text().await, "one");
        let (_, said) = servers.next().await;
        assert_eq!(said["params"]["name"], "three");
    });
}

#[test]
fn streams_receive_once_levels_hold_everywhere_and_what_is_idle_ends() {
    run(async {
        let (mut servers, builder) = Programs::before();
        let gateway = builder.build();
        let [mut receiver, mut one, mut two] = [0; 3].map(|_| Person::at(&gateway, HOME));
        let filter = json!({ "toolsListChanged": true, "resourceSubscriptions": ["x://a"] });
        receiver.ask(1, "subscriptions/listen", json!({ "notifications": filter })).await;
        assert_eq!(receiver.next().await["method"], "notifications/subscriptions/acknowledged");
        let (home, _) = servers.receive("resources/subscribe").await;
        let level = json!({ "io.modelcontextprotocol/logLevel": "info" });
        let mut calls = Vec::new();
        for person in [&mut one, &mut two] {
            person.ask_with(1, "tools/call", json!({ "name": "t" }), level.clone()).await;
            let (server, _) = servers.receive("logging/setLevel").await;
            let (at, id) = servers.receive("tools/call").await;
            assert_eq!(server, at);
            calls.push((server, id));
        }
        let beyond = calls[1].0;
        assert_ne!(home, beyond);
        for server in [home, beyond] {
            let changed = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params });
            servers.say(server, &changed("tools/list_changed", json!({})));
            servers.say(server, &changed("resources/updated", json!({ "uri": "x://a" })));
            servers.say(server, &changed("message", json!({ "level": "error", "data": server })));
        }
        for method in ["tools/list_changed", "resources/updated"] {
            assert_eq!(receiver.next().await["method"], format!("notifications/{method}"));
        }
        receiver.is_silent().await;
        for (person, (server, id)) in [&mut one, &mut two].into_iter().zip(&calls) {
            assert_eq!(person.next().await["params"]["data"], *server);
            servers.answer(*server, id, "t");
            assert_eq!(person.text().await, "t");
        }
        let began = tokio::time::Instant::now();
        assert_eq!(servers.next().await, (beyond, Value::Null));
        assert!(
            began.elapsed() >= UNUSED_UPSTREAM_TIMEOUT && began.elapsed() < UNUSED_UPSTREAM_TIMEOUT * 2,
            "{:?}",
            began.elapsed()
        );
        servers.is_silent().await;
        gateway.close().await;
        assert_eq!(servers.next().await, (home, Value::Null));
    });
}

#[test]
fn a_client_of_a_stream_has_its_server_for_itself_and_it_ends_with_it() {
    run(async {
        let (mut servers, builder) = Programs::before();
        let gateway = builder.build();
        let mut people = Vec::new();
        for number in 0..2 {
            let (mut person, served) = client(&gateway);
            for (id, method) in [(0, "tools/call"), (1, "tools/list")] {
                person.say(&modern_request(&id.to_string(), method, r#""name":"t","#, "")).await;
                assert_eq!(servers.receive(method).await.0, number);
            }
            people.push((person, served));
        }
        let (person, served) = people.remove(0);
        drop(person);
        served.await.unwrap();
        loop {
            let (server, said) = servers.next().await;
            assert_eq!(server, 0);
            if said.is_null() {
                break;
            }
        }
        servers.is_silent().await;
        assert_eq!(servers.starts(), 2);
        // The future that serves the client is dropped.
        let (_person, served) = people.remove(0);
        served.abort();
        loop {
            let (server, said) = servers.next().await;
            assert_eq!(server, 1);
            if said.is_null() {
                break;
            }
        }
    });
}

#[test]
fn pages_that_a_server_wants_visited_bring_the_call_back_to_that_server() {
    run(async {
        let (mut servers, builder) = Programs::before();
        let gateway = builder.build();
        let [mut one, mut two] = [0; 2].map(|_| Person::at(&gateway, HOME));
        for person in [&mut one, &mut two] {
            person.capabilities = r#"{"elicitation":{"form":{},"url":{}}}"#;
        }
        one.call(1, "one").await;
        let (server, id) = servers.receive("tools/call").await;
        let page =
            json!({ "mode": "url", "elicitationId": "e", "url": "https://example.org/", "message": "m" });
        let error = json!({ "code": -32042, "message": "visit", "data": { "elicitations": [page] } });
        servers.say(server, &json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        let asked = one.next().await["result"].clone();
        two.call(1, "two").await;
        assert_ne!(servers.receive("tools/call").await.0, server);
        // No call is in flight there.
        servers.ask(server, "anybody?");
        assert_eq!(servers.next().await.1["error"]["data"]["gateway"], "nobodyToAsk");
        let answers = json!({ "page-1": { "action": "accept" } });
        let back = json!({ "name": "one", "requestState": asked["requestState"], "inputResponses": answers });
        one.ask(2, "tools/call", back).await;
        let (again, id) = servers.receive("tools/call").await;
        assert_eq!(again, server);
        servers.answer(server, &id, "done");
        assert_eq!(one.text().await, "done");
    });
}

#[test]
fn streams_of_two_clients_share_what_the_server_is_asked_for() {
    run(async {
        let (mut servers, builder) = Programs::before();
        let gateway = builder.build();
        let [mut one, mut other] = [0; 2].map(|_| Person::at(&gateway, HOME));
        let filter = |uris: &[&str]| json!({ "notifications": { "toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": uris } });
        one.ask(1, "subscriptions/listen", filter(&["x://a", "x://b"])).await;
        let acknowledged = one.next().await;
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(
            acknowledged["params"]["notifications"],
            json!({ "toolsListChanged": true, "resourceSubscriptions": ["x://a", "x://b"] })
        );
        assert_eq!(acknowledged["params"]["_meta"], json!({ "io.modelcontextprotocol/subscriptionId": 1 }));
        for uri in ["x://a", "x://b"] {
            let (_, said) = servers.next().await;
            assert_eq!(
                (&said["method"], &said["params"]),
                (&json!("resources/subscribe"), &json!({ "uri": uri }))
            );
        }
        other.ask(9, "subscriptions/listen", filter(&["x://b"])).await;
        assert_eq!(other.next().await["method"], "notifications/subscriptions/acknowledged");
        servers.is_silent().await;
        let updated = json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": "x://b", "own": 1 } });
        servers.say(0, &updated);
        for (person, id) in [(&mut one, 1), (&mut other, 9)] {
            let told = person.next().await;
            assert_eq!(
                told["params"],
                json!({ "uri": "x://b", "own": 1, "_meta": { "io.modelcontextprotocol/subscriptionId": id } })
            );
        }
        for list in ["tools", "prompts"] {
            let method = format!("notifications/{list}/list_changed");
            servers.say(0, &json!({ "jsonrpc": "2.0", "method": method }));
        }
        for person in [&mut one, &mut other] {
            assert_eq!(person.next().await["method"], "notifications/tools/list_changed");
        }
        one.leave(1).await;
        let (_, said) = servers.next().await;
        assert_eq!(
            (&said["method"], &said["params"]["uri"]),
            (&json!("resources/unsubscribe"), &json!("x://a"))
        );
        servers.say(0, &updated);
        assert_eq!(other.next().await["method"], "notifications/resources/updated");
        one.is_silent().await;
        // The next run receives the subscriptions again, and the streams are notified of possible changes.
        servers.die(0);
        let (again, said) = servers.next().await;
        assert_eq!((again, &said["params"]), (1, &json!({ "uri": "x://b" })));
        assert_eq!(other.next().await["method"], "notifications/tools/list_changed");
        other.leave(9).await;
        servers.receive("resources/unsubscribe").await;
    });
}

#[test]
fn a_server_that_did_not_answer_in_time_gets_no_other_call_that_could_receive_its_question() {
    for method in ["tools/call", "completion/complete"] {
        run(async {
            let (mut servers, builder) = Programs::before();
            let gateway = builder.timeout(Duration::from_secs(30)).build();
            let [mut receiver, mut one, mut two] = [0; 3].map(|_| Person::at(&gateway, HOME));
            // A stream keeps the server in use.
            let filter = json!({ "notifications": { "toolsListChanged": true } });
            receiver.ask(9, "subscriptions/listen", filter).await;
            receiver.next().await;
            one.ask(1, method, json!({ "name": "one" })).await;
            let (late, _) = servers.receive(method).await;
            assert_eq!(one.error().await["data"]["gateway"], "timeout", "{method}");
            servers.receive("notifications/cancelled").await;
            two.call(1, "two").await;
            let (other, id) = servers.receive("tools/call").await;
            servers.ask(late, "one, still there?");
            let (at, refused) = servers.next().await;
            assert_eq!(at, late);
            assert_eq!(refused["error"]["data"]["gateway"], "nobodyToAsk", "{method}: {refused}");
            two.is_silent().await;
            assert_ne!(late, other, "{method}");
            servers.answer(other, &id, "two");
            assert_eq!(two.text().await, "two");
        });
    }
}
