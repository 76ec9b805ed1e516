//! The seam between this transport and authorization: what the `Authorization` header of a request says.
//!
//! Called by `requester` for every request. Nothing here knows how a token is obtained.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

use std::future::Future;
use std::pin::Pin;

use http::HeaderValue;
use mcpjoin_proto::session::TransportErrorKind;

/// How often one message is sent again because its authorization was refused (adversarial case 114). A server that wants a
/// nonce in the proof of possession gets one try more, once.
pub(super) const MAX_AUTHORIZATION_RETRIES: u32 = 2;

/// A request that is about to be made.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AuthorizationRequest<'a> {
    /// The whole URL.
    pub url: &'a str,
    /// The method of HTTP.
    pub method: &'a str,
}

impl<'a> AuthorizationRequest<'a> {
    /// A request of `method` to `url`: for tests of [`Credentials`].
    #[must_use]
    pub const fn new(url: &'a str, method: &'a str) -> Self {
        Self { url, method }
    }
}

/// A request that was refused with 401 or 403.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AuthorizationChallenge<'a> {
    /// The whole URL.
    pub url: &'a str,
    /// The method of HTTP. A user should not have to log in for the `DELETE` that ends a session.
    pub method: &'a str,
    /// 401 or 403.
    pub status: u16,
    /// The values of `WWW-Authenticate`. Invalid UTF-8 is replaced by U+FFFD.
    pub www_authenticate: &'a [&'a str],
    /// The refused value of `Authorization`: a newer one that is there already can be used at once.
    pub authorization: Option<&'a HeaderValue>,
    /// The value of `DPoP-Nonce`, if the server has sent one
    /// ([RFC 9449, 9](https://www.rfc-editor.org/rfc/rfc9449#section-9)). [`Credentials::answered`] has got it already.
    pub dpop_nonce: Option<&'a str>,
    /// How often the message was sent again before, not counting nonces. At 0 the refused authorization may be an old one.
    pub again: u32,
    /// Whether the message can be sent again. If not, it fails in any case, and only the error can be chosen
    /// ([`AfterChallenge::Fail`]).
    pub repeatable: bool,
}

impl<'a> AuthorizationChallenge<'a> {
    /// The first refusal of a message that can be sent again, without `WWW-Authenticate` and nonce: for tests of
    /// [`Credentials`].
    #[must_use]
    pub const fn new(url: &'a str, method: &'a str, status: u16) -> Self {
        Self {
            url,
            method,
            status,
            www_authenticate: &[],
            authorization: None,
            dpop_nonce: None,
            again: 0,
            repeatable: true,
        }
    }
}

/// What to do after a challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AfterChallenge {
    /// Ask for the authorization again and send the message once more. At most twice for one message, and once more if the
    /// server wants a nonce in the proof of possession.
    Retry,
    /// The message fails with the response of the server.
    GiveUp,
    /// The message fails with this error.
    Fail(CredentialsError),
}

/// There is no authorization.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CredentialsError {
    /// The reason, for people. It contains no secret.
    pub message: String,
    /// The kind of error: [`TransportErrorKind::Unauthorized`], unless the authorization server was not reached.
    pub kind: TransportErrorKind,
}

impl CredentialsError {
    /// An error with a text for people, which must contain no secret.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), kind: TransportErrorKind::Unauthorized }
    }

    /// The same error with another kind, for example because the authorization server was not reached.
    #[must_use]
    pub fn of(self, kind: TransportErrorKind) -> Self {
        Self { kind, ..self }
    }
}

/// Gives the value of the `Authorization` header, which is sent to the origin of the link's URL and to no other.
///
/// Within that origin it is sent to every path. The specification wants it with every request to the server, and the
/// `endpoint` of HTTP+SSE and the target of a redirect have other paths than the URL. Only a server that has the token
/// already can lead there. The server must check the audience of the token
/// ([RFC 8707, 2](https://www.rfc-editor.org/rfc/rfc8707#section-2)).
///
/// Both futures are dropped when the message is aborted. Several may run at once.
pub trait Credentials: Send + Sync + 'static {
    /// The value for a request; `None` sends no such header.
    ///
    /// # Errors
    /// When there is no authorization: the message is not sent.
    fn authorization(
        &self,
        request: AuthorizationRequest<'_>,
    ) -> impl Future<Output = Result<Option<HeaderValue>, CredentialsError>> + Send;

    /// The value of the `DPoP` header for that authorization: a fresh proof of possession for this one request
    /// ([RFC 9449, 4](https://www.rfc-editor.org/rfc/rfc9449#section-4)). `None` sends no such header, and is the default.
    /// Must not block.
    fn proof(&self, request: AuthorizationRequest<'_>, authorization: &HeaderValue) -> Option<HeaderValue> {
        let _ = (request, authorization);
        None
    }

    /// Receives a nonce for the next proofs of possession, which any response may have
    /// ([RFC 9449, 8.2 and 9](https://www.rfc-editor.org/rfc/rfc9449#section-8.2)). Must not block.
    fn answered(&self, url: &str, dpop_nonce: &str) {
        let _ = (url, dpop_nonce);
    }

    /// A name for the current authorization, which must not be a secret. Results for one user only are cached while the name
    /// stays the same, and are shared with other clients of the same [`Cache`](crate::client::Cache) that have the same
    /// name. With `None`, the default, such results are not cached.
    ///
    /// The [specification](https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cache-scope-field)
    /// wants another name for another access token. Must not block.
    fn cache_partition(&self) -> Option<String> {
        None
    }

    /// Decides what to do after the server has refused a request. The default gives up.
    fn challenged(
        &self,
        challenge: AuthorizationChallenge<'_>,
    ) -> impl Future<Output = AfterChallenge> + Send {
        let _ = challenge;
        async { AfterChallenge::GiveUp }
    }
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// [`Credentials`] behind a pointer.
pub trait ErasedCredentials: Send + Sync {
    /// [`Credentials::authorization`].
    fn authorization<'a>(
        &'a self,
        request: AuthorizationRequest<'a>,
    ) -> Boxed<'a, Result<Option<HeaderValue>, CredentialsError>>;

    /// [`Credentials::proof`].
    fn proof(&self, request: AuthorizationRequest<'_>, authorization: &HeaderValue) -> Option<HeaderValue>;

    /// [`Credentials::answered`].
    fn answered(&self, url: &str, dpop_nonce: &str);

    /// [`Credentials::cache_partition`].
    fn cache_partition(&self) -> Option<String>;

    /// [`Credentials::challenged`].
    fn challenged<'a>(&'a self, challenge: AuthorizationChallenge<'a>) -> Boxed<'a, AfterChallenge>;
}

impl<C: Credentials> ErasedCredentials for C {
    fn authorization<'a>(
        &'a self,
        request: AuthorizationRequest<'a>,
    ) -> Boxed<'a, Result<Option<HeaderValue>, CredentialsError>> {
        Box::pin(Credentials::authorization(self, request))
    }

    fn proof(&self, request: AuthorizationRequest<'_>, authorization: &HeaderValue) -> Option<HeaderValue> {
        Credentials::proof(self, request, authorization)
    }

    fn answered(&self, url: &str, dpop_nonce: &str) {
        Credentials::answered(self, url, dpop_nonce);
    }

    fn cache_partition(&self) -> Option<String> {
        Credentials::cache_partition(self)
    }

    fn challenged<'a>(&'a self, challenge: AuthorizationChallenge<'a>) -> Boxed<'a, AfterChallenge> {
        Box::pin(Credentials::challenged(self, challenge))
    }
}
