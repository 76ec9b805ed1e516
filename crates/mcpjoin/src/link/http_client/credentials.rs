//! Who says what stands in `Authorization`: the seam between this transport and whoever authorizes.
//!
//! Called by `wire` for every request. Nothing here knows how an authorization is come by.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

use std::future::Future;
use std::pin::Pin;

use http::HeaderValue;
use mcpjoin_proto::session::LinkErrorKind;

/// How often one message may be sent again because its authorization was refused (adversarial case 114). The nonce that a
/// server wants in a proof of possession costs one round more, once.
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
    pub(crate) const fn new(url: &'a str, method: &'a str) -> Self {
        Self { url, method }
    }
}

/// A request that was refused with 401 or 403.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AuthorizationChallenge<'a> {
    /// Where it went.
    pub url: &'a str,
    /// The method of HTTP: nobody should be asked to log in for the `DELETE` that ends a session.
    pub method: &'a str,
    /// 401 or 403.
    pub status: u16,
    /// The values of `WWW-Authenticate`, as far as they are text.
    pub www_authenticate: &'a [&'a str],
    /// What stood in `Authorization`, so that whoever has something newer by now need not ask for it again.
    pub authorization: Option<&'a HeaderValue>,
    /// The value of `DPoP-Nonce`, where the server has given one
    /// ([RFC 9449, 9](https://www.rfc-editor.org/rfc/rfc9449#section-9)). [`Credentials::answered`] has seen it already.
    pub dpop_nonce: Option<&'a str>,
    /// How often the message has been sent again already, nonces aside: 0, when an authorization that is refused need not be new.
    pub again: u32,
    /// Whether the message can be sent once more. When it cannot, it fails whatever comes of the challenge, and there is
    /// nothing left to do but to say why ([`AfterChallenge::Fail`]).
    pub repeatable: bool,
}

/// What to do after a challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AfterChallenge {
    /// Ask for the authorization again and send the message once more. At most twice for one message, and once more
    /// where the server wants a nonce in the proof of possession.
    Retry,
    /// Nothing more can be done: the message fails with what the server has answered.
    GiveUp,
    /// Nothing more can be done: the message fails with this text.
    Fail(CredentialsError),
}

/// No authorization can be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CredentialsError {
    /// Why, for a person. No secret stands in it.
    pub message: String,
    /// In which way the message fails: [`LinkErrorKind::Unauthorized`], unless whoever gives authorizations was not reached.
    pub kind: LinkErrorKind,
}

impl CredentialsError {
    /// With a text for a person, in which no secret may stand.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), kind: LinkErrorKind::Unauthorized }
    }

    /// The same, in another way: whoever gives authorizations was not reached, say.
    #[must_use]
    pub fn of(self, kind: LinkErrorKind) -> Self {
        Self { kind, ..self }
    }
}

/// Says what stands in the `Authorization` header. It is sent to the origin of the link's URL and to no other.
///
/// Within that origin it is sent to every path: the specification wants it with every request to the server, the address of
/// HTTP+SSE's `endpoint` and that of a redirect are elsewhere than the URL as a rule, and only a server that has been given
/// the token already can lead there. Whose it is, its audience says
/// ([RFC 8707, 2](https://www.rfc-editor.org/rfc/rfc8707#section-2)), and the server must look at that.
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

    /// The value of the `DPoP` header that goes with that authorization: a fresh proof of possession for this one request
    /// ([RFC 9449, 4](https://www.rfc-editor.org/rfc/rfc9449#section-4)). `None`, unless this is implemented, sends no
    /// such header. Must not block.
    fn proof(&self, request: AuthorizationRequest<'_>, authorization: &HeaderValue) -> Option<HeaderValue> {
        let _ = (request, authorization);
        None
    }

    /// The server has answered with a nonce for the proofs of possession that come next
    /// ([RFC 9449, 8.2 and 9](https://www.rfc-editor.org/rfc/rfc9449#section-8.2)); any response may bring one. Must not
    /// block.
    fn answered(&self, url: &str, dpop_nonce: &str) {
        let _ = (url, dpop_nonce);
    }

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

/// The form that the link keeps, and whoever asks a server in another way.
pub(crate) trait ErasedCredentials: Send + Sync {
    fn authorization<'a>(
        &'a self,
        request: AuthorizationRequest<'a>,
    ) -> Boxed<'a, Result<Option<HeaderValue>, CredentialsError>>;

    fn proof(&self, request: AuthorizationRequest<'_>, authorization: &HeaderValue) -> Option<HeaderValue>;

    fn answered(&self, url: &str, dpop_nonce: &str);

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
