//! Messages that wait to be sent, and what each of them is to the transport.

use mcpjoin_proto::http::classify::Probe;
use mcpjoin_proto::session::Outbound;
use mcpjoin_proto::types::{CancelledParams, ProtocolType};
use mcpjoin_proto::{Message, Method, Request, RequestId};
use tokio::time::Instant;

use super::exchange::Role;
use super::in_flight::Task;
use super::retry::RetryClass;

/// Whether messages may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendGate {
    Open,
    /// The server has not accepted `initialized` yet.
    Initialized,
    /// HTTP+SSE: the stream has not named the URL to post to yet.
    Endpoint,
    /// The session is being opened again.
    Reopening,
    /// The server has asked to repeat the probe of the era later.
    Postponed,
}

/// A message in the queue.
pub(super) struct QueuedMessage {
    pub(super) outbound: Outbound,
    /// In bytes.
    pub(super) size: usize,
    /// It was refused unprocessed before, and is not sent a third time.
    pub(super) is_resent: bool,
}

/// What a message is to the transport.
pub(super) struct MessageKind {
    pub(super) role: Role,
    /// Whether it may be sent again when the server cannot process it now.
    pub(super) retry_class: RetryClass,
    /// The method of MCP, as errors name it.
    pub(super) about: Box<str>,
    pub(super) task: Task,
    /// The request that waits for its response.
    pub(super) pending: Option<RequestId>,
}

impl QueuedMessage {
    /// `None` for what is not sent.
    pub(super) fn kind(&self) -> Option<MessageKind> {
        let retry_class = RetryClass::of(&self.outbound);
        let one_way = |about: &str, task| MessageKind {
            role: Role::OneWay,
            retry_class,
            about: about.into(),
            task,
            pending: None,
        };
        Some(match &self.outbound {
            Outbound::Message { message: Message::Request(request), .. } => {
                let id = request.id.clone();
                MessageKind {
                    retry_class,
                    role: match request.method {
                        Method::Discover => Role::Probe(Probe::Discover),
                        Method::Initialize => Role::Probe(Probe::Initialize),
                        _ => Role::Request,
                    },
                    about: request.method.as_str().into(),
                    task: Task::Request {
                        id: id.clone(),
                        counted: self.is_counted(),
                        opens: (request.method == Method::Initialize).then(Instant::now),
                    },
                    pending: Some(id),
                }
            }
            Outbound::Message { message: Message::Notification(notification), .. } => {
                let task = match notification.method {
                    Method::Initialized => Task::Initialized,
                    Method::Cancelled => cancelled(&self.outbound).map_or(Task::OneWay, Task::Cancel),
                    _ => Task::OneWay,
                };
                one_way(notification.method.as_str(), task)
            }
            Outbound::Message { message: Message::Response(_), .. } => one_way("a response", Task::OneWay),
            Outbound::Batch { .. } => one_way("a batch of responses", Task::OneWay),
            Outbound::Abort { .. } | Outbound::CloseStream { .. } => return None,
        })
    }

    pub(super) fn new(outbound: Outbound) -> Self {
        let size = match &outbound {
            Outbound::Message { message, .. } => super::super::memory::weight(message),
            Outbound::Batch { messages, .. } => messages.iter().map(super::super::memory::weight).sum(),
            Outbound::Abort { .. } | Outbound::CloseStream { .. } => 0,
        };
        Self { outbound, size, is_resent: false }
    }

    pub(super) fn request(&self) -> Option<&Request> {
        match &self.outbound {
            Outbound::Message { message: Message::Request(request), .. } => Some(request),
            _ => None,
        }
    }

    pub(super) fn id(&self) -> Option<&RequestId> {
        self.request().map(|request| &request.id)
    }

    /// Whether it counts against the limit of requests in flight. A stream that a client listens on does not.
    pub(super) fn is_counted(&self) -> bool {
        self.request().is_some_and(|request| request.method != Method::Listen)
    }
}

/// The request that a notification cancels.
pub(super) fn cancelled(outbound: &Outbound) -> Option<RequestId> {
    let Outbound::Message { message: Message::Notification(notification), .. } = outbound else {
        return None;
    };
    if notification.method != Method::Cancelled {
        return None;
    }
    CancelledParams::read(notification.params.as_ref()?.raw()).ok()?.request_id
}
