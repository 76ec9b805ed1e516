//! Why a request came to nothing, in words that say what a person can do about it.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use hyper_util::client::legacy;
use mcpjoin_proto::session::{TransportError, TransportErrorKind, TransportErrorReason as Reason};
use rustls::CertificateError;
use url::Url;

use super::tls::Untrusted;

/// Any error, as the parts of a connector hand it on.
pub(super) use crate::BoxError;

/// A link over HTTP cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpSetupError {
    /// The URL is none that can be connected to. It is not repeated here: it may hold a password.
    #[error("the URL cannot be used: {0}")]
    Url(String),
    /// A header cannot be sent. Its value is not repeated here.
    #[error("the header {name:?} cannot be sent: {problem}")]
    Header {
        /// Its name.
        name: String,
        /// Why not.
        problem: &'static str,
    },
    /// An extra certificate cannot be read.
    #[error("the extra certificate cannot be used: {0}")]
    Certificate(String),
    /// The client cannot be set up.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(String),
}

/// Why there is no response, or not all of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL cannot be requested.
    #[error("the URL cannot be used in a request")]
    InvalidUrl,
    /// The exchange failed: no connection, or none that lived until the response.
    #[error("no connection, or it was lost before a response")]
    Exchange(#[source] legacy::Error),
    /// Reading the body failed.
    #[error("the response body was cut off")]
    Body(#[source] hyper::Error),
}

impl Error {
    /// Whether no connection was made: the server has seen nothing of the request.
    pub fn is_connect(&self) -> bool {
        matches!(self, Self::Exchange(error) if error.is_connect())
    }
}

/// A name was not resolved.
#[derive(Debug, thiserror::Error)]
#[error("the name cannot be resolved")]
pub(super) struct ResolveError(#[source] pub(super) BoxError);

/// Connecting took longer than it may.
#[derive(Debug, thiserror::Error)]
#[error("connecting timed out")]
pub(super) struct ConnectTimedOut;

/// The names of a certificate that an error repeats.
const MAX_NAMES_SHOWN: usize = 5;

/// The proxy is of another protocol than HTTP.
#[derive(Debug, thiserror::Error)]
#[error("unsupported scheme {0}")]
pub(super) struct ProxySchemeError(pub(super) String);

/// What failed, in which way, and whether the same may succeed later. `proxied`: the connection leads through a proxy.
pub fn describe(error: &Error, url: &Url, connect_timeout: Duration, proxied: bool) -> TransportError {
    let host = url.host_str().unwrap_or_default();
    let unreached = |reason, what: String| {
        TransportError::new(what, true).of(TransportErrorKind::Unreachable).because(reason)
    };
    if !proxied && find::<ResolveError>(error).is_some() {
        let what = format!("the name {host} cannot be resolved: {}", root(error));
        return unreached(Reason::NameNotResolved, what);
    }
    if let Some(tls) = find::<rustls::Error>(error) {
        return of_tls(TransportError::new(tls_text(tls, host), false), tls, proxied);
    }
    if error.is_connect() {
        if is_timeout(error) {
            let reason = if proxied { Reason::ProxyUnreached } else { Reason::ConnectTimedOut };
            return unreached(reason, format!("no connection within {} ms", connect_timeout.as_millis()));
        }
        return match (is_refused(error), proxied) {
            (true, false) => {
                unreached(Reason::ConnectionRefused, "connection refused: nothing listens there".into())
            }
            (true, true) => {
                unreached(Reason::ProxyUnreached, "connection refused: no proxy listens there".into())
            }
            (false, false) if url.scheme() == "https" && is_hung_up(error) => {
                let what = format!("the TLS handshake with {host} failed: {}", root(error));
                unreached(Reason::ConnectionLost, what)
            }
            (false, false) => TransportError::new(format!("no connection: {}", root(error)), true)
                .of(TransportErrorKind::Unreachable),
            (false, true) => {
                let what = format!("the proxy could not connect to {host}: {}", root(error));
                unreached(of_proxy(error), what)
            }
        };
    }
    if find::<hyper::Error>(error).is_some_and(hyper::Error::is_parse) {
        // hyper ends these texts with "parsed".
        let problem = root(error);
        let problem = problem.strip_suffix(" parsed").unwrap_or(&problem);
        let what = format!("the response is not HTTP/1.1: {problem}");
        return TransportError::new(what, false).because(Reason::NoHttp);
    }
    let what = format!("the connection was lost before a response: {}", root(error));
    TransportError::new(what, true).because(Reason::ConnectionLost)
}

/// Adds what TLS has against the server.
fn of_tls(described: TransportError, tls: &rustls::Error, proxied: bool) -> TransportError {
    match tls {
        // Nothing that could be trusted: no further authority helps. It may be the proxy that does not speak TLS.
        rustls::Error::InvalidMessage(_) => {
            let reason = if proxied { Reason::ProxyUnreached } else { Reason::NoTls };
            described.of(TransportErrorKind::Unreachable).because(reason)
        }
        rustls::Error::InvalidCertificate(CertificateError::Other(other)) => {
            let described = described.of(TransportErrorKind::Untrusted);
            match other.0.downcast_ref::<Untrusted>() {
                Some(Untrusted { self_signed: true, .. }) => described.because(Reason::SelfSigned),
                Some(_) => described.because(Reason::UnknownIssuer),
                None => described,
            }
        }
        _ => described.of(TransportErrorKind::Untrusted),
    }
}

/// Why a proxy has made no connection.
fn of_proxy(error: &Error) -> Reason {
    if find::<ProxySchemeError>(error).is_some() {
        return Reason::ProxyScheme;
    }
    // The type of that error is private to hyper-util, and its text is all that there is of it.
    match root(error).contains("proxy authorization required") {
        true => Reason::ProxyAuthorization,
        false => Reason::ProxyRefused,
    }
}

/// Whether nothing listens there.
pub fn is_refused(error: &Error) -> bool {
    let system = find::<io::Error>(error);
    error.is_connect() && system.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Whether time ran out: that of connecting, that of the system, or that of a ping of HTTP/2.
pub fn is_timeout(error: &(dyn StdError + 'static)) -> bool {
    chain(error).any(|error| {
        error.is::<ConnectTimedOut>()
            || error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_timeout)
            || error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
    })
}

/// Whether the peer has ended a connection that was made.
fn is_hung_up(error: &(dyn StdError + 'static)) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    chain(error)
        .filter_map(|error| error.downcast_ref::<io::Error>())
        .any(|error| matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof))
}

/// What TLS has against the server.
pub fn tls_text(error: &rustls::Error, host: &str) -> String {
    match error {
        rustls::Error::InvalidCertificate(problem) => match problem {
            CertificateError::Other(other) if other.0.is::<Untrusted>() => {
                format!("the certificate of {host} is {} (another CA can be added)", other.0)
            }
            problem if is_an_authoritys(problem) => {
                format!(
                    "the certificate of {host} is the certificate of an authority (CA:TRUE), which a \
                     server may not use"
                )
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                format!("the certificate of {host} has expired")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                format!("the certificate of {host} is not valid yet: check the clocks")
            }
            CertificateError::NotValidForNameContext { presented, .. } if !presented.is_empty() => {
                format!("the certificate is not for {host}, but for {}", names(presented))
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("the certificate is not for {host}: it names no host (subjectAltName)")
            }
            problem => format!("the certificate of {host} is rejected: {problem}"),
        },
        rustls::Error::InvalidMessage(_) => {
            format!("{host} does not speak TLS on that port (http instead of https?): {error}")
        }
        error => format!("TLS with {host} failed: {error}"),
    }
}

/// The names of a certificate, which rustls writes as `DnsName("example.com")`.
fn names(presented: &[String]) -> String {
    let plain = |name: &String| {
        let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
        inner.trim_matches('"').to_owned()
    };
    let shown: Vec<String> = presented.iter().take(MAX_NAMES_SHOWN).map(plain).collect();
    let more = presented.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// Whether a server has shown an authority's certificate as its own. The type of that error is in a crate behind rustls, and
/// its name is all that there is of it.
pub fn is_an_authoritys(problem: &CertificateError) -> bool {
    matches!(problem, CertificateError::Other(other) if other.0.to_string() == "CaUsedAsEndEntity")
}

/// The name of the issuer of a certificate, where the error is that no authority here trusts the issuer, and whether it is
/// self-signed.
#[cfg(unix)]
pub fn untrusted_issuer(error: &CertificateError) -> Option<(String, bool)> {
    match error {
        CertificateError::Other(other) => {
            let Untrusted { issuer, self_signed } = other.0.downcast_ref()?;
            let issuer = issuer.as_deref().unwrap_or("an unnamed issuer");
            Some((issuer.to_owned(), *self_signed))
        }
        _ => None,
    }
}

/// The error of that type in a chain of errors, also where it is wrapped in one of the system.
pub fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    chain(error).find_map(|error| error.downcast_ref())
}

/// The errors of a chain. An error of the system hides what it wraps from `source`.
fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| {
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        }
    })
}

/// The last error of a chain: the cause of all others.
pub fn root(error: &(dyn StdError + 'static)) -> String {
    chain(error).last().unwrap_or(error).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_a_certificate_are_shown_without_their_types() {
        let problem = |presented: &[&str]| {
            let presented = presented.iter().map(|name| (*name).to_owned()).collect();
            let expected = rustls::pki_types::ServerName::try_from("here.example").unwrap();
            let problem = CertificateError::NotValidForNameContext { expected, presented };
            tls_text(&rustls::Error::InvalidCertificate(problem), "here.example")
        };
        assert_eq!(
            problem(&["DnsName(\"a.example\")", "IpAddress(127.0.0.1)"]),
            "the certificate is not for here.example, but for a.example, 127.0.0.1"
        );
        assert_eq!(
            problem(&["a", "b", "c", "d", "e", "f", "g"]),
            "the certificate is not for here.example, but for a, b, c, d, e and 2 more"
        );
        assert!(problem(&[]).ends_with(": it names no host (subjectAltName)"));
    }

    #[derive(Debug, thiserror::Error)]
    #[error("outside")]
    struct Outside(#[source] io::Error);

    #[test]
    fn the_last_error_of_a_chain_is_shown_also_where_a_system_error_hides_it() {
        let last = Outside(io::Error::other("what really happened"));
        assert_eq!(root(&io::Error::other(last)), "what really happened");
    }
}
