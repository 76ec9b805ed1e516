//! The errors of handlers.

use std::any::Any;
use std::fmt;

use mcpjoin_proto::ErrorObject;
use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::{CallToolResult, InputRequired};

use super::input::{InputError, PendingInput};

/// Why a handler has no result. Every [`std::error::Error`] converts into it with `?`.
///
/// What the peer receives depends on the handler. The failure of a tool is a result with `isError`, for the model to
/// read. The failure of a prompt, a resource or a completion is an internal error (-32603). An [`ErrorObject`] is sent
/// as it is, and an [`InputError`] asks the client for input.
pub struct HandlerError(Kind);

enum Kind {
    Failed(String),
    Protocol(ErrorObject),
    NeedInput(Box<InputRequired>),
}

impl HandlerError {
    /// Creates a failure with a message for the peer.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self(Kind::Failed(message.into()))
    }

    /// Creates a protocol error, for any kind of handler.
    #[must_use]
    pub const fn protocol(error: ErrorObject) -> Self {
        Self(Kind::Protocol(error))
    }

    /// Creates a request for input with names and a state of your own.
    ///
    /// The handler is called again with the input ([`Context::input_response`](super::Context::input_response)): in the
    /// modern era the client repeats its request; in the legacy era and in a task the server sends the requests for
    /// input itself.
    #[must_use]
    pub fn need_input(input: InputRequired) -> Self {
        Self(Kind::NeedInput(Box::new(input)))
    }

    /// Creates the error for a resource that does not exist. The session gives it the code of the revision.
    #[must_use]
    pub fn resource_not_found(uri: &str) -> Self {
        Self::protocol(super::resources::not_found(uri))
    }

    /// Returns the response of a tool that has failed with this.
    pub(super) fn into_tool_reply(self) -> Result<super::ToolReply, ErrorObject> {
        match self.0 {
            Kind::Failed(message) => Ok(super::ToolReply::Result(CallToolResult::error(message))),
            Kind::Protocol(error) => Err(error),
            Kind::NeedInput(input) => Ok(super::ToolReply::Reply(Reply::NeedInput(input))),
        }
    }

    /// Returns the response of any other handler that has failed with this.
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

// Not a `std::error::Error`, so that every error converts into it with `?`.
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
