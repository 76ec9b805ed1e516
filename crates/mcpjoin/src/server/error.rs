//! How a handler fails.

use std::any::Any;
use std::fmt;

use mcpjoin_proto::ErrorObject;
use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::{CallToolResult, InputRequired};

use super::input::{InputError, PendingInput};

/// Why a handler has no result. Every [`std::error::Error`] becomes one through `?`.
///
/// What it becomes for the peer depends on what failed: a tool's own failure is a result that says so
/// (`isError`), for the model to read and do better; that of a prompt, a resource or a completion is an internal
/// error (-32603). An [`ErrorObject`] stays the protocol error that it is, and an [`InputError`] asks the client.
pub struct HandlerError(Kind);

enum Kind {
    Failed(String),
    Protocol(ErrorObject),
    NeedInput(Box<InputRequired>),
}

impl HandlerError {
    /// A failure, in a sentence that the peer will read.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self(Kind::Failed(message.into()))
    }

    /// A protocol error, whatever the handler is for.
    #[must_use]
    pub const fn protocol(error: ErrorObject) -> Self {
        Self(Kind::Protocol(error))
    }

    /// A request for input made by hand, with names and a state of the handler's choice. The handler is called again
    /// with what came back ([`Context::input_response`](super::Context::input_response)): in the modern era the client
    /// makes its request again, in the legacy era and in a task the questions are asked for it.
    #[must_use]
    pub fn need_input(input: InputRequired) -> Self {
        Self(Kind::NeedInput(Box::new(input)))
    }

    /// There is no such resource. The session gives it the code that the revision has for that.
    #[must_use]
    pub fn resource_not_found(uri: &str) -> Self {
        Self::protocol(super::resources::not_found(uri))
    }

    /// What a tool that failed so answers.
    pub(super) fn into_tool_reply(self) -> Result<super::ToolReply, ErrorObject> {
        match self.0 {
            Kind::Failed(message) => Ok(super::ToolReply::Result(CallToolResult::error(message))),
            Kind::Protocol(error) => Err(error),
            Kind::NeedInput(input) => Ok(super::ToolReply::Reply(Reply::NeedInput(input))),
        }
    }

    /// What everything else that failed so answers.
    pub(super) fn into_reply(self) -> Result<Reply, ErrorObject> {
        match self.0 {
            Kind::Failed(message) => Err(ErrorObject::internal(message)),
            Kind::Protocol(error) => Err(error),
            Kind::NeedInput(input) => Ok(Reply::NeedInput(input)),
        }
    }
}

impl From<PendingInput> for HandlerError {
    fn from(pending: PendingInput) -> Self {
        Self(Kind::NeedInput(pending.into_input()))
    }
}

impl From<InputError> for HandlerError {
    fn from(error: InputError) -> Self {
        match error {
            InputError::Needed(pending) => pending.into(),
            InputError::Refused(error) => Self::protocol(error),
            other => Self::new(other.to_string()),
        }
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        match (&error as &dyn Any).downcast_ref::<ErrorObject>() {
            Some(error) => Self::protocol(error.clone()),
            None => Self::new(error.to_string()),
        }
    }
}

// Not a `std::error::Error`, so that every error becomes one through `?`.
impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Failed(message) => f.write_str(message),
            Kind::Protocol(error) => error.fmt(f),
            Kind::NeedInput(_) => f.write_str("the client has to be asked first"),
        }
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HandlerError({self})")
    }
}
