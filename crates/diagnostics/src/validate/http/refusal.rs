//! Why no session was opened over HTTP, and how that is told.

use std::time::Duration;

use mcpjoin_proto::session::OpeningFailure;
use mcpjoin_proto::{Method, code};

use super::super::ValidateError;
use super::super::live::Opened;
use super::super::runs::member;
use super::live::Reply;

/// What became of an attempt to open a session.
pub(super) enum Attempt {
    Spoken,
    Not(Box<Refusal>),
}

/// Why there is no session.
pub(super) struct Refusal {
    pub(super) method: Method,
    pub(super) reply: Reply,
    /// How long it was waited for.
    pub(super) took: Duration,
    /// How long it could have taken.
    pub(super) within: Duration,
    /// What is wrong, where the reply does not say it.
    pub(super) problem: Option<String>,
}

impl Attempt {
    pub(super) fn not(method: Method, reply: Reply, within: Duration) -> Self {
        Self::Not(Refusal::of(method, reply, within).into())
    }
}

impl Refusal {
    pub(super) fn of(method: Method, reply: Reply, within: Duration) -> Self {
        Self { method, took: reply.began.elapsed(), reply, within, problem: None }
    }

    /// Whether another era would be refused in the same way.
    pub(super) fn is_final(&self) -> bool {
        self.reply.failure.is_some() || matches!(self.reply.status, Some(401 | 403))
    }
}

impl From<Box<Refusal>> for ValidateError {
    fn from(refusal: Box<Refusal>) -> Self {
        let Refusal { method, reply, took, within, problem } = *refusal;
        if let Some(problem) = problem {
            return Self::NoSession(OpeningFailure::BadReply { method, problem });
        }
        if let Some(problem) = reply.failure {
            return Self::Unreachable { problem };
        }
        let status = reply.status.unwrap_or_default();
        if matches!(status, 401 | 403) {
            return Self::Unauthorized { status, reason: reply.reason, seen: Box::default() };
        }
        match reply.opened {
            Opened::Error(error) if error.code == code::UNSUPPORTED_PROTOCOL_VERSION => {
                let supported = error.data.as_ref().and_then(|data| member(data, "supported"));
                let supported = supported.and_then(|list| list.decode().ok()).unwrap_or_default();
                Self::NoSession(OpeningFailure::NoCommonVersion { supported })
            }
            Opened::Error(error) => Self::NoSession(OpeningFailure::Refused { method, error }),
            Opened::Result(_) => Self::NoSession(OpeningFailure::BadReply {
                method,
                problem: "it is not what this request is answered with".into(),
            }),
            Opened::Broken(error) => {
                Self::NoSession(OpeningFailure::BadReply { method, problem: error.to_string() })
            }
            Opened::Echo => Self::NoSession(OpeningFailure::Echo { method }),
            Opened::Other(given) => {
                let asked = reply.asked.unwrap_or_else(|| given.clone());
                Self::NoSession(OpeningFailure::UnknownReply { method, asked, given })
            }
            // What has come, and brings no message, is not waited for.
            Opened::Nothing if (200..300).contains(&status) && took >= within => {
                Self::NoSession(OpeningFailure::TimedOut { method, after: within, garbage: None })
            }
            Opened::Nothing if (300..400).contains(&status) => {
                Self::Redirected { status, location: reply.location }
            }
            Opened::Nothing => Self::NotMcp { status, content_type: reply.content_type, head: reply.body },
        }
    }
}
