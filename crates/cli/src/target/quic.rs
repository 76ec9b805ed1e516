//! The address of a server over QUIC: `quic://host:port`. Whether the host and the port are ones, the library says.

use std::fmt;

/// Where a server listens: `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quic(pub(crate) String);

impl Quic {
    /// The address that a word names; otherwise what is wrong with it, without repeating what may be a secret in it.
    pub(crate) fn parse(word: &str) -> Result<Self, String> {
        let address = word.split_once("://").filter(|(scheme, _)| scheme.eq_ignore_ascii_case("quic"));
        match address.map(|(_, rest)| rest.strip_suffix('/').unwrap_or(rest)) {
            Some(address) if !address.is_empty() && !address.contains(['/', '?', '#', '@']) => {
                Ok(Self(address.to_owned()))
            }
            _ => {
                Err("write quic://host:port, with nothing before the host and nothing after the port".into())
            }
        }
    }
}

impl fmt::Display for Quic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "quic://{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Quic;

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
            "quic://h:1/mcp",
            "quic://h:1?q",
            "quic://me:hunter2@h:1",
        ] {
            let wrong = Quic::parse(word).unwrap_err();
            assert!(wrong.contains("quic://host:port") && !wrong.contains("hunter2"), "{word}: {wrong}");
        }
        assert_eq!(Quic("h:1".into()).to_string(), "quic://h:1");
    }
}
