//! Messages that have not left yet.

use mcpjoin_proto::http::classify::Probe;
use mcpjoin_proto::session::Outbound;
use mcpjoin_proto::types::CancelledParams;
use mcpjoin_proto::{Message, Method, Request, RequestId};

use super::again::Repeatable;
use super::exchange::Role;
use super::running::What;

/// Whether messages may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    /// `initialized` is to be accepted first.
    Initialized,
    /// HTTP+SSE: the stream has not said where to post.
    Endpoint,
    /// The session is being opened again.
    Reopening,
    /// The probe of the era is to be answered later.
    Postponed,
}

/// A message that waits for its turn.
pub(super) struct Waiting {
    pub(super) outbound: Outbound,
    pub(super) size: usize,
    /// It was refused once, and not executed; a second time is the end of it.
    pub(super) again: bool,
}

/// What a message is to the link.
pub(super) struct Kind {
    pub(super) role: Role,
    /// Whether it may be sent again when the server cannot answer now.
    pub(super) repeatable: Repeatable,
    /// What it is about, in errors.
    pub(super) about: Box<str>,
    pub(super) what: What,
    /// The request that is to be answered.
    pub(super) owed: Option<RequestId>,
}

impl Waiting {
    /// What it is; `None` when it is nothing to be sent.
    pub(super) fn kind(&self) -> Option<Kind> {
        let repeatable = Repeatable::of(&self.outbound);
        let told =
            |about: &str, what| Kind { role: Role::Told, repeatable, about: about.into(), what, owed: None };
        Some(match &self.outbound {
            Outbound::Message { message: Message::Request(request), .. } => {
                let id = request.id.clone();
                Kind {
                    repeatable,
                    role: match request.method {
                        Method::Discover => Role::Probe(Probe::Discover),
                        Method::Initialize => Role::Probe(Probe::Initialize),
                        _ => Role::Request,
                    },
                    about: request.method.as_str().into(),
                    what: What::Request { id: id.clone(), counted: self.is_counted() },
                    owed: Some(id),
                }
            }
            Outbound::Message { message: Message::Notification(notification), .. } => {
                let what = match notification.method {
                    Method::Initialized => What::Initialized,
                    Method::Cancelled => cancelled(&self.outbound).map_or(What::Told, What::Cancel),
                    _ => What::Told,
                };
                told(notification.method.as_str(), what)
            }
            Outbound::Message { message: Message::Response(_), .. } => told("a response", What::Told),
            Outbound::Batch { .. } => told("a batch of responses", What::Told),
            Outbound::Abort { .. } | Outbound::CloseStream { .. } => return None,
        })
    }

    pub(super) fn new(outbound: Outbound) -> Self {
        let size = match &outbound {
            Outbound::Message { message, .. } => super::super::memory::weight(message),
            Outbound::Batch { messages, .. } => messages.iter().map(super::super::memory::weight).sum(),
            Outbound::Abort { .. } | Outbound::CloseStream { .. } => 0,
        };
        Self { outbound, size, again: false }
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
    notification.params.as_ref()?.raw().decode::<CancelledParams>().ok()?.request_id
}
