//! The address of a server over QUIC: `quic://host:port`, and that of an orchestrator, `orchestra://host:port`. What the
//! host and the port lead to, the library finds out.

use std::fmt;

use super::socket::host_and_port;

/// Where a server listens: `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quic(pub(crate) String);

impl Quic {
    /// The address that a word names; otherwise what is wrong with it, without repeating what may be a secret in it.
    pub(crate) fn parse(word: &str) -> Result<Self, String> {
        Self::after("quic", word)
    }

    /// The same for an orchestrator of Orchestra, which is reached over QUIC, too, and speaks something else there.
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
}
