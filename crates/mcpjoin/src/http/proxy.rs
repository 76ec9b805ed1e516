//! The proxies of the environment and of the system: which one stands before a server.
//!
//! [`Proxies`] is asked by the connector for every new connection. [`Proxy`] describes the same choice to people and keeps
//! neither a user name nor a password. The rules are those of curl; SOCKS is not spoken. Nothing here connects.

use std::fmt;

use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use mcpjoin_proto::http::origin::Origin;
use url::Url;

/// The variables that name the proxies for `http:`, for `https:` and for all, in both spellings, in their order. There is no
/// standard for them.
pub const VARIABLES: [[&str; 2]; 3] =
    [["HTTP_PROXY", "http_proxy"], ["HTTPS_PROXY", "https_proxy"], ["ALL_PROXY", "all_proxy"]];
/// The variables that name the hosts that are reached without a proxy.
pub const EXCEPTIONS: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// Returns the first of two spellings that is set, even to an empty value, with its value: it is the one in effect.
pub fn first<T>(
    names: [&'static str; 2],
    value: impl Fn(&'static str) -> Option<T>,
) -> Option<(&'static str, T)> {
    names.into_iter().find_map(|name| Some((name, value(name)?)))
}

/// The proxies that the environment and the settings of the system name, as they were when this was made.
#[allow(missing_debug_implementations, reason = "only the crates of this repository see it")]
pub struct Proxies(Matcher);

impl Proxies {
    /// Those that the environment and the system name.
    pub fn from_system() -> Self {
        Self(Matcher::from_system())
    }

    /// The proxy to a destination; `None` where it is connected to directly. No proxy leads back to this machine.
    pub(super) fn intercept(&self, destination: &http::Uri) -> Option<Intercept> {
        let proxy = self.0.intercept(destination)?;
        let origin = Origin::of(&destination.to_string());
        (!origin.is_ok_and(|origin| origin.is_loopback())).then_some(proxy)
    }
}

#[cfg(test)]
impl From<Matcher> for Proxies {
    fn from(matcher: Matcher) -> Self {
        Self(matcher)
    }
}

/// A proxy that is asked in place of the server, as it is described to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Without user and password.
    url: String,
    /// The variable that names it.
    source: &'static str,
    /// It gets a user name and a password.
    #[cfg(unix)]
    named: bool,
}

impl Proxy {
    /// The proxy to a URL, by the environment and the settings of the system.
    pub fn to(url: &Url) -> Option<Self> {
        let destination: http::Uri = url.as_str().parse().ok()?;
        let found = Proxies::from_system().intercept(&destination)?;
        let uri = found.uri();
        let given = source(url.scheme(), uri, |name| std::env::var(name).ok());
        Some(Self {
            url: shown(uri),
            source: given.unwrap_or("the settings of the system"),
            #[cfg(unix)]
            named: found.basic_auth().is_some(),
        })
    }
}

#[cfg(unix)]
impl Proxy {
    /// Its URL, without user and password.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether it gets a user name and a password.
    pub const fn is_told_who_asks(&self) -> bool {
        self.named
    }
}

/// Whether a value of `NO_PROXY` excepts a host.
#[cfg(unix)]
pub fn is_excepted(exceptions: &str, host: &str) -> bool {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let Ok(destination) = format!("http://{host}/").parse::<http::Uri>() else { return false };
    let matcher = Matcher::builder().all("http://proxy.invalid:1").no(exceptions).build();
    matcher.intercept(&destination).is_none()
}

/// The variable that names the proxy found for a scheme.
fn source(
    scheme: &str,
    found: &http::Uri,
    variable: impl Fn(&'static str) -> Option<String>,
) -> Option<&'static str> {
    let [plain, encrypted, all] = VARIABLES;
    let of_scheme = if scheme == "https" { encrypted } else { plain };
    [of_scheme, all].into_iter().find_map(|names| {
        let (name, value) = first(names, &variable)?;
        self::names(&value, found).then_some(name)
    })
}

/// Whether the value of a variable names a proxy.
fn names(value: &str, found: &http::Uri) -> bool {
    let Ok(uri) = value.parse::<http::Uri>() else { return false };
    uri.host().is_some() && uri.host() == found.host() && uri.port_u16() == found.port_u16()
}

fn shown(uri: &http::Uri) -> String {
    let port = uri.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", uri.scheme_str().unwrap_or("http"), uri.host().unwrap_or_default())
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "through the proxy {} of {}", self.url, self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn exceptions_are_names_what_is_below_them_and_networks() {
        for (exceptions, host, excepted) in [
            ("*", "anything", true),
            ("localhost", "LOCALHOST", true),
            (".example.org", "a.example.org", true),
            ("x, example.org", "a.example.org", true),
            ("example.org", "notexample.org", false),
            ("127.0.0.0/8", "127.0.0.1", true),
            ("10.0.0.0/8", "127.0.0.1", false),
            ("::1", "::1", true),
            ("", "localhost", false),
        ] {
            assert_eq!(is_excepted(exceptions, host), excepted, "{exceptions} {host}");
        }
    }

    #[test]
    fn a_proxy_is_named_without_its_user() {
        let found = Matcher::builder().all("http://me:hunter2@proxy.example:3128/x").build();
        let found = found.intercept(&http::Uri::from_static("https://server.example/mcp"));
        let found = found.expect("a proxy").uri().clone();
        assert_eq!(shown(&found), "http://proxy.example:3128");
        assert!(names("http://me:hunter2@proxy.example:3128/x", &found));
        assert!(names("proxy.example:3128", &found));
        assert!(!names("http://proxy.example", &found) && !names("", &found));
    }

    #[test]
    fn the_variable_that_names_a_proxy_is_that_of_the_scheme_or_of_all() {
        let set = |name| match name {
            "http_proxy" => Some("http://plain.example:1".to_owned()),
            "HTTPS_PROXY" => Some("http://encrypted.example:2".to_owned()),
            "ALL_PROXY" => Some("http://all.example:3".to_owned()),
            _ => None,
        };
        for (scheme, found, name) in [
            ("http", "http://plain.example:1", Some("http_proxy")),
            ("https", "http://encrypted.example:2", Some("HTTPS_PROXY")),
            ("https", "http://all.example:3", Some("ALL_PROXY")),
            ("https", "http://plain.example:1", None),
        ] {
            assert_eq!(source(scheme, &http::Uri::from_static(found), set), name, "{scheme} {found}");
        }
    }
}
