//! What a fault is: a function from a message to bytes, put between a clean server and whoever looks at it. Those of
//! HTTP change heads, statuses and streams as well.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::request::Parts;
use mcpjoin::proto::Version;
use serde_json::Value;

use super::front::Reply;

/// Where a fault is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Over {
    /// Lines.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// The HTTP+SSE of 2024-11-05.
    Sse,
}

/// How the server is looked at.
#[derive(Clone, Debug)]
pub(super) enum Look {
    /// In the legacy era, with a close look at this version.
    Legacy(Version),
    Modern,
    Both,
}

/// The clean server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Of {
    /// The demonstration, which has everything.
    Demo,
    /// One that speaks no earlier revision.
    ModernAlone,
    /// One with tools and prompts, and without resources.
    Plain,
    /// One that declares nothing.
    Bare,
    /// One with a tool of each kind that is looked at closely.
    Small,
}

/// A fault, and the rule that is to find it.
pub(super) struct Row {
    pub(super) rule: &'static str,
    pub(super) over: &'static [Over],
    pub(super) look: Look,
    pub(super) of: Of,
    pub(super) fault: Fault,
    /// A tool that is called, with its arguments.
    pub(super) call: Option<(&'static str, &'static str)>,
    /// What only reads is called, read and got.
    pub(super) reads: bool,
    /// Rules that cannot but accuse as well, and why.
    pub(super) also: &'static [(&'static str, &'static str)],
}

/// What the server has heard.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    pub(super) line: String,
    pub(super) method: String,
    /// As JSON; empty for what has none.
    pub(super) id: String,
    /// How many of that method came before: over lines on this connection, over HTTP since the server's start.
    pub(super) nth: usize,
    /// What came before.
    pub(super) before: String,
}

/// Everything that is said to one server.
#[derive(Default)]
pub(super) struct Talk {
    counts: BTreeMap<String, usize>,
    heard: Vec<Heard>,
}

/// A message as it is written.
pub(super) type Said = Vec<u8>;

type Instead = dyn Fn(&Parts, &str) -> Option<Reply> + Send + Sync;
type After = dyn Fn(&Parts, &mut u16, &mut HeaderMap, &mut String) + Send + Sync;

type Say = dyn Fn(&Heard, String) -> Vec<Said> + Send + Sync;
type Told = dyn Fn(&Heard) -> Vec<Said> + Send + Sync;
type Before = dyn Fn(&mut Parts, &str) + Send + Sync;

/// What is changed on the way. By default nothing.
#[derive(Clone)]
pub(super) struct Fault {
    /// What is written before anything is heard: lines alone.
    pub(super) first: Vec<Said>,
    /// Of the lines that have come in one read, those that are heard: lines alone.
    pub(super) together: Arc<dyn Fn(Vec<String>) -> Vec<String> + Send + Sync>,
    /// A line is taken before its end: lines alone.
    pub(super) hasty: bool,
    /// Every tool is listed.
    pub(super) whole: bool,
    /// So long it takes to start: lines alone.
    pub(super) start: Duration,
    /// The first list of tools takes longer than an answer may.
    pub(super) slow: bool,
    /// The first call of a tool takes as long as what may be cancelled: lines alone.
    pub(super) busy: bool,
    /// Changes what is heard.
    pub(super) hear: Arc<dyn Fn(String) -> String + Send + Sync>,
    /// Changes what is said to a request: nothing, a message, or several.
    pub(super) say: Arc<Say>,
    /// What is said to a notification.
    pub(super) told: Arc<Told>,
    /// Changes the head of a request. `body` is that of the request.
    pub(super) before: Arc<Before>,
    /// Answers in place of the server.
    pub(super) instead: Arc<Instead>,
    /// Changes a whole response. The first argument is the head of the request.
    pub(super) after: Arc<After>,
    /// Changes the head of a stream.
    pub(super) head: Arc<dyn Fn(&mut HeaderMap) + Send + Sync>,
    /// Changes what comes on a stream.
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
            busy: false,
            hear: Arc::new(|line| line),
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

/// A fault of the legacy era: over lines and over HTTP, unless that is said.
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

    /// Looked at in both eras.
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

    /// The results of a method are changed.
    pub(super) fn edit(
        self,
        method: &'static str,
        change: impl Fn(&mut Value) + Send + Sync + 'static,
    ) -> Self {
        self.say(move |heard, reply| {
            if heard.method != method || !reply.contains("\"result\"") {
                return vec![reply.into()];
            }
            vec![edited(&reply, |reply| change(&mut reply["result"])).into()]
        })
    }

    pub(super) fn change(mut self, change: impl FnOnce(&mut Fault)) -> Self {
        change(&mut self.fault);
        self
    }

    pub(super) fn hear(self, hear: impl Fn(String) -> String + Send + Sync + 'static) -> Self {
        self.change(|it| it.hear = Arc::new(hear))
    }

    pub(super) fn say(self, say: impl Fn(&Heard, String) -> Vec<Said> + Send + Sync + 'static) -> Self {
        self.change(|it| it.say = Arc::new(say))
    }

    /// The first answer to a method is changed.
    pub(super) fn answer(
        self,
        method: &'static str,
        change: impl Fn(String) -> String + Send + Sync + 'static,
    ) -> Self {
        self.say(move |heard, reply| {
            let here = heard.method == method && heard.nth == 0;
            vec![if here { change(reply).into() } else { reply.into() }]
        })
    }

    /// Every answer is changed.
    pub(super) fn answers(self, change: impl Fn(String) -> String + Send + Sync + 'static) -> Self {
        self.say(move |_, reply| vec![change(reply).into()])
    }

    /// The first answer to a method has this in place of that, everywhere.
    pub(super) fn swap(self, method: &'static str, one: &'static str, other: &'static str) -> Self {
        self.answer(method, move |reply| reply.replace(one, other))
    }

    /// The first answer to a method is this error.
    pub(super) fn refuse(self, method: &'static str, code: i64) -> Self {
        self.answer(method, move |reply| error(&reply, code))
    }

    /// These messages come before the first answer to a method.
    pub(super) fn ahead(self, method: &'static str, messages: &'static [&'static str]) -> Self {
        self.say(move |heard, reply| {
            let here = heard.method == method && heard.nth == 0;
            let ahead = messages.iter().filter(|_| here).map(|message| message.as_bytes().to_vec());
            ahead.chain([reply.into()]).collect()
        })
    }

    /// What these requests ask stays without an answer.
    pub(super) fn silent(self, of: impl Fn(&Heard) -> bool + Send + Sync + 'static) -> Self {
        self.say(move |heard, reply| if of(heard) { Vec::new() } else { vec![reply.into()] })
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

    /// The same for what comes on a stream where there is one.
    pub(super) fn on_streams(self, frame: impl Fn(String) -> String + Send + Sync + 'static) -> Self {
        self.change(|it| it.frame = Arc::new(frame))
    }
}

impl Talk {
    /// Something is said to the server.
    pub(super) fn hears(&mut self, line: &str) -> Heard {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let count = self.counts.entry(method.clone()).or_default();
        let nth = *count;
        *count += 1;
        let heard = Heard {
            line: line.into(),
            method,
            // Of an array, the first of them.
            id: message.get("id").or_else(|| message[0].get("id")).map(Value::to_string).unwrap_or_default(),
            nth,
            before: self.heard.last().map(|heard| heard.line.clone()).unwrap_or_default(),
        };
        self.heard.push(heard.clone());
        heard
    }

    /// What a message of the server answers: the last thing that was said, where its id does not tell.
    pub(super) fn answered(&self, reply: &str) -> Heard {
        let message: Value = serde_json::from_str(reply).unwrap_or_default();
        let id = message.get("id").map(Value::to_string).unwrap_or_default();
        let known = self.heard.iter().rev().find(|heard| heard.id == id && !id.is_empty());
        known.or_else(|| self.heard.last()).cloned().unwrap_or_default()
    }
}

/// The list of tools with the first of them alone: nobody looks at the others, and reading them is most of the work.
pub(super) fn fewer(mut reply: String) -> String {
    if let Some(end) = reply.find(",{\"name\":\"test_error_handling\"")
        && reply.ends_with("]}}")
    {
        reply.truncate(end);
        reply.push_str("]}}");
    }
    reply
}

/// A message with something in it changed.
pub(super) fn edited(message: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut value: Value = serde_json::from_str(message).unwrap();
    change(&mut value);
    value.to_string()
}

/// An error in place of an answer.
pub(super) fn error(reply: &str, code: i64) -> String {
    edited(reply, |reply| {
        reply.as_object_mut().unwrap().remove("result");
        reply["error"] = serde_json::json!({ "code": code, "message": "not today" });
    })
}
