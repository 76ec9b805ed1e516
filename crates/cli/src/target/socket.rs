//! The address of a socket: `tcp://host:port`, `unix:/path`. What the host and the port lead to, the library finds out.

use std::fmt;
use std::path::PathBuf;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Socket {
    /// `host:port`
    Tcp(String),
    /// The file of a Unix socket.
    Unix(PathBuf),
}

impl Socket {
    /// The address that a word names; otherwise what is wrong with it, without repeating what may be a secret in it.
    pub(crate) fn parse(word: &str) -> Result<Self, String> {
        let (scheme, rest) = word.split_once(':').unwrap_or((word, ""));
        match scheme.to_ascii_lowercase().as_str() {
            "tcp" => host_and_port("tcp", rest.strip_prefix("//").unwrap_or_default()).map(Self::Tcp),
            "unix" => {
                // `unix:///path` is how others write it.
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

/// `host:port` as it was given, or what to write in its place: a number for the port, and an IPv6 address in brackets.
pub(super) fn host_and_port(scheme: &str, address: &str) -> Result<String, String> {
    if address.is_empty() || address.contains(['/', '?', '#', '@']) {
        return Err(format!(
            "write {scheme}://host:port, with nothing before the host and nothing after the port"
        ));
    }
    let wrong = |why: &str| Err(format!("write {scheme}://host:port: {why}"));
    let Some((host, port)) = address.rsplit_once(':') else { return wrong("it has no port") };
    if port.parse::<u16>().is_err() {
        return wrong("its port is no number below 65536");
    }
    match host.strip_prefix('[').map(|host| host.strip_suffix(']')) {
        Some(Some(host)) if !host.is_empty() => Ok(address.to_owned()),
        Some(_) => wrong("its brackets do not hold an address"),
        None if host.is_empty() => wrong("it has no host"),
        None if host.contains(':') => wrong("an IPv6 address stands in brackets"),
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
    use super::Socket;

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
