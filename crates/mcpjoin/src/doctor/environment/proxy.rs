//! The proxies that variables name: whether each can be one, whether somebody listens there, and what is kept from it.
//!
//! Called by `environment`. It connects to the proxy and asks it for a host that no network has, which shows whether it
//! wants to know who asks. Names and passwords in the variables are said to the proxy alone, and never shown. Which variable counts, and for which host, is what the HTTP client makes of them.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{EnvironmentCheck as Check, EnvironmentFinding, Looked, World};
#[cfg(feature = "http")]
use crate::link::is_excepted;
use crate::link::proxies::{EXCEPTIONS, VARIABLES, first};

/// A proxy is near: it answers sooner.
const BOUND: Duration = Duration::from_secs(3);
/// What a proxy that wants no password does with the question below may take longer, and is not waited for.
const ASKED: Duration = Duration::from_secs(1);
/// A host that [no network has](https://www.rfc-editor.org/rfc/rfc6761#section-6.4).
const NOBODY: &str = "mcpjoin.invalid:443";
/// How a proxy may be spoken to, and the port where none is named.
const SCHEMES: [(&str, u16); 6] =
    [("http", 80), ("https", 443), ("socks4", 1080), ("socks4a", 1080), ("socks5", 1080), ("socks5h", 1080)];

/// Where a proxy is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// From the value of a variable, without user and password.
    fn read(value: &str) -> Result<Self, &'static str> {
        let value = value.trim();
        let (scheme, rest) = value.split_once("://").unwrap_or(("http", value));
        let scheme = scheme.to_ascii_lowercase();
        let Some((_, port)) = SCHEMES.iter().find(|(known, _)| *known == scheme) else {
            return Err("does not begin with http://, https:// or socks5://");
        };
        let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
        let (host, written) = match rest.strip_prefix('[') {
            Some(rest) => match rest.split_once(']') {
                Some((host, after)) => (host, after.strip_prefix(':')),
                None => return Err("has a [ without a ]"),
            },
            None => match rest.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            },
        };
        let port = match written {
            None | Some("") => *port,
            Some(written) => written.parse().map_err(|_| "has a port that is no number up to 65535")?,
        };
        if host.is_empty() {
            return Err("has no host");
        }
        if host.chars().any(|c| c.is_whitespace() || c.is_control() || "\"'<>\\^`{|}".contains(c)) {
            return Err("has a host that cannot be one");
        }
        Ok(Self { host: host.to_owned(), port })
    }

    fn shown(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

pub(super) async fn examine(world: &World) -> Looked {
    let mut looked = Looked::default();
    let named: Vec<&str> = VARIABLES.into_iter().flatten().filter(|name| world.set(name).is_some()).collect();
    if named.is_empty() {
        let why = "no variable names a proxy";
        for check in [Check::ProxyForm, Check::ProxyAgreement, Check::ProxyAnswers, Check::ProxyLocalhost] {
            looked.not_run(check, why);
        }
        looked.detail = why.to_owned();
        return looked;
    }
    for check in [Check::ProxyForm, Check::ProxyAgreement, Check::ProxyAnswers, Check::ProxyLocalhost] {
        looked.pass(check);
    }
    let mut proxies: Vec<(&str, Address)> = Vec::new();
    for name in named {
        match Address::read(&value(world, name)) {
            Ok(address) => proxies.push((name, address)),
            Err(problem) => looked.fail(
                Check::ProxyForm,
                "proxy-malformed",
                format!("{name} {problem}"),
                "some programs ignore it, others fail at their first request",
                format!("write {name}=http://HOST:PORT, or unset it"),
            ),
        }
    }
    agreement(world, &mut looked);
    let answers = looked.findings.is_empty();
    let asked =
        futures_util::future::join_all(distinct(&proxies).into_iter().map(|(name, address)| async move {
            let outcome = match reach(world, &address).await {
                Ok(stream) => Ok(admission(stream, &value(world, name)).await),
                Err(problem) => Err(problem),
            };
            (name, address, outcome)
        }));
    let meaning =
        "whatever goes through it fails: npx and uvx download nothing, and servers elsewhere are not reached";
    for (name, address, outcome) in asked.await {
        let shown = address.shown();
        match outcome {
            Ok(Admission::Open) => {}
            Ok(Admission::Asks) => looked.fail(
                Check::ProxyAnswers,
                "proxy-authorization",
                format!("{name} names the proxy {shown}, which wants to know who asks (407)"),
                meaning,
                format!("put user and password into {name}: http://USER:PASSWORD@{shown}"),
            ),
            Ok(Admission::Refuses) => looked.fail(
                Check::ProxyAnswers,
                "proxy-authorization",
                format!("{name} names the proxy {shown}, which takes neither the user nor the password there (407)"),
                meaning,
                format!("mend user and password in {name}; in them, @ is written %40, : %3A and / %2F"),
            ),
            Err(problem) => looked.fail(
                Check::ProxyAnswers,
                "proxy-unreachable",
                format!("{name} names the proxy {shown}, which {problem}"),
                meaning,
                format!("check the proxy's name and port, or unset {name} where there is none"),
            ),
        }
    }
    if answers {
        localhost(world, &proxies, &mut looked);
    }
    let shown: Vec<String> =
        proxies.iter().map(|(name, address)| format!("{name} {}", address.shown())).collect();
    looked.detail = shown.join(", ");
    looked
}

/// Those that bear on a host.
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

/// Each address once, with the variable that names it first.
fn distinct<'a>(proxies: &[(&'a str, Address)]) -> Vec<(&'a str, Address)> {
    let mut known: Vec<(&str, Address)> = Vec::new();
    for (name, address) in proxies {
        if !known.iter().any(|(_, other)| other == address) {
            known.push((name, address.clone()));
        }
    }
    known
}

/// Where both spellings are set, they have to say the same.
fn agreement(world: &World, looked: &mut Looked) {
    for [lower, upper] in VARIABLES.into_iter().chain([EXCEPTIONS]) {
        let (Some(first), Some(second)) = (world.variable(lower), world.variable(upper)) else { continue };
        if first != second {
            looked.fail(
                Check::ProxyAgreement,
                "proxy-disagreement",
                format!("{lower} and {upper} have different values"),
                "some programs read the one and some the other: what one of them reaches, another does not",
                format!("give both the same value, or unset {upper}"),
            );
        }
    }
}

/// Whom a proxy lets through.
enum Admission {
    /// Us, as far as can be seen.
    Open,
    /// Those who say who they are, which the variable does not.
    Asks,
    /// Others than whom the variable names.
    Refuses,
}

/// Asks a proxy that speaks HTTP for a host that is not there. One that says nothing to that in time lets us through, as
/// far as can be seen.
async fn admission(mut stream: TcpStream, value: &str) -> Admission {
    let value = value.trim();
    let scheme = value.split_once("://").map_or("http", |(scheme, _)| scheme);
    if !scheme.eq_ignore_ascii_case("http") {
        return Admission::Open;
    }
    let user = user(value);
    let asked = async {
        let line = user.as_ref().map_or_else(String::new, |user| format!("Proxy-Authorization: {user}\r\n"));
        let request = format!("CONNECT {NOBODY} HTTP/1.1\r\nHost: {NOBODY}\r\n{line}\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.ok()?;
        (status.starts_with(b"HTTP/1.") && status.ends_with(b" 407")).then_some(())
    };
    match (timeout(ASKED, asked).await, user) {
        (Ok(Some(())), None) => Admission::Asks,
        (Ok(Some(())), Some(_)) => Admission::Refuses,
        _ => Admission::Open,
    }
}

/// Who asks, by the variable, as the HTTP client says it.
#[cfg(feature = "http")]
fn user(value: &str) -> Option<String> {
    use hyper_util::client::proxy::matcher::Matcher;
    let server = http::Uri::from_static("https://mcpjoin.invalid/");
    let found = Matcher::builder().all(value).build().intercept(&server)?;
    Some(found.basic_auth()?.to_str().ok()?.to_owned())
}

#[cfg(not(feature = "http"))]
const fn user(_value: &str) -> Option<String> {
    None
}

async fn reach(world: &World, address: &Address) -> Result<TcpStream, String> {
    let asked = async {
        let addresses: Vec<IpAddr> = match address.host.parse() {
            Ok(address) => vec![address],
            Err(_) => {
                world.resolve(&address.host).await.map_err(|error| format!("was not resolved: {error}"))?
            }
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "it has no address");
        for ip in addresses {
            match TcpStream::connect((ip, address.port)).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(match last.kind() {
            io::ErrorKind::ConnectionRefused => "refuses the connection: nobody listens there".to_owned(),
            _ => format!("was not reached: {last}"),
        })
    };
    timeout(BOUND, asked)
        .await
        .unwrap_or_else(|_| Err(format!("did not answer within {} s", BOUND.as_secs())))
}

/// What is named as an exception, in the spelling that counts.
fn exceptions(world: &World) -> String {
    let value = |name| world.variable(name).map(|value| value.to_string_lossy().into_owned());
    first(EXCEPTIONS, value).map(|(_, value)| value).unwrap_or_default()
}

/// Without HTTP nothing goes through a proxy.
#[cfg(not(feature = "http"))]
const fn is_excepted(_exceptions: &str, _host: &str) -> bool {
    true
}

/// What is on this machine must not be looked for behind the proxy.
fn localhost(world: &World, proxies: &[(&str, Address)], looked: &mut Looked) {
    let plain = proxies.iter().find(|(name, _)| !name.eq_ignore_ascii_case("https_proxy"));
    let Some((name, _)) = plain else {
        return;
    };
    let exceptions = exceptions(world);
    let hosts = ["localhost", "127.0.0.1"];
    let covered = hosts.map(|host| is_excepted(&exceptions, host));
    match covered {
        [false, false] => looked.fail(
            Check::ProxyLocalhost,
            "proxy-for-localhost",
            format!("{name} is set, and NO_PROXY does not name localhost"),
            "programs that keep to it look for servers on this machine behind the proxy (mcpjoin itself does not)",
            "NO_PROXY=localhost,127.0.0.1,::1 and the same for no_proxy",
        ),
        [true, true] => {}
        [first, _] => {
            let other = if first { hosts[1] } else { hosts[0] };
            let note = format!("NO_PROXY does not name {other}: some programs look for it behind the proxy");
            looked.notes.push(note);
        }
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
            ("HTTP://p@ss@host", "host:80"),
        ] {
            assert_eq!(Address::read(value).unwrap().shown(), shown, "{value}");
        }
        for value in [
            "",
            "http://",
            "ftp://host:1",
            "http://host:99999",
            "http://host:hunter2",
            "http://a b:1",
            "http://[::1",
        ] {
            let problem = Address::read(value).unwrap_err();
            assert!(!problem.contains("hunter2"), "{problem}");
        }
    }

    #[cfg(feature = "http")]
    #[test]
    fn what_is_read_here_is_what_the_client_reads() {
        use hyper_util::client::proxy::matcher::Matcher;
        let server = http::Uri::from_static("https://server.example/mcp");
        for value in [
            "http://me:hunter2@proxy.example:3128/",
            "proxy.example:3128",
            "socks5h://[::1]:9",
            "HTTP://p@host:8080",
            "ftp://host:1",
            "htp://host:1",
            "http://a b:1",
            "http://",
        ] {
            let found = Matcher::builder().all(value).build().intercept(&server);
            let theirs = found.map(|found| {
                (
                    found.uri().host().unwrap_or_default().trim_matches(['[', ']']).to_owned(),
                    found.uri().port_u16(),
                )
            });
            let ours = Address::read(value).ok().map(|address| (address.host, Some(address.port)));
            assert_eq!(ours, theirs, "{value}");
        }
    }
}
