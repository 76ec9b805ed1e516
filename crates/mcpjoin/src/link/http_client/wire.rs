//! One request of HTTP, whatever it is about: authorization, redirects within the origin, and what failed in words.
//!
//! Called by `exchange`, `listen` and `sse2024`. It follows a redirect only within the origin of the link's URL, so
//! that no header, no session and no body ever leaves it (CVE-2026-64684, CVE-2026-111769), and it never reads a body.

use std::collections::hash_map::RandomState;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::{MediaType, OriginError, resolve_same_origin};
use mcpjoin_proto::session::{Limits, LinkError, Origin};
use reqwest::{Response, Url};
use sha2::{Digest, Sha256};

use super::credentials::{
    AfterChallenge, AuthorizationChallenge, AuthorizationRequest, ErasedCredentials, ROUNDS,
};
use super::failure;
use super::proxy::Proxy;
#[cfg(unix)]
use super::witness::{Exchanged, Witness};
use crate::link::{Authorization, Standing};

/// How many redirects of one request are followed.
const REDIRECTS: usize = 5;
/// The proof of possession, and the nonce that a server wants in it
/// ([RFC 9449, 4 and 8](https://www.rfc-editor.org/rfc/rfc9449#section-4)).
const DPOP: HeaderName = HeaderName::from_static("dpop");
const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");
/// A longer nonce is none, in bytes: it is sent back in the header of each request.
const NONCE: usize = 4096;

/// What every request needs.
#[derive(Clone)]
pub(super) struct Wire {
    client: reqwest::Client,
    pub(super) url: Url,
    headers: HeaderMap,
    credentials: Option<Arc<dyn ErasedCredentials>>,
    connect_timeout: Duration,
    /// The proxy that is asked in place of the server, in words.
    via: Option<Arc<str>>,
    #[cfg(unix)]
    witness: Option<Witness>,
    pub(super) limits: Limits,
    pub(super) origin: Arc<Origin>,
    /// What the events of the session are marked with.
    pub(super) marks: RandomState,
}

/// A request to make.
#[derive(Clone, Debug)]
pub(super) struct Sending {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
    /// What it is for: the method of MCP, in errors.
    pub(super) about: Box<str>,
    /// The proxy on the way, in errors.
    pub(super) via: Option<Arc<str>>,
}

/// A request that brought no response.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) error: LinkError,
    /// No connection was made: the server has seen nothing of it.
    pub(super) unsent: bool,
    /// Nobody listens there.
    pub(super) refused: bool,
}

impl Wire {
    pub(super) fn new(
        client: reqwest::Client,
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
            witness: None,
            limits: Limits::default(),
            marks: RandomState::new(),
        }
    }

    /// Told of every request.
    #[cfg(unix)]
    pub(super) fn witnessed(self, witness: Option<Witness>) -> Self {
        Self { witness, ..self }
    }

    /// A request to the server's URL, without headers and without a body.
    pub(super) fn sending(&self, method: Method, about: impl Into<Box<str>>) -> Sending {
        Sending {
            method,
            url: self.url.clone(),
            headers: HeaderMap::new(),
            body: None,
            about: about.into(),
            via: self.via.clone(),
        }
    }

    /// Where it leads, and in whose name: that of the credentials, or of a header that is always the same. It is named by
    /// a digest, because what is named is kept.
    pub(super) fn standing(&self) -> Standing {
        let authorization = match &self.credentials {
            Some(credentials) => {
                let credentials = Arc::clone(credentials);
                Authorization::Told(Arc::new(move || credentials.cache_partition()))
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
                Authorization::Known(key.into())
            }
            None => Authorization::Lasting,
        };
        Standing { place: Some(self.url.to_string()), authorization }
    }

    /// Sends a request, and again where a redirect or a refused authorization asks for that. A 401 or 403 comes back
    /// when nothing more can be done about it.
    pub(super) async fn send(&self, sending: &Sending) -> Result<Response, Unanswered> {
        let mut url = sending.url.clone();
        let mut been = Vec::new();
        let mut rounds = 0;
        let mut nonced = false;
        loop {
            let mut authorization = None;
            let outcome = self.once(sending, &url, &mut authorization).await;
            #[cfg(unix)]
            self.tell(sending, &url, &outcome);
            let response = outcome?;
            let nonce = self.nonce(&url, &response);
            match response.status() {
                StatusCode::MOVED_PERMANENTLY
                | StatusCode::FOUND
                | StatusCode::SEE_OTHER
                | StatusCode::TEMPORARY_REDIRECT
                | StatusCode::PERMANENT_REDIRECT => {
                    let to = target(sending, &url, &response).map_err(|what| sending.fail(what, false))?;
                    been.push(std::mem::replace(&mut url, to));
                    if been.len() > REDIRECTS {
                        let what = match been.contains(&url) {
                            true => format!("more than {REDIRECTS} redirects, which go round in a circle"),
                            false => format!("more than {REDIRECTS} redirects"),
                        };
                        return Err(sending.fail(what, false));
                    }
                }
                status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                    let Some(credentials) = &self.credentials else { return Ok(response) };
                    let values: Vec<&str> = response
                        .headers()
                        .get_all(name::WWW_AUTHENTICATE)
                        .iter()
                        .filter_map(|value| value.to_str().ok())
                        .collect();
                    let wants_nonce = nonce.is_some() && status == StatusCode::UNAUTHORIZED && !nonced;
                    let repeatable = rounds < ROUNDS || wants_nonce;
                    let challenge = AuthorizationChallenge {
                        url: url.as_str(),
                        method: sending.method.as_str(),
                        status: status.as_u16(),
                        www_authenticate: &values,
                        authorization: authorization.as_ref(),
                        dpop_nonce: nonce.as_deref(),
                        again: rounds,
                        repeatable,
                    };
                    match credentials.challenged(challenge).await {
                        AfterChallenge::Retry if !repeatable => return Ok(response),
                        AfterChallenge::Retry if wants_nonce => nonced = true,
                        AfterChallenge::Retry => rounds += 1,
                        AfterChallenge::GiveUp => return Ok(response),
                        AfterChallenge::Fail(error) => {
                            let refused =
                                if status == StatusCode::FORBIDDEN { "forbidden" } else { "not authorized" };
                            let kind = error.kind;
                            let error = sending.error(format!("{refused}: {error}"), false).of(kind);
                            return Err(Unanswered { error, unsent: false, refused: false });
                        }
                    }
                }
                _ => return Ok(response),
            }
        }
    }

    /// The nonce that came with a response, which the credentials are told of.
    fn nonce(&self, url: &Url, response: &Response) -> Option<String> {
        let credentials = self.credentials.as_ref()?;
        let mut values = response.headers().get_all(DPOP_NONCE).iter();
        let (Some(nonce), None) = (values.next(), values.next()) else { return None };
        let nonce = nonce.to_str().ok().filter(|nonce| !nonce.is_empty() && nonce.len() <= NONCE)?;
        credentials.answered(url.as_str(), nonce);
        Some(nonce.to_owned())
    }

    #[cfg(unix)]
    fn tell(&self, sending: &Sending, url: &Url, outcome: &Result<Response, Unanswered>) {
        if let Some(witness) = &self.witness {
            let outcome = outcome.as_ref();
            witness(&Exchanged {
                method: &sending.method,
                url,
                about: &sending.about,
                outcome: outcome
                    .map(|response| (response.status(), response.headers()))
                    .map_err(|unanswered| &unanswered.error),
            });
        }
    }

    /// Sends it once, and says with which authorization.
    async fn once(
        &self,
        sending: &Sending,
        url: &Url,
        authorization: &mut Option<HeaderValue>,
    ) -> Result<Response, Unanswered> {
        let mut headers = self.headers.clone();
        for (key, value) in &sending.headers {
            headers.insert(key, value.clone());
        }
        if let Some(credentials) = &self.credentials {
            let request = AuthorizationRequest::new(url.as_str(), sending.method.as_str());
            let value = credentials.authorization(request).await;
            let value = value.map_err(|error| {
                let kind = error.kind;
                let error = sending.error(format!("not sent, no authorization: {error}"), false).of(kind);
                Unanswered { error, unsent: true, refused: false }
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
        let mut request = self.client.request(sending.method.clone(), url.clone()).headers(headers);
        if let Some(body) = &sending.body {
            request = request.body(body.clone());
        }
        request.send().await.map_err(|error| {
            let (unsent, refused) = (error.is_connect(), failure::is_refused(&error));
            let proxied = self.via.is_some();
            let (kind, what, retryable) = failure::describe(&error, url, self.connect_timeout, proxied);
            Unanswered { error: sending.error(what, retryable).of(kind), unsent, refused }
        })
    }
}

/// Where a redirect leads; else why it is not followed.
fn target(sending: &Sending, url: &Url, response: &Response) -> Result<Url, String> {
    let status = response.status();
    let Some(location) = response.headers().get(header::LOCATION) else {
        return Err(format!("{status} without a Location"));
    };
    let Ok(location) = location.to_str() else {
        return Err(format!("{status} with a Location that is not readable"));
    };
    let followed = resolve_same_origin(url.as_str(), location).map_err(|error| match error {
        OriginError::OtherOrigin => {
            let other = Url::parse(location).map_or_else(|_| "another origin".into(), |other| shown(&other));
            format!(
                "{status} leads to {other}, which is another origin: not followed, nothing was sent there"
            )
        }
        error => format!("{status} leads to a URL that is not followed: {error}"),
    })?;
    let keeps_method = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    if sending.method != Method::GET && !keeps_method {
        let followed = Url::parse(&followed).map(|to| shown(&to)).unwrap_or(followed);
        return Err(format!(
            "{status} leads to {followed}; it would turn {} into GET, so it is not followed: use that URL",
            sending.method
        ));
    }
    Url::parse(&followed).map_err(|error| format!("{status} leads to a URL that is none: {error}"))
}

impl Sending {
    /// The error for this request.
    pub(super) fn error(&self, what: impl AsRef<str>, retryable: bool) -> LinkError {
        let via = self.via.as_ref().map(|via| format!(", {via}")).unwrap_or_default();
        let message =
            format!("{} {} ({}{via}): {}", self.method, shown(&self.url), self.about, what.as_ref());
        LinkError::new(message, retryable)
    }

    fn fail(&self, what: String, retryable: bool) -> Unanswered {
        Unanswered { error: self.error(what, retryable), unsent: false, refused: false }
    }
}

/// A URL for people: without what may be secret in its query.
pub(crate) fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let query = if url.query().is_some() { "?..." } else { "" };
    format!("{}://{host}{port}{}{query}", url.scheme(), url.path())
}

/// What the body of a response is said to be.
pub(super) fn media_type(response: &Response) -> MediaType {
    MediaType::of(response.headers().get(name::CONTENT_TYPE).map(HeaderValue::as_bytes))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::credentials::{AuthorizationRequest, CredentialsError};
    use super::*;
    use crate::link::Link;

    /// Hears the nonces.
    struct Hears(Arc<Mutex<Vec<String>>>);

    impl super::super::Credentials for Hears {
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
        let heard = Arc::new(Mutex::new(Vec::new()));
        let link = Link::http("http://127.0.0.1:1/").credentials(Hears(heard.clone())).link().expect("a URL");
        let nonce = |bytes: usize| {
            let response = http::Response::builder().header(DPOP_NONCE, "n".repeat(bytes)).body("");
            link.wire.nonce(&link.wire.url, &Response::from(response.expect("a response")))
        };
        assert_eq!([NONCE + 1, 0].map(nonce), [None, None]);
        assert_eq!(nonce(NONCE), Some("n".repeat(NONCE)));
        assert_eq!(*heard.lock().expect("not poisoned"), ["n".repeat(NONCE)]);
    }
}
