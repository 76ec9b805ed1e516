//! The stream of events of one session, over the transport of 2024-11-05 (HTTP with server-sent events).
//!
//! Its first event names the path for messages; all answers come on it.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use serde_json::Value;

use super::reply::Reply;
use super::{Endpoint, Mode};

/// The longest stream of events that is kept until an event is complete, in bytes.
const LONGEST: usize = 64 << 20;

pub(crate) struct Events {
    socket: TcpStream,
    reply: Reply,
}

impl Events {
    /// Opens the stream; returns it with the endpoint for messages. No event may take longer than `patience`.
    pub(crate) fn open(endpoint: &Endpoint, patience: Duration) -> Result<(Self, Endpoint), String> {
        let Endpoint { address, path, .. } = endpoint;
        let mut socket = TcpStream::connect(address).map_err(|error| error.to_string())?;
        socket.set_read_timeout(Some(patience)).map_err(|error| error.to_string())?;
        let get = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n\r\n");
        socket.write_all(get.as_bytes()).map_err(|error| error.to_string())?;
        let mut events = Self { socket, reply: Reply::default() };
        let first = events.next()?.ok_or("no event within the limit")?;
        if events.reply.status != 200 {
            return Err(format!("HTTP {}", events.reply.status));
        }
        let path = String::from_utf8(first).map_err(|error| error.to_string())?;
        Ok((events, Endpoint { path, mode: Mode::Events, ..endpoint.clone() }))
    }

    /// Events that have come are returned at once from now on, and nothing is waited for.
    pub(crate) fn never_wait(&self) -> Result<(), String> {
        self.socket.set_nonblocking(true).map_err(|error| error.to_string())
    }

    /// The data of the next event; none when the wait has ended.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        let mut piece = [0; 64 * 1024];
        loop {
            let is_whole = self.reply.advance()?;
            if let Some(event) = self.reply.take_event() {
                let mut data =
                    event.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
                match data.next() {
                    Some(data) => return Ok(Some(data.trim_ascii().to_vec())),
                    None => continue,
                }
            }
            if is_whole {
                let body = String::from_utf8_lossy(&self.reply.body);
                return Err(format!("the stream has ended: HTTP {}: {body}", self.reply.status));
            }
            if self.reply.buffer.len() > LONGEST {
                return Err("an event is longer than 64 MiB".into());
            }
            match self.socket.read(&mut piece) {
                Ok(0) => return Err("the server has closed the stream".into()),
                Ok(count) => self.reply.buffer.extend_from_slice(&piece[..count]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Ok(None);
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// The answer to the request with this id; others before it are ignored.
    pub(crate) fn answer(&mut self, id: u64) -> Result<Value, String> {
        while let Some(event) = self.next()? {
            let message: Value = serde_json::from_slice(&event).map_err(|error| error.to_string())?;
            if message["id"] == id && message.get("method").is_none() {
                return Ok(message);
            }
        }
        Err("no answer within the limit".into())
    }

    /// The events to poll for.
    pub(super) fn interest(&self) -> PollFd<'_> {
        PollFd::new(&self.socket, PollFlags::IN)
    }
}
