//! The trait that shows a user the page of an authorization server.
//!
//! `login` uses it and knows nothing about browsers and ports. [`LocalBrowser`](super::LocalBrowser) serves programs on the user's
//! machine; a program with windows of its own, or a test, implements [`UserAgent`].

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;

/// Shows a user the page of an authorization server, and returns its response.
pub trait UserAgent: Send + Sync + 'static {
    /// Prepares to receive the response, so that the redirect URI is known.
    ///
    /// `before` is the redirect URI that the client is registered with, if it is: if it can be used again, the client need not be
    /// registered again.
    ///
    /// # Errors
    /// When the response could not be received.
    fn visit(&self, before: Option<&str>) -> impl Future<Output = Result<Visit, UserAgentError>> + Send;
}

/// A user agent that is ready. Dropping it cancels the login and releases its port.
pub struct Visit {
    redirect_uri: String,
    authorize: Box<dyn FnOnce(Authorizing) -> BoxFuture<'static, Result<String, UserAgentError>> + Send>,
}

impl Visit {
    /// A visit whose response arrives at this redirect URI. `authorize` sends the user to the URL and returns the query of the
    /// redirect, unchanged and without its `?`. It is dropped when the login is cancelled.
    pub fn new<F, T>(redirect_uri: impl Into<String>, authorize: F) -> Self
    where
        F: FnOnce(Authorizing) -> T + Send + 'static,
        T: Future<Output = Result<String, UserAgentError>> + Send + 'static,
    {
        Self {
            redirect_uri: redirect_uri.into(),
            authorize: Box::new(move |authorizing| Box::pin(authorize(authorizing))),
        }
    }

    /// The redirect URI.
    #[must_use]
    pub fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// Sends the user to the URL, and returns the query of the redirect: for a user agent that wraps another one. Dropping the
    /// future cancels it.
    ///
    /// # Errors
    /// When the user does not come back.
    pub async fn authorize(self, authorizing: Authorizing) -> Result<String, UserAgentError> {
        (self.authorize)(authorizing).await
    }
}

impl fmt::Debug for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visit").field("redirect_uri", &self.redirect_uri).finish_non_exhaustive()
    }
}

/// The page for the user. `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Authorizing {
    /// A URL of https, or of http on this machine, without characters that are special to a shell.
    pub url: String,
    /// The `state` that the response must contain. A response without it comes from a third party; it is refused in any case.
    pub state: String,
}

impl Authorizing {
    pub(super) const fn new(url: String, state: String) -> Self {
        Self { url, state }
    }
}

impl fmt::Debug for Authorizing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorizing").finish_non_exhaustive()
    }
}

/// There is no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UserAgentError {
    /// The port for the response is in use.
    #[error("port {port} is in use by another program: end that program, or choose another port")]
    PortTaken {
        /// The port.
        port: u16,
    },
    /// The system refuses to listen for the response.
    #[error("cannot listen on this machine: {0}")]
    Listen(String),
    /// The user has not come back.
    #[error("no response from the browser within {} s", after.as_secs())]
    NobodyCame {
        /// The timeout.
        after: Duration,
    },
    /// Any other error, for people and without a secret.
    #[error("{0}")]
    Other(String),
}

/// [`UserAgent`] behind a pointer.
pub(super) trait ErasedUserAgent: Send + Sync {
    fn visit<'a>(&'a self, before: Option<&'a str>) -> BoxFuture<'a, Result<Visit, UserAgentError>>;
}

impl<U: UserAgent> ErasedUserAgent for U {
    fn visit<'a>(&'a self, before: Option<&'a str>) -> BoxFuture<'a, Result<Visit, UserAgentError>> {
        Box::pin(UserAgent::visit(self, before))
    }
}
