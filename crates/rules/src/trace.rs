//! A trace: what crossed between us and a peer, in its order, with times, and how it ended. Over HTTP, each line belongs
//! to an exchange, which [`What::Requested`] and the events after it describe.
//!
//! Recorded by the program that talks to the peer, and read by the rules. A line keeps its bytes beside the decoded
//! message.

mod probe;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use mcpjoin_proto::decode::{Decoded, decode};
use mcpjoin_proto::session::ProcessExit;
use mcpjoin_proto::{DecodeError, DecodeLimits, Message, Request, Response, Version};

pub use probe::Probe;

use crate::exchange::{BodyEnd, HttpRequest, HttpResponse, StreamEvent};

/// Everything that was seen of one server.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Its runs: each is one process from its start to its end, or what we asked of a server that runs already.
    pub runs: Vec<Run>,
    /// Runs in which it was put under stress: checked by the chapter of resilience, and by no other. Empty, if that was
    /// not asked for.
    pub stress: Vec<Run>,
    /// What was asked of it without a token, and the documents about those that it takes: checked by the chapter of
    /// authorization, and by no other. `None` where the server does not want any.
    pub authorization: Option<Run>,
    /// How long an answer may take: 10 s.
    pub answer_within: Duration,
    /// The requests may have let us in as somebody: what is only ours then may have any name.
    pub credentials: bool,
    /// What is to be said of calls that were asked for: such a call says less of a server than it seems to.
    pub calls: Vec<CallNote>,
}

/// A call that was asked for by name, and cannot show what it was meant to show.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallNote {
    /// The tool, as it was named.
    pub tool: Box<str>,
    /// The revision of the session in which it was called, or was to be.
    pub version: Version,
    /// What is the matter.
    pub problem: CallProblem,
}

/// What is the matter with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallProblem {
    /// The server declares no tools: it was not called.
    NoTools,
    /// The server does not list it: it was called all the same.
    NotListed,
    /// Its arguments do not conform to the tool's `inputSchema`, for this reason: it was called all the same, and the
    /// server may refuse it.
    Arguments(String),
}

impl CallNote {
    /// What is the matter with the call of a tool in a session by that revision.
    #[must_use]
    pub fn new(tool: &str, version: Version, problem: CallProblem) -> Self {
        Self { tool: tool.into(), version, problem }
    }
}

impl fmt::Display for CallProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTools => f.write_str("the server has no tools"),
            Self::NotListed => f.write_str("the server does not list it"),
            Self::Arguments(why) => write!(f, "its arguments do not conform to its inputSchema: {why}"),
        }
    }
}

impl Default for Trace {
    fn default() -> Self {
        Self {
            runs: Vec::new(),
            stress: Vec::new(),
            authorization: None,
            answer_within: Duration::from_secs(10),
            credentials: false,
            calls: Vec::new(),
        }
    }
}

/// By what messages are carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Channel {
    /// The standard input and output of a process.
    #[default]
    Stdio,
    /// Streamable HTTP, in either era.
    StreamableHttp,
    /// The HTTP+SSE of 2024-11-05.
    HttpSse,
}

/// One process of the server, from its start to its end; over HTTP, one session, or what came instead of one.
#[derive(Clone, Debug)]
pub struct Run {
    /// What it was for, in a few words.
    pub name: Box<str>,
    /// The revision that was agreed on, or asked for where nothing was: by this one the run is checked. A run by a
    /// revision that is not known is checked by no rule.
    pub version: Version,
    /// By what it was carried: rules of one transport judge no other.
    pub channel: Channel,
    /// What happened, in its order.
    pub events: Vec<Event>,
}

/// Something that happened, and when.
#[derive(Clone, Debug)]
pub struct Event {
    /// The time since the process, or the run, was started.
    pub at: Duration,
    /// The number of the HTTP exchange that it belongs to, counted in each run; `None` without HTTP.
    pub exchange: Option<u32>,
    /// What happened.
    pub what: What,
}

/// What can happen.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum What {
    /// We sent a line, for this purpose: noted when its end is sent.
    Sent(Probe, Line),
    /// The server sent a line.
    Received(Line),
    /// We closed the server's standard input.
    InputClosed,
    /// We sent its process this signal.
    Signalled(i32),
    /// The server's standard output has ended.
    OutputEnded,
    /// The process has ended.
    Ended(Ended),
    /// We made an HTTP request, for this purpose. The message in its body, if there is one, is [`What::Sent`] next.
    Requested(Probe, HttpRequest),
    /// The head of the response has come.
    Responded(HttpResponse),
    /// An event of a stream has come. The message in it, if there is one, is [`What::Received`] next.
    Streamed(StreamEvent),
    /// A stream has said how long to wait before it is asked for again.
    Retry(Duration),
    /// A body has come that is not to be taken for a message: its beginning.
    Body(Bytes),
    /// The response has ended, or will not come.
    BodyEnded(BodyEnd),
}

/// How a process has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Its status; `None` when it is not known.
    pub exit: Option<ProcessExit>,
    /// It did not end by itself: a signal of ours has ended it, after the time that it had.
    pub forced: bool,
}

/// A line without its end.
#[derive(Clone, Debug)]
pub struct Line {
    bytes: Bytes,
    decoded: Result<Decoded, DecodeError>,
}

impl Line {
    /// Reads a line: its bytes without the line feed.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let decoded = decode(&bytes, &DecodeLimits::default());
        Self { bytes, decoded }
    }

    /// A line of which no more than the beginning was kept, because it is longer than the limit, and what could be
    /// told of it.
    #[must_use]
    pub fn too_long(head: impl Into<Bytes>, error: DecodeError) -> Self {
        Self { bytes: head.into(), decoded: Err(error) }
    }

    /// The bytes.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The messages in it, or why one is none.
    pub fn parts(&self) -> impl Iterator<Item = Result<&Message, &DecodeError>> {
        let (one, many) = match &self.decoded {
            Ok(Decoded::Message(message)) => (Some(Ok(message)), &[][..]),
            Ok(Decoded::Batch(parts)) => (None, parts.as_slice()),
            Err(error) => (Some(Err(error)), &[][..]),
        };
        one.into_iter().chain(many.iter().map(|part| part.as_ref()))
    }

    /// Whether it is an array.
    #[must_use]
    pub fn is_array(&self) -> bool {
        self.bytes.trim_ascii_start().first() == Some(&b'[')
    }
}

impl Run {
    /// A run in which nothing has happened yet.
    #[must_use]
    pub fn new(name: &str, version: Version) -> Self {
        Self { name: name.into(), version, channel: Channel::Stdio, events: Vec::new() }
    }

    /// The same, carried by something else.
    #[must_use]
    pub const fn over(mut self, channel: Channel) -> Self {
        self.channel = channel;
        self
    }

    /// Notes something that happens now, at that time since the start.
    pub fn note(&mut self, at: Duration, what: What) {
        self.events.push(Event { at, exchange: None, what });
    }

    /// Notes something that happens in an HTTP exchange.
    pub fn note_in(&mut self, exchange: u32, at: Duration, what: What) {
        self.events.push(Event { at, exchange: Some(exchange), what });
    }

    /// Notes a line that was sent, at the time of what was noted last.
    pub fn sent(&mut self, probe: Probe, line: impl Into<Bytes>) {
        self.note(self.last(), What::Sent(probe, Line::new(line)));
    }

    /// Notes a line that has come, at the time of what was noted last.
    pub fn received(&mut self, line: impl Into<Bytes>) {
        self.note(self.last(), What::Received(Line::new(line)));
    }

    /// The requests that were sent for this purpose, each with the response that came to it, where one did.
    pub fn asked(&self, probe: Probe) -> impl Iterator<Item = (&Request, Option<&Response>)> {
        let sent = self.events.iter().filter_map(move |event| match &event.what {
            What::Sent(purpose, line) if *purpose == probe => Some(line),
            _ => None,
        });
        let requests = sent.flat_map(Line::parts).filter_map(|part| match part {
            Ok(Message::Request(request)) => Some(request),
            _ => None,
        });
        requests.map(|request| (request, self.response_to(request)))
    }

    fn response_to(&self, request: &Request) -> Option<&Response> {
        let received = self.events.iter().filter_map(|event| match &event.what {
            What::Received(line) => Some(line),
            _ => None,
        });
        received.flat_map(Line::parts).find_map(|part| match part {
            Ok(Message::Response(response)) if response.id.as_ref() == Some(&request.id) => Some(response),
            _ => None,
        })
    }

    fn last(&self) -> Duration {
        self.events.last().map_or(Duration::ZERO, |event| event.at)
    }
}
