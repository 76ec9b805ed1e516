//! The address of a socket: `tcp://host:port`, `unix:/path`. Whether the host and the port are ones, the library says.

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
            "tcp" => match rest.strip_prefix("//") {
                Some(address) if !address.is_empty() && !address.contains(['/', '?', '#', '@']) => {
                    Ok(Self::Tcp(address.to_owned()))
                }
                _ => {
                    Err("write tcp://host:port, with nothing before the host and nothing after the port"
                        .into())
                }
            },
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
