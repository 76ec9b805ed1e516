//! Where the server of a run comes from: a program that is started, or a stream of bytes to one that runs already.

use std::fmt;
use std::pin::Pin;

use super::{Server, ValidateError, Validator};
use crate::link::{ChildCommand, ChildHandle, Link};

/// A connection that is being made.
type Opening = Pin<Box<dyn Future<Output = Result<Link, ValidateError>> + Send>>;

/// What makes a server's end for each run.
pub(super) enum Source {
    /// Starts it.
    Child(ChildCommand),
    /// Connects to it.
    Stream(Box<dyn FnMut() -> Opening + Send>),
}

impl Source {
    /// A link to the server, and what watches the process where it is a child of ours.
    pub(super) async fn open(&mut self) -> Result<(Link, Option<ChildHandle>), ValidateError> {
        match self {
            Self::Child(command) => {
                let command = command.clone();
                let handle = command.handle();
                Ok((command.start().await?, Some(handle)))
            }
            Self::Stream(open) => Ok((open().await?, None)),
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Child(command) => command.fmt(f),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

impl Validator {
    /// For the server that is reached over a stream of bytes: a socket, a tunnel, a pair in memory
    /// ([`Link::stream`]). It is judged as one that reads and writes lines; how its process ends is not known.
    ///
    /// `open` is asked for a connection of its own for each run, about ten times. The links must carry bytes: over
    /// one that carries messages as they are, nothing can be said.
    ///
    /// ```no_run
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcpjoin::Link;
    /// use mcpjoin::validate::Validator;
    ///
    /// let trace = Validator::stream(|| Link::tcp("127.0.0.1:7000")).run().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What `open` fails with ends the look.
    #[must_use]
    pub fn stream<O, E>(mut open: impl FnMut() -> O + Send + 'static) -> Self
    where
        O: IntoFuture<Output = Result<Link, E>>,
        O::IntoFuture: Send + 'static,
        E: Into<ValidateError>,
    {
        let open = move || -> Opening {
            let opening = open().into_future();
            Box::pin(async move { opening.await.map_err(Into::into) })
        };
        Self::of(Server::Lines(Source::Stream(Box::new(open))))
    }
}
