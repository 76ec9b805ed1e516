//! One HTTP request: authorization, redirects within the origin, and a description of what failed.
//!
//! Called by everything here that sends. It follows a redirect only within the origin of the transport's URL, so that no
//! header, no session and no body leaves it (CVE-2026-64684, CVE-2026-111769). It reads no body.

use std::collections::hash_map::RandomState;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::{MediaType, OriginError, resolve_same_origin};
use mcpjoin_proto::session::{Limits, Origin, TransportError, TransportErrorReason as Reason};
use sha2::{Digest, Sha256};
use url::Url;

use super::credentials::{
    AfterChallenge, AuthorizationChallenge, AuthorizationRequest, ErasedCredentials,
    MAX_AUTHORIZATION_RETRIES,
};
use crate::http::{Body, Client, Proxy, Response, Taken, describe, is_refused, shown};
use crate::transport::{CredentialKey, PeerIdentity};

/// How many redirects of one request are followed.
const MAX_REDIRECTS: usize = 5;
/// The proof of possession, and the nonce that a server wants in it
/// ([RFC 9449, 4 and 8](https://www.rfc-editor.org/rfc/rfc9449#section-4)).
const DPOP: HeaderName = HeaderName::from_static("dpop");
const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");
/// The longest `DPoP-Nonce` header that is passed to the credentials, which may use shorter nonces only.
const MAX_NONCE_HEADER_BYTES: usize = 4096;

/// A request that was made, and its response.
#[cfg(unix)]
#[derive(Debug)]
pub struct Exchanged<'a> {
    /// The method of HTTP.
    pub method: &'a Method,
    /// The URL that was requested.
    pub url: &'a Url,
    /// The method of MCP, or the purpose of the request.
    pub about: &'a str,
    /// The head of the response; or why there is none, and the message of that error without the request.
    pub outcome: Result<(StatusCode, &'a HeaderMap), (&'a TransportError, &'a str)>,
}

/// Called for each request of HTTP, also for those that are repeated or redirected. Must not block.
#[cfg(unix)]
pub(crate) type ExchangeLog = Arc<dyn Fn(&Exchanged<'_>) + Send + Sync>;

/// Sends requests to one server, with what each of them needs.
#[derive(Clone)]
pub(super) struct Requester {
    client: Client,
    pub(super) url: Url,
    headers: HeaderMap,
    credentials: Option<Arc<dyn ErasedCredentials>>,
    connect_timeout: Duration,
    /// The proxy to the server, as errors name it.
    via: Option<Arc<str>>,
    #[cfg(unix)]
    log: Option<ExchangeLog>,
    pub(super) limits: Limits,
    pub(super) origin: Arc<Origin>,
    /// The hash of the keys of the session's events.
    pub(super) event_hash: RandomState,
}

/// A request to send.
#[derive(Clone, Debug)]
pub(super) struct HttpRequest {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
    /// The method of MCP, or the purpose of the request, as errors name it.
    pub(super) about: Box<str>,
    /// The proxy to the server, as errors name it.
    pub(super) via: Option<Arc<str>>,
    /// Reports when the body is taken for sending.
    pub(super) taken: Option<Taken>,
}

/// A request without a response.
#[derive(Debug)]
pub(super) struct RequestError {
    pub(super) error: TransportError,
    /// The message of the error without the request.
    what: String,
    /// No connection was made: the server has not seen the request.
    pub(super) unsent: bool,
    /// The connection was refused: nothing listens there.
    pub(super) refused: bool,
}

impl Requester {
    pub(super) fn new(
        client: Client,
        url: Url,
        headers: HeaderMap,
        credentials: Option<Arc<dyn ErasedCredentials>>,
        connect_timeout: Duration,
        proxy: Option<&Proxy>,
    ) -> Self {
        Self {
            origin: Arc::new(Origin { peer: Some(shown(&url).into()), ..Origin::new("http") }),
            client,
            url,
            headers,
            credentials,
            connect_timeout,
            via: proxy.map(|proxy| proxy.to_string().into()),
            #[cfg(unix)]
            log: None,
            limits: Limits::default(),
            event_hash: RandomState::new(),
        }
    }

    /// Calls `log` for every request.
    #[cfg(unix)]
    pub(super) fn logged(self, log: Option<ExchangeLog>) -> Self {
        Self { log, ..self }
    }

    /// A request to the server's URL, without headers and without a body.
    pub(super) fn request(&self, method: Method, about: impl Into<Box<str>>) -> HttpRequest {
        HttpRequest {
            method,
            url: self.url.clone(),
            headers: HeaderMap::new(),
            body: None,
            about: about.into(),
            via: self.via.clone(),
            taken: None,
        }
    }

    /// The server and the user of this transport, for caches. The user is that of the credentials, or of a fixed header; a
    /// digest names the header, because caches keep the name.
    pub(super) fn identity(&self) -> PeerIdentity {
        let authorization = match &self.credentials {
            Some(credentials) => {
                let credentials = Arc::clone(credentials);
                CredentialKey::Dynamic(Arc::new(move || credentials.cache_partition()))
            }
            None if self.headers.contains_key(header::AUTHORIZATION) => {
                let mut digest = Sha256::new();
                for (key, value) in &self.headers {
                    digest.update((key.as_str().len() as u64).to_be_bytes());
                    digest.update(key.as_str());
                    digest.update((value.len() as u64).to_be_bytes());
                    digest.update(value.as_bytes());
                }
                let key: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
                CredentialKey::Known(key.into())
            }
            None => CredentialKey::Constant,
        };
        PeerIdentity::new(Some(self.url.to_string()), authorization)
    }

    /// Sends a request. Follows redirects, and sends it again with a new authorization where the server refuses the first.
    /// Returns a response of 401 or 403 only if the credentials have nothing better.
    pub(super) async fn send(&self, http_request: &HttpRequest) -> Result<Response, RequestError> {
        let mut url = http_request.url.clone();
        let mut visited = Vec::new();
        let mut retries = 0;
        let mut nonced = false;
        loop {
            let mut authorization = None;
            let outcome = self.send_once(http_request, &url, &mut authorization).await;
            #[cfg(unix)]
            self.log_exchange(http_request, &url, &outcome);
            let response = outcome?;
            let nonce = self.nonce(&url, &response);
            match response.status() {
                StatusCode::MOVED_PERMANENTLY
                | StatusCode::FOUND
                | StatusCode::SEE_OTHER
                | StatusCode::TEMPORARY_REDIRECT
                | StatusCode::PERMANENT_REDIRECT => {
                    let redirected = |error: TransportError| {
                        http_request.fail(error.with_http_status(response.status().as_u16()))
                    };
                    let to = redirect_target(http_request, &url, &response).map_err(redirected)?;
                    visited.push(std::mem::replace(&mut url, to));
                    if visited.len() > MAX_REDIRECTS {
                        return Err(redirected(match visited.contains(&url) {
                            true => not_followed(format!(
                                "more than {MAX_REDIRECTS} redirects, which form a loop; the last leads to {}",
                                shown(&url)
                            ))
                            .because(Reason::RedirectLoop),
                            false => not_followed(format!("more than {MAX_REDIRECTS} redirects")),
                        }));
                    }
                }
                status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                    let Some(credentials) = &self.credentials else { return Ok(response) };
                    let values = response.headers().get_all(name::WWW_AUTHENTICATE).iter();
                    // A description may be in any language.
                    let values: Vec<_> =
                        values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
                    let values: Vec<&str> = values.iter().map(AsRef::as_ref).collect();
                    let wants_nonce = nonce.is_some() && status == StatusCode::UNAUTHORIZED && !nonced;
                    let repeatable = retries < MAX_AUTHORIZATION_RETRIES || wants_nonce;
                    let challenge = AuthorizationChallenge {
                        url: url.as_str(),
                        method: http_request.method.as_str(),
                        status: status.as_u16(),
                        www_authenticate: &values,
                        authorization: authorization.as_ref(),
                        dpop_nonce: nonce.as_deref(),
                        again: retries,
                        repeatable,
                    };
                    match credentials.challenged(challenge).await {
                        AfterChallenge::Retry if !repeatable => return Ok(response),
                        AfterChallenge::Retry if wants_nonce => nonced = true,
                        AfterChallenge::Retry => retries += 1,
                        AfterChallenge::GiveUp => return Ok(response),
                        AfterChallenge::Fail(error) => {
                            let refused =
                                if status == StatusCode::FORBIDDEN { "forbidden" } else { "not authorized" };
                            let what = TransportError::new(format!("{refused}: {error}"), false);
                            return Err(
                                http_request.fail(what.of(error.kind).with_http_status(status.as_u16()))
                            );
                        }
                    }
                }
                _ => return Ok(response),
            }
        }
    }

    /// The DPoP nonce in a response, which the credentials get.
    fn nonce(&self, url: &Url, response: &Response) -> Option<String> {
        let credentials = self.credentials.as_ref()?;
        let mut values = response.headers().get_all(DPOP_NONCE).iter();
        let (Some(nonce), None) = (values.next(), values.next()) else { return None };
        let nonce =
            nonce.to_str().ok().filter(|nonce| !nonce.is_empty() && nonce.len() <= MAX_NONCE_HEADER_BYTES)?;
        credentials.answered(url.as_str(), nonce);
        Some(nonce.to_owned())
    }

    #[cfg(unix)]
    fn log_exchange(&self, http_request: &HttpRequest, url: &Url, outcome: &Result<Response, RequestError>) {
        if let Some(log) = &self.log {
            let outcome = outcome.as_ref();
            log(&Exchanged {
                method: &http_request.method,
                url,
                about: &http_request.about,
                outcome: outcome
                    .map(|response| (response.status(), response.headers()))
                    .map_err(|failure| (&failure.error, &*failure.what)),
            });
        }
    }

    /// Sends the request once. Sets `authorization` to what it was sent with.
    async fn send_once(
        &self,
        http_request: &HttpRequest,
        url: &Url,
        authorization: &mut Option<HeaderValue>,
    ) -> Result<Response, RequestError> {
        let mut headers = self.headers.clone();
        for (key, value) in &http_request.headers {
            headers.insert(key, value.clone());
        }
        if let Some(credentials) = &self.credentials {
            let request = AuthorizationRequest::new(url.as_str(), http_request.method.as_str());
            let value = credentials.authorization(request).await;
            let value = value.map_err(|error| {
                let what = TransportError::new(format!("not sent, no authorization: {error}"), false);
                let what = what.of(error.kind).because(Reason::NoCredentials);
                RequestError { unsent: true, ..http_request.fail(what) }
            })?;
            if let Some(mut value) = value {
                value.set_sensitive(true);
                if let Some(mut proof) = credentials.proof(request, &value) {
                    proof.set_sensitive(true);
                    headers.insert(DPOP, proof);
                }
                headers.insert(header::AUTHORIZATION, value.clone());
                *authorization = Some(value);
            }
        }
        let body = http_request.body.clone().unwrap_or_default();
        let body = Body::reporting(body, http_request.taken.clone());
        let sent = self.client.send(http_request.method.clone(), url, headers, body);
        sent.await.map_err(|error| {
            let (unsent, refused) = (error.is_connect(), is_refused(&error));
            let what = describe(&error, url, self.connect_timeout, self.via.is_some());
            RequestError { unsent, refused, ..http_request.fail(what) }
        })
    }
}

/// The target of a redirect, or the reason why it is not followed.
fn redirect_target(
    http_request: &HttpRequest,
    url: &Url,
    response: &Response,
) -> Result<Url, TransportError> {
    let status = response.status();
    let Some(location) = response.headers().get(header::LOCATION) else {
        return Err(not_followed(format!("{status} without a Location")));
    };
    let Ok(location) = location.to_str() else {
        return Err(not_followed(format!("{status} with an unreadable Location")));
    };
    let followed = resolve_same_origin(url.as_str(), location).map_err(|error| match error {
        OriginError::OtherOrigin => {
            let other = Url::parse(location).map_or_else(|_| "another origin".into(), |other| shown(&other));
            not_followed(format!(
                "{status} redirects to {other}, another origin: not followed, nothing was sent there"
            ))
            .because(Reason::RedirectToOtherOrigin)
        }
        error => not_followed(format!("{status} redirects to a URL that is not followed: {error}")),
    })?;
    let keeps_method = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    if http_request.method != Method::GET && !keeps_method {
        let followed = Url::parse(&followed).map(|to| shown(&to)).unwrap_or(followed);
        return Err(not_followed(format!(
            "{status} redirects to {followed}; this would change {} to GET, so it is not followed: use \
             that URL",
            http_request.method
        )));
    }
    Url::parse(&followed)
        .map_err(|error| not_followed(format!("{status} redirects to an invalid URL: {error}")))
}

fn not_followed(what: String) -> TransportError {
    TransportError::new(what, false).because(Reason::RedirectNotFollowed)
}

impl HttpRequest {
    /// An error that names this request.
    pub(super) fn error(&self, what: impl AsRef<str>, retryable: bool) -> TransportError {
        TransportError::new(self.named(what.as_ref()), retryable).with_http_request(&*self.about)
    }

    fn named(&self, what: &str) -> String {
        let via = self.via.as_ref().map(|via| format!(", {via}")).unwrap_or_default();
        format!("{} {} ({}{via}): {what}", self.method, shown(&self.url), self.about)
    }

    /// A failure of this request, which its message names then.
    pub(super) fn fail(&self, mut error: TransportError) -> RequestError {
        let what = std::mem::take(&mut error.message);
        error.message = self.named(&what);
        let error = error.with_http_request(&*self.about);
        RequestError { error, what, unsent: false, refused: false }
    }
}

/// The content type of a response.
pub(super) fn media_type(response: &Response) -> MediaType {
    MediaType::of(response.headers().get(name::CONTENT_TYPE).map(HeaderValue::as_bytes))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::credentials::{AuthorizationRequest, CredentialsError};
    use super::*;
    use crate::transport::Link;

    /// Records the nonces.
    struct NonceRecorder(Arc<Mutex<Vec<String>>>);

    impl super::super::Credentials for NonceRecorder {
        async fn authorization(
            &self,
            _: AuthorizationRequest<'_>,
        ) -> Result<Option<HeaderValue>, CredentialsError> {
            Ok(None)
        }

        fn answered(&self, _: &str, dpop_nonce: &str) {
            self.0.lock().expect("not poisoned").push(dpop_nonce.to_owned());
        }
    }

    #[test]
    fn a_nonce_that_is_too_long_is_none() {
        let recorded = Arc::new(Mutex::new(Vec::new()));
        let link = Link::http("http://127.0.0.1:1/")
            .credentials(NonceRecorder(recorded.clone()))
            .link()
            .expect("a URL");
        let nonce = |bytes: usize| {
            let response = http::Response::builder().header(DPOP_NONCE, "n".repeat(bytes)).body(Bytes::new());
            link.requester.nonce(&link.requester.url, &Response::from(response.expect("a response")))
        };
        assert_eq!([MAX_NONCE_HEADER_BYTES + 1, 0].map(nonce), [None, None]);
        assert_eq!(nonce(MAX_NONCE_HEADER_BYTES), Some("n".repeat(MAX_NONCE_HEADER_BYTES)));
        assert_eq!(*recorded.lock().expect("not poisoned"), ["n".repeat(MAX_NONCE_HEADER_BYTES)]);
    }
}
