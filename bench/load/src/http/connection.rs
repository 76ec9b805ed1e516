//! One connection to a server, with its session if the mode has sessions.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use serde_json::Value;

use super::reply::Reply;
use super::socket::Socket;
use super::{Endpoint, Mode};
use crate::messages::{HEAD, INITIALIZE, INITIALIZED, modern_tail, plain_tail, tail};

/// The number of digits of every id, so that the length of a call never changes.
const DIGITS: usize = 10;
/// The version that the generator asks for.
const VERSION: &str = "2025-11-25";
/// The headers of a POST that name types.
const TYPES: &str = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
/// The time limit of a response in the handshake: more than any response may take.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Connection {
    socket: Socket,
    pub(super) endpoint: Endpoint,
    pub(super) session: Option<String>,
    /// The version that the server chose.
    version: String,
    /// The parts of a call before and after its id.
    head: Vec<u8>,
    tail: Vec<u8>,
    /// Whether each call has a connection of its own.
    once: bool,
    /// The current call: its bytes before the shared tail, and how much of both together has been written.
    out: Vec<u8>,
    written: usize,
    pub(super) id: u64,
    pub(super) sent: Instant,
    reply: Reply,
    /// The answer to the call, when it comes on a stream of events.
    event: Option<Vec<u8>>,
}

impl Connection {
    /// Connects, and opens a session of 2025-11-25 if the mode has sessions.
    pub(super) fn open(endpoint: &Endpoint) -> Result<Self, String> {
        let mut connection = Self::connect(endpoint)?;
        if endpoint.mode == Mode::Stateful {
            connection.open_session()?;
        }
        Ok(connection)
    }

    /// Connects, and sends nothing.
    pub(crate) fn connect(endpoint: &Endpoint) -> Result<Self, String> {
        let socket = Socket::connect(endpoint.address, endpoint.tls.as_ref())?;
        socket.tcp.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
        Ok(Self {
            socket,
            endpoint: endpoint.clone(),
            session: None,
            version: VERSION.to_owned(),
            head: Vec::new(),
            tail: Vec::new(),
            once: false,
            out: Vec::new(),
            written: 0,
            id: 0,
            sent: Instant::now(),
            reply: Reply::default(),
            event: None,
        })
    }

    /// Another connection in the same session.
    pub(crate) fn beside(&self) -> Result<Self, String> {
        self.beside_at(&self.endpoint)
    }

    /// Another connection in the same session, to another process.
    pub(super) fn beside_at(&self, endpoint: &Endpoint) -> Result<Self, String> {
        let mut other = Self::connect(endpoint)?;
        other.session.clone_from(&self.session);
        other.version.clone_from(&self.version);
        Ok(other)
    }

    /// How long a response may take from now on.
    pub(crate) fn wait_at_most(&self, limit: Duration) -> Result<(), String> {
        self.socket.tcp.set_read_timeout(Some(limit)).map_err(|error| error.to_string())
    }

    /// Does the handshake of 2025-11-25.
    pub(super) fn open_session(&mut self) -> Result<(), String> {
        self.negotiate()?;
        if self.version != VERSION {
            return Err(format!("initialize: {}", self.version));
        }
        Ok(())
    }

    /// Does the handshake of 2025-11-25, or of the version that the server chooses.
    pub(crate) fn negotiate(&mut self) -> Result<(), String> {
        self.session = None;
        self.reply.session = None;
        VERSION.clone_into(&mut self.version);
        self.exchange(&self.post(INITIALIZE.len(), ""), INITIALIZE)?;
        let answer: Value = serde_json::from_slice(self.message()?).map_err(|error| error.to_string())?;
        let version = answer["result"]["protocolVersion"].as_str();
        version.ok_or_else(|| format!("initialize: {answer}"))?.clone_into(&mut self.version);
        self.session = self.reply.session.take();
        self.exchange(&self.post(INITIALIZED.len(), &self.headers()), INITIALIZED)?;
        if self.reply.status >= 300 {
            return Err(format!("initialized: HTTP {}", self.reply.status));
        }
        Ok(())
    }

    /// Sends a body and reads the response, while the socket is still blocking.
    pub(crate) fn post_body(&mut self, body: &str) -> Result<(), String> {
        self.exchange(&self.post(body.len(), &self.headers()), body)
    }

    /// The same with a request of 2026-07-28, whose headers repeat the method and the name of the tool.
    pub(crate) fn post_modern(&mut self, method: &str, tool: &str, body: &str) -> Result<(), String> {
        self.exchange(&self.post(body.len(), &modern_headers(method, tool)), body)
    }

    /// Reads a page, while the socket is still blocking.
    pub(crate) fn page(&mut self, path: &str) -> Result<(), String> {
        let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.endpoint.address);
        self.exchange(head.as_bytes(), "")
    }

    /// Ends the session, like a client that does not need it any more.
    pub(crate) fn close_session(&mut self) -> Result<(), String> {
        let Endpoint { address, path, .. } = &self.endpoint;
        let head = format!("DELETE {path} HTTP/1.1\r\nHost: {address}\r\n{}\r\n", self.headers());
        self.exchange(head.as_bytes(), "")
    }

    /// The headers of all requests after the handshake.
    pub(super) fn headers(&self) -> String {
        match (self.endpoint.mode, &self.session) {
            (Mode::Stateful, Some(session)) => {
                format!("MCP-Protocol-Version: {}\r\nMcp-Session-Id: {session}\r\n", self.version)
            }
            (Mode::Stateful, None) => format!("MCP-Protocol-Version: {}\r\n", self.version),
            (Mode::Stateless, _) => modern_headers("tools/call", &self.endpoint.tool),
            (Mode::Events | Mode::OpenApi, _) => String::new(),
        }
    }

    /// Prepares the constant parts of the calls. With `once`, each call has a connection of its own, which the server closes behind
    /// its reply, unless it says that it does not.
    pub(super) fn prepare(&mut self, text: &str, once: bool) -> Result<(), String> {
        self.tail = self.tail(text);
        let before = if self.has_ids() { HEAD.len() + DIGITS } else { 0 };
        let close = if once { "Connection: close\r\n" } else { "" };
        self.head = self.post(before + self.tail.len(), &(self.headers() + close));
        self.once = once;
        if self.has_ids() {
            self.head.extend_from_slice(HEAD);
        }
        self.socket.tcp.set_nonblocking(true).map_err(|error| error.to_string())
    }

    /// The bytes of a call behind its id.
    fn tail(&self, text: &str) -> Vec<u8> {
        let tool = &self.endpoint.tool;
        match self.endpoint.mode {
            Mode::Stateful | Mode::Events => tail(tool, text),
            Mode::Stateless => modern_tail(tool, text),
            Mode::OpenApi => plain_tail(text),
        }
    }

    /// The headers of a call, and its bytes before and behind its id, for a connection of another kind.
    pub(super) fn prepared(&self, text: &str) -> (Vec<(String, String)>, [Vec<u8>; 2]) {
        let fields = format!("{TYPES}{}", self.headers());
        let pair =
            |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
        (fields.split("\r\n").filter_map(pair).collect(), [HEAD.to_vec(), self.tail(text)])
    }

    /// Whether calls and replies have ids.
    pub(super) fn has_ids(&self) -> bool {
        self.endpoint.mode != Mode::OpenApi
    }

    /// The events to poll for.
    pub(super) fn interest(&self) -> PollFd<'_> {
        let out = self.written < self.out.len() + self.tail.len();
        PollFd::new(&self.socket.tcp, if out { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN })
    }

    /// Makes the next call.
    pub(super) fn call(&mut self, number: u64) -> Result<(), String> {
        self.id = number + 10_u64.pow(DIGITS as u32 - 1);
        self.out.clear();
        self.out.extend_from_slice(&self.head);
        if self.has_ids() {
            self.out.extend_from_slice(self.id.to_string().as_bytes());
        }
        self.written = 0;
        self.event = None;
        self.reply.clear();
        self.sent = Instant::now();
        if self.once {
            self.socket = Socket::connect(self.endpoint.address, self.endpoint.tls.as_ref())?;
            self.socket.tcp.set_nonblocking(true).map_err(|error| error.to_string())?;
        }
        self.write()
    }

    fn write(&mut self) -> Result<(), String> {
        while self.written < self.out.len() + self.tail.len() {
            let head = &self.out[self.written.min(self.out.len())..];
            let tail = &self.tail[self.written.saturating_sub(self.out.len())..];
            match self.socket.write_vectored(&[IoSlice::new(head), IoSlice::new(tail)]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(format!("the server takes no more calls: {error}")),
            }
        }
        Ok(())
    }

    /// Writes and reads as far as possible without blocking; true when the reply is complete.
    pub(super) fn turn(&mut self) -> Result<bool, String> {
        self.write()?;
        let mut piece = [0; 64 * 1024];
        while !self.reply.advance()? || (self.once && !self.reply.keeps) {
            match self.socket.read(&mut piece) {
                Ok(0) if self.once && self.reply.advance()? => break,
                Ok(0) => return Err("the server has closed a connection".into()),
                Ok(count) => self.reply.buffer.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(self.endpoint.mode != Mode::Events || self.event.is_some())
    }

    /// Takes the answer to the call from a stream of events.
    pub(super) fn deliver(&mut self, event: Vec<u8>) {
        self.event = Some(event);
    }

    /// The message in the complete reply.
    pub(crate) fn message(&self) -> Result<&[u8], String> {
        match (self.reply.status, &self.event) {
            (200 | 202, Some(event)) => Ok(event),
            (200, None) if self.endpoint.mode == Mode::OpenApi => Ok(&self.reply.body),
            (200, None) => Ok(self.reply.message()),
            (status, _) => {
                let body = &self.reply.body[..self.reply.body.len().min(300)];
                Err(format!("HTTP {status}: {}", String::from_utf8_lossy(body)))
            }
        }
    }

    /// The status and the body of the complete reply.
    pub(crate) fn reply(&self) -> (u16, &[u8]) {
        (self.reply.status, &self.reply.body)
    }

    /// One request and its response, while the socket is still blocking.
    fn exchange(&mut self, head: &[u8], body: &str) -> Result<(), String> {
        let sent = self.socket.write_all(&[head, body.as_bytes()].concat());
        sent.map_err(|error| error.to_string())?;
        self.reply.clear();
        let mut piece = [0; 16 * 1024];
        while !self.reply.advance()? {
            match self.socket.read(&mut piece) {
                Ok(0) => return Err("the server has closed the connection".into()),
                Ok(count) => self.reply.buffer.extend_from_slice(&piece[..count]),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// The head of a request with a body of this length.
    fn post(&self, length: usize, headers: &str) -> Vec<u8> {
        let Endpoint { address, path, .. } = &self.endpoint;
        format!("POST {path} HTTP/1.1\r\nHost: {address}\r\n{TYPES}Content-Length: {length}\r\n{headers}\r\n")
            .into_bytes()
    }
}

fn modern_headers(method: &str, tool: &str) -> String {
    let name = if tool.is_empty() { String::new() } else { format!("Mcp-Name: {tool}\r\n") };
    format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}")
}
