//! The errors of handlers.

use std::any::Any;
use std::error::Error;
use std::fmt;

use mcpjoin_proto::ErrorObject;
use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::{CallToolResult, InputRequired};

use super::input::{InputError, PendingInput};

/// The result of a handler: with `?`, every [`std::error::Error`] becomes a [`HandlerError`].
pub type Result<T, E = HandlerError> = std::result::Result<T, E>;

/// Why a handler has no result. Every [`std::error::Error`] converts into it with `?`, and everything else that can be
/// displayed with `.map_err(HandlerError::new)?`.
///
/// ```
/// use mcpjoin::server::{HandlerError, Result};
///
/// fn read() -> anyhow::Result<String> {
///     anyhow::bail!("the disk is full")
/// }
///
/// async fn handler() -> Result<String> {
///     let number: i64 = "7".parse()?;
///     let text = read().map_err(HandlerError::new)?;
///     Ok(format!("{number}: {text}"))
/// }
/// # drop(handler());
/// ```
///
/// A handler whose only errors are of another type may return them as they are: see [`IntoHandlerError`].
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
    /// Creates a failure with a message for the peer: a text, or the text of an error.
    #[must_use]
    pub fn new(message: impl fmt::Display) -> Self {
        Self(Kind::Failed(message.to_string()))
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
            other => Self::new(other),
        }
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        match (&error as &dyn Any).downcast_ref::<ErrorObject>() {
            Some(error) => Self::protocol(error.clone()),
            None => Self::new(error),
        }
    }
}

/// What a handler may return as its error: [`HandlerError`], every [`std::error::Error`], a text (`String`, `&'static str`),
/// and the error types that hold any error, such as `anyhow::Error` and `Box<dyn Error + Send + Sync>`.
///
/// The message is what the error displays: of an `anyhow::Error` the outermost text. For its causes too, convert it with
/// `.map_err(|error| HandlerError::new(format_args!("{error:#}")))`. An [`ErrorObject`] is sent as it is, but not one inside of
/// an `anyhow::Error`.
///
/// ```
/// use mcpjoin::server::{NoArguments, Server, tool};
///
/// let server = Server::builder("files", "1.0.0")
///     .tool(tool("one"), |_: NoArguments, _| async { Err::<(), _>("not today") })
///     .tool(tool("two"), |_: NoArguments, _| async { anyhow::Ok(std::fs::read_to_string("/etc/hostname")?) })
///     .build()?;
/// # Ok::<(), mcpjoin::server::BuildError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an error that a handler may return",
    note = "implement `std::error::Error` for it, or convert it: `.map_err(mcpjoin::server::HandlerError::new)`"
)]
pub trait IntoHandlerError: Send {
    /// Converts the error.
    fn into_handler_error(self) -> HandlerError;
}

#[diagnostic::do_not_recommend]
impl<E: Into<Box<dyn Error + Send + Sync>> + Send> IntoHandlerError for E {
    fn into_handler_error(self) -> HandlerError {
        let error: Box<dyn Error + Send + Sync> = self.into();
        match error.downcast::<ErrorObject>() {
            Ok(error) => HandlerError::protocol(*error),
            Err(error) => HandlerError::new(error),
        }
    }
}

impl IntoHandlerError for HandlerError {
    fn into_handler_error(self) -> HandlerError {
        self
    }
}

impl IntoHandlerError for InputError {
    fn into_handler_error(self) -> HandlerError {
        self.into()
    }
}

impl IntoHandlerError for PendingInput {
    fn into_handler_error(self) -> HandlerError {
        self.into()
    }
}

// Not a `std::error::Error`, so that every error converts into it with `?`.
impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Failed(message) => f.write_str(message),
            Kind::Protocol(error) => error.fmt(f),
            Kind::NeedInput(_) => f.write_str("this needs input from the client first"),
        }
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HandlerError({self})")
    }
}
