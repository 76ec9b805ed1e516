//! Who is asked: the seam between the authorization and whatever shows a person the page of an authorization server.
//!
//! `login` asks through it and knows nothing of browsers or ports. [`LocalBrowser`](super::LocalBrowser) is what programs on the
//! user's machine use; a program with windows of its own, or a test, implements [`UserAgent`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// Shows a person the page of an authorization server, and brings back what it answers.
pub trait UserAgent: Send + Sync + 'static {
    /// Gets ready to hear the answer, so that it is known where it will come.
    ///
    /// `before` is the redirect URI that the client is registered with, where it is: when the same can be had again, the client
    /// need not be registered anew.
    ///
    /// # Errors
    /// When the answer could not be heard.
    fn visit(&self, before: Option<&str>) -> impl Future<Output = Result<Visit, UserAgentError>> + Send;
}

/// A person can be sent away, and the answer will be heard. Dropped, it is given up, and what it holds is free again.
pub struct Visit {
    redirect_uri: String,
    authorize: Box<dyn FnOnce(Authorizing) -> Boxed<Result<String, UserAgentError>> + Send>,
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Visit {
    /// The answer comes to this redirect URI. `authorize` sends the person to the URL and gives back the query with which they came
    /// to the redirect URI, as it is and without its `?`. It is dropped when nobody waits for it any more.
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

    /// Where the answer comes to.
    #[must_use]
    pub fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// Sends the person to the URL, and gives the query with which they come back: for a user agent that is made around another
    /// one. Dropped, it is given up.
    ///
    /// # Errors
    /// When nobody comes back.
    pub async fn authorize(self, authorizing: Authorizing) -> Result<String, UserAgentError> {
        (self.authorize)(authorizing).await
    }
}

impl fmt::Debug for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visit").field("redirect_uri", &self.redirect_uri).finish_non_exhaustive()
    }
}

/// Where a person is to be sent. `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Authorizing {
    /// A URL of https, or of http on this machine, without a character that a shell would obey.
    pub url: String,
    /// The `state` that must stand in the answer. An answer without it is somebody else's; it is refused in any case.
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

/// No answer came.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UserAgentError {
    /// The port for the answer is taken.
    #[error(
        "port {port} of this machine is taken by another program, so the browser could not come back: end that program, or choose another port"
    )]
    PortTaken {
        /// The port.
        port: u16,
    },
    /// This machine does not let us listen for the answer.
    #[error("nothing can be listened for on this machine: {0}")]
    Listen(String),
    /// The person has not come back.
    #[error("nobody came back from the browser within {} s", after.as_secs())]
    NobodyCame {
        /// How long was waited.
        after: Duration,
    },
    /// Anything else, in words and without a secret.
    #[error("{0}")]
    Other(String),
}

/// The form that is kept.
pub(super) trait ErasedUserAgent: Send + Sync {
    fn visit<'a>(
        &'a self,
        before: Option<&'a str>,
    ) -> Pin<Box<dyn Future<Output = Result<Visit, UserAgentError>> + Send + 'a>>;
}

impl<U: UserAgent> ErasedUserAgent for U {
    fn visit<'a>(
        &'a self,
        before: Option<&'a str>,
    ) -> Pin<Box<dyn Future<Output = Result<Visit, UserAgentError>> + Send + 'a>> {
        Box::pin(UserAgent::visit(self, before))
    }
}
