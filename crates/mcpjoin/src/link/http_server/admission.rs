//! The seam behind which authorization stands: who is let in, for how long, and to what.
//!
//! Implemented by the resource server of [`auth`](crate::auth); asked for each request, behind the guard of `Host` and
//! `Origin` and before a body is read. Nothing here knows what a token is.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>
#![cfg_attr(not(feature = "oauth"), allow(dead_code, reason = "there is nobody to be asked"))]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderValue, Response};
use mcpjoin_proto::decode::Decoded;
use mcpjoin_proto::session::Origin;
use mcpjoin_proto::{ErrorObject, Message, RequestId};
use tokio::time::Instant;

use super::body::HttpBody;
use super::head::Refusal;
use super::{Shared, reply, request_id};

/// Who decides.
pub(crate) trait Admission: Send + Sync {
    /// The JSON document at a path that is none of the service's own: everybody may read it.
    fn document(&self, path: &str) -> Option<Bytes>;

    /// Who makes a request, by its head.
    fn admit<'a>(&'a self, parts: &'a Parts) -> Admitting<'a>;

    /// Whether they may have these messages done.
    fn allow(
        &self,
        admitted: &Admitted,
        messages: &mut dyn Iterator<Item = &Message>,
    ) -> Result<(), Box<Denied>>;
}

/// What [`Admission::admit`] finds out.
pub(crate) type Admitting<'a> = Pin<Box<dyn Future<Output = Result<Admitted, Box<Denied>>> + Send + 'a>>;

/// Who was let in.
#[derive(Clone)]
pub(crate) struct Admitted {
    pub(crate) principal: Box<str>,
    /// In their order, with those that others imply.
    pub(crate) scopes: Arc<[Box<str>]>,
    /// Until when streams that have no end of their own may last.
    pub(crate) until: Option<Instant>,
}

/// Why somebody was not let in.
#[derive(Debug)]
pub(crate) struct Denied {
    pub(crate) status: u16,
    /// How to be let in, where that is known.
    pub(crate) challenge: Option<HeaderValue>,
    /// For a person to read.
    pub(crate) why: String,
}

impl Denied {
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
    /// Who makes a request: nobody who is asked for, where nobody decides. Gives with it in whose name the request came.
    pub(super) async fn admit(
        &self,
        parts: &Parts,
        origin: Arc<Origin>,
    ) -> Result<(Option<Admitted>, Arc<Origin>), Refusal> {
        let Some(admission) = &self.options.admission else {
            let principal = self.options.principal.as_ref().and_then(|principal| principal(parts));
            return Ok((None, said_by(origin, principal.map(Into::into), None)));
        };
        match admission.admit(parts).await {
            Ok(admitted) => {
                let (principal, scopes) = (admitted.principal.clone(), admitted.scopes.clone());
                Ok((Some(admitted), said_by(origin, Some(principal), Some(scopes))))
            }
            Err(denied) => Err(Box::new(denied.into_response(None))),
        }
    }

    /// Whether whoever was let in may have that done.
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

/// From where a request came, and in whose name.
fn said_by(origin: Arc<Origin>, principal: Option<Box<str>>, scopes: Option<Arc<[Box<str>]>>) -> Arc<Origin> {
    match principal {
        Some(_) => Arc::new(Origin { principal, scopes, ..(*origin).clone() }),
        None => origin,
    }
}
