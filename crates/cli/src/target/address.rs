//! The addresses of servers: `http(s)://...`, `sse+http(s)://...` for HTTP+SSE without detection, `quic://host:port`,
//! `orchestra://host:port`, `tcp://host:port` and `unix:/path`.
//!
//! A parse error says what to write and repeats nothing of the address, which may contain a secret. The library resolves names.

use std::fmt;
use std::path::PathBuf;

use mcpjoin::proto::http::origin::{Origin, OriginError};

/// The longest text that is shown as a wrong port.
const MAX_PORT_CHARS: usize = 12;

/// The address of a server over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Http {
    /// The URL with the scheme `http` or `https`. It names no user: see [`Http::parse`].
    pub(crate) url: String,
    /// HTTP+SSE of 2024-11-05 without trying another transport.
    pub(crate) sse: bool,
}

impl Http {
    /// Parses an address.
    pub(crate) fn parse(word: &str) -> Result<Self, String> {
        let (scheme, rest) = word.split_once(':').unwrap_or((word, ""));
        let scheme = scheme.to_ascii_lowercase();
        let (sse, scheme) = match scheme.strip_prefix("sse+") {
            Some(scheme) => (true, scheme),
            None => (false, scheme.as_str()),
        };
        // The part behind a `#` is never sent.
        let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
        let url = format!("{scheme}:{rest}");
        match Origin::of(&url) {
            Ok(_) => Ok(Self { url, sse }),
            Err(error) => Err(match error {
                OriginError::UserInfo => {
                    "leave out the user and the password: they would be sent to the server of the URL".into()
                }
                OriginError::Port => {
                    format!("write http://host:port/path ({})", wrong_port(&url, "from 1 to 65535"))
                }
                error => format!("write http://host:port/path ({error})"),
            }),
        }
    }
}

impl Http {
    /// The same address with the usual path of a server, where this one has no path.
    pub(crate) fn at_mcp(&self) -> Option<Self> {
        let (_, rest) = self.url.split_once("://")?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let has_path = self.sse || authority.contains(['/', '?']);
        (!has_path).then(|| Self { url: format!("{}/mcp", self.url.trim_end_matches('/')), sse: false })
    }
}

impl fmt::Display for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sse = if self.sse { "sse+" } else { "" };
        write!(f, "{sse}{}", self.url)
    }
}

/// The address of a server over QUIC, or of an orchestrator: `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quic(pub(crate) String);

impl Quic {
    /// Parses an address.
    pub(crate) fn parse(word: &str) -> Result<Self, String> {
        Self::after("quic", word)
    }

    /// Parses the address of an orchestrator, which uses another protocol over QUIC.
    pub(crate) fn orchestrator(word: &str) -> Result<Self, String> {
        Self::after("orchestra", word)
    }

    fn after(ours: &str, word: &str) -> Result<Self, String> {
        let address = word.split_once("://").filter(|(scheme, _)| scheme.eq_ignore_ascii_case(ours));
        let address = address.map(|(_, rest)| rest.strip_suffix('/').unwrap_or(rest));
        host_and_port(ours, address.unwrap_or_default()).map(Self)
    }
}

impl fmt::Display for Quic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "quic://{}", self.0)
    }
}

/// The address of a server that listens on a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Socket {
    /// `host:port`
    Tcp(String),
    /// The file of a Unix socket.
    Unix(PathBuf),
}

impl Socket {
    /// Parses an address.
    pub(crate) fn parse(word: &str) -> Result<Self, String> {
        let (scheme, rest) = word.split_once(':').unwrap_or((word, ""));
        match scheme.to_ascii_lowercase().as_str() {
            "tcp" => host_and_port("tcp", rest.strip_prefix("//").unwrap_or_default()).map(Self::Tcp),
            "unix" => {
                // Other programs write `unix:///path`.
                let path = rest.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(rest);
                if path.is_empty() || path.starts_with("//") {
                    return Err("write unix:/path".into());
                }
                Ok(Self::Unix(path.into()))
            }
            _ => Err("write tcp://host:port or unix:/path".into()),
        }
    }
}

/// What a listener is bound to, and a client connects to, whatever protocol they speak there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// A port of TCP.
    Tcp { host: String, port: u16 },
    /// A port of UDP.
    Udp { host: String, port: u16 },
    /// The file of a Unix socket.
    Unix(PathBuf),
}

impl Bound {
    /// That of a URL of HTTP.
    pub(crate) fn of_url(url: &str) -> Option<Self> {
        let origin = Origin::of(url).ok()?;
        Some(Self::Tcp { host: origin.host(), port: origin.port() })
    }

    /// That of `host:port` over TCP.
    pub(crate) fn tcp(address: &str) -> Option<Self> {
        let (host, port) = split(address)?;
        Some(Self::Tcp { host, port })
    }

    /// That of `host:port` over QUIC.
    pub(crate) fn udp(address: &str) -> Option<Self> {
        let (host, port) = split(address)?;
        Some(Self::Udp { host, port })
    }

    /// Whether a client of the address `other` reaches a listener here. Names are not resolved, apart from `localhost`.
    pub(crate) fn is_reached_by(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unix(here), Self::Unix(there)) => {
                let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
                absolute(here) == absolute(there)
            }
            (Self::Tcp { host, port }, Self::Tcp { host: other_host, port: other_port })
            | (Self::Udp { host, port }, Self::Udp { host: other_host, port: other_port }) => {
                // Port 0 is a free port, where no server listens yet.
                *port != 0 && port == other_port && is_one_machine(host, other_host)
            }
            _ => false,
        }
    }
}

fn split(address: &str) -> Option<(String, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    Some((host.to_owned(), port.parse().ok()?))
}

/// Whether a listener at the host `here` is reached by a client of the host `there`.
fn is_one_machine(here: &str, there: &str) -> bool {
    let is_local = |host: &str| host.eq_ignore_ascii_case("localhost");
    let is_loopback = |host: &str| host.starts_with("127.") || host == "[::1]" || is_local(host);
    let is_every = |host: &str| ["0.0.0.0", "[::]"].contains(&host);
    here.eq_ignore_ascii_case(there)
        || is_every(here) && (is_loopback(there) || is_every(there))
        || is_local(here) && ["127.0.0.1", "[::1]"].contains(&there)
        || is_local(there) && ["127.0.0.1", "[::1]"].contains(&here)
}

/// Says what is wrong with the port of an address. `range`: the numbers that it may have. Only a short word is repeated: a longer text
/// may be something else.
fn wrong_port(address: &str, range: &str) -> String {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    let is_plain = port.len() <= MAX_PORT_CHARS && port.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match port {
        "" => "the port is missing".to_owned(),
        port if is_plain => format!("the port {port} is not a number {range}"),
        _ => format!("the port is not a number {range}"),
    }
}

/// Checks `host:port`: the port is a number, and an IPv6 address stands in brackets. Fails with what to write.
fn host_and_port(scheme: &str, address: &str) -> Result<String, String> {
    if address.is_empty() || address.contains(['/', '?', '#', '@']) {
        return Err(format!("write {scheme}://host:port, with nothing before the host or after the port"));
    }
    let wrong = |why: &str| Err(format!("write {scheme}://host:port: {why}"));
    let Some((host, port)) = address.rsplit_once(':') else { return wrong("the port is missing") };
    if port.parse::<u16>().is_err() {
        return wrong(&wrong_port(address, "below 65536"));
    }
    match host.strip_prefix('[').map(|host| host.strip_suffix(']')) {
        Some(Some(host)) if !host.is_empty() => Ok(address.to_owned()),
        Some(_) => wrong("the brackets do not contain an IPv6 address"),
        None if host.is_empty() => wrong("the host is missing"),
        None if host.contains(':') => wrong("an IPv6 address must be in brackets"),
        None => Ok(address.to_owned()),
    }
}

impl fmt::Display for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "tcp://{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bound, Http, Quic, Socket};

    #[test]
    fn an_address_is_a_url_without_a_user() {
        for (word, url, sse) in [
            ("http://localhost/mcp", "http://localhost/mcp", false),
            ("HTTPS://example.com", "https://example.com", false),
            ("http://[::1]:8080/mcp?a=b#part", "http://[::1]:8080/mcp?a=b", false),
            ("sse+http://localhost:1/sse", "http://localhost:1/sse", true),
            ("SSE+https://localhost/sse", "https://localhost/sse", true),
        ] {
            assert_eq!(Http::parse(word), Ok(Http { url: url.into(), sse }), "{word}");
        }
        assert_eq!(Http::parse("sse+http://h/x").unwrap().to_string(), "sse+http://h/x");
        for word in ["http:", "http://", "http:///mcp", "http://h:x/", "http://h:0", "http://a b/", "ftp://h"]
        {
            assert!(Http::parse(word).is_err(), "{word}");
        }
        for word in ["http://me:hunter2@h/", "sse+https://hunter2@h/sse"] {
            let problem = Http::parse(word).unwrap_err();
            assert!(problem.contains("password") && !problem.contains("hunter2"), "{problem}");
        }
    }

    #[test]
    fn an_address_without_a_path_has_the_usual_one() {
        for (word, url) in [
            ("http://h:1", Some("http://h:1/mcp")),
            ("https://h/", Some("https://h/mcp")),
            ("http://[::1]:1/", Some("http://[::1]:1/mcp")),
            ("http://h/mcp", None),
            ("http://h//", None),
            ("http://h?a=b", None),
            ("sse+http://h", None),
        ] {
            assert_eq!(
                Http::parse(word).unwrap().at_mcp().map(|http| http.url),
                url.map(str::to_owned),
                "{word}"
            );
        }
    }

    #[test]
    fn an_address_is_a_host_and_a_port_and_nothing_else() {
        for (word, address) in [("quic://localhost:80", "localhost:80"), ("QUIC://[::1]:1/", "[::1]:1")] {
            assert_eq!(Quic::parse(word), Ok(Quic(address.into())), "{word}");
        }
        for word in [
            "quic",
            "quic:",
            "quic://",
            "quic:h:1",
            "quic://h",
            "quic://h:x",
            "quic://h:1/mcp",
            "quic://h:1?q",
            "quic://me:hunter2@h:1",
        ] {
            let wrong = Quic::parse(word).unwrap_err();
            assert!(wrong.contains("quic://host:port") && !wrong.contains("hunter2"), "{word}: {wrong}");
        }
        assert_eq!(Quic("h:1".into()).to_string(), "quic://h:1");
        assert_eq!(Quic::orchestrator("ORCHESTRA://h:1"), Ok(Quic("h:1".into())));
        assert!(Quic::orchestrator("quic://h:1").unwrap_err().contains("orchestra://host:port"));
    }

    #[test]
    fn a_listener_is_reached_at_its_own_address() {
        let reached = |here: &str, there: &str| {
            let of = |word: &str| Bound::of_url(word).or_else(|| Bound::tcp(word)).unwrap();
            of(here).is_reached_by(&of(there))
        };
        for (here, there) in [
            ("http://localhost:8080/mcp", "http://LOCALHOST:8080/other"),
            ("http://127.0.0.1:8080/mcp", "http://localhost:8080"),
            ("http://localhost:8080/mcp", "https://[::1]:8080/mcp"),
            ("http://localhost:8080/mcp", "http://[0:0:0:0:0:0:0:1]:8080/mcp"),
            ("http://0.0.0.0:8080/mcp", "127.0.0.1:8080"),
            ("[::]:8080", "http://localhost:8080/mcp"),
            ("http://example.com/mcp", "http://example.com:80/mcp"),
        ] {
            assert!(reached(here, there), "{here} {there}");
        }
        for (here, there) in [
            ("http://localhost:8080/mcp", "http://localhost:8081/mcp"),
            ("http://127.0.0.1:8080/mcp", "http://[::1]:8080/mcp"),
            ("http://localhost:8080/mcp", "http://example.com:8080/mcp"),
            ("127.0.0.1:0", "127.0.0.1:0"),
        ] {
            assert!(!reached(here, there), "{here} {there}");
        }
        assert!(!Bound::udp("h:1").unwrap().is_reached_by(&Bound::tcp("h:1").unwrap()));
        assert!(Bound::Unix("./a".into()).is_reached_by(&Bound::Unix("a".into())));
    }

    #[test]
    fn an_address_is_a_port_or_a_file() {
        for (word, socket) in [
            ("tcp://localhost:80", Socket::Tcp("localhost:80".into())),
            ("TCP://[::1]:1", Socket::Tcp("[::1]:1".into())),
            ("unix:/run/x.sock", Socket::Unix("/run/x.sock".into())),
            ("unix:///run/x.sock", Socket::Unix("/run/x.sock".into())),
            ("unix:x.sock", Socket::Unix("x.sock".into())),
        ] {
            assert_eq!(Socket::parse(word), Ok(socket), "{word}");
        }
        for word in [
            "",
            "tcp",
            "tcp:",
            "tcp://",
            "tcp:localhost:80",
            "tcp://localhost",
            "tcp://localhost:",
            "tcp://:80",
            "tcp://localhost:65536",
            "tcp://localhost:http",
            "tcp://::1:80",
            "tcp://[::1]",
            "tcp://[]:80",
            "tcp://localhost:80/",
            "tcp://localhost:80/mcp",
            "tcp://h:1?q",
            "tcp://me:hunter2@h:1",
            "unix:",
            "unix://host/path",
            "http://h:1",
        ] {
            let problem = Socket::parse(word).unwrap_err();
            assert!(!problem.contains("hunter2"), "{problem}");
        }
    }
}
