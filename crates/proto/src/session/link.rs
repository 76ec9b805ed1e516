//! What a link and a session say to each other.
//!
//! A link is whatever moves messages: a pipe, a socket, an HTTP exchange, a queue in memory. It hands
//! [`Inbound`] to the session and takes [`Outbound`] from it. Where a message must go is part of the envelope
//! ([`Route`]), because in the modern era a notification belongs to a request and HTTP has a stream per request:
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports>.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use crate::text::Line;
use crate::{DecodeError, Message, RequestId};

/// What can be done over a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCaps {
    /// Each request has an exchange of its own, which can be closed alone ([`Outbound::Abort`]): HTTP. On a
    /// stream everything shares one channel and cancelling is a notification.
    pub exchanges: bool,
    /// The far end can be made afresh ([`Event::Reopen`](super::Event::Reopen)): a child process.
    pub reopens: bool,
    /// The far end is a server that was connected to, a socket: what it writes there, it writes for us. On the standard output
    /// of a child a line of something else may stand before the first message.
    pub remote: bool,
}

/// From where a message came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The kind of link: `stdio`, `child`, `memory`, `tcp` ...
    pub link: &'static str,
    /// The far end, as far as the link knows it: a command, an address.
    pub peer: Option<Box<str>>,
    /// In whose name it was said, where that is proved: what the link's owner made of the message's credentials.
    pub principal: Option<Box<str>>,
    /// What may be done in that name, where that is proved: the scopes of the message's credentials, and what these
    /// imply. `None` where nobody has asked.
    pub scopes: Option<Arc<[Box<str>]>>,
}

impl Origin {
    /// Over a kind of link; nothing else is known.
    #[must_use]
    pub const fn new(link: &'static str) -> Self {
        Self { link, peer: None, principal: None, scopes: None }
    }
}

/// From the link to the session.
#[derive(Debug)]
pub enum Inbound {
    /// A message.
    Message {
        /// What was said.
        message: Message,
        /// By whom.
        origin: Arc<Origin>,
    },
    /// An array of messages. Whether that is allowed, the session knows.
    Batch {
        /// The messages in their order, or why one is none.
        parts: Vec<Result<Message, DecodeError>>,
        /// The link's number for the exchange that the array came on, where it has several: the answer has the same.
        exchange: Option<u64>,
        /// By whom.
        origin: Arc<Origin>,
    },
    /// Something that is no message.
    Malformed {
        /// Why, with the id where one could be read.
        error: DecodeError,
        /// How it begins: at most the first 200 bytes.
        excerpt: Bytes,
        /// By whom.
        origin: Arc<Origin>,
    },
    /// The bytes began with a byte order mark. It has been dropped; what follows is read as usual.
    ByteOrderMark,
    /// The stream that owed the reply to one of our requests ended without it. That call fails, no other.
    Lost {
        /// Our request.
        id: RequestId,
        /// Why.
        cause: LinkError,
    },
    /// The peer has left the exchange of one of its requests: in the modern era that cancels it, in the legacy
    /// era it does not.
    Detached {
        /// The peer's request.
        id: RequestId,
    },
    /// Nothing more will come: always the last, after everything that could still be read.
    Closed {
        /// Why.
        cause: LinkEnd,
    },
}

impl Inbound {
    /// The bytes that its messages carry, as [`Message::payload_len`] counts them. What is no message keeps 200 at most.
    #[must_use]
    pub fn payload_len(&self) -> usize {
        match self {
            Self::Message { message, .. } => message.payload_len(),
            Self::Batch { parts, .. } => parts.iter().flatten().map(Message::payload_len).sum(),
            _ => 0,
        }
    }
}

/// From the session to the link.
#[derive(Clone, Debug, PartialEq)]
pub enum Outbound {
    /// A message to send.
    Message {
        /// What to say.
        message: Message,
        /// Where it goes.
        route: Route,
    },
    /// Messages to send as one array: 2025-03-26 alone, and only in answer to one.
    Batch {
        /// The messages.
        messages: Vec<Message>,
        /// That of the [`Inbound::Batch`] which this answers.
        exchange: Option<u64>,
    },
    /// Close the exchange of one of our requests: on HTTP in the modern era, that is how to cancel.
    Abort {
        /// Our request.
        id: RequestId,
    },
    /// Close the stream of a request of the peer, so that the peer comes back for what is still to be sent on it: a
    /// server may do so in 2025-11-25. The request goes on. Only a link that loses nothing by it does so: HTTP, where
    /// events are kept. For every other link this is nothing.
    CloseStream {
        /// The peer's request.
        id: RequestId,
    },
}

/// Where a message goes on a link that has more than one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// To the peer, on no stream in particular.
    Session,
    /// On the stream of a request of the peer, which is still open.
    ReplyTo(RequestId),
}

/// Why a link has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEnd {
    /// What happened.
    pub kind: LinkEndKind,
    /// How the process at the far end has ended, where there is one.
    pub exit: Option<ProcessExit>,
    /// The last lines that the far end wrote to its standard error, where there is one: at most 64 KiB.
    pub stderr: Bytes,
}

/// The ways for a link to end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkEndKind {
    /// The far end has closed its side in an orderly way.
    EndOfStream,
    /// The far end has closed its side in the middle of a message: it has crashed, or the connection was cut.
    CutOff {
        /// So many bytes of the message have come.
        received: usize,
    },
    /// Reading or writing has failed.
    Failed(LinkError),
}

/// How a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessExit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// A failure of a link to read or to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LinkError {
    /// What it is about.
    pub kind: LinkErrorKind,
    /// What the system said.
    pub message: String,
    /// Whether the same thing may succeed when tried again on a new link.
    pub retryable: bool,
}

/// What a failure of a link is about, for whoever wants to say what can be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkErrorKind {
    /// Reading or writing has failed, or what came was not what had to come.
    #[default]
    Broken,
    /// Nobody was reached.
    Unreached,
    /// The far end is not who it says it is, or we do not trust whoever says so: TLS.
    Untrusted,
    /// The far end wants to know who asks, or does not let us in.
    Unauthorized,
    /// Whoever answers speaks something else than MCP.
    Foreign,
}

impl LinkError {
    /// Reading or writing has failed.
    #[must_use]
    pub fn new(message: impl Into<String>, retryable: bool) -> Self {
        Self { kind: LinkErrorKind::Broken, message: message.into(), retryable }
    }

    /// The same, about something else.
    #[must_use]
    pub fn of(self, kind: LinkErrorKind) -> Self {
        Self { kind, ..self }
    }
}

impl LinkEndKind {
    /// Whether the far end has closed its side itself, whatever it has left unfinished.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self, Self::EndOfStream | Self::CutOff { .. })
    }
}

impl LinkEnd {
    /// The far end has closed its side, and that is all that is known.
    #[must_use]
    pub const fn end_of_stream() -> Self {
        Self { kind: LinkEndKind::EndOfStream, exit: None, stderr: Bytes::new() }
    }

    /// Reading or writing has failed.
    #[must_use]
    pub const fn failed(error: LinkError) -> Self {
        Self { kind: LinkEndKind::Failed(error), exit: None, stderr: Bytes::new() }
    }
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// One line: what ended, the exit status, the last line of standard error.
impl fmt::Display for LinkEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.kind, &self.exit) {
            (LinkEndKind::Failed(error), _) => write!(f, "the link failed: {error}")?,
            (LinkEndKind::CutOff { received }, exit) => {
                let ended =
                    if exit.is_some() { "the server ended" } else { "the peer closed the connection" };
                write!(f, "{ended} in the middle of a message, after {received} bytes of it")?;
            }
            (LinkEndKind::EndOfStream, Some(_)) => f.write_str("the server ended")?,
            (LinkEndKind::EndOfStream, None) => f.write_str("the peer closed the connection")?,
        }
        if let Some(exit) = &self.exit {
            write!(f, " ({exit})")?;
        }
        let text = String::from_utf8_lossy(&self.stderr);
        if let Some(line) = text.lines().rev().find(|line| !line.trim().is_empty()) {
            write!(f, "; its last line on stderr: {}", Line::of(line.trim()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;

    #[test]
    fn the_last_line_of_stderr_stays_readable_and_obeys_no_terminal() {
        let mut end = LinkEnd::end_of_stream();
        end.exit = Some(ProcessExit::Code(3));
        let said = "first\n{\"level\":\"error\",\"path\":\"C:\\\\x\",\"it's\":1}\u{1b}[2J\u{7}\u{202e}\n \n";
        end.stderr = Bytes::from_static(said.as_bytes());
        assert_eq!(
            end.to_string(),
            r#"the server ended (exit code 3); its last line on stderr: {"level":"error","path":"C:\\x","it's":1}\u{1b}[2J\u{7}\u{202e}"#
        );
    }
}
