//! A trace: the messages between us and a peer, in order and with times, and how the connection ended. Over HTTP, each line
//! belongs to an exchange, which [`What::Requested`] and the events after it describe.
//!
//! Recorded by the program that talks to the peer, and read by the rules. A line keeps its bytes beside the decoded
//! message.

mod probe;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use mcpjoin_proto::codec::sse;
use mcpjoin_proto::decode::{Decoded, decode};
use mcpjoin_proto::session::ProcessExit;
use mcpjoin_proto::{DecodeError, DecodeLimits, Message, Request, Response, Version};

pub use probe::Probe;

use crate::exchange::{BodyEnd, HttpRequest, HttpResponse};
use crate::revisions::Revisions;
use crate::rule::{Evidence, Finding};

/// Everything that was recorded of one server or client.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The runs: each is one process from its start to its end, or one session with a server that is already running.
    pub runs: Vec<Run>,
    /// Runs under stress: checked by the chapter of resilience alone. Empty if no stress was requested.
    pub stress: Vec<Run>,
    /// Requests without a token, and the documents of authorization: checked by the chapter of authorization alone. `None`
    /// if the server requires no token.
    pub authorization: Option<Run>,
    /// The longest time that a response may take. Default: 10 s.
    pub respond_within: Duration,
    /// Whether the requests had credentials: ids that only their owner can use need not be unguessable then.
    pub credentials: bool,
    /// Notes on requested calls that could not show what they were meant to show.
    pub calls: Vec<CallWarning>,
}

/// A call that was requested by name and cannot show what it was meant to show.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallWarning {
    /// The tool, as the user named it.
    pub tool: Box<str>,
    /// The revision of the session in which it was, or would have been, called.
    pub version: Version,
    /// The problem.
    pub problem: CallWarningKind,
}

/// The problem of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallWarningKind {
    /// The server declares no tools: it was not called.
    NoTools,
    /// The server does not list it; it was called nevertheless.
    NotListed,
    /// Its arguments do not conform to the tool's `inputSchema`, for this reason; it was called nevertheless, and the
    /// server may refuse it.
    Arguments(String),
}

impl CallWarning {
    /// A note on the call of a tool in a session of that revision.
    #[must_use]
    pub fn new(tool: &str, version: Version, problem: CallWarningKind) -> Self {
        Self { tool: tool.into(), version, problem }
    }
}

impl fmt::Display for CallWarningKind {
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
            respond_within: Duration::from_secs(10),
            credentials: false,
            calls: Vec::new(),
        }
    }
}

/// The transport of a run.
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

/// One process of the server, from its start to its end; over HTTP, one session or the attempt to open one.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its purpose, in a few words.
    pub name: Box<str>,
    /// The negotiated revision, or the requested one if negotiation failed: its rules are applied. No rule applies to an
    /// unknown revision.
    pub version: Version,
    /// The transport: rules about one transport apply to no other.
    pub channel: Channel,
    /// The events, in order.
    pub events: Vec<Event>,
}

/// One event of a run.
#[derive(Clone, Debug)]
pub struct Event {
    /// The time since the process, or the run, was started.
    pub at: Duration,
    /// The number of its HTTP exchange, counted in each run; `None` without HTTP.
    pub exchange: Option<u32>,
    /// What happened.
    pub what: What,
}

/// The kinds of events.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum What {
    /// We sent a line as this probe: recorded when its end is sent.
    Sent(Probe, Line),
    /// The peer sent a line.
    Received(Line),
    /// We closed the server's standard input.
    InputClosed,
    /// We sent its process this signal.
    Signalled(i32),
    /// The server closed its standard output.
    OutputEnded,
    /// The process has ended.
    Ended(Ended),
    /// An HTTP request, as this probe if it is ours. The message in its body, if any, is the next event.
    Requested(Probe, HttpRequest),
    /// The head of the response.
    Responded(HttpResponse),
    /// An event of a stream. The message in it, if any, is the next event.
    Streamed(sse::Event),
    /// The `retry` field of a stream.
    Retry(Duration),
    /// The beginning of a response body that is not read as a message.
    Body(Bytes),
    /// The response ended, or will not come.
    BodyEnded(BodyEnd),
}

/// How a process ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// The exit status; `None` if it is not known.
    pub exit: Option<ProcessExit>,
    /// Whether we killed it after its time to exit.
    pub forced: bool,
}

/// A line without its line feed.
#[derive(Clone, Debug)]
pub struct Line {
    bytes: Bytes,
    decoded: Result<Decoded, DecodeError>,
}

impl Line {
    /// Decodes a line, given without its line feed.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let decoded = decode(&bytes, &DecodeLimits::default());
        Self { bytes, decoded }
    }

    /// The beginning of a line above the size limit, with the error.
    #[must_use]
    pub fn too_long(head: impl Into<Bytes>, error: DecodeError) -> Self {
        Self { bytes: head.into(), decoded: Err(error) }
    }

    /// The bytes.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The messages in it, or the reason why a part is none.
    pub fn parts(&self) -> impl Iterator<Item = Result<&Message, &DecodeError>> {
        let (one, many) = match &self.decoded {
            Ok(Decoded::Message(message)) => (Some(Ok(message)), &[][..]),
            Ok(Decoded::Batch(parts)) => (None, parts.as_slice()),
            Err(error) => (Some(Err(error)), &[][..]),
        };
        one.into_iter().chain(many.iter().map(|part| part.as_ref()))
    }

    /// The messages in it.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &Message> {
        self.parts().filter_map(Result::ok)
    }

    /// The requests in it.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &Request> {
        self.messages().filter_map(|message| match message {
            Message::Request(request) => Some(request),
            _ => None,
        })
    }

    /// Whether it is an array.
    #[must_use]
    pub fn is_array(&self) -> bool {
        self.bytes.trim_ascii_start().first() == Some(&b'[')
    }
}

impl Run {
    /// An empty run.
    #[must_use]
    pub fn new(name: &str, version: Version) -> Self {
        Self { name: name.into(), version, channel: Channel::Stdio, events: Vec::new() }
    }

    /// The same run over another transport.
    #[must_use]
    pub const fn over(mut self, channel: Channel) -> Self {
        self.channel = channel;
        self
    }

    /// Records an event at that time since the start.
    pub fn note(&mut self, at: Duration, what: What) {
        self.events.push(Event { at, exchange: None, what });
    }

    /// Records an event of an HTTP exchange.
    pub fn note_in(&mut self, exchange: u32, at: Duration, what: What) {
        self.events.push(Event { at, exchange: Some(exchange), what });
    }

    /// Records a sent line, at the time of the last event.
    pub fn sent(&mut self, probe: Probe, line: impl Into<Bytes>) {
        self.note(self.last(), What::Sent(probe, Line::new(line)));
    }

    /// Records a received line, at the time of the last event.
    pub fn received(&mut self, line: impl Into<Bytes>) {
        self.note(self.last(), What::Received(Line::new(line)));
    }

    /// The requests that were sent as this probe, each with its response.
    pub fn asked(&self, probe: Probe) -> impl Iterator<Item = (&Request, Option<&Response>)> {
        let sent = self.events.iter().filter_map(move |event| match &event.what {
            What::Sent(purpose, line) if *purpose == probe => Some(line),
            _ => None,
        });
        sent.flat_map(Line::requests).map(|request| (request, self.response_to(request)))
    }

    fn response_to(&self, request: &Request) -> Option<&Response> {
        self.received_lines().flat_map(Line::messages).find_map(|message| match message {
            Message::Response(response) if response.id.as_ref() == Some(&request.id) => Some(response),
            _ => None,
        })
    }

    /// The lines of the peer.
    pub(crate) fn received_lines(&self) -> impl Iterator<Item = &Line> {
        self.events.iter().filter_map(Event::received_line)
    }

    /// Whether it is of the era with `initialize`.
    pub(crate) fn is_legacy(&self) -> bool {
        Revisions::LEGACY.contains(&self.version)
    }

    /// Whether it is of the era without sessions.
    pub(crate) fn is_modern(&self) -> bool {
        Revisions::MODERN.contains(&self.version)
    }

    pub(crate) fn is_http(&self) -> bool {
        self.channel == Channel::StreamableHttp
    }

    fn last(&self) -> Duration {
        self.events.last().map_or(Duration::ZERO, |event| event.at)
    }
}

impl Event {
    /// The line of the peer.
    pub(crate) const fn received_line(&self) -> Option<&Line> {
        match &self.what {
            What::Received(line) => Some(line),
            _ => None,
        }
    }
}

impl Evidence for Line {
    fn finding(&self, problem: impl fmt::Display) -> Finding {
        Finding::new(problem, None, Some(&self.bytes))
    }
}
