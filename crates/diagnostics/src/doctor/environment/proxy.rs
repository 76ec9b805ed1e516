//! The proxies that variables name: whether each can be one, accepts a connection and our credentials, and is left out for
//! this machine.
//!
//! Used by `environment`. It connects to the proxy and sends a request for a host that no network has, which shows whether
//! it wants credentials. Those in the variables are sent to the proxy alone, and never shown. Which variable counts, and for
//! which host, is decided by the rules of the HTTP client.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::faults::{
    Fault, PROXY_ASKS, PROXY_DISAGREEMENT, PROXY_FOR_LOCALHOST, PROXY_MALFORMED, PROXY_REFUSES,
    PROXY_UNREACHABLE,
};
use super::{CheckResults, EnvironmentCheck as Check, EnvironmentFinding, World};
use mcpjoin::internal::{
    PROXY_EXCEPTIONS as EXCEPTIONS, PROXY_VARIABLES as VARIABLES, first_variable as first,
    is_proxy_excepted as is_excepted,
};

/// A proxy is near: it accepts a connection sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// A proxy that wants no password may take longer to answer, and is not waited for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// A host that [no network has](https://www.rfc-editor.org/rfc/rfc6761#section-6.4).
const UNKNOWN_HOST: &str = "mcpjoin.invalid:443";
/// The schemes of proxies, and the port of each where none is written.
const SCHEMES: [(&str, u16); 6] =
    [("http", 80), ("https", 443), ("socks4", 1080), ("socks4a", 1080), ("socks5", 1080), ("socks5h", 1080)];

/// Where a proxy is, and the credentials that its variable holds.
struct Proxy {
    host: String,
    port: u16,
    /// The value of `Proxy-Authorization`, for a proxy that speaks HTTP.
    credentials: Option<String>,
}

impl Proxy {
    /// The proxy in the value of a variable, as the HTTP client reads it. The problem names no part of the value.
    fn parse(value: &str) -> Result<Self, &'static str> {
        let value = value.trim();
        let (scheme, _) = value.split_once("://").unwrap_or(("http", value));
        let Some((_, port)) = SCHEMES.iter().find(|(known, _)| scheme.eq_ignore_ascii_case(known)) else {
            return Err("does not begin with http://, https:// or socks5://");
        };
        let server = Uri::from_static("https://server.invalid/");
        let found = Matcher::builder().all(value).build().intercept(&server);
        let found = found.ok_or("has a host or a port that cannot be one")?;
        let (address, host) = (found.uri().authority(), found.uri().host().unwrap_or_default());
        // A port that is no number is kept as text there, and not given as a port.
        let written = address.map_or("", |address| address.as_str()).trim_end_matches(':');
        if host.is_empty() || found.uri().port_u16().is_none() && written != host {
            return Err("has a host or a port that cannot be one");
        }
        let credentials = found.basic_auth().and_then(|credentials| credentials.to_str().ok());
        Ok(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: found.uri().port_u16().unwrap_or(*port),
            credentials: credentials.map(str::to_owned),
        })
    }

    fn shown(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

const CHECKS: [Check; 4] =
    [Check::ProxyForm, Check::ProxyAgreement, Check::ProxyAnswers, Check::ProxyLocalhost];

pub(super) async fn examine(world: &World) -> CheckResults {
    let mut results = CheckResults::default();
    let named: Vec<&str> = VARIABLES.into_iter().flatten().filter(|name| world.set(name).is_some()).collect();
    if named.is_empty() {
        let why = "no variable names a proxy";
        CHECKS.into_iter().for_each(|check| results.not_run(check, why));
        results.detail = why.to_owned();
        return results;
    }
    CHECKS.into_iter().for_each(|check| results.pass(check));
    let mut proxies: Vec<(&str, Proxy)> = Vec::new();
    for name in named {
        match Proxy::parse(&value(world, name)) {
            Ok(proxy) => proxies.push((name, proxy)),
            Err(problem) => {
                let finding = PROXY_MALFORMED.found(format!("{name} {problem}"), &[("variable", name)]);
                results.fail(finding);
            }
        }
    }
    agreement(world, &mut results);
    let is_well_formed = results.findings.is_empty();
    // Each address once, with the variable that names it first.
    let mut known = std::collections::HashSet::new();
    let distinct = proxies.iter().filter(|(_, proxy)| known.insert(proxy.shown()));
    let asked = futures_util::future::join_all(distinct.map(|(name, proxy)| async move {
        let problem = match connect(world, proxy).await {
            Ok(stream) => admission(stream, proxy, &value(world, name)).await,
            Err(problem) => Some((PROXY_UNREACHABLE, problem)),
        };
        (*name, proxy.shown(), problem)
    }));
    for (name, shown, problem) in asked.await {
        if let Some((fault, problem)) = problem {
            let seen = format!("{name} names the proxy {shown}, which {problem}");
            results.fail(fault.found(seen, &[("variable", name), ("proxy", &shown)]));
        }
    }
    if is_well_formed {
        localhost(world, &proxies, &mut results);
    }
    let shown = proxies.iter().map(|(name, address)| format!("{name} {}", address.shown()));
    results.detail = shown.collect::<Vec<_>>().join(", ");
    results
}

/// The faults that affect connections to a host.
pub(super) async fn about(world: &World, host: &str, encrypted: bool) -> Vec<EnvironmentFinding> {
    let (wanted, other) = if encrypted { (1, 0) } else { (0, 1) };
    let is_set =
        |names| first(names, |name| world.variable(name)).is_some_and(|(_, value)| !value.is_empty());
    let used = is_set(VARIABLES[wanted]) || is_set(VARIABLES[2]);
    let here = is_here(host);
    // None leads back to this machine.
    if !used || here || is_excepted(&exceptions(world), host) {
        return Vec::new();
    }
    // The other scheme has its own, and the one for all counts where there is none for this scheme.
    let mut unread = VARIABLES[other].to_vec();
    if is_set(VARIABLES[wanted]) {
        unread.extend(VARIABLES[2]);
    }
    let world = unread.into_iter().fold(world.clone(), World::without_variable);
    let mut findings = examine(&world).await.findings;
    findings.retain(|finding| finding.check != Check::ProxyLocalhost);
    findings
}

/// Whether a host is this machine.
pub(super) fn is_here(host: &str) -> bool {
    let is_loopback = |address: IpAddr| address.is_loopback();
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_loopback)
}

fn value(world: &World, name: &str) -> String {
    world.variable(name).map(|value| value.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Where both spellings are set, they need the same value.
fn agreement(world: &World, results: &mut CheckResults) {
    for [lower, upper] in VARIABLES.into_iter().chain([EXCEPTIONS]) {
        let (Some(first), Some(second)) = (world.variable(lower), world.variable(upper)) else { continue };
        if first != second {
            let seen = format!("{lower} and {upper} have different values");
            results.fail(PROXY_DISAGREEMENT.found(seen, &[("variable", upper)]));
        }
    }
}

/// Sends a proxy that speaks HTTP a request for a host that is not there. Gives the fault, and what the proxy did, when it
/// wants credentials that the variable does not have. A proxy that does not answer in time has no fault.
async fn admission(mut stream: TcpStream, proxy: &Proxy, value: &str) -> Option<(Fault, String)> {
    let value = value.trim();
    let scheme = value.split_once("://").map_or("http", |(scheme, _)| scheme);
    if !scheme.eq_ignore_ascii_case("http") {
        return None;
    }
    let credentials = proxy.credentials.as_ref();
    let line = credentials.map_or_else(String::new, |value| format!("Proxy-Authorization: {value}\r\n"));
    let request = format!("CONNECT {UNKNOWN_HOST} HTTP/1.1\r\nHost: {UNKNOWN_HOST}\r\n{line}\r\n");
    let asked = async {
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.ok()?;
        Some(status.starts_with(b"HTTP/1.") && status.ends_with(b" 407"))
    };
    let is_refused = timeout(ANSWER_TIMEOUT, asked).await.ok().flatten().unwrap_or_default();
    is_refused.then(|| match credentials {
        None => (PROXY_ASKS, "wants to know who asks (407)".to_owned()),
        Some(_) => (PROXY_REFUSES, "takes neither the user nor the password there (407)".to_owned()),
    })
}

async fn connect(world: &World, proxy: &Proxy) -> Result<TcpStream, String> {
    let asked = async {
        let addresses: Vec<IpAddr> = match proxy.host.parse() {
            Ok(address) => vec![address],
            Err(_) => {
                world.resolve(&proxy.host).await.map_err(|error| format!("was not resolved: {error}"))?
            }
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "it has no address");
        for ip in addresses {
            match TcpStream::connect((ip, proxy.port)).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(match last.kind() {
            io::ErrorKind::ConnectionRefused => "refuses the connection: nobody listens there".to_owned(),
            _ => format!("was not reached: {last}"),
        })
    };
    timeout(CONNECT_TIMEOUT, asked)
        .await
        .unwrap_or_else(|_| Err(format!("did not answer within {} s", CONNECT_TIMEOUT.as_secs())))
}

/// What is named as an exception, in the spelling that counts.
fn exceptions(world: &World) -> String {
    let value = |name| world.variable(name).map(|value| value.to_string_lossy().into_owned());
    first(EXCEPTIONS, value).map(|(_, value)| value).unwrap_or_default()
}

/// What is on this machine must not be looked for behind the proxy.
fn localhost(world: &World, proxies: &[(&str, Proxy)], results: &mut CheckResults) {
    let plain = proxies.iter().find(|(name, _)| !name.eq_ignore_ascii_case("https_proxy"));
    let Some((name, _)) = plain else { return };
    let exceptions = exceptions(world);
    let hosts = ["localhost", "127.0.0.1"];
    let excepted = hosts.map(|host| is_excepted(&exceptions, host));
    if excepted == [false, false] {
        let seen = format!("{name} is set, and NO_PROXY does not name localhost");
        results.fail(PROXY_FOR_LOCALHOST.found(seen, &[]));
    } else if let Some(place) = excepted.iter().position(|excepted| !excepted) {
        let other = hosts[place];
        let note = format!("NO_PROXY does not name {other}: some programs look for it behind the proxy");
        results.notes.push(note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_nobody_is_named() {
        for (value, shown) in [
            ("http://me:hunter2@proxy.example:3128/", "proxy.example:3128"),
            ("proxy.example:3128", "proxy.example:3128"),
            ("socks5h://[::1]", "[::1]:1080"),
            ("HTTP://p@host", "host:80"),
            ("http://host:", "host:80"),
        ] {
            assert_eq!(Proxy::parse(value).ok().unwrap().shown(), shown, "{value}");
        }
        for value in [
            "",
            "http://",
            "ftp://host:1",
            "http://host:99999",
            "http://host:hunter2",
            "http://hunter2@ss@host",
            "http://a b:1",
            "http://[::1",
        ] {
            let problem = Proxy::parse(value).err().unwrap();
            assert!(!problem.contains("hunter2"), "{problem}");
        }
    }
}
