//! One connection to a server, with its session if the mode has sessions.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use serde_json::Value;

use super::Mode;
use super::reply::Reply;
use crate::messages::{HEAD, INITIALIZE, INITIALIZED, modern_tail, tail};

/// The number of digits of every id, so that the length of a call never changes.
const DIGITS: usize = 10;
/// The time limit of a response in the handshake: more than any response may take.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) struct Connection {
    socket: TcpStream,
    address: SocketAddr,
    mode: Mode,
    pub(super) session: Option<String>,
    /// The parts of a call before and after its id.
    head: Vec<u8>,
    tail: Vec<u8>,
    /// The current call: its bytes before the shared tail, and how much of both together has been written.
    out: Vec<u8>,
    written: usize,
    pub(super) id: u64,
    pub(super) sent: Instant,
    reply: Reply,
}

impl Connection {
    /// Connects, and opens a session if the mode has sessions.
    pub(super) fn open(address: SocketAddr, mode: Mode) -> Result<Self, String> {
        let socket = TcpStream::connect(address).map_err(|error| error.to_string())?;
        let options = socket.set_nodelay(true).and_then(|()| socket.set_read_timeout(Some(PATIENCE)));
        options.map_err(|error| error.to_string())?;
        let mut connection = Self {
            socket,
            address,
            mode,
            session: None,
            head: Vec::new(),
            tail: Vec::new(),
            out: Vec::new(),
            written: 0,
            id: 0,
            sent: Instant::now(),
            reply: Reply::default(),
        };
        if mode == Mode::Stateful {
            connection.open_session()?;
        }
        Ok(connection)
    }

    /// Does the handshake of 2025-11-25.
    pub(super) fn open_session(&mut self) -> Result<(), String> {
        self.session = None;
        self.reply.session = None;
        self.exchange(&request(self.address, INITIALIZE.len(), ""), INITIALIZE)?;
        let answer: Value = serde_json::from_slice(self.message()?).map_err(|error| error.to_string())?;
        if answer["result"]["protocolVersion"] != "2025-11-25" {
            return Err(format!("initialize: {answer}"));
        }
        self.session = self.reply.session.take();
        let headers = self.headers();
        self.exchange(&request(self.address, INITIALIZED.len(), &headers), INITIALIZED)?;
        if self.reply.status >= 300 {
            return Err(format!("initialized: HTTP {}", self.reply.status));
        }
        Ok(())
    }

    /// Ends the session, like a client that does not need it any more.
    pub(super) fn close_session(&mut self) -> Result<(), String> {
        let head = format!("DELETE /mcp HTTP/1.1\r\nHost: {}\r\n{}\r\n", self.address, self.headers());
        self.exchange(head.as_bytes(), "")
    }

    /// The headers of all requests after the handshake.
    pub(super) fn headers(&self) -> String {
        match (self.mode, &self.session) {
            (Mode::Stateful, Some(session)) => {
                format!("MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {session}\r\n")
            }
            (Mode::Stateful, None) => "MCP-Protocol-Version: 2025-11-25\r\n".into(),
            (Mode::Stateless, _) => {
                "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n".into()
            }
        }
    }

    /// Prepares the constant parts of the calls.
    pub(super) fn prepare(&mut self, text: &str) -> Result<(), String> {
        self.tail = if self.mode == Mode::Stateful { tail(text) } else { modern_tail(text) };
        let length = HEAD.len() + DIGITS + self.tail.len();
        self.head = request(self.address, length, &self.headers());
        self.head.extend_from_slice(HEAD);
        self.socket.set_nonblocking(true).map_err(|error| error.to_string())
    }

    /// The events to poll for.
    pub(super) fn interest(&self) -> PollFd<'_> {
        let out = self.written < self.out.len() + self.tail.len();
        PollFd::new(&self.socket, if out { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN })
    }

    /// Makes the next call.
    pub(super) fn call(&mut self, number: u64) -> Result<(), String> {
        self.id = number + 10_u64.pow(DIGITS as u32 - 1);
        self.out.clear();
        self.out.extend_from_slice(&self.head);
        self.out.extend_from_slice(self.id.to_string().as_bytes());
        self.written = 0;
        self.reply.clear();
        self.sent = Instant::now();
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
        loop {
            match self.socket.read(&mut piece) {
                Ok(0) => return Err("the server has closed a connection".into()),
                Ok(count) => self.reply.buffer.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.to_string()),
            }
            if self.reply.advance()? {
                return Ok(true);
            }
        }
    }

    /// The message in the complete reply.
    pub(super) fn message(&self) -> Result<&[u8], String> {
        match self.reply.status {
            200 => Ok(self.reply.message()),
            status => {
                let body = &self.reply.body[..self.reply.body.len().min(300)];
                Err(format!("HTTP {status}: {}", String::from_utf8_lossy(body)))
            }
        }
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
}

fn request(address: SocketAddr, length: usize, headers: &str) -> Vec<u8> {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {length}\r\n{headers}\r\n"
    )
    .into_bytes()
}
