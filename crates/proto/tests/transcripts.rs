//! Tests of readable conversations: two sessions in memory, or one session and a peer that the transcript scripts, under
//! virtual time.
//!
//! Each file in `transcripts/` contains conversations. A line that begins with `$` is an operation; the lines behind it
//! are all its results, in order: the messages on the wire (`client > {...}`) and the events that a session reports to
//! its owner (`server sees ...`). Both are compared exactly.
//! `MCPJOIN_BLESS=1 cargo test -p mcpjoin-proto --test transcripts` writes the actual results into the files; read
//! the difference before committing it.
//!
//! The operations:
//!
//! ```text
//! $ client [ask=auto|legacy|modern] [version=V] [reopens] [exchanges] [caps={...}] [limit=NAME:VALUE]...
//! $ server [versions=V,V] [exchanges] [caps={...}] [limit=NAME:VALUE]...
//! $ client scripted | server scripted          the transcript scripts that side
//! $ open                                       both sessions begin
//! $ opened VERSION [caps={...}]                they agree, without lines for it; a scripted side has caps
//! $ SIDE sends TEXT                            the scripted side sends a line, valid or not
//! $ SIDE calls METHOD [{params}] [timeout=S] [total=S] [progress] [level=L] [for=ID]
//! $ SIDE answers ID {result} | needs ID {...} | makes task ID {...} | fails ID CODE TEXT
//! $ SIDE cancels ID [REASON]
//! $ SIDE tells METHOD [{params}] [for=ID]
//! $ SIDE progresses ID NUMBER[/TOTAL] [TEXT]
//! $ SIDE logs ID LEVEL {data}
//! $ SIDE loses ID | leaves ID | ends [exit=N] [stderr=TEXT]   an event of that side's link
//! $ SIDE closes | drains | reopened
//! $ SIDE state
//! $ wait SECONDS
//! $ hold SIDE | release SIDE                   the wire from that side
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a transcript that cannot be read is a failing test"
)]

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mcpjoin_proto::decode::{Decoded, decode};
use mcpjoin_proto::session::{
    Call, ClientRole, EraChoice, Event, Inbound, Limits, Origin, Outbound, ProcessExit, Reply, Role, Route,
    ServerRole, Session, State, TransportCaps, TransportEnd, TransportEndKind, TransportError,
};
use mcpjoin_proto::types::{Implementation, LogMessageParams};
use mcpjoin_proto::{
    Era, ErrorObject, Method, Notification, Payload, ProgressToken, Raw, RequestId, Time, Version, encode,
};

#[test]
fn every_transcript_happens_as_it_is_written() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let bless = std::env::var_os("MCPJOIN_BLESS").is_some();
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (mut conversations, mut complaints) = (0, String::new());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let happened = replay(&text, &mut conversations);
        if bless {
            std::fs::write(&file, &happened).unwrap();
        } else if happened != text {
            let name = file.file_name().unwrap().to_string_lossy();
            writeln!(complaints, "{name}:\n{}", first_difference(&text, &happened)).unwrap();
        }
    }
    eprintln!("{conversations} conversations");
    assert!(conversations >= 189, "only {conversations} conversations were found");
    assert!(complaints.is_empty(), "{complaints}");
}

/// Every method has a conversation in each of its eras.
#[test]
fn every_method_is_spoken_in_each_of_its_eras() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut spoken = [String::new(), String::new()];
    for entry in std::fs::read_dir(folder).unwrap() {
        for conversation in std::fs::read_to_string(entry.unwrap().path()).unwrap().split("\n## ") {
            let modern = conversation.contains("io.modelcontextprotocol/protocolVersion\":\"2026");
            let modern = modern || conversation.contains("$ opened 2026-07-28");
            let legacy = conversation.contains("\"method\":\"initialize\"")
                || conversation.contains("$ opened 2025-11-25");
            if modern {
                spoken[1].push_str(conversation);
            }
            if legacy {
                spoken[0].push_str(conversation);
            }
        }
    }
    let missing: Vec<_> = Method::ALL
        .iter()
        .flat_map(|method| {
            [(method, Version::V2025_11_25, &spoken[0]), (method, Version::V2026_07_28, &spoken[1])]
        })
        .filter(|(method, version, _)| method.facts().unwrap().exists_in(version))
        .filter(|(method, _, spoken)| !spoken.contains(&format!("\"method\":\"{method}\"")))
        .map(|(method, version, _)| format!("{method} in {version}"))
        .collect();
    assert!(missing.is_empty(), "no conversation has {missing:#?}");
}

fn first_difference(expected: &str, happened: &str) -> String {
    let (mut expected, mut happened) = (expected.lines(), happened.lines());
    let mut title = "";
    for number in 1.. {
        match (expected.next(), happened.next()) {
            (Some(a), Some(b)) if a == b => title = a.strip_prefix("## ").unwrap_or(title),
            (None, None) => return "the files differ in their last line end".into(),
            (a, b) => {
                return format!(
                    "line {number}, in \"{title}\":\n  written:  {}\n  happened: {}",
                    a.unwrap_or("(nothing)"),
                    b.unwrap_or("(nothing)")
                );
            }
        }
    }
    String::new()
}

/// The text with the actual results behind each `$`.
fn replay(text: &str, conversations: &mut usize) -> String {
    let mut out = String::new();
    let mut world: Option<World> = None;
    for line in text.lines() {
        if line.starts_with("## ") {
            finish(&mut out, world.take());
            *conversations += 1;
            world = Some(World::default());
            writeln!(out, "{line}").unwrap();
        } else if let (Some(world), Some(command)) = (&mut world, line.strip_prefix("$ ")) {
            writeln!(out, "{line}").unwrap();
            world.perform(command);
            world.settle(&mut out);
        } else if world.is_none() || line.is_empty() || line.starts_with('#') {
            writeln!(out, "{line}").unwrap();
        }
    }
    finish(&mut out, world);
    out
}

/// At the end of a conversation no request may be pending.
fn finish(out: &mut String, world: Option<World>) {
    let Some(world) = world else { return };
    for side in world.sides.iter().flatten() {
        assert!(side.session.poll_timeout().is_none_or(|at| at > world.now), "a timer is overdue:\n{out}");
    }
}

#[derive(Default)]
struct World {
    now: Time,
    /// The client and the server; `None`: scripted by the transcript.
    sides: [Option<Side>; 2],
    log: String,
}

struct Side {
    session: Session,
    exchanges: bool,
    wire: VecDeque<OnWire>,
    held: bool,
    /// Lines that have left the wire, in place of bytes.
    sent: u64,
}

enum OnWire {
    Line(Bytes),
    Abort(RequestId),
}

const NAMES: [&str; 2] = ["client", "server"];

impl World {
    fn perform(&mut self, command: &str) {
        let (subject, rest) = command.split_once(' ').unwrap_or((command, ""));
        match subject {
            "open" => {
                for side in self.sides.iter_mut().flatten() {
                    side.session.open(self.now);
                }
                return;
            }
            "opened" => return self.opened(rest),
            "wait" => {
                let seconds: f64 = rest.parse().unwrap();
                self.wait(Duration::from_secs_f64(seconds));
                return;
            }
            "hold" | "release" => {
                let side = self.sides[place(rest)].as_mut().unwrap();
                side.held = subject == "hold";
                return;
            }
            _ => {}
        }
        let place = place(subject);
        let words = Words(rest);
        let verb = words.first();
        if rest.is_empty() || verb.contains('=') || ["reopens", "exchanges", "remote"].contains(&verb) {
            self.sides[place] = Some(Side {
                session: words.session(place),
                exchanges: words.flag("exchanges"),
                wire: VecDeque::new(),
                held: false,
                sent: 0,
            });
            return;
        }
        match verb {
            "scripted" => self.sides[place] = None,
            "sends" => {
                let text = rest.strip_prefix("sends ").unwrap();
                self.deliver(1 - place, &Bytes::from(text.to_owned()));
            }
            "state" => {
                let session = &self.sides[place].as_ref().unwrap().session;
                write!(self.log, "{subject} is {:?}", session.state()).unwrap();
                for (name, number) in [
                    ("calls", session.calls_in_flight()),
                    ("requests", session.requests_in_flight()),
                    ("dropped logs", usize::try_from(session.dropped_logs()).unwrap()),
                ] {
                    if number > 0 {
                        write!(self.log, ", {name}: {number}").unwrap();
                    }
                }
                let reads = session.wants_input() || session.state() == State::Disconnected;
                writeln!(self.log, "{}", if reads { "" } else { ", reads no more" }).unwrap();
            }
            _ => {
                let now = self.now;
                let session = &mut self.sides[place].as_mut().unwrap().session;
                if let Some(said) = act(session, now, verb, &words) {
                    writeln!(self.log, "{subject} receives: {said}").unwrap();
                }
            }
        }
    }

    /// Opens both sides without lines in the transcript: the files about opening have them.
    fn opened(&mut self, rest: &str) {
        let version = Version::parse(rest.split(' ').next().unwrap_or_default());
        let words = Words(rest);
        let capabilities = words.json();
        let modern = version == Version::V2026_07_28;
        for side in self.sides.iter_mut().flatten() {
            side.session.open(self.now);
        }
        match &self.sides {
            [Some(_), None] => {
                let capabilities = capabilities.as_ref().map_or(EVERYTHING, Raw::as_str);
                let answer = if modern {
                    format!(
                        r#"{{"resultType":"complete","supportedVersions":["{version}"],"capabilities":{capabilities},"ttlMs":0,"cacheScope":"private"}}"#
                    )
                } else {
                    format!(
                        r#"{{"protocolVersion":"{version}","capabilities":{capabilities},"serverInfo":{{"name":"s","version":"1"}}}}"#
                    )
                };
                self.crank();
                self.deliver(0, &Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{answer}}}"#)));
            }
            [None, Some(_)] if !modern => {
                let capabilities = capabilities.as_ref().map_or("{}", Raw::as_str);
                self.deliver(1, &Bytes::from(format!(
                    r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{capabilities},"clientInfo":{{"name":"c","version":"1"}}}}}}"#
                )));
                self.deliver(1, &Bytes::from(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#));
            }
            _ => {}
        }
        self.crank();
        for side in self.sides.iter().flatten() {
            let agreed = side.session.profile().map(|profile| &profile.version);
            assert!(agreed == Some(&version) || (modern && agreed.is_none()), "{}", self.log);
        }
        self.log.clear();
    }

    /// Advances the time to each deadline in turn, and runs everything that follows.
    fn wait(&mut self, duration: Duration) {
        let end = self.now + duration;
        for turn in 0.. {
            assert!(turn < 1000, "a deadline does not go away: {}", self.log);
            let next = self.sides.iter().flatten().filter_map(|side| side.session.poll_timeout()).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = next.max(self.now);
            for side in self.sides.iter_mut().flatten() {
                side.session.handle_timeout(self.now);
            }
            self.crank();
        }
        self.now = end;
    }

    fn settle(&mut self, out: &mut String) {
        self.crank();
        out.push_str(&std::mem::take(&mut self.log));
    }

    /// Runs until nothing more happens.
    fn crank(&mut self) {
        loop {
            let mut quiet = true;
            for (place, name) in NAMES.into_iter().enumerate() {
                let Some(side) = &mut self.sides[place] else { continue };
                while let Some(event) = side.session.poll_event() {
                    quiet = false;
                    writeln!(self.log, "{name} sees {}", describe(&event)).unwrap();
                }
                while let Some(outbound) = side.session.poll_transmit() {
                    quiet = false;
                    match outbound {
                        Outbound::Message { message, route } => {
                            let mut line = BytesMut::new();
                            encode::message(&message, &mut line);
                            let way = match route {
                                Route::ReplyTo(id) if side.exchanges => {
                                    format!(" (on the stream of {id})")
                                }
                                _ => String::new(),
                            };
                            let text = String::from_utf8_lossy(&line);
                            writeln!(self.log, "{name} > {text}{way}").unwrap();
                            side.wire.push_back(OnWire::Line(line.freeze()));
                        }
                        Outbound::Batch { messages, .. } => {
                            let mut line = BytesMut::new();
                            encode::batch(&messages, &mut line);
                            writeln!(self.log, "{name} > {}", String::from_utf8_lossy(&line)).unwrap();
                            side.wire.push_back(OnWire::Line(line.freeze()));
                        }
                        Outbound::Abort { id } => {
                            writeln!(self.log, "{name} leaves the exchange of {id}").unwrap();
                            side.wire.push_back(OnWire::Abort(id));
                        }
                        Outbound::CloseStream { id } => panic!("no script closes the stream of {id}"),
                    }
                }
                if !side.held
                    && let Some(item) = side.wire.pop_front()
                {
                    quiet = false;
                    side.sent += 1;
                    match (item, &mut self.sides[1 - place]) {
                        (OnWire::Line(line), _) => self.deliver(1 - place, &line),
                        (OnWire::Abort(id), Some(other)) => {
                            other.session.handle(self.now, Inbound::Detached { id });
                        }
                        (OnWire::Abort(_), None) => {}
                    }
                }
                let Some(side) = &mut self.sides[place] else { continue };
                side.session.report_sent(self.now, side.sent, !side.wire.is_empty());
            }
            if quiet {
                return;
            }
        }
    }

    fn deliver(&mut self, place: usize, line: &Bytes) {
        let now = self.now;
        let Some(side) = &mut self.sides[place] else { return };
        let origin = Arc::new(Origin::new("memory"));
        let limits = side.session.limits().decode.clone();
        let inbound = match decode(line, &limits) {
            Ok(Decoded::Message(message)) => Inbound::Message { message, origin },
            Ok(Decoded::Batch(parts)) => Inbound::Batch { parts, exchange: None, origin },
            Err(error) => Inbound::Malformed { error, excerpt: line.slice(..line.len().min(200)), origin },
        };
        side.session.handle(now, inbound);
    }
}

fn place(name: &str) -> usize {
    NAMES.iter().position(|known| *known == name).unwrap_or_else(|| panic!("who is {name}?"))
}

/// The words behind a side: positional ones, `key=value` and JSON objects.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn first(&self) -> &'a str {
        self.0.split(' ').next().unwrap_or_default()
    }

    /// The word at this position; JSON is not counted.
    fn word(&self, place: usize) -> &'a str {
        self.0.split(' ').nth(place).unwrap_or_else(|| panic!("word {place} of: {}", self.0))
    }

    fn json(&self) -> Option<Raw> {
        let start = self.0.find('{')?;
        let end = self.0.rfind('}')?;
        Some(Raw::parse(self.0[start..=end].to_owned()).unwrap())
    }

    fn value(&self, key: &str) -> Option<&'a str> {
        let outside = self.0.rfind('}').map_or(self.0, |end| &self.0[end + 1..]);
        let before = self.0.find('{').map_or("", |start| &self.0[..start]);
        [before, outside]
            .iter()
            .find_map(|text| text.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('=')))
    }

    fn flag(&self, name: &str) -> bool {
        self.0.split(' ').any(|word| word == name)
    }

    fn rest_after(&self, words: usize) -> &'a str {
        self.0.splitn(words + 1, ' ').nth(words).unwrap_or_default()
    }

    fn session(&self, place: usize) -> Session {
        let caps = TransportCaps {
            exchanges: self.flag("exchanges"),
            reopens: self.flag("reopens"),
            remote: self.flag("remote"),
            ..TransportCaps::default()
        };
        let capabilities = self.value("caps").is_some().then(|| self.json().unwrap());
        let capabilities = capabilities.unwrap_or_else(|| {
            let all = if place == 0 { "{}" } else { EVERYTHING };
            Raw::parse(all).unwrap()
        });
        let role = if place == 0 {
            let mut role = ClientRole::new(Implementation::new("c", "1"), capabilities.decode().unwrap());
            role.era = match self.value("ask") {
                Some("legacy") => EraChoice::Only(Era::Legacy),
                Some("modern") => EraChoice::Only(Era::Modern),
                _ => EraChoice::Auto,
            };
            role.version = self.value("version").map(Version::parse);
            Role::Client(role.into())
        } else {
            let mut role = ServerRole::new(Implementation::new("s", "1"), capabilities.decode().unwrap());
            if let Some(versions) = self.value("versions") {
                role.versions = versions.split(',').map(Version::parse).collect();
            }
            Role::Server(role.into())
        };
        let mut limits = Limits::default();
        for word in self.0.split(' ').filter_map(|word| word.strip_prefix("limit=")) {
            let (name, value) = word.split_once(':').unwrap();
            let number: usize = value.parse().unwrap();
            match name {
                "handling" => limits.handling = number,
                "handling_bytes" => limits.handling_bytes = number,
                "subscription_bytes" => limits.subscription_bytes = number,
                "waiting" => limits.waiting = number,
                "in_flight" => limits.in_flight = number,
                "queued_calls" => limits.queued_calls = number,
                "queued_replies" => limits.queued_replies = number,
                "message" => limits.message = number,
                "subscriptions" => limits.subscriptions = number,
                "opening_garbage" => limits.opening_garbage = number,
                "probe" => limits.probe = Duration::from_secs(number as u64),
                "initialize" => limits.initialize = Duration::from_secs(number as u64),
                "request" => limits.request = Duration::from_secs(number as u64),
                "request_total" => limits.request_total = Duration::from_secs(number as u64),
                "write_stall" => limits.write_stall = Duration::from_secs(number as u64),
                "drain" => limits.drain = Duration::from_secs(number as u64),
                other => panic!("no limit {other}"),
            }
        }
        Session::new(role, caps, limits)
    }
}

/// The capabilities of a server when the transcript does not name them.
const EVERYTHING: &str = r#"{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{},"logging":{}}"#;

/// Performs an operation of a session's owner; returns what it reports at once, if anything.
fn act(session: &mut Session, now: Time, verb: &str, words: &Words<'_>) -> Option<String> {
    let seconds = |key: &str| words.value(key).map(|text| Duration::from_secs(text.parse().unwrap()));
    match verb {
        "calls" => {
            let mut call = Call::new(Method::parse(words.word(1)));
            call.params = words.json().map(Payload::from_raw);
            call.timeout = seconds("timeout");
            call.total = seconds("total");
            call.progress = words.flag("progress");
            call.log_level = words.value("level").map(|level| Raw::string(level).decode().unwrap());
            call.on_behalf_of = words.value("for").map(id);
            session.call(now, &call).err().map(|refused| refused.to_string())
        }
        "answers" => {
            session.respond(&id(words.word(1)), Ok(Reply::Complete(words.json().unwrap())));
            None
        }
        "needs" => {
            let input = words.json().unwrap().decode().unwrap();
            session.respond(&id(words.word(1)), Ok(Reply::NeedInput(Box::new(input))));
            None
        }
        "makes" => {
            session.respond(&id(words.word(2)), Ok(Reply::Task(words.json().unwrap())));
            None
        }
        "fails" => {
            let error = ErrorObject::new(words.word(2).parse().unwrap(), words.rest_after(3));
            session.respond(&id(words.word(1)), Err(error));
            None
        }
        "cancels" => {
            let reason = words.rest_after(2);
            session.cancel(&id(words.word(1)), (!reason.is_empty()).then_some(reason));
            None
        }
        "tells" => {
            let params = words.json().map(Payload::from_raw);
            let notification = Notification { method: Method::parse(words.word(1)), params };
            let route = words.value("for").map_or(Route::Session, |of| Route::ReplyTo(id(of)));
            session.notify(notification, route).err().map(|refused| refused.to_string())
        }
        "progresses" => {
            let (done, total) =
                words.word(2).split_once('/').map_or_else(|| (words.word(2), None), |(a, b)| (a, Some(b)));
            let text = words.rest_after(3);
            let outcome = session.progress(
                &id(words.word(1)),
                done.parse().unwrap(),
                total.map(|total| total.parse().unwrap()),
                (!text.is_empty()).then_some(text),
            );
            outcome.err().map(|refused| refused.to_string())
        }
        "logs" => {
            let level = Raw::string(words.word(2)).decode().unwrap();
            let message = LogMessageParams::new(level, words.json().unwrap());
            session.log(&id(words.word(1)), &message).err().map(|refused| refused.to_string())
        }
        "loses" => {
            let cause = TransportError::new("the stream broke", true);
            session.handle(now, Inbound::Lost { id: id(words.word(1)), cause });
            None
        }
        "leaves" => {
            session.handle(now, Inbound::Detached { id: id(words.word(1)) });
            None
        }
        "ends" => {
            let mut end = TransportEnd::end_of_stream();
            if words.flag("broken") {
                let error = TransportError::new("connection reset", true);
                end.kind = TransportEndKind::Failed(error);
            }
            end.exit = words.value("exit").map(|code| ProcessExit::Code(code.parse().unwrap()));
            end.stderr = words.value("stderr").map(|text| Bytes::from(text.to_owned())).unwrap_or_default();
            session.handle(now, Inbound::Closed { cause: end });
            None
        }
        "closes" => {
            session.close();
            None
        }
        "drains" => {
            session.drain(now);
            None
        }
        "reopened" => {
            session.reopened(now);
            None
        }
        other => panic!("what is to {other}?"),
    }
}

fn id(text: &str) -> RequestId {
    text.parse::<i64>().map_or_else(|_| RequestId::from(text), RequestId::from)
}

fn describe(event: &Event) -> String {
    match event {
        Event::Opened => "opened".into(),
        Event::Request { request, context } => {
            let mut said = format!("request {} {}", request.id, request.method);
            let token: Option<&ProgressToken> = context.progress_token.as_ref();
            if let Some(token) = token {
                write!(said, " progress={token}").unwrap();
            }
            if let Some(level) = context.log_level {
                write!(said, " level={}", level.as_str()).unwrap();
            }
            said
        }
        Event::Notification { notification, call } => match call {
            Some(id) => format!("notification {} of {id}", notification.method),
            None => format!("notification {}", notification.method),
        },
        Event::Progress { id, progress } => format!("progress of {id}: {}", progress.progress),
        Event::Outcome { id, outcome: Ok(Reply::Complete(result)) } => format!("outcome of {id}: {result}"),
        Event::Outcome { id, outcome: Ok(Reply::NeedInput(input)) } => {
            format!("outcome of {id} needs input: {}", Raw::from_value(input).unwrap())
        }
        Event::Outcome { id, outcome: Ok(Reply::Task(task)) } => format!("outcome of {id} is a task: {task}"),
        Event::Outcome { id, outcome: Err(error) } => format!("outcome of {id} fails: {error}"),
        Event::Cancelled { id, reason } => match reason {
            Some(reason) => format!("cancelled {id}: {reason}"),
            None => format!("cancelled {id}"),
        },
        Event::Violation(violation) => format!("violation: {violation}"),
        Event::Reopen => "reopen".into(),
        Event::Closed(cause) => format!("closed: {cause}"),
        other => format!("{other:?}"),
    }
}
