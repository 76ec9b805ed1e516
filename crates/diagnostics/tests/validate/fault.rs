//! The faults of the tests: functions that change messages between a correct server and the validator. For HTTP they can
//! also change heads, statuses and streams.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::request::Parts;
use mcpjoin::proto::Version;
use serde_json::Value;

use super::front::Reply;

/// The transport of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Over {
    /// Lines over a stream.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// The HTTP+SSE of 2024-11-05.
    Sse,
}

/// How the server is validated.
#[derive(Clone, Debug)]
pub(super) enum Look {
    /// In the legacy era, with a detailed check of this version.
    Legacy(Version),
    Modern,
    Both,
}

/// The correct server behind the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Of {
    /// The demonstration server for newcomers.
    Introduction,
    /// The demonstration server with every feature.
    Demo,
    /// A server that supports only the modern era.
    ModernAlone,
    /// A server with tools and prompts, and without resources.
    Plain,
    /// A server that declares no capabilities.
    Bare,
    /// A server with one tool for each feature that is checked in detail.
    Small,
}

/// A fault, and the rule that must find it.
pub(super) struct Row {
    pub(super) rule: &'static str,
    pub(super) over: &'static [Over],
    pub(super) look: Look,
    pub(super) of: Of,
    pub(super) fault: Fault,
    /// A tool that is called, with its arguments.
    pub(super) call: Option<(&'static str, &'static str)>,
    /// Whether read-only tools are called, and resources and prompts requested.
    pub(super) reads: bool,
    /// Rules that necessarily fail as well, and why.
    pub(super) also: &'static [(&'static str, &'static str)],
}

/// A message that the server has received.
#[derive(Clone, Debug, Default)]
pub(super) struct Received {
    pub(super) line: String,
    pub(super) method: String,
    /// As JSON; empty if the message has no id.
    pub(super) id: String,
    /// The number of earlier messages with that method: over lines on this connection, over HTTP since the server's start.
    pub(super) nth: usize,
    /// The message before this one.
    pub(super) before: String,
}

/// The messages that one server has received.
#[derive(Default)]
pub(super) struct Talk {
    counts: BTreeMap<String, usize>,
    received: Vec<Received>,
}

/// The bytes of a message.
pub(super) type Said = Vec<u8>;

type Instead = dyn Fn(&Parts, &str) -> Option<Reply> + Send + Sync;
type After = dyn Fn(&Parts, &mut u16, &mut HeaderMap, &mut String) + Send + Sync;

type Say = dyn Fn(&Received, String) -> Vec<Said> + Send + Sync;
type Told = dyn Fn(&Received) -> Vec<Said> + Send + Sync;
type Before = dyn Fn(&mut Parts, &str) + Send + Sync;

/// The changes to the messages of a connection. The default changes nothing.
#[derive(Clone)]
pub(super) struct Fault {
    /// Written before the first message is read. Only for lines.
    pub(super) first: Vec<Said>,
    /// Selects the lines to accept among those that arrived in one read. Only for lines.
    pub(super) together: Arc<dyn Fn(Vec<String>) -> Vec<String> + Send + Sync>,
    /// A line is processed before its line feed arrives. Only for lines.
    pub(super) hasty: bool,
    /// The list of tools is not shortened.
    pub(super) whole: bool,
    /// The delay at the start. Only for lines.
    pub(super) start: Duration,
    /// The first list of tools takes longer than the timeout of a response.
    pub(super) slow: bool,
    /// The server has no sessions. Only for HTTP.
    pub(super) stateless: bool,
    /// The first call of a tool takes as long as a call that can be cancelled. Only for lines.
    pub(super) busy: bool,
    /// Changes a message to the server.
    pub(super) receive: Arc<dyn Fn(String) -> String + Send + Sync>,
    /// Changes the response to a request: to no message, one, or several.
    pub(super) say: Arc<Say>,
    /// The messages that respond to a notification.
    pub(super) told: Arc<Told>,
    /// Changes the head of a request. `body` is the body of that request.
    pub(super) before: Arc<Before>,
    /// Responds instead of the server.
    pub(super) instead: Arc<Instead>,
    /// Changes a whole response. The first argument is the head of the request.
    pub(super) after: Arc<After>,
    /// Changes the head of a stream.
    pub(super) head: Arc<dyn Fn(&mut HeaderMap) + Send + Sync>,
    /// Changes the frames of a stream.
    pub(super) frame: Arc<dyn Fn(String) -> String + Send + Sync>,
}

impl Default for Fault {
    fn default() -> Self {
        Self {
            first: Vec::new(),
            together: Arc::new(|lines| lines),
            hasty: false,
            whole: false,
            start: Duration::ZERO,
            slow: false,
            stateless: false,
            busy: false,
            receive: Arc::new(|line| line),
            say: Arc::new(|_, reply| vec![reply.into()]),
            told: Arc::new(|_| Vec::new()),
            before: Arc::new(|_, _| {}),
            instead: Arc::new(|_, _| None),
            after: Arc::new(|_, _, _, _| {}),
            head: Arc::new(|_| {}),
            frame: Arc::new(|frame| frame),
        }
    }
}

/// Over lines and over Streamable HTTP.
pub(super) const ALL: &[Over] = &[Over::Stdio, Over::Http];
pub(super) const STDIO: &[Over] = &[Over::Stdio];
pub(super) const HTTP: &[Over] = &[Over::Http];
pub(super) const SSE: &[Over] = &[Over::Sse];

/// A fault of the legacy era. The default is over lines and over HTTP.
pub(super) fn legacy(rule: &'static str) -> Row {
    row(rule, Look::Legacy(Version::newest(mcpjoin::proto::Era::Legacy)))
}

/// A fault of the modern era.
pub(super) fn modern(rule: &'static str) -> Row {
    row(rule, Look::Modern)
}

fn row(rule: &'static str, look: Look) -> Row {
    Row { rule, over: ALL, look, of: Of::Demo, fault: Fault::default(), call: None, reads: false, also: &[] }
}

impl Row {
    pub(super) fn over(mut self, over: &'static [Over]) -> Self {
        self.over = over;
        self
    }

    pub(super) fn of(mut self, of: Of) -> Self {
        self.of = of;
        self
    }

    /// Validates both eras.
    pub(super) fn in_both(mut self) -> Self {
        self.look = Look::Both;
        self
    }

    pub(super) fn in_version(mut self, version: &str) -> Self {
        self.look = Look::Legacy(Version::parse(version));
        self
    }

    pub(super) fn call(mut self, tool: &'static str, arguments: &'static str) -> Self {
        self.call = Some((tool, arguments));
        self
    }

    pub(super) fn reads(mut self) -> Self {
        self.reads = true;
        self
    }

    pub(super) fn also(mut self, also: &'static [(&'static str, &'static str)]) -> Self {
        self.also = also;
        self
    }

    /// Changes the results of a method.
    pub(super) fn edit(
        self,
        method: &'static str,
        change: impl Fn(&mut Value) + Send + Sync + 'static,
    ) -> Self {
        self.say(move |received, reply| {
            if received.method != method || !reply.contains("\"result\"") {
                return vec![reply.into()];
            }
            vec![edited(&reply, |reply| change(&mut reply["result"])).into()]
        })
    }

    pub(super) fn change(mut self, change: impl FnOnce(&mut Fault)) -> Self {
        change(&mut self.fault);
        self
    }

    pub(super) fn receive(self, receive: impl Fn(String) -> String + Send + Sync + 'static) -> Self {
        self.change(|it| it.receive = Arc::new(receive))
    }

    pub(super) fn say(self, say: impl Fn(&Received, String) -> Vec<Said> + Send + Sync + 'static) -> Self {
        self.change(|it| it.say = Arc::new(say))
    }

    /// Changes the first response to a method.
    pub(super) fn answer(
        self,
        method: &'static str,
        change: impl Fn(String) -> String + Send + Sync + 'static,
    ) -> Self {
        self.say(move |received, reply| {
            let here = received.method == method && received.nth == 0;
            vec![if here { change(reply).into() } else { reply.into() }]
        })
    }

    /// Changes every response.
    pub(super) fn answers(self, change: impl Fn(String) -> String + Send + Sync + 'static) -> Self {
        self.say(move |_, reply| vec![change(reply).into()])
    }

    /// Replaces a text everywhere in the first response to a method.
    pub(super) fn swap(self, method: &'static str, one: &'static str, other: &'static str) -> Self {
        self.answer(method, move |reply| reply.replace(one, other))
    }

    /// Replaces the first response to a method by this error.
    pub(super) fn refuse(self, method: &'static str, code: i64) -> Self {
        self.answer(method, move |reply| error(&reply, code))
    }

    /// Sends these messages before the first response to a method.
    pub(super) fn ahead(self, method: &'static str, messages: &'static [&'static str]) -> Self {
        self.say(move |received, reply| {
            let here = received.method == method && received.nth == 0;
            let ahead = messages.iter().filter(|_| here).map(|message| message.as_bytes().to_vec());
            ahead.chain([reply.into()]).collect()
        })
    }

    /// Drops the responses to these requests.
    pub(super) fn silent(self, of: impl Fn(&Received) -> bool + Send + Sync + 'static) -> Self {
        self.say(move |received, reply| if of(received) { Vec::new() } else { vec![reply.into()] })
    }

    pub(super) fn before(self, before: impl Fn(&mut Parts, &str) + Send + Sync + 'static) -> Self {
        self.over(HTTP).change(|it| it.before = Arc::new(before))
    }

    pub(super) fn instead(
        self,
        instead: impl Fn(&Parts, &str) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        self.over(HTTP).change(|it| it.instead = Arc::new(instead))
    }

    pub(super) fn after(
        self,
        after: impl Fn(&Parts, &mut u16, &mut HeaderMap, &mut String) + Send + Sync + 'static,
    ) -> Self {
        self.over(HTTP).change(|it| it.after = Arc::new(after))
    }

    pub(super) fn frame(self, frame: impl Fn(String) -> String + Send + Sync + 'static) -> Self {
        self.over(HTTP).on_streams(frame)
    }

    /// Also changes the frames of a stream.
    pub(super) fn on_streams(self, frame: impl Fn(String) -> String + Send + Sync + 'static) -> Self {
        self.change(|it| it.frame = Arc::new(frame))
    }
}

impl Talk {
    /// Records a message to the server.
    pub(super) fn record(&mut self, line: &str) -> Received {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let count = self.counts.entry(method.clone()).or_default();
        let nth = *count;
        *count += 1;
        let received = Received {
            line: line.into(),
            method,
            // For an array, the id of its first message.
            id: message.get("id").or_else(|| message[0].get("id")).map(Value::to_string).unwrap_or_default(),
            nth,
            before: self.received.last().map(|received| received.line.clone()).unwrap_or_default(),
        };
        self.received.push(received.clone());
        received
    }

    /// The request that a message of the server responds to. If its id matches none, the last message.
    pub(super) fn answered(&self, reply: &str) -> Received {
        let message: Value = serde_json::from_str(reply).unwrap_or_default();
        let id = message.get("id").map(Value::to_string).unwrap_or_default();
        let known = self.received.iter().rev().find(|received| received.id == id && !id.is_empty());
        known.or_else(|| self.received.last()).cloned().unwrap_or_default()
    }
}

/// Shortens the list of tools to the first one: the others are not needed, and parsing them takes most of the time.
pub(super) fn fewer(mut reply: String) -> String {
    if let Some(end) = reply.find(",{\"name\":\"test_error_handling\"")
        && reply.ends_with("]}}")
    {
        reply.truncate(end);
        reply.push_str("]}}");
    }
    reply
}

/// A message with a change.
pub(super) fn edited(message: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut value: Value = serde_json::from_str(message).unwrap();
    change(&mut value);
    value.to_string()
}

/// Replaces a response by an error.
pub(super) fn error(reply: &str, code: i64) -> String {
    edited(reply, |reply| {
        reply.as_object_mut().unwrap().remove("result");
        reply["error"] = serde_json::json!({ "code": code, "message": "not today" });
    })
}
