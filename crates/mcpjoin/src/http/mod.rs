//! The HTTP client of this crate: one set-up for everything that makes a request.
//!
//! Used by the transport (`transport::http_client`), by `auth`, by `validate` and by `doctor`. They differ only in
//! [`ClientOptions`]. What a request means, redirects, retries and limits on bodies stay with them.
//!
//! ```text
//! Client::send -> pool of connections -> Connector: resolve -> TCP -> (CONNECT) -> TLS -> HTTP/1.1 or HTTP/2 by ALPN
//! ```
//!
//! Invariants: no redirect is followed, no body is decompressed, no cookie is stored, no process-wide TLS provider is
//! installed or needed.

mod certificate;
mod client;
mod connector;
mod error;
mod proxy;
#[cfg(test)]
mod tests;
mod tls;

pub use client::{Body, Taken};
pub use client::{Client, ClientOptions, Response};
pub use connector::{ResolveHook, Resolving};
pub use error::Error;
pub use error::HttpSetupError;
pub use error::find;
pub use error::{describe, is_refused, root};
pub use error::{is_an_authoritys, is_timeout, tls_text, untrusted_issuer};
pub use proxy::{EXCEPTIONS, Proxies, Proxy, VARIABLES, first, is_excepted};
pub use tls::config as tls_config;

use url::Url;

/// A URL for people: without what may be secret in its query.
pub fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let query = if url.query().is_some() { "?..." } else { "" };
    format!("{}://{host}{port}{}{query}", url.scheme(), url.path())
}
