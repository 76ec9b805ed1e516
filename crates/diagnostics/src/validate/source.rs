//! How a server that reads lines is reached: a program that is started, or a stream of bytes to a running server.

use std::fmt;
use std::pin::Pin;

use super::{Server, ValidateError, Validator};
use mcpjoin::transport::{ChildCommand, ChildHandle, Link};

/// A connection that is being made.
type Opening = Pin<Box<dyn Future<Output = Result<Link, ValidateError>> + Send>>;

/// Connects for a run.
type Open = Box<dyn FnMut() -> Opening + Send>;

/// Reaches the server for each run.
pub(super) enum Source {
    /// Starts the server.
    Child(ChildCommand),
    /// Connects to the server. `messages`: over links that carry messages in place of bytes.
    Stream { lines: Open, messages: Option<Open> },
}

impl Source {
    /// A link to the server, and its process where it is our child.
    pub(super) async fn open(&mut self) -> Result<(Link, Option<ChildHandle>), ValidateError> {
        match self {
            Self::Child(command) => {
                let command = command.clone();
                let handle = command.handle();
                Ok((command.start().await?, Some(handle)))
            }
            Self::Stream { lines, .. } => Ok((lines().await?, None)),
        }
    }

    /// A link that carries messages in place of bytes, where the transport has such links.
    pub(super) async fn messages(&mut self) -> Result<Option<Link>, ValidateError> {
        match self {
            Self::Stream { messages: Some(open), .. } => open().await.map(Some),
            Self::Child(_) | Self::Stream { .. } => Ok(None),
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Child(command) => command.fmt(f),
            Self::Stream { .. } => f.write_str("Stream"),
        }
    }
}

fn opening<O, E>(mut open: impl FnMut() -> O + Send + 'static) -> Open
where
    O: IntoFuture<Output = Result<Link, E>>,
    O::IntoFuture: Send + 'static,
    E: Into<ValidateError>,
{
    Box::new(move || {
        let opening = open().into_future();
        Box::pin(async move { opening.await.map_err(Into::into) })
    })
}

impl Validator {
    /// Validates the server at the other end of a stream of bytes: a socket, a tunnel, a pair in memory
    /// ([`Link::stream`]). It is checked as a server that reads and writes lines; how its process ends is not known.
    ///
    /// `open` is called for a new connection for each run, about ten times. The links must carry bytes: a link that
    /// carries messages in place of bytes cannot be validated.
    ///
    /// ```no_run
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcpjoin::Link;
    /// use mcpjoin_diagnostics::validate::Validator;
    ///
    /// let trace = Validator::stream(|| Link::tcp("127.0.0.1:7000")).run().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// An error of `open` ends the validation.
    #[must_use]
    pub fn stream<O, E>(open: impl FnMut() -> O + Send + 'static) -> Self
    where
        O: IntoFuture<Output = Result<Link, E>>,
        O::IntoFuture: Send + 'static,
        E: Into<ValidateError>,
    {
        Self::of(Server::Lines(Source::Stream { lines: opening(open), messages: None }))
    }

    /// Also opens one session over a link that carries messages in place of bytes, beside those over a
    /// [stream](Self::stream): a transport on which each request has a stream of its own. Changes nothing without a
    /// stream. The link has to show lines to an [inspector](Link::inspected), as the one of QUIC does.
    ///
    /// ```no_run
    /// # async fn f(pin: mcpjoin_quic::endpoint::Trust) -> Result<(), Box<dyn std::error::Error>> {
    /// use mcpjoin::Link;
    /// use mcpjoin_diagnostics::validate::Validator;
    ///
    /// let connect = mcpjoin_quic::connect("127.0.0.1:7000", pin);
    /// let messages = connect.clone();
    /// let validator = Validator::stream(move || connect.clone().on_one_stream());
    /// let trace = validator.and_messages(move || messages.clone()).run().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// An error of `open` ends the validation.
    #[must_use]
    pub fn and_messages<O, E>(mut self, open: impl FnMut() -> O + Send + 'static) -> Self
    where
        O: IntoFuture<Output = Result<Link, E>>,
        O::IntoFuture: Send + 'static,
        E: Into<ValidateError>,
    {
        if let Server::Lines(Source::Stream { messages, .. }) = &mut self.server {
            *messages = Some(opening(open));
        }
        self
    }
}
