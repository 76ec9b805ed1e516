//! The interface between a link and a session.
//!
//! A link moves messages: a pipe, a socket, an HTTP exchange, a queue in memory. It hands [`Inbound`] items to the
//! session and takes [`Outbound`] items from it. Each message has a [`Route`], because in the modern era a notification
//! belongs to a request, and HTTP has a stream per request:
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports>.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;

use bytes::Bytes;

use crate::text::Line;
use crate::{DecodeError, ErrorObject, Message, RequestId};

/// The capabilities of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportCaps {
    /// Each request has its own exchange, which can be closed alone ([`Outbound::Abort`]): HTTP. Without it, all
    /// messages share one stream, and a notification cancels a request.
    pub exchanges: bool,
    /// The link can reconnect ([`Event::Reopen`](super::Event::Reopen)): a child process.
    pub reopens: bool,
    /// The peer is a server behind a socket, and only it writes to the connection. The standard output of a child
    /// process may have other lines before the first message.
    pub remote: bool,
    /// Requests have ids above this number. Not 0 where other links use the same session of the peer at the same time: there each
    /// link has a number of its own.
    pub requests_from: u32,
}

/// The origin of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The kind of link: `stdio`, `child`, `memory`, `tcp` ...
    pub link: &'static str,
    /// The peer, as far as the link knows it: a command, an address.
    pub peer: Option<Box<str>>,
    /// The authenticated principal, which the owner of the link derived from the credentials of the message.
    pub principal: Option<Box<str>>,
    /// The scopes of these credentials, with those that they imply. `None` when the message was not authenticated.
    pub scopes: Option<Arc<[Box<str>]>>,
    /// What else the link knows about the message, for handlers: over HTTP the head of its request.
    pub attachment: Option<Attachment>,
}

impl Origin {
    /// The origin on a link of this kind, with nothing else known.
    #[must_use]
    pub const fn new(link: &'static str) -> Self {
        Self { link, peer: None, principal: None, scopes: None, attachment: None }
    }
}

/// A value of the link that the session carries beside a message and does not read. Cheap to clone. It is equal only to its
/// own clones, and `Debug` does not show it, because it may contain credentials.
#[derive(Clone)]
pub struct Attachment(Arc<dyn Any + Send + Sync>);

impl Attachment {
    /// An attachment with this value.
    #[must_use]
    pub fn new<T: Any + Send + Sync>(value: Arc<T>) -> Self {
        Self(value)
    }

    /// The value, if it has this type.
    #[must_use]
    pub fn downcast_ref<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl PartialEq for Attachment {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Attachment {}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attachment")
    }
}

/// From the link to the session.
#[derive(Debug)]
pub enum Inbound {
    /// A message.
    Message {
        /// The message.
        message: Message,
        /// Its origin.
        origin: Arc<Origin>,
    },
    /// An array of messages. The session decides whether it is allowed.
    Batch {
        /// The messages in their order, each decoded or with its error.
        parts: Vec<Result<Message, DecodeError>>,
        /// The link's number of the exchange on which the array arrived, where it has several. The reply gets the same
        /// number.
        exchange: Option<u64>,
        /// Its origin.
        origin: Arc<Origin>,
    },
    /// Text that is not a message.
    Malformed {
        /// The error, with the id where one could be read.
        error: DecodeError,
        /// The start of the text: at most 200 bytes.
        excerpt: Bytes,
        /// Its origin.
        origin: Arc<Origin>,
    },
    /// The stream began with a byte order mark. It was dropped, and the rest is read as usual.
    ByteOrderMark,
    /// The stream of a request of ours ended without a response. Only that call fails.
    Lost {
        /// Our request.
        id: RequestId,
        /// The reason.
        cause: TransportError,
    },
    /// The peer closed the exchange of a request. This cancels the request in the modern era, and does not in the
    /// legacy era.
    Detached {
        /// The peer's request.
        id: RequestId,
    },
    /// The link ended. Always the last item, after everything that could be read.
    Closed {
        /// The reason.
        cause: TransportEnd,
    },
}

impl Inbound {
    /// The bytes of its messages, as [`Message::payload_len`] counts them. Text that is not a message counts as 0: at
    /// most 200 bytes of it are kept.
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
        /// The message.
        message: Message,
        /// Its route.
        route: Route,
    },
    /// Messages to send as one array, in reply to an array: 2025-03-26 alone.
    Batch {
        /// The messages.
        messages: Vec<Message>,
        /// The number of the [`Inbound::Batch`] that it replies to.
        exchange: Option<u64>,
    },
    /// Close the exchange of a request of ours: this cancels it on HTTP in the modern era.
    Abort {
        /// Our request.
        id: RequestId,
    },
    /// Close the stream of a request of the peer, so that the peer reconnects for the remaining messages, as 2025-11-25
    /// allows. The request continues. Only a link that stores events (HTTP) does so; every other link ignores it.
    CloseStream {
        /// The peer's request.
        id: RequestId,
    },
}

/// The route of a message on a link with several streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// To the peer, on no particular stream.
    Session,
    /// On the open stream of a request of the peer.
    ReplyTo(RequestId),
}

/// How a link ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportEnd {
    /// What happened.
    pub kind: TransportEndKind,
    /// How the process of the peer exited, if it has one.
    pub exit: Option<ProcessExit>,
    /// The last lines that the process wrote to its standard error: at most 64 KiB.
    pub stderr: Bytes,
}

/// The kinds of end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportEndKind {
    /// The peer closed its side in order.
    EndOfStream,
    /// The peer closed its side within a message: it crashed, or the connection was cut.
    CutOff {
        /// The number of bytes of the message that were received.
        received: usize,
    },
    /// A read or write failed.
    Failed(TransportError),
}

/// How a process exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessExit {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// A failed read or write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TransportError {
    /// The category.
    pub kind: TransportErrorKind,
    /// The message of the system.
    pub message: String,
    /// Whether a retry on a new link may succeed.
    pub retryable: bool,
    reason: Option<TransportErrorReason>,
    http: Option<Box<HttpFailure>>,
}

/// What a link over HTTP knows of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct HttpFailure {
    request: Option<Box<str>>,
    status: Option<u16>,
    body: Option<HttpBody>,
}

/// The body of a response over HTTP that is the failure.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpBody {
    /// An error of JSON-RPC.
    Error(ErrorObject),
    /// Something else: its first bytes.
    Other(Bytes),
}

/// The category of a failure, for advice to the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportErrorKind {
    /// A read or write failed, or the data was not as expected.
    #[default]
    Broken,
    /// The peer was not reached.
    Unreachable,
    /// TLS: the peer's certificate is not valid or not trusted.
    Untrusted,
    /// The peer wants credentials, or rejects ours.
    Unauthorized,
    /// The peer speaks another protocol than MCP.
    Foreign,
    /// The server does not know the session any more, so it has not processed the message.
    SessionEnded,
}

/// What exactly failed, where the link knows it. Programs decide by it, and not by the words of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportErrorReason {
    /// The connection was refused: nothing listens there.
    ConnectionRefused,
    /// The name of the host was not resolved.
    NameNotResolved,
    /// No connection was made in time.
    ConnectTimedOut,
    /// The proxy was not reached.
    ProxyUnreached,
    /// The proxy has not connected to the server.
    ProxyRefused,
    /// The proxy requires credentials.
    ProxyAuthorization,
    /// The proxy has another protocol than HTTP.
    ProxyScheme,
    /// The peer does not speak TLS on that port.
    NoTls,
    /// The certificate is signed with its own key, and is not trusted.
    SelfSigned,
    /// No trusted authority has signed the certificate.
    UnknownIssuer,
    /// No credentials for the request could be obtained, so it was not sent.
    NoCredentials,
    /// The connection ended before the response, or in the handshake of TLS.
    ConnectionLost,
    /// The response is not HTTP/1.1.
    NoHttp,
    /// The body of the response ended before its end was received.
    BodyCutOff,
    /// The server redirects to a URL that is not followed.
    RedirectNotFollowed,
    /// The server redirects to another origin, which is not followed.
    RedirectToOtherOrigin,
    /// The redirects lead back to a URL that was requested before.
    RedirectLoop,
    /// The id of the session cannot be sent back.
    SessionIdInvalid,
    /// The server has responded, and its response has no body, or other messages than the reply.
    NoReply,
    /// The body of an event stream has no event, but other text.
    NoEvents,
    /// The response begins like a message, and its content type is not one of those that messages have.
    WrongContentType,
    /// The response is encoded, for example compressed, and its request accepts no encoding.
    ContentEncoding,
    /// The server does not know the session that it has just opened.
    SessionNotKept,
}

impl TransportError {
    /// A failed read or write.
    #[must_use]
    pub fn new(message: impl Into<String>, retryable: bool) -> Self {
        let kind = TransportErrorKind::Broken;
        Self { kind, message: message.into(), retryable, reason: None, http: None }
    }

    /// Sets the category.
    #[must_use]
    pub fn of(self, kind: TransportErrorKind) -> Self {
        Self { kind, ..self }
    }

    /// Sets what exactly failed.
    #[must_use]
    pub fn because(self, reason: TransportErrorReason) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// Sets the HTTP request that failed: its method of MCP, or its purpose.
    #[must_use]
    pub fn with_http_request(mut self, about: impl Into<Box<str>>) -> Self {
        self.http.get_or_insert_default().request = Some(about.into());
        self
    }

    /// Sets the status of the HTTP response.
    #[must_use]
    pub fn with_http_status(mut self, status: u16) -> Self {
        self.http.get_or_insert_default().status = Some(status);
        self
    }

    /// Sets the body of the HTTP response.
    #[must_use]
    pub fn with_http_body(mut self, body: HttpBody) -> Self {
        self.http.get_or_insert_default().body = Some(body);
        self
    }

    /// What exactly failed, where the link knows it.
    #[must_use]
    pub const fn reason(&self) -> Option<TransportErrorReason> {
        self.reason
    }

    /// The HTTP request that failed: its method of MCP, or its purpose.
    #[must_use]
    pub fn http_request(&self) -> Option<&str> {
        self.http.as_ref()?.request.as_deref()
    }

    /// The status of the HTTP response, where there was one and it is the failure.
    #[must_use]
    pub fn http_status(&self) -> Option<u16> {
        self.http.as_ref()?.status
    }

    /// The body of the HTTP response, where there was one and it is the failure.
    #[must_use]
    pub fn http_body(&self) -> Option<&HttpBody> {
        self.http.as_ref()?.body.as_ref()
    }
}

impl TransportEndKind {
    /// Whether the peer closed its side itself, possibly within a message.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self, Self::EndOfStream | Self::CutOff { .. })
    }
}

impl TransportEnd {
    /// The peer closed its side; nothing else is known.
    #[must_use]
    pub const fn end_of_stream() -> Self {
        Self { kind: TransportEndKind::EndOfStream, exit: None, stderr: Bytes::new() }
    }

    /// A read or write failed.
    #[must_use]
    pub const fn failed(error: TransportError) -> Self {
        Self { kind: TransportEndKind::Failed(error), exit: None, stderr: Bytes::new() }
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

/// One line: what ended, the exit status, the line of standard error that tells why.
impl fmt::Display for TransportEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.kind, &self.exit) {
            (TransportEndKind::Failed(error), _) => write!(f, "the link failed: {error}")?,
            (TransportEndKind::CutOff { received }, exit) => {
                let ended =
                    if exit.is_some() { "the server ended" } else { "the peer closed the connection" };
                write!(f, "{ended} in the middle of a message, after {received} bytes of it")?;
            }
            (TransportEndKind::EndOfStream, Some(_)) => f.write_str("the server ended")?,
            (TransportEndKind::EndOfStream, None) => f.write_str("the peer closed the connection")?,
        }
        if let Some(exit) = &self.exit {
            write!(f, " ({exit})")?;
        }
        let text = String::from_utf8_lossy(&self.stderr);
        if let Some(line) = reason_of_runtime(&text) {
            write!(f, "; on stderr: {}", Line::of(line.trim()))?;
        } else if let Some(line) = text.lines().rev().find(|line| !line.trim().is_empty()) {
            write!(f, "; its last line on stderr: {}", Line::of(line.trim()))?;
        }
        Ok(())
    }
}

/// The line with the reason, where a runtime ends its output with something else: npm with the place of its log, Node.js with
/// a stack and its version.
fn reason_of_runtime(stderr: &str) -> Option<&str> {
    let mut before = stderr.trim_end().lines();
    let last = before.next_back()?;
    if last.starts_with("Node.js v") {
        // The stack and the members of the error are indented, or close with a brace.
        return before.rfind(|line| line.starts_with(|first: char| first.is_alphanumeric() || first == '['));
    }
    if last.contains("A complete log of this run can be found in:") {
        // The message begins in the line after the code of the error.
        return match stderr.rfind("npm error code ").or_else(|| stderr.rfind("npm ERR! code ")) {
            Some(code) => stderr[code..].lines().nth(1),
            None => before.next_back(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;

    /// The ends of outputs of npm 10.8 and Node.js 20.20.
    #[test]
    fn the_reason_that_npm_and_node_print_stands_in_place_of_their_last_line() {
        let npm = "npm warn exec x\nnpm error code E404\nnpm error 404 Not Found - GET https://registry.npmjs.org/nothing\n\
                   npm error 404\nnpm error 404 Note that you can also install from a\n\
                   npm error A complete log of this run can be found in: /root/.npm/_logs/debug-0.log\n";
        let without_code = "npm error could not determine executable to run\n\
                            npm error A complete log of this run can be found in: /root/.npm/_logs/debug-0.log\n";
        let node = "node:internal/modules/cjs/loader:1210\n  throw err;\n  ^\n\nError: Cannot find module '/x.js'\n    \
                    at Module._resolveFilename (node:internal/modules/cjs/loader:1207:15) {\n  \
                    code: 'MODULE_NOT_FOUND',\n  requireStack: []\n}\n\nNode.js v20.20.2\n";
        for (stderr, line) in [
            (npm, "; on stderr: npm error 404 Not Found - GET https://registry.npmjs.org/nothing"),
            (without_code, "; on stderr: npm error could not determine executable to run"),
            (node, "; on stderr: Error: Cannot find module '/x.js'"),
            ("Node.js v20.20.2\n", "; its last line on stderr: Node.js v20.20.2"),
            ("KeyError: 'TOKEN'\n", "; its last line on stderr: KeyError: 'TOKEN'"),
        ] {
            let mut end = TransportEnd::end_of_stream();
            end.exit = Some(ProcessExit::Code(1));
            end.stderr = Bytes::copy_from_slice(stderr.as_bytes());
            assert_eq!(end.to_string(), alloc::format!("the server ended (exit code 1){line}"));
        }
    }

    #[test]
    fn the_last_line_of_stderr_stays_readable_and_obeys_no_terminal() {
        let mut end = TransportEnd::end_of_stream();
        end.exit = Some(ProcessExit::Code(3));
        let said = "first\n{\"level\":\"error\",\"path\":\"C:\\\\x\",\"it's\":1}\u{1b}[2J\u{7}\u{202e}\n \n";
        end.stderr = Bytes::from_static(said.as_bytes());
        assert_eq!(
            end.to_string(),
            r#"the server ended (exit code 3); its last line on stderr: {"level":"error","path":"C:\\x","it's":1}\u{1b}[2J\u{7}\u{202e}"#
        );
    }
}
