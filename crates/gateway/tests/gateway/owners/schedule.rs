//! Schedules in memory and in virtual time, used by the test in `mod` and by the fuzz target `gateway`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcpjoin::proto::Era;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::peers::{Event, Farm, Said, Way, cancelled, client};
use super::{Choices, mark, marks};

/// Rounds in which open requests are finished.
const ROUNDS: usize = 60;

/// An action of a server for a request, before the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Log(&'static str),
    Progress,
    Ask(&'static str),
    /// Notifications that no revision defines, and those that only a stream may carry.
    Unknown,
    Updated,
    TaskStatus,
    ListChanged,
}

const STEPS: [Step; 10] = [
    Step::Log("debug"),
    Step::Log("error"),
    Step::Progress,
    Step::Ask("elicitation/create"),
    Step::Ask("sampling/createMessage"),
    Step::Ask("roots/list"),
    Step::Unknown,
    Step::Updated,
    Step::TaskStatus,
    Step::ListChanged,
];

struct Person {
    way: Way,
    era: Era,
    askable: bool,
    says: UnboundedSender<Said>,
    opened: bool,
    last_id: i64,
    /// The open questions.
    questions: Vec<Question>,
}

enum Question {
    /// A request of the server, in the legacy era.
    Request(Value),
    /// A result `input_required` of this operation.
    Round { op: usize, keys: Vec<String>, state: String },
}

struct Op {
    client: usize,
    method: &'static str,
    level: Option<&'static str>,
    progress: bool,
    /// The remaining steps of the server.
    steps: Vec<Step>,
    /// The id of its last request at the client.
    id: i64,
    /// Where its request is: server, id, progress token.
    at: Option<(usize, Value, Value)>,
    /// Whether the server waits for an answer.
    asked: bool,
    left: bool,
    done: bool,
}

struct World {
    choices: Choices,
    legacy_server: bool,
    farm: Farm,
    people: Vec<Person>,
    ops: Vec<Op>,
    events: UnboundedReceiver<Event>,
    /// The group of clients whose messages a server has received. There must be only one.
    groups: BTreeMap<usize, String>,
    /// Streams that modern servers have open: server, id, client.
    streams: Vec<(usize, Value, usize)>,
    /// Whether events are printed.
    shown: bool,
}

async fn passes(millis: u64) {
    let nothing = std::future::pending::<()>();
    drop(tokio::time::timeout(Duration::from_millis(millis), nothing).await);
}

impl World {
    fn new(mut choices: Choices, shown: bool) -> Self {
        let (sends, events) = unbounded_channel();
        let legacy_server = choices.percent(60);
        let era = if legacy_server { Era::Legacy } else { Era::Modern };
        let farm = Farm::new(era, sends.clone(), |builder| builder);
        let count = if choices.percent(85) { 2 } else { 3 };
        // Clients are often equal, so that they share servers.
        let usual = Way::Http { address: "192.0.2.1", principal: None };
        let askable = choices.percent(50);
        let mut people = Vec::new();
        for number in 0..count {
            let era = if choices.percent(75) { Era::Modern } else { Era::Legacy };
            let way = match choices.below(10) {
                0..=5 => usual,
                6 => Way::Http { address: "192.0.2.2", principal: None },
                7 => Way::Http { address: "192.0.2.1", principal: Some("ada") },
                8 => Way::Http { address: "192.0.2.2", principal: Some("ada") },
                _ => Way::Stream,
            };
            let says = client(&farm.gateway, number, way, sends.clone());
            let (askable, opened) = (askable != choices.percent(15), era == Era::Modern);
            people.push(Person { way, era, askable, says, opened, last_id: 0, questions: Vec::new() });
        }
        let (groups, streams) = (BTreeMap::new(), Vec::new());
        let ops = Vec::new();
        Self { choices, legacy_server, farm, people, ops, events, groups, streams, shown }
    }

    #[allow(clippy::print_stderr, reason = "where it is asked for")]
    fn note(&self, event: impl FnOnce() -> String) {
        if self.shown {
            eprintln!("{}", event());
        }
    }

    fn say(&mut self, client: usize, text: String) {
        self.note(|| format!("c{client} says {text}"));
        drop(self.people[client].says.send(Said::Text(text)));
    }

    fn serve(&mut self, server: usize, said: &Value) {
        self.note(|| format!("server {server} says {said}"));
        self.farm.say(server, said.to_string());
    }

    /// The clients that may share a server.
    fn group(&self, client: usize) -> String {
        let person = &self.people[client];
        match person.way {
            Way::Http { principal: Some(principal), .. } if person.era == Era::Modern => principal.to_owned(),
            Way::Http { address, principal: None } if person.era == Era::Modern => address.to_owned(),
            _ => mark(client),
        }
    }

    fn open(&mut self) {
        for client in 0..self.people.len() {
            if self.people[client].era == Era::Legacy {
                let capabilities = capabilities(self.people[client].askable);
                let text = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                    "protocolVersion": "2025-11-25", "capabilities": capabilities,
                    "clientInfo": { "name": "c", "version": "1" } } });
                self.say(client, text.to_string());
            }
        }
    }

    /// Sends the request of an operation, for the first time or with answers.
    fn request(&mut self, op: usize, answers: Option<Value>) {
        let Op { client, method, level, progress, .. } = self.ops[op];
        let (person, owner) = (&mut self.people[client], mark(client));
        person.last_id += 1;
        let id = person.last_id;
        let mut meta = json!({});
        if progress {
            meta["progressToken"] = json!(format!("{owner}p{id}"));
        }
        let mut params = json!({ "name": format!("{owner}op{op}.") });
        if person.era == Era::Modern {
            meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            meta["io.modelcontextprotocol/clientCapabilities"] = capabilities(person.askable);
            if let Some(level) = level {
                meta["io.modelcontextprotocol/logLevel"] = json!(level);
            }
            if method == "subscriptions/listen" {
                let uris = [format!("x://{owner}/1")];
                params["notifications"] = json!({ "toolsListChanged": true, "resourceSubscriptions": uris });
            }
        } else if method == "subscriptions/listen" {
            params["uri"] = json!(format!("x://{owner}/1"));
        }
        for (name, value) in answers.iter().filter_map(Value::as_object).flatten() {
            params[name] = value.clone();
        }
        params["_meta"] = meta;
        let method = match (person.era, method) {
            (Era::Legacy, "subscriptions/listen") => "resources/subscribe",
            (_, method) => method,
        };
        self.ops[op].id = id;
        self.say(
            client,
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string(),
        );
    }

    fn begin(&mut self, client: usize) {
        let method = match self.choices.below(10) {
            0..=6 => "tools/call",
            7 | 8 => "completion/complete",
            _ => "subscriptions/listen",
        };
        let level = [None, Some("debug"), Some("error")][self.choices.below(3)];
        let progress = self.choices.percent(30);
        let count = self.choices.below(4);
        let steps = (0..count).map(|_| self.choices.pick(&STEPS)).collect();
        let (at, asked, left, done) = (None, false, false, false);
        self.ops.push(Op { client, method, level, progress, steps, id: 0, at, asked, left, done });
        self.request(self.ops.len() - 1, None);
    }

    /// The server performs the next step for a request.
    fn work(&mut self, op: usize) {
        let Some((server, id, token)) = self.ops[op].at.clone() else { return };
        let (client, step) = (self.ops[op].client, self.ops[op].steps.pop());
        let owner = mark(client);
        let notify =
            |method: &str, params: Value| json!({ "jsonrpc": "2.0", "method": method, "params": params });
        let said = match step {
            None => {
                self.ops[op].at = None;
                let result = match self.choices.below(8) {
                    0 => json!({ "error": { "code": -32000, "message": owner, "data": owner } }),
                    _ => {
                        json!({ "result": { "resultType": "complete", "content": [{ "type": "text", "text": owner }] } })
                    }
                };
                let mut said = json!({ "jsonrpc": "2.0", "id": id });
                said.as_object_mut().unwrap().extend(result.as_object().unwrap().clone());
                said
            }
            Some(Step::Log(level)) => {
                notify("notifications/message", json!({ "level": level, "data": owner }))
            }
            Some(Step::Progress) if token.is_null() => return,
            Some(Step::Progress) => notify(
                "notifications/progress",
                json!({ "progressToken": token, "progress": self.ops[op].steps.len() + 1, "message": owner }),
            ),
            Some(Step::Unknown) => notify("notifications/com.example/x", json!({ "data": owner })),
            Some(Step::TaskStatus) => {
                notify("notifications/tasks/status", json!({ "taskId": owner, "status": "working" }))
            }
            Some(Step::ListChanged) => {
                json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" })
            }
            Some(Step::Updated) => {
                let stream = self.streams.iter().find(|stream| stream.0 == server && stream.2 == client);
                let mut params = json!({ "uri": format!("x://{owner}/1") });
                if let Some((_, id, _)) = stream {
                    params["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": id });
                }
                notify("notifications/resources/updated", params)
            }
            Some(Step::Ask(method)) => {
                let asked = match method {
                    "elicitation/create" => {
                        json!({ "message": owner, "requestedSchema": { "type": "object", "properties": {} } })
                    }
                    "sampling/createMessage" => {
                        let content = json!({ "type": "text", "text": owner });
                        json!({ "messages": [{ "role": "user", "content": content }], "maxTokens": 1 })
                    }
                    _ => json!({ "_meta": { "com.example/of": owner } }),
                };
                if self.legacy_server {
                    self.ops[op].asked = true;
                    let id = format!("{owner}op{op}.");
                    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": asked })
                } else if self.ops[op].method == "tools/call" && self.people[client].askable {
                    self.ops[op].at = None;
                    let asked = json!({ "q": { "method": method, "params": asked } });
                    let result = json!({ "resultType": "input_required", "inputRequests": asked, "requestState": owner });
                    json!({ "jsonrpc": "2.0", "id": id, "result": result })
                } else {
                    return;
                }
            }
        };
        self.serve(server, &said);
    }

    /// A client answers a question.
    fn answer(&mut self, client: usize) {
        let owner = mark(client);
        let answer = json!({ "action": "accept", "content": { "said": owner }, "role": "assistant", "model": owner,
            "roots": [{ "uri": format!("file:///{owner}") }] });
        let answer_to = |asked: &str| match asked {
            "sampling/createMessage" => {
                json!({ "role": "assistant", "model": owner, "content": { "type": "text", "text": owner } })
            }
            "roots/list" => json!({ "roots": [{ "uri": format!("file:///{owner}") }] }),
            _ => answer.clone(),
        };
        match self.people[client].questions.pop() {
            None => {}
            Some(Question::Request(request)) => {
                let result = answer_to(request["method"].as_str().unwrap());
                let said = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
                self.say(client, said.to_string());
            }
            Some(Question::Round { op, keys, state }) => {
                // The response arrived before the client left.
                self.ops[op].left = false;
                let answers: serde_json::Map<String, Value> = keys
                    .into_iter()
                    .map(|key| {
                        let (key, asked) = key.split_once(' ').unwrap();
                        (key.to_owned(), answer_to(asked))
                    })
                    .collect();
                self.request(op, Some(json!({ "inputResponses": answers, "requestState": state })));
            }
        }
    }

    fn leave(&mut self, op: usize) {
        let Op { client, id, .. } = self.ops[op];
        self.ops[op].left = true;
        let said = match self.people[client].way {
            Way::Http { .. } if self.people[client].era == Era::Modern => Said::Leaves(id),
            _ => Said::Text(cancelled(&json!(id))),
        };
        self.note(|| format!("c{client} leaves {id}"));
        drop(self.people[client].says.send(said));
    }

    fn receive(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            match event {
                Event::Client(client, text) => self.client_hears(client, &text),
                Event::Server(server, said, text) => self.server_hears(server, said, &text),
            }
        }
    }

    fn client_hears(&mut self, client: usize, text: &str) {
        self.note(|| format!("c{client} receives {text}"));
        for owner in marks(text) {
            assert_eq!(owner, client, "c{client} received what belongs to c{owner}: {text}");
        }
        let received: Value = serde_json::from_str(text).unwrap();
        let is_answer = received.get("result").is_some() || received.get("error").is_some();
        if received["method"].is_string() {
            if !received["id"].is_null() {
                self.people[client].questions.push(Question::Request(received));
            }
            return;
        }
        assert!(is_answer, "{text}");
        let Some(id) = received["id"].as_i64() else { panic!("{text}") };
        if id == 0 {
            assert!(received["result"].is_object(), "{text}");
            self.people[client].opened = true;
            self.say(client, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.into());
            return;
        }
        let op = self.ops.iter().position(|op| op.client == client && op.id == id).expect("its request");
        if received["result"]["resultType"] == "input_required" {
            let asked = received["result"]["inputRequests"].as_object().unwrap();
            let keys =
                asked.iter().map(|(key, asked)| format!("{key} {}", asked["method"].as_str().unwrap()));
            let (keys, state) =
                (keys.collect(), received["result"]["requestState"].as_str().unwrap().to_owned());
            self.people[client].questions.push(Question::Round { op, keys, state });
            return;
        }
        // The gateway itself answers the subscription of a legacy client.
        if self.ops[op].method != "subscriptions/listen" {
            assert!(marks(text).next().is_some(), "c{client} lost its result: {text}");
        }
        self.ops[op].done = true;
    }

    fn server_hears(&mut self, server: usize, said: Value, text: &str) {
        self.note(|| format!("server {server} receives {text}"));
        let groups: BTreeSet<String> = marks(text).map(|client| self.group(client)).collect();
        for group in groups {
            let known = self.groups.entry(server).or_insert_with(|| group.clone());
            assert_eq!(*known, group, "server {server} serves two groups: {text}");
        }
        let Some(method) = said["method"].as_str() else {
            // The answer to a question comes from the client that was asked, or is an error of the gateway.
            let id = said["id"].as_str().unwrap();
            let owner = marks(id).next().unwrap();
            assert!(marks(text).all(|answers| answers == owner), "c{owner} was answered for: {text}");
            let op = number_of(id);
            self.ops[op].asked = false;
            return;
        };
        match method {
            "subscriptions/listen" => {
                let client = marks(text).next();
                self.streams.extend(client.map(|client| (server, said["id"].clone(), client)));
            }
            "tools/call" | "completion/complete" => {
                let op = number_of(said["params"]["name"].as_str().unwrap());
                let token = said["params"]["_meta"]["progressToken"].clone();
                self.ops[op].at = Some((server, said["id"].clone(), token));
            }
            _ => {}
        }
    }

    fn can_work(&self, op: &Op) -> bool {
        op.at.is_some() && !op.asked
    }

    fn act(&mut self) {
        let mut actions: Vec<(usize, usize)> = Vec::new();
        for (number, person) in self.people.iter().enumerate() {
            let begun = self.ops.iter().filter(|op| op.client == number).count();
            if person.opened && begun < 2 {
                actions.push((0, number));
            }
            if !person.questions.is_empty() {
                actions.push((1, number));
            }
        }
        for (number, op) in self.ops.iter().enumerate() {
            if self.can_work(op) {
                actions.extend([(2, number); 2]);
            }
            if !op.done && !op.left && number % 7 == 3 {
                actions.push((3, number));
            }
        }
        if actions.is_empty() {
            return;
        }
        match self.choices.pick(&actions) {
            (0, client) => self.begin(client),
            (1, client) => self.answer(client),
            (2, op) => self.work(op),
            (_, op) => self.leave(op),
        }
    }

    /// Finishes all open requests, and checks that every client receives its results.
    async fn finish(&mut self) {
        for _ in 0..ROUNDS {
            for op in 0..self.ops.len() {
                if self.can_work(&self.ops[op]) {
                    self.work(op);
                }
            }
            for client in 0..self.people.len() {
                self.answer(client);
            }
            passes(20).await;
            self.receive();
            if self.lost().is_none() {
                return;
            }
        }
        // A call may wait for the start of another server.
        for _ in 0..ROUNDS {
            passes(1_000).await;
            self.receive();
            for op in 0..self.ops.len() {
                if self.can_work(&self.ops[op]) {
                    self.work(op);
                }
            }
            for client in 0..self.people.len() {
                self.answer(client);
            }
        }
        self.receive();
        if let Some(op) = self.lost() {
            panic!("c{} has no answer to its request {}", op.client, op.id);
        }
    }

    fn lost(&self) -> Option<&Op> {
        let is_stream =
            |op: &Op| op.method == "subscriptions/listen" && self.people[op.client].era == Era::Modern;
        self.ops.iter().find(|op| !op.done && !op.left && !is_stream(op))
    }
}

/// The operation of a name or an id.
fn number_of(name: &str) -> usize {
    name.split("op").nth(1).and_then(|rest| rest.trim_end_matches('.').parse().ok()).unwrap()
}

fn capabilities(askable: bool) -> Value {
    match askable {
        true => json!({ "elicitation": {}, "sampling": {}, "roots": {} }),
        false => json!({}),
    }
}

async fn schedule(choices: Choices, actions: usize, shown: bool) {
    let mut world = World::new(choices, shown);
    world.open();
    for _ in 0..actions {
        let pause = world.choices.pick(&[1, 1, 1, 12]);
        passes(pause).await;
        world.receive();
        world.act();
    }
    world.finish().await;
}

/// Runs one schedule. Panics if a client receives a message of another or loses its result. `shown`: events are
/// printed.
pub(super) fn run(choices: Choices, actions: usize, shown: bool) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let all = tokio::time::timeout(Duration::from_secs(36_000), schedule(choices, actions, shown));
        all.await.expect("the schedule hangs");
    });
}
