//! Fuzz target of whole sessions: a client and a server in memory, of both eras, with a hostile network and clock.
//!
//! The input is a script. For every script: nothing panics, every call ends exactly once, the limits hold, no queue and no
//! timer runs forever, and after enough time and the end of the session no state is left.

mod side;

use std::time::Duration;

use crate::{Input, expand};
use bytes::Bytes;
use mcpjoin_proto::session::{
    Call, ClientRole, EraChoice, Inbound, Limits, ProcessExit, Reply, Role, Route, ServerRole, TransportCaps,
    TransportEnd, TransportError,
};
use mcpjoin_proto::types::{
    ClientCapabilities, Implementation, InputRequired, LogMessageParams, LoggingLevel, ServerCapabilities,
};
use mcpjoin_proto::{Era, ErrorObject, Method, Notification, Payload, Raw, RequestId, Time, Version, code};

use side::{Sent, Side};

/// The largest number of steps: longer scripts test nothing more.
const MOST_STEPS: usize = 400;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut world = World::new(&mut input);
    for _ in 0..MOST_STEPS {
        let Some(step) = input.next() else { break };
        world.step(step, &mut input);
    }
    world.end();
}

struct World {
    now: Time,
    sides: [Side; 2],
    server: ServerRole,
    caps: TransportCaps,
    limits: Limits,
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

impl World {
    fn new(input: &mut Input<'_>) -> Self {
        let flags = input.byte();
        let caps = TransportCaps {
            exchanges: flags & 1 != 0,
            reopens: flags & 2 != 0,
            remote: flags & 32 != 0,
            ..TransportCaps::default()
        };
        let limits = if flags & 4 != 0 { small_limits() } else { Limits::default() };
        let mut client =
            ClientRole::new(Implementation::new("client", "1"), client_capabilities(flags & 8 != 0));
        client.era =
            input.pick(&[EraChoice::Auto, EraChoice::Only(Era::Legacy), EraChoice::Only(Era::Modern)]);
        client.version = version(input.byte());
        let mut server =
            ServerRole::new(Implementation::new("server", "1"), server_capabilities(flags & 16 != 0));
        if let Some(only) = version(input.byte()) {
            server.versions.retain(|version| *version == only);
        }
        let sides = [
            Side::new(Role::Client(client.into()), caps, limits.clone()),
            Side::new(Role::Server(server.clone().into()), caps, limits.clone()),
        ];
        let mut world = Self { now: Time::ZERO, sides, server, caps, limits };
        for side in &mut world.sides {
            side.session.open(Time::ZERO);
            side.check();
        }
        world
    }

    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        let from = usize::from(step & 1);
        let now = self.now;
        match step >> 1 {
            0 => {
                self.deliver(from);
            }
            1 => self.until_quiet(),
            2 => {
                let call = call(input, &self.sides[from]);
                self.sides[from].call(now, &call);
            }
            3 => {
                let id = self.sides[from].called(input.byte());
                self.sides[from].cancel(&id);
            }
            4 => {
                let id = self.sides[from].handled(input.byte());
                let reply = reply(input);
                self.sides[from].respond(&id, reply);
            }
            5 => self.notify(from, input),
            6 => {
                let id = self.sides[from].handled(input.byte());
                let progress = input.pick(&[0.0, 0.5, 1.0, -1.0, f64::MAX, f64::NAN, f64::INFINITY]);
                let _ = self.sides[from].session.progress(&id, progress, Some(1.0), Some("on \"the\" way"));
            }
            7 => {
                let id = self.sides[from].handled(input.byte());
                let level = input.pick(&[LoggingLevel::Debug, LoggingLevel::Info, LoggingLevel::Emergency]);
                let message = LogMessageParams::new(level, Raw::string("words"));
                let _ = self.sides[from].session.log(&id, &message);
            }
            8 => {
                self.now = now + Duration::from_millis(input.pick(&[1, 100, 5000, 30_000, 60_000, 600_000]));
                for side in &mut self.sides {
                    side.timeout(self.now);
                }
            }
            9 => self.hostile(from, &expand(input.line())),
            10 => {
                let line = TEMPLATES[usize::from(input.byte()) % TEMPLATES.len()];
                self.hostile(from, &filled(line, input));
            }
            11 => {
                let id = self.sides[from].called(input.byte());
                let cause = TransportError::new("reset", true);
                self.sides[from].handle(now, Inbound::Lost { id, cause });
            }
            12 => {
                let id = self.sides[from].handled(input.byte());
                self.sides[from].handle(now, Inbound::Detached { id });
            }
            13 => {
                let (sent, waiting) = (u64::from(input.byte()), input.byte() & 1 != 0);
                self.sides[from].session.report_sent(now, sent, waiting);
                self.sides[from].check();
            }
            14 => {
                let cause = link_end(input.byte());
                self.sides[from].handle(now, Inbound::Closed { cause });
            }
            15 => {
                self.sides[from].session.close();
                self.sides[from].check();
            }
            16 => self.reopen(),
            // The message is lost.
            17 => drop(self.sides[from].transmit()),
            // The message is duplicated.
            18 => {
                if let Some(Sent::Line { line, .. }) = self.sides[from].transmit() {
                    self.sides[1 - from].line(now, line.clone());
                    self.sides[1 - from].line(now, line);
                }
            }
            // The message is reordered.
            19 => {
                let (first, second) = (self.sides[from].transmit(), self.sides[from].transmit());
                for sent in [second, first].into_iter().flatten() {
                    self.arrive(1 - from, sent);
                }
            }
            _ => {}
        }
    }

    /// Delivers one message from a side to the other. Returns whether there was one.
    fn deliver(&mut self, from: usize) -> bool {
        if !self.sides[1 - from].session.wants_input() {
            return false;
        }
        let Some(sent) = self.sides[from].transmit() else { return false };
        self.arrive(1 - from, sent);
        true
    }

    fn arrive(&mut self, at: usize, sent: Sent) {
        match sent {
            Sent::Line { line, .. } => self.sides[at].line(self.now, line),
            Sent::Abort(id) => self.sides[at].handle(self.now, Inbound::Detached { id }),
        }
    }

    /// Checks that two sides that only react to each other become idle.
    fn until_quiet(&mut self) {
        let mut delivered = 0;
        while self.deliver(CLIENT) | self.deliver(SERVER) {
            delivered += 1;
            assert!(delivered < 20_000, "the two sides never come to rest");
        }
    }

    fn hostile(&mut self, to: usize, line: &[u8]) {
        self.sides[to].line(self.now, Bytes::copy_from_slice(line));
    }

    fn notify(&mut self, from: usize, input: &mut Input<'_>) {
        let method = method(input.byte());
        let params = params(input.byte()).map(Payload::from_raw);
        let route = match input.byte() {
            number @ 0..128 => Route::ReplyTo(self.sides[from].handled(number)),
            _ => Route::Session,
        };
        let _ = self.sides[from].session.notify(Notification { method, params }, route);
        self.sides[from].check();
    }

    /// The owner of the client restarts its server.
    fn reopen(&mut self) {
        if std::mem::take(&mut self.sides[CLIENT].reopen) {
            self.sides[SERVER].end();
            self.sides[SERVER] =
                Side::new(Role::Server(self.server.clone().into()), self.caps, self.limits.clone());
            self.sides[SERVER].session.open(self.now);
            self.sides[CLIENT].session.reopened(self.now);
        }
        for side in &mut self.sides {
            side.check();
        }
    }

    fn end(&mut self) {
        for side in &mut self.sides {
            self.now = side.until_the_end(self.now);
            side.end();
        }
    }
}

fn small_limits() -> Limits {
    let mut limits = Limits::default();
    limits.message = 2000;
    limits.opening_garbage = 3;
    limits.handling = 2;
    limits.waiting = 300;
    limits.queued_replies = 600;
    limits.in_flight = 2;
    limits.queued_calls = 300;
    limits.subscriptions = 1;
    limits.decode.batch = 4;
    limits
}

fn client_capabilities(everything: bool) -> ClientCapabilities {
    if !everything {
        return ClientCapabilities::default();
    }
    read(
        r#"{"roots":{"listChanged":true},"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},
        "tasks":{"list":{},"cancel":{},"requests":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#,
    )
}

fn server_capabilities(everything: bool) -> ServerCapabilities {
    if !everything {
        return ServerCapabilities::default();
    }
    read(
        r#"{"logging":{},"completions":{},"prompts":{"listChanged":true},"tools":{"listChanged":true},
        "resources":{"listChanged":true,"subscribe":true},"tasks":{"list":{},"cancel":{},"requests":{}},
        "extensions":{"io.modelcontextprotocol/tasks":{}}}"#,
    )
}

fn read<T: serde::de::DeserializeOwned>(text: &'static str) -> T {
    raw(text).decode().expect("our own text")
}

fn raw(text: &'static str) -> Raw {
    Raw::parse(text).expect("our own text")
}

/// Only one version, or all of them.
fn version(number: u8) -> Option<Version> {
    Version::ALL.get(usize::from(number)).cloned()
}

fn method(number: u8) -> Method {
    Method::ALL.get(usize::from(number)).cloned().unwrap_or_else(|| Method::Other("x/y".into()))
}

fn params(number: u8) -> Option<Raw> {
    let text = match number % 10 {
        0 => return None,
        1 => "{}",
        2 => r#"{"name":"echo","arguments":{"text":"hello"}}"#,
        3 => r#"{"uri":"file:///a"}"#,
        4 => {
            r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,
            "resourceSubscriptions":["file:///a"]}}"#
        }
        5 => r#"{"_meta":{"progressToken":"p","io.modelcontextprotocol/logLevel":"debug"},"name":"echo"}"#,
        6 => r#"{"level":"debug"}"#,
        7 => r#"{"level":"error","data":1}"#,
        8 => r#"{"requestId":1}"#,
        _ => r#"{ "a" : 1 , "_meta" : null }"#,
    };
    Some(raw(text))
}

fn call(input: &mut Input<'_>, from: &Side) -> Call {
    let mut call = Call::new(method(input.byte()));
    call.params = params(input.byte()).map(Payload::from_raw);
    let flags = input.byte();
    call.progress = flags & 1 != 0;
    call.timeout = (flags & 2 != 0).then_some(Duration::from_secs(1));
    call.total = (flags & 4 != 0).then_some(Duration::MAX);
    call.log_level = (flags & 8 != 0).then_some(LoggingLevel::Warning);
    call.on_behalf_of = (flags & 16 != 0).then(|| from.handled(flags));
    // A call without any timeout ends only with the session, which this target does not test.
    if flags & 2 == 0 && call.total.is_some() {
        call.total = Some(Duration::from_millis(1));
    }
    call
}

fn reply(input: &mut Input<'_>) -> Result<Reply, ErrorObject> {
    Ok(match input.byte() % 8 {
        0 => Reply::empty(),
        1 => Reply::Complete(raw(r#"{"content":[{"type":"text","text":"hello"}]}"#)),
        2 => Reply::Complete(raw("[1]")),
        3 => Reply::NeedInput(Box::new(read::<InputRequired>(
            r#"{"inputRequests":{"a":{"method":"roots/list"},"b":{"method":"elicitation/create","params":
            {"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"s"}"#,
        ))),
        4 => Reply::Task(raw(r#"{"taskId":"t","status":"working"}"#)),
        5 => Reply::Complete(Raw::string(&"x".repeat(3000))),
        6 => return Err(ErrorObject::new(code::RESOURCE_NOT_FOUND, "gone\n").with_data(raw("{\"a\":\n1}"))),
        _ => Reply::Complete(raw(r#"{"resultType":"complete","ttlMs":5,"_meta":{"a":1}, "tools":[]}"#)),
    })
}

fn link_end(number: u8) -> TransportEnd {
    match number % 3 {
        0 => TransportEnd::end_of_stream(),
        1 => TransportEnd {
            exit: Some(ProcessExit::Code(1)),
            stderr: Bytes::from_static(b"\xFFcannot\x1B[0m start\n"),
            ..TransportEnd::end_of_stream()
        },
        _ => TransportEnd::failed(TransportError::new("broken pipe", false)),
    }
}

/// Messages of a hostile peer, with a number for `@`.
const TEMPLATES: [&str; 24] = [
    r#"{"jsonrpc":"2.0","id":@,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":"@","result":{}}"#,
    r#"{"jsonrpc":"2.0","id":@,"result":{"resultType":"input_required","requestState":"s"}}"#,
    r#"{"jsonrpc":"2.0","id":@,"result":{"resultType":"task","taskId":"t"}}"#,
    r#"{"jsonrpc":"2.0","id":@,"error":{"code":-32601,"message":"no"}}"#,
    r#"{"jsonrpc":"2.0","id":@,"error":{"code":-32022,"message":"no","data":{"supported":["2025-06-18"],"requested":""}}}"#,
    r#"{"jsonrpc":"2.0","id":@,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"],"requested":""}}}"#,
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":@,"message":"no"}}"#,
    r#"{"jsonrpc":"2.0","id":@,"result":{"protocolVersion":"2025-03-26","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}"#,
    r#"{"jsonrpc":"2.0","id":@,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete","ttlMs":0,"cacheScope":"private"}}"#,
    r#"{"jsonrpc":"2.0","id":@,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    r#"{"jsonrpc":"2.0","id":@,"method":"ping"}"#,
    r#"{"jsonrpc":"2.0","id":@,"method":"tools/call","params":{"name":"echo","_meta":{"progressToken":@}}}"#,
    r#"{"jsonrpc":"2.0","id":@,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    r#"{"jsonrpc":"2.0","id":@,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"notifications":{"toolsListChanged":true}}}"#,
    r#"{"jsonrpc":"2.0","id":@,"method":"resources/subscribe","params":{"uri":"file:///a"}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":@}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":@,"progress":@}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":@},"notifications":{}}}"#,
    r#"[{"jsonrpc":"2.0","id":@,"method":"ping"},{"jsonrpc":"2.0","id":@,"method":"tools/list"},{"jsonrpc":"2.0"}]"#,
    r#"{"jsonrpc":"2.0","id":@,"result":{},"error":{}}"#,
    r#"{"jsonrpc":"2.0","id":@,"method":7}"#,
    r#"{"jsonrpc":"2.0","id":@,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}"#,
];

fn filled(template: &str, input: &mut Input<'_>) -> Vec<u8> {
    let number = input.byte();
    template.replace('@', &RequestId::from(i64::from(number % 16)).to_string()).into_bytes()
}
