//! Who says what stands in `Authorization`: the seam between this transport and whoever authorizes.
//!
//! Called by `wire` for every request. Nothing here knows how an authorization is come by.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

use std::future::Future;
use std::pin::Pin;

use http::HeaderValue;

/// How often one message may be sent again because its authorization was refused (adversarial case 114).
pub(super) const ROUNDS: u32 = 2;

/// A request that is about to be made.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AuthorizationRequest<'a> {
    /// Where to: the whole URL.
    pub url: &'a str,
    /// The method of HTTP.
    pub method: &'a str,
}

impl<'a> AuthorizationRequest<'a> {
    pub(super) const fn new(url: &'a str, method: &'a str) -> Self {
        Self { url, method }
    }
}

/// A request that was refused with 401 or 403.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AuthorizationChallenge<'a> {
    /// Where it went.
    pub url: &'a str,
    /// 401 or 403.
    pub status: u16,
    /// The values of `WWW-Authenticate`, as far as they are text.
    pub www_authenticate: &'a [&'a str],
}

impl<'a> AuthorizationChallenge<'a> {
    pub(super) const fn new(url: &'a str, status: u16, www_authenticate: &'a [&'a str]) -> Self {
        Self { url, status, www_authenticate }
    }
}

/// What to do after a challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterChallenge {
    /// Ask for the authorization again and send the message once more. At most twice for one message.
    Retry,
    /// Nothing more can be done: the message fails.
    GiveUp,
}

/// No authorization can be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CredentialsError {
    /// Why, for a person. No secret stands in it.
    pub message: String,
}

/// Says what stands in the `Authorization` header. It is sent to the origin of the link's URL and to no other.
///
/// Both futures are dropped when nobody waits for the message any more. Several may run at once.
pub trait Credentials: Send + Sync + 'static {
    /// The value for a request; `None` sends no such header.
    ///
    /// # Errors
    /// When there is none to be had: the message is not sent.
    fn authorization(
        &self,
        request: AuthorizationRequest<'_>,
    ) -> impl Future<Output = Result<Option<HeaderValue>, CredentialsError>> + Send;

    /// Names whose authorization this is now, without being a secret itself: results that are meant for one user alone
    /// are kept for as long as this says the same, and are shared with other clients of the same
    /// [`Cache`](crate::client::Cache) for which it says so, too. `None`, unless this is implemented: that cannot be told,
    /// and such results are not kept.
    ///
    /// The [specification](https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cache-scope-field)
    /// wants another name for another access token. Must not block.
    fn cache_partition(&self) -> Option<String> {
        None
    }

    /// The server has refused a request: what to do.
    fn challenged(
        &self,
        challenge: AuthorizationChallenge<'_>,
    ) -> impl Future<Output = AfterChallenge> + Send {
        let _ = challenge;
        async { AfterChallenge::GiveUp }
    }
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The form that the link keeps.
pub(super) trait ErasedCredentials: Send + Sync {
    fn authorization<'a>(
        &'a self,
        request: AuthorizationRequest<'a>,
    ) -> Boxed<'a, Result<Option<HeaderValue>, CredentialsError>>;

    fn cache_partition(&self) -> Option<String>;

    fn challenged<'a>(&'a self, challenge: AuthorizationChallenge<'a>) -> Boxed<'a, AfterChallenge>;
}

impl<C: Credentials> ErasedCredentials for C {
    fn authorization<'a>(
        &'a self,
        request: AuthorizationRequest<'a>,
    ) -> Boxed<'a, Result<Option<HeaderValue>, CredentialsError>> {
        Box::pin(Credentials::authorization(self, request))
    }

    fn cache_partition(&self) -> Option<String> {
        Credentials::cache_partition(self)
    }

    fn challenged<'a>(&'a self, challenge: AuthorizationChallenge<'a>) -> Boxed<'a, AfterChallenge> {
        Box::pin(Credentials::challenged(self, challenge))
    }
}
