//! The interface that authorization implements: which requests are admitted, in whose name, and what they may do.
//!
//! [`Admission`] is called once for each request, after the checks of `Host` and `Origin` and before a body is read. The HTTP
//! server knows nothing about tokens. `mcpjoin-auth` implements the trait for an OAuth 2.1 resource server.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderValue, Response};
use mcpjoin_proto::decode::Decoded;
use mcpjoin_proto::session::{Attachment, Origin};
use mcpjoin_proto::{ErrorObject, Message, RequestId};
use tokio::time::Instant;

use super::body::HttpBody;
use super::head::{Refusal, RequestParts};
use super::replicas::Passed;
use super::{Shared, reply, request_id};

/// Decides which HTTP requests are admitted. Given to [`HttpOptions::admission`](super::HttpOptions::admission).
///
/// Several requests may be decided at the same time. The future of [`admit`](Self::admit) is dropped when the client closes
/// its connection.
pub trait Admission: Send + Sync {
    /// Returns the JSON document at `path`, which is no path of the MCP service. Every client may read it: it is served
    /// before [`admit`](Self::admit) is called. By default there is none.
    fn document(&self, path: &str) -> Option<Bytes> {
        let _ = path;
        None
    }

    /// Decides by the head of a request in whose name it is made.
    ///
    /// # Errors
    /// When the request is refused. The client receives the status and the challenge of [`Denied`].
    fn admit<'a>(&'a self, parts: &'a Parts) -> Admitting<'a>;

    /// Decides whether an admitted client may send `messages`, the messages of one request. By default it may.
    ///
    /// # Errors
    /// When one of them is refused; then none is delivered.
    fn allow(
        &self,
        admitted: &Admitted,
        messages: &mut dyn Iterator<Item = &Message>,
    ) -> Result<(), Box<Denied>> {
        let _ = (admitted, messages);
        Ok(())
    }
}

/// The future that [`Admission::admit`] returns.
pub type Admitting<'a> = Pin<Box<dyn Future<Output = Result<Admitted, Box<Denied>>> + Send + 'a>>;

/// The client that made an admitted request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Admitted {
    /// Identifies the client. Sessions, tasks and request states belong to one principal and are invisible to others.
    pub principal: Box<str>,
    /// What the client may do, in the order of its token, with the scopes that others imply. Handlers read them in
    /// [`Context::origin`](crate::connection::Context::origin).
    pub scopes: Arc<[Box<str>]>,
    /// When the admission expires. Streams without an end of their own are closed then. `None`: never.
    pub until: Option<Instant>,
    /// What else is known about the client, by type: its account, the claims of its token. Handlers read them with
    /// [`Context::extension`](crate::connection::Context::extension), before what stands in the extensions of the request.
    pub extensions: Extensions,
}

impl Admitted {
    /// An admission without scopes that does not expire.
    #[must_use]
    pub fn new(principal: impl Into<Box<str>>) -> Self {
        let extensions = Extensions::new();
        Self { principal: principal.into(), scopes: Arc::new([]), until: None, extensions }
    }

    /// Adds a value for handlers, which read it by its type: `cx.extension::<User>()`.
    #[must_use]
    pub fn with_extension<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.extensions.insert(value);
        self
    }

    /// Sets what the client may do.
    #[must_use]
    pub fn with_scopes<S: Into<Box<str>>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }
}

/// Admits requests by their access token. Created by [`HttpOptions::bearer_tokens`](super::HttpOptions::bearer_tokens).
pub(super) struct BearerTokens<F>(pub(super) F);

impl<F, Fut> Admission for BearerTokens<F>
where
    F: Fn(String) -> Fut + Send + Sync,
    Fut: Future<Output = Option<Admitted>> + Send + 'static,
{
    fn admit<'a>(&'a self, parts: &'a Parts) -> Admitting<'a> {
        let token = bearer_token(&parts.headers).map(|token| (self.0)(token.to_owned()));
        Box::pin(async move {
            let refused = |why, challenge| {
                let challenge = Some(HeaderValue::from_static(challenge));
                Box::new(Denied { challenge, ..Denied::new(401, why) })
            };
            match token {
                None => Err(refused("the access token is missing", "Bearer")),
                Some(token) => {
                    token.await.ok_or_else(|| refused("the access token is not valid", INVALID_TOKEN))
                }
            }
        })
    }
}

/// The challenge where a token is not valid. <https://www.rfc-editor.org/rfc/rfc6750#section-3.1>
const INVALID_TOKEN: &str = "Bearer error=\"invalid_token\"";

/// Returns the token of the only `Authorization` header, if it has the scheme `Bearer`.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Why a request is refused.
#[derive(Debug)]
#[non_exhaustive]
pub struct Denied {
    /// The HTTP status. With 503 the client is asked to retry after a second.
    pub status: u16,
    /// The value of `WWW-Authenticate`, which tells the client how to be admitted.
    pub challenge: Option<HeaderValue>,
    /// The message of the JSON-RPC error in the body, for people.
    pub why: String,
}

impl Denied {
    /// A refusal without a challenge.
    #[must_use]
    pub fn new(status: u16, why: impl Into<String>) -> Self {
        Self { status, challenge: None, why: why.into() }
    }

    fn into_response(self, id: Option<RequestId>) -> Response<HttpBody> {
        let mut response = reply::error(self.status, id, ErrorObject::invalid_request(&*self.why));
        if let Some(challenge) = self.challenge {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        if self.status == 503 {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl Shared {
    /// Admits a request by its head. `passed`: the client, if another process has passed the request. Returns `None` for the
    /// admission where no [`Admission`] is configured, and the origin of the request with its principal and its head.
    pub(super) async fn admit(
        &self,
        request: &Arc<RequestParts>,
        connection: &Origin,
        passed: Option<Passed>,
    ) -> Result<(Option<Admitted>, Arc<Origin>), Refusal> {
        let origin = |principal, scopes| {
            let attachment = Some(Attachment::new(request.clone()));
            let peer = passed.as_ref().map_or(&connection.peer, |passed| &passed.peer).clone();
            Arc::new(Origin { peer, principal, scopes, attachment, ..connection.clone() })
        };
        let Some(admission) = &self.options.admission else {
            let principal = match &passed {
                Some(passed) => passed.principal.clone(),
                None => {
                    let principal = self.options.principal.as_ref();
                    principal.and_then(|principal| principal(&request.parts)).map(Into::into)
                }
            };
            return Ok((None, origin(principal, None)));
        };
        match admission.admit(&request.parts).await {
            Ok(mut admitted) => {
                request.admit(std::mem::take(&mut admitted.extensions));
                let (principal, scopes) = (admitted.principal.clone(), admitted.scopes.clone());
                Ok((Some(admitted), origin(Some(principal), Some(scopes))))
            }
            Err(denied) => Err(Box::new(denied.into_response(None))),
        }
    }

    /// Checks whether an admitted client may send these messages.
    pub(super) fn allow(&self, admitted: Option<&Admitted>, decoded: &Decoded) -> Result<(), Refusal> {
        let (Some(admission), Some(admitted)) = (&self.options.admission, admitted) else { return Ok(()) };
        let (allowed, id) = match decoded {
            Decoded::Message(message) => {
                (admission.allow(admitted, &mut std::iter::once(message)), request_id(message))
            }
            Decoded::Batch(parts) => (admission.allow(admitted, &mut parts.iter().flatten()), None),
        };
        allowed.map_err(|denied| Box::new(denied.into_response(id.cloned())))
    }
}
