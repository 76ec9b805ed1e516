//! Connections from this machine: the proxies that variables name, and loopback.
//!
//! Used by `environment`. A proxy is connected to, and gets a request for a host that does not exist, which shows whether it
//! requires credentials. Those in the variables are sent to the proxy only, and never shown. Which variable counts for which
//! host is decided by the HTTP client. For loopback it listens on a free port for a moment and connects to itself.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use futures_util::future::join_all;
use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::super::findings::Kind;
use super::faults::*;
use super::{CheckResults, EnvironmentCheck as Check, EnvironmentFinding, World};
use mcpjoin::internal::{
    PROXY_EXCEPTIONS, PROXY_VARIABLES, first_variable, is_proxy_excepted as is_excepted,
};

/// How long connecting to a proxy may take, and resolving its name.
const PROXY_CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a proxy may take to refuse a request. One that requires no credentials may take longer, and passes.
const PROXY_RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);
/// A host that [does not exist](https://www.rfc-editor.org/rfc/rfc6761#section-6.4).
const UNKNOWN_HOST: &str = "mcpjoin.invalid:443";
/// The schemes of proxies, and the default port of each.
const SCHEMES: [(&str, u16); 6] =
    [("http", 80), ("https", 443), ("socks4", 1080), ("socks4a", 1080), ("socks5", 1080), ("socks5h", 1080)];
const PROXY_CHECKS: [Check; 4] =
    [Check::ProxyForm, Check::ProxyAgreement, Check::ProxyAnswers, Check::ProxyLocalhost];
/// How long a connection from this machine to itself may take, and resolving `localhost`.
const LOOPBACK_TIMEOUT: Duration = Duration::from_secs(3);
const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// The address of a proxy, and the credentials that its variable contains.
struct Proxy {
    host: String,
    port: u16,
    /// The value of `Proxy-Authorization`, for a proxy that speaks HTTP.
    credentials: Option<String>,
    /// Whether it speaks HTTP without TLS.
    is_http: bool,
}

impl Proxy {
    /// Parses the value of a variable, as the HTTP client does. The error contains no part of the value.
    fn parse(value: &str) -> Result<Self, &'static str> {
        let value = value.trim();
        let (scheme, _) = value.split_once("://").unwrap_or(("http", value));
        let known = SCHEMES.iter().find(|(known, _)| scheme.eq_ignore_ascii_case(known));
        let Some((scheme, default_port)) = known else {
            return Err("does not begin with http://, https:// or socks5://");
        };
        let server = Uri::from_static("https://server.invalid/");
        let found = Matcher::builder().all(value).build().intercept(&server);
        let found = found.ok_or("has an invalid host or port")?;
        let (address, host) = (found.uri().authority(), found.uri().host().unwrap_or_default());
        // The matcher keeps a port that is no number as text, and gives no port.
        let written = address.map_or("", |address| address.as_str()).trim_end_matches(':');
        if host.is_empty() || found.uri().port_u16().is_none() && written != host {
            return Err("has an invalid host or port");
        }
        let credentials = found.basic_auth().and_then(|credentials| credentials.to_str().ok());
        Ok(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: found.uri().port_u16().unwrap_or(*default_port),
            credentials: credentials.map(str::to_owned),
            is_http: *scheme == "http",
        })
    }

    fn shown(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// Checks the proxies that variables name.
pub(super) async fn proxies(world: &World) -> CheckResults {
    let mut results = CheckResults::default();
    let named = PROXY_VARIABLES.into_iter().flatten().filter(|name| world.set(name).is_some());
    let named: Vec<&str> = named.collect();
    if named.is_empty() {
        let why = "no proxy variable is set";
        PROXY_CHECKS.into_iter().for_each(|check| results.not_run(check, why));
        results.detail = why.to_owned();
        return results;
    }
    PROXY_CHECKS.into_iter().for_each(|check| results.pass(check));
    let mut proxies: Vec<(&str, Proxy)> = Vec::new();
    for name in named {
        match Proxy::parse(&value(world, name).unwrap_or_default()) {
            Ok(proxy) => proxies.push((name, proxy)),
            Err(problem) => {
                let finding = PROXY_MALFORMED.found(format!("{name} {problem}"), &[("variable", name)]);
                results.fail(finding);
            }
        }
    }
    // Where both spellings of a variable are set, they need the same value.
    for [lower, upper] in PROXY_VARIABLES.into_iter().chain([PROXY_EXCEPTIONS]) {
        let (Some(first), Some(second)) = (world.variable(lower), world.variable(upper)) else { continue };
        if first != second {
            let seen = format!("{lower} and {upper} have different values");
            results.fail(PROXY_DISAGREEMENT.found(seen, &[("variable", upper)]));
        }
    }
    let is_well_formed = results.findings.is_empty();
    // Each address once, with the first variable that names it.
    let mut known = HashSet::new();
    let distinct = proxies.iter().filter(|(_, proxy)| known.insert(proxy.shown()));
    let problems = join_all(distinct.map(|(name, proxy)| async move {
        let problem = match connect(world, proxy).await {
            Ok(stream) => refusal(stream, proxy).await,
            Err(problem) => Some((PROXY_UNREACHABLE, problem)),
        };
        (*name, proxy.shown(), problem)
    }));
    for (name, shown, problem) in problems.await {
        if let Some((kind, problem)) = problem {
            let seen = format!("{name} names the proxy {shown}, which {problem}");
            results.fail(kind.found(seen, &[("variable", name), ("proxy", &shown)]));
        }
    }
    if is_well_formed {
        proxied_localhost(world, &proxies, &mut results);
    }
    let shown = proxies.iter().map(|(name, proxy)| format!("{name} {}", proxy.shown()));
    results.detail = shown.collect::<Vec<_>>().join(", ");
    results
}

/// The faults of proxies that affect connections to a host.
pub(super) async fn about_host(world: &World, host: &str, encrypted: bool) -> Vec<EnvironmentFinding> {
    let (wanted, other) = if encrypted { (1, 0) } else { (0, 1) };
    let is_set = |names| {
        first_variable(names, |name| world.variable(name)).is_some_and(|(_, value)| !value.is_empty())
    };
    let is_used = is_set(PROXY_VARIABLES[wanted]) || is_set(PROXY_VARIABLES[2]);
    if !is_used || is_this_machine(host) || is_excepted(&exceptions(world), host) {
        return Vec::new();
    }
    // The variable of the other scheme is not read, and the one for all schemes only without one for this scheme.
    let mut unread = PROXY_VARIABLES[other].to_vec();
    if is_set(PROXY_VARIABLES[wanted]) {
        unread.extend(PROXY_VARIABLES[2]);
    }
    let world = unread.into_iter().fold(world.clone(), World::without_variable);
    let mut findings = proxies(&world).await.findings;
    findings.retain(|finding| finding.check != Check::ProxyLocalhost);
    findings
}

/// Whether a host is this machine.
pub(super) fn is_this_machine(host: &str) -> bool {
    let is_loopback = |address: IpAddr| address.is_loopback();
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_loopback)
}

fn value(world: &World, name: &str) -> Option<String> {
    world.variable(name).map(|value| value.to_string_lossy().into_owned())
}

/// Sends an HTTP proxy a request for a host that does not exist. Returns the fault, and what the proxy did, if it refuses our
/// credentials or requires some. A proxy that does not respond in time has no fault.
async fn refusal(mut stream: TcpStream, proxy: &Proxy) -> Option<(Kind<Check>, String)> {
    if !proxy.is_http {
        return None;
    }
    let credentials = proxy.credentials.as_ref();
    let line = credentials.map_or_else(String::new, |value| format!("Proxy-Authorization: {value}\r\n"));
    let request = format!("CONNECT {UNKNOWN_HOST} HTTP/1.1\r\nHost: {UNKNOWN_HOST}\r\n{line}\r\n");
    let exchange = async {
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.ok()?;
        Some(status.starts_with(b"HTTP/1.") && status.ends_with(b" 407"))
    };
    let is_refused = timeout(PROXY_RESPONSE_TIMEOUT, exchange).await.ok().flatten().unwrap_or_default();
    is_refused.then(|| match credentials {
        None => (PROXY_ASKS, "requires a user and a password (407)".to_owned()),
        Some(_) => (PROXY_REFUSES, "rejects the user or the password (407)".to_owned()),
    })
}

async fn connect(world: &World, proxy: &Proxy) -> Result<TcpStream, String> {
    let connecting = async {
        let addresses: Vec<IpAddr> = match proxy.host.parse() {
            Ok(address) => vec![address],
            Err(_) => (world.resolve)(proxy.host.clone())
                .await
                .map_err(|error| format!("cannot be resolved: {error}"))?,
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "has no address");
        for ip in addresses {
            match TcpStream::connect((ip, proxy.port)).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(match last.kind() {
            io::ErrorKind::ConnectionRefused => "refuses the connection: nothing listens there".to_owned(),
            _ => format!("cannot be reached: {last}"),
        })
    };
    let late = || format!("did not answer within {} s", PROXY_CONNECT_TIMEOUT.as_secs());
    timeout(PROXY_CONNECT_TIMEOUT, connecting).await.unwrap_or_else(|_| Err(late()))
}

/// The hosts that are reached without a proxy, in the spelling of the variable that counts.
fn exceptions(world: &World) -> String {
    first_variable(PROXY_EXCEPTIONS, |name| value(world, name)).map(|(_, value)| value).unwrap_or_default()
}

/// Checks that servers on this machine are reached without the proxy.
fn proxied_localhost(world: &World, proxies: &[(&str, Proxy)], results: &mut CheckResults) {
    let plain = proxies.iter().find(|(name, _)| !name.eq_ignore_ascii_case("https_proxy"));
    let Some((name, _)) = plain else { return };
    let exceptions = exceptions(world);
    let hosts = ["localhost", "127.0.0.1"];
    match hosts.map(|host| is_excepted(&exceptions, host)) {
        [false, false] => {
            let seen = format!("{name} is set, but NO_PROXY does not contain localhost");
            results.fail(PROXY_FOR_LOCALHOST.found(seen, &[]));
        }
        [true, true] => {}
        [of_name, _] => {
            let missing = hosts[usize::from(of_name)];
            results.notes.push(format!(
                "NO_PROXY does not contain {missing}: some programs connect to it through the proxy"
            ));
        }
    }
}

/// Whether an address of this machine can be reached.
#[derive(PartialEq, Eq)]
enum Reached {
    Yes,
    /// This machine has no such address.
    NoAddress,
    No(String),
}

/// Checks connections from this machine to itself, and the name `localhost`.
pub(super) async fn loopback(world: &World) -> CheckResults {
    let mut results = CheckResults::default();
    let names = timeout(LOOPBACK_TIMEOUT, (world.resolve)("localhost".to_owned()));
    let (v4, v6, names) = tokio::join!(reach(world, V4), reach(world, V6), names);
    let mut shown = Vec::new();
    for (check, kind, address, reached) in
        [(Check::LoopbackV4, LOOPBACK_V4, V4, &v4), (Check::LoopbackV6, LOOPBACK_V6, V6, &v6)]
    {
        match reached {
            Reached::Yes => {
                results.pass(check);
                shown.push(address.to_string());
            }
            Reached::NoAddress if address == V6 => results.not_run(check, "this machine has no IPv6"),
            Reached::NoAddress => {
                let advice = ("advice", "bring up the loopback interface: ip link set lo up");
                results.fail(kind.found(format!("this machine has no {address}"), &[advice]));
            }
            Reached::No(why) => {
                let advice = ("advice", "check the firewall rules for the interface lo");
                let seen = format!("a connection from {address} to itself {why}");
                results.fail(kind.found(seen, &[advice]));
            }
        }
    }
    let unresolved = match names {
        Ok(Ok(addresses)) => {
            let works =
                |address: &IpAddr| if address.is_ipv4() { v4 == Reached::Yes } else { v6 == Reached::Yes };
            shown.push(localhost(&mut results, addresses, works));
            results.detail = shown.join(", ");
            return results;
        }
        Ok(Err(error)) => format!("localhost cannot be resolved: {error}"),
        Err(_) => format!("localhost was not resolved within {} s", LOOPBACK_TIMEOUT.as_secs()),
    };
    results.fail(LOCALHOST_UNKNOWN.found(unresolved, &[]));
    results
}

/// Checks the addresses of `localhost`, and returns them as they are shown. `works`: whether this machine can be reached at an
/// address.
fn localhost(
    results: &mut CheckResults,
    mut addresses: Vec<IpAddr>,
    works: impl Fn(&IpAddr) -> bool,
) -> String {
    let mut known = HashSet::new();
    addresses.retain(|address| known.insert(*address));
    let list = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if let Some(elsewhere) = addresses.iter().find(|address| !address.is_loopback()) {
        let seen = format!("localhost is {list}, but {elsewhere} does not belong to this machine");
        results.fail(LOCALHOST_ELSEWHERE.found(seen, &[]));
    } else if addresses.is_empty() {
        results.fail(LOCALHOST_NOWHERE.found("localhost has no address", &[]));
    } else if !addresses.iter().any(&works) && (works(&V4) || works(&V6)) {
        let seen = format!("localhost is {list}, but this machine is unreachable there");
        results.fail(LOCALHOST_UNREACHABLE.found(seen, &[]));
    } else {
        results.pass(Check::Localhost);
        if addresses.len() > 1 && addresses[0].is_ipv6() {
            results.notes.push(format!(
                "localhost is {list}, IPv6 first: clients that try only one address do not find a server \
                 on 127.0.0.1"
            ));
        }
    }
    format!("localhost is {list}")
}

async fn reach(world: &World, address: IpAddr) -> Reached {
    match timeout(LOOPBACK_TIMEOUT, (world.loopback)(address)).await {
        Ok(Ok(())) => Reached::Yes,
        Ok(Err(error)) => match error.kind() {
            // EAFNOSUPPORT has no `ErrorKind`.
            io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported => Reached::NoAddress,
            _ if error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error()) => {
                Reached::NoAddress
            }
            _ => Reached::No(format!("failed: {error}")),
        },
        Err(_) => Reached::No(format!("was not made within {} s", LOOPBACK_TIMEOUT.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_without_credentials() {
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
