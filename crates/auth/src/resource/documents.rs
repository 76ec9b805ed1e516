//! Fetches the documents of an authorization server, within limits and only from addresses that it may name
//! ([`fetch`](crate::fetch)).

use std::sync::Arc;

use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue};

use super::ResourceSetupError;
use super::keys::{Documents, Getting};
use crate::fetch::{FetchOptions, Fetcher};

/// The documents of one issuer.
pub(super) struct Published(Fetcher);

impl Published {
    /// `extra_ca`: trusted authorities beside those of the system, PEM.
    pub(super) fn by(issuer: &str, extra_ca: Vec<Vec<u8>>) -> Result<Self, ResourceSetupError> {
        let options = FetchOptions { extra_ca, ..FetchOptions::default() };
        let fetcher = Fetcher::new(issuer, options);
        fetcher.map(Self).map_err(|error| ResourceSetupError::Verifier(error.to_string()))
    }
}

impl Documents for Published {
    fn get(self: Arc<Self>, url: String) -> Getting {
        Box::pin(async move {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
            let fetched = self.0.get(&url, headers).await.map_err(|error| error.to_string())?;
            match fetched.status.as_u16() {
                200 => Ok(Some(fetched.body)),
                400..=499 => Ok(None),
                status => Err(format!("{url} answers with {status}")),
            }
        })
    }
}
